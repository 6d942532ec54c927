"""Stopping at instructions, looking at waves and changing them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc

from loom_sim import amdgpu
from loom_sim.amdgpu.debug import Action, Debugger, Quit, Stop
from loom_sim.amdgpu.memory import AccessError

pytestmark = needs_llvm_mc

BODY = """
s_load_b128 s[4:7], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
s_waitcnt lgkmcnt(0)
global_load_b32 v2, v1, s[4:5]
s_waitcnt vmcnt(0)
v_add_nc_u32_e32 v2, 1, v2
ds_store_b32 v1, v2
global_store_b32 v1, v2, s[6:7]
s_endpgm
"""
NAMES = [line.split()[0] for line in BODY.split("\n") if line]
LOAD, ADD, STORE = (NAMES.index(n) for n in ("global_load_b32", "v_add_nc_u32_e32", "global_store_b32"))


def _debugger() -> Debugger:
    return Debugger(amdgpu.load(kernels_object([kernel_text(BODY, "gfx1100", buffers=2, lds=256)], "gfx1100")))


def _launch(debugger: Debugger, on_stop: Any, **options: Any) -> tuple[np.ndarray[Any, Any], amdgpu.LaunchReport]:
    a, b = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    report = debugger.launch("k", on_stop, workgroup_size=64, arguments=[a, b, 0], **options)
    return b, report


def _steps(debugger: Debugger) -> list[Stop]:
    stops: list[Stop] = []

    def on_stop(stop: Stop) -> Action:
        stops.append(stop)
        return Action.STEP

    _launch(debugger, on_stop, step=True)
    return stops


def test_stepping_stops_at_every_instruction_once() -> None:
    stops = _steps(_debugger())
    assert [s.instruction.split()[0].removesuffix("_e32") for s in stops] == [n.removesuffix("_e32") for n in NAMES]
    assert all(s.waves == ((0, 0), (0, 1)) for s in stops)
    addresses = [s.address for s in stops]
    assert addresses == sorted(set(addresses))


def test_a_breakpoint_shows_registers_lds_and_memory() -> None:
    debugger = _debugger()
    start = debugger.break_at("k")
    assert start == _steps(debugger)[0].address
    debugger.breakpoints.clear()
    debugger.break_at(_steps(debugger)[STORE].address)
    seen = []

    def on_stop(stop: Stop) -> Action:
        seen.append(stop.instruction)
        lanes = np.arange(64, dtype=np.uint32).reshape(2, 32)
        words, low, high = stop.read("v2"), stop.read("s4"), stop.read("s5")
        assert words is not None
        assert low is not None
        assert high is not None
        np.testing.assert_array_equal(words, lanes + 1)
        assert stop.read("v9") is None
        assert stop.active.all()
        assert stop.active.shape == (2, 32)
        np.testing.assert_array_equal(np.frombuffer(stop.lds(), np.uint32), np.arange(1, 65))
        address = int(high[0]) << 32 | int(low[0])
        assert stop.memory(address + 4, 8) == np.array([1, 2], np.uint32).tobytes()
        with pytest.raises(AccessError, match="past the end"):
            stop.memory(address + 256, 1)
        return Action.CONTINUE

    b, report = _launch(debugger, on_stop)
    assert len(seen) == 1
    assert b[63] == 64
    assert report.wave_instructions == 2 * len(NAMES)


def test_registers_can_be_changed() -> None:
    debugger = _debugger()
    debugger.break_at(_steps(debugger)[ADD].address)

    def on_stop(stop: Stop) -> Action:
        stop.write("v2", 10 * np.arange(32))
        with pytest.raises(ValueError, match="EXEC"):
            stop.write("exec_lo", 1)
        with pytest.raises(ValueError, match="no register 'v999'"):
            stop.read("v999")
        return Action.CONTINUE

    b, _ = _launch(debugger, on_stop)
    assert b.tolist() == [10 * k + 1 for k in range(32)] * 2


def test_workgroups_keep_their_numbers_and_quitting_ends_the_launch() -> None:
    debugger = _debugger()
    debugger.break_at("k")

    def on_stop(stop: Stop) -> Action:
        assert stop.waves == tuple((g, w) for g in range(3) for w in range(2))
        workgroups = stop.read("s15") if stop.read("s15") is not None else stop.read("s2")
        assert workgroups is not None
        assert workgroups.tolist() == [0, 0, 1, 1, 2, 2]
        return Action.QUIT

    with pytest.raises(Quit):
        _launch(debugger, on_stop, workgroups=3)


def test_unknown_symbol() -> None:
    with pytest.raises(amdgpu.LaunchError, match="no symbol 'other'"):
        _debugger().break_at("other")
