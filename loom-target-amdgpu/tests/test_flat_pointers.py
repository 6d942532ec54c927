"""Flat pointers in authored Low: pointers into workgroup memory, mixed lanes, and the waits for both domains."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import compile_text

from loom import api
from loom.low.schedule import Strategy
from loom.plugins.manager import find_target
from loom.plugins.records import EmitRequest
from loom_sim.amdgpu import load
from loom_target_amdgpu.descriptors import build
from loom_target_amdgpu.emitter import _lower
from loom_target_amdgpu.hsaco import compile_kernel
from loom_target_amdgpu.isa.disasm import disassemble_code
from loom_target_amdgpu.isa.tables import family_table

CONTRACTS = {
    "amdgpu:gfx942": "amdgpu.cdna3.core",
    "amdgpu:gfx1100": "amdgpu.rdna3.core",
    "amdgpu:gfx1200": "amdgpu.rdna4.core",
}
targets = pytest.mark.parametrize("target", CONTRACTS)

# Memory instructions that CDNA calls otherwise, and that take m0 there.
OLDER = {
    "global_store_b32_saddr": "global_store_dword_saddr",
    "flat_atomic_add_u32_rtn": "flat_atomic_add_rtn",
    "flat_atomic_add_u32": "flat_atomic_add",
}
TAKES_M0 = re.compile(r"^(.*(?:flat_|global_)\S+ .*?)((?: \{.*\})?)$", re.MULTILINE)

PROLOGUE = """\
  %lane = live_in<amdgpu.workitem_id.x> : reg<amdgpu.vgpr>
  %x = resource<hal_binding> {index = 0, source_type = hal.buffer} : reg<amdgpu.sgpr x2>
  %y = resource<hal_binding> {index = 1, source_type = hal.buffer} : reg<amdgpu.sgpr x2>
  %room = storage {byte_alignment = 16, byte_length = 256} : low.storage<workgroup>
  %base = storage_address %room : low.storage<workgroup> -> reg<amdgpu.vgpr>
  %at = v_lshlrev_b32_src0_inline %lane, 2
  %lds = v_add_u32 %base, %at
  %aperture = s_mov_b64_shared_base
  %high = slice %aperture[1] : reg<amdgpu.sgpr x2> -> reg<amdgpu.sgpr>
  %upper = v_mov_b32_copy %high
  %shared = concat(%lds, %upper) : (reg<amdgpu.vgpr>, reg<amdgpu.vgpr>) -> reg<amdgpu.vgpr x2>
"""

# Even lanes point into the buffer %x, odd ones into workgroup memory.
MIXED = """\
  %x_low = slice %x[0] : reg<amdgpu.sgpr x2> -> reg<amdgpu.sgpr>
  %x_high = slice %x[1] : reg<amdgpu.sgpr x2> -> reg<amdgpu.sgpr>
  %buffer_low = v_add_u32 %x_low, %at
  %buffer_high = v_mov_b32_copy %x_high
  %bit = v_and_b32_src0_inline %lane, 1
  %one = v_mov_b32 1
  %odd = v_cmp_eq_i32 %bit, %one
  %mixed_low = v_cndmask_b32 %buffer_low, %lds, %odd
  %mixed_high = v_cndmask_b32 %buffer_high, %upper, %odd
  %mixed = concat(%mixed_low, %mixed_high) : (reg<amdgpu.vgpr>, reg<amdgpu.vgpr>) -> reg<amdgpu.vgpr x2>
