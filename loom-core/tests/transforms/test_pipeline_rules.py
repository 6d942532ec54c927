"""Every rule of read-ahead: a program that breaks just that rule gets just that diagnostic, at the loop."""

from __future__ import annotations

import attrs
import pytest

from loom.ir.core import Module, Op, Region
from loom.ir.diagnostics import Diagnostic, LoomError
from loom.specialize.pipeline import specialize
from loom.text.parser import parse_module
from loom.transforms.pipeline_rules import RULES
from loom.verify.verifier import verify_module

HEAD = """\
func.def noinline @impure(%v: i32, %where: view<64xi32>) -> (i32) {
  view.store %v, %where[0] : i32, view<64xi32>
  func.return %v : i32
}

func.def noinline @pure_helper(%v: i32) -> (i32) {
  %r = scalar.addi %v, %v : i32
  func.return %r : i32
}

kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  %size = index.constant 8 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%size, %unit, %unit) : index
} launch(%n: index, %flag: i1, %b_in: buffer, %b_out: buffer) {
  %at0 = index.constant 0 : offset
  %lane = kernel.workitem.id<x> : index
  %in = buffer.view %b_in[%at0] : buffer -> view<64xi32>
  %out = buffer.view %b_out[%at0] : buffer -> view<64xi32>
  %bytes = index.constant 32 : offset
  %storage = buffer.alloca<workgroup> align(4) %bytes : buffer
  %shared = buffer.view %storage[%at0] : buffer -> view<8xi32>
  %tile = buffer.view %storage[%at0] : buffer -> view<64xi8>
  %bytes_in = buffer.view %b_in[%at0] : buffer -> view<64xi8>
  %own = buffer.alloca<private> align(4) %bytes : buffer
  %mine = buffer.view %own[%at0] : buffer -> view<8xi32>
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c2 = index.constant 2 : index
  %c8 = index.constant 8 : index
  %mask = index.constant 63 : index
  %zero = scalar.constant 0 : i32
  %true = scalar.constant true : i1
"""
TAIL = """
  view.store %r, %out[%lane] : i32, view<64xi32>
  kernel.return
}
"""
LOAD = "%x = view.load %in[%i] : view<64xi32> -> i32"
ADD = "%next = scalar.addi %acc, %x : i32"
BARRIER = "kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)"
EXACT = "%c8"


def loop(*body: str, depth: str = "3", lower: str = "%c0", upper: str = "%n", step: str = "1", clause: str = "") -> str:
    """A kernel around one loop that sums into %acc; the body defines %next. ``depth`` is a literal or a value."""
    lines = [] if depth.startswith("%") else [f"%d = index.constant {depth} : index"]
    if not step.startswith("%"):
        lines.append(f"%st = index.constant {step} : index")
    lines.append(
        f"%r = scf.for %i = [{lower} to {upper} step {step if step.startswith('%') else '%st'}](%acc = %zero : i32)"
        f" -> (i32) pipeline({depth if depth.startswith('%') else '%d'}){clause} {{"
    )
    lines += [*body, "scf.yield %next : i32", "}"]
    return HEAD + "\n".join(lines) + TAIL


def guarded(*then: str, other: tuple[str, ...] = ("scf.yield %acc : i32",), condition: str = "%flag") -> list[str]:
    """A conditional with one result, %next."""
    return [f"%next = scf.if {condition} -> (i32) {{", *then, "} else {", *other, "}"]


def specialized(text: str) -> Module:
    module = parse_module(text, "t.loom")
    assert verify_module(module) == []
    result = specialize(module, None).module
    assert verify_module(result) == []
    return result


def refusal(text: str) -> Diagnostic:
    module = parse_module(text, "t.loom")
    assert verify_module(module) == []
    with pytest.raises(LoomError) as caught:
        specialize(module, None)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


@attrs.frozen
class Breach:
    """A program that breaks one rule, and the name of the operation that the diagnostic points at."""

    rule: str
    text: str
    culprit: str | None = None
    value: int = 3


