"""Dot products and matrix instructions (language reference, part 3, section 14.5)."""

# ruff: noqa: E501 - one instruction family per line, however long

from __future__ import annotations

from typing import Final

_WMMA_F: Final = "v_wmma_f32_16x16x16_f16 v_wmma_f32_16x16x16_bf16"

MATRIX: Final = f"""
* | v_dot2_f32_f16 | dst:v | lhs:v rhs:v acc:v | | <mode |
34 | v_dot4_i32_i8 v_dot8_i32_i4 | dst:v | lhs:v rhs:v acc:v | | |
AaB | v_dot4_i32_i8 | dst:v | lhs:v rhs:v acc:v | | isa=v_dot4_i32_iu8 mod=neg_lo:3 |
AaB | v_dot8_i32_i4 | dst:v | lhs:v rhs:v acc:v | | isa=v_dot8_i32_iu4 mod=neg_lo:3 |
AaB | v_dot4_i32_iu8_s8u8 | dst:v | lhs:v rhs:v acc:v | | isa=v_dot4_i32_iu8 mod=neg_lo:1 |
AaB | v_dot4_i32_iu8_u8s8 | dst:v | lhs:v rhs:v acc:v | | isa=v_dot4_i32_iu8 mod=neg_lo:2 |
AaB | v_dot8_i32_iu4_s4u4 | dst:v | lhs:v rhs:v acc:v | | isa=v_dot8_i32_iu4 mod=neg_lo:1 |
AaB | v_dot8_i32_iu4_u4s4 | dst:v | lhs:v rhs:v acc:v | | isa=v_dot8_i32_iu4 mod=neg_lo:2 |
* | v_dot4_u32_u8 v_dot8_u32_u4 | dst:v | lhs:v rhs:v acc:v | | |
AaB | v_dot2_f32_bf16 | dst:v | lhs:v rhs:v acc:v | | <mode |
Aa | {_WMMA_F} | dst:v8 | a:v8 b:v8 acc:v8 | | <mode form=w32 | acc_zero(acc=acc?)
Aa | v_wmma_f16_16x16x16_f16 v_wmma_bf16_16x16x16_bf16 | dst:v8 | a:v8 b:v8 acc:v8 | | <mode form=w32 | acc_zero(acc=acc?)
B | {_WMMA_F} | dst:v8 | a:v4 b:v4 acc:v8 | | <mode form=w32 | acc_zero(acc=acc?)
B | v_wmma_f16_16x16x16_f16 v_wmma_bf16_16x16x16_bf16 | dst:v4 | a:v4 b:v4 acc:v4 | | <mode form=w32 | acc_zero(acc=acc?)
"""
