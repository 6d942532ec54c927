"""Codes of operation records, shared by writer and reader.

Everything about an operation that recurs is its *form*: the op, the flags below, lengths of operand groups, static
result types, and attributes. Forms are unique in a table of the file. A record in a body is the number of a form
and what its flags and its declaration ask for, in this order: comments, operands, successors, result types that
name values, an integer of a constant, result names, regions, and attributes that name values or a symbol.

Values are numbered in the order of their definition: results of an operation, then everything in its regions, then
named results of a signature. An operand is the number of definitions between it and its use. Where a value may be
defined later (operands of a form with ``HAS_AHEAD``, values in types), the lowest bit tells the direction.
"""

from __future__ import annotations

from typing import Final

HAS_TRIVIA: Final = 1
HAS_NAMES: Final = 2
HAS_AHEAD: Final = 4
# The number of regions takes the bits from here on.
REGIONS_SHIFT: Final = 3

# A block begins with a word of flags, too: trivia, a label (as a name), a position, and the number of arguments.
HAS_POSITION: Final = 4
BLOCK_EXTRAS: Final = HAS_TRIVIA | HAS_NAMES | HAS_POSITION
ARGUMENTS_SHIFT: Final = 3

# State of an attribute in a form.
ABSENT: Final = 0
GIVEN: Final = 1
IN_BODY: Final = 2
# An integer of the kind below: constants differ in little else.
INTEGER_IN_BODY: Final = 3
LITERAL: Final = "literal"

# The kind of attributes that recur in no other operation, and all kinds that a body may have.
SYMBOL_NAME: Final = "symbol_name"
IN_BODY_KINDS: Final = frozenset({SYMBOL_NAME, "results", "type", "any", "dict"})
