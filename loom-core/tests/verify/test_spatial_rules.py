"""Rules of pools, groups, channels and pipelines: each breach gets its own code, and obligations are met once."""

from __future__ import annotations

import pytest

from loom.ir.diagnostics import Diagnostic
from loom.text.parser import parse_module
from loom.verify.verifier import verify_module

HEAD = """\
func.decl @two(%x: tile<4xi32>, %y: tile<4xi32>) -> (tile<4xi32>)

func.def @take(%w: write<tile<4xi32>>) {
  channel.publish %w : write<tile<4xi32>>
  func.return
}

pipeline.def<kernel> @inner(%n: index) run(%b: view<[%n]xi32>) {
}

"""
CHANNEL = "channel<tile<4xi32>>"
FLOW = "pipeline.flow<tile<4xi32>>"
RESERVE = f"%w, %v = channel.reserve %c : {CHANNEL} -> (write<tile<4xi32>>, view<4xi32>)"
PUBLISH = "channel.publish %w : write<tile<4xi32>>"
ACQUIRE = f"%r, %u = channel.acquire %c : {CHANNEL} -> (read<tile<4xi32>>, view<4xi32>)"
RELEASE = "channel.release %r : read<tile<4xi32>>"
EMPTY = "{\n  }"


def findings(*lines: str, unit: str = "<kernel>") -> list[Diagnostic]:
    text = HEAD + (
        f"pipeline.def{unit} @p(%n: index, %i: i32) run(%b: buffer, %ring: view<2x4xi32>, %c: {CHANNEL}, %f: {FLOW},"
        " %go: i1, %g: group<2>, %h: group<4>, %pool: pool<64>, %x: f32, %bytes: offset) {\n"
        + "".join(f"  {line}\n" for line in lines)
        + "}\n"
    )
    return verify_module(parse_module(text, "p.loom"))


