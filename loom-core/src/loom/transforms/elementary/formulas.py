"""Reals, bit patterns and conditions as Python values whose operators append scalar operations."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Final

from loom.dialects.index import ops as index_ops
from loom.dialects.scalar import ops as scalar_ops
from loom.dialects.scf import ops as scf_ops
from loom.ir.core import Block, Region, Value
from loom.ir.types import F64, I1, I32, I64, INDEX, ScalarType
from loom.transforms.lanes import Emitter

_SIGN: Final = -(1 << 63)
_INTEGER_SHIFT: Final = 1.5 * 2.0**52
"""Added to a number below 2^51, it leaves the nearest integer in the low bits of the pattern."""


class Code:
    """Where a formula's operations go, and the constants that are there already."""

    def __init__(self, emit: Emitter, outer: Code | None = None) -> None:
        self.emit = emit
        self._constants: dict[tuple[ScalarType, object], Value] = dict(outer._constants) if outer is not None else {}

    def constant(self, type_: ScalarType, value: float | int) -> Value:
        """A constant; each is made once."""
        key = (type_, struct.pack("<d", value) if isinstance(value, float) else value)
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self.emit.constant(type_, value)
        return found

    def op(self, name: str, result: ScalarType, *operands: Value) -> Value:
        """``scalar.NAME`` of values."""
        return self.emit.scalar(name, operands, result)

    def real(self, number: Real | float) -> Real:
        """A number as a real of this code."""
        return number if isinstance(number, Real) else Real(self, self.constant(F64, float(number)))

    def bits(self, number: Bits | int) -> Bits:
        """A number as a 64-bit pattern of this code."""
        return number if isinstance(number, Bits) else Bits(self, self.constant(I64, number))


class Flag:
    """A condition."""

    __slots__ = ("code", "value")

    def __init__(self, code: Code, value: Value) -> None:
        self.code = code
        self.value = value

    def __and__(self, other: Flag) -> Flag:
        return Flag(self.code, self.code.op("andi", I1, self.value, other.value))

    def __or__(self, other: Flag) -> Flag:
        return Flag(self.code, self.code.op("ori", I1, self.value, other.value))

    def choose(self, a: Real | float, b: Real | float) -> Real:
        """One of two reals."""
        code = self.code
        operands = [self.value, code.real(a).value, code.real(b).value]
        return Real(code, code.emit(scf_ops.Select(operands, [], [F64])))

    def choose_bits(self, a: Bits | int, b: Bits | int) -> Bits:
        """One of two patterns."""
        code = self.code
        operands = [self.value, code.bits(a).value, code.bits(b).value]
        return Bits(code, code.emit(scf_ops.Select(operands, [], [I64])))

    def branch(self, then: Callable[[Code], Sequence[Real | Bits]], other: Callable[[Code], Sequence[Real | Bits]]
               ) -> list[Value]:  # fmt: skip
        """The values of one of two formulas, of which only that one runs."""
        regions: list[Region] = []
        types: list[ScalarType] = []
        for formula in (then, other):
            block = Block()
            end = scf_ops.Yield([], [], segments=(0,))
            block.append(end)
            values = [part.value for part in formula(Code(Emitter(end, self.code.emit.loc), self.code))]
            end.set_operands(values, (len(values),))
            end.loc = self.code.emit.loc
            regions.append(Region([block]))
            types = [v.type for v in values]  # type: ignore[misc]  # reals and patterns are scalars
        made = scf_ops.If.build(condition=self.value, regions=regions, result_types=types, loc=self.code.emit.loc)
        self.code.emit.place(made)
        return list(made.results)


