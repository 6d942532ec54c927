"""Syntax of ``scf.for`` and ``scf.while`` headers (language reference, part 1, sections 13.3 and 13.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loom.ir.core import Block, Op, Region, Value
from loom.ir.types import Type
from loom.text import directives, signatures
from loom.text.directives import Args, DirectiveDef

if TYPE_CHECKING:
    from loom.text.parser import Parser
    from loom.text.printer import Printer


def _read_for_header(
    p: Parser,
) -> tuple[Value, Value, Value, list[Value], tuple[tuple[str, int], list[tuple[str, int]]]]:
    at = p.i
    name = p.toks[at]
    if name[:1] != "%" or len(name) == 1:
        p.expected(at, "the induction variable")
    p.i += 1
    p.take("=")
    p.take("[")
    lower = p.value()
    p.take("to")
    upper = p.value()
    p.take("step")
    step = p.value()
    p.take("]")
    inits, names = directives.directive("bindings").read(p)
    return lower, upper, step, inits, ((name, at), names)


def _write_for_header(pn: Printer, op: Op, args: Args) -> str:
    names = pn.names
    lower, upper, step = op.operands[:3]
    header = f"{names[op.regions[0].entry.args[0]]} = [{names[lower]} to {names[upper]} step {names[step]}]"
    return header + directives.directive("bindings").write(pn, op, ("iter_args", "body", "1"))


def carried_arguments(p: Parser, block: Block, result_names: Sequence[str], types: Sequence[Type]) -> list[Value]:
    """Add one block argument per carried value. The result list defines the tuple: where a result type names a
    sibling result, the argument's type names the sibling argument."""
    arguments = [block.add_argument(type_) for type_ in types]
    if p.forward:
        mapping = {
            p.forward[name]: argument
            for name, argument in zip(result_names, arguments, strict=False)
            if name in p.forward
        }
        for argument in arguments:
            if not argument.type.text:
                argument.set_type(argument.type.substitute(mapping))
    return arguments


def _read_for_body(
    p: Parser,
    names: list[str],
    lower: Value,
    bound: tuple[tuple[str, int], list[tuple[str, int]]],
    types: list[Type] | None,
    implicit: type[Op],
) -> Region:
    (iv_name, iv_token), carried = bound
    block = Block()
    iv = block.add_argument(lower.type)
    types = types or []
    if len(types) != len(carried):
        p.fail(
            "STRUCTURE/013",
            f"{len(carried)} carried values, but {len(types)} results",
            p.i,
            field_a="iter_args",
            actual_count=len(carried),
            field_b="results",
            expected_count=len(types),
        )
    values = carried_arguments(p, block, names, types)
    entry = [(iv_name, iv, iv_token)]
    entry += [(name, value, token) for (name, token), value in zip(carried, values, strict=True)]
    return p.region(block, entry, implicit=implicit)


def _read_while(p: Parser, names: list[str]) -> tuple[list[Value], list[Type], Region, Region]:
    inits, bound = directives.directive("bindings").read(p)
    types: list[Type] = []
    if p.accept("->"):
        p.take("(")
        types = [] if p.toks[p.i] == ")" else p.type_list()
        p.take(")")
    before = Block()
    arguments = [before.add_argument(v.type) for v in inits]
    mapping = dict(zip(inits, arguments, strict=True))
    for argument in arguments:
        if not argument.type.text:
            argument.set_type(argument.type.substitute(mapping))
    entry = [(name, value, token) for (name, token), value in zip(bound, arguments, strict=True)]
    first = p.region(before, entry)
    p.take("do")
    after = Block()
    after_entry: list[tuple[str, Value, int]] = []
    if p.accept("("):
        outer = p.signature
        p.signature = True
        after_entry = [(name, after.add_argument(type_), token) for name, type_, token in p.arguments()]
        # The type of an argument may name an argument before it, so all of them have to be there.
        for name, value, _ in after_entry:
            placeholder = p.forward.pop(name, None) if p.forward and name not in names else None
            if placeholder is not None:
                placeholder.replace_all_uses(value)
        p.signature = outer
    return inits, types, first, p.region(after, after_entry)


def _write_while(pn: Printer, op: Op, args: Args) -> str:
    text = directives.directive("bindings").write(pn, op, ("iter_args", "before", "0"))
    if op.results:
        text += " -> (" + ", ".join(pn.type_text(r.type) for r in op.results) + ")"
    text += " " + pn.region(op.regions[0], False) + " do"
    arguments = op.regions[1].entry.args
    if arguments:
        text += f"({signatures.signature_text(pn, arguments)})"
    return text + " " + pn.region(op.regions[1], False)


directives.add_directives(
    {
        "for_header": DirectiveDef(
            outputs=lambda args: ["o_lower", "o_upper", "o_step", "o_iter_args", "bound"],
            read=_read_for_header,
            write=_write_for_header,
            present=lambda op, args: True,
            starts=lambda token: token[:1] == "%",
        ),
        "for_body": DirectiveDef(
            outputs=lambda args: ["r_body"],
            inputs=lambda args: ["names", "o_lower", "bound", "t_results"],
            read=_read_for_body,
            write=lambda pn, op, args: pn.region(op.regions[0], True),
            present=lambda op, args: True,
            starts=lambda token: token == "{",
            constants=lambda out, spec, args: directives.directive("cases").constants(out, spec, args),
        ),
        "while": DirectiveDef(
            outputs=lambda args: ["o_iter_args", "t_results", "r_before", "r_after"],
            inputs=lambda args: ["names"],
            read=_read_while,
            write=_write_while,
            present=lambda op, args: True,
            starts=lambda token: True,
        ),
    }
)
