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

from loom import api
from loom_target_spirv.device import VulkanDevice
from loom_target_spirv.elementwise import Body, elementwise_module, workgroups
from loom_target_spirv.errors import VulkanUnavailable
from loom_target_spirv.profiles import PROFILE
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


Use = tuple[str, str]
"""One operation in a test kernel: text that reads ``%a``, ``%b``, ``%c``, and the type of its result."""

_WIDTH = 64


def _lanewise_kernel(uses: Sequence[Use], operand_types: Sequence[str], before: str) -> str:
    """A kernel that applies every use to each element of its operand buffers."""
    names = "abc"[: len(operand_types)]
    inputs = [f"%in_{name}: buffer" for name in names]
    outputs = [f"%out{index}: buffer" for index in range(len(uses))]
    views, loads, results = [], [], []
    for name, type_ in zip(names, operand_types, strict=True):
        views.append(f"%v_{name} = buffer.view %in_{name}[%o] : buffer -> view<[%n]x{type_}>")
        loads.append(f"%{name} = view.load %v_{name}[%i] : view<[%n]x{type_}> -> {type_}")
    for index, (text, type_) in enumerate(uses):
        view = f"view<[%n]x{type_}>"
        views.append(f"%w{index} = buffer.view %out{index}[%o] : buffer -> {view}")
        results.append(f"%r{index} = {text}")
        results.append(f"view.store %r{index}, %w{index}[%i] : {type_}, {view}")
    return f"""
kernel.def @lanes(%n: index) {{
  %one = index.constant 1 : index
  %width = index.constant {_WIDTH} : index
  %pad = index.constant {_WIDTH - 1} : index
  %padded = index.add %n, %pad : index
  %groups = index.div %padded, %width : index
  kernel.launch.config workgroups(%groups, %one, %one) workgroup_size(%width, %one, %one) : index
}} launch({", ".join(["%n: index", *inputs, *outputs])}) {{
  %o = index.constant 0 : offset
  %i = kernel.workitem.dispatch.id<x> : index
  {f"{chr(10)}  ".join(views)}
  %live = index.cmp ult, %i, %n : index
  scf.if %live {{
    {f"{chr(10)}    ".join([*loads, before, *results])}
  }}
  kernel.return
}}
"""


_DTYPES = {"i1": "?", "index": "i8", "offset": "i8", "bf16": "u2"}


def dtype_of(type_: str) -> np.dtype[Any]:
    """The NumPy type that stores a scalar type."""
    return np.dtype(_DTYPES.get(type_) or f"{type_[0]}{int(type_[1:]) // 8}")


@pytest.fixture(scope="session")
def device(runner: VulkanRunner) -> VulkanDevice:
    """The device `vulkan` over the driver that all tests share."""
    return VulkanDevice(PROFILE, runner)


@pytest.fixture
def launch(device: VulkanDevice, validate: Callable[[bytes], bytes]) -> Callable[..., None]:
    """Compile a source text, have spirv-val judge it, and run its first kernel:
    launch(text, workload, arguments).
    """

    def run(text: str, workload: Sequence[int], arguments: Sequence[Any]) -> None:
        module = api.parse(text, "kernel.loom")
        api.verify(module)
        validate(api.compile(module, (), PROFILE).result.primary.data)
        kernel = next(op for op in module.ops if op.name == "kernel.def")
        device.launch(module, kernel, workload, arguments)

    return run


@pytest.fixture
def evaluate(launch: Callable[..., None]) -> Callable[..., list[Array]]:
    """Run source operations over arrays on the device: evaluate(uses, element type or types, operand arrays,
    source text before the uses) -> one array of results per use.
    """

    def run(uses: Sequence[Use], type_: str | Sequence[str], arrays: Sequence[Array], before: str = "") -> list[Array]:
        types = [type_] * len(arrays) if isinstance(type_, str) else list(type_)
        count = arrays[0].size
        outputs = [np.zeros(count, dtype_of(result)) for _, result in uses]
        launch(_lanewise_kernel(uses, types, before), [count], [count, *arrays, *outputs])
        return outputs

    return run


@pytest.fixture
def kernel_text() -> Callable[..., str]:
    """Source of a kernel of one workgroup: kernel_text(arguments, body, size=(x, y, z))."""

    def write(arguments: str, body: str, size: tuple[int, int, int] = (32, 1, 1)) -> str:
        constants = "".join(f"  %s{axis} = index.constant {n} : index\n" for axis, n in zip("xyz", size, strict=True))
        lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
        return f"""
kernel.def @k() {{
  %one = index.constant 1 : index
{constants}  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%sx, %sy, %sz) : index
}} launch({arguments}) {{
  %o = index.constant 0 : offset
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %x = kernel.workitem.id<x> : index
{lines}
  kernel.return
}}
"""

    return write
