"""Programs with one planted fault or none; every verdict is checked, with the place it names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc

from loom_sim import amdgpu

pytestmark = needs_llvm_mc
N = 64


def _launch(body: str, target: str = "gfx1100", buffers: int = 2, **options: Any) -> list[np.ndarray[Any, Any]]:
    launch = {k: options.pop(k) for k in ("strict", "max_steps", "workgroups", "workgroup_size") if k in options}
    value = options.pop("value", 0)
    sizes = options.pop("sizes", [N] * buffers)
    program = amdgpu.load(kernels_object([kernel_text(body, target, buffers=buffers, **options)], target))
    arrays = [np.arange(1, n + 1, dtype=np.uint32) for n in sizes]
    launch.setdefault("workgroup_size", N)
    program.launch("k", arguments=[*arrays, value], **launch)
    return arrays


def _fault(kind: str, body: str, instruction: str, target: str = "gfx1100", **options: Any) -> amdgpu.FaultRecord:
    with pytest.raises(amdgpu.SimulationFault) as caught:
        _launch(body, target, **options)
    record = caught.value.record
    assert record.kind == kind, record
    assert record.kernel == "k"
    assert record.pc is not None
    assert instruction in (record.instruction or ""), record
    return record


LOAD_POINTERS = "s_load_b128 s[4:7], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\n"
LOAD_POINTERS_12 = "s_load_b128 s[4:7], s[0:1], 0x0\ns_wait_kmcnt 0x0\n"
LOAD_POINTERS_9 = "s_load_dwordx4 s[4:7], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\n"
OFFSET = "v_lshlrev_b32_e32 v1, 2, v0\n"
COPY = (
    LOAD_POINTERS
    + OFFSET
    + "global_load_b32 v2, v1, s[4:5]\ns_waitcnt vmcnt(0)\nglobal_store_b32 v1, v2, s[6:7]\ns_endpgm"
)


def test_no_fault() -> None:
    a, b = _launch(COPY)
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("target", "body"),
    [
        (
            "gfx1200",
            LOAD_POINTERS_12 + OFFSET + "global_load_b32 v2, v1, s[4:5]\ns_wait_loadcnt 0x0\n"
            "v_add_nc_u32_e32 v2, 1, v2\nglobal_store_b32 v1, v2, s[6:7]\ns_endpgm",
        ),
        (
            "gfx942",
            LOAD_POINTERS_9 + OFFSET + "global_load_dword v2, v1, s[4:5]\ns_waitcnt vmcnt(0)\n"
            "v_add_u32_e32 v2, 1, v2\nglobal_store_dword v1, v2, s[6:7]\ns_endpgm",
        ),
    ],
)
def test_no_fault_elsewhere(target: str, body: str) -> None:
    a, b = _launch(body, target)
    np.testing.assert_array_equal(a + 1, b)


@pytest.mark.parametrize(
    ("target", "body", "instruction", "counter"),
    [
        ("gfx1100", COPY.replace("s_waitcnt vmcnt(0)\n", ""), "global_store_b32", "vmcnt"),
        ("gfx1100", COPY.replace("vmcnt(0)", "vmcnt(1)"), "global_store_b32", "vmcnt"),
        ("gfx1100", COPY.replace("s_waitcnt lgkmcnt(0)\n", "", 1), "global_load_b32", "lgkmcnt"),
        ("gfx1100", COPY.replace("s_waitcnt vmcnt(0)", "v_mov_b32_e32 v2, 0"), "v_mov_b32", "vmcnt"),
        (
            "gfx1100",
            OFFSET
            + "v_mov_b32_e32 v2, v1\nds_store_b32 v1, v2\nds_load_b32 v3, v1\nv_add_nc_u32_e32 v3, v3, v3\ns_endpgm",
            "v_add_nc_u32",
            "lgkmcnt",
        ),
        (
            "gfx1200",
            LOAD_POINTERS_12 + OFFSET + "global_load_b32 v2, v1, s[4:5]\ns_wait_dscnt 0x0\n"
            "global_store_b32 v1, v2, s[6:7]\ns_endpgm",
            "global_store_b32",
            "loadcnt",
        ),
        (
            "gfx1200",
            "s_load_b128 s[4:7], s[0:1], 0x0\ns_wait_loadcnt 0x0\ns_add_co_u32 s4, s4, 1\ns_endpgm",
            "s_add_co_u32",
            "kmcnt",
        ),
        (
            "gfx942",
            LOAD_POINTERS_9 + OFFSET + "global_load_dword v2, v1, s[4:5]\ns_waitcnt lgkmcnt(0)\n"
            "v_add_u32_e32 v2, 1, v2\ns_endpgm",
            "v_add_u32",
            "vmcnt",
        ),
    ],
)
def test_missing_wait(target: str, body: str, instruction: str, counter: str) -> None:
    record = _fault("missing_wait", body, instruction, target, lds=512)
    assert counter in record.message


@pytest.mark.parametrize("count", [0, 1])
def test_counted_wait_covers_the_older_load(count: int) -> None:
    body = (
        LOAD_POINTERS
        + OFFSET
        + (
            "global_load_b32 v2, v1, s[4:5]\nglobal_load_b32 v3, v1, s[6:7]\n"
            f"s_waitcnt vmcnt({count})\nv_add_nc_u32_e32 v4, v2, v2\ns_waitcnt vmcnt(0)\ns_endpgm"
        )
    )
    _launch(body)


def test_wait_for_stores_does_not_cover_loads() -> None:
    body = COPY.replace("s_waitcnt vmcnt(0)", "s_waitcnt_vscnt null, 0x0")
    _fault("missing_wait", body, "global_store_b32")


def test_scalar_loads_need_a_full_wait() -> None:
    body = "s_load_b64 s[4:5], s[0:1], 0x0\ns_load_b64 s[6:7], s[0:1], 0x8\ns_waitcnt lgkmcnt(1)\ns_mov_b32 s8, s4\ns_endpgm"
    _fault("missing_wait", body, "s_mov_b32")


def test_missing_wait_on_one_path_only() -> None:
    body = (
        LOAD_POINTERS
        + OFFSET
        + (
            "global_load_b32 v2, v1, s[4:5]\ns_cmp_eq_u32 s2, 0\ns_cbranch_scc1 .Lskip\ns_waitcnt vmcnt(0)\n.Lskip:\n"
            "global_store_b32 v1, v2, s[6:7]\ns_endpgm"
        )
    )
    _fault("missing_wait", body, "global_store_b32", workgroups=2)


def test_missing_wait_is_seen_around_a_loop() -> None:
    body = (
        LOAD_POINTERS
        + OFFSET
        + (
            "v_mov_b32_e32 v2, 0\ns_mov_b32 s8, 3\n.Lloop:\nv_add_nc_u32_e32 v3, 1, v2\nglobal_load_b32 v2, v1, s[4:5]\n"
            "s_sub_i32 s8, s8, 1\ns_cmp_lg_u32 s8, 0\ns_cbranch_scc1 .Lloop\ns_endpgm"
        )
    )
    _fault("missing_wait", body, "v_add_nc_u32")


@pytest.mark.parametrize(
    ("extra", "sizes"), [(0, [N - 1, N]), (0, [N, N - 1]), (4, [N, N]), (-4, [N, N]), (0x7FC, [N, N])]
)
def test_out_of_bounds(extra: int, sizes: list[int]) -> None:
    body = COPY.replace("s[4:5]\n", f"s[4:5] offset:{extra}\n")
    record = _fault("out_of_bounds", body, "global_", sizes=sizes)
    assert record.lane is not None
    assert record.address is not None
    assert record.workgroup == (0, 0, 0)


def test_out_of_bounds_names_the_lane() -> None:
    record = _fault("out_of_bounds", COPY, "global_load_b32", sizes=[50, N])
    assert (record.wave, record.lane) == (1, 50 - 32)
    assert "argument 0" in record.message


def test_inactive_lanes_do_not_fault() -> None:
    body = (
        LOAD_POINTERS
        + OFFSET
        + (
            "v_cmp_gt_u32_e32 vcc_lo, 50, v0\ns_and_saveexec_b32 s8, vcc_lo\nglobal_load_b32 v2, v1, s[4:5]\n"
            "s_waitcnt vmcnt(0)\nglobal_store_b32 v1, v2, s[6:7]\ns_endpgm"
        )
    )
    a, b = _launch(body, sizes=[50, 50])
    np.testing.assert_array_equal(a, b)


def test_null_pointer() -> None:
    body = OFFSET + "s_mov_b64 s[4:5], 0\nglobal_load_b32 v2, v1, s[4:5]\ns_endpgm"
    _fault("out_of_bounds", body, "global_load_b32")


def test_write_to_read_only_memory() -> None:
    body = OFFSET + "v_mov_b32_e32 v2, 0\nglobal_store_b32 v1, v2, s[0:1]\ns_endpgm"
    record = _fault("out_of_bounds", body, "global_store_b32", workgroup_size=1)
    assert "read-only" in record.message


def test_negative_offset_from_a_scalar_base() -> None:
    body = COPY.replace(OFFSET, OFFSET + "v_sub_nc_u32_e32 v1, v1, v1\nv_subrev_nc_u32_e32 v1, 4, v1\n")
    _fault("out_of_bounds", body, "global_load_b32")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("ds_load_b32 v2, v1\ns_waitcnt lgkmcnt(0)\ns_endpgm", None),
        ("ds_load_b32 v2, v1 offset:4\ns_waitcnt lgkmcnt(0)\ns_endpgm", "ds_load_b32"),
        ("v_mov_b32_e32 v2, 0\nds_store_b32 v1, v2 offset:256\ns_endpgm", "ds_store_b32"),
        ("ds_load_b64 v[2:3], v1\ns_waitcnt lgkmcnt(0)\ns_endpgm", "ds_load_b64"),
    ],
)
def test_lds_range(body: str, fault: str | None) -> None:
    if fault is None:
        _launch(OFFSET + body, lds=4 * N)
    else:
        _fault("lds_out_of_range", OFFSET + body, fault, lds=4 * N)


@pytest.mark.parametrize(("offset", "faulty"), [(12, False), (13, True), (16, True)])
def test_scratch_range(offset: int, faulty: bool) -> None:
    body = f"v_mov_b32_e32 v2, 0\nscratch_store_b32 off, v2, off offset:{offset}\ns_endpgm"
    if faulty:
        _fault("scratch_out_of_range", body, "scratch_store_b32", scratch=16)
    else:
        _launch(body, scratch=16)


def test_misaligned_atomic() -> None:
    body = LOAD_POINTERS + "v_mov_b32_e32 v1, 2\nv_mov_b32_e32 v2, 1\nglobal_atomic_add_u32 v1, v2, s[4:5]\ns_endpgm"
    _fault("misaligned", body, "global_atomic_add_u32")


def test_misaligned_scalar_load() -> None:
    body = LOAD_POINTERS + "s_add_u32 s4, s4, 2\ns_load_b32 s8, s[4:5], 0x0\ns_endpgm"
    _fault("misaligned", body, "s_load_b32")


@pytest.mark.parametrize(
    ("body", "instruction"),
    [
        (LOAD_POINTERS + OFFSET + "global_store_b32 v1, v9, s[6:7]\ns_endpgm", "global_store_b32"),
        (LOAD_POINTERS + "global_load_b32 v2, v9, s[4:5]\ns_endpgm", "global_load_b32"),
        (
            LOAD_POINTERS + OFFSET + "v_add_nc_u32_e32 v2, v0, v9\nglobal_store_b32 v1, v2, s[6:7]\ns_endpgm",
            "global_store_b32",
        ),
        ("s_cmp_eq_u32 s20, 0\ns_cbranch_scc1 .Lend\n.Lend:\ns_endpgm", "s_cbranch_scc1"),
        ("v_cmp_eq_u32_e32 vcc_lo, 0, v9\ns_and_saveexec_b32 s8, vcc_lo\ns_endpgm", "s_and_saveexec_b32"),
        ("v_cmpx_eq_u32_e32 0, v9\ns_endpgm", "v_cmpx_eq_u32"),
        ("ds_load_b32 v2, v9\ns_endpgm", "ds_load_b32"),
        ("s_load_b32 s4, s[20:21], 0x0\ns_endpgm", "s_load_b32"),
        # Only half of the lanes were written.
        (
            LOAD_POINTERS + OFFSET + "s_mov_b32 s8, exec_lo\ns_mov_b32 exec_lo, 0xffff\nv_mov_b32_e32 v2, 1\n"
            "s_mov_b32 exec_lo, s8\nglobal_store_b32 v1, v2, s[6:7]\ns_endpgm",
            "global_store_b32",
        ),
    ],
)
def test_undefined_register(body: str, instruction: str) -> None:
    _fault("uninitialized", body, instruction, lds=256)


@pytest.mark.parametrize(
    "body",
    [
        # Undefined bits that do not reach anything.
        LOAD_POINTERS + OFFSET + "v_and_b32_e32 v2, 0, v9\nglobal_store_b32 v1, v2, s[6:7]\ns_endpgm",
        LOAD_POINTERS
        + OFFSET
        + "v_mad_u64_u32 v[2:3], null, v0, v0, v[0:1]\nglobal_store_b32 v1, v2, s[6:7]\ns_endpgm",
        LOAD_POINTERS + OFFSET + "v_lshl_or_b32 v2, v9, 16, 5\nglobal_store_b16 v1, v2, s[6:7]\ns_endpgm",
        # Written under a mask, stored under the same mask.
        LOAD_POINTERS
        + OFFSET
        + "s_mov_b32 exec_lo, 0xffff\nv_mov_b32_e32 v2, 1\nglobal_store_b32 v1, v2, s[6:7]\ns_endpgm",
        "v_writelane_b32 v9, s0, 3\nv_readlane_b32 s4, v9, 3\ns_cmp_eq_u32 s4, 0\ns_cbranch_scc1 .Lend\n.Lend:\ns_endpgm",
    ],
)
def test_harmless_undefined_register(body: str) -> None:
    _launch(body)


BARRIER_LDS = "v_mov_b32_e32 v2, 7\nds_store_b32 v1, v2\ns_waitcnt lgkmcnt(0)\n"


def test_barrier() -> None:
    _launch(OFFSET + BARRIER_LDS + "s_barrier\nds_load_b32 v3, v1\ns_waitcnt lgkmcnt(0)\ns_endpgm", lds=4 * N)


def test_barrier_skipped_by_a_wave() -> None:
    # Wave 1 (work-items 32 and up) jumps over the barrier.
    body = "v_cmp_gt_u32_e32 vcc_lo, 32, v0\ns_and_saveexec_b32 s8, vcc_lo\ns_cbranch_execz .Lend\ns_barrier\n.Lend:\ns_endpgm"
    record = _fault("barrier_divergence", body, "s_barrier")
    assert record.wave == 0


def test_different_barriers() -> None:
    body = "v_cmp_gt_u32_e32 vcc_lo, 32, v0\ns_cbranch_vccz .Lother\ns_barrier\ns_endpgm\n.Lother:\ns_nop 0\ns_barrier\ns_endpgm"
    _fault("barrier_divergence", body, "s_barrier")


def test_skipped_barrier_is_allowed_without_strict() -> None:
    body = "v_cmp_gt_u32_e32 vcc_lo, 32, v0\ns_cbranch_vccz .Lend\ns_barrier\n.Lend:\ns_endpgm"
    _launch(body, strict=False)


def test_endless_loop() -> None:
    record = _fault("step_budget", ".Lagain:\ns_branch .Lagain\ns_endpgm", "s_branch", max_steps=5000)
    assert "5000" in record.message


def test_endless_wait_for_another_wave_ends_with_the_step_budget() -> None:
    body = LOAD_POINTERS + (
        "v_mov_b32_e32 v1, 0\n.Lspin:\nglobal_load_b32 v2, v1, s[4:5]\ns_waitcnt vmcnt(0)\nv_cmp_ne_u32_e32 vcc_lo, 77, v2\n"
        "s_cbranch_vccnz .Lspin\ns_endpgm"
    )
    _fault("step_budget", body, "", max_steps=5000)


def test_spinning_wave_is_released_by_another() -> None:
    # Wave 1 spins until wave 0, whose code comes later, has written the flag.
    body = LOAD_POINTERS + (
        "v_mov_b32_e32 v1, 0\nv_cmp_gt_u32_e32 vcc_lo, 32, v0\ns_cbranch_vccnz .Lwriter\n.Lspin:\n"
        "global_load_b32 v2, v1, s[4:5] glc\ns_waitcnt vmcnt(0)\nv_cmp_ne_u32_e32 vcc_lo, 77, v2\ns_cbranch_vccnz .Lspin\n"
        "s_endpgm\n.Lwriter:\nv_mov_b32_e32 v2, 77\nglobal_store_b32 v1, v2, s[4:5]\ns_endpgm"
    )
    a, _ = _launch(body, max_steps=100_000)
    assert a[0] == 77


def test_register_beyond_the_allocation() -> None:
    record = _fault("out_of_bounds", "v_mov_b32_e32 v40, 0\ns_endpgm", "v_mov_b32", vgprs=8)
    assert "v40" in record.message


def test_running_off_the_code() -> None:
    with pytest.raises(amdgpu.SimulationFault) as caught:
        _launch("s_mov_b64 s[4:5], 0\ns_setpc_b64 s[4:5]\ns_endpgm")
    assert caught.value.record.kind == "invalid_pc"


def test_trap() -> None:
    _fault("trap", "s_trap 2\ns_endpgm", "s_trap")


def test_unsupported_instruction_comes_after_what_precedes_it() -> None:
    body = COPY.replace("s_endpgm", "s_waitcnt vmcnt(0)\nds_ordered_count v3, v2 gds\ns_endpgm")
    program = amdgpu.load(kernels_object([kernel_text(body, "gfx1100", buffers=2)], "gfx1100"))
    a, b = np.arange(N, dtype=np.uint32), np.zeros(N, np.uint32)
    with pytest.raises(amdgpu.UnsupportedInstruction) as caught:
        program.launch("k", 1, N, [a, b, 0])
    assert "ds_ordered_count" in str(caught.value)
    np.testing.assert_array_equal(a, b)


def test_undecodable_bytes() -> None:
    with pytest.raises(amdgpu.SimulationFault) as caught:
        _launch(".long 0xffffffff\ns_endpgm")
    assert caught.value.record.kind == "illegal_instruction"
    assert "ffffffff" in caught.value.record.message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "takes 2 arguments"),
        ([np.zeros(4, np.uint32), 1 << 32], "does not fit"),
        ([3, 1], "NumPy array"),
        ([np.zeros(4, np.uint32), 1.5j], "cannot be passed"),
        ([np.zeros(4, np.uint32), np.float64(1)], "8 bytes"),
    ],
)
def test_bad_arguments(arguments: list[Any], message: str) -> None:
    program = amdgpu.load(kernels_object([kernel_text("s_endpgm", "gfx1100")], "gfx1100"))
    with pytest.raises(amdgpu.LaunchError, match=message):
        program.launch("k", 1, 32, arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workgroup_size": 2048}, "above the limit"),
        ({"workgroups": 0}, "positive"),
        ({"workgroups": (1, 1, 1, 1)}, "one to three"),
        ({"dynamic_lds": 1 << 20}, "LDS"),
    ],
)
def test_bad_shapes(options: dict[str, Any], message: str) -> None:
    program = amdgpu.load(kernels_object([kernel_text("s_endpgm", "gfx1100")], "gfx1100"))
    with pytest.raises(amdgpu.LaunchError, match=message):
        program.launch("k", arguments=[None, 0], **options)


def test_unknown_kernel_and_processor() -> None:
    data = kernels_object([kernel_text("s_endpgm", "gfx1100")], "gfx1100")
    with pytest.raises(amdgpu.LaunchError, match="it has: k"):
        amdgpu.load(data).launch("missing")
    with pytest.raises(amdgpu.LoadError, match="does not run on gfx1200"):
        amdgpu.load(data, "gfx1200")
    with pytest.raises(amdgpu.LoadError, match="unknown"):
        amdgpu.load(data, "gfx11oo")
    with pytest.raises(amdgpu.LoadError):
        amdgpu.load(data[:100])


def test_arrays_that_are_not_contiguous_are_copied_back() -> None:
    program = amdgpu.load(kernels_object([kernel_text(COPY, "gfx1100", buffers=2)], "gfx1100"))
    a, b = np.arange(2 * N, dtype=np.uint32)[::2], np.zeros((N, 3), np.uint32)[:, 1]
    program.launch("k", 1, N, [a, b, 0])
    np.testing.assert_array_equal(a, b)
