"""The reference device: runs check programs on the evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loom.evaluate.limits import Limits

if TYPE_CHECKING:
    from loom.evaluate.machine import Program
    from loom.ir.core import Module, Op
    from loom.plugins.records import TargetProfile


class ReferenceDevice:
    """Evaluates the source program. With a target its facts hold (``subgroup_size``); without one none do.

    The module used last stays prepared and keeps its globals; it must not change in between.
    """

    def __init__(self, facts: Mapping[str, object], limits: Limits | None = None) -> None:
        self.facts: Mapping[str, object] = facts
        self._limits = limits or Limits()
        self._program: Program | None = None

    def launch(self, module: Module, kernel: Op, workload: Sequence[Any], arguments: Sequence[Any]) -> None:
        """Run one kernel, or the pipeline that takes its place with the workload as its specializations.

        See :func:`loom.evaluate.dispatch.launch_kernel` and :func:`loom.evaluate.pipelines.run_pipeline`.
        """
        if kernel.name == "pipeline.def":
            from loom.evaluate.pipelines import run_pipeline

            run_pipeline(self._prepared(module), kernel, workload, arguments)
            return
        from loom.evaluate.dispatch import launch_kernel

        launch_kernel(self._prepared(module), kernel, workload, arguments)

    def call(self, module: Module, function: Op, arguments: Sequence[Any]) -> list[Any]:
        """Call one function; see :func:`loom.evaluate.dispatch.call_function`."""
        from loom.evaluate.dispatch import call_function

        return call_function(self._prepared(module), function, arguments)

    def _prepared(self, module: Module) -> Program:
        from loom.evaluate.machine import Program

        if self._program is None or self._program.module is not module:
            self._program = Program(module, self.facts, self._limits)
        return self._program

    def close(self) -> None:
        """Forget the module and its state."""
        self._program = None


def open_reference_device(target: TargetProfile | None) -> ReferenceDevice:
    """Open the device. Any target will do: only its published facts matter."""
    return ReferenceDevice(dict(target.facts) if target is not None else {})
