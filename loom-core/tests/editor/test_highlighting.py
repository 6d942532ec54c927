"""The grammar for editors against the parser's own tokens, in Pygments and as TextMate engines apply it."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from editor_programs import ROOT, load_tool, programs

from loom.editor.grammar import TokenClass, grammar
from loom.editor.syntax import DIRECTIVES, syntax_line
from loom.editor.textmate import SCOPES
from loom.editor.vocabulary import core_vocabulary
from loom.ir.core import Op
from loom.spec.registry import CORE_DIALECTS, all_ops
from loom.text.lexer import token_spans

pytest.importorskip("pygments")
from pygments.token import Error, Name, Whitespace  # type: ignore[import-untyped]  # Pygments has no annotations

from loom.editor.pygments_lexer import TOKENS, LoomLexer

GRAMMAR = ROOT / "editors" / "vscode" / "syntaxes" / "loom.tmLanguage.json"
ALL = pytest.mark.parametrize("path", programs(), ids=lambda path: f"{path.parent.name}/{path.name}")


def pieces(text: str) -> list[tuple[int, object, str]]:
    """Pygments' pieces of a text but white space."""
    return [piece for piece in LoomLexer().get_tokens_unprocessed(text) if piece[1] is not Whitespace]


@ALL
def test_every_token_has_a_class_and_none_is_an_error(path: Path) -> None:
    """And nothing is a mere name but words that packages give meaning to: target profiles."""
    text = path.read_text()
    found = pieces(text)
    assert not [value for _, kind, value in found if kind is Error]
    names = {value for _, kind, value in found if kind is Name}
    assert names <= {"gfx11-generic", "gfx12-generic"}
    assert "".join(value for _, _, value in LoomLexer().get_tokens_unprocessed(text)) == text


@ALL
def test_pieces_end_where_the_parser_s_tokens_end(path: Path) -> None:
    """A piece never reaches beyond a token: highlighting and parsing see the same words."""
    text = path.read_text()
    found = pieces(text)
    starts = {start for start, _, _ in found}
    ends = {start + len(value) for start, _, value in found}
    for start, end in token_spans(text):
        assert start in starts, text[start:end]
        assert end in ends, text[start:end]


@ALL
def test_textmate_engines_find_the_same_classes(path: Path) -> None:
    """The grammar file applied line by line: the earliest match, then the first pattern, as editors do."""
    scopes = {TOKENS[token_class]: f"{scope}.loom" for token_class, scope in SCOPES.items()}
    # Ops of target packages are qualified names to the grammar, which knows core's dialects only.
    expected = []
    for _, kind, value in pieces(path.read_text()):
        external = kind is TOKENS[TokenClass.OPERATION] and value.partition(".")[0] not in CORE_DIALECTS
        expected.append((scopes[TOKENS[TokenClass.QUALIFIED]] if external else scopes[kind], value))
    assert list(textmate_pieces(path.read_text())) == expected


def textmate_pieces(text: str) -> Iterator[tuple[str, str]]:
    rules = [(p["name"], re.compile(p["match"])) for p in json.loads(GRAMMAR.read_text())["patterns"]]
    for line in text.splitlines():
        at = 0
        while True:
            matches = [(m.start(), order, name, m) for order, (name, r) in enumerate(rules) if (m := r.search(line, at))]
            if not matches:
                break
            _, _, name, match = min(matches, key=lambda found: found[:2])
            yield name, match.group()
            at = match.end()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tensor<0xf32>", "tensor:type <:punctuation 0:number x:operator f32:type >:punctuation"),
        (
            "view<[%n]x4xbf16, align(1)>",
            "view:type <:punctuation [:punctuation %n:value ]:punctuation x:operator 4:number x:operator bf16:type "
            ",:punctuation align:keyword (:punctuation 1:number ):punctuation >:punctuation",
        ),
        ("group<4x[%n]>", "group:type <:punctuation 4:number x:operator [:punctuation %n:value ]:punctuation >:punctuation"),
        ("reg<amdgpu.sgpr x2>", "reg:type <:punctuation amdgpu.sgpr:qualified x2:number >:punctuation"),
        ("0x1.8p-3 -inf 1.5e-7", "0x1.8p-3:number -inf:constant 1.5e-7:number"),
        ("{scope = true}", "{:punctuation scope:attribute =:operator true:constant }:punctuation"),
        ("[range(%n, 0, 4)]", "[:punctuation range:predicate (:punctuation %n:value ,:punctuation 0:number ,:punctuation 4:number ):punctuation ]:punctuation"),
        ('%a = scf.if // "x"', '%a:value =:operator scf.if:operation // "x":comment'),
        ("scf.iffy", "scf.iffy:qualified"),
        ("^bb0(%x: i32)", "^bb0:label (:punctuation %x:value ::punctuation i32:type ):punctuation"),
        ("#target.subgroup.size<32>", "#target.subgroup.size:encoding <:punctuation 32:number >:punctuation"),
        ("  s_endpgm", "s_endpgm:instruction"),
    ],
)
def test_words_are_told_apart(text: str, expected: str) -> None:
    """Extents from hexadecimal numbers, keys from keywords, whole names from their beginnings."""
    names = {kind: token_class.value for token_class, kind in TOKENS.items()}
    assert " ".join(f"{value}:{names[kind]}" for _, kind, value in pieces(text)) == expected


