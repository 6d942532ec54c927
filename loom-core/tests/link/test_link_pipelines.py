"""Pass pipelines in links: those of inputs stay, those of libraries come with who calls them."""

from __future__ import annotations

import pytest

from loom import api
from loom.ir.core import Module
from loom.link.linker import LinkOptions, link

CODE = "func.def public @f(%v: i32) -> (i32) {\n  func.return %v : i32\n}\n\n"
CALLS = "pass.pipeline<func> @outer pipeline {\n  call @inner\n}\n"
INNER = "pass.pipeline<func> @inner pipeline {\n  cse\n}\n\n"
OTHER = "pass.pipeline<func> @other pipeline {\n  dce\n}\n"


def linked(form: str, *texts: str, **options: object) -> list[str]:
    """The pipelines in the result of linking the first text against the others."""
    modules: list[Module] = [api.parse(text, f"m{n}.loom") for n, text in enumerate(texts)]
    members = modules if form == "text" else [api.open_bytes(api.to_bytecode(m), m.name) for m in modules]
    result = link(members[:1], members[1:], LinkOptions(roots=("f",), **options)).module  # type: ignore[arg-type]
    api.verify(result)
    return sorted(str(op.attribute("symbol")) for op in result.body if op.name == "pass.pipeline")


@pytest.mark.parametrize("form", ["text", "bytecode"])
def test_pipelines_of_an_input_stay(form: str) -> None:
    assert linked(form, CODE + INNER + CALLS + OTHER) == ["inner", "other", "outer"]


def test_pipelines_of_a_library_do_not() -> None:
    assert linked("text", CODE, INNER + OTHER) == []


def test_pipelines_stay_when_a_target_prunes() -> None:
    from loom.plugins.records import TargetProfile

    target = TargetProfile("test", "a", "test.core", {}, "none", ("test.target", "a"))
    assert linked("text", CODE + OTHER, target=target) == ["other"]
