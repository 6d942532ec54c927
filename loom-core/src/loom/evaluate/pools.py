"""Block-managed memory at run time (language reference, part 2, section 14.1)."""

from __future__ import annotations

import attrs
import numpy as np

from loom.evaluate.numeric.formats import Array
from loom.evaluate.values import Buffer


@attrs.define(eq=False)
class Pool:
    """The bytes of a pool, and how often each block is pinned (``int64[blocks]``, made when the first one is)."""

    buffer: Buffer
    pins: Array = attrs.field(factory=lambda: np.zeros(0, dtype=np.int64))
