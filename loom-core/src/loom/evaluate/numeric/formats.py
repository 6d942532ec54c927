"""The scalar value types as NumPy arrays: storage, widths and domains.

| type | stored as | reading |
|---|---|---|
| `i1` | `bool` | `True` is 1; signed operations read it as -1 |
| `i8` `i16` `i32` `i64` | `int8` ... `int64` | two's complement; the operation chooses the signedness |
| `index` | `int64` | signed coordinate |
| `offset` | `int64` | byte distance, 0 to 2**63 - 1 |
| `f16` `f32` `f64` | `float16` `float32` `float64` | IEEE 754 binary |
| `bf16` | `uint16` | bit pattern |
| `f8E4M3` `f8E5M2` | `uint8` | bit pattern |

Types whose arithmetic NumPy does not have are kept as bit patterns, so that moving, storing and comparing
bits never goes through a conversion. A storage dtype alone does not name the type (both 8-bit floats are
`uint8`), which is why every function of this package is told the format.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]


class Kind(enum.Flag):
    """The families of scalar types; a union of members describes what an operand may be."""

    INTEGER = enum.auto()
    FLOAT = enum.auto()
    INDEX = enum.auto()
    OFFSET = enum.auto()
    ADDRESS = INDEX | OFFSET
    PAYLOAD = INTEGER | FLOAT
    ANY = INTEGER | FLOAT | INDEX | OFFSET


@attrs.frozen(eq=False)
class ScalarFormat:
    """One scalar type: its family, its width in bits and the NumPy dtype that stores it.

    There is one object for each type (`FORMATS`), compared and hashed by identity.
    """

    name: str
    kind: Kind
    bits: int
    dtype: np.dtype[Any]

    @property
    def minimum(self) -> int:
        """The smallest value of an integer or address type, read as signed."""
        return 0 if self.kind is Kind.OFFSET else -(1 << (self.bits - 1))

    @property
    def maximum(self) -> int:
        """The largest value of an integer or address type, read as signed."""
        return (1 << (self.bits - 1)) - 1

    @property
    def unsigned_maximum(self) -> int:
        """The largest value of an integer or address type, read as unsigned."""
        return (1 << self.bits) - 1


def _format(name: str, kind: Kind, bits: int, storage: type[np.generic]) -> ScalarFormat:
    return ScalarFormat(name, kind, bits, np.dtype(storage))


I1 = _format("i1", Kind.INTEGER, 1, np.bool_)
I8 = _format("i8", Kind.INTEGER, 8, np.int8)
I16 = _format("i16", Kind.INTEGER, 16, np.int16)
I32 = _format("i32", Kind.INTEGER, 32, np.int32)
I64 = _format("i64", Kind.INTEGER, 64, np.int64)
INDEX = _format("index", Kind.INDEX, 64, np.int64)
OFFSET = _format("offset", Kind.OFFSET, 64, np.int64)
F8E4M3 = _format("f8E4M3", Kind.FLOAT, 8, np.uint8)
F8E5M2 = _format("f8E5M2", Kind.FLOAT, 8, np.uint8)
F16 = _format("f16", Kind.FLOAT, 16, np.float16)
BF16 = _format("bf16", Kind.FLOAT, 16, np.uint16)
F32 = _format("f32", Kind.FLOAT, 32, np.float32)
F64 = _format("f64", Kind.FLOAT, 64, np.float64)

FORMATS: Mapping[str, ScalarFormat] = {
    format.name: format for format in (I1, I8, I16, I32, I64, INDEX, OFFSET, F8E4M3, F8E5M2, F16, BF16, F32, F64)
}

#: The unsigned integer dtype of each storage size in bytes.
UNSIGNED: Mapping[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
}


def to_bits(format: ScalarFormat, stored: Array) -> Array:
    """The bit patterns of stored values, as an unsigned array of the storage size (`i1` gives 0 and 1)."""
    return np.asarray(stored).view(UNSIGNED[format.dtype.itemsize])


def from_bits(format: ScalarFormat, patterns: Array) -> Array:
    """Stored values from unsigned bit patterns; bits above the format's width are dropped."""
    if format is I1:
        return np.asarray(patterns & patterns.dtype.type(1)).astype(np.bool_)
    return patterns.astype(UNSIGNED[format.dtype.itemsize], copy=False).view(format.dtype)


def signed(format: ScalarFormat, stored: Array) -> Array:
    """Stored integers as signed NumPy integers; `i1` true becomes -1."""
    return np.asarray(np.negative(stored.view(np.int8))) if format is I1 else stored


def unsigned(format: ScalarFormat, stored: Array) -> Array:
    """Stored integers as unsigned NumPy integers of the same size; `i1` true becomes 1."""
    return np.asarray(stored).view(UNSIGNED[format.dtype.itemsize])


def wrapped(format: ScalarFormat, values: Array) -> Array:
    """Integers of any NumPy integer dtype, reduced modulo 2**bits into the storage of the format."""
    if format is I1:
        return np.asarray(values & values.dtype.type(1)).astype(np.bool_)
    return values.astype(format.dtype, copy=False)
