"""The page of the reference device: its program gets the report it shows, and its table has every code."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from loom.evaluate.faults import FaultCode

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_the_program_of_the_page_gets_its_report(root: Path, tmp_path: Path, run: Run) -> None:
    page = (root / "docs/reference-device.md").read_text()
    program, shown = (
        re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL)[1]  # type: ignore[index]  # the page has both
        for kind in ("loom", "console")
    )
    (tmp_path / "race.loom").write_text(program)
    command, _, report = shown.partition("\n")
    assert command == "$ loom-check race.loom --device=reference"
    done = run(*command.split()[1:], cwd=tmp_path)
    times = re.compile(r"\([\d.]+ m?s\)")
    assert done.returncode == 1
    assert times.sub("", done.stdout) == times.sub("", report)
    assert run("loom-format", "--check", "race.loom", cwd=tmp_path).returncode == 0


def test_every_code_is_in_the_table(root: Path) -> None:
    table = [line for line in (root / "docs/reference-device.md").read_text().splitlines() if line.startswith("| `")]
    told: set[str] = set()
    for line in table:
        cell = line.split("|")[1]
        domain = ""
        for word, last in re.findall(r"`([A-Z]*/\d+)`(?: to `/(\d+)`)?", cell):
            domain = word.split("/")[0] or domain
            first = int(word.split("/")[1])
            told |= {f"{domain}/{number:03}" for number in range(first, int(last or first) + 1)}
    assert {code.value for code in FaultCode} <= told
