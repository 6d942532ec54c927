"""Splitting source text into tokens (language reference, part 1, section 1).

One regular expression finds all tokens of a module in one call. Token texts are kept, positions are not: they
are recomputed only when something is reported. A shaped type or register type is a single token, so that a
dimension list needs no scanner mode of its own and static types can be looked up by their text.
"""

from __future__ import annotations

import re
from typing import Final

# A type on one line and without a comment, which may contain anything. Others are put together from their tokens.
_BALANCED = r"<[^<>\n/]*(?:<[^<>\n/]*(?:<[^<>\n/]*(?:<[^<>\n/]*>[^<>\n/]*)*>[^<>\n/]*)*>[^<>\n/]*)*>"

TOKEN_ALTERNATIVES: Final = (
    # The commonest first: alternatives are tried in order.
    r"%[A-Za-z0-9_$][A-Za-z0-9_$-]*"
    r"|[,:=(){}\[\]<>|]"
    r"|//[^\n]*"  # comment
    r"|\n\s*"  # a second line end: blank line(s)
    rf"|(?:vector|view|tile|tensor|group|pool|reg|encoding)(?=<){_BALANCED}"
    r"|[A-Za-z_$][A-Za-z0-9_$-]*(?:\.[A-Za-z0-9_$][A-Za-z0-9_$-]*)*"
    r"|->"
    r"|-?(?:0x[0-9a-fA-F]+(?:\.[0-9a-fA-F]+)?(?:p[+-]?[0-9]+)?|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
    r"|-(?:inf|nan)\b"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|[@#][A-Za-z_$][A-Za-z0-9_$-]*(?:\.[A-Za-z0-9_$][A-Za-z0-9_$-]*)*"
    r"|\^[A-Za-z0-9_$][A-Za-z0-9_$-]*"
    r"|[^\s]"  # punctuation, or a stray character
)

_TOKENS: Final = re.compile(rf"[ \t\r]*\n?[ \t\r]*({TOKEN_ALTERNATIVES})")

END: Final = ""
# Empty tokens behind the last one, so that looking ahead needs no bounds checks.
SENTINELS: Final = 8
PUNCTUATION: Final = frozenset("(){}[]<>=:,|-")


class Tokens:
    """The tokens of a text without comments and blank lines.

    ``trivia`` maps the index of a token to the blank lines and comments in front of it: a list of comment
    texts in which ``None`` stands for one or more blank lines. ``texts`` ends with empty sentinels, so looking
    ahead needs no bounds checks.
    """

    __slots__ = ("texts", "trivia", "trivia_keys")

    def __init__(self, text: str) -> None:
        found = _TOKENS.findall(text)
        trivia: dict[int, list[str | None]] = {}
        marks = [i for i, token in enumerate(found) if token[0] in "\n/"]
        if marks:
            kept: list[str] = []
            at = 0
            for mark in marks:
                token = found[mark]
                if token[0] == "/" and not token.startswith("//"):
                    continue
                kept += found[at:mark]
                at = mark + 1
                # A blank line, or the text of a comment.
                body = None if token[0] == "\n" else token[2:].rstrip("\r").removeprefix(" ")
                trivia.setdefault(len(kept), []).append(body)
            kept += found[at:]
            found = kept
        found += [END] * SENTINELS
        self.texts: list[str] = found
        self.trivia = trivia
        self.trivia_keys = list(trivia)

    @classmethod
    def of(cls, texts: list[str], trivia: dict[int, list[str | None]]) -> Tokens:
        """Tokens that are made, not found in a text."""
        made = cls.__new__(cls)
        made.texts = [*texts, *[END] * SENTINELS]
        made.trivia = trivia
        made.trivia_keys = list(trivia)
        return made


def token_spans(text: str) -> list[tuple[int, int]]:
    """Character ranges of the tokens of :class:`Tokens`, by index."""
    return [
        match.span(1)
        for match in _TOKENS.finditer(text)
        if match.group(1)[0] != "\n" and not match.group(1).startswith("//")
    ]


def is_word(token: str) -> bool:
    """Whether a token is a bare or dotted identifier."""
    # Letters outside of ASCII are tokens too: stray ones.
    head = token[:1]
    return (head.isalpha() and head.isascii()) or head in ("_", "$")


def classify(token: str) -> str:
    """A word for the kind of a token, for messages."""
    if token == END:
        return "end of file"
    head = token[0]
    if head == "%":
        return f"value '{token}'"
    if head == "@":
        return f"symbol '{token}'"
    if head == "^":
        return f"label '{token}'"
    if head == '"':
        return "string"
    return f"'{token}'"
