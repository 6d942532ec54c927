"""Checks of memory, fragment and encoding operations."""

from __future__ import annotations

from typing import Any, Final

from loom.dialects.encoding.known import known_specification
from loom.dialects.scf.verify import out_of_contract
from loom.dialects.vector.checks import (
    elements_differ,
    known,
    offset_count,
    operand_error,
    ranks_differ,
    result_error,
    same_dims,
    shapes_differ,
)
from loom.ir.diagnostics import Diagnostic, did_you_mean
from loom.ir.types import ERROR
from loom.spec.kinds import DYNAMIC

Findings = list[Diagnostic]


AUX_KEYS: Final = frozenset(
    {
        "amax",
        "bias",
        "centroids",
        "codebook",
        "indices",
        "mask",
        "metadata",
        "minimum",
        "offsets",
        "outliers",
        "residual",
        "scale",
        "scale2",
        "scale3",
        "scale4",
        "scale5",
        "scale6",
        "scale7",
        "secondary_scale",
        "signs",
        "sparsity",
        "sum_correction",
        "thresholds",
        "zero_point",
    }
)


def _sides(op: Any) -> tuple[Any, Any]:
    """The view and the vector of an access."""
    if "target" in op.spec.operand_index:
        return op.target.type, op.value.type
    return op.source.type, op.results[0].type


def _origin(op: Any, view: Any, extents: tuple[Any, ...]) -> Findings:
    """One index per axis; a static footprint stays inside static extents. ``extents`` belong to the last axes."""
    static = op.static_indices
    if view.rank < 1:
        return [operand_error(op, "view", view, "a view of rank >= 1")]
    if len(static) != view.rank:
        return [offset_count(op, len(static), view.rank)]
    found = []
    skip = view.rank - len(extents)
    for axis, (index, bound) in enumerate(zip(static, view.dims, strict=True)):
        size = extents[axis - skip] if axis >= skip else 1
        if index == DYNAMIC or not isinstance(bound, int) or not isinstance(size, int):
            continue
        if index < 0 or index + size > bound:
            found.append(
                Diagnostic(
                    "SUBRANGE/004",
                    f"{index} to {index + size} of axis {axis} leave extent {bound}",
                    op.loc,
                    {"dim_index": axis, "offset": index, "size": size, "total": index + size, "bound": bound},
                )
            )
    return found


def _cache(op: Any) -> Findings:
    if (op.cache_scope is None) != (op.cache_temporal is None):
        return [out_of_contract(op, "cache_scope", str(op.cache_scope), "given together with 'cache_temporal'")]
    return []


def _transfer(op: Any, footprint: bool) -> Findings:
    view, vector = _sides(op)
    if not known(view, vector):
        return []
    if view.element is not vector.element:
        return [elements_differ(op, "view", view.element, "vector", vector.element)]
    if footprint and vector.rank > view.rank:
        return [ranks_differ(op, "vector", vector.rank, "view", view.rank)]
    return _origin(op, view, vector.dims if footprint else ()) + _cache(op)


def _masked(op: Any) -> Findings:
    _, vector = _sides(op)
    found = []
    if "mask" in op.spec.operand_index and not same_dims(op.mask.type, vector):
        found.append(shapes_differ(op, "mask", "vector"))
    return found


def access(op: Any) -> Findings:
    """A plain footprint."""
    return _transfer(op, True)


def masked_access(op: Any) -> Findings:
    """A footprint under a mask."""
    return _transfer(op, True) + _masked(op)


def packed_access(op: Any) -> Findings:
    """Expand and compress work on rank 1."""
    _, vector = _sides(op)
    if vector is not ERROR and vector.rank != 1:
        expected = "a vector of rank 1"
        return [result_error(op, vector, expected) if op.results else operand_error(op, "value", vector, expected)]
    return _transfer(op, False) + _masked(op)


def indexed_access(op: Any) -> Findings:
    """Offsets have the vector's shape."""
    _, vector = _sides(op)
    found = _transfer(op, False) + _masked(op)
    if known(op.offsets.type, vector) and not same_dims(op.offsets.type, vector):
        found.append(shapes_differ(op, "offsets", "vector"))
    return found


def fragment_access(op: Any) -> Findings:
    """One index per view axis."""
    view, _ = _sides(op)
    found = [] if view is ERROR else _origin(op, view, ())
    if "keys" in op.spec.attribute_index:
        found += auxiliary(op)
    return found


def auxiliary(op: Any) -> Findings:
    """Auxiliary operands have known names; in a fragment they need a schema."""
    keys = op.keys or ()
    allowed = AUX_KEYS | ({"schema"} if "role" in op.spec.attribute_index else set())
    found = [
        Diagnostic(
            "ENCODING/015",
            f"unknown auxiliary operand '{key}'",
            op.loc,
            {"op_name": op.name, "key_name": key},
            hint=did_you_mean(key, allowed),
        )
        for key in keys
        if key not in allowed
    ]
    if "role" in op.spec.attribute_index and keys and "schema" not in keys and not found:
        found.append(
            Diagnostic(
                "ENCODING/016",
                "auxiliary operands of a fragment need a 'schema'",
                op.loc,
                {"op_name": op.name, "key_name": "schema"},
            )
        )
    return found + _missing(op, keys)


_SCALES: Final = ("scale", "secondary_scale", *(f"scale{n}" for n in range(2, 8)))
#: Operands that words of a schema need, by parameter and word.
_NEEDED: Final = {
    ("scale_topology", "runtime_amax_derived"): "amax",
    ("affine", "scale_plus_zero_point"): "zero_point",
    ("affine", "scale_plus_min"): "minimum",
    ("affine", "scale_plus_bias"): "bias",
    ("affine", "sum_correction"): "sum_correction",
    ("codebook", "dynamic_table_operand"): "codebook",
}


def _missing(op: Any, keys: tuple[str, ...]) -> Findings:
    """What a known schema needs beside the payload must be among the auxiliary operands."""
    schema = op.schema if "schema" in op.spec.operand_index else None
    if schema is None and "schema" in keys:
        schema = op.aux[keys.index("schema")]
    specification = known_specification(schema) if schema is not None else None
    if specification is None or specification.family != "encoding.operand":
        return []
    count = specification.param("scale_operands", 0)
    needed = list(_SCALES[:count]) if isinstance(count, int) else []
    needed += [key for (name, word), key in _NEEDED.items() if str(specification.param(name)) == word]
    if str(specification.param("sparsity", "none")) != "none":
        needed.append("sparsity")
    return [
        Diagnostic(
            "ENCODING/016",
            f"the schema of '{op.name}' needs the auxiliary operand '{key}'",
            op.loc,
            {"op_name": op.name, "key_name": key},
        )
        for key in needed
        if key not in keys
    ]
