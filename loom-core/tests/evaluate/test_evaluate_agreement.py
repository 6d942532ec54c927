"""All lanes at once mean the same as each lane alone: random programs, structured and branching."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from loom.evaluate.dispatch import call_function, launch_kernel
from loom.evaluate.machine import Program

Programs = Any

LANES = 12


class Generator:
    """Writes random functions of one index argument; all values stay small by a remainder after every product."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0
        self.lines: list[str] = []

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def emit(self, depth: int, text: str) -> None:
        self.lines.append("  " * (depth + 1) + text)

    def constant(self, depth: int, low: int = 0, high: int = 9) -> str:
        name = self.name()
        self.emit(depth, f"{name} = index.constant {self.rng.randint(low, high)} : index")
        return name

    def arithmetic(self, depth: int, scope: list[str]) -> str:
        a, b, c = (self.rng.choice(scope) for _ in range(3))
        limit, raw, name = self.constant(depth, 11, 97), self.name(), self.name()
        operation = self.rng.choice(
            (f"index.madd {a}, {b}, {c}", f"index.add {a}, {b}", f"index.max {a}, {c}", f"index.xori {a}, {b}")
        )
        self.emit(depth, f"{raw} = {operation} : index")
        self.emit(depth, f"{name} = index.rem {raw}, {limit} : index")
        return name

    def condition(self, depth: int, scope: list[str]) -> str:
        value, two, bit, name = self.arithmetic(depth, scope), self.constant(depth, 2, 4), self.name(), self.name()
        zero = self.constant(depth, 0, 0)
        self.emit(depth, f"{bit} = index.rem {value}, {two} : index")
        self.emit(depth, f"{name} = index.cmp {self.rng.choice(('eq', 'ne', 'sgt'))}, {bit}, {zero} : index")
        return name

    def block(self, depth: int, scope: list[str]) -> str:
        """Statements; returns one of the values defined."""
        scope = list(scope)
        for _ in range(self.rng.randint(1, 3)):
            kinds = ["arithmetic"] if depth >= 2 else ["arithmetic", "if", "for", "while", "switch", "select"]
            scope.append(getattr(self, self.rng.choice(kinds) + "_")(depth, scope))
        return scope[-1]

    def arithmetic_(self, depth: int, scope: list[str]) -> str:
        return self.arithmetic(depth, scope)

    def select_(self, depth: int, scope: list[str]) -> str:
        condition, name = self.condition(depth, scope), self.name()
        a, b = self.rng.choice(scope), self.rng.choice(scope)
        self.emit(depth, f"{name} = scf.select {condition}, {a}, {b} : index")
        return name

    def region(self, depth: int, scope: list[str]) -> None:
        self.emit(depth + 1, f"scf.yield {self.block(depth + 1, scope)} : index")

    def if_(self, depth: int, scope: list[str]) -> str:
        condition, name = self.condition(depth, scope), self.name()
        self.emit(depth, f"{name} = scf.if {condition} -> (index) {{")
        self.region(depth, scope)
        self.emit(depth, "} else {")
        self.region(depth, scope)
        self.emit(depth, "}")
        return name

    def switch_(self, depth: int, scope: list[str]) -> str:
        value, four, key, name = self.arithmetic(depth, scope), self.constant(depth, 4, 4), self.name(), self.name()
        self.emit(depth, f"{key} = index.rem {value}, {four} : index")
        self.emit(depth, f"{name} = scf.switch {key} -> (index) {{")
        for case in sorted(self.rng.sample(range(4), 2)):
            self.emit(depth, f"case {case} {{")
            self.region(depth, scope)
            self.emit(depth, "}")
        self.emit(depth, "default {")
        self.region(depth, scope)
        self.emit(depth, "}")
        self.emit(depth, "}")
        return name

    def for_(self, depth: int, scope: list[str]) -> str:
        value, bound, upper = self.arithmetic(depth, scope), self.constant(depth, 3, 6), self.name()
        lower, step, name = self.constant(depth, 0, 2), self.constant(depth, 1, 2), self.name()
        self.emit(depth, f"{upper} = index.rem {value}, {bound} : index")
        i, carried, init = self.name(), self.name(), self.rng.choice(scope)
        self.emit(
            depth,
            f"{name} = scf.for {i} = [{lower} to {upper} step {step}]({carried} = {init} : index) -> (index) {{",
        )
        self.region(depth, [*scope, i, carried])
        self.emit(depth, "}")
        return name

    def while_(self, depth: int, scope: list[str]) -> str:
        value, bound, fuel = self.arithmetic(depth, scope), self.constant(depth, 3, 6), self.name()
        zero, one = self.constant(depth, 0, 0), self.constant(depth, 1, 1)
        left, carried, last, result, go = (self.name() for _ in range(5))
        inner, inner_left, less = (self.name() for _ in range(3))
        init = self.rng.choice(scope)
        self.emit(depth, f"{fuel} = index.rem {value}, {bound} : index")
        self.emit(
            depth,
            f"{last}, {result} = scf.while({left} = {fuel} : index, {carried} = {init} : index) -> (index, index) {{",
        )
        seen = self.block(depth + 1, [*scope, left, carried])
        self.emit(depth + 1, f"{go} = index.cmp sgt, {left}, {zero} : index")
        self.emit(depth + 1, f"scf.condition {go}, {left}, {seen} : i1, index, index")
        self.emit(depth, f"}} do({inner_left}: index, {inner}: index) {{")
        value = self.block(depth + 1, [*scope, inner_left, inner])
        self.emit(depth + 1, f"{less} = index.sub {inner_left}, {one} : index")
        self.emit(depth + 1, f"scf.yield {less}, {value} : index, index")
        self.emit(depth, "}")
        return result

    def structured(self) -> str:
        """A function of nested structured control flow."""
        result = self.block(0, ["%x"])
        return "\n".join(["func.def @f(%x: index) -> (index) {", *self.lines, f"  func.return {result} : index", "}"])

    def branching(self, blocks: int) -> str:
        """A function whose blocks branch to each other at random until their fuel is used up."""
        self.emit(0, "%zero = index.constant 0 : index")
        self.emit(0, "%one = index.constant 1 : index")
        self.emit(0, "%fuel = index.constant 12 : index")
        self.emit(0, "cfg.br ^b0(%x: index, %fuel: index)")
        text = ["func.def @f(%x: index) -> (index) {", *self.lines]
        for i in range(blocks):
            self.lines = []
            value = self.arithmetic(0, [f"%a{i}", "%x"])
            self.emit(0, f"%left{i} = index.sub %f{i}, %one : index")
            self.emit(0, f"%stop{i} = index.cmp sle, %left{i}, %zero : index")
            self.emit(0, f"cfg.cond_br %stop{i}, ^end{i}, ^go{i}")
            text += [f"^b{i}(%a{i}: index, %f{i}: index):", *self.lines, f"^end{i}:", f"  func.return {value} : index"]
            self.lines = []
            condition = self.condition(0, [value, f"%a{i}"])
            self.emit(0, f"cfg.cond_br {condition}, ^left{i}, ^right{i}")
            text += [f"^go{i}:", *self.lines]
            for side in ("left", "right"):
                target = self.rng.randrange(blocks)
                operands = f"{self.rng.choice((value, f'%a{i}'))}: index, %left{i}: index"
                text += [f"^{side}{i}:", f"  cfg.br ^b{target}({operands})"]
        return "\n".join([*text, "}"])


