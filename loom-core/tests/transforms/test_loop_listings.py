"""The language guide's programs on rotating views and read-ahead, as written and specialized."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from loom.evaluate.dispatch import call_function, launch_kernel
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.ir.core import Module
from loom.specialize.pipeline import specialize
from loom.text.parser import parse_module
from loom.verify.verifier import verify_module

SHARED = Path(os.environ.get("LOOM_SHARED", Path(__file__).resolve().parents[4] / "shared"))
LISTINGS = SHARED / "seeds" / "listings"
pytestmark = pytest.mark.skipif(not LISTINGS.is_dir(), reason="the folder with the guide's listings is not here")


def listing(name: str) -> Module:
    module = parse_module((LISTINGS / name).read_text(), name)
    assert verify_module(module) == []
    return module


def specialized(module: Module) -> Module:
    result = specialize(module, None).module
    assert verify_module(result) == []
    return result


@pytest.mark.seed("R01", "R02", "R03", "L03")
@pytest.mark.parametrize("ready", [False, True])
def test_rotating_views(ready: bool) -> None:
    """Two slots trade places; the final view stays readable after any number of iterations."""
    module = listing("rotating-views.loom")
    if ready:
        module = specialized(module)
    program = Program(module, limits=Limits())
    for trips in (*range(9), 256, 257):
        (result,) = call_function(program, module.symbols()["rotate_slots"], [trips])
        assert result == 1 + 7 * trips


@pytest.mark.seed("A03", "A04", "A07", "EX6")
def test_vector_read_ahead() -> None:
    """Depth four, factor six: every row count sums in the order of the serial program, bit for bit."""
    module = specialized(listing("vector-read-ahead.loom"))
    kernel = module.symbols()["sum_vector_rows"]
    steady = max((op for op in module.walk() if op.name == "scf.for"), key=lambda op: len(op.results))
    # The sum and three queued rows.
    assert len(steady.results) == 4
    serial_text = (LISTINGS / "vector-read-ahead.loom").read_text()
    serial_text = serial_text.replace(
        "index.constant 4 : index\n  %factor = index.constant 6",
        "index.constant 1 : index\n  %factor = index.constant 1",
    )
    serial = specialized(parse_module(serial_text, "serial.loom"))
    rows = np.random.default_rng(7).standard_normal((64, 32, 4)).astype(np.float32)
    for count in (*range(17), 40, 63, 64):
        poisoned = rows.copy()
        poisoned[count:] = np.nan
        results = []
        for which in (module, serial):
            sums = np.zeros(32, dtype=np.float32)
            launch_kernel(Program(which, {}, Limits()), which.symbols()[kernel.callee], [], [count, poisoned, sums])  # type: ignore[attr-defined]
            results.append(sums)
        assert results[0].tobytes() == results[1].tobytes()
        assert np.isfinite(results[0]).all()
        assert np.allclose(results[0], rows[:count].sum(axis=(0, 2)), atol=1e-4)
