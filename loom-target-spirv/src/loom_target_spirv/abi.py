"""How a Vulkan kernel receives its arguments: the raw-address ABI.

A module declares no descriptors.  Each dispatch pushes one *root* of constants, the same layout for every
kernel of the module, so one pipeline layout serves them all:

=======  =====  ========================================================================================
offset   size   content
=======  =====  ========================================================================================
0        8      device address of the binding table: an array of 64-bit buffer addresses
8        4      base index: the table entry of this dispatch's first binding, below 2**31
12       4·n    inline scalar words, n being the largest number any kernel of the module needs
=======  =====  ========================================================================================

The eight bytes before the binding table are the *status*, zero before a dispatch.  A kernel stores
`LOOP_CUT_SHORT` there when it finds that a loop ended although its condition still held: Mesa's llvmpipe
leaves every loop once a work-item has gone round 65535 times, in all its loops together, and goes on as if
the loop had ended.

Binding *i* of a kernel is entry ``base index + i`` of the table, so tables of several dispatches can share
one buffer. Scalars follow in parameter order.  One of 32 bits or less takes one word, zero-extended (``i1``
is 0 or 1); one of 64 bits takes two words, low word first, at an offset divisible by 8.

The module records the ABI twice: ``OpModuleProcessed "loom.vulkan.bda.v1.bindings=<n>"`` with the largest
number of bindings, and an ``OpString`` that starts with ``loom.vulkan.abi:`` and continues with JSON: the
kernels with their workgroup size and parameters.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Sequence
from enum import Enum

import attrs

from loom_target_spirv import types
from loom_target_spirv.encoding import decode_string, float_bits, instructions
from loom_target_spirv.enumerants import StorageClass
from loom_target_spirv.errors import SpirvError
from loom_target_spirv.function import FunctionBuilder
from loom_target_spirv.grammar import BY_NAME
from loom_target_spirv.module import ModuleBuilder, Value
from loom_target_spirv.structured import Selection

TABLE_OFFSET = 0
BASE_OFFSET = 8
WORDS_OFFSET = 12

STATUS_SIZE = 8
LOOP_CUT_SHORT = 1

_PROCESSED = "loom.vulkan.bda.v1.bindings="
_RECORD = "loom.vulkan.abi:"

SCALAR_BITS: dict[str, int] = {
    "i1": 1,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
}
"""Scalar types an argument may have, and their width in bits."""


class ParameterKind(Enum):
    """What a parameter is to the caller: a buffer (by address) or a scalar (by value)."""

    BUFFER = "buffer"
    SCALAR = "scalar"


@attrs.frozen
class Parameter:
    """A parameter as the signature gives it.

    `type` is a key of `SCALAR_BITS` for a scalar; for a buffer it names the element type, or is empty when
    the kernel does not say.
    """

    name: str
    kind: ParameterKind
    type: str = ""


@attrs.frozen
class PlacedParameter:
    """A parameter and where it lies: `slot` is a binding index or the byte offset of a scalar in the root."""

    name: str
    kind: ParameterKind
    type: str
    slot: int


@attrs.frozen
class KernelAbi:
    """One kernel: its workgroup size and placed parameters, in signature order."""

    name: str
    local_size: tuple[int, int, int]
    parameters: tuple[PlacedParameter, ...]

    @property
    def binding_count(self) -> int:
        """The number of entries the kernel reads from the binding table."""
        return sum(parameter.kind is ParameterKind.BUFFER for parameter in self.parameters)

    @property
    def root_size(self) -> int:
        """The bytes of the root this kernel reads."""
        ends = (p.slot + _scalar_size(p.type) for p in self.parameters if p.kind is ParameterKind.SCALAR)
        return max(ends, default=WORDS_OFFSET)


@attrs.frozen
class ModuleAbi:
    """All kernels of a module."""

    kernels: tuple[KernelAbi, ...]

    @property
    def binding_count(self) -> int:
        """The largest number of bindings of a kernel."""
        return max((kernel.binding_count for kernel in self.kernels), default=0)

    @property
    def root_size(self) -> int:
        """The bytes of the push-constant root all kernels share."""
        return max((kernel.root_size for kernel in self.kernels), default=WORDS_OFFSET)

    def kernel(self, name: str) -> KernelAbi:
        """The kernel `name`; raises KeyError when the module has none."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise KeyError(name)


def _scalar_size(type_: str) -> int:
    return 8 if SCALAR_BITS[type_] == 64 else 4


