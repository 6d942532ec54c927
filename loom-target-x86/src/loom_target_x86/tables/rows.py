"""How a row of the instruction tables becomes a descriptor.

A row's signature reads like the instruction itself: `dst:gpr32=lhs <- lhs:gpr32, rhs:gpr32 ; shift`.
Names are followed by their register class (without the `x86.` prefix), a result by `=operand` when it
shares that operand's register and by `&` when it is written before all operands are read; immediates follow
the semicolon. Traits are words (see `TRAITS`), and words of the form `cpu:feature` name what the processor
must have beyond the profile's baseline.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from loom.low.descriptors import Descriptor, Effects, ImmediateDescriptor, OperandDescriptor
from loom_target_x86.encode import Encoding

_INT32 = (-(1 << 31), (1 << 31) - 1)

#: Word in a signature -> immediate; `shift32` and `shift64` are both called `shift` in text.
IMMEDIATES: dict[str, ImmediateDescriptor] = {
    "shift32": ImmediateDescriptor("shift", minimum=0, maximum=31),
    "shift64": ImmediateDescriptor("shift", minimum=0, maximum=63),
}
IMMEDIATES.update(
    (immediate.name, immediate)
    for immediate in (
        ImmediateDescriptor("disp32", minimum=_INT32[0], maximum=_INT32[1]),
        ImmediateDescriptor("scale", minimum=1, maximum=8),
        ImmediateDescriptor("imm32", positional=True, minimum=_INT32[0], maximum=(1 << 32) - 1),
        ImmediateDescriptor("imm64", positional=True, minimum=-(1 << 63), maximum=(1 << 64) - 1),
        # Sign-extended to the operand size; never more than 32 bits.
        ImmediateDescriptor("value", positional=True, minimum=_INT32[0], maximum=_INT32[1]),
        ImmediateDescriptor("lane", positional=True, minimum=0, maximum=15),
        ImmediateDescriptor("control", positional=True, minimum=0, maximum=255),
        ImmediateDescriptor("symbol", kind="symbol", positional=True),
        ImmediateDescriptor("target_block", kind="block", positional=True),
    )
)

TRAITS = frozenset(
    {
        "flags",  # leaves the arithmetic flags changed
        "reads-flags",
        "load",
        "store",
        "commutes",  # lhs and rhs may be exchanged
        "remat",
        "atomic",
        "terminator",
        "constant",  # reads memory that nobody writes
        "call",  # may do anything; takes any number of operands after the declared ones
    }
)


class Row(NamedTuple):
    """One instruction: spelling, signature, template, traits, schedule class, and how it sets or takes flags."""

    mnemonic: str
    signature: str
    template: str
    traits: str = ""
    schedule: str = "alu"
    flags: str | None = None
    condition: str = ""
    on_flags: str = ""


@cache
def _operand(text: str) -> OperandDescriptor:
    early = text.endswith("&")
    name, _, rest = text.rstrip("&").partition(":")
    register_class, _, tied = rest.partition("=")
    return OperandDescriptor(name, (f"x86.{register_class}",), tied=tied or None, early_clobber=early)


def _operands(text: str) -> tuple[OperandDescriptor, ...]:
    return tuple(_operand(part.strip()) for part in text.split(",") if part.strip())


@cache
def _effects(traits: str) -> Effects:
    words = set(traits.split())
    unknown = {word for word in words if word not in TRAITS and not word.startswith("cpu:")}
    if unknown:
        raise ValueError(f"unknown trait {sorted(unknown)[0]!r}")
    call = "call" in words
    # x86 has one address space: every access may touch any memory.
    reads = {"generic"} if words & {"atomic", "load", "call"} else set()
    return Effects(
        reads=frozenset(reads | {"constant"} if "constant" in words else reads),
        writes=frozenset({"generic"}) if words & {"atomic", "store", "call"} else frozenset(),
        implicit_reads=("flags",) if "reads-flags" in words else (),
        implicit_writes=("flags",) if "flags" in words else (),
        side_effects=call,
        terminator="terminator" in words,
    )


def descriptor(row: Row) -> Descriptor:
    """The descriptor of one table row."""
    shape, _, immediates = row.signature.partition(";")
    results, _, operands = shape.partition("<-")
    words = row.traits.split()
    return Descriptor(
        key=f"x86.{row.mnemonic}",
        mnemonic=row.mnemonic,
        results=_operands(results),
        operands=_operands(operands),
        immediates=tuple(IMMEDIATES[name] for name in immediates.split()),
        effects=_effects(row.traits),
        schedule_class=row.schedule,
        features=frozenset(word[4:] for word in words if word.startswith("cpu:")),
        commutative=("lhs", "rhs") if "commutes" in words else None,
        rematerializable="remat" in words,
        encoding=Encoding(row.template, row.flags, row.condition, row.on_flags),
        variadic_operands="call" in words,
    )


def descriptors(rows: Iterable[Row]) -> list[Descriptor]:
    """The descriptors of a table."""
    return [descriptor(row) for row in rows]
