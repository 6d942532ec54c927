"""Random kernels around one loop, with places for its policies.

Loops, conditionals, reductions, calls, carried views, a template around the loop: what specialization takes apart.
"""

from __future__ import annotations

import random

import attrs
import numpy as np

from loom.evaluate.dispatch import launch_kernel
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.ir.core import Module

LANES = 8
ELEMENTS = 64
TRIPS = range(21)
#: One in five programs carries a vector bank: those whose seed leaves this remainder.
BANKS = 1
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
    direct: str
    """The same kernel without a template around the loop, which the evaluator runs as it is."""
    trips: tuple[int, ...]
    lower: int
    step: int
    cut: int
    """How far the upper bound lies below the end of the last whole step."""
    exact: bool
    """Whether the bounds are constants."""

    def with_policies(self, outer: Policy, inner: Policy | None = None, *, direct: bool = False) -> str:
        """The program's text with clauses at its loops."""
        text = self.direct if direct else self.text
        return text.replace("{policy}", outer.clauses()).replace("{inner}", inner.clauses() if inner else "")

    def plain(self) -> str:
        """The program's text without any policy."""
        return self.direct.replace("{policy}", "").replace("{inner}", "")

    def run(self, module: Module, limits: Limits | None = None) -> list[bytes]:
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
            launch_kernel(Program(module, {"subgroup_size": LANES}, limits or Limits()), kernel, [], arguments)
            results.append(out.tobytes() + scratch.tobytes())
        return results


