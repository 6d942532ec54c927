"""Scalar register codes and inline constants of each family.

Codes are the operand codes of ``isa.tables``. The names and numbers come from ``data/registers.csv``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from loom.ir.records import record
from loom_target_amdgpu.isa.data_files import family_records
from loom_target_amdgpu.isa.tables import AGPR, LITERAL, OFF, VGPR

VCC = 106
EXEC = 126
SCC = 253
INLINE_INTEGER_ZERO = 128
"""Code of the inline integer 0; 1..64 follow, then -1..-16."""

_SGPR_COUNT = {"gfx942": 102, "gfx11": 106, "gfx12": 106}

# Bit patterns of inline float codes by the width the operand reads (LLVM AMDGPU usage guide, "Operands";
# 1/(2*pi) is rounded to nearest even in every format).
_FLOAT_VALUES = {240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0}
INV_2PI_CODE = 248
_INV_2PI = {"f16": 0x3118, "bf16": 0x3E23, "f32": 0x3E22F983, "f64": 0x3FC45F306DC9C882}
_PACK = {"f16": "<e", "f32": "<f", "f64": "<d"}

# Bits an inline constant fills, and whose float patterns it uses. Packed halves read a 32-bit constant: a
# float pattern is in the low half, the high half zero; packed words read one per half, the low one given
# here.
_TYPES: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "f16": (16, "f16"),
        "bf16": (16, "bf16"),
        "i16": (16, "f32"),
        "f32": (32, "f32"),
        "i32": (32, "f32"),
        "f64": (64, "f64"),
        "i64": (64, "f64"),
        "v2f16": (32, "f16"),
        "v2bf16": (32, "bf16"),
        "v2i16": (32, "f32"),
        "v2f32": (32, "f32"),
        "v2i32": (32, "f32"),
    }
)


def _float_bits(value: float, const_type: str) -> int:
    if const_type == "bf16":
        return int(struct.unpack("<I", struct.pack("<f", value))[0]) >> 16
    return int.from_bytes(struct.pack(_PACK[const_type], value), "little")


@cache
def inline_floats(const_type: str) -> Mapping[int, int]:
    """Bit pattern of every inline float code, read as ``f16``, ``bf16``, ``f32`` or ``f64``.

    Raises:
        KeyError: not a floating-point type.
    """
    table = {code: _float_bits(value, const_type) for code, value in _FLOAT_VALUES.items()}
    table[INV_2PI_CODE] = _INV_2PI[const_type]
    return MappingProxyType(table)


@cache
def _codes_by_bits(const_type: str) -> Mapping[int, int]:
    return MappingProxyType({bits: code for code, bits in inline_floats(const_type).items()})


def inline_code(value: int, const_type: str) -> int | None:
    """The inline constant whose bits, as an operand of ``const_type`` reads them, equal ``value``.

    Args:
        value: a bit pattern of the type's width; negative integers may be given as such.
        const_type: an operand's ``const_type``: ``i16``, ``i32``, ``i64``, ``f16``, ``bf16``, ``f32``,
            ``f64``, or one of the packed types, which take 32 bits.

    Returns:
        An operand code, or None when the value needs a literal or a register.

    Raises:
        KeyError: not a constant type.
    """
    width, floats = _TYPES[const_type]
    bits = value & ((1 << width) - 1)
    if bits <= 64:
        return INLINE_INTEGER_ZERO + bits
    negative = (1 << width) - bits
    if negative <= 16:
        return INLINE_INTEGER_ZERO + 64 + negative
    # A 16-bit integer operand reads the low half of an f32 pattern, which is no useful constant.
    return None if const_type == "i16" else _codes_by_bits(floats).get(bits)


def constant_bits(code: int, const_type: str) -> int | None:
    """The bits an inline constant code puts into an operand of ``const_type``; None when it is no constant.

    Integer codes are sign-extended to the type's width. A float code read by an integer operand gives the f32
    pattern
    (f64 for ``i64``, the low half of f32 for ``i16``), which is how LLVM's assembler encodes such operands.

    Raises:
        KeyError: not a constant type.
    """
    width, floats = _TYPES[const_type]
    if INLINE_INTEGER_ZERO <= code <= INLINE_INTEGER_ZERO + 64:
        return code - INLINE_INTEGER_ZERO
    if INLINE_INTEGER_ZERO + 64 < code <= INLINE_INTEGER_ZERO + 80:
        return (INLINE_INTEGER_ZERO + 64 - code) & ((1 << width) - 1)
    if 240 <= code <= INV_2PI_CODE:
        return inline_floats(floats)[code] & ((1 << width) - 1)
    return None


@record
class RegisterMap:
    """Names of a family's operand codes.

    Attributes:
        family: the family's name.
        sgpr_count: plain scalar registers, from code 0.
        names: names of the other scalar codes, such as 106 -> ``vcc_lo``.
        pairs: 64-bit names, such as 106 -> ``vcc``.
        codes: codes by name, single and pair names together.
    """

    family: str
    sgpr_count: int
    names: Mapping[int, str]
    pairs: Mapping[int, str]
    codes: Mapping[str, int]

    @property
    def valid_sources(self) -> frozenset[int]:
        """Codes below 256 that a source field may hold."""
        constants = set(range(128, 209)) | set(range(240, 249)) | {LITERAL}
        return frozenset(set(range(self.sgpr_count)) | set(self.names) | constants)

    @property
    def null(self) -> int | None:
        """Code of the null register, or None on families without one."""
        return self.codes.get("null")

    def name(self, code: int, dwords: int = 1) -> str:
        """Assembly text of a register, inline constant or special code, for an operand of ``dwords``
        registers.

        Raises:
            KeyError: the code names nothing.
        """
        if code == OFF:
            return "off"
        if code >= VGPR:
            return _tuple("a" if code >= AGPR else "v", code & 0xFF, dwords)
        if code < self.sgpr_count:
            return _tuple("s", code, dwords)
        if dwords > 1 and code in self.pairs and self.pairs[code]:
            return self._wide(code, dwords)
        if code in self.names:
            return self.names[code] if dwords == 1 or self.names[code] == "null" else self._wide(code, dwords)
        if 128 <= code <= 208:
            return str(code - 128 if code <= 192 else 192 - code)
        if code == INV_2PI_CODE:
            return "0.15915494" if dwords == 1 else "0.15915494309189532"
        if code in _FLOAT_VALUES:
            return str(_FLOAT_VALUES[code])
        raise KeyError(f"{self.family} has no operand code {code}")

    def _wide(self, code: int, dwords: int) -> str:
        name = self.names[code]
        if name.startswith("ttmp"):
            return _tuple("ttmp", int(name[4:]), dwords)
        return self.pairs.get(code) or name


def _tuple(letter: str, first: int, dwords: int) -> str:
    return f"{letter}{first}" if dwords == 1 else f"{letter}[{first}:{first + dwords - 1}]"


@cache
def registers(family: str) -> RegisterMap:
    """The register map of a family.

    Raises:
        KeyError: the family has no tables.
    """
    names: dict[int, str] = {}
    pairs: dict[int, str] = {}
    codes: dict[str, int] = {}
    for code_text, name, pair in family_records("registers.csv", family):
        code = int(code_text)
        names[code] = name
        codes[name] = code
        # Trap register pairs are spelled like tuples, and the odd half repeats the even half's pair name.
        if pair and "[" not in pair:
            pairs[code] = pair
            codes[pair] = code
    return RegisterMap(
        family=family,
        sgpr_count=_SGPR_COUNT[family],
        names=MappingProxyType(names),
        pairs=MappingProxyType(pairs),
        codes=MappingProxyType(codes),
    )
