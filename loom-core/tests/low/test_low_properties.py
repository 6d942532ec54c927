"""Random programs: scheduling and allocation never change what a program computes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from low_toy_programs import add_ordering, inputs_for, random_program
from low_toy_run import run_final, run_ssa

from loom.low.allocate import allocate
from loom.low.check_allocation import check_allocation
from loom.low.check_schedule import check_schedule
from loom.low.machine import Function
from loom.low.schedule import Strategy, TableModel, schedule

MODEL = TableModel({"load": 20, "mul": 4, "alu": 1}, limits={"test.gpr": 16, "test.vec": 20})
BUDGETS: list[dict[str, int]] = [
    {},
    {"test.i32": 16, "test.vec": 5},
    {"test.i32": 12, "test.vec": 3},
]


def observe(outcome: tuple[object, object]) -> object:
    results, memory = outcome
    return results, memory.cells, memory.log  # type: ignore[attr-defined]


def prove(function: Function, budget: dict[str, int], strategy: Strategy, swaps: bool) -> None:
    inputs = inputs_for(function)
    wanted = observe(run_ssa(function, inputs))
    before = function.order()
    schedule(function, MODEL, strategy)
    check_schedule(before, function)
    assert observe(run_ssa(function, inputs)) == wanted
    final = allocate(function, budget, can_swap=("test.i32",) if swaps else ())
    check_allocation(function, final)
    assert observe(run_final(final, inputs)) == wanted
    limit = budget.get("test.i32")
    if limit is not None:
        fixed = {value.fixed for value in function.values() if value.fixed is not None}
        assert final.high_water["test.i32"] <= max(limit, 1 + max(fixed))


@settings(max_examples=60)
@given(
    seed=st.integers(0, 1 << 30),
    size=st.sampled_from([6, 25, 60]),
    budget=st.sampled_from(BUDGETS),
    strategy=st.sampled_from(list(Strategy)),
    swaps=st.booleans(),
)
def test_random_programs_keep_their_meaning(
    seed: int, size: int, budget: dict[str, int], strategy: Strategy, swaps: bool
) -> None:
    """Schedule, allocate, check both independently, and run: same results, memory and output."""
    prove(random_program(seed, size), budget, strategy, swaps)


@pytest.mark.seed("O01", "O02", "O05", "S02", "S05", "S09")
@settings(max_examples=60)
@given(
    seed=st.integers(0, 1 << 30),
    size=st.sampled_from([10, 30, 60]),
    strategy=st.sampled_from(list(Strategy)),
)
def test_random_fences_locks_and_scopes(seed: int, size: int, strategy: Strategy) -> None:
    """Whatever the mixture of ordering controls, all of them hold and the meaning stays."""
    function = random_program(seed, size)
    add_ordering(function, seed)
    prove(function, {}, strategy, swaps=True)


@pytest.mark.parametrize("seed", [1, 2, 7, 20])
def test_deeply_nested_programs(seed: int) -> None:
    """Three levels of loops and diamonds under a small budget."""
    prove(random_program(seed, 150, depth=3), BUDGETS[2], Strategy.LATENCY, swaps=False)


def test_allocation_is_deterministic() -> None:
    """Equal input gives equal registers and equal code."""

    def text(seed: int) -> list[str]:
        final = allocate(random_program(seed, 80), {"test.i32": 13})
        return [
            f"{item!r} {[final.assign[v] for v in getattr(item, 'operands', ())]}"
            for block in final.blocks
            for item in block.items
        ]

    assert text(5) == text(5)


def test_input_is_not_changed() -> None:
    """Allocation works on a copy, even when it spills."""
    function = random_program(20, 120)
    before = [repr(inst) for block in function.blocks for inst in block.instructions]
    assert allocate(function, {"test.i32": 12, "test.vec": 3}).spills
    assert [repr(inst) for block in function.blocks for inst in block.instructions] == before