class Bits:
    """A 64-bit integer or pattern."""

    __slots__ = ("code", "value")

    def __init__(self, code: Code, value: Value) -> None:
        self.code = code
        self.value = value

    def _with(self, name: str, other: Bits | int) -> Bits:
        return Bits(self.code, self.code.op(name, I64, self.value, self.code.bits(other).value))

    def __add__(self, other: Bits | int) -> Bits:
        return self._with("addi", other)

    def __sub__(self, other: Bits | int) -> Bits:
        return self._with("subi", other)

    def __mul__(self, other: Bits | int) -> Bits:
        return self._with("muli", other)

    def __and__(self, other: Bits | int) -> Bits:
        return self._with("andi", other)

    def __or__(self, other: Bits | int) -> Bits:
        return self._with("ori", other)

    def __xor__(self, other: Bits | int) -> Bits:
        return self._with("xori", other)

    def __lshift__(self, other: Bits | int) -> Bits:
        return self._with("shli", other)

    def __rshift__(self, other: Bits | int) -> Bits:
        """With zeros entering."""
        return self._with("shrui", other)

    def arithmetic_shift(self, count: int) -> Bits:
        """With copies of the sign entering."""
        return self._with("shrsi", count)

    def at_most(self, bound: int) -> Bits:
        """The signed minimum."""
        return self._with("minsi", bound)

    def at_least(self, bound: int) -> Bits:
        """The signed maximum."""
        return self._with("maxsi", bound)

    def compare(self, predicate: str, other: Bits | int) -> Flag:
        """A comparison."""
        other_value = self.code.bits(other).value
        return Flag(self.code, self.code.emit(scalar_ops.CmpI([self.value, other_value], [predicate], [I1])))

    def has(self, mask: int) -> Flag:
        """Whether any of some bits is set."""
        return (self & mask).compare("ne", 0)

    def as_real(self) -> Real:
        """The f64 of the pattern."""
        return Real(self.code, self.code.op("bitcast", F64, self.value))

    def low_number(self, *, signed: bool) -> Real:
        """The low 32 bits as a number."""
        word = self.code.op("trunci", I32, self.value)
        return Real(self.code, self.code.op("sitofp" if signed else "uitofp", F64, word))


