"""Selection of launch coordinates, barriers and fences."""

from __future__ import annotations

from typing import Any, Final

from loom.ir.core import Op
from loom.low.machine import MemoryAccess
from loom_target_amdgpu import abi
from loom_target_amdgpu.select import divide
from loom_target_amdgpu.select.control import conditional
from loom_target_amdgpu.select.linear import COORDINATES
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import Done, Number, Word, constant

# Op -> coordinates it reads, and whether it reads the dispatch packet: always, or only for dynamic sizes.
COORDINATES_OF: Final[dict[str, tuple[str, ...]]] = {
    "kernel.workgroup.id": ("workgroup",),
    "kernel.cluster.id": ("workgroup",),
    "kernel.workitem.id": ("workitem",),
    "kernel.workitem.dispatch.id": ("workgroup", "workitem"),
    **dict.fromkeys(
        (
            "kernel.subgroup.id",
            "kernel.workgroup.reduce",
            "kernel.workgroup.scan",
            "kernel.workgroup.vote.any",
            "kernel.workgroup.vote.all",
            "kernel.workgroup.vote.count",
        ),
        ("flat",),
    ),
}
PACKET_OPS: Final = {
    "kernel.workgroup.count": "always",
    "kernel.cluster.count": "always",
    "kernel.workgroup.size": "dynamic",
    "kernel.workitem.dispatch.id": "dynamic",
    "kernel.subgroup.id": "dynamic",
    "kernel.subgroup.count": "dynamic",
    "kernel.workgroup.reduce": "dynamic",
    "kernel.workgroup.scan": "dynamic",
    "kernel.workgroup.vote.any": "dynamic",
    "kernel.workgroup.vote.all": "dynamic",
    "kernel.workgroup.vote.count": "dynamic",
}
_AXES: Final = "xyz"


def _coordinate(kind: str) -> Rule:
    def rule(s: Selector, op: Any) -> None:
        exact = s.exact(op.result)
        if exact is not None:
            s.set(op.result, exact)
            return
        s.set(op.result, Number((s.coordinate(COORDINATES[kind, str(op.axis)]),)))

    return rule


def workgroup_size(s: Selector, axis: str) -> Word:
    """Workgroup extent along an axis."""
    static = s.static_size(axis)
    if static is not None:
        return static
    # Two 16-bit extents share a word of the dispatch packet; scalar loads need whole words.
    offset = abi.PACKET_WORKGROUP_SIZE[axis]
    word = _packet_word(s, offset & ~3)
    return s.arith.binary("shru", word, 16) if offset & 2 else s.arith.binary("and", word, 0xFFFF)


def _packet_word(s: Selector, offset: int) -> Word:
    access = MemoryAccess("dispatch", None, offset, offset + 4, invariant=True)
    return s.emit.packet("s_load_dword_offset_only", s.live_in(abi.DISPATCH), offset=offset, access=access)[0]


def _size(s: Selector, op: Any) -> None:
    s.set(op.result, Number((workgroup_size(s, str(op.axis)),)))


def _count(s: Selector, op: Any) -> None:
    axis = str(op.axis)
    items = _packet_word(s, abi.PACKET_GRID_SIZE[axis])
    size = workgroup_size(s, axis)
    s.set(op.result, Number((divide.divide32(s, "divui", items, size),)))


def _dispatch_id(s: Selector, op: Any) -> None:
    axis = str(op.axis)
    group, item = s.coordinate(COORDINATES["workgroup", axis]), s.coordinate(COORDINATES["workitem", axis])
    size = workgroup_size(s, axis)
    # The facts bound the whole position by the flat grid, which fits 32 bits.
    s.set(op.result, Number((s.arith.mul_add(group, size, item, False, op.result.name),)))


def lane_id(s: Selector) -> Word:
    """Lane in the wave."""
    low = s.emit.op("v_mbcnt_lo_u32_b32_ones", 0)
    return low if s.wave == 32 else s.emit.op("v_mbcnt_hi_u32_b32_ones", low)


