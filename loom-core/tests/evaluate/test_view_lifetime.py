"""A view owns nothing: carried on, it does not keep the storage behind it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loom.evaluate.machine import Program
from loom.evaluate.pipelines import run_pipeline

Programs = Any

PIPELINE = """
pipeline.def<kernel> @p(%n: index) run(%out: view<[%n]xi32>) {
  %shared = pipeline.memory<workgroup>[0] : pool
  %at0 = index.constant 0 : offset
  %room = index.constant 8 : offset
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %two = index.constant 2 : index
  %raw = buffer.alloca<workgroup> pool(%shared) align(4) %room : buffer
  %ring = buffer.view %raw[%at0] : buffer -> view<2x1xi32>
  %link = channel.bind<fifo> %ring, %two : view<2x1xi32>, index -> channel<tile<1xi32>>
  pipeline.strand workers([0], [1], [1]) {
    scf.for %i = [%zero to %n step %one] {
      %w, %slot = channel.reserve %link : channel<tile<1xi32>> -> (write<tile<1xi32>>, view<1xi32>)
      %v = index.cast %i : index to i32
      view.store %v, %slot[0] : i32, view<1xi32>
      channel.publish %w : write<tile<1xi32>>
    }
  }
  pipeline.strand workers([1], [1], [1]) {
    %first = view.subview %out[0] : view<[%n]xi32> -> view<1xi32>
    %last = scf.for %i = [%zero to %n step %one](%old = %first : view<1xi32>) -> (view<1xi32>) {
      %r, %slot = channel.acquire %link : channel<tile<1xi32>> -> (read<tile<1xi32>>, view<1xi32>)
      %v = view.load {read}[0] : view<1xi32> -> i32
      view.store %v, %out[%i] : i32, view<[%n]xi32>
      channel.release %r : read<tile<1xi32>>
      scf.yield {next} : view<1xi32>
    }
  }
}
"""


@pytest.mark.seed("R04")
def test_a_carried_view_does_not_keep_its_storage(programs: Programs) -> None:
    """The slot of a record ends with its release: no view of it may be carried on. Views of what lives on may be."""
    out = np.full(4, 9, dtype=np.int32)
    text = PIPELINE.replace("{read}", "%slot")
    module = programs.module(text.replace("{next}", "%old"))
    run_pipeline(Program(module), module.symbols()["p"], [4], [out])
    assert out.tolist() == [0, 1, 2, 3]
    found = programs.fault(lambda: programs.module(text.replace("{next}", "%slot")))
    assert found.code == "DOMINANCE/002"
    assert programs.source_line(found).startswith("scf.yield %slot")
    (ended,) = found.related
    assert "ends" in ended.label
