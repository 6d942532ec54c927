"""Linking constant data: definitions satisfy declarations, conflicts stay named, clashes are found."""

from __future__ import annotations

import itertools

import pytest

from loom.bytecode import read_module, write_module
from loom.ir.core import Module
from loom.ir.diagnostics import LoomError
from loom.link.linker import LinkOptions, link
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import verify_module

USER = """\
global.rodata.decl @lut

func.def public @entry() -> (buffer) {
  %d = global.load @lut : buffer
  func.return %d : buffer
}
"""
TABLE = """\
global.rodata.def @lut = align(16) conflicts([@other]) bytes("0001")

global.rodata.def @other = conflicts([@lut]) bytes("02")

global.rodata.def @unused = bytes("03")
"""


def modules(*texts: str) -> list[Module]:
    return [parse_module(t, f"m{i}.loom") for i, t in enumerate(texts)]


@pytest.mark.parametrize("as_library", [False, True])
def test_a_definition_satisfies_declarations(as_library: bool) -> None:
    inputs, libraries = ([USER], [TABLE]) if as_library else ([USER, TABLE], [])
    for order in itertools.permutations(inputs):
        result = link(modules(*order), modules(*libraries), LinkOptions(roots=("entry",))).module
        assert verify_module(result) == []
        assert set(result.symbols()) == {"entry", "lut", "other"}
        assert result.symbols()["lut"].attribute("data") == b"\x00\x01"
        assert print_module(read_module(write_module(result))) == print_module(result)


def test_an_open_declaration_is_an_error_unless_the_link_is_partial() -> None:
    with pytest.raises(LoomError) as caught:
        link(modules(USER), [], LinkOptions(roots=("entry",)))
    assert [d.code for d in caught.value.diagnostics] == ["SYMBOL/002"]
    partial = link(modules(USER), [], LinkOptions(roots=("entry",), allow_unresolved=True)).module
    assert partial.symbols()["lut"].name == "global.rodata.decl"
    closed = link([partial], modules(TABLE), LinkOptions(roots=("entry",))).module
    assert closed.symbols()["lut"].name == "global.rodata.def"


@pytest.mark.parametrize(
    ("inputs", "libraries", "code"),
    [
        ([USER], [TABLE, TABLE], "SYMBOL/005"),
        ([USER, TABLE, TABLE], [], "SYMBOL/005"),
        ([USER, "global.variable @lut : i32 = 0\n"], [], "SYMBOL/003"),
    ],
)
def test_clashes(inputs: list[str], libraries: list[str], code: str) -> None:
    with pytest.raises(LoomError) as caught:
        link(modules(*inputs), modules(*libraries), LinkOptions(roots=("entry",)))
    assert {d.code for d in caught.value.diagnostics} == {code}


def test_data_of_the_same_name_stays_private_to_its_library() -> None:
    def library(name: str, byte: str) -> str:
        return f"""\
global.rodata.def @lut = bytes("{byte}")

func.def public @{name}() -> (buffer) {{
  %d = global.load @lut : buffer
  func.return %d : buffer
}}
"""

    user = """\
func.decl @a() -> (buffer)

func.decl @b() -> (buffer)

func.def public @entry() -> (buffer, buffer) {
  %a = func.call @a() : () -> (buffer)
  %b = func.call @b() : () -> (buffer)
  func.return %a, %b : buffer, buffer
}
"""
    result = link(modules(user), modules(library("a", "0a"), library("b", "0b")), LinkOptions(roots=("entry",))).module
    assert verify_module(result) == []
    data = {op.attribute("data") for op in result.ops if op.name == "global.rodata.def"}
    assert data == {b"\x0a", b"\x0b"}


def test_a_library_function_is_not_mistaken_for_data() -> None:
    user = """\
func.decl @lut() -> (i32)

func.def public @entry() -> (i32) {
  %r = func.call @lut() : () -> (i32)
  func.return %r : i32
}
"""
    function = "func.def public @lut() -> (i32) {\n  %r = scalar.constant 1 : i32\n  func.return %r : i32\n}\n"
    result = link(modules(user), modules(function, TABLE), LinkOptions(roots=("entry",))).module
    assert result.symbols()["lut"].name == "func.def"


def test_declared_extents_survive_a_link() -> None:
    text = """\
global.variable @held : view<[%n]xf32> where [range(%n, 1, 8)]

func.def public @entry() -> (index) {
  %v, %n = global.load @held : view<[%n]xf32>
  func.return %n : index
}
"""
    result = link(modules(text), [], LinkOptions(roots=("entry",))).module
    assert verify_module(result) == []
    assert print_module(result).startswith(text.partition("\n")[0])


def test_an_imported_low_function_stays_open() -> None:
    """Something outside the language supplies it, whatever libraries define."""
    user = """\
low.func.decl import(object, "helper_v2") target<test.low.core> @helper(%a: reg<test.scalar>) -> (reg<test.scalar>)

low.func.def public target<test.low.core> @entry(%a: reg<test.scalar>) -> (reg<test.scalar>) {
  %r = low.func.call @helper(%a) : (reg<test.scalar>) -> (reg<test.scalar>)
  low.return %r : reg<test.scalar>
}
"""
    library = """\
low.func.def public target<test.low.core> @helper(%a: reg<test.scalar>) -> (reg<test.scalar>) {
  low.return %a : reg<test.scalar>
}
"""
    result = link(modules(user), modules(library), LinkOptions(roots=("entry",))).module
    assert result.symbols()["helper"].name == "low.func.decl"
    plain = user.replace(' import(object, "helper_v2")', "")
    result = link(modules(plain), modules(library), LinkOptions(roots=("entry",))).module
    assert result.symbols()["helper"].name == "low.func.def"
