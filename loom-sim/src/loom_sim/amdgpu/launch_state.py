"""Registers as the hardware sets them up when a wave starts.

Source: LLVM "User Guide for AMDGPU Backend", section "Initial Kernel Execution State".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from loom_sim.amdgpu.arguments import LaunchShape
from loom_sim.amdgpu.errors import LaunchError
from loom_sim.amdgpu.machine import Machine
from loom_sim.amdgpu.state import SCC, Array, Group
from loom_sim.amdgpu.traits import Traits

if TYPE_CHECKING:
    from loom_target_amdgpu.code_object.kernel_descriptor import KernelDescriptor

_TTMP7, _TTMP9 = 115, 117
_QUEUE_BYTES = 256


def _scalar(value: int) -> Array:
    return np.full((1, 1), value & 0xFFFFFFFF, np.uint32)


def dispatch_packet(shape: LaunchShape, private: int, group: int, kernarg: int) -> bytes:
    """The AQL kernel dispatch packet that `dispatch_ptr` points to (HSA Platform System Architecture, AQL)."""
    sizes = shape.workgroup_size
    grid = tuple(w * s for w, s in zip(shape.workgroups, sizes, strict=True))
    header = 2 | 1 << 8
    return struct.pack("<HHHHHHIIIIIQQQQ", header, shape.dimensions, *sizes, 0, *grid, private, group, 0, kernarg, 0, 0)


def initial_group(
    machine: Machine,
    descriptor: KernelDescriptor,
    traits: Traits,
    shape: LaunchShape,
    first: int,
    count: int,
    per_group: int,
    kernarg_address: int,
    vectors: int,
    scratch_size: int,
    dynamic_lds: int,
) -> Group:
    """All waves of a batch of workgroups at the kernel's entry.

    Args:
        first, count: the batch's workgroups, numbered with x fastest.
        per_group: waves of a workgroup.
        vectors: vector (and accumulation) register slots.
    """
    lanes = descriptor.wave_size
    waves = count * per_group
    group = Group(machine, np.arange(waves), lanes)
    group.v = [None] * vectors
    gx, gy, gz = shape.workgroup_size
    item = (np.arange(per_group * lanes, dtype=np.uint32)).reshape(per_group, lanes)
    ids = item % np.uint32(gx)
    if descriptor.workitem_id_mode >= 1:
        ids = ids | item // np.uint32(gx) % np.uint32(gy) << np.uint32(10)
    if descriptor.workitem_id_mode >= 2:
        ids = ids | item // np.uint32(gx * gy) << np.uint32(20)
    valid = item < gx * gy * gz
    group.v[0] = np.tile(np.where(valid, ids, np.uint32(0)), (count, 1))
    group.set_exec(np.tile(valid, (count, 1)))
    group.s[SCC] = np.zeros((1, 1), bool)

    s = group.s
    position = 0
    for name in descriptor.enabled_user_sgprs:
        position = _user_group(
            machine, descriptor, shape, s, position, name, kernarg_address, scratch_size, dynamic_lds
        )
    if descriptor.kernarg_preload & 0x7F:
        raise LaunchError("kernel argument preloading is not supported")
    position = max(position, descriptor.user_sgpr_count)

    number = np.arange(first, first + count)
    wx, wy, _ = shape.workgroups
    axes = (number % wx, number // wx % wy, number // (wx * wy))

    def per_wave(values: Array) -> Array:
        if (values == values[0]).all():
            return _scalar(int(values[0]))
        return np.repeat(values.astype(np.uint32), per_group)[:, None]

    if traits.ids_in_ttmp:
        s[_TTMP9] = per_wave(axes[0])
        s[_TTMP7] = per_wave(axes[1] | axes[2] << 16)
        return group
    for enabled, axis in zip(descriptor.workgroup_ids, axes, strict=True):
        if enabled:
            s[position] = per_wave(axis)
            position += 1
    if descriptor.workgroup_info:
        s[position] = _scalar(0)
    return group


def _user_group(
    machine: Machine,
    descriptor: KernelDescriptor,
    shape: LaunchShape,
    s: list[Array | None],
    position: int,
    name: str,
    kernarg_address: int,
    scratch_size: int,
    dynamic_lds: int,
) -> int:
    """Fill one group of user SGPRs; returns the next free register."""
    if name == "private_segment_size":
        s[position] = _scalar(scratch_size)
        return position + 1
    if name == "kernarg_segment_ptr":
        address = kernarg_address
    elif name == "dispatch_ptr":
        lds = descriptor.group_segment_size + dynamic_lds
        packet = dispatch_packet(shape, scratch_size, lds, kernarg_address)
        address = machine.space.map(np.frombuffer(packet, np.uint8).copy(), "the dispatch packet", writable=False).base
    elif name == "queue_ptr":
        address = machine.space.map(np.zeros(_QUEUE_BYTES, np.uint8), "the queue", writable=False).base
    elif name == "dispatch_id":
        address = 0
    else:
        raise LaunchError(f"the kernel wants the user SGPRs '{name}', which this processor does not have")
    s[position], s[position + 1] = _scalar(address), _scalar(address >> 32)
    return position + 2
