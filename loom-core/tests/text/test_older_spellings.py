"""Older spellings are read and become the current ones; the pairs of files in ``older`` show each of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from loom.ir.diagnostics import LoomError
from loom.text.older import spellings
from loom.text.older.patterns import Pattern
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import verify_module

FOLDER = Path(__file__).with_name("older")
PAIRS = sorted(path.name.removesuffix(".older.loom") for path in FOLDER.glob("*.older.loom"))
# Valid text today that meant something else: read as older text only when asked to migrate.
MIGRATION_ONLY = ("constants", "pipelines")
NEEDS = {"targets": "loom_target_amdgpu"}


def pair(name: str) -> tuple[str, str]:
    module = NEEDS.get(name)
    if module is not None and importlib.util.find_spec(module) is None:
        pytest.skip(f"needs the package {module}")
    return (FOLDER / f"{name}.older.loom").read_text(), (FOLDER / f"{name}.loom").read_text()


@pytest.mark.parametrize("name", PAIRS)
def test_migration_gives_the_current_form(name: str) -> None:
    older, current = pair(name)
    module = parse_module(older, name, migrate=True)
    assert print_module(module) == current
    assert verify_module(module) == []
    assert print_module(parse_module(current, migrate=True)) == current
    assert print_module(parse_module(current)) == current


@pytest.mark.parametrize("name", [name for name in PAIRS if name not in MIGRATION_ONLY])
def test_every_reader_takes_older_spellings(name: str) -> None:
    older, current = pair(name)
    assert print_module(parse_module(older)) == current


def test_constants_beyond_the_signed_maximum_are_an_error_unless_migrated() -> None:
    text = "func.def @f() -> (i8) {\n  %a = scalar.constant 200 : i8\n  func.return %a : i8\n}\n"
    assert [d.code for d in verify_module(parse_module(text))] == ["STRUCTURE/014"]
    assert "scalar.constant -56 : i8" in print_module(parse_module(text, migrate=True))
    beyond = text.replace("200", "256")
    assert [d.code for d in verify_module(parse_module(beyond, migrate=True))] == ["STRUCTURE/014"]


def rows() -> list[str]:
    tables = (*spellings.OPERATIONS, *spellings.TARGETS, *spellings.FAMILIES)
    return [older for older, _ in tables] + [f"{name} (" for name in spellings.PREDICATES]


@pytest.mark.parametrize("row", rows())
def test_every_row_is_shown(row: str) -> None:
    """No row of the tables without a place in a file of the folder."""
    pattern = Pattern.of(row)
    words = {
        pattern.first,
        *(e for e in pattern.elements if isinstance(e, str) and (e == "=" or e[0] not in "$=%@⟦")),
    }
    words |= {entry.key for element in pattern.elements if isinstance(element, tuple) for entry in element}
    assert any(all(word in path.read_text() for word in words) for path in FOLDER.glob("*.older.loom"))


def test_errors_in_older_files_point_at_what_is_written() -> None:
    text = (FOLDER / "templates.older.loom").read_text().replace("%b = func.call inline", "%b = func.kall inline")
    with pytest.raises(LoomError) as caught:
        parse_module(text, "t.loom")
    (found,) = [d for d in caught.value.diagnostics if d.code == "PARSE/006"]
    (line,) = [n for n, content in enumerate(text.splitlines(), 1) if "func.kall" in content]
    assert found.position() == ("t.loom", line, 8)


def test_findings_of_the_verifier_point_at_what_is_written() -> None:
    text = (
        "func.def @f(%n: index, %x: i64) -> (i32) {\n"
        "  %m = index.assume %n [mul(%n, 4)] : index\n"
        "  %k = scalar.trunci %x : i64 to i64\n  func.return %k : i64\n}\n"
    )
    found = verify_module(parse_module(text, "t.loom"))
    assert [(d.code, d.position()) for d in found] == [("TYPE/004", ("t.loom", 3, 8)), ("TYPE/009", ("t.loom", 4, 3))]


def test_an_alias_of_the_file_is_no_older_family() -> None:
    text = "#dense = #encoding.layout.strided<strides=[1]>\nfunc.decl @f(%a: view<4xf32, #dense>) where [mul(%a, 1)]\n"
    current = print_module(parse_module(text))
    assert "view<4xf32, #dense>" in current
    assert "multiple_of" in current


@pytest.mark.parametrize("family", [name for name in spellings.REMOVED if name[0] == "#"])
def test_removed_families_say_so(family: str) -> None:
    text = f"func.def @f() {{\n  %e = encoding.define {family}<a=1> : encoding<schema>\n  func.return\n}}\n"
    with pytest.raises(LoomError) as caught:
        parse_module(text)
    (found,) = caught.value.diagnostics
    assert found.code == "PARSE/008"
    assert found.hint == spellings.REMOVED[family]


def test_removed_dialects_say_so() -> None:
    with pytest.raises(LoomError) as caught:
        parse_module("llvmir.target<x86> @t\n")
    assert caught.value.diagnostics[0].hint == spellings.REMOVED["llvmir.target"]


def test_comments_inside_a_rewritten_operation_move_to_the_next() -> None:
    text = (
        "// Head.\n\n// Of f.\nfunc.def @f(%n: offset) {\n  // Before.\n  %b = buffer.alloca %n { // inside\n"
        "    base_alignment = 8, memory_space = private} : buffer\n\n  // After.\n  func.return\n}\n"
    )
    assert print_module(parse_module(text)) == (
        "// Head.\n\n// Of f.\nfunc.def @f(%n: offset) {\n  // Before.\n  %b = buffer.alloca<private> align(8) %n : buffer\n\n"
        "  // inside\n  // After.\n  func.return\n}\n"
    )


def test_unclosed_brackets_in_older_files_end_in_a_diagnostic() -> None:
    for text in (
        "func.template<ops.f @g(",
        "func.template<ops.f> @g(%x: f32",
        'module.import "a" [@b',
        "func.def @f() { kernel.barrier<workgroup> {ordering = acq_rel,",
        "#numeric_transform<family=",
        "func.decl @f(%a: view<4xf32, #strided<stride=>>)",
        'encoding.isa %e, "x" :',
        "vector.load.mask %v[",
        "amdgpu.target<",
        "template.def",
        "func.template",
    ):
        with pytest.raises(LoomError):
            parse_module(text)


@pytest.mark.parametrize("family", ["@mix", "%mix", '"mix"', "1"])
def test_only_words_become_symbols(family: str) -> None:
    """The older names of families had no `@`; with anything else in their place the operation is unknown."""
    with pytest.raises(LoomError) as caught:
        parse_module(f"func.provider.decl<{family}> @mix_some(%a: f32) -> (f32)\n")
    assert "unknown operation 'func.provider.decl'" in str(caught.value)
