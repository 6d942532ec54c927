"""Rules of globals, constant data and location trees."""

from __future__ import annotations

import pytest

from loom.ir.diagnostics import Diagnostic
from loom.text.parser import parse_module
from loom.verify.verifier import verify_module

DECLARATIONS = """\
global.variable @count : i64 = 0
global.constant @filled : f32
global.constant @fixed : f32 = 1.5
global.variable @cache : tile<[%r]x8xf16>
global.variable @wide : tile<[%r]x[%c]xf32, %enc>
global.rodata.def @lut = bytes("00010203")
global.rodata.decl @far
"""


def findings(text: str) -> list[Diagnostic]:
    return verify_module(parse_module(text, "t.loom"))


def codes(text: str) -> list[str]:
    return [d.code for d in findings(text)]


def body(*statements: str, head: str = "func.def @f(%t: tile<[%n]x8xf16>, %n: index, %o: offset)") -> str:
    lines = "".join(f"  {s}\n" for s in statements)
    return f"{DECLARATIONS}{head} {{\n{lines}  func.return\n}}\n"


@pytest.mark.parametrize(
    ("declaration", "code"),
    [
        ("global.variable @g : f32 = 1", "TYPE/005"),
        ("global.variable @g : i32 = 1.0", "TYPE/005"),
        ("global.variable @g : i8 = 128", "STRUCTURE/014"),
        ("global.variable @g : i1 = 2", "STRUCTURE/014"),
        ("global.variable @g : offset = -1", "STRUCTURE/014"),
        ("global.variable @g : vector<4xf32> = 1.0", "TYPE/005"),
        ("global.constant @g : %v: i32 where [range(%v, 0, 4)] = 5", "STRUCTURE/014"),
        ('global.rodata.def @g = align(3) bytes("")', "STRUCTURE/014"),
        ('global.rodata.def @g = align(0) bytes("")', "STRUCTURE/014"),
        ('global.rodata.def @g = conflicts([@lut, @lut]) bytes("")', "STRUCTURE/014"),
        ('global.rodata.def @g = conflicts([@gone]) bytes("")', "SYMBOL/002"),
        ('global.rodata.def @g = conflicts([@count]) bytes("")', "SYMBOL/003"),
        ('global.rodata.def @g = conflicts([@g]) bytes("")', "SYMBOL/006"),
        ('global.rodata.def @g = conflicts([@lut]) bytes("")', "SYMBOL/006"),
    ],
)
def test_declarations(declaration: str, code: str) -> None:
    assert code in codes(DECLARATIONS + declaration + "\n")
    assert codes(DECLARATIONS) == []


def test_the_conflict_with_a_declaration_is_for_the_linker() -> None:
    assert codes(DECLARATIONS + 'global.rodata.def @g = conflicts([@far]) bytes("")\n') == []


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("%v = global.load @gone : f32", "SYMBOL/002"),
        ("%v = global.load @f : f32", "SYMBOL/003"),
        ("%v = global.load @count : i32", "TYPE/001"),
        ("%v = global.load @lut : f32", "TYPE/001"),
        ("%v, %w = global.load @lut : buffer", "STRUCTURE/002"),
        ("%v, %w = global.load @count : i64", "STRUCTURE/002"),
        ("%v = global.load @cache : tile<[%n]x8xf16>", "STRUCTURE/002"),
        ("%v, %r, %s = global.load @cache : tile<[%r]x8xf16>", "STRUCTURE/002"),
        ("%v, %r = global.load @cache : tile<[%r]x4xf16>", "TYPE/001"),
        ("%v, %c, %r, %e = global.load @wide : tile<[%r]x[%c]xf32, %e>", "TYPE/001"),
        ("global.store %t, @lut : tile<[%n]x8xf16>", "SYMBOL/003"),
        ("global.store %t, @far : tile<[%n]x8xf16>", "SYMBOL/003"),
        ("global.store %t, @count : tile<[%n]x8xf16>", "TYPE/001"),
    ],
)
def test_accesses(statement: str, code: str) -> None:
    assert codes(body(statement)) == [code]