MIXED_INNER = (
    "%last = scf.for %j = [%c0 to %c2 step %c1](%t = %zero : i32) -> (i32){inner} {{",
    "%at = index.add %i, %j : index",
    "%y = view.load %in[%at] : view<64xi32> -> i32",
    "view.store %y, %shared[%lane] : i32, view<8xi32>",
    "scf.yield %y : i32",
    "}}",
    BARRIER,
    "%z = view.load %shared[%lane] : view<8xi32> -> i32",
    BARRIER,
    "%next = scalar.addi %acc, %z : i32",
)


def mixed_inner(clause: str) -> list[str]:
    return [line.format(inner=clause) for line in MIXED_INNER]


LOOKUP = ("%p = index.cast %{v} : i32 to index", "%q = index.andi %p, %mask : index")


def lookup(value: str) -> list[str]:
    """Lines that load from the address that a value gives, and the sum."""
    return [*(s.format(v=value) for s in LOOKUP), "%x = view.load %in[%q] : view<64xi32> -> i32", ADD]


STAGED = ("view.store %x, %shared[%lane] : i32, view<8xi32>", BARRIER)

BREACHES = {
    "depth zero": Breach("depth", loop(LOAD, ADD, depth="0"), value=0),
    "depth too large": Breach("depth", loop(LOAD, ADD, depth="65536"), value=65536),
    "depth not known": Breach("depth", loop(LOAD, ADD, depth="%n"), value=0),
    "step not known": Breach("step", loop(LOAD, ADD, step="%n")),
    "step negative": Breach("step", loop(LOAD, ADD, step="-1")),
    "distance too large": Breach("distance", loop(LOAD, ADD, depth="5", step=str(1 << 62)), value=5),
    "queue too long": Breach(
        "operands",
        loop(
            LOAD,
            "%y = view.load %out[%i] : view<64xi32> -> i32",
            "%s = scalar.addi %x, %y : i32",
            "%next = scalar.addi %acc, %s : i32",
            depth="40000",
        ),
        value=40000,
    ),
    "no load": Breach("nothing", loop("%x = index.cast %i : index to i32", ADD)),
    "only workgroup loads beside stores": Breach(
        "nothing",
        loop(
            "view.store %acc, %shared[%lane] : i32, view<8xi32>",
            BARRIER,
            "%x = view.load %shared[0] : view<8xi32> -> i32",
            BARRIER,
            ADD,
            upper=EXACT,
        ),
    ),
    "address from carried state": Breach("prerequisite", loop(*lookup("acc")), "view.load"),
    "guard from carried state": Breach(
        "prerequisite",
        loop(
            "%go = scalar.cmpi sgt, %acc, %zero : i32",
            *guarded(LOAD, "%y = scalar.addi %acc, %x : i32", "scf.yield %y : i32", condition="%go"),
        ),
        "scf.if",
    ),
    "unit captures carried state": Breach(
        "prerequisite",
        loop(
            "%next = scf.for %j = [%c0 to %c2 step %c1](%t = %acc : i32) -> (i32) {",
            LOAD,
            "%u = scalar.addi %t, %x : i32",
            "scf.yield %u : i32",
            "}",
        ),
        "scf.for",
    ),
    "address from workgroup memory": Breach(
        "prerequisite",
        loop(
            "%y = view.load %in[%i] : view<64xi32> -> i32",
            "view.store %y, %shared[%lane] : i32, view<8xi32>",
            BARRIER,
            "%w = view.load %shared[0] : view<8xi32> -> i32",
            BARRIER,
            *lookup("w"),
            upper=EXACT,
        ),
        "view.load",
    ),
    "address from a collective": Breach(
        "prerequisite",
        loop(
            "%y = view.load %in[%i] : view<64xi32> -> i32",
            "%w = kernel.subgroup.reduce<maxsi> %y : i32",
            *lookup("w"),
            upper=EXACT,
        ),
        "view.load",
    ),
    "guard from a collective": Breach(
        "prerequisite",
        loop(
            "%y = view.load %in[%i] : view<64xi32> -> i32",
            "%w = kernel.subgroup.reduce<maxsi> %y : i32",
            "%go = scalar.cmpi sgt, %w, %zero : i32",
            *guarded(LOAD, "%u = scalar.addi %acc, %x : i32", "scf.yield %u : i32", condition="%go"),
            upper=EXACT,
        ),
        "scf.if",
    ),
    "private store": Breach("ordered", loop(LOAD, "view.store %x, %mine[0] : i32, view<8xi32>", ADD), "view.store"),
    "workgroup atomic": Breach(
        "ordered",
        loop(
            LOAD,
            "view.atomic.reduce<addi> %x, %shared[0] {ordering = relaxed, scope = workgroup} : i32, view<8xi32>",
            ADD,
            upper=EXACT,
        ),
        "view.atomic.reduce",
    ),
    "workgroup store with run-time bounds": Breach("ordered_bounds", loop(LOAD, *STAGED, ADD), "view.store"),
    "barrier with run-time bounds": Breach("ordered_bounds", loop(LOAD, BARRIER, ADD), "kernel.barrier"),
    "partially unrolled mixed loop": Breach(
        "mixed", loop("%f = index.constant 2 : index", *mixed_inner(" unroll(%f)"), upper=EXACT), "scf.for"
    ),
    "interleaved mixed loop": Breach(
        "mixed", loop(*mixed_inner(" unroll schedule(interleaved)"), upper=EXACT), "scf.for"
    ),
    "mixed loop without a request": Breach("mixed", loop(*mixed_inner(""), upper=EXACT), "scf.for"),
    "mixed conditional": Breach(
        "mixed",
        loop(
            "scf.if %flag {",
            LOAD,
            "view.store %x, %shared[%lane] : i32, view<8xi32>",
            "}",
            "%y = view.load %out[%i] : view<64xi32> -> i32",
            "%next = scalar.addi %acc, %y : i32",
            upper=EXACT,
        ),
        "scf.if",
    ),
    "collective with run-time bounds": Breach(
        "convergent_bounds",
        loop(LOAD, "%w = kernel.subgroup.reduce<addi> %x : i32", "%next = scalar.addi %acc, %w : i32"),
        "kernel.subgroup.reduce",
    ),
    "collective with a run-time lower bound": Breach(
        "convergent_bounds",
        loop(
            LOAD,
            "%w = kernel.subgroup.reduce<addi> %x : i32",
            "%next = scalar.addi %acc, %w : i32",
            lower="%n",
            upper=EXACT,
        ),
        "kernel.subgroup.reduce",
    ),
    "one unit reads and reduces": Breach(
        "convergent_mixed",
        loop(
            "%w = scf.if %flag -> (i32) {",
            LOAD,
            "%s = kernel.subgroup.reduce<addi> %x : i32",
            "scf.yield %s : i32",
            "} else {",
            "scf.yield %zero : i32",
            "}",
            "%next = scalar.addi %acc, %w : i32",
            upper=EXACT,
        ),
        "scf.if",
    ),
    "both branches read and use carried state": Breach(
        "partition",
        loop(
            *guarded(
                LOAD,
                "%u = scalar.addi %acc, %x : i32",
                "scf.yield %u : i32",
                other=(
                    "%y = view.load %out[%i] : view<64xi32> -> i32",
                    "%s = scalar.addi %acc, %y : i32",
                    "scf.yield %s : i32",
                ),
            )
        ),
        "scf.if",
    ),
    "a view would cross as a placeholder": Breach(
        "placeholder",
        loop(
            "%late = index.cmp sgt, %i, %c2 : index",
            "%next, %v = scf.if %flag -> (i32, view<64xi32>) {",
            "%x, %pick = scf.if %late -> (i32, view<64xi32>) {",
            "%y = view.load %in[%i] : view<64xi32> -> i32",
            "scf.yield %y, %in : i32, view<64xi32>",
            "} else {",
            "scf.yield %zero, %out : i32, view<64xi32>",
            "}",
            "%u = scalar.addi %acc, %x : i32",
            "scf.yield %u, %pick : i32, view<64xi32>",
            "} else {",
            "scf.yield %acc, %out : i32, view<64xi32>",
            "}",
            "view.prefetch %v[0] {intent = read, locality = l2} : view<64xi32>",
        ),
        "scf.if",
    ),
    "global store": Breach(
        "global_write", loop(LOAD, "view.store %x, %out[%i] : i32, view<64xi32>", ADD), "view.store"
    ),
    "global atomic": Breach(
        "global_write",
        loop(
            LOAD, "view.atomic.reduce<addi> %x, %out[0] {ordering = relaxed, scope = device} : i32, view<64xi32>", ADD
        ),
        "view.atomic.reduce",
    ),
    "store to a chosen space": Breach(
        "global_write",
        loop(
            LOAD,
            "%other = buffer.view %storage[%at0] : buffer -> view<64xi32>",
            "%where = scf.select %flag, %other, %out : view<64xi32>",
            "view.store %x, %where[%lane] : i32, view<64xi32>",
            ADD,
            upper=EXACT,
        ),
        "view.store",
    ),
    "global barrier": Breach(
        "global_barrier",
        loop(LOAD, "kernel.barrier<global> scope(workgroup) ordering(acq_rel)", ADD, upper=EXACT),
        "kernel.barrier",
    ),
    "fence": Breach(
        "global_barrier", loop(LOAD, "buffer.fence scope(device) ordering(acq_rel)", ADD, upper=EXACT), "buffer.fence"
    ),
    "volatile load": Breach("volatile", loop(LOAD.replace("load", "load<volatile>"), ADD), "view.load"),
    "asynchronous copy": Breach(
        "async",
        loop(
            LOAD,
            "%t = kernel.async.copy %bytes_in to %tile {cache_scope = cu, cache_temporal = regular,"
            " direction = global_to_workgroup} : view<64xi8> to view<64xi8> -> kernel.async.token",
            "%g = kernel.async.group %t : kernel.async.token -> kernel.async.group",
            "kernel.async.wait %g {newer_groups = 0} : kernel.async.group",
            ADD,
            upper=EXACT,
        ),
        "kernel.async.copy",
    ),
    "while loop": Breach(
        "while",
        loop(
            LOAD,
            "%w = scf.while (%t = %x : i32) -> (i32) {",
            "%more = scalar.cmpi sgt, %t, %zero : i32",
            "scf.condition %more, %t : i1, i32",
            "} do (%u: i32) {",
            "%h = scalar.shrui %u, %one : i32",
            "scf.yield %h : i32",
            "}",
            "%next = scalar.addi %acc, %w : i32",
        ).replace("  %true =", "  %one = scalar.constant 1 : i32\n  %true ="),
        "scf.while",
    ),
    "impure call": Breach(
        "call",
        loop(
            LOAD,
            "%w = func.call @impure(%x, %out) : (i32, view<64xi32>) -> (i32)",
            "%next = scalar.addi %acc, %w : i32",
        ),
        "func.call",
    ),
    "assertion": Breach("unknown", loop(LOAD, 'kernel.assert %flag "checked" : i1', ADD), "kernel.assert"),
    "load from a chosen space beside a store": Breach(
        "space",
        loop(
            "%other = buffer.view %storage[%at0] : buffer -> view<64xi32>",
            "%from = scf.select %flag, %other, %in : view<64xi32>",
            "%x = view.load %from[%i] : view<64xi32> -> i32",
            *STAGED,
            ADD,
            upper=EXACT,
        ),
        "view.load",
    ),
    "private load beside a store": Breach(
        "space",
        loop(
            LOAD,
            "%p = view.load %mine[0] : view<8xi32> -> i32",
            "%s = scalar.addi %p, %x : i32",
            "view.store %s, %shared[%lane] : i32, view<8xi32>",
            BARRIER,
            ADD,
            upper=EXACT,
        ),
        "view.load",
    ),
    "a type that changes crosses": Breach(
        "type",
        loop(
            "%len = index.sub %mask, %i : index",
            "%part = buffer.view %b_in[%at0] : buffer -> view<[%len]xi32>",
            "%other = view.subview %part[0] : view<[%len]xi32> -> view<[%len]xi32>",
            "%x, %v = scf.if %flag -> (i32, view<[%len]xi32>) {",
            "%y = view.load %part[0] : view<[%len]xi32> -> i32",
            "scf.yield %y, %part : i32, view<[%len]xi32>",
            "} else {",
            "scf.yield %zero, %other : i32, view<[%len]xi32>",
            "}",
            "view.prefetch %v[0] {intent = read, locality = l2} : view<[%len]xi32>",
            ADD,
        ),
        "scf.if",
    ),
    "source fence": Breach("fence", loop(LOAD, "scf.schedule.fence", ADD), "scf.schedule.fence"),
    "source fence in a nested region": Breach(
        "fence",
        loop(
            LOAD,
            "%w = scf.if %flag -> (i32) {",
            "scf.schedule.fence",
            "scf.yield %x : i32",
            "} else {",
            "scf.yield %zero : i32",
            "}",
            "%next = scalar.addi %acc, %w : i32",
        ),
        "scf.schedule.fence",
    ),
}


