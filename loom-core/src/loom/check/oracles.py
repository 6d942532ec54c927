"""Reference oracles for `check.oracle.call`: matrix products computed plainly, in a stated order.

Sums run over k in ascending order, one product at a time, so that results do not depend on the
machine or on the linear-algebra library that NumPy was built with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from loom.check.elements import element_type, is_float
from loom.check.errors import CheckError
from loom.check.host_tensor import HostTensor
from loom.check.matrix_formats import (
    MATRIX_FORMATS,
    Format,
    IntegerFormat,
    check_range,
    decode,
    encode,
    holds,
    rounded,
)
from loom.evaluate.numeric.formats import F32, ScalarFormat
from loom.ir.types import Type
from loom.ir.types import element_type as ir_element_type

Array = NDArray[Any]

ROLES = ("lhs", "rhs", "accumulator", "result")
"""The attributes of a matrix product, all present or all absent."""


@frozen
class MatrixDomain:
    """The formats a matrix product reads, sums in and delivers."""

    lhs: Format
    rhs: Format
    init: Format
    accumulator: Format
    result: Format


def matmul(
    lhs: HostTensor,
    rhs: HostTensor,
    init: HostTensor,
    result: ScalarFormat,
    attributes: Mapping[str, object],
) -> HostTensor:
    """`reference.matmul`: `init[M,N] + lhs[M,K] @ rhs[K,N]`, delivered in element type `result`.

    Without attributes (an empty dictionary) all operands are floats by their own types, sums are `f64`
    and the result `f32`. With them, the four strings `lhs`, `rhs`, `accumulator` and `result` name
    formats. An integer tensor may also hold the bits of an 8-bit float. `init` has the accumulator's
    format if its element type can hold that, otherwise the result's. A floating-point accumulator
    rounds every partial sum to its format; an integer one is exact. Raises `CheckError` for shapes or
    formats that do not fit, and for a sum or a result that is out of range.
    """
    lhs_shape, rhs_shape, init_shape = _shapes((lhs, rhs, init), rank=2)
    if lhs_shape[1] != rhs_shape[0] or init_shape != (lhs_shape[0], rhs_shape[1]):
        raise CheckError(_shape_fault("lhs[M,K], rhs[K,N], init[M,N]", (lhs, rhs, init)))
    return _product(lhs, rhs, init, result, attributes)


def tiled_matmul(
    lhs: HostTensor,
    rhs: HostTensor,
    init: HostTensor,
    result: ScalarFormat,
    attributes: Mapping[str, object],
) -> HostTensor:
    """`reference.tiled_matmul`: as `matmul`, over matrices stored as tiles.

    Shapes are `lhs[Mt,Kt,M,K]`, `rhs[Kt,Nt,K,N]` and `init[Mt,Nt,M,N]`; the result has that of `init`.
    """
    lhs_shape, rhs_shape, init_shape = _shapes((lhs, rhs, init), rank=4)
    fits = (lhs_shape[1], lhs_shape[3]) == (rhs_shape[0], rhs_shape[2])
    if not fits or init_shape != (lhs_shape[0], rhs_shape[1], lhs_shape[2], rhs_shape[3]):
        raise CheckError(_shape_fault("lhs[Mt,Kt,M,K], rhs[Kt,Nt,K,N], init[Mt,Nt,M,N]", (lhs, rhs, init)))
    flat = _product(_untiled(lhs), _untiled(rhs), _untiled(init), result, attributes)
    rows, columns, tile_rows, tile_columns = init_shape
    tiles = flat.array.reshape(rows, tile_rows, columns, tile_columns).transpose(0, 2, 1, 3)
    return HostTensor(result, np.ascontiguousarray(tiles))


def reference_matmul(
    attributes: Mapping[str, object], inputs: Sequence[HostTensor], types: Sequence[Type]
) -> HostTensor:
    """`matmul` as `check.oracle.call` calls it: three inputs and one result type."""
    lhs, rhs, init = _operands(inputs, types)
    return matmul(lhs, rhs, init, _result_element(types), attributes)


def reference_tiled_matmul(
    attributes: Mapping[str, object], inputs: Sequence[HostTensor], types: Sequence[Type]
) -> HostTensor:
    """`tiled_matmul` as `check.oracle.call` calls it: three inputs and one result type."""
    lhs, rhs, init = _operands(inputs, types)
    return tiled_matmul(lhs, rhs, init, _result_element(types), attributes)


def _operands(inputs: Sequence[HostTensor], types: Sequence[Type]) -> tuple[HostTensor, HostTensor, HostTensor]:
    if len(inputs) != 3 or len(types) != 1:
        raise CheckError(
            f"a matrix product takes lhs, rhs and init and has one result, not {len(inputs)} inputs "
            f"and {len(types)} results"
        )
    lhs, rhs, init = inputs
    return lhs, rhs, init


def _result_element(types: Sequence[Type]) -> ScalarFormat:
    return element_type(ir_element_type(types[0]).text)


def _untiled(tensor: HostTensor) -> HostTensor:
    rows, columns, tile_rows, tile_columns = tensor.shape
    flat = tensor.array.transpose(0, 2, 1, 3).reshape(rows * tile_rows, columns * tile_columns)
    return HostTensor(tensor.element, np.ascontiguousarray(flat))


def _product(
    lhs: HostTensor,
    rhs: HostTensor,
    init: HostTensor,
    result: ScalarFormat,
    attributes: Mapping[str, object],
) -> HostTensor:
    domain = _domain(lhs, rhs, init, result, attributes)
    left, right = decode(domain.lhs, lhs), decode(domain.rhs, rhs)
    start = decode(domain.init, init)
    if isinstance(domain.accumulator, IntegerFormat):
        sums = _integer_sums(left, right, start)
        low, high = domain.accumulator.range
        check_range(np.asarray((sums < low) | (sums > high)), sums, domain.accumulator, "accumulator")
    else:
        sums = _float_sums(left.astype(np.float64), right.astype(np.float64), start, domain.accumulator)
    return HostTensor(result, encode(domain.result, sums).view(result.dtype))


def _integer_sums(left: Array, right: Array, start: Array) -> Array:
    """Exact sums of products: in 64 bits when no partial sum can overflow them, else in Python's integers."""
    bound = _largest(left) * _largest(right) * left.shape[1] + _largest(start)
    if bound < 1 << 63:
        return np.asarray(left.astype(np.int64) @ right.astype(np.int64) + start.astype(np.int64))
    return np.asarray(left.astype(object) @ right.astype(object) + start.astype(object))


