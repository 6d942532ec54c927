"""The `loom-test` command: modes, outcomes, rewriting, reports, exit status."""

from __future__ import annotations

import json
import random
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loom import api
from loom.golden.judge import check_globs
from loom.golden.run import Request, run_file
from loom.text import printer
from loom.tools.test import EXAMPLES, main

ADD_ZERO = """\
func.def @f(%x: i32) -> (i32) {
  %zero = scalar.constant 0 : i32
  %r = scalar.addi %x, %zero : i32
  func.return %r : i32
}
"""
FOLDED = """\
func.def @f(%x: i32) -> (i32) {
  func.return %x : i32
}
"""
CHAIN = """\
func.def public @root() {
  func.call @used() : ()
  func.return
}

func.def @used() {
  func.return
}

func.def @unused() {
  func.return
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, text: str, name: str = "t.loom-test") -> str:
    (folder / name).write_text(text)
    return name


def outcomes(folder: Path, text: str, **request: Any) -> list[tuple[str, str]]:
    """The final outcome of each case with what was said about it."""
    report = run_file(write(folder, text), Request(**request))
    assert report.fault is None, report.fault
    return [(result.final, result.detail) for result in report.results]


def passes(folder: Path, text: str, **request: Any) -> bool:
    found = outcomes(folder, text, **request)
    assert all(outcome in ("passed", "failed") for outcome, _ in found)
    return all(outcome == "passed" for outcome, _ in found)


# -- modes -----------------------------------------------------------------------------------------------------


def test_roundtrip(folder: Path) -> None:
    assert passes(folder, f"// RUN: roundtrip\n{FOLDED}")
    loose = FOLDED.replace("  func", "      func")
    assert not passes(folder, f"// RUN: roundtrip\n{loose}")
    assert passes(folder, f"// RUN: roundtrip\n{loose}\n// ----\n\n{FOLDED}\n\n")


def test_pass(folder: Path) -> None:
    assert passes(folder, f"// RUN: pass canonicalize,cse\n{ADD_ZERO}// ----\n{FOLDED}")
    assert outcomes(folder, f"// RUN: pass canonicalize\n{ADD_ZERO}// ----\n{ADD_ZERO}")[0][1].splitlines() == [
        "t.loom-test:1: the output is not as expected",
        "  expected line 2:",
        "  -   %zero = scalar.constant 0 : i32",
        "  -   %r = scalar.addi %x, %zero : i32",
        "  -   func.return %r : i32",
        "  +   func.return %x : i32",
    ]
    assert outcomes(folder, f"// RUN: pass canonicalise\n{ADD_ZERO}// ----\n{FOLDED}") == [
        ("failed", "t.loom-test:1: no pass is named 'canonicalise'; did you mean 'canonicalize'?")
    ]


def test_pass_report(folder: Path) -> None:
    text = (
        f'// RUN: with-checks pass-report canonicalize\n{ADD_ZERO}// ----\nCHECK: *"changed": true*\nCHECK: *_ns": 0,\n'
    )
    assert passes(folder, text)


def test_format_through_bytecode(folder: Path) -> None:
    assert passes(folder, f"// RUN: format bytecode\n{FOLDED}")
    assert passes(folder, f"// RUN: format text\n{FOLDED}")
    assert outcomes(folder, f"// RUN: format elf\n{FOLDED}")[0][1].endswith(
        "there is no format 'elf'; known are bytecode, text"
    )


def test_emit_of_links(folder: Path) -> None:
    write(folder, "func.def public @leaf() {\n  func.return\n}\n", "lib.loom")
    plan = "@root: root (input, global)\n@used: dependency of @root (input, global)\n"
    assert passes(folder, f"// RUN: emit link-plan root=@root\n{CHAIN}// ----\n{plan}")
    text = (
        "// RUN: emit link-plan root=@f library=lib.loom\nfunc.decl @leaf()\n"
        "func.def @f() {\n  func.call @leaf() : ()\n  func.return\n}\n"
    )
    assert passes(folder, f"{text}// ----\n@f: root (input, global)\n@leaf: dependency of @f (library, private)\n")
    missing = text.replace("lib.loom", "none.loom")
    assert outcomes(folder, missing)[0][1] == "t.loom-test:1: the library none.loom: No such file or directory"
    linked = CHAIN.partition("\nfunc.def @unused")[0]
    assert passes(folder, f"// RUN: emit linked root=@root\n{CHAIN}// ----\n{linked}")


def test_emit_and_reports_for_a_target(folder: Path) -> None:
    """With the target of an installed package."""
    pytest.importorskip("loom_target_amdgpu")
    kernel = """\
