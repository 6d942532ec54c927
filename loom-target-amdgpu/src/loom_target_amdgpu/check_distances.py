"""Proof, after the fact, that final code keeps the distances that hardware does not.

From every instruction that others must keep away from, all paths are followed forwards until it is far enough, and
nothing on the way may touch its registers as the table forbids. Insertion (:mod:`loom_target_amdgpu.hazards`) is a
dataflow analysis that looks backwards; both share the tables of distances and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Final, NamedTuple

from loom_target_amdgpu.check_passes import PassCheckError
from loom_target_amdgpu.distances import CDNA, RDNA, Pair
from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.isa.registers import EXEC, VCC, registers
from loom_target_amdgpu.isa.tables import AGPR, VGPR
from loom_target_amdgpu.isa.waits import DEPCTR_FIELDS
from loom_target_amdgpu.machine_code import Code
from loom_target_amdgpu.matrix_hazards import FUSED_DOUBLE, accumulator_of, result_of, states_of
from loom_target_amdgpu.profiles import Processor

Units = Iterable[int]

_MEMORY: Final = frozenset({"GLOBAL", "SCRATCH", "FLAT", "MUBUF", "MTBUF"})
_SCALAR: Final = frozenset({"SOP1", "SOP2", "SOPC", "SOPK"})
_ALU_WAITS: Final = frozenset({"s_waitcnt_depctr", "s_wait_alu"})
_ALWAYS: Final = sys.maxsize
"""No number of states is enough: only a wait is."""
_MULTIPLIERS: Final = 0
"""Stands for the multipliers of f64, which are no register."""


class DistanceCheckError(PassCheckError):
    """An instruction comes too early after another one on some path; ``loc`` is where the later one comes from."""


class Rule(NamedTuple):
    """One distance.

    Attributes:
        pair: what the earlier and the later instruction do.
        states: how many must lie between.
        produced: registers of the earlier instruction.
        touched: registers of the later one, given both.
        left: registers that still matter behind an instruction; None if nothing but distance helps.
        idle: mnemonic of vector instructions that count for nothing.
    """

    pair: Pair
    states: int
    produced: Callable[[Code], Units]
    touched: Callable[[Code, Code], Units]
    left: Callable[[Code, frozenset[int]], frozenset[int]] | None = None
    idle: str = ""


def _is_vector(code: Code) -> bool:
    return code.row.format.startswith(("VOP", "MFMA", "WMMA"))


def _is_matrix(code: Code) -> bool:
    return code.row.mnemonic.startswith(("v_mfma", "v_smfmac", "v_wmma", "v_swmmac"))


def _is_plain_vector(code: Code) -> bool:
    return _is_vector(code) and not _is_matrix(code)


def _is_memory(code: Code) -> bool:
    return code.row.format in _MEMORY or code.row.format == "DS"


def _scalars(units: Units) -> list[int]:
    return [unit for unit in units if unit <= VCC + 1]


def _vectors(units: Units) -> list[int]:
    return [unit for unit in units if VGPR <= unit < AGPR + 256]


def _operands(code: Code, *names: str) -> list[int]:
    """Register units of operands by name."""
    return [
        code.codes[o.name] + k
        for o in code.row.operands
        if o.name in names and o.ranges
        for k in range(max(1, o.width_bits // 32))
    ]


# What earlier instructions do.


def _vector_to_scalar(code: Code) -> Units:
    return _scalars(code.writes) if _is_vector(code) else ()


def _vector_to_mask(code: Code) -> Units:
    return (EXEC,) if _is_vector(code) and EXEC in code.writes else ()


def _vector_result(code: Code) -> Units:
    return _vectors(code.writes) if _is_plain_vector(code) else ()


def _transcendental(code: Code) -> Units:
    return _vectors(code.writes) if _is_vector(code) and "trans" in code.row.flags else ()


def _dot_product(code: Code) -> Units:
    return _vectors(code.writes) if code.row.mnemonic.startswith("v_dot") else ()


def _stored(code: Code) -> Units:
    if code.row.format not in _MEMORY:
        return ()
    wide = [
        o.name for o in code.row.operands if o.name in ("data", "vdata") and o.direction == "in" and o.width_bits > 64
    ]
    return _operands(code, *wide)


def _scalar_to_m0(code: Code) -> Units:
    m0 = registers(code.row.family).codes["m0"]
    return (m0,) if code.row.format in _SCALAR and m0 in code.writes else ()


def _double_product(code: Code) -> Units:
    return (_MULTIPLIERS,) if _is_matrix(code) and code.row.mnemonic.endswith("_f64") else ()


def _matrix_result(code: Code) -> Units:
    return _vectors(code.writes) if _is_matrix(code) else ()


def _mask_comparison(code: Code) -> Units:
    return (EXEC,) if code.row.mnemonic.startswith("v_cmpx") else ()


# What later instructions do.


def _vector_reads_scalar(_: Code, code: Code) -> Units:
    return _scalars(code.reads) if _is_vector(code) else ()


def _lane_selector(_: Code, code: Code) -> Units:
    return _operands(code, "src1") if code.row.mnemonic in ("v_readlane_b32", "v_writelane_b32") else ()


def _division_mask(_: Code, code: Code) -> Units:
    return _scalars(code.reads) if code.row.mnemonic.startswith("v_div_fmas") else ()


def _memory_reads_scalar(_: Code, code: Code) -> Units:
    return _scalars(code.reads) if code.row.format in _MEMORY else ()


def _moves_under_mask(_: Code, code: Code) -> Units:
    return (EXEC,) if code.row.variant.startswith("dpp") else ()


def _lanes_under_mask(_: Code, code: Code) -> Units:
    return (EXEC,) if code.row.mnemonic.startswith(("v_readlane", "v_readfirstlane", "v_writelane")) else ()


def _multiplies_under_mask(_: Code, code: Code) -> Units:
    return (EXEC,) if _is_matrix(code) else ()


def _lane_is_read(_: Code, code: Code) -> Units:
    return _vectors(code.reads) if code.row.mnemonic.startswith(("v_readlane", "v_readfirstlane")) else ()


def _moved(_: Code, code: Code) -> Units:
    return _vectors(code.reads) if code.row.variant.startswith("dpp") else ()


def _multiplied(_: Code, code: Code) -> Units:
    return _vectors(code.reads) if _is_matrix(code) else ()


def _vector_reads(_: Code, code: Code) -> Units:
    return _vectors(code.reads) if _is_vector(code) else ()


def _vector_reads_but_transcendental(_: Code, code: Code) -> Units:
    return _vectors(code.reads) if _is_vector(code) and "trans" not in code.row.flags else ()


def _all_but_own_sum(earlier: Code, code: Code) -> Units:
    if earlier.row.mnemonic == code.row.mnemonic:
        return _operands(code, "src0", "src1", "vsrc1")
    return _vectors((*code.reads, *code.writes)) if _is_plain_vector(code) or _is_memory(code) else ()


def _vector_writes(_: Code, code: Code) -> Units:
    return _vectors(code.writes) if _is_vector(code) else ()


def _message(_: Code, code: Code) -> Units:
    return (registers(code.row.family).codes["m0"],) if code.row.mnemonic.startswith("s_sendmsg") else ()


def _fused(_: Code, code: Code) -> Units:
    return (_MULTIPLIERS,) if code.row.mnemonic in FUSED_DOUBLE else ()


def _factors(_: Code, code: Code) -> Units:
    return _operands(code, "src0", "src1") if _is_matrix(code) else ()


def _permuted_under_mask(_: Code, code: Code) -> Units:
    return (EXEC,) if code.row.mnemonic.startswith("v_permlane") else ()


def _any_scalar_read(_: Code, code: Code) -> Units:
    return _scalars(code.reads)


# What ends the matter before the distance does.


def _waited(code: Code) -> frozenset[str]:
    """Names of the counts of ALU results that an instruction waits for."""
    if code.row.mnemonic not in _ALU_WAITS:
        return frozenset()
    return frozenset(field.name for field in DEPCTR_FIELDS if not field.get(code.codes["simm16"]))


def _until_rewritten(code: Code, live: frozenset[int]) -> frozenset[int]:
    return live.difference(code.writes) if _is_vector(code) else live


def _until_multiplied(code: Code, live: frozenset[int]) -> frozenset[int]:
    return live.difference(code.writes) if _is_matrix(code) else live


def _until_vectors_end(code: Code, live: frozenset[int]) -> frozenset[int]:
    return frozenset() if "va_vdst" in _waited(code) else _until_rewritten(code, live)


def _until_vectors_wrote_scalars(code: Code, live: frozenset[int]) -> frozenset[int]:
    if code.row.format in _SCALAR:
        return live.difference(code.writes)
    fields = _waited(code)
    return frozenset(unit for unit in live if ("va_vcc" if unit >= VCC else "va_sdst") not in fields)


def _until_scalars_wrote(code: Code, live: frozenset[int]) -> frozenset[int]:
    return frozenset() if "sa_sdst" in _waited(code) else _until_rewritten(code, live)


_CDNA_RULES: Final = (
    (("vector writes scalar", "vector reads"), _vector_to_scalar, _vector_reads_scalar),
    (("vector writes scalar", "vector selects a lane by"), _vector_to_scalar, _lane_selector),
    (("vector writes scalar", "division scales by"), _vector_to_scalar, _division_mask),
    (("vector writes scalar", "memory reads"), _vector_to_scalar, _memory_reads_scalar),
    (("vector writes the mask", "DPP moves under"), _vector_to_mask, _moves_under_mask),
    (("vector writes the mask", "lanes move under"), _vector_to_mask, _lanes_under_mask),
    (("vector writes the mask", "matrix multiplies under"), _vector_to_mask, _multiplies_under_mask),
    (("vector writes", "a lane is read of"), _vector_result, _lane_is_read),
    (("vector writes", "DPP moves"), _vector_result, _moved),
    (("vector writes", "matrix multiplies"), _vector_result, _multiplied),
    (("dot product writes", "all but its own sum uses"), _dot_product, _all_but_own_sum),
    (("wide store reads", "vector writes"), _stored, _vector_writes),
    (("scalar writes M0", "message sends"), _scalar_to_m0, _message),
    (("matrix multiplies f64", "f64 is fused"), _double_product, _fused),
)
_TRANSCENDENTAL: Final[Pair] = ("transcendental writes", "vector reads")
_MATRIX: Final[Pair] = ("matrix writes", "matrix multiplies")
_COMPARISON: Final[Pair] = ("comparison writes the mask", "lanes are permuted under")
_SCALAR_AFTER_VECTOR: Final = Rule(
    ("vector writes scalar", "anything reads before a wait"),
    _ALWAYS,
    _vector_to_scalar,
    _any_scalar_read,
    _until_vectors_wrote_scalars,
)
_SCALAR_AFTER_READ: Final = Rule(
    ("scalar writes what a vector instruction has read", "anything reads before a wait"),
    _ALWAYS,
    lambda code: (),
    _any_scalar_read,
    _until_scalars_wrote,
)
"""Which instructions are the earlier ones depends on the paths to them: see :func:`_overwritten`."""


def _cdna_rules() -> tuple[Rule, ...]:
    plain = [Rule(pair, CDNA[pair], produced, touched) for pair, produced, touched in _CDNA_RULES]
    transcendental = Rule(
        _TRANSCENDENTAL,
        CDNA[_TRANSCENDENTAL],
        _transcendental,
        _vector_reads_but_transcendental,
        _until_rewritten,
    )
    return (*plain, transcendental)


def _rdna_rules(family: str, trans_use: bool) -> tuple[Rule, ...]:
    rules = [
        Rule(_MATRIX, RDNA[_MATRIX], _matrix_result, _factors),
        Rule(_COMPARISON, RDNA[_COMPARISON], _mask_comparison, _permuted_under_mask, idle="v_nop"),
    ]
    if trans_use:
        rules.append(Rule(_TRANSCENDENTAL, RDNA[_TRANSCENDENTAL], _transcendental, _vector_reads, _until_vectors_end))
    if family == "gfx12":
        rules.append(_SCALAR_AFTER_VECTOR)
    return tuple(rules)


# Behind matrix instructions of gfx942 and gfx950.


def _used(_: Code, code: Code) -> Units:
    return _vectors((*code.reads, *code.writes)) if _is_plain_vector(code) else ()


def _transferred(_: Code, code: Code) -> Units:
    return _vectors((*code.reads, *code.writes)) if _is_memory(code) else ()


def _multiplied_with(_: Code, code: Code) -> Units:
    return set(_vectors(code.reads)).difference(accumulator_of(code)) if _is_matrix(code) else ()


def _continues(earlier: Code, code: Code) -> bool:
    """Whether the same instruction goes on adding to exactly the result."""
    return code.row.mnemonic == earlier.row.mnemonic and accumulator_of(code) == result_of(earlier)


def _continued(earlier: Code, code: Code) -> Units:
    return accumulator_of(code) if _is_matrix(code) and _continues(earlier, code) else ()


def _overlapped(earlier: Code, code: Code) -> Units:
    if not _is_matrix(code):
        return ()
    own = set(accumulator_of(code))
    return set(result_of(code)) - own if _continues(earlier, code) else own | set(result_of(code))


def _addend_lost(_: Code, code: Code) -> Units:
    return _vectors(code.writes) if _is_plain_vector(code) else ()


@cache
def _matrix_rules(mnemonic: str, slower: int) -> tuple[Rule, ...]:
    states = states_of(mnemonic, slower)
    written = "matrix writes"
    return (
        Rule((written, "vector uses"), states.use, result_of, _used, _until_multiplied),
        Rule((written, "memory uses"), states.memory, result_of, _transferred, _until_multiplied),
        Rule((written, "matrix multiplies"), states.use, result_of, _multiplied_with, _until_multiplied),
        Rule((written, "the same goes on adding to"), states.same, result_of, _continued, _until_multiplied),
        Rule((written, "another matrix overlaps"), states.overlap, result_of, _overlapped, _until_multiplied),
        Rule(("matrix adds to", "vector writes"), states.source, accumulator_of, _addend_lost),
    )


def check_distances(blocks: Sequence[CodeBlock], processor: Processor) -> None:
    """Check the final code of a function.

    Raises:
        DistanceCheckError: an instruction comes too early on some path.
    """
    cdna = processor.family == "gfx942"
    rules = _cdna_rules() if cdna else _rdna_rules(processor.family, processor.trans_use_hazard)
    slower = int(processor.matrix == "mfma_gfx950")
    step = _wait_states if cdna else _vector_instructions
    by_label = {block.label: block for block in blocks}
    for block in blocks:
        for position, code in enumerate(block.code):
            chosen = (*rules, *_matrix_rules(code.row.mnemonic, slower)) if cdna and _is_matrix(code) else rules
            for rule in chosen:
                units = frozenset(rule.produced(code))
                if units:
                    _follow(rule, code, units, block, position + 1, by_label, step)
    if processor.family == "gfx12":
        for code, units, block, position in _overwritten(blocks):
            _follow(_SCALAR_AFTER_READ, code, units, block, position + 1, by_label, step)


def _wait_states(code: Code, _: str) -> int:
    return int(code.codes["simm16"]) + 1 if code.row.mnemonic == "s_nop" else 1


def _vector_instructions(code: Code, idle: str) -> int:
    return int(_is_vector(code) and code.row.mnemonic != idle)


def _follow(
    rule: Rule,
    earlier: Code,
    units: frozenset[int],
    block: CodeBlock,
    position: int,
    by_label: dict[str, CodeBlock],
    step: Callable[[Code, str], int],
) -> None:
    """Go along all paths from a position until the rule is kept. Raises `DistanceCheckError`."""
    seen: set[tuple[str, int, frozenset[int]]] = set()
    work = [(block, position, 0, units)]
    while work:
        block, position, passed, live = work.pop()
        for code in islice(block.code, position, None):
            if passed >= rule.states:
                break
            early = live.intersection(rule.touched(earlier, code))
            if early:
                raise _fault(rule, earlier, code, passed)
            if rule.left is not None:
                live = rule.left(code, live)
                if not live:
                    break
            if rule.states != _ALWAYS:
                passed += step(code, rule.idle)
        if not live or passed >= rule.states:
            continue
        for label in block.successors:
            if (label, passed, live) not in seen:
                seen.add((label, passed, live))
                work.append((by_label[label], 0, passed, live))


def _fault(rule: Rule, earlier: Code, code: Code, passed: int) -> DistanceCheckError:
    what, then = rule.pair
    need = "a wait" if rule.states == _ALWAYS else f"{rule.states} states, and there are {passed}"
    return DistanceCheckError(
        f"{code.row.mnemonic} comes too early after {earlier.row.mnemonic} ({what}, {then}): between must be {need}",
        code.loc or earlier.loc,
    )


def _overwritten(blocks: Sequence[CodeBlock]) -> Iterator[tuple[Code, frozenset[int], CodeBlock, int]]:
    """Scalar instructions with the registers they write whose pair a vector instruction has read on some path."""
    before: dict[str, list[CodeBlock]] = {block.label: [] for block in blocks}
    for block in blocks:
        for label in block.successors:
            before[label].append(block)
    read_in = {block.label: {pair for code in block.code for pair in _pairs_read(code)} for block in blocks}
    for block in blocks:
        read = {pair for label in _reaching(block, before) for pair in read_in[label]}
        for position, code in enumerate(block.code):
            read.update(_pairs_read(code))
            if code.row.format in _SCALAR:
                units = frozenset(unit for unit in _scalars(code.writes) if unit & ~1 in read)
                if units:
                    yield code, units, block, position


def _pairs_read(code: Code) -> Units:
    """Scalar registers that a vector instruction reads, by the even one of their pair."""
    return (unit & ~1 for unit in _scalars(code.reads)) if _is_vector(code) else ()


def _reaching(block: CodeBlock, before: Mapping[str, Sequence[CodeBlock]]) -> set[str]:
    """Labels of the blocks on paths to a block."""
    seen: set[str] = set()
    work = [block]
    while work:
        for earlier in before[work.pop().label]:
            if earlier.label not in seen:
                seen.add(earlier.label)
                work.append(earlier)
    return seen
