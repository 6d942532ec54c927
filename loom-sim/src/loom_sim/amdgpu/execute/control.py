"""Branches, EXEC manipulation, barriers, program counter and hardware registers, and instructions that do nothing."""

from __future__ import annotations

from typing import Any

from loom_sim.amdgpu.emitter import Emitter, End, Value, inline_constant
from loom_sim.amdgpu.execute import refused
from loom_sim.amdgpu.instruction import Instruction
from loom_sim.amdgpu.memory import PRIVATE_APERTURE, SHARED_APERTURE
from loom_sim.amdgpu.state import EXEC_LO, VCC_LO

# Scheduling hints, cache maintenance and priorities: memory here is always coherent. Waits are checked statically
# by `waits`.
_NOTHING = frozenset(
    [
        "s_nop",
        "s_setprio",
        "s_sleep",
        "s_clause",
        "s_delay_alu",
        "s_set_inst_prefetch_distance",
        "s_code_end",
        "s_wakeup",
        "s_incperflevel",
        "s_decperflevel",
        "s_ttracedata",
        "s_ttracedata_imm",
        "s_icache_inv",
        "s_waitcnt_depctr",
        "s_wait_alu",
        "s_singleuse_vdst",
        "s_version",
        "s_wait_idle",
        "s_wait_event",
        "s_sleep_var",
        "v_nop",
        "v_pipeflush",
        "v_clrexcp",
        "s_dcache_inv",
        "s_gl1_inv",
        "s_dcache_wb",
        "s_dcache_inv_vol",
        "s_dcache_wb_vol",
        "s_prefetch_inst",
        "s_prefetch_inst_pc_rel",
        "s_prefetch_data",
        "s_buffer_prefetch_data",
        "s_prefetch_data_pc_rel",
        "buffer_gl0_inv",
        "buffer_gl1_inv",
        "buffer_wbl2",
        "buffer_inv",
        "buffer_wbinvl1",
        "buffer_wbinvl1_vol",
        "global_inv",
        "global_wb",
        "global_wbinv",
        "ds_nop",
        "s_atc_probe",
        "s_atc_probe_buffer",
    ]
)
_WAITS = ("s_waitcnt", "s_wait_")

_EXEC_LOGIC: dict[str, str] = {
    "and": "{s} & {e}",
    "or": "{s} | {e}",
    "xor": "{s} ^ {e}",
    "nand": "~({s} & {e})",
    "nor": "~({s} | {e})",
    "xnor": "~({s} ^ {e})",
    "and_not0": "~{s} & {e}",
    "andn1": "~{s} & {e}",
    "and_not1": "{s} & ~{e}",
    "andn2": "{s} & ~{e}",
    "or_not0": "~{s} | {e}",
    "orn1": "~{s} | {e}",
    "or_not1": "{s} | ~{e}",
    "orn2": "{s} | ~{e}",
}

_WORKGROUP_BARRIER = 0xFFFFFFFF
"""-1; positive numbers are named barriers, which processors from gfx1250 on have, and -2 is the trap handler's."""

_MSG_INTERRUPT, _MSG_DEALLOC_VGPRS, _MSG_RTN_GET_REALTIME = 1, 3, 131
_HW_MODE, _HW_SH_MEM_BASES = 1, 15


def _branch(em: Emitter, inst: Instruction) -> bool:
    target = inst.address + inst.size + 4 * inst.operands[0].code
    kind = inst.mnemonic.removeprefix("s_cbranch_")
    if inst.mnemonic == "s_branch":
        em.end = End("jump", target)
        return True
    if kind in ("scc0", "scc1"):
        value = em.scc()
        em.check(value, "a branch on SCC")
        condition = value.name if kind == "scc1" else em.let(f"~{value.name}")
    elif kind in ("vccz", "vccnz"):
        value = em.mask(VCC_LO)
        if value.undefined:
            em.site()
            em.emit(f"check_defined({value.undefined}, None, 'a branch on VCC')")
        some = em.let(f"{value.name}.any(axis=1, keepdims=True)")
        condition = some if kind == "vccnz" else em.let(f"~{some}")
    elif kind in ("execz", "execnz"):
        some = em.let("E.any(axis=1, keepdims=True)")
        condition = some if kind == "execnz" else em.let(f"~{some}")
    elif kind.startswith("cdbg"):
        em.end = End("fall")  # no debugger is attached
        return True
    else:
        return False
    em.end = End("branch", target, condition)
    return True