def codes(*lines: str, unit: str = "<kernel>") -> list[str]:
    return [finding.code for finding in findings(*lines, unit=unit)]


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        # pools and groups
        ("%t = pool.load %pool, %x, %bytes : pool<64>, f32, offset -> tile<4xi32>", "TYPE/003"),
        ("%t = pool.load %pool, %i, %n : pool<64>, i32, index -> tile<4xi32>", "TYPE/003"),
        ("%t = pool.load %pool, %i, %bytes : pool<64>, i32, offset -> view<4xi32>", "TYPE/004"),
        ("pool.pin %g, %i : group<2>, i32", "TYPE/003"),
        ("%r = pool.buffer %pool : pool<64> -> buffer", "TYPE/004"),
        ("%k = group.create %n : index -> group<4>", "TYPE/004"),
        ("%k = group.create %n : index -> group<[%n]x2>", "TYPE/004"),
        ("%k = group.create %i : i32 -> group<4>", "TYPE/003"),
        # channels
        (f"%d = channel.bind<fifo> %b, %n : buffer, index -> {CHANNEL}", "TYPE/003"),
        (f"%d = channel.bind<fifo> %ring, %i : view<2x4xi32>, i32 -> {CHANNEL}", "TYPE/003"),
        ("%d = channel.bind<fifo> %ring, %n : view<2x4xi32>, index -> read<tile<4xi32>>", "TYPE/004"),
        ("%d = channel.bind<fifo> %ring, %n : view<2x4xi32>, index -> channel<tile<4xf32>>", "TYPE/002"),
        ("%d = channel.bind<fifo> %ring, %n : view<2x4xi32>, index -> channel<tile<2x4xi32>>", "SHAPE/001"),
        ("%d = channel.bind<fifo> %ring, %n : view<2x4xi32>, index -> channel<tile<5xi32>>", "SHAPE/002"),
        ("%d = channel.bind<fifo> %ring, %n : view<2x4xi32>, index -> channel<buffer>", "TYPE/004"),
        (f"%w, %v = channel.reserve %c : {CHANNEL} -> (write<tile<5xi32>>, view<4xi32>)", "TYPE/001"),
        (f"%w, %v = channel.reserve %c : {CHANNEL} -> (write<tile<4xi32>>, view<4xf32>)", "TYPE/002"),
        (f"%w, %v = channel.reserve %c : {CHANNEL} -> (write<tile<4xi32>>, view<2x4xi32>)", "SHAPE/001"),
        (f"%w, %v = channel.reserve %c : {CHANNEL} -> (write<tile<4xi32>>, view<3xi32>)", "SHAPE/002"),
        (f"%w, %v = channel.reserve %c : {CHANNEL} -> (read<tile<4xi32>>, view<4xi32>)", "TYPE/004"),
        ("%r = channel.accept %ring : view<2x4xi32> -> read<tile<4xi32>>", "TYPE/003"),
        (f"%r = channel.accept<mutable> %c : {CHANNEL} -> read<tile<4xi32>>", "TYPE/004"),
        (f"%r = channel.accept %c : {CHANNEL} -> read<tile<4xi32>, mutable>", "TYPE/004"),
        (f"%r = channel.accept %c : {CHANNEL} -> read<tile<5xi32>>", "TYPE/001"),
        (f"%r, %v = channel.acquire %c : {CHANNEL} -> (read<tile<4xi32>>, view<9xi32>)", "SHAPE/002"),
        (f"%k, %r = channel.select %c : {CHANNEL} -> (index, read<tile<4xi32>, mutable>)", "TYPE/004"),
        (f"%k, %r = channel.select %c : {CHANNEL} -> (i32, read<tile<4xi32>>)", "TYPE/004"),
        # strands
        (f"pipeline.strand workers([0, 1], [1], [1, 1]) {EMPTY}", "STRUCTURE/013"),
        (f"pipeline.strand workers([0], [1], [1, 1]) {EMPTY}", "STRUCTURE/013"),
        (f"pipeline.strand workers([], [], []) {EMPTY}", "STRUCTURE/014"),
        (f"pipeline.strand workers([-1], [1], [1]) {EMPTY}", "STRUCTURE/014"),
        (f"pipeline.strand workers([0], [-1], [1]) {EMPTY}", "STRUCTURE/014"),
        (f"pipeline.strand workers([0], [2], [0]) {EMPTY}", "STRUCTURE/014"),
        (f"pipeline.strand workers([3], [5], [-1]) {EMPTY}", "STRUCTURE/014"),
        (f"pipeline.strand workers([%x], [1], [1]) {EMPTY}", "TYPE/003"),
        (f"pipeline.strand target(@nowhere) workers([0], [1], [1]) {EMPTY}", "SYMBOL/002"),
        (f"pipeline.strand target(@two) workers([0], [1], [1]) {EMPTY}", "SYMBOL/003"),
        # memories and storage in them
        ("%m = pipeline.memory<unknown>[0] : pool", "STRUCTURE/014"),
        ("%m = pipeline.memory<workgroup>[] : pool", "STRUCTURE/014"),
        ("%m = pipeline.memory<workgroup>[-2] : pool", "STRUCTURE/014"),
        ("%m = pipeline.memory<workgroup>[0] : pool<64>", "TYPE/004"),
        ("%m = pipeline.memory<workgroup>[%x] : pool", "TYPE/003"),
        ("%m = pipeline.memory<workgroup>[0] : buffer", "TYPE/004"),
        ("%a = buffer.alloca<private> pool(%pool) align(8) %bytes : buffer", "TYPE/003"),
        ("%a = buffer.alloca<private> pool(%b) align(8) %bytes : buffer", "TYPE/003"),
        # compositions
        ("pipeline.compose @nowhere() : ()", "SYMBOL/002"),
        ("pipeline.compose @two() : ()", "SYMBOL/003"),
        ("pipeline.compose @inner(%b) : (buffer)", "STRUCTURE/001"),
        ("pipeline.compose @inner[%n]() : [index]()", "STRUCTURE/001"),
        ("pipeline.compose @inner[%n](%b) : [index](buffer)", "TYPE/001"),
        # flows
        (f"%a = pipeline.scatter %ring across %b : view<2x4xi32>, buffer -> {FLOW}", "TYPE/003"),
        ("%a = pipeline.scatter %ring across %g : view<2x4xi32>, group<2> -> pipeline.flow<tile<4xf32>>", "TYPE/002"),
        ("%a = pipeline.scatter %ring across %g : view<2x4xi32>, group<2> -> pipeline.flow<tile<2x4xi32>>", "SHAPE/001"),
        ("%a = pipeline.scatter %ring across %g : view<2x4xi32>, group<2> -> pipeline.flow<tile<2xi32>>", "SHAPE/002"),
        (f"%a = pipeline.scatter %ring across %h : view<2x4xi32>, group<4> -> {FLOW}", "SHAPE/002"),
        ("%a = pipeline.read %ring on %g : view<2x4xi32>, group<2> -> pipeline.flow<f32>", "TYPE/004"),
        ("%a = pipeline.read %ring on %g : view<2x4xi32>, group<2> -> pipeline.flow<tile<1x2x4xi32>>", "SHAPE/001"),
        (f"%a = pipeline.stage @two on %g(%f) : (group<2>, {FLOW}) -> ({FLOW})", "STRUCTURE/001"),
        (f"%a, %d = pipeline.stage @two on %g(%f, %f) : (group<2>, {FLOW}, {FLOW}) -> ({FLOW}, {FLOW})", "STRUCTURE/002"),
        (f"%a = pipeline.stage @two on %g(%f, %f) : (group<2>, {FLOW}, {FLOW}) -> (pipeline.flow<f32>)", "TYPE/001"),
        (f"%a = pipeline.stage @inner on %g(%f) : (group<2>, {FLOW}) -> ({FLOW})", "SYMBOL/003"),
        (f"%a = pipeline.stage @none on %g(%f) : (group<2>, {FLOW}) -> ({FLOW})", "SYMBOL/002"),
        (f"%a = pipeline.reduce @none from %g(%f) to %g() : (group<2>, {FLOW}) to (group<2>) -> ({FLOW})", "SYMBOL/002"),
        (f"%a = pipeline.buffer %f capacity %n : ({FLOW}, index) -> pipeline.flow<tile<5xi32>>", "TYPE/001"),
        (f"%a = pipeline.buffer %f capacity %i : ({FLOW}, i32) -> {FLOW}", "TYPE/003"),
        (f"%a = pipeline.fold<addf> %f : {FLOW}", "TYPE/003"),
        (f"%a = pipeline.fold<addi, reassoc> %f : {FLOW}", "TYPE/003"),
        ("%a = pipeline.fold<addi> %n : index", "TYPE/003"),
        (f"pipeline.write %f to %b : {FLOW}, buffer", "TYPE/003"),
        ("%k = pipeline.place %h, %g : group<4>, group<2> -> pipeline.placement<group<4>, group<2>>", "SHAPE/002"),
        ("%k = pipeline.place %g, %h : group<2>, group<4> -> pipeline.placement<group<4>, group<2>>", "TYPE/004"),
        ("%k = pipeline.place %g, %n : group<2>, index -> pipeline.placement<group<2>, group<2>>", "TYPE/003"),
    ],
)  # fmt: skip
def test_a_breach_gets_its_code(statement: str, code: str) -> None:
    assert code in codes(statement)


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["%zero = index.constant 0 : index", f"%d = channel.bind<fifo> %ring, %zero : view<2x4xi32>, index -> {CHANNEL}"], "STRUCTURE/014"),
        (["%zero = index.constant 0 : index", "%k = group.create %zero : index -> group<[%zero]>"], "STRUCTURE/014"),
        (["%zero = index.constant 0 : index", f"%a = pipeline.buffer %f capacity %zero : ({FLOW}, index) -> {FLOW}"], "STRUCTURE/014"),
        (["%m = pipeline.memory<workgroup>[0] : pool", "%a = buffer.alloca<private> pool(%m) align(8) %bytes : buffer"], "STRUCTURE/014"),
        (["%m = pipeline.memory<workgroup>[0] : pool", "pool.pin %m, %i : pool, i32"], "TYPE/003"),
        ([ACQUIRE, "%a = channel.fanout %r : read<tile<4xi32>> -> (read<tile<4xi32>>)"], "STRUCTURE/002"),
        ([ACQUIRE, "%a, %d = channel.fanout %r : read<tile<4xi32>> -> (read<tile<4xi32>>, read<f32>)"], "TYPE/001"),
        ([f"%r = channel.accept<mutable> %c : {CHANNEL} -> read<tile<4xi32>, mutable>",
          "%a, %d = channel.fanout %r : read<tile<4xi32>, mutable> -> (read<tile<4xi32>>, read<tile<4xi32>>)"], "TYPE/003"),
        ([ACQUIRE, "%y = channel.wait %r : read<tile<4xi32>> -> view<4xf32>"], "TYPE/002"),
        ([ACQUIRE, "channel.publish %r : read<tile<4xi32>>"], "TYPE/003"),
        (["%k = pipeline.place %g, %h : group<2>, group<4> -> pipeline.placement<group<2>, group<4>>",
          "pipeline.execute %k(%n) do(%rank: index) {", "  pipeline.yield", "}"], "STRUCTURE/007"),
        (["%k = pipeline.place %g, %h : group<2>, group<4> -> pipeline.placement<group<2>, group<4>>",
          "pipeline.execute %k(%n) do(%rank: index, %x2: i32) {", "  pipeline.yield", "}"], "TYPE/013"),
    ],
)  # fmt: skip
def test_a_breach_of_two_ops_gets_its_code(lines: list[str], code: str) -> None:
    assert code in codes(*lines)


