"""Rules of the ``low`` dialect (language reference, part 3, sections 4.2 to 4.7)."""

from __future__ import annotations

from typing import Any, Final

from loom.dialects.scf.verify import out_of_contract, recurring_tuple
from loom.ir.core import Op, Value
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import ERROR, RegType, StorageType


def low_function(op: Any) -> list[Diagnostic] | None:
    """Signature types are register types."""
    found = []
    types = [(f"%{a.name}", a.type) for a in op.body.entry.args]
    if op.spec.result_spec_attributes:
        types += [(f"result {i}", r.type) for i, r in enumerate(op.result_specs)]
    for name, type_ in types:
        if not isinstance(type_, RegType | StorageType) and type_ is not ERROR:
            found.append(
                Diagnostic(
                    "TYPE/014",
                    f"{name} of a Low function must be a register, not {type_}",
                    op.loc,
                    {"argument_name": name, "actual_type": type_, "expected_constraint": "register"},
                )
            )
    found += _scopes(op)
    if op.schedule == "locked":
        found += [_nested(inner) for block in op.body.blocks for inner in block if inner.regions]
    return found


# Families of contracts whose code passes through another compiler, which keeps no order: the code of a refusal.
_WITHOUT_SCOPES: Final = {"spirv": "SPIRV/017", "wasm": "TARGET/032", "vm": "TARGET/032"}
_SCOPES: Final = frozenset({"low.schedule.begin", "low.schedule.phase", "low.schedule.end"})


def _scopes(function: Any) -> list[Diagnostic]:
    """Scopes only where something keeps them."""
    code = _WITHOUT_SCOPES.get(function.contract.partition(".")[0])
    if code is None:
        return []
    found: list[Op] = [function] if function.schedule == "phased" else []
    found += [op for block in function.body.blocks for op in block if op.name in _SCOPES]
    return [
        Diagnostic(
            code,
            f"'{function.contract}' keeps no order of phases",
            op.loc,
            {"function_name": function.callee, "op_name": op.name, "op_constraint": "schedule.scope"},
        )
        for op in found
    ]


def low_kernel(op: Any) -> list[Diagnostic] | None:
    """The rules of Low functions, and positive sizes where they are stated; a grid may be empty."""
    found = low_function(op) or []
    for name, least in (("size", 1), ("count", 0), ("cluster", 1)):
        for axis in "xyz":
            value = op.attribute(f"{name}_{axis}")
            if value is not None and value < least:
                found.append(out_of_contract(op, f"{name}_{axis}", value, f"at least {least}"))
    return found


def _nested(op: Op) -> Diagnostic:
    return Diagnostic(
        "STRUCTURE/029",
        f"a locked body keeps its order; '{op.name}' has regions of its own",
        op.loc,
        {
            "op_name": op.name,
            "constraint_kind": "no_ancestor",
            "ancestor_name": "schedule(locked)",
            "actual_ancestor": "schedule(locked)",
        },
    )


def counted_loop(op: Any) -> list[Diagnostic] | None:
    """One position of the bounds' type, then the carried tuple; at most one unroll clause."""
    arguments = op.body.entry.args
    if len(arguments) != 1 + len(op.results):
        return [
            Diagnostic(
                "STRUCTURE/007",
                f"the body has {len(arguments)} arguments, not {1 + len(op.results)}",
                op.loc,
                {"actual_count": len(arguments), "expected_count": 1 + len(op.results)},
            )
        ]
    found = recurring_tuple(op)
    if arguments[0].type != op.lower.type and ERROR not in (arguments[0].type, op.lower.type):
        found.append(
            Diagnostic(
                "TYPE/013",
                f"the position has type {arguments[0].type}, the bounds {op.lower.type}",
                op.loc,
                {"arg_index": 0, "arg_type": arguments[0].type, "expected_type": op.lower.type},
            )
        )
    if op.unroll_policy is not None and op.unroll_factor is not None:
        found.append(out_of_contract(op, "unroll", "unroll", "either bare or with a factor"))
    return found


def storage_view(op: Any) -> list[Diagnostic] | None:
    """The part lies inside the range, as far as that is stated."""
    if op.offset < 0:
        return [out_of_contract(op, "offset", op.offset, "at least 0")]
    if op.byte_length < 1:
        return [out_of_contract(op, "byte_length", op.byte_length, "at least 1")]
    length = _length(op.storage)
    if length is None or op.offset + op.byte_length <= length:
        return None
    return [out_of_contract(op, "byte_length", op.byte_length, f"at most {length - op.offset} at that offset")]


def traffic(op: Any) -> list[Diagnostic] | None:
    """The offset lies inside the range."""
    if op.offset < 0:
        return [out_of_contract(op, "offset", op.offset, "at least 0")]
    length = _length(op.storage)
    return [out_of_contract(op, "offset", op.offset, f"below {length}")] if length and op.offset >= length else None


def _length(storage: Value) -> int | None:
    """The bytes of a reserved range or of a part of one."""
    op: Any = storage.defining_op
    if op is None:
        return None
    length = op.byte_length if op.name == "low.storage.view" else op.facts.get("byte_length")
    return length if isinstance(length, int) else None


def slice_(op: Any) -> list[Diagnostic] | None:
    """Units offset ... offset + count of the same class."""
    source, result = op.input.type, op.results[0].type
    if ERROR in (source, result):
        return None
    if source.reg_class != result.reg_class or op.offset < 0 or op.offset + result.count > source.count:
        return [
            Diagnostic(
                "TYPE/004",
                f"{result} is no part of {source} at unit {op.offset}",
                op.loc,
                {"result_name": "result", "actual_type": result, "expected_constraint": f"units of {source}"},
            )
        ]
    return None


def concat(op: Any) -> list[Diagnostic] | None:
    """One class; unit counts add up."""
    result = op.results[0].type
    parts = [a.type for a in op.args]
    if ERROR in (result, *parts):
        return None
    if any(p.reg_class != result.reg_class for p in parts) or sum(p.count for p in parts) != result.count:
        return [
            Diagnostic(
                "TYPE/004",
                f"{', '.join(map(str, parts))} do not make {result}",
                op.loc,
                {"result_name": "result", "actual_type": result, "expected_constraint": "the sum of the parts"},
            )
        ]
    return None


def live_in(op: Any) -> list[Diagnostic] | None:
    """Only in the entry block, before other instructions."""
    block = op.parent
    before = op.prev
    while before is not None and "live_in" in before.spec.traits:
        before = before.prev
    if before is None and block.parent.blocks[0] is block:
        return None
    return [
        Diagnostic(
            "STRUCTURE/030",
            "'low.live_in' stands at the start of the entry block",
            op.loc,
            {"op_name": op.name, "placement": "before", "reference_name": before.name if before else "entry"},
        )
    ]


def schedule_control(op: Op) -> list[Diagnostic] | None:
    """Directly in the body of a Low function."""
    parent = op.parent_op
    if parent is None or "low_function" in parent.spec.traits:
        return None
    return [
        Diagnostic(
            "STRUCTURE/029",
            f"'{op.name}' stands only in the blocks of a Low function's body",
            op.loc,
            {
                "op_name": op.name,
                "constraint_kind": "parent",
                "ancestor_name": "low.func.def",
                "actual_ancestor": parent.name,
            },
        )
    ]
