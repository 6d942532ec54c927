"""Writing modules. Equal modules give equal bytes: every table is in order of first use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from loom.bytecode import container as c
from loom.bytecode import index
from loom.bytecode.attributes import INT_RANGE, names_values, write_attribute, write_encoding
from loom.bytecode.cursor import Sink
from loom.bytecode.layout import (
    ABSENT,
    ARGUMENTS_SHIFT,
    GIVEN,
    HAS_AHEAD,
    HAS_NAMES,
    HAS_POSITION,
    HAS_TRIVIA,
    IN_BODY,
    INTEGER_IN_BODY,
    LITERAL,
    REGIONS_SHIFT,
    SYMBOL_NAME,
)
from loom.bytecode.locations import Position, encode_locations, position_of
from loom.bytecode.tables import encode_records, encode_strings
from loom.bytecode.types import names_values as type_names_values
from loom.bytecode.types import write_structure, write_type
from loom.bytecode.varint import encode_words, zigzag
from loom.ir.attributes import ResultSpec
from loom.ir.core import Block, Module, Op, Region, Value, symbol_name
from loom.ir.diagnostics import Location, fail
from loom.ir.recursion import deep_recursion
from loom.ir.types import Type
from loom.transforms.dce import referenced_symbols


def write_module(module: Module, *, locations: bool = True) -> bytes:
    """The binary form of a module; without ``locations`` no source position is recorded.

    Raises :class:`~loom.ir.diagnostics.LoomError` when a part of the module has no binary form, such as an
    operand that is defined in another symbol.
    """
    return write_modules([module], locations=locations)


def write_modules(modules: Sequence[Module], *, locations: bool = True) -> bytes:
    """A file of several modules, which stay as they are and keep their order. Raises as :func:`write_module` does."""
    with deep_recursion():
        parts = [(_Writer(locations).sections(module), _only_declares(module)) for module in modules]
    return c.write_archive(parts, locations=locations)


def _only_declares(module: Module) -> bool:
    return all("declaration" in op.spec.traits for op in module.body)


class _Writer:
    def __init__(self, locations: bool) -> None:
        self.locations = locations
        self.strings: dict[str, int] = {}
        self.types: dict[Type, int] = {}
        self.sources: dict[str, int] = {}
        # Op name -> number; the records of the table.
        self.ops: dict[str, int] = {}
        self.op_records: list[list[int]] = []
        # Words of a form -> number.
        self.forms: dict[tuple[int, ...], int] = {}
        # Source of every operation so far, 0 for none, and the positions of those with one.
        self.places: list[int] = []
        self.positions: list[Position] = []

    def sink(self) -> Sink:
        return Sink(self.strings, self.types)

    def sections(self, module: Module) -> dict[int, bytes]:
        """The sections of a module's file."""
        rows: list[index.IndexRow] = []
        for op in module.body:
            name = symbol_name(op)
            try:
                before = len(self.places)
                body = _BodyWriter(self).write(op)
            except (TypeError, ValueError, KeyError) as error:
                raise fail(
                    "BYTECODE/016",
                    f"'{op.name}'{f' @{name}' if name else ''} has no binary form: {error}",
                    op.loc,
                    emitter="writer",
                    symbol_name=name or "",
                    offset=0,
                    failure_code="unsupported",
                ) from error
            # Sorted: the order of entries in a dictionary is not part of a program.
            mentioned = sorted(set(referenced_symbols(op)))
            family = index.family_of(op)
            operations = len(self.places) - before
            rows.append(index.IndexRow(name, family, op.name, index.flags_of(op), mentioned, body, operations))
            for text in (*mentioned, op.name, name, family):
                if text is not None:
                    self._string(text)
        head = self._head(module)
        types = self._types()
        sources = encode_words([self._string(name) for name in self.sources])
        ops = encode_words([word for record in self.op_records for word in record])
        # What everything else mentions comes first, and all strings are known by then.
        return {
            c.STRINGS: encode_strings(self.strings),
            c.SOURCES: sources,
            c.TYPES: types,
            c.OPS: ops,
            c.FORMS: encode_records([encode_words(list(form)) for form in self.forms]),
            c.MODULE: head,
            c.SYMBOLS: index.encode_index(rows, self.strings),
            c.BODIES: b"".join([row.body for row in rows]),
            c.LOCATIONS: encode_locations(self.places, self.positions) if self.locations else b"",
        }

    def _string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings) + 1)

    def _head(self, module: Module) -> bytes:
        sink = self.sink()
        sink.string(module.name)
        sink.words.append(len(module.header))
        for line in module.header:
            sink.string(line)
        sink.words.append(len(module.aliases))
        for name, encoding in module.aliases.items():
            sink.string(name)
            write_encoding(sink, encoding)
        return encode_words(sink.words)

    def _types(self) -> bytes:
        records: list[bytes] = []
        # Every part of a type entered the table before it, so writing the entries adds none.
        for type_ in self.types:
            sink = self.sink()
            write_structure(sink, type_)
            records.append(encode_words(sink.words))
        return encode_records(records)

    def op_number(self, op: Op) -> int:
        number = self.ops.get(op.name)
        if number is None:
            number = self.ops[op.name] = len(self.ops)
            # Attributes go by name, so that a declaration may gain optional ones.
            names = [self._string(attribute.name) for attribute in op.spec.attributes]
            self.op_records.append([self._string(op.name), len(names), *names])
        return number

    def form(self, op: Op, flags: int) -> tuple[int, list[int], int | None]:
        """Number of an operation's form, positions of attributes that follow in the body, and the integer there."""
        sink = self.sink()
        words = sink.words
        words += (self.op_number(op), flags)
        spec = op.spec
        if spec.segmented:
            if op.segments is None or sum(op.segments) != len(op.operands):
                raise ValueError("operands do not fit their groups")
            words += op.segments
        elif len(op.operands) != len(spec.operands):
            raise ValueError(f"{len(op.operands)} operands instead of {len(spec.operands)}")
        words.append(len(op.results))
        for result in op.results:
            if type_names_values(result.type):
                # Its place in the body has the type.
                words.append(0)
            else:
                write_type(sink, result.type)
        inline: list[int] = []
        integer: int | None = None
        for i, (attribute, value) in enumerate(zip(spec.attributes, op.attributes, strict=True)):
            if value is None:
                words.append(ABSENT)
            elif attribute.kind.name == SYMBOL_NAME or names_values(value):
                words.append(IN_BODY)
                inline.append(i)
            elif integer is None and attribute.kind.name == LITERAL and _is_integer(value):
                words.append(INTEGER_IN_BODY)
                integer = zigzag(value)
            else:
                words.append(GIVEN)
                write_attribute(sink, attribute.kind, value)
        return self.forms.setdefault(tuple(words), len(self.forms) + 1), inline, integer

    def source(self, name: str) -> int:
        return self.sources.setdefault(name, len(self.sources) + 1)


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value in INT_RANGE


