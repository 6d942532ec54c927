"""Template selection, inlining policies, configuration and loop policies."""

from __future__ import annotations

import pytest

from loom.ir.core import Module
from loom.ir.diagnostics import Diagnostic, LoomError
from loom.plugins.records import TargetProfile
from loom.specialize.pipeline import specialize
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import verify_module


def target(**facts: object) -> TargetProfile:
    return TargetProfile("toy", "v1", "toy.core", facts, "toy-text", ("toy.target", "v1"))


def specialized(text: str, **facts: object) -> Module:
    module = parse_module(text, "t.loom")
    assert verify_module(module) == []
    before = print_module(module)
    result = specialize(module, target(**facts) if facts else None).module
    assert verify_module(result) == []
    assert print_module(module) == before, "the input module is left alone"
    return result


def failure(text: str, **facts: object) -> Diagnostic:
    with pytest.raises(LoomError) as caught:
        specialize(parse_module(text, "t.loom"), target(**facts) if facts else None)
    return caught.value.diagnostics[0]


FAMILY = """\
template.decl @t.f(%v: i32, %n: index) -> (i32)

template.def<@t.f> requires [#target.subgroup.size<64>] priority(10) @wave64(%v: i32, %n: index) -> (i32) {
  %k = scalar.constant 64 : i32
  template.return %k : i32
}

template.def<@t.f> priority(5) @multiple(%v: i32, %n: index) -> (i32) where [multiple_of(%n, 16)] {
  %k = scalar.constant 16 : i32
  template.return %k : i32
}

template.def<@t.f> @any(%v: i32, %n: index) -> (i32) {
  template.return %v : i32
}

"""


def use(assumption: str = "") -> str:
    first = f"  %m = index.assume %n [{assumption}] : index\n" if assumption else ""
    name = "%m" if assumption else "%n"
    return FAMILY + (
        f"func.def public @use(%v: i32, %n: index) -> (i32) {{\n{first}"
        f"  %r = template.apply<@t.f>(%v, {name}) : (i32, index) -> (i32)\n  func.return %r : i32\n}}\n"
    )


@pytest.mark.seed("W02", "W03")
@pytest.mark.parametrize(
    ("assumption", "facts", "constant"),
    [
        ("", {"subgroup_size": 64}, 64),
        ("", {"subgroup_size": 32}, None),
        ("multiple_of(%n, 32)", {"subgroup_size": 32}, 16),
        ("multiple_of(%n, 8)", {"subgroup_size": 32}, None),
        ("range(%n, 1, 15)", {"subgroup_size": 32}, None),
        ("eq(%n, 48)", {"subgroup_size": 32}, 16),
        ("multiple_of(%n, 16)", {}, 16),
    ],
)
def test_selection_by_facts(assumption: str, facts: dict[str, object], constant: int | None) -> None:
    """Priority decides among the providers that facts prove; an unproven one is not eligible."""
    module = specialized(use(assumption), **facts)
    text = print_module(module)
    assert set(module.symbols()) == {"use"}
    assert "template" not in text
    if constant is None:
        assert "func.return %v : i32" in text
    else:
        assert f"scalar.constant {constant} : i32" in text


def test_rows_count_what_could_have_been_chosen() -> None:
    """A proven provider behind one that is not decided is a fallback."""
    module = parse_module(use(), "t.loom")
    (row,) = [s.row() for s in specialize(module, target(subgroup_size=32)).selections]
    assert row == {
        "category": "template-selection",
        "function": "use",
        "apply_op": "template.apply",
        "contract": "t.f",
        "target": "toy:v1",
        "selected_provider": "any",
        "selected_priority": 0,
        "highest_provider_priority": 10,
        "outcome": "fallback_selected",
        "provider_count": 3,
        "target_applicable_count": 3,
        "possible_count": 2,
        "best_exact_count": 1,
    }
    (row,) = [s.row() for s in specialize(module, target(subgroup_size=64)).selections]
    assert (row["selected_provider"], row["outcome"], row["possible_count"]) == ("wave64", "selected", 3)


