"""Kernels: work-items, geometry, uniform code, scratch storage, control flow, views of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from x86_programs import RUNNER_IDS, RUNNERS, Runner

from loom import api
from loom.evaluate.device import ReferenceDevice
from loom.evaluate.numeric import FORMATS

all_runners = pytest.mark.parametrize("runner", RUNNERS, ids=RUNNER_IDS, indirect=True)


def agree(
    runner: Runner, text: str, arguments: Sequence[Any], workload: Sequence[int] = (), name: str = "k"
) -> list[Any]:
    """Launch on the reference evaluator and on the runner's device; returns the arguments afterwards."""
    module = api.load_bytes(text.encode(), "test.loom")
    kernel = module.symbols()[name]
    want = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    got = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    ReferenceDevice({}).launch(module, kernel, workload, want)
    runner.device().launch(module, kernel, workload, got)
    for number, (a, b) in enumerate(zip(got, want, strict=True)):
        if isinstance(b, np.ndarray):
            np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8), f"argument {number}")
    return got


COORDINATES = """
kernel.def export("k") @k(%gx: index, %gy: index, %gz: index, %sx: index, %sy: index, %sz: index) {{
{config}
}} launch(%out: buffer, %total: index) {{
  %origin = index.constant 0 : offset
  %view = buffer.view %out[%origin] : buffer -> view<[%total]x15xi32>
  %zero = index.constant 0 : index
  %ax = kernel.workitem.dispatch.id<x> : index
  %ay = kernel.workitem.dispatch.id<y> : index
  %az = kernel.workitem.dispatch.id<z> : index
  %nx = kernel.workgroup.count<x> : index
  %ny = kernel.workgroup.count<y> : index
  %wx = kernel.workgroup.size<x> : index
  %wy = kernel.workgroup.size<y> : index
  %fx = index.mul %nx, %wx : index
  %fy = index.mul %ny, %wy : index
  %row = index.madd %az, %fy, %ay : index
  %at = index.madd %row, %fx, %ax : index
{stores}
  kernel.return
}}
"""


def coordinate_program(config: str) -> str:
    queries = ("workitem.id", "workgroup.id", "workgroup.size", "workgroup.count", "workitem.dispatch.id")
    stores = []
    for q, query in enumerate(queries):
        for a, axis in enumerate("xyz"):
            stores.append(f"  %q{q}{a} = kernel.{query}<{axis}> : index")
            stores.append(f"  %c{q}{a} = index.cast %q{q}{a} : index to i32")
            stores.append(f"  view.store %c{q}{a}, %view[%at, {3 * q + a}] : i32, view<[%total]x15xi32>")
    return COORDINATES.format(config=config, stores="\n".join(stores))


DYNAMIC = "  kernel.launch.config workgroups(%gx, %gy, %gz) workgroup_size(%sx, %sy, %sz) : index"


def static(sizes: Sequence[int]) -> str:
    lines = [f"  %w{a} = index.constant {size} : index" for a, size in zip("xyz", sizes, strict=True)]
    return "\n".join([*lines, "  kernel.launch.config workgroups(%gx, %gy, %gz) workgroup_size(%wx, %wy, %wz) : index"])


@pytest.mark.parametrize("groups", [(1, 1, 1), (3, 2, 2)])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (4, 1, 1), (1, 3, 1), (1, 1, 2), (3, 2, 2)])
@pytest.mark.parametrize("fixed", [True, False], ids=["static", "dynamic"])
@all_runners
def test_coordinates(runner: Runner, fixed: bool, sizes: tuple[int, ...], groups: tuple[int, ...]) -> None:
    """Every work-item sees its place, whether the extents are known to the compiler or only at launch."""
    total = int(np.prod(sizes) * np.prod(groups))
    out = np.full((total, 15), -1, np.int32)
    text = coordinate_program(static(sizes) if fixed else DYNAMIC)
    (out, _) = agree(runner, text, [out, total], [*groups, *sizes])
    assert (out >= 0).all()


