"""Selection of integer operations of the ``scalar`` dialect."""

from __future__ import annotations

from typing import Any, Final

from loom.ir.core import Op, Value
from loom.ir.types import I1, INTEGERS, ScalarType
from loom_target_amdgpu.select import divide
from loom_target_amdgpu.select.compare import compare_words
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import MASK32, Condition, Mask, Number, ScalarTest, Word, constant, is_scalar

Pair = tuple[Word, Word]


def width(value: Value) -> int:
    """Bits of a scalar type."""
    assert isinstance(value.type, ScalarType)
    return value.type.width


def extended(s: Selector, number: Number, bits: int, signed: bool) -> Word:
    """A payload integer of at most 32 bits as a 32-bit number."""
    return s.arith.extend(number.lo, bits, signed)


def as_pair(number: Number) -> Pair:
    """The two words of a 64-bit number."""
    lo, hi = number.words
    return lo, hi


def _constant(s: Selector, op: Op) -> None:
    literal = op.attribute("value")
    type_ = op.result.type
    assert isinstance(type_, ScalarType)
    if type_ is I1:
        s.set(op.result, bool(literal))
        return
    bits = literal if type_ in INTEGERS else float_bits(float(literal), type_)  # type: ignore[arg-type]
    assert isinstance(bits, int)
    s.set(op.result, constant(bits & (1 << type_.width) - 1, 2 if type_.width == 64 else 1))


def float_bits(value: float, type_: ScalarType) -> int:
    """Bit pattern of a float, rounded to nearest even."""
    import struct

    if type_.text == "f64":
        return int.from_bytes(struct.pack("<d", value), "little")
    if type_.text == "f16":
        if value != value or value in (float("inf"), float("-inf")) or abs(value) < 65520:
            return int.from_bytes(struct.pack("<e", value), "little")
        return 0x7C00 if value > 0 else 0xFC00
    single = _single(value)
    if type_.text == "f32":
        return single
    if type_.text == "bf16":
        if value != value:
            return 0x7FC0
        return (single + 0x7FFF + (single >> 16 & 1)) >> 16
    raise AssertionError(type_)


def _single(value: float) -> int:
    import struct

    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return 0x7F800000 if value > 0 else 0xFF800000


def _assume(s: Selector, op: Any) -> None:
    for source, result in zip(op.inputs, op.results, strict=True):
        s.set(result, s.get(source))


def _poison(s: Selector, op: Op) -> None:
    type_ = op.result.type
    if type_ is I1:
        s.set(op.result, False)
    else:
        assert isinstance(type_, ScalarType)
        s.set(op.result, constant(0, 2 if type_.width == 64 else 1))


# Operation -> (32-bit kind, how narrow operands must be extended: None not at all, else signed)
_SIMPLE: Final[dict[str, tuple[str, bool | None]]] = {
    "scalar.addi": ("add", None),
    "scalar.muli": ("mul", None),
    "scalar.andi": ("and", None),
    "scalar.ori": ("or", None),
    "scalar.xori": ("xor", None),
    "scalar.minsi": ("mins", True),
    "scalar.maxsi": ("maxs", True),
    "scalar.minui": ("minu", False),
    "scalar.maxui": ("maxu", False),
}
_CONDITIONS: Final = {"scalar.andi": "and", "scalar.ori": "or", "scalar.xori": "xor"}


def _binary(s: Selector, op: Any) -> None:
    bits = width(op.result)
    kind, signed = _SIMPLE[op.name]
    if bits == 1:
        if op.name not in _CONDITIONS:
            raise s.unsupported(op, f"'{op.name}' on i1 is not supported")
        s.set(op.result, combine(s, _CONDITIONS[op.name], s.condition(op.lhs), s.condition(op.rhs)))
        return
    a, b = s.number(op.lhs), s.number(op.rhs)
    if bits == 64:
        s.set(op.result, Number(_wide(s, kind, as_pair(a), as_pair(b))))
        return
    x, y = a.lo, b.lo
    if signed is not None:
        x, y = s.arith.extend(x, bits, signed), s.arith.extend(y, bits, signed)
    s.set(op.result, Number((s.arith.binary(kind, x, y, op.result.name),)))


