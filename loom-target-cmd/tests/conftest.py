"""Compiling command programs from text, and running them with the reference evaluator as the device."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from loom import api
from loom.ir.diagnostics import Diagnostic, LoomError
from loom.plugins.records import EmitResult
from loom_target_cmd.loomcmd import decode
from loom_target_cmd.manifest import Manifest, read_manifest
from loom_target_cmd.records import CommandProgram

SHARED = Path(os.environ.get("LOOM_SHARED") or Path(__file__).resolve().parents[3] / "shared")

# Kernels that the programs under test launch. Their bodies do nothing: preparation must not look at them.
KERNELS = """\
kernel.def @step(%n: index) {
  %one = index.constant 1 : index
  %size = index.constant 64 : index
  %rounding = index.constant 63 : index
  %rounded = index.add %n, %rounding : index
  %groups = index.div %rounded, %size : index
  kernel.launch.config workgroups(%groups, %one, %one) workgroup_size(%size, %one, %one) : index
} launch(%src: buffer, %dst: buffer) {
  kernel.return
}

kernel.def @fixed() {
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%one, %one, %one) : index
} launch(%dst: buffer) {
  kernel.return
}

kernel.def @number(%n: index) {
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%n, %one, %one) workgroup_size(%one, %one, %one) : index
} launch(%n: index, %dst: buffer) where [range(%n, 1, 1000)] {
  kernel.return
}

kernel.def @weighted() {
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%one, %one, %one) : index
} launch(%w: view<8xf32>, %dst: buffer) {
  kernel.return
}

kernel.entry.decl @entry(%dst: buffer)

"""


@attrs.frozen
class Compiled:
    """A compilation with its files read back."""

    result: EmitResult
    manifest: Manifest
    programs: tuple[CommandProgram, ...]

    @property
    def program(self) -> CommandProgram:
        (program,) = self.programs
        return program

    @property
    def low(self) -> str:
        assert self.result.low_text is not None
        return self.result.low_text


Compile = Callable[..., Compiled]
Refused = Callable[..., Diagnostic]


def _compile(text: str, roots: tuple[str, ...] = (), target: str | None = None) -> Compiled:
    module = api.parse(KERNELS + text, "test.loom")
    api.verify(module)
    result = api.compile(module, roots, target, "loom-command").result
    return Compiled(result, read_manifest(result.primary.data), tuple(decode(a.data) for a in result.extras))


@pytest.fixture(scope="session")
def compile_text() -> Compile:
    """`compile_text(text, roots=(), target=None)`: compile with the kernels above in the module."""
    return _compile


@pytest.fixture(scope="session")
def refused() -> Refused:
    """`refused(text)`: the one diagnostic of a compilation that must fail, with a location."""

    def run(text: str, *args: Any) -> Diagnostic:
        with pytest.raises(LoomError) as caught:
            _compile(text, *args)
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.position() is not None, diagnostic.render()
        json.dumps(diagnostic.to_json())
        return diagnostic

    return run


@pytest.fixture(scope="session")
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there (set LOOM_SHARED)")
    return SHARED
