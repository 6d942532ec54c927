"""The instruction tables of a family: rows by mnemonic, parsed when asked for.

A row is one instruction in one encoding form. Its operands use *operand codes*, one numbering for everything
an operand field can name, whatever the width and scale of that field:

=============  ==================================================================================
code           meaning
=============  ==================================================================================
0..127         scalar registers (``isa.registers`` has the names; 106 is VCC, 126 is EXEC)
128..208       inline integers 0..64 and -1..-16
235..253       apertures, inline floats (240..248), VCCZ, EXECZ, SCC
255            the literal that follows the instruction
256 + n        vector register n
512 + n        accumulation register n
=============  ==================================================================================

A scalar tuple is named by its first register and a vector tuple likewise. For immediate kinds (``imm``,
``imm16``, ``simm16``, ``branch16``, ``hwreg16``, ``offset``) the code is the value; ``simm16``, ``branch16``
and ``offset`` are signed, branches count in words from the next instruction. For the kinds ``lit32`` and
``lit16`` it is the 32-bit literal. A fixed operand (``vcc``, ``m0``, ``off``) has the code of its register,
and ``OFF`` for ``off``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from loom.ir.records import record
from loom_target_amdgpu.isa.data_files import FAMILIES, family_records, read_lines

OFF = -1
"""Operand code of an address part that is switched off."""

LITERAL = 255
VGPR = 256
AGPR = 512

DPP8_MARKER = 233
"""Source code that announces an appended DPP8 word; the next code announces one that also reads inactive
lanes.
"""

IMMEDIATE_KINDS = frozenset({"imm", "imm16", "simm16", "branch16", "hwreg16", "offset"})
LITERAL_KINDS = frozenset({"lit32", "lit16"})
SIGNED_KINDS = frozenset({"simm16", "branch16", "offset"})


@record(eq=False)
class OperandField:
    """One operand of a row, in assembler order.

    Attributes:
        name: the field's name in the format.
        ranges: bit ranges in the whole instruction, inclusive; empty for a fixed operand.
        companion: name and bit of a one-bit companion: ``acc`` or ``acc_cd`` (the register is an accumulation
            register), ``s0``/``s1`` (an SDWA source is scalar), ``sd`` (an SDWA compare names its result);
            else None.
        kind: what the field can name, such as ``vgpr``, ``vsrc``, ``ssrc``, ``sgpr``, ``imm16``.
        width_bits: register footprint in bits; 1 is a lane mask (32 bits in wave32, 64 in wave64).
        direction: ``in``, ``out`` or ``inout``.
        const_type: how an inline constant is read (``i32``, ``f16``, ``f64``, ...); empty where none is
            allowed.
        half_bit: the bit that selects a 16-bit register's high half, where it is spelled as part of the
            register (``v1.h``) and not as an ``op_sel`` list; inside the field in VOP1, VOP2 and VOPC. Else
            None.
    """

    name: str
    ranges: tuple[tuple[int, int], ...]
    companion: tuple[str, int] | None
    kind: str
    width_bits: int
    direction: str
    const_type: str
    half_bit: int | None

    @property
    def fixed_text(self) -> str:
        """The text of an operand that has no field (``vcc``, ``m0``, ``off``); empty otherwise."""
        return "" if self.ranges else self.kind

    @property
    def half_position(self) -> int:
        """Bit of the ``op_sel`` modifier that belongs to this operand: source number, or 3 for the
        destination.
        """
        return 3 if self.direction != "in" else int(self.name[-1])


@record
class ModifierField:
    """A modifier of a row.

    Attributes:
        name: the modifier's name; ``neg``, ``abs``, ``sext``, ``neg_lo``, ``neg_hi``, ``op_sel`` and
            ``op_sel_hi`` have one bit per source, bit 0 for src0, and ``op_sel`` has bit 3 for the
            destination.
        bits: ranges ``(low, high, position)``: instruction bits low..high hold value bits from ``position``
            on.
        default: the value when the modifier is not written.
        signed: whether the value is a two's-complement number.
    """

    name: str
    bits: tuple[tuple[int, int, int], ...]
    default: int
    signed: bool

    @property
    def width(self) -> int:
        """One more than the highest value bit."""
        return max(position + high - low + 1 for low, high, position in self.bits)


@record(eq=False)
class Row:
    """One instruction in one encoding form. A family's table has each once, so a row equals only itself.

    Attributes:
        family: the table's name.
        mnemonic: as the assembler prints it, without an encoding suffix.
        format, form: key into ``isa.formats`` and the addressing or return variant.
        variant: ``""``, ``dpp16``, ``dpp8`` or ``sdwa``.
        opcode: value of the format's opcode field.
        operands, modifiers: the fields, operands in assembler order.
        implicit_reads, implicit_writes: names of registers that are read or written without being operands.
        literal_sources: names of the operands that accept a 32-bit literal.
        wave: 0 for any wave size, else 32 or 64.
        available_on: processors that have the row.
        fixed_words: the whole instruction as an integer, operands zero and modifiers at their defaults.
        word_count: 32-bit words, without an appended literal.
        flags: ``load``, ``store``, ``trans`` (transcendental unit).
        example, example_words: assembly text and its encoding.
    """

    family: str
    mnemonic: str
    format: str
    form: str
    variant: str
    opcode: int
    operands: tuple[OperandField, ...]
    modifiers: tuple[ModifierField, ...]
    implicit_reads: tuple[str, ...]
    implicit_writes: tuple[str, ...]
    literal_sources: tuple[str, ...]
    wave: int
    available_on: tuple[str, ...]
    fixed_words: int
    word_count: int
    flags: frozenset[str]
    example: str
    example_words: tuple[int, ...]

    def operand(self, name: str) -> OperandField:
        """The operand called ``name``.

        Raises:
            KeyError: the row has no such operand.
        """
        for operand in self.operands:
            if operand.name == name:
                return operand
        raise KeyError(f"{self.mnemonic} ({self.format}) has no operand '{name}'")

    def modifier(self, name: str) -> ModifierField | None:
        """The modifier called ``name``, or None."""
        for modifier in self.modifiers:
            if modifier.name == name:
                return modifier
        return None


def _span(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    return int(low), int(high or low)


@cache
def _operand(text: str) -> OperandField:
    name, span, kind, width, direction, const, half = [*text.split(":"), "", ""][:7]
    field, _, partner = span.partition("&")
    companion = None
    if partner:
        partner_name, _, bit = partner.partition("@")
        companion = (partner_name, int(bit))
    return OperandField(
        name=name,
        ranges=(_span(field),) if field else (),
        companion=companion,
        kind=kind,
        width_bits=int(width),
        direction=direction,
        const_type=const,
        half_bit=int(half) if half else None,
    )


@cache
def _operands(text: str) -> tuple[OperandField, ...]:
    return tuple(_operand(item) for item in text.split("|")) if text else ()


@cache
def _modifier(text: str) -> ModifierField:
    name, _, rest = text.partition("@")
    span_text, _, default = rest.partition("=")
    signed = span_text.endswith("~")
    bits = []
    for item in span_text.rstrip("~").split("+"):
        span, _, position = item.partition(":")
        low, high = _span(span)
        bits.append((low, high, int(position)))
    return ModifierField(name=name, bits=tuple(bits), default=int(default or 0), signed=signed)


@cache
def _modifiers(text: str) -> tuple[ModifierField, ...]:
    return tuple(_modifier(item) for item in text.split(";")) if text else ()


@cache
def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


class FamilyTable:
    """The rows of one family. Rows are parsed when they are first looked at."""

    __slots__ = ("_availability", "_lines", "_numbers", "_rows", "family")

    def __init__(self, family: str) -> None:
        self.family = family
        self._availability = {key: tuple(names.split()) for key, names in family_records("availability.csv", family)}
        self._lines = read_lines(f"{family}.csv")
        self._rows: list[Row | None] = [None] * len(self._lines)
        self._numbers: dict[str, list[int]] = {}
        for number, line in enumerate(self._lines):
            mnemonic = line[: line.index(",")]
            if mnemonic in self._numbers:
                self._numbers[mnemonic].append(number)
            else:
                self._numbers[mnemonic] = [number]

    def __len__(self) -> int:
        return len(self._lines)

    def row(self, number: int) -> Row:
        """The row with this number, in table order."""
        row = self._rows[number]
        if row is None:
            row = self._rows[number] = self._parse(self._lines[number])
        return row

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, in table order. Parses the whole table; prefer ``find`` or ``by_mnemonic``."""
        return tuple(self.row(number) for number in range(len(self._lines)))

    @property
    def by_mnemonic(self) -> Mapping[str, tuple[Row, ...]]:
        """Rows of each mnemonic, as a lazy mapping."""
        return _ByMnemonic(self)

    def numbers(self, mnemonic: str) -> list[int]:
        """Numbers of the rows of a mnemonic; empty for an unknown one."""
        return self._numbers.get(mnemonic, [])

    def mnemonics(self) -> Iterator[str]:
        """All mnemonics, in table order."""
        return iter(self._numbers)

    def opcodes(self) -> Iterator[tuple[str, int]]:
        """Format and opcode of every row in table order, without parsing the rows."""
        for line in self._lines:
            _, name, _, _, opcode, _ = line.split(",", 5)
            yield name, int(opcode)

    def find(
        self,
        mnemonic: str,
        format: str | None = None,
        form: str | None = None,
        *,
        variant: str = "",
        wave: int = 0,
        processor: str | None = None,
    ) -> Row:
        """The first row of a mnemonic that matches.

        Args:
            mnemonic: without an encoding suffix.
            format, form: required format and form; None accepts any.
            variant: ``""`` for the plain encoding, ``dpp16``, ``dpp8`` or ``sdwa``.
            wave: wave size the row must be usable in; 0 accepts any.
            processor: a processor the row must be available on.

        Raises:
            KeyError: no row matches; the message says what the mnemonic has.
        """
        for number in self.numbers(mnemonic):
            row = self.row(number)
            if (
                (format is None or row.format == format)
                and (form is None or row.form == form)
                and row.variant == variant
                and (not wave or row.wave in (0, wave))
                and (processor is None or processor in row.available_on)
            ):
                return row
        have = {f"{r.format}/{r.form or '-'}/{r.variant or '-'}" for r in map(self.row, self.numbers(mnemonic))}
        wanted = f"{format or 'any'}/{form or 'any'}/{variant or '-'}"
        detail = f"only as {', '.join(sorted(have))}" if have else "it is unknown there"
        raise KeyError(f"no {self.family} instruction '{mnemonic}' as {wanted} (format/form/variant); {detail}")

    def _parse(self, line: str) -> Row:
        (
            mnemonic, name, variant, form, opcode, wave, targets, flags, reads, writes, literals, operands,
            modifiers, fixed, words, example,
        ) = line.split(",", 15)  # fmt: skip
        fixed_words = [int(word, 16) for word in fixed.split()]
        return Row(
            family=self.family,
            mnemonic=mnemonic,
            format=name,
            form=form,
            variant=variant,
            opcode=int(opcode),
            operands=_operands(operands),
            modifiers=_modifiers(modifiers),
            implicit_reads=_names(reads),
            implicit_writes=_names(writes),
            literal_sources=_names(literals),
            wave=int(wave or 0),
            available_on=self._availability[targets],
            fixed_words=sum(word << (32 * index) for index, word in enumerate(fixed_words)),
            word_count=len(fixed_words),
            flags=frozenset(_names(flags)),
            example=example.strip('"'),
            example_words=tuple(int(word, 16) for word in words.split()),
        )


class _ByMnemonic(Mapping[str, tuple[Row, ...]]):
    __slots__ = ("_table",)

    def __init__(self, table: FamilyTable) -> None:
        self._table = table

    def __getitem__(self, mnemonic: str) -> tuple[Row, ...]:
        numbers = self._table.numbers(mnemonic)
        if not numbers:
            raise KeyError(mnemonic)
        return tuple(self._table.row(number) for number in numbers)

    def __iter__(self) -> Iterator[str]:
        return self._table.mnemonics()

    def __len__(self) -> int:
        return sum(1 for _ in self._table.mnemonics())


@cache
def family_table(family: str) -> FamilyTable:
    """The table of a family, loaded once.

    Raises:
        KeyError: the family has no tables.
    """
    if family not in FAMILIES:
        raise KeyError(f"no instruction tables for family '{family}'; known: {', '.join(FAMILIES)}")
    return FamilyTable(family)
