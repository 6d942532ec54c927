"""What an expectation decides: the rule applied, pass or fail, and how the values differ.

Free of NumPy, so that reports can be read and written without it.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen


class ExpectationKind(Enum):
    """The rule an expectation applies; the value is the report's spelling."""

    EQUAL = "equal"
    BITWISE = "bitwise"
    CLOSE = "close"
    SHAPE = "shape"
    CUSTOM = "custom"


class NanPolicy(Enum):
    """Whether `expect.close` accepts two NaNs in the same place."""

    SAME = "same"
    DIFFERENT = "different"


@frozen
class Difference:
    """One element that differs, with both values as text that reads back as the same value."""

    index: tuple[int, ...]
    actual: str
    expected: str


@frozen
class Mismatch:
    """How two tensors of one shape differ.

    `index` is the first differing element in row-major order, `further` are the next ones. The largest errors are
    over all elements, absent where no number expresses them (booleans, NaN, a relative error to zero). They are
    text because JSON has no infinity and loses integers above 2^53.
    """

    element_count: int
    mismatch_count: int
    index: tuple[int, ...]
    actual: str
    expected: str
    largest_absolute_error: str | None = None
    largest_relative_error: str | None = None
    further: tuple[Difference, ...] = ()


@frozen
class Verdict:
    """The outcome of one expectation; `detail` is empty when it passed."""

    kind: ExpectationKind
    passed: bool
    detail: str = ""
    mismatch: Mismatch | None = None
