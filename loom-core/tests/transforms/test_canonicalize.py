"""Canonicalization: what one walk finds, that a second finds nothing more, and what it must leave alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loom import api
from loom.facts.analysis import FunctionFacts
from loom.facts.integers import IntegerFacts
from loom.ir.core import Module, Op
from loom.transforms.canonicalize import canonicalize

HEAD = "func.def public @f(%n: index, %m: index, %c: i1, %a: i32, %x: view<64xi32>) -> ({types}) {{\n"


def function(types: str, *lines: str) -> Module:
    text = HEAD.format(types=types) + "".join(f"  {line}\n" for line in lines) + "}\n"
    module = api.parse(text, "t.loom")
    api.verify(module)
    return module


def simplified(types: str, *lines: str) -> str:
    """The body's text behind one canonicalization, which a second one does not change."""
    module = function(types, *lines)
    (root,) = module.ops
    canonicalize(root, module.symbols())
    api.verify(module)
    text = api.print(module)
    assert not canonicalize(root, module.symbols())
    assert api.print(module) == text
    return text.partition("{\n")[2].rpartition("}")[0]


CONSTANTS = ("%c0 = index.constant 0 : index", "%c1 = index.constant 1 : index", "%c9 = index.constant 9 : index")


def test_chains_of_decisions_are_found_in_one_walk() -> None:
    """A constant decides a branch, whose yield decides a loop bound, whose only iteration becomes straight code."""
    text = simplified(
        "index",
        *CONSTANTS,
        "%less = index.cmp slt, %c0, %c1 : index",
        "%end = scf.if %less -> (index) {",
        "  %two = index.add %c1, %c0 : index",
        "  scf.yield %two : index",
        "} else {",
        "  scf.yield %n : index",
        "}",
        "%r = scf.for %i = [%c0 to %end step %c1](%acc = %n : index) -> (index) {",
        "  %next = index.add %acc, %c9 : index",
        "  scf.yield %next : index",
        "}",
        "func.return %r : index",
    )
    assert "scf." not in text
    assert "index.add %n, %c9" in text


def test_values_that_loops_only_hand_on_leave_the_loop() -> None:
    """One keeps its initial value, one only seems to change, one is used nowhere; the loop carries what is left."""
    text = simplified(
        "index, index",
        *CONSTANTS,
        "%r, %same, %also, %unused = scf.for %i = [%c0 to %n step %c1](%acc = %c0 : index, %k = %m : index, "
        "%z = %m : index, %u = %c0 : index) -> (index, index, index, index) {",
        "  %next = index.add %acc, %k : index",
        "  %back = index.add %z, %c0 : index",
        "  %more = index.add %u, %i : index",
        "  scf.yield %next, %k, %back, %u : index, index, index, index",
        "}",
        "%sum = index.add %same, %also : index",
        "func.return %r, %sum : index, index",
    )
    assert "scf.for %i = [%c0 to %n step %c1](%acc = %c0 : index) -> (index) {" in text
    assert "index.add %acc, %m" in text
    assert "index.add %m, %m" in text


def test_a_loop_without_effect_goes() -> None:
    text = simplified(
        "index",
        *CONSTANTS,
        "%r = scf.for %i = [%c0 to %n step %c1](%acc = %m : index) -> (index) {",
        "  %next = index.add %i, %c1 : index",
        "  scf.yield %acc : index",
        "}",
        "func.return %r : index",
    )
    assert text == "  func.return %m : index\n"


def test_carried_values_that_change_stay() -> None:
    """A swap, a dependent type and a value read behind the loop are no hand-me-downs."""
    lines = (
        *CONSTANTS,
        "%p, %q = scf.for %i = [%c0 to %n step %c1](%a1 = %c0 : index, %b1 = %c1 : index) -> (index, index) {",
        "  scf.yield %b1, %a1 : index, index",
        "}",
        "func.return %p, %q : index, index",
    )
    assert "(%a1 = %c0 : index, %b1 = %c1 : index)" in simplified("index, index", *lines)
    shrinking = (
        *CONSTANTS,
        "%w = view.refine %x : view<64xi32> -> view<[%n]xi32>",
        "%len, %win = scf.for %i = [%c0 to %m step %c1](%l = %n : index, %v = %w : view<[%n]xi32>) "
        "-> (index, view<[%len]xi32>) {",
        "  %s = index.sub %l, %c1 : index",
        "  %t = view.subview %v[1] : view<[%l]xi32> -> view<[%s]xi32>",
        "  scf.yield %s, %t : index, view<[%s]xi32>",
        "}",
        "%e = view.load %win[0] : view<[%len]xi32> -> i32",
        "func.return %e : i32",
    )
    assert "(%l = %n : index, %v = %w : view<[%n]xi32>)" in simplified("i32", *shrinking)


def test_equal_yields_are_forwarded() -> None:
    text = simplified(
        "i32, i32",
        "%p, %q = scf.if %c -> (i32, i32) {",
        "  %y = view.load %x[0] : view<64xi32> -> i32",
        "  scf.yield %a, %y : i32, i32",
        "} else {",
        "  scf.yield %a, %a : i32, i32",
        "}",
        "func.return %p, %q : i32, i32",
    )
    assert "func.return %a, %q" in text


