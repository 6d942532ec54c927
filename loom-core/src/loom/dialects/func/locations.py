"""Location trees: nodes in post-order, the root last (language reference, part 1, section 8.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from loom.ir.attributes import Encoding, Keyword
from loom.ir.core import Op
from loom.ir.diagnostics import Diagnostic, did_you_mean
from loom.ir.records import field, record

PREFIX: Final = "func.location."


def _numbers(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in value)


# Kind of a parameter -> whether a value belongs to it.
_KINDS: Final[Mapping[str, Callable[[object], bool]]] = {
    "string": lambda v: isinstance(v, str) and not isinstance(v, Keyword),
    "word": lambda v: isinstance(v, Keyword),
    "boolean": lambda v: isinstance(v, bool),
    "number": lambda v: _numbers((v,)),
    "bytes": lambda v: isinstance(v, bytes),
    "four numbers": lambda v: _numbers(v) and len(v) == 4,  # type: ignore[arg-type]  # a tuple by the first test
    "child": lambda v: _numbers((v,)),
    "children": _numbers,
}


@record
class Node:
    """A kind of node: its leading parameter, the named ones it needs, and those it may have."""

    leading: str | None = None
    needed: Mapping[str, str] = field(factory=dict)
    optional: Mapping[str, str] = field(factory=dict)


NODES: Final[Mapping[str, Node]] = {
    "unknown": Node(),
    "file": Node("string", {"range": "four numbers"}, {"synthetic": "boolean", "fields": "children", "text": "bytes"}),
    "field": Node("word", {"index": "number", "range": "four numbers"}),
    "fused": Node("children", {}, {"synthetic": "boolean"}),
    "opaque": Node("string", {"data": "bytes"}, {"synthetic": "boolean"}),
    "tagged": Node("word", {"data": "bytes", "child": "child"}, {"synthetic": "boolean"}),
}


def location_tree(op: Any) -> list[Diagnostic] | None:
    """Known nodes with their parameters; every node but the last is the child of exactly one later node."""
    found: list[Diagnostic] = []
    for node in op.nodes:
        found += _node(op, node)
    return found or _tree(op)


def _node(op: Op, node: Encoding) -> list[Diagnostic]:
    kind = NODES.get(node.family.removeprefix(PREFIX)) if node.family.startswith(PREFIX) else None
    if kind is None:
        known = [PREFIX + name for name in NODES]
        return [
            Diagnostic(
                "PARSE/008",
                f"'#{node.family}' is no node of a location tree",
                op.loc,
                {"encoding_name": node.family},
                hint=did_you_mean(node.family, known),
            )
        ]
    found = []
    if len(node.primary) != (kind.leading is not None):
        found.append(_parameter(op, node, "ENCODING/007" if kind.leading else "ENCODING/008", kind.leading or "0"))
    elif kind.leading is not None and not _KINDS[kind.leading](node.primary[0]):
        found.append(_wrong_kind(op, node, kind.leading, node.primary[0], kind.leading))
    known_kinds = {**kind.needed, **kind.optional}
    for name, value in node.params:
        if name not in known_kinds:
            found.append(_parameter(op, node, "ENCODING/008", name))
        elif not _KINDS[known_kinds[name]](value):
            found.append(_wrong_kind(op, node, name, value, known_kinds[name]))
    found += [_parameter(op, node, "ENCODING/007", name) for name in kind.needed if node.param(name) is None]
    return found


def _parameter(op: Op, node: Encoding, code: str, name: str) -> Diagnostic:
    what = "needs the parameter" if code == "ENCODING/007" else "has no parameter"
    return Diagnostic(
        code, f"'#{node.family}' {what} '{name}'", op.loc, {"encoding_name": node.family, "param_name": name}
    )


def _wrong_kind(op: Op, node: Encoding, name: str, value: object, expected: str) -> Diagnostic:
    return Diagnostic(
        "ENCODING/010",
        f"'{name}' of '#{node.family}' must be {expected}",
        op.loc,
        {
            "encoding_name": node.family,
            "param_name": name,
            "actual_kind": type(value).__name__,
            "expected_kind": expected,
        },
    )


def _children(node: Encoding) -> list[int]:
    kind = NODES[node.family.removeprefix(PREFIX)]
    named = {**kind.needed, **kind.optional}
    found: list[int] = []
    given: list[tuple[str | None, Any]] = [(kind.leading, value) for value in node.primary]
    given += [(named[name], value) for name, value in node.params]
    for what, value in given:
        if what == "children":
            found += value
        elif what == "child":
            found.append(value)
    return found


def _tree(op: Any) -> list[Diagnostic]:
    parents: dict[int, int] = {}
    for position, node in enumerate(op.nodes):
        for child in _children(node):
            if child >= position:
                return [_structure(op, position, f"child {child} stands before its parent")]
            if child in parents:
                return [_structure(op, position, f"child {child} has one parent")]
            parents[child] = position
    if not op.nodes:
        return [_structure(op, 0, "there is a root")]
    orphans = [position for position in range(len(op.nodes) - 1) if position not in parents]
    return [_structure(op, orphans[0], "every node but the last has a parent")] if orphans else []


def _structure(op: Op, position: int, expected: str) -> Diagnostic:
    return Diagnostic(
        "STRUCTURE/014",
        f"node {position} of a location tree breaks the rule that {expected}",
        op.loc,
        {"attr_name": "nodes", "actual_value": position, "expected_constraint": expected},
    )
