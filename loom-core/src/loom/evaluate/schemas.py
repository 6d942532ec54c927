"""Operand schemas: how logical values follow from payloads, scales and offsets.

The formulas are those of the language reference, part 2, sections 11.7 and 11.8. What a schema does not say in
numbers (built-in code books, sparsity, scales of run-time maxima) has no meaning here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import attrs
import numpy as np

from loom.evaluate.numeric import floats
from loom.evaluate.numeric.codes import code_bits, code_values, nearest_codes
from loom.evaluate.numeric.formats import Array, Kind, ScalarFormat, from_bits, to_bits
from loom.evaluate.records import RECORDS, Record
from loom.facts.schemas import (
    FIELD_ORDERS,
    GROUPS,
    INDICES,
    OFFSETS,
    ONE_EACH,
    SCALES,
    TWO_LEVELS,
    Schema,
    UndefinedSchema,
    plain_schema,
)
from loom.ir.attributes import Encoding


def schema_of(encoding: Encoding) -> Schema:
    """The schema of a static specification. Raises `UndefinedSchema` for one without a decoding rule."""
    record = RECORDS.get(encoding.family)
    if record is not None:
        scales = tuple(name for name in SCALES if name in record.groups)
        sign = "i" if record.is_signed else "u"
        return Schema(f"{sign}{record.width}", "record", scale_format="f16", scales=scales, record=record)

    schema = plain_schema(encoding)
    if schema.element_format != INDICES or not schema.codebook:
        try:
            code_bits(schema.element_format)
        except KeyError:
            raise UndefinedSchema(f"values of format '{schema.element_format}'") from None
    return schema


def element_count(schema: Schema, carrier: ScalarFormat, lanes: int) -> int:
    """How many elements a payload of so many lanes holds. Raises `UndefinedSchema` when that is no whole number."""
    if schema.element_format == INDICES or schema.packing in ONE_EACH:
        return lanes
    bits, width = lanes * carrier.bits, code_bits(schema.element_format)
    record: Record | None = schema.record
    if record is not None and bits % (8 * record.size) == 0:
        return bits // (8 * record.size) * record.elements
    if bits % width:
        raise UndefinedSchema(f"codes of {width} bits in {bits} bits")
    return bits // width


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
    ordinal = np.arange(math.prod(extents))
    if schema.record is not None:
        given = {
            name: _values(name, schema.scale_format if name == "scale" else "none", auxiliaries)
            for name in schema.record.groups
            if name != "sum_correction"
        }
        return _record_terms(schema.record, ordinal, given)
    groups = _groups(schema, extents, ordinal)
    zero: Array | None = None
    scale: Array | None = None
    addend: Array | None = None
    name = OFFSETS.get(schema.affine)
    if name is not None:
        term = _of_groups(name, _values(name, "none", auxiliaries), groups[-1])
        zero, addend = (term, addend) if name == "zero_point" else (zero, term)
    formats = (schema.scale_format, schema.secondary_format)
    for scale_name, code_format, group in zip(schema.scales, formats, groups, strict=False):
        term = _of_groups(scale_name, _values(scale_name, code_format, auxiliaries), group)
        scale = term if scale is None else scale * term
    return Terms(zero, scale, addend)


def _groups(schema: Schema, extents: tuple[int, ...], ordinal: Array) -> tuple[Array, Array, Array]:
    """The group of each element for the first scale, the second one, and for offsets."""
    if schema.topology == "block_2d" and len(extents) != 2:
        raise UndefinedSchema("blocks of two axes in a vector of another rank")
    if schema.topology in TWO_LEVELS:
        inner = ordinal // math.prod(schema.group)
        return ordinal // schema.record_elements, inner, inner
    group = ordinal * 0
    if schema.topology in GROUPS and ordinal.size:
        group = GROUPS[schema.topology](np.unravel_index(ordinal, extents), ordinal, schema.group, extents)
    # A second scale belongs to the whole vector.
    return group, ordinal * 0, group


def _record_terms(record: Record, ordinal: Array, terms: Mapping[str, Array]) -> Terms:
    """Scales multiply; a minimum is subtracted."""
    spread = {name: _of_groups(name, values, ordinal // record.groups[name]) for name, values in terms.items()}
    scale = spread["scale"]
    if "secondary_scale" in spread:
        scale = scale * spread["secondary_scale"]
    zero = np.asarray(float(record.excess)) if record.excess else None
    return Terms(zero, scale, -spread["minimum"] if "minimum" in spread else None)


def decode(
    schema: Schema, carrier: ScalarFormat, payload: Array, extents: tuple[int, ...], auxiliaries: Auxiliaries
) -> tuple[Array, Array]:
    """The logical values ``float64[n, elements]`` of a vector with the given extents, and which have no value.

    ``payload`` are stored lanes ``[n, lanes]``. A code without value is an index outside of the code book. Raises
    `UndefinedSchema`.
    """
    count = math.prod(extents)
    codes, terms = _split(schema, carrier, payload, count)
    if terms is None:
        terms = terms_of(schema, extents, auxiliaries)
    elif auxiliaries:
        raise UndefinedSchema("whole records with operands that stand for their headers")
    undefined = np.zeros(codes.shape, dtype=np.bool_)
    if schema.codebook:
        values, undefined = _looked_up(_values("codebook", "none", auxiliaries), codes)
    else:
        values = code_values(schema.element_format, codes)
    with np.errstate(all="ignore"):
        if terms.zero is not None:
            values = values - terms.zero
        if terms.scale is not None:
            values = values * terms.scale
        return np.asarray(values if terms.addend is None else values + terms.addend), undefined


def _looked_up(table: Array, codes: Array) -> tuple[Array, Array]:
    count = max(codes.shape[0], table.shape[0])
    codes = np.broadcast_to(codes, (count, codes.shape[-1]))
    rows = np.broadcast_to(table, (count, table.shape[-1]))
    outside = codes >= table.shape[-1]
    return np.take_along_axis(rows, np.where(outside, 0, codes).astype(np.int64), axis=-1), outside


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
    count = math.prod(extents)
    if schema.codebook:
        raise UndefinedSchema("encoding with a code book")
    if schema.record is not None and lanes * carrier.bits == count // schema.record.elements * schema.record.size * 8:
        raise UndefinedSchema("encoding whole records")
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
    positions = _positions(schema, carrier, lanes, count)
    if positions is None:
        return from_bits(carrier, codes), undefined
    bits = np.zeros((codes.shape[0], lanes * carrier.bits), dtype=np.uint64)
    bits[:, positions] = (codes[..., None] >> np.arange(positions.shape[1], dtype=np.uint64)) & np.uint64(1)
    words = bits.reshape(codes.shape[0], lanes, carrier.bits) << np.arange(carrier.bits, dtype=np.uint64)
    return from_bits(carrier, words.sum(axis=-1, dtype=np.uint64)), undefined


def _values(name: str, code_format: str, auxiliaries: Auxiliaries) -> Array:
    """The values ``float64[n, lanes]`` of an auxiliary operand; integer lanes of scales hold codes of a format."""
    if name not in auxiliaries:
        raise UndefinedSchema(f"a payload without '{name}'")
    format, lanes = auxiliaries[name]
    if format.kind is Kind.FLOAT:
        return floats.to_f64(format, lanes)
    if code_format != "none":
        return code_values(code_format, to_bits(format, lanes).astype(np.uint64))
    if name == "scale":
        raise UndefinedSchema(f"integer lanes of '{name}' without a format")
    return lanes.astype(np.float64)


def _of_groups(name: str, values: Array, group: Array) -> Array:
    """The value of each element's group."""
    if group.size and int(group.max()) >= values.shape[-1]:
        raise UndefinedSchema(f"{int(group.max()) + 1} groups with {values.shape[-1]} lanes of '{name}'")
    return np.asarray(values[..., group])


