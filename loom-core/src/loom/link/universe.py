"""What a link may draw from: the symbols of direct inputs and of libraries (language reference, part 1, section 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from loom.bytecode.index import EXPORTED
from loom.ir.core import Op, Value, symbol_name
from loom.ir.diagnostics import Diagnostic, LoomError, Related
from loom.ir.types import Type
from loom.link.member import Member

if TYPE_CHECKING:
    from loom.link.member import Linkable

# Contracts that every module which uses them states for itself; equal ones are one.
SHARED: Final = frozenset({"template.decl", "kernel.entry.decl"})

# Declarations that definitions of one kind in any module satisfy, as these have no visibility.
UNQUALIFIED: Final = {"config.decl": "config.def", "global.rodata.decl": "global.rodata.def"}

# A module-level operation of a member, by position.
Place = tuple[Member, int]


class Universe:
    """Index of every symbol by name. Order of construction never decides anything."""

    def __init__(self, inputs: Iterable[Linkable], libraries: Iterable[Linkable]) -> None:
        self.inputs = sorted((Member(m, False) for m in inputs), key=Member.order)
        self.libraries = sorted((Member(m, True) for m in libraries), key=Member.order)
        self._direct: dict[str, Place] = {}
        self._exported: dict[str, list[Place]] = {}
        self._providers: dict[str, list[Place]] = {}
        self._index()

    def _index(self) -> None:
        for member in self.inputs:
            for name, ordinal in member.symbols.items():
                if member.declares(ordinal):
                    continue
                other, at = self._direct.setdefault(name, (member, ordinal))
                if other is not member:
                    op, first = member.op(ordinal), other.op(at)
                    if op.name != first.name or op.name not in SHARED:
                        raise LoomError([_duplicate(name, op, first)])
                    check_compatible(op, first)
        for member in self.libraries:
            for name, ordinal in member.symbols.items():
                kind = member.op_names[ordinal]
                if not member.declares(ordinal) and (
                    member.flags[ordinal] & EXPORTED or kind in UNQUALIFIED.values() or kind in SHARED
                ):
                    self._exported.setdefault(name, []).append((member, ordinal))
        for member in (*self.inputs, *self.libraries):
            for ordinal in member.symbols.values():
                family = member.families[ordinal]
                if family is not None:
                    self._providers.setdefault(family, []).append((member, ordinal))

    def known(self) -> list[str]:
        """Names that inputs define or libraries export."""
        return [*self._direct, *self._exported]

    def direct(self, name: str) -> tuple[Member, Op] | None:
        """The definition of a name in the inputs."""
        found = self._direct.get(name)
        return (found[0], found[0].op(found[1])) if found is not None else None

    def exported(self, name: str) -> list[tuple[Member, Op]]:
        """The definitions of a name that libraries export."""
        return [(member, member.op(ordinal)) for member, ordinal in self._exported.get(name, ())]

    def providers(self, family: str) -> list[tuple[Member, Op]]:
        """The providers of a template family, anywhere."""
        return [(member, member.op(ordinal)) for member, ordinal in self._providers.get(family, ())]

    def definition(self, name: str, declaration: Op) -> tuple[Member, Op] | None:
        """The definition that satisfies a declaration, or ``None``. Two eligible ones are an error."""
        if "import_module" in declaration.spec.attribute_index and declaration.attribute("import_module") is not None:
            return None
        found = self.direct(name)
        candidates = [] if found is not None else self.exported(name)
        own = UNQUALIFIED.get(declaration.name)
        candidates = [c for c in candidates if c[1].name == own or c[1].name not in UNQUALIFIED.values()]
        if len(candidates) > 1 and not all(op.name in SHARED for _, op in candidates):
            raise LoomError([_duplicate(name, candidates[1][1], candidates[0][1])])
        found = found or (candidates[0] if candidates else None)
        if found is not None:
            check_compatible(declaration, found[1])
        return found


def _duplicate(name: str, op: Op, other: Op) -> Diagnostic:
    return Diagnostic(
        "SYMBOL/005",
        f"'@{name}' has two definitions",
        op.loc,
        {"symbol_name": name},
        related=(Related("the other definition", other.loc),),
        emitter="linker",
    )


def _other_kind(name: str, declaration: Op, definition: Op) -> Diagnostic:
    return Diagnostic(
        "SYMBOL/003",
        f"'@{name}' is declared as '{declaration.name}', but defined as '{definition.name}'",
        declaration.loc,
        {"symbol_name": name, "actual_kind": definition.name, "expected_kind": "global.rodata.def"},
        related=(Related("the definition", definition.loc),),
        emitter="linker",
    )


def _signature(op: Any) -> list[tuple[str, list[str]]]:
    """Texts of a signature's types in which its own values have positional names, for comparison."""
    parts = []
    for region in op.regions[:2]:
        args = region.entry.args
        names = {a: f"#{i}" for i, a in enumerate(args)}
        parts.append(("argument", _texts([a.type for a in args], names)))
    if op.spec.result_spec_attributes:
        specs = op.result_specs
        names = {a: f"#{i}" for i, a in enumerate(op.regions[0].entry.args)}
        names.update({s.value: f"#r{i}" for i, s in enumerate(specs) if s.value is not None})
        parts.append(("result", _texts([s.type for s in specs], names)))
    return parts


def _texts(types: Sequence[Type], names: Mapping[Value, str]) -> list[str]:
    return [t.spell(lambda value: names.get(value, "?")) for t in types]


def check_compatible(declaration: Op, definition: Op) -> None:
    """A definition must have the signature that the declaration states, up to names."""
    name = symbol_name(declaration)
    if declaration.name == "global.rodata.decl" and definition.name != "global.rodata.def":
        raise LoomError([_other_kind(name or "", declaration, definition)])
    if not declaration.regions or not definition.regions:
        return
    families = {declaration.name.partition(".")[0], definition.name.partition(".")[0]}
    ours, theirs = _signature(declaration), _signature(definition)
    if len(families) == 1 and ours == theirs:
        return
    texts = ["; ".join(f"{role}s ({', '.join(types)})" for role, types in part) for part in (ours, theirs)]
    raise LoomError(
        [
            Diagnostic(
                "SYMBOL/006",
                f"'@{name}' is declared with {texts[0]}, but defined with {texts[1]}",
                declaration.loc,
                {"symbol_name": name or ""},
                related=(Related("the definition", definition.loc),),
                emitter="linker",
            )
        ]
    )
