"""Declarations of the ``command`` dialect (language reference, part 2, section 13.4; part 3, section 2)."""

from __future__ import annotations

from typing import Final

from loom.dialects import words as w
from loom.dialects.command import verify as v
from loom.ir.attributes import Predicate
from loom.ir.core import Op, Region, Value
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

_HEAD: Final = (
    "⟦ $visibility⟧⟦ $retain⟧⟦ target($target)⟧ $callee$<counted_args body specialization_count>"
    " launch$<more_args body specialization_count>$<where body predicates>"
)


class _Program(Op):
    __slots__ = ()
    callee: str = s.attribute(k.SYMBOL_NAME)
    visibility: str | None = s.optional_attribute(w.VISIBILITY)
    retain: str | None = s.optional_attribute(w.RETENTION)
    target: str | None = s.optional_attribute(k.SYMBOL)
    specialization_count: int = s.attribute(k.INT, default=0, required=False)
    predicates: tuple[Predicate, ...] = s.attribute(k.PREDICATES, default=(), required=False)


@s.op(
    "command.program.def",
    _HEAD + " $<body body>",
    traits=("symbol", "isolated", "command_program"),
    symbol="callee",
    verify=v.program,
)
class ProgramDef(_Program):
    """A reusable submission: specialization arguments shape it, bindings stay replaceable."""

    body: Region = s.region("command.return")


@s.op(
    "command.program.decl",
    _HEAD,
    traits=("symbol", "isolated", "command_program", "declaration"),
    symbol="callee",
    verify=v.program,
)
class ProgramDecl(_Program):
    """The contract of a command program defined elsewhere."""

    body: Region = s.region(None)


@s.op(
    "command.program.launch",
    " $callee⟦[$specializations]⟧($args) : ⟦[type($specializations)]⟧(type($args))",
    traits=("unknown_effects", "command"),
)
class ProgramLaunch(Op):
    """Inlines the schedule of another program."""

    callee: str = s.attribute(k.SYMBOL)
    specializations: list[Value] = s.operands(c.ANY)
    args: list[Value] = s.operands(c.ANY)


@s.op("command.return", "", traits=("terminator", "return"))
class Return(Op):
    """Ends the program."""


@s.op("command.yield", "", traits=("terminator",))
class Yield(Op):
    """Ends a schedule region."""


@s.op("command.serial", " $body", traits=("unknown_effects", "command"))
class Serial(Op):
    """Children run one after another."""

    body: Region = s.region("command.yield", implicit=True)


@s.op("command.concurrent", " $body", traits=("unknown_effects", "command"))
class Concurrent(Op):
    """Children do not depend on each other; they join at the end."""

    body: Region = s.region("command.yield", implicit=True)


@s.op("command.parameter", " $storage, $key⟦[$indices]⟧ : type($result)", traits=("pure",), verify=v.parameter)
class Parameter(Op):
    """A named model parameter inside a parameter buffer; each ``{}`` of the key takes one index."""

    storage: Value = s.operand(c.BUFFER)
    key: str = s.attribute(k.STRING)
    indices: list[Value] = s.operands(c.INDEX)
    result: Value = s.result(c.VIEW)
