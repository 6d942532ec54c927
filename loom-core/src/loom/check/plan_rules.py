"""What may stand in a case and what can be said about it before anything runs: one rule per op.

A rule raises `PlanningError`. It judges what no sample can change (literals, types, callees, paths); what
depends on a sample's values is found when that sample runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, Final, NoReturn

from attrs import frozen

from loom.check import generate
from loom.check.elements import is_float
from loom.check.errors import CheckError, PlanningError, PlanningIssueKind
from loom.check.events import PROVIDER, check_pattern
from loom.check.expand import Parameter, RangePolicy, choice_parameter, range_parameter, seed_parameter
from loom.check.host_tensor import resolve_shape
from loom.check.npy import check_output_path, input_path
from loom.check.options import CheckOptions
from loom.check.report import PlanningIssue
from loom.check.sources import source_directory
from loom.check.values import format_of, value_id
from loom.evaluate.numeric.formats import ScalarFormat
from loom.ir.core import Op
from loom.ir.diagnostics import SourceLocation, did_you_mean
from loom.ir.types import ShapedType, Type, element_type
from loom.plugins.manager import Registries


class Phase(Enum):
    """When an op of a case has its turn; phases run one after the other, each in source order."""

    REQUIREMENT = auto()
    PARAMETER = auto()
    STEP = auto()
    EXPECTATION = auto()
    WRITE = auto()
    END = auto()


@frozen
class PlanContext:
    """What rules may look at besides the op."""

    symbols: Mapping[str, Op]
    registries: Registries
    options: CheckOptions


Rule = Callable[[Any, PlanContext], None]


def parameter_of(op: Any) -> Parameter:
    """The parameter that a `check.param` op declares; raises `PlanningError`."""
    key = op.key if op.key is not None else value_id(op.result)
    try:
        element = format_of(op.result.type)
    except CheckError as error:
        raise PlanningError(PlanningIssueKind.INVALID_PARAMETER, str(error), subject=key) from None
    if op.name == "check.param.range":
        return range_parameter(key, element, RangePolicy(op.policy), op.lower, op.upper, op.step)
    if op.name == "check.param.choice":
        return choice_parameter(key, element, op.values)
    return seed_parameter(key, element, op.base, op.count)


def check_op(op: Op, context: PlanContext) -> Phase:
    """The phase of an op of a body, which must be fit to run; raises `PlanningError`."""
    found = RULES.get(op.name)
    if found is None:
        raise PlanningError(PlanningIssueKind.UNSUPPORTED_BODY_OP, f"'{op.name}' is not supported in a case")
    phase, rule = found
    rule(op, context)
    return phase


def check_written_once(op: Any, written: set[str]) -> None:
    """Note the path that an op writes; raises `PlanningError` when another op of the body writes it too."""
    if op.path in written:
        kind = PlanningIssueKind.INVALID_FILE_WRITE
        raise PlanningError(kind, f"the case writes {op.path!r} twice", fix_hint="give each file its own path")
    written.add(op.path)


def issue_of(error: PlanningError, case: str, op: Op) -> PlanningIssue:
    """The issue for an error at an op."""
    return PlanningIssue.from_error(error, case, op.name, SourceLocation.of(op.loc))


def _anything(op: Any, context: PlanContext) -> None:
    """For ops whose faults are all found elsewhere."""


def _source(check: Callable[[Any], object]) -> Rule:
    """A rule of a value source: the result can be held, and `check` raises no `CheckError`."""

    def rule(op: Any, context: PlanContext) -> None:
        try:
            _check_extents(op.result.type)
            check(op)
        except CheckError as error:
            raise PlanningError(PlanningIssueKind.INVALID_VALUE_SOURCE, str(error)) from None

    return rule


def _check_extents(type_: Type) -> None:
    """The extents that a type states fit; one that a value gives counts as the smallest it can be."""
    dims = type_.dims if isinstance(type_, ShapedType) else ()
    resolve_shape(format_of(type_), [entry if isinstance(entry, int) else 0 for entry in dims])


# A generator for one element checks everything but the number of elements.
def _literal(op: Any) -> None:
    generate.literal(format_of(op.result.type), op.value)


def _fill(op: Any) -> None:
    generate.fill(format_of(op.result.type), (), op.value)


def _iota(op: Any) -> None:
    generate.iota(format_of(op.result.type), (), op.offset, op.step, op.period)


def _random_uniform(op: Any) -> None:
    generate.random_uniform(format_of(op.result.type), (), 0, op.lower, op.upper)


def _read_npy(op: Any) -> None:
    input_path(source_directory(op), op.path)


def _tensor_view(op: Any) -> None:
    if op.offset < 0:
        raise CheckError(f"the byte offset {op.offset} of a view is negative")


def _launch(op: Any, context: PlanContext) -> None:
    _check_defined(op.callee, "kernel", context)
    for value in op.workload:
        if isinstance(value.type, ShapedType) or is_float(_format(value.type)):
            _invalid_invocation(f"workload value %{value_id(value)} is a {value.type}, not an integer")
    for value in op.args:
        _format(value.type)


def _call(op: Any, context: PlanContext) -> None:
    _check_defined(op.callee, "function", context)
    for value in (*op.args, *op.results):
        _format(value.type)


def _invoke(op: Any, context: PlanContext) -> None:
    _check_defined(op.callee, "function", context)
    for value in (*op.args, *op.results):
        _format(value.type)


def _compare(op: Any, context: PlanContext) -> None:
    for symbol in (op.subject, op.oracle):
        if symbol is not None:
            _check_defined(symbol, "function", context)
    for value in (*op.args, *op.body.entry.args):
        _format(value.type)


def _oracle(op: Any, context: PlanContext) -> None:
    _check_provider(op.provider, context.registries.oracles, "oracle", PlanningIssueKind.INVALID_INVOCATION)
    for value in (*op.inputs, *op.results):
        _format(value.type)


def _check_defined(symbol: str, what: str, context: PlanContext) -> None:
    found = context.symbols.get(symbol)
    if found is None:
        hint = did_you_mean(symbol, context.symbols)
        _invalid_invocation(f"there is no {what} '@{symbol}'", fix_hint=hint)
    if found.has_trait("declaration"):
        hint = "give the file that defines it with --library"
        _invalid_invocation(f"the {what} '@{symbol}' is only declared", fix_hint=hint)


def _format(type_: Type) -> ScalarFormat:
    try:
        return format_of(type_)
    except CheckError as error:
        _invalid_invocation(str(error))


def _invalid_invocation(message: str, *, fix_hint: str | None = None) -> NoReturn:
    raise PlanningError(PlanningIssueKind.INVALID_INVOCATION, message, fix_hint=fix_hint)


def _check_provider(key: str, known: Mapping[str, object], what: str, kind: PlanningIssueKind) -> None:
    if key not in known:
        hint = did_you_mean(key, known) or (f"known are {', '.join(sorted(known))}" if known else None)
        raise PlanningError(kind, f"no {what} is registered as '{key}'", fix_hint=hint)


def _close(op: Any, context: PlanContext) -> None:
    element = element_type(op.actual.type)
    if not is_float(_format(op.actual.type)):
        _invalid_expectation(f"check.expect.close compares floating-point elements, not {element}")
    for name, tolerance in (("atol", op.atol), ("rtol", op.rtol)):
        number = isinstance(tolerance, int | float) and not isinstance(tolerance, bool)
        if not number or not math.isfinite(tolerance) or tolerance < 0:
            _invalid_expectation(f"{name} must be a finite number not below 0, not {tolerance}")


def _shape(op: Any, context: PlanContext) -> None:
    rank = op.value.type.rank if isinstance(op.value.type, ShapedType) else 0
    if len(op.static_shape) != rank:
        _invalid_expectation(f"{len(op.static_shape)} extents are listed for a value of rank {rank}")


def _custom(op: Any, context: PlanContext) -> None:
    _check_provider(op.provider, context.registries.validators, "comparison", PlanningIssueKind.INVALID_EXPECTATION)


def _event(op: Any, context: PlanContext) -> None:
    if op.provider != PROVIDER:
        _invalid_expectation(f"no event provider is registered as '{op.provider}'; events are those of '{PROVIDER}'")
    try:
        check_pattern(op.pattern)
    except CheckError as error:
        _invalid_expectation(str(error))


def _invalid_expectation(message: str) -> NoReturn:
    raise PlanningError(PlanningIssueKind.INVALID_EXPECTATION, message)


def _write(op: Any, context: PlanContext) -> None:
    try:
        check_output_path(op.path)
    except CheckError as error:
        raise PlanningError(PlanningIssueKind.INVALID_FILE_WRITE, str(error)) from None
    if op.mode == "always" and context.options.output_directory is None:
        raise PlanningError(
            PlanningIssueKind.INVALID_FILE_WRITE,
            f"there is no output directory for {op.path!r}",
            fix_hint="give one with --file-output-dir",
        )


RULES: Final[Mapping[str, tuple[Phase, Rule]]] = {
    "check.requires": (Phase.REQUIREMENT, _anything),
    "check.skip_if": (Phase.REQUIREMENT, _anything),
    "check.param.range": (Phase.PARAMETER, _anything),
    "check.param.choice": (Phase.PARAMETER, _anything),
    "check.param.seed": (Phase.PARAMETER, _anything),
    "check.literal": (Phase.STEP, _source(_literal)),
    "check.generate.iota": (Phase.STEP, _source(_iota)),
    "check.generate.fill": (Phase.STEP, _source(_fill)),
    "check.generate.random.uniform": (Phase.STEP, _source(_random_uniform)),
    "check.file.read.npy": (Phase.STEP, _source(_read_npy)),
    "check.tensor.view": (Phase.STEP, _source(_tensor_view)),
    "kernel.launch": (Phase.STEP, _launch),
    "func.call": (Phase.STEP, _call),
    "check.oracle.call": (Phase.STEP, _oracle),
    "check.entropy.fork": (Phase.STEP, _anything),
    "check.entropy.read": (Phase.STEP, _anything),
    "check.invoke": (Phase.STEP, _invoke),
    "check.compare": (Phase.STEP, _compare),
    "check.expect.equal": (Phase.EXPECTATION, _anything),
    "check.expect.bitwise": (Phase.EXPECTATION, _anything),
    "check.expect.close": (Phase.EXPECTATION, _close),
    "check.expect.shape": (Phase.EXPECTATION, _shape),
    "check.expect": (Phase.EXPECTATION, _custom),
    "check.expect.event": (Phase.EXPECTATION, _event),
    "check.file.write.npy": (Phase.WRITE, _write),
    "check.return": (Phase.END, _anything),
}
"""Ops of the bodies of cases and trials. Value sources and invocations share a phase: sources are pure, so running
both in source order gives what running all sources first would, and a source may use what a call returned."""
