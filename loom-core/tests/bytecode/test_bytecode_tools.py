"""Binary modules in the commands: written by name or on demand, read wherever text is."""

from __future__ import annotations

from pathlib import Path

import pytest

from loom import api
from loom.bytecode import BytecodeFile
from loom.bytecode.container import BODIES, read_container
from loom.ir.diagnostics import LoomError
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


def archive(count: int) -> str:
    """Functions in groups of three that call one another."""
    parts = []
    for k in range(count):
        callee = f"%y = func.call @f{k - 1}(%x) : (i32) -> (i32)" if k % 3 else "%y = scalar.addi %x, %x : i32"
        parts.append(f"func.def public @f{k}(%x: i32) -> (i32) {{\n  {callee}\n  func.return %y : i32\n}}\n")
    return "\n".join(parts)


@pytest.mark.parametrize("as_library", [True, False])
def test_linking_decodes_what_the_root_reaches(as_library: bool) -> None:
    module = api.parse(archive(300))
    file = BytecodeFile.open(api.to_bytecode(module))
    linked = api.link([], [file], ["f101"]) if as_library else api.link([file], [], ["f101"])
    assert file.decoded == 3
    assert set(linked.symbols()) == {"f99", "f100", "f101"}
    whole = api.link([], [module], ["f101"]) if as_library else api.link([module], [], ["f101"])
    assert api.print(linked) == api.print(whole)


def test_providers_of_a_family_come_from_the_index(folder: Path) -> None:
    library = """\
template.decl @double(%v: i32) -> (i32)

template.def<@double> @by_addition(%v: i32) -> (i32) {
  %r = scalar.addi %v, %v : i32
  template.return %r : i32
}

func.def public @other(%v: i32) -> (i32) {
  func.return %v : i32
}
"""
    user = """\
template.decl @double(%v: i32) -> (i32)

func.def public @use(%v: i32) -> (i32) {
  %r = template.apply<@double>(%v) : (i32) -> (i32)
  func.return %r : i32
}
"""
    file = BytecodeFile.open(api.to_bytecode(api.parse(library)))
    linked = api.link([api.parse(user)], [file], ["use"])
    assert set(linked.symbols()) == {"double", "by_addition", "use"}
    assert file.decoded == 2


def test_symbols_are_listed_without_decoding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    binary = folder / "layer.loombc"
    assert format_tool.main([str(folder / "layer.loom"), f"--output={binary}"]) == 0
    assert link_tool.main([str(folder / "layer.loom"), "--list-symbols"]) == 0
    from_text = capsys.readouterr().out
    assert link_tool.main([str(binary), "--list-symbols"]) == 0
    assert capsys.readouterr().out == from_text
    assert "@layer: func.def exported" in from_text


def test_an_unreached_damaged_body_does_not_matter(folder: Path) -> None:
    data = bytearray(
        api.to_bytecode(api.parse(LAYER + "\n" + KERNELS.replace("public ", "").replace("triple", "last")))
    )
    _, end = read_container(bytes(data)).ranges[BODIES]
    data[end - 1] ^= 1
    file = BytecodeFile.open(bytes(data), "layer.loombc")
    api.link([api.parse(KERNELS)], [file], ["layer"])
    with pytest.raises(LoomError, match="@last"):
        file.module()
