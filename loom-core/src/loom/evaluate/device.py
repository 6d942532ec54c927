"""The reference device: runs check programs on the evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loom.evaluate.limits import Limits

if TYPE_CHECKING:
    from loom.evaluate.values import RuntimeValue
    from loom.ir.core import Module, Op
    from loom.plugins.records import TargetProfile


class ReferenceDevice:
    """Evaluates the source program. With a target its facts hold (``subgroup_size``); without one none do."""

    def __init__(self, facts: Mapping[str, object], limits: Limits | None = None) -> None:
        self.facts: Mapping[str, object] = facts
        self._limits = limits or Limits()
        self._module: Module | None = None
        self._state: dict[str, RuntimeValue] = {}

    def launch(self, module: Module, kernel: Op, workload: Sequence[Any], arguments: Sequence[Any]) -> None:
        """Run one kernel; see :func:`loom.evaluate.dispatch.launch_kernel`."""
        from loom.evaluate.dispatch import launch_kernel

        launch_kernel(module, kernel, workload, arguments, facts=self.facts, limits=self._limits)

    def call(self, module: Module, function: Op, arguments: Sequence[Any]) -> list[Any]:
        """Call one function; see :func:`loom.evaluate.dispatch.call_function`. Globals keep their values between
        calls of one module."""
        from loom.evaluate.dispatch import call_function

        if module is not self._module:
            self._module, self._state = module, {}
        return call_function(module, function, arguments, facts=self.facts, limits=self._limits, state=self._state)

    def close(self) -> None:
        """Forget the module state."""
        self._module, self._state = None, {}


def open_reference_device(target: TargetProfile | None) -> ReferenceDevice:
    """Open the device. Any target will do: only its published facts matter."""
    return ReferenceDevice(dict(target.facts) if target is not None else {})
