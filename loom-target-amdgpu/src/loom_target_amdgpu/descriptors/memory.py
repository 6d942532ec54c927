"""Memory instructions (language reference, part 3, section 14.4).

Buffer resources (``buffer_*``) are for authored code; selection uses global, scratch and LDS addressing.
"""

# ruff: noqa: E501 - one instruction family per line, however long

from __future__ import annotations

from typing import Final

_SCALAR: Final = """
* | s_load_dword | dst:s | base:s2 soffset:s | offset? | |
* | s_load_dwordx2 | dst:s2 | base:s2 soffset:s | offset? | |
* | s_load_dwordx4 | dst:s4 | base:s2 soffset:s | offset? | |
* | s_load_dwordx8 | dst:s8 | base:s2 soffset:s | offset? | |
* | s_load_dwordx16 | dst:s16 | base:s2 soffset:s | offset? | |
* | s_load_dword_offset_only | dst:s | base:s2 | offset? | map=dst,base,offset |
* | s_load_dwordx2_offset_only | dst:s2 | base:s2 | offset? | map=dst,base,offset |
* | s_load_dwordx4_offset_only | dst:s4 | base:s2 | offset? | map=dst,base,offset |
* | s_load_dwordx8_offset_only | dst:s8 | base:s2 | offset? | map=dst,base,offset |
* | s_load_dwordx16_offset_only | dst:s16 | base:s2 | offset? | map=dst,base,offset |
* | s_buffer_load_dword | dst:s | resource:s4 soffset:s | offset? | |
B | s_load_b96_offset_only | dst:s3 | base:s2 | offset? | map=dst,base,offset |
B | s_load_i8_offset_only s_load_u8_offset_only s_load_i16_offset_only s_load_u16_offset_only | dst:s | base:s2 | offset? | map=dst,base,offset |
"""

_LDS: Final = """
* | ds_read_u16 ds_read_b32 ds_read_u8 ds_read_i8 ds_read_i16 | dst:v | addr:v | offset? | |
* | ds_swizzle_b32 | dst:v | addr:v | offset? | side |
* | ds_read_b64 | dst:v2 | addr:v | offset? | |
* | ds_read_b96 | dst:v3 | addr:v | offset? | |
* | ds_read_b128 | dst:v4 | addr:v | offset? | |
* | ds_write_b16 | | addr:v value:v.low16 | offset? | |
* | ds_write_b8 ds_write_b32 ds_add_u32 ds_sub_u32 ds_min_i32 ds_max_i32 ds_min_u32 ds_max_u32 ds_and_b32 ds_or_b32 ds_xor_b32 ds_add_f32 ds_min_f32 ds_max_f32 | | addr:v value:v | offset? | |
* | ds_write_b64 | | addr:v value:v2 | offset? | |
* | ds_write_b96 | | addr:v value:v3 | offset? | |
* | ds_write_b128 | | addr:v value:v4 | offset? | |
* | ds_add_rtn_u32 ds_sub_rtn_u32 ds_min_rtn_i32 ds_max_rtn_i32 ds_min_rtn_u32 ds_max_rtn_u32 ds_and_rtn_b32 ds_or_rtn_b32 ds_xor_rtn_b32 ds_wrxchg_rtn_b32 ds_add_rtn_f32 ds_min_rtn_f32 ds_max_rtn_f32 | dst:v | addr:v value:v | offset? | |
* | ds_permute_b32 ds_bpermute_b32 | dst:v | addr:v value:v | offset? | |
34B | ds_pk_add_f16 ds_pk_add_bf16 | | addr:v value:v | offset? | |
34B | ds_pk_add_rtn_f16 ds_pk_add_rtn_bf16 | dst:v | addr:v value:v | offset? | |
34 | ds_cmpst_rtn_b32 | dst:v | addr:v expected:v replacement:v | offset? | |
AaB | ds_cmpst_rtn_b32 | dst:v | addr:v expected:v replacement:v | offset? | map=dst,addr,replacement,expected |
* | ds_read2_b32 ds_read2st64_b32 | dst:v2 | addr:v | offset0? offset1? | |
* | ds_read2_b64 ds_read2st64_b64 | dst:v4 | addr:v | offset0? offset1? | |
* | ds_write2_b32 ds_write2st64_b32 | | addr:v value0:v value1:v | offset0? offset1? | |
* | ds_write2_b64 ds_write2st64_b64 | | addr:v value0:v2 value1:v2 | offset0? offset1? | |
"""

