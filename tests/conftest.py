"""What the cross-package tests share: where things are, every device, and how a user runs a command."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from loom import api
from loom.check.report import TestReport
from loom.ir.diagnostics import LoomError

ROOT: Final = Path(__file__).resolve().parents[1]
TIME_LIMIT: Final = 300

# Everything that these tests compile is proven; processes that they start inherit it.
os.environ.setdefault("LOOM_VERIFY_MACHINE", "1")

Run = Callable[..., subprocess.CompletedProcess[str]]


@attrs.frozen
class Machine:
    """A device with the target it runs, and the modules that must be installed for both."""

    device: str
    target: str | None = None
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.device}-{self.target.replace(':', '-')}" if self.target else self.device

    @property
    def is_x86(self) -> bool:
        return self.target is not None and self.target.startswith("x86:")

    @property
    def options(self) -> list[str]:
        """As options of loom-check."""
        return [f"--device={self.device}", *([f"--target={self.target}"] if self.target else [])]

    def check(self, inputs: Sequence[Path], libraries: Sequence[Path] = (), **selection: Any) -> TestReport:
        """Run the cases of the inputs. The test skips where this machine has no such device."""
        try:
            return api.check(inputs, libraries, self.device, self.target, **selection)
        except LoomError as error:
            if self.device == "vulkan" and "cannot be opened" in str(error):
                pytest.skip(str(error))
            raise


SIM: Final = ("loom_sim", "loom_target_amdgpu")
MACHINES: Final = (
    Machine("reference"),
    Machine("sim", "amdgpu:gfx1100", SIM),
    Machine("sim", "amdgpu:gfx1200", SIM),
    Machine("sim", "amdgpu:gfx942", SIM),
    Machine("vulkan", "spirv:vulkan1.3+bda", ("loom_target_spirv", "vulkan")),
    Machine("sim", "x86:simd128", ("loom_sim", "loom_target_x86", "unicorn")),
    Machine("host", "x86:simd128", ("loom_target_x86",)),
    Machine("host", "x86:avx2", ("loom_target_x86",)),
)


@pytest.fixture(params=MACHINES, ids=lambda machine: machine.name)
def machine(request: pytest.FixtureRequest) -> Machine:
    """Every device in turn."""
    found: Machine = request.param
    for module in found.needs:
        pytest.importorskip(module, exc_type=ImportError)
    if found.device == "host" and platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("this is no x86-64 machine")
    return found


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with shared programs; the test skips without it."""
    folder = Path(os.environ.get("LOOM_SHARED") or ROOT.parent / "shared")
    if not folder.is_dir():
        pytest.skip("no folder with shared programs: set LOOM_SHARED")
    return folder


@pytest.fixture(scope="session")
def run() -> Run:
    """Run an installed command of this environment and return its status and output as text.

    ``run("loom-check", "file.loom", cwd=..., bin=...)``: ``bin`` is another environment's folder of commands.
    """

    def run_command(
        name: str | Path, *args: object, cwd: Path = ROOT, bin: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        folder = bin or Path(sys.executable).parent
        return subprocess.run(
            [str(folder / name), *map(str, args)],
            cwd=cwd,
            env={**os.environ, **(env or {}), "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
        )

    return run_command
