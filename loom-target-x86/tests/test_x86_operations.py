"""Every scalar and address operation with an x86 form agrees bit for bit with the numeric reference.

An operation becomes a function that maps arrays element by element, so one call compares it on all pairs of edge
values. Operands for which the language leaves the result undefined are left out. Any NaN stands for any other where
an operation computes one; operations that only move or change sign bits must keep payloads.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from x86_programs import INTEGER_RUNNER_IDS, INTEGER_RUNNERS, RUNNER_IDS, RUNNERS, Runner

from loom.evaluate.numeric import FORMATS, OPERATIONS, Overflow
from loom.evaluate.numeric.float_arithmetic import FLOAT_PREDICATES
from loom.evaluate.numeric.formats import Kind, from_bits, to_bits
from loom.evaluate.numeric.integers import INTEGER_PREDICATES

INTEGER_TYPES = ("i1", "i8", "i16", "i32", "i64")
FLOAT_TYPES = ("f32", "f64")

# -- values ---------------------------------------------------------------------------------------


def values(type_name: str, seed: int = 5, count: int = 10) -> np.ndarray[Any, Any]:
    """Edge values of a type, then random patterns."""
    format = FORMATS[type_name]
    rng = np.random.default_rng(seed)
    if type_name == "i1":
        return np.array([False, True])
    random = rng.integers(0, 1 << 64, count, np.uint64, endpoint=False)
    if format.kind is Kind.FLOAT:
        info = np.finfo(format.dtype)
        edges = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 0.1, 1e10, 16777217.0, 2.0**31, 2.0**63, info.max, info.tiny]
        edges += [float(info.smallest_subnormal), 0.49999997, 0.49999999999999994, 8388609.0, float("inf")]
        both = np.array([*edges, *(-x for x in edges)], format.dtype)
        nans = from_bits(
            format,
            np.array([0, 1], np.uint64) << np.uint64(format.bits - 1)
            | to_bits(format, np.array(np.nan, format.dtype)).astype(np.uint64)
            | np.uint64(5),
        )
        patterns = from_bits(format, (random & np.uint64((1 << format.bits) - 1)))
        return np.concatenate([both, nans, patterns])
    bits = format.bits
    edges = [
        0,
        1,
        2,
        3,
        7,
        bits - 1,
        (1 << (bits - 1)) - 1,
        1 << (bits - 1),
        (1 << (bits - 1)) + 1,
        (1 << bits) - 1,
        (1 << bits) - 2,
    ]
    whole = np.array(edges, np.uint64)
    patterns = np.concatenate([whole, random & np.uint64((1 << bits) - 1)])
    return patterns.astype(np.uint64).astype(f"u{bits // 8}").view(format.dtype)


def combinations(types: Sequence[str]) -> list[np.ndarray[Any, Any]]:
    """All combinations of values, an array per operand; fewer values for more operands."""
    counts = {1: 400, 2: 10, 3: 2}
    pools = [values(name, 5 + i, counts[len(types)]) for i, name in enumerate(types)]
    if len(types) == 3:
        pools = [pool[:14] if len(pool) > 14 else pool for pool in pools]
        pools = [np.concatenate([pool, values(name, 9, 4)[-4:]]) for pool, name in zip(pools, types, strict=True)]
    grids = np.meshgrid(*[np.arange(len(pool)) for pool in pools], indexing="ij")
    return [pool[grid.ravel()] for pool, grid in zip(pools, grids, strict=True)]


# -- programs -------------------------------------------------------------------------------------


class Case:
    """One operation on one list of types: its text, its reference, and how results compare."""

    def __init__(
        self,
        op: str,
        types: Sequence[str],
        result: str,
        text: str,
        exact: bool = False,
        **parameters: Any,
    ) -> None:
        self.op, self.types, self.result, self.text = op, tuple(types), result, text
        self.exact, self.parameters = exact, parameters

    @property
    def label(self) -> str:
        return f"{self.text} on {', '.join(self.types)}"

    def function(self, name: str) -> str:
        """A function that applies the operation to every element of its arrays."""
        letters = "abc"[: len(self.types)]
        parameters = "".join(f", %{x}s: view<[%n]x{t}>" for x, t in zip(letters, self.types, strict=True))
        loads = "".join(
            f"    %{x} = view.load %{x}s[%i] : view<[%n]x{t}> -> {t}\n"
            for x, t in zip(letters, self.types, strict=True)
        )
        return (
            f"func.def public noinline @{name}(%n: index{parameters}, %out: view<[%n]x{self.result}>) {{\n"
            "  %zero = index.constant 0 : index\n  %one = index.constant 1 : index\n"
            "  scf.for %i = [%zero to %n step %one] {\n"
            f"{loads}    %r = {self.text}\n"
            f"    view.store %r, %out[%i] : {self.result}, view<[%n]x{self.result}>\n  }}\n"
            "  func.return\n}\n"
        )

    def reference(
        self, operands: list[np.ndarray[Any, Any]]
    ) -> tuple[list[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
        """Operands with defined results, and those results."""
        formats = [FORMATS[name] for name in self.types]
        outcome = OPERATIONS[self.op].apply(operands, formats, FORMATS[self.result], **self.parameters)
        keep = np.ones(operands[0].shape, bool)
        for fault in outcome.faults:
            keep &= ~fault.mask
        return [operand[keep] for operand in operands], outcome.value[keep]

    def check(self, program: Any, name: str) -> None:
        operands, want = self.reference(combinations(self.types))
        assert len(want), self.label
        got = np.zeros(len(want), FORMATS[self.result].dtype)
        program.call(name, [len(want), *(np.ascontiguousarray(o) for o in operands), got])
        format = FORMATS[self.result]
        same = to_bits(format, got) == to_bits(format, want)
        if format.kind is Kind.FLOAT and not self.exact:
            same |= np.isnan(got) & np.isnan(want)
        bad = np.flatnonzero(~same)
        if bad.size:
            i = bad[0]
            given = ", ".join(repr(o[i]) for o in operands)
            pytest.fail(f"{self.label}: ({given}) gives {got[i]!r}, not {want[i]!r}; {bad.size} of {len(want)}")


def check_all(runner: Runner, cases: Sequence[Case]) -> None:
    text = "".join(case.function(f"f{number}") for number, case in enumerate(cases))
    program = runner.compile(text)
    for number, case in enumerate(cases):
        case.check(program, f"f{number}")


def same_type(dialect: str, op: str, type_name: str, arity: int, **options: Any) -> Case:
    names = ", ".join(f"%{x}" for x in "abc"[:arity])
    return Case(op, [type_name] * arity, type_name, f"{dialect}.{op} {names} : {type_name}", **options)


def integer_cases(type_name: str) -> list[Case]:
    binary = ["addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi", "minsi", "maxsi", "minui", "maxui", "andi", "ori", "xori", "shli", "shrsi", "shrui", "rotli", "rotri"]
    unary = ["negi", "absi", "signi", "ctlzi", "cttzi", "ctpopi"]
    cases = [same_type("scalar", op, type_name, 2) for op in binary]
    cases += [same_type("scalar", op, type_name, 1) for op in unary]
    cases.append(same_type("scalar", "fmai", type_name, 3))
    for predicate in INTEGER_PREDICATES:
        text = f"scalar.cmpi {predicate}, %a, %b : {type_name}"
        cases.append(Case("cmpi", [type_name] * 2, "i1", text, predicate=predicate))
    return cases


@pytest.mark.parametrize("type_name", INTEGER_TYPES)
@pytest.mark.parametrize("runner", INTEGER_RUNNERS, ids=INTEGER_RUNNER_IDS, indirect=True)
def test_integer_operations(runner: Runner, type_name: str) -> None:
    check_all(runner, integer_cases(type_name))


@pytest.mark.parametrize("type_name", INTEGER_TYPES)
@pytest.mark.parametrize("runner", RUNNERS[:1], ids=RUNNER_IDS[:1], indirect=True)
def test_integer_operations_with_a_constant(runner: Runner, type_name: str) -> None:
    """Constants become immediates, shifts and other special forms; on either side."""
    format = FORMATS[type_name]
    constants = [0, 1] if type_name == "i1" else [0, 1, 3, 4, -1, format.maximum, format.minimum]
    text = ""
    checks: list[tuple[str, Case, int, bool]] = []
    for (
        op
    ) in ["addi", "subi", "muli", "divsi", "remsi", "divui", "remui", "floordivsi", "minsi", "maxui", "andi", "ori", "xori", "shli", "shrsi", "shrui", "rotli"]:
        for constant, right in itertools.product(constants, (False, True)):
            name = f"f{len(checks)}"
            spelled = ("false", "true")[constant] if type_name == "i1" else str(constant)
            case = same_type("scalar", op, type_name, 2)
            function = case.function(name).replace(
                f"view.load %{'b' if right else 'a'}s[%i] : view<[%n]x{type_name}> -> {type_name}",
                f"scalar.constant {spelled} : {type_name}",
            )
            text += function
            checks.append((name, case, constant, right))
    program = runner.compile(text)
    pool = values(type_name, count=40)
    for name, case, constant, right in checks:
        fixed = np.full(len(pool), constant, format.dtype)
        operands, want = case.reference([pool, fixed] if right else [fixed, pool])
        if not len(want):
            continue
        got = np.zeros(len(want), format.dtype)
        program.call(name, [len(want), *(np.ascontiguousarray(o) for o in operands), got])
        np.testing.assert_array_equal(got, want, f"{case.op} with {constant} on the {'right' if right else 'left'}")


def address_cases() -> list[Case]:
    cases = [
        same_type("index", op, "index", 2)
        for op in ["add", "sub", "mul", "div", "rem", "min", "max", "andi", "ori", "xori", "shli", "shrsi", "shrui", "rotli", "rotri"]
    ]
    cases += [same_type("index", op, "offset", 2) for op in ("add", "sub")]
    cases += [same_type("index", op, "index", 1) for op in ("ctlzi", "cttzi", "ctpopi")]
    cases.append(same_type("index", "madd", "index", 3))
    cases.append(Case("scale", ["index", "offset"], "offset", "index.scale %a, %b : index, offset -> offset"))
    for predicate in INTEGER_PREDICATES:
        for type_name in ("index", "offset"):
            text = f"index.cmp {predicate}, %a, %b : {type_name}"
            cases.append(Case("cmp", [type_name] * 2, "i1", text, predicate=predicate))
    pairs = [(a, b) for a in (*INTEGER_TYPES, "index", "offset") for b in (*INTEGER_TYPES, "index", "offset")]
    for a, b in pairs:
        if a != b and {a, b} & {"index", "offset"}:
            cases.append(Case("cast", [a], b, f"index.cast %a : {a} to {b}"))
    return cases


@pytest.mark.parametrize("runner", INTEGER_RUNNERS, ids=INTEGER_RUNNER_IDS, indirect=True)
def test_address_operations(runner: Runner) -> None:
    check_all(runner, address_cases())


EXACT = frozenset({"negf", "absf", "copysignf"})


def float_cases(type_name: str) -> list[Case]:
    binary = ["addf", "subf", "mulf", "divf", "remf", "minimumf", "maximumf", "minnumf", "maxnumf", "copysignf"]
    unary = ["negf", "absf", "sqrtf", "rsqrtf", "ceilf", "floorf", "truncf", "roundf", "roundevenf", "signf"]
    cases = [same_type("scalar", op, type_name, 2, exact=op in EXACT) for op in binary]
    cases += [same_type("scalar", op, type_name, 1, exact=op in EXACT) for op in unary]
    cases.append(same_type("scalar", "fmaf", type_name, 3))
    for mode in ("ordered", "number", "ieee"):
        text = f"scalar.clampf<{mode}> %a, %b, %c : {type_name}"
        cases.append(Case("clampf", [type_name] * 3, type_name, text, mode=mode))
    for predicate in FLOAT_PREDICATES:
        text = f"scalar.cmpf {predicate}, %a, %b : {type_name}"
        cases.append(Case("cmpf", [type_name] * 2, "i1", text, predicate=predicate))
    for test in ("isnanf", "isinff", "isfinitef"):
        cases.append(Case(test, [type_name], "i1", f"scalar.{test} %a : {type_name}"))
    return cases


@pytest.mark.parametrize("type_name", FLOAT_TYPES)
@pytest.mark.parametrize("runner", RUNNERS, ids=RUNNER_IDS, indirect=True)
def test_float_operations(runner: Runner, type_name: str) -> None:
    check_all(runner, float_cases(type_name))


def conversion_cases() -> list[Case]:
    cases = []

    def add(op: str, a: str, b: str, **options: Any) -> None:
        cases.append(Case(op, [a], b, f"scalar.{op} %a : {a} to {b}", **options))

    for integer, real in itertools.product(INTEGER_TYPES, FLOAT_TYPES):
        add("sitofp", integer, real)
        add("uitofp", integer, real)
        add("fptosi", real, integer)
        add("fptoui", real, integer)
    for a, b in itertools.combinations(INTEGER_TYPES, 2):
        add("extsi", a, b)
        add("extui", a, b)
        add("trunci", b, a)
    add("extf", "f32", "f64", exact=True)
    add("fptrunc", "f64", "f32", exact=True)
    for a, b in (("i32", "f32"), ("f32", "i32"), ("i64", "f64"), ("f64", "i64"), ("i16", "i16"), ("f32", "f32")):
        add("bitcast", a, b, exact=True)
    for source, result in itertools.product(INTEGER_TYPES, INTEGER_TYPES):
        bits, wide = FORMATS[source].bits, FORMATS[result].bits
        for offset, width in ((0, 1), (0, bits), (bits // 2, bits - bits // 2), (bits // 4, bits // 4), (bits - 1, 1)):
            if width and width <= wide and offset + width <= bits:
                for op in ("bitfield.extractu", "bitfield.extracts"):
                    text = f"scalar.{op} %a {{offset = {offset}, width = {width}}} : {source} -> {result}"
                    cases.append(Case(op, [source], result, text, offset=offset, width=width))
    return cases


@pytest.mark.parametrize("runner", RUNNERS, ids=RUNNER_IDS, indirect=True)
def test_conversions(runner: Runner) -> None:
    check_all(runner, conversion_cases())


@pytest.mark.parametrize("runner", RUNNERS[:2], ids=RUNNER_IDS[:2], indirect=True)
@pytest.mark.parametrize("type_name", FLOAT_TYPES)
def test_flags_permit_and_never_oblige(runner: Runner, type_name: str) -> None:
    """Under flags that promise no NaN the results for other values stay the same."""
    cases = [
        Case(op, [type_name] * 2, type_name, f"scalar.{op}<fast> %a, %b : {type_name}")
        for op in ("minnumf", "maxnumf", "minimumf", "maximumf")
    ]
    program = runner.compile("".join(case.function(f"f{i}") for i, case in enumerate(cases)))
    pool = values(type_name)
    pool = pool[~np.isnan(pool)]
    a, b = (grid.ravel() for grid in np.meshgrid(pool, pool))
    for number, case in enumerate(cases):
        got = np.zeros(len(a), a.dtype)
        program.call(f"f{number}", [len(a), a.copy(), b.copy(), got])
        np.testing.assert_array_equal(got.view(np.uint8), case.reference([a, b])[1].view(np.uint8), case.op)


@pytest.mark.parametrize("type_name", ["i8", "i32", "i64"])
@pytest.mark.parametrize("runner", RUNNERS[:1], ids=RUNNER_IDS[:1], indirect=True)
def test_overflow_flags_change_nothing_that_is_defined(runner: Runner, type_name: str) -> None:
    flags = Overflow.NSW | Overflow.NUW
    cases = [
        Case(op, [type_name] * 2, type_name, f"scalar.{op}<nsw|nuw> %a, %b : {type_name}", flags=flags)
        for op in ("addi", "subi", "muli", "shli")
    ]
    check_all(runner, cases)
