"""Encoding templates: the small assembly notation of the descriptor tables and of hand-written routines.

A template is a sequence of steps separated by `;` or new lines (`//` starts a comment):

    code operand, operand, …      one machine instruction; `code` names an iced-x86 code value in lower case,
                                  that is, an exact opcode and operand form (`add_r32_rm32`)
    lock code operand, …          the same with a lock prefix
    name:                         a label, private to one expansion when its name starts with a dot
    jmp @name · j<cc> @name · call @name · lea_label reg, @name

Operands: `lhs` or `lhs.b` (a register operand of the descriptor, with a width letter of `registers`),
`%rax` (a physical register), `#imm` or `#-1` (an immediate of the descriptor, or a number),
`[base + index*scale + disp32]` (terms are register operands, physical registers, immediates of the
descriptor and numbers), `[=symbol]` (the rip-relative address of the symbol that the immediate names).

Codes that end in `_imm` choose the shortest immediate form at encoding time.
"""

from __future__ import annotations

import re
from functools import cache

from attrs import frozen

from loom_target_x86.registers import NAMES_BY_WIDTH

CONDITIONS = (
    "o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p", "np", "l", "ge", "le", "g",
)  # fmt: skip

_PHYSICAL: dict[str, tuple[str, int]] = {
    name: (width, unit) for width, names in NAMES_BY_WIDTH.items() for unit, name in enumerate(names)
}


@frozen
class RegisterRef:
    """A register: an operand or result of the descriptor (`name`) or a physical one (`unit`)."""

    name: str | None
    width: str | None
    unit: int | None = None


@frozen
class ImmediateRef:
    """A number, or an immediate of the descriptor by name."""

    name: str | None
    value: int = 0


@frozen
class MemoryRef:
    """`base + index*scale + displacements`, or a rip-relative symbol."""

    base: RegisterRef | None = None
    index: RegisterRef | None = None
    scale: ImmediateRef | None = None
    displacements: tuple[ImmediateRef, ...] = ()
    symbol: str | None = None


Operand = RegisterRef | ImmediateRef | MemoryRef


@frozen
class InstructionStep:
    """One machine instruction."""

    code: str
    operands: tuple[Operand, ...]
    lock: bool = False


@frozen
class LabelStep:
    """A label at this place; names that start with a dot are private to one expansion."""

    name: str


@frozen
class BranchStep:
    """`jmp`, `call` or a condition of `CONDITIONS`; `name` is a label, or an immediate of the descriptor."""

    kind: str
    name: str


Step = InstructionStep | LabelStep | BranchStep


class TemplateError(ValueError):
    """A template that does not follow the notation: a mistake in a table, never in user input."""


_TERM = re.compile(r"(%?[\w]+|-?\d+)(?:\s*\*\s*(\w+))?$")


def _register(text: str) -> RegisterRef:
    if text.startswith("%"):
        if text[1:] not in _PHYSICAL:
            raise TemplateError(f"unknown physical register {text}")
        width, unit = _PHYSICAL[text[1:]]
        return RegisterRef(None, width, unit)
    name, _, suffix = text.partition(".")
    return RegisterRef(name, suffix or None)


def _immediate(text: str) -> ImmediateRef:
    try:
        return ImmediateRef(None, int(text, 0))
    except ValueError:
        return ImmediateRef(text)


def _memory(text: str, registers: frozenset[str]) -> MemoryRef:
    if text.startswith("="):
        return MemoryRef(symbol=text[1:])
    base: RegisterRef | None = None
    index: RegisterRef | None = None
    scale: ImmediateRef | None = None
    displacements: list[ImmediateRef] = []
    for term in text.replace("-", "+-").split("+"):
        if not term.strip():
            continue
        match = _TERM.match(term.strip().replace("- ", "-"))
        if match is None:
            raise TemplateError(f"memory term {term!r}")
        name, factor = match.groups()
        is_register = name.startswith("%") or name in registers
        if factor is not None:
            index, scale = _register(name), _immediate(factor)
        elif is_register and base is None:
            base = _register(name)
        elif is_register:
            index, scale = _register(name), ImmediateRef(None, 1)
        else:
            displacements.append(_immediate(name))
    return MemoryRef(base, index, scale, tuple(displacements))


def _operand(text: str, registers: frozenset[str]) -> Operand:
    if text.startswith("["):
        if not text.endswith("]"):
            raise TemplateError(f"memory operand {text!r}")
        return _memory(text[1:-1].strip(), registers)
    if text.startswith("#"):
        return _immediate(text[1:])
    return _register(text)


@cache
def parse_template(text: str, registers: frozenset[str] = frozenset()) -> tuple[Step, ...]:
    """The steps of a template; `registers` are the names that mean registers inside brackets.

    Raises `TemplateError` for text outside the notation.
    """
    steps: list[Step] = []
    bare = re.sub(r"//[^\n]*", "", text)
    for line in map(str.strip, re.split(r"[;\n]", bare)):
        if not line:
            continue
        if line.endswith(":"):
            steps.append(LabelStep(line[:-1]))
            continue
        head, _, rest = line.partition(" ")
        lock = head == "lock"
        if lock:
            head, _, rest = rest.strip().partition(" ")
        rest = rest.strip()
        if rest.startswith("@"):
            kind = head if head in ("jmp", "call") else head.removeprefix("j")
            if kind not in ("jmp", "call") and kind not in CONDITIONS:
                raise TemplateError(f"branch {line!r}")
            steps.append(BranchStep(kind, rest[1:]))
            continue
        operands = tuple(_operand(part.strip(), registers) for part in rest.split(",")) if rest else ()
        steps.append(InstructionStep(head, operands, lock))
    return tuple(steps)
