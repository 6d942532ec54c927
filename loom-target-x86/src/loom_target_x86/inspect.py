"""What machine code contains: its instructions, the processor features it needs, its text.

Decoding is iced-x86's, imported when first used.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from attrs import frozen

from loom_target_x86.image import Image


class DecodingError(ValueError):
    """Bytes that are no instruction."""


@frozen
class Located:
    """One decoded instruction (an `iced_x86.Instruction`) and where it lies in the image."""

    offset: int
    instruction: Any
    data: bytes

    @property
    def text(self) -> str:
        """Intel-syntax text."""
        return _format(self.instruction)


@lru_cache(maxsize=1)
def _formatter() -> Any:
    import iced_x86

    formatter = iced_x86.Formatter(iced_x86.FormatterSyntax.INTEL)
    formatter.hex_prefix, formatter.hex_suffix = "0x", ""
    formatter.space_after_operand_separator = True
    formatter.branch_leading_zeros = False
    formatter.show_branch_size = False
    return formatter


def _format(instruction: Any) -> str:
    return str(_formatter().format(instruction))


def decode_one(data: bytes, address: int) -> str:
    """Text of the first instruction of `data`, which lies at `address`; `(bad)` when it is none."""
    import iced_x86

    decoder = iced_x86.Decoder(64, data, ip=address)
    instruction = decoder.decode()
    return "(bad)" if instruction.is_invalid else _format(instruction)


def instructions(image: Image) -> Iterator[Located]:
    """Every instruction of an image in address order. Raises `DecodingError` at bytes that are none."""
    import iced_x86

    for begin, end in image.ranges:
        decoder = iced_x86.Decoder(64, image.data[begin:end], ip=begin)
        for instruction in decoder:
            offset = instruction.ip
            data = image.data[offset : offset + instruction.len]
            if instruction.is_invalid:
                raise DecodingError(f"the bytes {data.hex(' ')} at offset {offset:#x} are no x86-64 instruction")
            yield Located(offset, instruction, data)


def symbol_at(image: Image, offset: int) -> str:
    """`name+0x12` for an offset in the code."""
    before = [(start, name) for name, start in image.symbols.items() if start <= offset]
    if not before:
        return f"+{offset:#x}"
    start, name = max(before)
    return name if start == offset else f"{name}+{offset - start:#x}"


@lru_cache(maxsize=1)
def _feature_flags() -> dict[int, str]:
    """iced feature -> flag in /proc/cpuinfo; the empty string for what every x86-64 processor has."""
    import iced_x86

    baseline = (
        "INTEL8086", "INTEL186", "INTEL286", "INTEL386", "INTEL486", "X64", "CMOV", "CX8", "FPU", "FXSR",
        "MMX", "SSE", "SSE2", "SYSCALL", "MULTIBYTENOP", "PAUSE", "CPUID", "RDPMC", "TSC", "INTEL386_ONLY",
        "INTEL286_ONLY", "INTEL8086_ONLY", "INTEL386_486_ONLY", "INTEL386_A0_ONLY",
    )  # fmt: skip
    named = {
        "SSE3": "pni", "SSSE3": "ssse3", "SSE4_1": "sse4_1", "SSE4_2": "sse4_2", "POPCNT": "popcnt",
        "LZCNT": "abm", "BMI1": "bmi1", "BMI2": "bmi2", "MOVBE": "movbe", "CMPXCHG16B": "cx16",
        "AVX": "avx", "AVX2": "avx2", "FMA": "fma", "F16C": "f16c", "AVX512F": "avx512f",
        "AVX512VL": "avx512vl", "AVX512BW": "avx512bw", "AVX512DQ": "avx512dq", "AVX512CD": "avx512cd",
        "AVX512_VNNI": "avx512_vnni", "AVX512_BF16": "avx512_bf16", "AVX512_FP16": "avx512_fp16",
        "AVX_VNNI": "avx_vnni", "AVX_VNNI_INT8": "avx_vnni_int8", "AVX_VNNI_INT16": "avx_vnni_int16",
        "SHA": "sha_ni", "AES": "aes", "PCLMULQDQ": "pclmulqdq", "RDRAND": "rdrand", "RDSEED": "rdseed",
        "ADX": "adx", "CET_IBT": "",
    }  # fmt: skip
    features = iced_x86.CpuidFeature
    flags = {getattr(features, name): "" for name in baseline if hasattr(features, name)}
    flags.update({getattr(features, name): flag for name, flag in named.items() if hasattr(features, name)})
    return flags


def required_features(image: Image) -> dict[str, Located]:
    """Features beyond the x86-64 baseline (spelled as in /proc/cpuinfo), each with its first user.

    A feature this table does not know is reported by iced's number, so that no host claims to have it.
    """
    flags = _feature_flags()
    needed: dict[str, Located] = {}
    for located in instructions(image):
        for feature in located.instruction.cpuid_features():
            flag = flags.get(feature, f"feature {feature}")
            if flag:
                needed.setdefault(flag, located)
    return needed
