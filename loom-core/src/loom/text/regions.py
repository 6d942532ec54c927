"""Directives of bodies, bindings, branch payloads and region tables (language reference, part 1, section 2.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loom.ir.core import Block, Op, Region, Value
from loom.ir.types import ERROR
from loom.text import attributes as attribute_syntax
from loom.text.directives import Args, DirectiveDef, add_directives, always, region_named
from loom.text.signatures import signature_text

if TYPE_CHECKING:
    from loom.spec.model import OpSpec
    from loom.text.parser import Parser
    from loom.text.printer import Printer


# -- regions -----------------------------------------------------------------------------------------------


def _region_constants(out: Any, spec: OpSpec, args: Args) -> list[str]:
    from loom.spec.registry import lookup

    region = spec.regions[spec.region_index[args[0]]]
    implicit = lookup(region.terminator) if region.implicit and region.terminator else None
    return [out.const(implicit)]


def _read_body(p: Parser, signature: Region, implicit: type[Op] | None) -> Region:
    """The braces of a body whose entry block already has its arguments, which are in scope."""
    return p.region(signature.entry, [], implicit=implicit)


def _write_body(pn: Printer, op: Op, args: Args) -> str:
    declared = op.spec.regions[op.spec.region_index[args[0]]]
    region = region_named(op, args[0])
    end = region.blocks[-1].last
    # Only the terminator that reading would put back can be left out.
    return pn.region(region, declared.implicit and (end is None or end.name == declared.terminator))


# -- (%a: T, ...) {...} inside a body -----------------------------------------------------------------------


def _read_inner_body(p: Parser, implicit: type[Op] | None) -> Region:
    """A region of a nested op with its arguments, which no symbol's signature opens a scope for."""
    block = Block()
    entry: list[tuple[str, Value, int]] = []
    p.take("(")
    for name, type_, token in p.arguments():
        entry.append((name, block.add_argument(type_), token))
    return p.region(block, entry, implicit=implicit)


def _write_inner_body(pn: Printer, op: Op, args: Args) -> str:
    region = region_named(op, args[0])
    return f"({signature_text(pn, region.entry.args)}) {_write_body(pn, op, args)}"


# -- (%a = %init : T): bindings ----------------------------------------------------------------------------


def _read_bindings(p: Parser) -> tuple[list[Value], list[tuple[str, int]]]:
    """Initial values and the names they bind; ``(%a, %b = %x, %y : T, U)`` groups are accepted too."""
    inits: list[Value] = []
    names: list[tuple[str, int]] = []
    if not p.accept("("):
        return inits, names
    if p.accept(")"):
        return inits, names
    while True:
        group: list[tuple[str, int]] = []
        values: list[Value] = []
        while True:
            at = p.i
            name = p.toks[at]
            if name[:1] != "%" or len(name) == 1:
                p.expected(at, "an argument name")
            p.i += 1
            p.take("=")
            group.append((name, at))
            values.append(p.value())
            if p.toks[p.i] == "," and p.toks[p.i + 2] == "=":
                p.i += 1
                continue
            break
        p.take(":")
        for value in values:
            at = p.i
            stated = p.type()
            if value.type != stated and value.type is not ERROR:
                p.error(
                    "TYPE/001",
                    f"initial value has type {p.names_text(value.type)}, but {p.names_text(stated)} is stated",
                    at,
                    field_a="iter_args",
                    type_a=p.names_text(value.type),
                    field_b="stated type",
                    type_b=p.names_text(stated),
                )
            if value is not values[-1]:
                p.take(",")
        inits += values
        names += group
        if p.accept(")"):
            return inits, names
        p.take(",")


def _write_bindings(pn: Printer, op: Op, args: Args) -> str:
    group, region_name, skip = args
    inits = op.group(op.spec.operand_index[group])
    if not inits:
        return ""
    block = region_named(op, region_name).entry
    items = [
        f"{pn.names[arg]} = {pn.names[init]} : {pn.type_text(init.type)}"
        for arg, init in zip(block.args[int(skip) :], inits, strict=False)
    ]
    return f"({', '.join(items)})"


# -- %x: T successors --------------------------------------------------------------------------------------


def _read_payload(p: Parser) -> list[Value]:
    values: list[Value] = []
    if not p.accept("("):
        return values
    while True:
        token = p.i
        value = p.value()
        p.take(":")
        stated = p.type()
        if value.type != stated and value.type is not ERROR:
            p.error(
                "TYPE/001",
                f"value has type {p.names_text(value.type)}, but {p.names_text(stated)} is stated",
                token,
                field_a="args",
                type_a=p.names_text(value.type),
                field_b="stated type",
                type_b=p.names_text(stated),
            )
        values.append(value)
        if p.accept(")"):
            return values
        p.take(",")


