"""Accesses through views of one axis: the arithmetic that comes out, each reason to stay, and the same results."""

from __future__ import annotations

import numpy as np
import pytest

from loom import api
from loom.evaluate.dispatch import call_function
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.ir.core import Module
from loom.transforms.linearize import linearize_accesses

HEAD = """\
func.def public @f(%b: buffer, %i: index, %j: index, %rows: index, %w: view<6x8xi32>) {
  %at16 = index.constant 16 : offset
  %five = scalar.constant 5 : i32
  %few = index.assume %rows [range(%rows, 0, 1000)] : index
  %v = buffer.view %b[%at16] : buffer -> view<6x8xi32>
  %d = buffer.view %b[%at16] : buffer -> view<[%few]x2x4xi32>
  %open = buffer.view %b[%at16] : buffer -> view<[%rows]x8xi32>
"""
V, D, OPEN = "view<6x8xi32>", "view<[%few]x2x4xi32>", "view<[%rows]x8xi32>"


def program(*lines: str) -> Module:
    module = api.parse(HEAD + "".join(f"  {line}\n" for line in lines) + "  func.return\n}\n", "t.loom")
    api.verify(module)
    return module


def memory(module: Module) -> list[int]:
    data = np.arange(60, dtype=np.int32)
    arguments = [data, 2, 3, 6, np.zeros((6, 8), np.int32)]
    call_function(Program(module, limits=Limits()), module.symbols()["f"], arguments)
    return [int(v) for v in data]


REWRITTEN = {
    "a store": (1, (f"view.store %five, %v[%i, %j] : i32, {V}",)),
    "a load": (2, (f"%x = view.load %v[%i, 7] : {V} -> i32", f"view.store %x, %v[0, %j] : i32, {V}")),
    "a vector along the last axis": (
        2, (f"%x = vector.load %v[%i, %j] : {V} -> vector<4xi32>", f"vector.store %x, %v[5, 0] : vector<4xi32>, {V}"),
    ),
    "three axes, one of a run": (2, (f"%x = view.load %d[%i, 1, %j] : {D} -> i32", f"view.store %x, %d[5, %j, 0] : i32, {D}"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REWRITTEN)
def test_places_become_numbers(name: str) -> None:
    count, lines = REWRITTEN[name]
    # The second axis of %d has two places.
    lines = tuple(line.replace("%d[5, %j, 0]", "%d[5, 1, %j]") for line in lines)
    module, after = program(*lines), program(*lines)
    assert linearize_accesses(after.symbols()["f"], {}) == count
    api.verify(after)
    for op in after.walk():
        if op.name in ("view.load", "view.store", "vector.load", "vector.store"):
            assert len(op.attribute("static_indices")) == 1  # type: ignore[arg-type]  # an array
    assert memory(after) == memory(module)


KEPT = {
    "too many elements for an index": f"view.store %five, %open[%i, %j] : i32, {OPEN}",
    "a view that came from elsewhere": f"view.store %five, %w[%i, %j] : i32, {V}",
    "a block of a view": f"%x = vector.load %v[%i, 0] : {V} -> vector<2x4xi32>",
}


@pytest.mark.parametrize("name", KEPT)
def test_other_accesses_stay(name: str) -> None:
    module = program(KEPT[name])
    text = api.print(module)
    assert linearize_accesses(module.symbols()["f"], {}) == 0
    assert api.print(module) == text


def test_layouts_stay() -> None:
    strided = "view<6x8xi32, #encoding.layout.strided<strides=[16, 1]>>"
    lines = (f"%l = buffer.view %b[%at16] : buffer -> {strided}", f"view.store %five, %l[1, 2] : i32, {strided}")
    module = program(*lines)
    assert linearize_accesses(module.symbols()["f"], {}) == 0


def test_a_narrow_index_counts_less() -> None:
    lines = ("%many = index.assume %rows [range(%rows, 0, 1073741824)] : index",
             "%l = buffer.view %b[%at16] : buffer -> view<[%many]x8xi32>",
             "view.store %five, %l[%i, %j] : i32, view<[%many]x8xi32>")  # fmt: skip
    assert linearize_accesses(program(*lines).symbols()["f"], {}) == 1
    assert linearize_accesses(program(*lines).symbols()["f"], {"index_bitwidth": 32}) == 0


def test_the_text_of_an_access() -> None:
    module = program(f"view.store %five, %v[%i, 3] : i32, {V}")
    assert linearize_accesses(module.symbols()["f"], {}) == 1
    text = api.print(module)
    assert "%v_flat = buffer.view %b[%at16] : buffer -> view<48xi32>" in text
    assert text[text.index("  %open") :].splitlines()[1:] == [
        "  %12 = index.constant 8 : index",
        "  %13 = index.mul %i, %12 : index",
        "  %14 = index.constant 3 : index",
        "  %15 = index.add %13, %14 : index",
        "  view.store %five, %v_flat[%15] : i32, view<48xi32>",
        "  func.return",
        "}",
    ]
