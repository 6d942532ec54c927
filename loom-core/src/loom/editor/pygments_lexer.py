"""A Pygments lexer for Loom; Pygments finds it as ``loom`` and for ``.loom`` files.

Its words come from the declarations of all installed dialects when the first text is lexed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import ClassVar, Final

from pygments.lexer import Lexer  # type: ignore[import-untyped]  # Pygments has no annotations
from pygments.token import (  # type: ignore[import-untyped]
    Comment,
    Error,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Whitespace,
    _TokenType,
)

from loom.editor.grammar import TokenClass, grammar

TOKENS: Final[Mapping[TokenClass, _TokenType]] = {
    TokenClass.COMMENT: Comment.Single,
    TokenClass.STRING: String.Double,
    TokenClass.NUMBER: Number,
    TokenClass.CONSTANT: Keyword.Constant,
    TokenClass.OPERATION: Name.Function,
    TokenClass.KEYWORD: Keyword,
    TokenClass.PREDICATE: Name.Builtin,
    TokenClass.TYPE: Keyword.Type,
    TokenClass.VALUE: Name.Variable,
    TokenClass.SYMBOL: Name.Variable.Global,
    TokenClass.LABEL: Name.Label,
    TokenClass.ENCODING: Name.Decorator,
    TokenClass.ATTRIBUTE: Name.Attribute,
    TokenClass.INSTRUCTION: Name.Builtin.Pseudo,
    TokenClass.QUALIFIED: Name.Namespace,
    TokenClass.NAME: Name,
    TokenClass.OPERATOR: Operator,
    TokenClass.PUNCTUATION: Punctuation,
}


class LoomLexer(Lexer):  # type: ignore[misc]
    """Loom modules in text form."""

    name = "Loom"
    aliases: ClassVar[list[str]] = ["loom"]
    filenames: ClassVar[list[str]] = ["*.loom"]
    mimetypes: ClassVar[list[str]] = ["text/x-loom"]

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, _TokenType, str]]:
        """Every piece of the text with its place and token type; what belongs to no token is an error."""
        pattern, types = _compiled()
        for match in pattern.finditer(text):
            assert match.lastgroup is not None
            yield match.start(), types[match.lastgroup], match.group()


@cache
def _compiled() -> tuple[re.Pattern[str], Mapping[str, _TokenType]]:
    """One pattern with a named group per rule, and the token type of each group."""
    from loom.editor.vocabulary import core_vocabulary, installed_vocabulary
    from loom.plugins.manager import PluginError

    try:
        words = installed_vocabulary()
    except PluginError:
        # Commands report a broken plugin; documents can be coloured without it.
        words = core_vocabulary()
    types: dict[str, _TokenType] = {"space": Whitespace}
    parts = [r"(?P<space>\s+)"]
    for number, rule in enumerate(grammar(words)):
        types[f"rule{number}"] = TOKENS[rule.token_class]
        parts.append(f"(?P<rule{number}>{rule.pattern})")
    types["error"] = Error
    parts.append(r"(?P<error>.)")
    return re.compile("|".join(parts)), types
