"""What ordering controls are and what they are not, and what the report says of them."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("loom_sim.amdgpu", reason="compiled code is checked by running it elsewhere")
from amdgpu_agreement import compile_text

from loom import api
from loom.plugins.manager import find_target
from loom.plugins.records import EmitRequest
from loom_target_amdgpu.emitter import _lower
from loom_target_amdgpu.hsaco import compile_kernel
from loom_target_amdgpu.isa.disasm import disassemble_code
from loom_target_amdgpu.isa.tables import family_table

TARGETS = {
    "amdgpu:gfx1100": ("amdgpu.rdna3.core", ""),
    "amdgpu:gfx1200": ("amdgpu.rdna4.core", ""),
}
targets = pytest.mark.parametrize("target", TARGETS)


def kernel(target: str, body: str, mode: str = "") -> str:
    contract, _ = TARGETS[target]
    return f"""\
low.kernel.def {mode}target<{contract}> workgroup_size(32, 1, 1) @k() asm {{
  %lane = live_in<amdgpu.workitem_id.x> : reg<amdgpu.vgpr>
  %x = resource<hal_binding> {{index = 0, source_type = hal.buffer}} : reg<amdgpu.sgpr x2>
  %y = resource<hal_binding> {{index = 1, source_type = hal.buffer}} : reg<amdgpu.sgpr x2>
  %at = v_lshlrev_b32_src0_inline %lane, 2
{body}  return
}}
"""


def code(target: str, text: str) -> list[str]:
    """The lines of the machine code."""
    profile = find_target(target)
    module = api.load_bytes(text.encode(), "m")
    roots = tuple(op for op in module.ops if op.name == "low.kernel.def")
    _, (lowered,), processor, descriptor_set = _lower(EmitRequest(module, roots, profile))
    made = compile_kernel(lowered.op, processor, descriptor_set, locks=lowered.locks, check=True)
    table = family_table(processor.family)
    return [text.strip() for _, _, text in disassemble_code(table, made.image.code, wave_size=processor.wave)]


STORE_THEN_LOAD = """\
  global_store_b32_saddr %at, %lane, %y
{control}  %v = global_load_b32_saddr %at, %x
{control}  %w = v_add_u32 %lane, %lane
{control}  %sum = v_add_u32 %v, %w
  global_store_b32_saddr %at, %sum, %y {{offset = 128}}
"""


@pytest.mark.seed("O08")
@targets
@pytest.mark.parametrize(
    ("control", "mode"),
    [
        ("  low.schedule.fence\n", ""),
        ("  low.schedule.phase\n", "schedule(phased) "),
        ("  low.schedule.begin\n  low.schedule.end\n", ""),
        ("", "schedule(locked) "),
    ],
)
def test_controls_order_and_nothing_else(target: str, control: str, mode: str) -> None:
    """The same instructions, waits included, as without: no barrier, no publication of the store, no completion of
    the load before its reader."""

    def instructions(text: str) -> Counter[str]:
        return Counter(line.split()[0] for line in code(target, text) if not line.startswith("s_delay_alu"))

    plain = kernel(target, STORE_THEN_LOAD.format(control=""))
    ordered = kernel(target, STORE_THEN_LOAD.format(control=control), mode)
    assert instructions(ordered) == instructions(plain)
    lines = [line for line in code(target, ordered) if not line.startswith("s_delay_alu")]
    load = next(i for i, line in enumerate(lines) if line.startswith("global_load"))
    reader = max(i for i, line in enumerate(lines) if line.startswith("v_add"))
    before = [line for line in lines[:load] if "vscnt" in line or "storecnt" in line or "barrier" in line]
    assert before == []
    waits = [i for i, line in enumerate(lines) if line.startswith("s_wait") and i > load]
    assert waits
    assert lines[reader - 1].startswith("s_wait")


@targets
def test_a_locked_kernel_keeps_its_order(target: str) -> None:
    """Registers that are there at entry stand outside of the sequence."""
    text = kernel(target, STORE_THEN_LOAD.format(control=""), "schedule(locked) ")
    names = [line.split()[0].rstrip("_e3264") for line in code(target, text) if line.startswith(("global_", "v_add"))]
    assert [name.split("_")[1] for name in names] == ["store", "load", "add", "add", "store"]


SCOPES = """\
  %a = global_load_b32_saddr %at, %x
  %b = global_load_b32_saddr %at, %x {offset = 128}
  low.schedule.begin
  %c = v_add_u32 %a, %a
  low.schedule.phase
  %d = v_add_u32 %c, %b
  low.schedule.end
  low.schedule.begin
  %e = v_add_u32 %d, %c
  low.schedule.end
  global_store_b32_saddr %at, %e, %y
"""


@pytest.mark.seed("S11")
@targets
def test_the_report_counts_scopes_registers_and_waits(target: str) -> None:
    """The wait for the first load leaves the second one outstanding, so it is partial."""
    report = compile_text(kernel(target, SCOPES), target).report["entries"][0]
    assert report["schedule"]["scope_count"] == 2
    assert report["target_resources"]["vector"]["final_count"] >= 3
    assert report["target_resources"]["scalar"]["final_count"] >= 4
    waits = report["wait_plan"]
    assert waits["partial_wait_count"] == 1
    assert waits["full_drain_count"] >= 2
    assert waits["explicit_action_count"] == 0
    assert (
        waits["action_count"]
        == waits["planned_action_count"]
        == waits["partial_wait_count"] + waits["full_drain_count"]
    )


def test_authored_waits_are_counted_apart() -> None:
    body = SCOPES.replace(
        "  low.schedule.begin\n  %e", "  s_waitcnt {lgkmcnt = 0, vmcnt = 0}\n  low.schedule.begin\n  %e"
    )
    waits = compile_text(kernel("amdgpu:gfx1100", body), "amdgpu:gfx1100").report["entries"][0]["wait_plan"]
    assert waits["explicit_action_count"] == 1
    assert waits["action_count"] == 1 + waits["planned_action_count"]
