"""Uniform values stay on the scalar ALU: launch arguments through every operation agree with the evaluator."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import TARGETS, agree

from loom import api

I32 = [0, 1, -1, 5, -7, 64, 2**31 - 1, -(2**31), 123456789]
OPERATIONS = ["addi", "subi", "muli", "andi", "ori", "xori", "minsi", "maxsi", "minui", "maxui", "rotli", "rotri"]
DIVISIONS = ["divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi"]
UNARY = ["negi", "absi", "signi", "ctlzi", "cttzi", "ctpopi"]
PREDICATES = ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]


def kernel(lines: list[str], results: int, type_: str) -> str:
    stores = "\n".join(f"  view.store %r{k}, %out[{k}] : {type_}, view<{results}x{type_}>" for k in range(results))
    body = "\n".join(lines)
    return f"""kernel.def export("k") @k() {{
  %unit = index.constant 1 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%unit, %unit, %unit) : index
}} launch(%a: {type_}, %b: {type_}, %y: buffer) {{
  %origin = index.constant 0 : offset
  %out = buffer.view %y[%origin] : buffer -> view<{results}x{type_}>
  %zero = scalar.constant 0 : {type_}
  %three = scalar.constant 3 : {type_}
{body}
{stores}
  kernel.return
}}
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", ["i32", "i64"])
def test_integer_arithmetic_of_arguments(type_: str, target: str) -> None:
    lines: list[str] = []
    for name in OPERATIONS:
        for left, right in (("%a", "%b"), ("%zero", "%a"), ("%a", "%three"), ("%three", "%a")):
            lines.append(f"  %r{len(lines)} = scalar.{name} {left}, {right} : {type_}")
    for name in UNARY:
        lines.append(f"  %r{len(lines)} = scalar.{name} %a : {type_}")
    results = len(lines)
    for predicate in PREDICATES:
        lines.append(f"  %c{results} = scalar.cmpi {predicate}, %a, %b : {type_}")
        lines.append(f"  %r{results} = scf.select %c{results}, %a, %three : {type_}")
        results += 1
    text = kernel(lines, results, type_)
    dtype = np.int32 if type_ == "i32" else np.int64
    for a, b in ((5, -7), (-1, 1), (2**31 - 1, -(2**31)), (0, 0), (123456789, 64)):
        agree(text, target, [], [a, b, np.zeros(results, dtype)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", ["i32", "i64"])
def test_division_of_arguments(type_: str, target: str) -> None:
    lines = [f"  %r{k} = scalar.{name} %a, %b : {type_}" for k, name in enumerate(DIVISIONS)]
    text = kernel(lines, len(lines), type_)
    dtype = np.int32 if type_ == "i32" else np.int64
    for a, b in ((60, 20), (-7, 2), (7, -2), (2**31 - 1, 10), (-(2**31), 3), (5, 2**31 - 1)):
        agree(text, target, [], [a, b, np.zeros(len(lines), dtype)])


@pytest.mark.seed("G04", "G05")
@pytest.mark.parametrize(
    ("promise", "scalar"), [("", True), (", align(2)", False), (", align(1)", False), (", align(1) known", True)]
)
def test_scalar_loads_need_words_that_are_aligned(promise: str, scalar: bool) -> None:
    """They ignore the low address bits, and a buffer may begin anywhere: a view or an assumption must promise it."""
    type_ = f"view<8xi32{promise.removesuffix(' known')}>"
    assumption = "  %p = buffer.assume.alignment %x {minimum_alignment = 4} : buffer\n" if "known" in promise else ""
    text = f"""kernel.def export("k") @k() {{
  %unit = index.constant 1 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%unit, %unit, %unit) : index
}} launch(%a: buffer, %b: buffer) {{
  %x, %y = buffer.assume.noalias %a, %b : buffer, buffer
{assumption}  %origin = index.constant 0 : offset
  %in = buffer.view {"%p" if assumption else "%x"}[%origin] : buffer -> {type_}
  %out = buffer.view %y[%origin] : buffer -> view<8xi32>
  %v = view.load %in[3] : {type_} -> i32
  view.store %v, %out[0] : i32, view<8xi32>
  kernel.return
}}
"""
    compiled = api.compile(api.parse(text), ["k"], "amdgpu:gfx1100", format="amdgpu-asm")
    assembly = compiled.result.primary.data.decode()
    assert ("s_load_b32" in assembly) == scalar
    assert ("global_load_b32" in assembly) != scalar
