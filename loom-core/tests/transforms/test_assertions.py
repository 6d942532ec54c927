"""Assertions in ordinary operations: they fail for the values for which the assertion itself fails."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from loom import api
from loom.evaluate.dispatch import launch_kernel
from loom.evaluate.machine import Program
from loom.ir.core import Module
from loom.ir.diagnostics import LoomError
from loom.text.printer import print_module
from loom.transforms.assertions import expand_assertions

HEAD = """\
kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%unit, %unit, %unit) : index
"""


def kernel(parameters: str, *body: str) -> str:
    return f"{HEAD}}} launch({parameters}) {{\n" + "".join(f"  {line}\n" for line in body) + "  kernel.return\n}\n"


def read(text: str, expand: bool) -> Module:
    """The module, its assertions expanded if asked for, read again from its text."""
    module = api.parse(text, "in.loom")
    api.verify(module)
    if expand:
        assert expand_assertions(module.symbols()["k"]) == text.count("sanitizer.assert")
        again = print_module(module)
        assert "sanitizer" not in again
        module = api.parse(again, "in.loom")
        api.verify(module)
    return module


def holds(module: Module, arguments: Sequence[Any]) -> bool:
    """Whether the kernel ends without a fault of an assertion."""
    try:
        launch_kernel(Program(module), module.symbols()["k"], [], arguments)
    except LoomError as error:
        (found,) = error.diagnostics
        assert found.params["op_name"] in ("kernel.assert", "sanitizer.assert.op", "sanitizer.assert.access",
                                           "sanitizer.assert.accesses"), found  # fmt: skip
        return False
    return True


EDGES = {
    "i8": (-128, -127, -6, -1, 0, 1, 3, 6, 64, 127),
    "i32": (-(2**31), -7, -1, 0, 1, 2, 6, 2**30, 2**31 - 1),
    "i64": (-(2**63), -12, -1, 0, 1, 4, 12, 2**62, 2**63 - 1),
    "index": (-(2**63), -12, -1, 0, 1, 4, 12, 2**62, 2**63 - 1),
    "offset": (0, 1, 16, 17, 2**40),
    "f32": (float("-inf"), -1.5, -0.0, 0.0, 1.0, 3.0, float("inf"), float("nan")),
}
COMPARISONS = [f"{name}(%v, {c})" for name in ("eq", "ne", "lt", "le", "gt", "ge") for c in (-128, -1, 0, 3, 127)]
INTEGER = [
    *COMPARISONS,
    *(f"{name}(%v, {c})" for name in ("ult", "ule", "ugt", "uge") for c in (0, 3, 127)),
    "range(%v, 0, 6)",
    "range(%v, -6, 127)",
    "range(%v, 4, 2)",
    *(f"multiple_of(%v, {d})" for d in (1, 3, 4, 96)),
    "power_of_two(%v)",
]
FLOAT = ["not_nan(%v)", "not_inf(%v)", "finite(%v)"]


@pytest.mark.parametrize("type_", EDGES)
def test_each_predicate_holds_for_the_same_values(type_: str) -> None:
    predicates = FLOAT if type_ == "f32" else INTEGER
    if type_ in ("index", "offset"):
        predicates = [predicate for predicate in predicates if not predicate.startswith("u")]
    if type_ == "offset":
        predicates = [predicate for predicate in predicates if "-" not in predicate]
    if type_ == "i8":
        predicates = [*predicates, "ult(%v, 200)", "uge(%v, 255)"]
    outcomes = set()
    for predicate in predicates:
        text = kernel(f"%v: {type_}", f"sanitizer.assert.op %v [{predicate}] : {type_}")
        asserted, expanded = read(text, False), read(text, True)
        for value in EDGES[type_]:
            wanted = holds(asserted, [value])
            assert holds(expanded, [value]) == wanted, (predicate, value)
            outcomes.add(wanted)
    assert outcomes == {True, False}


@pytest.mark.parametrize("predicate", ["lt(%v, %w)", "uge(%v, %w)", "multiple_of(%v, %w)", "eq(%w, %v)"])
@pytest.mark.parametrize("type_", ["i8", "i64", "index", "f32"])
def test_predicates_of_two_values(predicate: str, type_: str) -> None:
    if type_ == "f32":
        predicate = f"{'eq' if 'eq' in predicate else 'ne'}(%v, %w)"
    elif type_ == "index":
        predicate = predicate.replace("uge", "ge")
    text = kernel(f"%v: {type_}, %w: {type_}", f"sanitizer.assert.op %v, %w [{predicate}] : {type_}, {type_}")
    asserted, expanded = read(text, False), read(text, True)
    for pair in product(EDGES[type_], repeat=2):
        assert holds(expanded, pair) == holds(asserted, pair), pair


@pytest.mark.parametrize("predicates", ["lt(%v, %w)", "range(%w, -2, %v)", "range(300, %w, %v)"])
def test_predicates_of_values_of_different_types(predicates: str) -> None:
    text = kernel("%v: i8, %w: index", f"sanitizer.assert.op %v, %w [{predicates}] : i8, index")
    asserted, expanded = read(text, False), read(text, True)
    for pair in product((-3, -2, -1, 0, 5, 45), (-3, -2, -1, 0, 5, 400)):
        assert holds(expanded, pair) == holds(asserted, pair), pair


@pytest.mark.parametrize(
    ("view", "statement"),
    [
        ("[%n]xi32", "sanitizer.assert.access<read> %x[%i]"),
        ("[%n]xi32", "sanitizer.assert.access<write> %x[%i] {static_extents = [3]}"),
        ("4x[%n]xi16", "sanitizer.assert.access<read> %x[%i, 1] {static_extents = [2, 2]}"),
        ("[%n]xi32", "sanitizer.assert.accesses<read> %x[%i] {static_count = 3, static_extents = [2], static_strides = [2]}"),
        ("[%n]xi8", "sanitizer.assert.accesses<read> %x[%i] {static_count = 2, static_extents = [1], static_strides = [-3]}"),
    ],
)  # fmt: skip
def test_footprints_stay_in_their_views(view: str, statement: str) -> None:
    """The storage is large enough for all views, so that only the view's extents and the alignment decide."""
    text = kernel(
        "%b: buffer, %n: index, %i: index, %at: offset",
        f"%whole = buffer.view %b[%at] : buffer -> view<{view}>",
        f"%x = view.refine %whole : view<{view}> -> view<{view}>",
        f"{statement} : view<{view}>",
    )
    asserted, expanded = read(text, False), read(text, True)
    outcomes = set()
    for n, i, at in product((2, 3, 6, 8), range(-2, 9), (0, 2, 4)):
        arguments = [np.zeros(64, np.int32), n, i, at]
        wanted = holds(asserted, arguments)
        assert holds(expanded, arguments) == wanted, (n, i, at)
        outcomes.add(wanted)
    assert True in outcomes


