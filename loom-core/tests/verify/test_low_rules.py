"""Rules of Low operations: structured control flow, storage and its parts, locked bodies."""

from __future__ import annotations

import pytest

from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import verify_module

S, F = "reg<test.scalar>", "reg<test.flag>"


def codes(*statements: str, mode: str = "") -> list[str]:
    lines = "".join(f"  {s}\n" for s in statements)
    text = (
        f"low.func.def {mode}target<test.low.core> @f(%a: {S}, %b: {S}, %c: {F}, %w: reg<test.scalar x2>) {{\n"
        "  %s = low.storage.reserve {byte_alignment = 16, byte_length = 64} : low.storage<private>\n"
        f"{lines}  low.return\n}}\n"
    )
    return [d.code for d in verify_module(parse_module(text, "t.loom"))]


VIEW = " : low.storage<private> -> low.storage<private>"


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        (f"%r = low.scf.if %c -> ({S}) {{\n low.scf.yield %a : {S}\n }}", "STRUCTURE/013"),
        (f"%r = low.scf.if %c -> ({S}) {{\n low.scf.yield %a : {S}\n }} else {{\n }}", "STRUCTURE/008"),
        (
            f"%r = low.scf.if %c -> ({S}) {{\n low.scf.yield %a : {S}\n }} else {{\n low.scf.yield %c : {F}\n }}",
            "TYPE/009",
        ),
        ("low.scf.if %c {\n scf.yield\n }", "STRUCTURE/018"),
        (f"low.scf.for [%a to %c step %b] do(%i: {S}) {{\n }}", "TYPE/001"),
        (f"low.scf.for [%a to %b step %b] do(%i: {F}) {{\n }}", "TYPE/013"),
        (f"low.scf.for [%a to %b step %b] do(%i: {S}, %x: {S}) {{\n }}", "STRUCTURE/007"),
        (f"low.scf.for [%a to %b step %b] iter_args(%a: {S}) do(%i: {S}) {{\n }}", "STRUCTURE/013"),
        (
            f"%r = low.scf.for [%a to %b step %b] iter_args(%c: {F}) -> ({S}) do(%i: {S}, %x: {S}) {{\n"
            f" low.scf.yield %x : {S}\n }}",
            "TYPE/001",
        ),
        (
            f"%r = low.scf.for [%a to %b step %b] iter_args(%a: {S}) -> ({S}) do(%i: {S}, %x: {S}) {{\n"
            f" low.scf.yield %c : {F}\n }}",
            "TYPE/009",
        ),
        (f"low.scf.for [%a to %b step %b] unroll(%a) unroll do(%i: {S}) {{\n }}", "STRUCTURE/014"),
        ("low.scf.while {\n low.scf.yield\n } do {\n low.scf.yield\n }", "STRUCTURE/018"),
        (f"low.scf.while {{\n low.scf.condition %c, %a : {F}, {S}\n }} do {{\n low.scf.yield\n }}", "STRUCTURE/013"),
        (
            f"low.scf.while(%x = %a : {S}) {{\n low.scf.condition %c : {F}\n }} do {{\n low.scf.yield\n }}",
            "STRUCTURE/008",
        ),
        ("%v = low.storage.view %s {offset = -1, byte_length = 4}" + VIEW, "STRUCTURE/014"),
        ("%v = low.storage.view %s {offset = 0, byte_length = 0}" + VIEW, "STRUCTURE/014"),
        ("%v = low.storage.view %s {offset = 61, byte_length = 4}" + VIEW, "STRUCTURE/014"),
        ("%v = low.storage.view %s {byte_length = 4} : low.storage<private> -> low.storage<stack>", "TYPE/001"),
        (f"low.spill %a, %s {{offset = 64}} : {S}, low.storage<private>", "STRUCTURE/014"),
        (f"%r = low.reload %s {{offset = -4}} : low.storage<private> -> {S}", "STRUCTURE/014"),
        ("low.scf.if %c {\n low.schedule.fence\n }", "STRUCTURE/029"),
    ],
)
def test_rules(statement: str, code: str) -> None:
    assert codes(statement) == [code]


