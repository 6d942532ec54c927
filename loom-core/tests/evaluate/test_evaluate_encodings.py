"""Encodings as values: queries, assumptions that are checked, storages made at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loom.ir.diagnostics import LoomError
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.transforms.canonicalize import canonicalize
from loom.verify.verifier import require_valid

Programs = Any

SCHEMAS = {
    "i4": "#encoding.i4",
    "wide_i4": "#encoding.operand<element_format=i4, payload_elements=1>",
    "eight_i4": "#encoding.i4<payload_elements=8, payload_packing=little_endian_nibbles>",
    "q8": "#ggml.q8_0",
    "q6": "#ggml.q6_k",
}


def asked(query: str) -> str:
    """A function that defines one schema and asks another function a question about it."""
    definitions = "".join(
        f"""
func.def public @{name}() -> (i1) {{
  %schema = encoding.define {spec} : encoding<schema>
  %answer = func.call @ask(%schema) : (encoding<schema>) -> (i1)
  func.return %answer : i1
}}
"""
        for name, spec in SCHEMAS.items()
    )
    return f"""\
func.def @ask(%e: encoding<schema>) -> (i1) {{
  %answer = {query} %e : encoding<schema>
  func.return %answer : i1
}}
{definitions}"""


@pytest.mark.parametrize(
    ("query", "true"),
    [
        ("encoding.isa<#encoding.i4>", {"i4", "wide_i4"}),
        ("encoding.isa<#ggml.q8_0>", {"q8"}),
        ("encoding.matches<element_format = i4>", {"i4", "wide_i4", "eight_i4"}),
        ("encoding.matches<payload_packing = dense_lanes>", {"i4", "wide_i4"}),
        ("encoding.matches<element_format = i4, payload_packing = little_endian_nibbles>", {"eight_i4"}),
        ("encoding.matches<element_format = i8, affine = scale_only>", {"q8"}),
        ("encoding.matches<affine = none>", {"i4", "wide_i4", "eight_i4"}),
    ],
)
def test_queries_are_answered_alike_at_run_time_and_by_folding(programs: Programs, query: str, true: set[str]) -> None:
    text = asked(query)
    assert {name for name in SCHEMAS if bool(programs.call(text, name, [])[0])} == true
    for name, spec in SCHEMAS.items():
        module = parse_module(
            "func.def @f() -> (i1) {\n"
            f"  %e = encoding.define {spec} : encoding<schema>\n"
            f"  %answer = {query} %e : encoding<schema>\n"
            "  func.return %answer : i1\n}\n"
        )
        require_valid(module)
        canonicalize(module.symbols()["f"], module.symbols())
        assert f"scalar.constant {str(name in true).lower()} : i1" in print_module(module)


def folded(body: str, result: str = "%r", type_: str = "i1") -> str:
    """The body of a function after canonicalization."""
    module = parse_module(
        f"func.def @f(%n: index, %l: encoding<layout>, %e: encoding<schema>) -> ({type_}) {{\n{body}\n"
        f"  func.return {result} : {type_}\n}}\n"
    )
    require_valid(module)
    canonicalize(module.symbols()["f"], module.symbols())
    return print_module(module)


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ("%a = encoding.layout.strided [%n, 1] : encoding<layout>\n"
         "%r = encoding.isa<#encoding.layout.dense> %a : encoding<layout>", False),
        ("%a = encoding.layout.strided [%n, 1] : encoding<layout>\n"
         "%r = encoding.isa<#encoding.layout.strided<strides=[4, 2, 1]>> %a : encoding<layout>", False),
        ("%a = encoding.layout.strided [%n, 1] : encoding<layout>\n"
         "%r = encoding.isa<#encoding.layout.strided<strides=[4, 1]>> %a : encoding<layout>", None),
        ("%a = encoding.assume.spec %e, #ggml.q6_k : encoding<schema>\n"
         "%r = encoding.isa<#ggml.q6_k> %a : encoding<schema>", True),
        ("%a = encoding.assume.match<element_format = i8> %e : encoding<schema>\n"
         "%r = encoding.isa<#encoding.i4> %a : encoding<schema>", False),
        ("%a = encoding.assume.match<element_format = i8> %e : encoding<schema>\n"
         "%r = encoding.isa<#encoding.i8> %a : encoding<schema>", None),
        ("%a = encoding.assume.match<element_format = i8> %e : encoding<schema>\n"
         "%r = encoding.matches<element_format = i8> %a : encoding<schema>", True),
        ("%a = encoding.assume.match<element_format = i8> %e : encoding<schema>\n"
         "%r = encoding.matches<affine = none, element_format = i4> %a : encoding<schema>", False),
        ("%a = encoding.assume.match<element_format = i8> %e : encoding<schema>\n"
         "%r = encoding.matches<element_format = i8, affine = none> %a : encoding<schema>", None),
        ("%r = encoding.isa<#ggml.q6_k> %e : encoding<schema>", None),
        ("%s = encoding.define #encoding.storage<layout=#encoding.layout.dense> {schema = %e : encoding<schema>}"
         " : encoding<storage>\n"
         "%r = encoding.isa<#encoding.storage<layout=#encoding.layout.dense, schema=#ggml.q8_0>> %s"
         " : encoding<storage>", None),
    ],
)  # fmt: skip
def test_queries_are_decided_by_facts_or_left_open(body: str, answer: bool | None) -> None:
    text = folded(body)
    if answer is None:
        assert "encoding.isa" in text or "encoding.matches" in text
    else:
        assert f"scalar.constant {str(answer).lower()} : i1" in text


def test_assumptions_that_are_proven_go_away() -> None:
    text = folded(
        """\
  %a = encoding.define #encoding.i4 : encoding<schema>
  %b = encoding.assume.spec %a, #encoding.i4 : encoding<schema>
  %r = encoding.assume.match<element_format = i4> %b : encoding<schema>""",
        type_="encoding<schema>",
    )
    assert "assume" not in text
    text = folded(
        """\
  %a = encoding.layout.strided [%n, 1] : encoding<layout>
  %r = encoding.layout.assume.strided %a {rank = 2} : encoding<layout>""",
        type_="encoding<layout>",
    )
    assert "assume" not in text
    text = folded("  %r = encoding.layout.assume.dense %l : encoding<layout>", type_="encoding<layout>")
    assert "encoding.layout.assume.dense" in text


LAYOUTS = """\
func.def @use(%x: buffer, %l: encoding<layout>, %r: index, %c: index) -> (f32) {{
  %at = index.constant 0 : offset
  %known = {assume} %l{rank} : encoding<layout>
  %v = buffer.view %x[%at] : buffer -> view<[%r]x[%c]xf32, %known>
  %y = view.load %v[1, 2] : view<[%r]x[%c]xf32, %known> -> f32
  func.return %y : f32
}}
func.def public @f(%x: buffer, %pitch: index, %r: index, %c: index) -> (f32) {{
  %l = {layout} : encoding<layout>
  %y = func.call @use(%x, %l, %r, %c) : (buffer, encoding<layout>, index, index) -> (f32)
  func.return %y : f32
}}
"""


def layouts(assume: str, layout: str) -> str:
    rank = " {rank = 2}" if assume.endswith("strided") else ""
    return LAYOUTS.format(assume=assume, layout=layout, rank=rank)


@pytest.mark.parametrize(
    ("assume", "layout", "pitch", "element"),
    [
        ("encoding.layout.assume.strided", "encoding.layout.strided [%pitch, 1]", 7, 9),
        ("encoding.layout.assume.dense", "encoding.layout.strided [%pitch, 1]", 5, 7),
        ("encoding.layout.assume.dense", "encoding.layout.dense", 0, 7),
    ],
)
def test_an_assumed_layout_is_the_layout(
    programs: Programs, assume: str, layout: str, pitch: int, element: int
) -> None:
    x = np.arange(40, dtype=np.float32)
    assert programs.call(layouts(assume, layout), "f", [x, pitch, 3, 5]) == [np.float32(element)]


@pytest.mark.parametrize(
    ("assume", "layout", "pitch", "line", "what"),
    [
        ("encoding.layout.assume.strided", "encoding.layout.dense", 5, "%known =", "dense"),
        ("encoding.layout.assume.strided", "encoding.layout.strided [%pitch]", 5, "%known =", "1 strides"),
        ("encoding.layout.assume.dense", "encoding.layout.strided [1, %pitch]", 5, "%known =", "no dense layout"),
        ("encoding.layout.assume.dense", "encoding.layout.strided [%pitch, 1]", 8, "%v =", "axis 0"),
    ],
)
def test_a_false_assumption_about_a_layout_is_reported(
    programs: Programs, assume: str, layout: str, pitch: int, line: str, what: str
) -> None:
    x = np.arange(40, dtype=np.float32)
    found = programs.fault(lambda: programs.call(layouts(assume, layout), "f", [x, pitch, 3, 5]))
    assert found.code == "EVALUATE/006"
    assert programs.source_line(found).startswith(line)
    assert what in found.message


@pytest.mark.parametrize(
    "assumption", ["encoding.assume.spec %e, #ggml.q6_k", "encoding.assume.match<affine = none> %e"]
)
def test_a_false_assumption_about_a_schema_is_reported(programs: Programs, assumption: str) -> None:
    text = f"""\
