"""Buffers, views, layouts, scratch memory and vectors on the device, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loom import api
from loom.dialects.buffer.ops import Pack
from loom.ir.diagnostics import LoomError
from loom.ir.types import OFFSET
from loom_target_spirv.device import VulkanDevice

Launch = Callable[..., None]
Text = Callable[..., str]

STORAGE = {
    "i1": "?", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "f16": "f2", "f32": "f4", "f64": "f8",
    "index": "i8", "offset": "i8",
}  # fmt: skip


def run(launch: Launch, text: str, *arguments: Any) -> None:
    """Launch a kernel without workload."""
    launch(text, [], list(arguments))


def random_elements(type_: str, count: int) -> np.ndarray[Any, Any]:
    """Random patterns of a type; addresses are non-negative."""
    rng = np.random.default_rng(len(type_))
    dtype = np.dtype(STORAGE[type_])
    if type_ == "i1":
        return rng.integers(0, 2, count).astype(bool)
    data = rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    return data & np.int64((1 << 62) - 1) if type_ in ("index", "offset") else data


@pytest.mark.parametrize("type_", STORAGE)
@pytest.mark.parametrize("space", ["workgroup", "private"])
def test_elements_travel_through_every_kind_of_memory(
    launch: Launch, kernel_text: Text, type_: str, space: str
) -> None:
    """Device memory to scratch and back, bit for bit, NaN payloads included."""
    size = np.dtype(STORAGE[type_]).itemsize
    view = f"view<32x{type_}>"
    text = kernel_text(
        "%in: buffer, %out: buffer",
        f"""
        %bytes = index.constant {32 * size} : offset
        %v = buffer.view %in[%o] : buffer -> {view}
        %w = buffer.view %out[%o] : buffer -> {view}
        %scratch = buffer.alloca<{space}> align(8) %bytes : buffer
        %s = buffer.view %scratch[%o] : buffer -> {view}
        %a = view.load %v[%x] : {view} -> {type_}
        view.store %a, %s[%x] : {type_}, {view}
        %b = view.load %s[%x] : {view} -> {type_}
        view.store %b, %w[%x] : {type_}, {view}
        """,
    )
    data = random_elements(type_, 32)
    out = np.zeros_like(data)
    run(launch, text, data, out)
    np.testing.assert_array_equal(out.view(np.uint8), data.view(np.uint8))


@pytest.mark.parametrize("type_", ["i16", "i32", "i64", "f16", "f32", "f64"])
def test_reduced_alignment(launch: Launch, kernel_text: Text, type_: str) -> None:
    """Elements at odd addresses, in device and in scratch memory, loaded and stored."""
    size = np.dtype(STORAGE[type_]).itemsize
    view = f"view<32x{type_}, align(1)>"
    text = kernel_text(
        "%in: buffer, %out: buffer",
        f"""
        %bytes = index.constant {32 * size + 3} : offset
        %odd = index.constant 3 : offset
        %v = buffer.view %in[%odd] : buffer -> {view}
        %w = buffer.view %out[%odd] : buffer -> {view}
        %scratch = buffer.alloca<workgroup> align(8) %bytes : buffer
        %s = buffer.view %scratch[%odd] : buffer -> {view}
        %a = view.load %v[%x] : {view} -> {type_}
        view.store %a, %s[%x] : {type_}, {view}
        %b = view.load %s[%x] : {view} -> {type_}
        view.store %b, %w[%x] : {type_}, {view}
        """,
    )
    data = np.random.default_rng(1).integers(0, 256, 32 * size + 3, np.uint8)
    out = np.zeros_like(data)
    run(launch, text, data, out)
    np.testing.assert_array_equal(out[3:], data[3:])
    assert not out[:3].any()


def test_scratch_of_several_element_types(launch: Launch, kernel_text: Text) -> None:
    """One allocation read as bytes, halves, words and doubles: little-endian throughout."""
    text = kernel_text(
        "%bytes_out: buffer, %halves_out: buffer, %double_out: buffer",
        """
        %size = index.constant 256 : offset
        %scratch = buffer.alloca<workgroup> align(8) %size : buffer
        %words = buffer.view %scratch[%o] : buffer -> view<32xi32>
        %bytes = buffer.view %scratch[%o] : buffer -> view<128xi8>
        %halves = buffer.view %scratch[%o] : buffer -> view<64xi16>
        %doubles = buffer.view %scratch[%o] : buffer -> view<16xf64>
        %three = index.constant 3 : index
        %four = index.constant 4 : index
        %k = scalar.constant 16909060 : i32
        %xi = index.cast %x : index to i32
        %word = scalar.addi %k, %xi : i32
        view.store %word, %words[%x] : i32, view<32xi32>
        kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
        %at = index.madd %x, %four, %three : index
        %byte = view.load %bytes[%at] : view<128xi8> -> i8
        %half = view.load %halves[%x] : view<64xi16> -> i16
        %slot = index.shrui %x, %c1 : index
        %double = view.load %doubles[%slot] : view<16xf64> -> f64
        %b = buffer.view %bytes_out[%o] : buffer -> view<32xi8>
        %h = buffer.view %halves_out[%o] : buffer -> view<32xi16>
        %d = buffer.view %double_out[%o] : buffer -> view<32xf64>
        view.store %byte, %b[%x] : i8, view<32xi8>
        view.store %half, %h[%x] : i16, view<32xi16>
        view.store %double, %d[%x] : f64, view<32xf64>
        """,
    )
    outs = [np.zeros(32, dtype) for dtype in (np.int8, np.int16, np.float64)]
    run(launch, text, *outs)
    words = np.int32(16909060) + np.arange(32, dtype=np.int32)
    np.testing.assert_array_equal(outs[0], words.view(np.int8)[3::4])
    np.testing.assert_array_equal(outs[1], words.view(np.int16)[:32])
    np.testing.assert_array_equal(outs[2], np.repeat(words.view(np.float64), 2))


@pytest.mark.parametrize("bounded", [False, True])
def test_subviews_and_dynamic_extents(launch: Launch, kernel_text: Text, bounded: bool) -> None:
    """A window of a matrix keeps the matrix's row length; extents known or not to be small."""
    predicate = "[range(%cols_, 1, 64), range(%rows_, 1, 64)]" if bounded else "[]"
    text = kernel_text(
        "%rows_: index, %cols_: index, %r: index, %c: index, %in: buffer, %out: buffer",
        f"""
        %rows, %cols = index.assume %rows_, %cols_ {predicate} : index, index
        %v = buffer.view %in[%o] : buffer -> view<[%rows]x[%cols]xi32>
        %w = buffer.view %out[%o] : buffer -> view<4x8xi32>
        %win = view.subview %v[%r, %c] : view<[%rows]x[%cols]xi32> -> view<4x8xi32>
        %inner = view.subview %win[1, 0] : view<4x8xi32> -> view<3x8xi32>
        %eight = index.constant 8 : index
        %four = index.constant 4 : index
        %i = index.div %x, %eight : index
        %j = index.rem %x, %eight : index
        %last = index.constant 3 : index
        %is_last = index.cmp eq, %i, %last : index
        %a = scf.if %is_last -> (i32) {{
          %e = view.load %win[0, %j] : view<4x8xi32> -> i32
          scf.yield %e : i32
        }} else {{
          %e = view.load %inner[%i, %j] : view<3x8xi32> -> i32
          scf.yield %e : i32
        }}
        view.store %a, %w[%i, %j] : i32, view<4x8xi32>
        """,
    )
    data = np.arange(20 * 30, dtype=np.int32).reshape(20, 30)
    out = np.zeros((4, 8), np.int32)
    run(launch, text, 20, 30, 5, 7, data, out)
    window = data[5:9, 7:15]
    np.testing.assert_array_equal(out, np.concatenate([window[1:], window[:1]]))