def place_kernel(name: str, local_size: tuple[int, int, int], parameters: Iterable[Parameter]) -> KernelAbi:
    """Give each parameter its place.

    Raises SpirvError for a scalar type that cannot be passed.
    """
    binding, offset = 0, WORDS_OFFSET
    placed = []
    for parameter in parameters:
        if parameter.kind is ParameterKind.BUFFER:
            slot = binding
            binding += 1
        else:
            if parameter.type not in SCALAR_BITS:
                raise SpirvError(f"a kernel argument cannot have the type {parameter.type!r}")
            size = _scalar_size(parameter.type)
            slot = (offset + size - 1) // size * size
            offset = slot + size
        placed.append(PlacedParameter(parameter.name, parameter.kind, parameter.type, slot))
    return KernelAbi(name, local_size, tuple(placed))


def record_abi(module: ModuleBuilder, abi: ModuleAbi) -> None:
    """Write the record of the ABI into a module."""
    module.module_processed(f"{_PROCESSED}{abi.binding_count}")
    kernels = [
        {
            "name": kernel.name,
            "local_size": kernel.local_size,
            "parameters": [
                {"name": p.name, "kind": p.kind.value, "type": p.type, "slot": p.slot}
                for p in kernel.parameters
            ],
        }
        for kernel in abi.kernels
    ]
    module.string(_RECORD + json.dumps({"kernels": kernels}, separators=(",", ":"), sort_keys=True))


def read_abi(data: bytes) -> ModuleAbi:
    """The ABI a module records.

    Raises SpirvError when the data is no SPIR-V module or it holds no valid record.
    """
    string = BY_NAME["OpString"].opcode
    for opcode, words in instructions(data):
        if opcode == string:
            text = decode_string(words[1:])[0]
            if text.startswith(_RECORD):
                return _abi_from_json(text[len(_RECORD) :])
    raise SpirvError(
        "the module holds no record of the kernel ABI (an OpString that starts with loom.vulkan.abi:)"
    )


def _abi_from_json(text: str) -> ModuleAbi:
    try:
        kernels = []
        for kernel in json.loads(text)["kernels"]:
            x, y, z = map(int, kernel["local_size"])
            parameters = tuple(
                PlacedParameter(str(p["name"]), ParameterKind(p["kind"]), str(p["type"]), int(p["slot"]))
                for p in kernel["parameters"]
            )
            kernels.append(KernelAbi(str(kernel["name"]), (x, y, z), parameters))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SpirvError(f"the record of the kernel ABI cannot be read: {error!r}") from error
    return ModuleAbi(tuple(kernels))


def pack_root(
    abi: ModuleAbi, table_address: int, base_index: int, scalars: Sequence[tuple[PlacedParameter, float]]
) -> bytes:
    """The bytes of the root for one dispatch.

    Raises SpirvError when a value does not fit its type.
    """
    root = bytearray(abi.root_size)
    struct.pack_into("<QI", root, TABLE_OFFSET, table_address, base_index)
    for parameter, value in scalars:
        size = _scalar_size(parameter.type)
        bits = scalar_bits(parameter.name, parameter.type, value)
        root[parameter.slot : parameter.slot + size] = bits.to_bytes(size, "little")
    return bytes(root)


def scalar_bits(name: str, type_: str, value: float) -> int:
    """The bits of a scalar argument; an integer may be given as signed or unsigned.

    Raises SpirvError when the value is of the wrong kind or out of range.
    """
    width = SCALAR_BITS[type_]
    if type_ == "bf16":
        return _bfloat16_bits(float(value))
    if type_.startswith("f"):
        return float_bits(width, float(value))
    if int(value) != value:
        raise SpirvError(f"the argument {name!r} of type {type_} cannot be {value!r}")
    number = int(value)
    if not -(1 << (width - 1)) <= number < 1 << width:
        raise SpirvError(f"the argument {name!r} of type {type_} cannot hold {number}")
    return number & ((1 << width) - 1)


def _bfloat16_bits(value: float) -> int:
    """The bits of `value` rounded to nearest even to the upper half of an f32."""
    sign = 0x8000 if math.copysign(1.0, value) < 0 else 0
    if value != value:
        return sign | 0x7FC0
    # Narrowing by way of an f32 would round twice; an f32 rounded to odd keeps what the second step needs.
    narrow = float_bits(32, abs(value))
    back: float = struct.unpack("<f", struct.pack("<I", narrow))[0]
    if back > abs(value):
        narrow -= 1
    if back != abs(value):
        narrow |= 1
    return sign | (narrow + 0x7FFF + (narrow >> 16 & 1)) >> 16


