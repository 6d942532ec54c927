"""Selection of the ``index`` dialect: addresses in one 32-bit word where facts allow it, else in a pair."""

from __future__ import annotations

from typing import Any, Final

from loom.ir.core import Op, Value
from loom.ir.types import ADDRESSES, I1, INTEGERS, ScalarType
from loom_target_amdgpu.select import divide
from loom_target_amdgpu.select.compare import MIRRORED, compare_words
from loom_target_amdgpu.select.scalar import count64, pick, rotate64
from loom_target_amdgpu.select.selector import SIGNED32, UNSIGNED32, Rule, Selector
from loom_target_amdgpu.select.values import MASK32, Condition, Number, Word, is_scalar


def _set(s: Selector, op: Any, words: tuple[Word, ...], signed: bool = False) -> None:
    s.set(op.result, s.address(op.result, words, signed))


def _exact(s: Selector, op: Op) -> bool:
    """Results that facts settle become constants; what accesses take apart themselves is not computed."""
    if op.results[0] in s.positions:
        return True
    number = s.exact(op.result)
    if number is None:
        return False
    s.set(op.result, number)
    return True


def _constant(s: Selector, op: Op) -> None:
    found = s.exact(op.result)
    assert found is not None
    s.set(op.result, found)


def _one_word(s: Selector, value: Value) -> tuple[bool, bool]:
    """Whether a result fits one word, and its sign."""
    count, signed = s.shape_of(s.facts.integer(value))
    return count == 1, signed


_MODULAR: Final = {"index.add": "add", "index.mul": "mul", "index.andi": "and", "index.ori": "or", "index.xori": "xor"}


def _modular(s: Selector, op: Any) -> None:
    """Operations whose low word depends on low words only."""
    if _exact(s, op):
        return
    kind = _MODULAR[op.name]
    a, b = s.number(op.lhs), s.number(op.rhs)
    fits, signed = _one_word(s, op.result)
    if fits:
        if kind == "mul":
            word = s.arith.multiply(a.lo, b.lo, _narrow(s, op.lhs, op.rhs), op.result.name)
        else:
            word = s.arith.binary(kind, a.lo, b.lo, op.result.name)
        s.set(op.result, Number((word,), signed))
        return
    x, y = s.extend(a), s.extend(b)
    if kind == "add":
        words = s.arith.add64(x, y)
    elif kind == "mul":
        words = s.arith.mul64(x, y)
    else:
        words = s.arith.logic64(kind, x, y)
    s.set(op.result, Number(words, True))


def _narrow(s: Selector, *values: Value) -> bool:
    return all(s.facts.integer(v).within(0, (1 << 24) - 1) for v in values)


def _sub(s: Selector, op: Any) -> None:
    if _exact(s, op):
        return
    a, b = s.number(op.lhs), s.number(op.rhs)
    fits, signed = _one_word(s, op.result)
    if fits:
        s.set(op.result, Number((s.arith.sub(a.lo, b.lo, op.result.name),), signed))
    else:
        s.set(op.result, Number(s.arith.sub64(s.extend(a), s.extend(b)), True))


def _madd(s: Selector, op: Any) -> None:
    if _exact(s, op):
        return
    a, b, c = s.number(op.a), s.number(op.b), s.number(op.c)
    fits, signed = _one_word(s, op.result)
    if fits:
        word = s.arith.mul_add(a.lo, b.lo, c.lo, _narrow(s, op.a, op.b), op.result.name)
        s.set(op.result, Number((word,), signed))
    else:
        product = s.arith.mul64(s.extend(a), s.extend(b))
        s.set(op.result, Number(s.arith.add64(product, s.extend(c)), True))


def _scale(s: Selector, op: Any) -> None:
    if _exact(s, op):
        return
    a, b = s.number(op.input), s.number(op.stride)
    fits, signed = _one_word(s, op.result)
    if fits:
        s.set(
            op.result, Number((s.arith.multiply(a.lo, b.lo, _narrow(s, op.input, op.stride), op.result.name),), signed)
        )
    else:
        s.set(op.result, Number(s.arith.mul64(s.extend(a), s.extend(b)), True))


