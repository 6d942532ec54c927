"""The floating-point part of the MODE register as one record that arithmetic is specialized on."""

from __future__ import annotations

import attrs

NEAREST_EVEN, PLUS_INFINITY, MINUS_INFINITY, TOWARD_ZERO = range(4)


@attrs.frozen(slots=True)
class FloatMode:
    """Rounding and denormal control of a wave.

    Fields follow `compute_pgm_rsrc1` of the AMDGPU kernel descriptor (LLVM "User Guide for AMDGPU Backend",
    table "compute_pgm_rsrc1"): a 2-bit rounding mode and a 2-bit denormal mode, once for f32 and once for
    f16 and f64 together. Denormal mode bit 0 set allows denormal inputs, bit 1 set allows denormal results.
    """

    round32: int = NEAREST_EVEN
    round64: int = NEAREST_EVEN
    denormal32: int = 3
    denormal64: int = 3
    ieee: bool = True
    dx10_clamp: bool = True

    @classmethod
    def from_bits(cls, bits: int, ieee: bool = True, dx10_clamp: bool = True) -> FloatMode:
        """Build from the low eight bits of MODE (rounding 3:0, denormals 7:4)."""
        return cls(bits & 3, bits >> 2 & 3, bits >> 4 & 3, bits >> 6 & 3, ieee, dx10_clamp)

    @property
    def bits(self) -> int:
        """The low eight bits of MODE."""
        return self.round32 | self.round64 << 2 | self.denormal32 << 4 | self.denormal64 << 6

    def with_round(self, value: int) -> FloatMode:
        """This mode with both rounding fields replaced (four bits)."""
        return attrs.evolve(self, round32=value & 3, round64=value >> 2 & 3)

    def with_denormal(self, value: int) -> FloatMode:
        """This mode with both denormal fields replaced (four bits)."""
        return attrs.evolve(self, denormal32=value & 3, denormal64=value >> 2 & 3)

    @property
    def plain32(self) -> bool:
        """True when f32 arithmetic is what the CPU does: nearest even, denormals kept."""
        return self.round32 == NEAREST_EVEN and self.denormal32 == 3

    @property
    def plain64(self) -> bool:
        """True when f16 and f64 arithmetic is nearest even with denormals kept."""
        return self.round64 == NEAREST_EVEN and self.denormal64 == 3
