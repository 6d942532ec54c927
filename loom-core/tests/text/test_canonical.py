"""Canonical text where more than text is looked at; goldens of the text are in tests/golden."""

from __future__ import annotations

import pytest

from loom.spec import registry
from loom.spec.model import OpSpec
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import verify_module


def canonical(text: str) -> str:
    return print_module(parse_module(text))


@pytest.mark.seed("C02")
def test_a_resultless_conditional_keeps_its_terminator_in_memory_only() -> None:
    """The implicit yield does not print, but the parsed region has it."""
    text = """\
func.def @f(%c: i1) {
  scf.if %c {
  }
  func.return
}
"""
    module = parse_module(text)
    conditional = next(op for op in module.walk() if op.name == "scf.if")
    last = conditional.regions[0].entry.last
    assert last is not None
    assert last.name == "scf.yield"
    assert print_module(module) == text


def test_empty_module_is_an_empty_text() -> None:
    assert canonical("") == ""
    assert canonical("\n\n") == ""


def test_a_name_that_would_capture_an_outer_reference_gets_a_suffix() -> None:
    """Names that would print wrongly after a rewrite are made distinct, and the text still means the same."""
    module = parse_module(
        "func.def @f(%c: i1, %x: i32) -> (i32) {\n"
        "  %y = scf.if %c -> (i32) {\n    %k = scalar.constant 1 : i32\n    %s = scalar.addi %k, %x : i32\n"
        "    scf.yield %s : i32\n  } else {\n    scf.yield %x : i32\n  }\n  func.return %y : i32\n}\n"
    )
    constant = next(op for op in module.walk() if op.name == "scalar.constant")
    constant.results[0].name = "x"
    text = print_module(module)
    again = parse_module(text)
    addition = next(op for op in again.walk() if op.name == "scalar.addi")
    assert addition.operands[0].defining_op is not None
    assert addition.operands[1].defining_op is None
    assert print_module(again) == text


def test_unnamed_values_and_blocks_are_numbered() -> None:
    module = parse_module(
        "func.def @f(%n: index) -> (index) {\n  cfg.br ^next(%n: index)\n^next(%i: index):\n  func.return %i : index\n}\n"
    )
    block = next(iter(module.ops)).regions[0].blocks[1]
    block.label = None
    block.args[0].name = None
    text = print_module(module)
    assert "^_bb1(%1: index):" in text
    assert print_module(parse_module(text)) == text


def _families() -> list[tuple[str, str]]:
    """One line per table-made arithmetic op of the scalar and index dialects."""
    registry.load_dialect("scalar")
    registry.load_dialect("index")
    lines = []
    for name, cls in registry.all_ops().items():
        spec: OpSpec = cls.spec
        if spec.dialect not in ("scalar", "index") or not spec.operands or spec.segmented:
            continue
        constraint = spec.operands[0].constraint.name
        if (
            "same_type_as"
            and spec.results
            and spec.results[0].same_type_as
            and len(spec.attributes) <= 1
            and name
            not in (
                "scalar.clampf",
                "scalar.geluf",
            )
        ):
            type_ = "f32" if "floating" in constraint else "index" if "index" in constraint else "i32"
            operands = ", ".join("%x" for _ in spec.operands)
            lines.append((name, f"{name} {operands} : {type_}"))
    return lines


@pytest.mark.parametrize(("name", "line"), _families())
def test_arithmetic_families(name: str, line: str) -> None:
    type_ = line.rpartition(" : ")[2]
    text = f"func.def @f(%x: {type_}) -> ({type_}) {{\n  %r = {line}\n  func.return %r : {type_}\n}}\n"
    module = parse_module(text)
    assert verify_module(module) == []
    assert print_module(module) == text


def test_deep_nesting_and_long_chains() -> None:
    """Nesting of 3,000 regions and a chain of 100,000 operations stay clear of recursion limits."""
    depth = 3000
    body = "".join("scf.if %c {\n" for _ in range(depth)) + "}\n" * depth
    nested = f"func.def @f(%c: i1) {{\n{body}func.return\n}}\n"
    module = parse_module(nested)
    assert verify_module(module) == []
    text = print_module(module)
    assert text.count("scf.if %c {") == depth
    assert print_module(module.clone()) == text
    chain = "\n".join(f"%v{i + 1} = scalar.addi %v{i}, %v{i} : i32" for i in range(100_000))
    long = parse_module(f"func.def @g(%v0: i32) -> (i32) {{\n{chain}\nfunc.return %v100000 : i32\n}}\n")
    assert verify_module(long) == []
    assert print_module(long).count("scalar.addi") == 100_000


def test_arguments_of_a_condition_loop_may_name_each_other_in_types() -> None:
    """Behind ``do``, a type names the argument before it and not the one of the first region with its name."""
    text = """\
func.def @f(%x: view<8xi32>, %n: index, %c: i1) -> (i32) {
  %zero = index.constant 0 : index
  %whole = view.refine %x : view<8xi32> -> view<[%n]xi32>
  %rows, %rest = scf.while(%r = %n : index, %v = %whole : view<[%n]xi32>) -> (index, view<[%rows]xi32>) {
    scf.condition %c, %r, %v : i1, index, view<[%r]xi32>
  } do(%r: index, %v: view<[%r]xi32>) {
    %y = view.load %v[%zero] : view<[%r]xi32> -> i32
    scf.yield %r, %v : index, view<[%r]xi32>
  }
  %y = view.load %rest[%zero] : view<[%rows]xi32> -> i32
  func.return %y : i32
}
"""
    module = parse_module(text, "m.loom")
    assert verify_module(module) == []
    assert print_module(module) == text
