"""The container: a header, a directory of modules, and per module a directory of sections and the sections.

=========  ====================================================================
bytes      header
=========  ====================================================================
0-3        ``LOOM``
4          version of this container
5          location mode: 0 recorded, 1 left out
6-7        number of modules
8-11       CRC-32 of the directory of modules
12-15      zero
=========  ====================================================================

An entry of the directory of modules is the offset (u64) and length (u64) of a module in the file, flags (u16, bit 0:
the module only declares), number of sections (u16), and CRC-32 of the directory of sections (u32), which the module
begins with: per section its kind (u32), the CRC-32 of its contents (u32), and offset (u64) and length (u64) in the
module. Modules and sections follow one another without gaps up to the end of the file. Bodies are checked one by one
with checksums of the symbol index, so that using one symbol does not read all of them; their directory entry carries
no checksum. All integers are little-endian.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from loom.bytecode.failures import Damage

MAGIC: Final = b"LOOM"
# Above the numbers of the container that the language reference describes, whose layout differs.
VERSION: Final = 130

# Section kinds, numbered like those of the language reference where both have them.
STRINGS: Final = 0
SOURCES: Final = 1
TYPES: Final = 2
OPS: Final = 4
LOCATIONS: Final = 5
SYMBOLS: Final = 6
BODIES: Final = 7
MODULE: Final = 16
FORMS: Final = 17

SECTION_NAMES: Final[Mapping[int, str]] = {
    STRINGS: "strings",
    SOURCES: "sources",
    TYPES: "types",
    OPS: "ops",
    LOCATIONS: "locations",
    SYMBOLS: "symbols",
    BODIES: "bodies",
    MODULE: "module",
    FORMS: "forms",
}

# Flag of a module without a definition.
DECLARATIONS_ONLY: Final = 1

MAX_MODULES: Final = (1 << 16) - 1

_HEADER: Final = struct.Struct("<4sBBHII")
_MODULE: Final = struct.Struct("<QQHHI")
_SECTION: Final = struct.Struct("<IIQQ")


@attrs.frozen
class Container:
    """The sections of a module as ranges of the file's bytes. ``locations`` tells whether positions are recorded."""

    data: bytes = attrs.field(repr=False)
    ranges: Mapping[int, tuple[int, int]]
    locations: bool
    declarations_only: bool = False

    def section(self, kind: int) -> bytes:
        """The contents of a section."""
        start, end = self.ranges[kind]
        return self.data[start:end]


def write_container(sections: Mapping[int, bytes], *, locations: bool, declarations_only: bool = False) -> bytes:
    """A file of one module: its sections, in the order of the mapping."""
    return write_archive([(sections, declarations_only)], locations=locations)


def write_archive(modules: Sequence[tuple[Mapping[int, bytes], bool]], *, locations: bool) -> bytes:
    """A file of modules, each its sections and whether it only declares. Raises ``ValueError`` for too many."""
    if len(modules) > MAX_MODULES:
        raise ValueError(f"{len(modules)} modules, a file has at most {MAX_MODULES}")
    at = _HEADER.size + _MODULE.size * len(modules)
    entries = bytearray()
    contents: list[bytes] = []
    for sections, declarations_only in modules:
        directory = _directory(sections)
        size = len(directory) + sum(map(len, sections.values()))
        flags = DECLARATIONS_ONLY if declarations_only else 0
        entries += _MODULE.pack(at, size, flags, len(sections), zlib.crc32(directory))
        contents += (directory, *sections.values())
        at += size
    header = _HEADER.pack(MAGIC, VERSION, 0 if locations else 1, len(modules), zlib.crc32(entries), 0)
    return b"".join([header, entries, *contents])


def _directory(sections: Mapping[int, bytes]) -> bytes:
    at = _SECTION.size * len(sections)
    directory = bytearray()
    for kind, contents in sections.items():
        checksum = 0 if kind == BODIES else zlib.crc32(contents)
        directory += _SECTION.pack(kind, checksum, at, len(contents))
        at += len(contents)
    return bytes(directory)


def read_container(data: bytes, *, checksums: bool = True) -> Container:
    """The sections of a file with one module. Raises :class:`Damage` as :func:`read_archive` does."""
    modules = read_archive(data, checksums=checksums)
    if len(modules) != 1:
        raise Damage(
            "BYTECODE/009", f"{len(modules)} modules where one is expected", table_name="modules", count=len(modules),
            limit=1,
        )  # fmt: skip
    return modules[0]


