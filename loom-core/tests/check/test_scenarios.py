"""Scenarios: text, rules, values of trials, comparisons, and what a report says about them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from loom import api
from loom.check.console import listing
from loom.check.entropy import at, fork, read, root
from loom.check.errors import CheckError
from loom.check.options import CheckOptions
from loom.check.plan import plan_checks
from loom.check.report import TestReport, TrialResult, to_json
from loom.check.report_text import case_line, failure_lines, totals_line
from loom.check.runner import Progress, run_checks
from loom.evaluate.device import open_reference_device
from loom.ir.core import Module, Op
from loom.ir.diagnostics import LoomError
from loom.plugins.manager import load_plugins

FUNCTIONS = """\
func.def @double(%x: i64) -> (i64) {
  %sum = scalar.addi %x, %x : i64
  func.return %sum : i64
}

func.def @shifted(%x: i64) -> (i64) {
  %one = scalar.constant 1 : i64
  %r = scalar.shli %x, %one : i64
  func.return %r : i64
}

func.def @identity(%x: i64) -> (i64) {
  func.return %x : i64
}

func.def @increment(%x: buffer) {
  %origin = index.constant 0 : offset
  %first = index.constant 0 : index
  %one = scalar.constant 1 : i32
  %v = buffer.view %x[%origin] : buffer -> view<4xi32>
  %old = view.load %v[%first] : view<4xi32> -> i32
  %new = scalar.addi %old, %one : i32
  view.store %new, %v[%first] : i32, view<4xi32>
  func.return
}

func.def @nothing(%x: buffer) {
  func.return
}

func.def @same(%x: buffer) -> (%x as buffer) {
  func.return %x : buffer
}

"""

TRIAL = "check.trial[{count}](%t: index, %entropy: check.entropy) {{\n{body}\n  }}"


def module_of(scenario: str) -> Module:
    return api.prepare_checks([api.parse(FUNCTIONS + scenario, "checks.loom")])


def scenario_of(*trials: str, head: str = "") -> str:
    lines = "\n".join(f"  {line}" for line in trials)
    return f"check.scenario @s {head}{{\n{lines}\n  check.return\n}}\n"


def trial_of(*body: str, count: int = 1) -> str:
    return TRIAL.format(count=count, body="\n".join(f"    {line}" for line in body))


def run(scenario: str, device: Any = None, **options: Any) -> TestReport:
    handle = device if device is not None else open_reference_device(None)
    return run_checks(module_of(scenario), handle, CheckOptions(device_name="here", **options))


def run_trial(*body: str, count: int = 1, device: Any = None) -> TestReport:
    return run(scenario_of(trial_of(*body, count=count)), device)


def only(report: TestReport) -> TrialResult:
    (result,) = report.trials
    return result


# -- text and rules --------------------------------------------------------------------------------------------

CANONICAL = (
    FUNCTIONS
    + """\
check.scenario public @all configure[2](%c: index, %setup: check.entropy) {
  // seeds of the configuration
  %base = check.entropy.read %setup[0] : check.entropy -> i64

  %x = check.generate.fill value(1) : tensor<4xi32>
} {
  check.requires<loom.target> {subgroup_size = 32}
  check.trial[8](%t: index, %entropy: check.entropy) {
    %words = check.entropy.fork %entropy name("words") : check.entropy
    %y = check.entropy.read %words[%t] : check.entropy -> i64
    %z = check.invoke<@double>(%y) : (i64) -> (i64)
    check.compare<@double, @shifted>(%y) : (i64) -> [actual(%a: i64), expected(%e: i64)] {
      check.expect.equal actual(%a) expected(%e) : i64
    }
    check.compare<@increment>(%x) : (tensor<4xi32>) -> () {
      check.expect.bitwise actual(%x) expected(%x) : tensor<4xi32>
    }
    check.expect.equal actual(%z) expected(%z) : i64
  }
  check.trial[1](%t: index, %entropy: check.entropy) {
  }
  check.return
}

