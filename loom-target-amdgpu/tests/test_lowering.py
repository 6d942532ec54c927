"""Low text: the shape of the seed program's kernel, canonical round trips, and what the emitter reports."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from loom import api
from loom.ir.core import Module
from loom.ir.diagnostics import LoomError
from loom.plugins.manager import find_emitter, find_target
from loom.plugins.records import EmitRequest

ELEMENTWISE = """template.decl @guide.elementwise_transform(%value: f32) -> (f32)

func.def inline @double(%value: f32) -> (f32) {
  %doubled = scalar.addf %value, %value : f32
  func.return %doubled : f32
}

template.def<@guide.elementwise_transform> requires [#target.subgroup.size<32>] priority(20) @wave32_elementwise_transform(%value: f32) -> (f32) {
  %result = func.call @double(%value) : (f32) -> (f32)
  template.return %result : f32
}

kernel.def export("elementwise_transform_f32") @elementwise_transform_f32(%element_count: index) {
  %unit = index.constant 1 : index
  %workgroup_size = index.constant 64 : index
  %rounding = index.sub %workgroup_size, %unit : index
  %rounded_count = index.add %element_count, %rounding : index
  %workgroups = index.div %rounded_count, %workgroup_size : index
  kernel.launch.config workgroups(%workgroups, %unit, %unit) workgroup_size(%workgroup_size, %unit, %unit) : index
} launch(%element_count: index, %input: buffer, %output: buffer) {
  %workgroup = kernel.workgroup.id<x> : index
  %lane = kernel.workitem.id<x> : index
  %workgroup_size = kernel.workgroup.size<x> : index
  %element_index = index.madd %workgroup, %workgroup_size, %lane : index
  %input_noalias, %output_noalias = buffer.assume.noalias %input, %output : buffer, buffer
  %base = index.constant 0 : offset
  %input_view = buffer.view %input_noalias[%base] : buffer -> view<[%element_count]xf32>
  %output_view = buffer.view %output_noalias[%base] : buffer -> view<[%element_count]xf32>
  %in_bounds = index.cmp ult, %element_index, %element_count : index
  scf.if %in_bounds {
    %value = view.load %input_view[%element_index] : view<[%element_count]xf32> -> f32
    %result = template.apply<@guide.elementwise_transform>(%value) : (f32) -> (f32)
    view.store %result, %output_view[%element_index] : f32, view<[%element_count]xf32>
  }
  kernel.return
}
"""

HEADER = (
    "low.kernel.def retain target<amdgpu.gfx11.generic.core>(@__loom_target_context_0_0) abi_layout({constant_count = 2, "
    'direct_arg_count = 1, direct_arg_names = {arg0 = "element_count"}, direct_arg_offsets = [0], direct_arg_parameter_indices = [0], '
    "direct_arg_sizes = [8], parameter_count = 3, resource_count = 2, resource_offsets = [8, 16], resource_parameter_indices = [1, 2], "
    "uses_kernarg_segment_ptr = true}) workgroup_size(64, 1, 1) @elementwise_transform_f32() asm {"
)


def lower(text: str, target: str) -> str:
    """Target Low of a module's kernels."""
    profile = find_target(target)
    module = api.specialize(api.load_bytes(text.encode(), "m.loom"), profile).module
    roots = tuple(op for op in module.ops if op.name == "kernel.def")
    emitter = find_emitter("amdgpu-hsaco")
    assert emitter.lower is not None
    return api.print(emitter.lower(EmitRequest(module, roots, profile)))


