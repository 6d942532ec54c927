"""Low text of divergent control, and clauses of symbols where the language guide writes them."""

from __future__ import annotations

import re

import pytest

from loom import api
from loom.plugins.manager import find_target

GUARDED = """\
kernel.def export("guarded") @guarded(%n: index) {
  %one = index.constant 1 : index
  %size = index.constant 64 : index
  %groups = index.div %n, %size : index
  kernel.launch.config workgroups(%groups, %one, %one) workgroup_size(%size, %one, %one) : index
} launch(%n: index, %data: buffer) {
  %base = index.constant 0 : offset
  %item = kernel.workitem.dispatch.id<x> : index
  %view = buffer.view %data[%base] : buffer -> view<[%n]xi32>
  %one = scalar.constant 1 : i32
  %two = scalar.constant 2 : i32
  %bit = index.constant 1 : index
  %low = index.andi %item, %bit : index
  %inside = index.cmp ult, %item, %n : index
  scf.if %inside {
    %old = view.load %view[%item] : view<[%n]xi32> -> i32
    %odd = index.cmp eq, %low, %bit : index
    %added = scf.if %odd -> (i32) {
      %more = scalar.addi %old, %one : i32
      scf.yield %more : i32
    } else {
      %more = scalar.muli %old, %two : i32
      scf.yield %more : i32
    }
    view.store %added, %view[%item] : i32, view<[%n]xi32>
  }
  kernel.return
}
"""

SAVE = re.compile(r"(%\S+), (%\S+) = s_and_saveexec_b(?:32|64) %\S+")


def lowered(text: str, target: str) -> list[str]:
    """The lines of the Low of a program's kernels."""
    profile = find_target(target)
    module = api.specialize(api.load_bytes(text.encode(), "m.loom"), profile).module
    return api.print(api.lower_module(module, profile)).splitlines()


@pytest.mark.seed("E05")
@pytest.mark.parametrize("target", ["amdgpu:gfx11-generic", "amdgpu:gfx1200", "amdgpu:gfx942"])
def test_divergent_branches_save_and_restore_the_mask(target: str) -> None:
    """Every mask that a branch saves decides over the scalar condition code and is restored where the paths meet."""
    lines = [line.strip() for line in lowered(GUARDED, target)]
    saves = [(at, match) for at, line in enumerate(lines) if (match := SAVE.match(line))]
    assert saves
    for at, match in saves:
        saved, flag = match.groups()
        branch = re.match(rf"low\.cond_br {re.escape(flag)}, (\^\S+), (\^\S+) : reg<amdgpu\.scc>", lines[at + 1])
        assert branch is not None, lines[at + 1]
        restores = [line for line in lines[at + 1 :] if "exec" in line and saved in re.findall(r"%[^\s,]+", line)]
        assert restores, f"{saved} is never restored"
    last = max(n for n, line in enumerate(lines) if line.startswith("s_mov_b64_exec"))
    assert lines[last].split()[1] == saves[0][1].group(1), "the last restore is that of the outermost branch"
    assert any(line.startswith("^") for line in lines[last - 1 : last])


LOW = """\
low.kernel.def retain target<amdgpu.gfx11.generic.core>(@context) workgroup_size(64, 1, 1) @k() asm {
  return
}

amdgpu.target<gfx11-generic> @context
"""
PROVIDER = """\
template.decl @guide.transform(%value: f32) -> (f32)

template.def<@guide.transform> requires [#target.subgroup.size<32>] priority(20) @wave32(%value: f32) -> (f32) {
  template.return %value : f32
}

func.def retain @kept(%value: f32) -> (f32) {
  %result = template.apply<@guide.transform>(%value) : (f32) -> (f32)
  func.return %result : f32
}
"""


@pytest.mark.seed("E06")
@pytest.mark.parametrize("text", [LOW, PROVIDER])
def test_clauses_parse_where_they_are_documented(text: str) -> None:
    module = api.load_bytes(text.encode(), "m.loom")
    assert api.print(module) == text
    symbols = module.symbols()
    if "k" in symbols:
        assert symbols["k"].attribute("retain") == "retain"
    else:
        assert symbols["wave32"].attribute("priority") == 20
        assert symbols["kept"].attribute("retain") == "retain"
        closed = api.link([module], roots=["kept"], target="amdgpu:gfx11-generic")
        assert "wave32" in closed.symbols(), "what is retained is reachable"


@pytest.mark.seed("E06")
def test_compiled_kernels_are_retained_with_their_size() -> None:
    (header,) = (line for line in lowered(GUARDED, "amdgpu:gfx11-generic") if line.startswith("low.kernel.def"))
    assert header.startswith("low.kernel.def retain target<amdgpu.gfx11.generic.core>(")
    assert "workgroup_size(64, 1, 1) @guarded() asm {" in header
