"""Workgroup counts of launches and dispatches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from loom.evaluate.launch import LaunchGeometry, evaluate_launch_config
from loom.facts.analysis import FunctionFacts
from loom.ir.core import Module, Op, Value
from loom.ir.diagnostics import LoomError, Related
from loom.ir.types import ShapedType
from loom_target_cmd.diagnostics import Refusals, exact_number
from loom_target_cmd.records import U32_MAX

Triple = tuple[int, int, int]


class Counts:
    """Settles the counts of one program's commands. Of a kernel only its launch configuration is read."""

    def __init__(
        self, module: Module, target_facts: Mapping[str, object], facts: FunctionFacts, refusals: Refusals
    ) -> None:
        self.module = module
        self.target_facts = target_facts
        self.facts = facts
        self.refusals = refusals
        self._evaluated: dict[tuple[Op, tuple[int | float, ...]], LaunchGeometry] = {}

    def of_launch(self, launch: Any, kernel: Any) -> Triple:
        """The workgroups of a launch with exact workload."""
        workload = []
        for i, value in enumerate(launch.workload):
            number = exact_number(value, self.facts, launch)
            if number is None:
                raise self.refusals.not_exact(
                    f"workload value {i} of '@{launch.callee}'", value, launch, "exact_workload"
                )
            workload.append(number)
        key = (kernel, tuple(workload))
        geometry = self._evaluated.get(key)
        if geometry is None:
            try:
                geometry = evaluate_launch_config(kernel, workload, self.module, self.target_facts)  # type: ignore[arg-type]
            except LoomError as error:
                where = Related(f"'@{launch.callee}' is launched here", launch.loc)
                raise LoomError(attrs.evolve(d, related=(*d.related, where)) for d in error.diagnostics) from None
            self._evaluated[key] = geometry
        return geometry.workgroups

    def of_dispatch(self, dispatch: Any) -> Triple | Value:
        """The counts of a dispatch (missing axes are 1), or the view that will hold them."""
        if dispatch.sizes:
            raise self.refusals.refuse(
                "TARGET/032",
                "a command program cannot override the workgroup size of an entry",
                dispatch,
                hint="leave out workgroup_size(...); the entry's own size is used",
                op_constraint="default_workgroup_size",
            )
        if isinstance(dispatch.counts[0].type, ShapedType):
            view: Value = dispatch.counts[0]
            return view
        counts = [1, 1, 1]
        for axis, value in enumerate(dispatch.counts):
            exact = self.facts.exact(value, dispatch)
            if exact is None:
                raise self.refusals.not_exact(
                    f"workgroup count {'xyz'[axis]} of '@{dispatch.callee}'", value, dispatch, "exact_launch_count"
                )
            if not 0 <= exact <= U32_MAX:
                raise self.refusals.refuse(
                    "TARGET/005",
                    f"workgroup count {'xyz'[axis]} of '@{dispatch.callee}' is {exact}, outside 0 to {U32_MAX}",
                    dispatch,
                    subject_role="operand",
                    subject_name="counts",
                    constraint_key="launch_count_u32",
                    minimum=0,
                    maximum=U32_MAX,
                )
            counts[axis] = exact
        return counts[0], counts[1], counts[2]
