"""Rules of storage, views, alignment and encoded operands."""

from __future__ import annotations

import pytest

from loom.ir.diagnostics import Diagnostic, LoomError
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import verify_module


def findings(text: str) -> list[Diagnostic]:
    try:
        module = parse_module(text, "t.loom")
    except LoomError as error:
        return list(error.diagnostics)
    return verify_module(module)


def codes(text: str) -> list[str]:
    return [d.code for d in findings(text)]


def function(*lines: str, arguments: str = "%b: buffer, %n: index, %at: offset") -> str:
    body = "".join(f"  {line}\n" for line in lines)
    return f"func.def @f({arguments}) {{\n{body}  func.return\n}}\n"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        # A buffer is not accessed and has no shape of its own.
        ("%r = view.load %b[0] : buffer -> i32", "TYPE/003"),
        ("%r = view.subview %b[0] : buffer -> view<4xi32>", "TYPE/003"),
        ("%r = view.refine %b : buffer -> view<4xi32>", "TYPE/003"),
        ("%r = buffer.assume.memory_space<global> %b : buffer<4xi32>", "PARSE/003"),
        # A view is no storage: it has no length, no assumptions, and no views are made of it.
        ("%v = buffer.view %b[%at] : buffer -> view<4xi32>\n  %r = buffer.length %v", "TYPE/003"),
        (
            "%v = buffer.view %b[%at] : buffer -> view<4xi32>\n"
            "  %r = buffer.assume.alignment %v {minimum_alignment = 4} : view<4xi32>",
            "TYPE/003",
        ),
        (
            "%v = buffer.view %b[%at] : buffer -> view<4xi32>\n  %r = buffer.view %v[%at] : view<4xi32> -> view<4xi32>",
            "TYPE/003",
        ),
    ],
)
@pytest.mark.seed("V01")
def test_buffers_are_storage_and_views_are_windows(line: str, code: str) -> None:
    assert codes(function(line))[0] == code


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("view<4xi32, align(4)>", "view<4xi32>"),
        ("view<4xi32, align(2)>", "view<4xi32, align(2)>"),
        ("view<4xi64, align(4)>", "view<4xi64, align(4)>"),
        ("view<4xi8, align(1)>", "view<4xi8>"),
        ("view<4xf64, align(8)>", "view<4xf64>"),
        ("view<4xi32, %l, align(1)>", "view<4xi32, %l, align(1)>"),
        ("view<4xi32, %l, align(4)>", "view<4xi32, %l>"),
    ],
)
@pytest.mark.seed("G02")
def test_the_natural_alignment_is_not_written(written: str, canonical: str) -> None:
    layout = "%l = encoding.layout.strided [2] : encoding<layout>"
    text = function(layout, f"%v = buffer.view %b[%at] : buffer -> {written}")
    assert codes(text) == []
    assert print_module(parse_module(text, "t.loom")) == text.replace(written, canonical)


@pytest.mark.parametrize(
    "type_",
    [
        "view<4xi32, align(8)>", "view<4xi32, align(3)>", "view<4xi32, align(0)>", "view<4xi32, align(-4)>",
        "view<4xi8, align(2)>", "view<4xi32, align(1), %l>",
    ],
)  # fmt: skip
@pytest.mark.seed("G02")
def test_an_alignment_is_a_power_of_two_up_to_the_natural_one(type_: str) -> None:
    layout = "%l = encoding.layout.strided [2] : encoding<layout>"
    assert codes(function(layout, f"%v = buffer.view %b[%at] : buffer -> {type_}"))


@pytest.mark.seed("G05")
def test_packed_and_natural_views_are_different_arguments() -> None:
    """Calls match the demand exactly, in both directions; a refinement changes it, a subview does not."""
    natural, packed = "view<4xi32>", "view<4xi32, align(1)>"
    for have, want in ((natural, packed), (packed, natural)):
        declare = f"func.decl @g(%v: {want})\n\n"
        view = f"%v = buffer.view %b[%at] : buffer -> {have}"
        assert codes(declare + function(view, f"func.call @g(%v) : ({have})")) == ["TYPE/001"]
        refine = f"%w = view.refine %v : {have} -> {want}"
        assert codes(declare + function(view, refine, f"func.call @g(%w) : ({want})")) == []
        assert codes(function(view, f"%s = view.subview %v[0] : {have} -> {have}")) == []
        assert codes(function(view, f"%s = view.subview %v[0] : {have} -> {want}")) != []


@pytest.mark.parametrize(
    ("parameters", "given", "missing"),
    [
        ("affine=scale_plus_min", "", ["minimum"]),
        ("affine=scale_plus_zero_point", "bias", ["zero_point"]),
        ("affine=scale_plus_bias", "bias", []),
        ("affine=sum_correction", "", ["sum_correction"]),
        ("codebook=dynamic_table_operand", "", ["codebook"]),
        ("sparsity=mask", "", ["sparsity"]),
        ("scale_format=f32, scale_operands=3, scale_topology=row", "scale", ["secondary_scale", "scale2"]),
        ("scale_format=f32, scale_operands=1, scale_topology=runtime_amax_derived", "scale", ["amax"]),
        ("payload_packing=dense_lanes", "", []),
    ],
)
def test_a_known_schema_names_the_operands_that_it_needs(parameters: str, given: str, missing: list[str]) -> None:
    aux = f" {{{given} = %x : vector<1xf32>}}" if given else ""
    using = f" using {{{given} = %x : vector<1xf32>, schema = %s : encoding<schema>}}" if given else (
        " using {schema = %s : encoding<schema>}"
    )  # fmt: skip
    schema = f"%s = encoding.define #encoding.u8<{parameters}> : encoding<schema>"
    arguments = "%p: vector<4xi8>, %x: vector<1xf32>, %n: index"
    for line in (
        f"%r = vector.decode %p using %s{aux} : vector<4xi8>, encoding<schema> -> vector<4xf32>",
        f"%r = vector.fragment<lhs> %p shape [%n, %n]{using} : vector<4xi8>",
    ):
        found = findings(function(schema, line, arguments=arguments))
        assert [(d.code, d.params["key_name"]) for d in found] == [("ENCODING/016", key) for key in missing]
    unknown = function(
        f"%r = vector.decode %p using %s{aux} : vector<4xi8>, encoding<schema> -> vector<4xf32>",
        arguments=f"{arguments}, %s: encoding<schema>",
    )
    assert findings(unknown) == []
