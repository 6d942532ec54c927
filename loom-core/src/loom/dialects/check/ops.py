"""Declarations of the ``check`` dialect (language reference, part 3, section 1)."""

from __future__ import annotations

from typing import Final

from loom.dialects import words as w
from loom.dialects.check import verify as v
from loom.ir.core import Op, Region, Value
from loom.ir.types import BUFFER, I64, OpaqueType
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

RANGE_POLICY: Final = k.enum("range policy", {"linear": 1, "po2": 2})
NAN_POLICY: Final = k.enum("NaN policy", {"same": 1, "different": 2})
WRITE_MODE: Final = k.enum("file write mode", {"always": 1, "on_failure": 2})

DATA: Final = c.Constraint("scalar or tensor", None, lambda t: t in c.SCALAR.members or c.TENSOR.accepts(t))  # type: ignore[operator]
STORED: Final = c.Constraint("scalar, tensor or buffer", None, lambda t: t is BUFFER or DATA.accepts(t))
ENTROPY: Final = OpaqueType("check.entropy")
"""The type of a source of values in a scenario; see :mod:`loom.check.entropy`."""
_ENTROPY: Final = c.Constraint("check.entropy", frozenset({ENTROPY}))
_RANDOM_BITS: Final = c.Constraint("i64", frozenset({I64}))
IN_CASE: Final = ("in_case",)


@s.op("check.case", "⟦ $visibility⟧ $symbol $body", traits=("symbol", "isolated", "check"), symbol="symbol")
class Case(Op):
    """An executable program that makes inputs, launches code and states the comparison policy."""

    visibility: str | None = s.optional_attribute(w.VISIBILITY)
    symbol: str = s.attribute(k.SYMBOL_NAME)
    body: Region = s.region("check.return")


@s.op("check.return", "", traits=("terminator",))
class Return(Op):
    """Ends a case, a scenario, a trial or the expectations of a comparison."""


@s.op(
    "check.benchmark", "<$case>⟦ $symbol⟧⟦ $parameters⟧", traits=("module_record", "symbol", "check"), symbol="symbol"
)
class Benchmark(Op):
    """Selects assignments of a case, or a scenario, for timing."""

    case: str = s.attribute(k.SYMBOL)
    symbol: str | None = s.optional_attribute(k.SYMBOL_NAME)
    parameters: dict[str, object] | None = s.optional_attribute(k.DICT)


@s.op("check.requires", "<$provider>⟦ $facts⟧", traits=IN_CASE, verify=v.in_case)
class Requires(Op):
    """Skips the case unless the provider's facts hold."""

    provider: str = s.attribute(k.KEY)
    facts: dict[str, object] | None = s.optional_attribute(k.DICT)


@s.op("check.skip_if", "<$provider>⟦ $facts⟧⟦ reason($reason)⟧", traits=IN_CASE, verify=v.in_case)
class SkipIf(Op):
    """Skips the case when the provider's predicate holds."""

    provider: str = s.attribute(k.KEY)
    facts: dict[str, object] | None = s.optional_attribute(k.DICT)
    reason: str | None = s.optional_attribute(k.STRING)


@s.op(
    "check.param.range",
    " $policy bounds($lower to $upper)⟦ step($step)⟧⟦ name($key)⟧ : type($result)",
    traits=IN_CASE,
    verify=v.in_case,
)
class ParamRange(Op):
    """A parameter over a range."""

    policy: str = s.attribute(RANGE_POLICY)
    lower: object = s.attribute(k.LITERAL)
    upper: object = s.attribute(k.LITERAL)
    step: object = s.optional_attribute(k.LITERAL)
    key: str | None = s.optional_attribute(k.STRING)
    result: Value = s.result(c.SCALAR)


@s.op("check.param.choice", " values($values)⟦ name($key)⟧ : type($result)", traits=IN_CASE, verify=v.in_case)
class ParamChoice(Op):
    """A parameter over listed values."""

    values: tuple[object, ...] = s.attribute(k.LITERAL_ARRAY)
    key: str | None = s.optional_attribute(k.STRING)
    result: Value = s.result(c.INTEGER_OR_ADDRESS)


