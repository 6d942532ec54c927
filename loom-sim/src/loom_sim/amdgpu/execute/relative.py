"""Register numbers that only run time knows: moves relative to M0, and the register indexing mode of gfx942.

Waves are grouped by the index first, and code is translated for one index. What is left is an ordinary instruction on
ordinary registers, so that waits, undefined bits and register limits are checked as everywhere else.

Sources: AMD ISA documents, `V_MOVRELS_B32` and its relatives, and "GPR Indexing" of the gfx9 documents.
"""

from __future__ import annotations

import attrs

from loom_sim.amdgpu.emitter import Emitter, Value
from loom_sim.amdgpu.instruction import VGPR, Instruction, Operand
from loom_sim.amdgpu.traits import Traits

_VALU = frozenset({"VOP1", "VOP2", "VOP3", "VOPC", "VOP3P"})
_ENABLE_BITS = {"src0": 0, "vsrc0": 0, "src1": 1, "vsrc1": 1, "src2": 2, "vsrc2": 2, "vdst": 3}
_CHANGES = ("s_set_gpr_idx_on", "s_set_gpr_idx_idx", "s_set_gpr_idx_mode")


@attrs.frozen(slots=True)
class Move:
    """How a relative move finds its registers: a bit field of M0 is added to the source, another to the destination."""

    plain: str
    source: tuple[int, int] | None = None
    destination: tuple[int, int] | None = None


# Fields as (lowest bit, width).
_ALL, _LOW, _HIGH = (0, 32), (0, 10), (16, 10)
_MOVES = {
    "v_movrels_b32": Move("v_mov_b32", source=_ALL),
    "v_movreld_b32": Move("v_mov_b32", destination=_ALL),
    "v_movrelsd_b32": Move("v_mov_b32", source=_ALL, destination=_ALL),
    "v_movrelsd_2_b32": Move("v_mov_b32", source=_LOW, destination=_HIGH),
    "v_swaprel_b32": Move("v_swap_b32", source=_LOW, destination=_HIGH),
    "s_movrels_b32": Move("s_mov_b32", source=_ALL),
    "s_movrels_b64": Move("s_mov_b64", source=_ALL),
    "s_movreld_b32": Move("s_mov_b32", destination=_ALL),
    "s_movreld_b64": Move("s_mov_b64", destination=_ALL),
    "s_movrelsd_2_b32": Move("s_mov_b32", source=_LOW, destination=_HIGH),
}


@attrs.frozen(slots=True)
class Indexing:
    """The register indexing mode: which operands (source 0, 1, 2, destination by bit) an index is added to."""

    enabled: int
    index: int


def selector(inst: Instruction, traits: Traits) -> Operand | None:
    """The operand whose value has to be known before the instruction can be translated; None for most."""
    name = inst.mnemonic
    if name in ("s_set_gpr_idx_on", "s_set_gpr_idx_idx"):
        return inst.operand("ssrc0")
    if name in _MOVES or name == "s_set_gpr_idx_mode":
        return Operand("m0", "sgpr", traits.m0_code, 32, True, False, "", 0)
    return None


def _field(value: int, field: tuple[int, int] | None) -> int:
    if field is None:
        return 0
    low, width = field
    found = value >> low & ((1 << width) - 1)
    return found - (1 << 32) if found >> 31 else found


def _moved(operand: Operand, amount: int, is_result: bool) -> Operand:
    swap = operand.is_source and operand.is_result
    return attrs.evolve(
        operand,
        code=operand.code + amount,
        is_source=swap or not is_result,
        is_result=swap or is_result,
    )


def resolve(inst: Instruction, value: int | None, indexing: Indexing | None) -> Instruction:
    """The instruction on the registers it means.

    Args:
        value: of its selector.
        indexing: the mode in force.
    """
    move = _MOVES.get(inst.mnemonic)
    if move is not None:
        assert value is not None
        first, second = inst.operands[:2]
        operands = (
            _moved(first, _field(value, move.destination), True),
            _moved(second, _field(value, move.source), False),
            *inst.operands[2:],
        )
        return attrs.evolve(inst, mnemonic=move.plain, operands=operands)
    if indexing is None or inst.format not in _VALU:
        return inst
    return attrs.evolve(inst, operands=tuple(_indexed(o, indexing) for o in inst.operands))


def _indexed(operand: Operand, indexing: Indexing) -> Operand:
    bit = _ENABLE_BITS.get(operand.name)
    if bit is None or operand.code < VGPR or not indexing.enabled >> bit & 1:
        return operand
    return attrs.evolve(operand, code=operand.code + indexing.index)


def translate(em: Emitter, inst: Instruction) -> bool:
    """Translate a change of the indexing mode; False if the instruction is none.

    Raises:
        UnsupportedInstruction: M0, which holds the index, is written while the mode is on.
    """
    name = inst.mnemonic
    m0 = em.traits.m0_code
    if name == "s_set_gpr_idx_off":
        em.indexing = None
        return True
    if name not in _CHANGES:
        if em.indexing is not None and any(o.code == m0 for o in inst.results):
            raise em.unsupported("M0 is written while register indexing is on")
        return False
    value = em.selected
    assert value is not None
    old = em.scalar32(m0)
    index, kept = value & 0xFF, 0
    if name == "s_set_gpr_idx_on":
        enabled, kept = inst.operands[1].code & 15, 0xF0FF
    elif name == "s_set_gpr_idx_mode":
        enabled, kept = inst.operands[0].code & 15, 0xF000
    else:
        enabled, kept = (em.indexing.enabled if em.indexing else 0), 0x00FF
    word = (enabled << 12 | index) & kept
    undefined = None
    if old.undefined:
        undefined = em.let(f"None if {old.undefined} is None else {old.undefined} & ~u32({kept})")
    em.write_scalar32(m0, Value(em.let(f"{old.name} & ~u32({kept}) | u32({word})"), undefined))
    if name != "s_set_gpr_idx_idx" or em.indexing is not None:
        em.indexing = Indexing(enabled, index)
    return True
