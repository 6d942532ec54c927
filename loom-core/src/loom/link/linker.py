"""The selective linker: reach from roots, resolve declarations, drop the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from loom.bytecode.index import CHECK, ROOT
from loom.facts.analysis import FunctionFacts
from loom.ir.core import Module, Op, symbol_name
from loom.ir.diagnostics import Diagnostic, LoomError, did_you_mean
from loom.ir.recursion import deep_recursion
from loom.link.member import Member, is_declaration
from loom.link.universe import SHARED, Universe, check_compatible
from loom.specialize.pipeline import CODE, providers_of, target_test
from loom.specialize.select import bind, decide_requirement, select
from loom.transforms.dce import eliminate_dead_symbols, is_root, referenced_symbols

if TYPE_CHECKING:
    from loom.link.member import Linkable
    from loom.plugins.records import TargetProfile


@attrs.frozen
class LinkOptions:
    """What a link is asked for.

    ``roots`` are symbols to keep and export (none: whatever the direct inputs export). ``allow_unresolved`` keeps
    open declarations for a later link. ``keep_tests`` keeps check records of direct inputs. A ``target`` publishes
    facts, so that providers are chosen now.
    """

    roots: tuple[str, ...] = ()
    target: TargetProfile | None = None
    allow_unresolved: bool = False
    keep_tests: bool = True
    merge: bool = False


@attrs.frozen
class PlanEntry:
    """Why a symbol is part of the result."""

    symbol: str
    reason: str
    role: str
    identity: str
    wanted_by: str | None

    def __str__(self) -> str:
        of = f" of @{self.wanted_by}" if self.wanted_by else ""
        return f"@{self.symbol}: {self.reason}{of} ({self.role}, {self.identity})"


@attrs.frozen
class LinkResult:
    """The linked module and the plan behind it."""

    module: Module
    plan: tuple[PlanEntry, ...]


def link(
    inputs: Sequence[Linkable], libraries: Sequence[Linkable] = (), options: LinkOptions | None = None
) -> LinkResult:
    """Link modules. Inputs and libraries are verified by the caller and are left alone.

    Of an opened bytecode file only what the roots reach is decoded; the caller verifies the result.

    Raises :class:`~loom.ir.diagnostics.LoomError` for duplicate definitions, incompatible signatures, unknown roots
    and, unless unresolved declarations are allowed, for open ones.
    """
    with deep_recursion():
        return _Linker(Universe(inputs, libraries), options or LinkOptions()).run()


class _Linker:
    def __init__(self, universe: Universe, options: LinkOptions) -> None:
        self.universe = universe
        self.options = options
        # (member, op) in the order reached -> plan entry.
        self.live: dict[Op, tuple[Member, PlanEntry]] = {}
        # Declaration -> definition that stands in for it.
        self.satisfied: dict[Op, Op] = {}
        self.open: list[Op] = []
        self._shared: dict[str, Op] = {}

    def run(self) -> LinkResult:
        pending = self._roots()
        while pending:
            member, op, reason, wanted_by = pending.pop(0)
            pending.extend(self._reach(member, op, reason, wanted_by))
        if self.open and not self.options.allow_unresolved and not self.options.merge:
            raise LoomError([self._unresolved(op) for op in self.open])
        module = self._assemble()
        if self.options.target is not None and not self.options.merge:
            _bind_with_target(module, self.options.target)
            roots = [
                op
                for op in module.body
                if is_root(op) or symbol_name(op) in self.options.roots or "check" in op.spec.traits
            ]
            eliminate_dead_symbols(module, roots, keep_providers=True)
        alive = module.symbols()
        plan = tuple(entry for _, entry in self.live.values() if entry.symbol in alive)
        return LinkResult(module, plan)

    def _roots(self) -> list[tuple[Member, Op, str, str | None]]:
        found: list[tuple[Member, Op, str, str | None]] = []
        options = self.options
        if options.roots:
            for name in options.roots:
                found.append((*self._root(name), "root", None))
        for member in self.universe.inputs:
            for ordinal, (symbol, flags) in enumerate(zip(member.names, member.flags, strict=True)):
                check = bool(flags & CHECK)
                if (
                    options.merge
                    or (check and options.keep_tests)
                    or symbol is None
                    or (not check and not options.roots and flags & ROOT)
                ):
                    found.append((member, member.op(ordinal), "merge" if options.merge else "root", None))
        return found

    def _root(self, name: str) -> tuple[Member, Op]:
        found = self.universe.direct(name)
        if found is None:
            candidates = self.universe.exported(name)
            found = candidates[0] if len(candidates) == 1 else None
        if found is None:
            known = self.universe.known()
            raise LoomError(
                [
                    Diagnostic(
                        "SYMBOL/002",
                        f"no root named '@{name}'",
                        None,
                        {"symbol_name": name},
                        hint=did_you_mean(name, known),
                        emitter="linker",
                    )
                ]
            )
        return found

    def _reach(
        self, member: Member, op: Op, reason: str, wanted_by: str | None
    ) -> list[tuple[Member, Op, str, str | None]]:
        if op in self.live or op in self.satisfied:
            return []
        name = symbol_name(op)
        more: list[tuple[Member, Op, str, str | None]] = []
        if name is not None and is_declaration(op):
            definition = self.universe.definition(name, op)
            if definition is not None and definition[1] is not op:
                self.satisfied[op] = definition[1]
                return [(*definition, reason, wanted_by)]
            if "import_module" not in op.spec.attribute_index or op.attribute("import_module") is None:
                self.open.append(op)
        if op.name in SHARED:
            assert name is not None
            first = self._shared.setdefault(name, op)
            for other_member, provider in self.universe.providers(name):
                if self._possible(provider):
                    more.append((other_member, provider, "provider", name))
            if first is not op:
                # Every module that uses a shared contract states it; one statement is enough.
                check_compatible(op, first)
                self.satisfied[op] = first
                return more
        entry = PlanEntry(
            name or op.name,
            reason,
            "library" if member.is_library else "input",
            "private" if member.is_library else "global",
            wanted_by,
        )
        self.live[op] = (member, entry)
        for used in referenced_symbols(op):
            target = member.symbol(used)
            if target is not None:
                more.append((member, target, "dependency", name))
        return more

    def _possible(self, provider: Op) -> bool:
        requires = provider.attribute("requires") or ()
        return all(decide_requirement(r, self.options.target) is not False for r in requires)  # type: ignore[attr-defined]

    def _unresolved(self, op: Op) -> Diagnostic:
        name = symbol_name(op) or "?"
        return Diagnostic(
            "SYMBOL/002",
            f"nothing defines '@{name}', which this module declares",
            op.loc,
            {"symbol_name": name},
            hint="supply a library that exports it, or link with --allow-unresolved",
            emitter="linker",
        )

    # -- building the result -----------------------------------------------------------------------------------

    def _assemble(self) -> Module:
        result = Module("linked")
        members = [*self.universe.inputs, *self.universe.libraries]
        taken: set[str] = set()
        names: dict[Op, str] = {}
        for member in members:
            for op in member.ops():
                name = symbol_name(op)
                if op not in self.live or name is None:
                    continue
                fresh = name
                k = 0
                while fresh in taken:
                    # Only private library symbols can clash: they keep an identity per module.
                    fresh = f"{name}${k}"
                    k += 1
                taken.add(fresh)
                names[op] = fresh
        for member in members:
            renaming = self._renaming(member, names)
            for op in member.ops():
                if op not in self.live:
                    continue
                copy = op.clone({})
                if op in names:
                    copy.attributes[copy.spec.symbol_attribute] = names[op]  # type: ignore[index]  # it defines a symbol
                _rename(copy, renaming)
                self._set_visibility(copy, member)
                result.body.append(copy)
            if not member.is_library:
                result.aliases.update(member.aliases)
                if not result.header:
                    result.header = member.header
        return result

    def _renaming(self, member: Member, names: dict[Op, str]) -> dict[str, str]:
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
        name = symbol_name(op)
        index = op.spec.attribute_index
        if "visibility" not in index:
            return
        if name in self.options.roots:
            op.set_attribute("visibility", "public")
        elif member.is_library:
            op.set_attribute("visibility", None)


def _rename(root: Op, renaming: dict[str, str]) -> None:
    if not renaming:
        return
    for op in root.walk():
        for i, attribute in enumerate(op.spec.attributes):
            value = op.attributes[i]
            if attribute.kind.name == "symbol" and isinstance(value, str) and value in renaming:
                op.attributes[i] = renaming[value]
            elif attribute.kind.name == "symbol_array" and isinstance(value, tuple):
                op.attributes[i] = tuple(renaming.get(v, v) for v in value)


def _bind_with_target(module: Module, target: TargetProfile) -> None:
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
