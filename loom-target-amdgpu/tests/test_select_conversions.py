"""Conversions between all formats agree with the reference evaluator, rounded once, on edges and halfway cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import TARGETS, agree, elementwise, run_both
from test_select_scalar import INTEGERS, edges, float_edges, pairs

STORED: dict[str, Any] = {
    "f8E4M3": np.uint8, "f8E5M2": np.uint8, "bf16": np.uint16, "f16": np.float16, "f32": np.float32, "f64": np.float64,
    "i1": np.bool_, **INTEGERS,
}  # fmt: skip
BITS = {"f8E4M3": 8, "f8E5M2": 8, "bf16": 16, "f16": 16, "f32": 32, "f64": 64}
FRACTION = {"f8E4M3": 3, "f8E5M2": 2, "bf16": 7, "f16": 10, "f32": 23, "f64": 52}
RNG = np.random.default_rng(12)
Array = np.ndarray[Any, Any]


def numbers(format: str) -> Array:
    """All codes of the 8- and 16-bit formats; of others edges, all magnitudes, and numbers around rounding points."""
    if BITS[format] <= 16:
        codes = np.arange(1 << BITS[format], dtype=f"u{BITS[format] // 8}")
        return codes.view(STORED[format])
    dtype = STORED[format]
    base = [float_edges(dtype)]
    with np.errstate(all="ignore"):
        base.append((RNG.standard_normal(400) * 2.0 ** RNG.integers(-60, 60, 400)).astype(dtype))
        for fraction in (2, 3, 7, 10, 23):
            # Halfway between two numbers of a narrower format, and a little beside.
            steps = RNG.integers(1 << fraction, 2 << fraction, 60) + 0.5
            halves = (steps * 2.0 ** (RNG.integers(-26, 12, 60).astype(float) - fraction)).astype(dtype)
            base += [halves, np.nextafter(halves, dtype(0)), np.nextafter(halves, dtype(np.inf))]
    values = np.concatenate(base)
    return np.concatenate([values, -values])


def is_nan(values: Array, format: str) -> Array:
    if values.dtype.kind == "f":
        return np.isnan(values)
    largest = {"f8E4M3": 0x7E, "f8E5M2": 0x7C, "bf16": 0x7F80}[format]
    return (values & (0x7F if BITS[format] == 8 else 0x7FFF)) > largest


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("source", "destination"),
    [(a, b) for a in BITS for b in BITS if BITS[a] != BITS[b]],
)
def test_between_floats(source: str, destination: str, target: str) -> None:
    a = numbers(source)
    name = "extf" if BITS[source] < BITS[destination] else "fptrunc"
    text = elementwise(f"    %r = scalar.{name} %x0 : {source} to {destination}", [source], destination)
    out = np.zeros(a.size, STORED[destination])
    machine, expected = run_both(text, target, [a.size], [a.size, a, out])
    got, want = machine[2], expected[2]
    same = got.view(f"u{got.itemsize}") == want.view(f"u{want.itemsize}")
    same |= is_nan(got, destination) & is_nan(want, destination)
    bad = np.flatnonzero(~same)
    assert not bad.size, f"{a[bad[0]]!r} -> {got[bad[0]]!r}, want {want[bad[0]]!r}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["sitofp", "uitofp"])
@pytest.mark.parametrize("source", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("destination", ["bf16", "f16", "f32", "f64"])
def test_from_integers(name: str, source: str, destination: str, target: str) -> None:
    dtype = INTEGERS[source]
    halves = []
    for fraction in (7, 10, 23, 52):
        if np.iinfo(dtype).bits > fraction + 2:
            steps = RNG.integers(1 << fraction, 2 << fraction, 40) * 2 + 1
            shift = RNG.integers(0, np.iinfo(dtype).bits - fraction - 2, 40)
            exact = (steps << shift).astype(dtype)
            halves += [exact, exact + dtype(1), exact - dtype(1)]
    a = np.concatenate([edges(dtype), *halves, *(-h for h in halves)])
    text = elementwise(f"    %r = scalar.{name} %x0 : {source} to {destination}", [source], destination)
    agree(text, target, [a.size], [a.size, a, np.zeros(a.size, STORED[destination])])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("destination", ["i8", "i32", "i64"])
def test_to_integers(source: str, destination: str, target: str) -> None:
    """Values in range only: others have no meaning."""
    bits = np.iinfo(INTEGERS[destination]).bits
    a = numbers(source)
    wide = (a.astype(np.uint32) << 16).view(np.float32) if source == "bf16" else a
    wide = wide.astype(np.float64)
    for name, low, high in (("fptosi", -(2.0 ** (bits - 1)), 2.0 ** (bits - 1)), ("fptoui", 0.0, 2.0**bits)):
        with np.errstate(invalid="ignore"):
            kept = a[(np.trunc(wide) >= low) & (np.trunc(wide) < high)]
        text = elementwise(f"    %r = scalar.{name} %x0 : {source} to {destination}", [source], destination)
        agree(text, target, [kept.size], [kept.size, kept, np.zeros(kept.size, INTEGERS[destination])])


@pytest.mark.parametrize("type_", ["f16", "f32", "f64"])
@pytest.mark.parametrize("mode", ["ordered", "number", "ieee"])
def test_clamp(mode: str, type_: str) -> None:
    a, b = pairs(float_edges(STORED[type_]), 2500)
    c = np.random.default_rng(3).permutation(b)
    text = elementwise(f"    %r = scalar.clampf<{mode}> %x0, %x1, %x2 : {type_}", [type_] * 3, type_)
    agree(text, TARGETS[0], [a.size], [a.size, a, b, c, np.zeros_like(a)])
