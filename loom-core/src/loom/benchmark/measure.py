"""Taking the time of an operation, in batches."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from loom.benchmark.records import Interpretation, Measure, Measurement, Policy, Timing, timing

Clock = Callable[[], int]

_FEW_DISPATCHES: Final = 10
_MEANINGS: Final = {
    Measure.CASE_END_TO_END: "median time of making the inputs and running everything, on this machine's clock",
    Measure.END_TO_END: "median time of the launches and calls, on this machine's clock",
    Measure.DISPATCH_COMPLETE: "median time of the launches, on this machine's clock",
}


def measure(
    operation: Callable[[], None], dispatches: int, policy: Policy, clock: Clock = time.perf_counter_ns
) -> Measurement:
    """Run an operation again and again and take the times.

    ``dispatches`` is how many launches one operation makes. Batches run until there are as many as the policy's
    iterations and its least time is over, at most ``max_batches``. What the operation raises is passed on.
    """
    warmups, warmup_duration = _warm_up(operation, policy, clock)
    batches: list[int] = []
    least = int(policy.min_time_ms * 1e6)
    measured = 0
    reason = "max_batches"
    while len(batches) < policy.max_batches:
        start = clock()
        for _ in range(policy.batch_size):
            operation()
        batches.append(clock() - start)
        measured += batches[-1]
        if len(batches) >= policy.iterations and measured >= least:
            reason = "iterations" if len(batches) == policy.iterations else "min_time"
            break
    operations = len(batches) * policy.batch_size
    per_operation = timing([batch // policy.batch_size for batch in batches])
    total_dispatches = operations * dispatches
    return Measurement(
        operation_timing_ns=per_operation,
        batch_timing_ns=timing(batches),
        logical_operations_per_batch=policy.batch_size,
        physical_dispatches_per_batch=policy.batch_size * dispatches,
        physical_dispatches_per_logical_operation=dispatches,
        warmup_batch_count=warmups,
        warmup_duration_ns=warmup_duration,
        measured_batch_count=len(batches),
        measured_logical_operation_count=operations,
        measured_physical_dispatch_count=total_dispatches,
        measured_duration_ns=measured,
        stop_reason=reason,
        timing_interpretation=Interpretation(
            per_operation.p50,
            _MEANINGS[policy.measure],
            "ns",
            _warnings(policy, per_operation, measured, total_dispatches),
        ),
        mean_physical_dispatch_duration_ns=measured / total_dispatches if total_dispatches else None,
    )


def _warm_up(operation: Callable[[], None], policy: Policy, clock: Clock) -> tuple[int, int]:
    count, begin = 0, clock()
    while count < policy.warmup_iterations or clock() - begin < policy.warmup_time_ms * 1e6:
        operation()
        count += 1
    return count, clock() - begin


def _warnings(policy: Policy, per_operation: Timing, measured: int, dispatches: int) -> tuple[str, ...]:
    doubts = {
        "short_measured_duration": measured < policy.min_time_ms * 1e6,
        "single_logical_operation_batch": policy.batch_size == 1,
        "low_physical_dispatch_sample_count": 0 < dispatches < _FEW_DISPATCHES,
        "sub_microsecond_logical_operation": per_operation.p50 < 1000,
        "unstable_p90_to_p50": per_operation.p90_to_p50_delta_ppm > policy.stable_p90_to_p50_ppm,
    }
    return tuple(name for name, holds in doubts.items() if holds)
