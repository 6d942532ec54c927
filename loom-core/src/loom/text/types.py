"""Reading types (language reference, part 1, section 4)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NoReturn

from loom.ir.diagnostics import did_you_mean
from loom.ir.types import (
    BUFFER,
    ENCODING_ROLES,
    ENCODING_TYPES,
    MAX_RANK,
    NESTED_HEADS,
    SCALARS,
    SHAPED_KINDS,
    STORAGE_SPACES,
    DimsType,
    FunctionType,
    NestedType,
    OpaqueType,
    RegType,
    ScalarType,
    ShapedType,
    StorageType,
    Type,
)
from loom.text.lexer import is_word
from loom.text.literals import parse_integer

if TYPE_CHECKING:
    from loom.ir.attributes import Encoding
    from loom.ir.core import Value
    from loom.text.parser import Parser

__all__ = ["BUFFER", "parse_type"]

_DIM: Final = re.compile(r"\s*(?:([0-9]+)|\[\s*(%[A-Za-z0-9_$][A-Za-z0-9_$-]*)\s*\])\s*x\s*")
_ELEMENT: Final = re.compile(r"\s*([A-Za-z0-9]+)\s*")
_SSA: Final = re.compile(r"\s*(%[A-Za-z0-9_$][A-Za-z0-9_$-]*)\s*")
_ALIGN: Final = re.compile(r"\s*align\s*\(\s*(0x[0-9a-fA-F]+|[0-9]+)\s*\)\s*")
_REG: Final = re.compile(r"reg<\s*([A-Za-z_$][\w$.-]*)(?:\s+x([0-9]+))?\s*(?::\s*(.+?))?\s*>\Z", re.DOTALL)
_GROUP_DIM: Final = re.compile(r"\s*(?:([0-9]+)|\[\s*(%[A-Za-z0-9_$][A-Za-z0-9_$-]*)\s*\])\s*")

# Types in types.
MAX_NESTING: Final = 64
_HEADS_WITH_EXTENTS: Final = ("group", "pool")
_OTHER_HEADS: Final = ("buffer", "encoding", "reg", "low.storage")
_BRACKETED: Final = frozenset((*SHAPED_KINDS, *_HEADS_WITH_EXTENTS, "encoding", "reg"))
_NATIVE_HEADS: Final = (*SCALARS, *SHAPED_KINDS, *_HEADS_WITH_EXTENTS, *_OTHER_HEADS, *NESTED_HEADS)


def parse_type(p: Parser) -> Type:
    """Read a type that the parser's table of known spellings does not hold yet."""
    token = p.toks[p.i]
    start = p.i
    head = token.partition("<")[0]
    width = 1
    if token in _BRACKETED and p.toks[start + 1] == "<":
        token, width = _over_lines(p)
    found: Type
    if head in SHAPED_KINDS and "<" in token:
        found = _shaped(p, token, head)
        p.i += width
        if not found.text:
            return found
    elif head in SHAPED_KINDS:
        p.fail("PARSE/004", f"malformed type '{token}'", p.i, text=token)
    elif head in _HEADS_WITH_EXTENTS:
        p.i += width
        return _dims(p, token, head, start)
    elif head == "encoding":
        role = token[9:-1].strip() if "<" in token else None
        if role is not None and role not in ENCODING_ROLES:
            p.fail("PARSE/007", f"unknown encoding role '{role}'", start, type_name=token,
                   hint=did_you_mean(role, ENCODING_ROLES))  # fmt: skip
        p.i += width
        found = ENCODING_TYPES[role]
    elif head == "reg":
        found = _register(p, token)
        p.i += width
    elif token == "(":
        return _function(p)
    elif token == "low.storage":
        p.i += 1
        p.take("<")
        space = p.identifier("a storage space")
        if space not in STORAGE_SPACES:
            p.fail("PARSE/007", f"unknown storage space '{space}'", p.i - 1, type_name=space)
        p.take(">")
        return StorageType(space)
    elif token in NESTED_HEADS:
        return _nested(p, token)
    elif "." in token and is_word(token):
        return _opaque(p)
    else:
        if not is_word(token):
            p.expected(start, "a type")
        p.fail("PARSE/007", f"unknown type '{token}'", start, hint=did_you_mean(token, _NATIVE_HEADS), type_name=token)
    p.types[token] = found
    return found


