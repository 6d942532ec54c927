"""Buffer resources: what an access through one addresses, and which lanes are inside."""

from __future__ import annotations

import attrs
import numpy as np

from loom_sim.amdgpu.emitter import Emitter
from loom_sim.amdgpu.instruction import OFF, Instruction
from loom_sim.amdgpu.state import Array

_U32 = np.uint32


_ADD_LANE = 1 << 23
_STRIDE_SHIFT = np.array([0, 2, 3, 5], np.uint64)
"""Stride scales of gfx12, as shifts; gfx11 has zero there."""

_ELEMENT_BYTES = np.array([0, 4, 0, 16], np.uint64)
"""Sizes of the elements that gfx11 and gfx12 swizzle, by SWIZZLE_ENABLE; gfx942 has elements of four bytes only."""


def _swizzled(
    words: tuple[Array, Array, Array, Array], stride: Array, index: Array, offset: Array, nbytes: int, modern: bool
) -> tuple[Array, Array, Array]:
    """Offsets in buffers that are swizzled, which waves have such, and lanes whose access is not of one element.

    The same element of so many consecutive records as the index stride says lies together (AMD ISA documents, "Swizzled
    Buffer Addressing"). Shapes: (waves, lanes) or (waves, 1).

    Raises:
        NotImplementedError: a reserved element size, a stride that is no multiple of it, and on gfx942 cache swizzling
            or a missing stride.
    """
    second, flags = words[1], words[3]
    if modern:
        mode = second >> _U32(30)
        if (mode == 2).any():
            raise NotImplementedError("a buffer swizzled in elements of a reserved size")
        size, chosen = _ELEMENT_BYTES[mode], mode != 0
    else:
        if (second >> _U32(30) & _U32(1)).any():
            raise NotImplementedError("a buffer with cache swizzling, whose range check is not documented")
        size, chosen = np.full((1, 1), 4, np.uint64), second >> _U32(31) != 0
        if (chosen & (stride == 0)).any():
            raise NotImplementedError("a swizzled buffer without stride, whose range check is not documented")
    size = np.maximum(size, np.uint64(1))
    if (chosen & (stride % size != 0)).any():
        raise NotImplementedError("a swizzled buffer whose stride is no multiple of the element's size")
    wide_offset, wide_index = offset.astype(np.uint64), index.astype(np.uint64)
    together = np.uint64(8) << (flags >> _U32(21) & _U32(3)).astype(np.uint64)
    inner = wide_offset % size
    broken = (inner + np.uint64(nbytes) > size) | (inner % np.uint64(min(nbytes, 4)) != 0)
    place = (wide_index // together * stride + wide_offset - inner) * together + wide_index % together * size + inner
    return place, chosen, chosen & broken


def buffer_address(
    words: tuple[Array, Array, Array, Array],
    index: Array | None,
    offset: Array,
    scalar_offset: Array,
    nbytes: int,
    active: Array,
    modern: bool,
) -> tuple[Array, Array, Array]:
    """Address words and in-range lanes of a buffer access.

    Resource layout and range checking: AMD ISA documents, "Buffer Resource Descriptor" and "Range checking". The
    scalar offset takes no part in range checking.

    Raises:
        NotImplementedError: a resource that adds the lane to the index, an access that is not of one element of a
            swizzled buffer, and what `_swizzled` says.
    """
    base_low, second, records, flags = words
    if (flags & _U32(_ADD_LANE)).any():
        raise NotImplementedError("a buffer resource that adds the lane to the index")
    base_high = second & _U32(0xFFFF)
    stride = (second >> _U32(16) & _U32(0x3FFF)).astype(np.uint64)
    if modern:
        stride = stride << _STRIDE_SHIFT[flags >> _U32(18) & _U32(3)]
    last = offset.astype(np.uint64) + np.uint64(nbytes)
    element = np.zeros((1, 1), _U32) if index is None else index
    raw = last <= records
    structured = element < records
    within = offset.astype(np.uint64) + element.astype(np.uint64) * stride
    swizzled = broken = None
    if (second >> _U32(30)).any():
        place, swizzled, broken = _swizzled(words, stride, element, offset, nbytes, modern)
        within = np.where(swizzled, place, within)
    if modern:
        select = flags >> _U32(28) & _U32(3)
        fits = structured & (last <= np.where(stride == 0, np.uint64(1 << 32), stride))
        if swizzled is not None:
            raw = np.where(swizzled & (stride != 0), fits, raw)
        inside = np.where(
            select == 3, raw, np.where(select == 2, records != 0, np.where(select == 1, structured, fits))
        )
    else:
        inside = np.where(stride == 0, raw, structured)
    inside = np.broadcast_to(inside, active.shape) & active
    if broken is not None and (broken & inside).any():
        raise NotImplementedError("an access across elements of a swizzled buffer, or one that is not aligned")
    address = (
        (base_low.astype(np.uint64) | base_high.astype(np.uint64) << np.uint64(32))
        + scalar_offset.astype(np.uint64)
        + within
    )
    return address.astype(_U32), (address >> np.uint64(32)).astype(_U32), inside


@attrs.frozen(slots=True)
class Place:
    """Names of what says where a buffer access goes: the resource's four words, index (or `None`), offsets."""

    resource: str
    index: str
    offset: str
    scalar_offset: str


def place_of(em: Emitter, inst: Instruction) -> Place:
    """Read the address operands of a buffer instruction."""
    resource = inst.operand("srsrc") or inst.operand("rsrc")
    assert resource is not None
    parts = [em.scalar32(resource.code + k) for k in range(4)]
    for part in parts:
        em.check(part, "the buffer resource")
    vector = inst.operand("vaddr")
    form = inst.form.removesuffix("_rtn").removesuffix("_lds").removeprefix("rtn_")
    index: str = "None"
    offset = em.bits(inst.get("offset")).name
    if vector is not None and vector.code != OFF:
        first = em.vector32(em.vector_index(vector.code))
        em.check(first, "the buffer index or offset")
        if form in ("idxen", "bothen"):
            index = first.name
        if form == "offen":
            offset = em.let(f"{first.name} + {offset}")
        elif form == "bothen":
            second = em.vector32(em.vector_index(vector.code + 1))
            em.check(second, "the buffer offset")
            offset = em.let(f"{second.name} + {offset}")
    scalar_offset = inst.operand("soffset")
    base = em.bits(0)
    if scalar_offset is not None and scalar_offset.code != OFF and not em.is_null(scalar_offset.code):
        base = em.source(scalar_offset, "u32", 31)
        em.check(base, "the scalar offset")
    words = ", ".join(p.name for p in parts)
    return Place(f"({words})", index, offset, base.name)


def address_of(em: Emitter, inst: Instruction, nbytes: int) -> tuple[str, str, str]:
    """Names of low and high address words and of the lanes inside the buffer."""
    p = place_of(em, inst)
    modern = em.traits.family != "gfx942"
    arguments = f"{p.resource}, {p.index}, {p.offset}, {p.scalar_offset}, {nbytes}, E, {modern}"
    triple = em.let(f"{em.const(buffer_address)}({arguments})")
    return em.let(f"{triple}[0]"), em.let(f"{triple}[1]"), em.let(f"{triple}[2]")


def zero_outside(words: list[Array], inside: Array) -> list[Array]:
    """Out-of-range buffer loads return zero."""
    return [np.where(inside, w, _U32(0)) for w in words]
