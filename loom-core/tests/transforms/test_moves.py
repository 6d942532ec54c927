"""Passes that move code: out of loops, into branches, between branches, and into blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loom import api
from loom.evaluate.dispatch import call_function
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.ir.core import Module, Op
from loom.ir.diagnostics import LoomError
from loom.transforms.blocks import simplify_blocks
from loom.transforms.branches import fuse_branches
from loom.transforms.canonicalize import canonicalize
from loom.transforms.hoist import hoist_invariants
from loom.transforms.scf_to_cfg import lower_to_blocks
from loom.transforms.sink import sink_into_branches

LoopProgram = Any

HEAD = """\
func.def public @f(%n: index, %m: index, %c: i1, %a: i32, %x: view<64xi32>) -> (i32) {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c3 = index.constant 3 : index
  %zero = scalar.constant 0 : i32
"""


def function(*lines: str) -> Module:
    module = api.parse(HEAD + "".join(f"  {line}\n" for line in lines) + "}\n", "t.loom")
    api.verify(module)
    return module


def after(module: Module, transform: Callable[[Op], Any]) -> str:
    """The text of the function behind a transform, which leaves it valid."""
    (root,) = module.ops
    transform(root)
    api.verify(module)
    return api.print(module)


def hoisted(*lines: str) -> str:
    return after(function(*lines), lambda root: hoist_invariants(root, {}))


LOOP = "%r = scf.for %i = [%c0 to {end} step %c1](%acc = %a : i32) -> (i32) {{"
END = ("}", "func.return %r : i32")


def before_loop(text: str) -> str:
    return text.partition("scf.for")[0]


LINES = (
    LOOP.format(end="%n"),
    "  %s = scf.for %j = [%c0 to %m step %c1](%t = %acc : i32) -> (i32) {",
    "    %sum = scalar.addi %a, %a : i32",
    "    %more = scalar.muli %sum, %a : i32",
    "    %at = index.add %i, %c1 : index",
    "    %w = index.cast %at : index to i32",
    "    %u = scalar.addi %more, %w : i32",
    "    %next = scalar.addi %t, %u : i32",
    "    scf.yield %next : i32",
    "  }",
    "  scf.yield %s : i32",
    *END,
)


def test_invariant_operations_leave_loops() -> None:
    """Through two loops at once; what depends on a position or a carried value stays."""
    text = hoisted(*LINES)
    assert "%sum = scalar.addi %a, %a" in before_loop(text)
    assert "%more = scalar.muli %sum, %a" in before_loop(text)
    inner = text.partition("%s = scf.for")
    assert "scalar.addi %t, %u" in inner[2]
    assert "index.add %i, %c1" in inner[2], "a sum of positions that does not fit makes a program invalid"
    assert "%at = index.add %i, %c1" in hoisted(*(line.replace("%m step", "%c3 step") for line in LINES)).partition("%s = scf")[0]
    assert "addi<nsw>" in hoisted(*(line.replace("addi %a, %a", "addi<nsw> %a, %a") for line in LINES)).partition("%s = scf")[2]


CONDITION_LOOP = (
    "%last, %r = scf.while (%k = %c0 : index, %t = %a : i32) -> (index, i32) {",
    "  %first = scalar.divsi %a, %a : i32",
    "  %go = index.cmp slt, %k, %n : index",
    "  %kept = scalar.addi %t, %first : i32",
    "  scf.condition %go, %k, %kept : i1, index, i32",
    "} do (%j: index, %u: i32) {",
    "  %quotient = scalar.remsi %a, %a : i32",
    "  %product = scalar.muli %a, %a : i32",
    "  %sum = scalar.addi %u, %quotient : i32",
    "  %total = scalar.addi %sum, %product : i32",
    "  %next = index.add %j, %c1 : index",
    "  scf.yield %next, %total : index, i32",
    "}",
    "func.return %r : i32",
)


def test_invariant_operations_leave_condition_loops() -> None:
    """The first region runs in any case, so that even a division leaves it; the second one may not run."""
    front = hoisted(*CONDITION_LOOP).partition("scf.while")[0]
    assert "%first = scalar.divsi" in front
    assert "%product = scalar.muli" in front
    assert "%quotient" not in front
    assert "%go" not in front
    fenced = hoisted(*CONDITION_LOOP[:6], "  scf.schedule.fence", *CONDITION_LOOP[6:]).partition("scf.while")[0]
    assert "%first" not in fenced


@pytest.mark.parametrize(("end", "moves"), [("%c3", True), ("%n", False)])
def test_what_may_trap_moves_only_when_it_is_sure_to_run(end: str, moves: bool) -> None:
    text = hoisted(
        LOOP.format(end=end),
        "  %q = scalar.divsi %a, %a : i32",
        "  %next = scalar.addi %acc, %q : i32",
        "  scf.yield %next : i32",
        *END,
    )
    assert ("divsi" in before_loop(text)) == moves


@pytest.mark.parametrize(
    "line",
    [
        "%y = view.load %x[0] : view<64xi32> -> i32",
        "%y = scf.if %c -> (i32) {\n  scf.yield %a : i32\n  } else {\n  scf.yield %zero : i32\n  }",
    ],
)
def test_reads_and_regions_stay(line: str) -> None:
    text = hoisted(
        LOOP.format(end="%c3"), f"  {line}", "  %next = scalar.addi %acc, %y : i32", "  scf.yield %next : i32", *END
    )
    assert "%y" not in before_loop(text)


@pytest.mark.seed("O04")
def test_nothing_crosses_a_fence_of_the_loop() -> None:
    body = ("  %y = scalar.muli %a, %a : i32", "  scf.schedule.fence", "  %next = scalar.addi %acc, %y : i32")
    assert "muli" not in before_loop(hoisted(LOOP.format(end="%c3"), *body, "  scf.yield %next : i32", *END))
    free = (body[0], body[2])
    assert "muli" in before_loop(hoisted(LOOP.format(end="%c3"), *free, "  scf.yield %next : i32", *END))


def sunk(*lines: str) -> str:
    return after(function(*lines), sink_into_branches)


BRANCH = (
    "%r = scf.if %c -> (i32) {",
    "  %s = scalar.addi %p, %a : i32",
    "  scf.yield %s : i32",
    "} else {",
    "  scf.yield %a : i32",
    "}",
    "func.return %r : i32",
)


def test_operations_of_one_branch_sink_into_it() -> None:
    """A chain moves together; division too, which then runs less often."""
    text = sunk("%o = scalar.divsi %a, %a : i32", "%p = scalar.muli %o, %a : i32", *BRANCH)
    inside = text.partition("scf.if")[2].partition("else")[0]
    assert inside.index("divsi") < inside.index("muli") < inside.index("addi")
    nested = sunk(
        "%p = scalar.muli %a, %a : i32",
        "%r = scf.if %c -> (i32) {",
        "  %w = scf.if %c -> (i32) {",
        "    %s = scalar.addi %p, %a : i32",
        "    scf.yield %s : i32",
        "  } else {",
        "    scf.yield %a : i32",
        "  }",
        "  scf.yield %w : i32",
        "} else {",
        "  scf.yield %a : i32",
        "}",
        "func.return %r : i32",
    )
    assert "muli" in nested.partition("%w = scf.if")[2]


@pytest.mark.parametrize(
    "lines",
    [
        ("%p = scalar.muli %a, %a : i32", *BRANCH[:4], "  scf.yield %p : i32", *BRANCH[5:]),
        ("%p = scalar.muli %a, %a : i32", "view.store %p, %x[0] : i32, view<64xi32>", *BRANCH),
        ("%p = scalar.muli %a, %a : i32", "scf.schedule.fence", *BRANCH),
        ("%p = view.load %x[0] : view<64xi32> -> i32", *BRANCH),
        (
            "%p = scalar.muli %a, %a : i32",
            LOOP.format(end="%n"),
            "  %s = scalar.addi %acc, %p : i32",
            "  scf.yield %s : i32",
            *END,
        ),
    ],
    ids=["both branches", "another use", "a fence", "a read", "a loop"],
)
def test_what_must_not_sink_stays(lines: tuple[str, ...]) -> None:
    module = function(*lines)
    text = api.print(module)
    assert after(module, sink_into_branches) == text


def test_neighbouring_branches_of_one_condition_join() -> None:
    """The second uses what the first made; a side that is missing is empty; three become one."""
    text = after(
        function(
            "%p = scf.if %c -> (i32) {",
            "  %y = view.load %x[0] : view<64xi32> -> i32",
            "  scf.yield %y : i32",
            "} else {",
            "  scf.yield %a : i32",
            "}",
            "scf.if %c {",
            "  view.store %a, %x[1] : i32, view<64xi32>",
            "}",
            "%r = scf.if %c -> (i32) {",
            "  %z = scalar.addi %p, %a : i32",
            "  scf.yield %z : i32",
            "} else {",
            "  %z = scalar.muli %p, %a : i32",
            "  scf.yield %z : i32",
            "}",
            "func.return %r : i32",
        ),
        fuse_branches,
    )
    assert text.count("scf.if") == 1
    then, _, other = text.partition("scf.if")[2].partition("else")
    assert then.index("view.load") < then.index("view.store") < then.index("scalar.addi %y, %a")
    assert "scalar.muli %a, %a" in other
    apart = function(
        "scf.if %c {", "}", "%d = scalar.xori %c, %c : i1", "%r = scf.if %d -> (i32) {", "  scf.yield %a : i32",
        "} else {", "  scf.yield %zero : i32", "}", "func.return %r : i32",
    )  # fmt: skip
    assert after(apart, fuse_branches).count("scf.if") == 2


STRUCTURED = (
    "%sum, %last = scf.for %i = [%c0 to %n step %c3](%acc = %a : i32, %k = %c0 : index) -> (i32, index) {",
    "  %y = scf.switch %k -> (i32) {",
    "    case 0 {",
    "      scf.yield %a : i32",
    "    }",
    "    case 3 {",
    "      %z = view.load %x[%i] : view<64xi32> -> i32",
    "      scf.yield %z : i32",
    "    }",
    "    default {",
    "      %w = index.cast %k : index to i32",
    "      scf.yield %w : i32",
    "    }",
    "  }",
    "  scf.if %c {",
    "    view.store %acc, %x[%i] : i32, view<64xi32>",
    "  }",
    "  %next = scalar.addi %acc, %y : i32",
    "  %bits, %times = scf.while(%v = %i : index, %t = %c0 : index) -> (index, index) {",
    "    %half = index.shrui %v, %c1 : index",
    "    %go = index.cmp ne, %half, %c0 : index",
    "    scf.condition %go, %half, %t : i1, index, index",
    "  } do(%h: index, %u: index) {",
    "    %up = index.add %u, %c1 : index",
    "    scf.yield %h, %up : index, index",
    "  }",
    "  scf.yield %next, %times : i32, index",
    "}",
    "%cast = index.cast %last : index to i32",
    "%r = scalar.addi %sum, %cast : i32",
    "func.return %r : i32",
)


def run(module: Module, n: int, c: bool) -> list[Any]:
    x = np.arange(64, dtype=np.int32)
    results = call_function(Program(module, limits=Limits()), module.symbols()["f"], [n, 5, c, 7, x])
    return [int(results[0]), x.tolist()]


def test_structured_control_becomes_blocks_that_mean_the_same() -> None:
    """Loops, switches, conditionals and condition loops inside each other, before and after blocks are simplified."""
    module, blocks = function(*STRUCTURED), function(*STRUCTURED)
    (root,) = blocks.ops
    assert lower_to_blocks(root, {}) == 4
    api.verify(blocks)
    assert not any(op.spec.dialect == "scf" for op in root.walk())
    assert api.print(api.parse(api.print(blocks))) == api.print(blocks)
    count = len(root.regions[0].blocks)
    for simplify in (False, True):
        if simplify:
            assert simplify_blocks(root)
            api.verify(blocks)
            assert len(root.regions[0].blocks) < count
            canonicalize(root, blocks.symbols())
            api.verify(blocks)
        for n in (0, 1, 3, 4, 7, 12, 60):
            for c in (False, True):
                assert run(blocks, n, c) == run(module, n, c), (n, c)


def test_positions_at_the_end_of_the_range_do_not_overflow() -> None:
    """A step that would leave 64 bits behind the last iteration is never added."""
    lines = (
        "%big = index.constant 9223372036854775807 : index",
        "%low = index.constant 9223372036854775800 : index",
        "%r = scf.for %i = [%low to %big step %c3](%acc = %a : i32) -> (i32) {",
        "  %next = scalar.addi %acc, %acc : i32",
        "  scf.yield %next : i32",
        "}",
        "func.return %r : i32",
    )
    module, blocks = function(*lines), function(*lines)
    (root,) = blocks.ops
    lower_to_blocks(root, {})
    api.verify(blocks)
    assert run(blocks, 0, True) == run(module, 0, True) == [56, list(range(64))]


def test_a_step_that_may_not_be_positive_is_diagnosed() -> None:
    module = function(
        "%r = scf.for %i = [%c0 to %n step %m](%acc = %a : i32) -> (i32) {", "  scf.yield %acc : i32", "}",
        "func.return %r : i32",
    )  # fmt: skip
    text = api.print(module)
    with pytest.raises(LoomError) as caught:
        lower_to_blocks(next(iter(module.ops)), {})
    assert [d.code for d in caught.value.diagnostics] == ["STRUCTURE/035"]
    assert caught.value.diagnostics[0].position() is not None
    assert api.print(module) == text


def test_loops_by_one_become_blocks() -> None:
    """With a step of one the position behind the last iteration is the bound: a header tests it."""
    lines = (
        LOOP.format(end="%n"),
        "  %s = scf.for %j = [%c1 to %i step %c1](%t = %acc : i32) -> (i32) {",
        "    %w = index.cast %j : index to i32",
        "    %next = scalar.addi %t, %w : i32",
        "    scf.yield %next : i32",
        "  }",
        "  scf.yield %s : i32",
        *END,
    )
    module, blocks = function(*lines), function(*lines)
    (root,) = blocks.ops
    assert lower_to_blocks(root, {}) == 2
    api.verify(blocks)
    assert api.print(api.parse(api.print(blocks))) == api.print(blocks)
    for n in range(6):
        assert run(blocks, n, True) == run(module, n, True)


@pytest.mark.seed("A23")
@pytest.mark.parametrize("clause", ["unroll", "unroll(%c3)", "pipeline(%c3)"])
def test_a_policy_is_not_lost_on_the_way_to_blocks(clause: str) -> None:
    module = function(LOOP.format(end="%n").replace(" {", f" {clause} {{"), "  scf.yield %acc : i32", *END)
    with pytest.raises(LoomError) as caught:
        lower_to_blocks(next(iter(module.ops)), {})
    assert [d.code for d in caught.value.diagnostics] == ["STRUCTURE/014"]


@pytest.mark.parametrize("seed", range(24))
def test_random_programs_mean_the_same_behind_each_pass(loop_program: Callable[..., LoopProgram], seed: int) -> None:
    program = loop_program(seed, read_ahead=seed % 2 == 0)
    module = api.parse(program.plain())
    (kernel,) = (op for op in module.ops if op.name == "kernel.def")
    want = program.run(module)
    for transform in (
        lambda op: hoist_invariants(op, {}),
        sink_into_branches,
        fuse_branches,
        lambda op: hoist_invariants(op, {}),
    ):
        transform(kernel)
        api.verify(module)
        assert program.run(module) == want
