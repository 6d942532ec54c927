"""AMD GPU processors: what each one is, how its kernels are described, and which generic one it satisfies.

Sources: the processor tables, e_flags values and code object rules of the public LLVM "User Guide for AMDGPU
    Backend"
(sections Processors, ELF Code Object, Kernel Descriptor), and occupancy steps measured with LLVM 19.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from loom.ir.records import evolve, record

E_FLAGS_MACHINE_MASK = 0xFF
E_FLAGS_XNACK_ANY = 0x100
E_FLAGS_SRAMECC_ANY = 0x400
E_FLAGS_GENERIC_VERSION_SHIFT = 24


class WaitStyle(enum.Enum):
    """How a program waits for memory."""

    VM_LGKM = "one s_waitcnt; stores count in vmcnt"
    VM_LGKM_VS = "s_waitcnt, and s_waitcnt_vscnt for stores"
    SPLIT = "one instruction per counter"


class WorkgroupIds(enum.Enum):
    """Where a wave finds its workgroup's ids."""

    SGPR = "scalar registers after the user SGPRs, only the enabled axes"
    TRAP_REGISTERS = "x in ttmp9, y in ttmp7[15:0], z in ttmp7[31:16]"


@record
class VectorFile:
    """The vector register file of one SIMD, per lane.

    Attributes:
        registers: 32-bit registers per lane.
        granule: registers are given to a wave in multiples of this.
    """

    registers: int
    granule: int


@record
class CodePadding:
    """What follows the last instruction of a code section, so that prefetching stays inside it.

    Attributes:
        word: the instruction that fills.
        line_bytes: the code is first filled up to a multiple of this.
        lines: then by this many lines more.
    """

    word: int
    line_bytes: int
    lines: int


@record
class Generation:
    """Facts shared by the processors with one descriptor layout.

    Attributes:
        name: the descriptor layout: ``gfx9`` (CDNA3, CDNA4), ``gfx11`` or ``gfx12``.
        wave_sizes: lanes of a wave.
        vgpr_block: registers per block in the descriptor's VGPR field, by wave size.
        vgpr_count: addressable vector registers.
        agpr_count: addressable accumulation registers; they share the file with the vector registers.
        sgpr_count: addressable scalar registers.
        sgpr_extra: scalar registers a descriptor counts on top (VCC, flat scratch, XNACK mask); 0 where
            scalar registers are always allocated in full and the field is 0.
        sgpr_file, sgpr_granule: scalar registers per SIMD and their granule; 0 where they are no limit.
        max_waves: waves per SIMD.
        lds_bytes: workgroup storage per workgroup.
        max_workgroup: work-items per workgroup.
        waits: how a program waits for memory.
        workgroup_ids: where workgroup ids arrive.
        constant_bus: distinct scalar values one vector instruction may read, a literal counting as one.
        wgp_mode: whether a workgroup runs on a pair of compute units by default.
        clamp_and_ieee: whether the descriptor has DX10 clamp and IEEE mode bits.
        kernarg_preload: whether kernel arguments can arrive in SGPRs.
        code_padding: filling after the code.
    """

    name: str
    wave_sizes: tuple[int, ...]
    vgpr_block: Mapping[int, int]
    vgpr_count: int
    agpr_count: int
    sgpr_count: int
    sgpr_extra: int
    sgpr_file: int
    sgpr_granule: int
    max_waves: int
    lds_bytes: int
    max_workgroup: int
    waits: WaitStyle
    workgroup_ids: WorkgroupIds
    constant_bus: int
    wgp_mode: bool
    clamp_and_ieee: bool
    kernarg_preload: bool
    code_padding: CodePadding


GFX9 = Generation(
    name="gfx9",
    wave_sizes=(64,),
    vgpr_block=MappingProxyType({64: 8}),
    vgpr_count=256,
    agpr_count=256,
    sgpr_count=102,
    sgpr_extra=6,
    sgpr_file=800,
    sgpr_granule=16,
    max_waves=8,
    lds_bytes=65536,
    max_workgroup=1024,
    waits=WaitStyle.VM_LGKM,
    workgroup_ids=WorkgroupIds.SGPR,
    constant_bus=1,
    wgp_mode=False,
    clamp_and_ieee=True,
    kernarg_preload=True,
    code_padding=CodePadding(word=0xBF800000, line_bytes=64, lines=16),
)

