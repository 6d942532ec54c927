"""The ``amdgpu`` dialect of source: target records (language reference, part 3, section 5.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loom.dialects.target.ops import RECORD_FORMAT, RECORD_TRAITS, TargetRecord
from loom.dialects.target.verify import check_overrides
from loom.ir.diagnostics import Diagnostic, did_you_mean
from loom.spec import kinds as k
from loom.spec import model as s

if TYPE_CHECKING:
    from loom_target_amdgpu.profiles import Processor

_REVISIONS: Final = ("a0", "b0")


def _record(op: Target) -> list[Diagnostic]:
    from loom_target_amdgpu.profiles import processors

    known = processors()
    found = known.get(op.profile)
    if found is None:
        hint = did_you_mean(op.profile, known)
        return [
            Diagnostic("AMDGPU/003", f"unknown processor '{op.profile}'", op.loc, {"processor": op.profile}, hint=hint)
        ]
    if not found.contract:
        message = f"the processor '{op.profile}' has no instruction set to compile for"
        return [Diagnostic("AMDGPU/004", message, op.loc, {"processor": op.profile})]
    return check_overrides(op, own=("processor", "gfx1250_revision")) + _processor(op, found)


def _processor(op: Target, found: Processor) -> list[Diagnostic]:
    """Another processor of the same contract, or a revision of one."""
    from loom_target_amdgpu.profiles import processors

    overrides = op.overrides or {}
    revision = overrides.get("gfx1250_revision")
    if revision is not None and str(revision) not in _REVISIONS:
        expected = " or ".join(_REVISIONS)
        return [
            Diagnostic(
                "STRUCTURE/014",
                f"'gfx1250_revision' is {revision}, but must be {expected}",
                op.loc,
                {"attr_name": "gfx1250_revision", "actual_value": revision, "expected_constraint": expected},
            )
        ]
    known = processors()
    override = overrides.get("processor")
    if override is None:
        return []
    other = known.get(str(override))
    if other is None:
        return [
            Diagnostic(
                "AMDGPU/003",
                f"unknown processor '{override}'",
                op.loc,
                {"processor": str(override)},
                hint=did_you_mean(str(override), known),
            )
        ]
    if other.contract != found.contract:
        message = f"the processor override '{override}' changes the contract from {found.contract} to {other.contract}"
        return [
            Diagnostic(
                "AMDGPU/005",
                message,
                op.loc,
                {
                    "processor": str(override),
                    "target_descriptor_set": other.contract,
                    "target_name": op.symbol,
                    "record_descriptor_set": found.contract,
                },
            )
        ]
    return []


@s.op("amdgpu.target", RECORD_FORMAT, traits=RECORD_TRAITS, symbol="symbol", verify=_record)
class Target(TargetRecord):
    """A record of an AMD GPU processor."""

    profile: str = s.attribute(k.KEY)
    symbol: str = s.attribute(k.SYMBOL_NAME)
    overrides: dict[str, object] | None = s.optional_attribute(k.DICT)
