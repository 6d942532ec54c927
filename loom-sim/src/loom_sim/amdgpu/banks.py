"""How well accesses of LDS spread over its banks.

LDS is divided into banks of one word, by word address. A pass serves each bank once, so lanes that need different words
of one bank take turns; lanes that read the same word share it. An access of one word per lane takes a pass per 32 lanes
(one lane for each bank), of two words a pass per 16, of three or four a pass per 8. What a pass takes longer is the
largest number of different words it needs of any one bank, less one. It is an estimate: instructions of other waves and
the second address of two-address instructions, which is counted as an access of its own, may overlap on hardware.

Sources: AMD "RDNA3 Instruction Set Architecture" and "Instinct MI300 Instruction Set Architecture", chapters on LDS (32
banks); AMD "CDNA4 Instruction Set Architecture" (64 banks on gfx950).
"""

from __future__ import annotations

import attrs
import numpy as np

from loom_sim.amdgpu.state import Array


def bank_count(processor: str) -> int:
    """LDS banks of a processor, as one workgroup sees them."""
    return 64 if processor == "gfx950" else 32


@attrs.define(slots=True)
class BankUse:
    """Passes over LDS.

    Attributes:
        banks: number of banks.
        passes: that accesses would take without conflicts.
        conflicts: further passes because of conflicts.
    """

    banks: int
    passes: int = 0
    conflicts: int = 0

    def count(self, address: Array, nbytes: int, mask: Array | None, shape: tuple[int, int]) -> None:
        """Count one access of `nbytes` per lane.

        Args:
            address: byte addresses in LDS; broadcasts to `shape`.
            mask: lanes that take part, or None for all.
            shape: waves and lanes.
        """
        words = max(1, nbytes // 4)
        lanes = min(shape[1], self.banks // (1 << (words - 1).bit_length()))
        first = np.broadcast_to(address, shape).astype(np.int64) >> 2
        taken = (first[..., None] + np.arange(words)).reshape(-1, lanes * words)
        if mask is not None:
            active = np.repeat(np.broadcast_to(mask, shape).reshape(-1), words).reshape(taken.shape)
            taken = np.where(active, taken, -1)
            taken = taken[active.any(axis=1)]
        if not taken.size:
            return
        taken = np.sort(taken, axis=1)
        different = taken >= 0
        different[:, 1:] &= taken[:, 1:] != taken[:, :-1]
        row, column = np.nonzero(different)
        turns = np.bincount(row * self.banks + taken[row, column] % self.banks, minlength=len(taken) * self.banks)
        self.passes += len(taken)
        self.conflicts += int(turns.reshape(len(taken), self.banks).max(axis=1).sum()) - len(taken)
