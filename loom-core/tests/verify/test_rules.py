"""Verifier rules: one broken program per rule, and the diagnostic it gets; more are goldens in tests/golden."""

from __future__ import annotations

import pytest

from loom.dialects.scalar import ops as scalar
from loom.ir.diagnostics import Diagnostic, LoomError
from loom.ir.types import I32, I64
from loom.text.parser import parse_module
from loom.verify.verifier import verify_module


def findings(text: str) -> list[Diagnostic]:
    return verify_module(parse_module(text, "t.loom"))


def codes(text: str) -> list[str]:
    return [d.code for d in findings(text)]


def body(*statements: str, arguments: str = "%a: i32, %b: i64, %x: f32, %i: index, %c: i1, %v: view<4x8xf32>") -> str:
    lines = "".join(f"  {s}\n" for s in statements)
    return f"func.def @f({arguments}) {{\n{lines}  func.return\n}}\n"


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("%r = scalar.addi %a, %b : i32", "TYPE/001"),
        ("%r = scalar.addi %x, %x : f32", "TYPE/003"),
        ("%r = scalar.addf %a, %a : i32", "TYPE/003"),
        ("%r = scalar.constant 1 : index", "TYPE/004"),
        ("%r = scalar.constant 1 : f32", "TYPE/005"),
        ("%r = scalar.constant 1.5 : i32", "TYPE/005"),
        ("%r = scalar.constant 128 : i8", "STRUCTURE/014"),
        ("%r = scalar.constant -129 : i8", "STRUCTURE/014"),
        ("%r = scalar.constant 2 : i1", "STRUCTURE/014"),
        ("%r = index.constant -1 : offset", "STRUCTURE/014"),
        ("%r = index.constant 1.0 : index", "TYPE/005"),
        ("%r = index.cast %a : i32 to i64", "TYPE/004"),
        ("%r = scalar.extsi %b : i64 to i32", "TYPE/004"),
        ("%r = scalar.trunci %a : i32 to i64", "TYPE/004"),
        ("%r = scalar.bitcast %a : i32 to f64", "TYPE/004"),
        ("%r = scalar.bitfield.extractu %a {offset = 30, width = 5} : i32 -> i8", "STRUCTURE/014"),
        ("%r = scalar.geluf<erf> %x {scale = 1.0} : f32", "TYPE/005"),
        ("%r = scalar.geluf<logistic> %x : f32", "TYPE/005"),
        ("%r, %s = scalar.assume %a [] : i32, i32", "STRUCTURE/013"),
        ("%r = view.load %v[%i] : view<4x8xf32> -> f32", "SUBRANGE/001"),
        ("%r = view.load %v[4, 0] : view<4x8xf32> -> f32", "SUBRANGE/004"),
        ("%r = view.load %v[0, -1] : view<4x8xf32> -> f32", "SUBRANGE/004"),
        ("%r = view.load %v[0, 0] : view<4x8xf32> -> i32", "TYPE/002"),
        ("view.store %a, %v[0, 0] : i32, view<4x8xf32>", "TYPE/002"),
        ("%r = view.subview %v[0, 0] : view<4x8xf32> -> view<2xf32>", "SHAPE/001"),
        ("%r = view.refine %v : view<4x8xf32> -> view<4x9xf32>", "SHAPE/001"),
        ("kernel.barrier<private> scope(workgroup) ordering(acq_rel)", "STRUCTURE/014"),
        ("kernel.barrier<workgroup> scope(device) ordering(acq_rel)", "STRUCTURE/014"),
        ("kernel.barrier<workgroup> scope(workgroup) ordering(relaxed)", "STRUCTURE/014"),
        ("%r = scf.select %c, %a, %b : i32", "TYPE/001"),
        ("%r = check.literal value(1) : i32", "STRUCTURE/029"),
        ("%r = scf.if %c -> (i32) {\n scf.yield %a : i32\n }", "STRUCTURE/013"),
        ("%r = scf.if %c -> (i32) {\n scf.yield %a : i32\n } else {\n scf.yield %b : i64\n }", "TYPE/009"),
        ("%r = scf.if %c -> (i32) {\n scf.yield %a : i32\n } else {\n }", "STRUCTURE/008"),
        ("scf.for %k = [%i to %i step %i] schedule(linear) {\n }", "STRUCTURE/014"),
        ("scf.for %k = [%i to %i step %i] unroll(%i) unroll {\n }", "STRUCTURE/014"),
        ("%r = scf.switch %i -> (i32) {\n case 3 {\n scf.yield %a : i32\n }\n case 2 {\n scf.yield %a : i32\n }\n"
         " default {\n scf.yield %a : i32\n }\n }", "STRUCTURE/014"),
        ("%r = func.call @gone(%a) : (i32) -> (i32)", "SYMBOL/002"),
        ("%r = template.apply<@f>(%a) : (i32) -> (i32)", "SYMBOL/003"),
    ],
)  # fmt: skip
def test_operation_rules(statement: str, code: str) -> None:
    assert codes(body(statement)) == [code]


