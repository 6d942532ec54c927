"""Selection of subgroup collectives.

Where control flow is uniform, lanes exchange values pairwise in a logarithmic number of steps, neighbours within the
instruction that combines them, others by ``ds_swizzle`` and ``ds_bpermute``; lanes
that a last, partial wave does not have take part with the identity of the operation. Under a divergent condition
only the active lanes may be touched: there a scalar loop visits them one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from loom.ir.core import Value
from loom.ir.types import I1, RegType, ScalarType, ShapedType
from loom_target_amdgpu.select.compare import compare_words
from loom_target_amdgpu.select.kernel import lane_id
from loom_target_amdgpu.select.scalar import combine as combine_conditions
from loom_target_amdgpu.select.scalar import float_bits
from loom_target_amdgpu.select.scalar_float import quiet
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import MASK32, V1, Condition, Number, ScalarTest, Vector, Word
from loom_target_amdgpu.select.vector_lanes import Element, apply_scalar, element_type, elements

Words = tuple[Word, ...]
Combiner = Callable[[Words, Words], Words]
_FLOAT_IDENTITY: Final = {
    "addf": 0.0,
    "mulf": 1.0,
    "minimumf": float("inf"),
    "minnumf": float("inf"),
    "maximumf": float("-inf"),
    "maxnumf": float("-inf"),
}


def identity(kind: str, type_: ScalarType) -> Words:
    """The neutral element of a combining kind."""
    bits = type_.width
    if kind in _FLOAT_IDENTITY:
        pattern = float_bits(_FLOAT_IDENTITY[kind], type_)
    else:
        ones = (1 << bits) - 1
        pattern = {
            "addi": 0,
            "muli": 1,
            "minsi": ones >> 1,
            "maxsi": 1 << (bits - 1),
            "minui": ones,
            "maxui": 0,
            "andi": ones,
            "ori": 0,
            "xori": 0,
        }[kind]
    return (pattern,) if bits < 64 else (pattern & MASK32, pattern >> 32)


def combiner(s: Selector, kind: str, type_: ScalarType) -> Combiner:
    """The combining operation on words."""

    def apply(a: Words, b: Words) -> Words:
        found = apply_scalar(s, kind, [(_element(s, a, type_), type_), (_element(s, b, type_), type_)], type_)
        return words_of(s, found)

    return apply


def _element(s: Selector, words: Words, type_: ScalarType) -> Element:
    if type_ is I1:
        return compare_words(s, "ne", (s.arith.binary("and", words[0], 1),), (0,))
    return Number(words)


def words_of(s: Selector, element: Element) -> Words:
    return element.words if isinstance(element, Number) else (s.condition_word(element),)


# -- who takes part --------------------------------------------------------------------------------------------------


def full_waves(s: Selector) -> bool:
    """Whether every wave has all its lanes."""
    total = 1
    for axis in "xyz":
        size = s.static_size(axis)
        if size is None:
            return False
        total *= size
    return total % s.wave == 0


@contextmanager
def everyone(s: Selector, values: list[Words], neutral: Words) -> Iterator[list[Words]]:
    """All lanes of the wave run the block; lanes that do not exist carry the neutral value.

    Nothing inside is shared with code outside, where those lanes compute nothing.
    """
    if full_waves(s):
        yield values
        return
    emit = s.emit
    saved = emit.op("s_mov_b64_exec_read")
    emit.packet("s_mov_b64_exec_full")
    emit.pinned = True
    filled: list[Words] = [
        tuple(emit.op("v_cndmask_b32", n, emit.register(w, False), saved) for w, n in zip(words, neutral, strict=True))
        for words in values
    ]
    yield filled
    emit.pinned = False
    emit.packet("s_mov_b64_exec", saved)


def _fetch(s: Selector, words: Words, lane: Word) -> Words:
    """The words of another lane."""
    address = s.emit.register(s.arith.binary("shl", lane, 2), False)
    return tuple(s.emit.op("ds_bpermute_b32", address, s.emit.register(w, False)) for w in words)


def _power(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def _cluster(s: Selector, op: Any) -> tuple[int, int]:
    size = getattr(op, "cluster_size", None) or s.wave
    stride = getattr(op, "cluster_stride", None) or 1
    return min(size, s.wave), stride


# -- reduce and scan -------------------------------------------------------------------------------------------------


def payload(s: Selector, value: Value) -> tuple[list[Words], ScalarType]:
    return [words_of(s, e) for e in elements(s, value)], element_type(value)


def deliver(s: Selector, value: Value, found: list[Words], type_: ScalarType) -> None:
    made = tuple(_element(s, words, type_) for words in found)
    s.set(value, Vector(made) if isinstance(value.type, ShapedType) else made[0])


def _subgroup_reduce(s: Selector, op: Any) -> None:
    values, type_ = payload(s, op.value)
    kind = str(op.kind)
    size, stride = _cluster(s, op)
    apply = combiner(s, kind, type_)
    neutral = identity(kind, type_)
    if s.divergent or not (_power(size) and _power(stride)):
        found = [_serial(s, words, neutral, apply, lambda i: _same_cluster(s, i, size, stride)) for words in values]
    else:
        with everyone(s, values, neutral) as filled:
            found = [butterfly(s, words, kind, type_, size, stride) for words in filled]
    deliver(s, op.result, found, type_)


def butterfly(s: Selector, words: Words, kind: str, type_: ScalarType, size: int, stride: int) -> Words:
    """Combine the ``size`` lanes that are ``stride`` apart, pairwise; all lanes of the wave are active."""
    apply = combiner(s, kind, type_)
    mnemonic = _NEIGHBOURS.get((kind, type_.text)) if stride == 1 else None
    step = stride
    while step < size * stride:
        control = _MIRRORS.get(step)
        if mnemonic is not None and control is not None:
            own = s.emit.register(words[0], False)
            if kind in ("minnumf", "maxnumf"):
                own = s.emit.register(quiet(s, own), False)
            words = (s.emit.op(mnemonic, own, own, dpp_ctrl=control),)
        else:
            words = apply(words, _exchange(s, words, step))
        step *= 2
    return words


# Steps between lanes -> the permutation that reaches them. When halves of eight and rows of sixteen are turned round,
# all lanes of a smaller group hold the same already, so that any lane of the other group will do.
_MIRRORS: Final = {1: 0xB1, 2: 0x4E, 4: 0x141, 8: 0x140}
_NEIGHBOURS: Final = {
    ("addf", "f32"): "v_add_f32_dpp",
    ("minnumf", "f32"): "v_min_f32_dpp",
    ("maxnumf", "f32"): "v_max_f32_dpp",
    ("addi", "i32"): "v_add_u32_dpp",
    ("minsi", "i32"): "v_min_i32_dpp",
    ("maxsi", "i32"): "v_max_i32_dpp",
    ("minui", "i32"): "v_min_u32_dpp",
    ("maxui", "i32"): "v_max_u32_dpp",
    ("andi", "i32"): "v_and_b32_dpp",
    ("ori", "i32"): "v_or_b32_dpp",
    ("xori", "i32"): "v_xor_b32_dpp",
}
_SWIZZLE_ALL: Final = 0x1F


def _exchange(s: Selector, words: Words, step: int) -> Words:
    """The words of the lane whose number differs in one bit."""
    if step < 32:
        pattern = step << 10 | _SWIZZLE_ALL
        return tuple(s.emit.op("ds_swizzle_b32", s.emit.register(w, False), offset=pattern) for w in words)
    return _fetch(s, words, s.arith.binary("xor", lane_id(s), step))


def _same_cluster(s: Selector, other: Word, size: int, stride: int) -> Condition:
    """Whether a lane belongs to this lane's cluster."""
    if size * stride >= s.wave and stride == 1:
        return True
    lane = lane_id(s)
    span = size * stride
    return combine_conditions(
        s,
        "and",
        compare_words(s, "eq", (_divide(s, lane, span),), (_divide(s, other, span),)),
        compare_words(s, "eq", (_remainder(s, lane, stride),), (_remainder(s, other, stride),)),
    )


