"""The module builder: declarations, requirements, interfaces, errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loom_target_spirv import types
from loom_target_spirv.disasm import disassemble
from loom_target_spirv.elementwise import elementwise_module
from loom_target_spirv.enumerants import (
    BuiltIn,
    Capability,
    ExecutionMode,
    GroupOperation,
    MemorySemantics,
    Scope,
    StorageClass,
)
from loom_target_spirv.errors import SpirvError
from loom_target_spirv.module import ModuleBuilder

Validate = Callable[[bytes], bytes]


def test_equal_requests_give_equal_bytes() -> None:
    """The bytes depend on nothing but the requests."""

    def build() -> bytes:
        return elementwise_module(
            "twice",
            [types.F32],
            types.F32,
            lambda function, v: function.exact("OpFAdd", types.F32, v[0], v[0]),
        )

    assert build() == build()


def test_types_and_constants_are_declared_once() -> None:
    """Equal records and equal bits share an id; -0.0, 0.0 and NaN payloads stay apart."""
    module = ModuleBuilder()
    assert module.type_id(types.ArrayType(types.F32, 4)) == module.type_id(types.ArrayType(types.F32, 4))
    assert module.type_id(types.ArrayType(types.F32, 4)) != module.type_id(types.ArrayType(types.F32, 4, 4))
    assert module.constant(types.F32, 1.0) == module.constant(types.F32, 1)
    assert module.constant(types.F32, 0.0) != module.constant(types.F32, -0.0)
    assert module.constant_bits(types.F32, 0x7FC00001) != module.constant_bits(types.F32, 0x7FC00000)
    assert module.constant(types.U8, -1) == module.constant(types.U8, 255)
    assert module.constant(types.U32, 1) != module.constant(types.U64, 1)


def test_requirements_follow_from_use(validate: Validate) -> None:
    """Types, storage, built-ins, atomics and subgroup operations bring their capabilities and extensions."""
    module = ModuleBuilder()
    function = module.function("kernel")
    module.entry_point(function, "kernel", (8, 1, 1))
    before = module.capabilities
    address = function.op("OpUConvert", types.U64, function.load(module.builtin(BuiltIn.SubgroupSize)))
    byte = function.load(function.address_to_pointer(address, types.U8))
    word = function.op("OpUConvert", types.U32, byte)
    function.group("OpGroupNonUniformIAdd", GroupOperation.Reduce, word)
    pointer = function.address_to_pointer(address, types.F32)
    function.atomic(
        "OpAtomicFAddEXT", pointer, Scope.Device, MemorySemantics.Relaxed, module.constant(types.F32, 1.0)
    )
    wide = function.address_to_pointer(address, types.U64)
    function.atomic("OpAtomicIAdd", wide, Scope.Workgroup, MemorySemantics.Relaxed, address)
    module.execution_mode(function, ExecutionMode.SignedZeroInfNanPreserve, 32)
    function.ret()
    assert module.capabilities - before == {
        Capability.Int8,
        Capability.StorageBuffer8BitAccess,
        Capability.GroupNonUniform,
        Capability.GroupNonUniformArithmetic,
        Capability.AtomicFloat32AddEXT,
        Capability.Int64Atomics,
        Capability.VulkanMemoryModelDeviceScope,
        Capability.SignedZeroInfNanPreserve,
    }
    text = disassemble(validate(module.assemble()))
    assert 'OpExtension "SPV_EXT_shader_atomic_float_add"' in text
    assert 'OpExtension "SPV_KHR_8bit_storage"' in text


def test_interface_holds_what_calls_reach(validate: Validate) -> None:
    """An entry point lists the variables of the functions it calls, and no others."""
    module = ModuleBuilder()
    shared = module.variable(StorageClass.Workgroup, types.ArrayType(types.U32, 4), "shared")
    unused = module.variable(StorageClass.Workgroup, types.U32, "unused")
    callee = module.function("callee", types.U32)
    element = callee.access_chain(shared, types.U32, module.constant(types.U32, 2))
    callee.ret(callee.load(element))
    for name in ("first", "second"):
        kernel = module.function(name)
        if name == "first":
            kernel.call(callee)
        kernel.ret()
        module.entry_point(kernel, name, (1, 1, 1))
    text = disassemble(validate(module.assemble()))
    first, second = (line for line in text.splitlines() if "OpEntryPoint" in line)
    assert f"%shared_{shared.id}" in first
    assert f"%unused_{unused.id}" not in first
    assert "%shared" not in second


def test_local_variables_come_first(validate: Validate) -> None:
    """A variable asked for late stands at the start of the function."""
    module = ModuleBuilder()
    function = module.function("kernel")
    module.entry_point(function, "kernel", (1, 1, 1))
    value = function.extract(function.load(module.builtin(BuiltIn.WorkgroupId)), 1)
    variable = function.local_variable(types.U32)
    function.store(variable, value)
    function.ret()
    validate(module.assemble())


def test_mistakes_are_errors() -> None:
    """The builder refuses what no module can hold."""
    module = ModuleBuilder()
    function = module.function("kernel")
    one = module.constant(types.U32, 1)
    for wrong, match in (
        (lambda: module.type_id(types.IntType(24)), "24 bits"),
        (lambda: module.type_id(types.FloatType(8)), "8 bits"),
        (lambda: module.type_id(types.VectorType(types.F32, 8)), "2 to 4"),
        (lambda: module.type_id(types.ArrayType(types.F32, 0)), "at least one"),
        (lambda: module.entry_point(function, "kernel", (0, 1, 1)), "not positive"),
        (lambda: module.builtin(BuiltIn.WorkgroupSize), "no input"),
        (lambda: module.constant(types.VOID, 0), "no scalar"),
        (lambda: function.op("OpIAdd", types.U32, one), "at least 2"),
        (lambda: function.op("OpIAdd", types.U32, one, one, one), "takes 2"),
        (lambda: function.op("OpStore", types.U32, one, one), "no result"),
        (lambda: function.effect("OpIAdd", one, one), "has a result"),
        (lambda: function.op("OpMagic", types.U32), "not in the instruction table"),
        (lambda: function.load(one), "no pointer"),
        (lambda: function.extract(one, 0), "vector"),
        (lambda: function.label(module.new_id()), "no terminator"),
        (module.assemble, "unterminated"),
        (lambda: types.byte_size(types.BOOL), "no size"),
        (lambda: types.scalar_alignment(types.BOOL), "no alignment"),
    ):
        with pytest.raises(SpirvError, match=match):
            wrong()
    function.ret()
    with pytest.raises(SpirvError, match="follows the end"):
        function.effect("OpReturn")
    module.entry_point(function, "kernel", (1, 1, 1))
    with pytest.raises(SpirvError, match="two entry points"):
        module.entry_point(function, "kernel", (1, 1, 1))


def test_sizes_of_types() -> None:
    """Scalar layout: sizes add up, alignment is that of the widest scalar."""
    pair = types.StructType((types.U16, types.F64), (0, 8))
    assert types.byte_size(pair) == 16
    assert types.scalar_alignment(pair) == 8
    assert types.byte_size(types.ArrayType(types.VectorType(types.F16, 3), 5)) == 30
    assert types.byte_size(types.PointerType(StorageClass.PhysicalStorageBuffer, types.U8)) == 8
