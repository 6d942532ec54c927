"""Vector accesses element by element, and reductions along axes lane by lane."""

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
func.def public @f(%v: view<6x8xi32>, %i: index, %m: vector<2x3xi1>, %o: vector<2x3xi8>, %w: vector<2x3xi32>) {
"""
V, X = "view<6x8xi32>", "vector<2x3xi32>"


def program(*lines: str) -> Module:
    module = api.parse(HEAD + "".join(f"  {line}\n" for line in lines) + "  func.return\n}\n", "t.loom")
    api.verify(module)
    return module


def after(module: Module, passes: str = "vector-memory-to-scalar") -> Module:
    copy = module.clone()
    Runner(copy, Context()).run(read_requests(passes))
    api.verify(copy)
    return copy


def memory(module: Module, seed: int) -> bytes:
    """What the view holds behind a run."""
    rng = np.random.default_rng(seed)
    view = rng.integers(-1000, 1000, (6, 8)).astype(np.int32)
    mask = rng.integers(0, 2, (2, 3)).astype(np.bool_)
    offsets = (rng.permutation(6).reshape(2, 3) - 2).astype(np.int8)
    words = rng.integers(-9, 9, (2, 3)).astype(np.int32)
    call_function(Program(module, limits=Limits()), module.symbols()["f"], [view, 2, mask, offsets, words])
    return view.tobytes()


TO_MEMORY = f"vector.store %r, %v[0, 0] : {X}, {V}"
REWRITTEN = {
    "a load": (f"%r = vector.load %v[%i, 3] : {V} -> {X}", TO_MEMORY),
    "a row of a load": (
        f"%t = vector.load %v[%i, %i] : {V} -> vector<3xi32>",
        f"vector.store %t, %v[4, %i] : vector<3xi32>, {V}",
    ),
    "a store": (f"vector.store %w, %v[%i, 5] : {X}, {V}",),
    "a masked load": (f"%r = vector.load.mask %v[%i, 3], %m, %w : {V}, vector<2x3xi1>, {X}", TO_MEMORY),
    "a masked store": (f"vector.store.mask %w, %v[%i, %i], %m : {X}, {V}, vector<2x3xi1>",),
    "a gather": (f"%r = vector.gather %v[%i, %i][%o] : {V}, vector<2x3xi8> -> {X}", TO_MEMORY),
    "a masked gather": (
        f"%r = vector.gather.mask %v[%i, 3][%o], %m, %w : {V}, vector<2x3xi8>, vector<2x3xi1>, {X}",
        TO_MEMORY,
    ),
    "a scatter": (f"vector.scatter %w, %v[%i, 2][%o] : {X}, {V}, vector<2x3xi8>",),
    "a masked scatter": (f"vector.scatter.mask %w, %v[%i, 4][%o], %m : {X}, {V}, vector<2x3xi8>, vector<2x3xi1>",),
    "cache policies": (
        f"%r = vector.load %v[1, 0] {{cache_scope = device, cache_temporal = non_temporal}} : {V} -> {X}",
        TO_MEMORY,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REWRITTEN)
def test_elements_are_accessed_one_by_one(name: str) -> None:
    module = program(*REWRITTEN[name])
    rewritten = after(module)
    accesses = [op.name for op in rewritten.walk() if {"reads", "writes"} & op.spec.traits]
    assert set(accesses) <= {"view.load", "view.store"}
    assert len(accesses) == sum(6 if "2x3" in line.split(" : ")[1] else 3 for line in REWRITTEN[name])
    for seed in range(4):
        assert memory(rewritten, seed) == memory(module, seed)


def test_disabled_lanes_stay_outside() -> None:
    """The second row of the footprint lies outside of the view: its lanes are disabled, and touched by nobody."""
    lines = (
        "%no = scalar.constant false : i1",
        "%yes = scalar.constant true : i1",
        "%k = vector.from_elements %yes, %yes, %yes, %no, %no, %no : vector<2x3xi1>",
        "%three = index.constant 3 : index",
        "%last = index.add %i, %three : index",
        f"vector.store.mask %w, %v[%last, 0], %k : {X}, {V}, vector<2x3xi1>",
    )
    assert memory(after(program(*lines)), 1) == memory(program(*lines), 1)


def test_policies_of_the_access_are_those_of_its_elements() -> None:
    module = program(
        f"%r = vector.load %v[1, 0] {{cache_scope = device, cache_temporal = non_temporal}} : {V} -> {X}",
        TO_MEMORY,
    )
    loads = [op for op in after(module).walk() if op.name == "view.load"]
    assert [(op.attribute("cache_scope"), op.attribute("cache_temporal")) for op in loads] == [
        ("device", "non_temporal")
    ] * 6
    assert {op.loc for op in loads} == {next(op.loc for op in module.walk() if op.name == "vector.load")}


KEPT = {
    "volatile": f"%r = vector.load<volatile> %v[%i, 3] : {V} -> {X}",
    "many lanes": "%r = vector.load %big[0] : view<300xi32> -> vector<300xi32>",
    "run-time extents": "%r = vector.load %big[0] : view<300xi32> -> vector<[%i]xi32>",
    "an expansion": (
        "%r = vector.load.expand %big[0], %few, %old : view<300xi32>, vector<2xi1>, vector<2xi32>"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_what_cannot_be_split_stays(name: str) -> None:
    module = program(
        "%at0 = index.constant 0 : offset",
        "%size = index.constant 1200 : offset",
        "%storage = buffer.alloca<private> align(4) %size : buffer",
        "%big = buffer.view %storage[%at0] : buffer -> view<300xi32>",
        "%few = vector.constant false : vector<2xi1>",
        "%old = vector.constant 1 : vector<2xi32>",
        KEPT[name],
    )
    assert api.print(after(module)) == api.print(module)


AXES = {
    "the last axis": ("vector<2xi32>", "[1]", "addi"),
    "the first axis": ("vector<3xi32>", "[0]", "maxsi"),
    "all axes": ("i32", "[0, 1]", "xori"),
}


@pytest.mark.parametrize("name", AXES)
def test_reductions_along_axes_are_chains(name: str) -> None:
    type_, axes, kind = AXES[name]
    initial = f"%t = {'vector' if 'vector' in type_ else 'scalar'}.constant 5 : {type_}"
    store = "vector" if "vector" in type_ else "view"
    module = program(
        initial,
        f"%r = vector.reduce.axes<{kind}> %w, %t axes {axes} : {X}, {type_}",
        f"{store}.store %r, %v[0, 0] : {type_}, {V}",
    )
    rewritten = after(module, "vector-reduce-axes-to-scalar")
    assert "vector.reduce.axes" not in api.print(rewritten)
    assert sum(op.name == f"scalar.{kind}" for op in rewritten.walk()) == 6
    for seed in range(3):
        assert memory(rewritten, seed) == memory(module, seed)


def test_flags_of_a_reduction_are_those_of_its_steps() -> None:
    module = api.parse(
        """\
func.def public @f(%x: vector<2x2xf32>, %s: f32) -> (f32) {
  %r = vector.reduce.axes<addf, reassoc> %x, %s axes [0, 1] : vector<2x2xf32>, f32
  func.return %r : f32
}
""",
        "t.loom",
    )
    assert api.print(after(module, "vector-reduce-axes-to-scalar")).count("scalar.addf<reassoc>") == 4
