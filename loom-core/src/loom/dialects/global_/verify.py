"""Rules of the ``global`` dialect (language reference, part 1, section 11)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loom.dialects.scalar.verify import check_literal, wrong_kind
from loom.ir.core import Op, Value
from loom.ir.diagnostics import Diagnostic, Related
from loom.ir.predicates import failing_scalar_predicate
from loom.ir.types import BUFFER, ERROR, OFFSET, ScalarType, ShapedType, Type

RODATA = ("global.rodata.def", "global.rodata.decl")


def declaration(op: Any) -> list[Diagnostic] | None:
    """Only a scalar has an initial value, a literal of its type."""
    if op.value is None:
        return None
    if not isinstance(op.type, ScalarType):
        return [wrong_kind(op, "value", "literal", f"no initial value for {op.type}")]
    if op.type is OFFSET and isinstance(op.value, int) and op.value < 0:
        return [_contract(op, "value", op.value, ">= 0")]
    return check_literal(op, op.value, op.type, "value") or _initial_predicates(op)


def _initial_predicates(op: Any) -> list[Diagnostic]:
    named = op.body.entry.args
    false = failing_scalar_predicate(op.predicates, [op.value] * len(named), named)
    return [] if false is None else [_contract(op, "value", op.value, f"a value with {false}")]


def rodata(op: Any) -> list[Diagnostic] | None:
    """The alignment is a power of two; no blob is named twice."""
    found = []
    alignment, conflicts = op.alignment, op.conflicts or ()
    if alignment is not None and (alignment <= 0 or alignment & (alignment - 1)):
        found.append(_contract(op, "align", alignment, "a positive power of two"))
    if len(set(conflicts)) != len(conflicts):
        found.append(_contract(op, "conflicts", ", ".join(f"@{name}" for name in conflicts), "a set of symbols"))
    return found


def _contract(op: Op, name: str, value: object, expected: str) -> Diagnostic:
    return Diagnostic(
        "STRUCTURE/014",
        f"'{name}' of '{op.name}' is {value}, but must be {expected}",
        op.loc,
        {"attr_name": name, "actual_value": value, "expected_constraint": expected},
    )


# -- references --------------------------------------------------------------------------------------------


def check_conflicts(op: Any, symbols: dict[str, Op]) -> list[Diagnostic]:
    """Blobs that must not share storage name each other."""
    found = []
    for name in op.conflicts or ():
        other: Any = symbols.get(name)
        related: tuple[Related, ...] = ()
        if other is None:
            code, why = "SYMBOL/002", "is not in this module"
        elif other.name not in RODATA:
            code, why = "SYMBOL/003", f"is a '{other.name}', no constant data"
        elif other is op:
            code, why = "SYMBOL/006", "is the blob itself"
        elif other.name == "global.rodata.def" and op.symbol not in (other.conflicts or ()):
            code, why = "SYMBOL/006", f"does not name '@{op.symbol}' in turn"
            related = (Related("the other blob", other.loc),)
        else:
            continue
        found.append(
            Diagnostic(
                code,
                f"'@{op.symbol}' conflicts with '@{name}', which {why}",
                op.loc,
                {
                    "symbol_name": name,
                    **({"actual_kind": other.name, "expected_kind": "rodata"} if code == "SYMBOL/003" else {}),
                },
                related=related,
            )
        )
    return found


def loads(op: Any, target: Any) -> list[Diagnostic]:
    """The declared type with the load's own results for the names in it, or the bytes as a buffer."""
    results: list[Value] = op.results
    if target.name in RODATA:
        found = _count(op, 1) if len(results) != 1 else []
        if not found and results[0].type != BUFFER:
            found = [_type_differs(op, target, "result", results[0].type, BUFFER)]
        return found or _stores_into(results[0])
    named = _names(target.type)
    if len(results) != 1 + len(named):
        return _count(op, 1 + len(named))
    expected = target.type.substitute(dict(zip(named, results[1:], strict=True)))
    if results[0].type != expected:
        return [_type_differs(op, target, "result", results[0].type, expected)]
    return []


