"""Bit fields and bit streams across lanes, quantization against thresholds, Hadamard transforms, small float dots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from loom.ir.attributes import Encoding
from loom.ir.types import F32, F64, I1, ScalarType, Type
from loom_target_amdgpu.select.compare import compare_words
from loom_target_amdgpu.select.powers import bits64
from loom_target_amdgpu.select.scalar_float import compare_floats
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.small_floats import SMALL_FLOATS, from_small_float
from loom_target_amdgpu.select.values import Condition, Mask, Number, Vector, Word
from loom_target_amdgpu.select.vector_lanes import Element, apply_scalar, element_type, elements, placeholder, shape

# -- bit fields and streams ------------------------------------------------------------------------------------------


def _insert(s: Selector, op: Any) -> None:
    """Low bits of the field over the base's."""
    width, offset = op.width, op.offset
    bits = element_type(op.base).width
    mask = ((1 << width) - 1) << offset
    found: list[Element] = []
    for base, field in zip(elements(s, op.base), elements(s, op.field), strict=True):
        assert isinstance(base, Number)
        assert isinstance(field, Number)
        if bits == 64:
            found.append(_insert_wide(s, base, field, offset, width))
            continue
        moved = s.arith.binary("and", s.arith.binary("shl", field.lo, offset), mask)
        kept = s.arith.binary("and", base.lo, ~mask & 0xFFFFFFFF)
        found.append(Number((s.arith.binary("or", kept, moved),)))
    s.set(op.result, Vector(tuple(found)))


def _insert_wide(s: Selector, base: Number, field: Number, offset: int, width: int) -> Number:
    arith = s.arith
    mask = ((1 << width) - 1) << offset
    high: Word = field.words[1] if len(field.words) == 2 else 0
    moved = arith.shift64("shl", (field.lo, high), offset)
    pairs = zip(moved, base.words, (mask & 0xFFFFFFFF, mask >> 32), strict=True)
    words = [
        arith.binary("or", arith.binary("and", m, part), arith.binary("and", b, ~part & 0xFFFFFFFF))
        for m, b, part in pairs
    ]
    return Number(tuple(words))


