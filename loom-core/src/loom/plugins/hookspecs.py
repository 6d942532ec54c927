"""Every extension point of Loom, one documented hook each.

A plugin is a module (or object) that an entry point in the group ``loom`` names. It marks its hook functions
with :data:`hookimpl` and must carry ``LOOM_API_VERSION = 1``. Hooks are called once, when plugins load; each
returns objects that core keeps in a registry. Hot code calls those objects, never hooks.

Example, in ``my_target/plugin.py``::

    from loom.plugins.hookspecs import hookimpl

    LOOM_API_VERSION = 1

    @hookimpl
    def loom_register_targets():
        from my_target.target import PROFILE
        return [PROFILE]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import pluggy

if TYPE_CHECKING:
    from loom.low.descriptors import DescriptorSet
    from loom.plugins.records import (
        Device,
        Emitter,
        EncodingFamily,
        LazyDescriptorSet,
        Oracle,
        RequirementProvider,
        Scheduler,
        TargetProfile,
        Validator,
    )

API_VERSION: Final = 1

hookspec = pluggy.HookspecMarker("loom")
hookimpl = pluggy.HookimplMarker("loom")


@hookspec
def loom_register_dialects() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Declare dialects of source ops, such as the target records of an architecture.

    Called once when plugins load. Returns dialect name -> Python module whose import declares the ops; the
    module is imported on the first use of the dialect. Example: ``{"amdgpu": "loom_target_amdgpu.dialect"}``.
    """


@hookspec
def loom_register_targets() -> Iterable[TargetProfile]:  # type: ignore[empty-body]
    """Offer target profiles, the things that ``--target=family:selector`` names.

    Called once when plugins load. Returns records of facts; a profile names its descriptor set and formats by
    key. Two profiles of one name are an error. Example: ``[TargetProfile(family="toy", selector="v1", ...)]``.
    """


@hookspec
def loom_register_descriptor_sets() -> Iterable[LazyDescriptorSet | DescriptorSet]:  # type: ignore[empty-body]
    """Offer instruction descriptor sets, one per representation contract (``amdgpu.rdna3.core``).

    Called once when plugins load. A lazy set names its key and a function that builds it; it is built on the
    first use. Example: ``[LazyDescriptorSet("toy.core", build_toy_set)]``.
    """


@hookspec
def loom_register_schedulers() -> Iterable[Scheduler]:  # type: ignore[empty-body]
    """Offer schedule models (latencies, issue resources, pressure limits) by name.

    Called once when plugins load; a target profile names the scheduler that its emitter uses. Example:
    ``[Scheduler("toy", make_model)]``.
    """


@hookspec
def loom_register_emitters() -> Iterable[Emitter]:  # type: ignore[empty-body]
    """Offer artifact formats, the things that ``--format`` names.

    Called once when plugins load. An emitter turns the linked, specialized module and selected roots into
    artifacts. Example: ``[Emitter(format="toy-text", families=("toy",), emit=emit_text)]``.
    """


@hookspec
def loom_register_devices() -> Iterable[Device]:  # type: ignore[empty-body]
    """Offer devices, the things that ``--device`` names.

    Called once when plugins load. A device compiles and runs kernels and functions of check cases. It is opened
    only when selected. Example: ``[Device("toy", open_toy, default_target="toy:v1")]``.
    """


@hookspec
def loom_register_requirement_providers() -> Iterable[RequirementProvider]:  # type: ignore[empty-body]
    """Offer providers of ``check.requires<key>`` and ``check.skip_if<key>``.

    Called once when plugins load. Example: ``[RequirementProvider("toy.mode", check_mode)]``.
    """


@hookspec
def loom_register_oracles() -> Iterable[Oracle]:  # type: ignore[empty-body]
    """Offer oracles of ``check.oracle.call<key>``.

    Called once when plugins load. Example: ``[Oracle("toy.sum", reference_sum)]``.
    """


@hookspec
def loom_register_validators() -> Iterable[Validator]:  # type: ignore[empty-body]
    """Offer custom comparisons of ``check.expect<key>``.

    Called once when plugins load. Example: ``[Validator("toy.sorted", compare_sorted)]``.
    """


@hookspec
def loom_register_encodings() -> Iterable[EncodingFamily]:  # type: ignore[empty-body]
    """Offer families of static encodings (``#toy.block``).

    Called once when plugins load. Example: ``[EncodingFamily("toy.block", role="schema")]``.
    """
