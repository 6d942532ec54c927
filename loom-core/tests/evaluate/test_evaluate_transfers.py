"""Transfers of clusters and of tensors, and masked ones: bytes arrive where they belong, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from loom.dialects.kernel.tensor_descriptor import FIELDS, Descriptor
from loom.evaluate.limits import Limits

Programs = Any

WAIT = """  %grp = kernel.async.group %t : kernel.async.token -> kernel.async.group
  kernel.async.wait %grp {newer_groups = 0} : kernel.async.group
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)"""

# Four words for each of eight work-items of a workgroup; `%word` picks the source row of each.
CLUSTER = """
kernel.def @k(%gx: index, %gy: index) {{
  %one = index.constant 1 : index
  %size = index.constant 8 : index
  %cx = index.constant {cx} : index
  %cy = index.constant {cy} : index
  kernel.launch.config workgroups(%gx, %gy, %one) workgroup_size(%size, %one, %one) cluster_size(%cx, %cy, %one) : index
}} launch(%in: buffer, %out: buffer, %groups: index, %rows: index, %masks: buffer) {{
  %at0 = index.constant 0 : offset
  %bytes = index.constant 128 : offset
  %c8 = index.constant 8 : index
  %lane = kernel.workitem.id<x> : index
  %x = kernel.workgroup.id<x> : index
  %y = kernel.workgroup.id<y> : index
  %nx = kernel.workgroup.count<x> : index
  %gy0 = index.mul %y, %nx : index
  %gid = index.add %gy0, %x : index
  %base = index.mul %gid, %c8 : index
  %item = index.add %base, %lane : index
  %g = buffer.assume.memory_space<global> %in : buffer
  %src = buffer.view %g[%at0] : buffer -> view<[%rows]x4xi32>
  %row = {row} : index
  %mine = view.subview %src[%row, 0] : view<[%rows]x4xi32> -> view<1x4xi32>
  %shared = buffer.alloca<workgroup> align(16) %bytes : buffer
  %lds = buffer.view %shared[%at0] : buffer -> view<8x4xi32>
  %empty = vector.constant -1 : vector<1x4xi32>
  vector.store %empty, %lds[%lane, 0] : vector<1x4xi32>, view<8x4xi32>
  %slot = view.subview %lds[%lane, 0] : view<8x4xi32> -> view<1x4xi32>
  %mv = buffer.view %masks[%at0] : buffer -> view<[%groups]xi32>
  %mask = view.load %mv[%gid] : view<[%groups]xi32> -> i32
  %limit = index.constant {limit} : index
  %go = index.cmp ult, %lane, %limit : index
{start}
{wait}
  %o = buffer.view %out[%at0] : buffer -> view<[%groups]x8x4xi32>
  %v = vector.load %lds[%lane, 0] : view<8x4xi32> -> vector<4xi32>
  vector.store %v, %o[%gid, %lane, 0] : vector<4xi32>, view<[%groups]x8x4xi32>
  kernel.return
}}
"""
GATHER = """  %t = kernel.async.cluster.gather %mine to %slot using %mask {cache_scope = se, cache_temporal = regular}
    : view<1x4xi32> to view<1x4xi32>, i32 -> kernel.async.token"""
MASKED = """  %t = kernel.async.cluster.gather.mask %mine to %slot using %mask, %go {cache_scope = se, cache_temporal = regular}
    : view<1x4xi32> to view<1x4xi32>, i32, i1 -> kernel.async.token"""


def gather(
    programs: Programs,
    masks: Sequence[int],
    grid: tuple[int, int] = (2, 1),
    cluster: tuple[int, int] = (2, 1),
    *,
    row: str = "index.min %lane, %c8",
    start: str = GATHER,
    limit: int = 8,
    batch: int = 1 << 15,
) -> Any:
    """Run the cluster kernel; returns the source and what each workgroup found in its storage."""
    groups = grid[0] * grid[1]
    text = CLUSTER.format(cx=cluster[0], cy=cluster[1], row=row, start=start, wait=WAIT, limit=limit)
    data = np.random.default_rng(1).integers(0, 1 << 30, (groups * 8, 4), dtype=np.int32)
    out = np.zeros((groups, 8, 4), dtype=np.int32)
    arguments = [data, out, groups, groups * 8, np.asarray(masks, dtype=np.int32)]
    programs.launch(text, grid, arguments, facts={"subgroup_size": 8}, limits=Limits(batch_lanes=batch))
    return data.reshape(groups, 8, 4), out


def test_one_source_goes_to_the_whole_cluster(programs: Programs) -> None:
    data, out = gather(programs, [3, 3])
    assert np.array_equal(out, np.stack([data[0], data[0]]))


def test_workgroups_may_send_to_each_other(programs: Programs) -> None:
    """Each reads rows of its own and names the other one only."""
    data, out = gather(programs, [2, 1], row="index.min %item, %item")
    assert np.array_equal(out, data[::-1])


@pytest.mark.parametrize("batch", [1, 16, 1 << 15])
def test_clusters_of_two_axes_stay_together(programs: Programs, batch: int) -> None:
    """In a grid of 4 by 4 the workgroups of a cluster are four apart; the first of each sends to all."""
    masks = [15 if x % 2 == 0 and y % 2 == 0 else 0 for y in range(4) for x in range(4)]
    data, out = gather(programs, masks, (4, 4), (2, 2), row="index.min %item, %item", batch=batch)
    want = data.reshape(4, 4, 8, 4)[::2, ::2].repeat(2, axis=0).repeat(2, axis=1)
    assert np.array_equal(out.reshape(want.shape), want)


def test_a_false_predicate_sends_and_receives_nothing(programs: Programs) -> None:
    data, out = gather(programs, [3, 3], start=MASKED, limit=5)
    assert np.array_equal(out[:, :5], np.stack([data[0][:5]] * 2))
    assert (out[:, 5:] == -1).all()


def test_an_empty_mask_sends_nothing(programs: Programs) -> None:
    _, out = gather(programs, [0, 0])
    assert (out == -1).all()


@pytest.mark.parametrize(
    ("masks", "row", "code", "part"),
    [
        ([3, 3], "index.min %item, %item", "EVALUATE/005", "is sent different bytes"),
        ([4, 1], "index.min %item, %item", "EVALUATE/002", "the mask 0x4 names workgroups of a cluster of 2"),
        ([-1, 1], "index.min %item, %item", "EVALUATE/002", "0xffffffff"),
    ],
)
def test_what_a_cluster_cannot_do(programs: Programs, masks: list[int], row: str, code: str, part: str) -> None:
    fault = programs.fault(lambda: gather(programs, masks, row=row))
    assert fault.code == code
    assert part in fault.message
    assert programs.source_line(fault).startswith("%t = kernel.async.cluster.gather")


def test_who_receives_takes_part(programs: Programs) -> None:
    """Five work-items of the first workgroup send to a second one that skips the transfer."""
    start = MASKED.replace("%mask, %go", "%mask, %first").replace(
        "  %t", "  %first = index.cmp eq, %gid, %zero : index\n  %t", 1
    )
    start = "  %zero = index.sub %gid, %gid : index\n" + start
    fault = programs.fault(lambda: gather(programs, [2, 0], start=start))
    assert fault.code == "STRUCTURE/038"
    assert "work-item (0, 0, 0) of workgroup (1, 0, 0)" in fault.message


# -- masked copies -----------------------------------------------------------------------------------------

OUTSIDE = """
  %bytes = index.constant 64 : offset
  %shared = buffer.alloca<workgroup> align(16) %bytes : buffer
  %g = buffer.assume.memory_space<global> %in : buffer
  %src = buffer.view %g[%at0] : buffer -> view<4x4xi32>
  %tile = buffer.view %shared[%at0] : buffer -> view<4x4xi32>
  %slots = buffer.view %shared[%at0] : buffer -> view<8x1x4xi32>
  %mine = view.subview %src[%lane, 0] : view<4x4xi32> -> view<1x4xi32>
  %slot = view.subview %tile[%lane, 0] : view<4x4xi32> -> view<1x4xi32>
  %limit = index.constant {limit} : index
  %go = index.cmp ult, %lane, %limit : index
{start}
{wait}
  scf.if %go {{
    %o = buffer.view %out[%at0] : buffer -> view<4x4xi32>
    %v = vector.load %tile[%lane, 0] : view<4x4xi32> -> vector<4xi32>
    vector.store %v, %o[%lane, 0] : vector<4xi32>, view<4x4xi32>
  }}"""
COPY_MASK = """  %t = kernel.async.copy.mask %mine to %slot, %go
    {cache_scope = cu, cache_temporal = regular, direction = global_to_workgroup}
    : view<1x4xi32> to view<1x4xi32>, i1 -> kernel.async.token"""
GATHER_MASK = """  %t = kernel.async.gather.mask %mine to %slots, %go {cache_scope = cu, cache_temporal = regular}
    : view<1x4xi32> to view<8x1x4xi32>, i1 -> kernel.async.token"""


@pytest.mark.parametrize("start", [COPY_MASK, GATHER_MASK], ids=["copy", "gather"])
def test_a_false_predicate_accesses_nothing(programs: Programs, start: str) -> None:
    """Eight work-items and four rows: what lies outside is neither read nor written where the predicate is false."""
    data, out = np.arange(16, dtype=np.int32).reshape(4, 4), np.zeros((4, 4), dtype=np.int32)
    text = programs.kernel(OUTSIDE.format(limit=4, start=start, wait=WAIT), "%in: buffer, %out: buffer", size=8)
    programs.launch(text, [], [data, out], facts={"subgroup_size": 8})
    assert np.array_equal(out, data)
    text = programs.kernel(OUTSIDE.format(limit=5, start=start, wait=WAIT), "%in: buffer, %out: buffer", size=8)
    fault = programs.fault(lambda: programs.launch(text, [], [data, out], facts={"subgroup_size": 8}))
    assert fault.code == "EVALUATE/002"
    assert "work-item (4, 0, 0)" in fault.message


# -- tensors -----------------------------------------------------------------------------------------------

TENSOR = """
  %bytes = index.constant 4096 : offset
  %shared = buffer.alloca<workgroup> align(16) %bytes : buffer
  %g = buffer.assume.memory_space<global> %in : buffer
  %go = buffer.assume.memory_space<global> %out : buffer
  %whole = buffer.view %g[%at0] : buffer -> view<6x10xf32>
  %sink = buffer.view %go[%at0] : buffer -> view<6x10xf32>
  %row = index.constant {row} : index
  %column = index.constant {column} : index
  %from = view.subview %whole[%row, %column] : view<6x10xf32> -> view<{left}xf32>
  %to = view.subview %sink[%row, %column] : view<6x10xf32> -> view<{left}xf32>
  %tile = buffer.view %shared[%at0] : buffer -> view<4x3xf32>
  %desc = kernel.tensor.lds.descriptor dgroups(%d0, %d1) : vector<4xi32>, vector<8xi32> -> kernel.tensor.lds.descriptor
  %t = kernel.async.tensor.load.to.lds %from to %tile using %desc {{cache_scope = cu, cache_temporal = regular}}
    : view<{left}xf32> to view<4x3xf32>, kernel.tensor.lds.descriptor -> kernel.async.token
{wait}
  %o = buffer.view %seen[%at0] : buffer -> view<4x3xf32>
  scf.for %k = [%lane to %rows step %step] {{
    %v = vector.load %tile[%k, 0] : view<4x3xf32> -> vector<3xf32>
    vector.store %v, %o[%k, 0] : vector<3xf32>, view<4x3xf32>
  }}
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  %t2 = kernel.async.tensor.store.from.lds %tile to %to using %desc {{cache_scope = device, cache_temporal = regular}}
    : view<4x3xf32> to view<{left}xf32>, kernel.tensor.lds.descriptor -> kernel.async.token
  %grp2 = kernel.async.group %t2 : kernel.async.token -> kernel.async.group
  kernel.async.wait %grp2 {{newer_groups = 0}} : kernel.async.group"""
PARAMETERS = (
    "%in: buffer, %out: buffer, %seen: buffer, %d0: vector<4xi32>, %d1: vector<8xi32>, %rows: index, %step: index"
)


def words(**fields: int) -> list[Any]:
    """The four groups of a descriptor with some fields."""
    groups = [0, 0, 0, 0]
    for name, value in fields.items():
        group, first, bits = FIELDS[name]
        assert 0 <= value < 1 << bits
        groups[group] |= value << first
    sizes = (4, 8, 4, 4)
    return [
        np.asarray([number >> 32 * i & 0xFFFF_FFFF for i in range(size)], dtype=np.uint32).view(np.int32)
        for number, size in zip(groups, sizes, strict=True)
    ]


def test_fields_read_back() -> None:
    """Every field has bits of its own."""
    for name, (_, _, bits) in FIELDS.items():
        said = Descriptor.of_words([group.tolist() for group in words(**{name: (1 << bits) - 1})])
        assert {n: said.field(n) for n in FIELDS if said.field(n)} == {name: (1 << bits) - 1}


def plain(row: int, column: int, **more: int) -> dict[str, int]:
    return {
        "count": 1,
        "type": 2,
        "data_size": 2,
        "tile_dim0": 3,
        "tile_dim1": 4,
        "tensor_dim0": 10 - column,
        "tensor_dim1": 6 - row,
        "tensor_dim0_stride": 10,
        **more,
    }


def move(programs: Programs, row: int, column: int, size: int = 8, **more: int) -> tuple[Any, Any, Any]:
    """Load a tile and store it again; returns the source, what was in the tile, and what was written."""
    data = np.random.default_rng(row * 10 + column).normal(size=(6, 10)).astype(np.float32)
    out, seen = np.zeros_like(data), np.full((4, 3), -1, dtype=np.float32)
    body = TENSOR.format(row=row, column=column, left=f"{6 - row}x{10 - column}", wait=WAIT)
    d0, d1, _, _ = words(**plain(row, column, **more))
    text = programs.kernel(body, PARAMETERS, size=size)
    programs.launch(text, [], [data, out, seen, d0, d1, 4, size], facts={"subgroup_size": 8})
    return data, seen, out


@pytest.mark.parametrize(("row", "column"), [(0, 0), (2, 7), (1, 4)])
def test_a_tile_goes_to_workgroup_storage_and_back(programs: Programs, row: int, column: int) -> None:
    data, seen, out = move(programs, row, column)
    assert np.array_equal(seen, data[row : row + 4, column : column + 3])
    want = np.zeros_like(data)
    want[row : row + 4, column : column + 3] = seen
    assert np.array_equal(out, want)


@pytest.mark.parametrize(("row", "column"), [(4, 0), (0, 9), (5, 8)])
def test_what_lies_outside_of_the_tensor_is_zero_and_stays(programs: Programs, row: int, column: int) -> None:
    data, seen, out = move(programs, row, column)
    part = data[row : row + 4, column : column + 3]
    want = np.zeros((4, 3), dtype=np.float32)
    want[: part.shape[0], : part.shape[1]] = part
    assert np.array_equal(seen, want)
    assert np.array_equal(out[row:, column:], data[row:, column:][: out.shape[0] - row, : out.shape[1] - column] * (
        np.arange(6 - row)[:, None] < 4) * (np.arange(10 - column) < 3))  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "code", "part"),
    [
        ({"tile_dim0": 4}, "EVALUATE/001", "says 4 for tile_dim0, the views say 3"),
        ({"tile_dim2": 2}, "EVALUATE/001", "tile_dim2"),
        ({"tensor_dim1": 7}, "EVALUATE/001", "says 7 for tensor_dim1"),
        ({"tensor_dim0_stride": 12}, "EVALUATE/001", "stride of dimension 1"),
        ({"data_size": 1}, "EVALUATE/001", "data_size"),
        ({"count": 0}, "EVALUATE/001", "count"),
        ({"type": 0}, "EVALUATE/001", "type"),
        ({"pad_enable": 1}, "TARGET/001", "'pad_enable'"),
        ({"workgroup_mask": 3}, "TARGET/001", "'workgroup_mask'"),
        ({"gather_mode": 1}, "TARGET/001", "'gather_mode'"),
        ({"iterate_enable": 1}, "TARGET/001", "'iterate_enable'"),
        ({"atomic_barrier_enable": 1}, "TARGET/001", "'atomic_barrier_enable'"),
    ],
)
def test_the_descriptor_agrees_with_the_views(
    programs: Programs, changes: dict[str, int], code: str, part: str
) -> None:
    fault = programs.fault(lambda: move(programs, 0, 0, **changes))
    assert fault.code == code
    assert part in fault.message
    assert programs.source_line(fault).startswith("%t = kernel.async.tensor.load.to.lds")


def test_a_plain_tile_dimension_beyond_the_rank_may_be_one(programs: Programs) -> None:
    data, seen, _ = move(programs, 0, 0, tile_dim2=1)
    assert np.array_equal(seen, data[:4, :3])


def test_two_subgroups_that_load_the_same_tile_race(programs: Programs) -> None:
    fault = programs.fault(lambda: move(programs, 0, 0, size=16))
    assert fault.code in ("EVALUATE/005", "LOWERING/026")


CUBE = """
  %bytes = index.constant 4096 : offset
  %shared = buffer.alloca<workgroup> align(16) %bytes : buffer
  %g = buffer.assume.memory_space<global> %in : buffer
  %from = buffer.view %g[%at0] : buffer -> view<5x4x6xi16>
  %tile = buffer.view %shared[%at0] : buffer -> view<2x3x4xi16>
  %desc = kernel.tensor.lds.descriptor dgroups({names}) : {types} -> kernel.tensor.lds.descriptor
  %t = kernel.async.tensor.load.to.lds %from to %tile using %desc {{cache_scope = cu, cache_temporal = regular}}
    : view<5x4x6xi16> to view<2x3x4xi16>, kernel.tensor.lds.descriptor -> kernel.async.token
{wait}
  %o = buffer.view %out[%at0] : buffer -> view<2x3x4xi16>
  %v = vector.load %tile[0, 0, 0] : view<2x3x4xi16> -> vector<2x3x4xi16>
  %leader = index.constant 0 : index
  %first = index.cmp eq, %lane, %leader : index
  scf.if %first {{
    vector.store %v, %o[0, 0, 0] : vector<2x3x4xi16>, view<2x3x4xi16>
  }}"""


@pytest.mark.parametrize("groups", [2, 4])
def test_three_dimensions_need_four_groups(programs: Programs, groups: int) -> None:
    data = np.arange(120, dtype=np.int16).reshape(5, 4, 6)
    out = np.zeros((2, 3, 4), dtype=np.int16)
    given = words(
        count=1, type=2, data_size=1, tile_dim0=4, tile_dim1=3, tile_dim2=2, tensor_dim0=6, tensor_dim1=4,
        tensor_dim2=5, tensor_dim0_stride=6, tensor_dim1_stride=24,
    )  # fmt: skip
    types = ["vector<4xi32>", "vector<8xi32>", "vector<4xi32>", "vector<4xi32>"]
    names = ", ".join(f"%d{k}" for k in range(groups))
    body = CUBE.format(names=names, types=", ".join(types[:groups]), wait=WAIT)
    parameters = "%in: buffer, %out: buffer, " + ", ".join(f"%d{k}: {t}" for k, t in enumerate(types))
    text = programs.kernel(body, parameters, size=8)

    def launch() -> None:
        programs.launch(text, [], [data, out, *given], facts={"subgroup_size": 8})

    if groups == 2:
        assert programs.fault(launch).code == "EVALUATE/001"
    else:
        launch()
        assert np.array_equal(out, data[:2, :3, :4])


def test_a_subgroup_has_one_descriptor(programs: Programs) -> None:
    """Words that come from a lane's own number differ between the lanes."""
    body = TENSOR.format(row=0, column=0, left="6x10", wait=WAIT).replace("dgroups(%d0, %d1)", "dgroups(%d0, %other)")
    body = (
        "  %word = index.cast %lane : index to i32\n  %other = vector.insert %word into %d1[0] : i32, vector<8xi32>\n"
        + body
    )
    d0, d1, _, _ = words(**plain(0, 0))
    data = np.zeros((6, 10), dtype=np.float32)
    text = programs.kernel(body, PARAMETERS, size=8)
    fault = programs.fault(
        lambda: programs.launch(
            text, [], [data, data.copy(), np.zeros((4, 3), np.float32), d0, d1, 4, 8], facts={"subgroup_size": 8}
        )
    )
    assert fault.code == "EVALUATE/001"
    assert "other operands than the first work-item of its subgroup" in fault.message
