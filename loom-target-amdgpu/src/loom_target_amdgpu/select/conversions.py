"""Selection of conversions between integers and floats and between float formats, each rounded once.

Where the hardware has no direct instruction, the value passes through a wider format that is rounded to odd: cut
off, with the lowest bit set if anything was lost. Rounding that once more to a format at least two bits narrower
gives what one rounding would have given (S. Boldo and G. Melquiond, "Emulation of FMA and Correctly Rounded Sums",
IEEE Transactions on Computers 57, 2008).
"""

from __future__ import annotations

from typing import Any, Final

from loom.ir.core import Value
from loom_target_amdgpu.select.scalar import as_pair, extended, width
from loom_target_amdgpu.select.scalar_float import as_f32, kind, narrow_bf16, operand, refuse, result
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.small_floats import SMALL_FLOATS, to_small_float
from loom_target_amdgpu.select.values import Mask, Number, Word

_SIGN: Final = 0x80000000


def _or_one_if(s: Selector, word: Word, rest: Word) -> Word:
    """The word with its lowest bit set if the rest is not zero."""
    return s.arith.binary("or", word, s.arith.binary("minu", rest, 1))


# -- from integers ---------------------------------------------------------------------------------------------------


def _from_integer(s: Selector, op: Any) -> None:
    signed = op.name == "scalar.sitofp"
    bits, target = width(op.input), kind(op.result)
    if bits == 1:
        word = s.condition_word(s.condition(op.input))
        words: tuple[Word, ...] = (s.arith.sub(0, word) if signed else word,)
    elif bits == 64:
        words = as_pair(s.number(op.input))
    else:
        words = (extended(s, s.number(op.input), bits, signed),)
    words = tuple(s.emit.register(w, False) if isinstance(w, int) else w for w in words)
    letter = "i" if signed else "u"
    if target == "f64":
        result(s, op, _pair_to_f64(s, words, letter) if bits == 64 else s.emit.op(f"v_cvt_f64_{letter}32", words[0]))
    elif target == "f32" and bits < 64:
        result(s, op, s.emit.op(f"v_cvt_f32_{letter}32", words[0], name=op.result.name))
    elif target in ("f16", "bf16", "f32"):
        if bits <= 16:
            single: Word = s.emit.op(f"v_cvt_f32_{letter}32", words[0])
        else:
            single = scaled_f32(s, words, signed, to_odd=target != "f32")
        s.set(op.result, Number((_from_f32(s, single, target),)))
    else:
        raise refuse(s, op, op.result)


def _pair_to_f64(s: Selector, words: tuple[Word, ...], letter: str) -> Value:
    """Both halves are exact; their sum is rounded."""
    emit = s.emit
    high = emit.op("v_ldexp_f64", emit.op(f"v_cvt_f64_{letter}32", words[1]), 32)
    return emit.op("v_add_f64", high, emit.op("v_cvt_f64_u32", words[0]))


def scaled_f32(s: Selector, words: tuple[Word, ...], signed: bool, to_odd: bool) -> Word:
    """An integer as f32: its leading 32 bits, what is lost below them in the lowest one, and a power of two.

    With ``to_odd`` the f32 itself is rounded to odd, for formats that are narrower still.
    """
    arith, emit = s.arith, s.emit
    sign: Word = 0
    if signed:
        sign = arith.sign(words[-1])
        flipped = tuple(arith.binary("xor", w, sign) for w in words)
        words = (
            arith.sub64((flipped[0], flipped[1]), (sign, sign)) if len(words) == 2 else (arith.sub(flipped[0], sign),)
        )
    words = tuple(emit.register(w, False) for w in words)
    # The instruction counts -1 zeros in zero, which is more than any other number of them.
    zeros: Word = emit.op("v_ffbh_u32", words[-1])
    below = arith.binary("add", emit.op("v_ffbh_u32", words[0]), 32) if len(words) == 2 else 31
    zeros = arith.binary("minu", zeros, below)
    if len(words) == 2:
        low, high = arith.shift64("shl", (words[0], words[1]), zeros)
        leading = _or_one_if(s, high, low)
    else:
        leading = arith.binary("shl", words[0], zeros)
    power = arith.sub(32 if len(words) == 2 else 0, zeros)
    if to_odd:
        leading = _or_one_if(s, arith.binary("shru", leading, 8), arith.binary("and", leading, 0xFF))
        power = arith.binary("add", power, 8)
    magnitude = emit.op("v_ldexp_f32", emit.op("v_cvt_f32_u32", leading), power)
    return arith.binary("or", magnitude, arith.binary("and", sign, _SIGN)) if signed else magnitude


