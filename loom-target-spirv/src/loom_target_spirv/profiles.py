"""The SPIR-V target and the facts it publishes.

Limits and the subgroup size belong to the device, not to the target; the Vulkan device adds its own when it
compiles for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from loom.plugins.math_policy import ELEMENTARY, MathPolicy
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

_PRECISE_IN_F64: Final = frozenset(
    {
        "expf", "exp2f", "expm1f", "logf", "log2f", "log10f", "log1pf", "cbrtf", "asinf", "acosf", "atanf", "atan2f",
        "sinturnsf", "costurnsf", "tanhf", "logisticf", "siluf", "softplusf", "remf",
    }
)  # fmt: skip
MATH: Final = MathPolicy(
    "spirv.math",
    MappingProxyType(
        {
            name: frozenset({"f16", "f32", "f64"} if name in _PRECISE_IN_F64 else {"f16", "f32"})
            for name in sorted(ELEMENTARY)
        }
    ),
)
"""Selection computes f16 and f32 in f64; not all of these sequences have the digits of f64 itself."""

PROFILE: Final = TargetProfile(
    family="spirv",
    selector="vulkan1.3+bda",
    contract=CONTRACT,
    facts=FACTS,
    default_format=FORMAT,
    record=RECORD,
    satisfies=frozenset({"vulkan1.3+bda"}),
    summary="Vulkan 1.3 compute kernels that take buffers by address",
    math=MATH,
)
