"""Keyword sets shared by several dialects (language reference, part 2, section 2; part 1, sections 8.1 and 14.2)."""

from __future__ import annotations

from typing import Final

from loom.spec import kinds as k

OVERFLOW: Final = k.flags("overflow flag", {"nsw": 1, "nuw": 2})
FASTMATH: Final = k.flags(
    "fast-math flag",
    {"reassoc": 1, "nnan": 2, "ninf": 4, "nsz": 8, "arcp": 16, "contract": 32, "afn": 64},
    all_word="fast",
)
INTEGER_PREDICATE: Final = k.enum(
    "comparison predicate", ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
)
FLOAT_PREDICATE: Final = k.enum(
    "comparison predicate",
    ("oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno"),
)
CLAMP_MODE: Final = k.enum("clamp mode", ("ordered", "number", "ieee"))
GELU_VARIANT: Final = k.enum("GELU variant", ("erf", "tanh", "logistic"))

VISIBILITY: Final = k.enum("visibility", {"public": 1})
RETENTION: Final = k.enum("retention", {"retain": 1})
CALLING_CONVENTION: Final = k.enum("calling convention", ("host", "device", "initializer", "deinitializer"))
PURITY: Final = k.enum("purity", {"pure": 1})
TEMPERATURE: Final = k.enum("temperature", ("hot", "cold"))
INLINE_POLICY: Final = k.enum("inline policy", ("inline", "noinline"))
LINKAGE: Final = k.enum("linkage", ("default", "dso_local"))
ABI: Final = k.enum(
    "ABI kind",
    {
        "unknown": 0,
        "object_function": 1,
        "hal_kernel": 2,
        "shader_entry_point": 4,
        "wasm_function": 5,
        "command_program": 6,
        "vm_function": 7,
        "array_program": 8,
    },
    open=True,
)

COMBINING: Final = k.enum(
    "combining kind",
    (
        "addi",
        "addf",
        "muli",
        "mulf",
        "minsi",
        "maxsi",
        "minui",
        "maxui",
        "andi",
        "ori",
        "xori",
        "minimumf",
        "maximumf",
        "minnumf",
        "maxnumf",
    ),
)
ATOMIC: Final = k.enum(
    "atomic kind",
    (
        "xchgi",
        "xchgf",
        "addi",
        "addf",
        "subi",
        "andi",
        "ori",
        "xori",
        "minsi",
        "maxsi",
        "minui",
        "maxui",
        "minimumf",
        "maximumf",
        "minnumf",
        "maxnumf",
    ),
)
ATOMIC_FLAGS: Final = k.flags("atomic flag", {"noftz": 2})
ACCESS_FLAGS: Final = k.flags("access flag", {"volatile": 1})
ORDERING: Final = k.enum("ordering", ("relaxed", "acquire", "release", "acq_rel", "seq_cst"))
SCOPE: Final = k.enum("scope", ("thread", "subgroup", "workgroup", "device", "system"))
MEMORY_SPACE: Final = k.enum(
    "memory space",
    ("unknown", "global", "workgroup", "private", "constant", "host", "descriptor", "generic"),
)
CACHE_SCOPE: Final = k.enum("cache scope", ("cu", "se", "device", "system"))
CACHE_TEMPORAL: Final = k.enum(
    "cache temporal hint",
    (
        "regular",
        "non_temporal",
        "high_temporal",
        "last_use",
        "writeback",
        "non_temporal_regular",
        "regular_non_temporal",
        "non_temporal_high_temporal",
        "non_temporal_writeback",
        "bypass",
    ),
)
AXIS: Final = k.enum("axis", ("x", "y", "z"))
