"""The record of one operation in the registry, and how it is applied."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import attrs
import numpy as np

from loom.evaluate.numeric.formats import I1, Array, Kind, ScalarFormat
from loom.evaluate.numeric.outcome import Call, Outcome

#: `function(call, *operands, **parameters)` returns the stored values of the result.
Function = Callable[..., Array]


class ResultRule(enum.Enum):
    """Where the format of the result comes from."""

    OPERAND = "the format of the last operand"
    BOOLEAN = "i1"
    DECLARED = "given by the caller"


@attrs.frozen(eq=False)
class NumericOp:
    """One operation: its name, what each operand may be, its result and its keyword parameters.

    `operands` holds one set of kinds per operand. `required` and `optional` name the keyword parameters that
    `apply` hands to the function; operations that take fast-math flags accept and ignore them, because strict
    IEEE evaluation is one of the results that every flag permits.
    """

    name: str
    operands: tuple[Kind, ...]
    function: Function
    result: ResultRule = ResultRule.OPERAND
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    @property
    def arity(self) -> int:
        """The number of operands."""
        return len(self.operands)

    def apply(
        self,
        operands: Sequence[Any],
        formats: Sequence[ScalarFormat] | ScalarFormat,
        result: ScalarFormat | None = None,
        **parameters: Any,
    ) -> Outcome:
        """Evaluate the operation on every lane.

        `operands` are stored arrays (see `formats`) of shapes that broadcast together; `formats` is their
        common format or one for each; `result` is needed for conversions only. Never changes an operand,
        emits no NumPy warning. Raises TypeError for a call that the verifier of the language would have
        refused.
        """
        each = (formats,) * self.arity if isinstance(formats, ScalarFormat) else tuple(formats)
        result = _signature(self, len(operands), each, result, tuple(parameters))
        arrays = [np.asarray(operand) for operand in operands]
        for array, format in zip(arrays, each, strict=True):
            if array.dtype is not format.dtype and array.dtype != format.dtype:
                raise TypeError(f"{self.name}: {format.name} is stored as {format.dtype}, not {array.dtype}")
        call = Call(each, result)
        with np.errstate(all="ignore"):
            value = np.asarray(self.function(call, *arrays, **parameters))
        return Outcome(value, tuple(call.faults))


@cache
def _signature(
    operation: NumericOp,
    count: int,
    formats: tuple[ScalarFormat, ...],
    result: ScalarFormat | None,
    parameters: tuple[str, ...],
) -> ScalarFormat:
    """Check one way of calling an operation, once, and find the format of its result."""
    name = operation.name
    if not count == len(formats) == operation.arity:
        raise TypeError(f"{name} takes {operation.arity} operands, not {count}")
    for position, (format, allowed) in enumerate(zip(formats, operation.operands, strict=True)):
        if not format.kind & allowed:
            raise TypeError(f"{name} does not take {format.name} as operand {position}")
    unknown = set(parameters) - {*operation.required, *operation.optional}
    missing = set(operation.required) - set(parameters)
    if unknown or missing:
        raise TypeError(f"{name}: missing parameters {sorted(missing)}, unknown {sorted(unknown)}")
    if operation.result is ResultRule.BOOLEAN:
        return I1
    if operation.result is ResultRule.OPERAND:
        return formats[-1]
    if result is None:
        raise TypeError(f"{name} needs the format of its result")
    return result


def table(*operations: Iterable[NumericOp] | NumericOp) -> dict[str, NumericOp]:
    """A registry by name; ValueError if two operations share one."""
    registry: dict[str, NumericOp] = {}
    for entry in operations:
        for operation in (entry,) if isinstance(entry, NumericOp) else entry:
            if operation.name in registry:
                raise ValueError(f"operation {operation.name} is defined twice")
            registry[operation.name] = operation
    return registry
