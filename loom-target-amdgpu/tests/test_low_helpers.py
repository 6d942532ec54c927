"""Statements about Low helpers: what a call needs, in which direction targets fit, what crosses the boundary."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import compile_text

from loom import api
from loom.ir.diagnostics import LoomError
from loom.plugins.manager import find_target
from loom_sim.amdgpu import load

GENERIC = "target<amdgpu.gfx11.generic.core>(@gfx11)"
HELPERS = f"""\
amdgpu.target<gfx11-generic> @gfx11

low.func.def {GENERIC} @add(%v: reg<amdgpu.vgpr>, %w: reg<amdgpu.vgpr>) -> (reg<amdgpu.vgpr>) asm {{
  %sum = v_add_u32 %v, %w
  return %sum
}}

low.func.def {GENERIC} @small(%v: reg<amdgpu.vgpr>, %n: reg<amdgpu.sgpr>) -> (reg<amdgpu.vgpr>) where [range(%n, 0, 15), multiple_of(%n, 2)] asm {{
  %sum = v_add_u32 %n, %v
  return %sum
}}

low.func.def {GENERIC} @nested(%v: reg<amdgpu.vgpr>, %n: reg<amdgpu.sgpr>) -> (reg<amdgpu.vgpr>) where [range(%n, 2, 8), multiple_of(%n, 4)] asm {{
  %once = low.func.call @small(%v, %n) : (reg<amdgpu.vgpr>, reg<amdgpu.sgpr>) -> (reg<amdgpu.vgpr>)
  %scc = s_cmp_gt_i32_rhs_inline %n, 4
  low.cond_br %scc, ^more, ^less : reg<amdgpu.scc>
^more:
  %twice = low.func.call @add(%once, %once) : (reg<amdgpu.vgpr>, reg<amdgpu.vgpr>) -> (reg<amdgpu.vgpr>)
  return %twice
^less:
  return %once
}}
"""
KERNEL = """
kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  %width = index.constant 32 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%y: buffer, %n: i32) {
  %origin = index.constant 0 : offset
  %lane = kernel.workitem.id<x> : index
  %v = index.cast %lane : index to i32
  %out = buffer.view %y[%origin] : buffer -> view<32xi32>
  {body}
  view.store %r, %out[%lane] : i32, view<32xi32>
  kernel.return
}
"""


def program(*body: str, helpers: str = HELPERS) -> str:
    return helpers + KERNEL.replace("{body}", "\n  ".join(body))


def run(text: str, n: int, target: str = "amdgpu:gfx1151") -> np.ndarray:
    y = np.zeros(32, np.int32)
    load(compile_text(text, target).primary.data).launch("k", 1, 32, [y, n])
    return y


def refusal(text: str, target: str = "amdgpu:gfx1151") -> tuple[str, str]:
    """Code and the parameter that tells breaches of one code apart."""
    with pytest.raises(LoomError) as caught:
        compile_text(text, target)
    (found,) = caught.value.diagnostics
    assert found.position() is not None
    return found.code, str(found.params.get("failure_code") or found.params.get("constraint_key") or "")


def lowered(text: str, target: str = "amdgpu:gfx1151") -> str:
    profile = find_target(target)
    return api.print(api.lower_module(api.specialize(api.load_bytes(text.encode(), "m.loom"), profile).module, profile))


CALL = "%r = low.invoke @small(%v, %m) : (i32, i32) -> (i32)"
ADD = "%r = low.invoke @add(%v, %v) : (i32, i32) -> (i32)"


@pytest.mark.seed("H01", "H03")
def test_authored_helpers_are_canonical_text() -> None:
    assert api.print(api.load_bytes(HELPERS.encode(), "m.loom")) == HELPERS
    with pytest.raises(LoomError):
        api.load_bytes(HELPERS.replace("%v: reg<amdgpu.vgpr>", "%v: reg<amdgpu.vgpr, i32>").encode(), "m.loom")


@pytest.mark.seed("H04", "H05", "H07")
@pytest.mark.parametrize("n", [4, 8])
def test_nested_calls_and_blocks_disappear(n: int) -> None:
    """The caller's code and the helpers' become one; each path of the helper delivers the result."""
    body = ("%m = scalar.assume %n [range(%n, 4, 8), multiple_of(%n, 4)] : i32",
            "%r = low.invoke @nested(%v, %m) : (i32, i32) -> (i32)")  # fmt: skip
    text = program(*body)
    once = np.arange(32, dtype=np.int32) + n
    np.testing.assert_array_equal(run(text, n), once + once if n > 4 else once)
    kernel = lowered(text).partition("low.kernel.def")[2].partition("\n}")[0]
    assert "call" not in kernel
    assert "v_add_u32" in kernel


@pytest.mark.seed("H08")
@pytest.mark.parametrize("target", ["amdgpu:gfx1151", "amdgpu:gfx1100", "amdgpu:gfx11-generic"])
def test_a_helper_for_the_generic_processor_serves_the_exact_one(target: str) -> None:
    """The kernel is in the exact contract, the helper's instructions in it."""
    text = lowered(program(ADD), target)
    contract = find_target(target).contract
    assert f"target<{contract}>" in text
    body = text[text.index("low.kernel.def") :]
    assert body.count("v_add_u32") == 1
    np.testing.assert_array_equal(run(program(ADD), 0, target), 2 * np.arange(32))


