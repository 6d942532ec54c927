"""Binary modules in the commands: written by name or on demand, read wherever text is."""

from __future__ import annotations

from pathlib import Path

import pytest

from loom import api
from loom.tools import format as format_tool
from loom.tools import link as link_tool

ROOT = """\
func.decl @layer(%v: i32) -> (i32)

func.def public @entry(%v: i32) -> (i32) {
  %r = func.call @layer(%v) : (i32) -> (i32)
  func.return %r : i32
}
"""
LAYER = """\
func.decl @triple(%v: i32) -> (i32)

func.def public @layer(%v: i32) -> (i32) {
  %r = func.call @triple(%v) : (i32) -> (i32)
  func.return %r : i32
}

func.def public @unused(%v: i32) -> (i32) {
  func.return %v : i32
}
"""
KERNELS = """\
func.def public @triple(%v: i32) -> (i32) {
  %three = scalar.constant 3 : i32
  %r = scalar.muli %v, %three : i32
  func.return %r : i32
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("root", ROOT), ("layer", LAYER), ("kernels", KERNELS)):
        (tmp_path / f"{name}.loom").write_text(text)
    return tmp_path


def test_format_converts_both_ways(folder: Path) -> None:
    source, binary, back = folder / "layer.loom", folder / "layer.loombc", folder / "back.loom"
    assert format_tool.main([str(source), f"--output={binary}"]) == 0
    assert api.is_bytecode(binary.read_bytes())
    assert format_tool.main([str(binary), f"--output={back}"]) == 0
    assert back.read_text() == LAYER


def test_the_form_can_be_asked_for_whatever_the_name(folder: Path) -> None:
    out = folder / "layer.bin"
    assert format_tool.main([str(folder / "layer.loom"), "--to=bc", f"--output={out}"]) == 0
    assert api.is_bytecode(out.read_bytes())
    assert format_tool.main([str(out), "--from=bytecode", "--to=text", f"--output={folder / 'x.loombc'}"]) == 0
    assert (folder / "x.loombc").read_text() == LAYER


def test_a_file_of_the_other_form_is_diagnosed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    binary = folder / "layer.loombc"
    assert format_tool.main([str(folder / "layer.loom"), f"--output={binary}"]) == 0
    assert format_tool.main([str(folder / "layer.loom"), "--from=bc"]) == 1
    assert "[BYTECODE/001]" in capsys.readouterr().err
    assert format_tool.main([str(binary), "--from=text"]) == 1
    assert "[PARSE/003]" in capsys.readouterr().err
    before = binary.read_bytes()
    assert format_tool.main([str(binary), "--in-place"]) == 1
    assert binary.read_bytes() == before
    with pytest.raises(SystemExit):
        format_tool.main([str(folder / "layer.loom"), "--check", "--to=bytecode"])


def test_an_invalid_module_is_not_written(folder: Path) -> None:
    (folder / "bad.loom").write_text("func.def @f(%x: i32) -> (i64) {\n  func.return %x : i32\n}\n")
    assert format_tool.main([str(folder / "bad.loom"), f"--output={folder / 'bad.loombc'}"]) == 1
    assert not (folder / "bad.loombc").exists()


def test_a_damaged_file_ends_in_a_message(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    binary = folder / "layer.loombc"
    assert format_tool.main([str(folder / "layer.loom"), f"--output={binary}"]) == 0
    binary.write_bytes(binary.read_bytes()[:-3])
    assert format_tool.main([str(binary)]) == 1
    assert "layer.loombc: invalid byte range" in capsys.readouterr().err


@pytest.mark.seed("M05")
def test_a_partial_link_is_closed_later(folder: Path) -> None:
    partial, closed = folder / "partial.loombc", folder / "closed.loom"
    command = [str(folder / "root.loom"), f"--library={folder / 'layer.loom'}", "--root=@entry"]
    assert link_tool.main([*command, f"--output={partial}"]) == 1
    assert link_tool.main([*command, "--allow-unresolved", f"--output={partial}"]) == 0
    assert api.is_bytecode(partial.read_bytes())
    assert format_tool.main([str(folder / "kernels.loom"), f"--output={folder / 'kernels.loombc'}"]) == 0
    final = [str(partial), f"--library={folder / 'kernels.loombc'}", "--root=@entry", f"--output={closed}"]
    assert link_tool.main(final) == 0
    direct = api.link([folder / "root.loom"], [folder / "layer.loom", folder / "kernels.loom"], ["entry"])
    assert closed.read_text() == api.print(direct)
    assert set(api.load(closed).symbols()) == {"entry", "layer", "triple"}
