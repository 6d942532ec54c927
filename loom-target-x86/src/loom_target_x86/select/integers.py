"""Integer arithmetic of the `scalar` dialect (language reference, part 1, sections 14.4 and 14.5).

A narrow integer has unspecified bits above its width, so operations that look at the whole register extend first.
`i1` is 0 or 1 in a register and its arithmetic is that of one bit: sums are exclusive ors, and a signed reading sees
0 and -1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loom.ir import types as t
from loom.ir.core import Op, Value
from loom.ir.types import ScalarType
from loom_target_x86.select.context import MIRRORED, Context
from loom_target_x86.select.rules import selects
from loom_target_x86.select.values import Word, width_of

BinaryForm = Callable[[Context, ScalarType, Word, Word], Word]
"""The packets of an operation on two words of one type."""

UnaryForm = Callable[[Context, ScalarType, Value], Value]

SIGNED_PREDICATES: Final = frozenset({"slt", "sle", "sgt", "sge"})


def extended(c: Context, word: Word, type_: ScalarType, signed: bool) -> Word:
    """The word with defined bits in its whole register."""
    if isinstance(word, int):
        return word if signed else word & (1 << type_.width) - 1
    if width_of(type_) == 64:
        return word
    return c.sign_extended(word, type_) if signed else c.zero_extended(word, type_)


# -- operations whose low bits depend on low bits only --------------------------------------------


def _simple(name: str, one_bit: str) -> BinaryForm:
    def form(c: Context, type_: ScalarType, a: Word, b: Word) -> Word:
        if type_ is t.I1:
            return c.arith(one_bit, 32, a, b)
        if name == "imul":
            return c.multiply(a, b, width_of(type_))
        return c.arith(name, width_of(type_), a, b)

    return form


# -- minimum and maximum --------------------------------------------------------------------------


def _extremum(predicate: str, one_bit: str) -> BinaryForm:
    def form(c: Context, type_: ScalarType, a: Word, b: Word) -> Word:
        if type_ is t.I1:
            return c.arith(one_bit, 32, a, b)
        width = width_of(type_)
        signed = predicate in SIGNED_PREDICATES
        a, b = extended(c, a, type_, signed), extended(c, b, type_, signed)
        condition = c.compare(predicate, a, b, width)
        return c.choose(condition, c.register(a, width), c.register(b, width), type_)

    return form


# -- division -------------------------------------------------------------------------------------


def divide(c: Context, width: int, a: Word, b: Word, signed: bool) -> tuple[Value, Value]:
    """Quotient toward zero and remainder of two registers. Minimum / -1 and a zero divisor trap."""
    name = "idiv" if signed else "div"
    quotient, remainder = c.packet(f"{name}.gpr{width}", c.register(a, width), c.register(b, width))
    return quotient, remainder


def _quotient(signed: bool, round_up: Callable[[Context, int, Value, Value, Value], Value] | None = None) -> BinaryForm:
    def form(c: Context, type_: ScalarType, a: Word, b: Word) -> Word:
        if type_ is t.I1:
            # The only defined divisor is 1 (signed: -1, and then only 0 may be divided).
            return a
        width = width_of(type_)
        a, b = extended(c, a, type_, signed), extended(c, b, type_, signed)
        quotient, remainder = divide(c, width, a, b, signed)
        return quotient if round_up is None else round_up(c, width, c.register(b, width), quotient, remainder)

    return form


def _widened(c: Context, flag: Value, width: int) -> Value:
    return c.op("movzx.gpr64.gpr32", flag) if width == 64 else flag


def _up(c: Context, width: int, b: Value, quotient: Value, remainder: Value) -> Value:
    """One more where something is left."""
    rest = c.compare("ne", remainder, 0, width)
    return c.arith("add", width, quotient, _widened(c, rest, width))


def _up_signed(c: Context, width: int, b: Value, quotient: Value, remainder: Value) -> Value:
    """One more where something is left and the exact quotient is positive: rest and divisor have one sign."""
    rest = c.compare("ne", remainder, 0, width)
    alike = c.compare("sge", c.arith("xor", width, remainder, b), 0, width)
    return c.arith("add", width, quotient, _widened(c, c.arith("and", 32, rest, alike), width))


def _down_signed(c: Context, width: int, b: Value, quotient: Value, remainder: Value) -> Value:
    """One less where something is left and the exact quotient is negative."""
    rest = c.compare("ne", remainder, 0, width)
    differ = c.compare("slt", c.arith("xor", width, remainder, b), 0, width)
    return c.arith("sub", width, quotient, _widened(c, c.arith("and", 32, rest, differ), width))


def _remainder(signed: bool) -> BinaryForm:
    def form(c: Context, type_: ScalarType, a: Word, b: Word) -> Word:
        if type_ is t.I1:
            return 0
        width = width_of(type_)
        a, b = extended(c, a, type_, signed), extended(c, b, type_, signed)
        if signed and type_.width in (32, 64) and not isinstance(b, int):
            # The instruction traps for minimum / -1, whose remainder is 0: as it is for a divisor of 1.
            minus_one = c.compare("eq", b, -1, width)
            b = c.choose(minus_one, c.constant(1, width), b, type_)
        elif signed and b == -1:
            return 0
        return divide(c, width, a, b, signed)[1]

    return form


# -- shifts and rotations -------------------------------------------------------------------------


def _shift(name: str) -> BinaryForm:
    def form(c: Context, type_: ScalarType, a: Word, b: Word) -> Word:
        if type_ is t.I1:
            return a  # the only defined amount is 0
        width = width_of(type_)
        if name != "shl":
            a = extended(c, a, type_, signed=name == "sar")
        return c.shift(name, c.register(a, width), b, width)

    return form


def _rotate(name: str) -> BinaryForm:
    def form(c: Context, type_: ScalarType, a: Word, b: Word) -> Word:
        if type_ is t.I1:
            return a
        width = width_of(type_)
        if isinstance(b, int):
            b %= type_.width
        value = c.register(a, width)
        if type_.width < 32:
            # Copies of the value side by side rotate by any count as each of them does.
            copies = 0x01010101 if type_ is t.I8 else 0x00010001
            value = c.register(c.multiply(c.zero_extended(value, type_), copies, 32), 32)
        return c.shift(name, value, b, width)

    return form


BINARY: Final[dict[str, BinaryForm]] = {
    "addi": _simple("add", "xor"),
    "subi": _simple("sub", "xor"),
    "muli": _simple("imul", "and"),
    "andi": _simple("and", "and"),
    "ori": _simple("or", "or"),
    "xori": _simple("xor", "xor"),
    # Signed i1: true is -1, the smaller of the two.
    "minsi": _extremum("slt", "or"),
    "maxsi": _extremum("sgt", "and"),
    "minui": _extremum("ult", "and"),
    "maxui": _extremum("ugt", "or"),
    "divsi": _quotient(signed=True),
    "divui": _quotient(signed=False),
    "ceildivsi": _quotient(True, _up_signed),
    "ceildivui": _quotient(False, _up),
    "floordivsi": _quotient(True, _down_signed),
    "remsi": _remainder(signed=True),
    "remui": _remainder(signed=False),
    "shli": _shift("shl"),
    "shrsi": _shift("sar"),
    "shrui": _shift("shr"),
    "rotli": _rotate("rol"),
    "rotri": _rotate("ror"),
}
"""Operation of the scalar dialect (and of reductions) -> form."""


# -- one operand ----------------------------------------------------------------------------------


def _negate(c: Context, type_: ScalarType, a: Value) -> Value:
    return a if type_ is t.I1 else c.op(f"neg.gpr{width_of(type_)}", a)


def _magnitude(c: Context, type_: ScalarType, a: Value) -> Value:
    if type_ is t.I1:
        return a
    width = width_of(type_)
    wide = c.register(extended(c, a, type_, signed=True), width)
    sign = c.shift("sar", wide, width - 1, width)
    return c.arith("sub", width, c.arith("xor", width, wide, sign), sign)


def _sign(c: Context, type_: ScalarType, a: Value) -> Value:
    if type_ is t.I1:
        return a
    width = width_of(type_)
    wide = c.register(extended(c, a, type_, signed=True), width)
    positive = _widened(c, c.compare("sgt", wide, 0, width), width)
    return c.arith("or", width, c.shift("sar", wide, width - 1, width), positive)


def _leading_zeros(c: Context, type_: ScalarType, a: Value) -> Value:
    if type_ is t.I1:
        return c.arith("xor", 32, a, 1)
    width, bits = width_of(type_), type_.width
    wide = c.register(extended(c, a, type_, signed=False), width)
    if c.has(f"lzcnt.gpr{width}"):
        return c.arith("sub", width, c.op(f"lzcnt.gpr{width}", wide), width - bits)
    # The position p of the highest bit gives bits - 1 - p, which is p ^ (bits - 1); for no bit at all, the
    # substitute 2 * bits - 1 gives bits.
    highest = c.op(f"bsr.or.gpr{width}", wide, c.constant(2 * bits - 1, width))
    return c.arith("xor", width, highest, bits - 1)


def _trailing_zeros(c: Context, type_: ScalarType, a: Value) -> Value:
    if type_ is t.I1:
        return c.arith("xor", 32, a, 1)
    width, bits = width_of(type_), type_.width
    if bits < 32:
        # A bit just above the width ends the search there.
        a = c.arith("or", 32, a, 1 << bits)
    if c.has(f"tzcnt.gpr{width}"):
        return c.op(f"tzcnt.gpr{width}", a)
    return c.op(f"bsf.or.gpr{width}", a, c.constant(bits, width))


def _set_bits(c: Context, type_: ScalarType, a: Value) -> Value:
    if type_ is t.I1:
        return a
    width = width_of(type_)
    wide = c.register(extended(c, a, type_, signed=False), width)
    if c.has(f"popcnt.gpr{width}"):
        return c.op(f"popcnt.gpr{width}", wide)
    # Sums of neighbouring fields of 1, 2 and 4 bits; a product adds the bytes into the highest one.
    ones = (1 << width) // 255

    def fields(pattern: int, shift: int, value: Value) -> Value:
        return c.arith("and", width, c.shift("shr", value, shift, width), pattern * ones)

    pairs = c.arith("sub", width, wide, fields(0x55, 1, wide))
    nibbles = c.arith("add", width, c.arith("and", width, pairs, 0x33 * ones), fields(0x33, 2, pairs))
    octets = c.arith("and", width, c.arith("add", width, nibbles, c.shift("shr", nibbles, 4, width)), 0x0F * ones)
    return c.shift("shr", c.arith("imul", width, octets, ones), width - 8, width)


UNARY: Final[dict[str, UnaryForm]] = {
    "negi": _negate,
    "absi": _magnitude,
    "signi": _sign,
    "ctlzi": _leading_zeros,
    "cttzi": _trailing_zeros,
    "ctpopi": _set_bits,
}


def compare_integers(c: Context, type_: ScalarType, predicate: str, a: Word, b: Word) -> Value:
    """Integer comparison."""
    signed = predicate in SIGNED_PREDICATES
    if type_ is t.I1:
        if signed:
            # 0 and -1 instead of 0 and 1 turn the order around.
            predicate = MIRRORED[predicate]
        return c.compare(predicate, extended(c, a, type_, False), extended(c, b, type_, False), 32)
    return c.compare(predicate, extended(c, a, type_, signed), extended(c, b, type_, signed), width_of(type_))


# -- rules ----------------------------------------------------------------------------------------


@selects(*(f"scalar.{name}" for name in BINARY))
def _binary(c: Context, op: Any) -> None:
    type_ = c.scalar_type(op, op.result.type)
    if not c.is_known(op.result):
        form = BINARY[op.name.removeprefix("scalar.")]
        c.bind(op.result, c.register(form(c, type_, c.word(op.lhs), c.word(op.rhs)), width_of(type_)))


@selects(*(f"scalar.{name}" for name in UNARY))
def _unary(c: Context, op: Any) -> None:
    type_ = c.scalar_type(op, op.result.type)
    if not c.is_known(op.result):
        c.bind(op.result, UNARY[op.name.removeprefix("scalar.")](c, type_, c.value(op.input)))


@selects("scalar.fmai")
def _multiply_add(c: Context, op: Any) -> None:
    type_ = c.scalar_type(op, op.result.type)
    if not c.is_known(op.result):
        product = BINARY["muli"](c, type_, c.word(op.a), c.word(op.b))
        total = BINARY["addi"](c, type_, product, c.word(op.c))
        c.bind(op.result, c.register(total, width_of(type_)))


@selects("scalar.cmpi")
def _compare(c: Context, op: Any) -> None:
    type_ = c.scalar_type(op, op.lhs.type)
    if not c.is_known(op.result):
        c.bind(op.result, compare_integers(c, type_, op.predicate, c.word(op.lhs), c.word(op.rhs)))


@selects("scalar.bitfield.extractu", "scalar.bitfield.extracts")
def _extract(c: Context, op: Any) -> None:
    source, result = c.scalar_type(op, op.source.type), c.scalar_type(op, op.result.type)
    if c.is_known(op.result):
        return
    signed = op.name.endswith("extracts")
    width = width_of(source)
    # Left, so that the field ends at the top and everything above it is gone, then right to the bottom.
    top = c.shift("shl", c.value(op.source), width - op.offset - op.width, width)
    field = c.shift("sar" if signed else "shr", top, width - op.width, width)
    c.bind(op.result, resized(c, field, width, result, signed))


def resized(c: Context, value: Value, width: int, result: ScalarType, signed: bool) -> Value:
    """A register of `width` defined bits as a value of another integer type."""
    if result is t.I1:
        return c.low_bit(value)
    if width_of(result) == width:
        return value
    if width == 64:
        return c.in_class(value, "x86.gpr32")
    return c.op("movsxd.gpr64.gpr32" if signed else "movzx.gpr64.gpr32", value)


@selects("scalar.constant")
def _constant(c: Context, op: Op) -> None:
    from loom_target_x86.constants import float_bits

    type_ = c.scalar_type(op, op.result.type)
    if type_.kind == "float":
        value = op.attribute("value")
        assert isinstance(value, int | float)
        c.bind(op.result, c.float_constant(float_bits(float(value), type_.width), type_.width))


@selects("scalar.assume", "index.assume")
def _assume(c: Context, op: Any) -> None:
    for result, given in zip(op.results, op.inputs, strict=True):
        if not c.is_known(result):
            c.bind(result, c.value(given))


@selects("scalar.poison")
def _poison(c: Context, op: Op) -> None:
    type_ = c.scalar_type(op, op.result.type)
    if type_.kind == "float":
        c.bind(op.result, c.fp("zero"))
    elif not c.is_known(op.result):
        c.bind(op.result, c.constant(0, width_of(type_)))