def test_providers_for_other_targets_are_a_failure_of_their_own() -> None:
    text = use().replace("template.def<@t.f>", "template.def<@t.f> target(@gfx)")
    found = failure("amdgpu.target<gfx1100> @gfx\n\n" + text, subgroup_size=32)
    assert (found.code, found.params["failure_code"]) == ("LOWERING/045", "target_mismatch")


@pytest.mark.seed("W06")
def test_a_requirement_does_not_make_itself_true() -> None:
    """A provider that requires 64 lanes is not chosen when the lanes are unknown."""
    assert "func.return %v : i32" in print_module(specialized(use()))


@pytest.mark.seed("W04")
def test_ties_name_both_providers() -> None:
    """Equal best priorities are an error that names the candidates."""
    text = (
        "template.decl @t.g(%v: i32) -> (i32)\n\n"
        "template.def<@t.g> priority(3) @one(%v: i32) -> (i32) {\n  template.return %v : i32\n}\n\n"
        "template.def<@t.g> priority(3) @two(%v: i32) -> (i32) {\n  template.return %v : i32\n}\n\n"
        "func.def public @use(%v: i32) -> (i32) {\n  %r = template.apply<@t.g>(%v) : (i32) -> (i32)\n  func.return %r : i32\n}\n"
    )
    found = failure(text)
    assert (found.code, found.params["failure_code"]) == ("LOWERING/045", "ambiguous")
    assert [r.label.split("'")[1] for r in found.related] == ["@one", "@two"]
    assert (found.position() or ("", 0, 0))[1] == 12


def test_missing_facts_and_providers_are_named() -> None:
    needs = FAMILY.replace(
        "template.def<@t.f> @any(%v: i32, %n: index) -> (i32) {",
        "template.def<@t.f> @any(%v: i32, %n: index) -> (i32) where [range(%n, 0, 7)] {",
    )
    text = needs + use().removeprefix(FAMILY)
    found = failure(text, subgroup_size=32)
    assert found.params["failure_code"] == "missing_facts"
    assert any("multiple_of(%n, 16) is not known" in r.label for r in found.related)
    alone = "template.decl @t.f(%v: i32, %n: index) -> (i32)\n\n" + use().removeprefix(FAMILY)
    assert failure(alone).params["failure_code"] == "no_provider"


def test_refuted_candidates_are_named_with_what_refutes_them() -> None:
    text = (
        "template.decl @t.k(%v: i32, %n: index, %m: index) -> (i32)\n\n"
        "template.def<@t.k> @ordered(%v: i32, %n: index, %m: index) -> (i32) where [lt(%n, %m)] {\n"
        "  template.return %v : i32\n}\n\n"
        "template.def<@t.k> requires [#target.subgroup.size<64>] @wide(%v: i32, %n: index, %m: index) -> (i32) {\n"
        "  template.return %v : i32\n}\n\n"
        "func.def public @use(%v: i32, %n: index, %m: index) -> (i32) where [le(%m, %n)] {\n"
        "  %r = template.apply<@t.k>(%v, %n, %m) : (i32, index, index) -> (i32)\n  func.return %r : i32\n}\n"
    )
    found = failure(text, subgroup_size=32)
    assert (found.code, found.params["failure_code"]) == ("LOWERING/045", "all_rejected")
    assert found.params["contract_key"] == "t.k"
    assert "'@t.k'" in found.message
    labels = [r.label for r in found.related]
    assert any("@ordered" in label and "lt(%n, %m) is false" in label for label in labels)
    assert any("@wide" in label and "#target.subgroup.size<64> is false" in label for label in labels)
    open_order = text.replace(" where [le(%m, %n)] {", " {")
    found = failure(open_order, subgroup_size=32)
    assert found.params["failure_code"] == "missing_facts"
    assert any("lt(%n, %m) is not known" in r.label for r in found.related)
    assert "func.return %v" in print_module(specialized(text.replace("le(%m, %n)", "gt(%m, %n)"), subgroup_size=32))


