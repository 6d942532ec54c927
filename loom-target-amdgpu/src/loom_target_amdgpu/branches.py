"""Branch simplification after register allocation, when it is known which blocks turned out to be empty.

Blocks that only carried values along an edge vanish where the allocator needed no moves: branches go where such a
block would jump, and a conditional branch around it is turned round.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.machine_code import Assembler, Code

_OPPOSITE: Final = {"s_cbranch_scc0": "s_cbranch_scc1", "s_cbranch_scc1": "s_cbranch_scc0"}


def simplify_branches(blocks: list[CodeBlock], assembler: Assembler) -> list[CodeBlock]:
    """The blocks with jumps to jumps shortened; blocks that nothing reaches any more are left out."""
    _thread(blocks)
    blocks = _reachable(blocks)
    blocks = _turn_round(blocks, assembler)
    return _drop_jumps_ahead(_reachable(blocks))


def _jump_only(block: CodeBlock) -> str | None:
    """Where a block without other code jumps."""
    if len(block.code) == 1 and block.code[0].row.mnemonic == "s_branch":
        return block.code[0].target
    return None


def _thread(blocks: list[CodeBlock]) -> None:
    """Send branches to the end of chains of empty blocks."""
    goes = {block.label: target for block in blocks if (target := _jump_only(block)) is not None}
    for position, block in enumerate(blocks[:-1]):
        if not block.code and len(block.successors) == 1:
            goes[block.label] = blocks[position + 1].label

    def final(label: str) -> str:
        seen = {label}
        while label in goes and goes[label] not in seen:
            label = goes[label]
            seen.add(label)
        return label

    for block in blocks:
        for code in block.code:
            if code.target is not None:
                old, code.target = code.target, final(code.target)
                block.successors = [code.target if label == old else label for label in block.successors]


def _falls_through(block: CodeBlock) -> bool:
    return not block.code or block.code[-1].row.mnemonic not in ("s_branch", "s_endpgm")


def _reachable(blocks: list[CodeBlock]) -> list[CodeBlock]:
    """Blocks that control flow reaches from the first one."""
    following = {block.label: after for block, after in pairwise(blocks)}
    by_label = {block.label: block for block in blocks}
    work = [blocks[0].label]
    seen = {blocks[0].label}
    while work:
        block = by_label[work.pop()]
        nexts = [code.target for code in block.code if code.target is not None]
        if _falls_through(block) and block.label in following:
            nexts.append(following[block.label].label)
        for label in nexts:
            if label not in seen:
                seen.add(label)
                work.append(label)
    return [block for block in blocks if block.label in seen]


def _turn_round(blocks: list[CodeBlock], assembler: Assembler) -> list[CodeBlock]:
    """A conditional branch followed by a block that only jumps is turned round where that saves a branch: when it
    leads just behind that block, or when the jump goes back (the next iteration then takes one branch).
    """
    result: list[CodeBlock] = []
    targets = [code.target for block in blocks for code in block.code if code.target is not None]
    order = {block.label: position for position, block in enumerate(blocks)}
    position = 0
    while position < len(blocks):
        block = blocks[position]
        result.append(block)
        position += 1
        if position >= len(blocks) or not block.code:
            continue
        last, between = block.code[-1], blocks[position]
        jump = _jump_only(between)
        opposite = _OPPOSITE.get(last.row.mnemonic)
        if jump is None or opposite is None or last.target is None or between.label in targets:
            continue
        after = blocks[position + 1].label if position + 1 < len(blocks) else None
        if last.target == after:
            position += 1
        elif order[jump] <= order[block.label]:
            between.code[0].target = last.target
            between.successors = [last.target]
        else:
            continue
        elsewhere = last.target if last.target == after else between.label
        block.code[-1] = assembler.plain(opposite, last.loc, target=jump, simm16=0)
        block.successors = [jump, elsewhere]
    return result


def _drop_jumps_ahead(blocks: list[CodeBlock]) -> list[CodeBlock]:
    """Leave out a jump to the block that follows anyway."""
    for block, after in pairwise(blocks):
        last: Code | None = block.code[-1] if block.code else None
        if last is not None and last.row.mnemonic == "s_branch" and last.target == after.label:
            block.code.pop()
    return blocks
