"""Fragments and matrix products agree with the reference evaluator, for every tile of every processor family.

Operands are small whole numbers, so that products and sums are exact in any order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import agree, compile_text, run_both

from loom.facts.fragments import TILES, Tile
from loom.ir.diagnostics import LoomError
from loom_target_amdgpu.profiles import profile
from loom_target_amdgpu.select.matrix import mnemonic_of

PROCESSORS = ("gfx1100", "gfx1151", "gfx1200", "gfx942", "gfx950")
BY_NAME = {tile.name: tile for tile in TILES}
CASES = [(processor, name) for processor in PROCESSORS for name in profile(processor).tiles]
RNG = np.random.default_rng(21)
Array = np.ndarray[Any, Any]


def stored(values: Array, format: str) -> Array:
    """Small whole numbers in a format of the language."""
    if format == "bf16":
        return (values.astype("f4").view("u4") >> 16).astype("u2")
    if format in ("f8E4M3", "f8E5M2"):
        halves = values.astype("f2").view("u2")
        if format == "f8E5M2":
            return (halves >> 8).astype("u1")
        # Sign, 4 bits of exponent with bias 7 instead of 5 with bias 15, 3 bits of fraction.
        exponent = (halves >> 10 & 31).astype(int) - 8
        pattern = (halves >> 8 & 0x80) | exponent << 3 | (halves >> 7 & 7)
        return np.where(values == 0, 0, pattern).astype("u1")
    return values.astype({"f16": "f2", "f32": "f4", "i8": "i1", "i32": "i4"}[format])


def product(tile: Tile, steps: int = 3, extra: str = "", column_major: bool = True, rows: str = "") -> str:
    """D = C + A * B with k in ``steps`` tiles, one wave."""
    m, n, k = tile.m, tile.n, tile.k
    depth = k * steps
    a, b, c = tile.lhs_format, tile.rhs_format, tile.acc_format
    layout = ", %columns" if column_major else ""
    dims = rows or f"{depth}x{n}"
    return f"""kernel.def export("k") @k(%n: index) {{
  %unit = index.constant 1 : index
  %lanes = index.constant {tile.wave} : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%lanes, %unit, %unit) : index
}} launch(%count: index, %a: buffer, %b: buffer, %c: buffer) {{
  %at0 = index.constant 0 : offset
  %zero = index.constant 0 : index
  %m = index.constant {m} : index
  %k = index.constant {k} : index
  %depth = index.constant {depth} : index
  %columns = encoding.layout.strided [1, %depth] : encoding<layout>
  %av = buffer.view %a[%at0] : buffer -> view<{m}x{depth}x{a}>
  %bv = buffer.view %b[%at0] : buffer -> view<{dims}x{b}{layout}>
  %cv = buffer.view %c[%at0] : buffer -> view<{m}x{n}x{c}>
  %i = vector.fragment.load<init> %cv[%zero, %zero] shape [%m, %m] : view<{m}x{n}x{c}> -> vector<{tile.acc[1]}x{c}>
  %d = scf.for %p = [%zero to %depth step %k](%t = %i : vector<{tile.acc[1]}x{c}>) -> (vector<{tile.acc[1]}x{c}>) {{
    %l = vector.fragment.load<lhs> %av[%zero, %p] shape [%m, %k]
      : view<{m}x{depth}x{a}> -> vector<{tile.lhs[1]}x{a}>
    %r = vector.fragment.load<rhs> %bv[%p, %zero] shape [%k, %m]
      : view<{dims}x{b}{layout}> -> vector<{tile.rhs[1]}x{b}>
    %next = vector.mma %l, %r, %t : vector<{tile.lhs[1]}x{a}>, vector<{tile.rhs[1]}x{b}>, vector<{tile.acc[1]}x{c}>
    scf.yield %next : vector<{tile.acc[1]}x{c}>
  }}
{extra}  vector.fragment.store<result> %d, %cv[%zero, %zero] shape [%m, %m] : vector<{tile.acc[1]}x{c}>, view<{m}x{n}x{c}>
  kernel.return
}}
"""


def operands(tile: Tile, steps: int = 3, column_major: bool = True) -> tuple[list[Any], Array]:
    depth = tile.k * steps
    a, b = RNG.integers(-7, 8, (tile.m, depth)), RNG.integers(-7, 8, (depth, tile.n))
    c = RNG.integers(-99, 99, (tile.m, tile.n))
    given = b.T.copy() if column_major else b
    arguments = [
        depth,
        stored(a, tile.lhs_format),
        stored(given, tile.rhs_format),
        stored(c, tile.acc_format),
    ]
    return arguments, c + a @ b


@pytest.mark.seed("X04")
@pytest.mark.parametrize(("processor", "name"), CASES)
def test_every_tile(processor: str, name: str) -> None:
    tile = BY_NAME[name]
    arguments, want = operands(tile)
    machine, expected = run_both(product(tile), f"amdgpu:{processor}", [0], arguments)
    assert np.array_equal(expected[3], want)
    assert np.array_equal(machine[3], want)


@pytest.mark.parametrize(("processor", "name"), CASES)
def test_the_instruction_is_in_the_code(processor: str, name: str) -> None:
    """Low text names the instruction once: the loop holds one product and the accumulator stays in place."""
    result = compile_text(product(BY_NAME[name]), f"amdgpu:{processor}")
    assert result.low_text.count(mnemonic_of(BY_NAME[name]) + " ") == 1
    (kernel,) = result.report["entries"]
    assert kernel["allocation"]["spill_count"] == 0


@pytest.mark.parametrize(
    ("processor", "name"),
    [("gfx1100", "rdna3_f16_16x16x16"), ("gfx1200", "rdna4_i8_16x16x16"), ("gfx942", "cdna_bf16_16x16x16")],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_operands_stored_by_rows(processor: str, name: str, dynamic: bool) -> None:
    """Elements of a column are apart in memory, at a distance that may be known at run time only."""
    tile = BY_NAME[name]
    arguments, want = operands(tile, column_major=False)
    arguments[0] = tile.n
    text = product(tile, column_major=False, rows=f"{tile.k * 3}x[%count]" if dynamic else "")
    machine, expected = run_both(text, f"amdgpu:{processor}", [0], arguments)
    assert np.array_equal(expected[3], want)
    assert np.array_equal(machine[3], want)


MIXED = """kernel.def export("k") @k() {{
  %unit = index.constant 1 : index
  %lanes = index.constant {wave} : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%lanes, %unit, %unit) : index
}} launch(%a: buffer, %c: buffer) {{
  %at0 = index.constant 0 : offset
  %zero = index.constant 0 : index
  %m = index.constant 16 : index
  %av = buffer.view %a[%at0] : buffer -> view<16x16xf32>
  %cv = buffer.view %c[%at0] : buffer -> view<16x16xf16>
  %bytes = index.constant 512 : offset
  %room = buffer.alloca<workgroup> align(16) %bytes : buffer
  %shared = buffer.view %room[%at0] : buffer -> view<16x16xf16>
  %l = vector.fragment.load<lhs> %av[%zero, %zero] shape [%m, %m] : view<16x16xf32> -> vector<{length}xf16>
  vector.fragment.store<lhs> %l, %shared[%zero, %zero] shape [%m, %m] : vector<{length}xf16>, view<16x16xf16>
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  %r = vector.fragment.load<rhs> %shared[%zero, %zero] shape [%m, %m] : view<16x16xf16> -> vector<{length}xf16>
  %q = vector.fragment.repack<rhs> %r shape [%m, %m] : vector<{length}xf16> -> vector<{half}x2xf16>
  %half = vector.constant 0.5 : vector<{acc}xf32>
  %i = vector.fragment<init> %half shape [%m, %m] : vector<{acc}xf32>
  %d = vector.mma %l, %q, %i : vector<{length}xf16>, vector<{half}x2xf16>, vector<{acc}xf32>
  %e = vector.addf %d, %half : vector<{acc}xf32>
  %f = vector.fragment<result> %e shape [%m, %m] : vector<{acc}xf32>
  vector.fragment.store<result> %f, %cv[%zero, %zero] shape [%m, %m] : vector<{acc}xf32>, view<16x16xf16>
  kernel.return
}}
"""


@pytest.mark.parametrize(("processor", "length", "acc"), [("gfx1100", 16, 8), ("gfx1200", 8, 8), ("gfx942", 4, 4)])
def test_conversions_storage_and_elements(processor: str, length: int, acc: int) -> None:
    """Formats change on the way, workgroup storage holds fragments, and results are ordinary vectors."""
    wave = profile(processor).wave
    text = MIXED.format(wave=wave, length=length, half=length // 2, acc=acc)
    a = RNG.integers(-5, 6, (16, 16)).astype("f4")
    machine, expected = run_both(text, f"amdgpu:{processor}", [], [a, np.zeros((16, 16), "f2")])
    want = (a @ a + 1).astype("f2")
    assert np.array_equal(expected[1], want)
    assert np.array_equal(machine[1], want)


ALONE = """kernel.def export("k") @k() {{
  %unit = index.constant 1 : index
  %lanes = index.constant 64 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%lanes, %unit, %unit) : index
}} launch(%a: buffer, %c: buffer) {{
  %at0 = index.constant 0 : offset
  %zero = index.constant 0 : index
  %two = index.constant 2 : index
  %three = index.constant 3 : index
  %lane = kernel.workitem.id<x> : index
  %av = buffer.view %a[%at0] : buffer -> view<64x2x3x{operand}>
  %cv = buffer.view %c[%at0] : buffer -> view<64x2x2x{acc}>
  %l = vector.fragment.load<lhs> %av[%lane, 0, 0] shape [%two, %three] : view<64x2x3x{operand}> -> vector<6x{operand}>
  %x = vector.load %av[%lane, 0, 0] : view<64x2x3x{operand}> -> vector<6x{operand}>
  %r = vector.fragment<rhs> %x shape [%three, %two] : vector<6x{operand}>
  %i = vector.fragment.load<init> %cv[%lane, 0, 0] shape [%two, %two] : view<64x2x2x{acc}> -> vector<2x2x{acc}>
  %d = vector.mma %l, %r, %i : vector<6x{operand}>, vector<6x{operand}>, vector<2x2x{acc}>
  vector.fragment.store<result> %d, %cv[%lane, 0, 0] shape [%two, %two] : vector<2x2x{acc}>, view<64x2x2x{acc}>
  kernel.return
}}
"""


@pytest.mark.parametrize("target", ["amdgpu:gfx1100", "amdgpu:gfx942"])
@pytest.mark.parametrize(
    ("operand", "acc"), [("f32", "f32"), ("f16", "f32"), ("f32", "f64"), ("i8", "i32"), ("i32", "i32")]
)
def test_matrices_of_one_invocation(operand: str, acc: str, target: str) -> None:
    """Held by every lane alone, products are multiply-adds in order of k: bits agree for any operands."""
    kinds = {"f16": "f2", "f32": "f4", "f64": "f8", "i8": "i1", "i32": "i4"}
    if operand[0] == "i":
        a = RNG.integers(-128, 128, (64, 2, 3)).astype(kinds[operand])
        c = RNG.integers(-(2**31), 2**31, (64, 2, 2)).astype("i4")
    else:
        a, c = (
            RNG.standard_normal((64, 2, 3)).astype(kinds[operand]),
            RNG.standard_normal((64, 2, 2)).astype(kinds[acc]),
        )
    text = ALONE.format(operand=operand, acc=acc).replace(
        "%x = vector.load %av[%lane, 0, 0] : view<64x2x3x", "%x3 = vector.load %av[%lane, 0, 0] : view<64x2x3x"
    )
    text = text.replace(
        f"-> vector<6x{operand}>\n  %r =",
        f"-> vector<2x3x{operand}>\n  %x = vector.bitcast %x3 : vector<2x3x{operand}> to vector<6x{operand}>\n  %r =",
    )
    agree(text, target, [], [a, c])


def refusal(text: str, target: str) -> Any:
    with pytest.raises(LoomError) as caught:
        compile_text(text, target)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.location is not None
    return diagnostic


def test_what_no_instruction_multiplies_is_refused() -> None:
    text = product(BY_NAME["rdna3_f16_16x16x16"])
    found = refusal(text, "amdgpu:gfx1200")
    assert found.code == "AMDGPU/021"
    assert "no 16x16 fragment 'lhs' is vector<16xf16>" in found.message
    assert "rdna4_f16_16x16x16" in found.hint
    mixed = text.replace("vector.mma %l, %r", "vector.mma %r, %r")
    found = refusal(mixed, "amdgpu:gfx1100")
    assert (found.code, "no fragment of role 'lhs'" in found.message) == ("AMDGPU/021", True)
    unknown = text.replace("shape [%m, %k]", "shape [%m, %count]")
    assert "not known at compile time" in refusal(unknown, "amdgpu:gfx1100").message


def test_saturating_products() -> None:
    """WMMA clamps once per instruction; MFMA cannot."""
    tile = BY_NAME["rdna3_i8_16x16x16"]
    arguments, _ = operands(tile, 1)
    big = 2**31 - 50
    arguments[3] = np.full((16, 16), big, "i4")
    text = product(tile, 1).replace("vector.mma ", "vector.mma<saturate> ")
    machine, _ = run_both(text, "amdgpu:gfx1100", [0], arguments)
    exact = arguments[1].astype(int) @ arguments[2].astype(int).T + big
    assert (exact > 2**31 - 1).any()
    assert np.array_equal(machine[3], np.clip(exact, -(2**31), 2**31 - 1))
    cdna = product(BY_NAME["cdna_i8_16x16x32"], 1).replace("vector.mma ", "vector.mma<saturate> ")
    assert "saturating" in refusal(cdna, "amdgpu:gfx942").message


ACCUMULATORS = """low.kernel.def target<amdgpu.cdna3.core> workgroup_size(64, 1, 1) @k() asm {
  %m0 = live_in<amdgpu.m0> : reg<amdgpu.m0>
  %lane = live_in<amdgpu.workitem_id.x> : reg<amdgpu.vgpr>
  %in = resource<hal_binding> {index = 0, source_type = hal.buffer} : reg<amdgpu.sgpr x2>
  %out = resource<hal_binding> {index = 1, source_type = hal.buffer} : reg<amdgpu.sgpr x2>
  %at = v_lshlrev_b32_src0_inline %lane, 2
  %wide = v_lshlrev_b32_src0_inline %lane, 4
  %a = global_load_dword_saddr %at, %in, %m0
  %b = global_load_dword_saddr %at, %in, %m0 {offset = 256}
  %first = v_mfma_f32_16x16x4_f32_acc_zero %a, %b : reg<amdgpu.agpr x4>
  %second = v_mfma_f32_16x16x4_f32 %a, %b, %first
  %b_kept = copy %b : reg<amdgpu.vgpr> -> reg<amdgpu.agpr>
  %third = v_mfma_f32_16x16x4_f32 %a, %b_kept, %second
  %seen = copy %third : reg<amdgpu.agpr x4> -> reg<amdgpu.vgpr x4>
  global_store_dwordx4_saddr %wide, %seen, %out, %m0
  return
}
"""


def test_accumulation_registers() -> None:
    """Authored code keeps accumulators, and factors, in the accumulation registers."""
    from loom_sim.amdgpu import load

    made = compile_text(ACCUMULATORS, "amdgpu:gfx942")
    code = load(made.primary.data)
    factors = RNG.integers(-9, 9, (2, 64)).astype("f4")
    out = np.zeros((64, 4), "f4")
    (name,) = code.kernels
    code.launch(name, 1, 64, [factors, out])
    # Lane l holds a[l % 16][l // 16] and b[l // 16][l % 16]; register r of it the sum of row 4 (l // 16) + r.
    a, b = factors[0].reshape(4, 16).T, factors[1].reshape(4, 16)
    want = 3 * a @ b
    assert np.array_equal(out, want.reshape(4, 4, 16).transpose(0, 2, 1).reshape(64, 4))
