"""Buffer loads and stores that convert between registers and a typed format (`buffer_*_format_*`, `tbuffer_*`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from loom_sim.amdgpu.emitter import Emitter, Value
from loom_sim.amdgpu.execute import buffer_formats
from loom_sim.amdgpu.execute.buffers import buffer_address, place_of, zero_outside
from loom_sim.amdgpu.instruction import Instruction
from loom_sim.amdgpu.state import Array

_U32 = np.uint32
_IDENTITY = (4, 5, 6, 7)
_ONE = {"uint": 1, "sint": 1}
_ONE_FLOAT = {False: 0x3F800000, True: 0x3C00}


def _uniform(word: Array) -> int:
    if (word != word.flat[0]).any():
        raise NotImplementedError("buffer formats that differ between the waves of one instruction")
    return int(word.flat[0])


def _resource_format(flags: int, modern: bool) -> tuple[buffer_formats.Format, tuple[int, ...]]:
    """Format and component selection in the last word of a resource."""
    code = flags >> 12 & 63 if modern else flags >> 15 & 15 | (flags >> 12 & 7) << 4
    return buffer_formats.by_code(code, modern), tuple(flags >> 3 * k & 7 for k in range(4))


def _format(
    resource: tuple[Array, Array, Array, Array], code: int | None, modern: bool
) -> tuple[buffer_formats.Format, tuple[int, ...] | None]:
    if code is not None:
        return buffer_formats.by_code(code, modern), None
    return _resource_format(_uniform(resource[3]), modern)


def load_formatted(
    machine: Any, g: Any, resource: tuple[Array, Array, Array, Array], index: Array | None, offset: Array,
    scalar_offset: Array, active: Array, modern: bool, code: int | None, count: int, half: bool,
) -> list[Array]:  # fmt: skip
    """Component words of typed elements; `code` is the instruction's own format, None takes the resource's.

    Components the format lacks are zero when the instruction has the format; see "Buffer Data" in the ISA documents.

    Raises:
        NotImplementedError: a format that is none, or a selection of components the format lacks.
    """
    fmt, selection = _format(resource, code, modern)
    low, high, inside = buffer_address(resource, index, offset, scalar_offset, fmt.nbytes, active, modern)
    raw = zero_outside(machine.global_load(g, low, high, 0, fmt.nbytes, inside), inside)
    parts = buffer_formats.load(raw, fmt, half)
    zero = np.zeros((1, 1), _U32)
    if selection is None:
        return [parts[k] if k < len(parts) else zero for k in range(count)]
    result = []
    for select in selection[:count]:
        if select >= 4 and select - 4 < len(parts):
            result.append(parts[select - 4])
        elif select <= 1:
            one = _ONE.get(fmt.kind, _ONE_FLOAT[half])
            result.append(np.full((1, 1), one if select else 0, _U32))
        else:
            raise NotImplementedError("the buffer resource selects a component that its format lacks")
    return result


def store_formatted(
    machine: Any, g: Any, resource: tuple[Array, Array, Array, Array], index: Array | None, offset: Array,
    scalar_offset: Array, active: Array, modern: bool, code: int | None, values: list[Array], half: bool,
) -> None:  # fmt: skip
    """Store typed elements from component words.

    Raises:
        NotImplementedError: see `buffer_formats.store`; a resource that changes the order of components.
    """
    fmt, selection = _format(resource, code, modern)
    if selection is not None and selection[: len(fmt.widths)] != _IDENTITY[: len(fmt.widths)]:
        raise NotImplementedError("a store through a resource that changes the order of components")
    low, high, inside = buffer_address(resource, index, offset, scalar_offset, fmt.nbytes, active, modern)
    words = buffer_formats.store(values, fmt, half, inside)
    machine.global_store(g, low, high, 0, fmt.nbytes, inside, words)


def translate(em: Emitter, inst: Instruction) -> None:
    """Translate a typed buffer instruction."""
    name = inst.mnemonic
    count = len(name.rpartition("_")[2])
    half, top = "d16" in name, "_hi_" in name
    modern = em.traits.family != "gfx942"
    code = inst.get("format") if name.startswith("tbuffer_") else None
    data = inst.operand("vdata")
    assert data is not None
    place = place_of(em, inst)
    where = f"{place.resource}, {place.index}, {place.offset}, {place.scalar_offset}, E, {modern}, {code}"
    registers = [em.vector_index(data.code + k) for k in range((count + 1) // 2 if half else count)]
    em.site()
    if "_store_" in name:
        values = []
        for k in range(count):
            value = em.vector32(registers[k // 2 if half else k])
            em.check(value, "stored data")
            values.append(em.let(f"{value.name} >> k16") if half and (top or k % 2) else value.name)
        em.emit(f"{em.const(store_formatted)}(M, g, {where}, [{', '.join(values)}], {half})")
        return
    loaded = em.let(f"{em.const(load_formatted)}(M, g, {where}, {count}, {half})")
    parts = [em.let(f"{loaded}[{k}]") for k in range(count)]
    if not half:
        for register, part in zip(registers, parts, strict=True):
            em.write_vector32(register, Value(part))
        return
    for k, register in enumerate(registers):
        if 2 * k + 1 < count:
            em.write_vector32(register, Value(em.let(f"{parts[2 * k]} | {parts[2 * k + 1]} << k16")))
            continue
        old = em.vector32(register)
        text = f"{parts[2 * k]} << k16 | {old.name} & klow" if top else f"{parts[2 * k]} | {old.name} & khigh"
        undefined = None
        if old.undefined:
            undefined = em.let(f"halves_undefined(None, {old.undefined}, {top})")
        em.write_vector32(register, Value(em.let(text), undefined))
