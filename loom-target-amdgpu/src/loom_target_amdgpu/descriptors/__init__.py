"""The descriptor sets of the AMDGPU representation contracts.

A set is built from the compact tables of this package on first use. Its register classes follow the language
reference, part 3, section 6.1.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from loom.low.descriptors import RegisterClass

if TYPE_CHECKING:
    from loom_target_amdgpu.descriptors.lazy_set import TableSet
    from loom_target_amdgpu.descriptors.notation import Entry

# Contract -> generation letter of the tables; a generic contract has what all its members have.
CONTRACTS: Final = {
    "amdgpu.cdna3.core": "3",
    "amdgpu.cdna4.core": "4",
    "amdgpu.rdna3.core": "A",
    "amdgpu.rdna3_5.core": "a",
    "amdgpu.gfx11.generic.core": "A",
    "amdgpu.rdna4.core": "B",
    "amdgpu.gfx12.generic.core": "B",
}
FAMILIES: Final = {"3": "gfx942", "4": "gfx942", "A": "gfx11", "a": "gfx11", "B": "gfx12"}

_SCALAR_ALIGNMENT: Final = {2: 2, 3: 4, 4: 4, 8: 4, 16: 4}


def register_classes(generation: str) -> dict[str, RegisterClass]:
    """The register classes of a generation."""
    cdna = generation in "34"
    pairs = dict.fromkeys((2, 3, 4, 6, 8, 16, 32), 2) if cdna else {}
    classes = [
        RegisterClass("amdgpu.sgpr", 32, 102 if cdna else 106, _SCALAR_ALIGNMENT),
        RegisterClass("amdgpu.vgpr", 32, 256, pairs, mask="exec"),
        RegisterClass("amdgpu.scc", 1, 1, spillable=False),
        RegisterClass("amdgpu.vcc", 64, 1, spillable=False),
        RegisterClass("amdgpu.m0", 32, 1, spillable=False),
    ]
    if cdna:
        classes.append(RegisterClass("amdgpu.agpr", 32, 256, pairs, mask="exec"))
    return {c.name: c for c in classes}


@cache
def instructions(generation: str) -> tuple[Entry, ...]:
    """Every instruction of a generation, by name."""
    from loom_target_amdgpu.descriptors.comparisons import COMPARISONS
    from loom_target_amdgpu.descriptors.control import CONTROL
    from loom_target_amdgpu.descriptors.matrix import MATRIX
    from loom_target_amdgpu.descriptors.memory import MEMORY
    from loom_target_amdgpu.descriptors.notation import entries
    from loom_target_amdgpu.descriptors.scalar_alu import SCALAR_ALU
    from loom_target_amdgpu.descriptors.vector_alu import VECTOR_ALU

    found: list[Entry] = []
    for text in (SCALAR_ALU, VECTOR_ALU, COMPARISONS, CONTROL, MEMORY, MATRIX):
        found += entries(text, generation)
    return tuple(found)


@cache
def build(contract: str) -> TableSet:
    """The descriptor set of a contract.

    Raises:
        KeyError: no such contract.
    """
    from loom_target_amdgpu.descriptors.lazy_set import TableSet

    generation = CONTRACTS[contract]
    return TableSet(contract, register_classes(generation), instructions(generation))
