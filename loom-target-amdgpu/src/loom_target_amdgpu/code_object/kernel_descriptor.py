"""The 64-byte kernel descriptor that the packet processor reads to start a kernel.

Source: LLVM "User Guide for AMDGPU Backend", section Kernel Descriptor.
"""

from __future__ import annotations

import struct

from loom.ir.records import record
from loom_target_amdgpu.profiles import Generation, Processor

DESCRIPTOR_SIZE = 64

# Byte offsets 0, 4, 8; 16; 44, 48, 52; 56, 58. The rest is reserved and zero.
_LAYOUT = struct.Struct("<III4xq20xIIIHH4x")


class DescriptorError(ValueError):
    """Resources that a kernel descriptor cannot express, or bytes that are no descriptor."""


@record
class KernelDescriptor:
    """The fields of a descriptor, with named access to the bits of its register words.

    Attributes:
        group_segment_size: static workgroup storage in bytes.
        private_segment_size: scratch bytes per work-item.
        kernarg_size: bytes of the argument segment.
        entry_offset: code entry minus the descriptor's own address, in bytes.
        rsrc3, rsrc1, rsrc2: the words of the three program resource registers.
        code_properties: enabled user SGPRs, wave size, dynamic stack.
        kernarg_preload: length (bits 0..6) and offset (7..15) in words of preloaded arguments.
    """

    group_segment_size: int
    private_segment_size: int
    kernarg_size: int
    entry_offset: int
    rsrc3: int
    rsrc1: int
    rsrc2: int
    code_properties: int
    kernarg_preload: int

    def to_bytes(self) -> bytes:
        """The descriptor as it lies in memory.

        Raises:
            DescriptorError: a value does not fit its field.
        """
        try:
            return _LAYOUT.pack(
                self.group_segment_size, self.private_segment_size, self.kernarg_size, self.entry_offset,
                self.rsrc3, self.rsrc1, self.rsrc2, self.code_properties, self.kernarg_preload,
            )  # fmt: skip
        except struct.error as error:
            raise DescriptorError(f"kernel descriptor value out of range: {error}") from None

    @classmethod
    def from_bytes(cls, data: bytes) -> KernelDescriptor:
        """The descriptor in 64 bytes.

        Raises:
            DescriptorError: not exactly 64 bytes.
        """
        if len(data) != DESCRIPTOR_SIZE:
            raise DescriptorError(f"a kernel descriptor has {DESCRIPTOR_SIZE} bytes, not {len(data)}")
        return cls(*_LAYOUT.unpack(data))

    @property
    def wave_size(self) -> int:
        """Lanes of a wave."""
        return 32 if self.code_properties >> 10 & 1 else 64

    @property
    def uses_dynamic_stack(self) -> bool:
        """Whether scratch can grow beyond the fixed size."""
        return bool(self.code_properties >> 11 & 1)

    @property
    def enabled_user_sgprs(self) -> tuple[str, ...]:
        """Names of the enabled user SGPR groups in register order (``USER_SGPRS`` has the sizes)."""
        return tuple(name for bit, (name, _) in enumerate(USER_SGPRS) if self.code_properties >> bit & 1)

    @property
    def user_sgpr_count(self) -> int:
        """User SGPRs before the system SGPRs; can be more than the enabled groups need."""
        return self.rsrc2 >> 1 & 0x1F

    @property
    def workgroup_ids(self) -> tuple[bool, bool, bool]:
        """Whether the x, y and z workgroup ids are enabled."""
        return bool(self.rsrc2 >> 7 & 1), bool(self.rsrc2 >> 8 & 1), bool(self.rsrc2 >> 9 & 1)

    @property
    def workgroup_info(self) -> bool:
        """Whether the workgroup info SGPR is enabled."""
        return bool(self.rsrc2 >> 10 & 1)

    @property
    def workitem_id_mode(self) -> int:
        """0: x; 1: x and y; 2: x, y and z."""
        return self.rsrc2 >> 11 & 3

    @property
    def uses_scratch(self) -> bool:
        """Whether the private segment is enabled."""
        return bool(self.rsrc2 & 1)

    @property
    def round_mode_32(self) -> int:
        """f32 rounding: 0 nearest even, 1 up, 2 down, 3 to zero."""
        return self.rsrc1 >> 12 & 3

    @property
    def round_mode_16_64(self) -> int:
        """f16 and f64 rounding, as ``round_mode_32``."""
        return self.rsrc1 >> 14 & 3

    @property
    def denorm_mode_32(self) -> int:
        """f32 denormals: bit 0 keeps those of sources, bit 1 those of results (3 keeps both, 0 flushes
        both).
        """
        return self.rsrc1 >> 16 & 3

    @property
    def denorm_mode_16_64(self) -> int:
        """f16 and f64 denormals, as ``denorm_mode_32``."""
        return self.rsrc1 >> 18 & 3

    @property
    def fp16_overflow(self) -> bool:
        """Whether f16 results clamp to the largest finite value instead of infinity."""
        return bool(self.rsrc1 >> 26 & 1)

    def dx10_clamp(self, generation: Generation) -> bool:
        """Whether clamping turns NaN into 0; generations without the bit always do."""
        return not generation.clamp_and_ieee or bool(self.rsrc1 >> 21 & 1)

    def ieee_mode(self, generation: Generation) -> bool:
        """Whether signalling NaNs are quieted by minimum and maximum; generations without the bit do not."""
        return generation.clamp_and_ieee and bool(self.rsrc1 >> 23 & 1)

    def vgpr_count(self, generation: Generation) -> int:
        """Vector registers given to a wave, accumulation registers included, rounded up to blocks."""
        return ((self.rsrc1 & 0x3F) + 1) * generation.vgpr_block[self.wave_size]

    def accum_offset(self) -> int:
        """First accumulation register's place in a unified register file (gfx90a and its successors)."""
        return ((self.rsrc3 & 0x3F) + 1) * 4


