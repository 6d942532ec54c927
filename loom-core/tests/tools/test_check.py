"""The `loom-check` command: output, reports, exit status, and input that is no good."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from loom import api
from loom.tools.check import main

COMMAND = (sys.executable, "-c", "import sys; from loom.tools.check import main; sys.exit(main())")
SHARED = Path(os.environ.get("LOOM_SHARED") or Path(__file__).resolve().parents[4] / "shared")

PROGRAM = """\
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
  %one = scalar.constant 1.0 : f32
  %xv = buffer.view %x[%origin] : buffer -> view<[%count]xf32>
  %live = index.cmp ult, %i, %count : index
  scf.if %live {
    %xi = view.load %xv[%i] : view<[%count]xf32> -> f32
    %r = scalar.addf %xi, %one : f32
    view.store %r, %xv[%i] : f32, view<[%count]xf32>
  }
  kernel.return
}

check.case public @tails {
  %n = check.param.choice values([1, 33, 64]) name("count") : index
  %x = check.generate.iota offset(0.0) step(1.0) : tensor<[%n]xf32>
  %want = check.generate.iota offset(OFFSET) step(STEP) : tensor<[%n]xf32>
  kernel.launch @add_one[%n](%n, %x) : [index](index, tensor<[%n]xf32>)
  check.expect.bitwise actual(%x) expected(%want) : tensor<[%n]xf32>
  check.file.write.npy value(%x) path("x.npy") : tensor<[%n]xf32>
  check.return
}

check.case public @wide {
  check.requires<loom.target> {subgroup_size = 64}
  check.return
}