def _split(schema: Schema, carrier: ScalarFormat, payload: Array, count: int) -> tuple[Array, Terms | None]:
    """The code of each element, ``uint64[n, count]``, and the terms of headers when there are headers."""
    patterns = to_bits(carrier, payload)
    terms: Terms | None = None
    record = schema.record
    if record is not None and count % record.elements == 0 and carrier.bits >= 8:
        raw = np.ascontiguousarray(patterns).view(np.uint8)
        if raw.shape[-1] == count // record.elements * record.size:
            patterns, header = record.split(raw)
            header.pop("sum_correction", None)
            terms = _record_terms(record, np.arange(count), header)
            carrier = _BYTE
    lanes = patterns.shape[-1]
    positions = _positions(schema, carrier, lanes, count)
    patterns = patterns.astype(np.uint64)
    if positions is None:
        return patterns, terms
    bits = (patterns[..., None] >> np.arange(carrier.bits, dtype=np.uint64)) & np.uint64(1)
    string = bits.reshape(patterns.shape[0], lanes * carrier.bits)
    fields = string[:, positions] << np.arange(positions.shape[1], dtype=np.uint64)
    return np.asarray(fields.sum(axis=-1, dtype=np.uint64)), terms


def _positions(schema: Schema, carrier: ScalarFormat, lanes: int, count: int) -> Array | None:
    """Where each bit of each element's code is in the bit string of the lanes, ``int64[count, width]``.

    ``None`` for one element in each lane.
    """
    if schema.element_format == INDICES or schema.packing in ONE_EACH:
        width = 1 if schema.element_format == INDICES else code_bits(schema.element_format)
        if lanes != count or carrier.bits < width or schema.packing not in ONE_EACH:
            raise UndefinedSchema(f"{count} elements in {lanes} lanes of {carrier.name}")
        return None
    width = code_bits(schema.element_format)
    if lanes * carrier.bits != count * width:
        raise UndefinedSchema(f"{count} elements of {width} bits in {lanes * carrier.bits} bits")
    element = np.arange(count)
    record: Record | None = schema.record
    if record is not None:
        if count % record.elements:
            raise UndefinedSchema(f"{count} elements of records of {record.elements}")
        return record.positions[element % record.elements] + (
            element // record.elements * record.code_bytes * 8
        ).reshape(-1, 1)
    order = FIELD_ORDERS.get(schema.packing)
    if order is None or (width != 4 and schema.packing != "bitfield_stream"):
        raise UndefinedSchema(f"the packing '{schema.packing}' of codes of {width} bits")
    return np.asarray(order(element)[:, None] * width + np.arange(width))


_BYTE: Final = ScalarFormat("byte", Kind.INTEGER, 8, np.dtype(np.uint8))
