"""Declarations of the ``pass`` dialect (language reference, part 1, section 18)."""

from __future__ import annotations

from typing import Final

from loom.dialects.pass_ import verify as v
from loom.ir.attributes import Dictionary
from loom.ir.core import Op, Region
from loom.spec import kinds as k
from loom.spec import model as s

ANCHOR: Final = k.enum("pass anchor", ("module", "func"))
REPEAT: Final = k.enum("repeat mode", ("fixed", "until_converged"))

STEP: Final = ("unknown_effects",)
NONE: Final = Dictionary()


@s.op(
    "pass.pipeline",
    "<$anchor> $symbol $<pass_body body>",
    traits=("symbol", "isolated"),
    symbol="symbol",
    verify=v.pipeline,
)
class Pipeline(Op):
    """A sequence of passes with a name, run on the module or on one function."""

    anchor: str = s.attribute(ANCHOR)
    symbol: str = s.attribute(k.SYMBOL_NAME)
    body: Region = s.region("pass.yield", implicit=True)


@s.op("pass.run", "<$key>⟦ $options⟧", traits=STEP, verify=v.run)
class Run(Op):
    """Runs one registered pass."""

    key: str = s.attribute(k.KEY)
    options: Dictionary = s.attribute(k.DICT, default=NONE, required=False)


@s.op("pass.for", "<$anchor> $<pass_body body>", traits=STEP, verify=v.placed)
class For(Op):
    """Runs its body once for each function of the module, in order, or once for the module."""

    anchor: str = s.attribute(ANCHOR)
    body: Region = s.region("pass.yield", implicit=True)


@s.op("pass.where", "<$predicate>$<pass_facts attrs> $<pass_body body>", traits=STEP, verify=v.where)
class Where(Op):
    """Runs its body only where a predicate holds."""

    predicate: str = s.attribute(k.KEY)
    attrs: Dictionary = s.attribute(k.DICT, default=NONE, required=False)
    body: Region = s.region("pass.yield", implicit=True)


@s.op("pass.repeat", "<$mode>$<pass_counts count max_iterations> $<pass_body body>", traits=STEP, verify=v.repeat)
class Repeat(Op):
    """Runs its body a number of times, or until a round changes nothing."""

    mode: str = s.attribute(REPEAT)
    count: int | None = s.optional_attribute(k.INT)
    max_iterations: int | None = s.optional_attribute(k.INT)
    body: Region = s.region("pass.yield", implicit=True)


@s.op("pass.if_changed", " $<pass_body body>", traits=STEP, verify=v.placed)
class IfChanged(Op):
    """Runs its body only if what ran before it in its sequence changed something."""

    body: Region = s.region("pass.yield", implicit=True)


@s.op("pass.call", " $callee", traits=STEP, verify=v.placed)
class Call(Op):
    """Runs another pipeline of the module."""

    callee: str = s.attribute(k.SYMBOL)


@s.op("pass.fail", " $message", traits=STEP, verify=v.placed)
class Fail(Op):
    """Stops with an assertion failure."""

    message: str = s.attribute(k.STRING)


@s.op("pass.halt", " $message", traits=STEP, verify=v.placed)
class Halt(Op):
    """Stops on purpose, with a message."""

    message: str = s.attribute(k.STRING)


@s.op("pass.yield", "", traits=("terminator",))
class Yield(Op):
    """Ends a sequence of passes."""
