"""The enumerations of SPIR-V that compute kernels use, under the names and numbers of the specification.

Source: "SPIR-V Specification", version 1.6, section 3 (Binary Form), and "SPIR-V Extended Instructions for
GLSL", version 1.00, section 2.  Only what a compute module can meet is listed; names are those of the
specification.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag


class ExecutionModel(IntEnum):
    """Section 3.3: what starts an entry point."""

    GLCompute = 5


class AddressingModel(IntEnum):
    """Section 3.4: how pointers to memory are represented."""

    Logical = 0
    PhysicalStorageBuffer64 = 5348


class MemoryModel(IntEnum):
    """Section 3.5."""

    GLSL450 = 1
    Vulkan = 3


class SourceLanguage(IntEnum):
    """Section 3.2; a language without a number of its own is Unknown."""

    Unknown = 0


class ExecutionMode(IntEnum):
    """Section 3.6: properties of an entry point."""

    LocalSize = 17
    LocalSizeId = 38
    DenormPreserve = 4459
    DenormFlushToZero = 4460
    SignedZeroInfNanPreserve = 4461
    RoundingModeRTE = 4462
    RoundingModeRTZ = 4463


class StorageClass(IntEnum):
    """Section 3.7: the class of memory a pointer points into."""

    UniformConstant = 0
    Input = 1
    Uniform = 2
    Output = 3
    Workgroup = 4
    Private = 6
    Function = 7
    PushConstant = 9
    StorageBuffer = 12
    PhysicalStorageBuffer = 5349


class Decoration(IntEnum):
    """Section 3.20."""

    RelaxedPrecision = 0
    SpecId = 1
    Block = 2
    ArrayStride = 6
    BuiltIn = 11
    Restrict = 19
    Aliased = 20
    Volatile = 21
    Coherent = 23
    NonWritable = 24
    NonReadable = 25
    Binding = 33
    DescriptorSet = 34
    Offset = 35
    FPRoundingMode = 39
    NoContraction = 42
    Alignment = 44
    NoSignedWrap = 4469
    NoUnsignedWrap = 4470
    RestrictPointer = 5355
    AliasedPointer = 5356


class BuiltIn(IntEnum):
    """Section 3.21: variables the environment fills in."""

    NumWorkgroups = 24
    WorkgroupSize = 25
    WorkgroupId = 26
    LocalInvocationId = 27
    GlobalInvocationId = 28
    LocalInvocationIndex = 29
    SubgroupSize = 36
    NumSubgroups = 38
    SubgroupId = 40
    SubgroupLocalInvocationId = 41
    SubgroupEqMask = 4416
    SubgroupGeMask = 4417
    SubgroupGtMask = 4418
    SubgroupLeMask = 4419
    SubgroupLtMask = 4420


class FPRoundingMode(IntEnum):
    """Section 3.16."""

    RTE = 0
    RTZ = 1


class GroupOperation(IntEnum):
    """Section 3.28."""

    Reduce = 0
    InclusiveScan = 1
    ExclusiveScan = 2
    ClusteredReduce = 3


class PackedVectorFormat(IntEnum):
    """Section 3.38: how a 32-bit integer holds a vector for the integer dot products."""

    PackedVectorFormat4x8Bit = 0


class Scope(IntEnum):
    """Section 3.27: the set of invocations an operation concerns."""

    CrossDevice = 0
    Device = 1
    Workgroup = 2
    Subgroup = 3
    Invocation = 4
    QueueFamily = 5


class MemorySemantics(IntFlag):
    """Section 3.25: ordering (one of the first four) and the storage it orders."""

    Relaxed = 0
    Acquire = 0x2
    Release = 0x4
    AcquireRelease = 0x8
    UniformMemory = 0x40
    SubgroupMemory = 0x80
    WorkgroupMemory = 0x100
    MakeAvailable = 0x2000
    MakeVisible = 0x4000
    Volatile = 0x8000


class MemoryAccess(IntFlag):
    """Section 3.26: how a load or store behaves; the bits in `MEMORY_ACCESS_ARGUMENTS` take an operand
    each.
    """

    Volatile = 0x1
    Aligned = 0x2
    Nontemporal = 0x4
    MakePointerAvailable = 0x8
    MakePointerVisible = 0x10
    NonPrivatePointer = 0x20


class FunctionControl(IntFlag):
    """Section 3.24."""

    Inline = 0x1
    DontInline = 0x2
    Pure = 0x4
    Const = 0x8


class SelectionControl(IntFlag):
    """Section 3.22."""

    Flatten = 0x1
    DontFlatten = 0x2


class LoopControl(IntFlag):
    """Section 3.23, the bits without an operand."""

    Unroll = 0x1
    DontUnroll = 0x2


class Capability(IntEnum):
    """Section 3.31: what a module may use."""

    Matrix = 0
    Shader = 1
    Float16 = 9
    Float64 = 10
    Int64 = 11
    Int64Atomics = 12
    Int16 = 22
    Int8 = 39
    GroupNonUniform = 61
    GroupNonUniformVote = 62
    GroupNonUniformArithmetic = 63
    GroupNonUniformBallot = 64
    GroupNonUniformShuffle = 65
    GroupNonUniformShuffleRelative = 66
    GroupNonUniformClustered = 67
    StorageBuffer16BitAccess = 4433
    StoragePushConstant16 = 4435
    VariablePointersStorageBuffer = 4441
    VariablePointers = 4442
    StorageBuffer8BitAccess = 4448
    StoragePushConstant8 = 4450
    DenormPreserve = 4464
    DenormFlushToZero = 4465
    SignedZeroInfNanPreserve = 4466
    RoundingModeRTE = 4467
    RoundingModeRTZ = 4468
    VulkanMemoryModel = 5345
    VulkanMemoryModelDeviceScope = 5346
    PhysicalStorageBufferAddresses = 5347
    AtomicFloat32MinMaxEXT = 5612
    AtomicFloat64MinMaxEXT = 5613
    AtomicFloat16MinMaxEXT = 5616
    DotProductInputAll = 6016
    DotProductInput4x8Bit = 6017
    DotProductInput4x8BitPacked = 6018
    DotProduct = 6019
    AtomicFloat32AddEXT = 6033
    AtomicFloat64AddEXT = 6034
    AtomicFloat16AddEXT = 6095


class GLSLstd450(IntEnum):
    """Instruction numbers of the extended set "GLSL.std.450"."""

    Round = 1
    RoundEven = 2
    Trunc = 3
    FAbs = 4
    SAbs = 5
    FSign = 6
    SSign = 7
    Floor = 8
    Ceil = 9
    Fract = 10
    Sin = 13
    Cos = 14
    Tan = 15
    Asin = 16
    Acos = 17
    Atan = 18
    Sinh = 19
    Cosh = 20
    Tanh = 21
    Asinh = 22
    Acosh = 23
    Atanh = 24
    Atan2 = 25
    Pow = 26
    Exp = 27
    Log = 28
    Exp2 = 29
    Log2 = 30
    Sqrt = 31
    InverseSqrt = 32
    FMin = 37
    UMin = 38
    SMin = 39
    FMax = 40
    UMax = 41
    SMax = 42
    FClamp = 43
    UClamp = 44
    SClamp = 45
    FMix = 46
    Fma = 50
    Frexp = 51
    FrexpStruct = 52
    Ldexp = 53
    PackHalf2x16 = 58
    UnpackHalf2x16 = 62
    FindILsb = 73
    FindSMsb = 74
    FindUMsb = 75
    NMin = 79
    NMax = 80
    NClamp = 81


DECORATION_ARGUMENTS: dict[int, str] = {
    Decoration.SpecId: "int",
    Decoration.ArrayStride: "int",
    Decoration.BuiltIn: "BuiltIn",
    Decoration.Binding: "int",
    Decoration.DescriptorSet: "int",
    Decoration.Offset: "int",
    Decoration.FPRoundingMode: "FPRoundingMode",
    Decoration.Alignment: "int",
}
"""Decorations that carry an operand, and its kind in the notation of `grammar.py`."""

EXECUTION_MODE_ARGUMENTS: dict[int, str] = {
    ExecutionMode.LocalSize: "int int int",
    ExecutionMode.LocalSizeId: "id id id",
    ExecutionMode.DenormPreserve: "int",
    ExecutionMode.DenormFlushToZero: "int",
    ExecutionMode.SignedZeroInfNanPreserve: "int",
    ExecutionMode.RoundingModeRTE: "int",
    ExecutionMode.RoundingModeRTZ: "int",
}
"""Execution modes that carry operands, and their kinds in the notation of `grammar.py`."""

MEMORY_ACCESS_ARGUMENTS: dict[int, str] = {
    MemoryAccess.Aligned: "int",
    MemoryAccess.MakePointerAvailable: "id",
    MemoryAccess.MakePointerVisible: "id",
}
"""Memory access bits that carry an operand (in order of the bits), and its kind."""

EXECUTION_MODE_CAPABILITY: dict[int, Capability] = {
    ExecutionMode.DenormPreserve: Capability.DenormPreserve,
    ExecutionMode.DenormFlushToZero: Capability.DenormFlushToZero,
    ExecutionMode.SignedZeroInfNanPreserve: Capability.SignedZeroInfNanPreserve,
    ExecutionMode.RoundingModeRTE: Capability.RoundingModeRTE,
    ExecutionMode.RoundingModeRTZ: Capability.RoundingModeRTZ,
}
"""The capability a float-controls execution mode declares."""

BUILTIN_CAPABILITY: dict[int, Capability] = {
    BuiltIn.SubgroupSize: Capability.GroupNonUniform,
    BuiltIn.NumSubgroups: Capability.GroupNonUniform,
    BuiltIn.SubgroupId: Capability.GroupNonUniform,
    BuiltIn.SubgroupLocalInvocationId: Capability.GroupNonUniform,
    BuiltIn.SubgroupEqMask: Capability.GroupNonUniformBallot,
    BuiltIn.SubgroupGeMask: Capability.GroupNonUniformBallot,
    BuiltIn.SubgroupGtMask: Capability.GroupNonUniformBallot,
    BuiltIn.SubgroupLeMask: Capability.GroupNonUniformBallot,
    BuiltIn.SubgroupLtMask: Capability.GroupNonUniformBallot,
}
"""The capability a built-in variable declares."""

CAPABILITY_EXTENSION: dict[int, str] = {
    Capability.VulkanMemoryModel: "SPV_KHR_vulkan_memory_model",
    Capability.PhysicalStorageBufferAddresses: "SPV_KHR_physical_storage_buffer",
    Capability.AtomicFloat32AddEXT: "SPV_EXT_shader_atomic_float_add",
    Capability.AtomicFloat64AddEXT: "SPV_EXT_shader_atomic_float_add",
    Capability.AtomicFloat16AddEXT: "SPV_EXT_shader_atomic_float16_add",
    Capability.AtomicFloat16MinMaxEXT: "SPV_EXT_shader_atomic_float_min_max",
    Capability.AtomicFloat32MinMaxEXT: "SPV_EXT_shader_atomic_float_min_max",
    Capability.AtomicFloat64MinMaxEXT: "SPV_EXT_shader_atomic_float_min_max",
    Capability.StorageBuffer8BitAccess: "SPV_KHR_8bit_storage",
    Capability.StoragePushConstant8: "SPV_KHR_8bit_storage",
    Capability.StorageBuffer16BitAccess: "SPV_KHR_16bit_storage",
    Capability.StoragePushConstant16: "SPV_KHR_16bit_storage",
}
"""The extension to declare beside a capability.

Several of these are part of core SPIR-V 1.5 or later, where the declaration is redundant but valid; it is
made so that a reader which looks for the extension names finds them.
"""
