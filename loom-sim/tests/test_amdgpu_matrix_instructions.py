"""Every matrix instruction, with the modifiers it has, against a model of single elements."""

from __future__ import annotations

import random
import struct
from functools import cache

import attrs
import numpy as np
import pytest
from amdgpu_compile import encoding, kernel_text, kernels_object, needs_llvm_mc
from amdgpu_matrix_model import BITS, Shape, decoded, encode, parse, product
from amdgpu_model import signed

from loom_sim import amdgpu
from loom_sim.amdgpu.errors import UnsupportedInstruction

pytestmark = needs_llvm_mc
TARGETS = {"gfx942": "gfx942", "gfx1100": "gfx11", "gfx1200": "gfx12"}
WAVES = [("gfx942", 64), ("gfx1100", 32), ("gfx1100", 64), ("gfx1200", 32), ("gfx1200", 64)]
PARTLY_FILLED = ["v_wmma_i32_16x16x16_iu4", "v_swmmac_i32_16x16x32_iu4"]
"""Products with operands that fill only some lanes of a wave64 on gfx12."""
WORDS = 49
"""Words of a lane: 8 of A, 8 of B, 32 of C, the index of sparse products."""


@attrs.frozen
class Case:
    """An instruction with modifiers."""

    shape: Shape
    suffix: str = ""
    negate: tuple[int, int, int] = (1, 1, 1)
    signs: tuple[bool, bool] = (True, True)
    index_shift: int = 0
    a_blocks: tuple[int, int] = (0, 0)
    b_lanes: tuple[int, int] = (64, 0)


def _variants(s: Shape) -> list[Case]:
    count = s.counts()[0]
    if "iu" in s.a:
        cases = [Case(s, signs=(False, False)), Case(s, " neg_lo:[1,0,0]", signs=(True, False)),
                 Case(s, " neg_lo:[0,1,0]", signs=(False, True))]  # fmt: skip
    elif s.family == "gfx942" or "8" in s.a:
        cases = [Case(s)]
    else:
        cases = [Case(s), Case(s, " neg_lo:[1,0,0] neg_hi:[1,0,0]", (-1, 1, 1))]
    if s.sparse and s.family == "gfx12" and 2 * count < 32:
        cases.append(attrs.evolve(cases[0], suffix=" index_key:1", index_shift=2 * count))
    elif s.sparse and s.family == "gfx942":
        cases += [Case(s, " abid:1", index_shift=2 * count), Case(s, " cbsz:1 abid:1")]
    elif s.c == "f64":
        cases.append(Case(s, " neg:[1,0,1]", (-1, 1, -1)))
    elif s.blocks > 1 and "8" not in s.a:
        cases += [Case(s, " cbsz:1 abid:1", a_blocks=(1, 1)), Case(s, " blgp:2", b_lanes=(32, 32)),
                  Case(s, " blgp:6", b_lanes=(16, 32))]  # fmt: skip
    return cases


@cache
def cases(target: str, lanes: int = 0) -> tuple[Case, ...]:
    """All matrix instructions of a target in its usual wave size or another that are executed."""
    from loom_target_amdgpu.isa.tables import family_table

    family = TARGETS[target]
    lanes = lanes or (64 if family == "gfx942" else 32)
    table = family_table(family)
    names = sorted({table.row(n).mnemonic for n in range(len(table))})
    if family == "gfx12" and lanes == 64:
        names = [name for name in names if name not in PARTLY_FILLED]
    shapes = [parse(name, family, lanes) for name in names]
    return tuple(case for shape in shapes if shape is not None for case in _variants(shape))


def _program(bodies: list[str], target: str, lanes: int) -> amdgpu.Program:
    """Kernels k0, k1 and so on."""
    wide = lanes == 64 and target != "gfx942"
    mode = ".amdhsa_wavefront_size32 0" if wide else ""
    kernels = [
        kernel_text(body, target, name=f"k{k}", buffers=2, vgprs=64, mode=mode) for k, body in enumerate(bodies)
    ]
    return amdgpu.load(kernels_object(kernels, target, *(["+wavefrontsize64"] if wide else [])))


def _span(first: str, count: int) -> str:
    bank, number = first[0], int(first[1:])
    return first if count == 1 else f"{bank}[{number}:{number + count - 1}]"