check.benchmark<@all> @speed
"""
)


def test_the_text_is_canonical_and_survives_bytecode() -> None:
    module = api.parse(CANONICAL, "all.loom")
    api.verify(module)
    assert api.print(module) == CANONICAL
    assert api.print(api.load_bytes(api.to_bytecode(module), "all.loombc")) == CANONICAL


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (scenario_of(trial_of(count=0)), "STRUCTURE/014", "the number in 'check.trial[0]' must be at least 1"),
        (scenario_of("check.trial[1](%t: index) {\n  }"), "STRUCTURE/007",
         "takes a number and an entropy, not 1 arguments"),
        (scenario_of("check.trial[1](%t: i64, %e: check.entropy) {\n  }"), "TYPE/014", "%t is i64, but must be index"),
        (scenario_of("%x = check.literal value(1) : i64"), "STRUCTURE/029",
         "'check.literal' stands in a trial or a 'configure' block, not beside the trials of a scenario"),
        (scenario_of(head="configure[0](%c: index, %e: check.entropy) {\n} "), "STRUCTURE/014",
         "the number in 'check.scenario[0]' must be at least 1"),
        ("check.case @c {\n  check.trial[1](%t: index, %e: check.entropy) {\n  }\n  check.return\n}\n", "STRUCTURE/029",
         "'check.trial' stands only in a 'check.scenario'"),
        (scenario_of(trial_of("%x = check.entropy.read %entropy[0, 1] : check.entropy -> i64")), "STRUCTURE/001",
         "reads one position, not 2"),
        (scenario_of(trial_of("%x = check.entropy.read %entropy[0] : check.entropy -> i32")), "TYPE/004",
         "result 'result' of 'check.entropy.read' is i32, but must be i64"),
        (scenario_of(trial_of("%x = check.literal value(1) : i64", "check.compare<@double>(%x) : (i64) -> () {",
                              "  %y = check.literal value(2) : i64", "}")), "STRUCTURE/029",
         "'check.literal' is no comparison of two values"),
        (scenario_of(trial_of("%x = check.literal value(1) : i32", "check.compare<@double>(%x) : (i32) -> () {", "}")),
         "TYPE/001", "args[0] has type i32, but '@double' declares i64"),
        (scenario_of(trial_of("%x = check.literal value(1) : i64",
                              "check.compare<@double>(%x) : (i64) -> [actual(%a: i32), expected(%e: i32)] {", "}")),
         "TYPE/001", "results[0] has type i32, but '@double' declares i64"),
        (scenario_of(trial_of("%x = check.literal value(1) : i64",
                              "check.compare<@double>(%x) : (i64) -> [actual(%a: i64), expected(%e: i32)] {", "}")),
         "TYPE/001", "the actual %a is i64, but the expected %e is i32"),
        (scenario_of(trial_of("%x = check.literal value(1) : i64",
                              "check.compare<@double>(%x) : (i64) -> [actual(%a: i64), expected()] {", "}")),
         "STRUCTURE/007", "1 actual values, but 0 expected ones"),
        (scenario_of(trial_of("%x = check.literal value(1) : i64", "check.compare<@doubles>(%x) : (i64) -> () {", "}")),
         "SYMBOL/002", "'@doubles' is neither defined nor declared in this module"),
        (scenario_of(trial_of("%x = check.literal value(1) : i64",
                              "check.compare<@double, @tripled>(%x) : (i64) -> () {", "}")),
         "SYMBOL/002", "'@tripled' is neither defined nor declared in this module"),
        (scenario_of(trial_of("%x = check.literal value(1) : i64", "%y = check.invoke<@s>(%x) : (i64) -> (i64)")),
         "SYMBOL/003", "'@s' is a 'check.scenario', not a function"),
        (scenario_of(trial_of("%x = check.literal value(1) : i64", "check.invoke<@double>(%x) : (i64) -> ()")),
         "STRUCTURE/002", "'@double' has 1 results, not 0"),
    ],
)  # fmt: skip
def test_rules(text: str, code: str, message: str) -> None:
    with pytest.raises(LoomError) as caught:
        api.verify(api.parse(FUNCTIONS + text, "checks.loom"))
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [(code, message)]
    assert caught.value.diagnostics[0].position() is not None


def test_names_of_a_configuration_are_not_seen_outside_the_scenario() -> None:
    """They are seen in trials, and the same names serve again afterwards."""
    head = "configure[1](%c: index, %e: check.entropy) {\n  %x = check.literal value(1) : i64\n} "
    use = trial_of("check.expect.equal actual(%x) expected(%x) : i64")
    again = scenario_of(use, head=head) + scenario_of(use, head=head).replace("@s", "@t")
    api.verify(api.parse(again, "checks.loom"))
    with pytest.raises(LoomError, match="undefined value '%x'"):
        api.parse(scenario_of(use, head=head) + scenario_of(use).replace("@s", "@t"), "checks.loom")


# -- values ----------------------------------------------------------------------------------------------------


class Recorder:
    """A device that notes the arguments of the functions it runs."""

    def __init__(self) -> None:
        self.facts: dict[str, object] = {}
        self.calls: list[list[Any]] = []
        self._reference = open_reference_device(None)

    def launch(self, module: Module, kernel: Op, workload: Sequence[Any], arguments: Sequence[Any]) -> None:
        raise AssertionError("no kernel is launched")

    def call(self, module: Module, function: Op, arguments: Sequence[Any]) -> list[Any]:
        self.calls.append([np.array(argument).tolist() for argument in arguments])
        return self._reference.call(module, function, arguments)

    def close(self) -> None:
        self._reference.close()


def test_entropy_of_trials_derives_from_names_and_positions_alone() -> None:
    device = Recorder()
    body = (
        '%words = check.entropy.fork %entropy name("words") : check.entropy',
        "%x = check.entropy.read %words[17] : check.entropy -> i64",
        "%y = check.invoke<@identity>(%x) : (i64) -> (i64)",
    )
    report = run(scenario_of(trial_of(*body, count=3), trial_of(*body, count=2)), device)
    blocks = [at(fork(root(0), "s"), block) for block in (0, 1)]
    entropies = [at(blocks[0], 0), at(blocks[0], 1), at(blocks[0], 2), at(blocks[1], 0), at(blocks[1], 1)]
    assert [trial.entropy for trial in report.trials] == [str(entropy) for entropy in entropies]
    assert device.calls == [[read(fork(entropy, "words"), 17)] for entropy in entropies]
    assert [(t.trial_index, t.trial_ordinal) for t in report.trials] == [(0, 0), (1, 1), (2, 2), (0, 3), (1, 4)]


def test_a_trial_that_is_added_changes_no_other() -> None:
    """Not even one in front, as long as it is in another block behind."""
    few = run(scenario_of(trial_of(count=2), trial_of(count=2))).trials
    more = run(scenario_of(trial_of(count=90), trial_of(count=2), trial_of(count=1))).trials
    assert [t.entropy for t in few[:2]] == [t.entropy for t in more[:2]]
    assert [t.entropy for t in few[2:]] == [t.entropy for t in more[90:92]]
    assert len({t.entropy for t in more}) == 93


def test_configurations_make_values_for_their_trials() -> None:
    """Each once, and every trial has them in storage of its own: what one writes no other sees."""
    device = Recorder()
    head = (
        "configure[2](%c: index, %e: check.entropy) {\n"
        "  %seed = check.entropy.read %e[0] : check.entropy -> i64\n"
        "  %made = check.invoke<@identity>(%seed) : (i64) -> (i64)\n"
        "  %x = check.generate.fill value(1) : tensor<4xi32>\n"
        "  %tail = check.tensor.view %x offset(0) : tensor<4xi32> -> tensor<1xi32>\n"
        "} "
    )
    body = (
        "%want = check.generate.fill value(2) : tensor<1xi32>",
        "%now = check.invoke<@double>(%made) : (i64) -> (i64)",
        "check.invoke<@increment>(%x) : (tensor<4xi32>) -> ()",
        "check.expect.equal actual(%tail) expected(%want) : tensor<1xi32>",
    )
    report = run(scenario_of(trial_of(*body, count=2), head=head), device)
    assert [t.passed for t in report.trials] == [True] * 4, report
    assert [t.configuration_ordinal for t in report.trials] == [0, 0, 1, 1]
    assert [t.trial_ordinal for t in report.trials] == [0, 1, 2, 3]
    seeds = [read(at(fork(fork(root(0), "s"), "configure"), c), 0) for c in (0, 1)]
    integers = [call[0] for call in device.calls if isinstance(call[0], int)]
    assert integers == [seeds[0], seeds[0], seeds[0], seeds[1], seeds[1], seeds[1]]


def test_a_configuration_that_cannot_be_made_fails_its_first_trial() -> None:
    """And runs no other of its trials; the next configuration goes on."""
    head = (
        "configure[2](%c: index, %e: check.entropy) {\n"
        "  %n = check.literal value(-1) : index\n"
        "  %x = check.generate.fill value(1) : tensor<[%n]xi32>\n"
        "} "
    )
    report = run(scenario_of(trial_of(count=3), head=head))
    assert [(t.configuration_ordinal, t.trial_ordinal, t.passed) for t in report.trials] == [
        (0, 0, False),
        (1, 3, False),
    ]
    assert report.trials[0].issue is not None
    assert report.trials[0].issue.stage == "value_source"


# -- comparisons -----------------------------------------------------------------------------------------------

READ = "%x = check.entropy.read %entropy[0] : check.entropy -> i64"
NAMED = "[actual(%a: i64), expected(%e: i64)]"


def test_results_of_subject_and_oracle_are_compared() -> None:
    assert only(
        run_trial(
            READ,
            f"check.compare<@double, @shifted>(%x) : (i64) -> {NAMED} {{",
            "  check.expect.equal actual(%a) expected(%e) : i64",
            "}",
        )
    ).passed
    result = only(
        run_trial(
            READ,
            "check.expect.equal actual(%x) expected(%x) : i64",
            f"check.compare<@double, @identity>(%x) : (i64) -> {NAMED} {{",
            "  check.expect.equal actual(%a) expected(%e) : i64",
            "  check.expect.bitwise actual(%a) expected(%a) : i64",
            "}",
        )
    )
    assert not result.passed
    assert result.expectations.expectation_count == 3
    (failure,) = result.expectations.failures
    x = read(at(at(fork(root(0), "s"), 0), 0), 0)
    doubled = (2 * x + 2**63) % 2**64 - 2**63
    assert (failure.index, failure.actual_value_id, failure.expected_value_id) == (1, "a", "e")
    assert failure.detail == f"actual {doubled}, expected {x}"


class Wrong(Recorder):
    """A device whose functions are off by one."""

    def call(self, module: Module, function: Op, arguments: Sequence[Any]) -> list[Any]:
        return [value + 1 for value in super().call(module, function, arguments)]


def test_without_an_oracle_the_device_is_compared_with_the_reference() -> None:
    body = (
        READ,
        f"check.compare<@identity>(%x) : (i64) -> {NAMED} {{",
        "  check.expect.equal actual(%a) expected(%e) : i64",
        "}",
    )
    assert only(run_trial(*body)).passed
    assert not only(run_trial(*body, device=Wrong())).passed


def test_arguments_stand_for_the_copy_of_each_side() -> None:
    """The trial's own tensor is untouched; names of an argument on both sides are compared across."""
    body = (
        "%x = check.generate.fill value(7) : tensor<4xi32>",
        "%tail = check.tensor.view %x offset(0) : tensor<4xi32> -> tensor<4xi32>",
        "check.compare<@increment, ORACLE>(%tail) : (tensor<4xi32>) -> () {",
        "  check.expect.equal actual(%tail) expected(%tail) : tensor<4xi32>",
        "}",
        "%seven = check.generate.fill value(7) : tensor<4xi32>",
        "check.expect.equal actual(%x) expected(%seven) : tensor<4xi32>",
    )
    assert only(run_trial(*(line.replace("ORACLE", "@increment") for line in body))).passed
    result = only(run_trial(*(line.replace("ORACLE", "@nothing") for line in body)))
    (failure,) = result.expectations.failures
    assert failure.detail.startswith("1 of 4 elements differ; first at [0]: actual 8, expected 7")


