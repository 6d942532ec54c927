"""Facts against exhaustive evaluation: an interval or divisor never excludes a value that occurs."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom.facts import integers
from loom.facts.analysis import FunctionFacts
from loom.facts.integers import MAX64, MIN64, TRANSFER, IntegerFacts, decide
from loom.facts.uniformity import varying_values
from loom.ir.core import Op
from loom.text.parser import parse_module

MODELS: dict[str, Callable[[int, int], int | None]] = {
    "index.add": lambda a, b: a + b,
    "index.sub": lambda a, b: a - b,
    "index.mul": lambda a, b: a * b,
    "index.div": lambda a, b: a // b if a >= 0 and b > 0 else None,
    "index.rem": lambda a, b: a % b if a >= 0 and b > 0 else None,
    "index.shli": lambda a, b: a << b if 0 <= b < 64 else None,
    "index.shrsi": lambda a, b: a >> b if 0 <= b < 64 else None,
    "index.shrui": lambda a, b: a >> b if a >= 0 and 0 <= b < 64 else None,
    "index.andi": lambda a, b: a & b,
    "index.ori": lambda a, b: a | b,
    "index.xori": lambda a, b: a ^ b,
    "index.min": min,
    "index.max": max,
}


@st.composite
def values_with_facts(draw: st.DrawFn) -> tuple[list[int], IntegerFacts]:
    divisor = draw(st.sampled_from([1, 2, 3, 4, 6, 16]))
    low = draw(st.integers(-40, 40)) * divisor
    count = draw(st.integers(1, 5))
    values = [low + k * divisor for k in range(count)]
    return values, IntegerFacts(values[0], values[-1], divisor)


@pytest.mark.parametrize("name", sorted(MODELS))
@given(values_with_facts(), values_with_facts())
def test_transfer_functions_are_sound(
    name: str, left: tuple[list[int], IntegerFacts], right: tuple[list[int], IntegerFacts]
) -> None:
    facts = TRANSFER[name](left[1], right[1])
    for a, b in itertools.product(left[0], right[0]):
        result = MODELS[name](a, b)
        if result is None or not MIN64 <= result <= MAX64:
            continue
        assert facts.lo <= result <= facts.hi
        assert result % facts.divisor == 0


@given(
    values_with_facts(), values_with_facts(), st.sampled_from(["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "uge"])
)
def test_decided_comparisons_are_true(
    left: tuple[list[int], IntegerFacts], right: tuple[list[int], IntegerFacts], predicate: str
) -> None:
    answer = decide(predicate, left[1], right[1])
    if answer is None:
        return
    mask = (1 << 64) - 1
    for a, b in itertools.product(left[0], right[0]):
        held = {
            "eq": a == b, "ne": a != b, "slt": a < b, "sle": a <= b, "sgt": a > b, "sge": a >= b,
            "ult": (a & mask) < (b & mask), "uge": (a & mask) >= (b & mask),
        }[predicate]  # fmt: skip
        assert held == answer


@given(values_with_facts(), values_with_facts(), st.sampled_from(sorted(integers.NEGATED)))
def test_path_facts_keep_every_value_that_takes_the_path(
    left: tuple[list[int], IntegerFacts], right: tuple[list[int], IntegerFacts], predicate: str
) -> None:
    tightened = integers.compare_left(left[1], predicate, right[1])
    mask = (1 << 64) - 1
    for a, b in itertools.product(left[0], right[0]):
        held = {
            "eq": a == b, "ne": a != b, "slt": a < b, "sle": a <= b, "sgt": a > b, "sge": a >= b,
            "ult": (a & mask) < (b & mask), "ule": (a & mask) <= (b & mask),
            "ugt": (a & mask) > (b & mask), "uge": (a & mask) >= (b & mask),
        }[predicate]  # fmt: skip
        if held:
            assert tightened.lo <= a <= tightened.hi
            assert a % tightened.divisor == 0


KERNEL = """\
kernel.def @k(%count: index) {
  %one = index.constant 1 : index
  %width = index.constant 64 : index
  kernel.launch.config workgroups(%count, %one, %one) workgroup_size(%width, %one, %one) : index
} launch(%count: index, %x: buffer) {
  %base = index.constant 0 : offset
  %group = kernel.workgroup.id<x> : index
  %lane = kernel.workitem.id<x> : index
  %width = index.constant 64 : index
  %i = index.madd %group, %width, %lane : index
  %v = buffer.view %x[%base] : buffer -> view<[%count]xi32>
  %ok = index.cmp ult, %i, %count : index
  scf.if %ok {
    %a = view.load %v[%i] : view<[%count]xi32> -> i32
    %u = view.load %v[%group] : view<[%count]xi32> -> i32
    view.store %a, %v[%i] : i32, view<[%count]xi32>
  }
  kernel.return
}
"""


def _op(root: Op, name: str, nth: int = 0) -> Op:
    return [op for op in root.walk() if op.name == name][nth]


@pytest.mark.seed("K05")
def test_a_guard_proves_the_access_in_its_region() -> None:
    """Inside ``i < n`` the comparison is decided and the index is not negative, without an assumption."""
    kernel = next(iter(parse_module(KERNEL).ops))
    facts = FunctionFacts(kernel, {"max_flat_grid_size": (1 << 32) - 1})
    load = _op(kernel, "view.load")
    index, count = load.operands[1], kernel.regions[1].entry.args[0]
    assert facts.decide("ult", index, count, load) is True
    assert facts.decide("ult", index, count) is None
    assert facts.integer(count, load).lo >= 1
    assert facts.integer(index) == IntegerFacts(0, (1 << 32) - 2, 1)


def test_uniformity() -> None:
    kernel = next(iter(parse_module(KERNEL).ops))
    facts = FunctionFacts(kernel)
    assert facts.is_uniform(_op(kernel, "kernel.workgroup.id").results[0])
    assert not facts.is_uniform(_op(kernel, "kernel.workitem.id").results[0])
    assert not facts.is_uniform(_op(kernel, "view.load").results[0])
    assert facts.is_uniform(_op(kernel, "view.load", 1).results[0])
    assert facts.static_workgroup_size == (64, 1, 1)


def test_loops_give_induction_facts_and_temporal_divergence() -> None:
    text = """\
