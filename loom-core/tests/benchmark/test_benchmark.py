"""The `loom-benchmark` command: planning, correctness before times, statistics, reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loom.benchmark.compare import Interleave, compare, schedule
from loom.benchmark.measure import measure
from loom.benchmark.records import Measure, Policy, timing
from loom.tools.benchmark import main

PROGRAM = """\
func.def @double(%x: i64) -> (i64) {
  %y = scalar.addi %x, %x : i64
  func.return %y : i64
}

kernel.def @clear(%count: index) {
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%count, %one, %one) : index
} launch(%x: buffer) {
  %i = kernel.workitem.id<x> : index
  %origin = index.constant 0 : offset
  %v = buffer.view %x[%origin] : buffer -> view<4xi32>
  %zero = scalar.constant 0 : i32
  view.store %zero, %v[%i] : i32, view<4xi32>
  kernel.return
}

check.case @cleared {
  %n = check.param.choice values([1, 2, 4]) name("count") : index
  %x = check.generate.fill value(7) : tensor<4xi32>
  %want = check.generate.fill value(0) : tensor<1xi32>
  %first = check.tensor.view %x offset(0) : tensor<4xi32> -> tensor<1xi32>
  kernel.launch @clear[%n](%x) : [index](tensor<4xi32>)
  kernel.launch @clear[%n](%x) : [index](tensor<4xi32>)
  check.expect.equal actual(%first) expected(%want) : tensor<1xi32>
  check.return
}

check.case @called {
  %x = check.literal value(4) : i64
  %y = func.call @double(%x) : (i64) -> (i64)
  %want = check.literal value(WANT) : i64
  check.expect.equal actual(%y) expected(%want) : i64
  check.return
}

check.case @elsewhere {
  check.requires<loom.target> {subgroup_size = 32}
  check.return
}

check.scenario @trials {
  check.trial[3](%t: index, %entropy: check.entropy) {
    %x = check.entropy.read %entropy[0] : check.entropy -> i64
    check.compare<@double>(%x) : (i64) -> [actual(%a: i64), expected(%e: i64)] {
      check.expect.equal actual(%a) expected(%e) : i64
    }
  }
  check.return
}

check.benchmark<@cleared> @pinned {count = 4}

check.benchmark<@cleared> @every

check.benchmark<@called>

check.benchmark<@elsewhere> @other

check.benchmark<@trials> @throughput
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "bench.loom"
    path.write_text(PROGRAM.replace("WANT", "8"))
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any, list[str]]:
    status = main([*map(str, arguments), "--device=reference", "--min-time-ms=0", "--iterations=2"])
    captured = capsys.readouterr()
    return status, json.loads(captured.out), captured.err.splitlines()


def test_benchmarks_are_measured_after_they_are_checked(capsys: pytest.CaptureFixture[str], source: Path) -> None:
    """What two benchmarks select is one work item; what the device cannot run is skipped."""
    status, report, err = run(capsys, source)
    assert status == 0
    rows = [(r["benchmark"], r["case"], r["state"], r["work_item_index"]) for r in report["benchmarks"]]
    assert rows == [
        ("pinned", "cleared", "measured", 0),
        ("every", "cleared", "measured", 1),
        ("every", "cleared", "measured", 2),
        ("every", "cleared", "measured", 0),
        ("called", "called", "measured", 3),
        ("other", "elsewhere", "skipped", 4),
        ("throughput", "trials", "measured", 5),
    ]
    assert report["benchmarks"][3]["candidate_id"] == "every[2]"
    assert report["summary"] == {
        "planned": {
            "case_count": 4, "benchmark_count": 5, "selected_benchmark_count": 5, "logical_sample_count": 7,
            "work_item_count": 6,
        },
        "failures": {"row_count": 0, "failed_benchmark_count": 0},
        "correctness": {"sample_count": 5, "failed_sample_count": 0},
    }  # fmt: skip
    first = report["work_items"][0]
    assert first["sample"] == {"sample_ordinal": 2, "parameter_count": 1, "parameters": {"count": 4}}
    times = first["measurement"]
    assert (times["measured_batch_count"], times["physical_dispatches_per_batch"]) == (2, 2)
    assert (times["stop_reason"], times["timing_interpretation"]["score_unit"]) == ("iterations", "ns")
    assert times["operation_timing_ns"]["p50"] > 0
    assert err[0].startswith("@pinned {count = 4}: p50 ")
    assert err[-2] == "@other: skipped"


def test_a_wrong_sample_is_not_timed(capsys: pytest.CaptureFixture[str], source: Path) -> None:
    source.write_text(PROGRAM.replace("WANT", "9"))
    status, report, err = run(capsys, source, "--benchmark=@called", "--benchmark=@pinned")
    assert status == 1
    assert [(r["benchmark"], r["state"]) for r in report["benchmarks"]] == [
        ("pinned", "measured"),
        ("called", "failed"),
    ]
    (failure,) = report["failures"]
    assert (failure["stage"], failure["kind"]) == ("correctness", "failed_sample")
    assert "measurement" not in report["work_items"][1]
    assert report["failed_samples"][0]["expectations"]["failures"][0]["detail"] == "actual 8, expected 9"
    assert report["summary"]["correctness"] == {"sample_count": 2, "failed_sample_count": 1}
    assert err[-1] == "@called: @called does not pass, so it is not timed"


