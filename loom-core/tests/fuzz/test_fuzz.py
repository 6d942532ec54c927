"""Damaged texts and bytecode files: no traceback, no hang, memory within a stated bound.

Every run is the same; ``LOOM_FUZZ`` sets how many inputs of each kind there are (10,000 take some ten minutes).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

COUNT: Final = int(os.environ.get("LOOM_FUZZ", "2000"))
# Address space of the process that reads the inputs, in MiB: the interpreter, the declarations and one input at a time.
# The longest input is about half a megabyte.
MEMORY: Final = 1024
# MiB of it that may be in use.
RESIDENT: Final = 256
# Seconds of processor time for one input.
SECONDS: Final = 10

pytest.importorskip("resource", reason="limits of memory need a Unix system")


@pytest.mark.parametrize("kind", ["text", "bytes"])
def test_damaged_inputs_end_in_diagnostics(kind: str) -> None:
    child = Path(__file__).with_name("child.py")
    command = [sys.executable, str(child), kind, "20", str(COUNT), str(MEMORY), str(SECONDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert done.returncode == 0, f"{report['trace']}\n{report['input'][:2000]}"
    counts = report["counts"]
    assert sum(counts.values()) == COUNT
    # Damage is found, and some of it is harmless: the inputs are neither all garbage nor all sound.
    assert counts["refused"] > COUNT // 2
    assert counts["valid"] > 0
    assert report["peak_megabytes"] < RESIDENT


def test_the_limits_hold() -> None:
    """The child does stop at its limits: with nearly no time, the first input is reported as a fault."""
    child = Path(__file__).with_name("child.py")
    script = (
        "import sys, runpy; sys.argv = ['child.py', 'text', '1', '5', '1024', '10']; "
        f"sys.path.insert(0, {str(child.parent)!r}); import damage; "
        "damage.TextMutator.text = lambda self: [None] * (1 << 30); "
        f"runpy.run_path({str(child)!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "MemoryError" in json.loads(done.stdout)["trace"]