check.benchmark<@tails> @tails_64 {count = 64}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A program whose case passes for every tail."""
    path = tmp_path / "add_one.loom"
    path.write_text(PROGRAM.replace("OFFSET", "1.0").replace("STEP", "1.0"))
    return path


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """The same with an expectation that only the first element meets."""
    path = tmp_path / "wrong.loom"
    path.write_text(PROGRAM.replace("OFFSET", "1.0").replace("STEP", "2.0"))
    return path


THEN = (
    "    then [2]: actual 0x40400000 (3.0), expected 0x40a00000 (5.0)",
    "    then [3]: actual 0x40800000 (4.0), expected 0x40e00000 (7.0)",
    "    then [4]: actual 0x40a00000 (5.0), expected 0x41100000 (9.0)",
)


def check(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main([*map(str, arguments), "--device=reference"])
    captured = capsys.readouterr()
    return status, re.sub(r"\(\d[^()]* m?s\)", "(time)", captured.out), captured.err


# -- output for people -----------------------------------------------------------------------------------------


@pytest.mark.seed("T01")
def test_a_passing_file(capsys: pytest.CaptureFixture[str], source: Path) -> None:
    """A line per case and the totals; a skip is no failure and standard error stays empty."""
    assert check(capsys, source) == (
        0,
        "PASS  @tails: 3 samples (time)\n"
        "SKIP  @wide: requires<loom.target>: needs subgroup_size = 64; the target does not say\n"
        "3 samples: 3 passed, 0 failed; 1 skipped case\n",
        "",
    )


@pytest.mark.seed("T01")
def test_a_wrong_expectation(capsys: pytest.CaptureFixture[str], wrong: Path) -> None:
    """Sample parameters, first differing index with both values, counts, largest error, exit status 1."""
    status, out, err = check(capsys, wrong, "--case=@tails")
    line = PROGRAM.splitlines().index("  check.expect.bitwise actual(%x) expected(%want) : tensor<[%n]xf32>")
    place = f"{wrong}:{line + 1}:3"
    assert (status, err) == (1, "")
    assert out.splitlines() == [
        "FAIL  @tails: 2 of 3 samples failed (time)",
        "@tails sample 1 {count = 33}",
        f"  {place}: expectation 0 (bitwise): %x against %want",
        "    32 of 33 elements differ; first at [1]: actual 0x40000000 (2.0), expected 0x40400000 (3.0); "
        "largest absolute error 32.0, largest relative error 0.49230769230769234",
        *THEN,
        "@tails sample 2 {count = 64}",
        f"  {place}: expectation 0 (bitwise): %x against %want",
        "    63 of 64 elements differ; first at [1]: actual 0x40000000 (2.0), expected 0x40400000 (3.0); "
        "largest absolute error 63.0, largest relative error 0.49606299212598426",
        *THEN,
        "hint: --file-output-dir=DIR keeps the files that failed cases write",
        "3 samples: 1 passed, 2 failed",
    ]


def test_files_of_failures(capsys: pytest.CaptureFixture[str], wrong: Path, tmp_path: Path) -> None:
    """Written below the directory, made if missing, and named in the output."""
    target = tmp_path / "made" / "here"
    status, out, _ = check(capsys, wrong, "--file-output-dir", target)
    assert status == 1
    assert f"  wrote {target / 'x.npy'}\n" in out
    assert "hint" not in out
    np.testing.assert_array_equal(np.load(target / "x.npy"), np.arange(1, 34, dtype=np.float32))


def test_nothing_is_written_when_all_passes(capsys: pytest.CaptureFixture[str], source: Path, tmp_path: Path) -> None:
    """Not even the directory."""
    assert check(capsys, source, f"--file-output-dir={tmp_path / 'out'}")[0] == 0
    assert not (tmp_path / "out").exists()


def test_selection(capsys: pytest.CaptureFixture[str], source: Path) -> None:
    """Cases with or without the sigil, one sample by its ordinal, and a cap that is reported."""
    assert check(capsys, source, "--case=wide")[1].splitlines()[-1] == ("0 samples: 0 passed, 0 failed; 1 skipped case")
    out = check(capsys, source, "--case", "@tails", "--sample", "2", "--verbose")[1]
    assert out.splitlines()[0] == "  ok   sample 2 {count = 64} (time)"
    assert out.splitlines()[-1] == "1 sample: 1 passed, 0 failed"
    out = check(capsys, source, "--case=@tails", "--max-samples-per-case=2")[1]
    assert out.splitlines()[0] == "PASS  @tails: 2 samples (of 3; the rest is over the cap) (time)"
    out = check(capsys, source.with_name(_two_cases(source)), "--sample=1")[1]
    assert out.splitlines()[:2] == ["PASS  @tails: 1 sample (time)", "NONE  @once: the selected sample does not exist"]
    assert check(capsys, source, "--sample=-1", "--case=@tails")[1].splitlines()[-1] == "3 samples: 3 passed, 0 failed"


def _two_cases(source: Path) -> str:
    head = "case public @wide {\n  check.requires<loom.target> {subgroup_size = 64}"
    source.with_name("two.loom").write_text(source.read_text().replace(head, "case @once {"))
    return "two.loom"


def test_quiet_and_verbose(capsys: pytest.CaptureFixture[str], source: Path, wrong: Path) -> None:
    """Quiet leaves out what passed; verbose shows each sample."""
    assert check(capsys, source, "--quiet", "--case=@tails")[1] == "3 samples: 3 passed, 0 failed\n"
    assert check(capsys, wrong, "-q")[1].startswith("FAIL  @tails: 2 of 3 samples failed")
    lines = check(capsys, wrong, "-v", "--case=@tails")[1].splitlines()
    assert lines[:4] == [
        "  ok   sample 0 {count = 1} (time)",
        "  FAIL sample 1 {count = 33} (time)",
        "  FAIL sample 2 {count = 64} (time)",
        "FAIL  @tails: 2 of 3 samples failed (time)",
    ]


def test_listing_runs_nothing(capsys: pytest.CaptureFixture[str], wrong: Path) -> None:
    """Only names, counts and parameters."""
    assert check(capsys, wrong, "--list") == (
        0, "@tails: 3 samples (count x3)\n@wide: 1 sample\n@tails_64: benchmark of @tails: 1 sample (count = 64)\n", "",
    )  # fmt: skip


def test_planning_issues(capsys: pytest.CaptureFixture[str], source: Path) -> None:
    """Fail the run, with place and hint, but only their case does not run."""
    text = source.read_text().replace("{count = 64}", "{count = 65}") + (
        "check.case @bad {\n  %v = check.literal value(300) : i8\n  check.return\n}\n"
    )
    source.write_text(text)
    line = len(text.splitlines())
    status, out, err = check(capsys, source)
    assert (status, err) == (1, "")
    assert out.splitlines() == [
        "PASS  @tails: 3 samples (time)",
        "SKIP  @wide: requires<loom.target>: needs subgroup_size = 64; the target does not say",
        "ERROR @bad: cannot be planned (1 issue)",
        f"{source}:{line - 2}:8: @bad: check.literal: invalid value source: "
        "literal 300 is outside the range of i8 (-128 to 127)",
        f"{source}:{line - 4}:1: @tails: check.benchmark: invalid benchmark assignment: "
        "benchmark '@tails_64': 65 is not one of the values of 'count'",
        "3 samples: 3 passed, 0 failed; 1 skipped case; 2 planning issues",
    ]
    status, out, _ = check(capsys, source, "--list")
    assert status == 1
    assert "@bad: 0 samples" in out


def test_a_fault_in_a_kernel(capsys: pytest.CaptureFixture[str], source: Path) -> None:
    """The sample fails with the diagnostic's code and the place in the kernel; the others run."""
    text = source.read_text().replace(
        "%x = check.generate.iota offset(0.0) step(1.0) : tensor<[%n]xf32>",
        "%x = check.generate.iota offset(0.0) step(1.0) : tensor<33xf32>",
    )
    text = text.replace("actual(%x) expected(%want) : tensor<[%n]xf32>", "actual(%x) expected(%x) : tensor<33xf32>")
    text = text.replace("tensor<[%n]xf32>)", "tensor<33xf32>)").replace(
        'path("x.npy") : tensor<[%n]xf32>', 'path("x.npy") : tensor<33xf32>'
    )
    source.write_text(text)
    status, out, _ = check(capsys, source, "--case=@tails")
    assert status == 1
    assert "FAIL  @tails: 1 of 3 samples failed" in out
    assert "@tails sample 2 {count = 64}\n" in out
    assert re.search(rf"{re.escape(str(source))}:1[0-9]:\d+: launch \(reference\) \[[A-Z]+/\d+\]: ", out)


