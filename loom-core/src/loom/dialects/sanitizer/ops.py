"""Declarations of the ``sanitizer`` dialect (language reference, part 1, section 20)."""

from __future__ import annotations

from typing import Final

from loom.dialects import words as w
from loom.dialects.sanitizer import verify as v
from loom.dialects.scalar.verify import assume as assume_rules
from loom.dialects.vector.matrix import ROLE, SHAPE
from loom.ir.attributes import Predicate
from loom.ir.core import Op, Value
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

ACCESS: Final = k.enum("access kind", ("read", "write", "read_write"))
FRAGMENT_ACCESS: Final = k.enum("access kind", ("read", "write"))
EFFECTS: Final = ("unknown_effects",)


class _Access(Op):
    __slots__ = ()
    kind: str = s.attribute(ACCESS)
    view: Value = s.operand(c.VIEW)
    indices: list[Value] = s.operands(c.INDEX)
    static_indices: tuple[int, ...] = s.attribute(k.STATIC_INDICES)


@s.op(
    "sanitizer.assert.access",
    "<$kind> $view$<indices indices>⟦ $<dict static_extents>⟧ : type($view)",
    traits=EFFECTS,
    verify=v.footprint,
)
class AssertAccess(_Access):
    """The footprint that starts at the indices is in bounds and aligned; one element unless extents are given."""

    static_extents: tuple[int, ...] | None = s.optional_attribute(k.INT_ARRAY)


@s.op(
    "sanitizer.assert.accesses",
    "<$kind> $view$<indices indices> $<dict static_count static_extents static_strides> : type($view)",
    traits=EFFECTS,
    verify=v.footprints,
)
class AssertAccesses(_Access):
    """Every footprint of a family is in bounds and aligned; number i starts i strides behind the indices."""

    static_count: int = s.attribute(k.INT)
    static_extents: tuple[int, ...] = s.attribute(k.INT_ARRAY)
    static_strides: tuple[int, ...] = s.attribute(k.INT_ARRAY)


@s.op(
    "sanitizer.assert.value",
    " $inputs $<predicates mentioned predicates> : type($results)",
    traits=(*EFFECTS, "fact_identity"),
    verify=assume_rules,
)
class AssertValue(Op):
    """The predicates hold; result i is value i with these facts."""

    inputs: list[Value] = s.operands(c.SCALAR)
    mentioned: list[Value] = s.operands(c.SCALAR)
    predicates: tuple[Predicate, ...] = s.attribute(k.PREDICATES)
    results: list[Value] = s.results(c.SCALAR)


@s.op("sanitizer.assert.op", " $inputs $<predicates mentioned predicates> : type($inputs)", traits=EFFECTS)
class AssertOp(Op):
    """The predicates hold."""

    inputs: list[Value] = s.operands(c.SCALAR)
    mentioned: list[Value] = s.operands(c.SCALAR)
    predicates: tuple[Predicate, ...] = s.attribute(k.PREDICATES)


@s.op(
    "sanitizer.assert.layout",
    " $source : type($source) -> type($result)",
    traits=(*EFFECTS, "fact_identity"),
    verify=v.layout,
)
class AssertLayout(Op):
    """The view has the extents, layout and alignment of the result type."""

    source: Value = s.operand(c.VIEW)
    result: Value = s.result(c.VIEW)


@s.op(
    "sanitizer.race.access",
    "<$kind> $view$<indices indices>⟦ $<dict atomic ordering scope>⟧ : type($view)",
    traits=EFFECTS,
    verify=v.race_access,
)
class RaceAccess(_Access):
    """Records an access to one element for race detection."""

    atomic: bool = s.attribute(k.BOOL, default=False, required=False)
    ordering: str | None = s.optional_attribute(w.ORDERING)
    scope: str | None = s.optional_attribute(w.SCOPE)


@s.op(
    "sanitizer.race.fragment_access",
    "<$kind> $fragment, $view$<indices indices>" + SHAPE + " $<dict role> : type($fragment), type($view)",
    traits=EFFECTS,
    verify=v.fragment_access,
)
class RaceFragmentAccess(Op):
    """Records the elements of a matrix fragment as accessed."""

    kind: str = s.attribute(FRAGMENT_ACCESS)
    fragment: Value = s.operand(c.VECTOR)
    view: Value = s.operand(c.VIEW)
    indices: list[Value] = s.operands(c.INDEX)
    static_indices: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    blocks: Value | None = s.optional_operand(c.INDEX)
    rows: Value = s.operand(c.INDEX)
    columns: Value = s.operand(c.INDEX)
    role: str = s.attribute(ROLE)


@s.op(
    "sanitizer.race.sync",
    "<$space> scope($scope) ordering($ordering)",
    traits=("convergent", "unknown_effects"),
    verify=v.race_sync,
)
class RaceSync(Op):
    """Records that the invocations of a scope have synchronized their accesses to a space."""

    space: str = s.attribute(w.MEMORY_SPACE)
    scope: str = s.attribute(w.SCOPE)
    ordering: str = s.attribute(w.ORDERING)
