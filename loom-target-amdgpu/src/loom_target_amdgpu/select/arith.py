"""Integer arithmetic on 32-bit words and word pairs, on the scalar ALU where all operands are uniform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from loom.ir.core import Value
from loom_target_amdgpu.select.emit import Emit
from loom_target_amdgpu.select.values import MASK32, Mask, ScalarTest, Word, is_scalar

# Operation -> (scalar mnemonic, vector mnemonic, whether the vector form takes its operands the other way round)
_BINARY: Final[dict[str, tuple[str | None, str, bool]]] = {
    "add": ("s_add_u32", "v_add_u32", False),
    "mul": ("s_mul_i32", "v_mul_lo_u32", False),
    "mulhu": ("s_mul_hi_u32", "v_mul_hi_u32", False),
    "mulhs": ("s_mul_hi_i32", "v_mul_hi_i32", False),
    "and": ("s_and_b32", "v_and_b32", False),
    "or": ("s_or_b32", "v_or_b32", False),
    "xor": ("s_xor_b32", "v_xor_b32", False),
    "shl": ("s_lshl_b32", "v_lshlrev_b32", True),
    "shru": ("s_lshr_b32", "v_lshrrev_b32", True),
    "shrs": ("s_ashr_i32", "v_ashrrev_i32", True),
    "minu": ("s_min_u32", "v_min_u32", False),
    "maxu": ("s_max_u32", "v_max_u32", False),
    "mins": ("s_min_i32", "v_min_i32", False),
    "maxs": ("s_max_i32", "v_max_i32", False),
}


def _to_signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


_FOLD: Final[dict[str, Callable[[int, int], int]]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "mulhu": lambda a, b: a * b >> 32,
    "mulhs": lambda a, b: _to_signed(a) * _to_signed(b) >> 32,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << (b & 31),
    "shru": lambda a, b: a >> (b & 31),
    "shrs": lambda a, b: _to_signed(a) >> (b & 31),
    "minu": min,
    "maxu": max,
    "mins": lambda a, b: min(_to_signed(a), _to_signed(b)),
    "maxs": lambda a, b: max(_to_signed(a), _to_signed(b)),
}
_NEUTRAL: Final = {"add": 0, "or": 0, "xor": 0, "shl": 0, "shru": 0, "shrs": 0, "mul": 1, "and": MASK32}
_COMMUTES: Final = frozenset({"add", "mul", "mulhu", "mulhs", "and", "or", "xor", "minu", "maxu", "mins", "maxs"})


class Arith:
    """Arithmetic over an :class:`Emit`."""

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self._sub = "v_sub_nc_u32" if emit.has("v_sub_nc_u32") else "v_sub_u32"
        self._addc = "v_add_co_ci_u32" if emit.has("v_add_co_ci_u32") else "v_addc_co_u32"
        self._subb = "v_sub_co_ci_u32" if emit.has("v_sub_co_ci_u32") else "v_subb_co_u32"

    # -- one word ------------------------------------------------------------------------------------------------

    def binary(self, kind: str, a: Word, b: Word, name: str | None = None) -> Word:
        """A 32-bit operation by name; constants fold."""
        if isinstance(a, int) and isinstance(b, int):
            return _FOLD[kind](a & MASK32, b & MASK32) & MASK32
        if isinstance(a, int) and kind in _COMMUTES:
            a, b = b, a
        if isinstance(b, int):
            b &= MASK32
            if _NEUTRAL.get(kind) == b:
                return a
            if kind in ("mul", "and") and b == 0:
                return 0
            if kind == "mul" and b & (b - 1) == 0:
                return self.binary("shl", a, b.bit_length() - 1, name)
        scalar, vector, reversed_ = _BINARY[kind]
        emit = self.emit
        if scalar is not None and is_scalar(a) and is_scalar(b):
            return emit.op(scalar, a, b, name=name)
        if reversed_:
            a, b = b, a
        return emit.op(vector, a, b, name=name)

    def sub(self, a: Word, b: Word, name: str | None = None) -> Word:
        """a - b."""
        if isinstance(b, int):
            return self.binary("add", a, -b & MASK32, name)
        if is_scalar(a) and is_scalar(b):
            return self.emit.op("s_sub_u32", a, b, name=name)
        if is_scalar(b) and not is_scalar(a):
            return self.emit.op("v_subrev_u32", b, a, name=name)
        return self.emit.op(self._sub, a, b, name=name)

    def shl_add(self, value: Word, shift: int, addend: Word, name: str | None = None) -> Word:
        """(value << shift) + addend."""
        if (is_scalar(value) and is_scalar(addend)) or isinstance(value, int) or isinstance(addend, int):
            return self.binary("add", self.binary("shl", value, shift), addend, name)
        if shift == 0:
            return self.binary("add", value, addend, name)
        return self.emit.op("v_lshl_add_u32_shift_imm", value, addend, shift=shift, name=name)

    def mul_add(self, a: Word, b: Word, addend: Word, narrow: bool, name: str | None = None) -> Word:
        """a * b + addend; ``narrow`` when both factors are known to fit 24 unsigned bits."""
        for factor, other in ((a, b), (b, a)):
            if isinstance(factor, int):
                pattern = factor & MASK32
                if pattern == 0:
                    return addend
                if pattern & (pattern - 1) == 0:
                    return self.shl_add(other, pattern.bit_length() - 1, addend, name)
        everything_scalar = is_scalar(a) and is_scalar(b) and is_scalar(addend)
        if narrow and not everything_scalar and not isinstance(addend, int):
            return self.emit.op("v_mad_u32_u24", a, b, addend, name=name)
        return self.binary("add", self.multiply(a, b, narrow), addend, name)

    def multiply(self, a: Word, b: Word, narrow: bool = False, name: str | None = None) -> Word:
        """a * b, low word; a cheaper instruction if both fit 24 unsigned bits."""
        scalar = is_scalar(a) and is_scalar(b)
        power = any(isinstance(x, int) and x & MASK32 & ((x & MASK32) - 1) == 0 for x in (a, b))
        if narrow and not scalar and not power:
            return self.emit.op("v_mul_u32_u24", a, b, name=name)
        return self.binary("mul", a, b, name)

    def invert(self, a: Word) -> Word:
        """Bitwise not."""
        return self.binary("xor", a, MASK32)

    def sign(self, a: Word) -> Word:
        """The sign of a word, spread over 32 bits."""
        return self.binary("shrs", a, 31)

    def extend(self, a: Word, bits: int, signed: bool, name: str | None = None) -> Word:
        """The low ``bits`` of a word as a 32-bit number."""
        if bits >= 32:
            return a
        if isinstance(a, int):
            low = a & (1 << bits) - 1
            return (low - (1 << bits)) & MASK32 if signed and low >> (bits - 1) else low
        if not signed:
            if not is_scalar(a) and bits not in (8, 16):
                return self.emit.op("v_bfe_u32_offset_width_inline", a, offset=0, width=bits, name=name)
            return self.binary("and", a, (1 << bits) - 1, name)
        if is_scalar(a):
            if bits in (8, 16):
                return self.emit.op(f"s_sext_i32_i{bits}", a, name=name)
            return self.emit.op("s_bfe_i32", a, bits << 16, name=name)
        return self.emit.op("v_bfe_i32_offset_width_inline", a, offset=0, width=bits, name=name)

    # -- two words -----------------------------------------------------------------------------------------------

    def add64(self, a: tuple[Word, Word], b: tuple[Word, Word], name: str | None = None) -> tuple[Word, Word]:
        """Sum of two pairs."""
        if isinstance(a[0], int) and isinstance(a[1], int) and isinstance(b[0], int) and isinstance(b[1], int):
            total = (_join(a) + _join(b)) & (1 << 64) - 1
            return total & MASK32, total >> 32
        for x, y in ((a, b), (b, a)):
            if x == (0, 0):
                return y
        emit = self.emit
        if is_scalar(a[0]) and is_scalar(a[1]) and is_scalar(b[0]) and is_scalar(b[1]):
            lo, hi = emit.chain("s_add_u32", "s_addc_u32", a, b)
        else:
            lo, carry = emit.packet("v_add_co_u32", a[0], b[0])
            hi = emit.op(self._addc, a[1], b[1], carry)
        return lo, hi

    def sub64(self, a: tuple[Word, Word], b: tuple[Word, Word]) -> tuple[Word, Word]:
        """Difference of two pairs."""
        if all(isinstance(w, int) for w in b):
            negative = -_join(b) & (1 << 64) - 1
            return self.add64(a, (negative & MASK32, negative >> 32))
        emit = self.emit
        if all(is_scalar(w) for w in (*a, *b)):
            return emit.chain("s_sub_u32", "s_subb_u32", a, b)
        lo, borrow = emit.packet("v_sub_co_u32", a[0], b[0])
        return lo, emit.op(self._subb, a[1], b[1], borrow)

    def mul64(self, a: tuple[Word, Word], b: tuple[Word, Word]) -> tuple[Word, Word]:
        """Product of two pairs, modulo 2^64."""
        lo = self.binary("mul", a[0], b[0])
        hi = self.binary("mulhu", a[0], b[0])
        hi = self.binary("add", hi, self.binary("mul", a[0], b[1]))
        hi = self.binary("add", hi, self.binary("mul", a[1], b[0]))
        return lo, hi

    def wide_product(self, a: Word, b: Word) -> tuple[Word, Word]:
        """The 64-bit product of two unsigned words."""
        return self.binary("mul", a, b), self.binary("mulhu", a, b)

    def logic64(self, kind: str, a: tuple[Word, Word], b: tuple[Word, Word]) -> tuple[Word, Word]:
        """``and``, ``or`` or ``xor`` of pairs."""
        return self.binary(kind, a[0], b[0]), self.binary(kind, a[1], b[1])

    def shift64(self, kind: str, a: tuple[Word, Word], amount: Word) -> tuple[Word, Word]:
        """``shl``, ``shru`` or ``shrs`` of a pair by 0...63."""
        if isinstance(amount, int):
            amount &= 63
            if amount == 0:
                return a
            if amount >= 32:
                rest = amount - 32
                if kind == "shl":
                    return 0, self.binary("shl", a[0], rest)
                return self.binary(kind, a[1], rest), 0 if kind == "shru" else self.sign(a[1])
        emit = self.emit
        if is_scalar(a[0]) and is_scalar(a[1]) and is_scalar(amount):
            mnemonic = {"shl": "s_lshl_b64", "shru": "s_lshr_b64", "shrs": "s_ashr_i64"}[kind]
            result = emit.op(mnemonic, emit.tuple_of(a, True), amount)
        else:
            mnemonic = {"shl": "v_lshlrev_b64", "shru": "v_lshrrev_b64", "shrs": "v_ashrrev_i64"}[kind]
            result = emit.op(mnemonic, amount, emit.tuple_of(a, False))
        lo, hi = emit.words(result)
        return lo, hi

    # -- conditions ----------------------------------------------------------------------------------------------

    def select(self, condition: ScalarTest | Mask, a: Word, b: Word, name: str | None = None) -> Word:
        """a where the condition holds, b elsewhere."""
        emit = self.emit
        if a is b or (isinstance(a, int) and a == b):
            return a
        if isinstance(condition, ScalarTest) and is_scalar(a) and is_scalar(b):
            scc = self.test(condition)
            if isinstance(a, int) and _inline(a):
                if isinstance(b, int) and _inline(b):
                    return emit.op("s_cselect_b32_inline", scc, true_value=_small(a), false_value=_small(b), name=name)
                if not isinstance(b, int):
                    return emit.op("s_cselect_b32_true_inline", b, scc, true_value=_small(a), name=name)
            if isinstance(b, int) and _inline(b) and not isinstance(a, int):
                return emit.op("s_cselect_b32_false_inline", a, scc, false_value=_small(b), name=name)
            # Constants come before the test: nothing may stand between it and the select that reads it.
            return emit.op(
                "s_cselect_b32", emit.register(a, True), emit.register(b, True), self.test(condition), name=name
            )
        mask = self.mask(condition)
        return emit.op("v_cndmask_b32", b, a, mask, name=name)

    def test(self, condition: ScalarTest) -> Value:
        """The scalar condition bit; the next instruction must read it."""
        emit = self.emit
        lhs = condition.lhs
        return emit.op(condition.mnemonic, emit.register(lhs, True) if isinstance(lhs, int) else lhs, condition.rhs)

    def mask(self, condition: bool | ScalarTest | Mask) -> Value:
        """The condition as a lane mask."""
        if isinstance(condition, Mask):
            return condition.value
        if isinstance(condition, bool):
            return self.emit.constant(-1 if condition else 0, scalar=True, units=2)
        return self.emit.op("s_cselect_b64_inline", self.test(condition), true_value=-1, false_value=0)

    def negate(self, condition: bool | ScalarTest | Mask) -> bool | ScalarTest | Mask:
        """The opposite condition."""
        if isinstance(condition, bool):
            return not condition
        if isinstance(condition, ScalarTest):
            return ScalarTest(_OPPOSITE[condition.mnemonic], condition.lhs, condition.rhs)
        return Mask(self.emit.op("s_not_b64", condition.value))


_OPPOSITE: Final = {
    "s_cmp_eq_i32": "s_cmp_lg_i32",
    "s_cmp_lg_i32": "s_cmp_eq_i32",
    "s_cmp_lt_i32": "s_cmp_ge_i32",
    "s_cmp_ge_i32": "s_cmp_lt_i32",
    "s_cmp_gt_i32": "s_cmp_le_i32",
    "s_cmp_le_i32": "s_cmp_gt_i32",
    "s_cmp_lt_u32": "s_cmp_ge_u32",
    "s_cmp_ge_u32": "s_cmp_lt_u32",
    "s_cmp_gt_u32": "s_cmp_le_u32",
    "s_cmp_le_u32": "s_cmp_gt_u32",
    "s_cmp_eq_u64": "s_cmp_lg_u64",
    "s_cmp_lg_u64": "s_cmp_eq_u64",
}


def _join(words: tuple[Word, Word]) -> int:
    lo, hi = words
    assert isinstance(lo, int)
    assert isinstance(hi, int)
    return (lo & MASK32) | (hi & MASK32) << 32


def _small(value: int) -> int:
    pattern = value & MASK32
    return pattern - (1 << 32) if pattern >= 0xFFFFFFF0 else pattern


def _inline(value: int) -> bool:
    return -16 <= _small(value) <= 64
