"""Rules of single ``channel`` operations (language reference, part 2, section 14.5).

That every obligation is met exactly once is checked for whole bodies; see :mod:`loom.dialects.channel.ownership`.
"""

from __future__ import annotations

from typing import Any

from loom.dialects.constants import index_constant
from loom.dialects.scf.verify import out_of_contract
from loom.dialects.vector.checks import (
    Findings,
    elements_differ,
    operand_error,
    ranks_differ,
    same_dims,
    shapes_differ,
)
from loom.ir.core import Op, Value
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import ERROR, NestedType, ScalarType, ShapedType, Type


def payload_of(type_: Type) -> Type:
    """The payload of a channel, read or write type; the error type for anything that did not parse."""
    return type_.parts[0] if isinstance(type_, NestedType) else ERROR


def record_shape(payload: Type) -> ShapedType | None:
    """A payload as the shape of a record in memory; ``None`` for a payload that no view can address."""
    if isinstance(payload, ShapedType) and payload.kind in ("tile", "vector"):
        return payload
    return ShapedType.get("tile", (), payload) if isinstance(payload, ScalarType) else None


def bind(op: Any) -> Findings:
    """Slots of one record each; room for at least one."""
    slots, channel = op.slots.type, op.result.type
    if ERROR in (slots, channel):
        return []
    found: Findings = []
    capacity = index_constant(op.capacity)
    if capacity is not None and capacity < 1:
        found.append(out_of_contract(op, "capacity", capacity, "at least 1"))
    payload = payload_of(channel)
    record = record_shape(payload)
    if slots.rank == 0:
        return [*found, operand_error(op, "slots", slots, "a view with an axis of slots")]
    if record is None:
        return [*found, _result_error(op, "result", channel, "a channel of a tile, vector or scalar")]
    one = ShapedType.get("view", slots.dims[1:], slots.element)
    return [*found, *_fits(op, "slots", one, "payload", record)]


def _fits(op: Op, a: str, view: ShapedType, b: str, record: ShapedType) -> Findings:
    """Whether a view of one record has the shape of the payload."""
    if view.element is not record.element:
        return [elements_differ(op, a, view.element, b, record.element)]
    if view.rank != record.rank:
        return [ranks_differ(op, a, view.rank, b, record.rank)]
    return [] if same_dims(view, record) else [shapes_differ(op, a, b)]


def _view(op: Any, payload: Type) -> Findings:
    """The view of a record has the shape of the payload."""
    record = record_shape(payload)
    if op.record.type is ERROR or record is None:
        return []
    return _fits(op, "record", op.record.type, "payload", record)


def _end(op: Any, payload: Type) -> Findings:
    """The obligation is about the channel's payload."""
    found = payload_of(op.obligation.type)
    if found == payload or ERROR in (found, payload):
        return []
    return [
        Diagnostic(
            "TYPE/001",
            f"'{op.name}' takes a record {found} from a channel of {payload}",
            op.loc,
            {"field_a": "obligation", "type_a": op.obligation.type, "field_b": "channel", "type_b": op.channel.type},
        )
    ]


def _access(op: Any) -> Findings:
    """A mutable read comes from a mutable acceptance, and the other way round."""
    type_ = op.obligation.type
    if type_ is ERROR or type_.mutable == (op.access == "mutable"):
        return []
    return [_result_error(op, "obligation", type_, "mutable" if op.access else "immutable")]


def _result_error(op: Op, name: str, type_: Type, expected: str) -> Diagnostic:
    return Diagnostic(
        "TYPE/004",
        f"result '{name}' of '{op.name}' is {type_}, but must be {expected}",
        op.loc,
        {"result_name": name, "actual_type": type_, "expected_constraint": expected},
    )


def reserve(op: Any) -> Findings:
    """The write and the view are those of the channel's records."""
    payload = payload_of(op.channel.type)
    return [*_end(op, payload), *_view(op, payload)]


def accept(op: Any) -> Findings:
    """The read is one of the channel's records, mutable when it says so."""
    return [*_end(op, payload_of(op.channel.type)), *_access(op)]


def acquire(op: Any) -> Findings:
    """As for an acceptance, with the view of the record."""
    return [*accept(op), *_view(op, payload_of(op.channel.type))]


def wait(op: Any) -> Findings:
    """The view is that of the record."""
    return _view(op, payload_of(op.obligation.type))


def fanout(op: Any) -> Findings:
    """Two or more readers of what the source reads; nobody may change it."""
    source = op.source.type
    if source is ERROR:
        return []
    if source.mutable:
        return [operand_error(op, "source", source, "an immutable read")]
    readers: list[Value] = op.readers
    if len(readers) < 2:
        return [
            Diagnostic(
                "STRUCTURE/002",
                f"'{op.name}' splits a read into {len(readers)}, not two or more",
                op.loc,
                {"op_name": op.name, "actual_count": len(readers), "expected_count": 2},
            )
        ]
    return [
        Diagnostic(
            "TYPE/001",
            f"reader {i} of '{op.name}' is {reader.type}, but the source is {source}",
            op.loc,
            {"field_a": f"readers[{i}]", "type_a": reader.type, "field_b": "source", "type_b": source},
        )
        for i, reader in enumerate(readers)
        if reader.type not in (source, ERROR)
    ]


def copy(op: Any) -> Findings:
    """Both ends have one payload."""
    a, b = payload_of(op.source.type), payload_of(op.target.type)
    if a == b or ERROR in (a, b):
        return []
    return [
        Diagnostic(
            "TYPE/001",
            f"'{op.name}' moves records {a} into records {b}",
            op.loc,
            {"field_a": "source", "type_a": op.source.type, "field_b": "target", "type_b": op.target.type},
        )
    ]


def select(op: Any) -> Findings:
    """The read is one of the channel's records, and immutable."""
    found = _end(op, payload_of(op.channel.type))
    type_ = op.obligation.type
    if type_ is not ERROR and type_.mutable:
        found.append(_result_error(op, "obligation", type_, "immutable"))
    return found
