"""What diagnostics are good for: suggestions, notes, several findings at once, no consequences of the first."""

from __future__ import annotations

import json

import pytest

from loom.ir.diagnostics import Diagnostic, LoomError, did_you_mean
from loom.text.parser import parse_module
from loom.verify.verifier import verify_module


def findings(text: str) -> list[Diagnostic]:
    try:
        return verify_module(parse_module(text, "t.loom"))
    except LoomError as error:
        return list(error.diagnostics)


def body(*lines: str) -> str:
    return (
        "func.def @f(%count: index, %word: i32, %flag: i1) {\n"
        + "".join(f"  {line}\n" for line in lines)
        + "  func.return\n}\n"
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (body("%z = scalar.addi %wrod, %word : i32"), "%word"),
        (body("%z = scalar.muly %word, %word : i32"), "scalar.muli"),
        (body("%z = scaler.muli %word, %word : i32"), "scalar.muli"),
        (body("kernal.return"), "kernel.return"),
        (body("%z = scalar.addi %word, %word : i23"), "i32"),
        (body("%z = scalar.addi %word, %word : vectr<4xi32>"), "vector"),
        ("func.decl @f(%v: vector<4xf23>)\n", "f32"),
        ("func.decl @f(%v: encoding<leyout>)\n", "layout"),
        ("func.decl @f(%v: view<4xf32, #encoding.layout.strided2<strides=[1]>>)\n", "encoding.layout.strided"),
        (body("%z = scalar.cmpi sgf, %word, %word : i32"), "sgt"),
        (body("%z = scalar.addi<nsv> %word, %word : i32"), "nsw"),
        (body("%z = scalar.bitfield.extractu %word {ofset = 1, width = 2} : i32 -> i8"), "offset"),
        (body("%z = scalar.assume %word [multiple_off(%word, 4)] : i32"), "multiple_of"),
        ("func.decl @helper()\n\n" + body("func.call @helpr() : ()"), "helper"),
        ("target.decl @machine\n\nfunc.decl target(@machin) @g()\n", "machine"),
        (body("cfg.br ^nxet", "^next:"), "^next"),
    ],
)  # fmt: skip
def test_misspelled_names_get_a_suggestion(text: str, hint: str) -> None:
    found = findings(text)
    assert found[0].hint == f"did you mean '{hint}'?", [d.render() for d in found]


@pytest.mark.parametrize(
    ("text", "code", "line", "label"),
    [
        ("func.decl @g()\n\nconfig.decl @g : i32\n", "SYMBOL/005", 1, "first defined here"),
        (body("%z = scalar.addi %word, %word : i32", "%z = scalar.addi %word, %word : i32"), "PARSE/002", 2, "'%z' is first defined here"),
        (body("cfg.br ^a", "^a:", "cfg.br ^a", "^a:"), "PARSE/033", 3, "it is first defined here"),
        ("func.decl @g(%x: i64)\n\n" + body("func.call @g(%word) : (i32)"), "TYPE/001", 1, "'@g' is declared here"),
        ("template.decl @t.f(%x: f32)\n\ntemplate.ukernel<@t.f> @u(%x: i32)\n", "TYPE/001", 1, "family '@t.f' is declared here"),
        ("func.decl @g()\n\n" + body("%z = config.get @g : i32"), "SYMBOL/003", 1, "'@g' is defined here"),
        (
            "func.def @f(%c: i1) {\n  cfg.cond_br %c, ^a, ^b\n^a:\n  %x = scalar.constant 1 : i32\n  cfg.br ^b\n^b:\n"
            "  %y = scalar.addi %x, %x : i32\n  func.return\n}\n",
            "DOMINANCE/001", 4, "'%x' is defined here",
        ),
    ],
)  # fmt: skip
def test_notes_point_at_the_other_place(text: str, code: str, line: int, label: str) -> None:
    (found,) = findings(text)
    assert found.code == code
    (note,) = found.related
    assert note.label == label
    record = found.to_json()["related_locations"][0]  # type: ignore[index]
    assert record["source_location"]["start_line"] == line
    assert f"t.loom:{line}:" in found.render()
    assert f"note: {label}" in found.render()


