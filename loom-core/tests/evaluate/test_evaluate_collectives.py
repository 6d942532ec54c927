"""Collectives of subgroups and workgroups against loops over lanes, with whole and partly active teams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loom.evaluate.limits import Limits

Programs = Any

ITEMS, GROUPS, SIZE = 20, 3, 8
# Subgroups of eight in workgroups of twenty: the last one of each workgroup has four lanes.
TEAMS = [
    [group * ITEMS + lane for lane in range(first, min(first + SIZE, ITEMS))]
    for group in range(GROUPS)
    for first in range(0, ITEMS, SIZE)
]
WORKGROUPS = [list(range(group * ITEMS, (group + 1) * ITEMS)) for group in range(GROUPS)]
VALUES = np.random.default_rng(3).integers(-40, 40, GROUPS * ITEMS).astype(np.int32)
ACTIVE = np.random.default_rng(4).integers(0, 3, GROUPS * ITEMS) > 0
ACTIVE[ITEMS : ITEMS + SIZE] = False


def run(programs: Programs, lines: str, results: dict[str, str], active: bool, batch: int = 1 << 15) -> list[Any]:
    """The results of lines that see `%v` (VALUES) and `%p` (odd values), in active work-items only if asked for."""
    count = GROUPS * ITEMS
    dtypes = {"i32": np.int32, "i64": np.int64, "i1": bool, "f32": np.float32, "vector<2xi32>": np.int32}
    stores, outs, parameters = [], [], ["%values: buffer", "%mask: buffer"]
    for name, type_ in results.items():
        dialect, suffix, tail = ("vector", ", 0", "2xi32") if type_.startswith("vector") else ("view", "", type_)
        view = f"view<{count}x{tail}>"
        stores.append(f"    %o_{name} = buffer.view %b_{name}[%at0] : buffer -> {view}")
        stores.append(f"    {dialect}.store %{name}, %o_{name}[%item{suffix}] : {type_}, {view}")
        parameters.append(f"%b_{name}: buffer")
        outs.append(np.zeros((count, 2) if suffix else count, dtype=dtypes[type_]))
    inner = "\n".join([lines, *stores])
    body = f"""
  %vv = buffer.view %values[%at0] : buffer -> view<{count}xi32>
  %mv = buffer.view %mask[%at0] : buffer -> view<{count}xi1>
  %v = view.load %vv[%item] : view<{count}xi32> -> i32
  %on = view.load %mv[%item] : view<{count}xi1> -> i1
  %p = scalar.trunci %v : i32 to i1
{f"  scf.if %on {{{chr(10)}{inner}{chr(10)}  }}" if active else inner}"""
    same = "func.def @same(%x: i32) -> (i32) {\n  func.return %x : i32\n}\n"
    text = programs.kernel(body, ", ".join(parameters), size=ITEMS, groups=GROUPS, extra=same)
    limits = Limits(batch_lanes=batch)
    arguments = [VALUES.copy(), ACTIVE.copy(), *outs]
    programs.launch(text, [], arguments, facts={"subgroup_size": SIZE}, limits=limits)
    return outs


def by_team(teams: list[list[int]], active: bool, of: Callable[[list[int]], Any]) -> list[Any]:
    """For each work-item what its team gives, 0 in inactive work-items. `of` gives a list for the team's items."""
    result: list[Any] = [0] * (GROUPS * ITEMS)
    for team in teams:
        items = [i for i in team if ACTIVE[i] or not active]
        if items:
            for item, value in zip(items, of(items), strict=True):
                result[item] = value
    return result


def scanned(items: list[int], exclusive: bool, reverse: bool) -> list[int]:
    order = items[::-1] if reverse else items
    total, found = 0, {}
    for item in order:
        found[item] = total if exclusive else total + VALUES[item]
        total += VALUES[item]
    return [found[i] for i in items]


