"""The long comparison of random loop programs with themselves: ranges, going on, totals and the exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def agreement_run(root: Path, log: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the summary of a run."""
    command = [sys.executable, str(root / "tools" / "agreement_run.py"), f"--log={log}", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, summary


def test_a_run_goes_on_where_its_log_ends(root: Path, tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    status, summary = agreement_run(root, log, "--first=25", "--programs=2", f"--summary={tmp_path / 's.json'}")
    assert (status, summary["first"], summary["programs"], summary["failures"]) == (0, 25, 2, [])
    assert json.loads((tmp_path / "s.json").read_text()) == summary
    status, summary = agreement_run(root, log, "--first=25", "--programs=5")
    assert (status, summary["programs"]) == (0, 5)
    blocks = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(block["first"], block["programs"]) for block in blocks] == [(25, 2), (27, 3)]


def test_a_disagreement_is_the_result_of_the_whole_run(root: Path, tmp_path: Path) -> None:
    """Also when an earlier part of the run found it."""
    log = tmp_path / "run.jsonl"
    log.write_text(json.dumps({"first": 0, "programs": 1, "seconds": 0.1, "failures": {"0": ["differs"]}}) + "\n")
    status, summary = agreement_run(root, log, "--programs=2")
    assert (status, summary["programs"], summary["failures"]) == (1, 2, [0])
