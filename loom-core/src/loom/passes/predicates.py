"""The predicates of ``pass.where``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from loom.ir.core import Module, Op, symbol_name
from loom.spec.kinds import EnumKind


@attrs.frozen
class PassPredicate:
    """A question about a module or function; ``argument`` is the key of the text that it takes."""

    argument: str
    holds: Callable[[Any, str], bool]


def _named(anchor: Module | Op, wanted: str) -> bool:
    """Whether the function has a symbol name, or the module a name."""
    return (anchor.name if isinstance(anchor, Module) else symbol_name(anchor)) == wanted


def _has_attribute(anchor: Module | Op, wanted: str) -> bool:
    """Whether a function carries an attribute, or a module an annotation of that key."""
    if isinstance(anchor, Module):
        return any(op.name == "metadata.module" and op.attribute("key") == wanted for op in anchor.body)
    for attribute, value in zip(anchor.spec.attributes, anchor.attributes, strict=True):
        if wanted in (attribute.name, attribute.key) or (isinstance(attribute.kind, EnumKind) and value == wanted):
            # A word such as `public` or `noinline` is the value of an attribute with another name.
            return value is not None and value != attribute.default
    return False


PREDICATES: Final[Mapping[str, PassPredicate]] = {
    "name": PassPredicate("value", _named),
    "has_attr": PassPredicate("name", _has_attribute),
}