def _save_exec(em: Emitter, inst: Instruction) -> bool:
    name, _, width = inst.mnemonic.removeprefix("s_").rpartition("_b")
    operation, _, what = name.rpartition("_")
    if what not in ("saveexec", "wrexec") or operation not in _EXEC_LOGIC:
        return False
    if int(width) != em.wave_size:
        return _save_exec_words(em, inst, operation, what, int(width))
    source = em.mask(inst.operand("ssrc0").code)  # type: ignore[union-attr]
    if inst.operand("ssrc0").code == 255:  # type: ignore[union-attr]
        raise em.unsupported("a literal lane mask")
    em.check(Value(source.name, source.undefined), "the new EXEC")
    expression = _EXEC_LOGIC[operation].format(s=source.name, e="E")
    new = em.let(f"lanes({expression}, {em.wave_size})")
    destination = inst.operand("sdst")
    assert destination is not None
    em.write_mask(destination.code, Value("E" if what == "saveexec" else new), masked=False)
    em.write_scc(Value(em.let(f"{new}.any(axis=1, keepdims=True)")))
    em.write_exec(new)
    return True


def _save_exec_words(em: Emitter, inst: Instruction, operation: str, what: str, width: int) -> bool:
    """The low half of a wave64's EXEC, or all of a wave32's, whose upper half hardware keeps but does not act upon."""
    source, destination = inst.operand("ssrc0"), inst.operand("sdst")
    assert source is not None
    assert destination is not None
    value, old = em.source(source, f"u{width}"), em.scalar32(EXEC_LO)
    em.check(value, "the new EXEC")
    if width == 64:
        high = em.scalar32(EXEC_LO + 1)
        em.check(high, "the upper half of EXEC")
        old = Value(em.let(f"join64({old.name}, {high.name})"))
    new = em.let(_EXEC_LOGIC[operation].format(s=value.name, e=old.name))
    em.result(destination, f"u{width}", old if what == "saveexec" else Value(new))
    em.write_scc(Value(em.let(f"{new} != 0")))
    if width == 64:
        em.write_scalar32(EXEC_LO + 1, Value(em.let(f"high32({new})")))
        new = em.let(f"low32({new})")
    em.write_scalar32(EXEC_LO, Value(new))
    return True


def _exec_logic(em: Emitter, inst: Instruction) -> bool:
    """Scalar logic whose destination is EXEC, on lane masks instead of words."""
    if not inst.results or inst.results[0].code != EXEC_LO or inst.results[0].bits != em.wave_size:
        return False
    name, _, width = inst.mnemonic.removeprefix("s_").rpartition("_b")
    if width != str(em.wave_size) or any(o.code == 255 for o in inst.sources):
        return False
    if name in ("mov", "not") and inst.format == "SOP1":
        value = em.mask(inst.sources[0].code)
        em.check(value, "the new EXEC")
        new = em.let(f"lanes({'~' if name == 'not' else ''}{value.name}, {em.wave_size})")
    elif name in _EXEC_LOGIC and inst.format == "SOP2":
        first, second = (em.mask(o.code) for o in inst.sources)
        em.check(first, "the new EXEC")
        em.check(second, "the new EXEC")
        new = em.let(f"lanes({_EXEC_LOGIC[name].format(s=first.name, e=second.name)}, {em.wave_size})")
    else:
        return False
    if name != "mov":
        em.write_scc(Value(em.let(f"{new}.any(axis=1, keepdims=True)")))
    em.write_exec(new)
    return True


def _program_counter(em: Emitter, inst: Instruction) -> bool:
    after = em.let(f"M.code_address + np.uint64({inst.address + inst.size})")
    pc = em.let(f"np.full((1, 1), {after}, u64)")
    result = inst.operand("sdst")
    source = inst.operand("ssrc0")
    jump: str | None = None
    if source is not None:
        value = em.source(source, "u64")
        em.check(value, "the jump address")
        jump = value.name
    if result is not None:
        em.result(result, "u64", Value(pc))
    if inst.mnemonic == "s_getpc_b64":
        return True
    if inst.mnemonic == "s_call_b64":
        offset = inst.operand("simm16")
        assert offset is not None
        em.end = End("jump", inst.address + inst.size + 4 * offset.code)
    else:
        em.end = End("indirect", 0, jump)
    return True


def _set_register(em: Emitter, inst: Instruction) -> bool:
    selector = inst.operand("simm16")
    assert selector is not None
    register, offset, size = selector.code & 63, selector.code >> 6 & 31, (selector.code >> 11 & 31) + 1
    if register != _HW_MODE:
        raise em.unsupported(f"writing hardware register {register}")
    mask = ((1 << size) - 1) << offset
    if offset + size > 8 and mask & ~0xFF & 0x3FF_FF00:
        # Bits above the float controls: exception enables and the like, which have no effect here.
        mask &= 0xFF
    literal = inst.operand("literal")
    if literal is not None:
        bits = em.mode.bits & ~mask | literal.code << offset & mask
        em.new_mode = type(em.mode).from_bits(bits & 0xFF, em.mode.ieee, em.mode.dx10_clamp)
        em.end = End("fall")
        return True
    source = inst.operand("sdst")
    assert source is not None
    value = em.source(source, "u32")
    em.check(value, "the new MODE")
    shifted = f"{value.name} << u32({offset})"
    em.end = End("mode", 0, em.let(f"({shifted} & u32({mask & 0xFF})) | u32({em.mode.bits & ~mask & 0xFF})"))
    return True


