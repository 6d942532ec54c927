"""Compiled functions obey the System V convention: among themselves, called by C, and calling C."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from x86_programs import INTEGER_RUNNER_IDS, INTEGER_RUNNERS, RUNNER_IDS, RUNNERS, Runner, compile_object

TYPES = ("i64", "f64", "i32", "f32", "i8", "i1", "index")


def mixed_signature(count: int) -> list[str]:
    return [TYPES[number % len(TYPES)] for number in range(count)]


def sample(type_name: str, number: int) -> int | float | bool:
    if type_name == "i1":
        return number % 2 == 0
    if type_name in ("f32", "f64"):
        return number + 0.5
    return -number if number % 3 else number


def shuffle_program(count: int) -> str:
    """`@outer` hands its parameters in reverse order to `@inner`, which returns all of them."""
    types = mixed_signature(count)
    back = types[::-1]
    parameters = ", ".join(f"%a{i}: {t}" for i, t in enumerate(types))
    reverse = ", ".join(f"%b{i}: {t}" for i, t in enumerate(back))
    names = ", ".join(f"%a{i}" for i in reversed(range(count)))
    results = ", ".join(f"%r{i}" for i in range(count))
    return f"""
func.def noinline @inner({reverse}) -> ({", ".join(back)}) {{
  func.return {", ".join(f"%b{i}" for i in range(count))} : {", ".join(back)}
}}

func.def public @outer({parameters}) -> ({", ".join(back)}) {{
  {results} = func.call noinline @inner({names}) : ({", ".join(back)}) -> ({", ".join(back)})
  func.return {results} : {", ".join(back)}
}}
"""


@pytest.mark.parametrize("count", [1, 2, 3, 6, 7, 12, 25])
@pytest.mark.parametrize("runner", RUNNERS, ids=RUNNER_IDS, indirect=True)
def test_arguments_and_results_by_register_stack_and_struct(runner: Runner, count: int) -> None:
    types = mixed_signature(count)
    values = [sample(t, i) for i, t in enumerate(types)]
    program = runner.compile(shuffle_program(count), ["outer"])
    # The runner checks that callee-saved registers survive.
    assert program.call("outer", values) == values[::-1]


@pytest.mark.parametrize("runner", INTEGER_RUNNERS, ids=INTEGER_RUNNER_IDS, indirect=True)
def test_recursion_keeps_values_across_calls(runner: Runner) -> None:
    program = runner.compile(
        """
func.def public noinline @ackermann(%m: i64, %n: i64) -> (i64) {
  %zero = scalar.constant 0 : i64
  %one = scalar.constant 1 : i64
  %m_zero = scalar.cmpi eq, %m, %zero : i64
  %r = scf.if %m_zero -> (i64) {
    %next = scalar.addi %n, %one : i64
    scf.yield %next : i64
  } else {
    %less = scalar.subi %m, %one : i64
    %n_zero = scalar.cmpi eq, %n, %zero : i64
    %inner = scf.if %n_zero -> (i64) {
      scf.yield %one : i64
    } else {
      %down = scalar.subi %n, %one : i64
      %deep = func.call @ackermann(%m, %down) : (i64, i64) -> (i64)
      scf.yield %deep : i64
    }
    %outer = func.call @ackermann(%less, %inner) : (i64, i64) -> (i64)
    scf.yield %outer : i64
  }
  func.return %r : i64
}
""",
        ["ackermann"],
    )
    assert program.call("ackermann", [2, 3]) == [9]
    assert program.call("ackermann", [3, 3]) == [61]


def busy_square() -> str:
    """`@square` computes x * x by way of sums that need nearly every vector register."""
    lines = ["  %one = scalar.constant 1.0 : f64", "  %p0 = scalar.addf %x, %one : f64"]
    lines += [f"  %p{i} = scalar.addf %p{i - 1}, %one : f64" for i in range(1, 14)]
    lines.append("  scf.schedule.fence")
    lines.append("  %q13 = scalar.subf %p13, %p12 : f64")
    # Neighbours differ by one, so the product of the differences is one.
    for i in reversed(range(1, 13)):
        lines.append(f"  %d{i} = scalar.subf %p{i}, %p{i - 1} : f64")
        lines.append(f"  %q{i} = scalar.mulf %q{i + 1}, %d{i} : f64")
    lines.append("  %y = scalar.mulf %x, %q1 : f64")
    lines.append("  %r = scalar.mulf %y, %x : f64")
    body = "\n".join(lines)
    return f"func.def noinline @square(%x: f64) -> (f64) {{\n{body}\n  func.return %r : f64\n}}\n"


@pytest.mark.parametrize("runner", RUNNERS, ids=RUNNER_IDS, indirect=True)
def test_floats_survive_calls(runner: Runner) -> None:
    """A call gives up every vector register, so what is needed afterwards must have been saved."""
    program = runner.compile(
        busy_square()
        + """