@pytest.mark.parametrize(
    ("argument", "chosen"),
    [("%x = scalar.sitofp %v : i32 to f32", 7), ("%x = scalar.bitcast %v : i32 to f32", 9)],
)
def test_predicates_of_floats_choose_by_facts(argument: str, chosen: int) -> None:
    """What comes of an integer is finite; what bits are is not known, and that is no proof."""
    text = (
        "template.decl @t.h(%x: f32) -> (i32)\n\n"
        "template.def<@t.h> priority(2) @number(%x: f32) -> (i32) where [finite(%x)] {\n"
        "  %r = scalar.constant 7 : i32\n  template.return %r : i32\n}\n\n"
        "template.def<@t.h> @all(%x: f32) -> (i32) {\n"
        "  %r = scalar.constant 9 : i32\n  template.return %r : i32\n}\n\n"
        f"func.def public @use(%v: i32) -> (i32) {{\n  {argument}\n"
        "  %r = template.apply<@t.h>(%x) : (f32) -> (i32)\n  func.return %r : i32\n}\n"
    )
    assert f"scalar.constant {chosen} : i32" in print_module(specialized(text))


def test_facts_of_enclosing_conditionals_count() -> None:
    text = (
        FAMILY
        + """\
func.def public @use(%v: i32, %n: index) -> (i32) {
  %c15 = index.constant 15 : index
  %c0 = index.constant 0 : index
  %small = index.cmp sle, %n, %c15 : index
  %positive = index.cmp sgt, %n, %c0 : index
  %both = scalar.andi %small, %positive : i1
  %r = scf.if %both -> (i32) {
    %a = template.apply<@t.f>(%v, %n) : (i32, index) -> (i32)
    scf.yield %a : i32
  } else {
    scf.yield %v : i32
  }
  func.return %r : i32
}
"""
    )
    assert "scalar.constant 16" not in print_module(specialized(text, subgroup_size=32))


@pytest.mark.seed("M09")
def test_exact_provider_calls() -> None:
    """``template.call`` takes its provider without ranking, but its conditions must hold."""
    text = use().replace("template.apply<@t.f>(", "template.call @multiple(")
    assert failure(text, subgroup_size=32).params["failure_code"] == "missing_facts"
    good = use("multiple_of(%n, 16)").replace("template.apply<@t.f>(", "template.call @multiple(")
    assert "scalar.constant 16" in print_module(specialized(good, subgroup_size=64))


@pytest.mark.seed("W05")
def test_selection_leaves_no_run_time_choice() -> None:
    """After selection and inlining neither a call nor a branch is left."""
    names = {op.name for op in specialized(use("multiple_of(%n, 16)"), subgroup_size=32).walk()}
    assert not names & {"template.apply", "template.call", "func.call", "scf.if", "cfg.cond_br"}


CALLS = """\
func.def {policy}@callee(%v: i32) -> (i32) {{
  %r = scalar.addi %v, %v : i32
  func.return %r : i32
}}

func.def public @caller(%v: i32) -> (i32) {{
  %r = func.call {call}@callee(%v) : (i32) -> (i32)
  func.return %r : i32
}}
"""


@pytest.mark.seed("F10")
@pytest.mark.parametrize(
    ("policy", "call", "kept"),
    [("", "", False), ("inline ", "", False), ("", "inline ", False), ("noinline ", "", True), ("", "noinline ", True)],
)
def test_inline_policies(policy: str, call: str, kept: bool) -> None:
    """``inline`` removes the boundary, ``noinline`` keeps it, without a policy the pass decides."""
    module = specialized(CALLS.format(policy=policy, call=call))
    assert ("callee" in module.symbols()) == kept


def test_conflicting_and_recursive_inlining() -> None:
    found = failure(CALLS.format(policy="noinline ", call="inline "))
    assert (found.code, found.params["failure_code"]) == ("LOWERING/044", "policy_conflict")
    recursive = (
        "func.def inline @loop(%v: i32) -> (i32) {\n  %r = func.call @loop(%v) : (i32) -> (i32)\n  func.return %r : i32\n}\n\n"
        "func.def public @start(%v: i32) -> (i32) {\n  %r = func.call @loop(%v) : (i32) -> (i32)\n  func.return %r : i32\n}\n"
    )
    assert failure(recursive).params["failure_code"] == "required_cycle"


