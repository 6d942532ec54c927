"""The shape of generated code: golden Low text, its round trip, machine code, frames, spills, determinism."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from x86_programs import RUNNER_IDS, RUNNERS, Runner, compile_object

from loom import api
from loom_target_x86.image import load_image
from loom_target_x86.inspect import instructions, required_features

all_runners = pytest.mark.parametrize("runner", RUNNERS, ids=RUNNER_IDS, indirect=True)


def low_text(text: str, root: str, selector: str = "avx2") -> str:
    """Target Low of one root, as `loom-compile --dump-ir-after=source-to-low` prints it."""
    module = api.load_bytes(text.encode(), "test.loom")
    lowered = api.lower(api.compile(module, [root], f"x86:{selector}"))
    assert lowered is not None
    api.verify(lowered)
    return api.print(lowered)


def listing(text: str, root: str, selector: str = "avx2") -> list[str]:
    """Intel-syntax instructions of one function."""
    image = load_image(compile_object(text, [root], selector))
    return [located.text for located in instructions(image)]


SAXPY = """
kernel.def export("saxpy") @saxpy(%count: index) {
  %unit = index.constant 1 : index
  %width = index.constant 64 : index
  %groups = index.div %count, %width : index
  kernel.launch.config workgroups(%groups, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%count: index, %a: f32, %x: buffer, %y: buffer) {
  %i = kernel.workitem.dispatch.id<x> : index
  %origin = index.constant 0 : offset
  %xv = buffer.view %x[%origin] : buffer -> view<[%count]xf32>
  %yv = buffer.view %y[%origin] : buffer -> view<[%count]xf32>
  %live = index.cmp ult, %i, %count : index
  scf.if %live {
    %xi = view.load %xv[%i] : view<[%count]xf32> -> f32
    %yi = view.load %yv[%i] : view<[%count]xf32> -> f32
    %r = scalar.fmaf %a, %xi, %yi : f32
    view.store %r, %yv[%i] : f32, view<[%count]xf32>
  }
  kernel.return
}
"""

GOLDEN_SAXPY = """\
x86.target<avx2> @__loom_target_context_0_0

low.kernel.def retain target<x86.avx2.core>(@__loom_target_context_0_0) abi_layout({signature = (index, f32, buffer, buffer) -> ()}) workgroup_size(64, 1, 1) @saxpy() asm {
  %arguments = live_in<x86.arguments> : reg<x86.gpr64>
  %dispatch = live_in<x86.dispatch> : reg<x86.gpr64>
  %count = mov.load.gpr64 %arguments {disp32 = 0}
  %a = vmovss.load.xmm %arguments {disp32 = 8}
  %4 = mov.load.gpr64 %arguments {disp32 = 16}
  %5 = mov.load.gpr64 %arguments {disp32 = 24}
  %6 = mov.imm64 0
  %7 = movzx32.load.gpr64 %dispatch {disp32 = 0}
  %8 = shl.imm.gpr64 %7 {shift = 6}
  low.br ^_bb1(%6: reg<x86.gpr64>)
^_bb1(%item_x: reg<x86.gpr64>):
  %i = lea %8, %item_x
  %live = cmp.ult.gpr64 %i, %count
  low.cond_br %live, ^_bb2, ^_bb3 : reg<x86.gpr32>
^_bb2:
  %xi = vmovss.load.indexed.xmm %4, %i {disp32 = 0, scale = 4}
  %yi = vmovss.load.indexed.xmm %5, %i {disp32 = 0, scale = 4}
  %r = vfmadd231ss.xmm %yi, %a, %xi
  vmovss.store.indexed.xmm %r, %5, %i {disp32 = 0, scale = 4}
  low.br ^_bb4
^_bb3:
  low.br ^_bb4
^_bb4:
  low.br ^_bb5
^_bb5:
  %15 = lea.disp %item_x {disp32 = 1}
  %16 = cmp.slt.imm.gpr64 %15, 64
  low.cond_br %16, ^_bb6, ^_bb7 : reg<x86.gpr32>
^_bb6:
  low.br ^_bb1(%15: reg<x86.gpr64>)
^_bb7:
  return
}
"""

CLAMP = """
func.def public pure @clamp(%v: f32, %lo: f32, %hi: f32) -> (f32) {
  %under = scalar.cmpf olt, %v, %lo : f32
  %raised = scf.select %under, %lo, %v : f32
  %over = scalar.cmpf ogt, %raised, %hi : f32
  %r = scf.select %over, %hi, %raised : f32
  func.return %r : f32
}
"""

GOLDEN_CLAMP = """\
x86.target<simd128> @__loom_target_context_0_0

low.func.def public pure target<x86.simd128.core>(@__loom_target_context_0_0) abi(object_function) abi_layout({signature = (f32, f32, f32) -> (f32)}) @clamp(%v: reg<x86.xmm>, %lo: reg<x86.xmm>, %hi: reg<x86.xmm>) -> (reg<x86.xmm>) asm {
  %under = ucomiss.olt.xmm %v, %lo
  %raised = select.xmm %under, %lo, %v
  %over = ucomiss.ogt.xmm %raised, %hi
  %r = select.xmm %over, %hi, %raised
  return %r
}
"""


def test_golden_low_of_a_kernel() -> None:
    """Work that does not depend on the item stands in front of the loop; the tail guard and the accesses in it."""
    assert low_text(SAXPY, "saxpy") == GOLDEN_SAXPY


def test_golden_low_of_a_function() -> None:
    assert low_text(CLAMP, "clamp", "simd128") == GOLDEN_CLAMP


@pytest.mark.parametrize(("golden", "root"), [(GOLDEN_SAXPY, "saxpy"), (GOLDEN_CLAMP, "clamp")])
def test_low_text_reads_back_and_compiles_to_the_same_code(golden: str, root: str) -> None:
    """Low is a complete program: what is printed can be read, verified and compiled again."""
    module = api.load_bytes(golden.encode(), "low.loom")
    assert api.print(module) == golden
    selector, source = ("avx2", SAXPY) if root == "saxpy" else ("simd128", CLAMP)
    again, direct = compile_object(module, [root], selector), compile_object(source, [root], selector)
    assert load_image(again).signatures == load_image(direct).signatures
    # What selection knows about addresses is not part of the text, so only the instructions are the same.
    texts = [sorted(located.text.split()[0] for located in instructions(load_image(code))) for code in (again, direct)]
    assert texts[0] == texts[1]


def test_comparisons_feed_their_users_through_the_flags() -> None:
    assert listing(CLAMP, "clamp", "simd128") == [
        "ucomiss xmm1, xmm0",
        "jbe 8",
        "movaps xmm0, xmm1",
        "ucomiss xmm0, xmm2",
        "jbe 0x10",
        "movaps xmm0, xmm2",
        "ret",
    ]
    integer = """
func.def public @f(%a: i32, %b: i32) -> (i32) {
  %less = scalar.cmpi slt, %a, %b : i32
  %r = scf.select %less, %a, %b : i32
  func.return %r : i32
}
"""
    assert listing(integer, "f") == ["cmp edi, esi", "cmovl esi, edi", "mov eax, esi", "ret"]


def test_conditions_that_need_two_flags_branch_twice() -> None:
    text = """
func.def public @f(%a: f64, %b: f64, %x: i64, %y: i64) -> (i64) {
  %same = scalar.cmpf oeq, %a, %b : f64
  %r = scf.if %same -> (i64) {
    %s = scalar.addi %x, %y : i64
    scf.yield %s : i64
  } else {
    %d = scalar.muli %x, %y : i64
    scf.yield %d : i64
  }
  func.return %r : i64
}
"""
    code = listing(text, "f")
    assert [line.split()[0] for line in code[:3]] == ["vucomisd", "jne", "jp"]
    assert not any("set" in line for line in code)


def test_invariant_code_and_address_arithmetic_leave_loops() -> None:
    text = """
func.def public @f(%data: view<[%rows]x[%cols]xi32>, %rows: index, %cols: index, %row: index, %k: i32) -> (i32) {
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %none = scalar.constant 0 : i32
  %sum = scf.for %c = [%zero to %cols step %one](%s = %none : i32) -> (i32) {
    %e = view.load %data[%row, %c] : view<[%rows]x[%cols]xi32> -> i32
    %kk = scalar.muli %k, %k : i32
    %p = scalar.addi %e, %kk : i32
    %n = scalar.addi %s, %p : i32
    scf.yield %n : i32
  }
  func.return %sum : i32
}
"""
    low = low_text(text, "f")
    loop = low.split("\n^_bb2(")[1].split("\n^_bb3")[0]
    assert "imul" not in loop
    assert "mov.load.indexed.gpr32" in loop
    assert low.count("imul") == 2


GUARDED = """
func.def public @guarded(%n: index, %a: i64, %b: i64) -> (i64) {
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %none = scalar.constant 0 : i64
  %safe = scalar.cmpi ne, %b, %none : i64
  %r = scf.for %i = [%zero to %n step %one](%s = %none : i64) -> (i64) {
    %q = scf.if %safe -> (i64) {
      %d = scalar.divsi %a, %b : i64
      scf.yield %d : i64
    } else {
      scf.yield %a : i64
    }
    %t = scalar.addi %s, %q : i64
    scf.yield %t : i64
  }
  func.return %r : i64
}

func.def public @invariant(%n: index, %a: i64, %b: i64) -> (i64) {
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %none = scalar.constant 0 : i64
  %r = scf.for %i = [%zero to %n step %one](%s = %none : i64) -> (i64) {
    %d = scalar.divsi %a, %b : i64
    %t = scalar.addi %s, %d : i64
    scf.yield %t : i64
  }
  func.return %r : i64
}
"""


@all_runners
def test_divisions_leave_loops_only_where_they_would_run(runner: Runner) -> None:
    """A trap must not happen earlier than in the source, let alone where the source has none."""
    program = runner.compile(GUARDED, ["guarded", "invariant"])
    assert program.call("guarded", [3, 7, 0]) == [21]
    assert program.call("guarded", [3, 7, 2]) == [9]
    assert program.call("invariant", [0, 7, 0]) == [0]
    assert program.call("invariant", [4, 7, 2]) == [12]
    loop = low_text(GUARDED, "invariant", runner.selector).split("\n^_bb2(")[1].split("\n^_bb3")[0]
    assert "idiv" not in loop


def test_unused_code_is_dropped() -> None:
    """Constants become immediates and folded index arithmetic leaves nothing behind."""
    text = """
func.def public @f(%data: view<100xi32>, %i: index) -> (i32) {
  %five = index.constant 5 : index
  %at = index.add %i, %five : index
  %v = view.load %data[%at] : view<100xi32> -> i32
  %ten = scalar.constant 10 : i32
  %r = scalar.addi %v, %ten : i32
  func.return %r : i32
}
"""
    assert listing(text, "f") == ["mov eax, [rdi+rsi*4+0x14]", "add eax, 0xA", "ret"]


def test_profiles_keep_to_their_instructions() -> None:
    text = SAXPY + CLAMP
    module = api.load_bytes(text.encode(), "test.loom")
    allowed = {"pni", "ssse3", "sse4_1", "sse4_2"}
    assert set(required_features(load_image(compile_object(module, (), "simd128")))) <= allowed
    wide = required_features(load_image(compile_object(module, (), "avx2")))
    assert "fma" in wide
    for located in instructions(load_image(compile_object(module, (), "avx2"))):
        if "xmm" in located.text:
            assert located.text.startswith("v"), located.text


@pytest.mark.parametrize("selector", ["avx2", "simd128"])
def test_llvm_decodes_every_byte(tool: Callable[[str], str], tmp_path: Path, selector: str) -> None:
    from random import Random

    from x86_random_programs import random_function

    for seed in range(3):
        path = tmp_path / f"{seed}.o"
        path.write_bytes(compile_object(random_function(Random(seed)), ["f"], selector))
        command = [tool("llvm-objdump-19"), "-d", "--no-show-raw-insn", "-M", "intel", str(path)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        theirs = re.findall(r"^\s*[0-9a-f]+:\s+(\S+)", text, re.MULTILINE)
        ours = [located.text.split()[0] for located in instructions(load_image(path.read_bytes()))]
        assert "<unknown>" not in text
        assert len(theirs) == len(ours) > 20


def test_objects_are_reproducible() -> None:
    """The same bytes in this process, and in another one with other hash seeds."""
    program = (
        "import sys; from loom import api; "
        "m = api.load_bytes(sys.stdin.buffer.read(), 'p'); "
        "sys.stdout.buffer.write(api.compile(m, [], 'x86:avx2').result.primary.data)"
    )
    source = SAXPY + CLAMP
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            input=source.encode(),
            check=True,
            capture_output=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1] == compile_object(source, (), "avx2")


# -- registers and frames -------------------------------------------------------------------------


def many_live_values(count: int, type_name: str, op: str) -> str:
    """Loads `count` values, then combines them all twice in different orders, so that all of them stay live."""
    lines = [f"  %v{i} = view.load %data[{i}] : view<{count}x{type_name}> -> {type_name}" for i in range(count)]
    lines.append(f"  %s0 = scalar.{op} %v0, %v{count - 1} : {type_name}")
    for i in range(1, count):
        lines.append(f"  %s{i} = scalar.{op} %s{i - 1}, %v{count - 1 - i} : {type_name}")
    lines.append(f"  %t0 = scalar.{op} %v0, %s{count - 1} : {type_name}")
    for i in range(1, count):
        lines.append(f"  %t{i} = scalar.{op} %t{i - 1}, %v{i} : {type_name}")
    body = "\n".join(lines)
    return (
        f"func.def public @f(%data: view<{count}x{type_name}>) -> ({type_name}, {type_name}) {{\n{body}\n"
        f"  func.return %s{count - 1}, %t{count - 1} : {type_name}, {type_name}\n}}\n"
    )


@pytest.mark.parametrize("count", [10, 20, 60])
@pytest.mark.parametrize(("type_name", "op"), [("i64", "subi"), ("i32", "subi"), ("f64", "subf"), ("f32", "subf")])
@all_runners
def test_more_values_than_registers(runner: Runner, type_name: str, op: str, count: int) -> None:
    """A fence after the loads keeps every value live; what does not fit goes to the stack and comes back."""
    text = many_live_values(count, type_name, op).replace("  %s0 =", "  scf.schedule.fence\n  %s0 =")
    module = api.load_bytes(text.encode(), "test.loom")
    dtype = np.dtype({"i64": "i8", "i32": "i4", "f64": "f8", "f32": "f4"}[type_name])
    values = np.arange(1, count + 1).astype(dtype)
    first = values[0] - values[::-1].sum() if count else 0
    second = values[0] - first - values[1:].sum()
    compilation = api.compile(module, ["f"], f"x86:{runner.selector}", options={"check": True})
    report: Any = compilation.result.report
    (entry,) = report["entries"]
    assert (entry["allocation"]["spill_count"] > 0) == (count > 14)
    assert runner.load(compilation.result.primary.data).call("f", [values]) == [first, second]


def nested_loops(depth: int) -> str:
    open_, close = [], []
    inner = "%s0"
    for level in range(depth):
        pad = "  " * (level + 1)
        open_.append(
            f"{pad}%r{level} = scf.for %i{level} = [%zero to %n step %one](%s{level + 1} = {inner} : i64) -> (i64) {{"
        )
        inner = f"%s{level + 1}"
        close.append(f"{pad}  scf.yield %r{level + 1} : i64\n{pad}}}")
    pad = "  " * (depth + 1)
    body = f"{pad}%r{depth} = scalar.addi {inner}, %k : i64"
    return (
        "func.def public @f(%n: index, %k: i64, %s0: i64) -> (i64) {\n  %zero = index.constant 0 : index\n"
        "  %one = index.constant 1 : index\n"
        + "\n".join([*open_, body, *reversed(close)])
        + "\n  func.return %r0 : i64\n}\n"
    )


@pytest.mark.parametrize(("depth", "n"), [(1, 100), (4, 5), (12, 2), (40, 1)])
@all_runners
def test_deep_loops(runner: Runner, depth: int, n: int) -> None:
    program = runner.compile(nested_loops(depth), ["f"])
    assert program.call("f", [n, 3, 7]) == [7 + 3 * n**depth]
    assert program.call("f", [0, 3, 7]) == [7]


@all_runners
def test_long_functions(runner: Runner) -> None:
    """Branches across thousands of instructions get their long form."""
    chain = "\n".join(
        f"    %m{i + 1} = scalar.muli %x{i}, %k : i64\n    %x{i + 1} = scalar.xori %m{i + 1}, %k : i64"
        for i in range(400)
    )
    text = f"""
func.def public @f(%c: i1, %x0: i64, %k: i64) -> (i64) {{
  %r = scf.if %c -> (i64) {{
{chain}
    scf.yield %x400 : i64
  }} else {{
    scf.yield %k : i64
  }}
  func.return %r : i64
}}
"""
    want = 5
    for _ in range(400):
        want = (want * 7 & (1 << 64) - 1) ^ 7
    want -= (want >> 63) << 64
    program = runner.compile(text, ["f"])
    assert program.call("f", [True, 5, 7]) == [want]
    assert program.call("f", [False, 5, 7]) == [7]


@all_runners
def test_loop_bounds_at_the_end_of_the_range(runner: Runner) -> None:
    """The position behind the last one need not be representable."""
    text = """
func.def public @f(%lo: index, %hi: index) -> (i64) {
  %step = index.constant 3 : index
  %none = scalar.constant 0 : i64
  %one = scalar.constant 1 : i64
  %n = scf.for %i = [%lo to %hi step %step](%s = %none : i64) -> (i64) {
    %t = scalar.addi %s, %one : i64
    scf.yield %t : i64
  }
  func.return %n : i64
}
"""
    program = runner.compile(text, ["f"])
    top = (1 << 63) - 1
    for lo, hi in (
        (top - 10, top),
        (top - 9, top),
        (top - 1, top),
        (top, top),
        (-(1 << 63), -(1 << 63) + 4),
        (5, -5),
        (-4, 4),
    ):
        assert program.call("f", [lo, hi]) == [max(0, -(-(hi - lo) // 3))], (lo, hi)


# -- authored Low ---------------------------------------------------------------------------------

AUTHORED = """
low.func.def public target<x86.avx2.core> abi(object_function) abi_layout({signature = (i64, i64, f32) -> (i64, f32)}) @f(%a: reg<x86.gpr64>, %b: reg<x86.gpr64>, %x: reg<x86.xmm>) -> (reg<x86.gpr64>, reg<x86.xmm>) asm {
  %c = cmp.slt.gpr64 %a, %b
  low.cond_br %c, ^less, ^more : reg<x86.gpr32>
^less:
  %d = sub.gpr64 %b, %a
  low.br ^join(%d: reg<x86.gpr64>)
^more:
  %e = imul.imm.gpr64 %a, 3
  low.br ^join(%e: reg<x86.gpr64>)
^join(%r: reg<x86.gpr64>):
  %k = mov.imm32 0x40000000
  %v = vmovd.xmm.gpr32 %k
  %y = vmulss.xmm %x, %v
  return %r, %y
}
"""


@pytest.mark.parametrize("runner", RUNNERS[:1], ids=RUNNER_IDS[:1], indirect=True)
def test_authored_functions_compile(runner: Runner) -> None:
    program = runner.compile(AUTHORED, ["f"])
    assert program.call("f", [2, 9, 1.5]) == [7, 3.0]
    assert program.call("f", [9, 2, -1.5]) == [27, -3.0]


@pytest.mark.parametrize("runner", RUNNERS[:1], ids=RUNNER_IDS[:1], indirect=True)
def test_authored_order_is_kept(runner: Runner) -> None:
    """Three multiplications behind loads: `locked` keeps the authored order, free code starts the loads first."""
    body = """
  %a = mov.load.gpr64 %p {disp32 = 0}
  %x = imul.gpr64 %a, %a
  %b = mov.load.gpr64 %p {disp32 = 8}
  %y = imul.gpr64 %b, %b
  %c = mov.load.gpr64 %p {disp32 = 16}
  %z = imul.gpr64 %c, %c
  %s = add.gpr64 %x, %y
  %t = add.gpr64 %s, %z
  return %t
}
"""
    head = "low.func.def public {}target<x86.avx2.core> abi_layout({{signature = (buffer) -> (i64)}}) @f(%p: reg<x86.gpr64>) -> (reg<x86.gpr64>) asm {{"
    orders = {}
    for mode in ("", "schedule(locked) "):
        text = head.format(mode) + body
        code = compile_object(text, ["f"])
        orders[mode] = [
            t.split()[0] for located in instructions(load_image(code)) if "[" in (t := located.text) or "imul" in t
        ]
        assert runner.load(code).call("f", [np.array([2, 3, 4], np.int64)]) == [29]
    assert orders["schedule(locked) "] == ["mov", "imul"] * 3
    assert orders[""] == ["mov"] * 3 + ["imul"] * 3


@pytest.mark.parametrize("runner", RUNNERS[:1], ids=RUNNER_IDS[:1], indirect=True)
def test_flags_are_not_trusted_across_instructions_that_change_them(runner: Runner) -> None:
    """Where the author keeps arithmetic between a comparison and its branch, the outcome goes through a register."""
    text = """
