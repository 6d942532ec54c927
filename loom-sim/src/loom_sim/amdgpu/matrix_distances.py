"""Wait states that software keeps behind the matrix instructions of gfx942 and gfx950.

A result is there a fixed number of wait states after its instruction, and nothing holds up who reads it earlier.
How many depends on the number of passes (four cycles each) of the producer and on the unit that executes it: the
matrix cores, or the multipliers of single or double precision.

Sources: AMD "Instinct MI300 Instruction Set Architecture", section 4.5, Manually Inserted Wait States; LLVM
"GCNHazardRecognizer" as documentation of what compilers keep for gfx942 and gfx950.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

from loom_sim.amdgpu import waits

if TYPE_CHECKING:
    from loom_sim.amdgpu.instruction import Instruction, Operand

_CORES, _SINGLE, _DOUBLE = "cores", "single", "double"
# Double precision: passes -> states before an accumulator, a factor or vector instruction, a memory instruction.
_DOUBLE_STATES = {4: (4, 6, 9), 8: (9, 11, 18)}
_NAME = re.compile(r"v_s?mf(?:ma|mac)_[if]\d+_(\d+)x\d+x(\d+)(?:_\d+b)?_(\w+)")
_FUSED_DOUBLE = ("v_fma_f64", "v_fmac_f64")
_DOUBLE_ISSUED = ("double issued", 0)
_DOUBLE_TO_FUSED = 2
LONGEST = 20
"""No rule of this table looks back farther."""


@attrs.frozen(slots=True)
class Producer:
    """A kind of matrix instruction: the unit that executes it and its number of passes."""

    unit: str
    passes: int

    @property
    def name(self) -> str:
        """Its name among the kinds of producers."""
        return f"{self.unit} {self.passes}"

    def _late(self, late: bool) -> int:
        return int(late and self.unit == _CORES and self.passes > 2)

    def before_use(self, late: bool) -> int:
        """States before a factor, or a vector instruction that reads or overwrites the result.

        `late`: the matrix cores take a state more for more than two passes (gfx950).
        """
        if self.unit == _DOUBLE:
            return _DOUBLE_STATES[self.passes][1]
        return self.passes + (3 if self.unit == _CORES else 2) + self._late(late)

    def before_memory(self, late: bool) -> int:
        """States before a memory instruction that reads the result."""
        return _DOUBLE_STATES[self.passes][2] if self.unit == _DOUBLE else self.before_use(late)

    def before_accumulator(self, reader: Producer, exact: bool, late: bool) -> int:
        """States before a matrix instruction that adds to the result; `exact`: to all of it and nothing else."""
        if exact:
            if self.unit == _DOUBLE:
                return 4 if self.passes == reader.passes == 4 and reader.unit == _DOUBLE else 0
            return 2 if self.passes == 2 else 0
        if reader.unit == _CORES and self.unit != _CORES:
            return 0
        if self.unit == _DOUBLE:
            return _DOUBLE_STATES[self.passes][0]
        return self.passes + int(self.unit == _CORES) + self._late(late)

    @property
    def before_new_accumulator(self) -> int:
        """States before a vector instruction that overwrites the accumulator."""
        return self.passes - 1 if self.unit == _CORES else 0


PRODUCERS: Mapping[str, Producer] = MappingProxyType(
    {
        p.name: p
        for p in (
            *(Producer(_CORES, passes) for passes in (2, 4, 8, 16)),
            *(Producer(_SINGLE, passes) for passes in (2, 8, 16)),
            *(Producer(_DOUBLE, passes) for passes in (4, 8)),
        )
    }
)


@cache
def _producer(mnemonic: str) -> Producer | None:
    match = _NAME.fullmatch(mnemonic)
    if match is None:
        return None
    extent, depth, factors = int(match[1]), int(match[2]), match[3]
    if factors == "f64":
        return Producer(_DOUBLE, 4 if extent == 4 else 8)
    unit = _SINGLE if factors == "f32" else _CORES
    if extent == 4:
        return Producer(unit, 2)
    # A product of few terms each, for several blocks or of single precision, takes twice the passes.
    shallow = depth <= 4 and factors != "xf32"
    return Producer(unit, (4 if extent == 16 else 8) * (2 if shallow else 1))


def producer_of(inst: Instruction) -> Producer | None:
    """The kind of a matrix instruction; None for any other instruction."""
    return _producer(inst.mnemonic)


def _accumulator(inst: Instruction) -> Operand | None:
    return inst.operand("vdst" if inst.mnemonic.startswith("v_smfmac") else "src2")


def _units(operand: Operand | None, wave_size: int) -> range:
    if operand is None or not operand.is_vector:
        return range(0)
    return waits.register_units(operand, wave_size)


def matrix_needs(
    inst: Instruction, reader: Producer, state: Mapping[tuple[str, int], int], late: bool, wave_size: int
) -> Iterator[tuple[tuple[str, int], int, str]]:
    """What a matrix instruction must keep from earlier ones: producer and register, states, what happened."""
    what = "a matrix instruction wrote"
    operand = _accumulator(inst)
    accumulator = _units(operand, wave_size)
    factors = {u for o in inst.sources if o is not operand for u in _units(o, wave_size)}
    for (name, unit), since in state.items():
        producer = PRODUCERS.get(name)
        if producer is None:
            continue
        if unit in factors:
            yield (name, unit), producer.before_use(late), what
        elif unit in accumulator:
            whole = state.get((f"whole {len(accumulator)} {name}", accumulator.start))
            yield (name, unit), producer.before_accumulator(reader, whole == since, late), what


def other_needs(
    reads: set[int], writes: set[int], state: Mapping[tuple[str, int], int], memory: bool, late: bool
) -> Iterator[tuple[tuple[str, int], int, str]]:
    """What a vector or memory instruction must keep from matrix instructions."""
    for name, unit in state:
        producer = PRODUCERS.get(name.removeprefix("accumulator "))
        if producer is None:
            continue
        if name.startswith("accumulator "):
            if unit in writes:
                yield (name, unit), producer.before_new_accumulator, "a matrix instruction still reads"
        elif unit in reads:
            states = producer.before_memory(late) if memory else producer.before_use(late)
            yield (name, unit), states, "a matrix instruction wrote"
        elif unit in writes:
            yield (name, unit), producer.before_use(late), "a matrix instruction wrote"


def fused_needs(inst: Instruction) -> Iterator[tuple[tuple[str, int], int, str]]:
    """What a fused multiplication of double precision must keep, whatever its registers."""
    if inst.mnemonic in _FUSED_DOUBLE:
        yield _DOUBLE_ISSUED, _DOUBLE_TO_FUSED, "a matrix instruction of double precision still occupies"


def issued(inst: Instruction, producer: Producer, state: dict[tuple[str, int], int], wave_size: int) -> None:
    """Account for a matrix instruction."""
    result = _units(inst.operand("vdst"), wave_size)
    for unit in result:
        for name in PRODUCERS:
            state.pop((name, unit), None)
        state[producer.name, unit] = 0
    state[f"whole {len(result)} {producer.name}", result.start] = 0
    if producer.unit == _DOUBLE:
        state[_DOUBLE_ISSUED] = 0
    for unit in _units(_accumulator(inst), wave_size):
        state[f"accumulator {producer.name}", unit] = 0
