"""A remainder that is zero on a path makes its dividend a multiple there."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom import api
from loom.evaluate.dispatch import call_function
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.facts.analysis import FunctionFacts
from loom.transforms.canonicalize import canonicalize

TEXT = """\
func.def public @f(%n: TYPE) -> (TYPE) {
  %zero = DIALECT.constant 0 : TYPE
  %d = DIALECT.constant DIVISOR : TYPE
  %rest = OP %n, %d : TYPE
  %whole = COMPARE eq, %rest, %zero : TYPE
  %r = scf.if %whole -> (TYPE) {
    %again = OP %n, %d : TYPE
    scf.yield %again : TYPE
  } else {
    scf.yield %rest : TYPE
  }
  func.return %r : TYPE
}
"""


def program(op: str, divisor: int) -> str:
    dialect = op.split(".")[0]
    type_, compare = ("index", "index.cmp") if dialect == "index" else ("i16", "scalar.cmpi")
    text = TEXT.replace("TYPE", type_).replace("DIALECT", dialect).replace("COMPARE", compare)
    return text.replace("DIVISOR", str(divisor)).replace("OP", op)


@pytest.mark.parametrize(
    ("op", "divisor", "inside"),
    [
        ("index.rem", 12, 12),
        ("scalar.remsi", 12, 12),
        ("scalar.remui", 16, 16),
        ("scalar.remui", 12, 1),
        ("index.andi", 7, 8),
        ("scalar.andi", 15, 16),
        ("scalar.andi", 12, 1),
    ],
)
def test_divisors_of_guarded_values(op: str, divisor: int, inside: int) -> None:
    (root,) = api.parse(program(op, divisor)).ops
    facts = FunctionFacts(root)
    value = root.regions[-1].entry.args[0]
    places = [found for found in root.walk() if found.name == "scf.yield"]
    assert facts.integer(value, places[0]).divisor == inside
    assert facts.integer(value, places[1]).divisor == 1
    assert facts.integer(value).divisor == 1


@given(
    st.sampled_from(["scalar.remsi", "scalar.remui", "scalar.andi"]),
    st.integers(1, 300),
    st.integers(-(2**15), 2**15 - 1),
)
@settings(max_examples=150)
def test_random_remainders_mean_the_same(op: str, divisor: int, value: int) -> None:
    module = api.parse(program(op, divisor))
    before = call_function(Program(module, limits=Limits()), module.symbols()["f"], [value])
    (root,) = module.ops
    canonicalize(root, module.symbols())
    assert call_function(Program(module, limits=Limits()), module.symbols()["f"], [value]) == before


def test_a_guard_chooses_a_provider() -> None:
    from loom.specialize.pipeline import specialize

    text = """\
template.decl @t.f(%n: index) -> (index)

template.def<@t.f> priority(2) @whole(%n: index) -> (index) where [multiple_of(%n, 16)] {
  %r = index.constant 100 : index
  template.return %r : index
}

template.def<@t.f> @any(%n: index) -> (index) {
  %r = index.constant 200 : index
  template.return %r : index
}

func.def public @f(%n: index) -> (index) {
  %zero = index.constant 0 : index
  %d = index.constant 16 : index
  %rest = index.rem %n, %d : index
  %ragged = index.cmp ne, %rest, %zero : index
  %r = scf.if %ragged -> (index) {
    %a = template.apply<@t.f>(%n) : (index) -> (index)
    scf.yield %a : index
  } else {
    %b = template.apply<@t.f>(%n) : (index) -> (index)
    scf.yield %b : index
  }
  func.return %r : index
}
"""
    done = specialize(api.parse(text), None, ["f"])
    assert [s.provider for s in done.selections] == ["any", "whole"]
