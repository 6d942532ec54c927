"""Text of a SPIR-V module, one instruction a line, in the notation of `spirv-dis`.

Ids are printed as numbers, or as ``%name_id`` where the module names them.  Instructions and enumeration
values outside the tables of this package are printed as numbers, so any module can be shown.
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag

from loom_target_spirv import enumerants
from loom_target_spirv.encoding import decode_string, instructions, module_words
from loom_target_spirv.errors import SpirvError
from loom_target_spirv.grammar import ARGUMENTS, BY_NAME, BY_OPCODE, GLSL_SET, Instruction

_RESULT_COLUMN = 15
_NAME = BY_NAME["OpName"].opcode
_IMPORT = BY_NAME["OpExtInstImport"].opcode
_EXT_INST = BY_NAME["OpExtInst"].opcode
_TYPE_INT = BY_NAME["OpTypeInt"].opcode
_TYPE_FLOAT = BY_NAME["OpTypeFloat"].opcode


def disassemble(data: bytes) -> str:
    """The text of a module.

    Raises SpirvError when the data is no SPIR-V module or an instruction is cut short.
    """
    return _Disassembler(data).text()


class _Disassembler:
    def __init__(self, data: bytes) -> None:
        header = module_words(data)
        self._lines = [
            "; SPIR-V",
            f"; Version: {header[1] >> 16 & 0xFF}.{header[1] >> 8 & 0xFF}",
            f"; Bound: {header[3]}",
        ]
        self._instructions = list(instructions(data))
        self._names: dict[int, str] = {}
        self._widths: dict[int, tuple[str, int]] = {}  # type id -> kind and width of a scalar
        self._types: dict[int, int] = {}  # value id -> type id, to size the literals of a switch
        self._glsl: set[int] = set()
        for opcode, words in self._instructions:
            if opcode == _NAME and len(words) > 1:
                text = decode_string(words[1:])[0]
                cleaned = "".join(c if c.isalnum() or c == "_" else "_" for c in text)
                if cleaned:
                    self._names[words[0]] = f"%{cleaned}_{words[0]}"

    def text(self) -> str:
        for opcode, words in self._instructions:
            self._lines.append(self._line(opcode, words))
        return "\n".join(self._lines) + "\n"

    def _id(self, number: int) -> str:
        return self._names.get(number, f"%{number}")

    def _line(self, opcode: int, words: list[int]) -> str:
        row = BY_OPCODE.get(opcode)
        if row is None:
            return " " * _RESULT_COLUMN + " ".join([f"Op{opcode}", *map(str, words)])
        try:
            result, parts = self._parts(row, words)
        except IndexError as error:
            raise SpirvError(f"{row.name} is cut short") from error
        left = f"{self._id(result)} = " if result is not None else ""
        return f"{left:>{_RESULT_COLUMN}}{' '.join([row.name, *parts])}"

    def _parts(self, row: Instruction, words: list[int]) -> tuple[int | None, list[str]]:
        """The result id of an instruction and the text of its operands, result type first."""
        position, type_id, result = 0, None, None
        parts = []
        if row.has_type:
            type_id = words[0]
            parts.append(self._id(type_id))
            position = 1
        if row.has_result:
            result = words[position]
            position += 1
            if type_id is not None:
                self._types[result] = type_id
        self._remember(row, words)
        for kind in row.operands:
            optional, repeated = kind.endswith("?"), kind.endswith("*")
            if optional and position == len(words):
                break
            while position < len(words) or not (optional or repeated):
                text, position = self._operand(kind.rstrip("?*"), words, position, type_id)
                parts.append(text)
                if not repeated:
                    break
        if row.opcode == _EXT_INST and words[2] in self._glsl:
            parts[2] = _member(enumerants.GLSLstd450, words[3])
        parts += map(str, words[position:])
        return result, parts

    def _remember(self, row: Instruction, words: list[int]) -> None:
        if row.opcode == _TYPE_INT:
            self._widths[words[0]] = ("signed" if words[2] else "unsigned", words[1])
        elif row.opcode == _TYPE_FLOAT:
            self._widths[words[0]] = ("float", words[1])
        elif row.opcode == _IMPORT and decode_string(words[1:])[0] == GLSL_SET:
            self._glsl.add(words[0])

    def _operand(self, kind: str, words: list[int], position: int, type_id: int | None) -> tuple[str, int]:
        """The text of the operand at `position` and the position after it."""
        word = words[position]
        match kind:
            case "id":
                return self._id(word), position + 1
            case "int":
                return str(word), position + 1
            case "str":
                text, count = decode_string(words[position:])
                escaped = text.replace("\\", "\\\\").replace('"', '\\"')
                return f'"{escaped}"', position + count
            case "word":
                return self._literal(words[position:], type_id), len(words)
            case "phi":
                return f"{self._id(word)} {self._id(words[position + 1])}", position + 2
            case "case":
                kind_of, width = self._widths.get(self._types.get(words[0], 0), ("unsigned", 32))
                count = 2 if width == 64 else 1
                literal = _number(kind_of, width, words[position : position + count])
                return f"{literal} {self._id(words[position + count])}", position + count + 1
            case _:
                return self._enumerant(kind, words, position, type_id)

    def _literal(self, words: list[int], type_id: int | None) -> str:
        kind, width = self._widths.get(type_id or 0, ("unsigned", 32 * len(words)))
        return _number(kind, width, words)

    def _enumerant(self, kind: str, words: list[int], position: int, type_id: int | None) -> tuple[str, int]:
        word, position = words[position], position + 1
        enumeration: type[IntEnum] | type[IntFlag] = getattr(enumerants, kind)
        arguments = ARGUMENTS.get(kind, {})
        if issubclass(enumeration, IntFlag):
            bits = [1 << bit for bit in range(32) if word >> bit & 1]
            parts = ["|".join(_member(enumeration, bit) for bit in bits) or "None"]
        else:
            bits = [word]
            parts = [_member(enumeration, word)]
        for bit in bits:
            for argument in arguments.get(bit, "").split():
                text, position = self._operand(argument, words, position, type_id)
                parts.append(text)
        return " ".join(parts), position


def _member(enumeration: type[IntEnum] | type[IntFlag], number: int) -> str:
    try:
        return enumeration(number).name or str(number)
    except ValueError:
        return str(number)


def _number(kind: str, width: int, words: list[int]) -> str:
    """A literal number: integers in decimal, floats as a C99 hexadecimal literal or, outside it, their
    bits.
    """
    bits = sum(word << 32 * index for index, word in enumerate(words)) & ((1 << width) - 1)
    if kind == "signed" and bits >> (width - 1):
        return str(bits - (1 << width))
    if kind == "float":
        code = {16: "<e", 32: "<f", 64: "<d"}.get(width)
        if code is not None:
            value = struct.unpack(code, bits.to_bytes(width // 8, "little"))[0]
            return (
                value.hex() if value == value and abs(value) != float("inf") else f"0x{bits:0{width // 4}x}"
            )
    return str(bits)
