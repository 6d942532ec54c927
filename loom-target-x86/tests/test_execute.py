"""Packets compute what their names say, on the host processor and under the simulator.

Each packet is wrapped in a loop over records: it loads the operands from a record into random registers, runs
the packet and stores the results, which are compared with Python's arithmetic on edge values.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from loom.low.descriptors import Descriptor
from loom_target_x86.abi import function_signature
from loom_target_x86.assembler import Assembler
from loom_target_x86.descriptors import AVX2, SCALAR, SIMD128, descriptor_set
from loom_target_x86.object import Constant
from loom_target_x86.registers import SINGLETONS

RDI = 7
#: Registers a called function may use freely, without the one that holds the buffer's address.
FREE_GPRS = (0, 1, 2, 6, 8, 9, 10, 11)
SLOT = 32  # bytes per operand or result
RECORD = 16 * SLOT


def registers_for(descriptor: Descriptor, rng: random.Random) -> tuple[list[int], list[int]]:
    taken: set[tuple[bool, int]] = set()
    everything = [o.classes[0] for o in (*descriptor.operands, *descriptor.results)]
    reserved = {("mm" in c, SINGLETONS[c][1]) for c in everything if c in SINGLETONS}

    def pick(register_class: str) -> int:
        vector = "mm" in register_class
        if register_class in SINGLETONS:
            return SINGLETONS[register_class][1]
        pool = range(16) if vector else FREE_GPRS
        unit = rng.choice([u for u in pool if (vector, u) not in taken | reserved])
        taken.add((vector, unit))
        return unit

    operands = [pick(operand.classes[0]) for operand in descriptor.operands]
    ties = dict(descriptor.ties)
    results = [
        operands[ties[n]] if n in ties else pick(result.classes[0])
        for n, result in enumerate(descriptor.results)
    ]
    return results, operands


def wrap(
    descriptor: Descriptor, immediates: dict[str, object], assembler: Assembler, rng: random.Random, avx: bool
) -> None:
    """Operands come from slots 0, 1, … of each record; results go to slots 8, 9, …"""
    results, operands = registers_for(descriptor, rng)
    table = descriptor_set(AVX2 if avx else SIMD128).by_mnemonic

    def move(register_class: str, store: bool) -> Descriptor:
        if "ymm" in register_class:
            return table[f"vmovdqu32.{'store' if store else 'load'}.ymm"]
        if "xmm" in register_class:
            return table[f"{'vmovdqu32' if avx else 'movups'}.{'store' if store else 'load'}.xmm"]
        return table[f"mov.{'store' if store else 'load'}.gpr64"]

    assembler.assemble("push_r64 %rbx; mov_r64_rm64 %rbx, %rsi")
    again = object()
    assembler.label(again)
    for number, (operand, unit) in enumerate(zip(descriptor.operands, operands, strict=True)):
        assembler.emit(move(operand.classes[0], False), [unit], [RDI], {"disp32": number * SLOT})
    assembler.emit(descriptor, results, operands, immediates)
    for number, (result, unit) in enumerate(zip(descriptor.results, results, strict=True)):
        assembler.emit(move(result.classes[0], True), [], [unit, RDI], {"disp32": (8 + number) * SLOT})
    assembler.assemble(f"add_rm64_imm32 %rdi, #{RECORD}; sub_rm64_imm8 %rbx, #1")
    assembler.branch("ne", again)
    assembler.assemble("pop_r64 %rbx; retnq")


class Packets:
    """Many packets in one object, so that a test loads code once."""

    def __init__(
        self, load: Callable[..., Any], make_object: Callable[..., bytes], avx: bool = False
    ) -> None:
        self._load, self._make, self._avx = load, make_object, avx
        self._assembler = Assembler()
        self._signatures: list[Any] = []
        self._rng = random.Random(11)
        self.program: Any = None

    def add(self, name: str, descriptor: Descriptor, immediates: dict[str, object] | None = None) -> None:
        self._assembler.align()
        self._assembler.label(name)
        wrap(descriptor, immediates or {}, self._assembler, self._rng, self._avx)
        self._signatures.append(function_signature(name, ["buffer", "index"], []))

    def finish(self, constants: tuple[Constant, ...] = ()) -> None:
        self.program = self._load(self._make(self._assembler, self._signatures, constants))

    def run(self, name: str, cases: Sequence[Sequence[bytes]]) -> list[list[bytes]]:
        """The results of the packet for each list of operands."""
        memory = np.zeros((len(cases), RECORD), np.uint8)
        for record, operands in zip(memory, cases, strict=True):
            for number, operand in enumerate(operands):
                record[number * SLOT : number * SLOT + len(operand)] = np.frombuffer(operand, np.uint8)
        self.program.call(name, [memory, len(cases)])
        return [[record[(8 + n) * SLOT : (9 + n) * SLOT].tobytes() for n in range(4)] for record in memory]

    def run_one(self, name: str, *operands: bytes) -> list[bytes]:
        """The results for one list of operands."""
        return self.run(name, [operands])[0]


def word(value: int) -> bytes:
    """A 64-bit register's contents."""
    return (value & (1 << 64) - 1).to_bytes(8, "little")


