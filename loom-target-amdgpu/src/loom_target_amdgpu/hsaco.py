"""From a Low kernel to machine code: schedule, allocate, expand, wait, encode, describe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from loom.dialects.low import ops as low
from loom.ir.core import Op
from loom.ir.diagnostics import fail
from loom.ir.records import evolve, record
from loom.low.allocate import Allocation, AllocationError, allocate
from loom.low.convert import to_machine
from loom.low.descriptors import DescriptorSet
from loom.low.machine import Block, Function, Instruction, MemoryAccess
from loom.low.proof import prove_allocation, prove_schedule, refuted
from loom.low.schedule import Strategy, TableModel, schedule
from loom_target_amdgpu.abi import KernargLayout, LaunchState, launch_state
from loom_target_amdgpu.branches import simplify_branches
from loom_target_amdgpu.clauses import insert_clauses
from loom_target_amdgpu.code_object.elf import DataImage, KernelImage, write_hsaco
from loom_target_amdgpu.code_object.kernel_descriptor import DescriptorError, KernelResources, describe_kernel
from loom_target_amdgpu.code_object.metadata import KernelArgument, KernelMetadata
from loom_target_amdgpu.delays import insert_delays
from loom_target_amdgpu.dual_issue import pair_instructions
from loom_target_amdgpu.exec_masks import simplify_masks
from loom_target_amdgpu.expand import CodeBlock, Expander
from loom_target_amdgpu.hazards import insert_hazard_waits
from loom_target_amdgpu.layout import assemble, source_lines
from loom_target_amdgpu.machine_code import Assembler
from loom_target_amdgpu.materialize import Materialized, materialize
from loom_target_amdgpu.occupancy import issue_cycles, pays, tighter_limit, waves_of
from loom_target_amdgpu.profiles import Processor, WorkgroupIds, waves_per_simd
from loom_target_amdgpu.schedule import model
from loom_target_amdgpu.waits import WaitCounts, WaitInserter

if TYPE_CHECKING:
    from loom_target_amdgpu.check_passes import Snapshot

DEFAULT_WORKGROUP: Final = 1024


@record
class Inserted:
    """Dual-issue words, clauses and ALU delays of a kernel's code, how many of each."""

    dual_issue: int
    clauses: int
    delays: int


@record
class Stages:
    """Machine code on its way, which only details of a report look at.

    Attributes:
        scheduled: the code in scheduled order, before allocation.
        source_order: the instructions of its blocks before scheduling.
        allocation: the registers.
    """

    scheduled: Function
    source_order: Mapping[Block, Sequence[Instruction]]
    allocation: Allocation


@record
class CompiledKernel:
    """A kernel's image and the figures a report shows.

    Attributes:
        image: what the code object writer takes.
        blocks: the final instructions.
        vgprs, sgprs: registers used.
        lds_bytes, scratch_bytes: static workgroup storage and private bytes per work-item.
        spills, reloads, moves: what the allocator inserted.
        waits: authored waits, and places where waits were inserted.
        waves: resident waves per SIMD that the registers allow.
        scopes: ordering scopes that the scheduler honoured.
        nodes: instructions that were scheduled.
        inserted: what passes over the encoded instructions made.
        stages: the code before it was encoded.
    """

    image: KernelImage
    blocks: tuple[CodeBlock, ...]
    vgprs: int
    sgprs: int
    lds_bytes: int
    scratch_bytes: int
    spills: int
    reloads: int
    moves: int
    waits: WaitCounts
    waves: int
    scopes: int
    nodes: int
    inserted: Inserted
    stages: Stages

    @property
    def instruction_count(self) -> int:
        """Instructions of all blocks, as encoded."""
        return sum(len(block.code) for block in self.blocks)


