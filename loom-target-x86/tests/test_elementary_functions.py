"""Elementary functions are arithmetic on x86: the bits are those of the evaluator on that arithmetic.

How far the arithmetic is off the functions is measured in ``loom-core/tests/transforms/test_legalize_math.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from x86_programs import RUNNER_IDS, RUNNERS, open_device

from loom import api
from loom.evaluate.device import ReferenceDevice
from loom.ir.core import Module
from loom.transforms.elementary.recipes import RECIPES
from loom.transforms.legalize_math import legalize_math

RNG = np.random.default_rng(2)
X = np.concatenate([
    RNG.choice([-1.0, 1.0], 20) * 2.0 ** RNG.uniform(-120, 120, 20), RNG.uniform(-5, 5, 12),
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 5e-324, 88.0],
])  # fmt: skip
BINARY = ("powf", "atan2f", "remf")
NAMES = [*RECIPES, "geluf<erf>"]


def kernel_of(name: str, type_: str) -> str:
    """A kernel that maps arrays; each workgroup takes one element."""
    operands = "%x, %y" if name in BINARY else "%x"
    view = f"view<{X.size}x{type_}>"
    return f"""\
kernel.def export("k") @k() {{
  %unit = index.constant 1 : index
  %size = index.constant {X.size} : index
  kernel.launch.config workgroups(%size, %unit, %unit) workgroup_size(%unit, %unit, %unit) : index
}} launch(%b_x: buffer, %b_y: buffer, %b_out: buffer) {{
  %at0 = index.constant 0 : offset
  %i = kernel.workgroup.id<x> : index
  %xs = buffer.view %b_x[%at0] : buffer -> {view}
  %ys = buffer.view %b_y[%at0] : buffer -> {view}
  %out = buffer.view %b_out[%at0] : buffer -> {view}
  %x = view.load %xs[%i] : {view} -> {type_}
  %y = view.load %ys[%i] : {view} -> {type_}
  %r = scalar.{name} {operands} : {type_}
  view.store %r, %out[%i] : {type_}, {view}
  kernel.return
}}
"""


def launch(device: Any, module: Module, type_: str) -> np.ndarray[Any, Any]:
    dtype = np.float64 if type_ == "f64" else np.float32
    with np.errstate(all="ignore"):
        x = X.astype(dtype)
    arguments = [x.copy(), x[::-1].copy(), np.zeros_like(x)]
    device.launch(module, module.symbols()["k"], [], arguments)
    return arguments[2]


@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize(("where", "selector"), RUNNERS, ids=RUNNER_IDS)
def test_every_function_runs(where: str, selector: str, type_: str) -> None:
    device = open_device(where, selector)
    names = ("expf", "logf", "sinf", "powf", "erff", "atan2f", "tanhf") if where == "sim" else NAMES
    for name in names:
        module = api.load_bytes(kernel_of(name, type_).encode(), "k.loom")
        got = launch(device, module, type_)
        arithmetic = module.clone()
        assert legalize_math(arithmetic.symbols()["k"], None) == 1
        want = launch(ReferenceDevice(dict(device.facts)), arithmetic, type_)
        same = (got.view(np.uint8) == want.view(np.uint8)).reshape(got.size, -1).all(axis=1)
        same |= np.isnan(got) & np.isnan(want)
        assert same.all(), f"{name}: {X[~same]} give {got[~same]}, not {want[~same]}"


def test_a_register_that_many_instructions_need() -> None:
    """Each multiply-add of a processor without them takes and gives the same register, a hundred times here."""
    lines = [f"  %v{n + 1} = scalar.fmaf %v{n}, %a, %v{n} : f64" for n in range(100)]
    text = "\n".join(["func.def public @f(%v0: f64, %a: f64) -> (f64) {", *lines, "  func.return %v100 : f64", "}", ""])
    device = open_device("host", "simd128")
    module = api.load_bytes(text.encode(), "f.loom")
    (got,) = device.call(module, module.symbols()["f"], [1.0, 2.0**-3])
    assert abs(got / 1.125**100 - 1) < 1e-13
