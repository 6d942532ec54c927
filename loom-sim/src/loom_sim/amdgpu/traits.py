"""What differs between instruction set families at run time, as data."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import attrs

from loom_sim.amdgpu.memory import PRIVATE_APERTURE, SHARED_APERTURE

# gfx9 clears the upper half when it writes a 16-bit result, except in these instructions that came with gfx9
# itself; later families keep it everywhere (LLVM, GCNSubtarget::zeroesHigh16BitsOfDest).
_KEEP_HIGH_GFX9 = frozenset(
    {
        "v_mad_f16",
        "v_mad_u16",
        "v_mad_i16",
        "v_fma_f16",
        "v_div_fixup_f16",
        "v_madak_f16",
        "v_madmk_f16",
        "v_cvt_pk_fp8_f32",
        "v_cvt_pk_bf8_f32",
    }
)

_APERTURES: Mapping[int, int] = MappingProxyType(
    {235: SHARED_APERTURE, 236: SHARED_APERTURE, 237: PRIVATE_APERTURE, 238: PRIVATE_APERTURE}
)


@attrs.frozen(slots=True)
class Traits:
    """Facts of one family.

    Attributes:
        family: name of the instruction tables.
        null_code, m0_code: operand codes of the null register (-1: none) and of M0.
        ids_in_ttmp: workgroup ids arrive in trap registers (gfx12) instead of user SGPRs.
        split_counters: gfx12's separate wait counters.
        separate_stores: stores count in a counter of their own (vscnt), not in vmcnt.
        unified_vgprs: vector and accumulation registers share one file, split by the descriptor (gfx942).
        fnuz_f8: 8-bit floats are gfx942's own formats; on gfx950 and gfx12 they are those of the OCP.
        one_f8_nan: of narrowing to an 8-bit float and of widening one, every NaN is the same negative one (gfx12).
        late_matrix: results of the matrix cores take a wait state more after more than two passes (gfx950).
        apertures: high address words by operand code.
    """

    family: str
    null_code: int
    m0_code: int
    ids_in_ttmp: bool
    split_counters: bool
    separate_stores: bool
    unified_vgprs: bool
    accum_offset: int = 0
    fnuz_f8: bool = False
    one_f8_nan: bool = False
    late_matrix: bool = False
    apertures: Mapping[int, int] = _APERTURES

    def agpr_base(self, vectors: int) -> int:
        """Slot of the first accumulation register among `vectors` allocated slots."""
        return self.accum_offset if self.unified_vgprs else vectors

    def keeps_high_half(self, mnemonic: str) -> bool:
        """Whether a 16-bit result leaves the other half of the register alone."""
        return self.family != "gfx942" or mnemonic in _KEEP_HIGH_GFX9


FAMILIES: Mapping[str, Traits] = MappingProxyType(
    {
        "gfx942": Traits("gfx942", -1, 124, False, False, False, True, fnuz_f8=True),
        "gfx11": Traits("gfx11", 124, 125, False, False, True, False),
        "gfx12": Traits("gfx12", 124, 125, True, True, True, False, one_f8_nan=True),
    }
)


def traits_of(family: str, processor: str) -> Traits:
    """What a processor of a family does at run time."""
    found = FAMILIES[family]
    return attrs.evolve(found, fnuz_f8=False, late_matrix=True) if processor == "gfx950" else found