@pytest.mark.seed("A06", "A13", "A14", "A15", "A17", "A20", "A21", "A23")
@pytest.mark.parametrize("name", BREACHES)
def test_each_rule_is_reported_at_the_loop(name: str) -> None:
    breach = BREACHES[name]
    found = refusal(breach.text)
    assert found.code == "STRUCTURE/014"
    assert found.params["attr_name"] == "pipeline"
    assert found.params["expected_constraint"] == RULES[breach.rule]
    assert found.params["actual_value"] == breach.value
    lines = breach.text.splitlines()
    position = found.position()
    assert position is not None
    assert "pipeline(" in lines[position[1] - 1]
    if breach.culprit is None:
        assert found.related == ()
    else:
        (related,) = found.related
        at = Diagnostic(found.code, "", related.location).position()
        assert at is not None
        assert breach.culprit in lines[at[1] - 1]


@pytest.mark.parametrize("name", [n for n, b in BREACHES.items() if b.rule not in ("depth", "step", "distance")])
def test_depth_one_admits_it(name: str) -> None:
    """The same loops are fine without read-ahead: nothing else is wrong with them."""
    depth = BREACHES[name].value
    text = BREACHES[name].text.replace(f"%d = index.constant {depth} : index", "%d = index.constant 1 : index")
    assert not any(op.name == "scf.for" and op.attribute("unroll_policy") for op in specialized(text).walk())