def _largest(values: Array) -> int:
    return max(abs(int(values.min())), abs(int(values.max()))) if values.size else 0


def _float_sums(left: Array, right: Array, start: Array, accumulator: Format) -> Array:
    sums = start.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(left.shape[1]):
            sums = rounded(accumulator, sums + left[:, k, None] * right[None, k, :])
    finite_rows = np.isfinite(left).all(axis=1, keepdims=True)
    finite = finite_rows & np.isfinite(right).all(axis=0, keepdims=True) & np.isfinite(start)
    check_range(finite & ~np.isfinite(sums), sums, accumulator, "accumulator")
    return sums


def _domain(
    lhs: HostTensor,
    rhs: HostTensor,
    init: HostTensor,
    result: ScalarFormat,
    attributes: Mapping[str, object],
) -> MatrixDomain:
    if not attributes:
        return _default_domain(lhs, rhs, init, result)
    if sorted(attributes) != sorted(ROLES):
        given = ", ".join(sorted(attributes))
        raise CheckError(f"a matrix product takes exactly the attributes {', '.join(ROLES)}, not {given}")
    formats = {role: _format(role, attributes[role]) for role in ROLES}
    accumulator = formats["accumulator"]
    init_format = accumulator if holds(init.element, accumulator) else formats["result"]
    domain = MatrixDomain(formats["lhs"], formats["rhs"], init_format, accumulator, formats["result"])
    for role, element, format in (
        ("lhs", lhs.element, domain.lhs),
        ("rhs", rhs.element, domain.rhs),
        ("init", init.element, domain.init),
        ("result", result, domain.result),
    ):
        if not holds(element, format):
            raise CheckError(f"{role} of element type {element.name} cannot hold format {format.name}")
    _check_domain(domain)
    return domain


def _default_domain(lhs: HostTensor, rhs: HostTensor, init: HostTensor, result: ScalarFormat) -> MatrixDomain:
    for role, tensor in (("lhs", lhs), ("rhs", rhs), ("init", init)):
        if not is_float(tensor.element):
            raise CheckError(
                f"{role} has element type {tensor.element.name}; without format attributes a matrix "
                "product is floating-point"
            )
    if result is not F32:
        raise CheckError(f"without format attributes a matrix product delivers f32, not {result.name}")
    left, right, start = (MATRIX_FORMATS[tensor.element.name] for tensor in (lhs, rhs, init))
    return MatrixDomain(left, right, start, MATRIX_FORMATS["f64"], MATRIX_FORMATS["f32"])


def _check_domain(domain: MatrixDomain) -> None:
    # Floating-point inputs have no exact integer sum; all else has a meaning when each side is uniform.
    inputs = {isinstance(format, IntegerFormat) for format in (domain.lhs, domain.rhs)}
    outputs = {isinstance(format, IntegerFormat) for format in (domain.init, domain.accumulator, domain.result)}
    if (inputs, outputs) not in (({False}, {False}), ({True}, {True}), ({True}, {False})):
        raise CheckError(
            "a matrix product is all floating-point, all integer, or has integer inputs with a "
            f"floating-point accumulator and result, not lhs {domain.lhs.name}, rhs {domain.rhs.name}, "
            f"accumulator {domain.accumulator.name}, result {domain.result.name}"
        )


def _format(role: str, name: object) -> Format:
    if not isinstance(name, str) or name not in MATRIX_FORMATS:
        raise CheckError(f"{role} format {name!r} is unknown; known are {', '.join(MATRIX_FORMATS)}")
    return MATRIX_FORMATS[name]


def _shapes(tensors: Sequence[HostTensor], rank: int) -> list[tuple[int, ...]]:
    shapes = [tensor.shape for tensor in tensors]
    if any(len(shape) != rank for shape in shapes):
        raise CheckError(f"a matrix product here takes operands of rank {rank}, not shapes {_list(shapes)}")
    return shapes


def _shape_fault(wanted: str, tensors: Sequence[HostTensor]) -> str:
    return f"operand shapes {_list([tensor.shape for tensor in tensors])} do not fit {wanted}"


def _list(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(str(list(shape)) for shape in shapes)
