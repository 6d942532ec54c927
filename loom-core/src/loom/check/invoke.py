"""What a case runs: kernels and functions on a device, oracles on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from loom.check.errors import CheckError
from loom.check.function_kernels import FunctionKernel, add_function_kernels
from loom.check.host_tensor import HostTensor
from loom.check.values import Environment, format_of, value_id
from loom.ir.core import Module, Op
from loom.ir.types import BUFFER
from loom.plugins.manager import Registries
from loom.plugins.records import OpenDevice, TargetProfile
from loom.specialize.targets import check_authored_target


@define(eq=False)
class Execution:
    """A device in use for the cases of one module.

    Functions that a case calls with `func.call` are host code. A device that runs no functions (its `runs_functions`
    is false) leaves them to the reference evaluator, which is opened when first needed. Those of `check.invoke` and
    `check.compare` are what is tested: such a device runs them in kernels made for the purpose, if they can have one.
    """

    module: Module
    device: OpenDevice
    device_name: str
    registries: Registries
    target: TargetProfile | None = None
    symbols: dict[str, Op] = field(init=False)
    _host: OpenDevice | None = field(init=False, default=None)
    _kernels: dict[str, FunctionKernel] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self.symbols = self.module.symbols()
        tested = _tested_functions(self.module)
        if self._runs_functions():
            returns = getattr(self.device, "returns_buffers", True)
            tested = [] if returns else [name for name in tested if _returns_buffer(self.symbols.get(name))]
        if tested:
            self.module, self._kernels = add_function_kernels(self.module, tested)
            self.symbols = self.module.symbols()

    def _runs_functions(self) -> bool:
        return bool(getattr(self.device, "runs_functions", True))

    def function_device(self) -> tuple[OpenDevice, str]:
        """The device that runs functions, and its name."""
        if self._runs_functions():
            return self.device, self.device_name
        return self.reference(), "reference"

    def tester(self, name: str) -> str:
        """Who runs a function that is tested."""
        return self.device_name if self._runs_functions() or name in self._kernels else "reference"

    def test_function(self, name: str, arguments: Sequence[Any]) -> list[Any]:
        """Run a function on the device, in a kernel if need be, and return its results."""
        function = self.callee(name)
        kernel = self._kernels.get(name)
        if kernel is not None:
            return kernel.call(self.device, self.module, self.symbols[kernel.symbol], arguments)
        return self.function_device()[0].call(self.module, function, arguments)

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


def _returns_buffer(function: Any) -> bool:
    return function is not None and any(spec.type is BUFFER for spec in function.result_specs)


def _tested_functions(module: Module) -> list[str]:
    """The functions that cases and scenarios of a module run on the device."""
    found = []
    for record in module.ops:
        if record.name in ("check.case", "check.scenario"):
            found += [str(op.attribute(_TESTED[op.name])) for op in record.walk() if op.name in _TESTED]
    return found


# Op -> the attribute that names the function it tests.
_TESTED: Final[Mapping[str, str]] = {"check.invoke": "callee", "check.compare": "subject"}


def _call(op: Any, values: Environment, execution: Execution) -> None:
    device, _ = execution.function_device()
    function = execution.callee(op.callee)
    _accept(op, device.call(execution.module, function, _arguments(op, values)), values)


def _invoke(op: Any, values: Environment, execution: Execution) -> None:
    _accept(op, execution.test_function(op.callee, _arguments(op, values)), values)


def _arguments(op: Any, values: Environment) -> list[Any]:
    return [values.argument(value) for value in op.args]


def _accept(op: Any, returned: Sequence[Any], values: Environment) -> None:
    _check_count(len(returned), len(op.results), op.callee)
    for result, value in zip(op.results, returned, strict=True):
        values.accept(result, value)


def _compare(op: Any, values: Environment, execution: Execution) -> None:
    """Run subject and oracle on copies of the arguments, and keep what the expectations in the body see of each.

    What a subject is compared with always runs on the reference evaluator: a device must not be its own judge.
    """
    named = op.body.entry.args
    half = len(named) // 2
    actual, expected = values.child(), values.child()
    actual.copy_storage(op.args)
    expected.copy_storage(op.args)
    judge = execution.callee(op.oracle or op.subject)
    mine = execution.test_function(op.subject, _arguments(op, actual))
    theirs = execution.reference().call(execution.module, judge, _arguments(op, expected))
    for side, other, callee, returned, outcomes in (
        (actual, expected, op.subject, mine, named[:half]),
        (expected, actual, op.oracle or op.subject, theirs, named[half:]),
    ):
        if not named:
            continue
        _check_count(len(returned), half, callee)
        for value, result in zip(outcomes, returned, strict=True):
            side.accept(value, result)
            # The names of results mean the same wherever they stand; only arguments have two meanings.
            other[value] = side[value]
    values.sides[op] = actual, expected


def _check_count(actual: int, expected: int, callee: str) -> None:
    if actual != expected:
        raise CheckError(f"{actual} values came back for the {expected} results of '@{callee}'")


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
    "check.invoke": ("call", _invoke),
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
    if op.name in _TESTED:
        return execution.tester(str(op.attribute(_TESTED[op.name])))
    return execution.device_name if op.name == "kernel.launch" else execution.function_device()[1]
