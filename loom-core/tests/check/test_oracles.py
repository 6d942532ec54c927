"""Matrix product oracles against exact models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom.check import oracles
from loom.check.compare import expect_bitwise
from loom.check.errors import CheckError
from loom.check.generate import fill, iota, random_uniform
from loom.check.host_tensor import HostTensor
from loom.check.matrix_formats import MATRIX_FORMATS, PackedFloat, encode, rounded
from loom.check.oracles import reference_matmul, reference_tiled_matmul
from loom.evaluate.numeric import floats, minifloat
from loom.evaluate.numeric.formats import BF16, F8E4M3, F16, F32, F64, I8, I16, I32, I64, INDEX, ScalarFormat
from loom.ir.types import SCALARS, ShapedType


def attributes(lhs: str, rhs: str, accumulator: str, result: str) -> dict[str, object]:
    return {"lhs": lhs, "rhs": rhs, "accumulator": accumulator, "result": result}


def matmul(
    lhs: HostTensor,
    rhs: HostTensor,
    init: HostTensor,
    result: ScalarFormat,
    formats: Mapping[str, object] | None = None,
) -> HostTensor:
    return oracles.matmul(lhs, rhs, init, result, formats or {})


def tiled_matmul(
    lhs: HostTensor,
    rhs: HostTensor,
    init: HostTensor,
    result: ScalarFormat,
    formats: Mapping[str, object] | None = None,
) -> HostTensor:
    return oracles.tiled_matmul(lhs, rhs, init, result, formats or {})


def integers(element: ScalarFormat, values: Any) -> HostTensor:
    return HostTensor(element, np.array(values, dtype=element.dtype))


@pytest.mark.parametrize("element", [F16, BF16, F32, F64])
def test_default_domain_sums_in_f64(element: ScalarFormat) -> None:
    """Ascending k, one product at a time, delivered as f32."""
    lhs = random_uniform(element, [3, 5], 1, -2.0, 2.0)
    rhs = random_uniform(element, [5, 4], 2, -2.0, 2.0)
    init = random_uniform(element, [3, 4], 3, -2.0, 2.0)
    left, right, start = (floats.to_f64(element, t.array).tolist() for t in (lhs, rhs, init))
    expected = np.zeros((3, 4), dtype=np.float32)
    for m in range(3):
        for n in range(4):
            total = start[m][n]
            for k in range(5):
                total += left[m][k] * right[k][n]
            expected[m, n] = total
    assert expect_bitwise(matmul(lhs, rhs, init, F32), HostTensor(F32, expected)).passed


def test_f32_accumulator_rounds_every_partial_sum() -> None:
    """2^24 + 1 + 1 stays 2^24 in f32, whereas f64 sums give 2^24 + 2."""
    lhs = HostTensor(F32, np.array([[2.0**24, 1.0, 1.0]], dtype=np.float32))
    rhs, init = fill(F32, [3, 1], 1.0), fill(F32, [1, 1], 0.0)
    assert matmul(lhs, rhs, init, F32).array[0, 0] == 2**24 + 2
    narrow = matmul(lhs, rhs, init, F32, attributes("f32", "f32", "f32", "f32"))
    assert narrow.array[0, 0] == 2**24


def test_bf16_inputs_with_f32_sums_and_bf16_result() -> None:
    """Formats of inputs, sums and result differ; `init` may have the result's."""
    lhs, rhs = random_uniform(BF16, [2, 8], 4, -1.0, 1.0), random_uniform(BF16, [8, 2], 5, -1.0, 1.0)
    init = random_uniform(BF16, [2, 2], 6, -1.0, 1.0)
    product = matmul(lhs, rhs, init, BF16, attributes("bf16", "bf16", "f32", "bf16"))
    left, right, start = (floats.to_f64(BF16, t.array) for t in (lhs, rhs, init))
    exact = start + left @ right
    assert np.allclose(floats.to_f64(BF16, product.array), exact, rtol=2**-8, atol=1e-6)
    assert product.element is BF16


@given(st.data())
@settings(max_examples=60)
def test_integers_are_exact(data: st.DataObject) -> None:
    """Signed and unsigned readings of the same bits, or an error when the result does not fit."""
    names = st.sampled_from(["i8", "u8", "i16", "u16", "i32", "u32", "i64"])
    left_name, right_name = data.draw(names), data.draw(names)
    m, k, n = (data.draw(st.integers(1, 3)) for _ in range(3))

    def operand(name: str, rows: int, columns: int) -> tuple[HostTensor, list[list[int]]]:
        bits = int(name[1:])
        low, high = (0, 2**bits - 1) if name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        row = st.lists(st.integers(low, high), min_size=columns, max_size=columns)
        values = data.draw(st.lists(row, min_size=rows, max_size=rows))
        stored = np.array(values, dtype=f"{'u' if name[0] == 'u' else 'i'}{bits // 8}").view(f"i{bits // 8}")
        return HostTensor({8: I8, 16: I16, 32: I32, 64: I64}[bits], stored), values

    lhs, left = operand(left_name, m, k)
    rhs, right = operand(right_name, k, n)
    init, start = operand("i64", m, n)
    exact = [[start[i][j] + sum(left[i][x] * right[x][j] for x in range(k)) for j in range(n)] for i in range(m)]
    fits = all(-(2**63) <= value < 2**63 for row in exact for value in row)
    formats = attributes(left_name, right_name, "i64", "i64")
    if fits:
        assert matmul(lhs, rhs, init, I64, formats).array.tolist() == exact
    else:
        with pytest.raises(CheckError, match="outside the range of i64"):
            matmul(lhs, rhs, init, I64, formats)


