"""Loop policies never change results: random programs with and without them on the evaluator."""

from __future__ import annotations

import os
from typing import Any

import pytest

Agreement = Any

# LOOM_LOOP_PROGRAMS asks for more programs than a quick run has.
PROGRAMS = int(os.environ.get("LOOM_LOOP_PROGRAMS", "120"))
FIRST = int(os.environ.get("LOOM_LOOP_FIRST", "0"))
SHARD = 40


@pytest.mark.seed("A03", "A04", "A07", "A09", "A10", "A11", "A12", "A16", "A20", "U03", "U04", "U05", "U06", "N01")
@pytest.mark.seed("A08", "R01", "R02", "Y04", "Y06", "Y07")
@pytest.mark.parametrize("first", range(FIRST, FIRST + PROGRAMS, SHARD))
def test_policies_do_not_change_results(agreement: Agreement, first: int) -> None:
    """Depths 1 to 5 with factors 1 to 6, bare unrolling, every schedule, templates, carried views, 0 to 20 iterations."""
    assert agreement.check_all(range(first, min(first + SHARD, FIRST + PROGRAMS))) == []


def test_programs_take_every_combination_of_policies(agreement: Agreement) -> None:
    """Five depths, six factors and four schedules, the default one included, before any comes again."""
    policies = [agreement.policy(seed) for seed in range(240)]
    assert len(set(policies)) == 120
    assert policies[:120] == policies[120:]


@pytest.mark.parametrize("seed", range(6))
def test_every_pass_keeps_the_meaning(agreement: Agreement, seed: int) -> None:
    agreement.check_each_pass(seed)


@pytest.mark.seed("U05", "U06")
@pytest.mark.parametrize("shard", range(4))
def test_schedules_keep_the_order_of_accesses(agreement: Agreement, shard: int) -> None:
    for seed in range(shard, max(20, min(PROGRAMS // 4, 100)), 4):
        agreement.check_memory_order(seed)


@pytest.mark.parametrize("seed", [170, 248, 367, 492, 18100])
def test_guards_may_name_what_rewriting_erased(agreement: Agreement, seed: int) -> None:
    """Facts of values are asked while operations behind older guards are already gone."""
    agreement.check(seed)
