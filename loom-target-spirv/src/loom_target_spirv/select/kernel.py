"""Selection of the `kernel` dialect: coordinates, extents and barriers, and kernel parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loom.ir import types as lt
from loom.ir.core import Block, Op
from loom.ir.core import Value as SourceValue
from loom_target_spirv import types as t
from loom_target_spirv.abi import SCALAR_BITS, KernelAbi, Parameter, ParameterKind
from loom_target_spirv.enumerants import BuiltIn, MemorySemantics, Scope
from loom_target_spirv.module import Value
from loom_target_spirv.select.context import Context
from loom_target_spirv.select.memory import bind_view
from loom_target_spirv.select.rules import RegionRule, Rule
from loom_target_spirv.select.values import GlobalBuffer
from loom_target_spirv.structured import Selection

_AXES: Final = "xyz"


def _builtin(context: Context, builtin: BuiltIn, axis: int | None = None) -> Value:
    loaded = context.function.load(context.module.builtin(builtin))
    return loaded if axis is None else context.function.extract(loaded, axis)


def _axis(op: Op) -> int:
    return _AXES.index(str(op.attribute("axis")))


def _vector_query(builtin: BuiltIn) -> Rule:
    return lambda context, op: context.bind(op.results[0], _builtin(context, builtin, _axis(op)))


def _scalar_query(builtin: BuiltIn) -> Rule:
    return lambda context, op: context.bind(op.results[0], _builtin(context, builtin))


def _workgroup_size(context: Context, op: Op) -> None:
    context.bind(op.results[0], context.constant(t.U32, context.local_size[_axis(op)]))


def _dispatch_id(context: Context, op: Op) -> None:
    """workgroup.id * workgroup.size + workitem.id.  GlobalInvocationId is that in 32 bits, which may wrap."""
    words, axis, width = context.integers, _axis(op), context.width(op.results[0])
    group = context.resize(_builtin(context, BuiltIn.WorkgroupId, axis), width)
    item = context.resize(_builtin(context, BuiltIn.LocalInvocationId, axis), width)
    first = words.binary("OpIMul", group, context.local_size[axis])
    context.bind(op.results[0], words.binary("OpIAdd", first, item))


_SPACES: Final[dict[str, MemorySemantics]] = {
    "workgroup": MemorySemantics.WorkgroupMemory,
    # Physical storage buffers belong to the memory that UniformMemory orders.
    "global": MemorySemantics.UniformMemory,
}


def _barrier(context: Context, op: Op) -> None:
    execution = Scope.Subgroup if op.attribute("scope") == "subgroup" else Scope.Workgroup
    context.function.control_barrier(_SPACES[str(op.attribute("space"))], execution)


def _exit(context: Context, op: Op) -> Iterator[Block]:
    """Leave the kernel, after the work of the body if there is one."""
    leaving = Selection(context.function, context.scalar(op.operands[0]))
    if op.regions:
        yield op.regions[0].entry
    context.function.ret()
    leaving.end()


KERNEL_REGION_RULES: Final[dict[str, RegionRule]] = {"kernel.exit": _exit}
"""Operations with regions."""

KERNEL_RULES: Final[dict[str, Rule]] = {
    "kernel.workitem.id": _vector_query(BuiltIn.LocalInvocationId),
    "kernel.workgroup.id": _vector_query(BuiltIn.WorkgroupId),
    "kernel.workgroup.count": _vector_query(BuiltIn.NumWorkgroups),
    "kernel.workgroup.size": _workgroup_size,
    "kernel.workitem.dispatch.id": _dispatch_id,
    "kernel.subgroup.id": _scalar_query(BuiltIn.SubgroupId),
    "kernel.subgroup.count": _scalar_query(BuiltIn.NumSubgroups),
    "kernel.subgroup.size": _scalar_query(BuiltIn.SubgroupSize),
    "kernel.subgroup.lane.id": _scalar_query(BuiltIn.SubgroupLocalInvocationId),
    "target.subgroup.size": _scalar_query(BuiltIn.SubgroupSize),
    "kernel.barrier": _barrier,
}
"""Queries and barriers."""


# Parameters


def abi_parameter(argument: SourceValue) -> Parameter | None:
    """How a device argument is passed, or None when its type has no place in the ABI.

    An address is passed in 64 bits; a view is passed as the buffer it starts at.
    """
    name, type_ = argument.name or f"arg{argument.index}", argument.type
    if type_ is lt.BUFFER or lt.is_view(type_):
        return Parameter(name, ParameterKind.BUFFER)
    text = "i64" if type_ in lt.ADDRESSES else type_.text
    return Parameter(name, ParameterKind.SCALAR, text) if text in SCALAR_BITS and text != "bf16" else None


def bind_parameters(context: Context, abi: KernelAbi) -> None:
    """Bind the device arguments that are used.  Call it in the first block of the function."""
    arguments = context.kernel.regions[-1].entry.args
    bindings = 0
    views = []
    for argument, placed in zip(arguments, abi.parameters, strict=True):
        is_buffer = placed.kind is ParameterKind.BUFFER
        if argument.is_used:
            if not is_buffer:
                context.bind(argument, context.root.scalar(context.function, placed))
            elif argument.type is lt.BUFFER:
                context.bind(argument, GlobalBuffer(context.root.binding_address(context.function, bindings)))
            else:
                views.append((argument, bindings))
        bindings += is_buffer
    # The type of a view may name arguments that come after it.
    for argument, binding in views:
        address = context.root.binding_address(context.function, binding)
        bind_view(context, argument, GlobalBuffer(address), None, context.kernel)
