"""The descriptor sets: the language's names are there, with its operand orders, and every row encodes."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable

import pytest

from loom.low.descriptors import Descriptor
from loom_target_x86.assembler import Assembler
from loom_target_x86.descriptors import AVX2, DESCRIPTOR_SETS, SCALAR, SIMD128, descriptor_set
from loom_target_x86.encode import EncodingError
from loom_target_x86.image import load_image
from loom_target_x86.inspect import instructions, required_features
from loom_target_x86.registers import SINGLETONS, STACK_POINTER, register_name

PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
ARITHMETIC = ("add", "sub", "imul", "and", "or", "xor")

#: (set, mnemonics, results, operands, immediates) as the language reference lists them.
REFERENCE = [
    (SCALAR, [f"{n}.gpr32" for n in ARITHMETIC], "dst:gpr32", "lhs:gpr32 rhs:gpr32", ""),
    (SCALAR, [f"cmp.{p}.gpr32" for p in PREDICATES], "dst:gpr32", "lhs:gpr32 rhs:gpr32", ""),
    (SCALAR, [f"{n}.gpr64" for n in ARITHMETIC], "dst:gpr64", "lhs:gpr64 rhs:gpr64", ""),
    (SCALAR, ["lea"], "dst:gpr64", "lhs:gpr64 rhs:gpr64", ""),
    (SCALAR, [f"{n}.imm.gpr32" for n in ("shl", "sar", "shr")], "dst:gpr32", "lhs:gpr32", "shift"),
    (SCALAR, [f"{n}.imm.gpr64" for n in ("shl", "sar", "shr")], "dst:gpr64", "lhs:gpr64", "shift"),
    (SCALAR, [f"cmp.{p}.gpr64" for p in PREDICATES], "dst:gpr32", "lhs:gpr64 rhs:gpr64", ""),
    (SCALAR, ["mov.imm32"], "dst:gpr32", "", "imm32!"),
    (SCALAR, ["mov.imm64"], "dst:gpr64", "", "imm64!"),
    (SCALAR, ["mov.load.gpr32"], "dst:gpr32", "base:gpr64", "disp32"),
    (SCALAR, ["mov.load.indexed.gpr32"], "dst:gpr32", "base:gpr64 index:gpr64", "disp32 scale"),
    (SCALAR, ["mov.store.gpr32"], "", "value:gpr32 base:gpr64", "disp32"),
    (SCALAR, ["mov.store.indexed.gpr32"], "", "value:gpr32 base:gpr64 index:gpr64", "disp32 scale"),
    (SCALAR, ["mov.load.gpr64", "lea.disp"], "dst:gpr64", "base:gpr64", "disp32"),
    (SCALAR, ["mov.load.indexed.gpr64", "lea.add_scale"],
     "dst:gpr64", "base:gpr64 index:gpr64", "disp32 scale"),
    (SCALAR, ["mov.store.gpr64"], "", "value:gpr64 base:gpr64", "disp32"),
    (SCALAR, ["mov.store.indexed.gpr64"], "", "value:gpr64 base:gpr64 index:gpr64", "disp32 scale"),
    (SCALAR, ["mov"], "dst:gpr64", "src:gpr64", ""),
    (SCALAR, ["movsxd.gpr64.gpr32", "movzx.gpr64.gpr32"], "dst:gpr64", "src:gpr32", ""),
    (SCALAR, ["lea.scale"], "dst:gpr64", "index:gpr64", "disp32 scale"),
    (SCALAR, ["jmp"], "", "", "target_block!"),
    (AVX2, ["vpbroadcastd.xmm"], "dst:xmm", "value:gpr32", ""),
    (AVX2, ["vpextrd.xmm"], "dst:gpr32", "source:xmm", "lane!"),
    (AVX2, ["vpinsrd.xmm"], "dst:xmm", "dest:xmm value:gpr32", "lane!"),
    (AVX2, ["vpshufd.xmm", "vpermilps.xmm"], "dst:xmm", "source:xmm", "control!"),
    (AVX2, ["vbroadcastss.xmm"], "dst:xmm", "value:xmm", ""),
    (AVX2, ["vinsertps.xmm"], "dst:xmm", "dest:xmm value:xmm", "control!"),
    (AVX2, ["vpaddd.xmm", "vpsubd.xmm", "vpmulld.xmm", "vaddps.xmm", "vaddss.xmm", "vsubps.xmm", "vsubss.xmm",
            "vmulps.xmm", "vmulss.xmm"], "dst:xmm", "lhs:xmm rhs:xmm", ""),
    (AVX2, ["vfmadd231ss.xmm"], "dst:xmm", "acc:xmm lhs:xmm rhs:xmm", ""),
    (AVX2, ["vmovdqu32.load.xmm"], "dst:xmm", "base:gpr64", "disp32"),
    (AVX2, ["vmovdqu32.load.indexed.xmm"], "dst:xmm", "base:gpr64 index:gpr64", "disp32 scale"),
    (AVX2, ["vmovdqu32.store.xmm"], "", "value:xmm base:gpr64", "disp32"),
    (AVX2, ["vmovdqu32.store.indexed.xmm"], "", "value:xmm base:gpr64 index:gpr64", "disp32 scale"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "mnemonics", "results", "operands", "immediates"), REFERENCE)
def test_reference_rows(key: str, mnemonics: list[str], results: str, operands: str, immediates: str) -> None:
    for mnemonic in mnemonics:
        descriptor = descriptor_set(key).by_mnemonic[mnemonic]
        assert descriptor.key == f"x86.{mnemonic}"
        shown = " ".join(f"{o.name}:{o.classes[0].removeprefix('x86.')}" for o in descriptor.results)
        assert shown == results
        shown = " ".join(f"{o.name}:{o.classes[0].removeprefix('x86.')}" for o in descriptor.operands)
        assert shown == operands
        assert " ".join(i.name + "!" * i.positional for i in descriptor.immediates) == immediates


def test_scalar_rows_are_in_every_set() -> None:
    scalar = set(descriptor_set(SCALAR).by_key)
    assert scalar < set(descriptor_set(SIMD128).by_key)
    assert scalar < set(descriptor_set(AVX2).by_key)


def test_unknown_set_is_an_error() -> None:
    with pytest.raises(KeyError, match=r"x86\.scalar\.core"):
        descriptor_set("x86.avx9.core")


# -- encoding -------------------------------------------------------------------------------------


def choose(descriptor: Descriptor, rng: random.Random) -> tuple[list[int], list[int], dict[str, object]]:
    """Random registers that satisfy ties, early clobbers and singleton classes, and random immediates."""
    taken: set[tuple[bool, int]] = set()

    def pick(register_class: str) -> int:
        vector = "mm" in register_class
        if register_class in SINGLETONS:
            unit = SINGLETONS[register_class][1]
        else:
            fixed = {u for c, (_w, u) in SINGLETONS.items() if ("mm" in c) == vector}
            free = [
                u for u in range(16) if (vector, u) not in taken and u not in fixed and u != STACK_POINTER
            ]
            unit = rng.choice(free)
        taken.add((vector, unit))
        return unit

    operands = [pick(operand.classes[0]) for operand in descriptor.operands]
    ties = dict(descriptor.ties)
    results = [
        operands[ties[number]] if number in ties else pick(result.classes[0])
        for number, result in enumerate(descriptor.results)
    ]
    immediates: dict[str, object] = {}
    for immediate in descriptor.immediates:
        if immediate.kind == "symbol":
            immediates[immediate.name] = "constant"
        elif immediate.kind == "block":
            immediates[immediate.name] = "here"
        elif immediate.name == "scale":
            immediates[immediate.name] = rng.choice((1, 2, 4, 8))
        else:
            low, high = immediate.minimum or 0, immediate.maximum or 0
            if immediate.name == "lane":
                high = 1
            immediates[immediate.name] = rng.choice(
                (low, high, rng.randint(low, high), max(low, min(high, 5)))
            )
    return results, operands, immediates


def encode(
    descriptor: Descriptor, results: list[int], operands: list[int], immediates: dict[str, object]
) -> bytes:
    assembler = Assembler()
    assembler.label("here")
    assembler.emit(descriptor, results, operands, immediates)
    return assembler.finish().data


def normal(text: str) -> str:
    """Intel-syntax text of either disassembler with the differences in taste removed.

    One shows absolute targets and rip-relative addresses, the other relative ones: only the mnemonic of a
    branch and the fact that an address is rip-relative remain.
    """
    text = text.lower().replace("\t", " ")
    text = re.sub(r"\b(dword|qword|xmmword|ymmword|word|byte|ptr|short|near|oword)\b", "", text)
    text = re.sub(r"\s+", "", text).replace("movabs", "mov")
    text = re.sub(r"\b([1248])\*(r\w+)", r"\2*\1", text).replace("*1", "")
    text = re.sub(r"0x[0-9a-f]+", lambda m: str(int(m[0], 16)), text)
    text = re.sub(r"-?\b\d+\b", lambda m: str(int(m[0]) & 0xFFFFFFFFFFFFFFFF), text)
    text = re.sub(r"\[(\d+|rip)\]", "[rip]", text)
    text = re.sub(r"^(j[a-z]+|call)-?\d+$", r"\1", text)
    return re.sub(r"(r\d+)l\b", r"\1b", text)


@pytest.mark.parametrize("key", DESCRIPTOR_SETS)
def test_llvm_decodes_what_was_meant(key: str, tool: Callable[[str], str]) -> None:
    """Every instruction, with random registers, is for LLVM the instruction that the table names."""
    rng = random.Random(20)
    lines: list[str] = []
    expected: list[tuple[str, str]] = []
    for descriptor in descriptor_set(key).by_key.values():
        for _round in range(3):
            data = encode(descriptor, *choose(descriptor, rng))
            for located in instructions(load_image(data)):
                lines.append(" ".join(f"0x{byte:02x}" for byte in located.data))
                expected.append((descriptor.key, located.text))
    command = [
        tool("llvm-mc-19"),
        "--disassemble",
        "--triple=x86_64",
        "--output-asm-variant=1",
        "--mattr=+avx2,+fma",
    ]
    result = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    assert result.stderr == ""
    shown: list[str] = []
    prefix = ""
    for line in result.stdout.splitlines():
        text = line.strip()
        if not text or text.startswith("."):
            continue
        if text == "lock":
            prefix = "lock "
            continue
        shown.append(prefix + text)
        prefix = ""
    assert len(shown) == len(expected)
    different = [
        (source, ours, llvm)
        for (source, ours), llvm in zip(expected, shown, strict=True)
        if normal(ours) != normal(llvm.split("#")[0])
    ]
    assert not different, different[:20]


@pytest.mark.parametrize("key", DESCRIPTOR_SETS)
def test_descriptors_tell_the_truth(key: str) -> None:
    """By iced's tables, packets read and write exactly the registers, flags and memory they declare."""
    import iced_x86

    factory, registers = iced_x86.InstructionInfoFactory(), iced_x86.RegisterExt
    access = iced_x86.OpAccess
    # A conditional write keeps the old value otherwise, so it reads it.
    reading = {
        access.READ, access.COND_READ, access.READ_WRITE, access.READ_COND_WRITE, access.COND_WRITE
    }  # fmt: skip
    writing = {access.WRITE, access.COND_WRITE, access.READ_WRITE, access.READ_COND_WRITE}
    rng = random.Random(6)

    def full(register_class: str, unit: int) -> int:
        name = register_name("x86.ymm" if "mm" in register_class else "x86.gpr64", unit)
        return int(getattr(iced_x86.Register, name.upper()))

    for descriptor in descriptor_set(key).by_key.values():
        if "call" in descriptor.schedule_class:
            continue
        results, operands, immediates = choose(descriptor, rng)
        if "shift" in immediates:
            immediates["shift"] = 3  # a shift by zero leaves even the flags alone
        read: set[int] = set()
        written: set[int] = set()
        flags_read = flags_written = branched = False
        memory: set[str] = set()
        for located in instructions(load_image(encode(descriptor, results, operands, immediates))):
            info = factory.info(located.instruction)
            for used in info.used_registers():
                register = registers.full_register(used.register)
                # The stack pointer belongs to nobody: frame packets address memory through it.
                if register in (iced_x86.Register.RIP, iced_x86.Register.RSP, iced_x86.Register.NONE):
                    continue
                vector = (
                    registers.is_ymm(register) or registers.is_zmm(register) or registers.is_xmm(register)
                )
                if vector:
                    register = int(iced_x86.Register.YMM0) + registers.number(register)
                # Behind a branch inside the packet every write is conditional.
                reads = used.access in reading or (branched and used.access in writing)
                if reads and register not in written:
                    read.add(register)
                if used.access in writing:
                    written.add(register)
            for access_to in info.used_memory():
                memory |= {"r"} if access_to.access in reading else set()
                memory |= {"w"} if access_to.access in writing else set()
            branched |= located.instruction.flow_control == iced_x86.FlowControl.CONDITIONAL_BRANCH
            flags_read |= bool(located.instruction.rflags_read) and not flags_written
            flags_written |= bool(located.instruction.rflags_modified)
        declared_results = {
            full(o.classes[0], unit) for o, unit in zip(descriptor.results, results, strict=True)
        }
        declared_operands = {
            full(o.classes[0], unit) for o, unit in zip(descriptor.operands, operands, strict=True)
        }
        effects = descriptor.effects
        assert written == declared_results, descriptor.key
        # Scalar and inserting forms also keep, that is read, the rest of the register they write.
        assert declared_operands <= read, descriptor.key
        assert read <= declared_operands | declared_results, descriptor.key
        assert flags_read == ("flags" in effects.implicit_reads), descriptor.key
        assert flags_written == ("flags" in effects.implicit_writes), descriptor.key
        declared_memory = {
            letter for letter, spaces in (("r", effects.reads), ("w", effects.writes)) if spaces
        }
        assert memory == declared_memory, descriptor.key