@all_runners
def test_workgroups_larger_than_any_gpu_allows(runner: Runner) -> None:
    text = """
kernel.def export("k") @k() {
  %one = index.constant 1 : index
  %many = index.constant 5000 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%many, %one, %one) : index
} launch(%out: buffer) {
  %origin = index.constant 0 : offset
  %limit = index.constant 4000 : index
  %view = buffer.view %out[%origin] : buffer -> view<5000xi32>
  %i = kernel.workitem.id<x> : index
  %small = index.cmp ult, %i, %limit : index
  %value = scalar.extui %small : i1 to i32
  view.store %value, %view[%i] : i32, view<5000xi32>
  kernel.return
}
"""
    module = api.load_bytes(text.encode(), "test.loom")
    device = runner.device()
    out = np.full(5000, -1, np.int32)
    device.launch(module, module.symbols()["k"], [], [out])
    np.testing.assert_array_equal(out, np.arange(5000) < 4000)


@all_runners
def test_a_launch_without_workgroups_does_nothing(runner: Runner) -> None:
    out = np.full((1, 15), -1, np.int32)
    text = coordinate_program(DYNAMIC)
    for groups in ((0, 1, 1), (1, 0, 1), (1, 1, 0)):
        (result, _) = agree(runner, text, [out, 1], [*groups, 1, 1, 1])
        assert (result == -1).all()


def simple(body: str, parameters: str, groups: int = 2, size: int = 4) -> str:
    return f"""
kernel.def export("k") @k() {{
  %one = index.constant 1 : index
  %groups = index.constant {groups} : index
  %size = index.constant {size} : index
  kernel.launch.config workgroups(%groups, %one, %one) workgroup_size(%size, %one, %one) : index
}} launch({parameters}) {{
  %origin = index.constant 0 : offset
  %i = kernel.workitem.dispatch.id<x> : index
{body}
}}
"""


@all_runners
def test_arguments_of_every_type(runner: Runner) -> None:
    types = ("i1", "i8", "i16", "i32", "i64", "index", "offset", "f32", "f64")
    values = [True, -5, -300, 1 << 30, -(1 << 60), 12345678901, 4096, 1.5, -2.25]
    dtypes = (np.bool_, np.int8, np.int16, np.int32, np.int64, np.int64, np.int64, np.float32, np.float64)
    parameters = ", ".join([f"%a{n}: {t}" for n, t in enumerate(types)] + [f"%o{n}: buffer" for n in range(len(types))])
    body = "\n".join(
        f"  %v{n} = buffer.view %o{n}[%origin] : buffer -> view<8x{t}>\n  view.store %a{n}, %v{n}[%i] : {t}, view<8x{t}>"
        for n, t in enumerate(types)
    )
    arrays = [np.zeros(8, dtype) for dtype in dtypes]
    result = agree(runner, simple(body + "\n  kernel.return", parameters), [*values, *arrays])
    for value, array in zip(values, result[len(values) :], strict=True):
        assert (array == value).all()


@all_runners
def test_view_arguments_take_their_shape_from_other_arguments(runner: Runner) -> None:
    body = """
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %none = scalar.constant 0 : i32
  %sum = scf.for %c = [%zero to %cols step %one](%s = %none : i32) -> (i32) {
    %e = view.load %in[%i, %c] : view<8x[%cols]xi32> -> i32
    %n = scalar.addi %s, %e : i32
    scf.yield %n : i32
  }
  view.store %sum, %out[%i] : i32, view<8xi32>
  kernel.return"""
    text = simple(body, "%in: view<8x[%cols]xi32>, %out: view<8xi32>, %cols: index")
    data = np.arange(40, dtype=np.int32).reshape(8, 5)
    (_, out, _) = agree(runner, text, [data, np.zeros(8, np.int32), 5])
    np.testing.assert_array_equal(out, data.sum(1))


@all_runners
def test_branches_return_early_and_merge(runner: Runner) -> None:
    body = """
  %view = buffer.view %out[%origin] : buffer -> view<8xi64>
  %three = index.constant 3 : index
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %early = index.cmp eq, %i, %three : index
  cfg.cond_br %early, ^leave, ^start
^leave:
  kernel.return
^start:
  %none = scalar.constant 0 : i64
  cfg.br ^head(%zero: index, %none: i64)
^head(%k: index, %sum: i64):
  %more = index.cmp sle, %k, %i : index
  cfg.cond_br %more, ^body, ^done
^body:
  %w = index.cast %k : index to i64
  %next = scalar.addi %sum, %w : i64
  %up = index.add %k, %one : index
  cfg.br ^head(%up: index, %next: i64)
^done:
  view.store %sum, %view[%i] : i64, view<8xi64>
  kernel.return"""
    (out,) = agree(runner, simple(body, "%out: buffer"), [np.full(8, -1, np.int64)])
    assert out.tolist() == [0, 1, 3, -1, 10, 15, 21, 28]


