"""Statements about counted loops, policies, fences and binding stages, each on the smallest program that shows it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loom import api
from loom.evaluate.dispatch import call_function
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.ir.core import Module, Op, Value
from loom.ir.diagnostics import LoomError
from loom.plugins.records import TargetProfile
from loom.specialize.pipeline import specialize
from loom.transforms.inline import inline_calls
from loom.transforms.loops import unroll_loops

WAVE32 = TargetProfile("test", "wave32", "test.core", {"subgroup_size": 4}, "none", ("test.target", "wave32"))


def loaded(text: str) -> Module:
    module = api.parse(text, "loop.loom")
    api.verify(module)
    return module


def specialized(text: str, target: TargetProfile | None = None) -> Module:
    result = specialize(loaded(text), target).module
    api.verify(result)
    return result


def call(module: Module, name: str, *arguments: Any) -> list[Any]:
    return call_function(Program(module, limits=Limits()), module.symbols()[name], list(arguments))


def named(module: Module, name: str) -> list[Op]:
    return [op for op in module.walk() if op.name == name]


SUMS = """\
func.def public @moments(%n: index, %input: view<64xf32>) -> (f32, f32) {
  %begin = index.constant 0 : index
  %step = index.constant 1 : index
  %zero = scalar.constant 0.0 : f32
  %sum, %sum_of_squares = scf.for %column = [%begin to %n step %step](
      %sum_acc = %zero : f32,
      %square_acc = %zero : f32
    ) -> (f32, f32){clause} {
    %value = view.load %input[%column] : view<64xf32> -> f32
    %square = scalar.mulf %value, %value : f32
    %next_sum = scalar.addf %sum_acc, %value : f32
    %next_square = scalar.addf %square_acc, %square : f32
    scf.yield %next_sum, %next_square : f32, f32
  }
  func.return %sum, %sum_of_squares : f32, f32
}
"""


@pytest.mark.seed("L04")
def test_accumulators_are_parallel_bindings() -> None:
    """Bindings over several lines are one tuple in canonical text; types of bindings and results must agree."""
    text = SUMS.replace("{clause}", "")
    module = loaded(text)
    printed = api.print(module)
    assert "(%sum_acc = %zero : f32, %square_acc = %zero : f32) -> (f32, f32) {" in printed
    assert api.print(loaded(printed)) == printed
    values = np.arange(64, dtype=np.float32)
    assert call(module, "moments", 9, values) == [36.0, 204.0]
    assert call(module, "moments", 0, values) == [0.0, 0.0]
    for wrong, code in (
        (text.replace("%square_acc = %zero : f32", "%square_acc = %n : index"), "TYPE/001"),
        (text.replace("yield %next_sum, %next_square : f32, f32", "yield %next_sum, %column : f32, index"), "TYPE/009"),
        (text.replace("yield %next_sum, %next_square : f32, f32", "yield %next_sum : f32"), "STRUCTURE/008"),
        (text.replace("-> (f32, f32) {", "-> (f32) {"), "STRUCTURE/013"),
    ):
        with pytest.raises(LoomError) as caught:
            loaded(wrong)
        assert code in [d.code for d in caught.value.diagnostics]


def sources(value: Value) -> set[Op]:
    """The operations that a value is computed from within its block."""
    found: set[Op] = set()
    pending = [value]
    while pending:
        op = pending.pop().defining_op
        if op is not None and op not in found:
            found.add(op)
            pending += op.operands
    return found


@pytest.mark.seed("L05")
@pytest.mark.parametrize("schedule", ["linear", "interleaved", "recurrence"])
def test_recurrences_stay_apart_when_unrolled(schedule: str) -> None:
    """The sums of the copies form two chains; only loads are shared, and the report names one unrolled loop."""
    text = SUMS.replace("{clause}", f" unroll(%f) schedule({schedule})")
    text = text.replace("%zero = ", "%f = index.constant 4 : index\n  %zero = ")
    text = text.replace("  %sum, ", "  %c8 = index.constant 8 : index\n  %sum, ").replace("to %n step", "to %c8 step")
    module = loaded(text)
    details = unroll_loops(module.symbols()["moments"], {})
    assert [(d.fields["outcome"], d.fields["unroll_factor"], d.fields["schedule"]) for d in details] == [
        ("unrolled", 4, schedule)
    ]
    (loop,) = named(module, "scf.for")
    end = loop.regions[0].entry.last
    assert end is not None
    first, second = (sources(v) for v in end.operands)
    adds = [{op for op in chain if op.name == "scalar.addf"} for chain in (first, second)]
    assert [len(chain) for chain in adds] == [4, 4]
    assert not adds[0] & adds[1]
    assert {op.name for op in first & second} <= {"view.load", "index.add", "index.constant"}
    order = [op for op in loop.regions[0].entry if op in adds[0] | adds[1]]
    alternates = [op in adds[0] for op in order]
    assert alternates == ([True, False] * 4 if schedule != "interleaved" else [True] * 4 + [False] * 4)


FACTOR = """\
template.decl @sum.to(%n: index, %factor: index) -> (index)

