"""Vectors taken apart lane by lane: the text that comes out, what stays whole, and the same results."""

from __future__ import annotations

from typing import Any

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

HEAD = (
    "func.def public @f(%a: vector<2x3xi32>, %b: vector<2x3xi32>, %x: vector<4xf32>, %y: vector<4xf32>, "
    "%h: vector<4xf16>, %q: vector<8xi8>, %p: vector<8xi8>, %m: vector<4xi1>, %i: i32, %s: f32, %n: index)"
)


def program(results: str, *lines: str) -> Module:
    body = "".join(f"  {line}\n" for line in lines)
    module = api.parse(f"{HEAD} -> ({results}) {{\n{body}}}\n", "t.loom")
    api.verify(module)
    return module


def run_passes(module: Module, passes: str) -> Module:
    copy = module.clone()
    Runner(copy, Context()).run(read_requests(passes))
    api.verify(copy)
    return copy


def arguments(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    words = rng.integers(-(2**31), 2**31, (2, 2, 3)).astype(np.int32)
    reals = (rng.standard_normal((2, 4)) * 10.0 ** rng.integers(-3, 4, (2, 4))).astype(np.float32)
    reals[0, :1] = np.nan
    small = rng.integers(-128, 128, (2, 8)).astype(np.int8)
    mask = rng.integers(0, 2, 4).astype(np.bool_)
    halves = rng.standard_normal(4).astype(np.float16)
    return [*words, *reals, halves.view(np.float16), *small, mask, np.int32(-7), np.float32(1.5), 5]


def results_of(module: Module, seed: int) -> list[bytes]:
    results = call_function(Program(module, limits=Limits()), module.symbols()["f"], arguments(seed))
    return [np.asarray(r).tobytes() for r in results]


F, W = "vector<4xf32>", "vector<2x3xi32>"
# What the function returns, and its body without the return of %r.
REWRITTEN: dict[str, tuple[str, tuple[str, ...]]] = {
    "arithmetic": (W, (f"%r = vector.muli %a, %b : {W}",)),
    "three operands": (F, (f"%r = vector.fmaf %x, %y, %x : {F}",)),
    "flags": (F, (f"%r = vector.addf<nsz> %x, %y : {F}",)),
    "comparison": ("vector<4xi1>", (f"%r = vector.cmpf ult, %x, %y : {F} -> vector<4xi1>",)),
    "question": ("vector<4xi1>", (f"%r = vector.isnanf %x : {F} -> vector<4xi1>",)),
    "selection": (F, (f"%r = vector.select %m, %x, %y : {F}",)),
    "conversion": ("vector<4xf64>", (f"%r = vector.extf %x : {F} to vector<4xf64>",)),
    "bounds": (F, (f"%r = vector.clampf<ieee> %x, %y, %y : {F}",)),
    "bits of one width": ("vector<4xi32>", (f"%r = vector.bitcast %x : {F} to vector<4xi32>",)),
    "bits cut": ("vector<16xi8>", (f"%r = vector.bitcast %x : {F} to vector<16xi8>",)),
    "bits joined": ("vector<1xi64>", ("%r = vector.bitcast %q : vector<8xi8> to vector<1xi64>",)),
    "a field": (
        W,
        (f"%r = vector.bitfield.extracts %a {{offset = 3, width = 9}} : {W} -> {W}",),
    ),
    "a splat": (F, (f"%t = vector.splat %s : {F}", f"%r = vector.addf %x, %t : {F}")),
    "a constant": (W, (f"%t = vector.constant 3 : {W}", f"%r = vector.addi %a, %t : {W}")),
    "integers counted": ("vector<4xi32>", ("%r = vector.iota %i step %i : vector<4xi32>",)),
    "addresses counted": (
        "vector<4xindex>",
        (
            "%k = index.assume %n [range(%n, 0, 100)] : index",
            "%one = index.constant 1 : index",
            "%r = vector.iota %k step %one : vector<4xindex>",
        ),
    ),
    "a range of lanes": (
        "vector<4xi1>",
        ("%end = scalar.constant 3 : i32", "%r = vector.mask.range [%i to %end step %end] : i32 -> vector<4xi1>"),
    ),
    "broadcasting": ("vector<5x2x3xi32>", (f"%r = vector.broadcast %a : {W} -> vector<5x2x3xi32>",)),
    "a lane": ("i32", (f"%t = vector.addi %a, %b : {W}", f"%r = vector.extract %t[1, 2] : {W} -> i32")),
    "a row": ("vector<3xi32>", (f"%r = vector.extract %a[1] : {W} -> vector<3xi32>",)),
    "a lane put in": (W, (f"%r = vector.insert %i into %a[1, 0] : i32, {W}",)),
    "a row put in": (
        W,
        (f"%t = vector.extract %b[1] : {W} -> vector<3xi32>", f"%r = vector.insert %t into %a[0] : vector<3xi32>, {W}"),
    ),
    "a slice": ("vector<1x2xi32>", (f"%r = vector.slice %a[1, 1] : {W} -> vector<1x2xi32>",)),
    "joining": ("vector<2x6xi32>", (f"%r = vector.concat<1> %a, %b : {W}, {W} -> vector<2x6xi32>",)),
    "transposing": ("vector<3x2xi32>", (f"%r = vector.transpose<[1, 0]> %a : {W} -> vector<3x2xi32>",)),
    "shuffling": (F, (f"%r = vector.shuffle<[3, 3, 0, 1]> %x : {F}",)),
    "alternating": ("vector<2x6xi32>", (f"%r = vector.interleave<1> %a, %b : {W}, {W} -> vector<2x6xi32>",)),
    "every other one": (
        "vector<2xf32>, vector<2xf32>",
        (f"%r, %o = vector.deinterleave<0> %x : {F} -> vector<2xf32>, vector<2xf32>",),
    ),
    "a sum": ("f32", (f"%r = vector.reduce<addf> %x, %s : {F}, f32",)),
    "a minimum": ("i32", (f"%r = vector.reduce<minsi> %a, %i : {W}, i32",)),
    "a product of floats": ("f32", (f"%r = vector.dotf %x, %y, %s : {F}, {F}, f32",)),
    "products of halves": (
        "vector<2xf32>",
        (
            "%t = vector.constant 0.5 : vector<2xf32>",
            "%r = vector.dot2f %h, %h, %t : vector<4xf16>, vector<4xf16>, vector<2xf32>",
        ),
    ),
    "products of bytes": (
        "vector<2xi32>",
        (
            "%t = vector.splat %i : vector<2xi32>",
            "%r = vector.dot4i<u8s8> %q, %p, %t : vector<8xi8>, vector<8xi8>, vector<2xi32>",
        ),
    ),
}  # fmt: skip
WHOLE = {"vector.from_elements", "vector.extract"}
"""What takes vectors apart where they come in and puts them together where they go out."""


@pytest.mark.parametrize("name", REWRITTEN)
def test_lanes_compute_what_the_vector_did(name: str) -> None:
    results, lines = REWRITTEN[name]
    returned = "%r, %o" if "%r, %o" in lines[-1] else "%r"
    module = program(results, *lines, f"func.return {returned} : {results}")
    after = run_passes(module, "vector-to-scalar")
    assert {op.name for op in after.walk() if op.name.startswith("vector.")} <= WHOLE
    for seed in range(3):
        assert results_of(after, seed) == results_of(module, seed)
    assert api.print(run_passes(after, "vector-to-scalar")) == api.print(after)


KEPT: dict[str, tuple[str, tuple[str, ...]]] = {
    "a lane that only a run knows": ("i32", (f"%r = vector.extract %a[1, %n] : {W} -> i32",)),
    "a lane put in where a run says": (W, (f"%r = vector.insert %i into %a[1, %n] : i32, {W}",)),
    "addresses that may wrap": ("vector<4xindex>", ("%r = vector.iota %n step %n : vector<4xindex>",)),
    "many lanes": (
        "vector<257xi32>",
        ("%t = vector.splat %i : vector<257xi32>", "%r = vector.addi %t, %t : vector<257xi32>"),
    ),
    "run-time extents": (
        "vector<[%n]xi32>",
        ("%t = vector.splat %i : vector<[%n]xi32>", "%r = vector.addi %t, %t : vector<[%n]xi32>"),
    ),
    "a bit stream": ("vector<6xi8>", ("%r = vector.bitpack<6> %q : vector<8xi8> -> vector<6xi8>",)),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_what_has_no_lanes_here_stays(name: str) -> None:
    results, lines = KEPT[name]
    if "[%n]" in results:
        # No function returns a type that names one of its own values.
        results, lines = (
            "i32",
            (*lines, "%s0 = scalar.constant 0 : i32", f"%q = vector.reduce<addi> %r, %s0 : {results}, i32"),
        )
    module = program(results, *lines, f"func.return {'%q' if '[%n]' in lines[0] else '%r'} : {results}")
    kept = next(line for line in lines if line.startswith("%r ="))
    after = run_passes(module, "vector-to-scalar")
    assert kept.split("=")[1].strip() in api.print(after)
    assert [op.name for op in after.walk()] == [op.name for op in module.walk()]


def test_the_text_of_a_small_function() -> None:
    module = api.parse(
        """\
func.def public @f(%x: vector<2xf32>, %s: f32) -> (f32) {
  %two = vector.constant 2.0 : vector<2xf32>
  %t = vector.mulf<contract> %x, %two : vector<2xf32>
  %u = vector.interleave<0> %t, %x : vector<2xf32>, vector<2xf32> -> vector<4xf32>
  %r = vector.extract %u[2] : vector<4xf32> -> f32
  func.return %r : f32
}
""",
        "t.loom",
    )
    after = run_passes(module, "vector-to-scalar,canonicalize")
    assert (
        api.print(after)
        == """\
func.def public @f(%x: vector<2xf32>, %s: f32) -> (f32) {
  %2 = vector.extract %x[1] : vector<2xf32> -> f32
  %3 = scalar.constant 2.0 : f32
  %r = scalar.mulf<contract> %2, %3 : f32
  func.return %r : f32
}
"""
    )