def test_conditionals_that_choose_less_than_they_seem_to() -> None:
    """True and false are the condition; scalars that only are yielded are chosen; what nobody uses goes."""
    text = simplified(
        "i1, i32",
        "%yes = scalar.constant true : i1",
        "%no = scalar.constant false : i1",
        "%b, %p, %v = scf.if %c -> (i1, i32, view<64xi32>) {",
        "  scf.yield %yes, %a, %x : i1, i32, view<64xi32>",
        "} else {",
        "  %zero = scalar.constant 7 : i32",
        "  %z = view.load %x[0] : view<64xi32> -> i32",
        "  scf.yield %no, %zero, %x : i1, i32, view<64xi32>",
        "}",
        "func.return %b, %p : i1, i32",
    )
    assert "scf.if" in text, "the constant is made inside, so this one keeps its regions"
    assert "view.load" not in text
    assert "-> (i32) {" in text
    assert "func.return %c, %p" in text
    chosen = simplified(
        "i32",
        "%seven = scalar.constant 7 : i32",
        "%p, %q = scf.if %c -> (i32, i32) {",
        "  scf.yield %a, %seven : i32, i32",
        "} else {",
        "  scf.yield %seven, %a : i32, i32",
        "}",
        "%r = scalar.subi %p, %q : i32",
        "func.return %r : i32",
    )
    assert "scf.if" not in chosen
    assert chosen.count("scf.select %c") == 2
    views = simplified(
        "i32",
        "%w = view.subview %x[0] : view<64xi32> -> view<64xi32>",
        "%v = scf.if %c -> (view<64xi32>) {",
        "  scf.yield %x : view<64xi32>",
        "} else {",
        "  scf.yield %w : view<64xi32>",
        "}",
        "%r = view.load %v[0] : view<64xi32> -> i32",
        "func.return %r : i32",
    )
    assert "scf.if" in views


def test_a_condition_is_known_in_its_branches() -> None:
    """The same condition again, what it compares, and what follows from that."""
    text = simplified(
        "i32",
        *CONSTANTS,
        "%one = scalar.constant 1 : i32",
        "%two = scalar.constant 2 : i32",
        "%below = index.cmp slt, %n, %m : index",
        "%r = scf.if %below -> (i32) {",
        "  %s = scf.select %below, %one, %two : i32",
        "  %not_above = index.cmp sle, %n, %m : index",
        "  %mirrored = index.cmp sgt, %m, %n : index",
        "  %other = index.cmp eq, %m, %n : index",
        "  %p = scf.select %not_above, %s, %a : i32",
        "  %q = scf.select %mirrored, %p, %a : i32",
        "  %t = scf.select %other, %a, %q : i32",
        "  scf.yield %t : i32",
        "} else {",
        "  scf.if %below {",
        "    view.store %a, %x[0] : i32, view<64xi32>",
        "  }",
        "  scf.yield %two : i32",
        "}",
        "func.return %r : i32",
    )
    assert "scf.if" not in text
    assert "%r = scf.select %below, %one, %two" in text
    assert text.count("select") == text.count("cmp") == 1
    assert "view.store" not in text


def test_a_case_knows_its_key() -> None:
    text = simplified(
        "i32",
        *CONSTANTS,
        "%r = scf.switch %n -> (i32) {",
        "  case 9 {",
        "    %k = index.add %n, %c1 : index",
        "    %w = index.cast %k : index to i32",
        "    scf.yield %w : i32",
        "  }",
        "  default {",
        "    %is = index.cmp eq, %n, %c9 : index",
        "    %v = scf.select %is, %a, %a : i32",
        "    scf.yield %v : i32",
        "  }",
        "}",
        "func.return %r : i32",
    )
    assert "scalar.constant 10 : i32" in text
    assert "cmp" not in text


def test_positions_lie_between_the_bounds_of_their_loop() -> None:
    """A guard against the loop's own bound is decided, and the bound is known to be above the start."""
    text = simplified(
        "i32",
        *CONSTANTS,
        "%r = scf.for %i = [%c1 to %n step %c1](%acc = %a : i32) -> (i32) {",
        "  %inside = index.cmp slt, %i, %n : index",
        "  %some = index.cmp sgt, %n, %c1 : index",
        "  %both = scalar.andi %inside, %some : i1",
        "  %y = scf.if %both -> (i32) {",
        "    %z = view.load %x[%i] : view<64xi32> -> i32",
        "    scf.yield %z : i32",
        "  } else {",
        "    scf.yield %acc : i32",
        "  }",
        "  scf.yield %y : i32",
        "}",
        "func.return %r : i32",
    )
    assert "cmp" not in text
    assert "scf.if" not in text
    assert "view.load %x[%i]" in text