kernel.def @k() {
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%one, %one, %one) : index
} launch(%x: buffer) {
  kernel.return
}
"""
    low = f"// RUN: with-checks emit source-low entry=@k target=amdgpu:gfx1100\n{kernel}// ----\n"
    assert passes(folder, f"{low}CHECK: low.kernel.def * @k*\nCHECK-NOT: kernel.def @k*\n")
    report = f"// RUN: with-checks compile-report target=amdgpu:gfx1100\n{kernel}// ----\n"
    assert passes(folder, f'{report}CHECK: "target_key": "gfx1100",\n')
    assert passes(
        folder, f'{report.replace(" target=amdgpu:gfx1100", "")}CHECK: *"gfx1100"*\n', target="amdgpu:gfx1100"
    )
    specialized = f"// RUN: with-checks emit specialized root=@k target=amdgpu:gfx1100\n{kernel}// ----\n"
    assert passes(folder, f"{specialized}CHECK: kernel.def @k() {{\n")
    (found,) = outcomes(folder, f"// RUN: emit amdgpu-hsaco target=amdgpu:gfx1100\n{kernel}// ----\n")
    assert found == ("failed", "t.loom-test:1: the product 'amdgpu-hsaco' is no text")
    (found,) = outcomes(folder, f"// RUN: emit source-lo\n{kernel}// ----\n")
    assert found[1].startswith("t.loom-test:1: there is no product 'source-lo'; did you mean 'source-low'?")


def test_bytecode_as_input(folder: Path) -> None:
    data = api.to_bytecode(api.parse(FOLDED)).hex(" ")
    assert passes(folder, f"// RUN: pass cse\n// INPUT: bytecode\n{data} // all of it\n// ----\n{FOLDED}")
    assert passes(folder, f"// RUN: roundtrip\n{data}\n// ----\n{FOLDED}", input_format="bytecode")
    broken = f"// RUN: verify\n// INPUT: bytecode\n// ERROR: BYTECODE\n{data[:200]}\n"
    assert passes(folder, broken)
    assert outcomes(folder, broken.replace(data[:200], "0g"))[0][1].startswith(
        "t.loom-test:4: the input is not hexadecimal"
    )


def test_configuration_values_are_for_all_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "// RUN: pass specialize\nconfig.decl @n : i32\n\nfunc.def public @f() -> (i32) {\n"
    text += "  %n = config.get @n : i32\n  func.return %n : i32\n}\n// ----\n"
    text += "func.def public @f() -> (i32) {\n  %n = scalar.constant 4 : i32\n  func.return %n : i32\n}\n"
    write(folder, text)
    write(folder, FOLDED, "other.loom-test")
    assert main([".", "--config=n=4"]) == 0
    assert main([".", "--config=n=5"]) == 1
    assert "+   %n = scalar.constant 5 : i32" in capsys.readouterr().out
    (folder / "n.json").write_text('{"n": 4}')
    assert main([".", "--config-file=n.json"]) == 0
    assert main([".", "--config=n"]) == 1
    assert "expected '=' and a value" in capsys.readouterr().err


# -- outcomes --------------------------------------------------------------------------------------------------

MISSPELT = """\
func.def @g() {
  // ERROR@+1: PARSE/006 {op_name="scalar.constan"}
  %r = scalar.constan 0 : i32
  func.return
}
"""


def test_diagnostics_are_matched_in_every_mode(folder: Path) -> None:
    assert passes(folder, f"// RUN: verify\n{MISSPELT}")
    assert passes(folder, f"// RUN: pass cse\n{MISSPELT}")
    (found,) = outcomes(folder, f"// RUN: verify\n{MISSPELT.replace('PARSE/006', 'PARSE/007')}")
    assert found == (
        "failed",
        "t.loom-test:3: nothing matches '// ERROR@+1: PARSE/007 {op_name=\"scalar.constan\"}'\n"
        "t.loom-test:4:8: error: [PARSE/006] unknown operation 'scalar.constan'",
    )


def test_the_verifier_says_where_in_the_file(folder: Path) -> None:
    text = "// RUN: verify\n// ====\n// comment\nfunc.def @g(%x: i32) -> (i64) {\n  func.return %x : i32\n}\n"
    assert outcomes(folder, text)[0][1].startswith("t.loom-test:5:3: error: [TYPE/009]")


def test_expected_sections_must_make_sense(folder: Path) -> None:
    assert outcomes(folder, f"// RUN: pass cse\n{FOLDED}")[0][1].endswith("there is no expected section")
    assert outcomes(folder, f"// RUN: verify\n{FOLDED}// ----\n")[0][1].endswith("output: 'verify' makes none")
    assert outcomes(folder, f"// RUN: pass cse\n{MISSPELT}// ----\n{FOLDED}")[0][1].endswith("no output: it failed")


def test_xfail_turns_outcomes_around(folder: Path) -> None:
    bad = "// ====\n// XFAIL: later\nfunc.def @g() {\n  scalar.addq\n}\n"
    good = f"// ====\n// XFAIL: later\n{FOLDED}"
    assert outcomes(folder, f"// RUN: verify\n{bad}{good}") == [
        ("passed", "expected to fail: later"), ("failed", "passes, but is expected to fail: later"),
    ]  # fmt: skip


def test_unmet_requirements_skip(folder: Path) -> None:
    text = f"// REQUIRES: reference\n{FOLDED}// ====\n// REQUIRES: reference, no-such-thing\nnonsense\n"
    assert outcomes(folder, text) == [("passed", ""), ("skipped", "requires no-such-thing")]


@pytest.mark.parametrize(
    ("checks", "faults"),
    [
        ("CHECK: b?c\nCHECK: a*", []),
        ("// CHECK: b.c", []),
        ("CHECK: b", ["no line matches 'b'"]),
        ("CHECK: a*\nCHECK-NOT: b*", ["a line matches 'b*'"]),
        ("CHECK-NOT: z", ["with-checks needs at least one CHECK:"]),
        ("CHECK: a*\nplain", ["'plain' is neither CHECK: nor CHECK-NOT:"]),
        ("CHECK: [ab]*", ["no line matches '[ab]*'"]),
    ],
)
def test_globs_span_whole_lines(checks: str, faults: list[str]) -> None:
    assert check_globs(checks, "  b.c\nabc\n") == faults


def test_a_defect_is_the_failure_of_its_case(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the place where it happened; the other cases run."""

    def broken(module: object, *, locations: bool) -> str:
        raise IndexError("off by one")

    text = f"{FOLDED}// ====\n// RUN: verify\n{FOLDED}"
    monkeypatch.setattr(printer, "print_module", broken)
    first, second = outcomes(folder, text)
    assert first[0] == "failed"
    assert first[1].startswith("t.loom-test:1: internal error\n")
    assert first[1].endswith("in broken\nIndexError: off by one")
    assert second == ("passed", "")


