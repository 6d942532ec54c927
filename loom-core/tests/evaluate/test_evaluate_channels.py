"""Strands and channels: records arrive whole, once and in order, whoever runs when; what cannot go on is a fault."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom.evaluate.dispatch import call_function
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.evaluate.pipelines import run_pipeline
from loom.evaluate.strands import Choice
from loom.text.parser import parse_module
from loom.verify.verifier import require_valid

Programs = Any

WORD = "tile<1xi32>"


def run(
    text: str, specializations: Sequence[int], arguments: Sequence[Any], *, choose: Choice | None = None, **limits: Any
) -> None:
    """Run the pipeline `@p` of a program."""
    module = parse_module(text, "p.loom")
    require_valid(module)
    program = Program(module, limits=Limits(**limits))
    run_pipeline(program, module.symbols()["p"], specializations, arguments, choose)


def pipeline(*lines: str, parameters: str = "%out: buffer", slots: int = 2, extra: str = "") -> str:
    """A pipeline with a channel `%link` of one-word records, a host view `%words` and some constants."""
    body = "".join(f"  {line}\n" for line in lines)
    return f"""{extra}
pipeline.def<kernel> @p(%n: index, %depth: index) run({parameters}) {{
  %shared = pipeline.memory<workgroup>[0] : pool
  %at0 = index.constant 0 : offset
  %room = index.constant {4 * slots} : offset
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %words = buffer.view %out[%at0] : buffer -> view<[%n]xi32>
  %raw = buffer.alloca<workgroup> pool(%shared) align(4) %room : buffer
  %ring = buffer.view %raw[%at0] : buffer -> view<{slots}x1xi32>
  %link = channel.bind<fifo> %ring, %depth : view<{slots}x1xi32>, index -> channel<{WORD}>
{body}}}
"""


def strand(*lines: str, workers: str = "[0], [1], [1]") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"pipeline.strand workers({workers}) {{\n{body}  }}"


RESERVE = f"%w, %slot = channel.reserve %link : channel<{WORD}> -> (write<{WORD}>, view<1xi32>)"
PUBLISH = f"channel.publish %w : write<{WORD}>"
ACQUIRE = f"%r, %slot = channel.acquire %link : channel<{WORD}> -> (read<{WORD}>, view<1xi32>)"
RELEASE = f"channel.release %r : read<{WORD}>"
LOOP = "scf.for %i = [%zero to %n step %one] {"

SQUARES = strand(
    LOOP,
    "  " + RESERVE,
    "  %v = index.cast %i : index to i32",
    "  %square = scalar.muli %v, %v : i32",
    "  view.store %square, %slot[0] : i32, view<1xi32>",
    "  " + PUBLISH,
    "}",
)
COLLECT = strand(
    LOOP,
    "  " + ACQUIRE,
    "  %v = view.load %slot[0] : view<1xi32> -> i32",
    "  view.store %v, %words[%i] : i32, view<[%n]xi32>",
    "  " + RELEASE,
    "}",
)


@pytest.mark.parametrize("count", [0, 1, 7])
@pytest.mark.parametrize("depth", [1, 2, 3, 9])
@pytest.mark.parametrize("slots", [1, 2, 5])
@pytest.mark.parametrize("order", [(SQUARES, COLLECT), (COLLECT, SQUARES)], ids=["writer first", "reader first"])
def test_records_arrive_in_order(count: int, depth: int, slots: int, order: tuple[str, str]) -> None:
    """The capacity may be more or less than the slots; both bound what is in flight."""
    out = np.full(count, -1, dtype=np.int32)
    run(pipeline(*order, slots=slots), [count, depth], [out])
    assert np.array_equal(out, np.arange(count, dtype=np.int32) ** 2)


# One source, split for two readers: one doubles the record in a channel of its own, a transport copies the other.
NETWORK = """
pipeline.def<kernel> @p(%n: index, %a_depth: index, %b_depth: index) run(%in: view<[%n]xi32>, %out: view<[%n]xi32>) {
  %shared = pipeline.memory<workgroup>[0] : pool
  %at0 = index.constant 0 : offset
  %room = index.constant 16 : offset
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %raw_a = buffer.alloca<workgroup> pool(%shared) align(4) %room : buffer
  %ring_a = buffer.view %raw_a[%at0] : buffer -> view<4xi32>
  %a = channel.bind<fifo> %ring_a, %a_depth : view<4xi32>, index -> channel<tile<i32>>
  %raw_b = buffer.alloca<workgroup> pool(%shared) align(4) %room : buffer
  %ring_b = buffer.view %raw_b[%at0] : buffer -> view<4xi32>
  %b = channel.bind<fifo> %ring_b, %b_depth : view<4xi32>, index -> channel<tile<i32>>
  %raw_c = buffer.alloca<workgroup> pool(%shared) align(4) %room : buffer
  %ring_c = buffer.view %raw_c[%at0] : buffer -> view<4xi32>
  %c = channel.bind<fifo> %ring_c, %a_depth : view<4xi32>, index -> channel<tile<i32>>
  pipeline.strand workers([0], [1], [1]) {
    scf.for %i = [%zero to %n step %one] {
      %w, %slot = channel.reserve %a : channel<tile<i32>> -> (write<tile<i32>>, view<i32>)
      %v = view.load %in[%i] : view<[%n]xi32> -> i32
      view.store %v, %slot[] : i32, view<i32>
      channel.publish %w : write<tile<i32>>
    }
  }
  pipeline.strand workers([1], [1], [1]) {
    scf.for %i = [%zero to %n step %one] {
      %r = channel.accept %a : channel<tile<i32>> -> read<tile<i32>>
      %mine, %other = channel.fanout %r : read<tile<i32>> -> (read<tile<i32>>, read<tile<i32>>)
      %wc, %unused = channel.reserve %c : channel<tile<i32>> -> (write<tile<i32>>, view<i32>)
      channel.copy %other -> %wc : read<tile<i32>>, write<tile<i32>>
      %from = channel.wait %mine : read<tile<i32>> -> view<i32>
      %v = view.load %from[] : view<i32> -> i32
      %twice = scalar.addi %v, %v : i32
      %wb, %into = channel.reserve %b : channel<tile<i32>> -> (write<tile<i32>>, view<i32>)
      view.store %twice, %into[] : i32, view<i32>
      channel.release %mine : read<tile<i32>>
      channel.publish %wb : write<tile<i32>>
    }
  }
  pipeline.strand workers([2], [1], [1]) {
    scf.for %i = [%zero to %n step %one] {
      %rb, %vb = channel.acquire<mutable> %b : channel<tile<i32>> -> (read<tile<i32>, mutable>, view<i32>)
      %rc, %vc = channel.acquire %c : channel<tile<i32>> -> (read<tile<i32>>, view<i32>)
      %x = view.load %vb[] : view<i32> -> i32
      %y = view.load %vc[] : view<i32> -> i32
      %sum = scalar.addi %x, %y : i32
      view.store %sum, %vb[] : i32, view<i32>
      %again = view.load %vb[] : view<i32> -> i32
      view.store %again, %out[%i] : i32, view<[%n]xi32>
      channel.release %rb : read<tile<i32>, mutable>
      channel.release %rc : read<tile<i32>>
    }
  }
}
"""


@given(
    seed=st.integers(0, 2**32),
    count=st.integers(0, 9),
    depths=st.tuples(st.integers(1, 5), st.integers(1, 5)),
)
@settings(max_examples=40)
def test_who_runs_when_makes_no_difference(seed: int, count: int, depths: tuple[int, int]) -> None:
    """Strands that only meet in channels compute the same under every order of hand-overs."""
    numbers = random.Random(seed)
    data = np.random.default_rng(seed).integers(-99, 99, count, dtype=np.int32)
    out = np.zeros_like(data)
    run(NETWORK, [count, *depths], [data, out], choose=numbers.choice)
    assert np.array_equal(out, 3 * data)


def test_each_worker_runs_once() -> None:
    text = pipeline(
        strand(
            RESERVE,
            "%v = index.cast %one : index to i32",
            "view.store %v, %slot[0] : i32, view<1xi32>",
            PUBLISH,
            workers="[4, 0], [3, %n], [-2, 1]",
        ).replace("%n]", "%two]"),
        strand(
            "%six = index.constant 6 : index",
            "%start = scalar.constant 0 : i32",
            "%sum = scf.for %i = [%zero to %six step %one](%acc = %start : i32) -> (i32) {",
            "  " + ACQUIRE,
            "  %v = view.load %slot[0] : view<1xi32> -> i32",
            "  %next = scalar.addi %acc, %v : i32",
            "  " + RELEASE,
            "  scf.yield %next : i32",
            "}",
            "view.store %sum, %words[0] : i32, view<[%n]xi32>",
        ),
    ).replace("  %one = index.constant 1", "  %two = index.constant 2 : index\n  %one = index.constant 1")
    out = np.zeros(1, dtype=np.int32)
    run(text, [1, 1], [out])
    assert out[0] == 6


def test_the_relay_of_the_reference() -> None:
    text = """
