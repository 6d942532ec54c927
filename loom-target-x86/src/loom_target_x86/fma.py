"""Fused multiply-add for the profile that has no such instruction.

f32: the product of two f32 is exact in f64 and so is the rounding error of its sum with the addend (Knuth's
TwoSum; no exponent of an f32 product comes near the limits of f64). The sum is corrected to *round to odd*
and narrowed; rounding to odd at 53 bits and then to nearest at 24 (or fewer, for subnormal results) equals
one rounding (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
rounding to odd", IEEE Transactions on Computers 57(4), 2008). `FMA32_SEQUENCE` is that computation in SSA
form over packets of `x86.simd128.core`; the selector copies it in, so that it is scheduled with its
surroundings.

f64: `FMA64_ROUTINE` works on integers. The product is exact in 106 bits; both terms are placed in a
128-bit window with their leading bit at position 126, the smaller one is shifted right with its lost bits
folded into bit 0, which is again rounding to odd, and the sum is rounded once. The mode is round to nearest
even; exception flags are not raised.
"""

from __future__ import annotations

from typing import NamedTuple

FMA64_SYMBOL = "loom_x86_fma64"


class SequenceStep(NamedTuple):
    """One packet in SSA form: `result = mnemonic operands {immediates}`."""

    result: str
    mnemonic: str
    operands: tuple[str, ...] = ()
    immediates: tuple[tuple[str, int], ...] = ()


#: `result = fma(a, b, c)` on f32 in xmm registers; the last step defines `result`.
FMA32_SEQUENCE: tuple[SequenceStep, ...] = (
    SequenceStep("x", "cvtss2sd.xmm", ("a",)),
    SequenceStep("y", "cvtss2sd.xmm", ("b",)),
    SequenceStep("z", "cvtss2sd.xmm", ("c",)),
    SequenceStep("product", "mulsd.xmm", ("x", "y")),
    SequenceStep("sum", "addsd.xmm", ("product", "z")),
    # TwoSum: error = (product - (sum - zpart)) + (z - zpart).
    SequenceStep("zpart", "subsd.xmm", ("sum", "product")),
    SequenceStep("ppart", "subsd.xmm", ("sum", "zpart")),
    SequenceStep("perror", "subsd.xmm", ("product", "ppart")),
    SequenceStep("zerror", "subsd.xmm", ("z", "zpart")),
    SequenceStep("error", "addsd.xmm", ("perror", "zerror")),
    # All ones where the sum is inexact; an infinite or NaN sum has a NaN error, which compares false.
    SequenceStep("nothing", "zero.xmm"),
    SequenceStep("below", "cmpsd.lt.xmm", ("error", "nothing")),
    SequenceStep("above", "cmpsd.lt.xmm", ("nothing", "error")),
    SequenceStep("inexact", "orpd.xmm", ("below", "above")),
    # Where the error points towards zero the truncated sum is one unit smaller in magnitude.
    SequenceStep("signs", "xorpd.xmm", ("sum", "error")),
    SequenceStep("high", "pshufd.xmm", ("signs",), (("control", 0xF5),)),
    SequenceStep("opposed", "psrad.imm.xmm", ("high",), (("shift", 31),)),
    SequenceStep("minus_one", "pand.xmm", ("opposed", "inexact")),
    SequenceStep("truncated", "paddq.xmm", ("sum", "minus_one")),
    SequenceStep("sticky", "psrlq.imm.xmm", ("inexact",), (("shift", 63),)),
    SequenceStep("odd", "por.xmm", ("truncated", "sticky")),
    SequenceStep("result", "cvtsd2ss.xmm", ("odd",)),
)