def _wide(s: Selector, kind: str, a: Pair, b: Pair) -> Pair:
    if kind == "add":
        return s.arith.add64(a, b)
    if kind == "mul":
        return s.arith.mul64(a, b)
    if kind in ("and", "or", "xor"):
        return s.arith.logic64(kind, a, b)
    predicate = {"mins": "slt", "maxs": "sgt", "minu": "ult", "maxu": "ugt"}[kind]
    condition = compare_words(s, predicate, a, b)
    chosen: Pair = pick(s, condition, a, b)
    return chosen


def pick(s: Selector, condition: Condition, a: tuple[Word, ...], b: tuple[Word, ...]) -> Any:
    """a where the condition holds, else b, word by word."""
    if isinstance(condition, bool):
        return a if condition else b
    return tuple(s.arith.select(condition, x, y) for x, y in zip(a, b, strict=True))


def combine(s: Selector, kind: str, a: Condition, b: Condition) -> Condition:
    """``and``, ``or`` or ``xor`` of two conditions."""
    for x, y in ((a, b), (b, a)):
        if isinstance(x, bool):
            if kind == "xor":
                return s.arith.negate(y) if x else y
            absorbing = kind == "or"
            return x if x == absorbing else y
    if isinstance(a, ScalarTest) and isinstance(b, ScalarTest):
        word = s.arith.binary(kind, s.condition_word(a), s.condition_word(b))
        return ScalarTest("s_cmp_lg_i32", word, 0)
    return Mask(s.emit.op(f"s_{kind}_b64", s.arith.mask(a), s.arith.mask(b)))


def _sub(s: Selector, op: Any) -> None:
    a, b = s.number(op.lhs), s.number(op.rhs)
    if width(op.result) == 64:
        s.set(op.result, Number(s.arith.sub64(as_pair(a), as_pair(b))))
    else:
        s.set(op.result, Number((s.arith.sub(a.lo, b.lo, op.result.name),)))


def _multiply_add(s: Selector, op: Any) -> None:
    a, b, c = s.number(op.a), s.number(op.b), s.number(op.c)
    if width(op.result) == 64:
        s.set(op.result, Number(s.arith.add64(s.arith.mul64(as_pair(a), as_pair(b)), as_pair(c))))
        return
    narrow = all(s.facts.integer(v).within(0, (1 << 24) - 1) for v in (op.a, op.b)) and width(op.result) == 32
    s.set(op.result, Number((s.arith.mul_add(a.lo, b.lo, c.lo, narrow, op.result.name),)))


def _negate(s: Selector, op: Any) -> None:
    a = s.number(op.input)
    if width(op.result) == 64:
        s.set(op.result, Number(s.arith.sub64((0, 0), as_pair(a))))
    else:
        s.set(op.result, Number((s.arith.sub(0, a.lo, op.result.name),)))


def _absolute(s: Selector, op: Any) -> None:
    bits = width(op.result)
    if bits == 64:
        a = as_pair(s.number(op.input))
        sign = s.arith.sign(a[1])
        flipped = s.arith.logic64("xor", a, (sign, sign))
        s.set(op.result, Number(s.arith.sub64(flipped, (sign, sign))))
        return
    word = extended(s, s.number(op.input), bits, True)
    s.set(op.result, Number((s.arith.binary("maxs", word, s.arith.sub(0, word), op.result.name),)))


def _sign(s: Selector, op: Any) -> None:
    bits = width(op.result)
    if bits == 64:
        a = as_pair(s.number(op.input))
        high = s.arith.sign(a[1])
        nonzero = s.arith.binary("minu", s.arith.binary("or", a[0], a[1]), 1)
        s.set(op.result, Number((s.arith.binary("or", high, nonzero), high)))
        return
    word = extended(s, s.number(op.input), bits, True)
    s.set(op.result, Number((s.arith.binary("maxs", s.arith.binary("mins", word, 1), MASK32, op.result.name),)))


def _shift(s: Selector, op: Any) -> None:
    kind = {"scalar.shli": "shl", "scalar.shrsi": "shrs", "scalar.shrui": "shru"}[op.name]
    bits = width(op.result)
    a, amount = s.number(op.lhs), s.number(op.rhs)
    if bits == 64:
        s.set(op.result, Number(s.arith.shift64(kind, as_pair(a), amount.lo)))
        return
    word = a.lo if kind == "shl" else extended(s, a, bits, kind == "shrs")
    count = amount.lo if bits == 32 else s.arith.binary("and", amount.lo, bits - 1)
    s.set(op.result, Number((s.arith.binary(kind, word, count, op.result.name),)))


