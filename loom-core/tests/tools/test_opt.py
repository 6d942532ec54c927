"""``loom-opt``: passes by name, dumps, reports, exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loom.passes.catalogue import PASSES
from loom.tools.opt import main

SOURCE = """\
template.decl @t.twice(%v: i32, %f: index) -> (i32)

template.def<@t.twice> @twice(%v: i32, %f: index) -> (i32) {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c2 = index.constant 2 : index
  %r = scf.for %i = [%c0 to %c2 step %c1](%acc = %v : i32) -> (i32) unroll(%f) {
    %next = scalar.addi %acc, %v : i32
    scf.yield %next : i32
  }
  template.return %r : i32
}

func.def @unused(%v: i32) -> (i32) {
  func.return %v : i32
}

func.def public @f(%x: view<16xi32>, %v: i32) -> (i32) {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c9 = index.constant 9 : index
  %depth = index.constant 3 : index
  %r = scf.for %i = [%c0 to %c9 step %c1](%acc = %v : i32) -> (i32) pipeline(%depth) {
    scf.schedule.fence
    %y = view.load %x[%i] : view<16xi32> -> i32
    %next = scalar.addi %acc, %y : i32
    scf.yield %next : i32
  }
  func.return %r : i32
}
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.loom").write_text(SOURCE)
    return "in.loom"


