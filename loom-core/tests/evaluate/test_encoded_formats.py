"""Every element format of schemas, pattern by pattern, against the published field rules on rational numbers."""

from __future__ import annotations

import bisect
import itertools
import math
from fractions import Fraction
from functools import cache
from typing import Any

import attrs
import numpy as np
import pytest

Programs = Any

NAN, INFINITE = "nan", "inf"


@attrs.frozen
class Fields:
    """Exponent and mantissa bits, bias, and which magnitudes are not finite."""

    exponent: int
    mantissa: int
    bias: int
    specials: str

    def value(self, code: int) -> Fraction | str:
        """A finite value, or the word for what is not; the sign of zero is looked at elsewhere."""
        magnitude = code & ((1 << (self.exponent + self.mantissa)) - 1)
        negative = bool(code >> (self.exponent + self.mantissa))
        x, m = magnitude >> self.mantissa, magnitude & ((1 << self.mantissa) - 1)
        top = (1 << self.exponent) - 1
        if self.specials == "ieee" and x == top:
            return NAN if m else INFINITE
        if self.specials == "fn" and x == top and m == (1 << self.mantissa) - 1:
            return NAN
        if self.specials == "fnuz" and negative and magnitude == 0:
            return NAN
        fraction = Fraction(m, 1 << self.mantissa)
        scale = Fraction(2) ** ((x or 1) - self.bias)
        return (-1 if negative else 1) * scale * (fraction + (1 if x else 0))


FLOATS = {
    "f8e4m3": Fields(4, 3, 7, "ieee"),
    "f8e4m3fn": Fields(4, 3, 7, "fn"),
    "f8e4m3fnuz": Fields(4, 3, 8, "fnuz"),
    "f8e5m2": Fields(5, 2, 15, "ieee"),
    "f8e5m2fnuz": Fields(5, 2, 16, "fnuz"),
    "bf8": Fields(5, 2, 15, "ieee"),
    "f6e3m2": Fields(3, 2, 3, ""),
    "f6e2m3": Fields(2, 3, 1, ""),
    "bf6": Fields(3, 2, 3, ""),
    "f4e2m1": Fields(2, 1, 1, ""),
}
LIMITS = {  # Largest finite magnitude and smallest subnormal as published.
    "f8e4m3": (240, -9), "f8e4m3fn": (448, -9), "f8e4m3fnuz": (240, -10), "f8e5m2": (57344, -16),
    "f8e5m2fnuz": (57344, -17), "bf8": (57344, -16), "f6e3m2": (28, -4), "f6e2m3": (7.5, -3), "bf6": (28, -4),
    "f4e2m1": (6, -1),
}  # fmt: skip


def width_of(name: str) -> int:
    return 1 + FLOATS[name].exponent + FLOATS[name].mantissa


def lines(operation: str, name: str, source: str, target: str, rounding: str = "none") -> str:
    return f"""
  %schema = encoding.define #encoding.{name}<payload_elements=1, rounding={rounding}> : encoding<schema>
  %r = vector.{operation} %p using %schema : {source}, encoding<schema> -> {target}"""


def decoded(programs: Programs, name: str, codes: Any, carrier: str = "i8") -> Any:
    """The f64 values of codes, a code in each lane."""
    dtype = {"i8": np.uint8, "i16": np.uint16, "i32": np.uint32, "i64": np.uint64}[carrier]
    payload = np.asarray(codes, dtype=dtype).view(f"i{np.dtype(dtype).itemsize}")[None]
    source, target = f"vector<{payload.size}x{carrier}>", f"vector<{payload.size}xf64>"
    (r,) = programs.operation(lines("decode", name, source, target), {"p": (source, payload)}, {"r": target})
    return r[0]


def encoded(programs: Programs, name: str, values: Any, rounding: str) -> Any:
    """The codes of f64 values."""
    row = np.asarray(values, dtype=np.float64)[None]
    source, target = f"vector<{row.size}xf64>", f"vector<{row.size}xi8>"
    (r,) = programs.operation(lines("encode", name, source, target, rounding), {"p": (source, row)}, {"r": target})
    return r[0].view(np.uint8)


