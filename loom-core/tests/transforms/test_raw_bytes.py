"""Ranges of bytes as loops mean what the operations mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loom import api
from loom.evaluate.device import ReferenceDevice
from loom.transforms.raw_bytes import expand_raw_bytes

KERNEL = """kernel.def @k() {
  %unit = index.constant 1 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%unit, %unit, %unit) : index
} launch(%n: index, %pattern: TYPE, %in: buffer, %out: buffer, %order: buffer) {
  %length = index.cast %n : index to offset
  %at0 = index.constant 0 : offset
  %at3 = index.constant 3 : offset
  %at32 = index.constant 32 : offset
  buffer.copy %in[%at3], %out[%at0], %length
  buffer.fill %pattern, %out[%at32], %length : TYPE
  %o = buffer.compare %in[%at3], %out[%at32], %length
  %v = buffer.view %order[%at0] : buffer -> view<1xi32>
  view.store %o, %v[0] : i32, view<1xi32>
  kernel.return
}
"""
KINDS = {"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "f16": "f2", "f32": "f4", "f64": "f8"}


@pytest.mark.parametrize("type_", KINDS)
@pytest.mark.parametrize("count", [0, 1, 7, 16])
def test_loops_do_what_the_operations_do(type_: str, count: int) -> None:
    pattern = np.array(-3.25 if type_[0] == "f" else -77, KINDS[type_])[()]
    data = np.arange(200, 232, dtype=np.uint8)
    results: list[list[Any]] = []
    for expanded in (False, True):
        module = api.load_bytes(KERNEL.replace("TYPE", type_).encode(), "k.loom")
        (kernel,) = module.ops
        if expanded:
            expand_raw_bytes(kernel)
            assert not [op for op in kernel.walk() if op.name in ("buffer.copy", "buffer.fill", "buffer.compare")]
            api.verify(module)
        given: list[Any] = [count, pattern, data.copy(), np.zeros(64, np.uint8), np.full(1, 5, np.int32)]
        ReferenceDevice({}).launch(module, kernel, [], given)
        results.append(given[3:])
    for plain, looped in zip(*results, strict=True):
        assert np.array_equal(plain, looped)
    assert np.array_equal(results[0][0][:count], data[3 : 3 + count])
