"""Integer comparisons of words and word pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loom_target_amdgpu.select.values import MASK32, Condition, Mask, ScalarTest, Word, is_scalar

if TYPE_CHECKING:
    from loom_target_amdgpu.select.selector import Selector

_SCALAR: Final = {
    "eq": "s_cmp_eq_i32",
    "ne": "s_cmp_lg_i32",
    "slt": "s_cmp_lt_i32",
    "sle": "s_cmp_le_i32",
    "sgt": "s_cmp_gt_i32",
    "sge": "s_cmp_ge_i32",
    "ult": "s_cmp_lt_u32",
    "ule": "s_cmp_le_u32",
    "ugt": "s_cmp_gt_u32",
    "uge": "s_cmp_ge_u32",
}
_VECTOR: Final = {
    "eq": "v_cmp_eq_i{}",
    "ne": "v_cmp_ne_i{}",
    "slt": "v_cmp_lt_i{}",
    "sle": "v_cmp_le_i{}",
    "sgt": "v_cmp_gt_i{}",
    "sge": "v_cmp_ge_i{}",
    "ult": "v_cmp_lt_u{}",
    "ule": "v_cmp_le_u{}",
    "ugt": "v_cmp_gt_u{}",
    "uge": "v_cmp_ge_u{}",
}
MIRRORED: Final = {
    "eq": "eq",
    "ne": "ne",
    "slt": "sgt",
    "sle": "sge",
    "sgt": "slt",
    "sge": "sle",
    "ult": "ugt",
    "ule": "uge",
    "ugt": "ult",
    "uge": "ule",
}


def decide(predicate: str, a: int, b: int, bits: int) -> bool:
    """A comparison of two bit patterns."""
    if predicate.startswith("s"):
        a, b = ((x - (1 << bits)) if x >> (bits - 1) else x for x in (a, b))
    kind = predicate if predicate in ("eq", "ne") else predicate[1:]
    return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[kind]


def compare_words(
    s: Selector, predicate: str, a: tuple[Word, ...], b: tuple[Word, ...], name: str | None = None
) -> Condition:
    """Compare two numbers of one or two words."""
    if all(isinstance(w, int) for w in (*a, *b)):
        return decide(predicate, _join(a), _join(b), 32 * len(a))
    if len(a) == 2:
        return _pairs(s, predicate, a, b, name)
    x, y = a[0], b[0]
    if isinstance(x, int):
        x, y, predicate = y, x, MIRRORED[predicate]
    if is_scalar(x) and is_scalar(y):
        return ScalarTest(_SCALAR[predicate], x, y)
    return Mask(s.emit.op(_VECTOR[predicate].format(32), x, y, name=name))


def _pairs(s: Selector, predicate: str, a: tuple[Word, ...], b: tuple[Word, ...], name: str | None) -> Condition:
    emit = s.emit
    scalar = all(is_scalar(w) for w in (*a, *b))
    if scalar and predicate in ("eq", "ne"):
        mnemonic = "s_cmp_eq_u64" if predicate == "eq" else "s_cmp_lg_u64"
        return ScalarTest(mnemonic, emit.tuple_of(a, True), emit.tuple_of(b, True))
    if all(isinstance(w, int) for w in a):
        a, b, predicate = b, a, MIRRORED[predicate]
    left = emit.tuple_of(a)
    constant = _join(b) if all(isinstance(w, int) for w in b) else None
    if constant is not None:
        signed = constant - (1 << 64) if constant >> 63 else constant
        mnemonic = _VECTOR[predicate].format(64)
        if -16 <= signed <= 64:
            return Mask(emit.op(f"{mnemonic}_src1_inline", left, rhs=signed, name=name))
    return Mask(emit.op(_VECTOR[predicate].format(64), left, emit.tuple_of(b), name=name))


def _join(words: tuple[Word, ...]) -> int:
    total = 0
    for position, word in enumerate(words):
        assert isinstance(word, int)
        total |= (word & MASK32) << 32 * position
    return total