@pytest.mark.seed("H08")
@pytest.mark.parametrize(
    ("processor", "target"),
    [("gfx1151", "amdgpu:gfx11-generic"), ("gfx1100", "amdgpu:gfx1101"), ("gfx1151", "amdgpu:gfx1200")],
)
def test_the_reverse_is_refused(processor: str, target: str) -> None:
    contract = find_target(f"amdgpu:{processor}").contract
    exact = program(ADD).replace("amdgpu.gfx11.generic.core", contract).replace("<gfx11-generic>", f"<{processor}>")
    assert refusal(exact, target)[0] == "TARGET/040"
    np.testing.assert_array_equal(run(exact, 0, f"amdgpu:{processor}"), 2 * np.arange(32))


@pytest.mark.seed("H09")
@pytest.mark.parametrize("target", ["amdgpu:gfx1151", "amdgpu:gfx11-generic"])
def test_a_helper_without_a_record_takes_the_callers_facts(target: str) -> None:
    bare = program(ADD, helpers=HELPERS.replace("(@gfx11)", "").partition("\n\n")[2])
    np.testing.assert_array_equal(run(bare, 0, target), 2 * np.arange(32))
    assert refusal(bare, "amdgpu:gfx1200")[0] == "TARGET/040"


@pytest.mark.seed("H06")
@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("low.func.def target", "low.func.def allocation(fixed) target", "invoke.allocation"),
        ("  %sum", "  %id = live_in<amdgpu.workgroup_id.x> : reg<amdgpu.sgpr>\n  %sum", "invoke.live_in"),
        (
            "  %sum",
            "  %x = resource<hal_binding> {index = 0, source_type = hal.buffer} : reg<amdgpu.sgpr x2>\n  %sum",
            "invoke.resource",
        ),
    ],
)
def test_inputs_are_arguments(old: str, new: str, key: str) -> None:
    assert refusal(program(ADD).replace(old, new, 1)) == ("TARGET/022", key)


@pytest.mark.seed("H04")
@pytest.mark.parametrize("noinline", ["low.invoke noinline @add", "low.func.def noinline"])
def test_helpers_cannot_be_kept_apart(noinline: str) -> None:
    old = "low.invoke @add" if "invoke" in noinline else "low.func.def"
    assert refusal(program(ADD).replace(old, noinline, 1)) == ("LOWERING/044", "policy_conflict")


