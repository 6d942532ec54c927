"""What address operations mean: the numeric operations of the same names, lane by lane."""

from __future__ import annotations

import loom.dialects.scalar.evaluate as scalar
from loom.evaluate.numeric import OPERATIONS
from loom.evaluate.rules import evaluates
from loom.spec.registry import lookup

# "index.cmp" takes its predicate like "scalar.cmpi"; constants and assumptions are shared with the scalar dialect.
for _name in OPERATIONS:
    if lookup(f"index.{_name}") is not None:
        evaluates(f"index.{_name}")(scalar.numeric_rule(_name))
