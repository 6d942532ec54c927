"""Byte accesses of buffers: against Python bytes, per work-item, and their faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

Programs = Any

BYTES = np.array([0, 1, 127, 128, 255, 3, 9, 200], dtype=np.uint8)


def test_single_bytes(programs: Programs) -> None:
    body = """
  %n = index.cast %lane : index to offset
  %b = buffer.load.i8.u %in[%n]
  %c = scalar.constant 257 : i32
  %s = scalar.addi %b, %c : i32
  buffer.store.i8 %s, %out[%n]"""
    out = np.zeros(8, dtype=np.uint8)
    programs.launch(programs.kernel(body, "%in: buffer, %out: buffer", size=8), [], [BYTES.copy(), out])
    assert np.array_equal(out, BYTES + np.uint8(1))


@pytest.mark.parametrize("length", [0, 1, 3, 7])
def test_ranges(programs: Programs, length: int) -> None:
    text = """
func.def public @f(%in: buffer, %out: buffer, %n: offset, %x: i32) -> (i32) {
  %one = index.constant 1 : offset
  %zero = index.constant 0 : offset
  buffer.fill %x, %out[%one], %n : i32
  %order = buffer.compare %in[%zero], %out[%one], %n
  %eight = index.constant 8 : offset
  buffer.copy %in[%one], %out[%eight], %n
  func.return %order : i32
}
"""
    out = np.full(16, 77, dtype=np.uint8)
    (order,) = programs.call(text, "f", [BYTES.copy(), out, length, 0x04030100])
    filled = bytes([0, 1, 3, 4, 0, 1, 3])[:length]
    want = bytearray([77] * 16)
    want[1 : 1 + length] = filled
    want[8 : 8 + length] = bytes(BYTES[1 : 1 + length])
    assert out.tobytes() == bytes(want)
    given = bytes(BYTES[:length])
    assert order == (given > filled) - (given < filled)


def test_lengths_of_work_items_differ(programs: Programs) -> None:
    body = """
  %n = index.cast %lane : index to offset
  %c8 = index.constant 8 : index
  %row = index.mul %lane, %c8 : index
  %at = index.cast %row : index to offset
  %x = scalar.constant -1 : i8
  buffer.fill %x, %out[%at], %n : i8
  %o = buffer.compare %in[%at0], %out[%at], %n
  %v = buffer.view %order[%at0] : buffer -> view<4xi32>
  view.store %o, %v[%lane] : i32, view<4xi32>"""
    out, order = np.zeros(32, dtype=np.uint8), np.zeros(4, dtype=np.int32)
    given = np.array([255, 255, 0, 0], dtype=np.uint8)
    text = programs.kernel(body, "%in: buffer, %out: buffer, %order: buffer", size=4)
    programs.launch(text, [], [given, out, order])
    assert np.array_equal(out.reshape(4, 8), np.where(np.arange(8) < np.arange(4)[:, None], 255, 0))
    assert list(order) == [0, 0, 0, -1]


def test_faults(programs: Programs) -> None:
    text = """
func.def public @copy(%b: buffer, %from: offset, %to: offset, %n: offset) {
  buffer.copy %b[%from], %b[%to], %n
  func.return
}
func.def public @store(%b: buffer, %at: offset, %x: i32) {
  buffer.store.i8 %x, %b[%at]
  func.return
}
"""
    memory = np.arange(8, dtype=np.uint8)
    programs.call(text, "copy", [memory, 0, 4, 4])
    assert list(memory) == [0, 1, 2, 3] * 2
    assert programs.fault(lambda: programs.call(text, "copy", [memory, 0, 3, 4])).code == "EVALUATE/001"
    for arguments in ([5, 0, 4], [0, 5, 4]):
        assert programs.fault(lambda a=arguments: programs.call(text, "copy", [memory, *a])).code == "EVALUATE/002"
    assert programs.fault(lambda: programs.call(text, "store", [memory, 8, 0])).code == "EVALUATE/002"
    memory.flags.writeable = False
    assert programs.fault(lambda: programs.call(text, "store", [memory, 0, 0])).code == "EVALUATE/010"


def test_work_items_that_write_one_byte_race(programs: Programs) -> None:
    body = """
  %x = scalar.constant 1 : i8
  %n = index.constant 4 : offset
  %i = index.cast %lane : index to offset
  buffer.fill %x, %out[%i], %n : i8"""
    fault = programs.fault(
        lambda: programs.launch(programs.kernel(body, "%out: buffer", size=4), [], [np.zeros(8, dtype=np.uint8)])
    )
    assert fault.code == "EVALUATE/005"


def test_fences_around_relaxed_atomics_order_plain_accesses(programs: Programs) -> None:
    def body(fences: bool) -> str:
        release, acquire = ("release", "acquire") if fences else ("release", "release")
        return f"""
  %p = buffer.view %data[%at0] : buffer -> view<2xi32>
  %c = buffer.view %count[%at0] : buffer -> view<1xi32>
  %g = kernel.workgroup.id<x> : index
  %one = scalar.constant 1 : i32
  view.store %one, %p[%g] : i32, view<2xi32>
  buffer.fence scope(device) ordering({release})
  %old = view.atomic.rmw<addi> %one, %c[0] {{ordering = relaxed, scope = device}} : i32, view<1xi32> -> i32
  buffer.fence scope(device) ordering({acquire})
  %last = scalar.cmpi eq, %old, %one : i32
  scf.if %last {{
    %zero = scalar.constant 0 : i32
    %all = vector.load %p[0] : view<2xi32> -> vector<2xi32>
    %sum = vector.reduce<addi> %all, %zero : vector<2xi32>, i32
    view.store %sum, %c[0] : i32, view<1xi32>
  }}"""

    for fences in (True, False):
        arrays = [np.zeros(2, dtype=np.int32), np.zeros(1, dtype=np.int32)]
        text = programs.kernel(body(fences), "%data: buffer, %count: buffer", size=1, groups=2)
        if fences:
            programs.launch(text, [], arrays)
            assert arrays[1][0] == 2
        else:
            assert programs.fault(lambda t=text, a=arrays: programs.launch(t, [], a)).code == "EVALUATE/005"
