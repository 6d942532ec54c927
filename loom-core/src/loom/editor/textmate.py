"""A TextMate grammar for Loom: what most editors and code hosts colour programs with.

It holds the words of core's dialects. Ops of other dialects are coloured as qualified names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from loom.editor.grammar import TokenClass, grammar
from loom.editor.vocabulary import core_vocabulary

# Scope names as the TextMate manual lists them, which themes know.
SCOPES: Final[Mapping[TokenClass, str]] = {
    TokenClass.COMMENT: "comment.line.double-slash",
    TokenClass.STRING: "string.quoted.double",
    TokenClass.NUMBER: "constant.numeric",
    TokenClass.CONSTANT: "constant.language",
    TokenClass.OPERATION: "support.function",
    TokenClass.KEYWORD: "keyword.other",
    TokenClass.PREDICATE: "support.function.predicate",
    TokenClass.TYPE: "storage.type",
    TokenClass.VALUE: "variable.other",
    TokenClass.SYMBOL: "entity.name.function",
    TokenClass.LABEL: "entity.name.label",
    TokenClass.ENCODING: "entity.other.encoding",
    TokenClass.ATTRIBUTE: "entity.other.attribute-name",
    TokenClass.INSTRUCTION: "support.function.instruction",
    TokenClass.QUALIFIED: "entity.name.namespace",
    TokenClass.NAME: "meta.name",
    TokenClass.OPERATOR: "keyword.operator",
    TokenClass.PUNCTUATION: "punctuation",
}


def textmate_grammar() -> dict[str, object]:
    """The grammar as its JSON form holds it."""
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "Loom",
        "scopeName": "source.loom",
        "fileTypes": ["loom"],
        "patterns": [
            {"name": f"{SCOPES[rule.token_class]}.loom", "match": rule.pattern} for rule in grammar(core_vocabulary())
        ],
    }


def textmate_json() -> str:
    """The text of ``loom.tmLanguage.json``."""
    return json.dumps(textmate_grammar(), indent=2) + "\n"
