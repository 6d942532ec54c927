"""The vocabulary in which a target describes its registers and machine instructions.

Everything here is a frozen record: a target builds its tables once and the scheduler, the register
allocator and the emitters read them. Nothing in this file knows a particular machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal

from loom.ir.records import field, record

ImmediateKind = Literal["int", "enum", "float", "symbol", "block", "str"]
Part = Literal["low16", "high16"]

MEMORY_SPACES = frozenset({"global", "workgroup", "private", "constant", "generic"})
"""The names an :class:`Effects` record may use for memory; ``generic`` may be any of the others."""


def _mapping(value: Mapping[int, int]) -> Mapping[int, int]:
    return MappingProxyType(dict(value))


def _named(value: Mapping[str, tuple[int, int]] | None) -> Mapping[str, tuple[int, int]] | None:
    return None if value is None else MappingProxyType(dict(value))


# Converters with spelled-out types: a type checker cannot see through ``converter=tuple``.
def _strings(value: Iterable[str]) -> tuple[str, ...]:
    return tuple(value)


def _string_set(value: Iterable[str]) -> frozenset[str]:
    return frozenset(value)


def _unit_set(value: Iterable[int]) -> frozenset[int]:
    return frozenset(value)


def _operands(value: Iterable[OperandDescriptor]) -> tuple[OperandDescriptor, ...]:
    return tuple(value)


def _immediates(value: Iterable[ImmediateDescriptor]) -> tuple[ImmediateDescriptor, ...]:
    return tuple(value)


@record(eq=False)
class RegisterClass:
    """A set of interchangeable registers.

    Attributes:
        name: the spelling in ``reg<…>``, for example ``amdgpu.vgpr``.
        unit_bits: bits of one unit; a value occupies ``units`` consecutive units.
        count: number of units, numbered from 0.
        alignments: value size in units -> required alignment of its first unit (1 where absent).
        spillable: False for registers that no instruction can save (a condition bit, for example).
        bank: classes that name the same bank share physical units of the same number. Empty
            means "the class's own name".
        reserved: units the allocator may never choose; a live-in may still be fixed to one.
        named: implicit-register name -> (first unit, units) of the registers it stands for, so
            that an instruction that writes the name clobbers them. Left out, a class that cannot
            be spilled stands for the implicit register spelled like the last part of its name
            (``amdgpu.scc`` for ``scc``), any other class for none.
        mask: the implicit register that selects which lanes a write to this class touches
            (``exec``), if there is one: copies of such values never move across its writes.
    """

    name: str
    unit_bits: int
    count: int
    alignments: Mapping[int, int] = field(factory=dict, converter=_mapping)
    spillable: bool = True
    bank: str = ""
    reserved: frozenset[int] = field(default=frozenset(), converter=_unit_set)
    named: Mapping[str, tuple[int, int]] | None = field(default=None, converter=_named)
    mask: str = ""

    def __attrs_post_init__(self) -> None:
        if self.count <= 0 or self.unit_bits <= 0:
            raise ValueError(f"register class {self.name!r} needs a positive count and unit size")
        if not self.bank:
            object.__setattr__(self, "bank", self.name)
        if self.named is None:
            own = {} if self.spillable else {self.name.rpartition(".")[2]: (0, self.count)}
            object.__setattr__(self, "named", MappingProxyType(own))

    def alignment(self, units: int) -> int:
        """Required alignment, in units, of the first unit of a value of ``units`` units."""
        return self.alignments.get(units, 1)


@record
class OperandDescriptor:
    """One register operand or result of an instruction.

    Attributes:
        name: unique among the operands (or among the results) of its instruction.
        classes: names of the register classes it accepts.
        units: consecutive units it occupies.
        part: the half of a unit that is read or written, where only one is.
        tied: on a result, the operand whose register it shares.
        early_clobber: on a result, written before all operands have been read, so it shares a
            register with none of them (except with the operand it is tied to).
    """

    name: str
    classes: tuple[str, ...] = field(converter=_strings)
    units: int = 1
    part: Part | None = None
    tied: str | None = None
    early_clobber: bool = False


@record
class ImmediateDescriptor:
    """One immediate of an instruction; ``default=None`` makes it mandatory."""

    name: str
    kind: ImmediateKind = "int"
    positional: bool = False
    default: int | float | str | None = None
    minimum: int | None = None
    maximum: int | None = None
    values: tuple[str, ...] = field(default=(), converter=_strings)


@record
class Effects:
    """What an instruction does besides computing its results from its operands.

    Attributes:
        reads, writes: memory spaces (see :data:`MEMORY_SPACES`).
        implicit_reads, implicit_writes: registers that never appear in text (``exec``, ``mode``,
            ``scc``, ``flags`` …), by name.
        side_effects: its order with other side effects is observable, and it is never removed.
        barrier: orders every memory access around it.
        terminator: ends a block.
    """

    reads: frozenset[str] = field(default=frozenset(), converter=_string_set)
    writes: frozenset[str] = field(default=frozenset(), converter=_string_set)
    implicit_reads: tuple[str, ...] = field(default=(), converter=_strings)
    implicit_writes: tuple[str, ...] = field(default=(), converter=_strings)
    side_effects: bool = False
    barrier: bool = False
    terminator: bool = False

    def __attrs_post_init__(self) -> None:
        unknown = (self.reads | self.writes) - MEMORY_SPACES
        if unknown:
            raise ValueError(f"unknown memory space {sorted(unknown)[0]!r}")


NO_EFFECTS = Effects()


@record(eq=False)
class Descriptor:
    """One machine instruction of a descriptor set.

    Attributes:
        key: spelling in ``low.op<key>``, unique in its set.
        mnemonic: spelling in ``asm`` text, unique in its set.
        schedule_class: what a target's latency and resource model looks up.
        features: features a processor needs to have it.
        commutative: names of the two operands that may be exchanged, if any.
        rematerializable: may be issued again instead of keeping its result (no operands whose
            values may have changed, no effects).
        encoding: whatever the target's emitter needs; nobody else looks inside.
        variadic_operands: any number of operands may follow the declared ones.
        grouped: the text groups operands as ``<a>[b](c)``: how many stand in the first two groups.
    """

    key: str
    mnemonic: str
    results: tuple[OperandDescriptor, ...] = field(default=(), converter=_operands)
    operands: tuple[OperandDescriptor, ...] = field(default=(), converter=_operands)
    immediates: tuple[ImmediateDescriptor, ...] = field(default=(), converter=_immediates)
    effects: Effects = NO_EFFECTS
    schedule_class: str = ""
    features: frozenset[str] = field(default=frozenset(), converter=_string_set)
    commutative: tuple[str, str] | None = None
    rematerializable: bool = False
    encoding: object = None
    variadic_operands: bool = False
    grouped: tuple[int, int] | None = None
    ties: tuple[tuple[int, int], ...] = field(init=False, repr=False)
    """(result index, operand index) of every tie, precomputed from the names."""
    clobbers_early: bool = field(init=False, repr=False)
    """Whether a result is written before all operands have been read."""

    def __attrs_post_init__(self) -> None:
        index = {operand.name: number for number, operand in enumerate(self.operands)}
        if len(index) != len(self.operands):
            raise ValueError(f"{self.key}: two operands have one name")
        ties = []
        for number, result in enumerate(self.results):
            if result.tied is None:
                continue
            if result.tied not in index:
                raise ValueError(f"{self.key}: result {result.name!r} is tied to no operand {result.tied!r}")
            if self.operands[index[result.tied]].units != result.units:
                raise ValueError(f"{self.key}: result {result.name!r} and its tied operand differ in size")
            ties.append((number, index[result.tied]))
        if self.commutative is not None and any(name not in index for name in self.commutative):
            raise ValueError(f"{self.key}: commutative names no operand")
        object.__setattr__(self, "ties", tuple(ties))
        object.__setattr__(self, "clobbers_early", any(result.early_clobber for result in self.results))

    @property
    def commuted(self) -> tuple[int, int] | None:
        """Indices of the two exchangeable operands."""
        if self.commutative is None:
            return None
        names = [operand.name for operand in self.operands]
        return names.index(self.commutative[0]), names.index(self.commutative[1])


class DescriptorSet:
    """A representation contract: its register classes and its instructions.

    Raises:
        ValueError: two instructions share a key or a mnemonic, or an operand names a class that
            the set does not have.
    """

    __slots__ = ("by_key", "by_mnemonic", "key", "registers")

    def __init__(self, key: str, registers: Mapping[str, RegisterClass], descriptors: Iterable[Descriptor]) -> None:
        self.key = key
        self.registers: Mapping[str, RegisterClass] = MappingProxyType(dict(registers))
        self.by_key: dict[str, Descriptor] = {}
        self.by_mnemonic: dict[str, Descriptor] = {}
        for name, register_class in self.registers.items():
            if register_class.name != name:
                raise ValueError(f"{key}: class {register_class.name!r} is filed under {name!r}")
        for descriptor in descriptors:
            if self.by_key.setdefault(descriptor.key, descriptor) is not descriptor:
                raise ValueError(f"{key}: two instructions have the key {descriptor.key!r}")
            if self.by_mnemonic.setdefault(descriptor.mnemonic, descriptor) is not descriptor:
                raise ValueError(f"{key}: two instructions have the mnemonic {descriptor.mnemonic!r}")
            for operand in (*descriptor.results, *descriptor.operands):
                for name in operand.classes:
                    if name not in self.registers:
                        raise ValueError(f"{descriptor.key}: no register class {name!r} in {key}")

    def __repr__(self) -> str:
        return f"DescriptorSet({self.key!r}, {len(self.by_key)} instructions)"
