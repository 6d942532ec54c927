"""Room for deeply nested programs.

Reading, printing and copying recurse once per region. A program may nest thousands deep, far beyond Python's
default limit, and such calls between Python functions use no C stack.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# Regions inside of each other that a program may have.
MAX_REGION_DEPTH: Final = 10_000
# Calls: reading makes up to eight for a region, and everything else fewer.
DEEP: Final = 100_000


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Raise the recursion limit inside the ``with`` block."""
    before = sys.getrecursionlimit()
    if before < DEEP:
        sys.setrecursionlimit(DEEP)
    try:
        yield
    finally:
        if before < DEEP:
            sys.setrecursionlimit(before)
