"""Putting machine code together: instructions, labels, branches, padding, relocations.

Every branch starts in its short form and grows only when its target is out of reach, so the layout is the
smallest one reachable by growing. The three direct branches are the only opcodes known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from attrs import frozen

from loom.low.descriptors import Descriptor
from loom_target_x86.encode import (
    BoundInstruction,
    BoundStep,
    Chunk,
    Encoding,
    EncodingError,
    bind,
    bind_flags,
    bind_on_flags,
    bind_text,
    check,
    check_immediates,
    fits_signed,
)
from loom_target_x86.template import CONDITIONS, LabelStep

RelocationKind = Literal["pc32", "plt32", "abs64"]
_TEXT_ALIGNMENT = 16


@frozen
class Relocation:
    """A 32- or 64-bit field at `offset` to be filled with the address of `symbol` plus `addend`.

    `pc32` and `plt32` are relative to the field itself.
    """

    offset: int
    kind: RelocationKind
    symbol: str
    addend: int


@frozen
class Code:
    """Encoded machine code: bytes, offsets of the labels, and what a linker must still fill in."""

    data: bytes
    labels: Mapping[object, int]
    relocations: tuple[Relocation, ...]


@frozen
class _Label:
    name: object


@frozen
class _Branch:
    kind: str
    target: object
    symbol: str | None = None


@frozen
class _Align:
    boundary: int


_Item = Chunk | _Label | _Branch | _Align


def _condition_code(condition: str) -> int:
    return CONDITIONS.index(condition)


def opposite(condition: str) -> str:
    """The condition that holds exactly when the given one does not."""
    if condition == "e&np":
        return "ne|p"
    if condition == "ne|p":
        return "e&np"
    # Condition codes come in pairs that differ in the lowest bit.
    return CONDITIONS[CONDITIONS.index(condition) ^ 1]


class Assembler:
    """Collects machine code and lays it out; see the module's docstring."""

    __slots__ = ("_expansions", "_items", "_pending", "instruction_count")

    def __init__(self) -> None:
        self._items: list[_Item] = []
        self._pending = bytearray()
        self._expansions = 0
        self.instruction_count = 0
        """Machine instructions appended so far, padding left out."""

    # -- building ---------------------------------------------------------------------------------

    def emit(
        self,
        descriptor: Descriptor,
        results: Sequence[int] = (),
        operands: Sequence[int] = (),
        immediates: Mapping[str, object] | None = None,
    ) -> None:
        """Append one instruction of a descriptor set.

        `results` and `operands` are physical units, parallel to the descriptor's. Raises `EncodingError`
        when they do not satisfy the descriptor (counts, ties, early clobbers, immediates, ranges).
        """
        checked = check(descriptor, results, operands, immediates or {})
        self._expand(bind(descriptor), (*results, *operands), checked)

    def emit_flags(
        self,
        descriptor: Descriptor,
        operands: Sequence[int] = (),
        immediates: Mapping[str, object] | None = None,
    ) -> str:
        """Append only the flag-setting part of a comparison; returns `Encoding.condition`.

        Raises `EncodingError` when the instruction is not a comparison.
        """
        encoding = descriptor.encoding
        if not isinstance(encoding, Encoding) or encoding.flags is None:
            raise EncodingError(f"{descriptor.mnemonic} does not set flags to branch on")
        unused = tuple(0 for _result in descriptor.results)
        checked = check_immediates(descriptor, immediates or {})
        self._expand(bind_flags(descriptor), (*unused, *operands), checked)
        return encoding.condition

    def emit_on_flags(
        self, descriptor: Descriptor, results: Sequence[int], operands: Sequence[int], condition: str
    ) -> None:
        """Append a selection that takes the flags of the code before it (`condition` of `template.CONDITIONS`)."""
        checked = check(descriptor, results, operands, {})
        self._expand(bind_on_flags(descriptor, condition, opposite(condition)), (*results, *operands), checked)

    def assemble(self, text: str, immediates: Mapping[str, object] | None = None) -> None:
        """Append a routine written in template notation with physical registers."""
        self._expand(bind_text(text), (), immediates or {})

    def label(self, name: object) -> None:
        """Define a label here; `name` is any hashable value."""
        self._flush()
        self._items.append(_Label(name))

    def jump(self, target: object) -> None:
        """Append an unconditional jump to a label."""
        self._flush()
        self.instruction_count += 1
        self._items.append(_Branch("jmp", target))

    def branch(self, condition: str, target: object) -> None:
        """Append a conditional jump (`condition` of `template.CONDITIONS`) to a label."""
        if condition not in CONDITIONS:
            raise EncodingError(f"unknown condition {condition!r}")
        self._flush()
        self.instruction_count += 1
        self._items.append(_Branch(condition, target))

    def call(self, symbol: str) -> None:
        """Append a call to a symbol; one that is no label here becomes a relocation."""
        self._flush()
        self.instruction_count += 1
        self._items.append(_Branch("call", symbol, symbol))

    def align(self, boundary: int = _TEXT_ALIGNMENT) -> None:
        """Pad with no-operations to a multiple of `boundary` bytes (a power of two)."""
        self._flush()
        self._items.append(_Align(boundary))

    def data(self, data: bytes) -> None:
        """Append raw bytes."""
        self._pending += data

    def _flush(self) -> None:
        if self._pending:
            self._items.append(Chunk(bytes(self._pending)))
            self._pending.clear()

    def _expand(
        self,
        steps: Sequence[BoundStep],
        units: Sequence[int],
        immediates: Mapping[str, object],
    ) -> None:
        self._expansions += 1
        for step in steps:
            self.instruction_count += not isinstance(step, LabelStep)
            if isinstance(step, BoundInstruction):
                chunk = step.encode(units, immediates)
                if chunk.fixup is None:
                    self._pending += chunk.data
                else:
                    self._flush()
                    self._items.append(chunk)
            elif isinstance(step, LabelStep):
                self.label(self._label_name(step.name))
            else:
                target = immediates.get(step.name, self._label_name(step.name))
                self._flush()
                # Labels private to an expansion are tuples; any other callee may lie outside this code.
                external = target if step.kind == "call" and isinstance(target, str) else None
                self._items.append(_Branch(step.kind, target, external))

    def _label_name(self, name: str) -> object:
        return (self._expansions, name) if name.startswith(".") else name

    # -- layout -----------------------------------------------------------------------------------

    def finish(self) -> Code:
        """Lay everything out. Raises `EncodingError` for a branch to a label that is not defined."""
        self._flush()
        items = self._items
        defined = {item.name for item in items if isinstance(item, _Label)}
        for item in items:
            if isinstance(item, _Branch) and item.target not in defined and item.symbol is None:
                raise EncodingError(f"branch to undefined label {item.target!r}")
        wide: set[int] = set()
        while True:
            offsets, labels = self._offsets(wide)
            grown = {
                index
                for index, item in enumerate(items)
                if isinstance(item, _Branch)
                and item.kind != "call"
                and index not in wide
                and not fits_signed(labels[item.target] - (offsets[index] + 2), 8)
            }
            if not grown:
                break
            wide |= grown
        return self._write(offsets, labels, wide)

    def _size(self, index: int, item: _Item, offset: int, wide: set[int]) -> int:
        if isinstance(item, Chunk):
            return len(item.data)
        if isinstance(item, _Branch):
            if item.kind == "call":
                return 5
            return (5 if item.kind == "jmp" else 6) if index in wide else 2
        if isinstance(item, _Align):
            return -offset % item.boundary
        return 0

    def _offsets(self, wide: set[int]) -> tuple[list[int], dict[object, int]]:
        offsets: list[int] = []
        labels: dict[object, int] = {}
        offset = 0
        for index, item in enumerate(self._items):
            offsets.append(offset)
            if isinstance(item, _Label):
                if item.name in labels:
                    raise EncodingError(f"label {item.name!r} is defined twice")
                labels[item.name] = offset
            offset += self._size(index, item, offset, wide)
        return offsets, labels

    def _write(self, offsets: list[int], labels: dict[object, int], wide: set[int]) -> Code:
        out = bytearray()
        relocations: list[Relocation] = []
        for index, item in enumerate(self._items):
            if isinstance(item, Chunk):
                if item.fixup is not None:
                    at, symbol, addend = item.fixup
                    relocations.append(Relocation(offsets[index] + at, "pc32", symbol, addend))
                out += item.data
            elif isinstance(item, _Align):
                out += _padding(-len(out) % item.boundary)
            elif isinstance(item, _Branch):
                size = self._size(index, item, offsets[index], wide)
                if item.target not in labels:
                    assert item.symbol is not None
                    relocations.append(Relocation(len(out) + 1, "plt32", item.symbol, -4))
                    out += b"\xe8" + bytes(4)
                    continue
                distance = labels[item.target] - (offsets[index] + size)
                if item.kind == "call":
                    out += b"\xe8" + distance.to_bytes(4, "little", signed=True)
                elif size == 2:
                    opcode = 0xEB if item.kind == "jmp" else 0x70 + _condition_code(item.kind)
                    out += bytes((opcode,)) + distance.to_bytes(1, "little", signed=True)
                else:
                    opcodes = (0xE9,) if item.kind == "jmp" else (0x0F, 0x80 + _condition_code(item.kind))
                    out += bytes(opcodes) + distance.to_bytes(4, "little", signed=True)
        public = {name: offset for name, offset in labels.items() if not isinstance(name, tuple)}
        return Code(bytes(out), public, tuple(relocations))


# The recommended multi-byte no-operations (Intel SDM volume 2B, NOP, table 4-12).
_NOPS = tuple(
    bytes.fromhex(text)
    for text in (
        "90", "6690", "0f1f00", "0f1f4000", "0f1f440000", "660f1f440000",
        "0f1f8000000000", "0f1f840000000000", "660f1f840000000000",
    )
)  # fmt: skip


def _padding(size: int) -> bytes:
    out = bytearray()
    while size > 0:
        nop = _NOPS[min(size, len(_NOPS)) - 1]
        out += nop
        size -= len(nop)
    return bytes(out)