def test_a_copy_keeps_the_payload() -> None:
    found = codes(
        ACQUIRE,
        "%other = channel.bind<fifo> %ring, %n : view<2x4xi32>, index -> channel<vector<4xi32>>",
        "%w, %v = channel.reserve %other : channel<vector<4xi32>> -> (write<vector<4xi32>>, view<4xi32>)",
        "channel.copy %r -> %w : read<tile<4xi32>>, write<vector<4xi32>>",
    )
    assert found == ["TYPE/001"]


@pytest.mark.parametrize(
    ("lines", "unit"),
    [
        ([f"pipeline.strand workers([0], [1], [1]) {EMPTY}"], "<command>"),
        (["%m = pipeline.memory<workgroup>[0] : pool"], ""),
        (["pipeline.strand workers([0], [1], [1]) {", "%m = pipeline.memory<workgroup>[0] : pool", "}"], "<kernel>"),
        (["pipeline.strand workers([0], [1], [1]) {", "pipeline.compose @inner() : ()", "}"], "<kernel>"),
        (["pipeline.strand workers([0], [1], [1]) {", f"pipeline.strand workers([0], [1], [1]) {EMPTY}", "}"], "<kernel>"),
    ],
)  # fmt: skip
def test_what_belongs_to_the_definition(lines: list[str], unit: str) -> None:
    assert "STRUCTURE/029" in codes(*lines, unit=unit)