def test_parts_of_parts_stay_inside() -> None:
    part = "%v = low.storage.view %s {offset = 16, byte_length = 8}" + VIEW
    assert codes(part, "%u = low.storage.view %v {offset = 4, byte_length = 4}" + VIEW) == []
    assert codes(part, "%u = low.storage.view %v {offset = 4, byte_length = 5}" + VIEW) == ["STRUCTURE/014"]
    assert codes(part, f"low.spill %a, %v {{offset = 8}} : {S}, low.storage<private>") == ["STRUCTURE/014"]


@pytest.mark.seed("O06")
def test_a_locked_body_has_no_nested_regions() -> None:
    """Blocks may be several."""
    statement = "low.scf.if %c {\n }"
    assert codes(statement) == []
    assert codes(statement, mode="schedule(locked) ") == ["STRUCTURE/029"]
    blocks = f"low.cond_br %c, ^x, ^y : {F}\n^x:\n  low.return\n^y:"
    assert codes(blocks, mode="schedule(locked) ") == []


@pytest.mark.seed("S07")
def test_kernels_may_be_phased_and_controls_stand_at_the_top() -> None:
    """In a nested region a control is an error, whichever it is."""
    text = "low.kernel.def schedule(phased) target<test.low.core> @k() {\n  low.schedule.phase\n  low.return\n}\n"
    assert verify_module(parse_module(text)) == []
    for control in ("fence", "begin", "phase", "end"):
        nested = f"low.scf.if %c {{\n low.schedule.{control}\n }}"
        assert codes(nested, mode="schedule(phased) ") == ["STRUCTURE/029"]


@pytest.mark.seed("S10")
@pytest.mark.parametrize(
    ("contract", "code"),
    [("spirv.logical.core", "SPIRV/017"), ("wasm.core.simd128", "TARGET/032"), ("vm.core", "TARGET/032")],
)
def test_contracts_that_keep_no_scopes(contract: str, code: str) -> None:
    """The mode and every control are refused where they stand; a fence promises less."""
    body = "low.schedule.begin\n  low.schedule.phase\n  low.schedule.end\n  low.schedule.fence\n  low.return\n}\n"
    text = f"low.func.def schedule(phased) target<{contract}> @f() {{\n  {body}"
    found = verify_module(parse_module(text, "t.loom"))
    assert [d.code for d in found] == [code] * 4
    assert [d.position() for d in found] == [("t.loom", 1, 1), ("t.loom", 2, 3), ("t.loom", 3, 3), ("t.loom", 4, 3)]
    assert verify_module(parse_module(text.replace(contract, "test.low.core"))) == []


@pytest.mark.seed("H03")
def test_physical_registers_carry_no_second_type() -> None:
    """Only classes of virtual ids name what a value is; older texts, which did, lose it."""
    text = "low.func.def target<test.low.core> @f(%a: reg<{}>) {{\n  low.return\n}}\n"
    assert print_module(parse_module(text.format("amdgpu.vgpr : f32"))) == text.format("amdgpu.vgpr")
    assert print_module(parse_module(text.format("spirv.id : f32"))) == text.format("spirv.id : f32")


def test_a_condition_stands_in_its_own_kind_of_loop() -> None:
    text = "low.scf.if %c {\n low.scf.condition %c : " + F + "\n }"
    assert "STRUCTURE/029" in codes(text)


@pytest.mark.parametrize(
    ("clause", "valid"),
    [
        ("workgroup_size(64, 1, 1) workgroup_count(0, 1, 1) cluster_size(1, 1, 2)", True),
        ("workgroup_size(0, 1, 1)", False),
        ("workgroup_count(1, -1, 1)", False),
        ("cluster_size(1, 1, 0)", False),
    ],
)
def test_sizes_of_kernels(clause: str, valid: bool) -> None:
    text = f"low.kernel.def target<test.low.core> {clause} @k() {{\n  low.return\n}}\n"
    assert [d.code for d in verify_module(parse_module(text))] == ([] if valid else ["STRUCTURE/014"])


def test_signatures_of_declarations_are_registers() -> None:
    text = "low.func.decl target<test.low.core> @f(%a: i32)\n"
    assert [d.code for d in verify_module(parse_module(text))] == ["TYPE/014"]
