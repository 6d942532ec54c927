"""Passes share one analysis of each version of a function: what changes nothing asks for no new one."""

from __future__ import annotations

from typing import Any

import pytest

from loom import api
from loom.facts import version as versions
from loom.facts.analysis import FunctionFacts
from loom.ir.core import Module
from loom.passes.model import Context
from loom.passes.requests import read_requests
from loom.passes.run import Runner
from loom.specialize.pipeline import specialize

TEXT = """\
func.def public @f(%n: index, %x: view<64xi32>) -> (i32) where [range(%n, 0, 60)] {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %zero = scalar.constant 0 : i32
  %r = scf.for %i = [%c0 to %n step %c1](%acc = %zero : i32) -> (i32) {
    %v = vector.load %x[%i] : view<64xi32> -> vector<4xi32>
    %next = vector.reduce<addi> %v, %acc : vector<4xi32>, i32
    scf.yield %next : i32
  }
  func.return %r : i32
}
"""


@pytest.fixture
def analyses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by a name for every analysis of a function that passes share."""
    made: list[str] = []

    class Counted(FunctionFacts):
        def __init__(self, function: Any, target_facts: Any = None) -> None:
            super().__init__(function, target_facts)
            made.append(function.callee)

    monkeypatch.setattr(versions, "FunctionFacts", Counted)
    return made


def loaded(text: str) -> Module:
    module = api.parse(text, "t.loom")
    api.verify(module)
    return module


def test_passes_that_change_nothing_share_an_analysis(analyses: list[str]) -> None:
    runner = Runner(loaded(TEXT), Context())
    runner.run(read_requests("canonicalize,cse,licm,dce,loop-fusion,vector-memory-footprint,canonicalize,licm"))
    assert analyses == ["f"]
    assert not any(each.outcome.changed for each in runner.invocations)


def test_a_change_is_followed_by_one_new_analysis(analyses: list[str]) -> None:
    """Of the function that changed only."""
    lines = "  %twice = index.add %n, %c0 : index\n  %same = index.add %n, %c0 : index\n  scf.schedule.fence\n"
    changing = TEXT.replace("  %zero", lines + "  %zero").replace("@f(", "@g(")
    runner = Runner(loaded(TEXT + "\n" + changing), Context())
    runner.run(read_requests("licm,canonicalize,licm,canonicalize"))
    assert sorted(analyses) == ["f", "g", "g"]


def test_specialization_of_what_is_done_looks_once(analyses: list[str]) -> None:
    """Once for the function as it was, once more for what assumptions say of the result."""
    module = loaded(TEXT)
    specialize(module, None, ["f"])
    assert analyses == ["f"]
    analyses.clear()
    assumed = "  %m = index.assume %n [range(%n, 0, 50)] : index\n"
    specialize(loaded(TEXT.replace("  %zero", assumed + "  %zero").replace("to %n", "to %m")), None, ["f"])
    assert analyses == ["f"]
    analyses.clear()
    folded = TEXT.replace("  %zero", assumed + "  %k = index.add %m, %c0 : index\n  %zero").replace("to %n", "to %k")
    specialize(loaded(folded), None, ["f"])
    assert analyses == ["f", "f"]
