"""The two ends of a sequence of words: what encoders write into and decoders read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loom.bytecode.failures import Damage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from loom.ir.core import Value
    from loom.ir.types import Type

# Attribute values and types nest; text allows far less.
MAX_NESTING: Final = 64


class Sink:
    """Words being written. Strings and static types become numbers of the file's tables.

    ``numbers`` and ``defined`` describe the body being written: the number of each of its values, and how many
    of them are defined so far; ``local_types`` numbers its types that name values. Outside a body there are none.
    """

    __slots__ = ("defined", "local_types", "numbers", "strings", "types", "words")

    def __init__(self, strings: dict[str, int], types: dict[Type, int]) -> None:
        self.words: list[int] = []
        self.strings = strings
        self.types = types
        self.numbers: Mapping[Value, int] = {}
        self.defined = 0
        self.local_types: dict[Type, int] = {}

    def string_id(self, text: str) -> int:
        """The number of a string, from 1; it enters the table when new."""
        strings = self.strings
        return strings.setdefault(text, len(strings) + 1)

    def string(self, text: str) -> None:
        """Write a string."""
        self.words.append(self.string_id(text))

    def number(self, value: Value) -> int:
        """The number of a value of the body."""
        number = self.numbers.get(value)
        if number is None:
            raise ValueError(f"value '%{value.name or '?'}' is not defined inside the symbol that uses it")
        return number

    def value(self, value: Value) -> None:
        """Write a reference to a value: twice the definitions in between, plus one when it is yet to come."""
        back = self.defined - self.number(value)
        self.words.append((back - 1) << 1 if back > 0 else -back << 1 | 1)


class Cursor:
    """A position in words being read. Reading past the end raises ``IndexError``, which callers expect.

    ``strings`` and ``types`` are the file's tables with an unused entry 0. ``values`` are those defined so far in
    the body being read, ``local_types`` its types that name values, from 1. ``ahead`` maps the number of a value
    that is yet to come to its stand-in, and is ``None`` where there cannot be one.
    """

    __slots__ = ("ahead", "at", "local_types", "strings", "types", "values", "words")

    def __init__(self, words: list[int], strings: Sequence[str | None], types: Sequence[Type | None]) -> None:
        self.words = words
        self.at = 0
        self.strings = strings
        self.types = types
        self.values: list[Value] = []
        self.local_types: list[Type | None] = [None]
        self.ahead: dict[int, Value] | None = None

    def begin(self, words: list[int]) -> None:
        """Go to the start of a body, where values may be mentioned before they are defined."""
        self.words = words
        self.at = 0
        self.values = []
        self.local_types = [None]
        self.ahead = {}

    def word(self) -> int:
        """The next word."""
        word = self.words[self.at]
        self.at += 1
        return word

    def count(self) -> int:
        """The next word as a number of items that follow, each at least one word long."""
        count = self.word()
        if count > len(self.words) - self.at:
            raise Damage(
                "BYTECODE/009",
                f"{count} items are announced, {len(self.words) - self.at} words are left",
                table_name="record",
                count=count,
                limit=len(self.words) - self.at,
            )
        return count

    def string(self) -> str:
        """The string that the next word numbers."""
        number = self.word()
        strings = self.strings
        text = strings[number] if number < len(strings) else None
        if text is None:
            raise Damage(
                "BYTECODE/010",
                f"string {number} of {len(strings) - 1}",
                field_name="string",
                string_id=number,
                string_count=len(strings) - 1,
            )
        return text

    def value(self) -> Value:
        """The value that the next word refers to; a stand-in for one that is defined later."""
        word = self.word()
        distance = word >> 1
        values = self.values
        if not word & 1:
            if distance >= len(values):
                raise bad_value(distance, len(values))
            return values[~distance]
        if self.ahead is None:
            raise bad_value(distance, len(values))
        number = len(values) + distance
        found = self.ahead.get(number)
        if found is None:
            found = self.ahead[number] = stand_in()
        return found


def stand_in() -> Value:
    """A value that takes the place of one whose definition is not read yet."""
    from loom.ir.core import Block, Value
    from loom.ir.types import ERROR

    return Value(ERROR, Block(), 0)


def bad_value(reference: int, count: int) -> Damage:
    """A reference to a value that does not exist."""
    return Damage(
        "BYTECODE/012",
        f"reference {reference} with {count} values defined",
        table_name="values",
        ref_id=reference,
        table_count=count,
    )
