"""Refusals of command preparation: located diagnostics that carry the program they are about."""

from __future__ import annotations

from typing import Final

import attrs

from loom.facts.analysis import FunctionFacts
from loom.ir.core import Op, Value, symbol_name
from loom.ir.diagnostics import Diagnostic, LoomError, Related
from loom.ir.types import BUFFER
from loom_target_cmd.descriptors import CONTRACT

EMITTER: Final = "prepare-commands"
_BIND_HINT: Final = "launch the program from one that passes constants"


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
            hint=binding_hint(value),
            op_constraint=constraint,
        )


def unsettled(value: Value) -> str:
    """Why a value is not exact."""
    names = [f"%{argument.name or argument.index}" for argument in unbound_arguments(value)]
    return f"it depends on {', '.join(names)}" if names else "nothing settles its value"


def binding_hint(value: Value) -> str | None:
    """What to do about a value that is not exact: constants help unless it hangs on the contents of buffers."""
    found = unbound_arguments(value)
    return _BIND_HINT if found and all(argument.type is not BUFFER for argument in found) else None


def unbound_arguments(value: Value) -> list[Value]:
    """The arguments that a value is computed from, in order of discovery."""
    found: dict[Value, None] = {}
    seen = {value}
    pending = [value]
    while pending:
        current = pending.pop()
        op = current.defining_op
        if op is None:
            found[current] = None
            continue
        inside = {r for inner in op.walk() for r in inner.results} | {
            a for inner in op.walk() for region in inner.regions for block in region.blocks for a in block.args
        }
        for operand in (v for inner in op.walk() for v in inner.operands):
            if operand not in seen and operand not in inside:
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
