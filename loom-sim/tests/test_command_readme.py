"""Everything the README tells to run, run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from amdgpu_compile import needs_clang
from command_files import EXAMPLES

README = Path(__file__).resolve().parents[1] / "README.md"
PROGRAMS = {
    "loom-sim": "from loom_sim.command.main import main; import sys; sys.exit(main())",
    "loom-compile": "from loom.tools.compile import main; import sys; sys.exit(main())",
}


def _blocks() -> list[tuple[str, str]]:
    return re.findall(r"^```(\w+)\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


def _shell(folder: Path) -> dict[str, str]:
    """An environment in which the commands are those of this interpreter."""
    programs = folder / "bin"
    programs.mkdir()
    for name, code in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$@\"\n")
        (programs / name).chmod(0o755)
    (programs / "python").symlink_to(sys.executable)
    return {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


@needs_clang
def test_readme(tmp_path: Path) -> None:
    environment = _shell(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    (work / "examples").symlink_to(EXAMPLES)
    outputs = []
    earlier = ""
    for language, text in _blocks():
        if language == "c":
            (work / "scale.cl").write_text(text)
            continue
        if language == "python":  # the second program goes on where the first one ends
            text = earlier = earlier + text
        command = ["bash", "-e", "-c", text] if language == "sh" else [sys.executable, "-c", text]
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        outputs.append(done.stdout)
    saxpy, scale, report, fault, python, stops = outputs
    x = np.arange(1000, dtype=np.float32)
    assert "saxpy on gfx1100: 32 waves of 32 lanes" in saxpy
    np.testing.assert_array_equal(np.load(work / "x.npy"), x)
    np.testing.assert_array_equal(np.load(work / "z.npy"), 3.5 * x)
    assert "scale on gfx942: 16 waves of 64 lanes" in scale
    np.testing.assert_array_equal(np.load(work / "scaled.npy"), 0.5 * x)
    assert "v_fma_f32" in report
    assert json.loads((work / "report.json").read_text())["schema"] == "loom.sim.run.v0"
    assert json.loads((work / "saxpy.json").read_text())["traceEvents"]
    assert "(kernel saxpy, at 0x" in fault
    assert "'global memory': 96" in python
    assert json.loads((work / "timeline.json").read_text()) is not None
    assert len(re.findall(r"^0x[0-9a-f]+: \w+.*, 32 waves, s\[0:1\] = ", stops, re.MULTILINE)) == 3


def test_readme_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    from loom_sim.command.main import main

    with pytest.raises(SystemExit):
        main(["run", "--help"])
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    documented = set(re.findall(r"--[a-z-]+", README.read_text()))
    assert options - documented <= {"--help", "--processor"}
