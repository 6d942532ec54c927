"""The software fused multiply-add of the SSE profile, bit for bit against exact rational arithmetic."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from loom_target_x86.abi import function_signature
from loom_target_x86.assembler import Assembler
from loom_target_x86.descriptors import SIMD128, descriptor_set
from loom_target_x86.fma import FMA32_SEQUENCE, FMA64_ROUTINE, FMA64_SYMBOL

RDI = 7
COUNT = 8000


class Format:
    """A binary floating-point format and its exact rounding."""

    def __init__(self, bits: int, precision: int, code: str) -> None:
        self.bits, self.precision, self.code = bits, precision, code
        self.max_exponent = (1 << (bits - precision - 1)) - 1
        self.min_exponent = 1 - self.max_exponent
        self.infinity = ((2 * self.max_exponent + 1) << (precision - 1)) & ((1 << (bits - 1)) - 1)

    def decode(self, pattern: int) -> float:
        size = self.bits // 8
        return float(struct.unpack("<" + self.code, pattern.to_bytes(size, "little"))[0])

    def exact(self, pattern: int) -> Fraction:
        return Fraction(self.decode(pattern))

    def round(self, value: Fraction) -> int:
        """The pattern nearest to a value other than zero, ties to even."""
        sign = (1 << (self.bits - 1)) if value < 0 else 0
        value = abs(value)
        exponent = value.numerator.bit_length() - value.denominator.bit_length()
        if Fraction(2) ** exponent > value:
            exponent -= 1
        exponent = max(exponent, self.min_exponent)
        unit = Fraction(2) ** (exponent - self.precision + 1)
        count = value / unit
        whole = count.numerator // count.denominator
        rest = count - whole
        if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1):
            whole += 1
        if whole >= 1 << self.precision:
            whole >>= 1
            exponent += 1
        if exponent > self.max_exponent:
            return sign | self.infinity
        hidden = 1 << (self.precision - 1)
        field = exponent + self.max_exponent if whole >= hidden else 0
        return sign | field << (self.precision - 1) | whole & (hidden - 1)

    def fma(self, a: int, b: int, c: int) -> int | None:
        """The correct result; None stands for any NaN."""
        x, y, z = map(self.decode, (a, b, c))
        sign = 1 << (self.bits - 1)
        if any(map(math.isnan, (x, y, z))) or (math.isinf(x) and y == 0) or (x == 0 and math.isinf(y)):
            return None
        negative = (a ^ b) & sign
        if math.isinf(x) or math.isinf(y):
            return None if math.isinf(z) and (c & sign) != negative else negative | self.infinity
        if math.isinf(z):
            return c
        value = self.exact(a) * self.exact(b) + self.exact(c)
        if value:
            return self.round(value)
        # An exact zero is negative only if both terms are.
        both = x * y == 0 or self.exact(a) * self.exact(b) == 0
        return sign if both and z == 0 and negative and c & sign else 0


F32 = Format(32, 24, "f")
F64 = Format(64, 53, "d")


def interesting(fmt: Format, rng: random.Random) -> int:
    """A pattern from the places where fused multiply-adds go wrong."""
    p = fmt.precision - 1
    one = fmt.max_exponent << p
    kind = rng.randrange(10)
    sign = rng.getrandbits(1) << (fmt.bits - 1)
    if kind == 0:
        return sign | rng.choice(
            [0, 1, (1 << p) - 1, 1 << p, fmt.infinity - 1, fmt.infinity, fmt.infinity | 1 << (p - 1)]
        )
    if kind == 1:
        return rng.getrandbits(fmt.bits)
    if kind == 2:
        return sign | rng.getrandbits(p)  # subnormal
    if kind == 3:
        return sign | one + (rng.randrange(-4, 5) << p)  # a power of two
    if kind == 4:
        return sign | one + rng.randrange(-3, 4)
    if kind == 5:
        return sign | rng.randrange(1, 4 * fmt.precision) << p | rng.getrandbits(p)  # near the bottom
    if kind == 6:
        return sign | (2 * fmt.max_exponent - rng.randrange(0, fmt.precision)) << p | rng.getrandbits(p)
    if kind == 7:
        # Few significant bits: ties.
        return sign | one + (rng.randrange(-30, 30) << p) | rng.getrandbits(3) << (p - 3) | rng.getrandbits(1)
    return sign | one + (rng.randrange(-60, 60) << p) | rng.getrandbits(p)


def cancelling(fmt: Format, a: int, b: int, rng: random.Random) -> int | None:
    """An addend close to minus the product, or half a unit away from something representable."""
    x, y = fmt.decode(a), fmt.decode(b)
    if not (math.isfinite(x) and math.isfinite(y)) or x == 0 or y == 0:
        return None
    pattern = fmt.round(-fmt.exact(a) * fmt.exact(b) * rng.choice(list(map(Fraction, (1, 1, 2, 0.5, -1)))))
    return (pattern + rng.choice([0, 0, 1, -1])) & ((1 << fmt.bits) - 1)


def triples(fmt: Format, count: int, seed: int) -> Iterable[tuple[int, int, int]]:
    rng = random.Random(seed)
    for _number in range(count):
        a, b, c = (interesting(fmt, rng) for _operand in range(3))
        if rng.random() < 0.4:
            c = cancelling(fmt, a, b, rng) or c
        if rng.random() < 0.1:
            # The addend far below or above the product.
            shift = rng.randrange(fmt.precision - 3, 2 * fmt.precision + 4) * rng.choice([1, -1])
            x = fmt.decode(a) * fmt.decode(b)
            if x and math.isfinite(x):
                c = fmt.round(Fraction(x) * Fraction(2) ** shift)
        yield a, b, c


def test_the_model_itself_agrees_with_the_c_library() -> None:
    """Products and sums alone are correctly rounded by the host, so the model can be checked with them."""
    rng = random.Random(0)
    kinds: list[tuple[Format, Any, Any]] = [(F32, np.float32, np.uint32), (F64, np.float64, np.uint64)]
    for fmt, dtype, unsigned in kinds:
        one = fmt.max_exponent << (fmt.precision - 1)
        with np.errstate(all="ignore"):
            for _number in range(2000):
                a, b = interesting(fmt, rng), interesting(fmt, rng)
                x, y = (np.array([p], unsigned).view(dtype)[0] for p in (a, b))
                for got, want in (
                    (fmt.fma(a, one, b), x + y),
                    (fmt.fma(a, b, (a ^ b) & 1 << (fmt.bits - 1)), x * y),
                ):
                    assert (got is None) == bool(np.isnan(want))
                    if got is not None:
                        assert got == int(want.view(unsigned))


@cache
def wanted(fmt: Format, count: int) -> list[tuple[tuple[int, int, int], int | None]]:
    """Random cases with their results, computed once for all machines."""
    return [(case, fmt.fma(*case)) for case in triples(fmt, count, seed=fmt.bits)]


def compare(fmt: Format, program: Any, results: list[tuple[tuple[int, int, int], int | None]]) -> None:
    unsigned = np.uint32 if fmt.bits == 32 else np.uint64
    memory = np.zeros((len(results), 4), unsigned)
    memory[:, :3] = np.array([case for case, _want in results], unsigned)
    program.call("run", [memory, len(results)])
    for (case, want), pattern in zip(results, memory[:, 3], strict=True):
        got = int(pattern)
        if want is None:
            assert math.isnan(fmt.decode(got)), [hex(x) for x in case]
        else:
            assert got == want, ([hex(x) for x in case], hex(got), hex(want))


def loop(assembler: Assembler, record: int, body: Callable[[], None]) -> None:
    """`run(records, count)`: the body once per record, whose address is in rdi."""
    assembler.label("run")
    assembler.assemble("push_r64 %rbx; mov_r64_rm64 %rbx, %rsi")
    assembler.label("again")
    body()
    assembler.assemble(f"add_rm64_imm8 %rdi, #{record}; sub_rm64_imm8 %rbx, #1")
    assembler.branch("ne", "again")
    assembler.assemble("pop_r64 %rbx; retnq")


def test_fma32_sequence(load: Callable[..., Any], make_object: Callable[..., bytes]) -> None:
    """The sequence as the selector uses it, with one register per value as long as they last."""
    table = descriptor_set(SIMD128).by_mnemonic
    uses = {name: max(n for n, step in enumerate(FMA32_SEQUENCE) if name in step.operands)
            for name in ["a", "b", "c", *(step.result for step in FMA32_SEQUENCE[:-1])]}  # fmt: skip
    assembler = Assembler()

    def body() -> None:
        home = {"a": 0, "b": 1, "c": 2}
        for unit in home.values():
            assembler.emit(table["movss.load.xmm"], [unit], [RDI], {"disp32": 4 * unit})
        for position, step in enumerate(FMA32_SEQUENCE):
            descriptor = table[step.mnemonic]
            live = {unit for name, unit in home.items() if uses[name] >= position}
            target = next(unit for unit in range(16) if unit not in live)
            operands = [home[name] for name in step.operands]
            if descriptor.ties:
                assembler.emit(table["movaps.xmm"], [target], [operands[0]])
                operands[0] = target
            assembler.emit(descriptor, [target], operands, dict(step.immediates))
            home[step.result] = target
        assembler.emit(table["movss.store.xmm"], [], [home["result"], RDI], {"disp32": 12})

    loop(assembler, 16, body)
    program = load(make_object(assembler, [function_signature("run", ["buffer", "index"], [])]))
    compare(F32, program, wanted(F32, COUNT))


def fma64_program(load: Callable[..., Any], make_object: Callable[..., bytes]) -> Any:
    table = descriptor_set(SIMD128).by_mnemonic
    assembler = Assembler()

    def body() -> None:
        for unit in range(3):
            assembler.emit(table["movsd.load.xmm"], [unit], [RDI], {"disp32": 8 * unit})
        assembler.emit(table["fma64.soft.xmm"], [0], [0, 1, 2])
        assembler.emit(table["movsd.store.xmm"], [], [0, RDI], {"disp32": 24})

    loop(assembler, 32, body)
    assembler.align()
    assembler.assemble(FMA64_ROUTINE)
    return load(make_object(assembler, [function_signature("run", ["buffer", "index"], [])]))


def test_fma64_routine(load: Callable[..., Any], make_object: Callable[..., bytes]) -> None:
    compare(F64, fma64_program(load, make_object), wanted(F64, COUNT))


def test_fma64_known_hard_cases(load: Callable[..., Any], make_object: Callable[..., bytes]) -> None:
    def bits(*values: float) -> tuple[int, ...]:
        return tuple(int.from_bytes(struct.pack("<d", value), "little") for value in values)

    tiny, largest = 5e-324, 1.7976931348623157e308
    cases = [
        bits(1 + 2.0**-52, 1 + 2.0**-52, -1.0),  # cancellation keeps the low half of the product
        bits(1 + 2.0**-30, 1 - 2.0**-30, -1.0),
        bits(2.0**-537, 2.0**-537, -tiny),  # exactly one subnormal unit, cancelled to zero
        bits(2.0**-538, 2.0**-537, tiny),  # a tie between subnormals
        bits(2.0**-538, -(2.0**-537), tiny),
        bits(2.0**-600, 2.0**-600, -0.0),  # underflows to zero with the product's sign
        bits(-(2.0**-600), 2.0**-600, 0.0),
        bits(largest, 2.0, -largest),  # the product alone overflows
        bits(largest, largest, float("-inf")),
        bits(largest, 1.0, 2.0**969),  # below half a unit of the largest
        bits(largest, 1.0, 2.0**970),  # a tie that overflows
        bits(1.0, 1.0, 2.0**-53),
        bits(1.0, 1.0 + 2.0**-52, 2.0**-53),  # ties to even, both ways
        bits(1.0, 1.0, -(2.0**-54)),  # the unit shrinks below a power of two
        bits(1.5, tiny, -tiny),
        bits(float("inf"), 0.0, 1.0),
        bits(0.0, -1.0, -0.0),
        bits(0.0, -1.0, 0.0),
    ]
    compare(F64, fma64_program(load, make_object), [((a, b, c), F64.fma(a, b, c)) for a, b, c in cases])


def test_fma64_keeps_every_other_register(
    load: Callable[..., Any], make_object: Callable[..., bytes]
) -> None:
    assembler = Assembler()
    assembler.label("run")
    names = ["rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11"]
    for number, name in enumerate(names):
        assembler.assemble(f"mov_r64_imm64 %{name}, #{0x1111111111111111 * (number + 1)}")
    for unit in range(3):
        assembler.assemble(f"movsd_xmm_xmmm64 %xmm{unit}, [%rdi + {8 * unit}]")
    assembler.call(FMA64_SYMBOL)
    for number, name in enumerate(names):
        assembler.assemble(f"mov_rm64_r64 [%rdi + {24 + 8 * number}], %{name}")
    for unit in range(3):
        assembler.assemble(f"movsd_xmmm64_xmm [%rdi + {88 + 8 * unit}], %xmm{unit}")
    assembler.assemble("retnq")
    assembler.assemble(FMA64_ROUTINE)
    program = load(make_object(assembler, [function_signature("run", ["buffer"], [])]))
    memory = np.zeros(14, np.float64)
    memory[:3] = [3.0, 5.0, 0.25]
    program.call("run", [memory])
    assert memory[11:].tolist() == [15.25, 5.0, 0.25]
    assert memory[3:11].view(np.uint64).tolist() == [0x1111111111111111 * (n + 1) for n in range(8)]


@pytest.mark.parametrize("bits", [32, 64])
def test_hardware_fma_agrees_with_the_model(
    load_host: Callable[..., Any], make_object: Callable[..., bytes], bits: int
) -> None:
    """The processor's own instruction, as a judge of the model."""
    fmt = F32 if bits == 32 else F64
    size, suffix = fmt.bits // 8, "ss" if bits == 32 else "sd"
    assembler = Assembler()

    def body() -> None:
        for unit in range(3):
            assembler.assemble(f"vex_vmov{suffix}_xmm_m{fmt.bits} %xmm{unit}, [%rdi + {size * unit}]")
        assembler.assemble(f"vex_vfmadd231{suffix}_xmm_xmm_xmmm{fmt.bits} %xmm2, %xmm0, %xmm1")
        assembler.assemble(f"vex_vmov{suffix}_m{fmt.bits}_xmm [%rdi + {3 * size}], %xmm2")

    loop(assembler, 4 * size, body)
    program = load_host(make_object(assembler, [function_signature("run", ["buffer", "index"], [])]))
    compare(fmt, program, wanted(fmt, COUNT))