pipeline.def<kernel> @relay(%depth: index) run(%out_arg: buffer) {
  %shared = pipeline.memory<workgroup>[0, 2] : pool
  %origin = index.constant 0 : offset
  %slot_bytes = index.constant 32 : offset
  %raw = buffer.alloca<workgroup> pool(%shared) align(8) %slot_bytes : buffer
  %ring = buffer.view %raw[%origin] : buffer -> view<2x4xi32>
  %link = channel.bind<fifo> %ring, %depth : view<2x4xi32>, index -> channel<tile<4xi32>>
  pipeline.strand workers([0, 1], [1, 1], [1, 1]) {
    %seven = scalar.constant 7 : i32
    %w, %slot = channel.reserve %link : channel<tile<4xi32>> -> (write<tile<4xi32>>, view<4xi32>)
    view.store %seven, %slot[0] : i32, view<4xi32>
    channel.publish %w : write<tile<4xi32>>
  }
  pipeline.strand workers([0, 2], [1, 1], [1, 1]) {
    %r, %slot = channel.acquire %link : channel<tile<4xi32>> -> (read<tile<4xi32>>, view<4xi32>)
    %dst = buffer.view %out_arg[%origin] : buffer -> view<4xi32>
    %v = view.load %slot[0] : view<4xi32> -> i32
    view.store %v, %dst[1] : i32, view<4xi32>
    channel.release %r : read<tile<4xi32>>
  }
}

