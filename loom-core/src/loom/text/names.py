"""Giving every value a printable name (language reference, part 1, section 3.5).

An authored name is kept unless printing it would be wrong: two values of one scope would print alike, or an
inner definition would capture a reference to an outer one. An unnamed value prints as its number.
"""

from __future__ import annotations

from loom.ir.core import Op, Region, Value


class Naming:
    """Names of the values of one module-level operation."""

    __slots__ = ("_next", "_scopes", "_visible", "names")

    def __init__(self, names: dict[Value, str]) -> None:
        self.names = names
        self._next = 0
        # Spelling -> value that it denotes here; undone scope by scope.
        self._visible: dict[str, Value] = {}
        self._scopes: list[list[tuple[str, Value | None]]] = [[]]

    def add(self, value: Value) -> None:
        """Name a value in the current scope."""
        number = self._next
        self._next = number + 1
        name = value.name
        spelling = f"%{number}" if name is None else f"%{name}"
        visible = self._visible
        outer = visible.get(spelling)
        if outer is not None and (self._in_scope(spelling) or _captures(value, outer)):
            spelling = f"%{name or number}${number}"
            k = 0
            while spelling in visible:
                spelling = f"%{name or number}${number}${k}"
                k += 1
            outer = None
        self._scopes[-1].append((spelling, outer))
        visible[spelling] = value
        self.names[value] = spelling

    def _in_scope(self, spelling: str) -> bool:
        return any(entry[0] == spelling for entry in self._scopes[-1])

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
        self._scopes.append([])
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
        for spelling, outer in reversed(self._scopes.pop()):
            if outer is None:
                self._visible.pop(spelling, None)
            else:
                self._visible[spelling] = outer


def _captures(inner: Value, outer: Value) -> bool:
    """Whether ``outer`` is mentioned in the region that defines ``inner``, where the name would be hidden."""
    owner = inner.owner
    region = owner.parent if not isinstance(owner, Op) else owner.parent.parent if owner.parent else None
    if region is None:
        return True
    for user in outer.uses:
        if _inside(user, region):
            return True
    for dependent in outer.dependents or ():
        holder = dependent.owner
        block = holder.parent if isinstance(holder, Op) else holder
        while block is not None:
            if block.parent is region:
                return True
            parent = block.parent.parent if block.parent is not None else None
            block = parent.parent if parent is not None else None
    return False


def _inside(op: Op, region: Region) -> bool:
    current: Op | None = op
    while current is not None and current.parent is not None:
        if current.parent.parent is region:
            return True
        current = current.parent_op
    return False
