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


def kernel(*lines: str, parameters: str = "%b: buffer, %n: index, %w: i32") -> str:
    body = "".join(f"  {line}\n" for line in lines)
    return f"""func.decl pure @same(%x: i32) -> (i32)

func.decl @acts(%x: i32) -> (i32)

kernel.def @k() {{
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%one, %one, %one) : index
}} launch({parameters}) {{
  %at = index.constant 0 : offset
  %bytes = index.constant 64 : offset
  %shared = buffer.alloca<workgroup> align(16) %bytes : buffer
{body}  kernel.return
}}
"""


def copy(source: str, target: str, direction: str = "global_to_workgroup") -> tuple[str, ...]:
    """A transfer between the first bytes of two buffers, waited for."""
    return (
        f"%s = buffer.view {source}[%at] : buffer -> view<4xi32>",
        f"%d = buffer.view {target}[%at] : buffer -> view<4xi32>",
        f"%t = kernel.async.copy %s to %d {{cache_scope = cu, cache_temporal = regular, direction = {direction}}}"
        " : view<4xi32> to view<4xi32> -> kernel.async.token",
        "%g = kernel.async.group %t : kernel.async.token -> kernel.async.group",
        "kernel.async.wait %g {newer_groups = 0} : kernel.async.group",
    )


@pytest.mark.seed("Q03")
def test_buffers_of_kernels_are_global_and_those_of_functions_are_not_known() -> None:
    """A transfer wants known spaces: an argument of a kernel has one, that of a function needs an assumption."""
    assert codes(kernel(*copy("%b", "%shared"))) == []
    helper = "func.def @f(%b: buffer, %at: offset, %bytes: offset) {{\n  {0}\n  func.return\n}}\n"
    alloca = "%shared = buffer.alloca<workgroup> align(16) %bytes : buffer"
    bare = helper.format("\n  ".join((alloca, *copy("%b", "%shared"))))
    (found,) = findings(bare)
    assert (found.code, found.params["operand_name"]) == ("TYPE/003", "source")
    assert "without a known memory space" in found.message
    assumed = "%a = buffer.assume.memory_space<global> %b : buffer"
    assert codes(helper.format("\n  ".join((alloca, assumed, *copy("%a", "%shared"))))) == []
    # The assumption speaks of its result only.
    assert codes(helper.format("\n  ".join((alloca, assumed, *copy("%b", "%shared"))))) == ["TYPE/003"]


@pytest.mark.parametrize(
    ("source", "target", "direction", "wrong"),
    [
        ("%b", "%shared", "global_to_workgroup", []),
        ("%shared", "%b", "workgroup_to_global", []),
        ("%shared", "%b", "global_to_workgroup", ["source", "target"]),
        ("%b", "%shared", "workgroup_to_global", ["source", "target"]),
        ("%b", "%b", "global_to_workgroup", ["target"]),
        ("%shared", "%shared", "workgroup_to_global", ["target"]),
    ],
)
def test_transfers_connect_the_spaces_of_their_direction(
    source: str, target: str, direction: str, wrong: list[str]
) -> None:
    found = findings(kernel(*copy(source, target, direction)))
    assert [(d.code, d.params["operand_name"]) for d in found] == [("TYPE/003", name) for name in wrong]


ARRIVE = "%p = kernel.barrier.arrive<workgroup> scope(workgroup) ordering(acq_rel) -> kernel.barrier.phase"
WAIT = "kernel.barrier.wait %p : kernel.barrier.phase"


@pytest.mark.parametrize(
    "line",
    [
        "%r = scalar.addi %w, %w : i32",
        "%r = func.call pure @same(%w) : (i32) -> (i32)",
        "%v = buffer.view %b[%at] : buffer -> view<4xi32>\n  %r = view.load %v[0] : view<4xi32> -> i32",
        "%c = scalar.cmpi eq, %w, %w : i32\n  %r = scf.if %c -> (i32) {\n    %x = func.call pure @same(%w) : (i32) -> (i32)\n"
        "    scf.yield %x : i32\n  } else {\n    scf.yield %w : i32\n  }",
        "scf.for %i = [%n to %n step %n] {\n    %x = scalar.muli %w, %w : i32\n  }",
    ],
)  # fmt: skip
@pytest.mark.seed("J04")
def test_private_work_and_pure_calls_stand_between_the_halves_of_a_barrier(line: str) -> None:
    assert codes(kernel(ARRIVE, line, WAIT)) == []


@pytest.mark.parametrize(
    "line",
    [
        "kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)",
        ARRIVE.replace("%p", "%q") + "\n  " + WAIT.replace("%p", "%q"),
        "%r = kernel.subgroup.reduce<addi> %w : i32",
        "%r = kernel.workgroup.vote.count %on : i1 -> i32",
        "%r = func.call @acts(%w) : (i32) -> (i32)",
        "kernel.exit %on : i1",
    ],
)
@pytest.mark.seed("J04")
def test_nothing_else_does(line: str) -> None:
    parameters = "%b: buffer, %n: index, %w: i32, %on: i1"
    assert "STRUCTURE/056" in codes(kernel(ARRIVE, line, WAIT, parameters=parameters))


@pytest.mark.parametrize("head", ["scf.if %on", "scf.for %i = [%n to %n step %n]"])
@pytest.mark.seed("J04")
def test_a_region_leaves_the_phase_as_it_found_it(head: str) -> None:
    parameters = "%b: buffer, %n: index, %w: i32, %on: i1"
    inside = f"{head} {{\n    {WAIT}\n  }}"
    assert "STRUCTURE/056" in codes(kernel(ARRIVE, inside, parameters=parameters))


@pytest.mark.seed("J04")
def test_a_phase_is_waited_for_exactly_once() -> None:
    assert codes(kernel(ARRIVE)) == ["DOMINANCE/009"]
    assert codes(kernel(ARRIVE, WAIT, WAIT)) == ["DOMINANCE/009"]