@pytest.mark.parametrize("key", [SCALAR, SIMD128])
def test_profiles_without_avx_have_legacy_encodings_only(key: str) -> None:
    rng = random.Random(4)
    allowed = {"pni", "ssse3", "sse4_1", "sse4_2"}
    for descriptor in descriptor_set(key).by_key.values():
        needed = required_features(load_image(encode(descriptor, *choose(descriptor, rng))))
        assert set(needed) <= (allowed if key == SIMD128 else set()), descriptor.key


def test_avx2_profile_has_no_legacy_vector_encodings() -> None:
    import iced_x86

    rng = random.Random(5)
    for descriptor in descriptor_set(AVX2).by_key.values():
        for located in instructions(load_image(encode(descriptor, *choose(descriptor, rng)))):
            if "mm" in located.text:
                assert located.instruction.encoding == iced_x86.EncodingKind.VEX, descriptor.key


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mnemonic", "results", "operands", "immediates", "message"),
    [
        ("add.gpr32", [0], [1, 2], {}, "share the register"),
        ("add.gpr32", [0], [0], {}, "takes 1 results and 2 operands"),
        ("add.gpr32", [16], [16, 2], {}, "no register 16"),
        ("idiv.gpr32", [0, 2], [0, 2], {}, "too early"),
        ("mov.load.gpr32", [0], [1], {}, "needs the immediate 'disp32'"),
        ("mov.load.gpr32", [0], [1], {"disp32": 1 << 31}, "outside"),
        ("mov.load.gpr32", [0], [1], {"disp32": 0, "scale": 1}, "no immediate 'scale'"),
        ("mov.load.indexed.gpr32", [0], [1, 2], {"disp32": 0, "scale": 3}, "scale must be"),
        ("mov.load.indexed.gpr32", [0], [1, 4], {"disp32": 0, "scale": 1}, "rsp cannot be an index"),
        ("shl.imm.gpr32", [0], [0], {"shift": 32}, "outside 0 to 31"),
        ("mov.imm32", [0], [], {"imm32": 1.5}, "must be an integer"),
        ("lea.symbol", [0], [], {"symbol": ""}, "must name a symbol"),
    ],
)
def test_impossible_instructions_are_refused(
    mnemonic: str, results: list[int], operands: list[int], immediates: dict[str, object], message: str
) -> None:
    descriptor = descriptor_set(SCALAR).by_mnemonic[mnemonic]
    with pytest.raises(EncodingError, match=re.escape(message)):
        encode(descriptor, results, operands, immediates)