class _BodyWriter:
    """Writes one module-level operation with everything inside it; :mod:`loom.bytecode.body` reads it."""

    def __init__(self, writer: _Writer) -> None:
        self.writer = writer
        self.sink = writer.sink()

    def write(self, op: Op) -> bytes:
        numbers: dict[Value, int] = {}
        _number(op, numbers)
        self.sink.numbers = numbers
        self._op(op, {})
        return encode_words(self.sink.words)

    def _op(self, op: Op, blocks: dict[Block, int]) -> None:
        sink = self.sink
        words = sink.words
        results = op.results
        # Several results always have a word each in the body, so that no short record makes many of them.
        named = len(results) > 1 or any(result.name is not None for result in results)
        trivia = bool(op.comments) or op.blank_before
        backs = [sink.defined - sink.number(operand) for operand in op.operands]
        ahead = any(back <= 0 for back in backs)
        flags = (
            (HAS_TRIVIA if trivia else 0)
            | (HAS_NAMES if named else 0)
            | (HAS_AHEAD if ahead else 0)
            | len(op.regions) << REGIONS_SHIFT
        )
        form, inline, integer = self.writer.form(op, flags)
        words.append(form)
        if trivia:
            self._trivia(op)
        if ahead:
            for operand in op.operands:
                sink.value(operand)
        else:
            words += [back - 1 for back in backs]
        if len(op.successors) != len(op.spec.successors):
            raise ValueError(f"{len(op.successors)} successors instead of {len(op.spec.successors)}")
        for block in op.successors:
            words.append(blocks[block])
        for result in results:
            if type_names_values(result.type):
                write_type(sink, result.type)
        if integer is not None:
            words.append(integer)
        if named:
            words += [sink.string_id(r.name) if r.name is not None else 0 for r in results]
        sink.defined += len(results)
        self._locate(op.loc)
        for region in op.regions:
            self._region(region)
        for i in inline:
            kind = op.spec.attributes[i].kind
            if kind.name == "results":
                self._result_specs(op.attributes[i])
            else:
                write_attribute(sink, kind, op.attributes[i])

    def _trivia(self, item: Op | Block) -> None:
        self.sink.words.append(len(item.comments) << 1 | item.blank_before)
        for comment in item.comments:
            self.sink.string(comment)

    def _region(self, region: Region) -> None:
        words = self.sink.words
        blocks = {block: i for i, block in enumerate(region.blocks)}
        words.append(len(blocks))
        for block in region.blocks:
            self._head(block)
            for arg in block.args:
                write_type(self.sink, arg.type)
                words.append(self.sink.string_id(arg.name) if arg.name is not None else 0)
                self.sink.defined += 1
            words.append(len(block))
            for op in block:
                self._op(op, blocks)

    def _result_specs(self, specs: Any) -> None:
        sink = self.sink
        words = sink.words
        words.append(len(specs))
        spec: ResultSpec
        for spec in specs:
            words.append(0 if spec.tied is None else spec.tied + 1)
            name = spec.value.name if spec.value is not None else None
            words.append(0 if spec.value is None else 1 if name is None else sink.string_id(name) + 1)
            sink.defined += spec.value is not None
        for spec in specs:
            write_type(sink, spec.type)
            if spec.value is not None:
                write_type(sink, spec.value.type)

    def _locate(self, location: Location) -> None:
        found = position_of(location) if self.writer.locations else None
        self.writer.places.append(self.writer.source(found[0]) if found is not None else 0)
        if found is not None:
            self.writer.positions.append(found[1])

    def _head(self, block: Block) -> None:
        """The number of arguments and what few blocks have: label, comments, position."""
        words = self.sink.words
        found = position_of(block.loc) if self.writer.locations else None
        trivia = bool(block.comments) or block.blank_before
        words.append(
            (HAS_TRIVIA if trivia else 0)
            | (HAS_NAMES if block.label is not None else 0)
            | (HAS_POSITION if found is not None else 0)
            | len(block.args) << ARGUMENTS_SHIFT
        )
        if trivia:
            self._trivia(block)
        if block.label is not None:
            self.sink.string(block.label)
        if found is not None:
            words += (self.writer.source(found[0]), *found[1])


def _number(op: Op, numbers: dict[Value, int]) -> None:
    """Number the values of an operation in the order in which they are read back."""
    for result in op.results:
        numbers[result] = len(numbers)
    for region in op.regions:
        for block in region.blocks:
            for arg in block.args:
                numbers[arg] = len(numbers)
            for inner in block:
                _number(inner, numbers)
    for i in op.spec.result_spec_attributes:
        for spec in op.attributes[i] or ():  # type: ignore[attr-defined]  # a result list by its kind
            if spec.value is not None:
                numbers[spec.value] = len(numbers)
