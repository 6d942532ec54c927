"""Declarations of the ``encoding`` dialect (language reference, part 1, section 16)."""

from __future__ import annotations

from loom.ir.attributes import Encoding
from loom.ir.core import Op, Value
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s


@s.op("encoding.layout.dense", " : type($result)", traits=("pure",))
class LayoutDense(Op):
    """Row-major without gaps."""

    result: Value = s.result(c.ENC_LAYOUT)


@s.op("encoding.layout.strided", " $<indices strides> : type($result)", traits=("pure",))
class LayoutStrided(Op):
    """One stride in elements per axis."""

    strides: list[Value] = s.operands(c.INDEX)
    static_strides: tuple[int, ...] = s.attribute(k.STATIC_INDICES)
    result: Value = s.result(c.ENC_LAYOUT)


@s.op("encoding.define", " $definition⟦ $<operand_dict params keys>⟧ : type($result)", traits=("pure",))
class Define(Op):
    """An encoding value from a static specification and run-time parameters."""

    definition: Encoding = s.attribute(k.ENCODING)
    params: list[Value] = s.operands(c.ANY)
    keys: tuple[str, ...] | None = s.optional_attribute(k.ANY)
    result: Value = s.result(c.ENC)