@s.op("check.param.seed", " base($base) count($count)⟦ name($key)⟧ : type($result)", traits=IN_CASE, verify=v.in_case)
class ParamSeed(Op):
    """A parameter over consecutive seeds."""

    base: int = s.attribute(k.INT)
    count: int = s.attribute(k.INT)
    key: str | None = s.optional_attribute(k.STRING)
    result: Value = s.result(c.INTEGER)


@s.op("check.literal", " value($value) : type($result)", traits=("pure", "constant", "in_case"), verify=v.literal)
class Literal(Op):
    """A scalar."""

    value: object = s.attribute(k.LITERAL)
    result: Value = s.result(c.SCALAR)


@s.op(
    "check.generate.iota",
    " offset($offset) step($step)⟦ period($period)⟧ : type($result)",
    traits=("pure", "in_case"),
    verify=v.generator,
)
class Iota(Op):
    """offset + i * step over the row-major element index."""

    offset: object = s.attribute(k.LITERAL)
    step: object = s.attribute(k.LITERAL)
    period: int | None = s.optional_attribute(k.INT)
    result: Value = s.result(DATA)


@s.op("check.generate.fill", " value($value) : type($result)", traits=("pure", "in_case"), verify=v.generator)
class Fill(Op):
    """The same value everywhere."""

    value: object = s.attribute(k.LITERAL)
    result: Value = s.result(DATA)


@s.op(
    "check.generate.random.uniform",
    " seed($seed) range($lower to $upper) : type($result)",
    traits=("pure", "in_case"),
    verify=v.generator,
)
class RandomUniform(Op):
    """Uniform numbers of the documented stream."""

    seed: Value = s.operand(c.INTEGER)
    lower: object = s.attribute(k.LITERAL)
    upper: object = s.attribute(k.LITERAL)
    result: Value = s.result(DATA)


@s.op("check.file.read.npy", " path($path) : type($result)", traits=IN_CASE, verify=v.in_case)
class ReadNpy(Op):
    """A tensor from a file beside the module."""

    path: str = s.attribute(k.STRING)
    result: Value = s.result(c.TENSOR)


@s.op(
    "check.file.write.npy", " value($value) path($path)⟦ mode($mode)⟧ : type($value)", traits=IN_CASE, verify=v.in_case
)
class WriteNpy(Op):
    """Writes a tensor below the output directory."""

    value: Value = s.operand(c.TENSOR)
    path: str = s.attribute(k.STRING)
    mode: str | None = s.optional_attribute(WRITE_MODE)


@s.op(
    "check.tensor.view",
    " $source offset($offset) : type($source) -> type($result)",
    traits=("pure", "in_case"),
    verify=v.in_case,
)
class TensorView(Op):
    """A dense alias of the same storage at a byte offset."""

    source: Value = s.operand(c.TENSOR)
    offset: int = s.attribute(k.INT)
    result: Value = s.result(c.TENSOR)


@s.op(
    "check.oracle.call",
    "<$provider>⟦ $facts⟧ callee($callee) inputs($inputs) : (type($inputs)) -> (type($results))",
    traits=IN_CASE,
    verify=v.in_case,
)
class OracleCall(Op):
    """Expected values from an oracle."""

    provider: str = s.attribute(k.KEY)
    facts: dict[str, object] | None = s.optional_attribute(k.DICT)
    callee: str = s.attribute(k.SYMBOL)
    inputs: list[Value] = s.operands(DATA)
    results: list[Value] = s.results(DATA)


class Expectation(Op):
    """Compares an actual with an expected value."""

    __slots__ = ()
    actual: Value
    expected: Value


class _Pair(Expectation):
    __slots__ = ()
    actual: Value = s.operand(DATA)
    expected: Value = s.operand(DATA)


class _StoredPair(Expectation):
    __slots__ = ()
    actual: Value = s.operand(STORED)
    expected: Value = s.operand(STORED)


for _base, _name, _summary in (
    (_StoredPair, "equal", "Element-wise ==; of buffers, their bytes."),
    (_Pair, "bitwise", "Byte for byte."),
):
    s.define(
        _base,
        f"check.expect.{_name}",
        " actual($actual) expected($expected) : type($actual)",
        traits=IN_CASE,
        same_type=(("actual", "expected"),),
        verify=v.in_case,
        summary=_summary,
        class_name=f"check.expect.{_name}",
    )


