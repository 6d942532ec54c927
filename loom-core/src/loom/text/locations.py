"""Location annotations behind an operation: ``loc("f":3:1 to 3:20)`` (language reference, part 1, section 2.11).

An annotation says where an operation came from; diagnostics about the operation point there. It is printed
only when asked for (:class:`loom.text.printer.LocatedPrinter`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from loom.ir.diagnostics import Span, placed_span
from loom.text.literals import parse_integer, parse_string

if TYPE_CHECKING:
    from loom.text.parser import Parser

MAX_NESTING: Final = 16
MAX_TAG: Final = 65_535
# Lines and columns that a place can have.
MAX_POSITION: Final = (1 << 31) - 1


def read_location(p: Parser) -> Span | None:
    """Read ``loc(...)``. A union is the place of its first file; what names no file gives ``None``."""
    p.i += 1
    _take(p, "(")
    found = _location(p, 1)
    _take(p, ")")
    return found


def _fail(p: Parser, detail: str) -> NoReturn:
    p.fail("PARSE/011", f"malformed location: {detail}", p.i, detail=detail)


def _take(p: Parser, token: str) -> None:
    if not p.accept(token):
        _fail(p, f"expected '{token}'")


def _location(p: Parser, depth: int) -> Span | None:
    if depth > MAX_NESTING:
        _fail(p, f"nested deeper than {MAX_NESTING} levels")
    token = p.toks[p.i]
    if token[:1] == '"':
        return _file(p)
    reader = {"fused": _fused, "opaque": _opaque, "tagged": _tagged}.get(token)
    if reader is None:
        _fail(p, "expected a file, 'fused', 'opaque' or 'tagged'")
    p.i += 1
    _take(p, "<")
    found = reader(p, depth)
    _take(p, ">")
    return found


def _file(p: Parser) -> Span:
    name = _string(p)
    _take(p, ":")
    line, column = _position(p)
    end = (line, column)
    if p.accept("to"):
        end = _position(p)
        if end < (line, column):
            _fail(p, "the range ends before it starts")
    return placed_span(name, (line, column, *end))


def _position(p: Parser) -> tuple[int, int]:
    line = _number(p, MAX_POSITION)
    _take(p, ":")
    return line, _number(p, MAX_POSITION)


def _fused(p: Parser, depth: int) -> Span | None:
    found = [_location(p, depth + 1)]
    while p.accept(","):
        found.append(_location(p, depth + 1))
    return next((place for place in found if place is not None), None)


def _opaque(p: Parser, depth: int) -> None:
    _string(p)
    _take(p, ",")
    _string(p)


def _tagged(p: Parser, depth: int) -> Span | None:
    if parse_integer(p.toks[p.i]) is not None:
        _number(p, MAX_TAG)
    else:
        p.identifier("a tag")
    _take(p, ",")
    payload = _string(p)
    try:
        bytes.fromhex(payload)
    except ValueError:
        p.i -= 1
        _fail(p, "the payload of a tag is an even number of hexadecimal digits")
    return _location(p, depth + 1) if p.accept(",") else None


def _number(p: Parser, limit: int) -> int:
    value = parse_integer(p.toks[p.i])
    if value is None or not 1 <= value <= limit:
        _fail(p, f"expected a number from 1 to {limit}")
    p.i += 1
    return value


def _string(p: Parser) -> str:
    token = p.toks[p.i]
    text = parse_string(token) if len(token) > 1 and token[0] == '"' else None
    if text is None:
        _fail(p, "expected a string")
    p.i += 1
    return text
