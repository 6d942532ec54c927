"""Relocatable objects to position-independent images that a runner maps and calls.

Reads any ELF64 x86-64 relocatable object whose code needs no dynamic linker, so code from a C compiler runs
as well. An image is one block of bytes, code first, then data from the next page on; it can be placed at
any page-aligned address.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from attrs import evolve, frozen

from loom_target_x86 import object as elf
from loom_target_x86.abi import SIGNATURE_SECTION, Signature, decode_signatures
from loom_target_x86.object import ObjectError
from loom_target_x86.values import AbiError

PAGE_SIZE = 4096

_SHT_NOBITS = 8
_SHF_WRITE = 1
_PC_RELATIVE = {2, 4}  # R_X86_64_PC32, R_X86_64_PLT32
_ABSOLUTE = 1  # R_X86_64_64


@frozen(eq=False)
class Image:
    """Linked code and constants.

    `data[:text_size]` is executable, everything from `rodata_offset` is data. `symbols` are the offsets of
    the global functions, `ranges` the byte ranges that hold instructions, `base_fixups` the 8-byte fields to
    which the image's address must be added.
    """

    data: bytes
    text_size: int
    rodata_offset: int
    symbols: Mapping[str, int]
    ranges: tuple[tuple[int, int], ...]
    base_fixups: tuple[int, ...]
    signatures: Mapping[str, Signature]

    def placed_at(self, base: int) -> bytes:
        """The bytes for a given address."""
        if not self.base_fixups:
            return self.data
        data = bytearray(self.data)
        for offset in self.base_fixups:
            (value,) = struct.unpack_from("<Q", data, offset)
            struct.pack_into("<Q", data, offset, (value + base) & (1 << 64) - 1)
        return bytes(data)


@frozen
class _Section:
    name: str
    type: int
    flags: int
    data: bytes
    link: int
    info: int
    alignment: int


@frozen
class _Symbol:
    name: str
    binding: int
    kind: int
    section: int
    value: int


def is_object(data: bytes) -> bool:
    """True for ELF files, whatever is in them."""
    return data[:4] == b"\x7fELF"


def _unpack(layout: struct.Struct, data: bytes, offset: int, what: str) -> tuple[int, ...]:
    if offset < 0 or offset + layout.size > len(data):
        raise ObjectError(f"the object is truncated: {what} at byte {offset}")
    return layout.unpack_from(data, offset)


def _string(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset)
    if offset > len(table) or end < 0:
        raise ObjectError(f"a name at byte {offset} runs past its string table")
    return table[offset:end].decode(errors="replace")


def _read_sections(data: bytes) -> list[_Section]:
    header = _unpack(elf.ELF_HEADER, data, 0, "file header")
    if data[:6] != b"\x7fELF\x02\x01":
        raise ObjectError("not a little-endian 64-bit ELF file")
    if header[1] != elf.ET_REL or header[2] != elf.EM_X86_64:
        raise ObjectError("not a relocatable object for x86-64")
    offset, count, names_index = header[6], header[12], header[13]
    rows = [
        _unpack(
            elf.SECTION_HEADER, data, offset + number * elf.SECTION_HEADER.size, f"section header {number}"
        )
        for number in range(count)
    ]
    bodies: list[bytes] = []
    for number, row in enumerate(rows):
        kind, start, size = row[1], row[4], row[5]
        if kind == _SHT_NOBITS and size > 0:
            raise ObjectError("writable variables (.bss) are not supported")
        if kind not in (elf.SHT_NULL, _SHT_NOBITS) and start + size > len(data):
            raise ObjectError(f"the object is truncated: section {number} ends at byte {start + size}")
        bodies.append(data[start : start + size] if kind not in (elf.SHT_NULL, _SHT_NOBITS) else b"")
    if names_index >= count:
        raise ObjectError("the section name table is missing")
    return [
        _Section(_string(bodies[names_index], row[0]), row[1], row[2], body, row[6], row[7], row[8])
        for row, body in zip(rows, bodies, strict=True)
    ]


def _read_symbols(sections: Sequence[_Section]) -> list[_Symbol]:
    for section in sections:
        if section.type != elf.SHT_SYMTAB:
            continue
        if section.link >= len(sections):
            raise ObjectError("the symbol table names no string table")
        strings = sections[section.link].data
        symbols = []
        for offset in range(0, len(section.data), elf.SYMBOL.size):
            name, info, _other, index, value, _size = _unpack(elf.SYMBOL, section.data, offset, "symbol")
            symbols.append(_Symbol(_string(strings, name), info >> 4, info & 15, index, value))
        return symbols
    raise ObjectError("the object has no symbol table")


def _place(
    sections: Sequence[_Section],
) -> tuple[bytearray, dict[int, int], int, int, list[tuple[int, int]]]:
    """Lay out the allocated sections: (bytes, section -> offset, text size, rodata offset, code ranges)."""
    data = bytearray()
    places: dict[int, int] = {}
    ranges: list[tuple[int, int]] = []
    text_size = rodata_offset = 0
    for executable in (True, False):
        for index, section in enumerate(sections):
            if not section.flags & elf.SHF_ALLOC or bool(section.flags & elf.SHF_EXECINSTR) != executable:
                continue
            # Unwind tables serve debuggers only; their relocations are not worth applying.
            if section.name.startswith((".eh_frame", ".note")):
                continue
            relocated_constants = section.name.startswith(".data.rel.ro")
            if section.flags & _SHF_WRITE and section.data and not relocated_constants:
                raise ObjectError(f"writable variables ({section.name}) are not supported")
            if section.alignment > PAGE_SIZE:
                raise ObjectError(
                    f"section {section.name} asks for an alignment of {section.alignment} bytes"
                )
            data += bytes(-len(data) % max(section.alignment, 1))
            places[index] = len(data)
            if executable and section.data:
                ranges.append((len(data), len(data) + len(section.data)))
            data += section.data
        if executable:
            text_size = len(data)
            data += bytes(-len(data) % PAGE_SIZE)
            rodata_offset = len(data)
    return data, places, text_size, rodata_offset, ranges


def link_object(data: bytes) -> Image:
    """Place and relocate one object. Raises `ObjectError` for malformed or unsupported objects."""
    sections = _read_sections(data)
    symbols = _read_symbols(sections)
    image, places, text_size, rodata_offset, ranges = _place(sections)
    base_fixups: list[int] = []
    for section in sections:
        if section.type != elf.SHT_RELA or section.info not in places:
            continue
        size = len(sections[section.info].data)
        for at in range(0, len(section.data), elf.RELA.size):
            offset, info, addend = _unpack(elf.RELA, section.data, at, "relocation")
            kind, number = info & 0xFFFFFFFF, info >> 32
            if number >= len(symbols):
                raise ObjectError(f"a relocation names symbol {number} of {len(symbols)}")
            if offset + (8 if kind == _ABSOLUTE else 4) > size:
                raise ObjectError(f"a relocation at byte {offset} lies outside its section")
            value = _address(symbols[number], places) + addend
            _relocate(image, kind, places[section.info] + offset, value, symbols[number].name)
            if kind == _ABSOLUTE:
                base_fixups.append(places[section.info] + offset)
    functions = {
        symbol.name: _address(symbol, places)
        for symbol in symbols
        if symbol.binding == elf.STB_GLOBAL and symbol.section in places and symbol.kind == elf.STT_FUNC
    }
    signatures = _signatures(sections, functions)
    return Image(
        bytes(image), text_size, rodata_offset, functions, tuple(ranges), tuple(base_fixups), signatures
    )


def _relocate(image: bytearray, kind: int, field: int, value: int, name: str) -> None:
    """Fill the field at offset `field`; offsets count from the start of the image."""
    if kind == _ABSOLUTE:
        struct.pack_into("<Q", image, field, value & (1 << 64) - 1)
    elif kind in _PC_RELATIVE:
        distance = value - field
        if not -(1 << 31) <= distance < 1 << 31:
            raise ObjectError(f"relocation against {name!r} does not reach")
        struct.pack_into("<i", image, field, distance)
    else:
        raise ObjectError(f"relocation type {kind} against {name!r} is not supported")


def _address(symbol: _Symbol, places: Mapping[int, int]) -> int:
    if symbol.section == elf.SHN_UNDEF:
        raise ObjectError(f"symbol {symbol.name!r} is not defined in the object")
    if symbol.section not in places:
        raise ObjectError(f"symbol {symbol.name!r} lies in a section that is not loaded")
    return places[symbol.section] + symbol.value


def _signatures(sections: Sequence[_Section], functions: Mapping[str, int]) -> dict[str, Signature]:
    for section in sections:
        if section.name == SIGNATURE_SECTION:
            try:
                signatures = decode_signatures(section.data)
            except AbiError as error:
                raise ObjectError(str(error)) from None
            missing = sorted(set(signatures) - set(functions))
            if missing:
                raise ObjectError(f"{SIGNATURE_SECTION} describes {missing[0]!r}, which is not in the object")
            return signatures
    return {}


def image_of_code(code: bytes) -> Image:
    """An image of bare machine code whose only symbol, `entry`, is its first byte."""
    size = len(code)
    padding = bytes(-size % PAGE_SIZE)
    return Image(code + padding, size, size + len(padding), {"entry": 0}, ((0, size),), (), {})


def load_image(data: bytes, signatures: Sequence[Signature] = ()) -> Image:
    """An image of an object or of bare code, with `signatures` added to those the object carries.

    Bare code has one symbol, its first byte, under the name of the only signature given. Raises
    `ObjectError`.
    """
    image = link_object(data) if is_object(data) else image_of_code(data)
    if not is_object(data) and len(signatures) == 1:
        image = evolve(image, symbols={signatures[0].name: 0})
    known = {**image.signatures, **{signature.name: signature for signature in signatures}}
    for name in known:
        if name not in image.symbols:
            raise ObjectError(f"the code has no symbol {name!r}")
    return evolve(image, signatures=known)
