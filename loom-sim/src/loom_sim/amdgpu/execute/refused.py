"""Instructions of compute code objects that are stopped with a reason instead of being executed."""

from __future__ import annotations

import re
from functools import cache

from loom_sim.amdgpu.emitter import Emitter
from loom_sim.amdgpu.instruction import Instruction

_GWS = "global wave sync is shared by all dispatches of a device; there is only one here"
_TRAP = "it is for trap handlers and debuggers; there is none"
_GRAPHICS = "it belongs to graphics stages"
_SEED = "what stochastic rounding does with subnormal values is not known of this family"
_FORK = "forks of gfx7 and gfx8, which no processor of this family has"
NAMED = "named barriers exist from gfx1250 on; here there is only the barrier of the workgroup, -1"

REASONS: tuple[tuple[str, str], ...] = (
    (r"ds_gws_\w+", _GWS),
    (r"ds_ordered_count|ds_(add|sub)_gs_reg_rtn", _GRAPHICS),
    (r"ds_bvh_stack_\w+", "it belongs to ray tracing"),
    (r"(lds|ds)_(direct|param)_load", _GRAPHICS),
    (r"s_rfe\w*|s_sethalt|s_sendmsghalt", _TRAP),
    (r"s_setkill|s_endpgm_ordered_ps_done", _GRAPHICS),
    (r"s_cbranch_(g_fork|i_fork|join)", _FORK),
    (r"s_setvskip", "skipping vector instructions is not executed"),
    (r"s_subvector_loop_\w+", "loops over halves of a wave64 are not executed"),
    (r"s_dcache_discard\w*", "it drops data that other waves may not have seen"),
    (r"s_scratch_\w+", "scalar access to scratch is not established for processors of this family"),
    (r"v_screen_partition_4se_b32", "it looks up a table of screen tiles that no public document has"),
    (r"v_cvt_sr_(fp8|bf8)_f32", _SEED),
    (r"s_barrier_(init|join|leave)|s_wakeup_barrier", NAMED),
    (r"s_get_barrier_state", "how many waves have signalled depends on their speed"),
)
"""Patterns of mnemonics, and why they are refused."""

_EXECUTED = {"gfx12": (_SEED,)}
"""Reasons that do not hold for a family."""


@cache
def reason(mnemonic: str, family: str) -> str | None:
    """Why an instruction is refused on processors of a family; None if it is not."""
    found = next((text for pattern, text in REASONS if re.fullmatch(pattern, mnemonic)), None)
    return None if found in _EXECUTED.get(family, ()) else found


def translate(em: Emitter, inst: Instruction) -> bool:
    """Stop at an instruction that is refused on purpose; False if it is none.

    Raises:
        UnsupportedInstruction: with the reason.
    """
    found = reason(inst.mnemonic, em.traits.family)
    if found is not None:
        raise em.unsupported(f"{inst.mnemonic} is not executed: {found}")
    return False