def rotate64(s: Selector, a: Pair, amount: Word, left: bool) -> Pair:
    """Rotation of a pair; the amount is taken modulo 64."""
    count = s.arith.binary("and", amount, 63)
    back = s.arith.binary("and", s.arith.sub(0, amount), 63)
    if not left:
        count, back = back, count
    return s.arith.logic64("or", s.arith.shift64("shl", a, count), s.arith.shift64("shru", a, back))


def _rotate(s: Selector, op: Any) -> None:
    left = op.name == "scalar.rotli"
    bits = width(op.result)
    a, amount = s.number(op.lhs), s.number(op.rhs)
    if bits == 64:
        s.set(op.result, Number(rotate64(s, as_pair(a), amount.lo, left)))
        return
    if bits == 32 and not is_scalar(a.lo):
        # alignbit shifts the pair (a, a) right; a left rotation is a right one by the negative amount.
        right = s.arith.sub(0, amount.lo) if left else amount.lo
        right = right & 31 if isinstance(right, int) else right
        s.set(op.result, Number((s.emit.op("v_alignbit_b32", a.lo, a.lo, right, name=op.result.name),)))
        return
    count = s.arith.binary("and", amount.lo, bits - 1)
    back = s.arith.binary("and", s.arith.sub(0, amount.lo), bits - 1)
    if not left:
        count, back = back, count
    word = extended(s, a, bits, False)
    result = s.arith.binary(
        "or", s.arith.binary("shl", word, count), s.arith.binary("shru", word, back), op.result.name
    )
    s.set(op.result, Number((result,)))


def count_leading(s: Selector, word: Word, bits: int) -> Word:
    """Leading zeros of a zero-extended word, within ``bits``; ``bits`` for 0."""
    if isinstance(word, int):
        return bits - word.bit_length()
    found = s.emit.op("s_flbit_i32_b32" if is_scalar(word) else "v_ffbh_u32", word)
    # -1 for 0: as an unsigned number it is larger than any count.
    return s.arith.binary("minu", s.arith.binary("add", found, bits - 32) if bits < 32 else found, bits)


def count_trailing(s: Selector, word: Word, bits: int) -> Word:
    """Trailing zeros of a word within ``bits``; ``bits`` for 0."""
    if isinstance(word, int):
        return (word & -word).bit_length() - 1 if word else bits
    found = s.emit.op("s_ff1_i32_b32" if is_scalar(word) else "v_ffbl_b32", word)
    return s.arith.binary("minu", found, bits)


def count_ones(s: Selector, word: Word, addend: Word = 0) -> Word:
    """Set bits of a word, plus an addend."""
    if isinstance(word, int):
        return s.arith.binary("add", word.bit_count(), addend)
    if is_scalar(word):
        return s.arith.binary("add", s.emit.op("s_bcnt1_i32_b32", word), addend)
    return s.emit.op("v_bcnt_u32_b32", word, addend)


def count64(s: Selector, kind: str, a: Pair) -> Word:
    """``ctlzi``, ``cttzi`` or ``ctpopi`` of a pair."""
    lo, hi = a
    if kind == "ctpopi":
        return count_ones(s, hi, count_ones(s, lo))
    if kind == "ctlzi":
        first, second = count_leading(s, hi, 32), count_leading(s, lo, 32)
        tested = hi
    else:
        first, second = count_trailing(s, lo, 32), count_trailing(s, hi, 32)
        tested = lo
    found: Word = pick(s, compare_words(s, "ne", (tested,), (0,)), (first,), (s.arith.binary("add", second, 32),))[0]
    return found


def _count(s: Selector, op: Any) -> None:
    kind = op.name.rpartition(".")[2]
    bits = width(op.result)
    number = s.number(op.input)
    if bits == 64:
        s.set(op.result, Number((count64(s, kind, as_pair(number)), 0)))
        return
    word = extended(s, number, bits, False)
    if kind == "ctlzi":
        # Counting in 32 bits sees the bits above the type as zeros.
        result = count_leading(s, word, bits)
    else:
        result = count_trailing(s, word, bits) if kind == "cttzi" else count_ones(s, word)
    s.set(op.result, Number((result,)))