USER_SGPRS: tuple[tuple[str, int], ...] = (
    ("private_segment_buffer", 4),
    ("dispatch_ptr", 2),
    ("queue_ptr", 2),
    ("kernarg_segment_ptr", 2),
    ("dispatch_id", 2),
    ("flat_scratch_init", 2),
    ("private_segment_size", 1),
)
"""User SGPR groups in register order, with their number of registers; the index is the property bit."""

_UNAVAILABLE_USER_SGPRS = frozenset({"private_segment_buffer", "flat_scratch_init"})
_MAX_USER_SGPRS = 16


@record(kw_only=True)
class KernelResources:
    """What a kernel needs, before it is packed into a descriptor.

    Attributes:
        wave_size: 32 or 64.
        vgprs, agprs, sgprs: registers used (highest number plus one).
        lds_bytes: static workgroup storage.
        scratch_bytes: private bytes per work-item.
        kernarg_bytes: size of the argument segment.
        user_sgprs: names of the enabled user SGPR groups (``USER_SGPRS``).
        workgroup_ids: whether x, y and z are wanted.
        workgroup_info: whether the workgroup info SGPR is wanted.
        workitem_id_mode: 0 for x, 1 for x and y, 2 for all three.
        round_mode, denorm_mode: 32-bit mode and 16/64-bit mode, with the encodings of ``KernelDescriptor``.
        uses_dynamic_stack: whether scratch can grow.
    """

    wave_size: int
    vgprs: int
    sgprs: int
    agprs: int = 0
    lds_bytes: int = 0
    scratch_bytes: int = 0
    kernarg_bytes: int = 0
    user_sgprs: tuple[str, ...] = ("kernarg_segment_ptr",)
    workgroup_ids: tuple[bool, bool, bool] = (True, False, False)
    workgroup_info: bool = False
    workitem_id_mode: int = 0
    round_mode: tuple[int, int] = (0, 0)
    denorm_mode: tuple[int, int] = (3, 3)
    uses_dynamic_stack: bool = False


def _blocks(registers: int, block: int) -> int:
    return max(registers + block - 1, block) // block - 1


