"""Formatting many files, in several processes when that pays."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from loom.ir.diagnostics import LoomError
from loom.ir.records import evolve, record
from loom.tools.common import read_module_input, report_text

# Bytes of source from which on more processes are faster than one: starting them takes about as long as formatting
# this much.
WORTH_IT: Final = 500_000
# Files handed to a process at a time; more than one saves little, and makes the last ones wait for each other.
CHUNK: Final = 1


@record
class Request:
    """How files are read: as older text or not, and how diagnostics look."""

    migrate: bool = False
    diagnostics: str = "text"
    colour: bool = False


@record
class Formatted:
    """A file before and after. ``failure`` is what to report when it could not be formatted."""

    path: str
    name: str
    before: str = ""
    after: str = ""
    failure: str | None = None

    @property
    def changed(self) -> bool:
        """Whether the file is not canonical."""
        return self.before != self.after

    def failed(self, failure: str) -> Formatted:
        """The same file with a failure."""
        return evolve(self, failure=failure)


def format_file(path: str, request: Request) -> Formatted:
    """Read a file and make its canonical text. Bad input is the result's ``failure``."""
    from loom import api

    name = path
    try:
        data, name = read_module_input(path, "text")
        after = api.print(api.load_bytes(data, name, migrate=request.migrate))
    except LoomError as error:
        return Formatted(path, name, failure=report_text(error, request.diagnostics, request.colour))
    except OSError as error:
        return Formatted(path, name, failure=f"loom-format: error: {path}: {error.strerror or error}\n")
    # Not by line: a file with carriage returns is not canonical.
    return Formatted(path, name, data.decode(), after)


def format_files(paths: Sequence[str], request: Request, jobs: int = 0) -> Iterator[Formatted]:
    """Format files, in their order. ``jobs`` is the number of processes; 0 decides by the files and the machine."""
    jobs = min(jobs or processes(paths), len(paths))
    if jobs <= 1:
        for path in paths:
            yield format_file(path, request)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # A fork has everything imported already; it is safe in a process with one thread, as commands are.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    with ProcessPoolExecutor(jobs, context) as pool:
        yield from pool.map(format_file, paths, [request] * len(paths), chunksize=CHUNK)


def processes(paths: Sequence[str]) -> int:
    """How many processes format these files fastest."""
    processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    if processors == 1 or len(paths) == 1 or "-" in paths:
        return 1
    total = sum(size for path in paths if (size := _size(path)) is not None)
    return processors if total >= WORTH_IT else 1


def _size(path: str) -> int | None:
    try:
        return Path(path).stat().st_size
    except OSError:
        # Whoever reads it will say so.
        return None
