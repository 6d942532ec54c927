"""What a link may draw from: the symbols of direct inputs and of libraries (language reference, part 1, section 6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from loom.ir.core import Op
from loom.ir.diagnostics import LoomError
from loom.link.compatible import SHARED, UNQUALIFIED, check_compatible, duplicate, is_record, is_shared
from loom.link.member import Member, Role, in_order, is_imported

if TYPE_CHECKING:
    from loom.link.member import Linkable

Found = tuple[Member, Op]

# Kinds of definitions that have no visibility: a library offers them by having them.
_DATA = frozenset(UNQUALIFIED.values())
_OFFERED = SHARED.union(UNQUALIFIED.values())


class Universe:
    """The modules of a link. The order in which they are given never decides anything.

    ``libraries`` may satisfy what inputs and libraries declare, ``transitive`` ones only what libraries declare. The
    exports of ``root_libraries`` are roots.
    """

    def __init__(
        self,
        inputs: Iterable[Linkable],
        libraries: Iterable[Linkable] = (),
        root_libraries: Iterable[Linkable] = (),
        transitive: Iterable[Linkable] = (),
    ) -> None:
        self.inputs = in_order(Member(m, Role.INPUT) for m in inputs)
        self.libraries = in_order(
            Member(m, role)
            for role, modules in (
                (Role.LIBRARY, libraries),
                (Role.ROOT_LIBRARY, root_libraries),
                (Role.TRANSITIVE, transitive),
            )
            for m in modules
        )
        self._require_single_definitions()

    def _require_single_definitions(self) -> None:
        """Of the inputs at most one defines a name, except for contracts and records that are equal."""
        if len(self.inputs) < 2:
            return
        owners: dict[str, tuple[Member, int]] = {}
        faults = []
        for member in self.inputs:
            for name, ordinal in member.symbols().items():
                if member.declares(ordinal):
                    continue
                other, at = owners.setdefault(name, (member, ordinal))
                if other is member:
                    continue
                op, first = member.op(ordinal), other.op(at)
                if not is_shared(op, first):
                    faults.append(duplicate(name, op, member.name, first, other.name))
                elif op.name in SHARED:
                    check_compatible(op, first)
        if faults:
            raise LoomError(faults)

    @property
    def members(self) -> list[Member]:
        """All modules, inputs first."""
        return [*self.inputs, *self.libraries]

    def known(self) -> list[str]:
        """Names that inputs define or libraries export."""
        return [
            *(n for m in self.inputs for n, k in m.symbols().items() if not m.declares(k)),
            *(n for m in self.libraries for n, k in m.symbols().items() if m.is_exported(k) and not m.declares(k)),
        ]

    def _offers(self, member: Member, ordinal: int) -> bool:
        """Whether a library lets others use a definition."""
        if member.declares(ordinal):
            return False
        if member.is_exported(ordinal) or member.op_name(ordinal) in _OFFERED:
            return True
        return is_record(member.op(ordinal))

    def direct(self, name: str) -> Found | None:
        """The definition of a name in the inputs."""
        for member in self.inputs:
            ordinal = member.find(name)
            if ordinal is not None and not member.declares(ordinal):
                return member, member.op(ordinal)
        return None

    def exported(self, name: str, user: Member | None = None) -> list[Found]:
        """The definitions of a name that libraries offer to a module (without one: to a request for a root)."""
        found = []
        for member in self.libraries:
            if member.role is Role.TRANSITIVE and (user is None or user.role is Role.INPUT):
                continue
            ordinal = member.find(name)
            if ordinal is not None and self._offers(member, ordinal):
                found.append((member, member.op(ordinal)))
        return found

    def hidden(self, name: str) -> list[Member]:
        """The transitive libraries that export a name."""
        found = []
        for member in self.libraries:
            ordinal = member.find(name) if member.role is Role.TRANSITIVE else None
            if ordinal is not None and self._offers(member, ordinal):
                found.append(member)
        return found

    def providers(self, family: str) -> list[Found]:
        """The providers of a template family, anywhere."""
        return [(member, member.op(k)) for member in self.members for k in member.providers(family)]

    def definition(self, name: str, declaration: Op, user: Member) -> Found | None:
        """The definition that satisfies a declaration of a module, or ``None``. Two eligible ones are an error."""
        if is_imported(declaration):
            return None
        found = self.direct(name)
        if found is None:
            own = UNQUALIFIED.get(declaration.name)
            candidates = self.exported(name, user)
            found = self.single(name, [c for c in candidates if c[1].name == own or c[1].name not in _DATA])
        if found is not None:
            check_compatible(declaration, found[1])
        return found

    def single(self, name: str, candidates: Sequence[Found]) -> Found | None:
        """The only candidate, or the first of several that are equal. Raises ``LoomError`` when they are not."""
        if not candidates:
            return None
        member, op = candidates[0]
        faults = [
            duplicate(name, other, module.name, op, member.name)
            for module, other in candidates[1:]
            if not is_shared(other, op)
        ]
        if faults:
            raise LoomError(faults)
        return candidates[0]
