"""Device events: failures that a case expects, events that a device collects, and patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pytest

from loom import api
from loom.check.errors import CheckError
from loom.check.events import Event, matches, unmet
from loom.check.options import CheckOptions
from loom.check.report import SampleResult
from loom.check.runner import run_checks
from loom.check.sanitizer import instrument, read_checks
from loom.evaluate.device import open_reference_device
from loom.ir.core import Module, Op

KERNELS = """\
kernel.def export("copy_entry") @copy(%count: index) {
  %unit = index.constant 1 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%count, %unit, %unit) : index
} launch(%divisor: i32, %x: buffer) {
  %i = kernel.workitem.dispatch.id<x> : index
  %origin = index.constant 0 : offset
  %xv = buffer.view %x[%origin] : buffer -> view<4xi32>
  %old = view.load %xv[%i] : view<4xi32> -> i32
  %new = scalar.divsi %old, %divisor : i32
  view.store %new, %xv[%i] : i32, view<4xi32>
  kernel.return
}

kernel.def @race() {
  %unit = index.constant 1 : index
  %two = index.constant 2 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%two, %unit, %unit) : index
} launch(%x: buffer) {
  %i = kernel.workitem.dispatch.id<x> : index
  %zero = index.constant 0 : index
  %origin = index.constant 0 : offset
  %xv = buffer.view %x[%origin] : buffer -> view<4xi32>
  %value = index.cast %i : index to i32
  view.store %value, %xv[%zero] : i32, view<4xi32>
  kernel.return
}

