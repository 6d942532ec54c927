"""Carrying the slots of a vector bank one by one: every structured operation that hands it on hands on its slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loom.dialects.scf import ops as scf
from loom.dialects.vector import construct
from loom.facts.analysis import FunctionFacts
from loom.ir.core import Block, Op, Value
from loom.ir.diagnostics import Location
from loom.ir.types import FLOATS, I1, ShapedType, Type
from loom.spec.kinds import DYNAMIC
from loom.text.directives import index_entries
from loom.transforms.banks import Bank, bank_type, slot_of
from loom.transforms.fold import make_constant


def rewrite(bank: Bank, facts: FunctionFacts) -> None:
    """Carry the slots of a bank instead of the vector. Uses behind the loop get a vector made of the last slots."""
    _Rewriter(bank, facts).run()


def slot_type(type_: Type) -> Type:
    """The type of one slot: a scalar, or the vector of the axes behind the leading one."""
    assert isinstance(type_, ShapedType)
    return type_.element if type_.rank == 1 else ShapedType.get("vector", type_.dims[1:], type_.element)


class _Rewriter:
    def __init__(self, bank: Bank, facts: FunctionFacts) -> None:
        self.bank = bank
        self.facts = facts
        self.slots: dict[Value, list[Value]] = {}

    def run(self) -> None:
        ops = list(self.bank.loop.walk())
        sources = self._sources()
        results = [t for place in self.bank.places for t in place.targets() if place.op is self.bank.loop]
        self._split_targets()
        # In the order of the text the slots of whatever an operation takes are known when it is looked at.
        for op in ops:
            if op in self.bank.reads:
                op.replace_with([self._read(op)])
            elif op in self.bank.moves:
                self._slots(op.results[0], op)
        for user, numbers in sources.items():
            self._expand_operands(user, numbers)
        for op in reversed(ops):
            if op in self.bank.moves and not op.results[0].is_used:
                op.erase()
        for value in results:
            self._read_behind(value)
            if value.is_used:
                self._assemble(value)

    def _sources(self) -> dict[Op, list[int]]:
        found: dict[Op, list[int]] = {}
        for place in self.bank.places:
            for user, operand in place.sources():
                found.setdefault(user, []).append(operand)
        return found

    # -- what structured operations hand on ------------------------------------------------------------------

    def _split_targets(self) -> None:
        lists: dict[Op | Block, set[Value]] = {}
        for place in self.bank.places:
            for target in place.targets():
                lists.setdefault(target.owner, set()).add(target)
        for owner, split in lists.items():
            if isinstance(owner, Op):
                owner.results = self._split(owner.results, split, owner)
            else:
                owner.args = self._split(owner.args, split, owner)

    def _split(self, values: Sequence[Value], split: set[Value], owner: Op | Block) -> list[Value]:
        found: list[Value] = []
        for value in values:
            if value not in split:
                found.append(value)
                continue
            type_ = slot_type(value.type)
            self.slots[value] = [
                Value(type_, owner, 0, f"{value.name}_{number}" if value.name else None)
                for number in range(_extent(value))
            ]
            found += self.slots[value]
        for index, value in enumerate(found):
            value.index = index
        return found

    def _expand_operands(self, user: Op, numbers: list[int]) -> None:
        """Replace operands by their slots; all of one group, as structured operations have only one of that kind."""
        operands: list[Value] = []
        for number, operand in enumerate(user.operands):
            operands += self._slots(operand, user) if number in numbers else [operand]
        segments = user.segments
        if segments is not None:
            group = 0
            while sum(segments[: group + 1]) <= numbers[0]:
                group += 1
            grown = segments[group] + len(operands) - len(user.operands)
            segments = (*segments[:group], grown, *segments[group + 1 :])
        user.set_operands(operands, segments)

    # -- slots of values ---------------------------------------------------------------------------------------

    def _slots(self, value: Value, user: Op) -> list[Value]:
        """The slots of a vector, made where it is made, or in front of its user when nothing else shows them."""
        known = self.slots.get(value)
        if known is not None:
            return known
        maker: Any = value.defining_op
        rule = _SHOWN.get(maker.name) if maker is not None else None
        if rule is not None:
            found = rule(maker)
        elif maker is not None and maker.name == "vector.insert" and slot_of(maker, self.facts) is not None:
            # In front of the loop, too, or behind an earlier one whose slots it puts together.
            found = self._inserted(maker)
        elif maker in self.bank.moves:
            found = self._moved(maker)
        else:
            return [self._extracted(value, number, user) for number in range(_extent(value))]
        self.slots[value] = found
        return found

    def _inserted(self, op: Any) -> list[Value]:
        slot = slot_of(op, self.facts)
        assert slot is not None
        found = list(self._slots(op.target, op))
        indices, static = self._rest(op)
        if static:
            made = construct.Insert.build(
                value=op.value, target=found[slot], indices=indices, static_indices=static, loc=op.loc
            )
            made.insert_before(op)
            found[slot] = made.results[0]
        else:
            found[slot] = op.value
        return found

    def _moved(self, op: Any) -> list[Value]:
        if op.name == "scf.select":
            sides = (self._slots(op.true_value, op), self._slots(op.false_value, op))
            return [self._chosen(op, a, b) for a, b in zip(*sides, strict=True)]
        type_ = slot_type(op.results[0].type)
        shaped = {v: self._slots(v, op) for v in op.operands if isinstance(v.type, ShapedType)}
        found = []
        for number in range(_extent(op.results[0])):
            operands = [shaped[v][number] if v in shaped else v for v in op.operands]
            made = type(op)(operands, list(op.attributes), [type_], segments=op.segments, loc=op.loc)
            made.insert_before(op)
            found.append(made.results[0])
        return found

    def _chosen(self, op: Any, a: Value, b: Value) -> Value:
        if a is b:
            return a
        made = scf.Select.build(condition=op.condition, true_value=a, false_value=b, loc=op.loc)
        made.insert_before(op)
        return made.results[0]

    def _read(self, op: Any) -> Value:
        slot = self._slots(op.source, op)[self.bank.reads[op]]
        indices, static = self._rest(op)
        return self._part(slot, indices, static, op.results[0].type, op) if static else slot

    def _rest(self, op: Any) -> tuple[list[Value], tuple[int, ...]]:
        """Indices behind that of the slot."""
        rest = index_entries(op.indices, op.static_indices)[1:]
        return [e for e in rest if isinstance(e, Value)], tuple(e if isinstance(e, int) else DYNAMIC for e in rest)

    def _extracted(self, value: Value, number: int, user: Op) -> Value:
        return self._part(value, [], (number,), slot_type(value.type), user)

    def _part(self, value: Value, indices: list[Value], static: tuple[int, ...], type_: Type, user: Op) -> Value:
        made = construct.Extract.build(
            source=value, indices=indices, static_indices=static, result_types=[type_], loc=user.loc
        )
        made.insert_before(user)
        return made.results[0]

    def _read_behind(self, value: Value) -> None:
        """Extractions of known slots behind the loop take them as they are."""
        for user in list(value.uses):
            if user.name == "vector.extract" and (slot := slot_of(user, self.facts)) is not None:
                self.bank.reads[user] = slot
                user.replace_with([self._read(user)])

    def _assemble(self, value: Value) -> None:
        """A vector of the slots behind the loop, for those who take it whole."""
        loop = self.bank.loop
        assert loop.next is not None
        anchor = loop.next
        whole = assembled(value.type, self.slots[value], anchor, loop.loc)
        whole.name = value.name
        value.replace_all_uses(whole)


def assembled(type_: Type, slots: list[Value], anchor: Op, loc: Location) -> Value:
    """A bank made of its slots in front of an operation."""
    assert isinstance(type_, ShapedType)
    if type_.rank == 1:
        made: Op = construct.FromElements.build(elements=list(slots), result_types=[type_], loc=loc)
        made.insert_before(anchor)
        return made.results[0]
    element = type_.element
    zero: object = False if element is I1 else 0.0 if element in FLOATS else 0
    made = construct.Constant([], [zero], [type_], loc=loc)
    made.insert_before(anchor)
    for number, slot in enumerate(slots):
        made = construct.Insert.build(value=slot, target=made.results[0], indices=[], static_indices=(number,), loc=loc)
        made.insert_before(anchor)
    return made.results[0]


def _extent(value: Value) -> int:
    type_ = bank_type(value.type)
    assert type_ is not None
    extent = type_.dims[0]
    assert isinstance(extent, int)
    return extent


# -- vectors that show their slots as they stand -----------------------------------------------------------------


def _of_elements(op: Any) -> list[Value]:
    type_ = slot_type(op.results[0].type)
    if not isinstance(type_, ShapedType):
        return list(op.elements)
    lanes = len(op.elements) // _extent(op.results[0])
    found = []
    for start in range(0, len(op.elements), lanes):
        elements = op.elements[start : start + lanes]
        made = construct.FromElements.build(elements=elements, result_types=[type_], loc=op.loc)
        made.insert_before(op)
        found.append(made.results[0])
    return found


def _of_constant(op: Any) -> list[Value]:
    type_ = slot_type(op.results[0].type)
    if isinstance(type_, ShapedType):
        made: Op = construct.Constant([], [op.value], [type_], loc=op.loc)
    else:
        made = make_constant(type_, op.value, op.loc)
    made.insert_before(op)
    return made.results * _extent(op.results[0])


def _of_splat(op: Any) -> list[Value]:
    type_ = slot_type(op.results[0].type)
    if not isinstance(type_, ShapedType):
        return [op.scalar] * _extent(op.results[0])
    made = construct.Splat([op.scalar], [], [type_], loc=op.loc)
    made.insert_before(op)
    return made.results * _extent(op.results[0])


_SHOWN: Final = {
    "vector.from_elements": _of_elements,
    "vector.constant": _of_constant,
    "vector.splat": _of_splat,
}