GFX11 = Generation(
    name="gfx11",
    wave_sizes=(32, 64),
    vgpr_block=MappingProxyType({32: 8, 64: 4}),
    vgpr_count=256,
    agpr_count=0,
    sgpr_count=106,
    sgpr_extra=0,
    sgpr_file=0,
    sgpr_granule=0,
    max_waves=16,
    lds_bytes=65536,
    max_workgroup=1024,
    waits=WaitStyle.VM_LGKM_VS,
    workgroup_ids=WorkgroupIds.SGPR,
    constant_bus=2,
    wgp_mode=True,
    clamp_and_ieee=True,
    kernarg_preload=False,
    code_padding=CodePadding(word=0xBF9F0000, line_bytes=128, lines=3),
)

GFX12 = evolve(
    GFX11,
    name="gfx12",
    waits=WaitStyle.SPLIT,
    workgroup_ids=WorkgroupIds.TRAP_REGISTERS,
    clamp_and_ieee=False,
)

_UNIFIED_FILE: Mapping[int, VectorFile] = MappingProxyType({64: VectorFile(512, 8)})
_LARGE_FILE: Mapping[int, VectorFile] = MappingProxyType({32: VectorFile(1536, 24), 64: VectorFile(768, 12)})
_SMALL_FILE: Mapping[int, VectorFile] = MappingProxyType({32: VectorFile(1024, 16), 64: VectorFile(512, 8)})
_NO_FILE: Mapping[int, VectorFile] = MappingProxyType({})


@record
class Processor:
    """One processor, exact or generic.

    Attributes:
        name: as in ``-mcpu``, such as ``gfx1100`` or ``gfx11-generic``.
        machine: the ELF machine number in the low byte of e_flags.
        xnack, sramecc: whether the feature exists and e_flags says "any".
        generic_version: version of a generic processor, or 0 for an exact one.
        generic: the generic processor that covers this one, or empty.
        wave: lanes of a wave by default.
        contract: the low-level contract, such as ``amdgpu.rdna3.core``; empty for a processor that can be
            named but has none.
        generation: shared facts, or None where the processor can only be named.
        family: name of the instruction tables, or empty.
        matrix: the row of matrix instruction shapes, such as ``wmma_gfx11``; empty for none.
        vector_file: the register file by wave size.
        trans_use_hazard: whether reading a transcendental result soon needs an explicit wait (gfx1100 and its
            kin).
    """

    name: str
    machine: int
    xnack: bool
    sramecc: bool
    generic_version: int
    generic: str
    wave: int
    contract: str
    generation: Generation | None
    family: str
    matrix: str
    vector_file: Mapping[int, VectorFile]
    trans_use_hazard: bool

    @property
    def e_flags(self) -> int:
        """The ELF header's flags of a code object for this processor with features left at "any"."""
        flags = self.machine | self.generic_version << E_FLAGS_GENERIC_VERSION_SHIFT
        return flags | (E_FLAGS_XNACK_ANY if self.xnack else 0) | (E_FLAGS_SRAMECC_ANY if self.sramecc else 0)

    @property
    def is_generic(self) -> bool:
        """Whether one code object runs on several processors."""
        return self.generic_version != 0

    @property
    def can_compile(self) -> bool:
        """Whether there are instruction tables to compile for this processor."""
        return self.generation is not None and bool(self.family)

    @property
    def target_id(self) -> str:
        """The target string of the code object metadata."""
        return f"amdgcn-amd-amdhsa--{self.name}"

    @property
    def has_ocp_float8(self) -> bool:
        """Whether 8-bit float instructions mean the OCP formats; those of gfx942 have other biases and no -0."""
        return self.matrix in ("mfma_gfx950", "wmma_gfx12")

    @property
    def tiles(self) -> tuple[str, ...]:
        """Names of the matrix tiles of :mod:`loom.facts.fragments` that its instructions multiply."""
        from loom.facts.fragments import TILES

        classes = _TILE_CLASSES.get(self.matrix, ())
        return tuple(tile.name for tile in TILES if tile.name.partition("_")[0] in classes and tile.wave == self.wave)

    @property
    def members(self) -> tuple[str, ...]:
        """Processors that a generic processor covers; just itself for an exact one."""
        if not self.is_generic:
            return (self.name,)
        return tuple(p.name for p in processors().values() if p.generic == self.name)

    def satisfies(self, other: Processor) -> bool:
        """Whether code written for ``other`` may be used when compiling for this processor.

        True for the same processor and for the generic one that covers this one; never the other way round,
        and never between two exact processors.
        """
        return self.name == other.name or (bool(self.generic) and self.generic == other.name)

    def require_generation(self) -> Generation:
        """The generation of a processor one can compile for.

        Raises:
            UnsupportedProcessorError: there are no tables for it.
        """
        if self.generation is None or not self.family:
            able = ", ".join(p.name for p in processors().values() if p.can_compile)
            raise UnsupportedProcessorError(f"cannot compile for '{self.name}'; supported processors: {able}")
        return self.generation


