"""Rules of device operations: collectives, transfers, barriers under control flow, early exits."""

from __future__ import annotations

import pytest

from loom.ir.diagnostics import Diagnostic
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import verify_module

HEAD = """kernel.def @k() {
  %one = index.constant 1 : index
  %lanes = index.constant 64 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%lanes, %one, %one) : index
} launch(%in: buffer, %count: index, %flag: i1, %word: i32, %x: f32) {
  %lane = kernel.workitem.id<x> : index
  %zero = index.constant 0 : offset
  %src = buffer.view %in[%zero] : buffer -> view<64x16xi8>
"""


def kernel(*lines: str) -> str:
    return HEAD + "".join(f"  {line}\n" for line in lines) + "  kernel.return\n}\n"


def findings(*lines: str) -> list[Diagnostic]:
    text = kernel(*lines)
    module = parse_module(text, "k.loom")
    assert print_module(module) == text
    return verify_module(module)


@pytest.mark.parametrize(
    "statement",
    [
        "%r, %ok = kernel.subgroup.shuffle<down> %x, %word, %word : f32, i32, i32",
        "%r = kernel.subgroup.broadcast %x from %word : f32, i32",
        "%r = kernel.subgroup.broadcast.first %x : f32",
        "%r = kernel.subgroup.reduce<maxnumf> %x {cluster_size = 4, cluster_stride = 2} : f32",
        "%r = kernel.subgroup.reduce<xori> %word : i32",
        "%r = kernel.subgroup.scan<addf> %x {cluster_size = 8, direction = reverse, mode = exclusive} : f32",
        "%r = kernel.workgroup.reduce<addf> %x : f32",
        "%r = kernel.workgroup.scan<minui> %word {direction = forward, mode = inclusive} : i32",
        "%r = kernel.subgroup.vote.ballot %flag : i1 -> i64",
        "%r = kernel.subgroup.active.mask : i32",
        "%r = kernel.subgroup.match.any %word : i32 -> i64",
        "%m, %all = kernel.subgroup.match.all %word : i32 -> i64, i1",
        "%r = kernel.workgroup.vote.count %flag : i1 -> i32",
        "%r = kernel.cluster.workgroup.flat_id : index",
        "kernel.assert %flag : i1",
        'kernel.assert %flag "ordered input" : i1',
        "kernel.exit %flag : i1",
        "%r = kernel.workgroup.storage align(16) %zero : buffer",
        "%p = kernel.barrier.arrive<workgroup> scope(workgroup) ordering(acq_rel) -> kernel.barrier.phase\n"
        "  kernel.barrier.wait %p : kernel.barrier.phase",
        "%g = kernel.async.group -> kernel.async.group",
        "buffer.fence scope(workgroup) ordering(acq_rel)",
        "%total, %a, %b = buffer.pack [align(16) %zero, %zero] : offset",
        "buffer.copy %in[%zero], %in[%zero], %zero",
        "buffer.fill %word, %in[%zero], %zero : i32",
        "%r = buffer.compare %in[%zero], %in[%zero], %zero",
    ],
)
def test_statements_are_read_printed_and_valid(statement: str) -> None:
    assert findings(statement) == []


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("%r = kernel.subgroup.reduce<addi> %x : f32", "TYPE/003"),
        ("%r = kernel.subgroup.reduce<addf> %word : i32", "TYPE/003"),
        ("%r = kernel.subgroup.reduce<addi> %word {cluster_size = 0} : i32", "STRUCTURE/014"),
        ("%r = kernel.subgroup.reduce<addi> %word {cluster_stride = 2} : i32", "STRUCTURE/014"),
        ("%r = kernel.subgroup.broadcast %x from %count : f32, index", "TYPE/003"),
        ("%r = kernel.subgroup.vote.ballot %flag : i1 -> i8", "TYPE/004"),
        ("%r = kernel.workgroup.storage align(12) %zero : buffer", "STRUCTURE/014"),
        (
            "%p = kernel.barrier.arrive<global> scope(workgroup) ordering(acq_rel) -> kernel.barrier.phase\n"
            "  kernel.barrier.wait %p : kernel.barrier.phase",
            "STRUCTURE/014",
        ),
        ("buffer.fence scope(workgroup) ordering(relaxed)", "STRUCTURE/014"),
    ],
)
def test_broken_statements(statement: str, code: str) -> None:
    assert [d.code for d in findings(statement)] == [code]


TILE = (
    "%bytes = index.constant 1024 : offset",
    "%pool = buffer.alloca<workgroup> align(16) %bytes : buffer",
    "%tile = buffer.view %pool[%zero] : buffer -> view<64x16xi8>",
)
COPY = (
    "%t = kernel.async.copy %src to %tile {cache_scope = cu, cache_temporal = regular, direction = global_to_workgroup}"
    " : view<64x16xi8> to view<64x16xi8> -> kernel.async.token"
)


def test_a_token_joins_one_group() -> None:
    group = "%g = kernel.async.group %t : kernel.async.token -> kernel.async.group"
    wait = "kernel.async.wait %g {newer_groups = 0} : kernel.async.group"
    assert findings(*TILE, COPY, group, wait) == []
    again = "%h = kernel.async.group %t : kernel.async.token -> kernel.async.group"
    assert {d.code for d in findings(*TILE, COPY, group, again, wait)} == {"DOMINANCE/009"}


def test_a_copy_moves_footprints_of_one_size() -> None:
    part = "%part = view.subview %tile[0, 0] : view<64x16xi8> -> view<32x16xi8>"
    short = COPY.replace("to %tile", "to %part").replace("to view<64x16xi8>", "to view<32x16xi8>")
    assert [d.code for d in findings(*TILE, part, short)][:1] == ["TYPE/003"]


BARRIER = "kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)"
DIVERGENT = "%c = index.cmp slt, %lane, %count : index"


@pytest.mark.parametrize(
    ("condition", "codes"),
    [
        (DIVERGENT, ["STRUCTURE/038"]),
        ("%c = scalar.constant true : i1", []),
        ("%c = kernel.workgroup.vote.any %flag : i1", []),
        ("%c = kernel.subgroup.vote.any %flag : i1", ["STRUCTURE/038"]),
        ("%c, %ok = kernel.subgroup.shuffle<xor> %flag, %word, %word : i1, i32, i32", ["STRUCTURE/038"]),
    ],
)
def test_barriers_stand_under_uniform_control(condition: str, codes: list[str]) -> None:
    assert [d.code for d in findings(condition, "scf.if %c {", f"  {BARRIER}", "}")] == codes


def test_a_subgroup_barrier_may_depend_on_what_the_subgroup_agrees_on() -> None:
    barrier = BARRIER.replace("scope(workgroup)", "scope(subgroup)")
    agreed = "%c = kernel.subgroup.vote.any %flag : i1"
    assert findings(agreed, "scf.if %c {", f"  {barrier}", "}") == []
    assert [d.code for d in findings(DIVERGENT, "scf.if %c {", f"  {barrier}", "}")] == ["STRUCTURE/038"]


def test_barrier_in_a_loop_of_varying_length() -> None:
    step = "%step = index.constant 1 : index"
    loop = ("scf.for %i = [%step to %lane step %step] {", f"  {BARRIER}", "}")
    found = findings(step, *loop)
    assert [d.code for d in found] == ["STRUCTURE/038"]
    assert found[0].params["control_value"] == "lane"
    assert found[0].params["control_op_name"] == "scf.for"


def test_exit_stands_directly_in_the_kernel_body() -> None:
    assert [d.code for d in findings("scf.if %flag {", "  kernel.exit %flag : i1", "}")] == ["STRUCTURE/029"]
