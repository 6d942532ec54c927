"""Proof, after the fact, that a schedule keeps every order it must keep.

Deliberately simple and separate from the scheduler: it compares each block's instruction order before
and after, rule by rule, and does not look at the dependence graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from loom.low.dependence import may_overlap, memory_spaces, spaces_overlap
from loom.low.implicit import ImplicitEffects
from loom.low.machine import MARKERS, Block, Function, Instruction, Kind

ReadsFrom = dict[tuple[Instruction, str], Instruction | None]


class ScheduleCheckError(Exception):
    """A schedule breaks a rule; the message names the rule, the block and the instructions.

    ``loc`` is where the instruction that is out of place comes from, None when that is no single one.
    """

    def __init__(self, message: str, loc: object = None) -> None:
        super().__init__(message)
        self.loc = loc


def check_schedule(before: Mapping[Block, Sequence[Instruction]], after: Function) -> None:
    """Check the order of ``after`` against ``before`` (a snapshot by :meth:`Function.order`).

    Raises:
        ScheduleCheckError: an order that had to be kept is not.
    """
    effects = ImplicitEffects(after.descriptor_set.registers)
    for block in after.blocks:
        _BlockCheck(after, block, before[block], effects).run()


class _BlockCheck:
    def __init__(
        self, function: Function, block: Block, before: Sequence[Instruction], effects: ImplicitEffects
    ) -> None:
        self._function = function
        self._block = block
        self._before = before
        self._kept = [inst for inst in before if inst.kind not in MARKERS]
        self._after = block.instructions
        self._effects = effects
        self._place = {inst: number for number, inst in enumerate(self._after)}

    def run(self) -> None:
        if len(self._kept) != len(self._after) or set(self._kept) != set(self._after):
            raise self._error("does not contain the same instructions as before")
        if self._after[-1] is not self._kept[-1]:
            raise self._error("no longer ends in its terminator")
        self._values()
        self._live_ins()
        self._fences()
        self._locked()
        self._memory()
        self._implicit()
        self._scopes()

    def _error(self, what: str, at: Instruction | None = None) -> ScheduleCheckError:
        loc = (at or self._kept[-1]).loc
        return ScheduleCheckError(f"block ^{self._block.label} of @{self._function.name} {what}", loc)

    def _ordered(self, first: Instruction, second: Instruction, why: str) -> None:
        if self._place[first] > self._place[second]:
            raise self._error(f"places [{second!r}] before [{first!r}]: {why}", second)

    def _values(self) -> None:
        definition = {value: inst for inst in self._after for value in inst.results}
        for inst in self._after:
            used = [*inst.operands, *(value for edge in inst.successors for value in edge.args)]
            for value in used:
                if value in definition:
                    self._ordered(definition[value], inst, f"it uses {value!r}")

    def _live_ins(self) -> None:
        count = sum(inst.kind is Kind.LIVE_IN for inst in self._after)
        if any(inst.kind is not Kind.LIVE_IN for inst in self._after[:count]):
            raise self._error("has instructions before its live-ins")

    def _fences(self) -> None:
        side: dict[Instruction, int] = {}
        passed = 0
        for inst in self._kept:
            passed += inst.kind is Kind.FENCE
            side[inst] = 2 * passed - (inst.kind is Kind.FENCE)
        self._ascending(((inst, side[inst]) for inst in self._after), "a fence lies between them")

    def _ascending(self, ranks: Iterable[tuple[Instruction, int]], why: str) -> None:
        last: tuple[Instruction, int] | None = None
        for inst, rank in ranks:
            if last is not None and rank < last[1]:
                raise self._error(f"places [{last[0]!r}] before [{inst!r}]: {why}", inst)
            last = (inst, rank)

    def _locked(self) -> None:
        shadow = Block(self._block.label, (), self._before)
        for begin, end in self._function.locked_ranges(shadow):
            members = [inst for inst in self._before[begin:end] if inst.kind not in MARKERS]
            if not members:
                continue
            first = self._place[members[0]]
            if self._after[first : first + len(members)] != members:
                raise self._error(f"breaks up the locked sequence at [{members[0]!r}]", members[0])

    def _memory(self) -> None:
        accesses: list[tuple[Instruction, frozenset[str], frozenset[str]]] = []
        side_effects: list[Instruction] = []
        barriers: list[Instruction] = []
        for inst in self._kept:
            reads, writes = memory_spaces(inst)
            active = inst.effects is not None and inst.effects.side_effects
            barrier = inst.effects is not None and inst.effects.barrier
            if active:
                for other in side_effects[-1:]:
                    self._ordered(other, inst, "both have side effects")
                side_effects.append(inst)
            if reads or writes or active or barrier:
                for fence in barriers:
                    self._ordered(fence, inst, "a barrier orders memory accesses")
            if barrier:
                for other in (*(access[0] for access in accesses), *side_effects[: -1 if active else None]):
                    self._ordered(other, inst, "a barrier orders memory accesses")
                barriers.append(inst)
            for other, other_reads, other_writes in accesses:
                conflict = (
                    spaces_overlap(writes, other_reads | other_writes) or spaces_overlap(reads, other_writes)
                ) and may_overlap(inst.memory, other.memory)
                if conflict:
                    self._ordered(other, inst, "both may access the same memory")
            if reads or writes:
                accesses.append((inst, reads, writes))

    def _implicit(self) -> None:
        before, last_before = self._reads_from(self._kept)
        after, last_after = self._reads_from(self._after)
        for (inst, name), writer in before.items():
            found = after[inst, name]
            if found is not writer:
                raise self._error(f"makes [{inst!r}] read {name} from [{found!r}], not [{writer!r}]", inst)
        for name, writer in last_before.items():
            last = last_after[name]
            if last is not writer and self._read_later(name):
                raise self._error(f"leaves {name} as [{last!r}] wrote it, not as [{writer!r}] did", last)

    def _reads_from(self, code: Sequence[Instruction]) -> tuple[ReadsFrom, dict[str, Instruction]]:
        last: dict[str, Instruction] = {}
        table: ReadsFrom = {}
        for inst in code:
            reads, writes = self._effects(inst)
            for name in reads:
                table[inst, name] = last.get(name)
            for name in writes:
                last[name] = inst
        return table, last

    def _read_later(self, name: str) -> bool:
        seen: set[Block] = set()
        work = [edge.block for edge in self._block.edges]
        if not work:
            exits = self._function.attributes.get("implicit_live_out", ())
            return isinstance(exits, Iterable) and name in exits
        while work:
            block = work.pop()
            if block in seen:
                continue
            seen.add(block)
            for inst in block.instructions:
                reads, writes = self._effects(inst)
                if name in reads:
                    return True
                if name in writes:
                    break
            else:
                work.extend(edge.block for edge in block.edges)
        return False

    def _scopes(self) -> None:
        """Scopes opened before the block count as levels 0, 1, … outwards from the innermost."""
        depth = sum(inst.kind in MARKERS for inst in self._before) + 1
        closed = 0
        stack: list[object] = []
        phases: dict[object, int] = {}
        ranks: dict[object, dict[Instruction, int]] = {}
        for inst in self._before:
            innermost = stack[-1] if stack else closed
            if inst.kind is Kind.SCOPE_BEGIN:
                stack.append(inst)
            elif inst.kind is Kind.SCOPE_PHASE:
                phases[innermost] = phases.get(innermost, 0) + 1
            elif inst.kind is Kind.SCOPE_END:
                if stack:
                    stack.pop()
                else:
                    closed += 1
            else:
                for scope in (*stack, *range(closed, depth)):
                    ranks.setdefault(scope, {})[inst] = phases.get(scope, 0)
        for rank in ranks.values():
            # The terminator comes last whatever the phase, and live-ins first.
            inside = [inst for inst in self._after if inst in rank]
            self._ascending(((inst, rank[inst]) for inst in inside), "they lie in successive phases")
