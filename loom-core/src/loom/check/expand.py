"""Parameters of a case, and the samples that their values span.

A parameter owns an ordered list of values, known by formula and never stored: a seed parameter may
count to a billion. A case's samples are the cartesian product in which the first declared parameter
varies fastest; a sample's ordinal therefore identifies its values, whatever subset is run.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import NoReturn

from attrs import frozen

from loom.check.elements import (
    LITERAL_ELEMENTS,
    is_float,
    is_integer,
    require_element,
    require_float,
    require_integer,
)
from loom.check.errors import CheckError, PlanningError, PlanningIssueKind
from loom.check.options import DEFAULT_SAMPLE_CAP
from loom.evaluate.numeric.formats import ScalarFormat

Value = int | float


class RangePolicy(Enum):
    """How a range parameter walks from its lower to its upper bound."""

    LINEAR = "linear"
    PO2 = "po2"


@frozen
class Parameter(ABC):
    """One declared parameter: `count` values of `element`, reported and pinned under `key`."""

    key: str
    element: ScalarFormat
    count: int

    @abstractmethod
    def value(self, ordinal: int) -> Value:
        """The value at an ordinal from 0 to `count - 1`; floats are `f64`, not yet rounded to `element`."""

    @abstractmethod
    def ordinal_of(self, value: object) -> int | None:
        """The ordinal whose value is `value`, or None when the parameter never takes it."""


@frozen
class LinearParameter(Parameter):
    """`low + ordinal * step`."""

    low: Value
    step: Value

    def value(self, ordinal: int) -> Value:
        return self.low + ordinal * self.step

    def ordinal_of(self, value: object) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if is_float(self.element):
            return self._nearest_ordinal(float(value))
        if not isinstance(value, int):
            return None
        ordinal, rest = divmod(value - int(self.low), int(self.step))
        return ordinal if rest == 0 and 0 <= ordinal < self.count else None

    def _nearest_ordinal(self, value: float) -> int | None:
        """Decimal steps such as 0.1 are not exact in binary, so a pinned float matches within a tolerance."""
        position = (value - self.low) / self.step
        if not math.isfinite(position):
            return None
        ordinal = round(position)
        if not 0 <= ordinal < self.count or abs(position - ordinal) > 1e-9:
            return None
        close = abs(value - self.value(ordinal)) <= abs(self.step) * 1e-9 + 1e-12
        return ordinal if close else None


@frozen
class PowerOfTwoParameter(Parameter):
    """Powers of two from `first` upwards."""

    first: int

    def value(self, ordinal: int) -> Value:
        return self.first << ordinal

    def ordinal_of(self, value: object) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int) or value < self.first:
            return None
        ordinal = value.bit_length() - self.first.bit_length()
        return ordinal if ordinal < self.count and self.first << ordinal == value else None


@frozen
class ChoiceParameter(Parameter):
    """The listed values in their order."""

    values: tuple[int, ...]

    def value(self, ordinal: int) -> Value:
        return self.values[ordinal]

    def ordinal_of(self, value: object) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        return self.values.index(value) if value in self.values else None


def range_parameter(
    key: str, element: ScalarFormat, policy: RangePolicy, low: object, high: object, step: object = None
) -> Parameter:
    """The parameter of `check.param.range`, both bounds inclusive.

    Linear integers step by 1 unless told otherwise, linear floats need a step, powers of two are
    integers without one. Raises `PlanningError` (invalid parameter) for anything else.
    """
    if policy is RangePolicy.PO2:
        if step is not None:
            _invalid(key, "a power-of-two range takes no step", fix_hint="remove step(…)")
        return _power_of_two(key, element, low, high)
    if is_float(element):
        return _linear_float(key, element, low, high, step)
    first, last = _integer_bounds(key, element, low, high)
    stride = 1 if step is None else step
    if isinstance(stride, bool) or not isinstance(stride, int) or stride < 1:
        _invalid(key, f"the step of an integer range must be a positive integer, not {stride!r}")
    return LinearParameter(key, element, (last - first) // stride + 1, low=first, step=stride)


def choice_parameter(key: str, element: ScalarFormat, values: Sequence[object]) -> Parameter:
    """The parameter of `check.param.choice`; raises `PlanningError` (invalid parameter).

    The values are integers of the element type; there is at least one and none twice.
    """
    if not values:
        _invalid(key, "a choice needs at least one value")
    chosen = tuple(_integer(key, element, value, "choice") for value in values)
    seen: set[int] = set()
    for value in chosen:
        if value in seen:
            _invalid(key, f"the choice lists {value} twice")
        seen.add(value)
    return ChoiceParameter(key, element, len(chosen), values=chosen)


def seed_parameter(key: str, element: ScalarFormat, base: object, count: object) -> Parameter:
    """The parameter of `check.param.seed`: `base`, `base + 1`, and so on, `count` values.

    Raises `PlanningError` (invalid parameter) unless all of them fit the integer element type.
    """
    if element.name == "index":
        _invalid(key, "a seed has an integer type such as i64, not index")
    first = _integer(key, element, base, "seed base")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        _invalid(key, f"a seed needs a count of at least 1, not {count!r}")
    _integer(key, element, first + count - 1, "last seed")
    return LinearParameter(key, element, count, low=first, step=1)


@frozen
class Assignment:
    """The value a sample gives to one parameter."""

    parameter: Parameter
    ordinal: int

    @property
    def key(self) -> str:
        """The parameter's key."""
        return self.parameter.key

    @property
    def value(self) -> Value:
        """The parameter's value at `ordinal`."""
        return self.parameter.value(self.ordinal)


