"""Taking positions apart: a constant, plus uniform terms, plus terms that differ between lanes.

Address arithmetic never wraps (a program whose positions do not fit is invalid), so sums may be reassociated
freely. A leaf is a source value, a launch coordinate, or the product of two of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from loom.facts.integers import IntegerFacts, add, exactly, mul
from loom.facts.integers import scale as scale_by
from loom.ir.core import Op, Value
from loom.ir.records import record
from loom_target_amdgpu.select.values import Linear, Word

if TYPE_CHECKING:
    from loom_target_amdgpu.select.selector import Selector


# Leaves are looked up in tables again and again: there is one object for each, equal to itself only.


@record(eq=False)
class Coordinate:
    """A launch coordinate: ``workgroup`` or ``workitem`` along an axis; one of :data:`COORDINATES`."""

    kind: str
    axis: str


@record(eq=False)
class Product:
    """The product of two leaves, neither of them constant; made by :meth:`Decomposer.product`."""

    left: Value
    right: Value


@record(eq=False)
class Computed:
    """A number that selection has computed itself; its registers and constants."""

    words: tuple[Word, ...]


COORDINATES: Final = {
    (kind, axis): Coordinate(kind, axis) for kind in ("workgroup", "workitem") for axis in ("x", "y", "z")
}

Leaf = Value | Coordinate | Product | Computed


def plus(a: Linear, b: Linear, factor: int = 1) -> Linear:
    """a + factor * b."""
    if not b.terms:
        return Linear(a.constant + factor * b.constant, a.terms) if b.constant else a
    if not a.terms:
        scaled = times(b, factor)
        return Linear(a.constant + scaled.constant, scaled.terms) if a.constant else scaled
    terms = dict(a.terms)
    for leaf, scale in b.terms:
        terms[leaf] = terms.get(leaf, 0) + factor * scale
    return Linear(a.constant + factor * b.constant, tuple((leaf, scale) for leaf, scale in terms.items() if scale))


def times(a: Linear, factor: int) -> Linear:
    """factor * a."""
    if factor == 1:
        return a
    return Linear(a.constant * factor, tuple([(leaf, scale * factor) for leaf, scale in a.terms]) if factor else ())


ZERO: Final = Linear(0)


class Decomposer:
    """Decomposes source values of one kernel; answers are remembered."""

    def __init__(self, selector: Selector) -> None:
        self._selector = selector
        self._known: dict[Value, Linear] = {}
        self._products: dict[tuple[Value, Value], Product] = {}

    def of(self, value: Value) -> Linear:
        """The linear form of an ``index`` or ``offset`` value."""
        known = self._known.get(value)
        if known is None:
            known = self._known[value] = self._decompose(value)
        return known

    def _decompose(self, value: Value) -> Linear:
        facts = self._selector.facts
        exact = facts.exact(value)
        if exact is not None:
            return Linear(exact)
        op = value.defining_op
        rule = _RULES.get(op.name) if op is not None else None
        if rule is not None and op is not None:
            found = rule(self, op)
            if found is not None:
                return found
        return Linear(0, ((value, 1),))

    def product(self, a: Value, b: Value) -> Linear:
        """a * b."""
        facts = self._selector.facts
        for left, right in ((a, b), (b, a)):
            exact = facts.exact(left)
            if exact is not None:
                return times(self.of(right), exact)
        made = self._products.get((a, b))
        if made is None:
            made = self._products[a, b] = Product(a, b)
        return Linear(0, ((made, 1),))

    def range(self, form: Linear, at: Op | None) -> IntegerFacts:
        """Facts of a linear form; path facts apply at ``at``."""
        total = exactly(form.constant)
        for leaf, scale in form.terms:
            total = add(scale_by(self.leaf_facts(leaf, at), scale), total)
        return total

    def leaf_facts(self, leaf: object, at: Op | None) -> IntegerFacts:
        """Facts of one leaf."""
        facts = self._selector.facts
        if isinstance(leaf, Value):
            return facts.integer(leaf, at)
        if isinstance(leaf, Coordinate):
            return self._selector.coordinate_facts(leaf)
        if isinstance(leaf, Product):
            return mul(facts.integer(leaf.left, at), facts.integer(leaf.right, at))
        assert isinstance(leaf, Computed)
        return self._selector.computed_facts(leaf)


def _add(d: Decomposer, op: Op) -> Linear:
    return plus(d.of(op.operands[0]), d.of(op.operands[1]))


def _sub(d: Decomposer, op: Op) -> Linear:
    return plus(d.of(op.operands[0]), d.of(op.operands[1]), -1)


def _mul(d: Decomposer, op: Op) -> Linear:
    return d.product(op.operands[0], op.operands[1])


def _madd(d: Decomposer, op: Op) -> Linear:
    return plus(d.product(op.operands[0], op.operands[1]), d.of(op.operands[2]))


def _shl(d: Decomposer, op: Op) -> Linear | None:
    amount = d._selector.facts.exact(op.operands[1])
    if amount is None or not 0 <= amount < 63:
        return None
    return times(d.of(op.operands[0]), 1 << amount)


def _cast(d: Decomposer, op: Op) -> Linear | None:
    source = op.operands[0]
    return (
        d.of(source) if source.type.text in ("index", "offset") and op.result.type.text in ("index", "offset") else None
    )


def _workgroup(d: Decomposer, op: Op) -> Linear:
    return Linear(0, ((COORDINATES["workgroup", str(op.attribute("axis"))], 1),))


def _workitem(d: Decomposer, op: Op) -> Linear:
    return Linear(0, ((COORDINATES["workitem", str(op.attribute("axis"))], 1),))


def _dispatch(d: Decomposer, op: Op) -> Linear | None:
    axis = str(op.attribute("axis"))
    size = d._selector.static_size(axis)
    if size is None:
        return None
    return Linear(0, ((COORDINATES["workgroup", axis], size), (COORDINATES["workitem", axis], 1)))


_RULES: Final[dict[str, Callable[[Decomposer, Op], Linear | None]]] = {
    "index.add": _add,
    "index.sub": _sub,
    "index.mul": _mul,
    "index.madd": _madd,
    "index.shli": _shl,
    "index.cast": _cast,
    "index.scale": _mul,
    "kernel.workgroup.id": _workgroup,
    "kernel.cluster.id": _workgroup,
    "kernel.workitem.id": _workitem,
    "kernel.workitem.dispatch.id": _dispatch,
}