def read_archive(data: bytes, *, checksums: bool = True) -> list[Container]:
    """Find the modules of a file and their sections. Raises :class:`Damage` unless header and directories are sound.

    Without ``checksums`` the contents are taken as they are; every later step stays bounds-checked.
    """
    if data[:4] != MAGIC[: len(data)] or not data:
        raise Damage(
            "BYTECODE/001",
            f"it begins with {data[:4]!r}, not with {MAGIC!r}",
            expected_magic=MAGIC.hex(),
            actual_magic=data[:4].hex(),
        )
    if len(data) < _HEADER.size:
        raise _short(0, _HEADER.size, len(data))
    _, version, mode, count, checksum, reserved = _HEADER.unpack_from(data)
    if version != VERSION:
        raise Damage(
            "BYTECODE/002",
            f"the file has version {version}, this reader knows {VERSION}",
            actual_version=version,
            expected_version=VERSION,
        )
    if mode not in (0, 1):
        raise Damage(
            "BYTECODE/011",
            f"location mode {mode}",
            field_name="location_mode",
            actual_value=mode,
            case_count=2,
        )
    end = _HEADER.size + _MODULE.size * count
    if len(data) < end:
        raise _short(_HEADER.size, end - _HEADER.size, len(data) - _HEADER.size)
    directory = data[_HEADER.size : end]
    if reserved or (checksums and zlib.crc32(directory) != checksum):
        raise _corrupt("header", "directory", "checksum")
    found: list[Container] = []
    for offset, length, flags, sections, check in _MODULE.iter_unpack(directory):
        if offset != end or length > len(data) - offset:
            raise _range(f"module {len(found)}", offset, length, len(data))
        end = offset + length
        if length < _SECTION.size * sections:
            raise _short(offset, _SECTION.size * sections, length)
        if flags & ~DECLARATIONS_ONLY:
            raise Damage("BYTECODE/011", f"module flags {flags}", field_name="flags", actual_value=flags, case_count=2)
        ranges = _sections(data, offset, length, sections, check if checksums else None)
        found.append(Container(data, ranges, mode == 0, bool(flags & DECLARATIONS_ONLY)))
    if end != len(data):
        raise _range("file", end, len(data) - end, len(data), f"{len(data) - end} bytes behind the last module")
    return found


def _sections(data: bytes, start: int, length: int, count: int, check: int | None) -> dict[int, tuple[int, int]]:
    """The ranges of a module's sections; without a checksum of their directory nothing is compared."""
    at = _SECTION.size * count
    directory = data[start : start + at]
    if check is not None and zlib.crc32(directory) != check:
        raise _corrupt("header", "directory", "checksum")
    ranges: dict[int, tuple[int, int]] = {}
    for kind, checksum, offset, size in _SECTION.iter_unpack(directory):
        name = SECTION_NAMES.get(kind, f"section {kind}")
        if offset != at or size > length - offset:
            raise _range(name, offset, size, length)
        at = offset + size
        if kind in ranges or kind not in SECTION_NAMES:
            raise _corrupt("header", "directory", "kind")
        ranges[kind] = (start + offset, start + at)
        if check is not None and kind != BODIES and zlib.crc32(data[start + offset : start + at]) != checksum:
            raise _corrupt(name, name, "checksum")
    if at != length:
        raise _range("module", at, length - at, length, f"{length - at} bytes behind the last section")
    for kind, name in SECTION_NAMES.items():
        if kind not in ranges:
            raise _corrupt("header", "directory", name)
    return ranges


def _range(name: str, offset: int, length: int, size: int, detail: str | None = None) -> Damage:
    return Damage(
        "BYTECODE/007",
        detail or f"'{name}' has bytes {offset} to {offset + length} of {size}",
        range_name=name,
        offset=offset,
        length=length,
        container_length=size,
    )


def _short(offset: int, needed: int, available: int) -> Damage:
    return Damage(
        "BYTECODE/003",
        f"{needed} bytes are needed at byte {offset}, {available} are left",
        offset=offset,
        needed_bytes=needed,
        available_bytes=available,
    )


def _corrupt(section: str, table: str, field: str) -> Damage:
    what = {"checksum": "the checksum does not match", "kind": "a section kind is unknown or given twice"}.get(
        field, f"the section '{field}' is missing"
    )
    return Damage(
        "BYTECODE/006",
        f"{section}: {what}",
        section_name=section,
        table_name=table,
        record_index=0,
        field_name=field,
        offset=0,
        failure_code=field,
    )
