"""Every device computes what the reference evaluator computes, on random kernels and edge values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from loom import api
from loom.ir.diagnostics import LoomError
from loom.plugins.manager import find_device, find_target

from .random_kernels import STORED, TYPES, random_kernel
from .random_tiles import random_tile_kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from loom.plugins.records import OpenDevice

# One full workgroup and a ragged one.
COUNT: Final = 70
SEEDS: Final = 30
INTEGER_EDGES: Final = (0, 1, -1, 2**31 - 1, -(2**31), 2, 7, 255)
FLOAT_EDGES: Final = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3.4e38, -1.5)
UNIFORM: Final = (-7, 123_456_789_012, -2.5, 0.1)
DTYPES: Final = {"i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64}
# device, target, and types that the target computes with.
DEVICES: Final = (
    ("sim", "amdgpu:gfx1100", TYPES),
    ("sim", "amdgpu:gfx1200", TYPES),
    ("sim", "amdgpu:gfx942", TYPES),
    ("sim", "x86:simd128", ("i1", "i32", "i64", "f32", "f64")),
    ("host", None, ("i1", "i32", "i64", "f32", "f64")),
    ("vulkan", None, TYPES),
)


def inputs(seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Random words with edge values in front; random floats with edge values behind those."""
    rng = np.random.default_rng(seed)
    words = rng.integers(-(2**31), 2**31, COUNT).astype(np.int32)
    words[: len(INTEGER_EDGES)] = INTEGER_EDGES
    floats = (rng.standard_normal(COUNT) * 100).astype(np.float32)
    floats[8 : 8 + len(FLOAT_EDGES)] = FLOAT_EDGES
    return words, floats


def opened(name: str, target: str | None) -> tuple[OpenDevice, Any]:
    """A device and the profile to compile for; skips where the device cannot run."""
    device = find_device(name)
    chosen = target or device.default_target
    profile = find_target(chosen) if chosen else None
    try:
        return device.open(profile), profile
    except LoomError as error:
        pytest.skip(f"{name}: {error.diagnostics[0].message}")


def launched(device: OpenDevice, profile: Any, text: str, seed: int) -> list[NDArray[Any]]:
    """What a kernel writes."""
    module = api.specialize(api.parse(text, "kernel.loom"), profile).module
    words, floats = inputs(seed)
    results = [np.zeros(COUNT, DTYPES[t]) for t in STORED]
    device.launch(module, module.symbols()["k"], [COUNT], [COUNT, *UNIFORM, words, floats, *results])
    return results


def equal(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Equal bits, or both NaN."""
    bits = np.dtype(f"u{a.itemsize}")
    same: NDArray[Any] = a.view(bits) == b.view(bits)
    return same | (np.isnan(a) & np.isnan(b)) if a.dtype.kind == "f" else same


def agree(name: str, target: str | None, program: Callable[[int], str], least: int) -> None:
    """Compare a device with the reference on ``SEEDS`` programs, of which at least ``least`` must run."""
    device, profile = opened(name, target)
    reference = find_device("reference").open(None)
    agreed = 0
    try:
        for seed in range(SEEDS):
            text = program(seed)
            expected = launched(reference, None, text, seed)
            try:
                actual = launched(device, profile, text, seed)
            except LoomError as error:
                # What a target lacks it says where it stands; anything else is a failure.
                first = error.diagnostics[0]
                assert first.code == "TARGET/001", first.render()
                assert first.position() is not None
                continue
            for type_, want, got in zip(STORED, expected, actual, strict=True):
                wrong = np.flatnonzero(~equal(want, got))
                assert not wrong.size, f"seed {seed}: {type_}[{wrong[0]}] is {got[wrong[0]]}, not {want[wrong[0]]}"
            agreed += 1
    finally:
        device.close()
        reference.close()
    assert agreed >= least


@pytest.mark.parametrize(("name", "target", "types"), DEVICES, ids=lambda v: v if isinstance(v, str) else "")
def test_random_kernels(name: str, target: str | None, types: tuple[str, ...]) -> None:
    """Arithmetic of every width, conversions, branches and loops."""
    agree(name, target, lambda seed: random_kernel(seed, types), SEEDS * 2 // 3)


@pytest.mark.parametrize(("name", "target"), [d[:2] for d in DEVICES if "x86" not in str(d) and d[0] != "host"])
def test_random_exchanges_through_workgroup_storage(name: str, target: str | None) -> None:
    """Barriers, workgroup tiles, and loops around both."""
    agree(name, target, random_tile_kernel, SEEDS * 2 // 3)
