"""Elementary functions on the device against the numeric definitions: special values, all magnitudes, and how
far the last place is off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from loom.evaluate.numeric import FORMATS, OPERATIONS
from loom_target_spirv.profiles import MATH
from loom_target_spirv.select.math_functions import BINARY, MATH_RULES, UNARY

Array = npt.NDArray[Any]
Evaluate = Callable[..., list[Array]]

SPECIAL = [
    0.0, 1.0, 0.5, 0.25, 0.75, 0.125, 1.5, 2.0, 3.0, 10.0, 100.0, 1000.0, 1e-3, 1e-6, 0.70710677, 1.4142135, 2.7182817,
    3.1415927, 1.5707964, 0.78539819, 20.5, 64.0, 88.7, 89.0, 103.0, 104.0, 255.5, 65504.0, np.inf, np.nan,
]  # fmt: skip


def operands(type_: str) -> Array:
    """Special values, every binade, and many ordinary numbers, of both signs."""
    info = np.finfo(f"f{int(type_[1:]) // 8}")
    rng = np.random.default_rng(11)
    with np.errstate(all="ignore"):
        binades = np.exp2(np.arange(info.minexp - info.nmant, info.maxexp, max(1, info.maxexp // 64), dtype=np.float64))
        scattered = binades * rng.uniform(1, 2, binades.size)
        ordinary = np.concatenate([rng.uniform(0, 4, 800), rng.uniform(0, 100, 400), 1 + rng.uniform(-0.01, 0.01, 200)])
        positive = np.concatenate([SPECIAL, [float(info.max), float(info.tiny)], binades, scattered, ordinary])
        return np.concatenate([positive, -positive]).astype(info.dtype)


def ulps(got: Array, want: Array) -> Array:
    """Distance in units of the last place; 0 for equal values and for two NaN, huge for different kinds."""
    integer = f"i{got.dtype.itemsize}"
    least = np.iinfo(integer).min
    ordered = [np.where(x.view(integer) < 0, least - x.view(integer), x.view(integer)) for x in (got, want)]
    with np.errstate(over="ignore"):
        gap = np.maximum(*ordered) - np.minimum(*ordered)
    distance = gap.view(f"u{got.dtype.itemsize}").astype(np.float64)
    nan = np.isnan(got), np.isnan(want)
    distance[nan[0] & nan[1]] = 0
    distance[nan[0] ^ nan[1]] = np.inf
    # -0 and +0 are neighbours here, but a wrong sign of zero is wrong.
    wrong_zero = (got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want))
    distance[wrong_zero] = np.inf
    return distance


def check(
    evaluate: Evaluate, cases: Sequence[tuple[str, str, dict[str, Any]]], type_: str, arrays: Sequence[Array]
) -> None:
    """f16 and f32 differ in a rounding at most now and then; f64 stays within a few units."""
    failures = []
    outputs = evaluate([(text, type_) for _, text, _ in cases], type_, arrays)
    for (name, text, parameters), got in zip(cases, outputs, strict=True):
        want = OPERATIONS[name].apply(arrays, FORMATS[type_], **parameters).value
        distance = ulps(got, want)
        limit = 8.0 if type_ == "f64" else 1.0
        if distance.max() > limit:
            worst = int(distance.argmax())
            given = [array[worst] for array in arrays]
            failures.append(f"{text}: {distance[worst]} units at {given!r}: {got[worst]!r} for {want[worst]!r}")
        elif type_ != "f64" and (distance > 0).mean() > 0.002:
            failures.append(f"{text}: {(distance > 0).mean():.1%} of the results are not the nearest value")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("type_", ["f16", "f32", "f64"])
def test_functions_of_one_operand(evaluate: Evaluate, type_: str) -> None:
    """All of them, `sqrtf` and the variants of `geluf` included."""
    names = [name for name in UNARY if MATH.accepts(name, type_)]
    cases: list[tuple[str, str, dict[str, Any]]] = [(n, f"scalar.{n} %a : {type_}", {}) for n in (*names, "sqrtf")]
    if MATH.accepts("geluf", type_):
        cases.append(("geluf", f"scalar.geluf<tanh> %a : {type_}", {"variant": "tanh"}))
        scaled = f"scalar.geluf<logistic> %a {{scale = 1.75}} : {type_}"
        cases.append(("geluf", scaled, {"variant": "logistic", "scale": 1.75}))
        cases.append(("geluf", f"scalar.geluf<erf> %a : {type_}", {"variant": "erf"}))
    check(evaluate, cases, type_, [operands(type_)])


@pytest.mark.parametrize("type_", ["f16", "f32", "f64"])
def test_functions_of_two_operands(evaluate: Evaluate, type_: str) -> None:
    """Pairs of special values, and numbers in the thousands."""
    rng = np.random.default_rng(5)
    special = np.array([*SPECIAL, *(-x for x in SPECIAL)]).astype(f"f{int(type_[1:]) // 8}")
    x, y = (grid.ravel() for grid in np.meshgrid(special, special))
    ordinary = operands(type_)
    x = np.concatenate([x, rng.choice(ordinary, 3000)])
    y = np.concatenate([y, rng.choice(ordinary, 3000)])
    names = [name for name in BINARY if MATH.accepts(name, type_)]
    check(evaluate, [(name, f"scalar.{name} %a, %b : {type_}", {}) for name in names], type_, [x, y])


@pytest.mark.parametrize("name", ["coshf", "acoshf"])
def test_f64_functions_that_are_arithmetic(evaluate: Evaluate, name: str) -> None:
    """Two of those that the policy leaves to `legalize-math`; drivers take seconds to compile each."""
    assert not MATH.accepts(name, "f64")
    check(evaluate, [(name, f"scalar.{name} %a : f64", {})], "f64", [operands("f64")])


def test_large_angles(evaluate: Evaluate) -> None:
    """Every exponent of f32, and the neighbours of multiples of pi/2 that are hardest to tell from them."""
    rng = np.random.default_rng(3)
    x = (rng.uniform(1, 2, 20000) * np.exp2(rng.integers(-10, 128, 20000))).astype(np.float32)
    near = (np.arange(1, 20000) * (np.pi / 2)).astype(np.float32)
    hard = np.array([16367173 * 2.0**72, 5.3722894e22, 2.0**25, 2.0**25 + 4, 33554430.0], np.float32)
    x = np.concatenate([x, near, -near, hard])
    names = ("sinf", "cosf", "tanf")
    check(evaluate, [(name, f"scalar.{name} %a : f32", {}) for name in names], "f32", [x])


def test_approximate_functions(evaluate: Evaluate) -> None:
    """With `afn` the driver's own instruction: near the value, and no f64 in the module."""
    x = np.linspace(0.1, 3.0, 500, dtype=np.float32)
    names = ["expf", "exp2f", "logf", "log2f", "rsqrtf", "sinf", "cosf"]
    outputs = evaluate([(f"scalar.{name}<afn> %a : f32", "f32") for name in names], "f32", [x])
    for name, got in zip(names, outputs, strict=True):
        want = OPERATIONS[name].apply([x], FORMATS["f32"]).value
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3, err_msg=name)


def test_every_function_is_selected() -> None:
    """The table names every elementary function that the definitions have."""
    arithmetic = {"powf", "atan2f", "sqrtf", "geluf"} | set(UNARY)
    assert MATH_RULES.keys() == arithmetic
    from loom.evaluate.numeric.math_functions import OPERATIONS as functions

    assert functions.keys() <= MATH_RULES.keys()
