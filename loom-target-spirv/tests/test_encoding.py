"""Words of the binary form, and the disassembler on whole modules."""

from __future__ import annotations

import math
import re
import struct
import subprocess
from collections.abc import Callable

import pytest

from loom_target_spirv import types
from loom_target_spirv.disasm import disassemble
from loom_target_spirv.elementwise import elementwise_module
from loom_target_spirv.encoding import (
    decode_string,
    float_bits,
    instruction,
    instructions,
    literal_words,
    string_words,
)
from loom_target_spirv.errors import SpirvError


@pytest.mark.parametrize("text", ["", "a", "abc", "abcd", "größer", "x" * 1000])
def test_strings_round_trip(text: str) -> None:
    """A literal string ends in at least one zero byte and reads back."""
    words = string_words(text)
    assert words[-1] >> 24 == 0
    assert decode_string([*words, 9, 9]) == (text, len(words))


def test_strings_that_cannot_be() -> None:
    """NUL inside, a missing terminator and bad UTF-8 are errors."""
    with pytest.raises(SpirvError, match="NUL"):
        string_words("a\0b")
    with pytest.raises(SpirvError, match="terminating"):
        decode_string([0x61616161])
    with pytest.raises(SpirvError, match="UTF-8"):
        decode_string([0x000000FF])


def test_float_bits_round_and_keep_special_values() -> None:
    """Rounding to nearest even, overflow to infinity, the sign of zero."""
    assert float_bits(32, 0.1) == 0x3DCCCCCD
    assert float_bits(16, 65520.0) == 0x7C00
    assert float_bits(16, -65519.0) == 0xFBFF
    assert float_bits(32, -1e39) == 0xFF800000
    assert float_bits(64, -0.0) == 1 << 63
    assert float_bits(32, math.inf) == 0x7F800000


def test_literals_fill_words() -> None:
    """Narrow unsigned literals are zero-extended, signed ones sign-extended, wide ones low word first."""
    assert literal_words(types.U8, -1) == [0xFF]
    assert literal_words(types.IntType(16, signed=True), -2) == [0xFFFFFFFE]
    assert literal_words(types.U64, 0x1_0000_0002) == [2, 1]


def test_oversized_instruction_is_refused() -> None:
    """The word count of an instruction has 16 bits."""
    with pytest.raises(SpirvError, match="65535"):
        instruction("OpPhi", *range(70_000))


@pytest.mark.parametrize("cut", [0, 3, 16, 22, -2])
def test_damaged_modules_are_refused(cut: int) -> None:
    """No part of a module crashes the reader."""
    data = elementwise_module("copy", [types.F32], types.F32, lambda function, values: values[0])
    with pytest.raises(SpirvError):
        list(instructions(data[:cut]))


def test_a_cut_instruction_stream_is_refused() -> None:
    """An instruction that claims more words than there are is an error, not an endless loop."""
    data = elementwise_module("copy", [types.F32], types.F32, lambda function, values: values[0])
    with pytest.raises(SpirvError, match="past the end"):
        list(instructions(data[:-4] + struct.pack("<I", 9 << 16 | 56)))
    with pytest.raises(SpirvError, match="past the end"):
        list(instructions(data[:20] + b"\0\0\0\0"))


def test_big_endian_modules_are_read() -> None:
    """The magic number tells the byte order."""
    data = elementwise_module("copy", [types.F32], types.F32, lambda function, values: values[0])
    swapped = struct.pack(f">{len(data) // 4}I", *struct.unpack(f"<{len(data) // 4}I", data))
    assert disassemble(swapped) == disassemble(data)


def test_disassembly_agrees_with_spirv_dis(
    spirv_tool: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """A whole kernel reads the same, names aside."""
    data = elementwise_module(
        "sum",
        [types.F64, types.F64],
        types.F64,
        lambda function, values: function.exact("OpFAdd", types.F64, *values),
    )
    judged = spirv_tool("spirv-dis", data, "--raw-id", "--no-header")
    assert judged.returncode == 0, judged.stderr

    def lines(text: str) -> list[str]:
        kept = (line for line in text.splitlines() if not line.startswith(";"))
        return [re.sub(r"\s+", " ", re.sub(r"%\w+_(\d+)", r"%\1", line)).strip() for line in kept]

    assert lines(disassemble(data)) == lines(judged.stdout)
