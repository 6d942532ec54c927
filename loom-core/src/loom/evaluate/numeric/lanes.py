"""Operations that combine lanes of one vector: bit streams, tables, transforms and lane patterns.

A vector's lanes are the last axis, in lane order (row-major over its shape); any axes before it are
independent evaluations, for instance the work-items of a kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loom.evaluate.numeric import floats
from loom.evaluate.numeric.bits import population_count, sign_extended
from loom.evaluate.numeric.formats import Array, ScalarFormat, from_bits, to_bits, wrapped
from loom.evaluate.numeric.outcome import Fault, FaultKind, Outcome


def _to_bit_string(patterns: Array, width: int) -> Array:
    """The low `width` bits of every lane laid end to end, least significant first: `[..., lanes * width]`."""
    positions = np.arange(width, dtype=np.uint64)
    bits = (patterns.astype(np.uint64)[..., None] >> positions) & np.uint64(1)
    return np.asarray(bits.reshape(*patterns.shape[:-1], patterns.shape[-1] * width))


def _from_bit_string(bits: Array, width: int) -> Array:
    """Fields of `width` bits as `uint64`: `[..., bits / width]`."""
    if bits.shape[-1] % width:
        raise TypeError(f"{bits.shape[-1]} bits do not divide into fields of {width}")
    fields = bits.reshape(*bits.shape[:-1], bits.shape[-1] // width, width)
    return np.asarray((fields << np.arange(width, dtype=np.uint64)).sum(axis=-1, dtype=np.uint64))


def bitcast(source: ScalarFormat, result: ScalarFormat, lanes: Array) -> Array:
    """Cut the bits of all lanes anew into lanes of another format; TypeError if they do not divide evenly."""
    bits = _to_bit_string(to_bits(source, lanes), source.bits)
    return from_bits(result, _from_bit_string(bits, result.bits))


def bitpack(source: ScalarFormat, result: ScalarFormat, lanes: Array, width: int) -> Array:
    """Concatenate the low `width` bits of each lane into lanes of the result format."""
    _check_width(source, width)
    return wrapped(result, _from_bit_string(_to_bit_string(to_bits(source, lanes), width), result.bits))


def bitunpack(source: ScalarFormat, result: ScalarFormat, lanes: Array, width: int, signed_fields: bool) -> Array:
    """Split the bit string of the lanes into fields of `width` bits, extended to the result format."""
    _check_width(result, width)
    fields = _from_bit_string(_to_bit_string(to_bits(source, lanes), source.bits), width)
    return wrapped(result, sign_extended(fields, width) if signed_fields else fields)


def _check_width(format: ScalarFormat, width: int) -> None:
    if not 1 <= width <= format.bits:
        raise TypeError(f"fields of {width} bits do not fit {format.name}")


def iota(format: ScalarFormat, base: Any, step: Any, lanes: int) -> Array:
    """base + i * step for lane i, wrapping; base and step have the shape of the leading axes."""
    ordinals = np.arange(lanes, dtype=np.int64)
    start, stride = (np.asarray(value).astype(np.int64)[..., None] for value in (base, step))
    with np.errstate(all="ignore"):
        return wrapped(format, start + ordinals * stride)


def mask_range(format: ScalarFormat, lower: Any, upper: Any, step: Any, lanes: int) -> Array:
    """Lane i is whether lower + i * step < upper, signed, with lane arithmetic that wraps."""
    return np.asarray(iota(format, lower, step, lanes) < np.asarray(upper)[..., None])


def table_lookup(indices: ScalarFormat, table: Array, positions: Array) -> Outcome:
    """table[..., position] for each lane; leading axes correspond. Positions outside the table are faults.

    Positions are read as signed, but for `i1`, which is 0 or 1.
    """
    count = table.shape[-1]
    index = positions.astype(np.int64)
    outside = (index < 0) | (index >= count)
    faults = (Fault(FaultKind.TABLE_INDEX, outside),) if outside.any() else ()
    if count == 0:
        return Outcome(np.zeros(positions.shape, dtype=table.dtype), faults)
    leading = np.broadcast_shapes(table.shape[:-1], index.shape[:-1])
    entries = np.broadcast_to(table, (*leading, count))
    lanes = np.broadcast_to(np.where(outside, 0, index), (*leading, index.shape[-1]))
    return Outcome(np.take_along_axis(entries, lanes, axis=-1), faults)


def table_quantize(
    format: ScalarFormat, result: ScalarFormat, lanes: Array, thresholds: Array, nan: str, tie: str
) -> Outcome:
    """The number of thresholds below each lane (`tie` lower: t < x, upper: t <= x); NaN gives 0 or the count.

    Thresholds are the last axis; where they do not ascend, or one is NaN, all lanes are faults.
    """
    x = floats.values(format, lanes)[..., :, None]
    t = floats.values(format, thresholds)[..., None, :]
    below = {"lower": np.less, "upper": np.less_equal}[tie](t, x)
    codes = below.sum(axis=-1, dtype=np.int64)
    for_nan = {"zero": 0, "max": thresholds.shape[-1]}[nan]
    value = wrapped(result, np.where(np.isnan(x[..., 0]), for_nan, codes))
    # A single threshold ascends unless it is NaN.
    ordered = (t[..., :-1] <= t[..., 1:]).all(axis=-1) & ~np.isnan(t).any(axis=-1)
    disordered = np.broadcast_to(~ordered, value.shape)
    return Outcome(value, (Fault(FaultKind.THRESHOLDS, disordered),) if disordered.any() else ())


_NORMALIZATIONS = ("none", "orthonormal")


def hadamard(format: ScalarFormat, lanes: Array, normalization: str = "none") -> Array:
    """out[o] = scale * sum over ascending i of (-1)**popcount(o & i) * in[i] on the last axis.

    The sum is accumulated in float64 and rounded once after scaling. The extent must be a power of two
    (TypeError); the scale is 1, or 1 / sqrt(extent) for `orthonormal`.
    """
    count = lanes.shape[-1]
    if count < 1 or count & (count - 1):
        raise TypeError(f"a Hadamard transform needs a power of two of lanes, not {count}")
    if normalization not in _NORMALIZATIONS:
        raise TypeError(f"unknown normalization {normalization}")
    order = np.arange(count, dtype=np.uint64)
    values = floats.to_f64(format, lanes)
    with np.errstate(all="ignore"):
        total = np.zeros(lanes.shape, dtype=np.float64)
        for i in range(count):
            negative = population_count(order & np.uint64(i)) & np.uint64(1) != 0
            term = values[..., i : i + 1]
            total = total + np.where(negative, -term, term)
        scale = 1.0 if normalization == "none" else 1.0 / np.sqrt(np.float64(count))
        return floats.computed(format, total * scale)
