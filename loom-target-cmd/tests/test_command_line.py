"""The installed command writes the files, or nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from loom.tools.compile import main as compile_main
from loom.tools.link import main as link_main
from loom_target_cmd.loomcmd import decode
from loom_target_cmd.manifest import read_manifest


@pytest.mark.seed("D03")
def test_link_and_compile_write_manifest_and_programs(shared: Path, tmp_path: Path) -> None:
    listings = shared / "seeds" / "listings"
    closed, manifest, commands = tmp_path / "closed.loom", tmp_path / "commands.json", tmp_path / "commands"
    libraries = [f"--library={listings / name}" for name in ("kernel.loom", "motif.loom")]
    root = "--root=@elementwise_transform"
    link = [str(listings / "model.loom"), *libraries, "--mode=link", root, "--to=text", f"--output={closed}"]
    assert link_main(link) == 0
    form = ["--format=loom-command", f"--output={manifest}", f"--emit-command-artifacts={commands}"]
    dump = tmp_path / "low.loom"
    assert compile_main([str(closed), root, *form, "--dump-ir-after=source-to-low", f"--dump-ir-output={dump}"]) == 0
    (record,) = read_manifest(manifest.read_bytes()).programs
    data = (commands / record.artifact).read_bytes()
    assert len(data) == record.byte_length
    assert decode(data).entry_count == 1
    assert [path.name for path in commands.iterdir()] == ["program-0.loomcmd"]
    assert "cmd.dispatch.direct<" in dump.read_text()


@pytest.mark.seed("B04")
def test_refused_program_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, commands = tmp_path / "open.loom", tmp_path / "commands"
    source.write_text(
        "kernel.entry.decl @entry(%dst: buffer)\n\n"
        "command.program.def public @main(%n: index) launch(%dst: buffer) {\n"
        "  kernel.dispatch @entry[%n](%dst) : [index](buffer)\n  command.return\n}\n"
    )
    manifest = tmp_path / "commands.json"
    form = ["--format=loom-command", f"--output={manifest}", f"--emit-command-artifacts={commands}"]
    assert compile_main([str(source), *form]) == 1
    assert f"{source}:4:3: error: [TARGET/032] workgroup count x of '@entry' must be exact" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["open.loom"]


def test_preparing_programs_needs_no_numpy(tmp_path: Path) -> None:
    """Start-up is a feature: neither loading the plugin nor compiling imports NumPy."""
    script = """\
import sys
from loom import api
text = '''command.program.def public @main() launch(%dst: buffer) {
  command.return
}
'''
module = api.parse(text)
api.verify(module)
assert not any(name.startswith("loom_target_cmd.") and name != "loom_target_cmd.plugin" for name in sys.modules)
api.compile(module, format="loom-command")
assert "numpy" not in sys.modules
assert "loom_target_cmd.emitter" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path)
