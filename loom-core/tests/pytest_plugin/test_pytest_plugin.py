"""Checks as tests of pytest, in runs of their own."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest

pytest_plugins = ("pytester",)

CHECKS = """\
func.def public @double(%x: i32) -> (i32) {
  %sum = scalar.addi %x, %x : i32
  func.return %sum : i32
}

check.case public @doubles {
  %x = check.param.choice values([1, 2, 5]) name("x") : i32
  %y = func.call @double(%x) : (i32) -> (i32)
  %want = check.literal value(4) : i32
  check.expect.equal actual(%y) expected(%want) : i32
  check.return
}
"""

PLAIN = """\
check.case public @plain {
  %x = check.literal value(4) : i32
  check.expect.equal actual(%x) expected(%x) : i32
  check.return
}
"""


@pytest.fixture
def alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A directory whose runs load this plugin and no other, installed or not."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("PYTEST_PLUGINS", raising=False)
    return pytester


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "loom.pytest_plugin", "-v", *arguments)


def write(pytester: pytest.Pytester, **files: str) -> None:
    for name, text in files.items():
        (pytester.path / f"{name}.loom").write_text(text)


def test_without_a_device_other_tests_run_untouched(alone: pytest.Pytester) -> None:
    """No .loom file is collected, however broken, and Loom is not even imported."""
    write(alone, checks=CHECKS, broken="not a module")
    alone.makepyfile(
        "import sys\n\ndef test_it():\n    assert not any(m.startswith('loom.check') for m in sys.modules)\n"
    )
    result = run(alone)
    result.assert_outcomes(passed=1)
    assert ".loom" not in result.stdout.str()


def test_every_sample_is_a_test_and_a_failure_reads_as_in_the_runner(alone: pytest.Pytester) -> None:
    write(alone, checks=CHECKS, plain=PLAIN)
    result = run(alone, "--loom-device=reference")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines_random(
        [
            "loom: device reference",
            "checks.loom::doubles[[]x=1[]] FAILED*",
            "checks.loom::doubles[[]x=2[]] PASSED*",
            "checks.loom::doubles[[]x=5[]] FAILED*",
            "plain.loom::plain PASSED*",
            "@doubles sample 0 {x = 1}",
            "*checks.loom:10:3: expectation 0 (equal): %y against %want",
            "@doubles sample 2 {x = 5}",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    assert "pytest_plugin.py" not in result.stdout.str()


def test_one_sample_can_be_named(alone: pytest.Pytester) -> None:
    write(alone, checks=CHECKS)
    run(alone, "--loom-device=reference", "checks.loom::doubles[x=2]").assert_outcomes(passed=1)


def test_a_file_is_prepared_and_its_device_opened_once(alone: pytest.Pytester) -> None:
    """Three samples of one file share the module and the device, which is closed after the last one."""
    write(alone, checks=CHECKS)
    alone.makeconftest("""
        from loom import api
        from loom.evaluate import device

        def spy(owner, name):
            original = getattr(owner, name)
            def counted(*arguments, **named):
                print("called", name)
                return original(*arguments, **named)
            setattr(owner, name, counted)

        spy(api, "prepare_checks")
        spy(device.ReferenceDevice, "__init__")
        spy(device.ReferenceDevice, "close")
        """)
    result = run(alone, "-s", "--loom-device=reference")
    for name in ("prepare_checks", "__init__", "close"):
        assert result.stdout.str().count(f"called {name}\n") == 1, name


def test_a_case_whose_requirement_is_not_met_is_skipped(alone: pytest.Pytester) -> None:
    needs = '  check.requires<hal.amdgpu.descriptor_set> {descriptor_set = "amdgpu.gfx11.generic.core"}\n'
    write(alone, picky=PLAIN.replace("@plain {\n", "@picky {\n" + needs), plain=PLAIN)
    result = run(alone, "--loom-device=reference", "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*@picky: requires<hal.amdgpu.descriptor_set>: *"])


def test_what_a_file_declares_is_found_beside_it_or_in_given_libraries(alone: pytest.Pytester) -> None:
    definition, case = CHECKS.split("\n\n")
    case = "func.decl @double(%x: i32) -> (i32)\n\n" + case.replace("[1, 2, 5]", "[2]")
    write(alone, checks=case, double=definition)
    run(alone, "--loom-device=reference").assert_outcomes(passed=1)
    elsewhere = alone.mkdir("elsewhere")
    (alone.path / "double.loom").rename(elsewhere / "double.loom")
    missing = run(alone, "--loom-device=reference", "checks.loom")
    missing.assert_outcomes(errors=1)
    missing.stdout.fnmatch_lines(["*checks.loom:1:1: error: *nothing defines '@double'*"])
    run(alone, "--loom-device=reference", "--loom-library=elsewhere/double.loom", "checks.loom").assert_outcomes(
        passed=1
    )


def test_faults_have_their_places(alone: pytest.Pytester) -> None:
    """A file that is not a module is an error of collection; a case that cannot be planned is a failed test."""
    write(
        alone,
        broken=PLAIN.replace("check.literal", "check.litteral"),
        empty=PLAIN.replace("check.literal value(4)", "check.param.choice values([])"),
        plain=PLAIN,
    )
    result = run(alone, "--loom-device=reference", "--continue-on-collection-errors")
    result.assert_outcomes(passed=1, failed=1, errors=1)
    result.stdout.fnmatch_lines_random(
        [
            "*broken.loom:2:8: error*check.litteral*",
            "empty.loom::plain FAILED*",
            "*empty.loom:2:*invalid parameter*",
            "plain.loom::plain PASSED*",
        ]
    )
    assert "Traceback" not in result.stdout.str()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--loom-device=refrence",), "*no device named 'refrence'*"),
        (("--loom-device=reference", "--loom-target=toaster:2"), "*no target named 'toaster:2'*"),
        (("--loom-target=toaster:2",), "*no target named 'toaster:2'*"),
        (("--loom-library=x.loom",), "*--loom-library needs --loom-device*"),
        (("--loom-device=reference", "--loom-library=nowhere.loom"), "*no file nowhere.loom*"),
    ],
)
def test_options_that_cannot_be_used_end_the_run(
    alone: pytest.Pytester, arguments: tuple[str, ...], message: str
) -> None:
    result = run(alone, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


SCENARIOS = """\
check.scenario @halves {
  check.trial[3](%t: index, %entropy: check.entropy) {
    %one = check.literal value(1) : index
    check.expect.equal actual(%t) expected(%one) : index
  }
  check.return
}

