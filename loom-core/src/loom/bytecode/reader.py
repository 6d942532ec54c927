"""Opening bytecode files by their index, and reading them whole."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final

from loom.bytecode import container as c
from loom.bytecode.attributes import read_encoding
from loom.bytecode.body import BodyReader, Form
from loom.bytecode.container import Container
from loom.bytecode.cursor import Cursor, Tables
from loom.bytecode.failures import Damage
from loom.bytecode.forms import DeclaredOp, read_form
from loom.bytecode.index import Index, Place, SymbolEntry, SymbolTable
from loom.bytecode.locations import LocationTable
from loom.bytecode.tables import Lazy, Records, Strings, bad_record
from loom.bytecode.types import read_structure
from loom.bytecode.varint import decode_words
from loom.ir.attributes import Encoding
from loom.ir.core import Block, Module, Op
from loom.ir.diagnostics import Location, LoomError, did_you_mean, fail
from loom.ir.garbage import no_collection
from loom.ir.recursion import deep_recursion
from loom.ir.types import ERROR, Type
from loom.spec.registry import known_names, lookup

MAX_FILE_BYTES: Final = 1 << 30


def open_modules(data: bytes, filename: str = "<bytecode>", *, checksums: bool = True) -> list[BytecodeFile]:
    """Open all modules of a file by their indices; see :meth:`BytecodeFile.open`."""
    if len(data) > MAX_FILE_BYTES:
        raise Damage(
            "BYTECODE/009", f"{len(data)} bytes", table_name="file", count=len(data), limit=MAX_FILE_BYTES
        ).located(filename)
    try:
        found = c.read_archive(bytes(data), checksums=checksums)
        return [BytecodeFile(container, filename, checksums) for container in found]
    except Damage as damage:
        raise damage.located(filename) from None
    except IndexError:
        raise _short_record("tables").located(filename) from None


class BytecodeFile:
    """A module of a file whose bodies are not read, and of whose tables only what is asked for.

    ``entries`` are the module-level operations in order. ``decoded`` counts the bodies decoded so far.
    """

    def __init__(self, container: Container, filename: str, checksums: bool) -> None:
        self.filename = filename
        self.decoded = 0
        self.declarations_only = container.declarations_only
        self._checksums = checksums
        self._container = container
        strings = Strings(container.section(c.STRINGS))
        self._type_records = Records(container.section(c.TYPES), "types")
        self._form_records = Records(container.section(c.FORMS), "forms")
        self._tables = Tables(strings, Lazy(self._type))
        self._sources = self._read_sources()
        self._ops = self._read_ops()
        self._declarations: dict[int, DeclaredOp] = {}
        forms: Lazy[Form] = Lazy(self._form)
        self._bodies = BodyReader(self._tables, forms, self._sources)
        self.name, self.header, self.aliases = self._read_head()
        self._bodies_at, end = container.ranges[c.BODIES]
        self.entries = Index(container.section(c.SYMBOLS), strings, end - self._bodies_at)
        self._locations: LocationTable | None = None
        if container.locations:
            section = container.section(c.LOCATIONS)
            self._locations = LocationTable(section, self._sources, self.entries.operations)

    @classmethod
    def open(cls, data: bytes, filename: str = "<bytecode>", *, checksums: bool = True) -> BytecodeFile:
        """Open the module of a file. Its header, directories and index are read, and nothing else.

        Without ``checksums`` damage is found only where it breaks the structure, as when the transport has checked
        the file already. Raises :class:`~loom.ir.diagnostics.LoomError` for anything but a sound file of one module.
        """
        found = open_modules(data, filename, checksums=checksums)
        if len(found) != 1:
            raise fail(
                "BYTECODE/009",
                f"{filename}: the file has {len(found)} modules, and one is needed here",
                None,
                hint="loom-link takes files of several modules",
                emitter="reader",
                table_name="modules",
                count=len(found),
                limit=1,
            )
        return found[0]

    def symbols(self) -> Mapping[str, SymbolEntry]:
        """Symbol name -> entry (the first one when a name is defined twice)."""
        return SymbolTable(self.entries)

    def materialize(self, symbol: str | SymbolEntry) -> Op:
        """Decode one module-level operation; every call makes a new one, which belongs to no module.

        Raises ``KeyError`` for a name that the file does not define, and
        :class:`~loom.ir.diagnostics.LoomError` when the body is damaged or has operations that nothing declares.
        """
        entry = self.symbols()[symbol] if isinstance(symbol, str) else symbol
        with deep_recursion():
            op = self._decode(self._place(entry.ordinal), Block())
        op.detach()
        return op

    def module(self) -> Module:
        """Decode everything. The result is not verified."""
        module = Module(self.name)
        module.header = self.header
        module.aliases = dict(self.aliases)
        self._tables.strings.load()
        with no_collection(), deep_recursion():
            try:
                for place in self.entries.places():
                    self._decode(place, module.body)
            except Damage as damage:
                raise damage.located(self.filename) from None
        return module

    # -- tables --------------------------------------------------------------------------------------------

    def _words(self, kind: int) -> Cursor:
        return Cursor(decode_words(self._container.section(kind)), self._tables)

    def _read_sources(self) -> list[str]:
        cursor = self._words(c.SOURCES)
        return [cursor.string() for _ in range(len(cursor.words))]

    def _type(self, number: int) -> Type:
        """Decode a type on first use. Types may only mention those in front of them."""
        cursor = Cursor(decode_words(self._type_records[number]), self._tables)
        # Mentioning itself, or a type behind it that mentions it, must not go on for ever.
        self._tables.types[number] = ERROR
        try:
            found = read_structure(cursor)
        except (IndexError, OverflowError):
            raise _short_record("types") from None
        if cursor.at != len(cursor.words):
            raise bad_record("types", number, "length")
        return found

    def _read_ops(self) -> list[tuple[str, list[str]]]:
        found: list[tuple[str, list[str]]] = []
        cursor = self._words(c.OPS)
        while cursor.at < len(cursor.words):
            name = cursor.string()
            found.append((name, [cursor.string() for _ in range(cursor.count())]))
        return found

    def _read_head(self) -> tuple[str, tuple[str, ...], dict[str, Encoding]]:
        cursor = self._words(c.MODULE)
        name = cursor.string()
        header = tuple([cursor.comment() for _ in range(cursor.count())])
        aliases: dict[str, Encoding] = {}
        for _ in range(cursor.count()):
            alias = cursor.key()
            aliases[alias] = read_encoding(cursor)
        if cursor.at != len(cursor.words):
            raise bad_record("module", 0, "length")
        return name, header, aliases

    # -- bodies --------------------------------------------------------------------------------------------

    def _place(self, ordinal: int) -> Place:
        try:
            return self.entries.place(ordinal)
        except Damage as damage:
            raise damage.located(self.filename) from None

    def _decode(self, place: Place, block: Block) -> Op:
        self.decoded += 1
        name, op_name, start, end, checksum, first, last = place
        try:
            base = self._bodies_at
            data = self._container.data[base + start : base + end]
            if self._checksums and zlib.crc32(data) != checksum:
                raise Damage("BYTECODE/016", "the checksum does not match", offset=start, failure_code="checksum")
            locations: list[Location]
            locations = [None] * (last - first) if self._locations is None else self._locations.of(first, last - first)
            op = self._bodies.read(decode_words(data), locations, block)
            index = op.spec.symbol_attribute
            if op.name != op_name or name != (op.attributes[index] if index is not None else None):
                raise Damage("BYTECODE/016", f"it is '{op.name}'", offset=start, failure_code="identity")
        except Damage as damage:
            raise damage.located(self.filename, name) from None
        return op

    def _form(self, number: int) -> Form:
        """Decode a form on first use."""
        cursor = Cursor(decode_words(self._form_records[number]), self._tables)
        try:
            form = read_form(self._declared(cursor.word()), cursor)
        except (IndexError, OverflowError):
            raise _short_record("forms") from None
        if cursor.at != len(cursor.words):
            raise bad_record("forms", number, "length")
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


def _short_record(section: str) -> Damage:
    return Damage(
        "BYTECODE/003",
        f"a record of the {section} ends early",
        offset=0,
        needed_bytes=1,
        available_bytes=0,
    )


__all__ = ["BytecodeFile", "SymbolEntry", "open_modules", "read_module"]
