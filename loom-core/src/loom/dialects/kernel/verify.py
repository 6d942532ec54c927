"""Rules of the ``kernel`` dialect (language reference, part 2, section 12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loom.dialects.scf.verify import out_of_contract
from loom.ir.core import Op, Value
from loom.ir.diagnostics import Diagnostic, Related
from loom.ir.types import ALL_SCALARS, BUFFER, ERROR, I32, INDEX, Type, is_tensor, is_vector, is_view

# Space -> (legal scopes, legal orderings).
BARRIERS = {
    "workgroup": (("subgroup", "workgroup"), ("acq_rel",)),
    "global": (("workgroup",), ("acquire", "release", "acq_rel")),
}


def device_arguments(op: Any) -> list[Diagnostic]:
    """Device arguments have an ABI."""
    found = []
    for arg in op.body.entry.args:
        if (
            arg.type not in ALL_SCALARS
            and arg.type is not BUFFER
            and not is_view(arg.type)
            and not is_vector(arg.type)
            and arg.type is not ERROR
        ):
            found.append(
                Diagnostic(
                    "TYPE/014",
                    f"device argument %{arg.name} cannot be {arg.type}",
                    op.loc,
                    {
                        "argument_name": arg.name,
                        "actual_type": arg.type,
                        "expected_constraint": "buffer, scalar, view or vector",
                    },
                )
            )
    return found


def kernel(op: Any) -> list[Diagnostic] | None:
    """Device arguments have an ABI; the configuration region is pure."""
    found = device_arguments(op)
    if op.linkage is not None and op.export_symbol is None:
        found.append(out_of_contract(op, "export", "absent", "given together with 'linkage'"))
    for inner in op.config.ops():
        if not inner.spec.traits & {"pure", "terminator", "region_effects"} and "call" not in inner.spec.traits:
            found.append(
                Diagnostic(
                    "STRUCTURE/017",
                    f"'{inner.name}' in the launch configuration, which must be pure",
                    inner.loc,
                    {"op_name": inner.name, "read_count": 0, "write_count": 1, "convergent_count": 0},
                )
            )
    return found


def device_only(op: Op) -> list[Diagnostic] | None:
    """Stands in a kernel, or in a function or template that is not host-only."""
    for ancestor in op.ancestors():
        if ancestor.name == "kernel.def":
            region = op.parent
            while region is not None and region.parent is not None and region.parent.parent is not ancestor:
                outer = region.parent.parent
                region = outer.parent if outer is not None else None
            if region is not None and region.parent is ancestor.regions[0]:
                break
            return None
        if ancestor.name in ("func.def", "template.def") and ancestor.attribute("cc") != "host":
            return None
    return [
        Diagnostic(
            "STRUCTURE/029",
            f"'{op.name}' needs a kernel body or a device function around it",
            op.loc,
            {
                "op_name": op.name,
                "constraint_kind": "ancestor",
                "ancestor_name": "kernel.def",
                "actual_ancestor": op.parent_op.name if op.parent_op else "module",
            },
        )
    ]


def launch_config(op: Any) -> list[Diagnostic] | None:
    """A cluster has three extents or none."""
    if len(op.cluster) in (0, 3):
        return None
    return [_count(op, "cluster extents", len(op.cluster), 3)]


def exit_(op: Op) -> list[Diagnostic] | None:
    """Stands directly in a kernel body."""
    parent = op.parent_op
    if parent is not None and parent.name == "kernel.def" and op.parent.parent is parent.regions[1]:  # type: ignore[union-attr]
        return None
    return [
        Diagnostic(
            "STRUCTURE/029",
            "'kernel.exit' must stand directly in a kernel body",
            op.loc,
            {
                "op_name": op.name,
                "constraint_kind": "parent",
                "ancestor_name": "kernel.def",
                "actual_ancestor": parent.name if parent else "module",
            },
        )
    ]


def workgroup_storage(op: Any) -> list[Diagnostic]:
    """Stands in device code; the alignment is a power of two."""
    found = device_only(op) or []
    if op.alignment < 1 or op.alignment & (op.alignment - 1):
        found.append(out_of_contract(op, "alignment", op.alignment, "a positive power of two"))
    return found


def barrier(op: Any) -> list[Diagnostic] | None:
    """Legal combinations of space, scope and ordering."""
    if op.space not in BARRIERS:
        return [out_of_contract(op, "memory_space", op.space, " or ".join(BARRIERS))]
    scopes, orderings = BARRIERS[op.space]
    if op.scope not in scopes:
        return [out_of_contract(op, "scope", op.scope, " or ".join(scopes))]
    if op.ordering not in orderings:
        return [out_of_contract(op, "ordering", op.ordering, " or ".join(orderings))]
    return None


def launch(op: Any) -> list[Diagnostic] | None:
    """Launching happens outside kernels."""
    for ancestor in op.ancestors():
        if ancestor.name == "kernel.def":
            return [
                Diagnostic(
                    "STRUCTURE/029",
                    "a kernel cannot launch a kernel",
                    op.loc,
                    {
                        "op_name": op.name,
                        "constraint_kind": "no_ancestor",
                        "ancestor_name": "kernel.def",
                        "actual_ancestor": "kernel.def",
                    },
                )
            ]
    return None


def dispatch(op: Any) -> list[Diagnostic] | None:
    """Outside kernels; one to three index counts or one ``view<3xi32>``; no or three workgroup extents."""
    found = launch(op) or []
    types = [v.type for v in op.counts]
    indirect = len(types) == 1 and is_view(types[0])
    for type_ in types:
        if type_ is ERROR or type_ is INDEX or (indirect and type_.dims == (3,) and type_.element is I32):
            continue
        found.append(
            Diagnostic(
                "TYPE/003",
                f"a workgroup count is an index, or all three are one view<3xi32>; {type_} is neither",
                op.loc,
                {"operand_name": "counts", "actual_type": type_, "expected_constraint": "index or view<3xi32>"},
            )
        )
    if not 1 <= len(types) <= 3:
        found.append(_count(op, "workgroup counts", len(types), 3))
    if len(op.sizes) not in (0, 3):
        found.append(_count(op, "workgroup extents", len(op.sizes), 3))
    return found


def _count(op: Op, what: str, actual: int, expected: int) -> Diagnostic:
    return Diagnostic(
        "STRUCTURE/001",
        f"{actual} {what}, not {expected}",
        op.loc,
        {"op_name": op.name, "actual_count": actual, "expected_count": expected},
    )


def argument_matches(actual: Type, declared: Type) -> bool:
    """Whether a launch operand suits a device argument: a tensor's storage serves as a buffer or dense view."""
    if actual == declared or actual is ERROR:
        return True
    return is_tensor(actual) and (declared is BUFFER or is_view(declared))