def test_returned_buffers_are_compared_byte_by_byte() -> None:
    body = (
        "%x = check.generate.fill value(258) : tensor<2xi32>",
        "%y = check.generate.fill value(VALUE) : tensor<2xi32>",
        "%a = check.invoke<@same>(%x) : (tensor<2xi32>) -> (buffer)",
        "%b = check.invoke<@same>(%y) : (tensor<2xi32>) -> (buffer)",
        "check.expect.equal actual(%a) expected(%b) : buffer",
    )
    assert only(run_trial(*(line.replace("VALUE", "258") for line in body))).passed
    result = only(run_trial(*(line.replace("VALUE", "2") for line in body)))
    assert result.expectations.failures[0].detail.startswith(
        "2 of 8 elements differ; first at [1]: actual 1, expected 0"
    )


def test_a_returned_buffer_is_the_storage_that_was_given() -> None:
    """Writing through it later shows in the tensor."""
    assert only(
        run_trial(
            "%x = check.generate.fill value(1) : tensor<4xi32>",
            "%a = check.invoke<@same>(%x) : (tensor<4xi32>) -> (buffer)",
            "check.invoke<@increment>(%a) : (buffer) -> ()",
            "%tail = check.tensor.view %x offset(0) : tensor<4xi32> -> tensor<1xi32>",
            "%two = check.generate.fill value(2) : tensor<1xi32>",
            "check.expect.equal actual(%tail) expected(%two) : tensor<1xi32>",
        )
    ).passed