class Writer:
    """Writes one random kernel. Every value it makes is defined for all inputs."""

    def __init__(
        self, rng: random.Random, *, read_ahead: bool, exact: bool | None = None, bank: random.Random | None = None
    ) -> None:
        """With ``bank``, which decides about that alone, the loop carries a vector bank as well."""
        self.rng = rng
        self.bank = Bank(self, bank) if bank is not None else None
        self.read_ahead = read_ahead
        self.calls = False
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
        if type_ == "i32" and self.rng.random() < 0.15:
            self.calls = True
            self.emit(depth, f"{name} = func.call @mix({left}, {right}) : (i32, i32) -> (i32)")
            return name
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
        views = self.carried_views()
        if self.bank is not None:
            self.bank.start(views)
        carried = [*(f"%c{n} = {self.zero(t)} : {t}" for n, t in enumerate(types)), *views.bindings]
        results = [*(f"%r{n}" for n in range(len(types))), *views.results]
        joined = ", ".join([*types, *views.result_types])
        above = len(self.lines)
        self.emit(
            1,
            f"{', '.join(results)} = scf.for %i = [{bounds[0]} to {bounds[1]} step %st]({', '.join(carried)})"
            f" -> ({joined}){{policy}} {{",
        )
        yielded = self.body(types)
        next_views = self.advance_views(views)
        if self.bank is not None:
            self.bank.advance(next_views)
        yielded_types = ", ".join([*types, *next_views.result_types])
        self.emit(2, f"scf.yield {', '.join([*yielded, *next_views.results])} : {yielded_types}")
        self.emit(1, "}")
        below = len(self.lines)
        for number, type_ in enumerate(types):
            if "vector" in type_:
                self.emit(1, f"vector.store %r{number}, %out[{number}, %lane, 0] : {type_}, view<4x8x4xi32>")
                continue
            word = f"%r{number}"
            if type_ == "f32":
                word = self.new()
                self.emit(1, f"{word} = scalar.bitcast %r{number} : f32 to i32")
            self.emit(1, f"view.store {word}, %out[{number}, %lane, 0] : i32, view<4x8x4xi32>")
        self.store_views(views)
        if self.bank is not None:
            self.bank.store()
        direct = self.text(self.lines)
        text = direct
        if not views.results and self.rng.random() < 0.4:
            text = self.in_template(self.lines[above:below], results, joined, bounds, above, below)
        return LoopProgram(text, direct, self.trips, self.lower, self.step, self.cut, self.exact)

    def text(self, lines: list[str]) -> str:
        """The kernel around lines, with the function that they call."""
        return (MIX if self.calls else "") + HEADER + "\n".join(lines) + "\n  kernel.return\n}\n"

    def in_template(
        self, loop: list[str], results: list[str], joined: str, bounds: tuple[str, str], above: int, below: int
    ) -> str:
        """The program with its loop in a template that gets bounds, policies and views as arguments."""
        parameters = {
            **dict.fromkeys((*bounds, "%st"), self.type),
            **dict.fromkeys(("%lane", "%neighbour", "%few"), "index"),
            **{f"%depth{n}": "index" for n in range(1, 6)},
            **{f"%factor{n}": "index" for n in range(2, 7)},
            "%ints": "view<64xi32>",
            "%floats": "view<64xf32>",
            "%scratch": "view<8x64xi32>",
            "%shared": "view<8xi32>",
        }
        signature = ", ".join(f"{name}: {type_}" for name, type_ in parameters.items())
        types = ", ".join(parameters.values())
        apply = f"  {', '.join(results)} = template.apply<@loop>({', '.join(parameters)}) : ({types}) -> ({joined})"
        template = [
            f"template.decl @loop({signature}) -> ({joined})\n",
            f"template.def<@loop> @loop.any({signature}) -> ({joined}) {{",
            CONSTANTS.rstrip(),
            *loop,
            f"  template.return {', '.join(results)} : {joined}",
            "}\n\n",
        ]
        return "\n".join(template) + self.text([*self.lines[:above], apply, *self.lines[below:]])

    def carried_views(self) -> Views:
        """Views that the loop carries: two slots of private memory, a window that shrinks, or none."""
        kind = self.rng.choice(("none", "slots", "window"))
        if self.read_ahead or kind == "none":
            return Views("none")
        if kind == "slots":
            self.emit(1, "%private_bytes = index.constant 8 : offset")
            self.emit(1, "%second_slot = index.constant 4 : offset")
            self.emit(1, "%private = buffer.alloca<private> align(4) %private_bytes : buffer")
            self.emit(1, "%slot0 = buffer.view %private[%at0] : buffer -> view<1xi32>")
            self.emit(1, "%slot1 = buffer.view %private[%second_slot] : buffer -> view<1xi32>")
            self.emit(1, "view.store %i0, %slot0[0] : i32, view<1xi32>")
            return Views(
                "slots",
                ["%now = %slot0 : view<1xi32>", "%next = %slot1 : view<1xi32>"],
                ["%last", "%spare"],
                ["view<1xi32>", "view<1xi32>"],
            )
        self.emit(1, "%n64 = index.constant 64 : index")
        self.emit(1, "%whole = buffer.view %b_ints[%at0] : buffer -> view<[%n64]xi32>")
        return Views(
            "window",
            ["%left = %n64 : index", "%window = %whole : view<[%n64]xi32>"],
            ["%rest", "%tail"],
            ["index", "view<[%rest]xi32>"],
        )

    def advance_views(self, views: Views) -> Views:
        """The lines that use the carried views; what the iteration yields for them."""
        if views.kind == "slots":
            self.emit(2, "%held = view.load %now[0] : view<1xi32> -> i32")
            position, word = self.new(), self.new()
            self.emit(2, f"{position} = index.cast %i : {self.type} to i32")
            self.emit(2, f"{word} = scalar.muli %held, {position} : i32")
            changed = self.binary(2, "i32", word, "%i0")
            self.emit(2, f"view.store {changed}, %next[0] : i32, view<1xi32>")
            return Views("slots", [], ["%next", "%now"], ["view<1xi32>", "view<1xi32>"])
        if views.kind == "window":
            self.emit(2, "%first = view.load %window[0] : view<[%left]xi32> -> i32")
            self.emit(2, "view.store %first, %scratch[%lane, %mask] : i32, view<8x64xi32>")
            self.emit(2, "%shorter = index.sub %left, %one : index")
            self.emit(2, "%narrow = view.subview %window[1] : view<[%left]xi32> -> view<[%shorter]xi32>")
            return Views("window", [], ["%shorter", "%narrow"], ["index", "view<[%shorter]xi32>"])
        return Views("none")

    def store_views(self, views: Views) -> None:
        """Write what the views show behind the loop."""
        if views.kind == "slots":
            self.emit(1, "%shown = view.load %last[0] : view<1xi32> -> i32")
        elif views.kind == "window":
            self.emit(1, "%element = view.load %tail[0] : view<[%rest]xi32> -> i32")
            self.emit(1, "%extent = index.cast %rest : index to i32")
            self.emit(1, "%shown = scalar.muli %element, %extent : i32")
        if views.kind != "none":
            self.emit(1, "view.store %shown, %out[3, %lane, 0] : i32, view<4x8x4xi32>")


