"""Checks that ``--sanitizer`` adds to what cases run and to what is compiled.

Language reference, part 3, sections 8.5 and 8.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loom.check.errors import CheckError
from loom.ir.core import Module
from loom.ir.diagnostics import did_you_mean

CODE: Final = ("func.def", "kernel.def")

# Word -> the checks that it stands for.
WORDS: Final[Mapping[str, frozenset[str]]] = {
    "none": frozenset(),
    "access": frozenset({"access"}),
    "value": frozenset({"value"}),
    "operation": frozenset({"operation"}),
    "race": frozenset({"race"}),
    "asan": frozenset({"access"}),
    "ubsan": frozenset({"value", "operation"}),
    "tsan": frozenset({"race"}),
    "all": frozenset({"access", "value", "operation", "race"}),
}

# The same of compiled code, which has nobody to tell of accesses.
ASSERTIONS: Final[Mapping[str, frozenset[str]]] = {
    **{word: WORDS[word] for word in ("none", "access", "value", "operation")},
    "all": frozenset({"access", "value", "operation"}),
}


def read_checks(text: str, words: Mapping[str, frozenset[str]] = WORDS) -> frozenset[str]:
    """The checks of words joined by ``|``. Raises ``CheckError`` for an unknown word."""
    found: frozenset[str] = frozenset()
    for word in text.split("|"):
        if word not in words:
            hint = did_you_mean(word, words) or f"known are {', '.join(words)}"
            raise CheckError(f"there is no sanitizer {word!r}; {hint}")
        found |= words[word]
    return found


def instrument(module: Module, checks: frozenset[str]) -> int:
    """Insert checks into every function and kernel of a module, in place; returns how many.

    Pure functions stay as they are: calls may rely on their purity, which a check would end.
    """
    from loom.transforms.sanitize import insert_assertions, insert_race_observations
    from loom.verify.effects import Purity

    if not checks:
        return 0
    purity = Purity(module.symbols())
    inserted = 0
    for op in module.body:
        if op.name in CODE and not purity.of_function(op):
            inserted += insert_assertions(op, checks)
            inserted += insert_race_observations(op) if "race" in checks else 0
    return inserted
