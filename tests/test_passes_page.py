"""The page on passes: its commands give what it shows, and it names every pass."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from loom.passes.catalogue import PASSES, PIPELINES
from loom.tools.opt import main


@pytest.fixture
def page(root: Path) -> str:
    return (root / "docs" / "passes.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def steps(page: str) -> list[tuple[str, str]]:
    """Every command of the page with the output behind it."""
    found = []
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def test_commands_give_what_is_shown(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (sample,) = blocks(page, "loom")
    Path("rows.loom").write_text(sample)
    commands = steps(page)
    assert len(commands) >= 4
    for command, output in commands:
        program, *arguments = shlex.split(command)
        assert program == "loom-opt"
        assert main(arguments) == 0, command
        captured = capfd.readouterr()
        assert (captured.out, captured.err) == (output, ""), command


def test_every_pass_and_pipeline_is_on_the_page(page: str) -> None:
    table = page[page.index("## What there is") : page.index("Passes of the language reference")]
    assert set(re.findall(r"`([a-z-]+)`", table)) == set(PASSES)
    assert set(re.findall(r"`--pipeline=([a-z-]+)`", page)) == set(PIPELINES)


def test_options_that_the_page_mentions_exist(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    known = capsys.readouterr().out
    for option in set(re.findall(r"--[a-z][a-z-]+", page)):
        assert option in known, option
