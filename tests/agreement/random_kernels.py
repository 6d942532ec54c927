"""Random valid kernels: integer and float arithmetic of every width, conversions, branches and loops.

A kernel takes one uniform scalar of each stored type, reads one ``i32`` and one ``f32`` per work-item, computes, and
writes one value of each stored type.
Everything in it is defined for every input: divisors are made odd and positive, shift amounts constant, trip counts
small.
"""

from __future__ import annotations

import random
from typing import Final

INTEGERS: Final = ("i8", "i16", "i32", "i64")
FLOATS: Final = ("f16", "f32", "f64")
WIDTH: Final = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "f16": 16, "f32": 32, "f64": 64}
TYPES: Final = ("i1", *INTEGERS, *FLOATS)
STORED: Final = ("i32", "i64", "f32", "f64")

INTEGER_BINARY: Final = ("addi", "subi", "muli", "andi", "ori", "xori", "minsi", "maxsi", "minui", "maxui")
DIVISIONS: Final = ("divsi", "divui", "remsi", "remui")
SHIFTS: Final = ("shli", "shrsi", "shrui")
INTEGER_UNARY: Final = ("negi", "absi", "ctlzi", "cttzi", "ctpopi")
FLOAT_BINARY: Final = ("addf", "subf", "mulf", "minnumf", "maxnumf", "minimumf", "maximumf", "copysignf")
FLOAT_UNARY: Final = ("negf", "absf", "floorf", "ceilf", "truncf", "roundevenf")
INTEGER_PREDICATES: Final = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_PREDICATES: Final = (
    "oeq",
    "ogt",
    "oge",
    "olt",
    "ole",
    "one",
    "ord",
    "ueq",
    "ugt",
    "uge",
    "ult",
    "ule",
    "une",
    "uno",
)

HEAD: Final = """\
kernel.def export("k") @k(%n: index) {
  %one = index.constant 1 : index
  %lanes = index.constant 64 : index
  %less = index.constant 63 : index
  %rounding = index.add %n, %less : index
  %groups = index.div %rounding, %lanes : index
  kernel.launch.config workgroups(%groups, %one, %one) workgroup_size(%lanes, %one, %one) : index
} launch(%count: index, %u_i32: i32, %u_i64: i64, %u_f32: f32, %u_f64: f64, %in_i32: buffer, %in_f32: buffer, %out_i32: buffer, %out_i64: buffer, %out_f32: buffer, %out_f64: buffer) {
  %origin = index.constant 0 : offset
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %group = kernel.workgroup.id<x> : index
  %lane = kernel.workitem.id<x> : index
  %width = kernel.workgroup.size<x> : index
  %at = index.madd %group, %width, %lane : index
  %active = index.cmp ult, %at, %count : index
  scf.if %active {
"""


