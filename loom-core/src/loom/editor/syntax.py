"""How an op is written, for readers: its format with the names of its fields put in.

Operands read ``%name``, attributes ``NAME`` (symbols ``@NAME``), regions ``{name}``, types ``type(%name)``; what stands
between ``⟦`` and ``⟧`` may be left out, and ``, ...`` means any number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from loom.spec.format import Directive, Element, Field, Group, Literal, TypeOf, parse_format
from loom.spec.model import OpSpec

Args = tuple[str, ...]


@attrs.frozen
class DirectiveSyntax:
    """The text of a directive, from the declaration and its arguments, and the words of the language in it."""

    text: Callable[[OpSpec, Args], str]
    words: tuple[str, ...] = ()


def _fixed(text: str, *words: str) -> DirectiveSyntax:
    return DirectiveSyntax(lambda spec, args: text, words)


def _filled(pattern: str, *words: str) -> DirectiveSyntax:
    """Text in which ``$0``, ``$1``, ... stand for the directive's arguments."""
    return DirectiveSyntax(lambda spec, args: re.sub(r"\$(\d)", lambda m: args[int(m[1])], pattern), words)


def _entries(spec: OpSpec, names: Args) -> str:
    attributes = [spec.attributes[spec.attribute_index[name]] for name in names]
    entries = (f"{a.key} = {a.name.upper()}" if a.required else f"⟦{a.key} = {a.name.upper()}⟧" for a in attributes)
    return ", ".join(entries)


_ARGUMENTS: Final = _fixed("(%argument: TYPE, ...)")

# A directive is Python code that reads and writes; this is what that code accepts.
DIRECTIVES: Final[Mapping[str, DirectiveSyntax]] = {
    "aligned": _filled("[⟦align(N)⟧ %$0, ...]", "align"),
    "args": _ARGUMENTS,
    "bindings": _fixed("(%name = %value : TYPE, ...)"),
    "body": _filled("{$0}"),
    "call_results": _fixed("-> (⟦%operand as⟧ TYPE, ...)", "as"),
    "cases": _filled("{ case KEY {$2} ... default {$1} }", "case", "default"),
    "counted_args": _ARGUMENTS,
    "declared": _fixed("TYPE⟦ where [PREDICATE(...), ...]⟧", "where"),
    "dict": DirectiveSyntax(lambda spec, names: f"{{{_entries(spec, names)}}}"),
    "keyed": DirectiveSyntax(_entries),
    "loaded": _fixed("TYPE"),
    "compared_body": _fixed(
        "⟦[actual(%a: TYPE, ...), expected(%e: TYPE, ...)]⟧⟦()⟧ {EXPECTATIONS}", "actual", "expected"
    ),
    "for_body": _filled("{$0}"),
    "for_header": _fixed("%iv = [%lower to %upper step %step]⟦(%name = %value : TYPE, ...)⟧", "to", "step"),
    "inner_body": _filled("(%argument: TYPE, ...) {$0}"),
    "indices": _filled("[%$0 or INTEGER, ...]"),
    "low_body": _fixed(
        "asm {instructions}",
        *("asm", "return", "resource", "live_in", "concat", "slice", "copy"),
        *("storage", "storage_address", "storage_view"),
    ),
    "more_args": _ARGUMENTS,
    "operand_dict": _filled("{KEY = %$0 : TYPE, ...}"),
    "packed_types": _filled("type(%$1)"),
    "pass_body": _fixed("{OPERATIONS} or pipeline {STATEMENTS}", "pipeline"),
    "pass_counts": DirectiveSyntax(lambda spec, names: f"⟦ {{{_entries(spec, names)}}}⟧"),
    "pass_facts": _fixed("⟦ {KEY = VALUE, ...}⟧"),
    "payload": _filled("(%$0 : TYPE, ...)"),
    "predicates": _fixed("[PREDICATE(...), ...]"),
    "results": _fixed("-> (⟦%name: ⟧⟦%argument as⟧ TYPE, ...)", "as"),
    "table": _filled("{KEY = (%$1, ...), ...} default(%$1, ...)", "default"),
    "where": _fixed("⟦ where [PREDICATE(...), ...]⟧", "where"),
    "while": _fixed(
        "⟦(%name = %value : TYPE, ...)⟧⟦ -> (TYPE, ...)⟧ {before} do⟦(%argument: TYPE, ...)⟧ {after}", "do"
    ),
    "scenario_body": _fixed("⟦configure[N](%c: index, %entropy: check.entropy) {...}⟧ {TRIALS}", "configure"),
    "trial_body": _fixed("(%trial: index, %entropy: check.entropy) {BODY}"),
}

_WORD: Final = re.compile(r"[A-Za-z_]\w*\Z")


def syntax_line(spec: OpSpec) -> str:
    """One op as it is written, with its results."""
    results = ", ".join(f"%{r.name}" + (", ..." if r.variadic else "") for r in spec.results)
    text = _joined(spec, parse_format(spec.format))
    return (f"{results} = " if results else "") + spec.name + text.rstrip()


def syntax_words(spec: OpSpec) -> set[str]:
    """The words that an op's format consists of; not those of its attributes' values."""
    found: set[str] = set()
    pending: list[Element] = list(parse_format(spec.format))
    while pending:
        element = pending.pop()
        if isinstance(element, Literal):
            found.update(token for token in element.tokens if _WORD.match(token))
        elif isinstance(element, Directive):
            found.update(DIRECTIVES[element.name].words)
        elif isinstance(element, Group):
            pending.extend(element.elements)
    return found


def _text(spec: OpSpec, element: Element) -> str:
    if isinstance(element, Literal):
        return element.text
    if isinstance(element, Field):
        return _field(spec, element.name)
    if isinstance(element, TypeOf):
        return f"type({_value(spec, element.name)})"
    if isinstance(element, Directive):
        text = DIRECTIVES[element.name].text(spec, element.args)
        # These print the space in front of them; a format has none there.
        return f" {text}" if element.name in ("results", "call_results") else text
    return f"⟦{_joined(spec, element.elements)}⟧"


def _joined(spec: OpSpec, elements: Sequence[Element]) -> str:
    return "".join(_text(spec, element) for element in elements)


def _field(spec: OpSpec, name: str) -> str:
    if name in spec.operand_index or name in spec.result_index:
        return _value(spec, name)
    if name in spec.attribute_index:
        kind = spec.attributes[spec.attribute_index[name]].kind.name
        return ("@" if kind in ("symbol", "symbol_name") else "") + name.upper()
    if name in spec.region_index:
        return f"{{{name}}}"
    return f"^{name}"


def _value(spec: OpSpec, name: str) -> str:
    if name in spec.operand_index:
        many = spec.operands[spec.operand_index[name]].arity == "variadic"
    else:
        many = spec.results[spec.result_index[name]].variadic
    return f"%{name}" + (", ..." if many else "")
