"""Lane-wise arithmetic on pairs of 16-bit elements, where operands come in pairs."""

from __future__ import annotations

from typing import Final

from loom.ir.types import ScalarType
from loom_target_amdgpu.select.selector import Selector
from loom_target_amdgpu.select.values import Number, Vector, Word

# (operation, element type) -> instruction; shifts take their amount first
_INSTRUCTIONS: Final = {
    ("addf", "f16"): "v_pk_add_f16",
    ("subf", "f16"): "v_pk_add_f16_neg_rhs",
    ("mulf", "f16"): "v_pk_mul_f16",
    ("fmaf", "f16"): "v_pk_fma_f16",
    ("addi", "i16"): "v_pk_add_u16",
    ("subi", "i16"): "v_pk_sub_i16",
    ("muli", "i16"): "v_pk_mul_lo_u16",
    ("fmai", "i16"): "v_pk_mad_u16",
    ("minsi", "i16"): "v_pk_min_i16",
    ("maxsi", "i16"): "v_pk_max_i16",
    ("minui", "i16"): "v_pk_min_u16",
    ("maxui", "i16"): "v_pk_max_u16",
    ("shli", "i16"): "v_pk_lshlrev_b16",
    ("shrui", "i16"): "v_pk_lshrrev_b16",
    ("shrsi", "i16"): "v_pk_ashrrev_i16",
}
# Operations on all bits of a word, and the word that does the same to both halves
_BITWISE: Final = {"andi": "and", "ori": "or", "xori": "xor"}
_SIGNS: Final = {"negf": ("xor", 0x80008000), "absf": ("and", 0x7FFF7FFF)}
_HALVES: Final = frozenset({"i16", "f16", "bf16"})


def paired(s: Selector, words: tuple[Word, ...]) -> Vector:
    """A vector of 16-bit elements, two in every word."""
    found = []
    for word in words:
        found += [Number((word,)), Number((s.arith.binary("shru", word, 16),))]
    return Vector(tuple(found), words)


def paired_lanewise(s: Selector, name: str, operands: list[Vector | None], type_: ScalarType) -> Vector | None:
    """A lane-wise operation on pairs; None where there is no such operation or operands come one by one."""
    if type_.text not in _HALVES or any(v is None for v in operands):
        return None
    vectors = [v for v in operands if v is not None]
    if not any(v.halves is not None for v in vectors):
        return None
    columns = [_words(s, v) for v in vectors]
    if any(column is None for column in columns):
        return None
    rows = list(zip(*(column for column in columns if column is not None), strict=True))
    if name in _SIGNS and type_.text != "i16":
        kind, mask = _SIGNS[name]
        return paired(s, tuple(s.arith.binary(kind, word, mask) for (word,) in rows))
    if name in _BITWISE:
        return paired(s, tuple(s.arith.binary(_BITWISE[name], a, b) for a, b in rows))
    mnemonic = _INSTRUCTIONS.get((name, type_.text))
    if mnemonic is None:
        return None
    turned = name.startswith("sh")
    return paired(s, tuple(s.emit.op(mnemonic, *(reversed(row) if turned else row)) for row in rows))


def _words(s: Selector, vector: Vector) -> tuple[Word, ...] | None:
    """The words of an operand: those it came in, or one element in both halves."""
    if vector.halves is not None:
        return vector.halves
    first = vector.elements[0]
    if not isinstance(first, Number) or len(vector.elements) % 2:
        return None
    if any(not isinstance(e, Number) or e.lo is not first.lo for e in vector.elements):
        return None
    low = s.arith.binary("and", first.lo, 0xFFFF)
    return (s.arith.shl_add(low, 16, low),) * (len(vector.elements) // 2)


