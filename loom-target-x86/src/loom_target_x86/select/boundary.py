"""Values that cross the boundary of a function: one register each (see `abi` for where they travel)."""

from __future__ import annotations

from loom.ir import types as t
from loom.ir.core import Op, Value
from loom.ir.types import RegType, ScalarType, ShapedType, Type
from loom_target_x86.select.context import Context
from loom_target_x86.select.memory import strides_of
from loom_target_x86.select.values import XMM, Buffer, Lanes, Layout, View, is_float, register_type
from loom_target_x86.values import AbiError, value_size


def crossing_type(type_: Type) -> Type | None:
    """The type under which the calling convention knows a value; a view is the address of its first element.

    None for a type that cannot cross.
    """
    if isinstance(type_, ShapedType) and type_.kind == "view":
        return t.BUFFER
    if register_type(type_) is not None:
        return type_
    if isinstance(type_, ShapedType) and type_.kind == "vector" and register_type(type_.element) is not None:
        try:
            value_size(type_.text)
        except AbiError:
            return None
        return type_
    return None


def crossing_register(c: Context, op: Op, type_: Type) -> RegType:
    """The register type of a parameter, argument or result. Raises the diagnostic at `op`."""
    known = crossing_type(type_)
    register = XMM if isinstance(known, ShapedType) else None if known is None else register_type(known)
    if register is None or register.reg_class not in c.builder.descriptor_set.registers:
        raise c.refuse(
            op,
            "TARGET/033",
            f"{type_} has no place in the calling convention of {c.target.name}",
            hint="let the function be inlined, or pass the parts one by one",
            field_name="signature",
            actual_type=str(type_),
        )
    return register


def incoming(c: Context, op: Op, value: Value, register: Value) -> None:
    """Bind a source value to the register in which it has arrived."""
    type_ = value.type
    if type_ is t.I1:
        # Only the low byte is defined.
        c.bind(value, c.op("movzx8.gpr32", register))
    elif type_ is t.BUFFER:
        c.bind(value, Buffer(register))
    elif isinstance(type_, ShapedType) and type_.kind == "view":
        c.bind(value, View(register, 0, strides_of(c, op, type_), plain=type_.encoding is None))
    elif isinstance(type_, ShapedType):
        c.bind(value, Lanes(_unpack(c, type_, register)))
    else:
        c.bind(value, register)


def outgoing(c: Context, op: Op, value: Value) -> Value:
    """The register in which a value leaves. Raises the diagnostic at `op` for one that cannot."""
    bundle = c.bundle(value)
    if isinstance(bundle, Value):
        return bundle
    if isinstance(bundle, Buffer) or (isinstance(bundle, View) and bundle.plain):
        return c.pointer(bundle.base, bundle.disp)
    if isinstance(bundle, Lanes):
        crossing_register(c, op, value.type)
        assert isinstance(value.type, ShapedType)
        return _pack(c, value.type, bundle.values)
    what = "a layout" if isinstance(bundle, Layout) else "a view whose strides its type does not give"
    raise c.refuse(
        op,
        "TARGET/027",
        f"{what} cannot cross the boundary of a function",
        hint="let the function be inlined",
        value_kind="operand",
        value_id=value.name or "",
    )


def _letter(element: ScalarType) -> str:
    return {8: "b", 16: "w", 32: "d", 64: "q"}[element.width]


def _unpack(c: Context, type_: ShapedType, register: Value) -> tuple[Value, ...]:
    element, count = type_.element, type_.static_size or 0
    if not is_float(element):
        return tuple(c.fp(f"pextr{_letter(element)}", register, lane=lane) for lane in range(count))
    # The wanted lane in the lowest place; what is above does not matter.
    controls = [lane * 0b01010101 if element is t.F32 else 0b11101110 for lane in range(count)]
    return tuple(register if i == 0 else c.fp("pshufd", register, control=x) for i, x in enumerate(controls))


def _pack(c: Context, type_: ShapedType, lanes: tuple[Value, ...]) -> Value:
    element = type_.element
    if element is t.F64:
        return lanes[0] if len(lanes) == 1 else c.fp("movlhps", lanes[0], lanes[1])
    if element is t.F32:
        packed = lanes[0]
        for lane, value in enumerate(lanes[1:], 1):
            packed = c.fp("insertps", packed, value, control=lane << 4)
        return packed
    packed = c.fp("zero")
    for lane, value in enumerate(lanes):
        packed = c.fp(f"pinsr{_letter(element)}", packed, value, lane=lane)
    return packed
