"""Front end by size: read, verify and print programs of a thousand to a million operations of several shapes.

    python benchmarks/frontend_scaling.py                     a thousand to a million operations
    python benchmarks/frontend_scaling.py --largest 100000    in a minute

Every program runs in a process of its own, for the memory it needs above an empty one. Times are processor time per
operation; where they and the memory stay the same down the table, the cost grows linearly.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

SMALLEST: Final = 1_000
LARGEST: Final = 1_000_000


def functions(count: int) -> Iterator[str]:
    """Functions of a hundred additions."""
    for f in range(count // 100):
        yield f"func.def public @f{f}(%v0: i32, %v1: i32) -> (i32) {{"
        for k in range(2, 101):
            yield f"  %v{k} = scalar.addi %v{k - 1}, %v{k - 2} : i32"
        yield "  func.return %v100 : i32\n}\n"


def chain(count: int) -> Iterator[str]:
    """One function, each operation using the one before and one half way back."""
    yield "func.def public @f(%v0: i32, %v1: i32) -> (i32) {"
    for k in range(2, count):
        yield f"  %v{k} = scalar.addi %v{k - 1}, %v{k // 2} : i32"
    yield f"  func.return %v{count - 1} : i32\n}}\n"


def conditionals(count: int) -> Iterator[str]:
    """Conditionals in a row whose regions reuse the names around them."""
    yield "func.def public @f(%x: i32, %c: i1) {"
    for _ in range(count // 3):
        yield "  scf.if %c {\n    %x = scalar.constant 1 : i32\n    %y = scalar.addi %x, %x : i32\n  }"
    yield "  func.return\n}\n"


def blocks(count: int) -> Iterator[str]:
    """A graph of blocks that branch to the next two."""
    last = count // 2
    yield "func.def public @f(%c: i1) {\n  cfg.br ^b0"
    for k in range(last):
        yield f"^b{k}:\n  %v{k} = scalar.constant 1 : i32\n  cfg.cond_br %c, ^b{k + 1}, ^b{min(k + 2, last)}"
    yield f"^b{last}:\n  func.return\n}}\n"


def calls(count: int) -> Iterator[str]:
    """A chain of functions, each calling the one before twice; whether they are pure follows from the first."""
    yield "func.def @f0(%x: i32) -> (i32) {\n  func.return %x : i32\n}\n"
    for k in range(1, count // 3):
        call = f"func.call pure @f{k - 1}"
        yield (
            f"func.def @f{k}(%x: i32) -> (i32) {{\n  %a = {call}(%x) : (i32) -> (i32)\n"
            f"  %b = {call}(%a) : (i32) -> (i32)\n  func.return %b : i32\n}}\n"
        )


def views(count: int) -> Iterator[str]:
    """Views and loads whose types name a value."""
    yield "func.def public @f(%n: index, %v: view<[%n]xf32>, %i: index) {"
    for k in range(count // 2):
        yield f"  %s{k} = view.subview %v[0] : view<[%n]xf32> -> view<[%n]xf32>"
        yield f"  %x{k} = view.load %s{k}[%i] : view<[%n]xf32> -> f32"
    yield "  func.return\n}\n"


SHAPES: Final[dict[str, Callable[[int], Iterator[str]]]] = {
    "functions": functions,
    "chain": chain,
    "conditionals": conditionals,
    "blocks": blocks,
    "calls": calls,
    "views": views,
}
STAGES: Final = ("parse", "verify", "print")


def measure(shape: str, count: int) -> dict[str, float]:
    """Microseconds of processor time and bytes of memory per operation, in this process."""
    import resource

    from loom import api

    text = "\n".join(SHAPES[shape](count))
    # What has to be there anyway: declarations, and their readers, checks and printers.
    small = api.parse("\n".join(SHAPES[shape](SMALLEST)))
    api.verify(small)
    api.print(small)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found: dict[str, float] = {}
    value: Any = text

    def verified(module: Any) -> Any:
        api.verify(module)
        return module

    works: tuple[Callable[[Any], Any], ...] = (api.parse, verified, api.print)
    for stage, work in zip(STAGES, works, strict=True):
        started = time.process_time()
        value = work(value)
        found[stage] = (time.process_time() - started) / count * 1e6
    assert value == text, f"{shape} does not print back"
    found["memory"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / count
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description="Front end by size of the program.")
    parser.add_argument("--largest", type=int, default=LARGEST, help="operations of the largest program")
    parser.add_argument("--shapes", nargs="*", choices=list(SHAPES), default=list(SHAPES), help="which programs")
    parser.add_argument("--one", nargs=2, metavar=("SHAPE", "COUNT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.one:
        print(json.dumps(measure(arguments.one[0], int(arguments.one[1]))))
        return 0
    print("microseconds and bytes an operation")
    print(f"{'program':14}{'operations':>12}{'parse':>8}{'verify':>8}{'print':>8}{'bytes':>8}")
    for shape in arguments.shapes:
        count = SMALLEST
        while count <= arguments.largest:
            command = [sys.executable, __file__, "--one", shape, str(count)]
            row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            times = "".join(f"{row[stage]:8.1f}" for stage in STAGES)
            print(f"{shape:14}{count:12,}{times}{row['memory']:8.0f}", flush=True)
            count *= 10
    return 0


if __name__ == "__main__":
    sys.exit(main())
