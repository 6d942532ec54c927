"""Authored Low helpers that source functions invoke: they are inlined, and their rules are those of the call."""

from __future__ import annotations

import pytest
from x86_programs import RUNNER_IDS, RUNNERS, Runner, compile_object

from loom import api
from loom.ir.diagnostics import LoomError

HELPERS = """
low.func.def target<x86.simd128.core> @far(%a: reg<x86.gpr64>, %b: reg<x86.gpr64>) -> (reg<x86.gpr64>) asm {
  %c = cmp.slt.gpr64 %a, %b
  low.cond_br %c, ^less, ^more : reg<x86.gpr32>
^less:
  %d = sub.gpr64 %b, %a
  return %d
^more:
  %e = imul.imm.gpr64 %a, 3
  return %e
}

low.func.def target<x86.simd128.core> @twice(%a: reg<x86.gpr64>, %b: reg<x86.gpr64>) -> (reg<x86.gpr64>, reg<x86.gpr64>) asm {
  %d = low.func.call @far(%a, %b) : (reg<x86.gpr64>, reg<x86.gpr64>) -> (reg<x86.gpr64>)
  %e = low.func.call @far(%d, %b) : (reg<x86.gpr64>, reg<x86.gpr64>) -> (reg<x86.gpr64>)
  return %d, %e
}

low.func.def schedule(locked) target<x86.simd128.core> @locked(%a: reg<x86.gpr64>, %b: reg<x86.gpr64>) -> (reg<x86.gpr64>) asm {
  %x = imul.gpr64 %a, %a
  %y = add.gpr64 %x, %b
  %z = imul.gpr64 %y, %y
  return %z
}

low.func.def target<x86.simd128.core> @small(%a: reg<x86.gpr64>) -> (reg<x86.gpr64>) where [range(%a, 0, 15)] asm {
  %d = add.imm.gpr64 %a, 1
  return %d
}

low.func.def target<x86.avx2.core> @wide(%a: reg<x86.gpr64>) -> (reg<x86.gpr64>) asm {
  %d = add.imm.gpr64 %a, 1
  return %d
}

func.def public @f(%a: i64, %b: i64) -> (i64, i64, i64) {
  %d, %e = low.invoke @twice(%a, %b) : (i64, i64) -> (i64, i64)
  %g = low.invoke @locked(%a, %e) : (i64, i64) -> (i64)
  func.return %d, %e, %g : i64, i64, i64
}
"""


def low_text(text: str) -> str:
    """Target Low of the function."""
    lowered = api.lower(api.compile(api.load_bytes(text.encode(), "test.loom"), ["f"], "x86:simd128"))
    assert lowered is not None
    api.verify(lowered)
    return api.print(lowered)


def expected(a: int, b: int) -> list[int]:
    def far(x: int, y: int) -> int:
        return y - x if x < y else 3 * x

    d = far(a, b)
    e = far(d, b)
    return [d, e, (a * a + e) ** 2]


CARRY = """\
low.func.def target<x86.simd128.core> @carry(%a: reg<x86.gpr64>, %b: reg<x86.gpr64>, %z: reg<x86.gpr64>) -> (reg<x86.gpr64>) asm {
  %sum = add.gpr64 %a, %b
  %c = adc.gpr64 %z, %z
  return %c
}

func.def public @f(%a: i64, %b: i64, %z: i64) -> (i64) {
  %c = low.invoke @carry(%a, %b, %z) : (i64, i64, i64) -> (i64)
  func.return %c : i64
}
"""


@pytest.mark.parametrize("runner", RUNNERS, ids=RUNNER_IDS, indirect=True)
def test_a_sum_is_kept_for_its_carry(runner: Runner) -> None:
    """Nobody uses the sum, but the flags it leaves are read."""
    program = runner.compile(CARRY, ["f"])
    for a, b in ((-1, 1), (1, 1), (-1, -1), (2**63 - 1, 1)):
        assert program.call("f", [a, b, 0]) == [int((a % 2**64) + (b % 2**64) >= 2**64)]


