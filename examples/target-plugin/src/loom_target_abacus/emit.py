"""The artifact format ``abacus-text``: schedule, allocate registers, write assembly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from loom.dialects.low.ops import LowFunction
from loom.ir.core import Module, Op
from loom.ir.diagnostics import fail
from loom.low.allocate import Allocation, AllocationError, allocate
from loom.low.convert import to_machine
from loom.low.machine import Instruction, Kind, Move, VReg
from loom.low.schedule import schedule
from loom.plugins.manager import descriptor_set, load_plugins
from loom.plugins.records import Artifact, EmitRequest, EmitResult, TargetProfile
from loom_target_abacus.descriptors import PREFIXES
from loom_target_abacus.profile import CONTRACT, FAMILY
from loom_target_abacus.select import lower_function


def lower(request: EmitRequest) -> Module:
    """A module with the Low form of every root, for ``--dump-ir-after=source-to-low``."""
    module = Module("abacus")
    for number, root in enumerate(request.roots):
        function = _low_form(root)
        function.blank_before = number > 0
        module.body.append(function)
    return module


def emit(request: EmitRequest) -> EmitResult:
    """Assembly of all roots. Raises :class:`~loom.ir.diagnostics.LoomError` for what the machine cannot do."""
    assert request.target is not None
    lines = [f".machine {request.target.name}"]
    for root in request.roots:
        function = _low_form(root)
        lines += ["", *_assembly(function, _allocated(function, request.target))]
    text = "\n".join(lines) + "\n"
    return EmitResult(Artifact("module.abacus", "target-artifact", text.encode()))


def _low_form(root: Op) -> Any:
    """The root itself when it was authored in Low, otherwise what selection makes of it."""
    if isinstance(root, LowFunction):
        return root.clone({})
    descriptors = descriptor_set(CONTRACT)
    assert descriptors is not None
    return lower_function(root, descriptors)


def _allocated(function: Any, target: TargetProfile) -> Allocation:
    descriptors = descriptor_set(function.contract)
    assert descriptors is not None
    machine = to_machine(function, descriptors)
    # Arguments arrive in a0, a1, ...
    for unit, argument in enumerate(machine.blocks[0].params):
        argument.fixed = unit
    assert target.scheduler is not None
    schedule(machine, load_plugins().schedulers[target.scheduler].make(target))
    try:
        return allocate(machine)
    except AllocationError as error:
        raise fail("TARGET/051", f"'@{function.callee}': {error}", function.loc, emitter=FAMILY) from error


def _assembly(function: Any, allocation: Allocation) -> Iterator[str]:
    yield f".function {function.callee} arguments {len(function.body.entry.args)}"
    for block in allocation.blocks:
        yield f"{block.label}:"
        for item in block.items:
            if isinstance(item, Move):
                for unit in range(item.units):
                    to, source = (item.reg_class, item.dst_unit + unit), (item.src_class, item.src_unit + unit)
                    yield f"  mov {_register(*to)}, {_register(*source)}"
            elif isinstance(item, Instruction) and item.kind is not Kind.LIVE_IN:
                yield "  " + _statement(item, allocation)


# Structural instruction -> its mnemonic.
_STRUCTURAL: Final = {
    Kind.BRANCH: "jump",
    Kind.COND_BRANCH: "branch",
    Kind.RETURN: "ret",
    Kind.SPILL: "put",
    Kind.RELOAD: "get",
}


def _statement(item: Instruction, allocation: Allocation) -> str:
    def name(value: VReg) -> str:
        return _register(value.reg_class, allocation.assign[value])

    mnemonic = item.descriptor.mnemonic if item.descriptor is not None else _STRUCTURAL[item.kind]
    parts = [name(value) for value in (*item.results, *item.operands)]
    if item.descriptor is not None:
        parts += [str(item.immediates[i.name]) for i in item.descriptor.immediates]
    elif item.kind in (Kind.SPILL, Kind.RELOAD):
        parts.append(str(allocation.slots[item.slot].offset))
    parts += [edge.block.label for edge in item.successors]
    return f"{mnemonic} {', '.join(parts)}".rstrip()


def _register(reg_class: str, unit: int) -> str:
    return f"{PREFIXES[reg_class]}{unit}"
