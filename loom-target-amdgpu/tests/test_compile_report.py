"""Compile reports of a kernel that reads ahead: what they say, and what the report command makes of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from loom import api
from loom.report.compile_report import compile_report
from loom.tools.compile import main as compile_main
from loom.tools.compile_report import main

SHARED = Path(os.environ.get("LOOM_SHARED", Path(__file__).resolve().parents[3] / "shared"))
LISTING = SHARED / "seeds" / "listings" / "vector-read-ahead.loom"

ROWS = (Path(__file__).resolve().parents[2] / "benchmarks" / "row_sums.loom").read_text()


def rows(depth: int) -> str:
    """The program of the benchmark of specialization at a depth, two iterations a group."""
    text = ROWS.replace("%ahead = index.constant 4", f"%ahead = index.constant {depth}")
    return text.replace("%group = index.constant 6", "%group = index.constant 2")


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Details of the program with depth one and four, and of depth four on another processor."""
    monkeypatch.chdir(tmp_path)
    for name, depth, target in (("serial", 1, "gfx1151"), ("ahead", 4, "gfx1151"), ("other", 4, "gfx1200")):
        Path("rows.loom").write_text(rows(depth))
        compiled(Path("rows.loom"), name, "@rows", f"amdgpu:{target}")
    return tmp_path


def compiled(source: Path, name: str, root: str, target: str) -> None:
    command = [str(source), f"--root={root}", f"--target={target}", "--format=amdgpu-hsaco", f"--output={name}.hsaco"]
    report = ["--compile-report=details", f"--compile-report-output={name}.json"]
    assert compile_main([*command, *report]) == 0


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*arguments, "--format=json"]) == 0
    text = capsys.readouterr().out
    found: dict[str, Any] = json.loads(text)
    assert text == json.dumps(found, sort_keys=True, separators=(",", ":")) + "\n"
    return found


@pytest.mark.seed("A25")
def test_details_have_policies_stages_and_costs(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = shown(capsys, "show", "ahead.json")
    assert (view["kind"], view["container_kind"]) == ("loom.compile_report.show", "report")
    (entry,) = view["entries"]
    assert entry["identity"]["target_export_symbol"] == "rows"
    facts, analysis = entry["artifact_facts"], entry["compiler_analysis"]
    assert facts["emission_code_byte_count"] > facts["emission_instruction_count"] > 0
    resources = facts["target_resources"]
    assert resources["vector"]["final_count"] > 0
    assert resources["scalar"]["final_count"] > 0
    assert (resources["subgroup_size"], resources["occupancy_percent"]) == (32, 100)
    assert analysis["allocation_spill_count"] == 0
    assert analysis["wait_plan_action_count"] > 0
    rows = analysis["loop_policies"]
    by_category: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_category.setdefault(row["category"], []).append(row)
    (loop,) = by_category["scf-pipeline"]
    assert (loop["outcome"], loop["depth"], loop["queue_records"]) == ("pipelined", 4, 3)
    stages = {row["op"]: (row["stage"], row["iteration_lookahead"]) for row in by_category["scf-pipeline-stage"]}
    assert stages == {"vector.load": ("producer", 3), "vector.reduce": ("consumer", 0)}
    assert {row["unroll_factor"] for row in by_category["scf-unroll"]} == {2}
    assert {row["counter"] for row in analysis["wait_action_rows"]} >= {"load"}
    assert len(analysis["wait_action_rows"]) >= analysis["wait_plan_action_count"]
    (selection,) = analysis["template_selection"]
    assert (selection["selected_provider"], selection["outcome"]) == ("sum.any", "selected")
    summary = json.loads(Path("ahead.json").read_text())
    assert summary["loop_policies"]["count"] == len(rows)


STEPS = """
pass.pipeline<module> @steps pipeline {
  select-templates
  inline-callables
  for func {
    canonicalize
    pipeline-scf-for
    unroll-scf-for
    canonicalize
  }
}
"""


@pytest.mark.parametrize("pipeline", ["@steps", "select-templates,inline-callables,canonicalize,pipeline-scf-for,unroll-scf-for"])
def test_passes_of_a_pipeline_have_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pipeline: str) -> None:
    """The rows of specialization, for the loops and templates that the passes of a pipeline decided about."""
    monkeypatch.chdir(tmp_path)
    Path("rows.loom").write_text(rows(4) + STEPS)
    command = ["rows.loom", "--root=@rows", "--target=amdgpu:gfx1151", "--format=amdgpu-hsaco", "--output=rows.hsaco"]
    found = []
    for way in (f"--pipeline={pipeline}", "--pipeline=default"):
        assert compile_main([*command, way, "--compile-report=details", "--compile-report-output=rows.json"]) == 0
        report = json.loads(Path("rows.json").read_text())
        found.append((report["loop_policies"], report["template_selection"]))
    assert found[0] == found[1]
    policies, selections = found[0]
    assert {row["category"] for row in policies["rows"]} == {"scf-pipeline", "scf-pipeline-stage", "scf-unroll"}
    assert [row["selected_provider"] for row in selections["rows"]] == ["sum.any"]


