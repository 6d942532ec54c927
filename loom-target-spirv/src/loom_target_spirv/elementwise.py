"""Kernels that apply one expression to every element: the smallest complete programs for a device.

They serve to measure what a device does with an operation, and to test the builder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
from loom_target_spirv.enumerants import BuiltIn
from loom_target_spirv.function import FunctionBuilder
from loom_target_spirv.module import ModuleBuilder, Value
from loom_target_spirv.structured import Selection

Body = Callable[[FunctionBuilder, list[Value]], Value]
"""Given one element of every input, append instructions and return the element of the result."""

LOCAL_SIZE = 64
"""Work-items per workgroup of these kernels."""


def element_pointer(function: FunctionBuilder, base: Value, index: Value, type_: types.Type) -> Value:
    """A pointer to element `index` (32-bit, unsigned) of an array of `type_` at the address `base`."""
    wide = function.op("OpUConvert", types.U64, index)
    size = function.module.constant(types.U64, types.byte_size(type_))
    offset = function.op("OpIMul", types.U64, wide, size)
    return function.address_to_pointer(function.op("OpIAdd", types.U64, base, offset), type_)


def elementwise_module(
    name: str,
    inputs: Sequence[types.Type],
    result: types.Type,
    body: Body,
    prepare: Callable[[ModuleBuilder, FunctionBuilder], None] | None = None,
) -> bytes:
    """A module whose kernel `name` takes the element count, one buffer per input, and the buffer of the
    results.

    `prepare` may add execution modes or capabilities before the body is written.
    """
    module = ModuleBuilder()
    buffers = [Parameter(f"input{index}", ParameterKind.BUFFER) for index in range(len(inputs))]
    parameters = [
        Parameter("count", ParameterKind.SCALAR, "i32"),
        *buffers,
        Parameter("result", ParameterKind.BUFFER),
    ]
    kernel = place_kernel(name, (LOCAL_SIZE, 1, 1), parameters)
    abi = ModuleAbi((kernel,))
    root = Root(module, abi)
    function = module.function(name)
    module.entry_point(function, name, kernel.local_size)
    if prepare is not None:
        prepare(module, function)
    root.guard_loops(function)
    _write(function, root, kernel, [*inputs, result], body)
    record_abi(module, abi)
    return module.assemble()


def workgroups(count: int) -> tuple[int, int, int]:
    """The grid that covers `count` elements."""
    return (-(-count // LOCAL_SIZE), 1, 1)


def _write(
    function: FunctionBuilder, root: Root, kernel: KernelAbi, element: Sequence[types.Type], body: Body
) -> None:
    index = function.extract(function.load(function.module.builtin(BuiltIn.GlobalInvocationId)), 0)
    count = root.scalar(function, kernel.parameters[0])
    guard = Selection(function, function.op("OpULessThan", types.BOOL, index, count))
    pointers = [
        element_pointer(function, root.binding_address(function, binding), index, type_)
        for binding, type_ in enumerate(element)
    ]
    value = body(function, [function.load(pointer) for pointer in pointers[:-1]])
    function.store(pointers[-1], value)
    guard.end()
    function.ret()
