"""Channels, pools, groups and pipelines as text: canonical programs stay as they are, and survive bytecode."""

from __future__ import annotations

import pytest

from loom.bytecode import read_module, write_module
from loom.ir.diagnostics import LoomError
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import verify_module

RELAY = """\
pipeline.def<kernel> @relay(%depth: index) run(%out: buffer) where [ge(%depth, 1)] {
  %shared = pipeline.memory<workgroup>[0, 2] : pool
  %origin = index.constant 0 : offset
  %slot_bytes = index.constant 32 : offset
  %raw = buffer.alloca<workgroup> pool(%shared) align(8) %slot_bytes : buffer
  %ring = buffer.view %raw[%origin] : buffer -> view<2x4xi32>
  %link = channel.bind<fifo> %ring, %depth : view<2x4xi32>, index -> channel<tile<4xi32>>

  // The writer.
  pipeline.strand workers([0, 1], [1, 1], [1, 1]) {
    %w, %slot = channel.reserve %link : channel<tile<4xi32>> -> (write<tile<4xi32>>, view<4xi32>)
    channel.publish %w : write<tile<4xi32>>
  }
  pipeline.strand workers([0, %depth], [1, 1], [1, 1]) {
    %r, %slot = channel.acquire %link : channel<tile<4xi32>> -> (read<tile<4xi32>>, view<4xi32>)
    channel.release %r : read<tile<4xi32>>
  }
}

pipeline.def<kernel> public retain @relay_once() run(%out: buffer) {
  %two = index.constant 2 : index
  pipeline.compose @relay[%two](%out) : [index](buffer)
}
"""

ENDS = """\
func.def @ends(%n: index, %c: channel<tile<[%n]xf32>>, %from: read<tile<4xi8>>, %into: write<tile<4xi8>>) {
  %r = channel.accept %c : channel<tile<[%n]xf32>> -> read<tile<[%n]xf32>>
  %v = channel.wait %r : read<tile<[%n]xf32>> -> view<[%n]xf32>
  %a, %b, %d = channel.fanout %r : read<tile<[%n]xf32>> -> (read<tile<[%n]xf32>>, read<tile<[%n]xf32>>, read<tile<[%n]xf32>>)
  channel.release %a : read<tile<[%n]xf32>>
  channel.release %b : read<tile<[%n]xf32>>
  channel.release %d : read<tile<[%n]xf32>>
  %m = channel.accept<mutable> %c : channel<tile<[%n]xf32>> -> read<tile<[%n]xf32>, mutable>
  channel.release %m : read<tile<[%n]xf32>, mutable>
  %o, %view = channel.acquire<mutable> %c : channel<tile<[%n]xf32>> -> (read<tile<[%n]xf32>, mutable>, view<[%n]xf32>)
  channel.release %o : read<tile<[%n]xf32>, mutable>
  channel.copy %from -> %into : read<tile<4xi8>>, write<tile<4xi8>>
  %rank, %s = channel.select %c : channel<tile<[%n]xf32>> -> (index, read<tile<[%n]xf32>>)
  channel.release %s : read<tile<[%n]xf32>>
  func.return
}
"""

POOLS = """\
func.def @pages(%bs: index, %store: pool<[%bs]>, %page: i32, %page_bytes: offset, %at: offset) -> (hal.buffer) {
  %t = pool.load %store, %page, %page_bytes : pool<[%bs]>, i32, offset -> tile<4x8xf16>
  pool.store %store, %page, %page_bytes, %at, %t : pool<[%bs]>, i32, offset, offset, tile<4x8xf16>
  pool.pin %store, %page : pool<[%bs]>, i32
  pool.unpin %store, %page : pool<[%bs]>, i32
  %raw = pool.buffer %store : pool<[%bs]> -> hal.buffer
  func.return %raw : hal.buffer
}

func.decl @fixed(%store: pool<4096>, %memory: pool, %grid: group<4x2>)
"""

