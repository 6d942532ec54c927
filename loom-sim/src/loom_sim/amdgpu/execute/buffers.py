"""Buffer resources: what an access through one addresses, and which lanes are inside."""

from __future__ import annotations

import attrs
import numpy as np

from loom_sim.amdgpu.emitter import Emitter
from loom_sim.amdgpu.instruction import OFF, Instruction
from loom_sim.amdgpu.state import Array

_U32 = np.uint32


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
        NotImplementedError: a swizzled buffer.
    """
    base_low, second, records, flags = words
    if (second >> _U32(30)).any() or (second >> _U32(31)).any():
        raise NotImplementedError("swizzled buffers are not supported")
    base_high = second & _U32(0xFFFF)
    stride = second >> _U32(16) & _U32(0x3FFF)
    last = offset.astype(np.uint64) + np.uint64(nbytes)
    element = np.zeros((1, 1), _U32) if index is None else index
    raw = last <= records
    structured = element < records
    if modern:
        select = flags >> _U32(28) & _U32(3)
        fits = structured & (last <= np.where(stride == 0, np.uint64(1 << 32), stride.astype(np.uint64)))
        inside = np.where(
            select == 3, raw, np.where(select == 2, records != 0, np.where(select == 1, structured, fits))
        )
    else:
        inside = np.where(stride == 0, raw, structured)
    address = (
        (base_low.astype(np.uint64) | base_high.astype(np.uint64) << np.uint64(32))
        + scalar_offset.astype(np.uint64)
        + offset.astype(np.uint64)
        + element.astype(np.uint64) * stride.astype(np.uint64)
    )
    return address.astype(_U32), (address >> np.uint64(32)).astype(_U32), np.broadcast_to(inside, active.shape) & active


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
