"""Rows of a compile report about scheduled and allocated machine code (language reference, part 3, section 8.6).

Nothing here is kept while compiling: rows are computed from the code when a report with details is asked for. Points
are those of :mod:`loom.low.liveness`: an instruction reads at an even one and writes at the odd one behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from loom.low.allocate import Allocation
from loom.low.descriptors import Descriptor
from loom.low.liveness import Liveness
from loom.low.machine import Block, Function, Instruction, Kind, Move, VReg

Row = dict[str, object]

_ORIGINS: Mapping[Kind, str] = {
    Kind.LIVE_IN: "block-argument",
    Kind.COPY: "copy",
    Kind.ASSUME: "copy",
    Kind.SLICE: "slice",
    Kind.CONCAT: "concat",
    Kind.SPILL: "spill-reload",
    Kind.RELOAD: "spill-reload",
    Kind.RESOURCE: "storage",
}
"""Kind of an instruction without a descriptor -> its origin in the vocabulary of the reference; ``control`` else."""


def operation_name(instruction: Instruction | None) -> str:
    """The descriptor or kind of an instruction; ``block-argument`` where a block begins."""
    if instruction is None:
        return "block-argument"
    return instruction.descriptor.key if instruction.descriptor is not None else instruction.kind.name.lower()


def pressure_rows(name: str, function: Function) -> Iterator[Row]:
    """Per register class, the most units live at once in the scheduled code and the first point where they are."""
    liveness = Liveness(function)
    for reg_class in function.descriptor_set.registers:
        values = [value for value in liveness.order if value.reg_class == reg_class]
        if not values:
            continue
        changes: Counter[int] = Counter()
        for value in values:
            for begin, end in liveness.segments[value]:
                changes[begin] += value.units
                changes[end] -= value.units
        units = most = peak = 0
        for point in sorted(changes):
            units += changes[point]
            if units > most:
                most, peak = units, point
        block, instruction = _at(function, liveness, peak)
        yield {
            "function": name,
            "register_class": reg_class,
            "type_kind": "register",
            "type": f"reg<{reg_class}>",
            "peak_live_units": most,
            "peak_live_values": sum(liveness.live_at(value, peak) for value in values),
            "peak_point": peak,
            "peak_block": block.label,
            "peak_operation": operation_name(instruction),
        }


def _at(function: Function, liveness: Liveness, point: int) -> tuple[Block, Instruction | None]:
    """The block of a point and the instruction there; None at the block's header."""
    number = point // 2
    block = next(b for b in function.blocks if liveness.start[b] <= number < liveness.end[b])
    index = number - liveness.start[block] - 1
    return block, block.instructions[index] if index >= 0 else None


def high_water_rows(name: str, allocation: Allocation) -> Iterator[Row]:
    """Per register class, why its highest unit was taken: what was free below it, and what was not.

    The point is where the first value that reaches the highest unit is defined. Blockers are the values that live
    there, ``fixed`` those with a place that nobody chose. A class whose highest unit only ordered moves has no point.
    """
    function, assign = allocation.function, allocation.assign
    liveness = Liveness(function)
    for reg_class, high in allocation.high_water.items():
        if not high:
            continue
        row: Row = {"function": name, "register_class": reg_class, "high_water_units": high}
        bank = function.descriptor_set.registers[reg_class].bank
        highest = [
            v for v in liveness.order if v.reg_class == reg_class and v in assign and assign[v] + v.units == high
        ]
        if highest:
            value = min(highest, key=lambda v: liveness.segments[v][0][0])
            point = liveness.segments[value][0][0]
            block, instruction = _at(function, liveness, point)
            row |= {
                "value": _spelled(value),
                "point": point,
                "block": block.label,
                "operation": operation_name(instruction),
            }
            row |= _room(value, point, liveness, assign, bank, high)
        yield row


