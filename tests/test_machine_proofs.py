"""Every kernel of the examples and the shared cases, for every family of AMD GPUs, with all proofs of machine code.

What a target cannot do is refused with a diagnostic; that the proofs refute what it did is a failure here. Other tests
run the same programs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from loom import api
from loom.ir.diagnostics import LoomError
from loom.low.proof import OPTION
from loom.plugins.manager import find_target

TARGETS = ("amdgpu:gfx1100", "amdgpu:gfx1151", "amdgpu:gfx1200", "amdgpu:gfx942")
KERNELS = ("kernel.def", "low.kernel.def")
REFUSED = 12
"""Programs and kernels that may be refused: authored for another target, or matrix tiles it does not have."""


def proven(path: Path, target: str) -> tuple[int, int]:
    """How many kernels of a program are compiled, and how many refused."""
    profile = find_target(target)
    try:
        module = api.prepare_checks([path], [], profile)
    except LoomError:
        return 0, 1
    compiled = refused = 0
    for op in module.ops:
        if op.name not in KERNELS:
            continue
        symbol = str(op.attribute("callee"))
        try:
            api.compile(module, (symbol,), profile, options={OPTION: True})
        except LoomError as error:
            keys = {str(found.params.get("constraint_key", "")) for found in error.diagnostics}
            assert not any(key.startswith("machine.") for key in keys), error
            refused += 1
        else:
            compiled += 1
    return compiled, refused


@pytest.mark.parametrize("target", TARGETS)
def test_the_code_of_all_examples_is_proven(target: str, root: Path) -> None:
    counts = [proven(path, target) for path in sorted((root / "examples").glob("*.loom"))]
    assert sum(compiled for compiled, _ in counts) > 40
    assert sum(refused for _, refused in counts) <= REFUSED


@pytest.mark.parametrize("target", TARGETS)
def test_the_code_of_all_shared_cases_is_proven(target: str, shared: Path) -> None:
    counts = [proven(path, target) for path in sorted((shared / "cases").glob("*.loom"))]
    assert sum(compiled for compiled, _ in counts) >= 15
    assert sum(refused for _, refused in counts) <= REFUSED
