"""Forming views: extents and element strides from view types and layout values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from loom.evaluate.faults import FaultCode, fault, unsupported
from loom.evaluate.numeric.formats import Array
from loom.evaluate.values import DENSE, Buffer, Layout, StorageFormat, View, integer
from loom.ir.attributes import Encoding
from loom.ir.core import Op, Value
from loom.ir.types import ShapedType, Type

if TYPE_CHECKING:
    from loom.evaluate.frame import Frame


def form_view(frame: Frame, op: Op, buffer: Buffer, origin: Array, type_: Type) -> View:
    """The window of a type at a byte offset of a root; extents and layout as they are now."""
    assert isinstance(type_, ShapedType)
    extents = tuple(frame.extent(d) for d in type_.dims)
    return View(buffer, origin, extents, strides_of(frame, op, type_, extents))


def strides_of(frame: Frame, op: Op, type_: ShapedType, extents: Sequence[Array]) -> tuple[Array, ...]:
    """Element strides of a view type: row-major over the extents unless it names a strided layout."""
    layout = _layout(frame, op, type_.encoding)
    dense = dense_strides(extents)
    if not layout.strides:
        return dense
    if len(layout.strides) != len(extents):
        raise fault(
            FaultCode.RANK,
            op,
            f"a layout of {len(layout.strides)} strides for a view of rank {len(extents)}",
            rank_a=len(layout.strides),
            rank_b=len(extents),
        )
    if layout.promised.any():
        _check_promise(frame, op, layout, extents, dense)
    if layout.dense.ndim == 0 and not layout.dense:
        return layout.strides
    return tuple(np.where(layout.dense, d, s) for d, s in zip(dense, layout.strides, strict=True))


def _check_promise(frame: Frame, op: Op, layout: Layout, extents: Sequence[Array], dense: Sequence[Array]) -> None:
    """Fault where strides that were promised to be dense are not those of the view; a single element has none."""
    for axis, (extent, wanted, stride) in enumerate(zip(extents, dense, layout.strides, strict=True)):
        lane = frame.offender(layout.promised & ~layout.dense & (extent > 1) & (stride != wanted))
        if lane is not None:
            raise frame.fault(
                FaultCode.FALSE_PREDICATE,
                op,
                f"a layout assumed to be dense has another stride than the view's on axis {axis}",
                lane,
                predicate="dense",
            )


def dense_strides(extents: Sequence[Array]) -> tuple[Array, ...]:
    """Row-major strides in elements."""
    strides: list[Array] = []
    stride: Array = integer(1)
    with np.errstate(over="ignore"):
        for extent in reversed(extents):
            strides.append(stride)
            stride = np.asarray(stride * extent)
    return tuple(reversed(strides))


def _layout(frame: Frame, op: Op, encoding: Encoding | Value | None) -> Layout:
    if encoding is None:
        return DENSE
    if isinstance(encoding, Value):
        value = frame.env[encoding]
        if isinstance(value, StorageFormat):
            return value.layout
        if isinstance(value, Layout):
            return value
        encoding = value
    assert isinstance(encoding, Encoding)
    return static_layout(op, encoding)


def static_layout(op: Op, encoding: Encoding) -> Layout:
    """The layout of a static specification. Raises a diagnostic for one that is no layout."""
    if encoding.family == "encoding.layout.dense":
        return DENSE
    if encoding.family == "encoding.layout.strided":
        strides = encoding.param("strides", ())
        assert isinstance(strides, tuple)
        return Layout(np.asarray(False), tuple(integer(s) for s in strides))
    if encoding.family == "encoding.storage":
        layout = encoding.param("layout")
        if isinstance(layout, Encoding):
            return static_layout(op, layout)
    raise unsupported(op, f"the encoding {encoding} does not place elements")