func.def public @f(%a: f64, %b: f64, %c: f32, %d: i64) -> (f64, f32, i64) {
  %p = func.call noinline @square(%a) : (f64) -> (f64)
  %q = func.call noinline @square(%b) : (f64) -> (f64)
  %s = scalar.addf %p, %q : f64
  %t = scalar.addf %s, %a : f64
  func.return %t, %c, %d : f64, f32, i64
}
""",
        ["f"],
    )
    assert program.call("f", [3.0, 4.0, 0.5, -7]) == [28.0, 0.5, -7]


VECTORS = (
    ("vector<4xf32>", "f32", 4),
    ("vector<2xf64>", "f64", 2),
    ("vector<4xi32>", "i32", 4),
    ("vector<16xi8>", "i8", 16),
    ("vector<2xi64>", "i64", 2),
    ("vector<2xf32>", "f32", 2),
    ("vector<4xi16>", "i16", 4),
)


@pytest.mark.parametrize(("type_name", "element", "count"), VECTORS)
@pytest.mark.parametrize("runner", RUNNERS, ids=RUNNER_IDS, indirect=True)
def test_vectors_cross_calls_in_vector_registers(runner: Runner, type_name: str, element: str, count: int) -> None:
    fp = element.startswith("f")
    kind = "addf" if fp else "addi"
    program = runner.compile(
        f"""
func.def noinline @same(%v: {type_name}) -> ({type_name}) {{
  func.return %v : {type_name}
}}

func.def public @f(%v: {type_name}, %w: {type_name}, %x: {element}) -> ({type_name}, {element}) {{
  %u = func.call noinline @same(%w) : ({type_name}) -> ({type_name})
  %s = vector.reduce<{kind}> %u, %x : {type_name}, {element}
  func.return %v, %s : {type_name}, {element}
}}
""",
        ["f"],
    )
    v, w = tuple(range(1, count + 1)), tuple(range(-count, 0))
    kept, total = program.call("f", [v, w, 100])
    assert kept == v
    assert total == 100 + sum(w)


C_CALLER = """
#include <stdint.h>
#include <stdio.h>
typedef float v4 __attribute__((vector_size(16)));
struct pair { _Alignas(8) int64_t sum; _Alignas(8) double half; };
struct big { _Alignas(8) int32_t a; _Alignas(8) float b; _Alignas(8) int64_t c; };
struct pair stats(const int32_t *x, int64_t n);
struct big many(int8_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f, int64_t g, float h);
double host_callback(double x, int64_t n) { return x * 2 + n; }
double uses_callback(double x);
v4 doubled(v4 x);
int main(void) {
    int32_t x[5] = {1, -2, 3, 40, 5};
    struct pair p = stats(x, 5);
    struct big q = many(-5, 2, 3, 4, 5, 6, 7, 1.5f);
    v4 w = doubled((v4){1, 2, 3, 4});
    printf("%ld %g %d %g %ld %g %g %g\\n", p.sum, p.half, q.a, q.b, q.c, uses_callback(10), w[0], w[3]);
    return 0;
}
"""
LOOM_CALLEE = """
func.decl import("host", "host_callback") pure @callback(%x: f64, %n: i64) -> (f64)

func.def public @uses_callback(%x: f64) -> (f64) {
  %n = scalar.constant 3 : i64
  %r = func.call @callback(%x, %n) : (f64, i64) -> (f64)
  %s = scalar.addf %r, %x : f64
  func.return %s : f64
}

