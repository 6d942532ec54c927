"""Kernel descriptors: words against the assembler's, limits, round trip."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import attrs
import pytest

from loom_target_amdgpu.code_object.kernel_descriptor import (
    USER_SGPRS,
    DescriptorError,
    KernelDescriptor,
    KernelResources,
    describe_kernel,
)
from loom_target_amdgpu.profiles import profile

LLVM_MC = shutil.which("llvm-mc-19")
OBJCOPY = shutil.which("llvm-objcopy-19")
needs_llvm = pytest.mark.skipif(
    not (LLVM_MC and OBJCOPY), reason="llvm-mc-19 or llvm-objcopy-19 is not installed"
)


def _assembled(processor: str, resources: KernelResources, folder: Path) -> bytes:
    """The descriptor llvm-mc-19 makes for the same resources."""
    r = resources
    lines = {
        "next_free_vgpr": r.vgprs,
        "next_free_sgpr": r.sgprs,
        "group_segment_fixed_size": r.lds_bytes,
        "private_segment_fixed_size": r.scratch_bytes,
        "kernarg_size": r.kernarg_bytes,
        "enable_private_segment": int(r.scratch_bytes > 0 or r.uses_dynamic_stack),
        "uses_dynamic_stack": int(r.uses_dynamic_stack),
        "system_sgpr_workgroup_id_x": int(r.workgroup_ids[0]),
        "system_sgpr_workgroup_id_y": int(r.workgroup_ids[1]),
        "system_sgpr_workgroup_id_z": int(r.workgroup_ids[2]),
        "system_sgpr_workgroup_info": int(r.workgroup_info),
        "system_vgpr_workitem_id": r.workitem_id_mode,
        "float_round_mode_32": r.round_mode[0],
        "float_round_mode_16_64": r.round_mode[1],
        "float_denorm_mode_32": r.denorm_mode[0],
        "float_denorm_mode_16_64": r.denorm_mode[1],
    }
    for name in r.user_sgprs:
        lines[f"user_sgpr_{name}"] = 1
    if processor.startswith("gfx1"):
        lines["wavefront_size32"] = int(r.wave_size == 32)
    else:
        offset = (max(r.vgprs, 1) + 3) // 4 * 4
        lines["next_free_vgpr"] = offset + r.agprs
        lines["accum_offset"] = offset
    text = "\n".join(f"  .amdhsa_{name} {value}" for name, value in lines.items())
    source = f".text\nk: s_endpgm\n.rodata\n.amdhsa_kernel k\n{text}\n.end_amdhsa_kernel\n"
    wave = "+wavefrontsize32,-wavefrontsize64" if r.wave_size == 32 else "-wavefrontsize32,+wavefrontsize64"
    assert LLVM_MC is not None
    assert OBJCOPY is not None
    obj, section = folder / "k.o", folder / "k.rodata"
    command = [LLVM_MC, "-triple=amdgcn-amd-amdhsa", f"-mcpu={processor}", "-filetype=obj", "-o", str(obj)]
    if processor.startswith("gfx1"):
        command.append(f"-mattr={wave}")
    run = subprocess.run(command, input=source, text=True, capture_output=True)
    assert run.returncode == 0, run.stderr
    subprocess.run([OBJCOPY, f"--dump-section=.rodata={section}", str(obj)], check=True)
    return section.read_bytes()


SMALL = KernelResources(wave_size=32, vgprs=1, sgprs=0)
CASES = [
    SMALL,
    attrs.evolve(SMALL, vgprs=8, sgprs=3, kernarg_bytes=24),
    attrs.evolve(SMALL, vgprs=9, sgprs=102, lds_bytes=65536, scratch_bytes=16),
    attrs.evolve(
        SMALL, vgprs=256, sgprs=11, user_sgprs=("dispatch_ptr", "kernarg_segment_ptr", "dispatch_id")
    ),
    attrs.evolve(SMALL, vgprs=97, sgprs=50, workgroup_ids=(True, True, True), workitem_id_mode=2),
    attrs.evolve(SMALL, vgprs=30, sgprs=20, workgroup_info=True, workitem_id_mode=1, denorm_mode=(0, 3)),
    attrs.evolve(SMALL, vgprs=5, sgprs=99, round_mode=(1, 3), denorm_mode=(1, 2), uses_dynamic_stack=True),
]


@needs_llvm
@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize(
    ("processor", "wave"),
    [("gfx942", 64), ("gfx1100", 32), ("gfx1100", 64), ("gfx1151", 32), ("gfx1200", 32), ("gfx1200", 64)],
)
def test_words_are_those_of_the_assembler(processor: str, wave: int, case: int, tmp_path: Path) -> None:
    resources = attrs.evolve(CASES[case], wave_size=wave)
    ours = describe_kernel(profile(processor), resources)
    assert ours.to_bytes().hex(" ", 4) == _assembled(processor, resources, tmp_path).hex(" ", 4)


@needs_llvm
@pytest.mark.parametrize(("vgprs", "agprs"), [(1, 4), (64, 32), (63, 1), (256, 256), (0, 8)])
def test_accumulation_registers_follow_the_vector_registers(vgprs: int, agprs: int, tmp_path: Path) -> None:
    resources = KernelResources(wave_size=64, vgprs=vgprs, agprs=agprs, sgprs=10)
    ours = describe_kernel(profile("gfx942"), resources)
    assert ours.to_bytes().hex(" ", 4) == _assembled("gfx942", resources, tmp_path).hex(" ", 4)
    assert ours.accum_offset() == (max(vgprs, 1) + 3) // 4 * 4


def test_default_words_of_an_empty_kernel() -> None:
    keep_all = KernelResources(wave_size=32, vgprs=1, sgprs=0, user_sgprs=())
    described = describe_kernel(profile("gfx1200"), keep_all)
    assert described.rsrc1 == 0x600F0000  # the assembler's default 0x600c0000 plus "keep f32 denormals"
    assert described.rsrc2 == 0x80
    assert described.code_properties == 0x400


def test_named_fields_read_back() -> None:
    resources = KernelResources(
        wave_size=32, vgprs=20, sgprs=40, lds_bytes=128, scratch_bytes=4, kernarg_bytes=48,
        user_sgprs=("dispatch_ptr", "kernarg_segment_ptr"), workgroup_ids=(True, False, True),
        workitem_id_mode=1, denorm_mode=(0, 3), round_mode=(0, 1),
    )  # fmt: skip
    generation = profile("gfx1100").require_generation()
    read = KernelDescriptor.from_bytes(describe_kernel(profile("gfx1100"), resources).to_bytes())
    assert read.wave_size == 32
    assert read.vgpr_count(generation) == 24
    assert read.enabled_user_sgprs == ("dispatch_ptr", "kernarg_segment_ptr")
    assert read.user_sgpr_count == 4
    assert read.workgroup_ids == (True, False, True)
    assert read.workitem_id_mode == 1
    assert read.uses_scratch
    assert (read.denorm_mode_32, read.denorm_mode_16_64) == (0, 3)
    assert (read.round_mode_32, read.round_mode_16_64) == (0, 1)
    assert read.dx10_clamp(generation)
    assert read.ieee_mode(generation)
    assert not read.ieee_mode(profile("gfx1200").require_generation())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vgprs": 257}, "257 vector registers; gfx1100 has 256"),
        ({"agprs": 1}, "1 accumulation registers; gfx1100 has 0"),
        ({"sgprs": 107}, "107 scalar registers"),
        ({"lds_bytes": 65537}, "65537 bytes of workgroup storage"),
        ({"wave_size": 16}, "no waves of 16 lanes"),
        ({"user_sgprs": ("flat_scratch_init",)}, "sets up scratch in hardware"),
        ({"user_sgprs": ("what",)}, "unknown user SGPR group 'what'"),
        ({"workitem_id_mode": 3}, "mode 3"),
    ],
)
def test_impossible_resources_are_errors(change: dict[str, Any], message: str) -> None:
    resources = attrs.evolve(KernelResources(wave_size=32, vgprs=1, sgprs=1), **change)
    with pytest.raises(DescriptorError, match=message):
        describe_kernel(profile("gfx1100"), resources)


def test_values_beyond_their_field_are_errors() -> None:
    described = describe_kernel(profile("gfx1100"), SMALL)
    with pytest.raises(DescriptorError, match="out of range"):
        attrs.evolve(described, kernarg_size=1 << 32).to_bytes()
    with pytest.raises(DescriptorError, match="64 bytes, not 63"):
        KernelDescriptor.from_bytes(bytes(63))


def test_user_sgpr_order_is_the_property_bit_order() -> None:
    assert [name for name, _ in USER_SGPRS][1:5] == [
        "dispatch_ptr",
        "queue_ptr",
        "kernarg_segment_ptr",
        "dispatch_id",
    ]
