"""Rules of the ``scf`` dialect (language reference, part 1, section 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from loom.ir.core import Op, Region, Value
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import ERROR


def lengths_differ(op: Op, a: str, actual: int, b: str, expected: int) -> Diagnostic:
    """Two related lists differ in length."""
    return Diagnostic(
        "STRUCTURE/013",
        f"'{op.name}' has {actual} {a}, but {expected} {b}",
        op.loc,
        {"field_a": a, "actual_count": actual, "field_b": b, "expected_count": expected},
    )


def out_of_contract(op: Op, name: str, value: object, expected: str) -> Diagnostic:
    """An attribute value outside its contract."""
    return Diagnostic(
        "STRUCTURE/014",
        f"{name} of '{op.name}' is {value}, but must be {expected}",
        op.loc,
        {"attr_name": name, "actual_value": value, "expected_constraint": expected},
    )


def _sibling(op: Op, name: str) -> str:
    """The name of an operation beside the given one: ``scf.yield`` for ``scf.if``, ``low.scf.yield`` in Low."""
    return f"{op.name.rpartition('.')[0]}.{name}"


def _terminator(region: Region) -> Op | None:
    return region.blocks[-1].last


def yields(
    op: Op, region: Region, results: Sequence[Value], extra: Mapping[Value, Value] | None = None
) -> list[Diagnostic]:
    """The region's yield matches ``results``; a type naming a sibling result means the yielded sibling."""
    end = _terminator(region)
    if end is None or end.name != _sibling(op, "yield"):
        return []
    if len(end.operands) != len(results):
        return [
            Diagnostic(
                "STRUCTURE/008",
                f"yields {len(end.operands)} values where '{op.name}' has {len(results)}",
                end.loc,
                {"actual_count": len(end.operands), "expected_count": len(results)},
            )
        ]
    mapping = dict(extra or {})
    mapping.update(zip(results, end.operands, strict=True))
    found = []
    for value, result in zip(end.operands, results, strict=True):
        expected = result.type.substitute(mapping)
        if value.type != expected and ERROR not in (value.type, expected):
            found.append(
                Diagnostic(
                    "TYPE/009",
                    f"yields {value.type} where {expected} is expected",
                    end.loc,
                    {"yield_type": value.type, "expected_type": expected},
                )
            )
    return found


def conditional(op: Any) -> list[Diagnostic] | None:
    """Results need both regions, and both yield them."""
    if op.results and len(op.regions) < 2:
        return [
            Diagnostic(
                "STRUCTURE/013",
                "a conditional with results needs an 'else' region",
                op.loc,
                {"field_a": "else_region", "actual_count": 0, "field_b": "results", "expected_count": len(op.results)},
                hint=f"add '}} else {{' with a '{_sibling(op, 'yield')}'",
            )
        ]
    return [d for region in op.regions for d in yields(op, region, op.results)]


def counted_loop(op: Any) -> list[Diagnostic] | None:
    """Bindings, block arguments, yields and results are one recurring tuple; unroll clauses agree."""
    found = recurring_tuple(op)
    if op.unroll_policy is not None and op.unroll_factor is not None:
        found.append(out_of_contract(op, "unroll", "unroll", "either bare or with a factor"))
    if op.unroll_schedule is not None and op.unroll_policy is None and op.unroll_factor is None:
        found.append(out_of_contract(op, "schedule", op.unroll_schedule, "given together with 'unroll'"))
    return found


def recurring_tuple(op: Any) -> list[Diagnostic]:
    """Initial values, block arguments behind the position, yields and results agree one by one."""
    found: list[Diagnostic] = []
    inits, results = op.iter_args, op.results
    if len(inits) != len(results):
        return [lengths_differ(op, "iter_args", len(inits), "results", len(results))]
    entry = op.body.entry
    edges = dict(zip(results, inits, strict=True))
    for i, (init, result) in enumerate(zip(inits, results, strict=True)):
        expected = result.type.substitute(edges)
        if init.type != expected and ERROR not in (init.type, expected):
            found.append(
                Diagnostic(
                    "TYPE/001",
                    f"initial value {i} has type {init.type}, its result {expected}",
                    op.loc,
                    {"field_a": f"iter_args[{i}]", "type_a": init.type, "field_b": f"results[{i}]", "type_b": expected},
                )
            )
    body = dict(zip(results, entry.args[1:], strict=True))
    for i, (arg, result) in enumerate(zip(entry.args[1:], results, strict=True)):
        expected = result.type.substitute(body)
        if arg.type != expected:
            found.append(
                Diagnostic(
                    "TYPE/001",
                    f"body argument {i} has type {arg.type}, its result {expected}",
                    op.loc,
                    {"field_a": f"body[{i}]", "type_a": arg.type, "field_b": f"results[{i}]", "type_b": expected},
                )
            )
    return found + yields(op, op.body, results)


def condition(op: Any) -> list[Diagnostic] | None:
    """Stands directly in the first region of a while loop."""
    parent = op.parent_op
    loop = _sibling(op, "while")
    if parent is not None and parent.name == loop:
        return None
    actual = parent.name if parent is not None else "module"
    return [
        Diagnostic(
            "STRUCTURE/029",
            f"'{op.name}' stands only in '{loop}'",
            op.loc,
            {"op_name": op.name, "constraint_kind": "parent", "ancestor_name": loop, "actual_ancestor": actual},
        )
    ]


