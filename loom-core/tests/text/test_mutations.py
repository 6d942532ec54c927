"""Damaged texts never crash the reader, the verifier or the printer."""

from __future__ import annotations

import random

from loom.ir.diagnostics import LoomError
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import verify_module

SEED_TEXT = """\
// A program with most syntax.

template.decl @t.f(%v: f32, %n: index) -> (f32)

template.def<@t.f> requires [#target.subgroup.size<32>] priority(20) @fast(%v: f32, %n: index) -> (f32) where [range(%n, 0, 64)] {
  %r = scalar.addf<nnan> %v, %v : f32
  template.return %r : f32
}

kernel.def export("k") @k(%count: index) {
  %unit = index.constant 1 : index
  kernel.launch.config workgroups(%count, %unit, %unit) workgroup_size(%unit, %unit, %unit) : index
} launch(%count: index, %x: buffer) {
  %base = index.constant 0 : offset
  %i = kernel.workgroup.id<x> : index
  %v = buffer.view %x[%base] : buffer -> view<[%count]x4xf32, align(1)>
  %ok = index.cmp ult, %i, %count : index
  scf.if %ok {
    %a = view.load %v[%i, 0] : view<[%count]x4xf32, align(1)> -> f32
    %b = template.apply<@t.f>(%a, %i) : (f32, index) -> (f32)
    view.store %b, %v[%i, 0] : f32, view<[%count]x4xf32, align(1)>
  }
  kernel.return
}

check.case public @c {
  %n = check.param.choice values([1, 2]) name("n") : index
  %x = check.generate.iota offset(0.0) step(1.0) : tensor<[%n]x4xf32>
  kernel.launch @k[%n](%n, %x) : [index](index, tensor<[%n]x4xf32>)
  check.return
}
"""

PIECES = [
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    ":",
    ",",
    "=",
    "%",
    "@",
    "#",
    '"',
    "//",
    "\n",
    "x",
    "0",
    "-",
    "->",
    "i32",
    "%a",
    "@k",
    "\t",
    "\\",
]


def damage(random_: random.Random, text: str) -> str:
    for _ in range(random_.randint(1, 4)):
        at = random_.randrange(len(text))
        kind = random_.randrange(4)
        if kind == 0:
            text = text[:at] + text[at + random_.randint(1, 12) :]
        elif kind == 1:
            text = text[:at] + random_.choice(PIECES) + text[at:]
        elif kind == 2:
            text = text[:at]
        else:
            other = random_.randrange(len(text))
            text = text[:at] + text[other : other + random_.randint(1, 40)] + text[at:]
        text = text or "x"
    return text


def test_the_seed_is_valid() -> None:
    module = parse_module(SEED_TEXT)
    assert verify_module(module) == []
    assert print_module(module) == SEED_TEXT


def test_damaged_texts() -> None:
    """A thousand mutations: an error list, or a program whose canonical text is a fixed point."""
    random_ = random.Random(20)
    for _ in range(1000):
        text = damage(random_, SEED_TEXT)
        try:
            module = parse_module(text)
        except LoomError as error:
            assert error.diagnostics
            assert all(d.render() for d in error.diagnostics)
            continue
        if verify_module(module):
            continue
        once = print_module(module)
        assert print_module(parse_module(once)) == once
