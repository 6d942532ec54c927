"""Appending packets: operand legalization, common subexpressions, and moving invariant code out of loops.

Selection describes control flow as nested scopes. A pure packet is looked up in the scopes around it before it is
made, and is made outside every loop whose values it does not use: lanes active inside a scope are active outside
too, so a value computed outside serves all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loom.dialects.low import ops as low
from loom.ir.attributes import Dictionary
from loom.ir.core import Block, Op, Region, Value
from loom.ir.diagnostics import Location
from loom.ir.types import RegType
from loom.low.builder import LowBuilder
from loom.low.machine import MemoryAccess
from loom_target_amdgpu.descriptors.lazy_set import TableSet
from loom_target_amdgpu.select.forms import Form, forms_of
from loom_target_amdgpu.select.values import SGPR, VGPR, Word, is_scalar, reg_class, registers

_NO_IMMEDIATES: Final[dict[str, object]] = {}


class Scope:
    """A nesting level: the region of a structured operation.

    ``anchor`` is the block that nested scopes are entered from; code moved out of a loop goes to its end, in front of
    the test that ends it, if there is one. What a ``guard`` admits to a loop may as well be computed in front of it.
    """

    __slots__ = ("anchor", "guard", "is_loop", "table", "test")

    def __init__(self, is_loop: bool, guard: bool = False) -> None:
        self.is_loop = is_loop
        self.guard = guard
        self.anchor: Block | None = None
        self.test: Op | None = None
        self.table: dict[object, list[Value]] = {}


class Emit:
    """The packet level of selection for one kernel body.

    While ``pinned`` is set nothing is shared or moved: lanes are active that are not active elsewhere.
    """

    def __init__(self, descriptor_set: TableSet, region: Region, constant_bus: int) -> None:
        self.builder = LowBuilder(descriptor_set, region)
        self.set = descriptor_set
        self.memory: dict[Op, MemoryAccess] = {}
        self.pinned = False
        self._bus = constant_bus
        self._forms = forms_of(descriptor_set)
        self._scopes = [Scope(False)]
        self._levels: dict[Value, int] = {}

    # -- scopes --------------------------------------------------------------------------------------------------

    def enter_scope(self, is_loop: bool, anchor: Block) -> None:
        """Go one level deeper; ``anchor`` is the block the new scope is entered from."""
        self._scopes[-1].anchor = anchor
        self._scopes[-1].test = None
        self._scopes.append(Scope(is_loop))

    def enter_guard(self, anchor: Block, test: Op) -> None:
        """Go one level deeper, to a loop that runs if the test at the end of ``anchor`` says so."""
        self._scopes[-1].anchor = anchor
        self._scopes[-1].test = test
        self._scopes.append(Scope(False, guard=True))

    def leave_scope(self) -> None:
        """Back to the enclosing level."""
        self._scopes.pop()

    @property
    def loop_level(self) -> int:
        """The level of the innermost loop; 0 outside of loops."""
        return max((level for level, scope in enumerate(self._scopes) if scope.is_loop), default=0)

    def level(self, word: Word) -> int:
        """The level that a word belongs to."""
        if isinstance(word, int):
            return 0
        found = self._levels.get(word)
        return len(self._scopes) - 1 if found is None else found

    def define(self, value: Value) -> Value:
        """Record that a value (a block argument, say) belongs to the current scope."""
        self._levels[value] = len(self._scopes) - 1
        return value

    # -- location ------------------------------------------------------------------------------------------------

    @property
    def loc(self) -> Location:
        """Where in the source the instructions come from that are emitted now."""
        return self.builder.loc

    def at(self, loc: Location) -> None:
        """Source location of what follows."""
        self.builder.loc = loc

    # -- packets -------------------------------------------------------------------------------------------------

    def has(self, mnemonic: str) -> bool:
        """Whether the contract offers the instruction."""
        return mnemonic in self.set.by_mnemonic

    def op(self, mnemonic: str, *operands: Word, name: str | None = None, **immediates: Any) -> Value:
        """A packet with a result; the first one."""
        return self._emit(mnemonic, operands, immediates, name, None)[0]

    def packet(
        self,
        mnemonic: str,
        *operands: Word,
        name: str | None = None,
        access: MemoryAccess | None = None,
        **immediates: Any,
    ) -> list[Value]:
        """A packet. Constant operands become immediates where the instruction has a form for them; operands of a
        wrong class are copied; no more scalar values are read than the machine allows.
        """
        return self._emit(mnemonic, operands, immediates, name, access)

    def _emit(
        self,
        mnemonic: str,
        operands: tuple[Word, ...],
        immediates: dict[str, object],
        name: str | None,
        access: MemoryAccess | None,
    ) -> list[Value]:
        form = self._form(mnemonic)
        given: Sequence[Word] = operands
        for operand in operands:
            if isinstance(operand, int):
                form, given, immediates = self._with_immediates(form, operands, immediates)
                break
        bus = self._bus
        if immediates and form.literals and form.has_literal(immediates):
            bus -= 1
        return self._make(form, self._legalize(form, given, bus), immediates, name, access)

    def _form(self, mnemonic: str) -> Form:
        """The form of a mnemonic. Raises a located diagnostic when the contract lacks it."""
        if mnemonic not in self.set.by_mnemonic:
            self.builder.descriptor(mnemonic)
        return self._forms[mnemonic]

    def _with_immediates(
        self, form: Form, given: Sequence[Word], table: dict[str, object]
    ) -> tuple[Form, Sequence[Word], dict[str, object]]:
        orders = [given]
        if form.descriptor.commutative is not None:
            orders.append((given[1], given[0], *given[2:]))
        for variant in form.variants:
            for order in orders:
                found = variant.immediates(order, self._bus)
                if found is not None:
                    left = [word for i, word in enumerate(order) if i not in variant.indices]
                    return variant.form, left, table | found
        return form, given, table

    def _legalize(self, form: Form, given: Sequence[Word], bus: int) -> list[Value]:
        slots = form.slots
        if len(given) != len(slots):
            raise ValueError(f"{form.descriptor.mnemonic} takes {len(slots)} operands, not {len(given)}")
        if form.swaps and is_scalar(given[1]) and not is_scalar(given[0]):
            given = [given[1], given[0]]
        vector = form.vector
        # Lane masks among the operands also count as scalar values.
        room = bus - form.masks
        scalars: list[Value] = []
        values: list[Value] = []
        for operand, slot in zip(given, slots, strict=True):
            if isinstance(operand, int):
                allowed = slot.scalar and (not vector or len(scalars) < room)
                value = self.constant(operand, scalar=allowed, units=slot.units)
            else:
                value = operand
            class_ = value.type.reg_class  # type: ignore[attr-defined]  # words have registers
            scalar, lanes, _, mask = slot
            if class_ == SGPR:
                if mask:
                    scalars.append(value)
                elif lanes:
                    distinct = value in scalars
                    if not scalar or (vector and not distinct and len(scalars) >= room):
                        value = self.to_vector(value)
                    elif not distinct:
                        scalars.append(value)
            elif scalar and not lanes and class_ == VGPR:
                value = self.to_scalar(value)
            values.append(value)
        return values

    def _known(self, key: object) -> list[Value] | None:
        """What has been computed in this scope or one around it."""
        for scope in reversed(self._scopes):
            known = scope.table.get(key)
            if known is not None:
                return known
        return None

    def _make(
        self,
        form: Form,
        values: list[Value],
        table: dict[str, object],
        name: str | None,
        access: MemoryAccess | None,
    ) -> list[Value]:
        immediates = _NO_IMMEDIATES
        if table:
            immediates = {n: table[n] for n, default in form.immediates if n in table and table[n] != default}
        movable = form.movable and not self.pinned
        key: object = None
        if movable:
            key = (form, *values, *immediates.items())
            known = self._known(key)
            if known is not None:
                return known
        op = self._packet(form, values, immediates)
        level = self._place(op, values) if movable else self._append(op)
        results = op.results
        for result in results:
            self._levels[result] = level
        if movable:
            self._scopes[level].table[key] = results
        if access is not None:
            self.memory[op] = access
        if name is not None and results and results[0].name is None:
            results[0].name = name
        return results

    def _packet(self, form: Form, values: list[Value], immediates: dict[str, object]) -> Op:
        """The operation of an instruction, in no block yet."""
        types = [values[given].type if isinstance(given, int) else given for given in form.results]
        table = Dictionary(immediates) if immediates else None
        loc = self.builder.loc
        if form.constant:
            return low.Const([], [form.descriptor.key, table], types, loc=loc)
        return low.Packet(values, [form.descriptor.key, table], types, segments=(len(values),), loc=loc)

    def chain(self, first: str, second: str, a: tuple[Word, Word], b: tuple[Word, Word]) -> tuple[Value, Value]:
        """A scalar operation on low words and one on high words that reads its carry; shared and moved together."""
        if first == "s_add_u32" and isinstance(a[0], int):
            a, b = b, a
        parts = []
        for mnemonic, x, y in ((first, a[0], b[0]), (second, a[1], b[1])):
            if mnemonic == "s_addc_u32" and isinstance(x, int):
                x, y = y, x
            given: Sequence[Word] = (self.register(x, True) if isinstance(x, int) else x, y)
            form, table = self._form(mnemonic), _NO_IMMEDIATES
            if isinstance(y, int):
                form, given, table = self._with_immediates(form, given, table)
            parts.append((form, self._legalize(form, given, self._bus), table))
        (form, values, table), (high_form, high_values, high_table) = parts
        key = (form, *values, *table.items(), high_form, *high_values, *high_table.items())
        if not self.pinned:
            known = self._known(key)
            if known is not None:
                return known[0], known[1]
        ops = [self._packet(*part) for part in parts]
        every = values + high_values
        for op in ops:
            level = self._append(op) if self.pinned else self._place(op, every)
        results = [op.results[0] for op in ops]
        for result in results:
            self._levels[result] = level
        if not self.pinned:
            self._scopes[level].table[key] = results
        return results[0], results[1]

    def _append(self, op: Op) -> int:
        self.builder.add(op)
        return len(self._scopes) - 1

    def _place(self, op: Op, values: Sequence[Value]) -> int:
        """Append, or put before the loops whose values the packet does not use; returns the level."""
        current = len(self._scopes) - 1
        needed = 0
        levels = self._levels
        for value in values:
            own = levels.get(value, current)
            if own > needed:
                needed = own
        level = current
        for candidate in range(current, needed, -1):
            if self._scopes[candidate].is_loop or (self._scopes[candidate].guard and level == candidate):
                level = candidate - 1
        if level == current:
            return self._append(op)
        anchor = self._scopes[level].anchor
        assert anchor is not None
        place = self._scopes[level].test or anchor.last
        assert place is not None
        op.loc = self.loc
        op.insert_before(place)
        return level

    # -- tuples --------------------------------------------------------------------------------------------------

    def slice(self, value: Value, offset: int, count: int = 1, name: str | None = None) -> Value:
        """Consecutive units of a tuple."""
        type_ = value.type
        assert isinstance(type_, RegType)
        if type_.count == count:
            return value
        key = ("slice", value, offset, count)
        known = None if self.pinned else self._known(key)
        if known is not None:
            return known[0]
        return self._structural(key, low.Slice([value], [offset], [registers(type_.reg_class, count)]), [value], name)

    def concat(self, *parts: Value, name: str | None = None) -> Value:
        """A tuple of parts; slices that make up a whole tuple give that tuple back."""
        if len(parts) == 1:
            return parts[0]
        whole = _whole(parts)
        if whole is not None:
            return whole
        key = ("concat", *parts)
        known = None if self.pinned else self._known(key)
        if known is not None:
            return known[0]
        type_ = registers(reg_class(parts[0]), sum(part.type.count for part in parts))  # type: ignore[attr-defined]
        return self._structural(key, low.Concat([*parts], [], [type_], segments=(len(parts),)), parts, name)

    def _structural(self, key: object, op: Op, values: Sequence[Value], name: str | None) -> Value:
        """The result of a new operation that only names registers."""
        result = op.results[0]
        result.name = name
        level = self._append(op) if self.pinned else self._place(op, values)
        self._levels[result] = level
        if not self.pinned:
            self._scopes[level].table[key] = [result]
        return result

    def words(self, value: Value) -> tuple[Value, ...]:
        """The units of a tuple."""
        assert isinstance(value.type, RegType)
        count = value.type.count
        return (value,) if count == 1 else tuple([self.slice(value, i) for i in range(count)])

    def tuple_of(self, words: tuple[Word, ...], scalar: bool | None = None) -> Value:
        """Words as one register tuple; scalar if they all are (or as asked)."""
        if scalar is None:
            scalar = all(is_scalar(word) for word in words)
        if scalar and len(words) == 2 and all(isinstance(word, int) for word in words):
            return self.constant(int(words[0]) | int(words[1]) << 32, scalar=True, units=2)  # type: ignore[arg-type]
        return self.concat(*(self.register(word, scalar) for word in words))

    # -- registers -----------------------------------------------------------------------------------------------

    def constant(self, value: int, scalar: bool, units: int = 1) -> Value:
        """A constant in registers."""
        if units == 1:
            pattern = value & 0xFFFFFFFF
            signed = pattern - (1 << 32) if pattern >= 0xFFFFFFF0 else pattern
            return self.op("s_mov_b32" if scalar else "v_mov_b32", imm32=signed)
        if scalar and units == 2:
            wide = value & (1 << 64) - 1
            signed = wide - (1 << 64) if wide >> 63 else wide
            if -16 <= signed <= 64:
                return self.op("s_mov_b64_inline", imm32=signed)
        return self.concat(*(self.constant(value >> 32 * i, scalar) for i in range(units)))

    def register(self, word: Word, scalar: bool) -> Value:
        """A word in a register of the wanted kind."""
        if isinstance(word, int):
            return self.constant(word, scalar)
        return self.to_scalar(word) if scalar else self.to_vector(word)

    def to_vector(self, value: Value) -> Value:
        """The value in vector registers."""
        if reg_class(value) != SGPR:
            return value
        return self.concat(*(self.op("v_mov_b32_copy", unit) for unit in self.words(value)))

    def to_scalar(self, value: Value) -> Value:
        """The value of the first active lane in scalar registers; the caller knows that all lanes agree."""
        if reg_class(value) == SGPR:
            return value
        return self.concat(*(self.op("v_readfirstlane_b32", unit) for unit in self.words(value)))


def _whole(parts: tuple[Value, ...]) -> Value | None:
    """The tuple that consecutive slices were taken from, if they are all of it."""
    source: Value | None = None
    expected = 0
    for part in parts:
        op = part.defining_op
        if not isinstance(op, low.Slice) or op.offset != expected or (source is not None and op.input is not source):
            return None
        source = op.input
        assert isinstance(part.type, RegType)
        expected += part.type.count
    assert source is not None
    assert isinstance(source.type, RegType)
    return source if source.type.count == expected else None
