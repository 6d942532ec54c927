"""Requirement providers and oracles that core registers (language reference, part 3, sections 1.6 and 1.8)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from loom.plugins.records import Oracle, RequirementProvider, RequirementVerdict

if TYPE_CHECKING:
    from loom.ir.types import Type


def _target_facts(wanted: Mapping[str, object], actual: Mapping[str, object]) -> RequirementVerdict:
    for key, value in sorted(wanted.items()):
        name = key.removeprefix("min_")
        have = actual.get(name)
        if name != key:
            held = isinstance(have, int) and isinstance(value, int) and have >= value
        else:
            # A target may offer several rows of one kind, such as matrix shapes.
            held = value in have if isinstance(have, list | tuple | frozenset) else have == value
        if not held:
            offer = f"the target has {have}" if name in actual else "the target does not say"
            return RequirementVerdict(False, "target_fact_mismatch", f"needs {key} = {value}; {offer}")
    return RequirementVerdict(True)


def _descriptor_set(wanted: Mapping[str, object], actual: Mapping[str, object]) -> RequirementVerdict:
    want, have = wanted.get("descriptor_set"), actual.get("contract")
    if have is None:
        message = f"needs the contract {want}; the device runs no target code"
        return RequirementVerdict(False, "hal_driver_mismatch", message, available=False)
    supported = actual.get("contracts", ())
    if want == have or (isinstance(supported, Collection) and want in supported):
        return RequirementVerdict(True)
    return RequirementVerdict(False, "descriptor_set_mismatch", f"needs the contract {want}; the device has {have}")


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
