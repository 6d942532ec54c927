"""What operand schemas say: how the elements of a payload are packed, and which scales and offsets they have.

The parameters are those of the language reference, part 2, sections 11.3 and 11.7. What a schema does not say in
numbers (built-in code books, sparsity, scales of run-time maxima) has no meaning here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from loom.ir.attributes import Encoding
from loom.ir.records import record

#: The affine rules that change values beside their scale, and the auxiliary operand of each.
OFFSETS: Final[Mapping[str, str]] = {
    "scale_plus_zero_point": "zero_point",
    "scale_plus_min": "minimum",
    "scale_plus_bias": "bias",
}
#: Rules that say no more than the scales do; the sum of a block is for whoever multiplies it.
SCALES_ONLY: Final = ("none", "scale_only", "super_scale_times_subscale", "sum_correction")
SCALES: Final = ("scale", "secondary_scale", *(f"scale{n}" for n in range(2, 8)))
#: Topologies with a scale of each record and one of each group in it; the scale of an element is their product.
TWO_LEVELS: Final = ("subblock_in_superblock", "hierarchical")
#: The group of an element, of its coordinates in the vector, its ordinal, the extents of a group and of the vector;
#: for integers and integer arrays.
GROUPS: Final[Mapping[str, Callable[[Any, Any, tuple[int, ...], tuple[int, ...]], Any]]] = {
    "tensor_global": lambda at, ordinal, group, extents: ordinal * 0,
    "row": lambda at, ordinal, group, extents: at[0],
    "per_token": lambda at, ordinal, group, extents: at[0],
    "column": lambda at, ordinal, group, extents: at[-1],
    "channel": lambda at, ordinal, group, extents: at[-1],
    "group_1d": lambda at, ordinal, group, extents: ordinal // math.prod(group),
    "block_1d": lambda at, ordinal, group, extents: ordinal // math.prod(group),
    "block_2d": lambda at, ordinal, group, extents: at[0] // group[0] * -(-extents[1] // group[1]) + at[1] // group[1],
}
#: Topologies that look at nothing but the order of elements.
LINEAR: Final = ("none", "tensor_global", "group_1d", "block_1d", *TWO_LEVELS)
#: Element formats whose codes are indices, as wide as the lanes of the payload.
INDICES: Final = "codebook_index"
#: Packings with one element in each lane of the payload.
ONE_EACH: Final = ("dense_lanes", "codebook_indices")
#: Which field of the bit stream (least significant bits first) each element is.
FIELD_ORDERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "bitfield_stream": lambda j: j,
    "little_endian_nibbles": lambda j: j,
    "big_endian_nibbles": lambda j: j ^ 1,
}


class UndefinedSchema(Exception):
    """The schema, or this use of it, has no decoding rule here; the text says what."""


@record
class Schema:
    """What decoding needs to know.

    ``group`` are the extents of the elements that share a scale, ``record_elements`` the elements of one payload
    record. ``record`` describes a block-quantized record, whose codes and header have places of their own.
    """

    element_format: str
    packing: str
    affine: str = "none"
    scale_format: str = "none"
    secondary_format: str = "none"
    topology: str = "none"
    group: tuple[int, ...] = ()
    scales: tuple[str, ...] = ()
    rounding: str = "none"
    codebook: bool = False
    record_elements: int = 1
    record: Any = None


def plain_schema(encoding: Encoding) -> Schema:
    """The schema of a static specification that is no record. Raises `UndefinedSchema` for one without meaning."""

    def word(name: str, default: str = "none") -> str:
        return str(encoding.param(name, default))

    def number(name: str, default: int) -> int:
        value = encoding.param(name, default)
        assert isinstance(value, int)
        return value

    family = encoding.family.removeprefix("encoding.")
    if family == encoding.family:
        raise UndefinedSchema(f"values of {encoding}")
    element = word("element_format") if family == "operand" else family
    affine, topology, codebook = word("affine"), word("scale_topology"), word("codebook")
    for what, given, known in (
        ("codebook", codebook, ("none", "dynamic_table_operand")),
        ("sparsity", word("sparsity"), ("none",)),
        ("affine rule", affine, (*SCALES_ONLY, *OFFSETS)),
        ("scale topology", topology, ("none", *GROUPS, *TWO_LEVELS)),
    ):
        if given not in known:
            raise UndefinedSchema(f"the {what} '{given}'")
    count, size = number("scale_operands", 0), encoding.param("scale_group_elements")
    if count > 2 or (topology in TWO_LEVELS and count != 2):
        raise UndefinedSchema(f"{count} scales in the topology '{topology}'")
    shape = encoding.param("scale_group_shape", (size,) if size is not None else ())
    assert isinstance(shape, tuple)
    return Schema(
        element,
        word("payload_packing", "dense_lanes"),
        affine,
        word("scale_format"),
        word("secondary_scale_format"),
        topology,
        shape,
        SCALES[:count],
        word("rounding"),
        codebook != "none",
        number("payload_elements", 1),
    )
