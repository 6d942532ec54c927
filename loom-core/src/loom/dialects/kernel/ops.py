"""Declarations of the ``kernel`` dialect (language reference, part 2, sections 12 and 13)."""

from __future__ import annotations

from typing import Final

from loom.dialects import words as w
from loom.dialects.kernel import collectives as collectives  # registers
from loom.dialects.kernel import transfers as transfers  # registers
from loom.dialects.kernel import verify as v
from loom.ir.attributes import Predicate
from loom.ir.core import Op, Region, Value
from loom.ir.types import BUFFER, INDEX
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

_HEAD: Final = "⟦ $retain⟧⟦ target($target)⟧⟦ export($export_symbol)⟧⟦ linkage($linkage)⟧ $callee"


class _Kernel(Op):
    __slots__ = ()
    callee: str = s.attribute(k.SYMBOL_NAME)
    retain: str | None = s.optional_attribute(w.RETENTION)
    target: str | None = s.optional_attribute(k.SYMBOL)
    export_symbol: str | None = s.optional_attribute(k.STRING)
    linkage: str | None = s.optional_attribute(w.LINKAGE)
    predicates: tuple[Predicate, ...] = s.attribute(k.PREDICATES, default=(), required=False)


@s.op(
    "kernel.def",
    _HEAD + "$<args config> $<body config> launch$<args body>$<where body predicates> $<body body>",
    traits=("symbol", "isolated", "kernel"),
    symbol="callee",
    verify=v.kernel,
)
class Def(_Kernel):
    """A dispatchable entry: a pure launch configuration over workload values and a device body."""

    config: Region = s.region("kernel.launch.config")
    body: Region = s.region("kernel.return", single_block=False)


@s.op(
    "kernel.decl",
    _HEAD + "$<args config> launch$<args body>$<where body predicates>",
    traits=("symbol", "isolated", "kernel", "declaration"),
    symbol="callee",
)
class Decl(_Kernel):
    """Workload signature and device contract of a kernel defined elsewhere."""

    config: Region = s.region(None)
    body: Region = s.region(None)


@s.op(
    "kernel.entry.decl",
    "⟦ $retain⟧⟦ target($target)⟧ $callee$<args body>",
    traits=("symbol", "isolated"),
    symbol="callee",
    verify=v.device_arguments,
)
class EntryDecl(Op):
    """Device contract of an executable entry that exists already; it has no launch configuration.

    Nothing in a link supplies it, so it counts as its own definition.
    """

    callee: str = s.attribute(k.SYMBOL_NAME)
    retain: str | None = s.optional_attribute(w.RETENTION)
    target: str | None = s.optional_attribute(k.SYMBOL)
    body: Region = s.region(None)


@s.op(
    "kernel.launch.config",
    " workgroups($count_x, $count_y, $count_z) workgroup_size($size_x, $size_y, $size_z)"
    "⟦ cluster_size($cluster)⟧⟦ dynamic_workgroup_storage($dynamic_storage)⟧ : type($count_x)",
    traits=("terminator",),
    verify=v.launch_config,
)
class LaunchConfig(Op):
    """Counts of workgroups, the size of one, and what else a launch may ask for."""

    count_x: Value = s.operand(c.INDEX)
    count_y: Value = s.operand(c.INDEX)
    count_z: Value = s.operand(c.INDEX)
    size_x: Value = s.operand(c.INDEX)
    size_y: Value = s.operand(c.INDEX)
    size_z: Value = s.operand(c.INDEX)
    cluster: list[Value] = s.operands(c.INDEX)
    dynamic_storage: Value | None = s.optional_operand(c.OFFSET)


@s.op("kernel.return", "", traits=("terminator", "return"))
class Return(Op):
    """Ends the invocation."""


@s.op("kernel.exit", " $condition : type($condition)⟦ $body⟧", traits=("unknown_effects",), verify=v.exit_)
class Exit(Op):
    """Leaves the kernel if the condition holds, after an optional last block of work."""

    condition: Value = s.operand(c.I1)
    body: Region | None = s.region("kernel.return", implicit=True, optional=True)