class Real:
    """An f64."""

    __slots__ = ("code", "value")

    def __init__(self, code: Code, value: Value) -> None:
        self.code = code
        self.value = value

    def _with(self, name: str, a: Real | float, b: Real | float) -> Real:
        return Real(self.code, self.code.op(name, F64, self.code.real(a).value, self.code.real(b).value))

    def __add__(self, other: Real | float) -> Real:
        return self._with("addf", self, other)

    def __radd__(self, other: float) -> Real:
        return self._with("addf", other, self)

    def __sub__(self, other: Real | float) -> Real:
        return self._with("subf", self, other)

    def __rsub__(self, other: float) -> Real:
        return self._with("subf", other, self)

    def __mul__(self, other: Real | float) -> Real:
        return self._with("mulf", self, other)

    def __rmul__(self, other: float) -> Real:
        return self._with("mulf", other, self)

    def __truediv__(self, other: Real | float) -> Real:
        return self._with("divf", self, other)

    def __rtruediv__(self, other: float) -> Real:
        return self._with("divf", other, self)

    def __neg__(self) -> Real:
        return Real(self.code, self.code.op("negf", F64, self.value))

    def __abs__(self) -> Real:
        return Real(self.code, self.code.op("absf", F64, self.value))

    def fused(self, factor: Real | float, addend: Real | float) -> Real:
        """self * factor + addend, rounded once."""
        code = self.code
        return Real(code, code.op("fmaf", F64, self.value, code.real(factor).value, code.real(addend).value))

    def root(self) -> Real:
        """The square root."""
        return Real(self.code, self.code.op("sqrtf", F64, self.value))

    def floor(self) -> Real:
        """The largest integral value not above self."""
        return Real(self.code, self.code.op("floorf", F64, self.value))

    def with_sign_of(self, other: Real) -> Real:
        """The magnitude with another sign."""
        return Real(self.code, self.code.op("copysignf", F64, self.value, other.value))

    def flipped(self, sign: Bits) -> Real:
        """With the sign flipped where the top bit of a pattern is set."""
        return (self.bits() ^ (sign & _SIGN)).as_real()

    def bits(self) -> Bits:
        """The pattern."""
        return Bits(self.code, self.code.op("bitcast", I64, self.value))

    def compare(self, predicate: str, other: Real | float) -> Flag:
        """A comparison: ``olt`` and its like are false for NaN."""
        other_value = self.code.real(other).value
        return Flag(self.code, self.code.emit(scalar_ops.CmpF([self.value, other_value], [None, predicate], [I1])))

    def __lt__(self, other: Real | float) -> Flag:
        return self.compare("olt", other)

    def __le__(self, other: Real | float) -> Flag:
        return self.compare("ole", other)

    def __gt__(self, other: Real | float) -> Flag:
        return self.compare("ogt", other)

    def __ge__(self, other: Real | float) -> Flag:
        return self.compare("oge", other)

    def equals(self, other: Real | float) -> Flag:
        """Whether two numbers are equal."""
        return self.compare("oeq", other)

    def is_nan(self) -> Flag:
        """Whether this is no number."""
        return self.compare("uno", self)

    def is_finite(self) -> Flag:
        """Whether this is neither infinite nor NaN."""
        return abs(self) < math.inf

    def is_negative(self) -> Flag:
        """Whether the sign bit is set."""
        return self.bits().compare("slt", 0)

    def clamped(self, low: float, high: float) -> Real:
        """self within bounds; NaN becomes the upper one."""
        raised = (self > low).choose(self, low)
        return (raised < high).choose(raised, high) if low < high else raised

    def nearest(self) -> tuple[Real, Bits]:
        """The nearest integral value of a magnitude below 2^51, ties to even, and the same as an integer.

        The integer is right in its low 32 bits as a signed number; for other arguments both are some number.
        """
        shifted = self + _INTEGER_SHIFT
        # Not by a conversion of 32 bits: Mesa's Vulkan drivers misjudge comparisons of such numbers in 64 bits.
        return shifted - _INTEGER_SHIFT, (shifted.bits() << 32).arithmetic_shift(32)


def repeated(
    code: Code, count: Bits, initial: Sequence[Real], body: Callable[[Code, Bits, list[Real]], Sequence[Real]]
) -> list[Real]:
    """Numbers behind ``count`` rounds of a formula, which gets the number of the round and what the last one made."""
    emit = code.emit
    zero, one = (emit.constant(INDEX, n) for n in (0, 1))
    upper = emit(index_ops.Cast([count.value], [], [INDEX]))
    block = Block([INDEX, *(F64 for _ in initial)])
    end = scf_ops.Yield([], [], segments=(0,), loc=emit.loc)
    block.append(end)
    inner = Code(Emitter(end, emit.loc), code)
    number = Bits(inner, inner.emit(index_ops.Cast([block.args[0]], [], [I64])))
    values = [part.value for part in body(inner, number, [Real(inner, arg) for arg in block.args[1:]])]
    end.set_operands(values, (len(values),))
    loop = scf_ops.For.build(
        lower=zero,
        upper=upper,
        step=one,
        iter_args=[part.value for part in initial],
        regions=[Region([block])],
        result_types=[F64 for _ in initial],
        loc=emit.loc,
    )
    emit.place(loop)
    return [Real(code, result) for result in loop.results]


def power_of_two(exponent: Bits) -> Real:
    """2^exponent, for exponents of normal numbers."""
    return ((exponent + 1023) << 52).as_real()


def scaled(x: Real, exponent: Bits) -> Real:
    """x * 2^exponent for |exponent| up to 2044, of a magnitude near one; a subnormal result is rounded once."""
    half = exponent.arithmetic_shift(1)
    return x * power_of_two(half) * power_of_two(exponent - half)


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """The sum of coefficients[i] * x^i, by Horner's rule with fused steps."""
    total = x.code.real(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total.fused(x, coefficient)
    return total
