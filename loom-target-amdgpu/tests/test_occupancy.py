"""A second schedule where fewer registers let more waves onto a SIMD."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import loom_target_amdgpu.hsaco as stages
from loom import api
from loom.low.allocate import Allocation
from loom.low.machine import Function
from loom.low.schedule import schedule
from loom.plugins.manager import find_target
from loom_target_amdgpu.occupancy import pays
from loom_target_amdgpu.profiles import processors, vgprs_for_waves, waves_per_simd

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MATTERS = {
    "amdgpu:gfx1100": ("matmul_wmma.loom", "matmul_wmma", 16),
    "amdgpu:gfx942": ("attention.loom", "attention_f32", 7),
}
"""Target -> a kernel whose first schedule needs a few registers more than a step of occupancy, and the waves it gets."""


def compiled(target: str, file: str, kernel: str) -> tuple[dict[str, Any], bytes]:
    """The report's entry and the code object."""
    profile = find_target(target)
    module = api.prepare_checks([EXAMPLES / file], [], profile)
    result = api.compile(module, (kernel,), profile, options={"check": True}).result
    report: Any = result.report
    (entry,) = report["entries"]
    return entry, result.primary.data


@pytest.mark.parametrize("target", MATTERS)
def test_a_few_registers_less_let_a_wave_in(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file, kernel, waves = MATTERS[target]
    entry, _ = compiled(target, file, kernel)
    monkeypatch.setattr(stages, "tighter_limit", lambda *_: None)
    once, _ = compiled(target, file, kernel)
    resources, before = entry["target_resources"], once["target_resources"]
    assert resources["resident_subgroups_per_simd"] == waves > before["resident_subgroups_per_simd"]
    assert resources["vector"]["final_count"] < before["vector"]["final_count"]
    for counter in ("spill_count", "reload_count"):
        assert entry["allocation"][counter] == once["allocation"][counter] == 0


@pytest.mark.parametrize("target", MATTERS)
def test_an_attempt_that_does_not_pay_leaves_no_trace(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file, kernel, _ = MATTERS[target]
    _, with_attempt = compiled(target, file, kernel)
    monkeypatch.setattr(stages, "pays", lambda *_: False)
    _, refused = compiled(target, file, kernel)
    monkeypatch.setattr(stages, "tighter_limit", lambda *_: None)
    _, once = compiled(target, file, kernel)
    assert refused == once != with_attempt


def test_kernels_below_the_first_step_are_scheduled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def counted(function: Function, *arguments: Any) -> int:
        names.append(function.name)
        return schedule(function, *arguments)

    monkeypatch.setattr(stages, "schedule", counted)
    for target in MATTERS:
        compiled(target, "saxpy.loom", "saxpy")
    assert len(names) == len(MATTERS)
    compiled("amdgpu:gfx1100", *MATTERS["amdgpu:gfx1100"][:2])
    assert len(names) == len(MATTERS) + 2


def test_what_pays() -> None:
    """Time of a wave over waves, and never for a spill."""
    same = Allocation(Function("f", None), {}, [])  # type: ignore[arg-type]  # only its counters are read
    spilled = Allocation(Function("f", None), {}, [], spills=1)  # type: ignore[arg-type]  # as above
    assert pays((1000, 6, same), (1100, 7, same))
    assert not pays((1000, 6, same), (1170, 7, same))
    assert not pays((1000, 6, same), (900, 6, same))
    assert not pays((1000, 6, same), (1000, 8, spilled))


@pytest.mark.parametrize("name", [name for name, p in processors().items() if p.can_compile])
def test_steps_are_those_of_the_occupancy_table(name: str) -> None:
    """One register more, rounded up by the hardware, and the wave no longer fits."""
    processor = processors()[name]
    most = processor.require_generation().max_waves
    for wave_size in processor.vector_file:
        for waves in range(1, most + 1):
            registers = vgprs_for_waves(processor, wave_size, waves)
            assert waves_per_simd(processor, wave_size, registers) >= waves
            assert waves_per_simd(processor, wave_size, registers + 1) < waves
