"""Running cases on the reference device, and what becomes of everything that can go wrong meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from loom import api
from loom.check.host_tensor import HostTensor
from loom.check.options import CheckOptions
from loom.check.report import CaseOutcome, SampleResult, TestReport
from loom.check.runner import Progress, run_checks
from loom.check.session import opened, run_on_device, select_device
from loom.evaluate.device import open_reference_device
from loom.ir.core import Module, Op
from loom.ir.diagnostics import LoomError
from loom.plugins.manager import Registries, load_plugins
from loom.plugins.records import Device, Oracle, RequirementProvider, RequirementVerdict, TargetProfile, Validator

KERNELS = """\
kernel.def @add_one(%count: index) {
  %unit = index.constant 1 : index
  %width = index.constant 32 : index
  %round = index.constant 31 : index
  %padded = index.add %count, %round : index
  %groups = index.div %padded, %width : index
  kernel.launch.config workgroups(%groups, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%count: index, %x: buffer) {
  %i = kernel.workitem.dispatch.id<x> : index
  %origin = index.constant 0 : offset
  %one = scalar.constant 1 : i32
  %xv = buffer.view %x[%origin] : buffer -> view<[%count]xi32>
  %live = index.cmp ult, %i, %count : index
  scf.if %live {
    %xi = view.load %xv[%i] : view<[%count]xi32> -> i32
    %r = scalar.addi %xi, %one : i32
    view.store %r, %xv[%i] : i32, view<[%count]xi32>
  }
  kernel.return
}
func.def @double(%x: i32) -> (i32) {
  %r = scalar.addi %x, %x : i32
  func.return %r : i32
}
"""


def module_of(*body: str) -> Module:
    lines = "\n".join(f"  {line}" for line in body)
    text = f"{KERNELS}check.case @case {{\n{lines}\n  check.return\n}}\n"
    return api.prepare_checks([api.parse(text, "checks.loom")])


def run(*body: str, device: Any = None, registries: Registries | None = None, **options: Any) -> TestReport:
    device = device if device is not None else open_reference_device(None)
    return run_checks(module_of(*body), device, CheckOptions(device_name="here", **options), registries=registries)


def only(report: TestReport) -> SampleResult:
    (result,) = report.samples
    return result


# -- what passes -----------------------------------------------------------------------------------------------


def test_launches_update_tensors_and_views_of_them() -> None:
    """A view made before the launch shows what the kernel wrote, and a kernel given a view writes the source."""
    report = run(
        "%n = check.literal value(4) : index",
        "%x = check.generate.iota offset(0) step(10) : tensor<8xi32>",
        "%tail = check.tensor.view %x offset(16) : tensor<8xi32> -> tensor<2x2xi32>",
        "%early = check.generate.iota offset(41) step(10) : tensor<2x2xi32>",
        "kernel.launch @add_one[%n](%n, %tail) : [index](index, tensor<2x2xi32>)",
        "%words = check.tensor.view %x offset(28) : tensor<8xi32> -> tensor<1xi32>",
        "%seventy_one = check.generate.fill value(71) : tensor<1xi32>",
        "check.expect.equal actual(%tail) expected(%early) : tensor<2x2xi32>",
        "check.expect.equal actual(%words) expected(%seventy_one) : tensor<1xi32>",
    )
    assert only(report).passed
    assert only(report).expectations.passed_count == 2


def test_expectations_come_after_all_invocations() -> None:
    """Even those written earlier, and invocations run in source order."""
    assert only(
        run(
            "%n = check.literal value(2) : index",
            "%x = check.generate.fill value(5) : tensor<2xi32>",
            "%want = check.generate.fill value(7) : tensor<2xi32>",
            "check.expect.equal actual(%x) expected(%want) : tensor<2xi32>",
            "kernel.launch @add_one[%n](%n, %x) : [index](index, tensor<2xi32>)",
            "kernel.launch @add_one[%n](%n, %x) : [index](index, tensor<2xi32>)",
        )
    ).passed


def test_results_of_calls_can_feed_sources_and_shapes() -> None:
    """A called function's result is a value like any other."""
    report = run(
        "%two = check.literal value(2) : i32",
        "%four = func.call @double(%two) : (i32) -> (i32)",
        "%x = check.generate.random.uniform seed(%four) range(0 to 9) : tensor<16xi32>",
        "%seed = check.literal value(4) : i32",
        "%y = check.generate.random.uniform seed(%seed) range(0 to 9) : tensor<16xi32>",
        "%sixteen = check.literal value(16) : index",
        "check.expect.bitwise actual(%x) expected(%y) : tensor<16xi32>",
        "check.expect.shape value(%x) shape([%sixteen]) : tensor<16xi32>",
    )
    assert only(report).passed, only(report)


def test_every_sample_starts_from_fresh_values() -> None:
    """What one sample's kernel wrote is not seen by the next; parameters are reported."""
    report = run(
        '%n = check.param.choice values([1, 31, 32, 33, 0]) name("count") : index',
        "%s = check.param.range linear bounds(0.5 to 1.0) step(0.5) : f32",
        "%x = check.generate.fill value(1) : tensor<[%n]xi32>",
        "%want = check.generate.fill value(2) : tensor<[%n]xi32>",
        "kernel.launch @add_one[%n](%n, %x) : [index](index, tensor<[%n]xi32>)",
        "check.expect.equal actual(%x) expected(%want) : tensor<[%n]xi32>",
    )
    assert [result.passed for result in report.samples] == [True] * 10
    assert dict(report.samples[6].parameters.pairs) == {"count": 31, "s": 1.0}


# -- what fails ------------------------------------------------------------------------------------------------


def test_every_expectation_is_evaluated() -> None:
    """With its position, values, place, and how they differ."""
    result = only(
        run(
            "%x = check.generate.iota offset(0) step(1) : tensor<2x3xi32>",
            "%y = check.generate.iota offset(0) step(2) : tensor<2x3xi32>",
            "check.expect.equal actual(%x) expected(%y) : tensor<2x3xi32>",
            "check.expect.equal actual(%x) expected(%x) : tensor<2x3xi32>",
            "check.expect.shape value(%x) shape([3, 2]) : tensor<2x3xi32>",
        )
    )
    assert not result.passed
    assert (result.expectations.expectation_count, result.expectations.passed_count) == (3, 1)
    equal, shape = result.expectations.failures
    assert (equal.index, equal.actual_value_id, equal.expected_value_id) == (0, "x", "y")
    assert equal.mismatch is not None
    assert (equal.mismatch.index, equal.mismatch.mismatch_count) == ((0, 1), 5)
    assert (equal.mismatch.actual, equal.mismatch.expected) == ("1", "2")
    assert str(equal.source_location) == f"checks.loom:{len(KERNELS.splitlines()) + 4}:3"
    assert (shape.index, shape.expected_value_id, shape.detail) == (2, None, "shape is [2, 3], expected [3, 2]")


def test_a_fault_of_the_program_is_the_issue_of_its_sample() -> None:
    """The reference device finds an access past the end; the sample that stays inside passes."""
    report = run(
        "%n = check.param.choice values([4, 5]) : index",
        "%x = check.generate.fill value(1) : tensor<4xi32>",
        "kernel.launch @add_one[%n](%n, %x) : [index](index, tensor<4xi32>)",
        "check.expect.equal actual(%x) expected(%x) : tensor<4xi32>",
    )
    inside, outside = report.samples
    assert inside.passed
    assert not outside.passed
    assert outside.issue is not None
    assert (outside.issue.category, outside.issue.provider, outside.issue.stage) == ("program", "here", "launch")
    assert "/" in outside.issue.kind
    # The place is the op at fault inside the kernel, not the launch.
    assert outside.issue.source_location is not None
    assert 10 <= outside.issue.source_location.start_line <= 20
    assert outside.expectations.expectation_count == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%v = check.generate.fill value(0) : tensor<[%n]xi32>", "an extent cannot be negative, but %n is -1"),
        ("%v = check.generate.iota offset(0) step(100) : tensor<4xi8>",
         "iota value 300 of element 3 is outside the range of i8 (-128 to 127)"),
        ("%v = check.tensor.view %x offset(8) : tensor<4xi32> -> tensor<4xi32>",
         "a view of 16 bytes at byte offset 8 leaves its source of 16 bytes"),
        ('%v = check.file.read.npy path("absent.npy") : tensor<4xi32>',
         "cannot read absent.npy: No such file or directory"),
    ],
)  # fmt: skip
def test_values_that_cannot_be_made(line: str, message: str) -> None:
    """An issue at the value source; nothing after it runs."""
    result = only(
        run(
            "%n = check.literal value(-1) : index",
            "%x = check.generate.fill value(0) : tensor<4xi32>",
            line,
            "check.expect.equal actual(%x) expected(%x) : tensor<4xi32>",
        )
    )
    assert not result.passed
    assert result.issue is not None
    assert result.issue.message == message
    assert (result.issue.category, result.issue.stage) == ("check", "value_source")
    assert str(result.issue.source_location).startswith(f"checks.loom:{len(KERNELS.splitlines()) + 4}:")