def describe_kernel(processor: Processor, resources: KernelResources) -> KernelDescriptor:
    """Pack a kernel's resources into a descriptor; the code entry is filled in when the code object is
    written.

    Raises:
        DescriptorError: the processor cannot give the kernel what it needs.
        UnsupportedProcessorError: there are no facts about the processor.
    """
    generation = processor.require_generation()
    _check(processor, generation, resources)
    rsrc1 = (
        _vgpr_field(generation, resources)
        | _sgpr_field(generation, resources)
        | resources.round_mode[0] << 12
        | resources.round_mode[1] << 14
        | resources.denorm_mode[0] << 16
        | resources.denorm_mode[1] << 18
    )
    if generation.clamp_and_ieee:
        rsrc1 |= 1 << 21 | 1 << 23
    if generation.wgp_mode:
        rsrc1 |= 1 << 29 | 1 << 30
    properties = 0
    count = 0
    for bit, (name, size) in enumerate(USER_SGPRS):
        if name in resources.user_sgprs:
            properties |= 1 << bit
            count += size
    rsrc2 = (resources.scratch_bytes > 0 or resources.uses_dynamic_stack) | count << 1
    for axis, wanted in enumerate(resources.workgroup_ids):
        rsrc2 |= wanted << (7 + axis)
    rsrc2 |= resources.workgroup_info << 10 | resources.workitem_id_mode << 11
    if len(generation.wave_sizes) > 1 and resources.wave_size == 32:
        properties |= 1 << 10
    properties |= resources.uses_dynamic_stack << 11
    return KernelDescriptor(
        group_segment_size=resources.lds_bytes,
        private_segment_size=resources.scratch_bytes,
        kernarg_size=resources.kernarg_bytes,
        entry_offset=0,
        rsrc3=_blocks(resources.vgprs, 4) if generation.agpr_count else 0,
        rsrc1=rsrc1,
        rsrc2=rsrc2,
        code_properties=properties,
        kernarg_preload=0,
    )


def _vgpr_field(generation: Generation, resources: KernelResources) -> int:
    used = resources.vgprs
    if generation.agpr_count:
        # Accumulation registers follow the vector registers, which are rounded up to four.
        used = (max(used, 1) + 3) // 4 * 4 + resources.agprs
    return _blocks(used, generation.vgpr_block[resources.wave_size])


def _sgpr_field(generation: Generation, resources: KernelResources) -> int:
    if not generation.sgpr_extra:
        return 0
    return _blocks(resources.sgprs + generation.sgpr_extra, 8) << 6


def _check(processor: Processor, generation: Generation, resources: KernelResources) -> None:
    if resources.wave_size not in generation.wave_sizes:
        raise DescriptorError(f"{processor.name} has no waves of {resources.wave_size} lanes")
    limits = (
        ("vector registers", resources.vgprs, generation.vgpr_count),
        ("accumulation registers", resources.agprs, generation.agpr_count),
        ("scalar registers", resources.sgprs, generation.sgpr_count),
        ("bytes of workgroup storage", resources.lds_bytes, generation.lds_bytes),
    )
    for what, used, limit in limits:
        if not 0 <= used <= limit:
            raise DescriptorError(f"the kernel needs {used} {what}; {processor.name} has {limit}")
    known = dict(USER_SGPRS)
    for name in resources.user_sgprs:
        if name not in known:
            raise DescriptorError(f"unknown user SGPR group '{name}'; known: {', '.join(known)}")
        if name in _UNAVAILABLE_USER_SGPRS:
            raise DescriptorError(f"{processor.name} sets up scratch in hardware and has no '{name}' SGPRs")
    if sum(known[name] for name in set(resources.user_sgprs)) > _MAX_USER_SGPRS:
        raise DescriptorError(f"more than {_MAX_USER_SGPRS} user SGPRs")
    if not 0 <= resources.workitem_id_mode <= 2:
        raise DescriptorError(f"work-item id mode {resources.workitem_id_mode} is not 0, 1 or 2")
