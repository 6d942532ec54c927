"""What an asynchronous transfer leaves undefined between its start and its wait is reported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

Programs = Any

CONTROL = "{cache_scope = cu, cache_temporal = regular, direction = global_to_workgroup}"
WAIT = "kernel.async.wait %{group} {{newer_groups = {newer}}} : kernel.async.group"
BARRIER = "kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)"


def copy(name: str, source: str = "%mine", target: str = "%slot") -> str:
    """A copy of eight bytes and its group, both called by a name."""
    return f"""%t{name} = kernel.async.copy {source} to {target} {CONTROL}
    : view<1x4xi16> to view<1x2xi32> -> kernel.async.token
  %{name} = kernel.async.group %t{name} : kernel.async.token -> kernel.async.group"""


def wait(group: str, newer: int = 0) -> str:
    """A wait for a group."""
    return WAIT.format(group=group, newer=newer)


def program(programs: Programs, *lines: str) -> str:
    """A kernel of 16 work-items; each owns a row of the source and of two tiles of workgroup storage."""
    body = """
  %bytes = index.constant 128 : offset
  %shared = buffer.alloca<workgroup> align(16) %bytes : buffer
  %second = buffer.alloca<workgroup> align(16) %bytes : buffer
  %g = buffer.assume.memory_space<global> %in : buffer
  %src = buffer.view %g[%at0] : buffer -> view<16x4xi16>
  %tile = buffer.view %shared[%at0] : buffer -> view<16x2xi32>
  %tile2 = buffer.view %second[%at0] : buffer -> view<16x2xi32>
  %mine = view.subview %src[%lane, 0] : view<16x4xi16> -> view<1x4xi16>
  %slot = view.subview %tile[%lane, 0] : view<16x2xi32> -> view<1x2xi32>
  %slot2 = view.subview %tile2[%lane, 0] : view<16x2xi32> -> view<1x2xi32>
  %c15 = index.constant 15 : index
  %far = index.sub %c15, %lane : index
  %zero = scalar.constant 0 : i32
  %half = scalar.constant 0 : i16
"""
    return programs.kernel(body + "".join(f"  {line}\n" for line in lines), "%in: buffer", size=16)


def launch(programs: Programs, *lines: str) -> None:
    """Run the kernel on rows of numbers."""
    given = np.arange(64, dtype=np.int16).reshape(16, 4)
    programs.launch(program(programs, *lines), [], [given], facts={"subgroup_size": 16})


READ = "%x = view.load %slot[0, 1] : view<1x2xi32> -> i32"
READ_FAR = "%y = view.load %tile[%far, 1] : view<16x2xi32> -> i32"
WRITE = "view.store %zero, %slot[0, 0] : i32, view<1x2xi32>"
WRITE_SOURCE = "view.store %half, %mine[0, 3] : i16, view<1x4xi16>"


@pytest.mark.parametrize(
    "lines",
    [
        (copy("a"), wait("a"), READ, WRITE, WRITE_SOURCE),
        (copy("a"), wait("a"), BARRIER, READ_FAR),
        (copy("a"), copy("b", target="%slot2"), wait("a", 1), READ, wait("b")),
        # The newest wait completes everything before it.
        (copy("a"), copy("b", target="%slot2"), wait("b"), READ),
        (copy("a"), "%e = kernel.async.group -> kernel.async.group", wait("a", 1), READ, wait("e")),
    ],
)
@pytest.mark.seed("J02")
def test_waited_transfers_may_be_looked_at(programs: Programs, lines: tuple[str, ...]) -> None:
    launch(programs, *lines)


@pytest.mark.parametrize(
    ("lines", "code", "at"),
    [
        ((copy("a"), READ, wait("a")), "LOWERING/028", "%x = view.load"),
        ((copy("a"), WRITE, wait("a")), "LOWERING/027", "view.store %zero"),
        ((copy("a"), WRITE_SOURCE, wait("a")), "EVALUATE/005", "view.store %half"),
        ((copy("a"), copy("b"), wait("b")), "LOWERING/026", "%tb = kernel.async.copy"),
        ((copy("a"), copy("b", target="%slot2"), wait("a", 0)), "LOWERING/031", "kernel.async.wait %a"),
        ((copy("a"), wait("a", 1)), "LOWERING/031", "kernel.async.wait %a"),
        ((copy("a"), wait("a"), wait("a")), "LOWERING/030", "kernel.async.wait %a"),
        ((copy("a"), copy("b", target="%slot2"), wait("b"), wait("a")), "LOWERING/030", "kernel.async.wait %a"),
        ((copy("a"), BARRIER, READ_FAR, wait("a")), "LOWERING/028", "%y = view.load"),
        # The wait completes the transfer for its own work-item; the others need a barrier behind it.
        ((copy("a"), BARRIER, wait("a"), READ_FAR), "EVALUATE/005", "%y = view.load"),
    ],
)
@pytest.mark.seed("J02")
def test_what_is_pending_may_not_be_touched(programs: Programs, lines: tuple[str, ...], code: str, at: str) -> None:
    found = programs.fault(lambda: launch(programs, *lines))
    assert found.code == code
    assert programs.source_line(found).startswith(at)
    if code in ("LOWERING/026", "LOWERING/027", "LOWERING/028", "EVALUATE/005"):
        assert programs.source_line(found.related[0]).startswith("%ta = kernel.async.copy")


def test_a_group_that_some_work_items_do_not_wait_for(programs: Programs) -> None:
    lines = (
        copy("a"),
        "%c3 = index.constant 3 : index",
        "%some = index.cmp ult, %lane, %c3 : index",
        f"scf.if %some {{\n    {wait('a')}\n  }}",
    )
    found = programs.fault(lambda: launch(programs, *lines))
    assert found.code == "LOWERING/022"
    assert programs.source_line(found).startswith("%a = kernel.async.group")


def test_the_padding_of_a_gathered_slot_is_not_defined(programs: Programs) -> None:
    lines = [
        "%wide = buffer.view %shared[%at0] : buffer -> view<8x1x3xi32>",
        "%first = view.subview %src[%lane, 0] : view<16x4xi16> -> view<1x4xi16>",
        f"%t = kernel.async.gather %first to %wide {CONTROL.replace(', direction = global_to_workgroup', '')}",
        "  : view<1x4xi16> to view<8x1x3xi32> -> kernel.async.token",
        "%a = kernel.async.group %t : kernel.async.token -> kernel.async.group",
        wait("a"),
        "%slot3 = view.subview %wide[%lane, 0, 0] : view<8x1x3xi32> -> view<1x1x3xi32>",
        "%x = view.load %slot3[0, 0, 1] : view<1x1x3xi32> -> i32",
    ]

    def run() -> None:
        text = program(programs, *lines).replace("%size = index.constant 16", "%size = index.constant 8")
        given = np.arange(64, dtype=np.int16).reshape(16, 4)
        programs.launch(text, [], [given], facts={"subgroup_size": 8})

    run()
    lines[-1] = lines[-1].replace("0, 0, 1", "0, 0, 2")
    found = programs.fault(run)
    assert found.code == "EVALUATE/004"
    assert programs.source_line(found).startswith("%x = view.load")