# -- to integers -----------------------------------------------------------------------------------------------------


def _to_integer(s: Selector, op: Any) -> None:
    signed = op.name == "scalar.fptosi"
    bits, source = width(op.result), kind(op.input)
    letter = "i" if signed else "u"
    if bits == 64:
        wide = operand(s, op.input) if source == "f64" else s.emit.op("v_cvt_f64_f32", as_f32(s, op, op.input))
        s.set(op.result, Number(_f64_to_pair(s, wide, letter)))
        return
    if source == "f64":
        word: Word = s.emit.op(f"v_cvt_{letter}32_f64", operand(s, op.input), name=op.result.name)
    else:
        word = s.emit.op(f"v_cvt_{letter}32_f32", as_f32(s, op, op.input), name=op.result.name)
    if bits == 1:
        s.set(op.result, Mask(s.emit.op("v_cmp_ne_i32", s.arith.binary("and", word, 1), 0)))
    else:
        s.set(op.result, Number((word,)))


def _f64_to_pair(s: Selector, wide: Word, letter: str) -> tuple[Word, Word]:
    """The integral part as high * 2^32 + low with low in [0, 2^32); all steps are exact."""
    emit = s.emit
    whole = emit.op("v_trunc_f64", wide)
    high = emit.op("v_floor_f64", emit.op("v_ldexp_f64", whole, -32))
    scale = emit.constant(0xC1F0000000000000, scalar=True, units=2)
    low = emit.op("v_fma_f64", high, scale, whole)
    return emit.op("v_cvt_u32_f64", low), emit.op(f"v_cvt_{letter}32_f64", high)


# -- between floats --------------------------------------------------------------------------------------------------


def _from_f32(s: Selector, word: Word, target: str) -> Word:
    """An f32, rounded to odd where a narrower format follows, in a target of at most 32 bits."""
    word = s.emit.register(word, False)
    if target == "f32":
        return word
    if target == "f16":
        return s.emit.op("v_cvt_f16_f32", word)
    return narrow_bf16(s, word) if target == "bf16" else to_small_float(s, word, SMALL_FLOATS[target])


def _widen(s: Selector, op: Any) -> None:
    source, target = kind(op.input), kind(op.result)
    word = as_f32(s, op, op.input)
    if target == "f64":
        result(s, op, s.emit.op("v_cvt_f64_f32", word, name=op.result.name))
    elif target == "f16" and source.startswith("f8"):
        # All 8-bit numbers are f16 numbers.
        s.set(op.result, Number((s.emit.op("v_cvt_f16_f32", word),)))
    elif target == "bf16":
        s.set(op.result, Number((s.arith.binary("shru", word, 16),)))
    else:
        s.set(op.result, Number((word,)))


def _narrow(s: Selector, op: Any) -> None:
    source, target = kind(op.input), kind(op.result)
    if source == "f64" and target == "f32":
        result(s, op, s.emit.op("v_cvt_f32_f64", operand(s, op.input), name=op.result.name))
        return
    single = f64_to_odd_f32(s, operand(s, op.input)) if source == "f64" else as_f32(s, op, op.input)
    s.set(op.result, Number((_from_f32(s, single, target),)))


def f64_to_odd_f32(s: Selector, wide: Word) -> Word:
    """An f64 as f32 rounded to odd: where the nearest f32 is another number, the one towards zero with its lowest
    bit set."""
    emit, arith = s.emit, s.arith
    wide = emit.to_vector(wide) if isinstance(wide, Value) else wide
    near = emit.op("v_cvt_f32_f64", wide)
    back = emit.op("v_cvt_f64_f32", near)
    assert isinstance(wide, Value)
    size, back_size = (
        emit.tuple_of((low, arith.binary("and", high, _SIGN - 1))) for low, high in map(emit.words, (wide, back))
    )
    too_large = Mask(emit.op("v_cmp_gt_f64", back_size, size))
    different = Mask(emit.op("v_cmp_lg_f64", back_size, size))
    cut = arith.select(too_large, arith.binary("add", near, -1), near)
    return arith.select(different, arith.binary("or", cut, 1), near)


RULES: Final[dict[str, Rule]] = {
    "scalar.sitofp": _from_integer,
    "scalar.uitofp": _from_integer,
    "scalar.fptosi": _to_integer,
    "scalar.fptoui": _to_integer,
    "scalar.extf": _widen,
    "scalar.fptrunc": _narrow,
}