def test_static_and_chosen_layouts(launch: Launch, kernel_text: Text) -> None:
    """Strides in the type, strides as a value, and a layout chosen and carried by a loop."""
    text = kernel_text(
        "%pitch: index, %in: buffer, %out: buffer",
        """
        %four = index.constant 4 : index
        %i = index.div %x, %four : index
        %j = index.rem %x, %four : index
        %static = buffer.view %in[%o] : buffer -> view<8x4xi32, #encoding.layout.strided<strides=[10, 2]>>
        %rows = encoding.layout.strided [%pitch, 1] : encoding<layout>
        %cols = encoding.layout.strided [1, %pitch] : encoding<layout>
        %odd = index.andi %x, %c1 : index
        %turned, %kept = scf.for %k = [%c0 to %odd step %c1](%l = %rows : encoding<layout>, %m = %cols : encoding<layout>) -> (encoding<layout>, encoding<layout>) {
          scf.yield %m, %l : encoding<layout>, encoding<layout>
        }
        %v = buffer.view %in[%o] : buffer -> view<8x4xi32, %turned>
        %w = buffer.view %out[%o] : buffer -> view<2x32xi32>
        %a = view.load %static[%i, %j] : view<8x4xi32, #encoding.layout.strided<strides=[10, 2]>> -> i32
        %b = view.load %v[%i, %j] : view<8x4xi32, %turned> -> i32
        view.store %a, %w[0, %x] : i32, view<2x32xi32>
        view.store %b, %w[1, %x] : i32, view<2x32xi32>
        """,
    )
    data = np.arange(200, dtype=np.int32) * 3
    out = np.zeros((2, 32), np.int32)
    run(launch, text, 9, data, out)
    i, j = np.divmod(np.arange(32), 4)
    np.testing.assert_array_equal(out[0], data[10 * i + 2 * j])
    np.testing.assert_array_equal(out[1], data[np.where(np.arange(32) % 2, i + 9 * j, 9 * i + j)])


