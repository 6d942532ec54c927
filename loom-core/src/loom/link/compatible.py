"""When two statements about one symbol agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from loom.ir.core import Op, Value, symbol_name
from loom.ir.diagnostics import Diagnostic, LoomError, Related, resolve
from loom.ir.types import Type

# Contracts that every module which uses them states for itself; equal ones are one.
SHARED: Final = frozenset({"template.decl", "kernel.entry.decl"})

# Declarations that definitions of one kind in any module satisfy, as these have no visibility.
UNQUALIFIED: Final = {"config.decl": "config.def", "global.rodata.decl": "global.rodata.def"}


def is_record(op: Op) -> bool:
    """Whether an op is a target record: data without a body. Equal records under one name are one."""
    return "target_record" in op.spec.traits and "declaration" not in op.spec.traits


def same_record(op: Op, other: Op) -> bool:
    """Whether two target records say the same, up to their names."""
    if op.name != other.name:
        return False
    own = op.spec.symbol_attribute
    return all(a == b for i, (a, b) in enumerate(zip(op.attributes, other.attributes, strict=True)) if i != own)


def is_shared(op: Op, other: Op) -> bool:
    """Whether two definitions of one name may stand for each other."""
    return (op.name in SHARED and op.name == other.name) or (is_record(op) and same_record(op, other))


def _signature(op: Any) -> list[tuple[str, list[str]]]:
    """Texts of a signature's types in which its own values have positional names, for comparison."""
    if "type" in op.spec.attribute_index:
        return [("type", [str(op.type)])]
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
    """A definition must have the signature that the declaration states, up to names. Raises ``LoomError``."""
    name = symbol_name(declaration)
    if not _of_one_kind(declaration, definition):
        raise LoomError([_other_kind(name or "", declaration, definition)])
    ours, theirs = _signature(declaration), _signature(definition)
    if ours == theirs:
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


def _of_one_kind(declaration: Op, definition: Op) -> bool:
    """Whether a declaration is satisfied by operations such as the definition."""
    if "target_record" in declaration.spec.traits:
        return "target_record" in definition.spec.traits
    return declaration.name == definition.name or definition.name == _defined_by(declaration)


def _defined_by(declaration: Op) -> str:
    """The kind of operation that satisfies a declaration."""
    return declaration.name.removesuffix("decl") + "def"


def _other_kind(name: str, declaration: Op, definition: Op) -> Diagnostic:
    return Diagnostic(
        "SYMBOL/003",
        f"'@{name}' is declared as '{declaration.name}', but defined as '{definition.name}'",
        declaration.loc,
        {"symbol_name": name, "actual_kind": definition.name, "expected_kind": _defined_by(declaration)},
        related=(Related("the definition", definition.loc),),
        emitter="linker",
    )


def duplicate(name: str, op: Op, module: str, other: Op, other_module: str) -> Diagnostic:
    """The error about two definitions of one name. Both places are named, by module where none is recorded."""
    where = "" if resolve(op.loc) is not None else f" in {module}"
    related = "the other definition" if resolve(other.loc) is not None else f"the other definition is in {other_module}"
    hint = None
    if is_record(op) and is_record(other):
        hint = "modules may state the same target record, but these differ"
    return Diagnostic(
        "SYMBOL/005",
        f"'@{name}' has two definitions{where}",
        op.loc,
        {"symbol_name": name},
        hint=hint,
        related=(Related(related, other.loc),),
        emitter="linker",
    )
