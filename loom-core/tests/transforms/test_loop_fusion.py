"""Joining neighbouring loops over the same positions."""

from __future__ import annotations

import random

import numpy as np
import pytest

from loom import api
from loom.evaluate.dispatch import call_function
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.ir.core import Module
from loom.transforms.loop_fusion import fuse_loops

HEAD = """\
func.def public @f(%n: index, %a: i32, %x: view<64xi32>) -> (i32) {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c2 = index.constant 2 : index
  %c8 = index.constant 8 : index
  %eight = index.add %c8, %c0 : index
"""
TAIL = """\
  %r = scalar.addi %p, %q : i32
  func.return %r : i32
}
"""
READ = "%y = view.load %x[%i] : view<64xi32> -> i32"
STORE = "view.store %s, %x[%i] : i32, view<64xi32>"
SUM = "%s = scalar.addi %acc, %y : i32"
POSITION = "%y = index.cast %i : index to i32"
PRODUCT = "%s = scalar.muli %acc, %y : i32"


def loop(name: str, *body: str, upper: str = "%n", init: str = "%a", clause: str = "", step: str = "%c1") -> str:
    lines = (*body, "scf.yield %s : i32")
    text = f"  {name} = scf.for %i = [%c0 to {upper} step {step}](%acc = {init} : i32) -> (i32){clause} {{\n"
    return text + "".join(f"    {line}\n" for line in lines) + "  }\n"


def fused(*parts: str) -> tuple[int, Module, Module]:
    """How many loops were joined, the module before, and behind."""
    module = api.parse(HEAD + "".join(parts) + TAIL, "t.loom")
    api.verify(module)
    before = module.clone()
    (root,) = module.ops
    joined = fuse_loops(root, {})
    api.verify(module)
    return joined, before, module


def run(module: Module, n: int) -> tuple[int, bytes]:
    x = np.arange(3, 67, dtype=np.int32)
    (result,) = call_function(Program(module, limits=Limits()), module.symbols()["f"], [n, 5, x])
    return int(result), x.tobytes()


JOINED = {
    "reads beside reads": (loop("%p", READ, SUM), loop("%q", READ, PRODUCT)),
    "a store beside arithmetic": (loop("%p", READ, SUM, STORE), loop("%q", POSITION, PRODUCT)),
    "arithmetic beside a store": (loop("%p", POSITION, SUM), loop("%q", READ, PRODUCT, STORE)),
    "pure operations between": (
        loop("%p", READ, SUM),
        "  %b = scalar.muli %a, %a : i32\n",
        loop("%q", READ, PRODUCT, init="%b"),
    ),
    "bounds that facts make equal": (loop("%p", READ, SUM, upper="%c8"), loop("%q", READ, PRODUCT, upper="%eight")),
}


@pytest.mark.seed("Y07")
@pytest.mark.parametrize("name", JOINED)
def test_loops_that_nothing_keeps_apart_join(name: str) -> None:
    joined, before, after = fused(*JOINED[name])
    assert joined == 1
    assert sum(op.name == "scf.for" for op in after.walk()) == 1
    for n in (0, 1, 7):
        assert run(after, n) == run(before, n)


APART = {
    "other bounds": (loop("%p", READ, SUM), loop("%q", READ, PRODUCT, upper="%c8")),
    "other steps": (loop("%p", READ, SUM), loop("%q", READ, PRODUCT, step="%c2")),
    "the first's result is where the second begins": (loop("%p", READ, SUM), loop("%q", READ, PRODUCT, init="%p")),
    "the first's result is used inside": (
        loop("%p", READ, SUM),
        loop("%q", "%y = scalar.addi %p, %p : i32", PRODUCT),
    ),
    "what stands between uses the first's result": (
        loop("%p", READ, SUM),
        "  %b = scalar.muli %p, %a : i32\n",
        loop("%q", READ, PRODUCT, init="%b"),
    ),
    "a store between": (loop("%p", READ, SUM), "  view.store %a, %x[0] : i32, view<64xi32>\n", loop("%q", READ, SUM)),
    "a store beside a read": (loop("%p", READ, SUM, STORE), loop("%q", READ, PRODUCT)),
    "a read beside a store": (loop("%p", READ, SUM), loop("%q", READ, PRODUCT, STORE)),
    "a fence between": (loop("%p", READ, SUM), "  scf.schedule.fence\n", loop("%q", READ, PRODUCT)),
    "a fence inside": (loop("%p", READ, "scf.schedule.fence", SUM), loop("%q", READ, PRODUCT)),
    "a policy": (loop("%p", READ, SUM, clause=" unroll(%c2)"), loop("%q", READ, PRODUCT)),
    "a policy of the second": (loop("%p", READ, SUM), loop("%q", READ, PRODUCT, clause=" pipeline(%c2)")),
}


