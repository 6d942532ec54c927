"""Evaluating a launch configuration: the geometry of a dispatch from its workload values.

Plain Python integers only. Tools on the compile path use it, so it must not import NumPy. The configuration
region is pure (language reference, part 2, section 12.1), hence a small interpreter of integer operations,
structured conditionals and loops, and calls of pure functions covers it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from loom.evaluate.faults import FaultCode, fault
from loom.evaluate.integer_arithmetic import highest, is_integer, lowest
from loom.evaluate.integer_programs import Interpreter
from loom.ir.core import Module, Op, Region, Value
from loom.ir.diagnostics import LoomError
from loom.ir.types import ScalarType

U32_MAX: Final = (1 << 32) - 1

#: Target facts that bound a launch. Compilers take what follows from them for granted.
LIMIT_FACTS: Final = (
    *(f"max_workgroup_size_{axis}" for axis in "xyz"),
    "max_flat_workgroup_size",
    *(f"max_workgroup_count_{axis}" for axis in "xyz"),
    *(f"max_grid_size_{axis}" for axis in "xyz"),
    "max_flat_grid_size",
)

Triple = tuple[int, int, int]


@attrs.frozen
class LaunchGeometry:
    """Workgroups per axis, work-items per workgroup and axis, and workgroups per cluster and axis (x, y, z).

    ``dynamic_storage`` are bytes of workgroup storage that the launch asks for beyond what the kernel allocates.
    """

    workgroups: Triple
    workgroup_size: Triple
    cluster_size: Triple = (1, 1, 1)
    dynamic_storage: int = 0


def evaluate_launch_config(
    kernel: Op, workload: Sequence[int], module: Module | None = None, facts: Mapping[str, object] | None = None
) -> LaunchGeometry:
    """Evaluate the configuration region of a ``kernel.def`` for one workload.

    ``module`` resolves called functions and configuration values, ``facts`` are target facts
    (``subgroup_size``, and the limits of :data:`LIMIT_FACTS`). Raises ``LoomError`` for an undefined result, an
    operation that no configuration may hold, or a geometry outside the limits: those of the target, and counts
    0 ... 2^32-1, sizes 1 ... 2^32-1.
    """
    if kernel.name == "pipeline.def":
        raise fault(
            FaultCode.UNSUPPORTED,
            kernel,
            "a pipeline has no launch configuration; the device 'reference' runs it",
            hint="run it with '--device=reference'",
        )
    region: Region = kernel.config  # type: ignore[attr-defined]  # kernel.def by contract
    parameters = region.entry.args
    if len(parameters) != len(workload):
        raise fault(
            FaultCode.BAD_ARGUMENT,
            kernel,
            f"the kernel takes {len(parameters)} workload values, not {len(workload)}",
            actual_count=len(workload),
            expected_count=len(parameters),
        )
    run = Interpreter(module, facts or {})
    env: dict[Value, Any] = {}
    for parameter, given in zip(parameters, workload, strict=True):
        env[parameter] = _parameter(kernel, parameter, given)
    end = run.block(region.entry, env)
    counts, sizes = _triple(env, end.operands[:3]), _triple(env, end.operands[3:6])
    for words, values, low in (("workgroup counts", counts, 0), ("workgroup sizes", sizes, 1)):
        for axis, value in zip("xyz", values, strict=True):
            if not low <= value <= U32_MAX:
                raise fault(
                    FaultCode.BAD_GEOMETRY,
                    end,
                    f"{words} are {low} to {U32_MAX}, but {axis} is {value}",
                    axis=axis,
                    value=value,
                )
    config: Any = end
    cluster = _triple(env, config.cluster) if config.cluster else (1, 1, 1)
    for axis, count, extent in zip("xyz", counts, cluster, strict=True):
        if not 1 <= extent <= U32_MAX or count % extent:
            raise fault(
                FaultCode.BAD_GEOMETRY,
                end,
                f"{count} workgroups along {axis} do not divide into clusters of {extent}",
                axis=axis,
                value=extent,
            )
    storage = env[config.dynamic_storage] if config.dynamic_storage is not None else 0
    geometry = LaunchGeometry(counts, sizes, cluster, storage)
    _check_limits(end, geometry, facts or {})
    return geometry


def _check_limits(end: Op, geometry: LaunchGeometry, facts: Mapping[str, object]) -> None:
    """Raise a diagnostic for a launch that the target does not take; an empty one is taken by every target."""
    items = [count * size for count, size in zip(geometry.workgroups, geometry.workgroup_size, strict=True)]
    if math.prod(items) == 0:
        return
    asked = (
        *geometry.workgroup_size,
        math.prod(geometry.workgroup_size),
        *geometry.workgroups,
        *items,
        math.prod(items),
    )
    for name, value in zip(LIMIT_FACTS, asked, strict=True):
        limit = facts.get(name)
        if isinstance(limit, int) and value > limit:
            words = name.removeprefix("max_").replace("_", " ")
            raise fault(
                FaultCode.BAD_GEOMETRY,
                end,
                f"the launch has the {words} {value}, but the target takes {limit} at most",
                axis=name[-1] if name[-2:-1] == "_" else "flat",
                value=value,
            )


def evaluate_integers(op: Op, operands: Sequence[int]) -> list[int] | None:
    """Results of one operation without regions on integers (``i1``: 0 or 1).

    ``None`` when the operation computes something else than integers, needs a program around it, or has no defined
    result.
    """
    if op.regions or not all(is_integer(v.type) for v in (*op.operands, *op.results)):
        return None
    env: dict[Value, Any] = dict(zip(op.operands, operands, strict=True))
    try:
        Interpreter(None, {}).op(op, env)
    except LoomError:
        return None
    return [env[result] for result in op.results]


def _parameter(kernel: Op, parameter: Value, given: Any) -> Any:
    type_ = parameter.type
    if not isinstance(type_, ScalarType) or type_.kind == "float":
        return given
    value = int(given)
    if not lowest(type_) <= value <= highest(type_):
        raise fault(
            FaultCode.BAD_ARGUMENT,
            kernel,
            f"workload value %{parameter.name} = {value} does not fit {type_}",
            value_name=str(parameter.name),
            value=value,
        )
    return value


def _triple(env: Mapping[Value, Any], values: Sequence[Value]) -> Triple:
    x, y, z = (env[value] for value in values)
    return x, y, z
