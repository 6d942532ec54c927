"""The flow form of pipelines, groups and pools: closed forms where the meaning is stated, refusals elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from loom.evaluate.machine import Program
from loom.evaluate.pipelines import run_pipeline
from loom.text.parser import parse_module
from loom.verify.verifier import require_valid

Programs = Any

FLOW = "pipeline.flow<tile<2xf32>>"
PAIR = """
func.def @swap(%x: tile<2xf32>, %y: tile<2xf32>) -> (tile<2xf32>, tile<2xf32>) {
  func.return %y, %x : tile<2xf32>, tile<2xf32>
}
"""


def run(text: str, specializations: Sequence[int], arguments: Sequence[Any]) -> None:
    module = parse_module(text, "p.loom")
    require_valid(module)
    run_pipeline(Program(module), module.symbols()["p"], specializations, arguments)


def flows(*lines: str, parameters: str, lanes: int = 3) -> str:
    body = "".join(f"  {line}\n" for line in lines)
    return f"""{PAIR}
pipeline.def @p(%n: index) launch({parameters}) {{
  %lanes = index.constant {lanes} : index
  %g = group.create %lanes : index -> group<[%lanes]>
{body}  pipeline.return
}}
"""


SCATTER = f"%a = pipeline.scatter %in across %g : view<3x[%n]x2xf32>, group<[%lanes]> -> {FLOW}"
READ = f"%b = pipeline.read %all on %g : view<[%n]x2xf32>, group<[%lanes]> -> {FLOW}"
IN = "%in: view<3x[%n]x2xf32>"
ALL = "%all: view<[%n]x2xf32>"


def data(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).integers(-9, 9, shape).astype(np.float32)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_stages_meet_the_records_of_each_lane(count: int) -> None:
    text = flows(
        SCATTER,
        READ,
        f"%x, %y = pipeline.stage @swap on %g(%a, %b) : (group<[%lanes]>, {FLOW}, {FLOW}) -> ({FLOW}, {FLOW})",
        f"%z = pipeline.buffer %x capacity %lanes : ({FLOW}, index) -> {FLOW}",
        f"pipeline.write %z to %to_x : {FLOW}, view<3x[%n]x2xf32>",
        f"pipeline.write %y to %to_y : {FLOW}, view<3x[%n]x2xf32>",
        parameters=f"{IN}, {ALL}, %to_x: view<3x[%n]x2xf32>, %to_y: view<3x[%n]x2xf32>",
    )
    rows, common = data(3, count, 2), data(count, 2)
    x, y = np.zeros_like(rows), np.zeros_like(rows)
    run(text, [count], [rows, common, x, y])
    assert np.array_equal(x, np.broadcast_to(common, rows.shape))
    assert np.array_equal(y, rows)


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize(("kind", "fold"), [("addf", np.sum), ("maximumf", np.max), ("minnumf", np.min)])
def test_folds_combine_the_innermost_time_axis(kind: str, fold: Any, count: int) -> None:
    text = flows(
        f"%a = pipeline.scatter %in across %g : view<3x4x[%n]x2xf32>, group<[%lanes]> -> {FLOW}",
        f"%f = pipeline.fold<{kind}> %a : {FLOW}",
        f"pipeline.write %f to %out : {FLOW}, view<3x4x2xf32>",
        parameters="%in: view<3x4x[%n]x2xf32>, %out: view<3x4x2xf32>",
    )
    rows, out = data(3, 4, count, 2), np.zeros((3, 4, 2), np.float32)
    run(text, [count], [rows, out])
    assert np.array_equal(out, fold(rows, axis=2))


def test_a_fold_of_nothing_is_neutral() -> None:
    text = flows(
        SCATTER,
        f"%f = pipeline.fold<maximumf> %a : {FLOW}",
        f"pipeline.write %f to %out : {FLOW}, view<3x2xf32>",
        parameters=f"{IN}, %out: view<3x2xf32>",
    )
    out = np.zeros((3, 2), np.float32)
    run(text, [0], [data(3, 0, 2), out])
    assert (out == -np.inf).all()


def test_one_lane_may_leave_its_axis_out() -> None:
    text = flows(
        READ,
        f"pipeline.write %b to %out : {FLOW}, view<[%n]x2xf32>",
        parameters=f"{ALL}, %out: view<[%n]x2xf32>",
        lanes=1,
    )
    common, out = data(4, 2), np.zeros((4, 2), np.float32)
    run(text, [4], [common, out])
    assert np.array_equal(out, common)


def test_flows_are_read_when_they_are_used() -> None:
    """Making a flow is pure: a store between it and its use is seen."""
    text = flows(
        READ,
        "%zero = index.constant 0 : index",
        "%v = scalar.constant 5.0 : f32",
        "view.store %v, %all[%zero, 1] : f32, view<[%n]x2xf32>",
        f"pipeline.write %b to %out : {FLOW}, view<[%n]x2xf32>",
        parameters=f"{ALL}, %out: view<[%n]x2xf32>",
        lanes=1,
    )
    out = np.zeros((1, 2), np.float32)
    run(text, [1], [np.zeros((1, 2), np.float32), out])
    assert out.tolist() == [[0.0, 5.0]]


@pytest.mark.parametrize(
    ("lines", "code", "part"),
    [
        ([SCATTER.replace("%g :", "%h :").replace("group<[%lanes]>", "group<[%n]>")], "EVALUATE/010", "3 rows for a group of 2"),
        ([SCATTER, f"%f = pipeline.fold<addf> %a : {FLOW}", f"%h2 = pipeline.fold<addf> %f : {FLOW}"], "EVALUATE/010", "no time axis"),
        ([SCATTER, f"pipeline.write %a to %all : {FLOW}, view<[%n]x2xf32>"], "EVALUATE/010", "records of the shape [3, 2, 2]"),
        (
            [SCATTER, READ.replace("%g :", "%h :").replace("group<[%lanes]>", "group<[%n]>"),
             f"%x, %y = pipeline.stage @swap on %g(%a, %b) : (group<[%lanes]>, {FLOW}, {FLOW}) -> ({FLOW}, {FLOW})"],
            "EVALUATE/010",
            "2 lanes of [2] records",
        ),
        ([SCATTER, f"%z = pipeline.buffer %a capacity %none : ({FLOW}, index) -> {FLOW}"], "EVALUATE/010", "no record"),
        (
            [SCATTER, f"%z = pipeline.reduce @swap from %g(%a) to %h() : (group<[%lanes]>, {FLOW}) to (group<[%n]>) -> ({FLOW})"],
            "TARGET/001",
            "is not stated",
        ),
        (["%bad = group.create %none : index -> group<[%none]>"], "EVALUATE/010", "a group of 0 lanes"),
        (
            ["%pl = pipeline.place %g, %h : group<[%lanes]>, group<[%n]> -> pipeline.placement<group<[%lanes]>, group<[%n]>>"],
            "EVALUATE/010",
            "without 'cyclic'",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_a_fault(programs: Programs, lines: list[str], code: str, part: str) -> None:
    text = flows(
        "%none = index.sub %n, %n : index",
        "%h = group.create %n : index -> group<[%n]>",
        *lines,
        parameters=f"{IN}, {ALL}",
    )
    fault = programs.fault(lambda: run(text, [2], [data(3, 2, 2), data(2, 2)]))
    assert fault.code == code
    assert part in fault.message


@pytest.mark.parametrize("older", [False, True], ids=["extents", "bare groups"])
def test_members_of_a_placement_run_with_their_rank(older: bool) -> None:
    text = """
