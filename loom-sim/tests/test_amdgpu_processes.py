"""Workgroups in several processes give what they give in one."""

from __future__ import annotations

import os
import signal
from typing import Any

import attrs
import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc

from loom_sim import amdgpu
from loom_sim.amdgpu import processes

pytestmark = [
    needs_llvm_mc,
    pytest.mark.skipif(not processes.available(), reason="this system cannot fork"),
]

START = (
    "s_load_b128 s[4:7], s[0:1], 0x0\nv_lshl_add_u32 v1, s2, 8, v0\nv_lshlrev_b32_e32 v1, 2, v1\ns_waitcnt lgkmcnt(0)\n"
)
BODY = START + "global_load_b32 v2, v1, s[4:5]\ns_waitcnt vmcnt(0)\n"
BODY += "v_lshlrev_b32_e32 v3, 2, v0\nds_store_b32 v3, v2\n"
BODY += "v_add_nc_u32_e32 v2, 5, v2\ns_barrier\nglobal_store_b32 v1, v2, s[6:7]\ns_endpgm"
GROUPS = 1024  # four batches of 65536 lanes
N = GROUPS * 256


def _launch(body: str, count: int = 3, size: int = N, **options: Any) -> tuple[Any, amdgpu.LaunchReport]:
    program = amdgpu.load(kernels_object([kernel_text(body, "gfx1100", buffers=2, lds=1024)], "gfx1100"))
    a, b = np.arange(N, dtype=np.uint32), np.zeros(size, np.uint32)
    options.setdefault("strict", False)
    children: list[int] = []
    fork = os.fork

    def noted_fork() -> int:
        child = fork()
        if child:
            children.append(child)
        return child

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fork", noted_fork)
        try:
            return b, program.launch("k", GROUPS, 256, [a, b, 0], processes=count, **options)
        finally:
            for child in children:
                with pytest.raises(ChildProcessError):
                    os.waitpid(child, os.WNOHANG)  # no process is left behind


def test_results_and_reports_are_the_same() -> None:
    results = [_launch(BODY, count, bank_conflicts=True) for count in (1, 3)]
    np.testing.assert_array_equal(results[1][0], np.arange(N) + 5)
    np.testing.assert_array_equal(results[0][0], results[1][0])
    one, three = (attrs.evolve(report, seconds=0.0) for _, report in results)
    assert (one.processes, three.processes) == (1, 3)
    assert attrs.evolve(three, processes=1) == one
    assert one.banks is not None
    assert one.barriers == N // 32


@pytest.mark.parametrize("size", [N - 1, N // 2, 100])
def test_the_first_fault_is_the_one_of_a_single_process(size: int) -> None:
    records = []
    for count in (1, 4):
        with pytest.raises(amdgpu.SimulationFault) as caught:
            _launch(BODY, count, size)
        records.append(caught.value.record)
    assert records[0] == records[1]
    assert records[0].kind == "out_of_bounds"


@pytest.mark.parametrize(
    "talk",
    [
        "v_mov_b32_e32 v3, 1\nv_mov_b32_e32 v4, 0\nglobal_atomic_add_u32 v4, v3, s[6:7]\n",
        "global_load_b32 v4, v1, s[6:7] glc\n",
    ],
)
def test_workgroups_that_may_talk_stay_together(talk: str) -> None:
    b, report = _launch(START + talk + "s_endpgm")
    assert report.processes == 1
    if "atomic" in talk:
        assert b[0] == N


def test_strict_runs_see_all_accesses_in_one_process() -> None:
    race = START + "v_mov_b32_e32 v3, 0\nglobal_store_b32 v3, v1, s[6:7]\ns_endpgm"
    assert _launch(race)[1].processes == 3
    with pytest.raises(amdgpu.SimulationFault, match="race"):
        _launch(race, strict=True)


def test_an_endless_loop_ends_every_process() -> None:
    with pytest.raises(amdgpu.SimulationFault, match="step_budget"):
        _launch(".Lloop:\ns_branch .Lloop\n", max_steps=1000)


def test_an_interrupt_leaves_no_process_behind() -> None:
    """`_launch` looks for children that are left."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(amdgpu.SimulationFault):
        _launch(".Lloop:\ns_branch .Lloop\n", max_steps=1)  # assembles, so that the time below is all for running
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        with pytest.raises(KeyboardInterrupt):
            _launch(".Lloop:\ns_branch .Lloop\n", max_steps=1 << 40)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_parts_cover_all_batches_in_order() -> None:
    batches = [(4 * k, 4) for k in range(7)]
    for count in range(1, 10):
        found = processes.parts(batches, count)
        assert [b for part in found for b in part] == batches
        assert all(found)
        assert len(found) == min(count, 7)