def low(data: bytes, bits: int) -> int:
    """The low `bits` of a stored register."""
    return int.from_bytes(data[: bits // 8], "little")


@pytest.fixture
def packets(load: Callable[..., Any], make_object: Callable[..., bytes]) -> Packets:
    return Packets(load, make_object)


# -- integers -------------------------------------------------------------------------------------


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def edge_values(bits: int, rng: random.Random) -> list[int]:
    top = 1 << (bits - 1)
    return [0, 1, 2, 7, top - 1, top, top + 1, 2 * top - 1, *(rng.getrandbits(bits) for _ in range(6))]


COMPARE: dict[str, Callable[[int, int, int], bool]] = {
    "eq": lambda a, b, n: a == b,
    "ne": lambda a, b, n: a != b,
    "slt": lambda a, b, n: signed(a, n) < signed(b, n),
    "sle": lambda a, b, n: signed(a, n) <= signed(b, n),
    "sgt": lambda a, b, n: signed(a, n) > signed(b, n),
    "sge": lambda a, b, n: signed(a, n) >= signed(b, n),
    "ult": lambda a, b, n: a < b,
    "ule": lambda a, b, n: a <= b,
    "ugt": lambda a, b, n: a > b,
    "uge": lambda a, b, n: a >= b,
}
BINARY: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, n: a + b,
    "sub": lambda a, b, n: a - b,
    "and": lambda a, b, n: a & b,
    "or": lambda a, b, n: a | b,
    "xor": lambda a, b, n: a ^ b,
    "imul": lambda a, b, n: a * b,
    "shl": lambda a, b, n: a << b % n,
    "shr": lambda a, b, n: a >> b % n,
    "sar": lambda a, b, n: signed(a, n) >> b % n,
    "rol": lambda a, b, n: a << b % n | a >> n - b % n,
    "ror": lambda a, b, n: a >> b % n | a << n - b % n,
    **{f"cmp.{name}": predicate for name, predicate in COMPARE.items()},
    "test.eq": lambda a, b, n: int(a & b == 0),
    "test.ne": lambda a, b, n: int(a & b != 0),
    "bsf.or": lambda a, b, n: (a & -a).bit_length() - 1 if a else b,
    "bsr.or": lambda a, b, n: a.bit_length() - 1 if a else b,
}
ONE_BIT_RESULTS = ("cmp.", "test.")


@pytest.mark.parametrize("bits", [32, 64])
def test_integer_packets(packets: Packets, bits: int) -> None:
    table = descriptor_set(SCALAR).by_mnemonic
    for name in BINARY:
        packets.add(name, table[f"{name}.gpr{bits}"])
    packets.finish()
    rng = random.Random(bits)
    pairs = [(a, b) for a in edge_values(bits, rng) for b in edge_values(bits, rng)]
    # The upper half of a register is rubbish for a 32-bit packet.
    junk = 0 if bits == 64 else 0xDEADBEEF << 32
    for name, model in BINARY.items():
        width = 32 if name.startswith(ONE_BIT_RESULTS) else bits
        outputs = packets.run(name, [(word(a | junk), word(b | junk)) for a, b in pairs])
        for (a, b), out in zip(pairs, outputs, strict=True):
            assert low(out[0], width) == model(a, b, bits) & ((1 << width) - 1), (name, hex(a), hex(b))


@pytest.mark.parametrize("bits", [32, 64])
def test_integer_packets_with_immediates(packets: Packets, bits: int) -> None:
    table = descriptor_set(SCALAR).by_mnemonic
    rng = random.Random(5)
    cases: list[tuple[str, Callable[[int, int, int], int], int]] = []
    for name in ("add", "sub", "and", "or", "xor", "imul", *(f"cmp.{p}" for p in COMPARE)):
        for value in (0, 1, -1, 127, 128, -128, -129, 0x7FFFFFFF, -0x80000000):
            cases.append((name, BINARY[name], value))
    for name in ("shl", "shr", "sar", "rol", "ror"):
        for value in (0, 1, 5, bits - 1):
            cases.append((name, BINARY[name], value))
    for case, (name, _model, value) in enumerate(cases):
        descriptor = table[f"{name}.imm.gpr{bits}"]
        packets.add(f"case{case}", descriptor, {descriptor.immediates[0].name: value})
    packets.finish()
    values = edge_values(bits, rng)
    for case, (name, model, value) in enumerate(cases):
        width = 32 if name.startswith(ONE_BIT_RESULTS) else bits
        for a, out in zip(values, packets.run(f"case{case}", [(word(a),) for a in values]), strict=True):
            want = model(a, value & ((1 << bits) - 1), bits) & ((1 << width) - 1)
            assert low(out[0], width) == want, (name, hex(a), value)


@pytest.mark.parametrize("bits", [32, 64])
def test_division_and_wide_multiplication(packets: Packets, bits: int) -> None:
    table = descriptor_set(SCALAR).by_mnemonic
    for name in ("div", "idiv", "mul.wide", "imul.wide"):
        packets.add(name, table[f"{name}.gpr{bits}"])
    packets.finish()
    rng = random.Random(bits)
    mask = (1 << bits) - 1
    wanted: dict[str, list[tuple[int, int, int, int]]] = {
        name: [] for name in ("div", "idiv", "mul.wide", "imul.wide")
    }
    for a in edge_values(bits, rng):
        for b in edge_values(bits, rng):
            sa, sb = signed(a, bits), signed(b, bits)
            wanted["mul.wide"].append((a, b, a * b & mask, a * b >> bits))
            wanted["imul.wide"].append((a, b, sa * sb & mask, sa * sb >> bits & mask))
            if b:
                wanted["div"].append((a, b, a // b, a % b))
            if b and not (sb == -1 and a == 1 << (bits - 1)):
                quotient = abs(sa) // abs(sb) * (1 if (sa < 0) == (sb < 0) else -1)
                wanted["idiv"].append((a, b, quotient & mask, (sa - quotient * sb) & mask))
    for name, cases in wanted.items():
        outputs = packets.run(name, [(word(a), word(b)) for a, b, _first, _second in cases])
        for (a, b, first, second), out in zip(cases, outputs, strict=True):
            assert (low(out[0], bits), low(out[1], bits)) == (first, second), (name, hex(a), hex(b))


def test_moves_extensions_and_selection(packets: Packets) -> None:
    table = descriptor_set(SCALAR).by_mnemonic
    unary: dict[str, tuple[Callable[[int], int], int]] = {
        "mov": (lambda a: a, 64),
        "mov.gpr32.gpr64": (lambda a: a, 32),
        "movzx.gpr64.gpr32": (lambda a: a & 0xFFFFFFFF, 64),
        "movsxd.gpr64.gpr32": (lambda a: signed(a, 32), 64),
        "movzx8.gpr32": (lambda a: a & 0xFF, 32),
        "movzx16.gpr32": (lambda a: a & 0xFFFF, 32),
        "movsx8.gpr32": (lambda a: signed(a, 8), 32),
        "movsx16.gpr32": (lambda a: signed(a, 16), 32),
        "movsx8.gpr64": (lambda a: signed(a, 8), 64),
        "movsx16.gpr64": (lambda a: signed(a, 16), 64),
        "neg.gpr32": (lambda a: -a, 32),
        "neg.gpr64": (lambda a: -a, 64),
        "not.gpr32": (lambda a: ~a, 32),
        "not.gpr64": (lambda a: ~a, 64),
        "bswap.gpr32": (lambda a: int.from_bytes((a & 0xFFFFFFFF).to_bytes(4, "little"), "big"), 32),
        "bswap.gpr64": (lambda a: int.from_bytes(a.to_bytes(8, "little"), "big"), 64),
    }
    for name in unary:
        packets.add(name, table[name])
    constants = (
        0, 1, 0xFFFFFFFF, 0x80000000, 1 << 32, (1 << 64) - 1, 0xFFFFFFFF80000000, 0x123456789ABCDEF0
    )  # fmt: skip
    for value in constants:
        packets.add(f"imm{value}", table["mov.imm64"], {"imm64": value})
    packets.add("select", table["select.gpr64"])
    packets.finish()
    values = edge_values(64, random.Random(1))
    for name, (model, bits) in unary.items():
        for a, out in zip(values, packets.run(name, [(word(a),) for a in values]), strict=True):
            assert low(out[0], bits) == model(a) & ((1 << bits) - 1), (name, hex(a))
    for value in constants:
        assert low(packets.run_one(f"imm{value}")[0], 64) == value
    for condition, want in ((0, 222), (1, 111), (1 << 31, 111)):
        assert low(packets.run_one("select", word(condition), word(111), word(222))[0], 64) == want


# -- memory ---------------------------------------------------------------------------------------


def test_loads_and_stores_of_every_width(load: Callable[..., Any], make_object: Callable[..., bytes]) -> None:
    """Copy an array element by element through each load and store, base and indexed."""
    table = descriptor_set(SIMD128).by_mnemonic
    cases = [
        ("movzx8", "gpr32", "mov8", np.uint8, np.uint8, 1),
        ("movzx16", "gpr32", "mov16", np.uint16, np.uint16, 2),
        ("movsx8", "gpr32", "mov", np.int8, np.int32, 1), ("movsx16", "gpr32", "mov", np.int16, np.int32, 2),
        ("movsx8", "gpr64", "mov", np.int8, np.int64, 1), ("movsx16", "gpr64", "mov", np.int16, np.int64, 2),
        ("movsxd", "gpr64", "mov", np.int32, np.int64, 4), ("mov", "gpr32", "mov", np.int32, np.int32, 4),
        ("mov", "gpr64", "mov", np.int64, np.int64, 8), ("movss", "xmm", "movss", np.float32, np.float32, 4),
        ("movsd", "xmm", "movsd", np.float64, np.float64, 8),
    ]  # fmt: skip
    assembler, signatures = Assembler(), []
    for case, (name, cls, store, _source, target, scale) in enumerate(cases):
        for form in ("base", "indexed"):
            label = f"{form}{case}"
            assembler.label(label)
            signatures.append(function_signature(label, ["buffer", "buffer", "index"], []))
            value = 5 if cls == "xmm" else 8
            # rdi = from, rsi = to, rdx = element; the base form adds first.
            if form == "base":
                assembler.emit(table["lea.add_scale"], [0], [7, 2], {"disp32": -16, "scale": scale})
                assembler.emit(table[f"{name}.load.{cls}"], [value], [0], {"disp32": 16})
                step = np.dtype(target).itemsize
                assembler.emit(table["lea.add_scale"], [0], [6, 2], {"disp32": 1000, "scale": step})
                assembler.emit(table[f"{store}.store.{cls}"], [], [value, 0], {"disp32": -1000})
            else:
                assembler.emit(
                    table[f"{name}.load.indexed.{cls}"], [value], [7, 2], {"disp32": 0, "scale": scale}
                )
                step = np.dtype(target).itemsize
                where = {"disp32": 0, "scale": step}
                assembler.emit(table[f"{store}.store.indexed.{cls}"], [], [value, 6, 2], where)
            assembler.assemble("retnq")
    program = load(make_object(assembler, signatures))
    for case, (_name, _cls, _store, source, target, _scale) in enumerate(cases):
        data = (
            np.random.default_rng(case).integers(0, 256, 9 * np.dtype(source).itemsize, np.uint8).view(source)
        )
        for form in ("base", "indexed"):
            out = np.zeros(9, target)
            for index in range(9):
                program.call(f"{form}{case}", [data, out, index])
            assert out.tobytes() == data.astype(target).tobytes(), (case, form)


def test_constants_are_reached_through_relocations(packets: Packets) -> None:
    table = descriptor_set(SIMD128).by_mnemonic
    packets.add("vector", table["movups.load.symbol.xmm"], {"symbol": "sixteen"})
    packets.add("word", table["mov.load.symbol.gpr64"], {"symbol": "eight"})
    packets.finish((Constant("eight", struct.pack("<d", 1.5), 8), Constant("sixteen", bytes(range(16)), 16)))
    assert packets.run_one("vector")[0][:16] == bytes(range(16))
    assert packets.run_one("word")[0][:8] == struct.pack("<d", 1.5)


# -- floating point -------------------------------------------------------------------------------

FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.1415927410125732, 1e-40, -1e-45, 3.4028234663852886e38,
    16777217.0, float("inf"), float("-inf"), float("nan"),
]  # fmt: skip

FLOAT_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "oeq": lambda a, b: a == b,
    "one": lambda a, b: a == a and b == b and a != b,
    "olt": lambda a, b: a < b,
    "ole": lambda a, b: a <= b,
    "ogt": lambda a, b: a > b,
    "oge": lambda a, b: a >= b,
    "ord": lambda a, b: a == a and b == b,
    "uno": lambda a, b: a != a or b != b,
    "ueq": lambda a, b: not (a < b or a > b),
    "une": lambda a, b: a != b,
    "ult": lambda a, b: not a >= b,
    "ule": lambda a, b: not a > b,
    "ugt": lambda a, b: not a <= b,
    "uge": lambda a, b: not a < b,
}


@pytest.mark.parametrize("avx", [False, True])
@pytest.mark.parametrize("suffix", ["ss", "sd"])
def test_float_packets(
    load: Callable[..., Any],
    load_host: Callable[..., Any],
    make_object: Callable[..., bytes],
    suffix: str,
    avx: bool,
) -> None:
    packets = Packets(load_host if avx else load, make_object, avx)
    table = descriptor_set(AVX2 if avx else SIMD128).by_mnemonic
    dtype = np.float32 if suffix == "ss" else np.float64
    v = "v" if avx else ""
    operations: dict[str, Callable[[Any, Any], Any]] = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
        "min": lambda a, b: a if a < b else b, "max": lambda a, b: a if a > b else b,
    }  # fmt: skip
    for name in operations:
        packets.add(name, table[f"{v}{name}{suffix}.xmm"])
    for name in FLOAT_COMPARE:
        packets.add(name, table[f"{v}ucomi{suffix}.{name}.xmm"])
    packets.add("sqrt", table[f"{v}sqrt{suffix}.xmm"])
    for control, name in enumerate(("nearest", "floor", "ceil", "trunc")):
        packets.add(name, table[f"{v}round{suffix}.xmm"], {"control": control | 8})
    packets.finish()
    values = [dtype(x) for x in FLOATS]

    def same(got: bytes, want: Any) -> bool:
        want = dtype(want)
        return math.isnan(float(np.frombuffer(got, dtype)[0])) if np.isnan(want) else got == want.tobytes()

    size = np.dtype(dtype).itemsize
    rounding = {"nearest": np.rint, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "sqrt": np.sqrt}
    pairs = [(a, b) for a in values for b in values]
    encoded = [(a.tobytes(), b.tobytes()) for a, b in pairs]
    with np.errstate(all="ignore"):
        for name, unary in rounding.items():
            for a, out in zip(values, packets.run(name, [(a.tobytes(),) for a in values]), strict=True):
                assert same(out[0][:size], unary(a)), (name, a)
        for name, model in operations.items():
            for (a, b), out in zip(pairs, packets.run(name, encoded), strict=True):
                assert same(out[0][:size], model(a, b)), (name, a, b)
    for name, predicate in FLOAT_COMPARE.items():
        for (a, b), out in zip(pairs, packets.run(name, encoded), strict=True):
            assert low(out[0], 32) == int(predicate(float(a), float(b))), (name, a, b)


