"""Formatting is done after one pass, and keeps comments, blank lines and names wherever they stand.

Canonical programs get comments, blank lines, other indentation and line breaks between tokens at random; a model of
the rules (language reference, part 1, sections 1.2 and 3.6) says what must come out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from loom.ir.core import Module
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import verify_module

ROOT = Path(__file__).resolve().parents[3]
# Programs with every operation of the core, but for the statements of pass pipelines, which are no operations as they
# are written and keep even a comment at their end.
FILES = [
    path for path in sorted((ROOT / "loom-core/tests/corpus").glob("*.loom")) if "pipeline {" not in path.read_text()
]
HEADER = "// Head."
COMMENTS = ("", "note", "  indented", "// more", "tab\there", '"quote', "naïve ≤", "{ % @ # ->", "trailing  ")


# -- generated modules -----------------------------------------------------------------------------------------------

STATEMENTS = (
    "{n} = scalar.addi %x, %x : i32",
    "{n} = scalar.constant -7 : i32",
    "{n} = index.constant 0x10 : index",
    "{n} = scf.select %c, %x, %x : i32",
    "{n} = vector.constant 1.5 : vector<4x2xf32>",
    "{n} = view.load %v[%i, 2] : view<[%i]x8xf32, align(2)> -> f32",
    "{n}, {n}b = scf.lookup %i {{\n0 = (%x, %c),\n2 = (%x, %c)\n}} default(%x, %c) : i32, i1",
)


@st.composite
def bodies(draw: st.DrawFn, depth: int, counter: list[int]) -> list[str]:
    """Lines of a block that uses the arguments of the function and defines names of its own."""
    lines: list[str] = []
    for _ in range(draw(st.integers(0, 4))):
        counter[0] += 1
        name = f"%{draw(st.sampled_from(('a', 'tmp-1', 'v$', '0')))}{counter[0]}"
        kind = draw(st.integers(0, len(STATEMENTS) + 3)) if depth < 3 else draw(st.integers(0, len(STATEMENTS) - 1))
        if kind < len(STATEMENTS):
            lines += STATEMENTS[kind].format(n=name).splitlines()
            continue
        inner = draw(bodies(depth + 1, counter))
        if kind == len(STATEMENTS):
            lines += ["scf.if %c {", *inner, "} else {", *draw(bodies(depth + 1, counter)), "}"]
        elif kind == len(STATEMENTS) + 1:
            header = (
                f"{name} = scf.for %k{counter[0]} = [%i to %i step %i](%acc{counter[0]} = %x : i32) -> (i32) unroll {{"
            )
            lines += [header, *inner, "scf.yield %x : i32", "}"]
        elif kind == len(STATEMENTS) + 2:
            lines += ["scf.switch %i {", "case 1 {", *inner, "}", "default {", "}", "}"]
        else:
            lines += [f"{name} = scf.while(%w = %x : i32) -> (i32) {{", *inner, "scf.condition %c, %x : i1, i32"]
            lines += [f"}} do(%z{counter[0]}: i32) {{", "scf.yield %x : i32", "}"]
    return lines


@st.composite
def modules(draw: st.DrawFn) -> str:
    """Canonical text of a valid module."""
    counter = [0]
    parts = []
    for number in range(draw(st.integers(1, 3))):
        head = f"func.def @f{number}(%x: i32, %c: i1, %i: index, %v: view<[%i]x8xf32, align(2)>) {{"
        body = draw(bodies(0, counter))
        if draw(st.booleans()):
            body += ["cfg.br ^next(%x: i32)", "^next(%y: i32):", *draw(bodies(1, counter))]
        parts.append("\n".join([head, *body, "func.return", "}"]))
        if draw(st.booleans()):
            parts.append(f"config.decl @key{number}.a : index")
    module = parse_module("\n".join(parts) + "\n")
    assert not verify_module(module)
    return print_module(module)


# -- the model -------------------------------------------------------------------------------------------------------


@attrs.define
class Line:
    """A line of canonical text with the comments and the blank line above it."""

    text: str
    comments: list[str]
    blank: bool

    @property
    def indent(self) -> str:
        return self.text[: len(self.text) - len(self.text.lstrip())]


def takes(line: Line, nesting: list[bool]) -> str:
    """What the comments above a line are: kept here, passed on to the next operation, or dropped at the end of a region.

    ``nesting`` says of the open braces whether they enclose a region; others belong to an operation.
    """
    text = line.text.strip()
    found = "passes" if re.match(r"case -?\d+ \{|default \{|-?\d+ = \(|#\w", text) else "keeps"
    if text.startswith("}"):
        found = "drops" if nesting.pop() else "passes"
    if text.endswith("{"):
        nesting.append(not re.search(r"scf\.(switch|lookup)", text))
    return found


def split(text: str) -> list[Line]:
    lines: list[Line] = []
    comments: list[str] = []
    blank = False
    for row in text.splitlines():
        if not row.strip():
            blank = True
        elif row.strip().startswith("//"):
            comments.append(row.strip())
        else:
            lines.append(Line(row, comments, blank))
            comments, blank = [], False
    return lines


def comment_line(text: str) -> str:
    return "// " + text if text else "//"


def gaps(row: str) -> list[int]:
    """Positions of the spaces between tokens: those outside of strings, behind the indentation."""
    inside = False
    found = []
    for at, char in enumerate(row):
        if char == '"' and row[at - 1] != "\\":
            inside = not inside
        elif char == " " and not inside and row[:at].strip():
            found.append(at)
    return found


@st.composite
def scattered(draw: st.DrawFn, base: str) -> tuple[str, str]:
    """A text with more trivia, and what formatting makes of it."""
    lines = split(base)
    out = [HEADER, ""]
    expected = [HEADER]
    carried: list[str] = []
    nesting: list[bool] = []
    for number, line in enumerate(lines):
        above: list[str] = []
        blank = line.blank
        module_level = not line.indent and not line.text.startswith(("}", "#", "^"))
        items: list[str | None] = [*([None] if line.blank else []), *line.comments]
        for _ in range(draw(st.sampled_from((0, 0, 0, 0, 1, 2)))):
            item = draw(st.none() | st.sampled_from(COMMENTS))
            items.append(item if item is None else "//" + item)
        for item in items:
            if item is None:
                out.append(draw(st.sampled_from(("", "  ", "\n\n"))))
                blank = True
            else:
                out.append(draw(st.sampled_from(("", " ", "\t"))) + item)
                above.append(item.removeprefix("//").removeprefix(" "))
        fate = takes(line, nesting)
        if fate == "drops":
            carried = []
        else:
            carried += above
        if fate == "keeps":
            if blank or module_level or number == 0:
                expected.append("")
            expected += [line.indent + comment_line(text) for text in carried]
            carried = []
        elif number == 0:
            expected.append("")
        expected.append(line.text)
        row = draw(st.sampled_from(("", " ", "\t   "))) + line.text.strip()
        if positions := gaps(row):
            inside: list[str] = []
            for at in sorted(draw(st.sets(st.sampled_from(positions), max_size=2)), reverse=True):
                text = draw(st.none() | st.sampled_from(COMMENTS))
                row = row[:at] + (" \n\t" if text is None else f" //{text}\n ") + row[at + 1 :]
                if text is not None:
                    inside.insert(0, text.removeprefix(" "))
            carried += inside
        if draw(st.booleans()) and draw(st.booleans()):
            text = draw(st.sampled_from(COMMENTS))
            row += " //" + text
            carried.append(text.removeprefix(" "))
        out.append(row)
    return "\n".join(out) + draw(st.sampled_from(("", "\n", "\n\n// last\n\n"))), "\n".join(expected) + "\n"


def check(pair: tuple[str, str]) -> None:
    text, expected = pair
    once = print_module(parse_module(text))
    assert once == expected
    assert print_module(parse_module(once)) == once


@settings(max_examples=50)
@given(modules().flatmap(scattered))
def test_trivia_in_generated_modules(pair: tuple[str, str]) -> None:
    check(pair)


def _stripped(text: str) -> str:
    """A file without its header, so that every file gets the same one."""
    return print_module(_without_header(text))


def _without_header(text: str) -> Module:
    module = parse_module(text)
    module.header = ()
    return module


@settings(max_examples=20)
@given(st.sampled_from(FILES).map(lambda path: _stripped(path.read_text())).flatmap(scattered))
def test_trivia_in_programs_with_every_operation(pair: tuple[str, str]) -> None:
    check(pair)


def _tokens(text: str) -> Iterator[str]:
    return (match.group() for match in re.finditer(r'//[^\n]*|(?:[^\s"]|"(?:[^"\\]|\\.)*")+', text))


@settings(max_examples=20)
@given(st.sampled_from(FILES).map(lambda path: path.read_text()), st.randoms(use_true_random=False))
def test_white_space_carries_no_meaning(text: str, random: Random) -> None:
    """Lines end anywhere between words: the canonical text is the same but for comments and blank lines."""
    loose = "".join(
        token + ("\n" if token.startswith("//") else random.choice((" ", "\n", "  \n\t"))) for token in _tokens(text)
    )
    printed = print_module(parse_module(loose))

    def words(source: str) -> list[str]:
        return [line for line in source.splitlines() if line.strip() and not line.strip().startswith("//")]

    assert words(printed) == words(text)
    assert print_module(parse_module(printed)) == printed