pipeline.def @p(%n: index) run(%out: view<[%n]xi32>) {
  %two = index.constant 2 : index
  %l = group.create %n : index -> group<[%n]>
  %g = group.create %two : index -> group<[%two]>
  %pl = pipeline.place<cyclic> %l, %g : group<[%n]>, group<[%two]> -> pipeline.placement<group<[%n]>, group<[%two]>>
  pipeline.execute %pl(%two) do(%rank: index, %factor: index) {
    %product = index.mul %rank, %factor : index
    %word = index.cast %product : index to i32
    view.store %word, %out[%rank] : i32, view<[%n]xi32>
    pipeline.yield
  }
}
"""
    if older:
        text = text.replace("group<[%n]>", "group<workgroup>").replace("group<[%two]>", "group")
    out = np.full(5, -1, dtype=np.int32)
    run(text, [5], [out])
    assert out.tolist() == [0, 2, 4, 6, 8]


PAGES = """
func.def @f(%bs: index, %store: pool<[%bs]>, %from: i32, %to: i32, %page_bytes: offset, %at: offset) {
  %t = pool.load %store, %from, %page_bytes : pool<[%bs]>, i32, offset -> tile<2x4xf16>
  pool.store %store, %to, %page_bytes, %at, %t : pool<[%bs]>, i32, offset, offset, tile<2x4xf16>
  func.return
}

