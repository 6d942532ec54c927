"""The code of a code object as sections of decoded lines, and as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from loom_sim.command.errors import CommandError

if TYPE_CHECKING:
    from loom_target_amdgpu.code_object.reader import CodeObject, Segment
    from loom_target_amdgpu.isa.tables import FamilyTable
    from loom_target_amdgpu.profiles import Processor

SourceOf = Callable[[int], object | None]
"""Says where the instruction at an address comes from, as something that prints as `file:line:column`."""

_PADDING = frozenset({"s_code_end", "s_nop 0"})


@attrs.frozen(slots=True)
class Line:
    """One instruction, or a word that is none (`.long`).

    Attributes:
        address: its address in the code object.
        data: its bytes.
        text: assembly.
        target: where a branch with an immediate offset goes, else None.
    """

    address: int
    data: bytes
    text: str
    target: int | None

    @property
    def is_padding(self) -> bool:
        """Whether it may be filler after the end of the code."""
        return self.text in _PADDING or not any(self.data)


@attrs.frozen(slots=True)
class Section:
    """A kernel, another function, or code that no symbol names (`name` is empty)."""

    name: str
    is_kernel: bool
    address: int
    wave_size: int
    lines: tuple[Line, ...]


@attrs.frozen(slots=True)
class _Start:
    """Where a section starts; `size` is 0 when the code object does not say."""

    name: str
    is_kernel: bool
    address: int
    size: int
    wave_size: int


def sections(code: CodeObject, processor: Processor) -> tuple[Section, ...]:
    """All code, in address order; filler between functions is left out.

    Raises:
        CommandError: there are no instruction tables for the processor.
    """
    from loom_target_amdgpu.isa.tables import family_table

    try:
        table = family_table(processor.family)
    except (KeyError, ValueError) as error:
        raise CommandError(f"there are no instruction tables for {processor.name}") from error
    starts = _starts(code, processor)
    found: list[Section] = []
    for segment in code.segments:
        if segment.executable:
            found.extend(_of_segment(segment, starts, _common_wave_size(code, processor), table))
    return tuple(found)


def _common_wave_size(code: CodeObject, processor: Processor) -> int:
    """The wave size of code that is not a kernel: the kernels' own if they agree."""
    known = {kernel.descriptor.wave_size for kernel in code.kernels.values()}
    return known.pop() if len(known) == 1 else processor.wave


def _starts(code: CodeObject, processor: Processor) -> list[_Start]:
    starts = {
        kernel.entry_address: _Start(
            kernel.name, True, kernel.entry_address, kernel.code_size, kernel.descriptor.wave_size
        )
        for kernel in code.kernels.values()
    }
    wave_size = _common_wave_size(code, processor)
    for symbol in code.symbols.values():
        if symbol.is_function and symbol.address not in starts:
            starts[symbol.address] = _Start(symbol.name, False, symbol.address, symbol.size, wave_size)
    return [starts[address] for address in sorted(starts)]


def _of_segment(segment: Segment, starts: list[_Start], wave_size: int, table: FamilyTable) -> Iterator[Section]:
    end = segment.address + len(segment.data)
    inside = [start for start in starts if segment.address <= start.address < end]
    at = segment.address
    for number, start in enumerate(inside):
        if start.address > at:
            yield from _unnamed(segment, at, start.address, wave_size, table)
        following = inside[number + 1].address if number + 1 < len(inside) else end
        stop = min(following, start.address + start.size) if start.size else following
        lines = _trimmed(_decode(segment, start.address, stop, start.wave_size, table))
        yield Section(start.name, start.is_kernel, start.address, start.wave_size, lines)
        at = stop
    if at < end:
        yield from _unnamed(segment, at, end, wave_size, table)


def _unnamed(segment: Segment, start: int, stop: int, wave_size: int, table: FamilyTable) -> Iterator[Section]:
    lines = _trimmed(_decode(segment, start, stop, wave_size, table))
    first = next((k for k, line in enumerate(lines) if not line.is_padding), len(lines))
    if lines[first:]:
        yield Section("", False, lines[first].address, wave_size, lines[first:])


def _trimmed(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Without the filler at the end."""
    count = len(lines)
    while count and lines[count - 1].is_padding:
        count -= 1
    return tuple(lines[:count])


def _decode(segment: Segment, start: int, stop: int, wave_size: int, table: FamilyTable) -> list[Line]:
    from loom_target_amdgpu.isa.decode import DecodeError, decode
    from loom_target_amdgpu.isa.disasm import disassemble

    data = segment.data[: stop - segment.address]
    offset = start - segment.address
    lines: list[Line] = []
    while offset < len(data):
        address = segment.address + offset
        try:
            decoded = decode(table, data, offset, wave_size=wave_size)
        except DecodeError:
            word = data[offset : offset + 4]
            lines.append(Line(address, word, f".long 0x{int.from_bytes(word, 'little'):08x}", None))
            offset += 4
            continue
        branches = [
            code for field, code in zip(decoded.row.operands, decoded.codes, strict=True) if field.kind == "branch16"
        ]
        target = address + decoded.size + 4 * branches[0] if branches else None
        text = disassemble(decoded, wave_size=wave_size)
        lines.append(Line(address, data[offset : offset + decoded.size], text, target))
        offset += decoded.size
    return lines


def render(
    section: Section, margin: Callable[[Line], str] | None = None, heading: str = "", source_of: SourceOf | None = None
) -> Iterator[str]:
    """The section as lines of text with labels at branch targets.

    Args:
        section: what to show.
        margin: text before each instruction instead of its bytes.
        heading: a line above the instructions.
        source_of: for a line above each run of instructions that come from one place.
    """
    what = "kernel" if section.is_kernel else "function"
    name = section.name or "code without a name"
    yield f"{name}:  // {what if section.name else 'wave size assumed'}, wave{section.wave_size}"
    if heading:
        yield heading
    place: object | None = None
    labels = {line.target for line in section.lines if line.target is not None}
    for line in section.lines:
        if line.address in labels:
            yield f"L_{line.address:x}:"
        if source_of is not None and (source := source_of(line.address)) != place:
            place = source
            yield f"  // {'no source' if place is None else place}"
        if margin is None:
            words = [line.data[k : k + 4][::-1].hex() for k in range(0, len(line.data), 4)]
            before = f"{' '.join(words):<26}"
        else:
            before = margin(line)
        target = "" if line.target is None else f"  // to L_{line.target:x}"
        yield f"  {line.address:#08x}  {before}  {line.text}{target}"
