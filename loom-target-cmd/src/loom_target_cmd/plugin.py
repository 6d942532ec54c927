"""Hooks of this package: the ``cmd.core`` contract and the ``loom-command`` format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loom.plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from loom.ir.core import Module
    from loom.low.descriptors import DescriptorSet
    from loom.plugins.records import EmitRequest, EmitResult, Emitter, LazyDescriptorSet

LOOM_API_VERSION: Final = 1


def _build_set() -> DescriptorSet:
    from loom_target_cmd.descriptors import build_descriptor_set

    return build_descriptor_set()


def _emit(request: EmitRequest) -> EmitResult:
    from loom_target_cmd.emitter import emit

    return emit(request)


def _lower(request: EmitRequest) -> Module:
    from loom_target_cmd.emitter import lower

    return lower(request)


@hookimpl
def loom_register_descriptor_sets() -> list[LazyDescriptorSet]:
    """Offer the contract of command programs."""
    from loom.plugins.records import LazyDescriptorSet

    return [LazyDescriptorSet("cmd.core", _build_set)]


@hookimpl
def loom_register_emitters() -> list[Emitter]:
    """Offer the portable command-program format, which needs no target."""
    from loom.plugins.records import Emitter

    return [
        Emitter(
            format="loom-command",
            families=(),
            emit=_emit,
            lower=_lower,
            needs_target=False,
            root_traits=("command_program",),
            summary="portable command programs (.loomcmd) and their manifest",
        )
    ]
