"""Requirement providers and oracles that core registers (language reference, part 3, sections 1.6 and 1.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from loom.plugins.records import Oracle, RequirementProvider, Verdict

if TYPE_CHECKING:
    from loom.ir.types import Type


def _target_facts(wanted: Mapping[str, object], actual: Mapping[str, object]) -> Verdict:
    for key, value in sorted(wanted.items()):
        if key.startswith("min_"):
            name = key.removeprefix("min_")
            have = actual.get(name)
            held = isinstance(have, int) and isinstance(value, int) and have >= value
        else:
            name = key
            have = actual.get(name)
            # A target may offer several rows of one kind, such as matrix shapes.
            held = value in have if isinstance(have, list | tuple | frozenset) else have == value
        if not held:
            return Verdict(False, "target_fact_mismatch", f"needs {key} = {value}, the target has {name} = {have}")
    return Verdict(True)


def _descriptor_set(wanted: Mapping[str, object], actual: Mapping[str, object]) -> Verdict:
    have = actual.get("contract")
    supported = actual.get("contracts", (have,))
    want = wanted.get("descriptor_set")
    if want == have or (isinstance(supported, Sequence) and want in supported):
        return Verdict(True)
    return Verdict(False, "descriptor_set_mismatch", f"needs the contract {want}, the device has {have}")


BUILTIN_PROVIDERS: Final = (
    RequirementProvider("loom.target", _target_facts),
    RequirementProvider("hal.amdgpu.descriptor_set", _descriptor_set),
)


def _matmul(attributes: Mapping[str, object], inputs: Sequence[Any], types: Sequence[Type]) -> list[Any]:
    from loom.check.oracles import reference_matmul

    return [reference_matmul(attributes, inputs, types)]


def _tiled_matmul(attributes: Mapping[str, object], inputs: Sequence[Any], types: Sequence[Type]) -> list[Any]:
    from loom.check.oracles import reference_tiled_matmul

    return [reference_tiled_matmul(attributes, inputs, types)]


BUILTIN_ORACLES: Final = (Oracle("reference.matmul", _matmul), Oracle("reference.tiled_matmul", _tiled_matmul))
