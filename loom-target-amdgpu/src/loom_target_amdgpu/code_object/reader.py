"""Read a linked AMDGPU code object, also one that another compiler produced (code object versions 4 to 6).

The reader trusts nothing: every offset and size is checked against the file, and what is missing or
    contradictory
is reported with the byte offset where it was found.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import NoReturn

import attrs

from loom_target_amdgpu.code_object import elf_format as elf
from loom_target_amdgpu.code_object.kernel_descriptor import DESCRIPTOR_SIZE, KernelDescriptor
from loom_target_amdgpu.code_object.metadata import (
    CodeObjectMetadata,
    KernelMetadata,
    MetadataError,
    decode_metadata,
)
from loom_target_amdgpu.profiles import Processor, profile_of_flags

_MAX_ADDRESS = 1 << 48
_MAX_MEMORY = 1 << 32


class CodeObjectError(ValueError):
    """A file that is no usable AMDGPU code object.

    Attributes:
        offset: byte offset in the file where the problem was found.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"code object, offset {offset:#x}: {reason}")
        self.offset = offset


class FeatureSetting(enum.Enum):
    """A target feature in e_flags."""

    UNSUPPORTED = 0
    ANY = 1
    OFF = 2
    ON = 3


@attrs.frozen
class Segment:
    """A loadable segment.

    Attributes:
        address: where it is loaded, relative to the load base.
        data: bytes from the file.
        memory_size: bytes in memory; the rest after ``data`` is zero.
        writable, executable: permissions.
    """

    address: int
    data: bytes
    memory_size: int
    writable: bool
    executable: bool


@attrs.frozen
class Symbol:
    """A dynamic symbol.

    Attributes:
        name: its name.
        address: relative to the load base.
        size: in bytes, 0 when unknown.
        is_function: whether it names code.
    """

    name: str
    address: int
    size: int
    is_function: bool


@attrs.frozen
class DynamicRelocation:
    """A relocation the loader has to apply.

    Attributes:
        address: the place to patch, relative to the load base.
        kind: the ``R_AMDGPU_*`` number (3 is ABS64, 13 is RELATIVE64).
        symbol: name of the symbol, empty for none.
        addend: added to the value.
    """

    address: int
    kind: int
    symbol: str
    addend: int


@attrs.frozen
class Kernel:
    """A kernel of a code object.

    Attributes:
        name: its name.
        descriptor: the 64 bytes at ``descriptor_address``, decoded.
        descriptor_address, entry_address: relative to the load base.
        code_size: size of the code symbol, 0 when unknown.
        metadata: the kernel's entry of the note, or None.
    """

    name: str
    descriptor: KernelDescriptor
    descriptor_address: int
    entry_address: int
    code_size: int
    metadata: KernelMetadata | None


@attrs.frozen
class CodeObject:
    """A code object.

    Attributes:
        processor: what e_flags name, or None for an unknown machine number.
        e_flags: the ELF header's flags.
        abi_version: 2 for code object version 4, 3 for 5, 4 for 6.
        segments: loadable segments in address order.
        symbols: dynamic symbols by name.
        relocations: what a loader has to patch.
        kernels: kernels by name.
        metadata: the note.
    """

    processor: Processor | None
    e_flags: int
    abi_version: int
    segments: tuple[Segment, ...]
    symbols: Mapping[str, Symbol]
    relocations: tuple[DynamicRelocation, ...]
    kernels: Mapping[str, Kernel]
    metadata: CodeObjectMetadata

    @property
    def xnack(self) -> FeatureSetting:
        """The XNACK setting."""
        return FeatureSetting(self.e_flags >> 8 & 3)

    @property
    def sramecc(self) -> FeatureSetting:
        """The SRAMECC setting."""
        return FeatureSetting(self.e_flags >> 10 & 3)

    def read(self, address: int, size: int) -> bytes:
        """Bytes at an address before relocation; memory past a segment's file data reads as zero.

        Raises:
            CodeObjectError: the range is not inside one segment. ``offset`` is the address then.
        """
        for segment in self.segments:
            start = address - segment.address
            if start >= 0 and start + size <= segment.memory_size:
                return segment.data[start : start + size].ljust(size, b"\0")
        raise CodeObjectError(address, f"address range of {size} bytes is not in a loadable segment")


