"""Common subexpression elimination within structured regions."""

from __future__ import annotations

from loom.ir.core import Block, Op, Region, Value


def eliminate_common(root: Op) -> bool:
    """Merge pure operations with equal operands and attributes where the first dominates the second."""
    changed = False
    for region in root.regions:
        changed |= _region(region, {})
    return changed


def _identity(attribute: object) -> object:
    """A key that tells attributes apart which Python's equality confuses: 0.0 and -0.0, 1 and True."""
    if isinstance(attribute, float):
        return float, attribute.hex()
    if type(attribute) is tuple:
        return tuple(map(_identity, attribute))
    return type(attribute), attribute


def _key(op: Op) -> tuple[object, ...] | None:
    if "pure" not in op.spec.traits or op.regions or "fact_identity" in op.spec.traits or not op.results:
        return None
    try:
        attributes = tuple(_identity(a) for a in op.attributes)
        hash(attributes)
    except TypeError:
        return None
    operands: tuple[Value, ...] = tuple(op.operands)
    if "commutative" in op.spec.traits:
        operands = tuple(sorted(operands, key=id))
    return (op.name, operands, op.segments, attributes, tuple(r.type for r in op.results))


def _region(region: Region, outer: dict[tuple[object, ...], Op]) -> bool:
    changed = False
    # Blocks of a graph only share what the entry block computed.
    known = dict(outer)
    for block in region.blocks:
        changed |= _block(block, known if block is region.blocks[0] else dict(known))
    return changed


def _block(block: Block, known: dict[tuple[object, ...], Op]) -> bool:
    changed = False
    for op in block:
        for region in op.regions:
            changed |= _region(region, known)
        key = _key(op)
        if key is None:
            continue
        first = known.get(key)
        if first is None:
            known[key] = op
        else:
            # Keep an authored name: the survivor already has one or takes this one.
            op.replace_with(first.results)
            changed = True
    return changed