# -- the report ------------------------------------------------------------------------------------------------


def test_json(capsys: pytest.CaptureFixture[str], wrong: Path) -> None:
    """The report and nothing else on standard output; the status is the same as without it."""
    status, out, err = check(capsys, wrong, "--json")
    report = json.loads(out)
    assert (status, err) == (1, "")
    assert list(report) == [
        "format", "case_count", "scenario_count", "sample_count", "failed_sample_count", "trial_count",
        "failed_trial_count", "skipped_case_count", "planning_issue_count", "xfail_count", "xpass_count",
        "xfail_mismatch_count", "samples", "trials", "skipped_cases", "planning_issues", "xfails",
    ]  # fmt: skip
    assert [report[key] for key in list(report)[:9]] == ["loom.test.v0", 2, 0, 3, 2, 0, 0, 1, 0]
    passed, failed, _ = report["samples"]
    assert passed == {
        "case": "tails",
        "sample_ordinal": 0,
        "passed": True,
        "expectations": {"expectation_count": 1, "passed_count": 1, "failed_count": 0, "failures": []},
        "parameters": {"count": 1},
    }
    (failure,) = failed["expectations"]["failures"]
    assert list(failure)[:5] == ["index", "kind", "actual_value_id", "expected_value_id", "detail"]
    assert failure["mismatch"]["index"] == [1]
    assert failure["source_location"]["filename"] == str(wrong)
    assert report["skipped_cases"] == [
        {
            "case": "wide",
            "provider": "loom.target",
            "op": "requires",
            "code": "requirement_not_satisfied",
            "provider_code": "target_fact_mismatch",
            "display_message": "needs subgroup_size = 64; the target does not say",
        }
    ]
    assert check(capsys, wrong, "--json")[1] == out


