"""Reading one module-level operation with everything inside it; see :mod:`loom.bytecode.layout`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from loom.bytecode.attributes import read_attribute
from loom.bytecode.cursor import Cursor, bad_value
from loom.bytecode.failures import Damage
from loom.bytecode.layout import HAS_NAMES, HAS_REGIONS, HAS_TRIVIA, RESULTS_SHIFT
from loom.bytecode.locations import read_locations, recorded_span
from loom.bytecode.types import read_type
from loom.ir.attributes import Predicate, Ref, ResultSpec
from loom.ir.core import Block, Op, Region, Value
from loom.ir.types import ERROR, Type
from loom.spec.kinds import AttributeKind

# Regions inside regions; far above what text in use has, far below what recursion allows.
MAX_DEPTH: Final = 10_000


@attrs.frozen(eq=False)
class Form:
    """An operation class with attributes, and what its declaration demands of a record.

    ``groups`` is ``None`` unless operand groups vary in length, and the least and greatest length of each then.
    ``results`` and ``regions`` are the least and greatest numbers. ``inline`` lists positions and kinds of the
    attributes that follow in the record. ``predicates`` lists positions of predicate lists.
    """

    cls: type[Op]
    attributes: list[object]
    operands: int
    groups: tuple[tuple[int, float], ...] | None
    results: tuple[int, float]
    regions: tuple[int, float]
    inline: tuple[tuple[int, AttributeKind], ...]
    predicates: tuple[int, ...]


class BodyReader:
    """Reads one body. ``form`` decodes the form of a number; ``forms`` caches those decoded."""

    def __init__(
        self,
        words: list[int],
        strings: Sequence[str | None],
        types: Sequence[Type | None],
        forms: list[Form | None],
        form: Callable[[int], Form],
    ) -> None:
        self.cursor = Cursor(words, strings, types)
        self.forms = forms
        self.form = form
        self.ops: list[Op] = []
        self.sources: Sequence[str] = ()
        # Values whose type, and operations whose operands, mention something defined later.
        self.late_values: list[Value] = []
        self.late_ops: list[Op] = []

    def read(self, record: bytes, sources: Sequence[str]) -> Op:
        """The operation, detached. ``record`` holds the locations, and is empty when they were left out."""
        cursor = self.cursor
        self.sources = sources
        cursor.ahead = {}
        block = Block()
        try:
            self._ops(block, 1, (), 0)
        except IndexError:
            raise self._bad("it ends early or mentions what its tables do not have", "truncated") from None
        except RecursionError:
            raise self._bad("regions nest too deep", "nesting") from None
        if cursor.at != len(cursor.words):
            raise self._bad(f"{len(cursor.words) - cursor.at} words are left", "trailing")
        if cursor.ahead:
            self._resolve(cursor.ahead)
        if record:
            self._place(record)
        op = block.first
        assert op is not None
        op.detach()
        return op

    def _bad(self, detail: str, failure: str) -> Damage:
        return Damage("BYTECODE/016", detail, offset=self.cursor.at, failure_code=failure)

    def _ops(self, block: Block, count: int, blocks: Sequence[Block], depth: int) -> None:
        """Read operations into a block; ``blocks`` are those that successors number."""
        cursor = self.cursor
        w, values, strings, types = cursor.words, cursor.values, cursor.strings, cursor.types
        forms, ops = self.forms, self.ops
        i = cursor.at
        for _ in range(count):
            number, flags = w[i], w[i + 1]
            i += 2
            form = forms[number] or self.form(number)
            cls = form.cls
            comments: tuple[str, ...] = ()
            blank = False
            if flags & HAS_TRIVIA:
                cursor.at = i
                blank, comments = self._trivia()
                i = cursor.at
            size = form.operands
            segments = None
            if form.groups is not None:
                groups = form.groups
                segments = tuple(w[i : i + len(groups)])
                i += len(groups)
                for (least, most), length in zip(groups, segments, strict=True) if len(segments) == len(groups) else ():
                    if not least <= length <= most:
                        raise self._bad(f"'{cls.name}' has a group of {length} operands", "operands")
                size = sum(segments)
            refs = w[i : i + size]
            if 0 in refs or len(refs) != size:
                cursor.at = i
                operands, late = self._operands(size)
                i = cursor.at
            else:
                late = False
                operands = [values[-r] for r in refs]
                i += size
            successors = None
            if cls.spec.successors:
                successors = [blocks[k] for k in w[i : i + len(cls.spec.successors)]]
                i += len(successors)
            regions = None
            if flags & HAS_REGIONS:
                cursor.at = i + 1
                regions = self._regions(w[i], depth + 1)
                i = cursor.at
            found = flags >> RESULTS_SHIFT
            result_types: list[Type] = []
            late_types: list[int] = []
            if found:
                for k in range(found):
                    type_number = w[i]
                    i += 1
                    if type_number:
                        result_types.append(types[type_number])  # type: ignore[arg-type]  # entry 0 is the only empty one
                    else:
                        cursor.at = i - 1
                        result_types.append(read_type(cursor))
                        i = cursor.at
                        late_types.append(k)
            least, most = form.results
            if not least <= found <= most:
                raise self._bad(f"'{cls.name}' has {found} results", "results")
            least, most = form.regions
            if not least <= (len(regions) if regions is not None else 0) <= most:
                raise self._bad(f"'{cls.name}' has {len(regions or ())} regions", "regions")
            if successors is not None and len(successors) != len(cls.spec.successors):
                raise IndexError
            op = cls(operands, form.attributes[:], result_types, regions, successors, segments)
            if found:
                results = op.results
                if flags & HAS_NAMES:
                    for result in results:
                        result.name = strings[w[i]]
                        i += 1
                if late_types:
                    self.late_values += [results[k] for k in late_types]
                values += results
            if blank or comments:
                op.blank_before = blank
                op.comments = comments
            ops.append(op)
            if late:
                self.late_ops.append(op)
            if form.inline:
                cursor.at = i
                self._inline(op, form)
                i = cursor.at
            if form.predicates:
                self._check_predicates(op, form)
            # What `Block.append` does, without the call.
            op.parent = block
            last = block.last
            if last is None:
                block.first = op
            else:
                op.prev = last
                last.next = op
            block.last = op
        cursor.at = i

    def _operands(self, size: int) -> tuple[list[Value], bool]:
        cursor = self.cursor
        if size > len(cursor.words) - cursor.at:
            raise IndexError
        defined = len(cursor.values)
        late = False
        found: list[Value] = []
        for _ in range(size):
            late = late or cursor.words[cursor.at] == 0
            found.append(cursor.value())
        assert len(cursor.values) == defined
        return found, late

    def _trivia(self) -> tuple[bool, tuple[str, ...]]:
        cursor = self.cursor
        word = cursor.word()
        if not word:
            return False, ()
        if word >> 1 > len(cursor.words) - cursor.at:
            raise IndexError
        return bool(word & 1), tuple([cursor.string() for _ in range(word >> 1)])

    def _regions(self, count: int, depth: int) -> list[Region]:
        if depth > MAX_DEPTH:
            raise self._bad(f"regions nest deeper than {MAX_DEPTH}", "nesting")
        cursor = self.cursor
        if not 0 < count <= len(cursor.words) - cursor.at:
            raise IndexError
        found: list[Region] = []
        for _ in range(count):
            size = cursor.count()
            if size == 0:
                raise self._bad("a region has no block", "region")
            region = Region([Block() for _ in range(size)])
            for block in region.blocks:
                self._block(block, region.blocks, depth)
            found.append(region)
        return found

    def _block(self, block: Block, blocks: list[Block], depth: int) -> None:
        cursor = self.cursor
        words, strings = cursor.words, cursor.strings
        block.label = strings[cursor.word()]
        block.blank_before, block.comments = self._trivia()
        file = cursor.word()
        if file:
            position = [cursor.word() for _ in range(4)]
            block.loc = recorded_span(self.sources[file - 1], position)
        for _ in range(cursor.count()):
            late = words[cursor.at] == 0
            type_ = read_type(cursor)
            value = block.add_argument(type_, strings[cursor.word()])
            cursor.values.append(value)
            if late:
                self.late_values.append(value)
        self._ops(block, cursor.word(), blocks, depth)

    # -- attributes that name values -----------------------------------------------------------------------

    def _inline(self, op: Op, form: Form) -> None:
        cursor = self.cursor
        # Everything such an attribute may mention is defined by now.
        ahead, cursor.ahead = cursor.ahead, None
        try:
            for index, kind in form.inline:
                if kind.name == "results":
                    op.attributes[index] = self._result_specs(op)
                else:
                    op.attributes[index] = read_attribute(cursor, kind)
        finally:
            cursor.ahead = ahead

    def _result_specs(self, op: Op) -> tuple[ResultSpec, ...]:
        cursor = self.cursor
        arguments = len(op.regions[-1].entry.args) if op.regions else 0
        heads: list[tuple[int | None, Value | None]] = []
        for k in range(cursor.count()):
            tied, name = cursor.word(), cursor.word()
            if tied > arguments:
                raise self._bad(f"a result is tied to argument {tied - 1} of {arguments}", "tied")
            value = Value(ERROR, op, k, cursor.strings[name - 1] if name > 1 else None) if name else None
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

    def _check_predicates(self, op: Op, form: Form) -> None:
        """Positions in a predicate list count mentioned operands, or else the signature's arguments and results."""
        mentioned = op.spec.operand_index.get("mentioned")
        for index in form.predicates:
            predicates: Any = op.attributes[index]
            named: list[bool]
            if mentioned is not None:
                named = [True] * len(op.group(mentioned))
            else:
                named = [True] * max((len(region.entry.args) for region in op.regions), default=len(op.operands))
                for results in op.spec.result_spec_attributes:
                    specs: Any = op.attributes[results] or ()
                    named += [spec.value is not None for spec in specs]
            predicate: Predicate
            for predicate in predicates:
                for arg in predicate.args:
                    if isinstance(arg, Ref) and not (arg.index < len(named) and named[arg.index]):
                        raise self._bad(f"a predicate mentions position {arg.index}, which has no value", "predicate")

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

    # -- locations -----------------------------------------------------------------------------------------

    def _place(self, record: bytes) -> None:
        at = 0
        ops = self.ops
        for source, count in read_locations(record, self.sources):
            end = at + count
            if end > len(ops):
                break
            if source is not None:
                for k in range(at, end):
                    ops[k].loc = (source, k)
            at = end
        if at != len(ops):
            raise Damage(
                "BYTECODE/013",
                f"locations for {at} of {len(ops)} operations",
                location_id=at,
                offset=0,
                failure_code="count",
            )


