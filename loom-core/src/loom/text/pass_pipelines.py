"""Syntax of pass pipelines: the statement language and its op form (language reference, part 1, section 18).

A region is written ``pipeline { statement* }`` or ``{ pass-op* }``. Both read into the same ops; the first form prints
wherever it can say what the region holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from loom.ir.attribute_text import dictionary_text, string_text
from loom.ir.attributes import Dictionary
from loom.ir.core import Block, Op, Region
from loom.ir.diagnostics import SourceFile
from loom.spec.registry import lookup
from loom.text import attributes as attribute_syntax
from loom.text.directives import Args, DirectiveDef, add_directives, always, directive, region_named

if TYPE_CHECKING:
    from loom.spec.model import OpSpec
    from loom.text.parser import Parser
    from loom.text.printer import Printer

Location = tuple[SourceFile, int]

# Words that begin a statement other than the run of a pass.
STATEMENTS: Final = frozenset({"for", "where", "repeat", "if", "call", "fail", "halt"})


# -- reading -------------------------------------------------------------------------------------------------


def _read_body(p: Parser, implicit: type[Op]) -> Region:
    """``pipeline { statement* }`` or ``{ pass-op* }``."""
    if p.accept("pipeline"):
        return _read_statements(p, implicit)
    return p.region(Block(), [], implicit=implicit)


def _read_statements(p: Parser, implicit: type[Op]) -> Region:
    p.take("{")
    block = Block()
    while True:
        blank, comments = p.trivia()
        start = p.i
        if p.accept("}"):
            break
        if p.toks[start] == "":
            p.expected(start, "'}' before the end of the file")
        op = _read_statement(p, implicit)
        op.comments, op.blank_before = comments, blank
        block.append(op)
    end = implicit([], [], loc=(p.source, p.i - 1))
    end.comments, end.blank_before = comments, blank and bool(comments)
    block.append(end)
    return Region([block])


def _read_statement(p: Parser, implicit: type[Op]) -> Op:
    loc = (p.source, p.i)
    word = p.identifier("a pass or a statement")
    reader = _STATEMENT_READERS.get(word)
    if reader is not None:
        return reader(p, loc, implicit)
    return _make("pass.run", loc, key=word, options=_read_options(p))


def _make(name: str, loc: Location, body: Region | None = None, **fields: object) -> Op:
    cls = lookup(name)
    assert cls is not None
    attributes = [fields.get(attribute.name) for attribute in cls.spec.attributes]
    return cls([], attributes, regions=None if body is None else [body], loc=loc)


def _read_options(p: Parser) -> Dictionary:
    """``(k = v, ...)`` or nothing."""
    found = Dictionary()
    if not p.accept("("):
        return found
    while not p.accept(")"):
        at = p.i
        key = p.identifier("an option")
        if key in found:
            p.fail("PARSE/020", f"option '{key}' is given twice", at, key_name=key)
        p.take("=")
        found[key] = attribute_syntax.generic(p)
        if not p.accept(","):
            p.take(")")
            break
    return found


def _enum(p: Parser, op_name: str, field: str) -> object:
    cls = lookup(op_name)
    assert cls is not None
    kind: Any = cls.spec.attributes[cls.spec.attribute_index[field]].kind
    return attribute_syntax.enum_word(p, kind)


def _read_for(p: Parser, loc: Location, implicit: type[Op]) -> Op:
    anchor = _enum(p, "pass.for", "anchor")
    return _make("pass.for", loc, _read_statements(p, implicit), anchor=anchor)


def _read_where(p: Parser, loc: Location, implicit: type[Op]) -> Op:
    predicate = p.identifier("a predicate")
    attrs = _read_options(p)
    return _make("pass.where", loc, _read_statements(p, implicit), predicate=predicate, attrs=attrs)


def _read_repeat(p: Parser, loc: Location, implicit: type[Op]) -> Op:
    mode = _enum(p, "pass.repeat", "mode")
    at = p.i
    options = _read_options(p)
    for key, value in options.items():
        if key not in ("count", "max_iterations") or not isinstance(value, int) or isinstance(value, bool):
            p.fail("PARSE/018", f"'repeat' takes an integer 'count' or 'max_iterations', not '{key}'", at,
                   context="repeat", value=key)  # fmt: skip
    return _make("pass.repeat", loc, _read_statements(p, implicit), mode=mode, **options)


def _read_if(p: Parser, loc: Location, implicit: type[Op]) -> Op:
    p.take("changed")
    return _make("pass.if_changed", loc, _read_statements(p, implicit))


_STATEMENT_READERS: Final[Mapping[str, Callable[[Parser, Location, type[Op]], Op]]] = {
    "for": _read_for,
    "where": _read_where,
    "repeat": _read_repeat,
    "if": _read_if,
    "call": lambda p, loc, implicit: _make("pass.call", loc, callee=p.symbol()),
    "fail": lambda p, loc, implicit: _make("pass.fail", loc, message=attribute_syntax.string(p)),
    "halt": lambda p, loc, implicit: _make("pass.halt", loc, message=attribute_syntax.string(p)),
}


def _starts_dictionary(p: Parser) -> bool:
    """Whether the next braces are a dictionary and not a body: an entry follows, or the body follows them."""
    toks, i = p.toks, p.i
    if toks[i] != "{":
        return False
    return toks[i + 2] == "=" or (toks[i + 1] == "}" and toks[i + 2] in ("{", "pipeline"))


def _read_facts(p: Parser) -> Dictionary:
    return attribute_syntax.dictionary(p) if _starts_dictionary(p) else Dictionary()


def _read_counts(p: Parser, *constants: Any) -> object:
    if _starts_dictionary(p):
        return directive("dict").read(p, *constants)
    return None, None


# -- printing ------------------------------------------------------------------------------------------------


def _write_body(pn: Printer, op: Op, args: Args) -> str:
    region = region_named(op, args[0])
    if not _is_expressible(region):
        return pn.region(region, True)
    return "pipeline " + _statements_text(pn, region)


def _is_expressible(region: Region) -> bool:
    """Whether statements can say everything that a region and its nested regions hold."""
    if len(region.blocks) != 1:
        return False
    block = region.entry
    if block.label is not None or block.args or block.comments:
        return False
    end = block.last
    if end is None or end.name != "pass.yield":
        return False
    return all(
        op.spec.dialect == "pass"
        and not (op.name == "pass.run" and op.attribute("key") in STATEMENTS)
        and all(map(_is_expressible, op.regions))
        for op in block
    )


def _statements_text(pn: Printer, region: Region) -> str:
    outer = pn.pad
    pad = pn.pad = outer + "  "
    lines = ["{"]
    for op in region.entry:
        if op.blank_before:
            lines.append("")
        lines.extend(f"{pad}// {c}" if c else f"{pad}//" for c in op.comments)
        if op.name == "pass.yield":
            break
        text = pad + _STATEMENT_TEXT[op.name](op)
        lines.append(" ".join([text, *(_statements_text(pn, inner) for inner in op.regions)]))
    pn.pad = outer
    lines.append(outer + "}")
    return "\n".join(lines)


def _options_text(options: Mapping[str, object]) -> str:
    return f"({dictionary_text(options)[1:-1]})" if options else ""


def _repeat_text(op: Any) -> str:
    given = {"count": op.count, "max_iterations": op.max_iterations}
    return f"repeat {op.mode}" + _options_text({k: v for k, v in given.items() if v is not None})


_STATEMENT_TEXT: Final[Mapping[str, Callable[[Any], str]]] = {
    "pass.run": lambda op: op.key + _options_text(op.options),
    "pass.for": lambda op: f"for {op.anchor}",
    "pass.where": lambda op: f"where {op.predicate}{_options_text(op.attrs)}",
    "pass.repeat": _repeat_text,
    "pass.if_changed": lambda op: "if changed",
    "pass.call": lambda op: f"call @{op.callee}",
    "pass.fail": lambda op: f"fail {string_text(op.message)}",
    "pass.halt": lambda op: f"halt {string_text(op.message)}",
}


def _write_facts(pn: Printer, op: Op, args: Args) -> str:
    entries: Any = op.attribute(args[0])
    return f" {dictionary_text(entries)}" if entries else ""


def _write_counts(pn: Printer, op: Op, args: Args) -> str:
    counts = directive("dict")
    return f" {counts.write(pn, op, args)}" if counts.present(op, args) else ""


def _yield_constant(out: Any, spec: OpSpec, args: Args) -> list[str]:
    return [out.const(lookup("pass.yield"))]


add_directives(
    {
        "pass_body": DirectiveDef(
            outputs=lambda args: [f"r_{args[0]}"],
            read=_read_body,
            write=_write_body,
            present=always,
            starts=lambda token: token in ("{", "pipeline"),
            constants=_yield_constant,
        ),
        "pass_facts": DirectiveDef(
            outputs=lambda args: [f"a_{args[0]}"],
            read=_read_facts,
            write=_write_facts,
            present=always,
            starts=lambda token: token == "{",
        ),
        "pass_counts": DirectiveDef(
            outputs=lambda args: [f"a_{a}" for a in args],
            read=_read_counts,
            write=_write_counts,
            present=always,
            starts=lambda token: token == "{",
            constants=lambda out, spec, args: directive("dict").constants(out, spec, args),
        ),
    }
)
