"""Kernels: one call runs a workgroup, in loops over its work-items (see `abi`).

Everything that does not depend on the work-item leaves the loops by itself, because each of them runs at least once.
"""

from __future__ import annotations

from typing import Any, Final

from loom.ir import types as t
from loom.ir.core import Op, Value
from loom.ir.types import ShapedType
from loom_target_x86 import abi
from loom_target_x86.select.boundary import crossing_type, incoming
from loom_target_x86.select.context import Context
from loom_target_x86.select.control import counted_loop, select_body
from loom_target_x86.select.rules import selects
from loom_target_x86.select.values import GPR64, Word, is_float

AXES: Final = ("x", "y", "z")

#: Keys of the values that are there when a kernel is called: the registers of its two parameters.
LIVE_INS: Final = {"x86.arguments": abi.INTEGER_REGISTERS[0], "x86.dispatch": abi.INTEGER_REGISTERS[1]}

_LOADS: Final = {
    t.I1: "movzx8.load.gpr32",
    t.I8: "movzx8.load.gpr32",
    t.I16: "movzx16.load.gpr32",
    t.I32: "mov.load.gpr32",
}


def select_kernel(c: Context) -> None:
    """The body of a kernel."""
    kernel = c.function
    c.builder.loc = kernel.loc
    arguments = c.builder.live_in("x86.arguments", GPR64, "arguments")
    c.dispatch = c.builder.live_in("x86.dispatch", GPR64, "dispatch")
    c.adopt([arguments, c.dispatch])
    _bind_arguments(c, arguments)
    _axis(c, len(AXES) - 1)
    c.builder.loc = kernel.loc
    c.builder.ret()


def _axis(c: Context, number: int) -> None:
    """The loop over one axis and everything inside; z is outermost."""
    if number < 0:
        _invocation(c)
        return
    axis = AXES[number]
    size = workgroup_size(c, axis)

    def body(position: Value, carried: object) -> list[Value]:
        c.items[axis] = position
        position.name = position.name or f"item_{axis}"
        _axis(c, number - 1)
        c.builder.loc = c.function.loc
        return []

    if size == 1:
        c.items[axis] = 0
        _axis(c, number - 1)
    else:
        counted_loop(c, 0, size, 1, [], body)


def _invocation(c: Context) -> None:
    c.next_item = c.new_block()
    select_body(c, c.function.body)
    c.enter(c.next_item)


def _bind_arguments(c: Context, arguments: Value) -> None:
    parameters = c.function.body.entry.args
    types = [kernel_type(c, parameter) for parameter in parameters]
    layout = abi.layout_arguments(types)
    places = list(zip(parameters, layout.offsets, strict=True))
    # Views need the extents that other parameters give.
    for parameter, offset in sorted(places, key=lambda place: isinstance(place[0].type, ShapedType)):
        type_ = parameter.type
        if is_float(type_):
            suffix = "ss" if type_ is t.F32 else "sd"
            mnemonic = f"{'v' if c.vex else ''}mov{suffix}.load.xmm"
        else:
            mnemonic = _LOADS.get(type_, "mov.load.gpr64")
        register = c.invariant_load(mnemonic, arguments, offset)
        if type_ is t.I1:
            c.bind(parameter, c.low_bit(register))
        else:
            incoming(c, c.function, parameter, register)


def kernel_type(c: Context, parameter: Value) -> str:
    """The name of a launch parameter's type in the argument block. Raises the diagnostic at the kernel."""
    type_ = crossing_type(parameter.type)
    if type_ is None or isinstance(type_, ShapedType):
        raise c.refuse(
            c.function,
            "TARGET/033",
            f"%{parameter.name or '?'} of type {parameter.type} cannot be a launch argument on {c.target.name}",
            field_name=parameter.name or "",
            actual_type=str(parameter.type),
        )
    if is_float(type_):
        c.scalar_type(c.function, type_)
    return type_.text


def _dispatch_word(c: Context, offset: int, axis: str) -> Value:
    assert c.dispatch is not None
    return c.invariant_load("movzx32.load.gpr64", c.dispatch, offset + 4 * AXES.index(axis))


def workgroup_size(c: Context, axis: str) -> Word:
    """The extent of a workgroup."""
    static = c.facts.static_workgroup_size[AXES.index(axis)]
    return static if static is not None else _dispatch_word(c, abi.WORKGROUP_SIZE_OFFSET, axis)


def _require_kernel(c: Context, op: Op) -> None:
    if c.dispatch is None:
        raise c.refuse(
            op,
            "TARGET/032",
            f"'{op.name}' stands in a function that is compiled on its own",
            hint="launch coordinates exist in kernels; let the function be inlined into one",
            op_constraint="kernel",
        )


@selects("kernel.workitem.id")
def _workitem(c: Context, op: Any) -> None:
    _require_kernel(c, op)
    if not c.is_known(op.result):
        c.bind(op.result, c.register(c.items[op.axis], 64))


@selects("kernel.workgroup.id")
def _workgroup(c: Context, op: Any) -> None:
    _require_kernel(c, op)
    if not c.is_known(op.result):
        c.bind(op.result, _dispatch_word(c, abi.WORKGROUP_ID_OFFSET, op.axis))


@selects("kernel.workgroup.count")
def _count(c: Context, op: Any) -> None:
    _require_kernel(c, op)
    if not c.is_known(op.result):
        c.bind(op.result, _dispatch_word(c, abi.WORKGROUP_COUNT_OFFSET, op.axis))


@selects("kernel.workgroup.size")
def _size(c: Context, op: Any) -> None:
    _require_kernel(c, op)
    if not c.is_known(op.result):
        c.bind(op.result, c.register(workgroup_size(c, op.axis), 64))


@selects("kernel.workitem.dispatch.id")
def _dispatch_id(c: Context, op: Any) -> None:
    _require_kernel(c, op)
    if not c.is_known(op.result):
        group = _dispatch_word(c, abi.WORKGROUP_ID_OFFSET, op.axis)
        first = c.multiply(group, workgroup_size(c, op.axis))
        c.bind(op.result, c.register(c.add(first, c.items[op.axis]), 64))


@selects("kernel.barrier")
def _barrier(c: Context, op: Op) -> None:
    raise c.unsupported(
        op,
        "'kernel.barrier' yet: work-items of a workgroup run one after the other",
        hint="run the kernel on --device=reference, or compile it for a GPU target",
    )


@selects("kernel.return")
def _return(c: Context, op: Op) -> None:
    assert c.next_item is not None
    c.branch(c.next_item)
