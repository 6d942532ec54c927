"""Facts of carried values: what every iteration keeps, and nothing that one of them breaks."""

from __future__ import annotations

import itertools
import random

import pytest

from loom import api
from loom.evaluate.dispatch import call_function
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.facts.analysis import FunctionFacts
from loom.facts.integers import MAX64, MIN64, IntegerFacts
from loom.ir.core import Module, Op

HEAD = """\
func.def public @f(%n: index, %m: index, %a: i32) -> ({types}) {{
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c4 = index.constant 4 : index
  %c6 = index.constant 6 : index
  %k = scalar.constant 255 : i32
"""


def program(types: str, *lines: str) -> Module:
    module = api.parse(HEAD.format(types=types) + "".join(f"  {line}\n" for line in lines) + "}\n")
    api.verify(module)
    return module


def carried(init: str, *lines: str, type_: str = "index") -> IntegerFacts:
    """Facts of a carried value and of the result, which agree; the body defines %next from %acc."""
    module = program(
        type_,
        f"%r = scf.for %i = [%c0 to %n step %c1](%acc = {init} : {type_}) -> ({type_}) {{",
        *(f"  {line}" for line in lines),
        f"  scf.yield %next : {type_}",
        "}",
        f"func.return %r : {type_}",
    )
    facts = FunctionFacts(next(iter(module.ops)))
    (loop,) = (op for op in module.walk() if op.name == "scf.for")
    found = facts.integer(loop.regions[0].entry.args[1])
    assert facts.integer(loop.results[0]) == found
    return found


@pytest.mark.parametrize(
    ("init", "line", "want"),
    [
        ("%c0", "%next = index.add %acc, %c1 : index", IntegerFacts(0, MAX64, 1)),
        ("%c0", "%next = index.add %acc, %c4 : index", IntegerFacts(0, MAX64, 4)),
        ("%c6", "%next = index.add %acc, %c4 : index", IntegerFacts(6, MAX64, 2)),
        ("%c6", "%next = index.sub %acc, %c4 : index", IntegerFacts(MIN64, 6, 2)),
        ("%c1", "%next = index.mul %acc, %c4 : index", IntegerFacts(1, MAX64, 1)),
        ("%c6", "%next = index.div %acc, %c4 : index", IntegerFacts(0, 6, 1)),
        ("%c6", "%next = index.min %acc, %c4 : index", IntegerFacts(4, 6, 2)),
        ("%c6", "%next = index.andi %i, %c4 : index", IntegerFacts(0, 6, 2)),
        ("%m", "%next = index.add %acc, %c1 : index", IntegerFacts(MIN64, MAX64, 1)),
        ("%c6", "%next = index.add %c6, %c0 : index", IntegerFacts(6, 6, 6)),
    ],
)
def test_what_every_iteration_keeps(init: str, line: str, want: IntegerFacts) -> None:
    assert carried(init, line) == want


def test_wrapping_integers_lose_their_range() -> None:
    assert carried("%k", "%next = scalar.addi %acc, %k : i32", type_="i32") == IntegerFacts(-(2**31), 2**31 - 1, 1)
    masked = ("%sum = scalar.addi %acc, %a : i32", "%next = scalar.andi %sum, %k : i32")
    assert carried("%k", *masked, type_="i32") == IntegerFacts(0, 255, 1)


def test_values_that_depend_on_each_other() -> None:
    """Each guess holds only together with the other; a swap mixes both."""
    module = program(
        "index, index",
        "%p, %q = scf.for %i = [%c0 to %n step %c1](%x = %c0 : index, %y = %c4 : index) -> (index, index) {",
        "  %u = index.add %y, %c4 : index",
        "  scf.yield %y, %u : index, index",
        "}",
        "func.return %p, %q : index, index",
    )
    facts = FunctionFacts(next(iter(module.ops)))
    (loop,) = (op for op in module.walk() if op.name == "scf.for")
    found = [facts.integer(v) for v in loop.results]
    assert [(f.lo, f.divisor) for f in found] == [(0, 4), (4, 4)]


