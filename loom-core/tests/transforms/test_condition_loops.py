"""Folding of ``scf.while``: runs that never go on, values that stay the same, values that nobody uses."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from loom import api
from loom.evaluate.dispatch import call_function
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.ir.core import Module
from loom.transforms.canonicalize import canonicalize

HEAD = """\
func.def public @f(%n: index, %m: index, %x: view<8xi32>) -> (index) {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c5 = index.constant 5 : index
  %one = scalar.constant 1 : i32
"""


def outcomes(module: Module) -> list[tuple[int, list[int]]]:
    found: list[tuple[int, list[int]]] = []
    for n, m in itertools.product((0, 1, 3), (0, 2, 7)):
        data = np.arange(8, dtype=np.int32)
        values: Any = call_function(Program(module, limits=Limits()), module.symbols()["f"], [n, m, data])
        found.append((int(values[0]), data.tolist()))
    return found


def canonical(*lines: str) -> str:
    """The canonical text, which does the same."""
    module = api.parse(HEAD + "".join(f"  {line}\n" for line in lines) + "  func.return %r : index\n}\n", "t.loom")
    api.verify(module)
    want = outcomes(module)
    (root,) = module.ops
    canonicalize(root, module.symbols())
    api.verify(module)
    assert outcomes(module) == want
    return api.print(module).partition(") -> (index) {\n")[2]


def test_a_loop_that_never_goes_on_is_its_first_region() -> None:
    """With its effects, once; facts of the header value decide."""
    text = canonical(
        "%small = index.assume %n [range(%n, 0, 4)] : index",
        "%r, %s = scf.while (%k = %small : index) -> (index, index) {",
        "  view.store %one, %x[%k] : i32, view<8xi32>",
        "  %go = index.cmp sgt, %k, %c5 : index",
        "  %sum = index.add %k, %m : index",
        "  scf.condition %go, %sum, %k : i1, index, index",
        "} do (%a: index, %b: index) {",
        "  scf.yield %b : index",
        "}",
    )
    assert "scf.while" not in text
    assert text.count("view.store %one, %x[%small]") == 1
    assert "func.return %sum : index" in text


COUNTER = (
    "  %go = index.cmp slt, %k, %n : index",
    "  scf.condition %go, %k, {handed} : i1, index, index",
    "}} do (%a: index, %b: index) {{",
    "  %next = index.add %a, %c1 : index",
    "  scf.yield %next, {back} : index, index",
    "}}",
)


def counter(handed: str, back: str, *inside: str, header: str = "%m") -> tuple[str, ...]:
    """A loop that counts to %n with one more header value, %h, and one more value that is handed on."""
    head = f"%r0, %r1 = scf.while (%k = %c0 : index, %h = {header} : index) -> (index, index) {{"
    condition, *rest = (line.format(handed=handed, back=back) for line in COUNTER)
    return (head, *inside, condition, *rest)


def test_header_values_that_stay_are_their_initial_values() -> None:
    """Handed back as they came, through the body or from outside of the loop; what is behind sees the same."""
    for handed, back in (("%h", "%b"), ("%h", "%m"), ("%m", "%b")):
        text = canonical(*counter(handed, back), "%r = index.add %r0, %r1 : index")
        assert "scf.while(%k = %c0 : index) -> (index)" in text.replace("scf.while (", "scf.while(")
        assert "%r = index.add %r0, %m" in text


def test_what_changes_stays() -> None:
    text = canonical(*counter("%h", "%a"), "%r = index.add %r0, %r1 : index")
    assert "%h = %m" in text
    assert "%r = index.add %r0, %r1" in text


def test_values_that_only_go_round_are_dropped() -> None:
    """Two values trade places in every iteration, and nobody asks for either."""
    text = canonical(
        "%r, %p, %q = scf.while (%k = %c0 : index, %h = %m : index, %g = %c5 : index) -> (index, index, index) {",
        "  %go = index.cmp slt, %k, %n : index",
        "  scf.condition %go, %k, %h, %g : i1, index, index, index",
        "} do (%a: index, %b: index, %c: index) {",
        "  %next = index.add %a, %c1 : index",
        "  scf.yield %next, %c, %b : index, index, index",
        "}",
    )
    assert "%m" not in text
    assert "%h" not in text
    assert "scf.condition %go, %k : i1, index" in text


def test_what_effects_use_is_kept() -> None:
    """The value goes round for a store in the first region alone."""
    text = canonical(
        *counter(
            "%more", "%b", "%at = index.andi %h, %c5 : index", "view.store %one, %x[%at] : i32, view<8xi32>",
            "%more = index.add %h, %c1 : index",
        ),
        "%r = index.add %r0, %c1 : index",
    )  # fmt: skip
    assert "%h" in text
    assert "view.store" in text


def test_the_flag_may_be_a_header_value() -> None:
    text = canonical(
        "%start = index.cmp slt, %c0, %n : index",
        "%r = scf.while (%go = %start : i1, %k = %c0 : index) -> (index) {",
        "  scf.condition %go, %k : i1, index",
        "} do (%a: index) {",
        "  %next = index.add %a, %c1 : index",
        "  %on = index.cmp slt, %next, %n : index",
        "  scf.yield %on, %next : i1, index",
        "}",
    )
    assert "scf.condition %go, %k" in text
