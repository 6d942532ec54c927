"""Instructions of authored counted loops in general registers."""

from __future__ import annotations

from loom.ir.core import Op, Value
from loom.ir.types import RegType
from loom.low.assembly import make_packet
from loom.low.descriptors import DescriptorSet
from loom.low.structured import LoopArithmetic

_COUNTERS = ("x86.gpr32", "x86.gpr64")
_CONDITION = RegType("x86.gpr32")


def loop_arithmetic(descriptor_set: DescriptorSet) -> LoopArithmetic:
    """Comparison and addition of 32-bit and 64-bit registers."""

    def packet(operation: str, result: RegType | None, before: Op, a: Value, b: Value) -> Value | None:
        type_ = a.type
        if not isinstance(type_, RegType) or type_.reg_class not in _COUNTERS:
            return None
        descriptor = descriptor_set.by_mnemonic[f"{operation}.{type_.reg_class.removeprefix('x86.')}"]
        made = make_packet(descriptor, [a, b], {}, [result or type_], before.loc)
        made.insert_before(before)
        return made.results[0]

    return LoopArithmetic(
        less=lambda before, a, b: packet("cmp.slt", _CONDITION, before, a, b),
        add=lambda before, a, b: packet("add", None, before, a, b),
    )