def test_every_rule_has_a_program() -> None:
    assert {b.rule for b in BREACHES.values()} == RULES.keys() - {"size"}


def test_the_code_size_is_bounded() -> None:
    """Copies of a long body by the ten thousands are refused rather than built."""
    steps = [f"%s{n} = scalar.muli %s{n - 1}, %x : i32" for n in range(1, 40)]
    text = loop(LOAD, "%s0 = scalar.addi %x, %acc : i32", *steps, "%next = scalar.addi %s39, %x : i32", depth="40000")
    assert str(refusal(text).params["expected_constraint"]).startswith("the copies of the producer")


NOALIAS = """\
func.def public @f(%a: buffer, %b: buffer) -> (i32) {
  %first, %second = buffer.assume.noalias %a, %b : buffer, buffer
  %local = buffer.assume.memory_space<workgroup> %second : buffer
  %at0 = index.constant 0 : offset
  %source = buffer.view %SOURCE[%at0] : buffer -> view<8xi32>
  %shared = buffer.view %local[%at0] : buffer -> view<8xi32>
  %global = buffer.assume.memory_space<global> %first : buffer
  %zero = scalar.constant 0 : i32
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c2 = index.constant 2 : index
  %c8 = index.constant 8 : index
  %r = scf.for %i = [%c0 to %c8 step %c1](%acc = %zero : i32) -> (i32) pipeline(%c2) {
    %x = view.load %source[%i] : view<8xi32> -> i32
    view.store %x, %shared[%i] : i32, view<8xi32>
    %next = scalar.addi %acc, %x : i32
    scf.yield %next : i32
  }
  func.return %r : i32
}
"""


