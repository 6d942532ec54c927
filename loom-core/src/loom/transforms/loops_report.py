"""What was done about loops, as rows of a report (language reference, part 3, sections 10.2 and 10.3)."""

from __future__ import annotations

from collections.abc import Mapping

from loom.ir.core import Op
from loom.ir.diagnostics import Location, SourceLocation
from loom.ir.records import record


@record
class PolicyDetail:
    """One row: a category such as ``scf-pipeline``, ``scf-unroll`` or ``vector-bank``, and its fields."""

    category: str
    loc: Location
    fields: Mapping[str, object]
    function: str = ""

    def row(self) -> dict[str, object]:
        """The row for a report; ``loop`` is ``file:line:column`` of the loop that asked, empty without a source."""
        at = SourceLocation.of(self.loc)
        where = "" if at is None else f"{at.filename}:{at.start_line}:{at.start_column}"
        return {"category": self.category, "function": self.function, "loop": where, **self.fields}


def detail(category: str, loop: Op, **fields: object) -> PolicyDetail:
    """A row about a loop."""
    return PolicyDetail(category, loop.loc, fields)
