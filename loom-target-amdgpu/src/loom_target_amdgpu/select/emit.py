"""Appending packets: operand legalization, common subexpressions, and moving invariant code out of loops.

Selection describes control flow as nested scopes. A pure packet is looked up in the scopes around it before it is
made, and is made outside every loop whose values it does not use: lanes active inside a scope are active outside
too, so a value computed outside serves all of them.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from loom.ir.core import Block, Op, Region, Value
from loom.ir.diagnostics import Location
from loom.ir.records import record
from loom.ir.types import RegType
from loom.low.assembly import inferred_result_type, make_packet
from loom.low.builder import LowBuilder
from loom.low.descriptors import Descriptor, ImmediateDescriptor
from loom.low.machine import MemoryAccess
from loom_target_amdgpu.descriptors.encoding import Encoding
from loom_target_amdgpu.descriptors.lazy_set import TableSet
from loom_target_amdgpu.select.values import SGPR, VGPR, Word, is_scalar, reg_class

_LANE_OPS: Final = (
    "v_readlane",
    "v_writelane",
    "v_permlane",
    "v_mov_b32_dpp",
    "s_and_b64_exec",
    "s_or_b64_exec",
    "s_mov_b64_exec_read",
    "s_getpc",
)


@record
class Variant:
    """A descriptor that takes immediates for some operands of its base form."""

    descriptor: Descriptor
    immediates: tuple[tuple[int, ImmediateDescriptor], ...]


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


@cache
def variants(descriptor_set: TableSet, base: Descriptor) -> tuple[Variant, ...]:
    """The immediate forms of an instruction, those with the smallest immediates first."""
    first = base.encoding
    assert isinstance(first, Encoding)
    found = []
    for descriptor in descriptor_set.variants_of(base.key):
        second = descriptor.encoding
        assert isinstance(second, Encoding)
        by_name = {i.name: i for i in descriptor.immediates}
        replaced = [
            (old.operand, by_name[new.immediate])
            for old, new in zip(first.sources, second.sources, strict=True)
            if old.operand is not None and new.immediate is not None
        ]
        if replaced:
            found.append(Variant(descriptor, tuple(replaced)))
    found.sort(key=lambda v: (-len(v.immediates), sum(i.maximum or 1 << 40 for _, i in v.immediates)))
    return tuple(found)


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
        return 0 if isinstance(word, int) else self._levels.get(word, len(self._scopes) - 1)

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
        return self.packet(mnemonic, *operands, name=name, **immediates)[0]

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
        descriptor = self.builder.descriptor(mnemonic)
        given = list(operands)
        constants = {i for i, operand in enumerate(given) if isinstance(operand, int)}
        table = dict(immediates)
        if constants:
            descriptor, given, table = self._with_immediates(descriptor, given, constants, table)
        values = self._legalize(descriptor, given, self._bus - self._has_literal(descriptor, table))
        return self._make(descriptor, values, table, name, access)

    def _with_immediates(
        self, descriptor: Descriptor, given: list[Word], constants: set[int], table: dict[str, object]
    ) -> tuple[Descriptor, list[Word], dict[str, object]]:
        orders = [given]
        if descriptor.commutative is not None:
            orders.append([given[1], given[0], *given[2:]])
        for variant in variants(self.set, descriptor):
            for order in orders:
                if self._fits(variant, order):
                    replaced = dict(variant.immediates)
                    for index, immediate in variant.immediates:
                        table[immediate.name] = _signed(order[index], immediate)
                    return variant.descriptor, [o for i, o in enumerate(order) if i not in replaced], table
        return descriptor, given, table

    def _fits(self, variant: Variant, order: list[Word]) -> bool:
        literals = set()
        for index, immediate in variant.immediates:
            value = order[index]
            if not isinstance(value, int):
                return False
            low, high = immediate.minimum, immediate.maximum
            signed = _signed(value, immediate)
            if low is not None and high is not None and not low <= signed <= high:
                return False
            if not -16 <= signed <= 64:
                literals.add(signed)
        # An instruction has room for one literal.
        if len(literals) > 1:
            return False
        if not variant.descriptor.mnemonic.startswith("v_"):
            return True
        replaced = {index for index, _ in variant.immediates}
        scalars = {o for i, o in enumerate(order) if i not in replaced and not isinstance(o, int) and is_scalar(o)}
        return len(scalars) + len(literals) <= self._bus or not literals

    def _has_literal(self, descriptor: Descriptor, table: dict[str, object]) -> bool:
        """Whether a vector instruction spends one of its scalar values on a literal."""
        if not descriptor.mnemonic.startswith("v_"):
            return False
        values = (table.get(i.name) for i in descriptor.immediates if i.name in _LITERALS)
        return any(isinstance(value, int) and not -16 <= value <= 64 for value in values)

    def _legalize(self, descriptor: Descriptor, given: list[Word], bus: int) -> list[Value]:
        vector = descriptor.mnemonic.startswith("v_")
        if vector and descriptor.commutative is not None and len(given) == 2:
            first, second = given
            if (
                VGPR in descriptor.operands[1].classes
                and SGPR not in descriptor.operands[1].classes
                and is_scalar(second)
                and not is_scalar(first)
            ):
                given = [second, first]
        scalars: list[Word] = []
        values: list[Value] = []
        for operand, declared in zip(given, descriptor.operands, strict=True):
            want_scalar = SGPR in declared.classes
            if isinstance(operand, int):
                allowed = want_scalar and (not vector or len(scalars) < bus - self._later_masks(descriptor))
                value = self.constant(operand, scalar=allowed, units=declared.units)
            else:
                value = operand
            class_ = reg_class(value)
            if class_ == SGPR and vector and declared.units == 2 and declared.name in _MASKS:
                scalars.append(value)
            elif class_ == SGPR and VGPR in declared.classes:
                distinct = value in scalars
                if not want_scalar or (vector and not distinct and len(scalars) >= bus - self._later_masks(descriptor)):
                    value = self.to_vector(value)
                elif not distinct:
                    scalars.append(value)
            elif class_ == VGPR and VGPR not in declared.classes and want_scalar:
                value = self.to_scalar(value)
            values.append(value)
        return values

    def _later_masks(self, descriptor: Descriptor) -> int:
        """Lane masks among the operands also count as scalar values."""
        return sum(o.name in _MASKS and o.units == 2 for o in descriptor.operands)

    def _make(
        self,
        descriptor: Descriptor,
        values: list[Value],
        table: dict[str, object],
        name: str | None,
        access: MemoryAccess | None,
    ) -> list[Value]:
        immediates = {
            i.name: table[i.name] for i in descriptor.immediates if i.name in table and table[i.name] != i.default
        }
        movable = not self.pinned and _movable(descriptor)
        key: object = None
        if movable:
            key = (descriptor.mnemonic, tuple(map(id, values)), tuple(sorted(immediates.items())))
            for scope in reversed(self._scopes):
                known = scope.table.get(key)
                if known is not None:
                    return known
        types: list[RegType] = []
        for index in range(len(descriptor.results)):
            type_ = inferred_result_type(descriptor, index, values)
            if not isinstance(type_, RegType):
                type_ = RegType(VGPR, descriptor.results[index].units)
            types.append(type_)
        op = make_packet(descriptor, values, immediates, list(types), self.loc)
        level = self._place(op, values) if movable else self._append(op)
        for result in op.results:
            self._levels[result] = level
        if movable:
            self._scopes[level].table[key] = op.results
        if access is not None:
            self.memory[op] = access
        if name is not None and op.results and op.results[0].name is None:
            op.results[0].name = name
        return op.results

    def chain(self, low: str, high: str, a: tuple[Word, Word], b: tuple[Word, Word]) -> tuple[Value, Value]:
        """A scalar operation on low words and one on high words that reads its carry; shared and moved together."""
        if low == "s_add_u32" and isinstance(a[0], int):
            a, b = b, a
        parts = []
        for mnemonic, x, y in ((low, a[0], b[0]), (high, a[1], b[1])):
            if mnemonic == "s_addc_u32" and isinstance(x, int):
                x, y = y, x
            given: list[Word] = [self.register(x, True) if isinstance(x, int) else x, y]
            descriptor = self.builder.descriptor(mnemonic)
            table: dict[str, object] = {}
            if isinstance(y, int):
                descriptor, given, table = self._with_immediates(descriptor, given, {1}, table)
            parts.append((descriptor, self._legalize(descriptor, given, self._bus), table))
        key = ("chain", low, high, *((tuple(map(id, values)), tuple(table.items())) for _, values, table in parts))
        for scope in () if self.pinned else reversed(self._scopes):
            known = scope.table.get(key)
            if known is not None:
                return known[0], known[1]
        ops = []
        for descriptor, values, table in parts:
            ops.append(make_packet(descriptor, values, table, [RegType(SGPR, 1)], self.loc))
        every = [value for _, values, _ in parts for value in values]
        place = (lambda op, values: self._append(op)) if self.pinned else self._place
        level = place(ops[0], every)
        assert place(ops[1], every) == level
        results = [op.result for op in ops]
        for result in results:
            self._levels[result] = level
        if not self.pinned:
            self._scopes[level].table[key] = results
        return results[0], results[1]

    def _append(self, op: Op) -> int:
        self.builder.add(op)
        return len(self._scopes) - 1

    def _place(self, op: Op, values: list[Value]) -> int:
        """Append, or put before the loops whose values the packet does not use; returns the level."""
        current = len(self._scopes) - 1
        needed = max((self._levels.get(value, current) for value in values), default=0)
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
        if isinstance(value.type, RegType) and value.type.count == count:
            return value
        return self._structural(
            ("slice", id(value), offset, count), [value], lambda: self.builder.slice(value, offset, count, name)
        )

    def concat(self, *parts: Value, name: str | None = None) -> Value:
        """A tuple of parts; slices that make up a whole tuple give that tuple back."""
        if len(parts) == 1:
            return parts[0]
        whole = _whole(parts)
        if whole is not None:
            return whole
        return self._structural(
            ("concat", *map(id, parts)), list(parts), lambda: self.builder.concat(*parts, name=name)
        )

    def _structural(self, key: object, values: list[Value], make: object) -> Value:
        for scope in () if self.pinned else reversed(self._scopes):
            known = scope.table.get(key)
            if known is not None:
                return known[0]
        assert callable(make)
        result: Value = make()
        op = result.defining_op
        assert op is not None
        if self.pinned:
            return self.define(result)
        op.detach()
        level = self._place(op, values)
        self._levels[result] = level
        self._scopes[level].table[key] = [result]
        return result

    def words(self, value: Value) -> tuple[Value, ...]:
        """The units of a tuple."""
        assert isinstance(value.type, RegType)
        return tuple(self.slice(value, i) for i in range(value.type.count))

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


_MASKS: Final = frozenset({"mask", "carry_in", "borrow_in"})
_LITERALS: Final = frozenset({"imm32", "imm16", "true_value", "false_value"})
"""Immediates that can be literals; others are fields of the instruction."""


def _signed(value: Word, immediate: ImmediateDescriptor) -> int:
    """The spelling of a 32-bit pattern as an immediate: small negative numbers as such."""
    assert isinstance(value, int)
    pattern = value & 0xFFFFFFFF
    if pattern >= 0xFFFFFFF0 and (immediate.minimum is None or immediate.minimum < 0):
        return pattern - (1 << 32)
    return pattern


def _movable(descriptor: Descriptor) -> bool:
    effects = descriptor.effects
    if (
        effects.side_effects
        or effects.reads
        or effects.writes
        or effects.barrier
        or descriptor.mnemonic.startswith(_LANE_OPS)
        or descriptor.mnemonic.endswith("_dpp")
    ):
        return False
    if "scc" in effects.implicit_reads or "exec" in effects.implicit_writes:
        return False
    classes = {name for operand in (*descriptor.operands, *descriptor.results) for name in operand.classes}
    if classes & {"amdgpu.scc", "amdgpu.vcc", "amdgpu.m0"} or descriptor.mnemonic.startswith("ds_"):
        return False
    return descriptor.mnemonic != "v_readfirstlane_b32"


def _whole(parts: tuple[Value, ...]) -> Value | None:
    """The tuple that consecutive slices were taken from, if they are all of it."""
    from loom.dialects.low.ops import Slice

    if len(parts) < 2:
        return None
    source: Value | None = None
    expected = 0
    for part in parts:
        op = part.defining_op
        if not isinstance(op, Slice) or op.offset != expected or (source is not None and op.input is not source):
            return None
        source = op.input
        assert isinstance(part.type, RegType)
        expected += part.type.count
    assert source is not None
    assert isinstance(source.type, RegType)
    return source if source.type.count == expected else None