def words_of_elements(s: Selector, values: Sequence[Element], width: int) -> list[Word]:
    """The low ``width`` bits of every element as one bit string, in words; the last one may be partly filled."""
    arith = s.arith
    words: list[Word] = []
    position = 0
    for element in values:
        parts: tuple[Word, ...] = element.words if isinstance(element, Number) else (s.condition_word(element),)
        for first in range(0, width, 32):
            taken = min(32, width - first)
            part = arith.extend(parts[first // 32], taken, False)
            index, within = divmod(position + first, 32)
            while len(words) <= (position + first + taken - 1) // 32:
                words.append(0)
            words[index] = arith.binary("or", words[index], arith.binary("shl", part, within))
            if within + taken > 32:
                words[index + 1] = arith.binary("or", words[index + 1], arith.binary("shru", part, 32 - within))
        position += width
    return words


def fields_of_words(s: Selector, words: list[Word], width: int, count: int, signed: bool, bits: int) -> list[Element]:
    """Fields of a bit string as integers of ``bits`` bits."""
    arith = s.arith
    found: list[Element] = []
    for number in range(count):
        parts: list[Word] = []
        for first in range(0, width, 32):
            taken = min(32, width - first)
            index, within = divmod(number * width + first, 32)
            part = arith.binary("shru", words[index], within)
            if within + taken > 32:
                part = arith.binary("or", part, arith.binary("shl", words[index + 1], 32 - within))
            last = first + 32 >= width
            parts.append(arith.extend(part, taken, signed and last) if taken < 32 else part)
        if bits == 64 and len(parts) == 1:
            parts.append(arith.sign(parts[0]) if signed else 0)
        if bits == 1:
            found.append(compare_words(s, "ne", (parts[0],), (0,)))
        else:
            found.append(Number(tuple(parts)))
    return found


def _pack(s: Selector, op: Any) -> None:
    words = words_of_elements(s, elements(s, op.source), op.width)
    bits = element_type(op.result).width
    s.set(op.result, Vector(tuple(fields_of_words(s, words, bits, math.prod(shape(op.result)), False, bits))))


def _unpack(s: Selector, op: Any) -> None:
    words = words_of_elements(s, elements(s, op.source), element_type(op.source).width)
    bits = element_type(op.result).width
    signed = op.name.endswith("unpacks")
    s.set(op.result, Vector(tuple(fields_of_words(s, words, op.width, math.prod(shape(op.result)), signed, bits))))


def _bitcast(s: Selector, op: Any) -> None:
    """Lanes laid end to end and cut anew."""
    source, target = element_type(op.input), element_type(op.result)
    if source.width == target.width:
        s.set(op.result, s.get(op.input))
        return
    words = words_of_elements(s, elements(s, op.input), source.width)
    count = math.prod(shape(op.result))
    s.set(op.result, Vector(tuple(fields_of_words(s, words, target.width, count, False, target.width))))


# -- tables and transforms -------------------------------------------------------------------------------------------


def _quantize(s: Selector, op: Any) -> None:
    """How many thresholds lie below each lane."""
    type_, code = element_type(op.source), element_type(op.result)
    thresholds = elements(s, op.thresholds)
    predicate = "olt" if op.tie == "lower" else "ole"
    found: list[Element] = []
    for value in elements(s, op.source):
        count: Word = 0
        for threshold in thresholds:
            below = _compare(s, op, predicate, threshold, value, type_)
            count = s.arith.binary("add", count, s.condition_word(below))
        if op.nan == "max":
            nan = _compare(s, op, "uno", value, value, type_)
            assert isinstance(nan, Mask)
            count = s.arith.select(nan, len(thresholds), count)
        if code is I1:
            found.append(compare_words(s, "ne", (count,), (0,)))
        else:
            found.append(Number((count, 0) if code.width == 64 else (count,)))
    s.set(op.result, Vector(tuple(found)))


def _compare(s: Selector, op: Any, predicate: str, a: Element, b: Element, type_: ScalarType) -> Condition:
    return compare_floats(s, op, predicate, placeholder(s, a, type_), placeholder(s, b, type_))


def _transform(s: Selector, op: Any) -> None:
    """A Hadamard transform along the last axis: sums in f64, in order of lanes, rounded once after scaling."""
    encoding: Any = op.transform.defining_op
    spec = encoding.definition if encoding is not None and encoding.name == "encoding.define" else None
    if not isinstance(spec, Encoding) or spec.family != "transform.hadamard":
        raise s.unsupported(op, f"this numeric transform is not supported on {s.processor.name}")
    type_, extents = element_type(op.result), shape(op.result)
    count = extents[-1]
    values = elements(s, op.source)
    wide = [_step(s, "extf", [(v, type_)], F64) if type_ is not F64 else v for v in values]
    scale = None
    if spec.param("normalization", "none") != "none":
        pattern = bits64(1 / math.sqrt(count))
        scale = Number((pattern & 0xFFFFFFFF, pattern >> 32))
    found: list[Element] = []
    for first in range(0, len(values), count):
        for o in range(count):
            total: Element = wide[first]
            for i in range(1, count):
                name = "subf" if (o & i).bit_count() & 1 else "addf"
                total = _step(s, name, [(total, F64), (wide[first + i], F64)], F64)
            # The sum starts at zero: minus zero alone becomes zero.
            if count == 1:
                total = _step(s, "addf", [(Number((0, 0)), F64), (total, F64)], F64)
            if scale is not None:
                total = _step(s, "mulf", [(total, F64), (scale, F64)], F64)
            found.append(total if type_ is F64 else _step(s, "fptrunc", [(total, F64)], type_))
    s.set(op.result, Vector(tuple(found)))


def _step(s: Selector, name: str, operands: list[tuple[Element, Type]], result: ScalarType) -> Element:
    return apply_scalar(s, name, operands, result)


# -- dot products of narrow floats -----------------------------------------------------------------------------------


def _dot2(s: Selector, op: Any) -> None:
    """Two fused steps in order; the hardware's own dot product rounds in other places."""
    type_ = element_type(op.lhs)
    lhs, rhs = (
        [apply_scalar(s, "extf", [(e, type_)], F32) for e in elements(s, v)] for v in (op.lhs, op.rhs)
    )
    found: list[Element] = []
    for i, total in enumerate(elements(s, op.acc)):
        for k in (2 * i, 2 * i + 1):
            total = apply_scalar(s, "fmaf", [(lhs[k], F32), (rhs[k], F32), (total, F32)], F32)
        found.append(total)
    s.set(op.result, Vector(tuple(found)))


_F8: Final = {"fp8": "f8E4M3", "bf8": "f8E5M2"}


def _dot4_f8(s: Selector, op: Any) -> None:
    """Four fused steps in order of bytes; the hardware's own dot product rounds in other places."""
    left, right = _F8[op.formats[:3]], _F8[op.formats[3:]]
    found: list[Element] = []
    for a, b, total in zip(elements(s, op.lhs), elements(s, op.rhs), elements(s, op.acc), strict=True):
        assert isinstance(a, Number)
        assert isinstance(b, Number)
        for k in range(4):
            parts = [(s.arith.binary("shru", n.lo, 8 * k), f) for n, f in ((a, left), (b, right))]
            x, y = (Number((from_small_float(s, word, SMALL_FLOATS[format]),)) for word, format in parts)
            total = apply_scalar(s, "fmaf", [(x, F32), (y, F32), (total, F32)], F32)
        found.append(total)
    s.set(op.result, Vector(tuple(found)))


RULES: Final[dict[str, Rule]] = {
    "vector.bitfield.insert": _insert,
    "vector.bitcast": _bitcast,
    "vector.bitpack": _pack,
    "vector.bitunpacku": _unpack,
    "vector.bitunpacks": _unpack,
    "vector.table.quantize": _quantize,
    "vector.transform": _transform,
    "vector.dot2f": _dot2,
    "vector.dot4f8": _dot4_f8,
}
