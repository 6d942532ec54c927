"""Vector memory and atomics (language reference, part 2, section 9)."""

from __future__ import annotations

from typing import Any, Final

from loom.dialects import words as w
from loom.dialects.vector import verify_memory as v
from loom.dialects.view.verify import atomic_rules, compare_exchange_rules
from loom.ir.core import Op, Value
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

MASK: Final = c.vector_of("vector of i1", c.I1)
OFFSETS: Final = c.vector_of("vector of index or integers", c.INDEX_OR_INTEGER)
CACHE: Final = "⟦ $<dict cache_scope cache_temporal>⟧"
ATOMIC_CACHE: Final = " $<dict cache_scope cache_temporal ordering scope>"


class _Access(Op):
    __slots__ = ()
    indices: list[Value] = s.operands(c.INDEX)
    static_indices: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    cache_scope: str | None = s.optional_attribute(w.CACHE_SCOPE)
    cache_temporal: str | None = s.optional_attribute(w.CACHE_TEMPORAL)


class Reading(_Access):
    """Reads lanes through a view."""

    __slots__ = ()
    source: Value


class Writing(_Access):
    """Writes lanes through a view."""

    __slots__ = ()
    value: Value
    target: Value


@s.op(
    "vector.load",
    "⟦<$flags>⟧ $source$<indices indices>" + CACHE + " : type($source) -> type($result)",
    traits=("reads",),
    verify=v.access,
)
class Load(Reading):
    """Reads a footprint whose axes are the trailing axes of the view."""

    flags: tuple[str, ...] | None = s.optional_attribute(w.ACCESS_FLAGS)
    source: Value = s.operand(c.VIEW)
    result: Value = s.result(c.VECTOR)


@s.op(
    "vector.store",
    "⟦<$flags>⟧ $value, $target$<indices indices>" + CACHE + " : type($value), type($target)",
    traits=("writes",),
    verify=v.access,
)
class Store(Writing):
    """Writes a footprint whose axes are the trailing axes of the view."""

    flags: tuple[str, ...] | None = s.optional_attribute(w.ACCESS_FLAGS)
    value: Value = s.operand(c.VECTOR)
    target: Value = s.operand(c.VIEW)


class _MaskedLoad(Reading):
    __slots__ = ()
    source: Value = s.operand(c.VIEW)
    mask: Value = s.operand(MASK)
    passthrough: Value = s.operand(c.VECTOR)
    result: Value = s.result(c.VECTOR, same_type_as="passthrough")


class _MaskedStore(Writing):
    __slots__ = ()
    value: Value = s.operand(c.VECTOR)
    target: Value = s.operand(c.VIEW)
    mask: Value = s.operand(MASK)


_MASKED_LOAD: Final = (
    " $source$<indices indices>, $mask, $passthrough" + CACHE + " : type($source), type($mask), type($passthrough)"
)
_MASKED_STORE: Final = (
    " $value, $target$<indices indices>, $mask" + CACHE + " : type($value), type($target), type($mask)"
)

_FAMILIES: Final[tuple[tuple[str, type[Op], str, str, Any, str], ...]] = (
    ("load.mask", _MaskedLoad, _MASKED_LOAD, "reads", v.masked_access, "Reads active lanes; others pass through."),
    (
        "load.expand",
        _MaskedLoad,
        _MASKED_LOAD,
        "reads",
        v.packed_access,
        "Spreads consecutive elements over active lanes.",
    ),
    ("store.mask", _MaskedStore, _MASKED_STORE, "writes", v.masked_access, "Writes active lanes."),
    ("store.compress", _MaskedStore, _MASKED_STORE, "writes", v.packed_access, "Writes active lanes consecutively."),
)

for _name, _base, _format, _trait, _verify, _summary in _FAMILIES:
    s.define(
        _base,
        f"vector.{_name}",
        _format,
        traits=(_trait,),
        verify=_verify,
        summary=_summary,
        class_name=f"vector.{_name}",
    )


@s.op(
    "vector.gather",
    " $source$<indices indices>[$offsets]" + CACHE + " : type($source), type($offsets) -> type($result)",
    traits=("reads",),
    verify=v.indexed_access,
)
class Gather(Reading):
    """Reads each lane at an offset of its own along the last axis."""

    source: Value = s.operand(c.VIEW)
    offsets: Value = s.operand(OFFSETS)
    result: Value = s.result(c.VECTOR)


@s.op(
    "vector.scatter",
    " $value, $target$<indices indices>[$offsets]" + CACHE + " : type($value), type($target), type($offsets)",
    traits=("writes",),
    verify=v.indexed_access,
)
class Scatter(Writing):
    """Writes each lane at an offset of its own along the last axis; active addresses are distinct."""

    value: Value = s.operand(c.VECTOR)
    target: Value = s.operand(c.VIEW)
    offsets: Value = s.operand(OFFSETS)


