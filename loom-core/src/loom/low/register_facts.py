"""What a Low function says of its registers: its own preconditions and assumptions.

Helpers state every fact that they need; nothing of a source function's analysis is available here (language reference,
part 3, section 4.8). Each register is read as one signed number of its size.
"""

from __future__ import annotations

from typing import Any

from loom.dialects.low import ops as low
from loom.facts import integers
from loom.facts.integers import UNKNOWN, IntegerFacts
from loom.ir.core import Value


class RegisterFacts:
    """Facts of the registers of one Low function."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def integer(self, value: Value) -> IntegerFacts:
        """Range and divisor of a register."""
        op = value.defining_op
        if isinstance(op, low.Assume):
            found = self.integer(op.input)
            for predicate in op.predicates:
                for position, named in enumerate(op.mentioned):
                    if named is op.input:
                        facts = [self.integer(other) for other in op.mentioned]
                        found = integers.apply_predicate(found, predicate, position, facts.__getitem__)
            return found
        if isinstance(op, low.Copy | low.Move):
            return self.integer(op.operands[0])
        if op is None and value.owner is self._function.body.entry:
            found = UNKNOWN
            for predicate in self._function.predicates or ():
                found = integers.apply_predicate(found, predicate, value.index, lambda index: UNKNOWN)
            return found
        return UNKNOWN