def _room(
    value: VReg, point: int, liveness: Liveness, assign: Mapping[VReg, int], bank: str, high: int
) -> dict[str, int]:
    """What is free below the highest unit at a point, and what else lives there."""
    registers = liveness.function.descriptor_set.registers
    others = [
        v
        for v in liveness.order
        if v is not value and v in assign and registers[v.reg_class].bank == bank and liveness.live_at(v, point)
    ]
    taken = {unit for v in (value, *others) for unit in range(assign[v], assign[v] + v.units)}
    runs = [len(list(group)) for free, group in groupby(range(high), lambda unit: unit not in taken) if free]
    fixed = [v for v in others if v.fixed is not None]
    chosen = [v for v in others if v.fixed is None]
    return {
        "lower_free_units": sum(runs),
        "lower_free_run_count": len(runs),
        "lower_free_longest_run_units": max(runs, default=0),
        "active_value_blocker_count": len(chosen),
        "active_value_blocker_units": sum(v.units for v in chosen),
        "active_fixed_blocker_count": len(fixed),
        "active_fixed_blocker_units": sum(v.units for v in fixed),
    }


def _spelled(value: VReg) -> str:
    return f"%{value.name or value.id}"


def move_causes(allocation: Allocation) -> dict[str, object]:
    """The group ``move_causes``: moves that leaving SSA took, and the units they move, by what asked for them."""
    packets: Counter[str] = Counter()
    units: Counter[str] = Counter()
    for final in allocation.blocks:
        moves = [item for item in final.items if not isinstance(item, Instruction)]
        for move, cause in zip(moves, final.causes, strict=True):
            packets[cause] += 1
            units[cause] += move.units if isinstance(move, Move) else 1
    causes = [{"cause": cause, "packet_count": packets[cause], "unit_count": units[cause]} for cause in sorted(packets)]
    return {
        "kind_count": len(packets),
        "packet_count": packets.total(),
        "unit_count": units.total(),
        "causes": causes,
    }


def band_rows(
    name: str,
    function: Function,
    source_order: Mapping[Block, Sequence[Instruction]],
    origin_of: Callable[[Descriptor], str],
    mix_of: Callable[[Descriptor], Mapping[str, int]],
) -> Iterator[Row]:
    """Bands of the schedule: neighbours of one origin, in scheduled order.

    Args:
        name: the function's name in the rows.
        function: the scheduled code.
        source_order: the instructions of every block before.
        origin_of: the origin of a packet in the vocabulary of the reference.
        mix_of: what a packet adds to a static instruction mix.
    """

    def origin(instruction: Instruction) -> str:
        if instruction.descriptor is not None:
            return origin_of(instruction.descriptor)
        return _ORIGINS.get(instruction.kind, "control")

    ordinal = 0
    for block_index, block in enumerate(function.blocks):
        index = {instruction: number for number, instruction in enumerate(source_order[block])}
        for kind, members in groupby(block.instructions, origin):
            band = list(members)
            mix: Counter[str] = Counter()
            for instruction in band:
                if instruction.descriptor is not None:
                    mix.update(mix_of(instruction.descriptor))
            results = [value for instruction in band for value in instruction.results]
            row: Row = {
                "function": name,
                "block": block.label,
                "block_index": block_index,
                "first_packet_index": min(index[instruction] for instruction in band),
                "first_scheduled_ordinal": ordinal,
                "node_count": len(band),
                "origin_kind": kind,
                "origin_operation": operation_name(band[0]),
                "static_instruction_mix": dict(sorted(mix.items())),
                "result_value_count": len(results),
                "result_unit_count": sum(value.units for value in results),
            }
            if results:
                row["sample_value"] = _spelled(results[0])
            yield row
            ordinal += len(band)


def band_summary_rows(bands: Sequence[Row]) -> Iterator[Row]:
    """Per function, block and origin, how many bands there are and how long the longest is."""
    groups: dict[tuple[object, object, object], list[Row]] = {}
    for band in bands:
        groups.setdefault((band["function"], band["block_index"], band["origin_kind"]), []).append(band)
    for (name, block_index, kind), members in groups.items():
        counts = [_figure(member, "node_count") for member in members]
        yield {
            "function": name,
            "block": members[0]["block"],
            "block_index": block_index,
            "origin_kind": kind,
            "band_count": len(members),
            "max_band_node_count": max(counts),
            "node_count": sum(counts),
            "result_value_count": sum(_figure(member, "result_value_count") for member in members),
            "result_unit_count": sum(_figure(member, "result_unit_count") for member in members),
        }


def _figure(row: Row, name: str) -> int:
    value = row[name]
    assert isinstance(value, int)
    return value