@pytest.mark.parametrize(
    "statement",
    [
        f"pipeline.strand workers([0], [1], [1]) {EMPTY}",
        "%m = pipeline.memory<workgroup>[0] : pool",
        "pipeline.compose @inner() : ()",
        f"%a = pipeline.fold<addi> %f : {FLOW}",
        f"%a = pipeline.buffer %f capacity %n : ({FLOW}, index) -> {FLOW}",
        f"%a = pipeline.read %ring on %g : view<2x4xi32>, group<2> -> {FLOW}",
        f"pipeline.write %f to %ring : {FLOW}, view<2x4xi32>",
        f"%a = pipeline.stage @two on %g(%f, %f) : (group<2>, {FLOW}, {FLOW}) -> ({FLOW})",
        "%k = pipeline.place %g, %g : group<2>, group<2> -> pipeline.placement<group<2>, group<2>>",
    ],
)
def test_pipelines_are_not_made_of_functions(statement: str) -> None:
    text = (
        f"{HEAD}func.def @f(%n: index, %f: {FLOW}, %ring: view<2x4xi32>, %g: group<2>) {{\n"
        f"  {statement}\n  func.return\n}}\n"
    )
    assert "STRUCTURE/029" in [finding.code for finding in verify_module(parse_module(text))]


@pytest.mark.parametrize(
    ("entry", "end", "valid"),
    [
        ("run", "pipeline.finish", True),
        ("launch", "pipeline.return", True),
        ("run", "pipeline.return", False),
        ("launch", "pipeline.finish", False),
        ("launch", "", False),
        ("run", "", True),
    ],
)
def test_bodies_end_as_their_arguments_are_called(entry: str, end: str, valid: bool) -> None:
    module = parse_module(f"pipeline.def @p() {entry}() {{\n  {end}\n}}\n")
    assert [f.code for f in verify_module(module)] == ([] if valid else ["STRUCTURE/018"])


