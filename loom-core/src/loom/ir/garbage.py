"""Building large programs without looking for garbage in between.

Reading, decoding and compiling make millions of objects that reference each other and live until the end; collecting
while they do costs up to a third of the time and frees next to nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep the collector of reference cycles off inside the ``with`` block, where it was on."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
