"""Wait counters: which there are per family, how many a program can wait for, and the immediates of waits.

Sources: LLVM "User Guide for AMDGPU Backend", section Memory Model, and immediates assembled with LLVM 19.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType

from loom.ir.records import record


class Counter(enum.Enum):
    """A counter of outstanding operations."""

    LOAD = "vector memory loads; on gfx942 also stores"
    STORE = "vector memory stores"
    LDS = "workgroup storage; up to gfx11 one counter with SCALAR"
    SCALAR = "scalar loads and messages, which complete in any order"
    EXPORT = "exports and parameter reads"


@record
class CounterField:
    """A counter inside a wait immediate.

    Attributes:
        name: as the assembler spells it.
        pieces: ``(low bit, width)`` of the immediate, lowest value bits first.
    """

    name: str
    pieces: tuple[tuple[int, int], ...]

    @property
    def maximum(self) -> int:
        """The largest count; it means "do not wait"."""
        return (1 << sum(width for _, width in self.pieces)) - 1

    def put(self, count: int) -> int:
        """Immediate bits for a count."""
        bits = 0
        for low, width in self.pieces:
            bits |= (count & ((1 << width) - 1)) << low
            count >>= width
        return bits

    def get(self, immediate: int) -> int:
        """The count in an immediate."""
        count = shift = 0
        for low, width in self.pieces:
            count |= (immediate >> low & ((1 << width) - 1)) << shift
            shift += width
        return count


WAITCNT_FIELDS: Mapping[str, tuple[CounterField, ...]] = MappingProxyType(
    {
        "gfx942": (
            CounterField("vmcnt", ((0, 4), (14, 2))),
            CounterField("expcnt", ((4, 3),)),
            CounterField("lgkmcnt", ((8, 4),)),
        ),
        "gfx11": (
            CounterField("vmcnt", ((10, 6),)),
            CounterField("expcnt", ((0, 3),)),
            CounterField("lgkmcnt", ((4, 6),)),
        ),
    }
)
"""Fields of the ``s_waitcnt`` immediate; gfx12 has one instruction per counter instead."""

DEPCTR_FIELDS: tuple[CounterField, ...] = (
    CounterField("va_vdst", ((12, 4),)),
    CounterField("va_sdst", ((9, 3),)),
    CounterField("va_ssrc", ((8, 1),)),
    CounterField("hold_cnt", ((7, 1),)),
    CounterField("vm_vsrc", ((2, 3),)),
    CounterField("va_vcc", ((1, 1),)),
    CounterField("sa_sdst", ((0, 1),)),
)
"""Fields of ``s_waitcnt_depctr`` (gfx11) and ``s_wait_alu`` (gfx12): waits for ALU results and operand
reads.
"""

_SPLIT_MAXIMUM: Mapping[Counter, int] = {
    Counter.LOAD: 63,
    Counter.STORE: 63,
    Counter.LDS: 63,
    Counter.SCALAR: 31,
    Counter.EXPORT: 7,
}

# Which s_waitcnt field counts what. gfx11 counts stores apart, in s_waitcnt_vscnt, before this table is
# asked.
_WAITCNT_NAMES: Mapping[Counter, str] = {
    Counter.LOAD: "vmcnt",
    Counter.STORE: "vmcnt",
    Counter.LDS: "lgkmcnt",
    Counter.SCALAR: "lgkmcnt",
    Counter.EXPORT: "expcnt",
}
VSCNT_MAXIMUM = 63


def maximum(family: str, counter: Counter) -> int:
    """The largest count one can wait for, which is "no wait"."""
    if family == "gfx12":
        return _SPLIT_MAXIMUM[counter]
    if counter is Counter.STORE and family == "gfx11":
        return VSCNT_MAXIMUM
    return _field(family, counter).maximum


def same_counter(family: str, one: Counter, other: Counter) -> bool:
    """Whether two kinds of operations are counted together on a family."""
    return _identity(family, one) == _identity(family, other)


def _identity(family: str, counter: Counter) -> str:
    if family == "gfx12" or (counter is Counter.STORE and family == "gfx11"):
        return counter.name
    return _field(family, counter).name


def _field(family: str, counter: Counter) -> CounterField:
    name = _WAITCNT_NAMES[counter]
    return next(field for field in WAITCNT_FIELDS[family] if field.name == name)


def waitcnt_immediate(family: str, counts: Mapping[str, int]) -> int:
    """The ``s_waitcnt`` immediate for counts by field name; absent fields do not wait, large counts are
    clamped.

    Raises:
        KeyError: the family has no ``s_waitcnt`` or no such field.
    """
    fields = {field.name: field for field in WAITCNT_FIELDS[family]}
    unknown = counts.keys() - fields.keys()
    if unknown:
        raise KeyError(f"s_waitcnt on {family} has no '{min(unknown)}'")
    immediate = 0
    for name, field in fields.items():
        immediate |= field.put(min(counts.get(name, field.maximum), field.maximum))
    return immediate


def depctr_immediate(counts: Mapping[str, int]) -> int:
    """The immediate of ``s_waitcnt_depctr`` or ``s_wait_alu``; absent fields do not wait.

    Raises:
        KeyError: no such field.
    """
    fields = {field.name: field for field in DEPCTR_FIELDS}
    unknown = counts.keys() - fields.keys()
    if unknown:
        raise KeyError(f"no ALU wait field '{min(unknown)}'")
    immediate = 0
    for name, field in fields.items():
        immediate |= field.put(min(counts.get(name, field.maximum), field.maximum))
    return immediate