def test_refined_views(launch: Launch, kernel_text: Text) -> None:
    """A refinement restates the layout of the same bytes."""
    text = kernel_text(
        "%in: buffer, %out: buffer",
        """
        %rows = encoding.layout.strided [16, 1] : encoding<layout>
        %v = buffer.view %in[%o] : buffer -> view<2x16xi32>
        %t = view.refine %v : view<2x16xi32> -> view<2x16xi32, %rows>
        %sixteen = index.constant 16 : index
        %i = index.div %x, %sixteen : index
        %j = index.rem %x, %sixteen : index
        %a = view.load %t[%i, %j] : view<2x16xi32, %rows> -> i32
        %w = buffer.view %out[%o] : buffer -> view<32xi32>
        view.store %a, %w[%x] : i32, view<32xi32>
        """,
    )
    data, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    run(launch, text, data, out)
    np.testing.assert_array_equal(out, data)


def test_carried_views_change_places(launch: Launch, kernel_text: Text) -> None:
    """Two windows of one private allocation are exchanged by every round of a loop."""
    text = kernel_text(
        "%out: buffer",
        """
        %bytes = index.constant 8 : offset
        %at4 = index.constant 4 : offset
        %s = buffer.alloca<private> align(4) %bytes : buffer
        %first = buffer.view %s[%o] : buffer -> view<1xi32>
        %second = buffer.view %s[%at4] : buffer -> view<1xi32>
        %one_ = scalar.constant 1 : i32
        %seven = scalar.constant 7 : i32
        view.store %one_, %first[0] : i32, view<1xi32>
        %last, %spare = scf.for %i = [%c0 to %x step %c1](%now = %first : view<1xi32>, %next = %second : view<1xi32>) -> (view<1xi32>, view<1xi32>) {
          %v = view.load %now[0] : view<1xi32> -> i32
          %u = scalar.addi %v, %seven : i32
          view.store %u, %next[0] : i32, view<1xi32>
          scf.yield %next, %now : view<1xi32>, view<1xi32>
        }
        %r = view.load %last[0] : view<1xi32> -> i32
        %w = buffer.view %out[%o] : buffer -> view<32xi32>
        view.store %r, %w[%x] : i32, view<32xi32>
        """,
    )
    out = np.zeros(32, np.int32)
    run(launch, text, out)
    np.testing.assert_array_equal(out, 1 + 7 * np.arange(32))


