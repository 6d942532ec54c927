"""Facts of arguments of blocks, of what one side of a branch knows, and of loops with conditions of their own."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom import api
from loom.evaluate.dispatch import call_function
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.facts.analysis import FunctionFacts
from loom.facts.integers import MAX64, MIN64, IntegerFacts
from loom.facts.uniformity import varying_values
from loom.ir.core import Module, Op, Value
from loom.transforms.blocks import simplify_blocks
from loom.transforms.canonicalize import canonicalize
from loom.transforms.hoist import hoist_invariants
from loom.transforms.scf_to_cfg import lower_to_blocks

CONSTANTS = "".join(f"  %c{n} = index.constant {n} : index\n" for n in (0, 1, 2, 3, 4, 8, 16))


def program(body: str, where: str = "", types: str = "index") -> Module:
    module = api.parse(
        f"func.def public @f(%n: index, %m: index, %x: f32) -> ({types}){where} {{\n{CONSTANTS}{body}}}\n", "t.loom"
    )
    api.verify(module)
    return module


def named(module: Module, name: str) -> tuple[Value, Op]:
    """A value by its name, and an operation of the block that it is first seen in."""
    (root,) = module.ops
    for op in root.walk():
        for value in [*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)]:
            if value.name == name:
                owner = value.owner
                at = owner if isinstance(owner, Op) else owner.last
                assert at is not None
                return value, at
    raise AssertionError(name)


def known(module: Module, name: str) -> IntegerFacts:
    (root,) = module.ops
    value, at = named(module, name)
    return FunctionFacts(root).integer(value, at)


LOOP = """\
  cfg.br ^head(%c0 : index)
^head(%i: index):
  %go = index.cmp slt, %i, {bound} : index
  cfg.cond_br %go, ^body, ^done
^body:
  %inside = index.add %i, %c0 : index
  %next = index.add %i, %c4 : index
  cfg.br ^head(%next : index)
^done:
  %outside = index.add %i, %c0 : index
  func.return %outside : index
