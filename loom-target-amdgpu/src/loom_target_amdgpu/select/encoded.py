"""Decoding of payloads whose schema is known: codes of integers and small floats with scales and offsets.

The logical value is computed in f64 and rounded once, or in f32 where that gives the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from loom.facts.schemas import (
    FIELD_ORDERS,
    GROUPS,
    OFFSETS,
    ONE_EACH,
    TWO_LEVELS,
    Schema,
    UndefinedSchema,
    plain_schema,
)
from loom.ir.attributes import Encoding
from loom.ir.types import BF16, F16, F32, F64, I32, ScalarType
from loom_target_amdgpu.select.conversions import from_f8
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import Mask, Number, Vector, Word
from loom_target_amdgpu.select.vector_bits import fields_of_words, words_of_elements
from loom_target_amdgpu.select.vector_lanes import Element, apply_scalar, coordinates, element_type, elements, shape


@attrs.frozen
class _Format:
    """Width and bits of significand of a code; ``small`` are the mantissa bits and bias of a float without specials.

    ``byte`` names an 8-bit float.
    """

    width: int
    significand: int
    signed: bool = False
    small: tuple[int, int] | None = None
    byte: str | None = None


_INTEGER: Final = re.compile(r"(i|u|quant_i)([1-9]|[12][0-9]|3[0-2])")
_FLOATS: Final[Mapping[str, _Format]] = {
    "f4e2m1": _Format(4, 2, small=(1, 1)),
    "f6e2m3": _Format(6, 4, small=(3, 1)),
    "f6e3m2": _Format(6, 3, small=(2, 3)),
    "bf6": _Format(6, 3, small=(2, 3)),
    "f8e4m3fn": _Format(8, 4, byte="f8E4M3"),
    "f8e5m2": _Format(8, 3, byte="f8E5M2"),
    "bf8": _Format(8, 3, byte="f8E5M2"),
}
_EXPONENT: Final = "e8m0"
_SIGNIFICANDS: Final = {F16: 11, BF16: 8, F32: 24}


def _format(name: str) -> _Format:
    integer = _INTEGER.fullmatch(name)
    if integer is not None:
        return _Format(int(integer[2]), int(integer[2]), signed=integer[1] != "u")
    found = _FLOATS.get(name)
    if found is None:
        raise UndefinedSchema(f"values of format '{name}'")
    return found


def _is_integer(format: _Format) -> bool:
    return format.small is None and format.byte is None


def _decode(s: Selector, op: Any) -> None:
    maker: Any = op.schema.defining_op
    if maker is None or maker.name != "encoding.define" or maker.params or not isinstance(maker.definition, Encoding):
        raise s.unsupported(op, f"a schema that is not known is not supported on {s.processor.name}")
    try:
        schema = plain_schema(maker.definition)
        s.set(op.result, Vector(tuple(_Decoder(s, op, schema).values())))
    except UndefinedSchema as reason:
        raise s.unsupported(op, f"'{op.name}' of {reason} is not supported on {s.processor.name}") from None


class _Decoder:
    """One ``vector.decode``. Its methods raise `UndefinedSchema`."""

    def __init__(self, s: Selector, op: Any, schema: Schema) -> None:
        self._s, self._op, self._schema = s, op, schema
        if schema.codebook:
            raise UndefinedSchema("codes of a code book")
        self._format = _format(schema.element_format)
        self._result = element_type(op.result)
        self._auxiliaries = dict(zip(op.keys or (), op.aux, strict=True))
        self._work = F32 if self._fits_f32() else F64

    def values(self) -> list[Element]:
        if self._result not in (F16, BF16, F32, F64):
            raise UndefinedSchema(f"values as {self._result.text}")
        extents = shape(self._op.result)
        found = [self._value(code) for code in self._codes(math.prod(extents))]
        groups = self._groups(extents)
        offset = OFFSETS.get(self._schema.affine)
        if offset == "zero_point":
            found = self._each("subf", found, self._term(offset, "none"), groups[-1])
        formats = (self._schema.scale_format, self._schema.secondary_format)
        named = zip(self._schema.scales, formats, groups, strict=False)
        scales = [self._spread(name, self._term(name, code), group) for name, code, group in named]
        if len(scales) == 2:
            # Scales of the same groups are multiplied once.
            products: dict[tuple[int, int], Element] = {}
            for key, a, b in zip(zip(groups[0], groups[1], strict=True), *scales, strict=True):
                if key not in products:
                    products[key] = self._apply("mulf", a, b)
            scales = [[products[key] for key in zip(groups[0], groups[1], strict=True)]]
        if scales:
            found = [self._apply("mulf", v, scale) for v, scale in zip(found, scales[0], strict=True)]
        if offset is not None and offset != "zero_point":
            found = self._each("addf", found, self._term(offset, "none"), groups[-1])
        if self._result is self._work:
            return found
        name = "extf" if self._result is F64 else "fptrunc"
        return [apply_scalar(self._s, name, [(v, self._work)], self._result) for v in found]

    def _fits_f32(self) -> bool:
        """No step but the last rounds, in f32 as in f64."""
        offset = OFFSETS.get(self._schema.affine)
        bits = self._format.significand
        if len(self._schema.scales) > 1 or offset not in (None, "zero_point"):
            return False
        if offset is not None:
            lanes = self._type(offset)
            if not _is_integer(self._format) or lanes in _SIGNIFICANDS or lanes is F64:
                return False
            bits = max(bits, lanes.width) + 1
        scale = 0
        for name in self._schema.scales:
            type_ = self._type(name)
            scale = 8 if type_ not in (*_SIGNIFICANDS, F64) else _SIGNIFICANDS.get(type_, 53)
        if scale > 24 or bits > 24:
            return False
        return self._result is F32 or (self._result in (F16, BF16) and bits + scale <= 24)

    def _type(self, name: str) -> ScalarType:
        if name not in self._auxiliaries:
            raise UndefinedSchema(f"a payload without '{name}'")
        return element_type(self._auxiliaries[name])

    def _apply(self, name: str, a: Element, b: Element) -> Element:
        return apply_scalar(self._s, name, [(a, self._work), (b, self._work)], self._work)

    def _each(self, name: str, values: list[Element], terms: list[Element], groups: Sequence[int]) -> list[Element]:
        spread = self._spread(self._schema.affine, terms, groups)
        return [self._apply(name, v, term) for v, term in zip(values, spread, strict=True)]

    def _spread(self, name: str, terms: list[Element], groups: Sequence[int]) -> list[Element]:
        if max(groups, default=0) >= len(terms):
            raise UndefinedSchema(f"{max(groups) + 1} groups with {len(terms)} lanes of '{name}'")
        return [terms[group] for group in groups]

    def _groups(self, extents: tuple[int, ...]) -> tuple[list[int], list[int], list[int]]:
        """The group of each element for the first scale, the second one, and for offsets."""
        schema, count = self._schema, math.prod(extents)
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

    def _codes(self, count: int) -> list[Word]:
        """The code of each element in a register, of integers extended as they are."""
        s, format, packing = self._s, self._format, self._schema.packing
        given, carrier = elements(s, self._op.input), element_type(self._op.input)
        signed = format.signed
        if packing in ONE_EACH:
            if len(given) != count or carrier.width < format.width:
                raise UndefinedSchema(f"{count} elements in {len(given)} lanes of {carrier.text}")
            lanes = [e.lo if isinstance(e, Number) else s.condition_word(e) for e in given]
            return [s.arith.extend(lo, format.width, signed) if format.width < 32 else lo for lo in lanes]
        order = FIELD_ORDERS.get(packing)
        if order is None or (format.width != 4 and packing != "bitfield_stream"):
            raise UndefinedSchema(f"the packing '{packing}' of codes of {format.width} bits")
        if len(given) * carrier.width != count * format.width:
            raise UndefinedSchema(f"{count} elements of {format.width} bits in {len(given) * carrier.width} bits")
        words = words_of_elements(s, given, carrier.width)
        fields = fields_of_words(s, words, format.width, count, signed, 32)
        ordered = [fields[order(n)] for n in range(count)]
        return [field.lo for field in ordered if isinstance(field, Number)]

    def _value(self, code: Word) -> Element:
        """The value of an element's code."""
        if _is_integer(self._format):
            name = "sitofp" if self._format.signed else "uitofp"
            return apply_scalar(self._s, name, [(Number((code,)), I32)], self._work)
        return self._small(self._format, code)

    def _small(self, format: _Format, code: Word) -> Element:
        """A small float in the type of the computation; every one is exact in f32."""
        s, arith = self._s, self._s.arith
        if format.byte is not None:
            word = from_f8(s, code, format.byte)
        else:
            assert format.small is not None
            mantissa, bias = format.small
            sign = 1 << (format.width - 1)
            size = arith.binary("shl", arith.binary("and", code, sign - 1), 23 - mantissa)
            # Exponent and fraction move to f32's place; a multiplication corrects the bias.
            factor = (127 + 127 - bias) << 23
            size = s.emit.op("v_mul_f32", factor, s.emit.register(size, False))
            moved = arith.binary("shl", arith.binary("and", code, sign), 32 - format.width)
            word = arith.binary("or", size, moved)
        return self._wide(Number((word,)), F32)

    def _wide(self, value: Element, type_: ScalarType) -> Element:
        if type_ is self._work:
            return value
        return apply_scalar(self._s, "extf", [(value, type_)], self._work)

    def _term(self, name: str, code_format: str) -> list[Element]:
        """The values of an auxiliary operand; integer lanes of scales hold codes of a format."""
        type_ = self._type(name)
        lanes = elements(self._s, self._auxiliaries[name])
        if type_ in (F16, BF16, F32, F64):
            return [self._wide(e, type_) for e in lanes]
        if code_format == "none":
            if name == "scale":
                raise UndefinedSchema(f"integer lanes of '{name}' without a format")
            return [apply_scalar(self._s, "sitofp", [(e, type_)], self._work) for e in lanes]
        codes = [e.lo if isinstance(e, Number) else self._s.condition_word(e) for e in lanes]
        if code_format == _EXPONENT:
            return [self._power(code) for code in codes]
        format = _format(code_format)
        if _is_integer(format):
            raise UndefinedSchema(f"scales of format '{code_format}'")
        return [self._small(format, self._s.arith.binary("and", code, (1 << format.width) - 1)) for code in codes]

    def _power(self, code: Word) -> Element:
        """A power of two; the last code is NaN."""
        s, arith = self._s, self._s.arith
        code = arith.binary("and", code, 0xFF)
        last = Mask(s.emit.op("v_cmp_le_u32", 0xFF, s.emit.register(code, False)))
        if self._work is F64:
            high = arith.binary("shl", arith.binary("add", code, 1023 - 127), 20)
            return Number((0, arith.select(last, 0x7FF80000, high)))
        # The least power is half of the least normal number.
        above = Mask(s.emit.op("v_cmp_le_u32", 1, s.emit.register(code, False)))
        word = arith.select(above, arith.binary("shl", code, 23), 0x00400000)
        return Number((arith.select(last, 0x7FC00000, word),))


RULES: Final[dict[str, Rule]] = {"vector.decode": _decode}
