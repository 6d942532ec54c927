"""The device ``abacus``: functions of checks, compiled to assembly and interpreted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loom import api
from loom.ir.core import Module, Op
from loom.ir.diagnostics import fail
from loom.plugins.records import TargetProfile
from loom_target_abacus import machine
from loom_target_abacus.profile import FAMILY, FORMAT


class AbacusDevice:
    """Runs functions; the machine has no kernels."""

    def __init__(self, target: TargetProfile) -> None:
        self.target = target
        self.facts: Mapping[str, object] = target.facts

    def call(self, module: Module, function: Op, arguments: Sequence[Any]) -> list[Any]:
        """Compile a function and run it."""
        name = str(function.attribute("callee"))
        text = api.compile(module, [name], self.target, FORMAT).result.primary.data.decode()
        return list(machine.call(machine.functions(text)[name], [int(a) for a in arguments]))

    def launch(self, module: Module, kernel: Op, workload: Sequence[Any], arguments: Sequence[Any]) -> None:
        """Always refused, with a located diagnostic."""
        raise fail("TARGET/036", "the Abacus runs functions, not kernels", kernel.loc, emitter=FAMILY)

    def close(self) -> None:
        """Nothing is held."""