KERNEL = """\
kernel.def export("k") @k() {
  %one = index.constant 1 : index
  %lanes = index.constant 256 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%lanes, %one, %one) : index
} launch(%x: buffer, %y: buffer) {
  %lane = kernel.workitem.id<x> : index
  %start = index.constant 0 : offset
  %xs = buffer.view %x[%start] : buffer -> view<256xf32>
  %ys = buffer.view %y[%start] : buffer -> view<512xf32>
  %bytes = index.constant BYTES : offset
  %storage = buffer.alloca<workgroup> align(16) %bytes : buffer
  %shared = buffer.view %storage[%start] : buffer -> view<256xf32>
  %far = index.constant 256 : index
  %other = index.add %lane, %far : index
  %a = view.load %xs[%lane] : view<256xf32> -> f32
  %b = view.load %ys[%other] : view<512xf32> -> f32
  view.store %a, %shared[%lane] : f32, view<256xf32>
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  %three = index.constant 3 : index
  %near = index.xori %lane, %three : index
  %c = view.load %shared[%near] : view<256xf32> -> f32
  %d = scalar.mulf %c, %b : f32
  view.store %d, %xs[%lane] : f32, view<256xf32>
  kernel.return
}
"""


def report_of(size: int, target: str) -> dict[str, Any]:
    compilation = api.compile(api.load_bytes(KERNEL.replace("BYTES", str(size)).encode(), "m"), (), target)
    found: dict[str, Any] = json.loads(json.dumps(compile_report(compilation, "details")))
    return found


@pytest.mark.parametrize("target", ["amdgpu:gfx1100", "amdgpu:gfx1200", "amdgpu:gfx942"])
def test_the_mix_counts_what_is_there(target: str) -> None:
    (entry,) = report_of(1024, target)["entries"]["rows"]
    mix = entry["static_instruction_mix"]
    assert (mix["global_load_count"], mix["global_store_count"]) == (2, 1)
    assert (mix["global_load_byte_count"], mix["global_store_byte_count"]) == (8, 4)
    assert mix["local_memory_count"] == 2
    assert (mix["local_read_byte_count"], mix["local_write_byte_count"]) == (4, 4)
    assert mix["barrier_count"] == (2 if target == "amdgpu:gfx1200" else 1)
    assert "matrix_count" not in mix
    if target != "amdgpu:gfx942":
        assert entry["schedule_delay_count"] > 0


