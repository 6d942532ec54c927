"""Declarations of the ``encoding`` dialect (language reference, part 1, section 16)."""

from __future__ import annotations

from loom.dialects.encoding import verify as v
from loom.dialects.encoding import words as w
from loom.ir.attributes import Encoding
from loom.ir.core import Op, Value
from loom.ir.types import I1
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s


@s.op("encoding.layout.dense", " : type($result)", traits=("pure",))
class LayoutDense(Op):
    """Row-major without gaps."""

    result: Value = s.result(c.ENC_LAYOUT)


@s.op("encoding.layout.strided", " $<indices strides> : type($result)", traits=("pure",), verify=v.strided)
class LayoutStrided(Op):
    """One stride in elements per axis."""

    strides: list[Value] = s.operands(c.INDEX)
    static_strides: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    result: Value = s.result(c.ENC_LAYOUT)


@s.op(
    "encoding.define",
    " $definition⟦ $<operand_dict params keys>⟧ : type($result)",
    traits=("pure",),
    verify=v.define,
)
class Define(Op):
    """An encoding value from a static specification and run-time parameters."""

    definition: Encoding = s.attribute(k.ENCODING)
    params: list[Value] = s.operands(c.ANY)
    keys: tuple[str, ...] | None = s.optional_attribute(k.ANY)
    result: Value = s.result(c.ENC)


class _LayoutAssumption(Op):
    __slots__ = ()
    input: Value = s.operand(c.ENC_LAYOUT)
    result: Value = s.result(c.ENC_LAYOUT, same_type_as="input")


@s.op(
    "encoding.layout.assume.dense",
    " $input : type($input)",
    traits=("pure", "fact_identity"),
    same_type=(("input", "result"),),
    verify=v.assume_dense,
)
class LayoutAssumeDense(_LayoutAssumption):
    """The same layout, known to be dense."""


@s.op(
    "encoding.layout.assume.strided",
    " $input $<dict rank> : type($input)",
    traits=("pure", "fact_identity"),
    same_type=(("input", "result"),),
    verify=v.assume_strided,
)
class LayoutAssumeStrided(_LayoutAssumption):
    """The same layout, known to have one stride for each of `rank` axes."""

    rank: int = s.attribute(k.INT)


@s.op(
    "encoding.assume.spec",
    " $input, $definition : type($input)",
    traits=("pure", "fact_identity"),
    same_type=(("input", "result"),),
    verify=v.assume_spec,
)
class AssumeSpec(Op):
    """The same encoding, known to be the specification."""

    input: Value = s.operand(c.ENC)
    definition: Encoding = s.attribute(k.ENCODING)
    result: Value = s.result(c.ENC, same_type_as="input")


@s.op("encoding.isa", "<$definition> $input : type($input)", traits=("pure",), verify=v.isa)
class Isa(Op):
    """Whether an encoding is exactly the specification."""

    definition: Encoding = s.attribute(k.ENCODING)
    input: Value = s.operand(c.ENC)
    result: Value = s.result(c.I1, fixed=I1)


_QUERY = "<$<keyed element_format payload_packing affine>> $input : type($input)"


class _Query(Op):
    __slots__ = ()
    element_format: str | None = s.optional_attribute(w.NUMERIC_FORMAT)
    payload_packing: str | None = s.optional_attribute(w.PAYLOAD_PACKING)
    affine: str | None = s.optional_attribute(w.AFFINE)
    input: Value = s.operand(c.ENC_SCHEMA)

    def requirements(self) -> list[tuple[str, str]]:
        """The properties asked for, each with its word."""
        given = (
            ("element_format", self.element_format),
            ("payload_packing", self.payload_packing),
            ("affine", self.affine),
        )
        return [(name, word) for name, word in given if word is not None]


@s.op("encoding.matches", _QUERY, traits=("pure",), verify=v.matches)
class Matches(_Query):
    """Whether a schema has all the properties."""

    result: Value = s.result(c.I1, fixed=I1)


@s.op(
    "encoding.assume.match",
    _QUERY,
    traits=("pure", "fact_identity"),
    same_type=(("input", "result"),),
    verify=v.assume_match,
)
class AssumeMatch(_Query):
    """The same schema, known to have all the properties."""

    result: Value = s.result(c.ENC_SCHEMA, same_type_as="input")
