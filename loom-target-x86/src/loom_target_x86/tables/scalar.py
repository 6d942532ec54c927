"""General-register instructions: every profile has them.

Names and operand orders of the basic ones are the language's (`x86.scalar` contract); the rest follows the
same pattern. `gpr32` and `gpr64` forms come from one pattern each, with R standing for 32 or 64.
Source of the forms: Intel SDM volume 2 (instruction set reference).
"""

from __future__ import annotations

from collections.abc import Iterator

from loom_target_x86.tables.rows import Row

#: IR predicate -> condition code of `cmp lhs, rhs`.
INTEGER_PREDICATES = {
    "eq": "e", "ne": "ne",
    "slt": "l", "sle": "le", "sgt": "g", "sge": "ge",
    "ult": "b", "ule": "be", "ugt": "a", "uge": "ae",
}  # fmt: skip

_SET = "; set{cc}_rm8 dst.b; movzx_r32_rm8 dst, dst.b"


def _arithmetic(r: int) -> Iterator[Row]:
    g = f"gpr{r}"
    two = f"dst:{g}=lhs <- lhs:{g}, rhs:{g}"
    one = f"dst:{g}=value <- value:{g}"
    by_value = f"dst:{g}=lhs <- lhs:{g} ; value"
    for name in ("add", "sub", "and", "or", "xor"):
        commutes = "" if name == "sub" else " commutes"
        yield Row(f"{name}.{g}", two, f"{name}_r{r}_rm{r} dst, rhs", "flags" + commutes)
        yield Row(f"{name}.imm.{g}", by_value, f"{name}_rm{r}_imm dst, #value", "flags")
    for name in ("adc", "sbb"):
        yield Row(f"{name}.{g}", two, f"{name}_r{r}_rm{r} dst, rhs", "flags reads-flags")
    yield Row(f"imul.{g}", two, f"imul_r{r}_rm{r} dst, rhs", "flags commutes", "mul")
    yield Row(
        f"imul.imm.{g}",
        f"dst:{g} <- lhs:{g} ; value",
        f"imul_r{r}_rm{r}_imm dst, lhs, #value",
        "flags",
        "mul",
    )
    yield Row(f"neg.{g}", one, f"neg_rm{r} dst", "flags")
    yield Row(f"not.{g}", one, f"not_rm{r} dst")
    yield Row(f"bswap.{g}", one, f"bswap_r{r} dst")
    # The shortest zero; not rematerialisable, because it changes the flags where a move would not.
    yield Row(f"zero.{g}", f"dst:{g} <-", "xor_r32_rm32 dst.d, dst.d", "flags")


def _shifts(r: int) -> Iterator[Row]:
    g = f"gpr{r}"
    for name in ("shl", "sar", "shr", "rol", "ror"):
        yield Row(
            f"{name}.imm.{g}",
            f"dst:{g}=lhs <- lhs:{g} ; shift{r}",
            f"{name}_rm{r}_imm8 dst, #shift",
            "flags",
            "shift",
        )
        # The count is taken modulo the operand size.
        yield Row(
            f"{name}.{g}", f"dst:{g}=lhs <- lhs:{g}, count:ecx", f"{name}_rm{r}_cl dst, %cl", "flags", "shift"
        )


def _division(r: int) -> Iterator[Row]:
    low, high = ("eax", "edx") if r == 32 else ("rax", "rdx")
    g = f"gpr{r}"
    # The high half is made from the low one inside the packet, so the divisor must not be in rdx.
    shape = f"quotient:{low}=lhs, remainder:{high}& <- lhs:{low}, rhs:{g}"
    yield Row(f"div.{g}", shape, f"xor_r32_rm32 %edx, %edx; div_rm{r} rhs", "flags", "div")
    extend = "cdq" if r == 32 else "cqo"
    yield Row(f"idiv.{g}", shape, f"{extend}; idiv_rm{r} rhs", "flags", "div")
    wide = f"low:{low}=lhs, high:{high} <- lhs:{low}, rhs:{g}"
    yield Row(f"mul.wide.{g}", wide, f"mul_rm{r} rhs", "flags", "mul")
    yield Row(f"imul.wide.{g}", wide, f"imul_rm{r} rhs", "flags", "mul")


