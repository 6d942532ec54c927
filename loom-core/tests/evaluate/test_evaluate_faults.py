"""What the language leaves undefined is reported, at the operation that does it and for the first work-item."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loom.evaluate.limits import Limits
from loom.ir.diagnostics import SourceLocation

Programs = Any

OUT = "  %out = buffer.view %o[%at0] : buffer -> view<32xi32>\n"
ONE = "  %one = scalar.constant 1 : i32\n"


def launch_fault(
    programs: Programs,
    body: str,
    *arrays: Any,
    parameters: str = "%o: buffer",
    limits: Limits | None = None,
    **layout: Any,
) -> Any:
    """The diagnostic of a kernel around a body; by default over 32 zeros."""
    text = programs.kernel(body, parameters, **layout)
    arguments = arrays or (np.zeros(32, dtype=np.int32),)
    return programs.fault(lambda: programs.launch(text, [], arguments, limits=limits))


def test_an_index_beyond_the_extent(programs: Programs) -> None:
    body = (
        OUT
        + ONE
        + """
  %c30 = index.constant 30 : index
  %at = index.add %lane, %c30 : index
  view.store %one, %out[%at] : i32, view<32xi32>"""
    )
    found = launch_fault(programs, body)
    assert found.code == "EVALUATE/002"
    assert programs.source_line(found).startswith("view.store %one, %out[%at]")
    assert "index 32 of axis 0 is outside the extent 32" in found.message
    assert "work-item (2, 0, 0) of workgroup (0, 0, 0)" in found.message
    assert found.params["workitem"] == "work-item (2, 0, 0) of workgroup (0, 0, 0)"


def test_a_negative_index(programs: Programs) -> None:
    body = (
        OUT
        + """
  %c5 = index.constant 5 : index
  %at = index.sub %lane, %c5 : index
  %v = view.load %out[%at] : view<32xi32> -> i32"""
    )
    found = launch_fault(programs, body)
    assert (found.code, found.params["offset"]) == ("EVALUATE/002", -5)


def test_a_view_larger_than_its_buffer(programs: Programs) -> None:
    body = """
  %out = buffer.view %o[%at0] : buffer -> view<64xi32>
  %v = view.load %out[%lane] : view<64xi32> -> i32"""
    found = launch_fault(programs, body, np.zeros(20, dtype=np.int32))
    assert found.code == "EVALUATE/002"
    assert "bytes 80 to 83 are outside the buffer of 80 bytes" in found.message
    assert "work-item (20, 0, 0)" in found.message


def test_a_view_that_spans_more_than_64_bits(programs: Programs) -> None:
    body = """
  %huge = index.constant 4611686018427387904 : index
  %far = index.constant 4 : index
  %layout = encoding.layout.strided [%huge] : encoding<layout>
  %v = buffer.view %o[%at0] : buffer -> view<8xi32, %layout>
  %x = view.load %v[%far] : view<8xi32, %layout> -> i32"""
    found = launch_fault(programs, body)
    assert found.code == "EVALUATE/002"
    assert programs.source_line(found).startswith("%x = view.load")


@pytest.mark.seed("G01", "G03")
def test_a_misaligned_access_and_a_reduced_demand(programs: Programs) -> None:
    def body(align: str) -> str:
        return f"""
  %at2 = index.constant 2 : offset
  %v = buffer.view %o[%at2] : buffer -> view<4xi32{align}>
  %x = view.load %v[1] : view<4xi32{align}> -> i32"""

    found = launch_fault(programs, body(""))
    assert (found.code, found.params["address"], found.params["alignment"]) == ("EVALUATE/003", 6, 4)
    assert programs.source_line(found).startswith("%x = view.load")
    programs.launch(programs.kernel(body(", align(2)"), "%o: buffer"), [], [np.zeros(32, dtype=np.int32)])


@pytest.mark.seed("G06")
def test_alignment_counts_from_the_whole_allocation(programs: Programs) -> None:
    # The argument is a window of its allocation that starts at an odd byte.
    body = "  %v = buffer.view %o[%at0] : buffer -> view<4xi16>\n  %x = view.load %v[0] : view<4xi16> -> i16"
    found = launch_fault(programs, body, np.zeros(64, dtype=np.uint8)[1:33])
    assert found.code == "EVALUATE/003"


@pytest.mark.parametrize("space", ["private", "workgroup"])
def test_scratch_that_was_never_written(programs: Programs, space: str) -> None:
    body = f"""
  %bytes = index.constant 128 : offset
  %mine = buffer.alloca<{space}> align(4) %bytes : buffer
  %v = buffer.view %mine[%at0] : buffer -> view<32xi32>
  %c4 = index.constant 4 : index
  %some = index.cmp ult, %lane, %c4 : index
  %one = scalar.constant 1 : i32
  scf.if %some {{
    view.store %one, %v[%lane] : i32, view<32xi32>
  }}
  %x = view.load %v[%lane] : view<32xi32> -> i32"""
    found = launch_fault(programs, body)
    assert found.code == "EVALUATE/004"
    assert programs.source_line(found).startswith("%x = view.load")
    assert "work-item (4, 0, 0)" in found.message


def test_part_of_an_element_that_was_never_written(programs: Programs) -> None:
    body = """
  %bytes = index.constant 4 : offset
  %mine = buffer.alloca<private> align(4) %bytes : buffer
  %low = buffer.view %mine[%at0] : buffer -> view<3xi8>
  %all = buffer.view %mine[%at0] : buffer -> view<1xi32>
  %b = scalar.constant 1 : i8
  view.store %b, %low[0] : i8, view<3xi8>
  view.store %b, %low[1] : i8, view<3xi8>
  view.store %b, %low[2] : i8, view<3xi8>
  %x = view.load %all[0] : view<1xi32> -> i32"""
    assert launch_fault(programs, body).code == "EVALUATE/004"


def test_work_items_that_write_one_element(programs: Programs) -> None:
    body = OUT + ONE + "  view.store %one, %out[3] : i32, view<32xi32>"
    found = launch_fault(programs, body)
    assert (found.code, found.params["address"]) == ("EVALUATE/005", 12)
    assert programs.source_line(found).startswith("view.store")
    assert "work-item (31, 0, 0) of workgroup (0, 0, 0) writes without a barrier" in found.message


@pytest.mark.seed("J01")
def test_a_read_of_what_another_work_item_wrote_without_a_barrier(programs: Programs) -> None:
    def body(barrier: str) -> str:
        return f"""
  %bytes = index.constant 128 : offset
  %shared = buffer.alloca<workgroup> align(4) %bytes : buffer
  %v = buffer.view %shared[%at0] : buffer -> view<32xi32>
  %c31 = index.constant 31 : index
  %x = index.cast %lane : index to i32
  view.store %x, %v[%lane] : i32, view<32xi32>
  {barrier}
  %other = index.sub %c31, %lane : index
  %y = view.load %v[%other] : view<32xi32> -> i32"""

    found = launch_fault(programs, body(""))
    assert found.code == "EVALUATE/005"
    assert programs.source_line(found).startswith("%y = view.load")
    assert found.params["workitem"] == "work-item (0, 0, 0) of workgroup (0, 0, 0)"
    assert found.params["other_workitem"] == "work-item (31, 0, 0) of workgroup (0, 0, 0)"
    (other,) = found.related
    assert f"writes at {SourceLocation.of(other.location)} without" in found.message
    assert other.label == "the other access: 'view.store' by work-item (31, 0, 0) of workgroup (0, 0, 0)"
    assert programs.source_line(other).startswith("view.store %x, %v[%lane]")
    barrier = "kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)"
    programs.launch(programs.kernel(body(barrier), "%o: buffer"), [], [np.zeros(1, dtype=np.uint8)])


def test_a_write_after_a_read_of_another_work_item(programs: Programs) -> None:
    body = (
        OUT
        + """
  %c31 = index.constant 31 : index
  %other = index.sub %c31, %lane : index
  %y = view.load %out[%other] : view<32xi32> -> i32
  view.store %y, %out[%lane] : i32, view<32xi32>"""
    )
    found = launch_fault(programs, body)
    assert found.code == "EVALUATE/005"
    assert programs.source_line(found).startswith("view.store")
    assert "which work-item (31, 0, 0) of workgroup (0, 0, 0) reads" in found.message


@pytest.mark.parametrize("space", ["workgroup", "global"])
def test_a_barrier_orders_the_space_that_it_names(programs: Programs, space: str) -> None:
    body = (
        OUT
        + f"""
  %c31 = index.constant 31 : index
  %other = index.sub %c31, %lane : index
  %y = view.load %out[%other] : view<32xi32> -> i32
  kernel.barrier<{space}> scope(workgroup) ordering(acq_rel)
  view.store %y, %out[%lane] : i32, view<32xi32>"""
    )
    text = programs.kernel(body, "%o: buffer")
    out = np.arange(32, dtype=np.int32)
    if space == "workgroup":
        assert programs.fault(lambda: programs.launch(text, [], [out])).code == "EVALUATE/005"
    else:
        programs.launch(text, [], [out])
        assert out.tolist() == list(range(31, -1, -1))


@pytest.mark.parametrize("batch", [32, 1 << 15])
def test_no_barrier_orders_different_workgroups(programs: Programs, batch: int) -> None:
    body = (
        OUT
        + """
  %x = index.cast %item : index to i32
  view.store %x, %out[%lane] : i32, view<32xi32>"""
    )
    found = launch_fault(programs, body, groups=2, limits=Limits(batch_lanes=batch))
    assert found.code == "EVALUATE/005"
    assert "workgroup (1, 0, 0)" in found.message
    assert "workgroup (0, 0, 0)" in found.message


def test_races_through_arguments_that_share_memory(programs: Programs) -> None:
    body = """
  %in = buffer.view %x[%at0] : buffer -> view<32xi32>
  %out = buffer.view %o[%at0] : buffer -> view<32xi32>
  %v = view.load %in[%lane] : view<32xi32> -> i32
  view.store %v, %out[%lane] : i32, view<32xi32>"""
    memory = np.zeros(40, dtype=np.int32)
    found = launch_fault(programs, body, memory[:32], memory[8:], parameters="%x: buffer, %o: buffer")
    assert found.code == "EVALUATE/005"
    programs.launch(programs.kernel(body, "%x: buffer, %o: buffer"), [], [memory[:32], memory[:32]])


def test_subgroup_barriers_order_their_subgroup_only(programs: Programs) -> None:
    def body(distance: int) -> str:
        return f"""
  %bytes = index.constant 128 : offset
  %shared = buffer.alloca<workgroup> align(4) %bytes : buffer
  %v = buffer.view %shared[%at0] : buffer -> view<32xi32>
  %d = index.constant {distance} : index
  %x = index.cast %lane : index to i32
  view.store %x, %v[%lane] : i32, view<32xi32>
  kernel.barrier<workgroup> scope(subgroup) ordering(acq_rel)
  %other = index.xori %lane, %d : index
  %y = view.load %v[%other] : view<32xi32> -> i32"""

    arguments, facts = [np.zeros(1, dtype=np.uint8)], {"subgroup_size": 8}
    programs.launch(programs.kernel(body(7), "%o: buffer"), [], arguments, facts=facts)
    text = programs.kernel(body(8), "%o: buffer")
    assert programs.fault(lambda: programs.launch(text, [], arguments, facts=facts)).code == "EVALUATE/005"


def test_a_barrier_that_some_work_items_miss(programs: Programs) -> None:
    body = """
  %c7 = index.constant 7 : index
  %some = index.cmp ult, %lane, %c7 : index
  scf.if %some {
    func.call @meet() : ()
  }"""
    # The verifier sees a barrier under a varying condition itself, but not through a call.
    meet = """