pipeline.def<kernel> public @p() run(%a: buffer, %b: buffer) {
  %two = index.constant 2 : index
  pipeline.compose @relay[%two](%a) : [index](buffer)
  pipeline.compose @relay[%two](%b) : [index](buffer)
}
"""
    a, b = np.zeros(4, dtype=np.int32), np.zeros(4, dtype=np.int32)
    run(text, [], [a, b])
    assert a.tolist() == b.tolist() == [0, 7, 0, 0]


def test_obligations_pass_through_calls_and_branches() -> None:
    """A helper publishes for its caller, and one of two arms releases."""
    text = pipeline(
        strand(
            "%w0, %slot = channel.reserve %link : channel<tile<1xi32>> -> (write<tile<1xi32>>, view<1xi32>)",
            "%w = func.call @fill(%w0, %slot) : (write<tile<1xi32>>, view<1xi32>) -> (write<tile<1xi32>>)",
            PUBLISH,
        ),
        strand(
            ACQUIRE,
            "%v = view.load %slot[0] : view<1xi32> -> i32",
            "view.store %v, %words[0] : i32, view<[%n]xi32>",
            "%many = index.cmp sgt, %n, %one : index",
            "scf.if %many {",
            "  " + RELEASE,
            "} else {",
            "  " + RELEASE,
            "}",
        ),
        extra="""
