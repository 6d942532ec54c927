"""Bodies of SPIR-V functions: instructions appended to the current block.

`FunctionBuilder.op` and `FunctionBuilder.effect` append any instruction of the table; the methods after them
build the ones that need more than their operands: memory accesses with the flags of the Vulkan memory model,
barriers, atomics, extended instructions.  Structured control flow is in `loom_target_spirv.structured`.
"""

from __future__ import annotations

from typing import Protocol

from loom_target_spirv.encoding import instruction
from loom_target_spirv.enumerants import (
    Capability,
    Decoration,
    GLSLstd450,
    GroupOperation,
    MemoryAccess,
    MemorySemantics,
    Scope,
    StorageClass,
)
from loom_target_spirv.errors import SpirvError
from loom_target_spirv.grammar import BY_NAME
from loom_target_spirv.module import ModuleBuilder, Value
from loom_target_spirv.types import (
    U32,
    FloatType,
    FunctionType,
    PointerType,
    Type,
    VectorType,
    scalar_alignment,
)

_SHARED_STORAGE = frozenset(
    {StorageClass.Workgroup, StorageClass.StorageBuffer, StorageClass.PhysicalStorageBuffer}
)
"""Storage several invocations see.

Under the Vulkan memory model an access takes part in ordering between invocations only if it is marked
NonPrivatePointer ("SPIR-V Specification" 3.26), so every access to this storage is.
"""

_ATOMIC_FLOAT: dict[str, dict[int, Capability]] = {
    "OpAtomicFAddEXT": {
        16: Capability.AtomicFloat16AddEXT,
        32: Capability.AtomicFloat32AddEXT,
        64: Capability.AtomicFloat64AddEXT,
    },
    "OpAtomicFMinEXT": {
        16: Capability.AtomicFloat16MinMaxEXT,
        32: Capability.AtomicFloat32MinMaxEXT,
        64: Capability.AtomicFloat64MinMaxEXT,
    },
}
_ATOMIC_FLOAT["OpAtomicFMaxEXT"] = _ATOMIC_FLOAT["OpAtomicFMinEXT"]


class LoopGuard(Protocol):
    """Finds out whether the driver left a loop whose condition still held."""

    def watch(self, function: FunctionBuilder, condition: Value) -> tuple[Value, Value]:
        """In the test of a loop: the condition to branch on instead, and a value to hand to `report`."""

    def report(self, function: FunctionBuilder, watched: Value) -> None:
        """After the loop."""


