"""Binding functions to targets (language reference, part 1, section 17; part 3, section 5.3)."""

from __future__ import annotations

from typing import Any, Final

from loom.ir.core import Op
from loom.ir.diagnostics import Related, fail
from loom.plugins.manager import load_plugins
from loom.plugins.records import TargetProfile

# Records that name no architecture.
_NEUTRAL: Final = ("target.generic", "target.decl")


def profile_of_record(record: Any) -> TargetProfile | None:
    """The installed profile that a target record names, or ``None``."""
    for profile in load_plugins().targets.values():
        if profile.record == (record.name, getattr(record, "profile", None)):
            return profile
    return None


def accepts_record(target: TargetProfile | None, record: Any) -> bool | None:
    """Whether code authored for a record may be used on a target; ``None`` when either is not known.

    No target accepts code for an architecture that no installed package knows.
    """
    if target is None or record is None:
        return None
    profile = profile_of_record(record)
    if profile is None:
        return None if record.name in _NEUTRAL else False
    return target.accepts(profile)


def is_foreign(function: Any, symbols: dict[str, Op], target: TargetProfile | None) -> bool:
    """Whether a function is authored for a target that the selected one does not satisfy."""
    name = function.attribute("target") if "target" in function.spec.attribute_index else None
    return isinstance(name, str) and accepts_record(target, symbols.get(name)) is False


def check_authored_target(function: Any, symbols: dict[str, Op], target: TargetProfile) -> None:
    """A function with an authored target must be usable on the selected one."""
    if is_foreign(function, symbols, target):
        name = function.attribute("target")
        record: Any = symbols[name]
        hint = None
        if profile_of_record(record) is None:
            hint = f"no package that compiles for '{record.name}<{record.profile}>' is installed"
        raise fail(
            "TARGET/052",
            f"'@{function.callee}' is authored for '@{name}', which {target.name} does not satisfy",
            function.loc,
            hint=hint,
            related=(Related("the target record", record.loc),),
            emitter="driver",
            function_name=function.callee,
            authored_target_name=name,
            selected_target_name=target.name,
        )
