"""Selection of scalar atomics on views, and of prefetches.

Vulkan has atomics of 32 and 64 bits.  Integer kinds have instructions; float kinds are loops of compare and
exchange, which round as the operation does and keep denormals.
"""

from __future__ import annotations

from typing import Final

from loom.ir import types as lt
from loom.ir.core import Op
from loom_target_spirv import types as t
from loom_target_spirv.enumerants import MemorySemantics, Scope
from loom_target_spirv.module import Value
from loom_target_spirv.select.context import Context
from loom_target_spirv.select.conversions import as_pattern, of_pattern
from loom_target_spirv.select.memory import element_position, operand, unit_pointer, view_type
from loom_target_spirv.select.rules import Rule
from loom_target_spirv.select.scalar import lane_result
from loom_target_spirv.structured import Loop

_SCOPES: Final[dict[str, Scope]] = {
    "thread": Scope.Invocation,
    "subgroup": Scope.Subgroup,
    "workgroup": Scope.Workgroup,
    "device": Scope.Device,
}

_STORAGE: Final = MemorySemantics.UniformMemory | MemorySemantics.WorkgroupMemory

_ORDERINGS: Final[dict[str, MemorySemantics]] = {
    "relaxed": MemorySemantics.Relaxed,
    "acquire": MemorySemantics.Acquire | MemorySemantics.MakeVisible | _STORAGE,
    "release": MemorySemantics.Release | MemorySemantics.MakeAvailable | _STORAGE,
    "acq_rel": MemorySemantics.AcquireRelease | MemorySemantics.MakeAvailable | MemorySemantics.MakeVisible | _STORAGE,
}

_INSTRUCTIONS: Final[dict[str, str]] = {
    "xchgi": "OpAtomicExchange",
    "xchgf": "OpAtomicExchange",
    "addi": "OpAtomicIAdd",
    "subi": "OpAtomicISub",
    "andi": "OpAtomicAnd",
    "ori": "OpAtomicOr",
    "xori": "OpAtomicXor",
    "minsi": "OpAtomicSMin",
    "maxsi": "OpAtomicSMax",
    "minui": "OpAtomicUMin",
    "maxui": "OpAtomicUMax",
}
"""Kinds with an instruction; the others are loops."""


def _scope(context: Context, op: Op) -> Scope:
    scope = str(op.attribute("scope"))
    if scope not in _SCOPES:
        raise _refused(context, op, f"the scope '{scope}'", "spirv.atomic.scope", "Vulkan orders within a device")
    return _SCOPES[scope]


def _ordering(context: Context, op: Op, name: str) -> MemorySemantics:
    ordering = str(op.attribute(name))
    if ordering not in _ORDERINGS:
        hint = "the Vulkan memory model has no sequential consistency; 'acq_rel' is its strongest ordering"
        raise _refused(context, op, f"the ordering '{ordering}'", "spirv.atomic.ordering", hint)
    return _ORDERINGS[ordering]


def _refused(context: Context, op: Op, what: str, constraint: str, hint: str) -> Exception:
    return context.refuse(
        op,
        "TARGET/003",
        f"'{op.name}' with {what} has no SPIR-V form",
        hint=hint,
        subject_role="attribute",
        subject_name=what,
        constraint_key=constraint,
    )


def _pointer(context: Context, op: Op, field: str) -> tuple[Value, t.IntType, t.BoolType | t.IntType | t.FloatType]:
    """A pointer to the element as an integer, that integer type, and the type of the element's value."""
    target = operand(op, field)
    view, type_ = context.view(target), view_type(target)
    value_type = context.scalar_type(type_.element, op)
    if type_.element.width not in (32, 64) or type_.access_alignment < type_.element.byte_size:
        raise context.refuse(
            op,
            "TARGET/008",
            f"'{op.name}' on {type_}: atomics need aligned elements of 32 or 64 bits",
            operation_kind="atomic",
        )
    integer = t.IntType(type_.element.width)
    position = element_position(context, view, op, type_)
    if view.storage is None:
        return context.function.address_to_pointer(position, integer), integer, value_type
    if view.storage.unit != integer:
        raise context.refuse(
            op,
            "TARGET/008",
            f"'{op.name}' on scratch memory that is also accessed in narrower elements",
            operation_kind="atomic",
            hint="use an allocation of its own for atomics",
        )
    return unit_pointer(context, view.storage, position, 0), integer, value_type


def _operand_bits(context: Context, op: Op, name: str, integer: t.IntType) -> Value:
    value = operand(op, name)
    scalar = context.scalar(value)
    return context.resize(scalar, integer.width) if value.type in lt.ADDRESSES else as_pattern(context, scalar)


def _update(context: Context, op: Op) -> Value:
    """The old bits of an element that is combined with a value."""
    pointer, integer, value_type = _pointer(context, op, "target")
    kind, scope, order = str(op.attribute("kind")), _scope(context, op), _ordering(context, op, "ordering")
    bits = _operand_bits(context, op, "value", integer)
    if kind in _INSTRUCTIONS:
        return context.function.atomic(_INSTRUCTIONS[kind], pointer, scope, order, bits)
    operand_value = context.scalar(operand(op, "value"))
    first = context.function.atomic("OpAtomicLoad", pointer, scope, MemorySemantics.Relaxed)
    loop = Loop(context.function, [first])
    (current,) = loop.carried
    combined = lane_result(context, op, kind, (of_pattern(context, current, value_type), operand_value))
    if combined is None:
        raise context.refuse(op, "TARGET/001", f"'{op.name}<{kind}>' has no SPIR-V form")
    wanted = as_pattern(context, combined)
    seen = context.function.atomic("OpAtomicCompareExchange", pointer, scope, order, wanted, current)
    loop.body(context.integers.compare("OpINotEqual", seen, current))
    loop.end([seen])
    return seen


def _reduce(context: Context, op: Op) -> None:
    _update(context, op)


def _rmw(context: Context, op: Op) -> None:
    old = _update(context, op)
    context.bind(op.results[0], of_pattern(context, old, context.scalar_type(op.results[0].type, op)))


def _compare_exchange(context: Context, op: Op) -> None:
    pointer, integer, value_type = _pointer(context, op, "target")
    _ordering(context, op, "failure_ordering")
    order = _ordering(context, op, "success_ordering")
    new, expected = (_operand_bits(context, op, name, integer) for name in ("value", "expected"))
    scope = _scope(context, op)
    old = context.function.atomic("OpAtomicCompareExchange", pointer, scope, order, new, expected)
    context.bind(op.results[0], of_pattern(context, old, value_type))


def _load(context: Context, op: Op) -> None:
    pointer, _, value_type = _pointer(context, op, "source")
    scope, order = _scope(context, op), _ordering(context, op, "ordering")
    bits = context.function.atomic("OpAtomicLoad", pointer, scope, order)
    context.bind(op.results[0], of_pattern(context, bits, value_type))


def _store(context: Context, op: Op) -> None:
    pointer, integer, _ = _pointer(context, op, "target")
    scope, order = _scope(context, op), _ordering(context, op, "ordering")
    context.function.atomic_store(pointer, scope, order, _operand_bits(context, op, "value", integer))


def _nothing(context: Context, op: Op) -> None:
    """SPIR-V has no prefetch, which is a hint."""


ATOMIC_RULES: Final[dict[str, Rule]] = {
    "view.atomic.reduce": _reduce,
    "view.atomic.rmw": _rmw,
    "view.atomic.cmpxchg": _compare_exchange,
    "view.atomic.load": _load,
    "view.atomic.store": _store,
    "view.prefetch": _nothing,
}
"""Scalar atomics and prefetches."""
