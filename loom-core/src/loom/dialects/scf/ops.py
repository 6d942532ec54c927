"""Declarations of the ``scf`` dialect (language reference, part 1, section 13)."""

from __future__ import annotations

from loom.dialects.scf import verify as v
from loom.ir.core import Op, Region, Value
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

SCHEDULE = k.enum("unroll schedule", ("linear", "interleaved", "recurrence"))
UNROLL = k.enum("unroll policy", {"unroll": 1})


@s.op("scf.yield", "⟦ $values : type($values)⟧", traits=("terminator",))
class Yield(Op):
    """Hands values to the enclosing op."""

    values: list[Value] = s.operands(c.ANY)


@s.op(
    "scf.condition",
    " $condition⟦, $values⟧ : type($condition)⟦, type($values)⟧",
    traits=("terminator",),
    verify=v.condition,
)
class Condition(Op):
    """Ends the first region of a while loop: whether to go on, and the values to hand on."""

    condition: Value = s.operand(c.I1)
    values: list[Value] = s.operands(c.ANY)


@s.op(
    "scf.if",
    " $condition⟦ -> (type($results))⟧ $then_region⟦ else $else_region⟧",
    traits=("source_structure", "region_effects"),
    verify=v.conditional,
)
class If(Op):
    """Runs one of two regions; results are what that region yields."""

    condition: Value = s.operand(c.I1)
    results: list[Value] = s.results(c.ANY)
    then_region: Region = s.region("scf.yield", implicit=True)
    else_region: Region | None = s.region("scf.yield", implicit=True, optional=True)


@s.op(
    "scf.for",
    " $<for_header>⟦ -> (type($results))⟧⟦ pipeline($pipeline_depth)⟧⟦ unroll($unroll_factor)⟧⟦ $unroll_policy⟧"
    "⟦ schedule($unroll_schedule)⟧ $<for_body body>",
    traits=("source_structure", "region_effects"),
    same_type=(("lower", "upper", "step"),),
    verify=v.counted_loop,
)
class For(Op):
    """Visits lower, lower + step, ... strictly below upper and carries a tuple of values along."""

    lower: Value = s.operand(c.ADDRESS)
    upper: Value = s.operand(c.ADDRESS)
    step: Value = s.operand(c.ADDRESS)
    iter_args: list[Value] = s.operands(c.ANY)
    pipeline_depth: Value | None = s.optional_operand(c.INDEX)
    unroll_factor: Value | None = s.optional_operand(c.INDEX)
    unroll_policy: str | None = s.optional_attribute(UNROLL)
    unroll_schedule: str | None = s.optional_attribute(SCHEDULE)
    results: list[Value] = s.results(c.ANY)
    body: Region = s.region("scf.yield", implicit=True)


@s.op("scf.while", "$<while>", traits=("source_structure", "region_effects"), verify=v.while_loop)
class While(Op):
    """Runs the first region; while its flag is true the second one supplies the next header tuple."""

    iter_args: list[Value] = s.operands(c.ANY)
    results: list[Value] = s.results(c.ANY)
    before: Region = s.region("scf.condition")
    after: Region = s.region("scf.yield")


@s.op(
    "scf.switch",
    " $selector⟦ -> (type($results))⟧ $<cases case_keys default_region case_regions>",
    traits=("source_structure", "region_effects"),
    verify=v.switch,
)
class Switch(Op):
    """Runs the region of the matching key, or the default."""

    selector: Value = s.operand(c.INDEX)
    case_keys: tuple[int, ...] = s.attribute(k.INT_ARRAY)
    results: list[Value] = s.results(c.ANY)
    default_region: Region = s.region("scf.yield", implicit=True)
    case_regions: list[Region] = s.regions("scf.yield", implicit=True)


@s.op(
    "scf.select",
    " $condition, $true_value, $false_value : type($result)",
    traits=("pure", "speculatable"),
    same_type=(("true_value", "false_value", "result"),),
)
class Select(Op):
    """One of two whole values."""

    condition: Value = s.operand(c.I1)
    true_value: Value = s.operand(c.ANY)
    false_value: Value = s.operand(c.ANY)
    result: Value = s.result(c.ANY, same_type_as="true_value")


@s.op(
    "scf.lookup",
    " $selector $<table case_keys values> : type($results)",
    traits=("pure", "speculatable"),
    verify=v.lookup,
)
class Lookup(Op):
    """The row of a keyed table; the default row answers every other selector."""

    selector: Value = s.operand(c.INDEX)
    values: list[Value] = s.operands(c.ANY)
    case_keys: tuple[int, ...] = s.attribute(k.INT_ARRAY)
    results: list[Value] = s.results(c.ANY)


@s.op("scf.schedule.fence", "", traits=("hint",))
class ScheduleFence(Op):
    """Code before it stays before code after it when the compiler reorders. Emits nothing, waits for nothing."""
