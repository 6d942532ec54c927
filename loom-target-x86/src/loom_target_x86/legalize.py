"""From Low as it reads to Low whose every operation is a packet: storage on the stack, calls, fixed registers.

Changes the function in place, so it works on a copy that nobody wants to print any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from loom.dialects.low import ops as low
from loom.ir.core import Op, Value
from loom.ir.diagnostics import fail
from loom.ir.types import RegType
from loom.low.assembly import make_packet
from loom.low.descriptors import DescriptorSet
from loom.low.storage import reserved_range
from loom_target_x86.registers import SINGLETONS

STACK_ALIGNMENT: Final = 16
CALL: Final = "x86.call"


@attrs.frozen(eq=False)
class Legalized:
    """`storage_bytes` of the frame are the function's own; `locks` keeps packets with fixed registers and their
    copies together."""

    storage_bytes: int
    locks: Mapping[Op, int]


def legalize(function: low.LowFunction, descriptor_set: DescriptorSet, symbols: Mapping[str, str]) -> Legalized:
    """Replace structural operations; `symbols` maps functions to their names in the object.

    Raises `LoomError` for storage that is not on the stack.
    """
    size = _place_storage(function, descriptor_set)
    for op in list(function.walk()):
        if isinstance(op, low.Call):
            _replace_call(op, descriptor_set, symbols)
    return Legalized(size, _fixed_groups(function, descriptor_set))


def _place_storage(function: low.LowFunction, descriptor_set: DescriptorSet) -> int:
    offsets: dict[Value, tuple[int, int]] = {}
    end = 0
    for op in list(function.walk()):
        if isinstance(op, low.StorageReserve):
            if op.result.type.text not in ("low.storage<stack>", "low.storage<private>"):
                raise fail(
                    "TARGET/056",
                    f"{op.result.type} has no place in an x86 function; storage is on the stack",
                    op.loc,
                    emitter="x86-object",
                    function_name=function.callee,
                    actual_type=str(op.result.type),
                    expected_constraint="low.storage<stack>",
                )
            alignment = int(op.facts["byte_alignment"])  # type: ignore[call-overload]  # an integer by its syntax
            length = int(op.facts["byte_length"])  # type: ignore[call-overload]
            end += -end % STACK_ALIGNMENT
            offsets[op.result] = (end, alignment)
            # The stack is aligned to 16; a stricter place is found inside a larger range.
            end += length + max(0, alignment - STACK_ALIGNMENT)
    for op in list(function.walk()):
        if isinstance(op, low.StorageAddress | low.Spill | low.Reload):
            root, offset = reserved_range(op.storage, op.offset)
            begin, alignment = offsets[root]
            address = _address(op, descriptor_set, begin, alignment, offset)
            if isinstance(op, low.StorageAddress):
                op.replace_with([address])
            else:
                _transfer(op, descriptor_set, address)
    for op in reversed(list(function.walk())):
        if isinstance(op, low.StorageReserve | low.StorageView):
            op.erase()
    return end + -end % STACK_ALIGNMENT


#: Register class -> how the instructions that move a whole register to and from memory may be called.
_TRANSFERS: Final = {
    "x86.gpr32": ("mov",),
    "x86.gpr64": ("mov",),
    "x86.xmm": ("vmovdqu32", "movups"),
    "x86.ymm": ("vmovdqu32",),
    "x86.zmm": ("vmovdqu32",),
}


def _transfer(op: low.Spill | low.Reload, descriptor_set: DescriptorSet, address: Value) -> None:
    """A spill becomes a store to the address, a reload a load from it."""
    type_ = (op.value if isinstance(op, low.Spill) else op.result).type
    assert isinstance(type_, RegType)
    direction = "store" if isinstance(op, low.Spill) else "load"
    suffix = type_.reg_class.removeprefix("x86.")
    names = [f"{name}.{direction}.{suffix}" for name in _TRANSFERS.get(type_.reg_class, ())]
    found = next((name for name in names if name in descriptor_set.by_mnemonic), None)
    if found is None:
        raise fail(
            "TARGET/054",
            f"'{op.name}': {type_} cannot be kept in memory",
            op.loc,
            emitter="x86-object",
            subject_kind=op.name,
        )
    values = [op.value, address] if isinstance(op, low.Spill) else [address]
    types = [type_] if isinstance(op, low.Reload) else []
    made = make_packet(descriptor_set.by_mnemonic[found], values, {"disp32": 0}, list(types), op.loc)
    made.insert_before(op)
    op.replace_with(made.results)


def _address(op: Any, descriptor_set: DescriptorSet, begin: int, alignment: int, offset: int) -> Value:
    register = RegType("x86.gpr64")

    def packet(mnemonic: str, operands: list[Value], **immediates: object) -> Value:
        made = make_packet(descriptor_set.by_mnemonic[mnemonic], operands, immediates, [register], op.loc)
        made.insert_before(op)
        return made.results[0]

    if alignment <= STACK_ALIGNMENT:
        return packet("lea.frame", [], disp32=begin + offset)
    value = packet("lea.frame", [], disp32=begin + alignment - STACK_ALIGNMENT)
    value = packet("and.imm.gpr64", [value], value=-alignment)
    return packet("lea.disp", [value], disp32=offset) if offset else value


def _replace_call(op: Any, descriptor_set: DescriptorSet, symbols: Mapping[str, str]) -> None:
    descriptor = descriptor_set.by_key[CALL]
    types = [result.type for result in op.results]
    packet = make_packet(descriptor, list(op.operands), {"symbol": symbols[op.callee]}, types, op.loc)
    packet.insert_before(op)
    op.replace_with(packet.results)


def _fixed_groups(function: low.LowFunction, descriptor_set: DescriptorSet) -> dict[Op, int]:
    """Number the packets that insist on a register, with the copies directly around them that fetch and free it.

    Between the members of a group nothing else may want that register.
    """
    locks: dict[Op, int] = {}
    for op in function.walk():
        if not isinstance(op, low.Packet):
            continue
        descriptor = descriptor_set.by_key.get(op.key)
        if descriptor is None or not any(
            o.classes[0] in SINGLETONS for o in (*descriptor.operands, *descriptor.results)
        ):
            continue
        number = len(locks) + 1
        locks[op] = number
        before, after = op.prev, op.next
        while isinstance(before, low.Copy) and before not in locks and before.result in op.operands:
            locks[before] = number
            before = before.prev
        while isinstance(after, low.Copy) and after.input in op.results:
            locks[after] = number
            after = after.next
    return locks