def test_workgroup_storage_limits_occupancy() -> None:
    """RDNA: 128 KiB for four SIMDs; eight waves of 32 make 256 work-items. CDNA: 64 KiB, four waves of 64."""
    for target, size, waves, limit in (
        ("amdgpu:gfx1100", 1024, 16, "none"),
        ("amdgpu:gfx1100", 32768, 8, "workgroup_storage"),
        ("amdgpu:gfx1100", 65536, 4, "workgroup_storage"),
        ("amdgpu:gfx942", 1024, 8, "none"),
        ("amdgpu:gfx942", 32768, 2, "workgroup_storage"),
    ):
        (entry,) = report_of(size, target)["entries"]["rows"]
        resources = entry["target_resources"]
        assert (resources["resident_subgroups_per_simd"], resources["limiting_resource"]) == (waves, limit), target
        assert resources["occupancy_percent"] == 100 * waves // resources["max_subgroups_per_simd"]


def test_every_wait_has_a_row() -> None:
    report = report_of(1024, "amdgpu:gfx1100")
    rows = report["wait_action_rows"]["rows"]
    assert [row["index"] for row in rows] == list(range(report["wait_action_rows"]["count"]))
    assert {row["function"] for row in rows} == {"k"}
    (store,) = [row for row in rows if row["consumer_operation"] == "ds_store_b32"]
    assert (store["counter"], store["action"], store["producer_operation"]) == (
        "load",
        "partial_wait",
        "global_load_b32",
    )
    assert store["target_count"] == 1
    (meeting,) = [row for row in rows if row["consumer_operation"] == "s_barrier"]
    assert (meeting["counter"], meeting["action"], meeting["producer_operation"]) == (
        "lds",
        "full_drain",
        "ds_store_b32",
    )
    assert all(row["reason"] == "planned" for row in rows)
    (entry,) = report["entries"]["rows"]
    assert entry["wait_plan_partial_wait_count"] == 1


def test_a_summary_leaves_single_decisions_out(tmp_path: Path) -> None:
    source, report = tmp_path / "rows.loom", tmp_path / "report.json"
    source.write_text(rows(4))
    command = [str(source), "--target=amdgpu:gfx1151", f"--output={tmp_path / 'k.hsaco'}"]
    assert compile_main([*command, "--compile-report=summary", f"--compile-report-output={report}"]) == 0
    found = json.loads(report.read_text())
    assert "loop_policies" not in found
    assert found["entries"]["rows"][0]["function"] == "rows"


