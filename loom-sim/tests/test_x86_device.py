"""The device `sim` for x86 targets: compiled code under Unicorn, with the simulator's checks of memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("loom_target_x86", reason="loom-target-x86 is not installed")

from loom import api
from loom.plugins.manager import find_device, find_target
from loom_sim.x86 import SimulationFault
from loom_sim.x86.device import open_x86_sim

FILL = """
kernel.def export("fill") @fill(%n: index) {
  %one = index.constant 1 : index
  %width = index.constant 8 : index
  %groups = index.div %n, %width : index
  kernel.launch.config workgroups(%groups, %one, %one) workgroup_size(%width, %one, %one) : index
} launch(%value: f32, %out: buffer) {
  %origin = index.constant 0 : offset
  %i = kernel.workitem.dispatch.id<x> : index
  %many = index.constant 1000000 : index
  %view = buffer.view %out[%origin] : buffer -> view<[%many]xf32>
  view.store %value, %view[%i] : f32, view<[%many]xf32>
  kernel.return
}

check.case public @fills {
  %n = check.literal value(32) : index
  %value = check.literal value(2.5) : f32
  %out = check.generate.fill value(0.0) : tensor<32xf32>
  %want = check.generate.fill value(2.5) : tensor<32xf32>
  kernel.launch @fill[%n](%value, %out) : [index](f32, tensor<32xf32>)
  check.expect.bitwise actual(%out) expected(%want) : tensor<32xf32>
  check.return
}
"""


def test_the_registered_device_takes_x86_targets() -> None:
    device = find_device("sim")
    assert "x86" in device.families
    module = api.load_bytes(FILL.encode(), "fill.loom")
    handle = device.open(find_target("x86:simd128"))
    out = np.zeros(16, np.float32)
    handle.launch(module, module.symbols()["fill"], [16], [1.5, out])
    handle.close()
    assert (out == 1.5).all()


def test_checks_run_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "fill.loom"
    path.write_text(FILL)
    program = "import sys; from loom.tools.check import main; sys.exit(main())"
    for target in ("x86:simd128", "x86:avx2"):
        result = subprocess.run(
            [sys.executable, "-c", program, str(path), "--device=sim", f"--target={target}"], capture_output=True, check=False
        )
        assert b"Traceback" not in result.stderr
        # The simulator has no AVX, and says so.
        assert (result.returncode == 0) == (target == "x86:simd128"), result.stderr


def test_an_access_outside_the_buffer_is_located() -> None:
    module = api.load_bytes(FILL.encode(), "fill.loom")
    device = open_x86_sim()
    out = np.zeros(12, np.float32)
    with pytest.raises(SimulationFault) as caught:
        device.launch(module, module.symbols()["fill"], [16], [1.5, out])
    record = caught.value.record
    assert (record.kind, record.buffer, record.offset) == ("write", 0, 48)
    assert record.workgroup == (1, 0, 0)
    assert record.symbol is not None
    assert record.symbol.startswith("fill")
    device.close()