_CACHE: Final = """
34 | buffer_inv buffer_wbl2 | | | @c | barrier mem map=- class=cache |
Aa | buffer_gl0_inv buffer_gl1_inv s_gl1_inv | | | | barrier mem map=- class=cache |
B | global_inv global_wb global_wbinv | | | @c | barrier mem form=vaddr map=- class=cache |
* | s_dcache_inv s_icache_inv | | | | barrier mem map=- class=cache |
"""

_BUFFER: Final = """
* | buffer_load_dword buffer_load_u8 buffer_load_i8 buffer_load_u16 buffer_load_i16 | dst:v | resource:s4 vaddr:v soffset:s | offset? @c | form=offen map=dst,vaddr,resource,soffset |
* | buffer_store_dword buffer_store_b8 | | value:v resource:s4 vaddr:v soffset:s | offset? @c | form=offen map=value,vaddr,resource,soffset |
"""

_WIDTHS: Final = (("b32", "dword", 1), ("b64", "dwordx2", 2), ("b96", "dwordx3", 3), ("b128", "dwordx4", 4))
_NARROW: Final = (("u8", "ubyte"), ("i8", "sbyte"), ("u16", "ushort"), ("i16", "sshort"))
_ATOMICS: Final = (
    "add_u32",
    "sub_u32",
    "min_i32",
    "max_i32",
    "min_u32",
    "max_u32",
    "and_b32",
    "or_b32",
    "xor_b32",
    "add_f32",
)


def _global() -> list[str]:
    lines = []
    for bits, word, units in _WIDTHS:
        n = units if units > 1 else ""
        lines += [
            f"34 | global_load_{word}_vaddr=global_load_{bits} | dst:v{n} | addr:v2 | offset? @c | |",
            f"AaB | global_load_{bits}_vaddr=global_load_{bits} | dst:v{n} | addr:v2 | offset? @c | |",
            f"34 | global_load_{word}_saddr=global_load_{bits}_saddr | dst:v{n} | addr:v saddr:s2 m0:m | offset? @c | map=dst,addr,saddr |",
            f"AaB | global_load_{bits}_saddr | dst:v{n} | addr:v saddr:s2 | offset? @c | |",
            f"34 | global_store_{word}_vaddr=global_store_{bits} | | addr:v2 value:v{n} | offset? @c | |",
            f"AaB | global_store_{bits}_vaddr=global_store_{bits} | | addr:v2 value:v{n} | offset? @c | |",
            f"34 | global_store_{word}_saddr=global_store_{bits}_saddr | | addr:v value:v{n} saddr:s2 m0:m | offset? @c | map=addr,value,saddr |",
            f"AaB | global_store_{bits}_saddr | | addr:v value:v{n} saddr:s2 | offset? @c | |",
        ]
    for bits, word in _NARROW:
        lines += [
            f"34 | global_load_{word}_vaddr=global_load_{bits} | dst:v | addr:v2 | offset? @c | |",
            f"AaB | global_load_{bits}_vaddr=global_load_{bits} | dst:v | addr:v2 | offset? @c | |",
            f"34 | global_load_{word}_saddr=global_load_{bits}_saddr | dst:v | addr:v saddr:s2 m0:m | offset? @c | map=dst,addr,saddr |",
            f"AaB | global_load_{bits}_saddr | dst:v | addr:v saddr:s2 | offset? @c | |",
        ]
    lines += [
        "* | global_store_b8_vaddr=global_store_b8 | | addr:v2 value:v | offset? @c | |",
        "34 | global_store_b8_saddr | | addr:v value:v saddr:s2 m0:m | offset? @c | map=addr,value,saddr |",
        "AaB | global_store_b8_saddr | | addr:v value:v saddr:s2 | offset? @c | |",
        "* | global_store_short_vaddr=global_store_b16 | | addr:v2 value:v.low16 | offset? @c | |",
        "34 | global_store_short_saddr=global_store_b16_saddr | | addr:v value:v.low16 saddr:s2 m0:m | offset? @c | map=addr,value,saddr |",
        "AaB | global_store_short_saddr=global_store_b16_saddr | | addr:v value:v.low16 saddr:s2 | offset? @c | |",
    ]
    return lines


