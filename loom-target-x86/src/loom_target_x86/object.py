"""Relocatable ELF64 objects for x86-64: what a C linker takes.

Layout and constants: System V ABI, "Object Files" (generic ABI), and the AMD64 supplement, sections 4.1-4.4.
The bytes depend on the arguments alone.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from attrs import frozen

from loom_target_x86.abi import SIGNATURE_SECTION, Signature, encode_signatures
from loom_target_x86.assembler import Code, Relocation

ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELA = struct.Struct("<QQq")

ET_REL, EM_X86_64 = 1, 62
SHT_NULL, SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA = 0, 1, 2, 3, 4
SHF_ALLOC, SHF_EXECINSTR, SHF_INFO_LINK = 2, 4, 0x40
STB_LOCAL, STB_GLOBAL = 0, 1
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_SECTION = 0, 1, 2, 3
SHN_UNDEF = 0

RELOCATION_TYPES = {"abs64": 1, "pc32": 2, "plt32": 4}


class ObjectError(ValueError):
    """Contents that cannot make an object, or bytes that are not one."""


@frozen
class FunctionSymbol:
    """A function in `.text`; a `local` one is invisible outside the object."""

    name: str
    offset: int
    size: int
    local: bool = False


@frozen
class Constant:
    """Read-only data in `.rodata`, addressed by a local symbol."""

    name: str
    data: bytes
    alignment: int = 16


@frozen
class _Section:
    name: str
    type: int
    flags: int = 0
    data: bytes = b""
    link: int = 0
    info: int = 0
    alignment: int = 1
    entry_size: int = 0


class _Strings:
    """A string table under construction."""

    def __init__(self) -> None:
        self.data = bytearray(1)
        self._offsets: dict[str, int] = {"": 0}

    def add(self, text: str) -> int:
        if text not in self._offsets:
            self._offsets[text] = len(self.data)
            self.data += text.encode() + b"\0"
        return self._offsets[text]


@frozen
class ObjectContents:
    """Everything that goes into one object. Code offsets refer to `text.data`."""

    text: Code
    functions: tuple[FunctionSymbol, ...]
    constants: tuple[Constant, ...] = ()
    signatures: tuple[Signature, ...] = ()


def functions_of(code: Code, exported: Sequence[str]) -> list[FunctionSymbol]:
    """A symbol for each named label of `code`, reaching to the next one; `exported` ones are global.

    Raises `ObjectError` when an exported name is not a label.
    """
    labels = sorted((offset, name) for name, offset in code.labels.items() if isinstance(name, str))
    missing = set(exported) - {name for _offset, name in labels}
    if missing:
        raise ObjectError(f"no code for {sorted(missing)[0]!r}")
    ends = [offset for offset, _name in labels[1:]] + [len(code.data)]
    return [
        FunctionSymbol(name, offset, end - offset, local=name not in exported)
        for (offset, name), end in zip(labels, ends, strict=True)
    ]


def _layout_constants(constants: Sequence[Constant]) -> tuple[bytes, dict[str, int], int]:
    data = bytearray()
    offsets: dict[str, int] = {}
    alignment = 1
    for constant in constants:
        if constant.name in offsets:
            raise ObjectError(f"two constants are called {constant.name!r}")
        if constant.alignment < 1 or constant.alignment & (constant.alignment - 1):
            raise ObjectError(
                f"constant {constant.name!r}: alignment {constant.alignment} is no power of two"
            )
        data += bytes(-len(data) % constant.alignment)
        offsets[constant.name] = len(data)
        data += constant.data
        alignment = max(alignment, constant.alignment)
    return bytes(data), offsets, alignment


def _symbol_table(
    contents: ObjectContents, constants: dict[str, int], strings: _Strings, text: int, rodata: int
) -> tuple[bytes, dict[str, int], int]:
    """(symbol table, symbol name -> index, index of the first global)."""
    functions = {function.name for function in contents.functions}
    if len(functions) != len(contents.functions):
        raise ObjectError("two functions have one name")
    clash = functions & set(constants)
    if clash:
        raise ObjectError(f"{sorted(clash)[0]!r} names a function and a constant")
    sizes = {constant.name: len(constant.data) for constant in contents.constants}
    local: list[tuple[str, int, int, int, int]] = []
    for name, offset in constants.items():
        local.append((name, STT_OBJECT, rodata, offset, sizes[name]))
    local += [(f.name, STT_FUNC, text, f.offset, f.size) for f in contents.functions if f.local]
    visible = [(f.name, STT_FUNC, text, f.offset, f.size) for f in contents.functions if not f.local]
    defined = functions | set(constants)
    for relocation in contents.text.relocations:
        if relocation.symbol not in defined:
            defined.add(relocation.symbol)
            visible.append((relocation.symbol, STT_NOTYPE, SHN_UNDEF, 0, 0))
    table = bytearray(SYMBOL.size)
    index: dict[str, int] = {}
    for binding, symbols in ((STB_LOCAL, local), (STB_GLOBAL, visible)):
        for name, kind, section, value, size in symbols:
            index[name] = len(table) // SYMBOL.size
            table += SYMBOL.pack(strings.add(name), binding << 4 | kind, 0, section, value, size)
    return bytes(table), index, 1 + len(local)


def _relocations(relocations: Sequence[Relocation], index: dict[str, int]) -> bytes:
    return b"".join(
        RELA.pack(
            relocation.offset,
            index[relocation.symbol] << 32 | RELOCATION_TYPES[relocation.kind],
            relocation.addend,
        )
        for relocation in relocations
    )


def write_object(contents: ObjectContents) -> bytes:
    """A relocatable object with `.text`, `.rodata`, symbols, relocations and the signature section.

    Raises `ObjectError` for contradictory contents (duplicate names, symbols outside the code).
    """
    for function in contents.functions:
        if not 0 <= function.offset <= function.offset + function.size <= len(contents.text.data):
            raise ObjectError(f"function {function.name!r} lies outside the code")
    rodata, constants, alignment = _layout_constants(contents.constants)
    strings = _Strings()
    text_index, rodata_index = 1, 3
    symbols, index, first_global = _symbol_table(contents, constants, strings, text_index, rodata_index)
    symtab_index = 6
    sections = [
        _Section("", SHT_NULL, alignment=0),
        _Section(".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, contents.text.data, alignment=16),
        _Section(
            ".rela.text", SHT_RELA, SHF_INFO_LINK, _relocations(contents.text.relocations, index),
            symtab_index, text_index, 8, RELA.size,
        ),
        _Section(".rodata", SHT_PROGBITS, SHF_ALLOC, rodata, alignment=alignment),
        _Section(SIGNATURE_SECTION, SHT_PROGBITS, 0, encode_signatures(contents.signatures)),
        # Says that nothing here needs an executable stack.
        _Section(".note.GNU-stack", SHT_PROGBITS),
        _Section(".symtab", SHT_SYMTAB, 0, symbols, symtab_index + 1, first_global, 8, SYMBOL.size),
        _Section(".strtab", SHT_STRTAB, 0, bytes(strings.data)),
    ]  # fmt: skip
    return _write_sections(sections)


def _write_sections(sections: list[_Section]) -> bytes:
    names = _Strings()
    for section in sections:
        names.add(section.name)
    names.add(".shstrtab")
    sections = [*sections, _Section(".shstrtab", SHT_STRTAB, 0, bytes(names.data))]
    body = bytearray()
    headers = bytearray()
    for section in sections:
        start = ELF_HEADER.size + len(body)
        padding = -start % max(section.alignment, 1)
        body += bytes(padding)
        headers += SECTION_HEADER.pack(
            names.add(section.name), section.type, section.flags, 0,
            0 if section.type == SHT_NULL else start + padding, len(section.data),
            section.link, section.info, section.alignment, section.entry_size,
        )  # fmt: skip
        body += section.data
    body += bytes(-(ELF_HEADER.size + len(body)) % 8)
    identity = b"\x7fELF" + bytes((2, 1, 1, 0)) + bytes(8)  # 64-bit, little-endian, version 1, System V
    header = ELF_HEADER.pack(
        identity, ET_REL, EM_X86_64, 1, 0, 0, ELF_HEADER.size + len(body),
        0, ELF_HEADER.size, 0, 0, SECTION_HEADER.size, len(sections), len(sections) - 1,
    )  # fmt: skip
    return header + bytes(body) + bytes(headers)