@pytest.mark.seed("H02")
@pytest.mark.parametrize(
    "line",
    [
        "%w = scalar.extsi %v : i32 to i64\n  %r = low.invoke @add(%w, %v) : (i64, i32) -> (i32)",
        "%w = low.invoke @add(%v, %v) : (i32, i32) -> (i64)\n  %r = scalar.trunci %w : i64 to i32",
        "%r = low.invoke @small(%n, %v) : (i32, i32) -> (i32)",
    ],
)
def test_each_type_maps_to_the_register_in_its_place(line: str) -> None:
    """Wider values do not fit one register, and a value that differs between lanes is in no scalar register."""
    helpers = HELPERS.replace(" where [range(%n, 0, 15), multiple_of(%n, 2)]", "")
    assert refusal(program(line, helpers=helpers))[0] == "TARGET/002"


@pytest.mark.seed("H10")
@pytest.mark.parametrize(
    ("known", "code"),
    [
        ("%m = scalar.assume %n [range(%n, 0, 14), multiple_of(%n, 2)] : i32", None),
        ("%m = scalar.constant 6 : i32", None),
        ("%m = scalar.addi %n, %n : i32", "precondition_unproven"),
        ("%m = scalar.assume %n [range(%n, 0, 14)] : i32", "precondition_unproven"),
        ("%m = scalar.assume %n [multiple_of(%n, 2)] : i32", "precondition_unproven"),
        ("%m = scalar.assume %n [range(%n, 16, 20), multiple_of(%n, 2)] : i32", "precondition_contradicted"),
        ("%m = scalar.constant 7 : i32", "precondition_contradicted"),
    ],
)
def test_every_predicate_is_proven_at_the_call(known: str, code: str | None) -> None:
    if code is None:
        np.testing.assert_array_equal(run(program(known, CALL), 6), np.arange(32) + 6)
    else:
        assert refusal(program(known, CALL)) == ("LOWERING/044", code)


@pytest.mark.seed("H10")
def test_a_condition_proves_a_predicate_where_it_holds() -> None:
    """Facts of the path to the call count: inside ``n <= 14`` of a non-negative even number it is proven."""
    body = (
        "%m = scalar.assume %n [range(%n, 0, 100), multiple_of(%n, 2)] : i32",
        "%top = scalar.constant 14 : i32",
        "%fits = scalar.cmpi sle, %m, %top : i32",
        "%r = scf.if %fits -> (i32) {",
        "  %s = low.invoke @small(%v, %m) : (i32, i32) -> (i32)",
        "  scf.yield %s : i32",
        "} else {",
        "  scf.yield %v : i32",
        "}",
    )
    text = program(*body)
    np.testing.assert_array_equal(run(text, 6), np.arange(32) + 6)
    np.testing.assert_array_equal(run(text, 60), np.arange(32))
    outside = text.replace("%r = scf.if", "%t = low.invoke @small(%v, %m) : (i32, i32) -> (i32)\n  %r = scf.if")
    assert refusal(outside) == ("LOWERING/044", "precondition_unproven")


@pytest.mark.seed("H11", "H12")
def test_assumptions_restate_what_is_proven_and_nothing_more() -> None:
    """One ``low.assume`` of the register that is handed over, with the helper's predicates and not the caller's."""
    text = lowered(program("%m = scalar.assume %n [range(%n, 4, 6), multiple_of(%n, 2)] : i32", CALL))
    assumed = re.findall(r"low\.assume .*", text)
    assert len(assumed) == 1
    assert "range(" in assumed[0]
    assert "0, 15)" in assumed[0]
    assert "multiple_of(" in assumed[0]
    assert "4, 6" not in assumed[0]
    assert "low.assume" not in lowered(program(ADD))