@pytest.mark.parametrize("name", APART)
def test_loops_that_something_keeps_apart_stay(name: str) -> None:
    joined, before, after = fused(*APART[name])
    assert joined == 0
    assert api.print(after) == api.print(before)


def test_three_loops_and_what_they_hold_become_one() -> None:
    """Inner loops are neighbours once their outer ones are joined."""
    nested = (
        "%s = scf.for %j = [%c0 to %c8 step %c1](%t = %acc : i32) -> (i32) {\n"
        "      %z = index.cast %j : index to i32\n"
        "      %u = scalar.addi %t, %z : i32\n"
        "      scf.yield %u : i32\n"
        "    }"
    )
    joined, before, after = fused(loop("%p", nested), loop("%unused", nested), loop("%q", nested))
    assert joined == 4
    assert sum(op.name == "scf.for" for op in after.walk()) == 2
    assert run(after, 5) == run(before, 5)


@pytest.mark.seed("Y07")
def test_carried_views_and_extents_keep_their_scheme() -> None:
    """Each loop's view still names the extent beside it."""
    shrink = (
        "  {r}, {v} = scf.for %i = [%c0 to %c2 step %c1](%left = %m : index, %w = %whole : view<[%m]xi32>)"
        " -> (index, view<[{r}]xi32>) {{\n"
        "    %less = index.sub %left, %c1 : index\n"
        "    %narrow = view.subview %w[1] : view<[%left]xi32> -> view<[%less]xi32>\n"
        "    scf.yield %less, %narrow : index, view<[%less]xi32>\n"
        "  }}\n"
    )
    text = (
        "func.def public @f(%n: index, %a: i32, %b: buffer) -> (i32) {\n"
        "  %at0 = index.constant 0 : offset\n  %c0 = index.constant 0 : index\n  %c1 = index.constant 1 : index\n"
        "  %c2 = index.constant 2 : index\n  %m = index.constant 8 : index\n"
        "  %whole = buffer.view %b[%at0] : buffer -> view<[%m]xi32>\n"
        + shrink.format(r="%first", v="%one")
        + shrink.format(r="%second", v="%two")
        + "  %p = view.load %one[1] : view<[%first]xi32> -> i32\n"
        "  %q = view.load %two[0] : view<[%second]xi32> -> i32\n" + TAIL
    )
    module = api.parse(text, "t.loom")
    api.verify(module)
    want = run(module, 0)
    assert fuse_loops(next(iter(module.ops)), {}) == 1
    api.verify(module)
    assert api.print(api.parse(api.print(module), "again.loom")) == api.print(module)
    assert run(module, 0) == want == (3 + 3 + 5, want[1])


BODIES = (
    (READ, SUM),
    (POSITION, PRODUCT),
    (READ, PRODUCT, STORE),
    (POSITION, SUM, "view.store %s, %x[0] : i32, view<64xi32>"),
    (
        "%late = index.cmp sgt, %i, %c2 : index",
        "%y = scf.if %late -> (i32) {",
        "  %z = view.load %x[%i] : view<64xi32> -> i32",
        "  scf.yield %z : i32",
        "} else {",
        "  scf.yield %a : i32",
        "}",
        SUM,
    ),
    (
        "%s = scf.for %j = [%c0 to %c2 step %c1](%t = %acc : i32) -> (i32) {",
        "  %z = view.load %x[%j] : view<64xi32> -> i32",
        "  %u = scalar.muli %t, %z : i32",
        "  scf.yield %u : i32",
        "}",
    ),
)


def random_pair(seed: int) -> tuple[str, str]:
    """Two loops, often over the same positions, the second sometimes after the first's result."""
    rng = random.Random(seed)
    return tuple(  # type: ignore[return-value]  # two
        loop(
            name,
            *rng.choice(BODIES),
            upper=rng.choice(("%n", "%n", "%n", "%c8")),
            init="%a" if name == "%p" else rng.choice(("%a", "%a", "%a", "%p")),
            step=rng.choice(("%c1", "%c1", "%c1", "%c2")),
        )
        for name in ("%p", "%q")
    )


def test_random_pairs_mean_the_same() -> None:
    """Results and memory, for loops that join and loops that do not."""
    joined = 0
    for seed in range(120):
        count, before, after = fused(*random_pair(seed))
        joined += count > 0
        for n in (0, 1, 6):
            assert run(after, n) == run(before, n), f"seed {seed}"
    assert 15 < joined < 105
