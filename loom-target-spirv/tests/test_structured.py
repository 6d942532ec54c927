"""Structured control flow: what spirv-val accepts and what a device computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from loom_target_spirv.elementwise import elementwise_module
from loom_target_spirv.errors import SpirvError
from loom_target_spirv.function import FunctionBuilder
from loom_target_spirv.module import ModuleBuilder, Value
from loom_target_spirv.structured import CountedLoop, Loop, Selection, Switch
from loom_target_spirv.types import BOOL, U32, U64

Apply = Callable[..., npt.NDArray[Any]]


def test_selection_merges_values(apply: Apply) -> None:
    """Both arms hand over a value; nested selections merge inside out."""

    def body(f: FunctionBuilder, v: list[Value]) -> Value:
        constant = f.module.constant
        outer = Selection(f, f.op("OpULessThan", BOOL, v[0], constant(U32, 10)))
        doubled = f.op("OpIAdd", U32, v[0], v[0])
        outer.otherwise([doubled])
        inner = Selection(f, f.op("OpIEqual", BOOL, v[0], constant(U32, 12)))
        inner.otherwise([constant(U32, 1)])
        [chosen] = inner.end([constant(U32, 2)])
        [result] = outer.end([chosen])
        return result

    x = np.arange(20, dtype=np.uint32)
    np.testing.assert_array_equal(apply(body, [x], U32), np.where(x < 10, 2 * x, np.where(x == 12, 1, 2)))


def test_arms_that_leave_the_function(validate: Callable[[bytes], bytes]) -> None:
    """An arm may return; when both do, what follows is unreachable."""
    module = ModuleBuilder()
    for name, both in (("one", False), ("both", True)):
        function = module.function(name)
        module.entry_point(function, name, (1, 1, 1))
        choice = Selection(function, module.constant(BOOL, True))
        function.ret()
        choice.otherwise()
        if both:
            function.ret()
        choice.end()
        if not both:
            function.ret()
    validate(module.assemble())


def test_loop_with_a_test_at_the_top(apply: Apply) -> None:
    """The number of Collatz steps: a trip count only the data know."""

    def body(f: FunctionBuilder, v: list[Value]) -> Value:
        constant = f.module.constant
        loop = Loop(f, [v[0], constant(U32, 0)])
        value, steps = loop.carried
        loop.body(f.op("OpUGreaterThan", BOOL, value, constant(U32, 1)))
        odd = f.op("OpINotEqual", BOOL, f.op("OpBitwiseAnd", U32, value, constant(U32, 1)), constant(U32, 0))
        choice = Selection(f, odd)
        tripled = f.op("OpIAdd", U32, f.op("OpIMul", U32, value, constant(U32, 3)), constant(U32, 1))
        choice.otherwise([tripled])
        [following] = choice.end([f.op("OpShiftRightLogical", U32, value, constant(U32, 1))])
        loop.end([following, f.op("OpIAdd", U32, steps, constant(U32, 1))])
        return steps

    def steps(n: int) -> int:
        count = 0
        while n > 1:
            n, count = (3 * n + 1 if n % 2 else n // 2), count + 1
        return count

    x = np.arange(1, 200, dtype=np.uint32)
    np.testing.assert_array_equal(apply(body, [x], U32), [steps(int(n)) for n in x])


@pytest.mark.parametrize("signed", [True, False])
def test_counted_loop_at_the_edges(apply: Apply, signed: bool) -> None:
    """Empty ranges, steps that overshoot, and bounds at the end of the type, where a naive loop never
    ends.
    """
    top = 0x7FFFFFFF if signed else 0xFFFFFFFF
    low = -0x80000000 if signed else 0
    ranges = [
        (0, 5, 1), (0, 5, 2), (5, 5, 1), (7, 5, 1), (top - 5, top, 2), (top - 1, top, top), (low, low + 3, 1),
        (low, top, top), (0, 1, top), (top, low, 1),
    ]  # fmt: skip

    def body(f: FunctionBuilder, v: list[Value]) -> Value:
        loop = CountedLoop(f, v[0], v[1], v[2], [f.module.constant(U32, 0)], signed=signed)
        scaled = f.op("OpIMul", U32, loop.carried[0], f.module.constant(U32, 31))
        [result] = loop.end([f.op("OpIAdd", U32, scaled, loop.induction)])
        return result

    def expected(lower: int, upper: int, step: int) -> int:
        total = 0
        for i in range(lower, upper, step):
            total = (total * 31 + i) & 0xFFFFFFFF
        return total

    columns = [np.array(column, np.int64).astype(np.uint32) for column in zip(*ranges, strict=True)]
    np.testing.assert_array_equal(apply(body, columns, U32), [expected(*r) for r in ranges])


def test_counted_loop_over_64_bits(apply: Apply) -> None:
    """The induction may be wider than 32 bits, and loops nest."""

    def body(f: FunctionBuilder, v: list[Value]) -> Value:
        constant = f.module.constant
        outer = CountedLoop(f, constant(U64, 0), v[0], constant(U64, 1), [constant(U64, 0)])
        inner = CountedLoop(f, constant(U64, 0), outer.induction, constant(U64, 1), [outer.carried[0]])
        [sums] = inner.end([f.op("OpIAdd", U64, inner.carried[0], inner.induction)])
        [result] = outer.end([sums])
        return result

    x = np.arange(12, dtype=np.uint64)
    want = [sum(j for i in range(int(n)) for j in range(i)) for n in x]
    np.testing.assert_array_equal(apply(body, [x], U64), want)


def test_loop_carried_values_may_swap(apply: Apply) -> None:
    """The phis of a header are parallel: Fibonacci by swapping."""

    def body(f: FunctionBuilder, v: list[Value]) -> Value:
        constant = f.module.constant
        loop = CountedLoop(f, constant(U32, 0), v[0], constant(U32, 1), [constant(U32, 0), constant(U32, 1)])
        a, b = loop.carried
        return loop.end([b, f.op("OpIAdd", U32, a, b)])[0]

    np.testing.assert_array_equal(
        apply(body, [np.arange(10, dtype=np.uint32)], U32), [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]
    )


@pytest.mark.parametrize(("type_", "dtype"), [(U32, np.uint32), (U64, np.uint64)])
def test_switch(apply: Apply, type_: Any, dtype: Any) -> None:
    """Cases in any order, negative ones too, and a default."""

    def body(f: FunctionBuilder, v: list[Value]) -> Value:
        switch = Switch(f, v[0], [3, -1, 0])
        switch.next_arm()
        for value in (30, 99, 7):
            switch.next_arm([f.module.constant(U32, value)])
        [result] = switch.end([f.module.constant(U32, 5)])
        return result

    x = np.array([0, 1, 2, 3, 4, -1], np.int64).astype(dtype)
    np.testing.assert_array_equal(apply(body, [x], U32), [7, 5, 5, 30, 5, 99])


def test_deep_nesting_needs_no_recursion(validate: Callable[[bytes], bytes]) -> None:
    """A caller walks nested regions with a list; 200 levels are one module."""

    def body(f: FunctionBuilder, v: list[Value]) -> Value:
        open_choices = []
        for level in range(200):
            open_choices.append(
                Selection(f, f.op("OpUGreaterThan", BOOL, v[0], f.module.constant(U32, level)))
            )
        value = v[0]
        for choice in reversed(open_choices):
            choice.otherwise([value])
            [value] = choice.end([f.module.constant(U32, 1)])
        return value

    validate(elementwise_module("deep", [U32], U32, body))


def test_misuse_is_an_error() -> None:
    """Constructs close in order, with the right number of values."""
    module = ModuleBuilder()
    function = module.function("kernel")
    condition = module.constant(BOOL, True)
    one = module.constant(U32, 1)
    outer = Selection(function, condition)
    inner = Selection(function, condition)
    with pytest.raises(SpirvError, match="reverse order"):
        outer.end()
    with pytest.raises(SpirvError, match="no values"):
        inner.end([one])
    with pytest.raises(SpirvError, match="open construct"):
        function.words()
    with pytest.raises(SpirvError, match="distinct"):
        Switch(function, one, [1, 1])
    with pytest.raises(SpirvError, match="32- or 64-bit"):
        Switch(function, condition, [1])


def test_arms_hand_over_equal_numbers_of_values() -> None:
    """A phi needs a value from every arm."""
    module = ModuleBuilder()
    function = module.function("kernel")
    choice = Selection(function, module.constant(BOOL, True))
    choice.otherwise([module.constant(U32, 1)])
    with pytest.raises(SpirvError, match="different numbers"):
        choice.end()


def test_a_loop_keeps_its_number_of_values() -> None:
    """What goes round is what came in."""
    module = ModuleBuilder()
    function = module.function("kernel")
    loop = Loop(function, [module.constant(U32, 1)])
    loop.body(module.constant(BOOL, False))
    with pytest.raises(SpirvError, match="carries 1 values"):
        loop.end([])