def _divide(s: Selector, word: Word, n: int) -> Word:
    from loom_target_amdgpu.select.divide import divide32

    return divide32(s, "divui", word, n)


def _remainder(s: Selector, word: Word, n: int) -> Word:
    from loom_target_amdgpu.select.divide import divide32

    return 0 if n == 1 else divide32(s, "remui", word, n)


def _subgroup_scan(s: Selector, op: Any) -> None:
    values, type_ = payload(s, op.value)
    kind = str(op.kind)
    size, stride = _cluster(s, op)
    forward, inclusive = op.direction == "forward", op.mode == "inclusive"
    found = scan(s, values, combiner(s, kind, type_), identity(kind, type_), size, stride, forward, inclusive)
    deliver(s, op.result, found, type_)


def scan(
    s: Selector,
    values: list[Words],
    apply: Combiner,
    neutral: Words,
    size: int,
    stride: int,
    forward: bool,
    inclusive: bool,
) -> list[Words]:
    if s.divergent or not (_power(size) and _power(stride)):
        order = "ule" if forward else "uge"
        strict = {"ule": "ult", "uge": "ugt"}[order]

        def takes_part(other: Word) -> Condition:
            before = compare_words(s, order if inclusive else strict, (other,), (lane_id(s),))
            return combine_conditions(s, "and", before, _same_cluster(s, other, size, stride))

        return [_serial(s, words, neutral, apply, takes_part, not forward) for words in values]
    with everyone(s, values, neutral) as filled:
        found = [_shifted_sums(s, words, apply, neutral, size, stride, forward, inclusive) for words in filled]
    return found