def _comparisons(r: int) -> Iterator[Row]:
    g = f"gpr{r}"
    compare, immediate = f"cmp_r{r}_rm{r} lhs, rhs", f"cmp_rm{r}_imm lhs, #value"
    test = f"test_rm{r}_r{r} lhs, rhs"
    for predicate, cc in INTEGER_PREDICATES.items():
        tail = _SET.format(cc=cc)
        two = f"dst:gpr32 <- lhs:{g}, rhs:{g}"
        yield Row(f"cmp.{predicate}.{g}", two, compare + tail, "flags", "compare", compare, cc)
        yield Row(
            f"cmp.{predicate}.imm.{g}", f"dst:gpr32 <- lhs:{g} ; value", immediate + tail,
            "flags", "compare", immediate, cc,
        )  # fmt: skip
    for predicate in ("eq", "ne"):
        cc = INTEGER_PREDICATES[predicate]
        yield Row(
            f"test.{predicate}.{g}", f"dst:gpr32 <- lhs:{g}, rhs:{g}", test + _SET.format(cc=cc),
            "flags commutes", "compare", test, cc,
        )  # fmt: skip
    yield Row(f"cmp.{g}", f"<- lhs:{g}, rhs:{g}", compare, "flags", "compare")
    yield Row(f"cmp.imm.{g}", f"<- lhs:{g} ; value", immediate, "flags", "compare")
    yield Row(f"test.{g}", f"<- lhs:{g}, rhs:{g}", test, "flags commutes", "compare")
    for predicate, cc in INTEGER_PREDICATES.items():
        yield Row(
            f"cmov.{predicate}.{g}",
            f"dst:{g}=on_false <- on_true:{g}, on_false:{g}",
            f"cmov{cc}_r{r}_rm{r} dst, on_true",
            "reads-flags",
        )
    yield Row(
        f"select.{g}",
        f"dst:{g}=on_false <- condition:gpr32, on_true:{g}, on_false:{g}",
        f"test_rm32_r32 condition, condition; cmovne_r{r}_rm{r} dst, on_true",
        "flags",
        "select",
        on_flags=f"cmov{{cc}}_r{r}_rm{r} dst, on_true",
    )


def _bit_counts(r: int) -> Iterator[Row]:
    g = f"gpr{r}"
    # The result of bsf and bsr is undefined for zero (the flag is not), hence the second operand.
    shape = f"dst:{g}& <- value:{g}, otherwise:{g}"
    for name in ("bsf", "bsr"):
        yield Row(
            f"{name}.or.{g}",
            shape,
            f"{name}_r{r}_rm{r} dst, value; cmove_r{r}_rm{r} dst, otherwise",
            "flags",
            "mul",
        )


def _conversions() -> Iterator[Row]:
    yield Row("mov", "dst:gpr64 <- src:gpr64", "mov_r64_rm64 dst, src", "", "move")
    yield Row("mov.gpr32", "dst:gpr32 <- src:gpr32", "mov_r32_rm32 dst, src", "", "move")
    yield Row("mov.gpr32.gpr64", "dst:gpr32 <- src:gpr64", "mov_r32_rm32 dst, src.d", "", "move")
    yield Row("mov.imm32", "dst:gpr32 <- ; imm32", "mov_r32_imm32 dst, #imm32", "remat", "move")
    yield Row("mov.imm64", "dst:gpr64 <- ; imm64", "mov_r64_imm dst, #imm64", "remat", "move")
    yield Row("movsxd.gpr64.gpr32", "dst:gpr64 <- src:gpr32", "movsxd_r64_rm32 dst, src")
    # Writing the 32-bit register clears the upper half.
    yield Row("movzx.gpr64.gpr32", "dst:gpr64 <- src:gpr32", "mov_r32_rm32 dst.d, src")
    for bits, letter in ((8, "b"), (16, "w")):
        yield Row(f"movzx{bits}.gpr32", "dst:gpr32 <- src:gpr32", f"movzx_r32_rm{bits} dst, src.{letter}")
        yield Row(f"movsx{bits}.gpr32", "dst:gpr32 <- src:gpr32", f"movsx_r32_rm{bits} dst, src.{letter}")
        yield Row(f"movsx{bits}.gpr64", "dst:gpr64 <- src:gpr32", f"movsx_r64_rm{bits} dst, src.{letter}")


