"""Wait states behind the matrix instructions of gfx942 and gfx950, by instruction and by what comes next.

A result that is read too early is wrong: there is no interlock. The counts are those of the LLVM hazard recognizer
(GCNHazardRecognizer, ``checkMAIHazards90A`` and ``checkMAIVALUHazards``), measured with LLVM 19 on gfx942; gfx950 adds
one state to instructions of four passes and more on the matrix cores, as newer LLVM does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final

from loom.ir.records import evolve, record
from loom_target_amdgpu.distances import CDNA
from loom_target_amdgpu.isa.tables import AGPR, VGPR
from loom_target_amdgpu.machine_code import Code

Key = tuple[str, int]
State = dict[Key, int]


@record
class Timing:
    """States that must lie between a matrix instruction and a dependent one.

    Attributes:
        name: execution unit and number of passes.
        use: vector ALU reads or overwrites the result, or a matrix instruction multiplies with it.
        memory: a memory instruction reads or overwrites the result.
        same: the same instruction accumulates in place: its accumulator is exactly the result.
        overlap: any other overlap of a matrix instruction's accumulator or result with the result.
        source: vector ALU overwrites the accumulator that was read.
    """

    name: str
    use: int
    memory: int
    same: int
    overlap: int
    source: int


_TIMINGS: Final[Mapping[str, Timing]] = {
    t.name: t
    for t in (
        Timing("xdl2", 5, 5, 2, 3, 1),
        Timing("xdl4", 7, 7, 0, 5, 3),
        Timing("xdl8", 11, 11, 0, 9, 7),
        Timing("xdl16", 19, 19, 0, 17, 15),
        Timing("f32_2", 4, 4, 2, 2, 0),
        Timing("f32_8", 10, 10, 0, 8, 0),
        Timing("f32_16", 18, 18, 0, 16, 0),
        Timing("f64_4", 6, 9, 4, 6, 0),
        Timing("f64_8", 11, 18, 0, 9, 0),
    )
}
LONGEST: Final = max(t.use for t in _TIMINGS.values()) + 1
FUSED_DOUBLE: Final = frozenset({"v_fma_f64", "v_fmac_f64"})
"""They keep a distance from matrix instructions of double precision, whatever their registers."""
_DOUBLE_ISSUED: Final[Key] = ("double issued", 0)
_SHAPE: Final = re.compile(r"v_s?mf(?:ma|mac)_(?:scale_)?[a-z]+\d+_(\d+)x\d+x\d+(?:_(\d+)b)?_(\w+)")


@cache
def timing_of(mnemonic: str) -> Timing:
    """The timing of a matrix instruction.

    Four blocks of 16 by 16 take as long as one of 32 by 32, and two of 32 by 32 twice that.
    """
    match = _SHAPE.fullmatch(mnemonic)
    assert match is not None, mnemonic
    extent, blocks, operands = int(match[1]), int(match[2] or 1), match[3]
    if operands == "f64":
        return _TIMINGS["f64_4" if extent == 4 else "f64_8"]
    if operands == "f32":
        return _TIMINGS["f32_2" if extent == 4 else "f32_16" if extent == 32 else "f32_8"]
    if extent == 4:
        return _TIMINGS["xdl2"]
    if blocks > 1:
        return _TIMINGS["xdl8" if extent == 16 else "xdl16"]
    if operands == "f8f6f4":
        return _TIMINGS["xdl8" if extent == 16 else "xdl16"]
    return _TIMINGS["xdl4" if extent == 16 else "xdl8"]


@cache
def states_of(mnemonic: str, slower: int) -> Timing:
    """The timing of a matrix instruction on a processor that adds ``slower`` to the longer ones of the matrix cores."""
    timing = timing_of(mnemonic)
    added = slower if timing.name.startswith("xdl") and timing.name != "xdl2" else 0
    return evolve(timing, use=timing.use + added, memory=timing.memory + added, overlap=timing.overlap + added)


def _vectors(units: Iterable[int]) -> Iterator[int]:
    return (unit for unit in units if VGPR <= unit < AGPR + 256)


def _operand_units(code: Code, name: str) -> range:
    """Vector register units of one operand; empty for a constant."""
    operand = next(o for o in code.row.operands if o.name == name)
    first = code.codes[name]
    return range(first, first + max(1, operand.width_bits // 32)) if first >= VGPR else range(0)


def result_of(code: Code) -> range:
    """Units of a matrix instruction's result."""
    return _operand_units(code, "vdst")


def accumulator_of(code: Code) -> range:
    """Units of the accumulator: a source of its own, or the result that is added to; none if it is a constant."""
    return _operand_units(code, "vdst" if code.row.mnemonic.startswith("v_smfmac") else "src2")


class MatrixStates:
    """Remembers matrix results; ``slower`` is what the processor adds to the longer instructions."""

    def __init__(self, slower: int) -> None:
        self._slower = slower

    def _extra(self, timing: Timing) -> int:
        return self._slower if timing.name.startswith("xdl") and timing.name != "xdl2" else 0

    def matrix_needs(self, code: Code, state: State) -> Iterator[tuple[Key, int]]:
        """What a matrix instruction must wait for."""
        accumulator = accumulator_of(code)
        start = (f"start {code.row.mnemonic}", accumulator.start)
        result = result_of(code)
        for timing in _TIMINGS.values():
            name, extra = timing.name, self._extra(timing)
            for unit in {*accumulator, *result}:
                since = state.get((name, unit))
                if since is None:
                    continue
                exact = unit in accumulator and state.get(start) == since
                yield (name, unit), timing.same if exact else timing.overlap + extra
            for unit in _vectors(code.reads):
                if unit not in accumulator:
                    yield (name, unit), timing.use + extra

    def other_needs(self, code: Code, memory: bool) -> Iterator[tuple[Key, int]]:
        """What a vector or memory instruction must wait for."""
        if code.row.mnemonic in FUSED_DOUBLE:
            yield _DOUBLE_ISSUED, CDNA["matrix multiplies f64", "f64 is fused"]
        for timing in _TIMINGS.values():
            states = (timing.memory if memory else timing.use) + self._extra(timing)
            for unit in _vectors((*code.reads, *code.writes)):
                yield (timing.name, unit), states
            if timing.source and not memory:
                for unit in _vectors(code.writes):
                    yield (f"source {timing.name}", unit), timing.source

    def issued(self, code: Code, state: State) -> None:
        """Record a matrix instruction."""
        name = timing_of(code.row.mnemonic).name
        result = result_of(code)
        for unit in result:
            for timing in _TIMINGS:
                state.pop((timing, unit), None)
            state[name, unit] = 0
        for unit in accumulator_of(code):
            state[f"source {name}", unit] = 0
        state[f"start {code.row.mnemonic}", result.start] = 0
        if name.startswith("f64"):
            state[_DOUBLE_ISSUED] = 0
