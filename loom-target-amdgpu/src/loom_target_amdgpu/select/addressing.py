"""Machine addresses: a uniform 64-bit base, a 32-bit offset per lane, and an immediate.

A global address is ``base + offset + immediate`` with the base in scalar registers and the offset an unsigned 32-bit
number; where that is not provable for the part that differs between lanes, the whole address is computed in 64 bits
per lane. Workgroup and private addresses are 32-bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from loom.ir.core import Op, Value
from loom.ir.records import record
from loom.low.machine import MemoryAccess
from loom_target_amdgpu.select.linear import COORDINATES, Coordinate, Leaf, Product, plus
from loom_target_amdgpu.select.values import MASK32, Linear, Number, Root, Word, is_scalar

if TYPE_CHECKING:
    from loom_target_amdgpu.select.selector import Selector

_LDS_LIMIT: Final = 65535
_MASK24: Final = (1 << 24) - 1


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
    for term in form.terms:
        (uniform if all(map(is_scalar, _words(s, term[0]))) else varying).append(term)
    if not uniform:
        return Linear(form.constant), Linear(0, form.terms)
    return Linear(form.constant, tuple(uniform)), Linear(0, tuple(varying))


def global_address(s: Selector, root: Root, form: Linear, at: Op, span: int, limit: int | None = None) -> Address:
    """The address of ``span`` bytes at a position of a global root.

    ``limit`` is a bound that the position is below for another reason than its terms: the end of the view.
    """
    assert root.base is not None
    uniform, varying = split(s, form)
    low, high = immediate_range(s)
    immediate = uniform.constant if low <= uniform.constant and uniform.constant + span <= high + 1 else 0
    rest = Linear(uniform.constant - immediate, uniform.terms)
    joined = bool(varying.terms and uniform.terms) and _adds_per_lane(s, form, uniform, varying, at, limit)
    if joined:
        rest, varying = Linear(rest.constant), Linear(0, form.terms)
    base = _scalar_base(s, root.base, rest, at)
    if not varying.terms:
        return Address(base, None, immediate, True)
    if joined or _in_one_word(s, varying, at, None if rest.terms or limit is None else limit - form.constant):
        offset = s.emit.register(word_sum(s, varying, at), False)
        return Address(base, offset, immediate, False)
    return Address(None, _wide_address(s, base, varying, at), immediate, False)


def _in_one_word(s: Selector, form: Linear, at: Op, limit: int | None) -> bool:
    """Whether a form is an unsigned 32-bit number; it is known to be below ``limit``."""
    facts = s.linear.range(form, at)
    highest = facts.hi if limit is None else min(facts.hi, limit - 1)
    return facts.lo >= 0 and highest <= MASK32


def _adds_per_lane(s: Selector, form: Linear, uniform: Linear, varying: Linear, at: Op, limit: int | None) -> bool:
    """Whether uniform terms join the offset of each lane: one addition instead of two for the base. In a loop that
    does not pay when only the base could be computed in front of it.
    """
    if not _in_one_word(s, Linear(0, form.terms), at, None if limit is None else limit - form.constant):
        return False
    loop = s.emit.loop_level
    levels = [_level(s, leaf) for leaf, _ in varying.terms]
    base_stays = all(_level(s, leaf) < loop for leaf, _ in uniform.terms)
    # Where some of the offset is computed in front of the loop, uniform terms are added there.
    return not base_stays or min(levels) < loop or loop == 0


def _words(s: Selector, leaf: object) -> tuple[Word, ...]:
    """The registers that a leaf is computed from; a product may not have been multiplied yet."""
    if isinstance(leaf, Value):
        return s.number(leaf).words
    if isinstance(leaf, Product):
        return s.number(leaf.left).words + s.number(leaf.right).words
    return s.leaf_number(leaf).words  # type: ignore[arg-type]  # leaves


def _level(s: Selector, leaf: object) -> int:
    """The scope that a leaf is computed in."""
    return max(map(s.emit.level, _words(s, leaf)))


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
    if not form.terms:
        return form.constant & MASK32, form.constant >> 32 & MASK32
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


@record(eq=False)
class _Term:
    """``word * scale``, or ``word * factor * scale`` with a uniform factor.

    ``narrow`` says that the word and what it is multiplied by fit 24 unsigned bits.
    """

    word: Word
    scale: int
    level: int
    narrow: bool = False
    factor: Word | None = None

    @property
    def order(self) -> tuple[int, bool, bool, int]:
        """Terms that change least often come first, so that loops repeat as little as possible of the sum. Among
        those, shifts come before products, which add what there is in the same instruction."""
        return self.level, not is_scalar(self.word), self.factor is not None or not _power(self.scale), abs(self.scale)


def word_sum(s: Selector, form: Linear, at: Op | None = None) -> Word:
    """A linear form modulo 2^32; path facts apply at ``at``."""
    total: Word = 0
    terms = list(_terms(s, form, at))
    if len(terms) > 1:
        terms.sort(key=lambda term: term.order)
    for term in terms:
        scale = term.scale
        if term.factor is not None:
            factor = s.arith.multiply(term.factor, scale & MASK32)
            total = s.arith.mul_add(term.word, factor, total, term.narrow)
        elif _power(scale):
            total = s.arith.shl_add(term.word, scale.bit_length() - 1, total)
        else:
            total = s.arith.mul_add(term.word, scale & MASK32, total, term.narrow)
    return s.arith.binary("add", total, form.constant & MASK32)


def _power(scale: int) -> bool:
    return scale > 0 and scale & (scale - 1) == 0


def _terms(s: Selector, form: Linear, at: Op | None) -> Iterator[_Term]:
    left = dict(form.terms)
    for leaf, scale in form.terms:
        # A position in the grid, scaled, is mostly there already.
        if isinstance(leaf, Coordinate) and leaf.kind == "workgroup":
            item, size = COORDINATES["workitem", leaf.axis], s.static_size(leaf.axis)
            if size is not None and size > 1 and left.get(item, 0) * size == scale:
                word = s.arith.mul_add(s.coordinate(leaf), size, s.coordinate(item), False)
                yield _Term(word, left[item], s.emit.level(word))
                del left[item], left[leaf]
    for leaf, scale in left.items():
        if isinstance(leaf, Product) and scale > 0:
            product = _uniform_factor(s, leaf, scale, at)
            if product is not None:
                yield product
                continue
        number: Number = s.leaf_number(leaf)  # type: ignore[arg-type]  # leaves
        # Only products ask for it.
        narrow = not _power(scale) and 0 <= scale <= _MASK24 and s.linear.leaf_facts(leaf, at).within(0, _MASK24)
        yield _Term(number.lo, scale, _level(s, leaf), narrow)


def _uniform_factor(s: Selector, leaf: Product, scale: int, at: Op | None) -> _Term | None:
    """The product of a lane's value and a uniform one, which takes up the scale."""
    for lane, uniform in ((leaf.left, leaf.right), (leaf.right, leaf.left)):
        word, factor = s.number(lane).lo, s.number(uniform).lo
        if is_scalar(factor) and not is_scalar(word):
            narrow = s.facts.integer(lane, at).within(0, _MASK24)
            narrow = narrow and s.facts.integer(uniform, at).within(0, _MASK24 // scale)
            return _Term(word, scale, _level(s, leaf), narrow, factor)
    return None


def local_address(s: Selector, root: Root, form: Linear, limit: int = _LDS_LIMIT) -> tuple[Word, int]:
    """Register part and immediate of a workgroup address."""
    constant = form.constant + root.offset
    if 0 <= constant <= limit:
        return word_sum(s, Linear(0, form.terms)), constant
    return word_sum(s, Linear(constant, form.terms)), 0


def access_of(s: Selector, root: Root, form: Linear, span: int) -> MemoryAccess:
    """What the scheduler may know about an access of ``span`` bytes."""
    index = frozenset(form.terms) or None
    return MemoryAccess(s.alias_root(root), index, form.constant, form.constant + span, root.invariant)


__all__ = ["Address", "access_of", "global_address", "immediate_range", "local_address", "plus", "split", "word_sum"]
