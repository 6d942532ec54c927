"""What reports say about waits and barriers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc

from loom_sim import amdgpu
from loom_sim.amdgpu import processes
from loom_sim.command.main import main

pytestmark = needs_llvm_mc

POINTERS = "s_load_b128 s[4:7], s[0:1], 0x0\nv_lshlrev_b32_e32 v1, 2, v0\ns_waitcnt lgkmcnt(0)\n"
LOADS = "".join(f"global_load_b32 v{k}, v1, s[4:5] offset:{4 * k}\n" for k in (2, 3, 4))
# Two waves of 32: the second one runs through the loop three times, the first one once.
UNEVEN = """
  v_readfirstlane_b32 s8, v0
  s_lshr_b32 s8, s8, 4
  s_add_u32 s8, s8, 1
.Lloop:
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Lloop
  s_barrier
  s_nop 0
  s_barrier
"""


def _object(body: str, target: str = "gfx1100") -> bytes:
    return kernels_object([kernel_text(body + "s_endpgm", target, buffers=2, lds=256)], target)


def _launch(body: str, target: str = "gfx1100", **options: Any) -> amdgpu.LaunchReport:
    options.setdefault("workgroup_size", 64)
    arrays = [np.zeros(1024, np.uint32) for _ in range(2)]
    return amdgpu.load(_object(body, target)).launch("k", arguments=[*arrays, 0], **options)


def _waits(report: amdgpu.LaunchReport) -> list[tuple[str, int, int, int, int]]:
    return [(w.instruction, w.executions, w.needed, w.in_flight, w.most_in_flight) for w in report.waits]


def test_waits_for_loads() -> None:
    body = POINTERS + LOADS + "s_waitcnt vmcnt(1)\nv_mov_b32_e32 v5, v2\ns_waitcnt vmcnt(0)\ns_waitcnt vmcnt(0)\n"
    assert _waits(_launch(body)) == [
        ("s_waitcnt lgkmcnt(0)", 2, 2, 2, 1),
        ("s_waitcnt vmcnt(1)", 2, 2, 6, 3),
        ("s_waitcnt vmcnt(0)", 2, 2, 2, 1),
        ("s_waitcnt vmcnt(0)", 2, 0, 0, 0),
    ]


def test_a_wait_that_is_wide_enough_waits_for_nothing() -> None:
    assert _waits(_launch(POINTERS + LOADS + "s_waitcnt vmcnt(5)\n"))[1] == ("s_waitcnt vmcnt(5)", 2, 0, 6, 3)


def test_stores_are_not_followed() -> None:
    body = POINTERS + "global_store_b32 v1, v0, s[6:7]\ns_waitcnt_vscnt null, 0x0\n"
    assert _waits(_launch(body))[1] == ("s_waitcnt_vscnt null, 0x0", 2, 0, 0, 0)


def test_waits_depend_on_the_way_there() -> None:
    """Only the first of three rounds of the loop comes with loads in flight."""
    body = POINTERS + LOADS + "s_mov_b32 s8, 3\n.Lloop:\ns_waitcnt vmcnt(0)\ns_sub_u32 s8, s8, 1\ns_cmp_lg_u32 s8, 0\n"
    assert _waits(_launch(body + "s_cbranch_scc1 .Lloop\n"))[1] == ("s_waitcnt vmcnt(0)", 6, 2, 6, 3)


@pytest.mark.parametrize(
    ("target", "pointers", "load", "waits"),
    [
        ("gfx942", "s_load_dwordx4 s[4:7], s[0:1], 0x0\nv_lshlrev_b32_e32 v1, 2, v0\ns_waitcnt lgkmcnt(0)\n",
         "global_load_dword v2, v1, s[4:5]\nds_read_b32 v3, v1\n", ["s_waitcnt vmcnt(0)", "s_waitcnt lgkmcnt(0)"]),
        ("gfx1200", "s_load_b128 s[4:7], s[0:1], 0x0\nv_lshlrev_b32_e32 v1, 2, v0\ns_wait_kmcnt 0x0\n",
         "global_load_b32 v2, v1, s[4:5]\nds_load_b32 v3, v1\n", ["s_wait_loadcnt 0x0", "s_wait_dscnt 0x0"]),
    ],
)  # fmt: skip
def test_counters_are_told_apart(target: str, pointers: str, load: str, waits: list[str]) -> None:
    report = _launch(pointers + load + "\n".join(waits) + "\n", target)
    count = report.waves
    assert [(w.instruction, w.needed, w.most_in_flight) for w in report.waits[1:]] == [(w, count, 1) for w in waits]


def test_runs_that_are_not_strict_follow_no_waits() -> None:
    assert _launch(POINTERS, strict=False).waits == ()


@pytest.mark.parametrize("strict", [False, True])
def test_barriers(strict: bool) -> None:
    report = _launch(UNEVEN, workgroups=3, strict=strict)
    first, second = report.barrier_sites
    assert (first.passes, first.arrivals, first.spread, first.widest) == (3, 6, 3 * 6, 6)
    assert (second.passes, second.arrivals, second.spread, second.widest) == (3, 6, 0, 0)
    assert first.instruction == "s_barrier"
    assert first.address < second.address
    assert report.barriers == 12


def test_split_barriers() -> None:
    body = UNEVEN.replace("  s_barrier\n", "  s_barrier_signal -1\n  s_barrier_wait -1\n")
    (first, _) = _launch(body, "gfx1200").barrier_sites
    assert first.instruction.startswith("s_barrier_wait")
    assert (first.passes, first.arrivals, first.widest) == (1, 2, 6)


def test_workgroups_at_different_barriers() -> None:
    body = "s_cmp_eq_u32 s2, 0\ns_cbranch_scc1 .Lother\ns_barrier\ns_endpgm\n.Lother:\ns_nop 0\ns_nop 0\ns_barrier\n"
    report = _launch(body, workgroups=4)
    assert [(b.passes, b.arrivals) for b in report.barrier_sites] == [(3, 6), (1, 2)]


def test_reports_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.hsaco"
    path.write_bytes(_object(POINTERS + LOADS + "s_waitcnt vmcnt(0)\n" + UNEVEN))
    command = ["run", str(path), "--workgroup-size=64", "--arg=zeros:u32:99", "--arg=zeros:u32:99", "--arg=u32:0"]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "waits: 4 executed by waves, 4 of them for results in flight (2.0 on average, at most 3)\n" in text
    assert (
        "barriers: 4 arrivals of waves; up to 6 instructions between the waves of a workgroup (3.0 on average)" in text
    )
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [w["in_flight"] for w in document["waits"]] == [2, 6]
    assert document["barrier_sites"][0] == {
        "address": document["barrier_sites"][0]["address"], "instruction": "s_barrier", "passes": 1, "arrivals": 2,
        "spread": 6, "widest": 6, "source": None,
    }  # fmt: skip


# --- how many processes


GROUPS = 1280  # five batches of 65536 lanes
WORK = (
    "s_load_b128 s[4:7], s[0:1], 0x0\nv_lshl_add_u32 v1, s2, 8, v0\nv_lshlrev_b32_e32 v1, 2, v1\ns_waitcnt lgkmcnt(0)\n"
    "v_mov_b32_e32 v2, v1\ns_barrier\nglobal_store_b32 v1, v2, s[6:7]\n"
)


def _wide(count: int | None) -> tuple[Any, amdgpu.LaunchReport]:
    program = amdgpu.load(_object(WORK))
    out = np.zeros(GROUPS * 256, np.uint32)
    return out, program.launch("k", GROUPS, 256, [np.zeros(4, np.uint32), out, 0], strict=False, processes=count)


@pytest.mark.skipif(not processes.available(), reason="this system cannot fork")
@pytest.mark.parametrize(("worth", "idle", "used"), [(1e9, 8, 1), (0.0, 1, 1), (0.0, 2, 2), (0.0, 8, 3)])
def test_processes_are_used_when_they_pay(worth: float, idle: int, used: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two batches run here first, the other three in as many processes as there are processors, if that is worth it."""
    monkeypatch.setattr(processes, "WORTH_SECONDS", worth)
    monkeypatch.setattr(processes, "idle_processors", lambda: idle)
    (one, expected), (found, report) = _wide(1), _wide(None)
    np.testing.assert_array_equal(found, one)
    assert report.processes == used
    assert attrs.evolve(report, processes=1, seconds=0.0) == attrs.evolve(expected, seconds=0.0)


def test_idle_processors() -> None:
    assert 1 <= processes.idle_processors() <= 1 << 16
