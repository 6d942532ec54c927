"""Minifloats, bit streams, tables, transforms, dot products, combining kinds: vectors and models."""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom.evaluate.numeric import ATOMIC_KINDS, COMBINING_KINDS, FORMATS, FaultKind, dots, floats, fold, lanes
from loom.evaluate.numeric.formats import to_bits
from loom.evaluate.numeric.minifloat import MINIFLOATS, MiniFloat, Specials, decode, decode_e8m0, encode

I8, I16, I32, I64, F32 = (FORMATS[name] for name in ("i8", "i16", "i32", "i64", "f32"))


def i8(values: list[int]) -> Any:
    return np.asarray(values, dtype=np.uint8).view(np.int8)


def i32(values: list[int]) -> Any:
    return np.asarray(values, dtype=np.uint32).view(np.int32)


# --- minifloats -------------------------------------------------------------------------------------------

#: Largest finite and smallest subnormal magnitude of each format, from its definition.
LIMITS = {
    "f8e4m3": (240, 2**-9),
    "f8e4m3fn": (448, 2**-9),
    "f8e4m3fnuz": (240, 2**-10),
    "f8e5m2": (57344, 2**-16),
    "f8e5m2fnuz": (57344, 2**-17),
    "bf8": (57344, 2**-16),
    "f6e3m2": (28, 2**-4),
    "f6e2m3": (7.5, 2**-3),
    "bf6": (28, 2**-4),
    "f4e2m1": (6, 0.5),
}


def finite_values(format: MiniFloat) -> dict[int, float]:
    codes = np.arange(1 << format.bits)
    return {int(c): float(v) for c, v in zip(codes, decode(format, codes), strict=True) if math.isfinite(v)}


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_minifloat_limits_and_special_codes(name: str) -> None:
    format = MINIFLOATS[name]
    values = finite_values(format)
    largest, smallest = LIMITS[name]
    assert max(values.values()) == largest
    assert min(v for v in values.values() if v > 0) == smallest
    specials = {c: float(v) for c, v in enumerate(decode(format, np.arange(1 << format.bits))) if c not in values}
    counts = {
        Specials.IEEE: 2 << format.mantissa_bits,
        Specials.ONE_NAN: 2,
        Specials.UNSIGNED_ZERO: 1,
        Specials.NONE: 0,
    }
    assert len(specials) == counts[format.specials]
    infinities = sorted(v for v in specials.values() if not math.isnan(v))
    assert infinities == ([-math.inf, math.inf] if format.specials is Specials.IEEE else [])


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_encoding_chooses_the_nearest_code_with_ties_to_even(name: str) -> None:
    """Against a search over all values: every value, every midpoint, and their double neighbours."""
    format = MINIFLOATS[name]
    positive = {v: c for c, v in finite_values(format).items() if v >= 0 and not (v == 0 and c)}
    ordered = sorted(positive)
    points = [*ordered, *((a + b) / 2 for a, b in pairwise(ordered))]
    points += [math.nextafter(p, direction) for p in points for direction in (0.0, math.inf)]
    overflow = ordered[-1] + (ordered[-1] - ordered[-2]) / 2
    points += [overflow, math.nextafter(overflow, 0), overflow * 3, math.inf]
    sign = 1 << (format.bits - 1)
    got = encode(format, np.asarray([*points, *(-p for p in points)]))
    for point, code, mirrored in zip(points, got[: len(points)], got[len(points) :], strict=True):
        if point >= overflow and format.specials is Specials.IEEE:
            want = positive[ordered[-1]] + 1
        else:
            bounded = min(point, ordered[-1])
            at = min(bisect_left(ordered, bounded), len(ordered) - 1)
            candidates = [(v, positive[v]) for v in ordered[max(at - 1, 0) : at + 1]]
            want = min(candidates, key=lambda vc: (abs(Fraction(vc[0]) - Fraction(bounded)), vc[1] % 2))[1]
        assert code == want, point
        assert mirrored == (0 if want == 0 and format.specials is Specials.UNSIGNED_ZERO else want | sign)