@pytest.mark.seed("A17")
def test_disjoint_roots_are_no_established_spaces() -> None:
    """A promise that two roots are disjoint does not say that one of them is global memory."""
    assert refusal(NOALIAS.replace("%SOURCE", "%first")).params["expected_constraint"] == RULES["space"]
    lines = NOALIAS.replace("%SOURCE", "%global").splitlines(keepends=True)
    lines.insert(4, lines.pop(6))
    specialized("".join(lines))


@pytest.mark.seed("A22")
@pytest.mark.parametrize(("side", "accepted"), [(0, True), (1, False)])
def test_a_full_tile_guard_makes_collective_bounds_exact(side: int, accepted: bool) -> None:
    """Inside ``remaining >= tile`` a loop to the minimum of both has exact bounds; on the other side it has not."""
    inner = loop(LOAD, "%w = kernel.subgroup.reduce<addi> %x : i32", "%next = scalar.addi %acc, %w : i32", upper="%end")
    start, end = inner.index("%d = "), inner.index("\n  view.store %r")
    body = inner[start:end].replace("%r = scf.for", "%s = scf.for")
    branches = ["scf.yield %zero : i32\n"] * 2
    branches[side] = "%end = index.min %n, %c8 : index\n" + body + "\nscf.yield %s : i32\n"
    text = (
        inner[:start]
        + "%full = index.cmp sge, %n, %c8 : index\n%r = scf.if %full -> (i32) {\n"
        + "} else {\n".join(branches)
        + "}"
        + inner[end:]
    )
    if accepted:
        rows = [detail.row() for detail in specialize(parse_module(text, "t.loom"), None).loops]
        assert [r["outcome"] for r in rows if r["category"] == "scf-pipeline"] == ["pipelined"]
        stages = [(r["op"], r["stage"]) for r in rows if r["category"] == "scf-pipeline-stage"]
        assert ("view.load", "producer") in stages
        assert ("kernel.subgroup.reduce", "consumer") in stages
    else:
        assert refusal(text).params["expected_constraint"] == RULES["convergent_bounds"]


