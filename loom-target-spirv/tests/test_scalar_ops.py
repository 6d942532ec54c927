"""Every operation of `scalar` and `index` that has a SPIR-V form, bit for bit against the numeric definitions.

Lanes that the definitions call undefined are left out of the comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from loom.evaluate.numeric import FORMATS, OPERATIONS, Outcome
from loom_target_spirv.select.conversions import CONVERSION_RULES
from loom_target_spirv.select.floats import FLOAT_RULES
from loom_target_spirv.select.index import INDEX_RULES
from loom_target_spirv.select.integers import COMPARISONS, INTEGER_RULES, TRUTH_RULES

Array = npt.NDArray[Any]
Evaluate = Callable[..., list[Array]]
Case = tuple[str, str, str, dict[str, Any]]
"""Name of the numeric definition, source text, result type, parameters of the definition."""

INTEGER_TYPES = ("i8", "i16", "i32", "i64")
FLOAT_TYPES = ("f16", "f32", "f64")
FLOAT_PREDICATES = (
    "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno",
)  # fmt: skip


def integer_operands(type_: str, arity: int) -> list[Array]:
    """All tuples of edge values, and random ones; small amounts for shifts are among them."""
    if type_ == "i1":
        columns = np.meshgrid(*[np.array([False, True])] * arity)
        return [np.ascontiguousarray(column.ravel()) for column in columns]
    width = int(type_[1:])
    edges = [0, 1, 2, 3, 5, 7, width - 1, -1, -2, -7, (1 << (width - 1)) - 1, -(1 << (width - 1))]
    edges += [1 << (width - 2), 0x55 if width == 8 else 0x5A5A]
    columns = np.meshgrid(*[np.array(edges, f"i{width // 8}")] * arity)
    rng = np.random.default_rng(width)
    low, high = -(1 << (width - 1)), 1 << (width - 1)
    return [np.concatenate([column.ravel(), rng.integers(low, high, 400, f"i{width // 8}")]) for column in columns]


def special_floats(type_: str) -> Array:
    """Zeros, units, halves, infinities, NaN, the ends of the format, and numbers on both sides of them."""
    info = np.finfo(f"f{int(type_[1:]) // 8}")
    positive = [
        0.0, 1.0, 0.5, 1.5, 2.5, 3.5, 0.49999997, 2.0, 3.0, 7.25, 1000.75, float(info.max), float(info.tiny),
        float(info.smallest_subnormal), float(info.tiny) * 0.75, float(info.eps), 1.0 + float(info.eps),
        2.0 ** (info.nmant - 1) + 0.5, 2.0**info.nmant + 1, np.inf, np.nan,
    ]  # fmt: skip
    return np.array([*positive, *(-x for x in positive)], info.dtype)


def float_operands(type_: str, arity: int) -> list[Array]:
    """Random patterns, numbers of like magnitude, and pairs of special values."""
    width = int(type_[1:])
    rng = np.random.default_rng(width)
    special = special_floats(type_)
    columns = [column.ravel() for column in np.meshgrid(*[special] * min(arity, 2))]
    if arity == 3:
        columns.append(rng.choice(special, columns[0].size))
    result = []
    for column in columns:
        patterns = rng.integers(0, 1 << 16, (1500, width // 16), dtype=np.uint16).view(special.dtype).ravel()
        like = rng.standard_normal(1500).astype(special.dtype)
        result.append(np.concatenate([column, patterns, like]))
    return result


def assert_agrees(got: Array, want: Outcome, what: str, operands: Sequence[Array]) -> None:
    """Equal bits wherever the result is defined; one NaN is as good as another."""
    defined = np.ones(got.shape, bool)
    for fault in want.faults:
        defined &= ~fault.mask
    expected = want.value
    assert got.dtype == expected.dtype
    assert defined.any(), f"{what}: no operand has a defined result"
    unsigned = f"u{got.dtype.itemsize}"
    same = got.view(unsigned) == expected.view(unsigned)
    if got.dtype.kind == "f":
        same |= np.isnan(got) & np.isnan(expected)
    wrong = np.nonzero(~same & defined)[0]
    if wrong.size:
        first = wrong[0]
        given = [operand[first] for operand in operands]
        raise AssertionError(
            f"{what}: {wrong.size} of {defined.sum()} differ, first at {given!r}: "
            f"{got[first]!r} for {expected[first]!r}"
        )


def check(evaluate: Evaluate, cases: Sequence[Case], type_: str, arrays: list[Array]) -> None:
    """Run cases over the same operands and compare each."""
    outputs = evaluate([(text, result) for _, text, result, _ in cases], type_, arrays)
    failures = []
    for (name, text, result, parameters), got in zip(cases, outputs, strict=True):
        operation = OPERATIONS[name]
        operands = arrays[: operation.arity]
        want = operation.apply(operands, FORMATS[type_], FORMATS[result], **parameters)
        try:
            assert_agrees(got, want, text, operands)
        except AssertionError as failure:
            failures.append(str(failure))
    assert not failures, "\n".join(failures)


NAMES = ("%a", "%b", "%c")


def plain(dialect: str, name: str, type_: str) -> Case:
    """The case of an operation whose text lists its operands and one type."""
    operands = ", ".join(NAMES[: OPERATIONS[name].arity])
    return name, f"{dialect}.{name} {operands} : {type_}", type_, {}


@pytest.mark.parametrize("type_", ["i1", *INTEGER_TYPES])
def test_integer_arithmetic(evaluate: Evaluate, type_: str) -> None:
    """All integer operations at the edges of each type."""
    table = TRUTH_RULES if type_ == "i1" else INTEGER_RULES
    assert table.keys() == INTEGER_RULES.keys()
    for arity in (1, 2, 3):
        cases = [plain("scalar", name, type_) for name in table if OPERATIONS[name].arity == arity]
        check(evaluate, cases, type_, integer_operands(type_, arity))


@pytest.mark.parametrize("type_", ["i1", *INTEGER_TYPES])
def test_integer_comparison(evaluate: Evaluate, type_: str) -> None:
    """All predicates; a signed true is -1."""
    cases = [
        ("cmpi", f"scalar.cmpi {predicate}, %a, %b : {type_}", "i1", {"predicate": predicate})
        for predicate in COMPARISONS
    ]
    check(evaluate, cases, type_, integer_operands(type_, 2))


@pytest.mark.parametrize("type_", FLOAT_TYPES)
def test_float_arithmetic(evaluate: Evaluate, type_: str) -> None:
    """All float operations: one rounding, signs of zero, NaN rules, subnormals."""
    special = {"clampf", "cmpf", "isnanf", "isinff", "isfinitef"}
    for arity in (1, 2, 3):
        names = [n for n in FLOAT_RULES if n not in special and OPERATIONS[n].arity == arity]
        cases = [plain("scalar", name, type_) for name in names]
        if arity == 3:
            cases += [
                ("clampf", f"scalar.clampf<{mode}> %a, %b, %c : {type_}", type_, {"mode": mode})
                for mode in ("ordered", "number", "ieee")
            ]
        check(evaluate, cases, type_, float_operands(type_, arity))


@pytest.mark.parametrize("type_", FLOAT_TYPES)
def test_float_comparison_and_tests(evaluate: Evaluate, type_: str) -> None:
    """All predicates with NaN, infinities and both zeros, and the questions about one float."""
    cases: list[Case] = [
        ("cmpf", f"scalar.cmpf {predicate}, %a, %b : {type_}", "i1", {"predicate": predicate})
        for predicate in FLOAT_PREDICATES
    ]
    cases += [(name, f"scalar.{name} %a : {type_}", "i1", {}) for name in ("isnanf", "isinff", "isfinitef")]
    check(evaluate, cases, type_, float_operands(type_, 2))


@pytest.mark.parametrize("type_", FLOAT_TYPES)
@pytest.mark.parametrize("constant", ["0.0", "-0.0", "1.0", "-1.0", "2.0", "0.5", "inf", "nan"])
def test_float_arithmetic_with_a_constant(evaluate: Evaluate, type_: str, constant: str) -> None:
    """A constant operand on either side gives what a variable one does, whatever drivers simplify."""
    (x,) = float_operands(type_, 1)
    k = np.full(x.shape, float(constant), x.dtype)
    sides = {"%a, %k": (x, k), "%k, %a": (k, x)}
    names = ("addf", "subf", "mulf", "divf", "minimumf", "maxnumf", "copysignf", "remf")
    cases = [(name, side) for name in names for side in sides]
    uses = [(f"scalar.{name} {side} : {type_}", type_) for name, side in cases]
    outputs = evaluate(uses, type_, [x], f"%k = scalar.constant {constant} : {type_}")
    for (name, side), (text, _), got in zip(cases, uses, outputs, strict=True):
        assert_agrees(got, OPERATIONS[name].apply(sides[side], FORMATS[type_]), text, sides[side])


@pytest.mark.parametrize("type_", FLOAT_TYPES)
def test_float_arithmetic_of_a_value_with_itself(evaluate: Evaluate, type_: str) -> None:
    """x - x is NaN for an infinity, and x / x for a zero."""
    (x,) = float_operands(type_, 1)
    names = ("addf", "subf", "mulf", "divf", "remf", "minimumf", "maximumf", "minnumf", "maxnumf")
    uses = [(f"scalar.{name} %a, %a : {type_}", type_) for name in names]
    for (text, _), name, got in zip(uses, names, evaluate(uses, type_, [x]), strict=True):
        assert_agrees(got, OPERATIONS[name].apply((x, x), FORMATS[type_]), text, [x])


@pytest.mark.parametrize("source", ["i1", *INTEGER_TYPES])
def test_integer_conversions(evaluate: Evaluate, source: str) -> None:
    """Extensions, truncations, integers to floats, and bit fields."""
    width = int(source[1:])
    (x,) = integer_operands(source, 1)
    if width == 64:
        # Beside the ties of the narrower floats, where rounding twice shows.
        rng = np.random.default_rng(3)
        ties = (1 << rng.integers(24, 62, 300)) + (1 << rng.integers(0, 38, 300))
        x = np.concatenate([x, ties, ties + 1, ties - 1, -ties])
    cases: list[Case] = []
    for target in ("i1", *INTEGER_TYPES):
        if int(target[1:]) > width:
            cases += [(n, f"scalar.{n} %a : {source} to {target}", target, {}) for n in ("extsi", "extui")]
        elif int(target[1:]) < width:
            cases.append(("trunci", f"scalar.trunci %a : {source} to {target}", target, {}))
        for offset, bits in {(0, 1), (0, width), (width // 2, 1), (width // 4, width // 2), (width - 1, 1)}:
            if 0 < bits <= int(target[1:]):
                parameters = {"offset": offset, "width": bits}
                text = f"%a {{offset = {offset}, width = {bits}}} : {source} -> {target}"
                for name in ("bitfield.extractu", "bitfield.extracts"):
                    cases.append((name, f"scalar.{name} {text}", target, parameters))
    for target in FLOAT_TYPES:
        cases += [(n, f"scalar.{n} %a : {source} to {target}", target, {}) for n in ("sitofp", "uitofp")]
        if int(target[1:]) == width:
            cases.append(("bitcast", f"scalar.bitcast %a : {source} to {target}", target, {}))
    check(evaluate, cases, source, [x])


@pytest.mark.parametrize("source", FLOAT_TYPES)
def test_float_conversions(evaluate: Evaluate, source: str) -> None:
    """Widening, narrowing with one rounding, and truncation to integers wherever the value fits."""
    width = int(source[1:])
    (x,) = float_operands(source, 1)
    with np.errstate(all="ignore"):
        edges = np.array([2.0**e + d for e in range(64) for d in (-1, -0.5, 0, 0.75)]).astype(x.dtype)
    x = np.concatenate([x, edges, -edges])
    cases: list[Case] = []
    for target in FLOAT_TYPES:
        name = "extf" if int(target[1:]) > width else "fptrunc"
        if int(target[1:]) != width:
            cases.append((name, f"scalar.{name} %a : {source} to {target}", target, {}))
    for target in ("i1", *INTEGER_TYPES):
        cases += [(n, f"scalar.{n} %a : {source} to {target}", target, {}) for n in ("fptosi", "fptoui")]
        if int(target[1:]) == width:
            cases.append(("bitcast", f"scalar.bitcast %a : {source} to {target}", target, {}))
    tested = {name for name, *_ in cases}
    assert tested <= CONVERSION_RULES.keys()
    check(evaluate, cases, source, [x])


INDEX_EDGES = [0, 1, 2, 3, 5, 31, 32, 33, 63, 64, 100, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 5, 1 << 40]
NARROW_EDGES = [v for v in INDEX_EDGES if v < 1 << 32]


def index_operands(values: Sequence[int], arity: int) -> list[Array]:
    """All tuples of values."""
    columns = np.meshgrid(*[np.array(values, np.int64)] * arity)
    return [np.ascontiguousarray(column.ravel()) for column in columns]


@pytest.mark.parametrize("narrow", [False, True])
def test_index_arithmetic(evaluate: Evaluate, narrow: bool) -> None:
    """All index operations, on unknown values and on values known to fit 32 bits."""
    special = {"cast", "constant", "cmp", "scale"}
    names = [n for n in (key.partition(".")[2] for key in INDEX_RULES) if n not in special]
    for arity in (1, 2, 3):
        values = NARROW_EDGES if narrow else [*INDEX_EDGES, -1, -2, -64, -(1 << 40), (1 << 63) - 1]
        arrays = index_operands(values[:: 1 if arity < 3 else 2], arity)
        cases = [plain("index", name, "index") for name in names if OPERATIONS[name].arity == arity]
        cases += [
            ("cmp", f"index.cmp {predicate}, %a, %b : index", "i1", {"predicate": predicate})
            for predicate in (COMPARISONS if arity == 2 else ())
        ]
        known = NAMES[:arity] if narrow else ()
        before = "\n    ".join(
            f"{name}n = index.assume {name} [range({name}, 0, {(1 << 32) - 1})] : index" for name in known
        )
        for name in known:
            cases = [(n, text.replace(name, name + "n"), result, p) for n, text, result, p in cases]
        check_with(evaluate, cases, "index", arrays, before)


def check_with(evaluate: Evaluate, cases: Sequence[Case], type_: str, arrays: list[Array], before: str) -> None:
    """`check` with source text before the operations."""
    check(lambda uses, kind, operands: evaluate(uses, kind, operands, before), cases, type_, arrays)


def test_index_casts_and_scale(evaluate: Evaluate) -> None:
    """Between integers, indices and offsets; a count times a stride."""
    for source in ("i1", *INTEGER_TYPES):
        (x,) = integer_operands(source, 1)
        cases: list[Case] = [("cast", f"index.cast %a : {source} to {t}", t, {}) for t in ("index", "offset")]
        check(evaluate, cases, source, [x])
    (x,) = index_operands([*INDEX_EDGES, -1, -(1 << 35)], 1)
    cases = [("cast", f"index.cast %a : index to {t}", t, {}) for t in ("i1", *INTEGER_TYPES, "offset", "index")]
    check(evaluate, cases, "index", [x])
    counts, strides = index_operands([v for v in INDEX_EDGES if v < 1 << 31], 2)
    (got,) = evaluate(
        [("index.scale %a, %b : index, offset -> offset", "offset")], ("index", "offset"), [counts, strides]
    )
    want = OPERATIONS["scale"].apply((counts, strides), (FORMATS["index"], FORMATS["offset"]))
    assert_agrees(got, want, "index.scale", [counts, strides])