def _sizes(s: Shape) -> tuple[int, int, int]:
    """Registers of A, B and C; gfx11 keeps a 16-bit C in a register each."""
    a, b, c = s.counts()
    c_bits = 32 if s.family == "gfx11" else BITS[s.c]
    return a * BITS[s.a] // 32, b * BITS[s.b] // 32, c * c_bits // 32


def instruction(case: Case) -> str:
    """The text, with A in v[4:11], B in v[12:19], the index in v20, C and D in a[0:31] or v[32:39]."""
    s = case.shape
    a, b, c = _sizes(s)
    data = _span("a0" if s.family == "gfx942" else "v32", c)
    third = "v20" if s.sparse else data
    return f"{s.name} {data}, {_span('v4', a)}, {_span('v12', b)}, {third}{case.suffix}"


def _encoded(case: Case) -> str:
    """The same for the assembler: as words where it does not know the processor."""
    from loom_target_amdgpu.isa.encode import encode as encode_row
    from loom_target_amdgpu.isa.tables import AGPR, VGPR, family_table

    s = case.shape
    form = "acd" if s.family == "gfx942" and not s.sparse else None
    row = next(r for r in family_table(s.family).by_mnemonic[s.name] if form in (None, r.form))
    if row.available_on != ("gfx950",):
        return instruction(case)
    assert not case.suffix
    data = encode_row(row, {"vdst": AGPR, "src0": VGPR + 4, "src1": VGPR + 12, "src2": AGPR})
    return ".long " + ", ".join(f"0x{word:08x}" for (word,) in struct.iter_unpack("<I", data))


def _body(case: Case, target: str) -> str:
    s = case.shape
    old = s.family == "gfx942"
    load, store = ("global_load_dword", "global_store_dword") if old else ("global_load_b32", "global_store_b32")
    wait = "s_wait_loadcnt 0x0" if s.family == "gfx12" else "s_waitcnt vmcnt(0)"
    a, b, c = _sizes(s)
    data = [f"a{k}" if old else f"v{32 + k}" for k in range(c)]
    lines = [f"{'s_load_dwordx4' if old else 's_load_b128'} s[4:7], s[0:1], 0x0", f"s_movk_i32 s8, {4 * WORDS}",
             "v_mul_lo_u32 v1, v0, s8", "s_wait_kmcnt 0x0" if s.family == "gfx12" else "s_waitcnt lgkmcnt(0)",
             f"{load} v20, v1, s[4:5] offset:{4 * (WORDS - 1)}"]  # fmt: skip
    lines += [f"{load} v{4 + k}, v1, s[4:5] offset:{4 * k}" for k in range(a)]
    lines += [f"{load} v{12 + k}, v1, s[4:5] offset:{32 + 4 * k}" for k in range(min(b, 8))]
    lines += [f"{load} {r}, v1, s[4:5] offset:{64 + 4 * k}" for k, r in enumerate(data)]
    lines += [wait, _encoded(case), "s_nop 7" if old else "v_nop", "s_nop 7", "s_nop 7"]
    return "\n".join(
        lines + [f"{store} v1, {r}, s[6:7] offset:{64 + 4 * k}" for k, r in enumerate(data)] + ["s_endpgm"]
    )