def test_vectors(launch: Launch, kernel_text: Text) -> None:
    """Footprints on the trailing axes, reductions in lane order, and reductions of every kind."""
    kinds = ["addi", "muli", "minsi", "maxsi", "minui", "maxui", "andi", "ori", "xori"]
    lines = "\n".join(
        f"""%r{n} = vector.reduce<{kind}> %v, %init : vector<2x3xi32>, i32
        view.store %r{n}, %w[{n}, %x] : i32, view<{len(kinds)}x32xi32>"""
        for n, kind in enumerate(kinds)
    )
    text = kernel_text(
        "%in: buffer, %copy: buffer, %sums: buffer, %out: buffer",
        f"""
        %src = buffer.view %in[%o] : buffer -> view<32x4x5xi32>
        %dst = buffer.view %copy[%o] : buffer -> view<32x2x3xi32>
        %w = buffer.view %out[%o] : buffer -> view<{len(kinds)}x32xi32>
        %v = vector.load %src[%x, 1, 2] : view<32x4x5xi32> -> vector<2x3xi32>
        vector.store %v, %dst[%x, 0, 0] : vector<2x3xi32>, view<32x2x3xi32>
        %init = scalar.constant 3 : i32
        {lines}
        %fsrc = buffer.view %in[%o] : buffer -> view<32x4xf32>
        %f = vector.load %fsrc[%x, 0] : view<32x4xf32> -> vector<4xf32>
        %zero = scalar.constant -0.0 : f32
        %s = vector.reduce<addf> %f, %zero : vector<4xf32>, f32
        %sv = buffer.view %sums[%o] : buffer -> view<32xf32>
        view.store %s, %sv[%x] : f32, view<32xf32>
        """,
    )
    data = np.random.default_rng(2).integers(-(2**31), 2**31, (32, 4, 5), np.int32)
    copy, sums = np.zeros((32, 2, 3), np.int32), np.zeros(32, np.float32)
    out = np.zeros((len(kinds), 32), np.int32)
    run(launch, text, data, copy, sums, out)
    window = data[:, 1:3, 2:5]
    np.testing.assert_array_equal(copy, window)
    lanes = window.reshape(32, 6)
    start = np.full(32, 3, np.int32)
    pick: dict[str, Callable[..., Any]] = {
        "addi": np.add, "muli": np.multiply, "minsi": np.minimum, "maxsi": np.maximum, "andi": np.bitwise_and,
        "ori": np.bitwise_or, "xori": np.bitwise_xor,
    }  # fmt: skip
    for row, kind in zip(out, kinds, strict=True):
        accumulator: Any = start.view(np.uint32) if kind[-2:] == "ui" else start
        function = pick.get(kind) or (np.minimum if kind == "minui" else np.maximum)
        for lane in lanes.view(accumulator.dtype).T:
            accumulator = function(accumulator, lane)
        np.testing.assert_array_equal(row, accumulator.view(np.int32), kind)
    floats = data.ravel().view(np.float32)[:128].reshape(32, 4)
    total = np.full(32, -0.0, np.float32)
    with np.errstate(all="ignore"):
        for lane in floats.T:
            total = total + lane
    same = (sums.view(np.uint32) == total.view(np.uint32)) | (np.isnan(sums) & np.isnan(total))
    assert same.all()


def test_scalar_arguments_of_every_type(launch: Launch, kernel_text: Text) -> None:
    """Each is placed by its size and arrives with its bits."""
    types = ["i1", "i8", "i16", "i32", "i64", "f16", "f32", "f64", "index", "offset"]
    stores = "\n".join(
        f"""%b_{type_} = index.constant {16 * n} : offset
        %v_{type_} = buffer.view %out[%b_{type_}] : buffer -> view<1x{type_}>
        view.store %s_{type_}, %v_{type_}[0] : {type_}, view<1x{type_}>"""
        for n, type_ in enumerate(types)
    )
    arguments = ", ".join(f"%s_{type_}: {type_}" for type_ in types)
    text = kernel_text(f"{arguments}, %out: buffer", stores, (1, 1, 1))
    values = [True, -7, -300, -70000, -(1 << 40), 1.5, -2.25, 1e300, -(1 << 50), 1 << 50]
    out = np.zeros(160, np.uint8)
    run(launch, text, *values, out)
    for n, (type_, value) in enumerate(zip(types, values, strict=True)):
        dtype = np.dtype(STORAGE[type_])
        assert out[16 * n : 16 * n + dtype.itemsize].view(dtype)[0] == dtype.type(value), type_