func.def @f(%n: index) {
  %c0 = index.constant 0 : index
  %c4 = index.constant 4 : index
  %lane = kernel.workitem.id<x> : index
  %m = index.assume %n [range(%n, 0, 100)] : index
  %r = scf.for %i = [%c0 to %m step %c4](%acc = %c0 : index) -> (index) {
    %next = index.add %acc, %c4 : index
    scf.yield %next : index
  }
  %s = scf.for %j = [%c0 to %lane step %c4](%acc = %c0 : index) -> (index) {
    %next = index.add %acc, %c4 : index
    scf.yield %next : index
  }
  func.return
}
"""
    function = next(iter(parse_module(text).ops))
    facts = FunctionFacts(function)
    first, second = _op(function, "scf.for"), _op(function, "scf.for", 1)
    assert facts.integer(first.regions[0].entry.args[0]) == IntegerFacts(0, 99, 4)
    assert facts.is_uniform(first.results[0])
    assert facts.is_uniform(second.regions[0].entry.args[0])
    assert not facts.is_uniform(second.results[0])


@pytest.mark.seed("B01", "B06")
def test_assumptions_attach_to_their_results() -> None:
    """An assume result carries range and divisor; the operand itself learns nothing."""
    text = (
        "func.def @f(%n: index) -> (index) {\n  %m = index.assume %n [range(%n, 0, 4096), multiple_of(%n, 16)] : index\n"
        "  func.return %m : index\n}\n"
    )
    function = next(iter(parse_module(text).ops))
    facts = FunctionFacts(function)
    assume = _op(function, "index.assume")
    assert facts.integer(assume.results[0]) == IntegerFacts(0, 4096, 16)
    assert facts.integer(assume.operands[0]) == integers.UNKNOWN


def test_wrapped_values_keep_only_powers_of_two() -> None:
    wide = integers.IntegerFacts(0, integers.MAX64, 12)
    assert integers.add(wide, wide).divisor == 4
    # 3 << 62 wraps to a number that 3 does not divide.
    assert integers.shl(integers.IntegerFacts(divisor=3), integers.exactly(62)).divisor == 1 << 62


@pytest.mark.parametrize(
    ("line", "uniform_in"),
    [
        ("%r = kernel.subgroup.id : index", {"subgroup"}),
        ("%r = kernel.workgroup.id<x> : index", {"subgroup", "workgroup"}),
        ("%r = kernel.subgroup.reduce<addi> %w : i32", {"subgroup"}),
        ("%r = kernel.subgroup.reduce<addi> %w {cluster_size = 4} : i32", set()),
        ("%r = kernel.workgroup.reduce<addi> %w : i32", {"subgroup", "workgroup"}),
        (
            "%r = view.atomic.rmw<addi> %one, %v[0] {ordering = relaxed, scope = device} : i32, view<4xi32> -> i32",
            set(),
        ),
        ("%r = view.load %v[0] : view<4xi32> -> i32", {"subgroup", "workgroup"}),
        ("%r = view.load %p[0] : view<4xi32> -> i32", set()),
    ],
)
def test_what_each_scope_agrees_on(line: str, uniform_in: set[str]) -> None:
    text = f"""\
func.def device @f(%v: view<4xi32>) {{
  %lane = kernel.workitem.id<x> : index
  %w = index.cast %lane : index to i32
  %one = scalar.constant 1 : i32
  %zero = index.constant 0 : offset
  %bytes = index.constant 16 : offset
  %own = buffer.alloca<private> align(4) %bytes : buffer
  %p = buffer.view %own[%zero] : buffer -> view<4xi32>
  {line}
  func.return
}}
"""
    function = next(iter(parse_module(text).ops))
    value = next(op for op in function.walk() if op.results and op.results[0].name == "r").results[0]
    assert {s for s in ("subgroup", "workgroup") if value not in varying_values(function, s)} == uniform_in