def test_minifloat_nan() -> None:
    nan = np.asarray([math.nan, -math.nan])
    assert encode(MINIFLOATS["f8e4m3fn"], nan).tolist() == [0x7F, 0xFF]
    assert encode(MINIFLOATS["f8e5m2"], nan).tolist() == [0x7E, 0xFE]
    assert encode(MINIFLOATS["f8e4m3fnuz"], nan).tolist() == [0x80, 0x80]
    with pytest.raises(ValueError, match="cannot represent NaN"):
        encode(MINIFLOATS["f4e2m1"], nan)


def test_worked_codes() -> None:
    assert decode(MINIFLOATS["f8e4m3fn"], np.asarray([0x01, 0x38, 0x41, 0x7E, 0xC4])).tolist() == [
        2**-9,
        1,
        2.25,
        448,
        -3,
    ]
    assert decode(MINIFLOATS["bf8"], np.asarray([0x01, 0x38, 0x41, 0xC4])).tolist() == [2**-16, 0.5, 2.5, -4]
    magnitudes = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    got = decode(MINIFLOATS["f4e2m1"], np.arange(16))
    assert got.tolist() == magnitudes + [-m for m in magnitudes]
    assert np.signbit(got[8])


def test_block_scaled_word() -> None:
    codes = (0x76543210 >> (4 * np.arange(8))) & 15
    values = decode(MINIFLOATS["f4e2m1"], codes) * decode_e8m0(np.asarray([129]))
    assert values.tolist() == [0, 2, 4, 6, 8, 12, 16, 24]
    assert decode_e8m0(np.asarray([0, 254])).tolist() == [2.0**-127, 2.0**127]
    assert np.isnan(decode_e8m0(np.asarray([255])))[0]


def test_tf32_keeps_the_upper_19_bits() -> None:
    format = MINIFLOATS["tf32"]
    x = np.asarray([1 + 2.0**-10, 1 + 2.0**-11, 1 + 3 * 2.0**-11, -math.inf])
    codes = encode(format, x)
    assert codes.tolist() == [0x3F802000, 0x3F800000, 0x3F804000, 0xFF800000]
    assert decode(format, codes).tolist() == [1 + 2.0**-10, 1.0, 1 + 2.0**-9, -math.inf]


# --- bit streams ------------------------------------------------------------------------------------------


def test_bit_streams_worked() -> None:
    codes = i8([5, 0, 7, 2, 1, 6, 3, 4])
    packed = lanes.bitpack(I8, I8, codes, 3)
    assert packed.view(np.uint8).tolist() == [0xC5, 0x15, 0x8F]
    assert lanes.bitunpack(I8, I8, packed, 3, signed_fields=False).tolist() == codes.tolist()
    assert lanes.bitunpack(I8, I8, packed, 3, signed_fields=True).tolist() == [-3, 0, -1, 2, 1, -2, 3, -4]
    five = lanes.bitpack(I8, I8, i8([1, 2, 4, 8, 16, 31, 0, 21]), 5)
    assert five.view(np.uint8).tolist() == [0x41, 0x10, 0x04, 0x3F, 0xA8]
    fields = lanes.bitunpack(I8, I8, i8([0x5A, 0x33, 0x7F]), 3, signed_fields=True)
    assert fields.tolist() == [2, 3, -3, 1, 3, -2, -1, 3]


@given(st.integers(1, 16), st.lists(st.integers(0, 2**16 - 1), min_size=8, max_size=8))
def test_packing_is_one_little_endian_number(width: int, values: list[int]) -> None:
    source = np.asarray(values, dtype=np.uint16).view(np.int16)
    packed = lanes.bitpack(I16, I8, source, width)
    want = sum((v & ((1 << width) - 1)) << (i * width) for i, v in enumerate(values))
    assert int.from_bytes(packed.tobytes(), "little") == want
    fields = lanes.bitunpack(I8, I16, packed, width, signed_fields=False)
    assert fields.view(np.uint16).tolist() == [v & ((1 << width) - 1) for v in values]


def test_bit_streams_keep_leading_axes_and_refuse_bad_counts() -> None:
    rows = np.stack([i8([5, 0, 7, 2, 1, 6, 3, 4]), i8([0] * 8)])
    assert lanes.bitpack(I8, I8, rows, 3).view(np.uint8).tolist() == [[0xC5, 0x15, 0x8F], [0, 0, 0]]
    with pytest.raises(TypeError, match="do not divide"):
        lanes.bitpack(I8, I8, rows[:, :7], 3)
    with pytest.raises(TypeError, match="do not fit"):
        lanes.bitpack(I8, I8, rows, 9)


