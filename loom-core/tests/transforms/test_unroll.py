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
  %st = index.constant 1 : index
  %r = scf.for %i = [%lo to {upper} step %st](%acc = %zero : i32) -> (i32) {policy} {{
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


def unrolled(
    policy: str, body: str = SUM, *, fence: bool = False, factor: int = 2, hi: int = 2, upper: str = "%hi"
) -> Module:
    """The module after nothing but unrolling."""
    body = body.format(fence="    scf.schedule.fence\n" if fence else "")
    module = parse_module(TEXT.format(policy=policy, body=body, factor=factor, hi=hi, upper=upper), "t.loom")
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
    module = parse_module(
        TEXT.format(
            policy="pipeline(%factor) unroll(%factor) schedule(recurrence)",
            factor=2,
            hi=9,
            upper=upper,
            body=SUM.format(fence=""),
        ),
        "t.loom",
    )
    module = specialize(module, None).module
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


@pytest.mark.seed("U01")
@pytest.mark.parametrize(
    ("policy", "factor", "upper", "name"),
    [
        ("unroll", 1, "%n", "unroll"),
        ("unroll(%factor)", 0, "%hi", "unroll_factor"),
        ("unroll(%factor)", -2, "%hi", "unroll_factor"),
        ("unroll(%n)", 2, "%hi", "unroll_factor"),
        ("unroll(%factor)", 1 << 21, "%hi", "unroll_factor"),
    ],
)
def test_requests_that_cannot_be_met_are_refused(policy: str, factor: int, upper: str, name: str) -> None:
    with pytest.raises(LoomError) as caught:
        unrolled(policy, factor=factor, upper=upper)
    (found,) = caught.value.diagnostics
    assert (found.code, found.params["attr_name"]) == ("STRUCTURE/014", name)
    if policy == "unroll":
        assert found.params["expected_constraint"] == "a full unroll needs an exact upper bound"


def test_a_full_unroll_of_too_many_iterations_is_refused() -> None:
    with pytest.raises(LoomError) as caught:
        unrolled("unroll", hi=1 << 40)
    assert caught.value.diagnostics[0].params["attr_name"] == "unroll"


def test_reports_tell_the_group() -> None:
    module = parse_module(
        TEXT.format(policy="unroll(%factor)", factor=3, hi=7, upper="%hi", body=SUM.format(fence="")), "t.loom"
    )
    (row,) = (detail.row() for detail in unroll_loops(module.symbols()["f"], {}))
    assert (row["category"], row["outcome"], row["policy"]) == ("scf-unroll", "unrolled", "factor")
    assert (row["unroll_factor"], row["trip_count"], row["step"], row["lower"]) == (3, 7, 1, 0)
