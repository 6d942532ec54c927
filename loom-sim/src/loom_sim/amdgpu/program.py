"""Loading a code object and launching its kernels."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from loom_sim.amdgpu import arguments as kernarg
from loom_sim.amdgpu import processes as several
from loom_sim.amdgpu import waits
from loom_sim.amdgpu.banks import BankUse, bank_count
from loom_sim.amdgpu.blocks import BlockKey, Code, Translator
from loom_sim.amdgpu.dispatch import Scheduler, Statistics
from loom_sim.amdgpu.errors import FaultRecord, LaunchError, LoadError
from loom_sim.amdgpu.kinds import KINDS, kind_of
from loom_sim.amdgpu.launch_state import initial_group
from loom_sim.amdgpu.limits import DEFAULT_MAX_STEPS
from loom_sim.amdgpu.machine import Machine, Traffic
from loom_sim.amdgpu.memory import AddressSpace
from loom_sim.amdgpu.numerics.mode import FloatMode
from loom_sim.amdgpu.processes import Counts
from loom_sim.amdgpu.races import Ordering
from loom_sim.amdgpu.state import Group
from loom_sim.amdgpu.synchronization import BarrierUse, WaitUse
from loom_sim.amdgpu.trace import Control, Observer
from loom_sim.amdgpu.traits import FAMILIES, Traits, traits_of

if TYPE_CHECKING:
    from loom_target_amdgpu.code_object.debug_lines import SourcePlace
    from loom_target_amdgpu.code_object.line_table import LineTable
    from loom_target_amdgpu.code_object.reader import CodeObject, Kernel
    from loom_target_amdgpu.profiles import Processor

_BATCH_LANES = 1 << 16
_SCRATCH_BUDGET = 1 << 28
_DYNAMIC_STACK = 1 << 14
_FP16_OVERFLOW = 1 << 26  # of compute_pgm_rsrc1, in LLVM's "User Guide for AMDGPU Backend"


@attrs.frozen(slots=True)
class KernelInfo:
    """What a caller needs to know about a kernel."""

    name: str
    arguments: tuple[Any, ...]
    wave_size: int
    vgpr_count: int
    lds_size: int
    scratch_size: int
    max_workgroup_size: int
    required_workgroup_size: tuple[int, int, int] | None


@attrs.frozen(slots=True)
class LaunchReport:
    """What a launch did.

    Attributes:
        waves: number of waves.
        wave_instructions: instructions executed, counted once per wave.
        lane_instructions: the same times the lanes of a wave.
        instructions: wave-instructions by mnemonic.
        kinds: wave-instructions by kind (`kinds.KINDS`), kinds that did not occur left out.
        barriers: waves that waited at a barrier.
        traffic: bytes moved.
        processes: how many ran the workgroups.
        waits: wait instructions that were executed, in strict runs; see `synchronization`.
        barrier_sites: barriers that workgroups passed.
        banks: use of the LDS banks, if the launch was asked to count it.
        seconds: wall time of the execution.
    """

    kernel: str
    processor: str
    waves: int
    wave_size: int
    wave_instructions: int
    lane_instructions: int
    instructions: Mapping[str, int]
    kinds: Mapping[str, int]
    barriers: int
    traffic: Traffic
    seconds: float
    faults: tuple[FaultRecord, ...] = ()
    banks: BankUse | None = None
    processes: int = 1
    waits: tuple[WaitUse, ...] = ()
    barrier_sites: tuple[BarrierUse, ...] = ()


@cache
def _keep_heap() -> None:
    """Make the C library keep freed memory.

    Temporary arrays of a few hundred kilobytes are the working set here. glibc hands such blocks back to the system
    when they are freed, and getting them again costs a page fault per 4 KiB, several times what computing on them
    costs. Having freed one block of this size raises its thresholds for the rest of the process (mallopt(3),
    M_MMAP_THRESHOLD, "dynamic"); the block itself is never touched.
    """
    np.empty(31 << 20, np.uint8)


def _triple(value: Sequence[int] | int, what: str) -> tuple[int, int, int]:
    sizes = (value,) if isinstance(value, int) else tuple(value)
    if not 1 <= len(sizes) <= 3 or any(not isinstance(n, int | np.integer) or n < 1 for n in sizes):
        raise LaunchError(f"{what} must be one to three positive numbers, not {value!r}")
    padded = (*(int(n) for n in sizes), 1, 1)[:3]
    return padded[0], padded[1], padded[2]


class Program:
    """A loaded code object."""

    def __init__(self, data: bytes, code_object: CodeObject, processor: Processor, traits: Traits) -> None:
        self._data = data
        self._object = code_object
        self.processor = processor
        self._traits = traits
        self._translators: dict[tuple[str, bool, bool], Translator] = {}

    @property
    def code_object(self) -> CodeObject:
        """The parsed code object."""
        return self._object

    @cached_property
    def lines(self) -> LineTable:
        """Which source lines instructions come from; empty where the code object does not say or cannot be read."""
        from loom_target_amdgpu.code_object.line_table import LineTable, LineTableError, read_line_table

        try:
            return read_line_table(self._data)
        except LineTableError:
            return LineTable()  # of no consequence for what the code does; listings say what is wrong with it

    def source_of(self, address: int) -> SourcePlace | None:
        """Where the instruction at an address comes from, if that is known."""
        return self.lines.at(address)

    @cached_property
    def kernels(self) -> Mapping[str, KernelInfo]:
        """The kernels by name."""
        return MappingProxyType({name: self._info(kernel) for name, kernel in self._object.kernels.items()})

    def _info(self, kernel: Kernel) -> KernelInfo:
        descriptor, metadata = kernel.descriptor, kernel.metadata
        generation = self.processor.require_generation()
        return KernelInfo(
            name=kernel.name,
            arguments=() if metadata is None else metadata.explicit_arguments,
            wave_size=descriptor.wave_size,
            vgpr_count=descriptor.vgpr_count(generation),
            lds_size=descriptor.group_segment_size,
            scratch_size=descriptor.private_segment_size,
            max_workgroup_size=1024 if metadata is None else metadata.max_flat_workgroup_size,
            required_workgroup_size=None if metadata is None else metadata.reqd_workgroup_size,
        )

    @cached_property
    def _image(self) -> tuple[int, bytearray]:
        """The loaded segments as one piece of memory: lowest address and bytes."""
        segments = self._object.segments
        low = min(s.address for s in segments)
        high = max(s.address + max(s.memory_size, len(s.data)) for s in segments)
        if high - low > 1 << 28:
            raise LoadError("the code object's segments span more than 256 MiB")
        image = bytearray(high - low)
        for s in segments:
            image[s.address - low : s.address - low + len(s.data)] = s.data
        return low, image

    def _translator(self, kernel: Kernel, traits: Traits, strict: bool, single: bool) -> Translator:
        """`single`: every block is one instruction."""
        key = (kernel.name, strict, single)
        found = self._translators.get(key)
        if found is None:
            low, image = self._image
            descriptor = kernel.descriptor
            code = Code(bytes(image), low, traits, descriptor.wave_size, self.source_of)
            vectors = descriptor.vgpr_count(self.processor.require_generation())
            found = self._translators[key] = Translator(
                code,
                traits,
                descriptor.wave_size,
                vectors,
                strict,
                self.processor.trans_use_hazard,
                **({"longest": 1} if single else {}),
            )
        return found

    def launch(
        self,
        name: str,
        workgroups: Sequence[int] | int = 1,
        workgroup_size: Sequence[int] | int = 1,
        arguments: Sequence[Any] = (),
        *,
        strict: bool = True,
        dynamic_lds: int = 0,
        max_steps: int = DEFAULT_MAX_STEPS,
        observers: Sequence[Observer] = (),
        control: Control | None = None,
        bank_conflicts: bool = False,
        processes: int | None = 1,
    ) -> LaunchReport:
        """Run a kernel to its end.

        Args:
            name: the kernel.
            workgroups, workgroup_size: sizes of the grid (in workgroups) and of a workgroup (in work-items), x first.
            arguments: one value per explicit argument: NumPy arrays for buffers, updated in place; Python or NumPy
                scalars (or bytes) by value; None for a null pointer. A dynamic LDS pointer takes any value.
            strict: check waits, undefined registers and memory, races between waves, barriers.
            dynamic_lds: bytes of LDS after the static part.
            max_steps: budget of instructions issued, each counted once for all waves that execute it together.
            observers: told about every block that ran; see `trace`.
            control: asked before every instruction; see `debug`.
            processes: run workgroups in up to this many processes, where they are independent and the run is neither
                strict nor observed (see `processes`); the step budget is then for each process. None: in as many as
                there are idle processors, if enough work is left after the first workgroups for that to pay. What the
                launch does and reports is the same for any number.
            bank_conflicts: count how accesses use the banks of LDS; see `banks`.

        Raises:
            LaunchError: the launch does not fit the kernel.
            SimulationFault: the kernel did something wrong; arrays may be partly updated.
        """
        kernel = self._object.kernels.get(name)
        if kernel is None:
            known = ", ".join(self._object.kernels) or "none"
            raise LaunchError(f"no kernel '{name}' in the code object; it has: {known}")
        if kernel.metadata is None:
            raise LaunchError(f"kernel {name} has no metadata: its arguments are unknown")
        if kernel.descriptor.rsrc1 & _FP16_OVERFLOW:
            raise LaunchError(f"kernel {name} starts with FP16_OVFL set, which clamps small floats: not supported")
        shape = kernarg.LaunchShape(_triple(workgroups, "workgroups"), _triple(workgroup_size, "workgroup_size"))
        self._check_shape(kernel, shape, dynamic_lds)
        descriptor = kernel.descriptor
        traits = self._traits
        if traits.unified_vgprs:
            traits = attrs.evolve(traits, accum_offset=descriptor.accum_offset())
        space = AddressSpace()
        low, image = self._image
        loaded = np.frombuffer(bytes(image), np.uint8).copy()
        code_segment = space.map(
            loaded, "the code object", writable=any(s.writable for s in self._object.segments), offset=low
        )
        code_address = code_segment.base - low
        if self._object.relocations:
            self._relocate(loaded, low, code_address)
        binding = kernarg.Binding(space)
        segment = kernarg.build(
            kernel.metadata,
            descriptor.kernarg_size,
            list(arguments),
            binding,
            shape,
            descriptor.group_segment_size,
            dynamic_lds,
        )
        kernarg_segment = space.map(segment, "the kernel arguments", writable=False)
        translator = self._translator(kernel, traits, strict, control is not None)
        x, y, z = shape.workgroup_size
        waves_per_workgroup = -(-(x * y * z) // descriptor.wave_size)
        ordering = Ordering(waves_per_workgroup, translator.code.describe) if strict else None
        steps = 0

        def work(batches: Sequence[tuple[int, int]]) -> Counts:
            nonlocal steps
            counts = Counts(banks=BankUse(bank_count(self.processor.name)) if bank_conflicts else None)
            statistics = Statistics(steps=steps)
            with np.errstate(all="ignore"):
                for first, count in batches:
                    counts.waves += self._run_batch(
                        kernel,
                        traits,
                        shape,
                        space,
                        code_address,
                        kernarg_segment.base,
                        translator,
                        statistics,
                        counts.traffic,
                        first,
                        count,
                        strict,
                        dynamic_lds,
                        max_steps,
                        observers,
                        ordering,
                        control,
                        counts.banks,
                    )
            steps = statistics.steps
            for block, times in statistics.blocks.items():
                for inst in block.instructions:
                    counts.instructions[inst.mnemonic] += times
                    counts.kinds[kind_of(inst)] += times
                counts.synchronization.count_waits(block.waits, times)
            counts.barriers = statistics.barriers
            counts.synchronization.add(statistics.synchronization)
            return counts

        batches = self._batches(kernel, shape, dynamic_lds)
        translator.code.scan(kernel.entry_address)
        separate = (
            processes != 1
            and len(batches) > 1
            and not (strict or observers or control is not None)
            and several.available()
            and several.are_independent(translator.code.known())
        )
        start = time.perf_counter()
        _keep_heap()
        try:
            if separate:
                counts, used = several.run_separately(work, batches, processes, space)
            else:
                counts, used = work(batches), 1
        finally:
            binding.write_back()
        seconds = time.perf_counter() - start
        total = sum(counts.instructions.values())
        return LaunchReport(
            kernel=name,
            processor=self.processor.name,
            waves=counts.waves,
            wave_size=descriptor.wave_size,
            wave_instructions=total,
            lane_instructions=total * descriptor.wave_size,
            instructions=MappingProxyType(dict(counts.instructions.most_common())),
            kinds=MappingProxyType({kind: counts.kinds[kind] for kind in KINDS if kind in counts.kinds}),
            barriers=counts.barriers,
            traffic=counts.traffic,
            seconds=seconds,
            banks=counts.banks,
            processes=used,
            waits=counts.synchronization.wait_uses(lambda address: translator.code.at(address).text),
            barrier_sites=counts.synchronization.barrier_uses(lambda address: translator.code.at(address).text),
        )

    def _check_shape(self, kernel: Kernel, shape: kernarg.LaunchShape, dynamic_lds: int) -> None:
        generation = self.processor.require_generation()
        metadata = kernel.metadata
        assert metadata is not None
        x, y, z = shape.workgroup_size
        limit = min(metadata.max_flat_workgroup_size or generation.max_workgroup, generation.max_workgroup)
        if x * y * z > limit:
            raise LaunchError(
                f"kernel {kernel.name}: a workgroup of {x * y * z} work-items is above the limit of {limit}"
            )
        required = metadata.reqd_workgroup_size
        if required is not None and tuple(required) != shape.workgroup_size:
            raise LaunchError(
                f"kernel {kernel.name} requires the workgroup size {tuple(required)}, not {shape.workgroup_size}"
            )
        lds = kernel.descriptor.group_segment_size + dynamic_lds
        if dynamic_lds < 0 or lds > generation.lds_bytes:
            raise LaunchError(f"kernel {kernel.name}: {lds} bytes of LDS, the limit is {generation.lds_bytes}")

    def _batches(self, kernel: Kernel, shape: kernarg.LaunchShape, dynamic_lds: int) -> list[tuple[int, int]]:
        x, y, z = shape.workgroups
        total = x * y * z
        gx, gy, gz = shape.workgroup_size
        lanes = -(-(gx * gy * gz) // kernel.descriptor.wave_size) * kernel.descriptor.wave_size
        scratch = max(1, self._scratch_size(kernel))
        size = max(1, min(_BATCH_LANES // lanes, _SCRATCH_BUDGET // (lanes * scratch)))
        return [(first, min(size, total - first)) for first in range(0, total, size)]

    def _scratch_size(self, kernel: Kernel) -> int:
        descriptor = kernel.descriptor
        size = descriptor.private_segment_size
        return size + _DYNAMIC_STACK if descriptor.uses_dynamic_stack else size

    def _run_batch(
        self,
        kernel: Kernel,
        traits: Traits,
        shape: kernarg.LaunchShape,
        space: AddressSpace,
        code_address: int,
        kernarg_address: int,
        translator: Translator,
        statistics: Statistics,
        traffic: Traffic,
        first: int,
        count: int,
        strict: bool,
        dynamic_lds: int,
        max_steps: int,
        observers: Sequence[Observer],
        ordering: Ordering | None,
        control: Control | None,
        banks: BankUse | None,
    ) -> int:
        descriptor = kernel.descriptor
        size = descriptor.wave_size
        gx, gy, gz = shape.workgroup_size
        per_group = -(-(gx * gy * gz) // size)
        slot = np.repeat(np.arange(count), per_group)
        machine = Machine(
            space,
            code_address,
            size,
            slot,
            count,
            descriptor.group_segment_size + dynamic_lds,
            self._scratch_size(kernel),
            ordering,
            first * per_group,
        )
        machine.traffic = traffic
        machine.banks = banks
        wx, wy, _ = shape.workgroups

        def locate(record: FaultRecord, group: Group, row: int | None) -> FaultRecord:
            source = None if record.pc is None else self.source_of(record.pc)
            record = attrs.evolve(record, kernel=kernel.name, source=source)
            if row is None:
                return record
            number = int(group.waves[row])
            workgroup = first + int(slot[number])
            return attrs.evolve(
                record,
                wave=number % per_group,
                workgroup=(workgroup % wx, workgroup // wx % wy, workgroup // (wx * wy)),
            )

        for observer in observers:
            observer.batch(first, per_group)
        if control is not None:
            control.batch(first, per_group)
        scheduler = Scheduler(machine, translator, statistics, max_steps, strict, locate, observers, control)
        generation = self.processor.require_generation()
        mode = FloatMode(
            descriptor.round_mode_32,
            descriptor.round_mode_16_64,
            descriptor.denorm_mode_32,
            descriptor.denorm_mode_16_64,
            descriptor.ieee_mode(generation),
            descriptor.dx10_clamp(generation),
        )
        group = initial_group(
            machine,
            descriptor,
            traits,
            shape,
            first,
            count,
            per_group,
            kernarg_address,
            translator.vectors,
            self._scratch_size(kernel),
            dynamic_lds,
        )
        group.pc = kernel.entry_address
        group.key = BlockKey(mode, waits.NONE)
        scheduler.add(group)
        scheduler.run()
        return len(slot)

    def _relocate(self, image: Any, low: int, code_address: int) -> None:
        """Apply the load-time relocations a code object may have (64-bit absolute and relative)."""
        absolute, relative = 3, 13  # R_AMDGPU_ABS64, R_AMDGPU_RELATIVE64
        for relocation in self._object.relocations:
            place = relocation.address - low
            if relocation.kind == relative:
                value = code_address + relocation.addend
            elif relocation.kind == absolute:
                symbol = self._object.symbols.get(relocation.symbol)
                if symbol is None:
                    raise LoadError(f"undefined symbol '{relocation.symbol}'")
                value = code_address + symbol.address + relocation.addend
            else:
                raise LoadError(f"relocation type {relocation.kind} is not supported")
            image[place : place + 8] = np.frombuffer((value & (1 << 64) - 1).to_bytes(8, "little"), np.uint8)


def load(code_object: bytes, processor: str | None = None) -> Program:
    """Load a linked AMDGPU code object (HSACO), whoever made it.

    Args:
        code_object: the ELF file's bytes.
        processor: which processor to be; by default the one the object is for, and for a generic object the first
            processor it covers.

    Raises:
        LoadError: the bytes are no code object, or its processor cannot be emulated.
    """
    try:
        from loom_target_amdgpu.code_object.reader import CodeObjectError, read_code_object
        from loom_target_amdgpu.profiles import UnknownProcessorError, profile
    except ImportError as error:
        raise LoadError("the AMDGPU emulator decodes with loom-target-amdgpu; install that package") from error
    try:
        parsed = read_code_object(bytes(code_object))
    except CodeObjectError as error:
        raise LoadError(str(error)) from error
    made_for = parsed.processor
    if made_for is None:
        raise LoadError(f"the code object is for an unknown processor (e_flags {parsed.e_flags:#x})")
    if processor is None:
        members = [m for m in made_for.members if profile(m).can_compile]
        chosen = profile(members[0]) if members else made_for
    else:
        try:
            chosen = profile(processor)
        except UnknownProcessorError as error:
            raise LoadError(str(error)) from error
        if not chosen.satisfies(made_for):
            raise LoadError(f"a code object for {made_for.name} does not run on {processor}")
    if chosen.family not in FAMILIES:
        raise LoadError(f"{chosen.name} cannot be emulated; families that can: {', '.join(FAMILIES)}")
    return Program(bytes(code_object), parsed, chosen, traits_of(chosen.family, chosen.name))