GOLDENS = sorted((Path(__file__).parents[1] / "golden").glob("*.loom-test"))


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_damaged_files_are_read_or_refused(path: Path, folder: Path) -> None:
    """Lines lost, doubled, swapped and cut: a report or a reason, and rewriting such a file makes one that passes or
    is refused as well. Nothing but what golden files raise comes out of the reader."""
    lines = path.read_text().splitlines(keepends=True)
    chance = random.Random(path.stem)
    for number in range(25):
        damaged = list(lines)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(damaged))
            kind = chance.randrange(4)
            if kind == 0:
                damaged.pop(at)
            elif kind == 1:
                damaged.insert(at, chance.choice(lines))
            elif kind == 2:
                damaged[at] = damaged[at][: chance.randint(0, len(damaged[at]))]
            else:
                other = chance.randrange(len(damaged))
                damaged[at], damaged[other] = damaged[other], damaged[at]
        name = write(folder, "".join(damaged), f"{number}.loom-test")
        report = run_file(name, Request(update=True))
        assert report.fault is not None or report.results
        for result in report.results:
            assert "internal error" not in result.detail, result.detail


def test_locations_are_shown_behind_operations(folder: Path) -> None:
    """With the name of the file and its lines, in modes that print programs; diagnostics keep their places."""
    located = (
        'func.def @f(%x: i32) -> (i32) {\n  func.return %x : i32 loc("t.loom-test":4:3 to 4:14)\n'
        '} loc("t.loom-test":3:1 to 3:9)\n'
    )
    text = f"// RUN: with-locations roundtrip\n\n{FOLDED}// ----\n{located}"
    assert passes(folder, text)
    assert passes(folder, text.replace("roundtrip", "format bytecode"))
    assert passes(folder, text.replace("roundtrip", "pass canonicalize"))
    assert passes(folder, f"// RUN: with-locations pass cse\n{MISSPELT}")
    (found,) = outcomes(folder, f"// RUN: with-locations verify\n{FOLDED}")
    assert found == (
        "failed",
        "t.loom-test:1: with-locations is for modes that print a program: format, pass, roundtrip",
    )
    wrong = MISSPELT.replace("006", "007")
    assert "t.loom-test:4:8: error: [PARSE/006]" in outcomes(folder, f"// RUN: with-locations pass cse\n{wrong}")[0][1]