@attrs.frozen
class Record:
    kind: str


class OddFault(Exception):
    """As simulators raise them."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"{kind}: at 0x40")
        self.record = Record(kind)


class GPUTimeout(Exception):
    """As drivers raise them."""


class OddDevice:
    """A third party's device: it raises instead of running kernels, and leaves functions to the host."""

    runs_functions = False

    def __init__(self, *errors: Exception | None, facts: Mapping[str, object] | None = None) -> None:
        self.facts: Mapping[str, object] = facts or {}
        self.closed = False
        self._errors = list(errors)

    def launch(self, module: Module, kernel: Op, workload: Sequence[Any], arguments: Sequence[Any]) -> None:
        error = self._errors.pop(0) if self._errors else None
        if error is not None:
            raise error

    def call(self, module: Module, function: Op, arguments: Sequence[Any]) -> list[Any]:
        raise AssertionError("functions run on the host")

    def close(self) -> None:
        self.closed = True


def test_device_errors_are_issues_and_the_other_samples_go_on() -> None:
    """Structured ones by their kind, others by their class; a defect of the device says where it is."""
    device = OddDevice(OddFault("out_of_bounds"), GPUTimeout("no answer"), KeyError("v3"), MemoryError(), None)
    report = run(
        "%seed = check.param.seed base(0) count(5) : i64",
        "%n = check.literal value(1) : index",
        "%x = check.generate.fill value(1) : tensor<1xi32>",
        "kernel.launch @add_one[%n](%n, %x) : [index](index, tensor<1xi32>)",
        device=device,
    )
    issues = [result.issue for result in report.samples]
    assert [(i.category, i.kind, i.message) if i else None for i in issues] == [
        ("device", "out_of_bounds", "out_of_bounds: at 0x40"),
        ("device", "gpu_timeout", "no answer"),
        ("internal", "key_error", f"KeyError: 'v3' (raised in {__name__}, line {raise_line()})"),
        ("device", "memory_error", "MemoryError"),
        None,
    ]
    assert {i.op for i in issues if i} == {"kernel.launch"}
    assert not device.closed