# -- obligations -------------------------------------------------------------------------------------------

WHILE = ["scf.while {", "  scf.condition %go : i1", "} do {", "  {}", "  scf.yield", "}"]


@pytest.mark.parametrize(
    "lines",
    [
        [RESERVE, PUBLISH],
        [ACQUIRE, "%a, %d = channel.fanout %r : read<tile<4xi32>> -> (read<tile<4xi32>>, read<tile<4xi32>>)",
         "channel.release %a : read<tile<4xi32>>", "channel.release %d : read<tile<4xi32>>"],
        [RESERVE, ACQUIRE, "channel.copy %r -> %w : read<tile<4xi32>>, write<tile<4xi32>>"],
        [RESERVE, "func.call @take(%w) : (write<tile<4xi32>>)"],
        [ACQUIRE, "scf.if %go {", RELEASE, "} else {", RELEASE, "}"],
        [ACQUIRE, "%s = scf.if %go -> (read<tile<4xi32>>) {", "scf.yield %r : read<tile<4xi32>>", "} else {",
         RELEASE, ACQUIRE.replace("%r,", "%r2,").replace("%u", "%u2"), "scf.yield %r2 : read<tile<4xi32>>", "}",
         "channel.release %s : read<tile<4xi32>>"],
        [ACQUIRE, "%s = scf.for %k = [%n to %n step %n](%held = %r : read<tile<4xi32>>) -> (read<tile<4xi32>>) {",
         "channel.release %held : read<tile<4xi32>>", ACQUIRE.replace("%r,", "%r2,").replace("%u", "%u2"),
         "scf.yield %r2 : read<tile<4xi32>>", "}", "channel.release %s : read<tile<4xi32>>"],
        [ACQUIRE, "scf.switch %n {", "  default {", RELEASE, "  }", "}"],
        [RESERVE, "scf.for %k = [%n to %n step %n] {", "view.store %i, %v[%k] : i32, view<4xi32>", "}", PUBLISH],
    ],
)  # fmt: skip
def test_every_obligation_is_met_once(lines: list[str]) -> None:
    assert codes(*lines) == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([RESERVE], ["DOMINANCE/014"]),
        ([ACQUIRE], ["DOMINANCE/014"]),
        ([RESERVE, PUBLISH, PUBLISH], ["DOMINANCE/012"]),
        ([ACQUIRE, RELEASE, "%y = channel.wait %r : read<tile<4xi32>> -> view<4xi32>"], ["DOMINANCE/012"]),
        ([RESERVE, PUBLISH, "view.store %i, %v[0] : i32, view<4xi32>"], ["DOMINANCE/002"]),
        ([ACQUIRE, "%s = view.subview %u[0] : view<4xi32> -> view<2xi32>", RELEASE, "%y = view.load %s[0] : view<2xi32> -> i32"],
         ["DOMINANCE/002"]),
        ([ACQUIRE, "scf.if %go {", RELEASE, "}"], ["DOMINANCE/015"]),
        ([ACQUIRE, "scf.for %k = [%n to %n step %n] {", RELEASE, "}"], ["DOMINANCE/015"]),
        ([*WHILE[:3], ACQUIRE, *WHILE[4:]], ["DOMINANCE/014"]),
        ([ACQUIRE, "scf.if %go {", RELEASE, "} else {", "}", RELEASE], ["DOMINANCE/015", "DOMINANCE/012"]),
        ([ACQUIRE, "pipeline.strand workers([0], [1], [1]) {", RELEASE, "}", RELEASE], ["DOMINANCE/013"]),
        ([ACQUIRE, "%s = scf.select %go, %r, %r : read<tile<4xi32>>", RELEASE, "channel.release %s : read<tile<4xi32>>"],
         ["DOMINANCE/010", "DOMINANCE/010"]),
        (["pipeline.strand workers([0], [1], [1]) {", RESERVE, "}"], ["DOMINANCE/014"]),
        ([ACQUIRE, "%a, %d = channel.fanout %r : read<tile<4xi32>> -> (read<tile<4xi32>>, read<tile<4xi32>>)",
          "channel.release %a : read<tile<4xi32>>"], ["DOMINANCE/014"]),
    ],
)  # fmt: skip
def test_an_obligation_not_met_once_is_found(lines: list[str], expected: list[str]) -> None:
    assert codes(*lines) == expected


