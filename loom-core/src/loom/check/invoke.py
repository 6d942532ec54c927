"""What a case runs: kernels and functions on a device, oracles on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from loom.check.errors import CheckError
from loom.check.host_tensor import HostTensor
from loom.check.values import Environment, format_of, value_id
from loom.ir.core import Module, Op, Value
from loom.plugins.manager import Registries
from loom.plugins.records import OpenDevice, TargetProfile
from loom.specialize.targets import check_authored_target


@define(eq=False)
class Execution:
    """A device in use for the cases of one module.

    Functions that a case calls are host code. A device that runs no functions (its `runs_functions` is false)
    leaves them to the reference evaluator, which is opened when first needed.
    """

    module: Module
    device: OpenDevice
    device_name: str
    registries: Registries
    target: TargetProfile | None = None
    symbols: dict[str, Op] = field(init=False)
    _host: OpenDevice | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.symbols = self.module.symbols()

    def function_device(self) -> tuple[OpenDevice, str]:
        """The device that runs functions, and its name."""
        if getattr(self.device, "runs_functions", True):
            return self.device, self.device_name
        return self.reference(), "reference"

    def reference(self) -> OpenDevice:
        """The reference evaluator."""
        if self._host is None:
            self._host = self.registries.devices["reference"].open(None)
        return self._host

    def callee(self, name: str) -> Op:
        """What a case launches or calls. Raises `LoomError` when it is authored for another target."""
        found = self.symbols[name]
        if self.target is not None:
            check_authored_target(found, self.symbols, self.target)
        return found

    def close(self) -> None:
        """Close what the execution opened itself."""
        if self._host is not None:
            self._host.close()
            self._host = None


def _launch(op: Any, values: Environment, execution: Execution) -> None:
    kernel = execution.callee(op.callee)
    workload = [int(values.scalar(value)) for value in op.workload]
    execution.device.launch(execution.module, kernel, workload, [values.argument(value) for value in op.args])


def _call(op: Any, values: Environment, execution: Execution) -> None:
    device, _ = execution.function_device()
    returned = _returned(device, op.callee, op.args, len(op.results), values, execution)
    for result, value in zip(op.results, returned, strict=True):
        values.accept(result, value)


def _compare(op: Any, values: Environment, execution: Execution) -> None:
    """Run subject and oracle on copies of the arguments, and keep what the expectations in the body see of each.

    What a subject is compared with always runs on the reference evaluator: a device must not be its own judge.
    """
    named = op.body.entry.args
    half = len(named) // 2
    actual, expected = values.child(), values.child()
    device, _ = execution.function_device()
    for side, other, where, callee, outcomes in (
        (actual, expected, device, op.subject, named[:half]),
        (expected, actual, execution.reference(), op.oracle or op.subject, named[half:]),
    ):
        side.copy_storage(op.args)
        returned = _returned(where, callee, op.args, len(outcomes) or None, side, execution)
        for value, result in zip(outcomes, returned, strict=False):
            side.accept(value, result)
            # The names of results mean the same wherever they stand; only arguments have two meanings.
            other[value] = side[value]
    values.sides[op] = actual, expected


def _returned(
    device: OpenDevice, callee: str, args: Sequence[Value], count: int | None, values: Environment, execution: Execution
) -> list[Any]:
    """What a function returns; raises `CheckError` unless these are `count` values."""
    returned = device.call(execution.module, execution.callee(callee), [values.argument(value) for value in args])
    if count is not None and len(returned) != count:
        raise CheckError(f"{len(returned)} values came back for the {count} results of '@{callee}'")
    return returned


def _oracle(op: Any, values: Environment, execution: Execution) -> None:
    oracle = execution.registries.oracles[op.provider]
    inputs = [values[value] for value in op.inputs]
    returned = oracle.compute(op.facts or {}, inputs, [result.type for result in op.results])
    if len(returned) != len(op.results):
        raise CheckError(f"{len(returned)} values came back for the {len(op.results)} results of '{op.name}'")
    for result, tensor in zip(op.results, returned, strict=True):
        wanted, shape = format_of(result.type), values.shape(result.type)
        if not isinstance(tensor, HostTensor) or tensor.element is not wanted or tensor.shape != shape:
            raise CheckError(f"the oracle's value for %{value_id(result)} is not {wanted.name} {list(shape)}")
        values[result] = tensor


Invocation = Callable[[Any, Environment, Execution], None]

INVOCATIONS: Final[Mapping[str, tuple[str, Invocation]]] = {
    "kernel.launch": ("launch", _launch),
    "func.call": ("call", _call),
    "check.invoke": ("call", _call),
    "check.compare": ("compare", _compare),
    "check.oracle.call": ("oracle", _oracle),
}
"""Op -> the stage that a report names, and what carries it out."""


# Invocation -> the attribute that names what runs on the device, for those where something does.
CALLEES: Final[Mapping[str, str]] = {
    "kernel.launch": "callee", "func.call": "callee", "check.invoke": "callee", "check.compare": "subject",
}  # fmt: skip


def invocation_provider(op: Any, execution: Execution) -> str:
    """Who carries an invocation out."""
    if op.name == "check.oracle.call":
        return str(op.provider)
    return execution.device_name if op.name == "kernel.launch" else execution.function_device()[1]
