"""The two ends of a sequence of words: what encoders write into and decoders read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from loom.bytecode.failures import Damage
from loom.bytecode.tables import Lazy, Names, Strings

if TYPE_CHECKING:
    from collections.abc import Mapping

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


class Tables:
    """What the words of a module refer to by number: strings, those that are names of some kind, and types."""

    __slots__ = ("comments", "keys", "strings", "symbols", "types", "value_names")

    def __init__(self, strings: Strings, types: Lazy[Type]) -> None:
        self.strings = strings
        self.types = types
        self.value_names = Names(strings, "value", optional=True)
        self.symbols = Names(strings, "symbol")
        self.keys = Names(strings, "key")
        self.comments = Names(strings, "comment")


class Cursor:
    """Words being read, and where.

    ``values`` are those defined so far in the body being read, ``local_types`` its types that name values, from 1.
    ``ahead`` maps the number of a value that is yet to come to its stand-in, and is ``None`` where there cannot be
    one.
    """

    __slots__ = ("ahead", "at", "local_types", "tables", "types", "values", "words")

    def __init__(self, words: list[int], tables: Tables) -> None:
        self.words = words
        self.at = 0
        self.tables = tables
        self.types = tables.types
        self.values: list[Value] = []
        self.local_types: list[Any] = [None]
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
        return self.tables.strings[self.word()]

    def symbol(self) -> str:
        """The symbol name that the next word numbers."""
        name: str = self.tables.symbols[self.word()]
        return name

    def key(self) -> str:
        """The key or family name that the next word numbers."""
        name: str = self.tables.keys[self.word()]
        return name

    def comment(self) -> str:
        """The line of a comment that the next word numbers."""
        line: str = self.tables.comments[self.word()]
        return line

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
