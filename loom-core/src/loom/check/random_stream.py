"""The stream of 64-bit words behind `check.generate.random.uniform`.

SplitMix64 expands the seed to the two state words of xoroshiro128**, both as published by Blackman and
Vigna, "Scrambled Linear Pseudorandom Number Generators" (2021), with the rotations 24, 16, 37.

The generator is sequential, but its state transition T is linear over GF(2). A long stream is
therefore cut into equal lanes: lane k starts at T^(kL) of the first state, and all lanes step together
as NumPy arrays. The words are the same as those of one scalar walk.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

MASK64 = (1 << 64) - 1

_SCALAR_LIMIT = 2048
"""Below this many words the plain walk is faster than setting lanes up."""


def mix64(word: int) -> int:
    """The finaliser of SplitMix64: a bijection of 64-bit words."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK64
    return word ^ (word >> 31)


def rotate_left(word: int, count: int) -> int:
    """A 64-bit word rotated left by `count` bits, 0 < count < 64."""
    return ((word << count) | (word >> (64 - count))) & MASK64


def expand_seed(seed: int) -> tuple[int, int]:
    """The initial state for a seed, taken modulo 2^64: two SplitMix64 outputs, never both zero."""
    increment = 0x9E3779B97F4A7C15
    first = mix64((seed + increment) & MASK64)
    second = mix64((seed + 2 * increment) & MASK64)
    if first == 0 and second == 0:
        # The all-zero state is a fixed point of the transition.
        first = 1
    return first, second


def random_words(seed: int, count: int) -> Words:
    """The first `count` words of the stream of `seed`, as `uint64`."""
    if count <= _SCALAR_LIMIT:
        return stream_words(expand_seed(seed), count)
    # Near the square root of the count, set-up (one state per lane) and stepping (one pass per
    # position) balance; a power of two lets every lane start come from repeated squaring.
    length_log2 = (count.bit_length() + 1) // 2
    length = 1 << length_log2
    lanes = -(-count // length)
    low, high = _lane_starts(expand_seed(seed), lanes, length_log2)
    words = np.empty((length, lanes), dtype=np.uint64)
    for position in range(length):
        words[position] = _scramble(low)
        low, high = _advance(low, high)
    return words.T.reshape(-1)[:count]


def stream_words(state: tuple[int, int], count: int) -> Words:
    """The first `count` words from a state, one after the other."""
    low, high = state
    words = []
    for _ in range(count):
        words.append((rotate_left((low * 5) & MASK64, 7) * 9) & MASK64)
        high ^= low
        low = rotate_left(low, 24) ^ high ^ ((high << 16) & MASK64)
        high = rotate_left(high, 37)
    return np.array(words, dtype=np.uint64)


def _rotate(words: Words, count: int) -> Words:
    return (words << np.uint64(count)) | (words >> np.uint64(64 - count))


def _scramble(low: Words) -> Words:
    return _rotate(low * np.uint64(5), 7) * np.uint64(9)


def _advance(low: Words, high: Words) -> tuple[Words, Words]:
    """One transition of every state."""
    high = high ^ low
    return _rotate(low, 24) ^ high ^ (high << np.uint64(16)), _rotate(high, 37)


def _lane_starts(state: tuple[int, int], lanes: int, length_log2: int) -> tuple[Words, Words]:
    """The states `0, L, 2L, …` transitions after `state`, for L = 2^length_log2."""
    states = np.array([state], dtype=np.uint64)
    power = length_log2
    while len(states) < lanes:
        states = np.concatenate((states, _apply(_power_tables(power), states)))
        power += 1
    return states[:lanes, 0].copy(), states[:lanes, 1].copy()


@lru_cache(maxsize=64)
def _power_tables(power: int) -> Words:
    """T^(2^power) as tables `[byte of the state, value of the byte, word]`, to be combined by XOR."""
    if power == 0:
        basis = np.zeros((128, 2), dtype=np.uint64)
        bit = np.uint64(1) << np.arange(64, dtype=np.uint64)
        basis[:64, 0] = bit
        basis[64:, 1] = bit
        images = np.stack(_advance(basis[:, 0], basis[:, 1]), axis=1)
    else:
        half = _power_tables(power - 1)
        # Images of the basis under the half step, moved by the half step once more.
        singles = half[:, 1 << np.arange(8)].reshape(128, 2)
        images = _apply(half, singles)
    tables = np.zeros((16, 256, 2), dtype=np.uint64)
    for byte in range(16):
        for bit_index in range(8):
            known = 1 << bit_index
            tables[byte, known : 2 * known] = tables[byte, :known] ^ images[8 * byte + bit_index]
    return tables


def _apply(tables: Words, states: Words) -> Words:
    """A linear map, as tables, of every state `[state, word]`."""
    result = np.zeros_like(states)
    for byte in range(16):
        word, shift = divmod(byte, 8)
        values = (states[:, word] >> np.uint64(8 * shift)) & np.uint64(0xFF)
        result ^= tables[byte, values]
    return result
