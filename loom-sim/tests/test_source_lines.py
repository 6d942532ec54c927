"""Where instructions come from, in faults, listings, traces and at breakpoints, for our own code and for clang's."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amdgpu_compile import CLANG, needs_clang
from command_files import EXAMPLES

from loom import api
from loom.tools.check import main as loom_check
from loom_sim import amdgpu
from loom_sim.amdgpu.debug import Action, Debugger, Stop
from loom_sim.amdgpu.trace import Timeline
from loom_sim.command.main import main

SHIFTED = """\
kernel.def export("shifted") @shifted() {
  %one = index.constant 1 : index
  %width = index.constant 64 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%width, %one, %one) : index
} launch(%x: buffer, %z: buffer) {
  %start = index.constant 0 : offset
  %xv = buffer.view %x[%start] : buffer -> view<64xf32>
  %zv = buffer.view %z[%start] : buffer -> view<64xf32>
  %i = kernel.workitem.id<x> : index
  %v = view.load %xv[%i] : view<64xf32> -> f32
  view.store %v, %zv[%i] : f32, view<64xf32>
  %last = index.constant 63 : index
  %j = index.sub %last, %i : index
  %w = view.load %zv[%j] : view<64xf32> -> f32
  view.store %w, %xv[%i] : f32, view<64xf32>
  kernel.return
}