def raise_line() -> int:
    code = OddDevice.launch.__code__
    return max(line for _, _, line in code.co_lines() if line is not None)


def test_functions_run_on_the_host_when_the_device_runs_none() -> None:
    """By the reference evaluator."""
    result = only(
        run(
            "%x = check.literal value(21) : i32",
            "%y = func.call @double(%x) : (i32) -> (i32)",
            "%want = check.literal value(42) : i32",
            "check.expect.equal actual(%y) expected(%want) : i32",
            device=OddDevice(),
        )
    )
    assert result.passed, result


# -- plugins ---------------------------------------------------------------------------------------------------


def with_plugins(**records: Any) -> Registries:
    """The installed plugins, and some that a third party would register."""
    found = load_plugins()
    changes: dict[str, Any] = {name: {**getattr(found, name), r.key: r} for name, r in records.items()}
    return attrs.evolve(found, **changes)


EXPECT_SORTED = (
    "%x = check.generate.iota offset(3) step(-1) : tensor<3xi32>",
    "check.expect<toy.sorted> actual(%x) expected(%x) {strict = true} : tensor<3xi32>",
)


def test_custom_comparisons() -> None:
    """Get the tensors and the attributes, and answer with a text or nothing."""
    seen: list[Mapping[str, object]] = []

    def compare(actual: HostTensor, expected: HostTensor, attributes: Mapping[str, object]) -> str | None:
        seen.append(dict(attributes))
        return "not sorted" if np.any(np.diff(actual.array) < 0) else None

    report = run(*EXPECT_SORTED, registries=with_plugins(validators=Validator("toy.sorted", compare)))
    (failure,) = only(report).expectations.failures
    assert (failure.kind.value, failure.detail) == ("custom", "not sorted")
    assert seen == [{"strict": True}]


