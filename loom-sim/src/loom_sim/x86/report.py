"""What a simulated call or launch did, in the words of the GPU emulator's reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import attrs

from loom_sim.x86.faults import FaultRecord


@attrs.frozen(slots=True)
class LaunchReport:
    """One call or launch.

    Attributes:
        kernel: the kernel or function.
        instructions: executed instructions by mnemonic, most frequent first; those that call it are not counted.
        loaded, stored: bytes the code moved, of its buffers and of its stack.
        seconds: wall time.
    """

    kernel: str
    instructions: Mapping[str, int]
    loaded: int
    stored: int
    seconds: float
    faults: tuple[FaultRecord, ...] = ()


@attrs.define(slots=True)
class Counts:
    """Collected while code runs: executions of basic blocks by (address, bytes), and bytes moved."""

    blocks: Counter[tuple[int, int]] = attrs.field(factory=Counter)
    loaded: int = 0
    stored: int = 0

    def report(self, kernel: str, code: bytes, base: int, seconds: float) -> LaunchReport:
        """The report; `code` is what lies at `base`, blocks elsewhere are left out."""
        instructions: Counter[str] = Counter()
        for (address, size), times in self.blocks.items():
            offset = address - base
            if offset >= 0 and offset + size <= len(code):
                for mnemonic in _mnemonics(code[offset : offset + size]):
                    instructions[mnemonic] += times
        return LaunchReport(kernel, dict(instructions.most_common()), self.loaded, self.stored, seconds)


def _mnemonics(code: bytes) -> Iterator[str]:
    import iced_x86

    formatter = iced_x86.Formatter(iced_x86.FormatterSyntax.INTEL)
    for instruction in iced_x86.Decoder(64, code):
        yield formatter.format_mnemonic(instruction)
