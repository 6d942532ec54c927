"""Canonical text of literals and generic attribute values (language reference, part 1, sections 1.7, 2.2, 3.7)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from loom.ir.attributes import Dictionary, Encoding, Keyword, SymbolRef

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def string_text(text: str) -> str:
    """Quote ``text``; ``/`` and non-ASCII characters stay raw."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    parts = []
    for char in text:
        if char in _SHORT_ESCAPES:
            parts.append(_SHORT_ESCAPES[char])
        elif char < " ":
            parts.append(f"\\u{ord(char):04X}")
        else:
            parts.append(char)
    return '"' + "".join(parts) + '"'


def float_text(value: float) -> str:
    """C ``%.17g`` with ``.0`` appended when neither a point nor an exponent is present."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = f"{value:.17g}"
    return text if "." in text or "e" in text else text + ".0"


def value_text(value: object) -> str:
    """Canonical spelling of a generic attribute value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, Keyword):
        return str(value)
    if isinstance(value, SymbolRef):
        return "@" + value
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, bytes):
        return f'bytes("{value.hex()}")'
    if isinstance(value, Dictionary):
        return dictionary_text(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(value_text(v) for v in value) + "]"
    if isinstance(value, Encoding):
        return str(value)
    return str(value)


def dictionary_text(entries: Mapping[str, object]) -> str:
    """``{a = 1, b = 2}`` with sorted keys."""
    return "{" + ", ".join(f"{key} = {value_text(entries[key])}" for key in sorted(entries)) + "}"