ACCEPTED = {
    "pure call": loop(LOAD, "%w = func.call @pure_helper(%x) : (i32) -> (i32)", "%next = scalar.addi %acc, %w : i32"),
    "private load": loop("%x = view.load %mine[0] : view<8xi32> -> i32", ADD).replace(
        "  %true", "  view.store %zero, %mine[0] : i32, view<8xi32>\n  %true"
    ),
    "mixed loop with bare unroll": loop(*mixed_inner(" unroll"), upper=EXACT),
    "mixed loop with linear unroll": loop(*mixed_inner(" unroll schedule(linear)"), upper=EXACT),
    "two views of one workgroup allocation": loop(
        LOAD,
        "view.store %x, %shared[%lane] : i32, view<8xi32>",
        BARRIER,
        "%again = buffer.view %storage[%at0] : buffer -> view<4x2xi32>",
        "%y = view.load %again[1, 1] : view<4x2xi32> -> i32",
        BARRIER,
        "%next = scalar.addi %acc, %y : i32",
        upper=EXACT,
    ),
    "guarded read with a collective": loop(
        "%go = index.cmp slt, %i, %n : index",
        *guarded(
            LOAD,
            "%w = kernel.subgroup.reduce<addi> %x : i32",
            "%u = scalar.addi %acc, %w : i32",
            "scf.yield %u : i32",
            condition="%go",
        ),
        upper=EXACT,
    ),
}


