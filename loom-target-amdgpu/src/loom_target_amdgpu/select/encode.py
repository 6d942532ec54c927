"""Encoding of logical values as payloads: offsets and scales taken away, rounded once to a code, packed.

The value is computed in f64, or in f32 where that gives the same codes. Values without a code, which the evaluator
refuses, give any code.
"""

from __future__ import annotations

import math
from typing import Any, Final

from loom.facts.schemas import OFFSETS, Schema, UndefinedSchema
from loom.ir.types import BF16, F16, F32, F64, I32
from loom_target_amdgpu.select.conversions import f64_to_odd_f32
from loom_target_amdgpu.select.payloads import POWERS, Payload
from loom_target_amdgpu.select.scalar_float import operand
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.small_floats import to_small_float
from loom_target_amdgpu.select.values import Number, Word
from loom_target_amdgpu.select.vector_bits import fields_of_words, words_of_elements
from loom_target_amdgpu.select.vector_lanes import Element, apply_scalar, element_type, elements, placeholder, shape

_NEAREST: Final = ("none", "nearest_even", "satfinite")
_INTEGER_ROUNDINGS: Final = {
    "none": "truncf",
    "nearest_even": "roundevenf",
    "nearest_away": "roundf",
    "toward_zero": "truncf",
    "down": "floorf",
    "up": "ceilf",
    "satfinite": "roundevenf",
}


class _Encoder(Payload):
    """One ``vector.encode``. Its methods raise `UndefinedSchema`."""

    def __init__(self, s: Selector, op: Any, schema: Schema) -> None:
        super().__init__(s, op, schema)
        self._source = element_type(op.input)
        self._powers = len(schema.scales) == 1 and self._has_powers()
        self.work = F32 if self._fits_f32() else F64

    def lanes(self) -> list[Element]:
        s, carrier = self.s, element_type(self.op.result)
        extents, count = shape(self.op.input), math.prod(shape(self.op.result))
        if self._source not in (F16, BF16, F32, F64):
            raise UndefinedSchema(f"values of {self._source.text}")
        if carrier in (F16, BF16, F32, F64):
            raise UndefinedSchema(f"codes in lanes of {carrier.text}")
        places = self.places(math.prod(extents), count, carrier)
        codes = [self._code(value) for value in self._values(extents)]
        if places is None:
            return [_lane(s, code, carrier.width) for code in codes]
        fields: list[Element] = [Number((0,))] * len(codes)
        for place, code in zip(places, codes, strict=True):
            fields[place] = Number((code,))
        words = words_of_elements(s, fields, self.format.width)
        return fields_of_words(s, words, carrier.width, count, False, carrier.width)

    def _values(self, extents: tuple[int, ...]) -> list[Element]:
        """The values that are rounded to codes."""
        values = elements(self.s, self.op.input)
        found = [self.wide(v, self._source) for v in values]
        groups = self.groups(extents)
        offset = OFFSETS.get(self.schema.affine)
        if offset is not None and offset != "zero_point":
            found = self.shift("subf", found, offset, groups[-1])
        scales = self.scales(groups, self._powers)
        if scales is not None:
            name = "mulf" if self._powers else "divf"
            found = [self.apply(name, v, scale) for v, scale in zip(found, scales, strict=True)]
        if offset == "zero_point":
            found = self.shift("addf", found, offset, groups[-1])
        return found

    def _has_powers(self) -> bool:
        """Whether the scale is a code of a power of two, whose inverse is one as well."""
        lanes = self.auxiliary(self.schema.scales[0])
        return self.schema.scale_format == POWERS and lanes not in (F16, BF16, F32, F64)

    def _fits_f32(self) -> bool:
        """Nothing rounds before the code: what f32 cannot hold of a scaled value is less than half of a code's unit.

        Only the directed roundings see so small a rest.
        """
        if self._source is F64 or self.schema.affine in OFFSETS:
            return False
        return not self.schema.scales or (self._powers and self.schema.rounding in _NEAREST)

    def _code(self, value: Element) -> Word:
        """The code of a value in the low bits of a word whose other bits are zero."""
        assert isinstance(value, Number)
        format, rounding = self.format, self.schema.rounding
        if format.float is not None:
            if rounding not in _NEAREST:
                raise UndefinedSchema(f"rounding '{rounding}' to {self.schema.element_format}")
            wide = self.work is F64
            word = f64_to_odd_f32(self.s, operand(self.s, placeholder(self.s, value, F64))) if wide else value.lo
            return to_small_float(self.s, word, format.float, rounding == "satfinite")
        name = _INTEGER_ROUNDINGS.get(rounding)
        if name is None:
            raise UndefinedSchema(f"rounding '{rounding}' to {self.schema.element_format}")
        whole = apply_scalar(self.s, name, [(value, self.work)], self.work)
        convert = "fptosi" if format.signed else "fptoui"
        found = apply_scalar(self.s, convert, [(whole, self.work)], I32)
        assert isinstance(found, Number)
        return self._within(found.lo, rounding == "satfinite")

    def _within(self, word: Word, clamped: bool) -> Word:
        """An integer's code; conversion has clamped it to 32 bits."""
        arith, width = self.s.arith, self.format.width
        if width == 32:
            return word
        if clamped and self.format.signed:
            high = (1 << (width - 1)) - 1
            word = arith.binary("maxs", arith.binary("mins", word, high), ~high & 0xFFFFFFFF)
        elif clamped:
            return arith.binary("minu", word, (1 << width) - 1)
        return arith.binary("and", word, (1 << width) - 1)


def _lane(s: Selector, code: Word, bits: int) -> Element:
    """A code in a lane of its own."""
    return fields_of_words(s, [code], min(bits, 32), 1, False, bits)[0]


RULES: Final[dict[str, Rule]] = {"vector.encode": _Encoder.select}
