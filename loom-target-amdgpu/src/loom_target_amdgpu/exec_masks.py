"""The execution mask after register allocation, when it is known which saved masks somebody reads.

Selection narrows the mask in one way everywhere: compare, save and narrow, branch over the code if no lane is left,
restore. Here goes what nothing needs: restoring a mask under which nothing executes any more, saving a mask that is
not restored (the comparison then writes the mask itself), and branches over code so short that walking through it
without lanes costs less.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.isa.encode import EncodingError, encode
from loom_target_amdgpu.isa.registers import EXEC, SCC
from loom_target_amdgpu.isa.tables import LITERAL, VGPR
from loom_target_amdgpu.machine_code import Assembler, Code

_SHORT: Final = 16
"""Instructions that a wave without active lanes rather walks through than branches around."""
_RESTORES: Final = frozenset({"s_mov_b32", "s_mov_b64"})
_SAVES: Final = frozenset({"s_and_saveexec_b32", "s_and_saveexec_b64"})
_VECTOR: Final = ("v_", "global_", "ds_", "flat_", "scratch_", "buffer_load", "buffer_store")
_UNSAFE: Final = ("v_readlane", "v_writelane", "v_cmpx", "s_load", "s_buffer", "s_store", "s_atomic", "s_scratch")
_PURE_SCALAR: Final = (
    *("s_add", "s_sub", "s_mul", "s_lsh", "s_ashr", "s_and_b", "s_or_b", "s_xor_b", "s_mov_b", "s_cmp_", "s_cselect"),
    *("s_min", "s_max", "s_bfe", "s_not_b"),
)


def simplify_masks(blocks: list[CodeBlock], assembler: Assembler) -> None:
    """Take out mask work that nothing needs."""
    if not any(EXEC in code.writes for block in blocks for code in block.code):
        return
    liveness = _Liveness(blocks)
    for block in blocks:
        if _drop_dead_restores(block, liveness.after[block.label]):
            liveness = _Liveness(blocks)
    for block in blocks:
        _compare_into_mask(block, liveness.after[block.label], assembler)
    for block, following, after in zip(blocks, blocks[1:], blocks[2:], strict=False):
        _walk_through(block, following, after, liveness)


class _Liveness:
    """Scalar registers, condition bits and masks that are read before they are written, as sets of bits."""

    def __init__(self, blocks: list[CodeBlock]) -> None:
        self.before = {block.label: 0 for block in blocks}
        self.after = dict(self.before)
        self._nexts = {
            block.label: _nexts(block, following) for block, following in zip(blocks, [*blocks[1:], None], strict=True)
        }
        effects = {block.label: _effect(block.code) for block in blocks}
        changed = True
        while changed:
            changed = False
            for block in reversed(blocks):
                after = 0
                for label in self._nexts[block.label]:
                    after |= self.before[label]
                reads, writes = effects[block.label]
                before = reads | (after & ~writes)
                self.after[block.label] = after
                if before != self.before[block.label]:
                    self.before[block.label] = before
                    changed = True


def _nexts(block: CodeBlock, following: CodeBlock | None) -> list[str]:
    """Labels of the blocks that control goes to."""
    nexts = [code.target for code in block.code if code.target is not None]
    ends = block.code[-1].row.mnemonic in ("s_branch", "s_endpgm") if block.code else False
    if not ends and following is not None:
        nexts.append(following.label)
    return nexts


def _bits(units: Iterable[int]) -> int:
    """The scalar registers among some, as a set of bits."""
    bits = 0
    for unit in units:
        if unit < VGPR:
            bits |= 1 << unit
    return bits


def _effect(code: list[Code]) -> tuple[int, int]:
    """Registers that are read before they are written, and those that are written whatever happens."""
    reads = writes = 0
    for item in reversed(code):
        written = _bits(item.writes)
        read = _bits(item.reads)
        reads = read | (reads & ~written)
        writes |= written
    return reads, writes


def _drop_dead_restores(block: CodeBlock, after: int) -> bool:
    """Leave out a mask that nothing executes under. Whether there was one."""
    live = after
    kept: list[Code] = []
    for code in reversed(block.code):
        if code.row.mnemonic in _RESTORES and EXEC in code.writes and not live >> EXEC & 3:
            continue
        live = _bits(code.reads) | (live & ~_bits(code.writes))
        kept.append(code)
    dropped = len(kept) < len(block.code)
    block.code = kept[::-1]
    return dropped


def _compare_into_mask(block: CodeBlock, after: int, assembler: Assembler) -> None:
    """``v_cmp`` and ``s_and_saveexec`` become ``v_cmpx`` where neither the comparison nor the old mask is read."""
    for position in range(len(block.code) - 1, -1, -1):
        save = block.code[position]
        if save.row.mnemonic not in _SAVES:
            continue
        rest_reads, rest_writes = _effect(block.code[position + 1 :])
        live = rest_reads | (after & ~rest_writes)
        saved, mask = save.codes["sdst"], save.codes["ssrc0"]
        units = 2 if assembler.wave == 64 else 1
        wanted = _bits(range(saved, saved + units)) | _bits(range(mask, mask + units))
        branch = block.code[position + 1] if position + 1 < len(block.code) else None
        if live & wanted or (branch is not None and branch.row.mnemonic not in _BRANCHES and SCC in branch.reads):
            continue
        if branch is not None and branch.row.mnemonic in _BRANCHES:
            tail_reads, tail_writes = _effect(block.code[position + 2 :])
            live = tail_reads | (after & ~tail_writes)
        if live >> SCC & 1:
            continue
        number = _comparison(block.code, position, mask, units)
        if number is None:
            continue
        fused = _mask_writer(block.code[number], assembler)
        if fused is None:
            continue
        block.code[position] = fused
        if branch is not None and branch.row.mnemonic in _BRANCHES:
            opposite = _BRANCHES[branch.row.mnemonic]
            block.code[position + 1] = assembler.plain(opposite, branch.loc, target=branch.target, simm16=0)
        del block.code[number]
        return


_BRANCHES: Final = {"s_cbranch_scc0": "s_cbranch_execz", "s_cbranch_scc1": "s_cbranch_execnz"}


def _comparison(code: list[Code], position: int, mask: int, units: int) -> int | None:
    """The comparison before ``position`` that writes the mask, if it may as well happen there."""
    touched: set[int] = set()
    masks = set(range(mask, mask + units))
    for number in range(position - 1, -1, -1):
        item = code[number]
        if masks & set(item.writes):
            if not item.row.mnemonic.startswith("v_cmp_") or touched & set(item.reads):
                return None
            return number
        if masks & set(item.reads) or EXEC in item.writes:
            return None
        touched.update(item.writes)
    return None


def _mask_writer(compare: Code, assembler: Assembler) -> Code | None:
    """The comparison that writes the execution mask, or None where this one has modifiers that are not known here."""
    literal = int.from_bytes(compare.data[-4:], "little") if LITERAL in compare.codes.values() else None
    try:
        if encode(compare.row, compare.codes, {}, literal) != compare.data:
            return None
        name = compare.row.mnemonic.replace("v_cmp_", "v_cmpx_")
        row = assembler.table.find(name, compare.row.format, wave=assembler.wave)
        fields = {operand.name for operand in row.operands if operand.ranges}
        codes = {name: code for name, code in compare.codes.items() if name in fields}
        return Code(row, codes, encode(row, codes, {}, literal), assembler.wave, compare.loc)
    except (EncodingError, KeyError):
        return None


def _walk_through(block: CodeBlock, following: CodeBlock, after: CodeBlock, liveness: _Liveness) -> None:
    """Leave out a branch around a short block, to the one ``after``, that does nothing when no lane is active."""
    if len(block.code) < 2:
        return
    branch = block.code[-1]
    narrowing = block.code[-2]
    if branch.row.mnemonic not in ("s_cbranch_scc0", "s_cbranch_execz") or EXEC not in narrowing.writes:
        return
    if branch.row.mnemonic == "s_cbranch_scc0" and SCC not in narrowing.writes:
        return
    if branch.target != after.label or not 0 < len(following.code) <= _SHORT:
        return
    if not all(_idle(code) for code in following.code):
        return
    if _effect(following.code)[1] & liveness.before[after.label] & ~(3 << EXEC):
        return
    block.code.pop()
    block.successors = [following.label]


def _idle(code: Code) -> bool:
    """Whether an instruction without active lanes changes nothing but registers that are computed here."""
    name = code.row.mnemonic
    if code.target is not None or name.startswith(_UNSAFE) or EXEC in code.writes:
        return False
    return name.startswith((*_VECTOR, *_PURE_SCALAR))
