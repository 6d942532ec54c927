"""``loom-benchmark``: measure the benchmarks of a module."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from loom.tools.common import (
    EXIT_FAILURE,
    EXIT_OK,
    add_config_options,
    make_parser,
    read_input,
    require_writable,
    run_tool,
    write_output,
)

if TYPE_CHECKING:
    from loom.benchmark.records import BenchmarkRow, Comparison, DeviceRow, Policy, WorkItem
    from loom.plugins.records import Device, TargetProfile

PROG = "loom-benchmark"
EXAMPLES = """\
  loom-benchmark saxpy.loom --device=host                  every benchmark of the file
  loom-benchmark saxpy.loom --dry-run                      what would be measured
  loom-benchmark saxpy.loom --benchmark=@saxpy_1009 --measure=dispatch_complete --iterations=50
  loom-benchmark rows.loom --compare=@plain,@unrolled --repetitions=5
  loom-benchmark saxpy.loom --output=results.jsonl --output-format=jsonl
"""

MEASURES = ("case_end_to_end", "end_to_end", "dispatch_complete")


def build_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = make_parser(
        PROG,
        "Measure what check.benchmark selects. Samples are checked first; one that does not pass is not timed. Results "
        "are JSON on standard output, a line for people on standard error.",
        EXAMPLES,
    )
    parser.add_argument("input", metavar="FILE", help="module with benchmarks; '-' reads standard input")
    parser.add_argument(
        "--library", action="append", default=[], metavar="PATH", help="link against this library (repeatable)"
    )
    parser.add_argument("--device", default="sim", metavar="NAME", help="device to run on (default: sim)")
    parser.add_argument("--target", metavar="FAMILY:SELECTOR", help="target to compile for (default: the device's own)")
    add_config_options(parser)
    choice = parser.add_argument_group("what to measure")
    choice.add_argument("--case", action="append", default=[], metavar="@NAME", help="of this case (repeatable)")
    choice.add_argument("--benchmark", action="append", default=[], metavar="@NAME", help="this one (repeatable)")
    choice.add_argument("--sample", type=_count(0), metavar="N", help="the sample with this ordinal only")
    choice.add_argument("--max-samples-per-case", type=_count(1), default=4096, metavar="N", help="default: 4096")
    choice.add_argument("--measure", choices=MEASURES, default=MEASURES[0], help=f"default: {MEASURES[0]}")
    choice.add_argument("--dry-run", action="store_true", help="plan only, run nothing")
    comparison = parser.add_argument_group("comparing")
    comparison.add_argument(
        "--compare", metavar="@BASE,@NAME[,...]", help="measure these benchmarks again in turns, against the first"
    )
    comparison.add_argument(
        "--interleave", choices=("ABABA", "round_robin"), default="ABABA", help="order of the turns"
    )
    comparison.add_argument("--repetitions", type=_count(1), default=2, metavar="N", help="turns of each (default: 2)")
    policy = parser.add_argument_group("how long")
    policy.add_argument("--iterations", type=_count(1), default=10, metavar="N", help="batches at least (default: 10)")
    policy.add_argument("--warmup-iterations", type=_count(0), default=1, metavar="N", help="untimed runs (default: 1)")
    policy.add_argument("--batch-size", type=_count(1), default=1, metavar="N", help="runs per batch (default: 1)")
    policy.add_argument("--min-time-ms", type=_duration, default=100.0, metavar="MS", help="default: 100")
    policy.add_argument("--warmup-time-ms", type=_duration, default=0.0, metavar="MS", help="default: 0")
    policy.add_argument("--max-batches", type=_count(1), default=1000, metavar="N", help="default: 1000")
    policy.add_argument(
        "--stable-p90-to-p50-ppm", type=_count(0), default=100_000, metavar="N", help="more is called unstable"
    )
    parser.add_argument("--output", "-o", default="-", metavar="PATH", help="where results go (default: -)")
    parser.add_argument(
        "--output-format", choices=("snapshot", "jsonl"), default="snapshot", help="one object, or a row per line"
    )
    return parser


def _count(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least {least}")
        return int(text)

    return read


def _duration(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of milliseconds")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. Returns 0 when everything selected was measured, else 1."""
    args = build_parser().parse_args(argv)
    return run_tool(PROG, lambda: _run(args))