def test_float_conversions(packets: Packets) -> None:
    table = descriptor_set(SIMD128).by_mnemonic
    names = [f"cvtsi2{s}.xmm.gpr{r}" for s in ("ss", "sd") for r in (32, 64)]
    names += [f"cvtt{s}2si.gpr{r}.xmm" for s in ("ss", "sd") for r in (32, 64)]
    names += [
        "cvtss2sd.xmm",
        "cvtsd2ss.xmm",
        "movd.xmm.gpr32",
        "movd.gpr32.xmm",
        "movq.xmm.gpr64",
        "movq.gpr64.xmm",
    ]
    for name in names:
        packets.add(name, table[name])
    packets.finish()
    integers = edge_values(64, random.Random(9))
    encoded = [(word(a),) for a in integers]
    for suffix, dtype in (("ss", np.float32), ("sd", np.float64)):
        for bits in (32, 64):
            for a, out in zip(integers, packets.run(f"cvtsi2{suffix}.xmm.gpr{bits}", encoded), strict=True):
                want = dtype(np.int64(signed(a, bits)))
                assert out[0][: want.itemsize] == want.tobytes(), (suffix, bits, a)
    copies = {
        "movq.gpr64.xmm": (8, 0), "movq.xmm.gpr64": (8, 8),
        "movd.xmm.gpr32": (4, 12), "movd.gpr32.xmm": (4, 0)
    }  # fmt: skip
    for name, (kept, cleared) in copies.items():
        for a, out in zip(integers, packets.run(name, encoded), strict=True):
            assert out[0][: kept + cleared] == word(a)[:kept] + bytes(cleared), name
    halves = (0.0, -0.0, 0.99, -0.99, 2147483520.0, -2147483648.0, 3.5, -3.5)
    for suffix, code in (("ss", "<f"), ("sd", "<d")):
        for bits in (32, 64):
            outputs = packets.run(f"cvtt{suffix}2si.gpr{bits}.xmm", [(struct.pack(code, x),) for x in halves])
            for value, out in zip(halves, outputs, strict=True):
                assert signed(low(out[0], bits), bits) == int(value)
    doubles = (*FLOATS[:-1], 1 + 2.0**-24, 1 + 3 * 2.0**-24, 2.0**-150, 1e300)
    with np.errstate(all="ignore"):
        for value in doubles:
            narrow = np.float32(value)
            assert packets.run_one("cvtsd2ss.xmm", struct.pack("<d", value))[0][:4] == narrow.tobytes()
            wide = packets.run_one("cvtss2sd.xmm", narrow.tobytes())[0][:8]
            assert wide == np.float64(narrow).tobytes()


