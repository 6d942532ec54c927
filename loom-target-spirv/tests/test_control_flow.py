"""Structured control flow on the device, against closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loom import api
from loom.ir.diagnostics import LoomError
from loom_target_spirv.errors import VulkanLoopCut
from loom_target_spirv.profiles import PROFILE

Launch = Callable[..., None]
Text = Callable[..., str]

I32 = "view<32xi32>"
INDEX = "view<32xindex>"


def run(launch: Launch, text: str, *arguments: Any) -> None:
    """Launch a kernel without workload."""
    launch(text, [], list(arguments))


def test_nested_conditionals_with_results(launch: Launch, kernel_text: Text) -> None:
    """Results of inner conditionals are the yields of outer ones; an arm may be missing."""
    text = kernel_text(
        "%in: buffer, %out: buffer",
        f"""
        %v = buffer.view %in[%o] : buffer -> {I32}
        %w = buffer.view %out[%o] : buffer -> {I32}
        %a = view.load %v[%x] : {I32} -> i32
        %zero = scalar.constant 0 : i32
        %ten = scalar.constant 10 : i32
        %neg = scalar.cmpi slt, %a, %zero : i32
        %big = scalar.cmpi sgt, %a, %ten : i32
        %r, %twice = scf.if %neg -> (i32, i32) {{
          %m = scalar.negi %a : i32
          %huge = scalar.cmpi sgt, %m, %ten : i32
          %inner = scf.if %huge -> (i32) {{
            scf.yield %ten : i32
          }} else {{
            scf.yield %m : i32
          }}
          scf.yield %inner, %a : i32, i32
        }} else {{
          %t = scalar.addi %a, %a : i32
          scf.yield %a, %t : i32, i32
        }}
        %sum = scalar.addi %r, %twice : i32
        view.store %sum, %w[%x] : i32, {I32}
        scf.if %big {{
          view.store %zero, %w[%x] : i32, {I32}
        }}
        """,
    )
    a = np.arange(-16, 16, dtype=np.int32)
    out = np.full(32, 7, np.int32)
    run(launch, text, a, out)
    want = np.where(a < 0, np.minimum(-a, 10) + a, 3 * a)
    np.testing.assert_array_equal(out, np.where(a > 10, 0, want))


@pytest.mark.parametrize("known", ["", "[range({v}, 0, 4096)]"])
def test_loops_of_any_trip_count(launch: Launch, kernel_text: Text, known: str) -> None:
    """Every work-item has its own bounds and step: empty ranges, single trips, inexact steps; in 32 and 64 bits."""
    assumed = "\n".join(
        f"%{name} = index.assume %{name}_ {known.format(v=f'%{name}_')} : index"
        if known
        else f"%{name} = index.assume %{name}_ [] : index"
        for name in ("lo", "hi", "st")
    )
    text = kernel_text(
        "%los: buffer, %his: buffer, %sts: buffer, %sums: buffer, %trips: buffer",
        f"""
        %vl = buffer.view %los[%o] : buffer -> {INDEX}
        %vh = buffer.view %his[%o] : buffer -> {INDEX}
        %vs = buffer.view %sts[%o] : buffer -> {INDEX}
        %sv = buffer.view %sums[%o] : buffer -> {INDEX}
        %tv = buffer.view %trips[%o] : buffer -> {INDEX}
        %lo_ = view.load %vl[%x] : {INDEX} -> index
        %hi_ = view.load %vh[%x] : {INDEX} -> index
        %st_ = view.load %vs[%x] : {INDEX} -> index
        {assumed}
        %s, %t = scf.for %i = [%lo to %hi step %st](%acc = %c0 : index, %n = %c0 : index) -> (index, index) {{
          %next = index.add %acc, %i : index
          %more = index.add %n, %c1 : index
          scf.yield %next, %more : index, index
        }}
        view.store %s, %sv[%x] : index, {INDEX}
        view.store %t, %tv[%x] : index, {INDEX}
        """,
    )
    rng = np.random.default_rng(4)
    lo = rng.integers(0, 40, 32)
    hi = rng.integers(0, 60, 32)
    step = rng.integers(1, 9, 32)
    if not known:
        lo[0], hi[0], step[0] = (1 << 40), (1 << 40) + 10, 3
        lo[1], hi[1], step[1] = (1 << 63) - 5, (1 << 63) - 1, 3
        lo[2], hi[2], step[2] = -7, 4, 2
    sums, trips = np.full(32, -1), np.full(32, -1)
    run(launch, text, lo, hi, step, sums, trips)
    ranges = [range(a, b, c) for a, b, c in zip(lo.tolist(), hi.tolist(), step.tolist(), strict=True)]
    wrap = np.array([sum(r) % (1 << 64) for r in ranges], np.uint64).view(np.int64)
    np.testing.assert_array_equal(sums, wrap)
    np.testing.assert_array_equal(trips, [len(r) for r in ranges])


def test_carried_values_trade_places(launch: Launch, kernel_text: Text) -> None:
    """A yield is simultaneous; a loop inside a loop sees the outer values; offsets count too."""
    text = kernel_text(
        "%out: buffer",
        """
        %w = buffer.view %out[%o] : buffer -> view<2x32xi32>
        %left = scalar.constant 1 : i32
        %right = scalar.constant 100 : i32
        %four = index.constant 4 : offset
        %end = index.constant 8 : offset
        %a, %b = scf.for %i = [%c0 to %x step %c1](%p = %left : i32, %q = %right : i32) -> (i32, i32) {
          %n = scf.for %j = [%o to %end step %four](%m = %q : i32) -> (i32) {
            %m1 = scalar.addi %m, %left : i32
            scf.yield %m1 : i32
          }
          scf.yield %n, %p : i32, i32
        }
        view.store %a, %w[0, %x] : i32, view<2x32xi32>
        view.store %b, %w[1, %x] : i32, view<2x32xi32>
        """,
    )
    out = np.zeros((2, 32), np.int32)
    run(launch, text, out)
    pairs = []
    for trips in range(32):
        p, q = 1, 100
        for _ in range(trips):
            p, q = q + 2, p
        pairs.append((p, q))
    np.testing.assert_array_equal(out, np.array(pairs).T)


def test_while_loops_with_two_tuples(launch: Launch, kernel_text: Text) -> None:
    """Collatz steps: header and forwarded tuples differ, the test holds a conditional, and trips diverge."""
    text = kernel_text(
        "%out: buffer",
        f"""
        %w = buffer.view %out[%o] : buffer -> {INDEX}
        %two = index.constant 2 : index
        %three = index.constant 3 : index
        %start = index.add %x, %c1 : index
        %steps = scf.while(%v = %start : index, %n = %c0 : index) -> (index, index) {{
          %odd = index.andi %v, %c1 : index
          %is_odd = index.cmp eq, %odd, %c1 : index
          %next = scf.if %is_odd -> (index) {{
            %up = index.madd %v, %three, %c1 : index
            scf.yield %up : index
          }} else {{
            %half = index.div %v, %two : index
            scf.yield %half : index
          }}
          %more = index.cmp ne, %v, %c1 : index
          scf.condition %more, %n, %next : i1, index, index
        }} do(%m: index, %following: index) {{
          %m1 = index.add %m, %c1 : index
          scf.yield %following, %m1 : index, index
        }}
        view.store %steps, %w[%x] : index, {INDEX}
        """,
    ).replace("%steps = scf.while", "%steps, %unused = scf.while")
    out = np.zeros(32, np.int64)
    run(launch, text, out)

    def steps(value: int) -> int:
        count = 0
        while value != 1:
            value = 3 * value + 1 if value % 2 else value // 2
            count += 1
        return count

    np.testing.assert_array_equal(out, [steps(i + 1) for i in range(32)])


def test_switch_and_lookup(launch: Launch, kernel_text: Text) -> None:
    """Keys beyond 32 bits and negative ones; the default answers every other selector."""
    big = 1 << 40
    text = kernel_text(
        "%sel: buffer, %out: buffer",
        f"""
        %v = buffer.view %sel[%o] : buffer -> {INDEX}
        %w = buffer.view %out[%o] : buffer -> view<3x32xi32>
        %s = view.load %v[%x] : {INDEX} -> index
        %a = scalar.constant 10 : i32
        %b = scalar.constant 20 : i32
        %c = scalar.constant 30 : i32
        %d = scalar.constant 40 : i32
        %r = scf.switch %s -> (i32) {{
          case -3 {{
            scf.yield %a : i32
          }}
          case 5 {{
            %five = scalar.addi %b, %a : i32
            scf.yield %five : i32
          }}
          case {big} {{
            scf.yield %c : i32
          }}
          default {{
            scf.yield %d : i32
          }}
        }}
        %narrow = scf.switch %x -> (i32) {{
          case 1 {{
            scf.yield %a : i32
          }}
          case 7 {{
            scf.yield %b : i32
          }}
          default {{
            scf.yield %c : i32
          }}
        }}
        %t, %u = scf.lookup %s {{
          -3 = (%a, %b),
          5 = (%b, %c),
          {big} = (%c, %d)
        }} default(%d, %a) : i32, i32
        %both = scalar.addi %t, %u : i32
        view.store %r, %w[0, %x] : i32, view<3x32xi32>
        view.store %narrow, %w[1, %x] : i32, view<3x32xi32>
        view.store %both, %w[2, %x] : i32, view<3x32xi32>
        """,
    )
    selectors = np.resize(np.array([-3, 5, big, 0, (1 << 32) + 5, -3 + (1 << 32)]), 32)
    out = np.zeros((3, 32), np.int32)
    run(launch, text, selectors, out)
    np.testing.assert_array_equal(out[0], [{-3: 10, 5: 30, big: 30}.get(s, 40) for s in selectors.tolist()])
    np.testing.assert_array_equal(out[1], [{1: 10, 7: 20}.get(i, 30) for i in range(32)])
    np.testing.assert_array_equal(out[2], [{-3: 30, 5: 50, big: 70}.get(s, 50) for s in selectors.tolist()])


def test_select_of_values_and_views(launch: Launch, kernel_text: Text) -> None:
    """A choice between views of two buffers is a choice of addresses."""
    text = kernel_text(
        "%left: buffer, %right: buffer, %out: buffer",
        f"""
        %l = buffer.view %left[%o] : buffer -> {I32}
        %r = buffer.view %right[%o] : buffer -> {I32}
        %w = buffer.view %out[%o] : buffer -> {I32}
        %half = index.constant 16 : index
        %first = index.cmp ult, %x, %half : index
        %v = scf.select %first, %l, %r : {I32}
        %a = view.load %v[%x] : {I32} -> i32
        %true = scalar.constant true : i1
        %flag = scf.select %first, %true, %first : i1
        %m = scalar.extsi %flag : i1 to i32
        %s = scalar.addi %a, %m : i32
        view.store %s, %w[%x] : i32, {I32}
        """,
    )
    left, right, out = np.arange(32, dtype=np.int32), np.arange(100, 132, dtype=np.int32), np.zeros(32, np.int32)
    run(launch, text, left, right, out)
    np.testing.assert_array_equal(out, np.where(np.arange(32) < 16, left - 1, right))


def _long_loop(kernel_text: Text) -> str:
    return kernel_text(
        "%count: index, %out: buffer",
        f"""
        %w = buffer.view %out[%o] : buffer -> {INDEX}
        %n = scf.for %i = [%c0 to %count step %c1](%acc = %c0 : index) -> (index) {{
          %more = index.add %acc, %c1 : index
          scf.yield %more : index
        }}
        view.store %n, %w[%x] : index, {INDEX}
        """,
    )


def test_a_loop_the_driver_cuts_short_is_an_error(launch: Launch, kernel_text: Text) -> None:
    """lavapipe leaves loops after 65,535 rounds; that is reported, and shorter loops are right."""
    out = np.zeros(32, np.int64)
    run(launch, _long_loop(kernel_text), 60000, out)
    np.testing.assert_array_equal(out, 60000)
    try:
        run(launch, _long_loop(kernel_text), 200000, out)
    except VulkanLoopCut:
        return
    np.testing.assert_array_equal(out, 200000)


def test_early_exit(launch: Launch, kernel_text: Text) -> None:
    """Work-items that leave do the exit's own work and nothing after it."""
    text = kernel_text(
        "%out: buffer",
        f"""
        %w = buffer.view %out[%o] : buffer -> {INDEX}
        %five = index.constant 5 : index
        %ten = index.constant 10 : index
        %low = index.cmp ult, %x, %five : index
        %high = index.cmp ugt, %x, %ten : index
        kernel.exit %low : i1
        kernel.exit %high : i1 {{
          view.store %ten, %w[%x] : index, {INDEX}
          kernel.return
        }}
        view.store %x, %w[%x] : index, {INDEX}
        """,
    )
    out = np.full(32, -1)
    run(launch, text, out)
    np.testing.assert_array_equal(out, [-1] * 5 + list(range(5, 11)) + [10] * 21)


def _nested(kernel_text: Text, depth: int) -> str:
    opening = "\n".join("scf.if %go {" for _ in range(depth))
    closing = "\n".join("}" for _ in range(depth))
    return kernel_text(
        "%out: buffer",
        f"""
        %w = buffer.view %out[%o] : buffer -> {INDEX}
        %go = index.cmp ne, %x, %c0 : index
        {opening}
        view.store %c1, %w[%x] : index, {INDEX}
        {closing}
        """,
    )


def test_deep_nesting(validate: Callable[[bytes], bytes], kernel_text: Text) -> None:
    """Nesting costs no Python stack; more than SPIR-V allows is a diagnostic."""
    from loom_target_spirv.select.lowering import lower_kernels

    def lowered(depth: int) -> bytes:
        module = api.parse(_nested(kernel_text, depth), "nested.loom")
        kernel = next(iter(module.ops))
        return lower_kernels([(kernel, (32, 1, 1))], PROFILE.name, PROFILE.facts).data

    validate(lowered(150))
    assert lowered(1000)
    with pytest.raises(LoomError) as error:
        lowered(2000)
    assert error.value.diagnostics[0].code == "SPIRV/017"
