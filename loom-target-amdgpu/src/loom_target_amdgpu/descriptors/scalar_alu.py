"""Scalar arithmetic, logic, comparisons and moves (language reference, part 3, section 14.1).

Rows marked "own" are not in the reference: the compiler needs them, and they follow its naming rules.
"""

# ruff: noqa: E501 - one instruction family per line, however long

from __future__ import annotations

from typing import Final

SCALAR_ALU: Final = """
* | s_add_u32 | dst:s | lhs:s rhs:s | | >scc swap | rhs_inline(rhs=imm32!) rhs_lit(rhs=imm32!)
* | s_sub_u32 | dst:s | lhs:s rhs:s | | >scc | rhs_inline(rhs=imm32!) rhs_lit(rhs=imm32!)
* | s_addc_u32 | sum:s | lhs:s rhs:s | | <scc >scc | rhs_inline(rhs=imm32!) rhs_lit(rhs=imm32!)
34Aa | s_addk_i32 | dst:s=lhs | lhs:s | imm16! | >scc |
B | s_addk_co_i32=s_addk_i32 | dst:s=lhs | lhs:s | imm16! | >scc |
* | s_mul_i32 | dst:s | lhs:s rhs:s | | swap | rhs_inline(rhs=imm32!) rhs_lit(rhs=imm32!)
* | s_mulk_i32 | dst:s=lhs | lhs:s | imm16! | |
* | s_mul_hi_u32 | dst:s | lhs:s rhs:s | | swap |
* | s_min_i32 s_max_i32 s_min_u32 s_max_u32 | dst:s | lhs:s rhs:s | | >scc swap | rhs_inline(rhs=imm32!) rhs_lit(rhs=imm32!)
* | s_cselect_b32 | dst:s | true_value:s false_value:s condition:c | | map=dst,true_value,false_value |
* | s_cmp_eq_i32 s_cmp_lg_i32 s_cmp_lt_i32 s_cmp_le_i32 s_cmp_gt_i32 s_cmp_ge_i32 s_cmp_lt_u32 s_cmp_le_u32 s_cmp_gt_u32 s_cmp_ge_u32 | scc:c | lhs:s rhs:s | | map=lhs,rhs | rhs_inline(rhs=imm32!) rhs_lit(rhs=imm32!)
* | s_cmp_eq_u64 s_cmp_lg_u64 | scc:c | lhs:s2 rhs:s2 | | map=lhs,rhs |
* | s_and_saveexec_b64 | saved_exec:s2 active:c | mask:s2 | | <exec >exec map=saved_exec,mask |
* | s_and_b32 s_or_b32 s_xor_b32 | dst:s | lhs:s rhs:s | | >scc swap | rhs_inline(rhs=imm32!) rhs_lit(rhs=imm32!)
* | s_and_b64 s_or_b64 s_xor_b64 | dst:s2 | lhs:s2 rhs:s2 | | >scc swap |
* | s_lshl_b32 s_lshr_b32 s_ashr_i32 | dst:s | lhs:s rhs:s | | >scc | rhs_inline(rhs=imm32!)
* | s_lshl_b64 s_lshr_b64 | dst:s2 | value:s2 shift:s | | >scc | shift_inline(shift=imm32!)
* | s_bfe_u32 s_bfe_i32 | dst:s | value:s control:s | | >scc | lit(control=imm32!)
aB | s_fmaak_f32 | dst:s | a:s b:s | imm32! | |
aB | s_fmamk_f32 | dst:s | a:s c:s | imm32! | map=dst,a,imm32,c |
aB | s_fmac_f32 | dst:s=acc | acc:s a:s b:s | | |
aB | s_fmac_f16 | dst:s.low16=acc | acc:s.low16 a:s.low16 b:s.low16 | | |
* | s_mov_b32 | dst:s | | imm32! | once |
* | s_mov_b32_m0 | dst:m | src:s | | isa=s_mov_b32 |
* | s_mov_b32_m0_imm=s_mov_b32_m0.imm | dst:m | | imm32! | isa=s_mov_b32 once |
* | s_getpc_b64 | pc:s2 | | | side |
* | s_mov_b64_exec | | src:s2 | | isa=s_mov_b64 map=exec,src >exec side |
* | s_mov_b64_exec_full=s_mov_b64_exec.full | | | | isa=s_mov_b64 map=exec,all >exec side |
* | s_mov_b64_exec_read | dst:s2 | | | isa=s_mov_b64 map=dst,exec <exec |
* | s_xor_b64_exec | active:c | src:s2 | | isa=s_xor_b64 map=exec,exec,src <exec >exec side |
* | s_mov_b64_shared_base | dst:s2 | | | isa=s_mov_b64 map=dst,src_shared_base |
B | s_sendmsg_rtn_b64 | dst:s2 | | message | side map=dst,message |
Aa | s_sendmsg_rtn_b32 | dst:s | | message | side map=dst,message |
B | s_sendmsg_rtn_b32 | dst:s | | message | side map=dst,message |
# own
* | s_mov_b32_copy | dst:s | src:s | | isa=s_mov_b32 |
* | s_mov_b64_copy | dst:s2 | src:s2 | | isa=s_mov_b64 |
* | s_mov_b64_inline | dst:s2 | | imm32! | isa=s_mov_b64 once |
* | s_subb_u32 | difference:s | lhs:s rhs:s | | <scc >scc | rhs_inline(rhs=imm32!) rhs_lit(rhs=imm32!)
* | s_cselect_b64_inline | dst:s2 | condition:c | true_value! false_value! | isa=s_cselect_b64 map=dst,true_value,false_value |
* | s_cselect_b32_inline | dst:s | condition:c | true_value! false_value! | isa=s_cselect_b32 map=dst,true_value,false_value |
* | s_cselect_b32_false_inline | dst:s | true_value:s condition:c | false_value! | isa=s_cselect_b32 map=dst,true_value,false_value |
* | s_cselect_b32_true_inline | dst:s | false_value:s condition:c | true_value! | isa=s_cselect_b32 map=dst,true_value,false_value |
* | s_cselect_b64 | dst:s2 | true_value:s2 false_value:s2 condition:c | | map=dst,true_value,false_value |
* | s_andn2_b64 | dst:s2 | lhs:s2 rhs:s2 | | >scc |
* | s_and_b64_exec | dst:s2 any:c | src:s2 | | isa=s_and_b64 map=dst,exec,src <exec |
* | s_or_b64_exec | dst:s2 | src:s2 | | isa=s_or_b64 map=dst,exec,src <exec >scc |
* | s_ashr_i64 | dst:s2 | value:s2 shift:s | | >scc | shift_inline(shift=imm32!)
* | s_abs_i32 s_not_b32 | dst:s | src:s | | >scc |
* | s_not_b64 | dst:s2 | src:s2 | | >scc |
* | s_bcnt1_i32_b32 | dst:s | src:s | | >scc |
* | s_bcnt1_i32_b64 | dst:s | src:s2 | | >scc |
* | s_ff1_i32_b32 s_flbit_i32_b32 | dst:s | src:s | | |
* | s_sext_i32_i8 s_sext_i32_i16 | dst:s | src:s | | |
* | s_mul_hi_i32 | dst:s | lhs:s rhs:s | | swap |
"""