template.def<@sum.to> @sum.any(%n: index, %factor: index) -> (index) {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %r = scf.for %i = [%c0 to %n step %c1](%acc = %c0 : index) -> (index) unroll(%factor) {
    %next = index.add %acc, %i : index
    scf.yield %next : index
  }
  template.return %r : index
}

config.def @copies = 4 : index

func.def public @f(%n: index, %m: index) -> (index) {
  %c2 = index.constant 2 : index
  {factor}
  %r = template.apply<@sum.to>(%n, %factor) : (index, index) -> (index)
  func.return %r : index
}
"""


@pytest.mark.seed("U04")
@pytest.mark.parametrize(
    "factor",
    [
        "%factor = index.constant 4 : index",
        "%factor = index.mul %c2, %c2 : index",
        "%factor = target.subgroup.size : index",
        "%factor = config.get @copies : index",
        "%factor = index.assume %m [range(%m, 4, 4)] : index",
    ],
)
def test_factors_come_from_whatever_specialization_knows(factor: str) -> None:
    """A template's argument that is a constant, computed, a fact of the target, configuration, or a proven value."""
    module = specialized(FACTOR.replace("{factor}", factor), WAVE32)
    (loop,) = named(module, "scf.for")
    assert len(named(module, "scf.if")) == 3, "three of four copies are guarded"
    step = loop.operands[2].defining_op
    assert step is not None
    assert step.attribute("value") == 4
    assert [call(module, "f", n, 4)[0] for n in range(10)] == [sum(range(n)) for n in range(10)]


@pytest.mark.seed("U04")
def test_a_factor_that_only_the_run_knows_is_refused() -> None:
    text = FACTOR.replace("{factor}", "%factor = index.add %m, %c2 : index")
    with pytest.raises(LoomError) as caught:
        specialized(text, WAVE32)
    (found,) = caught.value.diagnostics
    assert (found.code, found.params["attr_name"]) == ("STRUCTURE/014", "unroll_factor")


FENCES = """\
func.def inline @consume(%v: i32, %x: view<64xi32>) -> (i32) {
  %scaled = scalar.muli %v, %v : i32
  scf.schedule.fence
  func.return %scaled : i32
}

func.def public @f(%a: i32, %x: view<64xi32>) -> (i32) {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c4 = index.constant 4 : index
  %r = scf.for %i = [%c0 to %c4 step %c1](%acc = %a : i32) -> (i32) unroll schedule({schedule}) {
    %v = func.call @consume(%acc, %x) : (i32, view<64xi32>) -> (i32)
    %y = view.load %x[%i] : view<64xi32> -> i32
    %next = scalar.addi %v, %y : i32
    scf.yield %next : i32
  }
  func.return %r : i32
}
"""


FREE = {
    "linear": ["scalar.muli", "view.load"] * 4,
    "interleaved": ["scalar.muli", *["view.load"] * 4, *["scalar.muli"] * 3],
    "recurrence": ["scalar.muli", "view.load"] * 4,
}


@pytest.mark.seed("N02", "O04")
@pytest.mark.parametrize("schedule", ["linear", "interleaved", "recurrence"])
def test_a_fence_of_an_inlined_helper_orders_its_caller(schedule: str) -> None:
    """The caller's load is independent of the helper's product, yet stays behind the helper's fence in every copy."""
    text = FENCES.replace("{schedule}", schedule)
    module = loaded(text)
    function = module.symbols()["f"]
    inline_calls(function, module.symbols())
    unroll_loops(function, {})
    api.verify(module)
    order = [op.name for op in function.walk() if op.name in ("scalar.muli", "scf.schedule.fence", "view.load")]
    assert order == ["scalar.muli", "scf.schedule.fence", "view.load"] * 4
    free = loaded(text.replace("  scf.schedule.fence\n", ""))
    inline_calls(free.symbols()["f"], free.symbols())
    unroll_loops(free.symbols()["f"], {})
    moved = [op.name for op in free.symbols()["f"].walk() if op.name in ("scalar.muli", "view.load")]
    assert moved == FREE[schedule], "without the fence the schedules choose"


NESTED = """\
func.def public @f(%a: i32, %c: i1, %x: view<64xi32>) -> (i32) {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c3 = index.constant 3 : index
  %r = scf.for %i = [%c0 to %c3 step %c1](%acc = %a : i32) -> (i32) unroll schedule({schedule}) {
    %y = view.load %x[%i] : view<64xi32> -> i32
    %v = scf.if %c -> (i32) {
      %scaled = scalar.muli %acc, %y : i32
      scf.schedule.fence
      %z = view.load %x[%c0] : view<64xi32> -> i32
      %w = scalar.addi %scaled, %z : i32
      scf.yield %w : i32
    } else {
      scf.yield %acc : i32
    }
    scf.yield %v : i32
  }
  func.return %r : i32
}
"""


OUTSIDE = {
    "linear": ["view.load", "scf.if"] * 3,
    "interleaved": [*["view.load"] * 3, *["scf.if"] * 3],
    "recurrence": ["view.load", "scf.if"] * 3,
}


