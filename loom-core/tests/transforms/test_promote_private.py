"""Private arrays that become values: the text that comes out, each reason to stay memory, and the same results."""

from __future__ import annotations

import numpy as np
import pytest

from loom import api
from loom.evaluate.dispatch import call_function
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.ir.core import Module
from loom.passes.model import Context
from loom.passes.requests import read_requests
from loom.passes.run import Runner

HEAD = """\
func.def public @f(%x: i32, %n: index, %c: i1) -> (i32) {
  %at0 = index.constant 0 : offset
  %at8 = index.constant 8 : offset
  %bytes = index.constant 16 : offset
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %five = scalar.constant 5 : i32
  %depth = index.constant 2 : index
  %store = buffer.alloca<private> align(4) %bytes : buffer
  %s = buffer.view %store[%at0] : buffer -> view<2x2xi32>
"""
V = "view<2x2xi32>"
LOOP = "scf.for %k = [%zero to %n step %one]"
RETURN = (f"%r = view.load %s[0, 1] : {V} -> i32", "func.return %r : i32")


def program(*lines: str) -> Module:
    module = api.parse(HEAD + "".join(f"  {line}\n" for line in lines) + "}\n", "t.loom")
    api.verify(module)
    return module


def promoted(module: Module) -> Module:
    copy = module.clone()
    Runner(copy, Context()).run(read_requests("promote-private-fragments"))
    api.verify(copy)
    return copy


def results(module: Module) -> list[int]:
    found = []
    for n in (0, 1, 5):
        for c in (False, True):
            program_ = Program(module, limits=Limits())
            (value,) = call_function(program_, module.symbols()["f"], [np.int32(3), n, np.bool_(c)])
            found.append(int(value))
    return found


