"""Evaluation rules: one function per operation, found by name, loaded with its dialect.

A rule is called as ``rule(frame, op, operands)`` with the runtime values of all operands in order and returns the
runtime values of the results. Rules stand in ``loom/dialects/<name>/evaluate.py``; importing the file registers
them. Operations of other packages live in a module ``evaluate`` beside the module that declares their dialect.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from loom.evaluate.values import RuntimeValue
from loom.spec.registry import CORE_DIALECTS, core_package

if TYPE_CHECKING:
    from loom.evaluate.frame import Frame
    from loom.ir.core import Op

# Operations differ in their accessors, which their declarations make; rules name the ones they use.
Rule: TypeAlias = "Callable[[Frame, Op, Sequence[RuntimeValue]], Sequence[RuntimeValue]]"

_RULES: Final[dict[str, Rule]] = {}
_LOADED: Final[set[str]] = set()


def evaluates(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule under operation names. Raises ``ValueError`` when one has a rule already."""

    def register(rule: Rule) -> Rule:
        for name in names:
            if name in _RULES:
                raise ValueError(f"operation '{name}' has two evaluation rules")
            _RULES[name] = rule
        return rule

    return register


def find_rule(op: Op) -> Rule | None:
    """The rule of an operation, or ``None`` when it has none."""
    rule = _RULES.get(op.name)
    if rule is None:
        dialect = op.spec.dialect
        if dialect not in _LOADED:
            _LOADED.add(dialect)
            package = _package(op)
            if importlib.util.find_spec(f"{package}.evaluate") is not None:
                importlib.import_module(f"{package}.evaluate")
            rule = _RULES.get(op.name)
    return rule


def _package(op: Op) -> str:
    """The package whose module ``evaluate`` has the rules of the operation's dialect."""
    dialect = op.spec.dialect
    if dialect in CORE_DIALECTS:
        return core_package(dialect)
    return type(op).__module__.rpartition(".")[0]
