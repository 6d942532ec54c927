"""Rows of the instruction tables translate to valid code or are refused by name; coverage does not shrink."""

from __future__ import annotations

import attrs
import pytest

from loom_sim.amdgpu import blocks, emitter
from loom_sim.amdgpu.errors import UnsupportedInstruction
from loom_sim.amdgpu.execute import relative
from loom_sim.amdgpu.execute.operation import load_all
from loom_sim.amdgpu.instruction import adapt
from loom_sim.amdgpu.numerics.mode import FloatMode
from loom_sim.amdgpu.runtime import StaticFault
from loom_sim.amdgpu.traits import FAMILIES

pytest.importorskip("loom_target_amdgpu", reason="the decoder is in loom-target-amdgpu")

STRIDE = 5
"""Only every so many rows are tried, to keep the test short."""


@pytest.mark.parametrize(
    ("family", "wave_size", "floor"), [("gfx11", 32, 0.92), ("gfx12", 64, 0.89), ("gfx942", 64, 0.88)]
)
def test_rows_translate_or_are_refused(family: str, wave_size: int, floor: float) -> None:
    from loom_target_amdgpu.isa.decode import decode
    from loom_target_amdgpu.isa.tables import family_table

    load_all()
    traits = attrs.evolve(FAMILIES[family], accum_offset=256)
    table = family_table(family)
    tried = supported = 0
    for number in range(0, len(table), STRIDE):
        row = table.row(number)
        if row.wave not in (0, wave_size):
            continue
        tried += 1
        data = b"".join(word.to_bytes(4, "little") for word in row.example_words) + bytes(8)
        inst = adapt(decode(table, data, 0, wave_size=wave_size), 0)
        em = emitter.Emitter(traits, wave_size, FloatMode(), False, True, 512 if traits.unified_vgprs else 256)
        em.selected = 0
        em.instruction = inst = relative.resolve(inst, em.selected, None)
        try:
            handled = any(handler(em, inst) for handler in blocks._HANDLERS)
        except (UnsupportedInstruction, StaticFault):
            continue
        if handled:
            supported += 1
            compile("def block(g):\n" + "\n".join(" " + line for line in em.lines or ["pass"]), row.mnemonic, "exec")
    assert supported >= floor * tried, f"{supported} of {tried} rows are supported"
