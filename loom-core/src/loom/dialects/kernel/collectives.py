"""Operations across the invocations of a subgroup or workgroup (language reference, part 2, sections 12.5 and 12.6)."""

from __future__ import annotations

from typing import Final

from loom.dialects import words as w
from loom.dialects.kernel import verify_collectives as v
from loom.ir.core import Op, Value
from loom.ir.types import I1, ShapedType, Type
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

SHUFFLE: Final = k.enum("shuffle mode", ("xor", "up", "down", "index"))
DIRECTION: Final = k.enum("scan direction", ("forward", "reverse"))
MODE: Final = k.enum("scan mode", ("inclusive", "exclusive"))


def _is_payload(type_: Type) -> bool:
    return c.SCALAR.accepts(type_) or (
        isinstance(type_, ShapedType) and type_.kind == "vector" and len(type_.dims) == 1
    )


PAYLOAD: Final = c.Constraint("scalar or rank-1 vector", None, _is_payload)
# Control flow decides who takes part, and all who do exchange values.
TRAITS: Final = ("convergent", "device_only")


@s.op(
    "kernel.subgroup.shuffle",
    "<$mode> $value, $offset, $width : type($value), type($offset), type($width)",
    traits=TRAITS,
    verify=v.device_only,
)
class Shuffle(Op):
    """The value of another lane, and whether that lane exists and is active."""

    mode: str = s.attribute(SHUFFLE)
    value: Value = s.operand(PAYLOAD)
    offset: Value = s.operand(c.I32)
    width: Value = s.operand(c.I32)
    result: Value = s.result(PAYLOAD, same_type_as="value")
    valid: Value = s.result(c.I1, fixed=I1)


@s.op(
    "kernel.subgroup.broadcast",
    " $value from $lane : type($value), type($lane)",
    traits=TRAITS,
    verify=v.device_only,
)
class Broadcast(Op):
    """The value of one lane, chosen uniformly."""

    value: Value = s.operand(PAYLOAD)
    lane: Value = s.operand(c.I32)
    result: Value = s.result(PAYLOAD, same_type_as="value")


@s.op("kernel.subgroup.broadcast.first", " $value : type($value)", traits=TRAITS, verify=v.device_only)
class BroadcastFirst(Op):
    """The value of the lowest active lane."""

    value: Value = s.operand(PAYLOAD)
    result: Value = s.result(PAYLOAD, same_type_as="value")


class Combine(Op):
    """Combines the values of the invocations that take part."""

    __slots__ = ()
    kind: str = s.attribute(w.COMBINING)
    value: Value = s.operand(PAYLOAD)
    result: Value = s.result(PAYLOAD, same_type_as="value")


@s.op(
    "kernel.subgroup.reduce",
    "<$kind> $value⟦ $<dict cluster_size cluster_stride>⟧ : type($value)",
    traits=TRAITS,
    verify=v.clustered,
)
class SubgroupReduce(Combine):
    """The combined value of the subgroup, or of this lane's cluster, in every lane."""

    cluster_size: int | None = s.optional_attribute(k.INT)
    cluster_stride: int | None = s.optional_attribute(k.INT)


@s.op(
    "kernel.subgroup.scan",
    "<$kind> $value $<dict cluster_size cluster_stride direction mode> : type($value)",
    traits=TRAITS,
    verify=v.clustered,
)
class SubgroupScan(Combine):
    """The combination of the values up to this lane."""

    cluster_size: int | None = s.optional_attribute(k.INT)
    cluster_stride: int | None = s.optional_attribute(k.INT)
    direction: str = s.attribute(DIRECTION)
    mode: str = s.attribute(MODE)


@s.op("kernel.workgroup.reduce", "<$kind> $value : type($value)", traits=TRAITS, verify=v.combining)
class WorkgroupReduce(Combine):
    """The combined value of the workgroup in every invocation."""


@s.op(
    "kernel.workgroup.scan", "<$kind> $value $<dict direction mode> : type($value)", traits=TRAITS, verify=v.combining
)
class WorkgroupScan(Combine):
    """The combination of the values up to this invocation, in linear invocation order."""

    direction: str = s.attribute(DIRECTION)
    mode: str = s.attribute(MODE)


class Vote(Op):
    """A predicate's truth across the invocations that take part."""

    __slots__ = ()
    predicate: Value = s.operand(c.I1)
    result: Value = s.result(c.I1, fixed=I1)


class Count(Op):
    """A word made of one bit of each invocation that takes part."""

    __slots__ = ()
    predicate: Value = s.operand(c.I1)
    result: Value = s.result(c.MASK_WORD)


VOTES: Final = {
    "subgroup.vote.any": "Whether the predicate is true in any active lane.",
    "subgroup.vote.all": "Whether the predicate is true in all active lanes.",
    "workgroup.vote.any": "Whether the predicate is true in any invocation of the workgroup.",
    "workgroup.vote.all": "Whether the predicate is true in all invocations of the workgroup.",
}
COUNTS: Final = {
    "subgroup.vote.ballot": "Bit i is the predicate of active lane i.",
    "workgroup.vote.count": "Number of true predicates in the workgroup.",
}

for _shape, _format, _names in (
    (Vote, " $predicate : type($predicate)", VOTES),
    (Count, " $predicate : type($predicate) -> type($result)", COUNTS),
):
    for _name, _summary in _names.items():
        s.define(
            _shape,
            f"kernel.{_name}",
            _format,
            traits=TRAITS,
            verify=v.device_only,
            summary=_summary,
            class_name=f"kernel.{_name}",
        )


@s.op("kernel.subgroup.active.mask", " : type($result)", traits=TRAITS, verify=v.device_only)
class ActiveMask(Op):
    """Bit i says whether lane i is active."""

    result: Value = s.result(c.MASK_WORD)


@s.op("kernel.subgroup.match.any", " $value : type($value) -> type($result)", traits=TRAITS, verify=v.device_only)
class MatchAny(Op):
    """The active lanes whose value equals this lane's."""

    value: Value = s.operand(c.SCALAR)
    result: Value = s.result(c.MASK_WORD)


@s.op(
    "kernel.subgroup.match.all",
    " $value : type($value) -> type($mask), type($agree)",
    traits=TRAITS,
    verify=v.device_only,
)
class MatchAll(Op):
    """The lanes whose value equals this lane's, and whether all active lanes agree."""

    value: Value = s.operand(c.SCALAR)
    mask: Value = s.result(c.MASK_WORD)
    agree: Value = s.result(c.I1)
