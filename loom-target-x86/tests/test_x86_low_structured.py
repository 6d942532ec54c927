"""Authored Low with structured control flow and storage, compiled and run."""

from __future__ import annotations

import pytest
from x86_programs import INTEGER_RUNNER_IDS, INTEGER_RUNNERS, RUNNER_IDS, RUNNERS, Runner

from loom import api
from loom.ir.diagnostics import LoomError


def function(body: str, selector: str, signature: str = "(i64, i64) -> (i64)", register: str = "x86.gpr64") -> str:
    return f"""\
low.func.def public target<x86.{selector}.core> abi(object_function) abi_layout({{signature = {signature}}}) @f(%a: reg<{register}>, %n: reg<{register}>) -> (reg<{register}>) asm {{
{body}
  return %r
}}
"""


integers = pytest.mark.parametrize("runner", INTEGER_RUNNERS, ids=INTEGER_RUNNER_IDS, indirect=True)


@integers
@pytest.mark.parametrize(("a", "n"), [(1, 5), (7, 5), (5, 5), (-3, -2)])
def test_conditionals(runner: Runner, a: int, n: int) -> None:
    body = """\
  %less = cmp.slt.gpr64 %a, %n
  %r = low.scf.if %less -> (reg<x86.gpr64>) {
    %zero = mov.imm64 0
    %negative = cmp.slt.gpr64 %a, %zero
    %inner = low.scf.if %negative -> (reg<x86.gpr64>) {
      low.scf.yield %zero : reg<x86.gpr64>
    } else {
      %twice = add.gpr64 %a, %a
      low.scf.yield %twice : reg<x86.gpr64>
    }
    low.scf.yield %inner : reg<x86.gpr64>
  } else {
    %d = sub.gpr64 %a, %n
    low.scf.yield %d : reg<x86.gpr64>
  }"""
    program = runner.compile(function(body, runner.selector), ["f"])
    assert program.call("f", [a, n]) == [(0 if a < 0 else 2 * a) if a < n else a - n]


@integers
@pytest.mark.parametrize("register", ["x86.gpr64", "x86.gpr32"])
@pytest.mark.parametrize("n", [-4, 0, 1, 6])
def test_counted_loops(runner: Runner, register: str, n: int) -> None:
    width = register[-2:]
    body = f"""\
  %zero = mov.imm{width} 0
  %two = mov.imm{width} 2
  %r = low.scf.for [%zero to %n step %two] iter_args(%a: reg<{register}>) -> (reg<{register}>) do(%i: reg<{register}>, %acc: reg<{register}>) {{
    %part = low.scf.for [%zero to %i step %two] iter_args(%acc: reg<{register}>) -> (reg<{register}>) do(%j: reg<{register}>, %p: reg<{register}>) {{
      %next = add.gpr{width} %p, %j
      low.scf.yield %next : reg<{register}>
    }}
    %up = add.imm.gpr{width} %part, 1
    low.scf.yield %up : reg<{register}>
  }}"""
    signature = f"(i{width}, i{width}) -> (i{width})"
    program = runner.compile(function(body, runner.selector, signature, register), ["f"])
    expected = 10 + sum(1 + sum(range(0, i, 2)) for i in range(0, n, 2))
    assert program.call("f", [10, n]) == [expected]


@integers
def test_while_loops(runner: Runner) -> None:
    body = """\
  %zero = mov.imm64 0
  %r = low.scf.while(%v = %a : reg<x86.gpr64>, %k = %zero : reg<x86.gpr64>) -> (reg<x86.gpr64>) {
    %more = cmp.slt.gpr64 %n, %v
    low.scf.condition %more, %k, %v : reg<x86.gpr32>, reg<x86.gpr64>, reg<x86.gpr64>
  } do(%m: reg<x86.gpr64>, %w: reg<x86.gpr64>) {
    %half = sar.imm.gpr64 %w {shift = 1}
    %up = add.imm.gpr64 %m, 1
    low.scf.yield %half, %up : reg<x86.gpr64>, reg<x86.gpr64>
  }"""
    body = body.replace("-> (reg<x86.gpr64>) {", "-> (reg<x86.gpr64>, reg<x86.gpr64>) {").replace("%r =", "%r, %last =")
    program = runner.compile(function(body, runner.selector), ["f"])
    assert program.call("f", [100, 7]) == [4]
    assert program.call("f", [3, 7]) == [0]


@integers
def test_spills_and_reloads(runner: Runner) -> None:
    body = """\
  %room = storage {byte_alignment = 64, byte_length = 64} : low.storage<stack>
  %part = storage_view %room {offset = 8, byte_length = 16} : low.storage<stack> -> low.storage<stack>
  low.spill %a, %part : reg<x86.gpr64>, low.storage<stack>
  low.spill %n, %part {offset = 8} : reg<x86.gpr64>, low.storage<stack>
  %x = low.reload %room {offset = 8} : low.storage<stack> -> reg<x86.gpr64>
  %y = low.reload %room {offset = 16} : low.storage<stack> -> reg<x86.gpr64>
  %r = sub.gpr64 %x, %y"""
    program = runner.compile(function(body, runner.selector), ["f"])
    assert program.call("f", [50, 8]) == [42]


@pytest.mark.parametrize("runner", RUNNERS, ids=RUNNER_IDS, indirect=True)
def test_vector_registers_are_kept_whole(runner: Runner) -> None:
    body = """\
  %room = storage {byte_alignment = 16, byte_length = 32} : low.storage<stack>
  low.spill %a, %room {offset = 16} : reg<x86.xmm>, low.storage<stack>
  low.spill %n, %room : reg<x86.xmm>, low.storage<stack>
  %r = low.reload %room {offset = 16} : low.storage<stack> -> reg<x86.xmm>"""
    signature = "(vector<4xf32>, vector<4xf32>) -> (vector<4xf32>)"
    program = runner.compile(function(body, runner.selector, signature, "x86.xmm"), ["f"])
    (result,) = program.call("f", [[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0]])
    assert list(result) == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("  low.scf.for [%a to %n step %n] unroll do(%i: reg<x86.gpr64>) {\n  }", "not unrolled"),
        (
            "  %x = vmovq.xmm.gpr64 %a\n  low.scf.for [%x to %x step %x] do(%i: reg<x86.xmm>) {\n  }",
            "cannot count in reg<x86.xmm>",
        ),
    ],
)
def test_what_has_no_code_is_refused(body: str, what: str) -> None:
    text = function(body + "\n  %r = add.gpr64 %a, %n", "avx2")
    with pytest.raises(LoomError) as caught:
        api.compile(api.load_bytes(text.encode(), "t"), ["f"], "x86:avx2")
    (found,) = caught.value.diagnostics
    assert found.code == "TARGET/054"
    assert what in found.message
    assert found.position() is not None
