"""Processors: ELF flags against the assembler, compatibility direction, unknown names."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from loom_target_amdgpu.isa.tables import family_table
from loom_target_amdgpu.profiles import (
    UnknownProcessorError,
    UnsupportedProcessorError,
    WorkgroupIds,
    processors,
    profile,
    profile_of_flags,
    waves_per_simd,
)

LLVM_MC = shutil.which("llvm-mc-19")

# Processors that LLVM 19 does not know yet; their flags come from its successor.
NEWER = {
    "gfx950",
    "gfx1153",
    "gfx1170",
    "gfx1171",
    "gfx1172",
    "gfx1250",
    "gfx1251",
    "gfx1310",
    "gfx9-4-generic",
}
NEWER.add("gfx12-5-generic")


@pytest.mark.skipif(LLVM_MC is None, reason="llvm-mc-19 is not installed")
@pytest.mark.parametrize("name", sorted(set(processors()) - NEWER))
def test_e_flags_are_those_of_the_assembler(name: str, tmp_path: Path) -> None:
    assert LLVM_MC is not None
    output = tmp_path / "empty.o"
    command = [LLVM_MC, "-triple=amdgcn-amd-amdhsa", f"-mcpu={name}", "-filetype=obj", "-o", str(output)]
    subprocess.run(command, input=".amdhsa_code_object_version 6\n", text=True, check=True)
    flags = int.from_bytes(output.read_bytes()[48:52], "little")
    assert f"{profile(name).e_flags:#x}" == f"{flags:#x}"


def test_measured_flags_of_newer_processors() -> None:
    assert profile("gfx950").e_flags == 0x54F
    assert profile("gfx9-4-generic").e_flags == 0x100055F
    assert profile("gfx1250").e_flags == 0x449


def test_machine_numbers_are_distinct_and_reversible() -> None:
    for processor in processors().values():
        assert profile_of_flags(processor.e_flags) is processor
    assert profile_of_flags(0xFF) is None


def test_exact_processor_satisfies_its_generic_and_not_the_reverse() -> None:
    exact, generic = profile("gfx1100"), profile("gfx11-generic")
    assert exact.satisfies(exact)
    assert exact.satisfies(generic)
    assert not generic.satisfies(exact)
    assert not exact.satisfies(profile("gfx1101"))
    assert not exact.satisfies(profile("gfx12-generic"))
    assert profile("gfx942").satisfies(profile("gfx9-4-generic"))
    assert not profile("gfx942").satisfies(profile("gfx9-generic"))


def test_generic_has_the_smallest_file_and_every_hazard_of_its_members() -> None:
    for processor in processors().values():
        if not processor.is_generic or not processor.can_compile:
            continue
        members = [profile(name) for name in processor.members]
        assert members
        for member in members:
            assert member.family == processor.family
            for wave, file in processor.vector_file.items():
                assert file.registers <= member.vector_file[wave].registers
            assert processor.trans_use_hazard or not member.trans_use_hazard
            assert processor.contract != member.contract


def test_generic_rows_are_available_on_every_member() -> None:
    for name in ("gfx11-generic", "gfx12-generic", "gfx9-4-generic"):
        generic = profile(name)
        rows = [row for row in family_table(generic.family).rows if name in row.available_on]
        assert len(rows) > 2000
        # gfx940 and gfx941 are retired members: everything newer members share exists there as well.
        for member in generic.members:
            assert all(member in row.available_on for row in rows), member


def test_unknown_name_reports_close_matches() -> None:
    with pytest.raises(
        UnknownProcessorError, match="unknown AMDGPU processor 'gfx110'; did you mean 'gfx1100'"
    ):
        profile("gfx110")
    with pytest.raises(
        UnknownProcessorError, match="'gfx1011-generic'; did you mean 'gfx10-1-generic' or 'gfx11-generic'"
    ):
        profile("gfx1011-generic")
    with pytest.raises(UnknownProcessorError, match=r"unknown AMDGPU processor 'banana'$"):
        profile("banana")


def test_processor_without_tables_is_a_clear_error() -> None:
    with pytest.raises(
        UnsupportedProcessorError, match="cannot compile for 'gfx1030'; supported processors: gfx940"
    ):
        profile("gfx1030").require_generation()


def test_generation_facts() -> None:
    assert profile("gfx942").wave == 64
    assert profile("gfx1100").require_generation().workgroup_ids is WorkgroupIds.SGPR
    assert profile("gfx1200").require_generation().workgroup_ids is WorkgroupIds.TRAP_REGISTERS
    assert profile("gfx1102").vector_file[32].registers == 1024
    assert profile("gfx1100").vector_file[64].granule == 12


@pytest.mark.parametrize(
    ("name", "wave", "steps"),
    [
        ("gfx942", 64, "1:8 64:8 65:7 73:6 81:5 97:4 129:3 169:2 256:2"),
        ("gfx1100", 32, "1:16 96:16 97:12 121:10 145:9 169:8 193:7 217:6 241:5 256:5"),
        ("gfx1151", 64, "48:16 49:12 61:10 73:9 85:8 97:7 109:6 121:5 145:4 193:3 253:2"),
        ("gfx1102", 32, "64:16 65:12 81:10 97:9 113:8 129:7 145:6 161:5 193:4 256:4"),
    ],
)
def test_occupancy_steps_are_the_measured_ones(name: str, wave: int, steps: str) -> None:
    """First register counts with each occupancy, as LLVM 19 reports them."""
    for step in steps.split():
        registers, waves = (int(part) for part in step.split(":"))
        assert waves_per_simd(profile(name), wave, registers) == waves, step


def test_accumulation_and_scalar_registers_limit_occupancy() -> None:
    assert waves_per_simd(profile("gfx942"), 64, 128, agprs=128) == 2
    assert waves_per_simd(profile("gfx942"), 64, 256, agprs=256) == 1
    assert waves_per_simd(profile("gfx942"), 64, 8, sgprs=102) == 7
    assert waves_per_simd(profile("gfx1100"), 32, 8, sgprs=106) == 16


def test_the_matrix_fact_names_tiles() -> None:
    from loom.facts.fragments import TILES
    from loom_target_amdgpu.targets import profiles

    facts: dict[str, Any] = {p.selector: p.facts["matrix"] for p in profiles()}
    assert "rdna3_bf16_16x16x16" in facts["gfx1100"]
    assert "rdna3_bf16_16x16x16" in facts["gfx1151"]
    assert "rdna3_bf16_16x16x16" not in (*facts["gfx1200"], *facts["gfx942"])
    assert "rdna4_f16_16x16x16" in facts["gfx1201"]
    assert "cdna4_f8E4M3_16x16x32" in facts["gfx950"]
    assert "cdna4_f8E4M3_16x16x32" not in facts["gfx942"]
    offered = {name for names in facts.values() for name in names}
    assert {tile.name for tile in TILES} <= offered
