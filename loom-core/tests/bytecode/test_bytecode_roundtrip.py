"""What is written is read back: listings as canonical text, generated modules field by field."""

from __future__ import annotations

from pathlib import Path

import pytest
from bytecode_programs import REPOSITORY, SHARED, ModuleMaker, listings, source_files, structure
from hypothesis import given, settings
from hypothesis import strategies as st

from loom.bytecode import BytecodeFile, read_module, write_module
from loom.ir.core import Module
from loom.ir.diagnostics import LoomError, SourceLocation
from loom.spec.registry import all_ops
from loom.text.parser import parse_module
from loom.text.printer import print_module

TEST_FILES = sorted((REPOSITORY / "loom-core" / "tests").rglob("test_*.py"))


def check(text: str, name: str) -> None:
    module = parse_module(text, name)
    data = write_module(module)
    again = read_module(data, name)
    assert print_module(again) == print_module(module)
    assert structure(again) == structure(module)
    assert write_module(again) == data


@pytest.mark.seed("M01")
@pytest.mark.parametrize("path", source_files(), ids=lambda path: path.stem)
def test_program_files_survive(path: Path) -> None:
    try:
        parse_module(path.read_text(), path.name)
    except LoomError:
        pytest.skip("the file shows a syntax error")
    check(path.read_text(), path.name)


def test_shared_cases_are_among_the_program_files() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there (set LOOM_SHARED)")
    assert sum(SHARED in path.parents for path in source_files()) > 15


@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: path.stem)
def test_listings_in_tests_survive(path: Path) -> None:
    for text in listings(path):
        check(text, path.name)


def test_there_are_listings_in_tests() -> None:
    assert sum(1 for path in TEST_FILES for _ in listings(path)) > 100


@given(seed=st.integers(0, 2**32))
@settings(max_examples=150)
def test_generated_modules_survive(seed: int) -> None:
    module = ModuleMaker(seed).module()
    data = write_module(module)
    again = read_module(data)
    assert structure(again) == structure(module)
    assert write_module(again) == data


def test_every_declared_op_survives() -> None:
    """One module per op, generated until one has it (values to use come from the ops around it)."""
    for number, (name, cls) in enumerate(all_ops().items()):
        maker = ModuleMaker(number)
        module = Module("one")
        holder = maker.op(0, None, all_ops()["func.def"])
        body = holder.regions[0]
        maker.values = [*body.entry.args, body.entry.add_argument(maker.type(True), "extra")]
        body.entry.append(maker.op(1, body, cls))
        module.body.append(holder)
        assert name in {op.name for op in module.walk()}
        again = read_module(write_module(module))
        assert structure(again) == structure(module), name


@pytest.mark.seed("F09")
def test_modifiers_of_functions_survive() -> None:
    text = """\
func.def public host cold @f(%x: i32) -> (i32) {
  func.return %x : i32
}

func.def device hot @g(%x: i32) -> (i32) {
  func.return %x : i32
}
"""
    assert print_module(read_module(write_module(parse_module(text)))) == text


def test_a_type_may_name_arguments_and_results_that_come_later() -> None:
    text = """\
func.def @f(%v: view<[%n]xf32>, %n: index) -> (%m: index, view<[%m]x[%n]xf32>) {
  func.return %n, %v : index, view<[%n]xf32>
}
"""
    module = parse_module(text)
    again = read_module(write_module(module))
    assert print_module(again) == print_module(module)
    function: object = again.symbols()["f"]
    view, extent = function.body.entry.args  # type: ignore[attr-defined]
    assert view.type.dims == (extent,)
    assert view in extent.dependents


def test_an_operand_may_be_defined_further_down() -> None:
    """A transform may leave a block in front of the one that dominates it."""
    text = """\
func.def @f(%c: i32) -> (i32) {
  cfg.br ^later
^early:
  %sum = scalar.addi %late, %late : i32
  func.return %sum : i32
^later:
  %late = scalar.constant 1 : i32
  cfg.br ^early
}
"""
    ordered = text.replace("%late, %late", "%c, %c")
    module = parse_module(ordered)
    (function,) = module.ops
    blocks = function.regions[0].blocks
    late = blocks[2].first
    addition = blocks[1].first
    assert late is not None
    assert addition is not None
    addition.set_operands([late.result, late.result], addition.segments)
    again = read_module(write_module(module))
    assert structure(again) == structure(module)
    assert print_module(again) == text


def test_equal_modules_give_equal_bytes() -> None:
    text = (REPOSITORY / "examples" / "row_moments.loom").read_text()
    assert write_module(parse_module(text, "a.loom")) == write_module(parse_module(text, "a.loom"))


def test_positions_survive_and_can_be_left_out() -> None:
    text = "func.def @f(%x: i32) -> (i32) {\n  %y = scalar.addi %x, %x : i32\n  func.return %y : i32\n}\n"
    module = parse_module(text, "dir/a.loom")
    again = read_module(write_module(module), "a.loombc")
    before = [SourceLocation.of(op.loc) for op in module.walk()]
    assert [SourceLocation.of(op.loc) for op in again.walk()] == before
    assert str(before[1]) == "dir/a.loom:2:8"
    bare = write_module(module, locations=False)
    assert b"a.loom" in write_module(module)
    assert len(bare) < len(write_module(module))
    assert all(op.loc is None for op in read_module(bare).walk())
    assert print_module(read_module(bare)) == text


def test_a_diagnostic_names_the_recorded_position() -> None:
    text = "func.def @f(%x: i32) -> (i64) {\n  func.return %x : i32\n}\n"
    from loom.verify.verifier import verify_module

    module = parse_module(text, "a.loom")
    again = read_module(write_module(module))
    expected = [d.position() for d in verify_module(module)]
    assert expected
    found = verify_module(again)
    assert [d.position() for d in found] == expected
    assert found[0].render().startswith("a.loom:2:")
    # There is no source text to quote.
    assert "^" not in found[0].render()


def test_a_value_of_another_symbol_is_refused() -> None:
    module = parse_module(
        "func.def @f(%x: i32) {\n  func.return\n}\n\nfunc.def @g(%y: i32) -> (i32) {\n  func.return %y : i32\n}\n"
    )
    f, g = module.ops
    stray = g.regions[0].entry.first
    assert stray is not None
    stray.set_operands([f.regions[0].entry.args[0]], stray.segments)
    with pytest.raises(LoomError) as caught:
        write_module(module)
    assert caught.value.diagnostics[0].code == "BYTECODE/016"


def test_the_file_opens_without_decoding_bodies() -> None:
    count = 200
    text = "\n".join(
        f"func.def public @f{k}(%x: i32) -> (i32) {{\n  %y = func.call @f{k - 1}(%x) : (i32) -> (i32)\n  func.return %y : i32\n}}\n"
        for k in range(1, count)
    )
    text = "func.decl @f0(%x: i32) -> (i32)\n\n" + text
    file = BytecodeFile.open(write_module(parse_module(text)))
    symbols = file.symbols()
    assert list(symbols) == [f"f{k}" for k in range(count)]
    assert symbols["f0"].is_declaration
    assert not symbols["f0"].is_exported
    assert symbols["f7"].is_exported
    assert symbols["f7"].references == ("f6",)
    assert symbols["f7"].op_name == "func.def"
    assert file.decoded == 0
    op = file.materialize("f7")
    assert file.decoded == 1
    assert op.parent is None
    assert op.attribute("callee") == "f7"
    assert print_module(file.module()) == print_module(parse_module(text))
    assert file.decoded == 1 + count
