"""Latencies and register limits that the scheduler works with.

Latencies are cycles from issue to a usable result as the scheduler should assume them: short for the scalar ALU,
one pipeline depth for the vector ALU, and for memory long enough that loads start early without filling the
register file. Pressure limits are the register counts up to which the number of resident waves does not drop.
"""

from __future__ import annotations

from typing import Final

from loom.low.schedule import TableModel
from loom_target_amdgpu.profiles import Processor

_LATENCIES: Final = {
    "salu": 2,
    "valu": 5,
    "valu_slow": 9,
    "trans": 10,
    "matrix": 32,
    "smem": 60,
    "lds": 40,
    "vmem": 120,
    "vmem_store": 1,
    "wait": 0,
    "barrier": 1,
    "cache": 1,
    "barrier_wait": 1,
}
_CDNA: Final = {**_LATENCIES, "valu": 4, "valu_slow": 8, "trans": 8}
_BUSY: Final = {
    "trans": (("trans", 4),),
    "valu_slow": (("valu", 4),),
    "matrix": (("matrix", 16),),
    # Four SIMDs share the storage of a workgroup: what takes it two cycles takes a wave eight when all of them ask.
    "lds": (("lds", 8),),
}


def model(processor: Processor) -> TableModel:
    """The schedule model of a processor."""
    generation = processor.require_generation()
    file = processor.vector_file[processor.wave]
    full = file.registers // generation.max_waves // file.granule * file.granule
    # The highest occupancy helps hide memory latency only so far: allow what half the waves leave room for.
    limits = {"amdgpu.vgpr": min(2 * full, 128) - 8, "amdgpu.sgpr": 88, "amdgpu.agpr": 128}
    latencies = _CDNA if generation.agpr_count else _LATENCIES
    return TableModel(latencies=latencies, busy=_BUSY, limits=limits, default_latency=1)
