"""The ``cmd.core`` contract: registers and instructions of command programs (language reference, part 3, 2.4).

A command program is a straight line of submissions, so its registers are symbolic: nothing allocates them.
"""

from __future__ import annotations

import functools
from typing import Final

from loom.low.descriptors import (
    Descriptor,
    DescriptorSet,
    Effects,
    ImmediateDescriptor,
    OperandDescriptor,
    RegisterClass,
)

CONTRACT: Final = "cmd.core"

U32: Final = "cmd.u32"
U64: Final = "cmd.u64"
BUFFER: Final = "cmd.buffer"
BUFFER_REF: Final = "cmd.buffer_ref"
BINDING: Final = "cmd.binding"
EXECUTABLE: Final = "cmd.executable"
ENTRY: Final = "cmd.entry"

# Scalar class -> width in bits.
SCALAR_BITS: Final = {U32: 32, U64: 64, "cmd.b8": 8, "cmd.b16": 16, "cmd.b32": 32, "cmd.b64": 64}
REFERENCES: Final = (BUFFER, BUFFER_REF, BINDING, EXECUTABLE, ENTRY)

_COMMAND: Final = Effects(side_effects=True)
_BARRIER: Final = Effects(side_effects=True, barrier=True)


def constant_mnemonic(scalar: str) -> str:
    """``cmd.u32`` -> ``cmd.constant.u32``."""
    return "cmd.constant." + scalar.removeprefix("cmd.")


def scalar_reading(scalar: str, bits: int) -> int:
    """How a constant of a scalar class is written: counts without a sign, everything else in two's complement."""
    width = SCALAR_BITS[scalar]
    return bits - (1 << width) if scalar != U32 and bits >> (width - 1) else bits


def _constant(scalar: str) -> Descriptor:
    width = SCALAR_BITS[scalar]
    value = ImmediateDescriptor(
        "value", positional=True, minimum=0 if scalar == U32 else -(1 << (width - 1)), maximum=(1 << width) - 1
    )
    name = constant_mnemonic(scalar)
    return Descriptor(name, name, results=(OperandDescriptor("dst", (scalar,)),), immediates=(value,))


def _reference(kind: str, root: str) -> Descriptor:
    name = f"cmd.buffer.ref.{kind}"
    return Descriptor(
        name,
        name,
        results=(OperandDescriptor("dst", (BUFFER_REF,)),),
        operands=(
            OperandDescriptor("root", (root,)),
            OperandDescriptor("offset", (U64,)),
            OperandDescriptor("length", (U64,)),
        ),
    )


def _command(name: str, *operands: OperandDescriptor, grouped: tuple[int, int] | None = None) -> list[Descriptor]:
    """A command and its form that waits for everything before it."""
    return [
        Descriptor(
            spelling,
            spelling,
            operands=operands,
            effects=effects,
            variadic_operands=grouped is not None,
            grouped=grouped,
        )
        for spelling, effects in ((name, _COMMAND), (name + ".barrier", _BARRIER))
    ]


@functools.cache
def build_descriptor_set() -> DescriptorSet:
    """The descriptor set of command programs; every call gives the same one."""
    names = (*SCALAR_BITS, *REFERENCES)
    registers = {
        name: RegisterClass(name, SCALAR_BITS.get(name, 64), 1 << 20, spillable=False, named={}) for name in names
    }
    entry = (OperandDescriptor("executable", (EXECUTABLE,)), OperandDescriptor("entry", (ENTRY,)))
    counts = tuple(OperandDescriptor(axis, (U32,)) for axis in "xyz")
    count_ref = OperandDescriptor("count", (BUFFER_REF,))
    target = OperandDescriptor("target", (BUFFER_REF,))
    patterns = ("cmd.b8", "cmd.b16", "cmd.b32")
    descriptors = [
        *(_constant(scalar) for scalar in SCALAR_BITS),
        _reference("direct", BUFFER),
        _reference("binding", BINDING),
        *_command(
            "cmd.fill", target, OperandDescriptor("pattern", patterns), OperandDescriptor("pattern_length", (U32,))
        ),
        *_command("cmd.copy", OperandDescriptor("source", (BUFFER_REF,)), target),
        *_command("cmd.dispatch.direct", *entry, *counts, grouped=(2, 3)),
        *_command("cmd.dispatch.indirect.static", *entry, count_ref, grouped=(2, 1)),
        *_command("cmd.dispatch.indirect.dynamic", *entry, count_ref, grouped=(2, 1)),
        Descriptor("cmd.barrier.execution", "cmd.barrier.execution", effects=_BARRIER),
    ]
    return DescriptorSet(CONTRACT, registers, descriptors)
