"""The table of selection rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from loom_target_x86.select.context import Context

Rule: TypeAlias = Callable[["Context", Any], None]
"""Append the packets of an operation and bind its results. The operation's class is that of its name."""

RULES: Final[dict[str, Rule]] = {}
"""Operation name -> rule, filled by the modules of this package."""


def selects(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for operations by name."""

    def register(rule: Rule) -> Rule:
        for name in names:
            assert name not in RULES, name
            RULES[name] = rule
        return rule

    return register


def load_rules() -> dict[str, Rule]:
    """The complete table: imports the rule modules."""
    from loom_target_x86.select import (  # noqa: F401  # imported for what they register
        control,
        conversions,
        floats,
        index,
        integers,
        invoke,
        kernel,
        memory,
        vectors,
    )

    return RULES
