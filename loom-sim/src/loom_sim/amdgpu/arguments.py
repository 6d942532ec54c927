"""Kernel arguments: from Python values to the kernarg segment, following the code object's own metadata."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from loom_sim.amdgpu.errors import LaunchError
from loom_sim.amdgpu.memory import AddressSpace
from loom_sim.amdgpu.state import Array

if TYPE_CHECKING:
    from loom_target_amdgpu.code_object.metadata import KernelArgument, KernelMetadata

_INTEGER_TYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Binding:
    """Arrays mapped for one launch, to be written back if they had to be copied."""

    def __init__(self, space: AddressSpace) -> None:
        self._space = space
        self._copies: list[tuple[Array, Array]] = []
        self._mapped: dict[int, int] = {}

    def address(self, value: Array, name: str) -> int:
        """Map an array and return its address; the same array twice is mapped once."""
        known = self._mapped.get(id(value))
        if known is not None:
            return known
        if not value.flags.c_contiguous or value.dtype.hasobject or value.ctypes.data % 16:
            if value.dtype.hasobject:
                raise LaunchError(f"{name}: an array of Python objects cannot be passed to a kernel")
            copy = np.empty(value.shape, value.dtype)
            copy[...] = value
            if value.flags.writeable:
                self._copies.append((value, copy))
            value = copy
        data = value.reshape(-1).view(np.uint8)
        segment = self._space.map(data, name, writable=bool(value.flags.writeable))
        self._mapped[id(value)] = segment.base
        return segment.base

    def write_back(self) -> None:
        """Copy results into arrays that could not be used in place."""
        for original, copy in self._copies:
            original[...] = copy


def _describe(argument: KernelArgument, index: int) -> str:
    return f"argument {index}" + (f" ({argument.name})" if argument.name else "")


def _scalar_bytes(value: Any, argument: KernelArgument, what: str) -> bytes:
    size = argument.size
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.generic):
        raw = value.tobytes()
    elif isinstance(value, np.ndarray):
        raw = np.ascontiguousarray(value).tobytes()
    elif isinstance(value, bytes | bytearray):
        raw = bytes(value)
    elif isinstance(value, bool):
        raw = int(value).to_bytes(size, "little")
    elif isinstance(value, int):
        if not -(1 << (8 * size - 1)) <= value < 1 << (8 * size):
            raise LaunchError(f"{what}: {value} does not fit into {size} bytes")
        raw = (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
    elif isinstance(value, float):
        formats = {2: "<e", 4: "<f", 8: "<d"}
        if size not in formats:
            raise LaunchError(f"{what}: a float cannot be passed in {size} bytes")
        try:
            raw = struct.pack(formats[size], value)
        except OverflowError:
            raise LaunchError(f"{what}: {value} is out of range of a {8 * size}-bit float") from None
    else:
        raise LaunchError(f"{what}: a {type(value).__name__} cannot be passed by value")
    if len(raw) != size:
        raise LaunchError(f"{what}: the value has {len(raw)} bytes, the kernel expects {size}")
    return raw


class LaunchShape:
    """Grid and workgroup sizes of a launch."""

    def __init__(self, workgroups: tuple[int, int, int], workgroup_size: tuple[int, int, int]) -> None:
        self.workgroups = workgroups
        self.workgroup_size = workgroup_size

    @property
    def dimensions(self) -> int:
        """Highest axis that is used, at least 1."""
        sizes = [w * s for w, s in zip(self.workgroups, self.workgroup_size, strict=True)]
        return max((k + 1 for k, n in enumerate(sizes) if n > 1), default=1)


def _hidden(kind: str, shape: LaunchShape, dynamic_lds: int) -> int | None:
    axis = {"x": 0, "y": 1, "z": 2}.get(kind[-1], 0)
    if kind.startswith("hidden_block_count_"):
        return shape.workgroups[axis]
    if kind.startswith("hidden_group_size_"):
        return shape.workgroup_size[axis]
    if kind.startswith(("hidden_remainder_", "hidden_global_offset_")):
        return 0
    if kind == "hidden_grid_dims":
        return shape.dimensions
    if kind == "hidden_dynamic_lds_size":
        return dynamic_lds
    if kind in _ZERO_HIDDEN:
        return 0
    return None


# Services of a host run time that the emulator does not have: null pointers.
_ZERO_HIDDEN = frozenset(
    "hidden_" + name
    for name in (
        "none",
        "printf_buffer",
        "hostcall_buffer",
        "multigrid_sync_arg",
        "heap_v1",
        "default_queue",
        "completion_action",
        "private_base",
        "shared_base",
        "queue_ptr",
    )
)


# Bytes of arguments that are pointers: into global memory, and into workgroup memory.
_POINTER_BYTES = {"global_buffer": 8, "dynamic_shared_pointer": 4}
# Far above what run times let a kernel take; a segment is made in memory at every launch.
MAX_SEGMENT_BYTES = 1 << 20


def build(
    metadata: KernelMetadata,
    size: int,
    values: Sequence[Any],
    binding: Binding,
    shape: LaunchShape,
    static_lds: int,
    dynamic_lds: int,
) -> Array:
    """The kernarg segment.

    Raises:
        LaunchError: the number, size or type of the arguments does not fit.
    """
    wanted = metadata.explicit_arguments
    if len(values) != len(wanted):
        shown = ", ".join(_describe(a, i) for i, a in enumerate(wanted)) or "none"
        raise LaunchError(f"kernel {metadata.name} takes {len(wanted)} arguments ({shown}), {len(values)} were given")
    size = max(size, metadata.kernarg_segment_size, 16)
    if size > MAX_SEGMENT_BYTES:
        raise LaunchError(f"kernel {metadata.name}: an argument segment of {size} bytes; {MAX_SEGMENT_BYTES} at most")
    segment = np.zeros(size, np.uint8)
    place = (static_lds + 15) // 16 * 16
    index = 0
    for argument in metadata.arguments:
        kind = argument.value_kind
        if argument.offset + argument.size > segment.size:
            raise LaunchError(f"kernel {metadata.name}: the metadata has an argument beyond the argument segment")
        needed = _POINTER_BYTES.get(kind, argument.size)
        if argument.size != needed:
            raise LaunchError(
                f"kernel {metadata.name}: the metadata gives '{kind}' {argument.size} bytes, but it has {needed}"
            )
        if kind.startswith("hidden_"):
            value = _hidden(kind, shape, dynamic_lds)
            if value is None:
                raise LaunchError(f"kernel {metadata.name} needs the unknown hidden argument '{kind}'")
            if value.bit_length() > 8 * argument.size:
                raise LaunchError(
                    f"kernel {metadata.name}: '{kind}' is {value}, which {argument.size} bytes do not hold"
                )
            raw = value.to_bytes(argument.size, "little")
        else:
            given = values[index]
            what = f"kernel {metadata.name}, {_describe(argument, index)}"
            index += 1
            if kind == "global_buffer":
                raw = _pointer(given, what, binding).to_bytes(8, "little")
            elif kind == "dynamic_shared_pointer":
                raw = place.to_bytes(argument.size, "little")
            elif kind == "by_value":
                if argument.size == 8 and isinstance(given, np.ndarray) and given.ndim > 0 and given.nbytes != 8:
                    # A pointer declared as plain data (as in HIP's structs): bind the array.
                    raw = _pointer(given, what, binding).to_bytes(8, "little")
                else:
                    raw = _scalar_bytes(given, argument, what)
            else:
                raise LaunchError(f"{what}: arguments of kind '{kind}' are not supported")
        segment[argument.offset : argument.offset + argument.size] = np.frombuffer(raw, np.uint8)
    return segment


def _pointer(value: Any, what: str, binding: Binding) -> int:
    if value is None:
        return 0
    if isinstance(value, np.ndarray):
        return binding.address(value, what)
    raise LaunchError(f"{what}: a buffer argument needs a NumPy array (or None), not {type(value).__name__}")