def _scratch() -> list[str]:
    lines = []
    for bits, _, units in _WIDTHS:
        n = units if units > 1 else ""
        lines += [
            f"* | scratch_load_{bits}_vaddr | dst:v{n} | addr:v | offset? @c | |",
            f"* | scratch_load_{bits}_offset_only | dst:v{n} | | offset? @c | |",
            f"* | scratch_store_{bits}_vaddr | | addr:v value:v{n} | offset? @c | |",
            f"* | scratch_store_{bits}_offset_only | | value:v{n} | offset? @c | |",
        ]
    for bits, word in _NARROW:
        lines += [
            f"34 | scratch_load_{word}_vaddr=scratch_load_{bits}_vaddr | dst:v | addr:v | offset? @c | |",
            f"AaB | scratch_load_{bits}_vaddr | dst:v | addr:v | offset? @c | |",
            f"34 | scratch_load_{word}_offset_only=scratch_load_{bits}_offset_only | dst:v | | offset? @c | |",
            f"AaB | scratch_load_{bits}_offset_only | dst:v | | offset? @c | |",
        ]
    for bits, word in (("b8", "byte"), ("b16", "short")):
        part = ".low16" if bits == "b16" else ""
        lines += [
            f"34 | scratch_store_{word}_vaddr=scratch_store_{bits}_vaddr | | addr:v value:v{part} | offset? @c | |",
            f"AaB | scratch_store_{bits}_vaddr | | addr:v value:v{part} | offset? @c | |",
            f"34 | scratch_store_{word}_offset_only=scratch_store_{bits}_offset_only | | value:v{part} | offset? @c | |",
            f"AaB | scratch_store_{bits}_offset_only | | value:v{part} | offset? @c | |",
        ]
    return lines


def _atomics() -> list[str]:
    """Global and flat atomics. CDNA's global rows beyond the reference's list are the compiler's own."""
    lines = []
    for name in (*_ATOMICS, "swap_b32", "min_f32", "max_f32"):
        gens = "AaB" if name in ("min_f32", "max_f32") else "34AaB"
        for gen in gens:
            cache = "@c" if gen == "B" else ""
            m0 = " m0:m" if gen in "34" else ""
            m = "map=addr,value,saddr" if m0 else ""
            mr = "map=dst,addr,value,saddr" if m0 else ""
            if name != "swap_b32":
                lines.append(
                    f"{gen} | global_atomic_{name}_saddr | | addr:v value:v saddr:s2{m0} | offset? {cache} | {m} |"
                )
                lines.append(f"{gen} | global_atomic_{name}_vaddr | | addr:v2 value:v | offset? {cache} | |")
            lines.append(
                f"{gen} | global_atomic_{name}_rtn_saddr | dst:v | addr:v value:v saddr:s2{m0} | offset? {cache} | {mr} |"
            )
            lines.append(f"{gen} | global_atomic_{name}_rtn_vaddr | dst:v | addr:v2 value:v | offset? {cache} | |")
    for name, units in (("add_u64", 2), ("swap_u64", 2)):
        for gen in "34AaB":
            vendor = {"add_u64": "add_x2", "swap_u64": "swap_x2"}[name] if gen in "34" else name
            isa = name if gen in "34" else {"add_u64": "add_u64", "swap_u64": "swap_b64"}[name]
            m0 = " m0:m" if gen in "34" else ""
            cache = "@c" if gen == "B" else ""
            if name == "add_u64":
                lines.append(
                    f"{gen} | global_atomic_{vendor}_saddr=global_atomic_{name}_saddr | | addr:v value:v{units} saddr:s2{m0}"
                    f" | offset? {cache} | isa=global_atomic_{isa}_saddr map=addr,value,saddr |"
                )
            lines.append(
                f"{gen} | global_atomic_{vendor}_rtn_saddr=global_atomic_{name}_rtn_saddr | dst:v{units} | addr:v value:v{units}"
                f" saddr:s2{m0} | offset? {cache} | isa=global_atomic_{isa}_rtn_saddr map=dst,addr,value,saddr |"
            )
    for gen in "34AaB":
        m0 = " m0:m" if gen in "34" else ""
        cache = "@c" if gen == "B" else ""
        lines.append(
            f"{gen} | global_atomic_cmpswap_b32_rtn_saddr | dst:v | addr:v value:v2 saddr:s2{m0} | offset? {cache}"
            " | map=dst,addr,value,saddr |"
        )
        lines.append(f"{gen} | global_atomic_cmpswap_b32_rtn_vaddr | dst:v | addr:v2 value:v2 | offset? {cache} | |")
    return lines


