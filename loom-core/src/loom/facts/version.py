"""One analysis for each version of a function, however many passes ask."""

from __future__ import annotations

from collections.abc import Mapping

from loom.facts.analysis import FunctionFacts
from loom.ir.core import Op


class Version:
    """A function while passes work on it: its facts are found at the first question and kept until it changes.

    Facts stay true while code is rewritten into code that means the same, so a pass may go on with those it has; what
    comes behind a change gets new ones, which are sharper.
    """

    __slots__ = ("_facts", "function", "target_facts")

    def __init__(self, function: Op, target_facts: Mapping[str, object] | None = None) -> None:
        self.function = function
        self.target_facts = target_facts or {}
        self._facts: FunctionFacts | None = None

    @property
    def facts(self) -> FunctionFacts:
        """What is known of the function as it is."""
        if self._facts is None:
            self._facts = FunctionFacts(self.function, self.target_facts)
        return self._facts

    def changed(self) -> None:
        """Say that the function is another one now."""
        self._facts = None
