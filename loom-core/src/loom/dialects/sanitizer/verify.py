"""Rules of the ``sanitizer`` dialect (language reference, part 1, section 20)."""

from __future__ import annotations

from typing import Any, Final

from loom.dialects.view.verify import index_rank, same_element_and_rank
from loom.ir.core import Op
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import ERROR
from loom.spec.kinds import DYNAMIC

Findings = list[Diagnostic]

# Space that a synchronization names -> scopes that it may have.
SCOPES: Final = {
    "workgroup": ("subgroup", "workgroup"),
    "global": ("subgroup", "workgroup", "device", "system"),
}


def _contract(op: Op, name: str, value: object, expected: str) -> Diagnostic:
    return Diagnostic(
        "STRUCTURE/014",
        f"'{name}' of '{op.name}' is {value}, but must be {expected}",
        op.loc,
        {"attr_name": name, "actual_value": value, "expected_constraint": expected},
    )


def _per_axis(op: Op, name: str, values: tuple[int, ...], rank: int) -> Findings:
    if len(values) == rank:
        return []
    return [
        Diagnostic(
            "STRUCTURE/013",
            f"'{name}' has {len(values)} entries for a view of rank {rank}",
            op.loc,
            {"field_a": name, "actual_count": len(values), "field_b": "view", "expected_count": rank},
        )
    ]


def footprint(op: Any) -> Findings | None:
    """Indices and extents for every axis; what is static lies inside static extents."""
    return _footprints(op, op.static_extents, 1, None)


def footprints(op: Any) -> Findings | None:
    """The same for every member of the family."""
    found = [_contract(op, "static_count", op.static_count, "at least 1")] if op.static_count < 1 else []
    return found or _footprints(op, op.static_extents, op.static_count, op.static_strides)


def _footprints(op: Any, extents: tuple[int, ...] | None, count: int, strides: tuple[int, ...] | None) -> Findings:
    view = op.view.type
    if view is ERROR:
        return []
    found = index_rank(op, view)
    if extents is not None:
        found += _per_axis(op, "static_extents", extents, view.rank)
        found += [_contract(op, "static_extents", list(extents), "positive") for e in extents if e < 1][:1]
    if strides is not None:
        found += _per_axis(op, "static_strides", strides, view.rank)
    if found or extents is None:
        return found
    for axis, (index, bound) in enumerate(zip(op.static_indices, view.dims, strict=True)):
        reach = (count - 1) * strides[axis] if strides is not None else 0
        if index == DYNAMIC or not isinstance(bound, int):
            continue
        first, last = index + min(reach, 0), index + max(reach, 0) + extents[axis]
        if first < 0 or last > bound:
            found.append(
                Diagnostic(
                    "SUBRANGE/004",
                    f"elements {first} to {last - 1} of axis {axis} leave the extent {bound}",
                    op.loc,
                    {"dim_index": axis, "offset": first, "size": last - first, "total": last, "bound": str(bound)},
                )
            )
    return found


def layout(op: Any) -> Findings | None:
    """Same element and rank."""
    return same_element_and_rank(op)


def race_access(op: Any) -> Findings | None:
    """Atomic accesses, and no others, have an ordering and a scope."""
    found = [] if op.view.type is ERROR else index_rank(op, op.view.type)
    for name in ("ordering", "scope"):
        value = op.attribute(name)
        if op.atomic and value is None:
            found.append(
                Diagnostic(
                    "TYPE/005",
                    f"an atomic access needs '{name}'",
                    op.loc,
                    {"attr_name": name, "actual_kind": "absent", "expected_kind": name},
                )
            )
        elif not op.atomic and value is not None:
            found.append(_contract(op, name, value, "absent, as the access is not atomic"))
    return found


def fragment_access(op: Any) -> Findings | None:
    """One index per axis of a view with rows and columns."""
    view = op.view.type
    if view is ERROR:
        return []
    found = index_rank(op, view)
    if view.rank < 2:
        found.append(
            Diagnostic(
                "TYPE/003",
                f"a fragment lies in a view with rows and columns, not in {view}",
                op.loc,
                {"operand_name": "view", "actual_type": view, "expected_constraint": "a view of rank 2 or more"},
            )
        )
    return found


def race_sync(op: Any) -> Findings | None:
    """A shared space, a scope that shares it, and an ordering that synchronizes."""
    if op.space not in SCOPES:
        return [_contract(op, "memory_space", op.space, " or ".join(SCOPES))]
    if op.scope not in SCOPES[op.space]:
        return [_contract(op, "scope", op.scope, " or ".join(SCOPES[op.space]))]
    if op.ordering == "relaxed":
        return [_contract(op, "ordering", op.ordering, "acquire, release, acq_rel or seq_cst")]
    return None
