"""Reading golden files: cases, directives, annotations, run forms and templates."""

from __future__ import annotations

import pytest

from loom.golden.annotations import Input, match, read_annotation
from loom.golden.model import GoldenError, GoldenFile
from loom.golden.parse import parse_golden
from loom.golden.run_form import read_run
from loom.ir.diagnostics import Diagnostic, SourceFile, Span


def no_template(path: str) -> str:
    raise AssertionError(f"{path} is read")


def parse(text: str, **templates: str) -> GoldenFile:
    return parse_golden(text, "t.loom-test", lambda name: templates[name])


def fault(text: str, **templates: str) -> tuple[str, int | None]:
    with pytest.raises(GoldenError) as caught:
        parse(text, **templates)
    return str(caught.value), caught.value.line


# -- cases -----------------------------------------------------------------------------------------------------


def test_the_first_part_is_a_preamble_when_there_is_nothing_to_run() -> None:
    text = (
        "// RUN: verify\n// About these cases.\n\n// ==== one ====\nfunc.def @a() {\n}\n// ====\nfunc.def @b() {\n}\n"
    )
    file = parse(text)
    assert file.default.mode == "verify"
    assert [(c.index, c.title, c.name, c.run.mode) for c in file.cases] == [
        (0, "one", "one", "verify"), (1, "", "case 1", "verify"),
    ]  # fmt: skip
    assert not any(c.run_directive for c in file.cases)


def test_the_first_part_is_a_case_and_its_directives_are_inherited() -> None:
    text = (
        "// RUN: pass cse\n// REQUIRES: amdgpu, spirv\nfunc.def @a() {\n}\n// ====\nfunc.def @b() {\n}\n"
        "// ====\n// RUN: verify\n// REQUIRES: x86\nfunc.def @c() {\n}\n"
    )
    file = parse(text)
    assert [(c.run.mode, c.run.argument, c.requires) for c in file.cases] == [
        ("pass", "cse", ("amdgpu", "spirv")), ("pass", "cse", ("amdgpu", "spirv")), ("verify", "", ("x86",)),
    ]  # fmt: skip


def test_without_a_run_line_cases_are_round_trips() -> None:
    assert parse("func.def @a() {\n}\n").cases[0].run.mode == "roundtrip"


def test_directives_and_annotations_are_blank_in_the_input_and_lines_keep_their_numbers() -> None:
    text = (
        "// RUN: verify\n\n// A comment that stays.\nfunc.def @a() {\n  // ERROR@+1: PARSE/006\n  scalar.addq\n}\n"
        "// ----\nexpected\n  text\n"
    )
    (case,) = parse(text).cases
    assert case.input == "// A comment that stays.\nfunc.def @a() {\n\n  scalar.addq\n}\n"
    assert case.first_line == 3
    assert case.expected == "expected\n  text\n"
    assert [(a.target_line, a.line) for a in case.annotations] == [(6, 5)]
    assert case.expected_separator_range is not None
    assert text[slice(*case.expected_separator_range)] == "// ----\n"
    assert text[slice(*case.annotations[0].range)] == "  // ERROR@+1: PARSE/006\n"
    assert text[slice(*case.input_range)].endswith("}\n")


