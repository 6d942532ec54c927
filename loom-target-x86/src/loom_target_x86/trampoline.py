"""Machine code that the simulator and the native runner call generated code through.

Both run the very same bytes: one routine that calls a function with any register and stack arguments and
checks that callee-saved registers survive, and one that calls a kernel for every workgroup.
"""

from __future__ import annotations

from functools import lru_cache

from loom_target_x86 import abi, invocation
from loom_target_x86.assembler import Assembler, Code

CALL_SYMBOL = "loom_x86_call"
LAUNCH_SYMBOL = "loom_x86_launch"

_PUSHES = "push_r64 %rbx; push_r64 %rbp; push_r64 %r12; push_r64 %r13; push_r64 %r14; push_r64 %r15"
_POPS = "pop_r64 %r15; pop_r64 %r14; pop_r64 %r13; pop_r64 %r12; pop_r64 %rbp; pop_r64 %rbx"

_LOAD_INTEGERS = "\n".join(
    f"mov_r64_rm64 %{name}, [%rbx + {invocation.FRAME_INTEGERS + 8 * number}]"
    for number, name in enumerate(("rdi", "rsi", "rdx", "rcx", "r8", "r9"))
)
_LOAD_VECTORS = "\n".join(
    f"movups_xmm_xmmm128 %xmm{number}, [%rbx + {invocation.FRAME_VECTORS + 16 * number}]"
    for number in range(abi.VECTOR_ARGUMENT_COUNT)
)
# Values no program computes by accident, so that a clobbered register shows.
_MARK = "\n".join(
    f"mov_r64_imm64 %{name}, #0x5a5aa5a5c3c3{number:04x}"
    for number, name in enumerate(("rbp", "r12", "r13", "r14", "r15"))
)
_CHECK = "\n".join(
    f"mov_r64_imm64 %rdx, #0x5a5aa5a5c3c3{number:04x}; xor_r64_rm64 %rdx, %{name}; or_r64_rm64 %rax, %rdx"
    for number, name in enumerate(("rbp", "r12", "r13", "r14", "r15"))
)

#: `void loom_x86_call(frame *)`: see the `FRAME_` offsets of `invocation`. The frame pointer is in rbx and,
#: in case the callee loses that, on the stack.
CALL_ROUTINE = f"""
{CALL_SYMBOL}:
    {_PUSHES}
    push_r64 %rdi
    mov_r64_rm64 %rbx, %rdi
    // Copy the stack arguments. The area has a fixed size, so that rsp can be restored without a register
    // that the callee might have lost; seven pushes and the return address keep it aligned.
    sub_rm64_imm32 %rsp, #{invocation.STACK_ARGUMENT_LIMIT}
    mov_r64_rm64 %rcx, [%rbx + {invocation.FRAME_STACK_SIZE}]
.copy:
    test_rm64_r64 %rcx, %rcx
    je @.copied
    sub_rm64_imm8 %rcx, #8
    mov_r64_rm64 %rax, [%rbx + %rcx + {invocation.FRAME_STACK}]
    mov_rm64_r64 [%rsp + %rcx], %rax
    jmp @.copy
.copied:
    {_LOAD_VECTORS}
    {_LOAD_INTEGERS}
    {_MARK}
    call_rm64 [%rbx + {invocation.FRAME_ENTRY}]
    add_rm64_imm32 %rsp, #{invocation.STACK_ARGUMENT_LIMIT}
    pop_r64 %rdi
    mov_rm64_r64 [%rdi + {invocation.FRAME_RESULT_INTEGERS}], %rax
    mov_rm64_r64 [%rdi + {invocation.FRAME_RESULT_INTEGERS + 8}], %rdx
    movups_xmmm128_xmm [%rdi + {invocation.FRAME_VECTORS}], %xmm0
    movups_xmmm128_xmm [%rdi + {invocation.FRAME_VECTORS + 16}], %xmm1
    mov_r64_rm64 %rax, %rbx
    xor_r64_rm64 %rax, %rdi
    {_CHECK}
    mov_rm64_r64 [%rdi + {invocation.FRAME_CHANGED_REGISTERS}], %rax
    {_POPS}
    retnq
"""

_NEXT_WORKGROUP = "\n".join(
    f"""
    inc_rm32 [%r14 + {4 * axis}]
    mov_r32_rm32 %eax, [%r14 + {4 * axis}]
    cmp_r32_rm32 %eax, [%r14 + {abi.WORKGROUP_COUNT_OFFSET + 4 * axis}]
    jb @.next
    {f"mov_rm32_imm32 [%r14 + {4 * axis}], #0" if axis < 2 else ""}
    """
    for axis in range(3)
)

#: `void loom_x86_launch(entry, arguments, dispatch)`: calls the kernel for every workgroup, x fastest. The
#: number of workgroups must not be zero.
LAUNCH_ROUTINE = f"""
{LAUNCH_SYMBOL}:
    {_PUSHES}
    sub_rm64_imm8 %rsp, #8
    mov_r64_rm64 %r12, %rdi
    mov_r64_rm64 %r13, %rsi
    mov_r64_rm64 %r14, %rdx
.next:
    mov_r64_rm64 %rdi, %r13
    mov_r64_rm64 %rsi, %r14
    call_rm64 %r12
    {_NEXT_WORKGROUP}
    add_rm64_imm8 %rsp, #8
    {_POPS}
    retnq
"""


@lru_cache(maxsize=1)
def trampolines() -> Code:
    """Both routines, position independent; the entry points are among the labels."""
    assembler = Assembler()
    assembler.assemble(CALL_ROUTINE)
    assembler.align()
    assembler.assemble(LAUNCH_ROUTINE)
    return assembler.finish()