def _shift_left(s: Selector, op: Any) -> None:
    if _exact(s, op):
        return
    a, amount = s.number(op.lhs), s.number(op.rhs)
    fits, signed = _one_word(s, op.result)
    if fits and s.facts.integer(op.rhs).within(0, 31):
        s.set(op.result, Number((s.arith.binary("shl", a.lo, amount.lo, op.result.name),), signed))
    else:
        _set(s, op, s.arith.shift64("shl", s.extend(a), amount.lo), True)


def _shift_right(s: Selector, op: Any) -> None:
    if _exact(s, op):
        return
    kind = "shru" if op.name == "index.shrui" else "shrs"
    a, amount = s.number(op.lhs), s.number(op.rhs)
    facts = s.facts.integer(op.lhs)
    same = len(a.words) == 1 and s.facts.integer(op.rhs).within(0, 31)
    if same and facts.within(*UNSIGNED32):
        _set(s, op, (s.arith.binary("shru", a.lo, amount.lo, op.result.name),))
    elif same and kind == "shrs" and facts.within(*SIGNED32):
        _set(s, op, (s.arith.binary("shrs", a.lo, amount.lo, op.result.name),), True)
    else:
        _set(s, op, s.arith.shift64(kind, s.extend(a), amount.lo), True)


def _rotate(s: Selector, op: Any) -> None:
    if _exact(s, op):
        return
    amount = s.number(op.rhs)
    _set(s, op, rotate64(s, s.extend(s.number(op.lhs)), amount.lo, op.name == "index.rotli"), True)


def _count(s: Selector, op: Any) -> None:
    if _exact(s, op):
        return
    kind = op.name.rpartition(".")[2]
    _set(s, op, (count64(s, kind, s.extend(s.number(op.input))),))


def _minmax(s: Selector, op: Any) -> None:
    if _exact(s, op):
        return
    larger = op.name == "index.max"
    a, b = s.number(op.lhs), s.number(op.rhs)
    kind = _common(s, op.lhs, op.rhs)
    if kind is not None:
        word = s.arith.binary(("max" if larger else "min") + kind, a.lo, b.lo, op.result.name)
        _set(s, op, (word,), kind == "s")
        return
    x, y = s.extend(a), s.extend(b)
    _set(s, op, pick(s, compare_words(s, "sgt" if larger else "slt", x, y), x, y), True)


def _common(s: Selector, *values: Value) -> str | None:
    """How 32-bit words of all values compare like the values themselves: ``u``, ``s`` or not at all."""
    facts = [s.facts.integer(v) for v in values]
    if any(len(s.number(v).words) != 1 for v in values):
        return None
    if all(f.within(*UNSIGNED32) for f in facts):
        return "u"
    return "s" if all(f.within(*SIGNED32) for f in facts) else None


def _division(s: Selector, op: Any) -> None:
    if _exact(s, op):
        return
    remainder = op.name == "index.rem"
    a, b = s.number(op.lhs), s.number(op.rhs)
    facts, divisor = s.facts.integer(op.lhs), s.facts.exact(op.rhs)
    if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
        shift = divisor.bit_length() - 1
        words = a.words if len(a.words) == 1 and facts.within(*UNSIGNED32) else s.extend(a)
        if remainder:
            mask = tuple((divisor - 1) >> 32 * i & MASK32 for i in range(len(words)))
            _set(s, op, tuple(s.arith.binary("and", w, m) for w, m in zip(words, mask, strict=True)))
        elif len(words) == 1:
            _set(s, op, (s.arith.binary("shru", words[0], shift, op.result.name),))
        else:
            _set(s, op, s.arith.shift64("shru", (words[0], words[1]), shift))
        return
    kind = "remui" if remainder else "divui"
    if _common(s, op.lhs, op.rhs) is not None:
        # Both are non-negative by contract, so the words are unsigned numbers.
        _set(s, op, (divide.divide32(s, kind, a.lo, b.lo),))
        return
    _set(s, op, divide.divide64(s, kind, s.extend(a), s.extend(b)), True)


