"""Machine addresses: a uniform 64-bit base, a 32-bit offset per lane, and an immediate.

A global address is ``base + offset + immediate`` with the base in scalar registers and the offset an unsigned 32-bit
number; where that is not provable for the part that differs between lanes, the whole address is computed in 64 bits
per lane. Workgroup and private addresses are 32-bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loom.ir.core import Op, Value
from loom.ir.records import record
from loom.low.machine import MemoryAccess
from loom_target_amdgpu.select.linear import Leaf, plus
from loom_target_amdgpu.select.values import MASK32, Linear, Number, Root, Word

if TYPE_CHECKING:
    from loom_target_amdgpu.select.selector import Selector

_LDS_LIMIT: Final = 65535


@record
class Address:
    """Operands of a memory instruction.

    Attributes:
        saddr: uniform base pair, or None.
        vaddr: per-lane offset (one register) or, without a base, address (a pair); None for a constant private one.
        immediate: byte offset.
        uniform: the whole address is uniform.
    """

    saddr: Value | None
    vaddr: Value | None
    immediate: int
    uniform: bool


def immediate_range(s: Selector) -> tuple[int, int]:
    """Immediate offsets of global and scratch instructions."""
    return (-(1 << 23), (1 << 23) - 1) if s.processor.family == "gfx12" else (-4096, 4095)


def split(s: Selector, form: Linear) -> tuple[Linear, Linear]:
    """Uniform and lane-varying terms (the constant stays with the uniform ones)."""
    uniform: list[tuple[object, int]] = []
    varying: list[tuple[object, int]] = []
    for leaf, scale in form.terms:
        (uniform if s.leaf_number(leaf).scalar else varying).append((leaf, scale))  # type: ignore[arg-type]  # leaves
    return Linear(form.constant, tuple(uniform)), Linear(0, tuple(varying))


def global_address(s: Selector, root: Root, form: Linear, at: Op, span: int) -> Address:
    """The address of ``span`` bytes at a position of a global root."""
    assert root.base is not None
    uniform, varying = split(s, form)
    low, high = immediate_range(s)
    immediate = uniform.constant if low <= uniform.constant and uniform.constant + span <= high + 1 else 0
    rest = Linear(uniform.constant - immediate, uniform.terms)
    base = _scalar_base(s, root.base, rest, at)
    if not varying.terms:
        return Address(base, None, immediate, True)
    if s.linear.range(varying, at).within(0, MASK32):
        offset = s.emit.register(word_sum(s, varying), False)
        return Address(base, offset, immediate, False)
    return Address(None, _wide_address(s, base, varying, at), immediate, False)


def _scalar_base(s: Selector, base: Value, form: Linear, at: Op) -> Value:
    """base + form in scalar registers."""
    if not form.terms and form.constant == 0:
        return base
    lo, hi = s.emit.words(base)
    total = pair_sum(s, form, at)
    low, high = s.arith.add64((lo, hi), total)
    return s.emit.tuple_of((low, high), True)


def pair_sum(s: Selector, form: Linear, at: Op | None = None) -> tuple[Word, Word]:
    """A linear form as a 64-bit pair."""
    if s.linear.range(form, at).within(0, MASK32):
        return word_sum(s, form), 0
    total: tuple[Word, Word] = (form.constant & MASK32, form.constant >> 32 & MASK32)
    for leaf, scale in form.terms:
        total = s.arith.add64(total, _scaled_pair(s, leaf, scale, at))  # type: ignore[arg-type]  # leaves
    return total


def _scaled_pair(s: Selector, leaf: Leaf, scale: int, at: Op | None) -> tuple[Word, Word]:
    number = s.leaf_number(leaf)
    if s.linear.range(Linear(0, ((leaf, scale),)), at).within(0, MASK32):
        return s.arith.binary("mul", number.lo, scale), 0
    pair = s.extend(number)
    if scale > 0 and scale & (scale - 1) == 0:
        return s.arith.shift64("shl", pair, scale.bit_length() - 1)
    return s.arith.mul64(pair, (scale & MASK32, scale >> 32 & MASK32))


def _wide_address(s: Selector, base: Value, varying: Linear, at: Op) -> Value:
    lo, hi = s.emit.words(base)
    total = s.arith.add64((lo, hi), pair_sum(s, varying, at))
    return s.emit.tuple_of(total, False)


def word_sum(s: Selector, form: Linear) -> Word:
    """A linear form modulo 2^32. Terms of one power of two are added before they are shifted."""
    terms = sorted(form.terms, key=lambda term: -abs(term[1]))
    total: Word | None = None
    for leaf, scale in terms:
        number: Number = s.leaf_number(leaf)  # type: ignore[arg-type]  # leaves
        word = number.lo
        if total is None:
            total = _scaled_word(s, leaf, word, scale)
        elif scale > 0 and scale & (scale - 1) == 0:
            total = s.arith.shl_add(word, scale.bit_length() - 1, total)
        else:
            total = s.arith.binary("add", total, _scaled_word(s, leaf, word, scale))
    if total is None:
        return form.constant & MASK32
    return s.arith.binary("add", total, form.constant & MASK32)


def _scaled_word(s: Selector, leaf: object, word: Word, scale: int) -> Word:
    narrow = 0 <= scale < 1 << 24 and s.linear.leaf_facts(leaf, None).within(0, (1 << 24) - 1)
    return s.arith.multiply(word, scale & MASK32, narrow)


def local_address(s: Selector, root: Root, form: Linear, limit: int = _LDS_LIMIT) -> tuple[Word, int]:
    """Register part and immediate of a workgroup address."""
    constant = form.constant + root.offset
    if 0 <= constant <= limit:
        return word_sum(s, Linear(0, form.terms)), constant
    return word_sum(s, Linear(constant, form.terms)), 0


def access_of(s: Selector, root: Root, form: Linear, span: int) -> MemoryAccess:
    """What the scheduler may know about an access of ``span`` bytes."""
    index = tuple(sorted(((_identity(leaf), scale) for leaf, scale in form.terms), key=repr)) or None
    return MemoryAccess(s.alias_root(root), index, form.constant, form.constant + span, root.invariant)


def _identity(leaf: object) -> object:
    return id(leaf) if isinstance(leaf, Value) else leaf


__all__ = ["Address", "access_of", "global_address", "immediate_range", "local_address", "plus", "split", "word_sum"]