# -- rewriting -------------------------------------------------------------------------------------------------


def test_update_writes_what_cases_do_now(folder: Path) -> None:
    """Replaced, new and superfluous sections, wrong, new and kept annotations; untouched is what passes or is skipped,
    expected to fail, or checked by globs."""
    text = (
        f"// RUN: pass canonicalize\n{ADD_ZERO}// ----\nwrong\n\n"
        f"// ==== new\n{ADD_ZERO}\n"
        f"// ==== fails now\n{MISSPELT}// ----\nold\n\n"
        "// ==== annotations\n// RUN: verify\nfunc.def @g(%x: i32) -> (i64) {\n"
        "  // ERROR@+1: TYPE/001\n  // ERROR@+1: TYPE/009\n  func.return %x : i32\n}\n\n"
        "// ==== more\n// RUN: verify\nfunc.def @g() {\n  %a = scalar.addq\n  %a = scalar.addq\n}\n\n"
        f"// ==== xfail\n// XFAIL: later\n{ADD_ZERO}// ----\nkept\n\n"
        f"// ==== skipped\n// REQUIRES: no-such-thing\n{ADD_ZERO}// ----\nkept\n\n"
        f"// ==== fine\n{ADD_ZERO}// ----\n\n{FOLDED}"
    )
    name = write(folder, text)
    path = folder / name
    path.chmod(0o640)
    report = run_file(name, Request(update=True))
    assert report.updated
    assert [r.final for r in report.results] == [*["passed"] * 6, "skipped", "passed"]
    assert path.read_text() == (
        f"// RUN: pass canonicalize\n{ADD_ZERO}// ----\n{FOLDED}\n"
        f"// ==== new\n{ADD_ZERO}\n// ----\n{FOLDED}\n"
        f"// ==== fails now\n{MISSPELT}\n"
        "// ==== annotations\n// RUN: verify\nfunc.def @g(%x: i32) -> (i64) {\n"
        "  // ERROR@+1: TYPE/009\n  func.return %x : i32\n}\n\n"
        "// ==== more\n// RUN: verify\nfunc.def @g() {\n"
        '  // ERROR@+1: PARSE/006 {op_name="scalar.addq"}\n  %a = scalar.addq\n'
        '  // ERROR@+1: PARSE/006 {op_name="scalar.addq"}\n  %a = scalar.addq\n}\n\n'
        f"// ==== xfail\n// XFAIL: later\n{ADD_ZERO}// ----\nkept\n\n"
        f"// ==== skipped\n// REQUIRES: no-such-thing\n{ADD_ZERO}// ----\nkept\n\n"
        f"// ==== fine\n{ADD_ZERO}// ----\n\n{FOLDED}"
    )
    before = path.stat()
    assert not run_file(name, Request(update=True)).updated
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_update_stacks_annotations_of_one_line(folder: Path) -> None:
    """Above those that are there, which keep their distance."""
    text = (
        "// RUN: verify\nfunc.def @g(%x: i32) -> (i64, i64) {\n"
        '  // ERROR@+1: TYPE/009 {expected_type="i64"}\n  func.return %x, %x : i32, i32\n}\n'
    )
    name = write(folder, text)
    assert not passes(folder, text)
    assert run_file(name, Request(update=True)).count("passed") == 1
    lines = (folder / name).read_text().splitlines()
    assert [line.strip()[:13] for line in lines[2:4]] == ["// ERROR@+2: ", "// ERROR@+1: "]