@pytest.mark.seed("C01")
def test_conditionals_with_results_need_both_arms() -> None:
    """A result needs an else region, matching yields, and an i1 condition."""
    assert codes(body("%r = scf.if %c -> (i32) {\n scf.yield %a : i32\n }")) == ["STRUCTURE/013"]
    assert codes(body("scf.if %a {\n }")) == ["TYPE/003"]
    assert codes(body("%r = scf.if %c -> (i32) {\n scf.yield %a : i32\n } else {\n scf.yield %a : i32\n }")) == []
    # Each region by itself: one value too few, one too many, one of another type.
    for one, other in (("%a : i32", ""), ("%a, %a : i32, i32", "%a : i32"), ("%c : i1", "%a : i32")):
        for first, second in ((one, other), (other, one)):
            lines = f"%r = scf.if %c -> (i32) {{\n scf.yield {first}\n }} else {{\n scf.yield {second}\n }}"
            assert codes(body(lines)) in (["STRUCTURE/008"], ["TYPE/009"]), (first, second)


@pytest.mark.seed("F01")
def test_every_path_returns_the_declared_results() -> None:
    """A return has the declared number and types; several results stay separate values."""
    assert codes("func.def @f(%a: i32) -> (i32, i32) {\n  func.return %a : i32\n}\n") == ["STRUCTURE/008"]
    assert codes("func.def @f(%a: i32) -> (i64) {\n  func.return %a : i32\n}\n") == ["TYPE/009"]
    text = (
        "func.def @two(%a: i32) -> (i32, i32) {\n  %b = scalar.addi %a, %a : i32\n  func.return %a, %b : i32, i32\n}\n\n"
        "func.def @use(%a: i32) -> (i32) {\n  %p, %q = func.call @two(%a) : (i32) -> (i32, i32)\n"
        "  %r = scalar.subi %q, %p : i32\n  func.return %r : i32\n}\n"
    )
    assert codes(text) == []


@pytest.mark.seed("F03")
def test_dependent_result_types_speak_of_the_callers_values() -> None:
    """A result type that names an argument means the value that the caller passes."""
    declare = "func.decl @make(%n: index) -> (view<[%n]xf32>)\n\n"
    good = declare + (
        "func.def @f(%k: index) -> (view<[%k]xf32>) {\n"
        "  %v = func.call @make(%k) : (index) -> (view<[%k]xf32>)\n  func.return %v : view<[%k]xf32>\n}\n"
    )
    assert codes(good) == []
    bad = declare + (
        "func.def @f(%k: index, %m: index) -> (view<[%m]xf32>) {\n"
        "  %v = func.call @make(%k) : (index) -> (view<[%m]xf32>)\n  func.return %v : view<[%m]xf32>\n}\n"
    )
    assert codes(bad) == ["TYPE/001"]


@pytest.mark.seed("F04")
def test_no_branch_to_an_entry_block() -> None:
    """The entry block of a body cannot be a branch target."""
    text = "func.def @f(%n: index) {\n^entry:\n  cfg.br ^entry\n}\n"
    assert codes(text) == ["STRUCTURE/024"]


@pytest.mark.seed("F05")
def test_calls_need_a_local_declaration() -> None:
    """A call without a definition or declaration in its own module is an error; with one it is not."""
    call = "func.def @f(%a: i32) -> (i32) {\n  %r = func.call @g(%a) : (i32) -> (i32)\n  func.return %r : i32\n}\n"
    assert codes(call) == ["SYMBOL/002"]
    assert codes("func.decl @g(%a: i32) -> (i32)\n\n" + call) == []


@pytest.mark.seed("F08")
def test_pure_functions_have_no_effects() -> None:
    """A function marked pure that stores is rejected, and so is a pure call of an impure callee."""
    text = "func.def pure @f(%v: view<4xf32>, %x: f32) {\n  view.store %x, %v[0] : f32, view<4xf32>\n  func.return\n}\n"
    (found,) = findings(text)
    assert found.code == "STRUCTURE/017"
    assert found.params["write_count"] == 1
    call = (
        "func.decl @g(%a: i32) -> (i32)\n\nfunc.def @f(%a: i32) -> (i32) {\n"
        "  %r = func.call pure @g(%a) : (i32) -> (i32)\n  func.return %r : i32\n}\n"
    )
    assert codes(call) == ["STRUCTURE/034"]
    proven = call.replace(
        "func.decl @g(%a: i32) -> (i32)", "func.def @g(%a: i32) -> (i32) {\n  func.return %a : i32\n}"
    )
    assert codes(proven) == []


