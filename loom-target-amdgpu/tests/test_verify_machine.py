"""``--verify-machine``: planted faults of the compiler that the independent checkers refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import loom_target_amdgpu.hsaco as stages
from loom import api
from loom.ir.diagnostics import LoomError
from loom.low.allocate import allocate
from loom.low.machine import Function
from loom.low.proof import OPTION
from loom.low.schedule import Strategy, schedule
from loom.tools.check import main as check_main
from loom.tools.compile import main as compile_main

SOURCE = """\
check.case public @same {
  %x = check.generate.iota offset(0.0) step(1.0) : tensor<32xf32>
  %want = check.generate.iota offset(0.0) step(1.0) : tensor<32xf32>
  kernel.launch @twice[](%x) : [](tensor<32xf32>)
  check.expect.equal actual(%x) expected(%want) : tensor<32xf32>
  check.return
}

kernel.def export("twice") @twice() {
  %one = index.constant 1 : index
  %lanes = index.constant 32 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%lanes, %one, %one) : index
} launch(%x: buffer) {
  %lane = kernel.workitem.id<x> : index
  %start = index.constant 0 : offset
  %items = buffer.view %x[%start] : buffer -> view<32xf32>
  %a = view.load %items[%lane] : view<32xf32> -> f32
  %b = scalar.addf %a, %a : f32
  %c = scalar.subf %b, %a : f32
  view.store %c, %items[%lane] : f32, view<32xf32>
  kernel.return
}
"""

Run = Callable[[list[str]], int]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program, without what makes the other tests of this folder prove everything."""
    monkeypatch.delenv("LOOM_VERIFY_MACHINE", raising=False)
    path = tmp_path / "twice.loom"
    path.write_text(SOURCE)
    return path


def compile_it(path: Path, *flags: str) -> int:
    return compile_main([str(path), "--target=amdgpu:gfx1100", f"--output={path.with_suffix('.hsaco')}", *flags])


def check_it(path: Path, *flags: str) -> int:
    return check_main([str(path), "--device=sim", "--target=amdgpu:gfx1100", *flags])


def swap_dependent(function: Function, model: Any, strategy: Strategy) -> int:
    """Schedules, then moves the load behind what uses its result."""
    count = schedule(function, model, strategy)
    for block in function.blocks:
        code = block.instructions
        for at in range(len(code) - 1):
            if set(code[at].results) & set(code[at + 1].operands):
                code[at], code[at + 1] = code[at + 1], code[at]
                return count
    raise AssertionError("nothing depends on its neighbour")


def one_register(function: Function) -> Any:
    """Allocates, then puts every single vector value into v0."""
    allocation = allocate(function)
    for value in list(allocation.assign):
        if value.reg_class == "amdgpu.vgpr":
            allocation.assign[value] = 0  # type: ignore[index]  # the fault planted here
    return allocation


@pytest.mark.parametrize("run", [compile_it, check_it])
@pytest.mark.parametrize(
    ("stage", "fault", "what"), [("schedule", swap_dependent, "schedule"), ("allocate", one_register, "allocation")]
)
def test_planted_faults_are_refused_where_they_are(
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    run: Callable[..., int],
    stage: str,
    fault: Callable[..., Any],
    what: str,
) -> None:
    monkeypatch.setattr(stages, stage, fault)
    assert run(source, "--verify-machine") == 1
    output = capsys.readouterr()
    text = output.out + output.err
    assert f"the {what} of '@twice' is wrong" in text
    assert "TARGET/022" in text
    assert "twice.loom:" in text
    assert "Traceback" not in text


def test_only_the_flag_proves(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the same fault goes unnoticed, so the flag is what found it."""
    monkeypatch.setattr(stages, "schedule", swap_dependent)
    assert compile_it(source) == 0
    monkeypatch.setenv("LOOM_VERIFY_MACHINE", "1")
    assert compile_it(source) == 1


def test_sound_code_passes(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_it(source, "--verify-machine") == 0
    assert check_it(source, "--verify-machine") == 0
    assert "1 passed" in capsys.readouterr().out


def keep_no_distance(blocks: Any, assembler: Any, processor: Any) -> None:
    """Inserts nothing where hardware does not keep a distance."""


NEAR = SOURCE.replace(
    "  %c = scalar.subf %b, %a : f32\n",
    """\
  %d = scalar.exp2f<afn> %b : f32
  %e = scalar.addf %d, %a : f32
  %less = scalar.cmpf olt, %e, %b : f32
  %c = scf.select %less, %e, %a : f32
""",
)


@pytest.mark.parametrize("processor", ["gfx1100", "gfx1200", "gfx942", "gfx950"])
def test_missing_distances_are_refused_where_they_are(
    source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], processor: str
) -> None:
    source.write_text(NEAR)
    module = api.load(source)

    def compiled(check: bool) -> None:
        api.compile(module, (), f"amdgpu:{processor}", options={OPTION: check})

    compiled(check=True)
    monkeypatch.setattr(stages, "insert_hazard_waits", keep_no_distance)
    compiled(check=False)
    with pytest.raises(LoomError, match=r"the distance of '@twice' is wrong: .* comes too early after") as caught:
        compiled(check=True)
    (found,) = caught.value.diagnostics
    assert found.params["constraint_key"] == "machine.distance"
    assert found.position() is not None
    assert compile_main([str(source), f"--target=amdgpu:{processor}", "--output=x", "--verify-machine"]) == 1
    output = capsys.readouterr().err
    assert "twice.loom:" in output
    assert "Traceback" not in output
