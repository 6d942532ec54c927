"""Timelines and execution counts."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_clang, needs_llvm_mc
from command_files import COUNT, expected_saxpy, groups_object, refused, saxpy_object, write_saxpy

from loom_sim import amdgpu
from loom_sim.amdgpu.trace import Timeline
from loom_sim.amdgpu.trace_counts import ExecutionCounts
from loom_sim.command.main import main

Event = dict[str, Any]


def _saxpy(observer: Timeline | ExecutionCounts, count: int = COUNT) -> amdgpu.LaunchReport:
    x = np.arange(COUNT, dtype=np.float32)
    y = np.arange(COUNT, 0, -1, dtype=np.float32)
    z = np.zeros(COUNT, np.float32)
    program = amdgpu.load(saxpy_object())
    groups = -(-COUNT // 64)
    report = program.launch("saxpy", groups, 64, [count, 2.5, x, y, z], observers=[observer])
    np.testing.assert_array_equal(z[:count], expected_saxpy()[:count])
    return report


def _rows(events: list[Event]) -> dict[tuple[int, int], list[Event]]:
    rows: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            rows[event["pid"], event["tid"]].append(event)
    return rows


def _check_nesting(row: list[Event]) -> None:
    """Slices of one row are apart or one inside the other, as viewers need them."""
    open_until: list[int] = []
    for event in sorted(row, key=lambda e: (e["ts"], -e["dur"])):
        while open_until and open_until[-1] <= event["ts"]:
            open_until.pop()
        end = event["ts"] + event["dur"]
        assert event["dur"] > 0
        assert not open_until or end <= open_until[-1], event
        open_until.append(end)


def test_every_wave_has_a_row_with_all_it_did() -> None:
    timeline = Timeline()
    report = _saxpy(timeline)
    document = json.loads(timeline.to_json(kernel="saxpy"))
    assert document["otherData"]["kernel"] == "saxpy"
    assert document["otherData"]["slices left out"] == 0
    events = document["traceEvents"]
    rows = _rows(events)
    assert len(rows) == report.waves
    assert sum(e["dur"] for row in rows.values() for e in row) == report.wave_instructions
    for row in rows.values():
        _check_nesting(row)
    names = {(e["pid"], e.get("tid")): e["args"]["name"] for e in events if e["ph"] == "M"}
    assert names[1, None] == "workgroup 0"
    assert names[2, 4] == "wave 1"
    ends = [e for e in events if e["ph"] == "i"]
    assert {(e["pid"], e["tid"]) for e in ends} == set(rows)
    for end in ends:
        last = max(rows[end["pid"], end["tid"]], key=lambda e: e["ts"])
        assert end["ts"] == last["ts"] + last["dur"]


def test_instructions_lie_inside_their_blocks() -> None:
    timeline = Timeline(instructions=True)
    report = _saxpy(timeline)
    rows = _rows(timeline.events())
    texts = 0
    for row in rows.values():
        _check_nesting(row)
        single = [e for e in row if not e["name"].startswith("0x")]
        texts += len(single)
        assert all(e["dur"] == 1 for e in single)
    assert texts == report.wave_instructions
    fused = [e for row in rows.values() for e in row if e["name"].startswith("v_fma_f32")]
    assert sum(e["args"]["active lanes"] for e in fused) == COUNT


@pytest.mark.parametrize("instructions", [False, True])
def test_the_bound_holds_and_nothing_is_lost_silently(instructions: bool) -> None:
    whole = Timeline(instructions=instructions)
    _saxpy(whole)
    for limit in (1, 7, whole.recorded - 1, whole.recorded):
        cut = Timeline(limit, instructions=instructions)
        _saxpy(cut)
        assert cut.recorded == limit
        assert cut.recorded + cut.dropped == whole.recorded
        events = cut.events()
        assert len(events) <= 4 * limit + 1
        marks = [e for e in events if e["name"].startswith("the trace is cut here")]
        assert len(marks) == (limit < whole.recorded)
        if marks:
            assert f"{cut.dropped} slices left out" in marks[0]["name"]
        kept = [e for e in events if e["ph"] == "X"]
        assert kept == [e for e in whole.events() if e["ph"] == "X"][:limit]


# The second wave takes a longer way to the barrier, through code behind it.
_UNEQUAL = """
v_cmp_gt_u32_e32 vcc_lo, 32, v0
s_cbranch_vccz longer
meet:
s_barrier
s_endpgm
longer:
s_mov_b32 s4, 20
again:
s_sub_u32 s4, s4, 1
s_cmp_lg_u32 s4, 0
s_cbranch_scc1 again
s_branch meet
"""


@needs_llvm_mc
def test_waiting_at_a_barrier_shows() -> None:
    program = amdgpu.load(kernels_object([kernel_text(_UNEQUAL, "gfx1100")], "gfx1100"))
    timeline = Timeline()
    program.launch("k", 1, 64, [np.zeros(1, np.uint32), 0], observers=[timeline])
    rows = _rows(timeline.events())
    waited = {row: sum(e["dur"] for e in events if e["name"] == "barrier") for row, events in rows.items()}
    for events in rows.values():
        _check_nesting(events)
    last = [max(e["ts"] for e in events) for events in rows.values()]
    assert last[0] == last[1], "both waves go on together"
    # The first wave waits while the second one runs 1 + 20 * 3 + 1 instructions and the barrier.
    assert waited == {(1, 1): 63, (1, 2): 0}


def test_counts_by_address() -> None:
    counter = ExecutionCounts()
    report = _saxpy(counter)
    counts = counter.by_address()
    assert list(counts) == sorted(counts)
    assert sum(e.waves for e in counts.values()) == report.wave_instructions
    assert {e.lanes for e in counts.values()} == {32 * report.waves, COUNT}


@needs_clang
@pytest.mark.parametrize("processor", ["gfx942", "gfx1100", "gfx1200"])
def test_counts_agree_with_the_report_of_a_divergent_kernel(processor: str) -> None:
    program = amdgpu.load(groups_object(processor))
    counter, timeline = ExecutionCounts(), Timeline()
    data = np.arange(512, dtype=np.float32)
    report = program.launch("reduce", 4, 128, [data, np.zeros(4, np.float32)], observers=[counter, timeline])
    counts = counter.by_address()
    assert sum(e.waves for e in counts.values()) == report.wave_instructions
    stored = [e.lanes for e in counts.values() if e.lanes == 4]
    assert stored, "one work-item of each workgroup stores the sum"
    assert timeline.recorded > 0
    for row in _rows(timeline.events()).values():
        _check_nesting(row)


def test_workgroups_of_later_batches_keep_their_numbers() -> None:
    body_groups = 2048  # more lanes than one batch holds
    x = np.zeros(64 * body_groups, np.float32)
    timeline = Timeline()
    program = amdgpu.load(saxpy_object())
    report = program.launch("saxpy", body_groups, 64, [x.size, 1.0, x, x, x.copy()], observers=[timeline])
    rows = _rows(timeline.events())
    assert len(rows) == report.waves == 2 * body_groups
    assert {pid for pid, _ in rows} == set(range(1, body_groups + 1))
    assert sum(e["dur"] for row in rows.values() for e in row) == report.wave_instructions


def test_command_writes_the_same_trace_every_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = write_saxpy(tmp_path)
    traces = [tmp_path / "a.json", tmp_path / "b.json"]
    for path in traces:
        assert main([*command, f"--trace={path}"]) == 0
    assert traces[0].read_bytes() == traces[1].read_bytes()
    document = json.loads(traces[0].read_text())
    assert document["otherData"]["processor"] == "gfx1100"
    assert capsys.readouterr().err == ""


def test_command_says_that_the_trace_is_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*write_saxpy(tmp_path), f"--trace={tmp_path / 't.json'}", "--trace-limit=5"]
    assert main(command) == 0
    error = capsys.readouterr().err
    assert "t.json is cut: 5 slices kept, " in error
    document = json.loads((tmp_path / "t.json").read_text())
    assert document["otherData"]["slices"] == 5


def test_no_trace_of_a_launch_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = write_saxpy(tmp_path)
    command[-1] = "--arg=null"
    refused([*command, f"--trace={tmp_path / 't.json'}"], capsys)
    assert not (tmp_path / "t.json").exists()


def test_annotated_disassembly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = write_saxpy(tmp_path)
    assert main([*command, "--counts"]) == 0
    text = capsys.readouterr().out
    lines = text[text.index("saxpy:  //") :].splitlines()
    assert lines[1].split() == ["address", "waves", "lanes", "instruction"]
    (fused,) = [line.split() for line in lines if "v_fma_f32" in line]
    assert fused[1:3] == ["32", str(COUNT)]
    (ending,) = [line.split() for line in lines if "s_endpgm" in line]
    assert ending[1] == "32"  # how many lanes are left is the compiler's choice


@needs_llvm_mc
def test_code_that_was_not_executed_is_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "s_branch over\ns_mov_b32 s4, 1\nover:\ns_endpgm"
    (tmp_path / "k.hsaco").write_bytes(kernels_object([kernel_text(body, "gfx1100")], "gfx1100"))
    command = ["run", str(tmp_path / "k.hsaco"), "--workgroup-size=32", "--arg=null", "--arg=u32:0", "--counts"]
    assert main(command) == 0
    (skipped,) = [line.split() for line in capsys.readouterr().out.splitlines() if "s_mov_b32" in line]
    assert skipped[1:3] == ["-", "-"]
    assert main([*command, "--json"]) == 0
    by_address = json.loads(capsys.readouterr().out)["instructions_by_address"]
    assert [(e["text"].split()[0], e["waves"], e["lanes"]) for e in by_address] == [
        ("s_branch", 1, 32),
        ("s_mov_b32", 0, 0),
        ("s_endpgm", 1, 32),
    ]
