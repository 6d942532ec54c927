"""Final code bytes: branch distances and the order of blocks."""

from __future__ import annotations

from loom.ir.diagnostics import fail
from loom_target_amdgpu.code_object.elf import Relocation
from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.isa.encode import encode


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
