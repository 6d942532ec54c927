"""``loom-sim kernels`` and ``loom-sim disasm``."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from amdgpu_compile import needs_clang
from command_files import example_object, groups_object, refused, saxpy_object

from loom_sim.command.main import main

OBJDUMP = shutil.which("llvm-objdump-19")


def _run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


@pytest.fixture
def saxpy(tmp_path: Path) -> str:
    path = tmp_path / "saxpy.hsaco"
    path.write_bytes(saxpy_object())
    return str(path)


def test_kernels(saxpy: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = _run(["kernels", saxpy], capsys)
    assert text.startswith("gfx1100, 1 kernel\n\nsaxpy\n  wave32, ")
    assert "workgroup size: 64x1x1" in text
    assert "argument 0: value of 8 bytes (count)\n  argument 1: value of 4 bytes (a)\n  argument 2: buffer\n" in text


def test_kernels_for_programs(saxpy: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(_run(["kernels", saxpy, "--json"], capsys))
    assert document["processor"] == "gfx1100"
    (kernel,) = document["kernels"]
    assert kernel["name"] == "saxpy"
    assert kernel["required workgroup size"] == [64, 1, 1]
    assert [a["kind"] for a in kernel["arguments"]] == ["by_value"] * 2 + ["global_buffer"] * 3


@needs_clang
def test_foreign_kernels_in_code_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "groups.hsaco"
    path.write_bytes(groups_object("gfx942"))
    document = json.loads(_run(["kernels", str(path), "--json"], capsys))
    kernels = document["kernels"]
    assert [k["address"] for k in kernels] == sorted(k["address"] for k in kernels)
    by_name = {k["name"]: k for k in kernels}
    assert by_name["reduce"]["wave size"] == 64
    assert by_name["reduce"]["lds bytes"] == 512
    assert "argument 1: dynamic LDS" in _run(["kernels", str(path)], capsys)


def test_disassembly_of_one_kernel(saxpy: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = _run(["disasm", saxpy, "--kernel=saxpy"], capsys)
    assert text == _run(["disasm", saxpy], capsys)
    lines = text.splitlines()
    assert lines[0] == "saxpy:  // kernel, wave32"
    assert lines[-1].endswith("s_endpgm")


def test_branches_name_labels_in_front_of_where_they_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "softmax.hsaco"
    path.write_bytes(example_object("softmax"))
    lines = _run(["disasm", str(path)], capsys).splitlines()
    labels = {line.partition("// to ")[2] for line in lines if "s_cbranch" in line}
    assert labels
    for label in labels:
        following = lines[lines.index(f"{label}:") + 1]
        assert int(following.split()[0], 16) == int(label.removeprefix("L_"), 16)


def test_unknown_kernel(saxpy: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(["disasm", saxpy, "--kernel=nothing"], capsys)
    assert message == "loom-sim: error: no kernel 'nothing' in the code object; it has: saxpy\n"


_FILLER = ("s_code_end", "s_nop", "v_cndmask_b32_e32")
_OBJDUMP_LINE = re.compile(r"^\t(\S.*?)\s*// ([0-9A-F]{12}): ([0-9A-F ]+?)(?: <.*)?$")
_LINE = re.compile(r"^  0x([0-9a-f]+)  ([0-9a-f]{8}(?: [0-9a-f]{8})*) +(\S.*?)(?:  // to L_.*)?$")


def _same_spelling(text: str) -> str:
    """Text where two spellings are the same; the words are compared besides.

    LLVM names the patterns of ds_swizzle, and shows a zero in a literal (which a relocation left) like an inline zero.
    """
    text = re.sub(r"^(ds_swizzle_b32 .*) offset:.*", r"\1", text)
    return " ".join(re.sub(r"\b0x0$", "0", text).split())


@needs_clang
@pytest.mark.skipif(OBJDUMP is None, reason="llvm-objdump-19 is not installed")
@pytest.mark.parametrize("optimize", ["0", "2"])
@pytest.mark.parametrize("processor", ["gfx942", "gfx1100", "gfx1200"])
def test_same_instructions_as_llvm(
    processor: str, optimize: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Same addresses, words and text as LLVM's disassembler, but for filler, which it shows and we do not."""
    path = tmp_path / "groups.hsaco"
    path.write_bytes(groups_object(processor, optimize))
    assert OBJDUMP is not None
    listed = subprocess.run([OBJDUMP, "-d", str(path)], capture_output=True, text=True, check=True).stdout
    expected: dict[int, tuple[str, str]] = {}
    for line in listed.splitlines():
        match = _OBJDUMP_LINE.match(line)
        if match is not None and not match[1].startswith(_FILLER):
            expected[int(match[2], 16)] = (match[3].lower(), _same_spelling(match[1]))
    found: dict[int, tuple[str, str]] = {}
    for line in _run(["disasm", str(path)], capsys).splitlines():
        match = _LINE.match(line)
        if match is not None and not match[3].startswith(_FILLER):
            found[int(match[1], 16)] = (match[2], _same_spelling(match[3]))
    assert len(found) > 500
    assert found == expected
