"""Reading integer, float and string literals (language reference, part 1, sections 1.5 to 1.7)."""

from __future__ import annotations

import json
import re
from typing import Final

_INTEGER: Final = re.compile(r"-?(?:0x[0-9a-fA-F]+|[0-9]+)\Z")
_FLOAT: Final = re.compile(
    r"-?(?:[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|0x[0-9a-fA-F]+(?:\.[0-9a-fA-F]+)?p[+-]?[0-9]+)\Z"
)
_SPECIAL: Final = {"nan": float("nan"), "-nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
_ESCAPES: Final = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

# Characters of the longest integer in range without leading zeros.
_LONGEST: Final = 20

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1


def is_integer(token: str) -> bool:
    """Whether a token is an integer literal."""
    return _INTEGER.match(token) is not None


def is_float(token: str) -> bool:
    """Whether a token is a float literal, special words included."""
    return token in _SPECIAL or _FLOAT.match(token) is not None


def integer_value(token: str) -> int | None:
    """The value of an integer literal of any type, or ``None`` if no type is as wide."""
    if not is_integer(token):
        return None
    if len(token) > _LONGEST:
        # Python refuses to convert thousands of digits, and it would take long.
        sign, digits = ("-", token[1:]) if token[0] == "-" else ("", token)
        prefix, digits = ("0x", digits[2:]) if digits.startswith("0x") else ("", digits)
        token = sign + prefix + (digits.lstrip("0") or "0")
        if len(token) > _LONGEST:
            return None
    return int(token, 16) if "0x" in token else int(token)


def parse_integer(token: str) -> int | None:
    """The value of an integer literal in the signed 64-bit range, or ``None``."""
    value = integer_value(token)
    return value if value is not None and INT64_MIN <= value <= INT64_MAX else None


def parse_float(token: str) -> float | None:
    """The value of a float literal in double precision, or ``None``. Too large a hexadecimal one is infinite."""
    if token in _SPECIAL:
        return _SPECIAL[token]
    if _FLOAT.match(token) is None:
        return None
    if "0x" in token:
        try:
            return float.fromhex(token)
        except OverflowError:
            return float("-inf") if token[0] == "-" else float("inf")
    return float(token)


def parse_string(token: str) -> str | None:
    """The text of a quoted string, or ``None`` when an escape is malformed."""
    body = token[1:-1]
    if "\\" not in body:
        return body if all(c >= " " for c in body) else None
    if "\\" in _ESCAPES.sub("", body):
        return None
    try:
        text = json.loads(token)
    except ValueError:
        return None
    return None if not isinstance(text, str) or _SURROGATE.search(text) else text