check.scenario @fine {
  check.trial[3](%t: index, %entropy: check.entropy) {
    check.expect.equal actual(%t) expected(%t) : index
  }
  check.return
}

check.scenario @wide {
  check.requires<loom.target> {subgroup_size = 64}
  check.return
}

check.scenario @unplanned {
  check.trial[1](%t: index, %entropy: check.entropy) {
    %x = check.param.choice values([1]) : index
  }
  check.return
}
"""


def test_a_scenario_is_one_test(alone: pytest.Pytester) -> None:
    """With all its trials."""
    write(alone, trials=SCENARIOS)
    result = run(alone, "--loom-device=reference")
    result.assert_outcomes(passed=1, failed=2, skipped=1)
    result.stdout.fnmatch_lines_random(
        [
            "trials.loom::halves FAILED*",
            "trials.loom::fine PASSED*",
            "trials.loom::wide SKIPPED*",
            "trials.loom::unplanned FAILED*",
            "@halves trial 0 (configuration 0, index 0, entropy */*)",
            "@halves trial 2 (*",
            "*stands in a case, not in a trial",
        ]
    )
    assert "@halves trial 1" not in result.stdout.str()
    assert "Traceback" not in result.stdout.str()


GOLDEN = """\
// RUN: pass canonicalize
// ==== adding zero
func.def @f(%x: i32) -> (i32) {
  %zero = scalar.constant 0 : i32
  %r = scalar.addi %x, %zero : i32
  func.return %r : i32
}
// ----
func.def @f(%x: i32) -> (i32) {
  func.return RESULT : i32
}
// ==== twice
// RUN: roundtrip
func.def @f() {
  func.return
}
// ==== twice
// REQUIRES: no-such-thing
func.def @f() {
}
"""


def test_golden_cases_are_tests_without_a_device(alone: pytest.Pytester) -> None:
    """Named by their titles; a failure reads as in loom-test."""
    (alone.path / "right.loom-test").write_text(GOLDEN.replace("RESULT", "%x"))
    (alone.path / "wrong.loom-test").write_text(GOLDEN.replace("RESULT", "%y"))
    (alone.path / "broken.loom-test").write_text("// RUN: nonsense\nx\n")
    result = run(alone, "--continue-on-collection-errors", "-rs")
    result.assert_outcomes(passed=3, failed=1, skipped=2, errors=1)
    result.stdout.fnmatch_lines_random(
        [
            "right.loom-test::adding zero PASSED*",
            "right.loom-test::twice#1 PASSED*",
            "wrong.loom-test::adding zero FAILED*",
            "*wrong.loom-test:2: the output is not as expected",
            "  -   func.return %y : i32",
            "  +   func.return %x : i32",
            "broken.loom-test:1: there is no mode 'nonsense'*",
            "SKIPPED*requires no-such-thing",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    run(alone, "right.loom-test::adding zero").assert_outcomes(passed=1)


def test_the_package_announces_the_plugin() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    (name,) = project["project"]["entry-points"]["pytest11"].values()
    assert callable(importlib.import_module(name).pytest_collect_file)
