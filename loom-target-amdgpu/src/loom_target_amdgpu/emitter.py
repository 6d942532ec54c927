"""The ``amdgpu-hsaco`` emitter: kernels of a specialized module to one code object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from loom.dialects.kernel import ops as kernel_ops
from loom.dialects.low import ops as low
from loom.ir.core import Block, Module, Op, Region
from loom.ir.diagnostics import fail
from loom.ir.records import record
from loom.low.inline import inline_calls
from loom.low.machine import MemoryAccess
from loom.low.proof import verification_wanted
from loom.low.schedule import Strategy
from loom.low.structured import lower_structured
from loom.plugins.records import Artifact, EmitRequest, EmitResult, TargetProfile
from loom.transforms.assertions import ASSERTIONS, expand_assertions
from loom.transforms.async_legality import check_transfers, has_transfers
from loom.transforms.legalize_math import is_lacking, legalize_math
from loom.transforms.raw_bytes import RAW_BYTES, expand_raw_bytes
from loom_target_amdgpu.abi import DATA_ALIGNMENT, abi_layout
from loom_target_amdgpu.code_object.elf import DataImage
from loom_target_amdgpu.code_object.elf_format import PAGE
from loom_target_amdgpu.descriptors import build
from loom_target_amdgpu.descriptors.lazy_set import TableSet
from loom_target_amdgpu.dialect import Target
from loom_target_amdgpu.hsaco import CompiledKernel, compile_kernel, link
from loom_target_amdgpu.low_loops import loop_arithmetic
from loom_target_amdgpu.profiles import Processor, profile
from loom_target_amdgpu.report import details, entry
from loom_target_amdgpu.select.paired_reads import pair_reads
from loom_target_amdgpu.select.selector import Selector
from loom_target_amdgpu.targets import facts_of

CONTEXT_SYMBOL: Final = "__loom_target_context_0_0"
_EXPANDED: Final = ASSERTIONS | RAW_BYTES


@record
class LoweredKernel:
    """A Low kernel and what selection knows beyond its text."""

    op: low.KernelDef
    memory: Mapping[Op, MemoryAccess]
    locks: Mapping[Op, int]
    selected: bool = False


def lower_module(request: EmitRequest) -> Module:
    """The module with target Low in place of the selected kernels."""
    return _lower(request)[0]


def emit_hsaco(request: EmitRequest) -> EmitResult:
    """Compile the selected kernels into one code object.

    Raises:
        LoomError: something the target does not support.
    """
    module, kernels, processor, descriptor_set = _lower(request)
    strategy = Strategy(str(request.options.get("schedule", "latency")))
    check = verification_wanted(request.options)
    compiled = [
        compile_kernel(
            k.op,
            processor,
            descriptor_set,
            memory=k.memory,
            locks=k.locks,
            strategy=strategy,
            check=check,
            selected=k.selected,
            debug_info=bool(request.options.get("debug_info")),
        )
        for k in kernels
    ]
    names = [k.image.name for k in compiled]
    for kernel, name in zip(kernels, names, strict=True):
        if names.count(name) > 1:
            raise fail(
                "TARGET/022",
                f"two kernels are exported as '{name}'",
                kernel.op.loc,
                emitter="amdgpu-hsaco",
                function_name=kernel.op.callee,
                target_name=processor.name,
                constraint_key="export.unique",
            )
    data = link(compiled, processor, _constant_data(compiled, module))
    named = [(k.op.callee, c) for k, c in zip(kernels, compiled, strict=True)]
    report = {
        "entries": [entry(symbol, c, processor) for symbol, c in named],
        "details": partial(details, named, processor),
    }
    return EmitResult(
        Artifact(f"{module.name or 'module'}.hsaco", "executable", data), (), report, partial(lower_module, request)
    )


def _constant_data(kernels: Sequence[CompiledKernel], module: Module) -> list[DataImage]:
    """What the kernels read, each piece once."""
    symbols = module.symbols()
    names = dict.fromkeys(item.symbol for kernel in kernels for item in kernel.image.relocations)
    found = []
    for name in names:
        definition: Any = symbols.get(name)
        if definition is None or definition.name != "global.rodata.def":
            raise fail(
                "TARGET/033",
                f"'@{name}' is no constant data of this module",
                None if definition is None else definition.loc,
                emitter="amdgpu-hsaco",
                op_name="low.live_in",
                field_name="symbol",
                actual_type="none" if definition is None else definition.name,
            )
        alignment = definition.alignment or DATA_ALIGNMENT
        if alignment > PAGE:
            raise fail(
                "TARGET/022",
                f"'@{name}' is to be aligned to {alignment} bytes; code objects are aligned to {PAGE}",
                definition.loc,
                emitter="amdgpu-hsaco",
                function_name=name,
                constraint_key="alignment",
            )
        found.append(DataImage(name, definition.data, alignment))
    return found


def _lower(request: EmitRequest) -> tuple[Module, list[LoweredKernel], Processor, TableSet]:
    target = request.target
    if target is None:
        raise fail(
            "TARGET/026",
            "an AMD GPU code object needs a target",
            None,
            hint="pass --target=amdgpu:<processor>",
            emitter="amdgpu-hsaco",
            function_name="",
        )
    processor = profile(target.selector)
    descriptor_set = build(target.contract)
    shells: dict[Op, low.KernelDef] = {
        root: _shell(root, target) for root in request.roots if isinstance(root, kernel_ops.Def)
    }
    module = request.module.clone(shells)
    copies = dict(zip(request.module.ops, module.ops, strict=True))
    symbols = module.symbols()
    loops = loop_arithmetic(descriptor_set)
    for original, op in copies.items():
        if isinstance(op, low.KernelDef | low.FuncDef) and original not in shells:
            lower_structured(op, loops)
    kernels = []
    for root in request.roots:
        lowered: Any = copies[root]
        if isinstance(root, kernel_ops.Def):
            kernels.append(_lower_kernel(root, lowered, target, processor, descriptor_set, symbols))
            continue
        assert isinstance(root, low.KernelDef), root.name
        _check_contract(lowered, processor)
        kernels.append(LoweredKernel(lowered, {}, inline_calls(lowered, symbols, descriptor_set, proven=False)))
    if CONTEXT_SYMBOL not in symbols and any(shell.witness == CONTEXT_SYMBOL for shell in shells.values()):
        module.body.append(Target([], [processor.name, CONTEXT_SYMBOL, None], []))
    return module, kernels, processor, descriptor_set


def _shell(kernel: kernel_ops.Def, target: TargetProfile) -> low.KernelDef:
    """The Low kernel that a source kernel becomes, with an empty body."""
    shell = low.KernelDef.build(
        callee=kernel.callee,
        retain="retain",
        contract=target.contract,
        witness=CONTEXT_SYMBOL if kernel.target is None else kernel.target,
        export_symbol=kernel.export_symbol if kernel.export_symbol != kernel.callee else None,
        linkage=kernel.linkage,
        loc=kernel.loc,
        regions=[Region([Block()])],
    )
    shell.comments, shell.blank_before = kernel.comments, kernel.blank_before
    return shell


def _check_contract(kernel: low.KernelDef, processor: Processor) -> None:
    """An authored kernel must be written for what the processor accepts."""
    accepted = facts_of(processor)["contracts"]
    assert isinstance(accepted, tuple)
    if kernel.contract not in accepted:
        raise fail(
            "TARGET/052",
            f"the kernel '@{kernel.callee}' is written for {kernel.contract}, which {processor.name} does not satisfy",
            kernel.loc,
            emitter="amdgpu-hsaco",
            function_name=kernel.callee,
            target_name=processor.name,
        )


def _lower_kernel(
    kernel: kernel_ops.Def,
    lowered: low.KernelDef,
    target: TargetProfile,
    processor: Processor,
    descriptor_set: TableSet,
    symbols: Mapping[str, Op],
) -> LoweredKernel:
    """Select a source kernel, which stays as it is, into the body of its Low."""
    if has_transfers(kernel):
        check_transfers(kernel)
    facts = {**facts_of(processor), **target.facts}
    expanded: Op | None = None
    if any(op.name in _EXPANDED or is_lacking(op, target.math) for op in kernel.walk()):
        # Beside its Low, where it sees what the module defines.
        expanded = kernel.clone({})
        expanded.insert_before(lowered)
        expand_assertions(expanded)
        expand_raw_bytes(expanded)
        legalize_math(expanded, target.math)
    selector = Selector(expanded or kernel, processor, facts, descriptor_set, lowered.body, symbols)
    selector.run()
    locks = inline_calls(lowered, symbols, descriptor_set, proven=True)
    selector.eliminate_dead_code(lowered.body.blocks)
    pair_reads(lowered.body.blocks, descriptor_set, selector.emit.memory, locks)
    layout = abi_layout(selector.layout)
    lowered.set_attribute("abi_layout", layout)
    size = selector.facts.static_workgroup_size
    if None not in size:
        for name, value in zip(("size_x", "size_y", "size_z"), size, strict=True):
            lowered.set_attribute(name, value)
    if expanded is not None:
        expanded.erase()
    return LoweredKernel(lowered, selector.emit.memory, locks, True)