class Writer:
    """Writes one kernel. ``features`` limits the types that occur."""

    def __init__(self, seed: int, types: tuple[str, ...] = TYPES, statements: int = 24) -> None:
        self.random = random.Random(seed)
        self.types = types
        self.lines: list[str] = []
        self.values: dict[str, list[str]] = {t: [] for t in TYPES}
        self.left = statements
        self.counter = 0
        self.depth = 2

    def kernel(self) -> str:
        """The text of the module."""
        for t in ("i32", "f32"):
            self._emit(f"%v_{t} = buffer.view %in_{t}[%origin] : buffer -> view<[%count]x{t}>")
            self._emit(f"%x_{t} = view.load %v_{t}[%at] : view<[%count]x{t}> -> {t}")
            self.values[t].append(f"%x_{t}")
        for t in STORED:
            self.values[t].insert(0, f"%u_{t}")
        while self.left > 0:
            self._statement()
        for t in STORED:
            value = self._value(t)
            self._emit(f"%o_{t} = buffer.view %out_{t}[%origin] : buffer -> view<[%count]x{t}>")
            self._emit(f"view.store {value}, %o_{t}[%at] : {t}, view<[%count]x{t}>")
        return HEAD + "\n".join(self.lines) + "\n  }\n  kernel.return\n}\n"

    def _emit(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    def _fresh(self) -> str:
        self.counter += 1
        return f"%t{self.counter}"

    def _define(self, type_: str, expression: str) -> str:
        name = self._fresh()
        self._emit(f"{name} = {expression}")
        self.values[type_].append(name)
        return name

    def _value(self, type_: str) -> str:
        """A value of a type: a recent one, a constant, or a conversion."""
        known = self.values[type_]
        roll = self.random.random()
        if known and roll < 0.15:
            # The oldest value: a uniform one where there is one.
            return known[0]
        if known and roll < 0.85:
            return self.random.choice(known[-6:])
        return (
            self._constant(type_)
            if known or type_ in ("i1", "f16") or self.random.random() < 0.3
            else self._convert(type_)
        )

    def _constant(self, type_: str) -> str:
        r = self.random
        if type_ == "i1":
            text = r.choice(("true", "false"))
        elif type_ in INTEGERS:
            top = 1 << (WIDTH[type_] - 1)
            text = str(r.choice((0, 1, 2, 3, -1, 7, top - 1, -top, r.randrange(-top, top))))
        else:
            text = r.choice(("0.0", "-0.0", "1.0", "-1.5", "0.25", "3.0", "1024.0", "-7.75"))
        return self._define(type_, f"scalar.constant {text} : {type_}")

    def _convert(self, type_: str) -> str:
        r = self.random
        sources = [t for t in self.types if self.values[t] and t != type_]
        if not sources:
            return self._constant(type_)
        source = r.choice(sources)
        value = r.choice(self.values[source][-6:])
        narrow = WIDTH[source] < WIDTH[type_]
        if type_ == "i1":
            return self._compare(source)
        if source in FLOATS and type_ in FLOATS:
            name = "extf" if narrow else "fptrunc"
        elif source in FLOATS:
            # The bits of a NaN are nobody's promise, and other values need a range check first.
            return self._constant(type_)
        elif type_ in FLOATS:
            same_width = WIDTH[source] == WIDTH[type_] and r.random() < 0.3
            name = "bitcast" if same_width else "uitofp" if source == "i1" or r.random() < 0.5 else "sitofp"
        else:
            name = r.choice(("extsi", "extui")) if narrow else "trunci"
            if source == "i1":
                name = "extui"
        return self._define(type_, f"scalar.{name} {value} : {source} to {type_}")

    def _compare(self, type_: str) -> str:
        a, b = self._value(type_), self._value(type_)
        if type_ in FLOATS:
            return self._define("i1", f"scalar.cmpf {self.random.choice(FLOAT_PREDICATES)}, {a}, {b} : {type_}")
        return self._define("i1", f"scalar.cmpi {self.random.choice(INTEGER_PREDICATES)}, {a}, {b} : {type_}")

    def _statement(self) -> None:
        self.left -= 1
        r = self.random
        roll = r.random()
        if self.depth < 5 and roll < 0.10:
            self._branch()
        elif self.depth < 5 and roll < 0.18:
            self._loop()
        elif roll < 0.30:
            self._convert(r.choice([t for t in self.types if t != "i1"]))
        elif roll < 0.38:
            self._compare(r.choice([t for t in self.types if t != "i1"]))
        elif roll < 0.46:
            t = r.choice(self.types)
            a, b, c = self._value("i1"), self._value(t), self._value(t)
            self._define(t, f"scf.select {a}, {b}, {c} : {t}")
        else:
            self._arithmetic(r.choice(self.types))

    def _arithmetic(self, type_: str) -> None:
        r = self.random
        if type_ == "i1":
            a, b = self._value("i1"), self._value("i1")
            self._define("i1", f"scalar.{r.choice(('andi', 'ori', 'xori'))} {a}, {b} : i1")
        elif type_ in FLOATS:
            roll = r.random()
            if roll < 0.2:
                self._define(type_, f"scalar.{r.choice(FLOAT_UNARY)} {self._value(type_)} : {type_}")
            elif roll < 0.3 and type_ != "f16":
                a, b, c = self._value(type_), self._value(type_), self._value(type_)
                self._define(type_, f"scalar.fmaf {a}, {b}, {c} : {type_}")
            elif roll < 0.4:
                a, b = self._value(type_), self._value(type_)
                self._define(type_, f"scalar.divf {a}, {b} : {type_}")
            else:
                a, b = self._value(type_), self._value(type_)
                self._define(type_, f"scalar.{r.choice(FLOAT_BINARY)} {a}, {b} : {type_}")
        else:
            self._integer(type_)

    def _integer(self, type_: str) -> None:
        r = self.random
        roll = r.random()
        a = self._value(type_)
        if roll < 0.12:
            self._define(type_, f"scalar.{r.choice(INTEGER_UNARY[2:])} {a} : {type_}")
        elif roll < 0.17:
            self._define(type_, f"scalar.negi {a} : {type_}")
        elif roll < 0.30:
            amount = self._define(type_, f"scalar.constant {r.randrange(WIDTH[type_])} : {type_}")
            self._define(type_, f"scalar.{r.choice(SHIFTS)} {a}, {amount} : {type_}")
        elif roll < 0.42:
            # Odd and positive, so neither zero nor minus one.
            mask = self._define(type_, f"scalar.constant {(1 << (WIDTH[type_] - 1)) - 1} : {type_}")
            one = self._define(type_, f"scalar.constant 1 : {type_}")
            low = self._define(type_, f"scalar.andi {self._value(type_)}, {mask} : {type_}")
            divisor = self._define(type_, f"scalar.ori {low}, {one} : {type_}")
            self._define(type_, f"scalar.{r.choice(DIVISIONS)} {a}, {divisor} : {type_}")
        else:
            self._define(type_, f"scalar.{r.choice(INTEGER_BINARY)} {a}, {self._value(type_)} : {type_}")

    def _region(self, results: list[str]) -> None:
        """A nested body that ends in a yield of the given types."""
        saved = {t: list(v) for t, v in self.values.items()}
        self.depth += 1
        for _ in range(self.random.randrange(1, 5)):
            self._statement()
        values = [self._value(t) for t in results]
        self._emit(f"scf.yield {', '.join(values)} : {', '.join(results)}")
        self.depth -= 1
        self.values = saved

    def _branch(self) -> None:
        types = [self.random.choice(self.types) for _ in range(self.random.randrange(1, 3))]
        condition = self._value("i1")
        names = [self._fresh() for _ in types]
        self._emit(f"{', '.join(names)} = scf.if {condition} -> ({', '.join(types)}) {{")
        self._region(types)
        self._emit("} else {")
        self._region(types)
        self._emit("}")
        for name, type_ in zip(names, types, strict=True):
            self.values[type_].append(name)

    def _loop(self) -> None:
        r = self.random
        types = [r.choice(self.types) for _ in range(r.randrange(1, 3))]
        starts = [self._value(t) for t in types]
        if r.random() < 0.5:
            count = f"%t{self.counter + 1}"
            self._emit(f"{self._fresh()} = index.constant {r.randrange(5)} : index")
        else:
            three = self._define("i32", "scalar.constant 3 : i32")
            word = self._define("i32", f"scalar.andi {self._value('i32')}, {three} : i32")
            raw = self._fresh()
            self._emit(f"{raw} = index.cast {word} : i32 to index")
            count = raw
        names = [self._fresh() for _ in types]
        carried = [self._fresh() for _ in types]
        inits = ", ".join(f"{c} = {s} : {t}" for c, s, t in zip(carried, starts, types, strict=True))
        self._emit(
            f"{', '.join(names)} = scf.for {self._fresh()} = [%c0 to {count} step %c1]({inits}) -> ({', '.join(types)}) {{"
        )
        saved = {t: list(v) for t, v in self.values.items()}
        for name, type_ in zip(carried, types, strict=True):
            self.values[type_].append(name)
        self._region(types)
        self._emit("}")
        self.values = saved
        for name, type_ in zip(names, types, strict=True):
            self.values[type_].append(name)


def random_kernel(seed: int, types: tuple[str, ...] = TYPES, statements: int = 24) -> str:
    """The text of a module with one kernel ``@k`` over ``n`` elements."""
    return Writer(seed, types, statements).kernel()