@pytest.mark.parametrize(
    ("measure", "dispatches", "failure"),
    [
        ("case_end_to_end", 2, None),
        ("end_to_end", 2, None),
        ("dispatch_complete", 2, "@called has no launches to measure"),
    ],
)
def test_what_is_measured(
    capsys: pytest.CaptureFixture[str], source: Path, measure: str, dispatches: int, failure: str | None
) -> None:
    status, report, _ = run(
        capsys, source, "--case=@cleared", "--case=@called", f"--measure={measure}", "--batch-size=3"
    )
    times = report["work_items"][0]["measurement"]
    assert times["physical_dispatches_per_logical_operation"] == dispatches
    assert times["measured_physical_dispatch_count"] == 2 * 3 * dispatches
    messages = [row["message"] for row in report.get("failures", [])]
    assert (status, messages) == ((1, [failure]) if failure else (0, []))


def test_scenarios_are_measured_whole(capsys: pytest.CaptureFixture[str], source: Path) -> None:
    status, report, _ = run(capsys, source, "--benchmark=@throughput", "--measure=end_to_end")
    assert (status, report["failures"][0]["message"]) == (
        1, "@trials is a scenario, whose time is that of all trials: measure case_end_to_end",
    )  # fmt: skip


def test_planning_alone_runs_nothing(capsys: pytest.CaptureFixture[str], source: Path) -> None:
    source.write_text(PROGRAM.replace("WANT", "9"))
    status, report, err = run(capsys, source, "--dry-run")
    assert (status, err, report["dry_run"]) == (0, [], True)
    assert {item["state"] for item in report["work_items"]} == {"planned"}


