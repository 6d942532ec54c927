"""The container: a header, a directory of sections, and the sections.

=========  ====================================================================
bytes      header
=========  ====================================================================
0-3        ``LOOM``
4          version of this container
5          location mode: 0 recorded, 1 left out
6-7        number of sections
8-11       CRC-32 of the directory
12-15      zero
=========  ====================================================================

The directory follows: per section its kind (u32), the CRC-32 of its contents (u32), offset (u64) and length (u64),
sorted by offset. Sections follow one another without gaps up to the end of the file. Bodies are checked one by one
with checksums of the symbol index, so that using one symbol does not read all of them; their directory entry carries
no checksum. All integers are little-endian.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Final

import attrs

from loom.bytecode.failures import Damage

MAGIC: Final = b"LOOM"
# Above the numbers of the container that the language reference describes, whose layout differs.
VERSION: Final = 129

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

_HEADER: Final = struct.Struct("<4sBBHII")
_ENTRY: Final = struct.Struct("<IIQQ")


@attrs.frozen
class Container:
    """The sections of a file as ranges of its bytes. ``locations`` tells whether source positions are recorded."""

    data: bytes = attrs.field(repr=False)
    ranges: Mapping[int, tuple[int, int]]
    locations: bool

    def section(self, kind: int) -> bytes:
        """The contents of a section."""
        start, end = self.ranges[kind]
        return self.data[start:end]


def write_container(sections: Mapping[int, bytes], *, locations: bool) -> bytes:
    """Put sections into a file, in the order of the mapping."""
    at = _HEADER.size + _ENTRY.size * len(sections)
    directory = bytearray()
    for kind, contents in sections.items():
        checksum = 0 if kind == BODIES else zlib.crc32(contents)
        directory += _ENTRY.pack(kind, checksum, at, len(contents))
        at += len(contents)
    header = _HEADER.pack(MAGIC, VERSION, 0 if locations else 1, len(sections), zlib.crc32(directory), 0)
    return b"".join([header, directory, *sections.values()])


def read_container(data: bytes, *, checksums: bool = True) -> Container:
    """Find the sections of a file. Raises :class:`Damage` unless header and directory are sound.

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
    _, version, mode, count, directory_checksum, reserved = _HEADER.unpack_from(data)
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
    end = _HEADER.size + _ENTRY.size * count
    if len(data) < end:
        raise _short(_HEADER.size, end - _HEADER.size, len(data) - _HEADER.size)
    directory = data[_HEADER.size : end]
    if reserved or (checksums and zlib.crc32(directory) != directory_checksum):
        raise _corrupt("header", "directory", "checksum")
    ranges: dict[int, tuple[int, int]] = {}
    for kind, checksum, offset, length in _ENTRY.iter_unpack(directory):
        name = SECTION_NAMES.get(kind, f"section {kind}")
        if offset != end or length > len(data) - offset:
            raise Damage(
                "BYTECODE/007",
                f"section '{name}' has bytes {offset} to {offset + length} of {len(data)}",
                range_name=name,
                offset=offset,
                length=length,
                container_length=len(data),
            )
        if kind in ranges or kind not in SECTION_NAMES:
            raise _corrupt("header", "directory", "kind")
        end = offset + length
        ranges[kind] = (offset, end)
        if checksums and kind != BODIES and zlib.crc32(data[offset:end]) != checksum:
            raise _corrupt(name, name, "checksum")
    if end != len(data):
        raise Damage(
            "BYTECODE/007",
            f"{len(data) - end} bytes behind the last section",
            range_name="file",
            offset=end,
            length=len(data) - end,
            container_length=len(data),
        )
    for kind, name in SECTION_NAMES.items():
        if kind not in ranges:
            raise _corrupt("header", "directory", name)
    return Container(data, ranges, mode == 0)


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
