"""What a compile report says about a kernel (language reference, part 3, sections 6.7 and 8.6)."""

from __future__ import annotations

from loom_target_amdgpu.hsaco import CompiledKernel
from loom_target_amdgpu.profiles import Processor, waves_per_simd


def entry(symbol: str, kernel: CompiledKernel, processor: Processor) -> dict[str, object]:
    """The entry of a kernel: its names and the groups of figures that were measured."""
    return {
        "function": symbol,
        "source_function": symbol,
        "target_export_symbol": kernel.image.name,
        "schedule": {"scope_count": kernel.scopes},
        "allocation": {
            "spill_count": kernel.spills,
            "reload_count": kernel.reloads,
            "materialized_copy_count": kernel.moves,
        },
        "wait_plan": _waits(kernel),
        "emission": {"instruction_count": kernel.instruction_count, "code_byte_count": len(kernel.image.code)},
        "memory": {"private_bytes": kernel.scratch_bytes, "local_bytes": kernel.lds_bytes},
        "target_resources": _resources(kernel, processor),
    }


def _waits(kernel: CompiledKernel) -> dict[str, object]:
    counts = kernel.waits
    planned = counts.full + counts.partial
    return {
        "action_count": counts.explicit + planned,
        "explicit_action_count": counts.explicit,
        "planned_action_count": planned,
        "full_drain_count": counts.full,
        "partial_wait_count": counts.partial,
    }


def _resources(kernel: CompiledKernel, processor: Processor) -> dict[str, object]:
    """Final registers and how many waves fit, as far as registers decide that."""
    most = waves_per_simd(processor, processor.wave, 1)
    return {
        "vector": {"register_class": "amdgpu.vgpr", "final_count": kernel.vgprs},
        "scalar": {"register_class": "amdgpu.sgpr", "final_count": kernel.sgprs},
        "subgroup_size": processor.wave,
        "max_subgroups_per_simd": most,
        "resident_subgroups_per_simd": kernel.waves,
        "occupancy_percent": 100 * kernel.waves // most,
        "limiting_resource": "none" if kernel.waves == most else "registers",
    }