func.def @fill(%w: write<tile<1xi32>>, %slot: view<1xi32>) -> (write<tile<1xi32>>) {
  %v = scalar.constant 5 : i32
  view.store %v, %slot[0] : i32, view<1xi32>
  func.return %w : write<tile<1xi32>>
}
""",
    )
    out = np.zeros(1, dtype=np.int32)
    run(text, [1, 1], [out])
    assert out[0] == 5


@pytest.mark.parametrize("first", [True, False])
def test_a_channel_may_be_selected(first: bool) -> None:
    """One of two bindings over the same slots, which are different channels."""
    text = pipeline(
        f"%other = channel.bind<fifo> %ring, %depth : view<2x1xi32>, index -> channel<{WORD}>",
        f"%chosen = scf.select %go, %link, %other : channel<{WORD}>",
        SQUARES.replace("%link", "%chosen"),
        COLLECT.replace("%link", "%link" if first else "%other"),
        parameters="%out: buffer, %go: i1",
    )
    out = np.full(3, -1, dtype=np.int32)
    run(text, [3, 2], [out, first])
    assert out.tolist() == [0, 1, 4]


def test_records_over_rows_of_a_strided_view() -> None:
    """Slots may interleave; what is published is seen in the caller's storage."""
    text = """
pipeline.def @p() run(%ring: view<2x3xi32, #encoding.layout.strided<strides=[1, 2]>>, %out: view<3xi32>) {
  %two = index.constant 2 : index
  %link = channel.bind<fifo> %ring, %two : view<2x3xi32, #encoding.layout.strided<strides=[1, 2]>>, index -> channel<tile<3xi32>>
  pipeline.strand workers([0], [1], [1]) {
    %w, %s = channel.reserve %link : channel<tile<3xi32>> -> (write<tile<3xi32>>, view<3xi32, #encoding.layout.strided<strides=[2]>>)
    %a = scalar.constant 7 : i32
    view.store %a, %s[0] : i32, view<3xi32, #encoding.layout.strided<strides=[2]>>
    view.store %a, %s[2] : i32, view<3xi32, #encoding.layout.strided<strides=[2]>>
    %b = scalar.constant 8 : i32
    view.store %b, %s[1] : i32, view<3xi32, #encoding.layout.strided<strides=[2]>>
    channel.publish %w : write<tile<3xi32>>
  }
  pipeline.strand workers([1], [1], [1]) {
    %r, %s = channel.acquire %link : channel<tile<3xi32>> -> (read<tile<3xi32>>, view<3xi32, #encoding.layout.strided<strides=[2]>>)
    %data = vector.load %s[0] : view<3xi32, #encoding.layout.strided<strides=[2]>> -> vector<3xi32>
    vector.store %data, %out[0] : vector<3xi32>, view<3xi32>
    channel.release %r : read<tile<3xi32>>
  }
}
"""
    ring, out = np.zeros(6, dtype=np.int32), np.zeros(3, dtype=np.int32)
    run(text, [], [ring, out])
    assert out.tolist() == [7, 8, 7]
    assert ring.tolist() == [7, 0, 8, 0, 7, 0]


# -- what cannot go on -------------------------------------------------------------------------------------


def test_a_reader_without_writer_is_a_deadlock(programs: Programs) -> None:
    text = pipeline(COLLECT)
    fault = programs.fault(lambda: run(text, [1, 1], [np.zeros(1, dtype=np.int32)]))
    assert fault.code == "EVALUATE/012"
    assert programs.source_line(fault) == ACQUIRE
    assert "strand 1 on worker (0,) waits for record 0 of %link" in fault.message


