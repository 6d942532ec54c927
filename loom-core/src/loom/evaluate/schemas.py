"""Operand schemas: how logical values follow from payloads, scales and offsets.

The formulas are those of the language reference, part 2, sections 11.7 and 11.8. What a schema does not say in
numbers (code books, sparsity, scales of several levels) has no meaning here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import attrs
import numpy as np

from loom.evaluate.numeric import floats
from loom.evaluate.numeric.codes import code_bits, code_values, nearest_codes
from loom.evaluate.numeric.formats import Array, Kind, ScalarFormat, from_bits, to_bits
from loom.ir.attributes import Encoding

#: The affine operations that change values beside their scale, and the auxiliary operand of each.
OFFSETS: Final[Mapping[str, str]] = {
    "scale_plus_zero_point": "zero_point",
    "scale_plus_min": "minimum",
    "scale_plus_bias": "bias",
}
SCALES: Final = ("scale", "secondary_scale")
#: The group of each element, of its coordinates in the vector, its ordinal, and the extents of a group.
GROUPS: Final[Mapping[str, Callable[[Array, Array, tuple[int, ...]], Array]]] = {
    "tensor_global": lambda at, ordinal, group: np.zeros_like(ordinal),
    "row": lambda at, ordinal, group: at[0],
    "column": lambda at, ordinal, group: at[-1],
    "group_1d": lambda at, ordinal, group: ordinal // group[0],
    "block_1d": lambda at, ordinal, group: ordinal // group[0],
    "block_2d": lambda at, ordinal, group: (
        at[0] // group[0] * -(-(int(at[1].max()) + 1) // group[1]) + at[1] // group[1]
    ),
}


class UndefinedSchema(Exception):
    """The schema, or this use of it, has no decoding rule here; the text says what."""


@attrs.frozen
class Schema:
    """What decoding needs to know. ``group`` are the extents of the elements that share a scale.

    ``excess`` is subtracted from integer codes.
    """

    element_format: str
    packing: str
    affine: str = "none"
    scale_format: str = "none"
    secondary_format: str = "none"
    topology: str = "none"
    group: tuple[int, ...] = ()
    scales: tuple[str, ...] = ()
    excess: int = 0
    rounding: str = "none"


_RECORDS: Final[Mapping[str, Schema]] = {
    "ggml.q8_0": Schema("i8", "bitfield_stream", "scale_only", "f16", "none", "block_1d", (32,), ("scale",)),
    "ggml.q4_0": Schema("u4", "halves_of_16", "scale_only", "f16", "none", "block_1d", (32,), ("scale",), excess=8),
}


def schema_of(encoding: Encoding) -> Schema:
    """The schema of a static specification. Raises `UndefinedSchema` for one without a decoding rule."""
    record = _RECORDS.get(encoding.family)
    if record is not None:
        return record

    def word(name: str, default: str = "none") -> str:
        return str(encoding.param(name, default))

    family = encoding.family.removeprefix("encoding.")
    if family == encoding.family:
        raise UndefinedSchema(f"values of {encoding}")
    element = word("element_format") if family == "operand" else family
    for name in ("codebook", "sparsity"):
        if word(name) != "none":
            raise UndefinedSchema(f"schemas with a {name}")
    affine, topology = word("affine"), word("scale_topology")
    if affine not in ("none", "scale_only", *OFFSETS):
        raise UndefinedSchema(f"the affine rule '{affine}'")
    if topology != "none" and topology not in GROUPS:
        raise UndefinedSchema(f"the scale topology '{topology}'")
    count, size = encoding.param("scale_operands", 0), encoding.param("scale_group_elements")
    if count not in (0, 1, 2):
        raise UndefinedSchema(f"{count} scales")
    shape = encoding.param("scale_group_shape", (size,) if size is not None else ())
    assert isinstance(shape, tuple)
    assert isinstance(count, int)
    axes = {"group_1d": 1, "block_1d": 1, "block_2d": 2}.get(topology, len(shape))
    if len(shape) != axes or not all(isinstance(extent, int) and extent > 0 for extent in shape):
        raise UndefinedSchema(f"groups of {list(shape)} elements in the topology '{topology}'")
    try:
        code_bits(element)
    except KeyError:
        raise UndefinedSchema(f"values of format '{element}'") from None
    return Schema(
        element,
        word("payload_packing", "dense_lanes"),
        affine,
        word("scale_format"),
        word("secondary_scale_format"),
        topology,
        shape,
        SCALES[:count],
        rounding=word("rounding"),
    )


@attrs.frozen(eq=False)
class Terms:
    """What stands between a code's value and the logical value ``(value - zero) * scale + addend``.

    Each is ``float64[n, elements]``, or ``None`` when there is none: adding 0 would lose the sign of -0.
    """

    zero: Array | None
    scale: Array | None
    addend: Array | None


Auxiliaries = Mapping[str, tuple[ScalarFormat, Array]]


def terms_of(schema: Schema, extents: tuple[int, ...], auxiliaries: Auxiliaries) -> Terms:
    """The terms for the elements of a vector with the given extents.

    The arrays of auxiliaries are stored lanes ``[n, lanes]``. Raises `UndefinedSchema`.
    """
    count = math.prod(extents)
    ordinal = np.arange(count)
    group = ordinal * 0
    if schema.topology == "block_2d" and len(extents) != 2:
        raise UndefinedSchema("blocks of two axes in a vector of another rank")
    if schema.topology in GROUPS and count:
        group = GROUPS[schema.topology](np.stack(np.unravel_index(ordinal, extents)), ordinal, schema.group)
    zero: Array | None = np.asarray(float(schema.excess)) if schema.excess else None
    scale: Array | None = None
    addend: Array | None = None
    name = OFFSETS.get(schema.affine)
    if name is not None:
        given = _per_element(name, "none", auxiliaries, group)
        zero, addend = (given, addend) if name == "zero_point" else (zero, given)
    if schema.scales:
        scale = _per_element("scale", schema.scale_format, auxiliaries, group)
    if scale is not None and len(schema.scales) > 1:
        # A second scale belongs to the whole vector.
        scale = scale * _per_element("secondary_scale", schema.secondary_format, auxiliaries, group * 0)
    return Terms(zero, scale, addend)


def decode(
    schema: Schema, carrier: ScalarFormat, payload: Array, extents: tuple[int, ...], auxiliaries: Auxiliaries
) -> Array:
    """The logical values ``float64[n, elements]`` of a vector with the given extents.

    ``payload`` are stored lanes ``[n, lanes]``. Raises `UndefinedSchema`.
    """
    terms = terms_of(schema, extents, auxiliaries)
    values = code_values(schema.element_format, _codes(schema, carrier, payload, math.prod(extents)))
    with np.errstate(all="ignore"):
        if terms.zero is not None:
            values = values - terms.zero
        if terms.scale is not None:
            values = values * terms.scale
        return values if terms.addend is None else np.asarray(values + terms.addend)


def encode(
    schema: Schema,
    carrier: ScalarFormat,
    lanes: int,
    values: Array,
    extents: tuple[int, ...],
    auxiliaries: Auxiliaries,
) -> tuple[Array, Array]:
    """Payload lanes ``[n, lanes]`` of logical values ``float64[n, elements]``, and which values have no code.

    Without a rounding a value must be that of a code. Raises `UndefinedSchema`.
    """
    terms = terms_of(schema, extents, auxiliaries)
    with np.errstate(all="ignore"):
        if terms.addend is not None:
            values = values - terms.addend
        if terms.scale is not None:
            values = values / terms.scale
        if terms.zero is not None:
            values = values + terms.zero
    try:
        codes, undefined = nearest_codes(schema.element_format, values, schema.rounding)
    except KeyError:
        raise UndefinedSchema(f"rounding '{schema.rounding}' to {schema.element_format}") from None
    count = math.prod(extents)
    order, width = _arrangement(schema, carrier, lanes, count), code_bits(schema.element_format)
    if order is None:
        return from_bits(carrier, codes), undefined
    fields = np.zeros_like(codes)
    fields[:, order] = codes
    bits = (fields[..., None] >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
    words = bits.reshape(codes.shape[0], lanes, carrier.bits) << np.arange(carrier.bits, dtype=np.uint64)
    return from_bits(carrier, words.sum(axis=-1, dtype=np.uint64)), undefined


def _per_element(name: str, code_format: str, auxiliaries: Auxiliaries, group: Array) -> Array:
    """The values of an auxiliary operand for the group of each element; integer lanes of scales hold codes."""
    if name not in auxiliaries:
        raise UndefinedSchema(f"a payload without '{name}'")
    format, lanes = auxiliaries[name]
    if format.kind is Kind.FLOAT:
        values = floats.to_f64(format, lanes)
    elif name in SCALES and code_format == "none":
        raise UndefinedSchema(f"integer lanes of '{name}' without a format")
    elif code_format != "none":
        values = code_values(code_format, to_bits(format, lanes).astype(np.uint64))
    else:
        values = lanes.astype(np.float64)
    if group.size and int(group.max()) >= values.shape[-1]:
        raise UndefinedSchema(f"{int(group.max()) + 1} groups with {values.shape[-1]} lanes of '{name}'")
    return np.asarray(values[..., group])


def _codes(schema: Schema, carrier: ScalarFormat, payload: Array, count: int) -> Array:
    """The code of each element, ``uint64[n, count]``."""
    patterns = to_bits(carrier, payload).astype(np.uint64)
    order, width = _arrangement(schema, carrier, patterns.shape[-1], count), code_bits(schema.element_format)
    if order is None:
        return patterns
    bits = (patterns[..., None] >> np.arange(carrier.bits, dtype=np.uint64)) & np.uint64(1)
    fields = bits.reshape(patterns.shape[0], count, width) << np.arange(width, dtype=np.uint64)
    return np.asarray(fields.sum(axis=-1, dtype=np.uint64)[:, order])


def _arrangement(schema: Schema, carrier: ScalarFormat, lanes: int, count: int) -> Array | None:
    """Which field of the bit string of the lanes each element is; ``None`` for one element in each lane."""
    width = code_bits(schema.element_format)
    if schema.packing == "dense_lanes":
        if lanes != count or carrier.bits < width:
            raise UndefinedSchema(f"{count} elements in {lanes} lanes of {carrier.name}")
        return None
    if lanes * carrier.bits != count * width:
        raise UndefinedSchema(f"{count} elements of {width} bits in {lanes * carrier.bits} bits")
    order = _FIELD_ORDERS.get(schema.packing)
    partial = schema.packing == "halves_of_16" and count % 32 != 0
    if order is None or partial or (width != 4 and schema.packing != "bitfield_stream"):
        raise UndefinedSchema(f"the packing '{schema.packing}' of codes of {width} bits")
    return order(np.arange(count))


#: Which field of the bit stream (least significant bits first) each element is.
_FIELD_ORDERS: Final[Mapping[str, Callable[[Array], Array]]] = {
    "bitfield_stream": lambda j: j,
    "little_endian_nibbles": lambda j: j,
    "big_endian_nibbles": lambda j: j ^ 1,
    # Records of 32: the low nibbles of 16 bytes, then their high nibbles.
    "halves_of_16": lambda j: j // 32 * 32 + 2 * (j % 16) + j // 16 % 2,
}
