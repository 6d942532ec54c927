"""Selection of floating-point operations of the ``scalar`` dialect: f32, f16 (in 32-bit registers), f64.

Arithmetic is IEEE with denormals kept (the kernel descriptor says so). Instructions that round differently from the
language are used only under ``afn``; what has no exact sequence here is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from loom.dialects.low import ops as low
from loom.ir.core import Op, Value
from loom.ir.types import RegType, ScalarType
from loom_target_amdgpu.descriptors.comparisons import FLOAT as FLOAT_COMPARISONS
from loom_target_amdgpu.select.scalar import width
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.small_floats import SMALL_FLOATS, from_small_float
from loom_target_amdgpu.select.values import Condition, Mask, Number, Word, is_scalar

_SIGN32: Final = 0x80000000
_ONE32: Final = 0x3F800000


def kind(value: Value) -> str:
    """Spelling of a scalar type."""
    assert isinstance(value.type, ScalarType)
    return value.type.text


def operand(s: Selector, value: Value) -> Word:
    """A float of at most 32 bits in a word, or an f64 as a register pair."""
    number = s.number(value)
    return s.emit.tuple_of(number.words) if len(number.words) == 2 else number.lo


def result(s: Selector, op: Any, value: Value) -> None:
    """Set a result from a register or pair."""
    s.set(op.result, Number(s.emit.words(value)))


def refuse(s: Selector, op: Op, value: Value) -> Any:
    """The diagnostic for an element type without instructions."""
    return s.unsupported(
        op, f"'{op.name}' on {value.type} is not supported on {s.processor.name}", actual_type=str(value.type)
    )


# -- arithmetic ------------------------------------------------------------------------------------------------------

_BINARY: Final = {
    ("scalar.addf", "f32"): "v_add_f32",
    ("scalar.mulf", "f32"): "v_mul_f32",
    ("scalar.subf", "f32"): "v_sub_f32",
    ("scalar.addf", "f16"): "v_add_f16",
    ("scalar.mulf", "f16"): "v_mul_f16",
    ("scalar.subf", "f16"): "v_sub_f16",
    ("scalar.addf", "f64"): "v_add_f64",
    ("scalar.mulf", "f64"): "v_mul_f64",
    ("scalar.subf", "f64"): "v_add_f64_neg_rhs",
}


def _binary(s: Selector, op: Any) -> None:
    type_ = kind(op.result)
    if type_ == "bf16":
        a, b = (widen_bf16(s, s.number(v).lo) for v in (op.lhs, op.rhs))
        mnemonic = _BINARY[op.name, "f32"]
        s.set(op.result, Number((narrow_bf16(s, s.emit.op(mnemonic, a, b)),)))
        return
    mnemonic_or_none = _BINARY.get((op.name, type_))
    if mnemonic_or_none is None:
        raise refuse(s, op, op.result)
    a, b = operand(s, op.lhs), operand(s, op.rhs)
    if (
        mnemonic_or_none == "v_sub_f32"
        and not isinstance(b, int)
        and is_scalar(b)
        and not is_scalar(a)
        and s.emit.has("v_subrev_f32")
    ):
        result(s, op, s.emit.op("v_subrev_f32", b, a, name=op.result.name))
        return
    result(s, op, s.emit.op(mnemonic_or_none, a, b, name=op.result.name))


def widen_bf16(s: Selector, word: Word) -> Word:
    """bf16 to f32: the upper half of a word."""
    return s.arith.binary("shl", word, 16)


def narrow_bf16(s: Selector, word: Word) -> Word:
    """f32 to bf16, nearest even; a NaN stays a (quiet) NaN."""
    arith = s.arith
    lsb = s.arith.binary("and", arith.binary("shru", word, 16), 1)
    rounded = arith.binary("shru", arith.binary("add", arith.binary("add", word, 0x7FFF), lsb), 16)
    quiet = arith.binary("shru", arith.binary("or", word, 0x400000), 16)
    nan = s.emit.op("v_cmp_u_f32", word, word)
    return arith.select(Mask(nan), quiet, rounded)


def _fused(s: Selector, op: Any) -> None:
    type_ = kind(op.result)
    operands = [operand(s, v) for v in (op.a, op.b, op.c)]
    if type_ not in ("f32", "f16", "f64"):
        raise refuse(s, op, op.result)
    result(s, op, s.emit.op(f"v_fma_{type_}", *operands, name=op.result.name))


def _sign_bit(s: Selector, op: Any) -> None:
    number = s.number(op.input)
    high = {"f16": 0x8000, "bf16": 0x8000}.get(kind(op.result), _SIGN32)
    if kind(op.result) in ("f8E4M3", "f8E5M2"):
        high = 0x80
    top = number.words[-1]
    changed = s.arith.binary("xor", top, high) if op.name == "scalar.negf" else s.arith.binary("and", top, high - 1)
    s.set(op.result, Number((*number.words[:-1], changed)))


def _copy_sign(s: Selector, op: Any) -> None:
    a, b = s.number(op.lhs), s.number(op.rhs)
    high = 0x8000 if width(op.result) == 16 else 0x80 if width(op.result) == 8 else _SIGN32
    top = s.arith.binary("or", s.arith.binary("and", a.words[-1], high - 1), s.arith.binary("and", b.words[-1], high))
    s.set(op.result, Number((*a.words[:-1], top)))


# -- minimum and maximum ---------------------------------------------------------------------------------------------


def as_f32(s: Selector, op: Op, value: Value) -> Word:
    """A float of at most 32 bits as f32, exactly."""
    word, type_ = s.number(value).lo, kind(value)
    if type_ == "f32":
        return word
    if type_ == "f16":
        return s.emit.op("v_cvt_f32_f16", word)
    if type_ == "bf16":
        return widen_bf16(s, word)
    if type_ in ("f8E4M3", "f8E5M2"):
        return from_small_float(s, word, SMALL_FLOATS[type_])
    raise refuse(s, op, value)


def _minmax(s: Selector, op: Any) -> None:
    """``minnumf``/``maxnumf`` ignore a NaN, ``minimumf``/``maximumf`` spread it; both order -0 below +0 here."""
    type_ = kind(op.result)
    larger = "max" in op.name
    spread = op.name.endswith(("minimumf", "maximumf"))
    if type_ in ("f16", "bf16", "f32"):
        a, b = as_f32(s, op, op.lhs), as_f32(s, op, op.rhs)
        found = min_max_f32(s, a, b, larger, spread)
        s.set(op.result, Number((back_from_f32(s, found, type_),)))
    elif type_ == "f64":
        x, y = operand(s, op.lhs), operand(s, op.rhs)
        result(s, op, _min_max_f64(s, x, y, larger, spread))
    else:
        raise refuse(s, op, op.result)


def min_max_f32(s: Selector, a: Word, b: Word, larger: bool, spread: bool) -> Word:
    """Minimum or maximum of two f32 words."""
    emit = s.emit
    word = "max" if larger else "min"
    if spread and emit.has("v_minimum_f32"):
        return emit.op("v_maximum_f32" if larger else "v_minimum_f32", a, b)
    # In IEEE mode the instruction returns a quiet NaN for a signalling operand; quieting both first keeps the rule
    # that a NaN operand is ignored.
    x, y = (quiet(s, w) for w in (a, b))
    found = emit.op(f"v_{word}_f32", x, y)
    if not spread:
        return found
    nan = emit.op("v_cmp_u_f32", x, y)
    return s.arith.select(Mask(nan), emit.op("v_add_f32", x, y), found)


_QUIETING: Final = re.compile(
    r"v_(add|sub|subrev|mul|fma|fmac|fmaak|fmamk|min|max|minimum|maximum|ldexp|exp|log|sqrt|rcp|rsq|div_fixup)_f32"
    r"|v_(cvt_f32|rndne_f32|floor_f32|ceil_f32|trunc_f32)"
)
_MOVES: Final = ("v_mov_b32_copy", "ds_swizzle_b32", "ds_bpermute_b32", "v_readfirstlane_b32")
_FAR: Final = 6


def quiet(s: Selector, word: Word) -> Word:
    """An f32 word in which no NaN is a signalling one."""
    if isinstance(word, int):
        nan = word & 0x7FFFFFFF > 0x7F800000
        return word | 0x400000 if nan else word
    return word if word in s.quiet or _is_quiet(word, _FAR) else s.emit.op("v_mul_f32", _ONE32, word)


def _is_quiet(word: Value, steps: int) -> bool:
    """Whether arithmetic made the word: its results are quiet, whatever lane they are moved to."""
    op = word.defining_op
    if not isinstance(op, low.Packet) or steps == 0:
        return False
    name = op.key.removeprefix("amdgpu.")
    if name.startswith(_MOVES):
        return _is_quiet(op.operands[-1], steps - 1)
    return _QUIETING.match(name) is not None


def _min_max_f64(s: Selector, a: Word, b: Word, larger: bool, spread: bool) -> Value:
    emit = s.emit
    word = "max" if larger else "min"
    if spread and emit.has("v_minimum_f64"):
        return emit.op("v_maximum_f64" if larger else "v_minimum_f64", a, b)
    one = emit.constant(0x3FF0000000000000, scalar=True, units=2)
    x, y = (emit.op("v_mul_f64", w, one) for w in (a, b))
    found = emit.op(f"v_{word}_f64", x, y)
    if not spread:
        return found
    nan = Mask(emit.op("v_cmp_u_f64", x, y))
    total = emit.words(emit.op("v_add_f64", x, y))
    picked = [s.arith.select(nan, t, f) for t, f in zip(total, emit.words(found), strict=True)]
    return emit.tuple_of(tuple(picked))


def _clamp(s: Selector, op: Any) -> None:
    type_ = kind(op.result)
    wide = type_ == "f64"
    given = (op.value, op.lower, op.upper)
    value, lower, upper = (operand(s, v) if wide else as_f32(s, op, v) for v in given)
    if op.mode == "ordered":
        width_ = "f64" if wide else "f32"
        clamped = pick(s, Mask(s.emit.op(f"v_cmp_lt_{width_}", value, lower)), lower, value)
        found = pick(s, Mask(s.emit.op(f"v_cmp_gt_{width_}", clamped, upper)), upper, clamped)
    else:
        spread = op.mode == "ieee"
        apply = _min_max_f64 if wide else min_max_f32
        found = apply(s, apply(s, value, lower, True, spread), upper, False, spread)
    if wide:
        result(s, op, found)  # type: ignore[arg-type]  # a pair of registers
    else:
        s.set(op.result, Number((back_from_f32(s, found, type_),)))


def pick(s: Selector, condition: Mask, a: Word, b: Word) -> Word:
    """One of two words or register pairs."""
    if isinstance(a, Value) and isinstance(b, Value) and isinstance(a.type, RegType) and a.type.count == 2:
        pairs = zip(s.emit.words(a), s.emit.words(b), strict=True)
        return s.emit.tuple_of(tuple(s.arith.select(condition, x, y) for x, y in pairs))
    return s.arith.select(condition, a, b)


def back_from_f32(s: Selector, word: Word, type_: str) -> Word:
    """An f32 that is a number of a 16-bit format, in that format."""
    if type_ == "f16":
        return s.emit.op("v_cvt_f16_f32", word)
    return s.arith.binary("shru", word, 16) if type_ == "bf16" else word


# -- division and roots ----------------------------------------------------------------------------------------------


def _divide(s: Selector, op: Any) -> None:
    type_ = kind(op.result)
    a, b = operand(s, op.lhs), operand(s, op.rhs)
    if type_ == "f32":
        flags = op.flags or ()
        if "arcp" in flags or "afn" in flags or "fast" in flags:
            result(s, op, s.emit.op("v_mul_f32", a, s.emit.op("v_rcp_f32", b), name=op.result.name))
        else:
            s.set(op.result, Number((divide_f32(s, a, b),)))
    elif type_ == "f64":
        result(s, op, _divide_f64(s, a, b))
    elif type_ in ("f16", "bf16"):
        # The f32 quotient has more than twice the bits of the result, so rounding twice is rounding once.
        found = divide_f32(s, as_f32(s, op, op.lhs), as_f32(s, op, op.rhs))
        s.set(op.result, Number((s.emit.op("v_cvt_f16_f32", found) if type_ == "f16" else narrow_bf16(s, found),)))
    else:
        raise refuse(s, op, op.result)


def divide_f32(s: Selector, a: Word, b: Word) -> Word:
    """The correctly rounded quotient: scale, one reciprocal refined by fused steps, unscale and fix special cases."""
    emit = s.emit
    a, b = emit.register(a, False), emit.register(b, False)
    denominator, _ = emit.packet("v_div_scale_f32", b, b, a)
    numerator, scaled = emit.packet("v_div_scale_f32", a, b, a)
    estimate = emit.op("v_rcp_f32", denominator)
    error = _one_minus(s, denominator, estimate)
    refined = emit.op("v_fma_f32", error, estimate, estimate)
    quotient = emit.op("v_mul_f32", numerator, refined)
    rest = emit.op("v_fma_f32_neg_a", denominator, quotient, numerator)
    better = emit.op("v_fma_f32", rest, refined, quotient)
    last = emit.op("v_fma_f32_neg_a", denominator, better, numerator)
    combined = emit.op("v_div_fmas_f32", last, refined, better, scaled)
    return emit.op("v_div_fixup_f32", combined, b, a)


def _one_minus(s: Selector, a: Value, b: Value) -> Value:
    """1 - a * b with one rounding."""
    return s.emit.packet("v_fma_f32_neg_a_src2_inline", a, b, c="f32_1_0")[0]


def _divide_f64(s: Selector, a: Word, b: Word) -> Value:
    emit = s.emit
    assert isinstance(a, Value)
    assert isinstance(b, Value)
    a, b = emit.to_vector(a), emit.to_vector(b)
    one = emit.constant(0x3FF0000000000000, scalar=True, units=2)
    denominator, _ = emit.packet("v_div_scale_f64", b, b, a)
    estimate: Value = emit.op("v_rcp_f64", denominator)
    for _ in range(2):
        error = emit.op("v_fma_f64_neg_a", denominator, estimate, one)
        estimate = emit.op("v_fma_f64", estimate, error, estimate)
    numerator, scaled = emit.packet("v_div_scale_f64", a, b, a)
    quotient = emit.op("v_mul_f64", numerator, estimate)
    rest = emit.op("v_fma_f64_neg_a", denominator, quotient, numerator)
    combined = emit.op("v_div_fmas_f64", rest, estimate, quotient, scaled)
    return emit.op("v_div_fixup_f64", combined, b, a)


def _square_root(s: Selector, op: Any) -> None:
    type_ = kind(op.result)
    if type_ in ("f16", "bf16"):
        root = s.emit.op("v_sqrt_f32", as_f32(s, op, op.input))
        s.set(op.result, Number((s.emit.op("v_cvt_f16_f32", root) if type_ == "f16" else narrow_bf16(s, root),)))
        return
    if type_ == "f64":
        result(s, op, _exact_sqrt_f64(s, operand(s, op.input)))
        return
    if type_ != "f32":
        raise refuse(s, op, op.result)
    word = s.number(op.input).lo
    if _approximate(op):
        result(s, op, s.emit.op("v_sqrt_f32", word, name=op.result.name))
        return
    s.set(op.result, Number((exact_sqrt(s, word),)))


def exact_sqrt(s: Selector, word: Word) -> Word:
    """The correctly rounded root: the instruction is off by at most one unit; the residuals of the two neighbours
    say which of the three it is. Small arguments are scaled by 2^32 so that residuals stay normal."""
    emit, arith = s.emit, s.arith
    small = Mask(emit.op("v_cmp_gt_f32", 0x0F800000, word))
    scaled = arith.select(small, emit.op("v_mul_f32", 0x4F800000, word), word)
    root = emit.op("v_sqrt_f32", scaled)
    down, up = arith.binary("add", root, -1), arith.binary("add", root, 1)
    below = emit.op("v_fma_f32_neg_a", down, root, scaled)
    above = emit.op("v_fma_f32_neg_a", up, root, scaled)
    too_large = Mask(emit.op("v_cmp_ge_f32", 0, below))
    too_small = Mask(emit.op("v_cmp_lt_f32", 0, above))
    found = arith.select(too_small, up, arith.select(too_large, down, root))
    found = arith.select(small, emit.op("v_mul_f32", 0x37800000, found), found)
    # Zeros and positive infinity are their own roots; the residuals of infinity are NaN.
    special = Mask(emit.op("v_cmp_class_f32", scaled, 0x260))
    return arith.select(special, scaled, found)


def _exact_sqrt_f64(s: Selector, wide: Word) -> Value:
    """The correctly rounded root: Goldschmidt's iteration from the reciprocal root, then two residual steps
    (P. Markstein, "Software Division and Square Root Using Goldschmidt's Algorithms", 2004). Small arguments are
    scaled by 2^256, as residuals must stay normal."""
    emit, arith = s.emit, s.arith
    x = emit.to_vector(wide) if isinstance(wide, Value) else wide
    small = Mask(emit.op("v_cmp_gt_f64", emit.constant(0x1000000000000000, True, 2), x))
    scaled = emit.op("v_ldexp_f64", x, arith.select(small, 256, 0))
    estimate = emit.op("v_rsq_f64", scaled)
    half = emit.constant(0x3FE0000000000000, True, 2)
    root = emit.op("v_mul_f64", scaled, estimate)
    slope = emit.op("v_mul_f64", estimate, half)
    error = emit.op("v_fma_f64_neg_a", slope, root, half)
    root = emit.op("v_fma_f64", root, error, root)
    slope = emit.op("v_fma_f64", slope, error, slope)
    for _ in range(2):
        rest = emit.op("v_fma_f64_neg_a", root, root, scaled)
        root = emit.op("v_fma_f64", rest, slope, root)
    found = emit.op("v_ldexp_f64", root, arith.select(small, -128 & 0xFFFFFFFF, 0))
    # Zeros and positive infinity are their own roots.
    special = Mask(emit.op("v_cmp_class_f64", scaled, 0x260))
    chosen = pick(s, special, x, found)
    assert isinstance(chosen, Value)
    return chosen


def _approximate(op: Any) -> bool:
    flags = op.flags or ()
    return "afn" in flags or "fast" in flags


# -- rounding --------------------------------------------------------------------------------------------------------

_ROUNDING: Final = {
    "scalar.floorf": "floor",
    "scalar.ceilf": "ceil",
    "scalar.truncf": "trunc",
    "scalar.roundevenf": "rndne",
}


def _round(s: Selector, op: Any) -> None:
    type_ = kind(op.result)
    if type_ == "bf16":
        found = s.emit.op(f"v_{_ROUNDING[op.name]}_f32", as_f32(s, op, op.input))
        s.set(op.result, Number((s.arith.binary("shru", found, 16),)))
        return
    if type_ not in ("f16", "f32", "f64"):
        raise refuse(s, op, op.result)
    result(s, op, s.emit.op(f"v_{_ROUNDING[op.name]}_{type_}", operand(s, op.input), name=op.result.name))


def _round_away(s: Selector, op: Any) -> None:
    """Ties away from zero: add one unit of the sign where the fraction is at least a half."""
    type_ = kind(op.result)
    if type_ == "f64":
        result(s, op, _round_away_f64(s, operand(s, op.input)))
        return
    word = s.emit.register(as_f32(s, op, op.input), False)
    whole = s.emit.op("v_trunc_f32", word)
    fraction = s.arith.binary("and", s.emit.op("v_sub_f32", word, whole), 0x7FFFFFFF)
    half = Mask(s.emit.op("v_cmp_ge_f32", fraction, 0x3F000000))
    step = s.arith.select(half, _ONE32, 0)
    step = s.arith.binary("or", step, s.arith.binary("and", word, _SIGN32))
    s.set(op.result, Number((back_from_f32(s, s.emit.op("v_add_f32", whole, step), type_),)))


def _round_away_f64(s: Selector, wide: Word) -> Value:
    emit, arith = s.emit, s.arith
    x = emit.to_vector(wide) if isinstance(wide, Value) else wide
    whole = emit.op("v_trunc_f64", x)
    low, high = emit.words(emit.op("v_add_f64_neg_rhs", x, whole))
    size = emit.tuple_of((low, arith.binary("and", high, _SIGN32 - 1)))
    half = Mask(emit.op("v_cmp_ge_f64", size, emit.constant(0x3FE0000000000000, True, 2)))
    step = arith.select(half, 0x3FF00000, 0)
    step = arith.binary("or", step, arith.binary("and", emit.words(x)[1], _SIGN32))  # type: ignore[arg-type]  # a pair
    return emit.op("v_add_f64", whole, emit.tuple_of((0, step), False))


# -- comparisons and tests -------------------------------------------------------------------------------------------


def _compare(s: Selector, op: Any) -> None:
    s.set(op.result, compare_floats(s, op, op.predicate, op.lhs, op.rhs, op.result.name))


def compare_floats(s: Selector, op: Op, predicate: str, lhs: Value, rhs: Value, name: str | None = None) -> Condition:
    """Compare two floats."""
    type_ = kind(lhs)
    word = FLOAT_COMPARISONS[predicate]
    if type_ == "bf16":
        a, b = as_f32(s, op, lhs), as_f32(s, op, rhs)
        type_ = "f32"
    elif type_ in ("f16", "f32", "f64"):
        a, b = operand(s, lhs), operand(s, rhs)
    else:
        raise refuse(s, op, lhs)
    return Mask(s.emit.op(f"v_cmp_{word}_{type_}", a, b, name=name))


# Bits of the class test: signalling NaN 0, quiet NaN 1, infinities 2 and 9, finite 3 to 8.
_CLASSES: Final = {"scalar.isnanf": 0x003, "scalar.isinff": 0x204, "scalar.isfinitef": 0x1F8}


def _classify(s: Selector, op: Any) -> None:
    type_ = kind(op.input)
    if type_ in ("f16", "bf16", "f32"):
        mask = s.emit.op("v_cmp_class_f32", as_f32(s, op, op.input), _CLASSES[op.name], name=op.result.name)
    elif type_ == "f64":
        mask = s.emit.op("v_cmp_class_f64", operand(s, op.input), _CLASSES[op.name], name=op.result.name)
    else:
        raise refuse(s, op, op.input)
    s.set(op.result, Mask(mask))


_ONE: Final = {"f16": 0x3C00, "bf16": 0x3F80, "f32": _ONE32, "f64": 0x3FF00000}


def _sign(s: Selector, op: Any) -> None:
    """One with the sign of the operand; zeros and NaN become zero. Of an f64 the high word tells."""
    type_ = kind(op.result)
    if type_ not in _ONE:
        raise refuse(s, op, op.result)
    one = _ONE[type_]
    minus = one | (0x8000 if one < 0x10000 else _SIGN32)
    wide = type_ == "f64"
    word = operand(s, op.input) if wide else as_f32(s, op, op.input)
    zero = s.emit.constant(0, True, 2) if wide else 0
    word = s.emit.to_vector(word) if isinstance(word, Value) else s.emit.register(word, False)
    name = "f64" if wide else "f32"
    positive = Mask(s.emit.op(f"v_cmp_gt_{name}", word, zero))
    negative = Mask(s.emit.op(f"v_cmp_lt_{name}", word, zero))
    found = s.arith.select(negative, minus, s.arith.select(positive, one, 0))
    s.set(op.result, Number((0, found) if wide else (found,)))


def _names(words: Sequence[str]) -> list[str]:
    return [f"scalar.{word}" for word in words]


RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(_names(["addf", "subf", "mulf"]), _binary),
    "scalar.fmaf": _fused,
    "scalar.negf": _sign_bit,
    "scalar.absf": _sign_bit,
    "scalar.copysignf": _copy_sign,
    "scalar.clampf": _clamp,
    "scalar.divf": _divide,
    **dict.fromkeys(_names(["minimumf", "maximumf", "minnumf", "maxnumf"]), _minmax),
    "scalar.sqrtf": _square_root,
    **dict.fromkeys(_ROUNDING, _round),
    "scalar.roundf": _round_away,
    "scalar.cmpf": _compare,
    **dict.fromkeys(_CLASSES, _classify),
    "scalar.signf": _sign,
}