# -- configuration ---------------------------------------------------------------------------------------------

CONFIGURED = """\
config.decl @net.depth : %d: i32 where [range(%d, 2, 48)]

func.def @depth() -> (i32) {
  %d = config.get @net.depth : i32
  func.return %d : i32
}

check.case @c {
  %d = func.call @depth() : () -> (i32)
  %want = check.literal value(7) : i32
  check.expect.equal actual(%d) expected(%want) : i32
  check.return
}
"""


def test_configuration(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Values from options and files; unknown keys of options are named, unsuitable values refused."""
    path, values = tmp_path / "net.loom", tmp_path / "net.jsonc"
    path.write_text(CONFIGURED)
    values.write_text('{"net": {"depth": 7}, "other": 1} // of the same family\n')
    assert check(capsys, path, "--config=net.depth=7")[0] == 0
    assert check(capsys, path, f"--config-file={values}")[::2] == (0, "")
    assert check(capsys, path, "--config=net.depth=8")[0] == 1
    status, _, err = check(capsys, path, f"--config-file={values}", "--config=net.width=1")
    assert status == 0
    assert "warning: [SYMBOL/002] the program has no configuration key '@net.width'" in err
    assert "net.depth" in refused(capsys, path, "--config=net.depth=49")
    assert "given twice" in refused(capsys, path, "--config=net.depth=7", f"--config-file={values}")
    assert "net.depth" in refused(capsys, path)


def test_sanitizers(capsys: pytest.CaptureFixture[str], source: Path) -> None:
    """What is inserted changes no result, and finds what is wrong; unknown words are refused."""
    assert check(capsys, source, "--sanitizer=access|value|operation|race")[0] == 0
    source.write_text(source.read_text().replace("launch @add_one[%n](%n,", "launch @add_one[%n](%more,").replace(
        "  %x = check.generate.iota", "  %more = check.literal value(99) : index\n  %x = check.generate.iota"
    ))  # fmt: skip
    status, out, _ = check(capsys, source, "--sanitizer=asan", "--case=@tails")
    assert (status, "[EVALUATE/002]: 'sanitizer.assert.access'" in out) == (1, True)
    assert "[EVALUATE/002]: 'view.load'" in check(capsys, source, "--case=@tails")[1]
    assert "there is no sanitizer 'memory'" in refused(capsys, source, "--sanitizer=memory")


# -- expected failures -----------------------------------------------------------------------------------------


def test_an_expected_failure_is_none(capsys: pytest.CaptureFixture[str], wrong: Path) -> None:
    """Neither in the totals nor in the exit status; the rows and the details stay."""
    status, out, _ = check(capsys, wrong, "--xfail=@tails=expectation")
    assert status == 0
    assert "xfail @tails: expected expectation; met expectation" in out.splitlines()
    assert out.splitlines()[-1] == "3 samples: 1 passed, 0 failed; 1 skipped case; 1 expected failure"
    status, out, _ = check(capsys, wrong, "--json", "--xfail=@tails=expectation")
    report = json.loads(out)
    assert (status, report["failed_sample_count"], report["xfail_count"]) == (0, 0, 1)
    assert [sample["passed"] for sample in report["samples"]] == [True, False, False]
    assert report["xfails"] == [
        {"record": "@tails", "outcome": "xfail", "expected": ["expectation"], "observed": ["expectation"]}
    ]


def test_an_expected_failure_must_happen_as_expected(
    capsys: pytest.CaptureFixture[str], source: Path, wrong: Path
) -> None:
    """A pass fails unless it is allowed, and so does another failure."""
    status, out, _ = check(capsys, source, "--xfail=@tails=EVALUATE/002")
    assert (status, out.splitlines()[-1]) == (1, "3 samples: 3 passed, 0 failed; 1 skipped case; 1 unexpected pass")
    assert check(capsys, source, "--allow-failure=@tails=EVALUATE/002")[0] == 0
    for option in ("--xfail", "--allow-failure"):
        status, out, _ = check(capsys, wrong, f"{option}=@tails=EVALUATE/002, TYPE/012")
        assert status == 1
        assert "mismatch @tails: expected EVALUATE/002, TYPE/012; met expectation" in out
    assert check(capsys, wrong, "--allow-failure=@tails=EVALUATE/002,expectation")[0] == 0
    # A case that does not run here proves nothing either way.
    assert check(capsys, source, "--xfail=@wide=EVALUATE/002")[0] == 0


def test_diagnostics_and_planning_issues_can_be_expected(capsys: pytest.CaptureFixture[str], source: Path) -> None:
    text = source.read_text()
    source.write_text(text.replace("launch @add_one[%n](%n,", "launch @add_one[%n](%more,").replace(
        "  %x = check.generate.iota", "  %more = check.literal value(99) : index\n  %x = check.generate.iota"
    ))  # fmt: skip
    status, out, _ = check(capsys, source, "--xfail=@tails=EVALUATE/002")
    assert status == 0, out
    source.write_text(text.replace('values([1, 33, 64]) name("count")', 'values([]) name("count")'))
    assert check(capsys, source)[0] == 1
    assert check(capsys, source, "--xfail=@tails=invalid_parameter,invalid_benchmark_assignment")[0] == 0


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--xfail=tails=TYPE/001", "'tails=TYPE/001' is not @record=DOMAIN/NNN,..."),
        ("--xfail=@tails", "'@tails' is not @record=DOMAIN/NNN,..."),
        ("--xfail=@tails=TYPE/1", "'@tails=TYPE/1' is not @record=DOMAIN/NNN,..."),
        ("--allow-failure=@tials=TYPE/001", "there is no case '@tials'"),
    ],
)
def test_malformed_expected_failures(
    capsys: pytest.CaptureFixture[str], source: Path, option: str, message: str
) -> None:
    assert message in refused(capsys, source, option)


# -- input that is no good ----------------------------------------------------------------------------------------


def test_standard_input(
    capsys: pytest.CaptureFixture[str], source: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Text or bytecode; files to read are looked for in the current directory."""
    monkeypatch.chdir(tmp_path)
    text = source.read_text()
    for data in (text.encode(), api.to_bytecode(api.parse(text))):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert check(capsys, "-")[0] == 0
    np.save("in.npy", np.arange(4, dtype="<f4"))
    reading = (
        'check.case @c {\n  %x = check.file.read.npy path("in.npy") : tensor<4xf32>\n'
        "  check.expect.equal actual(%x) expected(%x) : tensor<4xf32>\n  check.return\n}\n"
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(reading.encode())))
    assert check(capsys, "-")[0] == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"nonsense")))
    assert "<stdin>:1:1: error" in refused(capsys, "-")


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    status, out, err = check(capsys, *arguments)
    assert (status, out) == (1, "")
    assert "Traceback" not in err
    return err


