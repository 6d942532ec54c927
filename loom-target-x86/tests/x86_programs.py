"""Compiling text for the runners of the tests: the host processor and the simulator.

Schedules and allocations are re-proved by the independent checkers in every compilation made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from loom import api
from loom.ir.core import Module
from loom.low.proof import OPTION
from loom.plugins.manager import find_target
from loom_target_x86.native import NativeRunner, NativeUnavailable

#: Where code runs and what it is compiled for.
RUNNERS = (("host", "avx2"), ("host", "simd128"), ("sim", "simd128"))
RUNNER_IDS = [f"{where}-{selector}" for where, selector in RUNNERS]

#: The same with general registers only, for integer programs.
INTEGER_RUNNERS = (*RUNNERS, ("host", "scalar"), ("sim", "scalar"))
INTEGER_RUNNER_IDS = [f"{where}-{selector}" for where, selector in INTEGER_RUNNERS]


def compile_object(module: Module | str, roots: Sequence[str] = (), selector: str = "avx2") -> bytes:
    """Compile roots (default: all) of a module through the whole pipeline, checkers on."""
    if isinstance(module, str):
        module = api.load_bytes(module.encode(), "test.loom")
    options = {OPTION: True}
    return api.compile(module, roots, f"x86:{selector}", "x86-object", options).result.primary.data


class Runner:
    """Loads objects into one kind of machine."""

    def __init__(
        self, where: str, selector: str, native: NativeRunner, devices: dict[tuple[str, str], Any] | None = None
    ) -> None:
        self.where, self.selector = where, selector
        self._native = native
        self._devices = devices if devices is not None else {}

    def load(self, code: bytes) -> Any:
        """A program with `call` and `launch`; skips the test where it cannot run."""
        if self.where == "sim":
            sim = pytest.importorskip("loom_sim.x86", reason="loom-sim is not installed")
            return sim.load(code)
        try:
            return self._native.load(code)
        except NativeUnavailable as error:
            pytest.skip(str(error))

    def compile(self, module: Module | str, roots: Sequence[str] = ()) -> Any:
        """Compile and load."""
        return self.load(compile_object(module, roots, self.selector))

    def device(self) -> Any:
        """An open device for the runner's target, the same for all tests."""
        key = self.where, self.selector
        if key not in self._devices:
            self._devices[key] = open_device(self.where, self.selector)
        return self._devices[key]


def open_device(where: str, selector: str) -> Any:
    """Open a device for a target; skips the test where it cannot be."""
    target = find_target(f"x86:{selector}")
    if where == "sim":
        device = pytest.importorskip("loom_sim.x86.device", reason="loom-sim is not installed")
        return device.open_x86_sim(target)
    from loom_target_x86.device import open_host

    try:
        return open_host(target)
    except NativeUnavailable as error:
        pytest.skip(str(error))
