"""Single instructions on random and edge operands, against the scalar model in `amdgpu_model`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc
from amdgpu_f8_model import f8_suite, stochastic_suite
from amdgpu_model import COMMON, F32, GFX11, GFX942, M32, M64, Model, classify, signed

from loom_sim import amdgpu

pytestmark = needs_llvm_mc

EDGES = [
    0x00000000, 0x00000001, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000,
    0x7FC00000, 0x7F800001, 0xFFC12345, 0x00800000, 0x007FFFFF, 0x80000001, 0x7F7FFFFF, 0x3F000000, 0x40200000,
    0x3FC00000, 0x4B000001, 0xCF000000, 0x4F7FFFFF, 0x00003C00, 0x00FFFFFF, 0x0000001F, 0x00000020, 0x55555555,
]  # fmt: skip
LANES = 512


@cache
def _operands() -> tuple[np.ndarray[Any, Any], ...]:
    rng = np.random.default_rng(99)
    result = []
    for k in range(3):
        words = rng.integers(0, M32, 2 * LANES, dtype=np.uint32, endpoint=True)
        # Floats of similar size, so that sums cancel and round.
        words[1:LANES:2] = (words[1:LANES:2] & 0x807FFFFF) | (rng.integers(120, 136, LANES // 2) << 23).astype("u4")
        words[1:LANES:4] = (words[1:LANES:4] & 0x800FFFFF) | (rng.integers(1000, 1040, LANES // 4) << 20).astype("u4")
        values = words.view(np.uint64).copy()
        n = len(EDGES)
        pairs = [(EDGES[i % n], EDGES[(i // n + k * i) % n]) for i in range(LANES // 2)]
        values[LANES // 2 :] = [high << 32 | low for high, low in pairs]
        if k:
            values = np.roll(values, 37 * k)
        # Half of the edge lanes pair every edge with every other one in the low word too.
        low = np.array([EDGES[(i // n if k == 1 else i + 5 * (k == 2)) % n] for i in range(LANES // 4)], np.uint64)
        values[: LANES // 4] = values[: LANES // 4] & np.uint64(0xFFFFFFFF << 32) | low
        result.append(values)
    return tuple(result)


def body(instruction: str, target: str) -> str:
    old = target == "gfx942"
    names = {
        "load8": "s_load_dwordx8" if old else "s_load_b256",
        "load": "global_load_dwordx2" if old else "global_load_b64",
        "store": "global_store_dwordx2" if old else "global_store_b64",
        "kernargs": "s_wait_kmcnt 0x0" if target == "gfx1200" else "s_waitcnt lgkmcnt(0)",
        "loads": "s_wait_loadcnt 0x0" if target == "gfx1200" else "s_waitcnt vmcnt(0)",
        "group": "ttmp9" if target == "gfx1200" else "s2",
    }
    return """
      {load8} s[4:11], s[0:1], 0x0
      v_lshlrev_b32_e32 v1, 3, v0
      v_mov_b32_e32 v8, 0xdeadbeef
      v_mov_b32_e32 v9, 0xdeadbeef
      {kernargs}
      {load} v[2:3], v1, s[4:5]
      {load} v[4:5], v1, s[6:7]
      {load} v[6:7], v1, s[8:9]
      {loads}
      INSTRUCTION
      {store} v1, v[8:9], s[10:11]
      s_endpgm
    """.format(**names).replace("INSTRUCTION", instruction)


def _register(first: int, bits: int) -> str:
    return f"v[{first}:{first + 1}]" if bits == 64 else f"v{first}"


def _suite(target: str) -> dict[str, tuple[str, Model]]:
    table = {**COMMON, **(GFX942 if target == "gfx942" else GFX11)}
    renamed = {"v_max_f32": "v_max_num_f32", "v_min_f32": "v_min_num_f32", "v_max_f64": "v_max_num_f64",
               "v_min_f64": "v_min_num_f64"}  # fmt: skip
    suite: dict[str, tuple[str, Model]] = {}
    for name, model in table.items():
        sources, result, _ = model
        mnemonic = name
        if target == "gfx1200":
            if name in renamed:
                continue  # gfx12 has no IEEE mode bit; signalling NaNs are not compared there
            mnemonic = renamed.get(name, name)
        operands = [_register(8, result), *(_register(2 + 2 * k, bits) for k, bits in enumerate(sources))]
        suite[name] = (f"{mnemonic} {', '.join(operands)}", model)
    mask = "s[14:15]" if target == "gfx942" else "s14"
    vcc = "vcc" if target == "gfx942" else "vcc_lo"

    def flag(name: str, text: str, sources: tuple[int, ...], function: Any) -> None:
        """A lane mask result, shown as 0 or 1 in the low word."""
        suite[name] = (f"{text}\ns_nop 1\nv_cndmask_b32_e64 v8, 0, 1, {mask}", (sources, 32, function))

    compare = f"v_cmp_{{}}_e64 {mask}, v2, v4"
    wide = f"v_cmp_{{}}_e64 {mask}, v[2:3], v[4:5]"
    flag("cmp_lt_i32", compare.format("lt_i32"), (32, 32), lambda a, b: int(signed(a) < signed(b)))
    flag("cmp_ge_u32", compare.format("ge_u32"), (32, 32), lambda a, b: int(a >= b))
    flag("cmp_gt_i64", wide.format("gt_i64"), (64, 64), lambda a, b: int(signed(a, 64) > signed(b, 64)))
    flag("cmp_ne_u64", wide.format("ne_u64"), (64, 64), lambda a, b: int(a != b))

    def ordered(test: Any) -> Any:
        def compare_floats(a: int, b: int) -> int:
            if F32.is_nan(a) or F32.is_nan(b):
                return int(test(None, None))
            limit = {F32.inf: 1 << 200, F32.inf | F32.sign: -(1 << 200)}
            return int(test(limit.get(a, F32.value(a)), limit.get(b, F32.value(b))))

        return compare_floats

    flag("cmp_lt_f32", compare.format("lt_f32"), (32, 32), ordered(lambda a, b: a is not None and a < b))
    flag("cmp_nlt_f32", compare.format("nlt_f32"), (32, 32), ordered(lambda a, b: a is None or not a < b))
    flag("cmp_eq_f32", compare.format("eq_f32"), (32, 32), ordered(lambda a, b: a is not None and a == b))
    flag("cmp_neq_f32", compare.format("neq_f32"), (32, 32), ordered(lambda a, b: a is None or a != b))
    flag("cmp_lg_f32", compare.format("lg_f32"), (32, 32), ordered(lambda a, b: a is not None and a != b))
    flag("cmp_u_f32", compare.format("u_f32"), (32, 32), ordered(lambda a, b: a is None))
    flag("cmp_class_f32", compare.format("class_f32"), (32, 32), lambda a, b: classify(F32, a, b))
    add = "v_add_co_u32" if target != "gfx942" else "v_add_co_u32_e64"
    flag("add_carry", f"{add} v8, {mask}, v2, v4", (32, 32), lambda a, b: int(a + b > M32))
    sub = "v_sub_co_u32" if target != "gfx942" else "v_sub_co_u32_e64"
    flag("sub_borrow", f"{sub} v8, {mask}, v2, v4", (32, 32), lambda a, b: int(a < b))
    ci = "v_add_co_ci_u32_e64" if target != "gfx942" else "v_addc_co_u32_e64"
    carry_in = f"v_cmp_gt_i32_e64 {mask}, 0, v6\ns_nop 1\n{ci} v8, {mask}, v2, v4, {mask}"
    suite["add_with_carry"] = (carry_in, ((32, 32, 32), 32, lambda a, b, c: a + b + (c >> 31)))
    flag("carry_of_carry", carry_in, (32, 32, 32), lambda a, b, c: int(a + b + (c >> 31) > M32))
    mad = "v_mad_co_u64_u32" if target == "gfx1200" else "v_mad_u64_u32"
    suite["mad_u64"] = (f"{mad} v[8:9], {vcc}, v2, v4, v[6:7]", ((32, 32, 64), 64, lambda a, b, c: a * b + c))
    mad = mad.replace("u64_u32", "i64_i32")
    suite["mad_i64"] = (
        f"{mad} v[8:9], {vcc}, v2, v4, v[6:7]", ((32, 32, 64), 64, lambda a, b, c: signed(a) * signed(b) + c),
    )  # fmt: skip
    one = 0x3F800000

    def clamped(x: int) -> int:
        if F32.is_nan(x) or x & F32.sign:
            return 0
        return min(x, one)

    suite["neg_abs"] = (
        "v_fma_f32 v8, -v2, |v4|, -|v6|",
        ((32, 32, 32), 32, lambda a, b, c: F32.fma(a ^ F32.sign, b & ~F32.sign, c | F32.sign)),
    )
    suite["clamp_float"] = ("v_add_f32_e64 v8, v2, v4 clamp", ((32, 32), 32, lambda a, b: clamped(F32.add(a, b))))
    suite["fmac"] = (
        "v_mov_b32_e32 v8, v6\nv_fmac_f32_e32 v8, v2, v4", ((32, 32, 32), 32, lambda a, b, c: F32.fma(a, b, c)),
    )  # fmt: skip
    name = "v_add_u32_e64" if target == "gfx942" else "v_add_nc_u32_e64"
    suite["saturating_add"] = (f"{name} v8, v2, v4 clamp", ((32, 32), 32, lambda a, b: min(a + b, M32)))
    suite["literal"] = ("v_add_f32_e32 v8, 0x40490fdb, v2", ((32,), 32, lambda a: F32.add(0x40490FDB, a)))
    suite["inline"] = ("v_mul_f32_e32 v8, -4.0, v2", ((32,), 32, lambda a: F32.mul(0xC0800000, a)))
    suite["inline_integer"] = ("v_xor_b32_e32 v8, -7, v2", ((32,), 32, lambda a: a ^ -7 & M32))
    suite["inline_double"] = ("v_mul_f64 v[8:9], 0.5, v[2:3]", ((64,), 64, _half_of))
    if target != "gfx942":
        suite["dual"] = (
            "v_mov_b32_e32 v9, v3\nv_mov_b32_e32 v8, v2\n"
            "v_dual_add_f32 v8, v2, v9 :: v_dual_mov_b32 v9, v8\nv_mov_b32_e32 v9, v9",
            ((64,), 64, lambda a: F32.add(a & M32, a >> 32) | (a & M32) << 32),
        )
        # 16-bit results keep the upper half.
        suite["keep_high"] = (
            "v_mov_b32_e32 v8, v4\nv_add_nc_u16 v8, v2, v6",
            ((32, 32, 32), 32, lambda a, b, c: b & 0xFFFF0000 | (a + c) & 0xFFFF),
        )
        if target == "gfx1200":
            suite.update(f8_suite(fnuz=False, select=" byte_sel:{}", word=" op_sel:[{},0]", suffix="_e64"))
            suite.update(stochastic_suite())
        suite["op_sel"] = (
            "v_mov_b32_e32 v8, v4\nv_add_nc_u16 v8, v2, v6 op_sel:[1,0,1]",
            ((32, 32, 32), 32, lambda a, b, c: b & 0xFFFF | ((a >> 16) + c & 0xFFFF) << 16),
        )
    else:
        suite["sdwa"] = (
            "v_mov_b32_e32 v8, v6\nv_add_u32_sdwa v8, v2, v4 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE "
            "src0_sel:BYTE_3 src1_sel:WORD_1",
            ((32, 32, 32), 32, lambda a, b, c: c & 0xFFFF00FF | ((a >> 24) + (b >> 16) & 0xFF) << 8),
        )
        suite.update(f8_suite(fnuz=True, select=" src0_sel:BYTE_{}", word=" src0_sel:WORD_{}", suffix="_sdwa"))
        suite["sdwa_signed"] = (
            "v_add_u32_sdwa v8, sext(v2), v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_0 src1_sel:DWORD",
            ((32, 32), 32, lambda a, b: signed(a, 16) + b),
        )
    return suite


def _half_of(a: int) -> int:
    from amdgpu_model import F64

    return F64.mul(0x3FE0000000000000, a)


SUITES = {target: _suite(target) for target in ("gfx1100", "gfx1200", "gfx942")}


@cache
def _program(target: str) -> amdgpu.Program:
    kernels = [
        kernel_text(body(text, target), target, name=f"k{i}", buffers=4)
        for i, (text, _) in enumerate(SUITES[target].values())
    ]
    return amdgpu.load(kernels_object(kernels, target))


@pytest.mark.parametrize(("target", "name"), [(t, n) for t, suite in SUITES.items() for n in suite])
def test_instruction(target: str, name: str) -> None:
    _, (sources, width, function) = SUITES[target][name]
    operands = _operands()
    out = np.zeros(LANES, np.uint64)
    number = list(SUITES[target]).index(name)
    _program(target).launch(f"k{number}", 1, LANES, [*operands, out, 0])
    result_mask = M64 if width == 64 else M32
    wrong = []
    for lane in range(LANES):
        values = [int(operands[k][lane]) & ((1 << bits) - 1) for k, bits in enumerate(sources)]
        expected = function(*values) & result_mask
        actual = int(out[lane]) & result_mask
        if actual != expected:
            wrong.append(f"lane {lane}: {', '.join(map(hex, values))} gives {actual:#x}, expected {expected:#x}")
    assert not wrong, f"{len(wrong)} of {LANES}\n" + "\n".join(wrong[:8])
    if width == 32:
        high = set((out >> np.uint64(32)).tolist())
        assert high == {0xDEADBEEF}, "a register beside the destination changed"
