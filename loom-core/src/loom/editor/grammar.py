"""The lexical grammar for editors: an ordered list of patterns, the same for every highlighter.

Patterns use what the regular expressions of Python and of TextMate's engine (Oniguruma) have in common, and never
match across a line end. The first pattern that matches at a place wins. A shaped type is one token to the parser; here
its extents, element and encoding are told apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import groupby
from typing import Final

import attrs

from loom.editor.vocabulary import Vocabulary


class TokenClass(Enum):
    """What a piece of text is."""

    COMMENT = "comment"
    STRING = "string"
    NUMBER = "number"
    CONSTANT = "constant"
    OPERATION = "operation"
    KEYWORD = "keyword"
    PREDICATE = "predicate"
    TYPE = "type"
    VALUE = "value"
    SYMBOL = "symbol"
    LABEL = "label"
    ENCODING = "encoding"
    ATTRIBUTE = "attribute"
    INSTRUCTION = "instruction"
    QUALIFIED = "qualified"
    NAME = "name"
    OPERATOR = "operator"
    PUNCTUATION = "punctuation"


@attrs.frozen
class Rule:
    """A pattern and the class of what it matches."""

    token_class: TokenClass
    pattern: str


_NAME: Final = r"[A-Za-z_$][A-Za-z0-9_$-]*"
_DOTTED: Final = rf"{_NAME}(?:\.[A-Za-z0-9_$][A-Za-z0-9_$-]*)*"
_SSA_NAME: Final = r"[A-Za-z0-9_$][A-Za-z0-9_$-]*"
# A word neither starts nor ends inside a longer name.
_START: Final = r"(?<![A-Za-z0-9_$.-])"
_END: Final = r"(?![A-Za-z0-9_$-]|\.[A-Za-z0-9_$])"


def grammar(words: Vocabulary) -> tuple[Rule, ...]:
    """The patterns for a vocabulary, most specific first."""
    scalars = _alternatives(words.scalar_types)
    c = TokenClass
    return (
        Rule(c.COMMENT, r"//.*"),
        Rule(c.STRING, r'"(?:[^"\\\n]|\\.)*"'),
        Rule(c.VALUE, f"%{_SSA_NAME}"),
        Rule(c.SYMBOL, f"@{_DOTTED}"),
        Rule(c.ENCODING, f"#{_DOTTED}"),
        Rule(c.LABEL, rf"\^{_SSA_NAME}"),
        # Extents stand before hexadecimal numbers: in tensor<0xf32> the 0 is an extent.
        Rule(c.NUMBER, rf"(?<=[<x])[0-9]+(?=x(?:[0-9\[]|{scalars}{_END}))"),
        Rule(c.OPERATOR, rf"(?<=[0-9\]])x(?=[0-9\[]|{scalars}{_END})"),
        Rule(c.TYPE, rf"(?<=[0-9\]]x){scalars}{_END}"),
        Rule(c.NUMBER, r"-?0x[0-9a-fA-F]+(?:\.[0-9a-fA-F]+)?(?:p[+-]?[0-9]+)?"),
        Rule(c.NUMBER, r"(?<=[\]0-9]x)[0-9]+(?=[>x])"),
        # The unit count of a register type: reg<amdgpu.vgpr x2>.
        Rule(c.NUMBER, r"(?<=\s)x[0-9]+(?=[>\s])"),
        Rule(c.NUMBER, r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"),
        Rule(c.OPERATION, f"{_START}{_operations(words.operations)}{_END}"),
        # Keys of dictionaries, whatever else the word may be.
        Rule(c.ATTRIBUTE, rf"{_START}{_DOTTED}(?=\s*=(?!=))"),
        Rule(c.CONSTANT, f"{_START}-?{_alternatives(words.constants)}{_END}"),
        Rule(c.TYPE, rf"{_START}(?:{_alternatives(words.type_heads)}(?=<)|{scalars}{_END})"),
        Rule(c.PREDICATE, rf"{_START}{_alternatives(words.predicates)}(?=\()"),
        Rule(c.KEYWORD, f"{_START}{_alternatives(words.keywords)}{_END}"),
        Rule(c.TYPE, f"{_START}{_alternatives(words.type_heads)}{_END}"),
        Rule(c.QUALIFIED, rf"{_START}{_NAME}(?:\.[A-Za-z0-9_$][A-Za-z0-9_$-]*)+"),
        # In an assembly body: what follows '= ' or an indentation.
        Rule(c.INSTRUCTION, f"(?<== |  ){_NAME}"),
        Rule(c.NAME, f"{_START}{_NAME}"),
        Rule(c.OPERATOR, r"->|[=|-]"),
        Rule(c.PUNCTUATION, r"[(){}\[\]<>:,]"),
    )


def _alternatives(words: Iterable[str]) -> str:
    # Longest first: an alternative is not reconsidered when a shorter one matched.
    return "(?:" + "|".join(re.escape(w) for w in sorted(words, key=lambda w: (-len(w), w))) + ")"


def _operations(names: Iterable[str]) -> str:
    """The op names, by dialect: few alternatives are tried in vain."""
    by_dialect: Mapping[str, list[str]] = {
        dialect: [name.partition(".")[2] for name in group]
        for dialect, group in groupby(sorted(names), key=lambda name: name.partition(".")[0])
    }
    return "(?:" + "|".join(rf"{re.escape(d)}\.{_alternatives(rest)}" for d, rest in by_dialect.items()) + ")"
