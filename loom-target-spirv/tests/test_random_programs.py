"""Random programs give the same bits on the device as on the reference evaluator."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loom import api
from loom.evaluate.device import open_reference_device

Launch = Callable[..., None]
Text = Callable[..., str]

TYPES = ("i1", "i8", "i16", "i32", "i64", "f16", "f32", "f64")
STORAGE = {"i1": "?", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "f16": "f2", "f32": "f4", "f64": "f8"}

INTEGER = {
    1: ("negi", "absi", "signi", "ctlzi", "cttzi", "ctpopi"),
    2: ("addi", "subi", "muli", "minsi", "maxsi", "minui", "maxui", "andi", "ori", "xori", "rotli", "rotri"),
    3: ("fmai",),
}
FLOAT = {
    1: ("negf", "absf", "signf", "ceilf", "floorf", "truncf", "roundf", "roundevenf"),
    2: ("addf", "subf", "mulf", "divf", "minimumf", "maximumf", "minnumf", "maxnumf", "remf"),
    3: ("fmaf",),
}
# Nothing here makes numbers of the sign or payload of a NaN, which devices choose freely.  Truth values are
# conditions only; their arithmetic is covered operation by operation elsewhere.
TRUTH = ("andi", "ori", "xori")


class Writer:
    """Writes a random body over the values in scope; every operation it picks is defined for all operands."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def name(self) -> str:
        """A fresh value name."""
        self.count += 1
        return f"%t{self.count}"

    def pick(self, scope: dict[str, list[str]], type_: str) -> str:
        """A value of a type; recent ones are likelier."""
        values = scope[type_]
        return values[max(self.random.randrange(len(values)), self.random.randrange(len(values)))]

    def add(self, scope: dict[str, list[str]], type_: str, text: str) -> None:
        """A new value from the text of an operation."""
        name = self.name()
        self.lines.append(f"{name} = {text}")
        scope[type_].append(name)

    def body(self, scope: dict[str, list[str]], length: int, depth: int) -> None:
        """Some operations, structured ones among them while `depth` lasts."""
        for _ in range(length):
            step = self.random.random()
            if depth and step < 0.1:
                self.conditional(scope, depth)
            elif depth and step < 0.18:
                self.loop(scope, depth)
            elif step < 0.3:
                self.conversion(scope)
            elif step < 0.4:
                self.comparison(scope)
            else:
                self.arithmetic(scope)

    def arithmetic(self, scope: dict[str, list[str]]) -> None:
        """An operation of one to three operands."""
        type_ = self.random.choice(TYPES)
        arity = 2 if type_ == "i1" else self.random.choice((1, 2, 2, 2, 3))
        table = FLOAT if type_[0] == "f" else INTEGER
        name = self.random.choice(TRUTH if type_ == "i1" else table[arity])
        operands = ", ".join(self.pick(scope, type_) for _ in range(arity))
        self.add(scope, type_, f"scalar.{name} {operands} : {type_}")

    def comparison(self, scope: dict[str, list[str]]) -> None:
        """A truth value, and a choice by it."""
        type_ = self.random.choice(TYPES[1:])
        a, b = self.pick(scope, type_), self.pick(scope, type_)
        if type_[0] == "f":
            predicate = self.random.choice(("oeq", "olt", "oge", "une", "ult", "ord", "uno"))
            self.add(scope, "i1", f"scalar.cmpf {predicate}, {a}, {b} : {type_}")
        else:
            predicate = self.random.choice(("eq", "ne", "slt", "sge", "ult", "uge"))
            self.add(scope, "i1", f"scalar.cmpi {predicate}, {a}, {b} : {type_}")
        self.add(scope, type_, f"scf.select {scope['i1'][-1]}, {a}, {b} : {type_}")

    def conversion(self, scope: dict[str, list[str]]) -> None:
        """Between any two types, but from floats to integers."""
        source, target = self.random.sample(TYPES, 2)
        value = self.pick(scope, source)
        wider = int(source[1:]) < int(target[1:])
        if source[0] == "f" and target[0] == "f":
            name = "extf" if wider else "fptrunc"
        elif source[0] == "f":
            return
        elif target[0] == "f":
            same = source[1:] == target[1:]
            name = "uitofp" if source == "i1" else self.random.choice(("sitofp", "bitcast" if same else "uitofp"))
        elif wider:
            name = "extui" if source == "i1" else self.random.choice(("extsi", "extui"))
        else:
            name = "trunci"
        self.add(scope, target, f"scalar.{name} {value} : {source} to {target}")

    def conditional(self, scope: dict[str, list[str]], depth: int) -> None:
        """Two arms, each with its own values, and up to three results."""
        types = self.random.choices(TYPES, k=self.random.randint(1, 3))
        results = [self.name() for _ in types]
        listed = ", ".join(types)
        self.lines.append(f"{', '.join(results)} = scf.if {self.pick(scope, 'i1')} -> ({listed}) {{")
        for arm in range(2):
            inner = {type_: list(values) for type_, values in scope.items()}
            self.body(inner, 5, depth - 1)
            self.lines.append(f"scf.yield {', '.join(self.pick(inner, type_) for type_ in types)} : {listed}")
            self.lines.append("} else {" if arm == 0 else "}")
        for type_, result in zip(types, results, strict=True):
            scope[type_].append(result)

    def loop(self, scope: dict[str, list[str]], depth: int) -> None:
        """Up to three rounds, by a value of each work-item, carrying up to three values."""
        types = self.random.choices(TYPES, k=self.random.randint(1, 3))
        results, carried = ([self.name() for _ in types] for _ in range(2))
        bits, trips, index = self.name(), self.name(), self.name()
        mask = self.name()
        self.lines.append(f"{mask} = scalar.constant 3 : i32")
        self.lines.append(f"{bits} = scalar.andi {self.pick(scope, 'i32')}, {mask} : i32")
        self.lines.append(f"{trips} = index.cast {bits} : i32 to index")
        bindings = ", ".join(
            f"{name} = {self.pick(scope, type_)} : {type_}" for name, type_ in zip(carried, types, strict=True)
        )
        listed = ", ".join(types)
        head = f"scf.for {index} = [%c0 to {trips} step %c1]({bindings}) -> ({listed}) {{"
        self.lines.append(f"{', '.join(results)} = {head}")
        inner = {type_: list(values) for type_, values in scope.items()}
        for type_, name in zip(types, carried, strict=True):
            inner[type_] += [name] * 3
        round_ = self.name()
        self.lines.append(f"{round_} = index.cast {index} : index to i32")
        inner["i32"].append(round_)
        self.body(inner, 5, depth - 1)
        self.lines.append(f"scf.yield {', '.join(self.pick(inner, type_) for type_ in types)} : {listed}")
        self.lines.append("}")
        for type_, result in zip(types, results, strict=True):
            scope[type_].append(result)


