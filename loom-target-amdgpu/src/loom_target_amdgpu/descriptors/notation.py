"""The compact notation of descriptor tables: one instruction (with its variants) per line.

    generations | mnemonic[=key] | results | operands | immediates | attributes | variants

* generations: letters, ``3`` CDNA3, ``4`` CDNA4, ``A`` RDNA3, ``a`` RDNA3.5, ``B`` RDNA4; ``*`` is all.
* several mnemonics of one shape stand in one line, separated by blanks.
* results and operands: ``name:classes[units][.low16]``; classes are letters ``s v a c`` (condition bit) ``k`` (VCC)
  ``m`` (M0); ``name:v=acc`` ties a result to an operand.
* immediates: ``name!`` is positional, ``name?`` has the default 0, ``name`` is named and mandatory, ``@c`` stands
  for the cache policy fields of the generation.
* attributes: ``<scc`` reads and ``>scc`` writes an implicit register; ``swap`` makes the first two operands
  commutative; ``isa=``, ``form=`` name the table row, ``map=`` lists the source of every encoded operand in
  assembler order (default: results, operands, then immediates that are operands); ``mod=name:value`` fixes a
  modifier; ``once`` may be recomputed instead of kept; ``class=`` the scheduling class; ``side`` and ``barrier``
  as in :class:`~loom.low.descriptors.Effects`; ``matrix``: operands tied to a result are encoded all the same.
* variants: ``suffix(operand=immediate)`` replaces operands by immediates; ``[generations]`` restricts one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, Literal

from loom.ir.records import evolve, record
from loom.low.descriptors import Descriptor, Effects, ImmediateDescriptor, OperandDescriptor
from loom_target_amdgpu.descriptors.encoding import Encoding, Source

CLASSES: Final[Mapping[str, str]] = {
    "s": "amdgpu.sgpr",
    "v": "amdgpu.vgpr",
    "a": "amdgpu.agpr",
    "c": "amdgpu.scc",
    "k": "amdgpu.vcc",
    "m": "amdgpu.m0",
}
CACHE_FIELDS: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    "3": (("nt", 1), ("sc0", 1), ("sc1", 1)),
    "4": (("nt", 1), ("sc0", 1), ("sc1", 1)),
    "A": (("dlc", 1), ("glc", 1), ("slc", 1)),
    "a": (("dlc", 1), ("glc", 1), ("slc", 1)),
    "B": (("scope", 3), ("th", 7)),
}
INLINE: Final = (-16, 64)
LITERAL: Final = (-(1 << 31), (1 << 32) - 1)
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "imm16": (-32768, 65535),
    "shift": (0, 31),
    "dpp_ctrl": (0, 511),
    "vmcnt": (0, 63),
    "vscnt": (0, 63),
    "loadcnt": (0, 63),
    "storecnt": (0, 63),
    "dscnt": (0, 63),
    "kmcnt": (0, 31),
    "depctr": (0, 65535),
    "offset0": (0, 255),
    "offset1": (0, 255),
    "width": (0, 32),
    "lane": (0, 63),
}
# Waiting for nothing is the default of a wait threshold.
_WAIT_DEFAULTS: Final[Mapping[str, int]] = {"vmcnt": 63}
_OPERAND: Final = re.compile(
    r"(?P<name>\w+):(?P<classes>[a-z]+?)(?P<units>\d*)(?:\.(?P<part>low16|high16))?(?:=(?P<tied>\w+))?$"
)
_VARIANT: Final = re.compile(r"(?P<suffix>\w+)\((?P<edits>[^)]*)\)(?:\[(?P<gens>\w+)\])?$")

Part = Literal["low16", "high16"]


@record(eq=False)
class Line:
    """What a line says of an instruction, still for every generation."""

    results: tuple[str, ...]
    operands: tuple[str, ...]
    immediates: tuple[str, ...]
    attributes: Mapping[str, str]
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@cache
def parse_line(text: str) -> Line:
    """The columns of a line behind generations and names, variants left out."""
    results, operands, immediates, attributes = (column.split() for column in _columns(text)[2:6])
    table: dict[str, str] = {}
    reads: list[str] = []
    writes: list[str] = []
    for word in attributes:
        if word[0] == "<":
            reads.append(word[1:])
        elif word[0] == ">":
            writes.append(word[1:])
        else:
            name, _, value = word.partition("=")
            table[name] = value
    return Line(tuple(results), tuple(operands), tuple(immediates), table, tuple(reads), tuple(writes))


def _columns(line: str) -> list[str]:
    columns = line.split("|")
    return columns + [""] * (7 - len(columns))


class Entry:
    """One instruction that has been named but not read: :meth:`make` reads the rest of its line.

    Attributes:
        key, mnemonic: its names in a descriptor set.
    """

    __slots__ = ("_arguments", "key", "mnemonic")

    def __init__(self, key: str, mnemonic: str, arguments: tuple[Any, ...]) -> None:
        self.key = key
        self.mnemonic = mnemonic
        self._arguments = arguments

    def make(self) -> Descriptor:
        """Its descriptor."""
        return _make(*self._arguments)


@cache
def _variants(text: str) -> tuple[tuple[str, str, Mapping[str, str]], ...]:
    """Suffix, generations (empty for all) and edits of each variant in the last column of a line."""
    found = []
    for variant in text.split():
        match = _VARIANT.match(variant)
        assert match is not None, variant
        edits = dict(edit.split("=") for edit in match["edits"].split(",")) if match["edits"] else {}
        found.append((match["suffix"], match["gens"] or "", edits))
    return tuple(found)


def entries(text: str, generation: str) -> Iterator[Entry]:
    """The instructions of a table that a generation has, variants after their base.

    Blank lines and ``#`` comments are skipped. A kernel uses a few instructions of many hundred: only names are read
    here.
    """
    for line in map(str.strip, text.splitlines()):
        if not line or line[0] == "#":
            continue
        columns = _columns(line)
        generations = columns[0].strip()
        if generation not in ("34AaB" if generations == "*" else generations):
            continue
        variants = [v for v in _variants(columns[6]) if generation in (v[1] or generation)]
        for name in columns[1].split():
            mnemonic, _, key = name.partition("=")
            key = key or mnemonic
            yield Entry("amdgpu." + key, mnemonic, (line, mnemonic, key, generation, "", {}))
            for suffix, _, edits in variants:
                arguments = (line, mnemonic, key, generation, suffix, edits)
                yield Entry(f"amdgpu.{key}.{suffix}", f"{mnemonic}_{suffix}", arguments)


def _make(text: str, mnemonic: str, key: str, generation: str, suffix: str, edits: Mapping[str, str]) -> Descriptor:
    line = parse_line(text)
    declared = [_operand(word) for word in line.operands]
    operands = [operand for operand in declared if operand.name not in edits]
    # A tuple that is not tied to an accumulator must not start where the sources of a matrix instruction end.
    results = [evolve(o, tied=None, early_clobber=True) if o.tied in edits else o for o in map(_operand, line.results)]
    immediates = list(_immediates(line.immediates, generation, _limits(suffix)))
    for name in edits.values():
        if name.rstrip("!?") not in {i.name for i in immediates}:
            immediates.extend(_immediates((name,), generation, _limits(suffix)))
    sources = _sources(line, [o.name for o in results], declared, operands, edits, immediates)
    attributes = line.attributes
    modifiers = tuple(_fixed(word) for word in attributes.get("mod", "").split(",") if word)
    # The counters of a wait share one encoded operand.
    packed = any(s.code == "waitcnt" for s in sources)
    named = () if packed else tuple(i.name for i in immediates if not any(s.immediate == i.name for s in sources))
    encoding = Encoding(
        attributes.get("isa") or mnemonic,
        attributes.get("form"),
        tuple(sources),
        modifiers,
        named,
        attributes.get("fmt"),
    )
    commutative = (
        (operands[0].name, operands[1].name) if "swap" in attributes and not edits and len(operands) == 2 else None
    )
    return Descriptor(
        key="amdgpu." + key + (f".{suffix}" if suffix else ""),
        mnemonic=mnemonic + (f"_{suffix}" if suffix else ""),
        results=results,
        operands=operands,
        immediates=immediates,
        effects=_effects(line, mnemonic),
        schedule_class=attributes.get("class") or _schedule_class(mnemonic),
        commutative=commutative,
        rematerializable="once" in attributes,
        encoding=encoding,
    )


def _limits(suffix: str) -> tuple[int, int]:
    return LITERAL if "lit" in suffix.split("_") or not suffix else INLINE


def _operand(text: str) -> OperandDescriptor:
    match = _OPERAND.match(text)
    assert match is not None, text
    part: Part | None = None
    if match["part"] == "low16":
        part = "low16"
    elif match["part"] == "high16":
        part = "high16"
    return OperandDescriptor(
        match["name"], tuple(CLASSES[c] for c in match["classes"]), int(match["units"] or 1), part, match["tied"]
    )


def _immediates(words: tuple[str, ...], generation: str, limits: tuple[int, int]) -> Iterator[ImmediateDescriptor]:
    for word in words:
        if word == "@c":
            for name, maximum in CACHE_FIELDS[generation]:
                yield ImmediateDescriptor(name, default=0, minimum=0, maximum=maximum)
            continue
        name = word.rstrip("!?")
        low, high = _RANGES.get(name, (None, None) if name in ("offset", "message") else limits)
        default = None
        if word.endswith("?"):
            default = _WAIT_DEFAULTS.get(name, 0)
            if name == "lgkmcnt":
                default = 15 if generation in "34" else 63
                low, high = 0, default
        yield ImmediateDescriptor(name, positional=word.endswith("!"), default=default, minimum=low, maximum=high)


def _sources(
    line: Line,
    results: list[str],
    declared: list[OperandDescriptor],
    operands: list[OperandDescriptor],
    edits: Mapping[str, str],
    immediates: list[ImmediateDescriptor],
) -> list[Source]:
    """Where every encoded operand of the table row comes from, in assembler order."""
    wanted = line.attributes.get("map")
    if wanted is None and "matrix" in line.attributes:
        order = results + [o.name for o in declared]
    elif wanted is None:
        tied = {o.partition("=")[2] for o in line.results if "=" in o}
        order = results + [o.name for o in declared if o.name not in tied]
        if line.attributes.get("form") != "mods":
            order += [
                i.name for i in immediates if i.name not in {e.rstrip("!?") for e in edits.values()} and i.positional
            ]
    else:
        order = [] if wanted == "-" else wanted.split(",")
    sources = []
    for name in order:
        if name in edits:
            sources.append(Source(immediate=edits[name].rstrip("!?")))
        elif name in results:
            sources.append(Source(result=results.index(name)))
        elif any(o.name == name for o in operands):
            sources.append(Source(operand=next(i for i, o in enumerate(operands) if o.name == name)))
        elif any(i.name == name for i in immediates):
            sources.append(Source(immediate=name))
        else:
            sources.append(Source(code=name))
    return sources


def _fixed(word: str) -> tuple[str, int]:
    name, _, value = word.partition(":")
    return name, int(value, 0)


_MEMORY: Final = (
    ("s_buffer_", "global"),
    ("s_load_", "global"),
    ("s_store_", "global"),
    ("s_scratch_", "private"),
    ("buffer_", "global"),
    ("global_", "global"),
    ("flat_", "generic"),
    ("scratch_", "private"),
    ("ds_", "workgroup"),
)
_LANE_EXCHANGE: Final = frozenset({"ds_permute_b32", "ds_bpermute_b32", "ds_swizzle_b32"})


def _effects(line: Line, mnemonic: str) -> Effects:
    """Memory effects follow from the name, the rest from the attributes."""
    attributes = line.attributes
    reads: set[str] = set()
    writes: set[str] = set()
    implicit_reads = list(line.reads)
    vector = mnemonic.startswith(("v_", "global_", "flat_", "scratch_", "ds_", "buffer_"))
    if vector and "noexec" not in attributes:
        implicit_reads.append("exec")
    if "mem" not in attributes and mnemonic not in _LANE_EXCHANGE:
        for prefix, space in _MEMORY:
            if mnemonic.startswith(prefix):
                words = mnemonic.split("_")
                if "load" in words or mnemonic.startswith(("ds_read", "s_buffer_load", "s_load", "s_scratch_load")):
                    reads.add(space)
                elif "store" in words or mnemonic.startswith("ds_write"):
                    writes.add(space)
                elif "inv" not in words:
                    reads.add(space)
                    writes.add(space)
                break
    return Effects(
        reads=reads,
        writes=writes,
        implicit_reads=implicit_reads,
        implicit_writes=line.writes,
        side_effects="side" in attributes or "barrier" in attributes,
        barrier="barrier" in attributes,
    )


_TRANSCENDENTAL: Final = re.compile(r"v_(exp|log|sin|cos|sqrt|rsq|rcp|rcp_iflag)_f(16|32|64)")


def _schedule_class(mnemonic: str) -> str:
    if mnemonic.startswith("v_"):
        if _TRANSCENDENTAL.match(mnemonic):
            return "trans"
        if mnemonic.startswith(("v_mfma", "v_smfmac", "v_wmma", "v_swmmac")):
            return "matrix"
        if mnemonic.startswith(("v_mul_lo_u32", "v_mul_hi", "v_mad_u64", "v_mad_i64")) or mnemonic.endswith(
            ("_f64", "_b64")
        ):
            return "valu_slow"
        return "valu"
    if mnemonic.startswith(("s_load", "s_buffer_load", "s_sendmsg_rtn")):
        return "smem"
    if mnemonic.startswith("ds_"):
        return "lds"
    if mnemonic.startswith(("global_", "flat_", "buffer_", "scratch_")):
        return "vmem_store" if "_store" in mnemonic else "vmem"
    return "salu"
