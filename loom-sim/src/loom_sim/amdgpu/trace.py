"""Watching a launch: the observer interface, and a timeline of every wave for trace viewers.

The timeline is in the Trace Event Format (JSON), which Perfetto and other viewers open: a process is a workgroup, a
thread is a wave, a slice is a run of instructions without a branch. The emulator has no clock of the hardware, so
time is counted in instructions issued by the emulator, one per microsecond of the viewer: the order of things is
what a trace shows, and the same launch always gives the same trace.

Source: "Trace Event Format", sections JSON Object Format, Complete Events, Instant Events, Metadata Events.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from loom_sim.amdgpu.limits import DEFAULT_TRACE_LIMIT

if TYPE_CHECKING:
    from loom_sim.amdgpu.blocks import Block
    from loom_sim.amdgpu.machine import Machine
    from loom_sim.amdgpu.state import Array, Group


class Observer(Protocol):
    """What a launch tells to who watches it."""

    def batch(self, first_workgroup: int, waves_per_workgroup: int) -> None:
        """Waves numbered from 0 start; wave n belongs to workgroup `first_workgroup + n // waves_per_workgroup`."""

    def executed(self, block: Block, waves: Array, lanes: Array, start: int) -> None:
        """A block ran.

        Args:
            block: its instructions, all executed.
            waves: numbers of the waves that ran it together, shape (n,).
            lanes: their active lanes, bool of shape (n, wave size).
            start: instructions issued in the launch before it.
        """


class Control(Protocol):
    """Who is asked before every instruction; see `debug`."""

    def batch(self, first_workgroup: int, waves_per_workgroup: int) -> None:
        """See `Observer`."""

    def before(self, group: Group, machine: Machine, vectors: int, text: Callable[[], str]) -> None:
        """Waves are about to execute the instruction at `group.pc`, whose assembly `text` gives."""


@attrs.frozen(slots=True)
class _Slice:
    """A slice of one wave's row; `lanes` is -1 where the number of active lanes means nothing, `source` is empty where
    it is not known.
    """

    wave: int
    name: str
    start: int
    duration: int
    lanes: int
    source: str


class Timeline:
    """Collects slices, at most `limit` of them; what comes after is counted and left out.

    Args:
        limit: number of slices to keep.
        instructions: also a slice for each instruction, inside the one of its block.
        source_of: says where the instruction at an address comes from (`Program.source_of`); slices then tell.

    Attributes:
        recorded, dropped: slices kept and left out.
        cut_at: time of the first slice left out, or None.
    """

    def __init__(
        self,
        limit: int = DEFAULT_TRACE_LIMIT,
        *,
        instructions: bool = False,
        source_of: Callable[[int], object | None] = lambda address: None,
    ) -> None:
        self.limit = limit
        self.instructions = instructions
        self._source_of = source_of
        self.dropped = 0
        self.cut_at: int | None = None
        self._slices: list[_Slice] = []
        self._first = 0
        self._per_group = 1
        self._waiting: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        self._sources: dict[Block, list[str]] = {}

    @property
    def recorded(self) -> int:
        """Slices kept."""
        return len(self._slices)

    def batch(self, first_workgroup: int, waves_per_workgroup: int) -> None:
        """See `Observer`."""
        self._first = first_workgroup * waves_per_workgroup
        self._per_group = waves_per_workgroup

    def executed(self, block: Block, waves: Array, lanes: Array, start: int) -> None:
        """See `Observer`."""
        length = len(block.instructions)
        per_wave = 1 + (length if self.instructions else 0)
        if self.cut_at is not None:
            self.dropped += per_wave * len(waves)
            return
        name = f"{block.instructions[0].address:#x} {block.instructions[0].mnemonic}"
        texts = [inst.text for inst in block.instructions] if self.instructions else []
        sources = self._sources_of(block)
        active = lanes.sum(axis=1).tolist()
        for wave, count in zip((waves + self._first).tolist(), active, strict=True):
            arrived = self._waiting.pop(wave, None)
            if arrived is not None and start > arrived:
                self._keep(_Slice(wave, "barrier", arrived, start - arrived, -1, ""))
            self._keep(_Slice(wave, name, start, length, count, sources[0]))
            for k, text in enumerate(texts):
                self._keep(_Slice(wave, text, start + k, 1, count, sources[k]))
            if block.end.kind == "barrier":
                self._waiting[wave] = start + length
            elif block.end.kind == "stop":
                self._ended[wave] = start + length

    def _sources_of(self, block: Block) -> list[str]:
        found = self._sources.get(block)
        if found is None:
            shown = block.instructions if self.instructions else block.instructions[:1]
            found = self._sources[block] = [str(self._source_of(inst.address) or "") for inst in shown]
        return found

    def _keep(self, new: _Slice) -> None:
        if len(self._slices) < self.limit:
            self._slices.append(new)
            return
        if self.cut_at is None:
            self.cut_at = new.start
        self.dropped += 1

    def events(self) -> list[dict[str, Any]]:
        """The trace events: names of the rows, then slices in the order they were recorded."""
        rows = sorted({s.wave for s in self._slices})
        events: list[dict[str, Any]] = []
        for workgroup in sorted({wave // self._per_group for wave in rows}):
            events.append(_name("process_name", workgroup + 1, None, f"workgroup {workgroup}"))
        for wave in rows:
            workgroup, place = divmod(wave, self._per_group)
            events.append(_name("thread_name", workgroup + 1, wave + 1, f"wave {place}"))
        for s in self._slices:
            # Viewers give process and thread 0 a meaning of their own, so numbers start at 1; threads are numbered
            # through all workgroups because some viewers identify a thread by its number alone.
            event: dict[str, Any] = {
                "ph": "X",
                "pid": s.wave // self._per_group + 1,
                "tid": s.wave + 1,
                "name": s.name,
                "ts": s.start,
                "dur": s.duration,
            }
            if s.lanes >= 0:
                event["args"] = {"active lanes": s.lanes, **({"source": s.source} if s.source else {})}
            events.append(event)
        for wave, at in self._ended.items():
            if self.cut_at is None or at <= self.cut_at:
                events.append(_instant("end", at, "t", wave // self._per_group + 1, wave + 1))
        if self.cut_at is not None:
            text = f"the trace is cut here: {self.dropped} slices left out"
            events.append(_instant(text, self.cut_at, "g", 1, 1))
        return events

    def to_json(self, **about: Any) -> str:
        """The trace as JSON text; `about` is added to what `otherData` says about the trace."""
        other = {
            "clock": "one microsecond is one instruction issued by the emulator, not a time of the hardware",
            "slices": self.recorded,
            "slices left out": self.dropped,
            **about,
        }
        document = {"displayTimeUnit": "ns", "otherData": other, "traceEvents": self.events()}
        return json.dumps(document, separators=(",", ":")) + "\n"


def _name(what: str, process: int, thread: int | None, name: str) -> dict[str, Any]:
    event: dict[str, Any] = {"ph": "M", "pid": process, "name": what, "args": {"name": name}}
    if thread is not None:
        event["tid"] = thread
    return event


def _instant(name: str, at: int, scope: str, process: int, thread: int) -> dict[str, Any]:
    return {"ph": "i", "s": scope, "pid": process, "tid": thread, "name": name, "ts": at}
