"""Programs with cases, on every device: the examples, the shared cases, and random data compared bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loom.check.report import TestReport
from loom.ir.diagnostics import LoomError

EXAMPLES = {
    "saxpy.loom": 5,
    "row_moments.loom": 7,
    "tile_transpose.loom": 10,
    "host_functions.loom": 3,
    "softmax.loom": 8,
    "layernorm.loom": 9,
    "rope.loom": 11,
    "tiled_matmul.loom": 19,
    "attention.loom": 6,
    "q8_matvec.loom": 8,
}
"""Example -> how many samples its cases have."""

NOT_ON_X86 = {
    "tile_transpose.loom": "barrier",
    "tiled_matmul.loom": "barrier",
    "softmax.loom": "kernel.workgroup.reduce",
    "layernorm.loom": "kernel.workgroup.reduce",
    "attention.loom": "vector.constant",
    "q8_matvec.loom": "vector.constant",
}
"""Program -> what x86 cannot do of it. Work-items run one after the other there."""

SHARED = {
    "saxpy_tail.loom": 5,
    "row_stats.loom": 4,
    "tile_transpose.loom": 4,
    "host_functions.loom": 2,
    "integer_edges.loom": 4,
}


def require_all_passed(report: TestReport, samples: int) -> None:
    failures = [(s.case, s.sample_ordinal, s.issue or s.expectations) for s in report.samples if not s.passed]
    assert failures == []
    assert (report.sample_count, report.skipped_case_count, report.planning_issue_count) == (samples, 0, 0)


def require_diagnostic(report: TestReport, file: str, missing: str) -> None:
    """What a device cannot do is refused where it stands."""
    assert report.samples
    for sample in report.samples:
        assert sample.issue is not None
        assert sample.issue.category == "program"
        assert missing in sample.issue.message
        assert sample.issue.source_location is not None
        assert Path(sample.issue.source_location.filename).name == file


def check_program(machine: Any, path: Path, samples: int) -> None:
    report = machine.check([path])
    if machine.is_x86 and path.name in NOT_ON_X86:
        require_diagnostic(report, path.name, NOT_ON_X86[path.name])
    else:
        require_all_passed(report, samples)


@pytest.mark.seed("T01")
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_pass(machine: Any, root: Path, name: str) -> None:
    """The cases of the examples pass on every device; a barrier is diagnosed on x86."""
    check_program(machine, root / "examples" / name, EXAMPLES[name])


def test_scenarios_pass(machine: Any, root: Path, tmp_path: Path) -> None:
    """Trials draw the same values on every device, and each device's own code is what is compared."""
    report = machine.check([root / "examples" / "average.loom"])
    assert [t.issue or t.expectations.failures for t in report.trials if not t.passed] == []
    assert (report.trial_count, report.scenario_count) == (65, 1)
    wrong = tmp_path / "average.loom"
    wrong.write_text(
        (root / "examples" / "average.loom").read_text().replace("scalar.andi %a, %b", "scalar.ori %a, %b")
    )
    report = machine.check([wrong])
    # Wrong where the words differ in the lowest bit or elsewhere: nearly always.
    assert report.failed_trial_count > 60
    assert all(t.issue is None for t in report.trials)


STORAGE = """\
func.def @same(%x: buffer) -> (%x as buffer) {
  func.return %x : buffer
}

func.def @increment(%x: buffer) {
  %origin = index.constant 0 : offset
  %one = scalar.constant 1 : i32
  %v = buffer.view %x[%origin] : buffer -> view<4xi32>
  %old = view.load %v[2] : view<4xi32> -> i32
  %new = scalar.addi %old, %one : i32
  view.store %new, %v[2] : i32, view<4xi32>
  func.return
}

func.def @scale(%x: view<4xf32>, %by: f32) {
  %old = view.load %x[1] : view<4xf32> -> f32
  %new = scalar.mulf %old, %by : f32
  view.store %new, %x[1] : f32, view<4xf32>
  func.return
}

check.scenario @storage {
  check.trial[2](%t: index, %entropy: check.entropy) {
    %x = check.generate.iota offset(0) step(1) : tensor<4xi32>
    check.compare<@increment>(%x) : (tensor<4xi32>) -> () {
      check.expect.equal actual(%x) expected(%x) : tensor<4xi32>
    }
    check.invoke<@increment>(%x) : (tensor<4xi32>) -> ()
    %third = check.tensor.view %x offset(8) : tensor<4xi32> -> tensor<1xi32>
    %three = check.generate.fill value(3) : tensor<1xi32>
    check.expect.equal actual(%third) expected(%three) : tensor<1xi32>
    %y = check.invoke<@same>(%x) : (tensor<4xi32>) -> (buffer)
    %z = check.invoke<@same>(%y) : (buffer) -> (buffer)
    check.expect.equal actual(%z) expected(%y) : buffer
    %f = check.generate.fill value(1.5) : tensor<4xf32>
    %by = check.literal value(2.0) : f32
    check.invoke<@scale>(%f, %by) : (tensor<4xf32>, f32) -> ()
    %second = check.tensor.view %f offset(4) : tensor<4xf32> -> tensor<1xf32>
    %scaled = check.generate.fill value(3.0) : tensor<1xf32>
    check.expect.equal actual(%second) expected(%scaled) : tensor<1xf32>
  }
  check.return
}
"""