def test_unknown_names(capsys: pytest.CaptureFixture[str], source: Path) -> None:
    """Of a case, a kind, a sample, a target: each with what would have been right."""
    assert refused(capsys, source, "--case=@tials") == (
        "error: [SYMBOL/002] there is no case '@tials'\n  hint: did you mean 'tails'?\n"
    )
    assert "'@add_one' is a 'kernel.def', not a case" in refused(capsys, source, "--case=@add_one")
    assert refused(capsys, source, "--sample=3") == (
        "loom-check: error: there is no sample 3: @tails has 3, @wide has 1, counted from 0\n"
    )
    assert "no target named 'toy:v1'" in refused(capsys, source, "--target=toy:v1")


@pytest.mark.parametrize("flags", [(), ("--json",), ("--list",)])
def test_files_that_cannot_be_read(capsys: pytest.CaptureFixture[str], tmp_path: Path, flags: tuple[str, ...]) -> None:
    """One line each, whatever the output was to be."""
    missing = tmp_path / "missing.loom"
    assert refused(capsys, missing, *flags) == f"loom-check: error: {missing}: No such file or directory\n"
    assert refused(capsys, tmp_path, *flags) == f"loom-check: error: {tmp_path}: Is a directory\n"


def test_a_missing_library(capsys: pytest.CaptureFixture[str], source: Path, tmp_path: Path) -> None:
    """Is named."""
    library = tmp_path / "kernels.loom"
    assert refused(capsys, source, f"--library={library}") == (
        f"loom-check: error: {library}: No such file or directory\n"
    )


