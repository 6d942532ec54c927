"""Reading and printing attribute values, one reader and one printer per attribute kind.

Language reference, part 1, sections 2.2 to 2.5 and 2.12.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn

from loom.dialects.encoding.families import CONDITION_FAMILIES, ENCODING_FAMILIES
from loom.ir.attribute_text import dictionary_text, float_text, string_text, value_text
from loom.ir.attributes import (
    MAX_NESTING,
    PREDICATES,
    Dictionary,
    Encoding,
    Keyword,
    Predicate,
    Ref,
    SymbolRef,
    nests_deeper,
)
from loom.ir.diagnostics import did_you_mean
from loom.ir.types import SHAPED_KINDS
from loom.spec.kinds import AttributeKind, EnumKind, FlagsKind
from loom.text.lexer import is_word
from loom.text.literals import is_float, is_integer, parse_float, parse_integer, parse_string

if TYPE_CHECKING:
    from loom.text.parser import Parser

MAX_ARRAY: Final = 65_535


# -- literals ----------------------------------------------------------------------------------------------


def integer(p: Parser) -> int:
    """Read an integer literal."""
    token = p.toks[p.i]
    value = parse_integer(token)
    if value is None:
        if is_integer(token):
            p.fail("PARSE/015", f"integer '{token}' does not fit signed 64 bits", p.i, text=token)
        p.expected(p.i, "an integer")
    p.i += 1
    return value


def number(p: Parser) -> float:
    """Read a float literal; an integer is no float."""
    token = p.toks[p.i]
    value = parse_float(token)
    if value is None:
        if is_integer(token):
            p.fail(
                "PARSE/016",
                f"'{token}' is an integer; a float needs a point or an exponent",
                p.i,
                text=token,
                hint=f"write '{token}.0'",
            )
        p.expected(p.i, "a float")
    p.i += 1
    return value


def string(p: Parser) -> str:
    """Read a quoted string."""
    token = p.toks[p.i]
    if len(token) < 2 or token[0] != '"':
        p.expected(p.i, "a string")
    value = parse_string(token)
    if value is None:
        p.fail("PARSE/023", "malformed escape or control character in a string", p.i, detail=token)
    p.i += 1
    return value


def boolean(p: Parser) -> bool:
    """Read ``true`` or ``false``."""
    token = p.toks[p.i]
    if token not in ("true", "false"):
        p.expected(p.i, "'true' or 'false'")
    p.i += 1
    return token == "true"


def literal(p: Parser) -> object:
    """Read an integer, float or boolean."""
    token = p.toks[p.i]
    if token in ("true", "false"):
        return boolean(p)
    if is_float(token):
        return number(p)
    if not is_integer(token):
        p.expected(p.i, "a number, 'true' or 'false'")
    return integer(p)


def array(p: Parser, item: Callable[[Parser], Any]) -> tuple[Any, ...]:
    """Read ``[a, b]``."""
    start = p.i
    p.take("[")
    found: list[Any] = []
    if not p.accept("]"):
        while True:
            found.append(item(p))
            if p.accept("]"):
                break
            p.take(",")
    if len(found) > MAX_ARRAY:
        p.fail(
            "PARSE/003",
            f"array of {len(found)} elements is above the limit of {MAX_ARRAY}",
            start,
            actual_token=str(len(found)),
            expected=f"at most {MAX_ARRAY} elements",
        )
    return tuple(found)


# -- generic values ----------------------------------------------------------------------------------------


def _nest(p: Parser) -> None:
    """Go one level deeper into an aggregate."""
    p.attribute_depth += 1
    if p.attribute_depth > MAX_NESTING:
        _too_deep(p)


def _too_deep(p: Parser) -> NoReturn:
    p.fail("PARSE/021", f"attributes nest deeper than {MAX_NESTING} levels", p.i, max_depth=MAX_NESTING)


def generic(p: Parser) -> object:
    """Read a value in generic position; its kind shows in its first token."""
    token = p.toks[p.i]
    head = token[:1]
    if head == '"':
        return string(p)
    if head == "@":
        return SymbolRef(p.symbol())
    if head == "#":
        return encoding(p)
    if head == "[":
        _nest(p)
        found = array(p, generic)
        p.attribute_depth -= 1
        return found
    if head == "{":
        return dictionary(p)
    if token in ("true", "false") or is_float(token) or is_integer(token):
        return literal(p)
    if token == "bytes" and p.toks[p.i + 1] == "(":
        return byte_string(p)
    if head == "(" or "<" in token or token in p.types or p.toks[p.i + 1] == "<" or token in SHAPED_KINDS:
        return p.type()
    if is_word(token):
        p.i += 1
        return Keyword(token)
    p.expected(p.i, "an attribute value")


def dictionary(p: Parser) -> Dictionary:
    """Read ``{k = v, ...}``; a trailing comma is tolerated."""
    _nest(p)
    p.take("{")
    found = Dictionary()
    while not p.accept("}"):
        at = p.i
        key = p.identifier("a key")
        if key in found:
            p.fail("PARSE/020", f"key '{key}' is given twice", at, key_name=key)
        p.take("=")
        found[key] = generic(p)
        if not p.accept(","):
            p.take("}")
            break
    p.attribute_depth -= 1
    return found


def byte_string(p: Parser) -> bytes:
    """Read ``bytes("00ff")``."""
    p.take("bytes")
    p.take("(")
    text = string(p)
    try:
        value = bytes.fromhex(text)
    except ValueError:
        p.fail(
            "PARSE/003",
            "bytes need an even number of hexadecimal digits",
            p.i - 1,
            actual_token=text,
            expected="hexadecimal digits",
        )
    p.take(")")
    return value


# -- encodings ---------------------------------------------------------------------------------------------


def encoding(p: Parser) -> Encoding:
    """Read ``#family<...>`` or a file alias."""
    start = p.i
    token = p.toks[start]
    if token[:1] != "#" or len(token) == 1:
        p.expected(start, "an attribute such as '#encoding.layout.dense'")
    name = token[1:]
    p.i += 1
    if name in p.aliases and p.toks[p.i] != "<":
        if nests_deeper(p.aliases[name], MAX_NESTING - p.attribute_depth):
            p.i = start
            _too_deep(p)
        return p.aliases[name]
    _nest(p)
    tight = name in ENCODING_FAMILIES
    primary: list[object] = []
    params: dict[str, object] = {}
    if p.accept("<"):
        while True:
            _encoding_item(p, primary, params)
            if p.accept(">"):
                break
            if p.toks[p.i] == "":
                p.fail("PARSE/026", "'<' is never closed", start + 1)
            p.take(",")
    p.attribute_depth -= 1
    if not tight and name not in CONDITION_FAMILIES and not name.startswith("func.location."):
        from loom.text.older.spellings import REMOVED

        p.fail(
            "PARSE/008",
            f"unknown encoding family '#{name}'",
            start,
            encoding_name=name,
            hint=REMOVED.get(token) or did_you_mean(name, [*ENCODING_FAMILIES, *CONDITION_FAMILIES, *p.aliases]),
        )
    return Encoding(name, tuple(primary), tuple(sorted(params.items())), tight)


