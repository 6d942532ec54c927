"""The passes that core has, by key (language reference, part 3, section 11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from loom.passes.legalizing import LEGALIZING
from loom.passes.model import FUNCTIONS, Context, Option, Options, Outcome, PassInfo

if TYPE_CHECKING:
    from loom.ir.core import Module, Op


def _counted(counter: str, count: int) -> Outcome:
    """The outcome of a pass that changed something as often as it counts."""
    return Outcome((), {counter: count}, changed=count > 0)


def _canonicalize(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.canonicalize import MAX_ROUNDS, canonicalize

    rounds = options.get("max-iterations", MAX_ROUNDS)
    changed = canonicalize(function, module.symbols(), max_rounds=rounds, version=context.version(function))
    return Outcome(changed=changed)


def _cse(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.cse import eliminate_common

    return Outcome(changed=eliminate_common(function))


def _dce(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.dce import eliminate_dead_ops

    return Outcome(changed=eliminate_dead_ops(function, module.symbols()))


def _pipeline(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.loops import pipeline_loops

    details = pipeline_loops(function, context.facts, module.symbols(), version=context.version(function))
    loops = [d for d in details if d.category == "scf-pipeline"]
    pipelined = sum(d.fields["outcome"] == "pipelined" for d in loops)
    return Outcome(details, {"loops-pipelined": pipelined, "policies-cleared": len(loops)}, changed=bool(loops))


def _unroll(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.loops import unroll_loops

    details = unroll_loops(function, context.facts, version=context.version(function))
    unrolled = sum(d.fields["outcome"] == "unrolled" for d in details)
    return Outcome(details, {"loops-unrolled": unrolled}, changed=bool(details))


def _decompose_banks(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.banks import decompose_banks

    details = decompose_banks(function, context.facts, version=context.version(function))
    decomposed = sum(d.fields["outcome"] == "decomposed" for d in details)
    return Outcome(details, {"banks-decomposed": decomposed}, changed=decomposed > 0)


def _strip_hints(function: Op, module: Module, context: Context, options: Options) -> None:
    for op in list(function.walk()):
        if "hint" in op.spec.traits:
            op.erase()


def _inline(module: Module, _: Module, context: Context, options: Options) -> None:
    from loom.transforms.inline import inline_calls

    symbols = module.symbols()
    for op in module.body:
        if op.name in FUNCTIONS:
            inline_calls(op, symbols, kinds=("func.call", "template.call"))


def _select_templates(module: Module, _: Module, context: Context, options: Options) -> Outcome:
    from loom.specialize.applications import select_templates

    symbols = module.symbols()
    final = options.get("mode", "final") == "final"
    selections = [
        selection
        for op in module.body
        if op.name in FUNCTIONS
        for selection in select_templates(op, symbols, context.target, final=final)
    ]
    return Outcome(selections, {"applications-bound": len(selections)})


def _licm(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.hoist import hoist_invariants

    moved = hoist_invariants(function, context.facts, version=context.version(function))
    return _counted("operations-moved", moved)


def _branch_sink(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.sink import sink_into_branches

    return _counted("operations-moved", sink_into_branches(function))


def _branch_fusion(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.branches import fuse_branches

    return _counted("branches-joined", fuse_branches(function))


def _loop_fusion(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.loop_fusion import fuse_loops

    return _counted("loops-joined", fuse_loops(function, context.facts, version=context.version(function)))


def _async_legality(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.async_legality import check_transfers

    check_transfers(function)
    return Outcome(changed=False)


def _footprints(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.footprints import check_footprints

    proven = check_footprints(function, context.facts, version=context.version(function))
    return Outcome((), {"accesses-proven": proven}, changed=False)


def _refine_boundaries(module: Module, _: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.boundaries import refine_boundaries

    return _counted("parameters-refined", refine_boundaries(module, context.facts, options.get("max-iterations")))


def _cfg_simplify(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.blocks import simplify_blocks

    return Outcome(changed=simplify_blocks(function))


def _scf_to_cfg(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.scf_to_cfg import lower_to_blocks

    return _counted("operations-lowered", lower_to_blocks(function, context.facts))


def _symbol_dce(module: Module, _: Module, context: Context, options: Options) -> None:
    from loom.ir.core import symbol_name
    from loom.transforms.dce import eliminate_dead_symbols, is_root

    if context.roots:
        roots = [op for op in module.body if symbol_name(op) in context.roots]
    else:
        roots = [op for op in module.body if is_root(op) or "check" in op.spec.traits]
    eliminate_dead_symbols(module, roots, keep_providers=True)


def _specialize(module: Module, _: Module, context: Context, options: Options) -> Outcome:
    from loom.specialize.pipeline import specialize

    result = specialize(module, context.target, context.roots)
    _take_over(module, result.module)
    return Outcome([*result.selections, *result.loops])


def _source_to_low(module: Module, _: Module, context: Context, options: Options) -> None:
    from loom import api

    assert context.target is not None
    sources = {name for name, op in module.symbols().items() if op.name == "kernel.def"}
    lowered = api.lower_module(module, context.target)
    _take_over(module, lowered)
    left = {name for name, op in module.symbols().items() if op.name == "kernel.def"}
    _drop_checks(module, sources - left)


def _drop_checks(module: Module, gone: set[str]) -> None:
    """Erase the checks of kernels that are Low now: a launch has operands for the signature of the source."""
    from loom.ir.core import symbol_name
    from loom.transforms.dce import referenced_symbols

    pending = [op for op in module.body if "check" in op.spec.traits]
    while dropped := [op for op in pending if not gone.isdisjoint(referenced_symbols(op))]:
        pending = [op for op in pending if op not in dropped]
        gone |= {str(symbol_name(op)) for op in dropped}
        for op in dropped:
            op.erase()


def _checks(options: Options) -> frozenset[str]:
    from loom.transforms.sanitize import CHECKS

    given = options.get("checks", CHECKS)
    return frozenset(given if isinstance(given, tuple) else (given,))


def _insert_assertions(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.sanitize import insert_assertions
    from loom.verify.effects import Purity

    # Calls may rely on purity, which a check would end.
    pure = Purity(module.symbols()).of_function(function)
    return Outcome((), {"checks-inserted": 0 if pure else insert_assertions(function, _checks(options))})


def _insert_race_observations(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.sanitize import insert_race_observations

    inserted = insert_race_observations(function) if "race" in _checks(options) else 0
    return Outcome((), {"observations-inserted": inserted})


def _take_over(module: Module, other: Module) -> None:
    """Replace the contents of a module by those of another one, which is used up."""
    for op in list(module.body):
        op.erase()
    for op in list(other.body):
        op.detach()
        module.body.append(op)


_CHECKS: Final = Option(
    "checks", words=("access", "value", "operation", "race"), several=True, meaning="a list, all of them by default"
)

PASSES: Final[Mapping[str, PassInfo]] = {
    info.key: info
    for info in (
        PassInfo(
            "canonicalize",
            "function",
            "fold, decide control flow, merge and drop to a fixed point",
            _canonicalize,
            options=(Option("max-iterations", minimum=1, meaning="rounds before giving up"),),
        ),
        PassInfo(
            "branch-fusion",
            "function",
            "join neighbouring conditionals of one condition",
            _branch_fusion,
            statistics=("branches-joined",),
        ),
        PassInfo(
            "branch-sink",
            "function",
            "move pure operations into the only branch that uses them",
            _branch_sink,
            statistics=("operations-moved",),
        ),
        PassInfo("cfg-simplify", "function", "drop and merge blocks, decide branches between them", _cfg_simplify),
        PassInfo("cse", "function", "merge equal pure operations", _cse),
        PassInfo("dce", "function", "drop unused operations without effects", _dce),
        PassInfo(
            "decompose-vector-banks",
            "function",
            "carry vectors that loops only take apart slot by slot",
            _decompose_banks,
            statistics=("banks-decomposed",),
            templates=False,
        ),
        PassInfo("inline-callables", "module", "inline calls as their policies say", _inline),
        PassInfo(
            "kernel-async-legality",
            "function",
            "check that asynchronous transfers are waited for in order; changes nothing",
            _async_legality,
        ),
        PassInfo(
            "licm",
            "function",
            "move what is the same in every iteration in front of loops",
            _licm,
            statistics=("operations-moved",),
        ),
        PassInfo(
            "loop-fusion",
            "function",
            "join neighbouring loops over the same positions",
            _loop_fusion,
            statistics=("loops-joined",),
        ),
        PassInfo(
            "pipeline-scf-for",
            "function",
            "rebuild the loops that ask for read-ahead",
            _pipeline,
            statistics=("loops-pipelined", "policies-cleared"),
            templates=False,
        ),
        PassInfo(
            "refine-boundaries",
            "module",
            "state at private functions what all of their callers know",
            _refine_boundaries,
            options=(Option("max-iterations", minimum=1, meaning="rounds before giving up"),),
            statistics=("parameters-refined",),
        ),
        PassInfo(
            "sanitizer-insert-assertions",
            "function",
            "check accesses, assumptions and operands while the program runs",
            _insert_assertions,
            options=(_CHECKS,),
            statistics=("checks-inserted",),
        ),
        PassInfo(
            "sanitizer-insert-race-observations",
            "function",
            "tell race detection of every access and barrier",
            _insert_race_observations,
            options=(_CHECKS,),
            statistics=("observations-inserted",),
        ),
        PassInfo(
            "scf-to-cfg",
            "function",
            "turn structured control flow into branches between blocks",
            _scf_to_cfg,
            statistics=("operations-lowered",),
        ),
        PassInfo(
            "select-templates",
            "module",
            "bind applications of template families to providers",
            _select_templates,
            options=(
                Option("mode", words=("early", "final"), meaning="whether undecided applications stay or are errors"),
            ),
            statistics=("applications-bound",),
        ),
        PassInfo(
            "source-to-low",
            "module",
            "select the target's instructions for every kernel or function",
            _source_to_low,
            needs_target=True,
        ),
        PassInfo("specialize", "module", "bind, inline, fold and carry out loop policies for a target", _specialize),
        PassInfo("strip-hints", "function", "drop source fences and prefetches", _strip_hints),
        PassInfo("symbol-dce", "module", "drop symbols that nothing reaches", _symbol_dce),
        PassInfo(
            "unroll-scf-for",
            "function",
            "unroll the loops that ask for it",
            _unroll,
            statistics=("loops-unrolled",),
            templates=False,
        ),
        PassInfo(
            "vector-memory-footprint",
            "function",
            "prove that vector accesses stay in their views; changes nothing",
            _footprints,
            statistics=("accesses-proven",),
            templates=False,
        ),
        *LEGALIZING,
    )
}
# Named pipelines: the passes that stand for them.
PIPELINES: Final[Mapping[str, Sequence[str]]] = {
    "default": ("specialize",),
    "source-low": ("specialize", "source-to-low"),
    "prepared-low": ("specialize", "source-to-low", "low-dce"),
}
