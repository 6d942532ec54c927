"""Target records: known profiles, fields of the right kind, and code for architectures that nothing compiles for."""

from __future__ import annotations

import pytest

from loom import api
from loom.ir.diagnostics import Diagnostic, LoomError
from loom.link.linker import LinkOptions, link
from loom.plugins.manager import find_target
from loom.plugins.records import TargetProfile
from loom.specialize.pipeline import specialize
from loom.text.parser import parse_module
from loom.verify.verifier import verify_module


def findings(text: str) -> list[Diagnostic]:
    return verify_module(parse_module(text, "t.loom"))


@pytest.mark.parametrize(
    "record", ["target.generic<reference>", "vm.target<core>", "wasm.target<simd128>", "aie2p.target<core>"]
)
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ("subgroup_size = 0", "STRUCTURE/014"),
        ("max_flat_workgroup_size = -1", "STRUCTURE/014"),
        ("memory_space_global = -1", "STRUCTURE/014"),
        ("codegen_format = llvmir", "STRUCTURE/014"),
        ("abi = kernel", "STRUCTURE/014"),
        ("lane_count = 32", "STRUCTURE/014"),
        ("codegen_format = 4", "TYPE/005"),
        ("subgroup_size = many", "TYPE/005"),
        ("subgroup_size = true", "TYPE/005"),
        ("export_symbol = main", "TYPE/005"),
    ],
)
def test_fields_of_records(record: str, fields: str, code: str) -> None:
    assert [d.code for d in findings(f"{record} @t {{{fields}}}\n")] == [code]


def test_misspelled_fields_get_a_suggestion() -> None:
    (found,) = findings("vm.target<core> @t {subgroup_sise = 32}\n")
    assert found.hint is not None
    assert "subgroup_size" in found.hint


@pytest.mark.parametrize("record", ["vm.target<page>", "wasm.target<core>", "aie2p.target<simd128>"])
def test_unknown_profiles(record: str) -> None:
    with pytest.raises(LoomError) as caught:
        parse_module(f"{record} @t\n")
    assert [d.code for d in caught.value.diagnostics] == ["PARSE/017"]


PROGRAM = """\
wasm.target<simd128> @page

func.def public target(@page) @f(%x: i32) -> (i32) {
  %y = scalar.addi %x, %x : i32
  func.return %y : i32
}
"""


def test_a_record_is_linked_with_the_code_that_names_it() -> None:
    library = PROGRAM
    user = """\
func.decl @f(%x: i32) -> (i32)

func.def public @entry(%x: i32) -> (i32) {
  %y = func.call @f(%x) : (i32) -> (i32)
  func.return %y : i32
}
"""
    linked = link([parse_module(user)], [parse_module(library)], LinkOptions(roots=("entry",))).module
    assert verify_module(linked) == []
    assert linked.symbols()["page"].name == "wasm.target"


@pytest.mark.parametrize("name", ["wasm:simd128", "vm:core", "aie2p:array"])
def test_targets_that_no_package_offers(name: str) -> None:
    with pytest.raises(LoomError) as caught:
        find_target(name)
    (found,) = caught.value.diagnostics
    assert found.code == "TARGET/044"
    assert found.message == f"no target named '{name}' is installed"
    assert "did you mean" not in (found.hint or "")


def test_code_for_an_architecture_without_a_package_is_for_no_other_target() -> None:
    other = TargetProfile("test", "other", "test.core", {}, "none", ("test.target", "other"))
    with pytest.raises(LoomError) as caught:
        specialize(parse_module(PROGRAM), other, ["f"])
    (found,) = caught.value.diagnostics
    assert found.code == "TARGET/052"
    assert found.position() == (parse_module(PROGRAM).name, 3, 1)
    assert found.hint == "no package that compiles for 'wasm.target<simd128>' is installed"


def test_without_a_target_the_reference_evaluator_runs_it() -> None:
    module = api.load_bytes(PROGRAM.encode(), "t.loom")
    assert specialize(module, None, ["f"]).module.symbols()["f"].name == "func.def"