def _encoding_item(p: Parser, primary: list[object], params: dict[str, object]) -> None:
    token = p.toks[p.i]
    if p.toks[p.i + 1] == "=":
        if not is_word(token):
            p.expected(p.i, "the name of a parameter")
        if token in params:
            p.fail("PARSE/029", f"parameter '{token}' is given twice", p.i, param_name=token)
        p.i += 2
        if p.toks[p.i][:1] == "%":
            p.fail(
                "PARSE/028",
                f"parameter '{token}' of a static encoding cannot be a value",
                p.i,
                param_name=token,
                hint="give run-time data in the operand dictionary of 'encoding.define'",
            )
        params[token] = generic(p)
    else:
        primary.append(generic(p))


def parse_encoding_text(p: Parser, text: str) -> Encoding:
    """Read an encoding that stands inside a type token; errors point at the type."""
    from loom.text.lexer import Tokens

    toks, at = p.toks, p.i
    p.toks = Tokens(text).texts
    p.i = 0
    try:
        return encoding(p)
    finally:
        p.toks, p.i = toks, at


def parse_alias(p: Parser) -> None:
    """Read ``#name = #family<...>`` at the top of a file."""
    start = p.i
    name = p.toks[start][1:]
    p.i += 1
    p.take("=")
    target = encoding(p)
    if name in ENCODING_FAMILIES or name in CONDITION_FAMILIES or name in p.aliases:
        p.fail("PARSE/014", f"alias '#{name}' reuses a name", start, detail=name)
    p.aliases[name] = target


# -- predicates --------------------------------------------------------------------------------------------


def predicate_list(p: Parser, reference: Callable[[Parser], Ref]) -> tuple[Predicate, ...]:
    """Read ``[name(arg, ...), ...]``; ``reference`` consumes a value and gives its position."""

    def one(q: Parser) -> Predicate:
        start = q.i
        name = q.identifier("a predicate")
        if name not in PREDICATES:
            q.fail(
                "PARSE/013",
                f"unknown predicate '{name}'",
                start,
                hint=did_you_mean(name, PREDICATES),
                predicate_name=name,
            )
        arity = PREDICATES[name][0]
        q.take("(")
        args: list[int | Ref] = []
        while True:
            token = q.toks[q.i]
            if token[:1] == "%":
                args.append(reference(q))
            elif is_float(token):
                q.fail(
                    "PARSE/003",
                    "a predicate argument is a value or an integer",
                    q.i,
                    actual_token=token,
                    expected="a value or an integer",
                )
            else:
                args.append(integer(q))
            if q.accept(")"):
                break
            q.take(",")
        if len(args) != arity:
            q.fail(
                "PARSE/031",
                f"predicate '{name}' takes {arity} arguments, not {len(args)}",
                start,
                predicate_name=name,
                expected_count=arity,
                actual_count=len(args),
            )
        return Predicate(name, tuple(args))

    return array(p, one)


