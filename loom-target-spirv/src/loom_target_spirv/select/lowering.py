"""Writing kernels as SPIR-V: from specialized `kernel.def` operations to one module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final

import attrs

from loom.facts.analysis import FunctionFacts
from loom.ir.core import Block, Op
from loom.ir.diagnostics import fail
from loom.transforms.legalize_math import legalize_math
from loom_target_spirv.abi import KernelAbi, ModuleAbi, Parameter, Root, place_kernel, record_abi
from loom_target_spirv.enumerants import ExecutionMode
from loom_target_spirv.exact_fma import FmaMethod
from loom_target_spirv.module import ModuleBuilder
from loom_target_spirv.profiles import MATH
from loom_target_spirv.select.atomics import ATOMIC_RULES
from loom_target_spirv.select.collectives import COLLECTIVE_RULES
from loom_target_spirv.select.context import Context
from loom_target_spirv.select.control import CONTROL_RULES, REGION_RULES
from loom_target_spirv.select.index import INDEX_RULES
from loom_target_spirv.select.kernel import KERNEL_REGION_RULES, KERNEL_RULES, abi_parameter, bind_parameters
from loom_target_spirv.select.memory import MEMORY_RULES
from loom_target_spirv.select.reduce import REDUCE_RULES
from loom_target_spirv.select.roots import find_roots
from loom_target_spirv.select.rules import Rule
from loom_target_spirv.select.scalar import SCALAR_RULES, has_lane_rule, lanewise, poison
from loom_target_spirv.select.vector_memory import VECTOR_MEMORY_RULES
from loom_target_spirv.select.vectors import VECTOR_RULES
from loom_target_spirv.types import FloatType

Triple = tuple[int, int, int]

DEFAULT_FLOAT_MODES: Final = frozenset({ExecutionMode.SignedZeroInfNanPreserve, ExecutionMode.RoundingModeRTE})
"""What a kernel asks of floats where the device is not known: Vulkan promises neither by itself.

