"""Binding configuration: values, what declarations ask of them, the schema, and what specialization makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from loom import api
from loom.config_values import read_config
from loom.facts.analysis import FunctionFacts
from loom.ir.core import Module
from loom.ir.diagnostics import LoomError
from loom.link.linker import LinkOptions, link
from loom.specialize.configuration import bind_values, config_schema, open_keys

SOURCE = """\
config.decl @net.depth : %d: index where [range(%d, 2, 48), multiple_of(%d, 2)]

config.decl @net.bias : f32

config.decl @net.fast : i1

config.decl @net.table : encoding<schema>

config.def @net.width = 8 : i32

func.def public @cfg() -> (index, f32, i1, i32) {
  %d = config.get @net.depth : index
  %b = config.get @net.bias : f32
  %f = config.get @net.fast : i1
  %w = config.get @net.width : i32
  func.return %d, %b, %f, %w : index, f32, i1, i32
}
"""


def module(text: str = SOURCE) -> Module:
    found = api.parse(text, "net.loom")
    api.verify(found)
    return found


def bound(*options: str, text: str = SOURCE) -> Module:
    found = module(text)
    bind_values(found, read_config(options))
    api.verify(found)
    return found


def refused(*options: str, text: str = SOURCE) -> list[str]:
    with pytest.raises(LoomError) as caught:
        bound(*options, text=text)
    return [d.code for d in caught.value.diagnostics]


def test_values_replace_declarations_and_definitions() -> None:
    text = api.print(bound("net.depth=6", "net.bias=2", "net.fast=true", "net.table=#ggml.q8_0", "net.width=0x10"))
    for line in (
        "config.def @net.depth = 6 : index",
        "config.def @net.bias = 2.0 : f32",
        "config.def @net.fast = true : i1",
        "config.def @net.table = #ggml.q8_0 : encoding<schema>",
        "config.def @net.width = 16 : i32",
    ):
        assert line in text
    assert "config.decl" not in text


@pytest.mark.parametrize(
    ("option", "code"),
    [
        ("net.depth=1", "STRUCTURE/014"),
        ("net.depth=7", "STRUCTURE/014"),
        ("net.depth=2.5", "TYPE/005"),
        ("net.depth=many", "TYPE/005"),
        ("net.bias=true", "TYPE/005"),
        ("net.fast=2", "STRUCTURE/014"),
        ("net.width=0x1ffffffff", "STRUCTURE/014"),
        ("net.width=1.0", "TYPE/005"),
        ("net.table=4", "TYPE/005"),
        ("net.table=ggml", "TYPE/005"),
        ("net.table=#ggml.q9", "TYPE/005"),
        ("net.table=#encoding.layout.dense", "ENCODING/012"),
    ],
)
def test_values_that_do_not_suit_their_key(option: str, code: str) -> None:
    with pytest.raises(LoomError) as caught:
        bound(option)
    (fault,) = caught.value.diagnostics
    assert fault.code == code
    assert fault.position() == ("--config", 1, option.index("=") + 2)


def test_all_faults_are_found_at_once() -> None:
    assert refused("net.depth=1.5", "net.bias=false") == ["TYPE/005", "TYPE/005"]


def test_keys_that_the_program_does_not_have(tmp_path: Path) -> None:
    """A mistyped key on the command line is a warning with a suggestion; a file may serve several programs."""
    (warning,) = bind_values(module(), read_config(["net.dept=4"]))
    assert (warning.severity, warning.code) == ("warning", "SYMBOL/002")
    assert warning.hint == "did you mean 'net.depth'?"
    file = tmp_path / "net.json"
    file.write_text('{"other": {"key": 1}, /* ours */ "net": {"depth": 4,}}')
    found = module()
    assert bind_values(found, read_config([], [file])) == []
    assert "config.def @net.depth = 4 : index" in api.print(found)


def test_keys_without_a_value() -> None:
    names = [d.params["symbol_name"] for d in open_keys(bound("net.depth=4", "net.bias=1.0"))]
    assert names == ["net.fast", "net.table"]


def test_schema() -> None:
    schema = config_schema(bound("net.fast=false"))
    assert schema["count"] == 5
    rows = {row["name"]: row for row in schema["configs"]}
    assert list(rows) == sorted(rows)
    assert rows["net.depth"] == {
        "name": "net.depth",
        "state": "decl",
        "required": True,
        "type": "index",
        "constraints": [
            {
                "kind": "range",
                "args": [{"kind": "value"}, {"kind": "const", "value": 2}, {"kind": "const", "value": 48}],
            },
            {"kind": "multiple_of", "args": [{"kind": "value"}, {"kind": "const", "value": 2}]},
        ],
    }
    assert (rows["net.fast"]["state"], rows["net.fast"]["default"]) == ("def", False)
    assert (rows["net.width"]["default"], rows["net.width"]["required"]) == (8, False)


@pytest.mark.seed("B01")
def test_values_seed_facts_and_promises_hold_before() -> None:
    """Before a key is bound its predicates are facts of every read; afterwards the value itself is."""
    for options, expected in (((), (2, 48, 2)), (("net.depth=6",), (6, 6, 6))):
        function = bound(*options).symbols()["cfg"]
        get = function.regions[-1].entry.first
        assert get is not None
        facts = FunctionFacts(function).integer(get.results[0])
        assert (facts.lo, facts.hi, facts.divisor) == expected


def test_reads_of_encodings_become_definitions() -> None:
    text = """\
