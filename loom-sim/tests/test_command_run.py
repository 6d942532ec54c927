"""``loom-sim run``: results, reports and refusals."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amdgpu_compile import gpu_object, kernel_text, kernels_object, needs_clang, needs_llvm_mc
from command_files import COUNT, contents, expected_saxpy, groups_object, refused, saxpy_object, write_saxpy

from loom_sim.command.main import main


@pytest.mark.parametrize("processor", ["gfx942", "gfx1100", "gfx1200"])
def test_saxpy_from_the_compiler(processor: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = write_saxpy(tmp_path, processor)
    before = contents(tmp_path)
    assert main([*command, f"--save-arg=4={tmp_path / 'z.npy'}"]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "z.npy"), expected_saxpy())
    after = contents(tmp_path)
    del after["z.npy"]
    assert after == before
    text = capsys.readouterr().out
    assert f"saxpy on {processor}" in text
    assert "lanes, no fault\n" in text
    assert f"global memory: {8 * COUNT} bytes loaded, {4 * COUNT} bytes stored" in text


def test_report_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*write_saxpy(tmp_path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "loom.sim.run.v0"
    assert report["status"] == "ok"
    assert report["waves"] == 2 * -(-COUNT // 64)
    assert report["wave_size"] == 32
    assert sum(report["kinds"].values()) == report["wave_instructions"] == sum(report["instructions"].values())
    assert report["instructions"]["s_endpgm"] == report["waves"]
    assert report["kinds"]["global memory"] == 3 * report["waves"]
    assert report["traffic"]["global_stored"] == 4 * COUNT
    assert report["faults"] == []
    assert report["workgroups"] == [-(-COUNT // 64), 1, 1]
    assert report["workgroup_size"] == [64, 1, 1]
    assert report["strict"] is True
    assert "instructions_by_address" not in report


@needs_clang
@pytest.mark.parametrize("processor", ["gfx942", "gfx1100", "gfx1200"])
def test_foreign_kernel_with_barriers(processor: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "groups.hsaco").write_bytes(groups_object(processor))
    data = np.arange(512, dtype=np.float32)
    np.save(tmp_path / "a.npy", data)
    command = ["run", str(tmp_path / "groups.hsaco"), "--kernel=reduce", "--workgroups=4", "--workgroup-size=128"]
    command += [f"--arg={tmp_path / 'a.npy'}", "--arg=zeros:f32:4", f"--save-arg=1={tmp_path / 'sums.npy'}", "--json"]
    assert main(command) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "sums.npy"), data.reshape(4, 128).sum(axis=1))
    report = json.loads(capsys.readouterr().out)
    assert report["barriers"] > 0
    assert report["kinds"]["lds"] > 0
    assert report["traffic"]["lds_stored"] > 0


@needs_clang
def test_sizes_of_three_axes(tmp_path: Path) -> None:
    (tmp_path / "groups.hsaco").write_bytes(groups_object("gfx1100"))
    command = ["run", str(tmp_path / "groups.hsaco"), "--kernel=dims", "--workgroups=3,2,2", "--workgroup-size=8,4,3"]
    out = tmp_path / "o.npy"
    assert main([*command, "--arg=zeros:i32:6x8x24", "--arg=i32:24", f"--save-arg=0={out}"]) == 0
    z, y, x = np.indices((6, 8, 24))
    np.testing.assert_array_equal(np.load(out), x + 100 * y + 10000 * z)


@needs_clang
def test_dynamic_lds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "groups.hsaco").write_bytes(groups_object("gfx1100"))
    np.save(tmp_path / "a.npy", np.arange(128, dtype=np.int32))
    command = ["run", str(tmp_path / "groups.hsaco"), "--kernel=dynamic_lds", "--workgroup-size=128"]
    command += [f"--arg={tmp_path / 'a.npy'}", "--arg=null", "--arg=zeros:i32:128"]
    out = tmp_path / "o.npy"
    assert "lds_out_of_range" in refused([*command, f"--save-arg=2={out}"], capsys)
    assert not out.exists()
    assert main([*command, f"--save-arg=2={out}", "--dynamic-lds=512"]) == 0
    np.testing.assert_array_equal(np.load(out), np.arange(128)[::-1])
    capsys.readouterr()
    assert "no buffer (dynamic_shared_pointer)" in refused(
        [*_replaced(command, 1, "zeros:u8:1"), "--save-arg=1=t.npy"], capsys
    )


def test_arrays_keep_shape_type_and_order(tmp_path: Path) -> None:
    command = write_saxpy(tmp_path)
    shaped = np.asfortranarray(np.arange(COUNT, dtype=np.float32).reshape(20, 50))
    np.save(tmp_path / "x.npy", shaped)
    np.save(tmp_path / "y.npy", np.arange(COUNT, 0, -1, dtype=">f4"))
    np.save(tmp_path / "old.npy", np.zeros((20, 50), np.float32, order="F"))
    command[-1] = f"--arg={tmp_path / 'old.npy'}"
    assert main([*command, f"--save-arg=4={tmp_path / 'z.npy'}"]) == 0
    found = np.load(tmp_path / "z.npy")
    assert found.shape == (20, 50)
    np.testing.assert_array_equal(found.reshape(-1), expected_saxpy())
    assert not np.load(tmp_path / "old.npy").any()


def test_code_object_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = write_saxpy(tmp_path)
    command[1] = "-"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(saxpy_object())))
    assert main([*command, f"--save-arg=4={tmp_path / 'z.npy'}"]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "z.npy"), expected_saxpy())


def test_existing_output_is_replaced_only_on_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = write_saxpy(tmp_path)
    (tmp_path / "z.npy").write_bytes(b"old")
    before = contents(tmp_path)
    outputs = [f"--save-arg=4={tmp_path / 'z.npy'}", f"--trace={tmp_path / 'trace.json'}"]
    command[-1] = f"--arg=zeros:f32:{COUNT - 1}"
    message = refused([*command, *outputs], capsys)
    assert message.startswith("loom-sim: error: out_of_bounds: ")
    assert "global_store_b32" in message
    assert contents(tmp_path) == before
    command[-1] = f"--arg=zeros:f32:{COUNT}"
    assert main([*command, *outputs]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "z.npy"), expected_saxpy())


def test_fault_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = write_saxpy(tmp_path)
    command[-1] = "--arg=null"
    before = contents(tmp_path)
    assert main([*command, "--json"]) == 1
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert report["status"] == "fault"
    (fault,) = report["faults"]
    assert fault["kind"] == "out_of_bounds"
    assert fault["kernel"] == "saxpy"
    assert "global_store_b32" in fault["instruction"]
    assert captured.err.startswith("loom-sim: error: out_of_bounds")
    assert contents(tmp_path) == before


# A load whose result is used without a wait, and a loop without an end.
_NO_WAIT = "s_load_b64 s[4:5], s[0:1], 0x0\ns_add_u32 s4, s4, 1\ns_waitcnt lgkmcnt(0)\ns_endpgm"
_ENDLESS = "s_branch k\ns_endpgm"


@needs_llvm_mc
def test_strict_mode_and_step_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernels = [kernel_text(_NO_WAIT, "gfx1100", name="early"), kernel_text(_ENDLESS, "gfx1100", name="k")]
    path = tmp_path / "k.hsaco"
    path.write_bytes(kernels_object(kernels, "gfx1100"))
    common = ["--workgroup-size=32", "--arg=zeros:u32:32", "--arg=u32:0"]
    message = refused(["run", str(path), "--kernel=early", *common], capsys)
    assert "missing_wait" in message
    assert "lgkmcnt" in message
    assert main(["run", str(path), "--kernel=early", *common, "--no-strict"]) == 0
    assert "no fault" not in capsys.readouterr().out
    assert "step_budget" in refused(["run", str(path), "--kernel=k", *common, "--max-steps=1000"], capsys)


def _replaced(command: list[str], number: int, argument: str) -> list[str]:
    places = [k for k, text in enumerate(command) if text.startswith("--arg=")]
    changed = list(command)
    changed[places[number]] = f"--arg={argument}"
    return changed


@pytest.mark.parametrize(
    ("number", "argument", "message"),
    [
        (0, "i32:1000", "argument 0 (count)"),
        (1, "f64:2.5", "argument 1 (a)"),
        (1, "null", "argument 1 (a) is passed by value"),
        (0, "zeros:f32:1000", "argument 0 (count) is a value of 8 bytes, and this array has 4000"),
        (4, "f32:1.0", "argument 4 is a buffer, not a number"),
        (2, "missing.npy", "missing.npy: No such file or directory"),
        (4, "zeros:f32:99999999999999999999", "too large"),
    ],
)
def test_argument_that_does_not_fit(
    number: int, argument: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = write_saxpy(tmp_path)
    before = contents(tmp_path)
    outputs = [f"--trace={tmp_path / 'trace.json'}"]
    assert message in refused([*_replaced(command, number, argument), *outputs], capsys)
    assert contents(tmp_path) == before


@needs_clang
def test_source_types_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "scale.cl"
    source.write_text(
        "kernel void scale(global float *x, float a, uint n) {\n"
        "  uint i = __builtin_amdgcn_workitem_id_x();\n  if (i < n) x[i] *= a;\n}\n"
    )
    path = tmp_path / "scale.hsaco"
    path.write_bytes(gpu_object(source, "gfx1100", "2"))
    np.save(tmp_path / "x.npy", np.arange(8, dtype=np.float32))
    command = ["run", str(path), "--workgroup-size=32", f"--arg={tmp_path / 'x.npy'}"]
    out = tmp_path / "o.npy"
    assert "argument 1 is of type float, not i32" in refused([*command, "--arg=i32:2", "--arg=u32:8"], capsys)
    assert "argument 2 is of type uint, not f32" in refused([*command, "--arg=f32:2", "--arg=f32:8"], capsys)
    for two in ("f32:2", "u32:0x40000000"):
        assert main([*command, f"--arg={two}", "--arg=u32:8", f"--save-arg=0={out}"]) == 0
        np.testing.assert_array_equal(np.load(out), 2 * np.arange(8, dtype=np.float32))


def test_wrong_number_of_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = write_saxpy(tmp_path)
    assert "takes 5 arguments" in refused(command[:-1], capsys)
    assert "takes 5 arguments" in refused([*command, "--arg=u32:1"], capsys)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("--kernel=saxpi", "no kernel 'saxpi' in the code object; it has: saxpy"),
        ("--workgroup-size=32", "requires the workgroup size (64, 1, 1)"),
        ("--dynamic-lds=99999999", "bytes of LDS, the limit is"),
        ("--processor=gfx1200", "does not run on gfx1200"),
        ("--processor=gfx", "gfx"),
        ("--save-arg=4=missing/z.npy", "missing/z.npy: the directory does not exist"),
        ("--save-arg=4=folder.npy", "folder.npy: Is a directory"),
    ],
)
def test_launch_that_does_not_fit(
    change: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = write_saxpy(tmp_path)
    names = sorted(contents(tmp_path))
    if "folder.npy" in change:
        (tmp_path / "folder.npy").mkdir()
        names = sorted([*names, "folder.npy"])
    assert message in refused([*command, f"--trace={tmp_path / 'trace.json'}", change], capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == names


@needs_clang
def test_kernel_may_be_left_out_only_if_there_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [text for text in write_saxpy(tmp_path) if not text.startswith("--kernel")]
    assert main(command) == 0
    capsys.readouterr()
    (tmp_path / "groups.hsaco").write_bytes(groups_object("gfx1100"))
    command = ["run", str(tmp_path / "groups.hsaco")]
    assert "name a kernel with --kernel; the code object has: " in refused(command, capsys)
    assert "give --workgroup-size" in refused([*command, "--kernel=reduce"], capsys)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not an ELF file"),
        (b"\x7fELF", "the file ends inside the ELF header"),
        (b"plain text", "not an ELF file"),
    ],
)
def test_not_a_code_object(data: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.hsaco"
    path.write_bytes(data)
    for command in (["run", str(path)], ["kernels", str(path)], ["disasm", str(path)]):
        found = refused(command, capsys)
        assert message in found
        assert "bad.hsaco" in found
    assert "missing.hsaco: No such file" in refused(["run", str(tmp_path / "missing.hsaco")], capsys)


def _npy(header: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not an array",
        _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000,)}\n"),
        _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1" + "0" * 18 + ",)}\n"),
        _npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\n"),
        _npy("{'descr': '<f4', 'fortran_order': False, 'shape': ((\n"),
        _npy("__import__('os').getcwd()\n"),
    ],
)
def test_damaged_array(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = write_saxpy(tmp_path)
    (tmp_path / "x.npy").write_bytes(data)
    assert "x.npy: not a usable .npy file: " in refused(command, capsys)


def test_pickled_objects_are_not_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = write_saxpy(tmp_path)
    values: np.ndarray[Any, Any] = np.array([{}], dtype=object)
    np.save(tmp_path / "x.npy", values, allow_pickle=True)
    assert "x.npy: not a usable .npy file: " in refused(command, capsys)