@frozen
class Sample:
    """One point of the product: its ordinal in the whole product, and a value per parameter."""

    ordinal: int
    assignments: tuple[Assignment, ...]


@frozen
class Expansion:
    """The samples of a case, or those of them that a benchmark selects.

    `pinned` gives the selected value ordinal of each pinned parameter, by position. `full_count` is
    the size of the selected product before the cap.
    """

    parameters: tuple[Parameter, ...]
    pinned: Mapping[int, int]
    cap: int

    @property
    def full_count(self) -> int:
        """Samples that the selected product has, whether or not the cap leaves them out."""
        return math.prod(
            parameter.count for position, parameter in enumerate(self.parameters) if position not in self.pinned
        )

    @property
    def count(self) -> int:
        """Samples that iteration delivers."""
        return min(self.full_count, self.cap)

    @property
    def is_truncated(self) -> bool:
        """Whether the cap leaves samples out."""
        return self.count < self.full_count

    def sample(self, selected: int) -> Sample:
        """The sample at a position of the selection, 0 to `full_count - 1`.

        Raises `IndexError` outside of it. The cap does not apply: one sample can always be asked for.
        """
        if not 0 <= selected < self.full_count:
            raise IndexError(f"sample {selected} of {self.full_count}")
        rest, ordinal, weight = selected, 0, 1
        assignments = []
        for position, parameter in enumerate(self.parameters):
            chosen = self.pinned.get(position)
            if chosen is None:
                rest, chosen = divmod(rest, parameter.count)
            ordinal += chosen * weight
            weight *= parameter.count
            assignments.append(Assignment(parameter, chosen))
        return Sample(ordinal, tuple(assignments))

    def __iter__(self) -> Iterator[Sample]:
        return (self.sample(selected) for selected in range(self.count))


def expand(parameters: Sequence[Parameter], cap: int = DEFAULT_SAMPLE_CAP) -> Expansion:
    """All samples of a case with these parameters, in declaration order; at most `cap` are iterated.

    A case without parameters has one sample. Raises `PlanningError` (duplicate parameter name) when two
    parameters share a key, `CheckError` for a cap below 1.
    """
    if cap < 1:
        raise CheckError(f"the sample cap {cap} must be at least 1")
    keys: set[str] = set()
    for parameter in parameters:
        if parameter.key in keys:
            raise PlanningError(
                PlanningIssueKind.DUPLICATE_PARAMETER_NAME,
                f"two parameters have the key {parameter.key!r}",
                subject=parameter.key,
                fix_hint='give one of them another name("…")',
            )
        keys.add(parameter.key)
    return Expansion(tuple(parameters), {}, cap)


