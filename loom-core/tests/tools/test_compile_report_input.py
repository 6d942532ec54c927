"""`loom-compile-report` on files that are no compile report, or a damaged one: one line says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from loom.tools.compile_report import main

START = '{"kind": "loom.compile_report", "schema_version": 0, '
ENTRY = '"entries": {"rows": [{"function": "f", "source_function": "f"}]}'
LOOP = '"loop_policies": {"rows": [{"function": "f", "category": "scf-pipeline", "outcome": "pipelined"}]}'

BROKEN = {
    "empty": ("", "the file is empty"),
    "no JSON": ("rows", "not JSON"),
    "another object": ("{}", "not a compile report"),
    "a long number": ("9" * 6000, "not JSON"),
    "deep": ("[" * 100_000, "nested too deeply"),
    "no entries": (START + '"entries": 3}', "no entries"),
    "entries that are no objects": (START + '"entries": {"rows": [1]}}', "no entries"),
    "names that are none": (START + '"entries": {"rows": [{"function": ["f"]}]}}', "'function' of an entry"),
    "decisions that are none": (START + ENTRY + ', "loop_policies": 3}', "'loop_policies' of the report"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("command", ["show", "suggest", "diff"])
def test_a_broken_report_is_refused(
    name: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, message = BROKEN[name]
    path = tmp_path / "broken.json"
    path.write_text(text)
    assert main([command, str(path), *([str(path)] if command == "diff" else [])]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_a_suggestion_names_what_its_evidence_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    path.write_text(START + ENTRY + ", " + LOOP + "}")
    assert main(["suggest", str(path)]) == 2
    assert "a loop that reads ahead has no 'depth'" in capsys.readouterr().err


def test_empty_members_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    path.write_text(START + '"entries": {"rows": [{"function": "f", "memory_rows": [{}]}]}}')
    assert main(["show", str(path)]) == 0
    assert "- none" in capsys.readouterr().out
