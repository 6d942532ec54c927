"""Vector banks: loops carry the slots of vectors that they only take apart; everything else stays whole."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from loom import api
from loom.evaluate.dispatch import call_function
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.ir.core import Module
from loom.transforms.banks import MAX_SLOTS, decompose_banks
from loom.transforms.canonicalize import canonicalize

HEAD = """\
func.def public @f(%n: index, %c: i1, %x: f32, %start: vector<3xf32>) -> ({result}) {{
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %rows = vector.constant 0.5 : vector<2x4xf32>
"""
LOOP = "scf.for %i = [%c0 to %n step %c1]"


def program(result: str, *lines: str) -> Module:
    body = "".join(f"  {line}\n" for line in lines)
    module = api.parse(HEAD.format(result=result) + f"{body}  func.return %r : {result}\n}}\n", "t.loom")
    api.verify(module)
    return module


def outcomes(module: Module) -> list[bytes]:
    start = np.array([1.0, -2.0, 4.0], dtype=np.float32)
    function = module.symbols()["f"]
    results = []
    for n, c in itertools.product((0, 1, 2, 5), (False, True)):
        found = call_function(Program(module, limits=Limits()), function, [n, c, np.float32(1.25), start])
        results.append(b"".join(np.asarray(value).tobytes() for value in found))
    return results


def decomposed(result: str, *lines: str) -> tuple[str, list[dict[str, Any]]]:
    """The canonical text behind the pass, which means the same, and the rows of the pass."""
    module = program(result, *lines)
    want = outcomes(module)
    (root,) = module.ops
    rows = [row.row() for row in decompose_banks(root, {})]
    api.verify(module)
    assert outcomes(module) == want
    canonicalize(root, module.symbols())
    api.verify(module)
    assert outcomes(module) == want
    return api.print(module), rows


TYPE = "vector<3xf32>"
UPDATE = (
    f"  %old = vector.extract %bank[%c1] : {TYPE} -> f32",
    "  %sum = scalar.addf %old, %x : f32",
    f"  %next = vector.insert %sum into %bank[1] : f32, {TYPE}",
)


def test_each_slot_is_carried_by_itself() -> None:
    """Slots that stay what they are leave the loop; the vector is put together for who takes it whole."""
    text, rows = decomposed(
        TYPE,
        f"%r = {LOOP}(%bank = %start : {TYPE}) -> ({TYPE}) {{",
        *UPDATE,
        f"  scf.yield %next : {TYPE}",
        "}",
    )
    assert "%r_1 = scf.for %i = [%c0 to %n step %c1](%bank_1 = " in text
    assert "%sum = scalar.addf %bank_1, %x : f32\n    scf.yield %sum : f32" in text
    assert "%r = vector.from_elements " in text
    assert "vector.insert" not in text
    assert rows == [
        {
            "category": "vector-bank",
            "function": "f",
            "loop": "t.loom:5:8",
            "outcome": "decomposed",
            "op": "scf.for",
            "vector": TYPE,
            "slots": 3,
            "read_count": 1,
            "write_count": 1,
        }
    ]


def test_slots_may_be_vectors() -> None:
    """Lane by lane arithmetic is done per slot, and elements of a slot are inserted into it."""
    rows_type = "vector<2x4xf32>"
    text, rows = decomposed(
        "vector<4xf32>",
        f"%all = {LOOP}(%bank = %rows : {rows_type}) -> ({rows_type}) {{",
        f"  %twice = vector.addf %bank, %rows : {rows_type}",
        f"  %old = vector.extract %twice[0] : {rows_type} -> vector<4xf32>",
        f"  %cell = vector.extract %twice[1, 2] : {rows_type} -> f32",
        "  %sum = scalar.addf %cell, %x : f32",
        f"  %one = vector.insert %sum into %twice[0, 3] : f32, {rows_type}",
        f"  %next = vector.insert %old into %one[1] : vector<4xf32>, {rows_type}",
        f"  scf.yield %next : {rows_type}",
        "}",
        f"%r = vector.extract %all[1] : {rows_type} -> vector<4xf32>",
    )
    assert rows_type not in text
    assert "vector.insert %sum into " in text
    assert "f32, vector<4xf32>" in text
    assert [(row["outcome"], row["vector"]) for row in rows] == [
        ("decomposed", rows_type),
        ("kept", "vector<4xf32>"),
    ]


def test_slots_may_be_banks_themselves() -> None:
    """Elements that the loop only takes apart are carried as scalars."""
    rows_type = "vector<2x4xf32>"
    text, rows = decomposed(
        "f32",
        f"%all = {LOOP}(%bank = %rows : {rows_type}) -> ({rows_type}) {{",
        f"  %cell = vector.extract %bank[1, 2] : {rows_type} -> f32",
        "  %sum = scalar.addf %cell, %x : f32",
        f"  %one = vector.insert %sum into %bank[0, 3] : f32, {rows_type}",
        f"  %next = vector.insert %sum into %one[1, 2] : f32, {rows_type}",
        f"  scf.yield %next : {rows_type}",
        "}",
        f"%a = vector.extract %all[1, 2] : {rows_type} -> f32",
        f"%b = vector.extract %all[0, 3] : {rows_type} -> f32",
        "%r = scalar.subf %a, %b : f32",
    )
    assert "vector<" not in text.partition("{")[2]
    assert [(row["outcome"], row["slots"]) for row in rows] == [("decomposed", 2), ("decomposed", 4), ("decomposed", 4)]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(
            (
                f"%next2 = scf.if %c -> ({TYPE}) {{",
                f"  scf.yield %next : {TYPE}",
                "} else {",
                f"  scf.yield %bank : {TYPE}",
                "}",
            ),
            id="if",
        ),
        pytest.param(
            (
                f"%next2 = scf.switch %i -> ({TYPE}) {{",
                "case 1 {",
                f"  scf.yield %next : {TYPE}",
                "}",
                "default {",
                f"  scf.yield %bank : {TYPE}",
                "}",
                "}",
            ),
            id="switch",
        ),
        pytest.param((f"%next2 = scf.select %c, %next, %bank : {TYPE}",), id="select"),
        pytest.param(
            (
                f"%next2 = scf.for %j = [%c0 to %i step %c1](%inner = %next : {TYPE}) -> ({TYPE}) {{",
                f"  %cell = vector.extract %inner[0] : {TYPE} -> f32",
                "  %more = scalar.mulf %cell, %x : f32",
                f"  %moved = vector.insert %more into %inner[2] : f32, {TYPE}",
                f"  scf.yield %moved : {TYPE}",
                "}",
            ),
            id="for",
        ),
        pytest.param(
            (
                f"%left, %next2 = scf.while (%k = %i : index, %inner = %next : {TYPE}) -> (index, {TYPE}) {{",
                "  %more = index.cmp sgt, %k, %c0 : index",
                f"  scf.condition %more, %k, %inner : i1, index, {TYPE}",
                f"}} do (%k2: index, %inner2: {TYPE}) {{",
                "  %less = index.sub %k2, %c1 : index",
                f"  %cell = vector.extract %inner2[0] : {TYPE} -> f32",
                f"  %moved = vector.insert %cell into %inner2[2] : f32, {TYPE}",
                f"  scf.yield %less, %moved : index, {TYPE}",
                "}",
            ),
            id="while",
        ),
    ],
)
def test_structures_inside_hand_on_the_slots(lines: tuple[str, ...]) -> None:
    text, rows = decomposed(
        "f32",
        f"%all = {LOOP}(%bank = %start : {TYPE}) -> ({TYPE}) {{",
        *UPDATE,
        *(f"  {line}" for line in lines),
        f"  scf.yield %next2 : {TYPE}",
        "}",
        f"%a = vector.extract %all[1] : {TYPE} -> f32",
        f"%b = vector.extract %all[2] : {TYPE} -> f32",
        "%r = scalar.subf %a, %b : f32",
    )
    assert [row["outcome"] for row in rows] == ["decomposed"]
    assert "vector.insert" not in text
    assert f" : {TYPE})" not in text.partition("{")[2], "no region hands on the vector"


def test_a_while_loop_and_one_behind_it() -> None:
    """The vector between two loops goes away: the second one starts from the slots of the first."""
    loop = (
        "%left{n}, %bank{n} = scf.while (%k = %n : index, %bank = {init} : vector<3xf32>) -> (index, vector<3xf32>) {{",
        "  %more = index.cmp sgt, %k, %c0 : index",
        "  scf.condition %more, %k, %bank : i1, index, vector<3xf32>",
        "}} do (%k2: index, %inner: vector<3xf32>) {{",
        "  %less = index.sub %k2, %c1 : index",
        "  %cell = vector.extract %inner[0] : vector<3xf32> -> f32",
        "  %more2 = scalar.addf %cell, %x : f32",
        "  %moved = vector.insert %more2 into %inner[0] : f32, vector<3xf32>",
        "  scf.yield %less, %moved : index, vector<3xf32>",
        "}}",
    )
    text, rows = decomposed(
        "f32",
        *(line.format(n=1, init="%start") for line in loop),
        *(line.format(n=2, init="%bank1") for line in loop),
        f"%r = vector.extract %bank2[0] : {TYPE} -> f32",
    )
    assert [row["op"] for row in rows] == ["scf.while", "scf.while"]
    assert "vector.insert" not in text
    assert "from_elements" not in text


def test_two_banks_may_trade_places() -> None:
    text, rows = decomposed(
        "f32",
        f"%all, %spare = {LOOP}(%bank = %start : {TYPE}, %other = %start : {TYPE}) -> ({TYPE}, {TYPE}) {{",
        *UPDATE,
        f"  scf.yield %other, %next : {TYPE}, {TYPE}",
        "}",
        f"%r = vector.extract %all[1] : {TYPE} -> f32",
    )
    assert len(rows) == 1, "one goes nowhere without the other"
    assert f" : {TYPE})" not in text.partition("{")[2]


WHOLE = {
    "'vector.insert' writes a slot that is known at run time only": (
        f"  %next2 = vector.insert %x into %next[%i] : f32, {TYPE}",
    ),
    "'vector.extract' takes a slot that is known at run time only": (
        "  %safe = index.rem %i, %c1 : index",
        "  %at = index.add %safe, %n : index",
        f"  %cell = vector.extract %next[%at] : {TYPE} -> f32",
        f"  %next2 = vector.insert %cell into %next[0] : f32, {TYPE}",
    ),
    "'vector.reduce' takes the whole vector": (
        f"  %cell = vector.reduce<addf> %next, %x : {TYPE}, f32",
        f"  %next2 = vector.insert %cell into %next[0] : f32, {TYPE}",
    ),
    "'vector.shuffle' makes the whole vector": (f"  %next2 = vector.shuffle<[2, 0, 1]> %next : {TYPE}",),
    "'vector.addf' makes the whole vector": (
        f"  %free = vector.addf %start, %start : {TYPE}",
        f"  %next2 = scf.select %c, %next, %free : {TYPE}",
    ),
}


@pytest.mark.parametrize("reason", WHOLE)
def test_what_is_used_whole_stays_whole(reason: str) -> None:
    """The row says what keeps the vector; the program is as it was."""
    module = program(
        TYPE,
        f"%r = {LOOP}(%bank = %start : {TYPE}) -> ({TYPE}) {{",
        *UPDATE,
        *WHOLE[reason],
        f"  scf.yield %next2 : {TYPE}",
        "}",
    )
    before = api.print(module)
    (root,) = module.ops
    (row,) = decompose_banks(root, {})
    assert (row.fields["outcome"], row.fields["reason"]) == ("kept", reason)
    assert api.print(module) == before


def test_vectors_that_nobody_takes_apart_are_no_banks() -> None:
    """An accumulator of many lanes, and a vector that a later iteration takes apart, which it may still be loading."""
    module = program(
        TYPE,
        f"%r, %w = {LOOP}(%sum = %start : {TYPE}, %other = %start : {TYPE}) -> ({TYPE}, {TYPE}) {{",
        f"  %next = vector.addf %sum, %start : {TYPE}",
        f"  %fresh = vector.mulf %next, %next : {TYPE}",
        f"  %cell = vector.extract %other[0] : {TYPE} -> f32",
        "  %unused = scalar.addf %cell, %x : f32",
        f"  scf.yield %next, %fresh : {TYPE}, {TYPE}",
        "}",
    )
    before = api.print(module)
    (root,) = module.ops
    rows = decompose_banks(root, {})
    assert [(row.fields["outcome"], row.fields.get("reason")) for row in rows] == [
        ("kept", "'vector.mulf' makes the whole vector")
    ]
    assert api.print(module) == before


def test_a_bank_has_few_slots() -> None:
    wide = f"vector<{MAX_SLOTS + 1}xf32>"
    lines = (
        f"%zero = vector.constant 0.0 : {wide}",
        f"%all = {LOOP}(%bank = %zero : {wide}) -> ({wide}) {{",
        f"  %next = vector.insert %x into %bank[0] : f32, {wide}",
        f"  scf.yield %next : {wide}",
        "}",
        f"%r = vector.extract %all[0] : {wide} -> f32",
    )
    assert decompose_banks(program("f32", *lines).symbols()["f"], {}) == []
    narrow = [line.replace(wide, f"vector<{MAX_SLOTS}xf32>") for line in lines]
    assert len(decompose_banks(program("f32", *narrow).symbols()["f"], {})) == 1


def test_unrolling_tells_which_slots_are_meant() -> None:
    """Specialization unrolls first: positions modulo the number of slots are known in each copy."""
    module = program(
        TYPE,
        "%c3 = index.constant 3 : index",
        f"%r = {LOOP}(%bank = %start : {TYPE}) -> ({TYPE}) {{",
        f"  %turned = scf.for %j = [%c0 to %c3 step %c1](%inner = %bank : {TYPE}) -> ({TYPE}) unroll {{",
        f"    %old = vector.extract %inner[%j] : {TYPE} -> f32",
        "    %sum = scalar.addf %old, %x : f32",
        f"    %next = vector.insert %sum into %inner[%j] : f32, {TYPE}",
        f"    scf.yield %next : {TYPE}",
        "  }",
        f"  scf.yield %turned : {TYPE}",
        "}",
    )
    want = outcomes(module)
    result = api.specialize(module, None).module
    api.verify(result)
    assert outcomes(result) == want
    text = api.print(result)
    assert "%bank_0 = " in text
    assert "%bank_2 = " in text
    assert "vector.insert" not in text
