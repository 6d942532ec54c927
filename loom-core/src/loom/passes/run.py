"""Running passes and pipelines on a module."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from loom.ir.core import Module, Op, symbol_name
from loom.ir.diagnostics import Diagnostic, Location, LoomError, did_you_mean, fail
from loom.ir.recursion import deep_recursion
from loom.passes.catalogue import PASSES
from loom.passes.check import check_pipeline
from loom.passes.model import Context, Outcome, PassInfo, anchors, functions, takes
from loom.passes.predicates import PREDICATES
from loom.passes.reproducer import Failure
from loom.passes.requests import Request
from loom.text.printer import print_module, print_op
from loom.verify.verifier import require_valid

Observer = Callable[[str, str, Module], None]
"""Called with ``before`` or ``after``, the key of a pass, a named pipeline or ``@pipeline``, and the module."""


@attrs.define
class Invocation:
    """One run of a pass on one function or on the module."""

    key: str
    kind: str
    anchor: str
    symbol: str | None
    pipeline: str
    index: int
    duration_ns: int = 0
    changed: bool = False
    status: str = "failed"
    outcome: Outcome = attrs.field(factory=Outcome)

    def row(self) -> dict[str, object]:
        """The row of the pass report (language reference, part 3, section 8.3)."""
        return {
            "pass": self.key,
            "kind": self.kind,
            "anchor": self.anchor,
            "pipeline": self.pipeline,
            "symbol": self.symbol,
            "instruction_index": self.index,
            "duration_ns": self.duration_ns,
            "changed": self.changed,
            "status": self.status,
            "statistics": dict(self.outcome.statistics),
            "details": [detail.row() for detail in self.outcome.details],
        }


@attrs.frozen
class Step:
    """One thing to run: a pass with its options, where it was asked for, and its place there."""

    info: PassInfo
    options: Mapping[str, object]
    pipeline: str
    index: int
    location: Location = None


class _Halt(Exception):
    """Unwinds a pipeline that stops on purpose."""


class Runner:
    """Runs requests on a module, in place, and keeps a record of every invocation.

    With ``verify`` the module is checked after each pass. ``measure`` tells whether each invocation changed something,
    which costs two printings. ``observe`` sees the module before and after. ``keep_failure`` remembers what the module
    was before a pass that fails, at the cost of a printing for each.
    """

    def __init__(
        self,
        module: Module,
        context: Context,
        *,
        verify: bool = True,
        measure: bool = False,
        keep_failure: bool = False,
        observe: Observer = lambda when, key, module: None,
    ) -> None:
        self.module = module
        self.context = context
        self.invocations: list[Invocation] = []
        self.failure: Failure | None = None
        # A pipeline may drop symbols that nothing reaches, pipelines and itself among them.
        self.pipelines: dict[str, Any] = {
            str(symbol_name(op)): op.clone({}) for op in module.body if op.name == "pass.pipeline"
        }
        self._verify = verify
        self._measure = measure
        self._keep_failure = keep_failure
        self._observe = observe

    def run(self, requests: Sequence[Request]) -> str | None:
        """Run all requests; the message of ``pass.halt`` if one stopped the run.

        Raises ``LoomError``: with STRUCTURE/028 behind its reason when a pass fails, and before anything runs when a
        request or a pipeline is malformed.
        """
        plan = [self._resolve(request, index) for index, request in enumerate(requests)]
        try:
            with deep_recursion():
                for request, item in zip(requests, plan, strict=True):
                    if request.first:
                        self._observe("before", request.pipeline, self.module)
                    if isinstance(item, Step):
                        self._run_everywhere(item)
                    else:
                        self._run_pipeline(item)
                    if request.last:
                        self._observe("after", request.pipeline, self.module)
        except _Halt as halt:
            return str(halt)
        return None

    def _resolve(self, request: Request, index: int) -> Step | Any:
        """The pass of a request, or its pipeline after a check."""
        if not request.key.startswith("@"):
            info = PASSES[request.key]
            self._require_target(info, None)
            return Step(info, info.check_options(request.options, None), request.pipeline, index)
        pipeline = self.pipelines.get(request.key[1:])
        if pipeline is None:
            raise fail(
                "SYMBOL/002",
                f"the module has no pass pipeline '{request.key}'",
                emitter="pass-manager",
                hint=did_you_mean(request.key[1:], self.pipelines),
                symbol_name=request.key[1:],
            )
        check_pipeline(pipeline, self.pipelines)
        return pipeline

    def _require_target(self, info: PassInfo, location: Location) -> None:
        if info.needs_target and self.context.target is None:
            raise fail(
                "TARGET/026",
                f"the pass '{info.key}' needs a target",
                location,
                emitter="pass-manager",
                hint="name one with --target=family:selector",
            )

    # -- pipelines -------------------------------------------------------------------------------------------

    def _run_pipeline(self, pipeline: Any) -> None:
        key = "@" + pipeline.symbol
        self._observe("before", key, self.module)
        for anchor in [self.module] if pipeline.anchor == "module" else functions(self.module):
            self._steps(pipeline, anchor, key)
        self._observe("after", key, self.module)

    def _steps(self, owner: Op, anchor: Any, key: str) -> bool:
        """Run the body of a pipeline op; whether something in it changed the module."""
        changed = False
        for index, step in enumerate(owner.regions[0].entry):
            if step.name != "pass.if_changed":
                changed |= self._step(step, anchor, key, index)
            elif changed:
                self._steps(step, anchor, key)
        return changed

    def _step(self, step: Any, anchor: Any, key: str, index: int) -> bool:
        if step.name == "pass.run":
            info = PASSES[step.key]
            self._require_target(info, step.loc)
            if not isinstance(anchor, Module) and not takes(info, anchor):
                return False
            asked = Step(info, info.check_options(step.options, step.loc), key, index, step.loc)
            self._observe("before", info.key, self.module)
            changed = self._invoke(asked, anchor, measure=True)
            self._check(asked, anchor)
            self._observe("after", info.key, self.module)
            return changed
        if step.name == "pass.call":
            return self._steps(self.pipelines[step.callee], anchor, "@" + step.callee)
        if step.name == "pass.for":
            changed = False
            for each in [anchor] if step.anchor == "module" else functions(self.module):
                changed |= self._steps(step, each, key)
            return changed
        if step.name == "pass.where":
            predicate = PREDICATES[step.predicate]
            wanted = step.attrs[predicate.argument]
            return predicate.holds(anchor, wanted) and self._steps(step, anchor, key)
        if step.name == "pass.repeat":
            return self._repeat(step, anchor, key)
        if step.name == "pass.halt":
            raise _Halt(step.message)
        if step.name == "pass.fail":
            raise LoomError([_failed("pass.fail", anchor, key, step.loc, step.message)])
        return False

    def _repeat(self, step: Any, anchor: Any, key: str) -> bool:
        changed = False
        for _ in range(step.count if step.mode == "fixed" else step.max_iterations):
            round_changed = self._steps(step, anchor, key)
            changed |= round_changed
            if step.mode == "until_converged" and not round_changed:
                break
        return changed

    # -- passes ----------------------------------------------------------------------------------------------

    def _run_everywhere(self, step: Step) -> None:
        """Run a pass on the module, or on each function that it takes."""
        self._observe("before", step.info.key, self.module)
        for anchor in anchors(step.info, self.module):
            self._invoke(step, anchor, measure=self._measure)
        self._check(step, self.module)
        self._observe("after", step.info.key, self.module)

    def _invoke(self, step: Step, anchor: Any, *, measure: bool) -> bool:
        whole = isinstance(anchor, Module)
        record = Invocation(
            step.info.key,
            step.info.kind,
            "module" if whole else anchor.name,
            None if whole else symbol_name(anchor),
            step.pipeline,
            step.index,
        )
        self.invocations.append(record)
        text = print_module(self.module) if self._keep_failure else ""
        if self._keep_failure:
            self.failure = Failure(text, step.info, step.options, record.symbol)
        before = _text(anchor) if measure else ""
        start = time.perf_counter_ns()
        try:
            record.outcome = step.info.run(anchor, self.module, self.context, step.options) or Outcome()
        except LoomError as error:
            reason = _failed(step.info.key, anchor, step.pipeline, step.location)
            raise LoomError([*error.diagnostics, reason]) from error
        finally:
            record.duration_ns = time.perf_counter_ns() - start
        if record.outcome.changed:
            self.context.changed(anchor)
        record.changed = measure and _text(anchor) != before
        record.status = "ok"
        return record.changed

    def _check(self, step: Step, anchor: Any) -> None:
        if not self._verify:
            return
        try:
            require_valid(self.module)
        except LoomError as error:
            if self.invocations:
                self.invocations[-1].status = "failed"
            reason = _failed(step.info.key, anchor, step.pipeline, step.location, "it left an invalid module")
            raise LoomError([*error.diagnostics, reason]) from error


def _text(anchor: Any) -> str:
    return print_module(anchor) if isinstance(anchor, Module) else print_op(anchor)


def _failed(key: str, anchor: Any, pipeline: str, location: Location, why: str = "") -> Diagnostic:
    whole = isinstance(anchor, Module)
    symbol = "" if whole else symbol_name(anchor) or ""
    on = "the module" if whole else f"'@{symbol}'"
    params = {
        "pass_key": key,
        "anchor_kind": "module" if whole else "func",
        "symbol_name": symbol,
        "pipeline_name": pipeline,
    }
    message = f"the pass '{key}' failed on {on}" + (f": {why}" if why else "")
    return Diagnostic("STRUCTURE/028", message, location, params, emitter="pass-manager")
