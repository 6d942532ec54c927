"""Encoder, decoder and disassembler: named cases, refusals, and what a decoder must tolerate."""

from __future__ import annotations

import random
import re

import pytest

from loom_target_amdgpu.isa.decode import Decoded, DecodeError, decode
from loom_target_amdgpu.isa.disasm import disassemble, disassemble_code
from loom_target_amdgpu.isa.encode import EncodingError, encode, encode_dual
from loom_target_amdgpu.isa.tables import OFF, family_table

FAMILIES = ("gfx942", "gfx11", "gfx12")


def _reencode(decoded: Decoded) -> bytes:
    halves = []
    for half in (decoded, decoded.second):
        if half is not None:
            pairs = zip(half.row.operands, half.codes, strict=True)
            halves.append({operand.name: code for operand, code in pairs if operand.ranges})
    if decoded.second is not None:
        return encode_dual(decoded.row, halves[0], decoded.second.row, halves[1], decoded.literal)
    return encode(decoded.row, halves[0], decoded.modifiers, decoded.literal)


def _encode(family: str, name: str, format: str | None = None, **codes: int) -> bytes:
    modifiers = {key[1:]: value for key, value in codes.items() if key.startswith("_")}
    operands = {key: value for key, value in codes.items() if not key.startswith("_") and key != "literal"}
    return encode(family_table(family).find(name, format), operands, modifiers, codes.get("literal"))


@pytest.mark.parametrize(
    ("family", "text", "data"),
    [
        (
            "gfx11",
            "v_add_f32_e64 v1, -v2, |s3| clamp mul:2",
            _encode(
                "gfx11", "v_add_f32", "VOP3", vdst=257, src0=258, src1=3, _neg=1, _abs=2, _clamp=1, _omod=1
            ),
        ),
        (
            "gfx11",
            "global_load_b32 v1, v2, s[4:5] offset:-16 glc",
            encode(
                family_table("gfx11").find("global_load_b32", form="saddr"),
                {"vdst": 257, "addr": 258, "saddr": 4},
                {"offset": -16, "glc": 1},
            ),
        ),
        (
            "gfx12",
            "s_mov_b32 s1, 0x3f800001",
            _encode("gfx12", "s_mov_b32", sdst=1, ssrc0=255, literal=0x3F800001),
        ),
        (
            "gfx942",
            "v_mfma_f32_32x32x8_f16 a[0:15], v[2:3], a[4:5], a[0:15]",
            encode(
                family_table("gfx942").find("v_mfma_f32_32x32x8_f16", form="acd"),
                {"vdst": 512, "src0": 258, "src1": 516, "src2": 512},
            ),
        ),
        (
            "gfx942",
            "v_add_f64 v[2:3], v[4:5], 1.0",
            _encode("gfx942", "v_add_f64", vdst=258, src0=260, src1=242),
        ),
    ],
)
def test_known_instructions(family: str, text: str, data: bytes) -> None:
    assert disassemble(decode(family_table(family), data, wave_size=64), wave_size=64) == text


@pytest.mark.parametrize(
    ("message", "family", "name", "format", "codes"),
    [
        ("operand 'src1' is missing", "gfx11", "v_add_f32", "VOP3", {"vdst": 257, "src0": 258}),
        (
            "has no operand 'src9'",
            "gfx11",
            "v_add_f32",
            "VOP3",
            {"vdst": 257, "src0": 258, "src1": 1, "src9": 1},
        ),
        (
            "operand 'vdst' cannot have the code 5",
            "gfx11",
            "v_add_f32",
            "VOP3",
            {"vdst": 5, "src0": 258, "src1": 1},
        ),
        (
            "operand 'vsrc1' cannot have the code 3",
            "gfx11",
            "v_add_f32",
            "VOP2",
            {"vdst": 257, "src0": 1, "vsrc1": 3},
        ),
        (
            "operand 'src0' cannot have the code 513",
            "gfx11",
            "v_add_f32",
            "VOP2",
            {"vdst": 257, "src0": 513, "vsrc1": 257},
        ),
        ("operand 'sdst' cannot have the code 128", "gfx11", "s_mov_b32", None, {"sdst": 128, "ssrc0": 1}),
        (
            "operand 'src1' cannot be a literal",
            "gfx942",
            "v_add_f32",
            "VOP3",
            {"vdst": 257, "src0": 256, "src1": 255, "literal": 99},
        ),
        ("needs a literal value", "gfx11", "s_mov_b32", None, {"sdst": 1, "ssrc0": 255}),
        ("no operand reads the literal", "gfx11", "s_mov_b32", None, {"sdst": 1, "ssrc0": 1, "literal": 3}),
        ("no modifier 'omod'", "gfx11", "s_mov_b32", None, {"sdst": 1, "ssrc0": 1, "_omod": 1}),
        (
            "modifier offset=4096 is outside",
            "gfx11",
            "global_load_b32",
            None,
            {"vdst": 257, "addr": 258, "saddr": 4, "_offset": 4096},
        ),
        (
            "modifier offset=-1 is outside",
            "gfx11",
            "ds_load_b32",
            None,
            {"vdst": 257, "addr": 258, "_offset": -1},
        ),
        (
            "modifier neg=4 is outside",
            "gfx11",
            "v_add_f32",
            "VOP3",
            {"vdst": 257, "src0": 258, "src1": 1, "_neg": 4},
        ),
        ("must start at a multiple of 2, not s3", "gfx11", "s_mov_b64", None, {"sdst": 3, "ssrc0": 4}),
        (
            "must start at an even vector register",
            "gfx942",
            "v_add_f64",
            None,
            {"vdst": 257, "src0": 260, "src1": 260},
        ),
        (
            "starts at register 255, above 254",
            "gfx11",
            "v_add_f64",
            None,
            {"vdst": 511, "src0": 260, "src1": 260},
        ),
        (
            "reaches v0..v127 only",
            "gfx11",
            "v_add_f16",
            "VOP2",
            {"vdst": 256 + 130, "src0": 257, "vsrc1": 257},
        ),
        ("cannot have the code -40000", "gfx11", "s_movk_i32", None, {"sdst": 1, "simm16": -40000}),
        (
            "does not fit in 32 bits",
            "gfx11",
            "s_mov_b32",
            None,
            {"sdst": 1, "ssrc0": 255, "literal": 1 << 32},
        ),
    ],
)
def test_values_an_instruction_cannot_express(
    message: str, family: str, name: str, format: str | None, codes: dict[str, int]
) -> None:
    codes = dict(codes)
    if codes.pop("_", None) is not None:
        row = family_table(family).find(name, format)
        with pytest.raises(EncodingError, match=message):
            encode(
                row,
                {**{k: v for k, v in codes.items() if k != "literal"}, "literal": 7},
                {},
                codes["literal"],
            )
        return
    with pytest.raises(EncodingError, match=message):
        _encode(family, name, format, **codes)


