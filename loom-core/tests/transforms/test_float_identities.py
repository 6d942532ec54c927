"""Float rules: what facts and flags license, that the meaning stays, and that nothing folds without them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom import api
from loom.evaluate.dispatch import call_function
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.facts.analysis import FunctionFacts
from loom.facts.floats import FloatFacts
from loom.ir.core import Module, Op
from loom.ir.diagnostics import LoomError
from loom.transforms.canonicalize import canonicalize

EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 65504.0, -65504.0, 6e-8, -6e-8, math.inf, -math.inf, math.nan)
NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def parsed(result: str, *lines: str, type_: str = "f32") -> Module:
    body = "".join(f"  {line}\n" for line in lines)
    module = api.parse(
        f"func.def public @f(%x: {type_}, %y: {type_}, %i: i16) -> ({result}) {{\n{body}  func.return %r : {result}\n}}\n"
    )
    api.verify(module)
    return module


def root_of(module: Module) -> Op:
    (root,) = module.ops
    return root


def simplified(result: str, *lines: str, type_: str = "f32") -> Module:
    module = parsed(result, *lines, type_=type_)
    canonicalize(root_of(module), module.symbols())
    api.verify(module)
    return module


def evaluated(module: Module, x: float, y: float, i: int, type_: str = "f32") -> Any:
    """The result, or ``None`` where the program is undefined."""
    make = NUMPY[type_]
    with np.errstate(all="ignore"):
        arguments = [make(x), make(y), i]
    try:
        (result,) = call_function(Program(module, limits=Limits()), module.symbols()["f"], arguments)
    except LoomError:
        return None
    return np.asarray(result).item()


def same(before: Any, after: Any, nsz: bool) -> bool:
    if isinstance(before, float) and math.isnan(before):
        return isinstance(after, float) and math.isnan(after)
    if before != after:
        return False
    return nsz or not isinstance(before, float) or math.copysign(1, before) == math.copysign(1, after)


ZERO = "%z = scalar.constant 0.0 : f32"
ONE = "%k = scalar.constant 1.0 : f32"
NUMBER = "%n = scalar.assume %x [not_nan(%x)] : f32"
FINITE = "%n = scalar.assume %x [finite(%x)] : f32"
MADE = "%n = scalar.sitofp %i : i16 to f32"
POSITIVE = ("%e = scalar.expf %x : f32", "%n = scalar.minnumf %e, %k : f32")

# Name: result type, what is left of the operation (None: it is gone), the lines, without what they are kept.
RULES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "x - x, flags": ("f32", ("%r = scalar.subf<nnan|ninf> %x, %x : f32",), ("%r = scalar.subf<nnan> %x, %x : f32",)),
    "x - x, assumed": (
        "f32", (FINITE, "%r = scalar.subf %n, %n : f32"), (NUMBER, "%r = scalar.subf %n, %n : f32"),
    ),
    "x * 0, flags": (
        "f32", (ZERO, "%r = scalar.mulf<nnan|ninf|nsz> %x, %z : f32"), (ZERO, "%r = scalar.mulf<nnan|ninf> %x, %z : f32"),
    ),
    "x * 0, fast": ("f32", (ZERO, "%r = scalar.mulf<fast> %x, %z : f32"), (ZERO, "%r = scalar.mulf<nsz> %x, %z : f32")),
    "x * 0, an unsigned number": (
        "f32",
        (ZERO, "%u = scalar.uitofp %i : i16 to f32", "%r = scalar.mulf %u, %z : f32"),
        (ZERO, MADE, "%r = scalar.mulf %n, %z : f32"),
    ),
    "x + 0, of an integer": ("f32", (ZERO, MADE, "%r = scalar.addf %n, %z : f32"), (ZERO, "%r = scalar.addf %x, %z : f32")),
    "x + 0, nsz": ("f32", (ZERO, "%r = scalar.addf<nsz> %z, %x : f32"), (ZERO, "%r = scalar.addf<nnan> %z, %x : f32")),
    "x / x": (
        "f32",
        (ONE, MADE, "%m = scalar.maximumf %n, %k : f32", "%r = scalar.divf %m, %m : f32"),
        (MADE, "%r = scalar.divf %n, %n : f32"),
    ),
    "the magnitude of an exponential": (
        "f32", ("%e = scalar.expf %x : f32", "%s = scalar.sqrtf %e : f32", "%r = scalar.minimumf %s, %s : f32"),
        ("%r = scalar.absf %x : f32",),
    ),
    "the magnitude of a magnitude plus one": (
        "f32", (ONE, "%a = scalar.absf<nnan> %x : f32", "%s = scalar.addf<nnan> %a, %k : f32", "%r = scalar.absf %s : f32"),
        (ONE, "%s = scalar.addf<nnan> %x, %k : f32", "%r = scalar.absf %s : f32"),
    ),
    "x == x": ("i1", ("%r = scalar.cmpf<nnan> oeq, %x, %x : f32",), ("%r = scalar.cmpf oeq, %x, %x : f32",)),
    "x < x": ("i1", ("%r = scalar.cmpf olt, %x, %x : f32",), ("%r = scalar.cmpf ult, %x, %x : f32",)),
    "a NaN is asked for": ("i1", (MADE, "%r = scalar.isnanf %n : f32"), ("%r = scalar.isnanf %x : f32",)),
    "an infinity is asked for": ("i1", (FINITE, "%r = scalar.isinff %n : f32"), (NUMBER, "%r = scalar.isinff %n : f32")),
    "a finite number is asked for": (
        "i1", (FINITE, "%r = scalar.isfinitef %n : f32"), (NUMBER, "%r = scalar.isfinitef %n : f32"),
    ),
    "the floor of an integer": ("f32", (MADE, "%r = scalar.floorf %n : f32"), ("%r = scalar.floorf %x : f32",)),
    "ranges decide a comparison": (
        "i1",
        ("%k = scalar.constant 40000.0 : f32", MADE, "%r = scalar.cmpf olt, %n, %k : f32"),
        ("%k = scalar.constant 30000.0 : f32", MADE, "%r = scalar.cmpf olt, %n, %k : f32"),
    ),
    "ranges decide a minimum": (
        "f32",
        ("%k = scalar.constant 40000.0 : f32", MADE, "%r = scalar.minimumf %n, %k : f32"),
        ("%k = scalar.constant 30000.0 : f32", MADE, "%r = scalar.minimumf %n, %k : f32"),
    ),
    "a clamp of what lies between": (
        "f32",
        ("%l = scalar.constant -40000.0 : f32", "%h = scalar.constant 40000.0 : f32", MADE,
         "%r = scalar.clampf<ieee> %n, %l, %h : f32"),
        ("%l = scalar.constant 0.0 : f32", "%h = scalar.constant 40000.0 : f32", MADE,
         "%r = scalar.clampf<ieee> %n, %l, %h : f32"),
    ),
}  # fmt: skip


def last_op(module: Module) -> str | None:
    end = root_of(module).regions[0].entry.last
    assert end is not None
    maker = end.operands[0].defining_op
    return maker.name if maker is not None else None


@pytest.mark.parametrize("name", RULES)
def test_what_facts_or_flags_license(name: str) -> None:
    result, lines, without = RULES[name]
    operation = lines[-1].split("= ")[1].split("<")[0].split()[0]
    assert last_op(simplified(result, *lines)) != operation
    assert last_op(simplified(result, *without)) == without[-1].split("= ")[1].split("<")[0].split()[0]
    for chosen in (lines, without):
        before, after = parsed(result, *chosen), simplified(result, *chosen)
        for x in EDGES:
            for i in (0, -300):
                wanted = evaluated(before, x, -2.5, i)
                if wanted is not None:
                    assert same(wanted, evaluated(after, x, -2.5, i), "nsz" in chosen[-1] or "fast" in chosen[-1]), (
                        x,
                        i,
                    )


def test_conditions_exclude_nans_and_infinities() -> None:
    """Inside of a guard the comparison says that neither side is a NaN; behind it nothing is known."""
    text = api.print(
        simplified(
            "i1",
            "%inside = scalar.cmpf olt, %x, %y : f32",
            "%r = scf.if %inside -> (i1) {",
            "  %nan = scalar.isnanf %x : f32",
            "  %more = scalar.cmpf oge, %x, %y : f32",
            "  %any = scalar.ori %nan, %more : i1",
            "  scf.yield %any : i1",
            "} else {",
            "  %nan = scalar.isnanf %x : f32",
            "  scf.yield %nan : i1",
            "}",
        )
    )
    assert text.count("isnanf") == 1
    assert text.count("cmpf") == 1


def test_negated_tests_and_conjunctions_guard() -> None:
    text = api.print(
        simplified(
            "i1",
            "%t = scalar.constant true : i1",
            "%nan = scalar.isnanf %x : f32",
            "%number = scalar.xori %nan, %t : i1",
            "%inf = scalar.isinff %x : f32",
            "%bounded = scalar.xori %inf, %t : i1",
            "%both = scalar.andi %number, %bounded : i1",
            "%r = scf.if %both -> (i1) {",
            "  %f = scalar.isfinitef %x : f32",
            "  scf.yield %f : i1",
            "} else {",
            "  %f = scalar.isfinitef %x : f32",
            "  scf.yield %f : i1",
            "}",
        )
    )
    assert text.count("isfinitef") == 1


def test_constants_that_break_a_promise_are_left_to_those_who_report_it() -> None:
    lines = ("%a = scalar.constant 3.0e38 : f32", "%r = scalar.addf<ninf> %a, %a : f32")
    module = simplified("f32", *lines)
    assert "addf<ninf>" in api.print(module)
    assert evaluated(parsed("f32", *lines), 0.0, 0.0, 0) is None
    assert evaluated(module, 0.0, 0.0, 0) is None
    assert "addf" not in api.print(simplified("f32", lines[0], "%r = scalar.addf %a, %a : f32"))


# -- agreement on random programs ------------------------------------------------------------------------------------

BINARY = ("addf", "subf", "mulf", "divf", "minimumf", "maximumf", "minnumf", "maxnumf")
UNARY = ("negf", "absf", "floorf", "ceilf", "truncf", "roundf", "roundevenf", "sqrtf", "expf", "signf")
TESTS = ("isnanf", "isinff", "isfinitef")
PREDICATES = ("oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno")
FLAGS = ("", "<nnan>", "<ninf>", "<nsz>", "<nnan|ninf>", "<nnan|ninf|nsz>")


@st.composite
def float_programs(draw: st.DrawFn) -> tuple[str, str, list[str]]:
    """Type, result type and lines: a few operations, then perhaps a guard around more of them and a test."""
    type_ = draw(st.sampled_from(sorted(NUMPY)))
    names = ["x", "y", "i1f"]
    lines = [f"%i1f = scalar.{draw(st.sampled_from(('sitofp', 'uitofp')))} %i : i16 to {type_}"]

    def operation(target: list[str], indent: str) -> str:
        name = f"v{draw(st.integers(0, 10**9))}_{len(lines)}_{len(target)}"
        pick = st.sampled_from(names)
        kind = draw(st.integers(0, 5))
        flags = draw(st.sampled_from(FLAGS))
        if kind == 0:
            line = f"scalar.constant {draw(st.sampled_from(('0.0', '-0.0', '1.0', '-2.5', '3.0e4', 'inf')))} : {type_}"
        elif kind == 1:
            op = draw(st.sampled_from(UNARY))
            line = f"scalar.{op}{flags if op != 'signf' else ''} %{draw(pick)} : {type_}"
        elif kind == 2:
            mode = draw(st.sampled_from(("ordered", "number", "ieee")))
            line = f"scalar.clampf<{mode}> %{draw(pick)}, %{draw(pick)}, %{draw(pick)} : {type_}"
        else:
            line = f"scalar.{draw(st.sampled_from(BINARY))}{flags} %{draw(pick)}, %{draw(pick)} : {type_}"
        target.append(f"{indent}%{name} = {line}")
        names.append(name)
        return name

    for _ in range(draw(st.integers(1, 5))):
        operation(lines, "")
    pick = st.sampled_from(names)
    if draw(st.booleans()):
        flag = draw(st.sampled_from(("", "<nnan>")))
        lines.append(
            f"%c = scalar.cmpf{flag} {draw(st.sampled_from(PREDICATES))}, %{draw(pick)}, %{draw(pick)} : {type_}"
        )
        lines.append(f"%g = scf.if %c -> ({type_}) {{")
        outer = list(names)
        for closing in ("} else {", "}"):
            names[:] = outer
            last = [operation(lines, "  ") for _ in range(draw(st.integers(1, 3)))][-1]
            lines += [f"  scf.yield %{last} : {type_}", closing]
        names[:] = [*outer, "g"]
    last = draw(st.sampled_from(names[-3:]))
    ending = draw(st.integers(0, 2))
    if ending == 0:
        lines.append(f"%r = scalar.{draw(st.sampled_from(TESTS))} %{last} : {type_}")
    elif ending == 1:
        lines.append(f"%r = scalar.cmpf {draw(st.sampled_from(PREDICATES))}, %{last}, %{draw(pick)} : {type_}")
    else:
        lines.append(f"%r = scalar.addf %{last}, %{draw(pick)} : {type_}")
    return type_, type_ if ending == 2 else "i1", lines


@given(float_programs(), st.sampled_from(EDGES), st.sampled_from(EDGES), st.sampled_from((0, 1, -1, 300, -32768)))
@settings(max_examples=250)
def test_random_programs_mean_the_same(program: tuple[str, str, list[str]], x: float, y: float, i: int) -> None:
    type_, result, lines = program
    before = parsed(result, *lines, type_=type_)
    wanted = evaluated(before, x, y, i, type_)
    if wanted is None:
        return  # A promise is broken: nothing is said of the result.
    if "nsz" not in "".join(lines):
        assert same(wanted, evaluated(simplified(result, *lines, type_=type_), x, y, i, type_), nsz=False)
    if result == type_:
        value = root_of(before).regions[0].entry.last.operands[0]  # type: ignore[union-attr]  # a body ends
        known = FunctionFacts(root_of(before)).floating(value)
        assert contains(known, wanted), known


def contains(known: FloatFacts, value: float) -> bool:
    if math.isnan(value):
        return known.nan
    if value == 0.0 and math.copysign(1, value) < 0 and not known.negative_zero:
        return False
    return known.lo <= value <= known.hi
