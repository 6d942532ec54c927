"""Parameter expansion, the sample order, the cap, and benchmark pins."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom.check.errors import CheckError, PlanningError, PlanningIssueKind
from loom.check.expand import (
    Parameter,
    RangePolicy,
    benchmark_name,
    choice_parameter,
    expand,
    pin,
    range_parameter,
    seed_parameter,
)
from loom.evaluate.numeric.formats import BF16, F32, F64, I1, I8, I32, I64, INDEX, OFFSET

LINEAR, PO2 = RangePolicy.LINEAR, RangePolicy.PO2


def values(parameter: Parameter) -> list[int | float]:
    return [parameter.value(ordinal) for ordinal in range(parameter.count)]


@given(low=st.integers(-100, 100), length=st.integers(0, 60), step=st.integers(1, 70))
def test_linear_integers(low: int, length: int, step: int) -> None:
    """`lo + i * step` for as long as the upper bound, inclusive, is not passed."""
    parameter = range_parameter("n", I32, LINEAR, low, low + length, step)
    assert values(parameter) == list(range(low, low + length + 1, step))


def test_linear_integer_step_defaults_to_one() -> None:
    """Also for `index`, down to a single value."""
    assert values(range_parameter("n", INDEX, LINEAR, 3, 6)) == [3, 4, 5, 6]
    assert values(range_parameter("n", INDEX, LINEAR, 3, 3)) == [3]


def test_linear_floats() -> None:
    """`floor((hi - lo) / step) + 1` values; binary fractions may fall short of the upper bound."""
    assert values(range_parameter("x", F32, LINEAR, -1.0, 1.0, 0.5)) == [-1.0, -0.5, 0.0, 0.5, 1.0]
    tenths = range_parameter("x", F64, LINEAR, 0.0, 0.3, 0.1)
    assert tenths.count == math.floor(0.3 / 0.1) + 1
    assert values(tenths) == [0.0 + i * 0.1 for i in range(tenths.count)]


@given(low=st.integers(1, 2000), high=st.integers(1, 2**40))
def test_powers_of_two(low: int, high: int) -> None:
    """From the smallest power of two that is not below `lo`, doubling while not above `hi`."""
    wanted = [1 << e for e in range(45) if low <= 1 << e <= high]
    if wanted:
        assert values(range_parameter("n", I64, PO2, low, high)) == wanted
    else:
        with pytest.raises(PlanningError):
            range_parameter("n", I64, PO2, low, high)


def test_choice_and_seed() -> None:
    """List order, and consecutive numbers."""
    assert values(choice_parameter("n", INDEX, [130, 1, 64])) == [130, 1, 64]
    assert values(seed_parameter("s", I64, 77, 3)) == [77, 78, 79]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: range_parameter("n", I32, LINEAR, 3, 2), "lower bound 3 exceeds the upper bound 2"),
        (lambda: range_parameter("n", I32, LINEAR, 0, 2, 0), "must be a positive integer, not 0"),
        (lambda: range_parameter("n", I32, LINEAR, 0, 2, 0.5), r"must be a positive integer, not 0\.5"),
        (lambda: range_parameter("n", I8, LINEAR, 0, 128), "upper bound 128 is outside the range of i8"),
        (lambda: range_parameter("n", OFFSET, LINEAR, -1, 2), "-1 is outside the range of offset"),
        (lambda: range_parameter("n", I1, LINEAR, 0, 1), "an integer or index type is needed, not i1"),
        (lambda: range_parameter("n", I32, LINEAR, 0.0, 1.0, 0.5), "must be an integer"),
        (lambda: range_parameter("x", F32, LINEAR, 0.0, 1.0), "a floating-point range needs a step"),
        (lambda: range_parameter("x", F32, LINEAR, 0.0, 1.0, -0.5), r"step -0\.5 .* must be positive"),
        (lambda: range_parameter("x", F32, LINEAR, 0.0, math.inf, 0.5), "must be finite"),
        (lambda: range_parameter("x", F64, LINEAR, 0.0, 1e308, 1e-300), "too many steps"),
        (lambda: range_parameter("x", F32, LINEAR, 1.0, 0.0, 0.5), r"lower bound 1\.0 exceeds"),
        (lambda: range_parameter("x", BF16, LINEAR, 0.0, 1.0, 0.5), "does not support element type bf16"),
        (lambda: range_parameter("n", F32, PO2, 1.0, 2.0), "an integer or index type is needed, not f32"),
        (lambda: range_parameter("n", I32, PO2, 0, 8), "starts above 0, not at 0"),
        (lambda: range_parameter("n", I32, PO2, 5, 7), "no power of two from 5 to 7"),
        (lambda: range_parameter("n", I32, PO2, 1, 8, 2), "takes no step"),
        (lambda: choice_parameter("n", INDEX, []), "at least one value"),
        (lambda: choice_parameter("n", INDEX, [1, 2, 1]), "lists 1 twice"),
        (lambda: choice_parameter("n", I1, [0, 1]), "not i1"),
        (lambda: choice_parameter("n", I32, [1.0]), "must be an integer"),
        (lambda: seed_parameter("s", I64, 0, 0), "count of at least 1"),
        (lambda: seed_parameter("s", I8, 120, 9), "last seed 128 is outside the range of i8"),
        (lambda: seed_parameter("s", INDEX, 0, 1), "not index"),
        (lambda: seed_parameter("s", F32, 0, 1), "not f32"),
    ],
)
def test_invalid_parameters(make: Callable[[], Parameter], message: str) -> None:
    """Each becomes an issue about this parameter."""
    with pytest.raises(PlanningError, match=message) as caught:
        make()
    assert caught.value.kind is PlanningIssueKind.INVALID_PARAMETER
    assert caught.value.subject in ("n", "x", "s")


@given(st.lists(st.integers(1, 4), max_size=4))
def test_first_parameter_varies_fastest(counts: list[int]) -> None:
    """Sample s picks value `(s / product of earlier counts) mod count`."""
    parameters = [seed_parameter(f"p{i}", I64, 0, count) for i, count in enumerate(counts)]
    expansion = expand(parameters)
    picked = [[a.value for a in sample.assignments] for sample in expansion]
    assert expansion.full_count == len(picked) == math.prod(counts)
    assert picked == [
        [(s // math.prod(counts[:i])) % count for i, count in enumerate(counts)] for s in range(len(picked))
    ]
    backwards = itertools.product(*(range(count) for count in reversed(counts)))
    assert picked == [list(reversed(point)) for point in backwards]
    assert [sample.ordinal for sample in expansion] == list(range(len(picked)))


def test_cap_truncates_and_the_full_count_stays_known() -> None:
    """Even where the product is far too large to list."""
    expansion = expand([seed_parameter(key, I64, 0, 10**9) for key in ("a", "b", "c")])
    assert expansion.full_count == 10**27
    assert expansion.count == len(list(expansion)) == 4096
    assert expansion.is_truncated
    last = expansion.sample(10**27 - 1)
    assert [assignment.value for assignment in last.assignments] == [10**9 - 1] * 3
    with pytest.raises(IndexError):
        expansion.sample(10**27)
    assert not expand([seed_parameter("a", I64, 0, 3)], cap=3).is_truncated
    with pytest.raises(CheckError, match="cap 0"):
        expand([], cap=0)


def test_duplicate_keys() -> None:
    """Keys name values in reports and pins, so they are unique."""
    parameters = [seed_parameter("n", I64, 0, 1), choice_parameter("n", INDEX, [1])]
    with pytest.raises(PlanningError, match="two parameters have the key 'n'") as caught:
        expand(parameters)
    assert caught.value.kind is PlanningIssueKind.DUPLICATE_PARAMETER_NAME
    assert caught.value.fix_hint


CASE = expand(
    [
        range_parameter("rows", INDEX, PO2, 1, 8),
        range_parameter("scale", F32, LINEAR, 0.0, 1.0, 0.1),
        seed_parameter("seed", I64, 77, 2),
        range_parameter("step", I32, LINEAR, -3, 6, 3),
    ]
)


def test_pinning_keeps_ordinals_of_the_whole_case() -> None:
    """A benchmark's sample is the case's sample of the same ordinal."""
    selected = list(pin(CASE, [("rows", 8), ("scale", 0.3), ("step", 3)]))
    assert [[a.value for a in s.assignments] for s in selected] == [
        [8, 3 * 0.1, 77, 3],
        [8, 3 * 0.1, 78, 3],
    ]
    for sample in selected:
        assert CASE.sample(sample.ordinal) == sample


def test_unpinned_parameters_keep_all_values() -> None:
    """Nothing pinned selects everything."""
    assert list(pin(CASE, [])) == list(CASE)
    assert pin(CASE, [("seed", 78)]).full_count == CASE.full_count // 2


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        ([("columns", 1)], r"'columns' is not a parameter of the case \(its parameters: rows, scale, "),
        ([("rows", 8), ("rows", 8)], "'rows' is assigned twice"),
        ([("rows", 3)], "3 is not one of the values of 'rows'"),
        ([("rows", 16)], "16 is not one"),
        ([("rows", 0)], "0 is not one"),
        ([("rows", 8.0)], r"8\.0 is not one"),
        ([("rows", True)], "True is not one"),
        ([("scale", 0.35)], r"0\.35 is not one"),
        ([("scale", 0.3 + 1e-8)], "is not one"),
        ([("scale", -0.1)], "is not one"),
        ([("scale", 1.2)], "is not one"),
        ([("scale", math.nan)], "nan is not one"),
        ([("seed", 79)], "79 is not one"),
        ([("step", 7)], "7 is not one"),
        ([("step", 9)], "9 is not one"),
        ([("step", "3")], "'3' is not one"),
    ],
)
def test_invalid_pins(pins: list[tuple[str, object]], message: str) -> None:
    """Unknown keys, repeated keys and values that no sample has."""
    with pytest.raises(PlanningError, match=message) as caught:
        pin(CASE, pins)
    assert caught.value.kind is PlanningIssueKind.INVALID_BENCHMARK_ASSIGNMENT


@given(st.integers(0, 10), st.floats(-1, 1))
def test_float_pins_match_within_the_tolerance(ordinal: int, wobble: float) -> None:
    """The rounded ordinal within 1e-9, and the value within |step| * 1e-9 + 1e-12."""
    parameter = CASE.parameters[1]
    near = parameter.value(ordinal) + wobble * 0.9e-10
    assert parameter.ordinal_of(near) == ordinal
    far = parameter.value(ordinal) + math.copysign(2e-10 + abs(wobble) * 0.01, wobble)
    assert parameter.ordinal_of(far) is None


def test_a_choice_pins_by_value() -> None:
    """The position in the list is the ordinal."""
    case = expand([choice_parameter("n", INDEX, [130, 1, 64])])
    assert [s.ordinal for s in pin(case, [("n", 1)])] == [1]
    with pytest.raises(PlanningError):
        pin(case, [("n", 2)])


def test_anonymous_benchmarks_are_named_after_their_case() -> None:
    """Without the trailing `_case`, when there is one."""
    assert benchmark_name("scale_rows_case", None) == "scale_rows"
    assert benchmark_name("axpy", None) == "axpy"
    assert benchmark_name("axpy_case", "wide") == "wide"
