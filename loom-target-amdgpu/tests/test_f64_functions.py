"""Elementary functions of f64 are arithmetic: the machine's bits are those of the evaluator on that arithmetic.

How far the arithmetic is off the functions is measured in ``loom-core/tests/transforms/test_legalize_math.py``.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import TARGETS, assert_same, elementwise, run_both

from loom import api
from loom.evaluate.device import ReferenceDevice
from loom.plugins.manager import find_target
from loom.transforms.elementary.recipes import RECIPES
from loom.transforms.legalize_math import legalize_math

RNG = np.random.default_rng(1)
X = np.concatenate([
    RNG.choice([-1.0, 1.0], 150) * 2.0 ** RNG.uniform(-1070, 1020, 150), RNG.uniform(-5, 5, 100),
    [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 2.0**-1022, 1.0, -1.0, 0.5, 709.8, 711.0, -745.0, 2.0**30,
     6381956970095103.0 * 2.0**797, 1.7976931348623157e308],
])  # fmt: skip
BINARY = ("powf", "atan2f", "remf")
GELU = ("geluf<erf>", "geluf<tanh>", "geluf<logistic>")
# Each function on one processor of each generation in turn, those of all kinds of operations on all.
EVERYWHERE = ("expf", "sinf", "powf")
CASES = [
    (name, TARGETS[(number + shift) % 3])
    for number, name in enumerate([*RECIPES, *GELU])
    for shift in range(3 if name in EVERYWHERE else 1)
]


@pytest.mark.parametrize(("name", "target"), CASES)
def test_f64_functions(name: str, target: str) -> None:
    operands = "%x0, %x1" if name in BINARY else "%x0"
    attributes = " {scale = 1.75}" if "logistic>" in name else ""
    inputs = [X, X[::-1].copy()] if name in BINARY else [X]
    text = elementwise(f"    %r = scalar.{name} {operands}{attributes} : f64", ["f64"] * len(inputs), "f64")
    arguments = [X.size, *inputs, np.zeros_like(X)]
    machine, _ = run_both(text, target, [X.size], arguments)
    module = api.load_bytes(text.encode(), "arithmetic.loom")
    kernel = module.symbols()["k"]
    assert legalize_math(kernel, None) == 1
    expected = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    ReferenceDevice(dict(find_target(target).facts)).launch(module, kernel, [X.size], expected)
    assert_same(machine, expected)


def test_vectors_of_f64() -> None:
    """Two lanes of a vector take the same way as two numbers."""
    text = elementwise(
        "    %v = vector.from_elements %x0, %x1 : vector<2xf64>\n"
        "    %w = vector.tanhf %v : vector<2xf64>\n"
        "    %a = vector.extract %w[0] : vector<2xf64> -> f64\n"
        "    %b = vector.extract %w[1] : vector<2xf64> -> f64\n"
        "    %r = scalar.subf %a, %b : f64",
        ["f64", "f64"],
        "f64",
    )
    x, y = RNG.uniform(-3, 3, (2, 100))
    machine, expected = run_both(text, "amdgpu:gfx1100", [100], [100, x, y, np.zeros(100)])
    np.testing.assert_allclose(machine[3], expected[3], rtol=0, atol=4e-16)
