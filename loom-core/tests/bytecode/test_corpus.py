"""The corpus: valid programs with every operation of the core, in both forms, as they are and with other attributes."""

from __future__ import annotations

import random
from importlib.util import find_spec
from pathlib import Path

import pytest
from bytecode_programs import REPOSITORY, ModuleMaker, structure
from hypothesis import given, settings
from hypothesis import strategies as st

from loom.bytecode import read_module, write_module
from loom.ir.core import Module, Op
from loom.ir.diagnostics import LoomError
from loom.spec.kinds import EnumKind, FlagsKind
from loom.spec.model import AttributeDef
from loom.spec.registry import all_ops
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import verify_module

# Low needs instructions of some target, so its file is in the tests of a target package.
PACKAGES = ["loom-core", *(["loom-target-amdgpu"] if find_spec("loom_target_amdgpu") else [])]
FILES = [path for package in PACKAGES for path in sorted((REPOSITORY / package / "tests" / "corpus").glob("*.loom"))]

# Kinds whose values depend on nothing else of the op. Others count operands, name symbols or hold types.
FREE_KINDS = frozenset({"int", "float", "bool", "string", "key", "literal"})


@pytest.mark.seed("M01")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_valid_and_the_same_in_both_forms(path: Path) -> None:
    text = path.read_text()
    module = parse_module(text)
    assert not verify_module(module)
    assert print_module(module) == text
    data = write_module(module)
    again = read_module(data)
    assert structure(again) == structure(module)
    assert print_module(again) == text
    assert write_module(again) == data


def test_every_op_of_the_core_occurs() -> None:
    found = {op.name for path in FILES for op in parse_module(path.read_text()).walk()}
    declared = {name for name, cls in all_ops().items() if cls.__module__.startswith("loom.")}
    if len(PACKAGES) == 1:
        declared = {name for name in declared if not name.startswith("low.")}
    assert declared - found == set()


def _vary(op: Op, maker: ModuleMaker) -> bool:
    """Give some attributes of an op other values of their kinds, valid or not; whether one is new."""
    changed = False
    for index, attribute in enumerate(op.spec.attributes):
        if maker.random.random() < 0.5 or not _is_free(op, attribute):
            continue
        if op.attributes[index] is None:  # absent: what stands around it in the text may be absent as well
            continue
        value = maker.attribute(attribute.kind, 0)
        if isinstance(attribute.kind, FlagsKind):  # no flag is written as none at all
            value = value or None
        changed |= value != op.attributes[index]
        op.attributes[index] = value
    return changed


def _is_free(op: Op, attribute: AttributeDef) -> bool:
    # Keys of Low name instructions, and those say which immediates there are; counts of arguments follow from the text.
    if op.spec.dialect == "low" or attribute.name == "specialization_count":
        return False
    return isinstance(attribute.kind, EnumKind | FlagsKind) or attribute.kind.name in FREE_KINDS


def varied(seed: int) -> Module:
    """A file of the corpus with some of its symbols in another order and other attributes here and there."""
    maker = ModuleMaker(seed)
    module = parse_module(maker.random.choice(FILES).read_text())
    for op in module.walk():
        if maker.random.random() < 0.3:
            _vary(op, maker)
    return module


@given(seed=st.integers(0, 2**32))
@settings(max_examples=200)
def test_other_attributes_survive_in_both_forms(seed: int) -> None:
    """What prints reads back the same, or is refused with a diagnostic; the binary form keeps all of it."""
    module = varied(seed)
    data = write_module(module)
    assert write_module(read_module(data)) == data
    assert structure(read_module(data)) == structure(module)
    text = print_module(module)
    try:
        again = parse_module(text)
    except LoomError:
        return
    assert print_module(again) == text
    assert structure(again) == structure(module)


def test_each_op_alone_keeps_other_attributes() -> None:
    """One attribute at a time in every op of the corpus; most of the resulting texts read."""
    read = refused = 0
    for number, path in enumerate(FILES):
        text = path.read_text()
        count = len(list(parse_module(text).walk()))
        maker = ModuleMaker(number)
        for position in random.Random(number).sample(range(count), min(count, 40)):
            module = parse_module(text)
            if not _vary(list(module.walk())[position], maker):
                continue
            printed = print_module(module)
            try:
                again = parse_module(printed)
            except LoomError:
                refused += 1
                continue
            read += 1
            assert print_module(again) == printed
            assert structure(again) == structure(module), list(module.walk())[position].name
    assert read > 2 * refused
    assert read > 50
