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
    "expm1f": 4,
    "log1pf": 5,
    "sinhf": 5,
    "coshf": 5,
    "asinhf": 6,
    "acoshf": 6,
    "atanhf": 6,
    "softplusf": 5,
    "sinf": 3,
    "cosf": 3,
    "tanf": 4,
    "asinf": 4,
    "acosf": 4,
    "atanf": 3,
    "erff": 3,
    "erfcf": 8,
    "cbrtf": 2,
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


HUGE = np.concatenate([
    np.float32(2.0) ** np.arange(10, 128, dtype=np.float32), np.random.default_rng(4).uniform(1e5, 1e38, 300),
    2.0 ** np.random.default_rng(5).uniform(15, 128, 600), [131071.0, 131072.0, 131073.0, 3.4e38],
    # Numbers next to a multiple of pi/2 that is hard to tell from it.
    [16367173.0 * 2.0**72, 1.6e7, 5.3719e8, 6381956970095103.0 * 2.0**20],
]).astype(np.float32)  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["sinf", "cosf", "tanf"])
def test_angles_of_any_size(name: str, target: str) -> None:
    x = np.concatenate([HUGE, -HUGE])
    text = elementwise(f"    %r = scalar.{name} %x0 : f32", ["f32"], "f32")
    machine, expected = run_both(text, target, [x.size], [x.size, x, np.zeros_like(x)])
    error = units(machine[2], expected[2])
    worst = int(np.argmax(error))
    assert error[worst] <= 4, f"{name}({x[worst]!r}) = {machine[2][worst]!r}, want {expected[2][worst]!r}"


BASES = np.concatenate([
    [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, 0.5, -0.5, 1.5, -8.0, 1e-45, -1e-45, 1e-38, 3e38, -3e38, np.inf, -np.inf, np.nan],
    np.random.default_rng(6).uniform(0, 3, 25), 10.0 ** np.random.default_rng(7).uniform(-30, 30, 15),
]).astype(np.float32)  # fmt: skip
EXPONENTS = np.concatenate([
    [0.0, -0.0, 1.0, -1.0, 2.0, 3.0, -3.0, 0.5, -0.5, 1 / 3, 16777217.0, 16777215.0, 1e9, 100.0, -150.0, np.inf, -np.inf, np.nan],
    np.random.default_rng(8).uniform(-9, 9, 25), np.random.default_rng(9).uniform(-100, 100, 15),
]).astype(np.float32)  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("name", "limit"), [("powf", 2), ("atan2f", 4), ("remf", 0)])
def test_functions_of_two_operands(name: str, limit: int, target: str) -> None:
    """All pairs of special values, signs of zeros included."""
    other = BASES if name != "powf" else EXPONENTS
    a, b = (m.ravel().copy() for m in np.meshgrid(BASES, other))
    text = elementwise(f"    %r = scalar.{name} %x0, %x1 : f32", ["f32", "f32"], "f32")
    machine, expected = run_both(text, target, [a.size], [a.size, a, b, np.zeros_like(a)])
    got, want = machine[3], expected[3]
    error = units(got, want)
    error[(np.signbit(got) != np.signbit(want)) & ~np.isnan(want)] = np.inf
    # A subnormal power has fewer digits than the exponential it is made of.
    if name == "powf":
        error = np.where((np.abs(want) < 2.0**-126) & (np.abs(got - want) <= 2.0**-148), 0, error)
    worst = int(np.argmax(error))
    assert error[worst] <= limit, f"{name}({a[worst]!r}, {b[worst]!r}) = {got[worst]!r}, want {want[worst]!r}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("variant", ["<erf> %x0", "<tanh> %x0", "<logistic> %x0 {scale = 1.75}"])
def test_gelu(variant: str, target: str) -> None:
    """8 units for the exact variant; where an exponential magnifies roundings, 8 (1 + |x|) units."""
    text = elementwise(f"    %r = scalar.geluf{variant} : f32", ["f32"], "f32")
    x = ARGUMENTS
    machine, expected = run_both(text, target, [x.size], [x.size, x, np.zeros_like(x)])
    error = units(machine[2], expected[2])
    # Subnormal results keep fewer digits of the exponential.
    error = np.where(np.abs(expected[2]) < 2.0**-120, 0, error)
    limit = 8.0 if "erf" in variant else 8 * (1 + np.abs(x))
    bad = np.flatnonzero(error > limit)
    assert not bad.size, f"({x[bad[0]]!r}) = {machine[2][bad[0]]!r}, want {expected[2][bad[0]]!r}; {bad.size}"


@pytest.mark.parametrize("type_", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["sinf", "erff", "expm1f", "atanf", "cbrtf", "log1pf"])
def test_narrow_functions_are_rounded_from_f32(name: str, type_: str) -> None:
    """Nearly always the nearest value, never further than the next one."""
    codes = np.arange(1 << 16, dtype=np.uint16)[::7]
    x = codes.view(np.float16) if type_ == "f16" else codes
    text = elementwise(f"    %r = scalar.{name} %x0 : {type_}", [type_], type_)
    machine, expected = run_both(text, TARGETS[0], [x.size], [x.size, x, np.zeros_like(x)])
    got, want = (m[2].view(np.uint16).astype(int) for m in (machine, expected))
    largest = 0x7C00 if type_ == "f16" else 0x7F80
    nan = ((got & 0x7FFF) > largest) & ((want & 0x7FFF) > largest)
    distance = np.where(nan, 0, np.abs(got - want))
    assert distance.max() <= 1
    assert (distance > 0).mean() < 0.002
