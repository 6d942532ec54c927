"""Features of the processor this runs on, as Linux reports them."""

from __future__ import annotations

CPUINFO = "/proc/cpuinfo"


def read_features(cpuinfo: str = CPUINFO) -> frozenset[str]:
    """Flags of the first processor that is listed; empty when the list has none. Raises `OSError`."""
    with open(cpuinfo, encoding="ascii", errors="replace") as lines:
        for line in lines:
            if line.startswith("flags"):
                return frozenset(line.partition(":")[2].split())
    return frozenset()


#: What the AVX2 profile relies on, as Linux spells it (the level x86-64-v3).
AVX2_FEATURES = frozenset({"avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "popcnt", "abm"})


def best_selector() -> str:
    """The most capable profile that this processor runs; the SSE one where that cannot be told."""
    try:
        return "avx2" if read_features() >= AVX2_FEATURES else "simd128"
    except OSError:
        return "simd128"