def test_one_instruction_has_one_literal() -> None:
    row = family_table("gfx11").find("v_fmaak_f32")
    codes = {"vdst": 257, "src0": 255, "vsrc1": 257}
    assert encode(row, codes, literal=7) == encode(row, {**codes, "literal": 7})
    with pytest.raises(EncodingError, match="two different literals"):
        encode(row, {**codes, "literal": 7}, literal=3)


def test_accumulation_bit_is_shared() -> None:
    row = family_table("gfx942").find("global_atomic_swap", form="saddr_rtn")
    with pytest.raises(EncodingError, match="all be VGPRs or all be AGPRs"):
        encode(row, {"vdst": 512, "addr": 257, "data": 258, "saddr": 4})


def test_dual_issue_results_must_differ_in_parity() -> None:
    table = family_table("gfx11")
    x, y = table.find("v_dual_mov_b32", "VOPD_X"), table.find("v_dual_mov_b32", "VOPD_Y")
    with pytest.raises(EncodingError, match="one even and one odd"):
        encode_dual(x, {"vdstx": 258, "srcx0": 257}, y, {"vdsty": 256, "srcy0": 258})
    with pytest.raises(EncodingError, match="cannot be encoded alone"):
        encode(x, {"vdstx": 258, "srcx0": 257})


def test_unused_source_fields_are_ignored() -> None:
    """Newer assemblers write the inline constant 0 into fields a VOP3 instruction does not use."""
    table = family_table("gfx12")
    row = table.find("v_mov_b32", "VOP3")
    plain = encode(row, {"vdst": 257, "src0": 258})
    newer = (int.from_bytes(plain, "little") | 128 << 41 | 128 << 50).to_bytes(8, "little")
    assert newer != plain
    decoded = decode(table, newer)
    assert (decoded.row, decoded.codes) == (row, (257, 258))


def test_untyped_buffer_format_field_is_ignored() -> None:
    table = family_table("gfx12")
    row = table.find("buffer_load_b32", form="offset")
    data = encode(row, {"vdata": 257, "rsrc": 8, "soffset": 3})
    zeroed = (int.from_bytes(data, "little") & ~(0x7F << 55)).to_bytes(12, "little")
    assert zeroed != data
    assert decode(table, zeroed).row is row
    typed = table.find("tbuffer_load_format_x", form="offset")
    data = encode(typed, {"vdata": 257, "rsrc": 8, "soffset": 3}, {"format": 22})
    assert decode(table, data).modifiers == {"format": 22}


def test_second_place_of_a_scalar_offset() -> None:
    table = family_table("gfx942")
    row = table.find("s_load_dword", form="sgpr")
    usual = encode(row, {"sdata": 10, "sbase": 4, "offset": 3})
    value = int.from_bytes(usual, "little")
    other = (value & ~(0x7F << 32) | 1 << 14 | 3 << 57).to_bytes(8, "little")
    decoded = decode(table, other)
    assert (decoded.row, decoded.codes) == (row, (10, 4, 3))


def test_missing_scalar_address_is_its_own_form() -> None:
    for family, null in (("gfx942", 0x7F), ("gfx11", 0x7C), ("gfx12", 0x7C)):
        table = family_table(family)
        name = "global_load_dword" if family == "gfx942" else "global_load_b32"
        scalar = table.find(name, form="saddr")
        address = "addr" if family != "gfx12" else "vaddr"
        data = encode(scalar, {"vdst": 257, address: 258, "saddr": null})
        decoded = decode(table, data)
        assert decoded.row.form == "vaddr"
        assert decoded.codes[-1] == OFF


