"""Going on after an error: where the next statement begins, and what an unknown operation may have been."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loom.ir.core import Block, Value
from loom.ir.diagnostics import did_you_mean
from loom.ir.types import ERROR
from loom.spec.registry import dialect_names, known_names, load_dialect
from loom.text.lexer import END, is_word

if TYPE_CHECKING:
    from loom.text.parser import Parser


def recover(p: Parser, start: int, block: Block) -> None:
    """After an error in the statement at ``start``, go on at the next line, past any region it opened."""
    p.forward = None
    p.signature = False
    _poison_results(p, start, block)
    resynchronise(p, start)


def _poison_results(p: Parser, start: int, block: Block) -> None:
    """Give the names of a failed statement values that silence everything said about them later."""
    at = start
    names = []
    while p.toks[at][:1] == "%":
        names.append(p.toks[at])
        at += 1
        if p.toks[at] != ",":
            break
        at += 1
    if p.toks[at] == "=":
        for name in names:
            if name not in p.defined:
                p.define(name, Value(ERROR, block, 0), start)


def resynchronise(p: Parser, start: int) -> None:
    """Go to where the next statement seems to begin, or to the end of the region."""
    p.type_depth = 0
    p.attribute_depth = 0
    line = p.source.line_column
    span = p.source.token_span
    at = max(p.i, start)
    depth = 0
    for token in p.toks[start:at]:
        depth += (token == "{") - (token == "}")
    depth = max(depth, 0)
    # The error may be that the line above lacks its end.
    current = line(span(max(at - 1, start))[0])[0]
    while p.toks[at] != END:
        token = p.toks[at]
        if depth == 0 and token == "}":
            break
        if depth == 0 and at > start and _starts_statement(p, at) and line(span(at)[0])[0] > current:
            break
        depth += (token == "{") - (token == "}")
        if token == "}" and depth == 0 and p.toks[at + 1] in ("else", "launch", "do", "default"):
            current = line(span(at + 1)[0])[0]
        at += 1
        if depth == 0 and token == "}":
            current = line(span(at - 1)[0])[0]
    p.i = at if at > start else start + 1


def _starts_statement(p: Parser, at: int) -> bool:
    """Whether a token looks like the first of an operation, label or alias, and not of a continuation line."""
    token = p.toks[at]
    if token[:1] == "%":
        while p.toks[at + 1] == "," and p.toks[at + 2][:1] == "%":
            at += 2
        at += 2
        if p.toks[at - 1] != "=":
            return False
        token = p.toks[at]
    elif token[:1] in ("^", "#"):
        return token[0] == "^" or p.toks[at + 1] == "="
    return is_word(token) and ("." in token or p.low_set is not None)


def _other_dialect(name: str) -> str | None:
    """A hint for an operation whose dialect is misspelled; dialects load when they are named rightly."""
    import difflib

    dialect, dot, rest = name.partition(".")
    for known in difflib.get_close_matches(dialect, dialect_names(), n=1) if dot else ():
        load_dialect(known)
        return did_you_mean(f"{known}.{rest}", [other for other in known_names() if other.startswith(known + ".")])
    return None


def operation_hint(name: str) -> str | None:
    """A hint naming the operation that an unknown name comes closest to."""
    return did_you_mean(name, known_names()) or _other_dialect(name)