def read_code_object(data: bytes) -> CodeObject:
    """Read a linked code object.

    Raises:
        CodeObjectError: the file is truncated, inconsistent, not for AMD GPUs, or not linked.
    """
    return _Reader(bytes(data)).read()


@attrs.frozen
class _Program:
    kind: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.programs: list[_Program] = []
        self.segments: tuple[Segment, ...] = ()

    def fail(self, offset: int, reason: str) -> NoReturn:
        raise CodeObjectError(offset, reason)

    def unpack(self, layout: struct.Struct, offset: int, what: str) -> tuple[int, ...]:
        if not 0 <= offset <= len(self.data) - layout.size:
            self.fail(offset, f"{what} lies outside the file of {len(self.data)} bytes")
        return layout.unpack_from(self.data, offset)

    def read(self) -> CodeObject:
        e_flags, abi_version, programs_at, program_size, program_count = self._header()
        self._read_programs(programs_at, program_size, program_count)
        self.segments = self._load_segments()
        metadata = self._metadata()
        dynamic = self._dynamic()
        table = self._symbol_table(dynamic)
        symbols = {symbol.name: symbol for symbol in table if symbol.name}
        relocations = self._relocations(dynamic, table)
        return CodeObject(
            processor=profile_of_flags(e_flags),
            e_flags=e_flags,
            abi_version=abi_version,
            segments=self.segments,
            symbols=MappingProxyType(symbols),
            relocations=relocations,
            kernels=MappingProxyType(self._kernels(symbols, metadata)),
            metadata=metadata,
        )

    def _header(self) -> tuple[int, int, int, int, int]:
        data = self.data
        if data[:4] != elf.MAGIC:
            bundle = data.startswith((b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"))
            hint = "an offload bundle; unbundle it first" if bundle else "not an ELF file"
            self.fail(0, hint)
        if len(data) < elf.ELF_HEADER.size:
            self.fail(len(data), "the file ends inside the ELF header")
        if data[4] != elf.CLASS64 or data[5] != elf.LITTLE_ENDIAN:
            self.fail(4, "not a 64-bit little-endian ELF file")
        if data[7] != elf.OSABI_AMDGPU_HSA:
            self.fail(7, f"OS ABI {data[7]} is not AMDGPU HSA ({elf.OSABI_AMDGPU_HSA})")
        if not elf.ABI_VERSION_V4 <= data[8] <= elf.ABI_VERSION_V6:
            self.fail(8, f"ABI version {data[8]}: only code object versions 4 to 6 are supported")
        fields = elf.ELF_HEADER.unpack_from(data)
        kind, machine, programs_at, e_flags = fields[1], fields[2], fields[5], fields[7]
        if machine != elf.EM_AMDGPU:
            self.fail(18, f"machine {machine} is not an AMD GPU ({elf.EM_AMDGPU})")
        if kind == elf.ET_REL:
            self.fail(16, "a relocatable object; link it into a shared object first")
        if kind != elf.ET_DYN:
            self.fail(16, f"ELF type {kind} is not a shared object")
        return e_flags, data[8], programs_at, fields[9], fields[10]

    def _read_programs(self, offset: int, size: int, count: int) -> None:
        if size != elf.PROGRAM_HEADER.size:
            self.fail(54, f"program headers of {size} bytes")
        for number in range(count):
            at = offset + number * size
            kind, flags, file_offset, address, _, file_size, memory_size, _ = self.unpack(
                elf.PROGRAM_HEADER, at, f"program header {number}"
            )
            if kind in (elf.PT_LOAD, elf.PT_NOTE, elf.PT_DYNAMIC) and file_offset + file_size > len(
                self.data
            ):
                self.fail(
                    at, f"segment {number} ends at {file_offset + file_size:#x}, past the end of the file"
                )
            self.programs.append(_Program(kind, flags, file_offset, address, file_size, memory_size))

    def _load_segments(self) -> tuple[Segment, ...]:
        segments = []
        total = 0
        for program in self.programs:
            if program.kind != elf.PT_LOAD:
                continue
            total += program.memory_size
            end = program.address + program.memory_size
            if program.memory_size < program.file_size or end > _MAX_ADDRESS or total > _MAX_MEMORY:
                self.fail(program.offset, f"segment at address {program.address:#x} has an impossible size")
            segments.append(
                Segment(
                    address=program.address,
                    data=self.data[program.offset : program.offset + program.file_size],
                    memory_size=program.memory_size,
                    writable=bool(program.flags & elf.PF_W),
                    executable=bool(program.flags & elf.PF_X),
                )
            )
        segments.sort(key=lambda segment: segment.address)
        for before, after in pairwise(segments):
            if before.address + before.memory_size > after.address:
                self.fail(0, f"segments at {before.address:#x} and {after.address:#x} overlap")
        if not segments:
            self.fail(elf.ELF_HEADER.size, "no loadable segments")
        return tuple(segments)

    def _offset(self, address: int, size: int, what: str) -> int:
        """File offset of an address range."""
        for program in self.programs:
            start = address - program.address
            if program.kind == elf.PT_LOAD and start >= 0 and start + size <= program.file_size:
                return program.offset + start
        self.fail(0, f"{what} at address {address:#x} (+{size}) is not in the file")

    def _metadata(self) -> CodeObjectMetadata:
        for program in self.programs:
            if program.kind != elf.PT_NOTE:
                continue
            at, end = program.offset, program.offset + program.file_size
            while at + elf.NOTE.size <= end:
                name_size, size, kind = self.unpack(elf.NOTE, at, "note")
                name_at = at + elf.NOTE.size
                data_at = name_at + elf.align_up(name_size, 4)
                if data_at + size > end:
                    self.fail(at, "a note runs past the end of its segment")
                if (
                    kind == elf.NT_AMDGPU_METADATA
                    and self.data[name_at : name_at + name_size] == elf.NOTE_NAME
                ):
                    return self._decode_metadata(data_at, size)
                at = data_at + elf.align_up(size, 4)
        self.fail(elf.ELF_HEADER.size, "no AMDGPU metadata note")

    def _decode_metadata(self, at: int, size: int) -> CodeObjectMetadata:
        try:
            return decode_metadata(self.data[at : at + size])
        except MetadataError as error:
            self.fail(at, str(error))

    def _dynamic(self) -> dict[int, int]:
        for program in self.programs:
            if program.kind == elf.PT_DYNAMIC:
                return self._dynamic_entries(program)
        self.fail(elf.ELF_HEADER.size, "no dynamic segment")

    def _dynamic_entries(self, program: _Program) -> dict[int, int]:
        entries: dict[int, int] = {}
        for at in range(program.offset, program.offset + program.file_size, elf.DYNAMIC.size):
            tag, value = self.unpack(elf.DYNAMIC, at, "dynamic entry")
            if tag == elf.DT_NULL:
                break
            entries[tag] = value
        for tag, name in ((elf.DT_SYMTAB, "symbol table"), (elf.DT_STRTAB, "string table")):
            if tag not in entries:
                self.fail(program.offset, f"the dynamic segment names no {name}")
        return entries

    def _symbol_count(self, dynamic: dict[int, int]) -> int:
        if elf.DT_HASH in dynamic:
            at = self._offset(dynamic[elf.DT_HASH], 8, "hash table")
            return int.from_bytes(self.data[at + 4 : at + 8], "little")
        if elf.DT_GNU_HASH in dynamic:
            return self._gnu_hash_count(dynamic[elf.DT_GNU_HASH])
        self.fail(0, "the dynamic segment has no hash table to count symbols with")

    def _word(self, address: int) -> int:
        at = self._offset(address, 4, "hash table")
        return int.from_bytes(self.data[at : at + 4], "little")

    def _gnu_hash_count(self, address: int) -> int:
        """The GNU hash table ends each bucket's chain with an odd hash; the last chain's end is the last
        symbol.
        """
        buckets, first, bloom = (self._word(address + 4 * index) for index in range(3))
        buckets_at = address + 16 + 8 * bloom
        self._offset(buckets_at, 4 * buckets, "hash buckets")
        last = max((self._word(buckets_at + 4 * index) for index in range(buckets)), default=0)
        if last < first:
            return first
        chains_at = buckets_at + 4 * buckets
        while not self._word(chains_at + 4 * (last - first)) & 1:
            last += 1
        return last + 1

    def _symbol_table(self, dynamic: dict[int, int]) -> list[Symbol]:
        count = self._symbol_count(dynamic)
        start = self._offset(dynamic[elf.DT_SYMTAB], count * elf.SYMBOL.size, "dynamic symbol table")
        string_size = dynamic.get(elf.DT_STRSZ, 0)
        strings = self._offset(dynamic[elf.DT_STRTAB], string_size, "dynamic string table")
        table = []
        for number in range(count):
            at = start + number * elf.SYMBOL.size
            name_at, info, _, section, value, size = self.unpack(elf.SYMBOL, at, f"symbol {number}")
            end = self.data.find(b"\0", strings + name_at, strings + string_size)
            if number and end < 0:
                self.fail(at, f"the name of symbol {number} is outside the string table")
            name = self.data[strings + name_at : end].decode("utf-8", "replace") if section else ""
            table.append(Symbol(name, value, size, info & 0xF == elf.STT_FUNC))
        return table

    def _relocations(self, dynamic: dict[int, int], table: list[Symbol]) -> tuple[DynamicRelocation, ...]:
        size = dynamic.get(elf.DT_RELASZ, 0)
        if elf.DT_RELA not in dynamic or not size:
            return ()
        start = self._offset(dynamic[elf.DT_RELA], size, "relocation table")
        found = []
        for at in range(start, start + size - size % elf.RELA.size, elf.RELA.size):
            address, info, addend = self.unpack(elf.RELA, at, "relocation")
            number = info >> 32
            if number >= len(table):
                self.fail(at, f"relocation to symbol {number} of {len(table)}")
            name = table[number].name if number else ""
            found.append(DynamicRelocation(address, info & 0xFFFFFFFF, name, addend))
        return tuple(found)

    def _kernels(self, symbols: dict[str, Symbol], metadata: CodeObjectMetadata) -> dict[str, Kernel]:
        described = {entry.symbol: entry for entry in metadata.kernels}
        names = [name for name in symbols if name.endswith(".kd")]
        for entry in metadata.kernels:
            if entry.symbol not in symbols:
                self.fail(0, f"kernel '{entry.name}' has no descriptor symbol '{entry.symbol}'")
        kernels: dict[str, Kernel] = {}
        for name in names:
            kernel = self._kernel(symbols, symbols[name], described.get(name))
            kernels[kernel.name] = kernel
        return kernels

    def _kernel(self, symbols: dict[str, Symbol], symbol: Symbol, metadata: KernelMetadata | None) -> Kernel:
        at = self._offset(symbol.address, DESCRIPTOR_SIZE, f"descriptor '{symbol.name}'")
        descriptor = KernelDescriptor.from_bytes(self.data[at : at + DESCRIPTOR_SIZE])
        entry = symbol.address + descriptor.entry_offset
        code = next((s for s in self.segments if s.executable and 0 <= entry - s.address < len(s.data)), None)
        if code is None or entry % 4:
            self.fail(at + 16, f"the entry {entry:#x} of '{symbol.name}' is not in an executable segment")
        name = metadata.name if metadata is not None else symbol.name.removesuffix(".kd")
        function = symbols.get(symbol.name.removesuffix(".kd"))
        size = function.size if function is not None and function.address == entry else 0
        return Kernel(name, descriptor, symbol.address, entry, size, metadata)
