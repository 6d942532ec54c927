"""A single file that makes a pass fail again: the module before it, and a pipeline that runs only that pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from loom.dialects.pass_ import ops
from loom.ir.attributes import Dictionary
from loom.ir.core import Block, Op, Region
from loom.ir.diagnostics import Diagnostic
from loom.passes.model import PassInfo
from loom.text.parser import parse_module
from loom.text.printer import print_module

SYMBOL = "loom.reproducer"


@attrs.frozen
class Failure:
    """What a pass was about to do: the module's text, the pass, its options, and its function if it has one."""

    text: str
    info: PassInfo
    options: Mapping[str, object]
    symbol: str | None


def reproducer_text(failure: Failure, diagnostics: Sequence[Diagnostic], target: str | None) -> str:
    """A module that fails in the same way when its pipeline runs; its header says how to run it."""
    module = parse_module(failure.text, "reproducer")
    names = module.symbols()
    symbol = SYMBOL
    while symbol in names:
        symbol += "_"
    command = f"loom-opt FILE --pipeline=@{symbol}" + (f" --target={target}" if target else "")
    found = [line for d in diagnostics for line in f"[{d.code}] {d.message}".splitlines()]
    module.header = (f"Reproduces a failure of the pass '{failure.info.key}':", command, *found)
    module.body.append(_pipeline(failure, symbol))
    return print_module(module)


def _pipeline(failure: Failure, symbol: str) -> Op:
    options = Dictionary(failure.options)
    step: Op = ops.Run.build(key=failure.info.key, options=options)
    if failure.symbol is not None:
        attrs_ = Dictionary(value=failure.symbol)
        step = ops.Where.build(predicate="name", attrs=attrs_, regions=[_body(step)])
        step = ops.For.build(anchor="func", regions=[_body(step)])
    return ops.Pipeline.build(anchor="module", symbol=symbol, regions=[_body(step)])


def _body(step: Op) -> Region:
    block = Block()
    block.append(step)
    block.append(ops.Yield.build())
    return Region([block])
