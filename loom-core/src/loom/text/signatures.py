"""Directives of signatures, predicate lists and calls (language reference, part 1, sections 2.9 and 2.12)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from loom.ir.attributes import Predicate, Ref, ResultSpec
from loom.ir.core import Block, Op, Region, Value
from loom.ir.types import ENCODING_TYPES, INDEX, ShapedType, Type
from loom.text import attributes as attribute_syntax
from loom.text.directives import Args, DirectiveDef, add_directives, always, region_named

if TYPE_CHECKING:
    from loom.text.parser import Parser
    from loom.text.printer import Printer


# -- signatures --------------------------------------------------------------------------------------------


def _read_args(p: Parser) -> Region:
    """``(%a: T, ...)`` opening a new scope; the arguments become those of a fresh entry block."""
    p.open_signature_scope()
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


def _write_args(pn: Printer, op: Op, args: Args) -> str:
    block = region_named(op, args[0]).entry
    count = op.attribute(args[1]) if len(args) > 1 else len(block.args)
    assert isinstance(count, int)
    return f"({signature_text(pn, block.args[:count])})"


def _write_more_args(pn: Printer, op: Op, args: Args) -> str:
    block = region_named(op, args[0]).entry
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
    values = signature_values(op, region_named(op, args[0]))

    def namer(index: int) -> str:
        value = values[index]
        assert value is not None
        return pn.names[value]

    return " where " + attribute_syntax.predicates_text(predicates, namer)  # type: ignore[arg-type]


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


# -- a global's or config's typed declaration ----------------------------------------------------------------


def _read_declared(p: Parser, fresh: bool) -> tuple[Region, Type, tuple[Predicate, ...]]:
    """``⟦%v:⟧ T ⟦where PREDS⟧``: the optional name exists for the predicates only.

    With ``fresh`` names, extents and encodings of the type are names that exist only here: arguments of the region.
    """
    p.open_signature_scope()
    p.signature = fresh
    region = Region([Block()])
    token = p.i
    name = p.toks[token] if p.toks[token][:1] == "%" else None
    if name is not None:
        p.i += 1
        p.take(":")
    type_ = p.type()
    if p.forward:
        type_ = type_.substitute(_adopt_fresh(p, region.entry, type_))
    if name is not None:
        # Behind what its type names, as everywhere.
        p.define(name, region.entry.add_argument(type_), token)
    return region, type_, _read_where(p, region)


def _adopt_fresh(p: Parser, block: Block, type_: Type) -> dict[Value, Value]:
    """One block argument for each name that a declared type introduces, in order of appearance."""
    assert p.forward is not None
    named = {placeholder: name for name, placeholder in p.forward.items()}
    mapping: dict[Value, Value] = {}
    for placeholder in type_.values():
        if placeholder in named and placeholder not in mapping:
            value = mapping[placeholder] = block.add_argument(type_of_named(type_, placeholder))
            p.define(named[placeholder], value, placeholder.index)
            del p.forward[named[placeholder]]
    return mapping


def type_of_named(type_: Type, value: Value) -> Type:
    """The type that a value must have where another type names it: an extent is an index, an encoding one."""
    if isinstance(type_, ShapedType) and type_.encoding is value:
        return ENCODING_TYPES[None]
    return INDEX


def _write_declared(pn: Printer, op: Op, args: Args) -> str:
    block = op.regions[0].entry
    type_ = op.attribute(args[1])
    text = pn.type_text(type_)  # type: ignore[arg-type]
    # The value itself has the declared type; names that the type introduces are an index or an encoding.
    if block.args and block.args[-1].type == type_:
        text = f"{pn.names[block.args[-1]]}: {text}"
    predicates = op.attribute(args[2])
    if predicates:
        text += " where " + attribute_syntax.predicates_text(predicates, lambda i: pn.names[block.args[i]])  # type: ignore[arg-type]
    return text


# -- what loading a global gives -----------------------------------------------------------------------------


def _read_loaded(p: Parser, names: list[str]) -> list[Type]:
    """The type of the value, and one for each other result: what the type names, once each."""
    type_ = p.type()
    placeholders = {v: name for name, v in p.forward.items()} if p.forward else {}
    types = [type_]
    for value in dict.fromkeys(type_.values()):
        if value in placeholders:
            types.append(type_of_named(type_, value))
    # Results beyond these are for the verifier, which knows the declaration.
    return types + [INDEX] * (len(names) - len(types))


def _write_loaded(pn: Printer, op: Op, args: Args) -> str:
    return pn.type_text(op.results[0].type)


add_directives(
    {
        "args": DirectiveDef(
            outputs=lambda args: [f"r_{args[0]}"],
            read=_read_args,
            write=_write_args,
            present=always,
            starts=lambda token: token == "(",
        ),
        "counted_args": DirectiveDef(
            outputs=lambda args: [f"r_{args[0]}", f"a_{args[1]}"],
            read=_read_counted_args,
            write=_write_args,
            present=always,
            starts=lambda token: token == "(",
        ),
        "more_args": DirectiveDef(
            outputs=lambda args: [f"r_{args[0]}"],
            inputs=lambda args: [f"r_{args[0]}"],
            read=_read_more_args,
            write=_write_more_args,
            present=always,
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
            present=always,
            starts=lambda token: token == "where",
        ),
        "predicates": DirectiveDef(
            outputs=lambda args: [f"o_{args[0]}", f"a_{args[1]}"],
            read=_read_predicates,
            write=_write_predicates,
            present=lambda op, args: op.attribute(args[1]) is not None,
            starts=lambda token: token == "[",
        ),
        "call_results": DirectiveDef(
            outputs=lambda args: [f"t_{args[1]}", f"a_{args[2]}"],
            inputs=lambda args: [f"o_{args[0]}"],
            read=_read_call_results,
            write=_write_call_results,
            present=always,
            starts=lambda token: token == "->",
        ),
        "declared": DirectiveDef(
            outputs=lambda args: [f"r_{args[0]}", f"a_{args[1]}", f"a_{args[2]}"],
            read=_read_declared,
            write=_write_declared,
            present=always,
            starts=lambda token: True,
            constants=lambda out, spec, args: [str("fresh" in args)],
        ),
        "loaded": DirectiveDef(
            outputs=lambda args: [f"t_{args[0]}"],
            inputs=lambda args: ["names"],
            read=_read_loaded,
            write=_write_loaded,
            present=always,
            starts=lambda token: True,
        ),
    }
)