def test_a_comparison_that_raises() -> None:
    """Is an issue, not the end of the run."""

    def compare(actual: HostTensor, expected: HostTensor, attributes: Mapping[str, object]) -> str | None:
        raise ZeroDivisionError("division by zero")

    result = only(run(*EXPECT_SORTED, registries=with_plugins(validators=Validator("toy.sorted", compare))))
    assert not result.passed
    assert result.issue is not None
    assert (result.issue.stage, result.issue.provider, result.issue.category) == (
        "expectation", "toy.sorted", "internal",
    )  # fmt: skip


def test_oracles() -> None:
    """The built-in matrix product: 2 x 2 of ones over k = 3."""
    assert only(
        run(
            "%a = check.generate.fill value(1.0) : tensor<2x3xf32>",
            "%b = check.generate.fill value(2.0) : tensor<3x2xf32>",
            "%c = check.generate.fill value(0.5) : tensor<2x2xf32>",
            "%d = check.oracle.call<reference.matmul> callee(@add_one) inputs(%a, %b, %c) : "
            "(tensor<2x3xf32>, tensor<3x2xf32>, tensor<2x2xf32>) -> (tensor<2x2xf32>)",
            "%want = check.generate.fill value(6.5) : tensor<2x2xf32>",
            "check.expect.equal actual(%d) expected(%want) : tensor<2x2xf32>",
        )
    ).passed


def test_an_oracle_of_the_wrong_shape() -> None:
    """Is told apart from a wrong program."""

    def compute(attributes: Mapping[str, object], inputs: Sequence[Any], types: Sequence[Any]) -> list[Any]:
        return [inputs[0]]

    result = only(
        run(
            "%a = check.generate.fill value(1) : tensor<2xi32>",
            "%b = check.oracle.call<toy.echo> callee(@double) inputs(%a) : (tensor<2xi32>) -> (tensor<3xi32>)",
            registries=with_plugins(oracles=Oracle("toy.echo", compute)),
        )
    )
    assert result.issue is not None
    assert (result.issue.stage, result.issue.provider) == ("oracle", "toy.echo")
    assert result.issue.message == "the oracle's value for %b is not i32 [3]"


# -- requirements ----------------------------------------------------------------------------------------------


def skip_of(line: str, facts: Mapping[str, object], **records: Any) -> tuple[object, ...] | None:
    report = run(line, device=OddDevice(facts=facts), registries=with_plugins(**records))
    if not report.skipped_cases:
        assert only(report).passed
        return None
    assert report.samples == ()
    (skip,) = report.skipped_cases
    return (skip.op, skip.code.value, skip.provider_code, skip.display_message)


WAVE32 = {"subgroup_size": 32, "matrix": ("a", "b"), "contract": "toy.core"}