# -- vectors --------------------------------------------------------------------------------------

LANES: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "addps": ("f4", np.add), "subps": ("f4", np.subtract),
    "mulps": ("f4", np.multiply), "divps": ("f4", np.divide),
    "addpd": ("f8", np.add), "mulpd": ("f8", np.multiply),
    "subpd": ("f8", np.subtract), "divpd": ("f8", np.divide),
    "paddb": ("u1", np.add), "paddw": ("u2", np.add), "paddd": ("u4", np.add), "paddq": ("u8", np.add),
    "psubb": ("u1", np.subtract), "psubw": ("u2", np.subtract), "psubd": ("u4", np.subtract),
    "psubq": ("u8", np.subtract), "pmulld": ("u4", np.multiply), "pmullw": ("u2", np.multiply),
    "pand": ("u4", np.bitwise_and), "por": ("u4", np.bitwise_or), "pxor": ("u4", np.bitwise_xor),
    "andps": ("u4", np.bitwise_and), "orps": ("u4", np.bitwise_or), "xorps": ("u4", np.bitwise_xor),
    "pandn": ("u4", lambda a, b: ~a & b), "andnps": ("u4", lambda a, b: ~a & b),
    "pminsd": ("i4", np.minimum), "pmaxsd": ("i4", np.maximum), "pminud": ("u4", np.minimum),
    "pmaxud": ("u4", np.maximum), "pminsw": ("i2", np.minimum), "pmaxub": ("u1", np.maximum),
    "pcmpeqd": ("u4", lambda a, b: np.where(a == b, np.uint32(0xFFFFFFFF), np.uint32(0))),
    "pcmpgtd": ("i4", lambda a, b: np.where(a > b, np.int32(-1), np.int32(0))),
    "cmpps.lt": ("f4", lambda a, b: np.where(a < b, np.uint32(0xFFFFFFFF), np.uint32(0))),
    "cmpps.unord": ("f4", lambda a, b: np.where(np.isnan(a + b), np.uint32(0xFFFFFFFF), np.uint32(0))),
    "cmppd.neq": ("f8", lambda a, b: np.where(a != b, np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0))),
    "unpcklps": ("u4", lambda a, b: np.stack([a[:2], b[:2]], 1).ravel()),
    "unpckhps": ("u4", lambda a, b: np.stack([a[2:], b[2:]], 1).ravel()),
}  # fmt: skip


