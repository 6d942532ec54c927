"""How long storage lives: views and handles go further than functions, private storage does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from conftest import Programs

SCRATCH = """\
func.def @scratch(%v: i32) -> ({kind}) {{
  %start = index.constant 0 : offset
  %bytes = index.constant 8 : offset
  %storage = buffer.alloca<{space}> align(4) %bytes : buffer
  %x = buffer.view %storage[%start] : buffer -> view<2xi32>
  view.store %v, %x[0] : i32, view<2xi32>
  func.return {value} : {kind}
}}

"""
USE = """\
func.def public @f(%v: i32) -> (i32) {
  %start = index.constant 0 : offset
  %got = func.call @scratch(%v) : (i32) -> (KIND)
LINES
}
"""
READ_VIEW = "  %r = view.load %got[0] : view<2xi32> -> i32\n  func.return %r : i32"
READ_BUFFER = "  %x = buffer.view %got[%start] : buffer -> view<2xi32>\n  %r = view.load %x[0] : view<2xi32> -> i32\n  func.return %r : i32"
WRITE_VIEW = "  view.store %v, %got[1] : i32, view<2xi32>\n  func.return %v : i32"
FORM_VIEW = "  %part = view.subview %got[1] : view<2xi32> -> view<1xi32>\n  func.return %v : i32"
VIEW, BUFFER = ("view<2xi32>", "%x"), ("buffer", "%storage")


def program(returned: tuple[str, str], lines: str, space: str = "private") -> str:
    kind, value = returned
    return SCRATCH.format(kind=kind, value=value, space=space) + USE.replace("KIND", kind).replace("LINES", lines)


@pytest.mark.seed("R04")
@pytest.mark.parametrize(("returned", "lines"), [(VIEW, READ_VIEW), (BUFFER, READ_BUFFER), (VIEW, WRITE_VIEW)])
def test_a_view_does_not_keep_private_storage_alive(programs: Programs, returned: tuple[str, str], lines: str) -> None:
    """The function that allocated it has returned; whoever accesses it then is told so, at the access."""
    fault = programs.fault(lambda: programs.call(program(returned, lines), "f", [7]))
    assert fault.code == "EVALUATE/013"
    assert "private storage of '@scratch', which has returned" in fault.message
    assert fault.params["op_name"] in ("view.load", "view.store")


@pytest.mark.seed("R04")
def test_only_accesses_are_at_fault(programs: Programs) -> None:
    """Holding, handing on and narrowing a view that has outlived its storage accesses nothing."""
    assert programs.call(program(VIEW, FORM_VIEW), "f", [7]) == [7]


def test_storage_of_the_host_outlives_the_call(programs: Programs) -> None:
    """Only private storage belongs to the call that allocated it."""
    assert programs.call(program(VIEW, READ_VIEW, "host"), "f", [7]) == [7]


PASSED_DOWN = """\
func.def @fill(%x: view<2xi32>, %v: i32) -> (view<2xi32>) {
  view.store %v, %x[0] : i32, view<2xi32>
  func.return %x : view<2xi32>
}

"""
KERNEL = """\
  %bytes = index.constant 8 : offset
  %out = buffer.view %target[%at0] : buffer -> view<32xi32>
  %storage = buffer.alloca<private> align(4) %bytes : buffer
  %x = buffer.view %storage[%at0] : buffer -> view<2xi32>
  %v = index.cast %lane : index to i32
  %y = func.call @fill(%x, %v) : (view<2xi32>, i32) -> (view<2xi32>)
  %r = view.load %y[0] : view<2xi32> -> i32
  view.store %r, %out[%lane] : i32, view<32xi32>"""


@pytest.mark.seed("R04")
def test_a_view_may_come_back_to_where_its_storage_lives(programs: Programs) -> None:
    """The storage is the caller's, so it is there before, in and behind the call."""
    out = np.zeros(32, np.int32)
    programs.launch(programs.kernel(KERNEL, "%target: buffer", extra=PASSED_DOWN), [], [out])
    np.testing.assert_array_equal(out, np.arange(32))
