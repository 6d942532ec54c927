"""Specialization: time of small programs, and its growth with the size of large ones.

    python benchmarks/specialize.py [--quick]

Three families of programs, each from small to large: a chain of calls that are all inlined, a loop that is unrolled
fully, and a chain of conditionals whose branches use what their conditions say. The last column divides the time by
the size: where cost grows linearly it stays about the same, apart from the fixed cost of small programs. The best of
several runs counts. The input module is parsed once; specialization leaves it alone.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from loom import api
from loom.ir.core import Module
from loom.specialize.pipeline import specialize

EXAMPLES: Final = Path(__file__).resolve().parents[1] / "examples"

ROW_SUMS: Final = Path(__file__).with_name("row_sums.loom")

HELPER: Final = """\
func.def @step(%v: i32, %n: i32, %x: view<64xi32>) -> (i32) {
  %zero = index.constant 0 : index
  %loaded = view.load %x[%zero] : view<64xi32> -> i32
  %sum = scalar.addi %v, %loaded : i32
  %mixed = scalar.xori %sum, %n : i32
  %next = scalar.muli %mixed, %v : i32
  func.return %next : i32
}
"""


def calls(count: int) -> str:
    """A function that makes ``count`` calls, each with the result of the one before it."""
    lines = [f"  %v{i + 1} = func.call @step(%v{i}, %n, %x) : (i32, i32, view<64xi32>) -> (i32)" for i in range(count)]
    body = "\n".join(lines)
    return (
        f"{HELPER}\nfunc.def public @main(%v0: i32, %n: i32, %x: view<64xi32>) -> (i32) {{\n"
        f"{body}\n  func.return %v{count} : i32\n}}\n"
    )


def trips(count: int) -> str:
    """A loop of ``count`` iterations that asks for full unrolling, with addresses computed from its position."""
    return f"""\
func.def public @main(%start: i32, %x: view<4096xi32>) -> (i32) {{
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %end = index.constant {count} : index
  %mask = index.constant 4095 : index
  %three = index.constant 3 : index
  %total = scf.for %i = [%c0 to %end step %c1](%sum = %start : i32) -> (i32) unroll {{
    %scaled = index.madd %i, %three, %c1 : index
    %at = index.andi %scaled, %mask : index
    %value = view.load %x[%at] : view<4096xi32> -> i32
    %next = scalar.addi %sum, %value : i32
    scf.yield %next : i32
  }}
  func.return %total : i32
}}
"""


def conditionals(count: int) -> str:
    """``count`` conditionals in a row; each compares a position computed from the one before."""
    lines = []
    for i in range(count):
        lines.append(f"""\
  %p{i + 1} = index.add %p{i}, %c1 : index
  %below{i} = index.cmp slt, %p{i + 1}, %n : index
  %v{i + 1} = scf.if %below{i} -> (i32) {{
    %again{i} = index.cmp slt, %p{i + 1}, %n : index
    %at{i} = index.andi %p{i + 1}, %mask : index
    %loaded{i} = view.load %x[%at{i}] : view<64xi32> -> i32
    %kept{i} = scf.select %again{i}, %loaded{i}, %v{i} : i32
    scf.yield %kept{i} : i32
  }} else {{
    scf.yield %v{i} : i32
  }}
""")
    return f"""\
func.def public @main(%p0: index, %n: index, %v0: i32, %x: view<64xi32>) -> (i32) {{
  %c1 = index.constant 1 : index
  %mask = index.constant 63 : index
{"".join(lines)}  func.return %v{count} : i32
}}
"""


FAMILIES: Final[Mapping[str, tuple[Callable[[int], str], Sequence[int]]]] = {
    "calls inlined": (calls, (10, 100, 1_000, 10_000)),
    "iterations unrolled": (trips, (1, 4, 16, 64, 256, 1_024)),
    "conditionals": (conditionals, (10, 100, 1_000)),
}


def best(module: Module, rounds: int) -> float:
    """Best processor seconds of specializing a module."""
    found = float("inf")
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        specialize(module, None)
        found = min(found, time.process_time() - start)
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="leave out the largest programs")
    quick = parser.parse_args().quick
    print(f"{'program':<36} {'ms':>10}")
    small = {
        "saxpy": api.load(EXAMPLES / "saxpy.loom"),
        "row sums, read ahead and unrolled": api.load(ROW_SUMS),
    }
    for name, module in small.items():
        api.verify(module)
        print(f"{name:<36} {best(module, 20) * 1e3:10.2f}")
    print(f"\n{'program':<24} {'size':>7} {'ms':>10} {'us / size':>10}")
    for title, (write, sizes) in FAMILIES.items():
        for size in sizes[: -1 if quick else None]:
            module = api.parse(write(size), title)
            api.verify(module)
            seconds = best(module, 5 if size < 1_000 else 2)
            print(f"{title:<24} {size:>7,} {seconds * 1e3:10.2f} {seconds * 1e6 / size:10.1f}")


if __name__ == "__main__":
    main()
