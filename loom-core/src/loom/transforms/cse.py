"""Common subexpression elimination within structured regions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from loom.ir.core import Block, Op, Region

Key = tuple[object, ...]


class Available:
    """The pure operations computed so far on the way to a place, by what they compute."""

    def __init__(self) -> None:
        self._known: dict[Key, Op] = {}
        self._added: list[list[Key]] = [[]]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is added inside is forgotten behind it."""
        self._added.append([])
        try:
            yield
        finally:
            for key in self._added.pop():
                del self._known[key]

    def first(self, op: Op) -> Op | None:
        """An equal operation that dominates this one; if there is none, this one is remembered."""
        key = _key(op)
        if key is None:
            return None
        try:
            found = self._known.get(key)
        except TypeError:  # An attribute that has no hash.
            return None
        if found is None:
            self._known[key] = op
            self._added[-1].append(key)
        return found


def eliminate_common(root: Op) -> bool:
    """Merge pure operations with equal operands and attributes where the first dominates the second."""
    changed = False
    for region in root.regions:
        changed |= _region(region, Available())
    return changed


def _identity(attribute: object) -> object:
    """A key that tells attributes apart which Python's equality confuses: 0.0 and -0.0, 1 and True."""
    if attribute is None:
        return None
    if isinstance(attribute, float):
        return float, attribute.hex()
    if type(attribute) is tuple:
        return tuple(map(_identity, attribute))
    return type(attribute), attribute


def _key(op: Op) -> Key | None:
    traits = op.spec.traits
    if "pure" not in traits or op.regions or "fact_identity" in traits or not op.results:
        return None
    attributes = tuple(map(_identity, op.attributes))
    operands = tuple(sorted(op.operands, key=id) if "commutative" in traits else op.operands)
    return op.name, operands, op.segments, attributes, tuple([r.type for r in op.results])


def _region(region: Region, known: Available) -> bool:
    changed = False
    with known.scope():
        for block in region.blocks:
            if block is region.blocks[0]:
                changed |= _block(block, known)
            else:
                # Blocks of a graph only share what the entry block computed.
                with known.scope():
                    changed |= _block(block, known)
    return changed


def _block(block: Block, known: Available) -> bool:
    changed = False
    for op in block:
        for region in op.regions:
            changed |= _region(region, known)
        first = known.first(op)
        if first is not None:
            op.replace_with(first.results)
            changed = True
    return changed
