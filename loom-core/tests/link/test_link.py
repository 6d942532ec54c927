"""Linking: reachability, resolution, visibility, and independence of order."""

from __future__ import annotations

import itertools

import pytest

from loom.ir.core import Module
from loom.ir.diagnostics import LoomError
from loom.link.linker import LinkOptions, link
from loom.plugins.records import TargetProfile
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import verify_module

ROOT = """\
func.decl @layer(%v: i32) -> (i32)

func.def public @entry(%v: i32) -> (i32) {
  %r = func.call @layer(%v) : (i32) -> (i32)
  func.return %r : i32
}
"""
LAYER = """\
func.decl @times(%v: i32) -> (i32)

func.def public @layer(%v: i32) -> (i32) {
  %a = func.call @times(%v) : (i32) -> (i32)
  %b = func.call @helper(%a) : (i32) -> (i32)
  func.return %b : i32
}

func.def @helper(%v: i32) -> (i32) {
  %r = scalar.addi %v, %v : i32
  func.return %r : i32
}

func.def @unreached(%v: i32) -> (i32) {
  func.return %v : i32
}
"""
KERNELS = """\
func.def public @times(%v: i32) -> (i32) {
  %r = func.call @helper(%v) : (i32) -> (i32)
  func.return %r : i32
}

func.def @helper(%v: i32) -> (i32) {
  %three = scalar.constant 3 : i32
  %r = scalar.muli %v, %three : i32
  func.return %r : i32
}
"""


def modules(*texts: str) -> list[Module]:
    return [parse_module(t, f"m{i}.loom") for i, t in enumerate(texts)]


def linked(inputs: list[str], libraries: list[str], **options: object) -> Module:
    result = link(modules(*inputs), modules(*libraries), LinkOptions(**options)).module  # type: ignore[arg-type]
    assert verify_module(result) == []
    return result


def failure(inputs: list[str], libraries: list[str], **options: object) -> str:
    with pytest.raises(LoomError) as caught:
        link(modules(*inputs), modules(*libraries), LinkOptions(**options))  # type: ignore[arg-type]
    return caught.value.diagnostics[0].code


@pytest.mark.seed("M03", "M10")
def test_only_what_roots_reach_is_there_and_stays_private() -> None:
    """Unreached helpers vanish, a library adds nothing to the interface, private names keep apart."""
    module = linked([ROOT], [LAYER, KERNELS])
    symbols = module.symbols()
    assert set(symbols) == {"entry", "layer", "times", "helper", "helper$0"}
    assert [name for name, op in symbols.items() if op.attribute("visibility") == "public"] == ["entry"]


def test_private_names_of_two_libraries_do_not_mix() -> None:
    module = linked([ROOT], [LAYER, KERNELS])
    text = print_module(module)
    layer = text[text.index("func.def @layer(") :]
    times = text[text.index("func.def @times(") :]
    helper_of_layer = "helper" if "func.call @helper(" in layer.split("}")[0] else "helper$0"
    helper_of_times = "helper$0" if helper_of_layer == "helper" else "helper"
    assert f"func.call @{helper_of_times}(" in times.split("}")[0]
    symbols = module.symbols()
    ops = [op.name for op in symbols[helper_of_times].walk()]
    assert "scalar.muli" in ops


@pytest.mark.seed("M04")
def test_order_never_matters() -> None:
    """Every order of libraries, and of inputs, gives the same text."""
    libraries = [LAYER, KERNELS, "func.def public @other() {\n  func.return\n}\n"]
    texts = {print_module(linked([ROOT], list(order))) for order in itertools.permutations(libraries)}
    assert len(texts) == 1
    inputs = [ROOT, LAYER, KERNELS.replace("@helper", "@scale")]
    texts = {print_module(linked(list(order), [])) for order in itertools.permutations(inputs)}
    assert len(texts) == 1


@pytest.mark.seed("F06")
def test_only_one_exported_definition_satisfies_a_declaration() -> None:
    """A private library definition does not count; two exported ones are an error in any order."""
    private = KERNELS.replace("public ", "")
    assert failure([ROOT], [LAYER, private]) == "SYMBOL/002"
    twice = [LAYER, KERNELS, KERNELS.replace("scalar.muli", "scalar.addi")]
    for order in itertools.permutations(twice):
        assert failure([ROOT], list(order)) == "SYMBOL/005"


@pytest.mark.seed("F07")
def test_absence_of_public_is_private() -> None:
    """A private definition of a direct input is no root and vanishes when unreached."""
    module = linked(["func.def @hidden() {\n  func.return\n}\n\nfunc.def public @shown() {\n  func.return\n}\n"], [])
    assert set(module.symbols()) == {"shown"}


def test_direct_inputs_may_use_each_others_private_definitions() -> None:
    private_layer = "func.def @layer(%v: i32) -> (i32) {\n  func.return %v : i32\n}\n"
    module = linked([ROOT, private_layer], [])
    assert set(module.symbols()) == {"entry", "layer"}
    assert module.symbols()["layer"].name == "func.def"


@pytest.mark.seed("M06")
def test_closed_and_partial_links() -> None:
    """A closed link rejects an open declaration; a partial one keeps it and can be finished later."""
    assert failure([ROOT], [LAYER]) == "SYMBOL/002"
    partial = linked([ROOT], [LAYER], allow_unresolved=True)
    assert partial.symbols()["times"].name == "func.decl"
    text = print_module(partial)
    closed = linked([text], [KERNELS])
    assert closed.symbols()["times"].name == "func.def"
    assert "unreached" not in print_module(closed)


