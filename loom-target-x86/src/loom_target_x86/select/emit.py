"""Appending packets: register classes, common subexpressions, and moving invariant code out of loops.

Selection describes control flow as nested scopes: conditional branches and loops. A pure packet is looked up in the
scopes around it before it is made, and is made in front of every loop whose values it does not use. A loop's
front is only reached when its body runs, so even a division may move there, unless it stands under a condition
inside the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from loom.dialects.low import ops as low
from loom.ir.core import Block, Op, Region, Value
from loom.ir.types import RegType
from loom.low.assembly import inferred_result_type, make_packet
from loom.low.builder import LowBuilder, reg_type
from loom.low.descriptors import Descriptor, DescriptorSet
from loom.low.machine import MemoryAccess
from loom_target_x86.registers import SINGLETONS, WIDTH_OF_CLASS

_PLAIN_CLASS: Final = {"d": "x86.gpr32", "q": "x86.gpr64", "x": "x86.xmm"}

#: Schedule classes of instructions that raise exceptions for some operands.
_TRAPPING: Final = frozenset({"div"})


class _Scope:
    """A stretch of the program that is entered and left as a whole.

    `front` is the block in front of a loop; None for a conditional branch or the function itself.
    """

    __slots__ = ("front", "table")

    def __init__(self, front: Block | None) -> None:
        self.front = front
        self.table: dict[object, list[Value]] = {}


class Emit:
    """Builds the body of one Low function.

    `memory` says what is known of the addresses of the accesses made so far.
    """

    def __init__(self, descriptor_set: DescriptorSet, region: Region) -> None:
        self.builder = LowBuilder(descriptor_set, region)
        self.vex = "vaddss.xmm" in descriptor_set.by_mnemonic
        self.memory: dict[Op, MemoryAccess] = {}
        self._scopes: list[_Scope] = [_Scope(None)]
        self._levels: dict[Value, int] = {}

    def has(self, mnemonic: str) -> bool:
        """Whether the profile has an instruction."""
        return self.builder.has(mnemonic)

    @property
    def block(self) -> Block:
        """The block that packets are appended to."""
        return self.builder.block

    # -- scopes -----------------------------------------------------------------------------------

    def open_branch(self) -> None:
        """What follows runs under a condition."""
        self._scopes.append(_Scope(None))

    def open_loop(self, front: Block) -> None:
        """What follows runs once or more often each time `front`, which ends in a jump here, is reached."""
        self._scopes.append(_Scope(front))

    def close(self) -> None:
        """End the innermost scope."""
        self._scopes.pop()

    def adopt(self, values: Sequence[Value]) -> None:
        """Block arguments of the innermost scope."""
        for value in values:
            self._levels[value] = len(self._scopes) - 1

    def level(self, value: Value) -> int:
        """How deep in the scopes a value is made: the lower, the farther out code that uses it can move."""
        return self._levels.get(value, len(self._scopes) - 1)

    # -- packets ----------------------------------------------------------------------------------

    def op(self, mnemonic: str, *operands: Value, **immediates: object) -> Value:
        """Append an instruction with at least one result and return the first."""
        return self.packet(mnemonic, *operands, **immediates)[0]

    def packet(self, mnemonic: str, *operands: Value, **immediates: object) -> list[Value]:
        """Append an instruction of the descriptor set and return its results, none in a fixed register."""
        descriptor = self.builder.descriptor(mnemonic)
        if _is_pure(descriptor):
            key = (mnemonic, operands, tuple(immediates.items()))
            hoistable = descriptor.schedule_class not in _TRAPPING
            return self._shared(key, operands, lambda: self._group(descriptor, operands, immediates), hoistable)
        ops, results = self._group(descriptor, operands, immediates)
        for op in ops:
            self.builder.add(op)
        self.adopt(results)
        return results

    def invariant_load(self, mnemonic: str, base: Value, disp32: int) -> Value:
        """A load of memory that is valid and unchanged for the whole function."""
        descriptor = self.builder.descriptor(mnemonic)

        def make() -> tuple[list[Op], list[Value]]:
            ops, results = self._group(descriptor, (base,), {"disp32": disp32})
            self.memory[ops[-1]] = MemoryAccess(invariant=True)
            return ops, results

        return self._shared((mnemonic, base, disp32), (base,), make)[0]

    def access(self, mnemonic: str, *operands: Value, memory: MemoryAccess | None, **immediates: object) -> list[Value]:
        """Append a load or store about whose address something is known."""
        results = self.packet(mnemonic, *operands, **immediates)
        last = self.block.last
        assert last is not None
        if memory is not None:
            self.memory[last] = memory
        return results

    def append(self, op: Op) -> Op:
        """Append any other operation."""
        self.builder.add(op)
        self.adopt(op.results)
        return op

    def _group(
        self, descriptor: Descriptor, operands: Sequence[Value], immediates: dict[str, object]
    ) -> tuple[list[Op], list[Value]]:
        """A packet with the copies into and out of the fixed registers it insists on, and its results."""
        ops: list[Op] = []
        values: list[Value] = []
        for value, declared in zip(operands, descriptor.operands, strict=True):
            wanted = declared.classes[0]
            if reg_type(value).reg_class != wanted:
                ops.append(low.Copy([value], [None], [RegType(wanted)], loc=self.builder.loc))
                value = ops[-1].result
            values.append(value)
        types: list[Any] = [inferred_result_type(descriptor, index, values) for index in range(len(descriptor.results))]
        packet = make_packet(descriptor, values, immediates, types, self.builder.loc)
        ops.append(packet)
        results: list[Value] = []
        for result in packet.results:
            own = reg_type(result).reg_class
            if own in SINGLETONS:
                plain = RegType(_PLAIN_CLASS[WIDTH_OF_CLASS[own]])
                ops.append(low.Copy([result], [None], [plain], loc=self.builder.loc))
                result = ops[-1].result
            results.append(result)
        return ops, results

    def _shared(
        self,
        key: object,
        values: Sequence[Value],
        make: Callable[[], tuple[list[Op], list[Value]]],
        speculatable: bool = True,
    ) -> list[Value]:
        """The results of an equal packet in the scopes around, or of a new one placed as far out as it may be."""
        for scope in reversed(self._scopes):
            known = scope.table.get(key)
            if known is not None:
                return known
        ops, results = make()
        level = self._place(ops, values, speculatable)
        for result in results:
            self._levels[result] = level
        self._scopes[level].table[key] = results
        return results

    def _place(self, ops: Sequence[Op], values: Sequence[Value], speculatable: bool) -> int:
        current = len(self._scopes) - 1
        needed = max((self._levels.get(value, current) for value in values), default=0)
        level, front = current, None
        for candidate in range(current, needed, -1):
            scope = self._scopes[candidate]
            if scope.front is not None:
                level, front = candidate - 1, scope.front
            elif not speculatable:
                break
        if front is None:
            for op in ops:
                self.builder.add(op)
            return current
        assert front.last is not None
        for op in ops:
            op.insert_before(front.last)
        return level

    def in_class(self, value: Value, register_class: str) -> Value:
        """The value in a register of another class of its bank; its bits stay as they are."""
        if reg_type(value).reg_class == register_class:
            return value

        def make() -> tuple[list[Op], list[Value]]:
            op = low.Copy([value], [None], [RegType(register_class)], loc=self.builder.loc)
            return [op], op.results

        return self._shared(("copy", value, register_class), (value,), make)[0]

    # -- blocks -----------------------------------------------------------------------------------

    def new_block(self, types: Sequence[RegType] = ()) -> Block:
        """A block that is not in the function yet."""
        return self.builder.new_block(types)

    def enter(self, block: Block) -> None:
        """Put a block at the end of the function and append to it from now on."""
        self.builder.enter(block)
        self.adopt(block.args)

    def branch(self, target: Block, args: Sequence[Value] = ()) -> None:
        """End the current block with a jump."""
        self.builder.branch(target, args)

    def cond_branch(self, condition: Value, if_true: Block, if_false: Block) -> None:
        """End the current block with a choice; a condition is 0 or 1."""
        self.builder.cond_branch(condition, if_true, if_false)


def _is_pure(descriptor: Descriptor) -> bool:
    effects = descriptor.effects
    touches = (effects.reads - {"constant"}) or effects.writes or effects.side_effects or effects.terminator
    # A reader of bare flags depends on its neighbours.
    return bool(descriptor.results) and not touches and not effects.implicit_reads
