"""What is known of encoding values from the operations that define them (language reference, part 1, section 16.1).

Answers are three-valued: a function gives what is certain, and ``None`` when the program leaves it open.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

from loom.dialects.constants import index_constant
from loom.dialects.encoding.parameters import normal_form, schema_property
from loom.ir.attributes import Encoding
from loom.ir.core import Op, Value
from loom.text.directives import index_entries

DENSE: Final = Encoding("encoding.layout.dense")

# Operations whose result is their operand.
_IDENTITIES: Final = frozenset(
    {
        "encoding.assume.match",
        "encoding.assume.spec",
        "encoding.layout.assume.dense",
        "encoding.layout.assume.strided",
    }
)


def _origin(value: Value) -> Op | None:
    """The operation that makes the value, behind assumptions about it."""
    op = value.defining_op
    while op is not None and op.name in _IDENTITIES:
        op = op.operands[0].defining_op
    return op


def _assumptions(value: Value) -> list[Any]:
    """The assumptions that led to the value, the latest first."""
    found = []
    op = value.defining_op
    while op is not None and op.name in _IDENTITIES:
        found.append(op)
        op = op.operands[0].defining_op
    return found


def known_specification(value: Value) -> Encoding | None:
    """The normal form of what the value is, if its definition and the assumptions about it settle that."""
    for assumption in _assumptions(value):
        if assumption.name == "encoding.assume.spec":
            return normal_form(assumption.definition)
        if assumption.name == "encoding.layout.assume.dense":
            return DENSE
    return _defined(_origin(value))


def _defined(op: Any) -> Encoding | None:
    if op is None:
        return None
    if op.name == "encoding.layout.dense":
        return DENSE
    if op.name == "encoding.layout.strided":
        strides = _strides(op)
        if any(stride is None for stride in strides):
            return None
        return Encoding("encoding.layout.strided", (), (("strides", tuple(strides)),))
    if op.name == "encoding.define":
        given = dict(op.definition.params)
        for key, value in zip(op.keys or (), op.params, strict=True):
            part = known_specification(value)
            if part is None:
                return None
            given[key] = part
        return normal_form(Encoding(op.definition.family, op.definition.primary, tuple(sorted(given.items()))))
    return None


def _strides(op: Any) -> list[int | None]:
    """The strides of an ``encoding.layout.strided``; ``None`` where one is no constant."""
    return [
        entry if isinstance(entry, int) else index_constant(entry)
        for entry in index_entries(op.strides, op.static_strides)
    ]


def known_family(value: Value) -> str | None:
    """The family of the value in normal form, which may be certain when its parameters are not."""
    specification = known_specification(value)
    if specification is not None:
        return specification.family
    if any(op.name == "encoding.layout.assume.strided" for op in _assumptions(value)):
        return "encoding.layout.strided"
    origin: Any = _origin(value)
    if origin is None:
        return None
    if origin.name == "encoding.layout.strided":
        return "encoding.layout.strided"
    return normal_form(origin.definition).family if origin.name == "encoding.define" else None


def decide_isa(value: Value, encoding: Encoding) -> bool | None:
    """Whether the value is exactly the specification."""
    wanted = normal_form(encoding)
    known = known_specification(value)
    if known is not None:
        return known == wanted
    family = known_family(value)
    if family is not None and family != wanted.family:
        return False
    rank = known_layout_rank(value)
    strides = wanted.param("strides")
    if rank is not None and rank >= 0 and isinstance(strides, tuple) and len(strides) != rank:
        return False
    refuted = any(
        schema_property(wanted, name) != word
        for op in _assumptions(value)
        if op.name == "encoding.assume.match"
        for name, word in op.requirements()
    )
    return False if refuted else None


def known_property(value: Value, name: str) -> str | None:
    """The word of a schema's property, if it is certain."""
    for assumption in _assumptions(value):
        if assumption.name == "encoding.assume.match":
            word: str | None = dict(assumption.requirements()).get(name)
            if word is not None:
                return word
        elif assumption.name == "encoding.assume.spec":
            return schema_property(assumption.definition, name)
    origin: Any = _origin(value)
    return schema_property(origin.definition, name) if origin is not None and origin.name == "encoding.define" else None


def decide_match(value: Value, requirements: Sequence[tuple[str, str]]) -> bool | None:
    """Whether the schema has all the properties: false as soon as one is refuted."""
    answers = [(known_property(value, name), word) for name, word in requirements]
    if any(known is not None and known != word for known, word in answers):
        return False
    return None if any(known is None for known, _ in answers) else True


def known_layout_rank(value: Value) -> int | None:
    """The number of strides of a layout, -1 for a dense one, ``None`` when it is open."""
    for assumption in _assumptions(value):
        if assumption.name == "encoding.layout.assume.strided":
            return int(assumption.rank)
    known = known_specification(value)
    if known is not None:
        strides = known.param("strides")
        return len(strides) if isinstance(strides, tuple) else -1
    origin: Any = _origin(value)
    return len(origin.static_strides) if origin is not None and origin.name == "encoding.layout.strided" else None


def refuses_dense(value: Value) -> bool:
    """Whether the strides that are known cannot be those of a dense layout of any extents."""
    known = known_specification(value)
    if known is not None:
        strides = known.param("strides")
        return isinstance(strides, tuple) and not may_be_dense(strides)
    origin: Any = _origin(value)
    return origin is not None and origin.name == "encoding.layout.strided" and not may_be_dense(_strides(origin))


def may_be_dense(strides: Sequence[int | None]) -> bool:
    """Whether some extents make the strides row-major; ``None`` is an unknown stride.

    The innermost stride of a dense layout is 1, and every other one is a multiple of the one within it.
    """
    if strides and strides[-1] not in (None, 1):
        return False
    return all(
        outer is None or inner is None or (outer == 0 if inner == 0 else outer % inner == 0)
        for outer, inner in itertools.pairwise(strides)
    )


def proves(assumption: Any) -> bool:
    """Whether what an assumption says of its operand is certain without it."""
    value = assumption.operands[0]
    if assumption.name == "encoding.assume.match":
        return decide_match(value, assumption.requirements()) is True
    if assumption.name == "encoding.assume.spec":
        return decide_isa(value, assumption.definition) is True
    if assumption.name == "encoding.layout.assume.dense":
        return known_specification(value) == DENSE
    return bool(known_layout_rank(value) == assumption.rank)