def test_bitcast_cuts_lanes_anew() -> None:
    words = lanes.bitcast(I8, I32, i8([1, 2, 3, 4, 5, 6, 7, 8]))
    assert words.tolist() == [0x04030201, 0x08070605]
    assert lanes.bitcast(I32, FORMATS["bf16"], words).tolist() == [0x0201, 0x0403, 0x0605, 0x0807]
    assert lanes.bitcast(I8, FORMATS["i1"], i8([0b101])).tolist() == [True, False, True] + [False] * 5
    assert lanes.bitcast(FORMATS["i1"], I8, np.asarray([True] + [False] * 6 + [True])).tolist() == [-127]


# --- lane patterns, tables, transforms --------------------------------------------------------------------


def test_mask_ranges_and_iota() -> None:
    index = FORMATS["index"]
    assert lanes.mask_range(index, 2, 9, 3, 4).tolist() == [True, True, True, False]
    assert lanes.mask_range(index, 7, 2, -4, 4).tolist() == [False, False, True, True]
    starts = np.asarray([0, 5])
    assert lanes.mask_range(index, starts, 6, 1, 3).tolist() == [[True] * 3, [True, False, False]]
    assert lanes.iota(I8, np.int8(126), np.int8(1), 4).tolist() == [126, 127, -128, -127]


def test_quantize_worked() -> None:
    x = np.asarray([-3, -1, 0.5, 2, 9, math.nan], dtype=np.float32)
    thresholds = np.asarray([-1, 0, 2], dtype=np.float32)
    lower = lanes.table_quantize(F32, I8, x, thresholds, nan="zero", tie="lower").value
    upper = lanes.table_quantize(F32, I8, x, thresholds, nan="max", tie="upper").value
    assert lower.tolist() == [0, 0, 2, 2, 3, 0]
    assert upper.tolist() == [0, 1, 2, 3, 3, 3]


def test_table_lookup_reports_positions_outside() -> None:
    table = np.asarray([10, 20, 30], dtype=np.int32)
    good = lanes.table_lookup(I8, table, i8([2, 0, 0]))
    assert good.value.tolist() == [30, 10, 10]
    assert good.faults == ()
    bad = lanes.table_lookup(I8, table, i8([2, 3, 0xFF]))
    assert [(f.kind, f.mask.tolist()) for f in bad.faults] == [(FaultKind.TABLE_INDEX, [False, True, True])]
    rows = lanes.table_lookup(I8, np.asarray([[1, 2], [3, 4]]), i8([[1, 0], [1, 1]]))  # type: ignore[list-item]
    assert rows.value.tolist() == [[2, 1], [4, 4]]


def test_hadamard_worked() -> None:
    x = np.asarray([1, 2, 3, 5], dtype=np.float32)
    assert lanes.hadamard(F32, x).tolist() == [11, -3, -5, 1]
    assert lanes.hadamard(F32, x, "orthonormal").tolist() == [5.5, -1.5, -2.5, 0.5]
    with pytest.raises(TypeError, match="power of two"):
        lanes.hadamard(F32, x[:3])


# --- dot products -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "want"), [("s8s8", 295), ("u8s8", 12583), ("s8u8", -46809), ("u8u8", 96551)])
def test_dot4i_worked(kind: str, want: int) -> None:
    left, right = i8([0xC8, 0xFD, 0x7F, 0x80]), i8([0xFF, 0x32, 0x02, 0xFF])
    assert dots.dot4i(kind, left, right, i32([7])).tolist() == [want]


def test_dot4i_wraps_in_32_bits() -> None:
    ones = i8([1, 0, 0, 0])
    assert dots.dot4i("s8s8", ones, ones, i32([0x7FFFFFFF])).tolist() == [-(2**31)]


@pytest.mark.parametrize(("kind", "want"), [("s4s4", 52), ("u4s4", 228), ("s4u4", 212), ("u4u4", 388)])
def test_dot8i4_worked(kind: str, want: int) -> None:
    got = dots.dot8i4(kind, i32([0x8F7A1234]), i32([0x13579BDF]), i32([100]))
    assert got.tolist() == [want]


