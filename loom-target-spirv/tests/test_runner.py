"""The Vulkan runner: arguments, errors, crashes, hangs and missing drivers."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import attrs
import numpy as np
import pytest

from loom_target_spirv import types
from loom_target_spirv.abi import ModuleAbi, Parameter, ParameterKind, Root, place_kernel, record_abi
from loom_target_spirv.elementwise import elementwise_module, workgroups
from loom_target_spirv.enumerants import ExecutionMode
from loom_target_spirv.errors import (
    SpirvError,
    VulkanCrash,
    VulkanLoopCut,
    VulkanOutOfBounds,
    VulkanTimeout,
    VulkanUnavailable,
    VulkanUnsupported,
)
from loom_target_spirv.facts import DeviceFacts, missing_features
from loom_target_spirv.function import FunctionBuilder
from loom_target_spirv.module import ModuleBuilder, Value
from loom_target_spirv.structured import CountedLoop
from loom_target_spirv.vulkan import VulkanRunner
from loom_target_spirv.wire import ProtocolError, read_frame, write_frame

BUFFER, SCALAR = ParameterKind.BUFFER, ParameterKind.SCALAR


def kernel_module(
    parameters: list[Parameter],
    write: Callable[[FunctionBuilder, Root], None],
    local_size: tuple[int, int, int] = (1, 1, 1),
) -> bytes:
    """A module with the kernel "kernel", whose body `write` appends."""
    module = ModuleBuilder()
    kernel = place_kernel("kernel", local_size, parameters)
    abi = ModuleAbi((kernel,))
    root = Root(module, abi)
    function = module.function("kernel")
    module.entry_point(function, "kernel", kernel.local_size)
    write(function, root)
    record_abi(module, abi)
    return module.assemble()


def store_at(offset: int) -> Callable[[FunctionBuilder, Root], None]:
    """A body that stores 1 at a byte offset from the last binding."""

    def write(f: FunctionBuilder, root: Root) -> None:
        module = f.module
        step = module.constant(types.U64, offset)
        address = f.op("OpIAdd", types.U64, root.binding_address(f, 0), step)
        f.store(f.address_to_pointer(address, types.U32), module.constant(types.U32, 1))
        f.ret()

    return write


@pytest.fixture(scope="module")
def increment() -> bytes:
    """out = in + 1 for u32."""
    return elementwise_module(
        "increment",
        [types.U32],
        types.U32,
        lambda f, v: f.op("OpIAdd", types.U32, v[0], f.module.constant(types.U32, 1)),
    )


def test_facts(runner: VulkanRunner) -> None:
    """The facts describe a device that can run kernels, and survive JSON."""
    facts = runner.facts()
    assert facts.name
    assert facts.api_version >= (1, 3, 0)
    assert facts.subgroup_size & (facts.subgroup_size - 1) == 0
    assert {"bufferDeviceAddress", "shaderInt64", "vulkanMemoryModel"} <= facts.features
    assert facts.max_push_constants >= 128
    assert DeviceFacts.from_json(facts.to_json()) == facts


def test_a_device_is_chosen_by_name(runner: VulkanRunner) -> None:
    """Part of the name finds it; a name no device has is an error that lists the devices."""
    name = runner.facts().name
    with VulkanRunner(name[:5].upper()) as chosen:
        assert chosen.facts().name == name
    with VulkanRunner("no such device") as none, pytest.raises(VulkanUnavailable, match=name.split()[0]):
        none.facts()


def test_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A loader without drivers ends in one clear error."""
    for variable in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.setenv(variable, str(tmp_path / "none.json"))
    with (
        VulkanRunner() as runner,
        pytest.raises(VulkanUnavailable, match=r"mesa-vulkan-drivers.*--device=sim"),
    ):
        runner.facts()