def test_line_ends_of_other_systems_are_read() -> None:
    (case,) = parse("// RUN: verify\r\nfunc.def @a() {\r\n}\r\n// ----\r\n").cases
    assert (case.run.mode, case.input, case.expected) == ("verify", "func.def @a() {\n}\n", "")


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("", "the file has no case", None),
        ("// RUN: verify\n", "the file has no case", None),
        ("// RUN: verify\n// RUN: roundtrip\nx\n", "RUN is given twice", 2),
        ("// CASE: a\nx\n", "cases have no CASE directive; name one behind '// ===='", 1),
        ("// RNU: verify\nx\n", "there is no directive 'RNU'; did you mean 'RUN'?", 1),
        ("// RUN:verify\nx\n", "a directive is written '// RUN: value'", 1),
        ("// RUN:\nx\n", "a directive is written '// RUN: value'", 1),
        ("  // RUN: verify\nx\n", "a directive is written '// RUN: value'", 1),
        ("x\n// RUN: verify\n", "RUN stands in front of the input of a case", 2),
        ("x\n// ----\ny\n// XFAIL: no\n", "XFAIL stands in front of the input of a case", 4),
        ("x\n// ----\n// ERROR: PARSE/001\n", "an annotation stands above the expected section", 3),
        ("x\n// ----\ny\n// ----\n", "a case has one expected section", 4),
        ("// XFAIL: no\n// ====\nx\n", "XFAIL stands in a case", 1),
        ("x\n// ====\n// TEMPLATE: a\nx\n", "TEMPLATE stands in front of the first case", 3),
        ("// TEMPLATE-EXCLUDE: @a why\nx\n", "TEMPLATE-EXCLUDE needs a TEMPLATE", 1),
        ("// REQUIRES: a b\nx\n", "REQUIRES lists names separated by commas", 1),
        ("// INPUT: elf\nx\n", "there is no input format 'elf'; known are loom, bytecode", 1),
        ("// ERROR@2: X/1\nx\n", "an offset has a sign: ERROR@+2", 1),
        ("// ERROR@+1: X/\nx\n", "'X/' needs a number", 1),
        ("// ERROR: X/1 {a}\nx\n", 'a parameter is written name="value"', 1),
        ("// ERROR: X/1 {a=1}\nx\n", "expected a text in quotes, found 1", 1),
        ('// ERROR: X/1 {a="1" b="2"}\nx\n', "parameters are separated by commas and end with '}'", 1),
        ('// ERROR: X/1 {a="1", a="2"}\nx\n', "the parameter 'a' is given twice", 1),
        ("// ERROR: X/1 text\nx\n", "expected a text in quotes, found text", 1),
        ('// ERROR: "1" "2" "3" "4" "5"\nx\n', "an annotation has at most 4 texts", 1),
        ('// ERROR: {a="", b="", c="", d="", e="", f="", g="", h="", i=""}\nx\n',
         "an annotation has at most 8 parameters", 1),
    ],
)  # fmt: skip
def test_malformed_files_are_refused_with_the_line(text: str, message: str, line: int | None) -> None:
    assert fault(text) == (message, line)


# -- run forms -------------------------------------------------------------------------------------------------


def test_run_forms() -> None:
    form = read_run("with-checks pass a,b{opt = v, n = 2},c target=amdgpu:gfx1100", 1)
    assert (form.mode, form.argument, form.with_checks) == ("pass", "a,b{opt = v, n = 2},c", True)
    assert form.option("target") == "amdgpu:gfx1100"
    form = read_run("emit link-plan root=@a library=x.loom root=@b", 1)
    assert (form.argument, form.every("root"), form.option("library")) == ("link-plan", ("@a", "@b"), "x.loom")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "RUN needs a mode: roundtrip, verify, pass, pass-report, format, emit, compile-report"),
        ("with-checks", "RUN needs a mode: roundtrip, verify, pass, pass-report, format, emit, compile-report"),
        ("verfy", "there is no mode 'verfy'; did you mean 'verify'?"),
        ("pass", "'pass' needs passes such as canonicalize,cse"),
        ("verify all", "'verify' takes no argument, but 'all' is given"),
        ("verify target=a:b", "'verify' takes no option 'target'"),
        ("pass cse targt=a:b", "there is no option 'targt'; did you mean 'target'?"),
        ("pass cse target=", "the option 'target' needs a value"),
        ("pass cse target=a:b target=c:d", "the option 'target' is given twice"),
    ],
)
def test_malformed_run_forms(text: str, message: str) -> None:
    with pytest.raises(GoldenError) as caught:
        read_run(text, 7)
    assert (str(caught.value), caught.value.line) == (message, 7)


# -- annotations -----------------------------------------------------------------------------------------------


