"""Opening bytecode files by their index, and reading them whole."""

from __future__ import annotations

import gc
import zlib
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Final

from loom.bytecode import container as c
from loom.bytecode.attributes import read_encoding
from loom.bytecode.body import BodyReader, Form
from loom.bytecode.cursor import Cursor
from loom.bytecode.failures import Damage
from loom.bytecode.forms import DeclaredOp, read_form
from loom.bytecode.index import Index, SymbolEntry, SymbolTable
from loom.bytecode.locations import LocationTable
from loom.bytecode.types import read_structure
from loom.bytecode.varint import decode_words, leading_word
from loom.ir.attributes import Encoding
from loom.ir.core import Block, Module, Op
from loom.ir.diagnostics import Location, LoomError, did_you_mean, fail
from loom.ir.recursion import deep_recursion
from loom.ir.types import Type
from loom.spec.registry import known_names, lookup

MAX_FILE_BYTES: Final = 1 << 30


class BytecodeFile:
    """A file whose tables and index are read and whose bodies are not.

    ``entries`` are the module-level operations in order. ``decoded`` counts the bodies decoded so far.
    """

    def __init__(self, data: bytes, filename: str, checksums: bool) -> None:
        self.filename = filename
        self.decoded = 0
        self._checksums = checksums
        self._container = container = c.read_container(data, checksums=checksums)
        self._strings = _read_strings(container.section(c.STRINGS))
        self._sources = self._read_sources()
        self._types = self._read_types()
        self._ops = self._read_ops()
        self._declarations: dict[int, DeclaredOp] = {}
        words, self._form_starts = _table(container.section(c.FORMS), "forms")
        self._form_cursor = self._cursor(words)
        self._forms: list[Form | None] = [None] * (len(self._form_starts) - 1)
        self._bodies = BodyReader(self._strings, self._types, self._forms, self._form, self._sources)
        self.name, self.header, self.aliases = self._read_head()
        start, end = container.ranges[c.BODIES]
        self.entries = Index(container.section(c.SYMBOLS), self._strings, end - start)
        self._locations: LocationTable | None = None
        if container.locations:
            section = container.section(c.LOCATIONS)
            self._locations = LocationTable(section, self._sources, self.entries.op_ends[-1])
        self._symbols: SymbolTable | None = None

    @classmethod
    def open(cls, data: bytes, filename: str = "<bytecode>", *, checksums: bool = True) -> BytecodeFile:
        """Read the tables and the index of a file's contents.

        Without ``checksums`` damage is found only where it breaks the structure, as when the transport has checked
        the file already. Raises :class:`~loom.ir.diagnostics.LoomError` for anything but a sound file.
        """
        if len(data) > MAX_FILE_BYTES:
            raise Damage(
                "BYTECODE/009", f"{len(data)} bytes", table_name="file", count=len(data), limit=MAX_FILE_BYTES
            ).located(filename)
        try:
            return cls(bytes(data), filename, checksums)
        except Damage as damage:
            raise damage.located(filename) from None
        except IndexError:
            raise _short_record("tables").located(filename) from None

    def symbols(self) -> Mapping[str, SymbolEntry]:
        """Symbol name -> entry (the first one when a name is defined twice)."""
        if self._symbols is None:
            self._symbols = SymbolTable(self.entries)
        return self._symbols

    def materialize(self, symbol: str | SymbolEntry) -> Op:
        """Decode one module-level operation; every call makes a new one, which belongs to no module.

        Raises ``KeyError`` for a name that the file does not define, and
        :class:`~loom.ir.diagnostics.LoomError` when the body is damaged or has operations that nothing declares.
        """
        entry = self.symbols()[symbol] if isinstance(symbol, str) else symbol
        with deep_recursion():
            op = self._decode(entry.ordinal, Block())
        op.detach()
        return op

    def module(self) -> Module:
        """Decode everything. The result is not verified."""
        module = Module(self.name)
        module.header = self.header
        module.aliases = dict(self.aliases)
        # As in reading text: collecting cyclic garbage while a large program grows costs time and frees nothing.
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            with deep_recursion():
                for ordinal in range(len(self.entries)):
                    self._decode(ordinal, module.body)
        finally:
            if was_enabled:
                gc.enable()
        return module

    # -- tables --------------------------------------------------------------------------------------------

    def _cursor(self, words: list[int]) -> Cursor:
        return Cursor(words, self._strings, self._types)

    def _read_sources(self) -> list[str]:
        cursor = Cursor(decode_words(self._container.section(c.SOURCES)), self._strings, ())
        return [cursor.string() for _ in range(len(cursor.words))]

    def _read_types(self) -> list[Type | None]:
        types: list[Type | None] = [None]
        words, starts = _table(self._container.section(c.TYPES), "types")
        cursor = Cursor(words, self._strings, types)
        for end in starts[1:]:
            # The table grows as it is read: a type can only mention those in front of it.
            types.append(read_structure(cursor))
            if cursor.at != end:
                raise _record("types", len(types) - 2, "length")
        return types

    def _read_ops(self) -> list[tuple[str, list[str]]]:
        found: list[tuple[str, list[str]]] = []
        cursor = Cursor(decode_words(self._container.section(c.OPS)), self._strings, ())
        while cursor.at < len(cursor.words):
            name = cursor.string()
            found.append((name, [cursor.string() for _ in range(cursor.count())]))
        return found

    def _read_head(self) -> tuple[str, tuple[str, ...], dict[str, Encoding]]:
        cursor = self._cursor(decode_words(self._container.section(c.MODULE)))
        name = cursor.string()
        header = tuple([cursor.string() for _ in range(cursor.count())])
        aliases: dict[str, Encoding] = {}
        for _ in range(cursor.count()):
            alias = cursor.string()
            aliases[alias] = read_encoding(cursor)
        if cursor.at != len(cursor.words):
            raise _record("module", 0, "length")
        return name, header, aliases

    # -- bodies --------------------------------------------------------------------------------------------

    def _decode(self, ordinal: int, block: Block) -> Op:
        self.decoded += 1
        entries = self.entries
        start, end = entries.body_ends[ordinal], entries.body_ends[ordinal + 1]
        first, last = entries.op_ends[ordinal], entries.op_ends[ordinal + 1]
        base = self._container.ranges[c.BODIES][0]
        data = self._container.data[base + start : base + end]
        try:
            if self._checksums and zlib.crc32(data) != entries.body_sums[ordinal]:
                raise Damage("BYTECODE/016", "the checksum does not match", offset=start, failure_code="checksum")
            locations: list[Location] = [None] * (last - first)
            if self._locations is not None:
                locations = self._locations.of(first, last - first)
            op = self._bodies.read(decode_words(data), locations, block)
            index = op.spec.symbol_attribute
            name = op.attributes[index] if index is not None else None
            if op.name != entries.op_names[ordinal] or name != entries.names[ordinal]:
                raise Damage("BYTECODE/016", f"it is '{op.name}'", offset=start, failure_code="identity")
        except Damage as damage:
            raise damage.located(self.filename, entries.names[ordinal]) from None
        return op

    def _form(self, number: int) -> Form:
        """Decode a form on first use. Raises ``IndexError`` for a number beyond the table."""
        end = self._form_starts[number + 1]
        cursor = self._form_cursor
        cursor.at = self._form_starts[number]
        try:
            declared = self._declared(cursor.word())
            form = read_form(declared, cursor)
        except (IndexError, OverflowError):
            raise _short_record("forms") from None
        if cursor.at != end:
            raise _record("forms", number, "length")
        self._forms[number] = form
        return form

    def _declared(self, number: int) -> DeclaredOp:
        """The op of a number as its declaration has it."""
        found = self._declarations.get(number)
        if found is None:
            if number >= len(self._ops):
                raise Damage(
                    "BYTECODE/012",
                    f"op {number} of {len(self._ops)}",
                    table_name="ops",
                    ref_id=number,
                    table_count=len(self._ops),
                )
            name, attribute_names = self._ops[number]
            cls = lookup(name)
            if cls is None:
                raise self._unknown_op(name)
            found = self._declarations[number] = DeclaredOp.of(cls, attribute_names)
        return found

    def _unknown_op(self, name: str) -> LoomError:
        from loom.plugins.manager import missing_dialect_hint

        return fail(
            "PARSE/006",
            f"{self.filename}: unknown operation '{name}'",
            None,
            hint=did_you_mean(name, known_names()) or missing_dialect_hint(name.partition(".")[0]),
            emitter="reader",
            op_name=name,
        )