"""


def test_a_loop_of_blocks_counts() -> None:
    """The back edge goes through a block without arguments; each side of the branch knows its own bounds."""
    module = program(LOOP.format(bound="%c16"))
    assert known(module, "i") == IntegerFacts(0, 16, 4)
    assert known(module, "inside") == IntegerFacts(0, 12, 4)
    assert known(module, "outside") == IntegerFacts(16, 16, 16)
    open_end = program(LOOP.format(bound="%n"))
    assert known(open_end, "i") == IntegerFacts(0, MAX64, 4)


def test_what_branches_hand_over_is_joined() -> None:
    module = program(
        "  %go = index.cmp slt, %n, %m : index\n"
        "  cfg.cond_br %go, ^a, ^b\n"
        "^a:\n  cfg.br ^join(%c4 : index)\n"
        "^b:\n  cfg.br ^join(%c16 : index)\n"
        "^join(%v: index):\n  func.return %v : index\n"
    )
    assert known(module, "v") == IntegerFacts(4, 16, 4)


def test_clauses_speak_of_the_first_block_only() -> None:
    """An argument of another block is at the place of a parameter that a clause bounds."""
    module = program(
        "  cfg.br ^next(%m : index)\n^next(%v: index):\n  func.return %v : index\n", " where [range(%n, 0, 4)]"
    )
    assert known(module, "v") == IntegerFacts(MIN64, MAX64, 1)


def test_blocks_behind_a_branch_inherit_its_outcome() -> None:
    """Also behind a place where other paths meet, and through a region; not where both sides meet."""
    module = program(
        "  %go = index.cmp slt, %n, %c4 : index\n"
        "  cfg.cond_br %go, ^small, ^big\n"
        "^small:\n"
        "  %odd = index.cmp slt, %m, %c2 : index\n"
        "  cfg.cond_br %odd, ^left, ^right\n"
        "^left:\n"
        "  %in_left = index.max %n, %m : index\n"
        "  cfg.br ^inner\n"
        "^right:\n  cfg.br ^inner\n"
        "^inner:\n"
        "  %in_inner = index.add %n, %c0 : index\n"
        "  cfg.br ^join\n"
        "^big:\n"
        "  %in_big = scf.for %i = [%c0 to %m step %c1](%v = %c0 : index) -> (index) {\n"
        "    %deep = index.add %n, %c0 : index\n"
        "    scf.yield %deep : index\n"
        "  }\n"
        "  cfg.br ^join\n"
        "^join:\n"
        "  %in_join = index.add %n, %c0 : index\n"
        "  func.return %in_join : index\n"
    )
    assert known(module, "in_left").hi == 3
    assert known(module, "in_inner").hi == 3
    assert known(module, "deep").lo == 4
    assert known(module, "in_join") == IntegerFacts()


def test_a_branch_to_one_block_says_nothing() -> None:
    module = program(
        "  %go = index.cmp slt, %n, %c4 : index\n  cfg.cond_br %go, ^only, ^only\n"
        "^only:\n  %v = index.add %n, %c0 : index\n  func.return %v : index\n"
    )
    assert known(module, "v") == IntegerFacts()


def test_order_between_values_holds_in_blocks() -> None:
    module = program(
        "  %go = index.cmp slt, %n, %m : index\n"
        "  cfg.cond_br %go, ^yes, ^no\n"
        "^yes:\n"
        "  %more = index.add %n, %c1 : index\n"
        "  %z = index.cmp sle, %more, %m : index\n"
        "  cfg.cond_br %z, ^no, ^never\n"
        "^no:\n  func.return %n : index\n"
        "^never:\n  func.return %m : index\n"
    )
    (root,) = module.ops
    z, at = named(module, "z")
    assert FunctionFacts(root).decide("sle", at.operands[0], at.operands[1], at) is True
    canonicalize(root, module.symbols())
    assert "sle" not in api.print(module)
    assert z is not None


@pytest.mark.parametrize(
    ("condition", "nan"), [("scalar.cmpf oeq, %x, %x : f32", False), ("scalar.cmpf une, %x, %x : f32", True)]
)
def test_floats_are_known_in_blocks(condition: str, nan: bool) -> None:
    module = program(
        f"  %go = {condition}\n  cfg.cond_br %go, ^yes, ^no\n"
        "^yes:\n  cfg.br ^join(%x : f32)\n"
        "^no:\n  %zero = scalar.constant 1.0 : f32\n  cfg.br ^join(%zero : f32)\n"
        "^join(%v: f32):\n  func.return %v : f32\n",
        types="f32",
    )
    (root,) = module.ops
    value, at = named(module, "v")
    assert FunctionFacts(root).floating(value, at).nan is nan


WHILE = """\
  %r, %s = scf.while (%k = {start} : index, %t = %c0 : index) -> (index, index) {{
    %go = index.cmp {predicate}, %k, {bound} : index
    scf.condition %go, %k, %t : i1, index, index
  }} do (%j: index, %u: index) {{
    %next = index.add %j, {step} : index
    %total = index.add %u, %c4 : index
    scf.yield %next, %total : index, index
  }}
  func.return %r : index
