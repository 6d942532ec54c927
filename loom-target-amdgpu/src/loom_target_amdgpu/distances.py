"""Distances that software keeps because hardware does not, as one table: what comes too early after what.

A row names what one instruction does with registers, what a later one does with the same registers, and how many
states must lie between. What is a state depends on the family: any instruction on gfx942 (``s_nop N`` is N + 1 of
them), a vector instruction on gfx11 and gfx12. Rows behind matrix instructions of gfx942 are in
:mod:`loom_target_amdgpu.matrix_hazards`, by instruction.

Sources: AMD "Instinct MI300 Instruction Set Architecture", section 4.5, Manually Inserted Wait States; what the LLVM
hazard recognizer does for gfx942, gfx1100 and gfx1200, measured with LLVM 19 (with LLVM 24 for scalar reads on gfx12).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

Pair = tuple[str, str]
"""What the earlier instruction does, what the later one does."""

CDNA: Final[Mapping[Pair, int]] = MappingProxyType(
    {
        ("vector writes scalar", "vector reads"): 2,
        ("vector writes scalar", "vector selects a lane by"): 4,
        ("vector writes scalar", "division scales by"): 4,
        ("vector writes scalar", "memory reads"): 5,
        ("vector writes the mask", "DPP moves under"): 5,
        ("vector writes the mask", "lanes move under"): 4,
        ("vector writes the mask", "matrix multiplies under"): 4,
        ("vector writes", "a lane is read of"): 1,
        ("vector writes", "DPP moves"): 2,
        ("vector writes", "matrix multiplies"): 2,
        ("transcendental writes", "vector reads"): 1,
        ("dot product writes", "all but its own sum uses"): 3,
        ("wide store reads", "vector writes"): 2,
        ("scalar writes M0", "message sends"): 1,
        ("matrix multiplies f64", "f64 is fused"): 2,
    }
)
"""gfx942 and gfx950, in wait states."""

RDNA: Final[Mapping[Pair, int]] = MappingProxyType(
    {
        ("transcendental writes", "vector reads"): 6,
        ("matrix writes", "matrix multiplies"): 1,
        ("comparison writes the mask", "lanes are permuted under"): 1,
    }
)
"""gfx11 and gfx12, in vector instructions. Transcendental results only where they are not interlocked; a wait for all
vector results ends that distance."""