@pytest.mark.parametrize("form", ["xmm", "vex-xmm", "vex-ymm"])
def test_vector_packets(
    load: Callable[..., Any], load_host: Callable[..., Any], make_object: Callable[..., bytes], form: str
) -> None:
    avx = form != "xmm"
    packets = Packets(load_host if avx else load, make_object, avx)
    table = descriptor_set(AVX2 if avx else SIMD128).by_mnemonic
    cls = form[-3:]
    size = 16 if cls == "xmm" else 32
    names = [name for name in LANES if size == 16 or not name.startswith("unpck")]
    for name in names:
        packets.add(name, table[f"{'v' if avx else ''}{name}.{cls}"])
    packets.finish()
    rng = np.random.default_rng(4)
    with np.errstate(all="ignore"):
        for _round in range(8):
            for name in names:
                dtype, model = LANES[name]
                if dtype.startswith("f"):
                    count = size // int(dtype[1])
                    a, b = rng.choice(np.array([0.0, 1.0, -2.5, 3.0, 1e10]), (2, count)).astype(dtype)
                    if "cmp" in name:
                        a[0] = np.nan
                else:
                    a, b = rng.integers(0, 256, (2, size), np.uint8).view(dtype)
                    b[0] = a[0]
                got = packets.run_one(name, a.tobytes(), b.tobytes())[0][:size]
                want = model(a, b)
                if dtype.startswith("f") and "cmp" not in name:
                    np.testing.assert_array_equal(np.frombuffer(got, dtype), want, name)
                else:
                    assert got == want.tobytes(), (name, a, b)


