"""Code authored for one target in a file whose cases also run on others."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., subprocess.CompletedProcess[str]]

KERNEL = """\
amdgpu.target<gfx11-generic> @gfx11

kernel.def target(@gfx11) export("mark") @mark() {
  %unit = index.constant 1 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%unit, %unit, %unit) : index
} launch(%x: buffer) {
  %origin = index.constant 0 : offset
  %seven = scalar.constant 7 : i32
  %out = buffer.view %x[%origin] : buffer -> view<1xi32>
  view.store %seven, %out[0] : i32, view<1xi32>
  kernel.return
}

check.case public @marks {
REQUIREMENT  %x = check.generate.fill value(0) : tensor<1xi32>
  %want = check.generate.fill value(7) : tensor<1xi32>
  kernel.launch @mark(%x) : (tensor<1xi32>)
  check.expect.equal actual(%x) expected(%want) : tensor<1xi32>
  check.return
}
"""
REQUIREMENT = '  check.requires<hal.amdgpu.descriptor_set> {descriptor_set = "amdgpu.gfx11.generic.core"}\n'


def test_a_case_that_requires_the_authored_target_is_skipped_elsewhere(run: Run, tmp_path: Path) -> None:
    program = tmp_path / "mark.loom"
    program.write_text(KERNEL.replace("REQUIREMENT", REQUIREMENT))
    assert "1 passed" in run("loom-check", program, "--target=amdgpu:gfx1100").stdout
    for arguments in (["--target=amdgpu:gfx942"], ["--device=reference"]):
        skipped = run("loom-check", program, *arguments)
        assert skipped.returncode == 0
        assert "SKIP  @marks: requires<hal.amdgpu.descriptor_set>" in skipped.stdout


def test_a_case_that_requires_nothing_fails_with_the_reason(run: Run, tmp_path: Path) -> None:
    program = tmp_path / "mark.loom"
    program.write_text(KERNEL.replace("REQUIREMENT", ""))
    # The reference evaluator could run it, but not as code of that target.
    for device in ("sim", "reference"):
        failed = run("loom-check", program, f"--device={device}", "--target=amdgpu:gfx942")
        assert failed.returncode == 1
        assert f"mark.loom:3:1: launch ({device}) [TARGET/052]" in failed.stdout
        assert "'@mark' is authored for '@gfx11', which amdgpu:gfx942 does not satisfy" in failed.stdout
