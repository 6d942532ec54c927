"""Order between values: what is decided, by which comparisons, and that no value that occurs contradicts it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom import api
from loom.evaluate.dispatch import call_function
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.facts.analysis import FunctionFacts
from loom.facts.relations import MAX_VALUES
from loom.ir.core import Module, Op
from loom.ir.diagnostics import LoomError
from loom.transforms.canonicalize import canonicalize

HEAD = "func.def public @f(%n: index, %m: index, %k: index, %a: i32, %b: i32) -> (i1)"


def function(*lines: str, where: str = "") -> Module:
    body = "".join(f"  {line}\n" for line in lines)
    module = api.parse(f"{HEAD}{where} {{\n{body}  func.return %r : i1\n}}\n", "t.loom")
    api.verify(module)
    return module


def guarded(condition: str, *inside: str) -> tuple[str, ...]:
    """Lines that decide ``%z`` where a condition holds; the result is false elsewhere."""
    return (
        "%no = scalar.constant false : i1",
        "%c1 = index.constant 1 : index",
        "%c2 = index.constant 2 : index",
        f"%p = {condition}",
        "%r = scf.if %p -> (i1) {",
        *(f"  {line}" for line in inside),
        "  scf.yield %z : i1",
        "} else {",
        "  scf.yield %no : i1",
        "}",
    )


def answer(module: Module, name: str = "z") -> bool | None:
    (root,) = module.ops
    facts = FunctionFacts(root)
    (op,) = [op for op in root.walk() if op.results and op.results[0].name == name]
    return facts.decide(str(op.attribute("predicate")), op.operands[0], op.operands[1], op)


def results(module: Module) -> list[Any]:
    program = Program(module, limits=Limits())
    found: list[Any] = []
    for values in itertools.product((-2, 0, 1, 3), repeat=3):
        try:
            (result,) = call_function(program, module.symbols()["f"], [*values, values[0], values[1]])
        except LoomError:
            found.append(None)
        else:
            found.append(bool(result))
    return found


LESS = "index.cmp slt, %n, %m : index"
PROVEN: dict[str, tuple[bool, tuple[str, ...]]] = {
    "one more is at most": (True, guarded(LESS, "%s = index.add %n, %c1 : index", "%z = index.cmp sle, %s, %m : index")),
    "one less is less": (True, guarded(LESS, "%s = index.sub %n, %c1 : index", "%z = index.cmp slt, %s, %m : index")),
    "the other way round": (
        False, guarded(LESS, "%s = index.add %n, %c1 : index", "%z = index.cmp sgt, %s, %m : index"),
    ),
    "unequal": (True, guarded(LESS, "%s = index.sub %n, %c1 : index", "%z = index.cmp ne, %s, %m : index")),
    "a minimum": (True, guarded(LESS, "%s = index.min %n, %k : index", "%z = index.cmp slt, %s, %m : index")),
    "a maximum": (True, guarded(LESS, "%s = index.max %k, %m : index", "%z = index.cmp slt, %n, %s : index")),
    "promised sums of integers": (
        True,
        guarded("scalar.cmpi slt, %a, %b : i32", "%i1 = scalar.constant 1 : i32",
                "%s = scalar.addi<nsw> %a, %i1 : i32", "%z = scalar.cmpi sle, %s, %b : i32"),
    ),
    "across three values": (
        True,
        guarded(LESS, "%q = index.assume %m [le(%m, %k)] : index", "%z = index.cmp slt, %n, %q : index"),
    ),
    "a difference is positive": (
        True,
        guarded(LESS, "%d = index.sub %m, %n : index", "%z = index.cmp sge, %d, %c1 : index"),
    ),
    "two conditions": (
        True,
        guarded("index.cmp sle, %n, %m : index", "%y = index.cmp slt, %m, %k : index", "%z = scf.if %y -> (i1) {",
                "  %u = index.cmp slt, %n, %k : index", "  scf.yield %u : i1", "} else {", "  scf.yield %no : i1", "}"),
    ),
}  # fmt: skip
OPEN: dict[str, tuple[str, ...]] = {
    "two more": guarded(LESS, "%s = index.add %n, %c2 : index", "%z = index.cmp sle, %s, %m : index"),
    "a minimum on the right": guarded(LESS, "%s = index.min %m, %k : index", "%z = index.cmp slt, %n, %s : index"),
    "sums that may wrap": guarded(
        "scalar.cmpi slt, %a, %b : i32", "%i1 = scalar.constant 1 : i32", "%s = scalar.addi %b, %i1 : i32",
        "%z = scalar.cmpi slt, %a, %s : i32",
    ),
    "unsigned of what may be negative": guarded(LESS, "%z = index.cmp ult, %n, %m : index"),
}  # fmt: skip


@pytest.mark.parametrize("name", PROVEN)
def test_order_is_derived(name: str) -> None:
    wanted, lines = PROVEN[name]
    module = function(*lines)
    assert answer(module, "u" if name == "two conditions" else "z") is wanted
    before = results(module)
    (root,) = module.ops
    canonicalize(root, module.symbols())
    assert all(b is None or b == a for b, a in zip(before, results(module), strict=True))


@pytest.mark.parametrize("name", OPEN)
def test_what_does_not_follow_stays_open(name: str) -> None:
    assert answer(function(*OPEN[name])) is None


def test_clauses_and_assumptions_compare() -> None:
    assert answer(function("%r = index.cmp slt, %n, %m : index"), "r") is None
    assert answer(function("%r = index.cmp slt, %n, %m : index", where=" where [lt(%n, %m)]"), "r") is True
    lines = ("%x, %y = index.assume %n, %m [lt(%n, %m)] : index, index", "%r = index.cmp sge, %x, %y : index")
    assert answer(function(*lines), "r") is False


def test_what_is_left_of_a_loop_is_positive() -> None:
    module = function(
        "%c0 = index.constant 0 : index",
        "%c1 = index.constant 1 : index",
        "%t = scalar.constant true : i1",
        "%r = scf.for %i = [%c0 to %n step %c1](%acc = %t : i1) -> (i1) {",
        "  %left = index.sub %n, %i : index",
        "  %z = index.cmp sgt, %left, %c0 : index",
        "  scf.yield %z : i1",
        "}",
    )
    assert answer(module) is True


def test_a_question_looks_at_few_values() -> None:
    """However long a chain is, the search ends; what it would have found beyond is not known."""
    lines = ["%c1 = index.constant 1 : index", "%v0 = index.add %n, %c1 : index"]
    lines += [f"%v{i + 1} = index.add %v{i}, %c1 : index" for i in range(4 * MAX_VALUES)]
    near, far = MAX_VALUES - 4, 4 * MAX_VALUES
    assert answer(function(*lines, f"%r = index.cmp sgt, %v{near}, %n : index"), "r") is True
    assert answer(function(*lines, f"%r = index.cmp sgt, %v{far}, %n : index"), "r") is None


@st.composite
def comparisons(draw: st.DrawFn) -> list[str]:
    """Sums and extrema of three values, a guard, and a comparison of any two inside of it."""
    names = ["n", "m", "k"]
    lines = [f"%k{c} = index.constant {c} : index" for c in (0, 1, 2)]
    pick = st.sampled_from(names)
    for number in range(draw(st.integers(1, 5))):
        op = draw(st.sampled_from(("add", "sub", "min", "max")))
        right = draw(st.sampled_from(["k0", "k1", "k2"])) if op in ("add", "sub") else draw(pick)
        lines.append(f"%v{number} = index.{op} %{draw(pick)}, %{right} : index")
        names.append(f"v{number}")
    predicates = st.sampled_from(("eq", "ne", "slt", "sle", "sgt", "sge"))
    pick = st.sampled_from(names)
    lines += [
        "%no = scalar.constant false : i1",
        f"%p = index.cmp {draw(predicates)}, %{draw(pick)}, %{draw(pick)} : index",
        f"%q = index.cmp {draw(predicates)}, %{draw(pick)}, %{draw(pick)} : index",
        "%both = scalar.andi %p, %q : i1",
        "%r = scf.if %both -> (i1) {",
        f"  %z = index.cmp {draw(predicates)}, %{draw(pick)}, %{draw(pick)} : index",
        "  scf.yield %z : i1",
        "} else {",
        "  scf.yield %no : i1",
        "}",
    ]
    return lines


@given(comparisons())
@settings(max_examples=60)
def test_random_comparisons_mean_the_same(lines: list[str]) -> None:
    before, after = function(*lines), function(*lines)
    root: Op
    (root,) = after.ops
    canonicalize(root, after.symbols())
    assert results(before) == results(after)


@pytest.mark.parametrize("limit", ["index.andi %m, %k : index", "index.min %m, %k : index", "index.sub %m, %k : index"])
def test_what_rewriting_erased_behind_a_guard_says_nothing(limit: str) -> None:
    lines = guarded("index.cmp slt, %n, %limit : index", "%z = index.cmp slt, %n, %c2 : index")
    (root,) = function(f"%limit = {limit}", *lines).ops
    named = {op.results[0].name: op for op in root.walk() if op.results}
    facts = FunctionFacts(root)
    facts.paths.constraints(named["r"].regions[0])
    named["limit"].replace_with(named["c1"].results)
    assert facts.decide("slt", root.regions[-1].entry.args[0], named["c2"].results[0], named["z"]) is None
