"""Atomic changes of memory elements, one after the other in lane order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import numpy.typing as npt

from loom.evaluate import accesses
from loom.evaluate.accesses import Located, from_memory, memory_dtype, to_memory
from loom.evaluate.numeric import ATOMIC_KINDS
from loom.evaluate.numeric.formats import Array, ScalarFormat, to_bits
from loom.evaluate.races import Access
from loom.ir.core import Op

if TYPE_CHECKING:
    from loom.evaluate.frame import Frame

Positions = npt.NDArray[np.intp]

# Operands of these kinds combine among themselves, by the named kind, before they meet the old value: the kinds are
# associative bit for bit. Sums of what is subtracted are sums; "addf" rounds at each step and is not in the table.
_AMONG_OPERANDS: Final[Mapping[str, str]] = {
    "addi": "addi",
    "subi": "addi",
    **{kind: kind for kind in ("andi", "ori", "xori", "minsi", "maxsi", "minui", "maxui")},
    **{kind: kind for kind in ("minimumf", "maximumf", "minnumf", "maxnumf")},
}
_EXCHANGES: Final = ("xchgi", "xchgf")


@attrs.frozen(eq=False)
class Chains:
    """Accesses sorted by element, each element's in the order of lanes.

    ``order`` are the positions of the accesses, ``element`` the number of the element of each (both in sorted
    order), ``first`` the sorted positions where elements begin.
    """

    order: Positions
    element: Positions
    first: Positions

    @classmethod
    def of(cls, addresses: npt.NDArray[np.int64]) -> Chains:
        """The chains of accesses to addresses (at least one)."""
        order = np.argsort(addresses, kind="stable")
        ordered = addresses[order]
        begins = np.concatenate(([True], ordered[1:] != ordered[:-1]))
        return cls(order, np.cumsum(begins) - 1, np.flatnonzero(begins))

    @property
    def depth(self) -> Positions:
        """How many accesses of its element come before each, in sorted order."""
        return np.arange(self.order.size) - self.first[self.element]


#: Maps the elements' values before to the value each access sees and the elements' values behind all of them.
Walk = Callable[[Chains, Positions, Array], tuple[Array, Array]]


def combine(frame: Frame, op: Op, located: Located, kind: str, operands: Array) -> Array:
    """Combine each located element with its operand; returns the old values, one for each access."""
    operation = ATOMIC_KINDS[kind]

    def apply(old: Array, given: Array) -> Array:
        return operation.apply((old, given), located.format).value

    if kind in _AMONG_OPERANDS or kind in _EXCHANGES:
        return _change(frame, op, located, _all_at_once(located.format, kind, apply, operands))
    return _change(frame, op, located, _one_by_one(lambda old, which: apply(old, operands[which])))


def compare_exchange(frame: Frame, op: Op, located: Located, expected: Array, replacement: Array) -> Array:
    """Replace each element that has the bits which its access expects; returns the old values."""
    format = located.format
    wanted = to_bits(format, expected)
    return _change(
        frame,
        op,
        located,
        _one_by_one(lambda old, which: np.where(to_bits(format, old) == wanted[which], replacement[which], old)),
    )


def _change(frame: Frame, op: Op, located: Located, walk: Walk) -> Array:
    seen = np.zeros(located.addresses.shape, dtype=located.format.dtype)
    for storage, picked in accesses.parts(frame, located):
        chosen = np.arange(located.addresses.size) if picked is None else picked
        addresses, lanes = located.addresses[chosen], located.lanes[chosen]
        accesses.check_writable(frame, op, storage, lanes)
        accesses.check_written(frame, op, storage, addresses, lanes, located)
        accesses.watch(frame, op, storage, addresses, lanes, located, Access.ATOMIC_WRITE)
        chains = Chains.of(addresses)
        elements = addresses[chains.order[chains.first]]
        before = from_memory(located.format, storage.load(elements, memory_dtype(located.format)))
        chosen = chosen[chains.order]
        seen[chosen], after = walk(chains, chosen, before)
        storage.store(elements, to_memory(located.format, after))
    return seen


def _all_at_once(format: ScalarFormat, kind: str, apply: Callable[[Array, Array], Array], operands: Array) -> Walk:
    """What each access leaves is the old value with all operands of its element so far, or the last of them."""

    def walk(chains: Chains, chosen: Positions, before: Array) -> tuple[Array, Array]:
        combined = operands[chosen]
        if kind in _AMONG_OPERANDS:
            combined = _prefixes(format, chains, _AMONG_OPERANDS[kind], combined)
        after = apply(before[chains.element], combined)
        seen = np.concatenate((after[:1], after[:-1]))
        seen[chains.first] = before
        return seen, after[np.append(chains.first[1:], after.size) - 1]

    return walk


def _prefixes(format: ScalarFormat, chains: Chains, kind: str, operands: Array) -> Array:
    """Operands combined with all earlier ones of their element, in as many steps as the longest chain has bits."""
    operation = ATOMIC_KINDS[kind]
    depth = chains.depth
    reach, longest = 1, int(depth.max())
    combined = operands.copy()
    while reach <= longest:
        late = np.flatnonzero(depth >= reach)
        combined[late] = operation.apply((combined[late - reach], combined[late]), format).value
        reach *= 2
    return combined


def _one_by_one(change: Callable[[Array, Positions], Array]) -> Walk:
    """Let the accesses of each element follow each other; different elements proceed together.

    ``change`` gives new values of old ones and the numbers of the accesses.
    """

    def walk(chains: Chains, chosen: Positions, before: Array) -> tuple[Array, Array]:
        seen = np.zeros(chosen.size, dtype=before.dtype)
        current = before.copy()
        depth = chains.depth
        rounds = np.split(np.argsort(depth, kind="stable"), np.cumsum(np.bincount(depth))[:-1])
        for members in rounds:
            elements = chains.element[members]
            seen[members] = current[elements]
            current[elements] = change(seen[members], chosen[members])
        return seen, current

    return walk