def test_strands_that_wait_for_each_other_are_all_named(programs: Programs) -> None:
    """The writer fills all slots before it would publish; the reader waits for the first record."""
    text = pipeline(
        strand(
            RESERVE, RESERVE.replace("%w,", "%w2,").replace("%slot", "%slot2"), PUBLISH, PUBLISH.replace("%w", "%w2")
        ),
        strand(ACQUIRE, RELEASE),
    )
    fault = programs.fault(lambda: run(text, [1, 1], [np.zeros(1, dtype=np.int32)]))
    assert fault.code == "EVALUATE/012"
    assert "a free slot of %link" in fault.message
    assert [related.label for related in fault.related] == ["strand 2 on worker (0,) waits for record 0 of %link"]


def test_a_transport_that_never_gets_its_record_is_a_deadlock(programs: Programs) -> None:
    text = pipeline(
        strand(
            f"%r = channel.accept %link : channel<{WORD}> -> read<{WORD}>",
            RESERVE,
            f"channel.copy %r -> %w : read<{WORD}>, write<{WORD}>",
        )
    )
    fault = programs.fault(lambda: run(text, [1, 1], [np.zeros(1, dtype=np.int32)]))
    assert fault.code == "EVALUATE/012"
    assert "a transport waits for record 0" in fault.message


def test_endless_strands_run_out_of_steps(programs: Programs) -> None:
    text = pipeline(
        strand(
            "%go = scalar.constant true : i1",
            "scf.while {",
            "  scf.condition %go : i1",
            "} do {",
            "  " + RESERVE,
            "  " + PUBLISH,
            "  " + ACQUIRE.replace("%slot", "%back"),
            "  " + RELEASE,
            "  scf.yield",
            "}",
        )
    )
    fault = programs.fault(lambda: run(text, [1, 1], [np.zeros(1, dtype=np.int32)], steps=1000))
    assert fault.code == "EVALUATE/007"


def test_a_pipeline_inside_itself_runs_out_of_strands(programs: Programs) -> None:
    text = "pipeline.def @p() run() {\n  pipeline.compose @p() : ()\n}\n"
    fault = programs.fault(lambda: run(text, [], [], strands=50))
    assert fault.code == "EVALUATE/008"
    assert programs.source_line(fault) == "pipeline.compose @p() : ()"


