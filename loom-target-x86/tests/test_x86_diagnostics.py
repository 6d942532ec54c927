"""What the target does not have is said where it stands, with a code, and never as a traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loom import api
from loom.ir.diagnostics import Diagnostic, LoomError, SourceLocation


def diagnose(text: str, root: str = "f", selector: str = "avx2") -> Diagnostic:
    """The one diagnostic of a compilation, which must have a place."""
    module = api.load_bytes(text.encode(), "test.loom")
    with pytest.raises(LoomError) as caught:
        api.compile(module, [root], f"x86:{selector}")
    (diagnostic,) = caught.value.diagnostics
    assert SourceLocation.of(diagnostic.location) is not None
    return diagnostic


def line_of(diagnostic: Diagnostic) -> int:
    place = SourceLocation.of(diagnostic.location)
    assert place is not None
    return place.start_line


def function(body: str, parameters: str = "%x: f32", results: str = "") -> str:
    arrow = f" -> ({results})" if results else ""
    return f"func.def public @f({parameters}){arrow} {{\n{body}\n}}\n"


@pytest.mark.parametrize("type_name", ["f16", "bf16", "f8E4M3", "f8E5M2"])
def test_narrow_floats(type_name: str) -> None:
    body = f"  %y = scalar.fptrunc %x : f32 to {type_name}\n  %r = scalar.extf %y : {type_name} to f32\n  func.return %r : f32"
    found = diagnose(function(body, results="f32"))
    assert found.code == "TARGET/001"
    assert type_name in found.message


def test_a_profile_without_vector_registers_has_no_floats() -> None:
    found = diagnose(
        function("  %r = scalar.addf %x, %x : f32\n  func.return %r : f32", results="f32"), selector="scalar"
    )
    assert found.code == "TARGET/033"
    inner = function(
        "  %v = scalar.sitofp %i : i32 to f64\n  %r = scalar.fptosi %v : f64 to i32\n  func.return %r : i32",
        "%i: i32",
        "i32",
    )
    found = diagnose(inner, selector="scalar")
    assert found.code == "TARGET/033"
    assert found.hint is not None
    assert "simd128" in found.hint


@pytest.mark.parametrize(
    ("type_name", "code"),
    [
        ("vector<3xf32>", "TARGET/033"),
        ("vector<8xf32>", "TARGET/033"),
        ("f16", "TARGET/033"),
        ("encoding<layout>", "TARGET/033"),
    ],
)
def test_types_that_cannot_cross_a_call(type_name: str, code: str) -> None:
    found = diagnose(function("  func.return", f"%x: {type_name}"))
    assert found.code == code
    assert type_name in found.message


def test_a_step_that_may_not_be_positive() -> None:
    body = "  %zero = index.constant 0 : index\n  scf.for %i = [%zero to %n step %s] {\n  }\n  func.return"
    found = diagnose(
        function(
            body.replace("{\n  }", "{\n    view.store %i, %v[0] : index, view<1xindex>\n  }"),
            "%n: index, %s: index, %v: view<1xindex>",
        )
    )
    assert found.code == "STRUCTURE/035"
    assert line_of(found) == 3


def test_unbounded_scratch_storage() -> None:
    body = (
        "  %origin = index.constant 0 : offset\n  %b = buffer.alloca<private> align(8) %n : buffer\n"
        "  %v = buffer.view %b[%origin] : buffer -> view<4xi32>\n  %z = scalar.constant 0 : i32\n"
        "  view.store %z, %v[0] : i32, view<4xi32>\n  %r = view.load %v[0] : view<4xi32> -> i32\n  func.return %r : i32"
    )
    found = diagnose(function(body, "%n: offset", "i32"))
    assert found.code == "TARGET/005"
    assert line_of(found) == 3
    bounded = body.replace("%n : buffer", "%m : buffer").replace(
        "  %b =", "  %m = index.assume %n [range(%n, 0, 64)] : offset\n  %b ="
    )
    api.compile(api.load_bytes(function(bounded, "%n: offset", "i32").encode(), "t"), ["f"], "x86:avx2")


def test_scratch_storage_in_a_loop_that_carries_views() -> None:
    body = """  %origin = index.constant 0 : offset
  %bytes = index.constant 16 : offset
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %r = scf.for %i = [%zero to %n step %one](%w = %v : view<4xi32>) -> (view<4xi32>) {
    %b = buffer.alloca<private> align(8) %bytes : buffer
    %u = buffer.view %b[%origin] : buffer -> view<4xi32>
    %e = view.load %w[0] : view<4xi32> -> i32
    view.store %e, %u[0] : i32, view<4xi32>
    scf.yield %u : view<4xi32>
  }
  %e = view.load %r[0] : view<4xi32> -> i32
  func.return %e : i32"""
    found = diagnose(function(body, "%v: view<4xi32>, %n: index", "i32"))
    assert found.code == "TARGET/001"
    assert line_of(found) == 7


def test_lengths_of_buffers() -> None:
    found = diagnose(function("  %n = buffer.length %b\n  func.return %n : offset", "%b: buffer", "offset"))
    assert found.code == "TARGET/001"
    assert "extent" in found.message


def test_layouts_of_different_kinds_that_meet() -> None:
    body = """  %dense = encoding.layout.dense : encoding<layout>
  %strided = encoding.layout.strided [%n, 1] : encoding<layout>
  %layout = scf.if %c -> (encoding<layout>) {
    scf.yield %dense : encoding<layout>
  } else {
    scf.yield %strided : encoding<layout>
  }
  %origin = index.constant 0 : offset
  %v = buffer.view %b[%origin] : buffer -> view<4x4xi32, %layout>
  %e = view.load %v[%n, 1] : view<4x4xi32, %layout> -> i32
  func.return %e : i32"""
    found = diagnose(function(body, "%c: i1, %n: index, %b: buffer", "i32"))
    assert found.code == "TARGET/003"
    assert found.hint is not None


def test_windows_do_not_cross_calls() -> None:
    text = """
