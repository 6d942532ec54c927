"""The page on passes: its commands give what it shows, and it names every pass."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from loom import api
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


def test_files_with_cases_become_low(root: Path, tmp_path: Path) -> None:
    """Launches of cases and benchmarks are those of the source, so that they stay behind; the rest is valid."""
    pytest.importorskip("loom_target_amdgpu", reason="loom-target-amdgpu is not installed")
    low = tmp_path / "low.loom"
    for name in ("saxpy", "tile_transpose"):
        source = root / "examples" / f"{name}.loom"
        assert "check.case" in source.read_text()
        assert main([str(source), "--pipeline=prepared-low", "--target=amdgpu:gfx1100", f"--output={low}"]) == 0
        found = [op.name for op in api.load(low).body]
        assert "low.kernel.def" in found
        assert not any(name.startswith("check.") for name in found)