def both_ways(programs: Programs, function: str) -> tuple[list[int], list[int]]:
    """The results of `f` for 0 ... LANES - 1: by one kernel launch, and by calls with one lane each."""
    body = f"""
  %r = func.call @f(%lane) : (index) -> (index)
  %out = buffer.view %o[%at0] : buffer -> view<{LANES}xindex>
  view.store %r, %out[%lane] : index, view<{LANES}xindex>"""
    module = programs.module(programs.kernel(body, "%o: buffer", size=LANES, extra=function))
    program, symbols = Program(module), module.symbols()
    out = np.full(LANES, -1, dtype=np.int64)
    launch_kernel(program, symbols["k"], [], [out])
    return out.tolist(), [int(call_function(program, symbols["f"], [lane])[0]) for lane in range(LANES)]


@pytest.mark.parametrize("seed", range(60))
def test_structured_programs(programs: Programs, seed: int) -> None:
    together, alone = both_ways(programs, Generator(random.Random(seed)).structured())
    assert together == alone


@pytest.mark.parametrize("seed", range(40))
def test_branching_programs(programs: Programs, seed: int) -> None:
    rng = random.Random(seed)
    together, alone = both_ways(programs, Generator(rng).branching(rng.randint(1, 6)))
    assert together == alone
    if seed == 0:
        assert len(set(alone)) > 1


def test_each_dialect_finds_its_own_rules_first() -> None:
    """Families of operations are declared by shared code; their rules load with their own dialect all the same."""
    program = """
from loom.evaluate.device import open_reference_device
from loom.text.parser import parse_module
module = parse_module("func.def @f(%a: index) -> (index) {\\n  %r = index.add %a, %a : index\\n"
                      "  func.return %r : index\\n}\\n")
assert open_reference_device(None).call(module, module.symbols()["f"], [21]) == [42]
"""
    subprocess.run([sys.executable, "-c", program], check=True)