@pytest.mark.parametrize("active", [False, True])
def test_subgroup_reductions(programs: Programs, active: bool) -> None:
    lines = """
    %sum = kernel.subgroup.reduce<addi> %v : i32
    %low = kernel.subgroup.reduce<minsi> %v : i32
    %big = kernel.subgroup.reduce<maxui> %v : i32
    %pair = vector.from_elements %v, %sum : vector<2xi32>
    %both = kernel.subgroup.reduce<xori> %pair : vector<2xi32>"""
    types = {"sum": "i32", "low": "i32", "big": "i32", "both": "vector<2xi32>"}
    total, low, big, both = run(programs, lines, types, active)

    def each(of: Callable[[Any], Any]) -> list[Any]:
        return by_team(TEAMS, active, lambda items: [of(VALUES[items])] * len(items))

    assert list(total) == each(np.sum)
    assert list(low) == each(np.min)
    assert list(big) == each(lambda v: v.view(np.uint32).max().view(np.int32))
    assert list(both[:, 0]) == each(np.bitwise_xor.reduce)
    assert list(both[:, 1]) == each(lambda v: v.sum() if v.size % 2 else 0)


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("mode", ["inclusive", "exclusive"])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_subgroup_scans(programs: Programs, active: bool, mode: str, direction: str) -> None:
    line = f"    %r = kernel.subgroup.scan<addi> %v {{direction = {direction}, mode = {mode}}} : i32"
    (r,) = run(programs, line, {"r": "i32"}, active)
    want = by_team(TEAMS, active, lambda items: scanned(items, mode == "exclusive", direction == "reverse"))
    assert list(r) == want


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize(("size", "stride"), [(2, 1), (4, 1), (2, 4), (4, 2), (8, 1), (1, 1)])
def test_clusters(programs: Programs, active: bool, size: int, stride: int) -> None:
    lines = f"""
    %sum = kernel.subgroup.reduce<addi> %v {{cluster_size = {size}, cluster_stride = {stride}}} : i32
    %r = kernel.subgroup.scan<addi> %v
      {{cluster_size = {size}, cluster_stride = {stride}, direction = forward, mode = exclusive}} : i32"""
    total, r = run(programs, lines, {"sum": "i32", "r": "i32"}, active)
    clusters = []
    for team in TEAMS:
        for block in range(0, SIZE, size * stride):
            for start in range(block, block + stride):
                lanes = [start + k * stride for k in range(size)]
                clusters.append([team[k] for k in lanes if k < len(team)])
    assert list(total) == by_team(clusters, active, lambda items: [int(VALUES[items].sum())] * len(items))
    assert list(r) == by_team(clusters, active, lambda items: scanned(items, True, False))


@pytest.mark.parametrize("active", [False, True])
def test_votes_and_matches(programs: Programs, active: bool) -> None:
    lines = """
    %some = kernel.subgroup.vote.any %p : i1
    %every = kernel.subgroup.vote.all %p : i1
    %ballot = kernel.subgroup.vote.ballot %p : i1 -> i64
    %here = kernel.subgroup.active.mask : i32
    %four = scalar.constant 4 : i32
    %rest = scalar.remsi %v, %four : i32
    %same = kernel.subgroup.match.any %rest : i32 -> i32
    %mask, %agree = kernel.subgroup.match.all %four : i32 -> i32, i1
    %none, %not = kernel.subgroup.match.all %v : i32 -> i32, i1"""
    types = {"some": "i1", "every": "i1", "ballot": "i64", "here": "i32", "same": "i32"}
    types |= {"mask": "i32", "agree": "i1", "none": "i32", "not": "i1"}
    some, every, ballot, here, same, mask, agree, none, not_ = run(programs, lines, types, active)

    def bits(items: list[int], what: Callable[[int], Any], value: Any = True) -> int:
        return sum(1 << (i % ITEMS % SIZE) for i in items if what(i) == value)

    def each(of: Callable[[list[int]], Any]) -> list[Any]:
        return by_team(TEAMS, active, lambda items: [of(items)] * len(items))

    odd = VALUES % 2 == 1
    rest = np.fmod(VALUES, 4)
    assert list(some) == each(lambda items: any(odd[items]))
    assert list(every) == each(lambda items: all(odd[items]))
    assert list(ballot) == each(lambda items: bits(items, lambda i: bool(odd[i])))
    assert list(here) == list(mask) == each(lambda items: bits(items, lambda i: True))
    assert list(same) == by_team(TEAMS, active, lambda items: [bits(items, rest.__getitem__, of) for of in rest[items]])
    assert list(agree) == each(lambda items: True)
    alike = each(lambda items: len(set(VALUES[items])) == 1)
    assert list(not_) == alike
    assert list(none) == [h if a else 0 for h, a in zip(here, alike, strict=True)]


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("offset", [0, 1, 3, 9, -1])
@pytest.mark.parametrize("mode", ["xor", "up", "down", "index"])
def test_shuffles(programs: Programs, active: bool, offset: int, mode: str) -> None:
    lines = f"""
    %off = scalar.constant {offset} : i32
    %w = scalar.constant {SIZE} : i32
    %moved, %ok = kernel.subgroup.shuffle<{mode}> %v, %off, %w : i32, i32, i32
    %r = scf.select %ok, %moved, %off : i32"""
    r, ok = run(programs, lines, {"r": "i32", "ok": "i1"}, active)
    sources: dict[str, Callable[[int], int]] = {
        "xor": lambda lane: lane ^ offset,
        "up": lambda lane: lane - offset,
        "down": lambda lane: lane + offset,
        "index": lambda lane: offset,
    }
    for team in TEAMS:
        for lane, item in enumerate(team):
            if active and not ACTIVE[item]:
                continue
            other = sources[mode](lane)
            valid = 0 <= other < len(team) and bool(ACTIVE[team[other]] or not active)
            assert ok[item] == valid
            assert r[item] == (VALUES[team[other]] if valid else offset)


