"""Reading one module-level operation with everything inside it; see :mod:`loom.bytecode.layout`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from loom.bytecode.attributes import read_attribute
from loom.bytecode.cursor import Cursor, Tables, bad_value
from loom.bytecode.failures import Damage
from loom.bytecode.layout import (
    ARGUMENTS_SHIFT,
    BLOCK_EXTRAS,
    HAS_AHEAD,
    HAS_NAMES,
    HAS_POSITION,
    HAS_TRIVIA,
    REGIONS_SHIFT,
    SYMBOL_NAME,
)
from loom.bytecode.types import read_type
from loom.bytecode.varint import unzigzag
from loom.ir.attributes import ResultSpec
from loom.ir.core import Block, Op, Region, Value
from loom.ir.diagnostics import Location, placed_span
from loom.ir.recursion import MAX_REGION_DEPTH
from loom.ir.types import ERROR, Type
from loom.spec.kinds import AttributeKind


@attrs.frozen(eq=False)
class Extra:
    """What a record has beyond operands and at most one result.

    ``in_place`` are positions of results whose types follow in the record (:data:`~loom.ir.types.ERROR` stands for
    them in the form), ``inline`` positions and kinds of such attributes, ``mentioned`` the positions that predicate
    lists mention, in order, and ``successors`` how many of these there are.
    """

    flags: int
    in_place: tuple[int, ...]
    inline: tuple[tuple[int, AttributeKind], ...]
    mentioned: tuple[int, ...]
    successors: int


# Class, attributes, number of operands, result types, lengths of operand groups, whether the result has a name, which
# attribute is an integer that follows in the record (-1: none), and the rest if there is any. A plain tuple: unpacking
# it is what reading an operation begins with.
Form = tuple["type[Op]", list[object], int, list[Type], "tuple[int, ...] | None", bool, int, Extra | None]


class BodyReader:
    """Reads the bodies of a file. ``forms`` are its forms by number."""

    def __init__(self, tables: Tables, forms: Mapping[int, Form], sources: Sequence[str]) -> None:
        self.cursor = Cursor([], tables)
        self.names = tables.value_names
        self.forms = forms
        self.sources = sources
        self.locations: list[Location] = []
        # Operations made so far.
        self.made = 0
        # Values whose type, and operations whose operands, mention something defined later.
        self.late_values: list[Value] = []
        self.late_ops: list[Op] = []

    def read(self, words: list[int], locations: list[Location], block: Block) -> Op:
        """Read one body and append its operation to a block.

        ``locations`` are those of all operations, in the order of their records.
        """
        cursor = self.cursor
        cursor.begin(words)
        self.locations = locations
        self.made = 0
        self.late_values = []
        self.late_ops = []
        try:
            self._ops(block, 1, (), 0)
        except IndexError:
            raise self._bad("it ends early or mentions what its tables do not have", "truncated") from None
        except RecursionError:
            raise self._bad("regions nest too deep", "nesting") from None
        if cursor.at != len(words):
            raise self._bad(f"{len(words) - cursor.at} words are left", "trailing")
        if self.made != len(locations):
            raise self._bad(f"it has {self.made} of {len(locations)} operations", "operations")
        if cursor.ahead:
            self._resolve(cursor.ahead)
        op = block.last
        assert op is not None
        return op

    def _bad(self, detail: str, failure: str) -> Damage:
        return Damage("BYTECODE/016", detail, offset=self.cursor.at, failure_code=failure)

    def _ops(self, block: Block, count: int, blocks: Sequence[Block], depth: int) -> None:
        """Read operations into a block; ``blocks`` are those that successors number."""
        cursor = self.cursor
        w, values, names = cursor.words, cursor.values, self.names
        local_types = cursor.local_types
        forms, locations = self.forms, self.locations
        new = object.__new__
        i = cursor.at
        made = self.made
        last = block.last
        op: Op
        for _ in range(count):
            form = forms[w[i]]
            cls, attributes, size, types, segments, named, literal, extra = form
            i += 1
            if extra is not None:
                cursor.at, self.made = i, made
                op = self._full(form, extra, blocks, depth)
                i, made = cursor.at, self.made
            else:
                # What the constructors of operations and values do, for at most one result: several calls less, and
                # most operations come this way.
                op = new(cls)
                # References count from the end of the list, so a bad one is an index error.
                if size == 2:
                    a, b = values[~w[i]], values[~w[i + 1]]
                    op.operands = [a, b]
                    a.uses[op] = 1
                    b.uses[op] = 1 if a is not b else 2
                    i += 2
                elif size == 1:
                    a = values[~w[i]]
                    op.operands = [a]
                    a.uses[op] = 1
                    i += 1
                elif size:
                    op.operands = operands = [values[~r] for r in w[i : i + size]]
                    for a in operands:
                        uses = a.uses
                        uses[op] = uses.get(op, 0) + 1
                    i += size
                else:
                    op.operands = []
                op.attributes = attributes[:]
                if types:
                    value = new(Value)
                    value.owner = op
                    value.index = 0
                    value.uses = {}
                    value.dependents = None
                    value.type = type_ = types[0]
                    if type_ is ERROR:
                        # It follows, because it names values: one that occurred before, or a new one.
                        word = w[i]
                        if word and not word & 1:
                            value.type = local_types[word >> 1]
                            i += 1
                        else:
                            cursor.at = i
                            value.type = read_type(cursor)
                            i = cursor.at
                        self._note_late(value)
                    if literal >= 0:
                        word = w[i]
                        op.attributes[literal] = word >> 1 if not word & 1 else ~(word >> 1)
                        i += 1
                    if named:
                        value.name = names[w[i]]
                        i += 1
                    else:
                        value.name = None
                    op.results = [value]
                    values.append(value)
                else:
                    op.results = []
                op.regions = []
                op.successors = []
                op.segments = segments
                op.loc = locations[made]
                op.next = None
                op.comments = ()
                op.blank_before = False
                made += 1
            # What `Block.append` does, without the call.
            op.parent = block
            op.prev = last
            if last is None:
                block.first = op
            else:
                last.next = op
            block.last = last = op
        cursor.at, self.made = i, made

    def _note_late(self, value: Value) -> None:
        """Note that a value's type names values, some of which may be defined later."""
        for named in value.type.values():
            if named.dependents is None:
                named.dependents = {}
            named.dependents[value] = None
        self.late_values.append(value)

    def _full(self, form: Form, extra: Extra, blocks: Sequence[Block], depth: int) -> Op:
        """Read an operation with anything an operation can have."""
        cls, attributes, size, types, segments, _, literal, _ = form
        cursor = self.cursor
        w, values = cursor.words, cursor.values
        flags = extra.flags
        blank = False
        comments: tuple[str, ...] = ()
        if flags & HAS_TRIVIA:
            blank, comments = self._trivia()
        if flags & HAS_AHEAD:
            if size > len(w) - cursor.at:
                raise IndexError
            operands = [cursor.value() for _ in range(size)]
        elif size:
            operands = [values[~r] for r in w[cursor.at : cursor.at + size]]
            cursor.at += size
        else:
            operands = []
        successors = [blocks[cursor.word()] for _ in range(extra.successors)] if extra.successors else None
        if extra.in_place:
            types = types[:]
            for k in extra.in_place:
                types[k] = read_type(cursor)
        attributes = attributes[:]
        if literal >= 0:
            attributes[literal] = unzigzag(cursor.word())
        op = cls(operands, attributes, types, None, successors, segments, self.locations[self.made])
        self.made += 1
        if blank or comments:
            op.blank_before = blank
            op.comments = comments
        if types:
            results = op.results
            if flags & HAS_NAMES:
                at = cursor.at
                for result in results:
                    result.name = self.names[w[at]]
                    at += 1
                cursor.at = at
            values += results
            if extra.in_place:
                self.late_values += [results[k] for k in extra.in_place]
        if flags & HAS_AHEAD:
            self.late_ops.append(op)
        if flags >> REGIONS_SHIFT:
            self._regions(op, flags >> REGIONS_SHIFT, depth + 1)
        if extra.inline:
            self._inline(op, extra)
        if extra.mentioned:
            self._check_mentioned(op, extra.mentioned)
        return op

    def _trivia(self) -> tuple[bool, tuple[str, ...]]:
        cursor = self.cursor
        word = cursor.words[cursor.at]
        cursor.at += 1
        if word < 2:
            return word == 1, ()
        if word < 4:
            return word == 3, (cursor.comment(),)
        if word >> 1 > len(cursor.words) - cursor.at:
            raise IndexError
        return bool(word & 1), tuple([cursor.comment() for _ in range(word >> 1)])

    def _regions(self, op: Op, count: int, depth: int) -> None:
        if depth > MAX_REGION_DEPTH:
            raise self._bad(f"regions nest deeper than {MAX_REGION_DEPTH}", "nesting")
        cursor = self.cursor
        for _ in range(count):
            size = cursor.count()
            if size == 0:
                raise self._bad("a region has no block", "region")
            region = Region()
            region.parent = op
            op.regions.append(region)
            region.blocks = blocks = [Block() for _ in range(size)]
            for block in blocks:
                block.parent = region
                self._block(block, blocks, depth)

    def _block(self, block: Block, blocks: list[Block], depth: int) -> None:
        cursor = self.cursor
        words, names, values = cursor.words, self.names, cursor.values
        flags = cursor.word()
        if flags & BLOCK_EXTRAS:
            self._block_extras(block, flags)
        at = cursor.at
        for index in range(flags >> ARGUMENTS_SHIFT):
            word = words[at]
            if word & 1 and word > 1:
                type_ = cursor.types[word >> 1]
                at += 1
            else:
                cursor.at = at
                type_ = read_type(cursor)
                at = cursor.at
            value = Value(type_, block, index, names[words[at]])
            block.args.append(value)
            at += 1
            values.append(value)
            if not word & 1:
                self.late_values.append(value)
        cursor.at = at + 1
        self._ops(block, words[at], blocks, depth)

    def _block_extras(self, block: Block, flags: int) -> None:
        """What few blocks have: comments, a label, a position."""
        cursor = self.cursor
        if flags & HAS_TRIVIA:
            block.blank_before, block.comments = self._trivia()
        if flags & HAS_NAMES:
            block.label = self.names[cursor.word()]
        if flags & HAS_POSITION:
            file = cursor.word()
            if not 0 < file <= len(self.sources):
                raise IndexError
            block.loc = placed_span(self.sources[file - 1], [cursor.word() for _ in range(4)])

    # -- attributes that name values -----------------------------------------------------------------------

    def _inline(self, op: Op, extra: Extra) -> None:
        cursor = self.cursor
        for index, kind in extra.inline:
            if kind.name == SYMBOL_NAME:
                op.attributes[index] = cursor.symbol()
                continue
            # Everything such an attribute may mention is defined by now.
            ahead, cursor.ahead = cursor.ahead, None
            if kind.name == "results":
                op.attributes[index] = self._result_specs(op)
            else:
                op.attributes[index] = read_attribute(cursor, kind)
            cursor.ahead = ahead

    def _result_specs(self, op: Op) -> tuple[ResultSpec, ...]:
        cursor = self.cursor
        arguments = len(op.regions[-1].entry.args) if op.regions else 0
        heads: list[tuple[int | None, Value | None]] = []
        for k in range(cursor.count()):
            tied, name = cursor.word(), cursor.word()
            if tied > arguments:
                raise self._bad(f"a result is tied to argument {tied - 1} of {arguments}", "tied")
            value = Value(ERROR, op, k, self.names[name - 1]) if name else None
            if value is not None:
                cursor.values.append(value)
            heads.append((tied - 1 if tied else None, value))
        specs: list[ResultSpec] = []
        for tie, value in heads:
            type_ = read_type(cursor)
            if value is not None:
                value.set_type(read_type(cursor))
            specs.append(ResultSpec(type_, value, tie))
        return tuple(specs)

    def _check_mentioned(self, op: Op, positions: tuple[int, ...]) -> None:
        """Positions in a predicate list count mentioned operands, or else the signature's arguments and results."""
        group = op.spec.operand_index.get("mentioned")
        named: list[bool]
        if group is not None:
            named = [True] * len(op.group(group))
        else:
            named = [True] * max((len(region.entry.args) for region in op.regions), default=len(op.operands))
            for index in op.spec.result_spec_attributes:
                specs: Any = op.attributes[index] or ()
                named += [spec.value is not None for spec in specs]
        if positions[-1] >= len(named) or not all(named[k] for k in positions):
            raise self._bad("a predicate mentions a position that has no value", "predicate")

    # -- references ahead ----------------------------------------------------------------------------------

    def _resolve(self, ahead: dict[int, Value]) -> None:
        values = self.cursor.values
        mapping: dict[Value, Value] = {}
        for number, placeholder in ahead.items():
            if number >= len(values):
                raise bad_value(number, len(values))
            mapping[placeholder] = values[number]
        for value in self.late_values:
            value.set_type(value.type.substitute(mapping))
        for op in self.late_ops:
            op.set_operands([mapping.get(v, v) for v in op.operands], op.segments)
