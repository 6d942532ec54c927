"""Declarations of the ``channel`` dialect (language reference, part 2, section 14.5)."""

from __future__ import annotations

from typing import Final

from loom.dialects.channel import verify as v
from loom.ir.core import Op, Value
from loom.ir.types import INDEX
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

DISCIPLINE: Final = k.enum("channel discipline", {"fifo": 1})
ACCESS: Final = k.enum("read access", {"mutable": 1})

CHANNEL: Final = c.nested("channel")
READ: Final = c.nested("read")
WRITE: Final = c.nested("write")

# What most operations do: change the state of the channel, and order memory like a fence.
SYNCHRONIZES: Final = ("reads", "writes", "fence")


@s.op(
    "channel.bind",
    "<$discipline> $slots, $capacity : type($slots), type($capacity) -> type($result)",
    traits=("unique_identity",),
    verify=v.bind,
)
class Bind(Op):
    """A channel over storage of the caller: the leading axis of the view counts slots of one record each.

    At most ``capacity`` records are admitted at a time, and no more than there are slots. Records are reserved and
    accepted in order. Two bindings over one storage are different channels.
    """

    discipline: str = s.attribute(DISCIPLINE)
    slots: Value = s.operand(c.VIEW)
    capacity: Value = s.operand(c.INDEX)
    result: Value = s.result(CHANNEL)


@s.op(
    "channel.reserve",
    " $channel : type($channel) -> (type($obligation), type($record))",
    traits=SYNCHRONIZES,
    verify=v.reserve,
)
class Reserve(Op):
    """Waits for a free slot; the view of the new record is uninitialized. The write has to be published."""

    channel: Value = s.operand(CHANNEL)
    obligation: Value = s.result(WRITE)
    record: Value = s.result(c.VIEW)


@s.op("channel.publish", " $obligation : type($obligation)", traits=SYNCHRONIZES)
class Publish(Op):
    """Makes a record available to its reader, and ends the write."""

    obligation: Value = s.operand(WRITE)


@s.op(
    "channel.accept",
    "⟦<$access>⟧ $channel : type($channel) -> type($obligation)",
    traits=("reads", "writes"),
    verify=v.accept,
)
class Accept(Op):
    """Takes the next record as one's own without waiting: its payload may be pending, or not even reserved."""

    access: str | None = s.optional_attribute(ACCESS)
    channel: Value = s.operand(CHANNEL)
    obligation: Value = s.result(READ)


@s.op("channel.wait", " $obligation : type($obligation) -> type($record)", traits=SYNCHRONIZES, verify=v.wait)
class Wait(Op):
    """Waits until the record is published, and lends its view until the read ends."""

    obligation: Value = s.operand(READ)
    record: Value = s.result(c.VIEW)


@s.op(
    "channel.acquire",
    "⟦<$access>⟧ $channel : type($channel) -> (type($obligation), type($record))",
    traits=SYNCHRONIZES,
    verify=v.acquire,
)
class Acquire(Op):
    """Accepts the next record and waits for its payload."""

    access: str | None = s.optional_attribute(ACCESS)
    channel: Value = s.operand(CHANNEL)
    obligation: Value = s.result(READ)
    record: Value = s.result(c.VIEW)


@s.op("channel.release", " $obligation : type($obligation)", traits=SYNCHRONIZES)
class Release(Op):
    """Ends a read. The slot is free again when every reader of its record has released it."""

    obligation: Value = s.operand(READ)


@s.op("channel.fanout", " $source : type($source) -> (type($readers))", verify=v.fanout)
class Fanout(Op):
    """Splits one immutable read into several, each to be released."""

    source: Value = s.operand(READ)
    readers: list[Value] = s.results(READ)


@s.op(
    "channel.copy",
    " $source -> $target : type($source), type($target)",
    traits=("reads", "writes"),
    verify=v.copy,
)
class Copy(Op):
    """Hands a read and a write to a transport: it copies the record once it is published, then ends both."""

    source: Value = s.operand(READ)
    target: Value = s.operand(WRITE)


@s.op(
    "channel.select",
    " $channel : type($channel) -> (type($rank), type($obligation))",
    traits=SYNCHRONIZES,
    verify=v.select,
)
class Select(Op):
    """Takes a record of any producer of a grouped channel that has one ready, and says whose it is.

    Nothing in the language makes a grouped channel, so the reference evaluator refuses the operation.
    """

    channel: Value = s.operand(CHANNEL)
    rank: Value = s.result(c.exactly(INDEX))
    obligation: Value = s.result(READ)
