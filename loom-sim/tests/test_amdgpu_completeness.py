"""Every instruction the emulator executes should have a test of its own; how many have none may only go down."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest

from loom_sim.amdgpu import blocks, emitter
from loom_sim.amdgpu.errors import UnsupportedInstruction
from loom_sim.amdgpu.execute import refused, relative
from loom_sim.amdgpu.execute.operation import load_all
from loom_sim.amdgpu.instruction import Instruction, adapt
from loom_sim.amdgpu.numerics.mode import FloatMode
from loom_sim.amdgpu.runtime import StaticFault
from loom_sim.amdgpu.traits import FAMILIES

pytest.importorskip("loom_target_amdgpu", reason="the decoder is in loom-target-amdgpu")

import test_amdgpu_addressing
import test_amdgpu_atomics
import test_amdgpu_compare
import test_amdgpu_control
import test_amdgpu_exec_masks
import test_amdgpu_instructions
import test_amdgpu_lds_instructions
import test_amdgpu_load_to_lds
import test_amdgpu_matrix_instructions
import test_amdgpu_moves
import test_amdgpu_permlane
import test_amdgpu_scalar
import test_amdgpu_scalar_float
import test_amdgpu_scalar_loads
import test_amdgpu_scalar_memory
import test_amdgpu_transposed_loads
import test_amdgpu_typed_buffers
import test_amdgpu_vector

ALLOWANCE = {"gfx942": 0, "gfx1100": 0, "gfx1200": 0}
"""Executed mnemonics without a test against a model. Write tests and lower the number; never raise it."""

_FAMILY = {"gfx942": "gfx942", "gfx1100": "gfx11", "gfx1200": "gfx12"}
_IN_PROSE = ("test_amdgpu_permlane.py", "test_amdgpu_relative.py", "test_amdgpu_lanes.py")
"""Tests whose assembly stands in their text as it is."""

_NO_ARITHMETIC = ("SOPP", "VOPD_X", "VOPD_Y")
"""Formats whose rows do not compute: control flow and waits are tested by programs, dual-issue halves as singles."""


def rows(family: str) -> Iterator[tuple[Any, Instruction, emitter.Emitter]]:
    """Every row of a family with its example, decoded, and an emitter to translate it with."""
    from loom_target_amdgpu.isa.decode import decode
    from loom_target_amdgpu.isa.tables import family_table

    load_all()
    traits = attrs.evolve(FAMILIES[family], accum_offset=256)
    table = family_table(family)
    for number in range(len(table)):
        row = table.row(number)
        wave_size = row.wave or (64 if family == "gfx942" else 32)
        data = b"".join(word.to_bytes(4, "little") for word in row.example_words) + bytes(8)
        inst = adapt(decode(table, data, 0, wave_size=wave_size), 0, wave_size)
        em = emitter.Emitter(traits, wave_size, FloatMode(), False, True, 512 if traits.unified_vgprs else 256)
        em.selected = 0
        em.instruction = inst
        em.instruction = inst = relative.resolve(inst, 0, None)
        yield row, inst, em


def executed(family: str) -> set[str]:
    """Mnemonics of which the emulator executes at least one row."""
    found: set[str] = set()
    for row, inst, em in rows(family):
        if row.mnemonic in found or row.format in _NO_ARITHMETIC:
            continue
        try:
            if any(handler(em, inst) for handler in blocks._HANDLERS):
                found.add(row.mnemonic)
        except (UnsupportedInstruction, StaticFault):
            continue
    return found


@cache
def names_in_tests(target: str) -> frozenset[str]:
    """Mnemonics in the assembly of tests that compare single instructions with a model."""
    texts = [text for text, _ in test_amdgpu_instructions.SUITES[target].values()]
    texts += [entry.text for entry in test_amdgpu_vector.SUITES[target].values()]
    texts += [test_amdgpu_scalar.instruction(m, target) for m in test_amdgpu_scalar.SUITES[target]]
    texts += [t for kind in test_amdgpu_compare.TYPES for t in test_amdgpu_compare.instructions(kind, target)]
    texts += [a.name for space in test_amdgpu_atomics.SPACES for a in test_amdgpu_atomics.atomics(space, target)]
    texts += [m.name for space in test_amdgpu_moves.SPACES for m in test_amdgpu_moves.moves(space, target)]
    texts += test_amdgpu_lds_instructions.instructions(target)
    texts += [*test_amdgpu_control.names(target), *test_amdgpu_exec_masks.names(target)]
    texts += test_amdgpu_scalar_loads.instructions(target) + test_amdgpu_addressing.ADDRESSED_BY_LANE
    texts += [c.shape.name for c in test_amdgpu_matrix_instructions.cases(target)]
    texts += [s.name for store in (False, True) for s in test_amdgpu_typed_buffers.steps(target, store)]
    if target == "gfx942":
        texts += test_amdgpu_scalar_memory.INSTRUCTIONS + test_amdgpu_load_to_lds.INSTRUCTIONS
    if target == "gfx1200":
        texts += test_amdgpu_transposed_loads.INSTRUCTIONS
    floats = {"gfx1100": "gfx1150", "gfx1200": "gfx1200"}.get(target)
    if floats is not None:
        texts += [test_amdgpu_scalar_float.instruction(m) for m in test_amdgpu_scalar_float.SUITES[floats]]
    texts += test_amdgpu_permlane.NAMES
    for name in _IN_PROSE:
        texts += re.findall(r"(?:\b|\\n)([sv]_[a-z0-9_]+)", Path(__file__).with_name(name).read_text())
    lines = [part.strip() for text in texts for line in text.splitlines() for part in line.split("::")]
    names = [line.split()[0] for line in lines if line]
    return frozenset(re.sub(r"_(e32|e64|sdwa|dpp|e64_dpp)$", "", name).replace("v_dual_", "v_") for name in names)


@pytest.mark.parametrize("target", ALLOWANCE)
def test_executed_instructions_have_tests(target: str) -> None:
    missing = sorted(executed(_FAMILY[target]) - names_in_tests(target))
    allowed = ALLOWANCE[target]
    assert len(missing) <= allowed, f"{len(missing)} instructions of {target} without a test: {' '.join(missing)}"
    assert len(missing) == allowed, f"only {len(missing)} are without a test now: lower the allowance of {target}"


_VECTOR_FORMATS = ("VOP1", "VOP2", "VOP3", "VOP3SD", "VOP3P", "VOPC", "VOPD_X", "VOPD_Y", "VINTERP")


@pytest.mark.parametrize("family", FAMILIES)
def test_vector_instructions_are_executed_or_refused_with_a_reason(family: str) -> None:
    """Every row, that is every encoding: short, long, DPP, SDWA, dual-issue."""
    left = []
    for row, inst, em in rows(family):
        if row.format not in _VECTOR_FORMATS:
            continue
        try:
            if not any(handler(em, inst) for handler in blocks._HANDLERS):
                left.append(f"{row.mnemonic} {row.format} {row.variant}")
        except UnsupportedInstruction as error:
            if refused.reason(row.mnemonic, family) is None:
                left.append(f"{row.mnemonic} {row.format} {row.variant}")
            assert f"at {error.record.pc:#x}" in str(error)
            assert row.mnemonic in str(error)
    assert not left


@pytest.mark.parametrize("family", FAMILIES)
def test_other_instructions_are_executed_or_refused_with_a_reason(family: str) -> None:
    """Scalar, memory, LDS, matrix and control rows: a refusal says address, text, and why."""
    left = []
    for row, inst, em in rows(family):
        if row.format in _VECTOR_FORMATS:
            continue
        try:
            if not any(handler(em, inst) for handler in blocks._HANDLERS):
                left.append(f"{row.mnemonic} {row.format} {row.form}")
        except StaticFault as fault:
            assert fault.kind == "trap"
        except UnsupportedInstruction as error:
            assert f"at {error.record.pc:#x}" in str(error)
            assert row.mnemonic in str(error)
            assert len(error.record.message) > 20, error
    assert not left
