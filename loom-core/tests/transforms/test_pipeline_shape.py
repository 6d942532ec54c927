"""What read-ahead builds: startup, steady state, drain, and the serial loop for short ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loom.evaluate.dispatch import call_function
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.ir.core import Module, Op
from loom.ir.diagnostics import LoomError
from loom.specialize.pipeline import specialize
from loom.text.parser import parse_module
from loom.verify.verifier import verify_module

MAX64 = (1 << 63) - 1

SUM = """\
func.def public @f(%lower: index, %upper: index, %origin: index, %x: view<64xi32>) -> (i32) {{
  %depth = index.constant {depth} : index
  %factor = index.constant {factor} : index
  %lo = index.constant {lo} : index
  %hi = index.constant {hi} : index
  %step = index.constant {step} : index
  %zero = scalar.constant 1 : i32
  %three = scalar.constant 3 : i32
  %r = scf.for %i = [{bounds} step %step](%acc = %zero : i32) -> (i32) {policy} {{
    %at = index.sub %i, %origin : index
    %v = view.load %x[%at] : view<64xi32> -> i32
    %scaled = scalar.muli %acc, %three : i32
    %next = scalar.addi %scaled, %v : i32
    scf.yield %next : i32
  }}
  func.return %r : i32
}}
"""


def text(
    policy: str, *, depth: int = 3, factor: int = 2, step: int = 1, lo: int = 0, hi: int = 0, bounds: str = ""
) -> str:
    return SUM.format(
        policy=policy, depth=depth, factor=factor, step=step, lo=lo, hi=hi, bounds=bounds or "%lower to %upper"
    )


def specialized(source: str) -> Module:
    module = parse_module(source, "t.loom")
    assert verify_module(module) == []
    result = specialize(module, None).module
    assert verify_module(result) == []
    return result


def call(module: Module, *arguments: Any) -> Any:
    return call_function(Program(module, limits=Limits()), module.symbols()["f"], arguments)[0]


def expected(positions: range, origin: int, data: Any) -> int:
    total = 1
    for position in positions:
        total = (total * 3 + int(data[position - origin])) & 0xFFFFFFFF
    return total - (1 << 32) if total >> 31 else total


def ops(root: Any, name: str) -> list[Op]:
    return [op for op in root.walk() if op.name == name]


DATA = np.arange(10, 74, dtype=np.int32)


def test_run_time_bounds_build_a_guarded_pipeline() -> None:
    """Depth three: two reads, a loop carrying the sum and two values, two more updates; else the serial loop."""
    module = specialized(text("pipeline(%depth)"))
    (guard,) = ops(module, "scf.if")
    ahead, serial = (region.entry for region in guard.regions)
    names = [op.name for op in ahead if op.name in ("view.load", "scf.for", "scalar.addi")]
    assert names == ["view.load", "view.load", "scf.for", "scalar.addi", "scalar.addi"]
    (steady,) = (op for op in ahead if op.name == "scf.for")
    assert len(steady.results) == 3
    inner = [op.name for op in steady.regions[0].entry]
    assert inner.index("view.load") < inner.index("scalar.muli")
    assert [op.name for op in serial if op.name == "scf.for"] == ["scf.for"]


@pytest.mark.seed("A03", "A04")
@pytest.mark.parametrize("depth", range(1, 6))
@pytest.mark.parametrize("step", [1, 3])
def test_every_trip_count(depth: int, step: int) -> None:
    """Empty, shorter than the depth, exactly as long, longer, and a last step that is cut short."""
    module = specialized(text("pipeline(%depth)", depth=depth, step=step))
    for upper in range(-1, 22):
        assert call(module, 0, upper, 0, DATA) == expected(range(0, upper, step), 0, DATA)


@pytest.mark.seed("A04")
@pytest.mark.parametrize(("trips", "loops"), [(0, 0), (2, 1), (3, 0), (4, 1), (9, 1)])
def test_exact_bounds_need_no_guard(trips: int, loops: int) -> None:
    """Facts decide between the serial loop and the pipeline; one steady iteration needs no loop."""
    module = specialized(text("pipeline(%depth)", hi=trips, bounds="%lo to %hi"))
    assert ops(module, "scf.if") == []
    assert len(ops(module, "scf.for")) == loops
    if trips >= 3:
        # Every iteration of the steady loop loads once, startup twice.
        assert len(ops(module, "view.load")) == 3
    assert call(module, 0, 0, 0, DATA) == expected(range(trips), 0, DATA)


def test_ranges_prove_the_guard() -> None:
    """A trip count that facts bound from below or above leaves one of both forms."""
    for range_, guarded, pipelined in (("3, 64", False, True), ("0, 2", False, False), ("0, 64", True, True)):
        source = text("pipeline(%depth)", bounds="%lo to %n").replace(
            "  %zero", f"  %n = index.assume %upper [range(%upper, {range_})] : index\n  %zero"
        )
        module = specialized(source)
        assert bool(ops(module, "scf.if")) == guarded
        assert (max(len(op.results) for op in ops(module, "scf.for")) == 3) == pipelined


CLAUSES = ["pipeline(%depth)", "unroll(%factor)", "pipeline(%depth) unroll(%factor)"]


@pytest.mark.parametrize("policy", CLAUSES)
@pytest.mark.parametrize(("depth", "factor"), [(2, 2), (3, 5), (5, 3)])
@pytest.mark.parametrize(("lower", "upper"), [(MAX64 - 7, MAX64), (-(1 << 63), -(1 << 63) + 9), (-3, 30)])
def test_positions_at_the_ends_of_the_range(policy: str, depth: int, factor: int, lower: int, upper: int) -> None:
    """Guards neither wrap nor run past the bound where the bounds are close to the ends of 64 bits."""
    module = specialized(text(policy, depth=depth, factor=factor, step=5))
    assert call(module, lower, upper, lower, DATA) == expected(range(lower, upper, 5), lower, DATA)
    assert call(module, upper, lower, lower, DATA) == 1


@pytest.mark.parametrize("policy", CLAUSES)
@pytest.mark.parametrize(("depth", "factor"), [(2, 2), (4, 3)])
def test_bounds_as_far_apart_as_they_can_be(policy: str, depth: int, factor: int) -> None:
    """Distances that only just fit: the address is the leading bits of the position."""
    step = 1 << 61
    source = text(policy, depth=depth, factor=factor, step=step).replace("index.sub %i", "index.shrui %i")
    module = specialized(source)
    for upper in (-(1 << 63), -(1 << 63) + 1, -1, 0, 1, step, MAX64):
        positions = range(-(1 << 63), upper, step)
        data = [DATA[(p % (1 << 64)) >> 58] for p in positions]
        assert call(module, -(1 << 63), upper, 58, DATA) == expected(range(len(data)), 0, data)


@pytest.mark.parametrize(("policy", "name"), [("pipeline(%depth)", "pipeline"), ("unroll(%factor)", "unroll_factor")])
def test_distances_that_do_not_fit_are_refused(policy: str, name: str) -> None:
    with pytest.raises(LoomError) as caught:
        specialized(text(policy, depth=5, factor=4, step=1 << 61))
    assert caught.value.diagnostics[0].params["attr_name"] == name


@pytest.mark.seed("A07")
def test_unrolling_works_on_the_rebuilt_loops() -> None:
    """Depth three and factor two still queue two iterations; each copy advances the queue once."""
    module = specialized(text("pipeline(%depth) unroll(%factor)", hi=12, bounds="%lo to %hi"))
    (steady,) = ops(module, "scf.for")
    assert len(steady.results) == 3
    assert len(ops(steady, "view.load")) == 2
    assert len(ops(module, "view.load")) == 4
    assert ops(steady, "scf.if") == []
    assert call(module, 0, 0, 0, DATA) == expected(range(12), 0, DATA)


def test_bare_unrolling_of_a_pipeline_leaves_no_loop() -> None:
    module = specialized(text("pipeline(%depth) unroll schedule(recurrence)", hi=7, bounds="%lo to %hi"))
    assert ops(module, "scf.for") == []
    assert call(module, 0, 0, 0, DATA) == expected(range(7), 0, DATA)


@pytest.mark.seed("A02")
def test_policies_imply_nothing() -> None:
    """A loop without ``pipeline`` is not read ahead, and ``pipeline`` does not unroll."""
    module = specialized(text("unroll(%factor)"))
    assert all(len(op.results) == 1 for op in ops(module, "scf.for"))
    module = specialized(text("pipeline(%depth)"))
    assert all(len(ops(op, "view.load")) == 1 for op in ops(module, "scf.for"))


SHRINK = """\
func.def public @f(%n: index, %x: view<64xi32>) -> (i32) {
  %depth = index.constant 3 : index
  %factor = index.constant 2 : index
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c10 = index.constant 10 : index
  %at0 = index.constant 0 : offset
  %bytes = index.constant 64 : offset
  %storage = buffer.alloca<private> align(4) %bytes : buffer
  %seven = scalar.constant 7 : i32
  %zero = scalar.constant 1 : i32
  %first = buffer.view %storage[%at0] : buffer -> view<[%c10]xi32>
  view.store %seven, %first[0] : i32, view<[%c10]xi32>
  %v, %len, %r = scf.for %i = [%c0 to %n step %c1](%cur = %first : view<[%c10]xi32>, %extent = %c10 : index, %acc = %zero : i32) -> (view<[%len]xi32>, index, i32) POLICY {
    %y = view.load %x[%i] : view<64xi32> -> i32
    %less = index.sub %extent, %c1 : index
    %small = buffer.view %storage[%at0] : buffer -> view<[%less]xi32>
    %next = scalar.addi %acc, %y : i32
    scf.yield %small, %less, %next : view<[%less]xi32>, index, i32
  }
  %last = view.load %v[0] : view<[%len]xi32> -> i32
  %tail = index.cast %len : index to i32
  %s = scalar.muli %r, %tail : i32
  %t = scalar.addi %s, %last : i32
  func.return %t : i32
}
"""


@pytest.mark.seed("Y06", "Y07")
@pytest.mark.parametrize(
    "policy", ["", "pipeline(%depth)", "unroll(%factor)", "pipeline(%depth) unroll(%factor) schedule(interleaved)"]
)
def test_carried_types_that_name_siblings(policy: str) -> None:
    """A view whose extent is carried beside it keeps the recurring scheme through every policy."""
    module = specialized(SHRINK.replace("POLICY ", policy + " " if policy else ""))
    for trips in range(8):
        want = (1 + int(DATA[:trips].sum())) * (10 - trips) + 7
        assert call(module, trips, DATA) == want


@pytest.mark.seed("A08")
def test_two_instantiations_have_their_own_depths() -> None:
    """Depth and factor are arguments of a template; each application keeps its own."""
    body = text("pipeline(%depth)").split("{\n", 1)[1].replace("  %depth = index.constant 3 : index\n", "")
    body = body.replace("func.return", "template.return")
    signature = "(%lower: index, %upper: index, %origin: index, %x: view<64xi32>, %depth: index) -> (i32)"
    types = "(index, index, index, view<64xi32>, index) -> (i32)"
    module = specialized(
        f"template.decl @t.sum{signature}\n\ntemplate.def<@t.sum> @sum_rows{signature} {{\n{body}\n"
        "func.def public @f(%lower: index, %upper: index, %origin: index, %x: view<64xi32>) -> (i32) {\n"
        "  %two = index.constant 2 : index\n  %five = index.constant 5 : index\n"
        f"  %a = template.apply<@t.sum>(%lower, %upper, %origin, %x, %two) : {types}\n"
        f"  %b = template.apply<@t.sum>(%lower, %upper, %origin, %x, %five) : {types}\n"
        "  %r = scalar.subi %a, %b : i32\n  func.return %r : i32\n}\n"
    )
    assert sorted(len(op.results) for op in ops(module, "scf.for")) == [1, 1, 2, 5]
    assert [call(module, 0, n, 0, DATA) for n in range(12)] == [0] * 12


@pytest.mark.seed("A25")
@pytest.mark.parametrize(
    ("depth", "hi", "outcome", "records"),
    [(3, 9, "pipelined", 2), (5, 5, "pipelined", 4), (5, 4, "serial", 0), (1, 9, "serial", 0)],
)
def test_reports_tell_what_was_built(depth: int, hi: int, outcome: str, records: int) -> None:
    """One row for the loop; when it reads ahead, one for each half that an operation is in."""
    module = parse_module(text("pipeline(%depth)", depth=depth, hi=hi, bounds="%lo to %hi"), "t.loom")
    rows = [detail.row() for detail in specialize(module, None).loops]
    assert rows[0] == {
        "category": "scf-pipeline",
        "function": "f",
        "loop": "t.loom:9:8",
        "outcome": outcome,
        "schedule": "read_ahead",
        "depth": depth,
        "queue_records": records,
        "values_per_record": int(records > 0),
        "read_count": int(records > 0),
    }
    stages = [(r["op"], r["stage"], r["iteration_lookahead"]) for r in rows[1:]]
    assert stages == (
        [
            ("index.sub", "producer", depth - 1),
            ("view.load", "producer", depth - 1),
            ("scalar.muli", "consumer", 0),
            ("scalar.addi", "consumer", 0),
        ]
        if records
        else []
    )
