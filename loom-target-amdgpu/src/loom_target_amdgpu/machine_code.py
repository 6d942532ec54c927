"""Encoded instructions with the physical registers they touch.

Waits and hazards are facts of encoded instructions, whatever they came from: packets of the descriptor set,
moves, spills or the compiler's own branches. A register unit is the operand code of one 32-bit register
(``isa.tables``): 0..105 scalar, 256 + n vector, 512 + n accumulation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from loom.ir.diagnostics import fail
from loom.ir.records import record
from loom.low.descriptors import Descriptor
from loom_target_amdgpu.descriptors.encoding import Encoding, Source, rows
from loom_target_amdgpu.isa.encode import EncodingError, encode
from loom_target_amdgpu.isa.fields import fixed_code
from loom_target_amdgpu.isa.registers import EXEC, SCC, VCC, inline_code, registers
from loom_target_amdgpu.isa.tables import LITERAL, VGPR, OperandField, Row, family_table
from loom_target_amdgpu.isa.waits import waitcnt_immediate

if TYPE_CHECKING:
    from loom_target_amdgpu.code_object.elf import RelocationKind

_CONSTANT_KINDS: Final = frozenset({"ssrc", "vsrc", "vgpr_or_const", "agpr_or_const", "inline_int"})
_ALL_ONES_CODE: Final = 193
_FLOAT_TOKENS: Final = {
    "f32_0_0": 128,
    "f32_0_5": 240,
    "f32_n0_5": 241,
    "f32_1_0": 242,
    "f32_n1_0": 243,
    "f32_2_0": 244,
    "f32_n2_0": 245,
    "f32_4_0": 246,
    "f32_n4_0": 247,
    "f32_inv_2pi": 248,
}


@record
class Order:
    """Where the author's ordering controls put an instruction of a block.

    Attributes:
        locked: it belongs to a locked sequence.
        fences: how many fences stand before it.
        scopes: (scope, phase) pairs from the outermost open scope inwards.
    """

    locked: bool
    fences: int
    scopes: tuple[tuple[int, int], ...]


class Code:
    """One encoded instruction.

    Attributes:
        row: its table row.
        codes: operand codes by field name.
        data: its bytes; a branch has them once its distance is known.
        reads, writes: register units.
        target: label of the block a branch goes to, or None.
        drains: for an authored wait or a barrier: what it waits for (see ``waits``).
        distance: the literal in its last word is a half of the distance to a data symbol, from the program counter
            that the nearest ``s_getpc_b64`` before it reads; None where it is none.
        literal: the 32-bit literal that a source reads, or None.
        order: what the author's ordering controls say of it; None for what the compiler added, which is free.
        second: the other half of a dual-issue word; ``reads`` and ``writes`` are those of both.
        loc: source location.
    """

    __slots__ = (
        "codes",
        "data",
        "distance",
        "drains",
        "literal",
        "loc",
        "order",
        "reads",
        "row",
        "second",
        "target",
        "writes",
    )

    def __init__(
        self,
        row: Row,
        codes: Mapping[str, int],
        data: bytes,
        wave: int,
        loc: object = None,
        target: str | None = None,
        literal: int | None = None,
    ) -> None:
        self.row = row
        self.codes = codes
        self.data = data
        self.target = target
        self.loc = loc
        self.literal = literal
        self.drains: Mapping[str, int] | None = None
        self.order: Order | None = None
        self.second: Code | None = None
        self.distance: tuple[RelocationKind, str] | None = None
        self.reads, self.writes = _units(row, codes, wave)

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.data)

    def __repr__(self) -> str:
        return f"Code({self.row.mnemonic} {dict(self.codes)})"


@cache
def _implicit(names: tuple[str, ...], family: str) -> tuple[int, ...]:
    table = {"vcc": (VCC, VCC + 1), "exec": (EXEC, EXEC + 1), "scc": (SCC,), "m0": (registers(family).codes["m0"],)}
    return tuple(unit for name in names for unit in table.get(name, ()))


class _Touched(NamedTuple):
    """What an operand of a row touches: ``length`` registers from its code on, or those of a fixed operand."""

    name: str
    fixed: tuple[int, ...] | None
    length: int
    reads: bool
    writes: bool


class _Footprint(NamedTuple):
    """Registers that a row reads and writes without naming them, what its operands touch, and the code that is none."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    touched: tuple[_Touched, ...]
    null: int | None


