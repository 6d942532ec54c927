"""Documents that are written from the sources are current, and their generators notice when they are not."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest


def load(root: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, root / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def conformance(root: Path) -> ModuleType:
    return load(root, "conformance")


@pytest.mark.parametrize("tool", ["conformance", "plugin_docs"])
def test_the_document_is_current(root: Path, tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert load(root, tool).main(["--check"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("tool", ["conformance", "plugin_docs"])
def test_a_stale_document_is_noticed(
    root: Path, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = load(root, tool)
    stale = tmp_path / "docs" / "page.md"
    stale.parent.mkdir()
    stale.write_text("old\n")
    monkeypatch.setattr(module, "REPORT", stale)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    assert module.main(["--check"]) == 1
    assert "docs/page.md is not current" in capsys.readouterr().err
    assert stale.read_text() == "old\n"


def test_marks_are_found_wherever_pytest_takes_them(conformance: ModuleType) -> None:
    source = '''
import pytest
pytestmark = [pytest.mark.seed("A01"), pytest.mark.slow]

def test_plain():
    """Says what it shows,
    on two lines.

    And more.
    """

class TestGroup:
    @pytest.mark.seed("B01", "B02")
    @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.seed("C01"))])
    def test_inside(self, x): ...

def helper(): ...
'''
    found = list(conformance.read_tests(source, "tests/test_x.py"))
    assert [(t.name, t.ids) for t in found] == [
        ("test_plain", ("A01",)),
        ("TestGroup.test_inside", ("A01", "B01", "B02", "C01")),
    ]
    assert [t.summary for t in found] == ["Says what it shows, on two lines.", "inside"]


def test_a_mark_without_a_statement_is_named(conformance: ModuleType) -> None:
    statements = conformance.read_statements("# Chapter\nF01 Something.\n")
    source = 'import pytest\n\n@pytest.mark.seed("F01", "F99", WRONG)\ndef test_it(): ...\n'
    tests = list(conformance.read_tests(source, "tests/test_x.py"))
    assert conformance.unknown_ids(statements, tests) == [
        "tests/test_x.py:4: no statement 'F99' (test_it)",
        "tests/test_x.py:4: no statement 'WRONG' (test_it)",
    ]


def test_statements_with_and_without_tests_are_listed(conformance: ModuleType) -> None:
    statements = conformance.read_statements("# First\nF01 Something | else.\n\n# Second\nG01 Nothing.\n")
    source = 'import pytest\n\n@pytest.mark.seed("F01")\ndef test_it():\n    """Shows [it]."""\n'
    text = conformance.render(statements, list(conformance.read_tests(source, "a/tests/test_x.py")))
    assert "1 of 2 statements have a test." in text
    assert "| F01 | Something \\| else. | [Shows \\[it\\].](../a/tests/test_x.py) |" in text
    assert "## Second\n\n| id | statement | tests |\n|---|---|---|\n| G01 | Nothing. | none |" in text


def test_the_list_of_statements_has_no_id_twice(conformance: ModuleType) -> None:
    statements = conformance.read_statements(conformance.STATEMENTS.read_text())
    ids = [statement.id for statement in statements]
    assert len(ids) == len(set(ids)) == 196
    assert all(statement.chapter and statement.text.endswith(".") for statement in statements)


@pytest.mark.parametrize(
    "page",
    ["README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/plugins.md", "docs/decisions.md", "docs/conformance.md", "docs/testing.md",
     "examples/README.md", "examples/target-plugin/README.md", "benchmarks/README.md"],
)  # fmt: skip
def test_links_lead_to_files(root: Path, page: str) -> None:
    """Every relative link of a page leads to something in the repository."""
    path = root / page
    targets = re.findall(r"(?<!\\)\]\(([^)#\s]+)", path.read_text())
    missing = [t for t in targets if "://" not in t and not (path.parent / t).exists()]
    assert missing == []


def test_the_architecture_names_files_that_exist(root: Path) -> None:
    """Every path in the text is one from the root, inside core, or inside the AMD GPU or simulator package."""
    core = root / "loom-core/src/loom"
    rooms = ("", "bytecode", "dialects/scalar", "ir", "link", "plugins", "spec", "specialize", "text", "verify")
    places = [root, *(core / room for room in rooms), root / "loom-target-amdgpu/src/loom_target_amdgpu",
              root / "loom-sim/src", root / "loom-sim/src/loom_sim/amdgpu"]  # fmt: skip
    text = (root / "docs/architecture.md").read_text()
    spans = re.findall(r"`([\w./-]+)`", text)
    paths = [s for s in spans if s.endswith(".py") or (s.startswith("loom-") and "/" in s)]
    assert len(paths) > 40
    assert [p for p in paths if not any((place / p).exists() for place in places)] == []
