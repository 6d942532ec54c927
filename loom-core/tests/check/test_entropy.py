"""Entropy against the language's test vectors."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loom.check import entropy


def test_vectors_of_the_reference() -> None:
    """Root, fork and reads for the seed 0x4c6f6f6d."""
    root = entropy.root(0x4C6F6F6D)
    assert str(root) == "aa5409db0d124e7d/5a04156236e3cc7b"
    forked = entropy.fork(root, "input")
    assert str(forked) == "9af282807833e29a/9f9a7ff237537a11"
    words = [entropy.read_bits(forked, position) for position in (0, 1, 17)]
    assert words == [0x1A9D7A7CB2D83838, 0x9D679215B4C854E2, 0x2A1655B1581E659A]


def test_read_is_the_same_bits_as_a_signed_number() -> None:
    """The second vector has its top bit set."""
    forked = entropy.fork(entropy.root(0x4C6F6F6D), "input")
    assert entropy.read(forked, 1) == 0x9D679215B4C854E2 - 2**64
    assert entropy.read(forked, 0) == 0x1A9D7A7CB2D83838


@given(st.integers(-(2**63), 2**63 - 1), st.text(max_size=12))
def test_words_stay_in_64_bits(seed: int, name: str) -> None:
    """Any seed, ordinal and name (hashed as UTF-8) gives words in range."""
    child = entropy.at(entropy.fork(entropy.root(seed), name), seed)
    assert 0 <= child.low < 2**64
    assert 0 <= child.high < 2**64
    assert -(2**63) <= entropy.read(child, seed) < 2**63


def test_names_and_ordinals_separate_streams() -> None:
    """Different names, orders of names and positions give different entropy."""
    root = entropy.root(0)
    children = {
        entropy.fork(root, "a"),
        entropy.fork(root, "b"),
        entropy.fork(entropy.fork(root, "a"), "b"),
        entropy.fork(entropy.fork(root, "b"), "a"),
        entropy.fork(root, "ab"),
        entropy.fork(root, ""),
        entropy.at(root, 0),
        entropy.at(root, 1),
    }
    assert len(children) == 8