# What each program reads ahead, and what stays with the sum; a split conditional is in both halves.
HALVES: dict[str, tuple[list[str], list[str]]] = {
    "pure call": (["view.load"], ["func.call", "scalar.addi"]),
    "private load": (["view.load"], ["scalar.addi"]),
    "mixed loop with bare unroll": (
        ["index.constant", "index.constant", "index.add", "view.load", "index.add", "view.load"],
        ["view.store", "view.store", "kernel.barrier", "view.load", "kernel.barrier", "scalar.addi"],
    ),
    "two views of one workgroup allocation": (
        ["view.load"],
        ["view.store", "kernel.barrier", "buffer.view", "view.load", "kernel.barrier", "scalar.addi"],
    ),
    "guarded read with a collective": (["index.cmp", "scf.if"], ["index.cmp", "scf.if"]),
}
HALVES["mixed loop with linear unroll"] = HALVES["mixed loop with bare unroll"]


@pytest.mark.seed("A10", "A16", "A18", "A19", "A20")
@pytest.mark.parametrize("name", ACCEPTED)
def test_what_the_rules_admit_is_built(name: str) -> None:
    """Global loads run ahead; stores, barriers and every view of workgroup memory stay with the sum, in their order."""
    module = parse_module(ACCEPTED[name], "t.loom")
    result = specialize(module, None)
    assert verify_module(result.module) == []
    rows = [detail.row() for detail in result.loops]
    assert (rows[0]["outcome"], rows[0]["queue_records"]) == ("pipelined", 2)
    halves = tuple([r["op"] for r in rows[1:] if r.get("stage") == half] for half in ("producer", "consumer"))
    assert halves == HALVES[name]
    assert {r["iteration_lookahead"] for r in rows[1:] if r.get("stage") == "producer"} == {2}
    loops = [op for op in result.module.walk() if op.name == "scf.for"]
    assert all(op.pipeline_depth is None for op in loops)  # type: ignore[attr-defined]
    # The steady loop carries the sum and what is queued for two iterations.
    queued = 2 * int(str(rows[0]["values_per_record"]))
    assert max(len(op.results) for op in loops) == 1 + queued


def steady_of(text: str) -> tuple[Op, list[dict[str, object]]]:
    """The loop of the steady state with most queued values, and the rows about all loops."""
    result = specialize(parse_module(text, "t.loom"), None)
    loops = [op for op in result.module.walk() if op.name == "scf.for"]
    return max(loops, key=lambda op: len(op.results)), [detail.row() for detail in result.loops]


def names_of(region: Region) -> list[str]:
    return [op.name for op in region.entry]


@pytest.mark.seed("A09")
def test_nested_operations_stay_whole_in_their_stage() -> None:
    """A guarded load keeps its guard; an inner loop that only reads queues the one value that it results in."""
    steady, rows = steady_of(
        loop(
            "%go = index.cmp slt, %i, %lane : index",
            "%x = scf.if %go -> (i32) {",
            "%y = view.load %in[%i] : view<64xi32> -> i32",
            "scf.yield %y : i32",
            "} else {",
            "scf.yield %zero : i32",
            "}",
            "%s = scf.for %j = [%c0 to %c2 step %c1](%t = %zero : i32) -> (i32) {",
            "%z = view.load %in[%j] : view<64xi32> -> i32",
            "%u = scalar.addi %t, %z : i32",
            "scf.yield %u : i32",
            "}",
            "%v = scalar.muli %x, %s : i32",
            "%next = scalar.addi %acc, %v : i32",
        )
    )
    stages = [(r["op"], r["stage"]) for r in rows if r["category"] == "scf-pipeline-stage"]
    assert stages == [
        ("index.cmp", "producer"),
        ("scf.if", "producer"),
        ("scf.for", "producer"),
        ("scalar.muli", "consumer"),
        ("scalar.addi", "consumer"),
    ]
    # The sum, and for each of two iterations the guarded value and that of the inner loop.
    assert len(steady.results) == 5
    (guard,) = (op for op in steady.regions[0].entry if op.name == "scf.if")
    (inner,) = (op for op in steady.regions[0].entry if op.name == "scf.for")
    assert names_of(guard.regions[0]) == ["view.load", "scf.yield"]
    assert names_of(guard.regions[1]) == ["scf.yield"]
    assert names_of(inner.regions[0]) == ["view.load", "scalar.addi", "scf.yield"]
    loads = [op for op in steady.walk() if op.name == "view.load"]
    assert len(loads) == 2, "no load stands outside of its guard or its loop"


