"""Older spellings whose current form depends on more of the file than the words in them.

Each function takes the tokens of a file, ends with an empty one, and returns how many places it brought into the
current form (language reference, part 1, sections 22.1, 22.3 to 22.5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from loom.ir.types import I1, INTEGERS, SCALARS
from loom.text.literals import integer_value, is_integer
from loom.text.older.patterns import MAX_RUN, Token, balanced_end, collect_trivia, put_in_front
from loom.text.older.spellings import FAMILIES

PROVIDERS: Final = ("template.def", "template.ukernel")
# Selection always inlines, so providers no longer say whether they want it.
INLINE_WORDS: Final = ("inline", "noinline")
LOW_SYMBOLS: Final = ("low.func.def", "low.func.decl", "low.kernel.def")
CONSTANTS: Final = ("scalar.constant", "vector.constant")
# Tokens between an operation and the type of its result: more than any encoding operation has.
RESULT_REACH: Final = 200
# Tokens between a value and its use.
DEFINITION_REACH: Final = 10_000


@attrs.frozen
class Provider:
    """A template provider: where it starts, its family, and its signature without predicates."""

    start: int
    name: str
    family: str
    signature: tuple[Token, ...]
    end: int


def _head_end(tokens: Sequence[Token], start: int) -> int | None:
    """The position of the symbol that a module-level operation defines: the first one outside of brackets."""
    at = start
    while text := tokens[at].text:
        if text[0] == "@":
            return at
        if text in ("(", "<", "["):
            end = balanced_end(tokens, at)
            if end is None:
                return None
            at = end
        elif text in ("{", "}", "="):
            return None
        else:
            at += 1
    return None


def _providers(tokens: Sequence[Token]) -> Iterator[Provider]:
    for at, token in enumerate(tokens):
        if token.text not in PROVIDERS or tokens[at + 1].text != "<" or tokens[at + 2].text[:1] != "@":
            continue
        name = _head_end(tokens, at + 1)
        end = balanced_end(tokens, name + 1) if name is not None and tokens[name + 1].text == "(" else None
        if name is None or end is None:
            continue
        if tokens[end].text == "->":
            results = balanced_end(tokens, end + 1) if tokens[end + 1].text == "(" else None
            if results is None:
                continue
            end = results
        yield Provider(at, tokens[name].text, tokens[at + 2].text, tuple(tokens[name + 1 : end]), end)


def older_families(tokens: Sequence[Token]) -> frozenset[str]:
    """Families that older providers implement; nothing declared them."""
    return frozenset(
        "@" + tokens[at + 2].text
        for at, token in enumerate(tokens)
        if token.text in ("func.template", "func.ukernel") and tokens[at + 1].text == "<"
    )


def templates(tokens: list[Token], families: frozenset[str]) -> int:
    """Providers end in ``template.return``, are called by ``template.call``, take no inline policy, and their
    families (those in ``families``) are declared."""
    providers = list(_providers(tokens))
    count = _returns(tokens, [p.end for p in providers if tokens[p.start].text == "template.def"])
    names = {provider.name for provider in providers}
    drop: set[int] = set()
    for at, token in enumerate(tokens):
        if token.text in PROVIDERS:
            drop |= _inline_words(tokens, at + 1, _head_end(tokens, at + 1))
        elif token.text == "func.call":
            callee = _head_end(tokens, at + 1)
            if callee is not None and tokens[callee].text in names:
                token.text = "template.call"
                count += 1
                drop |= _inline_words(tokens, at + 1, callee)
    declared = {
        tokens[name].text
        for at, token in enumerate(tokens)
        if token.text == "template.decl" and (name := _head_end(tokens, at + 1)) is not None
    }
    added: dict[int, list[Token]] = {}
    for provider in providers:
        if provider.family in families - declared:
            declared.add(provider.family)
            words = ["template.decl", provider.family, *(token.text for token in provider.signature)]
            added[provider.start] = [Token(word, tokens[provider.start].origin) for word in words]
    made: list[Token] = []
    for at, token in enumerate(tokens):
        made += added.get(at, ())
        if at not in drop:
            made.append(token)
    tokens[:] = made
    return count + len(drop) + len(added)


def _inline_words(tokens: Sequence[Token], start: int, end: int | None) -> set[int]:
    return {at for at in range(start, end or start) if tokens[at].text in INLINE_WORDS}


def _returns(tokens: Sequence[Token], signatures: Sequence[int]) -> int:
    """Rename the terminators of the bodies behind signatures that end at the given positions."""
    bodies = set()
    for at in signatures:
        end = next((k for k in range(at, min(at + MAX_RUN, len(tokens))) if tokens[k].text == "{"), None)
        if end is not None:
            bodies.add(end)
    inside = count = 0
    nesting: list[bool] = []
    for at, token in enumerate(tokens if bodies else ()):
        if token.text == "{":
            nesting.append(at in bodies)
            inside += at in bodies
        elif token.text == "}" and nesting:
            inside -= nesting.pop()
        elif token.text == "func.return" and inside:
            token.text = "template.return"
            count += 1
    return count


def queries(tokens: list[Token]) -> int:
    """``encoding.isa %e, "name" : i1`` names its specification as a parameter and the type of its operand."""
    current = {older.split()[0]: new.split()[0] for older, new in FAMILIES}
    made: list[Token] = []
    count = at = 0
    while at < len(tokens):
        token = tokens[at]
        words = [t.text for t in tokens[at + 1 : at + 6]]
        type_ = None
        if token.text == "encoding.isa" and len(words) == 5 and words[1] == "," and words[3:] == [":", "i1"]:
            type_ = _encoding_type(tokens, at, words[0])
        if type_ is None:
            made.append(token)
            at += 1
            continue
        family = "#" + words[2].strip('"')
        leading, inner = collect_trivia(tokens[at : at + 6])
        text = ["encoding.isa", "<", current.get(family, family), ">", words[0], ":", type_]
        replacement = [Token(word, token.origin) for word in text]
        put_in_front(replacement, leading)
        made += replacement
        at += 6
        put_in_front(tokens[at : at + 1], inner)
        count += 1
    tokens[:] = made
    return count


def _encoding_type(tokens: Sequence[Token], before: int, value: str) -> str | None:
    """The encoding type of the last definition of a value before a position."""
    for at in range(before - 1, max(before - DEFINITION_REACH, -1), -1):
        if tokens[at].text != value:
            continue
        follow = tokens[at + 1].text
        if follow == ":" and tokens[at + 2].text.startswith("encoding"):
            return tokens[at + 2].text
        if follow == "=":
            for k in range(at + 2, min(before, at + RESULT_REACH)):
                if tokens[k].text in (":", "->") and tokens[k + 1].text.startswith("encoding"):
                    if tokens[k + 2].text not in ("}", ","):
                        return tokens[k + 1].text
                elif tokens[k].text == "=" and tokens[k - 1].text[:1] == "%":
                    break
    return None


def contracts(tokens: list[Token]) -> int:
    """Low functions name their representation contract; it was that of the target record."""
    records = {
        tokens[at + 4].text: (token.text, tokens[at + 2].text)
        for at, token in enumerate(tokens)
        if token.text.endswith(".target") and tokens[at + 1].text == "<" and tokens[at + 3].text == ">"
    }
    made: list[Token] = []
    count = 0
    in_head = False
    for at, token in enumerate(tokens):
        made.append(token)
        if token.text in LOW_SYMBOLS:
            in_head = True
        elif token.text[:1] == "@" and tokens[at - 1].text != "(":
            in_head = False
        elif in_head and token.text == "target" and tokens[at + 1].text == "(":
            contract = _contract(*records.get(tokens[at + 2].text, ("", "")))
            if contract is not None:
                made += [Token(word, token.origin) for word in ("<", contract, ">")]
                count += 1
    tokens[:] = made
    return count


def _contract(record: str, word: str) -> str | None:
    if not record:
        return None
    from loom.plugins.manager import load_plugins

    targets = load_plugins().targets.values()
    return next((profile.contract for profile in targets if profile.record == (record, word)), None)


def constants(tokens: list[Token]) -> int:
    """Integers above the signed maximum of their type are written in two's complement."""
    count = 0
    for at, token in enumerate(tokens):
        if token.text not in CONSTANTS or not is_integer(tokens[at + 1].text) or tokens[at + 2].text != ":":
            continue
        scalar = SCALARS.get(tokens[at + 3].text.rstrip(">").rpartition("x")[2].strip())
        if scalar is None or scalar not in INTEGERS or scalar is I1:
            continue
        bits = scalar.width
        value = integer_value(tokens[at + 1].text)
        if value is not None and 1 << (bits - 1) <= value < 1 << bits:
            tokens[at + 1].text = str(value - (1 << bits))
            count += 1
    return count


def pipelines(tokens: Sequence[Token]) -> int:
    """What a run supplies to a pipeline was called ``launch``, and such a body ended in ``pipeline.return``."""
    count = 0
    header = False
    for token in tokens:
        header = token.text == "pipeline.def" or (header and token.text != "{")
        current = "run" if header and token.text == "launch" else token.text
        if token.text == "pipeline.return":
            current = "pipeline.finish"
        count += current != token.text
        token.text = current
    return count