def _addresses() -> Iterator[Row]:
    yield Row("lea", "dst:gpr64 <- lhs:gpr64, rhs:gpr64", "lea_r64_m dst, [lhs + rhs]", "commutes", "lea")
    yield Row("lea.disp", "dst:gpr64 <- base:gpr64 ; disp32", "lea_r64_m dst, [base + disp32]", "", "lea")
    yield Row(
        "lea.add_scale",
        "dst:gpr64 <- base:gpr64, index:gpr64 ; disp32 scale",
        "lea_r64_m dst, [base + index*scale + disp32]",
        "",
        "lea",
    )
    yield Row(
        "lea.scale",
        "dst:gpr64 <- index:gpr64 ; disp32 scale",
        "lea_r64_m dst, [index*scale + disp32]",
        "",
        "lea",
    )
    yield Row("lea.symbol", "dst:gpr64 <- ; symbol", "lea_r64_m dst, [=symbol]", "remat", "lea")


def _frame() -> Iterator[Row]:
    """The stack frame: displacements count from rsp as it is in the body of the function."""
    yield Row("lea.frame", "dst:gpr64 <- ; disp32", "lea_r64_m dst, [%rsp + disp32]", "remat", "lea")
    yield Row(
        "frame.load.gpr64", "dst:gpr64 <- ; disp32", "mov_r64_rm64 dst, [%rsp + disp32]", "constant remat", "load"
    )
    yield Row("frame.store.gpr64", "<- value:gpr64 ; disp32", "mov_rm64_r64 [%rsp + disp32], value", "store", "store")


def load_rows(prefix: str, code: str, cls: str, traits: str = "", register: str = "dst") -> Iterator[Row]:
    """The three addressing forms of a load: base, indexed, and a symbol's address."""
    words = f"load {traits}".strip()
    yield Row(
        f"{prefix}.load.{cls}", f"dst:{cls} <- base:gpr64 ; disp32",
        f"{code} {register}, [base + disp32]", words, "load",
    )  # fmt: skip
    yield Row(
        f"{prefix}.load.indexed.{cls}", f"dst:{cls} <- base:gpr64, index:gpr64 ; disp32 scale",
        f"{code} {register}, [base + index*scale + disp32]", words, "load",
    )  # fmt: skip
    yield Row(
        f"{prefix}.load.symbol.{cls}", f"dst:{cls} <- ; symbol",
        f"{code} {register}, [=symbol]", words, "load",
    )  # fmt: skip


def store_rows(prefix: str, code: str, cls: str, traits: str = "", register: str = "value") -> Iterator[Row]:
    """The two addressing forms of a store."""
    words = f"store {traits}".strip()
    yield Row(
        f"{prefix}.store.{cls}", f"<- value:{cls}, base:gpr64 ; disp32",
        f"{code} [base + disp32], {register}", words, "store",
    )  # fmt: skip
    yield Row(
        f"{prefix}.store.indexed.{cls}", f"<- value:{cls}, base:gpr64, index:gpr64 ; disp32 scale",
        f"{code} [base + index*scale + disp32], {register}", words, "store",
    )  # fmt: skip


def _memory() -> Iterator[Row]:
    yield from load_rows("mov", "mov_r32_rm32", "gpr32")
    yield from load_rows("mov", "mov_r64_rm64", "gpr64")
    yield from load_rows("movsxd", "movsxd_r64_rm32", "gpr64")
    # Writing the 32-bit register clears the upper half.
    yield from load_rows("movzx32", "mov_r32_rm32", "gpr64", register="dst.d")
    for bits in (8, 16):
        yield from load_rows(f"movzx{bits}", f"movzx_r32_rm{bits}", "gpr32")
        yield from load_rows(f"movsx{bits}", f"movsx_r32_rm{bits}", "gpr32")
        yield from load_rows(f"movsx{bits}", f"movsx_r64_rm{bits}", "gpr64")
    yield from store_rows("mov8", "mov_rm8_r8", "gpr32", register="value.b")
    yield from store_rows("mov16", "mov_rm16_r16", "gpr32", register="value.w")
    yield from store_rows("mov", "mov_rm32_r32", "gpr32")
    yield from store_rows("mov", "mov_rm64_r64", "gpr64")


