"""Instructions sorted into the kinds a reader of a report thinks in."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from loom_sim.amdgpu.instruction import Instruction

KINDS = (
    "scalar",
    "vector",
    "matrix",
    "scalar memory",
    "global memory",
    "scratch memory",
    "lds",
    "cache",
    "branch",
    "wait",
    "barrier",
    "control",
)
"""All kinds, in the order reports show them."""

# Mnemonics decide before formats: SOPP holds branches, waits and everything else that is not arithmetic.
_PREFIXES: tuple[tuple[str, str], ...] = (
    ("s_barrier", "barrier"),
    ("s_wait", "wait"),
    ("s_branch", "branch"),
    ("s_cbranch", "branch"),
    ("s_setpc", "branch"),
    ("s_swappc", "branch"),
    ("s_call", "branch"),
    ("s_dcache", "cache"),
    ("s_icache", "cache"),
    ("buffer_gl", "cache"),
    ("buffer_inv", "cache"),
    ("buffer_wb", "cache"),
    ("global_inv", "cache"),
    ("global_wb", "cache"),
    ("v_wmma", "matrix"),
    ("v_swmmac", "matrix"),
    ("v_mfma", "matrix"),
    ("v_smfmac", "matrix"),
)

_FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "SOPP": "control",
        "SMEM": "scalar memory",
        "DS": "lds",
        "LDSDIR": "lds",
        "VDSDIR": "lds",
        "SCRATCH": "scratch memory",
        "VSCRATCH": "scratch memory",
        **dict.fromkeys(
            ("FLAT", "GLOBAL", "MUBUF", "MTBUF", "VFLAT", "VGLOBAL", "VBUFFER"),
            "global memory",
        ),
    }
)


def kind_of(inst: Instruction) -> str:
    """The kind of an instruction; one of `KINDS`."""
    for prefix, kind in _PREFIXES:
        if inst.mnemonic.startswith(prefix):
            return kind
    found = _FORMATS.get(inst.format)
    if found is not None:
        return found
    return "scalar" if inst.format.startswith("SOP") else "vector"
