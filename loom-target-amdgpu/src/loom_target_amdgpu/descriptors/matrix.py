"""Dot products and matrix instructions (language reference, part 3, section 14.5).

A matrix result is tied to its accumulator: the hardware forbids any other overlap of the two and of the result with
the sources. Rows marked "own" are not in the reference; they follow its naming rules for fixed modifiers.
"""

# ruff: noqa: E501 - one instruction family per line, however long

from __future__ import annotations

from typing import Final

_F8: Final = ("bf8_bf8", "bf8_fp8", "fp8_bf8", "fp8_fp8")


def _each(pattern: str) -> str:
    """One name per pair of 8-bit formats."""
    return " ".join(pattern.replace("*", pair) for pair in _F8)


MATRIX: Final = f"""
* | v_dot2_f32_f16 | dst:v | lhs:sv rhs:sv acc:sv | | <mode | acc_zero(acc=acc?)
34 | v_dot4_i32_i8 v_dot8_i32_i4 | dst:v | lhs:sv rhs:sv acc:sv | | | acc_zero(acc=acc?)
AaB | v_dot4_i32_i8 | dst:v | lhs:sv rhs:sv acc:sv | | isa=v_dot4_i32_iu8 mod=neg_lo:3 | acc_zero(acc=acc?)
AaB | v_dot8_i32_i4 | dst:v | lhs:sv rhs:sv acc:sv | | isa=v_dot8_i32_iu4 mod=neg_lo:3 | acc_zero(acc=acc?)
AaB | v_dot4_i32_iu8_s8u8 | dst:v | lhs:sv rhs:sv acc:sv | | isa=v_dot4_i32_iu8 mod=neg_lo:1 | acc_zero(acc=acc?)
AaB | v_dot4_i32_iu8_u8s8 | dst:v | lhs:sv rhs:sv acc:sv | | isa=v_dot4_i32_iu8 mod=neg_lo:2 | acc_zero(acc=acc?)
AaB | v_dot8_i32_iu4_s4u4 | dst:v | lhs:sv rhs:sv acc:sv | | isa=v_dot8_i32_iu4 mod=neg_lo:1 | acc_zero(acc=acc?)
AaB | v_dot8_i32_iu4_u4s4 | dst:v | lhs:sv rhs:sv acc:sv | | isa=v_dot8_i32_iu4 mod=neg_lo:2 | acc_zero(acc=acc?)
* | v_dot4_u32_u8 v_dot8_u32_u4 | dst:v | lhs:sv rhs:sv acc:sv | | | acc_zero(acc=acc?)
AaB | v_dot2_f32_bf16 | dst:v | lhs:sv rhs:sv acc:sv | | <mode | acc_zero(acc=acc?)
B | {_each("v_dot4_f32_*")} | dst:v | lhs:sv rhs:sv acc:sv | | <mode | acc_zero(acc=acc?)
Aa | v_wmma_f32_16x16x16_f16 v_wmma_f32_16x16x16_bf16 | dst:v8=acc | a:v8 b:v8 acc:v8 | | matrix <mode form=w32 | acc_zero(acc=acc?)
Aa | v_wmma_f16_16x16x16_f16 v_wmma_bf16_16x16x16_bf16 | dst:v8=acc | a:v8 b:v8 acc:v8 | | matrix <mode form=w32 | acc_zero(acc=acc?)
Aa | v_wmma_i32_16x16x16_iu8 | dst:v8=acc | a:v4 b:v4 acc:v8 | | matrix form=w32 | acc_zero(acc=acc?)
Aa | v_wmma_i32_16x16x16_iu4 | dst:v8=acc | a:v2 b:v2 acc:v8 | | matrix form=w32 | acc_zero(acc=acc?)
B | v_wmma_f32_16x16x16_f16 v_wmma_f32_16x16x16_bf16 | dst:v8=acc | a:v4 b:v4 acc:v8 | | matrix <mode form=w32 | acc_zero(acc=acc?)
B | v_wmma_f16_16x16x16_f16 v_wmma_bf16_16x16x16_bf16 | dst:v4=acc | a:v4 b:v4 acc:v4 | | matrix <mode form=w32 | acc_zero(acc=acc?)
B | v_wmma_i32_16x16x16_iu8 v_wmma_i32_16x16x32_iu4 {_each("v_wmma_f32_16x16x16_*")} | dst:v8=acc | a:v2 b:v2 acc:v8 | | matrix form=w32 | acc_zero(acc=acc?)
B | v_wmma_i32_16x16x16_iu4 | dst:v8=acc | a:v b:v acc:v8 | | matrix form=w32 | acc_zero(acc=acc?)
B | v_swmmac_f32_16x16x32_f16 v_swmmac_f32_16x16x32_bf16 | dst:v8=acc | acc:v8 a:v4 b:v8 index:v | | <mode form=w32 |
B | v_swmmac_f16_16x16x32_f16 v_swmmac_bf16_16x16x32_bf16 | dst:v4=acc | acc:v4 a:v4 b:v8 index:v | | <mode form=w32 |
B | v_swmmac_i32_16x16x32_iu8 v_swmmac_i32_16x16x64_iu4 {_each("v_swmmac_f32_16x16x32_*")} | dst:v8=acc | acc:v8 a:v2 b:v4 index:v | | form=w32 |
B | v_swmmac_i32_16x16x32_iu4 | dst:v8=acc | acc:v8 a:v b:v2 index:v | | form=w32 |
34 | v_mfma_f32_16x16x1_4b_f32 v_mfma_f32_32x32x2_f32 v_mfma_i32_16x16x4_4b_i8 | dst:va16=acc | a:va b:va acc:va16 | | matrix | acc_zero(acc=acc?)
34 | v_mfma_f32_16x16x4_4b_f16 v_mfma_f32_16x16x4_4b_bf16 v_mfma_f32_32x32x8_f16 v_mfma_f32_32x32x8_bf16 v_mfma_i32_32x32x16_i8 {_each("v_mfma_f32_32x32x16_*")} | dst:va16=acc | a:va2 b:va2 acc:va16 | | matrix | acc_zero(acc=acc?)
34 | v_mfma_f32_16x16x4_f32 v_mfma_f32_4x4x1_16b_f32 v_mfma_i32_4x4x4_16b_i8 | dst:va4=acc | a:va b:va acc:va4 | | matrix | acc_zero(acc=acc?)
34 | v_mfma_f32_16x16x16_f16 v_mfma_f32_16x16x16_bf16 v_mfma_f32_4x4x4_16b_f16 v_mfma_f32_4x4x4_16b_bf16 v_mfma_i32_16x16x32_i8 {_each("v_mfma_f32_16x16x32_*")} | dst:va4=acc | a:va2 b:va2 acc:va4 | | matrix | acc_zero(acc=acc?)
4 | v_mfma_f32_16x16x32_f16 v_mfma_f32_16x16x32_bf16 v_mfma_i32_16x16x64_i8 | dst:va4=acc | a:va4 b:va4 acc:va4 | | matrix | acc_zero(acc=acc?)
4 | v_mfma_f32_32x32x16_f16 v_mfma_f32_32x32x16_bf16 v_mfma_i32_32x32x32_i8 | dst:va16=acc | a:va4 b:va4 acc:va16 | | matrix | acc_zero(acc=acc?)
3 | v_mfma_f32_16x16x8_xf32 | dst:va4=acc | a:va2 b:va2 acc:va4 | | matrix | acc_zero(acc=acc?)
3 | v_mfma_f32_32x32x4_xf32 | dst:va16=acc | a:va2 b:va2 acc:va16 | | matrix | acc_zero(acc=acc?)
34 | v_mfma_f32_32x32x1_2b_f32 v_mfma_i32_32x32x4_2b_i8 | dst:va32=acc | a:va b:va acc:va32 | | matrix | acc_zero(acc=acc?)
34 | v_mfma_f32_32x32x4_2b_f16 v_mfma_f32_32x32x4_2b_bf16 | dst:va32=acc | a:va2 b:va2 acc:va32 | | matrix | acc_zero(acc=acc?)
34 | v_mfma_f64_16x16x4_f64 | dst:va8=acc | a:va2 b:va2 acc:va8 | | matrix | acc_zero(acc=acc?)
34 | v_mfma_f64_4x4x4_4b_f64 | dst:va2=acc | a:va2 b:va2 acc:va2 | | matrix | acc_zero(acc=acc?)
34 | v_smfmac_f32_16x16x32_f16 v_smfmac_f32_16x16x32_bf16 v_smfmac_i32_16x16x64_i8 {_each("v_smfmac_f32_16x16x64_*")} | dst:va4=acc | acc:va4 a:va2 b:va4 index:v | | |
34 | v_smfmac_f32_32x32x16_f16 v_smfmac_f32_32x32x16_bf16 v_smfmac_i32_32x32x32_i8 {_each("v_smfmac_f32_32x32x32_*")} | dst:va16=acc | acc:va16 a:va2 b:va4 index:v | | |
# own: signed operands, and results clamped instead of wrapped
Aa | v_wmma_i32_16x16x16_iu8_s8s8 | dst:v8=acc | a:v4 b:v4 acc:v8 | | matrix form=w32 isa=v_wmma_i32_16x16x16_iu8 mod=neg_lo:3 | acc_zero(acc=acc?)
Aa | v_wmma_i32_16x16x16_iu8_s8s8_clamp | dst:v8=acc | a:v4 b:v4 acc:v8 | | matrix form=w32 isa=v_wmma_i32_16x16x16_iu8 mod=neg_lo:3,clamp:1 | acc_zero(acc=acc?)
B | v_wmma_i32_16x16x16_iu8_s8s8 | dst:v8=acc | a:v2 b:v2 acc:v8 | | matrix form=w32 isa=v_wmma_i32_16x16x16_iu8 mod=neg_lo:3 | acc_zero(acc=acc?)
B | v_wmma_i32_16x16x16_iu8_s8s8_clamp | dst:v8=acc | a:v2 b:v2 acc:v8 | | matrix form=w32 isa=v_wmma_i32_16x16x16_iu8 mod=neg_lo:3,clamp:1 | acc_zero(acc=acc?)
"""
