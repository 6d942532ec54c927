"""What a link may draw from: the symbols of direct inputs and of libraries (language reference, part 1, section 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from loom.ir.core import Module, Op, Value, symbol_name
from loom.ir.diagnostics import Diagnostic, LoomError, Related
from loom.ir.types import Type
from loom.transforms.dce import is_exported


@attrs.frozen(eq=False)
class Member:
    """One module of the universe."""

    module: Module
    is_library: bool
    symbols: dict[str, Op]


# Contracts that every module which uses them states for itself; equal ones are one.
SHARED: Final = frozenset({"template.decl", "kernel.entry.decl"})


def is_declaration(op: Op) -> bool:
    """Whether an op only declares its symbol. A template family is its own definition."""
    return "declaration" in op.spec.traits and op.name not in ("template.decl", "template.ukernel")


def _order(module: Module) -> tuple[str, ...]:
    """A key that does not depend on file names or on the order in which modules were given."""
    return tuple(sorted(name for op in module.body if (name := symbol_name(op)) is not None))


class Universe:
    """Index of every symbol by name. Order of construction never decides anything."""

    def __init__(self, inputs: Iterable[Module], libraries: Iterable[Module]) -> None:
        self.inputs = [Member(m, False, m.symbols()) for m in sorted(inputs, key=_order)]
        self.libraries = [Member(m, True, m.symbols()) for m in sorted(libraries, key=_order)]
        self.direct: dict[str, tuple[Member, Op]] = {}
        self.exported: dict[str, list[tuple[Member, Op]]] = {}
        self.providers: dict[str, list[tuple[Member, Op]]] = {}
        self._index()

    def _index(self) -> None:
        for member in self.inputs:
            for name, op in member.symbols.items():
                if is_declaration(op):
                    continue
                other = self.direct.get(name)
                if other is not None:
                    if op.name != other[1].name or op.name not in SHARED:
                        raise LoomError([_duplicate(name, op, other[1])])
                    check_compatible(op, other[1])
                self.direct.setdefault(name, (member, op))
        for member in self.libraries:
            for name, op in member.symbols.items():
                if not is_declaration(op) and (is_exported(op) or op.name == "config.def" or op.name in SHARED):
                    self.exported.setdefault(name, []).append((member, op))
        for member in (*self.inputs, *self.libraries):
            for op in member.symbols.values():
                if op.name in ("template.def", "template.ukernel"):
                    self.providers.setdefault(str(op.attribute("family")), []).append((member, op))

    def definition(self, name: str, declaration: Op) -> tuple[Member, Op] | None:
        """The definition that satisfies a declaration, or ``None``. Two eligible ones are an error."""
        if "import_module" in declaration.spec.attribute_index and declaration.attribute("import_module") is not None:
            return None
        found = self.direct.get(name)
        candidates = [] if found is not None else self.exported.get(name, [])
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
    if not declaration.regions or not definition.regions:
        return
    name = symbol_name(declaration)
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