@pytest.mark.seed("M07")
def test_runtime_imports_stay_open() -> None:
    """A declaration with ``import`` is left for the runtime although a library defines the symbol."""
    clock = 'func.decl import("clock", "now") @now() -> (i64)\n\nfunc.def public @t() -> (i64) {\n'
    clock += "  %v = func.call @now() : () -> (i64)\n  func.return %v : i64\n}\n"
    library = "func.def public @now() -> (i64) {\n  %z = scalar.constant 0 : i64\n  func.return %z : i64\n}\n"
    module = linked([clock], [library])
    assert module.symbols()["now"].name == "func.decl"


@pytest.mark.seed("M02")
def test_each_module_verifies_alone() -> None:
    """Every module of the example is valid by itself."""
    for module in modules(ROOT, LAYER, KERNELS):
        assert verify_module(module) == []


def test_signatures_must_agree() -> None:
    wrong = (
        "func.def public @layer(%v: i64) -> (i32) {\n  %r = scalar.trunci %v : i64 to i32\n  func.return %r : i32\n}\n"
    )
    assert failure([ROOT], [wrong]) == "SYMBOL/006"


def test_unknown_root() -> None:
    with pytest.raises(LoomError) as caught:
        link(modules(ROOT), [], LinkOptions(roots=("entri",)))
    assert caught.value.diagnostics[0].hint == "did you mean 'entry'?"


MOTIF = """\
func.def inline @twice(%v: f32) -> (f32) {
  %r = scalar.addf %v, %v : f32
  func.return %r : f32
}

template.decl @t.double(%v: f32) -> (f32)

template.def<@t.double> requires [#target.subgroup.size<32>] priority(20) @wide(%v: f32) -> (f32) {
  %r = func.call @twice(%v) : (f32) -> (f32)
  template.return %r : f32
}

template.def<@t.double> priority(1) @portable(%v: f32) -> (f32) {
  template.return %v : f32
}
"""
USER = """\
template.decl @t.double(%v: f32) -> (f32)

func.def public @use(%v: f32) -> (f32) {
  %r = template.apply<@t.double>(%v) : (f32) -> (f32)
  func.return %r : f32
}
"""


def target(**facts: object) -> TargetProfile:
    return TargetProfile("toy", "v1", "toy.core", facts, "toy-text", ("toy.target", "v1"))


@pytest.mark.seed("B07", "E03")
def test_target_facts_choose_providers_at_link_time() -> None:
    """With 32 lanes the wide provider is bound and its rival is absent; with 64 the other way round."""
    with_32 = linked([USER], [MOTIF], roots=("use",), target=target(subgroup_size=32))
    assert set(with_32.symbols()) == {"use", "t.double", "wide", "twice"}
    assert "template.call @wide(" in print_module(with_32)
    with_64 = linked([USER], [MOTIF], roots=("use",), target=target(subgroup_size=64))
    assert {"portable"} <= set(with_64.symbols())
    assert "wide" not in with_64.symbols()


def test_without_facts_every_provider_stays_a_candidate() -> None:
    module = linked([USER], [MOTIF], roots=("use",))
    assert {"wide", "portable"} <= set(module.symbols())
    assert "template.apply<@t.double>" in print_module(module)


@pytest.mark.seed("E10")
def test_targetless_libraries_need_no_target_package() -> None:
    """A library without target records verifies, links and prints with core alone."""
    module = linked([USER], [MOTIF])
    assert print_module(parse_module(print_module(module))) == print_module(module)


@pytest.mark.seed("T03")
def test_check_symbols_are_no_roots_and_can_be_left_out() -> None:
    """Check records stay only when asked for."""
    text = ROOT + "\ncheck.case public @c {\n  check.return\n}\n\ncheck.benchmark<@c> @b\n"
    assert "c" in linked([text], [LAYER, KERNELS], keep_tests=True).symbols()
    assert "c" not in linked([text], [LAYER, KERNELS], keep_tests=False).symbols()


def test_merge_keeps_everything() -> None:
    module = linked([ROOT, LAYER], [], merge=True)
    assert {"entry", "layer", "times", "helper", "unreached"} == set(module.symbols())


def test_the_plan_says_why() -> None:
    result = link(modules(ROOT), modules(LAYER, KERNELS), LinkOptions(roots=("entry",)))
    reasons = {entry.symbol: (entry.reason, entry.role, entry.wanted_by) for entry in result.plan}
    assert reasons["entry"] == ("root", "input", None)
    assert reasons["layer"] == ("dependency", "library", "entry")


def entry_user(program: str, arguments: str = "%dst: buffer") -> str:
    return f"""\
kernel.entry.decl @upload({arguments})

command.program.def public @{program}() launch(%out: buffer) {{
  %one = index.constant 1 : index
  kernel.dispatch @upload[%one](%out) : [index](buffer)
  command.return
}}
"""


@pytest.mark.parametrize("split", [0, 1])
def test_modules_share_the_declaration_of_an_executable_entry(split: int) -> None:
    first, second = modules(entry_user("p"), entry_user("q"))
    inputs, libraries = ([first, second], []) if split == 0 else ([first], [second])
    linked = link(inputs, libraries, LinkOptions(roots=("p", "q"))).module
    assert verify_module(linked) == []
    assert print_module(linked).count("kernel.entry.decl @upload(") == 1
    assert print_module(linked).count("kernel.dispatch @upload[") == 2


def test_entries_that_differ_are_an_error() -> None:
    with pytest.raises(LoomError) as caught:
        link(modules(entry_user("p"), entry_user("q", "%dst: buffer, %n: index")), [], LinkOptions(roots=("p",)))
    assert caught.value.diagnostics[0].code == "SYMBOL/006"
