"""The words of a tensor descriptor, as the tensor data mover of AMD's CDNA 5 reads them.

Public documents: AMD CDNA 5 instruction set architecture, section 10.11 (tensor descriptors); HIP's header for
gfx1250 tensor data movement names the same fields. Dimension 0 is the innermost one; extents and strides count
elements, and ``tensor_dim0_stride`` is the step along dimension 1.
"""

from __future__ import annotations

from typing import Final

import attrs

# Field -> (group, first bit in the group, bits).
FIELDS: Final[dict[str, tuple[int, int, int]]] = {
    "count": (0, 0, 2),
    "is_restore": (0, 2, 1),
    "gather_mode": (0, 30, 1),
    "type": (0, 126, 2),
    "workgroup_mask": (1, 0, 16),
    "data_size": (1, 16, 2),
    "atomic_barrier_enable": (1, 18, 1),
    "iterate_enable": (1, 19, 1),
    "pad_enable": (1, 20, 1),
    "tensor_dim0": (1, 48, 32),
    "tensor_dim1": (1, 80, 32),
    "tile_dim0": (1, 112, 16),
    "tile_dim1": (1, 128, 16),
    "tile_dim2": (1, 144, 16),
    "tensor_dim0_stride": (1, 160, 48),
    "tensor_dim1_stride": (1, 208, 48),
    "tensor_dim2": (2, 0, 32),
    "tensor_dim3": (2, 32, 32),
    "tensor_dim2_stride": (2, 64, 48),
    "tile_dim3": (2, 112, 16),
    "tensor_dim3_stride": (3, 0, 48),
    "tensor_dim4": (3, 48, 32),
    "tile_dim4": (3, 80, 16),
}

VALID_COUNT: Final = 1
IMAGE_TYPE: Final = 2
MAX_RANK: Final = 5
# Dimensions that the first two groups describe alone.
RANK_OF_TWO_GROUPS: Final = 2


@attrs.frozen
class Descriptor:
    """The groups as numbers: bit ``32 i + k`` of a group is bit ``k`` of its word ``i``."""

    groups: tuple[int, ...]

    @classmethod
    def of_words(cls, groups: list[list[int]]) -> Descriptor:
        """The descriptor of two or four groups of 32-bit words."""
        return cls(tuple(sum((word & 0xFFFF_FFFF) << 32 * i for i, word in enumerate(words)) for words in groups))

    def field(self, name: str) -> int:
        """A field of :data:`FIELDS`; 0 when its group is left out."""
        group, first, bits = FIELDS[name]
        return self.groups[group] >> first & ((1 << bits) - 1) if group < len(self.groups) else 0

    @property
    def tile(self) -> tuple[int, ...]:
        """Extents of the tile, innermost first."""
        return tuple(self.field(f"tile_dim{k}") for k in range(MAX_RANK))

    @property
    def tensor(self) -> tuple[int, ...]:
        """Extents of what is left of the tensor, innermost first."""
        return tuple(self.field(f"tensor_dim{k}") for k in range(MAX_RANK))

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one index to the next along each dimension, innermost first."""
        return (1, *(self.field(f"tensor_dim{k}_stride") for k in range(MAX_RANK - 1)))