def test_independent_faults_are_reported_together() -> None:
    text = (
        "func.def @f(%a: i32, %b: i64) -> (i32) {\n"
        "  %x = scalar.addi %a, %b : i32\n"
        "  %y = scalar.extsi %b : i64 to i32\n"
        "  %z = func.call @gone(%a) : (i32) -> (i32)\n"
        "  func.return %b : i64\n}\n\n"
        "func.def pure @g(%v: view<4xf32>, %x: f32) {\n  view.store %x, %v[4] : f32, view<4xf32>\n  func.return\n}\n"
    )
    assert [(d.code, (d.position() or ("", 0, 0))[1]) for d in findings(text)] == [
        ("TYPE/001", 2),
        ("TYPE/004", 3),
        ("SYMBOL/002", 4),
        ("TYPE/009", 5),
        ("STRUCTURE/017", 8),
        ("SUBRANGE/004", 9),
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        # The result of a failed statement is known, and says nothing about its uses.
        (body("%z = scalar.nope %word : i32", "%y = scalar.addi %z, %z : i64", "%x = index.add %z, %z : index"), [2]),
        (body("%z, %y = scalar.addi %word, %word : i32", "%x = scalar.addf %y, %y : f32"), [2]),
        # An unknown operation with regions is skipped with them.
        (body("%z = scf.fi %flag -> (i32) {", "scf.yield %word : i32", "} else {", "scf.yield %word : i32", "}", "%y = scalar.addi %z, %word : i32"), [2]),
        # The lines of an operation that goes over several say nothing of their own.
        (body("func.call @g(%gone,", "%word,", "%count) : (i32,", "i32, index)", "%z = scalar.nope %word : i32"), [2, 6]),
        ("func.def @f(\n  %a: i33,\n  %b: i32\n) -> (i32) {\n  func.return %b : i32\n}\n\nfunc.decl @g(%a: i34)\n", [2, 8]),
        # A body that is not closed is one fault.
        ("func.def @f() {\n  func.return\n\nfunc.decl @g()\n", [4]),
        # A statement that ends too early leaves the next one alone.
        (body("%z = scalar.addi %word,", "%y = scalar.nope %word : i32"), [3, 3]),
    ],
)  # fmt: skip
def test_one_fault_is_one_finding(text: str, lines: list[int]) -> None:
    found = findings(text)
    assert [(d.position() or ("", 0, 0))[1] for d in found] == lines, [d.render() for d in found]


def test_the_verifier_stops_at_its_limit() -> None:
    lines = [f"%z{n} = scalar.addi %word, %count : i32" for n in range(300)]
    assert len(findings(body(*lines))) == 100


def test_json_lines_are_complete() -> None:
    """Every field that tools read is there, and what is empty is left out (language reference, part 3, section 12.3)."""
    (found,) = findings("func.decl @helper()\n\n" + body("func.call @helpr() : ()"))
    record = json.loads(json.dumps(found.to_json()))
    assert record == {
        "severity": "error",
        "error_id": "ERR_SYMBOL_002",
        "domain": "SYMBOL",
        "code": 2,
        "emitter": "verifier",
        "source_location": {
            "provenance": "exact_source",
            "filename": "t.loom",
            "start_line": 4,
            "start_column": 3,
            "end_line": 4,
            "end_column": 12,
        },
        "message": "'@helpr' is neither defined nor declared in this module",
        "fix_hint": "did you mean 'helper'?",
        "params": {"symbol_name": "helpr"},
    }


def test_suggestions_cost_little_in_large_programs() -> None:
    names = [f"%value{n}" for n in range(200_000)]
    assert did_you_mean("%vlaue7", names) is not None
    assert did_you_mean("%completely_different", names) is None
