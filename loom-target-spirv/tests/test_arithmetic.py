"""What a device computes: integers at their edges, floats bit by bit against exact models."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from loom_target_spirv.abi import ModuleAbi, Parameter, ParameterKind, Root, place_kernel, record_abi
from loom_target_spirv.elementwise import element_pointer
from loom_target_spirv.enumerants import BuiltIn, GLSLstd450
from loom_target_spirv.errors import SpirvError
from loom_target_spirv.exact_convert import narrow_f64_to_f16, round_to_integral
from loom_target_spirv.exact_fma import FmaMethod, fma
from loom_target_spirv.function import FunctionBuilder
from loom_target_spirv.module import ModuleBuilder, Value
from loom_target_spirv.types import BOOL, F16, F32, U32, FloatType, IntType
from loom_target_spirv.vulkan import VulkanRunner

Apply = Callable[..., npt.NDArray[Any]]
Array = npt.NDArray[Any]

_PRECISION = {16: (11, -14, 15), 32: (24, -126, 127), 64: (53, -1022, 1023)}
"""Bits of the significand, least and greatest exponent of a normal number."""


def assert_same_bits(got: Array, want: Array) -> None:
    """Equal bit patterns, any NaN standing for any other."""
    unsigned = f"u{got.dtype.itemsize}"
    same = (got.view(unsigned) == want.view(unsigned)) | (np.isnan(got) & np.isnan(want))
    wrong = np.nonzero(~same)[0]
    assert wrong.size == 0, (
        f"{wrong.size} differ, first [{wrong[0]}]: {got[wrong[0]]!r} for {want[wrong[0]]!r}"
    )


def rounded(exact: Fraction, width: int) -> float:
    """An exact nonzero value rounded to nearest even in the format of `width` bits: the model of the
    tests.
    """
    precision, least, greatest = _PRECISION[width]
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    ulp = Fraction(2) ** (max(exponent, least) - precision + 1)
    result = round(magnitude / ulp) * ulp  # round() of a Fraction takes ties to even
    value = math.inf if result >= Fraction(2) ** (greatest + 1) else float(result)
    return -value if exact < 0 else value


def fma_model(a: float, b: float, c: float, width: int) -> float:
    """a*b + c by IEEE 754."""
    if math.isfinite(a) and math.isfinite(b):
        if not math.isfinite(c):
            return c
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        if exact:
            return rounded(exact, width)
        product_negative = (math.copysign(1, a) < 0) != (math.copysign(1, b) < 0)
        return -0.0 if product_negative and math.copysign(1, c) < 0 else 0.0
    return a * b + c if not (math.isinf(a * b) and math.isinf(c)) else math.inf * a * b + c


def fma_operands(dtype: Any, count: int) -> tuple[Array, Array, Array]:
    """Random bits, cancellation, ties, subnormal results, and all pairs of special values."""
    width = np.dtype(dtype).itemsize * 8
    rng = np.random.default_rng(width)
    precision, least, _ = _PRECISION[width]
    bits = [rng.integers(0, 1 << width, count, dtype=f"u{width // 8}", endpoint=False) if width < 64
            else rng.integers(0, 1 << 63, count, dtype="u8") * 2 + rng.integers(0, 2, count, dtype="u8")
            for _ in range(3)]  # fmt: skip
    parts: list[list[Array]] = [[bits[0].view(dtype), bits[1].view(dtype), bits[2].view(dtype)]]
    with np.errstate(all="ignore"):
        a, b = (rng.standard_normal(count).astype(dtype) for _ in range(2))
        parts.append([a, b, (-(a * b)).astype(dtype)])
        parts.append(
            [a, b, (a * b * np.exp2(rng.integers(-2 * precision, 2 * precision, count))).astype(dtype)]
        )
        # Small integers scaled so that products end half a place below a last bit: ties, also among
        # subnormals.
        small = [rng.integers(-9, 10, count) for _ in range(3)]
        half = least - precision
        split = half // 2
        scaled = [
            np.ldexp(small[0].astype(np.float64), split),
            np.ldexp(small[1].astype(np.float64), half - split),
        ]
        parts.append([scaled[0].astype(dtype), scaled[1].astype(dtype),
                      np.ldexp(small[2].astype(np.float64), half + 1).astype(dtype)])  # fmt: skip
    info = np.finfo(dtype)
    special = np.array(
        [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, info.max, -info.max, info.tiny, info.smallest_subnormal],
        dtype,
    )
    parts.append([grid.ravel() for grid in np.meshgrid(special, special, special)])
    a, b, c = (np.ascontiguousarray(np.concatenate(column)) for column in zip(*parts, strict=True))
    return a, b, c


@pytest.mark.parametrize(
    ("dtype", "method"),
    [
        (np.float16, FmaMethod.INTEGER),
        (np.float16, FmaMethod.WIDER),
        (np.float32, FmaMethod.INTEGER),
        (np.float32, FmaMethod.WIDER),
        (np.float64, FmaMethod.INTEGER),
    ],
)
def test_fma_rounds_once(apply: Apply, dtype: Any, method: FmaMethod) -> None:
    """Bits equal to the exact rational model over every kind of operand."""
    width = np.dtype(dtype).itemsize * 8
    a, b, c = fma_operands(dtype, 2500)
    got = apply(lambda f, v: fma(f, v[0], v[1], v[2], method), [a, b, c], FloatType(width))
    triples = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    with np.errstate(all="ignore"):
        want = np.array([fma_model(*triple, width) for triple in triples]).astype(dtype)
    assert_same_bits(got, want)


def test_the_model_is_right() -> None:
    """The rational model agrees with NumPy where one operation rounds once: a*1 + c and a*b + 0."""
    a, b, c = fma_operands(np.float32, 500)
    with np.errstate(all="ignore"):
        total, product = a + c, a * b
    ones = [fma_model(x, 1.0, z, 32) for x, z in zip(a.tolist(), c.tolist(), strict=True)]
    assert_same_bits(np.array(ones, np.float32), total)
    zeros = [fma_model(x, y, -0.0 if x * y == 0 and math.copysign(1, x * y) < 0 else 0.0, 32) for x, y in
             zip(a.tolist(), b.tolist(), strict=True)]  # fmt: skip
    assert_same_bits(np.array(zeros, np.float32), product)


def test_fma_refuses_what_it_cannot_do() -> None:
    """f64 has no wider format; integers have no fused multiply-add here."""
    function = ModuleBuilder().function("f", parameters=[FloatType(64), U32])
    double, integer = function.parameters
    with pytest.raises(SpirvError, match="wider"):
        fma(function, double, double, double, FmaMethod.WIDER)
    with pytest.raises(SpirvError, match="floats of one type"):
        fma(function, integer, integer, integer)
    with pytest.raises(SpirvError, match="integral"):
        round_to_integral(function, GLSLstd450.Sqrt, double)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "model"),
    [("OpFAdd", np.add), ("OpFSub", np.subtract), ("OpFMul", np.multiply), ("OpFDiv", np.divide)],
)
def test_float_arithmetic_bit_for_bit(apply: Apply, dtype: Any, name: str, model: Any) -> None:
    """Random bits, thus also NaN, infinities and denormals; lavapipe keeps denormals and rounds to nearest
    even.

    Vulkan promises less for OpFDiv (2.5 ulp); this test tells when a device needs another formulation.
    """
    a, b, _ = fma_operands(dtype, 20000)
    type_ = FloatType(np.dtype(dtype).itemsize * 8)
    with np.errstate(all="ignore"):
        want = model(a, b)
    assert_same_bits(apply(lambda f, v: f.exact(name, type_, *v), [a, b], type_), want)


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_integer_division(apply: Apply, width: int) -> None:
    """Quotients toward zero, remainders with the sign of the dividend, at the edges of the type."""
    rng = np.random.default_rng(width)
    edges = [0, 1, 2, 3, 7, (1 << (width - 1)) - 1, 1 << (width - 1), (1 << width) - 1, (1 << width) - 2]
    pairs = [(x, y) for x in edges for y in edges if y]
    pairs += [(int(x), int(y) or 1) for x, y in rng.integers(0, 1 << min(width, 62), (300, 2))]

    def signed(x: int) -> int:
        return x - (1 << width) if x >> (width - 1) else x

    def toward_zero(x: int, y: int) -> int:
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)

    mask, dtype, type_ = (1 << width) - 1, f"u{width // 8}", IntType(width)
    a, b = (np.array(column, dtype) for column in zip(*pairs, strict=True))
    models: dict[str, Callable[[int, int], int]] = {
        "OpUDiv": lambda x, y: x // y,
        "OpUMod": lambda x, y: x % y,
        "OpSDiv": lambda x, y: toward_zero(signed(x), signed(y)),
        "OpSRem": lambda x, y: signed(x) - signed(y) * toward_zero(signed(x), signed(y)),
    }
    for name, model in models.items():
        # The least integer by -1 overflows: SPIR-V leaves the result open, so it must only not crash.
        keep = np.array([not (name[2] == "S" and x == 1 << (width - 1) and y == mask) for x, y in pairs])
        got = apply(lambda f, v, name=name: f.op(name, type_, *v), [a, b], type_)
        want = np.array([model(x, y) & mask for x, y in pairs], dtype)
        np.testing.assert_array_equal(got[keep], want[keep], name)


@pytest.mark.parametrize("name", ["OpUDiv", "OpSDiv", "OpUMod", "OpSRem"])
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_division_by_zero_does_not_end_the_device(apply: Apply, name: str, width: int) -> None:
    """The result is open in SPIR-V; a work-item that divides by zero must not take its neighbours down."""
    type_, dtype = IntType(width), f"u{width // 8}"
    a, b = np.array([7, 8, 9, 10], dtype), np.array([0, 2, 0, 5], dtype)
    got = apply(lambda f, v: f.op(name, type_, *v), [a, b], type_)
    np.testing.assert_array_equal(got[[1, 3]], [4, 2] if "Div" in name else [0, 0])


@pytest.mark.parametrize(("source", "target"), [(64, 32), (32, 16), (16, 32), (16, 64), (32, 64)])
def test_float_conversions(apply: Apply, source: int, target: int) -> None:
    """FConvert rounds to nearest even and keeps denormals."""
    rng = np.random.default_rng(7)
    scale = 2.0 ** rng.integers(-30, 17, 20000) if target == 16 else 2.0 ** rng.integers(-149, 128, 20000)
    with np.errstate(all="ignore"):
        x = (rng.standard_normal(20000) * scale).astype(f"f{source // 8}")
        want = x.astype(f"f{target // 8}")
    assert_same_bits(
        apply(lambda f, v: f.op("OpFConvert", FloatType(target), v[0]), [x], FloatType(target)), want
    )


def test_f64_to_f16_rounds_once(apply: Apply) -> None:
    """Values beside the ties of f16, which a step by way of f32 rounds onto the tie and then to the wrong
    side.
    """
    rng = np.random.default_rng(9)
    ties = (1 + (2 * rng.integers(0, 1024, 400) + 1) / 2048) * 2.0 ** rng.integers(-26, 16, 400)
    near = [ties, np.nextafter(ties, 0), np.nextafter(ties, np.inf), -np.nextafter(ties, 0)]
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 65519.99, 65520.0, 1e300, 1e-300, -1e-300, 2.0**-25]
    x = np.concatenate([*near, special])
    with np.errstate(all="ignore"):
        want = x.astype(np.float16)
    assert_same_bits(apply(lambda f, v: narrow_f64_to_f16(f, v[0]), [x], F16), want)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "model"), [("Trunc", np.trunc), ("RoundEven", np.rint), ("Floor", np.floor), ("Ceil", np.ceil)]
)
def test_rounding_to_integral_keeps_the_sign(apply: Apply, dtype: Any, name: str, model: Any) -> None:
    """-0.3 truncates to -0.0; ties go to even; large values, infinities and NaN stay."""
    x = np.concatenate(
        [np.linspace(-4, 4, 65), [np.inf, -np.inf, np.nan, -0.0, 30000.0]], dtype=np.float64
    ).astype(dtype)
    type_ = FloatType(np.dtype(dtype).itemsize * 8)
    got = apply(lambda f, v: round_to_integral(f, GLSLstd450[name], v[0]), [x], type_)
    assert_same_bits(got, model(x))


@pytest.mark.parametrize("negated", [False, True])
def test_ordered_and_unordered_comparisons(apply: Apply, negated: bool) -> None:
    """A NaN makes ordered comparisons false and unordered ones true."""
    special = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan], np.float32)
    a, b = (np.ascontiguousarray(grid.ravel()) for grid in np.meshgrid(special, special))
    unordered = np.isnan(a) | np.isnan(b)
    models = {
        "Equal": a == b,
        "NotEqual": (a != b) & ~unordered,
        "LessThan": a < b,
        "GreaterThanEqual": a >= b,
    }
    for relation, ordered in models.items():
        name = f"OpF{'Unord' if negated else 'Ord'}{relation}"

        def body(f: FunctionBuilder, v: list[Value], name: str = name) -> Value:
            one, zero = f.module.constant(U32, 1), f.module.constant(U32, 0)
            return f.op("OpSelect", U32, f.op(name, BOOL, *v), one, zero)

        np.testing.assert_array_equal(
            apply(body, [a, b], U32), ordered | unordered if negated else ordered, name
        )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_zeros_made_from_the_root_escape_simplification(
    runner: VulkanRunner, validate: Callable[[bytes], bytes], dtype: Any
) -> None:
    """x + 0.0, x * 0.0, 0.0 - x and 0.0 / x for NaN, infinities and both zeros: IEEE 754 results."""
    type_ = FloatType(np.dtype(dtype).itemsize * 8)
    kernel = place_kernel("zeros", (8, 1, 1), [Parameter(n, ParameterKind.BUFFER) for n in ("x", "out")])
    abi = ModuleAbi((kernel,))
    module = ModuleBuilder()
    root = Root(module, abi)
    f = module.function("zeros")
    module.entry_point(f, "zeros", kernel.local_size)
    index = f.extract(f.load(module.builtin(BuiltIn.GlobalInvocationId)), 0)
    source, target = (root.binding_address(f, i) for i in range(2))
    x = f.load(element_pointer(f, source, index, type_))
    zero, minus = root.float_zero(f, type_), root.float_zero(f, type_, negative=True)
    results = [
        f.exact("OpFAdd", type_, x, zero),
        f.exact("OpFMul", type_, x, zero),
        f.exact("OpFSub", type_, zero, x),
        f.exact("OpFDiv", type_, zero, x),
        f.exact("OpFAdd", type_, x, minus),
    ]
    for row, value in enumerate(results):
        place = f.op("OpIAdd", U32, index, module.constant(U32, 8 * row))
        f.store(element_pointer(f, target, place, type_), value)
    f.ret()
    record_abi(module, abi)
    data = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, -np.nan], dtype)
    out = np.zeros((5, 8), dtype)
    runner.launch(validate(module.assemble()), "zeros", (1, 1, 1), [data, out])
    null = dtype(0)
    with np.errstate(all="ignore"):
        want = np.stack([data + null, data * null, null - data, null / data, data + -null])
    assert_same_bits(out.ravel(), want.ravel())


def test_negation_and_copies_keep_bits(apply: Apply) -> None:
    """Signs flip and NaN payloads travel through loads and stores."""
    bits = np.array([0x7FA00001, 0xFFC12345, 0x00000001, 0x80000000, 0x7F800000], np.uint32)
    x = bits.view(np.float32)
    np.testing.assert_array_equal(apply(lambda f, v: v[0], [x], F32).view(np.uint32), bits)
    negated = apply(lambda f, v: f.op("OpFNegate", F32, v[0]), [x], F32)
    np.testing.assert_array_equal(negated.view(np.uint32), bits ^ 0x80000000)