def check_launch(op: Any, target: Any) -> list[Diagnostic]:
    """Operands match the kernel's two signatures, or those of a pipeline that is one executable."""
    if target.name == "pipeline.def":
        return check_pipeline_launch(op, target)
    return [
        *check_arguments(op, target, "workload", op.workload, target.config.entry.args),
        *check_arguments(op, target, "args", op.args, target.body.entry.args),
    ]


def check_pipeline_launch(op: Any, target: Any) -> list[Diagnostic]:
    """The pipeline is one executable; the workload are its specializations."""
    if target.unit != "kernel":
        return [
            Diagnostic(
                "SYMBOL/003",
                f"'@{target.callee}' is a pipeline without the unit 'kernel', which is no executable",
                op.loc,
                {
                    "symbol_name": target.callee,
                    "actual_kind": target.name,
                    "expected_kind": "a kernel or 'pipeline.def<kernel>'",
                },
                related=(Related(f"'@{target.callee}' is defined here", target.loc),),
            )
        ]
    return check_pipeline_arguments(op, target, op.workload)


def check_pipeline_arguments(op: Any, target: Any, specializations: Sequence[Value]) -> list[Diagnostic]:
    """Operands match the specializations and the run arguments of a pipeline."""
    args, count = target.body.entry.args, target.specialization_count
    known = dict(zip(args[:count], specializations, strict=False))
    return [
        *check_arguments(op, target, "specialization", specializations, args[:count]),
        *check_arguments(op, target, "run", op.args, args[count:], known),
    ]


def check_dispatch(op: Any, target: Any) -> list[Diagnostic]:
    """Operands match the entry's device signature."""
    return check_arguments(op, target, "args", op.args, target.body.entry.args)


def check_arguments(
    op: Op,
    target: Any,
    field: str,
    actual: Sequence[Value],
    declared: Sequence[Value],
    known: Mapping[Value, Value] | None = None,
) -> list[Diagnostic]:
    """The operands of one group suit the parameters of a signature, which may name each other in types.

    ``known`` are parameters of other groups that types may name too, with their operands.
    """
    where = (Related(f"'@{target.callee}' is declared here", target.loc),)
    if len(actual) != len(declared):
        return [
            Diagnostic(
                "STRUCTURE/001",
                f"'@{target.callee}' takes {len(declared)} {field} values, not {len(actual)}",
                op.loc,
                {"op_name": op.name, "actual_count": len(actual), "expected_count": len(declared)},
                related=where,
            )
        ]
    found = []
    mapping: dict[Value, Value] = {**(known or {}), **dict(zip(declared, actual, strict=True))}
    for i, (value, parameter) in enumerate(zip(actual, declared, strict=True)):
        expected = parameter.type.substitute(mapping)
        if not argument_matches(value.type, expected):
            found.append(
                Diagnostic(
                    "TYPE/001",
                    f"{field}[{i}] has type {value.type}, but '@{target.callee}' declares {expected}",
                    op.loc,
                    {
                        "field_a": f"{field}[{i}]",
                        "type_a": value.type,
                        "field_b": target.callee,
                        "type_b": expected,
                    },
                    related=where,
                )
            )
    return found
