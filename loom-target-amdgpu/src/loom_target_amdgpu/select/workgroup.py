"""Selection of workgroup collectives: every wave combines its lanes, waves exchange totals in workgroup storage."""

from __future__ import annotations

from typing import Any, Final

from loom.dialects.low import ops as low
from loom.ir.attributes import Dictionary
from loom.ir.core import Op
from loom.ir.types import F32, I32, ScalarType, StorageType
from loom_target_amdgpu.select.collectives import (
    Words,
    butterfly,
    combiner,
    deliver,
    everyone,
    identity,
    payload,
    scan,
    set_mask,
)
from loom_target_amdgpu.select.compare import compare_words
from loom_target_amdgpu.select.kernel import flat_id, lane_id, rendezvous, subgroup_count
from loom_target_amdgpu.select.scalar_float import quiet
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import Word

_ALIGNMENT: Final = 16
_FEW: Final = (2, 4)
"""Numbers of waves whose totals are read at once."""


def _waves(s: Selector, op: Op) -> int:
    """Waves of the workgroup, at most."""
    total = 1
    for axis in "xyz":
        size = s.static_size(axis)
        if size is None:
            return -(-s.generation.max_workgroup // s.wave)
        total *= size
    if total > s.generation.max_workgroup:
        raise s.unsupported(op, f"a workgroup of {total} work-items is larger than {s.processor.name} allows")
    return -(-total // s.wave)


def _storage(s: Selector, size: int) -> int:
    """Reserve workgroup storage; its byte offset."""
    facts = Dictionary({"byte_alignment": _ALIGNMENT, "byte_length": size})
    s.emit.builder.add(low.StorageReserve([], [facts], [StorageType("workgroup")]))
    offset = -(-s.storage["workgroup"] // _ALIGNMENT) * _ALIGNMENT
    s.storage["workgroup"] = offset + size
    return offset


def _wave_number(s: Selector) -> Word:
    return s.arith.binary("shru", flat_id(s), s.wave.bit_length() - 1)


def _write_total(s: Selector, total: Words, waves: int) -> int:
    """Put every wave's total at the place of its number; where the first one is."""
    size = 4 * len(total)
    offset = _storage(s, waves * size)
    address = s.emit.register(s.arith.binary("mul", _wave_number(s), size), False)
    suffix = "b32" if len(total) == 1 else "b64"
    s.emit.packet(f"ds_write_{suffix}", address, s.emit.tuple_of(total, False), offset=offset)
    rendezvous(s)
    return offset


def _leave_storage(s: Selector) -> None:
    """The storage may be written again, by the next round of a loop, only when all waves have read it."""
    if s.emit.loop_level or len(s.kernel.regions[-1].blocks) > 1:
        rendezvous(s)


def _read_all(s: Selector, total: Words, kind: str, type_: ScalarType, waves: int) -> Words:
    """The total of a few waves: every work-item reads what all of them wrote with one instruction."""
    offset = _write_total(s, total, waves)
    read = s.emit.packet(f"ds_read_b{32 * waves}", s.emit.constant(0, False), offset=offset)[0]
    _leave_storage(s)
    apply = combiner(s, kind, type_)
    totals: list[Words] = [(word,) for word in s.emit.words(read)]
    if type_ is F32 and not isinstance(total[0], int) and quiet(s, total[0]) is total[0]:
        s.quiet.update(s.emit.words(read))
    while len(totals) > 1:
        totals = [apply(a, b) for a, b in zip(totals[::2], totals[1::2], strict=True)]
    return totals[0]


def _exchange_totals(s: Selector, op: Op, totals: Words, neutral: Words, waves: int) -> Words:
    """Every wave's total in the lane of its number, in all waves; other lanes hold the neutral value."""
    emit = s.emit
    size = 4 * len(totals)
    suffix = "b32" if len(totals) == 1 else "b64"
    offset = _write_total(s, totals, waves)
    lane = lane_id(s)
    count = waves if None not in s.facts.static_workgroup_size else subgroup_count(s)
    inside = compare_words(s, "ult", (lane,), (count,))
    clamped = s.arith.binary("minu", lane, waves - 1)
    read = emit.packet(f"ds_read_{suffix}", emit.register(s.arith.binary("mul", clamped, size), False), offset=offset)[
        0
    ]
    _leave_storage(s)
    if isinstance(inside, bool):
        return emit.words(read)
    return tuple(s.arith.select(inside, w, n) for w, n in zip(emit.words(read), neutral, strict=True))


def _workgroup_total(s: Selector, op: Op, words: Words, kind: str, type_: ScalarType) -> Words:
    neutral = identity(kind, type_)
    with everyone(s, [words], neutral) as filled:
        total = butterfly(s, filled[0], kind, type_, s.wave, 1)
    waves = _waves(s, op)
    if waves == 1:
        return total
    if waves in _FEW and len(total) == 1 and None not in s.facts.static_workgroup_size:
        return _uniform(s, _read_all(s, total, kind, type_, waves), type_)
    with everyone(s, [_exchange_totals(s, op, total, neutral, waves)], neutral) as filled:
        total = butterfly(s, filled[0], kind, type_, 1 << (waves - 1).bit_length(), 1)
    # Lanes beyond the number of waves have combined neutral values only: the first lane has the total.
    return tuple(w if isinstance(w, int) else s.emit.op("v_readfirstlane_b32", s.emit.to_vector(w)) for w in total)


def _uniform(s: Selector, total: Words, type_: ScalarType) -> Words:
    """A total that all lanes hold: numbers for addresses and conditions in scalar registers, floats as they are."""
    if type_.text.startswith(("f", "bf")):
        return total
    return tuple(w if isinstance(w, int) else s.emit.to_scalar(w) for w in total)


def _require_uniform(s: Selector, op: Op) -> None:
    if s.divergent:
        raise s.unsupported(op, f"'{op.name}' under a condition that differs between lanes is not supported")


def _workgroup_reduce(s: Selector, op: Any) -> None:
    _require_uniform(s, op)
    values, type_ = payload(s, op.value)
    deliver(s, op.result, [_workgroup_total(s, op, words, str(op.kind), type_) for words in values], type_)


def _workgroup_scan(s: Selector, op: Any) -> None:
    _require_uniform(s, op)
    values, type_ = payload(s, op.value)
    kind = str(op.kind)
    apply, neutral = combiner(s, kind, type_), identity(kind, type_)
    forward, inclusive = op.direction == "forward", op.mode == "inclusive"
    waves = _waves(s, op)
    found = []
    for words in values:
        own = scan(s, [words], apply, neutral, s.wave, 1, forward, inclusive)[0]
        if waves > 1:
            with everyone(s, [words], neutral) as filled:
                total = butterfly(s, filled[0], kind, type_, s.wave, 1)
            totals = _exchange_totals(s, op, total, neutral, waves)
            earlier = scan(s, [totals], apply, neutral, s.wave, 1, forward, False)[0]
            number = s.emit.register(_wave_number(s), True)
            mine = tuple(s.emit.op("v_readlane_b32", s.emit.register(w, False), number) for w in earlier)
            own = apply(mine, own) if forward else apply(own, mine)
        found.append(own)
    deliver(s, op.result, found, type_)


def _workgroup_vote(s: Selector, op: Any) -> None:
    _require_uniform(s, op)
    word = s.condition_word(s.condition(op.predicate))
    kind = {"any": "ori", "all": "andi", "count": "addi"}[op.name.rpartition(".")[2]]
    if kind == "andi":
        word = s.arith.sub(0, word)
    total = _workgroup_total(s, op, (word,), kind, I32)
    if kind == "addi":
        set_mask(s, op.result, (total[0], 0))
    else:
        s.set(op.result, compare_words(s, "ne", total, (0,)))


RULES: Final[dict[str, Rule]] = {
    "kernel.workgroup.reduce": _workgroup_reduce,
    "kernel.workgroup.scan": _workgroup_scan,
    "kernel.workgroup.vote.any": _workgroup_vote,
    "kernel.workgroup.vote.all": _workgroup_vote,
    "kernel.workgroup.vote.count": _workgroup_vote,
}
