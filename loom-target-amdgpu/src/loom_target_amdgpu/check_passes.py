"""Proof, after the fact, that passes over encoded instructions keep what the code computes.

Both versions of every block are executed on symbols: a register holds the expression that was computed into it, and
everything that is more than arithmetic (memory, branches, modes, waits of the author) is an event. Final registers
must be equal wherever they were written, and the events the same in the same order. What passes insert (waits, delays,
clauses, idle states) computes nothing. Shares nothing with the passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.isa.registers import EXEC, VCC
from loom_target_amdgpu.isa.tables import LITERAL, VGPR
from loom_target_amdgpu.machine_code import Code

Snapshot = list[tuple[str, list[Code]]]

_ARITHMETIC: Final = ("VOP", "SOP1", "SOP2", "SOPC")
_SINGLE: Final = frozenset({"VOP1", "VOP2", "VOPD_X", "VOPD_Y"})
_INSERTED: Final = (
    "s_nop",
    "v_nop",
    "s_delay_alu",
    "s_clause",
    "s_waitcnt",
    "s_wait_",
)
_EVENTS: Final = frozenset({"s_getpc_b64", "s_barrier_wait"})


class PassCheckError(Exception):
    """A pass has changed what the code computes; ``loc`` is where the instruction comes from."""

    def __init__(self, message: str, loc: object) -> None:
        super().__init__(message)
        self.loc = loc


def snapshot(blocks: Sequence[CodeBlock]) -> Snapshot:
    """The code as it is now, for :func:`check_passes`."""
    return [(block.label, list(block.code)) for block in blocks]


def check_passes(before: Snapshot, after: Sequence[CodeBlock]) -> None:
    """Compare the final blocks with a snapshot.

    Raises:
        PassCheckError: an ordering control of the author is not obeyed, a register holds something else, or effects
            differ.
    """
    if [label for label, _ in before] != [block.label for block in after]:
        raise PassCheckError("the blocks are not the same as before", None)
    for (label, codes), block in zip(before, after, strict=True):
        _check_order(block)
        numbers: dict[object, int] = {}
        want, got = _Execution(codes, numbers), _Execution(block.code, numbers)
        for number, (event, loc) in enumerate(want.events):
            if number >= len(got.events) or got.events[number][0] != event:
                raise PassCheckError(f"block ^{label} does something else, or in another order", loc)
        if len(got.events) != len(want.events):
            raise PassCheckError(f"block ^{label} does more than before", got.events[-1][1])
        for unit in want.registers.keys() | got.registers.keys():
            if want.registers.get(unit) != got.registers.get(unit):
                loc = (want.writers.get(unit) or got.writers[unit]).loc
                raise PassCheckError(f"block ^{label} leaves another value in register unit {unit}", loc)


def _check_order(block: CodeBlock) -> None:
    """Fences and phases come in order, and locked instructions have words of their own."""
    fences = 0
    phases: dict[int, int] = {}
    for code in block.code:
        order = code.order
        if order is None:
            continue
        if order.locked and code.second is not None:
            raise PassCheckError(f"block ^{block.label} pairs a locked instruction", code.loc)
        if order.fences < fences:
            raise PassCheckError(f"block ^{block.label} moves an instruction over a fence", code.loc)
        fences = order.fences
        for scope, phase in order.scopes:
            if phase < phases.get(scope, 0):
                raise PassCheckError(f"block ^{block.label} moves an instruction into a later phase", code.loc)
            phases[scope] = phase


def _moves_onto_itself(part: Code) -> bool:
    """Whether it only separates two instructions: passes insert such moves, and they change nothing."""
    if part.row.mnemonic not in ("v_mov_b32", "v_dual_mov_b32") or part.row.format not in _SINGLE or part.row.variant:
        return False
    return len({part.codes[operand.name] for operand in part.row.operands if operand.ranges}) == 1


class _Execution:
    """Runs code on symbols. ``numbers`` gives equal expressions equal numbers."""

    def __init__(self, codes: Sequence[Code], numbers: dict[object, int]) -> None:
        self._numbers = numbers
        self.registers: dict[int, int] = {}
        self.writers: dict[int, Code] = {}
        self.events: list[tuple[int, object]] = []
        for code in codes:
            if code.drains is None and code.row.mnemonic not in _EVENTS and code.row.mnemonic.startswith(_INSERTED):
                continue
            self._run(code)

    def _run(self, code: Code) -> None:
        halves = [(code, code.codes, code.row)]
        if code.second is not None:
            halves.append((code.second, code.second.codes, code.second.row))
        results: list[tuple[int, int]] = []
        for part, _, row in halves:
            if _moves_onto_itself(part):
                continue
            value = self._value(part, code.literal)
            own = part.writes if code.second is None else self._destinations(part)
            results += [(unit, self._number((value, place))) for place, unit in enumerate(own)]
            if not row.format.startswith(_ARITHMETIC) or row.mnemonic in _EVENTS:
                self.events.append((value, code.loc))
        for unit, number in results:
            self.registers[unit] = number
            self.writers[unit] = code

    def _destinations(self, part: Code) -> list[int]:
        """What one half of a word writes: a single register."""
        return [part.codes[o.name] for o in part.row.operands if o.direction != "in" and o.ranges]

    def _value(self, part: Code, literal: int | None) -> int:
        """The number of what an instruction computes from the registers as they are."""
        row = part.row
        if row.format not in _SINGLE or row.variant:
            read = tuple(self._register(unit) for unit in part.reads)
            return self._number((row.mnemonic, part.data, part.target, part.distance, read))
        operands: list[object] = []
        for operand in row.operands:
            if not operand.ranges or operand.direction == "out":
                continue
            code = part.codes.get(operand.name)
            if operand.kind == "lit32":
                operands.append(("literal", code if code is not None else literal))
            elif code == LITERAL:
                operands.append(("literal", literal))
            elif code is None or 128 <= code < VGPR:
                operands.append(("constant", code))
            else:
                count = max(1, operand.width_bits // 32)
                operands += [self._register(unit) for unit in range(code, code + count)]
        hidden = [EXEC, *((VCC,) if "vcc" in row.implicit_reads else ())]
        name = row.mnemonic.replace("v_dual_", "v_", 1)
        return self._number((name, tuple(operands), tuple(self._register(unit) for unit in hidden)))

    def _register(self, unit: int) -> object:
        return self.registers.get(unit, ("before", unit))

    def _number(self, expression: object) -> int:
        return self._numbers.setdefault(expression, len(self._numbers))
