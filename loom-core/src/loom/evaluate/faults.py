"""What the evaluator refuses to do, and how it says so.

A fault stops the evaluation: the program has no meaning from there on, so no value is made up. Each kind is
one diagnostic code of the domain ``EVALUATE``, at the operation that could not be carried out.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from loom.ir.diagnostics import LoomError, Related, fail

if TYPE_CHECKING:
    from loom.ir.core import Op


class FaultCode(enum.Enum):
    """The diagnostic code of each kind of fault."""

    UNDEFINED_RESULT = "EVALUATE/001"
    OUT_OF_BOUNDS = "EVALUATE/002"
    MISALIGNED = "EVALUATE/003"
    UNINITIALIZED = "EVALUATE/004"
    DATA_RACE = "EVALUATE/005"
    FALSE_PREDICATE = "EVALUATE/006"
    STEP_LIMIT = "EVALUATE/007"
    MEMORY_LIMIT = "EVALUATE/008"
    BAD_GEOMETRY = "EVALUATE/009"
    BAD_ARGUMENT = "EVALUATE/010"
    CALL_DEPTH = "EVALUATE/011"
    DEADLOCK = "EVALUATE/012"
    ENDED_LOAN = "EVALUATE/013"
    NEVER_WAITED = "LOWERING/022"
    PENDING_OVERLAP = "LOWERING/026"
    PENDING_WRITE = "LOWERING/027"
    PENDING_READ = "LOWERING/028"
    FOREIGN_GROUP = "LOWERING/029"
    COMPLETED_GROUP = "LOWERING/030"
    NEWER_GROUPS = "LOWERING/031"
    BARRIER = "STRUCTURE/038"
    STEP_NOT_POSITIVE = "STRUCTURE/035"
    POISON = "TYPE/012"
    RANK = "SHAPE/001"
    UNSUPPORTED = "TARGET/001"


def fault(
    code: FaultCode,
    op: Op,
    message: str,
    *,
    hint: str | None = None,
    related: tuple[Related, ...] = (),
    **params: object,
) -> LoomError:
    """Build the exception of a fault at an operation (raise its result)."""
    return fail(code.value, message, op.loc, hint=hint, related=related, emitter="evaluator", op_name=op.name, **params)


def unsupported(op: Op, what: str, *, hint: str | None = None) -> LoomError:
    """The evaluator has no meaning for this operation or this use of it (raise its result)."""
    return fault(FaultCode.UNSUPPORTED, op, what, hint=hint, target_key="reference")