# -- devices that run kernels only ---------------------------------------------------------------------------------

SIGNATURES = """\
func.def @many(%f: f32, %c: i1, %i: index, %o: offset, %h: f16) -> (i1, index, f32, offset, f16) {
  func.return %c, %i, %f, %o, %h : i1, index, f32, offset, f16
}

func.def @bump(%x: buffer, %by: i32) -> ((%x as buffer), i32) {
  func.call @increment(%x) : (buffer)
  func.return %x, %by : buffer, i32
}

"""


class KernelsOnly(Recorder):
    """A device that runs no functions; it notes the kernels that it launches, and may change what they store."""

    runs_functions = False

    def __init__(self, spoil: bool = False) -> None:
        super().__init__()
        self.launched: list[str] = []
        self._spoil = spoil

    def launch(self, module: Module, kernel: Op, workload: Sequence[Any], arguments: Sequence[Any]) -> None:
        self.launched.append(str(kernel.attribute("callee")))
        self._reference.launch(module, kernel, workload, arguments)
        if self._spoil:
            arguments[-1][...] += 1

    def call(self, module: Module, function: Op, arguments: Sequence[Any]) -> list[Any]:
        raise AssertionError("no function is called")


def test_tested_functions_run_in_kernels_on_devices_that_run_no_functions() -> None:
    """What the device stores is what is compared; functions called by ``func.call`` are the host's."""
    body = (
        READ,
        "%y = func.call @double(%x) : (i64) -> (i64)",
        f"check.compare<@double, @shifted>(%x) : (i64) -> {NAMED} {{",
        "  check.expect.equal actual(%a) expected(%e) : i64",
        "}",
        "%z = check.invoke<@double>(%x) : (i64) -> (i64)",
        "check.expect.equal actual(%z) expected(%y) : i64",
    )
    device = KernelsOnly()
    assert only(run_trial(*body, device=device)).passed
    assert device.launched == ["__check_double", "__check_double"]
    spoiled = only(run_trial(*body, device=KernelsOnly(spoil=True)))
    assert [failure.index for failure in spoiled.expectations.failures] == [0, 1]


