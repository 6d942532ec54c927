"""Loop policies never change results: random programs with and without them on the evaluator."""

from __future__ import annotations

import os
from typing import Any

import pytest

Agreement = Any

# LOOM_LOOP_PROGRAMS asks for more programs than a quick run has.
PROGRAMS = int(os.environ.get("LOOM_LOOP_PROGRAMS", "60"))
FIRST = int(os.environ.get("LOOM_LOOP_FIRST", "0"))
SHARDS = 10


@pytest.mark.seed("A03", "A04", "A07", "A09", "A10", "A11", "A12", "A16", "A20", "U03", "U05", "U06", "N01")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_policies_do_not_change_results(agreement: Agreement, shard: int) -> None:
    """Depths 1 to 5, factors 1 to 6 and bare unrolling, every schedule, 0 to 20 iterations."""
    for seed in range(FIRST + shard, FIRST + PROGRAMS, SHARDS):
        agreement.check(seed)


@pytest.mark.parametrize("seed", range(6))
def test_every_pass_keeps_the_meaning(agreement: Agreement, seed: int) -> None:
    agreement.check_each_pass(seed)


@pytest.mark.seed("U05", "U06")
@pytest.mark.parametrize("shard", range(4))
def test_schedules_keep_the_order_of_accesses(agreement: Agreement, shard: int) -> None:
    for seed in range(shard, max(20, PROGRAMS // 4), 4):
        agreement.check_memory_order(seed)
