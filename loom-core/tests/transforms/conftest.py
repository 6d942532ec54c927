"""Random loop programs whose results must not depend on their policies."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# The helper modules beside the tests (pytest runs with import mode importlib).
sys.path.insert(0, str(Path(__file__).parent))

from loop_agreement import Agreement  # needs the path
from loop_programs import LoopProgram, write_program  # needs the path


@pytest.fixture(scope="session")
def loop_program() -> Callable[..., LoopProgram]:
    """Makes the program of a seed."""
    return write_program


@pytest.fixture(scope="session")
def agreement() -> Agreement:
    return Agreement()
