"""The format notation of op declarations.

A format is the text behind the op name, exactly as it prints, with fields put in:

``$name``            an operand group, attribute, region or successor
``type($name)``      the type (or comma-separated types) of an operand group or result
``$<directive a b>`` a piece of syntax with rules of its own (see :mod:`loom.text.directives`)
``⟦ ... ⟧``          a group that is left out when its first field is absent

Everything else is literal text; spaces matter for printing only.
"""

from __future__ import annotations

import re
from typing import Final

from loom.ir.records import record


@record
class Literal:
    """Literal text as it prints, and the tokens it consists of."""

    text: str
    tokens: tuple[str, ...]


@record
class Field:
    """``$name``."""

    name: str


@record
class TypeOf:
    """``type($name)``."""

    name: str


@record
class Directive:
    """``$<name arg ...>``."""

    name: str
    args: tuple[str, ...]


@record
class Group:
    """``⟦ ... ⟧``."""

    elements: tuple[Element, ...]

    @property
    def anchor(self) -> Field | Directive | TypeOf | Group:
        """The first element that is not literal text; it decides whether the group prints."""
        return next(e for e in self.elements if not isinstance(e, Literal))


Element = Literal | Field | TypeOf | Directive | Group

_PIECE: Final = re.compile(r"type\(\$(\w+)\)|\$<([^>]*)>|\$(\w+)|(⟦)|(⟧)")
_TOKEN: Final = re.compile(r"->|[\w$.]+|[^\s\w]")


def parse_format(text: str) -> tuple[Element, ...]:
    """Split a format into elements. Raises ``ValueError`` on unbalanced groups."""
    stack: list[list[Element]] = [[]]
    at = 0
    for match in _PIECE.finditer(text):
        _literal(stack[-1], text[at : match.start()])
        at = match.end()
        type_name, directive, field, opening, closing = match.groups()
        if type_name:
            stack[-1].append(TypeOf(type_name))
        elif directive:
            name, *args = directive.split()
            stack[-1].append(Directive(name, tuple(args)))
        elif field:
            stack[-1].append(Field(field))
        elif opening:
            stack.append([])
        elif closing:
            if len(stack) == 1:
                raise ValueError(f"unbalanced group in format {text!r}")
            done = Group(tuple(stack.pop()))
            stack[-1].append(done)
    _literal(stack[-1], text[at:])
    if len(stack) != 1:
        raise ValueError(f"unbalanced group in format {text!r}")
    return tuple(stack[0])


def _literal(out: list[Element], text: str) -> None:
    if text:
        out.append(Literal(text, tuple(_TOKEN.findall(text))))