def _cast(s: Selector, op: Any) -> None:
    source, target = op.input, op.result
    assert isinstance(source.type, ScalarType)
    assert isinstance(target.type, ScalarType)
    if target.type in ADDRESSES:
        if _exact(s, op):
            return
        if source.type is I1:
            _set(s, op, (s.condition_word(s.condition(source)),))
            return
        number = s.number(source)
        if source.type in INTEGERS:
            signed = target.type.text == "index"
            if source.type.width == 64:
                _set(s, op, number.words, True)
            else:
                _set(s, op, (s.arith.extend(number.lo, source.type.width, signed, op.result.name),), signed)
            return
        _set(s, op, number.words, number.signed)
        return
    number = s.number(source)
    if target.type is I1:
        s.set(target, compare_words(s, "ne", (s.arith.binary("and", number.lo, 1),), (0,)))
    elif target.type.width == 64:
        s.set(target, Number(s.extend(number)))
    else:
        s.set(target, Number((number.lo,)))


def _assume(s: Selector, op: Any) -> None:
    for source, result in zip(op.inputs, op.results, strict=True):
        exact = s.exact(result)
        number = s.number(source)
        s.set(result, exact if exact is not None else s.address(result, number.words, number.signed))


def _compare(s: Selector, op: Any) -> None:
    decided = s.facts.decide(op.predicate, op.lhs, op.rhs, op)
    if decided is not None:
        s.set(op.result, decided)
        return
    s.set(op.result, compare(s, op.predicate, op.lhs, op.rhs, op.result.name))


def compare(s: Selector, predicate: str, lhs: Value, rhs: Value, name: str | None = None) -> Condition:
    """Compare two addresses."""
    a, b = s.number(lhs), s.number(rhs)
    kind = _common(s, lhs, rhs)
    if kind is not None:
        # Words of one kind are ordered like the values, also for unsigned comparisons of sign-extended words.
        word_predicate = predicate
        if predicate not in ("eq", "ne") and kind == "u":
            word_predicate = "u" + predicate[1:]
        return compare_words(s, word_predicate, (a.lo,), (b.lo,), name)
    for x, y, p in ((lhs, rhs, predicate), (rhs, lhs, MIRRORED[predicate])):
        found = _against_uniform_pair(s, p, x, y, name)
        if found is not None:
            return found
    return compare_words(s, predicate, s.extend(a), s.extend(b), name)


def _against_uniform_pair(
    s: Selector, predicate: str, narrow: Value, wide: Value, name: str | None
) -> Condition | None:
    """A lane's 32-bit value against a uniform 64-bit one: the wide side is clamped to 32 bits once.

    Values up to 2^32 - 2 compare with a clamped 2^32 - 1 as they do with anything above 32 bits.
    """
    a, b = s.number(narrow), s.number(wide)
    if len(a.words) != 1 or len(b.words) != 2 or is_scalar(a.lo) or not b.scalar:
        return None
    if not s.facts.integer(narrow).within(0, MASK32 - 1):
        return None
    if predicate.startswith("s") and s.facts.integer(wide).lo < 0:
        return None
    above = compare_words(s, "eq", (b.words[1],), (0,))
    clamped: Word = pick(s, above, (b.lo,), (MASK32,))[0]
    unsigned = predicate if predicate in ("eq", "ne") else "u" + predicate[1:]
    return compare_words(s, unsigned, (a.lo,), (clamped,), name)


RULES: Final[dict[str, Rule]] = {
    "index.constant": _constant,
    "index.sub": _sub,
    "index.madd": _madd,
    "index.scale": _scale,
    "index.shli": _shift_left,
    "index.shrsi": _shift_right,
    "index.shrui": _shift_right,
    "index.rotli": _rotate,
    "index.rotri": _rotate,
    "index.ctlzi": _count,
    "index.cttzi": _count,
    "index.ctpopi": _count,
    "index.min": _minmax,
    "index.max": _minmax,
    "index.div": _division,
    "index.rem": _division,
    "index.cast": _cast,
    "index.assume": _assume,
    "index.cmp": _compare,
    **dict.fromkeys(_MODULAR, _modular),
}
