"""Write kernels into an HSACO: an ELF shared object for AMD's HSA runtime (code object version 6).

The layout: a read-only segment with the headers, the metadata note, the dynamic symbols and the kernel
    descriptors;
an executable segment with the code, each kernel 256-byte aligned; a writable segment with data and the
dynamic section. Addresses are file offsets plus one page per segment, so that no two segments share a page.
Debug information, where a kernel has it, is not loaded and lies behind everything that is. The same input gives the
same bytes.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING

from loom.ir.records import evolve, mutable_record, record
from loom_target_amdgpu.code_object import elf_format as elf
from loom_target_amdgpu.code_object.kernel_descriptor import DESCRIPTOR_SIZE, KernelDescriptor
from loom_target_amdgpu.code_object.metadata import (
    METADATA_VERSION,
    CodeObjectMetadata,
    KernelMetadata,
    encode_metadata,
)
from loom_target_amdgpu.profiles import CodePadding, Processor

if TYPE_CHECKING:
    from loom_target_amdgpu.code_object.debug_lines import SourceLines

KERNEL_ALIGNMENT = 256
_S_NOP = (0xBF800000).to_bytes(4, "little")  # fills between kernels on every generation


class HsacoError(ValueError):
    """Kernels or data that cannot be put into one code object."""


class RelocationKind(enum.Enum):
    """How a word of code depends on a symbol: the halves of symbol + addend - place."""

    REL32_LO = 0
    REL32_HI = 32


@record
class Relocation:
    """A word of a kernel's code to be filled with a distance to a symbol.

    Attributes:
        offset: byte offset of the word in the kernel's code.
        kind: which half of the 64-bit distance.
        symbol: a kernel or data name.
        addend: added to the symbol's address before the word's own address is subtracted.
    """

    offset: int
    kind: RelocationKind
    symbol: str
    addend: int


@record
class KernelImage:
    """One kernel to write.

    Attributes:
        name: symbol name.
        code: machine code, a multiple of 4 bytes.
        descriptor: its entry offset is filled in by the writer.
        metadata: the kernel's entry of the note.
        relocations: words to patch.
        lines: where its instructions come from, if debug information is wanted.
    """

    name: str
    code: bytes
    descriptor: KernelDescriptor
    metadata: KernelMetadata
    relocations: tuple[Relocation, ...] = ()
    lines: SourceLines | None = None


@record
class DataImage:
    """A data symbol.

    Attributes:
        name: symbol name.
        data: its bytes.
        alignment: a power of two.
        writable: whether it goes to the writable segment.
    """

    name: str
    data: bytes
    alignment: int = 8
    writable: bool = False


@record
class _Symbol:
    name: str
    section: str
    offset: int
    size: int
    kind: int


class _Blob:
    """Bytes of a section while it grows."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.alignment = 64

    def append(self, data: bytes, alignment: int, fill: bytes = b"\0") -> int:
        self.alignment = max(self.alignment, alignment)
        gap = -len(self.data) % alignment
        self.data += fill * (gap // len(fill))
        offset = len(self.data)
        self.data += data
        return offset


def write_hsaco(
    kernels: Sequence[KernelImage],
    processor: Processor,
    data: Sequence[DataImage] = (),
    *,
    target_id: str | None = None,
) -> bytes:
    """The bytes of a code object with these kernels and data.

    Args:
        kernels: in the order they are laid out.
        processor: gives e_flags, the target string and the filling after the code.
        data: read-only data goes behind the descriptors, writable data into the writable segment.
        target_id: the metadata's target string where it has feature suffixes; by default the processor's.

    Raises:
        HsacoError: a duplicate symbol, code of odd length, or a relocation to an unknown symbol.
        UnsupportedProcessorError: one cannot compile for the processor.
    """
    generation = processor.require_generation()
    _check_names(kernels, data)
    text, rodata, writable = _Blob(), _Blob(), _Blob()
    symbols: list[_Symbol] = []
    for kernel in kernels:
        if len(kernel.code) % 4 or not kernel.code:
            raise HsacoError(f"kernel '{kernel.name}' has {len(kernel.code)} bytes of code, no whole words")
        entry = text.append(kernel.code, KERNEL_ALIGNMENT, _S_NOP)
        slot = rodata.append(bytes(DESCRIPTOR_SIZE), DESCRIPTOR_SIZE)
        symbols.append(_Symbol(kernel.name, ".text", entry, len(kernel.code), elf.STT_FUNC))
        symbols.append(_Symbol(f"{kernel.name}.kd", ".rodata", slot, DESCRIPTOR_SIZE, elf.STT_OBJECT))
    for item in data:
        blob = writable if item.writable else rodata
        offset = blob.append(item.data, item.alignment)
        section = ".data" if item.writable else ".rodata"
        symbols.append(_Symbol(item.name, section, offset, len(item.data), elf.STT_OBJECT))
    _pad_code(text, generation.code_padding)
    metadata = CodeObjectMetadata(
        METADATA_VERSION, target_id or processor.target_id, tuple(kernel.metadata for kernel in kernels)
    )
    return _Layout(encode_metadata(metadata), symbols, text, rodata, writable).build(kernels, processor.e_flags)


def _check_names(kernels: Sequence[KernelImage], data: Sequence[DataImage]) -> None:
    seen: set[str] = set()
    names = [name for kernel in kernels for name in (kernel.name, f"{kernel.name}.kd")]
    for name in names + [item.name for item in data]:
        if not name or "\0" in name:
            raise HsacoError(f"{name!r} is no symbol name")
        if name in seen:
            raise HsacoError(f"the symbol '{name}' is defined twice")
        seen.add(name)


def _pad_code(text: _Blob, padding: CodePadding) -> None:
    end = elf.align_up(len(text.data), padding.line_bytes) + padding.line_bytes * padding.lines
    text.data += padding.word.to_bytes(4, "little") * ((end - len(text.data)) // 4)


def _note(metadata: bytes) -> bytes:
    name = elf.NOTE_NAME + bytes(-len(elf.NOTE_NAME) % 4)
    header = elf.NOTE.pack(len(elf.NOTE_NAME), len(metadata), elf.NT_AMDGPU_METADATA)
    return header + name + metadata + bytes(-len(metadata) % 4)


def _strings(names: Sequence[str]) -> tuple[bytes, dict[str, int]]:
    table = bytearray(b"\0")
    offsets = {"": 0}
    for name in names:
        if name not in offsets:
            offsets[name] = len(table)
            table += name.encode() + b"\0"
    return bytes(table), offsets


def _hash_section(symbols: Sequence[_Symbol]) -> bytes:
    count = len(symbols) + 1
    buckets = [0] * count
    chains = [0] * count
    for index, symbol in enumerate(symbols, 1):
        bucket = elf.system_v_hash(symbol.name.encode()) % count
        chains[index], buckets[bucket] = buckets[bucket], index
    values = [count, count, *buckets, *chains]
    return b"".join(value.to_bytes(4, "little") for value in values)


@mutable_record
class _Section:
    name: str
    kind: int
    flags: int
    data: bytes
    alignment: int
    entry: int = 0
    link: str = ""
    info: int = 0
    offset: int = 0
    address: int = 0


class _Layout:
    """Places the sections, then fills in what depends on addresses."""

    def __init__(
        self, metadata: bytes, symbols: Sequence[_Symbol], text: _Blob, rodata: _Blob, writable: _Blob
    ) -> None:
        self.symbols = symbols
        self.strings, self.names = _strings([symbol.name for symbol in symbols])
        alloc, write = elf.SHF_ALLOC, elf.SHF_ALLOC | elf.SHF_WRITE
        symbol_bytes = bytes(elf.SYMBOL.size * (len(symbols) + 1))
        read_only = [
            _Section(".note", elf.SHT_NOTE, alloc, _note(metadata), 4),
            _Section(".dynsym", elf.SHT_DYNSYM, alloc, symbol_bytes, 8, elf.SYMBOL.size, ".dynstr", 1),
            _Section(".hash", elf.SHT_HASH, alloc, _hash_section(symbols), 4, 4, ".dynsym"),
            _Section(".dynstr", elf.SHT_STRTAB, alloc, self.strings, 1),
            _Section(".rodata", elf.SHT_PROGBITS, alloc, bytes(rodata.data), rodata.alignment),
        ]
        executable = alloc | elf.SHF_EXECINSTR
        code = [_Section(".text", elf.SHT_PROGBITS, executable, bytes(text.data), KERNEL_ALIGNMENT)]
        dynamic = bytes(elf.DYNAMIC.size * 6)
        last = [_Section(".dynamic", elf.SHT_DYNAMIC, write, dynamic, 8, elf.DYNAMIC.size, ".dynstr")]
        if writable.data:
            last.insert(0, _Section(".data", elf.SHT_PROGBITS, write, bytes(writable.data), writable.alignment))
        self.segments = ((elf.PF_R, read_only), (elf.PF_R | elf.PF_X, code), (elf.PF_R | elf.PF_W, last))
        self.sections = read_only + code + last
        self._place()
        self.by_name = {section.name: section for section in self.sections}

    def _place(self) -> None:
        offset = elf.ELF_HEADER.size + _SEGMENT_COUNT * elf.PROGRAM_HEADER.size
        for number, (_, sections) in enumerate(self.segments):
            for section in sections:
                offset = elf.align_up(offset, section.alignment)
                section.offset = offset
                section.address = offset + number * elf.PAGE
                offset += len(section.data)
        self.end = offset

    def address(self, symbol: _Symbol) -> int:
        return self.by_name[symbol.section].address + symbol.offset

    def build(self, kernels: Sequence[KernelImage], e_flags: int) -> bytes:
        addresses = {symbol.name: self.address(symbol) for symbol in self.symbols}
        self._write_descriptors(kernels, addresses)
        self._relocate(kernels, addresses)
        symbol_bytes = self._symbol_table()
        self.by_name[".dynsym"].data = symbol_bytes
        self.by_name[".dynamic"].data = self._dynamic()
        for name, content in self._debug(kernels, addresses).items():
            self._append(_Section(name, elf.SHT_PROGBITS, 0, content, 1))
        self._append(_Section(".symtab", elf.SHT_SYMTAB, 0, symbol_bytes, 8, elf.SYMBOL.size, ".strtab", 1))
        names = [section.name for section in self.sections] + [".shstrtab", ".strtab"]
        section_names, name_offsets = _strings(names)
        self._append(_Section(".shstrtab", elf.SHT_STRTAB, 0, section_names, 1))
        self._append(_Section(".strtab", elf.SHT_STRTAB, 0, self.strings, 1))
        image = bytearray(self.end)
        for section in self.sections:
            image[section.offset : section.offset + len(section.data)] = section.data
        headers_at = elf.align_up(self.end, 8)
        image += bytes(headers_at - self.end)
        image += self._section_headers(name_offsets)
        program_headers = self._program_headers()
        start = elf.ELF_HEADER.size
        image[:start] = self._header(e_flags, headers_at)
        image[start : start + len(program_headers)] = program_headers
        return bytes(image)

    def _append(self, section: _Section) -> None:
        section.offset = elf.align_up(self.end, section.alignment)
        self.end = section.offset + len(section.data)
        self.sections.append(section)
        self.by_name[section.name] = section

    @staticmethod
    def _debug(kernels: Sequence[KernelImage], addresses: dict[str, int]) -> dict[str, bytes]:
        if all(kernel.lines is None for kernel in kernels):
            return {}
        from loom_target_amdgpu.code_object.debug_lines import PlacedLines, debug_sections

        placed = [
            PlacedLines(kernel.name, addresses[kernel.name], len(kernel.code), kernel.lines)
            for kernel in kernels
            if kernel.lines is not None
        ]
        return debug_sections(placed)

    def _write_descriptors(self, kernels: Sequence[KernelImage], addresses: dict[str, int]) -> None:
        section = self.by_name[".rodata"]
        data = bytearray(section.data)
        for kernel in kernels:
            place = addresses[f"{kernel.name}.kd"]
            descriptor = evolve(kernel.descriptor, entry_offset=addresses[kernel.name] - place)
            start = place - section.address
            data[start : start + DESCRIPTOR_SIZE] = descriptor.to_bytes()
        section.data = bytes(data)

    def _relocate(self, kernels: Sequence[KernelImage], addresses: dict[str, int]) -> None:
        section = self.by_name[".text"]
        data = bytearray(section.data)
        for kernel in kernels:
            for item in kernel.relocations:
                if item.symbol not in addresses:
                    raise HsacoError(f"kernel '{kernel.name}' refers to the unknown symbol '{item.symbol}'")
                if item.offset % 4 or not 0 <= item.offset <= len(kernel.code) - 4:
                    raise HsacoError(f"kernel '{kernel.name}': relocation at {item.offset} is outside its code")
                place = addresses[kernel.name] + item.offset
                distance = addresses[item.symbol] + item.addend - place
                start = place - section.address
                word = distance >> item.kind.value & 0xFFFFFFFF
                data[start : start + 4] = word.to_bytes(4, "little")
        section.data = bytes(data)

    def _symbol_table(self) -> bytes:
        numbers = {section.name: number for number, section in enumerate(self.sections, 1)}
        table = bytearray(elf.SYMBOL.size)
        for symbol in self.symbols:
            table += elf.SYMBOL.pack(
                self.names[symbol.name],
                elf.STB_GLOBAL << 4 | symbol.kind,
                elf.STV_PROTECTED,
                numbers[symbol.section],
                self.address(symbol),
                symbol.size,
            )
        return bytes(table)

    def _dynamic(self) -> bytes:
        entries = (
            (elf.DT_HASH, self.by_name[".hash"].address),
            (elf.DT_SYMTAB, self.by_name[".dynsym"].address),
            (elf.DT_SYMENT, elf.SYMBOL.size),
            (elf.DT_STRTAB, self.by_name[".dynstr"].address),
            (elf.DT_STRSZ, len(self.strings)),
            (elf.DT_NULL, 0),
        )
        return b"".join(elf.DYNAMIC.pack(tag, value) for tag, value in entries)

    def _program_headers(self) -> bytes:
        headers = bytearray()
        table_size = _SEGMENT_COUNT * elf.PROGRAM_HEADER.size
        start = elf.ELF_HEADER.size
        pack = elf.PROGRAM_HEADER.pack
        headers += pack(elf.PT_PHDR, elf.PF_R, start, start, start, table_size, table_size, 8)
        for number, (flags, sections) in enumerate(self.segments):
            first = 0 if number == 0 else sections[0].offset
            size = sections[-1].offset + len(sections[-1].data) - first
            address = first + number * elf.PAGE
            headers += pack(elf.PT_LOAD, flags, first, address, address, size, size, elf.PAGE)
        for kind, flags, name, alignment in (
            (elf.PT_DYNAMIC, elf.PF_R | elf.PF_W, ".dynamic", 8),
            (elf.PT_NOTE, elf.PF_R, ".note", 4),
        ):
            section = self.by_name[name]
            size, address = len(section.data), section.address
            headers += pack(kind, flags, section.offset, address, address, size, size, alignment)
            if kind == elf.PT_DYNAMIC:
                headers += pack(elf.PT_GNU_STACK, elf.PF_R | elf.PF_W, 0, 0, 0, 0, 0, 0)
        return bytes(headers)

    def _section_headers(self, name_offsets: dict[str, int]) -> bytes:
        numbers = {section.name: number for number, section in enumerate(self.sections, 1)}
        headers = bytearray(elf.SECTION_HEADER.size)
        for section in self.sections:
            headers += elf.SECTION_HEADER.pack(
                name_offsets[section.name],
                section.kind,
                section.flags,
                section.address,
                section.offset,
                len(section.data),
                numbers.get(section.link, 0),
                section.info,
                section.alignment,
                section.entry,
            )
        return bytes(headers)

    def _header(self, e_flags: int, headers_at: int) -> bytes:
        identity = elf.MAGIC + bytes(
            (elf.CLASS64, elf.LITTLE_ENDIAN, elf.EV_CURRENT, elf.OSABI_AMDGPU_HSA, elf.ABI_VERSION_V6)
        )
        names = [section.name for section in self.sections]
        return elf.ELF_HEADER.pack(
            identity.ljust(16, b"\0"),
            elf.ET_DYN,
            elf.EM_AMDGPU,
            elf.EV_CURRENT,
            0,
            elf.ELF_HEADER.size,
            headers_at,
            e_flags,
            elf.ELF_HEADER.size,
            elf.PROGRAM_HEADER.size,
            _SEGMENT_COUNT,
            elf.SECTION_HEADER.size,
            len(names) + 1,
            names.index(".shstrtab") + 1,
        )


_SEGMENT_COUNT = 7