def _write_payload(pn: Printer, op: Op, args: Args) -> str:
    values = op.group(op.spec.operand_index[args[0]])
    return f"({signature_text(pn, values)})" if values else ""


# -- {0 = (%a), 3 = (%b)} default(%c) ------------------------------------------------------------------------


def _read_table(p: Parser) -> tuple[tuple[int, ...], list[Value]]:
    keys: list[int] = []
    rows: list[list[Value]] = []
    p.take("{")

    def row() -> list[Value]:
        start = p.i
        p.take("(")
        values: list[Value] = []
        if not p.accept(")"):
            while True:
                values.append(p.value())
                if p.accept(")"):
                    break
                p.take(",")
        if rows and len(values) != len(rows[0]):
            p.fail(
                "PARSE/030",
                f"row has {len(values)} values, the first has {len(rows[0])}",
                start,
                actual_count=len(values),
                expected_count=len(rows[0]),
            )
        return values

    if not p.accept("}"):
        while True:
            keys.append(attribute_syntax.integer(p))
            p.take("=")
            rows.append(row())
            if p.accept("}"):
                break
            p.take(",")
    p.take("default")
    rows.append(row())
    return tuple(keys), [v for r in rows for v in r]


def _write_table(pn: Printer, op: Op, args: Args) -> str:
    keys = op.attribute(args[0])
    values = op.group(op.spec.operand_index[args[1]])
    assert isinstance(keys, tuple)
    width = len(values) // (len(keys) + 1)
    rows = [", ".join(pn.names[v] for v in values[k * width : (k + 1) * width]) for k in range(len(keys) + 1)]
    if not keys:
        return f"{{}} default({rows[-1]})"
    pad = pn.pad + "  "
    body = ",\n".join(f"{pad}{key} = ({row})" for key, row in zip(keys, rows[:-1], strict=True))
    return f"{{\n{body}\n{pn.pad}}} default({rows[-1]})"


# -- {case N {...} default {...}} ----------------------------------------------------------------------------


def _read_cases(p: Parser, implicit: type[Op]) -> tuple[tuple[int, ...], Region, list[Region]]:
    p.take("{")
    keys: list[int] = []
    regions: list[Region] = []
    while p.accept("case"):
        keys.append(attribute_syntax.integer(p))
        regions.append(p.region(Block(), [], implicit=implicit))
    p.take("default")
    default = p.region(Block(), [], implicit=implicit)
    p.take("}")
    return tuple(keys), default, regions


def _cases_constants(out: Any, spec: OpSpec, args: Args) -> list[str]:
    from loom.spec.registry import lookup

    return [out.const(lookup("scf.yield"))]


def _write_cases(pn: Printer, op: Op, args: Args) -> str:
    keys = op.attribute(args[0])
    outer = pn.pad
    pn.pad = outer + "  "
    try:
        lines = [
            f"{pn.pad}case {key} {pn.region(region, True)}"
            for key, region in zip(keys, op.regions[1:], strict=True)  # type: ignore[call-overload]
        ]
        lines.append(f"{pn.pad}default {pn.region(op.regions[0], True)}")
    finally:
        pn.pad = outer
    return "{\n" + "\n".join(lines) + f"\n{outer}}}"


add_directives(
    {
        "body": DirectiveDef(
            outputs=lambda args: [f"r_{args[0]}"],
            inputs=lambda args: [f"r_{args[0]}"],
            read=_read_body,
            write=_write_body,
            present=always,
            starts=lambda token: token == "{",
            constants=_region_constants,
        ),
        "inner_body": DirectiveDef(
            outputs=lambda args: [f"r_{args[0]}"],
            read=_read_inner_body,
            write=_write_inner_body,
            present=always,
            starts=lambda token: token == "(",
            constants=_region_constants,
        ),
        "bindings": DirectiveDef(
            outputs=lambda args: [f"o_{args[0]}", "bound"],
            read=_read_bindings,
            write=_write_bindings,
            present=always,
            starts=lambda token: token == "(",
        ),
        "payload": DirectiveDef(
            outputs=lambda args: [f"o_{args[0]}"],
            read=_read_payload,
            write=_write_payload,
            present=lambda op, args: op.group(op.spec.operand_index[args[0]]),
            starts=lambda token: token == "(",
        ),
        "table": DirectiveDef(
            outputs=lambda args: [f"a_{args[0]}", f"o_{args[1]}"],
            read=_read_table,
            write=_write_table,
            present=always,
            starts=lambda token: token == "{",
        ),
        "cases": DirectiveDef(
            outputs=lambda args: [f"a_{args[0]}", f"r_{args[1]}", f"r_{args[2]}"],
            read=_read_cases,
            write=_write_cases,
            present=always,
            starts=lambda token: token == "{",
            constants=_cases_constants,
        ),
    }
)
