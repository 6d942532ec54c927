"""The passes that ``loom-opt`` runs by name (language reference, part 3, section 11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from loom.ir.core import Module, Op
    from loom.plugins.records import TargetProfile

# Rows of the pass report about single decisions.
Details = list[dict[str, object]]

FUNCTIONS: Final = ("func.def", "kernel.def", "template.def")


@attrs.frozen
class Context:
    """What a pass may know besides the module: the target, if there is one."""

    target: TargetProfile | None = None

    @property
    def facts(self) -> Mapping[str, object]:
        return self.target.facts if self.target is not None else {}


@attrs.frozen
class PassInfo:
    """A pass: its key, what it runs on, and what it does to a module.

    A ``function`` pass runs on one function with a body at a time, a ``module`` pass on the whole module. Passes
    that need exact values leave templates alone (``templates`` is false): only their instantiations have them.
    """

    key: str
    kind: str
    description: str
    run: Callable[[Any, Module, Context], Details | None]
    templates: bool = True


def _canonicalize(function: Op, module: Module, context: Context) -> None:
    from loom.transforms.canonicalize import canonicalize

    canonicalize(function, module.symbols(), context.facts)


def _cse(function: Op, module: Module, context: Context) -> None:
    from loom.transforms.cse import eliminate_common

    eliminate_common(function)


def _dce(function: Op, module: Module, context: Context) -> None:
    from loom.transforms.dce import eliminate_dead_ops

    eliminate_dead_ops(function, module.symbols())


def _pipeline(function: Op, module: Module, context: Context) -> Details:
    from loom.transforms.loops import pipeline_loops

    return [d.row() for d in pipeline_loops(function, context.facts, module.symbols())]


def _unroll(function: Op, module: Module, context: Context) -> Details:
    from loom.transforms.loops import unroll_loops

    return [d.row() for d in unroll_loops(function, context.facts)]


def _strip_hints(function: Op, module: Module, context: Context) -> None:
    for op in list(function.walk()):
        if "hint" in op.spec.traits:
            op.erase()


def _inline(module: Module, _: Module, context: Context) -> None:
    from loom.transforms.inline import inline_calls

    symbols = module.symbols()
    for op in module.body:
        if op.name in FUNCTIONS:
            inline_calls(op, symbols)


def _symbol_dce(module: Module, _: Module, context: Context) -> None:
    from loom.transforms.dce import eliminate_dead_symbols, is_root

    roots = [op for op in module.body if is_root(op) or "check" in op.spec.traits]
    eliminate_dead_symbols(module, roots, keep_providers=True)


def _specialize(module: Module, _: Module, context: Context) -> Details:
    from loom.specialize.pipeline import specialize

    result = specialize(module, context.target)
    for op in list(module.body):
        op.erase()
    for op in list(result.module.body):
        op.detach()
        module.body.append(op)
    return [d.row() for d in result.loops]


PASSES: Final[Mapping[str, PassInfo]] = {
    info.key: info
    for info in (
        PassInfo(
            "canonicalize", "function", "fold, decide control flow, merge and drop to a fixed point", _canonicalize
        ),
        PassInfo("cse", "function", "merge equal pure operations", _cse),
        PassInfo("dce", "function", "drop unused operations without effects", _dce),
        PassInfo("inline-callables", "module", "inline calls as their policies say", _inline),
        PassInfo("pipeline-scf-for", "function", "rebuild the loops that ask for read-ahead", _pipeline, False),
        PassInfo("specialize", "module", "bind, inline, fold and carry out loop policies for a target", _specialize),
        PassInfo("strip-hints", "function", "drop source fences and prefetches", _strip_hints),
        PassInfo("symbol-dce", "module", "drop symbols that nothing reaches", _symbol_dce),
        PassInfo("unroll-scf-for", "function", "unroll the loops that ask for it", _unroll, False),
    )
}
# Named pipelines: the passes that stand for them.
PIPELINES: Final[Mapping[str, Sequence[str]]] = {"default": ("specialize",)}


def targets_of(info: PassInfo, module: Module) -> list[Any]:
    """What a pass runs on: the module, or its functions with bodies."""
    if info.kind == "module":
        return [module]
    return [op for op in module.body if op.name in FUNCTIONS and (info.templates or op.name != "template.def")]
