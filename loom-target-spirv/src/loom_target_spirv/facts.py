"""What a Vulkan device can do, as data, and whether a module asks for more.

Sources: "Vulkan Specification" 1.3, appendix "Vulkan Environment for SPIR-V" (table of capabilities and the
features that enable them), and the chapters Features and Limits for the names.
"""

from __future__ import annotations

import attrs

from loom_target_spirv.encoding import instructions
from loom_target_spirv.enumerants import Capability, ExecutionMode
from loom_target_spirv.grammar import BY_NAME

_SUBGROUP_BITS: dict[str, int] = {
    "subgroupBasic": 0x1,
    "subgroupVote": 0x2,
    "subgroupArithmetic": 0x4,
    "subgroupBallot": 0x8,
    "subgroupShuffle": 0x10,
    "subgroupShuffleRelative": 0x20,
    "subgroupClustered": 0x40,
}

CAPABILITY_FEATURE: dict[int, str] = {
    Capability.Float16: "shaderFloat16",
    Capability.Float64: "shaderFloat64",
    Capability.Int8: "shaderInt8",
    Capability.Int16: "shaderInt16",
    Capability.Int64: "shaderInt64",
    Capability.Int64Atomics: "shaderBufferInt64Atomics",
    Capability.StorageBuffer8BitAccess: "storageBuffer8BitAccess",
    Capability.StorageBuffer16BitAccess: "storageBuffer16BitAccess",
    Capability.StoragePushConstant8: "storagePushConstant8",
    Capability.StoragePushConstant16: "storagePushConstant16",
    Capability.VariablePointers: "variablePointers",
    Capability.VariablePointersStorageBuffer: "variablePointersStorageBuffer",
    Capability.VulkanMemoryModel: "vulkanMemoryModel",
    Capability.VulkanMemoryModelDeviceScope: "vulkanMemoryModelDeviceScope",
    Capability.PhysicalStorageBufferAddresses: "bufferDeviceAddress",
    Capability.DotProduct: "shaderIntegerDotProduct",
    Capability.DotProductInputAll: "shaderIntegerDotProduct",
    Capability.DotProductInput4x8Bit: "shaderIntegerDotProduct",
    Capability.DotProductInput4x8BitPacked: "shaderIntegerDotProduct",
    Capability.AtomicFloat32AddEXT: "shaderBufferFloat32AtomicAdd",
    Capability.AtomicFloat64AddEXT: "shaderBufferFloat64AtomicAdd",
    Capability.AtomicFloat16AddEXT: "shaderBufferFloat16AtomicAdd",
    Capability.AtomicFloat16MinMaxEXT: "shaderBufferFloat16AtomicMinMax",
    Capability.AtomicFloat32MinMaxEXT: "shaderBufferFloat32AtomicMinMax",
    Capability.AtomicFloat64MinMaxEXT: "shaderBufferFloat64AtomicMinMax",
    Capability.GroupNonUniform: "subgroupBasic",
    Capability.GroupNonUniformVote: "subgroupVote",
    Capability.GroupNonUniformArithmetic: "subgroupArithmetic",
    Capability.GroupNonUniformBallot: "subgroupBallot",
    Capability.GroupNonUniformShuffle: "subgroupShuffle",
    Capability.GroupNonUniformShuffleRelative: "subgroupShuffleRelative",
    Capability.GroupNonUniformClustered: "subgroupClustered",
}
"""The feature a device must have for a capability; `Shader` and `Matrix` need none."""

_FLOAT_CONTROL: dict[int, str] = {
    ExecutionMode.DenormPreserve: "shaderDenormPreserveFloat",
    ExecutionMode.DenormFlushToZero: "shaderDenormFlushToZeroFloat",
    ExecutionMode.SignedZeroInfNanPreserve: "shaderSignedZeroInfNanPreserveFloat",
    ExecutionMode.RoundingModeRTE: "shaderRoundingModeRTEFloat",
    ExecutionMode.RoundingModeRTZ: "shaderRoundingModeRTZFloat",
}

REQUIRED_FEATURES = ("bufferDeviceAddress", "shaderInt64", "vulkanMemoryModel")
"""Without these a device cannot run any kernel of the raw-address ABI."""


@attrs.frozen
class DeviceFacts:
    """A device: names, subgroup width in work-items, limits in work-items or bytes, and features by Vulkan's
    names.

    `features` holds the Boolean features of `VkPhysicalDeviceFeatures2`, the float-controls properties such
    as ``shaderDenormPreserveFloat32``, and the subgroup operations of the compute stage as
    ``subgroup<Kind>``.
    """

    name: str
    driver: str
    api_version: tuple[int, int, int]
    vendor_id: int
    device_id: int
    subgroup_size: int
    max_workgroup_size: tuple[int, int, int]
    max_workgroup_count: tuple[int, int, int]
    max_invocations: int
    max_shared_memory: int
    max_push_constants: int
    max_allocation: int
    features: frozenset[str]

    def to_json(self) -> dict[str, object]:
        """A dictionary of JSON values, with the features sorted."""
        record: dict[str, object] = attrs.asdict(self, recurse=False)
        record["features"] = sorted(self.features)
        return record

    @classmethod
    def from_json(cls, record: dict[str, object]) -> DeviceFacts:
        """The inverse of `to_json`."""
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in record.items()}
        features = values.pop("features")
        assert isinstance(features, tuple)
        return cls(features=frozenset(features), **values)  # type: ignore[arg-type]


def subgroup_features(operations: int) -> set[str]:
    """The names of the subgroup operations in the bits of `subgroupSupportedOperations`."""
    return {name for name, bit in _SUBGROUP_BITS.items() if operations & bit}


def missing_features(module: bytes, facts: DeviceFacts) -> list[str]:
    """What a module asks of a device that the device does not have, each as "feature (asked for by ...)".

    Raises SpirvError when the data is no SPIR-V module.
    """
    capability_op, mode_op = BY_NAME["OpCapability"].opcode, BY_NAME["OpExecutionMode"].opcode
    missing = []
    for opcode, words in instructions(module):
        if opcode == capability_op:
            feature = CAPABILITY_FEATURE.get(words[0])
            origin = f"capability {_capability_name(words[0])}"
        elif opcode == mode_op and words[1] in _FLOAT_CONTROL:
            feature = f"{_FLOAT_CONTROL[words[1]]}{words[2]}"
            origin = f"execution mode {ExecutionMode(words[1]).name} {words[2]}"
        else:
            continue
        if feature is not None and feature not in facts.features:
            missing.append(f"{feature} (asked for by {origin})")
    return missing


def _capability_name(number: int) -> str:
    try:
        return Capability(number).name
    except ValueError:
        return str(number)
