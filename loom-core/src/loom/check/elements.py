"""Which element types the operations of checks take, and which literals suit a type."""

from __future__ import annotations

from loom.check.errors import CheckError
from loom.evaluate.numeric.formats import FORMATS, I1, Kind, ScalarFormat

I64_MIN = -(1 << 63)
I64_MAX = (1 << 63) - 1

GENERATED_ELEMENTS = frozenset(
    ("i8", "i16", "i32", "i64", "index", "offset", "f16", "bf16", "f32", "f64"),
)
"""Element types that value generators produce."""

LITERAL_ELEMENTS = frozenset(("i1", "i8", "i16", "i32", "i64", "index", "offset", "f32", "f64"))
"""Types of `check.literal`, and of parameters within their own narrower rules."""


def element_type(name: str) -> ScalarFormat:
    """The element type called `name`; raises `CheckError` for any other name."""
    try:
        return FORMATS[name]
    except KeyError:
        raise CheckError(f"unknown element type {name!r}") from None


def is_float(element: ScalarFormat) -> bool:
    """Whether values are floating-point numbers."""
    return element.kind is Kind.FLOAT


def is_integer(element: ScalarFormat) -> bool:
    """Whether values are integers of more than one bit, `index` and `offset` included."""
    return element.kind is not Kind.FLOAT and element is not I1


def require_element(element: ScalarFormat, supported: frozenset[str], subject: str) -> None:
    """Raise `CheckError` unless `element` is one of `supported`; `subject` starts the sentence."""
    if element.name not in supported:
        known = ", ".join(name for name in FORMATS if name in supported)
        raise CheckError(f"{subject} does not support element type {element.name}; it supports {known}")


def require_integer(element: ScalarFormat, value: object, subject: str) -> int:
    """`value` as an integer in the (signed) domain of `element`; raises `CheckError` naming `subject`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise CheckError(f"{subject} must be an integer for element type {element.name}, not {value!r}")
    if not element.minimum <= value <= element.maximum:
        raise CheckError(
            f"{subject} {value} is outside the range of {element.name} ({element.minimum} to {element.maximum})"
        )
    return value


def require_float(element: ScalarFormat, value: object, subject: str) -> float:
    """`value` as a float; raises `CheckError` naming `subject` when it is anything else."""
    if not isinstance(value, float):
        raise CheckError(f"{subject} must be a floating-point number for element type {element.name}, not {value!r}")
    return value


def require_value(element: ScalarFormat, value: object, subject: str) -> bool | int | float:
    """`value` as a literal of `element`: its kind must match and an integer must fit.

    `i1` takes `true`, `false`, 0 and 1. Floats are not range-checked: they round like any other
    literal, to infinity when they are too large. Raises `CheckError` naming `subject`.
    """
    if is_float(element):
        return require_float(element, value, subject)
    if is_integer(element):
        return require_integer(element, value, subject)
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise CheckError(f"{subject} must be true or false for element type {element.name}, not {value!r}")
