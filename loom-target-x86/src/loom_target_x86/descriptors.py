"""The descriptor sets of the x86 profiles.

| set | instructions |
|---|---|
| `x86.scalar.core` | general registers only |
| `x86.simd128.core` | plus xmm, legacy encodings up to SSE4.2 (the level x86-64-v2) |
| `x86.avx2.core` | plus xmm and ymm, VEX encodings, FMA, BMI, POPCNT, LZCNT, F16C (x86-64-v3) |

Every packet stands for itself: comparisons deliver 0 or 1 in a general register, selections take such a
value. Packets that leave the flags changed say so (`flags` among the implicit writes), and the few that
consume or produce bare flags exist for authored code.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from attrs import evolve

from loom.low.descriptors import DescriptorSet
from loom_target_x86.cpu import AVX2_FEATURES
from loom_target_x86.registers import CALLEE_SAVED, GPR_BANK, register_classes
from loom_target_x86.tables import scalar, simd
from loom_target_x86.tables.rows import Row, descriptors

SCALAR = "x86.scalar.core"
SIMD128 = "x86.simd128.core"
AVX2 = "x86.avx2.core"

#: Processor features every instruction of a set may rely on, as Linux spells them in /proc/cpuinfo.
REQUIRED_FEATURES: dict[str, frozenset[str]] = {
    SCALAR: frozenset(),
    SIMD128: frozenset({"ssse3", "sse4_1", "sse4_2"}),
    AVX2: AVX2_FEATURES,
}

DESCRIPTOR_SETS = tuple(REQUIRED_FEATURES)


def _rows(key: str) -> Iterable[Row]:
    yield from scalar.scalar_rows()
    if key == SIMD128:
        yield from simd.sse_rows()
    elif key == AVX2:
        yield from scalar.bmi_rows()
        yield from simd.avx2_rows()


@cache
def leaf_set(key: str) -> DescriptorSet:
    """The same contract without the callee-saved registers, for functions that do well without them."""
    full = descriptor_set(key)
    kept = {
        name: evolve(cls, reserved=cls.reserved | CALLEE_SAVED) if cls.bank == GPR_BANK else cls
        for name, cls in full.registers.items()
    }
    return DescriptorSet(key, kept, full.by_key.values())


@cache
def descriptor_set(key: str) -> DescriptorSet:
    """The descriptor set of a contract, built once. Raises `KeyError` for an unknown key."""
    if key not in REQUIRED_FEATURES:
        raise KeyError(f"unknown x86 contract {key!r}; there are {', '.join(DESCRIPTOR_SETS)}")
    classes = register_classes(vector=key != SCALAR, wide=key == AVX2)
    return DescriptorSet(key, classes, descriptors(_rows(key)))
