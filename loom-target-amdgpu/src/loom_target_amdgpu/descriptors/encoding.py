"""How a descriptor is encoded: which table row, and where every operand of that row comes from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from loom.ir.records import record
from loom_target_amdgpu.isa.tables import Row, family_table


@record
class Source:
    """The origin of one encoded operand: a result, an operand, an immediate, or a fixed register name."""

    result: int | None = None
    operand: int | None = None
    immediate: str | None = None
    code: str | None = None


@record(eq=False)
class Encoding:
    """The encoding of a descriptor.

    Attributes:
        mnemonic: the Low mnemonic, or the table's where they differ in more than naming rules cover.
        form: required form of the row; None derives it from the mnemonic's suffixes.
        sources: one per operand of the row that has a field, in assembler order.
        modifiers: fixed modifier values.
        named: immediates that are modifiers of the row under their own name.
        format: required format of the row.
    """

    mnemonic: str
    form: str | None
    sources: tuple[Source, ...]
    modifiers: tuple[tuple[str, int], ...]
    named: tuple[str, ...]
    format: str | None


_WORDS: Final = {
    "dword": "b32",
    "dwordx2": "b64",
    "dwordx3": "b96",
    "dwordx4": "b128",
    "dwordx8": "b256",
    "dwordx16": "b512",
}
_COUNTS: Final = {bits: word for word, bits in _WORDS.items()}
_GFX9_WIDTHS: Final = {
    "u8": "ubyte",
    "i8": "sbyte",
    "u16": "ushort",
    "i16": "sshort",
    "b8": "byte",
    "b16": "short",
    **_COUNTS,
}
_GFX9_ATOMICS: Final = {
    "add_u32": "add",
    "sub_u32": "sub",
    "min_i32": "smin",
    "max_i32": "smax",
    "min_u32": "umin",
    "max_u32": "umax",
    "and_b32": "and",
    "or_b32": "or",
    "xor_b32": "xor",
    "swap_b32": "swap",
    "cmpswap_b32": "cmpswap",
    "add_u64": "add_x2",
    "swap_u64": "swap_x2",
    "cmpswap_b64": "cmpswap_x2",
}
_RENAMED: Final[Mapping[str, Mapping[str, str]]] = {
    "gfx11": {},
    "gfx12": {
        "s_add_u32": "s_add_co_u32",
        "s_addc_u32": "s_add_co_ci_u32",
        "s_sub_u32": "s_sub_co_u32",
        "s_subb_u32": "s_sub_co_ci_u32",
        "s_addk_i32": "s_addk_co_i32",
        "v_mad_u64_u32": "v_mad_co_u64_u32",
        "v_mad_i64_i32": "v_mad_co_i64_i32",
        "v_med3_f32": "v_med3_num_f32",
        "v_min_f32": "v_min_num_f32",
        "v_max_f32": "v_max_num_f32",
        "v_min_f16": "v_min_num_f16",
        "v_max_f16": "v_max_num_f16",
        "v_min_f64": "v_min_num_f64",
        "v_max_f64": "v_max_num_f64",
        "s_waitcnt_depctr": "s_wait_alu",
        "ds_min_f32": "ds_min_num_f32",
        "ds_max_f32": "ds_max_num_f32",
        "ds_min_rtn_f32": "ds_min_num_rtn_f32",
        "ds_max_rtn_f32": "ds_max_num_rtn_f32",
        "global_atomic_min_f32": "global_atomic_min_num_f32",
        "global_atomic_max_f32": "global_atomic_max_num_f32",
        "flat_atomic_min_f32": "flat_atomic_min_num_f32",
        "flat_atomic_max_f32": "flat_atomic_max_num_f32",
    },
}
_RDNA: Final = {
    "v_add_u32": "v_add_nc_u32",
    "v_sub_u32": "v_sub_nc_u32",
    "v_subrev_u32": "v_subrev_nc_u32",
    "v_ffbh_u32": "v_clz_i32_u32",
    "v_ffbl_b32": "v_ctz_i32_b32",
    "s_ff1_i32_b32": "s_ctz_i32_b32",
    "s_flbit_i32_b32": "s_clz_i32_u32",
    "s_andn2_b64": "s_and_not1_b64",
    "s_andn2_b32": "s_and_not1_b32",
    "s_andn2_saveexec_b64": "s_and_not1_saveexec_b64",
    "v_cvt_pkrtz_f16_f32": "v_cvt_pk_rtz_f16_f32",
    "ds_wrxchg_rtn_b32": "ds_storexchg_rtn_b32",
    "ds_cmpst_rtn_b32": "ds_cmpstore_rtn_b32",
    "global_store_short": "global_store_b16",
    "buffer_store_short": "buffer_store_b16",
    "scratch_store_short": "scratch_store_b16",
}
_SUFFIXES: Final = ("_offset_only", "_vaddr", "_saddr", "_rtn")
_SEGMENTS: Final = ("global_", "flat_", "scratch_", "buffer_")


def table_name(mnemonic: str, family: str) -> tuple[str, str | None]:
    """The table's mnemonic and form of a Low mnemonic on a family (form None: any)."""
    suffixes = []
    base = mnemonic
    stripped = True
    while stripped:
        stripped = False
        for suffix in _SUFFIXES:
            if base.endswith(suffix) and base.startswith((*_SEGMENTS, "s_load", "s_store", "s_buffer", "s_scratch")):
                base = base[: -len(suffix)]
                suffixes.append(suffix)
                stripped = True
    return _name(base, family), _form(base, suffixes)