def _shifted_sums(
    s: Selector, words: Words, apply: Combiner, neutral: Words, size: int, stride: int, forward: bool, inclusive: bool
) -> Words:
    """Every lane adds the value 1, 2, 4, ... members before it, while there is one."""
    lane = lane_id(s)
    place = s.arith.binary("and", s.arith.binary("shru", lane, stride.bit_length() - 1), size - 1)
    if not forward:
        place = s.arith.sub(size - 1, place)

    def before(source: Words, distance: int, otherwise: Words) -> Words:
        offset = distance * stride
        other = s.arith.sub(lane, offset) if forward else s.arith.binary("add", lane, offset)
        fetched = _fetch(s, source, s.arith.binary("and", other, s.wave - 1))
        exists = compare_words(s, "uge", (place,), (distance,))
        assert not isinstance(exists, bool)
        return tuple(s.arith.select(exists, f, o) for f, o in zip(fetched, otherwise, strict=True))

    if not inclusive:
        words = before(words, 1, neutral)
    distance = 1
    while distance < size:
        earlier = before(words, distance, neutral)
        exists = compare_words(s, "uge", (place,), (distance,))
        assert not isinstance(exists, bool)
        total = apply(earlier, words) if forward else apply(words, earlier)
        words = tuple(s.arith.select(exists, t, w) for t, w in zip(total, words, strict=True))
        distance *= 2
    return words


def _serial(
    s: Selector,
    words: Words,
    start: Words,
    apply: Combiner,
    takes_part: Callable[[Word], Condition],
    backwards: bool = False,
) -> Words:
    """Visit the active lanes in order; every lane combines the values of those that take part for it."""
    emit, builder = s.emit, s.emit.builder
    held = [emit.register(w, False) for w in words]
    count = 1 if s.wave == 32 else 2
    mask = emit.words(emit.op("s_mov_b64_exec_read"))[:count]
    initial = [emit.register(w, False) for w in start]
    head = builder.new_block([RegType("amdgpu.sgpr")] * count + [V1] * len(initial))
    preheader = builder.block
    builder.branch(head, [*mask, *initial])
    emit.enter_scope(True, preheader)
    builder.enter(head)
    arguments = [emit.define(a) for a in head.args]
    left, totals = arguments[:count], tuple(arguments[count:])
    lane = _next_lane(s, left, backwards)
    other = tuple(emit.op("v_readlane_b32", w, emit.register(lane, True)) for w in held)
    part = takes_part(lane)
    combined = apply(totals, other)
    if isinstance(part, bool):
        chosen = [emit.register(c if part else t, False) for c, t in zip(combined, totals, strict=True)]
    else:
        chosen = [emit.register(s.arith.select(part, c, t), False) for c, t in zip(combined, totals, strict=True)]
    rest = _without(s, left, lane)
    test = (
        ScalarTest("s_cmp_lg_i32", rest[0], 0)
        if count == 1
        else ScalarTest("s_cmp_lg_u64", emit.concat(*rest), emit.constant(0, True, 2))
    )
    again, done = builder.new_block(), builder.new_block()
    builder.cond_branch(s.arith.test(test), again, done)
    builder.enter(again)
    builder.branch(head, [*rest, *chosen])
    emit.leave_scope()
    builder.enter(done)
    return tuple(emit.define(c) for c in chosen)


