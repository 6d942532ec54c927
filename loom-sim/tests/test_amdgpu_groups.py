"""Kernels whose work-items communicate, compiled by clang, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amdgpu_compile import KERNELS, configurations, gpu_object, needs_clang

from loom_sim import amdgpu

pytestmark = needs_clang
SOURCE = KERNELS / "groups.c"
GROUPS, SIZE = 5, 128
Array = np.ndarray[Any, Any]

CONFIGURATIONS = [
    pytest.param(target, optimize, flags, id="-".join((target, "O" + optimize, *flags)))
    for target, optimize, flags in (
        *(
            (*pair, ())
            for pair in configurations(
                ("gfx942", "0"), ("gfx942", "3"), ("gfx1100", "0"), ("gfx1100", "2"), ("gfx1200", "0"), ("gfx1200", "3")
            )
        ),
        ("gfx1100", "3", ("-mwavefrontsize64",)),
    )
]
each_configuration = pytest.mark.parametrize(("target", "optimize", "flags"), CONFIGURATIONS)


def _wave(target: str, flags: tuple[str, ...]) -> int:
    return 64 if target == "gfx942" or flags else 32


def _run(config: tuple[str, str, tuple[str, ...]], name: str, arguments: list[Any], **options: Any) -> Any:
    target, optimize, flags = config
    program = amdgpu.load(gpu_object(SOURCE, target, optimize, *flags))
    workgroups = options.pop("workgroups", GROUPS)
    return program.launch(name, workgroups, options.pop("workgroup_size", SIZE), arguments, **options)


def _data(kind: str = "i4", seed: int = 7) -> Array:
    rng = np.random.default_rng(seed)
    if kind == "f4":
        return rng.standard_normal(GROUPS * SIZE).astype("f4")
    return rng.integers(-1000, 1000, GROUPS * SIZE).astype(kind)


@each_configuration
def test_reduction_with_barriers(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    a, o = _data("f4"), np.zeros(GROUPS, "f4")
    _run((target, optimize, flags), "reduce", [a, o])
    t = a.reshape(GROUPS, SIZE)
    while t.shape[1] > 1:
        half = t.shape[1] // 2
        t = t[:, :half] + t[:, half:]
    np.testing.assert_array_equal(o, t[:, 0])


@each_configuration
def test_scan(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    a, o = _data(), np.zeros(GROUPS * SIZE, "i4")
    _run((target, optimize, flags), "scan", [a, o])
    np.testing.assert_array_equal(o.reshape(GROUPS, SIZE), a.reshape(GROUPS, SIZE).cumsum(axis=1))


@each_configuration
def test_transpose(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    a, o = _data(), np.zeros(GROUPS * SIZE, "i4")
    _run((target, optimize, flags), "transpose", [a, o])
    np.testing.assert_array_equal(o.reshape(GROUPS, 16, 8), a.reshape(GROUPS, 8, 16).transpose(0, 2, 1))


@each_configuration
def test_matmul(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    n = 32
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-50, 50, (n, n)).astype("f4") for _ in range(2))
    o = np.zeros((n, n), "f4")
    _run((target, optimize, flags), "matmul", [a, b, o, n], workgroups=n * n // SIZE)
    np.testing.assert_array_equal(o, a @ b)


@each_configuration
def test_histogram(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    a, o = _data("u4"), np.zeros(32, "u4")
    _run((target, optimize, flags), "histogram", [a, o])
    np.testing.assert_array_equal(o, np.bincount(a & 31, minlength=32))


@each_configuration
def test_tickets_are_unique(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    counter, o = np.zeros(1, "u4"), np.full(GROUPS * SIZE, 0xFFFFFFFF, "u4")
    _run((target, optimize, flags), "tickets", [counter, o])
    assert counter[0] == GROUPS * SIZE
    np.testing.assert_array_equal(np.sort(o), np.arange(GROUPS * SIZE))


@each_configuration
def test_atomic_operations(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    a = _data()
    o, w = np.array([0, 0, 0, 0, -1, 9], "i4"), np.zeros(2, "u8")
    _run((target, optimize, flags), "atomics", [a, o, w])
    u = a.view("u4")
    expected = [
        a.min(),
        a.max(),
        np.bitwise_xor.reduce(a),
        np.bitwise_or.reduce(a),
        np.bitwise_and.reduce(a),
        9 - a.sum(),
    ]
    np.testing.assert_array_equal(o, np.array(expected, "i4"))
    np.testing.assert_array_equal(w, [u.astype("u8").sum(), u.astype("u8").max() * 3])


@each_configuration
def test_compare_and_swap_loop(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    a, o = _data("u4"), np.zeros(1, "u4")
    _run((target, optimize, flags), "swap_loop", [a, o])
    assert o[0] == min(10000, int((a & 255).sum()))


@each_configuration
def test_first_lane(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    a, o = _data(), np.zeros(GROUPS * SIZE, "i4")
    _run((target, optimize, flags), "first_lane", [a, o])
    rows = a.reshape(-1, _wave(target, flags))
    odd = rows & 1 == 1
    first = rows[np.arange(len(rows)), odd.argmax(axis=1)][:, None]
    np.testing.assert_array_equal(o.reshape(rows.shape), np.where(odd, first, -1))


@each_configuration
def test_read_lane(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    a, o = _data(), np.zeros(GROUPS * SIZE, "i4")
    _run((target, optimize, flags), "read_lane", [a, o])
    rows = a.reshape(GROUPS, -1, _wave(target, flags))
    expected = rows[:, :, 7:8] - rows[np.arange(GROUPS), :, np.arange(GROUPS)][:, :, None]
    np.testing.assert_array_equal(o.reshape(rows.shape), np.broadcast_to(expected, rows.shape))


@each_configuration
def test_lane_shuffles(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    a, o = _data(), np.zeros(2 * GROUPS * SIZE, "i4")
    _run((target, optimize, flags), "shuffle", [a, o])
    rows = a.reshape(-1, 32)
    pulled, pushed = o.reshape(-1, 32, 2)[..., 0], o.reshape(-1, 32, 2)[..., 1]
    np.testing.assert_array_equal(pulled, rows[:, np.arange(32) ^ 5])
    if target != "gfx942":  # there the low half of the wave receives from both halves
        np.testing.assert_array_equal(pushed, np.roll(rows, 3, axis=1))
    else:
        np.testing.assert_array_equal(pushed[::2], np.roll(rows[1::2], 3, axis=1))
        assert not pushed[1::2].any()


@each_configuration
def test_swizzle(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    a, o = _data(), np.zeros(2 * GROUPS * SIZE, "i4")
    _run((target, optimize, flags), "swizzle", [a, o])
    quads = a.reshape(-1, 4)
    np.testing.assert_array_equal(o[0::2].reshape(-1, 4), quads[:, [1, 0, 3, 2]])
    np.testing.assert_array_equal(o[1::2].reshape(-1, 4), quads[:, [1, 2, 3, 0]])


@each_configuration
def test_dpp(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    a, o = _data(), np.zeros(4 * GROUPS * SIZE, "i4")
    _run((target, optimize, flags), "dpp", [a, o])
    rows, got = a.reshape(-1, 16), o.reshape(-1, 16, 4)
    shifted = np.full_like(rows, -1)
    shifted[:, 1:] = rows[:, :-1]
    np.testing.assert_array_equal(got[..., 0], shifted)
    shifted = np.zeros_like(rows)
    shifted[:, :-2] = rows[:, 2:]
    np.testing.assert_array_equal(got[..., 1], shifted)
    np.testing.assert_array_equal(got[..., 2], rows.reshape(-1, 4)[:, ::-1].reshape(rows.shape))
    rotated = np.roll(rows, 4, axis=1)
    rotated[1::2] = -1
    np.testing.assert_array_equal(got[..., 3], rotated)


@each_configuration
def test_ballot_and_prefix_count(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    a, o = _data(), np.zeros(GROUPS * SIZE, "i4")
    _run((target, optimize, flags), "ballot", [a, o])
    positive = (a > 0).reshape(-1, _wave(target, flags)).astype(int)
    before = positive.cumsum(axis=1) - positive
    np.testing.assert_array_equal(o.reshape(positive.shape), positive.sum(axis=1, keepdims=True) * 100 + before)


@each_configuration
def test_early_exit_and_uneven_loops(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    a, o = _data(), np.zeros(GROUPS * SIZE, "i4")
    _run((target, optimize, flags), "block_sum", [a, o])
    expected = a.reshape(GROUPS, SIZE).cumsum(axis=1)
    expected[:, 64:] = -1
    np.testing.assert_array_equal(o.reshape(GROUPS, SIZE), expected)


@each_configuration
def test_three_dimensions(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    o = np.full((6, 8, 24), -1, "i4")
    _run((target, optimize, flags), "dims", [o, 24], workgroups=(3, 2, 2), workgroup_size=(8, 4, 3))
    z, y, x = np.indices(o.shape)
    np.testing.assert_array_equal(o, x + 100 * y + 10000 * z)


@each_configuration
def test_hidden_arguments_and_dispatch_packet(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    o = np.zeros(GROUPS * SIZE, "i4")
    _run((target, optimize, flags), "hidden", [o])
    assert (o == GROUPS * 1000 + SIZE).all()
    _run((target, optimize, flags), "packet", [o])
    assert (o == SIZE + GROUPS * SIZE * 1000).all()


@each_configuration
def test_generic_pointers_to_lds_and_scratch(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    a, o = np.abs(_data()), np.zeros(GROUPS * SIZE, "i4")
    _run((target, optimize, flags), "generic_pointer", [a, o])
    rows = a.reshape(GROUPS, SIZE)
    lane = np.arange(SIZE)
    index = lane + rows
    private = np.take_along_axis(rows, index & 7, axis=1) + lane
    np.testing.assert_array_equal(o.reshape(GROUPS, SIZE), np.where(index & 1, private, (index & 7) * 11))


@each_configuration
def test_dynamic_lds(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    a, o = _data(), np.zeros(GROUPS * SIZE, "i4")
    _run((target, optimize, flags), "dynamic_lds", [a, None, o], dynamic_lds=4 * SIZE)
    np.testing.assert_array_equal(o.reshape(GROUPS, SIZE), a.reshape(GROUPS, SIZE)[:, ::-1])


@each_configuration
def test_float_atomic_add(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    a, o = _data().astype("f4"), np.zeros(GROUPS, "f4")
    _run((target, optimize, flags), "float_atomic", [a, o])
    np.testing.assert_array_equal(o, a.reshape(GROUPS, SIZE).sum(axis=1))


@each_configuration
def test_bytes_and_shorts_in_lds(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    rng = np.random.default_rng(23)
    a = rng.integers(0, 256, GROUPS * SIZE, dtype="u1")
    b = rng.integers(0, 65536, GROUPS * SIZE, dtype="u2")
    o = np.zeros(GROUPS * SIZE, "i4")
    _run((target, optimize, flags), "small_lds", [a, b, o])
    rows, shorts = a.reshape(GROUPS, SIZE).astype("i4"), b.reshape(GROUPS, SIZE).astype("i4")
    before = np.concatenate((np.full((GROUPS, 1), 7), shorts[:, :-1]), axis=1)
    signed = a.view("i1").reshape(GROUPS, SIZE)[:, ::-1].astype("i4")
    expected = rows[:, np.arange(SIZE) ^ 1] * 1000 + before
    expected += (b.view("i2").reshape(GROUPS, SIZE) >> 4).astype("i4") - signed
    np.testing.assert_array_equal(o.reshape(GROUPS, SIZE), expected)


@each_configuration
def test_lds_atomic_operations(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    a = _data()
    o, w = np.zeros((GROUPS, 6), "i4"), np.zeros((GROUPS, 2), "u8")
    _run((target, optimize, flags), "lds_atomics", [a, o, w])
    rows = a.reshape(GROUPS, SIZE)
    wide = rows.view("u4").astype("u8")
    expected = [
        np.minimum(rows.min(axis=1), 0),
        np.maximum(rows.max(axis=1), 0),
        np.bitwise_xor.reduce(rows, axis=1),
        np.bitwise_or.reduce(rows, axis=1),
        np.bitwise_and.reduce(rows, axis=1),
        -rows.sum(axis=1),
    ]
    np.testing.assert_array_equal(o, np.stack(expected, axis=1))
    np.testing.assert_array_equal(w, np.stack((wide.sum(axis=1), wide.max(axis=1) * 3), axis=1))


@each_configuration
def test_exchange(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    slot, o = np.zeros(1, "i4"), np.full(GROUPS * SIZE, -1, "i4")
    _run((target, optimize, flags), "exchange", [slot, o])
    np.testing.assert_array_equal(np.sort(np.append(o, slot)), np.arange(GROUPS * SIZE + 1))


@each_configuration
def test_butterfly_sum(target: str, optimize: str, flags: tuple[str, ...]) -> None:
    a, o = _data(), np.zeros(GROUPS * SIZE, "i4")
    _run((target, optimize, flags), "butterfly", [a, o])
    rows = a.reshape(-1, 32)
    np.testing.assert_array_equal(o.reshape(rows.shape), np.broadcast_to(rows.sum(axis=1, keepdims=True), rows.shape))
