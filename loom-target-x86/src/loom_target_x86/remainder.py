"""The exact floating-point remainder (C `fmod`) as a routine.

x86 has `fprem`, but only on the x87 stack, and simulators compute it in too few bits. The routine divides mantissas
as integers: with both brought to one exponent difference n, the remainder of mx * 2^n by my is found eleven bits at a
time, because a remainder below 2^53 shifted by eleven still fits a 64-bit dividend. The result needs no rounding.
"""

from __future__ import annotations

FMOD64_SYMBOL = "loom_x86_fmod64"


def fmod64_routine(*, vex: bool) -> str:
    """Template text of `xmm0 = fmod(xmm0, xmm1)` on f64; every other register keeps its value."""
    move = "vex_vmovq" if vex else "movq"
    multiply = "vex_vmulsd_xmm_xmm_xmmm64 %xmm0, %xmm0, %xmm1" if vex else "mulsd_xmm_xmmm64 %xmm0, %xmm1"
    divide = "vex_vdivsd_xmm_xmm_xmmm64 %xmm0, %xmm0, %xmm0" if vex else "divsd_xmm_xmmm64 %xmm0, %xmm0"
    return f"""
{FMOD64_SYMBOL}:
    push_r64 %rax; push_r64 %rcx; push_r64 %rdx; push_r64 %rsi; push_r64 %rdi
    push_r64 %r8; push_r64 %r9; push_r64 %r10
    {move}_rm64_xmm %r8, %xmm0
    {move}_rm64_xmm %r9, %xmm1
    mov_r64_imm64 %rax, #0x7fffffffffffffff
    mov_r64_rm64 %rsi, %r8; and_r64_rm64 %rsi, %rax
    mov_r64_rm64 %rdi, %r9; and_r64_rm64 %rdi, %rax
    mov_r64_imm64 %rax, #0x7ff0000000000000
    cmp_r64_rm64 %rsi, %rax; jae @.invalid
    cmp_r64_rm64 %rdi, %rax; ja @.invalid
    test_rm64_r64 %rdi, %rdi; je @.invalid
    // A smaller dividend is its own remainder; that covers an infinite divisor.
    cmp_r64_rm64 %rsi, %rdi; jb @.done
    mov_r64_rm64 %rcx, %rsi; shr_rm64_imm8 %rcx, #52
    mov_r64_rm64 %r9, %rdi; shr_rm64_imm8 %r9, #52
    mov_r64_imm64 %rax, #0x000fffffffffffff
    and_r64_rm64 %rsi, %rax; and_r64_rm64 %rdi, %rax
    // Mantissas in rsi and rdi, exponents in rcx and r9; a subnormal has exponent 1 and no hidden bit.
    test_rm64_r64 %rcx, %rcx; je @.dividend_subnormal
    bts_rm64_imm8 %rsi, #52; jmp @.dividend_ready
.dividend_subnormal:
    mov_r32_imm32 %ecx, #1
.dividend_ready:
    test_rm64_r64 %r9, %r9; je @.divisor_subnormal
    bts_rm64_imm8 %rdi, #52; jmp @.divisor_ready
.divisor_subnormal:
    mov_r32_imm32 %r9d, #1
.divisor_ready:
    sub_r64_rm64 %rcx, %r9
    mov_r64_rm64 %rax, %rsi; xor_r32_rm32 %edx, %edx; div_rm64 %rdi; mov_r64_rm64 %rsi, %rdx
.next:
    test_rm64_r64 %rcx, %rcx; je @.reduced
    mov_r64_rm64 %r10, %rcx
    cmp_rm64_imm8 %rcx, #11; jbe @.chunk
    mov_r32_imm32 %ecx, #11
.chunk:
    sub_r64_rm64 %r10, %rcx
    shl_rm64_cl %rsi, %cl
    mov_r64_rm64 %rax, %rsi; xor_r32_rm32 %edx, %edx; div_rm64 %rdi; mov_r64_rm64 %rsi, %rdx
    mov_r64_rm64 %rcx, %r10
    jmp @.next
.reduced:
    test_rm64_r64 %rsi, %rsi; je @.sign
    // Back to a hidden bit at 52, as far as the exponent allows.
    bsr_r64_rm64 %rcx, %rsi; xor_rm32_imm8 %ecx, #63; sub_rm64_imm8 %rcx, #11
    lea_r64_m %rax, [%r9 - 1]
    cmp_r64_rm64 %rcx, %rax; cmova_r64_rm64 %rcx, %rax
    shl_rm64_cl %rsi, %cl
    sub_r64_rm64 %r9, %rcx
    dec_rm64 %r9
    shl_rm64_imm8 %r9, #52
    add_r64_rm64 %rsi, %r9
.sign:
    shr_rm64_imm8 %r8, #63; shl_rm64_imm8 %r8, #63
    or_r64_rm64 %rsi, %r8
    {move}_xmm_rm64 %xmm0, %rsi
.done:
    pop_r64 %r10; pop_r64 %r9; pop_r64 %r8
    pop_r64 %rdi; pop_r64 %rsi; pop_r64 %rdx; pop_r64 %rcx; pop_r64 %rax
    retnq
.invalid:
    // An infinite dividend, a zero divisor or a NaN: the product is infinite, zero or NaN, its quotient NaN.
    {multiply}
    {divide}
    jmp @.done
"""