def test_what_is_no_token_is_an_error() -> None:
    assert [value for _, kind, value in pieces('%x = ` "open') if kind is Error] == ["`", '"']


def test_a_broken_plugin_does_not_keep_documents_from_being_coloured(tmp_path: Path) -> None:
    """The words of core remain, in an interpreter whose installed plugins include one that cannot be imported."""
    information = tmp_path / "broken-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[loom]\nbroken = no_such_module_anywhere\n")
    script = (
        "from loom.plugins.manager import PluginError, load_plugins\n"
        "try:\n    load_plugins()\nexcept PluginError:\n    print('broken')\n"
        "from loom.editor.pygments_lexer import LoomLexer\n"
        "print(*(v for _, k, v in LoomLexer().get_tokens_unprocessed('%a = scf.if') if 'Function' in str(k)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    result = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert result.stdout.split() == ["broken", "scf.if"], result.stderr


def test_every_class_has_a_token_type_and_a_scope() -> None:
    used = {rule.token_class for rule in grammar(core_vocabulary())}
    assert used == set(TokenClass) == set(TOKENS) == set(SCOPES)
    assert len(set(TOKENS.values())) == len(TOKENS)


@pytest.mark.parametrize("cls", all_ops().values(), ids=lambda cls: cls.name)
def test_every_operation_has_a_syntax_line_of_known_words(cls: type[Op]) -> None:
    """Each directive of its format is described, and the line names every operand that text can show."""
    line = syntax_line(cls.spec)
    assert line.count("⟦") == line.count("⟧")
    (operation,) = [value for _, kind, value in pieces(line) if kind is TOKENS[TokenClass.OPERATION]][:1]
    assert operation == cls.name


def test_words_of_directives_are_words_of_their_readers() -> None:
    """The table of directives follows the code: every word stands in a module that reads formats."""
    readers = ("text/*.py", "low/*.py", "dialects/*/syntax.py")
    source = "".join(path.read_text() for name in readers for path in (ROOT / "loom-core/src/loom").glob(name))
    for name, syntax in DIRECTIVES.items():
        for word in syntax.words:
            assert f'"{word}"' in source, (name, word)


def test_the_grammar_is_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = load_tool("write_editor_grammar")
    assert tool.main(["--check"]) == 0, capsys.readouterr().err
    stale = tmp_path / "loom.tmLanguage.json"
    stale.write_text("{}\n")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "GRAMMAR", stale)
    assert tool.main(["--check"]) == 1
    assert "loom.tmLanguage.json is not current" in capsys.readouterr().err
    assert tool.main([]) == 0
    assert stale.read_text() == GRAMMAR.read_text()


def test_the_package_announces_the_lexer() -> None:
    project = tomllib.loads((ROOT / "loom-core" / "pyproject.toml").read_text())
    (place,) = project["project"]["entry-points"]["pygments.lexers"].values()
    module, _, name = place.partition(":")
    assert getattr(importlib.import_module(module), name) is LoomLexer