@pytest.mark.parametrize(("kind", "want"), [("fp8bf8", -3.8701171875), ("fp8fp8", -2.24560546875)])
def test_dot4f8_worked(kind: str, want: float) -> None:
    accumulator = np.asarray([0.5], dtype=np.float32)
    got = dots.dot4f8(kind, i32([0x4138C401]), i32([0x38384041]), accumulator)
    assert got.tolist() == [want]


def test_dotf_is_a_chain_of_fused_steps() -> None:
    x = np.asarray([1 + 2.0**-12, 1.0], dtype=np.float32)
    y = np.asarray([1 + 2.0**-12, -1.0], dtype=np.float32)
    start = np.asarray(-(2.0**-11), dtype=np.float32)
    # Exact first step: 1 + 2^-24 is a tie in f32 and rounds to 1; the second step subtracts 1.
    assert dots.dotf(F32, x, y, start).tolist() == 0.0
    assert dots.dotf(F32, x[::-1], y[::-1], start).tolist() == 2.0**-24
    assert dots.dotf(F32, x[:0], y[:0], start).tolist() == start


def test_dot2f_extends_pairs() -> None:
    bf16 = FORMATS["bf16"]
    ones, twos = np.full(4, 0x3F80, np.uint16), np.full(4, 0x4000, np.uint16)
    accumulator = np.asarray([0.5, -1.0], dtype=np.float32)
    assert dots.dot2f(bf16, ones, twos, accumulator).tolist() == [4.5, 3.0]
    with pytest.raises(TypeError):
        dots.dot2f(F32, accumulator, accumulator, accumulator)


# --- kinds ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(COMBINING_KINDS))
def test_identities_are_neutral_in_every_format(name: str) -> None:
    kind = COMBINING_KINDS[name]
    for format in FORMATS.values():
        if not format.kind & kind.domain:
            with pytest.raises(TypeError):
                kind.identity(format)
            continue
        patterns = np.arange(256, dtype=np.int64) * 0x0101010101010101
        x = patterns.astype(np.uint64).astype(to_bits(format, np.zeros(1, format.dtype)).dtype)
        x = (x & 1).astype(np.bool_) if format.bits == 1 else x.view(format.dtype)
        combined = kind.combine(format, kind.identity(format), x)
        if name in ("addf", "minimumf", "maximumf", "minnumf", "maxnumf", "mulf"):
            values, results = floats.to_f64(format, x), floats.to_f64(format, combined)
            # Saturating E4M3 has no infinity: its identity is the largest magnitude, neutral as well.
            assert np.array_equal(values[~np.isnan(values)], results[~np.isnan(values)]), format.name
        else:
            assert np.array_equal(combined, x), format.name


def test_kind_numbers_follow_the_language() -> None:
    assert [kind.number for kind in COMBINING_KINDS.values()] == list(range(15))
    assert list(COMBINING_KINDS)[4:8] == ["minsi", "maxsi", "minui", "maxui"]
    assert list(ATOMIC_KINDS)[:5] == ["xchgi", "xchgf", "addi", "addf", "subi"]
    assert len(ATOMIC_KINDS) == 16


def test_atomic_kinds_compute_the_new_value() -> None:
    old, operand = np.asarray([5, -1], np.int32), np.asarray([7, 2], np.int32)
    results = {n: k.apply((old, operand), I32).value.tolist() for n, k in ATOMIC_KINDS.items() if n.endswith("i")}
    assert results["xchgi"] == [7, 2]
    assert results["subi"] == [-2, -3]
    assert results["minsi"] == [5, -1]
    assert results["minui"] == [5, 2]


def test_fold_goes_in_lane_order_and_keeps_the_initial_value() -> None:
    addf = COMBINING_KINDS["addf"]
    values = np.asarray([1e8, 1.0, -1e8, 1.0], dtype=np.float32)
    assert fold(addf, F32, np.float32(0), values) == 1.0
    assert fold(addf, F32, np.float32(0), values[[0, 2, 1, 3]]) == 2.0
    assert fold(addf, F32, np.float32(3), values[:0]) == 3.0
    grid = np.arange(6, dtype=np.int64).reshape(2, 3)
    assert fold(COMBINING_KINDS["muli"], I64, np.asarray([1, 2, 3]), grid, axis=0).tolist() == [0, 8, 30]
