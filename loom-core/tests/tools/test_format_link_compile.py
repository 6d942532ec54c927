"""The commands: exit status, messages, and that nothing partial is left behind."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from loom.tools import compile as compile_tool
from loom.tools import format as format_tool
from loom.tools import link as link_tool
from loom.tools import plugins as plugins_tool

GOOD = "func.def public @f(%a: i32) -> (i32) {\n  func.return %a : i32\n}\n"
LOOSE = "func.def   public @f(%a : i32)->(i32) { func.return %a : i32 }\n"
BAD = "func.def public @f(%a: i32) -> (i32) {\n  func.return %b : i32\n}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.loom").write_text(GOOD)
    (tmp_path / "loose.loom").write_text(LOOSE)
    (tmp_path / "bad.loom").write_text(BAD)
    return tmp_path


def test_format_prints_canonical_text(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert format_tool.main(["loose.loom"]) == 0
    assert capfdbinary.readouterr().out.decode() == GOOD


def test_format_check_lists_and_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert format_tool.main(["--check", "good.loom"]) == 0
    assert format_tool.main(["--check", "good.loom", "loose.loom", "bad.loom"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "loose.loom: not canonical\n"
    assert "bad.loom:2:15: error: [PARSE/001]" in captured.err
    assert "3 files: 1 not canonical, 1 unchanged, 1 failed" in captured.err


def test_format_in_place_never_touches_invalid_files(folder: Path) -> None:
    assert format_tool.main(["--in-place", "good.loom", "loose.loom", "bad.loom"]) == 1
    assert (folder / "loose.loom").read_text() == GOOD
    assert (folder / "bad.loom").read_text() == BAD
    assert sorted(p.name for p in folder.iterdir()) == ["bad.loom", "good.loom", "loose.loom"]


def test_format_reads_standard_input(folder: Path) -> None:
    script = "import sys; from loom.tools.format import main; sys.exit(main([]))"
    done = subprocess.run([sys.executable, "-c", script], input=LOOSE, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, GOOD)


@pytest.mark.parametrize("arguments", [["--check", "--in-place", "good.loom"], ["a", "b"], ["--no-such-flag"]])
def test_usage_errors_exit_with_two(folder: Path, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        format_tool.main(arguments)
    assert caught.value.code == 2


@pytest.mark.parametrize("content", [b"\xff\xfe", b"LOOM\x10", b"\x00" * 100, b'"', b"func.def public @f("])
def test_garbage_is_diagnosed(folder: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "x.loom").write_bytes(content)
    assert format_tool.main(["--check", "x.loom"]) == 1
    assert "error: [" in capsys.readouterr().err


def test_missing_and_unreadable_inputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert format_tool.main(["missing.loom"]) == 1
    assert "missing.loom: No such file or directory" in capsys.readouterr().err
    assert link_tool.main(["good.loom", "--library=missing.loom"]) == 1
    assert "missing.loom: No such file or directory" in capsys.readouterr().err
    assert format_tool.main(["."]) == 1


def test_link_writes_a_canonical_module(folder: Path) -> None:
    assert link_tool.main(["loose.loom", "--root=@f", "--output=out.loom"]) == 0
    assert (folder / "out.loom").read_text() == GOOD


def test_link_failures_leave_no_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "open.loom").write_text(
        "func.decl @g()\n\nfunc.def public @f() {\n  func.call @g() : ()\n  func.return\n}\n"
    )
    for arguments in (
        ["bad.loom"],
        ["open.loom", "--root=@f"],
        ["good.loom", "--root=@nope"],
        ["good.loom", "--target=no:such", "--root=@f"],
    ):
        assert link_tool.main([*arguments, "--output=out.loom"]) == 1
        assert capsys.readouterr().err.count("error:") == 1
        assert not (folder / "out.loom").exists()


def test_link_inspection(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert link_tool.main(["good.loom", "--root=@f", "--print-plan", "--json"]) == 0
    plan = json.loads(capfdbinary.readouterr().out)
    assert plan["plan"][0] == {
        "symbol": "f",
        "reason": "root",
        "role": "input",
        "identity": "global",
        "wanted_by": None,
    }
    assert link_tool.main(["good.loom", "--list-symbols"]) == 0
    assert capfdbinary.readouterr().out == b"@f: func.def exported (good.loom)\n"


def test_outputs_that_cannot_be_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "out").mkdir()
    assert link_tool.main(["good.loom", "--output=out"]) == 1
    assert "out: Is a directory" in capsys.readouterr().err
    assert link_tool.main(["good.loom", "--output=none/x.loom"]) == 1
    assert "none/x.loom: No such file or directory" in capsys.readouterr().err
    protected = folder / "protected.loom"
    protected.write_text("keep")
    protected.chmod(0o444)
    assert link_tool.main(["good.loom", "--output=protected.loom"]) == 1
    assert "protected.loom: Permission denied" in capsys.readouterr().err
    assert protected.read_text() == "keep"
    assert not [p for p in folder.iterdir() if p.name.startswith(".")]


def test_compile_needs_a_known_target_and_format(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_tool.main(["good.loom", "--target=no:such", "--output=x"]) == 1
    assert "error: [TARGET/044] no target named 'no:such'" in capsys.readouterr().err
    assert compile_tool.main(["good.loom", "--format=no-such", "--output=x"]) == 1
    assert "error: [TARGET/036] no emitter for the format 'no-such'" in capsys.readouterr().err
    assert not (folder / "x").exists()
    with pytest.raises(SystemExit) as caught:
        compile_tool.main(["good.loom"])
    assert caught.value.code == 2


def test_plugins_lists_core(capsys: pytest.CaptureFixture[str]) -> None:
    assert plugins_tool.main(["--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["plugins"]
    assert listed[0]["name"] == "core"
    assert "reference" in listed[0]["registered"]["devices"]


@pytest.mark.parametrize("tool", ["format", "link", "compile", "plugins", "check"])
def test_help_starts_without_heavy_imports(tool: str) -> None:
    """Printing help imports neither NumPy nor rich, and has examples."""
    script = (
        f"import sys\nfrom loom.tools.{tool} import build_parser\ntext = build_parser().format_help()\n"
        "assert 'examples:' in text\nprint([m for m in ('numpy', 'rich', 'pluggy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_formatting_starts_without_what_it_does_not_use(tmp_path: Path) -> None:
    """Reading and printing a module of core's dialects asks no plugin, compares no spellings and leaves attrs alone."""
    (tmp_path / "good.loom").write_text(GOOD)
    script = (
        "import sys\nfrom loom.tools.format import main\nassert main(['good.loom', '--check']) == 0\n"
        "print([m for m in ('numpy', 'pluggy', 'attrs', 'difflib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_the_interpreter_ends_without_looking_for_garbage(tmp_path: Path) -> None:
    """What a command has made is out of reach of the collector when the interpreter ends, and not before."""
    source = tmp_path / "m.loom"
    source.write_text("func.def public @f() {\n  func.return\n}\n")
    script = (
        "import atexit, gc, sys\nfrom loom.tools.format import main\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 1000))\n"
        "main(['--check', sys.argv[1]])\nprint(gc.get_freeze_count())"
    )
    done = subprocess.run([sys.executable, "-c", script, str(source)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "True"]


def test_every_tool_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    for tool in (format_tool, link_tool, compile_tool, plugins_tool):
        with pytest.raises(SystemExit) as stopped:
            tool.main(["--version"])
        assert stopped.value.code == 0
        assert capsys.readouterr().out.split()[1][0].isdigit()


def test_a_pipe_is_written_to_and_not_replaced(folder: Path) -> None:
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        assert link_tool.main(["good.loom", "--root=@f", "--to=text", f"--output={pipe}"]) == 0
        assert reader.stdout is not None
        assert reader.stdout.read().decode() == GOOD
    assert pipe.is_fifo()


def test_a_link_to_the_output_stays_a_link(folder: Path) -> None:
    (folder / "place").mkdir()
    (folder / "out.loom").symlink_to(folder / "place" / "real.loom")
    for _ in range(2):
        assert link_tool.main(["good.loom", "--root=@f", "--to=text", "--output=out.loom"]) == 0
        assert (folder / "out.loom").is_symlink()
        assert [p.name for p in (folder / "place").iterdir()] == ["real.loom"]
        assert (folder / "place" / "real.loom").read_text() == GOOD


def test_links_that_lead_to_each_other_are_no_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "one").symlink_to("other")
    (folder / "other").symlink_to("one")
    assert link_tool.main(["good.loom", "--root=@f", "--output=one"]) == 1
    assert capsys.readouterr().err == f"loom-link: error: one: {os.strerror(errno.ELOOP)}\n"
    assert (folder / "one").is_symlink()


def test_standard_output_by_name(folder: Path) -> None:
    code = "import sys; from loom.tools.link import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "good.loom", "--root=@f", "--to=text", "--output=/dev/stdout"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == GOOD
    (folder / "redirected").write_text("// before\n")
    with open(folder / "redirected", "a") as file:
        subprocess.run(command, stdout=file, check=True)
    assert (folder / "redirected").read_text() == "// before\n" + GOOD
    assert Path("/dev/stdout").is_symlink()
