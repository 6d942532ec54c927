"""Putting the operations that a link keeps into one module."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from loom.facts.analysis import FunctionFacts
from loom.ir.attributes import Dictionary, Encoding, SymbolRef
from loom.ir.core import Module, Op, symbol_name
from loom.link.member import Member, is_declaration
from loom.specialize.pipeline import CODE, providers_of, target_test
from loom.specialize.select import bind, select
from loom.transforms.dce import is_exported

if TYPE_CHECKING:
    from loom.plugins.records import TargetProfile


class Assembly:
    """The result of a link under construction.

    ``live`` are the operations to keep, ``satisfied`` says what stands in for those that are not kept, ``exported``
    are the names to make public, ``promises`` the further declarations of configuration keys that are open. ``names``
    are the names of live symbols in the result.
    """

    def __init__(
        self,
        members: Sequence[Member],
        live: Collection[Op],
        satisfied: Mapping[Op, Op],
        exported: set[str],
        promises: Mapping[Op, Sequence[Op]],
    ) -> None:
        self.members = members
        self.live = live
        self.satisfied = satisfied
        self.exported = exported
        self.promises = promises
        self.names = self._names()

    def module(self) -> Module:
        """Copies of the live operations, in the order of their modules."""
        result = Module("linked")
        names = self.names
        aliases = _Aliases(result)
        for member in self.members:
            renaming = self._renaming(member, names)
            aliases.enter(member)
            for op in member.ops():
                if op not in self.live:
                    continue
                copy = op.clone({})
                if op in names:
                    copy.attributes[copy.spec.symbol_attribute] = names[op]  # type: ignore[index]  # it defines one
                _rename(copy, renaming)
                self._set_visibility(copy, member)
                _add_promises(copy, self.promises.get(op, ()))
                result.body.append(copy)
            if not member.is_library and not result.header:
                result.header = member.header
        return result

    def _names(self) -> dict[Op, str]:
        """The name of each live symbol: its own unless that is taken and nobody outside knows it."""
        live = [(m, op) for m in self.members for op in m.ops() if op in self.live]
        symbols = [(m, op, name) for m, op in live if (name := symbol_name(op)) is not None]
        names: dict[Op, str] = {}
        taken: set[str] = set()
        # What other modules may know by name comes first; those names never clash.
        for known in (True, False):
            for member, op, name in symbols:
                if self._is_known(member, op) is not known:
                    continue
                fresh = name
                number = 0
                while fresh in taken:
                    # Only private library symbols can clash: they keep an identity per module.
                    fresh = f"{name}${number}"
                    number += 1
                taken.add(fresh)
                names[op] = fresh
        return names

    def _is_known(self, member: Member, op: Op) -> bool:
        if not member.is_library or is_declaration(op) or is_exported(op):
            return True
        return "visibility" not in op.spec.attribute_index

    def _renaming(self, member: Member, names: Mapping[Op, str]) -> dict[str, str]:
        """Name in a module -> name in the result, where they differ."""
        table: dict[str, str] = {}
        for op in member.ops():
            name = symbol_name(op)
            target = op
            while target in self.satisfied:
                target = self.satisfied[target]
            if name is not None and target in names and names[target] != name:
                table.setdefault(name, names[target])
        return table

    def _set_visibility(self, op: Op, member: Member) -> None:
        if "visibility" not in op.spec.attribute_index:
            return
        if symbol_name(op) in self.exported:
            op.set_attribute("visibility", "public")
        elif member.is_library:
            op.set_attribute("visibility", None)


class _Aliases:
    """The file aliases of the result: those of the inputs. One that means another encoding there is left out."""

    def __init__(self, result: Module) -> None:
        self.found = result.aliases

    def enter(self, member: Member) -> None:
        """Take over the aliases of a direct input."""
        if not member.is_library:
            for name, encoding in member.aliases.items():
                self.found.setdefault(name, encoding)


def _add_promises(declaration: Any, others: Sequence[Any]) -> None:
    """Let a configuration key's declaration state what other modules state of it, too."""
    predicates = list(declaration.predicates) if others else []
    for other in others:
        predicates += [p for p in other.predicates if p not in predicates]
    if not predicates:
        return
    block = declaration.body.entry
    if not block.args:
        block.add_argument(declaration.type, "value")
    declaration.set_attribute("predicates", tuple(predicates))


def _rename(root: Op, renaming: Mapping[str, str]) -> None:
    if not renaming:
        return
    for op in root.walk():
        for i, attribute in enumerate(op.spec.attributes):
            value = op.attributes[i]
            if attribute.kind.name == "symbol" and isinstance(value, str) and value in renaming:
                op.attributes[i] = renaming[value]
            elif attribute.kind.name == "symbol_array" and isinstance(value, tuple):
                op.attributes[i] = tuple(renaming.get(v, v) for v in value)
            elif attribute.kind.name in ("any", "dict"):
                op.attributes[i] = _renamed(value, renaming)


def _renamed(value: object, renaming: Mapping[str, str]) -> Any:
    """Generic data with the symbols in it renamed."""
    if isinstance(value, SymbolRef):
        return SymbolRef(renaming.get(value, value))
    if isinstance(value, Dictionary):
        return Dictionary({key: _renamed(item, renaming) for key, item in value.items()})
    if isinstance(value, tuple):
        return tuple(_renamed(item, renaming) for item in value)
    if isinstance(value, Encoding):
        params = tuple((key, _renamed(item, renaming)) for key, item in value.params)
        return attrs.evolve(value, primary=_renamed(value.primary, renaming), params=params)
    return value


def bind_with_target(module: Module, target: TargetProfile) -> None:
    """Choose the providers that the target facts already settle; open applications stay for later."""
    symbols = module.symbols()
    applies: Callable[[Any], bool | None] = target_test(symbols, target)
    for function in list(module.body):
        if function.name not in CODE and function.name != "template.def":
            continue
        sites: Iterable[Any] = [op for op in function.walk() if op.name == "template.apply"]
        facts = FunctionFacts(function, target.facts)
        for site in sites:
            chosen = select(site, providers_of(symbols, site.family), facts, target, applies, final=False)
            if chosen is not None:
                bind(site, chosen.provider)