@pytest.mark.seed("M08")
def test_providers_implement_a_declared_family_exactly() -> None:
    """A provider's family is declared in its module and has the same types, whatever the argument names."""
    family = "template.decl @t.f(%v: f32, %n: index) -> (f32)\n\n"
    good = family + "template.def<@t.f> @g(%x: f32, %k: index) -> (f32) {\n  template.return %x : f32\n}\n"
    assert codes(good) == []
    assert codes(good.removeprefix(family)) == ["SYMBOL/002"]
    wrong = (
        family
        + "template.def<@t.f> @g(%x: i32, %k: index) -> (f32) {\n  %y = scalar.sitofp %x : i32 to f32\n  template.return %y : f32\n}\n"
    )
    (found,) = findings(wrong)
    assert found.code == "TYPE/001"
    assert found.params["field_a"] == "implementation argument"


@pytest.mark.seed("L02")
def test_loop_bounds_share_an_address_type() -> None:
    """Bounds, step and induction value are all index or all offset."""
    good = body("scf.for %k = [%o to %o step %o] {\n }", arguments="%o: offset")
    assert codes(good) == []
    assert codes(body("scf.for %k = [%o to %i step %i] {\n }", arguments="%o: offset, %i: index")) == ["TYPE/001"]


@pytest.mark.seed("Y05")
def test_a_carried_type_names_the_right_edge() -> None:
    """A yield keeps neither the initial nor the body's extent in its type, and a result not that of an edge."""
    text = """\
func.def @f(%turns: index, %n: index, %x: view<[%n]xf32>) {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %left, %rest = scf.for %i = [%c0 to %turns step %c1](%len = %n : index, %win = %x : view<[%n]xf32>) -> (index, view<[%left]xf32>) {
    %shorter = index.sub %len, %c1 : index
    %sub = view.subview %win[1] : view<[%len]xf32> -> view<[%n]xf32>
    scf.yield %shorter, %sub : index, view<[%n]xf32>
  }
  func.return
}
"""
    assert codes(text) == ["TYPE/009"]
    from_body = text.replace("view<[%len]xf32> -> view<[%n]xf32>", "view<[%len]xf32> -> view<[%len]xf32>")
    assert codes(from_body.replace("index, view<[%n]xf32>\n", "index, view<[%len]xf32>\n")) == ["TYPE/009"]
    right = text.replace("view<[%len]xf32> -> view<[%n]xf32>", "view<[%len]xf32> -> view<[%shorter]xf32>")
    right = right.replace("index, view<[%n]xf32>\n", "index, view<[%shorter]xf32>\n")
    assert codes(right) == []
    with pytest.raises(LoomError) as caught:
        codes(right.replace("-> (index, view<[%left]xf32>)", "-> (index, view<[%n]xf32>)"))
    assert [d.code for d in caught.value.diagnostics] == ["TYPE/001"]


@pytest.mark.seed("K01")
def test_kernels_keep_their_two_contracts_apart() -> None:
    """The launch configuration is pure over workload values, the body has a signature of its own."""
    text = """\
kernel.def @k(%n: index) {
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%n, %one, %one) workgroup_size(%one, %one, %one) : index
} launch(%n: i32, %x: buffer) {
  kernel.return
}
"""
    assert codes(text) == []
    impure = text.replace("  %one =", "  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)\n  %one =")
    assert "STRUCTURE/017" in codes(impure)
    device_query = text.replace("  %one =", "  %lane = kernel.workitem.id<x> : index\n  %one =")
    assert codes(device_query) == ["STRUCTURE/029"]


def test_built_programs_are_checked_like_read_ones() -> None:
    """An operation made through the API with wrong operand types is found."""
    module = parse_module("func.def @f(%a: i32, %b: i64) {\n  func.return\n}\n")
    function = next(iter(module.ops))
    a, b = function.regions[0].entry.args
    end = function.regions[0].entry.last
    assert end is not None
    cls = type(next(op for op in parse_module("func.def @g(%a: i32) {\n  %r = scalar.addi %a, %a : i32\n  func.return\n}\n").walk()
                    if op.name == "scalar.addi"))  # fmt: skip
    cls([a, b], [None], [I32]).insert_before(end)
    scalar.Constant([], [5], [I64]).insert_before(end)
    assert [d.code for d in verify_module(module)] == ["TYPE/001"]