# A sum by shuffles: only what lane 0 holds at the end comes from lanes that are there.
HALVING = """
    %w = scalar.constant 8 : i32
    %four = scalar.constant 4 : i32
    %two = scalar.constant 2 : i32
    %one = scalar.constant 1 : i32
    %zero = scalar.constant 0 : i32
    %far, %ok0 = kernel.subgroup.shuffle<down> %v, %four, %w : i32, i32, i32
    %a = scf.select %ok0, %far, %zero : i32
    %b = scalar.addi %v, %a : i32
    %c, %ok1 = kernel.subgroup.shuffle<down> %b, %two, %w : i32, i32, i32
    %d = scalar.addi %b, %c : i32
    %e, %ok2 = kernel.subgroup.shuffle<down> %d, %one, %w : i32, i32, i32
    %f = scalar.addi %d, %e : i32"""


def test_what_a_shuffle_leaves_open_may_be_computed_with(programs: Programs) -> None:
    (r,) = run(programs, f"{HALVING}\n    %r = kernel.subgroup.broadcast.first %f : i32", {"r": "i32"}, False)
    assert list(r) == by_team(TEAMS, False, lambda items: [sum(VALUES[items])] * len(items))


@pytest.mark.parametrize(
    ("lines", "type_"),
    [
        ("%r = scf.select %ok, %moved, %zero : i32", "i32"),
        ("%r = scf.if %ok -> (i32) {\n scf.yield %moved : i32\n } else {\n scf.yield %zero : i32\n }", "i32"),
        ("%k = index.cast %ok : i1 to index\n %r = scf.lookup %k {\n 1 = (%moved)\n } default(%zero) : i32", "i32"),
        ("%m = vector.splat %ok : vector<2xi1>\n %a = vector.splat %moved : vector<2xi32>\n"
         " %b = vector.splat %zero : vector<2xi32>\n %r = vector.select %m, %a, %b : vector<2xi32>", "vector<2xi32>"),
    ],
)  # fmt: skip
def test_what_a_shuffle_leaves_open_need_not_be_selected(programs: Programs, lines: str, type_: str) -> None:
    text = f"""
    %w = scalar.constant {SIZE} : i32
    %one = scalar.constant 1 : i32
    %zero = scalar.constant 0 : i32
    %moved, %ok = kernel.subgroup.shuffle<down> %v, %one, %w : i32, i32, i32
    {lines}"""
    (r,) = run(programs, text, {"r": type_}, False)
    want = by_team(TEAMS, False, lambda items: [*VALUES[items[1:]], 0])
    assert np.array_equal(r if r.ndim == 1 else r[:, 0], want)
    swapped = text.replace("%moved, %zero", "%zero, %moved").replace("%a, %b :", "%b, %a :")
    swapped = (
        swapped.replace("scf.yield %zero", "scf.yield %x")
        .replace("(%moved)", "(%x)")
        .replace("(%zero)", "(%moved)")
        .replace("(%x)", "(%zero)")
    )
    swapped = swapped.replace("scf.yield %moved", "scf.yield %zero").replace("scf.yield %x", "scf.yield %moved")
    assert programs.fault(lambda: run(programs, swapped, {"r": type_}, False)).code == "TYPE/012"


