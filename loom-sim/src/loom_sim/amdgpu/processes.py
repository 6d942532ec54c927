"""Workgroups of one launch in several processes.

The launch is forked when everything is set up; each process runs a consecutive part of the batches that one process
would run, with buffers in shared memory, and sends what it counted through a pipe. A fault of an earlier part wins, and
since batches are the same, it is the fault that one process would have reported.

Only workgroups that cannot talk to each other may be separated: code with atomics on global memory, coherent loads or
stores, or jumps to computed addresses runs in one process, and so does a strict run, which has to see all accesses to
find races between workgroups.
"""

from __future__ import annotations

import itertools
import mmap
import os
import pickle
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
import numpy as np

from loom_sim.amdgpu import waits
from loom_sim.amdgpu.banks import BankUse
from loom_sim.amdgpu.errors import SimulationError
from loom_sim.amdgpu.instruction import Instruction
from loom_sim.amdgpu.machine import Traffic, is_coherent
from loom_sim.amdgpu.memory import AddressSpace
from loom_sim.amdgpu.synchronization import SynchronizationCounts

_ELSEWHERE = ("s_setpc", "s_swappc", "s_call", "s_rfe", "ds_gws", "s_dcache_wb")
_CHILD_FAILED = 3
WORTH_SECONDS = 0.5
"""Work that is left, in seconds of one process, from which on more processes pay: to fork them, copy buffers and
collect results takes about a tenth of a second, and two processes save half of the work."""

Batch = tuple[int, int]


@attrs.define(slots=True)
class Counts:
    """What a part of a launch did, by mnemonic and by kind; see `program.LaunchReport`."""

    waves: int = 0
    instructions: Counter[str] = attrs.field(factory=Counter)
    kinds: Counter[str] = attrs.field(factory=Counter)
    barriers: int = 0
    traffic: Traffic = attrs.field(factory=Traffic)
    banks: BankUse | None = None
    synchronization: SynchronizationCounts = attrs.field(factory=SynchronizationCounts)

    def add(self, other: Counts) -> None:
        """Count another part too."""
        self.waves += other.waves
        self.instructions += other.instructions
        self.kinds += other.kinds
        self.barriers += other.barriers
        self.synchronization.add(other.synchronization)
        for field in attrs.fields_dict(Traffic):
            setattr(self.traffic, field, getattr(self.traffic, field) + getattr(other.traffic, field))
        if self.banks is not None and other.banks is not None:
            self.banks.passes += other.banks.passes
            self.banks.conflicts += other.banks.conflicts


def are_independent(code: Iterable[Instruction]) -> bool:
    """Whether workgroups that run this code can be separated; it is all code they can reach."""
    for inst in code:
        if inst.mnemonic.startswith(_ELSEWHERE):
            return False
        if waits.is_vector_memory(inst) and ("atomic" in inst.mnemonic or is_coherent(inst)):
            return False
    return True


def idle_processors() -> int:
    """How many processors this process may use that have nothing else to do, its own among them."""
    total = os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else total
    return max(1, min(allowed, total - round(os.getloadavg()[0]) + 1))


def available() -> bool:
    """Whether this system can fork."""
    return hasattr(os, "fork")


def parts(batches: Sequence[Batch], count: int) -> list[Sequence[Batch]]:
    """Consecutive parts of about the same length; none is empty."""
    count = min(count, len(batches))
    bounds = [len(batches) * k // count for k in range(count + 1)]
    return [batches[low:high] for low, high in itertools.pairwise(bounds)]


class SharedBuffers:
    """The writable buffers of an address space, moved to memory that forked processes share."""

    def __init__(self, space: AddressSpace) -> None:
        self._moved: list[tuple[Any, Any]] = []
        for segment in space.segments():
            if segment.writable and segment.size:
                shared = np.frombuffer(mmap.mmap(-1, segment.size), np.uint8)
                shared[:] = segment.bytes
                self._moved.append((segment, segment.bytes))
                segment.place(shared)

    def restore(self) -> None:
        """Copy results to where the buffers were."""
        for segment, original in self._moved:
            original[:] = segment.bytes
            segment.place(original)


def run_separately(
    work: Callable[[Sequence[Batch]], Counts], batches: Sequence[Batch], processes: int | None, space: AddressSpace
) -> tuple[Counts, int]:
    """Run batches in up to so many processes, or in as many as pay; returns also how many were used.

    Raises:
        SimulationError: see `run`.
    """
    done: list[Counts] = []
    if processes is None:
        # The first batch translates the code; how long the second takes is how long the others will.
        for batch in batches[:2]:
            start = time.perf_counter()
            done.append(work([batch]))
            seconds = time.perf_counter() - start
        batches = batches[2:]
        processes = idle_processors() if seconds * len(batches) > WORTH_SECONDS else 1
    used = min(processes, len(batches))
    if used > 1:
        shared = SharedBuffers(space)
        try:
            done.append(run(work, parts(batches, used)))
        finally:
            shared.restore()
    elif batches:
        done.append(work(batches))
    for counts in done[1:]:
        done[0].add(counts)
    return done[0], max(1, used)


def run(work: Callable[[Sequence[Batch]], Counts], separated: Sequence[Sequence[Batch]]) -> Counts:
    """Run each part in a process of its own.

    Raises:
        SimulationError: what the first part with a fault raised, or that a process died.
    """
    children: list[tuple[int, int]] = []
    total: Counts | None = None
    try:
        for part in separated:
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(reader)
                _child(work, part, writer)
            children.append((child, reader))
            os.close(writer)
        while children:
            child, reader = children[0]
            with open(reader, "rb", closefd=False) as stream:
                data = stream.read()
            os.close(reader)
            os.waitpid(child, 0)
            children.pop(0)
            outcome = pickle.loads(data) if data else SimulationError("a process of the launch has died")
            if isinstance(outcome, Exception):
                raise outcome
            if total is None:
                total = outcome
            else:
                total.add(outcome)
    finally:
        for child, reader in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reader)
    assert total is not None
    return total


def _child(work: Callable[[Sequence[Batch]], Counts], part: Sequence[Batch], writer: int) -> None:
    """Do the work of a part and end the process: nothing of the parent's may run twice."""
    status = _CHILD_FAILED
    parent = os.getppid()
    try:
        total: Counts | None = None
        outcome: Counts | Exception
        try:
            for batch in part:
                if os.getppid() != parent:
                    return  # nobody waits for the result any more
                done = work([batch])
                if total is None:
                    total = done
                else:
                    total.add(done)
            assert total is not None
            outcome = total
        except SimulationError as error:
            outcome = error
        except Exception as error:  # the parent has to tell: this process has no one to raise it to
            outcome = RuntimeError(f"a process of the launch failed: {error!r}")
        with open(writer, "wb") as stream:
            pickle.dump(outcome, stream)
        status = 0
    finally:
        os._exit(status)