def while_loop(op: Any) -> list[Diagnostic] | None:
    """Two tuples: header (initial values, first region, yield) and forwarded (condition, second region, results)."""
    found: list[Diagnostic] = []
    first, second = op.before.entry, op.after.entry
    end = first.last
    expected_end = _sibling(op, "condition")
    if end is None or end.name != expected_end:
        return [
            Diagnostic(
                "STRUCTURE/018",
                f"the first region of '{op.name}' ends in '{expected_end}'",
                (end or op).loc,
                {
                    "op_name": op.name,
                    "region_index": 0,
                    "expected_terminator": expected_end,
                    "actual_terminator": end.name if end else "nothing",
                },
            )
        ]
    forwarded = end.operands[1:]
    if len(forwarded) != len(second.args):
        found.append(lengths_differ(op, "forwarded", len(forwarded), "after block args", len(second.args)))
    elif len(forwarded) != len(op.results):
        found.append(lengths_differ(op, "forwarded", len(forwarded), "results", len(op.results)))
    else:
        to_second = dict(zip(second.args, forwarded, strict=True))
        to_results = dict(zip(op.results, forwarded, strict=True))
        for i, (value, arg, result) in enumerate(zip(forwarded, second.args, op.results, strict=True)):
            for name, type_ in (
                ("after", arg.type.substitute(to_second)),
                ("results", result.type.substitute(to_results)),
            ):
                if value.type != type_ and ERROR not in (value.type, type_):
                    found.append(
                        Diagnostic(
                            "TYPE/001",
                            f"forwarded value {i} has type {value.type}, {name} has {type_}",
                            end.loc,
                            {
                                "field_a": f"forwarded[{i}]",
                                "type_a": value.type,
                                "field_b": f"{name}[{i}]",
                                "type_b": type_,
                            },
                        )
                    )
    back = second.last
    if back is not None and back.name == _sibling(op, "yield"):
        if len(back.operands) != len(first.args):
            found.append(
                Diagnostic(
                    "STRUCTURE/008",
                    f"yields {len(back.operands)} values where the header has {len(first.args)}",
                    back.loc,
                    {"actual_count": len(back.operands), "expected_count": len(first.args)},
                )
            )
        else:
            header = dict(zip(first.args, back.operands, strict=True))
            for value, arg in zip(back.operands, first.args, strict=True):
                expected = arg.type.substitute(header)
                if value.type != expected and ERROR not in (value.type, expected):
                    found.append(
                        Diagnostic(
                            "TYPE/009",
                            f"yields {value.type} where {expected} is expected",
                            back.loc,
                            {"yield_type": value.type, "expected_type": expected},
                        )
                    )
    return found


def increasing_keys(op: Any) -> list[Diagnostic]:
    """Case keys strictly increase."""
    keys = op.case_keys
    if all(a < b for a, b in pairwise(keys)):
        return []
    return [out_of_contract(op, "case_keys", list(keys), "strictly increasing")]


def switch(op: Any) -> list[Diagnostic] | None:
    """Keys increase; every region yields the results."""
    found = increasing_keys(op)
    names = ["default_region", *(f"case_regions[{i}]" for i in range(len(op.case_keys)))]
    for name, region in zip(names, op.regions, strict=True):
        end = _terminator(region)
        if end is None or end.name != "scf.yield":
            continue
        if len(end.operands) != len(op.results):
            found.append(lengths_differ(op, name, len(end.operands), "results", len(op.results)))
            continue
        mapping = dict(zip(op.results, end.operands, strict=True))
        for j, (value, result) in enumerate(zip(end.operands, op.results, strict=True)):
            expected = result.type.substitute(mapping)
            if value.type != expected and ERROR not in (value.type, expected):
                found.append(
                    Diagnostic(
                        "TYPE/001",
                        f"{name} yields {value.type} where {expected} is expected",
                        end.loc,
                        {
                            "field_a": f"{name}.yield[{j}]",
                            "type_a": value.type,
                            "field_b": f"results[{j}]",
                            "type_b": expected,
                        },
                    )
                )
    return found


def lookup(op: Any) -> list[Diagnostic] | None:
    """Keys increase; the table has one value per row and column, of the column's type."""
    found = increasing_keys(op)
    rows, columns = len(op.case_keys) + 1, len(op.results)
    if columns == 0 or len(op.values) != rows * columns:
        found.append(lengths_differ(op, "table", len(op.values), "results", rows * columns))
        return found
    for i, value in enumerate(op.values):
        result = op.results[i % columns]
        if value.type != result.type and ERROR not in (value.type, result.type):
            found.append(
                Diagnostic(
                    "TYPE/001",
                    f"table entry {i} has type {value.type}, its column {result.type}",
                    op.loc,
                    {
                        "field_a": f"table[{i}]",
                        "type_a": value.type,
                        "field_b": f"results[{i % columns}]",
                        "type_b": result.type,
                    },
                )
            )
    return found
