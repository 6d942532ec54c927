"""Liveness, pressure, next uses, dominators and loops."""

from __future__ import annotations

import pytest
from low_toy_programs import Builder, random_program

from loom.low.cfg import dominates, immediate_dominators, loop_depths
from loom.low.liveness import Liveness, content_units, pressure
from loom.low.machine import Block, Function, VReg


def looped() -> tuple[Builder, dict[str, VReg]]:
    """entry -> header <-> body, header -> after; `outer` is live through the loop."""
    build = Builder()
    a, outer = build.live_in(0), build.live_in(1)
    index, carried = build.value(), build.value()
    header = build.function.add_block("header", [index, carried])
    body, after = build.function.add_block("body"), build.function.add_block("after")
    build.branch(header, a, outer)
    build.block = header
    build.cond(build.op("less", index, carried), body, after)
    build.block = body
    step = build.op("mul", index, a)
    build.branch(header, step, carried)
    build.block = after
    build.ret(outer, carried)
    return build, {"a": a, "outer": outer, "index": index, "carried": carried, "step": step}


def test_live_segments_of_a_loop() -> None:
    """Values used in the loop are live around it, dead ones end at their last use."""
    build, value = looped()
    live = Liveness(build.function)
    header, body, after = build.function.blocks[1:]
    assert set(live.live_in(header)) == {value["a"], value["outer"]}
    assert set(live.live_out(body)) == {value["a"], value["outer"]}
    assert set(live.live_in(after)) == {value["outer"], value["carried"]}
    point = 2 * (live.start[body] + 1)
    assert live.live_at(value["index"], point)
    assert not live.live_at(value["index"], point + 1), "dies where it is read last"
    assert live.live_at(value["step"], point + 1)
    assert not live.live_at(value["index"], 2 * live.start[after])


def test_unused_results_occupy_the_point_they_are_written_at() -> None:
    """A dead result still overwrites its register."""
    build = Builder()
    a = build.live_in(0)
    dead = build.op("mul", a, a)
    build.ret(a)
    assert Liveness(build.function).segments[dead] == [(3, 4)]


def test_early_clobber_keeps_operands_to_the_end() -> None:
    """Operands of an early-clobber result overlap it, a tied one does not."""
    build = Builder()
    a, b, c = (build.live_in(unit) for unit in range(3))
    result = build.op("madet", a, b, c)
    build.ret(result)
    live = Liveness(build.function)
    assert live.segments[a][-1][1] == 3
    assert live.segments[b][-1][1] == live.segments[c][-1][1] == 4
    assert live.segments[result][0][0] == 3


def test_use_before_definition_is_reported() -> None:
    """A value that no path defines, or not every path, is an error."""
    build = Builder()
    build.ret(build.value())
    with pytest.raises(ValueError, match="defined nowhere"):
        Liveness(build.function)
    build = Builder()
    a = build.live_in(0)
    yes, join = build.function.add_block("yes"), build.function.add_block("join")
    build.cond(a, yes, join)
    build.block = yes
    sometimes = build.op("mul", a, a)
    build.branch(join)
    build.block = join
    build.ret(sometimes)
    with pytest.raises(ValueError, match="before it is defined"):
        Liveness(build.function)


def test_pressure_counts_units_per_bank() -> None:
    """Tuples count with all their units."""
    build = Builder()
    a = build.live_in(0)
    wide = build.op("loadv4", a)
    pair = build.op("mulw", a, a)
    build.ret(wide, pair)
    assert pressure(build.function) == {"test.gpr": 6}


def test_content_looks_through_transfers() -> None:
    """A slice of a concat of copies holds the original, a copy to another bank its own."""
    build = Builder()
    a, b = build.live_in(0), build.live_in(1)
    copy = build.copy(a)
    whole = build.concat(b, copy)
    part = build.slice(whole, 1)
    vector = build.copy(a, "test.vec")
    build.ret(part)
    content = content_units(build.function)
    assert content[part] == ((a, 0),)
    assert content[whole] == ((b, 0), (a, 0))
    assert content[vector] == ((vector, 0),)


def brute_force_dominators(function: Function) -> dict[Block, set[Block]]:
    """block -> blocks without which it cannot be reached."""
    entry = function.blocks[0]

    def reach(without: Block | None) -> set[Block]:
        seen: set[Block] = set()
        work = [entry] if entry is not without else []
        while work:
            block = work.pop()
            if block not in seen:
                seen.add(block)
                work.extend(edge.block for edge in block.edges if edge.block is not without)
        return seen

    everything = reach(None)
    return {
        block: {other for other in everything if other is block or block not in reach(other)} for block in everything
    }


@pytest.mark.parametrize("seed", range(6))
def test_dominators_equal_the_definition(seed: int) -> None:
    """Against removal of each block in turn."""
    function = random_program(seed, 120)
    found = immediate_dominators(function)
    for block, wanted in brute_force_dominators(function).items():
        assert {other for other in found if dominates(found, other, block)} == wanted


def test_loop_depths() -> None:
    """Header and body are in the loop, entry and exit are not."""
    build, _ = looped()
    assert [loop_depths(build.function)[block] for block in build.function.blocks] == [0, 1, 1, 0]


@pytest.mark.parametrize("seed", range(4))
def test_segments_equal_backward_search(seed: int) -> None:
    """Live at a block's start exactly when some path reaches a use without passing the definition."""
    function = random_program(seed, 80)
    live = Liveness(function)
    before: dict[Block, list[Block]] = {block: [] for block in function.blocks}
    home: dict[VReg, Block] = {}
    uses: dict[VReg, set[Block]] = {}
    for block in function.blocks:
        for edge in block.edges:
            before[edge.block].append(block)
        defined = set(block.params)
        for inst in block.instructions:
            for value in (*inst.operands, *(arg for edge in inst.successors for arg in edge.args)):
                if value not in defined:
                    uses.setdefault(value, set()).add(block)
            defined.update(inst.results)
        home.update(dict.fromkeys(defined, block))
    for value, blocks in uses.items():
        wanted: set[Block] = set()
        work = list(blocks)
        while work:
            block = work.pop()
            if block not in wanted and block is not home[value]:
                wanted.add(block)
                work.extend(before[block])
        found = {block for block in function.blocks if live.live_at(value, 2 * live.start[block])}
        assert found == wanted
