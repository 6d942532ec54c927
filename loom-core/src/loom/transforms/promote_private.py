"""Private storage as values (pass ``promote-private-fragments``; language reference, part 3, section 11).

For GPUs, where private storage is slow memory: a small array that is only accessed at known places, as after unrolling,
becomes one value per element, carried through the conditionals and loops that write it. Elements that nothing has
written are poison. An allocation is promoted if

- it is in private space, of a known size, and has at most ``MAX_ELEMENTS`` elements;
- all of its views are dense, static, of one element type, and begin at known multiples of it;
- every use of a view is a load or store of elements or of a vector, not volatile, at known indices;
- between an access and the allocation there are only ``scf.if`` and ``scf.for`` without a policy.

Memory that many lanes share, and memory whose address goes anywhere, keeps its place.
"""

from __future__ import annotations

from typing import Any, Final

from loom.dialects.scalar import ops as scalar_ops
from loom.dialects.scf import ops as scf_ops
from loom.ir.core import Block, Op, Region, Value
from loom.ir.records import record
from loom.ir.types import ScalarType
from loom.text.directives import index_entries
from loom.transforms.fold import constant_of
from loom.transforms.lanes import Lanes, coordinates, in_front_of, lane_count

MAX_ELEMENTS: Final = 64
"""Elements of an allocation that may become values: as many as there are registers to spare."""

_LOADS: Final = ("view.load", "vector.load")
_STORES: Final = ("view.store", "vector.store")


def promote_private_storage(function: Op) -> int:
    """Promote the private allocations of a function; how many there were. What is left over nobody uses."""
    lanes = Lanes()
    promoted = 0
    for op in list(function.walk()):
        if op.name == "buffer.alloca":
            storage = _Storage.of(op)
            if storage is not None:
                _Promotion(storage, lanes).run()
                promoted += 1
    return promoted


@record
class _Storage:
    """An allocation that can be promoted: its element type and count, and the elements of each access in lane order."""

    alloca: Op
    element: ScalarType
    count: int
    accesses: dict[Op, tuple[int, ...]]

    @classmethod
    def of(cls, alloca: Any) -> _Storage | None:
        """What is known of an allocation, or nothing if it has to stay memory."""
        size = constant_of(alloca.byte_size)
        if alloca.space != "private" or alloca.pool is not None or not isinstance(size, int) or not alloca.result.uses:
            return None
        element: ScalarType | None = None
        accesses: dict[Op, tuple[int, ...]] = {}
        for view in alloca.result.uses:
            first = constant_of(view.operands[1]) if view.name == "buffer.view" else None
            if not isinstance(first, int):
                return None
            type_: Any = view.results[0].type
            element = element or type_.element
            if type_.element is not element or type_.static_size is None or type_.encoding is not None:
                return None
            if first % element.byte_size or first + type_.static_size * element.byte_size > size:
                return None
            for user in view.results[0].uses:
                places = _places(user, view.results[0], first // element.byte_size)
                if places is None or not _is_reachable(user, alloca):
                    return None
                accesses[user] = places
        if element is None or size // element.byte_size > MAX_ELEMENTS:
            return None
        return cls(alloca, element, size // element.byte_size, accesses)


def _places(op: Any, view: Value, first: int) -> tuple[int, ...] | None:
    """The elements of the allocation that an access at known indices reads or writes, in lane order."""
    if op.name not in (*_LOADS, *_STORES) or op.flags:
        return None
    accessed = op.source if op.name in _LOADS else op.target
    if accessed is not view or (op.name in _STORES and op.value is view):
        return None
    origin = [
        entry if isinstance(entry, int) else constant_of(entry)
        for entry in index_entries(op.indices, op.static_indices)
    ]
    value = op.result if op.name in _LOADS else op.value
    type_: Any = view.type
    dims = type_.dims
    extents: Any = () if isinstance(value.type, ScalarType) else value.type.dims
    if extents and lane_count(value.type) is None:
        return None
    found = []
    for step in coordinates(extents):
        number = 0
        moved = [0] * (len(dims) - len(extents)) + list(step)
        for start, distance, extent in zip(origin, moved, dims, strict=True):
            if not isinstance(start, int) or not 0 <= start + distance < extent:
                return None
            number = number * extent + start + distance
        found.append(first + number)
    return tuple(found)


def _is_reachable(op: Op, alloca: Op) -> bool:
    """Whether values can be handed on from an allocation to an access."""
    while op.parent is not alloca.parent:
        around: Any = op.parent_op
        if around is None or around.name not in ("scf.if", "scf.for"):
            return False
        if around.name == "scf.for" and (
            around.pipeline_depth is not None or around.unroll_factor is not None or around.unroll_policy is not None
        ):
            return False
        op = around
    return True


class _Promotion:
    """Replaces the accesses of one allocation. ``current`` lists the value of each element at a place in the code."""

    def __init__(self, storage: _Storage, lanes: Lanes) -> None:
        self.storage = storage
        self.lanes = lanes
        self.around = {
            outer for op in storage.accesses for outer in op.ancestors() if outer.name in ("scf.if", "scf.for")
        }

    def run(self) -> None:
        emit = in_front_of(self.storage.alloca)
        unknown = emit(scalar_ops.Poison([], [], [self.storage.element]))
        assert self.storage.alloca.parent is not None
        self._block(self.storage.alloca.parent, [unknown] * self.storage.count)

    def _block(self, block: Block, current: list[Value]) -> None:
        """Go through a block, keeping ``current`` up to date."""
        for op in list(block):
            places = self.storage.accesses.get(op)
            if places is not None:
                self._access(op, places, current)
            elif op in self.around:
                written = sorted({n for inner in op.walk() for n in self._written(inner)})
                (self._conditional if op.name == "scf.if" else self._loop)(op, written, current)

    def _written(self, op: Op) -> tuple[int, ...]:
        return self.storage.accesses.get(op, ()) if op.name in _STORES else ()

    def _access(self, op: Any, places: tuple[int, ...], current: list[Value]) -> None:
        if op.name in _STORES:
            values = [op.value] if op.name == "view.store" else self.lanes.of(op.value)
            for place, value in zip(places, values, strict=True):
                current[place] = value
            op.erase()
        elif op.name == "view.load":
            op.replace_with([current[places[0]]])
        else:
            self.lanes.put(op, [current[place] for place in places])

    def _conditional(self, op: Any, written: list[int], current: list[Value]) -> None:
        if len(op.regions) == 1 and written:
            block = Block()
            block.append(scf_ops.Yield([], [], segments=(0,), loc=op.loc))
            region = Region([block])
            region.parent = op
            op.regions.append(region)
        for region in op.regions:
            inner = list(current)
            self._block(region.entry, inner)
            _yield_more(region.entry, [inner[n] for n in written])
        self._results(op, written, current)

    def _loop(self, op: Any, written: list[int], current: list[Value]) -> None:
        group = op.spec.operand_index["iter_args"]
        op.set_group(group, [*op.iter_args, *(current[n] for n in written)])
        inner = list(current)
        for n in written:
            inner[n] = op.body.entry.add_argument(self.storage.element)
        self._block(op.body.entry, inner)
        _yield_more(op.body.entry, [inner[n] for n in written])
        self._results(op, written, current)

    def _results(self, op: Op, written: list[int], current: list[Value]) -> None:
        for n in written:
            current[n] = Value(self.storage.element, op, len(op.results))
            op.results.append(current[n])


def _yield_more(block: Block, values: list[Value]) -> None:
    end = block.last
    assert end is not None
    if values:
        end.set_operands([*end.operands, *values], (len(end.operands) + len(values),))
