"""Proving that vector accesses stay inside of their views (pass ``vector-memory-footprint``).

Language reference, part 3, sections 11 and 12.5 (SUBRANGE/008 and following). An access is in bounds when each axis of
its footprint is: the index is proven to be at least zero, and the index and the extent together at most the extent of
the view. Nothing is changed; what facts do not prove is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from loom.facts.analysis import FunctionFacts
from loom.facts.integers import MAX64, MIN64, IntegerFacts
from loom.facts.version import Version
from loom.ir.core import Op, Value
from loom.ir.diagnostics import Diagnostic, LoomError
from loom.ir.records import record
from loom.text.directives import index_entries

PASS: Final = "vector-memory-footprint"

# Operation -> its operand that is the view, and what has the type of the vector.
_PLAIN: Final = {"vector.load": ("source", "result"), "vector.store": ("target", "value")}
# Lanes that a mask enables lie in the same footprint, but which ones is not known.
_MASKED: Final = {
    "vector.load.mask": ("source", "result"),
    "vector.load.expand": ("source", "result"),
    "vector.store.mask": ("target", "value"),
    "vector.store.compress": ("target", "value"),
}
# Lanes go where offsets say, which are vectors: no facts bound them.
_INDEXED: Final = ("vector.gather", "vector.gather.mask", "vector.scatter", "vector.scatter.mask")


@record
class _Axis:
    """One axis of an access: where it begins, how far it goes, and the extent of the view there."""

    number: int
    vector_axis: int
    origin: int | Value
    extent: int
    bound: int | Value


def check_footprints(function: Op, target_facts: Mapping[str, object], *, version: Version | None = None) -> int:
    """How many vector accesses there are, all of them proven.

    Raises SUBRANGE/008 to 011, 013, 018, 019 or 021 for those that facts do not prove, all at once.
    """
    facts = (version or Version(function, target_facts)).facts
    found: list[Diagnostic] = []
    proven = 0
    for op in function.walk():
        proven += op.name in _PLAIN or op.name in _MASKED
        if op.name in _PLAIN:
            found += _check(op, *_PLAIN[op.name], facts)
        elif op.name in _MASKED and _check(op, *_MASKED[op.name], facts):
            found.append(_fault(op, "021", "the lanes that a mask enables are not proven to be in the view"))
        elif op.name in _INDEXED:
            found.append(_fault(op, "013", "the range of the offsets of the lanes is not known"))
    if found:
        raise LoomError(found)
    return proven


def _check(op: Any, view: str, vector: str, facts: FunctionFacts) -> list[Diagnostic]:
    whole: Value = getattr(op, view)
    axes = _axes(op, whole, getattr(op, vector))
    if axes is None:
        return [_fault(op, "019", "the extents of the vector are not static")]
    faults = (_axis_fault(op, whole, axis, facts) for axis in axes)
    return [fault for fault in faults if fault is not None]


def _axes(op: Any, view: Value, vector: Value) -> list[_Axis] | None:
    """The axes of a footprint, or nothing for a vector whose shape only a run knows."""
    dims: Any = vector.type.dims  # type: ignore[attr-defined]  # a vector
    bounds: Any = view.type.dims  # type: ignore[attr-defined]  # a view
    if not all(isinstance(dim, int) for dim in dims):
        return None
    outer = len(bounds) - len(dims)
    origins = index_entries(op.indices, op.static_indices)
    return [
        _Axis(n, n - outer if n >= outer else -1, origin, dims[n - outer] if n >= outer else 1, bound)
        for n, (origin, bound) in enumerate(zip(origins, bounds, strict=True))
    ]


def _axis_fault(op: Any, view: Value, axis: _Axis, facts: FunctionFacts) -> Diagnostic | None:
    origin = _range(axis.origin, op, facts)
    if origin.lo > origin.hi or axis.extent == 0:
        return None  # Nothing reaches the access, or it accesses nothing.
    where: dict[str, Any] = {"view_axis": axis.number, "vector_axis": axis.vector_axis, "origin": _text(axis.origin)}
    if origin.lo == MIN64 and origin.hi == MAX64 and not _bounded_by_relation(op, axis, facts):
        return _fault(op, "008", f"nothing is known of where axis {axis.number} begins", **where)
    if origin.lo < 0:
        return _fault(op, "009", f"axis {axis.number} may begin at {origin.lo}, which is negative", **where)
    bound = _range(axis.bound, op, facts)
    if origin.hi + axis.extent <= bound.lo or _bounded_by_relation(op, axis, facts):
        return None
    maker = axis.bound.defining_op if isinstance(axis.bound, Value) else None
    if maker is not None and maker.name == "config.get":
        key = str(maker.attribute("key"))
        message = f"what '@{key}' promises does not keep axis {axis.number} in the view"
        return _fault(op, "018", message, **where, config_key=key, constraint_key="range")
    most = max(bound.lo, 0) - axis.extent
    return _fault(
        op,
        "010" if axis.vector_axis >= 0 else "011",
        f"axis {axis.number} may go up to {min(origin.hi, MAX64 - axis.extent) + axis.extent}, "
        f"but the view is only proven to have {max(bound.lo, 0)}",
        hint=f"it is safe to begin at most at {most}; state a range with 'index.assume'" if most >= 0 else None,
        **where,
        view=_text(view),
        vector_extent=axis.extent,
        view_bound=_text(axis.bound),
        required_origin_upper_bound=most,
        constraint_key="range",
    )


def _bounded_by_relation(op: Op, axis: _Axis, facts: FunctionFacts) -> bool:
    """Whether a comparison that holds here keeps an axis of one element below the extent of the view."""
    if axis.extent != 1 or not isinstance(axis.origin, Value) or not isinstance(axis.bound, Value):
        return False
    return facts.decide("slt", axis.origin, axis.bound, op) is True


def _range(entry: int | Value, op: Op, facts: FunctionFacts) -> IntegerFacts:
    return IntegerFacts(entry, entry) if isinstance(entry, int) else facts.integer(entry, op)


def _text(entry: int | Value) -> str:
    return str(entry) if isinstance(entry, int) else f"%{entry.name or '?'}"


def _fault(op: Op, number: str, message: str, *, hint: str | None = None, **params: object) -> Diagnostic:
    named: dict[str, Any] = {"op_name": op.name, **params}
    return Diagnostic(f"SUBRANGE/{number}", f"'{op.name}': {message}", op.loc, named, hint=hint, emitter=PASS)