def test_integer_inputs_with_float_sums() -> None:
    """The third allowed domain."""
    lhs, rhs = integers(I8, [[-1, 2]]), integers(I8, [[-1], [3]])
    init = fill(F32, [1, 1], 0.5)
    assert matmul(lhs, rhs, init, F32, attributes("u8", "i8", "f32", "f32")).array.tolist() == [[-248.5]]


def test_eight_bit_floats_travel_in_i8() -> None:
    """The reference's example bytes of E4M3: 2^-9, 1, 2.25, 448, -3."""
    codes = np.array([[0x01, 0x38, 0x41, 0x7E, 0xC4]], dtype=np.uint8).view(np.int8)
    lhs, rhs = HostTensor(I8, codes), fill(F32, [5, 1], 1.0)
    total = matmul(lhs, rhs, fill(F32, [1, 1], 0.0), F32, attributes("f8E4M3", "f32", "f32", "f32"))
    assert total.array[0, 0] == 2**-9 + 1 + 2.25 + 448 - 3


def test_tiled_product_is_the_product_of_the_untiled_matrices() -> None:
    """`lhs[Mt,Kt,M,K] rhs[Kt,Nt,K,N] init[Mt,Nt,M,N]`, all extents different."""
    lhs = random_uniform(I32, [2, 3, 4, 5], 1, -9, 9)
    rhs = random_uniform(I32, [3, 7, 5, 6], 2, -9, 9)
    init = random_uniform(I32, [2, 7, 4, 6], 3, -9, 9)
    formats = attributes("i32", "i32", "i32", "i32")
    product = tiled_matmul(lhs, rhs, init, I32, formats)
    expected = init.array + np.einsum("akmx,kbxn->abmn", lhs.array, rhs.array)
    assert product.array.tolist() == expected.tolist()


@pytest.mark.parametrize("name", [n for n, f in MATRIX_FORMATS.items() if isinstance(f, PackedFloat)])
@given(value=st.floats(allow_nan=False, min_value=-70000, max_value=70000))
@settings(max_examples=60)
def test_rounding_to_eight_bits(name: str, value: float) -> None:
    """The nearest of all finite values, ties to the even code, infinity past the end: by exhaustion."""
    format = MATRIX_FORMATS[name]
    assert isinstance(format, PackedFloat)
    codes = np.arange(128)
    table = [Fraction(v) for v in minifloat.decode(format.layout, codes).tolist() if math.isfinite(v)]
    # One more value than there are, where the next code would be, catches what rounds out of range.
    table.append(2 * table[-1] - table[-2])
    magnitude = abs(Fraction(value))
    if magnitude > table[-1]:
        nearest = len(table) - 1
    else:
        nearest = min(range(len(table)), key=lambda code: (abs(table[code] - magnitude), code % 2))
    expected = math.inf if nearest == len(table) - 1 else float(table[nearest])
    assert abs(float(rounded(format, np.array([value]))[0])) == expected
    if expected == math.inf:
        with pytest.raises(CheckError, match=f"outside the range of {name}"):
            encode(format, np.array([value]))


