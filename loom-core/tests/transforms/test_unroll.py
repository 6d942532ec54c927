"""Unrolling: the order of copies under each schedule, source fences, groups and remainders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loom.evaluate.dispatch import call_function
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.ir.core import Module
from loom.ir.diagnostics import LoomError
from loom.specialize.pipeline import specialize
from loom.text.parser import parse_module
from loom.transforms.loops import unroll_loops
from loom.verify.verifier import verify_module

TEXT = """\
func.def public @f(%n: index, %x: view<16xi32>, %y: view<16xi32>) -> (i32) {{
  %factor = index.constant {factor} : index
  %zero = scalar.constant 3 : i32
  %lo = index.constant 0 : index
  %hi = index.constant {hi} : index
  %st = index.constant {step} : index
  %r = scf.for %i = [{lower} to {upper} step {stride}](%acc = %zero : i32) -> (i32) {policy} {{
{body}
    scf.yield %next : i32
  }}
  func.return %r : i32
}}
"""
SUM = """\
    %consumed = scalar.muli %acc, %acc : i32
{fence}    %a = view.load %x[%i] : view<16xi32> -> i32
    %b = scalar.xori %a, %zero : i32
    %next = scalar.addi %consumed, %b : i32"""
STORE = """\
    %a = view.load %x[%i] : view<16xi32> -> i32
    view.store %a, %y[%i] : i32, view<16xi32>
    %next = scalar.addi %acc, %a : i32"""


def program(
    policy: str,
    body: str = SUM,
    *,
    fence: bool = False,
    factor: int = 2,
    hi: int = 2,
    step: int = 1,
    lower: str = "%lo",
    upper: str = "%hi",
    stride: str = "%st",
) -> str:
    """A function around a loop of a policy; ``lower``, ``upper`` and ``stride`` are the values that it takes."""
    body = body.format(fence="    scf.schedule.fence\n" if fence else "")
    return TEXT.format(
        policy=policy, body=body, factor=factor, hi=hi, step=step, lower=lower, upper=upper, stride=stride
    )


def unrolled(policy: str, body: str = SUM, **change: Any) -> Module:
    """The module after nothing but unrolling."""
    module = parse_module(program(policy, body, **change), "t.loom")
    assert verify_module(module) == []
    unroll_loops(module.symbols()["f"], {})
    assert verify_module(module) == []
    return module


SHORT = {
    "scalar.muli": "consume",
    "view.load": "load",
    "scalar.xori": "use",
    "scalar.addi": "add",
    "view.store": "store",
    "scf.schedule.fence": "|",
}


def order(module: Module) -> str:
    return " ".join(SHORT[op.name] for op in module.walk() if op.name in SHORT)


@pytest.mark.seed("U05", "U06")
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("unroll", "consume load use add consume load use add"),
        ("unroll schedule(linear)", "consume load use add consume load use add"),
        # Corresponding operations stand together as far as the recurrence allows.
        ("unroll schedule(interleaved)", "consume load load use use add consume add"),
        # What continues the recurrence goes first, an independent load only when something waits for it.
        ("unroll schedule(recurrence)", "consume load use add consume load use add"),
        ("unroll(%factor) schedule(interleaved)", "consume load load use use add consume add"),
    ],
)
def test_schedules_order_the_copies(policy: str, expected: str) -> None:
    assert order(unrolled(policy)) == expected


@pytest.mark.parametrize("upper", ["%hi", "%n"])
def test_consumers_of_queued_values_come_before_new_loads(upper: str) -> None:
    """In a steady loop the recurrence schedule takes old queue values before the loads that replace them."""
    text = program("pipeline(%factor) unroll(%factor) schedule(recurrence)", hi=9, upper=upper)
    module = specialize(parse_module(text, "t.loom"), None).module
    steady = next(op for op in module.walk() if op.name == "scf.for")
    assert len(steady.results) == 2
    names = [SHORT[op.name] for op in steady.regions[0].entry if op.name in SHORT]
    assert names.index("consume") < names.index("load")
    assert names.index("add") < names.index("load")


@pytest.mark.seed("U06")
@pytest.mark.parametrize("schedule", ["linear", "interleaved", "recurrence"])
def test_accesses_that_may_meet_keep_their_order(schedule: str) -> None:
    """A later load may read what an earlier store wrote, so it does not pass it."""
    found = order(unrolled(f"unroll schedule({schedule})", STORE))
    assert [word for word in found.split() if word != "add"] == ["load", "store", "load", "store"]


@pytest.mark.parametrize("schedule", ["linear", "interleaved", "recurrence"])
def test_stores_do_not_pass_earlier_loads(schedule: str) -> None:
    """A later store may overwrite what an earlier load still has to see."""
    body = (
        "    view.store %zero, %y[%i] : i32, view<16xi32>\n    %a = view.load %x[%i] : view<16xi32> -> i32\n"
        "    %next = scalar.addi %acc, %a : i32"
    )
    found = order(unrolled(f"unroll schedule({schedule})", body))
    assert [word for word in found.split() if word != "add"] == ["store", "load", "store", "load"]


@pytest.mark.seed("N01")
@pytest.mark.parametrize("schedule", ["linear", "interleaved", "recurrence"])
def test_every_copy_keeps_its_fence(schedule: str) -> None:
    """What stands before a fence stays before it in every copy."""
    ranges = order(unrolled(f"unroll schedule({schedule})", fence=True, hi=3)).split("|")
    assert len(ranges) == 4
    assert ranges[0].split() == ["consume"]
    assert sorted(ranges[1].split()) == ["add", "consume", "load", "use"]
    assert sorted(ranges[3].split()) == ["add", "load", "use"]


@pytest.mark.seed("U03")
@pytest.mark.parametrize("factor", range(1, 7))
@pytest.mark.parametrize("schedule", ["", " schedule(linear)", " schedule(interleaved)", " schedule(recurrence)"])
def test_remainders_stay_inside_the_range(factor: int, schedule: str) -> None:
    """Loads and stores of every trip count are those of the original loop."""
    module = unrolled(f"unroll(%factor){schedule}", STORE, factor=factor, upper="%n")
    data = np.arange(100, 116, dtype=np.int32)
    for trips in range(17):
        out = np.zeros(16, dtype=np.int32)
        arguments: list[Any] = [trips, data, out]
        (result,) = call_function(Program(module, limits=Limits()), module.symbols()["f"], arguments)
        assert result == 3 + data[:trips].sum()
        assert out.tolist() == [*data[:trips].tolist(), *[0] * (16 - trips)]


@pytest.mark.parametrize(("hi", "conditionals"), [(6, 0), (7, 2), (0, 0)])
def test_whole_groups_need_no_guard(hi: int, conditionals: int) -> None:
    module = unrolled("unroll(%factor)", factor=3, hi=hi)
    assert sum(op.name == "scf.if" for op in module.walk()) == conditionals


BARE = "a full unroll needs an exact "
FACTOR = "the factor must be an exact positive value"
STEP = "the step must be an exact positive value"
WIDE = 1 << 62

# Policy, what is different from a loop that is fine, and the diagnostic's attribute, value and constraint.
REFUSED: dict[str, tuple[str, dict[str, Any], str, int, str]] = {
    "bare, lower bound not exact": ("unroll", {"lower": "%n"}, "unroll", 0, BARE + "lower bound"),
    "bare, upper bound not exact": ("unroll", {"upper": "%n"}, "unroll", 0, BARE + "upper bound"),
    "bare, step not exact": ("unroll", {"stride": "%n"}, "unroll", 0, BARE + "step"),
    "bare, nothing exact": (
        "unroll",
        {"lower": "%n", "upper": "%n", "stride": "%n"},
        "unroll",
        0,
        BARE + "lower bound, upper bound, step",
    ),
    "bare, step zero": ("unroll", {"step": 0}, "step", 0, "the step must be positive"),
    "bare, step negative": ("unroll", {"step": -1}, "step", -1, "the step must be positive"),
    "bare, too many iterations": (
        "unroll",
        {"hi": 1 << 40},
        "unroll",
        1 << 40,
        f"unrolling {1 << 40} iterations makes more than {1 << 20} operations",
    ),
    "factor zero": ("unroll(%factor)", {"factor": 0}, "unroll_factor", 0, FACTOR),
    "factor negative": ("unroll(%factor)", {"factor": -2}, "unroll_factor", -2, FACTOR),
    "factor not exact": ("unroll(%n)", {}, "unroll_factor", 0, FACTOR),
    "factor, step zero": ("unroll(%factor)", {"step": 0}, "step", 0, STEP),
    "factor, step negative": ("unroll(%factor)", {"step": -3}, "step", -3, STEP),
    "factor, step not exact": ("unroll(%factor)", {"stride": "%n"}, "step", 0, STEP),
    "factor times step too large": (
        "unroll(%factor)",
        {"step": WIDE, "factor": 2},
        "unroll_factor",
        2,
        "the factor times the step must fit the type of the positions",
    ),
    "too many copies": (
        "unroll(%factor)",
        {"factor": 1 << 21},
        "unroll_factor",
        1 << 21,
        f"the copies must not make more than {1 << 20} operations",
    ),
}


@pytest.mark.seed("U01")
@pytest.mark.parametrize("name", REFUSED)
def test_requests_that_cannot_be_met_are_refused(name: str) -> None:
    """Every rule by itself, at the loop that asked; the same loop is fine without the request."""
    policy, change, attribute, value, expected = REFUSED[name]
    with pytest.raises(LoomError) as caught:
        unrolled(policy, **change)
    (found,) = caught.value.diagnostics
    assert found.code == "STRUCTURE/014"
    assert found.params == {"attr_name": attribute, "actual_value": value, "expected_constraint": expected}
    assert found.position() == ("t.loom", 7, 8)
    assert verify_module(parse_module(program("", **change), "t.loom")) == []


@pytest.mark.seed("U01")
def test_a_bare_keyword_and_a_factor_exclude_each_other() -> None:
    (found,) = verify_module(parse_module(program("unroll(%factor) unroll"), "t.loom"))
    assert (found.code, found.params["expected_constraint"]) == ("STRUCTURE/014", "either bare or with a factor")


def test_reports_tell_the_group() -> None:
    module = parse_module(program("unroll(%factor)", factor=3, hi=7), "t.loom")
    (row,) = (detail.row() for detail in unroll_loops(module.symbols()["f"], {}))
    assert (row["category"], row["outcome"], row["policy"]) == ("scf-unroll", "unrolled", "factor")
    assert (row["unroll_factor"], row["trip_count"], row["step"], row["lower"]) == (3, 7, 1, 0)
