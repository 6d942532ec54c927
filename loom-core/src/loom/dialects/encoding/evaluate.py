"""What encoding operations mean: layouts are stride tuples, other encodings their static specification."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from loom.dialects.encoding.parameters import normal_form, schema_property
from loom.evaluate.faults import FaultCode
from loom.evaluate.frame import Frame
from loom.evaluate.layouts import static_layout
from loom.evaluate.numeric.formats import Array
from loom.evaluate.rules import evaluates
from loom.evaluate.values import DENSE, Layout, RuntimeValue, StorageFormat, integer
from loom.ir.attributes import Encoding
from loom.ir.core import Op
from loom.ir.diagnostics import LoomError
from loom.text.directives import index_entries


@evaluates("encoding.layout.dense")
def dense(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Row-major over the extents of the view that uses it."""
    return (DENSE,)


@evaluates("encoding.layout.strided")
def strided(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """One stride in elements per axis."""
    strides = [integer(e) if isinstance(e, int) else frame.env[e] for e in index_entries(op.strides, op.static_strides)]
    for stride in strides:
        lane = frame.offender(stride < 0)
        if lane is not None:
            raise frame.fault(FaultCode.UNDEFINED_RESULT, op, "a stride is negative", lane, reason="stride")
    return (Layout(np.asarray(False), tuple(strides)),)


@evaluates("encoding.define")
def define(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The specification itself; a static layout becomes a layout value, a storage with run-time parts a record."""
    encoding: Encoding = op.definition
    if operands:
        parts = dict(zip(op.keys, operands, strict=True))
        layout, schema = parts.get("layout", encoding.param("layout")), parts.get("schema", encoding.param("schema"))
        if isinstance(layout, Encoding):
            layout = static_layout(op, layout)
        return (StorageFormat(layout, schema),)
    if encoding.family.startswith("encoding.layout."):
        return (static_layout(op, encoding),)
    return (encoding,)


@evaluates("encoding.layout.assume.dense")
def assume_dense(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The same layout. Views that use it check the promise against their extents."""
    layout: Layout = operands[0]
    strides = layout.strides
    if not strides:
        return (layout,)
    fits = strides[-1] == 1
    for outer, inner in itertools.pairwise(strides):
        fits = fits & np.where(inner == 0, outer == 0, outer % np.where(inner == 0, 1, inner) == 0)
    lane = frame.offender(~(layout.dense | fits))
    if lane is not None:
        raise _refuted(frame, op, "the strides fit no dense layout", lane)
    return (Layout(layout.dense, strides, np.asarray(True)),)


@evaluates("encoding.layout.assume.strided")
def assume_strided(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The same layout, which must have a stride for each axis."""
    layout: Layout = operands[0]
    lane = frame.offender(layout.dense)
    if lane is not None:
        raise _refuted(frame, op, "the layout is dense", lane)
    if len(layout.strides) != op.rank:
        raise _refuted(frame, op, f"the layout has {len(layout.strides)} strides", frame.first_active)
    return (layout,)


@evaluates("encoding.assume.spec")
def assume_spec(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The same encoding, which must be the specification."""
    lane = frame.offender(~_is(op, operands[0], op.definition))
    if lane is not None:
        raise _refuted(frame, op, f"the encoding is not {op.definition}", lane)
    return (operands[0],)


@evaluates("encoding.isa")
def isa(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Whether the encoding is exactly the specification."""
    return (_is(op, operands[0], op.definition),)


@evaluates("encoding.matches")
def matches(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Whether the schema has all the properties."""
    return (np.asarray(all(schema_property(operands[0], name) == word for name, word in op.requirements())),)


@evaluates("encoding.assume.match")
def assume_match(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The same schema, which must have all the properties."""
    for name, word in op.requirements():
        actual = schema_property(operands[0], name)
        if actual != word:
            raise _refuted(frame, op, f"'{name}' of the schema is {actual}, not {word}", frame.first_active)
    return (operands[0],)


def _is(op: Op, value: RuntimeValue, encoding: Encoding) -> Array:
    """Lanes in which a value is exactly a specification."""
    if isinstance(value, Layout):
        wanted = static_layout(op, encoding)
        if wanted.dense:
            return value.dense
        if len(wanted.strides) != len(value.strides):
            return np.asarray(False)
        same: Array = ~value.dense
        for mine, theirs in zip(value.strides, wanted.strides, strict=True):
            same = same & (mine == theirs)
        return np.asarray(same)
    if isinstance(value, StorageFormat):
        layout, schema = encoding.param("layout"), encoding.param("schema")
        if not isinstance(layout, Encoding) or not isinstance(schema, Encoding):
            return np.asarray(False)
        return np.asarray(_is(op, value.layout, layout) & _is(op, value.schema, schema))
    return np.asarray(normal_form(value) == normal_form(encoding))


def _refuted(frame: Frame, op: Op, why: str, lane: int) -> LoomError:
    return frame.fault(FaultCode.FALSE_PREDICATE, op, f"the assumption is false: {why}", lane, predicate=op.name)
