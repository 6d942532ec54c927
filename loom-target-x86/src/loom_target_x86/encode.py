"""Single machine instructions to bytes, from the templates of the descriptor tables.

The opcodes are iced-x86's: a template names the exact form and this file fills in registers, immediates and
addresses. `assembler` puts instructions, labels and branches together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from attrs import frozen

from loom.low.descriptors import Descriptor
from loom_target_x86.registers import NAMES_BY_WIDTH, REGISTER_COUNT, WIDTH_OF_CLASS
from loom_target_x86.template import (
    BranchStep,
    ImmediateRef,
    InstructionStep,
    LabelStep,
    MemoryRef,
    RegisterRef,
    Step,
    parse_template,
)


class EncodingError(ValueError):
    """An instruction that has no encoding: a register, immediate or displacement out of range."""


@frozen
class Encoding:
    """What the emitter needs to know of a descriptor (its `encoding`).

    `template` produces the whole instruction. Packets that materialise a comparison as 0 or 1 also give the
    part that only sets the flags (`flags`) and the condition under which it holds (`condition`: one of
    `template.CONDITIONS`, or `e&np`, `ne|p` for the two that need the parity flag as well), so that a branch
    on the result can follow the flags directly. Selections give the part that acts on flags set by an adjacent
    comparison (`on_flags`, with `{cc}` for the condition and `{ncc}` for its opposite).
    """

    template: str
    flags: str | None = None
    condition: str = ""
    on_flags: str = ""


@frozen
class Chunk:
    data: bytes
    fixup: tuple[int, str, int] | None = None  # offset in the chunk, symbol, addend


@lru_cache(maxsize=1)
def _iced() -> Any:
    # Imported at the first encoding: the tables are useful without it and it costs start-up time.
    import iced_x86

    return iced_x86


@cache
def _iced_registers(width: str) -> tuple[int, ...]:
    registers = _iced().Register
    names = [name.upper() for name in NAMES_BY_WIDTH[width]]
    return tuple(getattr(registers, name) for name in names)


@cache
def _iced_code(name: str) -> int:
    code = getattr(_iced().Code, name.upper(), None)
    if code is None:
        raise EncodingError(f"unknown instruction form {name!r}")
    return int(code)


@lru_cache(maxsize=1)
def _encoder() -> Any:
    return _iced().Encoder(64)


def fits_signed(value: int, bits: int) -> bool:
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def _choose_immediate_form(code: str, value: int) -> str:
    """The code for a `_imm` template: the shortest form that holds `value`."""
    if code == "mov_r64_imm":
        if 0 <= value < 1 << 32:
            return "mov_r32_imm32"  # the upper half becomes zero
        signed = value - (1 << 64) if value >= 1 << 63 else value
        return "mov_rm64_imm32" if fits_signed(signed, 32) else "mov_r64_imm64"
    return code + ("8" if fits_signed(value, 8) else "32")


def _integer(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise EncodingError(f"immediate {name!r} must be an integer, not {value!r}")
    return value


class BoundInstruction:
    """An instruction step whose operand names are resolved to positions."""

    __slots__ = ("code", "lock", "operands", "slots")

    def __init__(self, step: InstructionStep, slots: Mapping[str, tuple[int, str]]) -> None:
        self.code = step.code
        self.lock = step.lock
        self.operands = step.operands
        self.slots = slots

    def _register(self, ref: RegisterRef, units: Sequence[int], width: str | None = None) -> int:
        if ref.unit is not None:
            assert ref.width is not None
            return _iced_registers(ref.width)[ref.unit]
        assert ref.name is not None
        try:
            position, own_width = self.slots[ref.name]
        except KeyError:
            raise EncodingError(
                f"{self.code}: the instruction has no register operand {ref.name!r}"
            ) from None
        return _iced_registers(ref.width or width or own_width)[units[position]]

    def _immediate(self, ref: ImmediateRef, immediates: Mapping[str, object]) -> int:
        if ref.name is None:
            return ref.value
        if ref.name not in immediates:
            raise EncodingError(f"{self.code}: missing immediate {ref.name!r}")
        return _integer(immediates[ref.name], ref.name)

    def _memory(
        self, ref: MemoryRef, units: Sequence[int], immediates: Mapping[str, object]
    ) -> tuple[object, tuple[str, int] | None]:
        iced = _iced()
        if ref.symbol is not None:
            symbol = immediates.get(ref.symbol)
            if not isinstance(symbol, str) or not symbol:
                raise EncodingError(f"{self.code}: immediate {ref.symbol!r} must name a symbol")
            offset = _integer(immediates.get("offset", 0), "offset")
            # The value of the displacement is irrelevant: a relocation overwrites it.
            operand = iced.MemoryOperand(iced.Register.RIP, displ=0, displ_size=8)
            return operand, (symbol, offset)
        none = iced.Register.NONE
        base = none if ref.base is None else self._register(ref.base, units, "q")
        index = none if ref.index is None else self._register(ref.index, units, "q")
        scale = 1 if ref.scale is None else self._immediate(ref.scale, immediates)
        if scale not in (1, 2, 4, 8):
            raise EncodingError(f"{self.code}: scale must be 1, 2, 4 or 8, not {scale}")
        if index == iced.Register.RSP:
            raise EncodingError(f"{self.code}: rsp cannot be an index register")
        displacement = sum(self._immediate(part, immediates) for part in ref.displacements)
        if not fits_signed(displacement, 32):
            raise EncodingError(f"{self.code}: displacement {displacement} does not fit 32 bits")
        size = 4 if ref.base is None else int(displacement != 0)
        operand = iced.MemoryOperand(base, index, scale, displacement, size)
        return operand, None

    def encode(self, units: Sequence[int], immediates: Mapping[str, object]) -> Chunk:
        iced = _iced()
        code = self.code
        if code.endswith("_imm"):
            (reference,) = (operand for operand in self.operands if isinstance(operand, ImmediateRef))
            code = _choose_immediate_form(code, self._immediate(reference, immediates))
        # The short form of a 64-bit move writes the 32-bit register, which clears the upper half.
        width = "d" if code == "mov_r32_imm32" and self.code != code else None
        wide = "64" if code == "mov_r64_imm64" else "32"
        kinds: list[str] = []
        values: list[object] = []
        symbol: tuple[str, int] | None = None
        for operand in self.operands:
            if isinstance(operand, RegisterRef):
                kinds.append("reg")
                values.append(self._register(operand, units, width))
            elif isinstance(operand, ImmediateRef):
                value = self._immediate(operand, immediates)
                if code == "mov_rm64_imm32" and value >= 1 << 63:
                    value -= 1 << 64
                kinds.append(("i" if value < 1 << (int(wide) - 1) else "u") + wide)
                values.append(value)
            else:
                kinds.append("mem")
                memory, symbol = self._memory(operand, units, immediates)
                values.append(memory)
        name = "_".join(("create", *kinds))
        try:
            instruction = getattr(iced.Instruction, name)(_iced_code(code), *values)
            if self.lock:
                instruction.has_lock_prefix = True
            encoder = _encoder()
            encoder.encode(instruction, 0)
        except (ValueError, OverflowError) as error:
            _encoder().take_buffer()
            raise EncodingError(f"{code}: {error}") from None
        data: bytes = encoder.take_buffer()
        if symbol is None:
            return Chunk(data)
        at = encoder.get_constant_offsets().displacement_offset
        data = data[:at] + bytes(4) + data[at + 4 :]
        # The processor adds the displacement to the address of the next instruction.
        return Chunk(data, (at, symbol[0], symbol[1] - (len(data) - at)))


BoundStep = BoundInstruction | LabelStep | BranchStep


def _slots(descriptor: Descriptor) -> dict[str, tuple[int, str]]:
    """Operand name -> (position in results + operands, width letter)."""
    slots: dict[str, tuple[int, str]] = {}
    for position, operand in enumerate((*descriptor.results, *descriptor.operands)):
        slots.setdefault(operand.name, (position, WIDTH_OF_CLASS[operand.classes[0]]))
    return slots


def _bind_steps(steps: Sequence[Step], slots: Mapping[str, tuple[int, str]]) -> tuple[BoundStep, ...]:
    return tuple(
        BoundInstruction(step, slots) if isinstance(step, InstructionStep) else step for step in steps
    )


def _encoding_of(descriptor: Descriptor) -> Encoding:
    if not isinstance(descriptor.encoding, Encoding):
        raise EncodingError(f"{descriptor.key} is not an x86 instruction")
    return descriptor.encoding


@cache
def bind(descriptor: Descriptor) -> tuple[BoundStep, ...]:
    slots = _slots(descriptor)
    return _bind_steps(parse_template(_encoding_of(descriptor).template, frozenset(slots)), slots)


@cache
def bind_flags(descriptor: Descriptor) -> tuple[BoundStep, ...]:
    slots = _slots(descriptor)
    flags = _encoding_of(descriptor).flags
    assert flags is not None
    return _bind_steps(parse_template(flags, frozenset(slots)), slots)


@cache
def bind_on_flags(descriptor: Descriptor, condition: str, opposite: str) -> tuple[BoundStep, ...]:
    """The part of a selection that acts on flags, for a condition of `template.CONDITIONS`."""
    slots = _slots(descriptor)
    text = _encoding_of(descriptor).on_flags.format(cc=condition, ncc=opposite)
    return _bind_steps(parse_template(text, frozenset(slots)), slots)


@lru_cache(maxsize=64)
def bind_text(text: str) -> tuple[BoundStep, ...]:
    return _bind_steps(parse_template(text), {})


def check_immediates(descriptor: Descriptor, immediates: Mapping[str, object]) -> dict[str, object]:
    known = {immediate.name: immediate for immediate in descriptor.immediates}
    for name in immediates:
        if name not in known:
            raise EncodingError(f"{descriptor.mnemonic} has no immediate {name!r}")
    values: dict[str, object] = {}
    for name, immediate in known.items():
        value = immediates.get(name, immediate.default)
        if value is None:
            raise EncodingError(f"{descriptor.mnemonic} needs the immediate {name!r}")
        if immediate.kind == "int":
            number = _integer(value, name)
            low = number if immediate.minimum is None else immediate.minimum
            high = number if immediate.maximum is None else immediate.maximum
            if not low <= number <= high:
                raise EncodingError(f"{descriptor.mnemonic}: {name} = {number} is outside {low} to {high}")
        values[name] = value
    return values


def check(
    descriptor: Descriptor,
    results: Sequence[int],
    operands: Sequence[int],
    immediates: Mapping[str, object],
) -> dict[str, object]:
    if len(results) != len(descriptor.results) or len(operands) != len(descriptor.operands):
        raise EncodingError(
            f"{descriptor.mnemonic} takes {len(descriptor.results)} results and "
            f"{len(descriptor.operands)} operands, not {len(results)} and {len(operands)}"
        )
    for unit in (*results, *operands):
        if not 0 <= unit < REGISTER_COUNT:
            raise EncodingError(f"{descriptor.mnemonic}: there is no register {unit}")
    ties = dict(descriptor.ties)
    for number, result in enumerate(descriptor.results):
        tied = ties.get(number)
        if tied is not None and results[number] != operands[tied]:
            raise EncodingError(
                f"{descriptor.mnemonic}: {result.name} must share the register of {result.tied}"
            )
        if result.early_clobber:
            bank = WIDTH_OF_CLASS[result.classes[0]] in "xy"
            for position, operand in enumerate(descriptor.operands):
                same_bank = (WIDTH_OF_CLASS[operand.classes[0]] in "xy") == bank
                if position != tied and same_bank and operands[position] == results[number]:
                    raise EncodingError(
                        f"{descriptor.mnemonic}: {result.name} overwrites {operand.name} too early"
                    )
    return check_immediates(descriptor, immediates)