@pytest.mark.seed("H07", "H10", "H12")
@pytest.mark.parametrize(
    ("stated", "code"),
    [
        ("range(%n, 2, 8), multiple_of(%n, 4)", None),
        ("range(%n, 2, 8), multiple_of(%n, 2)", None),
        ("range(%n, 2, 8)", "precondition_unproven"),
        ("multiple_of(%n, 4)", "precondition_unproven"),
        ("range(%n, 16, 20), multiple_of(%n, 4)", "precondition_contradicted"),
    ],
)
def test_nested_calls_are_proven_from_what_the_helper_states(stated: str, code: str | None) -> None:
    """The exact value that the outer caller knows does not reach the call inside the helper."""
    value = 16 if "16" in stated else 4
    helpers = HELPERS.replace("range(%n, 2, 8), multiple_of(%n, 4)", stated)
    text = program(
        f"%m = scalar.constant {value} : i32", "%r = low.invoke @nested(%v, %m) : (i32, i32) -> (i32)", helpers=helpers
    )
    if code is None:
        np.testing.assert_array_equal(run(text, 0), np.arange(32) + value)
    else:
        assert refusal(text) == ("LOWERING/044", code)


VECTORS = f"""\
amdgpu.target<gfx11-generic> @gfx11

low.func.def {GENERIC} @words(%v: reg<amdgpu.vgpr x2>, %n: reg<amdgpu.sgpr>) -> (reg<amdgpu.vgpr x2>, reg<amdgpu.sgpr>) asm {{
  %low = slice %v[0] : reg<amdgpu.vgpr x2> -> reg<amdgpu.vgpr>
  %high = slice %v[1] : reg<amdgpu.vgpr x2> -> reg<amdgpu.vgpr>
  %turned = concat(%high, %low) : (reg<amdgpu.vgpr>, reg<amdgpu.vgpr>) -> reg<amdgpu.vgpr x2>
  return %turned, %n
}}
"""


@pytest.mark.seed("H02")
@pytest.mark.parametrize(("element", "count"), [("i32", 2), ("i16", 4), ("i8", 8)])
def test_vectors_cross_with_their_elements_end_to_end(element: str, count: int) -> None:
    """Narrow elements share registers, so that exchanged registers exchange the halves of the vector."""
    kind = f"vector<{count}x{element}>"
    wide = element == "i32"

    def column(position: int) -> np.ndarray:
        text = program(
            *([] if wide else [f"%e = scalar.trunci %v : i32 to {element}"]),
            f"%step = scalar.constant -9 : {element}",
            f"%given = vector.iota %{'v' if wide else 'e'} step %step : {kind}",
            "%bytes = vector.constant -5 : vector<4xi8>",
            f"%turned, %same = low.invoke @words(%given, %bytes) : ({kind}, vector<4xi8>) -> ({kind}, vector<4xi8>)",
            f"%x = vector.extract %turned[{position}] : {kind} -> {element}",
            "%b = vector.extract %same[3] : vector<4xi8> -> i8",
            "%k = scalar.extsi %b : i8 to i32",
            *([] if wide else [f"%y = scalar.extsi %x : {element} to i32"]),
            f"%r = scalar.muli %{'x' if wide else 'y'}, %k : i32",
            helpers=VECTORS,
        )
        return run(text, 0)

    for position in range(count):
        source = (position + count // 2) % count
        np.testing.assert_array_equal(column(position), -5 * (np.arange(32) - 9 * source))


@pytest.mark.seed("H02")
@pytest.mark.parametrize(
    ("kind", "code"), [("vector<3xi32>", "TARGET/002"), ("vector<2xi8>", "TARGET/002"), ("vector<64xi1>", "TARGET/033")]
)
def test_vectors_fill_the_registers_exactly(kind: str, code: str) -> None:
    constant = "true" if kind.endswith("i1>") else "1"
    text = program(
        f"%at = vector.constant {constant} : {kind}",
        "%bytes = vector.constant 1 : vector<4xi8>",
        f"%turned, %same = low.invoke @words(%at, %bytes) : ({kind}, vector<4xi8>) -> ({kind}, vector<4xi8>)",
        "%r = scalar.addi %v, %v : i32",
        helpers=VECTORS,
    )
    assert refusal(text)[0] == code
