"""Scalar arithmetic agrees with the reference evaluator on edge values, on every processor family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import TARGETS, agree, elementwise

INTEGERS: dict[str, type[np.signedinteger[Any]]] = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
FLOATS: dict[str, type[np.floating[Any]]] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def edges(dtype: type[np.signedinteger[Any]]) -> np.ndarray:
    """Zero, one, extremes, powers of two and their neighbours, and some noise."""
    info = np.iinfo(dtype)
    values = {0, 1, 2, 3, 5, 7, 10, 63, 64, 65, 100, info.max, info.max - 1, info.min, info.min + 1, -1, -2, -7, -10}
    for bit in range(info.bits - 1):
        values |= {(1 << bit), (1 << bit) - 1, -(1 << bit), (1 << bit) + 1}
    kept = sorted(v for v in values if info.min <= v <= info.max)
    noise = np.random.default_rng(5).integers(info.min, info.max, 40, dtype=dtype, endpoint=True)
    return np.concatenate([np.array(kept, dtype), noise])


def pairs(values: np.ndarray, limit: int = 6000) -> tuple[np.ndarray, np.ndarray]:
    a, b = (m.ravel() for m in np.meshgrid(values, values))
    if a.size > limit:
        chosen = np.random.default_rng(6).choice(a.size, limit, replace=False)
        a, b = a[chosen], b[chosen]
    return a.copy(), b.copy()


def float_edges(dtype: type[np.floating[Any]]) -> np.ndarray:
    info = np.finfo(dtype)
    values = [0.0, 1.0, 0.5, 1.5, 2.0, 2.5, 3.0, 1 / 3, 10.0, 0.1, info.max, info.tiny, float(info.smallest_subnormal), info.eps,
              1 + info.eps, info.max / 2, info.tiny / 2, np.inf, np.nan]  # fmt: skip
    base = np.array(values, dtype)
    rng = np.random.default_rng(7)
    with np.errstate(all="ignore"):
        noise = (rng.standard_normal(60) * 2.0 ** rng.integers(-12, 12, 60)).astype(dtype)
    return np.concatenate([base, -base, noise])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", INTEGERS)
@pytest.mark.parametrize(
    "name", ["addi", "subi", "muli", "andi", "ori", "xori", "minsi", "maxsi", "minui", "maxui", "rotli", "rotri"]
)
def test_integer_binary(name: str, type_: str, target: str) -> None:
    a, b = pairs(edges(INTEGERS[type_]), 2000)
    text = elementwise(f"    %r = scalar.{name} %x0, %x1 : {type_}", [type_, type_], type_)
    agree(text, target, [a.size], [a.size, a, b, np.zeros_like(a)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", INTEGERS)
@pytest.mark.parametrize("name", ["shli", "shrsi", "shrui"])
def test_shifts(name: str, type_: str, target: str) -> None:
    dtype = INTEGERS[type_]
    a = np.repeat(edges(dtype), np.iinfo(dtype).bits)
    b = np.tile(np.arange(np.iinfo(dtype).bits, dtype=dtype), edges(dtype).size)
    text = elementwise(f"    %r = scalar.{name} %x0, %x1 : {type_}", [type_, type_], type_)
    agree(text, target, [a.size], [a.size, a, b, np.zeros_like(a)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", INTEGERS)
@pytest.mark.parametrize("name", ["divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi"])
def test_division(name: str, type_: str, target: str) -> None:
    dtype = INTEGERS[type_]
    a, b = pairs(edges(dtype))
    keep = b != 0
    if name in ("divsi", "remsi", "ceildivsi", "floordivsi"):
        keep &= ~((a == np.iinfo(dtype).min) & (b == -1))
    a, b = a[keep], b[keep]
    text = elementwise(f"    %r = scalar.{name} %x0, %x1 : {type_}", [type_, type_], type_)
    agree(text, target, [a.size], [a.size, a, b, np.zeros_like(a)])


@pytest.mark.parametrize(
    "divisor",
    [1, 2, 3, 5, 6, 7, 9, 10, 12, 14, 25, 28, 100, 125, 127, 641, 1000, 6700417, 2147483647, -2147483648, -1, -3, -10],
)
def test_division_by_constants(divisor: int) -> None:
    values = edges(np.int32)
    values = np.concatenate([values, np.random.default_rng(1).integers(-(2**31), 2**31, 400, dtype=np.int32)])
    if divisor == -1:
        values = values[values != -(2**31)]
    for name in ("divui", "remui", "divsi", "remsi"):
        body = f"    %d = scalar.constant {divisor} : i32\n    %r = scalar.{name} %x0, %d : i32"
        agree(
            elementwise(body, ["i32"], "i32"), TARGETS[0], [values.size], [values.size, values, np.zeros_like(values)]
        )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", INTEGERS)
@pytest.mark.parametrize("name", ["negi", "absi", "signi", "ctlzi", "cttzi", "ctpopi"])
def test_integer_unary(name: str, type_: str, target: str) -> None:
    a = edges(INTEGERS[type_])
    text = elementwise(f"    %r = scalar.{name} %x0 : {type_}", [type_], type_)
    agree(text, target, [a.size], [a.size, a, np.zeros_like(a)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", INTEGERS)
def test_integer_comparisons(type_: str, target: str) -> None:
    a, b = pairs(edges(INTEGERS[type_]), 1500)
    lines = []
    for k, predicate in enumerate(("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")):
        lines += [
            f"    %c{k} = scalar.cmpi {predicate}, %x0, %x1 : {type_}",
            f"    %b{k} = scalar.constant {1 << k} : i32",
            f"    %s{k} = scf.select %c{k}, %b{k}, %zero : i32",
            f"    %t{k} = scalar.ori %{'zero' if k == 0 else f't{k - 1}'}, %s{k} : i32",
        ]
    body = "\n".join(["    %zero = scalar.constant 0 : i32", *lines, "    %r = scalar.addi %t9, %zero : i32"])
    agree(elementwise(body, [type_, type_], "i32"), target, [a.size], [a.size, a, b, np.zeros(a.size, np.int32)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "destination"), [(a, b) for a in INTEGERS for b in INTEGERS if a != b])
def test_integer_conversions(source: str, destination: str, target: str) -> None:
    a = edges(INTEGERS[source])
    names = ["trunci"] if int(source[1:]) > int(destination[1:]) else ["extsi", "extui"]
    for name in names:
        text = elementwise(f"    %r = scalar.{name} %x0 : {source} to {destination}", [source], destination)
        agree(text, target, [a.size], [a.size, a, np.zeros(a.size, INTEGERS[destination])])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", FLOATS)
@pytest.mark.parametrize(
    "name", ["addf", "subf", "mulf", "divf", "minimumf", "maximumf", "minnumf", "maxnumf", "copysignf"]
)
def test_float_binary(name: str, type_: str, target: str) -> None:
    a, b = pairs(float_edges(FLOATS[type_]))
    text = elementwise(f"    %r = scalar.{name} %x0, %x1 : {type_}", [type_, type_], type_)
    agree(text, target, [a.size], [a.size, a, b, np.zeros_like(a)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", FLOATS)
def test_fused_multiply_add(type_: str, target: str) -> None:
    a, b = pairs(float_edges(FLOATS[type_]), 3000)
    c = np.random.default_rng(3).permutation(b)
    text = elementwise(f"    %r = scalar.fmaf %x0, %x1, %x2 : {type_}", [type_] * 3, type_)
    agree(text, target, [a.size], [a.size, a, b, c, np.zeros_like(a)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("name", "type_"),
    [(n, t) for n in ("negf", "absf", "floorf", "ceilf", "truncf", "roundevenf") for t in FLOATS]
    + [(n, t) for n in ("roundf", "signf", "sqrtf") for t in FLOATS],
)
def test_float_unary(name: str, type_: str, target: str) -> None:
    a = float_edges(FLOATS[type_])
    ties = (np.arange(-40, 40) / 4).astype(a.dtype)
    more = np.abs(np.random.default_rng(9).standard_normal(3000)).astype(a.dtype)
    a = np.concatenate([a, ties, more])
    text = elementwise(f"    %r = scalar.{name} %x0 : {type_}", [type_], type_)
    agree(text, target, [a.size], [a.size, a, np.zeros_like(a)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", FLOATS)
def test_float_comparisons_and_classes(type_: str, target: str) -> None:
    a, b = pairs(float_edges(FLOATS[type_]), 2500)
    predicates = ("oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno")
    tests = [f"scalar.cmpf {p}, %x0, %x1 : {type_}" for p in predicates]
    tests += [f"scalar.{t} %x0 : {type_}" for t in ("isnanf", "isinff", "isfinitef")]
    lines = ["    %zero = scalar.constant 0 : i32"]
    for k, test in enumerate(tests):
        lines += [
            f"    %c{k} = {test}", f"    %b{k} = scalar.constant {1 << k} : i32", f"    %s{k} = scf.select %c{k}, %b{k}, %zero : i32",
            f"    %t{k} = scalar.ori %{'zero' if k == 0 else f't{k - 1}'}, %s{k} : i32",
        ]  # fmt: skip
    lines.append(f"    %r = scalar.addi %t{len(tests) - 1}, %zero : i32")
    agree(
        elementwise("\n".join(lines), [type_, type_], "i32"),
        target,
        [a.size],
        [a.size, a, b, np.zeros(a.size, np.int32)],
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("source", "destination"), [("f16", "f32"), ("f16", "f64"), ("f32", "f64"), ("f64", "f32"), ("f32", "f16")]
)
def test_float_conversions(source: str, destination: str, target: str) -> None:
    a = float_edges(FLOATS[source])
    name = "extf" if int(source[1:]) < int(destination[1:]) else "fptrunc"
    text = elementwise(f"    %r = scalar.{name} %x0 : {source} to {destination}", [source], destination)
    agree(text, target, [a.size], [a.size, a, np.zeros(a.size, FLOATS[destination])])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("name", "source", "destination"),
    [
        (n, s, d)
        for n in ("sitofp", "uitofp")
        for s, d in (("i32", "f32"), ("i32", "f64"), ("i16", "f16"), ("i8", "f32"), ("i8", "f16"))
    ],
)
def test_integer_to_float(name: str, source: str, destination: str, target: str) -> None:
    a = edges(INTEGERS[source])
    text = elementwise(f"    %r = scalar.{name} %x0 : {source} to {destination}", [source], destination)
    agree(text, target, [a.size], [a.size, a, np.zeros(a.size, FLOATS[destination])])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", FLOATS)
def test_float_to_integer(source: str, target: str) -> None:
    a = np.array([0, 0.5, 0.99, 1, 1.5, 100.7, 127.9, 3.999, 60000.0], FLOATS[source])
    for name, values in (("fptosi", np.concatenate([a, -a])), ("fptoui", a)):
        text = elementwise(f"    %r = scalar.{name} %x0 : {source} to i32", [source], "i32")
        agree(text, target, [values.size], [values.size, values, np.zeros(values.size, np.int32)])
