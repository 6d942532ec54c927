"""Removing what nobody uses: operations without effects, and symbols that nothing reaches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from loom.ir.attributes import Dictionary, Encoding, SymbolRef
from loom.ir.core import Module, Op, symbol_name
from loom.verify.effects import is_pure_call

REMOVABLE = frozenset({"pure", "allocates"})


def is_removable(op: Op, symbols: dict[str, Op]) -> bool:
    """Whether an operation may go when its results are unused."""
    traits = op.spec.traits
    if traits & REMOVABLE:
        return True
    if "writes" in traits or "observable" in traits:
        return False
    if "reads" in traits:
        return not op.attribute("flags") if "flags" in op.spec.attribute_index else True
    if op.name == "global.load":
        declaration = symbols.get(str(op.attribute("symbol")))
        # A load of what has no value yet is a fault.
        return declaration is not None and (declaration.name == "global.rodata.def" or _has_value(declaration))
    if op.name == "func.call":
        return is_pure_call(op, symbols)
    if "region_effects" in traits and op.name != "scf.while":
        return all(
            is_removable(inner, symbols) or "terminator" in inner.spec.traits
            for region in op.regions
            for inner in region.ops()
        )
    return False


def _has_value(declaration: Op) -> bool:
    return declaration.name in ("global.constant", "global.variable") and declaration.attribute("value") is not None


def eliminate_dead_ops(root: Op, symbols: dict[str, Op]) -> bool:
    """Erase unused operations inside ``root``, users before definitions."""
    changed = False
    for op in reversed(list(root.walk())):
        used = [result for result in op.results if result.uses or result.dependents]
        if used or op is root or op.parent is None or "terminator" in op.spec.traits:
            continue
        if (op.results or op.regions) and is_removable(op, symbols):
            op.erase()
            changed = True
    return changed


def referenced_symbols(op: Op) -> Iterable[str]:
    """Names that an operation and everything inside it refer to."""
    for inner in op.walk():
        for position, kind in _naming_attributes(type(inner)):
            value = inner.attributes[position]
            if value is None:
                continue
            if kind == "symbol":
                yield str(value)
            elif kind == "symbol_array":
                yield from value  # type: ignore[misc]
            else:
                yield from _symbols_in(value)


_NAMING: Final[dict[type[Op], tuple[tuple[int, str], ...]]] = {}


def _naming_attributes(cls: type[Op]) -> tuple[tuple[int, str], ...]:
    """Positions and kinds of the attributes in which operations of a class may name symbols."""
    found = _NAMING.get(cls)
    if found is None:
        kinds = enumerate(attribute.kind.name for attribute in cls.spec.attributes)
        found = tuple((i, kind) for i, kind in kinds if kind in ("symbol", "symbol_array", "any", "dict"))
        _NAMING[cls] = found
    return found


def _symbols_in(value: object) -> Iterable[str]:
    if isinstance(value, SymbolRef):
        yield str(value)
    elif isinstance(value, Dictionary):
        for item in value.values():
            yield from _symbols_in(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from _symbols_in(item)
    elif isinstance(value, Encoding):
        for item in (*value.primary, *(v for _, v in value.params)):
            yield from _symbols_in(item)


def is_exported(op: Op) -> bool:
    """Whether a definition is part of its module's interface: ``public`` or ``export(...)``."""
    index = op.spec.attribute_index
    if "visibility" in index and op.attribute("visibility") == "public":
        return True
    return "export_symbol" in index and op.attribute("export_symbol") is not None


def is_root(op: Op) -> bool:
    """Whether reachability starts at an operation: exported, retained, or no symbol at all."""
    if symbol_name(op) is None:
        return "check" not in op.spec.traits
    index = op.spec.attribute_index
    return is_exported(op) or ("retain" in index and op.attribute("retain") is not None)


def eliminate_dead_symbols(module: Module, roots: Iterable[Op], *, keep_providers: bool = False) -> None:
    """Erase symbols that ``roots`` do not reach. A live family keeps no provider alive by itself.

    With ``keep_providers`` a live ``template.apply`` does: linking may leave it open for a later stage to bind.
    """
    symbols = module.symbols()
    providers: dict[str, list[Op]] = {}
    if keep_providers:
        for op in module.body:
            if op.name in ("template.def", "template.ukernel"):
                providers.setdefault(str(op.attribute("family")), []).append(op)
    live: set[Op] = set()
    pending = list(roots)
    while pending:
        op = pending.pop()
        if op in live:
            continue
        live.add(op)
        for name in referenced_symbols(op):
            target = symbols.get(name)
            if target is not None and target not in live:
                pending.append(target)
        if providers:
            for inner in op.walk():
                if inner.name == "template.apply":
                    pending.extend(providers.get(str(inner.attribute("family")), ()))
    for op in list(module.body):
        if op not in live and symbol_name(op) is not None:
            op.erase()