func.def @meet() {
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  func.return
}"""
    found = launch_fault(programs, body, extra=meet)
    assert found.code == "STRUCTURE/038"
    assert programs.source_line(found).startswith("kernel.barrier")
    assert "work-item (7, 0, 0) of workgroup (0, 0, 0) is missing" in found.message


def test_whole_workgroups_may_skip_a_barrier(programs: Programs) -> None:
    body = """
  %c1 = index.constant 1 : index
  %group = kernel.workgroup.id<x> : index
  %second = index.cmp eq, %group, %c1 : index
  scf.if %second {
    kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  }"""
    programs.launch(programs.kernel(body, "%o: buffer", groups=3), [], [np.zeros(1, dtype=np.uint8)])


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ("scalar.divsi %x, %y : i32", "division by zero"),
        ("scalar.remui %x, %y : i32", "division by zero"),
        ("scalar.shli %x, %wide : i32", "shift amount outside 0 to width - 1"),
        ("scalar.addi<nsw> %x, %most : i32", "`nsw` promises"),
        ("scalar.subi<nuw> %y, %x : i32", "`nuw` promises"),
        ("scalar.divsi %least, %minus : i32", "does not fit its type"),
        ("scalar.fptosi %big : f32 to i32", "does not fit the integer type"),
    ],
)
def test_undefined_results(programs: Programs, operation: str, reason: str) -> None:
    body = f"""
  %x = scalar.constant 7 : i32
  %y = scalar.constant 0 : i32
  %wide = scalar.constant 32 : i32
  %most = scalar.constant 2147483647 : i32
  %least = scalar.constant -2147483648 : i32
  %minus = scalar.constant -1 : i32
  %big = scalar.constant 3.0e9 : f32
  %r = {operation}"""
    found = launch_fault(programs, body)
    assert found.code == "EVALUATE/001"
    assert reason in found.message
    assert programs.source_line(found) == f"%r = {operation}"


def test_an_undefined_result_names_the_first_lane_and_its_operands(programs: Programs) -> None:
    body = """
  %c9 = index.constant 9 : index
  %d = index.sub %c9, %lane : index
  %q = index.div %c9, %d : index"""
    found = launch_fault(programs, body)
    assert "%c9 = 9, %d = 0" in found.message
    assert "work-item (9, 0, 0)" in found.message


def test_addresses_do_not_wrap(programs: Programs) -> None:
    body = """
  %top = index.constant 9223372036854775807 : index
  %r = index.add %top, %lane : index"""
    found = launch_fault(programs, body)
    assert found.code == "EVALUATE/001"
    assert "work-item (1, 0, 0)" in found.message


@pytest.mark.parametrize(
    ("predicate", "lane"),
    [
        ("range(%lane, 0, 20)", 21),
        ("lt(%lane, 4)", 4),
        ("multiple_of(%lane, 3)", 1),
        ("power_of_two(%lane)", 0),
        ("ne(%lane, 17)", 17),
        ("le(%lane, %limit)", 6),
    ],
)
def test_false_assumptions(programs: Programs, predicate: str, lane: int) -> None:
    body = f"""
  %limit = index.constant 5 : index
  %r = index.assume %lane [{predicate}] : index"""
    found = launch_fault(programs, body)
    assert (found.code, found.params["predicate"]) == ("EVALUATE/006", predicate)
    assert f"work-item ({lane}, 0, 0)" in found.message
    assert programs.source_line(found).startswith("%r = index.assume")


def test_false_promises_about_buffers(programs: Programs) -> None:
    memory = np.zeros(64, dtype=np.uint8)
    cases = [
        ("%a, %b = buffer.assume.noalias %x, %o : buffer, buffer", memory[:40], memory[32:]),
        ("%a = buffer.assume.alignment %x {minimum_alignment = 16} : buffer", memory[8:], memory),
        ("%a = buffer.assume.memory_space<private> %x : buffer", memory, memory),
        ("%a = buffer.assume.same_root %x, %o : buffer", memory, np.zeros(4, dtype=np.uint8)),
    ]
    for line, x, o in cases:
        found = launch_fault(programs, "  " + line, x, o, parameters="%x: buffer, %o: buffer")
        assert (found.code, programs.source_line(found)) == ("EVALUATE/006", line)
    text = programs.kernel("  " + cases[0][0], "%x: buffer, %o: buffer")
    programs.launch(text, [], [memory[:32], memory[32:]])


def test_a_where_predicate_of_a_kernel(programs: Programs) -> None:
    text = programs.kernel("", "%n: index").replace("launch(%n: index)", "launch(%n: index) where [multiple_of(%n, 4)]")
    programs.launch(text, [], [8])
    assert programs.fault(lambda: programs.launch(text, [], [6])).code == "EVALUATE/006"


def test_a_loop_step_that_is_not_positive(programs: Programs) -> None:
    body = """
  %c0 = index.constant 0 : index
  %c8 = index.constant 8 : index
  scf.for %i = [%c0 to %c8 step %c0] {
    %x = index.add %i, %i : index
  }"""
    found = launch_fault(programs, body)
    assert found.code == "STRUCTURE/035"
    negative = body.replace("%c0 = index.constant 0", "%c0 = index.constant -1")
    assert launch_fault(programs, negative).code == "STRUCTURE/035"


def test_a_loop_without_end(programs: Programs) -> None:
    body = """
  %true = scalar.constant true : i1
  scf.while {
    scf.condition %true : i1
  } do {
    scf.yield
  }"""
    found = launch_fault(programs, body, limits=Limits(steps=1000))
    assert (found.code, found.params["limit"]) == ("EVALUATE/007", 1000)
    assert programs.source_line(found).startswith("scf.while")


def test_scratch_beyond_the_limit(programs: Programs) -> None:
    body = """
  %bytes = index.constant 1099511627776 : offset
  %mine = buffer.alloca<private> align(4) %bytes : buffer"""
    found = launch_fault(programs, body)
    assert found.code == "EVALUATE/008"
    assert programs.source_line(found).startswith("%mine = buffer.alloca")


def test_poison_may_be_computed_with_but_not_observed(programs: Programs) -> None:
    def body(chosen: str) -> str:
        return (
            OUT
            + f"""
  %bad = scalar.poison : i32
  %more = scalar.addi %bad, %bad : i32
  %good = scalar.constant 3 : i32
  %c0 = index.constant 0 : index
  %first = index.cmp eq, %lane, %c0 : index
  %r = scf.select %first, {chosen} : i32
  scf.if %first {{
    view.store %r, %out[%lane] : i32, view<32xi32>
  }}"""
        )

    out = np.zeros(32, dtype=np.int32)
    programs.launch(programs.kernel(body("%good, %more"), "%o: buffer"), [], [out])
    assert out[0] == 3
    found = launch_fault(programs, body("%more, %good"))
    assert found.code == "TYPE/012"
    assert programs.source_line(found).startswith("view.store %r")


def test_a_read_only_argument_is_not_written(programs: Programs) -> None:
    out = np.zeros(32, dtype=np.int32)
    out.flags.writeable = False
    body = OUT + ONE + "  view.store %one, %out[%lane] : i32, view<32xi32>"
    assert launch_fault(programs, body, out).code == "EVALUATE/010"


@pytest.mark.parametrize("argument", [1.5, 1 << 70, np.zeros(3), "text", None])
def test_arguments_that_do_not_suit_the_signature(programs: Programs, argument: object) -> None:
    text = programs.kernel("", "%n: index")
    found = programs.fault(lambda: programs.launch(text, [], [argument]))
    assert found.code == "EVALUATE/010"


def test_operations_without_a_meaning_here_are_named(programs: Programs) -> None:
    text = """
func.decl @elsewhere(%x: i32) -> (i32)
func.def @f(%x: i32) -> (i32) {
  %r = func.call @elsewhere(%x) : (i32) -> (i32)
  func.return %r : i32
}
"""
    found = programs.fault(lambda: programs.call(text, "f", [1]))
    assert found.code == "TARGET/001"
    assert programs.source_line(found).startswith("%r = func.call @elsewhere")
