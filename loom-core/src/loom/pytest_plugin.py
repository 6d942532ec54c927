"""pytest plugin: every sample of every ``check.case``, every ``check.scenario``, and every golden case is a test.

    pytest examples/ --loom-device=reference
    pytest examples/saxpy.loom --loom-device=sim --loom-target=amdgpu:gfx1200 -k "count=127"
    pytest loom-core/tests/golden/canonical.loom-test

A test is called ``saxpy.loom::axpy_tails[count=127]``: the file, the case, the values of the sample's parameters. A
scenario is one test, with all its trials. Cases of ``.loom-test`` files need no device and are always collected.
Without ``--loom-device`` no ``.loom`` file is collected, so installing Loom changes no other project's runs.

A file is linked, specialized and planned once, when it is collected, and its device is open while its tests run. What a
file declares but does not define is searched in the files given with ``--loom-library``; without that option, in the
other ``.loom`` files of its directory. Files without cases are only read.

Loom itself is imported when there is something for it to do: this module is loaded into every pytest run.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from loom.check.expand import Sample
    from loom.check.invoke import Execution
    from loom.check.plan import CasePlan, CheckPlan
    from loom.check.plan_scenario import ScenarioPlan
    from loom.check.report import PlanningIssue, SampleResult, TestReport, TrialResult
    from loom.ir.core import Module
    from loom.plugins.records import Device, TargetProfile

_DEVICE: pytest.StashKey[tuple[Device, TargetProfile | None]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The plugin's options."""
    group = parser.getgroup("loom", "checks of Loom modules")
    group.addoption(
        "--loom-device", metavar="NAME", help="collect the check cases of .loom files and run them on this device"
    )
    group.addoption(
        "--loom-target",
        metavar="FAMILY:SELECTOR",
        help="target to compile for (default: the device's own), also of golden cases that name none",
    )
    group.addoption(
        "--loom-library",
        metavar="PATH",
        action="append",
        default=[],
        help="link against this library (repeatable; default: the other .loom files of the directory)",
    )
    group.addoption(
        "--loom-max-samples-per-case",
        metavar="N",
        type=int,
        default=None,
        help="run at most this many samples of a case (default: 4096)",
    )
    group.addoption(
        "--loom-file-output-dir", metavar="DIR", help="where the files go that cases write; without it none are written"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the device, so that an unknown one ends the run before anything is collected."""
    name, target = config.getoption("loom_device"), config.getoption("loom_target")
    if name is None and config.getoption("loom_library"):
        raise pytest.UsageError("--loom-library needs --loom-device")
    if (cap := config.getoption("loom_max_samples_per_case")) is not None and cap < 1:
        raise pytest.UsageError(f"--loom-max-samples-per-case: {cap} is not a number of samples above 0")
    for path in config.getoption("loom_library"):
        if not Path(path).is_file():
            raise pytest.UsageError(f"--loom-library: no file {path}")
    if name is None and target is None:
        return
    from loom.check.session import select_device
    from loom.ir.diagnostics import LoomError
    from loom.plugins.manager import PluginError, find_target

    try:
        if name is None:
            find_target(target)
        else:
            config.stash[_DEVICE] = select_device(name, target)
    except LoomError as error:
        raise pytest.UsageError(_text(error)) from error
    except PluginError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_report_header(config: pytest.Config) -> str | None:
    """The device and target that checks run on."""
    chosen = config.stash.get(_DEVICE, None)
    if chosen is None:
        return None
    device, target = chosen
    return f"loom: device {device.name}" + (f", target {target.name}" if target is not None else "")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A `LoomFile` for a ``.loom`` file, if a device is given; a collector of its cases for a ``.loom-test`` file."""
    if file_path.suffix == ".loom-test":
        from loom.golden.pytest_items import GoldenFileCollector

        return GoldenFileCollector.from_parent(parent, path=file_path)
    if file_path.suffix != ".loom" or _DEVICE not in parent.config.stash:
        return None
    return LoomFile.from_parent(parent, path=file_path)


class SampleFailed(Exception):
    """A sample did not pass; the message is what the runner prints about it."""


class LoomFile(pytest.File):
    """A module with its cases, prepared for the device of the run, which is open while its tests run."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self._resources = ExitStack()
        self._execution: Execution | None = None
        self._skips: dict[str, str | None] = {}
        self._failed_cases: set[str] = set()

    def collect(self) -> Iterable[pytest.Item]:
        """The tests of the file: one per sample, one for each case or benchmark that cannot be planned."""
        from loom.check.errors import CheckError
        from loom.ir.diagnostics import LoomError

        try:
            plan = self._plan()
        except LoomError as error:
            raise self.CollectError(_text(error)) from error
        except (CheckError, OSError) as error:
            raise self.CollectError(f"{self.path.name}: {error}") from error
        if plan is None:
            return []
        return list(self._items(plan))

    def _plan(self) -> CheckPlan | None:
        """What to run, or ``None`` for a file without cases."""
        from loom import api
        from loom.check.options import DEFAULT_SAMPLE_CAP, CheckOptions
        from loom.check.plan import plan_checks
        from loom.plugins.manager import load_plugins

        module = api.load(self.path)
        if not any(op.name in ("check.case", "check.scenario", "check.benchmark") for op in module.ops):
            return None
        libraries = self.config.getoption("loom_library") or _neighbours(self.path, module)
        _, target = self.config.stash[_DEVICE]
        prepared = api.prepare_checks([module], libraries, target)
        cap = self.config.getoption("loom_max_samples_per_case") or DEFAULT_SAMPLE_CAP
        return plan_checks(prepared, CheckOptions(max_samples_per_case=cap), load_plugins())

    def _items(self, plan: CheckPlan) -> Iterator[pytest.Item]:
        for case in plan.cases:
            if case.issues:
                yield PlanningItem.from_parent(self, name=case.name, issues=case.issues)
                continue
            if case.is_truncated:
                left_out = case.expansion.full_count - case.sample_count
                warnings.warn(
                    pytest.PytestWarning(f"{self.path.name}: @{case.name}: {left_out} samples are over the cap"),
                    stacklevel=1,
                )
            for sample in case.samples():
                # No parameter has a value twice, so names differ.
                yield SampleItem.from_parent(self, name=_test_name(case, sample), plan=plan, case=case, sample=sample)
        for scenario in plan.scenarios:
            if scenario.issues:
                yield PlanningItem.from_parent(self, name=scenario.name, issues=scenario.issues)
            else:
                yield ScenarioItem.from_parent(self, name=scenario.name, plan=plan, scenario=scenario)
        for number, issue in enumerate(plan.benchmark_issues):
            yield PlanningItem.from_parent(self, name=f"{issue.case}.benchmark{number}", issues=(issue,))

    def execution(self, plan: CheckPlan) -> Execution:
        """The device with the module, opened for the first test that runs. Raises `LoomError` if it cannot be."""
        from loom.check.invoke import Execution
        from loom.check.session import opened
        from loom.plugins.manager import load_plugins

        if self._execution is None:
            device, target = self.config.stash[_DEVICE]
            handle = self._resources.enter_context(opened(device, target))
            self._execution = Execution(plan.module, handle, device.name, load_plugins(), target)
            self._resources.callback(self._execution.close)
        return self._execution

    def reason_to_skip(self, case: CasePlan | ScenarioPlan, execution: Execution) -> str | None:
        """Why a case does not run on the device, asked once per case."""
        from loom.check.gate import reason_to_skip

        if case.name not in self._skips:
            skipped = reason_to_skip(case, execution.device.facts, execution.registries.requirement_providers)
            self._skips[case.name] = None
            if skipped is not None:
                message = skipped.display_message or skipped.code.value
                self._skips[case.name] = f"@{case.name}: {skipped.op}<{skipped.provider}>: {message}"
        return self._skips[case.name]

    def run(self, plan: CheckPlan, case: CasePlan, sample: Sample) -> SampleResult:
        """Run one sample. Of the files that samples of a case write on failure, those of the first one stay."""
        from loom.check.run import run_sample

        output = self.config.getoption("loom_file_output_dir")
        result = run_sample(
            case,
            sample,
            self.execution(plan),
            Path(output) if output is not None else None,
            keep_failure=case.name not in self._failed_cases,
        )
        if not result.passed:
            self._failed_cases.add(case.name)
        return result

    def run_scenario(self, plan: CheckPlan, scenario: ScenarioPlan) -> list[TrialResult]:
        """Run the trials of a scenario."""
        from loom.check.run_scenario import run_trials

        output = self.config.getoption("loom_file_output_dir")
        return list(run_trials(scenario, self.execution(plan), Path(output) if output is not None else None))

    def teardown(self) -> None:
        """Close the device."""
        self._execution = None
        self._resources.close()


class DeviceItem(pytest.Item):
    """What runs on the device: a sample of a case, or a scenario."""

    parent: LoomFile

    def __init__(self, *, plan: CheckPlan, **fields: Any) -> None:
        super().__init__(**fields)
        self._plan = plan

    def record(self) -> CasePlan | ScenarioPlan:
        """The case or scenario."""
        raise NotImplementedError

    def report(self) -> TestReport:
        """Run it and report on it."""
        raise NotImplementedError

    def setup(self) -> None:
        """Open the device if this is the first test; skip when the case does not suit it."""
        from loom.ir.diagnostics import LoomError

        try:
            execution = self.parent.execution(self._plan)
        except LoomError as error:
            pytest.fail(_text(error), pytrace=False)
        reason = self.parent.reason_to_skip(self.record(), execution)
        if reason is not None:
            pytest.skip(reason)

    def runtest(self) -> None:
        """Run it."""
        from loom.check.report_text import failure_lines

        report = self.report()
        if report.failed:
            raise SampleFailed("\n".join(line.text for line in failure_lines(report)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The runner's own text for what did not pass."""
        if isinstance(excinfo.value, SampleFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The file, the line of the case counted from 0, and the name."""
        return self.path, _line(self.record()), self.name


class SampleItem(DeviceItem):
    """One sample of a case."""

    def __init__(self, *, case: CasePlan, sample: Sample, **fields: Any) -> None:
        super().__init__(**fields)
        self._case = case
        self._sample = sample

    def record(self) -> CasePlan:
        return self._case

    def report(self) -> TestReport:
        from loom.check.report import TestReport

        return TestReport.collect(case_count=1, samples=[self.parent.run(self._plan, self._case, self._sample)])


class ScenarioItem(DeviceItem):
    """A scenario with all its trials."""

    def __init__(self, *, scenario: ScenarioPlan, **fields: Any) -> None:
        super().__init__(**fields)
        self._scenario = scenario

    def record(self) -> ScenarioPlan:
        return self._scenario

    def report(self) -> TestReport:
        from loom.check.report import TestReport

        trials = self.parent.run_scenario(self._plan, self._scenario)
        return TestReport.collect(case_count=0, scenario_count=1, trials=trials)


class PlanningItem(pytest.Item):
    """A case or benchmark that cannot be run as written: it fails with the reasons."""

    def __init__(self, *, issues: tuple[PlanningIssue, ...], **fields: Any) -> None:
        super().__init__(**fields)
        self._issues = issues

    def runtest(self) -> None:
        """Fail with every issue."""
        from loom.check.report_text import issue_lines

        raise SampleFailed("\n".join(line.text for issue in self._issues for line in issue_lines(issue)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The issues as the runner prints them."""
        if isinstance(excinfo.value, SampleFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The file, the line of the first issue counted from 0, and the name."""
        place = self._issues[0].source_location
        return self.path, place.start_line - 1 if place is not None else None, self.name


def _neighbours(path: Path, module: Module) -> list[Path]:
    """The other modules of a directory, for a module that declares what it does not define."""
    if not any("declaration" in op.spec.traits for op in module.ops):
        return []
    return sorted(other for other in path.parent.glob("*.loom") if other != path)


def _test_name(case: CasePlan, sample: Sample) -> str:
    values = ",".join(f"{a.key}={_value_text(a.value)}" for a in sample.assignments)
    return f"{case.name}[{values}]" if values else case.name


def _value_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _line(case: CasePlan | ScenarioPlan) -> int | None:
    from loom.ir.diagnostics import SourceLocation

    place = SourceLocation.of(case.op.loc)
    return place.start_line - 1 if place is not None else None


def _text(error: Any) -> str:
    """The diagnostics of a `LoomError`, as commands print them."""
    return "\n".join(diagnostic.render() for diagnostic in error.diagnostics)
