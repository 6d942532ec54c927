"""Vector arithmetic (language reference, part 3, section 14.2). Comparisons are in ``comparisons``.

Operand classes are at least those of the reference; where the encoding takes a scalar too, so do these rows.
Rows marked "own" are not in the reference: the compiler needs them, and they follow its naming rules.
"""

# ruff: noqa: E501 - one instruction family per line, however long

from __future__ import annotations

from typing import Final

VECTOR_ALU: Final = """
* | v_add_u32 | dst:v | lhs:sv rhs:v | | swap | src0_inline(lhs=imm32!) lit(lhs=imm32!)
* | v_add_co_u32 | sum:v carry:s2 | lhs:sv rhs:sv | | swap |
34 | v_addc_co_u32=v_add_co_ci_u32 | sum:v carry:s2 | lhs:sv rhs:sv carry_in:s2 | | |
AaB | v_add_co_ci_u32 | sum:v carry:s2 | lhs:sv rhs:sv carry_in:s2 | | |
* | v_sub_co_u32 | difference:v borrow:s2 | lhs:sv rhs:sv | | |
34 | v_subb_co_u32=v_sub_co_ci_u32 | difference:v borrow:s2 | lhs:sv rhs:sv borrow_in:s2 | | |
AaB | v_sub_co_ci_u32 | difference:v borrow:s2 | lhs:sv rhs:sv borrow_in:s2 | | |
34 | v_sub_u32 | dst:v | lhs:sv rhs:v | | | src0_inline(lhs=imm32!) lit(lhs=imm32!)
AaB | v_sub_nc_u32=v_sub_u32 | dst:v | lhs:sv rhs:v | | | src0_inline(lhs=imm32!) lit(lhs=imm32!)
* | v_mov_b32 | dst:v | | imm32! | once |
* | v_mov_b32_copy | dst:v | src:sv | | isa=v_mov_b32 |
34 | v_mov_b32_dpp | dst:v=old | old:v src:v | dpp_ctrl | isa=v_mov_b32 form=dpp16 fmt=VOP1 map=dst,src |
AaB | v_mov_b32_dpp16 | dst:v=old | old:v src:v | dpp_ctrl | isa=v_mov_b32 form=dpp16 fmt=VOP1 map=dst,src |
* | v_mul_lo_u32 v_mul_hi_u32 | dst:v | lhs:sv rhs:v | | swap | src0_inline(lhs=imm32!) lit(lhs=imm32!)[AaB]
* | v_mul_u32_u24 | dst:v | lhs:sv rhs:v | | swap | src0_inline(lhs=imm32!) lit(lhs=imm32!)
* | v_mad_u32_u24 | dst:v | a:sv b:sv addend:sv | | swap | src0_lit(a=imm32!)[AaB] src1_lit(b=imm32!)[AaB] src2_lit(addend=imm32!)[AaB] src1_inline(b=imm32!)
* | v_min_i32 v_max_i32 v_min_u32 v_max_u32 | dst:v | lhs:sv rhs:v | | swap | src0_inline(lhs=imm32!) lit(lhs=imm32!)
* | v_readfirstlane_b32 | dst:s | value:v | | |
* | v_readlane_b32_src1_inline | dst:s | value:v | lane! | isa=v_readlane_b32 noexec |
* | v_and_b32 v_or_b32 v_xor_b32 | dst:v | lhs:sv rhs:v | | swap | src0_inline(lhs=imm32!) lit(lhs=imm32!)
* | v_lshlrev_b32 | dst:v | shift:sv value:v | | | src0_inline(shift=imm32!) lit(shift=imm32!) vop3_imm(shift=imm32!)
* | v_lshlrev_b64 | dst:v2 | shift:sv value:v2 | | | src0_inline(shift=imm32!)
* | v_lshl_add_u32_shift_imm | dst:v | value:sv addend:sv | shift! | isa=v_lshl_add_u32 map=dst,value,shift,addend |
* | v_bfe_u32_offset_width_inline | dst:v | value:sv | offset width | isa=v_bfe_u32 map=dst,value,offset,width |
* | v_bfe_i32_offset_width_inline | dst:v | value:sv | offset width | isa=v_bfe_i32 map=dst,value,offset,width |
* | v_bfi_b32_src0_lit | dst:v | insert:sv base:sv | imm32! | isa=v_bfi_b32 map=dst,imm32,insert,base |
* | v_lshrrev_b32 v_ashrrev_i32 | dst:v | shift:sv value:v | | | src0_inline(shift=imm32!) lit(shift=imm32!)
* | v_perm_b32 | dst:v | src0:sv src1:sv selectors:sv | | | src2_lit(selectors=imm32!)[AaB]
* | v_add_f32 v_mul_f32 | dst:v | lhs:sv rhs:v | | <mode swap | lit(lhs=imm32!) src0_inline(lhs=imm32!)
* | v_sub_f32 | dst:v | lhs:sv rhs:v | | <mode | lit(lhs=imm32!) src0_inline(lhs=imm32!)
* | v_min_f32 v_max_f32 | dst:v | lhs:sv rhs:v | | <mode swap | lit(lhs=imm32!) src0_inline(lhs=imm32!)
* | v_add_f16 v_mul_f16 | dst:v.low16 | lhs:v.low16 rhs:v.low16 | | <mode swap |
* | v_sub_f16 | dst:v.low16 | lhs:v.low16 rhs:v.low16 | | <mode |
* | v_fma_f32 | dst:v | a:sv b:sv c:sv | | <mode swap |
* | v_fmaak_f32 | dst:v | a:sv b:v | imm32! | <mode |
* | v_fmac_f32 | dst:v=acc | acc:v a:sv b:v | | <mode |
* | v_fmamk_f32 | dst:v | a:sv c:v | imm32! | <mode map=dst,a,imm32,c |
* | v_fma_f16 | dst:v.low16 | a:v.low16 b:v.low16 c:v.low16 | | <mode swap |
* | v_fma_f64 | dst:v2 | a:sv2 b:sv2 c:sv2 | | <mode swap |
34 | v_fmac_f64 | dst:v2=acc | acc:v2 a:sv2 b:v2 | | <mode |
* | v_pk_add_f16 v_pk_mul_f16 | dst:v | lhs:sv rhs:sv | | <mode |
* | v_pk_add_f16_neg_rhs | dst:v | lhs:sv rhs:sv | | isa=v_pk_add_f16 <mode mod=neg_lo:2,neg_hi:2 |
* | v_pk_fma_f16 | dst:v | a:sv b:sv c:sv | | <mode | src0_lit(a=imm32!)[AaB] src1_lit(b=imm32!)[AaB] src2_lit(c=imm32!)[AaB]
* | v_pk_add_u16 v_pk_sub_i16 v_pk_mul_lo_u16 v_pk_min_i16 v_pk_max_i16 v_pk_min_u16 v_pk_max_u16 | dst:v | lhs:sv rhs:sv | | |
* | v_pk_lshlrev_b16 v_pk_lshrrev_b16 v_pk_ashrrev_i16 | dst:v | shift:sv value:sv | | |
* | v_pk_mad_i16 v_pk_mad_u16 | dst:v | a:sv b:sv c:sv | | | src0_lit(a=imm32!)[AaB] src1_lit(b=imm32!)[AaB] src2_lit(c=imm32!)[AaB]
34 | v_pk_fma_f32 | dst:v2 | a:sv2 b:sv2 c:sv2 | | <mode |
* | v_exp_f32 v_log_f32 v_sin_f32 v_cos_f32 v_floor_f32 v_ceil_f32 v_rndne_f32 v_trunc_f32 v_sqrt_f32 v_rsq_f32 v_rcp_f32 | dst:v | input:sv | | <mode |
* | v_div_scale_f32 | dst:v mask:k | value:sv denominator:sv numerator:sv | | <mode |
* | v_div_fmas_f32 | dst:v | a:sv b:sv c:sv scale_mask:k | | <mode map=dst,a,b,c |
* | v_div_fixup_f32 | dst:v | quotient:sv denominator:sv numerator:sv | | <mode |
* | v_cvt_f32_f16 | dst:v | input:v.low16 | | <mode |
* | v_cvt_f16_f32 | dst:v.low16 | input:sv | | <mode |
* | v_cvt_pk_u16_u32 | dst:v | low:sv high:sv | | |
* | v_cvt_f32_i32 v_cvt_f32_u32 v_cvt_i32_f32 v_cvt_u32_f32 | dst:v | input:sv | | <mode |
* | v_cndmask_b32 | dst:v | false_value:sv true_value:sv mask:s2 | | | src0_inline(false_value=false_value) src1_inline(true_value=true_value) src0_lit(false_value=imm32!)[AaB] src1_lit(true_value=imm32!)[AaB] src0_lit_src1_inline(false_value=imm32,true_value=true_value)[AaB] src1_lit_src0_inline(true_value=imm32,false_value=false_value)[AaB] src0_inline_src1_inline(false_value=false_value,true_value=true_value)
AaB | v_permlanex16_b32_src12_inline | dst:v=old | old:v src:v | selector_low! selector_high! | isa=v_permlanex16_b32 map=dst,src,selector_low,selector_high |
AaB | v_subrev_f32 | dst:v | rhs:sv lhs:v | | <mode | lit(rhs=imm32!) src0_inline(rhs=imm32!)
AaB | v_fmac_f16 | dst:v.low16=acc | acc:v.low16 a:v.low16 b:v.low16 | | <mode |
AaB | v_fmaak_f16 | dst:v.low16 | a:v.low16 b:v.low16 | imm16! | <mode |
AaB | v_fmamk_f16 | dst:v.low16 | a:v.low16 c:v.low16 | imm16! | <mode map=dst,a,imm16,c |
# own: integers
* | v_subrev_u32 | dst:v | rhs:sv lhs:v | | | src0_inline(rhs=imm32!) lit(rhs=imm32!)
* | v_add3_u32 v_xad_u32 v_lshl_or_b32 v_and_or_b32 v_or3_b32 v_alignbit_b32 v_bfi_b32 v_med3_i32 v_med3_u32 | dst:v | a:sv b:sv c:sv | | | src1_inline(b=imm32!) src2_inline(c=imm32!)
* | v_lshl_add_u32 v_add_lshl_u32 | dst:v | a:sv b:sv c:sv | | |
* | v_bfe_u32 v_bfe_i32 | dst:v | value:sv offset:sv width:sv | | |
* | v_mul_hi_i32 | dst:v | lhs:sv rhs:v | | swap |
* | v_mul_i32_i24 v_mul_hi_u32_u24 | dst:v | lhs:sv rhs:v | | swap |
* | v_mad_u64_u32 v_mad_i64_i32 | dst:v2 carry:s2 | a:sv b:sv addend:sv2 | | | src2_inline(addend=imm32!)
* | v_not_b32 v_ffbh_u32 v_ffbl_b32 v_bfrev_b32 | dst:v | src:sv | | |
* | v_bcnt_u32_b32 v_mbcnt_lo_u32_b32 v_mbcnt_hi_u32_b32 | dst:v | lhs:sv rhs:sv | | | src1_inline(rhs=imm32!) src0_inline(lhs=imm32!)
* | v_mbcnt_lo_u32_b32_ones | dst:v | rhs:sv | | isa=v_mbcnt_lo_u32_b32 map=dst,all,rhs | src1_inline(rhs=imm32!)
* | v_mbcnt_hi_u32_b32_ones | dst:v | rhs:sv | | isa=v_mbcnt_hi_u32_b32 map=dst,all,rhs | src1_inline(rhs=imm32!)
* | v_lshrrev_b64 v_ashrrev_i64 | dst:v2 | shift:sv value:v2 | | | src0_inline(shift=imm32!)
* | v_readlane_b32 | dst:s | value:v lane:s | | noexec |
AaB | v_writelane_b32 | dst:v=old | old:v value:s lane:s | | noexec map=dst,value,lane | src1_inline(lane=lane!)
34 | v_writelane_b32_src1_inline | dst:v=old | old:v value:s | lane! | isa=v_writelane_b32 noexec map=dst,value,lane |
# own: with the first source from another lane; one that has none keeps its own value
* | v_add_f32_dpp | dst:v=lhs | lhs:v rhs:v | dpp_ctrl | isa=v_add_f32 form=dpp16 fmt=VOP2 <mode map=dst,lhs,rhs |
* | v_min_f32_dpp | dst:v=lhs | lhs:v rhs:v | dpp_ctrl | isa=v_min_f32 form=dpp16 fmt=VOP2 <mode map=dst,lhs,rhs |
* | v_max_f32_dpp | dst:v=lhs | lhs:v rhs:v | dpp_ctrl | isa=v_max_f32 form=dpp16 fmt=VOP2 <mode map=dst,lhs,rhs |
* | v_add_u32_dpp | dst:v=lhs | lhs:v rhs:v | dpp_ctrl | isa=v_add_u32 form=dpp16 fmt=VOP2 map=dst,lhs,rhs |
* | v_min_i32_dpp | dst:v=lhs | lhs:v rhs:v | dpp_ctrl | isa=v_min_i32 form=dpp16 fmt=VOP2 map=dst,lhs,rhs |
* | v_max_i32_dpp | dst:v=lhs | lhs:v rhs:v | dpp_ctrl | isa=v_max_i32 form=dpp16 fmt=VOP2 map=dst,lhs,rhs |
* | v_min_u32_dpp | dst:v=lhs | lhs:v rhs:v | dpp_ctrl | isa=v_min_u32 form=dpp16 fmt=VOP2 map=dst,lhs,rhs |
* | v_max_u32_dpp | dst:v=lhs | lhs:v rhs:v | dpp_ctrl | isa=v_max_u32 form=dpp16 fmt=VOP2 map=dst,lhs,rhs |
* | v_and_b32_dpp | dst:v=lhs | lhs:v rhs:v | dpp_ctrl | isa=v_and_b32 form=dpp16 fmt=VOP2 map=dst,lhs,rhs |
* | v_or_b32_dpp | dst:v=lhs | lhs:v rhs:v | dpp_ctrl | isa=v_or_b32 form=dpp16 fmt=VOP2 map=dst,lhs,rhs |
* | v_xor_b32_dpp | dst:v=lhs | lhs:v rhs:v | dpp_ctrl | isa=v_xor_b32 form=dpp16 fmt=VOP2 map=dst,lhs,rhs |
# own: floats
* | v_rcp_iflag_f32 v_fract_f32 v_frexp_mant_f32 v_frexp_exp_i32_f32 | dst:v | input:sv | | <mode |
* | v_ldexp_f32 | dst:v | value:sv exponent:sv | | <mode | src1_inline(exponent=imm32!)
* | v_med3_f32 | dst:v | a:sv b:sv c:sv | | <mode |
* | v_fma_f32_neg_a | dst:v | a:sv b:sv c:sv | | isa=v_fma_f32 <mode mod=neg:1 |
* | v_fma_f32_neg_a_src2_inline | dst:v | a:sv b:sv | c! | isa=v_fma_f32 <mode mod=neg:1 map=dst,a,b,c |
* | v_mul_f64 v_max_f64 v_min_f64 | dst:v2 | lhs:sv2 rhs:sv2 | | <mode class=valu_slow |
* | v_add_f64 | dst:v2 | lhs:sv2 rhs:sv2 | | <mode class=valu_slow |
* | v_add_f64_neg_rhs | dst:v2 | lhs:sv2 rhs:sv2 | | isa=v_add_f64 <mode mod=neg:2 class=valu_slow |
* | v_cvt_f64_f32 v_cvt_f64_i32 v_cvt_f64_u32 | dst:v2 | input:sv | | <mode class=valu_slow |
* | v_cvt_f32_f64 v_cvt_i32_f64 v_cvt_u32_f64 | dst:v | input:sv2 | | <mode class=valu_slow |
* | v_trunc_f64 v_floor_f64 v_ceil_f64 v_rndne_f64 v_rcp_f64 v_rsq_f64 v_sqrt_f64 | dst:v2 | input:sv2 | | <mode class=valu_slow |
* | v_ldexp_f64 | dst:v2 | value:sv2 exponent:sv | | <mode class=valu_slow | src1_inline(exponent=imm32!)
* | v_div_scale_f64 | dst:v2 mask:k | value:sv2 denominator:sv2 numerator:sv2 | | <mode class=valu_slow |
* | v_div_fmas_f64 | dst:v2 | a:sv2 b:sv2 c:sv2 scale_mask:k | | <mode map=dst,a,b,c class=valu_slow |
* | v_div_fixup_f64 | dst:v2 | quotient:sv2 denominator:sv2 numerator:sv2 | | <mode class=valu_slow |
* | v_fma_f64_neg_a | dst:v2 | a:sv2 b:sv2 c:sv2 | | isa=v_fma_f64 <mode mod=neg:1 class=valu_slow |
* | v_div_fixup_f16 | dst:v.low16 | quotient:v denominator:v numerator:v | | <mode |
* | v_cvt_f16_u16 v_cvt_f16_i16 v_floor_f16 v_ceil_f16 v_trunc_f16 v_rndne_f16 v_sqrt_f16 v_rcp_f16 | dst:v | input:v | | <mode |
* | v_max_f16 v_min_f16 | dst:v | lhs:v rhs:v | | <mode |
* | v_cvt_pkrtz_f16_f32 | dst:v | low:sv high:sv | | <mode |
B | v_minimum_f32 v_maximum_f32 | dst:v | lhs:sv rhs:sv | | <mode |
B | v_minimum_f64 v_maximum_f64 | dst:v2 | lhs:sv2 rhs:sv2 | | <mode class=valu_slow |
B | v_minimum_f16 v_maximum_f16 | dst:v | lhs:v rhs:v | | <mode |
"""
