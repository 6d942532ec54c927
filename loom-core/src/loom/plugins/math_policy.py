"""Which elementary functions targets compute by themselves; ``legalize-math`` writes the others as arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loom.ir.records import record

ELEMENTARY: Final = frozenset(
    {
        "expf", "exp2f", "expm1f", "logf", "log2f", "log10f", "log1pf", "powf", "cbrtf", "sinf", "cosf", "tanf",
        "asinf", "acosf", "atanf", "atan2f", "sinturnsf", "costurnsf", "sinhf", "coshf", "tanhf", "asinhf", "acoshf",
        "atanhf", "erff", "erfcf", "logisticf", "siluf", "softplusf", "geluf", "remf",
    }
)  # fmt: skip
"""What a policy may name, by the names of the ``scalar`` and ``vector`` dialects. Roots are arithmetic."""


@record
class MathPolicy:
    """What a target has sequences or instructions of its own for.

    ``native`` maps the name of a function (``expf``) to the element formats (``f32``) that it may have.
    """

    name: str
    native: Mapping[str, frozenset[str]]

    def accepts(self, function: str, element: str) -> bool:
        """Whether a function of a format may stay."""
        return element in self.native.get(function, ())
