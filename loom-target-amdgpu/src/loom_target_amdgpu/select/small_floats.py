"""Floats of at most 8 bits as f32 and back, by their fields.

8-bit formats are those of the OCP 8-bit Floating Point Specification 1.0, narrower ones those of the OCP
Microscaling Formats specification 1.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loom.ir.records import record
from loom_target_amdgpu.select.selector import Selector
from loom_target_amdgpu.select.values import Mask, Word

_SIGN: Final = 0x80000000
_INFINITY: Final = 0x7F800000
_NAN: Final = 0x7FC00000


@record
class SmallFloat:
    """A format of ``width`` bits: ``fraction`` bits below a biased exponent below a sign.

    ``largest`` is the code of the largest finite magnitude, ``overflow`` the one that too large magnitudes become
    (infinity, or ``largest`` again), ``nan`` a NaN (``None``: every code is a finite number).
    """

    width: int
    fraction: int
    bias: int
    largest: int
    overflow: int
    nan: int | None = None
    instruction: str | None = None
    """The format in names of conversion instructions of processors that have them."""


SMALL_FLOATS: Final[Mapping[str, SmallFloat]] = {
    "f8E4M3": SmallFloat(8, 3, 7, 0x7E, 0x7E, 0x7F, "fp8"),
    "f8E5M2": SmallFloat(8, 2, 15, 0x7B, 0x7C, 0x7E, "bf8"),
    "f6e2m3": SmallFloat(6, 3, 1, 0x1F, 0x1F),
    "f6e3m2": SmallFloat(6, 2, 3, 0x1F, 0x1F),
    "f4e2m1": SmallFloat(4, 1, 1, 0x7, 0x7),
}


def from_small_float(s: Selector, word: Word, format: SmallFloat) -> Word:
    """The number of a code in the low bits of a word as f32; other bits of the word do not matter.

    Exponent and fraction move to f32's place, a multiplication corrects the bias.
    """
    arith, emit = s.arith, s.emit
    instruction = f"v_cvt_f32_{format.instruction}"
    if format.instruction is not None and s.processor.has_ocp_float8 and emit.has(instruction):
        return emit.op(instruction, emit.register(word, False))
    code = arith.binary("and", word, (1 << (format.width - 1)) - 1)
    shift = 23 - format.fraction
    factor = (127 + 127 - format.bias) << 23
    size: Word = emit.op("v_mul_f32", factor, emit.register(arith.binary("shl", code, shift), False))
    if format.nan is not None:
        special = Mask(emit.op("v_cmp_lt_u32", format.largest, emit.register(code, False)))
        # Above the largest number: NaN, and where there is one first of all infinity, with the fraction as it is.
        fraction = arith.binary("shl", arith.binary("and", code, (1 << format.fraction) - 1), shift)
        has_infinity = format.overflow != format.largest
        size = arith.select(special, arith.binary("or", fraction, _INFINITY) if has_infinity else _NAN, size)
    return arith.binary("or", size, arith.binary("and", arith.binary("shl", word, 32 - format.width), _SIGN))


def to_small_float(s: Selector, word: Word, format: SmallFloat, saturate: bool = False) -> Word:
    """The code of an f32, nearest even, in the low bits of a word whose other bits are zero.

    With ``saturate`` too large magnitudes become the largest finite one, infinity among them. A NaN becomes the
    format's, and any number where it has none.
    """
    arith, emit = s.arith, s.emit
    dropped = 23 - format.fraction
    least = 1 - format.bias
    size = arith.binary("and", word, _SIGN - 1)
    # Normal numbers round in place: half of the last unit less one, plus the last bit.
    last = arith.binary("and", arith.binary("shru", size, dropped), 1)
    rounded = arith.binary("add", arith.binary("add", size, (1 << (dropped - 1)) - 1), last)
    code = arith.binary("shru", rounded, dropped)
    code = arith.sub(code, (127 - format.bias) << format.fraction)
    code = arith.binary("minu", code, format.largest if saturate else format.overflow)
    # Adding 2^23 units of the smallest subnormal leaves the multiple of that unit in the lowest bits.
    magic = (127 + 23 + least - format.fraction) << 23
    small = arith.sub(emit.op("v_add_f32", magic, emit.register(size, False)), magic)
    code = arith.select(Mask(emit.op("v_cmp_gt_u32", (127 + least) << 23, size)), small, code)
    if format.nan is not None:
        nan = Mask(emit.op("v_cmp_lt_u32", _INFINITY, size))
        code = arith.select(nan, format.nan, code)
    sign = arith.binary("and", arith.binary("shru", word, 32 - format.width), 1 << (format.width - 1))
    return arith.binary("or", code, sign)