def test_checked_values_keep_their_facts() -> None:
    text = kernel(
        "%i: index, %k: i32, %b: buffer",
        "%at = index.constant 0 : offset",
        "%x = buffer.view %b[%at] : buffer -> view<8xi32>",
        "%safe = sanitizer.assert.value %i [range(%i, 0, 7)] : index",
        "%small = sanitizer.assert.value %k [lt(%k, 9)] : i32",
        "view.store %small, %x[%safe] : i32, view<8xi32>",
    )
    expanded = read(text, True)
    printed = print_module(expanded)
    assert "%safe = index.assume %i [range(%i, 0, 7)] : index" in printed
    assert "%small = scalar.assume %k [lt(%k, 9)] : i32" in printed
    assert "kernel.assert %" in printed
    assert "the asserted predicate 'range(%i, 0, 7)' is false" in printed


@pytest.mark.parametrize(
    "statement",
    [
        "sanitizer.assert.op %c [eq(%c, 1)] : i1",
        "sanitizer.assert.access<read> %given[0] : view<8xi32>",
        "%l = sanitizer.assert.layout %given : view<8xi32> -> view<8xi32, #encoding.layout.strided<strides=[1]>>",
        "sanitizer.race.access<read> %given[0] : view<8xi32>",
    ],
)
def test_what_cannot_be_said_stays(statement: str) -> None:
    text = kernel("%c: i1, %given: view<8xi32>", statement)
    module = api.parse(text, "in.loom")
    assert expand_assertions(module.symbols()["k"]) == 0
    assert print_module(module) == print_module(api.parse(text, "in.loom"))