def test_vector_shuffles_and_elements(packets: Packets) -> None:
    table = descriptor_set(SIMD128).by_mnemonic
    packets.add("pshufd", table["pshufd.xmm"], {"control": 0b00_01_10_11})
    packets.add("shufps", table["shufps.xmm"], {"control": 0b11_10_01_00})
    packets.add("insert", table["pinsrd.xmm"], {"lane": 2})
    packets.add("extract", table["pextrd.xmm"], {"lane": 3})
    packets.add("insertps", table["insertps.xmm"], {"control": 0b01_10_0000})
    packets.add("shift", table["psrad.imm.xmm"], {"shift": 31})
    packets.add("select", table["select.xmm"])
    packets.finish()
    a = np.array([10, 11, 12, 0x80000013], np.uint32)
    b = np.array([20, 21, 22, 23], np.uint32)

    def run(name: str, *operands: bytes) -> list[int]:
        data = packets.run_one(name, *operands)[0][:16]
        return [int(lane) for lane in np.frombuffer(data, np.uint32)]

    assert run("pshufd", a.tobytes()) == a[::-1].tolist()
    assert run("shufps", a.tobytes(), b.tobytes()) == [10, 11, 22, 23]
    assert run("insert", a.tobytes(), word(99)) == [10, 11, 99, 0x80000013]
    assert run("extract", a.tobytes())[0] == 0x80000013
    assert run("insertps", a.tobytes(), b.tobytes()) == [10, 11, 21, 0x80000013]
    assert run("shift", a.tobytes()) == [0, 0, 0, 0xFFFFFFFF]
    assert run("select", word(1), a.tobytes(), b.tobytes()) == a.tolist()
    assert run("select", word(0), a.tobytes(), b.tobytes()) == b.tolist()