def flat_id(s: Selector) -> Word:
    """Flat work-item id in the workgroup."""
    total: Word = 0
    for axis in reversed(_AXES):
        if s.static_size(axis) == 1:
            continue
        total = s.arith.mul_add(total, workgroup_size(s, axis), s.coordinate(COORDINATES["workitem", axis]), False)
    return total


def _flat_size(s: Selector) -> Word:
    total: Word = 1
    for axis in _AXES:
        total = s.arith.binary("mul", total, workgroup_size(s, axis))
    return total


def _lane(s: Selector, op: Any) -> None:
    s.set(op.result, Number((lane_id(s),)))


def _subgroup_size(s: Selector, op: Any) -> None:
    s.set(op.result, constant(s.wave))


def _subgroup_id(s: Selector, op: Any) -> None:
    word = s.arith.binary("shru", flat_id(s), s.wave.bit_length() - 1)
    # All lanes of a wave agree on it.
    s.set(op.result, Number((s.emit.register(word, True) if not isinstance(word, int) else word,)))


def subgroup_count(s: Selector) -> Word:
    """Waves of the workgroup."""
    rounded = s.arith.binary("add", _flat_size(s), s.wave - 1)
    return s.arith.binary("shru", rounded, s.wave.bit_length() - 1)


def _subgroup_count(s: Selector, op: Any) -> None:
    s.set(op.result, Number((subgroup_count(s),)))


# -- barriers and fences ---------------------------------------------------------------------------------------------


def release(s: Selector, space: str, scope: str) -> None:
    """Earlier global accesses are done and visible to the scope."""
    if space not in ("global", "generic"):
        return
    emit = s.emit
    family = s.processor.family
    if family == "gfx12":
        if scope in ("device", "system"):
            emit.packet("global_wb", scope=2 if scope == "device" else 3)
        emit.packet("s_wait_loadcnt", loadcnt=0)
        emit.packet("s_wait_storecnt", storecnt=0)
        return
    if family == "gfx942" and scope in ("device", "system"):
        emit.packet("buffer_wbl2", sc1=1, sc0=int(scope == "system"))
    emit.packet("s_waitcnt", vmcnt=0)
    if family == "gfx11":
        emit.packet("s_waitcnt_vscnt", vscnt=0)


def settle(s: Selector, space: str) -> None:
    """All accesses issued so far are complete."""
    emit = s.emit
    if s.processor.family == "gfx12":
        emit.packet("s_wait_loadcnt", loadcnt=0)
        emit.packet("s_wait_storecnt", storecnt=0)
        if space == "workgroup":
            emit.packet("s_wait_dscnt", dscnt=0)
        return
    if space == "workgroup":
        emit.packet("s_waitcnt", lgkmcnt=0)
        return
    emit.packet("s_waitcnt", vmcnt=0)
    if s.processor.family == "gfx11":
        emit.packet("s_waitcnt_vscnt", vscnt=0)


def acquire(s: Selector, space: str, scope: str) -> None:
    """Later global accesses see what the scope has published."""
    if space not in ("global", "generic"):
        return
    emit = s.emit
    family = s.processor.family
    if family == "gfx12":
        emit.packet("global_inv", scope={"workgroup": 1, "device": 2, "system": 3}.get(scope, 1))
    elif family == "gfx11":
        emit.packet("buffer_gl0_inv")
        if scope in ("device", "system"):
            emit.packet("buffer_gl1_inv")
    elif scope in ("device", "system"):
        emit.packet("buffer_inv", sc1=1, sc0=int(scope == "system"))


RELEASING: Final = frozenset({"release", "acq_rel", "seq_cst"})
ACQUIRING: Final = frozenset({"acquire", "acq_rel", "seq_cst"})


