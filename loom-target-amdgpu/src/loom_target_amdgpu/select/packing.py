"""Vectors in register tuples: elements narrower than a word share one, as memory and matrix instructions have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loom_target_amdgpu.select.values import Condition, Number, Packed, Vector, Word

if TYPE_CHECKING:
    from loom_target_amdgpu.select.selector import Selector


def pack_words(s: Selector, values: Sequence[Word], bits: int, clean: bool = False) -> tuple[Word, ...]:
    """Words of elements that have 8 or 16 bits each; the last word may be partly filled.

    ``clean`` says that the upper bits of the elements are zero; otherwise they are undefined.
    """
    per_word = 32 // bits
    mask = (1 << bits) - 1
    found = []
    for first in range(0, len(values), per_word):
        group = values[first : first + per_word]
        total: Word = 0
        for k, word in enumerate(group):
            # What a shift moves out of the word needs no mask.
            dirty = not clean and bits * (k + 1) < 32
            low = s.arith.binary("and", word, mask) if dirty else word
            total = s.arith.shl_add(low, bits * k, total) if k else low
        found.append(total)
    return tuple(found)


def packed(s: Selector, elements: Sequence[Number | Condition], bits: int) -> Packed:
    """A vector of numbers in a register tuple."""
    words: list[Word] = []
    for element in elements:
        assert isinstance(element, Number)
        words += element.words
    flat = pack_words(s, words, bits) if bits < 32 else tuple(words)
    return Packed(s.emit.tuple_of(flat, False), bits, len(elements))


def unpacked(s: Selector, value: Packed) -> tuple[Number, ...]:
    """The elements; upper bits of narrow ones are undefined."""
    words = s.emit.words(value.registers)
    if value.bits >= 32:
        size = value.bits // 32
        return tuple(Number(words[size * i : size * (i + 1)]) for i in range(value.count))
    per_word = 32 // value.bits
    return tuple(
        Number((s.arith.binary("shru", words[i // per_word], value.bits * (i % per_word)),)) for i in range(value.count)
    )


def as_packed(s: Selector, value: Packed | Vector, bits: int) -> Packed:
    """The vector in a register tuple."""
    return value if isinstance(value, Packed) else packed(s, value.elements, bits)


def as_vector(s: Selector, value: Packed | Vector) -> Vector:
    """The vector as one number per element."""
    return value if isinstance(value, Vector) else Vector(unpacked(s, value))
