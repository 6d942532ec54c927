"""Reading forms: the recurring part of operation records, checked against the op's declaration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from loom.bytecode.attributes import read_attribute
from loom.bytecode.body import Extra, Form
from loom.bytecode.cursor import Cursor
from loom.bytecode.failures import Damage
from loom.bytecode.layout import (
    ABSENT,
    GIVEN,
    HAS_NAMES,
    IN_BODY,
    IN_BODY_KINDS,
    INTEGER_IN_BODY,
    LITERAL,
    REGIONS_SHIFT,
    SYMBOL_NAME,
)
from loom.bytecode.types import read_type
from loom.ir.attributes import Ref
from loom.ir.core import Op
from loom.ir.types import ERROR, Type
from loom.spec.kinds import AttributeKind

_ANY: Final = float("inf")
_GROUP_SIZES: Final = {"one": (1, 1.0), "optional": (0, 1.0), "variadic": (0, _ANY)}


@attrs.frozen(eq=False)
class DeclaredOp:
    """An op as a file uses it.

    ``attributes`` are positions in the declaration and kinds of those that forms list. ``groups`` is ``None``
    unless operand groups vary in length; it has the least and greatest length of each then. ``results`` and
    ``regions`` are least and greatest numbers. ``required`` are positions of attributes that must be there.
    """

    cls: type[Op]
    attributes: tuple[tuple[int, AttributeKind], ...]
    groups: tuple[tuple[int, float], ...] | None
    results: tuple[int, float]
    regions: tuple[int, float]
    defaults: list[object]
    required: tuple[int, ...]

    @classmethod
    def of(cls, op: type[Op], attribute_names: Sequence[str]) -> DeclaredOp:
        """Match the attribute names of a file with the declaration, which may have gained optional ones."""
        spec = op.spec
        listed: dict[int, AttributeKind] = {}
        for name in attribute_names:
            index = spec.attribute_index.get(name)
            if index is None or index in listed:
                raise Damage("BYTECODE/005", f"'{spec.name}' has no attribute '{name}'", attr_kind=name, offset=0)
            listed[index] = spec.attributes[index].kind
        return cls(
            op,
            tuple(listed.items()),
            tuple(_GROUP_SIZES[operand.arity] for operand in spec.operands) if spec.segmented else None,
            _bounds([result.variadic for result in spec.results], [False] * len(spec.results)),
            _bounds([region.variadic for region in spec.regions], [region.optional for region in spec.regions]),
            [attribute.default for attribute in spec.attributes],
            tuple(i for i, attribute in enumerate(spec.attributes) if attribute.required),
        )


def _bounds(variadic: Sequence[bool], optional: Sequence[bool]) -> tuple[int, float]:
    least = sum(not v and not o for v, o in zip(variadic, optional, strict=True))
    return least, _ANY if any(variadic) else len(variadic)


def read_form(declared: DeclaredOp, cursor: Cursor) -> Form:
    """Read a form behind its op number."""
    cls = declared.cls
    spec = cls.spec
    flags = cursor.word()
    segments = None
    size = len(spec.operands)
    if declared.groups is not None:
        segments = tuple([cursor.word() for _ in declared.groups])
        size = sum(segments)
        for (least, most), length in zip(declared.groups, segments, strict=True):
            if not least <= length <= most:
                raise _misfit(cls, f"a group of {length} operands", cursor)
    types: list[Type] = []
    in_place: list[int] = []
    for k in range(cursor.count()):
        if cursor.words[cursor.at]:
            types.append(read_type(cursor))
        else:
            cursor.at += 1
            types.append(ERROR)
            in_place.append(k)
    least, most = declared.results
    if not least <= len(types) <= most or (len(types) > 1 and not flags & HAS_NAMES):
        raise _misfit(cls, f"{len(types)} results", cursor)
    regions = flags >> REGIONS_SHIFT
    least, most = declared.regions
    if not least <= regions <= most:
        raise _misfit(cls, f"{regions} regions", cursor)
    attributes = declared.defaults[:]
    inline: list[tuple[int, AttributeKind]] = []
    mentioned: tuple[int, ...] = ()
    words = cursor.words
    literal = -1
    for index, kind in declared.attributes:
        state = words[cursor.at]
        cursor.at += 1
        attributes[index] = None
        if state == GIVEN and kind.name != SYMBOL_NAME:
            attributes[index] = value = read_attribute(cursor, kind)
            if kind.name == "predicates":
                mentioned = (*mentioned, *_positions(value))
        elif state == IN_BODY and kind.name in IN_BODY_KINDS:
            inline.append((index, kind))
        elif state == INTEGER_IN_BODY and kind.name == LITERAL and literal < 0:
            literal = index
        elif state != ABSENT:
            raise _misfit(cls, f"state {state} of attribute '{spec.attributes[index].name}'", cursor)
    for index in declared.required:
        if attributes[index] is None and index != literal and not any(index == k for k, _ in inline):
            raise _misfit(cls, f"no attribute '{spec.attributes[index].name}'", cursor)
    extra = None
    others = flags & ~HAS_NAMES
    if others or len(types) > 1 or inline or mentioned or spec.successors or (literal >= 0 and not types):
        positions = tuple(sorted(set(mentioned)))
        extra = Extra(flags, tuple(in_place), tuple(inline), positions, len(spec.successors))
    return cls, attributes, size, types, segments, bool(flags & HAS_NAMES), literal, extra


def _positions(predicates: Any) -> list[int]:
    return [arg.index for predicate in predicates for arg in predicate.args if isinstance(arg, Ref)]


def _misfit(cls: type[Op], what: str, cursor: Cursor) -> Damage:
    return Damage(
        "BYTECODE/006",
        f"'{cls.name}' with {what}",
        section_name="forms",
        table_name="forms",
        record_index=0,
        field_name=cls.name,
        offset=cursor.at,
        failure_code="declaration",
    )
