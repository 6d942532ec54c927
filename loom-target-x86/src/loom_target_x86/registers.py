"""Register classes of x86-64 and the names of their physical registers.

A unit is one whole architectural register and its number is the hardware encoding (Intel SDM volume 2,
section 2.2.1.2, tables of register codes): unit 0 of the bank `x86.gpr` is rax, 1 is rcx, 4 is rsp.
`x86.gpr32` and `x86.gpr64` name the same sixteen registers, `x86.xmm` and `x86.ymm` the same sixteen
vector registers; classes of one bank interfere.

Instructions that insist on one register (divisions on rax and rdx, variable shifts on cl) use *singleton
classes*: classes of the same bank in which every register but one is reserved. The allocator needs no
special rule for them, a clobber is a dead early-clobber result of a singleton class, and authored text can
name them like any other class. Two things keep such values from meeting: selection copies into and out of
singleton classes right at the packet, in one locked sequence that the scheduler cannot interleave with
another, and a function's arguments are copied out of their registers before anything else.
"""

from __future__ import annotations

from functools import lru_cache

from loom.low.descriptors import RegisterClass

GPR_BANK = "x86.gpr"
VECTOR_BANK = "x86.vector"
REGISTER_COUNT = 16

STACK_POINTER = 4
#: rbx, rbp, r12-r15: a called function leaves them as they are (System V psABI, section 3.2.1).
CALLEE_SAVED = frozenset({3, 5, 12, 13, 14, 15})

GPR64_NAMES = (
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
)  # fmt: skip
GPR32_NAMES = (
    "eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi",
    "r8d", "r9d", "r10d", "r11d", "r12d", "r13d", "r14d", "r15d",
)  # fmt: skip
GPR16_NAMES = (
    "ax", "cx", "dx", "bx", "sp", "bp", "si", "di",
    "r8w", "r9w", "r10w", "r11w", "r12w", "r13w", "r14w", "r15w",
)  # fmt: skip
# Low bytes only: with a REX prefix codes 4-7 mean spl..dil, never ah..bh.
GPR8_NAMES = (
    "al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil",
    "r8l", "r9l", "r10l", "r11l", "r12l", "r13l", "r14l", "r15l",
)  # fmt: skip
XMM_NAMES = tuple(f"xmm{unit}" for unit in range(REGISTER_COUNT))
YMM_NAMES = tuple(f"ymm{unit}" for unit in range(REGISTER_COUNT))

#: Register names by the width letter used in encoding templates.
NAMES_BY_WIDTH: dict[str, tuple[str, ...]] = {
    "b": GPR8_NAMES,
    "w": GPR16_NAMES,
    "d": GPR32_NAMES,
    "q": GPR64_NAMES,
    "x": XMM_NAMES,
    "y": YMM_NAMES,
}

#: Singleton classes: name -> (width letter, unit).
SINGLETONS: dict[str, tuple[str, int]] = {
    "x86.eax": ("d", 0),
    "x86.ecx": ("d", 1),
    "x86.edx": ("d", 2),
    "x86.rax": ("q", 0),
    "x86.rcx": ("q", 1),
    "x86.rdx": ("q", 2),
    "x86.xmm0": ("x", 0),
    "x86.xmm1": ("x", 1),
    "x86.xmm2": ("x", 2),
}

#: Width letter of each class.
WIDTH_OF_CLASS: dict[str, str] = {
    "x86.gpr32": "d",
    "x86.gpr64": "q",
    "x86.xmm": "x",
    "x86.ymm": "y",
    **{name: width for name, (width, _unit) in SINGLETONS.items()},
}

_BITS = {"d": 32, "q": 64, "x": 128, "y": 256}


def register_name(reg_class: str, unit: int) -> str:
    """The assembler name of one physical register, e.g. `("x86.gpr32", 9)` -> `r9d`."""
    return NAMES_BY_WIDTH[WIDTH_OF_CLASS[reg_class]][unit]


@lru_cache(maxsize=1)
def _all_classes() -> dict[str, RegisterClass]:
    classes: dict[str, RegisterClass] = {}
    for name, width in WIDTH_OF_CLASS.items():
        vector = width in "xy"
        reserved = frozenset() if vector else frozenset({STACK_POINTER})
        if name in SINGLETONS:
            reserved = frozenset(range(REGISTER_COUNT)) - {SINGLETONS[name][1]}
        classes[name] = RegisterClass(
            name=name,
            unit_bits=_BITS[width],
            count=REGISTER_COUNT,
            bank=VECTOR_BANK if vector else GPR_BANK,
            reserved=reserved,
        )
    return classes


def register_classes(*, vector: bool, wide: bool) -> dict[str, RegisterClass]:
    """The classes of a profile: always the general registers, `vector` adds xmm, `wide` adds ymm."""
    letters = "dq" + ("x" if vector else "") + ("y" if wide else "")
    return {name: cls for name, cls in _all_classes().items() if WIDTH_OF_CLASS[name] in letters}