class FunctionBuilder:
    """One function under construction; `ModuleBuilder.function` makes it."""

    def __init__(self, module: ModuleBuilder, name: str, type_: FunctionType, control: int) -> None:
        self.module = module
        self.name = name
        self.type = type_
        self.id = module.new_id()
        self.callees: set[int] = set()
        self.used_globals: set[int] = set()
        self.current_block: int | None = None
        self.open_constructs: list[object] = []
        self.loop_guard: LoopGuard | None = None
        self._head = instruction(
            "OpFunction", module.type_id(type_.result), self.id, control, module.type_id(type_)
        )
        self.parameters: list[Value] = []
        for parameter in type_.parameters:
            value = Value(module.new_id(), parameter)
            self._head += instruction("OpFunctionParameter", module.type_id(parameter), value.id)
            self.parameters.append(value)
        self._variables: list[int] = []
        self._body: list[list[int]] = []
        self.label(module.new_id())
        self._entry_label = self._body.pop()

    # Appending

    def op(self, name: str, type_: Type, *operands: Value | int) -> Value:
        """Append an instruction with a result of `type_`.

        Operands are values, or plain numbers for ids and literals.  Raises SpirvError when the instruction
        has no result, is given the wrong number of operands, or the block has ended.
        """
        result = Value(self.module.new_id(), type_)
        self._append(name, [self.module.type_id(type_), result.id], operands)
        return result

    def exact(self, name: str, type_: Type, *operands: Value | int) -> Value:
        """`op` for floating-point arithmetic whose result must be rounded on its own (no fusing, no
        reordering).
        """
        result = self.op(name, type_, *operands)
        self.module.decorate(result.id, Decoration.NoContraction)
        return result

    def effect(self, name: str, *operands: Value | int) -> None:
        """Append an instruction without a result; the errors are those of `op`."""
        self._append(name, [], operands)

    def _append(self, name: str, results: list[int], operands: tuple[Value | int, ...]) -> None:
        row = BY_NAME.get(name)
        if row is None:
            raise SpirvError(f"{name} is not in the instruction table")
        if row.has_type != bool(results):
            raise SpirvError(f"{name} {'has a' if row.has_type else 'has no'} result")
        if self.current_block is None:
            raise SpirvError(f"{name} follows the end of a block in {self.name!r}")
        required = sum(1 for kind in row.operands if kind[-1] not in "?*")
        if len(operands) < required:
            raise SpirvError(f"{name} takes at least {required} operands, not {len(operands)}")
        if len(operands) > required and required == len(row.operands):
            raise SpirvError(f"{name} takes {required} operands, not {len(operands)}")
        words = results
        for operand in operands:
            if isinstance(operand, Value):
                words.append(operand.id)
                if operand.id in self.module.global_ids:
                    self.used_globals.add(operand.id)
            else:
                words.append(operand)
        if row.capability is not None:
            self.module.capability(row.capability)
        self._body.append(instruction(name, *words))

    # Blocks

    def label(self, label: int) -> None:
        """Start the block `label`; the block before must have ended."""
        if self.current_block is not None:
            raise SpirvError(f"a block of {self.name!r} has no terminator")
        self._body.append(instruction("OpLabel", label))
        self.current_block = label

    def terminate(self, name: str, *operands: Value | int) -> None:
        """End the block with a terminator."""
        self.effect(name, *operands)
        self.current_block = None

    def ret(self, value: Value | None = None) -> None:
        """Return from the function."""
        if value is None:
            self.terminate("OpReturn")
        else:
            self.terminate("OpReturnValue", value)

    def phi(self, type_: Type, *incoming: tuple[Value, int]) -> Value:
        """A value chosen by the predecessor the block was entered from: pairs of value and predecessor
        label.
        """
        return self.op("OpPhi", type_, *[word for value, block in incoming for word in (value.id, block)])

    def open_phi(self, type_: Type, value: Value, block: int) -> tuple[Value, list[int]]:
        """A phi that `close_phi` completes: for loop headers, whose back edge is not written yet."""
        result = self.phi(type_, (value, block))
        return result, self._body[-1]

    @staticmethod
    def close_phi(words: list[int], value: Value, block: int) -> None:
        """Add the back edge to the words `open_phi` handed out."""
        words += [value.id, block]
        words[0] += 2 << 16

    def words(self) -> list[int]:
        """All words of the finished function.

        Raises SpirvError when a construct is open or the last block has no terminator.
        """
        if self.open_constructs or self.current_block is not None:
            what = "an open construct" if self.open_constructs else "an unterminated block"
            raise SpirvError(f"function {self.name!r} ends with {what}")
        body = [word for line in self._body for word in line]
        return [*self._head, *self._entry_label, *self._variables, *body, *instruction("OpFunctionEnd")]

    # Memory

    def local_variable(self, pointee: Type) -> Value:
        """A variable of one invocation; SPIR-V wants it at the start of the function, so it goes there."""
        result = Value(self.module.new_id(), PointerType(StorageClass.Function, pointee))
        type_id = self.module.type_id(result.type)
        self._variables += instruction("OpVariable", type_id, result.id, StorageClass.Function)
        return result

    def address_to_pointer(self, address: Value, pointee: Type) -> Value:
        """A pointer to a `pointee` at a 64-bit device address."""
        return self.op("OpConvertUToPtr", PointerType(StorageClass.PhysicalStorageBuffer, pointee), address)

    def access_chain(self, base: Value, pointee: Type, *indices: Value) -> Value:
        """A pointer to a part of what `base` points to; every index is in bounds."""
        storage = _pointer(base).storage
        return self.op("OpInBoundsAccessChain", PointerType(storage, pointee), base, *indices)

    def load(self, pointer: Value, alignment: int | None = None, volatile: bool = False) -> Value:
        """Load what `pointer` points to.

        `alignment` in bytes is that of the address, a power of two; the scalar alignment of the type by
        default.
        """
        type_ = _pointer(pointer)
        return self.op("OpLoad", type_.pointee, pointer, *_access(type_, alignment, volatile))

    def store(
        self, pointer: Value, value: Value, alignment: int | None = None, volatile: bool = False
    ) -> None:
        """Store `value` through `pointer`; `alignment` as for `load`."""
        self.effect("OpStore", pointer, value, *_access(_pointer(pointer), alignment, volatile))

    # Ordering between invocations

    def control_barrier(
        self,
        storage: MemorySemantics = MemorySemantics.WorkgroupMemory,
        execution: Scope = Scope.Workgroup,
        memory: Scope = Scope.Workgroup,
    ) -> None:
        """Wait for the invocations of `execution` and make the accesses to `storage` before it visible after
        it.

        With no storage the barrier orders execution alone.
        """
        self.effect(
            "OpControlBarrier", self.scope(execution), self.scope(memory), self._barrier_semantics(storage)
        )

    def _barrier_semantics(self, storage: MemorySemantics) -> Value:
        if not storage:
            return self.semantics(MemorySemantics.Relaxed)
        return self.semantics(
            storage
            | MemorySemantics.AcquireRelease
            | MemorySemantics.MakeAvailable
            | MemorySemantics.MakeVisible
        )

    def scope(self, scope: Scope) -> Value:
        """A scope as the constant instructions want; the device scope declares its capability."""
        if scope is Scope.Device:
            self.module.capability(Capability.VulkanMemoryModelDeviceScope)
        return self.module.constant(U32, scope)

    def semantics(self, semantics: MemorySemantics) -> Value:
        """Memory semantics as the constant instructions want."""
        return self.module.constant(U32, semantics)

    def atomic(
        self, name: str, pointer: Value, scope: Scope, semantics: MemorySemantics, *operands: Value
    ) -> Value:
        """An atomic that returns the value before it (all but OpAtomicStore), with one semantics.

        For OpAtomicCompareExchange `operands` are the new value and the comparator; when the comparison
        fails, the acquire part of `semantics` holds.
        """
        type_ = self._require_atomic(name, pointer)
        order = [self.semantics(semantics)]
        if name == "OpAtomicCompareExchange":
            order.append(self.semantics(_unequal_semantics(semantics)))
        return self.op(name, type_, pointer, self.scope(scope), *order, *operands)

    def atomic_store(self, pointer: Value, scope: Scope, semantics: MemorySemantics, value: Value) -> None:
        """Store `value` atomically."""
        self._require_atomic("OpAtomicStore", pointer)
        self.effect("OpAtomicStore", pointer, self.scope(scope), self.semantics(semantics), value)

    def _require_atomic(self, name: str, pointer: Value) -> Type:
        type_ = _pointer(pointer).pointee
        width = getattr(type_, "width", 0)
        if isinstance(type_, FloatType) and name in _ATOMIC_FLOAT:
            self.module.capability(_ATOMIC_FLOAT[name][width])
        elif width == 64:
            self.module.capability(Capability.Int64Atomics)
        return type_

    # Calls and composites

    def glsl(self, name: GLSLstd450, type_: Type, *operands: Value) -> Value:
        """An instruction of the extended set "GLSL.std.450"."""
        return self.op("OpExtInst", type_, self.module.glsl(), name, *operands)

    def call(self, callee: FunctionBuilder, *arguments: Value) -> Value:
        """Call another function of the module."""
        self.callees.add(callee.id)
        return self.op("OpFunctionCall", callee.type.result, callee.id, *arguments)

    def group(
        self, name: str, operation: GroupOperation, value: Value, cluster: Value | None = None
    ) -> Value:
        """A subgroup reduction or scan such as OpGroupNonUniformIAdd; `cluster` is the constant cluster
        size.
        """
        clustered = operation is GroupOperation.ClusteredReduce
        self.module.capability(
            Capability.GroupNonUniformClustered if clustered else Capability.GroupNonUniformArithmetic
        )
        extra = () if cluster is None else (cluster,)
        return self.op(name, value.type, self.scope(Scope.Subgroup), operation, value, *extra)

    def extract(self, composite: Value, index: int) -> Value:
        """One component of a vector."""
        if not isinstance(composite.type, VectorType):
            raise SpirvError("only a vector has components to extract")
        return self.op("OpCompositeExtract", composite.type.element, composite, index)


def _pointer(value: Value) -> PointerType:
    if not isinstance(value.type, PointerType):
        raise SpirvError(f"%{value.id} is no pointer")
    return value.type


def _access(type_: PointerType, alignment: int | None, volatile: bool) -> list[int]:
    """The memory-access words of a load or store through a pointer of `type_`."""
    flags = MemoryAccess.Volatile if volatile else MemoryAccess(0)
    arguments = []
    if type_.storage is StorageClass.PhysicalStorageBuffer:
        # The specification demands Aligned for this storage class alone; elsewhere the layout says it.
        flags |= MemoryAccess.Aligned
        arguments.append(alignment or scalar_alignment(type_.pointee))
    if type_.storage in _SHARED_STORAGE:
        flags |= MemoryAccess.NonPrivatePointer
    return [flags, *arguments] if flags else []


def _unequal_semantics(semantics: MemorySemantics) -> MemorySemantics:
    """What remains of `semantics` when nothing is stored: SPIR-V forbids release there."""
    kept = semantics & ~(
        MemorySemantics.Release | MemorySemantics.AcquireRelease | MemorySemantics.MakeAvailable
    )
    return kept | MemorySemantics.Acquire if semantics & MemorySemantics.AcquireRelease else kept
