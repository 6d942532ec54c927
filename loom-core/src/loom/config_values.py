"""Configuration values given to a command: ``--config KEY=VALUE`` and ``--config-file PATH``.

A file holds one JSON object; comments (``//`` and ``/* */``) and a comma after the last member are allowed, as in
JSON with comments. Members of nested objects get dotted keys: ``{"net": {"depth": 4}}`` and ``net.depth=4`` say
the same (language reference, part 3, sections 8.4 and 8.5). No key may be given twice, wherever it comes from.

Values are read, not judged: whether one suits its ``config.decl`` is decided by who binds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from loom.ir.diagnostics import Diagnostic, LoomError, Related, SourceFile, Span, fail
from loom.ir.records import record
from loom.text.literals import is_float, is_integer, parse_float, parse_integer, parse_string

Scalar = bool | int | float | str

MAX_DEPTH: Final = 64
"""Deepest nesting of objects in a file."""

_KEY: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*(?:\.[A-Za-z0-9_$][A-Za-z0-9_$-]*)*\Z")
_BLANK: Final = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_TOKEN: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|-?[0-9][0-9A-Za-z.+-]*|[A-Za-z_]+|.', re.DOTALL)
_WORDS: Final[Mapping[str, bool]] = {"true": True, "false": False}


@record
class ConfigValue:
    """A value for a configuration key: a number, a truth value, or text such as ``#ggml.q8_0``; and where it stands."""

    value: Scalar
    location: Span


def read_config(options: Sequence[str] = (), files: Sequence[str | Path] = ()) -> dict[str, ConfigValue]:
    """The values of ``KEY=VALUE`` options and of files, by key, in the order given.

    Raises ``LoomError`` for malformed text and for a key that is given twice, ``OSError`` for an unreadable file.
    """
    found: dict[str, ConfigValue] = {}
    for option in options:
        _add(found, *_read_option(option))
    for path in files:
        for key, value in read_config_text(_file_text(Path(path)), str(path)).items():
            _add(found, key, value)
    return found


def read_config_text(text: str, name: str) -> dict[str, ConfigValue]:
    """The values of the contents of a configuration file called ``name``. Raises ``LoomError`` if it is malformed."""
    found: dict[str, ConfigValue] = {}
    for key, value in _Reader(SourceFile(name, text.removeprefix("\ufeff"))).members():
        _add(found, key, value)
    return found


def _file_text(path: Path) -> str:
    from loom.api import decode_source

    return decode_source(path.read_bytes(), str(path))


def _read_option(option: str) -> tuple[str, ConfigValue]:
    source = SourceFile("--config", option)
    key, equals, text = option.partition("=")
    if not equals:
        end = Span(source, len(option), len(option))
        raise fail(
            "PARSE/003", "expected '=' and a value", end, emitter="config", hint="write --config=key=value",
            actual_token="end of option", expected="'='",
        )  # fmt: skip
    name = key.removeprefix("@")
    _check_key(name, Span(source, 0, len(key)))
    at = len(key) + 1
    return name, ConfigValue(_scalar(text, Span(source, at, len(option))), Span(source, at, len(option)))


def _scalar(text: str, span: Span) -> Scalar:
    """The value that a text of an option stands for: a literal of the language, or else the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if is_integer(text):
        return _integer(text, span)
    if is_float(text):
        number = parse_float(text)
        assert number is not None
        return number
    if text[:1] == '"':
        return _string(text, span)
    if not text:
        raise fail(
            "PARSE/003", "expected a value", span, emitter="config", actual_token="end of option", expected="a value"
        )
    return text


def _integer(text: str, span: Span) -> int:
    number = parse_integer(text)
    if number is None:
        raise fail("PARSE/015", f"the integer {text} does not fit 64 bits", span, emitter="config", text=text)
    return number


def _string(token: str, span: Span) -> str:
    text = parse_string(token) if len(token) > 1 and token[-1] == '"' else None
    if text is None:
        raise fail("PARSE/023", "malformed string", span, emitter="config", detail=token)
    return text


def _check_key(name: str, span: Span) -> None:
    if _KEY.match(name) is None:
        raise fail(
            "PARSE/003", f"{name!r} is no configuration key", span, emitter="config",
            hint="a key is a symbol name such as net.depth", actual_token=name, expected="a key",
        )  # fmt: skip


def _add(found: dict[str, ConfigValue], key: str, value: ConfigValue) -> None:
    if (first := found.get(key)) is not None:
        related = (Related("the first value is here", first.location),)
        message = f"the configuration key '{key}' is given twice"
        raise LoomError(
            [Diagnostic("PARSE/020", message, value.location, {"key_name": key}, related=related, emitter="config")]
        )
    found[key] = value


class _Reader:
    """Reads one object; keeps places, so that faults and wrong values can be shown where they stand."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.at = 0
        self.token = ""
        self.span = Span(source, 0, 0)
        self.advance()

    def members(self) -> Iterator[tuple[str, ConfigValue]]:
        """The values of the whole text, with dotted keys."""
        yield from self._object("", 1)
        if self.token:
            self._expected("the end of the file")

    def advance(self) -> None:
        """Go to the next token; the empty one is the end."""
        blank = _BLANK.match(self.source.text, self.at)
        assert blank is not None
        start = blank.end()
        match = _TOKEN.match(self.source.text, start)
        self.token = match.group() if match is not None else ""
        self.at = start + len(self.token)
        self.span = Span(self.source, start, self.at)

    def _object(self, prefix: str, depth: int) -> Iterator[tuple[str, ConfigValue]]:
        if depth > MAX_DEPTH:
            raise fail(
                "PARSE/021", f"objects are nested deeper than {MAX_DEPTH}", self.span, emitter="config",
                max_depth=MAX_DEPTH,
            )  # fmt: skip
        self._take("{")
        while self.token != "}":
            key = prefix + self._key()
            self._take(":")
            if self.token == "{":
                yield from self._object(key + ".", depth + 1)
            else:
                yield key, self._value()
            if self.token != "}":
                self._take(",")
        self.advance()

    def _key(self) -> str:
        if self.token[:1] != '"':
            self._expected("a key in quotes")
        name = _string(self.token, self.span)
        _check_key(name, self.span)
        self.advance()
        return name

    def _value(self) -> ConfigValue:
        token, span = self.token, self.span
        value: Scalar
        if token[:1] == '"':
            value = _string(token, span)
        elif token in _WORDS:
            value = _WORDS[token]
        elif is_integer(token) and "x" not in token:
            value = _integer(token, span)
        elif token[:1].isdigit() or (token[:1] == "-" and len(token) > 1):
            number = parse_float(token) if "x" not in token else None
            if number is None:
                raise fail("PARSE/016", f"malformed number {token}", span, emitter="config", text=token)
            value = number
        else:
            self._expected("a number, true, false, a string or an object")
        self.advance()
        return ConfigValue(value, span)

    def _take(self, text: str) -> None:
        if self.token != text:
            self._expected(f"'{text}'")
        self.advance()

    def _expected(self, what: str) -> NoReturn:
        found = f"'{self.token}'" if self.token else "the end of the file"
        raise fail(
            "PARSE/003", f"expected {what}, found {found}", self.span, emitter="config",
            actual_token=self.token, expected=what,
        )  # fmt: skip
