"""What an operation may do in a loop that reads ahead (language reference, part 3, section 10.2).

Every rule that a request breaks is reported at the loop with its text, and points at the operation that breaks it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Final

from loom.dialects.buffer.spaces import UNKNOWN, touched_spaces
from loom.ir.core import Op
from loom.ir.diagnostics import LoomError, Related
from loom.ir.records import record
from loom.transforms.loops_refusal import refuse
from loom.verify.effects import is_pure_call

MAX_DEPTH: Final = 65_535
# A loop's operands: bounds, step and depth or factor besides the carried tuple.
MAX_OPERANDS: Final = 65_535
FIXED_OPERANDS: Final = 4
READABLE_AHEAD: Final = frozenset({"global", "constant"})

RULES: Final[dict[str, str]] = {
    "depth": f"the depth must be an exact value from 1 to {MAX_DEPTH}",
    "step": "reading ahead needs an exact positive step",
    "distance": "the distance read ahead must fit the type of the positions",
    "operands": f"carried values and queue must fit {MAX_OPERANDS} operands",
    "size": "the copies of the producer and the consumer must stay within {limit} operations",
    "nothing": "reading ahead needs an ordinary load to advance",
    "prerequisite": "what a read ahead needs must depend only on the induction variable and on values outside the loop",
    "ordered": "writes and ordered operations must be stores to workgroup memory and workgroup-memory barriers",
    "ordered_bounds": "workgroup stores and barriers in the consumer need exact lower and upper bounds",
    "mixed": "global loads and workgroup accesses must be in different operations of the loop's own body",
    "convergent_bounds": "a collective in the consumer needs exact lower and upper bounds",
    "convergent_mixed": "one operation must not both read and take part in a collective",
    "partition": "a conditional that reads and also uses carried values must be separable into a guarded read and "
    "its consumer",
    "global_write": "a depth above one admits no write to global memory or to memory of an unknown space",
    "global_barrier": "a depth above one admits no fence and no barrier over other than workgroup memory",
    "volatile": "a depth above one admits no volatile access",
    "async": "a depth above one admits no explicit asynchronous transfer",
    "while": "a depth above one admits no 'scf.while'",
    "call": "a depth above one admits only calls of pure functions",
    "unknown": "a depth above one admits no operation with unknown effects",
    "space": "beside workgroup memory every access must be provably to global or to workgroup memory",
    "type": "the types of values that cross from the read to its consumer must be the same in every iteration",
    "placeholder": "a guarded read can only hand on integers, floats, addresses and vectors of them",
    "fence": "a depth above one admits no source fence in the body",
}


def broken(loop: Op, depth: int, rule: str, at: Op | None = None, label: str = "") -> LoomError:
    """The diagnostic of a broken rule. ``at`` is the operation to point at."""
    related = () if at is None else (Related(label or f"'{at.name}' is here", at.loc),)
    return refuse(loop, "pipeline", depth, RULES[rule], related)


class Role(enum.Enum):
    """What an operation does as far as reading ahead is concerned."""

    PURE = "pure"
    READ = "read"
    """A load that may run ahead."""
    LOCAL_READ = "local read"
    """A load from workgroup memory that is written in the loop: it keeps its place."""
    STORE = "store"
    BARRIER = "barrier"
    COLLECTIVE = "collective"
    HINT = "hint"


ORDERED: Final = frozenset({Role.LOCAL_READ, Role.STORE, Role.BARRIER})


@record
class Effects:
    """Roles of an operation and of everything inside it, with the first operation of each role."""

    first: Mapping[Role, Op]

    def has(self, *roles: Role) -> bool:
        """Whether any of the roles occurs."""
        return any(role in self.first for role in roles)

    @property
    def is_pure(self) -> bool:
        """Whether nothing but values come out, so that the operation may run again elsewhere."""
        return not self.first.keys() - {Role.PURE}


class Roles:
    """Roles of the operations of one loop. Raises the diagnostic of the rule that an operation breaks."""

    def __init__(self, loop: Op, depth: int, symbols: Mapping[str, Op]) -> None:
        self.loop = loop
        self.depth = depth
        self.symbols = symbols
        self._roles: dict[Op, Role] = {}
        for op in _inside(loop):
            self._roles[op] = self._classify(op)
        # With stores or barriers in the loop only provably global loads may move.
        self.ordered = next((op for op, r in self._roles.items() if r in (Role.STORE, Role.BARRIER)), None)
        if self.ordered is not None:
            for op, role in self._roles.items():
                if role is Role.READ:
                    self._roles[op] = self._place_read(op)

    def effects(self, op: Op) -> Effects:
        """The roles in an operation of the body."""
        first: dict[Role, Op] = {}
        for inner in op.walk():
            role = self._roles.get(inner)
            if role is not None:
                first.setdefault(role, inner)
        return Effects(first)

    def first(self, role: Role) -> Op | None:
        """The first operation of a role in the loop."""
        return next((op for op, found in self._roles.items() if found is role), None)

    def _classify(self, op: Op) -> Role:
        name, traits = op.name, op.spec.traits
        if name in _REFUSED:
            rule, label = _REFUSED[name]
            raise broken(self.loop, self.depth, rule, op, label)
        if name.startswith("kernel.async."):
            raise broken(self.loop, self.depth, "async", op)
        if "call" in traits:
            if is_pure_call(op, dict(self.symbols)):
                return Role.PURE
            raise broken(self.loop, self.depth, "call", op)
        if _is_volatile(op):
            raise broken(self.loop, self.depth, "volatile", op)
        if name == "kernel.barrier":
            if op.attribute("space") != "workgroup":
                raise broken(self.loop, self.depth, "global_barrier", op)
            return Role.BARRIER
        if "writes" in traits:
            return self._classify_write(op)
        if "observable" in traits or traits & {"allocates", "unique_identity"}:
            raise broken(self.loop, self.depth, "ordered", op)
        if "fence" in traits:
            raise broken(self.loop, self.depth, "global_barrier", op)
        if "unknown_effects" in traits:
            raise broken(self.loop, self.depth, "unknown", op)
        for trait, role in _BY_TRAIT:
            if trait in traits:
                return role
        raise broken(self.loop, self.depth, "unknown", op)

    def _classify_write(self, op: Op) -> Role:
        spaces = touched_spaces(op)
        if spaces & {"global", UNKNOWN, "generic"} or not spaces:
            raise broken(self.loop, self.depth, "global_write", op)
        if spaces != {"workgroup"} or op.spec.traits & {"reads", "observable"}:
            raise broken(self.loop, self.depth, "ordered", op)
        return Role.STORE

    def _place_read(self, op: Op) -> Role:
        spaces = touched_spaces(op)
        if spaces == {"workgroup"}:
            return Role.LOCAL_READ
        if spaces and spaces <= READABLE_AHEAD:
            return Role.READ
        raise broken(self.loop, self.depth, "space", op)


_REFUSED: Final = {"scf.schedule.fence": ("fence", "the fence"), "scf.while": ("while", "the loop")}
_BY_TRAIT: Final = (
    ("reads", Role.READ),
    ("convergent", Role.COLLECTIVE),
    ("hint", Role.HINT),
    ("pure", Role.PURE),
    ("constant", Role.PURE),
    ("region_effects", Role.PURE),
    ("terminator", Role.PURE),
)


def _is_volatile(op: Op) -> bool:
    flags = op.attribute("flags") if "flags" in op.spec.attribute_index else None
    return isinstance(flags, tuple) and "volatile" in flags


def _inside(loop: Op) -> Iterator[Op]:
    ops = loop.walk()
    next(ops)
    yield from ops