def _run(args: argparse.Namespace) -> int:
    from loom.check.errors import CheckError

    try:
        return _run_benchmarks(args)
    except CheckError as error:
        sys.stderr.write(f"{PROG}: error: {error}\n")
        return EXIT_FAILURE


def _run_benchmarks(args: argparse.Namespace) -> int:
    from loom import api
    from loom.benchmark.compare import Interleave
    from loom.benchmark.records import to_json, to_json_lines
    from loom.benchmark.run import BenchmarkRun
    from loom.check.errors import CheckError
    from loom.check.invoke import Execution
    from loom.check.options import CheckOptions
    from loom.check.plan import plan_checks
    from loom.check.report_text import issue_lines
    from loom.check.session import opened, select_device
    from loom.config_values import read_config
    from loom.plugins.manager import load_plugins

    device, target = select_device(args.device, args.target)
    inputs = [api.open_bytes(*read_input(args.input))]
    libraries = [api.open_bytes(*read_input(path)) for path in args.library]
    module = api.prepare_checks(inputs, libraries, target, read_config(args.config, args.config_file))
    options = CheckOptions(
        cases=tuple(name.removeprefix("@") for name in args.case), max_samples_per_case=args.max_samples_per_case
    )
    registries = load_plugins()
    plan = plan_checks(module, options, registries)
    for issue in plan.issues:
        sys.stderr.write("".join(f"{line.text}\n" for line in issue_lines(issue)))
    names = [name.removeprefix("@") for name in args.benchmark]
    compared = [name.strip().removeprefix("@") for name in args.compare.split(",")] if args.compare else []
    if len(compared) == 1 or len(set(compared)) != len(compared):
        raise CheckError("--compare takes two different benchmarks or more")
    where = args.input, args.output, args.output_format
    require_writable(args.output)
    turns = Interleave(args.interleave)
    run = BenchmarkRun(plan, _policy(args), names, args.sample, _show, compared, turns, args.repetitions)
    if args.dry_run:
        snapshot = run.snapshot(None, _device_row(device, target, "planned"), *where)
    else:
        with opened(device, target) as handle:
            execution = Execution(module, handle, device.name, registries, target)
            try:
                snapshot = run.snapshot(execution, _device_row(device, target, "open"), *where)
            finally:
                execution.close()
    for row in snapshot.comparisons or ():
        sys.stderr.write(f"@{row.candidate_id} against @{row.baseline_candidate_id}: {_speedup(row)}\n")
    if not snapshot.benchmarks:
        sys.stderr.write(f"{PROG}: note: {args.input} has no benchmarks to measure\n")
    text = to_json(snapshot) if args.output_format == "snapshot" else to_json_lines(snapshot)
    write_output(args.output, text.encode())
    return EXIT_FAILURE if snapshot.failed else EXIT_OK


def _policy(args: argparse.Namespace) -> Policy:
    from loom.benchmark.records import Measure, Policy

    return Policy(
        measure=Measure(args.measure),
        warmup_iterations=args.warmup_iterations,
        iterations=args.iterations,
        batch_size=args.batch_size,
        min_time_ms=args.min_time_ms,
        warmup_time_ms=args.warmup_time_ms,
        max_batches=args.max_batches,
        stable_p90_to_p50_ppm=args.stable_p90_to_p50_ppm,
    )


def _device_row(device: Device, target: TargetProfile | None, state: str) -> DeviceRow:
    from loom.benchmark.records import DeviceRow

    family = target.family if target is not None else None
    return DeviceRow(f"loom://{device.name}", device.name, family, target.name if target is not None else None, state)


def _show(row: BenchmarkRow, item: WorkItem) -> None:
    """One line for people."""
    values = ", ".join(f"{key} = {value}" for key, value in item.sample.parameters.pairs)
    head = f"@{row.benchmark}" + (f" {{{values}}}" if values else "")
    if item.measurement is None:
        note = item.failure.message if item.failure is not None else item.state
    else:
        times = item.measurement.operation_timing_ns
        note = f"p50 {_time(times.p50)}, p90 {_time(times.p90)}, {times.count} batches"
    sys.stderr.write(f"{head}: {note}\n")


def _speedup(row: Comparison) -> str:
    if row.speedup_p50 is None:
        return "too fast for the clock"
    spread = max(row.baseline_spread_ppm, row.candidate_spread_ppm) / 10_000
    return f"speedup {row.speedup_p50:.3g} (repetitions are {spread:.3g} % apart)"


def _time(nanoseconds: int) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds} ns"
