"""How deep attributes may nest (language reference, part 1, section 2.3), in text, through aliases and in memory."""

from __future__ import annotations

from typing import Any

import pytest

from loom import api
from loom.ir.attributes import MAX_NESTING, Dictionary, nests_deeper
from loom.ir.core import Module
from loom.ir.diagnostics import LoomError

FAMILY = "#encoding.layout.dense"
SHAPES = {
    "arrays": ("[", "]"),
    "dictionaries": ("{a = ", "}"),
    "encodings": (f"{FAMILY}<", ">"),
    "parameters": (f"{FAMILY}<a = ", ">"),
}


def program(value: str, before: str = "") -> str:
    return f"{before}check.case @c {{\n  check.requires<x.y> {{k = {value}}}\n  check.return\n}}\n"


def nested(shape: str, levels: int, inner: str = "1") -> str:
    opening, closing = SHAPES[shape]
    return opening * levels + inner + closing * levels


def codes(text: str) -> list[str]:
    with pytest.raises(LoomError) as caught:
        api.parse(text)
    return [found.code for found in caught.value.diagnostics]


def facts(module: Module) -> Any:
    (op,) = (op for op in module.walk() if op.name == "check.requires")
    return op.attribute("facts")


@pytest.mark.parametrize("shape", SHAPES)
def test_eight_aggregates_may_lie_inside_of_each_other(shape: str) -> None:
    """The dictionary around the value is one of them."""
    module = api.parse(program(nested(shape, MAX_NESTING - 1)))
    assert not nests_deeper(facts(module))
    assert nests_deeper(facts(module), MAX_NESTING - 1)
    assert api.parse(api.print(module)) is not None
    for levels in (MAX_NESTING, MAX_NESTING + 1, 20_000):
        assert codes(program(nested(shape, levels))) == ["PARSE/021"]


def test_a_statement_after_one_that_is_too_deep_starts_anew() -> None:
    deep, fine = nested("arrays", MAX_NESTING), nested("arrays", MAX_NESTING - 1)
    text = f"check.case @c {{\n  check.requires<x.y> {{k = {deep}}}\n  check.requires<x.y> {{k = {fine}}}\n  check.return\n}}\n"
    assert codes(text) == ["PARSE/021"]


def test_aliases_count_as_what_they_stand_for() -> None:
    four = nested("encodings", 4)
    assert codes(program("#b", f"#a = {four}\n#b = {nested('encodings', 4, '#a')}\n")) == ["PARSE/021"]
    assert not nests_deeper(facts(api.parse(program("#b", f"#a = {four}\n#b = {nested('encodings', 3, '#a')}\n"))))


@pytest.mark.parametrize("levels", [MAX_NESTING, 60])
def test_programs_from_memory_and_bytecode_are_held_to_it_too(levels: int) -> None:
    module = api.parse(program("1"))
    (op,) = (op for op in module.walk() if op.name == "check.requires")
    value: object = 1
    for _ in range(levels):
        value = (value,)
    op.set_attribute("facts", Dictionary({"k": value}))
    again = api.open_bytes(api.to_bytecode(module), "x.loombc")
    for found in (module, again if isinstance(again, Module) else again.module()):
        with pytest.raises(LoomError) as caught:
            api.verify(found)
        assert [d.code for d in caught.value.diagnostics] == ["PARSE/021"]
