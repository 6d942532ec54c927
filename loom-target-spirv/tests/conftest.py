"""Fixtures: the judge spirv-val, a Vulkan device, and running one expression over arrays."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from loom_target_spirv.elementwise import Body, elementwise_module, workgroups
from loom_target_spirv.errors import VulkanUnavailable
from loom_target_spirv.types import FloatType, IntType, Type
from loom_target_spirv.vulkan import VulkanRunner

Array = npt.NDArray[Any]


@pytest.fixture(scope="session")
def runner() -> Iterator[VulkanRunner]:
    """A Vulkan device shared by the tests; they are skipped where there is none."""
    with VulkanRunner(timeout=60) as device:
        try:
            device.facts()
        except VulkanUnavailable as error:
            pytest.skip(str(error))
        yield device


@pytest.fixture
def spirv_tool(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a program of SPIRV-Tools on a module: spirv_tool("spirv-val", data, *options)."""

    def run(program: str, data: bytes, *options: str) -> subprocess.CompletedProcess[str]:
        if shutil.which(program) is None:
            pytest.skip(f"{program} (Debian package spirv-tools) is not installed")
        path = tmp_path / "module.spv"
        path.write_bytes(data)
        return subprocess.run([program, *options, str(path)], capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def validate(spirv_tool: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[[bytes], bytes]:
    """Assert that spirv-val accepts a module for Vulkan 1.3; hands the module back."""

    def check(data: bytes) -> bytes:
        judged = spirv_tool("spirv-val", data, "--target-env", "vulkan1.3")
        assert judged.returncode == 0, judged.stderr
        return data

    return check


@pytest.fixture
def apply(runner: VulkanRunner, validate: Callable[[bytes], bytes]) -> Callable[..., Array]:
    """Run an expression over arrays on the device: apply(body, arrays, result type) -> array of results."""

    def run(body: Body, arrays: Sequence[Array], result: Type) -> Array:
        types = [_type_of(array.dtype) for array in arrays]
        module = validate(elementwise_module("expression", types, result, body))
        out = np.zeros(arrays[0].shape, _dtype_of(result))
        runner.launch(module, "expression", workgroups(out.size), [out.size, *arrays, out])
        return out

    return run


def _type_of(dtype: np.dtype[Any]) -> Type:
    return FloatType(dtype.itemsize * 8) if dtype.kind == "f" else IntType(dtype.itemsize * 8)


def _dtype_of(type_: Type) -> np.dtype[Any]:
    assert isinstance(type_, (FloatType, IntType))
    return np.dtype(f"{'f' if isinstance(type_, FloatType) else 'u'}{type_.width // 8}")
