"""The contract ``spirv.logical.core``: typed instructions of SPIR-V as descriptors.

Every row of the table is an instruction family; its members differ in the value types they name.  A key is
``spirv.op_<snake>.<suffix>`` and a mnemonic the opcode's spelling with the same suffix; the suffix of plain
32-bit integers is empty.  A descriptor's `encoding` is the opcode of "SPIR-V Specification" 3.49.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import attrs

from loom.low.descriptors import (
    NO_EFFECTS,
    Descriptor,
    DescriptorSet,
    Effects,
    ImmediateDescriptor,
    OperandDescriptor,
    RegisterClass,
)
from loom_target_spirv.grammar import BY_NAME
from loom_target_spirv.profiles import CONTRACT

IDS: Final = 1 << 22
"""Result ids of a module ("SPIR-V Specification" 2.17, Universal Limits): as many as registers of a class."""

ID: Final = "spirv.id"
OFFSET: Final = "spirv.offset64"
BUFFER: Final = "spirv.ptr.storage_buffer"
FUNCTION: Final = "spirv.ptr.function"

SIGNED: Final = ("i8", "i16", "", "i64")
UNSIGNED: Final = ("u8", "u16", "u32", "u64")
FLOATS: Final = ("f16", "f32", "f64")
ELEMENTS: Final = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64")


@attrs.frozen
class _Family:
    """Instructions of one shape: spelling, operand names with their class, and suffixes."""

    spelling: str
    opcode: str
    operands: tuple[tuple[str, str], ...]
    suffixes: tuple[str, ...]
    result: str | None = ID
    commutative: bool = False
    effects: Effects = NO_EFFECTS
    immediates: tuple[ImmediateDescriptor, ...] = ()


def _pair(class_: str = ID) -> tuple[tuple[str, str], ...]:
    return (("lhs", class_), ("rhs", class_))


_INPUT: Final = (("input", ID),)
_COMMUTATIVE: Final = frozenset({"OpIAdd", "OpIMul", "OpFAdd", "OpFMul", "OpIEqual", "OpINotEqual"})

_BINARY: Final[dict[tuple[str, ...], tuple[str, ...]]] = {
    SIGNED: (
        "OpIAdd", "OpISub", "OpIMul", "OpSDiv", "OpSRem", "OpIEqual", "OpINotEqual", "OpSLessThan",
        "OpSLessThanEqual", "OpSGreaterThan", "OpSGreaterThanEqual",
    ),
    UNSIGNED: (
        "OpUDiv", "OpUMod", "OpULessThan", "OpULessThanEqual", "OpUGreaterThan", "OpUGreaterThanEqual",
    ),
    FLOATS: ("OpFAdd", "OpFSub", "OpFMul", "OpFDiv", "OpFRem"),
    ("",): ("OpShiftLeftLogical",),
}  # fmt: skip

_OFFSET_COMPARISONS: Final = (
    "OpIEqual", "OpINotEqual", "OpULessThan", "OpULessThanEqual", "OpUGreaterThan", "OpUGreaterThanEqual",
)  # fmt: skip

_BUILTINS: Final = ("workgroup_id", "local_invocation_id", "global_invocation_id")


def _conversions(sources: tuple[str, ...], targets: tuple[str, ...], widening: bool = False) -> tuple[str, ...]:
    """Suffixes ``source.target`` of every pair of different types; `widening` keeps the growing ones."""
    return tuple(
        f"{a}.{b}" for a in sources for b in targets if a != b and (not widening or int(a[1:]) < int(b[1:]))
    )


_I: Final = ("i8", "i16", "i32", "i64")
_BITCASTS: Final = (
    "i16.f16", "f16.i16", "i32.f32", "f32.i32", "i64.f64", "f64.i64", "i8.u8", "u8.i8", "i16.u16", "u16.i16",
    "i32.u32", "u32.i32", "i64.u64", "u64.i64",
)  # fmt: skip

_CONVERSIONS: Final[dict[str, tuple[str, ...]]] = {
    "OpSConvert": _conversions(_I, _I),
    "OpUConvert": _conversions(UNSIGNED, UNSIGNED, widening=True),
    "OpFConvert": _conversions(FLOATS, FLOATS),
    "OpConvertSToF": _conversions(_I, FLOATS),
    "OpConvertUToF": _conversions(UNSIGNED, FLOATS),
    "OpConvertFToS": _conversions(FLOATS, _I),
    "OpConvertFToU": _conversions(FLOATS, UNSIGNED),
    "OpBitcast": _BITCASTS,
}


def _workgroup(kind: str) -> str:
    return f"spirv.ptr.workgroup.{kind}"


def _families() -> Iterator[_Family]:
    value = (ImmediateDescriptor("value", "int"),)
    yield _Family("OpConstant", "OpConstant", (), ("i32",), immediates=value)
    yield _Family("OpConstant", "OpConstant", (), ("offset64",), OFFSET, immediates=value)
    for suffixes, names in _BINARY.items():
        for name in names:
            yield _Family(name, name, _pair(), suffixes, commutative=name in _COMMUTATIVE)
    for name in ("OpIAdd", "OpISub"):
        yield _Family(name, name, _pair(OFFSET), ("offset64",), OFFSET, commutative=name in _COMMUTATIVE)
    for name in _OFFSET_COMPARISONS:
        yield _Family(name, name, _pair(OFFSET), ("offset64",), commutative=name in _COMMUTATIVE)
    for name, suffixes in _CONVERSIONS.items():
        yield _Family(name, name, _INPUT, suffixes)
    yield _Family("OpUConvert", "OpUConvert", _INPUT, ("i32.offset64",), OFFSET)
    # A product and a sum in one packet, which becomes two instructions.
    yield _Family("OpIMulAdd", "OpIMul", (("a", ID), ("b", ID), ("c", ID)), ("",))
    choice = (("condition", ID), ("true_value", ID), ("false_value", ID))
    yield _Family("OpSelect", "OpSelect", choice, (*SIGNED, *FLOATS))
    choice = (("condition", ID), ("true_value", OFFSET), ("false_value", OFFSET))
    yield _Family("OpSelect", "OpSelect", choice, ("offset64",), OFFSET)
    for builtin in _BUILTINS:
        yield _Family("OpLoadBuiltin", "OpLoad", (), tuple(f"{builtin}.{axis}" for axis in "xyz"))
    yield from _memory()
    barrier = Effects(barrier=True, side_effects=True)
    scopes = ("subgroup.workgroup.acq_rel", "workgroup.workgroup.acq_rel")
    yield _Family("OpControlBarrier", "OpControlBarrier", (), scopes, None, effects=barrier)
    yield _Family("OpVariable", "OpVariable", (), ("function.ptr",), FUNCTION)


def _memory() -> Iterator[_Family]:
    for kind in ELEMENTS:
        suffix = (f"storage_buffer.{kind}.byte_offset",)
        base = (("base", BUFFER), ("byte_offset", OFFSET))
        yield _Family("OpPtrAccessChain", "OpPtrAccessChain", base, suffix, BUFFER)
        yield from _accesses(f"storage_buffer.{kind}", BUFFER, "global")
        suffix = (f"workgroup.{kind}.element_index",)
        base = (("base", _workgroup(f"array.{kind}")), ("element_index", ID))
        yield _Family("OpAccessChain", "OpAccessChain", base, suffix, _workgroup(kind))
        yield from _accesses(f"workgroup.{kind}", _workgroup(kind), "workgroup")


def _accesses(suffix: str, pointer: str, space: str) -> Iterator[_Family]:
    yield _Family("OpLoad", "OpLoad", (("ptr", pointer),), (suffix,), effects=Effects(reads=[space]))
    operands = (("ptr", pointer), ("value", ID))
    yield _Family("OpStore", "OpStore", operands, (suffix,), None, effects=Effects(writes=[space]))


def _snake(spelling: str) -> str:
    """``OpIMulAdd`` as ``op_i_mul_add``: a letter that names a type stands alone."""
    words = re.findall(r"[A-Z][a-z]+|[A-Z](?=[A-Z]|$)", spelling)
    return "_".join(word.lower() for word in words)


def _descriptors() -> Iterator[Descriptor]:
    for family in _families():
        pointer = "ptr" if family.result is not None and "ptr" in family.result else "dst"
        results = (OperandDescriptor(pointer, [family.result]),) if family.result is not None else ()
        operands = [OperandDescriptor(name, [class_]) for name, class_ in family.operands]
        for suffix in family.suffixes:
            tail = f".{suffix}" if suffix else ""
            yield Descriptor(
                key=f"spirv.{_snake(family.spelling)}{tail}",
                mnemonic=f"{family.spelling}{tail}",
                results=results,
                operands=operands,
                immediates=family.immediates,
                effects=family.effects,
                commutative=("lhs", "rhs") if family.commutative else None,
                rematerializable=not operands and family.effects == NO_EFFECTS,
                encoding=BY_NAME[family.opcode].opcode,
            )


def build() -> DescriptorSet:
    """The descriptor set, with a register class for each kind of id."""
    names = [ID, OFFSET, BUFFER, FUNCTION]
    for kind in ELEMENTS:
        names += [_workgroup(kind), _workgroup(f"array.{kind}")]
    registers = {name: RegisterClass(name, 32, IDS, spillable=False, named={}) for name in names}
    return DescriptorSet(CONTRACT, registers, _descriptors())