def diagnostic(code: str, line: int | None, message: str = "a message", **params: object) -> Diagnostic:
    source = SourceFile("x", "\n" * 20)
    return Diagnostic(code, message, Span(source, line - 1, line - 1) if line is not None else None, params)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("// ERROR@+4:", True),
        ("// ERROR@+4: TYPE", True),
        ("// ERROR@+4: TYPE/001", True),
        ('// ERROR@+4: TYPE/001 {a="1", flag="true"} "mess" "age"', True),
        ('// ERROR@+4: "a message"', True),
        ("// ERROR@+3:", False),
        ("// WARNING@+4:", False),
        ("// ERROR@+4: PARSE", False),
        ("// ERROR@+4: TYPE/002", False),
        ('// ERROR@+4: {a="2"}', False),
        ('// ERROR@+4: {b="1"}', False),
        ('// ERROR@+4: "a message" "other"', False),
    ],
)
def test_everything_an_annotation_says_must_hold(text: str, fits: bool) -> None:
    """The first line of the input is line 3 of the file here."""
    annotation = read_annotation(text, 1, (0, 0))
    assert annotation is not None
    matched, left = match([annotation], [diagnostic("TYPE/001", 3, a=1, flag=True)], Input("x", 3))
    assert (matched[0] is not None, len(left)) == ((True, 0) if fits else (False, 1))


def test_each_annotation_consumes_the_first_diagnostic_that_fits() -> None:
    first, second = diagnostic("TYPE/001", 1), diagnostic("TYPE/002", 1)
    both = [read_annotation("// ERROR: TYPE/001", 1, (0, 0)), read_annotation("// ERROR: TYPE", 1, (0, 0))]
    assert match([a for a in both if a], [first, second], Input("x", 1)) == ([first, second], [])
    assert match([a for a in reversed(both) if a], [first, second], Input("x", 1)) == ([first, None], [second])


def test_a_diagnostic_without_a_place_is_about_any_line() -> None:
    annotation = read_annotation("  // ERROR@-2: BYTECODE/001", 9, (0, 0))
    assert annotation is not None
    assert annotation.target_line == 7
    assert match([annotation], [diagnostic("BYTECODE/001", None)], Input("x", 1))[1] == []
    assert match([annotation], [diagnostic("BYTECODE/001", 1)], Input("x", 1))[1] != []
    # In another source, such as a library, there is no line of this file either.
    assert match([annotation], [diagnostic("BYTECODE/001", 1)], Input("y", 1))[1] == []


@pytest.mark.parametrize("text", ["// ERRORS: x", "// an ERROR: x", "x // ERROR: PARSE/001", "// NOTE: x", "// ERROR"])
def test_other_comments_are_no_annotations(text: str) -> None:
    assert read_annotation(text, 1, (0, 0)) is None


# -- templates -------------------------------------------------------------------------------------------------

TEMPLATE = "func.def @a() {\n}\n// ====\nfunc.def public @b() {\n  // ERROR: X/1\n}\n// ====\nfunc.def @c() {\n}\n"


def test_a_template_gives_its_inputs_to_local_expectations() -> None:
    text = (
        "// RUN: verify\n// TEMPLATE: t\n// TEMPLATE-EXCLUDE: @c not here\n"
        "// ==== @b\n// ----\nfrom b\n// ==== @a\n// RUN: roundtrip\n// ----\nfrom a\n"
    )
    b, a = parse(text, t=TEMPLATE).cases
    assert (b.input.splitlines()[0], b.expected, b.run.mode) == ("func.def public @b() {", "from b\n", "verify")
    assert (b.first_line, b.annotations[0].target_line) == (4, 5)
    assert (a.input.splitlines()[0], a.run.mode, a.is_from_template) == ("func.def @a() {", "roundtrip", True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("// ==== @a\n// ==== @b\n", "no case for @c of the template; exclude it with a reason otherwise"),
        ("// ==== @a\n// ==== @d\n", "'// ==== @symbol' names a case of the template (@a, @b, @c)"),
        ("// ==== a\n// ----\n", "'// ==== @symbol' names a case of the template (@a, @b, @c)"),
        ("// ==== @a\nfunc.def @a() {\n}\n", "the input of @a comes from the template; give none here"),
        ("// TEMPLATE-EXCLUDE: @a\n// ==== @b\n", "excluding @a needs a reason"),
        ("// TEMPLATE-EXCLUDE: @z gone\n// ==== @b\n", "the template has no case '@z'"),
        ("// TEMPLATE-EXCLUDE: @a gone\n// ==== @a\n", "@a is excluded"),
    ],
)
def test_templates_and_files_fit_together(text: str, message: str) -> None:
    assert fault(f"// TEMPLATE: t\n{text}", t=TEMPLATE)[0] == message
