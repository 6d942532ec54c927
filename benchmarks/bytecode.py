"""Loading bytecode compared with parsing text, and linking one function out of an archive.

Usage: python benchmarks/bytecode.py [--repeat 7] [--copies 40] [--largest 1000000]

Each number is the best processor time of several runs with the garbage collector off:

- programs: parsing the text, decoding all of its bytecode, and writing the bytecode, per operation; opening a file by
  its index, which decodes no body;
- libraries of 100, 1,000 and 10,000 functions: opening one and linking one function and its two helpers out of it;
- scaling: writing and decoding programs of 1,000 operations and more, with the memory that the program read takes.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

from loom import api
from loom.bytecode import BytecodeFile, read_module, write_module
from loom.text.parser import parse_module

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def scalar_program(functions: int, operations: int) -> str:
    """Chains of constants, additions and comparisons."""
    lines: list[str] = []
    for f in range(functions):
        lines.append(f"func.def @f{f}(%a: i32, %b: i32) -> (i32) {{")
        last = "%a"
        for k in range(operations):
            if k % 4 == 3:
                lines.append(f"  %v{k} = scalar.cmpi slt, {last}, %b : i32")
                continue
            value = f"scalar.constant {k * 7 + f} : i32" if k % 4 == 0 else f"scalar.addi {last}, %b : i32"
            lines.append(f"  %v{k} = {value}")
            last = f"%v{k}"
        lines += [f"  func.return {last} : i32", "}", ""]
    return "\n".join(lines)


def archive(functions: int) -> str:
    """Functions of which each third calls the two behind it."""
    parts = []
    for k in range(functions):
        called = [j for j in (k + 1, k + 2) if k % 3 == 0 and j < functions]
        calls = [f"%c{j} = func.call @f{j}(%x) : (i32) -> (i32)" for j in called]
        body = "".join(f"  {line}\n" for line in (*calls, "%y = scalar.addi %x, %x : i32", "func.return %y : i32"))
        parts.append(f"func.def public @f{k}(%x: i32) -> (i32) {{\n{body}}}\n")
    return "\n".join(parts)


def best(action: Callable[[], object], repeat: int) -> float:
    """Shortest processor time in seconds."""
    shortest = float("inf")
    for _ in range(repeat):
        gc.collect()
        gc.disable()
        started = time.process_time()
        made = action()
        shortest = min(shortest, time.process_time() - started)
        gc.enable()
        del made
    return shortest


def measure_program(name: str, text: str, repeat: int) -> None:
    """One line of the table of programs."""
    module = parse_module(text, name)
    count = sum(1 for _ in module.walk())
    data = write_module(module)
    writing = best(lambda: write_module(module), max(1, repeat // 2))
    parsing = best(lambda: parse_module(text, name), repeat)
    reading = best(lambda: read_module(data, name), repeat)
    opening = best(lambda: BytecodeFile.open(data, name), repeat)
    per_op = [f"{seconds / count * 1e6:8.2f}" for seconds in (parsing, reading, opening, writing)]
    size = f"{len(data) / len(text.encode()):5.2f}"
    print(f"{name:18} {count:7} {' '.join(per_op)} {parsing / reading:7.2f} {parsing / opening:8.1f} {size}")


def measure_archive(functions: int, repeat: int) -> None:
    """One line of the table of libraries."""
    text = archive(functions)
    data = write_module(parse_module(text, "archive"))
    root = [f"f{functions // 6 * 3}"]
    from_text = best(lambda: api.link([], [parse_module(text, "archive")], root), max(1, repeat // 3))
    opening = best(lambda: BytecodeFile.open(data, "archive"), repeat)
    from_bytecode = best(lambda: api.link([], [BytecodeFile.open(data, "archive")], root), repeat)
    times = f"{from_text * 1e3:11.2f} {opening * 1e3:11.2f} {from_bytecode * 1e3:11.2f}"
    print(f"{functions:9} {len(data):9} {times} {from_text / from_bytecode:7.1f}")


def measure_scaling(operations: int) -> None:
    """One line of the table of scaling."""
    module = parse_module(scalar_program(operations // 100, 99), "scaling")
    count = sum(1 for _ in module.walk())
    started = time.process_time()
    data = write_module(module)
    writing = time.process_time() - started
    del module
    reading = best(lambda: read_module(data, "scaling"), 3 if operations <= 100_000 else 1)
    gc.collect()
    tracemalloc.start()
    kept = read_module(data, "scaling")
    size, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    times = f"{writing / count * 1e6:9.2f} {reading / count * 1e6:9.2f}"
    print(f"{count:9} {times} {len(data) / count:12.1f} {size / count:12.0f} {peak / count:12.0f}")


def main(argv: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description="Speed of bytecode.")
    parser.add_argument("--repeat", type=int, default=7, help="runs of each measurement")
    parser.add_argument("--copies", type=int, default=40, help="how often an example is repeated in one program")
    parser.add_argument("--largest", type=int, default=1_000_000, help="operations of the largest program")
    args = parser.parse_args(argv)
    print("microseconds per operation; ratios of text to bytecode; size of bytecode relative to text")
    print(
        f"{'program':18} {'ops':>7} {'parse':>8} {'decode':>8} {'open':>8} {'write':>8} {'decode':>7} {'open':>8}  size"
    )
    measure_program("scalar chains", scalar_program(100, 100), args.repeat)
    for name in ("row_moments", "tile_transpose", "saxpy", "host_functions"):
        measure_program(name, (EXAMPLES / f"{name}.loom").read_text() * args.copies, args.repeat)
    print("\nlinking one function and two helpers out of a library, milliseconds")
    print(f"{'functions':>9} {'bytes':>9} {'from text':>11} {'open only':>11} {'bytecode':>11} {'ratio':>7}")
    for functions in (100, 1_000, 10_000):
        measure_archive(functions, args.repeat)
    print("\nscaling: microseconds and bytes per operation")
    print(f"{'ops':>9} {'write':>9} {'decode':>9} {'file bytes':>12} {'memory':>12} {'peak':>12}")
    operations = 1_000
    while operations <= args.largest:
        measure_scaling(operations)
        operations *= 10


if __name__ == "__main__":
    main()