func.def noinline @inner(%w: view<2x2xi32>) -> (i32) {
  %e = view.load %w[1, 1] : view<2x2xi32> -> i32
  func.return %e : i32
}

func.def public @f(%v: view<4x4xi32>) -> (i32) {
  %w = view.subview %v[1, 1] : view<4x4xi32> -> view<2x2xi32>
  %e = func.call noinline @inner(%w) : (view<2x2xi32>) -> (i32)
  func.return %e : i32
}
"""
    found = diagnose(text)
    assert found.code == "TARGET/027"
    assert line_of(found) == 9


def test_launch_coordinates_outside_kernels() -> None:
    found = diagnose(
        function("  %i = kernel.workitem.id<x> : index\n  func.return %i : index", "", "index").replace(
            "func.def public", "func.def public device"
        )
    )
    assert found.code == "TARGET/032"


def test_barriers() -> None:
    root = Path(os.environ.get("LOOM_SHARED", Path(__file__).resolve().parents[3] / "shared"))
    path = root / "cases" / "tile_transpose.loom"
    if not path.is_file():
        pytest.skip("the shared cases are not here; set LOOM_SHARED")
    found = diagnose(path.read_text(), "transpose16")
    assert found.code == "TARGET/001"
    assert "kernel.barrier" in found.message
    assert "yet" in found.message
    lines = path.read_text().splitlines()
    assert "kernel.barrier" in lines[line_of(found) - 1]


def test_operations_of_gpus() -> None:
    text = """
kernel.def export("k") @k() {
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%one, %one, %one) : index
} launch(%out: buffer) {
  %origin = index.constant 0 : offset
  %lane = kernel.subgroup.lane.id : index
  %view = buffer.view %out[%origin] : buffer -> view<1xindex>
  view.store %lane, %view[0] : index, view<1xindex>
  kernel.return
}
"""
    found = diagnose(text, "k")
    assert found.code == "TARGET/001"
    assert line_of(found) == 7


def test_authored_low_of_another_contract() -> None:
    text = """
low.func.def public target<x86.avx2.core> @f(%a: reg<x86.gpr32>) -> (reg<x86.gpr32>) asm {
  return %a
}
"""
    assert diagnose(text, selector="simd128").code == "TARGET/055"


def test_authored_jumps_to_blocks_that_are_only_named() -> None:
    text = """
low.func.def public target<x86.avx2.core> @f(%a: reg<x86.gpr32>) -> (reg<x86.gpr32>) {
  low.op<x86.jmp>() {target_block = ^next} : ()
  low.return %a : reg<x86.gpr32>
}
"""
    with pytest.raises(LoomError):
        api.compile(api.load_bytes(text.encode(), "t"), ["f"], "x86:avx2")


def test_functions_only_declared_are_no_roots() -> None:
    text = 'func.decl import("m", "g") @g(%x: i32) -> (i32)\n'
    with pytest.raises(LoomError) as caught:
        api.compile(api.load_bytes(text.encode(), "t"), ["g"], "x86:avx2")
    assert caught.value.diagnostics[0].code == "SYMBOL/003"
