"""The generated reference: complete, current, and with cells that follow from the code."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from types import ModuleType

import attrs
import pytest
from editor_programs import ROOT, load_tool

from loom.editor.pages import TRAITS, by_dialect, dialect_page
from loom.spec.registry import CORE_DIALECTS, all_ops, lookup


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("write_dialect_pages")


@pytest.fixture(scope="module")
def complete(tool: ModuleType) -> ModuleType:
    """The tool, where all packages that the coverage table asks are installed."""
    missing = tool._missing()
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    return tool


def test_the_pages_are_current(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["--check"]) == 0, capsys.readouterr().err


def test_stale_and_superfluous_pages_are_noticed_and_put_right(
    complete: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "docs" / "dialects", tmp_path / "dialects")
    monkeypatch.setattr(complete, "DOCS", tmp_path)
    (tmp_path / "dialects" / "view.md").write_text("old\n")
    (tmp_path / "dialects" / "gone.md").write_text("of a dialect that is no more\n")
    assert complete.main(["--check"]) == 1
    told = capsys.readouterr().err
    assert [name for name in ("view", "gone", "scf") if f"docs/dialects/{name}.md is not current" in told] == ["view", "gone"]
    assert "docs/coverage.md is not current" in told
    assert (tmp_path / "dialects" / "view.md").read_text() == "old\n"
    assert complete.main([]) == 0
    assert complete.main(["--check"]) == 0
    assert not (tmp_path / "dialects" / "gone.md").exists()


@pytest.mark.parametrize("dialect", CORE_DIALECTS)
@pytest.mark.seed("E09")
def test_every_operation_has_a_section_and_its_link_leads_there(dialect: str) -> None:
    specs = by_dialect(cls.spec for cls in all_ops().values())[dialect]
    page = dialect_page(dialect, specs, "loom-core", "a tool")
    headings = re.findall(r"^## `(.*)`$", page, re.MULTILINE)
    assert headings == [spec.name for spec in specs]
    links = re.findall(r"\]\(#(.*?)\)", page)
    assert links == [re.sub(r"[^\w-]", "", heading.lower()) for heading in headings]
    assert len(set(links)) == len(links)


@pytest.mark.seed("E09")
def test_a_section_says_what_the_declaration_says() -> None:
    cls = lookup("scf.for")
    assert cls is not None
    page = dialect_page("scf", [cls.spec], "loom-core", "a tool")
    assert "%results, ... = scf.for %iv = [%lower to %upper step %step]" in page
    assert "| `%lower` | operand | index or offset |" in page
    assert "| `unroll_schedule` | attribute, optional | unroll schedule: `linear`, `interleaved`, `recurrence` |" in page
    assert "| `{body}` | region | one block; ends in `scf.yield`, which may be left out when it is empty |" in page
    assert "One type: `%lower`, `%upper`, `%step`." in page


def test_every_trait_is_explained() -> None:
    used = {trait for cls in all_ops().values() for trait in cls.spec.traits}
    assert used <= set(TRAITS)


def test_cells_follow_from_rules_and_tests(complete: ModuleType) -> None:
    """An op that has everything, one that nothing implements, and one that is nothing to select or evaluate."""
    known = lookup("scalar.addi")
    assert known is not None
    # Put together here, so that the search for names in tests does not find it.
    name = "scalar." + "never_named"
    unknown = type("Unknown", (), {"name": name, "spec": attrs.evolve(known.spec, name=name)})
    broken = type("Broken", (), {"name": name, "spec": attrs.evolve(known.spec, name=name, format="$<no_such_directive>")})
    definition = lookup("func.def")
    cells = {
        column.title: [column.cell(cls) for cls in (known, unknown, broken, definition)]
        for column in (*complete.columns(), *complete.target_columns())
    }
    assert cells["parsed"] == ["✓", "✓", "", "✓"]
    for title in ("evaluated", "amdgpu", "x86", "spirv"):
        assert cells[title] == ["✓", "", "", "-"], title
    assert cells["tested"] == ["✓", "", "", "✓"]
