"""Every lexical and syntactic fault gets its code at its place, and nothing else."""

from __future__ import annotations

import pytest

from loom.ir.diagnostics import Diagnostic, LoomError
from loom.text.parser import parse_module


def errors(text: str) -> list[Diagnostic]:
    with pytest.raises(LoomError) as caught:
        parse_module(text, "t.loom")
    return list(caught.value.diagnostics)


def inside(statement: str, arguments: str = "%a: i32, %b: i32") -> str:
    return f"func.def @f({arguments}) {{\n  {statement}\n  func.return\n}}\n"


@pytest.mark.parametrize(
    ("statement", "code", "column"),
    [
        ("%r = scalar.addi %a, %missing : i32", "PARSE/001", 24),
        ("%a = scalar.constant 1 : i32\n  %a = scalar.constant 1 : i32", "PARSE/002", 3),
        ("%r = scalar.addi %a %b : i32", "PARSE/003", 23),
        ("%r = scalar.addi %a, %b : vector<>", "PARSE/004", 29),
        ('kernel.assert %a "open', "PARSE/005", 20),
        ("%r = scalar.addq %a, %b : i32", "PARSE/006", 8),
        ("%r = scalar.addi %a, %b : i33", "PARSE/007", 29),
        ("%r, %s = scalar.addi %a, %b : i32", "PARSE/009", 3),
        ("%r = func.call @g(%a) : (i32, i32) -> (i32)", "PARSE/010", 8),
        ("%r = scalar.assume %a [likes(%a, 1)] : i32", "PARSE/013", 26),
        ("%r = scalar.constant 99999999999999999999 : i32", "PARSE/015", 24),
        ("%r = check.expect.close actual(%a) expected(%b) atol(1.0) rtol(1.0) nan(maybe) : i32", "PARSE/017", 75),
        ("%r = scalar.cmpi lt, %a, %b : i32", "PARSE/017", 20),
        ("%r = scalar.addi<wrap> %a, %b : i32", "PARSE/018", 20),
        ("%r = scalar.bitfield.extractu %a {offset = 1, offset = 2} : i32 -> i8", "PARSE/020", 49),
        ("%r = scalar.bitfield.extractu %a {length = 1} : i32 -> i8", "PARSE/018", 37),
        ("% = scalar.constant 1 : i32", "PARSE/024", 3),
        ("%r = scalar.addi %a, & : i32", "PARSE/025", 24),
        ("%r = scf.lookup %i {\n 0 = (%a), 1 = (%a, %b)} default(%a) : i32", "PARSE/030", 16),
        ("%r = scalar.assume %a [range(%a, 1)] : i32", "PARSE/031", 26),
        ("cfg.br ^nowhere", "PARSE/032", 10),
    ],
)
def test_statement_faults(statement: str, code: str, column: int) -> None:
    arguments = "%a: i32, %b: i32, %i: index"
    if statement.startswith("%a ="):
        arguments = "%b: i32"
    found = errors(inside(statement, arguments))
    first = found[0]
    assert first.code == code, [d.render() for d in found]
    position = first.position()
    assert position is not None
    assert position[2] == column


def test_a_failed_op_with_a_region_is_skipped_whole() -> None:
    text = """\
func.def @f(%a: i32) {
  scf.fi %a {
    %t = scalar.addi %a, %a : i32
  }
  scf.if %gone {
  } else {
  }
  func.return
}
"""
    assert [d.code for d in errors(text)] == ["PARSE/006", "PARSE/001"]


def test_suggestions() -> None:
    (found,) = errors(inside("%r = scalar.multi %a, %b : i32"))
    assert found.hint == "did you mean 'scalar.muli'?"


def test_signature_names() -> None:
    (found,) = errors("func.decl @f(%v: view<[%rows]xf32>)\n")
    assert found.code == "PARSE/022"


@pytest.mark.seed("F02")
def test_a_body_sees_only_its_own_values() -> None:
    """A value of another function is out of reach."""
    text = (
        "func.def @f(%a: i32) -> (i32) {\n  %outer = scalar.addi %a, %a : i32\n  func.return %outer : i32\n}\n\n"
        "func.def @g() -> (i32) {\n  func.return %outer : i32\n}\n"
    )
    (found,) = errors(text)
    assert found.code == "PARSE/001"
    assert (found.position() or ("", 0, 0))[1] == 7


def test_the_error_limit_stops_the_reader() -> None:
    text = "func.def @f() {\n" + "  %x = scalar.nope : i32\n" * 500 + "  func.return\n}\n"
    found = errors(text)
    assert found[-1].code == "PARSE/012"
    assert len(found) <= 60


@pytest.mark.parametrize(
    "text",
    [
        "func.def @f(",
        "func.def @f() {",
        "{",
        "}",
        "func.def",
        "%",
        "@x",
        '"',
        "#a",
        "#a = ",
        "func.def @f() -> (",
        "func.def @f() { %x = ",
        "func.def @f(%v: vector<4x",
        "func.def @f() {\n^",
        "check.case public @c {",
        "func.def @f(%a: i32) where [",
        "scf.for",
        "\x00",
        "é",
        "func.def @f() { scf.if",
    ],
)
def test_truncated_texts_are_diagnosed(text: str) -> None:
    assert errors(text)


def test_rendering_has_position_caret_and_hint() -> None:
    text = inside("%r = scalar.addi %a, %bb : i32")
    (found,) = errors(text)
    assert found.render() == (
        "t.loom:2:24: error: [PARSE/001] use of undefined value '%bb'\n"
        "    %r = scalar.addi %a, %bb : i32\n"
        "                         ^^^\n"
        "  hint: did you mean '%b'?"
    )
    record = found.to_json()
    assert record["error_id"] == "ERR_PARSE_001"
    assert record["params"] == {"value_name": "bb"}


def test_a_branch_outside_a_body_has_nowhere_to_go() -> None:
    with pytest.raises(LoomError) as caught:
        parse_module("cfg.br ^there\n")
    assert [d.code for d in caught.value.diagnostics] == ["PARSE/032"]
