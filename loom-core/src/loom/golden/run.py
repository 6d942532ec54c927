"""Running golden files: reading, running the cases, rewriting what was asked to be rewritten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve, field, frozen

from loom.golden.execute import Setting
from loom.golden.judge import run_case
from loom.golden.model import GoldenError, GoldenFile
from loom.golden.parse import parse_golden
from loom.golden.report import FileReport
from loom.golden.update import annotation_edits, apply, output_edit
from loom.ir.diagnostics import LoomError

if TYPE_CHECKING:
    from loom.config_values import ConfigValue


@frozen
class Request:
    """What to do with golden files: which cases to run (all without a number), whether to rewrite them.

    ``target`` and ``config`` qualify cases that compile.
    """

    update: bool = False
    case: int | None = None
    target: str | None = None
    input_format: str | None = None
    config: Mapping[str, ConfigValue] = field(factory=dict)


def read_golden(path: str) -> GoldenFile:
    """Read a golden file. Raises `GoldenError`, `LoomError` for bad UTF-8 and `OSError`."""
    return _parse(_read(Path(path)), path)


def _parse(text: str, path: str) -> GoldenFile:
    return parse_golden(text, path, lambda template: _read(Path(path).parent / template))


def _read(path: Path) -> str:
    from loom.api import decode_source

    return decode_source(path.read_bytes(), str(path))


def run_file(path: str, request: Request) -> FileReport:
    """Run the cases of a file, and rewrite it if that is asked for. Nothing is raised."""
    try:
        report = _run(read_golden(path), request)
        return _updated(report, request) if request.update else report
    except GoldenError as error:
        return FileReport(path, None, fault=f"{path}:{error.line or 1}: {error}")
    except LoomError as error:
        return FileReport(path, None, fault=str(error))
    except OSError as error:
        return FileReport(path, None, fault=f"{path}: {error.strerror or error}")


def _run(file: GoldenFile, request: Request) -> FileReport:
    if request.case is not None and request.case >= len(file.cases):
        raise GoldenError(f"there is no case {request.case}: the file has {len(file.cases)}, counted from 0")
    chosen = file.cases if request.case is None else (file.cases[request.case],)
    if request.input_format is not None:
        chosen = tuple(evolve(case, input_format=request.input_format) for case in chosen)
    setting = Setting(Path(file.path).parent, request.target, request.config)
    return FileReport(file.path, file, tuple(run_case(case, setting, file.path) for case in chosen))


def _updated(report: FileReport, request: Request) -> FileReport:
    """The report on the file after it was rewritten; the same one if nothing had to change."""
    from loom.tools.common import write_files

    file = report.file
    assert file is not None
    edits = [edit for result in report.results for edit in annotation_edits(file, result)]
    edits += [edit for result in report.results if (edit := output_edit(file, result)) is not None]
    if not edits:
        return report
    text = apply(file.text, edits)
    again = _run(_parse(text, file.path), request)
    write_files([(Path(file.path), text.encode())])
    return evolve(again, updated=True)


def run_files(paths: Sequence[str], request: Request, jobs: int) -> Iterator[FileReport]:
    """Run files in order, in that many processes."""
    if jobs <= 1 or len(paths) <= 1:
        for path in paths:
            yield run_file(path, request)
        return
    import multiprocessing
    import sys
    from concurrent.futures import ProcessPoolExecutor

    # A fork has everything imported already; it is safe in a process with one thread, as commands are.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    with ProcessPoolExecutor(min(jobs, len(paths)), context) as pool:
        yield from pool.map(run_file, paths, [request] * len(paths))
