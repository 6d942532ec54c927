"""What decoding and encoding of payloads share: the format of codes, and the terms that scale and shift them."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

from loom.facts.schemas import (
    FIELD_ORDERS,
    GROUPS,
    ONE_EACH,
    TWO_LEVELS,
    Schema,
    UndefinedSchema,
    plain_schema,
)
from loom.ir.attributes import Encoding
from loom.ir.core import Value
from loom.ir.records import record
from loom.ir.types import BF16, F16, F32, F64, ScalarType
from loom_target_amdgpu.select.selector import Selector
from loom_target_amdgpu.select.small_floats import SMALL_FLOATS, SmallFloat, from_small_float
from loom_target_amdgpu.select.values import Mask, Number, Vector, Word
from loom_target_amdgpu.select.vector_lanes import Element, apply_scalar, coordinates, element_type, elements


@record
class CodeFormat:
    """Codes of integers (extended with their sign if ``signed``) or of small floats; ``significand`` in bits."""

    width: int
    significand: int
    signed: bool = False
    float: SmallFloat | None = None


_INTEGER: Final = re.compile(r"(i|u|quant_i)([1-9]|[12][0-9]|3[0-2])")
_FLOATS: Final[Mapping[str, str]] = {
    "f4e2m1": "f4e2m1",
    "f6e2m3": "f6e2m3",
    "f6e3m2": "f6e3m2",
    "bf6": "f6e3m2",
    "f8e4m3fn": "f8E4M3",
    "f8e5m2": "f8E5M2",
    "bf8": "f8E5M2",
}
POWERS: Final = "e8m0"
"""Codes of powers of two."""


def code_format(name: str) -> CodeFormat:
    """The format of a schema's word. Raises `UndefinedSchema`."""
    integer = _INTEGER.fullmatch(name)
    if integer is not None:
        return CodeFormat(int(integer[2]), int(integer[2]), signed=integer[1] != "u")
    if name not in _FLOATS:
        raise UndefinedSchema(f"values of format '{name}'")
    found = SMALL_FLOATS[_FLOATS[name]]
    return CodeFormat(found.width, found.fraction + 1, float=found)


def _schema_of(s: Selector, op: Any) -> Schema:
    """The schema of ``vector.decode`` or ``vector.encode``. Raises `UndefinedSchema`, `LoomError`."""
    maker: Any = op.schema.defining_op
    if maker is None or maker.name != "encoding.define" or maker.params or not isinstance(maker.definition, Encoding):
        raise s.unsupported(op, f"a schema that is not known is not supported on {s.processor.name}")
    return plain_schema(maker.definition)


