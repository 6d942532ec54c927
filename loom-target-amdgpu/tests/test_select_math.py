"""Elementary functions stay within a few units in the last place, special values included."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import TARGETS, elementwise, run_both

ARGUMENTS = np.concatenate([
    np.linspace(-110, 130, 900), np.linspace(-2, 2, 300), 10.0 ** np.linspace(-44, 38, 300), -(10.0 ** np.linspace(-44, 38, 100)),
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 2.0, 0.25, 0.5, 0.75],
]).astype(np.float32)  # fmt: skip
FUNCTIONS = {
    "exp2f": 2,
    "expf": 4,
    "log2f": 3,
    "logf": 4,
    "log10f": 4,
    "rsqrtf": 3,
    "logisticf": 4,
    "siluf": 5,
    "tanhf": 8,
}


def units(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Distance in units of the last place of the expected value; zero where both are NaN or equal."""
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    spacing = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
    with np.errstate(all="ignore"):
        distance = np.abs(got.astype(np.float64) - want.astype(np.float64)) / spacing
    return np.where(same, 0.0, np.where(np.isfinite(distance), distance, np.inf))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_f32_functions(name: str, target: str) -> None:
    text = elementwise(f"    %r = scalar.{name} %x0 : f32", ["f32"], "f32")
    machine, expected = run_both(text, target, [ARGUMENTS.size], [ARGUMENTS.size, ARGUMENTS, np.zeros_like(ARGUMENTS)])
    error = units(machine[2], expected[2])
    if name == "siluf":
        # The exponential of a large negative argument is subnormal and has fewer bits to multiply.
        error = np.where(ARGUMENTS < -87, 0.0, error)
    worst = int(np.argmax(error))
    assert error[worst] <= FUNCTIONS[name], (
        f"{name}({ARGUMENTS[worst]!r}) = {machine[2][worst]!r}, want {expected[2][worst]!r}"
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["sinturnsf", "costurnsf"])
def test_turns(name: str, target: str) -> None:
    text = elementwise(f"    %r = scalar.{name} %x0 : f32", ["f32"], "f32")
    x = np.concatenate([np.arange(-8, 9) / 4, np.linspace(-3, 3, 501), [np.inf, np.nan]]).astype(np.float32)
    machine, expected = run_both(text, target, [x.size], [x.size, x, np.zeros_like(x)])
    np.testing.assert_allclose(machine[2], expected[2], atol=2e-6)
    np.testing.assert_array_equal(machine[2][:17], expected[2][:17])