def predicates_text(predicates: tuple[Predicate, ...], namer: Callable[[int], str]) -> str:
    """Canonical spelling; ``namer`` gives the text of a referenced position."""
    items = []
    for predicate in predicates:
        args = ", ".join(namer(a.index) if isinstance(a, Ref) else str(a) for a in predicate.args)
        items.append(f"{predicate.name}({args})")
    return f"[{', '.join(items)}]"


# -- kinds -------------------------------------------------------------------------------------------------


def enum_word(p: Parser, kind: EnumKind) -> object:
    """Read one word of an enum; ``<N>`` gives the raw byte of an open one."""
    token = p.toks[p.i]
    if token in kind.words:
        p.i += 1
        return token
    if token == "<" and kind.open:
        p.i += 1
        value = integer(p)
        if not 0 <= value <= 255:
            p.fail("PARSE/017", f"raw value {value} is no byte", p.i - 1, enum_name=kind.label, value=str(value))
        p.take(">")
        return value
    if not (is_word(token) or token[:1].isdigit()):
        p.expected(p.i, f"a {kind.label}")
    p.fail(
        "PARSE/017",
        f"unknown {kind.label} '{token}'",
        p.i,
        enum_name=kind.label,
        value=token,
        hint=did_you_mean(token, kind.words) or f"one of: {', '.join(kind.words)}",
    )


def flag_words(p: Parser, kind: FlagsKind) -> tuple[str, ...]:
    """Read ``a|b`` into words in bit order."""
    found: set[str] = set()
    while True:
        token = p.toks[p.i]
        if token != kind.all_word and token not in kind.words:
            if not is_word(token):
                p.expected(p.i, f"a {kind.label}")
            p.fail(
                "PARSE/018",
                f"unknown {kind.label} '{token}'",
                p.i,
                context=kind.label,
                value=token,
                hint=did_you_mean(token, kind.words) or f"one of: {', '.join(kind.words)}",
            )
        found.add(token)
        p.i += 1
        if not p.accept("|"):
            break
    if kind.all_word in found:
        assert kind.all_word is not None
        return (kind.all_word,)
    return tuple(word for word in kind.words if word in found)


def _sorted_symbols(p: Parser) -> tuple[str, ...]:
    return array(p, lambda q: q.symbol())


def _conditions(p: Parser) -> tuple[Encoding, ...]:
    return array(p, encoding)


READERS: Final[dict[str, Callable[[Parser, Any], object]]] = {
    "int": lambda p, k: integer(p),
    "float": lambda p, k: number(p),
    "bool": lambda p, k: boolean(p),
    "string": lambda p, k: string(p),
    "symbol": lambda p, k: p.symbol(),
    "symbol_name": lambda p, k: p.symbol(),
    "type": lambda p, k: p.type(),
    "key": lambda p, k: p.identifier("a key"),
    "int_array": lambda p, k: array(p, integer),
    "symbol_array": lambda p, k: _sorted_symbols(p),
    "dict": lambda p, k: dictionary(p),
    "encoding": lambda p, k: encoding(p),
    "conditions": lambda p, k: _conditions(p),
    "literal": lambda p, k: literal(p),
    "literal_array": lambda p, k: array(p, literal),
    "any": lambda p, k: generic(p),
    "bytes": lambda p, k: byte_string(p),
    "enum": enum_word,
    "flags": flag_words,
}


def _words(value: Any) -> str:
    return f"<{value}>" if isinstance(value, int) else str(value)


# Kind -> text of a value. Kinds that mention values of the program print through directives.
PRINTERS: Final[dict[str, Callable[[Any], str]]] = {
    "int": str,
    "float": float_text,
    "bool": value_text,
    "string": string_text,
    "symbol": lambda v: "@" + v,
    "symbol_name": lambda v: "@" + v,
    "type": lambda v: v.text,
    "key": str,
    "int_array": value_text,
    "symbol_array": lambda v: "[" + ", ".join("@" + s for s in v) + "]",
    "dict": dictionary_text,
    "encoding": str,
    "conditions": lambda v: "[" + ", ".join(map(str, v)) + "]",
    "literal": value_text,
    "literal_array": value_text,
    "any": value_text,
    "bytes": value_text,
    "enum": _words,
    "flags": "|".join,
}


def read(p: Parser, kind: AttributeKind) -> object:
    """Read a value of a kind."""
    return READERS[kind.name](p, kind)


def starts(p: Parser, kind: AttributeKind) -> bool:
    """Whether the next token can begin an optional value of a kind."""
    token = p.toks[p.i]
    if isinstance(kind, EnumKind | FlagsKind):
        return token in kind.words or token == getattr(kind, "all_word", "")
    if kind.name in ("symbol", "symbol_name"):
        return token[:1] == "@"
    if kind.name == "string":
        return token[:1] == '"'
    if kind.name == "dict":
        return token == "{"
    if kind.name in ("encoding",):
        return token[:1] == "#"
    if kind.name.endswith("array") or kind.name in ("predicates", "conditions"):
        return token == "["
    return is_integer(token) or is_float(token) or is_word(token)