func.def public @stats(%x: buffer, %n: index) -> (i64, f64) {
  %origin = index.constant 0 : offset
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %none = scalar.constant 0 : i64
  %half = scalar.constant 0.5 : f64
  %v = buffer.view %x[%origin] : buffer -> view<[%n]xi32>
  %s = scf.for %i = [%zero to %n step %one](%acc = %none : i64) -> (i64) {
    %e = view.load %v[%i] : view<[%n]xi32> -> i32
    %w = scalar.extsi %e : i32 to i64
    %next = scalar.addi %acc, %w : i64
    scf.yield %next : i64
  }
  %f = scalar.sitofp %s : i64 to f64
  %h = scalar.mulf %f, %half : f64
  func.return %s, %h : i64, f64
}

func.def public @many(%a: i8, %b: i64, %c: i64, %d: i64, %e: i64, %f: i64, %g: i64, %h: f32) -> (i32, f32, i64) {
  %wide = scalar.extsi %a : i8 to i32
  %s = scalar.addi %f, %g : i64
  %t = scalar.addi %s, %b : i64
  func.return %wide, %h, %t : i32, f32, i64
}

func.def public @doubled(%v: vector<4xf32>) -> (vector<4xf32>) {
  %bytes = index.constant 16 : offset
  %origin = index.constant 0 : offset
  %room = buffer.alloca<private> align(16) %bytes : buffer
  %view = buffer.view %room[%origin] : buffer -> view<4xf32>
  vector.store %v, %view[0] : vector<4xf32>, view<4xf32>
  %x = view.load %view[0] : view<4xf32> -> f32
  %y = scalar.addf %x, %x : f32
  view.store %y, %view[0] : f32, view<4xf32>
  %r = vector.load %view[0] : view<4xf32> -> vector<4xf32>
  func.return %r : vector<4xf32>
}
"""


@pytest.mark.parametrize("selector", ["simd128", "avx2"])
@pytest.mark.parametrize("compiler", ["clang-19", "gcc"])
def test_c_calls_loom_and_loom_calls_c(
    tool: Callable[[str], str], tmp_path: Path, selector: str, compiler: str
) -> None:
    """The other side of the convention is a C compiler's, which knows nothing of ours."""
    (tmp_path / "main.c").write_text(C_CALLER)
    (tmp_path / "loom.o").write_bytes(
        compile_object(LOOM_CALLEE, ["stats", "many", "uses_callback", "doubled"], selector)
    )
    command = [
        tool(compiler),
        "-O2",
        "-o",
        str(tmp_path / "program"),
        str(tmp_path / "main.c"),
        str(tmp_path / "loom.o"),
    ]
    subprocess.run(command, check=True)
    output = subprocess.run([str(tmp_path / "program")], check=True, capture_output=True, text=True).stdout
    assert output.split() == ["47", "23.5", "-5", "1.5", "15", "33", "2", "4"]


def test_objects_link_into_shared_libraries(tool: Callable[[str], str], tmp_path: Path) -> None:
    """Constants and routines are addressed relative to the code."""
    text = """
func.def public @f(%x: f64, %y: f64, %z: f64) -> (f64) {
  %c = scalar.constant 1.25 : f64
  %r = scalar.remf %x, %y : f64
  %s = scalar.fmaf %r, %c, %z : f64
  func.return %s : f64
}
"""
    for selector in ("simd128", "avx2"):
        (tmp_path / "f.o").write_bytes(compile_object(text, ["f"], selector))
        library = tmp_path / f"lib{selector}.so"
        subprocess.run([tool("ld.lld-19"), "-shared", "-o", str(library), str(tmp_path / "f.o")], check=True)
        f = ctypes.CDLL(str(library)).f
        f.restype, f.argtypes = ctypes.c_double, [ctypes.c_double] * 3
        assert f(7.5, 2.0, 0.125) == 1.5 * 1.25 + 0.125
        assert np.isnan(f(float("inf"), 2.0, 0.0))


def test_private_callees_are_local_symbols(tool: Callable[[str], str], tmp_path: Path) -> None:
    path = tmp_path / "f.o"
    path.write_bytes(compile_object(shuffle_program(3), ["outer"]))
    symbols = subprocess.run(
        [tool("llvm-readelf-19"), "--symbols", str(path)], check=True, capture_output=True, text=True
    ).stdout
    bindings = {line.split()[7]: line.split()[4] for line in symbols.splitlines() if " FUNC " in line}
    assert bindings == {"outer": "GLOBAL", "inner": "LOCAL"}