@s.op(
    "vector.gather.mask",
    " $source$<indices indices>[$offsets], $mask, $passthrough"
    + CACHE
    + " : type($source), type($offsets), type($mask), type($passthrough)",
    traits=("reads",),
    verify=v.indexed_access,
)
class GatherMask(Reading):
    """A gather of active lanes."""

    source: Value = s.operand(c.VIEW)
    offsets: Value = s.operand(OFFSETS)
    mask: Value = s.operand(MASK)
    passthrough: Value = s.operand(c.VECTOR)
    result: Value = s.result(c.VECTOR, same_type_as="passthrough")


@s.op(
    "vector.scatter.mask",
    " $value, $target$<indices indices>[$offsets], $mask"
    + CACHE
    + " : type($value), type($target), type($offsets), type($mask)",
    traits=("writes",),
    verify=v.indexed_access,
)
class ScatterMask(Writing):
    """A scatter of active lanes."""

    value: Value = s.operand(c.VECTOR)
    target: Value = s.operand(c.VIEW)
    offsets: Value = s.operand(OFFSETS)
    mask: Value = s.operand(MASK)


class _Atomic(Writing):
    __slots__ = ()
    kind: str = s.attribute(w.ATOMIC)
    flags: tuple[str, ...] | None = s.optional_attribute(w.ATOMIC_FLAGS)
    ordering: str = s.attribute(w.ORDERING)
    scope: str = s.attribute(w.SCOPE)
    value: Value = s.operand(c.VECTOR)
    target: Value = s.operand(c.VIEW)
    offsets: Value = s.operand(OFFSETS)


_ATOMIC_HEAD: Final = "<$kind⟦, $flags⟧> $value, $target$<indices indices>[$offsets]"
_ATOMIC_TYPES: Final = " : type($value), type($target), type($offsets)"


def _atomic(op: Any) -> list[Any]:
    return [*(v.indexed_access(op) or []), *(atomic_rules(op) or [])]


@s.op("vector.atomic.reduce", _ATOMIC_HEAD + ATOMIC_CACHE + _ATOMIC_TYPES, traits=("reads", "writes"), verify=_atomic)
class AtomicReduce(_Atomic):
    """One atomic combination per lane."""


@s.op(
    "vector.atomic.reduce.mask",
    _ATOMIC_HEAD + ", $mask" + ATOMIC_CACHE + _ATOMIC_TYPES + ", type($mask)",
    traits=("reads", "writes"),
    verify=_atomic,
)
class AtomicReduceMask(_Atomic):
    """One atomic combination per active lane."""

    mask: Value = s.operand(MASK)


@s.op("vector.atomic.rmw", _ATOMIC_HEAD + ATOMIC_CACHE + _ATOMIC_TYPES, traits=("reads", "writes"), verify=_atomic)
class AtomicRmw(_Atomic):
    """One atomic combination per lane; results are the old values."""

    result: Value = s.result(c.VECTOR, same_type_as="value")


@s.op(
    "vector.atomic.rmw.mask",
    _ATOMIC_HEAD + ", $mask, $passthrough" + ATOMIC_CACHE + _ATOMIC_TYPES + ", type($mask), type($passthrough)",
    traits=("reads", "writes"),
    verify=_atomic,
)
class AtomicRmwMask(_Atomic):
    """One atomic combination per active lane; others pass through."""

    mask: Value = s.operand(MASK)
    passthrough: Value = s.operand(c.VECTOR)
    result: Value = s.result(c.VECTOR, same_type_as="passthrough")


@s.op(
    "vector.atomic.cmpxchg",
    " $expected, $value, $target$<indices indices>[$offsets]"
    " $<dict cache_scope cache_temporal failure_ordering scope success_ordering>"
    " : type($value), type($target), type($offsets) -> type($result)",
    traits=("reads", "writes"),
    same_type=(("expected", "value"),),
    verify=compare_exchange_rules,
)
class AtomicCmpxchg(_Access):
    """One compare-exchange per lane; results are the old values."""

    expected: Value = s.operand(c.VECTOR)
    value: Value = s.operand(c.VECTOR)
    target: Value = s.operand(c.VIEW)
    offsets: Value = s.operand(OFFSETS)
    failure_ordering: str = s.attribute(w.ORDERING)
    scope: str = s.attribute(w.SCOPE)
    success_ordering: str = s.attribute(w.ORDERING)
    result: Value = s.result(c.VECTOR)