config.decl @table : encoding<schema>

func.def public @f() -> (encoding<schema>) {
  %t = config.get @table : encoding<schema>
  func.return %t : encoding<schema>
}
"""
    specialized = api.specialize(bound("table=#ggml.q8_0", text=text), None, ["f"]).module
    assert "%t = encoding.define #ggml.q8_0" in api.print(specialized)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("config.def @k = 300 : i8", "STRUCTURE/014"),
        ("config.def @k = 1 : f32", "TYPE/005"),
        ("config.def @k = -1 : offset", "STRUCTURE/014"),
        ("config.def @k = true : index", "TYPE/005"),
        ("config.def @k = #encoding.layout.dense : encoding<schema>", "ENCODING/012"),
        ('config.def @k = "text" : i32', "TYPE/005"),
        ("config.def @k = 1 : buffer", "TYPE/004"),
        ("config.decl @k : buffer", "TYPE/004"),
    ],
)
def test_definitions_and_declarations_are_checked(line: str, code: str) -> None:
    with pytest.raises(LoomError) as caught:
        module(line + "\n")
    assert [d.code for d in caught.value.diagnostics] == [code]


READER = "config.decl @k : %v: index where [range(%v, {low}, 9)]\n\nfunc.def public @{name}() -> (index) {{\n"
READER += "  %v = config.get @k : index\n  func.return %v : index\n}}\n"


def linked(*inputs: str, options: tuple[str, ...] = ()) -> Module:
    modules = [api.parse(text, f"m{i}.loom") for i, text in enumerate(inputs)]
    result = link(modules, [], LinkOptions(config=read_config(options))).module
    api.verify(result)
    return result


@pytest.mark.seed("B02")
def test_modules_may_declare_the_same_key() -> None:
    """One declaration is left that promises what each of them does, and a value must keep all promises."""
    readers = [READER.format(low=2, name="a"), READER.format(low=4, name="b")]
    result = linked(*readers)
    text = api.print(result)
    assert text.count("config.decl @k") == 1
    assert "range(%v, 2, 9), range(%v, 4, 9)" in text
    assert "config.def @k = 5 : index" in api.print(linked(*readers, options=("k=5",)))
    with pytest.raises(LoomError, match="range"):
        linked(*readers, options=("k=3",))
    with pytest.raises(LoomError, match="range"):
        linked(*readers, "config.def @k = 3 : index\n")


def test_a_definition_of_another_type_does_not_satisfy() -> None:
    with pytest.raises(LoomError) as caught:
        linked(READER.format(low=2, name="a"), "config.def @k = 3 : i32\n")
    assert caught.value.diagnostics[0].code == "SYMBOL/006"


def test_an_open_key_is_left_to_the_compiler_unless_all_must_be_bound() -> None:
    reader = [api.parse(READER.format(low=2, name="a"))]
    assert link(reader).module.symbols()["k"].name == "config.decl"
    with pytest.raises(LoomError, match="has no value"):
        link(reader, [], LinkOptions(require_config=True))
    with pytest.raises(LoomError, match="has no value"):
        api.specialize(link(reader).module, None, ["a"])
