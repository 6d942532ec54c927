"""Per-op checks generated from declarations: operand and result classes, equal types, required parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loom.ir.core import Op, Value
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import ERROR, Type
from loom.spec.constraints import Constraint
from loom.spec.model import OpSpec
from loom.verify.attributes import attribute_findings, count_finding, test_of

Check = Callable[[Op], list[Diagnostic] | None]

_CHECKS: Final[dict[str, Check]] = {}


def check_of(cls: type[Op]) -> Check:
    """The check of an op: ``None`` or a list of findings."""
    found = _CHECKS.get(cls.name)
    if found is None:
        found = _CHECKS[cls.name] = _generate(cls.spec)
    return found


# Trait -> traits that contradict it (language reference, part 1, section 5.2).
CONFLICTS: Final[dict[str, frozenset[str]]] = {
    "hint": frozenset({"pure", "unknown_effects", "nondeterministic", "reads", "writes", "convergent", "speculatable"}),
    "pure": frozenset({"nondeterministic", "unknown_effects", "unique_identity", "reads", "writes"}),
    "unknown_effects": frozenset({"reads", "writes"}),
    "speculatable": frozenset(
        {"unknown_effects", "nondeterministic", "unique_identity", "reads", "writes", "convergent"}
    ),
}


def trait_conflict(spec: OpSpec) -> tuple[str, str] | None:
    """Two traits of a declaration that contradict each other."""
    for trait, others in CONFLICTS.items():
        if trait in spec.traits and spec.traits & others:
            return trait, min(spec.traits & others)
    return None


def _conflict(op: Op, a: str, b: str) -> Diagnostic:
    return Diagnostic(
        "STRUCTURE/016",
        f"'{op.name}' is declared both {a} and {b}",
        op.loc,
        {"op_name": op.name, "trait_a": a, "trait_b": b},
    )


def _generate(spec: OpSpec) -> Check:
    """Straight-line tests that fall through to :func:`_explain` only when something is wrong.

    A scalar op costs a handful of set lookups; messages are built off the fast path.
    """
    constants: dict[str, Any] = {"explain": lambda op: _explain(spec, op), "custom": spec.verify}
    tests: list[str] = [f"len(a) != {len(spec.attributes)}"]
    lines: list[str] = []
    conflict = trait_conflict(spec)
    if conflict is not None:
        return lambda op: [_conflict(op, *conflict)]
    if not spec.segmented:
        tests.append(f"len(o) != {len(spec.operands)}")
    if not any(r.variadic for r in spec.results):
        tests.append(f"len(r) != {len(spec.results)}")
    if not spec.segmented:
        for i, operand in enumerate(spec.operands):
            _member_test(tests, constants, f"o[{i}].type", operand.constraint)
    elif spec.operands:
        tests.append("bad_groups(op)")
        constants["bad_groups"] = _groups_test(spec)
    for i, result in enumerate(spec.results):
        if not result.variadic:
            _member_test(tests, constants, f"r[{i}].type", result.constraint)
        elif result.constraint.members is not None or result.constraint.test is not None:
            constants[f"c{i}"] = result.constraint
            tests.append(f"not all(c{i}.accepts(v.type) for v in r[{i}:])")
    for group in spec.same_type:
        _same_test(spec, tests, group)
    for i, attribute in enumerate(spec.attributes):
        test = test_of(attribute.kind)
        if test is not None:
            constants[f"k{i}"] = test
            present = f"a[{i}] is None or not " if attribute.required else f"a[{i}] is not None and not "
            tests.append(f"({present}k{i}(a[{i}]))")
        elif attribute.required:
            tests.append(f"a[{i}] is None")
    if spec.successors:
        tests.append(f"len(op.successors) != {len(spec.successors)}")
    if spec.regions:
        tests.append("bad_regions(op)")
        constants["bad_regions"] = lambda op: bool(_region_findings(spec, op))
    lines.append("o = op.operands; r = op.results; a = op.attributes")
    if tests:
        # The length tests come first: the others index the lists.
        lines.append(f"if {' or '.join(tests)}:")
        lines.append("    return explain(op)")
    lines.append("return custom(op)" if spec.verify is not None else "return None")
    source = "def made(op):\n" + "\n".join("    " + line for line in lines) + "\n"
    scope: dict[str, Any] = constants
    exec(compile(source, f"<check of {spec.name}>", "exec"), scope)
    return scope["made"]  # type: ignore[no-any-return]


def _member_test(tests: list[str], constants: dict[str, Any], code: str, constraint: Constraint) -> None:
    if constraint.members is not None:
        name = f"m{len(constants)}"
        constants[name] = constraint.members
        tests.append(f"{code} not in {name}")
    elif constraint.test is not None:
        name = f"m{len(constants)}"
        constants[name] = constraint.test
        tests.append(f"not {name}({code})")


def _same_test(spec: OpSpec, tests: list[str], group: tuple[str, ...]) -> None:
    codes = [_single(spec, name) for name in group]
    first = codes[0]
    for code in codes[1:]:
        tests.append(f"({first} is not {code} and {first} != {code})")


def _single(spec: OpSpec, name: str) -> str:
    if name in spec.operand_index:
        index = spec.operand_index[name]
        assert all(o.arity == "one" for o in spec.operands[: index + 1]), "only leading single operands can be compared"
        return f"o[{index}].type"
    return f"r[{spec.result_index[name]}].type"


def _groups_test(spec: OpSpec) -> Callable[[Op], bool]:
    """Whether operands in groups are too few, too many, or of the wrong types."""
    # Per group the least and the greatest number of operands, and whether a type is one of theirs.
    groups = [
        (
            int(operand.arity == "one"),
            1 << 62 if operand.arity == "variadic" else 1,
            operand.constraint.members.__contains__
            if operand.constraint.members is not None
            else operand.constraint.test,
        )
        for operand in spec.operands
    ]

    def is_bad(op: Op) -> bool:
        segments, operands = op.segments, op.operands
        if segments is None or len(segments) != len(groups) or sum(segments) != len(operands):
            return True
        at = 0
        for (least, most, accepts), count in zip(groups, segments, strict=True):
            if not least <= count <= most:
                return True
            if accepts is not None:
                for value in operands[at : at + count]:
                    if not accepts(value.type):
                        return True
            at += count
        return False

    return is_bad


def _explain(spec: OpSpec, op: Op) -> list[Diagnostic]:
    """Build the findings of an op that failed its fast tests."""
    if len(op.attributes) != len(spec.attributes):
        return [count_finding(spec, op)]
    found: list[Diagnostic] = []
    loc = op.loc
    expected = len(spec.operands)
    if (not spec.segmented and len(op.operands) != expected) or (
        spec.segmented and (op.segments is None or sum(op.segments) != len(op.operands))
    ):
        return [
            Diagnostic(
                "STRUCTURE/001",
                f"'{op.name}' has {len(op.operands)} operands, not {expected}",
                loc,
                {"op_name": op.name, "actual_count": len(op.operands), "expected_count": expected},
            )
        ]
    if not any(r.variadic for r in spec.results) and len(op.results) != len(spec.results):
        return [
            Diagnostic(
                "STRUCTURE/002",
                f"'{op.name}' has {len(op.results)} results, not {len(spec.results)}",
                loc,
                {"op_name": op.name, "actual_count": len(op.results), "expected_count": len(spec.results)},
            )
        ]
    shared = {name for group in spec.same_type for name in group}
    for i, operand in enumerate(spec.operands):
        values = op.group(i)
        if found and operand.name in shared:
            # Fields of one type fail together; one finding is enough.
            continue
        if (operand.arity == "one" and len(values) != 1) or (operand.arity == "optional" and len(values) > 1):
            found.append(
                Diagnostic(
                    "STRUCTURE/001",
                    f"'{op.name}' has {len(values)} operands in '{operand.name}'",
                    loc,
                    {"op_name": op.name, "actual_count": len(values), "expected_count": 1},
                )
            )
        for k, value in enumerate(values):
            if not operand.constraint.accepts(value.type):
                name = operand.name if operand.arity == "one" else f"{operand.name}[{k}]"
                found.append(
                    Diagnostic(
                        "TYPE/003",
                        f"operand '{name}' of '{op.name}' is {value.type}, but must be {operand.constraint.name}",
                        loc,
                        {
                            "operand_name": name,
                            "actual_type": value.type,
                            "expected_constraint": operand.constraint.name,
                        },
                    )
                )
    for i, result in enumerate(spec.results):
        if found and result.name in shared:
            continue
        for value in op.results[i:] if result.variadic else op.results[i : i + 1]:
            if not result.constraint.accepts(value.type):
                found.append(
                    Diagnostic(
                        "TYPE/004",
                        f"result '{result.name}' of '{op.name}' is {value.type}, but must be {result.constraint.name}",
                        loc,
                        {
                            "result_name": result.name,
                            "actual_type": value.type,
                            "expected_constraint": result.constraint.name,
                        },
                    )
                )
    if not found:
        for group in spec.same_type:
            found += _same_type_findings(spec, op, group)
    found += attribute_findings(spec, op)
    if len(op.successors) != len(spec.successors):
        found.append(
            Diagnostic(
                "STRUCTURE/023",
                f"'{op.name}' has {len(op.successors)} successors, not {len(spec.successors)}",
                loc,
                {"op_name": op.name, "successor_index": min(len(op.successors), len(spec.successors))},
            )
        )
    found += _region_findings(spec, op)
    if not found and spec.verify is not None:
        found = spec.verify(op) or []
    return found


def _field(spec: OpSpec, op: Op, name: str) -> Value:
    if name in spec.operand_index:
        return op.group(spec.operand_index[name])[0]
    return op.results[spec.result_index[name]]


def _same_type_findings(spec: OpSpec, op: Op, group: tuple[str, ...]) -> list[Diagnostic]:
    # An operand that differs from the rest is the one to name: compare each with the result (or the last field).
    reference: Type = _field(spec, op, group[-1]).type
    for name in group[:-1]:
        type_ = _field(spec, op, name).type
        if type_ != reference and ERROR not in (type_, reference):
            return [
                Diagnostic(
                    "TYPE/001",
                    f"'{name}' of '{op.name}' has type {type_}, but '{group[-1]}' has {reference}",
                    op.loc,
                    {"field_a": name, "type_a": type_, "field_b": group[-1], "type_b": reference},
                )
            ]
    return []


def _region_findings(spec: OpSpec, op: Op) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    least = sum(1 for r in spec.regions if not r.optional and not r.variadic)
    if len(op.regions) < least:
        return [
            Diagnostic(
                "STRUCTURE/004",
                f"'{op.name}' has {len(op.regions)} regions, not {least}",
                op.loc,
                {"op_name": op.name, "actual_count": len(op.regions), "expected_count": least},
            )
        ]
    for i, region in enumerate(op.regions):
        declared = spec.regions[min(i, len(spec.regions) - 1)]
        if declared.terminator is None:
            continue
        if declared.single_block and len(region.blocks) != 1:
            found.append(
                Diagnostic(
                    "STRUCTURE/006",
                    f"region {i} of '{op.name}' has {len(region.blocks)} blocks, not one",
                    op.loc,
                    {"op_name": op.name, "region_index": i, "block_count": len(region.blocks)},
                )
            )
            continue
        for block in region.blocks:
            found += _terminator_findings(op, i, block.first, block.last, declared.terminator, declared.others)
    return found


def _terminator_findings(
    op: Op, index: int, first: Op | None, last: Op | None, expected: str, others: tuple[str, ...]
) -> list[Diagnostic]:
    if last is None or "terminator" not in last.spec.traits:
        return [
            Diagnostic(
                "STRUCTURE/005",
                f"a block in region {index} of '{op.name}' lacks a terminator such as '{expected}'",
                (last or op).loc,
                {"op_name": op.name, "region_index": index},
                hint=f"end the block with '{expected}'",
            )
        ]
    if last.name != expected and last.name not in others and "branch" not in last.spec.traits:
        return [
            Diagnostic(
                "STRUCTURE/018",
                f"region {index} of '{op.name}' ends in '{last.name}', not '{expected}'",
                last.loc,
                {
                    "op_name": op.name,
                    "region_index": index,
                    "expected_terminator": expected,
                    "actual_terminator": last.name,
                },
            )
        ]
    inner = first
    while inner is not None and inner is not last:
        if "terminator" in inner.spec.traits:
            assert inner.next is not None
            return [
                Diagnostic(
                    "STRUCTURE/012",
                    f"'{inner.next.name}' follows the terminator '{inner.name}'",
                    inner.next.loc,
                    {"op_name": inner.next.name},
                )
            ]
        inner = inner.next
    return []