def _over_lines(p: Parser) -> tuple[str, int]:
    """The text of a type that is no single token because it goes over several lines, and its number of tokens."""
    toks = p.toks
    depth = 0
    for at in range(p.i + 1, len(toks)):
        token = toks[at]
        depth += (token == "<") - (token == ">")
        if depth == 0:
            return toks[p.i] + " ".join(toks[p.i + 1 : at + 1]), at + 1 - p.i
        if token in ("", "{", "}", "->"):
            break
    p.fail("PARSE/026", f"'<' of '{toks[p.i]}' is never closed", p.i + 1)


def _shaped(p: Parser, token: str, kind: str) -> ShapedType:
    at = len(kind) + 1
    end = len(token) - 1
    dims: list[int | Value] = []
    while (match := _DIM.match(token, at, end)) is not None:
        if match.group(1) is not None:
            dims.append(_extent(p, match.group(1), token))
        else:
            dims.append(p.dimension_value(match.group(2), p.i))
        at = match.end()
    element_match = _ELEMENT.match(token, at, end)
    element = SCALARS.get(element_match.group(1)) if element_match else None
    if element is None or element_match is None:
        _bad_element(p, token, element_match.group(1) if element_match else None)
    at = element_match.end()
    encoding: Encoding | Value | None = None
    align: int | None = None
    while at < end:
        if token[at] != ",":
            p.fail("PARSE/004", f"malformed type '{token}'", p.i, text=token)
        at += 1
        if (match := _SSA.match(token, at, end)) is not None and encoding is None and align is None:
            encoding = p.dimension_value(match.group(1), p.i)
            at = match.end()
        elif (match := _ALIGN.match(token, at, end)) is not None and align is None:
            align = _extent(p, match.group(1), token)
            at = match.end()
        elif token[at:end].lstrip()[:1] == "#" and encoding is None and align is None:
            encoding, at = _static_encoding(p, token, at, end)
        else:
            p.fail("PARSE/004", f"malformed type '{token}'", p.i, text=token)
    _check_shaped(p, token, kind, dims, element, encoding is not None, align)
    return ShapedType.get(kind, tuple(dims), element, encoding, align)


def _extent(p: Parser, digits: str, token: str) -> int:
    """A number inside a type; errors point at the type."""
    value = parse_integer(digits)
    if value is None:
        p.fail("PARSE/015", f"integer in '{token}' does not fit signed 64 bits", p.i, text=digits)
    return value


def _bad_element(p: Parser, token: str, name: str | None) -> NoReturn:
    if name is None:
        p.fail("PARSE/004", f"malformed type '{token}'", p.i, text=token)
    p.fail("PARSE/007", f"unknown element type '{name}' in '{token}'", p.i, hint=did_you_mean(name, SCALARS),
           type_name=name)  # fmt: skip


def _check_shaped(
    p: Parser, token: str, kind: str, dims: list[int | Value], element: ScalarType, encoded: bool, align: int | None
) -> None:
    if len(dims) > MAX_RANK:
        p.fail("PARSE/004", f"rank {len(dims)} is above the limit of {MAX_RANK}", p.i, text=token)
    if kind == "vector" and (not dims or encoded):
        what = "needs at least one dimension" if not dims else "takes no encoding"
        p.fail("PARSE/004", f"a vector {what}", p.i, text=token)
    if align is None:
        return
    if kind != "view":
        p.fail("PARSE/004", "only a view takes 'align'", p.i, text=token)
    if align <= 0 or align & (align - 1) or align > element.byte_size:
        p.fail("PARSE/004", f"alignment {align} is not a power of two from 1 to {element.byte_size}", p.i, text=token)


