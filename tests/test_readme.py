"""The README and the page on testing do what they say: their commands are run and their output is compared."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytest.importorskip("loom_sim", exc_type=ImportError)
pytest.importorskip("loom_target_amdgpu", exc_type=ImportError)
pytest.importorskip("loom_target_cmd", exc_type=ImportError)

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def blocks(page: str) -> list[tuple[str, str]]:
    """The code blocks of a page: language and text."""
    return re.findall(r"^```(\w*)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


BLOCKS = blocks(README)
CONSOLE = [text for language, text in BLOCKS if language == "console"]
TESTING = [text for language, text in blocks((ROOT / "docs" / "testing.md").read_text()) if language == "console"]


def steps(block: str) -> list[tuple[str, str]]:
    """The commands of a block, each with the output that follows it."""
    found: list[tuple[str, str]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        else:
            command, output = found[-1]
            found[-1] = (command, f"{output}{line}\n")
    return found


def without_times(output: str) -> str:
    """Output with durations replaced: they differ from run to run."""
    return re.sub(r"\([\d.]+ m?s\)", "(TIME)", output)


@pytest.fixture
def place(root: Path, tmp_path: Path) -> Path:
    """A folder in which the examples are where the README says, and what the commands write stays outside of the tree."""
    shutil.copytree(root / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("*.egg-info", "build"))
    (tmp_path / "out").mkdir()
    return tmp_path


@pytest.mark.parametrize("block", CONSOLE + TESTING, ids=[steps(block)[0][0][:40] for block in CONSOLE + TESTING])
def test_commands_print_what_the_readme_shows(block: str, place: Path) -> None:
    """Every command of a block, in order, in one shell session per block."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OUT": str(place / "out"),
    }
    folder = place
    for command, expected in steps(block):
        if command.startswith("cd "):
            folder = folder / command[3:]
            continue
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, text=True, timeout=300,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert without_times(done.stdout) == without_times(expected), command
        assert done.returncode == (1 if re.search(r"error: |, [1-9]\d* failed", expected) else 0), command


def test_products_of_the_commands_are_there(place: Path) -> None:
    """What the commands on linking and compiling write."""
    block = next(block for block in CONSOLE if "loom-link" in block)
    test_commands_print_what_the_readme_shows(block, place)
    written = sorted(str(p.relative_to(place / "out")) for p in (place / "out").rglob("*") if p.is_file())
    assert written == ["closed.loom", "commands.json", "commands/program-0.loomcmd", "kernel.hsaco"]


@pytest.mark.seed("E08")
def test_the_python_example_prints_what_the_readme_shows(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example goes from source to an executable in memory and runs it; the block after it is its output."""
    at = next(i for i, (language, _) in enumerate(BLOCKS) if language == "python")
    monkeypatch.chdir(place)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(BLOCKS[at][1], "README.md", "exec"), {})
    assert output.getvalue() == BLOCKS[at + 1][1]


@pytest.mark.skipif(
    os.environ.get("LOOM_FRESH_VENV") != "1", reason="LOOM_FRESH_VENV=1 runs it: takes minutes and a package index"
)
def test_the_two_commands_at_the_top_work_in_fresh_environments(root: Path, tmp_path: Path) -> None:
    """Each in a copy of the tree and an environment of its own. Of the suite only a part runs: the rest runs anyway."""
    commands = BLOCKS[0][1].splitlines()
    assert len(commands) == 2
    for number, command in enumerate(commands):
        tree = tmp_path / f"tree{number}"
        shutil.copytree(
            root, tree, ignore=shutil.ignore_patterns(".git", ".tox", ".venv", "*.egg-info", "build", "__pycache__", ".*_cache")
        )  # fmt: skip
        venv.create(tmp_path / f"venv{number}", with_pip=True)
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "PYTHON"))}
        environment |= {
            "PATH": f"{tmp_path / f'venv{number}' / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTEST_ADDOPTS": "-k canonical",
        }
        done = subprocess.run(
            ["bash", "-c", command], cwd=tree, env=environment, capture_output=True, text=True, timeout=1200
        )
        assert done.returncode == 0, done.stdout + done.stderr
        wanted = "5 samples: 5 passed, 0 failed\n" if number == 0 else " passed"
        assert wanted in done.stdout


def test_every_package_of_the_tree_is_in_the_table(root: Path) -> None:
    packages = sorted(p.parent.name for p in root.glob("*/pyproject.toml"))
    assert packages == sorted(re.findall(r"^\| \[([\w-]+)\]", README, re.MULTILINE))
    requirements = (root / "requirements-dev.txt").read_text()
    assert packages == sorted(re.findall(r"^-e \./([\w-]+)", requirements, re.MULTILINE))