func.def @pins(%bs: index, %store: pool<[%bs]>, %a: i32, %b: i32) -> (hal.buffer) {
  pool.pin %store, %a : pool<[%bs]>, i32
  pool.pin %store, %a : pool<[%bs]>, i32
  pool.unpin %store, %a : pool<[%bs]>, i32
  pool.unpin %store, %b : pool<[%bs]>, i32
  %raw = pool.buffer %store : pool<[%bs]> -> hal.buffer
  func.return %raw : hal.buffer
}
"""


def test_pages_hold_tiles(programs: Programs) -> None:
    """A page of 32 bytes holds 16 halves; the tile goes from the start of one into the middle of another."""
    memory = np.arange(64, dtype=np.float16)
    want = memory.copy()
    want[48 + 4 : 48 + 12] = memory[16:24]
    programs.call(PAGES, "f", [128, memory, 1, 3, 32, 8])
    assert np.array_equal(memory, want)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([1, 4, 32, 0], "page 4 of a pool of 4 pages"),
        ([-1, 0, 32, 0], "page -1"),
        ([0, 1, 32, 17], "bytes 17 to 32 of a page of 32 bytes"),
        ([0, 1, 32, 18], "bytes 18 to 33"),
        ([0, 1, 8, 0], "bytes 0 to 15 of a page of 8 bytes"),
        ([0, 1, 0, 0], "of a page of 0 bytes"),
    ],
)
def test_pages_have_bounds(programs: Programs, arguments: list[int], part: str) -> None:
    fault = programs.fault(lambda: programs.call(PAGES, "f", [128, np.zeros(64, dtype=np.float16), *arguments]))
    assert fault.code == "EVALUATE/002"
    assert part in fault.message


def test_tiles_in_pages_are_aligned(programs: Programs) -> None:
    fault = programs.fault(lambda: programs.call(PAGES, "f", [128, np.zeros(64, dtype=np.float16), 0, 1, 32, 1]))
    assert fault.code == "EVALUATE/003"


def test_blocks_are_pinned_and_unpinned(programs: Programs) -> None:
    memory = np.arange(64, dtype=np.uint8)
    (raw,) = programs.call(PAGES, "pins", [16, memory, 3, 3])
    assert np.array_equal(raw, memory)
    unpinned = programs.fault(lambda: programs.call(PAGES, "pins", [16, memory, 3, 2]))
    assert (unpinned.code, "block 2 is not pinned" in unpinned.message) == ("EVALUATE/001", True)
    outside = programs.fault(lambda: programs.call(PAGES, "pins", [16, memory, 4, 4]))
    assert outside.code == "EVALUATE/002"


def test_tiles_have_their_extents(programs: Programs) -> None:
    text = (
        "func.def @f(%n: index, %t: tile<[%n]x2xi32>) -> (tile<[%n]x2xi32>) {\n  func.return %t : tile<[%n]x2xi32>\n}\n"
    )
    tile = np.arange(6, dtype=np.int32).reshape(3, 2)
    (same,) = programs.call(text, "f", [3, tile])
    assert np.array_equal(same, tile)
    assert programs.fault(lambda: programs.call(text, "f", [2, tile])).code == "EVALUATE/010"