def _form(base: str, suffixes: list[str]) -> str | None:
    if base.startswith(("s_load", "s_buffer_load", "s_store", "s_buffer_store", "s_scratch")):
        return "imm" if "_offset_only" in suffixes else "sgpr_imm"
    if base.startswith("flat_"):
        return "rtn" if "_rtn" in suffixes else ""
    if base.startswith("scratch_"):
        return "st" if "_offset_only" in suffixes else "vaddr"
    if base.startswith("global_"):
        scalar = "_saddr" in suffixes
        if "_rtn" in suffixes:
            return "saddr_rtn" if scalar else "rtn_vaddr"
        return "saddr" if scalar else "vaddr"
    return None


def _name(base: str, family: str) -> str:
    if family == "gfx942":
        return _gfx9_name(base)
    base = _RDNA.get(base, base)
    base = _RENAMED[family].get(base, base)
    if base.startswith("ds_"):
        base = base.replace("ds_read_", "ds_load_").replace("ds_write_", "ds_store_")
        base = re.sub(r"ds_read2st64_", "ds_load_2addr_stride64_", re.sub(r"ds_read2_", "ds_load_2addr_", base))
        return re.sub(r"ds_write2st64_", "ds_store_2addr_stride64_", re.sub(r"ds_write2_", "ds_store_2addr_", base))
    head, _, width = base.rpartition("_")
    return f"{head}_{_WORDS[width]}" if width in _WORDS else base


def _gfx9_name(base: str) -> str:
    if base in ("v_add_co_ci_u32", "v_sub_co_ci_u32"):
        return {"v_add_co_ci_u32": "v_addc_co_u32", "v_sub_co_ci_u32": "v_subb_co_u32"}[base]
    if base == "v_sub_nc_u32":
        return "v_sub_u32"
    for segment in ("global_", "flat_", "scratch_", "buffer_"):
        if not base.startswith(segment):
            continue
        rest = base[len(segment) :]
        if rest.startswith("atomic_"):
            return f"{segment}atomic_{_GFX9_ATOMICS.get(rest[7:], rest[7:])}"
        if rest in ("load_d16_b16", "load_b16_d16"):
            return f"{segment}load_short_d16"
        kind, gap, width = rest.partition("_")
        return f"{segment}{kind}{gap}{_GFX9_WIDTHS.get(width, width)}"
    return base


_ORDER: Final = {"VOP1": 0, "VOP2": 0, "VOPC": 0, "SOPK": 0}


@cache
def rows(encoding: Encoding, family: str, wave: int) -> tuple[Row, ...]:
    """The table rows that can encode a descriptor, shortest first.

    Raises:
        KeyError: the family has none; a descriptor set never holds such a descriptor (the tests see to it).
    """
    name, form = table_name(encoding.mnemonic, family)
    if wave == 32 and (name.endswith("saveexec_b64") or any(s.code == "exec" for s in encoding.sources)):
        # Low always speaks of 64-bit masks. A wave of 32 has no upper execution word, so its low half is all there is.
        name = name.removesuffix("_b64") + "_b32"
    if encoding.form is not None:
        form = encoding.form
    variant = ""
    if form in ("dpp16", "sdwa"):
        variant, form = form, None
    table = family_table(family)
    found = []
    for number in table.numbers(name):
        row = table.row(number)
        if (
            row.variant != variant
            or (form is not None and row.form != form)
            or (encoding.format not in (None, row.format))
        ):
            continue
        if row.wave not in (0, wave):
            continue
        if len([o for o in row.operands if o.ranges]) == len(encoding.sources):
            found.append(row)
    if not found:
        raise KeyError(
            f"{encoding.mnemonic}: no {family} row '{name}' with {len(encoding.sources)} operands (form {form})"
        )
    found.sort(key=lambda row: (row.word_count, _ORDER.get(row.format, 1)))
    return tuple(found)