def _bitfield(s: Selector, op: Any) -> None:
    signed = op.name.endswith("extracts")
    source = s.number(op.source)
    offset, count = op.offset, op.width
    if width(op.source) == 64:
        pair = s.arith.shift64("shl", as_pair(source), 64 - offset - count)
        pair = s.arith.shift64("shrs" if signed else "shru", pair, 64 - count)
        words: tuple[Word, ...] = pair
    else:
        word = source.lo
        if not is_scalar(word):
            word = s.emit.op(f"v_bfe_{'i' if signed else 'u'}32_offset_width_inline", word, offset=offset, width=count)
        else:
            word = s.arith.binary("shl", word, 32 - offset - count)
            word = s.arith.binary("shrs" if signed else "shru", word, 32 - count)
        words = (word,)
    if width(op.result) == 64 and len(words) == 1:
        words = (words[0], s.arith.sign(words[0]) if signed else 0)
    s.set(op.result, Number(words[: 2 if width(op.result) == 64 else 1]))


def _division(s: Selector, op: Any) -> None:
    kind = op.name.rpartition(".")[2]
    bits = width(op.result)
    signed = kind in ("divsi", "remsi", "ceildivsi", "floordivsi")
    a, b = s.number(op.lhs), s.number(op.rhs)
    if bits == 64:
        s.set(op.result, Number(divide.divide64(s, kind, as_pair(a), as_pair(b))))
        return
    x, y = extended(s, a, bits, signed), extended(s, b, bits, signed)
    s.set(op.result, Number((divide.divide32(s, kind, x, y),)))


def _compare(s: Selector, op: Any) -> None:
    bits = width(op.lhs)
    signed = op.predicate.startswith("s")
    if bits == 1:
        a: tuple[Word, ...] = (s.arith.sub(0, s.number(op.lhs).lo) if signed else s.number(op.lhs).lo,)
        b: tuple[Word, ...] = (s.arith.sub(0, s.number(op.rhs).lo) if signed else s.number(op.rhs).lo,)
    elif bits == 64:
        a, b = s.number(op.lhs).words, s.number(op.rhs).words
    else:
        a, b = (extended(s, s.number(op.lhs), bits, signed),), (extended(s, s.number(op.rhs), bits, signed),)
    s.set(op.result, compare_words(s, op.predicate, a, b, op.result.name))


def _extend(s: Selector, op: Any) -> None:
    signed = op.name == "scalar.extsi"
    bits = width(op.input)
    if bits == 1:
        word = s.condition_word(s.condition(op.input))
        low = s.arith.sub(0, word) if signed else word
    else:
        low = extended(s, s.number(op.input), bits, signed)
    words: tuple[Word, ...] = (low,)
    if width(op.result) == 64:
        words = (low, s.arith.sign(low) if signed else 0)
    s.set(op.result, Number(words))


def _truncate(s: Selector, op: Any) -> None:
    number = s.number(op.input)
    if width(op.result) == 1:
        s.set(op.result, compare_words(s, "ne", (s.arith.binary("and", number.lo, 1),), (0,)))
    else:
        s.set(op.result, Number((number.lo,)))


def _bitcast(s: Selector, op: Any) -> None:
    s.set(op.result, s.get(op.input))


RULES: Final[dict[str, Rule]] = {
    "scalar.constant": _constant,
    "scalar.assume": _assume,
    "scalar.poison": _poison,
    "scalar.subi": _sub,
    "scalar.fmai": _multiply_add,
    "scalar.negi": _negate,
    "scalar.absi": _absolute,
    "scalar.signi": _sign,
    "scalar.shli": _shift,
    "scalar.shrsi": _shift,
    "scalar.shrui": _shift,
    "scalar.rotli": _rotate,
    "scalar.rotri": _rotate,
    "scalar.ctlzi": _count,
    "scalar.cttzi": _count,
    "scalar.ctpopi": _count,
    "scalar.bitfield.extractu": _bitfield,
    "scalar.bitfield.extracts": _bitfield,
    "scalar.cmpi": _compare,
    "scalar.extsi": _extend,
    "scalar.extui": _extend,
    "scalar.trunci": _truncate,
    "scalar.bitcast": _bitcast,
    **dict.fromkeys(_SIMPLE, _binary),
    **dict.fromkeys(
        [f"scalar.{k}" for k in ("divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi")], _division
    ),
}