def _get_register(em: Emitter, inst: Instruction) -> bool:
    selector, result = inst.operand("simm16"), inst.operand("sdst")
    assert selector is not None
    assert result is not None
    register, offset, size = selector.code & 63, selector.code >> 6 & 31, (selector.code >> 11 & 31) + 1
    values = {
        _HW_MODE: em.mode.bits | em.mode.dx10_clamp << 8 | em.mode.ieee << 9,
        _HW_SH_MEM_BASES: (SHARED_APERTURE >> 16) << 16 | PRIVATE_APERTURE >> 16,
    }
    if register not in values:
        raise em.unsupported(f"reading hardware register {register}")
    em.result(result, "u32", em.bits(values[register] >> offset & ((1 << size) - 1)))
    return True


def _message(em: Emitter, inst: Instruction) -> bool:
    message = inst.operands[0].code & 0xFF
    if message not in (_MSG_INTERRUPT, _MSG_DEALLOC_VGPRS):
        raise em.unsupported(f"message {message}")
    return True


def _returned_message(em: Emitter, inst: Instruction) -> bool:
    message = inst.operands[1].code & 0xFF
    if message != _MSG_RTN_GET_REALTIME or inst.results[0].bits != 64:
        raise em.unsupported(f"message {message}, whose answer depends on the driver")
    em.result(inst.results[0], "u64", Value(em.let("M.clock()")))
    return True


def _check_barrier(em: Emitter, number: int | None) -> None:
    if number != _WORKGROUP_BARRIER:
        raise em.unsupported(f"this barrier is not executed: {refused.NAMED}")


def _signal(em: Emitter, inst: Instruction) -> bool:
    operand = inst.operand("ssrc0")
    _check_barrier(em, None if operand is None else inline_constant(operand.code, 32, ""))
    if inst.mnemonic == "s_barrier_signal":
        em.emit("M.signal_barrier(g)")
    else:
        em.site()
        em.write_scc(Value(em.let("M.signal_barrier_first(g)")))
    return True


def _barrier(em: Emitter, inst: Instruction) -> bool:
    if inst.operands:
        _check_barrier(em, 0xFFFF0000 | inst.operands[0].code & 0xFFFF)
    em.end = End("barrier")
    return True


def _mode_fields(em: Emitter, inst: Instruction) -> bool:
    value = inst.operands[0].code
    em.new_mode = em.mode.with_round(value) if inst.mnemonic == "s_round_mode" else em.mode.with_denormal(value)
    em.end = End("fall")
    return True


def _stop(em: Emitter, inst: Instruction) -> bool:
    em.end = End("stop")
    return True


def _trap(em: Emitter, inst: Instruction) -> bool:
    raise em.fault("trap", f"trap {inst.operands[0].code if inst.operands else 0} was reached")


_BY_NAME: dict[str, Any] = {
    "s_endpgm": _stop,
    "s_endpgm_saved": _stop,
    "s_barrier": _barrier,
    "s_barrier_wait": _barrier,
    "s_barrier_signal": _signal,
    "s_barrier_signal_isfirst": _signal,
    "s_round_mode": _mode_fields,
    "s_denorm_mode": _mode_fields,
    "s_setreg_b32": _set_register,
    "s_setreg_imm32_b32": _set_register,
    "s_getreg_b32": _get_register,
    "s_sendmsg": _message,
    "s_sendmsg_rtn_b32": _returned_message,
    "s_sendmsg_rtn_b64": _returned_message,
    "s_getpc_b64": _program_counter,
    "s_setpc_b64": _program_counter,
    "s_swappc_b64": _program_counter,
    "s_call_b64": _program_counter,
    "s_trap": _trap,
}


def translate(em: Emitter, inst: Instruction) -> bool:
    """Translate a control instruction; False if it is none."""
    name = inst.mnemonic
    handler = _BY_NAME.get(name)
    if handler is not None:
        return bool(handler(em, inst))
    if name in _NOTHING or name.startswith(_WAITS):
        return True
    if name.startswith(("s_cbranch_", "s_branch")) and _branch(em, inst):
        return True
    if inst.format == "SOP1" and name.endswith(("saveexec_b32", "saveexec_b64", "wrexec_b32", "wrexec_b64")):
        return _save_exec(em, inst)
    return _exec_logic(em, inst) or refused.translate(em, inst)
