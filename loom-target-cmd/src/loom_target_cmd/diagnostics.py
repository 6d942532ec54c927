"""Refusals of command preparation: located diagnostics that carry the program they are about."""

from __future__ import annotations

from typing import Final

import attrs

from loom.facts.analysis import FunctionFacts
from loom.ir.core import Op, Value, symbol_name
from loom.ir.diagnostics import Diagnostic, LoomError, Related
from loom_target_cmd.descriptors import CONTRACT

EMITTER: Final = "prepare-commands"
BIND_HINT: Final = "launch the program from one that passes constants"


@attrs.frozen
class Refusals:
    """Makes the diagnostics of one program. ``program`` is the root being prepared, before or after rewriting."""

    program: Op

    def refuse(
        self,
        code: str,
        message: str,
        op: Op,
        *,
        hint: str | None = None,
        related: tuple[Related, ...] = (),
        **params: object,
    ) -> LoomError:
        """Build the exception for one finding at an operation (raise its result)."""
        name = symbol_name(self.program) or ""
        common = {"target_key": CONTRACT, "export_name": name, "config_key": "", "function_name": name}
        return LoomError(
            [
                Diagnostic(
                    code,
                    message,
                    op.loc,
                    {**common, "op_name": op.name, **params},
                    hint=hint,
                    related=related,
                    emitter=EMITTER,
                )
            ]
        )

    def not_exact(self, what: str, value: Value, op: Op, constraint: str) -> LoomError:
        """A value that has to be known when the program is prepared is not (raise the result)."""
        return self.refuse(
            "TARGET/032",
            f"{what} must be exact here, but {unsettled(value)}",
            op,
            hint=BIND_HINT,
            op_constraint=constraint,
        )


def unsettled(value: Value) -> str:
    """Why a value is not exact."""
    unbound = unbound_arguments(value)
    return f"it depends on {', '.join(unbound)}" if unbound else "nothing settles its value"


def unbound_arguments(value: Value) -> list[str]:
    """Names (``%n``) of the arguments that a value is computed from, in order of discovery."""
    found: dict[str, None] = {}
    seen = {value}
    pending = [value]
    while pending:
        current = pending.pop()
        op = current.defining_op
        if op is None:
            found[f"%{current.name or current.index}"] = None
            continue
        inputs = list(op.operands)
        for inner in op.walk():
            if inner is not op:
                inputs.extend(v for v in inner.operands if v.defining_op is None)
        for operand in reversed(inputs):
            if operand not in seen:
                seen.add(operand)
                pending.append(operand)
    return list(found)


def exact_number(value: Value, facts: FunctionFacts, at: Op) -> int | float | None:
    """The only number a scalar can be: an integer (also for ``i1``), or the literal of a float constant."""
    from loom.transforms.fold import constant_of

    exact = facts.exact(value, at)
    if exact is not None:
        return exact
    literal = constant_of(value)
    return literal if isinstance(literal, int | float) else None
