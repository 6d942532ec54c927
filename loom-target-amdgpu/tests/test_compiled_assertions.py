"""Assertions in compiled kernels: a false one ends the launch, a true one changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import compile_text

from loom.ir.diagnostics import LoomError
from loom.tools import compile as tool
from loom_sim.amdgpu import SimulationFault, load

TARGETS = ("amdgpu:gfx1100", "amdgpu:gfx1200", "amdgpu:gfx942")
KERNEL = """\
kernel.def export("k") @k() {{
  %unit = index.constant 1 : index
  %width = index.constant 32 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
}} launch(%n: index, %m: i32, %h: f32, %x: buffer, %y: buffer) {{
  %origin = index.constant 0 : offset
  %lane = kernel.workitem.id<x> : index
  %in = buffer.view %x[%origin] : buffer -> view<[%n]xi32>
  %out = buffer.view %y[%origin] : buffer -> view<32xi32>
{body}  %v = view.load %in[%lane] : view<[%n]xi32> -> i32
  %q = scalar.divsi %v, %safe : i32
  view.store %q, %out[%lane] : i32, view<32xi32>
  kernel.return
}}
"""
ASSERTED = """\
  %safe = sanitizer.assert.value %m [multiple_of(%m, 3), range(%m, 0, 100)] : i32
  sanitizer.assert.op %h, %m [finite(%h), ne(%m, 0)] : f32, i32
  sanitizer.assert.access<read> %in[%lane] : view<[%n]xi32>
"""
ASSUMED = "  %safe = scalar.assume %m [multiple_of(%m, 3), range(%m, 0, 100)] : i32\n"


def launch(code: bytes, arguments: Sequence[Any]) -> list[int] | None:
    """What the kernel stores; ``None`` if a trap ended it."""
    y = np.zeros(32, np.int32)
    try:
        load(code).launch("k", 1, 32, [*arguments, np.arange(32, dtype=np.int32), y])
    except SimulationFault as fault:
        assert "trap" in str(fault)
        return None
    return [int(v) for v in y]


@pytest.mark.parametrize("target", TARGETS)
def test_a_false_assertion_traps(target: str) -> None:
    code = compile_text(KERNEL.format(body=ASSERTED), target).primary.data
    assert launch(code, [32, 6, 1.5]) == [v // 6 for v in range(32)]
    assert launch(code, [40, 99, -0.0]) == [0] * 32
    for wrong in ([31, 6, 1.5], [32, 7, 1.5], [32, -3, 1.5], [32, 102, 1.5], [32, 0, 1.5], [32, 6, float("inf")]):
        assert launch(code, wrong) is None, wrong


def made(tmp_path: Path, *flags: str) -> bytes:
    """The code that ``loom-compile`` makes of the kernel with assumptions."""
    source, output = tmp_path / "k.loom", tmp_path / "k.hsaco"
    source.write_text(KERNEL.format(body=ASSUMED))
    assert tool.main([str(source), "--target=amdgpu:gfx1100", f"--output={output}", *flags]) == 0
    return output.read_bytes()


def test_loom_compile_inserts_the_checks_that_are_asked_for(tmp_path: Path) -> None:
    plain, value = made(tmp_path), made(tmp_path, "--sanitizer=value")
    access, both = made(tmp_path, "--sanitizer=access"), made(tmp_path, "--sanitizer=value|operation")
    all_ = made(tmp_path, "--sanitizer=all", "--sanitizer-reporting=trap")
    trapped = {
        name: [
            launch(code, arguments) is None for arguments in ([32, 6, 0.0], [32, 102, 0.0], [32, 0, 0.0], [31, 6, 0.0])
        ]
        for name, code in (("plain", plain), ("value", value), ("access", access), ("both", both), ("all", all_))
    }
    assert trapped == {
        "plain": [False, False, False, False],
        "value": [False, True, False, False],
        "access": [False, False, False, True],
        "both": [False, True, True, False],
        "all": [False, True, True, True],
    }


@pytest.mark.parametrize("words", ["accesses", "race", "value|", ""])
def test_unknown_checks_are_refused(tmp_path: Path, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        tool.main([str(tmp_path / "k.loom"), "--target=amdgpu:gfx1100", f"--sanitizer={words}"])
    assert ended.value.code == 2
    assert "there is no sanitizer" in capsys.readouterr().err


@pytest.mark.parametrize("op", ["race.access<read> %in[0]", "assert.access<read> %given[0]"])
def test_what_code_cannot_check_is_refused_where_it_stands(op: str) -> None:
    text = KERNEL.format(body=f"{ASSUMED}  sanitizer.{op} : view<[%n]xi32>\n").replace(
        "%x: buffer", "%given: view<[%n]xi32>, %x: buffer"
    )
    with pytest.raises(LoomError) as caught:
        compile_text(text, "amdgpu:gfx1100")
    (found,) = caught.value.diagnostics
    assert found.code == "TARGET/001"
    position = found.position()
    assert position is not None
    assert "sanitizer" in text.splitlines()[position[1] - 1]
