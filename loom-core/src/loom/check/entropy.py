"""Entropy of scenarios: a pair of words from which named and numbered streams are derived.

Values depend on names and positions alone, never on the order or batching in which trials run. The
functions are those of the language's entropy table; `mix` is the finaliser of SplitMix64.
"""

from __future__ import annotations

from attrs import frozen

from loom.check.random_stream import MASK64, mix64, rotate_left

_ROOT_LOW = 0x524F4F544C4F4F4D
_ROOT_HIGH = 0x6D6F6F6C544F4F52
_FORK_LOW = 0x464F524B4C4F4F4D
_FORK_HIGH = 0x6D6F6F6C4B524F46
_ORDINAL_LOW = 0x4F5244494E414C30
_ORDINAL_HIGH = 0x314C414E4944524F
_READ = 0x524541444C4F4F4D
_NAMED = 0x4E414D45444C4F4F
_FNV_PRIME = 0x100000001B3


@frozen
class Entropy:
    """A source of values: two 64-bit words, written high after low."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low:016x}/{self.high:016x}"


def root(seed: int) -> Entropy:
    """The entropy of a seed, taken modulo 2^64."""
    seed &= MASK64
    return Entropy(mix64(seed ^ _ROOT_LOW), mix64(seed ^ _ROOT_HIGH))


def hash_name(state: int, name: str) -> int:
    """A 64-bit state changed by the UTF-8 bytes of a name and their number."""
    data = name.encode("utf-8")
    state ^= mix64(len(data) ^ _NAMED)
    for byte in data:
        state = ((state ^ byte) * _FNV_PRIME) & MASK64
    return mix64(state)


def fork(parent: Entropy, name: str) -> Entropy:
    """An independent child of `parent` for `name` (`check.entropy.fork`)."""
    return Entropy(
        hash_name(parent.low ^ rotate_left(parent.high, 17) ^ _FORK_LOW, name),
        hash_name(parent.high ^ rotate_left(parent.low, 41) ^ _FORK_HIGH, name),
    )


def at(parent: Entropy, ordinal: int) -> Entropy:
    """The child of `parent` at a position, taken modulo 2^64."""
    ordinal &= MASK64
    return Entropy(
        mix64(parent.low ^ rotate_left(parent.high, 17) ^ mix64(ordinal ^ _ORDINAL_LOW)),
        mix64(parent.high ^ rotate_left(parent.low, 41) ^ mix64(ordinal ^ _ORDINAL_HIGH)),
    )


def read_bits(entropy: Entropy, ordinal: int) -> int:
    """The 64 bits at a position, as a number from 0 to 2^64 - 1."""
    position = at(entropy, ordinal)
    return mix64(position.low ^ rotate_left(position.high, 23) ^ _READ)


def read(entropy: Entropy, ordinal: int) -> int:
    """The `i64` at a position (`check.entropy.read`): `read_bits` as a two's-complement number."""
    bits = read_bits(entropy, ordinal)
    return bits - (1 << 64) if bits >> 63 else bits