def test_values_of_all_kinds_pass_through_such_kernels() -> None:
    """Truth values, indices, narrow floats, and buffers that come back."""
    device = KernelsOnly()
    result = only(
        run(
            SIGNATURES
            + scenario_of(
                trial_of(
                    "%f = check.literal value(1.5) : f32",
                    "%c = check.literal value(true) : i1",
                    "%i = check.literal value(7) : index",
                    "%o = check.literal value(9) : offset",
                    "%h = check.generate.fill value(0.1) : f16",
                    "%rc, %ri, %rf, %ro, %rh = check.invoke<@many>(%f, %c, %i, %o, %h) : "
                    "(f32, i1, index, offset, f16) -> (i1, index, f32, offset, f16)",
                    "check.expect.equal actual(%rc) expected(%c) : i1",
                    "check.expect.equal actual(%ri) expected(%i) : index",
                    "check.expect.equal actual(%rf) expected(%f) : f32",
                    "check.expect.equal actual(%ro) expected(%o) : offset",
                    "check.expect.equal actual(%rh) expected(%h) : f16",
                    "%x = check.generate.fill value(1) : tensor<4xi32>",
                    "%three = check.literal value(3) : i32",
                    "%b, %n = check.invoke<@bump>(%x, %three) : (tensor<4xi32>, i32) -> (buffer, i32)",
                    "%first = check.tensor.view %x offset(0) : tensor<4xi32> -> tensor<1xi32>",
                    "%two = check.generate.fill value(2) : tensor<1xi32>",
                    "check.expect.equal actual(%first) expected(%two) : tensor<1xi32>",
                    "check.expect.equal actual(%n) expected(%three) : i32",
                )
            ),
            device,
        )
    )
    assert result.passed, result
    assert device.launched == ["__check_many", "__check_bump"]


