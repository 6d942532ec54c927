"""Proofs that vector accesses stay in their views, and what an access without one gets."""

from __future__ import annotations

import pytest

from loom import api
from loom.ir.core import Module
from loom.ir.diagnostics import LoomError
from loom.transforms.footprints import check_footprints

HEAD = """\
config.decl @rows : index

func.def public @f(%i: index, %j: index, %n: index, %c: i1, %m: vector<4xi1>, %o: vector<4xindex>, %b: buffer) {
  %at0 = index.constant 0 : offset
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %w = vector.constant 0 : vector<4xi32>
  %v = buffer.view %b[%at0] : buffer -> view<8x16xi32>
  %open = buffer.view %b[%at0] : buffer -> view<[%n]x16xi32>
  %row = index.assume %i [range(%i, 0, 7)] : index
  %at = index.assume %j [range(%j, 0, 12)] : index
"""
TAIL = "  func.return\n}\n"
V, OPEN, X = "view<8x16xi32>", "view<[%n]x16xi32>", "vector<4xi32>"


def load(place: str, view: str = "%v", type_: str = V, vector: str = X) -> str:
    return f"%x = vector.load {view}[{place}] : {type_} -> {vector}"


def program(*lines: str) -> Module:
    module = api.parse(HEAD + "".join(f"  {line}\n" for line in lines) + TAIL, "t.loom")
    api.verify(module)
    return module


def proven(*lines: str) -> int:
    return check_footprints(program(*lines).symbols()["f"], {})


PROVEN = {
    "static": (load("7, 12"),),
    "facts": (load("%row, %at"),),
    "a store": (f"vector.store %w, %v[%row, %at] : {X}, {V}",),
    "an axis that the vector covers": (load("%row, 0", vector="vector<16xi32>"),),
    "a loop within the view": (
        "%end = index.min %n, %size : index",
        "scf.for %k = [%zero to %end step %one] {",
        load("%k, %at"),
        "}",
    ),
    "a comparison with an open extent": (
        "%low = index.cmp sge, %i, %zero : index",
        "%below = index.cmp slt, %i, %n : index",
        "%fits = scalar.andi %low, %below : i1",
        "scf.if %fits {",
        load("%i, %at", "%open", OPEN),
        "}",
    ),
    "a loop to an open extent": ("scf.for %k = [%zero to %n step %one] {", load("%k, 0", "%open", OPEN), "}"),
    "a masked load of a safe footprint": (
        f"%x = vector.load.mask %v[%row, %at], %m, %w : {V}, vector<4xi1>, {X}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROVEN)
def test_what_facts_prove_passes(name: str) -> None:
    assert proven("%size = index.constant 8 : index", *PROVEN[name]) == 1


REFUSED: dict[str, tuple[str, tuple[str, ...], dict[str, object]]] = {
    "nothing known": ("008", (load("%i, 0"),), {"view_axis": 0, "vector_axis": -1, "origin": "%i"}),
    "may be negative": (
        "009",
        ("%k = index.sub %row, %one : index", load("%k, 0")),
        {"view_axis": 0, "vector_axis": -1, "origin": "%k"},
    ),
    "last lanes outside": (
        "010",
        ("%k = index.assume %j [range(%j, 0, 13)] : index", load("0, %k")),
        {"view_axis": 1, "vector_axis": 0, "vector_extent": 4, "view_bound": "16", "required_origin_upper_bound": 12},
    ),
    "a row outside": (
        "011",
        ("%k = index.assume %i [range(%i, 0, 8)] : index", load("%k, 0")),
        {"view_axis": 0, "vector_axis": -1, "vector_extent": 1, "view_bound": "8", "required_origin_upper_bound": 7},
    ),
    "an open extent": ("011", (load("%row, 0", "%open", OPEN),), {"view_bound": "%n", "view": "%open"}),
    "offsets of lanes": (
        "013",
        (f"%x = vector.gather %v[%row, 0][%o] : {V}, vector<4xindex> -> {X}",),
        {},
    ),
    "configuration that promises too little": (
        "018",
        (
            "%key = config.get @rows : index",
            "%big = buffer.view %b[%at0] : buffer -> view<[%key]x16xi32>",
            load("%row, 0", "%big", "view<[%key]x16xi32>"),
        ),
        {"config_key": "rows", "view_axis": 0},
    ),
    "a mask over an unsafe footprint": (
        "021",
        (f"%x = vector.load.mask %v[%i, 0], %m, %w : {V}, vector<4xi1>, {X}",),
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_facts_do_not_prove_is_told(name: str) -> None:
    number, lines, params = REFUSED[name]
    module = program(*lines)
    with pytest.raises(LoomError) as caught:
        check_footprints(module.symbols()["f"], {})
    (found,) = caught.value.diagnostics
    assert found.code == f"SUBRANGE/{number}"
    assert {key: found.params[key] for key in params} == params
    assert found.location is not None


def test_the_range_that_a_hint_asks_for_is_enough() -> None:
    """The last origin that the diagnostic calls safe is proven, the next one is not."""
    for last, safe in ((12, True), (13, False)):
        lines = (f"%k = index.assume %j [range(%j, 0, {last})] : index", load("%row, %k"))
        if safe:
            assert proven(*lines) == 1
        else:
            with pytest.raises(LoomError, match="begin at most at 12"):
                proven(*lines)
