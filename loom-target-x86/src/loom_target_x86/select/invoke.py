"""Selection of ``low.invoke``: a Low call of a helper, which is inlined once the whole body is selected."""

from __future__ import annotations

from typing import Any

from loom.dialects.low import ops as low
from loom.ir.core import Op
from loom.ir.types import Type
from loom.low.invoke import require_invocable
from loom_target_x86.profiles import contract_of
from loom_target_x86.select.boundary import crossing_register, incoming, outgoing
from loom_target_x86.select.context import Context
from loom_target_x86.select.rules import selects


@selects("low.invoke")
def _invoke(c: Context, op: Any) -> None:
    contracts = [contract_of(selector) for selector in sorted(c.target.satisfies)]
    helper = require_invocable(op, c.symbols, c.facts, c.target, contracts)
    registers = [outgoing(c, op, value) for value in op.args]
    for value, register, parameter in zip(op.args, registers, helper.body.entry.args, strict=True):
        _require_exact(c, op, "args", value.type, register.type, parameter.type)
    types = [spec.type for spec in helper.result_specs]
    for result, type_ in zip(op.results, types, strict=True):
        _require_exact(c, op, "results", result.type, type_, crossing_register(c, op, result.type))
    call = c.append(low.Call(registers, [None, None, op.callee, None], types, segments=(len(registers),)))
    c.invoked.append(call)
    for result, register in zip(op.results, call.results, strict=True):
        incoming(c, op, result, register)


def _require_exact(c: Context, op: Op, field: str, source: Type, found: Type, wanted: Type) -> None:
    if found != wanted:
        raise c.refuse(
            op,
            "TARGET/002",
            f"a value of type {source} is in {found} here, not in {wanted}",
            field_name=field,
            actual_type=str(found),
            expected_type=str(wanted),
        )