@pytest.mark.parametrize(
    ("line", "facts", "expected"),
    [
        ("check.requires<loom.target> {subgroup_size = 32}", WAVE32, None),
        ("check.requires<loom.target> {min_subgroup_size = 32, matrix = \"b\"}", WAVE32, None),
        ("check.requires<loom.target> {subgroup_size = 64}", WAVE32,
         ("requires", "requirement_not_satisfied", "target_fact_mismatch",
          "needs subgroup_size = 64; the target has 32")),
        ("check.requires<loom.target> {subgroup_size = 64}", {},
         ("requires", "requirement_not_satisfied", "target_fact_mismatch",
          "needs subgroup_size = 64; the target does not say")),
        ("check.skip_if<loom.target> {subgroup_size = 64}", WAVE32, None),
        ("check.skip_if<loom.target> {subgroup_size = 32} reason(\"too narrow\")", WAVE32,
         ("skip_if", "skip_predicate_matched", None, "too narrow")),
        ("check.skip_if<loom.target> {subgroup_size = 32}", WAVE32,
         ("skip_if", "skip_predicate_matched", None, "subgroup_size = 32")),
        ("check.requires<hal.amdgpu.descriptor_set> {descriptor_set = \"toy.core\"}", WAVE32, None),
        ("check.requires<hal.amdgpu.descriptor_set> {descriptor_set = \"other.core\"}", WAVE32,
         ("requires", "requirement_not_satisfied", "descriptor_set_mismatch",
          "needs the contract other.core; the device has toy.core")),
        ("check.requires<hal.amdgpu.descriptor_set> {descriptor_set = \"toy.core\"}", {},
         ("requires", "provider_unavailable", "hal_driver_mismatch",
          "needs the contract toy.core; the device runs no target code")),
        ("check.skip_if<hal.amdgpu.descriptor_set> {descriptor_set = \"toy.core\"}", {}, None),
        ("check.requires<toy.mode> {on = true}", {},
         ("requires", "provider_not_registered", None, "no requirement provider is registered as 'toy.mode'")),
    ],
)  # fmt: skip
def test_requirements(line: str, facts: Mapping[str, object], expected: tuple[object, ...] | None) -> None:
    """An unmet requirement skips the case with a structured reason; a skip is no failure."""
    assert skip_of(line, facts) == expected


def test_a_provider_that_raises_fails_the_case() -> None:
    """Skipping would hide that nobody knows whether the case should have run."""

    def check(wanted: Mapping[str, object], facts: Mapping[str, object]) -> RequirementVerdict:
        raise TypeError("no")

    report = run(
        "check.requires<toy.mode> {on = true}",
        registries=with_plugins(requirement_providers=RequirementProvider("toy.mode", check)),
    )
    result = only(report)
    assert report.failed
    assert result.issue is not None
    assert (result.issue.stage, result.issue.category) == ("requirement", "internal")


# -- files -----------------------------------------------------------------------------------------------------

WRITES = (
    "%n = check.param.choice values([2, 3, 4]) : index",
    "%x = check.generate.fill value(3) : tensor<[%n]xi32>",
    "%four = check.generate.fill value(3) : tensor<2xi32>",
    'check.file.write.npy value(%x) path("sub/x.npy") : tensor<[%n]xi32>',
    'check.file.write.npy value(%four) path("always.npy") mode(always) : tensor<2xi32>',
)


def test_files_of_the_first_failure_are_kept(tmp_path: Path) -> None:
    """Later failures of the case would overwrite the one that is shown; passing samples write none of these."""
    report = run(*WRITES, "check.expect.shape value(%x) shape([2]) : tensor<[%n]xi32>", output_directory=tmp_path)
    assert [result.passed for result in report.samples] == [True, False, False]
    kept, always = str(tmp_path / "sub" / "x.npy"), str(tmp_path / "always.npy")
    assert [result.files for result in report.samples] == [(always,), (kept, always), (always,)]
    np.testing.assert_array_equal(np.load(kept), np.full(3, 3, np.int32))
    np.testing.assert_array_equal(np.load(always), np.full(2, 3, np.int32))


def test_a_sample_that_stopped_early_writes_what_it_has(tmp_path: Path) -> None:
    """The inputs of a faulty launch are what one wants to look at."""
    result = only(
        run(
            "%n = check.literal value(9) : index",
            "%x = check.generate.fill value(3) : tensor<4xi32>",
            "kernel.launch @add_one[%n](%n, %x) : [index](index, tensor<4xi32>)",
            "%late = check.generate.fill value(3) : tensor<4xi32>",
            'check.file.write.npy value(%x) path("x.npy") : tensor<4xi32>',
            'check.file.write.npy value(%late) path("late.npy") : tensor<4xi32>',
            output_directory=tmp_path,
        )
    )
    assert result.issue is not None
    assert result.issue.stage == "launch"
    assert result.files == (str(tmp_path / "x.npy"),)


def test_a_file_that_cannot_be_written_fails_the_sample(tmp_path: Path) -> None:
    """The directory's name is taken by a file."""
    (tmp_path / "sub").write_text("")
    report = run(
        "%x = check.generate.fill value(3) : tensor<2xi32>",
        'check.file.write.npy value(%x) path("sub/x.npy") mode(always) : tensor<2xi32>',
        output_directory=tmp_path,
    )
    result = only(report)
    assert not result.passed
    assert result.issue is not None
    assert (result.issue.stage, result.issue.category) == ("file_write", "check")