@all_runners
def test_private_storage_per_item_and_workgroup_storage_per_group(runner: Runner) -> None:
    body = """
  %bytes = index.constant 32 : offset
  %lane = kernel.workitem.id<x> : index
  %group = kernel.workgroup.id<x> : index
  %own = buffer.alloca<private> align(64) %bytes : buffer
  %mine = buffer.view %own[%origin] : buffer -> view<4xi64>
  %both = buffer.alloca<workgroup> align(16) %bytes : buffer
  %ours = buffer.view %both[%origin] : buffer -> view<4xi64>
  %w = index.cast %i : index to i64
  view.store %w, %mine[1] : i64, view<4xi64>
  view.store %w, %ours[%lane] : i64, view<4xi64>
  %a = view.load %mine[1] : view<4xi64> -> i64
  %b = view.load %ours[%lane] : view<4xi64> -> i64
  %sum = scalar.addi %a, %b : i64
  %view = buffer.view %out[%origin] : buffer -> view<8xi64>
  view.store %sum, %view[%i] : i64, view<8xi64>
  kernel.return"""
    (out,) = agree(runner, simple(body, "%out: buffer"), [np.zeros(8, np.int64)])
    assert out.tolist() == [2 * i for i in range(8)]


@pytest.mark.parametrize("alignment", [1, 16, 32, 64, 4096])
@all_runners
def test_scratch_storage_has_the_alignment_asked_for(runner: Runner, alignment: int) -> None:
    """The address is observed as the function that returns it sees it."""
    program = runner.compile(
        f"""
func.def public @f(%x: i64) -> (buffer, buffer) {{
  %bytes = index.constant 24 : offset
  %origin = index.constant 0 : offset
  %a = buffer.alloca<private> align({alignment}) %bytes : buffer
  %b = buffer.alloca<private> align({alignment}) %bytes : buffer
  %va = buffer.view %a[%origin] : buffer -> view<3xi64>
  view.store %x, %va[2] : i64, view<3xi64>
  func.return %a, %b : buffer, buffer
}}
""",
        ["f"],
    )
    a, b = (int.from_bytes(data, "little") for data in program.call("f", [5], raw=True))
    assert a % alignment == b % alignment == 0
    assert abs(a - b) >= 24


STRIDED = """
  %rows = index.constant 4 : index
  %r = index.rem %i, %rows : index
  %layout = encoding.layout.strided [{strides}] : encoding<layout>
  %in = buffer.view %src[%at] : buffer -> view<4x3x2xi16, %layout>
  %out = buffer.view %dst[%origin] : buffer -> view<8x3x2xi16>
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %three = index.constant 3 : index
  scf.for %c = [%zero to %three step %one] {{
    %x = view.load %in[%r, %c, 1] : view<4x3x2xi16, %layout> -> i16
    %y = view.load %in[%r, %c, %zero] : view<4x3x2xi16, %layout> -> i16
    view.store %x, %out[%i, %c, 0] : i16, view<8x3x2xi16>
    view.store %y, %out[%i, %c, 1] : i16, view<8x3x2xi16>
  }}
  kernel.return"""


@pytest.mark.parametrize("strides", ["6, 2, 1", "1, 4, 12", "12, 4, 2", "%s, 2, 1", "1, %s, 12", "6, 2, %one_stride"])
@all_runners
def test_strided_layouts(runner: Runner, strides: str) -> None:
    text = simple(
        STRIDED.format(strides=strides), "%src: buffer, %dst: buffer, %at: offset, %s: index, %one_stride: index"
    )
    data = np.arange(100, dtype=np.int16)
    agree(runner, text, [data, np.zeros((8, 3, 2), np.int16), 6, 4 if strides.startswith("1") else 6, 1])


