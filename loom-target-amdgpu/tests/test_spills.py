"""Register pressure: values that do not fit are kept in scratch memory and in lanes of vector registers."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import TARGETS, agree, compile_text
from test_select_control import _plain


def many_live_vectors(count: int) -> str:
    """``count`` loaded values that are all used twice: in order, and backwards after a barrier."""
    lines = []
    for k in range(count):
        lines.append(f"  %v{k} = view.load %in[{k}, %lane] : view<{count}x32xi32> -> i32")
    lines.append("  %s0 = scalar.addi %v0, %v0 : i32")
    for k in range(1, count):
        lines.append(f"  %s{k} = scalar.xori %s{k - 1}, %v{k} : i32")
    lines.append("  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)")
    lines.append(f"  %t{count} = scalar.addi %s{count - 1}, %s{count - 1} : i32")
    for k in reversed(range(count)):
        lines.append(f"  %t{k} = scalar.subi %v{k}, %t{k + 1} : i32")
    body = (
        f"""
  %lane = kernel.workitem.id<x> : index
  %origin = index.constant 0 : offset
  %in = buffer.view %x[%origin] : buffer -> view<{count}x32xi32>
  %out = buffer.view %y[%origin] : buffer -> view<32xi32>
"""
        + "\n".join(lines)
        + "\n  view.store %t0, %out[%lane] : i32, view<32xi32>"
    )
    return _plain(body, (32, 1, 1), (1, 1, 1), "%x: buffer, %y: buffer")


def many_live_scalars(count: int) -> str:
    """``count`` launch arguments, all combined twice."""
    parameters = ", ".join(f"%a{k}: i32" for k in range(count))
    lines = ["  %s0 = scalar.addi %a0, %a0 : i32"]
    for k in range(1, count):
        lines.append(f"  %s{k} = scalar.xori %s{k - 1}, %a{k} : i32")
    lines.append("  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)")
    lines.append(f"  %t{count} = scalar.addi %s{count - 1}, %s{count - 1} : i32")
    for k in reversed(range(count)):
        lines.append(f"  %t{k} = scalar.subi %a{k}, %t{k + 1} : i32")
    body = (
        """
  %lane = kernel.workitem.id<x> : index
  %origin = index.constant 0 : offset
  %out = buffer.view %y[%origin] : buffer -> view<32xi32>
"""
        + "\n".join(lines)
        + "\n  view.store %t0, %out[%lane] : i32, view<32xi32>"
    )
    return _plain(body, (32, 1, 1), (1, 1, 1), f"%y: buffer, {parameters}")


@pytest.mark.parametrize("target", TARGETS)
def test_vector_registers_spill_to_scratch(target: str) -> None:
    text = many_live_vectors(300)
    (report,) = compile_text(text, target, schedule="source").report["entries"]
    assert report["allocation"]["spill_count"] > 0
    assert report["memory"]["private_bytes"] > 0
    assert report["target_resources"]["vector"]["final_count"] <= 256
    x = np.random.default_rng(2).integers(-(2**31), 2**31, (300, 32), dtype=np.int32)
    agree(text, target, [], [x, np.zeros(32, np.int32)], schedule="source")


@pytest.mark.parametrize("target", TARGETS)
def test_scalar_registers_spill_to_lanes(target: str) -> None:
    text = many_live_scalars(140)
    (report,) = compile_text(text, target, schedule="source").report["entries"]
    assert report["allocation"]["spill_count"] > 0
    assert report["memory"]["private_bytes"] == 0
    values = [int(v) for v in np.random.default_rng(3).integers(-(2**31), 2**31, 140)]
    agree(text, target, [], [np.zeros(32, np.int32), *values], schedule="source")
