"""Programs whose waves race or read what nothing wrote, and their neighbours that do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc

from loom_sim import amdgpu

pytestmark = needs_llvm_mc

# At entry s[0:1] is the argument address, s2 the workgroup, v0 the work-item. Two waves of 32 to a workgroup.
POINTERS = "s_load_b128 s[4:7], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\n"
OWN = "v_lshlrev_b32_e32 v1, 2, v0\n"
OTHERS = "v_xor_b32_e32 v3, 32, v0\nv_lshlrev_b32_e32 v3, 2, v3\n"  # the same lane of the other wave
NEXT = "v_xor_b32_e32 v3, 1, v0\nv_lshlrev_b32_e32 v3, 2, v3\n"  # a lane of the own wave
BARRIER = "s_waitcnt vmcnt(0) lgkmcnt(0)\ns_waitcnt_vscnt null, 0x0\ns_barrier\n"
WAIT = "s_waitcnt vmcnt(0) lgkmcnt(0)\ns_waitcnt_vscnt null, 0x0\n"
LEADER = "v_cmp_eq_u32_e32 vcc_lo, 0, v0\ns_and_saveexec_b32 s8, vcc_lo\n"
END = "s_endpgm"


def _launch(body: str, **options: Any) -> np.ndarray[Any, Any]:
    launch = {k: options.pop(k) for k in ("strict", "workgroups", "workgroup_size") if k in options}
    launch.setdefault("workgroup_size", 64)
    program = amdgpu.load(kernels_object([kernel_text(body, "gfx1100", buffers=2, **options)], "gfx1100"))
    first, second = np.zeros(256, np.uint32), np.zeros(256, np.uint32)
    program.launch("k", arguments=[first, second, 0], **launch)
    return first


def _fault(kind: str, instruction: str, body: str, **options: Any) -> amdgpu.FaultRecord:
    with pytest.raises(amdgpu.SimulationFault) as caught:
        _launch(body, **options)
    record = caught.value.record
    assert record.kind == kind, record
    assert instruction in (record.instruction or ""), record
    assert record.wave is not None
    assert record.lane is not None
    return record


RACES = {
    "LDS: read after write": (
        "ds_load_b32",
        "`ds_store_b32",
        OWN + OTHERS + "ds_store_b32 v1, v0\n{barrier}ds_load_b32 v2, v3\n" + WAIT + END,
        {"lds": 256},
    ),
    "LDS: write after read": (
        "ds_store_b32",
        "read with `ds_load_b32",
        OWN
        + OTHERS
        + "ds_store_b32 v1, v0\n"
        + BARRIER
        + "ds_load_b32 v2, v1\n{barrier}ds_store_b32 v3, v0\n"
        + WAIT
        + END,
        {"lds": 256},
    ),
    "LDS: write after reads of several waves, the last by its own": (
        "ds_store_b32",
        "another wave",
        "v_mov_b32_e32 v1, 0\nv_mov_b32_e32 v4, 5\n"
        + LEADER
        + "ds_store_b32 v1, v4\ns_mov_b32 exec_lo, s8\n"
        + BARRIER
        + "ds_load_b32 v2, v1\n{barrier}v_cmp_gt_u32_e32 vcc_lo, 64, v0\nv_cmp_lt_u32_e64 s9, 31, v0\n"
        + "s_and_b32 exec_lo, vcc_lo, s9\nds_store_b32 v1, v0\n"
        + WAIT
        + END,
        {"lds": 256},
    ),
    "LDS: write after write": (
        "ds_store_b32",
        "wrote with `ds_store_b32",
        OWN + OTHERS + "v_add_nc_u32_e32 v2, 7, v0\nds_store_b32 v1, v0\n{barrier}ds_store_b32 v3, v2\n" + WAIT + END,
        {"lds": 256},
    ),
    "LDS: plain read of an atomic sum": (
        "ds_load_b32",
        "`ds_add_u32",
        "v_mov_b32_e32 v1, 0\nv_mov_b32_e32 v2, 1\n"
        + LEADER
        + "ds_store_b32 v1, v1\ns_mov_b32 exec_lo, s8\n"
        + BARRIER
        + "ds_add_u32 v1, v2\n{barrier}ds_load_b32 v3, v1\n"
        + WAIT
        + END,
        {"lds": 256},
    ),
    "global: the other wave's element": (
        "global_load_b32",
        "`global_store_b32",
        POINTERS
        + OWN
        + OTHERS
        + "global_store_b32 v1, v0, s[4:5]\n{barrier}global_load_b32 v2, v3, s[4:5]\n"
        + WAIT
        + END,
        {},
    ),
    "global: flat addresses": (
        "flat_load_b32",
        "`global_store_b32",
        POINTERS
        + OWN
        + OTHERS
        + "global_store_b32 v1, v0, s[4:5]\n{barrier}v_add_co_u32 v4, vcc_lo, s4, v3\n"
        + "v_add_co_ci_u32_e64 v5, null, s5, 0, vcc_lo\nflat_load_b32 v2, v[4:5]\n"
        + WAIT
        + END,
        {},
    ),
}


@pytest.mark.parametrize("name", RACES)
def test_a_missing_barrier_is_a_race(name: str) -> None:
    instruction, other, body, options = RACES[name]
    record = _fault("race", instruction, body.format(barrier=""), **options)
    assert other in record.message, record
    _launch(body.format(barrier=BARRIER), **options)
    _launch(body.format(barrier=""), strict=False, **options)


def test_workgroups_are_not_ordered_by_their_barriers() -> None:
    body = (
        POINTERS
        + OWN
        + "v_lshl_add_u32 v3, s2, 6, v0\nv_lshlrev_b32_e32 v3, 2, v3\nglobal_store_b32 v3, v0, s[4:5]\n"
        + BARRIER
        + "global_load_b32 v2, v1, s[4:5]\n"
        + WAIT
        + END
    )
    record = _fault("race", "global_load_b32", body, workgroups=2)
    assert record.workgroup == (1, 0, 0)
    assert "of workgroup number 0 wrote with `global_store_b32" in record.message
    _launch(body, workgroups=1)


def test_two_waves_store_different_values_at_once() -> None:
    body = "v_mov_b32_e32 v1, 0\nv_lshrrev_b32_e32 v2, {shift}, v0\nds_store_b32 v1, v2\n" + WAIT + END
    record = _fault("race", "ds_store_b32", body.format(shift=5), lds=4)
    assert "wave" in record.message
    _launch(body.format(shift=6), lds=4)  # the same value everywhere
    _launch(body.format(shift=0), lds=4, workgroup_size=32)  # lanes of one wave


def test_storing_what_is_there_is_no_race() -> None:
    body = POINTERS + "v_mov_b32_e32 v1, 0\nv_mov_b32_e32 v2, 9\nglobal_store_b32 v1, v2, s[4:5]\n" + WAIT + END
    assert _launch(body, workgroups=3)[0] == 9


# Wave 0 goes through the first part, then wave 1 through the second, so that they never share an instruction.
ONE_AFTER_THE_OTHER = "v_cmp_gt_u32_e32 vcc_lo, 32, v0\ns_cbranch_vccz .Lsecond\n{first}s_endpgm\n.Lsecond:\n{second}"


@pytest.mark.parametrize(("value", "races"), [(9, False), (8, True)])
def test_a_later_store_of_what_is_there_is_no_race(value: int, races: bool) -> None:
    store = "global_store_b32 v1, v2, s[4:5]\n" + WAIT
    parts = ONE_AFTER_THE_OTHER.format(first=store, second=f"v_mov_b32_e32 v2, {value}\n{store}")
    body = POINTERS + "v_mov_b32_e32 v1, 0\nv_mov_b32_e32 v2, 9\n" + parts + END
    if races:
        _fault("race", "global_store_b32", body)
    else:
        assert _launch(body)[0] == 9


def test_an_earlier_read_of_another_wave_is_not_hidden_by_a_read_of_ones_own() -> None:
    load = "global_load_b32 v3, v1, s[4:5]\n" + WAIT
    parts = ONE_AFTER_THE_OTHER.format(first=load, second=load + "global_store_b32 v1, v2, s[4:5]\n" + WAIT)
    body = POINTERS + "v_mov_b32_e32 v1, 0\nv_mov_b32_e32 v2, 9\n" + parts + END
    record = _fault("race", "global_store_b32", body)
    assert "another wave read" in record.message


def test_a_read_is_remembered_behind_many_others() -> None:
    load = "global_load_b32 v3, v1, s[4:5]\n" + WAIT
    others = "global_load_b32 v3, v1, s[4:5] offset:512\n" * 100 + WAIT
    for first, races in ((load + others, True), (others, False)):
        parts = ONE_AFTER_THE_OTHER.format(first=first, second="global_store_b32 v1, v2, s[4:5]\n" + WAIT)
        body = POINTERS + "v_mov_b32_e32 v1, 0\nv_mov_b32_e32 v2, 9\n" + parts + END
        if races:
            assert "read with `global_load_b32" in _fault("race", "global_store_b32", body).message
        else:
            _launch(body)


def test_what_a_wave_reads_and_overwrites_is_still_its_own() -> None:
    """Every lane reads and stores its element; then wave 1 stores to the elements of wave 0."""
    update = POINTERS + OWN + OTHERS + "global_load_b32 v2, v1, s[4:5]\n" + WAIT
    update += "v_add_nc_u32_e32 v2, 1, v2\nglobal_store_b32 v1, v2, s[4:5]\n" + WAIT
    assert _launch(update + END)[:64].tolist() == [1] * 64
    clash = update + "v_cmp_gt_u32_e32 vcc_lo, 32, v0\ns_cbranch_vccnz .Lend\n"
    record = _fault("race", "global_store_b32", clash + "global_store_b32 v3, v0, s[4:5]\n.Lend:\n" + END)
    assert "wrote with `global_store_b32" in record.message


@pytest.mark.parametrize("barrier", [BARRIER, ""])
def test_workgroups_that_pass_a_barrier_at_different_times(barrier: str) -> None:
    """Workgroup 1 goes around a loop first, so that the barrier orders the reads of one workgroup at a time."""
    body = (
        OWN
        + OTHERS
        + "s_lshl_b32 s9, s2, 3\nds_store_b32 v1, v0\n.Lloop:\ns_sub_u32 s9, s9, 1\ns_cmp_gt_i32 s9, 0\n"
        + "s_cbranch_scc1 .Lloop\n"
        + BARRIER
        + "ds_load_b32 v2, v1\n"
        + WAIT
        + barrier
        + "ds_store_b32 v3, v0\n"
        + WAIT
        + END
    )
    if barrier:
        _launch(body, lds=256, workgroups=2)
    else:
        _fault("race", "ds_store_b32", body, lds=256, workgroups=2)


def test_waves_may_write_bytes_of_one_word() -> None:
    body = POINTERS + "v_add_nc_u32_e32 v1, 2, v0\nglobal_store_b8 v1, v0, s[4:5]\n" + WAIT + END
    data = _launch(body).view(np.uint8)
    assert data[2:66].tolist() == list(range(64))
    clash = body.replace("v_add_nc_u32_e32 v1, 2, v0", "v_lshrrev_b32_e32 v1, 1, v0\nv_and_b32_e32 v1, 15, v1")
    _fault("race", "global_store_b8", clash)


def test_lanes_of_a_wave_follow_one_another() -> None:
    _launch(OWN + NEXT + "ds_store_b32 v1, v0\nds_load_b32 v2, v3\n" + WAIT + "ds_store_b32 v1, v2\n" + END, lds=256)


def test_atomics_do_not_race() -> None:
    body = POINTERS + "v_mov_b32_e32 v1, 0\nv_mov_b32_e32 v2, 1\nglobal_atomic_add_u32 v1, v2, s[4:5]\n" + WAIT + END
    assert _launch(body, workgroups=4)[0] == 256
    plain = body.replace(WAIT, WAIT + "global_load_b32 v3, v1, s[4:5]\n" + WAIT)
    _fault("race", "global_load_b32", plain, workgroups=4)
    # What an atomic gives back may be the sign that others are done.
    _launch(plain.replace("add_u32 v1, v2, s[4:5]", "add_u32 v3, v1, v2, s[4:5] glc"), workgroups=4)


def test_an_atomic_counter_tells_the_last_workgroup() -> None:
    """Each workgroup stores its part and counts itself; the last one reads all parts."""
    body = (
        POINTERS
        + LEADER
        + "v_lshlrev_b32_e64 v1, 2, s2\nv_mov_b32_e32 v2, 3\nglobal_store_b32 v1, v2, s[4:5] offset:64\n"
        + WAIT
        + "v_mov_b32_e32 v1, 0\nv_mov_b32_e32 v2, 1\n{count}"
        + WAIT
        + "v_cmp_eq_u32_e32 vcc_lo, 2, v3\ns_and_saveexec_b32 s9, vcc_lo\n"
        + "global_load_b96 v[4:6], v1, s[4:5] offset:64\n"
        + WAIT
        + "v_add3_u32 v4, v4, v5, v6\nglobal_store_b32 v1, v4, s[4:5] offset:128\n"
        + WAIT
        + END
    )
    count = "global_atomic_add_u32 v3, v1, v2, s[4:5] glc\n"
    assert _launch(body.format(count=count), workgroups=3, workgroup_size=32)[32] == 9
    _fault("race", "global_load_b96", body.format(count="v_mov_b32_e32 v3, 2\n"), workgroups=3, workgroup_size=32)


# --- memory that nothing wrote


USE = "global_store_b32 v1, v2, s[4:5]\n"


@pytest.mark.parametrize(
    ("body", "instruction"),
    [
        ("ds_load_b32 v2, v1\n" + WAIT + USE, "global_store_b32"),
        ("ds_load_u8 v2, v1 offset:1\n" + WAIT + USE, "global_store_b32"),
        (
            "ds_load_i16 v2, v1\n" + WAIT + "v_cmp_eq_u32_e32 vcc_lo, 0, v2\ns_cbranch_vccnz .Lend\n.Lend:\n",
            "s_cbranch",
        ),
        ("v_mov_b32_e32 v2, 0\nds_load_u16_d16_hi v2, v1\n" + WAIT + USE, "global_store_b32"),
        ("ds_store_b16 v1, v0\nds_load_b32 v2, v1\n" + WAIT + USE, "global_store_b32"),
        ("ds_load_2addr_b32 v[2:3], v1 offset1:1\n" + WAIT + USE, "global_store_b32"),
        ("ds_load_b32 v2, v1\n" + WAIT + "ds_add_u32 v2, v0\n", "ds_add_u32"),
        ("ds_add_u32 v1, v0\n", "ds_add_u32"),
        ("scratch_load_b32 v2, off, off\n" + WAIT + USE, "global_store_b32"),
        (
            "scratch_store_b8 off, v0, off\nscratch_load_b16 v2, off, off\n".replace("_b16", "_u16") + WAIT + USE,
            "global_store",
        ),
    ],
)
def test_a_value_that_nothing_wrote(body: str, instruction: str) -> None:
    record = _fault("uninitialized", instruction, POINTERS + OWN + body + END, lds=512, scratch=16)
    assert record.lane == 0


@pytest.mark.parametrize(
    "body",
    [
        "ds_load_b32 v2, v1\n" + WAIT,
        "ds_load_b64 v[2:3], v1\n" + WAIT,
        "ds_store_b32 v1, v0\nds_load_b32 v2, v1\n" + WAIT + USE,
        "ds_store_b8 v1, v0\nds_load_u8 v2, v1\n" + WAIT + USE,
        "ds_load_b32 v2, v1\n" + WAIT + "v_mul_u32_u24_e32 v3, v2, v2\nv_mov_b32_e32 v2, 5\n" + USE,
        "ds_load_b32 v2, v1\n" + WAIT + "v_and_b32_e32 v2, 0, v2\n" + USE,
        "ds_store_b8 v1, v0\nds_load_b32 v2, v1\n" + WAIT + "v_and_b32_e32 v2, 0xff, v2\n" + USE,
        "scratch_store_b32 off, v0, off\nscratch_load_b32 v2, off, off\n" + WAIT + USE,
        "ds_store_b32 v1, v0\nds_load_b32 v2, v1\n" + WAIT + "ds_add_u32 v1, v0\n" + USE,
    ],
)
def test_values_that_are_written_or_do_not_matter(body: str) -> None:
    _launch(POINTERS + OWN + body + END, lds=512, scratch=16)


def test_what_comes_before_such_a_load_happens_once() -> None:
    """The load is run again by other code; an atomic before it in the same block is not."""
    body = (
        POINTERS
        + OWN
        + "v_mov_b32_e32 v4, 0\nv_mov_b32_e32 v5, 1\nglobal_atomic_add_u32 v4, v5, s[4:5]\n"
        + "ds_load_b32 v2, v1\n"
        + WAIT
        + "global_atomic_add_u32 v4, v5, s[4:5]\n"
        + WAIT
        + END
    )
    assert _launch(body, lds=512)[0] == 128
