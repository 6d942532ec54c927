"""Dropping what nobody uses in authored Low: what goes, and each reason for which something stays."""

from __future__ import annotations

import pytest

from loom import api
from loom.passes.model import Context
from loom.passes.requests import read_requests
from loom.passes.run import Runner

HEAD = """\
amdgpu.target<gfx1100> @gfx1100

low.func.def target<amdgpu.rdna3.core>(@gfx1100) @f(%x: reg<amdgpu.vgpr>, %a: reg<amdgpu.sgpr x2>) -> (reg<amdgpu.vgpr>) asm {
"""


def dropped(*lines: str) -> tuple[int, str]:
    text = HEAD + "".join(f"  {line}\n" for line in (*lines, "return %x")) + "}\n"
    module = api.parse(text, "low.loom")
    api.verify(module)
    runner = Runner(module, Context())
    runner.run(read_requests("low-dce"))
    (count,) = (item.outcome.statistics["operations-dropped"] for item in runner.invocations)
    return count, api.print(module)


def test_a_chain_that_nobody_uses_goes() -> None:
    count, text = dropped("%p = v_add_u32 %x, %x", "%q = v_mul_lo_u32 %p, %x")
    assert count == 2
    assert "v_add_u32" not in text


KEPT = {
    "a store": "global_store_b32_saddr %x, %x, %a",
    "a load": "%v = global_load_b32_saddr %x, %a",
    "a barrier": "s_barrier",
}


@pytest.mark.parametrize("name", KEPT)
def test_effects_stay(name: str) -> None:
    count, text = dropped(KEPT[name])
    assert count == 0
    assert KEPT[name].split(" = ")[-1].split()[0] in text


CARRY = (
    "%lo = slice %a[0] : reg<amdgpu.sgpr x2> -> reg<amdgpu.sgpr>",
    "%sum = s_add_u32 %lo, %lo",
    "%carry = s_addc_u32 %lo, %lo",
    "%v = v_add_u32 %carry, %x",
    "global_store_b32_saddr %x, %v, %a",
)


def test_what_leaves_a_flag_stays_for_who_reads_it() -> None:
    assert dropped(*CARRY)[0] == 0
    count, text = dropped(CARRY[0], CARRY[1].replace("sum", "before"), *CARRY[1:])
    assert count == 1, "the flag of the first sum is overwritten"
    assert text.count("s_add_u32") == 1
    assert dropped(*CARRY[:-1])[0] == 4, "nobody reads the flag any more"


def test_reservations_stay() -> None:
    """Instructions may know the place of one without naming it."""
    count, text = dropped("%room = low.storage.reserve {byte_alignment = 16, byte_length = 64} : low.storage<private>")
    assert count == 0
    assert "low.storage<private>" in text


def test_source_functions_are_no_business_of_it() -> None:
    module = api.parse("func.def public @f(%x: i32) {\n  %y = scalar.addi %x, %x : i32\n  func.return\n}\n", "f.loom")
    runner = Runner(module, Context())
    runner.run(read_requests("low-dce"))
    assert runner.invocations == []
    assert "scalar.addi" in api.print(module)