def _put(words: list[int], first: int, position: int, width: int, bits: int) -> None:
    for word in range(first + position // 32, first + (position + width + 31) // 32):
        words[word] |= (bits & 0xFFFFFFFF) << (position % 32 if width < 32 else 0)
        bits >>= 32


def _get(words: list[int], first: int, position: int, width: int) -> int:
    if width == 64:
        return words[first + position // 32] | words[first + position // 32 + 1] << 32
    return words[first + position // 32] >> position % 32 & ((1 << width) - 1)


def _result(bits: int, kind: str) -> float:
    if kind == "i32":
        return signed(bits)
    if kind == "bf16":
        bits, kind = bits << 16, "f32"
    code, size = {"f64": ("<d", 8), "f32": ("<f", 4), "f16": ("<e", 2)}[kind]
    (value,) = struct.unpack(code, bits.to_bytes(size, "little"))
    return float(value)


def _check(case: Case, program: amdgpu.Program, name: str) -> None:
    s = case.shape
    count_a, count_b, count_c = s.counts()
    rng = random.Random(s.name + case.suffix)
    small = s.c in ("bf16", "f16")  # sums stay exact
    values: dict[str, dict[tuple[int, int], int]] = {"a": {}, "b": {}, "c": {}}
    data = [[0] * WORDS for _ in range(s.lanes)]
    step = 32 if s.family == "gfx11" and BITS[s.c] == 16 else BITS[s.c]
    duplicate = s.family == "gfx11"
    for lane in range(s.lanes):
        data[lane][-1] = rng.getrandbits(32)
        for operand, kind, count, first, sign in (
            ("a", s.a, count_a, 0, case.signs[0]), ("b", s.b, count_b, 8, case.signs[1])
        ):  # fmt: skip
            for e in range(count):
                if "i" in kind:
                    bits = rng.getrandbits(BITS[kind])
                    value = decoded(bits, kind, sign)
                else:
                    value = rng.randint(-2, 2) if small else rng.randint(-4, 4)
                    bits = encode(value, kind, fnuz=s.family == "gfx942")
                if duplicate and lane >= 16:
                    value, bits = (
                        values[operand][lane - 16, e],
                        _get(data[lane - 16], first, e * BITS[kind], BITS[kind]),
                    )
                values[operand][lane, e] = value
                _put(data[lane], first, e * BITS[kind], BITS[kind], bits)
        for e in range(count_c):
            values["c"][lane, e] = value = rng.randint(-8, 8)
            bits = value & 0xFFFFFFFF if s.c == "i32" else encode(value, s.c, False)
            _put(data[lane], 16, e * step, BITS[s.c], bits)
    negate_a, negate_b, negate_c = case.negate
    reach, start = case.b_lanes
    size, chosen = case.a_blocks
    expected = product(
        s,
        lambda lane, e: negate_a * values["a"][lane, e],
        lambda lane, e: negate_b * values["b"][start + lane % reach, e],
        lambda lane, e: negate_c * values["c"][lane, e],
        (lambda lane, e: data[lane][-1] >> case.index_shift + 2 * e & 3) if s.sparse else None,
        lambda block: (block >> size << size) + chosen,
    )
    result = np.zeros((s.lanes, WORDS), np.uint32)
    program.launch(name, 1, s.lanes, [np.array(data, np.uint32), result, 0])
    out = result.tolist()
    for (lane, e), value in expected.items():
        got = _result(_get(out[lane], 16, e * step, BITS[s.c]), s.c)
        if s.c == "i32":
            value = (value + (1 << 31)) % (1 << 32) - (1 << 31)
        assert got == value, f"{instruction(case)}: lane {lane}, element {e}"


@pytest.mark.parametrize(("target", "lanes"), WAVES)
def test_matrix_instructions(target: str, lanes: int) -> None:
    chosen = cases(target, lanes)
    program = _program([_body(case, target) for case in chosen], target, lanes)
    for number, case in enumerate(chosen):
        _check(case, program, f"k{number}")


def test_products_that_leave_lanes_empty_are_refused() -> None:
    shapes = [parse(name, "gfx12", 64) for name in PARTLY_FILLED]
    texts = [f"{s.name} v[32:35], v4, v12, {'v20' if s.sparse else 'v[32:35]'}" for s in shapes if s is not None]
    assert len(texts) == 2
    program = _program([f"{text}\ns_endpgm" for text in texts], "gfx1200", 64)
    for number, text in enumerate(texts):
        with pytest.raises(UnsupportedInstruction, match=f"fills only some lanes of a wave64.*{text.split()[0]}"):
            program.launch(f"k{number}", 1, 64, [None, None, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("v_mfma_f32_16x16x8_xf32 a[0:3], v[4:5], v[12:13], a[0:3]", "ten fraction bits"),
        ("v_mfma_f32_4x4x1_16b_f32 a[0:3], v4, v12, a[0:3] blgp:3", "direction is not documented"),
        ("v_mfma_f32_16x16x1_4b_f32 a[0:15], v4, v12, a[0:15] cbsz:3", "a broadcast of more blocks"),
    ],
)
def test_refused(text: str, message: str) -> None:
    number = next(k for k, c in enumerate(cases("gfx942")) if c.shape.name == text.split()[0])
    case = cases("gfx942")[number]
    body = _body(case, "gfx942").replace(instruction(case), text)
    program = amdgpu.load(kernels_object([kernel_text(body, "gfx942", buffers=2)], "gfx942"))
    data = np.full((64, WORDS), 0x3F800001, np.uint32)
    said = encoding(text, "gfx942").hex(" ")
    with pytest.raises(
        UnsupportedInstruction, match=f"unsupported: .*{message}.*its bytes are {said} .*{text.split()[0]}"
    ):
        program.launch("k", 1, 64, [data, np.zeros_like(data), 0])
