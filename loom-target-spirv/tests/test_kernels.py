"""Whole kernels written through the builder, on a device: guard, loop, workgroup memory, atomics,
subgroups.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from loom_target_spirv import types
from loom_target_spirv.abi import (
    KernelAbi,
    ModuleAbi,
    Parameter,
    ParameterKind,
    Root,
    place_kernel,
    record_abi,
)
from loom_target_spirv.elementwise import element_pointer
from loom_target_spirv.enumerants import BuiltIn, GroupOperation, MemorySemantics, Scope, StorageClass
from loom_target_spirv.function import FunctionBuilder
from loom_target_spirv.module import ModuleBuilder, Value
from loom_target_spirv.structured import CountedLoop, Selection
from loom_target_spirv.vulkan import VulkanRunner

BUFFER, SCALAR = ParameterKind.BUFFER, ParameterKind.SCALAR
Validate = Callable[[bytes], bytes]
Write = Callable[[FunctionBuilder, Root, KernelAbi], None]


def build(local_size: tuple[int, int, int], parameters: list[Parameter], write: Write) -> bytes:
    """A module with one kernel "kernel"."""
    module = ModuleBuilder()
    kernel = place_kernel("kernel", local_size, parameters)
    abi = ModuleAbi((kernel,))
    root = Root(module, abi)
    function = module.function("kernel")
    module.entry_point(function, "kernel", local_size)
    root.guard_loops(function)
    write(function, root, kernel)
    record_abi(module, abi)
    return module.assemble()


def coordinate(function: FunctionBuilder, builtin: BuiltIn, axis: int = 0) -> Value:
    """One component of a coordinate."""
    return function.extract(function.load(function.module.builtin(builtin)), axis)


@pytest.fixture(scope="module")
def saxpy() -> bytes:
    """y = a*x + y for the first n elements."""

    def write(f: FunctionBuilder, root: Root, kernel: KernelAbi) -> None:
        index = coordinate(f, BuiltIn.GlobalInvocationId)
        count, a = (root.scalar(f, p) for p in kernel.parameters[:2])
        guard = Selection(f, f.op("OpULessThan", types.BOOL, index, count))
        x, y = (element_pointer(f, root.binding_address(f, i), index, types.F32) for i in range(2))
        product = f.exact("OpFMul", types.F32, a, f.load(x))
        f.store(y, f.exact("OpFAdd", types.F32, product, f.load(y)))
        guard.end()
        f.ret()

    parameters = [
        Parameter("n", SCALAR, "i32"),
        Parameter("a", SCALAR, "f32"),
        Parameter("x", BUFFER, "f32"),
        Parameter("y", BUFFER, "f32"),
    ]
    return build((64, 1, 1), parameters, write)


@pytest.mark.parametrize("n", [0, 1, 7, 63, 64, 65, 127, 1000])
def test_saxpy_guards_its_tail(runner: VulkanRunner, validate: Validate, saxpy: bytes, n: int) -> None:
    """Elements from n on keep what they held, whatever the tail."""
    validate(saxpy)
    rng = np.random.default_rng(n)
    x, y = (rng.standard_normal(1024).astype(np.float32) for _ in range(2))
    want = np.where(np.arange(1024) < n, np.float32(-1.7) * x + y, y)
    runner.launch(saxpy, "kernel", (16, 1, 1), [n, -1.7, x, y])
    np.testing.assert_array_equal(y, want)


def test_row_reduction(runner: VulkanRunner, validate: Validate) -> None:
    """One work-item sums one row in order, in f32: bits equal to the same loop on the host."""

    def write(f: FunctionBuilder, root: Root, kernel: KernelAbi) -> None:
        rows, columns = (root.scalar(f, p) for p in kernel.parameters[:2])
        row = coordinate(f, BuiltIn.GlobalInvocationId)
        guard = Selection(f, f.op("OpULessThan", types.BOOL, row, rows))
        x, out = root.binding_address(f, 0), root.binding_address(f, 1)
        start = f.op("OpIMul", types.U32, row, columns)
        constant = f.module.constant
        loop = CountedLoop(
            f, constant(types.U32, 0), columns, constant(types.U32, 1), [root.float_zero(f, types.F32)]
        )
        index = f.op("OpIAdd", types.U32, start, loop.induction)
        element = f.load(element_pointer(f, x, index, types.F32))
        [total] = loop.end([f.exact("OpFAdd", types.F32, loop.carried[0], element)])
        f.store(element_pointer(f, out, row, types.F32), total)
        guard.end()
        f.ret()

    parameters = [
        Parameter("rows", SCALAR, "i32"),
        Parameter("columns", SCALAR, "i32"),
        Parameter("x", BUFFER, "f32"),
        Parameter("out", BUFFER, "f32"),
    ]
    module = validate(build((32, 1, 1), parameters, write))
    rng = np.random.default_rng(5)
    for rows, columns in ((1, 1), (33, 100), (70, 17), (5, 0)):
        x = rng.standard_normal((rows, columns)).astype(np.float32)
        out = np.full(rows, 9, np.float32)
        want = np.zeros(rows, np.float32)
        for column in range(columns):
            want += x[:, column]
        runner.launch(module, "kernel", (-(-rows // 32), 1, 1), [rows, columns, x, out])
        np.testing.assert_array_equal(out, want)


def test_transpose_through_workgroup_memory(runner: VulkanRunner, validate: Validate) -> None:
    """A 16x16 tile is written by rows, and read by columns after a barrier."""
    size = 16

    def write(f: FunctionBuilder, root: Root, kernel: KernelAbi) -> None:
        constant = f.module.constant
        tile = f.module.variable(StorageClass.Workgroup, types.ArrayType(types.F32, size * size), "tile")
        local = [coordinate(f, BuiltIn.LocalInvocationId, axis) for axis in (0, 1)]
        group = [coordinate(f, BuiltIn.WorkgroupId, axis) for axis in (0, 1)]
        width, height = (root.scalar(f, p) for p in kernel.parameters[:2])

        def place(row: Value, column: Value, pitch: Value) -> Value:
            return f.op("OpIAdd", types.U32, f.op("OpIMul", types.U32, row, pitch), column)

        def inside(tile_index: Value, within: Value) -> Value:
            return place(tile_index, within, constant(types.U32, size))

        source = place(inside(group[1], local[1]), inside(group[0], local[0]), width)
        slot = place(local[1], local[0], constant(types.U32, size))
        f.store(
            f.access_chain(tile, types.F32, slot),
            f.load(element_pointer(f, root.binding_address(f, 0), source, types.F32)),
        )
        f.control_barrier()
        target = place(inside(group[0], local[1]), inside(group[1], local[0]), height)
        turned = place(local[0], local[1], constant(types.U32, size))
        f.store(
            element_pointer(f, root.binding_address(f, 1), target, types.F32),
            f.load(f.access_chain(tile, types.F32, turned)),
        )
        f.ret()

    parameters = [
        Parameter("width", SCALAR, "i32"),
        Parameter("height", SCALAR, "i32"),
        Parameter("x", BUFFER, "f32"),
        Parameter("y", BUFFER, "f32"),
    ]
    module = validate(build((size, size, 1), parameters, write))
    x = np.random.default_rng(1).standard_normal((48, 80)).astype(np.float32)
    y = np.zeros((80, 48), np.float32)
    runner.launch(module, "kernel", (80 // size, 48 // size, 1), [80, 48, x, y])
    np.testing.assert_array_equal(y, x.T)


def test_histogram_with_atomics(runner: VulkanRunner, validate: Validate) -> None:
    """Counts in a buffer shared by all workgroups; and a compare-exchange maximum."""

    def write(f: FunctionBuilder, root: Root, kernel: KernelAbi) -> None:
        constant = f.module.constant
        index = coordinate(f, BuiltIn.GlobalInvocationId)
        x, bins, top = (root.binding_address(f, i) for i in range(3))
        value = f.load(element_pointer(f, x, index, types.U32))
        f.atomic(
            "OpAtomicIAdd",
            element_pointer(f, bins, value, types.U32),
            Scope.Device,
            MemorySemantics.Relaxed,
            constant(types.U32, 1),
        )
        f.atomic(
            "OpAtomicUMax", f.address_to_pointer(top, types.U32), Scope.Device, MemorySemantics.Relaxed, value
        )
        f.ret()

    module = validate(build((64, 1, 1), [Parameter(n, BUFFER, "i32") for n in ("x", "bins", "top")], write))
    x = np.random.default_rng(2).integers(0, 10, 64 * 9).astype(np.uint32)
    bins, top = np.zeros(10, np.uint32), np.zeros(1, np.uint32)
    runner.launch(module, "kernel", (9, 1, 1), [x, bins, top])
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=10))
    assert top[0] == x.max()


def test_compare_exchange(runner: VulkanRunner, validate: Validate) -> None:
    """Only an equal comparator stores; the old value comes back either way; order acquire-release."""

    def write(f: FunctionBuilder, root: Root, kernel: KernelAbi) -> None:
        index = coordinate(f, BuiltIn.GlobalInvocationId)
        cell = element_pointer(f, root.binding_address(f, 0), index, types.U32)
        old = f.atomic(
            "OpAtomicCompareExchange",
            cell,
            Scope.Device,
            MemorySemantics.AcquireRelease | MemorySemantics.UniformMemory,
            f.module.constant(types.U32, 77),
            f.module.constant(types.U32, 3),
        )
        f.store(element_pointer(f, root.binding_address(f, 1), index, types.U32), old)
        f.ret()

    module = validate(
        build((8, 1, 1), [Parameter("cells", BUFFER, "i32"), Parameter("old", BUFFER, "i32")], write)
    )
    cells, old = np.arange(8, dtype=np.uint32), np.zeros(8, np.uint32)
    runner.launch(module, "kernel", (1, 1, 1), [cells, old])
    np.testing.assert_array_equal(old, np.arange(8))
    np.testing.assert_array_equal(cells, [0, 1, 2, 77, 4, 5, 6, 7])


def test_subgroup_reduction(runner: VulkanRunner, validate: Validate) -> None:
    """Every work-item receives the sum over its subgroup."""

    def write(f: FunctionBuilder, root: Root, kernel: KernelAbi) -> None:
        index = coordinate(f, BuiltIn.GlobalInvocationId)
        cell = element_pointer(f, root.binding_address(f, 0), index, types.U32)
        f.store(cell, f.group("OpGroupNonUniformIAdd", GroupOperation.Reduce, f.load(cell)))
        f.ret()

    module = validate(build((64, 1, 1), [Parameter("x", BUFFER, "i32")], write))
    x = np.arange(64, dtype=np.uint32)
    runner.launch(module, "kernel", (1, 1, 1), [x])
    size = runner.facts().subgroup_size
    want = np.arange(64).reshape(-1, size).sum(1).repeat(size)
    np.testing.assert_array_equal(x, want)


def test_two_kernels_share_a_module(runner: VulkanRunner, validate: Validate) -> None:
    """Kernels with different signatures live behind one root layout."""
    module = ModuleBuilder()
    plain = place_kernel("plain", (1, 1, 1), [Parameter("out", BUFFER, "i32")])
    scaled = place_kernel(
        "scaled", (1, 1, 1), [Parameter("k", SCALAR, "i64"), Parameter("a", BUFFER), Parameter("b", BUFFER)]
    )
    abi = ModuleAbi((plain, scaled))
    root = Root(module, abi)
    for kernel in abi.kernels:
        f = module.function(kernel.name)
        module.entry_point(f, kernel.name, kernel.local_size)
        last = root.binding_address(f, kernel.binding_count - 1)
        value = module.constant(types.U64, 5)
        if kernel is scaled:
            value = root.scalar(f, kernel.parameters[0])
        f.store(f.address_to_pointer(last, types.U64), value)
        f.ret()
    record_abi(module, abi)
    data = validate(module.assemble())
    first, second = np.zeros(1, np.uint64), np.zeros(1, np.uint64)
    runner.launch(data, "plain", (1, 1, 1), [first.view(np.uint32)])
    runner.launch(data, "scaled", (1, 1, 1), [1 << 40, np.zeros(1, np.uint8), second])
    assert (first[0], second[0]) == (5, 1 << 40)
