"""Encoded values, fragments and matrix multiply-accumulate (language reference, part 2, section 10)."""

from __future__ import annotations

from typing import Final

from loom.dialects import words as w
from loom.dialects.vector import verify_memory as v
from loom.ir.attributes import Predicate
from loom.ir.core import Op, Value
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

ROLE: Final = k.enum("fragment role", ("lhs", "rhs", "init", "result"))
MMA_FLAGS: Final = k.flags("mma flag", {"saturate": 1})
AUX: Final = c.Constraint("vector or encoding<schema>", None, lambda t: c.VECTOR.accepts(t) or c.ENC_SCHEMA.accepts(t))
SHAPE: Final = " shape [⟦blocks($blocks), ⟧$rows, $columns]"
USING: Final = "⟦ using $<operand_dict aux keys>⟧"


class _Coded(Op):
    __slots__ = ()
    input: Value = s.operand(c.VECTOR)
    schema: Value = s.operand(c.ENC_SCHEMA)
    aux: list[Value] = s.operands(c.VECTOR)
    keys: tuple[str, ...] | None = s.optional_attribute(k.ANY)
    result: Value = s.result(c.VECTOR)


for _name, _summary in (
    ("decode", "Logical values of a physical payload."),
    ("encode", "Physical payload of logical values."),
):
    s.define(
        _Coded,
        f"vector.{_name}",
        " $input using $schema⟦ $<operand_dict aux keys>⟧ : type($input), type($schema) -> type($result)",
        traits=("pure",),
        verify=v.auxiliary,
        summary=_summary,
        class_name=f"vector.{_name}",
    )


class Fragment(Op):
    """A physical vector annotated with the logical matrix it carries."""

    __slots__ = ()
    role: str
    rows: Value
    columns: Value


@s.op(
    "vector.fragment",
    "<$role> $data" + SHAPE + USING + "⟦ where $<predicates mentioned predicates>⟧ : type($data)",
    traits=("pure",),
    verify=v.auxiliary,
)
class FragmentOf(Fragment):
    """The data as a fragment of a role and logical shape."""

    role: str = s.attribute(ROLE)
    data: Value = s.operand(c.VECTOR)
    blocks: Value | None = s.optional_operand(c.INDEX)
    rows: Value = s.operand(c.INDEX)
    columns: Value = s.operand(c.INDEX)
    aux: list[Value] = s.operands(AUX)
    keys: tuple[str, ...] | None = s.optional_attribute(k.ANY)
    mentioned: list[Value] = s.operands(c.SCALAR)
    predicates: tuple[Predicate, ...] | None = s.optional_attribute(k.PREDICATES)
    result: Value = s.result(c.VECTOR, same_type_as="data")


@s.op("vector.fragment.repack", "<$role> $data" + SHAPE + " : type($data) -> type($result)", traits=("pure",))
class FragmentRepack(Fragment):
    """The same logical fragment in another physical arrangement."""

    role: str = s.attribute(ROLE)
    data: Value = s.operand(c.VECTOR)
    blocks: Value | None = s.optional_operand(c.INDEX)
    rows: Value = s.operand(c.INDEX)
    columns: Value = s.operand(c.INDEX)
    result: Value = s.result(c.VECTOR)


@s.op(
    "vector.fragment.load",
    "<$role> $source$<indices indices>"
    + SHAPE
    + USING
    + "⟦ $<dict cache_scope cache_temporal>⟧ : type($source) -> type($result)",
    traits=("reads",),
    verify=v.fragment_access,
)
class FragmentLoad(Fragment):
    """Reads a logical matrix from a view into a fragment."""

    role: str = s.attribute(ROLE)
    source: Value = s.operand(c.VIEW)
    indices: list[Value] = s.operands(c.INDEX)
    static_indices: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    blocks: Value | None = s.optional_operand(c.INDEX)
    rows: Value = s.operand(c.INDEX)
    columns: Value = s.operand(c.INDEX)
    aux: list[Value] = s.operands(AUX)
    keys: tuple[str, ...] | None = s.optional_attribute(k.ANY)
    cache_scope: str | None = s.optional_attribute(w.CACHE_SCOPE)
    cache_temporal: str | None = s.optional_attribute(w.CACHE_TEMPORAL)
    result: Value = s.result(c.VECTOR)


@s.op(
    "vector.fragment.store",
    "<$role> $value, $target$<indices indices>"
    + SHAPE
    + "⟦ $<dict cache_scope cache_temporal>⟧ : type($value), type($target)",
    traits=("writes",),
    verify=v.fragment_access,
)
class FragmentStore(Fragment):
    """Writes a fragment as a logical matrix into a view."""

    role: str = s.attribute(ROLE)
    value: Value = s.operand(c.VECTOR)
    target: Value = s.operand(c.VIEW)
    indices: list[Value] = s.operands(c.INDEX)
    static_indices: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    blocks: Value | None = s.optional_operand(c.INDEX)
    rows: Value = s.operand(c.INDEX)
    columns: Value = s.operand(c.INDEX)
    cache_scope: str | None = s.optional_attribute(w.CACHE_SCOPE)
    cache_temporal: str | None = s.optional_attribute(w.CACHE_TEMPORAL)


@s.op(
    "vector.mma",
    "⟦<$flags>⟧ $lhs, $rhs, $init : type($lhs), type($rhs), type($init)",
    traits=("pure",),
)
class Mma(Op):
    """Matrix multiply-accumulate; shapes and formats come from the operands' fragments."""

    flags: tuple[str, ...] | None = s.optional_attribute(MMA_FLAGS)
    lhs: Value = s.operand(c.VECTOR)
    rhs: Value = s.operand(c.VECTOR)
    init: Value = s.operand(c.VECTOR)
    result: Value = s.result(c.VECTOR, same_type_as="init")
