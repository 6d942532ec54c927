"""What the cross-package tests share: where things are, and how a user runs a command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TIME_LIMIT = 300

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with shared programs; the test skips without it."""
    folder = Path(os.environ.get("LOOM_SHARED") or ROOT.parent / "shared")
    if not folder.is_dir():
        pytest.skip("no folder with shared programs: set LOOM_SHARED")
    return folder


@pytest.fixture(scope="session")
def run() -> Run:
    """Run an installed command of this environment and return its status and output as text.

    ``run("loom-check", "file.loom", cwd=..., bin=...)``: ``bin`` is another environment's folder of commands.
    """

    def run_command(
        name: str, *args: object, cwd: Path = ROOT, bin: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        folder = bin or Path(sys.executable).parent
        return subprocess.run(
            [str(folder / name), *map(str, args)],
            cwd=cwd,
            env={**os.environ, **(env or {}), "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
        )

    return run_command