def _flat() -> list[str]:
    lines = []
    for key, mnemonic, word, units in (
        ("u8", "u8", "ubyte", 1),
        ("u32", "dword", "dword", 1),
        ("u64", "dwordx2", "dwordx2", 2),
        ("b128", "dwordx4", "dwordx4", 4),
    ):
        n = units if units > 1 else ""
        lines.append(f"34 | flat_load_{word}=flat_load_{key} | dst:v{n} | addr:v2 m0:m | offset? @c | map=dst,addr |")
        lines.append(f"AaB | flat_load_{mnemonic}=flat_load_{key} | dst:v{n} | addr:v2 | offset? @c | |")
    for key, mnemonic, word, units in (
        ("b32", "dword", "dword", 1),
        ("b64", "dwordx2", "dwordx2", 2),
        ("b128", "dwordx4", "dwordx4", 4),
        ("b8", "b8", "byte", 1),
    ):
        n = units if units > 1 else ""
        lines.append(
            f"34 | flat_store_{word}=flat_store_{key} | | addr:v2 value:v{n} m0:m | offset? @c | map=addr,value |"
        )
        lines.append(f"AaB | flat_store_{mnemonic}=flat_store_{key} | | addr:v2 value:v{n} | offset? @c | |")
    for name in (*_ATOMICS, "min_f32", "max_f32"):
        gens = "AaB" if name in ("min_f32", "max_f32") else "34AaB"
        for gen in gens:
            vendor = _CDNA_FLAT.get(name, name) if gen in "34" else name
            m0 = " m0:m" if gen in "34" else ""
            cache = "@c" if gen == "B" else ""
            isa = f"isa=flat_atomic_{name}"
            lines.append(
                f"{gen} | flat_atomic_{vendor}=flat_atomic_{name} | | addr:v2 value:v{m0} | offset? {cache} | {isa} map=addr,value |"
            )
            lines.append(
                f"{gen} | flat_atomic_{vendor}_rtn=flat_atomic_{name}_rtn | dst:v | addr:v2 value:v{m0} | offset? {cache}"
                f" | {isa}_rtn map=dst,addr,value |"
            )
    return lines


_CDNA_FLAT: Final = {
    "add_u32": "add",
    "sub_u32": "sub",
    "min_i32": "smin",
    "max_i32": "smax",
    "min_u32": "umin",
    "max_u32": "umax",
    "and_b32": "and",
    "or_b32": "or",
    "xor_b32": "xor",
}

MEMORY: Final = "\n".join([_SCALAR, _LDS, _CACHE, _BUFFER, *_global(), *_scratch(), *_atomics(), *_flat()])
