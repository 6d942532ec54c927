"""Reference pages in Markdown, one per dialect, from the declarations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from loom.editor.syntax import syntax_line
from loom.spec.kinds import AttributeKind, EnumKind, FlagsKind
from loom.spec.model import AttributeDef, OperandDef, OpSpec, RegionDef, ResultDef

# What a trait promises or demands (language reference, part 1, section 5.1, for those of the language itself).
TRAITS: Final[Mapping[str, str]] = {
    "allocates": "makes storage that nothing else refers to",
    "branch": "ends a block by going to another one",
    "call": "runs a function",
    "check": "belongs to tests; products are linked without it",
    "command": "takes its place in the order of commands",
    "command_program": "is a command program",
    "commutative": "operands may be exchanged",
    "constant": "makes a constant",
    "contextual": "depends on the target or the enclosing function",
    "convergent": "the work-items that execute it together must stay the same",
    "declaration": "has its definition elsewhere",
    "device_only": "may only stand where a kernel reaches it",
    "fact_identity": "each result is an operand with stated facts",
    "fence": "orders memory accesses",
    "function": "can be called",
    "hint": "has no meaning at run time",
    "idempotent": "applying it twice is applying it once",
    "in_case": "may only stand in the body of a case",
    "involution": "applying it twice gives the operand back",
    "isolated": "regions see no value from outside",
    "kernel": "is a kernel",
    "keyed_record": "a record with a key that no other one has; prints first",
    "live_in": "stands at the start of a Low function",
    "low": "belongs to target Low",
    "low_function": "its body is target Low",
    "low_kernel": "is a kernel in target Low",
    "module_record": "is a record at module level",
    "observable": "stays even when nothing uses its results",
    "poison": "makes poison",
    "poison_boundary": "poison operands are an error",
    "pure": "depends on operands and attributes only and has no effects",
    "reads": "reads memory",
    "region_effects": "has the effects of its regions",
    "return": "leaves the function",
    "schedule_control": "steers the scheduling of Low",
    "source_structure": "structured control that lowering removes",
    "speculatable": "may be executed where it was not before",
    "symbol": "defines a module symbol",
    "target_record": "describes a target",
    "terminator": "ends a block",
    "unique_identity": "each execution makes a distinct object",
    "unknown_effects": "counts as reading and writing everything",
    "writes": "writes memory",
}

_KINDS: Final[Mapping[str, str]] = {
    "any": "any attribute value",
    "bool": "`true` or `false`",
    "bytes": 'byte string, `bytes("...")`',
    "conditions": "conditions, `[#target.fact<value>, ...]`",
    "dict": "dictionary, `{key = value, ...}`",
    "encoding": "encoding, `#family<...>`",
    "float": "float",
    "int": "integer",
    "int_array": "integers, `[1, 2]`",
    "key": "bare or dotted word",
    "literal": "integer, float or boolean",
    "literal_array": "literals, `[1, 2]`",
    "predicates": "predicates, `[range(%n, 0, 64)]`",
    "results": "result types of the signature",
    "static_indices": "integers among the indices",
    "string": "quoted text",
    "symbol": "symbol, `@name`",
    "symbol_array": "symbols, `[@a, @b]`",
    "symbol_name": "name of the symbol it defines",
    "type": "type",
}


def dialect_page(dialect: str, specs: Sequence[OpSpec], origin: str, generator: str) -> str:
    """The page of a dialect: a list of its ops, then a section for each."""
    lines = [
        f"# `{dialect}`",
        "",
        f"{_count(len(specs), 'operation')} of `{origin}`. Written by `{generator}` from the declarations;",
        "do not edit. [How to read this page](README.md).",
        "",
        "| operation | |",
        "|---|---|",
        *(f"| [`{spec.name}`](#{_anchor(spec.name)}) | {_cell(_first_sentence(spec.summary))} |" for spec in specs),
    ]
    for spec in specs:
        lines += ["", *_section(spec)]
    return "\n".join(lines) + "\n"


def index_page(dialects: Mapping[str, tuple[str, list[OpSpec]]], generator: str) -> str:
    """The first page: notation, dialects with origin and number of ops, and traits."""
    used = sorted({trait for _, specs in dialects.values() for spec in specs for trait in spec.traits})
    return "\n".join(
        [
            "# Operations by dialect",
            "",
            f"Written by `{generator}` from the declarations; do not edit. "
            "What the reference evaluator, tests and targets cover stands in",
            "[coverage.md](../coverage.md) and [target-coverage.md](../target-coverage.md).",
            "",
            "| dialect | operations | package |",
            "|---|---|---|",
            *(f"| [`{d}`]({d}.md) | {len(specs)} | `{origin}` |" for d, (origin, specs) in dialects.items()),
            "",
            "## How to read a page",
            "",
            "The first line shows an operation as it is written. `%name` is an operand or result, `NAME` an",
            "attribute (`@NAME` a symbol), `{name}` a region, `^name` a successor block, `type(%name)` a type that",
            "the text states. What stands between `⟦` and `⟧` may be left out; these two signs are no part of the",
            "language. `, ...` means any number. The table below it says which types an operand or result may have",
            "and which values an attribute.",
            "",
            "## Traits",
            "",
            "| trait | meaning |",
            "|---|---|",
            *(f"| `{trait}` | {TRAITS[trait]} |" for trait in used),
            "",
        ]
    )


def _section(spec: OpSpec) -> list[str]:
    lines = [f"## `{spec.name}`", "", _paragraphs(spec.summary), "", "```text", syntax_line(spec), "```"]
    fields = [
        *(_operand_row(operand) for operand in spec.operands),
        *(_attribute_row(attribute) for attribute in spec.attributes),
        *(_region_row(region) for region in spec.regions),
        *(f"| `^{name}` | successor | block |" for name in spec.successors),
        *(_result_row(result) for result in spec.results),
    ]
    if fields:
        lines += ["", "| field | | |", "|---|---|---|", *fields]
    for group in spec.same_type:
        lines += ["", f"One type: {', '.join(f'`%{name}`' for name in group)}."]
    if spec.traits:
        lines += ["", f"Traits: {', '.join(f'`{trait}`' for trait in sorted(spec.traits))}."]
    return lines


def _operand_row(operand: OperandDef) -> str:
    arity = {"one": "operand", "optional": "operand, optional", "variadic": "operands"}[operand.arity]
    return f"| `%{operand.name}` | {arity} | {_cell(operand.constraint.name)} |"


def _result_row(result: ResultDef) -> str:
    text = result.constraint.name
    if result.fixed is not None:
        text = f"`{result.fixed.text}`"
    elif result.same_type_as is not None:
        text += f", the type of `%{result.same_type_as}`"
    elif result.infer is not None:
        text += ", follows from the rest"
    return f"| `%{result.name}` | {'results' if result.variadic else 'result'} | {_cell(text)} |"


def _attribute_row(attribute: AttributeDef) -> str:
    need = "attribute" if attribute.required else "attribute, optional"
    text = _kind_text(attribute.kind)
    if attribute.default not in (None, ()):
        text += f"; default `{attribute.default}`"
    return f"| `{attribute.key}` | {need} | {_cell(text)} |"


def _kind_text(kind: AttributeKind) -> str:
    if isinstance(kind, EnumKind | FlagsKind):
        words = ", ".join(f"`{word}`" for word in kind.words)
        if isinstance(kind, FlagsKind):
            everything = f"; `{kind.all_word}` for all" if kind.all_word is not None else ""
            # One flag needs no separator.
            joint = ", joined by `|`" if len(kind.words) > 1 else ""
            return f"{kind.label}{joint}: {words}{everything}"
        return f"{kind.label}: {words}" + ("; `<N>` for another number" if kind.open else "")
    return _KINDS[kind.name]


def _region_row(region: RegionDef) -> str:
    need = "regions" if region.variadic else "region, optional" if region.optional else "region"
    parts = ["one block" if region.single_block else "blocks"]
    if region.terminator is not None:
        end = f"ends in `{region.terminator}`"
        parts.append(end + (", which may be left out when it is empty" if region.implicit else ""))
    return f"| `{{{region.name}}}` | {need} | {'; '.join(parts)} |"


def _first_sentence(summary: str) -> str:
    return " ".join(summary.split("\n\n")[0].split())


def _paragraphs(summary: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in summary.replace("``", "`").split("\n\n"))


def _cell(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


def _anchor(name: str) -> str:
    # As code hosts make anchors of headings: lower case, without dots.
    return name.lower().replace(".", "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def by_dialect(specs: Iterable[OpSpec]) -> dict[str, list[OpSpec]]:
    """Ops by dialect, both in order of their names."""
    found: dict[str, list[OpSpec]] = {}
    for spec in sorted(specs, key=lambda s: s.name):
        found.setdefault(spec.dialect, []).append(spec)
    return found
