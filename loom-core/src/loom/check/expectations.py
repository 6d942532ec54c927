"""The expectation ops of a case: which comparison each one makes, of which values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from loom.check.compare import expect_bitwise, expect_close, expect_equal, expect_shape
from loom.check.events import Event, unmet
from loom.check.host_tensor import HostTensor
from loom.check.values import Environment, value_id
from loom.check.verdict import ExpectationKind, NanPolicy, Verdict
from loom.plugins.manager import Registries
from loom.text.directives import index_entries


@frozen(eq=False)
class Outcome:
    """What expectations look at: values on both sides (the same outside of comparisons), and events."""

    actual: Environment
    expected: Environment
    events: Sequence[Event]
    registries: Registries

    def pair(self, op: Any) -> tuple[HostTensor, HostTensor]:
        """The two values that an op compares."""
        return self.actual[op.actual], self.expected[op.expected]


def _equal(op: Any, outcome: Outcome) -> Verdict:
    return expect_equal(*outcome.pair(op))


def _bitwise(op: Any, outcome: Outcome) -> Verdict:
    return expect_bitwise(*outcome.pair(op))


def _close(op: Any, outcome: Outcome) -> Verdict:
    return expect_close(*outcome.pair(op), float(op.atol), float(op.rtol), NanPolicy(op.nan))


def _shape(op: Any, outcome: Outcome) -> Verdict:
    values = outcome.actual
    extents = [values.extent(entry) for entry in index_entries(op.shape, op.static_shape)]
    return expect_shape(values[op.value], extents)


def _custom(op: Any, outcome: Outcome) -> Verdict:
    failure = outcome.registries.validators[op.provider].compare(*outcome.pair(op), op.facts or {})
    return Verdict(ExpectationKind.CUSTOM, failure is None, failure or "")


def _event(op: Any, outcome: Outcome) -> Verdict:
    failure = unmet(op.pattern, outcome.events)
    return Verdict(ExpectationKind.CUSTOM, failure is None, failure or "")


EXPECTATIONS: Final[Mapping[str, Callable[[Any, Outcome], Verdict]]] = {
    "check.expect.equal": _equal,
    "check.expect.bitwise": _bitwise,
    "check.expect.close": _close,
    "check.expect.shape": _shape,
    "check.expect": _custom,
    "check.expect.event": _event,
}


def compared_values(op: Any) -> tuple[str, str | None]:
    """What a report calls the actual value and the expected one. A shape has only the first, an event its provider."""
    if op.name == "check.expect.event":
        return str(op.provider), None
    if op.name == "check.expect.shape":
        return value_id(op.value), None
    return value_id(op.actual), value_id(op.expected)
