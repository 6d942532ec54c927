"""The expectation ops of a case: which comparison each one makes, of which values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from loom.check.compare import expect_bitwise, expect_close, expect_equal, expect_shape
from loom.check.values import Environment
from loom.check.verdict import ExpectationKind, NanPolicy, Verdict
from loom.ir.core import Value
from loom.plugins.manager import Registries
from loom.text.directives import index_entries


def _equal(op: Any, values: Environment, registries: Registries) -> Verdict:
    return expect_equal(values[op.actual], values[op.expected])


def _bitwise(op: Any, values: Environment, registries: Registries) -> Verdict:
    return expect_bitwise(values[op.actual], values[op.expected])


def _close(op: Any, values: Environment, registries: Registries) -> Verdict:
    policy = NanPolicy(op.nan)
    return expect_close(values[op.actual], values[op.expected], float(op.atol), float(op.rtol), policy)


def _shape(op: Any, values: Environment, registries: Registries) -> Verdict:
    extents = [values.extent(entry) for entry in index_entries(op.shape, op.static_shape)]
    return expect_shape(values[op.value], extents)


def _custom(op: Any, values: Environment, registries: Registries) -> Verdict:
    validator = registries.validators[op.provider]
    failure = validator.compare(values[op.actual], values[op.expected], op.facts or {})
    return Verdict(ExpectationKind.CUSTOM, failure is None, failure or "")


EXPECTATIONS: Final[Mapping[str, Callable[[Any, Environment, Registries], Verdict]]] = {
    "check.expect.equal": _equal,
    "check.expect.bitwise": _bitwise,
    "check.expect.close": _close,
    "check.expect.shape": _shape,
    "check.expect": _custom,
}


def compared_values(op: Any) -> tuple[Value, Value | None]:
    """The actual value and the expected one, which a shape does not have."""
    return (op.value, None) if op.name == "check.expect.shape" else (op.actual, op.expected)