def test_passes_run_in_order(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Without the fence the loop can read ahead; templates keep their policies for their callers."""
    assert main([source]) == 0
    assert capfd.readouterr().out == SOURCE
    assert main([source, "--pass=strip-hints", "--pass=pipeline-scf-for", "--pass=unroll-scf-for"]) == 0
    text = capfd.readouterr().out
    assert "pipeline(" not in text
    assert text.count("view.load") == 3
    assert "unroll(%f)" in text
    assert main([source, "--pass=strip-hints", "--pipeline=default"]) == 1, "the pipeline runs before the passes"


def test_a_refused_policy_fails_and_writes_nothing(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([source, "--pass=pipeline-scf-for", "--output=out.loom", "--pass-report=json"]) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "[STRUCTURE/014]" in captured.err
    assert not Path("out.loom").exists()
    report, _ = json.JSONDecoder().raw_decode(captured.err)
    assert [row["status"] for row in report["invocations"]] == ["ok", "failed"]


def test_reports_say_what_changed(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([source, "--pass=symbol-dce", "--pass=cse", "--pass-report=json", "--output=out.loom"]) == 0
    rows = json.loads(capfd.readouterr().err)["invocations"]
    assert [(r["pass"], r["symbol"], r["changed"], r["status"]) for r in rows] == [
        ("symbol-dce", None, True, "ok"),
        ("cse", "f", False, "ok"),
    ]
    assert all(row["duration_ns"] > 0 for row in rows)
    assert "@unused" not in Path("out.loom").read_text()
    steps = ["--pass=strip-hints", "--pass=pipeline-scf-for", "--pass-report=json", "--output=out.loom"]
    assert main([source, *steps]) == 0
    last = json.loads(capfd.readouterr().err)["invocations"][-1]
    assert next((d["category"], d.get("outcome")) for d in last["details"]) == ("scf-pipeline", "pipelined")
    assert main([source, "--pass=dce", "--pass-report=text", "--output=out.loom"]) == 0
    assert capfd.readouterr().err.count("unchanged") == 3


def test_dumps_show_the_module_in_between(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    passes = ["--pass=strip-hints", "--pass=pipeline-scf-for", "--output=out.loom"]
    assert main([source, *passes, "--dump-ir-before=pipeline-scf-for", "--dump-ir-after-all"]) == 0
    text = capfd.readouterr().err
    assert [line for line in text.splitlines() if line.startswith("// ")] == [
        "// after strip-hints",
        "// before pipeline-scf-for",
        "// after pipeline-scf-for",
    ]
    assert main([source, *passes, "--dump-ir-before-all", "--dump-ir-format=jsonl", "--dump-ir-output=-"]) == 0
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [(r["stage"], r["pass"]) for r in rows] == [("before", "strip-hints"), ("before", "pipeline-scf-for")]
    assert rows[0]["ir"] == SOURCE
    assert main([source, *passes, "--dump-ir-after=strip-hints", "--dump-ir-output=dumps/"]) == 0
    (dump,) = Path("dumps").iterdir()
    assert dump.name == "0000-after-strip-hints.loom"
    assert "scf.schedule.fence" not in dump.read_text()


def test_passes_are_listed_and_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-passes"]) == 0
    listed = json.loads(capsys.readouterr().out)["passes"]
    assert [row["key"] for row in listed] == list(PASSES)
    assert all(row["description"] for row in listed)
    assert [row["key"] for row in listed if not row["available"]] == ["source-to-low"]
    (row,) = (row for row in listed if row["key"] == "canonicalize")
    assert row["options"] == [{"name": "max-iterations", "kind": "int", "required": False, "minimum": 1}]
    assert main(["--pass-help=canonicalize"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("canonicalize (function): ")
    assert "max-iterations: integer, at least 1" in text


def test_an_unknown_pass_is_a_usage_error(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([source, "--pass=canonicalise"])
    assert caught.value.code == 2
    assert "did you mean 'canonicalize'" in capsys.readouterr().err


PIPELINES = """
pass.pipeline<module> @ahead pipeline {
  for func {
    strip-hints
    pipeline-scf-for
  }
}
"""


def test_a_pipeline_of_the_module_runs(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The pipeline first, then the passes; dumps know it by its symbol."""
    Path(source).write_text(SOURCE + PIPELINES)
    command = [source, "--pipeline=@ahead", "--pass=dce", "--pass-report=json", "--output=out.loom"]
    assert main([*command, "--dump-ir-before=@ahead", "--dump-ir-output=dump.loom"]) == 0
    rows = json.loads(capfd.readouterr().err)["invocations"]
    asked = [("strip-hints", "twice", "@ahead"), ("strip-hints", "unused", "@ahead"),
             ("pipeline-scf-for", "unused", "@ahead"), ("strip-hints", "f", "@ahead"),
             ("pipeline-scf-for", "f", "@ahead")]  # fmt: skip
    assert [(r["pass"], r["symbol"], r["pipeline"]) for r in rows if r["pass"] != "dce"] == asked
    assert rows[4]["statistics"] == {"loops-pipelined": 1, "policies-cleared": 1}
    assert [r["pipeline"] for r in rows[5:]] == ["", "", ""]
    assert Path("dump.loom").read_text() == "// before @ahead\n" + SOURCE + PIPELINES
    assert main([source, "--pipeline=@aheads"]) == 1
    assert "did you mean 'ahead'" in capfd.readouterr().err


def test_a_failing_pass_leaves_a_reproducer(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    command = ["--pass=cse", "--pass=pipeline-scf-for", "--output=out.loom"]
    assert main([source, *command, "--pass-reproducer=again.loom", "--diagnostic-format=json"]) == 1
    rows = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [row["error_id"] for row in rows] == ["ERR_STRUCTURE_014", "ERR_STRUCTURE_028"]
    assert rows[1]["params"]["pass_key"] == "pipeline-scf-for"
    assert main(["again.loom", "--pipeline=@loom.reproducer"]) == 1
    assert "[STRUCTURE/014]" in capfd.readouterr().err
    assert main([source, "--pass=cse", "--pass-reproducer=none.loom", "--output=out.loom"]) == 0
    assert not Path("none.loom").exists()


def test_options_of_passes(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([source, "--pass=canonicalize{max_iterations = 1},dce", "--output=out.loom"]) == 0
    assert main([source, "--pass=canonicalize{max_iterations = 0}"]) == 1
    assert "must be at least 1" in capfd.readouterr().err
    with pytest.raises(SystemExit):
        main([source, "--pass=canonicalize{max_iterations}"])
    assert "expected '='" in capfd.readouterr().err


@pytest.mark.parametrize("key", [key for key, info in PASSES.items() if not info.needs_target])
def test_every_pass_keeps_a_valid_module(source: str, key: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path(source).write_text(SOURCE.replace("    scf.schedule.fence\n", ""))
    # Policies are carried out before loops become blocks.
    before = "specialize," if key == "scf-to-cfg" else ""
    assert main([source, f"--pass={before}{key}", "--output=out.loom"]) == 0, capfd.readouterr().err
    assert main(["out.loom"]) == 0
    assert capfd.readouterr().out == Path("out.loom").read_text()


def test_what_was_to_be_printed_and_did_not_run_is_told(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([source, "--pass=cse", "--dump-ir-after=dce", "--dump-ir-before=@tidy", "--output=out.loom"]) == 0
    assert capfd.readouterr().err.splitlines() == [
        "loom-opt: there is nothing to print before '@tidy', which did not run",
        "loom-opt: there is nothing to print after 'dce', which did not run",
    ]


def test_a_named_pipeline_is_a_stage_to_look_at(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = Path(source).read_text().replace("    scf.schedule.fence\n", "")
    Path(source).write_text(text)
    command = [source, "--pipeline=default", "--pass=cse", "--output=out.loom"]
    assert main([*command, "--dump-ir-before=default", "--dump-ir-after=default", "--dump-ir-format=jsonl"]) == 0
    rows = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [(row["stage"], row["pass"]) for row in rows] == [("before", "default"), ("after", "default")]
    assert rows[0]["ir"] == text
    assert "pipeline(" not in rows[1]["ir"]


def test_lists_have_two_spellings(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    texts = []
    for given in ("access | value", "[access, value]"):
        assert main([source, f"--pass=sanitizer-insert-assertions{{checks = {given}}}"]) == 0
        texts.append(capfd.readouterr().out)
    assert texts[0] == texts[1]
    assert main([source, "--pass=sanitizer-insert-assertions{checks=access|speed}"]) == 1
    assert "but must be a list of: access, value, operation, race" in capfd.readouterr().err


def test_help_says_what_options_mean(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--pass-help=sanitizer-insert-assertions"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  checks: access | value | operation | race; a list, all of them by default",
        "  counts: checks-inserted",
    ]
    for info in PASSES.values():
        assert all(option.meaning for option in info.options), info.key


BROKEN = {
    "no text": (b"\x00\xff\xfe", "[PARSE/019]"),
    "no program": (b"garbage {", "[PARSE/006]"),
    "an invalid program": (b"func.def public @f() {\n  func.return %x : i32\n}\n", "[PARSE/001]"),
    "cut bytecode": (b"LOOM\x00", "[BYTECODE/003]"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_input_is_told_and_nothing_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    data, code = BROKEN[name]
    monkeypatch.chdir(tmp_path)
    Path("in.loom").write_bytes(data)
    assert main(["in.loom", "--pass=cse", "--output=out.loom", "--dump-ir-after-all"]) == 1
    captured = capfd.readouterr()
    assert code in captured.err
    assert captured.out == ""
    assert not Path("out.loom").exists()