EVENTS = """\
kernel.def @touch(%count: index) {
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%count, %one, %one) : index
} launch(%x: buffer) {
  %i = kernel.workitem.id<x> : index
  %origin = index.constant 0 : offset
  %v = buffer.view %x[%origin] : buffer -> view<8xi32>
  %zero = scalar.constant 0 : i32
  view.store %zero, %v[%i] : i32, view<8xi32>
  kernel.return
}

check.case @touches {
  %n = check.param.choice values([4, 5]) name("count") : index
  %x = check.generate.fill value(7) : tensor<4xi32>
  kernel.launch @touch[%n](%x) : [index](tensor<4xi32>)
  check.expect.event<device> {function = "touch", type = "asan_report"}
  check.return
}
"""


def test_a_store_behind_a_buffer_is_an_event(machine: Any, tmp_path: Path) -> None:
    """Every device notices it; the sample that stays inside fails for want of the event."""
    path = tmp_path / "touch.loom"
    path.write_text(EVENTS)
    inside, outside = machine.check([path]).samples
    assert outside.passed, outside
    assert (inside.issue, len(inside.expectations.failures)) == (None, 1)


def test_functions_under_test_update_their_arguments(machine: Any, tmp_path: Path) -> None:
    """Storage that a function is given, and storage that it returns, on every device."""
    path = tmp_path / "storage.loom"
    path.write_text(STORAGE)
    report = machine.check([path])
    assert [t.issue or t.expectations.failures for t in report.trials if not t.passed] == []
    assert report.trial_count == 2


@pytest.mark.seed("EX10", "T01", "X02")
def test_the_elementwise_transform_passes(machine: Any, root: Path) -> None:
    """The cases of the example over three modules pass on every device, tails and an empty buffer included."""
    folder = root / "examples" / "elementwise-transform"
    report = machine.check([folder / "checks.loom"], [folder / "kernel.loom", folder / "motif.loom"])
    require_all_passed(report, 7)
    counts = [dict(s.parameters.pairs)["count"] for s in report.samples if s.case == "every_tail"]
    assert counts == [0, 1, 63, 64, 65, 1009]


@pytest.mark.seed("K05", "L03", "J01")
@pytest.mark.parametrize("name", SHARED)
def test_shared_cases_pass(machine: Any, shared: Path, name: str) -> None:
    """The shared cases pass on every device; a barrier is diagnosed on x86."""
    check_program(machine, shared / "cases" / name, SHARED[name])


@pytest.mark.seed("W03")
def test_providers_follow_the_subgroup(machine: Any, shared: Path) -> None:
    """Where the subgroup has 32 or 64 lanes one case of each runs and passes, elsewhere both are skipped."""
    report = machine.check([shared / "cases" / "family_by_subgroup.loom"])
    passed = {s.case for s in report.samples if s.passed}
    wave = {"amdgpu:gfx1100": 32, "amdgpu:gfx1200": 32, "amdgpu:gfx942": 64}.get(machine.target or "")
    assert passed == ({f"picks_on_wave{wave}"} if wave else set())
    assert report.sample_count + report.skipped_case_count == 2


def test_nothing_shared_gets_a_wrong_answer(machine: Any, shared: Path) -> None:
    """Every other shared program passes, or is refused with a located diagnostic: never a wrong value or a traceback."""
    wrong = []
    for path in sorted((shared / "cases").glob("*.loom")):
        if path.name in SHARED:
            continue
        try:
            report = machine.check([path])
        except LoomError as error:
            if any(diagnostic.location is None for diagnostic in error.diagnostics):
                wrong.append((path.name, str(error)))
            continue
        for sample in report.samples:
            if sample.passed:
                continue
            if sample.issue is None or sample.issue.category != "program" or sample.issue.source_location is None:
                wrong.append((path.name, str(sample.issue or sample.expectations)))
    assert wrong == []


