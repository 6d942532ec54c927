"""The schedule model: latencies of a recent out-of-order core and how many registers may be live.

Latencies are those of Intel's Skylake to Golden Cove and AMD's Zen 2 to 4 as published by the vendors' optimization
manuals (Intel 64 and IA-32 Architectures Optimization Reference Manual, appendix; Software Optimization Guide for
the AMD Zen microarchitectures), rounded to what the families share. The processor reorders by itself; what matters
here is to start long chains early and to stay within the register file.
"""

from __future__ import annotations

from typing import Final

from loom.low.schedule import TableModel
from loom_target_x86.registers import GPR_BANK, VECTOR_BANK

LATENCIES: Final[dict[str, int]] = {
    "alu": 1, "move": 1, "lea": 1, "shift": 1, "compare": 1, "select": 2, "branch": 1, "mul": 3, "div": 18,
    "load": 5, "store": 1, "atomic": 18, "call": 30,
    "fadd": 4, "fmul": 4, "fma": 4, "fdiv": 13, "fsqrt": 15, "fcompare": 3, "round": 8, "cvt": 5,
    "vector": 1, "vmul": 5, "shuffle": 1,
}  # fmt: skip

#: Divisions and square roots keep their unit busy.
BUSY: Final[dict[str, tuple[tuple[str, int], ...]]] = {
    "div": (("divider", 6),),
    "fdiv": (("divider", 4),),
    "fsqrt": (("divider", 5),),
}

#: One register of each bank is kept out of the scheduler's plans, for copies.
LIMITS: Final[dict[str, int]] = {GPR_BANK: 14, VECTOR_BANK: 15}


def make_model() -> TableModel:
    """The model of every x86 profile."""
    return TableModel(LATENCIES, BUSY, LIMITS)