def test_differences_are_by_figure(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = shown(capsys, "diff", "serial.json", "ahead.json")
    assert (view["changed_entry_count"], view["unchanged_entry_count"]) == (1, 0)
    (entry,) = view["entries"]
    by_name = {row["name"]: row for row in entry["metrics"]}
    growth = by_name["emission_instruction_count"]
    assert growth["delta"] == growth["candidate"] - growth["baseline"] > 0
    assert shown(capsys, "diff", "ahead.json", "ahead.json")["changed_entry_count"] == 0
    assert main(["diff", "ahead.json", "other.json"]) == 2
    assert "differ in target_key; --force" in capsys.readouterr().err
    assert shown(capsys, "diff", "ahead.json", "other.json", "--force")["identity_mismatches"] == ["target_key"]
    view = shown(capsys, "diff", "ahead.json", "other.json", "--comparison=target")
    assert view["targets"] == ["gfx1151", "gfx1200"]


def test_suggestions_follow_from_evidence(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "suggest", "serial.json")["findings"] == []
    found = {row["id"]: row for row in shown(capsys, "suggest", "ahead.json")["findings"]}
    assert found["scf.compare_pipeline_depth"]["alternatives"] == [1, 3, 5]
    assert found["scf.compare_pipeline_depth"]["loop"] == "rows.loom:9:12"
    assert "amdgpu.spill_traffic" not in found


BANKS = """\
kernel.def export("banks") @banks() {
  %one = index.constant 1 : index
  %lanes = index.constant 32 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%lanes, %one, %one) : index
} launch(%n: index, %out: buffer) {
  %start = index.constant 0 : offset
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c3 = index.constant 3 : index
  %sums = buffer.view %out[%start] : buffer -> view<4xi32>
  %zero = vector.constant 0 : vector<4xi32>
  %r = scf.for %i = [%c0 to %n step %c1](%bank = %zero : vector<4xi32>) -> (vector<4xi32>) {
    %w = index.cast %i : index to i32
    %old = vector.extract %bank[1] : vector<4xi32> -> i32
    %sum = scalar.addi %old, %w : i32
    %next = vector.insert %sum into %bank[1] : i32, vector<4xi32>
    %slot = index.andi %i, %c3 : index
    LINE
    scf.yield %last : vector<4xi32>
  }
  vector.store %r, %sums[0] : vector<4xi32>, view<4xi32>
  kernel.return
}
"""


@pytest.mark.parametrize(
    ("line", "outcome", "suggested"),
    [
        ("%last = vector.insert %w into %next[0] : i32, vector<4xi32>", "decomposed", None),
        (
            "%last = vector.insert %w into %next[%slot] : i32, vector<4xi32>",
            "kept",
            "vector.compare_static_bank_access",
        ),
        (
            "%last = vector.addi %next, %next : vector<4xi32>",
            "kept",
            "vector.compare_componentwise_bank_state",
        ),
    ],
)
def test_banks_that_stay_whole_suggest_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str, outcome: str,
    suggested: str | None,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("banks.loom").write_text(BANKS.replace("LINE", line))
    compiled(Path("banks.loom"), "banks", "@banks", "amdgpu:gfx1151")
    (bank,) = json.loads(Path("banks.json").read_text())["loop_policies"]["rows"]
    assert (bank["category"], bank["outcome"], bank["slots"]) == ("vector-bank", outcome, 4)
    found = shown(capsys, "suggest", "banks.json")["findings"]
    assert [row["id"] for row in found] == ([suggested] if suggested else [])
    assert all(row["loop"] == "banks.loom:12:8" for row in found)


def test_lines_of_an_envelope_are_reports_too(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        json.dumps({"type": "compile_report", "compile_report": json.loads(Path(f"{name}.json").read_text())})
        for name in ("serial", "ahead")
    ]
    Path("runs.jsonl").write_text("\n".join(lines) + "\n")
    assert main(["show", "runs.jsonl"]) == 0
    text = capsys.readouterr().out
    assert text.count("container_kind: json-lines") == 2
    assert "outcome: pipelined" in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a line is no compile report"),
        ("{", "not JSON"),
        ("[]", "not a compile report"),
        ('{"kind": "loom.test"}', "not a compile report"),
        ('{"kind": "loom.compile_report", "schema_version": 7}', "version 7"),
        ('{"kind": "loom.compile_report", "schema_version": 0}', "no entries"),
        ('{"type": "compile_report"}', "not a compile report"),
        ('{"type": "run"}\n{"type": "run"}', "a line is no compile report"),
    ],
)
def test_what_is_no_report_is_an_error(
    tmp_path: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    if not text:
        path.write_text("{}\n{}\n")
    assert main(["show", str(path)]) == 2
    assert words in capsys.readouterr().err
    assert main(["show", str(tmp_path / "nowhere.json")]) == 2
    assert "No such file" in capsys.readouterr().err


@pytest.mark.seed("A24", "A25")
@pytest.mark.skipif(not LISTING.is_file(), reason="the folder with the guide's listings is not here")
def test_the_published_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The guide's row sum compiles for gfx1151 with a detailed report that both commands read."""
    monkeypatch.chdir(tmp_path)
    compiled(LISTING, "vector-rows", "@sum_vector_rows", "amdgpu:gfx1151")
    assert main(["show", "vector-rows.json"]) == 0
    text = capsys.readouterr().out
    for line in ("depth: 4", "queue_records: 3", "unroll_factor: 6", "outcome: pipelined", "stage: producer"):
        assert line in text
    assert main(["suggest", "vector-rows.json"]) == 0
    assert "scf.compare_pipeline_depth" in capsys.readouterr().out
