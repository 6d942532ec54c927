"""Registers and instructions of the contract ``abacus.core``, as data.

The parser, the printer, the scheduler, the register allocator and the emitter all read these rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from loom.low.descriptors import Descriptor, DescriptorSet, ImmediateDescriptor, OperandDescriptor, RegisterClass
from loom_target_abacus.profile import CONTRACT

WORD: Final = "abacus.word"
FLAG: Final = "abacus.flag"
PREFIXES: Final[Mapping[str, str]] = MappingProxyType({WORD: "a", FLAG: "f"})
"""Register class -> the letter of its registers in assembly."""

WORDS: Final = 8
FLAGS: Final = 4
REGISTER_LIMIT: Final = 6
"""Registers that scheduling tries to stay within; two are left for what it cannot foresee."""

LATENCIES: Final[Mapping[str, int]] = MappingProxyType({"alu": 1, "multiplier": 3})
"""Schedule class -> cycles until the result can be used."""

REGISTERS: Final[Mapping[str, RegisterClass]] = MappingProxyType(
    {
        WORD: RegisterClass(WORD, 32, WORDS),
        FLAG: RegisterClass(FLAG, 1, FLAGS, spillable=False, named={}),
    }
)

# Mnemonic -> (result class, schedule class, whether the operands may change places); all take two words.
_BINARY: Final[Mapping[str, tuple[str, str, bool]]] = MappingProxyType(
    {
        "add": (WORD, "alu", True),
        "sub": (WORD, "alu", False),
        "mul": (WORD, "multiplier", True),
        "min": (WORD, "alu", True),
        "max": (WORD, "alu", True),
        "eq": (FLAG, "alu", True),
        "ne": (FLAG, "alu", True),
        "lt": (FLAG, "alu", False),
        "le": (FLAG, "alu", False),
    }
)


def _descriptors() -> Iterator[Descriptor]:
    words = [OperandDescriptor("lhs", [WORD]), OperandDescriptor("rhs", [WORD])]
    for mnemonic, (result, schedule_class, symmetric) in _BINARY.items():
        yield Descriptor(
            f"abacus.{mnemonic}",
            mnemonic,
            [OperandDescriptor("dst", [result])],
            words,
            schedule_class=schedule_class,
            commutative=("lhs", "rhs") if symmetric else None,
        )
    yield Descriptor(
        "abacus.li",
        "li",
        [OperandDescriptor("dst", [WORD])],
        immediates=[ImmediateDescriptor("value", positional=True, minimum=-(1 << 31), maximum=(1 << 31) - 1)],
        schedule_class="alu",
        rematerializable=True,
    )
    yield Descriptor(
        "abacus.sel",
        "sel",
        [OperandDescriptor("dst", [WORD])],
        [OperandDescriptor("condition", [FLAG]), *words],
        schedule_class="alu",
    )


def build() -> DescriptorSet:
    """The descriptor set."""
    return DescriptorSet(CONTRACT, REGISTERS, _descriptors())
