"""What a compile report says about a kernel (language reference, part 3, sections 6.7 and 8.6)."""

from __future__ import annotations

from collections.abc import Sequence

from loom.low.report_rows import move_causes
from loom_target_amdgpu.hsaco import CompiledKernel
from loom_target_amdgpu.instruction_mix import instruction_mix
from loom_target_amdgpu.profiles import Processor, waves_by_storage, waves_per_simd


def entry(symbol: str, kernel: CompiledKernel, processor: Processor) -> dict[str, object]:
    """The entry of a kernel: its names and the groups of figures that were measured."""
    return {
        "function": symbol,
        "source_function": symbol,
        "target_export_symbol": kernel.image.name,
        "schedule": {
            "scope_count": kernel.scopes,
            "node_count": kernel.nodes,
            "scheduled_node_count": kernel.nodes,
            "dual_issue_count": kernel.inserted.dual_issue,
            "clause_count": kernel.inserted.clauses,
            "delay_count": kernel.inserted.delays,
        },
        "static_instruction_mix": instruction_mix(kernel.blocks),
        "allocation": {
            "spill_count": kernel.spills,
            "reload_count": kernel.reloads,
            "materialized_copy_count": kernel.moves,
        },
        "move_causes": move_causes(kernel.stages.allocation),
        "wait_plan": _waits(kernel),
        "emission": {"instruction_count": kernel.instruction_count, "code_byte_count": len(kernel.image.code)},
        "memory": {"private_bytes": kernel.scratch_bytes, "local_bytes": kernel.lds_bytes},
        "target_resources": _resources(kernel, processor),
    }


def details(kernels: Sequence[tuple[str, CompiledKernel]], processor: Processor) -> dict[str, list[dict[str, object]]]:
    """Collections of rows about single decisions, of (symbol, kernel) pairs."""
    from loom_target_amdgpu.schedule_rows import schedule_details
    from loom_target_amdgpu.wait_rows import wait_rows

    rows = [row for symbol, kernel in kernels for row in wait_rows(symbol, kernel.blocks, processor.family)]
    return {
        "wait_action_rows": [{**row, "index": index} for index, row in enumerate(rows)],
        **schedule_details(kernels, processor),
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
    """Final registers and how many waves fit: registers decide that, and workgroup storage where the size is known."""
    most = waves_per_simd(processor, processor.wave, 1)
    size = kernel.image.metadata.reqd_workgroup_size
    waves, limit = kernel.waves, "none" if kernel.waves == most else "registers"
    if size is not None:
        workgroup_waves = -(-size[0] * size[1] * size[2] // processor.wave)
        stored = waves_by_storage(processor, kernel.lds_bytes, workgroup_waves)
        if stored is not None and stored < waves:
            waves, limit = stored, "workgroup_storage"
    return {
        "vector": {"register_class": "amdgpu.vgpr", "final_count": kernel.vgprs},
        "scalar": {"register_class": "amdgpu.sgpr", "final_count": kernel.sgprs},
        "subgroup_size": processor.wave,
        "max_subgroups_per_simd": most,
        "resident_subgroups_per_simd": waves,
        "occupancy_percent": 100 * waves // most,
        "limiting_resource": limit,
    }
