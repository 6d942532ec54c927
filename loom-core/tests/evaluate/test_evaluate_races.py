"""The race detector against an exhaustive model that remembers every access."""

from __future__ import annotations

import random

import numpy as np
import pytest

from loom.evaluate.races import Access, Clock, RaceDetector, Synchronization

SIZE = 16
GROUP, SUBGROUP, ITEMS = 4, 2, 8


class Model:
    """All accesses so far: byte -> (work-item, workgroup barriers, subgroup barriers, kind, scope)."""

    def __init__(self) -> None:
        self.accesses: dict[int, list[tuple[int, int, int, Access, str]]] = {byte: [] for byte in range(SIZE)}
        self.barriers = dict.fromkeys(range(ITEMS), (0, 0))

    def conflicts(self, item: int, byte: int, access: Access, scope: str) -> set[int]:
        """Work-items whose accesses to the byte race with this one."""
        workgroup, subgroup = self.barriers[item]
        found = set()
        for other, other_workgroup, other_subgroup, other_access, other_scope in self.accesses[byte]:
            mutual = holds(scope, item, other) and holds(other_scope, item, other)
            if other == item or not conflicting(access, other_access, mutual):
                continue
            ordered = other // GROUP == item // GROUP and (
                other_workgroup != workgroup
                or (other % GROUP // SUBGROUP == item % GROUP // SUBGROUP and other_subgroup != subgroup)
            )
            if not ordered:
                found.add(other)
        return found

    def note(self, item: int, byte: int, access: Access, scope: str) -> None:
        self.accesses[byte].append((item, *self.barriers[item], access, scope))


def conflicting(a: Access, b: Access, mutual: bool) -> bool:
    """At least one access writes, and they are not both atomic in scopes that hold both work-items."""
    writes = {Access.WRITE, Access.ATOMIC_WRITE} & {a, b}
    plain = {Access.READ, Access.WRITE} & {a, b}
    return bool(writes) and (bool(plain) or not mutual)


def holds(scope: str, item: int, other: int) -> bool:
    """Whether two work-items are in one instance of a scope."""
    size = {"thread": 1, "subgroup": SUBGROUP, "workgroup": GROUP}.get(scope, ITEMS)
    if size < GROUP and item // GROUP != other // GROUP:
        return False
    return item // size == other // size


@pytest.mark.parametrize("seed", range(600))
def test_a_race_is_found_exactly_when_there_is_one(seed: int) -> None:
    rng = random.Random(seed)
    detector, model = RaceDetector(SIZE, GROUP, SUBGROUP), Model()
    clock = Clock(np.arange(ITEMS, dtype=np.int64))
    scopes = rng.choice((("device",), ("workgroup", "system"), ("subgroup", "workgroup", "device"), ("thread",)))
    weights = rng.choice(((95, 5, 0, 0), (50, 50, 0, 0), (50, 5, 40, 5), (40, 2, 2, 40), (5, 5, 40, 40)))
    for _ in range(60):
        if rng.random() < 0.35:
            barrier(rng, clock, model)
            continue
        lanes = sorted(rng.sample(range(ITEMS), rng.randint(1, 3)))
        width = rng.choice((1, 2, 4))
        starts = [rng.randrange(0, SIZE, width) for _ in lanes]
        access, scope = rng.choices(list(Access), weights)[0], rng.choice(scopes)
        expected = []
        for position, (lane, start) in enumerate(zip(lanes, starts, strict=True)):
            hits = set()
            for byte in range(start, start + width):
                hits |= model.conflicts(lane, byte, access, scope)
            if access in (Access.WRITE, Access.ATOMIC_WRITE):
                hits |= {
                    other for other, at in zip(lanes, starts, strict=True)
                    if other != lane and at < start + width and start < at + width
                    and (access is Access.WRITE or not holds(scope, lane, other))
                }  # fmt: skip
            if hits:
                expected.append((position, hits))
        race = detector.note(access, np.asarray(starts, dtype=np.int64), width, clock.stamp[lanes], 0, scope)
        if expected:
            assert race is not None
            assert any(position == race.position and race.other_item in hits for position, hits in expected)
            return
        assert race is None
        for lane, start in zip(lanes, starts, strict=True):
            for byte in range(start, start + width):
                model.note(lane, byte, access, scope)


def barrier(rng: random.Random, clock: Clock, model: Model) -> None:
    """Let one workgroup or subgroup pass a barrier, in the detector's clock and in the model."""
    scope = rng.choice(("workgroup", "subgroup"))
    span = GROUP if scope == "workgroup" else SUBGROUP
    first = rng.randrange(0, ITEMS, span)
    lanes = np.arange(first, first + span)
    clock.advance(lanes, scope)
    for lane in lanes.tolist():
        workgroup, subgroup = model.barriers[lane]
        model.barriers[lane] = (workgroup + 1, 0) if scope == "workgroup" else (workgroup, subgroup + 1)


def test_acquiring_after_a_release_forgets_what_came_before() -> None:
    order = Synchronization()
    detector = RaceDetector(SIZE, GROUP, SUBGROUP, order)
    stamps = Clock(np.arange(ITEMS, dtype=np.int64)).stamp
    at = np.zeros(1, dtype=np.int64)

    def note(access: Access, item: int) -> bool:
        return detector.note(access, at, 4, stamps[[item]]) is not None

    assert not note(Access.WRITE, 0)
    order.note("acquire", "device")
    assert note(Access.READ, 7)
    order.note("release", "device")
    assert note(Access.READ, 7)
    order.note("acquire", "thread")
    assert note(Access.READ, 7)
    order.note("acquire", "device")
    assert not note(Access.READ, 7)
    assert note(Access.WRITE, 0)
