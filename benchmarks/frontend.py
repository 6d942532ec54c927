"""Front end against xDSL: read, verify and print 10,000 scalar operations in 100 functions.

    python benchmarks/frontend.py            needs the package xdsl

Both sides get the same program, each in its own text: 100 functions of 100 operations (integer additions,
multiplications and subtractions that all depend on earlier ones) and a return. Every stage runs several times in one
process, alternating between the two sides; the best time counts, because everything else is disturbance.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

FUNCTIONS: Final = 100
OPERATIONS: Final = 100
STAGES: Final = ("parse", "verify", "print")

# Operation of the program -> (in Loom, in MLIR).
KINDS: Final = {
    "add": ("scalar.addi", "arith.addi"),
    "multiply": ("scalar.muli", "arith.muli"),
    "subtract": ("scalar.subi", "arith.subi"),
}


def program() -> list[list[tuple[str, int, int]]]:
    """Per function, its operations: kind and the positions of two earlier values (0 and 1 are the arguments)."""
    choose = random.Random(1)
    return [
        [(choose.choice(list(KINDS)), choose.randrange(n), choose.randrange(n)) for n in range(2, OPERATIONS + 2)]
        for _ in range(FUNCTIONS)
    ]


def loom_text(functions: list[list[tuple[str, int, int]]]) -> str:
    """The program in Loom."""
    parts = []
    for number, operations in enumerate(functions):
        lines = [f"func.def public @f{number}(%v0: i32, %v1: i32) -> (i32) {{"]
        for at, (kind, a, b) in enumerate(operations, 2):
            lines.append(f"  %v{at} = {KINDS[kind][0]} %v{a}, %v{b} : i32")
        lines += [f"  func.return %v{len(operations) + 1} : i32", "}"]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def mlir_text(functions: list[list[tuple[str, int, int]]]) -> str:
    """The program in MLIR."""
    lines = ["builtin.module {"]
    for number, operations in enumerate(functions):
        lines.append(f"  func.func @f{number}(%v0 : i32, %v1 : i32) -> i32 {{")
        for at, (kind, a, b) in enumerate(operations, 2):
            lines.append(f"    %v{at} = {KINDS[kind][1]} %v{a}, %v{b} : i32")
        lines += [f"    func.return %v{len(operations) + 1} : i32", "  }"]
    return "\n".join([*lines, "}", ""])


Stage = Callable[[Any], Any]


def loom_stages() -> dict[str, Stage]:
    """What Loom does, by stage; each takes what the one before returned."""
    from loom import api

    def verified(module: Any) -> Any:
        api.verify(module)
        return module

    return {"parse": api.parse, "verify": verified, "print": api.print}


def xdsl_stages() -> dict[str, Stage]:
    """What xDSL does, by stage."""
    import io

    from xdsl.context import Context
    from xdsl.dialects.arith import Arith
    from xdsl.dialects.builtin import Builtin
    from xdsl.dialects.func import Func
    from xdsl.parser import Parser
    from xdsl.printer import Printer

    context = Context()
    for dialect in (Arith, Builtin, Func):
        context.load_dialect(dialect)

    def parse(text: str) -> Any:
        return Parser(context, text).parse_module()

    def verify(module: Any) -> Any:
        module.verify()
        return module

    def write(module: Any) -> str:
        stream = io.StringIO()
        Printer(stream).print_op(module)
        return stream.getvalue()

    return {"parse": parse, "verify": verify, "print": write}


def measure(sides: dict[str, tuple[dict[str, Stage], str]], rounds: int) -> dict[str, dict[str, float]]:
    """Best seconds of each stage on each side."""
    best: dict[str, dict[str, float]] = {side: dict.fromkeys(STAGES, float("inf")) for side in sides}
    for _ in range(rounds):
        for side, (stages, text) in sides.items():
            value: Any = text
            for stage in STAGES:
                gc.collect()
                start = time.perf_counter()
                value = stages[stage](value)
                best[side][stage] = min(best[side][stage], time.perf_counter() - start)
            assert value.count(" = ") == FUNCTIONS * OPERATIONS, f"{side} lost operations"
    return best


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description="Front end against xDSL on the same program.")
    parser.add_argument("--rounds", type=int, default=5, help="runs of every stage; the best counts (default: 5)")
    arguments = parser.parse_args(argv)
    try:
        import xdsl  # noqa: F401
    except ImportError:
        print("install xdsl to compare with it", file=sys.stderr)
        return 1
    functions = program()
    best = measure(
        {"loom": (loom_stages(), loom_text(functions)), "xdsl": (xdsl_stages(), mlir_text(functions))}, arguments.rounds
    )
    count = FUNCTIONS * OPERATIONS
    print(f"{count} operations in {FUNCTIONS} functions, best of {arguments.rounds}")
    print(f"{'stage':8}{'loom ops/s':>14}{'xdsl ops/s':>14}{'ratio':>8}")
    for stage in STAGES:
        loom, xdsl_time = best["loom"][stage], best["xdsl"][stage]
        print(f"{stage:8}{count / loom:14,.0f}{count / xdsl_time:14,.0f}{xdsl_time / loom:8.1f}")
    loom, xdsl_time = sum(best["loom"].values()), sum(best["xdsl"].values())
    print(f"{'all':8}{count / loom:14,.0f}{count / xdsl_time:14,.0f}{xdsl_time / loom:8.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