WINDOWS = """
  %two = index.constant 2 : index
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %half = index.rem %i, %two : index
  %in = buffer.view %src[%origin] : buffer -> view<6x[%n]xi32>
  %out = buffer.view %dst[%origin] : buffer -> view<8x4xi32>
  %window = view.subview %in[%two, %half] : view<6x[%n]xi32> -> view<3x3xi32>
  %inner = view.subview %window[%half, 1] : view<3x3xi32> -> view<2x2xi32>
  %same = view.refine %inner : view<2x2xi32> -> view<2x2xi32>
  %first = view.load %window[0, 0] : view<3x3xi32> -> i32
  %second = view.load %inner[1, 1] : view<2x2xi32> -> i32
  %third = view.load %same[%half, 0] : view<2x2xi32> -> i32
  %flip = index.cmp eq, %half, %zero : index
  %chosen = scf.select %flip, %window, %window : view<3x3xi32>
  %picked = scf.if %flip -> (view<3x3xi32>) {
    scf.yield %window : view<3x3xi32>
  } else {
    %moved = view.subview %in[3, 1] : view<6x[%n]xi32> -> view<3x3xi32>
    scf.yield %moved : view<3x3xi32>
  }
  %fourth = view.load %picked[2, %half] : view<3x3xi32> -> i32
  view.store %first, %out[%i, 0] : i32, view<8x4xi32>
  view.store %second, %out[%i, 1] : i32, view<8x4xi32>
  view.store %third, %out[%i, 2] : i32, view<8x4xi32>
  view.store %fourth, %out[%i, 3] : i32, view<8x4xi32>
  kernel.return"""


@all_runners
def test_windows_of_windows_keep_the_strides_of_their_source(runner: Runner) -> None:
    data = np.arange(42, dtype=np.int32)
    agree(runner, simple(WINDOWS, "%src: buffer, %dst: buffer, %n: index"), [data, np.zeros((8, 4), np.int32), 7])


CARRIED = """
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %four = index.constant 4 : index
  %a = buffer.view %x[%origin] : buffer -> view<4xi32>
  %b = buffer.view %y[%origin] : buffer -> view<4xi32>
  %none = scalar.constant 0 : i32
  %p, %q, %sum = scf.for %k = [%zero to %four step %one](%u = %a : view<4xi32>, %v = %b : view<4xi32>, %s = %none : i32) -> (view<4xi32>, view<4xi32>, i32) {
    %e = view.load %u[%k] : view<4xi32> -> i32
    %hundred = scalar.constant 100 : i32
    %w = scalar.muli %s, %hundred : i32
    %n = scalar.addi %w, %e : i32
    scf.yield %v, %u, %n : view<4xi32>, view<4xi32>, i32
  }
  %last = view.load %p[0] : view<4xi32> -> i32
  %total = scalar.addi %sum, %last : i32
  %out = buffer.view %dst[%origin] : buffer -> view<8xi32>
  view.store %total, %out[%i] : i32, view<8xi32>
  kernel.return"""


@all_runners
def test_views_that_swap_in_a_loop(runner: Runner) -> None:
    x, y = np.array([1, 2, 3, 4], np.int32), np.array([5, 6, 7, 8], np.int32)
    text = simple(CARRIED, "%x: buffer, %y: buffer, %dst: buffer")
    (_, _, out) = agree(runner, text, [x, y, np.zeros(8, np.int32)])
    assert out[0] == 1060308 + 1


NARROWING = """
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %three = index.constant 3 : index
  %a = buffer.view %x[%origin] : buffer -> view<[%n]xi32>
  %len, %rest = scf.for %k = [%zero to %three step %one](%l = %n : index, %w = %a : view<[%n]xi32>) -> (index, view<[%len]xi32>) {
    %shorter = index.sub %l, %one : index
    %sub = view.subview %w[1] : view<[%l]xi32> -> view<[%shorter]xi32>
    scf.yield %shorter, %sub : index, view<[%shorter]xi32>
  }
  %e = view.load %rest[0] : view<[%len]xi32> -> i32
  %out = buffer.view %dst[%origin] : buffer -> view<8xi32>
  view.store %e, %out[%i] : i32, view<8xi32>
  kernel.return"""


@all_runners
def test_dependent_tuples_narrow_a_view(runner: Runner) -> None:
    text = simple(NARROWING, "%x: buffer, %n: index, %dst: buffer")
    (_, _, out) = agree(runner, text, [np.arange(10, 20, dtype=np.int32), 10, np.zeros(8, np.int32)])
    assert (out == 13).all()