def test_npy_files_are_read_beside_the_module(tmp_path: Path) -> None:
    """Not from where the command runs."""
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    source = tmp_path / "m.loom"
    source.write_text(
        """check.case @reads {
  %x = check.file.read.npy path("x.npy") : tensor<2x3xf32>
  %want = check.generate.iota offset(0.0) step(1.0) : tensor<2x3xf32>
  check.expect.bitwise actual(%x) expected(%want) : tensor<2x3xf32>
  check.return
}
"""
    )
    assert only(run_on_device([source], device="reference")).passed


# -- the run as a whole ----------------------------------------------------------------------------------------


class Recorder(Progress):
    def __init__(self) -> None:
        self.events: list[object] = []

    def case_started(self, case: str, sample_count: int) -> None:
        self.events.append((case, sample_count))

    def sample_finished(self, result: SampleResult) -> None:
        self.events.append(result.sample_ordinal)

    def case_finished(self, outcome: CaseOutcome) -> None:
        self.events.append(outcome)


THREE_CASES = """
check.case @broken {
  %v = check.literal value(300) : i8
  check.return
}
check.case @skipped {
  check.requires<loom.target> {subgroup_size = 64}
  check.return
}
check.case @seeds {
  %seed = check.param.seed base(0) count(5) : i64
  %same = check.literal value(2) : i64
  check.expect.equal actual(%seed) expected(%same) : i64
  check.return
}
"""


def test_progress_and_counts() -> None:
    """Cases come in source order, and the cap is reported."""
    recorder = Recorder()
    module = api.parse(THREE_CASES, "three.loom")
    options = CheckOptions(max_samples_per_case=3)
    report = run_checks(module, open_reference_device(None), options, progress=recorder)
    broken, skipped, started, *ordinals, seeds = recorder.events
    assert isinstance(broken, CaseOutcome)
    assert isinstance(skipped, CaseOutcome)
    assert isinstance(seeds, CaseOutcome)
    assert [issue.kind.value for issue in broken.issues] == ["invalid_value_source"]
    assert skipped.skipped is not None
    assert (started, ordinals, seeds.samples) == (("seeds", 3), [0, 1, 2], report.samples)
    assert [result.passed for result in report.samples] == [False, False, True]
    assert (report.case_count, report.sample_count, report.failed_sample_count) == (3, 3, 2)
    assert (report.skipped_case_count, report.planning_issue_count) == (1, 1)
    assert report.truncated_cases is not None
    assert [attrs.astuple(entry) for entry in report.truncated_cases] == [("seeds", 5, 3)]


def test_a_run_is_repeatable_and_leaves_the_module_alone() -> None:
    """Equal reports, and the same text afterwards."""
    module = module_of(
        "%seed = check.param.seed base(7) count(3) : i64",
        "%x = check.generate.random.uniform seed(%seed) range(0 to 9) : tensor<8xi32>",
        "%y = check.generate.random.uniform seed(%seed) range(0 to 8) : tensor<8xi32>",
        "check.expect.equal actual(%x) expected(%y) : tensor<8xi32>",
    )
    before = api.print(module)
    reports = [run_checks(module, open_reference_device(None)) for _ in range(2)]
    assert reports[0] == reports[1]
    assert reports[0].failed
    assert api.print(module) == before


def test_devices_that_cannot_be_used() -> None:
    """Each gives one diagnostic: unknown, not for the target, or one that does not open."""
    with pytest.raises(LoomError) as caught:
        select_device("referenze", None)
    assert caught.value.diagnostics[0].hint == "did you mean 'reference'?"
    with pytest.raises(LoomError, match="no target named 'toy:v1'"):
        select_device("reference", "toy:v1")

    def broken(target: TargetProfile | None) -> Any:
        raise GPUTimeout("no driver answers")

    with (
        pytest.raises(LoomError, match="the device 'gpu' cannot be opened: no driver answers"),
        opened(Device("gpu", broken), None),
    ):
        pass
    device = OddDevice()
    with opened(Device("odd", lambda target: device), None):
        assert not device.closed
    assert device.closed
