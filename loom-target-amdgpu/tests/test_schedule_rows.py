"""Details of a compile report about the schedule, the registers and the moves of AMD GPU kernels."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from loom import api
from loom.report.compile_report import compile_report

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ["amdgpu:gfx1100", "amdgpu:gfx1200", "amdgpu:gfx942"]
PROGRAMS = {
    "examples/attention.loom": "attention_f32",
    "benchmarks/row_sums.loom": "rows",
    "examples/saxpy.loom": "saxpy",
}


def report_of(program: str, target: str, mode: str = "details") -> dict[str, Any]:
    compilation = api.compile(api.load(ROOT / program), (PROGRAMS[program],), target)
    found: dict[str, Any] = json.loads(json.dumps(compile_report(compilation, mode)))
    return found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_rows_agree_with_the_entry(program: str, target: str) -> None:
    """Every scheduled node is in one band; the highest registers are what the code object asks for."""
    report = report_of(program, target)
    (entry,) = report["entries"]["rows"]
    bands = report["schedule_band_rows"]["rows"]
    assert sum(row["node_count"] for row in bands) == entry["schedule_node_count"]
    ordinals = [0]
    for row in bands:
        assert row["first_scheduled_ordinal"] == ordinals[-1]
        ordinals.append(ordinals[-1] + row["node_count"])
    for row, following in pairwise(bands):
        assert (row["block"], row["origin_kind"]) != (following["block"], following["origin_kind"])
    assert not {row["origin_kind"] for row in bands} & {"operation", "unknown"}
    summary = report["schedule_band_summary_rows"]["rows"]
    assert sum(row["band_count"] for row in summary) == len(bands)
    mix = entry["static_instruction_mix"]
    for counter in ("global_load_count", "global_store_count", "scalar_memory_count"):
        assert sum(row["static_instruction_mix"].get(counter, 0) for row in bands) == mix.get(counter, 0)
    high = {row["register_class"]: row["high_water_units"] for row in report["allocation_high_water_rows"]["rows"]}
    resources = entry["target_resources"]
    assert high["amdgpu.vgpr"] == resources["vector"]["final_count"]
    assert high["amdgpu.sgpr"] <= resources["scalar"]["final_count"]
    pressure = {row["register_class"]: row["peak_live_units"] for row in report["pressure_rows"]["rows"]}
    assert pressure["amdgpu.vgpr"] > 0
    for name in ("pressure_rows", "schedule_band_rows", "allocation_high_water_rows"):
        rows = report[name]["rows"]
        assert [row["index"] for row in rows] == list(range(report[name]["count"]))
        assert {row["function"] for row in rows} == {PROGRAMS[program]}


def test_rows_are_details() -> None:
    report = report_of("examples/saxpy.loom", "amdgpu:gfx1100", "summary")
    assert not {"pressure_rows", "schedule_band_rows", "allocation_high_water_rows"} & report.keys()
    assert "move_causes_kind_count" in report["entries"]["rows"][0]


EXCHANGE = """\
kernel.def export("k") @k() {
  %one = index.constant 1 : index
  %lanes = index.constant 32 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%lanes, %one, %one) : index
} launch(%n: index, %x: buffer) {
  %start = index.constant 0 : offset
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %lane = kernel.workitem.id<x> : index
  %far = index.constant 32 : index
  %other = index.add %lane, %far : index
  %xs = buffer.view %x[%start] : buffer -> view<64xf32>
  %a = view.load %xs[%lane] : view<64xf32> -> f32
  %b = view.load %xs[%other] : view<64xf32> -> f32
  %c, %d = scf.for %i = [%zero to %n step %one](%p = %a : f32, %q = %b : f32) -> (f32, f32) {
    %r = scalar.mulf %p, %p : f32
    %s = scalar.addf %r, %q : f32
    scf.yield %q, %s : f32, f32
  }
  view.store %c, %xs[%lane] : f32, view<64xf32>
  view.store %d, %xs[%other] : f32, view<64xf32>
  kernel.return
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_moves_of_an_exchange(target: str) -> None:
    """Values that a loop hands around need moves for block arguments."""
    compilation = api.compile(api.load_bytes(EXCHANGE.encode(), "m"), (), target)
    (entry,) = json.loads(json.dumps(compile_report(compilation, "summary")))["entries"]["rows"]
    causes = {row["cause"]: (row["packet_count"], row["unit_count"]) for row in entry["move_causes_causes"]}
    assert entry["move_causes_packet_count"] == entry["allocation_materialized_copy_count"] > 0
    assert causes["block-argument"][0] > 0
    assert sum(units for _, units in causes.values()) == entry["move_causes_unit_count"]
