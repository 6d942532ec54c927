"""Pieces of syntax that a format names as ``$<directive ...>``.

A directive knows which fields it fills (``outputs``), reads them, prints them, and says when a group that it
anchors is present. Language reference, part 1, sections 2.3 to 2.9.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from loom.ir.core import Op, Region, Value
from loom.ir.diagnostics import SourceFile
from loom.ir.records import record
from loom.ir.types import ERROR, OpaqueType, Type
from loom.spec.kinds import DYNAMIC

if TYPE_CHECKING:
    from loom.spec.model import OpSpec
    from loom.text.parser import Parser
    from loom.text.printer import Printer

# Stands in for a result type that is computed once the op exists.
PENDING: Final = OpaqueType("<pending>")

Args = tuple[str, ...]


def _no_constants(out: Any, spec: OpSpec, args: Args) -> list[str]:
    return []


@record
class DirectiveDef:
    """One directive. ``inputs`` are local variables of the generated reader that it needs."""

    outputs: Callable[[Args], list[str]]
    read: Callable[..., Any]
    write: Callable[[Printer, Op, Args], str]
    present: Callable[[Op, Args], object]
    starts: Callable[[str], bool]
    inputs: Callable[[Args], list[str]] = lambda args: []
    constants: Callable[[Any, Any, Args], list[str]] = _no_constants


def always(op: Op, args: Args) -> bool:
    """For directives that print whatever the op holds."""
    return True


# -- checks used by generated readers ----------------------------------------------------------------------


def check_type(p: Parser, name: str, value: Value, stated: Type, loc: tuple[SourceFile, int]) -> None:
    """Report an operand whose type differs from the one the text states."""
    if value.type != stated and value.type is not ERROR:
        text = p.names_text(value.type), p.names_text(stated)
        p.error(
            "TYPE/001",
            f"operand '{name}' has type {text[0]}, but {text[1]} is stated",
            _operand_token(p, value, loc[1]),
            field_a=name,
            type_a=text[0],
            field_b="stated type",
            type_b=text[1],
        )


def check_types(
    p: Parser, name: str, values: Sequence[Value], stated: Sequence[Type], loc: tuple[SourceFile, int]
) -> None:
    """Report the first operand of a group whose type differs from the stated one, or a wrong number of types."""
    if len(values) != len(stated):
        p.error(
            "PARSE/010",
            f"{len(values)} operands in '{name}', but {len(stated)} types",
            loc[1],
            op_name=p.toks[loc[1]],
            expected_count=len(stated),
            actual_count=len(values),
        )
        return
    for value, type_ in zip(values, stated, strict=True):
        check_type(p, name, value, type_, loc)


def _operand_token(p: Parser, value: Value, start: int) -> int:
    """The token that names ``value`` in the statement at ``start``, for pointing at it."""
    wanted = "%" + (value.name or "")
    for token in range(start, p.i):
        if p.toks[token] == wanted:
            return token
    return start


def missing_attribute(p: Parser, key: str, loc: tuple[SourceFile, int]) -> None:
    """Report a required attribute that the text leaves out."""
    name = p.toks[loc[1]]
    p.error(
        "TYPE/005",
        f"'{name}' needs the attribute '{key}'",
        loc[1],
        attr_name=key,
        actual_kind="absent",
        expected_kind=key,
    )


def index_entries(values: Sequence[Value], static: Sequence[int]) -> list[int | Value]:
    """Interleave a static index array with its dynamic operands."""
    dynamic = iter(values)
    return [next(dynamic) if entry == DYNAMIC else entry for entry in static]


def region_named(op: Op, name: str) -> Region:
    """The region of an op that its declaration calls ``name``."""
    return op.regions[op.spec.region_index[name]]


DIRECTIVES: Final[dict[str, DirectiveDef]] = {}

# Directive -> module that adds it.
_HOMES: Final = {
    "dict": "loom.text.attribute_directives",
    "keyed": "loom.text.attribute_directives",
    "indices": "loom.text.attribute_directives",
    "operand_dict": "loom.text.attribute_directives",
    "aligned": "loom.text.attribute_directives",
    "packed_types": "loom.text.attribute_directives",
    "args": "loom.text.signatures",
    "counted_args": "loom.text.signatures",
    "more_args": "loom.text.signatures",
    "results": "loom.text.signatures",
    "where": "loom.text.signatures",
    "predicates": "loom.text.signatures",
    "call_results": "loom.text.signatures",
    "declared": "loom.text.signatures",
    "loaded": "loom.text.signatures",
    "body": "loom.text.regions",
    "bindings": "loom.text.regions",
    "inner_body": "loom.text.regions",
    "payload": "loom.text.regions",
    "table": "loom.text.regions",
    "cases": "loom.text.regions",
    "for_header": "loom.text.loops",
    "for_body": "loom.text.loops",
    "while": "loom.text.loops",
    "low_body": "loom.low.assembly",
    "scenario_body": "loom.dialects.check.syntax",
    "trial_body": "loom.dialects.check.syntax",
    "compared_body": "loom.dialects.check.syntax",
    "pass_body": "loom.text.pass_pipelines",
    "pass_facts": "loom.text.pass_pipelines",
    "pass_counts": "loom.text.pass_pipelines",
}


def directive(name: str) -> DirectiveDef:
    """The directive of a name. Raises ``KeyError`` for an unknown one."""
    if name not in DIRECTIVES and name in _HOMES:
        importlib.import_module(_HOMES[name])
    return DIRECTIVES[name]


def add_directives(more: dict[str, DirectiveDef]) -> None:
    """Register directives of a dialect whose syntax lives with it."""
    DIRECTIVES.update(more)