@s.op("kernel.assert", " $condition⟦ $message⟧ : type($condition)", traits=("unknown_effects",), verify=v.device_only)
class Assert(Op):
    """Fails the launch when the condition is false; nothing may be concluded from it."""

    condition: Value = s.operand(c.I1)
    message: str | None = s.optional_attribute(k.STRING)


@s.op(
    "kernel.workgroup.storage",
    " align($alignment) $byte_size : type($result)",
    traits=("unique_identity",),
    verify=v.workgroup_storage,
)
class WorkgroupStorage(Op):
    """The tail of workgroup storage that the launch asked for."""

    alignment: int = s.attribute(k.INT)
    byte_size: Value = s.operand(c.OFFSET)
    result: Value = s.result(c.BUFFER, fixed=BUFFER)


@s.op(
    "kernel.launch",
    " $callee⟦[$workload]⟧($args) : ⟦[type($workload)]⟧(type($args))",
    traits=("unknown_effects", "command"),
    verify=v.launch,
)
class Launch(Op):
    """Evaluates the launch configuration for the workload and runs the grid with the device arguments."""

    callee: str = s.attribute(k.SYMBOL)
    workload: list[Value] = s.operands(c.ANY)
    args: list[Value] = s.operands(c.ANY)


@s.op(
    "kernel.dispatch",
    " $callee[$counts]($args)⟦ workgroup_size($sizes)⟧ : [type($counts)](type($args))",
    traits=("unknown_effects", "command"),
    verify=v.dispatch,
)
class Dispatch(Op):
    """Runs an entry with explicit counts."""

    callee: str = s.attribute(k.SYMBOL)
    counts: list[Value] = s.operands(c.ANY)
    args: list[Value] = s.operands(c.ANY)
    sizes: list[Value] = s.operands(c.INDEX)


class AxisQuery(Op):
    """A coordinate or extent along one axis."""

    __slots__ = ()
    axis: str = s.attribute(w.AXIS)
    result: Value = s.result(c.INDEX, fixed=INDEX)


class Query(Op):
    """A coordinate or extent of the invocation."""

    __slots__ = ()
    result: Value = s.result(c.INDEX, fixed=INDEX)


AXIS_QUERIES: Final = {
    "workitem.id": "Invocation coordinate in its workgroup.",
    "workgroup.id": "Workgroup coordinate in the grid.",
    "workgroup.size": "Workgroup extent.",
    "workgroup.count": "Grid extent in workgroups.",
    "workitem.dispatch.id": "workgroup.id * workgroup.size + workitem.id.",
    "cluster.id": "Cluster coordinate in the grid.",
    "cluster.workgroup.id": "Workgroup coordinate inside its cluster.",
    "cluster.size": "Cluster extent in workgroups.",
    "cluster.count": "Grid extent in clusters.",
}
QUERIES: Final = {
    "subgroup.id": "Subgroup coordinate in the workgroup.",
    "subgroup.count": "Subgroups per workgroup.",
    "subgroup.size": "Execution width, inactive lanes included.",
    "subgroup.lane.id": "Lane in its subgroup.",
    "cluster.workgroup.flat_id": "Linear workgroup coordinate inside its cluster.",
}

for _name, _summary in AXIS_QUERIES.items():
    s.define(
        AxisQuery,
        f"kernel.{_name}",
        "<$axis> : type($result)",
        traits=("pure", "device_only"),
        summary=_summary,
        class_name=f"kernel.{_name}",
        verify=v.device_only,
    )
for _name, _summary in QUERIES.items():
    s.define(
        Query,
        f"kernel.{_name}",
        " : type($result)",
        traits=("pure", "device_only"),
        summary=_summary,
        class_name=f"kernel.{_name}",
        verify=v.device_only,
    )


@s.op(
    "kernel.barrier",
    "<$space> scope($scope) ordering($ordering)",
    traits=("convergent", "unknown_effects", "fence"),
    verify=v.barrier,
)
class Barrier(Op):
    """A rendezvous of the scope's invocations plus a fence of the named space."""

    space: str = s.attribute(w.MEMORY_SPACE)
    scope: str = s.attribute(w.SCOPE)
    ordering: str = s.attribute(w.ORDERING)
