"""Scalar arguments as bits."""

from __future__ import annotations

import struct

from loom.facts.floats import round_to
from loom.ir.types import BF16, F16, F32, F64, ScalarType
from loom_target_cmd.records import SCALAR_KINDS, ArgumentKind

_FORMATS = {F64: ("<d", "<Q"), F32: ("<f", "<I"), F16: ("<e", "<H")}


def scalar_kind(type_: ScalarType) -> ArgumentKind:
    """How an entry takes a scalar of a source type; ``i1`` takes a byte."""
    return SCALAR_KINDS[max(8, type_.width)]


def scalar_bits(type_: ScalarType, value: int | float) -> int | None:
    """The bits of a number in a source type, floats rounded to nearest even; ``None`` for formats without a rule."""
    if type_.kind != "float":
        return int(value) & ((1 << type_.width) - 1)
    if type_ is BF16:
        return _bf16_bits(float(value))
    rounded = round_to(float(value), type_)
    if rounded is None:
        return None
    write, read = _FORMATS[type_]
    bits: int = struct.unpack(read, struct.pack(write, rounded))[0]
    return bits


def _bf16_bits(value: float) -> int:
    """The upper half of the f32, rounded once: the f32 is made by truncation with a sticky bit (round to odd)."""
    if value != value:
        return 0x7FC0
    nearest = round_to(value, F32)
    assert nearest is not None
    bits: int = struct.unpack("<I", struct.pack("<f", nearest))[0]
    if nearest != value:
        if abs(nearest) > abs(value):
            bits -= 1
        bits |= 1
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