@pytest.mark.seed("H01", "H04", "H05", "H07", "H09")
@pytest.mark.parametrize("runner", RUNNERS, ids=RUNNER_IDS, indirect=True)
def test_helpers_with_blocks_and_nested_calls_are_inlined(runner: Runner) -> None:
    """No call is left: branches of helpers become branches of the function, every path delivering its results."""
    program = runner.compile(HELPERS, ["f"])
    for a, b in ((2, 9), (9, 2), (5, 5), (-4, 3)):
        assert program.call("f", [a, b]) == expected(a, b)
    assert "call" not in low_text(HELPERS)


def with_body(body: str, signature: str = "(%a: i64) -> (i64)") -> str:
    return HELPERS[: HELPERS.index("func.def public @f")] + f"func.def public @f{signature} {{\n{body}}}\n"


SMALL = """\
  {known}
  %r = low.invoke @small(%n) : (i64) -> (i64)
  func.return %r : i64
"""


@pytest.mark.seed("H10", "H11")
@pytest.mark.parametrize(
    ("known", "code"),
    [
        ("%n = scalar.assume %a [range(%a, 1, 3)] : i64", None),
        ("%n = scalar.constant 15 : i64", None),
        ("%n = scalar.addi %a, %a : i64", "precondition_unproven"),
        ("%n = scalar.assume %a [range(%a, 0, 16)] : i64", "precondition_unproven"),
        ("%n = scalar.constant 16 : i64", "precondition_contradicted"),
    ],
)
def test_preconditions_are_proven_before_they_are_assumed(known: str, code: str | None) -> None:
    text = with_body(SMALL.replace("{known}", known))
    if code is None:
        shown = low_text(text)
        assert "assume" in shown
        assert "range(" in shown
        return
    with pytest.raises(LoomError) as caught:
        compile_object(text, ["f"], "simd128")
    (found,) = caught.value.diagnostics
    assert (found.code, found.params["failure_code"]) == ("LOWERING/044", code)
    assert "'range(%a, 0, 15)' of '@small'" in found.message
    assert found.position() is not None


@pytest.mark.seed("H02", "H04", "H08")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("%r = low.invoke @wide(%a) : (i64) -> (i64)", "TARGET/040"),
        ("%r = low.invoke noinline @small(%a) : (i64) -> (i64)", "LOWERING/044"),
        ("%t = scalar.trunci %a : i64 to i32\n  %r = low.invoke @small(%t) : (i32) -> (i64)", "TARGET/002"),
        ("%t = scalar.sitofp %a : i64 to f32\n  %r = low.invoke @far(%t, %a) : (f32, i64) -> (i64)", "TARGET/002"),
        ("%t = low.invoke @far(%a, %a) : (i64, i64) -> (f32)\n  %r = scalar.fptosi %t : f32 to i64", "TARGET/002"),
    ],
)
def test_what_a_call_must_be(line: str, code: str) -> None:
    text = with_body(f"  {line}\n  func.return %r : i64\n").replace(" where [range(%a, 0, 15)]", "")
    with pytest.raises(LoomError) as caught:
        compile_object(text, ["f"], "simd128")
    assert [d.code for d in caught.value.diagnostics] == [code]
    assert caught.value.diagnostics[0].position() is not None


@pytest.mark.seed("H12")
def test_predicates_of_arguments_move_to_the_generated_function() -> None:
    """What the source function states of its arguments is stated of the registers; derived facts are not."""
    text = with_body(
        "  %m = scalar.addi %a, %a : i64\n  func.return %m : i64\n",
        "(%a: i64) -> (%r: i64) where [range(%a, 2, 6), ge(%r, %a)]",
    )
    (head,) = (line for line in low_text(text).splitlines() if "@f(" in line)
    assert "where [range(%a, 2, 6)] asm {" in head
