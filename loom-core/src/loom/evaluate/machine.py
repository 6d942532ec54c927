"""The evaluator: runs callable operations on NumPy values, all lanes of a batch in lockstep."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import numpy as np

from loom.evaluate.faults import FaultCode, fault, unsupported
from loom.evaluate.frame import Frame
from loom.evaluate.lanes import Lanes
from loom.evaluate.limits import Limits
from loom.evaluate.numeric.formats import Array
from loom.evaluate.poison import may_make_poison, observe
from loom.evaluate.races import Clock, RaceDetector, Synchronization
from loom.evaluate.rules import Rule, find_rule
from loom.evaluate.storage import Storage
from loom.evaluate.strands import StrandRaces, Strands
from loom.evaluate.transfers import Stream
from loom.evaluate.values import Buffer, Poisoned, RuntimeValue, integer
from loom.ir.core import Block, Module, Op, Region, symbol_name

Results = list[RuntimeValue]

# What storage that a launch asks for can be aligned to.
LAUNCH_STORAGE_ALIGNMENT: Final = 4096


@attrs.define(eq=False)
class Program:
    """A module made ready to run: symbols, the rules of its blocks, module state, and the budgets of a run.

    ``facts`` are normalized target facts, ``globals`` what loading each symbol gives. The module
    must be verified, its applications of templates resolved, and it must not change while the program is in use.
    """

    module: Module
    facts: Mapping[str, object] = attrs.field(factory=dict)
    limits: Limits = attrs.field(factory=Limits)
    globals: dict[str, tuple[RuntimeValue, ...]] = attrs.field(factory=dict)
    initialized: bool = False
    steps: int = 0
    scratch_bytes: int = 0
    symbols: dict[str, Op] = attrs.field(init=False)
    has_poison: bool = attrs.field(init=False)
    sites: list[Op] = attrs.field(init=False, factory=list)
    _numbers: dict[Op, int] = attrs.field(init=False, factory=dict)
    _rules: dict[Block, list[tuple[Rule, Op]]] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self.symbols = self.module.symbols()
        self.has_poison = any(may_make_poison(op) for op in self.module.walk())

    def rules_of(self, block: Block) -> list[tuple[Rule, Op]]:
        """The operations of a block but its terminator, each with its rule."""
        found = self._rules.get(block)
        if found is None:
            found = self._rules[block] = [
                (find_rule(op) or _without_rule, op) for op in block if "terminator" not in op.spec.traits
            ]
        return found

    def site(self, op: Op) -> int:
        """The number of an operation that accesses memory: its index in ``sites``."""
        number = self._numbers.get(op)
        if number is None:
            number = self._numbers[op] = len(self.sites)
            self.sites.append(op)
        return number

    def step(self, op: Op) -> None:
        """Count one loop iteration, block transfer or call. Raises a diagnostic when the budget is used up."""
        self.steps += 1
        if self.steps > self.limits.steps:
            raise fault(
                FaultCode.STEP_LIMIT,
                op,
                f"the program takes more than {self.limits.steps} steps; it may not terminate",
                limit=self.limits.steps,
            )

    def reserve(self, op: Op, size: int) -> None:
        """Count bytes of scratch that are about to be made. Raises a diagnostic beyond the limit."""
        limit = self.limits.scratch_bytes
        if self.scratch_bytes + size > limit:
            raise fault(
                FaultCode.MEMORY_LIMIT,
                op,
                f"{size} more bytes of values and scratch exceed the limit of {limit}",
                bytes=size,
                limit=limit,
            )

    def hold(self, storage: Storage) -> None:
        """Count the bytes of a storage for as long as something refers to it."""
        size = storage.data.size
        self.scratch_bytes += size
        weakref.finalize(storage, self._release, size)

    def _release(self, size: int) -> None:
        self.scratch_bytes -= size


def _without_rule(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    raise unsupported(op, f"'{op.name}' has no meaning in the reference evaluator")


class Machine:
    """Evaluates one batch of lanes.

    ``synchronization`` is that of the dispatch, ``strands`` are those of the run of a pipeline.
    """

    def __init__(
        self,
        program: Program,
        lanes: Lanes,
        synchronization: Synchronization | None = None,
        strands: Strands | None = None,
    ) -> None:
        self.program = program
        self.strands = strands
        if synchronization is None:
            synchronization = strands.synchronization if strands is not None else Synchronization()
        self.synchronization = synchronization
        self.lanes = lanes
        self.stream = Stream()
        self.depth = 0
        self._launch_storage: Buffer | None = None
        # The most that each allocation has taken of a workgroup's storage.
        self._workgroup_bytes: dict[Op, int] = {}
        # Barriers order the accesses of the space that they name, so each space has its own clock.
        self.clocks = {"workgroup": Clock(lanes.item), "global": Clock(lanes.item)}

    # -- storage -------------------------------------------------------------------------------------------

    def allocate(self, op: Op, space: str, size: Array, alignment: int, mask: Array | None) -> Buffer:
        """Fresh scratch of ``size`` bytes per instance: one per lane (private), per workgroup, or in total.

        ``size`` is ``int64`` of shape ``()`` or ``[lanes]``; lanes of one workgroup must agree on the size of
        workgroup storage.
        """
        lanes = self.lanes
        active = size if size.ndim == 0 or mask is None else size[mask]
        largest = int(active.max())
        stride = max(-(-largest // alignment) * alignment, alignment)
        shared = lanes.geometry is not None and space == "workgroup"
        if shared and size.ndim:
            group = lanes.group if mask is None else lanes.group[mask]
            ends = np.zeros(lanes.group_count, dtype=np.int64)
            ends[group] = active
            if (ends[group] != active).any():
                raise unsupported(op, "the work-items of a workgroup allocate different sizes of workgroup storage")
        if shared:
            self._take_workgroup_storage(op, largest)
        instances = lanes.group_count if shared else lanes.count
        total = instances * stride
        self.program.reserve(op, total)
        watched = self.program.limits.races and (shared or self.strands is not None)
        storage = Storage(
            space, np.zeros(total, dtype=np.uint8), fresh=True, races=self.race_detector(total) if watched else None
        )
        self.program.hold(storage)
        if instances == 1:
            base = integer(0)
        else:
            index = lanes.group if shared else np.arange(lanes.count, dtype=np.int64)
            base = index * stride
        return Buffer((storage,), base, size)

    def _take_workgroup_storage(self, op: Op, size: int) -> None:
        """Count the bytes of one workgroup's frame. Raises a diagnostic when the target has fewer."""
        self._workgroup_bytes[op] = max(size, self._workgroup_bytes.get(op, 0))
        limit, total = self.program.facts.get("max_workgroup_storage_bytes"), sum(self._workgroup_bytes.values())
        if isinstance(limit, int) and total > limit:
            raise fault(
                FaultCode.MEMORY_LIMIT,
                op,
                f"the kernel needs {total} bytes of workgroup storage, but the target has {limit}",
                limit=limit,
                bytes=total,
            )

    def launch_storage(self, op: Op) -> Buffer:
        """The workgroup storage that the launch asked for, one instance per workgroup, the same in every request."""
        if self._launch_storage is None:
            assert self.lanes.geometry is not None
            size = integer(self.lanes.geometry.dynamic_storage)
            self._launch_storage = self.allocate(op, "workgroup", size, LAUNCH_STORAGE_ALIGNMENT, None)
        return self._launch_storage

    def race_detector(self, size: int) -> RaceDetector | None:
        """What watches storage that several work-items or strands reach; nothing for a host function."""
        if self.strands is not None:
            return StrandRaces(size, self.strands)
        if self.lanes.geometry is None:
            return None
        return RaceDetector(size, self.lanes.items_per_group, self.lanes.subgroup_size, self.synchronization)

    # -- calls ---------------------------------------------------------------------------------------------

    def call(
        self,
        op: Op,
        callee: Op,
        arguments: Sequence[RuntimeValue],
        mask: Array | None,
        entered: Callable[[Frame], None] | None = None,
    ) -> Results:
        """Run the body of a function-like operation with the active lanes; ``op`` is the call (for diagnostics).

        ``entered`` is called with the new frame once the parameters are bound. Private storage that a callee has
        allocated ends with the call, whoever has been handed a view of it.
        """
        self.program.step(op)
        if self.depth >= self.program.limits.call_depth:
            raise fault(
                FaultCode.CALL_DEPTH,
                op,
                f"calls nest deeper than {self.program.limits.call_depth}",
                limit=self.program.limits.call_depth,
            )
        self.depth += 1
        frame = Frame(self, mask)
        body = callee.regions[-1]
        for parameter, value in zip(body.entry.args, arguments, strict=True):
            frame.env[parameter] = value
        if entered is not None:
            entered(frame)
        results = self._run_body(frame, body, mask)
        self.depth -= 1
        # The outermost body has no caller; what it starts may go on behind its end.
        for storage in frame.scratch if self.depth else ():
            storage.ended = f"private storage of '@{symbol_name(callee)}', which has returned"
        return results

    def _run_body(self, frame: Frame, body: Region, mask: Array | None) -> Results:
        if len(body.blocks) > 1:
            from loom.evaluate.control import run_graph

            return run_graph(frame, body, mask)
        end = frame.run_block(body.entry, mask)
        return returned(frame, end)


def returned(frame: Frame, end: Op) -> Results:
    """The operands of a return. What leaves the program must not be poison."""
    values: list[Any] = [frame.env[v] for v in end.operands]
    if frame.machine.program.has_poison and frame.machine.depth == 1:
        observe(frame, end, values, "observation boundary")
        values = [v.value if isinstance(v, Poisoned) else v for v in values]
    return values