def stores(op: Any, target: Any) -> list[Diagnostic]:
    """A value of the declared type, whose dynamic extents and encoding may be any."""
    actual = op.value.type
    if actual is ERROR or _same_up_to_names(target.type, actual):
        return []
    return [_type_differs(op, target, "value", actual, target.type)]


def _names(type_: Type) -> list[Value]:
    return list(dict.fromkeys(type_.values()))


def _same_up_to_names(declared: Type, actual: Type) -> bool:
    mapping: dict[Value, Value] = {}
    if isinstance(declared, ShapedType) and isinstance(actual, ShapedType):
        theirs = [*actual.dims, actual.encoding]
        for mine, other in zip([*declared.dims, declared.encoding], theirs, strict=False):
            if isinstance(mine, Value) and isinstance(other, Value):
                mapping.setdefault(mine, other)
    return declared.substitute(mapping) == actual


def _count(op: Op, expected: int) -> list[Diagnostic]:
    return [
        Diagnostic(
            "STRUCTURE/002",
            f"'{op.name}' has {len(op.results)} results, not {expected}",
            op.loc,
            {"op_name": op.name, "actual_count": len(op.results), "expected_count": expected},
        )
    ]


def _type_differs(op: Any, target: Any, field: str, actual: Type, expected: Type) -> Diagnostic:
    return Diagnostic(
        "TYPE/001",
        f"'@{op.symbol}' is {expected}, not {actual}",
        op.loc,
        {"field_a": field, "type_a": actual, "field_b": op.symbol, "type_b": expected},
        related=(Related("declared here", target.loc),),
    )


def _stores_into(root: Value) -> list[Diagnostic]:
    """Operations that write through names of constant data."""
    found = []
    pending, seen = [root], {root}
    while pending:
        value = pending.pop()
        for user in value.uses:
            traits = user.spec.traits
            if "writes" in traits and _written(user) is value:
                found.append(
                    Diagnostic(
                        "STRUCTURE/032",
                        f"'{user.name}' writes to constant data",
                        user.loc,
                        {"op_name": user.name, "field_name": "target", "required_origin": "writable storage"},
                    )
                )
            elif "pure" in traits:
                # Views and assumptions are other names of the same bytes.
                renamed = [r for r in user.results if r not in seen and _is_storage(r.type)]
                seen.update(renamed)
                pending += renamed
    return found


def _written(op: Op) -> Value | None:
    index = op.spec.operand_index.get("target")
    return op.group(index)[0] if index is not None and op.group(index) else None


def _is_storage(type_: Type) -> bool:
    return type_ == BUFFER or (isinstance(type_, ShapedType) and type_.kind == "view")


def check_constant_store(op: Any, symbols: dict[str, Op]) -> list[Diagnostic]:
    """A constant is stored only by code that nothing but initializers reach."""
    target = symbols.get(op.symbol)
    if target is None or target.name != "global.constant":
        return []
    root: Op = op
    while root.parent_op is not None:
        root = root.parent_op
    if target.attribute("value") is None and _only_initializers_reach(root, symbols.values(), set()):
        return []
    where = "though it has an initial value" if target.attribute("value") is not None else "outside of initializers"
    return [
        Diagnostic(
            "STRUCTURE/029",
            f"the constant '@{op.symbol}' is stored {where}",
            op.loc,
            {
                "op_name": op.name,
                "constraint_kind": "ancestor",
                "ancestor_name": "func.def initializer",
                "actual_ancestor": root.name,
            },
            related=(Related("the constant is declared here", target.loc),),
        )
    ]


def _only_initializers_reach(root: Any, module: Iterable[Op], visiting: set[Op]) -> bool:
    if root.name != "func.def":
        return False
    if root.cc == "initializer" or root in visiting:
        return True
    if root.visibility is not None or root.export_symbol is not None or root.retain is not None:
        return False
    visiting.add(root)
    callers = [
        other
        for other in module
        if any(inner.spec.attribute_index.get("callee") is not None and inner is not other
               and inner.attribute("callee") == root.callee for inner in other.walk())
    ]  # fmt: skip
    return bool(callers) and all(_only_initializers_reach(caller, module, visiting) for caller in callers)
