"""Codes of operation records, shared by writer and reader.

An operation is its form's number and a word of flags, then what the flags and the declaration say:
comments, lengths of operand groups, operands, successors, regions, result types, result names, and the attributes
that name values.
"""

from __future__ import annotations

from typing import Final

HAS_TRIVIA: Final = 1
HAS_NAMES: Final = 2
HAS_REGIONS: Final = 4
# The number of results takes the bits from here on.
RESULTS_SHIFT: Final = 3

# State of an attribute in a form.
ABSENT: Final = 0
GIVEN: Final = 1
IN_BODY: Final = 2
