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
