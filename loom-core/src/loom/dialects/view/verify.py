"""Rules of the ``view`` dialect."""

from __future__ import annotations

from typing import Any

from loom.ir.diagnostics import Diagnostic
from loom.ir.types import ERROR, FLOATS
from loom.spec.kinds import DYNAMIC


def index_rank(op: Any, view: Any) -> list[Diagnostic]:
    """One index per axis, static ones inside static extents."""
    indices = op.static_indices
    if len(indices) != view.rank:
        return [
            Diagnostic(
                "SUBRANGE/001",
                f"{len(indices)} indices for a view of rank {view.rank}",
                op.loc,
                {"operand_name": "indices", "offset_count": len(indices), "rank": view.rank},
            )
        ]
    found = []
    for axis, (index, extent) in enumerate(zip(indices, view.dims, strict=True)):
        if index == DYNAMIC:
            continue
        if index < 0 or (isinstance(extent, int) and index >= extent):
            found.append(
                Diagnostic(
                    "SUBRANGE/004",
                    f"index {index} of axis {axis} is outside the extent {extent}",
                    op.loc,
                    {"dim_index": axis, "offset": index, "size": 1, "total": index + 1, "bound": str(extent)},
                )
            )
    return found


def access(op: Any) -> list[Diagnostic] | None:
    """Element type and index rules of a scalar access."""
    view = (op.source if op.name == "view.load" else op.target).type
    if view is ERROR:
        return None
    scalar = op.results[0].type if op.name == "view.load" else op.value.type
    found = _scalar_access(op, view, scalar)
    if (op.cache_scope is None) != (op.cache_temporal is None):
        found.append(
            Diagnostic(
                "STRUCTURE/014",
                "'cache_scope' and 'cache_temporal' are given together or not at all",
                op.loc,
                {
                    "attr_name": "cache_scope",
                    "actual_value": str(op.cache_scope),
                    "expected_constraint": "both keys or neither",
                },
            )
        )
    return found


def same_element_and_rank(op: Any) -> list[Diagnostic]:
    """Source and result have one element type and rank."""
    source, result = op.source.type, op.results[0].type
    if ERROR in (source, result):
        return []
    if source.element is not result.element:
        return [
            Diagnostic(
                "TYPE/002",
                f"'{op.name}' changes the element from {source.element} to {result.element}",
                op.loc,
                {
                    "field_a": "source",
                    "element_type_a": source.element,
                    "field_b": "result",
                    "element_type_b": result.element,
                },
            )
        ]
    if source.rank != result.rank:
        return [
            Diagnostic(
                "SHAPE/001",
                f"'{op.name}' changes the rank from {source.rank} to {result.rank}",
                op.loc,
                {"operand_a": "source", "rank_a": source.rank, "operand_b": "result", "rank_b": result.rank},
            )
        ]
    return []


def subview(op: Any) -> list[Diagnostic] | None:
    """Same element, rank, layout and alignment; one offset per axis."""
    found = same_element_and_rank(op)
    source, result = op.source.type, op.results[0].type
    if found or ERROR in (source, result):
        return found
    if len(op.static_indices) != source.rank:
        found.append(
            Diagnostic(
                "SUBRANGE/001",
                f"{len(op.static_indices)} offsets for a view of rank {source.rank}",
                op.loc,
                {"operand_name": "indices", "offset_count": len(op.static_indices), "rank": source.rank},
            )
        )
    if source.encoding != result.encoding:
        found.append(
            Diagnostic(
                "ENCODING/001",
                "a subview keeps its source's layout",
                op.loc,
                {"field_a": "source", "field_b": "result"},
            )
        )
    if source.align != result.align:
        found.append(
            Diagnostic(
                "TYPE/001",
                "a subview keeps its source's alignment",
                op.loc,
                {"field_a": "source", "type_a": source, "field_b": "result", "type_b": result},
                hint="restate the alignment with 'view.refine'",
            )
        )
    return found


