"""The selective linker: reach from roots, resolve declarations, drop the rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from loom.ir.core import Op, symbol_name
from loom.ir.diagnostics import Diagnostic, LoomError, did_you_mean
from loom.ir.recursion import deep_recursion
from loom.link.assemble import Assembly, bind_with_target
from loom.link.compatible import SHARED, check_compatible, is_record, same_record
from loom.link.member import PIPELINE, Member, Role, is_declaration, is_imported
from loom.link.options import Dependency, LinkOptions, LinkResult, PlanEntry
from loom.link.universe import Found, Universe
from loom.specialize.configuration import bind_values, predicate_faults, require_bound
from loom.specialize.select import decide_requirement
from loom.transforms.dce import eliminate_dead_symbols, is_root, referenced_symbols

if TYPE_CHECKING:
    from loom.link.member import Linkable

# An operation to keep: its module, the reason, and the operation that wants it.
Want = tuple[Member, Op, str, Op | None]


def link(
    inputs: Sequence[Linkable],
    libraries: Sequence[Linkable] = (),
    options: LinkOptions | None = None,
    *,
    root_libraries: Sequence[Linkable] = (),
    transitive_libraries: Sequence[Linkable] = (),
) -> LinkResult:
    """Link modules. Inputs and libraries are verified by the caller and are left alone.

    ``libraries`` may satisfy declarations, ``transitive_libraries`` only those of other libraries; the exports of
    ``root_libraries`` are roots. Of an opened bytecode file only what the roots reach is decoded; the caller verifies
    the result.

    Raises :class:`~loom.ir.diagnostics.LoomError` for duplicate definitions, incompatible signatures, unknown roots
    and, unless unresolved declarations are allowed, for open ones.
    """
    with deep_recursion():
        universe = Universe(inputs, libraries, root_libraries, transitive_libraries)
        return _Linker(universe, options or LinkOptions()).run()


class _Linker:
    def __init__(self, universe: Universe, options: LinkOptions) -> None:
        self.universe = universe
        self.options = options
        # In the order reached.
        self.live: dict[Op, Want] = {}
        # What another operation stands in for: a declaration for its definition, one of several equal statements.
        self.satisfied: dict[Op, Op] = {}
        self.open: list[tuple[Member, Op]] = []
        self.exported: set[str] = set()
        self.dependencies: set[Dependency] = set()
        # Libraries that satisfy something of an input.
        self.direct: set[Member] = set()
        # The first statement of each shared contract, open declaration and target record, by name.
        self._first: dict[str, list[Op]] = {}
        # Predicates that further declarations of a configuration key state.
        self.promises: dict[Op, list[Op]] = {}

    def run(self) -> LinkResult:
        pending = deque(self._roots())
        while pending:
            pending.extend(self._reach(*pending.popleft()))
        options = self.options
        if not (options.allow_unresolved or options.merge):
            faults = [self._unresolved(member, op) for member, op in self.open if op.name != "config.decl"]
            if faults:
                raise LoomError(faults)
        if options.strict_deps:
            self._require_direct_dependencies()
        assembly = Assembly(self.universe.members, self.live, self.satisfied, self.exported, self.promises)
        module = assembly.module()
        bind_values(module, options.config)
        if options.require_config:
            require_bound(module)
        if options.target is not None and not options.merge:
            bind_with_target(module, options.target)
            kept = [
                op
                for op in module.body
                if is_root(op)
                or symbol_name(op) in self.exported
                or "check" in op.spec.traits
                or op.name == PIPELINE
            ]
            eliminate_dead_symbols(module, kept, keep_providers=True)
        alive = module.symbols()
        plan = tuple(entry for want in self.live.values() if (entry := _entry(want, assembly.names)).symbol in alive)
        order = sorted(self.dependencies, key=lambda d: (d.user, d.library, d.symbol, d.kind))
        return LinkResult(module, plan, tuple(order))

    # -- roots ---------------------------------------------------------------------------------------------------

    def _roots(self) -> list[Want]:
        options = self.options
        found: list[Want] = []
        for name in sorted(set(options.roots)):
            found.append((*self._root(name), "root", None))
            self.exported.add(name)
        rooted = bool(options.roots or options.input_exports) or any(
            member.role is Role.ROOT_LIBRARY for member in self.universe.libraries
        )
        for member in self.universe.members:
            chosen: list[int] = []
            if member.role is Role.INPUT:
                chosen = member.start(
                    merge=options.merge, tests=options.keep_tests, exports=options.input_exports, roots=not rooted
                )
            elif member.role is Role.ROOT_LIBRARY:
                chosen = member.start(merge=False, tests=False, exports=True, roots=False)
            for ordinal in chosen:
                op = member.op(ordinal)
                symbol = symbol_name(op)
                if symbol is not None and member.role is Role.ROOT_LIBRARY:
                    self.exported.add(symbol)
                found.append((member, op, "merge" if options.merge else "root", None))
        return found

    def _root(self, name: str) -> Found:
        found = self.universe.direct(name) or self.universe.single(name, self.universe.exported(name))
        if found is None:
            raise LoomError(
                [
                    Diagnostic(
                        "SYMBOL/002",
                        f"no root named '@{name}'",
                        None,
                        {"symbol_name": name},
                        hint=did_you_mean(name, self.universe.known()),
                        emitter="linker",
                    )
                ]
            )
        return found

    # -- reaching ------------------------------------------------------------------------------------------------

    def _reach(self, member: Member, op: Op, reason: str, wanted_by: Op | None) -> list[Want]:
        if op in self.live or op in self.satisfied:
            return []
        name = symbol_name(op)
        more: list[Want] = []
        if name is not None:
            if is_declaration(op):
                found = self.universe.definition(name, op, member)
                if found is not None and found[1] is not op:
                    return [(*self._satisfy(member, op, found), reason, wanted_by)]
                if not is_imported(op):
                    self.open.append((member, op))
            if op.name in SHARED:
                more = self._candidates(member, op, name)
            if self._stated_before(name, op):
                return more
        self.live[op] = (member, op, reason, wanted_by)
        for used in referenced_symbols(op):
            target = member.symbol(used)
            if target is not None:
                more.append((member, target, "dependency", op))
        return more

    def _satisfy(self, member: Member, declaration: Op, found: Found) -> Found:
        """Put a definition in the place of a declaration."""
        owner, definition = found
        if declaration.name == "config.decl":
            faults = predicate_faults(declaration, definition)
            if faults:
                raise LoomError(faults)
        self.satisfied[declaration] = definition
        self._depend(member, owner, definition, "definition")
        return found

    def _candidates(self, member: Member, contract: Op, family: str) -> list[Want]:
        """The providers of a template family that may be chosen."""
        more: list[Want] = []
        for owner, provider in self.universe.providers(family):
            if self._possible(provider):
                self._depend(member, owner, provider, "provider")
                more.append((owner, provider, "provider", contract))
        return more

    def _stated_before(self, name: str, op: Op) -> bool:
        """Whether an equal statement of a shared contract, an open declaration or a record is there already."""
        if not (is_declaration(op) or op.name in SHARED or is_record(op)):
            return False
        statements = self._first.setdefault(name, [])
        for first in statements:
            if is_record(op):
                if not same_record(op, first):
                    continue
            elif op.name == first.name:
                # Every module that uses it states it; one statement is enough.
                check_compatible(op, first)
            else:
                continue
            self.satisfied[op] = first
            if op.name == "config.decl":
                self.promises.setdefault(first, []).append(op)
            return True
        statements.append(op)
        return False

    def _possible(self, provider: Op) -> bool:
        requires = provider.attribute("requires") or ()
        return all(decide_requirement(r, self.options.target) is not False for r in requires)  # type: ignore[attr-defined]

    def _depend(self, user: Member, owner: Member, op: Op, kind: str) -> None:
        if owner is not user and owner.is_library:
            self.dependencies.add(Dependency(user.name, owner.name, symbol_name(op) or op.name, kind))
            if not user.is_library:
                self.direct.add(owner)

    # -- faults --------------------------------------------------------------------------------------------------

    def _unresolved(self, member: Member, op: Op) -> Diagnostic:
        name = symbol_name(op) or "?"
        hint = "supply a library that exports it, or link with --allow-unresolved"
        hidden = self.universe.hidden(name) if member.role is Role.INPUT else []
        if hidden:
            hint = f"{hidden[0].name} defines it, but as a transitive library; an input needs it as --library"
        return Diagnostic(
            "SYMBOL/002",
            f"nothing defines '@{name}', which this module declares",
            op.loc,
            {"symbol_name": name},
            hint=hint,
            emitter="linker",
        )

    def _require_direct_dependencies(self) -> None:
        """Raise if a library satisfies nothing that an input declares itself."""
        faults = [
            Diagnostic(
                "SYMBOL/006",
                f"no input uses {member.name} directly",
                None,
                hint="leave the library out, or give it as --transitive-library if another library needs it",
                emitter="linker",
            )
            for member in self.universe.libraries
            if member.role is Role.LIBRARY and member not in self.direct
        ]
        if faults:
            raise LoomError(faults)


def _entry(want: Want, names: Mapping[Op, str]) -> PlanEntry:
    """The row of the plan, with the names that symbols have in the result."""
    member, op, reason, wanted_by = want
    identity, role = ("private", "library") if member.is_library else ("global", "input")
    by = names.get(wanted_by) or symbol_name(wanted_by) if wanted_by is not None else None
    return PlanEntry(names.get(op) or op.name, reason, role, identity, by)


__all__ = ["LinkOptions", "LinkResult", "PlanEntry", "link"]