def compile_kernel(
    kernel: low.KernelDef,
    processor: Processor,
    descriptor_set: DescriptorSet,
    *,
    memory: Mapping[Op, MemoryAccess] | None = None,
    locks: Mapping[Op, int] | None = None,
    strategy: Strategy = Strategy.LATENCY,
    check: bool = False,
    selected: bool = False,
    debug_info: bool = False,
) -> CompiledKernel:
    """Compile one Low kernel whose structured operations have been turned into branches, and use it up.

    ``memory`` and ``locks`` are what selection knows about addresses and locked sequences; ``check`` proves the
    schedule and the allocation afterwards, which takes about as long again.
    ``selected`` says that all of the code comes from selection: masks that nothing needs are left out then, while
    instructions that somebody wrote stay. ``debug_info`` adds where the instructions come from and changes none.

    Raises:
        LoomError: the kernel needs something the processor does not have.
    """
    generation = processor.require_generation()
    ready = materialize(kernel, descriptor_set)
    keys = {op.key for op in ready.kernel.body.ops() if isinstance(op, low.LiveIn)}
    state = launch_state(keys, generation)
    function = to_machine(
        ready.kernel,
        descriptor_set,
        fixed=lambda op: state.units.get(op.key) if isinstance(op, low.LiveIn) else None,
        memory=memory,
        locks=locks,
    )
    before = function.order()
    try:
        scopes, allocation = _place(function, processor, strategy, check, before)
    except AllocationError as error:
        raise fail(
            "TARGET/022",
            f"register allocation failed: {error.why}",
            error.loc or kernel.loc,  # type: ignore[arg-type]  # locations of instructions are those of their ops
            emitter="amdgpu",
            function_name=kernel.callee,
            target_name=processor.name,
            constraint_key="registers",
        ) from None
    if check:
        prove_allocation(function, allocation, "amdgpu")
    assembler = Assembler(processor.family, processor.wave, generation.constant_bus)
    ids = "trap" if generation.workgroup_ids is WorkgroupIds.TRAP_REGISTERS else "sgpr"
    expander = Expander(function, allocation, assembler, ready.private_bytes, ids)
    blocks = simplify_branches(expander.run(), assembler)
    if selected and not locks:
        simplify_masks(blocks, assembler)
    expanded: Snapshot | None = None
    if check:
        from loom_target_amdgpu.check_passes import snapshot

        expanded = snapshot(blocks)
    pairs = pair_instructions(blocks, assembler)
    waits = WaitInserter(blocks, assembler)
    waits.run()
    insert_hazard_waits(blocks, assembler, processor)
    clauses = insert_clauses(blocks, assembler)
    delays = insert_delays(blocks, assembler)
    if expanded is not None:
        _prove_passes(expanded, blocks, processor, kernel)
    code, relocations = assemble(blocks)
    image, vgprs, sgprs, scratch = _image(kernel, processor, ready, state, allocation, expander, code)
    return CompiledKernel(
        image=evolve(image, relocations=relocations, lines=source_lines(blocks, kernel.loc) if debug_info else None),
        blocks=tuple(blocks),
        vgprs=vgprs,
        sgprs=sgprs,
        lds_bytes=ready.lds_bytes,
        scratch_bytes=scratch,
        spills=allocation.spills,
        reloads=allocation.reloads,
        moves=allocation.moves,
        waits=waits.counts,
        waves=waves_per_simd(processor, processor.wave, vgprs, allocation.high_water.get("amdgpu.agpr", 0), sgprs),
        scopes=scopes,
        nodes=sum(len(block.instructions) for block in function.blocks),
        inserted=Inserted(pairs, clauses, delays),
        stages=Stages(function, before, allocation),
    )


def _place(
    function: Function,
    processor: Processor,
    strategy: Strategy,
    check: bool,
    source_order: Mapping[Block, Sequence[Instruction]],
) -> tuple[int, Allocation]:
    """Schedule in place and allocate; once more where that lets more waves in and pays. Returns the scopes too.

    Raises:
        AllocationError: there are too few registers.
    """
    plan = model(processor)

    def attempt(plan: TableModel) -> tuple[int, Allocation]:
        scopes = schedule(function, plan, strategy)
        if check:
            prove_schedule(source_order, function, "amdgpu")
        return scopes, allocate(function)

    scopes, allocation = attempt(plan)
    limit = tighter_limit(function, allocation, processor) if strategy is Strategy.LATENCY else None
    if limit is None:
        return scopes, allocation
    found = issue_cycles(function, plan), waves_of(allocation, processor), allocation
    order = function.order()
    _reorder(function, source_order)
    try:
        _, other = attempt(evolve(plan, limits={**plan.limits, "amdgpu.vgpr": limit}))
    except AllocationError:
        _reorder(function, order)
        return scopes, allocation
    if pays(found, (issue_cycles(function, plan), waves_of(other, processor), other)):
        return scopes, other
    _reorder(function, order)
    return scopes, allocation


