"""Vector banks: vectors that loops carry and only ever take apart, found so that every slot can be carried by itself.

The body of the loop reads and writes a bank slot by slot at positions that are known: a row of accumulators, the
entries of a ring. Slots are the values along its leading axis. As one value each slot lives as long as all of them,
and an update hides from facts and schedules that the others stay what they were.

Where slots can be told apart is decided here, for everything inside of the loop that a bank runs through: nested loops
and conditionals that hand it on, insertions, choices. Whatever else makes or takes the whole vector inside the loop
keeps it whole. What is done about it is in :mod:`loom.transforms.bank_slots`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from loom.facts.analysis import FunctionFacts
from loom.facts.version import Version
from loom.ir.core import Op, Value, symbol_name
from loom.ir.records import evolve, mutable_record, record
from loom.ir.types import ShapedType, Type
from loom.spec.registry import lookup
from loom.text.directives import index_entries
from loom.transforms.loops_report import PolicyDetail, detail

#: Slots of one bank: what a target might keep in registers of its own.
MAX_SLOTS: Final = 64

LOOPS: Final = ("scf.for", "scf.while")
_ARMS: Final = ("scf.if", "scf.switch")
_CARRIES: Final = frozenset({*LOOPS, *_ARMS})


@record
class Place:
    """One position of the values that a structured operation hands on.

    A ``scf.while`` has two lists of them: ``before`` of its first region, ``after`` of its second one and its results.
    """

    op: Op
    index: int
    part: str = ""

    def targets(self) -> list[Value]:
        """The values that are handed on: arguments of regions, and results."""
        op, index = self.op, self.index
        if op.name == "scf.for":
            return [op.regions[0].entry.args[1 + index], op.results[index]]
        if self.part == "before":
            return [op.regions[0].entry.args[index]]
        return [*([op.regions[1].entry.args[index]] if self.part else []), op.results[index]]

    def sources(self) -> Iterator[tuple[Op, int]]:
        """The operands that supply them."""
        op, index = self.op, self.index
        if op.name == "scf.for":
            yield op, 3 + index
        if self.part == "before":
            yield op, index
            yield _end(op, 1), index
        elif self.part == "after":
            yield _end(op, 0), 1 + index
        else:
            for number in range(len(op.regions)):
                yield _end(op, number), index


def _end(op: Op, region: int) -> Op:
    end = op.regions[region].entry.last
    assert end is not None
    return end


def place_of_use(user: Op, operand: int) -> Place | None:
    """Where an operand of a structured operation or of the end of its region leads."""
    if user.name == "scf.for":
        index = operand - 3
        return Place(user, index) if 0 <= index < len(user.results) else None
    if user.name == "scf.while":
        return Place(user, operand, "before")
    parent = user.parent_op
    if user.name == "scf.condition" and operand and parent is not None:
        return Place(parent, operand - 1, "after")
    if user.name == "scf.yield" and parent is not None and parent.name in _CARRIES:
        return Place(parent, operand, "before" if parent.name == "scf.while" else "")
    return None


def place_of_value(value: Value) -> Place | None:
    """The position that a result of a structured operation, or an argument of its region, belongs to."""
    owner = value.owner
    if isinstance(owner, Op):
        if owner.name not in _CARRIES:
            return None
        return Place(owner, value.index, "after" if owner.name == "scf.while" else "")
    parent = owner.parent.parent if owner.parent is not None else None
    if parent is None or parent.name not in _CARRIES or parent.name in _ARMS:
        return None
    if parent.name == "scf.for":
        return Place(parent, value.index - 1) if value.index else None
    return Place(parent, value.index, "before" if owner.parent is parent.regions[0] else "after")


def bank_type(type_: Type) -> ShapedType | None:
    """The type as that of a vector that may be a bank."""
    if not isinstance(type_, ShapedType) or type_.kind != "vector" or type_.dynamic or type_.encoding is not None:
        return None
    dims: Any = type_.dims
    return type_ if dims and 0 not in dims and dims[0] <= MAX_SLOTS else None


def carried_vectors(loop: Op) -> list[Value]:
    """The vectors that a loop carries and that may be banks."""
    values = list(loop.results)
    if loop.name == "scf.while":
        values += loop.regions[0].entry.args
    return [v for v in values if bank_type(v.type) is not None]


@mutable_record
class Bank:
    """A vector that a loop carries and everything inside the loop that it runs through."""

    loop: Op
    places: dict[Place, None]
    moves: dict[Op, None]
    """Operations that make a whole vector slot by slot: insertions, choices, lane by lane arithmetic."""
    reads: dict[Op, int]
    """Extractions with the slot that each takes."""
    writes: dict[Op, int]
    """Insertions with the slot that each replaces."""


def slot_of(op: Any, facts: FunctionFacts) -> int | None:
    """The slot that an extraction or insertion names, if it is known and there is one."""
    entries = index_entries(op.indices, op.static_indices)
    if not entries:
        return None
    first = entries[0]
    slot = first if isinstance(first, int) else facts.exact(first, op)
    extent = (op.source if op.name == "vector.extract" else op.target).type.dims[0]
    return slot if slot is not None and 0 <= slot < extent else None


class Whole(Exception):
    """Something inside of the loop makes or takes the whole vector."""

    def __init__(self, op: Op, reason: str) -> None:
        super().__init__(reason)
        self.op = op
        self.reason = reason


def decompose_banks(
    function: Op, target_facts: Mapping[str, object], *, version: Version | None = None
) -> list[PolicyDetail]:
    """Carry every bank of a function as its slots, outer loops first; a row for each vector with known slots.

    The program means the same. Facts of the target may tell which slot is meant.
    """
    rows: list[PolicyDetail] = []
    version = version or Version(function, target_facts)
    facts: FunctionFacts | None = None
    accessed = accessed_types(function)
    for loop in [op for op in function.walk() if op.name in LOOPS]:
        tried: set[Value] = set()
        # What was carried with another vector is slots by now, and slots that are vectors may be banks themselves.
        while (value := next((v for v in carried_vectors(loop) if v not in tried), None)) is not None:
            tried.add(value)
            if value.type not in accessed:
                continue
            place = place_of_value(value)
            assert place is not None
            facts = facts or version.facts
            row = _decompose(place, facts)
            if row is None:
                continue
            rows.append(evolve(row, function=symbol_name(function) or ""))
            if row.fields["outcome"] == "decomposed":
                accessed = accessed_types(function)
    if any(row.fields["outcome"] == "decomposed" for row in rows):
        version.changed()
    return rows


def accessed_types(function: Op) -> set[Type]:
    """The types of vectors that something takes a slot of or writes a slot of; others are no banks."""
    accesses: list[Any] = [op for op in function.walk() if op.name in ("vector.extract", "vector.insert")]
    return {(op.source if op.name == "vector.extract" else op.target).type for op in accesses}


def _decompose(start: Place, facts: FunctionFacts) -> PolicyDetail | None:
    type_ = bank_type(start.targets()[0].type)
    assert type_ is not None
    finder = _Finder(start, facts)
    fields: dict[str, object] = {"op": start.op.name, "vector": type_.text, "slots": type_.dims[0]}
    try:
        bank = finder.find()
    except Whole as whole:
        if not finder.bank.reads and not finder.bank.writes:
            return None
        return detail("vector-bank", start.op, outcome="kept", reason=f"'{whole.op.name}' {whole.reason}", **fields)
    if not bank.reads and not bank.writes:
        return None
    from loom.transforms.bank_slots import rewrite

    counts = {"read_count": len(bank.reads), "write_count": len(bank.writes)}
    rewrite(bank, facts)
    return detail("vector-bank", start.op, outcome="decomposed", **fields, **counts)


class _Finder:
    """Follows one carried vector through the inside of its loop."""

    def __init__(self, start: Place, facts: FunctionFacts) -> None:
        self.bank = Bank(start.op, {}, {}, {}, {})
        self.facts = facts
        self._pending: list[Value] = []
        self._known: set[Value] = set()
        self._whole: Whole | None = None
        self._join(start)

    def find(self) -> Bank:
        """Everything that the vector runs through. Raises :class:`Whole`."""
        while self._pending:
            value = self._pending.pop()
            for user in list(value.uses):
                if user.is_inside(self.bank.loop):
                    self._use(value, user)
        if self._whole is not None:
            raise self._whole
        return self.bank

    def _refuse(self, op: Op, reason: str) -> None:
        """Keep what was found first; going on finds whether slots are accessed at all."""
        self._whole = self._whole or Whole(op, reason)

    def _add(self, value: Value) -> None:
        if value not in self._known:
            self._known.add(value)
            self._pending.append(value)

    def _join(self, place: Place) -> None:
        if place in self.bank.places:
            return
        self.bank.places[place] = None
        for target in place.targets():
            self._add(target)
        for user, operand in place.sources():
            self._source(user.operands[operand])

    def _use(self, value: Value, user: Any) -> None:
        for number, operand in enumerate(user.operands):
            if operand is not value:
                continue
            place = place_of_use(user, number)
            if place is not None:
                self._join(place)
            elif user.name == "vector.extract" and number == 0:
                slot = slot_of(user, self.facts)
                if slot is None:
                    self._refuse(user, "takes a slot that is known at run time only")
                else:
                    self.bank.reads[user] = slot
            elif not self._move(user):
                self._refuse(user, "takes the whole vector")

    def _move(self, op: Any) -> bool:
        """Take in an operation that makes a whole vector slot by slot; whether it is one."""
        if op in self.bank.moves:
            return op.name != "vector.insert" or op.value not in self._known
        if op.name == "vector.insert":
            if op.value in self._known or not op.static_indices:
                return False
            slot = slot_of(op, self.facts)
            if slot is None:
                self._refuse(op, "writes a slot that is known at run time only")
            else:
                self.bank.writes[op] = slot
            sources = [op.target]
        elif op.name == "scf.select":
            sources = [op.true_value, op.false_value]
        elif is_lanewise(op):
            sources = []
        else:
            return False
        self.bank.moves[op] = None
        self._add(op.results[0])
        for source in sources:
            self._source(source)
        return True

    def _source(self, value: Value) -> None:
        """What supplies a bank from inside of the loop must be made slot by slot."""
        if value in self._known:
            return
        place = place_of_value(value)
        if place is not None and (place.op is self.bank.loop or place.op.is_inside(self.bank.loop)):
            self._join(place)
            return
        maker = value.defining_op
        if maker is None or not maker.is_inside(self.bank.loop):
            return
        if maker.name not in MADE_OF_SLOTS and not self._move(maker):
            self._refuse(maker, "makes the whole vector")


#: Operations that show their slots as they stand.
MADE_OF_SLOTS: Final = frozenset({"vector.from_elements", "vector.constant", "vector.splat"})


def is_lanewise(op: Op) -> bool:
    """Whether an operation on banks of vectors computes each lane from the same lanes of its operands.

    A bank of scalars is left alone: there such an operation is what vectors are for.
    """
    if len(op.results) != 1 or "pure" not in op.spec.traits or op.spec.dialect != "vector":
        return False
    type_ = bank_type(op.results[0].type)
    if type_ is None or type_.rank < 2:
        return False
    shaped = [v.type for v in op.operands if isinstance(v.type, ShapedType)]
    if not shaped or any(bank_type(t) is None or t.dims != type_.dims for t in shaped):
        return False
    return op.name == "vector.select" or lookup("scalar." + op.name.partition(".")[2]) is not None
