"""The raw-address ABI: places, record, root bytes, and every scalar type on a device."""

from __future__ import annotations

import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from loom_target_spirv import types
from loom_target_spirv.abi import (
    SCALAR_BITS,
    ModuleAbi,
    Parameter,
    ParameterKind,
    Root,
    pack_root,
    place_kernel,
    read_abi,
    record_abi,
    scalar_bits,
)
from loom_target_spirv.disasm import disassemble
from loom_target_spirv.errors import SpirvError
from loom_target_spirv.module import ModuleBuilder
from loom_target_spirv.vulkan import VulkanRunner

BUFFER, SCALAR = ParameterKind.BUFFER, ParameterKind.SCALAR


def test_places_follow_size_and_alignment() -> None:
    """Words after the head of 12 bytes; eight-byte scalars at multiples of eight; buffers count on their
    own.
    """
    kernel = place_kernel(
        "k",
        (64, 1, 1),
        [
            Parameter("a", SCALAR, "i8"),
            Parameter("x", BUFFER, "f32"),
            Parameter("b", SCALAR, "i64"),
            Parameter("c", SCALAR, "f16"),
            Parameter("y", BUFFER),
            Parameter("d", SCALAR, "f64"),
        ],
    )
    assert [p.slot for p in kernel.parameters] == [12, 0, 16, 24, 1, 32]
    assert (kernel.binding_count, kernel.root_size) == (2, 40)
    empty = place_kernel("e", (1, 1, 1), [])
    assert (empty.binding_count, empty.root_size) == (0, 12)
    both = ModuleAbi((kernel, empty))
    assert (both.binding_count, both.root_size) == (2, 40)


def test_record_reads_back() -> None:
    """What is recorded is read, with names of any characters."""
    kernels = (
        place_kernel("κ", (8, 4, 2), [Parameter('"quoted"', BUFFER), Parameter("n", SCALAR, "i32")]),
        place_kernel("other", (1, 1, 1), []),
    )
    module = ModuleBuilder()
    record_abi(module, ModuleAbi(kernels))
    data = module.assemble()
    assert read_abi(data) == ModuleAbi(kernels)
    assert 'OpModuleProcessed "loom.vulkan.bda.v1.bindings=1"' in disassemble(data)


@pytest.mark.parametrize(
    "text", ["{", "[]", "[" * 100_000, '{"kernels":[{"name":"k"}]}', '{"kernels":[{"name":"k","local_size":[1]}]}']
)
def test_unreadable_records_are_errors(text: str) -> None:
    """A damaged record is an error that says so, and so is none at all."""
    module = ModuleBuilder()
    with pytest.raises(SpirvError, match="no record"):
        read_abi(module.assemble())
    module.string("loom.vulkan.abi:" + text)
    with pytest.raises(SpirvError, match="cannot be read"):
        read_abi(module.assemble())


def test_root_bytes() -> None:
    """Address, base, then the scalars as little-endian words."""
    kernel = place_kernel("k", (1, 1, 1), [Parameter("a", SCALAR, "i16"), Parameter("b", SCALAR, "f64")])
    a, b = kernel.parameters
    root = pack_root(ModuleAbi((kernel,)), 0x1122334455667788, 3, [(a, -2), (b, 1.5)])
    assert root == struct.pack("<QIId", 0x1122334455667788, 3, 0xFFFE, 1.5)


@pytest.mark.parametrize(
    ("type_", "value"),
    [("i8", 256), ("i8", -129), ("i1", 2), ("i32", 1.5), ("i64", 1 << 64), ("i32", -(1 << 31) - 1)],
)
def test_scalars_that_do_not_fit_are_errors(type_: str, value: float) -> None:
    """An argument is never cut silently."""
    with pytest.raises(SpirvError, match="'n'"):
        scalar_bits("n", type_, value)


def test_a_scalar_needs_a_known_type() -> None:
    """Vectors and the like cannot be passed by value."""
    with pytest.raises(SpirvError, match="vector"):
        place_kernel("k", (1, 1, 1), [Parameter("v", SCALAR, "vector<4xf32>")])


def test_bfloat16_rounds_once() -> None:
    """Nearest even from the f64 itself: values beside ties, where a step by way of f32 rounds twice."""
    rng = np.random.default_rng(3)
    halves = (1 + (2 * rng.integers(0, 128, 200) + 1) / 256) * 2.0 ** rng.integers(-140, 120, 200)
    for tie in halves:
        for value in (tie, np.nextafter(tie, 0), np.nextafter(tie, np.inf), -tie):
            got = scalar_bits("x", "bf16", float(value)) & 0x7FFF
            near = [np.array([max(got + k, 0) << 16], np.uint32).view(np.float32)[0] for k in (-1, 0, 1)]
            errors = [abs(Fraction(float(n)) - abs(Fraction(float(value)))) for n in near]
            assert errors[1] <= min(errors[0], errors[2])
            if errors[1] in (errors[0], errors[2]) and errors[0] != errors[2]:
                assert got % 2 == 0
    assert scalar_bits("x", "bf16", 3.4e38) == 0x7F80
    assert scalar_bits("x", "bf16", 1e300) == 0x7F80
    assert scalar_bits("x", "bf16", float("-inf")) == 0xFF80
    assert scalar_bits("x", "bf16", float("nan")) & 0x7FFF > 0x7F80
    assert scalar_bits("x", "bf16", -0.0) == 0x8000


def test_every_scalar_type_arrives(runner: VulkanRunner, validate: Callable[[bytes], bytes]) -> None:
    """A kernel stores each argument; the bits are those that were passed, in a root of mixed sizes."""
    parameters = [Parameter(f"s{i}", SCALAR, name) for i, name in enumerate(SCALAR_BITS)]
    kernel = place_kernel("store", (1, 1, 1), [*parameters, Parameter("out", BUFFER)])
    abi = ModuleAbi((kernel,))
    module = ModuleBuilder()
    root = Root(module, abi)
    function = module.function("store")
    module.entry_point(function, "store", kernel.local_size)
    base = root.binding_address(function, 0)
    for index, parameter in enumerate(kernel.parameters[:-1]):
        value = root.scalar(function, parameter)
        if value.type == types.BOOL:
            value = function.op(
                "OpSelect", types.U8, value, module.constant(types.U8, 1), module.constant(types.U8, 0)
            )
        address = function.op("OpIAdd", types.U64, base, module.constant(types.U64, 8 * index))
        function.store(function.address_to_pointer(address, value.type), value)
    function.ret()
    record_abi(module, abi)
    data = validate(module.assemble())
    values: list[Any] = [True, -3, 0xBEEF, -70000, -(1 << 62) - 5, 1.5, 2.5, -0.1, np.float64(1e-300)]
    out = np.zeros(len(values), np.uint64)
    runner.launch(data, "store", (1, 1, 1), [*values, out])
    want = [
        scalar_bits("x", name, float(v) if "f" in name else int(v))
        for name, v in zip(SCALAR_BITS, values, strict=True)
    ]
    np.testing.assert_array_equal(out, np.array(want, np.uint64))
