"""Moves of neighbouring registers, which the allocator hands over as one wide move."""

from __future__ import annotations

import numpy as np
import pytest

from loom import api
from loom.plugins.manager import find_device, find_target

LAYOUTS = """\
kernel.def export("pick") @pick() {
  %unit = index.constant 1 : index
  %rows = index.constant 8 : index
  %cols = index.constant 16 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%cols, %rows, %unit) : index
} launch(%by_rows: i1, %src: buffer, %dst: buffer) {
  %origin = index.constant 0 : offset
  %rows = index.constant 8 : index
  %cols = index.constant 16 : index
  %r = kernel.workitem.id<y> : index
  %c = kernel.workitem.id<x> : index
  %row_major = encoding.layout.strided [%cols, 1] : encoding<layout>
  %col_major = encoding.layout.strided [1, %rows] : encoding<layout>
  %layout = scf.if %by_rows -> (encoding<layout>) {
    scf.yield %row_major : encoding<layout>
  } else {
    scf.yield %col_major : encoding<layout>
  }
  %in = buffer.view %src[%origin] : buffer -> view<8x16xi32, %layout>
  %out = buffer.view %dst[%origin] : buffer -> view<8x16xi32>
  %v = view.load %in[%r, %c] : view<8x16xi32, %layout> -> i32
  view.store %v, %out[%r, %c] : i32, view<8x16xi32>
  kernel.return
}
"""


@pytest.mark.parametrize("by_rows", [True, False])
def test_both_strides_arrive(by_rows: bool) -> None:
    profile = find_target("x86:simd128")
    device = find_device("host").open(profile)
    try:
        module = api.specialize(api.parse(LAYOUTS), profile).module
        source = np.arange(128, dtype=np.int32)
        result = np.zeros((8, 16), np.int32)
        device.launch(module, module.symbols()["pick"], [], [by_rows, source, result])
    finally:
        device.close()
    expected = source.reshape(8, 16) if by_rows else source.reshape(16, 8).T
    assert (result == expected).all()
