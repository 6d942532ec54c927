"""Code objects and calls that the tests of the command share."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from amdgpu_compile import KERNELS, gpu_object

from loom.tools.compile import main as loom_compile
from loom_sim.command.main import main

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
COUNT = 1000


def saxpy_object(processor: str = "gfx1100") -> bytes:
    """The saxpy of the examples."""
    return example_object("saxpy", processor)


@cache
def example_object(name: str, processor: str = "gfx1100") -> bytes:
    """A program of the examples, compiled with ``loom-compile``."""
    with TemporaryDirectory() as folder:
        output = Path(folder) / "example.hsaco"
        status = loom_compile([str(EXAMPLES / f"{name}.loom"), f"--target=amdgpu:{processor}", f"--output={output}"])
        assert status == 0
        return output.read_bytes()


def groups_object(processor: str, optimize: str = "2") -> bytes:
    """The workgroup kernels of the emulator's tests, compiled with clang."""
    return gpu_object(KERNELS / "groups.c", processor, optimize)


def write_saxpy(folder: Path, processor: str = "gfx1100") -> list[str]:
    """Files of a saxpy launch; returns the command line that runs it, with argument 4 as the result."""
    (folder / "saxpy.hsaco").write_bytes(saxpy_object(processor))
    np.save(folder / "x.npy", np.arange(COUNT, dtype=np.float32))
    np.save(folder / "y.npy", np.arange(COUNT, 0, -1, dtype=np.float32))
    return [
        "run",
        str(folder / "saxpy.hsaco"),
        "--kernel=saxpy",
        f"--workgroups={-(-COUNT // 64)}",
        f"--arg=i64:{COUNT}",
        "--arg=f32:2.5",
        f"--arg={folder / 'x.npy'}",
        f"--arg={folder / 'y.npy'}",
        f"--arg=zeros:f32:{COUNT}",
    ]


def expected_saxpy() -> np.ndarray[Any, Any]:
    """What the launch of `write_saxpy` computes."""
    x = np.arange(COUNT, dtype=np.float32)
    return np.float32(2.5) * x + np.arange(COUNT, 0, -1, dtype=np.float32)


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str], status: int = 1) -> str:
    """Run the command, expect the status, and return what it said; standard output stays empty."""
    try:
        found = main(arguments)
    except SystemExit as exit_:  # argparse leaves this way
        assert isinstance(exit_.code, int)
        found = exit_.code
    captured = capsys.readouterr()
    assert found == status, captured
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder, to see that nothing changed and nothing was left behind."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}