@pytest.mark.parametrize("count", [8, 64])
def test_conditionals_in_a_row_cost_the_same_each(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts evaluated per conditional do not grow with the number of conditionals before it."""
    lines = ["%p0 = index.add %m, %n : index"]
    for k in range(count):
        lines += [
            f"%p{k + 1} = index.add %p{k}, %m : index",
            f"%below{k} = index.cmp slt, %p{k + 1}, %n : index",
            f"scf.if %below{k} {{",
            f"  %t{k} = index.cmp sgt, %n, %p{k + 1} : index",
            f"  %s{k} = scf.select %t{k}, %a, %a : i32",
            f"  view.store %s{k}, %x[0] : i32, view<64xi32>",
            "}",
        ]
    calls = 0
    evaluate: Callable[..., Any] = FunctionFacts._evaluate

    def counted(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        return evaluate(*args)

    monkeypatch.setattr(FunctionFacts, "_evaluate", counted)
    module = function("index", *lines, f"func.return %p{count} : index")
    (root,) = module.ops
    canonicalize(root, module.symbols())
    assert calls <= 16 * count


@pytest.mark.parametrize("count", [8, 64])
def test_one_analysis_looks_at_each_value_a_few_times(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewriting a body asks one analysis, whose work grows with the body: chains of sums under guards that compare."""
    lines = ["%c1 = index.constant 1 : index", "%k = scalar.constant 1.5 : f32", "%x0 = scalar.sitofp %a : i32 to f32"]
    lines.append("%p0 = index.add %n, %c1 : index")
    for i in range(count):
        lines += [
            f"%p{i + 1} = index.add %p{i}, %c1 : index",
            f"%x{i + 1} = scalar.addf<nnan> %x{i}, %k : f32",
            f"%g{i} = scalar.cmpf olt, %x{i + 1}, %x0 : f32",
            f"%h{i} = index.cmp slt, %p{i + 1}, %m : index",
            f"%b{i} = scalar.andi %g{i}, %h{i} : i1",
            f"scf.if %b{i} {{",
            f"  %t{i} = scalar.cmpf oge, %x{i + 1}, %x0 : f32",
            f"  %u{i} = index.cmp sge, %p{i + 1}, %m : index",
            f"  %w{i} = scalar.ori %t{i}, %u{i} : i1",
            f"  %s{i} = scalar.extui %w{i} : i1 to i32",
            f"  view.store %s{i}, %x[0] : i32, view<64xi32>",
            "}",
        ]
    analyses: list[FunctionFacts] = []
    made: Callable[..., None] = FunctionFacts.__init__

    def noted(facts: FunctionFacts, *arguments: Any) -> None:
        made(facts, *arguments)
        analyses.append(facts)

    monkeypatch.setattr(FunctionFacts, "__init__", noted)
    module = function("index", *lines, f"func.return %p{count} : index")
    (root,) = module.ops
    canonicalize(root, module.symbols())
    assert "oge" not in api.print(module)
    (facts,) = analyses
    assert 0 < facts.evaluations <= 12 * count
    assert 0 < facts.floats.evaluations <= 8 * count


def named(module: Module, name: str) -> list[Op]:
    return [op for op in module.walk() if op.name == name]


def test_path_facts_reach_what_depends_on_them() -> None:
    """Through arithmetic, conditionals inside the region, and nested regions; never outside of it."""
    module = function(
        "index",
        *CONSTANTS,
        "%start = index.assume %n [range(%n, 0, 100)] : index",
        "%double = index.add %start, %start : index",
        "%low = index.cmp slt, %start, %c9 : index",
        "%r = scf.if %low -> (index) {",
        "  %inner = scf.if %c -> (index) {",
        "    %t = index.add %double, %c1 : index",
        "    scf.yield %t : index",
        "  } else {",
        "    scf.yield %double : index",
        "  }",
        "  %u = index.add %inner, %c1 : index",
        "  scf.yield %u : index",
        "} else {",
        "  %v = index.add %double, %c0 : index",
        "  scf.yield %v : index",
        "}",
        "func.return %r : index",
    )
    facts = FunctionFacts(next(iter(module.ops)))
    adds = {op.results[0].name: op for op in named(module, "index.add")}
    assert facts.integer(adds["double"].result) == IntegerFacts(0, 200, 1)
    assert facts.integer(adds["t"].result, adds["t"]) == IntegerFacts(1, 17, 1)
    assert facts.integer(adds["u"].result, adds["u"]) == IntegerFacts(1, 18, 1)
    assert facts.integer(adds["v"].result, adds["v"]) == IntegerFacts(18, 200, 1)
    conditional = named(module, "scf.if")[0]
    assert facts.integer(conditional.results[0]).within(1, 200)


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_reach_a_fixed_point(loop_program: Callable[..., Any], seed: int) -> None:
    """A second canonicalization of a program finds nothing."""
    program = loop_program(seed, read_ahead=False)
    module = api.parse(program.plain())
    (kernel,) = (op for op in module.ops if op.name == "kernel.def")
    canonicalize(kernel, module.symbols())
    text = api.print(module)
    assert not canonicalize(kernel, module.symbols()), text
    assert api.print(module) == text
