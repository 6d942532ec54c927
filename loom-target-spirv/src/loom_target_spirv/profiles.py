"""The SPIR-V target and the facts it publishes.

Limits and the subgroup size belong to the device, not to the target; the Vulkan device adds its own when it
compiles for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from loom.plugins.records import TargetProfile

CONTRACT: Final = "spirv.logical.core"
FORMAT: Final = "spirv-binary"
TEXT_FORMAT: Final = "spirv-dis"
RECORD: Final = ("spirv.target", "vulkan1_3")

FACTS: Final[Mapping[str, object]] = MappingProxyType(
    {
        "codegen_format": "spirv",
        "artifact_format": "spirv_binary",
        "default_pointer_bitwidth": 64,
        "offset_bitwidth": 64,
        "index_bitwidth": 32,
        "abi": "shader_entry_point",
        "contract_set_key": CONTRACT,
        # Ordinals 1, 2 and 15 of the feature catalogue: Vulkan shaders, physical storage buffers, 64-bit integers.
        "contract_feature_bits": 1 << 1 | 1 << 2 | 1 << 15,
    }
)

PROFILE: Final = TargetProfile(
    family="spirv",
    selector="vulkan1.3+bda",
    contract=CONTRACT,
    facts=FACTS,
    default_format=FORMAT,
    record=RECORD,
    satisfies=frozenset({"vulkan1.3+bda"}),
    summary="Vulkan 1.3 compute kernels that take buffers by address",
)
