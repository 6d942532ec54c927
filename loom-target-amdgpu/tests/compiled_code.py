"""C kernels compiled by clang, as blocks of our own instruction records: what our passes are compared with."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from loom_target_amdgpu.code_object.reader import read_code_object
from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.isa.decode import Decoded, decode
from loom_target_amdgpu.isa.tables import family_table
from loom_target_amdgpu.machine_code import Code

CLANG = shutil.which("clang-19")


def compile_c(source: str, processor: str, folder: Path) -> dict[str, list[CodeBlock]]:
    """The kernels of a C source at -O3, by name."""
    assert CLANG is not None
    path = folder / "kernels.c"
    path.write_text(source)
    made = folder / f"{processor}.hsaco"
    flags = ["-target", "amdgcn-amd-amdhsa", f"-mcpu={processor}", "-O3", "-nogpulib", "-ffreestanding"]
    subprocess.run([CLANG, *flags, str(path), "-o", str(made)], check=True, capture_output=True)
    found = read_code_object(made.read_bytes())
    assert found.processor is not None
    wave = found.processor.wave
    return {
        name: blocks_of(found.read(kernel.entry_address, kernel.code_size), found.processor.family, wave)
        for name, kernel in found.kernels.items()
    }


def blocks_of(code: bytes, family: str, wave: int) -> list[CodeBlock]:
    """The basic blocks of machine code, labelled by address, up to the padding behind the last end."""
    table = family_table(family)
    decoded: dict[int, Decoded] = {}
    at = 0
    while at < len(code):
        item = decode(table, code, at, wave_size=wave)
        if item.row.mnemonic == "s_code_end":
            break
        decoded[at] = item
        at += item.size
    starts = {0}
    for address, item in decoded.items():
        target = _target(address, item)
        if target is not None:
            starts |= {target, address + item.size}
    blocks: list[CodeBlock] = []
    for address, item in decoded.items():
        if address in starts:
            blocks.append(CodeBlock(str(address), [], []))
        block = blocks[-1]
        # The assembler aligns loops with these, behind all passes; real wait states have a block between.
        if item.row.mnemonic != "s_nop":
            block.code.append(_code(item, code[address : address + item.size], wave))
        target = _target(address, item)
        after = address + item.size
        if target is not None:
            block.successors.append(str(target))
        falls = item.row.mnemonic not in ("s_branch", "s_endpgm")
        if falls and after in starts and after in decoded:
            block.successors.append(str(after))
    return blocks


def _code(item: Decoded, data: bytes, wave: int) -> Code:
    codes = {o.name: value for o, value in zip(item.row.operands, item.codes, strict=True) if o.ranges}
    made = Code(item.row, codes, data, wave, literal=item.literal)
    if item.second is not None:
        made.second = _code(item.second, b"", wave)
        made.reads += made.second.reads
        made.writes += made.second.writes
    return made


def _target(address: int, item: Decoded) -> int | None:
    for operand, code in zip(item.row.operands, item.codes, strict=True):
        if operand.kind == "branch16":
            distance = (code & 0xFFFF) - (0x10000 if code & 0x8000 else 0)
            return address + item.size + 4 * distance
    return None
