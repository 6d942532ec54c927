"""``loom-format``: canonical printing, and conversion between text and bytecode."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path

from loom.ir.diagnostics import LoomError
from loom.tools.common import (
    EXIT_FAILURE,
    EXIT_OK,
    add_form_options,
    make_parser,
    read_module_input,
    report,
    run_tool,
    write_files,
    write_module_output,
)

EXAMPLES = """\
  loom-format kernel.loom                      print the canonical text
  loom-format --check kernel.loom motif.loom   list files that are not canonical
  loom-format --in-place src/*.loom            rewrite them
  loom-format < kernel.loom                    format standard input
  loom-format kernel.loom -o kernel.loombc     write the binary form
  loom-format kernel.loombc                    print a binary module as text
"""


def build_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = make_parser(
        "loom-format",
        "Print Loom modules in canonical form, or convert them between text and bytecode. Invalid input is never "
        "rewritten.",
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
    return parser


def canonical(data: bytes, name: str) -> str:
    """Canonical text of a source file's contents. Raises :class:`LoomError`."""
    from loom import api

    return api.print(api.load_bytes(data, name))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = build_parser()
    args = parser.parse_args(argv)
    files = args.files or ["-"]
    if len(files) > 1 and not (args.check or args.in_place or args.diff):
        parser.error("several files need --check, --in-place or --diff")
    if (args.check or args.in_place or args.diff) and (args.target_format or args.source_format) not in (
        "auto",
        "text",
    ):
        parser.error("--check, --in-place and --diff are for text")
    if args.in_place and "-" in files:
        parser.error("--in-place needs named files")
    return run_tool("loom-format", lambda: _run(args, files))


def _run(args: argparse.Namespace, files: list[str]) -> int:
    if not (args.check or args.in_place or args.diff):
        from loom import api

        module = api.load_bytes(*read_module_input(files[0], args.source_format))
        write_module_output(args.output, module, args.target_format)
        return EXIT_OK
    changed = failed = 0
    for path in files:
        try:
            data, name = read_module_input(path, "text")
            text = canonical(data, name)
        except LoomError as error:
            report(error)
            failed += 1
            continue
        except OSError as error:
            sys.stderr.write(f"loom-format: error: {path}: {error.strerror}\n")
            failed += 1
            continue
        before = data.decode()
        if text == before:
            continue
        changed += 1
        if args.in_place:
            write_files([(Path(path), text.encode())])
            sys.stdout.write(f"{path}: rewritten\n")
        elif args.diff:
            sys.stdout.writelines(
                difflib.unified_diff(before.splitlines(True), text.splitlines(True), name, f"{name} (canonical)")
            )
        else:
            sys.stdout.write(f"{path}: not canonical\n")
    sys.stderr.write(
        f"{len(files)} files: {changed} {'rewritten' if args.in_place else 'not canonical'}, "
        f"{len(files) - changed - failed} unchanged, {failed} failed\n"
    )
    return EXIT_FAILURE if failed or (changed and not args.in_place) else EXIT_OK