def test_returning_atomics_are_told_apart_by_their_hint() -> None:
    table = family_table("gfx12")
    for form, shown in (("saddr", ""), ("saddr_rtn", " th:TH_ATOMIC_RETURN")):
        row = table.find("global_atomic_add_u32", form=form)
        codes = {"vaddr": 258, "vsrc": 259, "saddr": 4} | ({"vdst": 257} if "rtn" in form else {})
        decoded = decode(table, encode(row, codes))
        assert decoded.row is row
        assert disassemble(decoded).endswith(f"v2, v3, s[4:5]{shown}")


def test_high_halves_are_reported_as_op_sel() -> None:
    table = family_table("gfx11")
    row = table.find("v_add_f16", "VOP2")
    data = encode(row, {"vdst": 256 + 1, "src0": 256 + 2, "vsrc1": 256 + 3}, {"op_sel": 0b1010})
    decoded = decode(table, data)
    assert decoded.codes == (257, 258, 259)
    assert decoded.modifiers == {"op_sel": 0b1010}
    assert disassemble(decoded) == "v_add_f16_e32 v1.h, v2.l, v3.h"
    assert _reencode(decoded) == data
    wide = decode(
        table, encode(table.find("v_add_f16", "VOP3"), {"vdst": 257, "src0": 258, "src1": 3}, {"op_sel": 9})
    )
    assert disassemble(wide) == "v_add_f16_e64 v1.h, v2.h, s3"


def test_dpp8_fetch_of_inactive_lanes() -> None:
    table = family_table("gfx11")
    row = table.find("v_mov_b32", "VOP1", variant="dpp8")
    data = encode(row, {"vdst": 257, "vsrc0": 258}, {"dpp8": 0o01234567, "fi": 1})
    decoded = decode(table, data)
    assert decoded.row is row
    assert decoded.modifiers == {"dpp8": 0o01234567, "fi": 1}
    assert disassemble(decoded) == "v_mov_b32_dpp v1, v2 dpp8:[7,6,5,4,3,2,1,0] fi:1"


@pytest.mark.parametrize(
    ("family", "words", "reason"),
    [
        ("gfx11", (0xFFFFFFFF,), "unknown"),
        ("gfx11", (0xBF7F0000,), "unknown SOPC instruction"),
        ("gfx11", (0xBE8000D5,), "reserved code 213 for ssrc0"),  # s_mov_b32 s0, <213>
        ("gfx11", (0x7E0202FA,), "reserved|ends inside"),  # a DPP marker without its word
        ("gfx11", (0xD7000000,), "ends inside"),
        ("gfx11", (0xBE8000FF,), "ends inside"),  # a literal that is not there
        ("gfx942", (0xD1010001, 0x000202FF), "cannot read a literal"),
        ("gfx942", (0xC8000000, 0), "unknown instruction format"),
        ("gfx12", (0xC43FC000, 0, 0), "unknown VBUFFER"),
    ],
)
def test_unknown_bytes_are_reported_with_offset_and_words(
    family: str, words: tuple[int, ...], reason: str
) -> None:
    code = bytes(8) + b"".join(word.to_bytes(4, "little") for word in words)
    with pytest.raises(DecodeError, match=reason) as caught:
        decode(family_table(family), code, 8, wave_size=64)
    assert caught.value.offset == 8
    assert caught.value.words == words
    assert "0x8" in str(caught.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_random_words_decode_or_raise(family: str) -> None:
    """Whatever decodes is stable: encoding it and decoding again gives the same instruction."""
    table = family_table(family)
    wave = 64 if family == "gfx942" else 32
    chooser = random.Random(11)
    found = 0
    refused: list[str] = []
    for _ in range(4000):
        data = chooser.randbytes(16)
        try:
            decoded = decode(table, data, wave_size=wave)
        except DecodeError:
            continue
        found += 1
        assert disassemble(decoded)
        try:
            again = decode(table, _reencode(decoded), wave_size=wave)
        except EncodingError as error:
            # Registers may run past the end or be misaligned: the decoder shows them, the encoder refuses
            # them.
            refused.append(str(error))
            continue
        assert (again.row.mnemonic, again.codes, again.modifiers) == (
            decoded.row.mnemonic,
            decoded.codes,
            decoded.modifiers,
        )
    assert found > 400
    assert len(refused) < found
    assert all(re.search("must start at|starts at register|one even and one odd", text) for text in refused)


def test_a_listing_continues_after_unknown_words() -> None:
    table = family_table("gfx11")
    code = _encode("gfx11", "s_nop", simm16=1) + b"\xff\xff\xff\xff" + _encode("gfx11", "s_endpgm")
    listing = list(disassemble_code(table, code, address=0x100))
    assert [(address, text) for address, _, text in listing] == [
        (0x100, "s_nop 1"),
        (0x104, ".long 0xffffffff"),
        (0x108, "s_endpgm"),
    ]
