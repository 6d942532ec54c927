"""Words of the SPIR-V binary form: instructions, literal strings and literal numbers.

Source: "SPIR-V Specification", version 1.6, sections 2.2.1 (Instructions, Literal) and 2.3 (Physical Layout).
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator

from loom_target_spirv.errors import SpirvError
from loom_target_spirv.grammar import BY_NAME, MAGIC
from loom_target_spirv.types import FloatType, IntType

_FLOAT_FORMAT = {16: "<e", 32: "<f", 64: "<d"}
_INFINITY = {16: 0x7C00, 32: 0x7F800000, 64: 0x7FF0000000000000}
_HEADER_WORDS = 5


def instruction(name: str, *operands: int) -> list[int]:
    """The words of one instruction: its head and its operand words (result type and result first).

    Raises SpirvError when it does not fit in the 65535 words the format allows.
    """
    count = 1 + len(operands)
    if count > 0xFFFF:
        raise SpirvError(f"{name} needs {count} words; SPIR-V allows 65535")
    return [count << 16 | BY_NAME[name].opcode, *operands]


def string_words(text: str) -> list[int]:
    """A literal string: UTF-8, a terminating zero, padded with zeros to a whole word."""
    data = text.encode("utf-8")
    if b"\0" in data:
        raise SpirvError("a SPIR-V string cannot contain a NUL character")
    data += b"\0" * (4 - len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def decode_string(words: list[int]) -> tuple[str, int]:
    """The literal string at the start of `words` and the number of words it takes.

    Raises SpirvError when the terminating zero is missing or the bytes are not UTF-8.
    """
    data = struct.pack(f"<{len(words)}I", *words)
    end = data.find(b"\0")
    if end < 0:
        raise SpirvError("a literal string has no terminating zero")
    try:
        return data[:end].decode("utf-8"), end // 4 + 1
    except UnicodeDecodeError as error:
        raise SpirvError("a literal string is not UTF-8") from error


def float_bits(width: int, value: float) -> int:
    """The bits of `value` rounded to nearest even in the IEEE 754 format of `width` bits."""
    try:
        return int.from_bytes(struct.pack(_FLOAT_FORMAT[width], value), "little")
    except OverflowError:
        # Only a finite value that rounds past the largest finite one ends here; rounding gives infinity.
        return _INFINITY[width] | (1 << (width - 1) if value < 0 else 0)


def literal_words(type_: IntType | FloatType, bits: int) -> list[int]:
    """The words of a literal number given as `type_.width` bits.

    A number narrower than a word sits in the low bits; a signed integer is sign-extended into the rest.
    """
    bits &= (1 << type_.width) - 1
    if type_.width == 64:
        return [bits & 0xFFFFFFFF, bits >> 32]
    if isinstance(type_, IntType) and type_.signed and bits >> (type_.width - 1):
        bits |= 0xFFFFFFFF << type_.width & 0xFFFFFFFF
    return [bits]


def module_words(data: bytes) -> array[int]:
    """The words of a module in either byte order.

    Raises SpirvError when the data is no SPIR-V module.
    """
    if len(data) < 4 * _HEADER_WORDS or len(data) % 4:
        raise SpirvError(f"{len(data)} bytes are no SPIR-V module")
    words = array("I", data)
    if sys.byteorder == "big":
        words.byteswap()
    if words[0] != MAGIC:
        words.byteswap()
    if words[0] != MAGIC:
        raise SpirvError("the data does not start with the SPIR-V magic number")
    return words


def instructions(data: bytes) -> Iterator[tuple[int, list[int]]]:
    """Each instruction of a module as its opcode and the words after its head.

    Raises SpirvError when the data is no module or an instruction reaches past its end.
    """
    words = module_words(data)
    position = _HEADER_WORDS
    while position < len(words):
        opcode, count = words[position] & 0xFFFF, words[position] >> 16
        if count == 0 or position + count > len(words):
            raise SpirvError(f"the instruction at word {position} reaches past the end of the module")
        yield opcode, words[position + 1 : position + count].tolist()
        position += count