def program(seed: int) -> str:
    """Loads a value of each type, computes, and stores the last three values of each type."""
    writer = Writer(seed)
    scope: dict[str, list[str]] = {}
    for type_ in TYPES:
        writer.lines.append(f"%v_{type_} = buffer.view %in_{type_}[%o] : buffer -> view<2x32x{type_}>")
        writer.lines.append(f"%w_{type_} = buffer.view %out_{type_}[%o] : buffer -> view<3x32x{type_}>")
        scope[type_] = []
        for row in range(2):
            writer.add(scope, type_, f"view.load %v_{type_}[{row}, %x] : view<2x32x{type_}> -> {type_}")
    writer.body(scope, 40, 3)
    for type_ in TYPES:
        for row, value in enumerate(scope[type_][-3:]):
            writer.lines.append(f"view.store {value}, %w_{type_}[{row}, %x] : {type_}, view<3x32x{type_}>")
    return "\n".join(writer.lines)


def arguments(seed: int) -> list[Any]:
    """Inputs of random patterns and small numbers, and room for outputs."""
    rng = np.random.default_rng(seed)
    arrays = []
    for type_ in TYPES:
        dtype = np.dtype(STORAGE[type_])
        if type_ == "i1":
            data = rng.integers(0, 2, (2, 32)).astype(bool)
        elif type_[0] == "f":
            data = (rng.standard_normal((2, 32)) * 10).astype(dtype)
            data[0, :4] = [np.inf, -np.inf, np.nan, -0.0]
        else:
            data = rng.integers(0, 256, (2, 32 * dtype.itemsize), np.uint8).view(dtype)
            data[0, :8] = range(8)
        arrays += [data, np.zeros((3, 32), dtype)]
    return arrays


@pytest.mark.parametrize("seed", range(12))
def test_device_and_evaluator_agree(launch: Launch, kernel_text: Text, seed: int) -> None:
    """Equal bits of every stored value; one NaN is as good as another."""
    parameters = ", ".join(f"%in_{type_}: buffer, %out_{type_}: buffer" for type_ in TYPES)
    text = kernel_text(parameters, program(seed))
    got, want = arguments(seed), arguments(seed)
    launch(text, [], got)
    module = api.parse(text, "program.loom")
    reference = open_reference_device(None)
    reference.launch(module, next(iter(module.ops)), [], want)
    for type_, a, b in zip(np.repeat(TYPES, 2), got, want, strict=True):
        same = a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")
        if type_[0] == "f":
            same |= np.isnan(a) & np.isnan(b)
        assert same.all(), f"{type_}: {np.argwhere(~same)[:3].tolist()}"