@pytest.mark.seed("N03")
@pytest.mark.parametrize("schedule", ["linear", "interleaved", "recurrence"])
def test_a_fence_in_a_region_keeps_its_scope(schedule: str) -> None:
    """Each copy of the conditional has the fence at its place; the loads outside stay free to move together."""
    module = loaded(NESTED.replace("{schedule}", schedule))
    function = module.symbols()["f"]
    unroll_loops(function, {})
    api.verify(module)
    conditionals = named(module, "scf.if")
    assert len(conditionals) == 3
    for op in conditionals:
        inside = [inner.name for inner in op.regions[0].entry]
        assert inside == ["scalar.muli", "scf.schedule.fence", "view.load", "scalar.addi", "scf.yield"]
    outside = [op.name for op in function.regions[0].entry if op.name in ("view.load", "scf.if", "scf.schedule.fence")]
    assert outside == OUTSIDE[schedule]


CLAUSES = """\
func.def public @f(%n: index, %x: view<64xi32>) -> (i32) {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %d = index.constant 2 : index
  %f = index.constant 3 : index
  %zero = scalar.constant 0 : i32
  %r = scf.for %i = [%c0 to %n step %c1](%acc = %zero : i32) -> (i32){clauses} {
    %y = view.load %x[%i] : view<64xi32> -> i32
    %next = scalar.addi %acc, %y : i32
    scf.yield %next : i32
  }
  func.return %r : i32
}
"""
ORDERED = (
    "",
    " pipeline(%d)",
    " unroll(%f)",
    " unroll",
    " unroll(%f) schedule(linear)",
    " unroll schedule(interleaved)",
    " pipeline(%d) unroll(%f)",
    " pipeline(%d) unroll",
    " pipeline(%d) unroll(%f) schedule(recurrence)",
)
DISORDERED = (
    " unroll(%f) pipeline(%d)",
    " schedule(linear) unroll(%f)",
    " unroll(%f) schedule(linear) pipeline(%d)",
    " pipeline(%d) schedule(linear) unroll(%f)",
    " pipeline(%d) pipeline(%d)",
    " unroll(%f) unroll(%f)",
    " unroll(%f) unroll",
)


@pytest.mark.seed("A01")
@pytest.mark.parametrize("clauses", ORDERED)
def test_clauses_stand_in_the_order_of_transformation(clauses: str) -> None:
    text = CLAUSES.replace("{clauses}", clauses)
    assert api.print(loaded(text)) == text


@pytest.mark.seed("A01")
@pytest.mark.parametrize("clauses", DISORDERED)
def test_no_other_order_is_read(clauses: str) -> None:
    with pytest.raises(LoomError) as caught:
        loaded(CLAUSES.replace("{clauses}", clauses))
    assert caught.value.diagnostics[0].code in ("PARSE/003", "STRUCTURE/014")


@pytest.mark.seed("A01")
@pytest.mark.parametrize("clauses", [" pipeline(%d) schedule(linear)", " schedule(linear)"])
def test_a_schedule_needs_an_unroll_clause(clauses: str) -> None:
    with pytest.raises(LoomError) as caught:
        loaded(CLAUSES.replace("{clauses}", clauses))
    assert [d.code for d in caught.value.diagnostics] == ["STRUCTURE/014"]


KERNEL = """\
kernel.def export("k") @k(%elements: index) {
  %one = index.constant 1 : index
  %c64 = index.constant 64 : index
  %groups = index.div %elements, %c64 : index
  kernel.launch.config workgroups(%groups, %one, %one) workgroup_size(%c64, %one, %one) : index
} launch(%count: index, %out: buffer) {
  %at0 = index.constant 0 : offset
  %lane = kernel.workitem.id<x> : index
  %v = buffer.view %out[%at0] : buffer -> view<64xi32>
  {known}
  %total = index.add %n, %n : index
  %word = index.cast %total : index to i32
  view.store %word, %v[%lane] : i32, view<64xi32>
  kernel.return
}
"""


@pytest.mark.seed("B03")
@pytest.mark.parametrize(
    ("known", "exact"),
    [
        ("%n = index.assume %count [range(%count, 0, 64)] : index", None),
        ("%n = index.assume %count [multiple_of(%count, 64)] : index", None),
        ("%n = index.assume %count [range(%count, 48, 48)] : index", 96),
        ("%n = index.assume %count [range(%count, 1, 64), multiple_of(%count, 64)] : index", 128),
    ],
)
def test_launch_values_become_constants_only_by_facts(known: str, exact: int | None) -> None:
    """The launch configuration stays a computation on the workload; the body folds what its facts pin down."""
    module = specialized(KERNEL.replace("{known}", known))
    assert len(named(module, "index.div")) == 1, "the workload is not known before the launch"
    cast = next(iter(named(module, "index.cast")), None)
    if exact is None:
        assert cast is not None
        assert len(named(module, "index.add")) == 1
    else:
        assert not named(module, "index.add")
        (store,) = named(module, "view.store")
        constant = store.operands[0].defining_op
        assert constant is not None
        assert constant.attribute("value") == exact
