"""Random loop programs whose results must not depend on their policies."""

from __future__ import annotations

import random
from collections.abc import Callable

import attrs
import numpy as np
import pytest

from loom.evaluate.dispatch import launch_kernel
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.ir.core import Module
from loom.specialize.pipeline import specialize
from loom.text.parser import parse_module
from loom.transforms.canonicalize import canonicalize
from loom.transforms.cse import eliminate_common
from loom.transforms.loops import pipeline_loops, unroll_loops
from loom.verify.verifier import verify_module

LANES = 8
ELEMENTS = 64
TRIPS = range(21)
SCHEDULES = ("", " schedule(linear)", " schedule(interleaved)", " schedule(recurrence)")


@attrs.frozen
class Policy:
    """Clauses of one loop: read-ahead depth, unroll factor (0: bare ``unroll``, 1: none) and schedule."""

    depth: int
    factor: int
    schedule: str

    def clauses(self) -> str:
        text = f" pipeline(%depth{self.depth})" if self.depth else ""
        if self.factor == 1:
            return text
        return text + (" unroll" if self.factor == 0 else f" unroll(%factor{self.factor})") + self.schedule


@attrs.frozen
class LoopProgram:
    """A kernel with ``{policy}`` and ``{inner}`` where clauses go, and the trip counts to run it with."""

    text: str
    trips: tuple[int, ...]
    lower: int
    step: int
    cut: int
    """How far the upper bound lies below the end of the last whole step."""

    def with_policies(self, outer: Policy | None, inner: Policy | None = None) -> str:
        """The program's text; without a policy the loop has no clause."""
        clauses = {"policy": outer.clauses() if outer else "", "inner": inner.clauses() if inner else ""}
        return self.text.replace("{policy}", clauses["policy"]).replace("{inner}", clauses["inner"])

    def run(self, module: Module) -> list[bytes]:
        """Everything that the kernel writes, for each trip count."""
        (kernel,) = (op for op in module.ops if op.name == "kernel.def")
        rng = np.random.default_rng(5)
        ints = rng.integers(-1000, 1000, ELEMENTS, dtype=np.int32)
        floats = rng.standard_normal(ELEMENTS).astype(np.float32)
        results = []
        for trips in self.trips:
            upper = self.lower + trips * self.step - (self.cut if trips else 0)
            out = np.zeros((4, LANES, 4), dtype=np.int32)
            scratch = np.arange(ELEMENTS * LANES, dtype=np.int32)
            arguments = [self.lower, upper, ints.copy(), floats.copy(), scratch, out]
            launch_kernel(Program(module, {"subgroup_size": LANES}, Limits()), kernel, [], arguments)
            results.append(out.tobytes() + scratch.tobytes())
        return results


def specialized(text: str) -> Module:
    """The specialized program; both forms are valid."""
    module = parse_module(text, "loop.loom")
    assert verify_module(module) == []
    result = specialize(module, None).module
    assert verify_module(result) == []
    return result


