"""Waits: no more than needed, never less. The emulator's strict mode checks the second on every run of the other
tests; these look at the counts."""

from __future__ import annotations

import numpy as np
import pytest

from loom import api
from loom.low.schedule import Strategy
from loom.plugins.manager import find_target
from loom.plugins.records import EmitRequest
from loom_target_amdgpu.emitter import _lower
from loom_target_amdgpu.hsaco import compile_kernel
from loom_target_amdgpu.isa.disasm import disassemble_code
from loom_target_amdgpu.isa.tables import family_table


def code_of(text: str, target: str) -> list[str]:
    """Assembly of the only kernel, in source order, without hints to the hardware."""
    profile = find_target(target)
    module = api.load_bytes(text.encode(), "m")
    roots = tuple(op for op in module.ops if op.name == "low.kernel.def")
    _, kernels, processor, descriptor_set = _lower(EmitRequest(module, roots, profile))
    made = compile_kernel(kernels[0].op, processor, descriptor_set, strategy=Strategy.SOURCE, check=True)
    table = family_table(processor.family)
    lines = [text for _, _, text in disassemble_code(table, made.image.code, wave_size=processor.wave)]
    return [line for line in lines if not line.startswith(("s_delay_alu", "s_clause"))]


def kernel(body: str, contract: str) -> str:
    return f"""low.kernel.def target<{contract}> workgroup_size(32, 1, 1) @k() asm {{
  %lane = live_in<amdgpu.workitem_id.x> : reg<amdgpu.vgpr>
  %x = resource<hal_binding> {{index = 0, source_type = hal.buffer}} : reg<amdgpu.sgpr x2>
  %at = v_lshlrev_b32_src0_inline %lane, 2
{body}
  return
}}
"""


def waits(lines: list[str]) -> list[str]:
    return [line for line in lines if "s_wait" in line]


@pytest.mark.parametrize(
    ("target", "contract"), [("amdgpu:gfx1100", "amdgpu.rdna3.core"), ("amdgpu:gfx1200", "amdgpu.rdna4.core")]
)
def test_the_oldest_load_may_be_used_while_younger_ones_are_out(target: str, contract: str) -> None:
    lines = code_of(
        kernel(
            """
  %a = global_load_b32_saddr %at, %x
  %b = global_load_b32_saddr %at, %x {offset = 128}
  %c = global_load_b32_saddr %at, %x {offset = 256}
  %d = v_add_f32 %a, %a
  %e = v_add_f32 %d, %b
  %f = v_add_f32 %e, %c
  global_store_b32_saddr %at, %f, %x""",
            contract,
        ),
        target,
    )
    found = [line for line in waits(lines) if "vmcnt" in line or "loadcnt" in line]
    counts = [line.rstrip(")").replace("(", " ").replace("0x", "").split()[-1] for line in found]
    assert counts == ["2", "1", "0"]


def test_scalar_loads_drain_their_counter() -> None:
    lines = code_of(
        kernel(
            """
  %p = s_load_dword_offset_only %x
  %q = s_load_dword_offset_only %x {offset = 64}
  %s = s_add_u32 %p, %p
  %t = s_add_u32 %s, %q
  %v = v_mov_b32_copy %t
  global_store_b32_saddr %at, %v, %x""",
            "amdgpu.rdna3.core",
        ),
        "amdgpu:gfx1100",
    )
    found = [line for line in waits(lines) if "lgkmcnt" in line]
    # One wait for the bindings, one for both loads: they complete in any order.
    assert len(found) == 2
    assert all("lgkmcnt(0)" in line for line in found)


def test_paths_that_join_keep_the_smaller_count() -> None:
    """One path has issued a younger load, the other has not: only a full wait is right behind the join."""
    text = kernel(
        """
  %a = global_load_b32_saddr %at, %x
  %n = s_load_dword_offset_only %x
  %go = s_cmp_gt_i32_rhs_inline %n, 0
  low.cond_br %go, ^more, ^join : reg<amdgpu.scc>
^more:
  %b = global_load_b32_saddr %at, %x {offset = 128}
  low.br ^join
^join:
  %c = v_add_f32 %a, %a
  global_store_b32_saddr %at, %c, %x""",
        "amdgpu.rdna3.core",
    )
    lines = code_of(text, "amdgpu:gfx1100")
    found = [line for line in waits(lines) if "vmcnt" in line]
    assert len(found) == 1
    assert "vmcnt(0)" in found[0]


def test_barriers_drain_workgroup_storage_only() -> None:
    lines = code_of(
        kernel(
            """
  %a = global_load_b32_saddr %at, %x
  ds_write_b32 %at, %lane
  s_barrier
  %b = ds_read_b32 %at
  %c = v_add_f32 %a, %b
  global_store_b32_saddr %at, %c, %x""",
            "amdgpu.rdna3.core",
        ),
        "amdgpu:gfx1100",
    )
    before = lines[next(i for i, line in enumerate(lines) if "s_barrier" in line) - 1]
    assert "lgkmcnt(0)" in before
    assert "vmcnt" not in before


