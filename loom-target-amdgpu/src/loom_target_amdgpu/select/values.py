"""What selection knows about a source value: registers, constants, conditions, memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from loom.facts.integers import IntegerFacts, exactly
from loom.ir.core import Value
from loom.ir.records import record
from loom.ir.types import RegType, ShapedType

SGPR: Final = "amdgpu.sgpr"
VGPR: Final = "amdgpu.vgpr"


@cache
def registers(register_class: str, count: int) -> RegType:
    """The type of a register tuple. Processors have few, so that each is made once."""
    return RegType(register_class, count)


S1: Final = registers(SGPR, 1)
S2: Final = registers(SGPR, 2)
V1: Final = registers(VGPR, 1)

Word = Value | int
"""A 32-bit register, or a constant as an unsigned 32-bit pattern."""

MASK32: Final = 0xFFFFFFFF


def reg_class(value: Value) -> str:
    """Register class of a Low value."""
    type_ = value.type
    assert isinstance(type_, RegType)
    return type_.reg_class


def is_scalar(word: Word) -> bool:
    """Whether the scalar ALU can read it."""
    return isinstance(word, int) or word.type.reg_class == SGPR  # type: ignore[attr-defined]  # words have registers


@record(eq=False)
class Number:
    """A number in one or two 32-bit words, low word first.

    ``signed`` matters for one-word addresses only: how the word extends to 64 bits. Payload integers narrower than
    32 bits leave the upper bits of their word undefined.
    """

    words: tuple[Word, ...]
    signed: bool = False

    @property
    def lo(self) -> Word:
        return self.words[0]

    @property
    def scalar(self) -> bool:
        """Whether all words are uniform registers or constants."""
        return all(is_scalar(word) for word in self.words)

    @property
    def constant(self) -> int | None:
        """The bit pattern, if every word is known."""
        total = 0
        for position, word in enumerate(self.words):
            if not isinstance(word, int):
                return None
            total |= word << 32 * position
        return total


@record(eq=False)
class ScalarTest:
    """A uniform condition, tested by the scalar ALU where it is used: a comparison and its operands."""

    mnemonic: str
    lhs: Word
    rhs: Word


@record(eq=False)
class Mask:
    """A condition per lane: a 64-bit lane mask. Bits of lanes that are not active are undefined."""

    value: Value


Condition = bool | ScalarTest | Mask


@record
class Linear:
    """A byte or element position: a constant plus factors times leaves (see ``linear``)."""

    constant: int
    terms: tuple[tuple[object, int], ...] = ()


@record(eq=False)
class Root:
    """A piece of memory.

    Attributes:
        space: ``global``, ``workgroup`` or ``private``.
        base: address (an SGPR pair) of a global root, None otherwise.
        offset: byte offset of a workgroup or private root in its storage.
        key: identity for alias analysis.
        disjoint: keys of roots it is promised not to overlap.
        invariant: nobody writes it while the kernel runs.
        alignment: known alignment of its first byte.
        start: where views of it begin, for a workgroup root whose place is known last of all.
    """

    space: str
    base: Value | None
    offset: int
    key: str
    invariant: bool = False
    alignment: int = 4
    start: Linear = Linear(0)


@record(eq=False)
class View:
    """A typed window into a root; ``offset`` is its first element's byte position."""

    root: Root
    offset: Linear
    type: ShapedType


@record(eq=False)
class Vector:
    """A vector value: one number or condition per element, row-major.

    ``halves`` are the words of 16-bit elements where two of them still share each: what works on pairs reads these,
    and then nothing is left of the elements' own code.
    """

    elements: tuple[Number | Condition, ...]
    halves: tuple[Word, ...] | None = None


@record(eq=False)
class Packed:
    """A vector in consecutive vector registers, as matrix instructions want it.

    Attributes:
        registers: the tuple; its elements lie end to end, the first in the low bits.
        bits: bits of an element, 8 to 64.
        count: number of elements.
    """

    registers: Value
    bits: int
    count: int


@record(eq=False)
class Stride:
    """A layout stride in elements that is known at run time only, and what facts say of it."""

    number: Number
    facts: IntegerFacts


@record(eq=False)
class Layout:
    """A layout value: one stride per axis, or none at all for the dense layout."""

    strides: tuple[int | Stride, ...] | None


@record
class Done:
    """A transfer, group of transfers or barrier phase: what it stands for has been selected where it began."""


Selected = Number | bool | ScalarTest | Mask | Root | View | Vector | Packed | Layout | Done


def constant(value: int, words: int = 1, signed: bool = False) -> Number:
    """A known number."""
    return Number(tuple((value >> 32 * i) & MASK32 for i in range(words)), signed)


def pair(values: Sequence[Word], signed: bool = False) -> Number:
    """A number of the given words."""
    return Number(tuple(values), signed)


def as_stride(stride: int | Stride) -> Stride:
    """A stride with registers or constant words."""
    if isinstance(stride, Stride):
        return stride
    words = (stride,) if 0 <= stride <= MASK32 else (stride & MASK32, stride >> 32 & MASK32)
    return Stride(Number(words, len(words) == 2), exactly(stride))