PROMOTED = {
    "straight code": (f"view.store %x, %s[0, 1] : i32, {V}", *RETURN),
    "the newer store": (f"view.store %x, %s[0, 1] : i32, {V}", f"view.store %five, %s[0, %one] : i32, {V}", *RETURN),
    "one side of a conditional": (
        f"view.store %x, %s[0, 1] : i32, {V}", "scf.if %c {", f"view.store %five, %s[0, 1] : i32, {V}", "}", *RETURN,
    ),
    "both sides": (
        "scf.if %c {", f"view.store %five, %s[0, 1] : i32, {V}", "} else {", f"view.store %x, %s[0, 1] : i32, {V}", "}",
        *RETURN,
    ),
    "a conditional with results": (
        f"view.store %x, %s[0, 1] : i32, {V}",
        "%u = scf.if %c -> (i32) {", f"view.store %five, %s[1, 1] : i32, {V}", "scf.yield %x : i32",
        "} else {", f"view.store %x, %s[1, 1] : i32, {V}", "scf.yield %five : i32", "}",
        f"%w = view.load %s[1, 1] : {V} -> i32", "%t = scalar.muli %u, %w : i32", "func.return %t : i32",
    ),
    "a loop that accumulates": (
        f"view.store %x, %s[0, 1] : i32, {V}",
        f"{LOOP} {{", f"%y = view.load %s[0, 1] : {V} -> i32", "%z = scalar.addi %y, %x : i32",
        f"view.store %z, %s[0, 1] : i32, {V}", "}", *RETURN,
    ),
    "a loop that carries something else": (
        f"view.store %x, %s[0, 1] : i32, {V}",
        f"%w = {LOOP}(%a = %five : i32) -> (i32) {{", f"%y = view.load %s[0, 1] : {V} -> i32",
        "%z = scalar.addi %y, %a : i32", "scf.if %c {", f"view.store %z, %s[0, 1] : i32, {V}", "}",
        "scf.yield %y : i32", "}",
        f"%q = view.load %s[0, 1] : {V} -> i32", "%t = scalar.addi %q, %w : i32", "func.return %t : i32",
    ),
    "vectors": (
        "%w = vector.iota %x step %five : vector<2x2xi32>", f"vector.store %w, %s[0, 0] : vector<2x2xi32>, {V}",
        f"view.store %five, %s[1, 0] : i32, {V}",
        f"%l = vector.load %s[1, 0] : {V} -> vector<2xi32>",
        "%r = vector.reduce<muli> %l, %x : vector<2xi32>, i32", "func.return %r : i32",
    ),
    "two views of one place": (
        "%tail = buffer.view %store[%at8] : buffer -> view<2xi32>",
        f"view.store %x, %s[1, 1] : i32, {V}", "%r = view.load %tail[1] : view<2xi32> -> i32", "func.return %r : i32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROMOTED)
def test_arrays_become_values(name: str) -> None:
    module = program(*PROMOTED[name])
    after = promoted(module)
    names = {op.name for op in after.walk()}
    assert not names & {"buffer.alloca", "buffer.view", "view.load", "view.store", "vector.load", "vector.store"}
    assert results(after) == results(module)


STORE = f"view.store %x, %s[0, 1] : i32, {V}"
KEPT = {
    "an index of the run": (STORE, f"%r = view.load %s[0, %n] : {V} -> i32", "func.return %r : i32"),
    "a volatile access": (STORE, f"%r = view.load<volatile> %s[0, 1] : {V} -> i32", "func.return %r : i32"),
    "a view that is narrowed": (
        STORE, f"%t = view.subview %s[0, 1] : {V} -> view<1x1xi32>", "%r = view.load %t[0, 0] : view<1x1xi32> -> i32",
        "func.return %r : i32",
    ),
    "another element type": (
        STORE, "%t = buffer.view %store[%at8] : buffer -> view<4xi16>", "%h = view.load %t[0] : view<4xi16> -> i16",
        *RETURN,
    ),
    "a view at a place of the run": (
        STORE, "%o = index.cast %n : index to offset", "%t = buffer.view %store[%o] : buffer -> view<1xi32>",
        "%h = view.load %t[0] : view<1xi32> -> i32", *RETURN,
    ),
    "a loop with a policy": (STORE, f"{LOOP} unroll(%depth) {{", STORE, "}", *RETURN),
    "a loop by condition": (
        STORE,
        "scf.while() {", f"%y = view.load %s[0, 1] : {V} -> i32", "%go = scalar.cmpi slt, %y, %five : i32",
        "scf.condition %go : i1", "} do {", f"view.store %five, %s[0, 1] : i32, {V}", "scf.yield", "}", *RETURN,
    ),
    "the buffer itself": (STORE, "%l = buffer.length %store", *RETURN),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_other_arrays_stay_memory(name: str) -> None:
    module = program(*KEPT[name])
    assert api.print(promoted(module)) == api.print(module)


@pytest.mark.parametrize(("old", "new"), [("<private>", "<workgroup>"), ("16 : offset", "260 : offset")])
def test_shared_and_large_storage_stays(old: str, new: str) -> None:
    text = HEAD.replace(old, new) + "".join(f"  {line}\n" for line in (STORE, *RETURN)) + "}\n"
    module = api.parse(text, "t.loom")
    assert "view.store" in api.print(promoted(module))


def test_the_text_of_a_loop() -> None:
    lines = (STORE, f"{LOOP} {{", f"%y = view.load %s[0, 1] : {V} -> i32", "%z = scalar.addi %y, %x : i32",
             f"view.store %z, %s[0, 1] : i32, {V}", "}", *RETURN)  # fmt: skip
    text = api.print(promoted(program(*lines)))
    assert (
        text[text.index("  %r = scf.for") :]
        == """\
  %r = scf.for %k = [%zero to %n step %one](%6 = %x : i32) -> (i32) {
    %z = scalar.addi %6, %x : i32
    scf.yield %z : i32
  }
  func.return %r : i32
}
"""
    )