@pytest.mark.parametrize("share", [0.001, 0.03, 0.3, 0.7, 0.9])
def test_truncated_files(capsys: pytest.CaptureFixture[str], source: Path, share: float) -> None:
    """A located diagnostic, wherever in an operation the text ends."""
    text = source.read_text()
    source.write_text(text[: int(len(text) * share) or 1])
    assert re.match(rf"{re.escape(str(source))}:\d+:\d+: error: \[[A-Z]+/\d+\] ", refused(capsys, source))


@pytest.mark.parametrize("data", [b"\xff\xfe\x00\x80", bytes(range(256)) * 8, b"LOOM\x10\x00", b"\0" * 64])
def test_binary_garbage(capsys: pytest.CaptureFixture[str], source: Path, data: bytes) -> None:
    """A diagnostic with a code."""
    source.write_bytes(data)
    assert re.search(r"error: \[[A-Z]+/\d+\] ", refused(capsys, source))


def test_a_device_that_is_not_installed(
    capsys: pytest.CaptureFixture[str], source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default one is in another package: the message names it, and what to use instead."""
    from loom.plugins import manager

    monkeypatch.setattr(manager, "_loaded", manager.collect(()))
    assert main([str(source)]) == 1
    assert capsys.readouterr().err == (
        "error: [TARGET/036] no device named 'sim'\n  hint: install loom-sim, or use --device=reference\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("a.loom", "b.loom"),
        ("a.loom", "--sample=x"),
        ("a.loom", "--sample=-2"),
        ("a.loom", "--max-samples-per-case=0"),
        ("a.loom", "--json", "--list"),
        ("a.loom", "--quiet", "--verbose"),
        ("a.loom", "--cas=@x"),
    ],
)
def test_usage(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    """Exit status 2 and a usage line."""
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    assert stopped.value.code == 2
    assert "usage: loom-check" in capsys.readouterr().err


def test_a_file_without_cases(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Is worth a note: nothing was checked."""
    source = tmp_path / "empty.loom"
    source.write_text("func.def @f() {\n  func.return\n}\n")
    assert check(capsys, source) == (
        0, "0 samples: 0 passed, 0 failed\n", f"loom-check: note: {source} has no check cases\n",
    )  # fmt: skip


# -- the process -----------------------------------------------------------------------------------------------


def test_help_needs_no_numpy() -> None:
    """Nor anything else that takes its time to start."""
    code = (
        "import sys\nfrom loom.tools.check import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as stop:\n    assert stop.code == 0\n"
        "sys.stderr.write(' '.join(sorted({'attrs', 'numpy', 'rich', 'pluggy'} & set(sys.modules))))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "loom-check saxpy.loom --device=reference" in result.stdout
    assert result.stderr == ""


def test_the_installed_commands() -> None:
    """Both names are there and are the same command."""
    for name in ("loom-check", "iree-test-loom"):
        script = Path(sys.executable).parent / name
        result = subprocess.run([script, "--help"], capture_output=True, text=True, check=False)
        assert (result.returncode, result.stderr) == (0, "")
        assert "--max-samples-per-case" in result.stdout


SLOW = """\
func.def @spin(%n: index) -> (index) {
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %r = scf.for %i = [%zero to %n step %one](%a = %zero : index) -> (index) {
    %b = index.add %a, %one : index
    scf.yield %b : index
  }
  func.return %r : index
}
check.case @spins {
  %seed = check.param.seed base(0) count(4000) : i64
  %n = check.literal value(20000) : index
  %r = func.call @spin(%n) : (index) -> (index)
  check.expect.equal actual(%r) expected(%n) : index
  check.return
}
"""


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """Runs for minutes."""
    path = tmp_path / "slow.loom"
    path.write_text(SLOW)
    return path


def test_an_interrupt_ends_the_run_quietly(slow: Path) -> None:
    """Exit status 130, no traceback."""
    # Tests that run in the background of a shell have been told to ignore interrupts, and children inherit that.
    listening = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {COMMAND[-1]}"
    process = subprocess.Popen(
        [*COMMAND[:-1], listening, slow, "--device=reference", "--verbose"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("  ok   sample 0 ")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, err) == (130, "")


def test_a_reader_that_goes_away(slow: Path) -> None:
    """Ends the run without complaint."""
    process = subprocess.Popen(
        [*COMMAND, slow, "--device=reference", "--verbose"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=20) == 1
    assert process.stderr.read() == ""
    process.stderr.close()


def on_a_terminal(*arguments: object, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """The exit status and everything that appears on a terminal."""
    master, slave = pty.openpty()
    base = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments), "--device=reference"],
        stdout=slave, stderr=slave, env={**base, "TERM": "xterm-256color", **(environment or {})},
    )  # fmt: skip
    os.close(slave)
    shown = b""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        if not data:
            break
        shown += data
    os.close(master)
    return process.wait(timeout=5), shown.decode()


def test_on_a_terminal(source: Path) -> None:
    """Progress that is taken away again, and colours unless they are not wanted."""
    status, shown = on_a_terminal(source)
    assert status == 0
    assert "@tails: 0 of 3 samples\r\x1b[2K" in shown
    assert "\x1b[32mPASS  @tails: 3 samples" in shown
    for arguments, environment in (((source, "--no-color"), {}), ((source,), {"NO_COLOR": "1"})):
        status, shown = on_a_terminal(*arguments, environment=environment)
        assert status == 0
        assert "\x1b[" not in shown.replace("\x1b[2K", "")


def test_no_progress_off_a_terminal(source: Path) -> None:
    """Standard error stays empty, and nothing is coloured."""
    result = subprocess.run([*COMMAND, source, "--device=reference"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("PASS  @tails: 3 samples (")


# -- programs that must work -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["host_functions", "saxpy_tail", "row_stats", "tile_transpose"])
def test_shared_cases_pass_on_the_reference_device(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Every sample of every case."""
    path = SHARED / "cases" / f"{name}.loom"
    if not path.exists():
        pytest.skip(f"{path} is not there (set LOOM_SHARED)")
    status, out, _ = check(capsys, path)
    assert (status, "FAIL" in out, "SKIP" in out) == (0, False, False)


def test_a_shared_case_made_wrong_fails(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One changed constant, and the output says where it shows."""
    path = SHARED / "cases" / "saxpy_tail.loom"
    if not path.exists():
        pytest.skip(f"{path} is not there (set LOOM_SHARED)")
    changed = tmp_path / "saxpy_tail.loom"
    changed.write_text(path.read_text().replace("offset(7.0) step(0.5)", "offset(7.0) step(0.75)"))
    status, out, _ = check(capsys, changed)
    assert status == 1
    assert "FAIL  @axpy_tails: 4 of 5 samples failed" in out
    assert "126 of 127 elements differ; first at [1]: actual 0x40f00000 (7.5), expected 0x40f80000 (7.75)" in out
