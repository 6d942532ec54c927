"""Inserting checks and observations: what is guarded, what stays, and that guarded programs fault in their checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loom import api
from loom.evaluate.dispatch import launch_kernel
from loom.evaluate.machine import Program
from loom.ir.core import Module
from loom.ir.diagnostics import LoomError
from loom.passes.model import Context
from loom.passes.requests import read_requests
from loom.passes.run import Runner
from loom.text.printer import print_module

KERNEL = """\
kernel.def export("k") @k(%n: index) {
  %unit = index.constant 1 : index
  %size = index.constant 8 : index
  %groups = index.div %n, %n : index
  kernel.launch.config workgroups(%groups, %unit, %unit) workgroup_size(%size, %unit, %unit) : index
} launch(%b: buffer, %n: index) where [range(%n, 1, 64)] {
  %at0 = index.constant 0 : offset
  %lane = kernel.workitem.id<x> : index
  %q = index.div %lane, %n : index
  %v = buffer.view %b[%at0] : buffer -> view<[%n]xf32>
  %w = buffer.view %b[%at0] : buffer -> view<8x8xf32>
  %i = index.assume %q [range(%q, 0, 7)] : index
  %x = view.load %v[%i] : view<[%n]xf32> -> f32
  %y = vector.load %w[%i, 4] : view<8x8xf32> -> vector<4xf32>
  kernel.barrier<global> scope(workgroup) ordering(acq_rel)
  view.store %x, %v[%lane] : f32, view<[%n]xf32>
  kernel.return
}
"""


def instrumented(passes: str, text: str = KERNEL) -> Module:
    module = api.parse(text, "in.loom")
    api.verify(module)
    Runner(module, Context()).run(read_requests(passes))
    api.verify(module)
    return module


def added(passes: str, text: str = KERNEL) -> list[str]:
    """The lines that a pass adds, without indentation."""
    before = print_module(api.parse(text)).splitlines()
    return [line.strip() for line in print_module(instrumented(passes, text)).splitlines() if line not in before]


ACCESS = [
    "sanitizer.assert.access<read> %v[%i] : view<[%n]xf32>",
    "sanitizer.assert.access<read> %w[%i, 4] {static_extents = [1, 4]} : view<8x8xf32>",
    "sanitizer.assert.access<write> %v[%lane] : view<[%n]xf32>",
]
VALUE = [
    "sanitizer.assert.op %n [range(%n, 1, 64)] : index",
    "%i = sanitizer.assert.value %q [range(%q, 0, 7)] : index",
]
OPERATION = ["sanitizer.assert.op %n [ne(%n, 0)] : index"]


@pytest.mark.parametrize(
    ("checks", "lines"),
    [
        ("access", ACCESS),
        ("value", VALUE),
        ("operation", OPERATION),
        ("race", []),
        ("[operation, value]", [VALUE[0], OPERATION[0], VALUE[1]]),
    ],
)
def test_assertions_of_the_kinds_asked_for(checks: str, lines: list[str]) -> None:
    """The launch configuration, which no device runs, has none."""
    assert added(f"sanitizer-insert-assertions{{checks={checks}}}") == lines


def test_all_kinds_without_an_option() -> None:
    assert sorted(added("sanitizer-insert-assertions")) == sorted([*ACCESS, *VALUE, *OPERATION])


def test_observations() -> None:
    assert added("sanitizer-insert-race-observations") == [
        "sanitizer.race.access<read> %v[%i] : view<[%n]xf32>",
        *(f"sanitizer.race.access<read> %w[%i, {k}] : view<8x8xf32>" for k in range(4, 8)),
        "sanitizer.race.sync<global> scope(workgroup) ordering(acq_rel)",
        "sanitizer.race.access<write> %v[%lane] : view<[%n]xf32>",
    ]
    assert added("sanitizer-insert-race-observations{checks=[access]}") == []


def test_a_vector_at_a_dynamic_index_is_observed_element_by_element() -> None:
    text = KERNEL.replace("%w[%i, 4]", "%w[0, %i]")
    lines = added("sanitizer-insert-race-observations", text)
    assert sum("race.access<read> %w[0, " in line for line in lines) == 4
    assert sum("index.add %i" in line for line in lines) == 3


ATOMIC = """\
func.def public @f(%v: view<4x[%n]xi32>, %n: index, %x: i32, %m: vector<4xi1>, %p: vector<4xi32>, %s: i32) {
  view.atomic.reduce<addi> %x, %v[0, 1] {ordering = release, scope = device} : i32, view<4x[%n]xi32>
  %old = view.atomic.cmpxchg %x, %x, %v[0, 1] {failure_ordering = relaxed, scope = workgroup, success_ordering = acquire} : i32, view<4x[%n]xi32> -> i32
  %a = vector.load.mask %v[0, 0], %m, %p : view<4x[%n]xi32>, vector<4xi1>, vector<4xi32> -> vector<4xi32>
  %b = scalar.shli %x, %s : i32
  %c = scalar.divsi %x, %s : i32
  func.return
}
"""


def test_atomics_shifts_and_divisions() -> None:
    """Masked accesses stay alone: the mask decides what they touch."""
    assert added("sanitizer-insert-assertions, sanitizer-insert-race-observations", ATOMIC) == [
        "sanitizer.assert.access<read_write> %v[0, 1] : view<4x[%n]xi32>",
        "sanitizer.race.access<read_write> %v[0, 1] {atomic = true, ordering = release, scope = device} : view<4x[%n]xi32>",
        "sanitizer.assert.access<read_write> %v[0, 1] : view<4x[%n]xi32>",
        "sanitizer.race.access<read_write> %v[0, 1] {atomic = true, ordering = acquire, scope = workgroup} : view<4x[%n]xi32>",
        "sanitizer.assert.op %s [range(%s, 0, 31)] : i32",
        "sanitizer.assert.op %s [ne(%s, 0)] : i32",
    ]


def test_pure_functions_stay_pure() -> None:
    text = """\