SAXPY = """
check.case public @random {
  %count = check.param.choice values([COUNT]) name("count") : index
  %a = check.literal value(0.7071067690849304) : f32
  %one = check.literal value(1) : i64
  %two = check.literal value(2) : i64
  %x = check.generate.random.uniform seed(%one) range(-4.0 to 4.0) : tensor<[%count]xf32>
  %y = check.generate.random.uniform seed(%two) range(-4.0 to 4.0) : tensor<[%count]xf32>
  %z = check.generate.fill value(0.0) : tensor<[%count]xf32>
  kernel.launch @saxpy[%count](%count, %a, %x, %y, %z) : [index](index, f32, tensor<[%count]xf32>, tensor<[%count]xf32>, tensor<[%count]xf32>)
  check.file.write.npy value(%x) path("x.npy") mode(always) : tensor<[%count]xf32>
  check.file.write.npy value(%y) path("y.npy") mode(always) : tensor<[%count]xf32>
  check.file.write.npy value(%z) path("z.npy") mode(always) : tensor<[%count]xf32>
  check.return
}
"""

MOMENTS = """
check.case public @random {
  %count = check.param.choice values([COUNT]) name("count") : index
  %columns = check.literal value(37) : index
  %one = check.literal value(1) : i64
  %x = check.generate.random.uniform seed(%one) range(-4.0 to 4.0) : tensor<[%count]x37xf32>
  %y = check.generate.fill value(0.0) : tensor<[%count]xf32>
  %z = check.generate.fill value(0.0) : tensor<[%count]xf32>
  kernel.launch @row_moments[%count](%count, %columns, %x, %y, %z) : [index](index, index, tensor<[%count]x37xf32>, tensor<[%count]xf32>, tensor<[%count]xf32>)
  check.file.write.npy value(%x) path("x.npy") mode(always) : tensor<[%count]x37xf32>
  check.file.write.npy value(%y) path("y.npy") mode(always) : tensor<[%count]xf32>
  check.file.write.npy value(%z) path("z.npy") mode(always) : tensor<[%count]xf32>
  check.return
}
"""


def saxpy(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    # The product of two f32 is exact in f64; the sum there is rounded, which differs from one rounding only
    # next to the middle of two f32. The reference decides those; here they are accepted within half a unit.
    return {"z": (np.float64(np.float32(0.7071067690849304)) * x + y.astype(np.float64)).astype(np.float32)}


def moments(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    total = np.zeros(len(x), np.float32)
    for column in x.T:
        total = total + column
    return {"y": total}


@pytest.mark.parametrize("count", [1, 31, 32, 33, 63, 64, 65, 1009])
@pytest.mark.parametrize(
    ("example", "case", "expected"),
    [("saxpy.loom", SAXPY, saxpy), ("row_moments.loom", MOMENTS, moments)],
    ids=["saxpy", "row_moments"],
)
def test_random_data_gives_the_bits_of_the_reference(
    machine: Any,
    root: Path,
    tmp_path: Path,
    example: str,
    case: str,
    expected: Callable[[np.ndarray, np.ndarray], dict[str, np.ndarray]],
    count: int,
) -> None:
    """For full and partial workgroups every device computes what the reference does, and that is what NumPy does."""
    from loom import api

    program = tmp_path / example
    program.write_text((root / "examples" / example).read_text() + case.replace("COUNT", str(count)))
    found: dict[str, dict[str, np.ndarray]] = {}
    for name in ("reference", "device"):
        folder = tmp_path / name
        selection: dict[str, Any] = {"cases": ["random"], "output_directory": folder}
        report = api.check([program], **selection) if name == "reference" else machine.check([program], **selection)
        require_all_passed(report, 1)
        found[name] = {k: np.load(folder / f"{k}.npy") for k in "xyz"}
    for k in "xyz":
        assert found["device"][k].tobytes() == found["reference"][k].tobytes(), k
    reference = found["reference"]
    for k, value in expected(reference["x"], reference["y"]).items():
        np.testing.assert_array_max_ulp(reference[k], value, maxulp=1 if example == "saxpy.loom" else 0)


@pytest.mark.seed("T01")
@pytest.mark.parametrize(("example", "old", "new", "first"), [
    ("saxpy.loom", "offset(100.0) step(1.5)", "offset(100.0) step(1.25)", (1, 101.5, 101.25)),
    ("row_moments.loom", "offset(6.0) step(16.0)", "offset(6.5) step(16.0)", (0, 6.0, 6.5)),
])  # fmt: skip
def test_a_wrong_expectation_fails_with_the_first_difference(
    machine: Any,
    root: Path,
    tmp_path: Path,
    run: Any,
    example: str,
    old: str,
    new: str,
    first: tuple[int, float, float],
) -> None:
    """The command ends with status 1 and shows the first differing index with both values."""
    text = (root / "examples" / example).read_text()
    assert text.count(old) == 1
    (tmp_path / example).write_text(text.replace(old, new))
    done = run("loom-check", example, *machine.options, cwd=tmp_path)
    if machine.device == "vulkan" and "cannot be opened" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 1, done.stderr
    index, actual, expected = first
    assert f"first at [{index}]: actual " in done.stdout
    detail = done.stdout.split(f"first at [{index}]: ")[1].splitlines()[0]
    assert f"({actual})" in detail.split("expected")[0]
    assert f"({expected})" in detail.split("expected")[1]