func.def @ask(%e: encoding<schema>) {{
  %k = {assumption} : encoding<schema>
  func.return
}}
func.def public @f() {{
  %e = encoding.define #ggml.q8_0 : encoding<schema>
  func.call @ask(%e) : (encoding<schema>)
  func.return
}}
"""
    found = programs.fault(lambda: programs.call(text, "f", []))
    assert found.code == "EVALUATE/006"
    assert programs.source_line(found).startswith("%k =")


def test_a_storage_made_at_run_time_places_elements(programs: Programs) -> None:
    text = """\
func.def public @f(%x: buffer, %pitch: index) -> (i8, i1, i1) {
  %at = index.constant 0 : offset
  %layout = encoding.layout.strided [%pitch, 1] : encoding<layout>
  %storage = encoding.define #encoding.storage<schema=#encoding.i8> {layout = %layout : encoding<layout>}\
 : encoding<storage>
  %v = buffer.view %x[%at] : buffer -> view<3x4xi8, %storage>
  %y = view.load %v[2, 3] : view<3x4xi8, %storage> -> i8
  %ten = encoding.isa<#encoding.storage<layout=#encoding.layout.strided<strides=[10, 1]>, schema=#encoding.i8>>\
 %storage : encoding<storage>
  %nine = encoding.isa<#encoding.storage<layout=#encoding.layout.strided<strides=[9, 1]>, schema=#encoding.i8>>\
 %storage : encoding<storage>
  func.return %y, %ten, %nine : i8, i1, i1
}
"""
    assert programs.call(text, "f", [np.arange(40, dtype=np.int8), 10]) == [23, True, False]


def test_only_schemas_have_properties(programs: Programs) -> None:
    text = """\
func.def @f(%e: encoding<layout>) {
  %a = encoding.matches<affine = none> %e : encoding<layout>
  func.return
}
"""
    with pytest.raises(LoomError) as caught:
        programs.module(text)
    assert [d.code for d in caught.value.diagnostics] == ["TYPE/003"]
