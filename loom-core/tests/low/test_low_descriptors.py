"""Descriptor records: defaults and the mistakes they refuse."""

from __future__ import annotations

import pytest

from loom.low.descriptors import (
    Descriptor,
    DescriptorSet,
    Effects,
    OperandDescriptor,
    RegisterClass,
)

WORD = RegisterClass("t.word", 32, 8, {2: 2})
FLAG = RegisterClass("t.flag", 1, 1, spillable=False)


def operand(name: str, units: int = 1, tied: str | None = None) -> OperandDescriptor:
    return OperandDescriptor(name, ("t.word",), units, tied=tied)


def test_register_class_defaults() -> None:
    """The bank is the class's own name; only unspillable classes stand for an implicit register."""
    assert WORD.bank == "t.word"
    assert (WORD.alignment(1), WORD.alignment(2)) == (1, 2)
    assert dict(WORD.named or {}) == {}
    assert dict(FLAG.named or {}) == {"flag": (0, 1)}
    with pytest.raises(ValueError, match="positive count"):
        RegisterClass("t.none", 32, 0)


def test_ties_are_resolved_to_indices() -> None:
    """`tied` names an operand; the pairs of indices are computed once."""
    descriptor = Descriptor(
        "t.acc",
        "acc",
        [operand("dst", tied="c")],
        [operand("a"), operand("b"), operand("c")],
        commutative=("a", "b"),
    )
    assert descriptor.ties == ((0, 2),)
    assert descriptor.commuted == (0, 1)
    assert Descriptor("t.nop", "nop").commuted is None


@pytest.mark.parametrize(
    ("results", "operands", "commutative", "message"),
    [
        ([operand("d", tied="x")], [operand("a")], None, "no operand 'x'"),
        ([operand("d", 2, tied="a")], [operand("a")], None, "differ in size"),
        ([], [operand("a"), operand("a")], None, "one name"),
        ([], [operand("a")], ("a", "b"), "commutative"),
    ],
)
def test_inconsistent_descriptors(
    results: list[OperandDescriptor],
    operands: list[OperandDescriptor],
    commutative: tuple[str, str] | None,
    message: str,
) -> None:
    """Ties and commutative pairs must name operands of the right size."""
    with pytest.raises(ValueError, match=message):
        Descriptor("t.bad", "bad", results, operands, commutative=commutative)


def test_unknown_memory_space() -> None:
    """Effects know the memory spaces."""
    with pytest.raises(ValueError, match="unknown memory space 'lds'"):
        Effects(reads={"lds"})


def test_descriptor_set_lookup_and_duplicates() -> None:
    """Keys and mnemonics are unique, classes are known and filed under their name."""
    first = Descriptor("t.a", "a", [operand("dst")])
    found = DescriptorSet("t", {"t.word": WORD}, [first])
    assert found.by_key["t.a"] is found.by_mnemonic["a"] is first
    for other, message in (
        (Descriptor("t.a", "b"), "key 't.a'"),
        (Descriptor("t.b", "a"), "mnemonic 'a'"),
        (Descriptor("t.c", "c", [OperandDescriptor("dst", ("t.none",))]), "no register class 't.none'"),
    ):
        with pytest.raises(ValueError, match=message):
            DescriptorSet("t", {"t.word": WORD}, [first, other])
    with pytest.raises(ValueError, match="filed under"):
        DescriptorSet("t", {"word": WORD}, [])
