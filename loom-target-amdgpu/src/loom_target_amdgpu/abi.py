"""How a kernel receives its arguments and ids (language reference, part 3, sections 4.9, 6.3 and 6.4)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final

from loom.ir.attributes import Dictionary
from loom.ir.core import Value
from loom.ir.diagnostics import Location, fail
from loom.ir.records import record
from loom.ir.types import BUFFER, ScalarType, ShapedType, Type
from loom_target_amdgpu.profiles import Generation, WorkgroupIds

POINTER_SIZE: Final = 8
KERNARG: Final = "amdgpu.kernarg_segment_ptr"
DISPATCH: Final = "amdgpu.dispatch_ptr"
DATA: Final = "amdgpu.data."
"""Key of the address of constant data, which the immediate ``symbol`` names; a number makes keys distinct."""
DATA_ALIGNMENT: Final = 16
"""Alignment of constant data that asks for none."""
M0: Final = "amdgpu.m0"
AXES: Final = "xyz"
# User SGPR pairs in register order, with the name that the kernel descriptor knows.
USER_PAIRS: Final = (
    (DISPATCH, "dispatch_ptr"),
    (KERNARG, "kernarg_segment_ptr"),
    ("amdgpu.dispatch_id", "dispatch_id"),
)
WORKGROUP_ID: Final = "amdgpu.workgroup_id."
WORKITEM_ID: Final = "amdgpu.workitem_id."
PACKED: Final = {"amdgpu.workitem_id.packed.xy": 1, "amdgpu.workitem_id.packed.xyz": 2}

# Places in the dispatch packet (HSA "AQL kernel dispatch packet"): sizes in work-items.
PACKET_WORKGROUP_SIZE: Final = {"x": 4, "y": 6, "z": 8}
PACKET_GRID_SIZE: Final = {"x": 12, "y": 16, "z": 20}


@record
class Parameter:
    """One launch parameter in the argument segment: byte ``offset`` and ``size``; a buffer holds an address."""

    index: int
    name: str | None
    offset: int
    size: int
    is_buffer: bool


@record
class KernargLayout:
    """The argument segment of a kernel: its parameters in order and its size in bytes."""

    parameters: tuple[Parameter, ...]
    size: int

    @property
    def buffers(self) -> tuple[Parameter, ...]:
        """The parameters that are buffers, in order."""
        return tuple(p for p in self.parameters if p.is_buffer)

    @property
    def scalars(self) -> tuple[Parameter, ...]:
        """The parameters that are passed by value, in order."""
        return tuple(p for p in self.parameters if not p.is_buffer)


def layout_of(arguments: Sequence[Value], loc: Location) -> KernargLayout:
    """The segment of a kernel's launch parameters.

    Raises:
        LoomError: a parameter of a type that the ABI does not carry.
    """
    parameters = []
    offset = 0
    for index, argument in enumerate(arguments):
        size = _size(argument.type, loc)
        offset = -(-offset // size) * size
        pointer = argument.type is BUFFER or isinstance(argument.type, ShapedType)
        parameters.append(Parameter(index, argument.name, offset, size, pointer))
        offset += size
    return KernargLayout(tuple(parameters), -(-offset // 8) * 8)


_LOAD_SIZES: Final = (4, 8, 16, 32, 64)


def argument_loads(parameters: Sequence[Parameter], segment: int) -> list[tuple[int, int]]:
    """Start and size in bytes of the fewest scalar loads that read these parameters, given by ascending offset.

    They stay inside the ``segment``, and at least half of what one reads is used: registers are not for free. Pairs
    of registers start at even ones, so loads of more than a word start at multiples of eight. Of as many loads, those
    are taken that keep numbers and buffers apart.
    """
    count = len(parameters)
    ends = [p.offset + p.size for p in parameters]
    # What the first so many parameters take, and how many of them are buffers.
    sizes = [0, *accumulate(p.size for p in parameters)]
    buffers = [0, *accumulate(p.is_buffer for p in parameters)]
    # From the last parameter to the first: loads, mixed loads and bytes of the best plan, its first load and the rest.
    plans: list[tuple[int, int, int, tuple[int, int], int]] = [(0, 0, 0, (0, 0), count)] * (count + 1)
    for position in range(count - 1, -1, -1):
        first = parameters[position]
        found = []
        for size in _LOAD_SIZES:
            for start in {first.offset & -min(size, 8), first.offset & -size}:
                end = bisect_right(ends, start + size, position)
                if end == position or 2 * (sizes[end] - sizes[position]) < size or start + size > segment:
                    continue
                loads, mixed, total, _, _ = plans[end]
                mixed += 0 < buffers[end] - buffers[position] < end - position
                found.append((loads + 1, mixed, total + size, (start, size), end))
        plans[position] = min(found)
    result = []
    position = 0
    while position < count:
        *_, load, position = plans[position]
        result.append(load)
    return result


def _size(type_: Type, loc: Location) -> int:
    if type_ is BUFFER or (isinstance(type_, ShapedType) and type_.kind == "view"):
        return POINTER_SIZE
    if isinstance(type_, ScalarType):
        return 8 if type_.width == 64 else 4
    raise fail(
        "TARGET/033",
        f"a launch parameter of type {type_} has no place in the kernel ABI",
        loc,
        emitter="amdgpu",
        source_type=type_,
    )


def abi_layout(layout: KernargLayout) -> Dictionary:
    """The dictionary that a Low kernel carries; a key with an empty list is absent."""
    scalars, buffers = layout.scalars, layout.buffers
    entries: dict[str, object] = {
        "constant_count": sum(p.size // 4 for p in scalars),
        "direct_arg_count": len(scalars),
        "parameter_count": len(layout.parameters),
        "resource_count": len(buffers),
        "uses_kernarg_segment_ptr": bool(layout.parameters),
    }
    if scalars:
        entries["direct_arg_offsets"] = tuple(p.offset for p in scalars)
        entries["direct_arg_parameter_indices"] = tuple(p.index for p in scalars)
        entries["direct_arg_sizes"] = tuple(p.size for p in scalars)
        names = {f"arg{i}": p.name for i, p in enumerate(scalars) if p.name is not None}
        if names:
            entries["direct_arg_names"] = Dictionary(names)
    if buffers:
        entries["resource_offsets"] = tuple(p.offset for p in buffers)
        entries["resource_parameter_indices"] = tuple(p.index for p in buffers)
    return Dictionary(entries)


def from_abi_layout(entries: Mapping[str, object], loc: Location) -> KernargLayout:
    """The segment that an ``abi_layout`` dictionary describes.

    Raises:
        LoomError: lists that do not fit together.
    """

    def numbers(key: str, count: int) -> tuple[int, ...]:
        found = entries.get(key, ())
        if not isinstance(found, tuple | list) or len(found) != count or not all(isinstance(n, int) for n in found):
            raise fail(
                "TARGET/049", f"abi_layout: '{key}' must list {count} integers", loc, emitter="amdgpu", field_name=key
            )
        return tuple(found)

    def count_of(key: str) -> int:
        value = entries.get(key, 0)
        if not isinstance(value, int) or value < 0:
            raise fail("TARGET/049", f"abi_layout: '{key}' must be a count", loc, emitter="amdgpu", field_name=key)
        return value

    scalar_count, buffer_count = count_of("direct_arg_count"), count_of("resource_count")
    names = entries.get("direct_arg_names", {})
    parameters = []
    scalars = zip(
        numbers("direct_arg_parameter_indices", scalar_count),
        numbers("direct_arg_offsets", scalar_count),
        numbers("direct_arg_sizes", scalar_count),
        strict=True,
    )
    for position, (index, offset, size) in enumerate(scalars):
        name = names.get(f"arg{position}") if isinstance(names, dict) else None
        parameters.append(Parameter(index, name, offset, size, False))
    buffers = zip(
        numbers("resource_parameter_indices", buffer_count), numbers("resource_offsets", buffer_count), strict=True
    )
    for index, offset in buffers:
        parameters.append(Parameter(index, None, offset, POINTER_SIZE, True))
    parameters.sort(key=lambda p: p.offset)
    end = max((p.offset + p.size for p in parameters), default=0)
    return KernargLayout(tuple(parameters), -(-end // 8) * 8)


@record
class LaunchState:
    """Where live-ins are, and what the descriptor must enable for them.

    Attributes:
        units: live-in key -> physical unit of its class; absent for values copied at entry.
        user_sgprs: enabled user SGPR groups.
        workgroup_ids: enabled axes.
        workitem_id_mode: 0 x, 1 x and y, 2 all.
    """

    units: Mapping[str, int]
    user_sgprs: tuple[str, ...]
    workgroup_ids: tuple[bool, bool, bool]
    workitem_id_mode: int


def launch_state(keys: Iterable[str], generation: Generation) -> LaunchState:
    """The launch state of a kernel that reads these live-ins."""
    wanted = set(keys)
    units: dict[str, int] = {}
    next_unit = 0
    groups = []
    for key, name in USER_PAIRS:
        if key in wanted:
            units[key] = next_unit
            next_unit += 2
            groups.append(name)
    axes = [WORKGROUP_ID + axis in wanted for axis in AXES]
    if generation.workgroup_ids is WorkgroupIds.SGPR:
        for axis, used in zip(AXES, axes, strict=True):
            if used:
                units[WORKGROUP_ID + axis] = next_unit
                next_unit += 1
    mode = 0
    for key in wanted:
        if key in PACKED:
            mode = max(mode, PACKED[key])
            units[key] = 0
    if WORKITEM_ID + "x" in wanted:
        units[WORKITEM_ID + "x"] = 0
    units[M0] = 0
    return LaunchState(units, tuple(groups), (axes[0], axes[1], axes[2]), mode)