def test_conditions_inside_the_loop_count() -> None:
    """A counter that wraps around under a condition stays below its limit."""
    lines = (
        "%up = index.add %acc, %c1 : index",
        "%full = index.cmp sge, %up, %c6 : index",
        "%next = scf.if %full -> (index) {",
        "  scf.yield %c0 : index",
        "} else {",
        "  scf.yield %up : index",
        "}",
    )
    assert carried("%c0", *lines).lo == 0


class _Writer:
    """A random loop nest over index values small enough never to leave 64 bits."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0

    def value(self, names: list[str], depth: int) -> tuple[str, list[str]]:
        """A new value and the lines that make it."""
        self.count += 1
        name = f"%v{self.count}"
        a, b = self.rng.choice(names), self.rng.choice(names)
        kind = self.rng.randrange(8)
        if kind == 0 and depth < 3:
            inner, lines = self.loop(names, depth + 1)
            return inner, lines
        if kind == 1:
            self.count += 1
            test = f"%t{self.count}"
            return name, [
                f"{test} = index.cmp {self.rng.choice(('slt', 'sge', 'eq'))}, {a}, {b} : index",
                f"{name} = scf.select {test}, {a}, {b} : index",
            ]
        op = self.rng.choice(("add", "sub", "min", "max", "andi"))
        self.count += 1
        whole = f"%w{self.count}"
        # Kept to 12 bits, so that nothing grows beyond 64.
        return name, [f"{whole} = index.{op} {a}, {b} : index", f"{name} = index.andi {whole}, %mask : index"] if (
            op in ("add", "sub") and self.rng.random() < 0.7
        ) else [f"{name} = index.{op if op != 'sub' else 'max'} {a}, {b} : index"]

    def loop(self, names: list[str], depth: int) -> tuple[str, list[str]]:
        """A loop with one or two carried values; the first result and its lines."""
        self.count += 1
        tag = self.count
        width = self.rng.choice((1, 2))
        inits = [self.rng.choice(names) for _ in range(width)]
        args = [f"%a{tag}x{k}" for k in range(width)]
        results = [f"%r{tag}x{k}" for k in range(width)]
        bindings = ", ".join(f"{a} = {i} : index" for a, i in zip(args, inits, strict=True))
        inside = [*names, *args, f"%i{tag}"]
        body: list[str] = []
        for _ in range(self.rng.randint(1, 3)):
            value, lines = self.value(inside, depth)
            body += lines
            inside.append(value)
        yields = [self.rng.choice(inside[-3:]) for _ in range(width)]
        if depth > 0:
            yields = [y if not y.startswith("%i") else inside[-1] for y in yields]
        types = ", ".join(["index"] * width)
        return results[0], [
            f"{', '.join(results)} = scf.for %i{tag} = [%c0 to %c3 step %c1]({bindings}) -> ({types}) {{",
            *body,
            f"scf.yield {', '.join(yields)} : {types}",
            "}",
        ]


@pytest.mark.parametrize("seed", range(80))
def test_facts_hold_of_what_random_loops_compute(seed: int) -> None:
    """No result lies outside of its range or misses its divisor, for arguments from everywhere."""
    writer = _Writer(random.Random(seed))
    names = ["%n", "%m", "%c1", "%c3", "%mask"]
    lines: list[str] = []
    for _ in range(2):
        value, more = writer.loop(names, 0)
        lines += more
        names.append(value)
    constants = "".join(
        f"  %{n} = index.constant {v} : index\n" for n, v in (("c0", 0), ("c1", 1), ("c3", 3), ("mask", 4095))
    )
    returned = names[-2:]
    text = (
        f"func.def public @f(%n: index, %m: index) -> (index, index) {{\n{constants}  "
        + "\n  ".join(lines)
        + f"\n  func.return {', '.join(returned)} : index, index\n}}\n"
    )
    module = api.parse(text)
    api.verify(module)
    (root,) = module.ops
    end = root.regions[0].entry.last
    assert isinstance(end, Op)
    facts = FunctionFacts(root)
    found = [facts.integer(v) for v in end.operands]
    for n, m in itertools.product((0, 1, 7, -8, 4096), (3, -1, 100)):
        for result, known in zip(
            call_function(Program(module, limits=Limits()), root, [n, m]), found, strict=True
        ):
            assert known.lo <= int(result) <= known.hi
            assert int(result) % known.divisor == 0