@s.op(
    "check.expect.close",
    " actual($actual) expected($expected) atol($atol) rtol($rtol) nan($nan) : type($actual)",
    traits=IN_CASE,
    same_type=(("actual", "expected"),),
    verify=v.in_case,
)
class ExpectClose(_Pair):
    """abs(a - e) <= atol + rtol * abs(e), with a NaN policy."""

    atol: float = s.attribute(k.LITERAL)
    rtol: float = s.attribute(k.LITERAL)
    nan: str = s.attribute(NAN_POLICY)


@s.op("check.expect.shape", " value($value) shape($<indices shape>) : type($value)", traits=IN_CASE, verify=v.in_case)
class ExpectShape(Op):
    """The extents of a value."""

    value: Value = s.operand(DATA)
    shape: list[Value] = s.operands(c.INDEX)
    static_shape: tuple[int, ...] = s.attribute(k.STATIC_INDICES)


@s.op(
    "check.expect",
    "<$provider> actual($actual) expected($expected)⟦ $facts⟧ : type($actual)",
    traits=IN_CASE,
    same_type=(("actual", "expected"),),
    verify=v.in_case,
)
class ExpectCustom(_Pair):
    """A comparison by a provider."""

    provider: str = s.attribute(k.KEY)
    facts: dict[str, object] | None = s.optional_attribute(k.DICT)


@s.op("check.expect.event", "<$provider> $pattern", traits=IN_CASE, verify=v.in_case)
class ExpectEvent(Op):
    """A device event that must have happened."""

    provider: str = s.attribute(k.KEY)
    pattern: dict[str, object] = s.attribute(k.DICT)


@s.op(
    "check.scenario",
    "⟦ $visibility⟧ $symbol $<scenario_body body configurations>",
    traits=("symbol", "isolated", "check"),
    symbol="symbol",
    verify=v.scenario,
)
class Scenario(Op):
    """Trials on values that are derived from the scenario's name, repeated for every configuration."""

    visibility: str | None = s.optional_attribute(w.VISIBILITY)
    symbol: str = s.attribute(k.SYMBOL_NAME)
    configurations: int | None = s.optional_attribute(k.INT)
    body: Region = s.region("check.return")


@s.op("check.trial", "[$count]$<trial_body body>", verify=v.trial)
class Trial(Op):
    """Runs its body as often as stated, with the number of the trial and entropy of its own."""

    count: int = s.attribute(k.INT)
    body: Region = s.region("check.return", implicit=True)


@s.op("check.entropy.fork", " $source name($key) : type($source)", traits=("pure",), verify=v.in_scenario)
class EntropyFork(Op):
    """An independent source of values for a name."""

    source: Value = s.operand(_ENTROPY)
    key: str = s.attribute(k.STRING)
    result: Value = s.result(_ENTROPY, fixed=ENTROPY)


@s.op(
    "check.entropy.read",
    " $entropy$<indices index> : type($entropy) -> type($result)",
    traits=("pure",),
    verify=v.entropy_read,
)
class EntropyRead(Op):
    """The 64 bits of a source at a position."""

    entropy: Value = s.operand(_ENTROPY)
    index: list[Value] = s.operands(c.INDEX)
    static_index: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    result: Value = s.result(_RANDOM_BITS)


@s.op(
    "check.compare",
    "<$subject⟦, $oracle⟧>($args) : (type($args)) -> $<compared_body body>",
    verify=v.compare,
)
class Compare(Op):
    """Runs a function and what it should agree with on separate copies of the arguments, and compares.

    Without an oracle the function's own reference execution is what it should agree with. The body names results of
    the function as actual values and those of the other as expected ones; arguments stand for the copy of each side.
    """

    subject: str = s.attribute(k.SYMBOL)
    oracle: str | None = s.optional_attribute(k.SYMBOL)
    args: list[Value] = s.operands(STORED)
    body: Region = s.region("check.return", implicit=True)


@s.op(
    "check.invoke",
    "<$callee>($args) : (type($args)) -> (type($results))",
    traits=IN_CASE,
    verify=v.in_case,
)
class Invoke(Op):
    """Calls a function on the device; a tensor's storage serves where the function takes a buffer."""

    callee: str = s.attribute(k.SYMBOL)
    args: list[Value] = s.operands(STORED)
    results: list[Value] = s.results(STORED)