class Root:
    """The push-constant root inside a module under construction, and access to arguments through it."""

    def __init__(self, module: ModuleBuilder, abi: ModuleAbi) -> None:
        self._module = module
        words = (abi.root_size - WORDS_OFFSET) // 4
        members: tuple[types.Type, ...] = (types.U64, types.U32)
        offsets: tuple[int, ...] = (TABLE_OFFSET, BASE_OFFSET)
        if words:
            members += (types.ArrayType(types.U32, words, 4),)
            offsets += (WORDS_OFFSET,)
        block = types.StructType(members, offsets, block=True)
        self._variable = module.variable(StorageClass.PushConstant, block, "root")

    def binding_address(self, function: FunctionBuilder, index: int) -> Value:
        """The 64-bit device address of buffer `index` of the kernel."""
        table = self._member(function, types.U64, 0)
        base = self._member(function, types.U32, 1)
        entry = function.op("OpIAdd", types.U32, base, self._module.constant(types.U32, index))
        wide = function.op("OpUConvert", types.U64, entry)
        offset = function.op("OpShiftLeftLogical", types.U64, wide, self._module.constant(types.U32, 3))
        address = function.op("OpIAdd", types.U64, table, offset)
        return function.load(function.address_to_pointer(address, types.U64))

    def scalar(self, function: FunctionBuilder, parameter: PlacedParameter) -> Value:
        """A scalar argument: bool for i1, an integer or float of its width otherwise, the bits (u16) for
        bf16.
        """
        index = (parameter.slot - WORDS_OFFSET) // 4
        word = self._word(function, index)
        match parameter.type:
            case "i1":
                return function.op("OpINotEqual", types.BOOL, word, self._module.constant(types.U32, 0))
            case "i32":
                return word
            case "f32":
                return function.op("OpBitcast", types.F32, word)
            case "i8":
                return function.op("OpUConvert", types.U8, word)
            case "i16" | "bf16":
                return function.op("OpUConvert", types.U16, word)
            case "f16":
                return function.op("OpBitcast", types.F16, function.op("OpUConvert", types.U16, word))
            case wide:
                high = self._word(function, index + 1)
                pair = function.op("OpCompositeConstruct", types.VectorType(types.U32, 2), word, high)
                return function.op("OpBitcast", types.F64 if wide == "f64" else types.U64, pair)

    def opaque_zero(self, function: FunctionBuilder) -> Value:
        """A 32-bit integer that is zero, which no compiler can know: the top bit of the base index.

        Drivers simplify float arithmetic with a constant zero as if NaN, infinity and -0.0 did not exist, in
        spite of NoContraction and SignedZeroInfNanPreserve: Mesa's llvmpipe makes x*0.0 zero and x+0.0 and
        0.0-x copies. Zeros made from this value escape that.
        """
        base = self._member(function, types.U32, 1)
        return function.op("OpShiftRightLogical", types.U32, base, self._module.constant(types.U32, 31))

    def guard_loops(self, function: FunctionBuilder) -> None:
        """Make the loops that `function` gets from here on report when they are cut short.

        Call it in the first block, for what it appends there is used after every loop.
        """
        function.loop_guard = _StatusGuard(self, self.opaque_zero(function))

    def report_cut_loop(self, function: FunctionBuilder) -> None:
        """Store `LOOP_CUT_SHORT` as the status of the dispatch."""
        table = self._member(function, types.U64, 0)
        address = function.op("OpISub", types.U64, table, self._module.constant(types.U64, STATUS_SIZE))
        pointer = function.address_to_pointer(address, types.U32)
        function.store(pointer, self._module.constant(types.U32, LOOP_CUT_SHORT))

    def float_zero(self, function: FunctionBuilder, type_: types.FloatType, negative: bool = False) -> Value:
        """The float 0.0 or -0.0 made from `opaque_zero`."""
        integer = types.IntType(type_.width)
        bits = self.opaque_zero(function)
        if type_.width != 32:
            bits = function.op("OpUConvert", integer, bits)
        if negative:
            sign = self._module.constant(integer, 1 << (type_.width - 1))
            bits = function.op("OpBitwiseOr", integer, bits, sign)
        return function.op("OpBitcast", type_, bits)

    def _word(self, function: FunctionBuilder, index: int) -> Value:
        return self._member(function, types.U32, 2, index)

    def _member(self, function: FunctionBuilder, type_: types.Type, *path: int) -> Value:
        indices = [self._module.constant(types.U32, index) for index in path]
        return function.load(function.access_chain(self._variable, type_, *indices))


@attrs.frozen
class _StatusGuard:
    """The guard behind `Root.guard_loops`.

    A compiler knows that the condition of a loop is false after it, so the guard keeps the condition as an
    integer plus a zero the compiler cannot see through, branches on "not 0" and asks for "is 1" afterwards.
    """

    root: Root
    zero: Value

    def watch(self, function: FunctionBuilder, condition: Value) -> tuple[Value, Value]:
        one, null = function.module.constant(types.U32, 1), function.module.constant(types.U32, 0)
        flag = function.op(
            "OpIAdd", types.U32, function.op("OpSelect", types.U32, condition, one, null), self.zero
        )
        return function.op("OpINotEqual", types.BOOL, flag, null), flag

    def report(self, function: FunctionBuilder, watched: Value) -> None:
        one = function.module.constant(types.U32, 1)
        cut = Selection(function, function.op("OpIEqual", types.BOOL, watched, one))
        self.root.report_cut_loop(function)
        cut.end()