def test_the_finding_shows_both_places() -> None:
    (found,) = findings(RESERVE, PUBLISH, "view.store %i, %v[0] : i32, view<4xi32>")
    assert found.params == {"value_name": "v", "consuming_op": "channel.publish"}
    assert [related.label for related in found.related] == ["that ends here"]
    (leak,) = findings(ACQUIRE)
    assert leak.params == {"phase_name": "channel_ownership", "value_name": "r"}
    assert "never released" in leak.message


GRAPH = """
func.def @f(%c: channel<tile<i32>>, %go: i1) {{
  %r = channel.accept %c : channel<tile<i32>> -> read<tile<i32>>
  cfg.cond_br %go, ^a, ^b
^a:
  {a}
  cfg.br ^end
^b:
  {b}
  cfg.br ^end
^end:
  {end}
  func.return
}}
"""


@pytest.mark.parametrize(
    ("a", "b", "end", "expected"),
    [
        (True, True, False, []),
        (False, False, True, []),
        (True, False, False, ["DOMINANCE/015"]),
        (False, False, False, ["DOMINANCE/014"]),
        (True, True, True, ["DOMINANCE/012"]),
    ],
)
def test_blocks_agree_where_they_meet(a: bool, b: bool, end: bool, expected: list[str]) -> None:
    release = "channel.release %r : read<tile<i32>>"
    text = GRAPH.format(**{name: release if on else "" for name, on in (("a", a), ("b", b), ("end", end))})
    assert [f.code for f in verify_module(parse_module(text))] == expected


def test_arguments_are_owned_from_the_start() -> None:
    text = "func.def @f(%w: write<f32>) {\n  func.return\n}\n"
    assert [f.code for f in verify_module(parse_module(text))] == ["DOMINANCE/014"]
    given = "func.def @f(%w: write<f32>) -> (write<f32>) {\n  func.return %w : write<f32>\n}\n"
    assert verify_module(parse_module(given)) == []


def test_a_loop_of_blocks_changes_nothing_around_it() -> None:
    text = """
func.def @f(%c: channel<tile<i32>>, %go: i1) {
  %r = channel.accept %c : channel<tile<i32>> -> read<tile<i32>>
  cfg.br ^loop
^loop:
  channel.release %r : read<tile<i32>>
  cfg.cond_br %go, ^loop, ^end
^end:
  func.return
}
"""
    assert [f.code for f in verify_module(parse_module(text))] == ["DOMINANCE/015"]