def _next_lane(s: Selector, left: Sequence[Value], backwards: bool) -> Word:
    """The lowest (or highest) lane of a mask that is not empty."""
    from loom_target_amdgpu.select.scalar import count64

    if len(left) == 2:
        found = count64(s, "ctlzi" if backwards else "cttzi", (left[0], left[1]))
        return s.arith.sub(63, found) if backwards else found
    word = s.emit.op("s_flbit_i32_b32" if backwards else "s_ff1_i32_b32", left[0])
    return s.arith.sub(31, word) if backwards else word


def _without(s: Selector, left: Sequence[Value], lane: Word) -> list[Value]:
    if len(left) == 1:
        bit = s.arith.binary("shl", s.emit.register(1, True), lane)
        return [s.emit.register(s.arith.binary("xor", left[0], bit), True)]
    bit64 = s.arith.shift64("shl", (s.emit.register(1, True), s.emit.register(0, True)), lane)
    return [s.emit.register(s.arith.binary("xor", a, b), True) for a, b in zip(left, bit64, strict=True)]


# -- exchange --------------------------------------------------------------------------------------------------------


def _shuffle(s: Selector, op: Any) -> None:
    values, type_ = payload(s, op.value)
    lane = lane_id(s)
    offset, width = s.number(op.offset).lo, s.number(op.width).lo
    if op.mode == "xor":
        source = s.arith.binary("xor", lane, offset)
        valid = compare_words(s, "slt", (source,), (width,))
    elif op.mode == "up":
        source = s.arith.sub(lane, offset)
        valid = compare_words(s, "sge", (lane,), (offset,))
    elif op.mode == "down":
        source = s.arith.binary("add", lane, offset)
        valid = compare_words(s, "slt", (source,), (width,))
    else:
        source = offset
        valid = compare_words(s, "ult", (source,), (width,))
    inside = compare_words(s, "ult", (source,), (s.wave,))
    valid = combine_conditions(s, "and", valid, inside)
    if s.divergent or not full_waves(s):
        valid = combine_conditions(s, "and", valid, _is_active(s, source))
    wrapped = s.arith.binary("and", source, s.wave - 1)
    found = [_fetch(s, words, wrapped) for words in values]
    deliver(s, op.result, found, type_)
    s.set(op.valid, valid)


def _is_active(s: Selector, lane: Word) -> Condition:
    """Whether a lane (a different one for each lane) is active."""
    active = s.emit.words(s.emit.op("s_mov_b64_exec_read"))
    shift = s.emit.register(lane, False)
    if s.wave == 32:
        word = s.arith.binary("shru", active[0], s.arith.binary("and", shift, 31))
    else:
        word = s.arith.shift64("shru", (active[0], active[1]), s.arith.binary("and", shift, 63))[0]
    return compare_words(s, "ne", (s.arith.binary("and", word, 1),), (0,))


def _broadcast(s: Selector, op: Any) -> None:
    values, type_ = payload(s, op.value)
    lane = s.emit.register(s.number(op.lane).lo, True)
    found: list[Words] = [
        tuple(s.emit.op("v_readlane_b32", s.emit.register(w, False), lane) for w in words) for words in values
    ]
    deliver(s, op.result, found, type_)


def _broadcast_first(s: Selector, op: Any) -> None:
    values, type_ = payload(s, op.value)
    found = [
        tuple(w if isinstance(w, int) else s.emit.op("v_readfirstlane_b32", s.emit.to_vector(w)) for w in words)
        for words in values
    ]
    deliver(s, op.result, found, type_)


