"""``loom-sim``: help, usage errors and the values on the command line."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from command_files import contents, refused, write_saxpy

from loom_sim.command import arguments
from loom_sim.command.main import main


@pytest.mark.parametrize("command", [[], ["kernels"], ["disasm"], ["run"]])
def test_help_shows_examples_without_numpy(command: list[str]) -> None:
    code = (
        "import sys\nfrom loom_sim.command.main import main\n"
        f"try:\n    main({[*command, '--help']!r})\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "heavy = {'numpy', 'loom_target_amdgpu', 'pluggy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "examples:\n  loom-sim " in done.stdout


def test_listing_needs_no_numpy(tmp_path: Path) -> None:
    write_saxpy(tmp_path)
    code = (
        "import sys\nfrom loom_sim.command.main import main\n"
        f"assert main(['kernels', {str(tmp_path / 'saxpy.hsaco')!r}]) == 0\n"
        f"assert main(['disasm', {str(tmp_path / 'saxpy.hsaco')!r}]) == 0\n"
        "assert 'numpy' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--workgroups=0", "0 is not above 0"),
        ("--workgroups=1,2,3,4", "more than three sizes"),
        ("--workgroups=a", "'a' is not an integer"),
        ("--workgroup-size=64,", "'' is not an integer"),
        ("--max-steps=0", "0 is not above 0"),
        ("--dynamic-lds=-4", "-4 is negative"),
        ("--arg=2.0", "'2.0' is not a .npy file, TYPE:NUMBER, zeros:TYPE:SHAPE or null"),
        ("--arg=f31:2.0", "unknown type 'f31'; types: i8, "),
        ("--arg=i8:128", "128 is out of range of i8 (-128 to 127)"),
        ("--arg=u16:-1", "-1 is out of range of u16 (0 to 65535)"),
        ("--arg=i32:2.5", "'2.5' is not an integer"),
        ("--arg=f32:two", "'two' is not a number of type f32"),
        ("--arg=f32:1e39", "1e39 is out of range of f32"),
        ("--arg=f16:65520", "65520 is out of range of f16"),
        ("--arg=bf16:3.4e38", "3.4e38 is out of range of bf16"),
        ("--arg=zeros:f32", "zeros needs a shape"),
        ("--arg=zeros:f33:4", "unknown type 'f33'"),
        ("--arg=zeros:f32:4x-1", "-1 is negative"),
        ("--save-arg=z.npy", "'z.npy' is not N=FILE.npy"),
        ("--save-arg=4=z.txt", "'z.txt' does not end in .npy"),
        ("--save-arg=5=z.npy", "--save-arg 5: there are 5 arguments, numbered from 0"),
        ("--save-arg=1=z.npy", "--save-arg 1: this argument is not a buffer"),
        ("--save-arg=4=x.npy", "x.npy is an input and would be overwritten"),
        ("--save-arg=4=./y.npy", "./y.npy is an input and would be overwritten"),
        ("--trace=saxpy.hsaco", "saxpy.hsaco is an input and would be overwritten"),
        ("--trace-limit=5", "need --trace=FILE"),
        ("--trace-instructions", "need --trace=FILE"),
        ("--kern=saxpy", "unrecognized arguments"),
    ],
)
def test_usage_error(
    option: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = write_saxpy(tmp_path)
    before = contents(tmp_path)
    found = refused([*command, option], capsys, status=2)
    assert message in found
    assert found.startswith("usage: loom-sim")
    assert contents(tmp_path) == before


def test_two_outputs_to_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = [*write_saxpy(tmp_path), "--save-arg=4=z.npy", "--save-arg=2=z.npy"]
    assert "z.npy would be written twice" in refused(command, capsys, status=2)


@pytest.mark.parametrize("command", [[], ["ran"], ["run"], ["kernels"]])
def test_incomplete_command(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(command, capsys, status=2).startswith("usage: loom-sim")


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("i8:-128", b"\x80"),
        ("u8:0xff", b"\xff"),
        ("i16:-2", b"\xfe\xff"),
        ("u32:4294967295", b"\xff\xff\xff\xff"),
        ("i64:-1", b"\xff" * 8),
        ("u64:0x0123456789abcdef", bytes.fromhex("efcdab8967452301")),
        ("f16:1.5", struct.pack("<e", 1.5)),
        ("f32:0.1", struct.pack("<f", 0.1)),
        ("f32:-0x1.8p1", struct.pack("<f", -3.0)),
        ("f32:-inf", struct.pack("<f", float("-inf"))),
        ("f64:1e-320", struct.pack("<d", 1e-320)),
        ("bf16:1.0", b"\x80\x3f"),
        ("bf16:0x1.01p0", b"\x80\x3f"),  # a tie goes to even
        ("bf16:0x1.03p0", b"\x82\x3f"),
        ("bf16:0x1.010002p0", b"\x81\x3f"),
        ("bf16:inf", b"\x80\x7f"),
        ("bf16:nan", b"\xc0\x7f"),
    ],
)
def test_number(text: str, data: bytes) -> None:
    value = arguments.argument(text)
    assert isinstance(value, arguments.NumberArgument)
    assert value.data == data


def test_sizes() -> None:
    assert arguments.sizes("5") == (5, 1, 1)
    assert arguments.sizes("5,6,7") == (5, 6, 7)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("loom-sim ")
