"""Bringing the tokens of a file into the current form.

Nothing here runs for a file in the current form: the parser asks only when it cannot read a file, or when it is told
to migrate. Tokens keep the places of what they were written as, so that diagnostics point into the file.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import cache

import attrs

from loom.ir.diagnostics import SourceFile
from loom.text.lexer import END, SENTINELS, Tokens, token_spans
from loom.text.older import context, spellings
from loom.text.older.patterns import Rules, Token, put_in_front


@attrs.frozen
class CurrentForm:
    """A file in the current form, and how many older spellings it had."""

    source: SourceFile
    tokens: Tokens
    count: int


@cache
def _family_rules() -> Rules:
    return Rules(spellings.FAMILIES)


@cache
def _rules() -> Rules:
    predicates = [(f"{older} (", f"{current} (") for older, current in spellings.PREDICATES.items()]
    return Rules((*spellings.OPERATIONS, *spellings.TARGETS, *predicates, *spellings.FAMILIES))


@cache
def _type_rows() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(older + r"\Z"), current) for older, current in spellings.TYPES)


def current_form(text: str, name: str, *, migrate: bool = False) -> CurrentForm | None:
    """The file in the current form, or ``None`` when it has no older spelling.

    With ``migrate`` also what is valid text today and meant something else then is rewritten.
    """
    found = Tokens(text)
    tokens = [Token(word, i, found.trivia.get(i, [])) for i, word in enumerate(found.texts[:-SENTINELS])]
    count = len(tokens)
    tokens.append(Token(END, count, found.trivia.get(count, [])))
    # Looking ahead needs no bounds checks.
    tokens += [Token(END, count) for _ in range(SENTINELS - 1)]
    header = _split_header(tokens[0], text)
    # A file may use an older family name as an alias of its own.
    kept = frozenset(a.text for a, b in itertools.pairwise(tokens) if a.text[:1] == "#" and b.text == "=")
    families = context.older_families(tokens)
    tokens, count = _rules().rewrite(tokens, kept)
    count += _types(tokens, kept)
    count += context.templates(tokens, families)
    count += context.queries(tokens)
    count += context.contracts(tokens)
    if migrate:
        count += context.constants(tokens) + context.pipelines(tokens)
    if not count:
        return None
    put_in_front(tokens, header)
    spans = token_spans(text)
    spans.append((len(text.rstrip()),) * 2)
    source = SourceFile(name, text)
    source.set_token_spans([spans[token.origin] for token in tokens])
    trivia = {i: token.trivia for i, token in enumerate(tokens) if token.trivia}
    return CurrentForm(source, Tokens.of([token.text for token in tokens if token.text != END], trivia), count)


def _split_header(first: Token, text: str) -> list[str | None]:
    """Take the comments that head the file off its first token."""
    if not text.startswith("//") or None not in first.trivia:
        return []
    end = first.trivia.index(None) + 1
    header, first.trivia = first.trivia[:end], first.trivia[end:]
    return header


def _types(tokens: Sequence[Token], kept: frozenset[str]) -> int:
    count = 0
    for token in tokens:
        if "<" not in token.text or token.text[0] == '"':
            continue
        before = token.text
        for pattern, current in _type_rows():
            token.text = pattern.sub(current, token.text)
        if "#" in token.text:
            head, opening, rest = token.text.partition("#")
            words = [Token(word, 0) for word in Tokens(opening + rest).texts[:-SENTINELS]]
            made, found = _family_rules().rewrite([*words, Token(END, 0)], kept)
            if found:
                token.text = head + " ".join(word.text for word in made[:-1])
        count += token.text != before
    return count
