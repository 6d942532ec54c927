"""Parameter interpolation: a fused multiply-add whose factors come from fixed lanes of each quad.

Source: AMD "RDNA3 Instruction Set Architecture", "VALU Parameter Interpolation". Lanes are read whether active or not.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from loom_sim.amdgpu.emitter import Emitter, Value
from loom_sim.amdgpu.execute.convert import f16_to_f32, f32_to_f16
from loom_sim.amdgpu.execute.lane_select import shuffle
from loom_sim.amdgpu.instruction import Instruction
from loom_sim.amdgpu.numerics import float16, float32
from loom_sim.amdgpu.numerics.mode import TOWARD_ZERO

_QUAD_LANES: dict[str, dict[int, int]] = {"p10": {0: 1, 2: 0}, "p2": {0: 2}}
"""For each instruction, the lane of the quad that a source (by its number) is read from."""

NAMES = tuple(f"v_interp_{p}_{kind}" for p in _QUAD_LANES for kind in ("f32", "f16_f32", "rtz_f16_f32"))


def interpolate(em: Emitter, inst: Instruction) -> None:
    """Translate one of `NAMES`."""
    _, _, step, *kind = inst.mnemonic.split("_")
    mode = em.mode if kind[0] != "rtz" else attrs.evolve(em.mode, round32=TOWARD_ZERO, round64=TOWARD_ZERO)
    mode_name = em.const(mode, ("interpolation mode", mode))
    halves = {0, 2} if step == "p10" else {0}
    names, shadows = [], []
    for k, operand in enumerate(inst.sources):
        is_half = kind[-1] == "f32" and len(kind) > 1 and k in halves
        value = em.source(operand, "f16" if is_half else "f32", k)
        name, undefined = value.name, value.undefined
        if is_half:
            name = em.let(f"{em.const(f16_to_f32)}({mode_name}, {name})")
        lane = _QUAD_LANES[step].get(k)
        if lane is not None:
            lanes = em.const((np.arange(em.wave_size) & ~3) + lane, ("quad lane", em.wave_size, lane))
            name = em.let(f"{em.const(shuffle)}({name}, {lanes})")
            if undefined:
                undefined = em.let(f"None if {undefined} is None else {em.const(shuffle)}({undefined}, {lanes})")
        names.append(name)
        shadows += [undefined] if undefined else []
    found = em.let(f"{em.const(float32.fma)}({mode_name}, {', '.join(names)})")
    narrow = len(kind) > 1 and step == "p2"
    clamp: Any = float32.clamp
    if narrow:
        found, clamp = em.let(f"{em.const(f32_to_f16)}({mode_name}, {found})"), float16.clamp
    if inst.modifiers.get("clamp", 0):
        found = em.let(f"{em.const(clamp)}({mode_name}, {found})")
    tag = "f16" if narrow else "f32"
    undefined = em.let(f"fit_undefined(any_undefined({', '.join(shadows)}), {tag!r})") if shadows else None
    em.result(inst.results[0], tag, Value(found, undefined))