@pytest.mark.seed("A10")
def test_a_split_conditional_is_otherwise_what_it_was() -> None:
    """The guarded producer loads only; the conditional around the update has both sides, and skips as before."""
    steady, _ = steady_of(
        loop(
            "%go = index.cmp slt, %i, %lane : index",
            *guarded(
                LOAD,
                "%u = scalar.addi %acc, %x : i32",
                "scf.yield %u : i32",
                other=("%w = scalar.muli %acc, %acc : i32", "scf.yield %w : i32"),
                condition="%go",
            ),
        )
    )
    producer, consumer = (op for op in steady.regions[0].entry if op.name == "scf.if")
    assert [names_of(r) for r in producer.regions] == [["view.load", "scf.yield"], ["scf.yield"]]
    assert [names_of(r) for r in consumer.regions] == [["scalar.addi", "scf.yield"], ["scalar.muli", "scf.yield"]]


@pytest.mark.seed("A11")
def test_an_inner_loop_may_use_queued_values_and_the_accumulator() -> None:
    """It starts from the carried sum and multiplies by the oldest queued value, in the consumer."""
    steady, rows = steady_of(
        loop(
            LOAD,
            "%next = scf.for %j = [%c0 to %c2 step %c1](%t = %acc : i32) -> (i32) {",
            "%u = scalar.muli %t, %x : i32",
            "scf.yield %u : i32",
            "}",
        )
    )
    stages = [(r["op"], r["stage"]) for r in rows if r["category"] == "scf-pipeline-stage"]
    assert stages == [("view.load", "producer"), ("scf.for", "consumer")]
    carried = steady.regions[0].entry.args
    (inner,) = (op for op in steady.regions[0].entry if op.name == "scf.for")
    assert inner.operands[3] is carried[1], "the sum so far"
    (product,) = (op for op in inner.walk() if op.name == "scalar.muli")
    assert product.operands[1] is carried[2], "the oldest value of the queue"


@pytest.mark.seed("A12")
def test_inner_policies_come_first() -> None:
    """The inner loop is read ahead, then the outer one, whose stages have the parts of the inner one; then both unroll."""
    _, rows = steady_of(
        loop(
            "%inner = scf.for %j = [%c0 to %c8 step %c1](%t = %zero : i32) -> (i32) pipeline(%c2) unroll(%c2) {",
            "%y = view.load %in[%j] : view<64xi32> -> i32",
            "%u = scalar.addi %t, %y : i32",
            "scf.yield %u : i32",
            "}",
            LOAD,
            "%v = scalar.addi %x, %inner : i32",
            "%next = scalar.addi %acc, %v : i32",
            clause=" unroll(%c2)",
        )
    )
    order = [(r["category"], r.get("depth")) for r in rows if r["category"] != "scf-pipeline-stage"]
    assert order[:2] == [("scf-pipeline", 2), ("scf-pipeline", 3)]
    assert {category for category, _ in order[2:]} == {"scf-unroll"}
    outer = next(n for n, r in enumerate(rows) if r.get("depth") == 3)
    stages = [(r["op"], r["stage"]) for r in rows[outer + 1 :] if r["category"] == "scf-pipeline-stage"]
    # Startup, steady state and drain of the inner loop, then what stood behind it.
    assert [op for op, _ in stages if op != "index.constant"] == [
        "view.load", "scf.for", "scalar.addi", "view.load", "scalar.addi", "scalar.addi",
    ]  # fmt: skip
    # Seven steady iterations of the inner loop, unrolled by two wherever it stands; the outer one's trips are not known.
    trips = {r["trip_count"] for r in rows if r["category"] == "scf-unroll"}
    assert trips == {7, None}
