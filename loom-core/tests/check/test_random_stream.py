"""The word stream against published vectors and a scalar model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom.check.random_stream import expand_seed, mix64, random_words, stream_words

M = 2**64


class ScalarModel:
    """xoroshiro128** and SplitMix64 as in the language's generator table, one word at a time."""

    def __init__(self, seed: int) -> None:
        self.split_state = seed % M
        self.s0, self.s1 = self.split(), self.split()
        if self.s0 == 0 and self.s1 == 0:
            self.s0 = 1

    def split(self) -> int:
        self.split_state = (self.split_state + 0x9E3779B97F4A7C15) % M
        x = self.split_state
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % M
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % M
        return x ^ (x >> 31)

    @staticmethod
    def rotl(x: int, k: int) -> int:
        return ((x << k) % M) | (x >> (64 - k))

    def next(self) -> int:
        r = (self.rotl((self.s0 * 5) % M, 7) * 9) % M
        s1 = self.s1 ^ self.s0
        self.s0 = self.rotl(self.s0, 24) ^ s1 ^ ((s1 << 16) % M)
        self.s1 = self.rotl(s1, 37)
        return r


def test_words_match_the_published_sequence_of_the_generator() -> None:
    """First outputs of xoroshiro128** (24, 16, 37) from the state (1, 2), as other libraries test it."""
    assert stream_words((1, 2), 10).tolist() == [
        5760,
        97769243520,
        9706862127477703552,
        9223447511460779954,
        8358291023205304566,
        15695619998649302768,
        8517900938696309774,
        16586480348202605369,
        6959129367028440372,
        16822147227405758281,
    ]


def test_seed_expansion_matches_the_published_sequence_of_splitmix64() -> None:
    """First outputs of SplitMix64 for the seed 1234567."""
    assert expand_seed(1234567) == (6457827717110365317, 3203168211198807973)


@pytest.mark.parametrize("count", [0, 1, 2, 63, 2047, 2048, 2049, 4096, 4097, 10_000, 70_001])
def test_lanes_give_the_words_of_one_walk(count: int) -> None:
    """Cutting the stream into lanes changes no word, at and around every boundary."""
    model = ScalarModel(0x5EED)
    assert random_words(0x5EED, count).tolist() == [model.next() for _ in range(count)]


@given(seed=st.integers(-(2**63), 2**63 - 1), count=st.integers(2049, 6000))
@settings(max_examples=20)
def test_any_seed(seed: int, count: int) -> None:
    """Negative seeds count as their two's complement."""
    model = ScalarModel(seed)
    words = random_words(seed, count)
    assert words.dtype == np.uint64
    assert words.tolist() == [model.next() for _ in range(count)]


def test_a_prefix_does_not_depend_on_the_length() -> None:
    """Element i of a tensor is the same in a longer tensor."""
    assert (random_words(9, 100_000)[:3000] == random_words(9, 3000)).all()


@given(st.integers(0, M - 1))
def test_mix_is_reversible(word: int) -> None:
    """The finaliser is a bijection: undoing its steps gives the word back."""
    x = mix64(word)
    x ^= (x >> 31) ^ (x >> 62)
    x = (x * pow(0x94D049BB133111EB, -1, M)) % M
    x ^= (x >> 27) ^ (x >> 54)
    x = (x * pow(0xBF58476D1CE4E5B9, -1, M)) % M
    x ^= (x >> 30) ^ (x >> 60)
    assert x == word