def test_rows_for_programs_and_a_file(capsys: pytest.CaptureFixture[str], source: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    arguments = [str(source), "--device=reference", "--benchmark=@pinned", "--iterations=1", "--min-time-ms=0"]
    assert main([*arguments, f"--output={path}", "--output-format=jsonl"]) == 0
    assert capsys.readouterr().out == ""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["row"] for row in rows] == ["run", "plan", "device", "sample", "benchmark", "summary"]
    assert len({row["run_id"] for row in rows}) == 1
    assert rows[0]["results_path"] == str(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--benchmark=@pined",), "there is no benchmark '@pined'; did you mean 'pinned'?"),
        (("--sample=9",), "no benchmark selects the sample 9"),
        (("--case=@nowhere",), "there is no case '@nowhere'"),
    ],
)
def test_names_that_are_not_there(
    capsys: pytest.CaptureFixture[str], source: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert main([str(source), "--device=reference", *arguments]) == 1
    captured = capsys.readouterr()
    assert (captured.out, message in captured.err) == ("", True)


def test_a_place_that_takes_no_results_is_refused_before_measuring(
    capsys: pytest.CaptureFixture[str], source: Path, tmp_path: Path
) -> None:
    for place in (tmp_path, tmp_path / "missing" / "out.json"):
        assert main([str(source), "--device=reference", f"--output={place}"]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("loom-benchmark: error: "), line


def test_faults_of_benchmarks_are_said_and_fail(capsys: pytest.CaptureFixture[str], source: Path) -> None:
    source.write_text(PROGRAM.replace("WANT", "8").replace("count = 4", "count = 3"))
    status, report, err = run(capsys, source, "--dry-run")
    assert status == 1
    assert report["planning_issues"][0]["kind"] == "invalid_benchmark_assignment"
    assert "3 is not one of the values of 'count'" in err[0]


@pytest.mark.parametrize("arguments", [["--iterations=0"], ["--min-time-ms=-1"], ["--min-time-ms=x"], ["--sample=-1"]])
def test_wrong_arguments(arguments: list[str], source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([str(source), *arguments])
    assert caught.value.code == 2


# -- comparing -------------------------------------------------------------------------------------------------


def test_benchmarks_are_compared_in_turns(capsys: pytest.CaptureFixture[str], source: Path) -> None:
    status, report, err = run(capsys, source, "--compare=@pinned,@called", "--repetitions=3")
    assert status == 0
    assert [row["benchmark"] for row in report["benchmarks"]] == ["pinned", "called"]
    turns = [(row["candidate_id"], row["repetition_index"]) for row in report["repetitions"]]
    assert turns == [
        ("pinned[2]", 0), ("called[0]", 0), ("pinned[2]", 1), ("called[0]", 1), ("pinned[2]", 2), ("called[0]", 2),
        ("pinned[2]", 3),
    ]  # fmt: skip
    (comparison,) = report["comparisons"]
    assert (comparison["baseline_candidate_id"], comparison["candidate_id"]) == ("pinned[2]", "called[0]")
    assert (comparison["baseline_repetition_count"], comparison["candidate_repetition_count"]) == (4, 3)
    assert comparison["ratio_p50"] * comparison["speedup_p50"] == pytest.approx(1)
    assert err[-1].startswith("@called[0] against @pinned[2]: speedup ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--compare=@pinned",), "--compare takes two different benchmarks or more"),
        (("--compare=@pinned,@pinned",), "--compare takes two different benchmarks or more"),
        (("--compare=@pinned,@every",), "@every selects 3 samples; what is compared selects one"),
        (("--compare=@pinned,@other",), "@other cannot be compared: it is skipped"),
        (("--compare=@pinned,@nothing",), "there is no benchmark '@nothing'"),
    ],
)
def test_what_cannot_be_compared(
    capsys: pytest.CaptureFixture[str], source: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert main([str(source), "--device=reference", "--iterations=1", "--min-time-ms=0", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_orders_of_turns() -> None:
    def order(method: Interleave, repetitions: int) -> str:
        return "".join(turn.candidate for turn in schedule("A", ["B", "C"], method, repetitions))

    assert order(Interleave.ABABA, 2) == "ABABAACACA"
    assert order(Interleave.ROUND_ROBIN, 2) == "ABCABC"
    groups = {turn.group for turn in schedule("A", ["B", "C"], Interleave.ABABA, 1)}
    assert groups == {"A+B", "A+C"}


def test_medians_of_repetitions_are_compared() -> None:
    """Within a group: what the baseline took elsewhere does not count."""
    times = {"A": iter([100, 120, 110, 900, 900, 900]), "B": iter([55, 60]), "C": iter([1, 1])}

    def take(name: str) -> Any:
        operation, clock = ticking([next(times[name])])
        return measure(operation, 0, Policy(iterations=1, min_time_ms=0, warmup_iterations=0), clock)

    _, (first, second) = compare("A", ["B", "C"], Interleave.ABABA, 2, take)
    assert (first.baseline_p50_ns, first.candidate_p50_ns, first.speedup_p50) == (110, 55, 2.0)
    assert (first.baseline_spread_ppm, first.candidate_spread_ppm) == (200_000, 90_909)
    assert (second.baseline_p50_ns, second.candidate_p50_ns) == (900, 1)


# -- statistics ------------------------------------------------------------------------------------------------


def ticking(durations: list[int]) -> tuple[Callable[[], None], Callable[[], int]]:
    """An operation that takes these times, over and over, and the clock that shows them."""
    now = [0]
    left = [list(durations)]

    def operation() -> None:
        if not left[0]:
            left[0] = list(durations)
        now[0] += left[0].pop(0)

    return operation, lambda: now[0]


def test_percentiles_are_order_statistics() -> None:
    found = timing([50, 10, 30, 20, 40, 60, 70, 80, 90, 100])
    assert (found.p50, found.p90, found.min, found.max, found.total, found.mean) == (50, 90, 10, 100, 550, 55.0)
    assert found.p90_to_p50_delta_ppm == 800_000
    single = timing([7])
    assert (single.p50, single.p90, single.p90_to_p50_delta_ppm) == (7, 7, 0)


@pytest.mark.parametrize(
    ("policy", "batches", "reason"),
    [
        (Policy(iterations=3, min_time_ms=0), 3, "iterations"),
        (Policy(iterations=3, min_time_ms=5), 5, "min_time"),
        (Policy(iterations=30, min_time_ms=5, max_batches=4), 4, "max_batches"),
    ],
)
def test_batches_end_by_number_time_or_limit(policy: Policy, batches: int, reason: str) -> None:
    operation, clock = ticking([1_000_000])
    found = measure(operation, 0, policy, clock)
    assert (found.measured_batch_count, found.stop_reason) == (batches, reason)
    assert found.measured_duration_ns == batches * 1_000_000
    assert (found.warmup_batch_count, found.warmup_duration_ns) == (1, 1_000_000)


def test_times_are_divided_by_the_operations_of_a_batch() -> None:
    operation, clock = ticking([100, 300])
    policy = Policy(iterations=4, batch_size=2, min_time_ms=0, warmup_iterations=0, measure=Measure.DISPATCH_COMPLETE)
    found = measure(operation, 3, policy, clock)
    assert (found.operation_timing_ns.p50, found.batch_timing_ns.p50) == (200, 400)
    assert found.measured_physical_dispatch_count == 4 * 2 * 3
    assert found.mean_physical_dispatch_duration_ns == pytest.approx(1600 / 24)


def test_doubts_are_named() -> None:
    operation, clock = ticking([100, 100, 900])
    found = measure(operation, 1, Policy(iterations=9, min_time_ms=0, warmup_iterations=0), clock)
    assert set(found.timing_interpretation.warnings) == {
        "single_logical_operation_batch", "low_physical_dispatch_sample_count", "sub_microsecond_logical_operation",
        "unstable_p90_to_p50",
    }  # fmt: skip
    operation, clock = ticking([5000])
    found = measure(operation, 0, Policy(iterations=4, max_batches=4, batch_size=2), clock)
    assert found.timing_interpretation.warnings == ("short_measured_duration",)
