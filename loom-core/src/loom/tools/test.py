"""``loom-test``: run golden ``.loom-test`` files."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loom.tools.common import EXIT_FAILURE, EXIT_OK, add_config_options, make_parser, run_tool

if TYPE_CHECKING:
    from loom.golden.report import FileReport

PROG = "loom-test"
SUFFIX = ".loom-test"
EXAMPLES = """\
  loom-test tests/                          every .loom-test file below a folder
  loom-test canonical.loom-test --verbose   show every case
  loom-test canonical.loom-test --case=3    one case, counted from 0
  loom-test --update tests/                 make what the cases do now what they expect
  loom-test --json=failures tests/          a JSON object per file, with the cases that failed

a file:
  // RUN: pass canonicalize
  func.def @f(%x: i32) -> (i32) {
    %zero = scalar.constant 0 : i32
    %r = scalar.addi %x, %zero : i32
    func.return %r : i32
  }
  // ----
  func.def @f(%x: i32) -> (i32) {
    func.return %x : i32
  }

  // ==== a misspelled operation
  // RUN: verify
  func.def @g() {
    // ERROR@+1: PARSE/006 {op_name="scalar.constan"}
    %r = scalar.constan 0 : i32
    func.return
  }
"""


def build_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = make_parser(PROG, "Run golden tests: programs with the text or the diagnostics that they give.", EXAMPLES)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="golden files, or folders that are searched for them")
    parser.add_argument("--update", action="store_true", help="rewrite what failed cases expect")
    parser.add_argument("--case", type=_number, default=None, metavar="N", help="run only the case with this number")
    parser.add_argument("--verbose", "-v", action="store_true", help="show every case")
    parser.add_argument(
        "--json",
        nargs="?",
        const="all",
        choices=("failures", "summary", "all"),
        help="print a JSON object per file, a line each (default: all)",
    )
    parser.add_argument("--input-format", metavar="NAME", help="form of all inputs, whatever the files say")
    parser.add_argument("--list-input-formats", action="store_true", help="list the forms of inputs and stop")
    parser.add_argument("--target", metavar="FAMILY:SELECTOR", help="target of cases that name none")
    add_config_options(parser)
    parser.add_argument(
        "--jobs", type=_jobs, default=None, metavar="N", help="processes for several files (default: one per processor)"
    )
    return parser


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a case number")
    return int(text)


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes above 0")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. Returns 0 when no case failed, else 1."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if not args.paths and not args.list_input_formats:
        parser.error("name a golden file or a folder")
    return run_tool(PROG, lambda: _run(args, parser))


def _run(args: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from loom.config_values import read_config
    from loom.golden.parse import INPUT_FORMATS
    from loom.golden.run import Request, run_files

    if args.list_input_formats:
        sys.stdout.write("".join(f"{name}: {what}\n" for name, what in INPUT_FORMATS.items()))
        return EXIT_OK
    if args.input_format is not None and args.input_format not in INPUT_FORMATS:
        parser.error(f"--input-format: no format is named {args.input_format!r}; see --list-input-formats")
    paths = _files(args.paths)
    config = read_config(args.config, args.config_file)
    request = Request(args.update, args.case, args.target, args.input_format, config)
    reports = []
    for report in run_files(paths, request, args.jobs or os.cpu_count() or 1):
        _show(report, args)
        reports.append(report)
    if args.json is None:
        _show_totals(reports)
    return EXIT_FAILURE if any(report.failed for report in reports) or not reports else EXIT_OK


def _files(paths: Sequence[str]) -> list[str]:
    """The golden files that are named, and those in named folders; each once, folders in order of name."""
    found: dict[str, None] = {}
    for path in paths:
        inside = sorted(Path(path).rglob(f"*{SUFFIX}")) if Path(path).is_dir() else [Path(path)]
        found.update(dict.fromkeys(str(file) for file in inside))
    if not found:
        sys.stderr.write(f"{PROG}: error: no {SUFFIX} file in {', '.join(paths)}\n")
    return list(found)


def _show(report: FileReport, args: argparse.Namespace) -> None:
    if args.json is not None:
        from loom.golden.report import to_json

        sys.stdout.write(json.dumps(to_json(report, args.json)) + "\n")
        return
    if report.fault is not None:
        sys.stdout.write(f"ERROR {report.path}\n{_indented(report.fault)}")
        return
    if report.updated:
        sys.stdout.write(f"{report.path}: rewritten\n")
    words = {"passed": "PASS ", "failed": "FAIL ", "skipped": "SKIP "}
    for result in report.results:
        if args.verbose or result.final == "failed":
            sys.stdout.write(f"{words[result.final]} {report.path}::{result.case.name} ({result.case.run.mode})\n")
            sys.stdout.write(_indented(result.detail))


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def _show_totals(reports: Sequence[FileReport]) -> None:
    counts = {word: sum(report.count(word) for report in reports) for word in ("passed", "failed", "skipped")}
    faulty = sum(report.fault is not None for report in reports)
    parts = [f"{counts['passed']} passed", f"{counts['failed']} failed"]
    parts += [f"{counts['skipped']} skipped"] if counts["skipped"] else []
    parts += [f"{faulty} {'file' if faulty == 1 else 'files'} not readable"] if faulty else []
    total = sum(counts.values())
    sys.stdout.write(f"{total} {'case' if total == 1 else 'cases'}: {', '.join(parts)}\n")
