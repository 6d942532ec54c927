"""Running kernels and functions of a module on host values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from loom.evaluate.assumptions import check_predicates
from loom.evaluate.binding import Binder, to_host
from loom.evaluate.faults import FaultCode, fault, unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.lanes import batches, host_lane
from loom.evaluate.launch import LaunchGeometry, evaluate_launch_config
from loom.evaluate.layouts import form_view
from loom.evaluate.machine import Machine, Program
from loom.evaluate.races import RaceDetector, Synchronization
from loom.evaluate.values import Buffer, integer, vector_rank
from loom.ir.core import Op, Value
from loom.ir.recursion import deep_recursion
from loom.ir.types import ShapedType

# What the numbers of work-items in the race detector can hold.
MAXIMUM_ITEMS: Final = (1 << 31) - 1


def launch_kernel(program: Program, kernel: Op, workload: Sequence[Any], arguments: Sequence[Any]) -> LaunchGeometry:
    """Evaluate a dispatch of a ``kernel.def``: all work-items, batch by batch of whole workgroups.

    ``workload`` are integers, ``arguments`` contiguous NumPy arrays (updated in place) and scalars. Returns the
    geometry of the dispatch. Raises ``LoomError`` for anything that the program leaves undefined, at the operation
    that does it; arrays may then hold part of the results.
    """
    if kernel.name != "kernel.def":
        raise unsupported(kernel, f"'{kernel.name}' has no source body to evaluate")
    program.steps = 0
    geometry = evaluate_launch_config(kernel, workload, program.module, program.facts)
    items = math.prod(geometry.workgroup_size)
    if items > program.limits.group_items:
        raise fault(
            FaultCode.MEMORY_LIMIT,
            kernel,
            f"a workgroup of {items} work-items exceeds the limit of {program.limits.group_items}",
            limit=program.limits.group_items,
        )
    total = items * math.prod(geometry.workgroups)
    if total > MAXIMUM_ITEMS:
        raise fault(
            FaultCode.MEMORY_LIMIT,
            kernel,
            f"a dispatch of {total} work-items is too large to evaluate",
            limit=MAXIMUM_ITEMS,
        )
    size = program.facts.get("subgroup_size")
    subgroup = size if isinstance(size, int) else None
    # Shadows of buffers live as long as the dispatch, because workgroups of different batches can race.
    synchronization = Synchronization()
    watched = program.limits.races
    binder = Binder(
        kernel, "global", lambda size: RaceDetector(size, items, subgroup, synchronization) if watched else None
    )
    values = binder.bind(kernel.regions[-1].entry.args, arguments)
    with deep_recursion():
        for lanes in batches(geometry, program.limits.batch_lanes, subgroup):
            machine = Machine(program, lanes, synchronization)
            machine.call(kernel, kernel, values, None, lambda frame: enter_root(frame, kernel))
            machine.stream.require_complete()
    return geometry


def call_function(program: Program, function: Op, arguments: Sequence[Any]) -> list[Any]:
    """Evaluate one call of a function definition; see :func:`launch_kernel`.

    The module's initializers run before the first call. Returns NumPy scalars, arrays for vectors, and arrays over
    the same storage for buffers and views.
    """
    if function.name != "func.def":
        raise unsupported(function, f"'{function.name}' has no source body to evaluate")
    program.steps = 0
    machine = Machine(program, host_lane())
    with deep_recursion():
        if not program.initialized:
            program.initialized = True
            for op in program.module.ops:
                if op.name == "func.def" and op.attribute("cc") == "initializer":
                    machine.call(op, op, [], None)
        values = Binder(function, "generic", lambda size: None).bind(function.regions[-1].entry.args, arguments)
        results = machine.call(function, function, values, None, lambda frame: enter_root(frame, function))
    specs: Any = function.attribute("result_specs")
    return [to_host(value, spec.type) for value, spec in zip(results, specs, strict=True)]


def enter_root(frame: Frame, op: Op) -> None:
    """Finish binding the parameters of what a host runs: views take their shape, and ``where`` predicates must hold."""
    parameters = op.regions[-1].entry.args
    for parameter in parameters:
        value = frame.env[parameter]
        if isinstance(parameter.type, ShapedType) and isinstance(value, Buffer):
            frame.env[parameter] = form_view(frame, op, value, integer(0), parameter.type)
    for parameter in parameters:
        _check_extents(frame, op, parameter.type)
        _check_shape(frame, op, parameter)
    predicates: Any = op.attribute("predicates") or ()
    about = [p for p in predicates if all(isinstance(a, int) or a.index < len(parameters) for a in p.args)]
    check_predicates(frame, op, about, parameters, [frame.env[p] for p in parameters], "required")


def _check_extents(frame: Frame, op: Op, type_: object) -> None:
    if not isinstance(type_, ShapedType):
        return
    for dim in type_.dims:
        if not isinstance(dim, int):
            lane = frame.offender(frame.extent(dim) < 0)
            if lane is not None:
                raise frame.fault(
                    FaultCode.FALSE_PREDICATE, op, f"the extent %{dim.name} is negative", lane, value_name=str(dim.name)
                )


def _check_shape(frame: Frame, op: Op, parameter: Value) -> None:
    """An array given for a vector or tile has its extents."""
    type_, value = parameter.type, frame.env[parameter]
    if not vector_rank(type_) or not isinstance(type_, ShapedType) or not isinstance(value, np.ndarray):
        return
    extents = tuple(frame.uniform(op, frame.extent(dim), "an extent") for dim in type_.dims)
    if value.shape != extents:
        raise frame.fault(
            FaultCode.BAD_ARGUMENT,
            op,
            f"%{parameter.name or '?'} of type {type_} cannot be an array of {list(value.shape)}",
            frame.first_active,
            value_name=str(parameter.name),
        )