def test_a_function_that_no_kernel_can_stand_for_runs_on_the_reference() -> None:
    """Here one that returns storage that is not its argument's."""
    fresh = "func.def @fresh(%x: buffer) -> (buffer) {\n  func.return %x : buffer\n}\n\n"
    device = KernelsOnly()
    result = only(
        run(
            fresh
            + scenario_of(
                trial_of(
                    "%x = check.generate.fill value(1) : tensor<4xi32>",
                    "%b = check.invoke<@fresh>(%x) : (tensor<4xi32>) -> (buffer)",
                    "check.expect.equal actual(%b) expected(%b) : buffer",
                )
            ),
            device,
        )
    )
    assert (result.passed, device.launched) == (True, [])


# -- planning, selection and reports ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ("%n = check.param.choice values([1]) : index", "unsupported_body_op",
         "'check.param.choice' stands in a case, not in a trial"),
        ("check.requires<loom.target> {subgroup_size = 4}", "unsupported_body_op",
         "'check.requires' stands in a case, not in a trial"),
        ("check.expect.shape value(%x) shape([4]) : i64", "invalid_expectation",
         "1 extents are listed for a value of rank 0"),
        ('check.compare<@double>(%x) : (i64) -> () {\n  check.expect<no.such> actual(%x) expected(%x) : i64\n}',
         "invalid_expectation", "no comparison is registered as 'no.such'"),
    ],
)  # fmt: skip
def test_faults_keep_a_scenario_from_running(line: str, kind: str, message: str) -> None:
    report = run_trial("%x = check.literal value(1) : i64", line)
    assert [(i.kind.value, i.case, i.message) for i in report.planning_issues] == [(kind, "s", message)]
    assert (report.trial_count, report.failed) == (0, True)


def test_scenarios_are_selected_like_cases_but_have_no_samples() -> None:
    text = scenario_of(trial_of(count=2)) + "check.case @c {\n  check.return\n}\ncheck.benchmark<@s>\n"
    module = module_of(text)
    plan = plan_checks(module, CheckOptions(cases=("s",)), load_plugins())
    assert ([c.name for c in plan.cases], [s.name for s in plan.scenarios]) == ([], ["s"])
    assert [(b.name, b.case, b.expansion) for b in plan.benchmarks] == [("s", "s", None)]
    assert [line.text for line in listing(plan)] == ["@s: 2 trials", "@s: benchmark of @s"]
    with pytest.raises(CheckError, match="@s is a scenario"):
        plan_checks(module, CheckOptions(sample=0), load_plugins())
    pinned = plan_checks(module_of(text.replace("<@s>", "<@s> {n = 1}")), CheckOptions(), load_plugins())
    assert [i.message for i in pinned.issues] == ["benchmark '@s': a scenario has no parameters"]


def test_requirements_skip_a_scenario() -> None:
    report = run(scenario_of("check.requires<loom.target> {subgroup_size = 32}", trial_of(count=2)))
    assert (report.trial_count, report.skipped_case_count, report.failed) == (0, 1, False)
    assert report.skipped_cases[0].case == "s"


def test_reports_name_the_trial_that_failed() -> None:
    seen: list[object] = []

    class Watch(Progress):
        def case_finished(self, outcome: Any) -> None:
            seen.append(case_line(outcome).text)

    body = (
        "%zero = check.literal value(0) : index",
        "check.expect.equal actual(%t) expected(%zero) : index",
    )
    module = module_of(scenario_of(trial_of(*body, count=3)))
    report = run_checks(module, open_reference_device(None), CheckOptions(), progress=Watch())
    assert seen == ["FAIL  @s: 2 of 3 trials failed"]
    second = at(at(fork(root(0), "s"), 0), 1)
    text = [line.text for line in failure_lines(report)]
    assert text[0] == f"@s trial 1 (configuration 0, index 1, entropy {second})"
    assert text[2] == "    actual 1, expected 0"
    assert totals_line(report).text == "3 trials: 1 passed, 2 failed"
    parsed = json.loads(to_json(report))
    assert (parsed["scenario_count"], parsed["trial_count"], parsed["failed_trial_count"]) == (1, 3, 2)
    assert list(parsed["trials"][1])[:6] == [
        "scenario", "entropy", "configuration_ordinal", "trial_index", "trial_ordinal", "passed",
    ]  # fmt: skip
    assert parsed["trials"][1]["entropy"] == str(second)
