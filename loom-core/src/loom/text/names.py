"""Giving every value a printable name (language reference, part 1, section 3.5).

An authored name is kept unless printing it would be wrong: two values of one scope would print alike, or an
inner definition would capture a reference to an outer one. An unnamed value prints as its number.
"""

from __future__ import annotations

from loom.ir.core import Block, Op, Region, Value


class Naming:
    """Names of the values of one module-level operation."""

    __slots__ = ("_mentions", "_next", "_scopes", "_visible", "names")

    def __init__(self, names: dict[Value, str]) -> None:
        self.names = names
        self._next = 0
        # Spelling -> value that it denotes here; undone scope by scope.
        self._visible: dict[str, Value] = {}
        # Per open region, the spellings defined in it and what each hides.
        self._scopes: list[dict[str, Value | None]] = [{}]
        self._mentions: dict[Value, set[Region]] = {}

    def add(self, value: Value) -> None:
        """Name a value in the current scope."""
        number = self._next
        self._next = number + 1
        name = value.name
        spelling = f"%{number}" if name is None else f"%{name}"
        visible = self._visible
        outer = visible.get(spelling)
        if outer is not None and (spelling in self._scopes[-1] or self._captures(value, outer)):
            spelling = f"%{name or number}${number}"
            k = 0
            while spelling in visible:
                spelling = f"%{name or number}${number}${k}"
                k += 1
            outer = None
        self._scopes[-1][spelling] = outer
        visible[spelling] = value
        self.names[value] = spelling

    def _captures(self, inner: Value, outer: Value) -> bool:
        """Whether ``outer`` is mentioned in the region that defines ``inner``, where the name would be hidden."""
        region = _region_of(inner.owner)
        if region is None:
            return True
        mentions = self._mentions.get(outer)
        if mentions is None:
            # Once for a value, not once for every name that hides it.
            mentions = self._mentions[outer] = set()
            for user in outer.uses:
                _climb(user, mentions)
            for dependent in outer.dependents or ():
                _climb(dependent.owner, mentions)
        return region in mentions

    def op(self, op: Op) -> None:
        """Name the results of an operation and everything inside it."""
        for region in op.regions:
            self.region(region)
        for result in op.results:
            self.add(result)

    def signature(self, op: Op) -> None:
        """Name the named results of a signature; they live in the scope of the first region's arguments."""
        for index in op.spec.result_spec_attributes:
            for spec in op.attributes[index] or ():  # type: ignore[attr-defined]
                if spec.value is not None:
                    self.add(spec.value)

    def region(self, region: Region) -> None:
        """Name everything inside a region."""
        self._scopes.append({})
        for block in region.blocks:
            for arg in block.args:
                self.add(arg)
            op = block.first
            while op is not None:
                if op.regions:
                    self.op(op)
                else:
                    for result in op.results:
                        self.add(result)
                op = op.next
        for spelling, outer in self._scopes.pop().items():
            if outer is None:
                self._visible.pop(spelling, None)
            else:
                self._visible[spelling] = outer


def _region_of(owner: Op | Block) -> Region | None:
    block = owner.parent if isinstance(owner, Op) else owner
    return block.parent if block is not None else None


def _climb(owner: Op | Block, found: set[Region]) -> None:
    """Add the region of an op or block and all around it, up to one that is there already."""
    region = _region_of(owner)
    while region is not None and region not in found:
        found.add(region)
        region = _region_of(region.parent) if region.parent is not None else None
