"""The x86 targets and the facts they publish.

Facts: language reference, part 3, section 5.2; contracts and register classes: section 5.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from loom.plugins.math_policy import MathPolicy
from loom.plugins.records import TargetProfile

FAMILY: Final = "x86"
FORMAT: Final = "x86-object"
TEXT_FORMAT: Final = "x86-asm"
RECORD: Final = "x86.target"
SCHEDULER: Final = "x86"

WORD_MAX: Final = (1 << 32) - 1
MATH: Final = MathPolicy("x86.math", MappingProxyType({"remf": frozenset({"f32", "f64"})}))
"""There are instructions for square roots only, and a routine for remainders."""

#: Selector -> (what it adds, selectors whose code it accepts). A selector is also the profile word of a record.
SELECTORS: Final[Mapping[str, tuple[str, frozenset[str]]]] = MappingProxyType(
    {
        "scalar": ("general registers only", frozenset({"scalar"})),
        "simd128": ("SSE up to 4.2 (x86-64-v2)", frozenset({"scalar", "simd128"})),
        "avx2": ("AVX2, FMA and BMI (x86-64-v3)", frozenset({"scalar", "simd128", "avx2"})),
    }
)


def contract_of(selector: str) -> str:
    """The key of a selector's descriptor set."""
    return f"x86.{selector}.core"


def _facts(selector: str) -> Mapping[str, object]:
    # One flat address space: every memory space is space 0, and there are no descriptors.
    spaces = ("generic", "global", "workgroup", "constant", "private", "host")
    return MappingProxyType(
        {
            "codegen_format": "low_native",
            "artifact_format": "elf",
            "default_pointer_bitwidth": 64,
            "offset_bitwidth": 64,
            "index_bitwidth": 64,
            **{f"memory_space_{space}": 0 for space in spaces},
            # A workgroup is a loop: only the dispatch block's words of 32 bits bound its extents.
            **{f"max_workgroup_size_{axis}": WORD_MAX for axis in "xyz"},
            **{f"max_workgroup_count_{axis}": WORD_MAX for axis in "xyz"},
            "max_flat_grid_size": 1 << 63,
            "abi": "object_function",
            "linkage": "dso_local",
            "contract_set_key": contract_of(selector),
        }
    )


def _profile(selector: str) -> TargetProfile:
    summary, satisfies = SELECTORS[selector]
    return TargetProfile(
        family=FAMILY,
        selector=selector,
        contract=contract_of(selector),
        facts=_facts(selector),
        default_format=FORMAT,
        record=(RECORD, selector),
        satisfies=satisfies,
        scheduler=SCHEDULER,
        summary=f"x86-64 with {summary}",
        math=MATH,
    )


PROFILES: Final[Mapping[str, TargetProfile]] = MappingProxyType({name: _profile(name) for name in SELECTORS})
