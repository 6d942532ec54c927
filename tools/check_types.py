"""Run mypy over the repository: all sources at once, then every folder of tests by itself.

Tests have modules of the same name in different folders, which one run of mypy cannot tell apart.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = ("loom-*/src", "examples/*/src", "tools", "benchmarks")
TESTS: Final = ("loom-*/tests", "tests")


def groups() -> list[list[str]]:
    """What each run of mypy looks at, as paths from the root."""
    sources = sorted(path for pattern in SOURCES for path in ROOT.glob(pattern) if any(path.rglob("*.py")))
    folders = sorted(
        folder
        for pattern in TESTS
        for tests in ROOT.glob(pattern)
        for folder in (tests, *(path for path in tests.rglob("*") if path.is_dir()))
        if any(folder.glob("*.py"))
    )
    runs = [sources, *(sorted(folder.glob("*.py")) for folder in folders)]
    return [[str(path.relative_to(ROOT)) for path in run] for run in runs]


def main() -> int:
    """Run all groups; returns 1 if any has an error."""
    failed = False
    for paths in groups():
        print(f"mypy {paths[0]}" + (f" and {len(paths) - 1} more" if len(paths) > 1 else ""), flush=True)
        failed |= subprocess.run([sys.executable, "-m", "mypy", *paths], cwd=ROOT).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