"""


def run(*body: str, device: Any = None) -> SampleResult:
    lines = "\n".join(f"  {line}" for line in body)
    module = api.prepare_checks([api.parse(f"{KERNELS}check.case @case {{\n{lines}\n  check.return\n}}\n", "k.loom")])
    handle = device if device is not None else open_reference_device(None)
    (result,) = run_checks(module, handle, CheckOptions(device_name="here")).samples
    return result


def copy(count: int, divisor: int) -> tuple[str, ...]:
    return (
        f"%n = check.literal value({count}) : index",
        f"%d = check.literal value({divisor}) : i32",
        "%x = check.generate.fill value(6) : tensor<4xi32>",
        "kernel.launch @copy[%n](%d, %x) : [index](i32, tensor<4xi32>)",
    )


RACE = (
    "%x = check.generate.fill value(6) : tensor<4xi32>",
    "kernel.launch @race(%x) : (tensor<4xi32>)",
)


def event(pattern: str) -> str:
    return f"check.expect.event<device> {pattern}"


@pytest.mark.parametrize(
    ("body", "pattern"),
    [
        (copy(5, 1), '{asan = {access = "read"}, type = "asan_report"}'),
        (copy(5, 1), '{export = "copy_entry", function = "copy", severity = "error", source_file = "k.loom"}'),
        (copy(4, 0), '{count = 1, ubsan = {check = "divide_by_zero"}}'),
        (RACE, '{tsan = {check = "data_race", memory = "global", current_access = "write", prior_atomic = false}}'),
        (copy(4, 2), '{type = "none"}'),
        (copy(4, 2), "{count = 0}"),
    ],
)  # fmt: skip
def test_an_expected_failure_passes(body: Sequence[str], pattern: str) -> None:
    result = run(*body, event(pattern))
    assert result.passed, result
    assert result.expectations.passed_count == 1


@pytest.mark.parametrize(
    ("body", "pattern", "detail"),
    [
        (copy(4, 2), '{type = "asan_report"}', "an event expected, 0 matched; the device reported none"),
        (copy(4, 2), "{count = 2}", "2 events expected, 0 matched; the device reported none"),
    ],
)
def test_an_event_that_does_not_happen_fails(body: Sequence[str], pattern: str, detail: str) -> None:
    (failure,) = run(*body, event(pattern)).expectations.failures
    assert (failure.kind.value, failure.actual_value_id, failure.expected_value_id) == ("custom", "device", None)
    assert failure.detail == detail


def test_a_failure_that_nothing_expects_stays_one() -> None:
    """Another kind of event does not excuse it."""
    result = run(*copy(5, 1), event('{type = "tsan_report"}'))
    assert not result.passed
    assert result.issue is not None
    assert result.issue.kind == "EVALUATE/002"


def test_an_expected_failure_does_not_excuse_wrong_values() -> None:
    """What the failed launch left behind is still compared, and later steps run."""
    result = run(
        *copy(4, 0),
        "%one = check.literal value(1) : i32",
        "%y = check.generate.fill value(6) : tensor<4xi32>",
        "kernel.launch @copy[%n](%one, %y) : [index](i32, tensor<4xi32>)",
        event('{type = "ubsan_report"}'),
        "%seven = check.generate.fill value(7) : tensor<4xi32>",
        "check.expect.equal actual(%y) expected(%seven) : tensor<4xi32>",
    )
    assert result.issue is None
    assert (result.expectations.passed_count, result.expectations.failed_count) == (1, 1)


ASSERTING = KERNELS.replace(
    "  %xv = buffer.view %x[%origin] : buffer -> view<4xi32>\n  %old",
    "  %three = index.constant 3 : index\n  %inside = index.cmp ult, %i, %three : index\n"
    '  kernel.assert %inside "too many" : i1\n'
    "  %xv = buffer.view %x[%origin] : buffer -> view<4xi32>\n  %old",
)


def test_assertions_and_sanitizers_are_told_apart() -> None:
    """A failed assertion of the program, and one that a sanitizer inserted in front of a bad access."""
    body = "\n".join(f"  {line}" for line in (*copy(4, 1), event('{severity = "fatal", type = "driver_failure"}')))
    module = api.prepare_checks([api.parse(f"{ASSERTING}check.case @case {{\n{body}\n  check.return\n}}\n", "k.loom")])
    assert not run_checks(module, open_reference_device(None)).failed
    body = "\n".join(f"  {line}" for line in (*copy(5, 1), event('{asan = {access = "unknown"}}')))
    module = api.prepare_checks([api.parse(f"{KERNELS}check.case @case {{\n{body}\n  check.return\n}}\n", "k.loom")])
    assert instrument(module, read_checks("access|ubsan")) == 3
    api.verify(module)
    assert not run_checks(module, open_reference_device(None)).failed


def test_sanitizers_have_names() -> None:
    assert read_checks("none") == frozenset()
    assert read_checks("asan|tsan") == {"access", "race"}
    assert read_checks("all") == {"access", "value", "operation", "race"}
    with pytest.raises(CheckError, match=r"there is no sanitizer 'acess'; did you mean 'access'\?"):
        read_checks("acess|race")
    assert instrument(api.prepare_checks([api.parse(KERNELS, "k.loom")]), frozenset()) == 0


class Fault(Exception):
    """As simulators raise it."""

    @attrs.frozen
    class Record:
        kind: str

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.record = Fault.Record(kind)


class Crash(Exception):
    """As devices that run native code raise it."""

    def __init__(self, signal: str) -> None:
        super().__init__(signal)
        self.signal = signal


class Chatty:
    """A device that reports events as it goes, and fails if it is told to."""

    def __init__(self, events: Sequence[Event] = (), error: Exception | None = None) -> None:
        self.facts: Mapping[str, object] = {}
        self._events = list(events)
        self._error = error

    def launch(self, module: Module, kernel: Op, workload: Sequence[Any], arguments: Sequence[Any]) -> None:
        if self._error is not None:
            raise self._error

    def call(self, module: Module, function: Op, arguments: Sequence[Any]) -> list[Any]:
        raise AssertionError("no function is called")

    def take_events(self) -> list[Event]:
        taken, self._events = self._events, []
        return taken

    def close(self) -> None:
        """Nothing to close."""


def test_events_that_a_device_collects() -> None:
    printed = {"type": "printf", "severity": "info", "function": "copy"}
    assert run(*copy(4, 1), event('{count = 2, type = "printf"}'), device=Chatty([printed, printed])).passed
    (failure,) = run(*copy(4, 1), event('{type = "none"}'), device=Chatty([printed])).expectations.failures
    assert failure.detail == "no event was expected; the device reported printf in @copy"


@pytest.mark.parametrize(
    ("error", "pattern", "passes"),
    [
        (Fault("out_of_bounds"), '{type = "asan_report"}', True),
        (Fault("vulkan_out_of_bounds"), '{type = "asan_report"}', True),
        (Crash("SIGSEGV"), '{asan = {access = "unknown"}}', True),
        (Crash("SIGFPE"), '{ubsan = {check = "divide_by_zero"}}', True),
        (Crash("SIGILL"), '{type = "driver_failure"}', True),
        (Fault("misaligned"), '{ubsan = {check = "alignment"}}', True),
        (Fault("lds_race"), '{tsan = {check = "data_race"}}', True),
        (Fault("step_budget"), '{severity = "fatal", type = "driver_failure"}', True),
        (Fault("step_budget"), '{type = "asan_report"}', False),
        # A device that cannot run something, or has a defect, reports nothing about the program.
        (Fault("unsupported"), '{function = "copy"}', False),
        (KeyError("v0"), '{function = "copy"}', False),
    ],
)
def test_faults_of_other_devices(error: Exception, pattern: str, passes: bool) -> None:
    assert run(*copy(4, 1), event(pattern), device=Chatty(error=error)).passed is passes


def test_what_does_not_compile_is_no_event() -> None:
    from loom.ir.diagnostics import fail

    error = fail("TARGET/036", "no such instruction", emitter="select")
    assert not run(*copy(4, 1), event('{function = "copy"}'), device=Chatty(error=error)).passed


def test_patterns_are_subsets() -> None:
    happened = {"type": "asan_report", "severity": "error", "asan": {"access": "read", "access_length": 4}}
    assert matches({}, happened)
    assert matches({"asan": {"access": "read"}, "severity": "error", "count": 7}, happened)
    assert not matches({"asan": {"access": "read", "access_length": 8}}, happened)
    assert not matches({"ubsan": {}}, happened)
    assert unmet({"count": 2}, [happened, happened]) is None
    assert unmet({"count": 1}, [happened, happened]) is not None
    assert unmet({}, [happened, happened]) is None
