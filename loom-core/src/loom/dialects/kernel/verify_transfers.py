"""Rules of asynchronous transfers and split barriers (language reference, part 2, sections 12.7 to 12.9)."""

from __future__ import annotations

from typing import Any, Final

from loom.dialects.buffer.spaces import UNKNOWN, space_of
from loom.dialects.kernel.verify import device_only
from loom.dialects.scf.verify import out_of_contract
from loom.ir.core import Op
from loom.ir.diagnostics import Diagnostic, Related
from loom.ir.types import ERROR, I32, ShapedType, Type

__all__ = ["arrive", "descriptor", "device_only", "group", "transfer", "wait"]

MAX_NEWER_GROUPS: Final = 65_535
CLUSTER_BYTES: Final = (1, 4, 8, 16)
TENSOR_ELEMENT_BYTES: Final = (1, 2, 4, 8)
DESCRIPTOR_LENGTHS: Final = (4, 8, 4, 4)


def _mismatch(op: Op, name: str, type_: Type, expected: str) -> Diagnostic:
    return Diagnostic(
        "TYPE/003",
        f"operand '{name}' of '{op.name}' is {type_}, but must be {expected}",
        op.loc,
        {"operand_name": name, "actual_type": type_, "expected_constraint": expected},
    )


def _footprint(type_: ShapedType) -> int | None:
    total = type_.element.byte_size
    for dim in type_.dims:
        if not isinstance(dim, int):
            return None
        total *= dim
    return total


_READABLE: Final = ("global", "constant", "descriptor")
_WRITABLE: Final = ("global", "descriptor")
_SHARED: Final = ("workgroup",)


def _spaces(op: Any) -> list[Diagnostic]:
    """Both sides lie in spaces that the program establishes and that the transfer connects."""
    outward = op.name.startswith("kernel.async.tensor.store")
    if "direction" in op.spec.attribute_index:
        outward = op.direction == "workgroup_to_global"
    allowed = (_SHARED, _WRITABLE) if outward else (_READABLE, _SHARED)
    found = []
    for name, value, spaces in zip(("source", "target"), (op.source, op.target), allowed, strict=True):
        space = space_of(value)
        if value.type is not ERROR and space not in spaces:
            expected = f"a view with the memory-space fact {' or '.join(spaces)}"
            known = "without a known memory space" if space == UNKNOWN else f"in {space} memory"
            found.append(
                Diagnostic(
                    "TYPE/003",
                    f"operand '{name}' of '{op.name}' is {known}, but must be {expected}",
                    op.loc,
                    {"operand_name": name, "actual_type": value.type, "expected_constraint": expected},
                )
            )
    return found


def transfer(op: Any) -> list[Diagnostic]:
    """Stands in device code; both sides lie where they must, and their footprints fit each other."""
    found = (device_only(op) or []) + _spaces(op)
    source, target = op.source.type, op.target.type
    if ERROR in (source, target):
        return found
    kind = op.name.removeprefix("kernel.async.").removesuffix(".mask")
    size = _footprint(source)
    if kind == "copy" and (size is None or size != _footprint(target)):
        found.append(_mismatch(op, "target", target, f"a static footprint of the size of {source}"))
    elif kind == "gather":
        if target.rank != source.rank + 1:
            found.append(_mismatch(op, "target", target, "one axis more than the source, the first for the lanes"))
        else:
            slot = _footprint(ShapedType.get("view", target.dims[1:], target.element))
            if slot is None or size is None or slot < size:
                found.append(_mismatch(op, "target", target, "a static slot that holds the source footprint"))
    elif kind == "cluster.gather" and (size not in CLUSTER_BYTES or size != _footprint(target)):
        found.append(_mismatch(op, "target", target, "the source's footprint of 1, 4, 8 or 16 bytes"))
    elif kind.startswith("tensor") and (
        source.rank != target.rank
        or not 1 <= source.rank <= 5
        or source.element is not target.element
        or source.element.byte_size not in TENSOR_ELEMENT_BYTES
    ):
        found.append(_mismatch(op, "target", target, "the source's rank (1 to 5) and element type"))
    return found + _used_once(op, "kernel.async.group")


def _used_once(op: Any, user: str) -> list[Diagnostic]:
    """The result of ``op`` is used exactly once, by an op of one name."""
    value = op.results[0]
    name = value.name or "?"
    count = sum(value.uses.values())
    if count != 1:
        return [
            Diagnostic(
                "DOMINANCE/009",
                f"'%{name}' is used {count} times; it must be used once, by '{user}'",
                op.loc,
                {"value_name": name, "actual_count": count, "expected_constraint": "exactly one use"},
            )
        ]
    other = next(iter(value.uses))
    if other.name == user:
        return []
    return [
        Diagnostic(
            "DOMINANCE/010",
            f"'%{name}' is used by '{other.name}', but only '{user}' may",
            other.loc,
            {"value_name": name, "user_op": other.name, "expected_constraint": user},
            related=(Related("it is made here", op.loc),),
        )
    ]


def group(op: Any) -> list[Diagnostic]:
    """Tokens come from transfers."""
    found = device_only(op) or []
    for i, token in enumerate(op.tokens):
        maker = token.defining_op
        if maker is None or not maker.name.startswith("kernel.async."):
            found.append(
                Diagnostic(
                    "DOMINANCE/010",
                    f"token {i} of '{op.name}' does not come from a transfer",
                    op.loc,
                    {"value_name": token.name or "?", "user_op": op.name, "expected_constraint": "made by a transfer"},
                )
            )
    return found


def wait(op: Any) -> list[Diagnostic]:
    """The count of newer groups is small."""
    found = device_only(op) or []
    if not 0 <= op.newer_groups <= MAX_NEWER_GROUPS:
        found.append(out_of_contract(op, "newer_groups", op.newer_groups, f"in 0..{MAX_NEWER_GROUPS}"))
    return found


def arrive(op: Any) -> list[Diagnostic]:
    """Only workgroup storage, scope and full ordering."""
    found = device_only(op) or []
    for name, only in (("space", "workgroup"), ("scope", "workgroup"), ("ordering", "acq_rel")):
        if op.attribute(name) != only:
            key = "memory_space" if name == "space" else name
            found.append(out_of_contract(op, key, op.attribute(name), only))
    return found + _used_once(op, "kernel.barrier.wait")


def descriptor(op: Any) -> list[Diagnostic]:
    """Two or four groups of 4, 8, 4 and 4 words."""
    if len(op.groups) not in (2, 4):
        return [out_of_contract(op, "dgroups", len(op.groups), "two or four groups")]
    return [
        _mismatch(op, f"groups[{i}]", value.type, f"vector<{length}xi32>")
        for i, (value, length) in enumerate(zip(op.groups, DESCRIPTOR_LENGTHS, strict=False))
        if value.type is not ERROR and (value.type.dims != (length,) or value.type.element is not I32)
    ]