def refine(op: Any) -> list[Diagnostic] | None:
    """Same element and rank; static extents agree."""
    found = same_element_and_rank(op)
    if found or ERROR in (op.source.type, op.results[0].type):
        return found
    for a, b in zip(op.source.type.dims, op.results[0].type.dims, strict=True):
        if isinstance(a, int) and isinstance(b, int) and a != b:
            found.append(
                Diagnostic(
                    "SHAPE/001",
                    f"'view.refine' changes a static extent from {a} to {b}",
                    op.loc,
                    {"operand_a": "source", "rank_a": a, "operand_b": "result", "rank_b": b},
                )
            )
    return found


# Failure ordering -> success orderings that allow it (part 2, section 2.3).
FAILURE_ORDERINGS = {
    "relaxed": ("relaxed", "acquire", "release", "acq_rel", "seq_cst"),
    "acquire": ("acquire", "acq_rel", "seq_cst"),
    "seq_cst": ("seq_cst",),
}


def atomic_rules(op: Any) -> list[Diagnostic]:
    """Kind, flags and element of an atomic combination."""
    found = []
    element = op.target.type.element if op.target.type is not ERROR else None
    if op.kind.startswith("xchg") and not op.results:
        found.append(_contract(op, "kind", op.kind, "no exchange, since the old value is not returned"))
    if op.flags and op.kind != "addf":
        found.append(_contract(op, "flags", "noftz", "used with addf only"))
    if element is not None and op.kind.endswith("f") != (element in FLOATS):
        wanted = "floating-point" if op.kind.endswith("f") else "integer"
        found.append(
            Diagnostic(
                "TYPE/003",
                f"'{op.name}' of kind {op.kind} needs a {wanted} element, not {element}",
                op.loc,
                {"operand_name": "value", "actual_type": element, "expected_constraint": f"{wanted} element type"},
            )
        )
    return found


def _contract(op: Any, name: str, value: object, expected: str) -> Diagnostic:
    return Diagnostic(
        "STRUCTURE/014",
        f"{name} of '{op.name}' is {value}, but must be {expected}",
        op.loc,
        {"attr_name": name, "actual_value": value, "expected_constraint": expected},
    )


def _scalar_access(op: Any, view: Any, scalar: Any) -> list[Diagnostic]:
    if view is ERROR:
        return []
    found = index_rank(op, view)
    if scalar is not view.element and scalar is not ERROR:
        found.append(
            Diagnostic(
                "TYPE/002",
                f"'{op.name}' of {scalar} through a view of {view.element}",
                op.loc,
                {"field_a": "value", "element_type_a": scalar, "field_b": "view", "element_type_b": view.element},
            )
        )
    return found


def atomic_combine(op: Any) -> list[Diagnostic] | None:
    """Element, index and kind rules of a scalar atomic."""
    return _scalar_access(op, op.target.type, op.value.type) + atomic_rules(op)


def compare_exchange_rules(op: Any) -> list[Diagnostic] | None:
    """The failure ordering is legal and not stronger than the success ordering."""
    allowed = FAILURE_ORDERINGS.get(op.failure_ordering, ())
    if op.success_ordering in allowed:
        return []
    expected = "relaxed, acquire or seq_cst and not above the success ordering"
    return [_contract(op, "failure_ordering", op.failure_ordering, expected)]


def atomic_load(op: Any) -> list[Diagnostic] | None:
    """A load does not release."""
    found = _scalar_access(op, op.source.type, op.results[0].type)
    if op.ordering in ("release", "acq_rel"):
        found.append(_contract(op, "ordering", op.ordering, "relaxed, acquire or seq_cst"))
    return found


def atomic_store(op: Any) -> list[Diagnostic] | None:
    """A store does not acquire."""
    found = _scalar_access(op, op.target.type, op.value.type)
    if op.ordering in ("acquire", "acq_rel"):
        found.append(_contract(op, "ordering", op.ordering, "relaxed, release or seq_cst"))
    return found