class Bank:
    """One or two vectors that the loop carries, read and written slot by slot."""

    def __init__(self, writer: Writer, rng: random.Random) -> None:
        self.writer = writer
        self.rng = rng
        self.slots = rng.choice((1, 2, 3, 4, 4))
        self.slot_type = rng.choice(("i32", "i32", "vector<2xi32>"))
        self.type = f"vector<{self.slots}x{'2x' if 'vector' in self.slot_type else ''}i32>"
        self.count = rng.choice((1, 1, 2))

    def emit(self, depth: int, text: str) -> str:
        """A line that defines a new value."""
        name = self.writer.new()
        self.writer.emit(depth, f"{name} = {text}")
        return name

    def start(self, views: Views) -> None:
        """The first values, as bindings behind those of views."""
        for number in range(self.count):
            first = self.emit(1, f"vector.constant {number + 2} : {self.type}")
            views.bindings.append(f"%bank{number} = {first} : {self.type}")
            views.results.append(f"%banked{number}")
            views.result_types.append(self.type)

    def advance(self, views: Views) -> None:
        """What one iteration makes of the banks."""
        base = "%i"
        if self.writer.type == "offset":
            base = self.emit(2, "index.cast %i : offset to index")
        banks = [f"%bank{number}" for number in range(self.count)]
        for number, bank in enumerate(banks):
            for _ in range(self.rng.choice((1, 2, 3))):
                bank = self.step(2, bank, base)
            banks[number] = bank
        if self.rng.random() < 0.3:
            banks.reverse()
        views.results.extend(banks)
        views.result_types.extend([self.type] * self.count)

    def step(self, depth: int, bank: str, base: str) -> str:
        """The bank with something done to it, at some places under a condition or in a loop."""
        kind = self.rng.choice(("update", "update", "move", "guarded", "chosen", "loop", "lanes", "whole"))
        if kind == "guarded":
            name, condition = self.writer.new(), self.condition(depth, base)
            self.writer.emit(depth, f"{name} = scf.if {condition} -> ({self.type}) {{")
            inner = self.update(depth + 1, bank, base)
            self.writer.emit(depth + 1, f"scf.yield {inner} : {self.type}")
            self.writer.emit(depth, "} else {")
            other = self.move(depth + 1, bank) if self.rng.random() < 0.5 else bank
            self.writer.emit(depth + 1, f"scf.yield {other} : {self.type}")
            self.writer.emit(depth, "}")
            return name
        if kind == "chosen":
            changed, condition = self.update(depth, bank, base), self.condition(depth, base)
            return self.emit(depth, f"scf.select {condition}, {changed}, {bank} : {self.type}")
        if kind == "loop":
            name, inner, place = self.writer.new(), self.writer.new(), self.writer.new()
            header = f"scf.for {place} = [%zero to {self.rng.choice(('%three', '%few'))} step %one]"
            self.writer.emit(depth, f"{name} = {header}({inner} = {bank} : {self.type}) -> ({self.type}) {{")
            changed = self.update(depth + 1, inner, place)
            self.writer.emit(depth + 1, f"scf.yield {changed} : {self.type}")
            self.writer.emit(depth, "}")
            return name
        if kind == "lanes":
            return self.emit(depth, f"vector.{self.rng.choice(('addi', 'xori'))} {bank}, {bank} : {self.type}")
        if kind == "whole" and self.rng.random() < 0.4:
            # Makes a vector of one axis whole; the program means the same either way.
            lanes = ", ".join(str(n) for n in reversed(range(self.slots)))
            return (
                bank
                if "vector" in self.slot_type
                else self.emit(depth, f"vector.shuffle<[{lanes}]> {bank} : {self.type}")
            )
        return self.move(depth, bank) if kind == "move" else self.update(depth, bank, base)

    def condition(self, depth: int, base: str) -> str:
        bit = self.emit(depth, f"index.andi {base}, %one : index")
        return self.emit(depth, f"index.cmp ne, {bit}, {self.rng.choice(('%zero', '%few'))} : index")

    def slot(self, depth: int, base: str | None = None) -> str:
        """The number of a slot: written out, a value that is known, or now and then one that is not."""
        if self.slots == 4 and base is not None and self.rng.random() < 0.05:
            return self.emit(depth, f"index.andi {base}, %three : index")
        number = self.rng.randrange(self.slots)
        return {0: "%zero", 1: "%one", 3: "%three"}.get(number, "2") if self.rng.random() < 0.3 else str(number)

    def read(self, depth: int, bank: str, slot: str) -> str:
        return self.emit(depth, f"vector.extract {bank}[{slot}] : {self.type} -> {self.slot_type}")

    def move(self, depth: int, bank: str) -> str:
        """A slot's value in another slot."""
        value = self.read(depth, bank, self.slot(depth))
        return self.emit(
            depth, f"vector.insert {value} into {bank}[{self.slot(depth)}] : {self.slot_type}, {self.type}"
        )

    def update(self, depth: int, bank: str, base: str) -> str:
        """A slot, or an element of one, with a value that depends on the position."""
        word = self.emit(depth, f"index.cast {base} : index to i32")
        slot = self.slot(depth, base)
        if "vector" in self.slot_type and self.rng.random() < 0.4:
            old = self.emit(depth, f"vector.extract {bank}[{slot}, 1] : {self.type} -> i32")
            new = self.emit(depth, f"scalar.addi {old}, {word} : i32")
            return self.emit(depth, f"vector.insert {new} into {bank}[{slot}, 0] : i32, {self.type}")
        old = self.read(depth, bank, slot)
        if "vector" in self.slot_type:
            word = self.emit(depth, f"vector.splat {word} : {self.slot_type}")
        dialect = "vector" if "vector" in self.slot_type else "scalar"
        new = self.emit(
            depth, f"{dialect}.{self.rng.choice(('addi', 'muli', 'subi'))} {old}, {word} : {self.slot_type}"
        )
        return self.emit(depth, f"vector.insert {new} into {bank}[{slot}] : {self.slot_type}, {self.type}")

    def store(self) -> None:
        """Write a number that every slot has a share in."""
        total = "%i0"
        for number in range(self.count):
            for slot in range(self.slots):
                place = f"{slot}, 1" if "vector" in self.slot_type else str(slot)
                found = self.emit(1, f"vector.extract %banked{number}[{place}] : {self.type} -> i32")
                scaled = self.emit(1, f"scalar.muli {total}, %i0 : i32")
                total = self.emit(1, f"scalar.addi {scaled}, {found} : i32")
        self.writer.emit(1, f"view.store {total}, %out[3, %lane, 1] : i32, view<4x8x4xi32>")