"""


def kernel(target: str, body: str, helpers: str = "") -> str:
    m0 = ""
    for text in ("body", "helpers"):
        if target != "amdgpu:gfx942":
            break
        m0 = "  %m0 = live_in<amdgpu.m0> : reg<amdgpu.m0>\n"
        source = body if text == "body" else helpers
        for new, old in OLDER.items():
            source = re.sub(rf"{new}(?!_)", old, source)
        source = TAKES_M0.sub(r"\1, %m0\2", source)
        body, helpers = (source, helpers) if text == "body" else (body, source)
    return (
        f"{helpers}low.kernel.def target<{CONTRACTS[target]}> workgroup_size(32, 1, 1) @k() asm {{\n"
        f"{m0}{PROLOGUE}{body}  return\n}}\n"
    )


def run(target: str, body: str, helpers: str = "") -> tuple[list[int], list[int]]:
    """The buffers %x (which holds 100, 101, ...) and %y (zeros) after the kernel."""
    program = load(compile_text(kernel(target, body, helpers), target).primary.data)
    x, y = np.arange(100, 132, dtype=np.int32), np.zeros(32, dtype=np.int32)
    program.launch("k", 1, 32, [x, y])
    return [int(v) for v in x], [int(v) for v in y]


def code(target: str, body: str, helpers: str = "") -> list[str]:
    """The lines of the machine code, in the order in which they are written."""
    profile = find_target(target)
    module = api.load_bytes(kernel(target, body, helpers).encode(), "m")
    roots = tuple(op for op in module.ops if op.name == "low.kernel.def")
    _, (lowered,), processor, descriptor_set = _lower(EmitRequest(module, roots, profile))
    made = compile_kernel(
        lowered.op, processor, descriptor_set, locks=lowered.locks, strategy=Strategy.SOURCE, check=True
    )
    table = family_table(processor.family)
    return [text.strip() for _, _, text in disassemble_code(table, made.image.code, wave_size=processor.wave)]


def waits(lines: list[str]) -> str:
    return "; ".join(line for line in lines if line.startswith("s_wait"))


READ = """\
  ds_write_b32 %lds, %lane
  %v = flat_load_dword %shared
  global_store_b32_saddr %at, %v, %y
"""


@pytest.mark.seed("P01")
@targets
def test_a_pointer_into_workgroup_memory_reads_it(target: str) -> None:
    """The upper half of the 64-bit aperture in front of the offset in workgroup memory."""
    assert run(target, READ)[1] == list(range(32))
    assert any(name.startswith("flat_load") for name in code(target, READ))


@pytest.mark.seed("P02")
@targets
def test_the_aperture_is_read_in_64_bits_only(target: str) -> None:
    """No instruction of the tables reads it into one register."""
    descriptors = build(CONTRACTS[target]).by_mnemonic
    readers = [name for name in descriptors if "shared_base" in name or "private_base" in name]
    assert "s_mov_b64_shared_base" in readers
    assert all(descriptors[name].results[0].units == 2 for name in readers)


@pytest.mark.seed("P03")
@targets
def test_flat_accesses_belong_to_both_domains(target: str) -> None:
    """Descriptors name the space that is either, and who needs a result waits in each domain."""
    for name, descriptor in build(CONTRACTS[target]).by_mnemonic.items():
        if name.startswith("flat_"):
            touched = descriptor.effects.reads | descriptor.effects.writes
            assert touched == {"generic"}, name
    lines = code(target, READ)
    load_at = next(i for i, line in enumerate(lines) if line.startswith("flat_load"))
    use = next(i for i in range(load_at, len(lines)) if lines[i].startswith("global_store"))
    found = waits(lines[load_at:use])
    for word in ("loadcnt", "dscnt") if target == "amdgpu:gfx1200" else ("vmcnt(0)", "lgkmcnt(0)"):
        assert word in found, found


@targets
def test_a_barrier_publishes_what_flat_stores_wrote(target: str) -> None:
    """Each lane reads what its neighbour stored through a flat pointer."""
    barrier = {"amdgpu:gfx1200": "  s_barrier_signal_all\n  s_barrier_wait_all\n"}.get(target, "  s_barrier\n")
    body = f"""\
  flat_store_dword %shared, %lane
{barrier}  %other = v_xor_b32_src0_inline %at, 4
  %from = v_add_u32 %base, %other
  %v = ds_read_b32 %from
  global_store_b32_saddr %at, %v, %y
