"""Vector-register instructions: one table, two encodings.

Most SSE instructions overwrite their first operand; their VEX forms of the AVX2 profile name a separate
destination, clear the upper half of the register, and exist for ymm as well. A row here is written once and
expanded to `addps.xmm` (legacy), `vaddps.xmm` and `vaddps.ymm` (VEX). Legacy forms never appear in the AVX2
profile: mixing them with dirty upper halves stalls many processors.
Source of the forms: Intel SDM volume 2 (instruction set reference).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from loom_target_x86.tables.rows import Row
from loom_target_x86.tables.scalar import load_rows, store_rows

# Scalar floating point: only the low element counts, the others are unspecified in the result.
_SCALAR_BINARY = (
    ("add", "commutes", "fadd"), ("sub", "", "fadd"), ("mul", "commutes", "fmul"), ("div", "", "fdiv"),
    ("min", "", "fadd"), ("max", "", "fadd"),
)  # fmt: skip
_PACKED_BINARY = (
    *((name + "ps", traits, schedule) for name, traits, schedule in _SCALAR_BINARY),
    *((name + "pd", traits, schedule) for name, traits, schedule in _SCALAR_BINARY),
    ("andps", "commutes", "vector"), ("andnps", "", "vector"), ("orps", "commutes", "vector"),
    ("xorps", "commutes", "vector"), ("andpd", "commutes", "vector"), ("andnpd", "", "vector"),
    ("orpd", "commutes", "vector"), ("xorpd", "commutes", "vector"),
    ("unpcklps", "", "shuffle"), ("unpckhps", "", "shuffle"), ("unpcklpd", "", "shuffle"),
    ("unpckhpd", "", "shuffle"),
    ("haddps", "", "fadd"), ("haddpd", "", "fadd"),
    ("paddb", "commutes", "vector"), ("paddw", "commutes", "vector"), ("paddd", "commutes", "vector"),
    ("paddq", "commutes", "vector"), ("psubb", "", "vector"), ("psubw", "", "vector"),
    ("psubd", "", "vector"), ("psubq", "", "vector"),
    ("pmullw", "commutes", "vmul"), ("pmulhw", "commutes", "vmul"), ("pmulhuw", "commutes", "vmul"),
    ("pmulld", "commutes", "vmul"), ("pmuludq", "commutes", "vmul"), ("pmuldq", "commutes", "vmul"),
    ("pmaddwd", "commutes", "vmul"), ("pmaddubsw", "", "vmul"),
    ("pand", "commutes", "vector"), ("pandn", "", "vector"), ("por", "commutes", "vector"),
    ("pxor", "commutes", "vector"),
    ("pcmpeqb", "commutes", "vector"), ("pcmpeqw", "commutes", "vector"), ("pcmpeqd", "commutes", "vector"),
    ("pcmpeqq", "commutes", "vector"), ("pcmpgtb", "", "vector"), ("pcmpgtw", "", "vector"),
    ("pcmpgtd", "", "vector"), ("pcmpgtq", "", "vector"),
    ("pminsb", "commutes", "vector"), ("pminsw", "commutes", "vector"), ("pminsd", "commutes", "vector"),
    ("pmaxsb", "commutes", "vector"), ("pmaxsw", "commutes", "vector"), ("pmaxsd", "commutes", "vector"),
    ("pminub", "commutes", "vector"), ("pminuw", "commutes", "vector"), ("pminud", "commutes", "vector"),
    ("pmaxub", "commutes", "vector"), ("pmaxuw", "commutes", "vector"), ("pmaxud", "commutes", "vector"),
    ("punpcklbw", "", "shuffle"), ("punpckhbw", "", "shuffle"), ("punpcklwd", "", "shuffle"),
    ("punpckhwd", "", "shuffle"), ("punpckldq", "", "shuffle"), ("punpckhdq", "", "shuffle"),
    ("punpcklqdq", "", "shuffle"), ("punpckhqdq", "", "shuffle"),
    ("packssdw", "", "shuffle"), ("packsswb", "", "shuffle"), ("packusdw", "", "shuffle"),
    ("packuswb", "", "shuffle"), ("pshufb", "", "shuffle"),
)  # fmt: skip
_PACKED_UNARY = (
    ("sqrtps", "fsqrt"), ("sqrtpd", "fsqrt"), ("pabsb", "vector"), ("pabsw", "vector"), ("pabsd", "vector"),
    ("cvtdq2ps", "cvt"), ("cvttps2dq", "cvt"), ("cvtps2dq", "cvt"),
)  # fmt: skip
# Conversions between element sizes: source and result differ in width, so there is no plain ymm form.
_WIDENING_UNARY = (
    ("cvtps2pd", 64), ("cvtdq2pd", 64), ("cvtpd2ps", 128), ("cvttpd2dq", 128),
    ("pmovsxbw", 64), ("pmovsxbd", 32), ("pmovsxwd", 64), ("pmovsxdq", 64),
    ("pmovzxbw", 64), ("pmovzxbd", 32), ("pmovzxwd", 64), ("pmovzxdq", 64),
)  # fmt: skip
_SHIFTS_BY_IMMEDIATE = ("psllw", "pslld", "psllq", "psrlw", "psrld", "psrlq", "psraw", "psrad")
_BYTE_SHIFTS = ("pslldq", "psrldq")
_CONTROLLED_UNARY = (("pshufd", "shuffle"), ("roundps", "round"), ("roundpd", "round"))
_CONTROLLED_BINARY = (
    ("shufps", "shuffle"),
    ("shufpd", "shuffle"),
    ("blendps", "vector"),
    ("pblendw", "vector"),
)

#: The eight comparisons all encodings share, by their immediate (Intel SDM, CMPPS, table 3-1).
COMPARE_PREDICATES = ("eq", "lt", "le", "unord", "neq", "nlt", "nle", "ord")

#: Ordered comparison of scalars: IR predicate -> (operands swapped, condition, code after `ucomis`).
#: `ucomis` sets ZF, PF and CF all to one for unordered operands, hence the choice of operand order.
FLOAT_PREDICATES: dict[str, tuple[bool, str]] = {
    "ogt": (False, "a"), "oge": (False, "ae"), "olt": (True, "a"), "ole": (True, "ae"),
    "ult": (False, "b"), "ule": (False, "be"), "ugt": (True, "b"), "uge": (True, "be"),
    "one": (False, "ne"), "ueq": (False, "e"), "ord": (False, "np"), "uno": (False, "p"),
    "oeq": (False, "e&np"), "une": (False, "ne|p"),
}  # fmt: skip


class _Form(NamedTuple):
    """One of the three expansions: legacy xmm, VEX xmm, VEX ymm."""

    vex: bool
    cls: str

    @property
    def bits(self) -> int:
        return 128 if self.cls == "xmm" else 256

    def name(self, base: str) -> str:
        return f"{'v' if self.vex else ''}{base}.{self.cls}"

    def binary(self, base: str, source: str, suffix: str = "", extra: str = "") -> tuple[str, str]:
        """(result spelling, template) of `dst = base(lhs, rhs)`."""
        if self.vex:
            code = f"vex_v{base}_{self.cls}_{self.cls}_{source}{suffix}"
            return f"dst:{self.cls}", f"{code} dst, lhs, rhs{extra}"
        return f"dst:{self.cls}=lhs", f"{base}_{self.cls}_{source}{suffix} dst, rhs{extra}"

    def packed(self, base: str, suffix: str = "", extra: str = "") -> tuple[str, str]:
        return self.binary(base, f"{self.cls}m{self.bits}", suffix, extra)

    def unary(self, base: str, source: str, suffix: str = "", extra: str = "") -> str:
        """Template of `dst = base(value)`; a scalar VEX form takes its upper elements from `value`."""
        scalar = self.vex and base[-2:] in ("ss", "sd") and not base.startswith(("p", "mov"))
        if scalar:
            return f"vex_v{base}_xmm_xmm_{source}{suffix} dst, value, value{extra}"
        return f"{'vex_v' if self.vex else ''}{base}_{self.cls}_{source}{suffix} dst, value{extra}"


LEGACY = _Form(False, "xmm")
VEX = _Form(True, "xmm")
VEX_WIDE = _Form(True, "ymm")


def _packed(form: _Form) -> Iterator[Row]:
    c = form.cls
    operands = f"lhs:{c}, rhs:{c}"
    for base, traits, schedule in _PACKED_BINARY:
        result, template = form.packed(base)
        yield Row(form.name(base), f"{result} <- {operands}", template, traits, schedule)
    for base, schedule in _PACKED_UNARY:
        template = form.unary(base, f"{c}m{form.bits}")
        yield Row(form.name(base), f"dst:{c} <- value:{c}", template, "", schedule)
    for base in _SHIFTS_BY_IMMEDIATE + _BYTE_SHIFTS:
        if form.vex:
            result, template = f"dst:{c}", f"vex_v{base}_{c}_{c}_imm8 dst, lhs, #shift"
        else:
            result, template = f"dst:{c}=lhs", f"{base}_{c}_imm8 dst, #shift"
        yield Row(form.name(base + ".imm"), f"{result} <- lhs:{c} ; shift64", template, "", "vector")
    for base, schedule in _CONTROLLED_UNARY:
        code = f"{'vex_v' if form.vex else ''}{base}_{c}_{c}m{form.bits}_imm8"
        yield Row(
            form.name(base), f"dst:{c} <- source:{c} ; control", f"{code} dst, source, #control", "", schedule
        )
    for base, schedule in _CONTROLLED_BINARY:
        result, template = form.packed(base, "_imm8", ", #control")
        yield Row(form.name(base), f"{result} <- {operands} ; control", template, "", schedule)
    for suffix in ("ps", "pd"):
        for number, predicate in enumerate(COMPARE_PREDICATES):
            result, template = form.packed(f"cmp{suffix}", "_imm8", f", #{number}")
            yield Row(form.name(f"cmp{suffix}.{predicate}"), f"{result} <- {operands}", template, "", "fadd")
        yield Row(
            form.name(f"movmsk{suffix}"), f"dst:gpr32 <- value:{c}",
            f"{'vex_v' if form.vex else ''}movmsk{suffix}_r32_{c} dst, value", "", "cvt",
        )  # fmt: skip
    yield Row(
        form.name("pmovmskb"), f"dst:gpr32 <- value:{c}",
        f"{'vex_v' if form.vex else ''}pmovmskb_r32_{c} dst, value", "", "cvt",
    )  # fmt: skip
    # All zeros and all ones need no memory; both break the dependence on the old value.
    if form.vex:
        zero, ones = (
            f"vex_vpxor_{c}_{c}_{c}m{form.bits} dst, dst, dst",
            f"vex_vpcmpeqd_{c}_{c}_{c}m{form.bits} dst, dst, dst",
        )
    else:
        zero, ones = "pxor_xmm_xmmm128 dst, dst", "pcmpeqd_xmm_xmmm128 dst, dst"
    yield Row(form.name("zero"), f"dst:{c} <-", zero, "remat", "vector")
    yield Row(form.name("ones"), f"dst:{c} <-", ones, "remat", "vector")


def _scalar(form: _Form) -> Iterator[Row]:
    operands = "lhs:xmm, rhs:xmm"
    v = "vex_v" if form.vex else ""
    for suffix, bits in (("ss", 32), ("sd", 64)):
        source = f"xmmm{bits}"
        for base, traits, schedule in _SCALAR_BINARY:
            result, template = form.binary(base + suffix, source)
            yield Row(form.name(base + suffix), f"{result} <- {operands}", template, traits, schedule)
        yield Row(
            form.name(f"sqrt{suffix}"),
            "dst:xmm <- value:xmm",
            form.unary(f"sqrt{suffix}", source),
            "",
            "fsqrt",
        )
        yield Row(
            form.name(f"round{suffix}"), "dst:xmm <- value:xmm ; control",
            form.unary(f"round{suffix}", source, "_imm8", ", #control"), "", "round",
        )  # fmt: skip
        for number, predicate in enumerate(COMPARE_PREDICATES):
            result, template = form.binary(f"cmp{suffix}", source, "_imm8", f", #{number}")
            yield Row(form.name(f"cmp{suffix}.{predicate}"), f"{result} <- {operands}", template, "", "fadd")
        ucomis = f"{v}ucomi{suffix}_xmm_{source}"
        yield Row(form.name(f"ucomi{suffix}"), f"<- {operands}", f"{ucomis} lhs, rhs", "flags", "fadd")
        yield from _scalar_comparisons(form, suffix, ucomis)
        yield from _scalar_conversions(form, suffix, source)
    yield Row(form.name("cvtss2sd"), "dst:xmm <- value:xmm", form.unary("cvtss2sd", "xmmm32"), "", "cvt")
    yield Row(form.name("cvtsd2ss"), "dst:xmm <- value:xmm", form.unary("cvtsd2ss", "xmmm64"), "", "cvt")


def _scalar_comparisons(form: _Form, suffix: str, ucomis: str) -> Iterator[Row]:
    for predicate, (swapped, condition) in FLOAT_PREDICATES.items():
        flags = f"{ucomis} rhs, lhs" if swapped else f"{ucomis} lhs, rhs"
        if condition == "e&np":
            tail = "sete_rm8 dst.b; jnp @.ordered; mov_r8_imm8 dst.b, #0; .ordered:"
        elif condition == "ne|p":
            tail = "setne_rm8 dst.b; jnp @.ordered; mov_r8_imm8 dst.b, #1; .ordered:"
        else:
            tail = f"set{condition}_rm8 dst.b"
        template = f"{flags}; {tail}; movzx_r32_rm8 dst, dst.b"
        yield Row(
            form.name(f"ucomi{suffix}.{predicate}"), "dst:gpr32 <- lhs:xmm, rhs:xmm", template,
            "flags", "fcompare", flags, condition,
        )  # fmt: skip


def _scalar_conversions(form: _Form, suffix: str, source: str) -> Iterator[Row]:
    v, prefix = ("vex_v", "v") if form.vex else ("", "")
    for r in (32, 64):
        # The conversion keeps the upper elements of its destination; clearing them first breaks the
        # dependence on whatever the register held.
        if form.vex:
            template = (
                f"vex_vxorps_xmm_xmm_xmmm128 dst, dst, dst; vex_vcvtsi2{suffix}_xmm_xmm_rm{r} dst, dst, value"
            )
        else:
            template = f"xorps_xmm_xmmm128 dst, dst; cvtsi2{suffix}_xmm_rm{r} dst, value"
        yield Row(f"{prefix}cvtsi2{suffix}.xmm.gpr{r}", f"dst:xmm <- value:gpr{r}", template, "", "cvt")
        for name in ("cvtt", "cvt"):
            yield Row(
                f"{prefix}{name}{suffix}2si.gpr{r}.xmm", f"dst:gpr{r} <- value:xmm",
                f"{v}{name}{suffix}2si_r{r}_{source} dst, value", "", "cvt",
            )  # fmt: skip


def _elements(form: _Form) -> Iterator[Row]:
    v, prefix = ("vex_v", "v") if form.vex else ("", "")
    for base, bits in _WIDENING_UNARY:
        schedule = "cvt" if base.startswith("cvt") else "shuffle"
        template = form.unary(base, f"xmmm{bits}")
        yield Row(form.name(base), "dst:xmm <- value:xmm", template, "", schedule)
    for r, letter in ((32, "d"), (64, "q")):
        yield Row(
            f"{prefix}mov{letter}.xmm.gpr{r}", f"dst:xmm <- value:gpr{r}",
            f"{v}mov{letter}_xmm_rm{r} dst, value", "", "cvt",
        )  # fmt: skip
        yield Row(
            f"{prefix}mov{letter}.gpr{r}.xmm", f"dst:gpr{r} <- value:xmm",
            f"{v}mov{letter}_rm{r}_xmm dst, value", "", "cvt",
        )  # fmt: skip
        yield Row(
            form.name(f"pextr{letter}"), f"dst:gpr{r} <- source:xmm ; lane",
            f"{v}pextr{letter}_rm{r}_xmm_imm8 dst, source, #lane", "", "cvt",
        )  # fmt: skip
        yield from _insert(form, letter, f"gpr{r}", f"rm{r}")
    for letter, width in (("b", 8), ("w", 16)):
        yield Row(
            form.name(f"pextr{letter}"), "dst:gpr32 <- source:xmm ; lane",
            f"{v}pextr{letter}_r32m{width}_xmm_imm8 dst, source, #lane", "", "cvt",
        )  # fmt: skip
        yield from _insert(form, letter, "gpr32", f"r32m{width}")
    result = "dst:xmm" if form.vex else "dst:xmm=dest"
    code = (
        "vex_vinsertps_xmm_xmm_xmmm32_imm8 dst, dest, value"
        if form.vex
        else "insertps_xmm_xmmm32_imm8 dst, value"
    )
    yield Row(
        form.name("insertps"),
        f"{result} <- dest:xmm, value:xmm ; control",
        f"{code}, #control",
        "",
        "shuffle",
    )
    for base in ("movlhps", "movhlps"):
        if form.vex:
            yield Row(
                form.name(base),
                "dst:xmm <- lhs:xmm, rhs:xmm",
                f"vex_v{base}_xmm_xmm_xmm dst, lhs, rhs",
                "",
                "shuffle",
            )
        else:
            yield Row(
                form.name(base), "dst:xmm=lhs <- lhs:xmm, rhs:xmm", f"{base}_xmm_xmm dst, rhs", "", "shuffle"
            )
    # The routine takes and returns fixed registers and keeps every other register (see `remainder`).
    yield Row(
        form.name("fmod64.soft"), "dst:xmm0=lhs <- lhs:xmm0, rhs:xmm1", "call @loom_x86_fmod64", "flags", "call"
    )
    # A short forward branch instead of a mask: it works for scalars and vectors of any element type.
    move = "vex_vmovaps_xmm_xmmm128" if form.vex else "movaps_xmm_xmmm128"
    yield Row(
        form.name("select"),
        "dst:xmm=on_false <- condition:gpr32, on_true:xmm, on_false:xmm",
        f"test_rm32_r32 condition, condition; je @.keep; {move} dst, on_true; .keep:",
        "flags",
        "select",
        on_flags=f"j{{ncc}} @.keep; {move} dst, on_true; .keep:",
    )


def _insert(form: _Form, letter: str, register_class: str, source: str) -> Iterator[Row]:
    result = "dst:xmm" if form.vex else "dst:xmm=dest"
    if form.vex:
        template = f"vex_vpinsr{letter}_xmm_xmm_{source}_imm8 dst, dest, value, #lane"
    else:
        template = f"pinsr{letter}_xmm_{source}_imm8 dst, value, #lane"
    yield Row(
        form.name(f"pinsr{letter}"),
        f"{result} <- dest:xmm, value:{register_class} ; lane",
        template,
        "",
        "shuffle",
    )


def _memory(form: _Form) -> Iterator[Row]:
    v, prefix = ("vex_v", "v") if form.vex else ("", "")
    # Scalar loads clear the rest of the register.
    yield from load_rows(f"{prefix}movss", f"{v}movss_xmm_{'m32' if form.vex else 'xmmm32'}", "xmm")
    yield from load_rows(f"{prefix}movsd", f"{v}movsd_xmm_{'m64' if form.vex else 'xmmm64'}", "xmm")
    yield from store_rows(f"{prefix}movss", f"{v}movss_{'m32' if form.vex else 'xmmm32'}_xmm", "xmm")
    yield from store_rows(f"{prefix}movsd", f"{v}movsd_{'m64' if form.vex else 'xmmm64'}_xmm", "xmm")
    # The language calls the unaligned VEX moves by one name for all vector profiles.
    name = "vmovdqu32" if form.vex else "movups"
    code = "vex_vmovdqu" if form.vex else "movups"
    yield from load_rows(name, f"{code}_xmm_xmmm128", "xmm")
    yield from store_rows(name, f"{code}_xmmm128_xmm", "xmm")
    move = "vex_vmovaps_xmm_xmmm128" if form.vex else "movaps_xmm_xmmm128"
    yield Row(form.name("movaps"), "dst:xmm <- src:xmm", f"{move} dst, src", "", "move")
    scalars = (("movss", f"{v}movss_xmm_{'m32' if form.vex else 'xmmm32'}"),
               ("movsd", f"{v}movsd_xmm_{'m64' if form.vex else 'xmmm64'}"))  # fmt: skip
    for base, load in scalars:
        yield Row(
            f"{prefix}{base}.constant.xmm", "dst:xmm <- ; symbol", f"{load} dst, [=symbol]", "constant remat", "load"
        )
    # The stack frame, like `frame.load.gpr64`: eight bytes of it, or sixteen.
    for suffix, load, store in (
        ("64", scalars[1][1], f"{v}movsd_{'m64' if form.vex else 'xmmm64'}_xmm"),
        ("128", f"{code}_xmm_xmmm128", f"{code}_xmmm128_xmm"),
    ):
        yield Row(
            f"{prefix}frame.load{suffix}.xmm", "dst:xmm <- ; disp32", f"{load} dst, [%rsp + disp32]",
            "constant remat", "load",
        )  # fmt: skip
        yield Row(
            f"{prefix}frame.store{suffix}.xmm", "<- value:xmm ; disp32", f"{store} [%rsp + disp32], value",
            "store", "store",
        )  # fmt: skip


def sse_rows() -> Iterator[Row]:
    """Vector rows of the `x86.simd128` contract: legacy encodings up to SSE4.2 only."""
    for maker in (_packed, _scalar, _elements, _memory):
        yield from maker(LEGACY)
    # The routine takes and returns fixed registers and keeps every other register (see `fma`).
    yield Row(
        "fma64.soft.xmm",
        "dst:xmm0=lhs <- lhs:xmm0, rhs:xmm1, addend:xmm2",
        "call @loom_x86_fma64",
        "flags",
        "call",
    )


def avx2_rows() -> Iterator[Row]:
    """Vector rows of the `x86.avx2` contract: VEX encodings of AVX, AVX2, FMA and F16C."""
    for maker in (_packed, _scalar, _elements, _memory):
        yield from maker(VEX)
    yield from _packed(VEX_WIDE)
    yield from load_rows("vmovdqu32", "vex_vmovdqu_ymm_ymmm256", "ymm")
    yield from store_rows("vmovdqu32", "vex_vmovdqu_ymmm256_ymm", "ymm")
    yield Row("vmovaps.ymm", "dst:ymm <- src:ymm", "vex_vmovaps_ymm_ymmm256 dst, src", "", "move")
    for suffix in ("ss", "sd"):
        yield from _fused(suffix, "xmm", 32 if suffix == "ss" else 64)
    for suffix in ("ps", "pd"):
        yield from _fused(suffix, "xmm", 128)
        yield from _fused(suffix, "ymm", 256)
    yield from _broadcasts()
    for base in ("psllvd", "psravd", "psrlvd", "psllvq", "psrlvq"):
        for form in (VEX, VEX_WIDE):
            _result, template = form.packed(base)
            yield Row(
                form.name(base), f"dst:{form.cls} <- lhs:{form.cls}, rhs:{form.cls}", template, "", "vector"
            )
    for cls, bits in (("xmm", 128), ("ymm", 256)):
        yield Row(
            f"vpermilps.{cls}", f"dst:{cls} <- source:{cls} ; control",
            f"vex_vpermilps_{cls}_{cls}m{bits}_imm8 dst, source, #control", "", "shuffle",
        )  # fmt: skip
    yield Row(
        "vextractf128.xmm", "dst:xmm <- source:ymm ; lane",
        "vex_vextractf128_xmmm128_ymm_imm8 dst, source, #lane", "", "shuffle",
    )  # fmt: skip
    yield Row(
        "vinsertf128.ymm", "dst:ymm <- dest:ymm, value:xmm ; lane",
        "vex_vinsertf128_ymm_ymm_xmmm128_imm8 dst, dest, value, #lane", "", "shuffle",
    )  # fmt: skip
    yield Row(
        "vcvtph2ps.xmm", "dst:xmm <- value:xmm", "vex_vcvtph2ps_xmm_xmmm64 dst, value", "cpu:f16c", "cvt"
    )
    yield Row(
        "vcvtps2ph.xmm", "dst:xmm <- value:xmm ; control",
        "vex_vcvtps2ph_xmmm64_xmm_imm8 dst, value, #control", "cpu:f16c", "cvt",
    )  # fmt: skip


def _fused(suffix: str, cls: str, bits: int) -> Iterator[Row]:
    for name in ("vfmadd231", "vfmsub231", "vfnmadd231", "vfnmsub231"):
        yield Row(
            f"{name}{suffix}.{cls}", f"dst:{cls}=acc <- acc:{cls}, lhs:{cls}, rhs:{cls}",
            f"vex_{name}{suffix}_{cls}_{cls}_{cls}m{bits} dst, lhs, rhs", "commutes cpu:fma", "fma",
        )  # fmt: skip


def _broadcasts() -> Iterator[Row]:
    for cls in ("xmm", "ymm"):
        yield Row(
            f"vpbroadcastd.{cls}", f"dst:{cls} <- value:gpr32",
            f"vex_vmovd_xmm_rm32 dst.x, value; vex_vpbroadcastd_{cls}_xmmm32 dst, dst.x", "", "shuffle",
        )  # fmt: skip
        yield Row(
            f"vpbroadcastq.{cls}", f"dst:{cls} <- value:gpr64",
            f"vex_vmovq_xmm_rm64 dst.x, value; vex_vpbroadcastq_{cls}_xmmm64 dst, dst.x", "", "shuffle",
        )  # fmt: skip
        yield Row(
            f"vbroadcastss.{cls}", f"dst:{cls} <- value:xmm",
            f"vex_vbroadcastss_{cls}_xmm dst, value", "", "shuffle",
        )  # fmt: skip
    yield Row(
        "vbroadcastsd.ymm", "dst:ymm <- value:xmm", "vex_vbroadcastsd_ymm_xmm dst, value", "", "shuffle"
    )
