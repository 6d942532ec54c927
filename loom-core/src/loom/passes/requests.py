"""Reading what a command is asked to run: ``name{opt=value,...}`` and ``@pipeline``, separated by commas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from loom.ir.attributes import Dictionary
from loom.ir.diagnostics import SourceFile, did_you_mean
from loom.passes.catalogue import PASSES, PIPELINES
from loom.text import attributes as attribute_syntax
from loom.text.lexer import END
from loom.text.parser import ParseFailure, Parser


@attrs.frozen
class Request:
    """One entry: a pass with options, or a pipeline of the module when ``key`` begins with ``@``.

    ``pipeline`` names what the entry came from, empty for one that was asked for by itself; ``first`` and ``last``
    say whether the entry begins and ends that pipeline.
    """

    key: str
    options: Mapping[str, object] = attrs.field(factory=dict)
    pipeline: str = ""
    first: bool = False
    last: bool = False


# Words joined with bars, as command lines have lists.
_WORDS: Final = re.compile(r"=\s*([A-Za-z_][\w-]*(?:\s*\|\s*[A-Za-z_][\w-]*)+)")


def read_requests(text: str) -> list[Request]:
    """The entries of a text. Raises ``ValueError`` with a message for a user."""
    text = _WORDS.sub(lambda found: f"= [{found[1].replace('|', ',')}]", text)
    parser = Parser(SourceFile("<passes>", text))
    found: list[Request] = []
    try:
        while parser.toks[parser.i] != END:
            found += _entry(parser)
            if parser.toks[parser.i] != END:
                parser.take(",")
    except ParseFailure:
        raise ValueError(parser.diagnostics[0].message) from None
    return found


def _entry(p: Parser) -> list[Request]:
    if p.toks[p.i][:1] == "@":
        return [Request("@" + p.symbol())]
    name = p.identifier("a pass or '@pipeline'")
    if name in PIPELINES and name not in PASSES:
        keys = PIPELINES[name]
        return [Request(key, {}, name, key == keys[0], key == keys[-1]) for key in keys]
    options = attribute_syntax.dictionary(p) if p.toks[p.i] == "{" else Dictionary()
    if name not in PASSES:
        close = did_you_mean(name, [*PASSES, *PIPELINES])
        raise ValueError(f"no pass is named '{name}'; " + (close or "see --list-passes"))
    return [Request(name, options)]
