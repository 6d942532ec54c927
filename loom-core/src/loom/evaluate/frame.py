"""One activation of a function or kernel body: its values, its active lanes, and how its blocks run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from loom.evaluate.faults import FaultCode, fault, unsupported
from loom.evaluate.numeric.formats import Array
from loom.evaluate.poison import evaluate_with_poison
from loom.evaluate.values import Poisoned, RuntimeValue, choose
from loom.ir.core import Block, Op, Region, Value
from loom.ir.diagnostics import LoomError, Related
from loom.text.directives import index_entries

if TYPE_CHECKING:
    from loom.evaluate.machine import Machine
    from loom.evaluate.storage import Storage


class Frame:
    """``env`` maps SSA values to runtime values. ``mask`` (``bool[lanes]``) tells which lanes execute the current
    operation; ``None`` means all. At least one lane is active whenever an operation runs. ``exited`` are the lanes
    that have left the kernel before its end (``None``: none has). ``scratch`` is the private storage that the
    function has allocated, which ends with it."""

    __slots__ = ("env", "exited", "machine", "mask", "scratch")

    def __init__(self, machine: Machine, mask: Array | None) -> None:
        self.machine = machine
        self.mask = mask
        self.env: dict[Value, RuntimeValue] = {}
        self.exited: Array | None = None
        self.scratch: list[Storage] = []

    # -- lanes ---------------------------------------------------------------------------------------------

    @property
    def active(self) -> Array | None:
        """The indices of the active lanes in order, or ``None`` when all are active."""
        return None if self.mask is None else np.flatnonzero(self.mask)

    @property
    def first_active(self) -> int:
        """The first active lane."""
        return 0 if self.mask is None else int(np.argmax(self.mask))

    def narrowed(self, condition: Array) -> Array | None:
        """The mask of the active lanes in which a per-lane condition holds; ``None`` when that is all lanes."""
        mask = np.asarray(condition if self.mask is None else condition & self.mask)
        return None if mask.all() else mask

    def offender(self, bad: Array, rank: int = 0) -> int | None:
        """The first active lane in which something is wrong, or ``None``.

        ``bad`` is boolean with or without a lane axis in front of ``rank`` further axes.
        """
        if not bad.any():
            return None
        if bad.ndim <= rank:
            return self.first_active if self.mask is None or self.mask.any() else None
        if rank:
            bad = np.asarray(bad.any(axis=tuple(range(-rank, 0))))
        if self.mask is not None:
            bad = np.asarray(bad & self.mask)
        return int(np.argmax(bad)) if bad.any() else None

    def uniform(self, op: Op, value: Array, what: str) -> int:
        """The value that all active lanes share. Raises a located diagnostic when they differ."""
        if value.ndim == 0:
            return int(value)
        values = value if self.mask is None or not self.mask.any() else value[self.mask]
        if (values != values[0]).any():
            raise unsupported(op, f"{what} differs between work-items")
        return int(values[0])

    def fault(
        self,
        code: FaultCode,
        op: Op,
        message: str,
        lane: int,
        *,
        related: tuple[Related, ...] = (),
        **params: Any,
    ) -> LoomError:
        """A fault of one lane: the message names its work-item. ``related`` are other places it talks about."""
        who = self.machine.lanes.describe(lane)
        if who:
            params["workitem"] = who
            message += f" (by {who})"
        return fault(code, op, message, related=related, **params)

    # -- values --------------------------------------------------------------------------------------------

    def condition(self, op: Op, value: RuntimeValue) -> Array:
        """A condition or selector that decides control flow; it must not be poison."""
        if isinstance(value, Poisoned):
            lane = self.offender(value.lanes)
            if lane is not None:
                raise self.fault(
                    FaultCode.POISON,
                    op,
                    f"'{op.name}' decides on poison",
                    lane,
                    boundary_kind="control flow",
                    value_name=str(op.operands[0].name),
                )
            value = value.value
        assert isinstance(value, np.ndarray)
        return value

    def merge(self, op: Op, result: Value, condition: Array, a: RuntimeValue, b: RuntimeValue) -> RuntimeValue:
        """``a`` where the condition holds and ``b`` elsewhere, for a result of ``op``."""
        try:
            return choose(result.type, condition, a, b)
        except TypeError as reason:
            raise unsupported(op, f"'{op.name}' diverges: {reason}") from None

    def extent(self, dim: int | Value) -> Array:
        """An extent of a shaped type, ``int64`` of shape ``()`` or ``[lanes]``."""
        if isinstance(dim, int):
            return np.asarray(dim, dtype=np.int64)
        value = self.env[dim]
        if isinstance(value, Poisoned):
            lane = self.offender(value.lanes)
            if lane is not None:
                assert dim.defining_op is not None
                raise self.fault(
                    FaultCode.POISON,
                    dim.defining_op,
                    f"%{dim.name or '?'} is poison and the extent of a type",
                    lane,
                    value_name=str(dim.name),
                    boundary_kind="type",
                )
            value = value.value
        assert isinstance(value, np.ndarray)
        return value

    def indices(self, dynamic: Sequence[Value], static: Sequence[int]) -> list[Array]:
        """An index list with its static entries, ``int64`` of shape ``()`` or ``[lanes]`` each.

        Poison is for the caller to look at; its place holds some index.
        """
        entries = index_entries(dynamic, static)
        values = [np.asarray(e, dtype=np.int64) if isinstance(e, int) else self.env[e] for e in entries]
        return [v.value if isinstance(v, Poisoned) else v for v in values]

    # -- execution -----------------------------------------------------------------------------------------

    def run_block(self, block: Block, mask: Array | None) -> Op:
        """Run a block with the given active lanes and return its terminator, which is not run.

        The rest of the block is left out once all lanes have left the kernel.
        """
        machine = self.machine
        self.mask = mask
        env = self.env
        poison = machine.program.has_poison
        exited = self.exited
        for rule, op in machine.program.rules_of(block):
            operands = [env[v] for v in op.operands]
            results = evaluate_with_poison(self, rule, op, operands) if poison else rule(self, op, operands)
            self.mask = mask
            for result, value in zip(op.results, results, strict=True):
                env[result] = value
            if self.exited is not exited:
                exited = self.exited
                assert exited is not None
                mask = self.mask = self.narrowed(~exited)
                if mask is not None and not mask.any():
                    break
        terminator = block.last
        assert terminator is not None
        return terminator

    def run_region(
        self, region: Region, mask: Array | None, arguments: Sequence[RuntimeValue] = ()
    ) -> list[RuntimeValue]:
        """Run a region of one block; returns the operands of its terminator."""
        entry = region.entry
        for parameter, value in zip(entry.args, arguments, strict=True):
            self.env[parameter] = value
        return [self.env[v] for v in self.run_block(entry, mask).operands]