def test_packed_ranges_and_the_length_of_scratch(device: VulkanDevice, kernel_text: Text) -> None:
    """Offsets rounded up to each alignment, a total rounded up to the largest, and the extent allocated."""
    text = kernel_text(
        "%head: offset, %tail: offset, %sizes: buffer",
        """
        %total = index.constant 1 : offset
        %h = index.constant 2 : offset
        %t = index.constant 3 : offset
        %limited = index.assume %total [range(%total, 0, 4096)] : offset
        %scratch = buffer.alloca<private> align(64) %limited : buffer
        %n = buffer.length %scratch
        %sv = buffer.view %sizes[%o] : buffer -> view<4xoffset>
        view.store %total, %sv[0] : offset, view<4xoffset>
        view.store %h, %sv[1] : offset, view<4xoffset>
        view.store %t, %sv[2] : offset, view<4xoffset>
        view.store %n, %sv[3] : offset, view<4xoffset>
        """,
        (1, 1, 1),
    )
    module = api.parse(text, "pack.loom")
    kernel = next(iter(module.ops))
    stand_ins = [op for op in kernel.walk() if op.results and op.results[0].name in ("total", "h", "t")]
    body = kernel.regions[-1].entry
    pack = Pack.build(sizes=body.args[:2], alignments=(16, 64), result_types=[OFFSET] * 3)
    pack.insert_before(stand_ins[0])
    for stand_in, value in zip(stand_ins, pack.results, strict=True):
        stand_in.replace_with([value])
    api.verify(module)
    sizes = np.zeros(4, np.int64)
    for head, tail, want in ((48, 8, [128, 0, 64, 128]), (65, 0, [128, 0, 128, 128]), (1, 1, [128, 0, 64, 128])):
        device.launch(module, kernel, [], [head, tail, sizes])
        np.testing.assert_array_equal(sizes, want)


def test_views_as_arguments(launch: Launch, kernel_text: Text) -> None:
    """A view argument starts at its buffer; its type may name a later argument."""
    text = kernel_text(
        "%in: view<4x[%cols]xf32>, %cols: index, %out: view<32xf32>",
        """
        %eight = index.constant 8 : index
        %i = index.div %x, %eight : index
        %j = index.rem %x, %eight : index
        %a = view.load %in[%i, %j] : view<4x[%cols]xf32> -> f32
        view.store<volatile> %a, %out[%x] : f32, view<32xf32>
        """,
    )
    data, out = np.arange(40, dtype=np.float32).reshape(4, 10), np.zeros(32, np.float32)
    run(launch, text, data, 10, out)
    np.testing.assert_array_equal(out, data[:, :8].ravel())


