"""The guide's loop listings and the shared programs on loops and layouts, on every device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

# How many samples each has; all of them pass everywhere.
SAMPLES = {"rotating_slots": 1, "read_ahead": 66, "strided_layouts": 2}

ROTATE = """

kernel.def export("rotate_all") @rotate_all() {
  %unit = index.constant 1 : index
  %width = index.constant 32 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%output: buffer) {
  %base = index.constant 0 : offset
  %out = buffer.view %output[%base] : buffer -> view<32xi32>
  %lane = kernel.workitem.id<x> : index
  %value = func.call @rotate_slots(%lane) : (index) -> (i32)
  view.store %value, %out[%lane] : i32, view<32xi32>
  kernel.return
}

check.case public @rotate_by_lane {
  %out = check.generate.fill value(0) : tensor<32xi32>
  %want = check.generate.iota offset(1) step(7) : tensor<32xi32>
  kernel.launch @rotate_all(%out) : (tensor<32xi32>)
  check.expect.equal actual(%out) expected(%want) : tensor<32xi32>
  check.return
}
"""
AGREES = """

check.case public @order_is_kept {
  %rows = check.param.range linear bounds(0 to 24) name("rows") : index
  %seed = check.param.seed base(5) count(1) name("seed") : i64
  %input = check.generate.random.uniform seed(%seed) range(-8.0 to 8.0) : tensor<64x32x4xf32>
  %ahead = check.generate.fill value(-1.0) : tensor<32xf32>
  %plain = check.generate.fill value(-2.0) : tensor<32xf32>
  kernel.launch @sum_vector_rows(%rows, %input, %ahead) : (index, tensor<64x32x4xf32>, tensor<32xf32>)
  kernel.launch @serial_rows(%rows, %input, %plain) : (index, tensor<64x32x4xf32>, tensor<32xf32>)
  check.expect.bitwise actual(%ahead) expected(%plain) : tensor<32xf32>
  check.return
}
"""


def with_case(shared: Path, name: str) -> str:
    """A listing with a case that runs it in a kernel."""
    text = (shared / "seeds" / "listings" / f"{name}.loom").read_text()
    if name == "rotating-views":
        return text + ROTATE
    kernel = text[text.index("kernel.def") :].replace("sum_vector_rows()", "serial_rows()")
    kernel = kernel.replace('export("sum_vector_rows")', 'export("serial_rows")')
    for policy, value in (("depth", 4), ("factor", 6)):
        assert f"%{policy} = index.constant {value}" in kernel
        kernel = kernel.replace(f"%{policy} = index.constant {value}", f"%{policy} = index.constant 1")
    return text + "\n" + kernel + AGREES


def require_passed(machine: Any, path: Path, samples: int) -> None:
    report = machine.check([path])
    assert (report.sample_count, report.skipped_case_count, report.planning_issue_count) == (samples, 0, 0)
    assert [(s.case, s.issue or s.expectations) for s in report.samples if not s.passed] == []


@pytest.mark.seed("R01", "R02", "R03")
def test_rotating_views(machine: Any, shared: Path, tmp_path: Path) -> None:
    path = tmp_path / "rotating-views.loom"
    path.write_text(with_case(shared, "rotating-views"))
    require_passed(machine, path, 1)


@pytest.mark.seed("A03", "A04", "EX6")
def test_vector_read_ahead(machine: Any, shared: Path, tmp_path: Path) -> None:
    """Empty, shorter than the queue, and past one round of the grouped steady loop: the serial bits."""
    path = tmp_path / "vector-read-ahead.loom"
    path.write_text(with_case(shared, "vector-read-ahead"))
    require_passed(machine, path, 25)


@pytest.mark.seed("R01", "A03", "Y02")
@pytest.mark.parametrize("name", SAMPLES)
def test_shared_loops(machine: Any, shared: Path, name: str) -> None:
    require_passed(machine, shared / "cases" / f"{name}.loom", SAMPLES[name])