@pytest.mark.parametrize(
    ("lines", "at"),
    [
        ("%r = scalar.addi %f, %f : i32", "view.store %r"),
        ("%r = func.call @same(%f) : (i32) -> (i32)", "view.store %r"),
        ("%r = kernel.subgroup.reduce<addi> %f : i32", "%r = kernel.subgroup.reduce"),
        ("%q = index.cast %f : i32 to index\n    %r = index.cast %q : index to i32", "view.store %r"),
        ("%k = scalar.cmpi eq, %f, %v : i32\n    %r = scf.if %k -> (i32) {\n scf.yield %v : i32 } else {\n"
         " scf.yield %w : i32 }", "%r = scf.if"),
    ],
)  # fmt: skip
def test_what_a_shuffle_leaves_open_may_not_be_observed(programs: Programs, lines: str, at: str) -> None:
    fault = programs.fault(lambda: run(programs, f"{HALVING}\n    {lines}", {"r": "i32"}, False))
    assert fault.code == "TYPE/012"
    assert programs.source_line(fault).startswith(at)


def test_shuffle_within_a_narrower_width(programs: Programs) -> None:
    lines = """
    %off = scalar.constant 1 : i32
    %w = scalar.constant 4 : i32
    %r, %ok = kernel.subgroup.shuffle<down> %v, %off, %w : i32, i32, i32"""
    (ok,) = run(programs, lines, {"ok": "i1"}, False)
    assert list(ok) == [i % ITEMS % SIZE + 1 < min(4, ITEMS - i % ITEMS // SIZE * SIZE) for i in range(GROUPS * ITEMS)]


@pytest.mark.parametrize("active", [False, True])
def test_broadcasts(programs: Programs, active: bool) -> None:
    (first,) = run(programs, "    %first = kernel.subgroup.broadcast.first %v : i32", {"first": "i32"}, active)
    assert list(first) == by_team(TEAMS, active, lambda items: [VALUES[items[0]]] * len(items))


def test_broadcast_needs_an_active_lane_that_all_name(programs: Programs) -> None:
    def lines(lane: str) -> str:
        return f"""
    %c = scalar.constant {lane} : i32
    %me = kernel.subgroup.lane.id : index
    %own = index.cast %me : index to i32
    %three = scalar.constant 3 : i32
    %sub = kernel.subgroup.id : index
    %s = index.cast %sub : index to i32
    %r = kernel.subgroup.broadcast %v from %c : i32, i32"""

    (r,) = run(programs, lines("3"), {"r": "i32"}, False)
    assert list(r) == by_team(TEAMS, False, lambda items: [VALUES[items[3]]] * len(items))
    # Each subgroup may name a lane of its own.
    (r,) = run(programs, lines("3").replace("from %c", "from %s"), {"r": "i32"}, False)
    assert list(r) == [VALUES[team[at % 3]] for at, team in enumerate(TEAMS) for _ in team]
    for bad in ("4", "-1", "99"):
        fault = programs.fault(lambda lane=bad: run(programs, lines(lane), {"r": "i32"}, False))
        assert fault.code == "EVALUATE/001"
        assert "not active" in fault.message
    mixed = programs.fault(lambda: run(programs, lines("3").replace("from %c", "from %own"), {"r": "i32"}, False))
    assert "name different lanes" in mixed.message


def test_masks_must_fit_their_word(programs: Programs) -> None:
    body = """
  %m = kernel.subgroup.active.mask : i32
  %o = buffer.view %out[%at0] : buffer -> view<64xi32>
  view.store %m, %o[%lane] : i32, view<64xi32>"""
    text = programs.kernel(body, "%out: buffer", size=64)
    out = np.zeros(64, dtype=np.int32)
    programs.launch(text, [], [out], facts={"subgroup_size": 32})
    assert (out == -1).all()
    fault = programs.fault(lambda: programs.launch(text, [], [out], facts={"subgroup_size": 64}))
    assert fault.code == "TARGET/001"
    assert programs.fault(lambda: programs.launch(text, [], [out])).code == "TARGET/001"


@pytest.mark.parametrize("batch", [1, 1 << 15])
def test_workgroup_collectives(programs: Programs, batch: int) -> None:
    lines = """
    %sum = kernel.workgroup.reduce<addi> %v : i32
    %r = kernel.workgroup.scan<addi> %v {direction = reverse, mode = exclusive} : i32
    %some = kernel.workgroup.vote.any %p : i1
    %every = kernel.workgroup.vote.all %p : i1
    %n = kernel.workgroup.vote.count %p : i1 -> i64"""
    types = {"sum": "i32", "r": "i32", "some": "i1", "every": "i1", "n": "i64"}
    total, r, some, every, n = run(programs, lines, types, False, batch)

    def each(of: Callable[[Any], Any]) -> list[Any]:
        return by_team(WORKGROUPS, False, lambda items: [of(VALUES[items])] * len(items))

    assert list(total) == each(np.sum)
    assert list(r) == by_team(WORKGROUPS, False, lambda items: scanned(items, True, True))
    assert list(some) == each(lambda v: any(v % 2 == 1))
    assert list(every) == each(lambda v: all(v % 2 == 1))
    assert list(n) == each(lambda v: (v % 2 == 1).sum())


def test_float_extremes_and_zeros(programs: Programs) -> None:
    body = """
  %xv = buffer.view %x[%at0] : buffer -> view<4xf32>
  %ov = buffer.view %out[%at0] : buffer -> view<3x4xf32>
  %e = view.load %xv[%lane] : view<4xf32> -> f32
  %top = kernel.workgroup.reduce<maxnumf> %e : f32
  %all = kernel.workgroup.reduce<maximumf> %e : f32
  %sum = kernel.workgroup.reduce<addf> %e : f32
  view.store %top, %ov[0, %lane] : f32, view<3x4xf32>
  view.store %all, %ov[1, %lane] : f32, view<3x4xf32>
  view.store %sum, %ov[2, %lane] : f32, view<3x4xf32>"""
    text = programs.kernel(body, "%x: buffer, %out: buffer", size=4)
    out = np.zeros((3, 4), dtype=np.float32)
    programs.launch(text, [], [np.array([np.nan, -3, -np.inf, -5], dtype=np.float32), out])
    assert np.array_equal(out[:2], np.array([[-3.0] * 4, [np.nan] * 4]), equal_nan=True)
    programs.launch(text, [], [np.full(4, -0.0, dtype=np.float32), out])
    assert (out == 0).all()
    assert np.signbit(out).all()
    programs.launch(text, [], [np.full(4, np.nan, dtype=np.float32), out])
    assert np.isnan(out).all()


def test_a_workgroup_collective_that_some_work_items_miss(programs: Programs) -> None:
    helper = """
func.def @total(%x: i32) -> (i32) {
  %r = kernel.workgroup.reduce<addi> %x : i32
  func.return %r : i32
}"""
    body = """
  %c7 = index.constant 7 : index
  %some = index.cmp ult, %lane, %c7 : index
  %x = scalar.constant 1 : i32
  scf.if %some {
    %r = func.call @total(%x) : (i32) -> (i32)
    %o = buffer.view %out[%at0] : buffer -> view<32xi32>
    view.store %r, %o[%lane] : i32, view<32xi32>
  }"""
    text = programs.kernel(body, "%out: buffer", extra=helper)
    fault = programs.fault(lambda: programs.launch(text, [], [np.zeros(32, dtype=np.int32)]))
    assert fault.code == "STRUCTURE/038"
    assert "work-item (7, 0, 0) of workgroup (0, 0, 0) is missing" in fault.message