class Payload(ABC):
    """The codes and terms of one operation in a type of computation, ``work`` (f32 or f64).

    Methods raise `UndefinedSchema`, which :meth:`select` reports at the operation.
    """

    @classmethod
    def select(cls, s: Selector, op: Any) -> None:
        """The selection rule of the operation."""
        try:
            s.set(op.result, Vector(tuple(cls(s, op, _schema_of(s, op)).lanes())))
        except UndefinedSchema as reason:
            raise s.unsupported(op, f"'{op.name}' of {reason} is not supported on {s.processor.name}") from None

    @abstractmethod
    def lanes(self) -> list[Element]:
        """The lanes of the result."""

    def __init__(self, s: Selector, op: Any, schema: Schema) -> None:
        self.s, self.op, self.schema = s, op, schema
        if schema.codebook:
            raise UndefinedSchema("codes of a code book")
        self.format = code_format(schema.element_format)
        self.auxiliaries: dict[str, Value] = dict(zip(op.keys or (), op.aux, strict=True))
        self.work: ScalarType = F64

    def auxiliary(self, name: str) -> ScalarType:
        """The type of the lanes of an auxiliary operand."""
        if name not in self.auxiliaries:
            raise UndefinedSchema(f"a payload without '{name}'")
        return element_type(self.auxiliaries[name])

    def apply(self, name: str, a: Element, b: Element) -> Element:
        """A scalar operation in the type of the computation."""
        return apply_scalar(self.s, name, [(a, self.work), (b, self.work)], self.work)

    def shift(self, name: str, values: list[Element], offset: str, groups: Sequence[int]) -> list[Element]:
        """Each value plus (``addf``) or minus (``subf``) the offset of its group."""
        spread = self._spread(self.schema.affine, self._term(offset, "none", False), groups)
        return [self.apply(name, v, term) for v, term in zip(values, spread, strict=True)]

    def scales(self, groups: tuple[list[int], list[int], list[int]], inverse: bool = False) -> list[Element] | None:
        """The product of each element's scales, or ``None`` without scales; ``inverse`` of codes of powers only."""
        schema = self.schema
        formats = (schema.scale_format, schema.secondary_format)
        named = zip(schema.scales, formats, groups, strict=False)
        scales = [self._spread(name, self._term(name, code, inverse), group) for name, code, group in named]
        if len(scales) < 2:
            return scales[0] if scales else None
        # Scales of the same groups are multiplied once.
        products: dict[tuple[int, int], Element] = {}
        for key, a, b in zip(zip(groups[0], groups[1], strict=True), *scales, strict=True):
            if key not in products:
                products[key] = self.apply("mulf", a, b)
        return [products[key] for key in zip(groups[0], groups[1], strict=True)]

    def groups(self, extents: tuple[int, ...]) -> tuple[list[int], list[int], list[int]]:
        """The group of each element for the first scale, the second one, and for offsets."""
        schema, count = self.schema, math.prod(extents)
        if schema.topology == "block_2d" and len(extents) != 2:
            raise UndefinedSchema("blocks of two axes in a vector of another rank")
        if schema.topology in TWO_LEVELS:
            inner = [n // math.prod(schema.group) for n in range(count)]
            return [n // schema.record_elements for n in range(count)], inner, inner
        group = [0] * count
        rule = GROUPS.get(schema.topology)
        if rule is not None:
            group = [rule(at, n, schema.group, extents) for n, at in enumerate(coordinates(extents))]
        # A second scale belongs to the whole vector.
        return group, [0] * count, group

    def places(self, count: int, lanes: int, carrier: ScalarType) -> list[int] | None:
        """Which field of the bit string of the lanes each element is; ``None`` for one element in each lane."""
        width, packing = self.format.width, self.schema.packing
        if packing in ONE_EACH:
            if lanes != count or carrier.width < width:
                raise UndefinedSchema(f"{count} elements in {lanes} lanes of {carrier.text}")
            return None
        order = FIELD_ORDERS.get(packing)
        if order is None or (width != 4 and packing != "bitfield_stream"):
            raise UndefinedSchema(f"the packing '{packing}' of codes of {width} bits")
        if lanes * carrier.width != count * width:
            raise UndefinedSchema(f"{count} elements of {width} bits in {lanes * carrier.width} bits")
        return [order(n) for n in range(count)]

    def small(self, format: SmallFloat, code: Word) -> Element:
        """A small float in the type of the computation; every one is exact in f32."""
        return self.wide(Number((from_small_float(self.s, code, format),)), F32)

    def wide(self, value: Element, type_: ScalarType) -> Element:
        """A float of at most the computation's width in its type."""
        if type_ is self.work:
            return value
        return apply_scalar(self.s, "extf", [(value, type_)], self.work)

    def _spread(self, name: str, terms: list[Element], groups: Sequence[int]) -> list[Element]:
        if max(groups, default=0) >= len(terms):
            raise UndefinedSchema(f"{max(groups) + 1} groups with {len(terms)} lanes of '{name}'")
        return [terms[group] for group in groups]

    def _term(self, name: str, word: str, inverse: bool) -> list[Element]:
        """The values of an auxiliary operand; integer lanes of scales hold codes of a format."""
        type_ = self.auxiliary(name)
        lanes = elements(self.s, self.auxiliaries[name])
        if type_ in (F16, BF16, F32, F64):
            return [self.wide(e, type_) for e in lanes]
        if word == "none":
            if name == "scale":
                raise UndefinedSchema(f"integer lanes of '{name}' without a format")
            return [apply_scalar(self.s, "sitofp", [(e, type_)], self.work) for e in lanes]
        codes = [e.lo if isinstance(e, Number) else self.s.condition_word(e) for e in lanes]
        if word == POWERS:
            return [self._power(code, inverse) for code in codes]
        format = code_format(word)
        if format.float is None:
            raise UndefinedSchema(f"scales of format '{word}'")
        return [self.small(format.float, code) for code in codes]

    def _power(self, code: Word, inverse: bool) -> Element:
        """A power of two or its inverse; the last code is NaN."""
        s, arith = self.s, self.s.arith
        code = arith.binary("and", code, 0xFF)
        if inverse:
            # The last code becomes -1, which is above it as well.
            code = arith.sub(254, code)
        last = Mask(s.emit.op("v_cmp_le_u32", 0xFF, s.emit.register(code, False)))
        if self.work is F64:
            high = arith.binary("shl", arith.binary("add", code, 1023 - 127), 20)
            return Number((0, arith.select(last, 0x7FF80000, high)))
        # The least power is half of the least normal number.
        above = Mask(s.emit.op("v_cmp_le_u32", 1, s.emit.register(code, False)))
        word = arith.select(above, arith.binary("shl", code, 23), 0x00400000)
        return Number((arith.select(last, 0x7FC00000, word),))
