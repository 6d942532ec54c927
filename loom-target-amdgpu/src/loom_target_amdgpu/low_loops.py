"""Instructions of authored counted loops: scalar registers count, the scalar condition decides."""

from __future__ import annotations

from loom.ir.core import Op, Value
from loom.ir.types import RegType
from loom.low.assembly import make_packet
from loom.low.descriptors import DescriptorSet
from loom.low.structured import LoopArithmetic

_COUNTER = RegType("amdgpu.sgpr")
_CONDITION = RegType("amdgpu.scc")


def loop_arithmetic(descriptor_set: DescriptorSet) -> LoopArithmetic:
    """Comparison and addition of 32-bit scalar registers."""

    def packet(mnemonic: str, result: RegType, before: Op, a: Value, b: Value) -> Value | None:
        if a.type != _COUNTER:
            return None
        made = make_packet(descriptor_set.by_mnemonic[mnemonic], [a, b], {}, [result], before.loc)
        made.insert_before(before)
        return made.results[0]

    return LoopArithmetic(
        less=lambda before, a, b: packet("s_cmp_lt_i32", _CONDITION, before, a, b),
        add=lambda before, a, b: packet("s_add_u32", _COUNTER, before, a, b),
    )