def test_cdna_wait_states() -> None:
    """A vector comparison's mask is read two wait states later at the earliest."""
    body = """
  %m0 = live_in<amdgpu.m0> : reg<amdgpu.m0>
  %y = resource<hal_binding> {index = 0, source_type = hal.buffer} : reg<amdgpu.sgpr x2>
  %at = v_lshlrev_b32_src0_inline %lane, 2
  %m = v_cmp_lt_u32_src0_inline %lane {lhs = 5}
  %v = v_cndmask_b32_src0_inline_src1_inline %m {false_value = 0, true_value = 1}
  global_store_dword_saddr %at, %v, %y, %m0"""
    text = kernel("", "amdgpu.cdna3.core")
    start = text.index("  %x = resource")
    lines = code_of(text[:start] + body.lstrip("\n") + "\n  return\n}\n", "amdgpu:gfx942")
    compare = next(i for i, line in enumerate(lines) if line.startswith("v_cmp_lt_u32"))
    assert lines[compare + 1].split() == ["s_nop", "1"]
    assert lines[compare + 2].startswith("v_cndmask_b32")


CARRIED = """
  %n = s_load_dword_offset_only %x
  %one = s_mov_b32 1
  %first = global_load_b32_saddr %at, %x
  %zero = v_mov_b32 0
  low.br ^loop(%n: reg<amdgpu.sgpr>, %first: reg<amdgpu.vgpr>, %zero: reg<amdgpu.vgpr>)
^loop(%k: reg<amdgpu.sgpr>, %now: reg<amdgpu.vgpr>, %sum: reg<amdgpu.vgpr>):
{body}
  %left = s_sub_u32 %k, %one
  %go = s_cmp_gt_i32_rhs_inline %left, 0
  low.cond_br %go, ^again, ^done : reg<amdgpu.scc>
^again:
  low.br ^loop(%left: reg<amdgpu.sgpr>, %next: reg<amdgpu.vgpr>, %total: reg<amdgpu.vgpr>)
^done:
  global_store_b32_saddr %at, %total, %x"""
FUTURE_LOAD = "  %next = global_load_b32_saddr %at, %x {offset = 128}"
INDEPENDENT = "  %square = v_mul_f32 %at, %at"
CONSUMER = "  %total = v_add_f32 %sum, %now"
CONTRACTS = [("amdgpu:gfx1100", "amdgpu.rdna3.core", "vmcnt"), ("amdgpu:gfx1200", "amdgpu.rdna4.core", "loadcnt")]


def position(lines: list[str], *words: str, start: int = 0) -> int:
    """Where the first line from `start` on stands that has all the words."""
    return next(n for n, line in enumerate(lines) if n >= start and all(word in line for word in words))


@pytest.mark.seed("Y08")
@pytest.mark.parametrize(("target", "contract", "counter"), CONTRACTS)
def test_a_carried_value_that_stays_in_place_stays_pending(target: str, contract: str, counter: str) -> None:
    """The load goes into the register that the next iteration reads: nothing waits before the branch back."""
    body = "\n".join((CONSUMER, FUTURE_LOAD, INDEPENDENT))
    lines = code_of(kernel(CARRIED.format(body=body), contract), target)
    use = position(lines, "v_add_f32")
    future = position(lines, "global_load_b32", start=use)
    back = position(lines, "s_cbranch", start=future)
    assert counter in lines[use - 1], "the value is waited for where it is read"
    assert "0" in lines[use - 1].replace("0x0", "0")
    assert not any(counter in line or "v_mov" in line for line in lines[future:back])


@pytest.mark.seed("Y08")
@pytest.mark.parametrize(("target", "contract", "counter"), CONTRACTS)
def test_a_carried_value_that_is_copied_is_complete(target: str, contract: str, counter: str) -> None:
    """The older input is still read behind the load, which therefore needs a register of its own and a copy: the load
    stays out during independent work and is waited for right before the copy."""
    body = "\n".join((FUTURE_LOAD, INDEPENDENT, CONSUMER))
    lines = code_of(kernel(CARRIED.format(body=body), contract), target)
    future = position(lines, "global_load_b32", "128")
    work = position(lines, "v_mul_f32", start=future)
    assert not any(counter in line for line in lines[future:work])
    copy = position(lines, "v_mov_b32", "v", start=work)
    assert counter in lines[copy - 1]
    assert "s_branch" in lines[copy + 1]
    register = lines[future].split()[1].rstrip(",")
    assert lines[copy].endswith(register), "what was loaded is what is copied"


@pytest.mark.seed("Y08")
@pytest.mark.parametrize(("target", "contract", "counter"), CONTRACTS)
@pytest.mark.parametrize("order", [(CONSUMER, FUTURE_LOAD, INDEPENDENT), (FUTURE_LOAD, INDEPENDENT, CONSUMER)])
def test_carried_loads_arrive_before_they_are_read(
    order: tuple[str, ...], target: str, contract: str, counter: str
) -> None:
    """The emulator is strict about values that are read too early."""
    sim = pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
    text = kernel(CARRIED.format(body="\n".join(order)), contract)
    data = api.compile(api.load_bytes(text.encode(), "m"), (), target, options={"schedule": "source"})
    x = np.arange(64, dtype=np.float32)
    x[:1].view(np.int32)[0] = 4
    want = x[:32] + x[32:] + x[32:] + x[32:]
    sim.load(data.result.primary.data).launch("k", 1, 32, [x])
    np.testing.assert_array_equal(x[:32], want)
