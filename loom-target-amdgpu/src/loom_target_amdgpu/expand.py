"""From allocated blocks to encoded instructions: packets, register moves, spills and branches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loom.ir.diagnostics import fail
from loom.low.allocate import Allocation
from loom.low.lower_ssa import FinalBlock
from loom.low.machine import Function, Instruction, Kind, Move, ScheduleMode, Swap, VReg
from loom_target_amdgpu.abi import DATA
from loom_target_amdgpu.code_object.elf import RelocationKind
from loom_target_amdgpu.isa.registers import SCC, VCC
from loom_target_amdgpu.isa.tables import AGPR, LITERAL, VGPR
from loom_target_amdgpu.machine_code import Assembler, Code, Order

_SGPR: Final = "amdgpu.sgpr"
_VGPR: Final = "amdgpu.vgpr"
_AGPR: Final = "amdgpu.agpr"
_SCC: Final = "amdgpu.scc"
_VCC: Final = "amdgpu.vcc"
_M0: Final = "amdgpu.m0"
_BASE: Final = {_SGPR: 0, _VGPR: VGPR, _AGPR: AGPR}
_WORDS: Final = {1: "b32", 2: "b64", 3: "b96", 4: "b128"}
_GFX9_WORDS: Final = {1: "dword", 2: "dwordx2", 3: "dwordx3", 4: "dwordx4"}
_MAX_SCRATCH_OFFSET: Final = 4095


class CodeBlock:
    """Encoded instructions of one basic block and the labels it can go to."""

    __slots__ = ("code", "label", "successors")

    def __init__(self, label: str, code: list[Code], successors: list[str]) -> None:
        self.label = label
        self.code = code
        self.successors = successors


def _orders(function: Function) -> dict[Instruction, Order]:
    """What ordering controls say of the packets of a scheduled function."""
    everything = function.schedule_mode is ScheduleMode.LOCKED
    found: dict[Instruction, Order] = {}
    known: dict[tuple[bool, int, tuple[tuple[int, int], ...]], Order] = {}
    for block in function.blocks:
        fences = 0
        for item in block.instructions:
            if item.kind is Kind.FENCE:
                fences += 1
            elif item.kind is Kind.PACKET:
                key = everything or bool(item.lock), fences, item.scope_events
                if key not in known:
                    known[key] = Order(*key)
                found[item] = known[key]
    return found


class Expander:
    """Expands one allocated function.

    ``scratch_base`` is the first byte of spill memory in the private segment, ``lane_base`` the first vector
    register that keeps spilled scalars in its lanes. ``function`` is what was allocated.
    """

    def __init__(
        self, function: Function, allocation: Allocation, assembler: Assembler, scratch_base: int, workgroup_ids: str
    ) -> None:
        self._assign = allocation.assign
        self._allocation = allocation
        self._asm = assembler
        self._orders = _orders(function)
        self._scratch_base = scratch_base
        self._workgroup_ids = workgroup_ids
        self._lane_base = allocation.high_water.get(_VGPR, 0)
        scalars = allocation.spill_units.get(_SGPR, 0)
        self.lane_registers = -(-scalars // assembler.wave)
        self.scratch_bytes = 4 * allocation.spill_units.get(_VGPR, 0)

    def run(self) -> list[CodeBlock]:
        """All blocks in order; a branch to the next block is left out."""
        blocks = self._allocation.blocks
        result = []
        for index, final in enumerate(blocks):
            following = blocks[index + 1].label if index + 1 < len(blocks) else None
            code: list[Code] = []
            for item in final.items:
                if isinstance(item, Instruction) and item.kind is Kind.PACKET:
                    packet = self._packet(item)
                    packet.order = self._orders.get(item.origin or item)
                    code.append(packet)
                else:
                    code += self._item(item, following)
            successors = [edge.block.label for edge in final.block.edges]
            result.append(CodeBlock(final.label, code, successors))
        self._unique_labels(blocks)
        return result

    def _unique_labels(self, blocks: list[FinalBlock]) -> None:
        labels = [block.label for block in blocks]
        assert len(set(labels)) == len(labels), "two blocks share a label"

    def _register(self, value: VReg) -> int:
        unit = self._assign[value]
        name = value.reg_class
        base = _BASE.get(name)
        if base is not None:
            return base + unit
        if name == _VCC:
            return VCC
        if name == _SCC:
            return SCC
        return self._asm.names["m0"]

    def _item(self, item: Instruction | Move | Swap, following: str | None) -> Iterator[Code]:
        if isinstance(item, Move):
            yield from self._move(item)
            return
        assert isinstance(item, Instruction), "the target exchanges no registers"
        kind = item.kind
        if kind is Kind.LIVE_IN:
            yield from self._live_in(item)
        elif kind is Kind.BRANCH:
            yield from self._jump(item.successors[0].block.label, following, item.loc)
        elif kind is Kind.COND_BRANCH:
            yield from self._cond_branch(item, following)
        elif kind is Kind.RETURN:
            yield self._asm.plain("s_endpgm", item.loc)
        elif kind in (Kind.SPILL, Kind.RELOAD):
            yield from self._memory(item)
        else:
            raise fail(
                "TARGET/054",
                f"a '{kind.name.lower()}' has no machine form",
                item.loc,  # type: ignore[arg-type]
                emitter="amdgpu",
                subject_kind=kind.name.lower(),
            )

    def _packet(self, item: Instruction) -> Code:
        assert item.descriptor is not None
        results = [self._register(v) for v in item.results]
        operands = [self._register(v) for v in item.operands]
        return self._asm.packet(item.descriptor, results, operands, item.immediates, item.loc)

    def _live_in(self, item: Instruction) -> Iterator[Code]:
        """Workgroup ids in trap registers are copied; everything else is where it was fixed."""
        key = str(item.immediates["key"])
        if key.startswith(DATA):
            yield from self._data_address(item)
            return
        if (
            self._workgroup_ids != "trap"
            or not key.startswith("amdgpu.workgroup_id.")
            or item.results[0] not in self._assign
        ):
            return
        target = self._register(item.results[0])
        names = self._asm.names
        axis = key[-1]
        if axis == "x":
            yield self._asm.plain("s_mov_b32", sdst=target, ssrc0=names["ttmp9"])
        elif axis == "y":
            yield self._asm.plain("s_and_b32", sdst=target, ssrc0=names["ttmp7"], ssrc1=255, literal=0xFFFF)
        else:
            yield self._asm.plain("s_lshr_b32", sdst=target, ssrc0=names["ttmp7"], ssrc1=128 + 16)

    def _data_address(self, item: Instruction) -> Iterator[Code]:
        """The program counter plus the distance to the data. Nothing at entry needs the condition bit."""
        if item.results[0] not in self._assign:
            return
        low = self._register(item.results[0])
        high = low + 1
        yield self._asm.plain("s_getpc_b64", item.loc, sdst=low)
        newer = self._asm.family == "gfx12"
        if newer:
            # The program counter is 48 bits there, without the sign that addresses have.
            yield self._asm.plain("s_sext_i32_i16", item.loc, sdst=high, ssrc0=high)
        names = ("s_add_co_u32", "s_add_co_ci_u32") if newer else ("s_add_u32", "s_addc_u32")
        kinds = (RelocationKind.REL32_LO, RelocationKind.REL32_HI)
        for name, register, kind in zip(names, (low, high), kinds, strict=True):
            code = self._asm.plain(name, item.loc, sdst=register, ssrc0=register, ssrc1=LITERAL, literal=0)
            code.distance = (kind, str(item.immediates["symbol"]))
            yield code

    def _jump(self, label: str, following: str | None, loc: object) -> Iterator[Code]:
        if label != following:
            yield self._asm.plain("s_branch", loc, target=label, simm16=0)

    def _cond_branch(self, item: Instruction, following: str | None) -> Iterator[Code]:
        true, false = (edge.block.label for edge in item.successors)
        value = item.operands[0]
        if value.reg_class != _SCC:
            raise fail(
                "TARGET/054",
                "a conditional branch needs the scalar condition bit",
                item.loc,  # type: ignore[arg-type]
                emitter="amdgpu",
                subject_kind=value.reg_class,
            )
        if true == following:
            yield self._asm.plain("s_cbranch_scc0", item.loc, target=false, simm16=0)
            return
        yield self._asm.plain("s_cbranch_scc1", item.loc, target=true, simm16=0)
        yield from self._jump(false, following, item.loc)

    # -- moves ---------------------------------------------------------------------------------------------------

    def _move(self, move: Move) -> Iterator[Code]:
        pair = (move.reg_class, move.src_class)
        if pair == (_SGPR, _SGPR):
            yield from self._scalar_move(move.dst_unit, move.src_unit, move.units)
            return
        if pair == (_VCC, _SGPR) or pair == (_SGPR, _VCC):
            dst = VCC if move.reg_class == _VCC else move.dst_unit
            src = VCC if move.src_class == _VCC else move.src_unit
            yield self._asm.plain("s_mov_b64", sdst=dst, ssrc0=src)
            return
        for unit in range(move.units):
            dst = _BASE.get(move.reg_class, 0) + move.dst_unit + unit
            src = _BASE.get(move.src_class, 0) + move.src_unit + unit
            yield self._single_move(pair, dst, src)

    def _single_move(self, pair: tuple[str, str], dst: int, src: int) -> Code:
        asm = self._asm
        if pair in ((_VGPR, _VGPR), (_VGPR, _SGPR)):
            return asm.plain("v_mov_b32", format="VOP1", vdst=dst, src0=src)
        if pair == (_SGPR, _VGPR):
            return asm.plain("v_readfirstlane_b32", format="VOP1", vdst=dst, src0=src)
        if pair == (_SGPR, _SCC):
            return asm.plain("s_cselect_b32", sdst=dst, ssrc0=129, ssrc1=128)
        if pair == (_SCC, _SGPR):
            return asm.plain("s_cmp_lg_u32", ssrc0=src, ssrc1=128)
        if pair == (_VGPR, _AGPR):
            return asm.plain("v_accvgpr_read_b32", vdst=dst, src0=src)
        if pair == (_AGPR, _VGPR):
            return asm.plain("v_accvgpr_write_b32", vdst=dst, src0=src)
        if pair == (_M0, _SGPR):
            return asm.plain("s_mov_b32", sdst=asm.names["m0"], ssrc0=src)
        if pair == (_SGPR, _M0):
            return asm.plain("s_mov_b32", sdst=dst, ssrc0=asm.names["m0"])
        raise fail(
            "TARGET/054", f"no instruction moves {pair[1]} to {pair[0]}", None, emitter="amdgpu", subject_kind="move"
        )

    def _scalar_move(self, dst: int, src: int, units: int) -> Iterator[Code]:
        while units:
            if units >= 2 and not dst & 1 and not src & 1:
                yield self._asm.plain("s_mov_b64", sdst=dst, ssrc0=src)
                step = 2
            else:
                yield self._asm.plain("s_mov_b32", sdst=dst, ssrc0=src)
                step = 1
            dst, src, units = dst + step, src + step, units - step

    # -- spills --------------------------------------------------------------------------------------------------

    def _memory(self, item: Instruction) -> Iterator[Code]:
        slot = self._allocation.slots[item.slot]
        value = item.operands[0] if item.kind is Kind.SPILL else item.results[0]
        register = self._register(value)
        if slot.reg_class == _SGPR:
            for unit in range(slot.units):
                holder, lane = divmod(slot.offset + unit, self._asm.wave)
                vector = VGPR + self._lane_base + holder
                if vector >= VGPR + 256:
                    raise fail(
                        "TARGET/022",
                        "too few registers: no vector register is left to keep spilled scalars in",
                        None,
                        emitter="amdgpu",
                        constraint_key="registers.sgpr",
                    )
                if item.kind is Kind.SPILL:
                    yield self._asm.plain("v_writelane_b32", vdst=vector, src0=register + unit, src1=128 + lane)
                else:
                    yield self._asm.plain("v_readlane_b32", vdst=register + unit, src0=vector, src1=128 + lane)
            return
        if slot.reg_class != _VGPR:
            raise fail(
                "TARGET/022",
                f"values of {slot.reg_class} cannot be spilled here",
                None,
                emitter="amdgpu",
                constraint_key=f"registers.{slot.reg_class}",
            )
        done = 0
        while done < slot.units:
            count = min(4, slot.units - done)
            offset = self._scratch_base + 4 * (slot.offset + done)
            if offset > _MAX_SCRATCH_OFFSET:
                raise fail(
                    "TARGET/022",
                    "the kernel spills more vector registers than scratch offsets reach",
                    None,
                    emitter="amdgpu",
                    constraint_key="registers.vgpr",
                )
            yield self._scratch(item.kind is Kind.SPILL, register + done, count, offset)
            done += count

    def _scratch(self, store: bool, register: int, count: int, offset: int) -> Code:
        asm = self._asm
        words = _GFX9_WORDS if asm.family == "gfx942" else _WORDS
        mnemonic = f"scratch_{'store' if store else 'load'}_{words[count]}"
        row = asm.table.find(mnemonic, form="st")
        field = next(o.name for o in row.operands if o.ranges)
        return asm.plain(mnemonic, form="st", modifiers={"offset": offset}, **{field: register})  # type: ignore[arg-type]  # the field's name depends on the family