@cache
def _footprint(row: Row, wave: int) -> _Footprint:
    null = registers(row.family).null
    touched = []
    for operand in row.operands:
        if operand.kind in _PLAIN:
            continue
        length = wave // 32 if operand.width_bits == 1 else max(1, operand.width_bits // 32)
        fixed: tuple[int, ...] | None = None
        if not operand.ranges:
            code = fixed_code(row.family, operand)
            if operand.width_bits != 1:
                length = 2 if code in (VCC, EXEC) else 1
            fixed = () if _is_no_register(code, null) else tuple(range(code, code + length))
        touched.append(_Touched(operand.name, fixed, length, operand.direction != "out", operand.direction != "in"))
    reads, writes = (_implicit(names, row.family) for names in (row.implicit_reads, row.implicit_writes))
    return _Footprint(reads, writes, tuple(touched), null)


def _is_no_register(code: int, null: int | None) -> bool:
    return code < 0 or code == null or (128 <= code <= LITERAL and code != SCC)


def _units(row: Row, codes: Mapping[str, int], wave: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    reads, writes, touched, null = _footprint(row, wave)
    for name, fixed, length, is_read, is_written in touched:
        if fixed is not None:
            units = fixed
        else:
            code = codes[name]
            if code < VGPR and _is_no_register(code, null):
                continue
            units = (code,) if length == 1 else tuple(range(code, code + length))
        if is_read:
            reads += units
        if is_written:
            writes += units
    return reads, writes


_PLAIN: Final = frozenset({"imm", "imm16", "simm16", "branch16", "hwreg16", "offset", "lit32", "lit16"})


def spliced(codes: list[Code], added: Iterable[tuple[int, Sequence[Code]]]) -> list[Code]:
    """Code with more in it: (position, what comes before the instruction there) by position."""
    out: list[Code] = []
    done = 0
    for position, more in added:
        out += codes[done:position]
        out += more
        done = position
    return out + codes[done:]


class Assembler:
    """Encodes instructions of one processor family and wave size."""

    def __init__(self, family: str, wave: int, constant_bus: int) -> None:
        self.family = family
        self.wave = wave
        self.constant_bus = constant_bus
        self.table = family_table(family)
        self.names = registers(family).codes
        self._rows: dict[tuple[str, str | None, str | None], Row] = {}
        self._encodings: dict[Descriptor, tuple[Encoding, tuple[_Form, ...]]] = {}

    def plain(
        self,
        mnemonic: str,
        loc: object = None,
        *,
        form: str | None = None,
        format: str | None = None,
        modifiers: Mapping[str, int] | None = None,
        target: str | None = None,
        literal: int | None = None,
        **codes: int,
    ) -> Code:
        """An instruction the compiler itself adds, by table mnemonic and operand codes."""
        key = mnemonic, format, form
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self.table.find(mnemonic, format, form, wave=self.wave)
        data = encode(row, codes, modifiers or {}, literal)
        return Code(row, codes, data, self.wave, loc, target, literal)

    def packet(
        self,
        descriptor: Descriptor,
        results: Sequence[int],
        operands: Sequence[int],
        immediates: Mapping[str, object],
        loc: object,
    ) -> Code:
        """Encode a packet whose registers are known.

        Raises:
            LoomError: the registers or immediates do not fit the instruction (authored code only).
        """
        known = self._encodings.get(descriptor)
        if known is None:
            assert isinstance(descriptor.encoding, Encoding)
            found = _encodings(descriptor.encoding, self.family, self.wave)
            known = self._encodings[descriptor] = (descriptor.encoding, found)
        encoding, forms = known
        problem = ""
        for row, fields in forms:
            try:
                codes, modifiers, literal = self._fields(row, encoding, fields, results, operands, immediates)
                data = encode(row, codes, modifiers, literal)
            except EncodingError as error:
                problem = str(error)
                continue
            problem = self._bus_problem(row, codes)
            if problem:
                continue
            code = Code(row, codes, data, self.wave, loc, literal=literal)
            if descriptor.schedule_class == "wait":
                code.drains = _drains(immediates)
            return code
        raise fail(
            "TARGET/047",
            f"'{descriptor.mnemonic}' cannot be encoded: {problem}",
            loc,  # type: ignore[arg-type]  # packets carry locations
            emitter="amdgpu",
            opcode=descriptor.mnemonic,
            immediate_name=problem,
        )

    def _fields(
        self,
        row: Row,
        encoding: Encoding,
        fields: Sequence[tuple[OperandField, Source]],
        results: Sequence[int],
        operands: Sequence[int],
        immediates: Mapping[str, object],
    ) -> tuple[dict[str, int], dict[str, int], int | None]:
        codes: dict[str, int] = {}
        literal: int | None = None
        for field, source in fields:
            if source.result is not None:
                codes[field.name] = results[source.result]
                continue
            if source.operand is not None:
                codes[field.name] = operands[source.operand]
                continue
            constant = field.kind in _CONSTANT_KINDS
            if source.immediate is not None:
                value = immediates[source.immediate]
                if isinstance(value, str):
                    if value not in _FLOAT_TOKENS or not constant:
                        raise EncodingError(f"unknown constant '{value}'")
                    codes[field.name] = _FLOAT_TOKENS[value]
                    continue
                number = _bits(value)
                if not constant:
                    codes[field.name] = number
                    continue
                inline = inline_code(number, field.const_type or "i32")
                codes[field.name] = LITERAL if inline is None else inline
                if inline is None:
                    if literal is not None and literal != number:
                        raise EncodingError("two different literals")
                    literal = number
            else:
                assert source.code is not None
                codes[field.name] = self._named(row, source.code, constant, immediates)
        modifiers = dict(encoding.modifiers)
        for name in encoding.named:
            value = immediates[name]
            assert isinstance(value, int)
            if value:
                modifiers[name] = value
        return codes, modifiers, literal

    def _named(self, row: Row, name: str, constant: bool, immediates: Mapping[str, object]) -> int:
        if name == "all":
            return _ALL_ONES_CODE if constant else 0xFFFF
        if name == "waitcnt":
            counts = {key: value for key, value in immediates.items() if isinstance(value, int)}
            return waitcnt_immediate(row.family, counts)
        return self.names[name]

    def _bus_problem(self, row: Row, codes: Mapping[str, int]) -> str:
        """Why a vector instruction reads too many scalar values; empty if it does not."""
        names, vcc = _scalar_sources(row)
        if len(names) + vcc <= self.constant_bus:
            return ""
        scalars = {code for name in names if (code := codes[name]) < VGPR and not 128 <= code < LITERAL}
        if vcc:
            scalars.add(VCC)
        limit = self.constant_bus
        return f"{len(scalars)} scalar values, the limit is {limit}" if len(scalars) > limit else ""


_Form = tuple[Row, tuple[tuple[OperandField, Source], ...]]
"""A row that can encode a descriptor, and its fields with where they come from."""


@cache
def _encodings(encoding: Encoding, family: str, wave: int) -> tuple[_Form, ...]:
    """The forms that can encode a descriptor."""
    return tuple(
        (row, tuple(zip((o for o in row.operands if o.ranges), encoding.sources, strict=True)))
        for row in rows(encoding, family, wave)
    )


@cache
def _scalar_sources(row: Row) -> tuple[tuple[str, ...], bool]:
    """Names of the operands of a vector instruction that may read scalars, and whether it reads ``vcc`` anyway."""
    if not row.format.startswith("VOP"):
        return (), False
    sources = [o for o in row.operands if o.ranges and o.direction != "out" and o.kind not in (*_PLAIN, "vgpr")]
    return tuple(operand.name for operand in sources), "vcc" in row.implicit_reads


def _bits(value: object) -> int:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        import struct

        return int.from_bytes(struct.pack("<f", value), "little")
    raise EncodingError(f"'{value}' is no number")


_DRAINING: Final = frozenset({"vmcnt", "lgkmcnt", "vscnt", "loadcnt", "storecnt", "dscnt", "kmcnt"})


def _drains(immediates: Mapping[str, object]) -> Mapping[str, int]:
    """What an authored wait instruction waits for."""
    return {name: value for name, value in immediates.items() if name in _DRAINING and isinstance(value, int)}