def _static_encoding(p: Parser, token: str, at: int, end: int) -> tuple[Encoding, int]:
    """Read an encoding attribute inside a type token; it ends at a comma outside all brackets."""
    from loom.text.attributes import parse_encoding_text

    depth = 0
    stop = at
    while stop < end:
        char = token[stop]
        if char in "<[(":
            depth += 1
        elif char in ">])":
            depth -= 1
        elif char == "," and depth == 0:
            break
        stop += 1
    return parse_encoding_text(p, token[at:stop].strip()), stop


def _dims(p: Parser, token: str, kind: str, start: int) -> Type:
    if "<" not in token:
        return DimsType(kind, ())
    at, end = len(kind) + 1, len(token) - 1
    dims: list[int | Value] = []
    while True:
        match = _GROUP_DIM.match(token, at, end)
        if match is None:
            p.fail("PARSE/004", f"malformed type '{token}'", start, text=token)
        extent = match.group(1)
        dims.append(p.dimension_value(match.group(2), start) if extent is None else _extent(p, extent, token))
        at = match.end()
        if at == end:
            if kind == "pool" and len(dims) > 1:
                p.fail("PARSE/004", f"a pool has one block size, not {len(dims)}", start, text=token)
            return DimsType(kind, tuple(dims))
        if token[at] != "x":
            p.fail("PARSE/004", f"malformed type '{token}'", start, text=token)
        at += 1


def _register(p: Parser, token: str) -> Type:
    match = _REG.match(token)
    if match is None or "." not in match.group(1):
        p.fail("PARSE/004", f"malformed register type '{token}'", p.i, text=token)
    count = _extent(p, match.group(2) or "1", token)
    if count < 1:
        p.fail("PARSE/004", "a register type has at least one unit", p.i, text=token)
    payload_text = match.group(3)
    if payload_text is None:
        return RegType(match.group(1), count)
    payload = SCALARS.get(payload_text)
    if payload is None or not match.group(1).endswith(".id"):
        p.fail(
            "PARSE/004",
            f"register class '{match.group(1)}' carries no second type",
            p.i,
            hint="only virtual-id classes such as 'spirv.id' name a value type",
            text=token,
        )
    return RegType(match.group(1), count, payload)


def _function(p: Parser) -> Type:
    def side() -> tuple[Type, ...]:
        p.take("(")
        if p.accept(")"):
            return ()
        types = tuple(p.type_list())
        p.take(")")
        return types

    _nest(p)
    inputs = side()
    p.take("->")
    outputs = side()
    p.type_depth -= 1
    return FunctionType(inputs, outputs)


def _nest(p: Parser) -> None:
    """Go one level deeper into a type; hashing and comparing types recurse."""
    p.type_depth += 1
    if p.type_depth > MAX_NESTING:
        p.fail("PARSE/004", f"types nest deeper than {MAX_NESTING} levels", p.i, text=p.toks[p.i])


def _nested(p: Parser, head: str) -> Type:
    start = p.i
    p.i += 1
    if p.toks[p.i] != "<":
        p.fail("PARSE/004", f"'{head}' needs the type that it holds: '{head}<...>'", start, text=head)
    p.take("<")
    _nest(p)
    parts: list[Type] = []
    for k in range(NESTED_HEADS[head]):
        if k:
            p.take(",")
        parts.append(p.type())
    mutable = head == "read" and p.accept(",")
    if mutable:
        p.take("mutable")
    if p.toks[p.i] == "":
        p.fail("PARSE/026", f"'<' of '{head}' is never closed", start + 1)
    p.take(">")
    p.type_depth -= 1
    return NestedType(head, tuple(parts), mutable)


def _opaque(p: Parser) -> Type:
    parts = [p.toks[p.i]]
    p.i += 1
    if p.toks[p.i] == "<":
        depth = 0
        while True:
            token = p.toks[p.i]
            if token == "":
                p.fail("PARSE/026", "'<' is never closed", p.i)
            depth += (token == "<") - (token == ">")
            parts.append(token + " " if token == "," else token)
            p.i += 1
            if depth == 0:
                break
    return OpaqueType("".join(parts))