#: Template text of `xmm0 = fma(xmm0, xmm1, xmm2)` on f64; every other register keeps its value.
#: With biased exponents ea and eb and mantissas shifted to bit 63, the product's value is
#: P * 2^(ea + eb - 2172); the addend is brought to the same frame by adding 1023 to its exponent.
FMA64_ROUTINE = f"""
{FMA64_SYMBOL}:
    push_r64 %rax; push_r64 %rbx; push_r64 %rcx; push_r64 %rdx; push_r64 %rsi; push_r64 %rdi
    push_r64 %r8; push_r64 %r9; push_r64 %r10; push_r64 %r11
    movq_rm64_xmm %r8, %xmm0
    movq_rm64_xmm %r9, %xmm1
    movq_rm64_xmm %r10, %xmm2
    mov_r64_imm64 %rcx, #0x7ff0000000000000
    mov_r64_rm64 %rax, %r8; and_r64_rm64 %rax, %rcx; cmp_r64_rm64 %rax, %rcx; je @.unfused
    mov_r64_rm64 %rax, %r9; and_r64_rm64 %rax, %rcx; cmp_r64_rm64 %rax, %rcx; je @.unfused
    mov_r64_rm64 %rax, %r10; and_r64_rm64 %rax, %rcx; cmp_r64_rm64 %rax, %rcx; je @.addend_special
    lea_r64_m %rax, [%r8 + %r8]; test_rm64_r64 %rax, %rax; je @.unfused
    lea_r64_m %rax, [%r9 + %r9]; test_rm64_r64 %rax, %rax; je @.unfused
    lea_r64_m %rax, [%r10 + %r10]; test_rm64_r64 %rax, %rax; je @.addend_zero

    // All three are finite and not zero: r11 = sign of the product, r10 = sign of the addend (bit 63).
    mov_r64_rm64 %r11, %r8
    xor_r64_rm64 %r11, %r9
    mov_r64_rm64 %rax, %r8
    call @.unpack
    mov_r64_rm64 %r8, %rax
    mov_r64_rm64 %rsi, %rcx
    mov_r64_rm64 %rax, %r9
    call @.unpack
    mov_r64_rm64 %r9, %rax
    add_r64_rm64 %rsi, %rcx
    mov_r64_rm64 %rax, %r10
    call @.unpack
    mov_r64_rm64 %rdi, %rax
    lea_r64_m %rbx, [%rcx + 1023]
    // Product in rdx:rax with its leading bit at 126; its lowest bits are zero, so no bit is lost.
    mov_r64_rm64 %rax, %r8
    mul_rm64 %r9
    test_rm64_r64 %rdx, %rdx
    jns @.product_ready
    shrd_rm64_r64_imm8 %rax, %rdx, #1
    shr_rm64_1 %rdx, #1
    inc_rm64 %rsi
.product_ready:
    // Addend in rdi:r9, leading bit at 126 as well.
    shr_rm64_1 %rdi, #1
    xor_r32_rm32 %r9d, %r9d
    // The larger magnitude goes to rdx:rax (exponent rsi, sign r11), the other to rdi:r9 (rbx, r10).
    cmp_r64_rm64 %rsi, %rbx
    jl @.swap
    jg @.ordered
    cmp_r64_rm64 %rdx, %rdi
    jb @.swap
    ja @.ordered
    cmp_r64_rm64 %rax, %r9
    jae @.ordered
.swap:
    xchg_rm64_r64 %rdx, %rdi
    xchg_rm64_r64 %rax, %r9
    xchg_rm64_r64 %rsi, %rbx
    xchg_rm64_r64 %r11, %r10
.ordered:
    mov_r64_rm64 %rcx, %rsi
    sub_r64_rm64 %rcx, %rbx
    xor_r32_rm32 %r8d, %r8d
    cmp_rm64_imm32 %rcx, #128
    jb @.near
    // Far below the window: only the fact that something is there remains.
    xor_r32_rm32 %edi, %edi
    mov_r32_imm32 %r9d, #1
    jmp @.aligned
.near:
    cmp_rm64_imm8 %rcx, #64
    jb @.shift
    mov_r64_rm64 %r8, %r9
    mov_r64_rm64 %r9, %rdi
    xor_r32_rm32 %edi, %edi
    sub_rm64_imm8 %rcx, #64
.shift:
    // r8 collects the bits that leave the window; a shift by zero loses none.
    test_rm64_r64 %rcx, %rcx
    je @.shifted
    mov_r64_rm64 %rbx, %r9
    neg_rm64 %rcx
    shl_rm64_cl %rbx, %cl
    neg_rm64 %rcx
    or_r64_rm64 %r8, %rbx
    shrd_rm64_r64_cl %r9, %rdi, %cl
    shr_rm64_cl %rdi, %cl
.shifted:
    test_rm64_r64 %r8, %r8
    setne_rm8 %bl
    movzx_r32_rm8 %ebx, %bl
    or_r64_rm64 %r9, %rbx
.aligned:
    mov_r64_rm64 %rcx, %r10
    xor_r64_rm64 %rcx, %r11
    js @.subtract
    add_r64_rm64 %rax, %r9
    adc_r64_rm64 %rdx, %rdi
    jmp @.normalize
.subtract:
    sub_r64_rm64 %rax, %r9
    sbb_r64_rm64 %rdx, %rdi
    mov_r64_rm64 %rcx, %rax
    or_r64_rm64 %rcx, %rdx
    jne @.normalize
    // Exact cancellation is +0 in round to nearest.
    xorps_xmm_xmmm128 %xmm0, %xmm0
    jmp @.done

.normalize:
    test_rm64_r64 %rdx, %rdx
    jne @.leading
    mov_r64_rm64 %rdx, %rax
    xor_r32_rm32 %eax, %eax
    sub_rm64_imm8 %rsi, #64
.leading:
    bsr_r64_rm64 %rcx, %rdx
    xor_rm32_imm8 %ecx, #63
    shld_rm64_r64_cl %rdx, %rax, %cl
    shl_rm64_cl %rax, %cl
    sub_r64_rm64 %rsi, %rcx
    sub_rm64_imm32 %rsi, #1022
    test_rm64_r64 %rax, %rax
    setne_rm8 %cl
    movzx_r32_rm8 %ecx, %cl
    or_r64_rm64 %rdx, %rcx
    // rdx has its leading bit at 63 and its lost bits in bit 0; rsi is the biased exponent.
    cmp_rm64_imm32 %rsi, #2046
    jg @.overflow
    test_rm64_r64 %rsi, %rsi
    jg @.round
    // Subnormal: shift until the exponent is 1; beyond 63 the result is the same as for 63.
    mov_r32_imm32 %ecx, #1
    sub_r64_rm64 %rcx, %rsi
    mov_r32_imm32 %ebx, #63
    cmp_r64_rm64 %rcx, %rbx
    cmovg_r64_rm64 %rcx, %rbx
    mov_r64_rm64 %rax, %rdx
    shr_rm64_cl %rdx, %cl
    neg_rm64 %rcx
    shl_rm64_cl %rax, %cl
    test_rm64_r64 %rax, %rax
    setne_rm8 %cl
    movzx_r32_rm8 %ecx, %cl
    or_r64_rm64 %rdx, %rcx
    mov_r32_imm32 %esi, #1
.round:
    // Nearest, ties to even, on the lowest eleven bits; a carry moves into the exponent field.
    mov_r64_rm64 %rax, %rdx
    and_rm32_imm32 %eax, #0x7ff
    shr_rm64_imm8 %rdx, #11
    mov_r32_rm32 %ecx, %edx
    and_rm32_imm8 %ecx, #1
    lea_r64_m %rax, [%rax + %rcx + 0x3ff]
    shr_rm64_imm8 %rax, #11
    add_r64_rm64 %rdx, %rax
    dec_rm64 %rsi
    shl_rm64_imm8 %rsi, #52
    add_r64_rm64 %rdx, %rsi
    jmp @.sign
.overflow:
    mov_r64_imm64 %rdx, #0x7ff0000000000000
.sign:
    shr_rm64_imm8 %r11, #63
    shl_rm64_imm8 %r11, #63
    or_r64_rm64 %rdx, %r11
    movq_xmm_rm64 %xmm0, %rdx
.done:
    pop_r64 %r11; pop_r64 %r10; pop_r64 %r9; pop_r64 %r8
    pop_r64 %rdi; pop_r64 %rsi; pop_r64 %rdx; pop_r64 %rcx; pop_r64 %rbx; pop_r64 %rax
    retnq

.unfused:
    // A factor is zero, infinite or NaN: the product is exact or special, so two roundings are one.
    mulsd_xmm_xmmm64 %xmm0, %xmm1
    addsd_xmm_xmmm64 %xmm0, %xmm2
    jmp @.done
.addend_special:
    // The product is finite, so the addend decides; the sum quiets a signalling NaN.
    movaps_xmm_xmmm128 %xmm0, %xmm2
    addsd_xmm_xmmm64 %xmm0, %xmm2
    jmp @.done
.addend_zero:
    // The product is not zero, so neither is the exact result and its sign is the product's.
    mulsd_xmm_xmmm64 %xmm0, %xmm1
    jmp @.done

.unpack:
    // rax = bits of a finite value that is not zero -> rax = mantissa with bit 63 set, rcx = biased exponent
    // (of a subnormal: as if it had more exponents). Uses rdx.
    mov_r64_rm64 %rcx, %rax
    shr_rm64_imm8 %rcx, #52
    shl_rm64_imm8 %rax, #11
    and_rm32_imm32 %ecx, #0x7ff
    je @.unpack_subnormal
    bts_rm64_imm8 %rax, #63
    retnq
.unpack_subnormal:
    bsr_r64_rm64 %rcx, %rax
    xor_rm32_imm8 %ecx, #63
    shl_rm64_cl %rax, %cl
    neg_rm64 %rcx
    inc_rm64 %rcx
    retnq
"""