def test_valid_accesses() -> None:
    statements = (
        "%v, %r = global.load @cache : tile<[%r]x8xf16>",
        "global.store %v, @cache : tile<[%r]x8xf16>",
        "global.store %t, @cache : tile<[%n]x8xf16>",
        "%w, %a, %b, %e = global.load @wide : tile<[%a]x[%b]xf32, %e>",
        "global.store %w, @wide : tile<[%a]x[%b]xf32, %e>",
        "%d = global.load @lut : buffer",
        "%x = global.load @far : buffer",
    )
    assert codes(body(*statements)) == []


@pytest.mark.parametrize(
    "store",
    [
        "view.store %x, %w[0] : i8, view<4xi8>",
        "vector.store %x4, %w[0] : vector<4xi8>, view<4xi8>",
        "buffer.store.i8 %i, %d[%o]",
        "buffer.fill %x, %e[%o], %o : i8",
    ],
)
def test_constant_data_is_not_written(store: str) -> None:
    lines = (
        "%x = scalar.constant 1 : i8",
        "%i = scalar.constant 1 : i32",
        "%x4 = vector.splat %x : vector<4xi8>",
        "%d = global.load @lut : buffer",
        "%e = buffer.assume.memory_space<constant> %d : buffer",
        "%v = buffer.view %e[%o] : buffer -> view<4xi8>",
        "%w = view.refine %v : view<4xi8> -> view<4xi8>",
        "%ok = view.load %w[0] : view<4xi8> -> i8",
    )
    assert codes(body(*lines)) == []
    (found,) = findings(body(*lines, store))
    assert found.code == "STRUCTURE/032"
    position = found.position()
    assert position is not None
    assert position[1] == DECLARATIONS.count("\n") + len(lines) + 2


STORE = "  %x = scalar.constant 2.0 : f32\n  global.store %x, @{name} : f32\n  func.return\n}}\n"
CALLS = "  func.call @helper() : ()\n  func.return\n}}\n"


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("func.def initializer @setup() {{\n" + STORE, True),
        ("func.def initializer @setup() {{\n" + CALLS + "func.def @helper() {{\n" + STORE, True),
        ("func.def @setup() {{\n" + STORE, False),
        ("func.def initializer @setup() {{\n" + CALLS + "func.def public @helper() {{\n" + STORE, False),
        (
            "func.def initializer @setup() {{\n" + CALLS + "func.def public @other() {{\n" + CALLS
            + "func.def @helper() {{\n" + STORE,
            False,
        ),
    ],
)  # fmt: skip
def test_only_initializers_fill_constants(text: str, allowed: bool) -> None:
    assert codes(DECLARATIONS + text.format(name="filled")) == ([] if allowed else ["STRUCTURE/029"])
    assert codes(DECLARATIONS + text.format(name="fixed")) == ["STRUCTURE/029"]


def location(*nodes: str) -> str:
    listed = ", ".join(f"#func.location.{n}" for n in nodes)
    return f"func.def @f() {{\n  %w = func.location [{listed}] : buffer\n  func.return\n}}\n"


FIELD = "field<operand, index = 0, range = [1, 1, 1, 2]>"


@pytest.mark.parametrize(
    ("nodes", "code"),
    [
        (["fil<>"], "PARSE/008"),
        (['file<"a">'], "ENCODING/007"),
        (["file<range = [1, 1, 1, 2]>"], "ENCODING/007"),
        (["unknown<1>"], "ENCODING/008"),
        (['file<"a", range = [1, 1, 1, 2], data = bytes("")>'], "ENCODING/008"),
        (["file<a, range = [1, 1, 1, 2]>"], "ENCODING/010"),
        (['file<"a", range = [1, 1, 1]>'], "ENCODING/010"),
        (['file<"a", range = [1, 1, 1, -2]>'], "ENCODING/010"),
        (['opaque<"a", data = "00">'], "ENCODING/010"),
        ([], "STRUCTURE/014"),
        (["unknown", "unknown"], "STRUCTURE/014"),
        (["fused<[0]>"], "STRUCTURE/014"),
        ([FIELD, "fused<[0, 0]>"], "STRUCTURE/014"),
        (["unknown", 'tagged<note, child = 0, data = bytes("")>', "fused<[0]>"], "STRUCTURE/014"),
    ],
)
def test_location_trees(nodes: list[str], code: str) -> None:
    assert codes(location(*nodes).replace("<>", "")) == [code]


def test_a_location_tree_in_post_order() -> None:
    assert codes(location(FIELD, 'file<"a", fields = [0], range = [1, 1, 1, 2]>', "unknown", "fused<[1, 2]>")) == []