@pytest.mark.seed("B02")
def test_configuration_binds_through_symbols() -> None:
    """A defined key becomes a constant; an undefined one is reported where it is read."""
    text = "config.def @depth = 3 : index\n\nfunc.def public @f() -> (index) {\n  %d = config.get @depth : index\n  func.return %d : index\n}\n"
    assert "index.constant 3" in print_module(specialized(text))
    undefined = text.replace("config.def @depth = 3 : index", "config.decl @depth : index")
    assert failure(undefined).code == "SYMBOL/002"


LOOP = """\
func.def public @sum(%n: index) -> (i32) {{
  %lo = index.constant {lo} : index
  %hi = index.constant {hi} : index
  %st = index.constant {step} : index
  %f = index.constant {factor} : index
  %zero = scalar.constant 0 : i32
  %r = scf.for %i = [%lo to {upper} step %st](%acc = %zero : i32) -> (i32) {policy} {{
    %v = index.cast %i : index to i32
    %next = scalar.addi %acc, %v : i32
    scf.yield %next : i32
  }}
  func.return %r : i32
}}
"""


@pytest.mark.seed("U01")
def test_full_unroll_expands_or_names_the_unknown_bound() -> None:
    """A bare unroll expands fully; with an unknown bound it fails and names it."""
    text = LOOP.format(lo=3, hi=10, step=4, factor=1, upper="%hi", policy="unroll")
    module = specialized(text)
    assert "scf.for" not in print_module(module)
    assert "scalar.constant 10 : i32" in print_module(module)
    found = failure(LOOP.format(lo=3, hi=10, step=4, factor=1, upper="%n", policy="unroll"))
    assert (found.code, found.params["attr_name"]) == ("STRUCTURE/014", "unroll")
    assert "upper bound" in str(found.params["expected_constraint"])


@pytest.mark.seed("U02")
def test_a_full_tile_guard_makes_the_bound_exact() -> None:
    """Inside ``remaining >= tile`` a loop to ``min remaining, tile`` unrolls without an assumption."""
    text = """\
func.def public @f(%remaining: index) -> (i32) {
  %tile = index.constant 4 : index
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %one = scalar.constant 1 : i32
  %zero = scalar.constant 0 : i32
  %full = index.cmp sge, %remaining, %tile : index
  %r = scf.if %full -> (i32) {
    %end = index.min %remaining, %tile : index
    %s = scf.for %i = [%c0 to %end step %c1](%acc = %zero : i32) -> (i32) unroll {
      %v = index.cast %i : index to i32
      %next = scalar.addi %acc, %v : i32
      scf.yield %next : i32
    }
    scf.yield %s : i32
  } else {
    scf.yield %one : i32
  }
  func.return %r : i32
}
"""
    assert "scf.for" not in print_module(specialized(text))


@pytest.mark.seed("A05")
def test_depth_one_keeps_the_loop_and_its_other_policies() -> None:
    """A read-ahead depth of one is a serial loop; the unroll policy still applies."""
    text = LOOP.format(lo=0, hi=8, step=1, factor=1, upper="%hi", policy="pipeline(%f) unroll")
    assert "scf.for" not in print_module(specialized(text))
    text = LOOP.format(lo=0, hi=8, step=1, factor=1, upper="%n", policy="pipeline(%f)")
    assert "scf.for" in print_module(specialized(text))
    assert "pipeline" not in print_module(specialized(text))


@pytest.mark.seed("N04")
def test_fences_refuse_read_ahead() -> None:
    """A depth above one around a source fence is diagnosed at the loop."""
    text = LOOP.format(lo=0, hi=8, step=1, factor=3, upper="%n", policy="pipeline(%f)")
    text = text.replace("    %v = index.cast", "    scf.schedule.fence\n    %v = index.cast")
    found = failure(text)
    assert (found.code, found.params["attr_name"]) == ("STRUCTURE/014", "pipeline")
    assert found.related[0].label == "the fence"


def test_factors_must_be_exact_and_positive() -> None:
    found = failure(LOOP.format(lo=0, hi=8, step=1, factor=0, upper="%n", policy="unroll(%f)"))
    assert found.params["attr_name"] == "unroll_factor"
    found = failure(LOOP.format(lo=0, hi=8, step=1, factor=2, upper="%n", policy="unroll(%n)"))
    assert found.params["attr_name"] == "unroll_factor"
