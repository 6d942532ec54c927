"""Patterns over tokens, and what replaces them.

A pattern is written as tokens with spaces between them:

``$name``                any one token
``=name``                one word, bare or dotted; a replacement mentions it as ``$name``
``%name``, ``@name``     a value, a symbol
``$name...``             a run of tokens in which brackets balance, as short as possible
``{ k = $v , l = $w }``  a dictionary with exactly these keys, in any order
``⟦<…>⟧``                parameters in angle brackets, if there are any; they are dropped

Everything else stands for itself. A replacement is written likewise; ``@$name`` makes a symbol of a token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

# What `@` in front makes a symbol.
WORD: Final = re.compile(r"[A-Za-z_][\w$.-]*")
# Longest run that `$name...` takes. Statements are short; without a bound an unclosed bracket would cost the file.
MAX_RUN: Final = 512

OPENING: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}
CLOSING: Final = frozenset(OPENING.values())


@attrs.define(eq=False)
class Token:
    """A token of a file on its way into the current form.

    ``origin`` is the index of the token of the file that it stands for, ``trivia`` the comments (and ``None`` for
    blank lines) in front of it.
    """

    text: str
    origin: int
    trivia: list[str | None] = attrs.field(factory=list)


Bindings = dict[str, list[Token]]


@attrs.frozen
class Entry:
    """One key of a dictionary in a pattern, and the variable that its value binds."""

    key: str
    variable: str


@attrs.frozen
class Pattern:
    """The elements of a pattern: words, and dictionaries as tuples of entries."""

    elements: tuple[str | tuple[Entry, ...], ...]

    @property
    def first(self) -> str:
        """The literal token a match begins with."""
        first = self.elements[0]
        return first if isinstance(first, str) else "{"

    @classmethod
    def of(cls, text: str) -> Pattern:
        """Read a pattern. Raises ``ValueError`` for a dictionary that is not of the form above."""
        words = text.split()
        elements: list[str | tuple[Entry, ...]] = []
        at = 0
        while at < len(words):
            if words[at] != "{" or "}" not in words[at:]:
                elements.append(words[at])
                at += 1
                continue
            end = words.index("}", at)
            entries = []
            for k in range(at + 1, end, 4):
                key, equals, variable = words[k : k + 3]
                if equals != "=" or (k + 3 < end and words[k + 3] != ","):
                    raise ValueError(f"malformed dictionary in pattern {text!r}")
                entries.append(Entry(key, variable))
            elements.append(tuple(entries))
            at = end + 1
        return cls(tuple(elements))

    def match(self, tokens: Sequence[Token], start: int) -> tuple[int, Bindings] | None:
        """The end of a match that begins at ``start`` and what it binds, or ``None``."""
        bound: Bindings = {}
        at = start
        for k, element in enumerate(self.elements):
            if isinstance(element, tuple):
                end = _dictionary(tokens, at, element, bound)
            elif element == "⟦<…>⟧":
                end = balanced_end(tokens, at) if tokens[at].text == "<" else at
            elif element.startswith("$") and element.endswith("..."):
                following = self.elements[k + 1]
                assert isinstance(following, str), "a run ends at a word"
                end = _run_end(tokens, at, following)
                if end is not None:
                    bound[element] = list(tokens[at:end])
            else:
                end = at + 1 if _is(tokens[at].text, element) else None
                if end is not None:
                    bound[f"${element[1:]}" if element[0] == "=" else element] = [tokens[at]]
            if end is None:
                return None
            at = end
        return at, bound


def _is(text: str, element: str) -> bool:
    if not text:
        return False
    sigil = element[0]
    if sigil == "$":
        return text not in OPENING and text not in CLOSING
    if sigil == "=" and len(element) > 1:
        return WORD.fullmatch(text) is not None
    return text[0] == sigil and len(text) > 1 if sigil in "%@" and len(element) > 1 else text == element


def _run_end(tokens: Sequence[Token], start: int, following: str) -> int | None:
    """The first position from ``start`` on, outside of brackets, where ``following`` fits."""
    depth = 0
    for at in range(start, min(len(tokens), start + MAX_RUN)):
        text = tokens[at].text
        if depth == 0 and _is(text, following):
            return at
        depth += (text in OPENING) - (text in CLOSING)
        if depth < 0 or not text:
            return None
    return None


def balanced_end(tokens: Sequence[Token], start: int) -> int | None:
    """The position behind the bracket that closes the one at ``start``."""
    depth = 0
    for at in range(start, min(len(tokens), start + MAX_RUN)):
        text = tokens[at].text
        depth += (text in OPENING) - (text in CLOSING)
        if depth == 0:
            return at + 1
        if not text:
            return None
    return None


def _dictionary(tokens: Sequence[Token], start: int, entries: tuple[Entry, ...], bound: Bindings) -> int | None:
    if tokens[start].text != "{" or all(tokens[start + 1].text != entry.key for entry in entries):
        return None
    end = balanced_end(tokens, start)
    if end is None:
        return None
    found: dict[str, Token] = {}
    at = start + 1
    while at < end - 1:
        if at + 2 >= end or tokens[at + 1].text != "=":
            return None
        found[tokens[at].text] = tokens[at + 2]
        at += 3
        if tokens[at].text == ",":
            at += 1
        elif at != end - 1:
            return None
    if found.keys() != {entry.key for entry in entries}:
        return None
    bound.update((entry.variable, [found[entry.key]]) for entry in entries)
    return end


@attrs.frozen
class Rule:
    """One row: a pattern and the words that replace a match."""

    pattern: Pattern
    replacement: tuple[str, ...]

    @classmethod
    def of(cls, older: str, current: str) -> Rule:
        """Read a row."""
        return cls(Pattern.of(older), tuple(current.split()))

    def made(self, bound: Bindings, origin: int) -> list[Token]:
        """The replacement of a match that began at the token ``origin`` of the file."""
        made: list[Token] = []
        for word in self.replacement:
            if word in bound:
                made += bound[word]
            elif word.startswith("@$"):
                (token,) = bound[word[1:]]
                made.append(Token("@" + token.text, token.origin))
            else:
                made.append(Token(word, origin))
        return made


class Rules:
    """Rows by the word they begin with."""

    def __init__(self, rows: Iterable[tuple[str, str]]) -> None:
        self.by_word: dict[str, list[Rule]] = {}
        for older, current in rows:
            rule = Rule.of(older, current)
            self.by_word.setdefault(rule.pattern.first, []).append(rule)

    def rewrite(self, tokens: Sequence[Token], kept: frozenset[str] = frozenset()) -> tuple[list[Token], int]:
        """The tokens with every match replaced, also inside of what a match has bound, and how many there were.

        ``kept`` are words that mean something else in this file. ``tokens`` ends with an empty token.
        """
        out: list[Token] = []
        count = 0
        at = 0
        moved: list[str | None] = []
        while at < len(tokens):
            token = tokens[at]
            end, made = at + 1, [token]
            for rule in self.by_word.get(token.text, ()) if token.text not in kept else ():
                found = rule.pattern.match(tokens, at)
                if found is not None:
                    end = found[0]
                    leading, inner = collect_trivia(tokens[at:end])
                    made = rule.made(found[1], token.origin)
                    count += 1
                    if len(made) > 1:
                        rest, nested = self.rewrite([*made[1:], Token("", token.origin)], kept)
                        made = [made[0], *rest[:-1]]
                        count += nested
                    put_in_front(made, leading) if made else moved.extend(leading)
                    moved += inner
                    break
            else:
                if moved:
                    put_in_front(made, moved)
                    moved = []
            out += made
            at = end
        return out, count


def collect_trivia(tokens: Sequence[Token]) -> tuple[list[str | None], list[str | None]]:
    """Take the comments off tokens that are replaced: those in front of all, and those in between, which move behind
    as any inside an operation do."""
    leading = tokens[0].trivia
    inner: list[str | None] = [item for token in tokens[1:] for item in token.trivia if item is not None]
    for token in tokens:
        token.trivia = []
    return leading, inner


def put_in_front(tokens: Sequence[Token], trivia: list[str | None]) -> None:
    """Put comments in front of those the first token has."""
    if trivia:
        tokens[0].trivia = [*trivia, *tokens[0].trivia]
