"""Pieces of syntax that a format names as ``$<directive ...>``.

A directive knows which fields it fills (``outputs``), reads them, prints them, and says when a group that it
anchors is present. Language reference, part 1, sections 2.3 to 2.9.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from loom.ir.attributes import Predicate, Ref, ResultSpec
from loom.ir.core import Block, Op, Region, Value
from loom.ir.diagnostics import SourceFile, did_you_mean
from loom.ir.types import ERROR, OpaqueType, Type
from loom.spec.kinds import DYNAMIC
from loom.text import attributes as attribute_syntax

if TYPE_CHECKING:
    from loom.spec.model import OpSpec
    from loom.text.parser import Parser
    from loom.text.printer import Printer

# Stands in for a result type that is computed once the op exists.
PENDING: Final = OpaqueType("<pending>")

Args = tuple[str, ...]


def _no_constants(out: Any, spec: OpSpec, args: Args) -> list[str]:
    return []


@attrs.frozen
class DirectiveDef:
    """One directive. ``inputs`` are local variables of the generated reader that it needs."""

    outputs: Callable[[Args], list[str]]
    read: Callable[..., Any]
    write: Callable[[Printer, Op, Args], str]
    present: Callable[[Op, Args], object]
    starts: Callable[[str], bool]
    inputs: Callable[[Args], list[str]] = lambda args: []
    constants: Callable[[Any, Any, Args], list[str]] = _no_constants


def _always(op: Op, args: Args) -> bool:
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
            if not p.accept(","):
                p.take("}")
                break
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


def index_entries(values: Sequence[Value], static: Sequence[int]) -> list[int | Value]:
    """Interleave a static index array with its dynamic operands."""
    dynamic = iter(values)
    return [next(dynamic) if entry == DYNAMIC else entry for entry in static]


def _write_indices(pn: Printer, op: Op, args: Args) -> str:
    values = op.group(op.spec.operand_index[args[0]])
    entries = index_entries(values, op.attribute("static_" + args[0]))  # type: ignore[arg-type]
    return "[" + ", ".join(str(e) if isinstance(e, int) else pn.names[e] for e in entries) + "]"


# -- signatures --------------------------------------------------------------------------------------------


def _read_args(p: Parser) -> Region:
    """``(%a: T, ...)`` opening a new scope; the arguments become those of a fresh entry block."""
    p.scope, p.defined, p.shadowed = {}, set(), {}
    return _read_more_args(p, Region([Block()]))


def _read_more_args(p: Parser, region: Region) -> Region:
    p.take("(")
    p.signature = True
    block = region.entry
    if not p.accept(")"):
        while True:
            token = p.i
            name = p.toks[token]
            if name[:1] != "%" or len(name) == 1:
                p.expected(token, "an argument name")
            p.i += 1
            p.take(":")
            value = block.add_argument(p.type())
            p.define(name, value, token)
            if p.forward:
                placeholder = p.forward.pop(name, None)
                if placeholder is not None:
                    placeholder.replace_all_uses(value)
            if p.accept(")"):
                break
            p.take(",")
    return region


def signature_text(pn: Printer, values: Iterable[Value]) -> str:
    """``%a: T, %b: U``."""
    return ", ".join(f"{pn.names[v]}: {pn.type_text(v.type)}" for v in values)


def _region_named(op: Op, name: str) -> Region:
    return op.regions[op.spec.region_index[name]]


def _write_args(pn: Printer, op: Op, args: Args) -> str:
    block = _region_named(op, args[0]).entry
    count = op.attribute(args[1]) if len(args) > 1 else len(block.args)
    assert isinstance(count, int)
    return f"({signature_text(pn, block.args[:count])})"


def _write_more_args(pn: Printer, op: Op, args: Args) -> str:
    block = _region_named(op, args[0]).entry
    count = op.attribute(args[1])
    assert isinstance(count, int)
    return f"({signature_text(pn, block.args[count:])})"


def _read_counted_args(p: Parser) -> tuple[Region, int]:
    region = _read_args(p)
    return region, len(region.entry.args)


def _read_results(p: Parser, region: Region) -> tuple[ResultSpec, ...]:
    if not p.accept("->"):
        return ()
    p.take("(")
    found: list[tuple[Type, str | None, int | None, int]] = []
    while True:
        grouped = p.accept("(")
        at = p.i
        name: str | None = None
        tied: int | None = None
        if p.toks[p.i][:1] == "%" and p.toks[p.i + 1] == ":":
            name = p.toks[p.i]
            p.i += 2
        if p.toks[p.i][:1] == "%" and p.toks[p.i + 1] == "as":
            argument = p.value()
            if argument.owner is not region.entry:
                p.expected(p.i - 1, "an argument of the signature")
            tied = argument.index
            p.i += 1
        found.append((p.type(), name, tied, at))
        if grouped:
            p.take(")")
        if p.accept(")"):
            break
        p.take(",")
    specs: list[ResultSpec] = []
    mapping: dict[Value, Value] = {}
    for i, (type_, name, _, at) in enumerate(found):
        if name is not None:
            value = Value(type_, region.entry, i)
            p.define(name, value, at)
            placeholder = p.forward.pop(name, None) if p.forward else None
            if placeholder is not None:
                mapping[placeholder] = value
                placeholder.replace_all_uses(value)
    for type_, name, tied, _ in found:
        named = p.scope[name] if name is not None else None
        specs.append(ResultSpec(type_.substitute(mapping) if mapping else type_, named, tied))
    return tuple(specs)


def _write_results(pn: Printer, op: Op, args: Args) -> str:
    specs = op.attribute(args[0])
    region = op.regions[-1]
    parts = []
    for spec in specs:  # type: ignore[attr-defined]
        text = pn.type_text(spec.type)
        if spec.tied is not None:
            text = f"{pn.names[region.entry.args[spec.tied]]} as {text}"
        if spec.value is not None:
            text = f"{pn.names[spec.value]}: {text}"
        parts.append(text)
    if len(parts) > 1:
        parts = [f"({t})" if s.tied is not None else t for t, s in zip(parts, specs, strict=True)]  # type: ignore[call-overload]
    return f" -> ({', '.join(parts)})"


def signature_values(op: Op, region: Region) -> list[Value | None]:
    """Positions that predicates of a signature refer to: arguments, then results (``None`` when unnamed)."""
    specs: Sequence[ResultSpec] = ()
    if op.spec.result_spec_attributes:
        specs = op.attributes[op.spec.result_spec_attributes[0]] or ()  # type: ignore[assignment]
    return [*region.entry.args, *(s.value for s in specs)]


def _read_where(p: Parser, region: Region, results: Sequence[ResultSpec] = ()) -> tuple[Predicate, ...]:
    count = len(region.entry.args)

    def reference(q: Parser) -> Ref:
        token = q.i
        value = q.value()
        for k, spec in enumerate(results):
            if spec.value is value:
                return Ref(count + k)
        if value.owner is not region.entry:
            q.fail(
                "STRUCTURE/032",
                f"'{q.toks[token]}' is no argument or named result of the signature",
                token,
                op_name="where",
                field_name=q.toks[token][1:],
                required_origin="signature",
            )
        return Ref(value.index)

    found: tuple[Predicate, ...] = ()
    if p.accept("where"):
        found = attribute_syntax.predicate_list(p, reference)
    for spec in results:
        # Result names belong to the signature; the body does not see them.
        if spec.value is not None and spec.value.name is not None:
            p.scope.pop("%" + spec.value.name, None)
            p.defined.discard("%" + spec.value.name)
    if p.forward:
        name, placeholder = next(iter(p.forward.items()))
        p.fail("PARSE/022", f"'{name}' is never defined in the signature", placeholder.index, value_name=name[1:])
    p.signature = False
    return found


def _write_where(pn: Printer, op: Op, args: Args) -> str:
    predicates = op.attribute(args[1])
    if not predicates:
        return ""
    values = signature_values(op, _region_named(op, args[0]))

    def namer(index: int) -> str:
        value = values[index]
        assert value is not None
        return pn.names[value]

    return " where " + attribute_syntax.predicates_text(predicates, namer)  # type: ignore[arg-type]


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
    region = op.spec.regions[op.spec.region_index[args[0]]]
    return pn.region(_region_named(op, args[0]), region.implicit)


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
    block = _region_named(op, region_name).entry
    items = [
        f"{pn.names[arg]} = {pn.names[init]} : {pn.type_text(init.type)}"
        for arg, init in zip(block.args[int(skip) :], inits, strict=False)
    ]
    return f"({', '.join(items)})"


# -- predicates over visible values ------------------------------------------------------------------------


def _read_predicates(p: Parser) -> tuple[list[Value], tuple[Predicate, ...]]:
    values: list[Value] = []

    def reference(q: Parser) -> Ref:
        value = q.value()
        if value not in values:
            values.append(value)
        return Ref(values.index(value))

    predicates = attribute_syntax.predicate_list(p, reference)
    return values, predicates


def _write_predicates(pn: Printer, op: Op, args: Args) -> str:
    values = op.group(op.spec.operand_index[args[0]])
    return attribute_syntax.predicates_text(op.attribute(args[1]), lambda i: pn.names[values[i]])  # type: ignore[arg-type]


# -- calls -------------------------------------------------------------------------------------------------


def _read_call_results(p: Parser, operands: Sequence[Value]) -> tuple[list[Type], tuple[int, ...] | None]:
    if not p.accept("->"):
        return [], None
    p.take("(")
    types: list[Type] = []
    ties: list[int] = []
    while True:
        grouped = p.accept("(")
        tie = -1
        if p.toks[p.i][:1] == "%" and p.toks[p.i + 1] == "as":
            value = p.value()
            if value not in operands:
                p.expected(p.i - 1, "an operand of the call")
            tie = list(operands).index(value)
            p.i += 1
        types.append(p.type())
        ties.append(tie)
        if grouped:
            p.take(")")
        if p.accept(")"):
            break
        p.take(",")
    return types, tuple(ties) if any(t >= 0 for t in ties) else None


def _write_call_results(pn: Printer, op: Op, args: Args) -> str:
    if not op.results:
        return ""
    ties = op.attribute(args[2])
    operands = op.group(op.spec.operand_index[args[0]])
    parts = []
    for k, result in enumerate(op.results):
        text = pn.type_text(result.type)
        if ties is not None and ties[k] >= 0:  # type: ignore[index]
            text = f"{pn.names[operands[ties[k]]]} as {text}"  # type: ignore[index]
            if len(op.results) > 1:
                text = f"({text})"
        parts.append(text)
    return f" -> ({', '.join(parts)})"


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


# -- a global's or config's typed declaration ----------------------------------------------------------------


def _read_declared(p: Parser) -> tuple[Region, Type, tuple[Predicate, ...]]:
    """``⟦%v:⟧ T ⟦where PREDS⟧``: the optional name exists for the predicates only."""
    p.scope, p.defined, p.shadowed = {}, set(), {}
    region = Region([Block()])
    if p.toks[p.i][:1] == "%":
        token = p.i
        name = p.toks[token]
        p.i += 1
        p.take(":")
        type_ = p.type()
        p.define(name, region.entry.add_argument(type_), token)
    else:
        type_ = p.type()
    return region, type_, _read_where(p, region)


def _write_declared(pn: Printer, op: Op, args: Args) -> str:
    block = op.regions[0].entry
    text = pn.type_text(op.attribute(args[1]))  # type: ignore[arg-type]
    if block.args:
        text = f"{pn.names[block.args[0]]}: {text}"
    predicates = op.attribute(args[2])
    if predicates:
        text += " where " + attribute_syntax.predicates_text(predicates, lambda i: pn.names[block.args[i]])  # type: ignore[arg-type]
    return text


DIRECTIVES: Final[dict[str, DirectiveDef]] = {
    "dict": DirectiveDef(
        outputs=lambda args: [f"a_{a}" for a in args],
        read=_read_dict,
        write=_write_dict,
        present=_dict_entries,
        starts=lambda token: token == "{",
        constants=_dict_constants,
    ),
    "indices": DirectiveDef(
        outputs=lambda args: [f"o_{args[0]}", f"a_static_{args[0]}"],
        read=_read_indices,
        write=_write_indices,
        present=_always,
        starts=lambda token: token == "[",
    ),
    "args": DirectiveDef(
        outputs=lambda args: [f"r_{args[0]}"],
        read=_read_args,
        write=_write_args,
        present=_always,
        starts=lambda token: token == "(",
    ),
    "counted_args": DirectiveDef(
        outputs=lambda args: [f"r_{args[0]}", f"a_{args[1]}"],
        read=_read_counted_args,
        write=_write_args,
        present=_always,
        starts=lambda token: token == "(",
    ),
    "more_args": DirectiveDef(
        outputs=lambda args: [f"r_{args[0]}"],
        inputs=lambda args: [f"r_{args[0]}"],
        read=_read_more_args,
        write=_write_more_args,
        present=_always,
        starts=lambda token: token == "(",
    ),
    "results": DirectiveDef(
        outputs=lambda args: [f"a_{args[0]}"],
        inputs=lambda args: [f"r_{args[1]}"],
        read=_read_results,
        write=_write_results,
        present=lambda op, args: op.attribute(args[0]),
        starts=lambda token: token == "->",
    ),
    "where": DirectiveDef(
        outputs=lambda args: [f"a_{args[1]}"],
        inputs=lambda args: [f"r_{args[0]}", *(f"a_{a}" for a in args[2:])],
        read=_read_where,
        write=_write_where,
        present=_always,
        starts=lambda token: token == "where",
    ),
    "body": DirectiveDef(
        outputs=lambda args: [f"r_{args[0]}"],
        inputs=lambda args: [f"r_{args[0]}"],
        read=_read_body,
        write=_write_body,
        present=_always,
        starts=lambda token: token == "{",
        constants=_region_constants,
    ),
    "bindings": DirectiveDef(
        outputs=lambda args: [f"o_{args[0]}", "bound"],
        read=_read_bindings,
        write=_write_bindings,
        present=_always,
        starts=lambda token: token == "(",
    ),
    "predicates": DirectiveDef(
        outputs=lambda args: [f"o_{args[0]}", f"a_{args[1]}"],
        read=_read_predicates,
        write=_write_predicates,
        present=_always,
        starts=lambda token: token == "[",
    ),
    "call_results": DirectiveDef(
        outputs=lambda args: [f"t_{args[1]}", f"a_{args[2]}"],
        inputs=lambda args: [f"o_{args[0]}"],
        read=_read_call_results,
        write=_write_call_results,
        present=_always,
        starts=lambda token: token == "->",
    ),
    "payload": DirectiveDef(
        outputs=lambda args: [f"o_{args[0]}"],
        read=_read_payload,
        write=_write_payload,
        present=_always,
        starts=lambda token: token == "(",
    ),
    "table": DirectiveDef(
        outputs=lambda args: [f"a_{args[0]}", f"o_{args[1]}"],
        read=_read_table,
        write=_write_table,
        present=_always,
        starts=lambda token: token == "{",
    ),
    "cases": DirectiveDef(
        outputs=lambda args: [f"a_{args[0]}", f"r_{args[1]}", f"r_{args[2]}"],
        read=_read_cases,
        write=_write_cases,
        present=_always,
        starts=lambda token: token == "{",
        constants=_cases_constants,
    ),
    "operand_dict": DirectiveDef(
        outputs=lambda args: [f"o_{args[0]}", f"a_{args[1]}"],
        read=_read_operand_dict,
        write=_write_operand_dict,
        present=lambda op, args: op.attribute(args[1]),
        starts=lambda token: token == "{",
    ),
    "aligned": DirectiveDef(
        outputs=lambda args: [f"o_{args[0]}", f"a_{args[1]}"],
        read=_read_aligned,
        write=_write_aligned,
        present=_always,
        starts=lambda token: token == "[",
    ),
    "declared": DirectiveDef(
        outputs=lambda args: [f"r_{args[0]}", f"a_{args[1]}", f"a_{args[2]}"],
        read=_read_declared,
        write=_write_declared,
        present=_always,
        starts=lambda token: True,
    ),
}


# Directives that live with a dialect's other syntax: name -> module that adds them.
_ELSEWHERE: Final = {
    "for_header": "loom.text.loops",
    "for_body": "loom.text.loops",
    "while": "loom.text.loops",
    "low_body": "loom.low.assembly",
}


def directive(name: str) -> DirectiveDef:
    """The directive of a name. Raises ``KeyError`` for an unknown one."""
    if name not in DIRECTIVES and name in _ELSEWHERE:
        importlib.import_module(_ELSEWHERE[name])
    return DIRECTIVES[name]


def add_directives(more: dict[str, DirectiveDef]) -> None:
    """Register directives of a dialect whose syntax lives with it."""
    DIRECTIVES.update(more)
