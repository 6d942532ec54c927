"""Authored spills and reloads: vector registers to and from the private segment, a few units at a time."""

from __future__ import annotations

from typing import Final

from loom.dialects.low import ops as low
from loom.ir.core import Op, Value
from loom.ir.diagnostics import LoomError, fail
from loom.ir.types import RegType
from loom.low.assembly import make_packet
from loom.low.descriptors import DescriptorSet

_VGPR: Final = "amdgpu.vgpr"
# Units of one access -> its width in the names of instructions.
_WIDTHS: Final = {4: "b128", 2: "b64", 1: "b32"}
# Every processor encodes offsets up to here.
_LARGEST_OFFSET: Final = 2047


def expand_spill(op: low.Spill, space: str, offset: int, descriptor_set: DescriptorSet) -> None:
    """Replace a spill by stores. Raises a diagnostic for registers or storage that have none."""
    units = _units(op, op.value, space)
    for first, count in _pieces(units):
        type_ = RegType(_VGPR, count)
        part: Value = op.value
        if count != units:
            cut = low.Slice([op.value], [first], [type_], loc=op.loc)
            cut.insert_before(op)
            part = cut.result
        _access(op, f"scratch_store_{_WIDTHS[count]}", [part], offset + 4 * first, [], descriptor_set)
    op.erase()


def expand_reload(op: low.Reload, space: str, offset: int, descriptor_set: DescriptorSet) -> None:
    """Replace a reload by loads. Raises a diagnostic for registers or storage that have none."""
    units = _units(op, op.result, space)
    parts: list[Value] = []
    for first, count in _pieces(units):
        type_ = RegType(_VGPR, count)
        made = _access(op, f"scratch_load_{_WIDTHS[count]}", [], offset + 4 * first, [type_], descriptor_set)
        parts += made.results
    if len(parts) > 1:
        whole = low.Concat(parts, [], [op.result.type], loc=op.loc)
        whole.insert_before(op)
        parts = whole.results
    op.replace_with(parts)


def _pieces(units: int) -> list[tuple[int, int]]:
    found = []
    first = 0
    while first < units:
        count = next(width for width in _WIDTHS if width <= units - first)
        found.append((first, count))
        first += count
    return found


def _access(
    before: Op,
    name: str,
    operands: list[Value],
    offset: int,
    types: list[RegType],
    descriptor_set: DescriptorSet,
) -> Op:
    immediates = {"offset": offset} if offset else {}
    suffix = "offset_only"
    if offset > _LARGEST_OFFSET:
        address = make_packet(
            descriptor_set.by_mnemonic["v_mov_b32"], [], {"imm32": offset}, [RegType(_VGPR)], before.loc
        )
        address.insert_before(before)
        operands, immediates, suffix = [address.results[0], *operands], {}, "vaddr"
    descriptor = descriptor_set.by_mnemonic[f"{name}_{suffix}"]
    made = make_packet(descriptor, operands, immediates, list(types), before.loc)
    made.insert_before(before)
    return made


def _units(op: Op, value: Value, space: str) -> int:
    type_ = value.type
    assert isinstance(type_, RegType)
    if type_.reg_class != _VGPR:
        hint = "move it to a vector register: the lanes that reload may be others than those that spilled"
        raise _refuse(op, f"{type_} cannot be kept in memory", hint if type_.reg_class == "amdgpu.sgpr" else None)
    if space != "private":
        raise _refuse(op, f"registers are kept in private storage, not in {space} storage", None)
    return type_.count


def _refuse(op: Op, why: str, hint: str | None) -> LoomError:
    return fail("TARGET/054", f"'{op.name}': {why}", op.loc, hint=hint, emitter="amdgpu", subject_kind=op.name)
