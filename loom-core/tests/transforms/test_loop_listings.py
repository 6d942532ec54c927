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
from loom.passes.catalogue import PASSES
from loom.passes.model import Context
from loom.passes.requests import read_requests
from loom.passes.run import Runner
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


# Policies are arguments of templates, and an application cannot run, until providers are bound and inlined.
BOUND = "inline-callables, select-templates{mode = early}, canonicalize"
# What a pass needs to have been done before it.
BEFORE = {
    "scf-to-cfg": "specialize, ",
    "sanitizer-insert-assertions": "specialize, ",
    "sanitizer-insert-race-observations": "specialize, ",
}
SINGLE = [key for key, info in PASSES.items() if not info.needs_target]


def behind(module: Module, passes: str) -> Module:
    """The module behind passes and what the only one of them needs; it is valid."""
    Runner(module, Context()).run(read_requests(BEFORE.get(passes, "") + passes))
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


@pytest.mark.seed("R01", "R02", "R03")
@pytest.mark.parametrize("key", SINGLE)
def test_rotating_views_behind_every_pass(key: str) -> None:
    module = behind(listing("rotating-views.loom"), key)
    program = Program(module, limits=Limits())
    for trips in (0, 1, 2, 3, 8):
        (result,) = call_function(program, module.symbols()["rotate_slots"], [trips])
        assert result == 1 + 7 * trips


@pytest.mark.seed("A03", "A04", "A07", "EX6")
@pytest.mark.parametrize("key", SINGLE)
def test_vector_read_ahead_behind_every_pass(key: str) -> None:
    """Sums of the rows before and behind, bit for bit; no row past the count is read."""
    rows = np.random.default_rng(11).standard_normal((64, 32, 4)).astype(np.float32)
    bound = behind(listing("vector-read-ahead.loom"), BOUND)
    modules = (bound, behind(bound.clone(), key))
    for count in (0, 1, 3, 4, 5, 11, 24):
        poisoned = rows.copy()
        poisoned[count:] = np.nan
        results = []
        for module in modules:
            (kernel,) = (op for op in module.ops if op.name == "kernel.def")
            sums = np.zeros(32, dtype=np.float32)
            launch_kernel(Program(module, {}, Limits()), kernel, [], [count, poisoned.copy(), sums])
            results.append(sums)
        assert results[0].tobytes() == results[1].tobytes()
        assert np.allclose(results[0], rows[:count].sum(axis=(0, 2)), atol=1e-4)
