"""Rules of template providers (language reference, part 1, sections 9.2 and 17)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from loom.dialects.encoding.families import CONDITION_FAMILIES
from loom.dialects.func.verify import function
from loom.ir.core import Op
from loom.ir.diagnostics import Diagnostic, Related

# Overrides of a target record that belong to the final product, not to one of its parts.
EXECUTION_CHOICES: Final = (
    "subgroup_size",
    "max_workgroup_size_x",
    "max_workgroup_size_y",
    "max_workgroup_size_z",
    "max_flat_workgroup_size",
)
LARGEST_SUBGROUP: Final = (1 << 32) - 1


def family(op: Any) -> list[Diagnostic]:
    """Requirements are target conditions with a value they can have."""
    found = function(op) or []
    for requirement in op.requires or ():
        if requirement.family not in CONDITION_FAMILIES:
            problem = "is no target condition"
        elif not _is_size(requirement):
            problem = f"needs one number from 1 to {LARGEST_SUBGROUP}"
        else:
            continue
        params = {"symbol_name": op.callee, "requirement": str(requirement)}
        found.append(Diagnostic("TARGET/068", f"the requirement '{requirement}' {problem}", op.loc, params))
    return found


def _is_size(requirement: Any) -> bool:
    if len(requirement.primary) != 1 or requirement.params:
        return False
    size = requirement.primary[0]
    return isinstance(size, int) and not isinstance(size, bool) and 1 <= size <= LARGEST_SUBGROUP


def check_execution_choices(op: Any, symbols: Mapping[str, Op]) -> list[Diagnostic]:
    """The target record that a provider names leaves execution choices to the product."""
    record: Any = symbols.get(op.target) if op.target is not None else None
    if record is None or "overrides" not in record.spec.attribute_index:
        return []
    return [
        Diagnostic(
            "TARGET/067",
            f"'@{op.target}' sets '{field}', which a provider's target may not",
            op.loc,
            {"symbol_name": op.target, "field_name": field},
            related=(Related(f"'@{op.target}' is defined here", record.loc),),
        )
        for field in EXECUTION_CHOICES
        if field in (record.overrides or {})
    ]
