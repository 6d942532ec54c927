"""What a kernel's final code is made of, by unit and kind (language reference, part 3, section 8.6).

Counts are of static instructions, of both halves of a dual-issue word; bytes are those one lane moves, or the wave for
scalar memory. An instruction may count in several rows: a matrix instruction is a vector instruction too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.isa.tables import Row

COUNTERS: Final = (
    "descriptor_count",
    "scalar_alu_count",
    "vector_alu_count",
    "matrix_count",
    "mfma_count",
    "smfmac_count",
    "wmma_count",
    "swmmac_count",
    "dot_count",
    "global_memory_count",
    "global_load_count",
    "global_store_count",
    "buffer_load_count",
    "buffer_store_count",
    "flat_memory_count",
    "local_memory_count",
    "scalar_memory_count",
    "generic_memory_count",
    "memory_read_byte_count",
    "memory_write_byte_count",
    "global_load_byte_count",
    "global_store_byte_count",
    "local_read_byte_count",
    "local_write_byte_count",
    "scalar_read_byte_count",
    "flat_read_byte_count",
    "flat_write_byte_count",
    "atomic_count",
    "branch_count",
    "barrier_count",
    "control_count",
    "conversion_count",
    "cache_count",
    "register_move_count",
)
_MEMORY: Final = {
    "GLOBAL": "global",
    "VGLOBAL": "global",
    "MUBUF": "buffer",
    "MTBUF": "buffer",
    "VBUFFER": "buffer",
    "FLAT": "flat",
    "VFLAT": "flat",
    "SCRATCH": "generic",
    "VSCRATCH": "generic",
    "DS": "local",
    "SMEM": "scalar",
}
_MATRIX: Final = {"v_mfma": "mfma", "v_smfmac": "smfmac", "v_wmma": "wmma", "v_swmmac": "swmmac"}
_MOVES: Final = ("v_mov_b", "s_mov_b", "v_accvgpr_", "v_dual_mov_b")
_CACHE: Final = ("buffer_gl", "buffer_inv", "buffer_wb", "global_inv", "global_wb", "s_dcache", "s_icache")
_DATA: Final = frozenset({"data", "data0", "data1", "vdata", "vsrc", "sdata", "vdst"})


def instruction_mix(blocks: Sequence[CodeBlock]) -> dict[str, int]:
    """The counters that are not zero, in the order of the reference."""
    found = dict.fromkeys(COUNTERS, 0)
    for block in blocks:
        for code in block.code:
            for part in (code, code.second):
                if part is not None:
                    for name, amount in contribution(part.row):
                        found[name] += amount
    return {name: count for name, count in found.items() if count}


@cache
def contribution(row: Row) -> tuple[tuple[str, int], ...]:
    """What one instruction adds to which counters."""
    return tuple(_classify(row))


def _classify(row: Row) -> Iterator[tuple[str, int]]:
    name = row.mnemonic
    yield "descriptor_count", 1
    if row.format in _MEMORY:
        yield from _memory(row, _MEMORY[row.format])
    elif row.format.startswith("VOP"):
        yield "vector_alu_count", 1
        matrix = next((kind for start, kind in _MATRIX.items() if name.startswith(start)), None)
        if matrix is not None:
            yield "matrix_count", 1
            yield f"{matrix}_count", 1
        elif "dot" in name:
            yield "dot_count", 1
    elif "barrier" in name:
        yield "barrier_count", 1
    elif any(operand.kind == "branch16" for operand in row.operands) or name.startswith(("s_setpc", "s_swappc")):
        yield "branch_count", 1
    elif row.format.startswith("SOPP"):
        yield "control_count", 1
    else:
        yield "scalar_alu_count", 1
    if "_cvt_" in name:
        yield "conversion_count", 1
    if name.startswith(_MOVES):
        yield "register_move_count", 1
    if name.startswith(_CACHE):
        yield "cache_count", 1


def _memory(row: Row, unit: str) -> Iterator[tuple[str, int]]:
    if not row.flags:
        if not row.mnemonic.startswith(_CACHE):
            yield f"{'generic' if unit == 'buffer' else unit}_memory_count", 1
        return
    load, store = "load" in row.flags, "store" in row.flags
    atomic = "atomic" in row.mnemonic or (load and store)
    if unit == "buffer":
        yield "generic_memory_count", 1
    else:
        yield f"{unit}_memory_count", 1
    if atomic:
        yield "atomic_count", 1
    size = _bytes(row)
    for active, verb, counted in ((load, "read", "load"), (store, "write", "store")):
        if not active or atomic:
            continue
        yield f"memory_{verb}_byte_count", size
        if unit in ("global", "buffer"):
            yield f"{unit}_{counted}_count", 1
        if unit == "global":
            yield f"global_{counted}_byte_count", size
        elif f"{unit}_{verb}_byte_count" in COUNTERS:
            yield f"{unit}_{verb}_byte_count", size


def _bytes(row: Row) -> int:
    """Bytes of memory that one lane touches: what the name says, else the width of the data operands."""
    for ending, size in (
        ("b8", 1),
        ("i8", 1),
        ("u8", 1),
        ("byte", 1),
        ("b16", 2),
        ("i16", 2),
        ("u16", 2),
        ("short", 2),
    ):
        if row.mnemonic.removesuffix("_d16").removesuffix("_hi").removesuffix("_d16").endswith(ending):
            return size
    return sum(o.width_bits // 8 for o in row.operands if o.name in _DATA and o.ranges)
