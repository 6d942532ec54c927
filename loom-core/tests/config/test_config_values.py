"""Configuration values from options and files."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from loom.config_values import MAX_DEPTH, read_config, read_config_text
from loom.ir.diagnostics import LoomError


def values(text: str) -> dict[str, object]:
    return {key: found.value for key, found in read_config_text(text, "net.json").items()}


def faults(text: str) -> list[tuple[str, tuple[str, int, int] | None]]:
    with pytest.raises(LoomError) as caught:
        read_config_text(text, "net.json")
    return [(d.code, d.position()) for d in caught.value.diagnostics]


def test_options_are_literals_of_the_language_or_text() -> None:
    found = read_config(["net.depth=4", "@net.bias=-0.25", "fast=true", "mask=0xff", "w=#ggml.q8_0", 'name="a b"'])
    assert {key: value.value for key, value in found.items()} == {
        "net.depth": 4, "net.bias": -0.25, "fast": True, "mask": 255, "w": "#ggml.q8_0", "name": "a b",
    }  # fmt: skip
    assert found["fast"].value is True
    assert found["net.depth"].location.source.name == "--config"


def test_special_floats_are_floats() -> None:
    found = read_config(["a=inf", "b=-nan"])
    assert found["a"].value == math.inf
    assert math.isnan(float(found["b"].value))


def test_files_have_nested_keys_comments_and_trailing_commas() -> None:
    text = """{
      // how deep
      "net": {"depth": 4, "bias": -2.5e-1, /* inner */ "head": {"size.x": true,},},
      "weights": "#ggml.q8_0", // a comment with "quotes" and {
      "url": "a//b",
    }
    """
    assert values(text) == {
        "net.depth": 4, "net.bias": -0.25, "net.head.size.x": True, "weights": "#ggml.q8_0", "url": "a//b",
    }  # fmt: skip


def test_a_file_of_nothing_but_an_object_is_fine() -> None:
    assert values("\ufeff{}") == {}


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("", "PARSE/003", 1, 1),
        ("[]", "PARSE/003", 1, 1),
        ("{\n  depth: 4}", "PARSE/003", 2, 3),
        ('{"depth" 4}', "PARSE/003", 1, 10),
        ('{"depth": [4]}', "PARSE/003", 1, 11),
        ('{"depth": null}', "PARSE/003", 1, 11),
        ('{"depth": 4', "PARSE/003", 1, 12),
        ('{"depth": 4} x', "PARSE/003", 1, 14),
        ('{"depth": 4 /* }', "PARSE/003", 1, 13),
        ('{,"depth": 4}', "PARSE/003", 1, 2),
        ('{"de pth": 4}', "PARSE/003", 1, 2),
        ('{"": 4}', "PARSE/003", 1, 2),
        ('{"a": 1, "a": 2}', "PARSE/020", 1, 15),
        ('{"a": {"b": 1}, "a.b": 2}', "PARSE/020", 1, 24),
        ('{"a": 99999999999999999999}', "PARSE/015", 1, 7),
        ('{"a": 1.}', "PARSE/016", 1, 7),
        ('{"a": 0x10}', "PARSE/016", 1, 7),
        ('{"a": "\\q"}', "PARSE/023", 1, 7),
    ],
)
def test_a_malformed_file_is_diagnosed_where_it_is_wrong(text: str, code: str, line: int, column: int) -> None:
    assert faults(text) == [(code, ("net.json", line, column))]


def test_nesting_has_a_limit() -> None:
    def nested(depth: int) -> str:
        return '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)

    assert values(nested(MAX_DEPTH)) == {}
    assert [code for code, _ in faults(nested(MAX_DEPTH + 1))] == ["PARSE/021"]


@pytest.mark.parametrize(
    ("option", "code", "column"),
    [("depth", "PARSE/003", 6), ("depth=", "PARSE/003", 7), ("=4", "PARSE/003", 1), ("a b=4", "PARSE/003", 1),
     ("a=99999999999999999999", "PARSE/015", 3), ('a="x', "PARSE/023", 3)],
)  # fmt: skip
def test_a_malformed_option_is_diagnosed(option: str, code: str, column: int) -> None:
    with pytest.raises(LoomError) as caught:
        read_config([option])
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.position()) == (code, ("--config", 1, column))
    assert option in diagnostic.render()


def test_a_key_is_given_once_among_options_and_files(tmp_path: Path) -> None:
    path = tmp_path / "net.jsonc"
    path.write_text('// sizes\n{"net": {"depth": 4}}\n')
    assert read_config(["net.width=2"], [path])["net.depth"].value == 4
    with pytest.raises(LoomError) as caught:
        read_config(["net.depth=2"], [path])
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "PARSE/020"
    assert diagnostic.position() == (str(path), 2, 19)
    assert "--config:1:11: note: the first value is here" in diagnostic.render()
    with pytest.raises(LoomError):
        read_config([], [path, path])


def test_an_unreadable_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_config([], [tmp_path / "none.json"])
    (tmp_path / "bad.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(LoomError, match="UTF-8"):
        read_config([], [tmp_path / "bad.json"])
