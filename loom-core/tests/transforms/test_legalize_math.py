"""Elementary functions written as arithmetic: their error against many digits, special values, formats, policies."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from loom import api
from loom.evaluate.dispatch import call_function, launch_kernel
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.ir.core import Module
from loom.ir.diagnostics import LoomError
from loom.plugins.math_policy import ELEMENTARY, MathPolicy
from loom.transforms.elementary.recipes import RECIPES
from loom.transforms.legalize_math import legalize_math

mp = pytest.importorskip("mpmath", reason="mpmath judges the functions")

KERNEL: Final = """\
kernel.def export("k") @k() {{
  %unit = index.constant 1 : index
  %size = index.constant {n} : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%size, %unit, %unit) : index
}} launch(%b_x: buffer, %b_y: buffer, %b_out: buffer) {{
  %at0 = index.constant 0 : offset
  %lane = kernel.workitem.id<x> : index
  %xs = buffer.view %b_x[%at0] : buffer -> view<{n}xf64>
  %ys = buffer.view %b_y[%at0] : buffer -> view<{n}xf64>
  %out = buffer.view %b_out[%at0] : buffer -> view<{n}xf64>
  %x = view.load %xs[%lane] : view<{n}xf64> -> f64
  %y = view.load %ys[%lane] : view<{n}xf64> -> f64
  %r = {line} : f64
  view.store %r, %out[%lane] : f64, view<{n}xf64>
  kernel.return
}}
"""
Numbers = np.ndarray[Any, np.dtype[np.float64]]


def run(line: str, x: Numbers, y: Numbers | None = None, *, legal: bool = True) -> Numbers:
    """What an operation gives for many operands, rewritten or as the evaluator has it."""
    module = api.parse(KERNEL.format(n=x.size, line=line), "t.loom")
    api.verify(module)
    kernel = module.symbols()["k"]
    if legal:
        assert legalize_math(kernel, None) == 1
        api.verify(module)
        names = {op.name.partition(".")[2] for op in kernel.walk()}
        assert not names & {*RECIPES, "geluf"}
    out = np.zeros(x.size)
    program = Program(module, {"subgroup_size": 32}, Limits(races=False))
    launch_kernel(program, kernel, [], [x.copy(), (x if y is None else y).copy(), out])
    return out


def error(got: float, want: Any) -> float:
    """Distance in units of the last place."""
    nearest = float(want)
    if math.isnan(nearest) or math.isinf(nearest) or not math.isfinite(got):
        return 0.0 if got == nearest or (math.isnan(got) and math.isnan(nearest)) else math.inf
    return float(abs(mp.mpf(got) - want) / math.ulp(nearest))


RNG: Final = np.random.default_rng(7)


def sized(low: float, high: float, count: int = 60) -> Numbers:
    """Numbers of both signs with magnitudes between powers of two."""
    return RNG.choice([-1.0, 1.0], count) * 2.0 ** RNG.uniform(low, high, count)


def even(low: float, high: float, count: int = 120) -> Numbers:
    return RNG.uniform(low, high, count)


def _both(power: Any) -> Callable[[Any], Any]:
    return lambda x: mp.sign(x) * power(abs(x))


POSITIVE: Final = np.concatenate([abs(sized(-1074, 1023)), even(0.5, 2.0)])
ANGLES: Final = np.concatenate([sized(-40, 1023), even(-10, 10), even(-1e9, 1e9), [6381956970095103.0 * 2.0**797]])
TURNS: Final = np.concatenate([sized(-60, 60), even(-4, 4)])
GATE: Final = np.concatenate([sized(-60, 6), even(-745, 745)])
# Function -> what it is, arguments, and units of the last place that it may be off. The bounds are what the formulas say.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Numbers, float]] = {
    "expf": (mp.exp, np.concatenate([even(-745, 709.7), sized(-60, 3)]), 1.0),
    "exp2f": (lambda x: mp.power(2, x), np.concatenate([even(-1075, 1024), sized(-60, 3)]), 1.0),
    "expm1f": (mp.expm1, np.concatenate([even(-40, 709.7), sized(-60, 6)]), 1.0),
    "logf": (mp.log, POSITIVE, 1.0),
    "log2f": (lambda x: mp.log(x) / mp.log(2), POSITIVE, 1.0),
    "log10f": (lambda x: mp.log(x) / mp.log(10), POSITIVE, 1.0),
    "log1pf": (mp.log1p, np.concatenate([abs(sized(-60, 1023)), even(-1, 2), sized(-60, -1)]), 1.0),
    "cbrtf": (_both(mp.cbrt), np.concatenate([sized(-1074, 1023), even(1, 8)]), 1.0),
    "sinf": (mp.sin, ANGLES, 1.0),
    "cosf": (mp.cos, ANGLES, 1.0),
    "tanf": (mp.tan, ANGLES, 1.0),
    "asinf": (mp.asin, np.concatenate([even(-1, 1), sized(-40, 0)]), 1.0),
    "acosf": (mp.acos, np.concatenate([even(-1, 1), 1 - abs(sized(-40, 0))]), 1.0),
    "atanf": (mp.atan, np.concatenate([sized(-60, 60), even(-4, 4)]), 1.0),
    "sinturnsf": (lambda x: mp.sinpi(2 * x), TURNS, 1.0),
    "costurnsf": (lambda x: mp.cospi(2 * x), TURNS, 1.0),
    "sinhf": (mp.sinh, np.concatenate([even(-710.4, 710.4), sized(-60, 6)]), 1.0),
    "coshf": (mp.cosh, np.concatenate([even(-710.4, 710.4), sized(-60, 6)]), 1.0),
    "tanhf": (mp.tanh, np.concatenate([even(-25, 25), sized(-60, 6)]), 1.0),
    "asinhf": (mp.asinh, np.concatenate([sized(-60, 1023), even(-10, 10)]), 1.0),
    "acoshf": (mp.acosh, np.concatenate([abs(sized(0, 1023)), 1 + abs(sized(-50, 3))]), 1.0),
    "atanhf": (mp.atanh, np.concatenate([sized(-60, 0), even(-1, 1)]), 1.0),
    "erff": (mp.erf, np.concatenate([sized(-60, 4), even(-6.5, 6.5)]), 1.5),
    "erfcf": (mp.erfc, np.concatenate([sized(-60, 4), even(-6.5, 28)]), 2.0),
    "logisticf": (lambda x: 1 / (1 + mp.exp(-x)), GATE, 1.0),
    "siluf": (lambda x: x / (1 + mp.exp(-x)), GATE, 1.0),
    "softplusf": (lambda x: mp.log1p(mp.exp(x)), GATE, 1.0),
    "geluf<erf>": (lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2, np.concatenate([sized(-60, 6), even(-39, 10)]), 3.0),
    "geluf<tanh>": (
        lambda x: x / (1 + mp.exp(-2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3))),
        np.concatenate([sized(-60, 6), even(-22, 22)]),
        1.0,
    ),
    "geluf<logistic>": (
        lambda x: x / (1 + mp.exp(-mp.mpf(1.75) * x)),
        np.concatenate([sized(-60, 6), even(-420, 420)]),
        1.0,
    ),
}  # fmt: skip


def line_of(name: str) -> str:
    return f"scalar.{name} %x" + (" {scale = 1.75}" if "logistic>" in name else "")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_within_their_bounds(name: str) -> None:
    function, x, bound = FUNCTIONS[name]
    got = run(line_of(name), x)
    with mp.workprec(1300 if name in ("sinf", "cosf", "tanf") else 160):
        errors = [error(float(g), function(mp.mpf(float(v)))) for g, v in zip(got, x, strict=True)]
    worst = int(np.argmax(errors))
    assert errors[worst] <= bound, f"{name}({x[worst]!r}) = {got[worst]!r} is {errors[worst]} units off"


def test_every_recipe_is_judged() -> None:
    assert (
        {name.partition("<")[0] for name in FUNCTIONS} | {"powf", "atan2f", "remf"} == {*RECIPES, "geluf"} == ELEMENTARY
    )


SPECIAL: Final = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0, -2.0, 5e-324, -5e-324, 2.0**-1022, 1.5, 0.5, -0.5, 0.25, -0.75,
     1.7976931348623157e308, -1.7976931348623157e308]
)  # fmt: skip


def same(got: Numbers, want: Numbers, bound: float) -> None:
    """Equal zeros, infinities and NaNs; numbers apart by rounding."""
    assert (np.isnan(got) == np.isnan(want)).all()
    exact = ~np.isfinite(want) | (want == 0.0)
    np.testing.assert_array_equal(got[exact], want[exact])
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))
    distance = abs(got[~exact] - want[~exact]) / np.spacing(abs(want[~exact]))
    assert (distance <= bound).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values_are_those_of_the_evaluator(name: str) -> None:
    # The evaluator itself may be off by eight units, and where its own exponential vanishes it has no product left.
    same(run(line_of(name), SPECIAL), run(line_of(name), SPECIAL, legal=False), 8.0)


def test_powers() -> None:
    x = np.concatenate([abs(sized(-30, 30)), sized(-10, 10), 1 + sized(-53, -43)])
    with np.errstate(all="ignore"):
        most = 740 / np.maximum(abs(np.log(abs(x))), 1e-300)
    y = RNG.uniform(-1, 1, x.size) * np.minimum(most, 1e15)
    y = np.where(x < 0, np.round(y), y)
    got = run("scalar.powf %x, %y", x, y)
    with mp.workprec(200):
        for g, a, b in zip(got, x, y, strict=True):
            want = mp.power(abs(mp.mpf(float(a))), mp.mpf(float(b))) * (-1 if a < 0 and b % 2 == 1 else 1)
            assert error(float(g), want) <= 1.0, f"{a!r} ** {b!r}"
    grid = np.concatenate([SPECIAL, [3.0, -3.0, 1e300, -1e300, 1075.0, 2.0**53]])
    a, b = (axis.ravel() for axis in np.meshgrid(grid, grid))
    same(run("scalar.powf %x, %y", a, b), run("scalar.powf %x, %y", a, b, legal=False), 4.0)


def test_angles_of_points() -> None:
    y, x = sized(-1074, 1023, 200), sized(-1074, 1023, 200)
    y[100:], x[100:] = sized(-20, 20, 100), sized(-20, 20, 100)
    got = run("scalar.atan2f %x, %y", y, x)
    with mp.workprec(200):
        for g, a, b in zip(got, y, x, strict=True):
            assert error(float(g), mp.atan2(mp.mpf(float(a)), mp.mpf(float(b)))) <= 1.0, f"atan2({a!r}, {b!r})"
    a, b = (axis.ravel() for axis in np.meshgrid(SPECIAL, SPECIAL))
    same(run("scalar.atan2f %x, %y", a, b), run("scalar.atan2f %x, %y", a, b, legal=False), 4.0)


def test_remainders_are_exact() -> None:
    x, y = sized(-1074, 1023, 300), sized(-1074, 1023, 300)
    y[100:200], x[100:200] = sized(-20, 20, 100), sized(-20, 200, 100)
    y[200:], x[200:] = np.round(sized(0, 10, 100)) + 0.5, np.round(sized(30, 62, 100))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run("scalar.remf %x, %y", x, y), np.fmod(x, y))
        a, b = (axis.ravel() for axis in np.meshgrid(SPECIAL, SPECIAL))
        want = np.fmod(a, b)
    got = run("scalar.remf %x, %y", a, b)
    np.testing.assert_array_equal(got, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))


@pytest.mark.parametrize("name", ["exp2f", "log2f", "sinturnsf", "costurnsf", "cbrtf"])
def test_exact_results_are_exact(name: str) -> None:
    arguments = {
        "exp2f": np.arange(-1074.0, 1024.0, 7.0),
        "log2f": 2.0 ** np.arange(-1074.0, 1024.0, 7.0),
        "cbrtf": np.arange(-40.0, 40.0) ** 3,
    }.get(name, np.arange(-40.0, 40.0) / 4)
    want = {
        "exp2f": np.exp2(arguments),
        "log2f": np.arange(-1074.0, 1024.0, 7.0),
        "cbrtf": np.arange(-40.0, 40.0),
    }.get(name)
    got = run(line_of(name), arguments)
    np.testing.assert_array_equal(got, run(line_of(name), arguments, legal=False) if want is None else want)


# -- formats, vectors, policies --------------------------------------------------------------------------------------


def function(type_: str, line: str) -> Module:
    module = api.parse(f"func.def public @f(%x: {type_}) -> ({type_}) {{\n  %r = {line} : {type_}\n"
                       f"  func.return %r : {type_}\n}}\n", "t.loom")  # fmt: skip
    api.verify(module)
    return module


@pytest.mark.parametrize("type_", ["f32", "f16", "bf16"])
def test_narrow_formats_are_rounded_once_more(type_: str) -> None:
    """The evaluator computes in f64 as well: results are the same bits."""
    module = function(type_, "scalar.sinhf %x")
    want = [_value(module, type_, v) for v in (0.5, -2.0, 7.25)]
    assert legalize_math(module.symbols()["f"], None) == 1
    api.verify(module)
    assert [_value(module, type_, v) for v in (0.5, -2.0, 7.25)] == want


def _value(module: Module, type_: str, x: float) -> bytes:
    pattern: Any = np.float32(x)
    if type_ == "f16":
        pattern = np.float16(x)
    elif type_ == "bf16":
        pattern = np.uint16(np.float32(x).view(np.uint32) >> 16)
    (result,) = call_function(Program(module, limits=Limits()), module.symbols()["f"], [pattern])
    return bytes(np.asarray(result).tobytes())


def test_vectors_are_taken_lane_by_lane() -> None:
    module = function("vector<2x2xf32>", "vector.tanhf %x")
    x = np.array([[0.5, -2.0], [np.inf, np.nan]], dtype=np.float32)
    (want,) = call_function(Program(module, limits=Limits()), module.symbols()["f"], [x])
    assert legalize_math(module.symbols()["f"], None) == 1
    api.verify(module)
    (got,) = call_function(Program(module, limits=Limits()), module.symbols()["f"], [x])
    np.testing.assert_array_equal(got, want)


def test_a_policy_says_what_stays() -> None:
    policy = MathPolicy("test.math", {"expf": frozenset({"f32"})})
    assert legalize_math(function("f32", "scalar.expf %x").symbols()["f"], policy) == 0
    assert legalize_math(function("vector<2xf32>", "vector.expf %x").symbols()["f"], policy) == 0
    assert legalize_math(function("f64", "scalar.expf %x").symbols()["f"], policy) == 1
    assert legalize_math(function("f32", "scalar.logf %x").symbols()["f"], policy) == 1
    assert legalize_math(function("f32", "scalar.sqrtf %x").symbols()["f"], policy) == 0


def test_lanes_without_a_recipe_are_told() -> None:
    module = function("vector<300xf32>", "vector.expf %x")
    with pytest.raises(LoomError) as caught:
        legalize_math(module.symbols()["f"], None)
    (found,) = caught.value.diagnostics
    assert (found.code, found.params["math_op"], found.params["element_type"]) == ("LOWERING/035", "expf", "f32")
    assert found.location is not None


TABLES: Final = Path(__file__).resolve().parents[3] / "tools" / "derive_elementary_tables.py"


def test_tables_are_those_of_the_script() -> None:
    assert subprocess.run([sys.executable, str(TABLES), "--check"], timeout=120).returncode == 0