class _Writer:
    """Writes one random kernel. Every value it makes is defined for all inputs."""

    def __init__(self, rng: random.Random, *, read_ahead: bool, exact: bool | None = None) -> None:
        self.rng = rng
        self.read_ahead = read_ahead
        self.lines: list[str] = []
        self.count = 0
        self.exact = rng.random() < 0.4 if exact is None else exact
        self.type = rng.choice(("index", "index", "offset"))
        self.lower = rng.choice((0, 0, 1, 3, -7 if self.type == "index" else 2))
        self.step = rng.choice((1, 1, 2, 3))
        self.cut = rng.randrange(self.step)
        self.trips = (rng.choice(TRIPS),) if self.exact else (0, rng.randint(1, 6), rng.randint(5, 20))

    def new(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def emit(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def binary(self, depth: int, type_: str, left: str, right: str) -> str:
        name = self.new()
        op = self.rng.choice(("addf", "mulf", "subf") if "f32" in type_ else ("addi", "muli", "subi", "xori"))
        self.emit(depth, f"{name} = {'vector' if 'vector' in type_ else 'scalar'}.{op} {left}, {right} : {type_}")
        return name

    def address(self, depth: int, base: str) -> str:
        """An index from 0 to 63 computed from an index."""
        scaled, bounded = self.new(), self.new()
        factor, shift = self.rng.choice(("%lane", "%one", "%three")), self.rng.choice(("%lane", "%three", "%one"))
        self.emit(depth, f"{scaled} = index.madd {base}, {factor}, {shift} : index")
        self.emit(depth, f"{bounded} = index.andi {scaled}, %mask : index")
        return bounded

    def load(self, depth: int, base: str, type_: str) -> str:
        at, name = self.address(depth, base), self.new()
        if type_ == "vector<4xi32>":
            row, scaled = self.new(), self.new()
            self.emit(depth, f"{row} = index.andi {at}, %rows : index")
            self.emit(depth, f"{scaled} = index.mul {row}, %four : index")
            self.emit(depth, f"{name} = vector.load %ints[{scaled}] : view<64xi32> -> vector<4xi32>")
        else:
            source, view = ("%floats", "view<64xf32>") if type_ == "f32" else ("%ints", "view<64xi32>")
            self.emit(depth, f"{name} = view.load {source}[{at}] : {view} -> {type_}")
        if type_ == "i32" and self.rng.random() < 0.3:
            # A dependent lookup: the loaded number is the next address.
            position, again = self.new(), self.new()
            self.emit(depth, f"{position} = index.cast {name} : i32 to index")
            bounded = self.new()
            self.emit(depth, f"{bounded} = index.andi {position}, %mask : index")
            self.emit(depth, f"{again} = view.load %ints[{bounded}] : view<64xi32> -> i32")
            return self.binary(depth, "i32", name, again)
        return name

    def condition(self, depth: int, base: str, *, uniform: bool = False) -> str:
        """A condition computed from a position, with ``uniform`` the same in all lanes."""
        place = base if uniform else self.address(depth, base)
        bit, name = self.new(), self.new()
        self.emit(depth, f"{bit} = index.andi {place}, %three : index")
        self.emit(depth, f"{name} = index.cmp {self.rng.choice(('ne', 'sgt', 'slt'))}, {bit}, %one : index")
        return name

    def guarded_load(self, depth: int, base: str, type_: str) -> str:
        condition, name = self.condition(depth, base), self.new()
        self.emit(depth, f"{name} = scf.if {condition} -> ({type_}) {{")
        self.emit(depth + 1, f"scf.yield {self.load(depth + 1, base, type_)} : {type_}")
        self.emit(depth, "} else {")
        self.emit(depth + 1, f"scf.yield {self.zero(type_)} : {type_}")
        self.emit(depth, "}")
        return name

    def reduction(self, depth: int, base: str, type_: str) -> str:
        """An inner loop that only reads."""
        name, inner, total = self.new(), self.new(), self.new()
        bound = self.rng.choice(("%three", "%four", "%few"))
        if self.rng.random() < 0.3:
            bound = self.new()
            self.emit(depth, f"{bound} = index.andi {base}, %three : index")
        clause = "{inner}" if self.rng.random() < 0.6 else ""
        self.emit(
            depth,
            f"{name} = scf.for {inner} = [%zero to {bound} step %one]({total} = {self.zero(type_)} : {type_})"
            f" -> ({type_}){clause} {{",
        )
        loaded = self.load(depth + 1, inner, type_)
        self.emit(depth + 1, f"scf.yield {self.binary(depth + 1, type_, total, loaded)} : {type_}")
        self.emit(depth, "}")
        return name

    def guarded_update(self, depth: int, base: str, type_: str, carried: str, collective: bool) -> str:
        """A conditional that reads and updates carried state."""
        condition, name = self.condition(depth, base, uniform=collective), self.new()
        read_first = self.rng.random() < 0.5
        self.emit(depth, f"{name} = scf.if {condition} -> ({type_}) {{")
        for side in (0, 1):
            if (side == 0) == read_first:
                value = self.load(depth + 1, base, type_)
                if collective and type_ == "i32":
                    value = self.collective(depth + 1, value)
                value = self.binary(depth + 1, type_, carried, value)
            else:
                value = self.binary(depth + 1, type_, carried, carried) if self.rng.random() < 0.4 else carried
            self.emit(depth + 1, f"scf.yield {value} : {type_}")
            self.emit(depth, "} else {" if side == 0 else "}")
        return name

    def pure_loop(self, depth: int, type_: str, value: str, carried: str) -> str:
        name, inner, total = self.new(), self.new(), self.new()
        bound = self.rng.choice(("%three", "%few"))
        self.emit(
            depth,
            f"{name} = scf.for {inner} = [%zero to {bound} step %one]({total} = {carried} : {type_}) -> ({type_}) {{",
        )
        self.emit(depth + 1, f"scf.yield {self.binary(depth + 1, type_, total, value)} : {type_}")
        self.emit(depth, "}")
        return name

    def collective(self, depth: int, value: str) -> str:
        name = self.new()
        group = self.rng.choice(("subgroup", "workgroup"))
        self.emit(depth, f"{name} = kernel.{group}.reduce<{self.rng.choice(('addi', 'maxsi'))}> {value} : i32")
        return name

    def exchange(self, depth: int, value: str) -> str:
        """Lanes hand a value to their neighbours through workgroup memory."""
        name = self.new()
        barrier = "kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)"
        self.emit(depth, f"view.store {value}, %shared[%lane] : i32, view<8xi32>")
        self.emit(depth, barrier)
        self.emit(depth, f"{name} = view.load %shared[%neighbour] : view<8xi32> -> i32")
        self.emit(depth, barrier)
        return name

    def touch_scratch(self, depth: int, base: str, value: str) -> str:
        """Stores and loads of four elements of the lane's own part of global memory, close enough to meet."""
        accesses = ["store", "load", self.rng.choice(("store", "load"))]
        self.rng.shuffle(accesses)
        for access in accesses:
            shifted, at = self.new(), self.new()
            self.emit(depth, f"{shifted} = index.add {base}, {self.rng.choice(('%zero', '%one', '%three'))} : index")
            self.emit(depth, f"{at} = index.andi {shifted}, %three : index")
            if access == "store":
                self.emit(depth, f"view.store {value}, %scratch[%lane, {at}] : i32, view<8x64xi32>")
            else:
                old = self.new()
                self.emit(depth, f"{old} = view.load %scratch[%lane, {at}] : view<8x64xi32> -> i32")
            if self.rng.random() < 0.2:
                self.emit(depth, "scf.schedule.fence")
        return old

    def zero(self, type_: str) -> str:
        return {"i32": "%i0", "f32": "%f0", "vector<4xi32>": "%w0"}[type_]

    def body(self, types: list[str]) -> list[str]:
        """The body's lines; returns what it yields."""
        rng = self.rng
        base = "%i"
        if self.type == "offset":
            base = self.new()
            self.emit(2, f"{base} = index.cast %i : offset to index")
        if self.lower < 0:
            shifted = self.new()
            self.emit(2, f"{shifted} = index.add {base}, %mask : index")
            base = shifted
        values: list[str] = []
        for number, type_ in enumerate(types):
            carried = f"%c{number}"
            makers = [self.load, self.load, self.guarded_load, self.reduction]
            fresh = rng.choice(makers)(2, base, type_)
            if self.exact and type_ == "i32" and rng.random() < 0.4:
                fresh = rng.choice((self.collective, self.exchange))(2, fresh)
            if not self.read_ahead and type_ == "i32" and rng.random() < 0.6:
                fresh = self.binary(2, "i32", fresh, self.touch_scratch(2, base, fresh))
            kind = rng.randrange(4)
            if kind == 0:
                value = self.pure_loop(2, type_, fresh, carried)
            elif kind == 1:
                update = self.guarded_update(2, base, type_, carried, self.exact and rng.random() < 0.3)
                value = self.binary(2, type_, update, fresh)
            else:
                value = self.binary(2, type_, carried, fresh)
            if type_ == "i32" and rng.random() < 0.3:
                position = self.new()
                self.emit(2, f"{position} = index.cast {base} : index to i32")
                value = self.binary(2, type_, value, position)
            values.append(value)
        if len(types) > 1 and types[0] == types[1] and rng.random() < 0.5:
            values[0], values[1] = values[1], values[0]
        return values

    def program(self) -> LoopProgram:
        types = [self.rng.choice(("i32", "i32", "f32", "vector<4xi32>")) for _ in range(self.rng.choice((1, 1, 2, 3)))]
        trips = self.trips[0] if self.exact else 0
        upper = self.lower + trips * self.step - (self.cut if trips else 0)
        for number in range(1, 6):
            self.emit(1, f"%depth{number} = index.constant {number} : index")
        for number in range(2, 7):
            self.emit(1, f"%factor{number} = index.constant {number} : index")
        bounds = ("%lo", "%hi")
        if self.exact:
            self.emit(1, f"%lo = index.constant {self.lower} : {self.type}")
            self.emit(1, f"%hi = index.constant {upper} : {self.type}")
        elif self.rng.random() < 0.3 and self.type == "index":
            # Every lane has its own number of iterations, and facts bound the range.
            self.emit(1, f"%lo = index.constant {self.lower} : index")
            self.emit(1, "%end = index.sub %upper, %lane : index")
            self.emit(1, "%hi = index.assume %end [range(%end, -64, 1000)] : index")
        elif self.type == "offset":
            self.emit(1, "%lo = index.cast %lower : index to offset")
            self.emit(1, "%hi = index.cast %upper : index to offset")
        else:
            bounds = ("%lower", "%upper")
        self.emit(1, f"%st = index.constant {self.step} : {self.type}")
        carried = ", ".join(f"%c{n} = {self.zero(t)} : {t}" for n, t in enumerate(types))
        results = ", ".join(f"%r{n}" for n in range(len(types)))
        joined = ", ".join(types)
        self.emit(
            1,
            f"{results} = scf.for %i = [{bounds[0]} to {bounds[1]} step %st]({carried}) -> ({joined}){{policy}} {{",
        )
        yielded = self.body(types)
        self.emit(2, f"scf.yield {', '.join(yielded)} : {joined}")
        self.emit(1, "}")
        for number, type_ in enumerate(types):
            if "vector" in type_:
                self.emit(1, f"vector.store %r{number}, %out[{number}, %lane, 0] : {type_}, view<4x8x4xi32>")
                continue
            word = f"%r{number}"
            if type_ == "f32":
                word = self.new()
                self.emit(1, f"{word} = scalar.bitcast %r{number} : f32 to i32")
            self.emit(1, f"view.store {word}, %out[{number}, %lane, 0] : i32, view<4x8x4xi32>")
        text = HEADER + "\n".join(self.lines) + "\n  kernel.return\n}\n"
        return LoopProgram(text, self.trips, self.lower, self.step, self.cut)


HEADER = """\
kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  %size = index.constant 8 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%size, %unit, %unit) : index
} launch(%lower: index, %upper: index, %b_ints: buffer, %b_floats: buffer, %b_scratch: buffer, %b_out: buffer) {
  %at0 = index.constant 0 : offset
  %lane = kernel.workitem.id<x> : index
  %ints = buffer.view %b_ints[%at0] : buffer -> view<64xi32>
  %floats = buffer.view %b_floats[%at0] : buffer -> view<64xf32>
  %scratch = buffer.view %b_scratch[%at0] : buffer -> view<8x64xi32>
  %out = buffer.view %b_out[%at0] : buffer -> view<4x8x4xi32>
  %shared_bytes = index.constant 32 : offset
  %storage = buffer.alloca<workgroup> align(4) %shared_bytes : buffer
  %shared = buffer.view %storage[%at0] : buffer -> view<8xi32>
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %three = index.constant 3 : index
  %four = index.constant 4 : index
  %rows = index.constant 15 : index
  %mask = index.constant 63 : index
  %seven = index.constant 7 : index
  %beside = index.add %lane, %one : index
  %neighbour = index.andi %beside, %seven : index
  %few = index.andi %lane, %three : index
  %i0 = scalar.constant 5 : i32
  %f0 = scalar.constant 0.5 : f32
  %w0 = vector.constant 3 : vector<4xi32>
"""


def write_program(seed: int, *, read_ahead: bool) -> LoopProgram:
    """The program of a seed; with ``read_ahead`` only what section 10.2 admits above depth one."""
    return _Writer(random.Random(seed), read_ahead=read_ahead).program()


@pytest.fixture(scope="session")
def loop_program() -> Callable[..., LoopProgram]:
    """Makes the program of a seed."""
    return write_program


@attrs.frozen
class Agreement:
    """Compares programs with and without policies."""

    def check(self, seed: int) -> str:
        """Run one random program under one random choice of policies; returns the clauses."""
        rng = random.Random(~seed)
        outer = Policy(rng.randint(1, 5), rng.randint(1, 6), rng.choice(SCHEDULES))
        inner = Policy(rng.choice((0, 1, 2, 3)), rng.choice((1, 2, 3)), rng.choice(SCHEDULES))
        program = write_program(seed, read_ahead=outer.depth > 1)
        if "= index.constant" in program.text.partition("%lo ")[2][:20] and len(program.trips) == 1:
            outer = attrs.evolve(outer, factor=rng.choice((outer.factor, 0)))
        plain = parse_module(program.with_policies(None), "plain.loom")
        assert verify_module(plain) == []
        text = program.with_policies(outer, inner)
        assert program.run(specialized(text)) == program.run(plain), f"seed {seed}:\n{text}"
        return outer.clauses()

    def check_memory_order(self, seed: int) -> None:
        """Loads and stores of one place, in full unrolling under the schedules that move operations."""
        rng = random.Random(~seed)
        program = _Writer(random.Random(seed), read_ahead=False, exact=True).program()
        policy = Policy(0, 0, rng.choice(SCHEDULES[2:]))
        plain = parse_module(program.with_policies(None), "plain.loom")
        text = program.with_policies(policy)
        assert program.run(specialized(text)) == program.run(plain), f"seed {seed}:\n{text}"

    def check_each_pass(self, seed: int) -> None:
        """The program means the same and stays valid after each single pass."""
        rng = random.Random(~seed)
        outer = Policy(rng.randint(2, 5), rng.randint(2, 4), rng.choice(SCHEDULES))
        program = write_program(seed, read_ahead=True)
        module = parse_module(program.with_policies(outer, Policy(2, 2, "")), "loop.loom")
        (kernel,) = (op for op in module.ops if op.name == "kernel.def")
        want = program.run(module)
        for step in (
            lambda: canonicalize(kernel, module.symbols()),
            lambda: pipeline_loops(kernel, {}),
            lambda: eliminate_common(kernel),
            lambda: unroll_loops(kernel, {}),
            lambda: canonicalize(kernel, module.symbols()),
        ):
            step()
            assert verify_module(module) == []
            assert program.run(module) == want, f"seed {seed}"


@pytest.fixture(scope="session")
def agreement() -> Agreement:
    return Agreement()