low.func.def public schedule(locked) target<x86.avx2.core> abi_layout({signature = (i64, i64) -> (i64)}) @f(%a: reg<x86.gpr64>, %b: reg<x86.gpr64>) -> (reg<x86.gpr64>) asm {
  %c = cmp.slt.gpr64 %a, %b
  %d = sub.gpr64 %b, %a
  %e = select.gpr64 %c, %d, %a
  %g = cmp.eq.imm.gpr64 %a, 5
  %h = add.imm.gpr64 %e, 100
  low.cond_br %g, ^five, ^other : reg<x86.gpr32>
^five:
  return %e
^other:
  return %h
}
"""
    program = runner.compile(text, ["f"])
    assert program.call("f", [2, 9]) == [107]
    assert program.call("f", [9, 2]) == [109]
    assert program.call("f", [5, 7]) == [2]
    assert program.call("f", [5, 1]) == [5]


def test_reports_count_what_was_emitted() -> None:
    module = api.load_bytes((SAXPY + CLAMP).encode(), "test.loom")
    compilation = api.compile(module, [], "x86:avx2")
    report: Any = compilation.result.report
    image = load_image(compilation.result.primary.data)
    code = [located for located in instructions(image) if not located.text.startswith("nop")]
    assert report["emission"]["instruction_count"] == len(code)
    assert {entry["function"] for entry in report["entries"]} == {"saxpy", "clamp"}
    assert sum(entry["code_byte_count"] for entry in report["entries"]) == report["emission"]["code_byte_count"]
