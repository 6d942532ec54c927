"""Rows about registers and schedules of AMD GPU kernels (language reference, part 3, section 8.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from loom.low.descriptors import Descriptor
from loom.low.report_rows import Row, band_rows, band_summary_rows, high_water_rows, pressure_rows
from loom_target_amdgpu.descriptors.encoding import Encoding, rows
from loom_target_amdgpu.hsaco import CompiledKernel
from loom_target_amdgpu.instruction_mix import contribution
from loom_target_amdgpu.profiles import Processor

_BY_NAME: Final = (
    ("v_mov_b", "register-move"),
    ("s_mov_b", "register-move"),
    ("v_accvgpr_", "register-move"),
    ("v_cvt_", "conversion"),
    ("v_dot", "dot"),
    ("flat_", "generic-memory"),
    ("scratch_", "generic-memory"),
    ("buffer_", "generic-memory"),
    ("s_branch", "control"),
    ("s_cbranch", "control"),
)
"""Beginning of a mnemonic -> origin; asked before the class."""
_BY_CLASS: Final = {
    "salu": "scalar-alu",
    "valu": "vector-alu",
    "valu_slow": "vector-alu",
    "trans": "vector-alu",
    "matrix": "matrix",
    "smem": "scalar-memory",
    "lds": "local-memory",
    "vmem": "global-memory",
    "vmem_store": "global-memory",
    "wait": "control",
    "barrier": "barrier",
    "barrier_wait": "barrier",
    "cache": "cache",
}


def origin_of(descriptor: Descriptor) -> str:
    """The origin of a packet; a move of nothing but an immediate is a constant."""
    by_class = _BY_CLASS.get(descriptor.schedule_class, "operation")
    if by_class in ("cache", "barrier", "control"):
        return by_class
    origin = next((origin for start, origin in _BY_NAME if descriptor.mnemonic.startswith(start)), by_class)
    return "constant" if origin == "register-move" and not descriptor.operands else origin


def schedule_details(
    kernels: Sequence[tuple[str, CompiledKernel]], processor: Processor
) -> dict[str, list[dict[str, object]]]:
    """Rows about registers and the schedule, of (symbol, kernel) pairs, by collection."""

    @cache
    def mix_of(descriptor: Descriptor) -> Mapping[str, int]:
        encoding = descriptor.encoding
        assert isinstance(encoding, Encoding)
        counts: Counter[str] = Counter()
        for name, amount in contribution(rows(encoding, processor.family, processor.wave)[0]):
            counts[name] += amount
        return counts

    found: dict[str, list[Row]] = {name: [] for name in ("pressure_rows", "schedule_band_rows")}
    found["allocation_high_water_rows"] = []
    for symbol, kernel in kernels:
        stages = kernel.stages
        found["pressure_rows"] += pressure_rows(symbol, stages.scheduled)
        found["schedule_band_rows"] += band_rows(symbol, stages.scheduled, stages.source_order, origin_of, mix_of)
        found["allocation_high_water_rows"] += high_water_rows(symbol, stages.allocation)
    found["schedule_band_summary_rows"] = list(band_summary_rows(found["schedule_band_rows"]))
    return {name: [{"index": index, **row} for index, row in enumerate(rows)] for name, rows in found.items()}
