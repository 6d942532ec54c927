"""Vectors as their lanes: what the transforms that take vectors apart share."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

from loom.dialects.scalar import ops as scalar_ops
from loom.dialects.vector import construct
from loom.ir.core import Block, Op, Value
from loom.ir.diagnostics import Location
from loom.ir.types import ShapedType, Type
from loom.spec.registry import lookup
from loom.transforms.fold import make_constant

MAX_LANES: Final = 256
"""Vectors of more lanes stay as they are: code lane by lane would be no help to anybody."""

_PUT_TOGETHER: Final = frozenset({"vector.from_elements", "vector.splat", "vector.constant", "vector.poison"})


class Emitter:
    """Puts operations in front of another one, with a location."""

    def __init__(self, anchor: Op, loc: Location) -> None:
        self.anchor = anchor
        self.loc = loc

    def place(self, op: Op) -> None:
        """Put an operation in its place."""
        op.loc = self.loc
        op.insert_before(self.anchor)

    def __call__(self, op: Op) -> Value:
        """Put an operation in its place and return its result."""
        self.place(op)
        return op.results[0]

    def constant(self, type_: Type, value: object) -> Value:
        """A constant of an integer, float or address type."""
        return self(make_constant(type_, value, self.loc))

    def scalar(self, name: str, operands: Sequence[Value], result: Type) -> Value:
        """``scalar.NAME`` without flags."""
        cls = lookup(f"scalar.{name}")
        assert cls is not None
        return self(cls(list(operands), [None] * len(cls.spec.attributes), [result]))

    def scalar_like(self, op: Op, name: str, operands: Sequence[Value], result: Type) -> Value:
        """``scalar.NAME`` with those attributes of an operation that it has too."""
        cls = lookup(f"scalar.{name}")
        assert cls is not None
        own = op.spec.attribute_index
        attributes = [op.attribute(a.name) if a.name in own else None for a in cls.spec.attributes]
        return self(cls(list(operands), attributes, [result]))

    def sum_of(self, a: Value, b: Value) -> Value:
        """The sum of two addresses of one type."""
        cls = lookup("index.add")
        assert cls is not None
        return self(cls([a, b], [], [a.type]))


def in_front_of(op: Op) -> Emitter:
    """Puts operations in front of another one, with its location."""
    return Emitter(op, op.loc)


def lane_count(type_: Type) -> int | None:
    """The number of lanes of a vector that may be taken apart, else nothing."""
    if not isinstance(type_, ShapedType) or type_.kind != "vector" or type_.encoding is not None:
        return None
    size = type_.static_size
    return size if size is not None and size <= MAX_LANES else None


def coordinates(dims: Sequence[Any]) -> list[tuple[int, ...]]:
    """The coordinates of all lanes in lane order, the last axis fastest."""
    return list(itertools.product(*(range(extent) for extent in dims)))


class Lanes:
    """The lanes of the vectors of one function, taken out of them at most once.

    Vectors that were put together from scalars are looked through, so that what one rewrite puts together the next one
    finds as scalars; what is not looked at any more is left for dead-code elimination.
    """

    def __init__(self) -> None:
        self._known: dict[Value, list[Value]] = {}
        # The last operation that takes a lane of a block's argument, behind which those of the next one go.
        self._heads: dict[Block, Op | None] = {}

    def are_known(self, vector: Value) -> bool:
        """Whether the lanes of a vector are at hand without taking it apart."""
        maker = vector.defining_op
        return vector in self._known or (maker is not None and maker.name in _PUT_TOGETHER)

    def of(self, vector: Value) -> list[Value]:
        """The lanes of a vector with few enough of them (:func:`lane_count`), in lane order."""
        known = self._known.get(vector)
        if known is None:
            known = self._known[vector] = self._taken(vector)
            if isinstance(vector.owner, Block) and known:
                self._heads[vector.owner] = known[-1].defining_op
        return known

    def _taken(self, vector: Value) -> list[Value]:
        type_: Any = vector.type
        maker: Any = vector.defining_op
        emit = self._behind(vector)
        size = lane_count(type_)
        assert size is not None
        if maker is not None and maker.name == "vector.from_elements":
            return list(maker.elements)
        if maker is not None and maker.name == "vector.splat":
            return [maker.scalar] * size
        if maker is not None and maker.name == "vector.constant":
            return [emit.constant(type_.element, maker.value)] * size if size else []
        if maker is not None and maker.name == "vector.poison":
            return [emit(scalar_ops.Poison([], [], [type_.element]))] * size if size else []
        return [
            emit(construct.Extract([vector], [place], [type_.element], segments=(1, 0)))
            for place in coordinates(type_.dims)
        ]

    def _behind(self, value: Value) -> Emitter:
        """Puts operations where a value is known first."""
        owner = value.owner
        if isinstance(owner, Block):
            # Rewriting may erase whatever else stands there.
            last = self._heads.get(owner)
            anchor = owner.first if last is None else last.next
            assert anchor is not None
            return Emitter(anchor, anchor.loc)
        assert owner.next is not None
        return Emitter(owner.next, owner.loc)

    def put(self, op: Op, *results: Sequence[Value]) -> None:
        """Replace an operation by vectors of lanes, one list for each of its results."""
        emit = in_front_of(op)
        made = []
        for result, lanes in zip(op.results, results, strict=True):
            made.append(emit(construct.FromElements(list(lanes), [], [result.type], segments=(len(lanes),))))
            self._known[made[-1]] = list(lanes)
        op.replace_with(made)