check.case public @reads_what_others_write {
  %x = check.generate.iota offset(0.0) step(1.0) : tensor<64xf32>
  %z = check.generate.fill value(0.0) : tensor<64xf32>
  kernel.launch @shifted(%x, %z) : (tensor<64xf32>, tensor<64xf32>)
  check.expect.bitwise actual(%x) expected(%x) : tensor<64xf32>
  check.return
}
"""
STORES, LOADS_OTHERS = 11, 14
"""Lines of `SHIFTED` that race."""

C_SOURCE = """\
#define GROUP __builtin_amdgcn_workgroup_id_x()
#define ITEM __builtin_amdgcn_workitem_id_x()
__attribute__((amdgpu_kernel, visibility("protected"))) void add(__attribute__((address_space(1))) int *x, int n) {
  int i = GROUP * 64 + ITEM;
  int value = x[i];
  value += n;
  x[i] = value;
}
"""


def _object(source: str, name: str, target: str = "gfx1100") -> bytes:
    module = api.load_bytes(source.encode(), name)
    return api.compile(module, (), f"amdgpu:{target}", options={"debug_info": True}).result.primary.data


@cache
def _saxpy() -> bytes:
    return _object((EXAMPLES / "saxpy.loom").read_text(), "saxpy.loom")


def _saxpy_arguments(length: int = 100) -> list[Any]:
    x = np.arange(length, dtype=np.float32)
    return [100, 2.0, x, x.copy(), np.zeros(length, np.float32)]


def _fault(data: bytes, kernel: str, arguments: list[Any], **launch: Any) -> amdgpu.FaultRecord:
    with pytest.raises(amdgpu.SimulationFault) as caught:
        amdgpu.load(data).launch(kernel, arguments=arguments, **launch)
    return caught.value.record


def _write(folder: Path, data: bytes) -> str:
    path = folder / "k.hsaco"
    path.write_bytes(data)
    return str(path)


def _line(source: str, text: str) -> int:
    (number,) = [k for k, line in enumerate(source.splitlines(), 1) if text in line]
    return number


@pytest.mark.parametrize("target", ["gfx942", "gfx1100", "gfx1200"])
def test_a_fault_names_the_source(target: str) -> None:
    source = (EXAMPLES / "saxpy.loom").read_text()
    arguments = _saxpy_arguments()
    arguments[4] = np.zeros(99, np.float32)
    record = _fault(_object(source, "lib/saxpy.loom", target), "saxpy", arguments, workgroups=2, workgroup_size=64)
    line = _line(source, "view.store %zi")
    assert record.kind == "out_of_bounds"
    assert record.source is not None
    assert (record.source.file, record.source.line, record.source.column) == ("lib/saxpy.loom", line, 5)
    assert f"source lib/saxpy.loom:{line}:5" in str(record)


def test_without_a_line_table_there_is_no_source() -> None:
    module = api.load(EXAMPLES / "saxpy.loom")
    arguments = _saxpy_arguments()
    arguments[4] = np.zeros(99, np.float32)
    data = api.compile(module, (), "amdgpu:gfx1100").result.primary.data
    record = _fault(data, "saxpy", arguments, workgroups=2, workgroup_size=64)
    assert record.source is None
    assert "source" not in str(record)


def test_a_damaged_line_table_changes_nothing_else() -> None:
    data = bytearray(_saxpy())
    version = data.index(b"\x05\x00\x08\x00", data.index(b"Loom\0"))  # of the line table: version, sizes of addresses
    data[version] = 9
    arguments = _saxpy_arguments()
    amdgpu.load(bytes(data)).launch("saxpy", 2, 64, arguments)
    assert arguments[4][7] == 21.0
    arguments[4] = np.zeros(99, np.float32)
    record = _fault(bytes(data), "saxpy", arguments, workgroups=2, workgroup_size=64)
    assert record.kind == "out_of_bounds"
    assert record.source is None


def test_a_race_names_both_sources() -> None:
    arrays = [np.zeros(64, np.float32), np.zeros(64, np.float32)]
    record = _fault(_object(SHIFTED, "shifted.loom"), "shifted", arrays, workgroup_size=64)
    assert record.kind == "race"
    assert record.source is not None
    mine, other = (LOADS_OTHERS, STORES) if "reads what" in record.message else (STORES, LOADS_OTHERS)
    assert record.source.line == mine
    assert f"(shifted.loom:{other}:" in record.message


def test_checks_show_the_fault_in_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "shifted.loom"
    path.write_text(SHIFTED)
    arguments = [str(path), "--device=sim", "--target=amdgpu:gfx1100"]
    assert loom_check([*arguments, "--no-color"]) == 1
    lines = capsys.readouterr().out.splitlines()
    (number,) = [k for k, line in enumerate(lines) if "launch (sim): race: " in line]
    assert lines[number].strip().startswith((f"{path}:{LOADS_OTHERS}:8: ", f"{path}:{STORES}:3: "))
    shown, carets = lines[number + 1 : number + 3]
    operation = "view.load" if "view.load" in shown else "view.store"
    assert shown.index(operation) == carets.index("^")
    assert carets.count("^") == len(operation)
    assert loom_check([*arguments, "--json"]) == 1
    (sample,) = json.loads(capsys.readouterr().out)["samples"]
    place = sample["issue"]["source_location"]
    assert place["start_line"] in (LOADS_OTHERS, STORES)
    assert place["end_column"] - place["start_column"] == len(operation)
    assert sample["issue"]["excerpt"].splitlines()[0].strip() == shown.strip()


def test_listings_show_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = (EXAMPLES / "saxpy.loom").read_text()
    line = _line(source, "scalar.fmaf")
    path = _write(tmp_path, _saxpy())
    assert main(["disasm", "-l", path]) == 0
    listed = capsys.readouterr().out
    before = listed.partition("v_fma_f32")[0].splitlines()
    assert [text.strip() for text in before if text.startswith("  //")][-1] == f"// saxpy.loom:{line}:11"
    assert main(["disasm", path]) == 0
    plain = capsys.readouterr().out
    assert plain.splitlines() == [text for text in listed.splitlines() if not text.startswith("  //")]


def test_listings_without_a_line_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = api.load(EXAMPLES / "saxpy.loom")
    path = _write(tmp_path, api.compile(module, (), "amdgpu:gfx1100").result.primary.data)
    assert main(["disasm", "--line-numbers", path]) == 1
    assert "there is no line table; compile with -g" in capsys.readouterr().err


def test_counts_and_traces_show_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = _line((EXAMPLES / "saxpy.loom").read_text(), "scalar.fmaf")
    trace = tmp_path / "trace.json"
    command = ["run", _write(tmp_path, _saxpy()), "--workgroups=2", "--arg=i64:100", "--arg=f32:2.0"]
    command += ["--arg=zeros:f32:100"] * 3
    assert main([*command, "--counts"]) == 0
    shown = capsys.readouterr().out
    assert f"  // saxpy.loom:{line}:11\n" in shown
    assert main([*command, "--counts", "--json", f"--trace={trace}", "--trace-instructions"]) == 0
    document = json.loads(capsys.readouterr().out)
    (multiply,) = [r for r in document["instructions_by_address"] if r["text"].startswith("v_fma_f32")]
    assert multiply["source"] == f"saxpy.loom:{line}:11"
    events = json.loads(trace.read_text())["traceEvents"]
    sources = {e["args"]["source"] for e in events if e["name"].startswith("v_fma_f32")}
    assert sources == {f"saxpy.loom:{line}:11"}


def test_traces_without_sources_say_nothing() -> None:
    program, timeline = amdgpu.load(_saxpy()), Timeline()
    program.launch("saxpy", 2, 64, _saxpy_arguments(), observers=[timeline])
    assert all("source" not in event.get("args", {}) for event in timeline.events())


def test_breakpoints_at_lines() -> None:
    line = _line((EXAMPLES / "saxpy.loom").read_text(), "scalar.fmaf")
    debugger = Debugger(amdgpu.load(_saxpy()))
    (address,) = debugger.break_at_line("saxpy.loom", line)
    stops: list[Stop] = []

    def on_stop(stop: Stop) -> Action:
        stops.append(stop)
        return Action.STEP if len(stops) == 1 else Action.CONTINUE

    debugger.launch("saxpy", on_stop, 2, 64, _saxpy_arguments())
    assert stops[0].address == address
    assert [str(stop.source) for stop in stops[:2]] == [f"saxpy.loom:{line}:11"] * 2
    with pytest.raises(amdgpu.LaunchError, match=r"no instruction comes from saxpy\.loom:1; the code comes from: saxpy"):
        debugger.break_at_line("saxpy.loom", 1)


@needs_clang
@pytest.mark.parametrize("target", ["gfx942", "gfx1100", "gfx1200"])
@pytest.mark.parametrize("level", ["0", "2"])
def test_faults_of_other_compilers_name_the_source(target: str, level: str, tmp_path: Path) -> None:
    assert CLANG is not None
    (tmp_path / "add.c").write_text(C_SOURCE)
    flags = ["-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", f"-O{level}", "-g", "-nogpulib", "-ffreestanding"]
    subprocess.run([CLANG, *flags, "add.c", "-o", "add.hsaco"], check=True, capture_output=True, cwd=tmp_path)
    data = (tmp_path / "add.hsaco").read_bytes()
    record = _fault(data, "add", [np.zeros(100, np.int32), 3], workgroups=2, workgroup_size=64)
    assert record.kind == "out_of_bounds"
    assert record.source is not None
    assert (record.source.file, record.source.line) == ("add.c", _line(C_SOURCE, "value = x[i]"))
    debugger = Debugger(amdgpu.load(data))
    debugger.break_at_line("add.c", _line(C_SOURCE, "x[i] = value"))
    stops: list[Stop] = []

    def on_stop(stop: Stop) -> Action:
        stops.append(stop)
        return Action.CONTINUE

    debugger.launch("add", on_stop, 1, 64, [np.zeros(100, np.int32), 3])
    assert stops
    assert {stop.source.line for stop in stops if stop.source is not None} == {_line(C_SOURCE, "x[i] = value")}
