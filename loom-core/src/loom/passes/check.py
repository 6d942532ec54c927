"""Checking a pass pipeline before anything of it runs: names, options, anchors, and calls of other pipelines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loom.ir.core import Op
from loom.ir.diagnostics import Diagnostic, LoomError, Related, did_you_mean
from loom.passes.catalogue import PASSES
from loom.passes.predicates import PREDICATES


def check_pipeline(pipeline: Any, pipelines: Mapping[str, Any]) -> None:
    """Raise ``LoomError`` with everything that keeps a pipeline, and those it calls, from running."""
    findings: list[Diagnostic] = []
    _pipeline(pipeline, pipelines, (), findings, set())
    if findings:
        raise LoomError(findings)


def _pipeline(
    pipeline: Any, pipelines: Mapping[str, Any], chain: tuple[str, ...], out: list[Diagnostic], done: set[str]
) -> None:
    if pipeline.symbol not in done:
        done.add(pipeline.symbol)
        _steps(pipeline, pipeline.anchor, pipelines, (*chain, pipeline.symbol), out, done)


def _steps(
    owner: Op, anchor: str, pipelines: Mapping[str, Any], chain: tuple[str, ...], out: list[Diagnostic], done: set[str]
) -> None:
    step: Any
    for step in owner.regions[0].entry:
        inner = anchor
        if step.name == "pass.run":
            _run(step, anchor, out)
        elif step.name == "pass.call":
            _call(step, anchor, pipelines, chain, out, done)
        elif step.name == "pass.where":
            _where(step, out)
        elif step.name == "pass.for":
            inner = step.anchor
            if anchor == "func":
                out.append(_mismatch(step, f"'for {step.anchor}'", "module", anchor))
        if step.regions:
            _steps(step, inner, pipelines, chain, out, done)


def _run(step: Any, anchor: str, out: list[Diagnostic]) -> None:
    info = PASSES.get(step.key)
    if info is None:
        out.append(_unknown(step, "pass", "key", step.key, list(PASSES)))
        return
    wanted = "module" if info.kind == "module" else "func"
    if wanted != anchor:
        out.append(_mismatch(step, f"the pass '{info.key}'", wanted, anchor))
    try:
        info.check_options(step.options, step.loc)
    except LoomError as error:
        out += error.diagnostics


def _call(
    step: Any,
    anchor: str,
    pipelines: Mapping[str, Any],
    chain: tuple[str, ...],
    out: list[Diagnostic],
    done: set[str],
) -> None:
    callee = pipelines[step.callee]
    if callee.anchor != anchor:
        out.append(_mismatch(step, f"the pipeline '@{callee.symbol}'", callee.anchor, anchor))
    if callee.symbol in chain:
        path = " -> ".join(f"@{name}" for name in (*chain[chain.index(callee.symbol) :], callee.symbol))
        out.append(
            Diagnostic(
                "SYMBOL/006",
                f"the pipeline calls itself: {path}",
                step.loc,
                {"symbol_name": callee.symbol},
                related=(Related(f"'@{callee.symbol}' is here", callee.loc),),
                emitter="pass-manager",
            )
        )
        return
    _pipeline(callee, pipelines, chain, out, done)


def _where(step: Any, out: list[Diagnostic]) -> None:
    predicate = PREDICATES.get(step.predicate)
    if predicate is None:
        out.append(_unknown(step, "predicate", "predicate", step.predicate, list(PREDICATES)))
        return
    if set(step.attrs) != {predicate.argument} or not isinstance(step.attrs[predicate.argument], str):
        expected = f'{step.predicate}({predicate.argument} = "...")'
        params = {"attr_name": "attrs", "actual_value": str(step.attrs), "expected_constraint": expected}
        message = f"the predicate '{step.predicate}' takes one text called '{predicate.argument}'"
        out.append(Diagnostic("STRUCTURE/014", message, step.loc, params, hint=f"write {expected}",
                              emitter="pass-manager"))  # fmt: skip


def _unknown(step: Op, what: str, field: str, name: str, names: list[str]) -> Diagnostic:
    return Diagnostic(
        "STRUCTURE/027",
        f"no {what} is named '{name}'",
        step.loc,
        {"attr_name": field, "actual_value": name, "expected_constraint": f"the name of a {what}"},
        hint=did_you_mean(name, names),
        emitter="pass-manager",
    )


def _mismatch(step: Op, what: str, wanted: str, anchor: str) -> Diagnostic:
    hint = "put it into 'for func { ... }'" if wanted == "func" else None
    return Diagnostic(
        "STRUCTURE/014",
        f"{what} runs on a {wanted}, not on a {anchor}",
        step.loc,
        {"attr_name": "anchor", "actual_value": anchor, "expected_constraint": wanted},
        hint=hint,
        emitter="pass-manager",
    )