def pin(expansion: Expansion, assignments: Sequence[tuple[str, object]]) -> Expansion:
    """The samples that a benchmark's attribute dictionary selects; other parameters keep all values.

    Raises `PlanningError` (invalid benchmark assignment) for a key that is no parameter or given twice,
    and for a value that the parameter never takes.
    """
    positions = {parameter.key: position for position, parameter in enumerate(expansion.parameters)}
    pinned: dict[int, int] = {}
    for key, value in assignments:
        position = positions.get(key)
        if position is None:
            known = ", ".join(positions) or "none"
            _invalid_assignment(key, f"{key!r} is not a parameter of the case (its parameters: {known})")
        if position in pinned:
            _invalid_assignment(key, f"{key!r} is assigned twice")
        ordinal = expansion.parameters[position].ordinal_of(value)
        if ordinal is None:
            _invalid_assignment(key, f"{value!r} is not one of the values of {key!r}")
        pinned[position] = ordinal
    return Expansion(expansion.parameters, pinned, expansion.cap)


def benchmark_name(case: str, symbol: str | None) -> str:
    """A benchmark's name: its symbol, or for an anonymous one the case's without a trailing `_case`."""
    return symbol if symbol is not None else case.removesuffix("_case")


def _power_of_two(key: str, element: ScalarFormat, low: object, high: object) -> Parameter:
    first, last = _integer_bounds(key, element, low, high)
    if first < 1:
        _invalid(key, f"a power-of-two range starts above 0, not at {first}")
    smallest = 1 << (first - 1).bit_length()
    if smallest > last:
        _invalid(key, f"there is no power of two from {first} to {last}")
    return PowerOfTwoParameter(key, element, last.bit_length() - smallest.bit_length() + 1, first=smallest)


def _linear_float(key: str, element: ScalarFormat, low: object, high: object, step: object) -> Parameter:
    try:
        require_element(element, LITERAL_ELEMENTS, f"parameter {key!r}")
        first = require_float(element, low, "lower bound")
        last = require_float(element, high, "upper bound")
        if step is None:
            raise CheckError("a floating-point range needs a step")
        stride = require_float(element, step, "step")
    except CheckError as error:
        _invalid(key, str(error))
    if not all(map(math.isfinite, (first, last, stride))):
        _invalid(key, "the bounds and the step of a range must be finite")
    if stride <= 0:
        _invalid(key, f"the step {stride} of a range must be positive")
    if first > last:
        _invalid(key, f"the lower bound {first} exceeds the upper bound {last}")
    steps = (last - first) / stride
    if not math.isfinite(steps):
        _invalid(key, f"the range {first} to {last} has too many steps of {stride}")
    return LinearParameter(key, element, math.floor(steps) + 1, low=first, step=stride)


def _integer_bounds(key: str, element: ScalarFormat, low: object, high: object) -> tuple[int, int]:
    first = _integer(key, element, low, "lower bound")
    last = _integer(key, element, high, "upper bound")
    if first > last:
        _invalid(key, f"the lower bound {first} exceeds the upper bound {last}")
    return first, last


def _integer(key: str, element: ScalarFormat, value: object, subject: str) -> int:
    if not is_integer(element):
        _invalid(key, f"an integer or index type is needed, not {element.name}")
    try:
        return require_integer(element, value, subject)
    except CheckError as error:
        _invalid(key, str(error))


def _invalid(key: str, reason: str, *, fix_hint: str | None = None) -> NoReturn:
    raise PlanningError(
        PlanningIssueKind.INVALID_PARAMETER, f"parameter {key!r}: {reason}", subject=key, fix_hint=fix_hint
    )


def _invalid_assignment(key: str, reason: str) -> NoReturn:
    raise PlanningError(PlanningIssueKind.INVALID_BENCHMARK_ASSIGNMENT, reason, subject=key)