ONE_F32 = fill(F32, [1, 1], 1.0)
BIG_F32 = fill(F32, [1, 1], 3e38)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: matmul(fill(F32, [2, 3], 0.0), ONE_F32, ONE_F32, F32),
            r"\[2, 3\], \[1, 1\].* do not fit lhs",
        ),
        (lambda: matmul(fill(F32, [1], 0.0), ONE_F32, ONE_F32, F32), "rank 2"),
        (lambda: tiled_matmul(ONE_F32, ONE_F32, ONE_F32, F32), "rank 4"),
        (lambda: matmul(fill(I32, [1, 1], 1), ONE_F32, ONE_F32, F32), "without format attributes"),
        (lambda: matmul(ONE_F32, ONE_F32, ONE_F32, F64), "delivers f32, not f64"),
        (lambda: matmul(BIG_F32, BIG_F32, ONE_F32, F32), "result .* outside the range of f32"),
        (lambda: matmul(ONE_F32, ONE_F32, ONE_F32, F32, {"lhs": "f32"}), "exactly the attributes"),
        (
            lambda: matmul(ONE_F32, ONE_F32, ONE_F32, F32, attributes("f32", "f32", "f32", "f99")),
            "result format 'f99' is unknown",
        ),
        (
            lambda: matmul(ONE_F32, ONE_F32, ONE_F32, F32, {**attributes("f32", "f32", "f32", ""), "result": 3}),
            "result format 3 is unknown",
        ),
        (
            lambda: matmul(ONE_F32, ONE_F32, ONE_F32, F32, attributes("f16", "f32", "f32", "f32")),
            "lhs of element type f32 cannot hold format f16",
        ),
        (
            lambda: matmul(ONE_F32, ONE_F32, fill(I32, [1, 1], 1), F32, attributes("f32", "f32", "f32", "f32")),
            "init of element type i32 cannot hold format f32",
        ),
        (
            lambda: matmul(integers(I32, [[1]]), ONE_F32, ONE_F32, F32, attributes("i32", "f32", "f32", "f32")),
            "all floating-point, all integer, or",
        ),
        (
            lambda: matmul(ONE_F32, ONE_F32, integers(I32, [[1]]), I32, attributes("f32", "f32", "i32", "i32")),
            "all floating-point, all integer, or",
        ),
        (
            lambda: matmul(iota(INDEX, [1, 1], 1, 1), ONE_F32, ONE_F32, F32, attributes("i64", "f32", "f32", "f32")),
            "lhs of element type index cannot hold format i64",
        ),
        (
            lambda: matmul(BIG_F32, BIG_F32, ONE_F32, F32, attributes("f32", "f32", "f32", "f32")),
            "accumulator .* outside the range of f32",
        ),
        (
            lambda: matmul(
                integers(I8, [[100]]),
                integers(I8, [[100]]),
                integers(I8, [[0]]),
                I8,
                attributes("i8", "i8", "i32", "i8"),
            ),
            r"result 10000 at \[0, 0\] is outside the range of i8",
        ),
        (
            lambda: matmul(
                integers(I8, [[-1]]),
                integers(I8, [[1]]),
                integers(I32, [[0]]),
                I32,
                attributes("i8", "i8", "u32", "i32"),
            ),
            r"accumulator -1 at \[0, 0\] is outside the range of u32",
        ),
        (
            lambda: matmul(
                fill(F32, [1, 1], 500.0),
                ONE_F32,
                ONE_F32,
                F8E4M3,
                attributes("f32", "f32", "f32", "f8E4M3"),
            ),
            r"result 501\.0 at \[0, 0\] is outside the range of f8E4M3",
        ),
    ],
)
def test_errors(call: Callable[[], object], message: str) -> None:
    """Shapes, formats and ranges that do not fit."""
    with pytest.raises(CheckError, match=message):
        call()


def test_infinite_inputs_are_no_overflow() -> None:
    """An infinity that was put in may come out, as may a NaN."""
    lhs = HostTensor(F32, np.array([[math.inf, 1.0]], dtype=np.float32))
    rhs = HostTensor(F32, np.array([[1.0, 0.0], [1.0, 1.0]], dtype=np.float32))
    product = matmul(lhs, rhs, fill(F32, [1, 2], 0.0), F32)
    assert product.array[0, 0] == math.inf
    assert math.isnan(product.array[0, 1])


@pytest.mark.parametrize("formats", [None, attributes("f32", "f32", "f32", "f32")])
def test_empty_products(formats: dict[str, object] | None) -> None:
    """No k: the result is `init`. No rows: an empty result."""
    init = fill(F32, [2, 2], 3.0)
    assert matmul(fill(F32, [2, 0], 0.0), fill(F32, [0, 2], 0.0), init, F32, formats).array.tolist() == [[3.0] * 2] * 2
    empty = matmul(fill(F32, [0, 2], 0.0), fill(F32, [2, 2], 0.0), fill(F32, [0, 2], 0.0), F32, formats)
    assert empty.shape == (0, 2)


def test_the_calling_form_of_oracle_calls() -> None:
    """Attributes, inputs and result types, as the plugin manager hands them to an oracle."""
    i32 = ShapedType.get("tensor", (1, 1), SCALARS["i32"])
    f32 = ShapedType.get("tensor", (1, 1), SCALARS["f32"])
    two = integers(I32, [[2]])
    formats = attributes("i32", "i32", "i32", "i32")
    product = reference_matmul(formats, [two, two, two], [i32])
    assert (product.element, product.array.tolist()) == (I32, [[6]])
    tile = fill(F32, [1, 1, 1, 1], 3.0)
    assert reference_tiled_matmul({}, [tile, tile, tile], [f32]).array.tolist() == [[[[12.0]]]]
    with pytest.raises(CheckError, match="not 2 inputs and 1 results"):
        reference_matmul(formats, [two, two], [i32])
    with pytest.raises(CheckError, match="not 3 inputs and 0 results"):
        reference_tiled_matmul(formats, [two, two, two], [])
