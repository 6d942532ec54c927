"""What the package registers: targets, contracts, formats and devices."""

from __future__ import annotations

import ctypes.util
import subprocess
import sys

import pytest

from loom import api
from loom.ir.diagnostics import LoomError
from loom.plugins.manager import descriptor_set, find_device, find_emitter, find_target


def test_targets_publish_their_facts() -> None:
    for name, contract, wave in (
        ("gfx1100", "amdgpu.rdna3.core", 32), ("gfx1151", "amdgpu.rdna3_5.core", 32), ("gfx11-generic", "amdgpu.gfx11.generic.core", 32),
        ("gfx1200", "amdgpu.rdna4.core", 32), ("gfx12-generic", "amdgpu.gfx12.generic.core", 32), ("gfx942", "amdgpu.cdna3.core", 64),
    ):  # fmt: skip
        target = find_target(f"amdgpu:{name}")
        assert target.contract == contract
        assert target.facts["subgroup_size"] == wave
        assert target.facts["index_bitwidth"] == 32
        assert descriptor_set(contract) is not None


def test_an_exact_processor_accepts_generic_code_and_not_the_reverse() -> None:
    exact, generic = find_target("amdgpu:gfx1100"), find_target("amdgpu:gfx11-generic")
    assert exact.accepts(generic)
    assert not generic.accepts(exact)
    assert "amdgpu.gfx11.generic.core" in exact.facts["contracts"]  # type: ignore[operator]


def test_the_emitter_is_registered() -> None:
    emitter = find_emitter("amdgpu-hsaco")
    assert emitter.families == ("amdgpu",)
    assert emitter.lower is not None


def test_records_are_verified() -> None:
    for text, code in (
        ("amdgpu.target<gfx1199> @t\n", "AMDGPU/003"), ("amdgpu.target<gfx906> @t\n", "AMDGPU/004"),
        ('amdgpu.target<gfx1100> @t {processor = "gfx1200"}\n', "AMDGPU/005"),
    ):  # fmt: skip
        with pytest.raises(LoomError) as caught:
            api.load_bytes(text.encode(), "t.loom")
        assert caught.value.diagnostics[0].code == code
        assert caught.value.diagnostics[0].position() is not None
    api.load_bytes(b'amdgpu.target<gfx1100> @t {processor = "gfx1102"}\n', "t.loom")


@pytest.mark.skipif(ctypes.util.find_library("amdhip64") is not None, reason="a HIP runtime is installed")
def test_without_a_driver_the_device_points_to_the_simulator() -> None:
    with pytest.raises(LoomError) as caught:
        find_device("amdgpu").open(None)
    assert "--device=sim" in (caught.value.diagnostics[0].hint or "")


def test_loading_the_plugin_imports_little() -> None:
    """No NumPy, no tables and no selection before something is compiled."""
    script = (
        "import sys, loom_target_amdgpu.plugin as p; list(p.loom_register_descriptor_sets()); list(p.loom_register_emitters());"
        "print([m for m in sys.modules if m == 'numpy' or m.startswith('loom_target_amdgpu.') and 'plugin' not in m])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_compiling_imports_nothing_heavy() -> None:
    script = (
        "import sys\nfrom loom import api\n"
        "text = '''kernel.def export(\"k\") @k() {\n  %one = index.constant 1 : index\n"
        "  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%one, %one, %one) : index\n} launch(%x: buffer) {\n"
        "  %o = index.constant 0 : offset\n  %v = buffer.view %x[%o] : buffer -> view<1xi32>\n  %a = scalar.constant 7 : i32\n"
        "  view.store %a, %v[0] : i32, view<1xi32>\n  kernel.return\n}\n'''\n"
        "api.compile(api.load_bytes(text.encode(), 'k'), (), 'amdgpu:gfx1100')\n"
        "print([m for m in ('numpy', 'attrs', 'difflib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