def test_coordinates(device: VulkanDevice) -> None:
    """Ids, extents and counts along three axes; subgroups partition the linear order."""
    queries = [f"kernel.{q}<{axis}>" for q in ("workitem.id", "workgroup.id", "workgroup.size", "workgroup.count",
                                               "workitem.dispatch.id") for axis in "xyz"]  # fmt: skip
    queries += [f"kernel.subgroup.{q}" for q in ("id", "count", "size", "lane.id")]
    lines = "\n".join(
        f"  %q{n} = {query} : index\n  view.store %q{n}, %w[%at, {n}] : index, view<[%n]x{len(queries)}xindex>"
        for n, query in enumerate(queries)
    )
    text = f"""
kernel.def @where(%gx: index, %gy: index, %gz: index, %sx: index, %sy: index, %sz: index) {{
  kernel.launch.config workgroups(%gx, %gy, %gz) workgroup_size(%sx, %sy, %sz) : index
}} launch(%n: index, %out: buffer) {{
  %o = index.constant 0 : offset
  %w = buffer.view %out[%o] : buffer -> view<[%n]x{len(queries)}xindex>
  %nx = kernel.workgroup.count<x> : index
  %ny = kernel.workgroup.count<y> : index
  %lx = kernel.workgroup.size<x> : index
  %ly = kernel.workgroup.size<y> : index
  %ix = kernel.workitem.dispatch.id<x> : index
  %iy = kernel.workitem.dispatch.id<y> : index
  %iz = kernel.workitem.dispatch.id<z> : index
  %wx = index.mul %nx, %lx : index
  %wy = index.mul %ny, %ly : index
  %row = index.madd %iz, %wy, %iy : index
  %at = index.madd %row, %wx, %ix : index
{lines}
  kernel.return
}}
"""
    module = api.parse(text, "where.loom")
    api.verify(module)
    groups, size = (3, 2, 2), (8, 3, 2)
    items = [g * s for g, s in zip(groups, size, strict=True)]
    out = np.full((int(np.prod(items)), len(queries)), -1)
    device.launch(module, next(iter(module.ops)), [*groups, *size], [len(out), out])
    z, y, x = (axis.ravel() for axis in np.indices(items[::-1]))
    want = []
    ids = [x, y, z]
    want += [i % s for i, s in zip(ids, size, strict=True)]
    want += [i // s for i, s in zip(ids, size, strict=True)]
    want += [np.full(len(out), s) for s in size]
    want += [np.full(len(out), g) for g in groups]
    want += ids
    np.testing.assert_array_equal(out[:, :15], np.stack(want, axis=1))
    width = device.facts["subgroup_size"]
    assert isinstance(width, int)
    linear = x % 8 + 8 * (y % 3) + 24 * (z % 2)
    np.testing.assert_array_equal(out[:, 15], linear // width)
    np.testing.assert_array_equal(out[:, 16], -(-48 // width))
    np.testing.assert_array_equal(out[:, 17], width)
    np.testing.assert_array_equal(out[:, 18], linear % width)


def test_barriers_of_both_spaces(launch: Launch, kernel_text: Text) -> None:
    """Neighbours see what was stored before a barrier, in device memory too."""
    text = kernel_text(
        "%out: buffer",
        """
        %w = buffer.view %out[%o] : buffer -> view<2x256xi32>
        %xi = index.cast %x : index to i32
        view.store %xi, %w[0, %x] : i32, view<2x256xi32>
        kernel.barrier<global> scope(workgroup) ordering(acq_rel)
        kernel.barrier<workgroup> scope(subgroup) ordering(acq_rel)
        %last = index.constant 255 : index
        %mirror = index.sub %last, %x : index
        %v = view.load %w[0, %mirror] : view<2x256xi32> -> i32
        view.store %v, %w[1, %x] : i32, view<2x256xi32>
        """,
        (256, 1, 1),
    )
    out = np.zeros((2, 256), np.int32)
    run(launch, text, out)
    np.testing.assert_array_equal(out[1], np.arange(255, -1, -1))


def test_workgroup_memory_beyond_the_device(launch: Launch, kernel_text: Text) -> None:
    """More scratch than the device has is a diagnostic."""
    text = kernel_text(
        "%out: buffer",
        f"""
        %bytes = index.constant {1 << 20} : offset
        %s = buffer.alloca<workgroup> align(4) %bytes : buffer
        %v = buffer.view %s[%o] : buffer -> view<{1 << 18}xi32>
        %zero = scalar.constant 0 : i32
        view.store %zero, %v[%x] : i32, view<{1 << 18}xi32>
        """,
    )
    with pytest.raises(LoomError) as error:
        run(launch, text, np.zeros(4, np.int32))
    assert error.value.diagnostics[0].code == "TARGET/051"
    assert error.value.diagnostics[0].position() is not None