VECTORS = """
  %zero = index.constant 0 : index
  %view = buffer.view %src[%origin] : buffer -> view<8x6x{t}>
  %out = buffer.view %dst[%origin] : buffer -> view<8x4x{t}>
  %sums = buffer.view %sum[%origin] : buffer -> view<8x{t}>
  %v = vector.load %view[%i, 1] : view<8x6x{t}> -> vector<4x{t}>
  vector.store %v, %out[%i, %zero] : vector<4x{t}>, view<8x4x{t}>
  %init = scalar.constant {init} : {t}
  %s = vector.reduce<{kind}> %v, %init : vector<4x{t}>, {t}
  view.store %s, %sums[%i] : {t}, view<8x{t}>
  kernel.return"""


@pytest.mark.parametrize(
    ("t", "kind", "init"),
    [
        ("f32", "addf", "1.5"),
        ("f64", "maxnumf", "-1.0"),
        ("i8", "addi", "3"),
        ("i16", "minui", "9"),
        ("i32", "maxsi", "-5"),
        ("i64", "xori", "1"),
        ("f32", "mulf", "1.0"),
    ],
)
@all_runners
def test_small_vectors_lane_by_lane(runner: Runner, t: str, kind: str, init: str) -> None:
    dtype = FORMATS[t].dtype
    data = np.random.default_rng(1).integers(-50, 50, (8, 6)).astype(dtype)
    text = simple(VECTORS.format(t=t, kind=kind, init=init), "%src: buffer, %dst: buffer, %sum: buffer")
    (_, out, _) = agree(runner, text, [data, np.zeros((8, 4), dtype), np.zeros(8, dtype)])
    np.testing.assert_array_equal(out, data[:, 1:5])


TWO_AXES = """
  %view = buffer.view %src[%origin] : buffer -> view<8x4x3xi32>
  %out = buffer.view %dst[%origin] : buffer -> view<8x2x3xi32>
  %v = vector.load<volatile> %view[%i, 2, 0] : view<8x4x3xi32> -> vector<2x3xi32>
  vector.store<volatile> %v, %out[%i, 0, 0] : vector<2x3xi32>, view<8x2x3xi32>
  kernel.return"""


@all_runners
def test_vectors_cover_the_trailing_axes(runner: Runner) -> None:
    data = np.arange(96, dtype=np.int32).reshape(8, 4, 3)
    (_, out) = agree(runner, simple(TWO_AXES, "%src: buffer, %dst: buffer"), [data, np.zeros((8, 2, 3), np.int32)])
    np.testing.assert_array_equal(out, data[:, 2:])


PACKED = """
  %b = index.scale %n, %unit : index, offset -> offset
  %total, %first, %second = buffer.pack [align(16) %b, align(64) %unit] : offset
  %t = index.cast %total : offset to i64
  %f = index.cast %first : offset to i64
  %s = index.cast %second : offset to i64
  %out = buffer.view %dst[%origin] : buffer -> view<8x3xi64>
  view.store %t, %out[%i, 0] : i64, view<8x3xi64>
  view.store %f, %out[%i, 1] : i64, view<8x3xi64>
  view.store %s, %out[%i, 2] : i64, view<8x3xi64>
  kernel.return"""


@all_runners
def test_packed_ranges(runner: Runner) -> None:
    text = simple(PACKED, "%n: index, %unit: offset, %dst: buffer")
    (_, _, out) = agree(runner, text, [3, 24, np.zeros((8, 3), np.int64)])
    assert out[0].tolist() == [192, 0, 128]


@all_runners
def test_arguments_that_overlap_share_memory(runner: Runner) -> None:
    """What is stored through one view of an array is read through another."""
    body = """
  %a = buffer.view %x[%origin] : buffer -> view<8xi32>
  %b = buffer.view %y[%origin] : buffer -> view<8xi32>
  %zero = index.constant 0 : index
  %e = view.load %a[%i] : view<8xi32> -> i32
  %one = scalar.constant 1 : i32
  %n = scalar.addi %e, %one : i32
  view.store %n, %b[%i] : i32, view<8xi32>
  kernel.return"""
    module = api.load_bytes(simple(body, "%x: buffer, %y: buffer").encode(), "test.loom")
    memory = np.zeros(9, np.int32)
    device = runner.device()
    device.launch(module, module.symbols()["k"], [], [memory[:8], memory[1:]])
    device.launch(module, module.symbols()["k"], [], [memory, memory[:8]])
    assert memory.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 8]
