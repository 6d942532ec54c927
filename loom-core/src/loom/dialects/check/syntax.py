"""Syntax that only the ``check`` dialect has: bodies of scenarios, trials and comparisons (part 3, section 1.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from loom.ir.core import Block, Op, Region, Value
from loom.text import attributes as attribute_syntax
from loom.text.directives import Args, DirectiveDef, add_directives, always, region_named
from loom.text.signatures import signature_text

if TYPE_CHECKING:
    from loom.spec.model import OpSpec
    from loom.text.parser import Parser
    from loom.text.printer import Printer

AFTER_SETUP: Final = frozenset({"check.trial", "check.requires", "check.skip_if", "check.return"})
"""Ops of a scenario that stand behind its ``configure`` block."""


def _return_constant(out: Any, spec: OpSpec, args: Args) -> list[str]:
    from loom.spec.registry import lookup

    return [out.const(lookup("check.return"))]


def _add_arguments(p: Parser, block: Block) -> list[tuple[str, Value, int]]:
    """``%a: T, …)`` behind an opening parenthesis, as further arguments of a block."""
    return [(name, block.add_argument(type_), token) for name, type_, token in p.arguments()]


# -- check.scenario: [configure[N](…) {…}] {…} ----------------------------------------------------------------


def first_after_setup(block: Block) -> Op | None:
    """Where the ops of a ``configure`` block end."""
    return next((op for op in block if op.name in AFTER_SETUP), None)


def _read_scenario(p: Parser) -> tuple[Region, int | None]:
    """Both pairs of braces fill one block: what a configuration makes is in scope of all trials."""
    block = Block()
    if not p.accept("configure"):
        return p.region(block, []), None
    p.take("[")
    count = attribute_syntax.integer(p)
    p.take("]")
    p.take("(")
    p.region(block, _add_arguments(p, block))
    start = p.i
    made = [*block.args, *(result for op in block for result in op.results)]
    return p.region(block, [(f"%{value.name}", value, start) for value in made]), count


def _write_scenario(pn: Printer, op: Op, args: Args) -> str:
    region = region_named(op, args[0])
    count = op.attribute(args[1])
    if count is None:
        return pn.region(region, False)
    block = region.entry
    split = first_after_setup(block)
    head = f"configure[{count}]({signature_text(pn, block.args)}) {pn.braces(block.first, split)}"
    return f"{head} {pn.braces(split, None)}"


# -- check.trial: (%t: index, %entropy: check.entropy) {…} -----------------------------------------------------


def _read_trial(p: Parser, implicit: type[Op]) -> Region:
    block = Block()
    p.take("(")
    return p.region(block, _add_arguments(p, block), implicit=implicit)


def _write_trial(pn: Printer, op: Op, args: Args) -> str:
    region = region_named(op, args[0])
    return f"({signature_text(pn, region.entry.args)}) {pn.region(region, True)}"


# -- check.compare: [actual(%a: T, …), expected(%e: T, …)] {…} or () {…} ---------------------------------------


def _read_compared(p: Parser, implicit: type[Op]) -> Region:
    block = Block()
    names: list[tuple[str, Value, int]] = []
    if p.accept("("):
        p.take(")")
    else:
        p.take("[")
        counts = []
        for word, end in (("actual", ","), ("expected", "]")):
            start = p.i
            p.take(word)
            p.take("(")
            more = _add_arguments(p, block)
            counts.append(len(more))
            names += more
            p.take(end)
        if counts[0] != counts[1]:
            p.fail(
                "STRUCTURE/007", f"{counts[0]} actual values, but {counts[1]} expected ones", start,
                actual_count=counts[1], expected_count=counts[0],
            )  # fmt: skip
    return p.region(block, names, implicit=implicit)


def _write_compared(pn: Printer, op: Op, args: Args) -> str:
    region = region_named(op, args[0])
    values = region.entry.args
    half = len(values) // 2
    head = "()"
    if values:
        head = f"[actual({signature_text(pn, values[:half])}), expected({signature_text(pn, values[half:])})]"
    return f"{head} {pn.region(region, True)}"


add_directives(
    {
        "scenario_body": DirectiveDef(
            outputs=lambda args: [f"r_{args[0]}", f"a_{args[1]}"],
            read=_read_scenario,
            write=_write_scenario,
            present=always,
            starts=lambda token: token in ("configure", "{"),
        ),
        "trial_body": DirectiveDef(
            outputs=lambda args: [f"r_{args[0]}"],
            read=_read_trial,
            write=_write_trial,
            present=always,
            starts=lambda token: token == "(",
            constants=_return_constant,
        ),
        "compared_body": DirectiveDef(
            outputs=lambda args: [f"r_{args[0]}"],
            read=_read_compared,
            write=_write_compared,
            present=always,
            starts=lambda token: token in ("[", "("),
            constants=_return_constant,
        ),
    }
)
