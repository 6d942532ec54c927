"""``loom-format``: canonical printing, migration of older texts, and conversion between text and bytecode."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from loom.tools.common import (
    EXIT_FAILURE,
    EXIT_OK,
    add_form_options,
    make_parser,
    read_module_input,
    run_tool,
    wants_colour,
    write_files,
    write_module_output,
)
from loom.tools.format_files import Formatted, Request, format_files

EXAMPLES = """\
  loom-format kernel.loom                      print the canonical text
  loom-format --check kernel.loom motif.loom   list files that are not canonical
  loom-format --in-place src/*.loom            rewrite them
  loom-format --diff src/*.loom                show what would change
  loom-format --migrate --in-place old/*.loom  bring older files into the current form
  loom-format < kernel.loom                    format standard input
  loom-format kernel.loom -o kernel.loombc     write the binary form
  loom-format kernel.loombc                    print a binary module as text
"""

MODES: Final = ("check", "in_place", "diff")


def build_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = make_parser(
        "loom-format",
        "Print Loom modules in canonical form, or convert them between text and bytecode. Invalid input is never "
        "rewritten. Older spellings are read and printed as what they are called now.",
        EXAMPLES,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="source files; '-' or none reads standard input")
    parser.add_argument(
        "--output", "-o", default="-", metavar="PATH", help="destination of a single input (default: -)"
    )
    add_form_options(parser)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="write nothing; fail if a file is not canonical")
    mode.add_argument("--in-place", action="store_true", help="rewrite files that are valid and not canonical")
    mode.add_argument("--diff", action="store_true", help="print what would change; fail if something would")
    parser.add_argument(
        "--migrate",
        action="store_true",
        help="also read as older text what is valid today and meant something else then, such as 255 : i8",
    )
    parser.add_argument(
        "--jobs",
        type=_jobs,
        default=0,
        metavar="N",
        help="processes for many files (default: as many as there are processors, if the files are worth it)",
    )
    parser.add_argument(
        "--diagnostic-format", choices=("text", "json"), default="text", help="form of diagnostics (default: text)"
    )
    return parser


def _jobs(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return count


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = build_parser()
    args = parser.parse_args(argv)
    files = args.files or ["-"]
    many = any(getattr(args, mode) for mode in MODES)
    if len(files) > 1 and not many:
        parser.error("several files need --check, --in-place or --diff")
    if many and (args.target_format or args.source_format) not in ("auto", "text"):
        parser.error("--check, --in-place and --diff are for text")
    if many and args.output != "-":
        parser.error("--check, --in-place and --diff take no --output")
    if args.in_place and "-" in files:
        parser.error("--in-place needs named files")
    body = _many if many else _one
    return run_tool("loom-format", lambda: body(args, files), args.diagnostic_format)


def _one(args: argparse.Namespace, files: list[str]) -> int:
    from loom import api

    module = api.load_bytes(*read_module_input(files[0], args.source_format), migrate=args.migrate)
    write_module_output(args.output, module, args.target_format)
    return EXIT_OK


def _many(args: argparse.Namespace, files: list[str]) -> int:
    changed = failed = 0
    request = Request(args.migrate, args.diagnostic_format, wants_colour(sys.stderr))
    for formatted in format_files(files, request, args.jobs):
        if formatted.failure is None and formatted.changed:
            formatted = _show(args, formatted)
        sys.stderr.write(formatted.failure or "")
        failed += formatted.failure is not None
        changed += formatted.failure is None and formatted.changed
    sys.stderr.write(
        f"{len(files)} files: {changed} {'rewritten' if args.in_place else 'not canonical'}, "
        f"{len(files) - changed - failed} unchanged, {failed} failed\n"
    )
    return EXIT_FAILURE if failed or (changed and not args.in_place) else EXIT_OK


def _show(args: argparse.Namespace, formatted: Formatted) -> Formatted:
    """Do with a file that changes what was asked for. The result has a failure if that could not be done."""
    if args.in_place:
        try:
            write_files([(Path(formatted.path), formatted.after.encode())])
        except OSError as error:
            return formatted.failed(f"loom-format: error: {formatted.path}: {error.strerror or error}\n")
        sys.stdout.write(f"{formatted.path}: rewritten\n")
    elif args.diff:
        import difflib

        before, after = formatted.before.splitlines(True), formatted.after.splitlines(True)
        lines = difflib.unified_diff(before, after, formatted.name, f"{formatted.name} (canonical)")
        sys.stdout.writelines(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
        )
    else:
        sys.stdout.write(f"{formatted.path}: not canonical\n")
    return formatted
