"""Proof, after the fact, that nothing touches a register or storage before its transfer is complete.

From every memory instruction all paths are followed forwards until a wait of its counter shows that it has finished;
on the way nothing may touch its result, and no barrier may pass workgroup storage that is not there yet. This is
another algorithm than that of :mod:`loom_target_amdgpu.waits`, with which it shares only what counts where.

Source: LLVM "User Guide for AMDGPU Backend", section Memory Model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from loom_target_amdgpu.check_passes import PassCheckError
from loom_target_amdgpu.expand import CodeBlock
from loom_target_amdgpu.isa.waits import WAITCNT_FIELDS, Counter, maximum, same_counter
from loom_target_amdgpu.machine_code import Code
from loom_target_amdgpu.waits import BARRIERS, events

_SINGLE: Final = {
    "s_wait_loadcnt": Counter.LOAD,
    "s_wait_storecnt": Counter.STORE,
    "s_wait_dscnt": Counter.LDS,
    "s_wait_kmcnt": Counter.SCALAR,
    "s_waitcnt_vscnt": Counter.STORE,
}
_FIELDS: Final = {"vmcnt": Counter.LOAD, "lgkmcnt": Counter.LDS}


def check_waits(blocks: Sequence[CodeBlock], family: str) -> None:
    """Check the final code of a function.

    Raises:
        PassCheckError: an instruction comes before a transfer is complete.
    """
    by_label = {block.label: block for block in blocks}
    for block in blocks:
        for position, code in enumerate(block.code):
            kinds = events(code.row)
            for kind in kinds:
                _Transfer(code, kind, family, len(kinds) > 1).follow(block, position + 1, by_label)


def counts_of(code: Code, family: str) -> Iterator[tuple[Counter, int]]:
    """What a wait instruction waits for, as (counter, operations left); authored ones too."""
    name = code.row.mnemonic
    if name in _SINGLE:
        yield _SINGLE[name], code.codes["simm16"]
    elif name == "s_waitcnt":
        for field in WAITCNT_FIELDS[family]:
            counter = _FIELDS.get(field.name)
            count = field.get(code.codes["simm16"])
            if counter is not None and count < field.maximum:
                yield counter, count


class _Transfer:
    """One memory instruction and what is known of it on the path that is followed.

    The state of a path is how many younger operations of the counter were issued, and whether one of them completes in
    any order: then only a wait for nothing left shows anything.
    """

    def __init__(self, code: Code, kind: Counter, family: str, flat: bool) -> None:
        self._code = code
        self._kind = kind
        self._family = family
        self._units = frozenset(code.writes)
        self._limit = maximum(family, kind)
        # Scalar loads finish in any order, and gfx9 counts a flat access in a domain where it may not be.
        self._unordered = kind is Counter.SCALAR or (flat and family == "gfx942")

    def follow(self, block: CodeBlock, position: int, by_label: dict[str, CodeBlock]) -> None:
        """Go along all paths from a position. Raises `PassCheckError`."""
        seen: set[tuple[str, int, bool]] = set()
        work = [(block, position, 0, self._unordered)]
        while work:
            block, position, younger, mixed = work.pop()
            after = self._walk(block.code[position:], younger, mixed)
            if after is None:
                continue
            for label in block.successors:
                if (label, *after) not in seen:
                    seen.add((label, *after))
                    work.append((by_label[label], 0, *after))

    def _walk(self, codes: Sequence[Code], younger: int, mixed: bool) -> tuple[int, bool] | None:
        """The state behind some code, None where the transfer is complete by then."""
        for code in codes:
            for counter, count in counts_of(code, self._family):
                if same_counter(self._family, counter, self._kind) and (count == 0 or (count <= younger and not mixed)):
                    return None
            if not self._units.isdisjoint(code.reads) or not self._units.isdisjoint(code.writes):
                raise PassCheckError(
                    f"{code.row.mnemonic} touches what {self._code.row.mnemonic} has not brought yet", code.loc
                )
            if self._kind is Counter.LDS and code.row.mnemonic in BARRIERS:
                raise PassCheckError(f"{self._code.row.mnemonic} may still be under way at a barrier", code.loc)
            for kind in events(code.row):
                if same_counter(self._family, kind, self._kind):
                    younger = min(younger + 1, self._limit)
                    mixed = mixed or kind is Counter.SCALAR
        return younger, mixed