func.def pure @f(%a: i32, %b: i32) -> (i32) {
  %c = scalar.divsi %a, %b : i32
  func.return %c : i32
}

func.def @g(%a: i32, %b: i32) -> (i32) {
  %c = func.call pure @f(%a, %b) : (i32, i32) -> (i32)
  func.return %c : i32
}
"""
    assert added("sanitizer-insert-assertions", text) == []


FRAGMENTS = """\
kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%unit, %unit, %unit) : index
} launch(%v: view<4x4xi32>) {
  %two = index.constant 2 : index
  %f = vector.fragment.load<lhs> %v[0, 2] shape [%two, %two] : view<4x4xi32> -> vector<2x2xi32>
  %g = vector.fragment.load<result> %v[0, 0] shape [%two, %two] : view<4x4xi32> -> vector<2x2xi32>
  vector.fragment.store<result> %g, %v[2, 0] shape [%two, %two] : vector<2x2xi32>, view<4x4xi32>
  kernel.return
}
"""


def test_fragments_are_observed() -> None:
    observed = "sanitizer.race.fragment_access<{}> %{}, %v[{}] shape [%two, %two] {{role = {}}} : vector<2x2xi32>, view<4x4xi32>"
    assert added("sanitizer-insert-race-observations", FRAGMENTS) == [
        observed.format("read", "f", "0, 2", "lhs"),
        observed.format("read", "g", "0, 0", "result"),
        observed.format("write", "g", "2, 0", "result"),
    ]
    module = instrumented("sanitizer-insert-race-observations", FRAGMENTS)
    launch_kernel(Program(module), module.symbols()["k"], [], [np.zeros((4, 4), dtype=np.int32)])


def launch(module: Module, n: int, x: Any) -> None:
    launch_kernel(Program(module), module.symbols()["k"], [8], [x, n])


def test_guarded_programs_do_what_they_did() -> None:
    """Lane 0 writes element 0 after all have read it."""
    expected, x = np.arange(64, dtype=np.float32), np.arange(64, dtype=np.float32)
    launch(api.parse(KERNEL), 16, expected)
    launch(instrumented("sanitizer-insert-assertions, sanitizer-insert-race-observations"), 16, x)
    assert (x == expected).all()


@pytest.mark.parametrize(
    ("passes", "n", "text", "op"),
    [
        ("sanitizer-insert-assertions", 4, KERNEL, "sanitizer.assert.access"),
        (
            "sanitizer-insert-assertions{checks=value}",
            16,
            KERNEL.replace("range(%q, 0, 7)", "range(%q, 1, 7)"),
            "sanitizer.assert.value",
        ),
        ("sanitizer-insert-race-observations", 16, KERNEL.replace("%v[%lane]", "%v[0]"), "sanitizer.race.access"),
    ],
)
def test_wrong_programs_fault_in_their_checks(passes: str, n: int, text: str, op: str) -> None:
    with pytest.raises(LoomError) as caught:
        launch(instrumented(passes, text), n, np.zeros(64, dtype=np.float32))
    (found,) = caught.value.diagnostics
    assert found.params["op_name"] == op
    position = found.position()
    assert position is not None
    assert position[0] == "in.loom"