def _atomics(r: int) -> Iterator[Row]:
    g, low = f"gpr{r}", "eax" if r == 32 else "rax"
    address = "base:gpr64 ; disp32"
    yield Row(
        f"lock.xadd.{g}", f"old:{g}=value <- value:{g}, {address}",
        f"lock xadd_rm{r}_r{r} [base + disp32], old", "atomic flags", "atomic",
    )  # fmt: skip
    yield Row(
        f"xchg.memory.{g}", f"old:{g}=value <- value:{g}, {address}",
        f"xchg_rm{r}_r{r} [base + disp32], old", "atomic", "atomic",
    )  # fmt: skip
    yield Row(
        f"lock.cmpxchg.{g}", f"old:{low}=expected <- expected:{low}, desired:{g}, {address}",
        f"lock cmpxchg_rm{r}_r{r} [base + disp32], desired", "atomic flags", "atomic",
    )  # fmt: skip
    for name in ("add", "and", "or", "xor"):
        yield Row(
            f"lock.{name}.{g}", f"<- value:{g}, {address}",
            f"lock {name}_rm{r}_r{r} [base + disp32], value", "atomic flags", "atomic",
        )  # fmt: skip


def _control() -> Iterator[Row]:
    # Where operands and results travel is the calling convention's business; a target adds it before allocation.
    yield Row("call", "<- ; symbol", "call @symbol", "call flags", "call")
    yield Row("jmp", "<- ; target_block", "jmp @target_block", "terminator", "branch")
    for predicate, cc in INTEGER_PREDICATES.items():
        yield Row(
            f"set.{predicate}", "dst:gpr32 <-", f"set{cc}_rm8 dst.b; movzx_r32_rm8 dst, dst.b", "reads-flags"
        )


def scalar_rows() -> Iterator[Row]:
    """Every row of the `x86.scalar` contract."""
    for r in (32, 64):
        yield from _arithmetic(r)
        yield from _shifts(r)
        yield from _division(r)
        yield from _comparisons(r)
        yield from _bit_counts(r)
        yield from _atomics(r)
    yield from _conversions()
    yield from _addresses()
    yield from _memory()
    yield from _frame()
    yield from _control()


def bmi_rows() -> Iterator[Row]:
    """Integer instructions of the AVX2 profile (POPCNT, LZCNT, BMI1, BMI2): no fixed registers, no flags."""
    for r in (32, 64):
        g = f"gpr{r}"
        for name in ("shl", "sar", "shr"):
            yield Row(
                f"{name}x.{g}", f"dst:{g} <- lhs:{g}, count:{g}",
                f"vex_{name}x_r{r}_rm{r}_r{r} dst, lhs, count", "cpu:bmi2", "shift",
            )  # fmt: skip
        yield Row(
            f"popcnt.{g}", f"dst:{g} <- value:{g}", f"popcnt_r{r}_rm{r} dst, value", "flags cpu:popcnt", "mul"
        )
        yield Row(
            f"lzcnt.{g}", f"dst:{g} <- value:{g}", f"lzcnt_r{r}_rm{r} dst, value", "flags cpu:abm", "mul"
        )
        yield Row(
            f"tzcnt.{g}", f"dst:{g} <- value:{g}", f"tzcnt_r{r}_rm{r} dst, value", "flags cpu:bmi1", "mul"
        )
        yield Row(
            f"andn.{g}", f"dst:{g} <- inverted:{g}, value:{g}",
            f"vex_andn_r{r}_r{r}_rm{r} dst, inverted, value", "flags cpu:bmi1",
        )  # fmt: skip