def _reorder(function: Function, order: Mapping[Block, Sequence[Instruction]]) -> None:
    for block in function.blocks:
        block.instructions = list(order[block])


def _prove_passes(before: Snapshot, blocks: list[CodeBlock], processor: Processor, kernel: low.KernelDef) -> None:
    """Prove what passes over the encoded instructions did; raises a diagnostic where one is wrong."""
    from loom_target_amdgpu.check_distances import DistanceCheckError, check_distances
    from loom_target_amdgpu.check_passes import PassCheckError, check_passes
    from loom_target_amdgpu.check_waits import check_waits

    try:
        check_passes(before, blocks)
        check_waits(blocks, processor.family)
        check_distances(blocks, processor)
    except DistanceCheckError as error:
        raise refuted("distance", str(error), error.loc or kernel.loc, kernel.callee, "amdgpu") from error
    except PassCheckError as error:
        raise refuted("code", str(error), error.loc or kernel.loc, kernel.callee, "amdgpu") from error


def _image(
    kernel: low.KernelDef,
    processor: Processor,
    ready: Materialized,
    state: LaunchState,
    allocation: Allocation,
    expander: Expander,
    code: bytes,
) -> tuple[KernelImage, int, int, int]:
    high = allocation.high_water
    generation = processor.require_generation()
    vgprs = max(1, high.get("amdgpu.vgpr", 0) + expander.lane_registers)
    agprs = high.get("amdgpu.agpr", 0)
    incoming = 2 * len(state.user_sgprs) + sum(state.workgroup_ids) * (generation.workgroup_ids is WorkgroupIds.SGPR)
    sgprs = max(high.get("amdgpu.sgpr", 0), incoming)
    scratch = ready.private_bytes + expander.scratch_bytes
    resources = KernelResources(
        wave_size=processor.wave,
        vgprs=vgprs,
        sgprs=sgprs,
        agprs=agprs,
        lds_bytes=ready.lds_bytes,
        scratch_bytes=scratch,
        kernarg_bytes=ready.layout.size,
        user_sgprs=state.user_sgprs,
        workgroup_ids=state.workgroup_ids,
        workitem_id_mode=state.workitem_id_mode,
    )
    try:
        descriptor = describe_kernel(processor, resources)
    except DescriptorError as error:
        raise fail(
            "TARGET/022",
            str(error),
            kernel.loc,
            emitter="amdgpu",
            function_name=kernel.callee,
            target_name=processor.name,
            constraint_key="resources",
        ) from None
    size = _workgroup_size(kernel)
    name = kernel.export_symbol or kernel.callee
    metadata = KernelMetadata(
        name=name,
        symbol=f"{name}.kd",
        kernarg_segment_size=ready.layout.size,
        kernarg_segment_align=8,
        group_segment_fixed_size=ready.lds_bytes,
        private_segment_fixed_size=scratch,
        wavefront_size=processor.wave,
        sgpr_count=sgprs,
        vgpr_count=vgprs,
        agpr_count=agprs if generation.agpr_count else None,
        max_flat_workgroup_size=size[0] * size[1] * size[2] if size is not None else DEFAULT_WORKGROUP,
        reqd_workgroup_size=size,
        arguments=tuple(_arguments(ready.layout)),
    )
    return KernelImage(name, code, descriptor, metadata), vgprs, sgprs, scratch


def _workgroup_size(kernel: low.KernelDef) -> tuple[int, int, int] | None:
    if kernel.size_x is None or kernel.size_y is None or kernel.size_z is None:
        return None
    return kernel.size_x, kernel.size_y, kernel.size_z


def _arguments(layout: KernargLayout) -> Iterable[KernelArgument]:
    for parameter in layout.parameters:
        yield KernelArgument(
            name=parameter.name or "",
            offset=parameter.offset,
            size=parameter.size,
            value_kind="global_buffer" if parameter.is_buffer else "by_value",
            address_space="global" if parameter.is_buffer else "",
        )


def link(kernels: Iterable[CompiledKernel], processor: Processor, data: Sequence[DataImage] = ()) -> bytes:
    """The code object of several compiled kernels and the data that they read."""
    return write_hsaco([kernel.image for kernel in kernels], processor, data)
