"""Builder of SPIR-V modules: ids, declarations and the order of sections.

The builder is an assembler with types: it declares every type and constant once, adds the capabilities and
extensions that types, storage classes, built-ins and instructions call for, keeps the interface of each entry
point, and writes the sections in the order of "SPIR-V Specification" 2.4 (Logical Layout of a Module).  Ids
are handed out in the order of the requests, so equal requests give equal bytes.

Bodies are written with `loom_target_spirv.function.FunctionBuilder`, which `ModuleBuilder.function` makes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import attrs

from loom_target_spirv import enumerants, types
from loom_target_spirv.encoding import float_bits, instruction, literal_words, string_words
from loom_target_spirv.enumerants import (
    AddressingModel,
    BuiltIn,
    Capability,
    Decoration,
    ExecutionMode,
    ExecutionModel,
    MemoryModel,
    StorageClass,
)
from loom_target_spirv.errors import SpirvError
from loom_target_spirv.grammar import GLSL_SET, MAGIC, VERSION_1_6
from loom_target_spirv.types import (
    ArrayType,
    BoolType,
    FloatType,
    FunctionType,
    IntType,
    PointerType,
    RuntimeArrayType,
    StructType,
    Type,
    VectorType,
    VoidType,
)

if TYPE_CHECKING:
    from loom_target_spirv.function import FunctionBuilder

_BUILTIN_TYPE: dict[BuiltIn, Type] = {
    BuiltIn.NumWorkgroups: VectorType(types.U32, 3),
    BuiltIn.WorkgroupId: VectorType(types.U32, 3),
    BuiltIn.LocalInvocationId: VectorType(types.U32, 3),
    BuiltIn.GlobalInvocationId: VectorType(types.U32, 3),
    BuiltIn.LocalInvocationIndex: types.U32,
    BuiltIn.SubgroupSize: types.U32,
    BuiltIn.NumSubgroups: types.U32,
    BuiltIn.SubgroupId: types.U32,
    BuiltIn.SubgroupLocalInvocationId: types.U32,
    BuiltIn.SubgroupEqMask: VectorType(types.U32, 4),
    BuiltIn.SubgroupGeMask: VectorType(types.U32, 4),
    BuiltIn.SubgroupGtMask: VectorType(types.U32, 4),
    BuiltIn.SubgroupLeMask: VectorType(types.U32, 4),
    BuiltIn.SubgroupLtMask: VectorType(types.U32, 4),
}


@attrs.frozen
class Value:
    """A result id and its type."""

    id: int
    type: Type


@attrs.frozen
class _EntryPoint:
    function: FunctionBuilder
    name: str


class ModuleBuilder:
    """One compute module for the Vulkan memory model with 64-bit buffer addresses (see the module
    docstring).
    """

    def __init__(self) -> None:
        self._next_id = 1
        self._capabilities: set[Capability] = set()
        self._extensions: set[str] = set()
        self._imports: list[int] = []
        self._glsl: int | None = None
        self._entry_points: list[_EntryPoint] = []
        self._execution_modes: list[int] = []
        self._strings: list[int] = []
        self._names: list[int] = []
        self._processed: list[int] = []
        self._decorations: list[int] = []
        self._globals: list[int] = []
        self._functions: list[FunctionBuilder] = []
        self._types: dict[Type, int] = {}
        self._constants: dict[tuple[Type, object], Value] = {}
        self._builtins: dict[BuiltIn, Value] = {}
        self._helpers: dict[str, FunctionBuilder] = {}
        self.global_ids: set[int] = set()
        for capability in (
            Capability.Shader,
            Capability.VulkanMemoryModel,
            Capability.PhysicalStorageBufferAddresses,
            Capability.Int64,
        ):
            self.capability(capability)

    # Ids and requirements

    def new_id(self) -> int:
        """A result id that nothing uses yet."""
        result = self._next_id
        self._next_id += 1
        return result

    def capability(self, capability: Capability) -> None:
        """Declare a capability and the extension that belongs to it."""
        self._capabilities.add(capability)
        extension = enumerants.CAPABILITY_EXTENSION.get(capability)
        if extension is not None:
            self._extensions.add(extension)

    def extension(self, name: str) -> None:
        """Declare an extension."""
        self._extensions.add(name)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities declared so far."""
        return frozenset(self._capabilities)

    # Types

    def type_id(self, type_: Type) -> int:
        """The id of a type, declared at first use.

        Raises SpirvError for a type SPIR-V does not have.
        """
        known = self._types.get(type_)
        if known is None:
            known = self._declare(type_)
            self._types[type_] = known
        return known

    def declared_types(self) -> tuple[Type, ...]:
        """The types declared so far."""
        return tuple(self._types)

    def _declare(self, type_: Type) -> int:
        match type_:
            case VoidType():
                return self._global("OpTypeVoid")
            case BoolType():
                return self._global("OpTypeBool")
            case IntType(width=width, signed=signed):
                self._require_scalar(type_)
                return self._global("OpTypeInt", width, int(signed))
            case FloatType(width=width):
                self._require_scalar(type_)
                return self._global("OpTypeFloat", width)
            case VectorType(element=element, count=count):
                if not 2 <= count <= 4:
                    raise SpirvError(f"a SPIR-V vector has 2 to 4 components, not {count}")
                return self._global("OpTypeVector", self.type_id(element), count)
            case ArrayType(element=element, count=count, stride=stride):
                if count < 1:
                    raise SpirvError("a SPIR-V array has at least one element")
                length = self.constant(types.U32, count).id
                result = self._global("OpTypeArray", self.type_id(element), length)
                if stride is not None:
                    self.decorate(result, Decoration.ArrayStride, stride)
                return result
            case RuntimeArrayType(element=element, stride=stride):
                result = self._global("OpTypeRuntimeArray", self.type_id(element))
                self.decorate(result, Decoration.ArrayStride, stride)
                return result
            case StructType():
                return self._declare_struct(type_)
            case PointerType(storage=storage, pointee=pointee):
                narrow = types.NARROW_STORAGE.get(storage, {})
                for width in sorted(types.scalar_widths(pointee) & narrow.keys()):
                    self.capability(narrow[width])
                return self._global("OpTypePointer", storage, self.type_id(pointee))
            case FunctionType(result=result_type, parameters=parameters):
                result_id = self.type_id(result_type)
                return self._global("OpTypeFunction", result_id, *map(self.type_id, parameters))

    def _require_scalar(self, type_: IntType | FloatType) -> None:
        capability = types.scalar_capability(type_)
        if capability is not None:
            self.capability(capability)

    def _declare_struct(self, type_: StructType) -> int:
        result = self._global("OpTypeStruct", *[self.type_id(member) for member in type_.members])
        if type_.block:
            self.decorate(result, Decoration.Block)
        for index, offset in enumerate(type_.offsets or ()):
            self._decorations += instruction("OpMemberDecorate", result, index, Decoration.Offset, offset)
        return result

    def _global(self, name: str, *operands: int) -> int:
        """Append a declaration whose only result is its id (types)."""
        result = self.new_id()
        self._globals += instruction(name, result, *operands)
        return result

    # Constants

    def constant(self, type_: Type, value: float) -> Value:
        """A scalar constant; integers wrap to the width, floats round to nearest even."""
        match type_:
            case BoolType():
                return self._constant(
                    type_, bool(value), "OpConstantTrue" if value else "OpConstantFalse", ()
                )
            case IntType():
                return self.constant_bits(type_, int(value))
            case FloatType(width=width):
                return self.constant_bits(type_, float_bits(width, value))
            case _:
                raise SpirvError(f"{type_} is no scalar type")

    def constant_bits(self, type_: IntType | FloatType, bits: int) -> Value:
        """A number given by its bits, so that NaN payloads and the sign of zero survive."""
        words = tuple(literal_words(type_, bits))
        return self._constant(type_, words, "OpConstant", words)

    def null(self, type_: Type) -> Value:
        """The zero value of any type."""
        return self._constant(type_, "null", "OpConstantNull", ())

    def _constant(self, type_: Type, key: object, name: str, words: Iterable[int]) -> Value:
        known = self._constants.get((type_, key))
        if known is None:
            type_id = self.type_id(type_)
            known = Value(self.new_id(), type_)
            self._globals += instruction(name, type_id, known.id, *words)
            self._constants[type_, key] = known
        return known

    # Variables

    def variable(self, storage: StorageClass, pointee: Type, name: str = "") -> Value:
        """A module-level variable: its value is a pointer.  Function variables belong to the function."""
        type_ = PointerType(storage, pointee)
        type_id = self.type_id(type_)
        result = Value(self.new_id(), type_)
        self._globals += instruction("OpVariable", type_id, result.id, storage)
        self.global_ids.add(result.id)
        if name:
            self.name(result.id, name)
        return result

    def builtin(self, builtin: BuiltIn) -> Value:
        """The input variable of a built-in, declared at first use.

        Raises SpirvError for a built-in that is no input variable of a compute kernel.
        """
        known = self._builtins.get(builtin)
        if known is None:
            if builtin not in _BUILTIN_TYPE:
                raise SpirvError(f"{builtin.name} is no input of a compute kernel")
            known = self.variable(StorageClass.Input, _BUILTIN_TYPE[builtin], builtin.name)
            self.decorate(known.id, Decoration.BuiltIn, builtin)
            capability = enumerants.BUILTIN_CAPABILITY.get(builtin)
            if capability is not None:
                self.capability(capability)
            self._builtins[builtin] = known
        return known

    # Debug information and annotations

    def name(self, target: int, text: str) -> None:
        """Give an id a name for readers of the disassembly."""
        self._names += instruction("OpName", target, *string_words(text))

    def string(self, text: str) -> int:
        """An OpString; the only place in a module for text of the producer's own."""
        result = self.new_id()
        self._strings += instruction("OpString", result, *string_words(text))
        return result

    def module_processed(self, text: str) -> None:
        """An OpModuleProcessed: a note on what was done to the module."""
        self._processed += instruction("OpModuleProcessed", *string_words(text))

    def decorate(self, target: int, decoration: Decoration, *operands: int) -> None:
        """Decorate an id."""
        self._decorations += instruction("OpDecorate", target, decoration, *operands)

    def glsl(self) -> int:
        """The id of the extended instruction set "GLSL.std.450", imported at first use."""
        if self._glsl is None:
            self._glsl = self.new_id()
            self._imports += instruction("OpExtInstImport", self._glsl, *string_words(GLSL_SET))
        return self._glsl

    # Functions and entry points

    def function(
        self,
        name: str,
        result: Type = types.VOID,
        parameters: Sequence[Type] = (),
        control: int = 0,
    ) -> FunctionBuilder:
        """Start a function; its builder is positioned in the first block."""
        from loom_target_spirv.function import FunctionBuilder

        function = FunctionBuilder(self, name, FunctionType(result, tuple(parameters)), control)
        self._functions.append(function)
        self.name(function.id, name)
        return function

    def helper(
        self, name: str, result: Type, parameters: Sequence[Type], write: Callable[[FunctionBuilder], None]
    ) -> FunctionBuilder:
        """The function `name` of the module, made by `write` at the first request."""
        known = self._helpers.get(name)
        if known is None:
            known = self.function(name, result, parameters)
            self._helpers[name] = known
            write(known)
        return known

    def entry_point(self, function: FunctionBuilder, name: str, local_size: tuple[int, int, int]) -> None:
        """Make a function without parameters a compute kernel of `local_size` work-items per workgroup.

        Raises SpirvError when the name is taken or the size is not positive.
        """
        if any(entry.name == name for entry in self._entry_points):
            raise SpirvError(f"two entry points are named {name!r}")
        if min(local_size) < 1:
            raise SpirvError(f"the workgroup size {local_size} of {name!r} is not positive")
        self._entry_points.append(_EntryPoint(function, name))
        self.execution_mode(function, ExecutionMode.LocalSize, *local_size)

    def execution_mode(self, function: FunctionBuilder, mode: ExecutionMode, *operands: int) -> None:
        """Declare an execution mode of an entry point and the capability it needs."""
        capability = enumerants.EXECUTION_MODE_CAPABILITY.get(mode)
        if capability is not None:
            self.capability(capability)
            self.extension("SPV_KHR_float_controls")
        self._execution_modes += instruction("OpExecutionMode", function.id, mode, *operands)

    # Bytes

    def assemble(self) -> bytes:
        """The module as little-endian bytes.

        Raises SpirvError when a function has an open construct or an unterminated block.
        """
        bodies = [word for function in self._functions for word in function.words()]
        sections: list[int] = []
        for capability in sorted(self._capabilities):
            sections += instruction("OpCapability", capability)
        for extension in sorted(self._extensions):
            sections += instruction("OpExtension", *string_words(extension))
        sections += self._imports
        sections += instruction("OpMemoryModel", AddressingModel.PhysicalStorageBuffer64, MemoryModel.Vulkan)
        for entry in self._entry_points:
            sections += instruction(
                "OpEntryPoint",
                ExecutionModel.GLCompute,
                entry.function.id,
                *string_words(entry.name),
                *sorted(self._interface(entry.function)),
            )
        for section in (
            self._execution_modes,
            self._strings,
            self._names,
            self._processed,
            self._decorations,
            self._globals,
            bodies,
        ):
            sections += section
        header = (MAGIC, VERSION_1_6, 0, self._next_id, 0)
        return struct.pack(f"<{5 + len(sections)}I", *header, *sections)

    def _interface(self, entry: FunctionBuilder) -> set[int]:
        """The module-level variables an entry point reaches, through its calls too."""
        by_id = {function.id: function for function in self._functions}
        interface: set[int] = set()
        reached = {entry.id}
        pending = [entry]
        while pending:
            function = pending.pop()
            interface |= function.used_globals
            for callee in function.callees - reached:
                reached.add(callee)
                pending.append(by_id[callee])
        return interface