def test_avx2_integer_packets(load_host: Callable[..., Any], make_object: Callable[..., bytes]) -> None:
    table = descriptor_set(AVX2).by_mnemonic
    packets = Packets(load_host, make_object, avx=True)
    models: dict[str, Callable[[int, int], int]] = {
        "shlx": lambda a, b: a << b % 64, "shrx": lambda a, b: a >> b % 64,
        "sarx": lambda a, b: signed(a, 64) >> b % 64, "andn": lambda a, b: ~a & b,
        "popcnt": lambda a, b: a.bit_count(), "lzcnt": lambda a, b: 64 - a.bit_length(),
        "tzcnt": lambda a, b: (a & -a).bit_length() - 1 if a else 64,
    }  # fmt: skip
    for name in models:
        packets.add(name, table[f"{name}.gpr64"])
    packets.add("fma", table["vfmadd231sd.xmm"])
    packets.finish()
    values = edge_values(64, random.Random(2))
    pairs = [(a, b) for a in values for b in values]
    for name, model in models.items():
        outputs = packets.run(name, [(word(a), word(b)) for a, b in pairs])
        for (a, b), out in zip(pairs, outputs, strict=True):
            assert low(out[0], 64) == model(a, b) & ((1 << 64) - 1), (name, hex(a), hex(b))
    operands = [struct.pack("<d", x) for x in (-1.0, 1 + 2.0**-30, 1 - 2.0**-30)]
    assert packets.run_one("fma", *operands)[0][:8] == struct.pack("<d", -(2.0**-60))


