"""Check a long range of random loop programs against themselves without policies, in one process.

A run can be stopped and started again: its log has a line for every block of programs that is done, and a run with
the same log goes on behind the last one. Exit code 1 tells of a disagreement.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Final, TextIO

ROOT: Final = Path(__file__).resolve().parents[1]
BLOCK: Final = 100
# Every how many programs the costly comparisons come: after each single pass, and of the order of accesses.
RARE: Final = 25

sys.path.insert(0, str(ROOT / "loom-core/tests/transforms"))

from loop_agreement import Agreement  # type: ignore[import-not-found]  # noqa: E402  # needs the path


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0] if __doc__ else None)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--programs", type=int, default=100_000, help="how many seeds")
    parser.add_argument("--log", type=Path, required=True, help="JSON lines of blocks that are done; read to go on")
    parser.add_argument("--summary", type=Path, help="where the totals go as JSON")
    parser.add_argument("--thorough", action="store_true", help="all trip counts of a program, and look for races")
    return parser.parse_args()


def check(agreement: Agreement, seed: int) -> list[str]:
    """What went wrong with the program of a seed."""
    checks = [agreement.check]
    if seed % RARE == 0:
        checks.append(agreement.check_each_pass)
    if seed % RARE == RARE // 2:
        checks.append(agreement.check_memory_order)
    failures = []
    for run in checks:
        try:
            run(seed)
        except Exception:  # whatever goes wrong with a program is told by its seed
            failures.append(traceback.format_exc())
    return failures


def blocks_of(log: Path, first: int) -> list[dict[str, Any]]:
    """The blocks that a log tells of, those of this run's range in order."""
    if not log.exists():
        return []
    done = []
    for line in log.read_text().splitlines():
        block = json.loads(line)
        if block["first"] == first:
            done.append(block)
            first += block["programs"]
    return done


def show(stream: TextIO, done: int, total: int, failures: int, seconds: float, checked: int) -> None:
    """One line of progress, which a terminal overwrites."""
    rest = seconds / max(checked, 1) * (total - done)
    text = f"{done} of {total} programs, {failures} failures, {seconds / max(checked, 1) * 1e3:.0f} ms each, "
    text += f"{rest / 60:.0f} min left"
    stream.write(f"\r{text}\033[K" if stream.isatty() else f"{text}\n")
    stream.flush()


def main() -> int:
    """Run the range; returns 1 if any program disagrees."""
    options = arguments()
    blocks = blocks_of(options.log, options.first)
    agreement = Agreement(brief=not options.thorough)
    seed = options.first + sum(block["programs"] for block in blocks)
    end = options.first + options.programs
    began, checked = time.perf_counter(), 0
    # Modules are cycles that the collector finds late; what was imported is not looked at again.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    with options.log.open("a") as log:
        while seed < end:
            count, start = min(BLOCK, end - seed), time.process_time()
            failures = {number: told for number in range(seed, seed + count) if (told := check(agreement, number))}
            block = {
                "first": seed,
                "programs": count,
                "seconds": round(time.process_time() - start, 3),
                "failures": failures,
            }
            log.write(json.dumps(block) + "\n")
            log.flush()
            blocks.append(block)
            seed, checked = seed + count, checked + count
            count = sum(len(block["failures"]) for block in blocks)
            if sys.stderr.isatty() or seed % 1_000 == 0 or seed == end:
                show(sys.stderr, seed - options.first, options.programs, count, time.perf_counter() - began, checked)
    failed = sorted(int(number) for block in blocks for number in block["failures"])
    summary = {
        "first": options.first,
        "programs": sum(block["programs"] for block in blocks),
        "processor_seconds": round(sum(block["seconds"] for block in blocks), 1),
        "failures": failed,
    }
    print(json.dumps(summary))
    if options.summary:
        options.summary.write_text(json.dumps(summary, indent=2) + "\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
