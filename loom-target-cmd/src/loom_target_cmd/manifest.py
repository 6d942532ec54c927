"""The manifest of a set of command programs (language reference, part 3, section 2.3).

It is written last: where it stands, the programs it names stand too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import attrs

FORMAT: Final = "loom-command-set"
SCHEMA_VERSION: Final = 2


class ManifestError(ValueError):
    """The text is no valid manifest; the message says why."""


@attrs.frozen
class ManifestProgram:
    """One program: its symbol, its file and the byte length of it.

    ``entry_requirements`` are positions in the manifest's entry list, in order of the program's entry ordinals.
    """

    symbol: str
    artifact: str
    byte_length: int
    entry_requirements: tuple[int, ...] = ()


@attrs.frozen
class ManifestEntry:
    """An executable entry that programs dispatch.

    ``export`` is the external name where it differs from the symbol, ``source_request`` the file with the request
    to compile the entry if one was emitted.
    """

    symbol: str
    export: str | None = None
    source_request: str | None = None


@attrs.frozen
class Manifest:
    """The programs of one compilation and the entries they share."""

    programs: tuple[ManifestProgram, ...]
    entries: tuple[ManifestEntry, ...]

    def to_json(self) -> str:
        """Compact JSON on one line; the same manifest always gives the same text."""
        record = {
            "schema_version": SCHEMA_VERSION,
            "format": FORMAT,
            "programs": [attrs.asdict(p) for p in self.programs],
            "entries": [attrs.asdict(e, filter=lambda _, value: value is not None) for e in self.entries],
        }
        return json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n"


def read_manifest(text: str | bytes) -> Manifest:
    """Read a manifest. Raises :class:`ManifestError` for anything else."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"not JSON: {error}") from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ManifestError(f"not a manifest: 'format' is not '{FORMAT}'")
    if record.get("schema_version") != SCHEMA_VERSION:
        raise ManifestError(f"schema version {record.get('schema_version')!r}, this reader knows {SCHEMA_VERSION}")
    entries = tuple(
        ManifestEntry(_text(e, "symbol"), _optional_text(e, "export"), _optional_text(e, "source_request"))
        for e in _records(record, "entries")
    )
    programs = tuple(_program(p, len(entries)) for p in _records(record, "programs"))
    return Manifest(programs, entries)


def _program(record: Mapping[str, object], entry_count: int) -> ManifestProgram:
    length, required = record.get("byte_length"), record.get("entry_requirements")
    if not _is_count(length):
        raise ManifestError(f"'byte_length' of a program is {length!r}")
    if not isinstance(required, list) or not all(_is_count(n) and n < entry_count for n in required):
        raise ManifestError(f"'entry_requirements' of a program is {required!r} with {entry_count} entries")
    return ManifestProgram(_text(record, "symbol"), _text(record, "artifact"), int(str(length)), tuple(required))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _records(record: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    found = record.get(key)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise ManifestError(f"'{key}' is no list of records")
    return found


def _text(record: Mapping[str, object], key: str) -> str:
    found = record.get(key)
    if not isinstance(found, str):
        raise ManifestError(f"'{key}' is {found!r}, not text")
    return found


def _optional_text(record: Mapping[str, object], key: str) -> str | None:
    return None if record.get(key) is None else _text(record, key)
