"""Selection of floating-point operations of the ``scalar`` dialect: f32, f16 (in 32-bit registers), f64.

Arithmetic is IEEE with denormals kept (the kernel descriptor says so). Instructions that round differently from the
language are used only under ``afn``; what has no exact sequence here is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loom.ir.core import Op, Value
from loom.ir.types import ScalarType
from loom_target_amdgpu.descriptors.comparisons import FLOAT as FLOAT_COMPARISONS
from loom_target_amdgpu.select.scalar import extended, width
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import Condition, Mask, Number, Word, is_scalar

_SIGN32: Final = 0x80000000
_ONE32: Final = 0x3F800000


def kind(value: Value) -> str:
    """Spelling of a scalar type."""
    assert isinstance(value.type, ScalarType)
    return value.type.text


def _operand(s: Selector, value: Value) -> Word:
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
    a, b = _operand(s, op.lhs), _operand(s, op.rhs)
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
    operands = [_operand(s, v) for v in (op.a, op.b, op.c)]
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


def _as_f32(s: Selector, value: Value) -> Word:
    """A float of at most 32 bits as f32, exactly."""
    word = s.number(value).lo
    if kind(value) == "f16":
        return s.emit.op("v_cvt_f32_f16", word)
    return widen_bf16(s, word) if kind(value) == "bf16" else word


def _minmax(s: Selector, op: Any) -> None:
    """``minnumf``/``maxnumf`` ignore a NaN, ``minimumf``/``maximumf`` spread it; both order -0 below +0 here."""
    type_ = kind(op.result)
    larger = "max" in op.name
    spread = op.name.endswith(("minimumf", "maximumf"))
    if type_ in ("f16", "bf16", "f32"):
        a, b = _as_f32(s, op.lhs), _as_f32(s, op.rhs)
        found = min_max_f32(s, a, b, larger, spread)
        if type_ == "f16":
            found = s.emit.op("v_cvt_f16_f32", found)
        elif type_ == "bf16":
            found = s.arith.binary("shru", found, 16)
        s.set(op.result, Number((found,)))
    elif type_ == "f64":
        x, y = _operand(s, op.lhs), _operand(s, op.rhs)
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
    x, y = (_quiet(s, w) for w in (a, b))
    found = emit.op(f"v_{word}_f32", x, y)
    if not spread:
        return found
    nan = emit.op("v_cmp_u_f32", x, y)
    return s.arith.select(Mask(nan), emit.op("v_add_f32", x, y), found)


def _quiet(s: Selector, word: Word) -> Word:
    if isinstance(word, int):
        nan = word & 0x7FFFFFFF > 0x7F800000
        return word | 0x400000 if nan else word
    return s.emit.op("v_mul_f32", _ONE32, word)


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
    if kind(op.result) != "f32":
        raise refuse(s, op, op.result)
    value, lower, upper = (s.number(v).lo for v in (op.value, op.lower, op.upper))
    if op.mode == "ordered":
        below = Mask(s.emit.op("v_cmp_lt_f32", value, lower))
        clamped = s.arith.select(below, lower, value)
        above = Mask(s.emit.op("v_cmp_gt_f32", clamped, upper))
        found = s.arith.select(above, upper, clamped)
    else:
        spread = op.mode == "ieee"
        found = min_max_f32(s, min_max_f32(s, value, lower, True, spread), upper, False, spread)
    s.set(op.result, Number((found,)))


# -- division and roots ----------------------------------------------------------------------------------------------


def _divide(s: Selector, op: Any) -> None:
    type_ = kind(op.result)
    a, b = _operand(s, op.lhs), _operand(s, op.rhs)
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
        found = divide_f32(s, _as_f32(s, op.lhs), _as_f32(s, op.rhs))
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
        root = s.emit.op("v_sqrt_f32", _as_f32(s, op.input))
        s.set(op.result, Number((s.emit.op("v_cvt_f16_f32", root) if type_ == "f16" else narrow_bf16(s, root),)))
        return
    if type_ != "f32":
        raise refuse(s, op, op.result)
    word = s.number(op.input).lo
    if _approximate(op):
        result(s, op, s.emit.op("v_sqrt_f32", word, name=op.result.name))
        return
    s.set(op.result, Number((_exact_sqrt(s, word),)))


def _exact_sqrt(s: Selector, word: Word) -> Word:
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
        found = s.emit.op(f"v_{_ROUNDING[op.name]}_f32", _as_f32(s, op.input))
        s.set(op.result, Number((s.arith.binary("shru", found, 16),)))
        return
    if type_ not in ("f16", "f32", "f64"):
        raise refuse(s, op, op.result)
    result(s, op, s.emit.op(f"v_{_ROUNDING[op.name]}_{type_}", _operand(s, op.input), name=op.result.name))


def _round_away(s: Selector, op: Any) -> None:
    """Ties away from zero: add one unit of the sign where the fraction is at least a half."""
    if kind(op.result) != "f32":
        raise refuse(s, op, op.result)
    word = s.emit.register(s.number(op.input).lo, False)
    whole = s.emit.op("v_trunc_f32", word)
    fraction = s.arith.binary("and", s.emit.op("v_sub_f32", word, whole), 0x7FFFFFFF)
    half = Mask(s.emit.op("v_cmp_ge_f32", fraction, 0x3F000000))
    step = s.arith.select(half, _ONE32, 0)
    step = s.arith.binary("or", step, s.arith.binary("and", word, _SIGN32))
    s.set(op.result, Number((s.emit.op("v_add_f32", whole, step, name=op.result.name),)))


# -- comparisons and tests -------------------------------------------------------------------------------------------

def _compare(s: Selector, op: Any) -> None:
    s.set(op.result, compare_floats(s, op, op.predicate, op.lhs, op.rhs, op.result.name))


def compare_floats(s: Selector, op: Op, predicate: str, lhs: Value, rhs: Value, name: str | None = None) -> Condition:
    """Compare two floats."""
    type_ = kind(lhs)
    word = FLOAT_COMPARISONS[predicate]
    if type_ == "bf16":
        a, b = _as_f32(s, lhs), _as_f32(s, rhs)
        type_ = "f32"
    elif type_ in ("f16", "f32", "f64"):
        a, b = _operand(s, lhs), _operand(s, rhs)
    else:
        raise refuse(s, op, lhs)
    return Mask(s.emit.op(f"v_cmp_{word}_{type_}", a, b, name=name))


# Bits of the class test: signalling NaN 0, quiet NaN 1, infinities 2 and 9, finite 3 to 8.
_CLASSES: Final = {"scalar.isnanf": 0x003, "scalar.isinff": 0x204, "scalar.isfinitef": 0x1F8}


def _classify(s: Selector, op: Any) -> None:
    type_ = kind(op.input)
    if type_ in ("f16", "bf16", "f32"):
        mask = s.emit.op("v_cmp_class_f32", _as_f32(s, op.input), _CLASSES[op.name], name=op.result.name)
    elif type_ == "f64":
        mask = s.emit.op("v_cmp_class_f64", _operand(s, op.input), _CLASSES[op.name], name=op.result.name)
    else:
        raise refuse(s, op, op.input)
    s.set(op.result, Mask(mask))


def _sign(s: Selector, op: Any) -> None:
    if kind(op.result) != "f32":
        raise refuse(s, op, op.result)
    word = s.emit.register(s.number(op.input).lo, False)
    positive = Mask(s.emit.op("v_cmp_gt_f32", word, 0))
    negative = Mask(s.emit.op("v_cmp_lt_f32", word, 0))
    found = s.arith.select(negative, 0xBF800000, s.arith.select(positive, _ONE32, 0))
    s.set(op.result, Number((found,)))


# -- conversions -----------------------------------------------------------------------------------------------------


def _from_integer(s: Selector, op: Any) -> None:
    signed = op.name == "scalar.sitofp"
    bits, target = width(op.input), kind(op.result)
    if bits == 64:
        raise s.unsupported(op, f"'{op.name}' from i64 is not supported on {s.processor.name}")
    if bits == 1:
        word = s.condition_word(s.condition(op.input))
        word = s.arith.sub(0, word) if signed else word
    else:
        word = extended(s, s.number(op.input), bits, signed)
    word = s.emit.register(word, False) if isinstance(word, int) else word
    letter = "i" if signed else "u"
    if target == "f64":
        result(s, op, s.emit.op(f"v_cvt_f64_{letter}32", word, name=op.result.name))
    elif target == "f32":
        result(s, op, s.emit.op(f"v_cvt_f32_{letter}32", word, name=op.result.name))
    elif target in ("f16", "bf16") and bits <= 16:
        # Exact in f32, so there is one rounding.
        single = s.emit.op(f"v_cvt_f32_{letter}32", word)
        s.set(op.result, Number((s.emit.op("v_cvt_f16_f32", single) if target == "f16" else narrow_bf16(s, single),)))
    else:
        raise refuse(s, op, op.result)


def _to_integer(s: Selector, op: Any) -> None:
    signed = op.name == "scalar.fptosi"
    bits, source = width(op.result), kind(op.input)
    if bits == 64:
        raise s.unsupported(op, f"'{op.name}' to i64 is not supported on {s.processor.name}")
    letter = "i" if signed else "u"
    if source == "f64":
        word: Word = s.emit.op(f"v_cvt_{letter}32_f64", _operand(s, op.input), name=op.result.name)
    elif source in ("f16", "bf16", "f32"):
        word = s.emit.op(f"v_cvt_{letter}32_f32", _as_f32(s, op.input), name=op.result.name)
    else:
        raise refuse(s, op, op.input)
    if bits == 1:
        s.set(op.result, Mask(s.emit.op("v_cmp_ne_i32", s.arith.binary("and", word, 1), 0)))
    else:
        s.set(op.result, Number((word,)))


def _widen(s: Selector, op: Any) -> None:
    source, target = kind(op.input), kind(op.result)
    if source not in ("f16", "bf16", "f32"):
        raise refuse(s, op, op.input)
    word = _as_f32(s, op.input)
    if target == "f64":
        result(s, op, s.emit.op("v_cvt_f64_f32", word, name=op.result.name))
    else:
        s.set(op.result, Number((word,)))


def _narrow(s: Selector, op: Any) -> None:
    source, target = kind(op.input), kind(op.result)
    if source == "f64" and target == "f32":
        result(s, op, s.emit.op("v_cvt_f32_f64", _operand(s, op.input), name=op.result.name))
    elif source == "f32" and target == "f16":
        result(s, op, s.emit.op("v_cvt_f16_f32", s.number(op.input).lo, name=op.result.name))
    elif source == "f32" and target == "bf16":
        s.set(op.result, Number((narrow_bf16(s, s.emit.register(s.number(op.input).lo, False)),)))
    else:
        raise refuse(s, op, op.result)


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
    "scalar.sitofp": _from_integer,
    "scalar.uitofp": _from_integer,
    "scalar.fptosi": _to_integer,
    "scalar.fptoui": _to_integer,
    "scalar.extf": _widen,
    "scalar.fptrunc": _narrow,
}