def waves_per_simd(processor: Processor, wave_size: int, vgprs: int, agprs: int = 0, sgprs: int = 0) -> int:
    """How many waves of a kernel fit on one SIMD as far as registers go; 0 when not even one does.

    Args:
        processor: the processor.
        wave_size: lanes of a wave.
        vgprs, agprs, sgprs: registers the kernel uses.

    Raises:
        UnsupportedProcessorError: there are no facts about the processor.
    """
    generation = processor.require_generation()
    file = processor.vector_file[wave_size]
    # In a unified file the accumulation registers follow the vector registers, which are rounded up to four.
    used = (max(vgprs, 1) + 3) // 4 * 4 + agprs if generation.agpr_count else max(vgprs, 1)
    waves = min(generation.max_waves, file.registers // _round_up(used, file.granule))
    if generation.sgpr_file:
        scalar = _round_up(sgprs + generation.sgpr_extra, generation.sgpr_granule)
        waves = min(waves, generation.sgpr_file // scalar)
    return waves


def vgprs_for_waves(processor: Processor, wave_size: int, waves: int, agprs: int = 0) -> int:
    """The most vector registers with which so many waves of a kernel fit on one SIMD; none if they never do."""
    file = processor.vector_file[wave_size]
    return max(0, file.registers // waves // file.granule * file.granule - agprs)


_SIMDS: Final = 4
"""SIMDs that share workgroup storage: of a compute unit, or of a pair of those in WGP mode."""
_LDS_GRANULE: Final = 512


def waves_by_storage(processor: Processor, lds_bytes: int, workgroup_waves: int) -> int | None:
    """How many waves fit on one SIMD as far as workgroup storage goes; None where it is no limit.

    Source: the CDNA3 and RDNA3 instruction set guides, sections on workgroup storage: 64 KiB per compute unit (160 KiB
    on gfx950), which a pair of units shares in WGP mode.

    Args:
        processor: the processor.
        lds_bytes: storage of a workgroup.
        workgroup_waves: waves of a workgroup.
    """
    if not lds_bytes:
        return None
    generation = processor.require_generation()
    pool = generation.lds_bytes * (2 if generation.wgp_mode else 1)
    workgroups = pool // _round_up(lds_bytes, _LDS_GRANULE)
    return min(generation.max_waves, max(1, workgroups * workgroup_waves // _SIMDS)) if workgroups else 0


def _round_up(value: int, granule: int) -> int:
    return (value + granule - 1) // granule * granule


class UnknownProcessorError(ValueError):
    """A processor name that is not in the table; the message has the closest names."""


class UnsupportedProcessorError(ValueError):
    """A processor that can be named in metadata but not compiled for."""


@record
class _Contract:
    """Facts a contract implies for its processors."""

    generation: Generation | None
    family: str
    matrix: str


_CONTRACTS: Mapping[str, _Contract] = {
    "amdgpu.cdna3.core": _Contract(GFX9, "gfx942", "mfma_gfx940"),
    "amdgpu.cdna4.core": _Contract(evolve(GFX9, lds_bytes=163840), "gfx942", "mfma_gfx950"),
    "amdgpu.gfx9_4.generic.core": _Contract(GFX9, "gfx942", "mfma_gfx940"),
    "amdgpu.rdna3.core": _Contract(GFX11, "gfx11", "wmma_gfx11"),
    "amdgpu.rdna3_5.core": _Contract(GFX11, "gfx11", "wmma_gfx11"),
    "amdgpu.gfx11.generic.core": _Contract(GFX11, "gfx11", "wmma_gfx11"),
    "amdgpu.rdna4.core": _Contract(GFX12, "gfx12", "wmma_gfx12"),
    "amdgpu.gfx12.generic.core": _Contract(GFX12, "gfx12", "wmma_gfx12"),
    "amdgpu.rdna4m.core": _Contract(None, "", "wmma_gfx12"),
    "amdgpu.rdna4.gfx125x.core": _Contract(None, "", "wmma_gfx1250"),
    "amdgpu.rdna4.gfx1251.core": _Contract(None, "", "wmma_gfx1250"),
    "amdgpu.gfx12_5.generic.core": _Contract(None, "", "wmma_gfx1250"),
    "": _Contract(None, "", ""),
}

# name, ELF machine, features (X: XNACK, E: SRAMECC, G: generic version 1), wave, covering generic, contract
# suffix
_PROCESSORS: tuple[tuple[str, int, str, int, str, str], ...] = (
    ("gfx900", 0x2C, "X", 64, "gfx9-generic", ""),
    ("gfx902", 0x2D, "X", 64, "gfx9-generic", ""),
    ("gfx904", 0x2E, "X", 64, "gfx9-generic", ""),
    ("gfx906", 0x2F, "XE", 64, "gfx9-generic", ""),
    ("gfx908", 0x30, "XE", 64, "", ""),
    ("gfx909", 0x31, "X", 64, "gfx9-generic", ""),
    ("gfx90a", 0x3F, "XE", 64, "", ""),
    ("gfx90c", 0x32, "X", 64, "gfx9-generic", ""),
    ("gfx940", 0x40, "XE", 64, "gfx9-4-generic", "cdna3.core"),
    ("gfx941", 0x4B, "XE", 64, "gfx9-4-generic", "cdna3.core"),
    ("gfx942", 0x4C, "XE", 64, "gfx9-4-generic", "cdna3.core"),
    ("gfx950", 0x4F, "XE", 64, "gfx9-4-generic", "cdna4.core"),
    ("gfx1010", 0x33, "X", 32, "gfx10-1-generic", ""),
    ("gfx1011", 0x34, "X", 32, "gfx10-1-generic", ""),
    ("gfx1012", 0x35, "X", 32, "gfx10-1-generic", ""),
    ("gfx1013", 0x42, "X", 32, "gfx10-1-generic", ""),
    ("gfx1030", 0x36, "", 32, "gfx10-3-generic", ""),
    ("gfx1031", 0x37, "", 32, "gfx10-3-generic", ""),
    ("gfx1032", 0x38, "", 32, "gfx10-3-generic", ""),
    ("gfx1033", 0x39, "", 32, "gfx10-3-generic", ""),
    ("gfx1034", 0x3E, "", 32, "gfx10-3-generic", ""),
    ("gfx1035", 0x3D, "", 32, "gfx10-3-generic", ""),
    ("gfx1036", 0x45, "", 32, "gfx10-3-generic", ""),
    ("gfx1100", 0x41, "", 32, "gfx11-generic", "rdna3.core"),
    ("gfx1101", 0x46, "", 32, "gfx11-generic", "rdna3.core"),
    ("gfx1102", 0x47, "", 32, "gfx11-generic", "rdna3.core"),
    ("gfx1103", 0x44, "", 32, "gfx11-generic", "rdna3.core"),
    ("gfx1150", 0x43, "", 32, "gfx11-generic", "rdna3_5.core"),
    ("gfx1151", 0x4A, "", 32, "gfx11-generic", "rdna3_5.core"),
    ("gfx1152", 0x55, "", 32, "gfx11-generic", "rdna3_5.core"),
    ("gfx1153", 0x58, "", 32, "gfx11-generic", "rdna3_5.core"),
    ("gfx1170", 0x5D, "", 32, "", "rdna4m.core"),
    ("gfx1171", 0x5E, "", 32, "", "rdna4m.core"),
    ("gfx1172", 0x5C, "", 32, "", "rdna4m.core"),
    ("gfx1200", 0x48, "", 32, "gfx12-generic", "rdna4.core"),
    ("gfx1201", 0x4E, "", 32, "gfx12-generic", "rdna4.core"),
    ("gfx1250", 0x49, "E", 32, "gfx12-5-generic", "rdna4.gfx125x.core"),
    ("gfx1251", 0x5A, "E", 32, "gfx12-5-generic", "rdna4.gfx1251.core"),
    ("gfx1310", 0x50, "", 32, "", ""),
    ("gfx9-generic", 0x51, "XG", 64, "", ""),
    ("gfx9-4-generic", 0x5F, "XEG", 64, "", "gfx9_4.generic.core"),
    ("gfx10-1-generic", 0x52, "XG", 32, "", ""),
    ("gfx10-3-generic", 0x53, "G", 32, "", ""),
    ("gfx11-generic", 0x54, "G", 32, "", "gfx11.generic.core"),
    ("gfx12-generic", 0x59, "G", 32, "", "gfx12.generic.core"),
    ("gfx12-5-generic", 0x5B, "G", 32, "", "gfx12_5.generic.core"),
)

# Processors with 1.5 times the vector registers; a generic processor has the smallest file of its members.
_LARGE_FILES = frozenset({"gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201", "gfx12-generic"})

# LLVM inserts the wait for these; a generic processor has the hazards of all its members.
_TRANS_USE_HAZARD = frozenset({"gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx11-generic"})

_MATRIX_WITHOUT_CONTRACT = {"gfx908": "mfma_gfx908", "gfx90a": "mfma_gfx90a"}


# Row of matrix instructions -> classes of tiles.
_TILE_CLASSES: Mapping[str, tuple[str, ...]] = {
    "wmma_gfx11": ("rdna3",),
    "wmma_gfx12": ("rdna4",),
    "mfma_gfx940": ("cdna",),
    "mfma_gfx950": ("cdna", "cdna4"),
}


def _vector_file(name: str, generation: Generation | None) -> Mapping[int, VectorFile]:
    if generation is None:
        return _NO_FILE
    if generation.agpr_count:
        return _UNIFIED_FILE
    return _LARGE_FILE if name in _LARGE_FILES else _SMALL_FILE


@cache
def processors() -> Mapping[str, Processor]:
    """Every known processor by name."""
    table: dict[str, Processor] = {}
    for name, machine, features, wave, generic, suffix in _PROCESSORS:
        contract = f"amdgpu.{suffix}" if suffix else ""
        facts = _CONTRACTS[contract]
        table[name] = Processor(
            name=name,
            machine=machine,
            xnack="X" in features,
            sramecc="E" in features,
            generic_version=1 if "G" in features else 0,
            generic=generic,
            wave=wave,
            contract=contract,
            generation=facts.generation,
            family=facts.family,
            matrix=facts.matrix or _MATRIX_WITHOUT_CONTRACT.get(name, ""),
            vector_file=_vector_file(name, facts.generation),
            trans_use_hazard=name in _TRANS_USE_HAZARD,
        )
    return MappingProxyType(table)


def profile(name: str) -> Processor:
    """The processor called ``name``.

    Raises:
        UnknownProcessorError: no such processor; the message has the closest names.
    """
    found = processors().get(name)
    if found is not None:
        return found
    import difflib

    close = [known for known in processors() if name and known.startswith(name)][:4]
    close = close or difflib.get_close_matches(name, processors(), n=3, cutoff=0.6)
    hint = f"; did you mean {' or '.join(repr(item) for item in close)}?" if close else ""
    raise UnknownProcessorError(f"unknown AMDGPU processor '{name}'{hint}")


@cache
def _by_machine() -> Mapping[int, Processor]:
    return MappingProxyType({processor.machine: processor for processor in processors().values()})


def profile_of_flags(e_flags: int) -> Processor | None:
    """The processor an ELF header's flags name, or None for an unknown machine number."""
    return _by_machine().get(e_flags & E_FLAGS_MACHINE_MASK)
