"""``loom-link``: every option does what its help says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loom.tools import check as check_tool
from loom.tools import compile as compile_tool
from loom.tools import link as link_tool
from loom.tools import opt as opt_tool

PROGRAM = """\
func.decl @scale(%v: i32) -> (i32)

func.def public @entry(%v: i32) -> (i32) {
  %r = func.call @scale(%v) : (i32) -> (i32)
  func.return %r : i32
}

func.def public @other(%v: i32) -> (i32) {
  func.return %v : i32
}

check.case public @works {
  %v = check.literal value(2) : i32
  %r = func.call @scale(%v) : (i32) -> (i32)
  %six = check.literal value(6) : i32
  check.expect.equal actual(%r) expected(%six) : i32
  check.return
}
"""
LIBRARY = """\
config.decl @factor : %f: i32 where [range(%f, 1, 9)]

func.def public @scale(%v: i32) -> (i32) {
  %f = config.get @factor : i32
  %r = scalar.muli %v, %f : i32
  func.return %r : i32
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("program.loom").write_text(PROGRAM)
    Path("library.loom").write_text(LIBRARY)
    return tmp_path


def linked(*arguments: str) -> str:
    assert link_tool.main(["program.loom", "--library=library.loom", *arguments, "--output=out.loom"]) == 0
    return Path("out.loom").read_text()


def symbols(text: str) -> set[str]:
    return {line.split("@")[1].split("(")[0].split()[0] for line in text.splitlines() if line[:1].isalpha()}


def test_what_is_kept(folder: Path) -> None:
    assert symbols(linked("--root=@entry")) == {"entry", "scale", "factor"}
    assert symbols(linked("--root=@entry", "--include-input-exports")) == {"entry", "other", "scale", "factor"}
    assert symbols(linked("--root=@entry", "--include-exported-roots")) == {"entry", "other", "scale", "factor"}
    assert symbols(linked("--root=@entry", "--include-input-tests")) == {"entry", "scale", "factor", "works"}
    assert symbols(linked()) == {"entry", "other", "scale", "factor", "works"}
    assert symbols(linked("--strip-check")) == {"entry", "other", "scale", "factor"}


def test_configuration(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "config.def @factor = 3 : i32" in linked("--root=@entry", "--config=factor=3")
    Path("net.jsonc").write_text('{\n  // three is enough\n  "factor": 3,\n}\n')
    assert "config.def @factor = 3 : i32" in linked("--root=@entry", "--config-file=net.jsonc")
    assert "config.decl @factor" in linked("--root=@entry")
    base = ["program.loom", "--library=library.loom", "--root=@entry", "--output=failed.loom"]
    for arguments, message in (
        (["--require-resolved-config"], "'@factor' has no value"),
        (["--config=factor=12"], "its declaration says range(%f, 1, 9)"),
        (["--config=factor=x"], "[TYPE/005]"),
        (["--config=factor=1", "--config-file=net.jsonc"], "is given twice"),
    ):
        assert link_tool.main([*base, *arguments]) == 1
        assert message in capsys.readouterr().err
        assert not Path("failed.loom").exists()
    assert link_tool.main([*base, "--config=factr=3"]) == 0
    assert "did you mean 'factor'" in capsys.readouterr().err


def test_configuration_schema(folder: Path) -> None:
    schema = json.loads(linked("--root=@entry", "--print-config-schema"))
    assert [(row["name"], row["state"], row["type"]) for row in schema["configs"]] == [("factor", "decl", "i32")]


def test_roles_of_libraries(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("extra.loom").write_text("func.def public @extra() {\n  func.return\n}\n")
    assert symbols(linked("--root=@entry", "--root-library=extra.loom")) == {"entry", "scale", "factor", "extra"}
    unused = ["program.loom", "--library=library.loom", "--library=extra.loom", "--root=@entry"]
    assert link_tool.main([*unused, "--strict-deps"]) == 1
    assert "no input uses extra.loom directly" in capsys.readouterr().err
    assert link_tool.main(["program.loom", "--transitive-library=library.loom", "--root=@entry"]) == 1
    assert "as a transitive library" in capsys.readouterr().err


def test_dependency_report(folder: Path) -> None:
    linked("--root=@entry", "--strict-deps", "--dependency-report=deps.json", "--dependency-component=app")
    assert json.loads(Path("deps.json").read_text()) == {
        "component": "app",
        "dependencies": [
            {
                "library": "library.loom",
                "role": "library",
                "used": True,
                "symbols": [{"symbol": "scale", "kind": "definition", "user": "program.loom"}],
            }
        ],
    }


def test_listing(folder: Path) -> None:
    rows = json.loads(linked("--list-symbols", "--json"))["symbols"]
    assert {(row["symbol"], row["role"]) for row in rows} >= {("entry", "input"), ("factor", "library")}
    plan = linked("--root=@entry", "--print-plan")
    assert "@scale: dependency of @entry (library, private)\n" in plan


@pytest.mark.parametrize("option", ["--root=@entry", "--root-library=library.loom", "--include-input-exports"])
def test_merging_takes_no_roots(folder: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        link_tool.main(["program.loom", "--mode=merge", option])
    assert caught.value.code == 2


@pytest.mark.seed("B01")
def test_other_commands_bind_the_same_values(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    merged = linked("--include-input-tests")
    Path("all.loom").write_text(merged)
    assert opt_tool.main(["all.loom", "--config=factor=3", "--output=bound.loom"]) == 0
    assert "config.def @factor = 3 : i32" in Path("bound.loom").read_text()
    assert opt_tool.main(["all.loom", "--require-resolved-config"]) == 1
    assert "'@factor' has no value" in capsys.readouterr().err
    assert check_tool.main(["all.loom", "--device=reference", "--config=factor=3"]) == 0
    assert check_tool.main(["all.loom", "--device=reference", "--config=factor=4"]) == 1
    assert compile_tool.build_parser().parse_args(["all.loom", "--config=factor=3"]).config == ["factor=3"]


def test_archives_hold_modules_as_they_are(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A library of several modules: each keeps its private names, and a link takes what it needs from all of them."""
    helper = "func.def @helper() -> (i32) {{\n  %r = scalar.constant {0} : i32\n  func.return %r : i32\n}}\n\n"
    export = "func.def public @f{0}() -> (i32) {{\n  %r = func.call @helper() : () -> (i32)\n  func.return %r : i32\n}}\n"
    user = "".join(f"func.decl @f{k}() -> (i32)\n\n" for k in range(3)) + "func.def public @sum() -> (i32) {\n"
    user += "".join(f"  %f{k} = func.call @f{k}() : () -> (i32)\n" for k in range(3))
    user += "  %a = scalar.addi %f0, %f1 : i32\n  %b = scalar.addi %a, %f2 : i32\n  func.return %b : i32\n}\n"
    Path("user.loom").write_text(user)
    names = [f"part{k}.loom" for k in range(3)]
    for k, name in enumerate(names):
        Path(name).write_text((helper + export).format(k))
    assert link_tool.main([*names, "--mode=archive", "--output=parts.loombc"]) == 0
    archive = Path("parts.loombc").read_bytes()
    assert link_tool.main([*names[::-1], "--mode=archive", "--output=parts.loombc"]) == 0
    assert Path("parts.loombc").read_bytes() == archive
    assert link_tool.main(["user.loom", "--library=parts.loombc", "--root=@sum", "--output=a.loom"]) == 0
    libraries = [f"--library={name}" for name in names]
    assert link_tool.main(["user.loom", *libraries, "--root=@sum", "--output=b.loom"]) == 0
    assert Path("a.loom").read_text() == Path("b.loom").read_text()
    assert symbols(Path("a.loom").read_text()) >= {"sum", "helper", "helper$0", "helper$1"}
    assert check_tool.main(["parts.loombc", "--device=reference"]) == 1
    assert "the file has 3 modules, and one is needed here" in capsys.readouterr().err


def test_archives_are_bytecode(folder: Path) -> None:
    with pytest.raises(SystemExit):
        link_tool.main(["program.loom", "library.loom", "--mode=archive", "--to=text"])
