"""Which statements about the language have tests: docs/conformance.md, written from the tests themselves.

    python tools/conformance.py            write docs/conformance.md
    python tools/conformance.py --check    fail when it is not current, or when a test names an unknown statement

Statements and their ids are in docs/conformance-ids.txt. A test that shows one carries
``@pytest.mark.seed("F01", ...)``; a mark on a class or a ``pytestmark`` of a module holds for its tests. Sources are
only read, never imported, so nothing needs to be installed.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
STATEMENTS: Final = ROOT / "docs" / "conformance-ids.txt"
REPORT: Final = ROOT / "docs" / "conformance.md"
FOLDERS: Final = ("loom-*/tests", "tests")

HEADER: Final = """\
# Conformance

What the language promises, and the tests that show it. Written by `tools/conformance.py`; do not edit.

"""


class Statement(NamedTuple):
    """One line of the list."""

    id: str
    text: str
    chapter: str


class Shown(NamedTuple):
    """A test that carries marks."""

    path: str
    line: int
    name: str
    summary: str
    ids: tuple[str, ...]


def read_statements(text: str) -> list[Statement]:
    """The statements, in order. A comment line behind an empty line names the chapter that follows."""
    statements = []
    chapter = ""
    for line in text.splitlines():
        if line.startswith("#"):
            chapter = line.lstrip("# ")
        elif line.strip():
            id_, _, rest = line.partition(" ")
            statements.append(Statement(id_, rest.strip(), chapter))
    return statements


def read_tests(source: str, path: str) -> Iterator[Shown]:
    """The marked tests of a module."""
    tree = ast.parse(source, path)
    inherited: tuple[str, ...] = ()
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets):
            inherited += marks([node.value])
    yield from _tests_in(tree.body, path, "", inherited)


def _tests_in(body: Sequence[ast.stmt], path: str, prefix: str, inherited: tuple[str, ...]) -> Iterator[Shown]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _tests_in(node.body, path, f"{node.name}.", inherited + marks(node.decorator_list))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            ids = inherited + marks(node.decorator_list)
            if ids:
                described = ast.get_docstring(node) or node.name.removeprefix("test_").replace("_", " ")
                summary = described.split("\n\n")[0]
                yield Shown(path, node.lineno, prefix + node.name, " ".join(summary.split()), ids)


def marks(expressions: Sequence[ast.expr]) -> tuple[str, ...]:
    """The ids in every ``pytest.mark.seed(...)`` inside the expressions."""
    found: list[str] = []
    for expression in expressions:
        for node in ast.walk(expression):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.seed":
                for argument in node.args:
                    found.append(argument.value if _is_text(argument) else ast.unparse(argument))  # type: ignore[attr-defined]
    return tuple(found)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def collect(root: Path) -> list[Shown]:
    """All marked tests below the root, by path and line."""
    paths = sorted(path for pattern in FOLDERS for folder in root.glob(pattern) for path in folder.rglob("*.py"))
    return [test for path in paths for test in read_tests(path.read_text(), path.relative_to(root).as_posix())]


def unknown_ids(statements: Sequence[Statement], tests: Sequence[Shown]) -> list[str]:
    """A message for every mark that names no statement."""
    known = {statement.id for statement in statements}
    return [f"{t.path}:{t.line}: no statement '{id_}' ({t.name})" for t in tests for id_ in t.ids if id_ not in known]


def render(statements: Sequence[Statement], tests: Sequence[Shown]) -> str:
    """The text of docs/conformance.md."""
    by_id: dict[str, list[Shown]] = defaultdict(list)
    for test in tests:
        for id_ in dict.fromkeys(test.ids):
            by_id[id_].append(test)
    shown = sum(1 for statement in statements if by_id[statement.id])
    lines = [f"{shown} of {len(statements)} statements have a test."]
    chapter = ""
    for statement in statements:
        if statement.chapter != chapter:
            chapter = statement.chapter
            lines += ["", f"## {chapter}", "", "| id | statement | tests |", "|---|---|---|"]
        links = "<br>".join(f"[{_cell(t.summary)}](../{t.path})" for t in by_id[statement.id])
        lines.append(f"| {statement.id} | {_cell(statement.text)} | {links or 'none'} |")
    return HEADER + "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("[", "\\[").replace("]", "\\]")


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the report."""
    parser = argparse.ArgumentParser(description="List which statements about the language have tests.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the report is not current")
    arguments = parser.parse_args(argv)
    statements = read_statements(STATEMENTS.read_text())
    tests = collect(ROOT)
    problems = unknown_ids(statements, tests)
    text = render(statements, tests)
    if arguments.check:
        if not REPORT.exists() or REPORT.read_text() != text:
            problems.append(f"{REPORT.relative_to(ROOT)} is not current: run python tools/conformance.py")
    elif not problems:
        REPORT.write_text(text)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