"""
    lines = code(target, body)
    store = next(i for i, line in enumerate(lines) if line.startswith("flat_store"))
    meeting = next(i for i, line in enumerate(lines) if "barrier" in line)
    assert ("dscnt" if target == "amdgpu:gfx1200" else "lgkmcnt(0)") in waits(lines[store:meeting])
    assert run(target, body)[1] == [lane ^ 1 for lane in range(32)]


HELPER = """\
low.func.def schedule(locked) target<{contract}> @twice(%p: reg<amdgpu.vgpr x2>, %q: reg<amdgpu.vgpr x2>{m0}) -> (reg<amdgpu.vgpr>, reg<amdgpu.vgpr x2>) asm {{
  %v = flat_load_dword %p
  %sum = v_add_u32 %v, %v
  flat_store_dword %p, %sum
  %again = flat_load_dword %p
  return %again, %q
}}

"""


@pytest.mark.seed("P04", "O07")
@targets
def test_waits_stand_before_uses_and_publication_in_locked_code_too(target: str) -> None:
    """The locked body keeps its order; the waits between its instructions are the compiler's. None of them share a
    word with another, and the strict emulator sees no register used before it is there."""
    older = target == "amdgpu:gfx942"
    helper = HELPER.format(contract=CONTRACTS[target], m0=", %m0: reg<amdgpu.m0>" if older else "")
    m0, m0_type = (", %m0", ", reg<amdgpu.m0>") if older else ("", "")
    body = f"""\
  ds_write_b32 %lds, %lane
  %v, %p = low.func.call @twice(%shared, %shared{m0}) : (reg<amdgpu.vgpr x2>, reg<amdgpu.vgpr x2>{m0_type}) -> (reg<amdgpu.vgpr>, reg<amdgpu.vgpr x2>)
  global_store_b32_saddr %at, %v, %y
"""
    assert run(target, body, helper)[1] == [2 * lane for lane in range(32)]
    lines = code(target, body, helper)
    at = next(i for i, line in enumerate(lines) if line.startswith("flat_load"))
    locked = [line for line in lines[at:] if not line.startswith(("s_wait", "s_delay_alu", "s_nop"))]
    assert [line.split()[0].split("_")[1] for line in locked[:4]] == ["load", "add", "store", "load"]
    use = next(i for i in range(at, len(lines)) if lines[i].startswith("v_add"))
    assert waits(lines[at:use])


@pytest.mark.seed("P05")
@targets
def test_lanes_of_one_access_reach_different_memories(target: str) -> None:
    """Loads, stores and atomics with and without a result, half the lanes in a buffer, half in workgroup memory."""
    body = (
        MIXED
        + """\
  ds_write_b32 %lds, %lane
  %old = flat_load_dword %mixed
  %more = v_add_u32 %old, %old
  flat_store_dword %mixed, %more
  flat_atomic_add_u32 %mixed, %one
  %before = flat_atomic_add_u32_rtn %mixed, %one
  %after = flat_load_dword %mixed
  %sum = v_add_u32 %before, %after
  global_store_b32_saddr %at, %sum, %y
"""
    )
    x, y = run(target, body)
    start = [lane if lane % 2 else 100 + lane for lane in range(32)]
    assert x == [100 + lane if lane % 2 else 2 * start[lane] + 2 for lane in range(32)]
    assert y == [(2 * v + 1) + (2 * v + 2) for v in start]


TWO_LOADS = """\
  ds_write_b32 %lds, %lane
  %first = flat_load_dword %shared
  %second = flat_load_dword %shared
  %sum = v_add_u32 %first, %first
  %all = v_add_u32 %sum, %second
  global_store_b32_saddr %at, %all, %y
"""


@pytest.mark.seed("P06")
@targets
def test_how_far_a_wait_for_a_flat_result_goes(target: str) -> None:
    """With a younger flat load pending, gfx9 drains both counters; newer processors let it stay pending."""
    lines = code(target, TWO_LOADS)
    loads = [i for i, line in enumerate(lines) if line.startswith("flat_load")]
    use = next(i for i in range(loads[1], len(lines)) if lines[i].startswith("v_add"))
    found = waits(lines[loads[1] : use])
    if target == "amdgpu:gfx942":
        assert "vmcnt(0)" in found, found
        assert "lgkmcnt(0)" in found, found
    else:
        assert found
        assert not re.search(r"(\(|0x| )0\b", found), found
    assert run(target, TWO_LOADS)[1] == [3 * lane for lane in range(32)]