def test_missing_binding_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So does a Python without the binding (here: one whose import fails in the child)."""
    (tmp_path / "vulkan.py").write_text("raise ImportError('No module named vulkan')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    with VulkanRunner() as runner, pytest.raises(VulkanUnavailable, match=r"package 'vulkan'.*--device=sim"):
        runner.facts()


def test_a_crash_is_an_error_and_the_next_launch_works(runner: VulkanRunner, increment: bytes) -> None:
    """A store to an address nobody mapped ends the child only."""

    def write(f: FunctionBuilder, root: Root) -> None:
        f.store(
            f.address_to_pointer(f.module.constant(types.U64, 16), types.U32), f.module.constant(types.U32, 1)
        )
        f.ret()

    if "llvmpipe" not in runner.facts().name:
        pytest.skip("on a GPU a wild store need not end the process")
    crash = kernel_module([], write)
    x, y = np.arange(5, dtype=np.uint32), np.zeros(5, np.uint32)
    with VulkanRunner() as own:
        with pytest.raises(VulkanCrash, match="SIGSEGV"):
            own.launch(crash, "kernel", (1, 1, 1), [])
        own.launch(increment, "increment", workgroups(5), [5, x, y])
    np.testing.assert_array_equal(y, x + 1)


def test_a_kernel_that_takes_too_long_is_an_error_and_the_next_launch_works(
    runner: VulkanRunner, increment: bytes
) -> None:
    """A grid of a million work-items with long loops is ended after the timeout."""

    def write(f: FunctionBuilder, root: Root) -> None:
        constant = f.module.constant
        pointer = f.address_to_pointer(root.binding_address(f, 0), types.U32)
        loop = CountedLoop(f, constant(types.U32, 0), constant(types.U32, 60_000), constant(types.U32, 1))
        f.store(
            pointer, f.op("OpIAdd", types.U32, f.load(pointer, volatile=True), loop.induction), volatile=True
        )
        loop.end()
        f.ret()

    slow = kernel_module([Parameter("cell", BUFFER)], write)
    x, y = np.arange(5, dtype=np.uint32), np.zeros(5, np.uint32)
    with VulkanRunner(timeout=3) as own:
        with pytest.raises(VulkanTimeout, match="within 3 s"):
            own.launch(slow, "kernel", (1024, 1024, 1), [np.zeros(1, np.uint32)])
        own.launch(increment, "increment", workgroups(5), [5, x, y])
    np.testing.assert_array_equal(y, x + 1)


def test_a_loop_the_driver_cuts_short_is_an_error(runner: VulkanRunner) -> None:
    """Below llvmpipe's limit a count comes out right, past it the launch fails; other drivers have no
    limit.
    """

    def body(f: FunctionBuilder, v: list[Value]) -> Value:
        constant = f.module.constant
        outer = CountedLoop(f, constant(types.U32, 0), v[0], constant(types.U32, 1), [constant(types.U32, 0)])
        inner = CountedLoop(
            f, constant(types.U32, 0), constant(types.U32, 100), constant(types.U32, 1), [outer.carried[0]]
        )
        [count] = inner.end([f.op("OpIAdd", types.U32, inner.carried[0], constant(types.U32, 1))])
        return outer.end([count])[0]

    module = elementwise_module("count", [types.U32], types.U32, body)
    for rounds in (0, 1, 600, 700, 5000):
        x, y = np.full(3, rounds, np.uint32), np.zeros(3, np.uint32)
        if rounds > 600 and "llvmpipe" in runner.facts().name:
            with pytest.raises(VulkanLoopCut, match="left a loop of the kernel 'count'"):
                runner.launch(module, "count", (1, 1, 1), [3, x, y])
        else:
            runner.launch(module, "count", (1, 1, 1), [3, x, y])
            np.testing.assert_array_equal(y, 100 * x)


@pytest.mark.parametrize(("offset", "where"), [(12, "after"), (16, "after"), (260, "after"), (-4, "before")])
def test_writes_outside_a_buffer_are_found(runner: VulkanRunner, offset: int, where: str) -> None:
    """Guard bytes around each buffer betray a stray store, even one within the rounding of its size."""
    module = kernel_module([Parameter("cells", BUFFER), Parameter("other", BUFFER)], store_at(offset))
    with pytest.raises(VulkanOutOfBounds, match=f"wrote {where} the memory of the buffer"):
        runner.launch(module, "kernel", (1, 1, 1), [np.zeros(3, np.uint32), np.zeros(3, np.uint32)])


def test_arrays_that_share_memory_share_it_on_the_device(runner: VulkanRunner, increment: bytes) -> None:
    """In place, and by views that overlap in part."""
    x = np.arange(70, dtype=np.uint32)
    runner.launch(increment, "increment", workgroups(70), [70, x, x])
    np.testing.assert_array_equal(x, np.arange(70) + 1)
    store = np.arange(8, dtype=np.uint32)
    runner.launch(increment, "increment", (1, 1, 1), [1, store[3:7], store[:5]])
    np.testing.assert_array_equal(store, [4, 1, 2, 3, 4, 5, 6, 7])


def test_odd_arguments(runner: VulkanRunner, increment: bytes) -> None:
    """Empty arrays, read-only inputs, NumPy scalars and an empty grid are all fine."""
    x, y = np.arange(4, dtype=np.uint32), np.zeros(4, np.uint32)
    x.setflags(write=False)
    runner.launch(increment, "increment", (1, 1, 1), [np.int64(4), x, y])
    np.testing.assert_array_equal(y, x + 1)
    runner.launch(increment, "increment", (1, 1, 1), [0, np.zeros(0, np.uint32), np.zeros(0, np.uint32)])
    runner.launch(increment, "increment", (0, 1, 1), [4, x, x])
    np.testing.assert_array_equal(x, np.arange(4))


def test_buffers_grow_and_shrink(runner: VulkanRunner, increment: bytes) -> None:
    """Launches of changing sizes reuse or replace the memory of the device."""
    for size in (10, 300_000, 5, 1_000_000, 77):
        x, y = np.arange(size, dtype=np.uint32), np.zeros(size, np.uint32)
        runner.launch(increment, "increment", workgroups(size), [size, x, y])
        np.testing.assert_array_equal(y, x + 1)


def test_arguments_that_do_not_fit(runner: VulkanRunner, increment: bytes) -> None:
    """Each mistake has a message of its own."""
    x = np.zeros(8, np.uint32)
    typed = kernel_module([Parameter("cells", BUFFER, "f32"), Parameter("n", SCALAR, "i8")], store_at(0))
    for module, entry, arguments, match in (
        (increment, "other", [1, x, x], "no kernel 'other'.*increment"),
        (increment, "increment", [1, x], "takes 3 arguments, not 2"),
        (increment, "increment", [x, x, x], "'count' is a number"),
        (increment, "increment", [1, 2, x], "'input0' is an array"),
        (increment, "increment", [1, x[::2], x], "not C-contiguous"),
        (typed, "kernel", [np.zeros(2, np.float64), 1], "elements of float64; the kernel reads f32"),
        (typed, "kernel", [np.zeros(2, np.float32), 400], "cannot hold 400"),
        (b"no module", "kernel", [], "no SPIR-V module"),
    ):
        with pytest.raises(SpirvError, match=match):
            runner.launch(module, entry, (1, 1, 1), arguments)  # type: ignore[arg-type]


def test_limits_of_the_device(runner: VulkanRunner, increment: bytes) -> None:
    """Workgroups, grids and roots past the limits are refused before the driver sees them."""
    facts = runner.facts()
    x = np.zeros(1, np.uint32)
    with pytest.raises(VulkanUnsupported, match="outside the limits"):
        runner.launch(increment, "increment", (facts.max_workgroup_count[0] + 1, 1, 1), [0, x, x])
    with pytest.raises(VulkanUnsupported, match="outside the limits"):
        runner.launch(increment, "increment", (-1, 1, 1), [0, x, x])
    big = kernel_module([Parameter("a", BUFFER)], store_at(0), (facts.max_invocations + 1, 1, 1))
    with pytest.raises(VulkanUnsupported, match="workgroup size"):
        runner.launch(big, "kernel", (1, 1, 1), [x])
    many = [Parameter(f"s{i}", SCALAR, "i64") for i in range(facts.max_push_constants // 8)]
    wide = kernel_module([Parameter("a", BUFFER), *many], store_at(0))
    with pytest.raises(VulkanUnsupported, match="push constants"):
        runner.launch(wide, "kernel", (1, 1, 1), [x, *range(len(many))])


def test_features_a_device_lacks(runner: VulkanRunner) -> None:
    """Capabilities and float controls are compared with the features of the device."""

    def prepare(module: ModuleBuilder, function: FunctionBuilder) -> None:
        module.execution_mode(function, ExecutionMode.DenormPreserve, 32)

    module = elementwise_module("copy", [types.F16], types.F16, lambda f, v: v[0], prepare)
    facts = runner.facts()
    poor = attrs.evolve(
        facts, features=facts.features - {"storageBuffer16BitAccess", "shaderDenormPreserveFloat32"}
    )
    missing = missing_features(module, poor)
    assert [text.split()[0] for text in missing] == [
        "storageBuffer16BitAccess",
        "shaderDenormPreserveFloat32",
    ]
    if "shaderDenormPreserveFloat32" not in facts.features:
        with pytest.raises(VulkanUnsupported, match="DenormPreserve 32"):
            runner.launch(module, "copy", (1, 1, 1), [0, np.zeros(1, np.float16), np.zeros(1, np.float16)])


def test_frames_round_trip() -> None:
    """Records and payloads come out as they went in; the end of a stream is not an error."""
    stream = io.BytesIO()
    write_frame(stream, {"a": [1, "ä"]}, [b"abc", np.arange(3, dtype=np.uint16).data])
    write_frame(stream, {})
    stream.seek(0)
    assert read_frame(stream) == ({"a": [1, "ä"]}, bytearray(b"abc\0\0\1\0\2\0"))
    assert read_frame(stream) == ({}, bytearray())
    assert read_frame(stream) is None


def test_broken_frames_are_errors() -> None:
    """A stream that ends early or holds something else is no frame."""
    stream = io.BytesIO()
    write_frame(stream, {"a": 1}, [b"payload"])
    whole = stream.getvalue()
    for data in (whole[:5], whole[:18], whole[:-1], b"x" * 40):
        with pytest.raises(ProtocolError):
            read_frame(io.BytesIO(data))
