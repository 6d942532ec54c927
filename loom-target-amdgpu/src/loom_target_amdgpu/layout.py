"""Final code bytes: branch distances and the order of blocks; the source lines of the code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loom.ir.diagnostics import Location, fail, resolve
from loom_target_amdgpu.code_object.elf import Relocation
from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.isa.encode import encode

if TYPE_CHECKING:
    from loom_target_amdgpu.code_object.debug_lines import SourceLines, SourcePlace


def assemble(blocks: list[CodeBlock]) -> tuple[bytes, tuple[Relocation, ...]]:
    """Concatenate the blocks and fill in branch distances (words from the next instruction).

    Distances to data are left to whoever places it.

    Raises:
        LoomError: a branch reaches further than its 16 bits.
    """
    start: dict[str, int] = {}
    position = 0
    for block in blocks:
        start[block.label] = position
        position += sum(code.size for code in block.code)
    out = bytearray()
    counter = 0
    relocations = []
    for block in blocks:
        for code in block.code:
            if code.target is None:
                out += code.data
                if code.row.mnemonic == "s_getpc_b64":
                    counter = len(out)
                elif code.distance is not None:
                    place = len(out) - 4
                    relocations.append(Relocation(place, *code.distance, place - counter))
                continue
            distance = (start[code.target] - len(out) - 4) // 4
            if not -(1 << 15) <= distance < 1 << 15:
                raise fail(
                    "TARGET/022",
                    "a branch is longer than 128 KiB",
                    code.loc,  # type: ignore[arg-type]  # codes keep packet locations
                    emitter="amdgpu",
                    constraint_key="branch.distance",
                )
            out += encode(code.row, {"simm16": distance})
    return bytes(out), tuple(relocations)


def source_lines(blocks: list[CodeBlock], declared: Location) -> SourceLines | None:
    """Where the code comes from, or ``None`` when it is not known where the kernel, ``declared``, does.

    What the compiler inserted without a place of its own (moves, spills, idle instructions) serves the next
    instruction of its block that has one, and at the end of a block the last that has. A block of nothing else only
    prepares registers for the block after it.
    """
    from loom_target_amdgpu.code_object.debug_lines import SourceLines, SourcePlace, SourceRow

    places: dict[int, SourcePlace | None] = {}

    def place(location: object) -> SourcePlace | None:
        # By identity: many instructions share a location, and finding its line costs more than all else here.
        if id(location) not in places:
            span = resolve(location)  # type: ignore[arg-type]  # codes keep packet locations
            found = None if span is None else SourcePlace(span.source.name, *span.source.line_column(span.start))
            places[id(location)] = found
        return places[id(location)]

    kernel = place(declared)
    if kernel is None:
        return None
    rows = []
    offset = sum(code.size for block in blocks for code in block.code)
    following: SourcePlace | None = None
    for block in reversed(blocks):
        found = [place(code.loc) for code in block.code]
        following = next((one for one in reversed(found) if one is not None), following)
        for code, one in zip(reversed(block.code), reversed(found), strict=True):
            following = one or following
            offset -= code.size
            rows.append(SourceRow(offset, following))
    return SourceLines(kernel, tuple(reversed(rows)))