def _barrier(s: Selector, op: Any) -> None:
    scope, space, ordering = str(op.scope), str(op.space), str(op.ordering)
    if scope == "subgroup":
        # Lanes of a wave run together and their workgroup accesses stay in order: only reordering must stop.
        s.emit.builder.fence()
        return
    if scope != "workgroup":
        raise s.unsupported(op, f"a barrier of scope {scope} is not supported on {s.processor.name}")
    if ordering in RELEASING:
        release(s, space, scope)
    rendezvous(s)
    if ordering in ACQUIRING:
        acquire(s, space, scope)


def rendezvous(s: Selector) -> None:
    """All waves of the workgroup meet."""
    if s.emit.has("s_barrier"):
        s.emit.packet("s_barrier")
    else:
        s.emit.packet("s_barrier_signal_all")
        s.emit.packet("s_barrier_wait_all")


def _arrive(s: Selector, op: Any) -> None:
    """The first half of a barrier, where the processor has halves; nothing where the second does it all.

    Between the halves a work-item touches nothing but its own memory, so that meeting later publishes the same.
    Halves are written to have something in between: the work that stands there is kept there.
    """
    if s.emit.has("s_barrier_signal_all"):
        s.emit.packet("s_barrier_signal_all")
        s.emit.builder.fence()
    s.set(op.result, Done())


def _wait(s: Selector, op: Any) -> None:
    if s.emit.has("s_barrier_wait_all"):
        s.emit.builder.fence()
        s.emit.packet("s_barrier_wait_all")
    else:
        s.emit.packet("s_barrier")


def _assert(s: Selector, op: Any) -> None:
    """A false condition in any lane traps, which ends the launch with an error."""
    condition = s.arith.negate(s.condition(op.condition))

    def arm() -> list[Any]:
        s.emit.packet("s_trap", trapid=2)
        return []

    conditional(s, op, condition, [arm], [])


# -- clusters --------------------------------------------------------------------------------------------------------


def _cluster(constant_or_coordinate: Rule) -> Rule:
    """A query where every cluster is one workgroup; launches of larger clusters are refused."""

    def select(s: Selector, op: Op) -> None:
        for inner in s.kernel.regions[0].ops():
            config: Any = inner
            if inner.name == "kernel.launch.config" and config.cluster:
                raise s.unsupported(op, f"clusters of workgroups are not supported on {s.processor.name}")
        constant_or_coordinate(s, op)

    return select


def _number(value: int) -> Rule:
    def select(s: Selector, op: Any) -> None:
        s.set(op.result, constant(value))

    return select


def _buffer_fence(s: Selector, op: Any) -> None:
    scope, space, ordering = str(op.scope), str(op.space), str(op.ordering)
    if ordering in RELEASING:
        release(s, space, scope)
    if ordering in ACQUIRING:
        acquire(s, space, scope)
    s.emit.builder.fence()


RULES: Final[dict[str, Rule]] = {
    "kernel.workgroup.id": _coordinate("workgroup"),
    "kernel.workitem.id": _coordinate("workitem"),
    "kernel.workgroup.size": _size,
    "kernel.workgroup.count": _count,
    "kernel.workitem.dispatch.id": _dispatch_id,
    "kernel.subgroup.id": _subgroup_id,
    "kernel.subgroup.count": _subgroup_count,
    "kernel.subgroup.size": _subgroup_size,
    "target.subgroup.size": _subgroup_size,
    "kernel.subgroup.lane.id": _lane,
    "kernel.barrier": _barrier,
    "kernel.barrier.arrive": _arrive,
    "kernel.barrier.wait": _wait,
    "kernel.assert": _assert,
    "kernel.cluster.id": _cluster(_coordinate("workgroup")),
    "kernel.cluster.count": _cluster(_count),
    "kernel.cluster.size": _cluster(_number(1)),
    "kernel.cluster.workgroup.id": _cluster(_number(0)),
    "kernel.cluster.workgroup.flat_id": _cluster(_number(0)),
    "buffer.fence": _buffer_fence,
}