"""


@pytest.mark.parametrize(
    ("start", "step", "predicate", "bound", "head", "body", "behind"),
    [
        ("%c0", "%c1", "slt", "%c16", (0, 16), (0, 15), (16, 16)),
        ("%c0", "%c4", "slt", "%c16", (0, 16), (0, 12), (16, 16)),
        ("%c2", "%c4", "sle", "%c16", (2, 20), (2, 16), (18, 20)),
        ("%c0", "%c1", "ne", "%c8", (0, MAX64), (0, MAX64), (8, 8)),
        ("%c4", "%c1", "slt", "%n", (4, MAX64), (4, MAX64 - 1), (4, MAX64)),
    ],
)
def test_a_counter_has_ranges_of_its_own_in_each_part(
    start: str, step: str, predicate: str, bound: str, head: tuple[int, int], body: tuple[int, int],
    behind: tuple[int, int],
) -> None:  # fmt: skip
    """The condition region, the body, and behind the loop."""
    module = program(WHILE.format(start=start, step=step, predicate=predicate, bound=bound))
    found = [known(module, name) for name in ("k", "j", "r")]
    assert [(f.lo, f.hi) for f in found] == [head, body, behind]
    assert known(module, "s") == IntegerFacts(0, MAX64, 4)


def test_what_goes_on_is_ordered() -> None:
    """In the body the counter is below the bound as a relation, too."""
    module = program(WHILE.format(start="%c0", step="%c1", predicate="slt", bound="%n"))
    (root,) = module.ops
    counter, at = named(module, "j")
    facts = FunctionFacts(root)
    bound = root.regions[-1].entry.args[0]
    assert facts.decide("slt", counter, bound, at) is True
    assert facts.decide("slt", bound, counter, at) is False


# -- uniformity ------------------------------------------------------------------------------------------------

KERNEL = """\
kernel.def export("k") @k() {{
  %u = index.constant 1 : index
  kernel.launch.config workgroups(%u, %u, %u) workgroup_size(%u, %u, %u) : index
}} launch(%n: index) {{
  %c1 = index.constant 1 : index
  %c2 = index.constant 2 : index
  %lane = kernel.workitem.id<x> : index
  %go = index.cmp slt, {left}, %c1 : index
  cfg.cond_br %go, ^a, ^b
^a:
  %once = index.add %c1, %c2 : index
  cfg.br ^join(%c1 : index)
^b:
  cfg.br ^join(%c2 : index)
^join(%v: index):
  %more = index.cmp slt, %v, %n : index
  %sum = index.add %n, %c1 : index
  cfg.cond_br %more, ^back, ^end
^back:
  cfg.br ^join(%sum : index)
^end:
  %last = index.add %sum, %c1 : index
  kernel.return
}}
"""


@pytest.mark.parametrize(("left", "uniform"), [("%lane", False), ("%n", True)])
def test_where_lanes_meet_they_may_differ(left: str, uniform: bool) -> None:
    """Both sides hand over the same number in all lanes, but not the same one; and some leave the loop earlier."""
    module = api.parse(KERNEL.format(left=left))
    api.verify(module)
    (kernel,) = module.ops
    varying = {value.name for value in varying_values(kernel)}
    assert ("v" in varying) is not uniform
    assert ("last" in varying) is not uniform
    assert "once" not in varying


def test_long_graphs_are_looked_at_once() -> None:
    """Uniformity and facts of 300 branches one behind the other, each of which lanes may take differently."""
    steps = "".join(
        f"  %p{n} = index.cmp slt, %lane, %x{n} : index\n  cfg.cond_br %p{n}, ^a{n}, ^b{n}\n"
        f"^a{n}:\n  cfg.br ^join{n + 1}(%x{n}: index)\n^b{n}:\n  cfg.br ^join{n + 1}(%c1: index)\n"
        f"^join{n + 1}(%x{n + 1}: index):\n"
        for n in range(300)
    )
    text = (
        'kernel.def export("k") @k() {\n  %u = index.constant 1 : index\n'
        "  kernel.launch.config workgroups(%u, %u, %u) workgroup_size(%u, %u, %u) : index\n} launch() {\n"
        "  %c1 = index.constant 1 : index\n  %x0 = index.constant 7 : index\n  %lane = kernel.workitem.id<x> : index\n"
        f"{steps}  kernel.return\n}}\n"
    )
    module = api.parse(text)
    (kernel,) = module.ops
    varying = {value.name for value in varying_values(kernel)}
    assert {f"x{n}" for n in range(1, 301)} <= varying
    facts = FunctionFacts(kernel)
    assert facts.integer(*named(module, "x300")) == IntegerFacts(1, 7, 1)
    assert facts.evaluations < 3000


# -- nothing that occurs contradicts facts ----------------------------------------------------------------------


class Graphs:
    """Writes random functions of blocks, with loops that end, over values of at most 12 bits."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0
        self.lines: list[str] = []

    def new(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def compute(self, names: list[str]) -> None:
        """New values from the given ones, which they join."""
        for _ in range(self.rng.choice((1, 1, 2))):
            name, whole = self.new(), self.new()
            a, b = self.rng.choice(names), self.rng.choice([*names, "%c1", "%c4", "%c3"])
            op = self.rng.choice(("add", "sub", "min", "max", "andi", "mul"))
            if op in ("min", "max"):
                self.lines.append(f"  {name} = index.{op} {a}, {b} : index")
            else:
                self.lines += [
                    f"  {whole} = index.{op} {a}, {b} : index",
                    f"  {name} = index.andi {whole}, %mask : index",
                ]
            names.append(name)

    def leave(self, names: list[str], tag: int) -> None:
        first, second = self.rng.choice(names), self.rng.choice(names)
        self.lines += [f"  %tag{tag} = index.constant {tag} : index"]
        self.lines += [f"  func.return %tag{tag}, {first}, {second} : index, index, index"]

    def go_to(self, target: int, names: list[str], fuel: str) -> None:
        a, b = self.rng.choice(names[-4:]), self.rng.choice(names)
        self.lines.append(f"  cfg.br ^b{target}({a}: index, {b}: index, {fuel}: index)")

    def write(self) -> str:
        blocks = self.rng.randint(2, 5)
        shared = ["%n4", "%m4"]
        self.lines += ["  %n4 = index.andi %n, %mask : index", "  %m4 = index.min %m, %c16 : index"]
        self.go_to(0, shared, "%c8")
        tag = 0
        for number in range(blocks):
            names = [*shared, f"%x{number}", f"%y{number}"]
            self.lines.append(f"^b{number}(%x{number}: index, %y{number}: index, %fuel{number}: index):")
            self.compute(names)
            if number == blocks - 1:
                self.leave(names, tag)
                tag += 1
                continue
            left, right = self.rng.choice(names), self.rng.choice([*names, "%c4", "%c3", "%c16"])
            predicate = self.rng.choice(("slt", "sge", "eq", "ne", "sgt", "ult"))
            self.lines += [
                f"  %p{number} = index.cmp {predicate}, {left}, {right} : index",
                f"  cfg.cond_br %p{number}, ^t{number}, ^f{number}",
            ]
            for side in "tf":
                self.lines.append(f"^{side}{number}:")
                inside = list(names)
                self.compute(inside)
                target = self.rng.randrange(blocks)
                if target > number:
                    self.go_to(target, inside, f"%fuel{number}")
                    continue
                self.lines += [
                    f"  %q{side}{number} = index.cmp sgt, %fuel{number}, %c0 : index",
                    f"  cfg.cond_br %q{side}{number}, ^r{side}{number}, ^s{side}{number}",
                    f"^r{side}{number}:",
                    f"  %less{side}{number} = index.sub %fuel{number}, %c1 : index",
                ]
                self.go_to(target, inside, f"%less{side}{number}")
                self.lines.append(f"^s{side}{number}:")
                self.leave([*inside, f"%fuel{number}"], tag)
                tag += 1
        return "  %mask = index.constant 4095 : index\n" + "\n".join(self.lines) + "\n"


def check_results(module: Module, body: str) -> None:
    """Every result lies in what is known at the return that gave it, and stays the same through passes that ask facts."""
    (root,) = module.ops
    facts = FunctionFacts(root)
    returns = [op for op in root.walk() if op.name == "func.return"]
    found = [[facts.integer(v, op) for v in op.operands] for op in returns]
    by_tag = {each[0].exact: each for each in found}
    results = []
    arguments = list(itertools.product((0, 1, 7, -8, 4096), (3, -1, 100)))
    for n, m in arguments:
        values = [int(v) for v in call_function(Program(module, limits=Limits()), root, [n, m, np.float32(0)])]
        results.append(values)
        for value, expected in zip(values, by_tag[values[0]], strict=True):
            assert expected.lo <= value <= expected.hi, body
            assert value % expected.divisor == 0, body
    steps: list[Callable[[], object]] = [
        lambda: hoist_invariants(root, {}),
        lambda: canonicalize(root, module.symbols()),
        lambda: lower_to_blocks(root, {}),
        lambda: canonicalize(root, module.symbols()),
        lambda: simplify_blocks(root),
    ]
    for step in steps:
        step()
        api.verify(module)
        for (n, m), values in list(zip(arguments, results, strict=True))[::4]:
            again = call_function(Program(module, limits=Limits()), root, [n, m, np.float32(0)])
            assert [int(v) for v in again] == values, body


@settings(max_examples=25)
@given(st.randoms(use_true_random=False))
def test_random_graphs_of_blocks(rng: random.Random) -> None:
    body = Graphs(rng).write()
    check_results(program(body, types="index, index, index"), body)


def write_while(rng: random.Random) -> str:
    """A loop, maybe around another one, that counts up to a bound and computes on the way."""
    count = itertools.count()

    def values(names: list[str], indent: str) -> list[str]:
        lines = []
        for _ in range(rng.choice((1, 2))):
            name = f"%v{next(count)}"
            op = rng.choice(("add", "sub", "min", "max", "andi"))
            a, b = rng.choice(names), rng.choice([*names, "%c4", "%c3"])
            if op in ("add", "sub"):
                lines.append(f"{indent}{name}w = index.{op} {a}, {b} : index")
                lines.append(f"{indent}{name} = index.andi {name}w, %mask : index")
            else:
                lines.append(f"{indent}{name} = index.{op} {a}, {b} : index")
            names.append(name)
        return lines

    def loop(names: list[str], depth: int, indent: str) -> tuple[list[str], list[str]]:
        tag = next(count)
        counter, state = f"%k{tag}", f"%s{tag}"
        start = rng.choice(("%c0", "%c1", "%c3"))
        bound = rng.choice(("%c4", "%c8", "%m4"))
        predicate = rng.choice(("slt", "sle"))
        head = [*names, counter, state]
        before = values(head, indent + "  ")
        comparison = f"{counter}, {bound}"
        if rng.random() < 0.3:
            predicate, comparison = {"slt": "sgt", "sle": "sge"}[predicate], f"{bound}, {counter}"
        handed = [counter, rng.choice(head[-3:]), rng.choice(head)]
        rng.shuffle(handed)
        place = handed.index(counter)
        args = [f"%a{tag}x{n}" for n in range(3)]
        lines = [
            f"{indent}%r{tag}x0, %r{tag}x1, %r{tag}x2 = scf.while ({counter} = {start} : index, "
            f"{state} = {rng.choice(names)} : index) -> (index, index, index) {{",
            *before,
            f"{indent}  %go{tag} = index.cmp {predicate}, {comparison} : index",
            f"{indent}  scf.condition %go{tag}, {', '.join(handed)} : i1, index, index, index",
            f"{indent}}} do ({', '.join(f'{a}: index' for a in args)}) {{",
        ]
        inside = [*names, *args]
        lines += values(inside, indent + "  ")
        if depth < 1 and rng.random() < 0.4:
            more, results = loop(inside, depth + 1, indent + "  ")
            lines += more
            inside += results
        lines += [
            f"{indent}  %n{tag} = index.add {args[place]}, {rng.choice(('%c1', '%c2'))} : index",
            f"{indent}  scf.yield %n{tag}, {rng.choice(inside[-3:])} : index, index",
            f"{indent}}}",
        ]
        return lines, [f"%r{tag}x{n}" for n in range(3)]

    names = ["%n4", "%m4"]
    lines, results = loop(names, 0, "  ")
    head = [
        "  %mask = index.constant 4095 : index",
        "  %n4 = index.andi %n, %mask : index",
        "  %m4 = index.min %m, %c16 : index",
    ]
    return "\n".join([*head, *lines, f"  func.return %c0, {results[0]}, {results[1]} : index, index, index"]) + "\n"


@settings(max_examples=25)
@given(st.randoms(use_true_random=False))
def test_random_loops_with_conditions(rng: random.Random) -> None:
    body = write_while(rng)
    check_results(program(body, types="index, index, index"), body)