# -- votes -----------------------------------------------------------------------------------------------------------


def _ballot_words(s: Selector, condition: Condition) -> Words:
    """The predicate of every active lane as a pair of words."""
    mask = s.arith.mask(condition)
    active = s.emit.packet("s_and_b64_exec", mask)[0]
    lo, hi = s.emit.words(active)
    return (lo, hi) if s.wave == 64 else (lo, 0)


def _any(s: Selector, words: Words) -> ScalarTest:
    word = s.arith.binary("or", words[0], words[1])
    return ScalarTest("s_cmp_lg_i32", word, 0)


def _vote_any(s: Selector, op: Any) -> None:
    s.set(op.result, _any(s, _ballot_words(s, s.condition(op.predicate))))


def _vote_all(s: Selector, op: Any) -> None:
    words = _ballot_words(s, s.arith.negate(s.condition(op.predicate)))
    s.set(op.result, s.arith.negate(_any(s, words)))


def set_mask(s: Selector, value: Value, words: Words) -> None:
    assert isinstance(value.type, ScalarType)
    s.set(value, Number(words[: 2 if value.type.width == 64 else 1]))


def _ballot(s: Selector, op: Any) -> None:
    set_mask(s, op.result, _ballot_words(s, s.condition(op.predicate)))


def _active_mask(s: Selector, op: Any) -> None:
    set_mask(s, op.result, _ballot_words(s, True))


def _matching(s: Selector, value: Value) -> Words:
    """Per lane, the active lanes whose value is the same."""
    words = tuple(s.emit.register(w, False) for w in words_of(s, elements(s, value)[0]))
    type_ = element_type(value)
    if type_.width < 32:
        words = tuple(s.emit.register(s.arith.extend(w, type_.width, False), False) for w in words)
    count = 1 if s.wave == 32 else 2

    def add(totals: Words, other: Words) -> Words:
        lane, theirs = other[0], other[1:]
        same: Condition = True
        for mine, their in zip(words, theirs, strict=True):
            same = combine_conditions(s, "and", same, compare_words(s, "eq", (mine,), (their,)))
        one = s.emit.register(1, True)
        bits: Words
        if count == 1:
            bits = (s.arith.binary("shl", one, lane),)
        else:
            bits = s.arith.shift64("shl", (one, s.emit.register(0, True)), lane)
        assert not isinstance(same, bool)
        return tuple(s.arith.select(same, s.arith.binary("or", t, b), t) for t, b in zip(totals, bits, strict=True))

    # The lane number travels with the value: reading it from the visited lane gives that lane.
    found = _serial(s, (s.emit.register(lane_id(s), False), *words), (0,) * count, add, lambda lane: True)
    return (found[0], found[1] if count == 2 else 0)


def _match_any(s: Selector, op: Any) -> None:
    set_mask(s, op.result, _matching(s, op.value))


def _match_all(s: Selector, op: Any) -> None:
    words = _matching(s, op.value)
    active = _ballot_words(s, True)
    same: Condition = True
    for mine, everyone_active in zip(words, active, strict=True):
        if mine != 0 or everyone_active != 0:
            same = combine_conditions(s, "and", same, compare_words(s, "eq", (mine,), (everyone_active,)))
    set_mask(s, op.mask, words)
    all_agree = _ballot_words(s, s.arith.negate(same))
    s.set(op.agree, s.arith.negate(_any(s, all_agree)))


RULES: Final[dict[str, Rule]] = {
    "kernel.subgroup.reduce": _subgroup_reduce,
    "kernel.subgroup.scan": _subgroup_scan,
    "kernel.subgroup.shuffle": _shuffle,
    "kernel.subgroup.broadcast": _broadcast,
    "kernel.subgroup.broadcast.first": _broadcast_first,
    "kernel.subgroup.vote.any": _vote_any,
    "kernel.subgroup.vote.all": _vote_all,
    "kernel.subgroup.vote.ballot": _ballot,
    "kernel.subgroup.active.mask": _active_mask,
    "kernel.subgroup.match.any": _match_any,
    "kernel.subgroup.match.all": _match_all,
}
