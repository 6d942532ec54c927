"""Assertions in ordinary operations, for targets that have ``kernel.assert`` but no checks of their own.

Language reference, part 1, section 20. An access is checked against the extents of its view: no kernel knows those of
the storage that it is given. Layouts, and views whose alignment or origin is not plain, stay as they are; targets
refuse such assertions where they stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loom.dialects.index import ops as index
from loom.dialects.kernel import ops as kernel
from loom.dialects.scalar import ops as scalar
from loom.ir.attributes import Predicate, Ref
from loom.ir.core import Op, Value
from loom.ir.predicates import MEANINGS, UNSIGNED, predicate_text
from loom.ir.types import ADDRESSES, FLOATS, I1, I64, INDEX, INTEGERS, ScalarType
from loom.spec.registry import lookup
from loom.text.directives import index_entries
from loom.transforms.fold import make_constant
from loom.transforms.loops_positions import Cursor

# Predicate -> the comparison of integers and addresses.
_INTEGERS: Final = {
    **{name: name for name in ("eq", "ne", *UNSIGNED)},
    **{name: f"s{name}" for name in ("lt", "le", "gt", "ge")},
}
# The same of floats: what is compared with a NaN is unequal to it.
_FLOATS: Final = {"eq": "oeq", "ne": "une"}
# Predicate -> the test of a float, and what it must answer.
_TESTS: Final = {
    "not_nan": ("scalar.isnanf", False),
    "not_inf": ("scalar.isinff", False),
    "finite": ("scalar.isfinitef", True),
}

_Argument = Value | int
_Condition = Value | bool


def expand_assertions(function: Op) -> int:
    """Replace the assertions of a kernel by comparisons and ``kernel.assert``; returns how many were."""
    expanded = 0
    for block in function.regions[-1].blocks:
        for outer in list(block):
            for op in list(outer.walk()):
                rule = _RULES.get(op.name)
                if rule is not None and rule(op):
                    expanded += 1
    return expanded


class _Builder:
    """Conditions in front of an operation; conditions that are decided here are Python truth values."""

    def __init__(self, op: Op) -> None:
        self.cursor = Cursor(before=op)
        self.loc = op.loc

    def constant(self, type_: ScalarType, value: int) -> Value:
        """A constant; what lies above the signed numbers stands for its bits."""
        if type_ in INTEGERS and type_ is not I1 and value >> type_.width - 1 == 1:
            value -= 1 << type_.width
        return self.cursor.add(make_constant(type_, value, self.loc)).results[0]

    def op(self, name: str, operands: Sequence[Value], attributes: Sequence[object], type_: ScalarType) -> Value:
        made = lookup(name)
        assert made is not None
        return self.cursor.add(made(list(operands), list(attributes), [type_], loc=self.loc)).results[0]

    def wide(self, argument: _Argument) -> Value:
        """An integer or address in 64 bits."""
        if isinstance(argument, int):
            return self.constant(I64, argument)
        if argument.type is I64:
            return argument
        return self.op("index.cast" if argument.type in ADDRESSES else "scalar.extsi", [argument], [], I64)

    def compare(self, name: str, left: _Argument, right: _Argument) -> _Condition:
        types = {argument.type for argument in (left, right) if isinstance(argument, Value)}
        if not types:
            return bool(MEANINGS[name](left, right))
        (type_, *others) = types
        assert isinstance(type_, ScalarType)
        if others or not all(_fits(name, side, type_) for side in (left, right)):
            left, right, type_ = self.wide(left), self.wide(right), I64
        sides = [side if isinstance(side, Value) else self.constant(type_, side) for side in (left, right)]
        if type_ in FLOATS:
            return self.op("scalar.cmpf", sides, [None, _FLOATS[name]], I1)
        return self.op("index.cmp" if type_ in ADDRESSES else "scalar.cmpi", sides, [_INTEGERS[name]], I1)

    def all_of(self, conditions: Sequence[_Condition]) -> _Condition:
        if any(condition is False for condition in conditions):
            return False
        total: _Condition = True
        for condition in conditions:
            if isinstance(condition, Value):
                total = self.op("scalar.andi", [total, condition], [], I1) if isinstance(total, Value) else condition
        return total

    def predicate(self, predicate: Predicate, named: Sequence[Value]) -> _Condition:
        args = [named[a.index] if isinstance(a, Ref) else a for a in predicate.args]
        name = predicate.name
        if name in _INTEGERS:
            return self.compare(name, args[0], args[1])
        if name == "range":
            return self.all_of([self.compare("ge", args[0], args[1]), self.compare("le", args[0], args[2])])
        if name in _TESTS:
            test, wanted = _TESTS[name]
            answer = self.op(test, [_value(args[0])], [], I1)
            return answer if wanted else self.op("scalar.xori", [answer, self.constant(I1, 1)], [], I1)
        value = self.wide(args[0])
        if name == "power_of_two":
            less = self.op("scalar.subi", [value, self.constant(I64, 1)], [None], I64)
            shared = self.op("scalar.andi", [value, less], [], I64)
            return self.all_of([self.compare("gt", value, 0), self.compare("eq", shared, 0)])
        return self.multiple(value, args[1])

    def multiple(self, value: Value, divisor: _Argument) -> _Condition:
        if divisor == 1:
            return True
        if isinstance(divisor, int):
            if divisor & (divisor - 1) == 0:
                return self.compare("eq", self.op("scalar.andi", [value, self.constant(I64, divisor - 1)], [], I64), 0)
            return self.compare("eq", self.op("scalar.remsi", [value, self.constant(I64, divisor)], [], I64), 0)
        wide = self.wide(divisor)
        positive = self.compare("gt", wide, 0)
        # A divisor that is not positive makes the predicate false; one stands in so that the remainder is defined.
        safe = self.op("scf.select", [_value(positive), wide, self.constant(I64, 1)], [], I64)
        rest = self.op("scalar.remsi", [value, safe], [], I64)
        return self.all_of([positive, self.compare("eq", rest, 0)])

    def require(self, condition: _Condition, message: str) -> None:
        if condition is True:
            return
        value = self.constant(I1, 0) if condition is False else condition
        self.cursor.add(kernel.Assert.build(condition=value, message=message, loc=self.loc))


def _value(argument: _Argument | bool) -> Value:
    assert isinstance(argument, Value)
    return argument


def _fits(name: str, side: _Argument, type_: ScalarType) -> bool:
    """Whether a literal is one of the type, or the bits of one where bits are compared."""
    if isinstance(side, Value) or type_ in ADDRESSES:
        return True
    half = 1 << type_.width - 1
    return -half <= side < (2 * half if name in UNSIGNED else half)


# -- predicates ------------------------------------------------------------------------------------------------------


def _expressible(predicate: Predicate, named: Sequence[Value]) -> bool:
    """Truth values are left out: they are compared with nothing but constants, as numbers that the language lacks."""
    types = [named[a.index].type for a in predicate.args if isinstance(a, Ref)]
    return I1 not in types and (predicate.name not in UNSIGNED or len(set(types)) == 1)


def _predicates(op: Any) -> bool:
    if not all(_expressible(predicate, op.mentioned) for predicate in op.predicates):
        return False
    builder = _Builder(op)
    for predicate in op.predicates:
        text = predicate_text(predicate, op.mentioned)
        builder.require(builder.predicate(predicate, op.mentioned), f"the asserted predicate '{text}' is false")
    if op.results:
        op.replace_with(_assumed(builder, op))
    else:
        op.erase()
    return True


def _assumed(builder: _Builder, op: Any) -> Sequence[Value]:
    """The checked values with the facts that now hold."""
    addresses = {value.type in ADDRESSES for value in op.inputs}
    if len(addresses) != 1:
        return list(op.inputs)
    cls: Any = index.Assume if addresses == {True} else scalar.Assume
    types = [value.type for value in op.inputs]
    made = cls.build(result_types=types, inputs=op.inputs, mentioned=op.mentioned, predicates=op.predicates, loc=op.loc)
    return builder.cursor.add(made).results


# -- footprints ------------------------------------------------------------------------------------------------------


def _start(view: Value) -> Value | None:
    """The byte position in storage of what the view is a part of; ``None`` when it comes from elsewhere."""
    op: Any = view.defining_op
    while op is not None and op.name in ("view.subview", "view.refine"):
        op = op.source.defining_op
    return op.byte_offset if op is not None and op.name == "buffer.view" else None


def _access(op: Any) -> bool:
    return _footprints(op, [(0,) * len(op.static_indices)])


def _accesses(op: Any) -> bool:
    # What lies between the first and the last footprint of a family is in bounds with them, axis by axis.
    return _footprints(
        op, [tuple(number * stride for stride in op.static_strides) for number in (0, op.static_count - 1)]
    )


def _footprints(op: Any, moved: Sequence[tuple[int, ...]]) -> bool:
    type_ = op.view.type
    start = _start(op.view)
    if start is None or type_.align is not None:
        return False
    builder = _Builder(op)
    extents = op.static_extents or (1,) * type_.rank
    conditions: list[_Condition] = []
    for axis, (entry, extent, dim) in enumerate(
        zip(index_entries(op.indices, op.static_indices), extents, type_.dims, strict=True)
    ):
        shifts = [step[axis] for step in moved]
        first, beyond = min(shifts), max(shifts) + extent
        conditions.append(builder.compare("ge", entry, -first))
        if isinstance(dim, int):
            conditions.append(builder.compare("le", entry, dim - beyond))
        else:
            # The subtraction cannot wrap: extents are no larger than the address space and counts are small.
            last = builder.op("index.sub", [dim, builder.constant(INDEX, beyond)], [], INDEX)
            conditions.append(builder.compare("le", entry, last))
    conditions.append(builder.multiple(builder.wide(start), type_.element.byte_size))
    builder.require(
        builder.all_of(conditions), f"the access of %{op.view.name or '?'} leaves the view or is not aligned"
    )
    op.erase()
    return True


_RULES: Final = {
    "sanitizer.assert.value": _predicates,
    "sanitizer.assert.op": _predicates,
    "sanitizer.assert.access": _access,
    "sanitizer.assert.accesses": _accesses,
}

ASSERTIONS: Final = frozenset(_RULES)
"""Names of the assertions, all of which an expansion may replace."""
