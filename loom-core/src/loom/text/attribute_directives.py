"""Directives that read attributes and operand lists: dictionaries, index lists, aligned lists.

Language reference, part 1, sections 2.3 and 2.6; part 2, sections 1.2 to 1.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loom.ir.core import Op, Value
from loom.ir.diagnostics import did_you_mean
from loom.ir.types import ERROR, Type
from loom.spec.kinds import DYNAMIC
from loom.text import attributes as attribute_syntax
from loom.text.directives import Args, DirectiveDef, add_directives, always, index_entries

if TYPE_CHECKING:
    from loom.spec.model import OpSpec
    from loom.text.parser import Parser
    from loom.text.printer import Printer


# -- {k = v}: the attributes that the format does not mention -------------------------------------------------


def _dict_constants(out: Any, spec: OpSpec, args: Args) -> list[str]:
    declared = [spec.attributes[spec.attribute_index[name]] for name in args]
    keyed = {attribute.key: (i, attribute.kind) for i, attribute in enumerate(declared)}
    defaults = tuple(attribute.default for attribute in declared)
    return [out.const(keyed), out.const(defaults), str(len(args) == 1)]


def _read_dict(p: Parser, keyed: dict[str, tuple[int, Any]], defaults: tuple[object, ...], single: bool) -> object:
    values = list(defaults)
    if p.accept("{"):
        seen: set[str] = set()
        while not p.accept("}"):
            _read_entry(p, keyed, values, seen)
            if not p.accept(","):
                p.take("}")
                break
    return values[0] if single else tuple(values)


def _read_entry(p: Parser, keyed: dict[str, tuple[int, Any]], values: list[object], seen: set[str]) -> None:
    at = p.i
    key = p.identifier("a key")
    if key in seen:
        p.fail("PARSE/020", f"key '{key}' is given twice", at, key_name=key)
    seen.add(key)
    if key not in keyed:
        p.fail(
            "PARSE/018",
            f"unknown attribute '{key}'",
            at,
            context="attribute dictionary",
            value=key,
            hint=did_you_mean(key, keyed) or (f"one of: {', '.join(keyed)}" if keyed else None),
        )
    p.take("=")
    index, kind = keyed[key]
    values[index] = attribute_syntax.read(p, kind)


def _read_keyed(p: Parser, keyed: dict[str, tuple[int, Any]], defaults: tuple[object, ...], single: bool) -> object:
    values = list(defaults)
    seen: set[str] = set()
    if p.toks[p.i] not in (">", "}"):
        _read_entry(p, keyed, values, seen)
        while p.accept(","):
            _read_entry(p, keyed, values, seen)
    return values[0] if single else tuple(values)


def _dict_entries(op: Op, args: Args) -> list[tuple[str, str]]:
    entries = []
    for name in args:
        attribute = op.spec.attributes[op.spec.attribute_index[name]]
        value = op.attribute(name)
        if value is None or (attribute.default is not None and value == attribute.default):
            continue
        entries.append((attribute.key, attribute_syntax.PRINTERS[attribute.kind.name](value)))
    return sorted(entries)


def _write_dict(pn: Printer, op: Op, args: Args) -> str:
    return "{" + ", ".join(f"{key} = {text}" for key, text in _dict_entries(op, args)) + "}"


def _write_keyed(pn: Printer, op: Op, args: Args) -> str:
    entries = dict(_dict_entries(op, args))
    order = [op.spec.attributes[op.spec.attribute_index[name]].key for name in args]
    return ", ".join(f"{key} = {entries[key]}" for key in order if key in entries)


# -- [0, %i]: index lists ----------------------------------------------------------------------------------


def _read_indices(p: Parser) -> tuple[list[Value], tuple[int, ...]]:
    values: list[Value] = []
    static: list[int] = []
    p.take("[")
    if not p.accept("]"):
        while True:
            if p.toks[p.i][:1] == "%":
                values.append(p.value())
                static.append(DYNAMIC)
            else:
                static.append(attribute_syntax.integer(p))
            if p.accept("]"):
                break
            p.take(",")
    return values, tuple(static)


def _write_indices(pn: Printer, op: Op, args: Args) -> str:
    values = op.group(op.spec.operand_index[args[0]])
    entries = index_entries(values, op.attribute("static_" + args[0]))  # type: ignore[arg-type]
    return "[" + ", ".join(str(e) if isinstance(e, int) else pn.names[e] for e in entries) + "]"


# -- {k = %v : T}: operand dictionaries ----------------------------------------------------------------------


def _read_operand_dict(p: Parser) -> tuple[list[Value], tuple[str, ...] | None]:
    entries: dict[str, Value] = {}
    if not p.accept("{"):
        return [], None
    while not p.accept("}"):
        at = p.i
        key = p.identifier("a key")
        if key in entries:
            p.fail("PARSE/027", f"key '{key}' is given twice", at, key_name=key)
        p.take("=")
        value = p.value()
        p.take(":")
        stated = p.type()
        if value.type != stated and value.type is not ERROR:
            p.error(
                "TYPE/001",
                f"value has type {p.names_text(value.type)}, but {p.names_text(stated)} is stated",
                at,
                field_a=key,
                type_a=p.names_text(value.type),
                field_b="stated type",
                type_b=p.names_text(stated),
            )
        entries[key] = value
        if not p.accept(","):
            p.take("}")
            break
    keys = tuple(sorted(entries))
    return [entries[k] for k in keys], keys or None


def _write_operand_dict(pn: Printer, op: Op, args: Args) -> str:
    values = op.group(op.spec.operand_index[args[0]])
    keys = op.attribute(args[1]) or ()
    items = [f"{k} = {pn.names[v]} : {pn.type_text(v.type)}" for k, v in zip(keys, values, strict=True)]  # type: ignore[call-overload]
    return "{" + ", ".join(items) + "}"


# -- [align(16) %a, %b] --------------------------------------------------------------------------------------


def _read_aligned(p: Parser) -> tuple[list[Value], tuple[int, ...]]:
    values: list[Value] = []
    alignments: list[int] = []
    p.take("[")
    while True:
        alignment = 1
        if p.accept("align"):
            p.take("(")
            alignment = attribute_syntax.integer(p)
            p.take(")")
        values.append(p.value())
        alignments.append(alignment)
        if p.accept("]"):
            return values, tuple(alignments)
        p.take(",")


def _write_aligned(pn: Printer, op: Op, args: Args) -> str:
    values = op.group(op.spec.operand_index[args[0]])
    alignments = op.attribute(args[1])
    items = [
        pn.names[v] if a == 1 else f"align({a}) {pn.names[v]}"
        for v, a in zip(values, alignments, strict=True)  # type: ignore[call-overload]
    ]
    return f"[{', '.join(items)}]"


# -- one type for all results of a packing: a total and one offset for each range ------------------------------


def _read_packed_types(p: Parser, ranges: list[Value]) -> list[Type]:
    return [p.type()] * (len(ranges) + 1)


def _write_packed_types(pn: Printer, op: Op, args: Args) -> str:
    return op.results[0].type.text


add_directives(
    {
        "dict": DirectiveDef(
            outputs=lambda args: [f"a_{a}" for a in args],
            read=_read_dict,
            write=_write_dict,
            present=_dict_entries,
            starts=lambda token: token == "{",
            constants=_dict_constants,
        ),
        # The same entries without braces of their own, in the order of the declaration.
        "keyed": DirectiveDef(
            outputs=lambda args: [f"a_{a}" for a in args],
            read=_read_keyed,
            write=_write_keyed,
            present=always,
            starts=lambda token: True,
            constants=_dict_constants,
        ),
        "indices": DirectiveDef(
            outputs=lambda args: [f"o_{args[0]}", f"a_static_{args[0]}"],
            read=_read_indices,
            write=_write_indices,
            present=always,
            starts=lambda token: token == "[",
        ),
        "operand_dict": DirectiveDef(
            outputs=lambda args: [f"o_{args[0]}", f"a_{args[1]}"],
            read=_read_operand_dict,
            write=_write_operand_dict,
            present=lambda op, args: op.attribute(args[1]),
            starts=lambda token: token == "{",
        ),
        "packed_types": DirectiveDef(
            outputs=lambda args: [f"t_{args[1]}"],
            inputs=lambda args: [f"o_{args[0]}"],
            read=_read_packed_types,
            write=_write_packed_types,
            present=always,
            starts=lambda token: True,
        ),
        "aligned": DirectiveDef(
            outputs=lambda args: [f"o_{args[0]}", f"a_{args[1]}"],
            read=_read_aligned,
            write=_write_aligned,
            present=always,
            starts=lambda token: token == "[",
        ),
    }
)
