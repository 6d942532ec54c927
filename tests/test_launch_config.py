"""The launch configuration as an artifact: what a host learns of a compiled kernel for a workload."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from loom import api
from loom.ir.diagnostics import LoomError
from loom.launch_config import LaunchConfig, LaunchContract

GFX11, GFX9, VULKAN, X86 = "amdgpu:gfx1100", "amdgpu:gfx942", "spirv:vulkan1.3+bda", "x86:avx2"

KERNEL = """
func.def pure @groups(%n: index, %size: index) -> (index) {
  %one = index.constant 1 : index
  %pad = index.sub %size, %one : index
  %padded = index.add %n, %pad : index
  %count = index.div %padded, %size : index
  func.return %count : index
}

func.def @helper(%x: i32) -> (i32) {
  func.return %x : i32
}

kernel.def export("tile") @tile(%n: index) {
  %one = index.constant 1 : index
  %two = index.constant 2 : index
  %lanes = target.subgroup.size : index
  %size = index.mul %lanes, %two : index
  %count = func.call pure @groups(%n, %size) : (index, index) -> (index)
  kernel.launch.config workgroups(%count, %one, %two) workgroup_size(%size, %one, %one) : index
} launch(%x: buffer, %bytes: offset) {
  %o0 = index.constant 0 : offset
  %few = index.constant 10 : offset
  %lane = kernel.workitem.id<x> : index
  %some = index.assume %bytes [range(%bytes, 0, 100)] : offset
  %a = buffer.alloca<workgroup> align(4) %few : buffer
  %b = buffer.alloca<workgroup> align(64) %some : buffer
  %p = buffer.alloca<private> align(4) %few : buffer
  %i0 = index.constant 0 : index
  %first = index.cmp eq, %lane, %i0 : index
  %v1 = scalar.constant 1 : i32
  %h = func.call @helper(%v1) : (i32) -> (i32)
  %va = buffer.view %a[%o0] : buffer -> view<2xi32>
  %vb = buffer.view %b[%o0] : buffer -> view<2xi32>
  %vx = buffer.view %x[%o0] : buffer -> view<1xi32>
  scf.if %first {
    view.store %h, %va[0] : i32, view<2xi32>
    view.store %h, %vb[1] : i32, view<2xi32>
    %r = view.load %va[0] : view<2xi32> -> i32
    %s = view.load %vb[1] : view<2xi32> -> i32
    %t = scalar.addi %r, %s : i32
    view.store %t, %vx[0] : i32, view<1xi32>
  }
  kernel.return
}
"""


def config(target: str, text: str = KERNEL) -> LaunchConfig:
    """The configuration of the only kernel, compiled."""
    compilation = api.compile(api.load_bytes(text.encode(), "k.loom"), (), target)
    return api.launch_config(compilation, "@tile")


@pytest.mark.parametrize(("target", "lanes"), [(GFX11, 32), (GFX9, 64)])
@pytest.mark.seed("Z03", "K02")
def test_the_contract_has_all_that_a_host_needs(target: str, lanes: int) -> None:
    """Counts, sizes, subgroups and the workgroup storage of both allocations at their places."""
    found = config(target)
    assert found.evaluate([1009]) == LaunchContract(
        workgroups=(-(-1009 // (2 * lanes)), 1, 2),
        workgroup_size=(2 * lanes, 1, 1),
        cluster_size=None,
        subgroup_size=lanes,
        # Ten bytes, then at most a hundred from the next multiple of 64 on.
        workgroup_storage=64 + 100,
        dynamic_workgroup_storage=0,
    )
    assert found.evaluate([0]).workgroups == (0, 1, 2)


@pytest.mark.seed("Z03")
def test_storage_that_the_launch_asks_for_counts_too() -> None:
    text = KERNEL.replace(
        "workgroup_size(%size, %one, %one)", "workgroup_size(%size, %one, %one) dynamic_workgroup_storage(%more)"
    ).replace(
        "  %two = index.constant 2 : index\n",
        "  %two = index.constant 2 : index\n  %more = index.cast %n : index to offset\n",
    )
    contract = config(GFX11, text).evaluate([500])
    assert (contract.workgroup_storage, contract.dynamic_workgroup_storage) == (164 + 500, 500)


def test_vulkan_lays_out_its_own_storage() -> None:
    text = KERNEL.replace("target.subgroup.size", "index.constant 16")
    contract = config(VULKAN, text).evaluate([100])
    assert contract.workgroup_size == (32, 1, 1)
    assert contract.subgroup_size is None
    assert contract.workgroup_storage >= 110


@pytest.mark.seed("Z03", "K03")
def test_the_artifact_holds_no_device_code_and_reads_back() -> None:
    found = config(GFX11)
    data = found.to_bytes()
    assert data == config(GFX11).to_bytes()
    again = LaunchConfig.from_bytes(data)
    text = api.print(again.module)
    assert "alloca" not in text
    assert "@helper" not in text
    for count in (0, 1, 63, 64, 65, 1009, 1 << 30):
        assert again.evaluate([count]) == found.evaluate([count])
    # A host needs neither NumPy nor the target's package for it.
    script = (
        "import sys, json; from loom.launch_config import LaunchConfig;"
        "c = LaunchConfig.from_bytes(sys.stdin.buffer.read()).evaluate([1009]);"
        "assert not any(m.split('.')[0] in ('numpy', 'loom_target_amdgpu') for m in sys.modules);"
        "print(c.workgroups, c.workgroup_storage)"
    )
    run = subprocess.run([sys.executable, "-c", script], input=data, capture_output=True, timeout=60, check=False)
    assert run.stderr == b""
    assert run.stdout.split() == b"(16, 1, 2) 164".split()


@pytest.mark.parametrize("damage", [lambda d: d[:9], lambda d: b"", lambda d: d.replace(b'"kernel"', b'"kernal"'),
                                    lambda d: d.replace(b":164", b":-64"), lambda d: d[:-40],
                                    lambda d: d.replace(b'"kernel"', b"[" * 100_000)])  # fmt: skip
def test_damaged_artifacts_are_diagnosed(damage: Any) -> None:
    data = config(GFX11).to_bytes()
    with pytest.raises(LoomError):
        LaunchConfig.from_bytes(damage(data), "x.launch")


def test_values_and_symbols_that_do_not_suit_are_diagnosed() -> None:
    found = config(GFX11)
    # The last one is more workgroups than the processor counts.
    for workload in ([], [1, 2], [1 << 63], [1 << 38]):
        with pytest.raises(LoomError):
            found.evaluate(workload)
    compilation = api.compile(api.load_bytes(KERNEL.encode(), "k.loom"), (), GFX11)
    with pytest.raises(LoomError):
        api.launch_config(compilation, "@helper")


def test_the_kernel_itself_runs_as_the_contract_says() -> None:
    from loom_sim.amdgpu import load

    compilation = api.compile(api.load_bytes(KERNEL.encode(), "k.loom"), (), GFX11)
    contract = api.launch_config(compilation, "tile").evaluate([100])
    program = load(compilation.result.primary.data)
    out = np.zeros(1, dtype=np.int32)
    program.launch("tile", contract.workgroups[:1], contract.workgroup_size, [out, 100])
    assert out[0] == 2
    assert program.kernels["tile"].lds_size == contract.workgroup_storage