def test_threads_that_cannot_start_are_a_fault(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    fault = programs.fault(lambda: run(pipeline(), [1, 1], [np.zeros(1, dtype=np.int32)]))
    assert fault.code == "EVALUATE/008"
    assert "pipeline @p cannot start" in fault.message


def test_a_host_function_has_nobody_to_wait_for(programs: Programs) -> None:
    text = """
func.def @f(%ring: view<1xi32>) {
  %one = index.constant 1 : index
  %c = channel.bind<fifo> %ring, %one : view<1xi32>, index -> channel<tile<i32>>
  %w, %slot = channel.reserve %c : channel<tile<i32>> -> (write<tile<i32>>, view<i32>)
  channel.publish %w : write<tile<i32>>
  %w2, %slot2 = channel.reserve %c : channel<tile<i32>> -> (write<tile<i32>>, view<i32>)
  channel.publish %w2 : write<tile<i32>>
  func.return
}
"""
    fault = programs.fault(lambda: programs.call(text, "f", [np.zeros(1, dtype=np.int32)]))
    assert fault.code == "EVALUATE/012"
    assert programs.source_line(fault).startswith("%w2")


def test_an_error_in_one_strand_ends_all(programs: Programs) -> None:
    text = pipeline(COLLECT, strand("view.store %bad, %words[%n] : i32, view<[%n]xi32>").replace(
        "view.store %bad", "%bad = scalar.constant 1 : i32\n    view.store %bad"))  # fmt: skip
    fault = programs.fault(lambda: run(text, [1, 1], [np.zeros(1, dtype=np.int32)]))
    assert fault.code == "EVALUATE/002"
    assert "by strand 2 on worker (0,)" in fault.message


# -- memory ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("publishes", [False, True], ids=["by its writer", "by its reader"])
def test_what_nobody_wrote_is_not_read(programs: Programs, publishes: bool) -> None:
    load = "%v = view.load %slot[0] : view<1xi32> -> i32"
    writer = strand(RESERVE, *([] if publishes else [load]), PUBLISH)
    text = pipeline(writer, strand(ACQUIRE, *([load] if publishes else []), RELEASE))
    fault = programs.fault(lambda: run(text, [1, 1], [np.zeros(1, dtype=np.int32)]))
    assert fault.code == "EVALUATE/004"
    assert programs.source_line(fault) == load


def test_a_reused_slot_starts_unwritten(programs: Programs) -> None:
    """The second record lies where the first one was, and its bytes are nobody's business."""
    text = pipeline(
        strand(
            RESERVE,
            "%v = scalar.constant 1 : i32",
            "view.store %v, %slot[0] : i32, view<1xi32>",
            PUBLISH,
            RESERVE.replace("%w,", "%w2,").replace("%slot", "%slot2"),
            PUBLISH.replace("%w", "%w2"),
        ),
        strand(ACQUIRE, RELEASE, ACQUIRE.replace("%r,", "%r2,").replace("%slot", "%slot2"),
               "%v = view.load %slot2[0] : view<1xi32> -> i32", RELEASE.replace("%r", "%r2")),
        slots=1,
    )  # fmt: skip
    fault = programs.fault(lambda: run(text, [1, 1], [np.zeros(1, dtype=np.int32)]))
    assert fault.code == "EVALUATE/004"


def test_an_immutable_read_does_not_write(programs: Programs) -> None:
    text = pipeline(
        SQUARES,
        strand(ACQUIRE, "%v = scalar.constant 1 : i32", "view.store %v, %slot[0] : i32, view<1xi32>", RELEASE),
    )
    fault = programs.fault(lambda: run(text, [1, 1], [np.zeros(1, dtype=np.int32)]))
    assert fault.code == "EVALUATE/010"
    assert "read-only" in fault.message


def test_a_view_that_another_strand_kept_ends_with_the_record(programs: Programs) -> None:
    """Capturing a view hands over no part of the record."""
    text = pipeline(
        RESERVE,
        strand("%v = scalar.constant 1 : i32", "view.store %v, %slot[0] : i32, view<1xi32>"),
        PUBLISH,
    )
    fault = programs.fault(lambda: run(text, [1, 1], [np.zeros(1, dtype=np.int32)]))
    assert fault.code == "EVALUATE/013"
    assert "record 0 of %link, which is published" in fault.message


BOTH = ["%v = scalar.constant 1 : i32", "view.store %v, %words[0] : i32, view<[%n]xi32>"]


def test_strands_that_write_the_same_word_race(programs: Programs) -> None:
    text = pipeline(strand(*BOTH), strand(*BOTH))
    fault = programs.fault(lambda: run(text, [1, 1], [np.zeros(1, dtype=np.int32)]))
    assert fault.code == "EVALUATE/005"
    assert "strand 2 on worker (0,)" in fault.message
    assert "strand 1 on worker (0,)" in fault.message
    assert len(fault.related) == 1


def test_a_read_beside_a_write_is_a_race(programs: Programs) -> None:
    text = pipeline(strand("%v = view.load %words[0] : view<[%n]xi32> -> i32"), strand(*BOTH))
    fault = programs.fault(lambda: run(text, [1, 1], [np.zeros(1, dtype=np.int32)]))
    assert fault.code == "EVALUATE/005"
    assert "reads" in fault.message


def test_a_record_orders_what_is_around_it() -> None:
    """Written before the record is published, read and overwritten behind its acquisition."""
    text = pipeline(
        strand(*BOTH, RESERVE, PUBLISH),
        strand(
            ACQUIRE,
            "%v = view.load %words[0] : view<[%n]xi32> -> i32",
            "%sum = scalar.addi %v, %v : i32",
            "view.store %sum, %words[0] : i32, view<[%n]xi32>",
            RELEASE,
        ),
    )
    out = np.zeros(1, dtype=np.int32)
    run(text, [1, 1], [out])
    assert out[0] == 2


def test_a_release_orders_the_next_use_of_the_slot() -> None:
    """With one slot the writer gets its second record only when the reader is done with what it read."""
    text = pipeline(
        strand(
            *BOTH,
            RESERVE,
            PUBLISH,
            RESERVE.replace("%w,", "%w2,").replace("%slot", "%slot2"),
            "view.store %v, %words[0] : i32, view<[%n]xi32>",
            PUBLISH.replace("%w", "%w2"),
        ),
        strand(ACQUIRE, "%v = view.load %words[0] : view<[%n]xi32> -> i32", RELEASE),
        slots=1,
    )
    run(text, [1, 1], [np.zeros(1, dtype=np.int32)])


def test_what_happens_behind_a_publication_is_not_ordered(programs: Programs) -> None:
    text = pipeline(
        strand(RESERVE, PUBLISH, *BOTH),
        strand(ACQUIRE, "%v = view.load %words[0] : view<[%n]xi32> -> i32", RELEASE),
    )
    fault = programs.fault(lambda: run(text, [1, 1], [np.zeros(1, dtype=np.int32)]))
    assert fault.code == "EVALUATE/005"


ATOMIC = """%one_word = scalar.constant 1 : i32
    %was = view.atomic.rmw<addi> %one_word, %words[1] {ORDER} : i32, view<[%n]xi32> -> i32"""


@pytest.mark.parametrize(("order", "races"), [("acq_rel", False), ("relaxed", True)])
def test_atomics_may_order_strands(programs: Programs, order: str, races: bool) -> None:
    """As in kernels, what an acquiring atomic may see ordered is not called a race; relaxed ones order nothing."""
    atomic = ATOMIC.replace("{ORDER}", f"{{ordering = {order}, scope = device}}")
    text = pipeline(strand(*BOTH, atomic), strand(atomic, "%v = view.load %words[0] : view<[%n]xi32> -> i32"), slots=1)
    if races:
        assert programs.fault(lambda: run(text, [2, 1], [np.zeros(2, dtype=np.int32)])).code == "EVALUATE/005"
    else:
        run(text, [2, 1], [np.zeros(2, dtype=np.int32)])


# -- refusals ----------------------------------------------------------------------------------------------


def test_a_channel_without_room_is_refused(programs: Programs) -> None:
    fault = programs.fault(lambda: run(pipeline(), [1, 0], [np.zeros(1, dtype=np.int32)]))
    assert fault.code == "EVALUATE/010"
    assert "2 slots with a capacity of 0" in fault.message


def test_arguments_of_a_run_are_checked(programs: Programs) -> None:
    text = "pipeline.def @p(%n: index) run(%in: view<[%n]xi32>) where [le(%n, 4)] {\n}\n"
    words = np.zeros(1, dtype=np.int32)
    run(text, [4], [words])
    assert programs.fault(lambda: run(text, [5], [words])).code == "EVALUATE/006"
    assert programs.fault(lambda: run(text, [-1], [words])).code == "EVALUATE/006"
    assert programs.fault(lambda: run(text, [1], [])).code == "EVALUATE/010"


@pytest.mark.parametrize(
    ("workers", "part"),
    [
        ("[%n], [1], [1]", "below coordinate 0"),
        ("[0], [%n], [1]", "-5 workers"),
        ("[0], [2], [%none]", "selects one worker 2 times"),
        ("[3], [2], [%n]", "below coordinate 0"),
    ],
)
def test_workers_that_do_not_exist(programs: Programs, workers: str, part: str) -> None:
    text = f"pipeline.def @p(%n: index, %none: index) run() {{\n  {strand(workers=workers)}\n}}\n"
    fault = programs.fault(lambda: run(text, [-5, 0], []))
    assert fault.code == "EVALUATE/010"
    assert part in fault.message


def test_slots_that_share_bytes_or_leave_the_buffer(programs: Programs) -> None:
    text = """
pipeline.def @p(%step: index) run(%out: buffer) {
  %at0 = index.constant 0 : offset
  %layout = encoding.layout.strided [%step, 1] : encoding<layout>
  %ring = buffer.view %out[%at0] : buffer -> view<2x4xi32, %layout>
  %link = channel.bind<fifo> %ring, %step : view<2x4xi32, %layout>, index -> channel<tile<4xi32>>
}
"""
    out = np.zeros(8, dtype=np.int32)
    run(text, [4], [out])
    shared = programs.fault(lambda: run(text, [3], [out]))
    assert (shared.code, "share bytes" in shared.message) == ("EVALUATE/010", True)
    beyond = programs.fault(lambda: run(text, [5], [out]))
    assert beyond.code == "EVALUATE/002"


def test_a_record_has_the_layout_of_the_slots(programs: Programs) -> None:
    text = """
pipeline.def @p() run(%ring: view<2x3xi32, #encoding.layout.strided<strides=[1, 2]>>) {
  %two = index.constant 2 : index
  %link = channel.bind<fifo> %ring, %two : view<2x3xi32, #encoding.layout.strided<strides=[1, 2]>>, index -> channel<tile<3xi32>>
  %w, %s = channel.reserve %link : channel<tile<3xi32>> -> (write<tile<3xi32>>, view<3xi32>)
  channel.publish %w : write<tile<3xi32>>
}
"""
    fault = programs.fault(lambda: run(text, [], [np.zeros(6, dtype=np.int32)]))
    assert fault.code == "EVALUATE/006"
    assert "steps 1 elements along axis 0" in fault.message


def test_promises_of_a_composition_are_kept(programs: Programs) -> None:
    text = """
pipeline.def @inner(%n: index) run() where [ge(%n, 3)] {
}

pipeline.def @p() run() {
  %two = index.constant 2 : index
  pipeline.compose @inner[%two]() : [index]()
}
"""
    fault = programs.fault(lambda: run(text, [], []))
    assert fault.code == "EVALUATE/006"


def test_grouped_channels_are_refused(programs: Programs) -> None:
    text = pipeline(strand(f"%rank, %r = channel.select %link : channel<{WORD}> -> (index, read<{WORD}>)", RELEASE))
    fault = programs.fault(lambda: run(text, [1, 1], [np.zeros(1, dtype=np.int32)]))
    assert fault.code == "TARGET/001"
    assert "group of producers" in fault.message


def test_a_kernel_has_no_channels(programs: Programs) -> None:
    body = """  %view = buffer.view %out[%at0] : buffer -> view<2xi32>
  %c = channel.bind<fifo> %view, %lane : view<2xi32>, index -> channel<tile<i32>>"""
    text = programs.kernel(body, "%out: buffer")
    fault = programs.fault(lambda: programs.launch(text, [], [np.zeros(2, dtype=np.int32)]))
    assert fault.code == "TARGET/001"
    assert "strands of a pipeline" in fault.message


def test_only_pipelines_are_run(programs: Programs) -> None:
    module = parse_module("func.def @f() {\n  func.return\n}\n")
    fault = programs.fault(lambda: run_pipeline(Program(module), module.symbols()["f"], [], []))
    assert fault.code == "TARGET/001"
    assert call_function(Program(module), module.symbols()["f"], []) == []