def test_atomics_on_memory(load: Callable[..., Any], make_object: Callable[..., bytes]) -> None:
    table = descriptor_set(SCALAR).by_mnemonic
    assembler, signatures = Assembler(), []
    for name in ("lock.xadd", "xchg.memory", "lock.cmpxchg", "lock.or"):
        assembler.label(name)
        descriptor = table[f"{name}.gpr32"]
        # rdi = address; esi and edx = arguments; the old value is returned in eax.
        if name == "lock.cmpxchg":
            assembler.emit(table["mov.gpr32"], [0], [6])
            assembler.emit(descriptor, [0], [0, 2, 7], {"disp32": 4})
        elif name == "lock.or":
            assembler.emit(descriptor, [], [6, 7], {"disp32": 4})
        else:
            assembler.emit(descriptor, [6], [6, 7], {"disp32": 4})
            assembler.emit(table["mov.gpr32"], [0], [6])
        assembler.assemble("retnq")
        signatures.append(function_signature(name, ["buffer", "i32", "i32"], ["i32"]))
    program = load(make_object(assembler, signatures))
    memory = np.array([7, 40, 9], np.int32)
    assert program.call("lock.xadd", [memory, 2, 0]) == [40]
    assert program.call("xchg.memory", [memory, 100, 0]) == [42]
    assert program.call("lock.cmpxchg", [memory, 99, 5]) == [100]
    assert memory.tolist() == [7, 100, 9]
    assert program.call("lock.cmpxchg", [memory, 100, 5]) == [100]
    program.call("lock.or", [memory, 24, 0])
    assert memory.tolist() == [7, 29, 9]
