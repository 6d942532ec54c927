"""Integer, bit and address operations against Python's unbounded integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom.evaluate.numeric import FORMATS, OPERATIONS, FaultKind, Overflow, ScalarFormat
from loom.evaluate.numeric.formats import Array

WIDTHS = ("i1", "i8", "i16", "i32", "i64")


def stored(format: ScalarFormat, values: Any) -> Array:
    """Signed or unsigned Python integers as stored lanes of the format."""
    wrapped = [as_signed(int(v), format.bits) for v in values]
    return np.asarray([v != 0 for v in wrapped] if format.bits == 1 else wrapped, dtype=format.dtype)


def as_signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def numbers(format: ScalarFormat, array: Array) -> list[int]:
    return [as_signed(int(v), format.bits) for v in array.ravel()]


def edges(format: ScalarFormat) -> list[int]:
    bits = format.bits
    candidates = {0, 1, 2, 3, 5, 7, -1, -2, -3, -7, bits - 1, bits, bits + 1, 1 << (bits // 2)}
    candidates |= {1 << (bits - 1), (1 << (bits - 1)) - 1, (1 << (bits - 1)) + 1, (1 << bits // 2) - 1}
    return sorted({as_signed(c, bits) for c in candidates})


def trunc_div(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


Model = Callable[[int, int, int], int]  # (a, b, bits) with a, b signed; exact, before wrapping


def unsigned(model: Callable[[int, int], int]) -> Model:
    return lambda a, b, bits: model(a & ((1 << bits) - 1), b & ((1 << bits) - 1))


def rotate(a: int, count: int, bits: int) -> int:
    pattern, count = a & ((1 << bits) - 1), count % bits
    return pattern << count | pattern >> (bits - count)


MODELS: dict[str, Model] = {
    "addi": lambda a, b, bits: a + b,
    "subi": lambda a, b, bits: a - b,
    "muli": lambda a, b, bits: a * b,
    "andi": lambda a, b, bits: a & b,
    "ori": lambda a, b, bits: a | b,
    "xori": lambda a, b, bits: a ^ b,
    "minsi": lambda a, b, bits: min(a, b),
    "maxsi": lambda a, b, bits: max(a, b),
    "minui": unsigned(min),
    "maxui": unsigned(max),
    "rotli": rotate,
    "rotri": lambda a, b, bits: rotate(a, -b, bits),
}
DIVISIONS: dict[str, Model] = {
    "divsi": lambda a, b, bits: trunc_div(a, b),
    "remsi": lambda a, b, bits: a - b * trunc_div(a, b),
    "ceildivsi": lambda a, b, bits: -(-a // b),
    "floordivsi": lambda a, b, bits: a // b,
    "divui": unsigned(lambda a, b: a // b),
    "remui": unsigned(lambda a, b: a % b),
    "ceildivui": unsigned(lambda a, b: -(-a // b)),
}
SHIFTS: dict[str, Model] = {
    "shli": lambda a, n, bits: a << n,
    "shrsi": lambda a, n, bits: a >> n,
    "shrui": lambda a, n, bits: (a & ((1 << bits) - 1)) >> n,
}


def pairs_of(format: ScalarFormat) -> list[tuple[int, int]]:
    if format.bits == 8:
        return [(a, b) for a in range(-128, 128) for b in range(-128, 128)]
    return [(a, b) for a in edges(format) for b in edges(format)]


def columns(format: ScalarFormat, rows: list[Any]) -> list[Array]:
    return [stored(format, column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", sorted(MODELS))
def test_wrapping_operations(name: str, width: str) -> None:
    format = FORMATS[width]
    pairs = pairs_of(format)
    outcome = OPERATIONS[name].apply(columns(format, pairs), format)
    assert outcome.faults == ()
    assert outcome.value.dtype == format.dtype
    want = [as_signed(MODELS[name](a, b, format.bits), format.bits) for a, b in pairs]
    assert numbers(format, outcome.value) == want


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", sorted(DIVISIONS))
def test_divisions(name: str, width: str) -> None:
    format = FORMATS[width]
    pairs = pairs_of(format)
    outcome = OPERATIONS[name].apply(columns(format, pairs), format)
    faults = {fault.kind: fault.mask.tolist() for fault in outcome.faults}
    assert faults[FaultKind.DIVISION_BY_ZERO] == [b == 0 for _, b in pairs]
    overflow = [a == format.minimum and b == -1 for a, b in pairs]
    if name in ("divsi", "ceildivsi", "floordivsi"):
        assert faults[FaultKind.QUOTIENT_OVERFLOW] == overflow
    else:
        assert FaultKind.QUOTIENT_OVERFLOW not in faults
        overflow = [False] * len(pairs)
    for (a, b), bad, got in zip(pairs, overflow, numbers(format, outcome.value), strict=True):
        if b != 0 and not bad:
            assert got == as_signed(DIVISIONS[name](a, b, format.bits), format.bits), (a, b)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", sorted(SHIFTS))
def test_shifts_report_amounts_outside_the_width(name: str, width: str) -> None:
    format = FORMATS[width]
    pairs = pairs_of(format)
    outcome = OPERATIONS[name].apply(columns(format, pairs), format)
    amounts = [b & ((1 << format.bits) - 1) for _, b in pairs]
    (fault,) = outcome.faults
    assert fault.kind is FaultKind.SHIFT_AMOUNT
    assert fault.mask.tolist() == [amount >= format.bits for amount in amounts]
    for (a, _), amount, got in zip(pairs, amounts, numbers(format, outcome.value), strict=True):
        if amount < format.bits:
            assert got == as_signed(SHIFTS[name](a, amount, format.bits), format.bits), (a, amount)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["addi", "subi", "muli", "shli"])
def test_overflow_promises(name: str, width: str) -> None:
    format = FORMATS[width]
    bits = format.bits
    pairs = pairs_of(format)
    if name == "shli":
        pairs = [(a, b) for a, b in pairs if 0 <= (b & ((1 << bits) - 1)) < bits]
    outcome = OPERATIONS[name].apply(columns(format, pairs), format, flags=Overflow.NSW | Overflow.NUW)
    faults = {fault.kind: fault.mask.tolist() for fault in outcome.faults}
    mask = (1 << bits) - 1
    model = {**MODELS, **SHIFTS}[name]
    signed_results = [model(a, b & mask if name == "shli" else b, bits) for a, b in pairs]
    unsigned_results = [model(a & mask, b & mask, bits) for a, b in pairs]
    none = [False] * len(pairs)
    assert faults.get(FaultKind.SIGNED_WRAP, none) == [
        not format.minimum <= r <= format.maximum for r in signed_results
    ]
    assert faults.get(FaultKind.UNSIGNED_WRAP, none) == [not 0 <= r <= mask for r in unsigned_results]
    assert numbers(format, outcome.value) == [as_signed(r, bits) for r in signed_results]


@pytest.mark.parametrize("width", ["i8", "i32", "i64"])
def test_multiply_add_promises_only_its_final_result(width: str) -> None:
    format = FORMATS[width]

    @settings(max_examples=60)
    @given(st.lists(st.tuples(*[st.integers(format.minimum, format.maximum)] * 3), min_size=1, max_size=30))
    def check(rows: list[tuple[int, int, int]]) -> None:
        rows = [*rows, (format.maximum, 2, format.minimum), (1, 1, 0)]
        outcome = OPERATIONS["fmai"].apply(columns(format, rows), format, flags=Overflow.NSW | Overflow.NUW)
        faults = {fault.kind: fault.mask.tolist() for fault in outcome.faults}
        mask = format.unsigned_maximum
        signed_results = [a * b + c for a, b, c in rows]
        unsigned_results = [(a & mask) * (b & mask) + (c & mask) for a, b, c in rows]
        none = [False] * len(rows)
        assert numbers(format, outcome.value) == [as_signed(r, format.bits) for r in signed_results]
        assert faults.get(FaultKind.SIGNED_WRAP, none) == [
            not format.minimum <= r <= format.maximum for r in signed_results
        ]
        assert faults.get(FaultKind.UNSIGNED_WRAP, none) == [r > mask for r in unsigned_results]

    check()


@pytest.mark.parametrize("width", WIDTHS)
def test_unary_operations(width: str) -> None:
    format = FORMATS[width]
    bits, mask = format.bits, format.unsigned_maximum
    values = edges(format) if bits > 8 else list(range(format.minimum, format.maximum + 1))
    models: dict[str, Callable[[int], int]] = {
        "negi": lambda a: -a,
        "absi": abs,
        "signi": lambda a: (a > 0) - (a < 0),
        "ctpopi": lambda a: (a & mask).bit_count(),
        "ctlzi": lambda a: bits - (a & mask).bit_length(),
        "cttzi": lambda a: bits if a == 0 else (a & -a).bit_length() - 1,
    }
    for name, model in models.items():
        outcome = OPERATIONS[name].apply(columns(format, [(v,) for v in values]), format)
        assert outcome.faults == ()
        assert numbers(format, outcome.value) == [as_signed(model(v), bits) for v in values], name


@pytest.mark.parametrize("width", [*WIDTHS, "index"])
def test_comparisons(width: str) -> None:
    format = FORMATS[width]
    pairs = [(a, b) for a in edges(format) for b in edges(format)]
    name = "cmp" if width == "index" else "cmpi"
    for predicate in ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"):
        outcome = OPERATIONS[name].apply(columns(format, pairs), format, predicate=predicate)
        mask = format.unsigned_maximum if predicate[0] == "u" else -1
        relation = {"eq": "__eq__", "ne": "__ne__"}.get(predicate, f"__{predicate[1:]}__")
        assert outcome.value.tolist() == [getattr(a & mask, relation)(b & mask) for a, b in pairs], predicate


def test_select_takes_values_of_every_type_by_a_condition() -> None:
    i1, bf16 = FORMATS["i1"], FORMATS["bf16"]
    a, b = np.asarray([1, 2], dtype=np.uint16), np.asarray([3, 4], dtype=np.uint16)
    outcome = OPERATIONS["select"].apply((np.asarray([True, False]), a, b), (i1, bf16, bf16))
    assert outcome.value.tolist() == [1, 4]
    assert outcome.value.dtype == np.uint16
    with pytest.raises(TypeError):
        OPERATIONS["select"].apply((a.view(np.int16), a, b), (FORMATS["i16"], bf16, bf16))


@pytest.mark.parametrize(("offset", "width"), [(0, 1), (3, 5), (20, 12), (0, 32), (31, 1)])
def test_bit_fields(offset: int, width: int) -> None:
    i32, i64, i16 = FORMATS["i32"], FORMATS["i64"], FORMATS["i16"]
    values = edges(i32)
    fields = [(v >> offset) & ((1 << width) - 1) for v in values]
    source = columns(i32, [(v,) for v in values])
    got = OPERATIONS["bitfield.extractu"].apply(source, i32, i64, offset=offset, width=width)
    assert numbers(i64, got.value) == fields
    got = OPERATIONS["bitfield.extracts"].apply(source, i32, i64, offset=offset, width=width)
    assert numbers(i64, got.value) == [as_signed(f, width) for f in fields]
    if width <= 16:
        field = stored(i16, [0x5A5A] * len(values))
        got = OPERATIONS["bitfield.insert"].apply((field, *source), (i16, i32), offset=offset, width=width)
        mask = ((1 << width) - 1) << offset
        want = [as_signed((v & ~mask) | ((0x5A5A << offset) & mask), 32) for v in values]
        assert numbers(i32, got.value) == want


def test_bit_fields_outside_the_type_are_refused() -> None:
    i8 = FORMATS["i8"]
    for name, operands in (("bitfield.extractu", 1), ("bitfield.insert", 2)):
        with pytest.raises(TypeError, match="are not in i8"):
            OPERATIONS[name].apply([np.zeros(1, np.int8)] * operands, i8, i8, offset=5, width=4)


ADDRESS_MODELS: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "madd": lambda a, b, c: a * b + c,
    "min": min,
    "max": max,
}


@pytest.mark.parametrize("name", sorted(ADDRESS_MODELS))
def test_index_arithmetic_never_wraps_silently(name: str) -> None:
    index = FORMATS["index"]
    points = edges(index)
    arity = OPERATIONS[name].arity
    rows = [(a, b, c)[:arity] for a in points for b in points for c in (points if arity == 3 else [0])]
    outcome = OPERATIONS[name].apply(columns(index, rows), index)
    exact = [ADDRESS_MODELS[name](*row) for row in rows]
    bad = [not index.minimum <= r <= index.maximum for r in exact]
    masks = [fault.mask.tolist() for fault in outcome.faults if fault.kind is FaultKind.ADDRESS_RANGE]
    assert masks == ([bad] if any(bad) else [])
    for want, got, undefined in zip(exact, outcome.value.tolist(), bad, strict=True):
        assert undefined or want == got


def test_offset_arithmetic_stays_non_negative() -> None:
    offset, index = FORMATS["offset"], FORMATS["index"]
    outcome = OPERATIONS["sub"].apply(columns(offset, [(8, 3), (3, 8)]), offset)
    assert outcome.value[0] == 5
    assert [(f.kind, f.mask.tolist()) for f in outcome.faults] == [(FaultKind.ADDRESS_RANGE, [False, True])]
    scaled = OPERATIONS["scale"].apply(columns(index, [(6, 4), (-1, 4), (1 << 62, 4)]), (index, offset))
    assert scaled.value[0] == 24
    assert scaled.faults[0].mask.tolist() == [False, True, True]


def test_index_division_contract() -> None:
    index = FORMATS["index"]
    rows = [(7, 2), (0, 5), (-1, 2), (4, -2), (4, 0)]
    for name, want in (("div", [3, 0]), ("rem", [1, 0])):
        outcome = OPERATIONS[name].apply(columns(index, rows), index)
        assert outcome.value[:2].tolist() == want
        faults = {f.kind: f.mask.tolist() for f in outcome.faults}
        assert faults[FaultKind.INDEX_DIVISION] == [False, False, True, True, False]
        assert faults[FaultKind.DIVISION_BY_ZERO] == [False] * 4 + [True]


def test_index_bits_are_64_wide() -> None:
    index = FORMATS["index"]
    assert OPERATIONS["ctlzi"].apply([np.asarray([1])], index).value.tolist() == [63]
    assert OPERATIONS["cttzi"].apply([np.asarray([0])], index).value.tolist() == [64]
    shifted = OPERATIONS["shli"].apply(columns(index, [(1, 62), (1, 63), (-1, 63)]), index)
    assert [(f.kind, f.mask.tolist()) for f in shifted.faults] == [(FaultKind.ADDRESS_RANGE, [False, True, False])]


@pytest.mark.parametrize(
    ("source", "result", "values", "want"),
    [
        ("i8", "index", [-1, 127], [-1, 127]),
        ("i1", "index", [0, 1], [0, 1]),
        ("i8", "offset", [-1, 5], [255, 5]),
        ("i1", "offset", [0, 1], [0, 1]),
        ("i64", "offset", [-1, 5], [None, 5]),
        ("index", "i8", [257, -1], [1, -1]),
        ("index", "i1", [2, 3], [0, -1]),
        ("index", "offset", [-1, 9], [None, 9]),
        ("offset", "index", [0, (1 << 63) - 1], [0, (1 << 63) - 1]),
    ],
)
def test_address_casts(source: str, result: str, values: list[int], want: list[int | None]) -> None:
    format, target = FORMATS[source], FORMATS[result]
    outcome = OPERATIONS["cast"].apply([stored(format, values)], format, target)
    undefined = [fault.mask.tolist() for fault in outcome.faults]
    assert undefined == ([[w is None for w in want]] if None in want else [])
    for got, expected in zip(numbers(target, outcome.value), want, strict=True):
        assert expected is None or got == expected


def test_operands_broadcast_and_scalars_stay_arrays() -> None:
    i8 = FORMATS["i8"]
    outcome = OPERATIONS["addi"].apply((np.int8(127), np.asarray(1, np.int8)), i8)
    assert outcome.value.shape == ()
    assert outcome.value == -128
    grid = OPERATIONS["muli"].apply((np.ones((3, 1), np.int8), np.ones((1, 4), np.int8)), i8)
    assert grid.value.shape == (3, 4)


def test_calls_that_the_verifier_refuses_are_type_errors() -> None:
    i8, i32, f32 = FORMATS["i8"], FORMATS["i32"], FORMATS["f32"]
    byte, word = np.zeros(2, np.int8), np.zeros(2, np.int32)
    with pytest.raises(TypeError, match="stored as int8"):
        OPERATIONS["addi"].apply((byte, word), i8)
    with pytest.raises(TypeError, match="does not take f32"):
        OPERATIONS["addi"].apply((word, word), f32)
    with pytest.raises(TypeError, match="takes 2 operands"):
        OPERATIONS["addi"].apply((word,), i32)
    with pytest.raises(TypeError, match="missing parameters"):
        OPERATIONS["cmpi"].apply((word, word), i32)
    with pytest.raises(TypeError, match="unknown"):
        OPERATIONS["divsi"].apply((word, word), i32, flags=1)
    with pytest.raises(TypeError, match="needs the format of its result"):
        OPERATIONS["extsi"].apply((word,), i32)


@settings(max_examples=200)
@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_64_bit_division_identities(a: int, b: int) -> None:
    i64 = FORMATS["i64"]
    if b == 0 or (a == i64.minimum and b == -1):
        return
    operands = columns(i64, [(a, b)])
    quotient = int(OPERATIONS["divsi"].apply(operands, i64).value[0])
    remainder = int(OPERATIONS["remsi"].apply(operands, i64).value[0])
    assert quotient * b + remainder == a
    assert int(OPERATIONS["floordivsi"].apply(operands, i64).value[0]) == a // b
    assert int(OPERATIONS["ceildivsi"].apply(operands, i64).value[0]) == -(-a // b)
    assert math.copysign(1, remainder or a) == math.copysign(1, a)