@pytest.mark.parametrize("name", FLOATS)
def test_every_pattern_of_a_small_float(programs: Programs, name: str) -> None:
    count = 1 << width_of(name)
    values = decoded(programs, name, np.arange(count))
    finite = []
    for code, value in enumerate(values.tolist()):
        want = FLOATS[name].value(code)
        if want == NAN:
            assert math.isnan(value)
        elif want == INFINITE:
            assert math.isinf(value)
            assert math.copysign(1, value) == (-1 if code >= count // 2 else 1)
        else:
            assert value == want
            assert math.copysign(1, value) == (-1 if code >= count // 2 else 1)
            finite.append(abs(value))
    assert (max(finite), min(v for v in finite if v)) == (LIMITS[name][0], 2.0 ** LIMITS[name][1])
    # Bits of the lane above the code do not count.
    if count < 256:
        assert np.array_equal(decoded(programs, name, np.arange(count) | count), values, equal_nan=True)


@pytest.mark.parametrize("name", FLOATS)
def test_codes_survive_decoding_and_encoding(programs: Programs, name: str) -> None:
    codes = [c for c in range(1 << width_of(name)) if FLOATS[name].value(c) != NAN]
    values = decoded(programs, name, codes)
    for rounding in ("none", "nearest_even", "nearest_away", "toward_zero", "down", "up"):
        assert encoded(programs, name, values, rounding).tolist() == codes
    finite = [c for c in codes if FLOATS[name].value(c) != INFINITE]
    assert encoded(programs, name, decoded(programs, name, finite), "satfinite").tolist() == finite


@cache
def finite_values(name: str) -> list[Fraction]:
    """All finite values of a format in ascending order."""
    return sorted({v for c in range(1 << width_of(name)) if isinstance(v := FLOATS[name].value(c), Fraction)})


@cache
def reachable(name: str) -> list[Fraction]:
    """The finite values, and one step beyond them what stands for infinity where the format has it."""
    known = finite_values(name)
    step = known[-1] - known[-2]
    return [known[0] - step, *known, known[-1] + step] if FLOATS[name].specials == "ieee" else known


def rounded(name: str, value: float, rounding: str) -> float:
    """The finite value, or infinity, to which a number rounds, by looking at the values of the format."""
    exact, known = Fraction(value), reachable(name)
    at = bisect.bisect_right(known, exact) - 1
    below, above = known[at], known[at] if known[at] == exact else known[at + 1]
    if below == above:
        choice = below
    elif rounding == "toward_zero":
        choice = below if exact > 0 else above
    elif rounding in ("down", "up"):
        choice = below if rounding == "down" else above
    elif exact - below != above - exact:
        choice = below if exact - below < above - exact else above
    elif rounding == "nearest_away":
        choice = max((below, above), key=abs)
    else:
        # The even one has the even multiple of the step between the two.
        choice = below if (below / (above - below)) % 2 == 0 else above
    if FLOATS[name].specials == "ieee" and choice in (known[0], known[-1]):
        return math.inf if choice > 0 else -math.inf
    return float(choice)


@pytest.mark.parametrize("rounding", ["nearest_even", "nearest_away", "toward_zero", "down", "up"])
@pytest.mark.parametrize("name", FLOATS)
def test_what_lies_between_codes_rounds_once(programs: Programs, name: str, rounding: str) -> None:
    finite = finite_values(name)
    points = []
    for below, above in itertools.pairwise(finite):
        middle, little = float((below + above) / 2), float((above - below) / 2**20)
        points += [middle, middle - little, middle + little, float(below) + little, float(above) - little]
    if FLOATS[name].specials == "ieee":
        step = finite[-1] - finite[-2]
        points += [s * float(finite[-1] + part * step) for s in (1, -1) for part in (Fraction(1, 2), Fraction(49, 100))]
    codes = encoded(programs, name, points, rounding)
    got = decoded(programs, name, codes)
    assert got.tolist() == [rounded(name, p, rounding) for p in points]
    # What rounds to zero keeps its sign where the format has two zeros.
    if FLOATS[name].specials != "fnuz":
        assert np.array_equal(np.signbit(got), np.signbit(points))


@pytest.mark.parametrize("name", FLOATS)
def test_beyond_the_largest_magnitude(programs: Programs, name: str) -> None:
    largest = float(LIMITS[name][0])
    values = [largest * 4, -largest * 4, math.inf, -math.inf]
    clamped = decoded(programs, name, encoded(programs, name, values, "satfinite")).tolist()
    assert clamped == [largest, -largest] * 2
    far = math.inf if FLOATS[name].specials == "ieee" else largest
    assert decoded(programs, name, encoded(programs, name, values, "nearest_even")).tolist() == [far, -far] * 2
    toward = decoded(programs, name, encoded(programs, name, values, "toward_zero")).tolist()
    assert toward == [largest, -largest, far, -far]


@pytest.mark.parametrize("name", ["f8e4m3", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "bf8"])
@pytest.mark.parametrize("rounding", ["none", "nearest_even", "satfinite", "up"])
def test_nan_has_a_code_where_there_is_one(programs: Programs, name: str, rounding: str) -> None:
    assert np.isnan(decoded(programs, name, encoded(programs, name, [math.nan], rounding)))


def test_scales_of_powers_of_two(programs: Programs) -> None:
    values = decoded(programs, "e8m0", np.arange(256))
    assert values[:255].tolist() == [2.0 ** (code - 127) for code in range(255)]
    assert math.isnan(values[255])
    for rounding in ("none", "nearest_even", "up", "down"):
        assert encoded(programs, "e8m0", values, rounding).tolist() == list(range(256))
    assert encoded(programs, "e8m0", [1.4, 1.5, 1.6, 3.0], "nearest_even").tolist() == [127, 128, 128, 128]
    assert encoded(programs, "e8m0", [1.4, 1.6], "down").tolist() == [127, 127]
    assert encoded(programs, "e8m0", [1.4, 2.0**200], "satfinite").tolist() == [127, 254]
    for bad in (0.0, -1.0, 2.0**-130):
        text = f"""
func.def public @f(%p: vector<1xf64>) -> (vector<1xi8>) {{{lines("encode", "e8m0", "vector<1xf64>", "vector<1xi8>", "up")}
  func.return %r : vector<1xi8>
}}
"""
        fault = programs.fault(lambda b=bad, t=text: programs.call(t, "f", [np.array([b])]))
        assert fault.code == "EVALUATE/001"


@pytest.mark.parametrize(
    ("sign", "width"),
    [
        *itertools.product(("i", "u"), (1, 2, 3, 4, 5, 6, 8, 16, 32)),
        *itertools.product(("quant_i",), (4, 6, 8)),
    ],
)
def test_integers_of_every_width(programs: Programs, sign: str, width: int) -> None:
    carrier = "i8" if width <= 8 else f"i{width}"
    top = 1 << width
    codes = np.arange(top) if width <= 8 else np.array([0, 1, top // 2 - 1, top // 2, top - 1])
    name = f"{sign}{width}"
    if sign == "quant_i":
        payload = codes.astype(np.uint8).view(np.int8)[None]
        source, target = f"vector<{codes.size}xi8>", f"vector<{codes.size}xf64>"
        text = lines("decode", "operand", source, target).replace("<payload", f"<element_format={name}, payload")
        (got,) = programs.operation(text, {"p": (source, payload)}, {"r": target})
        values = got[0]
    else:
        values = decoded(programs, name, codes, carrier)
    want = codes if sign == "u" else np.where(codes >= top // 2, codes - top, codes)
    assert np.array_equal(values, want)


# Signaling NaNs become quiet when NumPy widens them, which it warns of.
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_wide_formats(programs: Programs) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    halves = decoded(programs, "f16", every, "i16")
    assert np.array_equal(halves, every.view(np.float16).astype(np.float64), equal_nan=True)
    brain = decoded(programs, "bf16", every, "i16")
    assert np.array_equal(brain, (every.astype(np.uint32) << 16).view(np.float32).astype(np.float64), equal_nan=True)
    words = np.random.default_rng(1).integers(0, 1 << 32, 4000, dtype=np.uint32)
    assert np.array_equal(decoded(programs, "f32", words, "i32"), words.view(np.float32).astype(float), equal_nan=True)
    tensor = (words & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    assert np.array_equal(decoded(programs, "tf32", words, "i32"), tensor, equal_nan=True)
    longs = np.random.default_rng(2).integers(0, 1 << 63, 500, dtype=np.uint64)
    assert np.array_equal(decoded(programs, "f64", longs, "i64"), longs.view(np.float64), equal_nan=True)


def test_codes_of_a_code_book(programs: Programs) -> None:
    def text(element: str, packing: str, source: str) -> str:
        return f"""
  %schema = encoding.define #encoding.operand<codebook=dynamic_table_operand, element_format={element},
    payload_elements=8, payload_packing={packing}> : encoding<schema>
  %r = vector.decode %p using %schema {{codebook = %table : vector<5xf32>}}
    : {source}, encoding<schema> -> vector<8xf32>"""

    table = np.array([[1.5, -2.0, 0.25, 8.0, -0.0], [1.0, 2.0, 3.0, 4.0, 5.0]], dtype=np.float32)
    codes = np.array([[0, 1, 2, 3, 4, 3, 2, 1], [4, 4, 0, 1, 0, 2, 3, 3]])
    packed = (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.int8)
    for element, packing, source, payload in (
        ("u4", "little_endian_nibbles", "vector<4xi8>", packed),
        ("codebook_index", "codebook_indices", "vector<8xi16>", codes.astype(np.int16)),
    ):
        inputs = {"p": (source, payload), "table": ("vector<5xf32>", table)}
        (r,) = programs.operation(text(element, packing, source), inputs, {"r": "vector<8xf32>"})
        assert np.array_equal(r, np.take_along_axis(table, codes, axis=1))
    function = f"""
func.def public @f(%p: vector<4xi8>, %table: vector<5xf32>) -> (vector<8xf32>) {{
{text("u4", "little_endian_nibbles", "vector<4xi8>")}
  func.return %r : vector<8xf32>
}}
"""
    beyond = np.array([0, 0x51, 0, 0], dtype=np.int8)
    fault = programs.fault(lambda: programs.call(function, "f", [beyond, table[0]]))
    assert fault.code == "EVALUATE/001"
    assert "code book" in fault.message


@pytest.mark.parametrize(
    ("topology", "lanes", "groups"),
    [
        ("tensor_global", 1, [[0] * 6] * 4),
        ("row", 4, [[row] * 6 for row in range(4)]),
        ("per_token", 4, [[row] * 6 for row in range(4)]),
        ("column", 6, [list(range(6))] * 4),
        ("channel", 6, [list(range(6))] * 4),
        ("group_1d, scale_group_elements=4", 6, [[(6 * row + column) // 4 for column in range(6)] for row in range(4)]),
        ("block_1d, scale_group_shape=[8]", 3, [[(6 * row + column) // 8 for column in range(6)] for row in range(4)]),
        ("block_2d, scale_group_shape=[2, 3]", 4, [[row // 2 * 2 + c // 3 for c in range(6)] for row in range(4)]),
    ],
)
def test_topologies_of_scales(programs: Programs, topology: str, lanes: int, groups: list[list[int]]) -> None:
    payload = np.arange(-12, 12, dtype=np.int8).reshape(1, 4, 6)
    scale = 2.0 ** np.arange(lanes, dtype=np.float32)[None]
    text = f"""
  %schema = encoding.define #encoding.i8<affine=scale_only, payload_elements=24, scale_format=f32, scale_operands=1,
    scale_topology={topology}> : encoding<schema>
  %r = vector.decode %p using %schema {{scale = %scale : vector<{lanes}xf32>}}
    : vector<4x6xi8>, encoding<schema> -> vector<4x6xf32>"""
    inputs = {"p": ("vector<4x6xi8>", payload), "scale": (f"vector<{lanes}xf32>", scale)}
    (r,) = programs.operation(text, inputs, {"r": "vector<4x6xf32>"})
    assert np.array_equal(r[0], payload[0] * scale[0][np.array(groups)])


@pytest.mark.parametrize("topology", ["subblock_in_superblock", "hierarchical"])
def test_scales_of_two_levels(programs: Programs, topology: str) -> None:
    payload = np.arange(16, dtype=np.int8)[None]
    outer, inner = np.array([[0.5, -4.0]]), np.array([[1, 2, 3, 5]], dtype=np.int8)
    text = f"""
  %schema = encoding.define #encoding.i8<affine=super_scale_times_subscale, payload_elements=8, scale_format=f32,
    scale_group_elements=4, scale_operands=2, scale_topology={topology}> : encoding<schema>
  %r = vector.decode %p using %schema {{scale = %outer : vector<2xf64>, secondary_scale = %inner : vector<4xi8>}}
    : vector<16xi8>, encoding<schema> -> vector<16xf64>"""
    inputs = {"p": ("vector<16xi8>", payload), "outer": ("vector<2xf64>", outer), "inner": ("vector<4xi8>", inner)}
    (r,) = programs.operation(text, inputs, {"r": "vector<16xf64>"})
    assert np.array_equal(r[0], payload[0] * outer[0].repeat(8) * inner[0].repeat(4))


def test_nvfp4(programs: Programs) -> None:
    payload = np.random.default_rng(8).integers(-128, 128, (2, 16), dtype=np.int8)
    scale = np.array([[0x38, 0x41], [0x7E, 0x01]], dtype=np.int8)
    whole = np.array([[0.125], [3.0]], dtype=np.float32)
    text = """
  %schema = encoding.define #encoding.f4e2m1<affine=scale_only, payload_elements=32,
    payload_packing=little_endian_nibbles, scale_format=f8e4m3fn, scale_group_elements=16, scale_operands=2,
    scale_topology=block_1d, secondary_scale_format=f32> : encoding<schema>
  %r = vector.decode %p using %schema {scale = %scale : vector<2xi8>, secondary_scale = %whole : vector<1xf32>}
    : vector<16xi8>, encoding<schema> -> vector<32xf32>"""
    inputs = {
        "p": ("vector<16xi8>", payload),
        "scale": ("vector<2xi8>", scale),
        "whole": ("vector<1xf32>", whole),
    }
    (r,) = programs.operation(text, inputs, {"r": "vector<32xf32>"})
    magnitudes = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    codes = np.stack([payload & 15, payload >> 4 & 15], axis=-1).reshape(2, 32)
    values = np.array([*magnitudes, *(-m for m in magnitudes)])[codes]
    scales = np.array([[1, 2.25], [448, 2.0**-9]]).repeat(16, axis=1) * whole
    assert np.array_equal(r, (values * scales).astype(np.float32))
