"""Writing and reading ``.loomcmd`` files (language reference, part 3, section 2.5).

Little-endian; the tables follow the header in a fixed order without gaps. Reading trusts nothing: every count,
offset, ordinal and reserved field is checked, and a file that breaks a rule raises :class:`LoomcmdError`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from loom_target_cmd.records import (
    U32_MAX,
    U64_MAX,
    Argument,
    ArgumentKind,
    BufferReference,
    Command,
    CommandProgram,
    Copy,
    DispatchDirect,
    DispatchIndirect,
    ExecutionBarrier,
    Fill,
    Parameter,
    ParameterRoot,
    Role,
    Scalar,
    Slab,
)

MAGIC: Final = b"LOOMCMD\0"
VERSION: Final = 0
NONE: Final = U32_MAX
"""Ordinal of a binding that is absent."""

_HEADER: Final = struct.Struct("<8sHHI12I8III2QII2Q")
_REFERENCE: Final = struct.Struct("<IIQQ")
_SCHEMA: Final = struct.Struct("<4I")
_COMMAND: Final = struct.Struct("<8I")
_ROOT: Final = struct.Struct("<IIQQ")
_PARAMETER: Final = struct.Struct("<4I3Q")

# Tables in file order: name, bytes per record.
TABLES: Final = (
    ("buffer references", _REFERENCE.size),
    ("entry schemas", _SCHEMA.size),
    ("schema kinds", 1),
    ("argument data", 1),
    ("commands", _COMMAND.size),
    ("parameter roots", _ROOT.size),
    ("parameters", _PARAMETER.size),
    ("parameter keys", 1),
)

FILL, COPY, DIRECT, STATIC, DYNAMIC, BARRIER = range(1, 7)
WITH_BARRIER: Final = 0x100
# Command kind -> how many operands it has; the others are zero.
_OPERAND_COUNTS: Final = {FILL: 3, COPY: 2, DIRECT: 5, STATIC: 3, DYNAMIC: 3, BARRIER: 0}


class LoomcmdError(ValueError):
    """The bytes are no valid command program; the message says where and why."""


# -- writing -----------------------------------------------------------------------------------------------------


class _Writer:
    """Collects the tables of one program. Equal buffer references and schemas are stored once."""

    def __init__(self, program: CommandProgram) -> None:
        self.references: dict[BufferReference, int] = {}
        self.kinds = bytearray()
        self.arguments = bytearray()
        self.schemas: list[bytes] = []
        self.schema_of: dict[int, int] = {}
        for entry, kinds in sorted(program.entry_kinds().items()):
            self.schema_of[entry] = len(self.schemas)
            size = sum(kind.payload_size for kind in kinds)
            self.schemas.append(_SCHEMA.pack(entry, self._kind_run(bytes(kinds)), len(kinds), size))
        self.commands = [self._command(command) for command in program.commands]

    def _kind_run(self, kinds: bytes) -> int:
        found = self.kinds.find(kinds)
        if found < 0:
            found = len(self.kinds)
            self.kinds += kinds
        return found

    def _reference(self, reference: BufferReference) -> int:
        return self.references.setdefault(reference, len(self.references))

    def _command(self, command: Command) -> bytes:
        argument, schema = 0, 0
        match command:
            case Fill():
                kind = FILL
                operands = [self._reference(command.target), command.pattern, command.pattern_length]
            case Copy():
                kind = COPY
                operands = [self._reference(command.source), self._reference(command.target)]
            case ExecutionBarrier():
                return _COMMAND.pack(BARRIER, *[0] * 7)
            case DispatchDirect():
                kind = DIRECT
                operands = [command.executable, command.entry, *command.counts]
                argument, schema = self._arguments(command.arguments), self.schema_of[command.entry]
            case DispatchIndirect():
                kind = DYNAMIC if command.dynamic else STATIC
                operands = [command.executable, command.entry, self._reference(command.count)]
                argument, schema = self._arguments(command.arguments), self.schema_of[command.entry]
        kind += WITH_BARRIER * command.barrier
        return _COMMAND.pack(kind, argument, schema, *operands, *[0] * (5 - len(operands)))

    def _arguments(self, arguments: Sequence[Argument]) -> int:
        start = len(self.arguments)
        for argument in arguments:
            if isinstance(argument, BufferReference):
                self.arguments += _reference_bytes(argument)
            else:
                self.arguments += argument.bits.to_bytes(argument.kind.payload_size, "little")
        return start


def _reference_bytes(reference: BufferReference) -> bytes:
    length = U64_MAX if reference.length is None else reference.length
    return _REFERENCE.pack(reference.role, reference.root, reference.offset, length)


def _slab_fields(slab: Slab | None) -> tuple[int, int, int, int]:
    return (slab.binding, 0, slab.length, slab.alignment) if slab is not None else (NONE, 0, 0, 0)


def encode(program: CommandProgram) -> bytes:
    """The bytes of a command program; the same program always gives the same bytes.

    Raises ``ValueError`` when the records contradict each other or a number does not fit its field.
    """
    try:
        data = _encode(program)
    except (struct.error, OverflowError) as error:
        raise ValueError(f"a number does not fit its field: {error}") from None
    decode(data)  # What is written can be read; an inconsistent program is refused here.
    return data


def _encode(program: CommandProgram) -> bytes:
    writer = _Writer(program)
    keys = bytearray()
    parameters = []
    for p in program.parameters:
        key = p.key.encode()
        parameters.append(_PARAMETER.pack(len(keys), len(key), p.fixed, 0, p.offset, p.length, p.alignment))
        keys += key
    roots = [_ROOT.pack(r.fixed, 0, r.length, r.alignment) for r in program.parameter_roots]
    tables = (
        b"".join(map(_reference_bytes, writer.references)),
        b"".join(writer.schemas),
        bytes(writer.kinds),
        bytes(writer.arguments),
        b"".join(writer.commands),
        b"".join(roots),
        b"".join(parameters),
        bytes(keys),
    )
    offsets = []
    end = _HEADER.size
    for table in tables:
        offsets.append(end)
        end += len(table)
    header = _HEADER.pack(
        MAGIC,
        VERSION,
        _HEADER.size,
        end,
        program.fixed_buffer_count,
        program.rebindable_binding_count,
        program.executable_count,
        program.entry_count,
        len(writer.references),
        len(writer.arguments),
        len(writer.commands),
        len(roots),
        len(parameters),
        len(keys),
        len(writer.schemas),
        len(writer.kinds),
        *offsets,
        *_slab_fields(program.transient),
        *_slab_fields(program.launch_counts),
    )
    return header + b"".join(tables)


# -- reading -----------------------------------------------------------------------------------------------------


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise LoomcmdError(what)


def _ordinal(value: int, count: int, what: str) -> int:
    _require(value < count, f"{what} {value} of {count}")
    return value


def _alignment(value: int, what: str) -> int:
    _require(value > 0 and value & (value - 1) == 0, f"alignment {value} of {what} is no power of two")
    return value


class _Reader:
    """The header and tables of a file whose sizes have been checked."""

    def __init__(self, data: bytes) -> None:
        _require(len(data) >= _HEADER.size, f"{len(data)} bytes are no header, which takes {_HEADER.size}")
        magic, version, header_size, total, *fields = _HEADER.unpack_from(data)
        _require(magic == MAGIC, "not a command program: wrong magic")
        _require(version == VERSION, f"version {version} is not supported, this reader knows {VERSION}")
        _require(header_size == _HEADER.size, f"header size {header_size}, expected {_HEADER.size}")
        _require(total == len(data), f"the header says {total} bytes, the file has {len(data)}")
        self.fixed, self.rebindable, self.executables, self.entries = fields[:4]
        references, arguments, commands, roots, parameters, keys, schemas, kinds = fields[4:12]
        counts = (references, schemas, kinds, arguments, commands, roots, parameters, keys)
        self.tables: dict[str, bytes] = {}
        at = _HEADER.size
        for (name, size), count, offset in zip(TABLES, counts, fields[12:20], strict=True):
            _require(offset == at, f"{name} start at {offset}, expected {at}")
            at += size * count
            _require(at <= total, f"{name} end at {at}, behind the end of the file at {total}")
            self.tables[name] = data[offset:at]
        _require(at == total, f"{total - at} bytes behind the last table")
        self.slab_fields = (fields[20:24], fields[24:28])

    def program(self) -> CommandProgram:
        self.references = [
            self._reference(*fields) for fields in _REFERENCE.iter_unpack(self.tables["buffer references"])
        ]
        self.schemas = [self._schema(*fields) for fields in _SCHEMA.iter_unpack(self.tables["entry schemas"])]
        entries = [entry for entry, _, _ in self.schemas]
        _require(len(set(entries)) == len(entries), "two schemas describe one entry")
        commands = tuple(self._command(*fields) for fields in _COMMAND.iter_unpack(self.tables["commands"]))
        roots = tuple(self._root(*fields) for fields in _ROOT.iter_unpack(self.tables["parameter roots"]))
        by_fixed = {root.fixed: root for root in roots}
        _require(len(by_fixed) == len(roots), "two parameter roots describe one fixed buffer")
        parameters = tuple(
            self._parameter(by_fixed, *fields) for fields in _PARAMETER.iter_unpack(self.tables["parameters"])
        )
        keys = {(p.fixed, p.key) for p in parameters}
        _require(len(keys) == len(parameters), "a parameter key occurs twice")
        transient, launch_counts = (self._slab(*fields) for fields in self.slab_fields)
        return CommandProgram(
            self.fixed,
            self.rebindable,
            self.executables,
            self.entries,
            commands,
            roots,
            parameters,
            transient,
            launch_counts,
        )

    def _reference(self, role: int, root: int, offset: int, length: int) -> BufferReference:
        _require(role in (Role.FIXED, Role.REBINDABLE), f"buffer role {role} is unknown")
        _ordinal(root, self.fixed if role == Role.FIXED else self.rebindable, "buffer root")
        whole = length == U64_MAX
        _require(whole or offset + length <= U64_MAX, f"a range of {length} bytes at {offset} leaves 64 bits")
        return BufferReference(Role(role), root, offset, None if whole else length)

    def _schema(self, entry: int, start: int, count: int, size: int) -> tuple[int, list[ArgumentKind], int]:
        _ordinal(entry, self.entries, "entry")
        kinds = self.tables["schema kinds"][start : start + count]
        _require(len(kinds) == count, f"the kinds of entry {entry} end behind their table")
        _require(all(1 <= kind <= ArgumentKind.B64 for kind in kinds), f"entry {entry} has an unknown argument kind")
        listed = [ArgumentKind(kind) for kind in kinds]
        _require(
            sum(kind.payload_size for kind in listed) == size, f"arguments of entry {entry} do not take {size} bytes"
        )
        return entry, listed, size

    def _command(self, code: int, argument: int, schema: int, *operands: int) -> Command:
        kind, barrier = code & ~WITH_BARRIER, bool(code & WITH_BARRIER)
        count = _OPERAND_COUNTS.get(kind)
        if count is None or (kind == BARRIER and barrier):
            raise LoomcmdError(f"command kind {code:#x} is unknown")
        _require(not any(operands[count:]), f"a command of kind {code:#x} has more than {count} operands")
        if kind not in (DIRECT, STATIC, DYNAMIC):
            _require(argument == schema == 0, f"a command of kind {code:#x} has arguments")
            if kind == BARRIER:
                return ExecutionBarrier()
            if kind == COPY:
                return Copy(self._indexed(operands[0]), self._indexed(operands[1]), barrier)
            _require(operands[2] in (1, 2, 4), f"a pattern of {operands[2]} bytes")
            _require(operands[1] >> 8 * operands[2] == 0, f"pattern {operands[1]:#x} in {operands[2]} bytes")
            return Fill(self._indexed(operands[0]), operands[1], operands[2], barrier)
        executable = _ordinal(operands[0], self.executables, "executable")
        entry = _ordinal(operands[1], self.entries, "entry")
        arguments = self._arguments(entry, argument, schema)
        if kind == DIRECT:
            return DispatchDirect(executable, entry, (operands[2], operands[3], operands[4]), arguments, barrier)
        counts = self._indexed(operands[2])
        _require(counts.length in (None, 12) and counts.offset % 4 == 0, "counts are 12 bytes at a multiple of 4")
        return DispatchIndirect(executable, entry, counts, kind == DYNAMIC, arguments, barrier)

    def _indexed(self, index: int) -> BufferReference:
        return self.references[_ordinal(index, len(self.references), "buffer reference")]

    def _arguments(self, entry: int, at: int, schema: int) -> tuple[Argument, ...]:
        owner, kinds, size = self.schemas[_ordinal(schema, len(self.schemas), "entry schema")]
        _require(owner == entry, f"entry {entry} is dispatched with the schema of entry {owner}")
        data = self.tables["argument data"][at : at + size]
        _require(len(data) == size, f"the arguments of entry {entry} end behind their table")
        arguments: list[Argument] = []
        position = 0
        for kind in kinds:
            payload = data[position : position + kind.payload_size]
            position += kind.payload_size
            if kind is ArgumentKind.BUFFER:
                arguments.append(self._reference(*_REFERENCE.unpack(payload)))
            else:
                bits = int.from_bytes(payload, "little")
                _require(bits >> kind.bits == 0, f"{bits:#x} does not fit a scalar of {kind.bits} bits")
                arguments.append(Scalar(kind, bits))
        return tuple(arguments)

    def _root(self, fixed: int, zero: int, length: int, alignment: int) -> ParameterRoot:
        _ordinal(fixed, self.fixed, "fixed buffer")
        _require(zero == 0, "a reserved field of a parameter root is not zero")
        return ParameterRoot(fixed, length, _alignment(alignment, "a parameter root"))

    def _parameter(
        self,
        roots: dict[int, ParameterRoot],
        key_at: int,
        key_length: int,
        fixed: int,
        zero: int,
        offset: int,
        length: int,
        alignment: int,
    ) -> Parameter:
        raw = self.tables["parameter keys"][key_at : key_at + key_length]
        _require(len(raw) == key_length, "a parameter key ends behind its table")
        try:
            key = raw.decode()
        except UnicodeDecodeError:
            raise LoomcmdError("a parameter key is not UTF-8") from None
        root = roots.get(fixed)
        if root is None:
            raise LoomcmdError(f"parameter '{key}' lies in fixed buffer {fixed}, which is no parameter root")
        _require(zero == 0, f"a reserved field of parameter '{key}' is not zero")
        _require(offset + length <= root.length, f"parameter '{key}' ends behind its root")
        _require(offset % _alignment(alignment, f"parameter '{key}'") == 0, f"parameter '{key}' is not aligned")
        return Parameter(key, fixed, offset, length, alignment)

    def _slab(self, binding: int, zero: int, length: int, alignment: int) -> Slab | None:
        _require(zero == 0, "a reserved field of the header is not zero")
        if binding == NONE:
            _require(length == alignment == 0, "an absent binding has a size")
            return None
        _ordinal(binding, self.rebindable, "rebindable binding")
        return Slab(binding, length, _alignment(alignment, "a binding"))


def decode(data: bytes) -> CommandProgram:
    """Read a command program. Raises :class:`LoomcmdError` unless the bytes obey every rule of the format."""
    return _Reader(data).program()