Kept denormals are asked for only where the device is known to offer that (`DenormPreserve`): some drivers keep
denormals and do not say so, Mesa's lavapipe being one.
"""

_NESTING_LIMIT: Final = 1023
"""Nested constructs in a function ("SPIR-V Specification" 2.17, Universal Limits)."""


@attrs.frozen
class Options:
    """How to write a module.

    Attributes:
        float_modes: execution modes for floats, each for the widths it names; a kernel declares those of the
            widths it uses.
        fma_method: how f16 and f32 fused multiply-adds are computed.
    """

    float_modes: Mapping[int, frozenset[ExecutionMode]] = attrs.field(
        factory=lambda: dict.fromkeys((16, 32, 64), DEFAULT_FLOAT_MODES)
    )
    fma_method: FmaMethod = FmaMethod.WIDER


@attrs.frozen
class LoweredKernel:
    """One kernel of a module: its entry point, workgroup size, and bytes of scratch memory."""

    entry: str
    local_size: Triple
    workgroup_bytes: int
    private_bytes: int


@attrs.frozen
class LoweredModule:
    """A SPIR-V module and what is in it."""

    data: bytes
    kernels: tuple[LoweredKernel, ...]


@cache
def rules() -> Mapping[str, Rule]:
    """Every rule for an operation without regions that is not lanewise, by op name."""
    table: dict[str, Rule] = {}
    for part in (
        SCALAR_RULES,
        INDEX_RULES,
        CONTROL_RULES,
        MEMORY_RULES,
        ATOMIC_RULES,
        VECTOR_RULES,
        VECTOR_MEMORY_RULES,
        REDUCE_RULES,
        KERNEL_RULES,
        COLLECTIVE_RULES,
    ):
        table |= part
    table["vector.poison"] = poison
    return table


def entry_name(kernel: Op) -> str:
    """The entry point of a kernel: its export name, else its symbol."""
    return str(kernel.attribute("export_symbol") or kernel.attribute("callee"))


def lower_kernels(
    kernels: Sequence[tuple[Op, Triple]],
    target_name: str,
    target_facts: Mapping[str, object],
    options: Options | None = None,
) -> LoweredModule:
    """One module of all kernels, each with its workgroup size.

    The kernels are specialized and verified.  Raises `LoomError` with a located diagnostic for what has no
    SPIR-V form.
    """
    options = options or Options()
    placed = [
        place_kernel(entry_name(kernel), local_size, _parameters(kernel, target_name)) for kernel, local_size in kernels
    ]
    module = ModuleBuilder()
    abi = ModuleAbi(tuple(placed))
    root = Root(module, abi)
    lowered = [
        _lower(kernel, kernel_abi, module, root, target_name, target_facts, options)
        for (kernel, _), kernel_abi in zip(kernels, placed, strict=True)
    ]
    record_abi(module, abi)
    return LoweredModule(module.assemble(), tuple(lowered))


def _parameters(kernel: Op, target_name: str) -> list[Parameter]:
    parameters = []
    for argument in kernel.regions[-1].entry.args:
        parameter = abi_parameter(argument)
        if parameter is None:
            raise fail(
                "SPIRV/022",
                f"the device argument %{argument.name} of type {argument.type} cannot be passed to a SPIR-V kernel",
                kernel.loc,
                emitter="spirv",
                function_name=kernel.attribute("callee"),
                value_name=argument.name,
                actual_value_type=str(argument.type),
                hint=f"{target_name} passes buffers, views, integers, f16, f32 and f64",
            )
        parameters.append(parameter)
    return parameters


def _lower(
    kernel: Op,
    abi: KernelAbi,
    module: ModuleBuilder,
    root: Root,
    target_name: str,
    target_facts: Mapping[str, object],
    options: Options,
) -> LoweredKernel:
    legalize_math(kernel, MATH)
    function = module.function(abi.name)
    module.entry_point(function, abi.name, abi.local_size)
    context = Context(
        kernel,
        target_name,
        function,
        root,
        FunctionFacts(kernel, target_facts),
        find_roots(kernel),
        abi.local_size,
        options.fma_method,
    )
    body = kernel.regions[-1]
    if len(body.blocks) != 1:
        raise context.refuse(
            kernel,
            "SPIRV/024",
            f"the body of '@{kernel.attribute('callee')}' has {len(body.blocks)} blocks; SPIR-V wants structured "
            "control flow",
            block_count=len(body.blocks),
            hint="use 'scf' operations instead of branches",
        )
    if context.roots.conflict is not None:
        raise context.refuse(
            context.roots.conflict,
            "TARGET/003",
            "views of different allocations meet here; scratch memory has no addresses in SPIR-V",
            subject_role="operand",
            subject_name=context.roots.conflict.name,
            constraint_key="spirv.single_root",
            hint="use one allocation and views of it at different offsets",
        )
    root.guard_loops(function)
    bind_parameters(context, abi)
    _write_block(context, body.entry)
    function.ret()
    for width in sorted(_float_widths(module)):
        for mode in sorted(options.float_modes.get(width, frozenset())):
            module.execution_mode(function, mode, width)
    return LoweredKernel(abi.name, abi.local_size, context.workgroup_bytes, context.private_bytes)


def _float_widths(module: ModuleBuilder) -> set[int]:
    """The widths of the float types a module has declared so far."""
    return {type_.width for type_ in module.declared_types() if isinstance(type_, FloatType)}


def _write_block(context: Context, block: Block) -> None:
    """Write all operations of a block and of the blocks inside it, without recursion."""
    open_blocks = [_operations(context, block)]
    while open_blocks:
        nested = next(open_blocks[-1], None)
        if nested is None:
            open_blocks.pop()
            continue
        if len(open_blocks) > _NESTING_LIMIT:
            owner = nested.parent.parent if nested.parent is not None else None
            assert owner is not None
            raise context.refuse(
                owner,
                "SPIRV/017",
                f"'{owner.name}' is nested deeper than {_NESTING_LIMIT} constructs, the most SPIR-V allows",
                op_name=owner.name,
            )
        open_blocks.append(_operations(context, nested))


def _operations(context: Context, block: Block) -> Iterator[Block]:
    """Write the operations of a block, yielding the blocks to write in between."""
    table = rules()
    for op in block:
        traits = op.spec.traits
        if "terminator" in traits:
            if "branch" in traits:
                raise context.refuse(op, "SPIRV/015", f"'{op.name}' is no structured control flow", op_name=op.name)
            return
        region_rule = REGION_RULES.get(op.name) or KERNEL_REGION_RULES.get(op.name)
        if region_rule is not None:
            yield from region_rule(context, op)
            continue
        rule = table.get(op.name)
        if rule is not None:
            rule(context, op)
        elif op.name.startswith(("scalar.", "vector.")) and has_lane_rule(op.name.partition(".")[2]):
            lanewise(context, op)
        else:
            raise _no_rule(context, op)


_ADVICE: Final[dict[str, str]] = {
    "func.call": "let the callee be inlined: drop 'noinline', and link the module that defines it",
    "low.invoke": "a SPIR-V kernel cannot call helpers written for another target",
    "template.apply": "specialize the module for a target first",
    "config.get": "give the key a value with --config or a 'config.def'",
}


def _no_rule(context: Context, op: Op) -> Exception:
    return context.refuse(
        op, "TARGET/001", f"'{op.name}' has no SPIR-V form", hint=_ADVICE.get(op.name), emitter_key="spirv-binary"
    )
