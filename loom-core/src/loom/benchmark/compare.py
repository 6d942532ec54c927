"""Comparing benchmarks in one run: they take turns, so that what disturbs the machine disturbs all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from attrs import frozen

from loom.benchmark.records import Comparison, Measurement, Repetition


class Interleave(Enum):
    """The order of turns."""

    ABABA = "ABABA"
    """Each candidate alternates with the baseline, which begins and ends."""

    ROUND_ROBIN = "round_robin"
    """All take one turn each, again and again."""


@frozen
class Turn:
    """One measurement of a schedule: which candidate, for which group, and how often it has had its turn there."""

    candidate: str
    group: str
    repetition: int


def schedule(baseline: str, candidates: Sequence[str], method: Interleave, repetitions: int) -> list[Turn]:
    """The turns of a comparison, by the ids of what is compared.

    With ABABA a group compares one candidate with the baseline, and the baseline has one turn more than the
    candidate. In round robin there is one group.
    """
    if method is Interleave.ROUND_ROBIN:
        group = f"{baseline}+" + "+".join(candidates)
        return [
            Turn(candidate, group, repetition)
            for repetition in range(repetitions)
            for candidate in (baseline, *candidates)
        ]
    turns = []
    for candidate in candidates:
        group = f"{baseline}+{candidate}"
        for repetition in range(repetitions):
            turns += [Turn(baseline, group, repetition), Turn(candidate, group, repetition)]
        turns.append(Turn(baseline, group, repetitions))
    return turns


def compare(
    baseline: str,
    candidates: Sequence[str],
    method: Interleave,
    repetitions: int,
    measure: Callable[[str], Measurement],
) -> tuple[list[Repetition], list[Comparison]]:
    """Measure in turns; returns every repetition, and for each candidate how it compares with the baseline."""
    rows: list[Repetition] = []
    for order, turn in enumerate(schedule(baseline, candidates, method, repetitions)):
        measurement = measure(turn.candidate)
        rows.append(
            Repetition(
                order,
                turn.repetition,
                turn.group,
                method.value,
                baseline,
                turn.candidate,
                measurement.operation_timing_ns,
            )
        )
    return rows, [_compared(baseline, candidate, rows, method) for candidate in candidates]


def _compared(baseline: str, candidate: str, rows: Sequence[Repetition], method: Interleave) -> Comparison:
    group = next(row.comparison_group for row in rows if row.candidate_id == candidate)
    mine = [row.operation_timing_ns for row in rows if row.candidate_id == candidate]
    theirs = [row.operation_timing_ns for row in rows if row.candidate_id == baseline and row.comparison_group == group]
    pairs = {}
    for name in ("p50", "p90"):
        before, after = (_median([getattr(timing, name) for timing in series]) for series in (theirs, mine))
        pairs[name] = before, after
    return Comparison(
        comparison_group=group,
        method=method.value,
        baseline_candidate_id=baseline,
        candidate_id=candidate,
        baseline_repetition_count=len(theirs),
        candidate_repetition_count=len(mine),
        baseline_p50_ns=pairs["p50"][0],
        candidate_p50_ns=pairs["p50"][1],
        baseline_p90_ns=pairs["p90"][0],
        candidate_p90_ns=pairs["p90"][1],
        ratio_p50=_ratio(pairs["p50"][1], pairs["p50"][0]),
        speedup_p50=_ratio(pairs["p50"][0], pairs["p50"][1]),
        ratio_p90=_ratio(pairs["p90"][1], pairs["p90"][0]),
        speedup_p90=_ratio(pairs["p90"][0], pairs["p90"][1]),
        baseline_spread_ppm=_spread([timing.p50 for timing in theirs]),
        candidate_spread_ppm=_spread([timing.p50 for timing in mine]),
    )


def _median(values: Sequence[int]) -> int:
    """The lower median: one of the values."""
    return sorted(values)[(len(values) - 1) // 2]


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _spread(values: Sequence[int]) -> int:
    """How far apart the repetitions are, in millionths of the least."""
    low = min(values)
    return (max(values) - low) * 1_000_000 // low if low else 0
