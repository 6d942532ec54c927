"""Target profiles: what ``--target=amdgpu:<processor>`` names (language reference, part 3, sections 5.2 to 5.4)."""

from __future__ import annotations

from typing import Final

from loom.plugins.math_policy import ELEMENTARY, MathPolicy
from loom.plugins.records import TargetProfile
from loom_target_amdgpu.descriptors import CONTRACTS
from loom_target_amdgpu.profiles import Processor, processors

FAMILY: Final = "amdgpu"
FORMAT: Final = "amdgpu-hsaco"
_MAX_GRID: Final = (1 << 31) - 1
MATH: Final = MathPolicy("amdgpu.math", dict.fromkeys(ELEMENTARY, frozenset({"f16", "bf16", "f32"})))
"""Selection has sequences of its own for formats up to f32; of f64, roots and arithmetic."""


def facts_of(processor: Processor) -> dict[str, object]:
    """Normalized facts of a processor."""
    generation = processor.require_generation()
    contracts = {processor.contract}
    if processor.generic:
        contracts.add(processors()[processor.generic].contract)
    return {
        "codegen_format": "low_native",
        "artifact_format": "elf",
        "processor": processor.name,
        "contract": processor.contract,
        "contracts": tuple(sorted(c for c in contracts if c)),
        "default_pointer_bitwidth": 64,
        "offset_bitwidth": 64,
        "index_bitwidth": 32,
        "subgroup_size": processor.wave,
        "max_workgroup_size_x": 1024,
        "max_workgroup_size_y": 1024,
        "max_workgroup_size_z": 1024,
        "max_flat_workgroup_size": 1024,
        "max_workgroup_storage_bytes": generation.lds_bytes,
        "max_grid_size_x": _MAX_GRID,
        "max_grid_size_y": 65535,
        "max_grid_size_z": 65535,
        "max_flat_grid_size": (1 << 32) - 1,
        "max_workgroup_count_x": _MAX_GRID,
        "max_workgroup_count_y": 65535,
        "max_workgroup_count_z": 65535,
        "memory_space_generic": 0,
        "memory_space_global": 1,
        "memory_space_workgroup": 3,
        "memory_space_constant": 4,
        "memory_space_private": 5,
        "memory_space_descriptor": 7,
        "matrix": (processor.matrix, *processor.tiles),
        "abi": "hal_kernel",
    }


def profiles() -> list[TargetProfile]:
    """A profile for every processor with a descriptor set."""
    found = []
    for processor in processors().values():
        if not processor.can_compile or processor.contract not in CONTRACTS:
            continue
        found.append(
            TargetProfile(
                family=FAMILY,
                selector=processor.name,
                contract=processor.contract,
                facts=facts_of(processor),
                default_format=FORMAT,
                record=("amdgpu.target", processor.name),
                satisfies=frozenset({processor.name, processor.generic} - {""}),
                scheduler=processor.contract,
                summary=f"{processor.name}, wave{processor.wave}",
                math=MATH,
            )
        )
    return found
