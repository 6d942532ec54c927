"""When schedules and allocations are proven, and how a refuted one is reported.

The checkers (:mod:`loom.low.check_schedule`, :mod:`loom.low.check_allocation`) take about as long as what they check,
so they run when asked for: by the option ``check`` of an emitter, by :func:`verifying` around whatever compiles, or by
the environment variable ``LOOM_VERIFY_MACHINE``, which tests set.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from loom.ir.diagnostics import LoomError, fail

if TYPE_CHECKING:
    from loom.low.allocate import Allocation
    from loom.low.machine import Block, Function, Instruction

OPTION: Final = "check"
VARIABLE: Final = "LOOM_VERIFY_MACHINE"
_asked: Final[ContextVar[bool]] = ContextVar("loom_verify_machine", default=False)


@contextmanager
def verifying(wanted: bool = True) -> Iterator[None]:
    """Everything compiled inside is proven, if ``wanted``; otherwise nothing changes."""
    token = _asked.set(wanted or _asked.get())
    try:
        yield
    finally:
        _asked.reset(token)


def verification_wanted(options: Mapping[str, object]) -> bool:
    """Whether an emitter with these options has to prove its machine code."""
    chosen = options.get(OPTION)
    if chosen is not None:
        return bool(chosen)
    return _asked.get() or os.environ.get(VARIABLE, "0") not in ("", "0")


def prove_schedule(before: Mapping[Block, Sequence[Instruction]], function: Function, emitter: str) -> None:
    """Prove that every order that has to hold does. ``before`` is :meth:`Function.order` of the unscheduled code.

    Raises:
        LoomError: it does not; the diagnostic is at the instruction that is out of place.
    """
    from loom.low.check_schedule import ScheduleCheckError, check_schedule

    try:
        check_schedule(before, function)
    except ScheduleCheckError as error:
        raise refuted("schedule", str(error), error.loc, function.name, emitter) from error


def prove_allocation(function: Function, allocation: Allocation, emitter: str) -> None:
    """Prove that every instruction reads the values it should from the registers it names.

    Raises:
        LoomError: one does not; the diagnostic is at that instruction.
    """
    from loom.low.check_allocation import AllocationCheckError, check_allocation

    try:
        check_allocation(function, allocation)
    except AllocationCheckError as error:
        raise refuted("allocation", str(error), error.loc, function.name, emitter) from error


def refuted(what: str, why: str, loc: object, function: str, emitter: str) -> LoomError:
    """The diagnostic for machine code that a checker refuses."""
    return fail(
        "TARGET/022",
        f"the {what} of '@{function}' is wrong: {why}",
        loc,  # type: ignore[arg-type]  # instructions keep the locations of their ops
        hint="this is a fault of the compiler or of one of its plugins, not of the program",
        emitter=emitter,
        function_name=function,
        constraint_key=f"machine.{what}",
    )