def read_module(data: bytes, filename: str = "<bytecode>") -> Module:
    """Read a whole module. Raises :class:`~loom.ir.diagnostics.LoomError`; the result is not verified."""
    return BytecodeFile.open(data, filename).module()


def _read_strings(section: bytes) -> list[str | None]:
    """The strings from 1 on."""
    count, at = leading_word(section, 0)
    size, at = leading_word(section, at)
    lengths = decode_words(section[at : at + size])
    try:
        text = section[at + size :].decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise Damage(
            "BYTECODE/006",
            "strings: malformed UTF-8",
            section_name="strings",
            table_name="strings",
            record_index=0,
            field_name="text",
            offset=error.start,
            failure_code="utf8",
        ) from None
    if len(lengths) != count or sum(lengths) != len(text):
        raise _record("strings", count, "length")
    ends = list(accumulate(lengths, initial=0))
    return [None, *[text[start:end] for start, end in pairwise(ends)]]


def _table(section: bytes, name: str) -> tuple[list[int], list[int]]:
    """The words of a table's records, and where each begins and the last one ends."""
    words = decode_words(section)
    count = words[0]
    lengths = words[1 : 1 + count]
    body = words[1 + count :]
    starts = list(accumulate(lengths, initial=0))
    if len(lengths) != count or starts[-1] != len(body):
        raise _record(name, count, "length")
    return body, starts


def _record(section: str, index: int, field: str) -> Damage:
    return Damage(
        "BYTECODE/006",
        f"{section}: record {index}, {field}",
        section_name=section,
        table_name=section,
        record_index=index,
        field_name=field,
        offset=0,
        failure_code=field,
    )


def _short_record(section: str) -> Damage:
    return Damage(
        "BYTECODE/003",
        f"a record of the {section} ends early",
        offset=0,
        needed_bytes=1,
        available_bytes=0,
    )


__all__ = ["BytecodeFile", "SymbolEntry", "read_module"]
