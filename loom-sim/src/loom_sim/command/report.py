"""The report of a run, for people and for programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from loom_sim.command.code_listing import Line, Section, SourceOf, render

if TYPE_CHECKING:
    from loom_sim.amdgpu.errors import FaultRecord
    from loom_sim.amdgpu.program import LaunchReport
    from loom_sim.amdgpu.synchronization import BarrierUse, WaitUse
    from loom_sim.amdgpu.trace_counts import Executions

SCHEMA = "loom.sim.run.v0"
_TOP = 8
"""Mnemonics shown to people; programs get all."""
_UNITS = ("KiB", "MiB", "GiB", "TiB")


def as_json(
    report: LaunchReport, counted: tuple[Section, ...], counts: Mapping[int, Executions], source_of: SourceOf
) -> dict[str, Any]:
    """The report as a JSON document; `instructions by address` only when instructions were counted."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "status": "ok",
        "kernel": report.kernel,
        "processor": report.processor,
        "waves": report.waves,
        "wave_size": report.wave_size,
        "wave_instructions": report.wave_instructions,
        "lane_instructions": report.lane_instructions,
        "kinds": dict(report.kinds),
        "instructions": dict(report.instructions),
        "barriers": report.barriers,
        "barrier_sites": [_site(use, source_of) for use in report.barrier_sites],
        "waits": [_site(use, source_of) for use in report.waits],
        "traffic": attrs.asdict(report.traffic),
        "lds_banks": None if report.banks is None else attrs.asdict(report.banks),
        "processes": report.processes,
        "seconds": report.seconds,
        "faults": [fault_json(fault) for fault in report.faults],
    }
    if counted:
        document["instructions_by_address"] = [
            {
                "address": line.address,
                "text": line.text,
                "source": _source_text(source_of, line),
                "waves": _waves(counts, line),
                "lanes": _lanes(counts, line),
            }
            for section in counted
            for line in section.lines
        ]
    return document


def fault_document(kernel: str, record: FaultRecord) -> dict[str, Any]:
    """The JSON document of a run that a fault stopped."""
    return {"schema": SCHEMA, "status": "fault", "kernel": kernel, "faults": [fault_json(record)]}


def fault_json(record: FaultRecord) -> dict[str, Any]:
    """A fault; fields that do not apply are null."""
    return attrs.asdict(record)


def as_text(report: LaunchReport, *, strict: bool) -> Iterator[str]:
    """The report as lines for people; what was not checked is not called faultless."""
    verdict = "no fault" if strict else "not checked for waits, undefined registers and barriers"
    yield f"{report.kernel} on {report.processor}: {report.waves} waves of {report.wave_size} lanes, {verdict}"
    rate = report.lane_instructions / report.seconds / 1e6 if report.seconds > 0 else 0.0
    yield (
        f"{report.wave_instructions} wave-instructions in {report.seconds:.3f} s"
        f" ({rate:.1f} million lane-instructions per second)"
    )
    width = len(str(report.wave_instructions))
    for kind, count in report.kinds.items():
        share = 100 * count / max(1, report.wave_instructions)
        yield f"  {count:>{width}}  {share:5.1f} %  {kind}"
    shown = list(report.instructions.items())
    listed = ", ".join(f"{name} {count}" for name, count in shown[:_TOP])
    more = f", {len(shown) - _TOP} more" if len(shown) > _TOP else ""
    yield f"most frequent: {listed}{more}"
    traffic = report.traffic
    yield f"global memory: {_bytes(traffic.global_loaded)} loaded, {_bytes(traffic.global_stored)} stored"
    if traffic.lds_loaded or traffic.lds_stored:
        yield f"LDS: {_bytes(traffic.lds_loaded)} loaded, {_bytes(traffic.lds_stored)} stored"
    if report.banks is not None:
        banks = report.banks
        share = 100 * banks.conflicts / max(1, banks.passes)
        yield f"LDS banks: {banks.passes} passes, {banks.conflicts} more because of conflicts ({share:.1f} %)"
    if traffic.scratch:
        yield f"scratch: {_bytes(traffic.scratch)} moved"
    if report.waits:
        executions, needed = (sum(getattr(use, what) for use in report.waits) for what in ("executions", "needed"))
        average = sum(use.in_flight for use in report.waits) / executions
        yield (
            f"waits: {executions} executed by waves, {needed} of them for results in flight"
            f" ({average:.1f} on average, at most {max(use.most_in_flight for use in report.waits)})"
        )
    if report.barriers:
        yield f"barriers: {report.barriers} arrivals of waves" + _imbalance(report)


def _imbalance(report: LaunchReport) -> str:
    passes = sum(use.passes for use in report.barrier_sites)
    if not passes:
        return ""
    average = sum(use.spread for use in report.barrier_sites) / passes
    widest = max(use.widest for use in report.barrier_sites)
    return f"; up to {widest} instructions between the waves of a workgroup ({average:.1f} on average)"


def _site(use: WaitUse | BarrierUse, source_of: SourceOf) -> dict[str, Any]:
    source = source_of(use.address)
    return {**attrs.asdict(use), "source": None if source is None else str(source)}


def annotated(counted: tuple[Section, ...], counts: Mapping[int, Executions], source_of: SourceOf) -> Iterator[str]:
    """The code with how many waves and lanes executed each instruction, and where it comes from."""
    waves = max((e.waves for e in counts.values()), default=0)
    lanes = max((e.lanes for e in counts.values()), default=0)
    left, right = max(len(str(waves)), len("waves")), max(len(str(lanes)), len("lanes"))

    def margin(line: Line) -> str:
        if line.address not in counts:
            return f"{'-':>{left}}  {'-':>{right}}"
        return f"{counts[line.address].waves:>{left}}  {counts[line.address].lanes:>{right}}"

    for section in counted:
        yield ""
        heading = f"  {'address':>8}  {'waves':>{left}}  {'lanes':>{right}}  instruction"
        yield from render(section, margin, heading, source_of)


def _source_text(source_of: SourceOf, line: Line) -> str | None:
    source = source_of(line.address)
    return None if source is None else str(source)


def _waves(counts: Mapping[int, Executions], line: Line) -> int:
    return counts[line.address].waves if line.address in counts else 0


def _lanes(counts: Mapping[int, Executions], line: Line) -> int:
    return counts[line.address].lanes if line.address in counts else 0


def _bytes(count: int) -> str:
    if count < 10_000:
        return f"{count} bytes"
    power = min(len(_UNITS), int(math.log(count, 1024)))
    return f"{count / 1024**power:.1f} {_UNITS[power - 1]}"
