"""Binding template applications to providers without inlining them: the pass ``select-templates``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loom.facts.analysis import FunctionFacts
from loom.ir.core import Op
from loom.ir.diagnostics import LoomError
from loom.specialize.pipeline import providers_of, target_test
from loom.specialize.select import Selection, bind, select

if TYPE_CHECKING:
    from loom.plugins.records import TargetProfile


def select_templates(
    function: Any, symbols: dict[str, Op], target: TargetProfile | None, *, final: bool
) -> list[Selection]:
    """Turn the applications of a function into exact calls of the providers chosen for them; the choices.

    With ``final`` an application that cannot be bound raises LOWERING/045. Otherwise it stays, as does one for which
    a provider that is not yet decided could still win.
    """
    facts = FunctionFacts(function, target.facts if target is not None else None)
    applies = target_test(symbols, target)
    chosen = []
    for site in [op for op in function.walk() if op.name == "template.apply"]:
        providers = providers_of(symbols, str(site.attribute("family")))
        try:
            best = select(site, providers, facts, target, applies, final=final)
        except LoomError:
            if final:
                raise
            continue
        if best is None:
            continue
        chosen.append(Selection.of(function.callee, site, best, target))
        bind(site, best.provider)
    return chosen