def test_update_leaves_globs_and_unreadable_files_alone(folder: Path) -> None:
    globs = f"// RUN: with-checks pass cse\n{FOLDED}// ----\nCHECK: nothing\n"
    name = write(folder, globs)
    assert not run_file(name, Request(update=True)).updated
    assert (folder / name).read_text() == globs
    name = write(folder, "// RUN: verify\n// INPUT: bytecode\nno bytes\n// ----\nx\n")
    assert not run_file(name, Request(update=True)).updated
    name = write(folder, "// RUN: nonsense\nx\n")
    assert run_file(name, Request(update=True)).fault is not None
    assert (folder / name).read_text() == "// RUN: nonsense\nx\n"


def test_update_that_cannot_be_written_changes_nothing(folder: Path) -> None:
    name = write(folder, f"// RUN: pass cse\n{FOLDED}")
    (folder / name).chmod(stat.S_IRUSR)
    report = run_file(name, Request(update=True))
    assert report.fault == f"{name}: Permission denied"
    assert (folder / name).read_text() == f"// RUN: pass cse\n{FOLDED}"


# -- the command -----------------------------------------------------------------------------------------------


def test_folders_are_searched_and_totals_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "sub").mkdir()
    write(folder, FOLDED, "b.loom-test")
    write(folder, f"// ==== wrong\n{FOLDED}// ----\nx\n", "sub/a.loom-test")
    write(folder, "// RUN: nonsense\nx\n", "sub/c.loom-test")
    write(folder, "not looked at", "sub/readme.txt")
    assert main([".", "b.loom-test", "--jobs=1"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "FAIL  sub/a.loom-test::wrong (roundtrip)"
    assert out[-4].startswith("ERROR sub/c.loom-test") or out[-3].startswith("ERROR sub/c.loom-test")
    assert out[-1] == "2 cases: 1 passed, 1 failed, 1 file not readable"
    assert main(["b.loom-test", "--verbose"]) == 0
    assert capsys.readouterr().out == "PASS  b.loom-test::case 0 (roundtrip)\n1 case: 1 passed, 0 failed\n"


def test_several_processes_report_in_order(folder: Path) -> None:
    """In a process of their own, as commands have."""
    for number in range(6):
        write(folder, FOLDED if number != 3 else "nonsense", f"{number}.loom-test")
    command = [sys.executable, "-c", "import sys; from loom.tools.test import main; sys.exit(main())"]
    done = subprocess.run(
        [*command, ".", "--jobs=3", "--verbose"], capture_output=True, text=True, timeout=120, cwd=folder
    )
    assert done.returncode == 1, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith(("PASS", "FAIL"))]
    assert lines == [
        f"{'FAIL' if n == 3 else 'PASS'}  {n}.loom-test::case 0 (roundtrip)" for n in range(6)
    ]  # fmt: skip


def test_reports_for_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One object per file, with ranges in bytes."""
    text = f"// RUN: pass cse\n// ü\n{FOLDED}// ----\n{FOLDED}// ==== é\n{FOLDED}// ----\nx\n"
    write(folder, text)
    assert main(["t.loom-test", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert list(report) == [
        "file", "default_mode", "default_pipeline", "default_format_target", "default_emit_target",
        "default_requirements", "cases", "summary",
    ]  # fmt: skip
    assert report["summary"] == {"total": 2, "passed": 0, "failed": 2, "skipped": 0}
    assert (report["default_mode"], report["default_pipeline"]) == ("pass", "cse")
    first, second = report["cases"]
    data = text.encode()

    def cut(range: dict[str, int]) -> str:
        return data[range["start_byte"] : range["end_byte"]].decode()

    assert cut(first["run_directive_range"]) == "// RUN: pass cse\n"
    assert cut(first["expected_separator_range"]) == "// ----\n"
    # A comment in front of the first operation stays with it.
    assert (first["final_outcome"], second["title"]) == ("failed", "é")
    assert cut(second["separator_range"]) == "// ==== é\n"
    edit = second["update_edit"]
    assert (edit["kind"], edit["text"], cut(edit["range"])) == ("replace_expected", FOLDED, "x\n")
    assert main(["t.loom-test", "--json=failures"]) == 1
    assert [c["index"] for c in json.loads(capsys.readouterr().out)["cases"]] == [0, 1]
    assert main(["t.loom-test", "--json=summary"]) == 1
    assert json.loads(capsys.readouterr().out)["cases"] == []


def test_reports_of_annotations(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, f"// RUN: verify\n{MISSPELT.replace('006', '007')}")
    assert main(["t.loom-test", "--json"]) == 1
    (case,) = json.loads(capsys.readouterr().out)["cases"]
    (annotation,) = case["annotations"]
    assert (annotation["target_line"], annotation["code"], annotation["matched"]) == (4, "007", False)
    assert [edit["kind"] for edit in case["annotation_edits"]] == ["remove_annotation", "insert_annotation"]
    (found,) = case["diagnostics"]
    assert (found["error_id"], found["line"]) == ("ERR_PARSE_006", 4)


def test_one_case_is_chosen_by_number(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, f"nonsense\n// ==== two\n{FOLDED}")
    assert main(["t.loom-test", "--case=1", "--verbose"]) == 0
    assert capsys.readouterr().out == "PASS  t.loom-test::two (roundtrip)\n1 case: 1 passed, 0 failed\n"
    assert main(["t.loom-test", "--case=2"]) == 1
    assert "there is no case 2: the file has 2, counted from 0" in capsys.readouterr().out


def test_input_formats_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-input-formats"]) == 0
    assert capsys.readouterr().out == ("loom: text of a module\nbytecode: hexadecimal bytes of a binary module\n")


@pytest.mark.parametrize(
    "arguments", [[], ["--case=x", "t"], ["--jobs=0", "t"], ["--input-format=elf", "t"], ["--json=x", "t"]]
)
def test_wrong_arguments(arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "loom-test: error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "none.loom-test: No such file or directory"), (b"\xff", "invalid UTF-8"), (b"", "the file has no case")],
)
def test_files_that_cannot_be_read(
    content: bytes | None, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (folder / "none.loom-test").write_bytes(content)
    assert main(["none.loom-test"]) == 1
    assert message in capsys.readouterr().out


def test_a_folder_without_golden_files_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A typing mistake must not look like success."""
    assert main(["."]) == 1
    assert "no .loom-test file in ." in capsys.readouterr().err


def test_the_example_of_the_help_passes(folder: Path) -> None:
    text = EXAMPLES.partition("a file:\n")[2]
    report = run_file(write(folder, "\n".join(line[2:] for line in text.splitlines()) + "\n"), Request())
    assert [(r.case.name, r.final) for r in report.results] == [
        ("case 0", "passed"), ("a misspelled operation", "passed"),
    ]  # fmt: skip
