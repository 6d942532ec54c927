"""Reductions and dot products of vectors."""

from __future__ import annotations

from typing import Any, Final

from loom.ir.core import Op
from loom.ir.types import ScalarType, ShapedType
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import Number, Vector, Word
from loom_target_amdgpu.select.vector_lanes import (
    Element,
    apply_scalar,
    coordinates,
    element_type,
    elements,
    flat,
    shape,
)


def combine(s: Selector, op: Op, kind: str, a: Element, b: Element, type_: ScalarType) -> Element:
    """Two elements combined by a combining kind, which is the name of a scalar operation."""
    return apply_scalar(s, kind, [(a, type_), (b, type_)], type_)


def _reduce(s: Selector, op: Any) -> None:
    type_ = element_type(op.source)
    total = elements(s, op.init)[0]
    for element in elements(s, op.source):
        total = combine(s, op, str(op.kind), total, element, type_)
    s.set(op.result, total)


def _reduce_axes(s: Selector, op: Any) -> None:
    source = shape(op.source)
    type_ = element_type(op.source)
    kept = [axis for axis in range(len(source)) if axis not in op.axes]
    extents = [source[axis] for axis in kept]
    totals = list(elements(s, op.init))
    values = elements(s, op.source)
    for position in coordinates(source):
        at = flat([position[axis] for axis in kept], extents)
        totals[at] = combine(s, op, str(op.kind), totals[at], values[flat(position, source)], type_)
    s.set(op.result, Vector(tuple(totals)) if isinstance(op.result.type, ShapedType) else totals[0])


def _dot_float(s: Selector, op: Any) -> None:
    """A chain of fused multiply-adds in lane order, in the accumulator's type."""
    type_ = element_type(op.acc)
    own = element_type(op.lhs)
    total = elements(s, op.acc)[0]
    for a, b in zip(elements(s, op.lhs), elements(s, op.rhs), strict=True):
        if own is not type_:
            a, b = (apply_scalar(s, "extf", [(x, own)], type_) for x in (a, b))
        total = apply_scalar(s, "fmaf", [(a, type_), (b, type_), (total, type_)], type_)
    s.set(op.result, total)


_DOT4: Final = {
    "s8s8": "v_dot4_i32_i8",
    "u8u8": "v_dot4_u32_u8",
    "s8u8": "v_dot4_i32_iu8_s8u8",
    "u8s8": "v_dot4_i32_iu8_u8s8",
}
_DOT8: Final = {
    "s4s4": "v_dot8_i32_i4",
    "u4u4": "v_dot8_u32_u4",
    "s4u4": "v_dot8_i32_iu4_s4u4",
    "u4s4": "v_dot8_i32_iu4_u4s4",
}


def _dot4i(s: Selector, op: Any) -> None:
    lhs, rhs, acc = elements(s, op.lhs), elements(s, op.rhs), elements(s, op.acc)
    mnemonic = _DOT4[op.signs]
    found: list[Element] = []
    for i, total in enumerate(acc):
        a, b = lhs[4 * i : 4 * i + 4], rhs[4 * i : 4 * i + 4]
        assert isinstance(total, Number)
        if s.emit.has(mnemonic):
            packed = [_pack_bytes(s, quad) for quad in (a, b)]
            found.append(Number((s.emit.op(mnemonic, packed[0], packed[1], total.lo),)))
        else:
            found.append(_dot_by_parts(s, a, b, total, op.signs[0] == "s", op.signs[2] == "s"))
    s.set(op.result, Vector(tuple(found)))


def _dot_by_parts(
    s: Selector, a: tuple[Element, ...], b: tuple[Element, ...], total: Number, signed_a: bool, signed_b: bool
) -> Number:
    word = total.lo
    for x, y in zip(a, b, strict=True):
        assert isinstance(x, Number)
        assert isinstance(y, Number)
        product = s.arith.multiply(s.arith.extend(x.lo, 8, signed_a), s.arith.extend(y.lo, 8, signed_b))
        word = s.arith.binary("add", word, product)
    return Number((word,))


def _pack_bytes(s: Selector, quad: tuple[Element, ...]) -> Word:
    """Four bytes in a word. Bytes that were loaded together are still together."""
    words = [e.lo for e in quad if isinstance(e, Number)]
    source = _common_word(words)
    if source is not None:
        return source
    from loom_target_amdgpu.select.vector_memory import pack

    return pack(s, [(word,) for word in words], 1)[0]


def _common_word(words: list[Word]) -> Word | None:
    """The word whose bytes 0, 1, 2, 3 these are."""
    from loom.dialects.low.ops import Packet

    first = words[0]
    if isinstance(first, int):
        return None
    for k, word in enumerate(words[1:], 1):
        if isinstance(word, int):
            return None
        op = word.defining_op
        if (
            not isinstance(op, Packet)
            or first not in op.operands
            or not op.key.endswith(("lshrrev_b32.src0_inline", "lshr_b32.rhs_inline"))
        ):
            return None
        if (op.immediates or {}).get("imm32") != 8 * k:
            return None
    return first


def _dot8i4(s: Selector, op: Any) -> None:
    mnemonic = _DOT8[op.signs]
    if not s.emit.has(mnemonic):
        raise s.unsupported(op, f"'{op.name}<{op.signs}>' is not supported on {s.processor.name}")
    found = []
    for a, b, total in zip(elements(s, op.lhs), elements(s, op.rhs), elements(s, op.acc), strict=True):
        assert isinstance(a, Number)
        assert isinstance(b, Number)
        assert isinstance(total, Number)
        found.append(Number((s.emit.op(mnemonic, a.lo, b.lo, total.lo),)))
    s.set(op.result, Vector(tuple(found)))


RULES: Final[dict[str, Rule]] = {
    "vector.reduce": _reduce,
    "vector.reduce.axes": _reduce_axes,
    "vector.dotf": _dot_float,
    "vector.dot4i": _dot4i,
    "vector.dot8i4": _dot8i4,
}
