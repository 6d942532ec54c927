"""What selection asks of an instruction for every packet, looked up in its descriptor once.

A form belongs to a contract and a mnemonic; the forms of a contract are made when they are first used and stay as long
as the process, like the contract itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from loom.ir.types import RegType
from loom.low.assembly import is_constant
from loom.low.descriptors import Descriptor, ImmediateDescriptor
from loom_target_amdgpu.descriptors.encoding import Encoding
from loom_target_amdgpu.descriptors.lazy_set import TableSet
from loom_target_amdgpu.select.values import MASK32, SGPR, VGPR, Word, is_scalar, registers

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
_MASKS: Final = frozenset({"mask", "carry_in", "borrow_in"})
_LITERALS: Final = frozenset({"imm32", "imm16", "true_value", "false_value"})
"""Immediates that can be literals; others are fields of the instruction."""


class Slot(NamedTuple):
    """An operand: the register classes it takes, its size, and whether it is a lane mask of a vector instruction."""

    scalar: bool
    vector: bool
    units: int
    mask: bool


class Replaced(NamedTuple):
    """An operand that a variant has as an immediate: its position, and the name and range of the immediate.

    Small negative numbers are spelled as such where ``signed``.
    """

    operand: int
    name: str
    minimum: int | None
    maximum: int | None
    signed: bool

    def spelled(self, value: int) -> int:
        """The immediate for a 32-bit pattern."""
        pattern = value & MASK32
        return pattern - (1 << 32) if pattern >= 0xFFFFFFF0 and self.signed else pattern


class Variant:
    """A form that takes immediates for some operands of its base form."""

    __slots__ = ("form", "indices", "replaced")

    def __init__(self, form: Form, replaced: tuple[Replaced, ...]) -> None:
        self.form = form
        self.replaced = replaced
        self.indices = frozenset(item.operand for item in replaced)

    def immediates(self, order: Sequence[Word], bus: int) -> dict[str, object] | None:
        """The immediates for operands in an order, or ``None`` where they do not fit the variant.

        ``bus`` is the number of scalar values that a vector instruction may read.
        """
        table: dict[str, object] = {}
        literal: int | None = None
        for item in self.replaced:
            value = order[item.operand]
            if not isinstance(value, int):
                return None
            spelled = item.spelled(value)
            if item.minimum is not None and item.maximum is not None and not item.minimum <= spelled <= item.maximum:
                return None
            if not -16 <= spelled <= 64:
                # An instruction has room for one literal.
                if literal is not None and literal != spelled:
                    return None
                literal = spelled
            table[item.name] = spelled
        if literal is not None and self.form.vector:
            left = (word for i, word in enumerate(order) if i not in self.indices and not isinstance(word, int))
            if len({word for word in left if is_scalar(word)}) >= bus:
                return None
        return table


class Form:
    """An instruction as selection sees it.

    Attributes:
        vector: it belongs to the vector ALU, which reads a limited number of scalar values.
        swaps: an operand in scalar registers has to come first, and the operands may change places.
        movable: it computes the same wherever it stands, so that it can be shared and moved.
        constant: it is a constant of the machine level.
        masks: lane masks among the operands.
        immediates: names and defaults.
        literals: names of immediates that may be literals.
        results: types, or the position of the operand that a result is tied to.
    """

    __slots__ = (
        "_set",
        "_variants",
        "constant",
        "descriptor",
        "immediates",
        "literals",
        "masks",
        "movable",
        "results",
        "slots",
        "swaps",
        "vector",
    )

    def __init__(self, descriptor_set: TableSet, descriptor: Descriptor) -> None:
        self._set = descriptor_set
        self._variants: tuple[Variant, ...] | None = None
        self.descriptor = descriptor
        vector = self.vector = descriptor.mnemonic.startswith("v_")
        self.slots = tuple(
            Slot(
                SGPR in operand.classes,
                VGPR in operand.classes,
                operand.units,
                vector and operand.units == 2 and operand.name in _MASKS,
            )
            for operand in descriptor.operands
        )
        self.masks = sum(operand.units == 2 and operand.name in _MASKS for operand in descriptor.operands)
        self.swaps = (
            vector
            and descriptor.commutative is not None
            and len(self.slots) == 2
            and self.slots[1].vector
            and not self.slots[1].scalar
        )
        self.movable = _movable(descriptor)
        self.constant = is_constant(descriptor)
        self.immediates = tuple((item.name, item.default) for item in descriptor.immediates)
        names = (item.name for item in descriptor.immediates)
        self.literals = tuple(name for name in names if name in _LITERALS) if vector else ()
        ties = dict(descriptor.ties)
        self.results: tuple[RegType | int, ...] = tuple(
            ties[number]
            if number in ties
            else registers(result.classes[0] if len(result.classes) == 1 else VGPR, result.units)
            for number, result in enumerate(descriptor.results)
        )

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The immediate forms of the instruction, those with the smallest immediates first."""
        if self._variants is None:
            self._variants = self._read_variants()
        return self._variants

    def _read_variants(self) -> tuple[Variant, ...]:
        first = self.descriptor.encoding
        assert isinstance(first, Encoding)
        found: list[tuple[tuple[int, int], Variant]] = []
        forms = forms_of(self._set)
        for descriptor in self._set.variants_of(self.descriptor.key):
            second = descriptor.encoding
            assert isinstance(second, Encoding)
            by_name = {i.name: i for i in descriptor.immediates}
            replaced = [
                (old.operand, by_name[new.immediate])
                for old, new in zip(first.sources, second.sources, strict=True)
                if old.operand is not None and new.immediate is not None
            ]
            if replaced:
                rank = -len(replaced), sum(i.maximum or 1 << 40 for _, i in replaced)
                items = tuple(_replaced(index, immediate) for index, immediate in replaced)
                found.append((rank, Variant(forms[descriptor.mnemonic], items)))
        return tuple(variant for _, variant in sorted(found, key=lambda item: item[0]))

    def has_literal(self, table: dict[str, object]) -> bool:
        """Whether a vector instruction spends one of its scalar values on a literal."""
        for name in self.literals:
            value = table.get(name)
            if isinstance(value, int) and not -16 <= value <= 64:
                return True
        return False


def _replaced(index: int, immediate: ImmediateDescriptor) -> Replaced:
    low, high = immediate.minimum, immediate.maximum
    return Replaced(index, immediate.name, low, high, low is None or low < 0)


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


class _Forms(dict[str, Form]):
    """The forms of a contract by mnemonic."""

    __slots__ = ("_set",)

    def __init__(self, descriptor_set: TableSet) -> None:
        super().__init__()
        self._set = descriptor_set

    def __missing__(self, mnemonic: str) -> Form:
        made = self[mnemonic] = Form(self._set, self._set.by_mnemonic[mnemonic])
        return made


@cache
def forms_of(descriptor_set: TableSet) -> _Forms:
    """The forms of a contract; asking for a mnemonic that it lacks raises ``KeyError``."""
    return _Forms(descriptor_set)
