"""SPIR-V types as records, and the layout arithmetic that goes with them.

Two equal records are one type in a module: the builder declares each once.  Integers are declared with
signedness 0 ("unsigned") unless a record says otherwise; instructions, not types, decide how bits are read,
as in "SPIR-V Specification" 2.2.1 and 3.49.6.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from loom_target_spirv.enumerants import Capability, StorageClass
from loom_target_spirv.errors import SpirvError


@attrs.frozen(cache_hash=True)
class VoidType:
    """The result type of a function that returns nothing."""


@attrs.frozen(cache_hash=True)
class BoolType:
    """A truth value; it has no bit pattern and cannot lie in a buffer."""


@attrs.frozen(cache_hash=True)
class IntType:
    """An integer of `width` bits: 8, 16, 32 or 64."""

    width: int
    signed: bool = False


@attrs.frozen(cache_hash=True)
class FloatType:
    """An IEEE 754 binary format of `width` bits: 16, 32 or 64."""

    width: int


@attrs.frozen(cache_hash=True)
class VectorType:
    """2, 3 or 4 scalars."""

    element: BoolType | IntType | FloatType
    count: int


@attrs.frozen(cache_hash=True)
class ArrayType:
    """`count` elements; `stride` in bytes is given only where the storage class wants an explicit layout."""

    element: Type
    count: int
    stride: int | None = None


@attrs.frozen(cache_hash=True)
class RuntimeArrayType:
    """Elements of a number known only at run time, `stride` bytes apart."""

    element: Type
    stride: int


@attrs.frozen(cache_hash=True)
class StructType:
    """Members in order; `offsets` in bytes for explicit layout; `block` marks an interface block."""

    members: tuple[Type, ...]
    offsets: tuple[int, ...] | None = None
    block: bool = False


@attrs.frozen(cache_hash=True)
class PointerType:
    """A pointer to a `pointee` in `storage`."""

    storage: StorageClass
    pointee: Type


@attrs.frozen(cache_hash=True)
class FunctionType:
    """The signature of a function."""

    result: Type
    parameters: tuple[Type, ...] = ()


Type: TypeAlias = (
    VoidType
    | BoolType
    | IntType
    | FloatType
    | VectorType
    | ArrayType
    | RuntimeArrayType
    | StructType
    | PointerType
    | FunctionType
)

VOID = VoidType()
BOOL = BoolType()
U8 = IntType(8)
U16 = IntType(16)
U32 = IntType(32)
U64 = IntType(64)
F16 = FloatType(16)
F32 = FloatType(32)
F64 = FloatType(64)

_INT_CAPABILITY = {8: Capability.Int8, 16: Capability.Int16, 32: None, 64: Capability.Int64}
_FLOAT_CAPABILITY = {16: Capability.Float16, 32: None, 64: Capability.Float64}

NARROW_STORAGE: dict[StorageClass, dict[int, Capability]] = {
    StorageClass.StorageBuffer: {
        8: Capability.StorageBuffer8BitAccess,
        16: Capability.StorageBuffer16BitAccess,
    },
    StorageClass.PhysicalStorageBuffer: {
        8: Capability.StorageBuffer8BitAccess,
        16: Capability.StorageBuffer16BitAccess,
    },
    StorageClass.PushConstant: {8: Capability.StoragePushConstant8, 16: Capability.StoragePushConstant16},
}
"""What a pointer into a storage class declares when narrow scalars lie behind it, by width in bits."""


def scalar_capability(type_: IntType | FloatType) -> Capability | None:
    """The capability the declaration of a scalar type needs, if any.

    Raises SpirvError for a width SPIR-V does not have.
    """
    table = _INT_CAPABILITY if isinstance(type_, IntType) else _FLOAT_CAPABILITY
    if type_.width not in table:
        kind = "integer" if isinstance(type_, IntType) else "floating-point"
        raise SpirvError(f"SPIR-V has no {kind} type of {type_.width} bits")
    return table[type_.width]


def scalar_widths(type_: Type) -> set[int]:
    """The widths in bits of every number inside `type_`, not looking through pointers."""
    match type_:
        case IntType(width=width) | FloatType(width=width):
            return {width}
        case VectorType(element=element) | ArrayType(element=element) | RuntimeArrayType(element=element):
            return scalar_widths(element)
        case StructType(members=members):
            return set().union(*map(scalar_widths, members))
        case _:
            return set()


def byte_size(type_: Type) -> int:
    """The size in bytes of a value in memory with scalar (tightly packed) layout.

    Raises SpirvError for a type without a size: bool, void, functions, runtime arrays.
    """
    match type_:
        case IntType(width=width) | FloatType(width=width):
            return width // 8
        case VectorType(element=element, count=count):
            return byte_size(element) * count
        case ArrayType(element=element, count=count, stride=stride):
            return (stride or byte_size(element)) * count
        case PointerType(storage=StorageClass.PhysicalStorageBuffer):
            return 8
        case StructType(members=members, offsets=offsets) if members and offsets:
            return offsets[-1] + byte_size(members[-1])
        case _:
            raise SpirvError(f"{type_} has no size in memory")


def scalar_alignment(type_: Type) -> int:
    """The alignment in bytes a value needs in memory: that of its widest scalar."""
    match type_:
        case PointerType(storage=StorageClass.PhysicalStorageBuffer):
            return 8
        case _:
            widths = scalar_widths(type_)
            if not widths:
                raise SpirvError(f"{type_} has no alignment in memory")
            return max(widths) // 8
