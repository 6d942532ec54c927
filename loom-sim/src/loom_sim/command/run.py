"""``loom-sim run``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loom.tools.common import EXIT_OK, read_input, write_files
from loom_sim import amdgpu
from loom_sim.amdgpu.limits import DEFAULT_TRACE_LIMIT
from loom_sim.amdgpu.program import KernelInfo, LaunchReport, Program
from loom_sim.amdgpu.trace import Observer, Timeline
from loom_sim.amdgpu.trace_counts import ExecutionCounts, Executions
from loom_sim.command import report as reports
from loom_sim.command.arrays import npy_bytes, value_of
from loom_sim.command.checks import check_saved, check_values
from loom_sim.command.code_listing import Section, sections
from loom_sim.command.errors import CommandError


def run(args: argparse.Namespace) -> int:
    """Run a kernel; files are written only when it ended without a fault."""
    data, name = read_input(args.input)
    try:
        program = amdgpu.load(data, args.processor)
    except amdgpu.LoadError as error:
        raise CommandError(f"{name}: {error}") from error
    kernel = _kernel(program, args.kernel)
    size = args.workgroup_size or _required_size(kernel)
    for path in [save.path for save in args.save_arg] + ([args.trace] if args.trace else []):
        if not Path(path).parent.is_dir():
            # Said now, not after a long run.
            raise CommandError(f"{path}: the directory does not exist")
    check_saved(args.save_arg, kernel)
    values = [value_of(argument) for argument in args.arg]
    check_values(args.arg, values, kernel)
    timeline = _timeline(args, program)
    counter = ExecutionCounts() if args.counts else None
    observers: list[Observer] = [o for o in (timeline, counter) if o is not None]
    try:
        report = program.launch(
            kernel.name,
            args.workgroups,
            size,
            values,
            strict=not args.no_strict,
            dynamic_lds=args.dynamic_lds,
            max_steps=args.max_steps,
            observers=observers,
            bank_conflicts=args.bank_conflicts,
            processes=args.processes,
        )
    except amdgpu.SimulationFault as fault:
        if args.json:
            _print_json(reports.fault_document(kernel.name, fault.record))
        raise
    _write(args, values, timeline, report)
    counts = counter.by_address() if counter is not None else {}
    counted = _executed_sections(program, counts)
    if args.json:
        launch = {"workgroups": args.workgroups, "workgroup_size": size, "strict": not args.no_strict}
        _print_json({**reports.as_json(report, counted, counts, program.source_of), **launch})
        return EXIT_OK
    for line in reports.as_text(report, strict=not args.no_strict):
        sys.stdout.write(line + "\n")
    for line in reports.annotated(counted, counts, program.source_of):
        sys.stdout.write(line + "\n")
    return EXIT_OK


def _kernel(program: Program, name: str | None) -> KernelInfo:
    known = program.kernels
    if name is not None and name in known:
        return known[name]
    listed = ", ".join(known) or "none"
    if name is not None:
        raise CommandError(f"no kernel '{name}' in the code object; it has: {listed}")
    if len(known) != 1:
        raise CommandError(f"name a kernel with --kernel; the code object has: {listed}")
    return next(iter(known.values()))


def _required_size(kernel: KernelInfo) -> tuple[int, int, int]:
    if kernel.required_workgroup_size is None:
        raise CommandError(f"kernel {kernel.name} runs with any workgroup size: give --workgroup-size")
    return kernel.required_workgroup_size


def _timeline(args: argparse.Namespace, program: Program) -> Timeline | None:
    if args.trace is None:
        return None
    limit = args.trace_limit or DEFAULT_TRACE_LIMIT
    return Timeline(limit, instructions=args.trace_instructions, source_of=program.source_of)


def _write(args: argparse.Namespace, values: Sequence[Any], timeline: Timeline | None, report: LaunchReport) -> None:
    files = []
    for save in args.save_arg:
        value = values[save.index]
        assert isinstance(value, np.ndarray)
        files.append((Path(save.path), npy_bytes(value)))
    if timeline is not None:
        about = {"kernel": report.kernel, "processor": report.processor, "waves": report.waves}
        files.append((Path(args.trace), timeline.to_json(**about).encode()))
    write_files(files)
    if timeline is not None and timeline.dropped:
        sys.stderr.write(
            f"loom-sim: note: {args.trace} is cut: {timeline.recorded} slices kept, {timeline.dropped} left out;"
            " see --trace-limit\n"
        )


def _executed_sections(program: Program, counts: Mapping[int, Executions]) -> tuple[Section, ...]:
    """The functions of which something was executed."""
    if not counts:
        return ()
    found = sections(program.code_object, program.processor)
    return tuple(section for section in found if any(line.address in counts for line in section.lines))


def _print_json(document: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
