"""The readable Low form of a command program (language reference, part 3, section 2.4)."""

from __future__ import annotations

from collections.abc import Iterator

from loom.dialects.low import ops as low
from loom.ir.attributes import Dictionary
from loom.ir.core import Block, Module, Region, Value
from loom.ir.types import BUFFER, INDEX, RegType
from loom.low.builder import LowBuilder
from loom_target_cmd import descriptors
from loom_target_cmd.descriptors import U32, U64, constant_mnemonic, scalar_reading
from loom_target_cmd.records import (
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
    Role,
)

# Constants stand in front of the commands, by class in this order.
_CONSTANT_ORDER = (U64, U32, "cmd.b8", "cmd.b16", "cmd.b32", "cmd.b64")
_SCALAR_CLASS = {kind: f"cmd.b{kind.bits}" for kind in ArgumentKind if kind.bits}

# A scalar class and its bits.
Constant = tuple[str, int]


def low_function(program: CommandProgram, symbol: str) -> low.FuncDef:
    """The ``low.func.def`` of a program."""
    region = Region([Block()])
    _View(program, LowBuilder(descriptors.build_descriptor_set(), region)).write()
    layout = {
        "entry_count": program.entry_count,
        "executable_count": program.executable_count,
        "fixed_buffer_count": program.fixed_buffer_count,
        "rebindable_binding_count": program.rebindable_binding_count,
    }
    return low.FuncDef.build(
        callee=symbol,
        visibility="public",
        retain="retain",
        contract=descriptors.CONTRACT,
        abi="command_program",
        abi_layout=Dictionary(layout),
        regions=[region],
    )


def low_module(programs: dict[str, CommandProgram]) -> Module:
    """A module of the Low functions of programs, by symbol."""
    module = Module("commands")
    for position, (symbol, program) in enumerate(programs.items()):
        function = low_function(program, symbol)
        function.blank_before = position > 0
        module.body.append(function)
    return module


class _View:
    def __init__(self, program: CommandProgram, builder: LowBuilder) -> None:
        self.program = program
        self.builder = builder
        self.fixed: list[Value] = []
        self.bindings: list[Value] = []
        self.executables: list[Value] = []
        self.entries: list[Value] = []
        self.constants: dict[Constant, Value] = {}
        self.references: dict[BufferReference, Value] = {}

    def write(self) -> None:
        p = self.program
        for values, count, reg_class, source in (
            (self.fixed, p.fixed_buffer_count, descriptors.BUFFER, BUFFER),
            (self.bindings, p.rebindable_binding_count, descriptors.BINDING, BUFFER),
            (self.executables, p.executable_count, descriptors.EXECUTABLE, INDEX),
            (self.entries, p.entry_count, descriptors.ENTRY, INDEX),
        ):
            for index in range(count):
                facts: dict[str, object] = {"index": index, "source_type": source}
                values.append(self.builder.resource("command_input", facts, RegType(reg_class)))
        wanted = {constant: None for command in p.commands for constant in _constants(command)}
        for scalar in _CONSTANT_ORDER:
            for cls, bits in wanted:
                if cls == scalar:
                    value = self.builder.emit(constant_mnemonic(cls), value=scalar_reading(cls, bits))
                    self.constants[cls, bits] = value
        for command in p.commands:
            self._command(command)
        self.builder.ret()

    def _command(self, command: Command) -> None:
        match command:
            case Fill():
                pattern = self.constants[_pattern(command)], self.constants[U32, command.pattern_length]
                self._packet("cmd.fill", command.barrier, self._reference(command.target), *pattern)
            case Copy():
                references = self._reference(command.source), self._reference(command.target)
                self._packet("cmd.copy", command.barrier, *references)
            case ExecutionBarrier():
                self._packet("cmd.barrier.execution", False)
            case DispatchDirect():
                counts = [self.constants[U32, count] for count in command.counts]
                self._dispatch("cmd.dispatch.direct", command, counts)
            case DispatchIndirect():
                name = f"cmd.dispatch.indirect.{'dynamic' if command.dynamic else 'static'}"
                self._dispatch(name, command, [self._reference(command.count)])

    def _dispatch(self, name: str, command: DispatchDirect | DispatchIndirect, counts: list[Value]) -> None:
        operands = [self.executables[command.executable], self.entries[command.entry], *counts]
        for argument in command.arguments:
            if isinstance(argument, BufferReference):
                operands.append(self._root(argument))
            operands += [self.constants[constant] for constant in _argument_constants(argument)]
        self._packet(name, command.barrier, *operands)

    def _packet(self, name: str, barrier: bool, *operands: Value) -> None:
        self.builder.packet(name + ".barrier" if barrier else name, *operands)

    def _root(self, reference: BufferReference) -> Value:
        return (self.fixed if reference.role is Role.FIXED else self.bindings)[reference.root]

    def _reference(self, reference: BufferReference) -> Value:
        found = self.references.get(reference)
        if found is None:
            kind = "direct" if reference.role is Role.FIXED else "binding"
            operands = [self.constants[constant] for constant in _argument_constants(reference)]
            found = self.builder.emit(f"cmd.buffer.ref.{kind}", self._root(reference), *operands)
            self.references[reference] = found
        return found


def _pattern(fill: Fill) -> Constant:
    return f"cmd.b{8 * fill.pattern_length}", fill.pattern


def _argument_constants(argument: Argument) -> tuple[Constant, ...]:
    if isinstance(argument, BufferReference):
        return (U64, argument.offset), (U64, U64_MAX if argument.length is None else argument.length)
    return ((_SCALAR_CLASS[argument.kind], argument.bits),)


def _constants(command: Command) -> Iterator[Constant]:
    """Every constant that the Low form of a command names, in operand order."""
    match command:
        case Fill():
            yield from _argument_constants(command.target)
            yield _pattern(command)
            yield U32, command.pattern_length
        case Copy():
            yield from _argument_constants(command.source)
            yield from _argument_constants(command.target)
        case DispatchDirect():
            for count in command.counts:
                yield U32, count
        case DispatchIndirect():
            yield from _argument_constants(command.count)
    if isinstance(command, DispatchDirect | DispatchIndirect):
        for argument in command.arguments:
            yield from _argument_constants(argument)
