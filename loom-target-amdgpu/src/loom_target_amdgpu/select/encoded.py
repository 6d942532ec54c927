"""Decoding of payloads whose schema is known: codes of integers and small floats with scales and offsets.

The logical value is computed in f64 and rounded once, or in f32 where that gives the same.
"""

from __future__ import annotations

import math
from typing import Any, Final

from loom.facts.schemas import OFFSETS, Schema, UndefinedSchema
from loom.ir.types import BF16, F16, F32, F64, I32
from loom_target_amdgpu.select.payloads import Payload
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import Number, Word
from loom_target_amdgpu.select.vector_bits import fields_of_words, words_of_elements
from loom_target_amdgpu.select.vector_lanes import Element, apply_scalar, element_type, elements, shape

_SIGNIFICANDS: Final = {F16: 11, BF16: 8, F32: 24}


class _Decoder(Payload):
    """One ``vector.decode``. Its methods raise `UndefinedSchema`."""

    def __init__(self, s: Selector, op: Any, schema: Schema) -> None:
        super().__init__(s, op, schema)
        self._result = element_type(op.result)
        self.work = F32 if self._fits_f32() else F64

    def lanes(self) -> list[Element]:
        if self._result not in (F16, BF16, F32, F64):
            raise UndefinedSchema(f"values as {self._result.text}")
        extents = shape(self.op.result)
        found = [self._value(code) for code in self._codes(math.prod(extents))]
        groups = self.groups(extents)
        offset = OFFSETS.get(self.schema.affine)
        if offset == "zero_point":
            found = self.shift("subf", found, offset, groups[-1])
        scales = self.scales(groups)
        if scales is not None:
            found = [self.apply("mulf", v, scale) for v, scale in zip(found, scales, strict=True)]
        if offset is not None and offset != "zero_point":
            found = self.shift("addf", found, offset, groups[-1])
        if self._result is self.work:
            return found
        name = "extf" if self._result is F64 else "fptrunc"
        return [apply_scalar(self.s, name, [(v, self.work)], self._result) for v in found]

    def _fits_f32(self) -> bool:
        """No step but the last rounds, in f32 as in f64."""
        offset = OFFSETS.get(self.schema.affine)
        bits = self.format.significand
        if len(self.schema.scales) > 1 or offset not in (None, "zero_point"):
            return False
        if offset is not None:
            lanes = self.auxiliary(offset)
            if self.format.float is not None or lanes in _SIGNIFICANDS or lanes is F64:
                return False
            bits = max(bits, lanes.width) + 1
        scale = 0
        for name in self.schema.scales:
            type_ = self.auxiliary(name)
            scale = 8 if type_ not in (*_SIGNIFICANDS, F64) else _SIGNIFICANDS.get(type_, 53)
        if scale > 24 or bits > 24:
            return False
        return self._result is F32 or (self._result in (F16, BF16) and bits + scale <= 24)

    def _codes(self, count: int) -> list[Word]:
        """The code of each element in a register, of integers extended as they are."""
        s, format = self.s, self.format
        given, carrier = elements(s, self.op.input), element_type(self.op.input)
        places = self.places(count, len(given), carrier)
        if places is None:
            lanes = [e.lo if isinstance(e, Number) else s.condition_word(e) for e in given]
            return [s.arith.extend(lo, format.width, format.signed) if format.width < 32 else lo for lo in lanes]
        words = words_of_elements(s, given, carrier.width)
        fields = fields_of_words(s, words, format.width, count, format.signed, 32)
        ordered = [fields[place] for place in places]
        return [field.lo for field in ordered if isinstance(field, Number)]

    def _value(self, code: Word) -> Element:
        """The value of an element's code."""
        if self.format.float is not None:
            return self.small(self.format.float, code)
        name = "sitofp" if self.format.signed else "uitofp"
        return apply_scalar(self.s, name, [(Number((code,)), I32)], self.work)


RULES: Final[dict[str, Rule]] = {"vector.decode": _Decoder.select}
