"""Simultaneous moves in sequence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom.low.parallel_copy import NoScratch, Step, sequentialize

MOVES = st.dictionaries(st.integers(0, 9), st.integers(0, 9), max_size=10)


def run(steps: list[Step[int]], state: dict[int, int]) -> dict[int, int]:
    state = dict(state)
    for step in steps:
        if step.swap:
            state[step.target], state[step.source] = state[step.source], state[step.target]
        else:
            state[step.target] = state[step.source]
    return state


@given(MOVES, st.booleans())
def test_sequence_equals_simultaneous_moves(moves: dict[int, int], spare: bool) -> None:
    """Whether cycles go through a free place or exchanges, every target gets its source's old value."""
    start = {place: place + 100 for place in range(11)}
    steps = sequentialize(moves.items(), lambda place: 10 if spare else None, lambda place: not spare)
    end = run(steps, start)
    for place in range(10):
        assert end[place] == start[moves.get(place, place)]


@given(MOVES)
def test_only_cycles_need_help(moves: dict[int, int]) -> None:
    """Without help, chains and trees work and only true cycles are refused."""

    def in_cycle(place: int) -> bool:
        seen = place
        for _ in range(11):
            if seen not in moves or moves[seen] == seen:
                return False
            seen = moves[seen]
            if seen == place:
                return True
        return False

    cyclic = any(in_cycle(place) for place in moves)
    try:
        steps = sequentialize(moves.items(), lambda place: None, lambda place: False)
    except NoScratch:
        assert cyclic
    else:
        assert not cyclic
        assert len(steps) == sum(target != source for target, source in moves.items())


def test_cycle_costs_one_extra_move() -> None:
    """A cycle of three takes four moves with a free place and two exchanges without."""
    moves = [(0, 1), (1, 2), (2, 0)]
    assert len(sequentialize(moves, lambda place: 9, lambda place: False)) == 4
    swaps = sequentialize(moves, lambda place: None, lambda place: True)
    assert [step.swap for step in swaps] == [True, True]


def test_no_help_for_a_cycle_is_an_error() -> None:
    """The error names a place of the cycle."""
    with pytest.raises(NoScratch) as caught:
        sequentialize([(0, 1), (1, 0)], lambda place: None, lambda place: False)
    assert caught.value.location in (0, 1)