FLOWS = """\
func.def @pair(%x: tile<4xf32>, %y: tile<4xf32>) -> (tile<4xf32>) {
  func.return %x : tile<4xf32>
}

pipeline.def<command> @flows(%n: index) launch(%in: view<2x[%n]x4xf32>, %out: view<2x[%n]x4xf32>) {
  %lanes = index.constant 2 : index
  %g = group.create %lanes : index -> group<2>
  %a = pipeline.scatter %in across %g : view<2x[%n]x4xf32>, group<2> -> pipeline.flow<tile<4xf32>>
  %b = pipeline.read %in on %g : view<2x[%n]x4xf32>, group<2> -> pipeline.flow<tile<4xf32>>
  %c = pipeline.stage @pair on %g(%a, %b) : (group<2>, pipeline.flow<tile<4xf32>>, pipeline.flow<tile<4xf32>>) -> (pipeline.flow<tile<4xf32>>)
  %d = pipeline.buffer %c capacity %lanes : (pipeline.flow<tile<4xf32>>, index) -> pipeline.flow<tile<4xf32>>
  %e = pipeline.fold<addf, reassoc> %d : pipeline.flow<tile<4xf32>>
  %f = pipeline.fold<maxnumf> %d : pipeline.flow<tile<4xf32>>
  %h = pipeline.reduce @pair from %g(%a) to %g(%e) : (group<2>, pipeline.flow<tile<4xf32>>) to (group<2>, pipeline.flow<tile<4xf32>>) -> (pipeline.flow<tile<4xf32>>)
  pipeline.reduce @pair from %g() to %g(%f) : (group<2>) to (group<2>, pipeline.flow<tile<4xf32>>) -> ()
  pipeline.write %d to %out : pipeline.flow<tile<4xf32>>, view<2x[%n]x4xf32>
  pipeline.return
}

pipeline.def @placed() run(%out: buffer) {
  %four = index.constant 4 : index
  %two = index.constant 2 : index
  %l = group.create %four : index -> group<[%four]>
  %p = group.create %two : index -> group<[%two]>
  %around = pipeline.place<cyclic> %l, %p : group<[%four]>, group<[%two]> -> pipeline.placement<group<[%four]>, group<[%two]>>
  %own = pipeline.place %p, %l : group<[%two]>, group<[%four]> -> pipeline.placement<group<[%two]>, group<[%four]>>
  pipeline.execute %around(%out) do(%rank: index, %o: buffer) {
    pipeline.yield
  }
  pipeline.execute %own() do(%rank: index) {
    pipeline.yield
  }
}
"""


@pytest.mark.parametrize("text", [RELAY, ENDS, POOLS, FLOWS], ids=["strands", "ends", "pools", "flows"])
def test_canonical_programs_stay_as_they_are(text: str) -> None:
    module = parse_module(text)
    assert print_module(module) == text
    assert verify_module(module) == []
    assert print_module(read_module(write_module(module))) == text


def test_ends_of_bodies_are_implicit() -> None:
    """What may be left out may also be written; the printer leaves it out."""
    text = "pipeline.def @p() run() {\n  pipeline.strand workers([0], [1], [0]) {\n    pipeline.end\n  }\n  pipeline.finish\n}\n"
    short = "pipeline.def @p() run() {\n  pipeline.strand workers([0], [1], [0]) {\n  }\n}\n"
    module = parse_module(text)
    assert print_module(module) == short
    names = [op.name for op in parse_module(short).walk()]
    assert sorted(names) == ["pipeline.def", "pipeline.end", "pipeline.finish", "pipeline.strand"]


def test_targets_of_strands_are_kept() -> None:
    text = """\
target.generic<test> @cores

pipeline.def target(@cores) @p() run() {
  pipeline.strand target(@cores) workers([0], [1], [1]) {
  }
}
"""
    module = parse_module(text)
    assert verify_module(module) == []
    assert print_module(module) == text


@pytest.mark.parametrize(
    ("type_", "code"),
    [
        ("channel<f32", "PARSE/003"),
        ("channel<f32, mutable>", "PARSE/003"),
        ("write<f32, mutable>", "PARSE/003"),
        ("read<f32, fast>", "PARSE/003"),
        ("write", "PARSE/004"),
        ("pipeline.flow", "PARSE/004"),
        ("pipeline.placement<group<2>>", "PARSE/003"),
        ("pool<2x4>", "PARSE/004"),
        ("chanel<f32>", "PARSE/007"),
    ],
)
def test_malformed_types_are_reported(type_: str, code: str) -> None:
    with pytest.raises(LoomError) as caught:
        parse_module(f"func.decl @f(%c: {type_})\n")
    assert caught.value.diagnostics[0].code == code


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("%c = channel.bind<lifo> %ring, %n : view<2x4xi32>, index -> channel<tile<4xi32>>", "PARSE/017"),
        ("%c = channel.bind %ring, %n : view<2x4xi32>, index -> channel<tile<4xi32>>", "PARSE/003"),
        ("pipeline.strand workers([0], [1]) {\n}", "PARSE/003"),
        ("%m = pipeline.memory<shared>[0] : pool", "PARSE/017"),
    ],
)
def test_malformed_statements_are_reported(statement: str, code: str) -> None:
    text = f"pipeline.def<kernel> @p(%n: index) run(%ring: view<2x4xi32>) {{\n{statement}\n}}\n"
    with pytest.raises(LoomError) as caught:
        parse_module(text)
    assert caught.value.diagnostics[0].code == code