def test_the_seed_kernel_reads_like_its_listing() -> None:
    lines = lower(ELEMENTWISE, "amdgpu:gfx11-generic").splitlines()
    start = lines.index(HEADER)
    body = lines[start + 1 :]
    assert body[:4] == [
        "  %kernarg = live_in<amdgpu.kernarg_segment_ptr> : reg<amdgpu.sgpr x2>",
        "  %workgroup = live_in<amdgpu.workgroup_id.x> : reg<amdgpu.sgpr>",
        "  %lane = live_in<amdgpu.workitem_id.x> : reg<amdgpu.vgpr>",
        "  %element_count = s_load_dwordx2_offset_only %kernarg",
    ]
    wanted = [
        "s_load_dwordx4_offset_only %kernarg {offset = 8}",
        "%element_index = v_lshl_add_u32_shift_imm %workgroup, %lane, 6",
        "= s_and_saveexec_b64 %in_bounds",
        "low.cond_br",
        "^_bb1:",
        "concat(%workgroup, ",
        "%value = global_load_b32_saddr",
        "%doubled = v_add_f32 %value, %value",
        "global_store_b32_saddr",
        "low.br ^_bb2",
        "^_bb2:",
        "s_mov_b64_exec",
        "return",
    ]
    position = 0
    for fragment in wanted:
        position = next(i for i in range(position, len(body)) if fragment in body[i]) + 1
    assert "amdgpu.target<gfx11-generic> @__loom_target_context_0_0" in lines
    # No longer than the listing, which has 39 instructions, slices and tuples included.
    assert body.index("}") <= 40


@pytest.mark.parametrize("target", ["amdgpu:gfx11-generic", "amdgpu:gfx1100", "amdgpu:gfx1151", "amdgpu:gfx1200"])
def test_low_text_is_canonical(target: str) -> None:
    text = lower(ELEMENTWISE, target)
    assert api.print(api.load_bytes(text.encode(), "back.loom")) == text


def test_compiling_imports_neither_attrs_nor_numpy() -> None:
    code = (
        "import sys; from loom import api\n"
        "api.compile(api.load_bytes(sys.stdin.buffer.read(), 'm.loom'), (), 'amdgpu:gfx1100')\n"
        "print(*sorted({'attr', 'attrs', 'numpy', 'importlib.metadata'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=ELEMENTWISE, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_low_is_printed_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[Module] = []

    def print_once(module: Module) -> str:
        printed.append(module)
        return "text"

    monkeypatch.setattr("loom.text.printer.print_module", print_once)
    result = api.compile(api.load_bytes(ELEMENTWISE.encode(), "m.loom"), (), "amdgpu:gfx1100").result
    assert not printed
    assert result.low_text == "text"
    assert [[op.name for op in module.ops if op.name == "low.kernel.def"] for module in printed] == [["low.kernel.def"]]


def test_code_objects_are_reproducible_and_well_formed(tmp_path: Path) -> None:
    module = api.load_bytes(ELEMENTWISE.encode(), "m.loom")
    first = api.compile(module, (), "amdgpu:gfx11-generic").result
    second = api.compile(module.clone(), (), "amdgpu:gfx11-generic").result
    assert first.primary.data == second.primary.data
    readelf, objdump = shutil.which("llvm-readelf-19"), shutil.which("llvm-objdump-19")
    if readelf is None or objdump is None:
        pytest.skip("LLVM 19 is not installed")
    path = tmp_path / "k.hsaco"
    path.write_bytes(first.primary.data)
    notes = subprocess.run([readelf, "--notes", str(path)], capture_output=True, text=True, check=True).stdout
    assert "elementwise_transform_f32.kd" in notes
    assert "amdgcn-amd-amdhsa--gfx11-generic" in notes
    code = subprocess.run([objdump, "-d", str(path)], capture_output=True, text=True, check=True).stdout
    assert "<unknown>" not in code
    assert "v_cmpx_lt_u32" in code


def test_unsupported_operations_are_located() -> None:
    steps = (
        "%narrow = scalar.fptrunc %value : f32 to f8E4M3",
        "%root = scalar.sqrtf %narrow : f8E4M3",
        "%doubled = scalar.extf %root : f8E4M3 to f32",
    )
    text = ELEMENTWISE.replace("%doubled = scalar.addf %value, %value : f32", "\n  ".join(steps))
    with pytest.raises(LoomError) as caught:
        api.compile(api.load_bytes(text.encode(), "m.loom"), (), "amdgpu:gfx1100")
    diagnostic = caught.value.diagnostics[0]
    assert diagnostic.code == "TARGET/001"
    assert diagnostic.position() is not None
