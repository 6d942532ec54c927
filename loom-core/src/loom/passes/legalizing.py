"""Passes that write a function with simpler operations (language reference, part 3, section 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loom.passes.model import Context, Options, Outcome, PassInfo

if TYPE_CHECKING:
    from loom.ir.core import Module, Op


def _vector_to_scalar(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.vector_to_scalar import scalarize_vectors

    return _cleaned(function, module, "operations-rewritten", scalarize_vectors(function, context.facts))


def _vector_memory_to_scalar(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.vector_memory_to_scalar import scalarize_accesses

    return _cleaned(function, module, "accesses-rewritten", scalarize_accesses(function))


def _reduce_axes_to_scalar(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.vector_reduce_axes import scalarize_axis_reductions

    return _cleaned(function, module, "reductions-rewritten", scalarize_axis_reductions(function))


def _promote(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.promote_private import promote_private_storage

    return _cleaned(function, module, "allocations-promoted", promote_private_storage(function))


def _linearize(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.linearize import linearize_accesses

    return _cleaned(function, module, "accesses-rewritten", linearize_accesses(function, context.facts))


def _low_dce(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.low.unused import drop_unused_packets

    return Outcome((), {"operations-dropped": drop_unused_packets(function)})


def _legalize_math(function: Op, module: Module, context: Context, options: Options) -> Outcome:
    from loom.transforms.legalize_math import legalize_math

    policy = context.target.math if context.target is not None else None
    return _cleaned(function, module, "functions-rewritten", legalize_math(function, policy))


def _cleaned(function: Op, module: Module, counter: str, count: int) -> Outcome:
    """The outcome of a pass that leaves behind what it no longer needs, without that."""
    from loom.transforms.dce import eliminate_dead_ops

    if count:
        eliminate_dead_ops(function, module.symbols())
    return Outcome((), {counter: count}, changed=count > 0)


LEGALIZING: Final = (
    PassInfo(
        "linearize-view-accesses",
        "function",
        "access views of several axes through views of one",
        _linearize,
        statistics=("accesses-rewritten",),
    ),
    PassInfo(
        "promote-private-fragments",
        "function",
        "keep small private arrays that are accessed at known places in values",
        _promote,
        statistics=("allocations-promoted",),
    ),
    PassInfo(
        "low-dce",
        "function",
        "drop instructions of target Low that have no effect and whose results nobody uses",
        _low_dce,
        statistics=("operations-dropped",),
        low=True,
    ),
    PassInfo(
        "legalize-math",
        "function",
        "compute elementary functions that the target lacks with arithmetic",
        _legalize_math,
        statistics=("functions-rewritten",),
    ),
    PassInfo(
        "vector-to-scalar",
        "function",
        "compute and move vectors lane by lane",
        _vector_to_scalar,
        statistics=("operations-rewritten",),
    ),
    PassInfo(
        "vector-memory-to-scalar",
        "function",
        "load and store vectors element by element",
        _vector_memory_to_scalar,
        statistics=("accesses-rewritten",),
    ),
    PassInfo(
        "vector-reduce-axes-to-scalar",
        "function",
        "reduce along axes with chains of scalars",
        _reduce_axes_to_scalar,
        statistics=("reductions-rewritten",),
    ),
)
