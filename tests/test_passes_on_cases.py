"""The shared cases on loops, layouts and families pass before and behind every pass, alone and one after another."""

from __future__ import annotations

from pathlib import Path

import pytest

from loom import api
from loom.ir.core import Module
from loom.passes.catalogue import PASSES
from loom.passes.model import Context
from loom.passes.requests import read_requests
from loom.passes.run import Runner
from loom.plugins.manager import find_target

CASES = ("rotating_slots", "read_ahead", "strided_layouts", "family_by_subgroup")
SEQUENCES = (
    "inline-callables, canonicalize, pipeline-scf-for, unroll-scf-for, canonicalize, symbol-dce",
    "canonicalize, licm, branch-sink, branch-fusion, cse, dce, strip-hints",
    "select-templates{mode = early}, canonicalize, unroll-scf-for, licm, canonicalize",
    "specialize, scf-to-cfg, cfg-simplify, canonicalize, cfg-simplify",
)
# Policies come from arguments of templates; without binding these passes have nothing exact to work with.
BOUND = "inline-callables, select-templates{mode = early}, canonicalize"
BEFORE = {
    "pipeline-scf-for": BOUND,
    "unroll-scf-for": BOUND,
    # What these make cannot be inlined or read ahead any more.
    "scf-to-cfg": "specialize",
    "sanitizer-insert-assertions": "specialize",
    "sanitizer-insert-race-observations": "specialize",
}
# The cases of the family are about lanes of a subgroup, which only a target says.
TARGET = "amdgpu:gfx1100"


def check(module: Module) -> tuple[int, int, int]:
    report = api.check([module], (), "reference", TARGET)
    return report.sample_count, report.failed_sample_count, report.planning_issue_count


def run(module: Module, text: str) -> None:
    Runner(module, Context(find_target(TARGET))).run(read_requests(text))


@pytest.fixture(scope="module", params=CASES)
def program(request: pytest.FixtureRequest, shared: Path) -> tuple[Module, int]:
    """A file's module, and how many samples it has, all of which pass."""
    pytest.importorskip("loom_target_amdgpu")
    module = api.load(shared / "cases" / f"{request.param}.loom")
    samples, failed, issues = check(module)
    assert samples > 0
    assert (failed, issues) == (0, 0)
    return module, samples


@pytest.mark.parametrize("key", [key for key, info in PASSES.items() if not info.needs_target])
def test_cases_pass_behind_each_pass(program: tuple[Module, int], key: str) -> None:
    module, samples = program[0].clone(), program[1]
    run(module, ", ".join([*filter(None, [BEFORE.get(key)]), key]))
    assert check(module) == (samples, 0, 0)


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_cases_pass_behind_sequences(program: tuple[Module, int], sequence: str) -> None:
    module, samples = program[0].clone(), program[1]
    run(module, sequence)
    assert check(module) == (samples, 0, 0)