@attrs.frozen
class Views:
    """Views that a loop carries, as text: what binds them, names of their results, and types of the results."""

    kind: str
    bindings: list[str] = attrs.field(factory=list)
    results: list[str] = attrs.field(factory=list)
    result_types: list[str] = attrs.field(factory=list)


MIX = """\
func.def inline @mix(%a: i32, %b: i32) -> (i32) {
  %product = scalar.muli %a, %b : i32
  %sum = scalar.addi %product, %a : i32
  func.return %sum : i32
}

"""

CONSTANTS = """\
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %three = index.constant 3 : index
  %four = index.constant 4 : index
  %rows = index.constant 15 : index
  %mask = index.constant 63 : index
  %seven = index.constant 7 : index
  %i0 = scalar.constant 5 : i32
  %f0 = scalar.constant 0.5 : f32
  %w0 = vector.constant 3 : vector<4xi32>
"""

HEADER = (
    """\
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
"""
    + CONSTANTS
    + """\
  %beside = index.add %lane, %one : index
  %neighbour = index.andi %beside, %seven : index
  %few = index.andi %lane, %three : index
"""
)


def write_program(seed: int, *, read_ahead: bool) -> LoopProgram:
    """The program of a seed; with ``read_ahead`` only what section 10.2 admits above depth one."""
    bank = random.Random(-1 - seed) if seed % 5 == BANKS else None
    return Writer(random.Random(seed), read_ahead=read_ahead, bank=bank).program()
