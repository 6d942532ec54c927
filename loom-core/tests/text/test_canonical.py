"""Canonical text: what the printer writes, and that it is a fixed point."""

from __future__ import annotations

import pytest

from loom.spec import registry
from loom.spec.model import OpSpec
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import verify_module


def canonical(text: str) -> str:
    return print_module(parse_module(text))


def test_loose_layout_becomes_canonical_and_stays() -> None:
    loose = """\
// Keeps the larger value.

func.def   pure @at_least( %v : i32 ,%floor: i32 ) -> ( i32 )
{
   %low = scalar.cmpi slt, %v, %floor : i32


   // Two arms.
   %out = scf.if %low -> (i32) { scf.yield %floor : i32 } else { scf.yield %v : i32 }
   func.return %out : i32 }
"""
    expected = """\
// Keeps the larger value.

func.def pure @at_least(%v: i32, %floor: i32) -> (i32) {
  %low = scalar.cmpi slt, %v, %floor : i32

  // Two arms.
  %out = scf.if %low -> (i32) {
    scf.yield %floor : i32
  } else {
    scf.yield %v : i32
  }
  func.return %out : i32
}
"""
    assert canonical(loose) == expected
    assert canonical(expected) == expected


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


def test_comments_inside_an_op_move_to_the_next_and_trailing_ones_go() -> None:
    text = "func.def @f(%a: i32) -> (i32) {\n  %b = scalar.addi %a, // here\n    %a : i32\n  func.return %b : i32\n  // gone\n}\n"
    assert canonical(text) == (
        "func.def @f(%a: i32) -> (i32) {\n  %b = scalar.addi %a, %a : i32\n  // here\n  func.return %b : i32\n}\n"
    )


def test_symbols_are_separated_by_one_blank_line() -> None:
    text = "config.def @a = 1 : index\nconfig.def @b = 2 : index\n\n\n\nconfig.def @c = 3 : index\n"
    assert canonical(text) == ("config.def @a = 1 : index\n\nconfig.def @b = 2 : index\n\nconfig.def @c = 3 : index\n")


def test_module_records_come_first_and_sorted() -> None:
    text = 'config.def @a = 1 : index\nmetadata.module "z" = 1\nmetadata.module "b" = {y = 2, x = [1, 2]}\n'
    assert canonical(text) == (
        'metadata.module "b" = {x = [1, 2], y = 2}\nmetadata.module "z" = 1\n\nconfig.def @a = 1 : index\n'
    )


def test_an_empty_dictionary_prints_as_nothing() -> None:
    text = "target.generic<reference> @t {}\n\nfunc.decl export(\"f\", {}) @f()\n"
    assert canonical(text) == "target.generic<reference> @t\n\nfunc.decl export(\"f\") @f()\n"


def test_empty_module_is_an_empty_text() -> None:
    assert canonical("") == ""
    assert canonical("\n\n") == ""


@pytest.mark.parametrize(
    ("literal", "type_", "printed"),
    [
        ("0x10", "i32", "16"),
        ("-0", "i32", "0"),
        ("1.0", "f32", "1.0"),
        ("7E2", "f64", "700.0"),
        ("0.1", "f64", "0.10000000000000001"),
        ("0x1.4p-3", "f32", "0.15625"),
        ("1e30", "f32", "1.0000000000000000e+30"),
        ("nan", "f32", "nan"),
        ("-nan", "f32", "nan"),
        ("-inf", "f16", "-inf"),
        ("true", "i1", "true"),
        ("1", "i1", "1"),
    ],
)
def test_literals(literal: str, type_: str, printed: str) -> None:
    if literal == "1e30":
        printed = f"{1e30:.17g}"
    text = (
        f"func.def @f() -> ({type_}) {{\n  %c = scalar.constant {literal} : {type_}\n  func.return %c : {type_}\n}}\n"
    )
    assert f"scalar.constant {printed} : {type_}\n" in canonical(text)


def test_types_drop_defaults() -> None:
    text = """\
func.decl @f(%a: view<4xi32, align(4)>, %b: view<4xi32, align(0x1)>, %c: view<2x3xf32, #encoding.layout.dense>)
"""
    assert canonical(text) == "func.decl @f(%a: view<4xi32>, %b: view<4xi32, align(1)>, %c: view<2x3xf32>)\n"


def test_aliases_are_kept() -> None:
    text = "#rows = #encoding.layout.strided<strides=[96, 1]>\nfunc.decl @take(%m: view<8x96xf32, #rows>)\n"
    assert canonical(text) == text


def test_shadowing_prints_as_authored() -> None:
    text = """\
func.def @f(%c: i1, %x: i32) -> (i32) {
  %y = scf.if %c -> (i32) {
    %x = scalar.constant 1 : i32
    scf.yield %x : i32
  } else {
    scf.yield %x : i32
  }
  func.return %y : i32
}
"""
    assert canonical(text) == text


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


def test_loops_with_dependent_carried_types() -> None:
    text = """\
func.def @narrow(%turns: index, %n: index, %x: view<[%n]xf32>) -> (index) {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %left, %rest = scf.for %i = [%c0 to %turns step %c1](%len = %n : index, %win = %x : view<[%n]xf32>) -> (index, view<[%left]xf32>) {
    %shorter = index.sub %len, %c1 : index
    %sub = view.subview %win[1] : view<[%len]xf32> -> view<[%shorter]xf32>
    scf.yield %shorter, %sub : index, view<[%shorter]xf32>
  }
  %last = view.load %rest[0] : view<[%left]xf32> -> f32
  func.return %left : index
}
"""
    module = parse_module(text)
    assert verify_module(module) == []
    assert print_module(module) == text


def test_while_switch_lookup_and_cfg_print_back() -> None:
    text = """\
func.def @log2_floor(%n: index) -> (index) {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %bits = scf.while(%v = %n : index, %b = %c0 : index) -> (index) {
    %half = index.shrui %v, %c1 : index
    %go = index.cmp ne, %half, %c0 : index
    scf.condition %go, %b : i1, index
  } do(%cur: index) {
    %up = index.add %cur, %c1 : index
    %shifted = index.shrui %n, %up : index
    scf.yield %shifted, %up : index, index
  }
  func.return %bits : index
}

func.def @pick(%kind: index, %a: i32, %b: i32) -> (i32) {
  %cost = scf.switch %kind -> (i32) {
    case 1 {
      scf.yield %a : i32
    }
    case 7 {
      scf.yield %b : i32
    }
    default {
      %s = scalar.addi %a, %b : i32
      scf.yield %s : i32
    }
  }
  %p, %q = scf.lookup %kind {
    0 = (%a, %b),
    2 = (%b, %a)
  } default(%a, %a) : i32, i32
  %m = scf.select %go, %p, %q : i32
  func.return %m : i32
}
""".replace("%go, %p", "%flag, %p").replace("  %p, %q", "  %flag = scalar.cmpi slt, %a, %b : i32\n  %p, %q")
    module = parse_module(text)
    assert verify_module(module) == []
    assert print_module(module) == text


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


def test_flags_print_in_bit_order_and_fast_stays_fast() -> None:
    text = (
        "func.def @f(%p: f32, %i: i32) -> (f32) {\n  %a = scalar.addf<contract|nnan> %p, %p : f32\n"
        "  %b = scalar.mulf<fast> %a, %p : f32\n  %c = scalar.addi<nuw|nsw> %i, %i : i32\n  func.return %b : f32\n}\n"
    )
    printed = canonical(text)
    assert "scalar.addf<nnan|contract>" in printed
    assert "scalar.mulf<fast>" in printed
    assert "scalar.addi<nsw|nuw>" in printed


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
