"""``loom-compile-report``: look at compile reports, compare two, and get suggestions."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Final

from loom.tools.common import EXIT_OK, make_parser

EXAMPLES = """\
  loom-compile rows.loom --target=amdgpu:gfx1151 --output=rows.hsaco \\
      --compile-report=details --compile-report-output=rows.report.json
  loom-compile-report show rows.report.json
  loom-compile-report diff serial.report.json rows.report.json --format=json
  loom-compile-report suggest rows.report.json
"""

EXIT_ERROR: Final = 2


def build_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = make_parser(
        "loom-compile-report", "Show compile reports, compare two, or list experiments that one suggests.", EXAMPLES
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shown = commands.add_parser("show", help="names, figures and decisions of each entry")
    shown.add_argument("reports", nargs="+", metavar="REPORT", help="a report, or lines of an envelope")
    compared = commands.add_parser("diff", help="figures that differ between two reports")
    compared.add_argument("reports", nargs=2, metavar="REPORT", help="baseline and candidate")
    compared.add_argument(
        "--comparison", choices=("exact", "target"), default="exact", help="the same target, or different ones"
    )
    compared.add_argument("--force", action="store_true", help="compare the only entries of both, whatever their names")
    suggested = commands.add_parser("suggest", help="experiments that the evidence suggests")
    suggested.add_argument("reports", nargs="+", metavar="REPORT", help="a report, or lines of an envelope")
    for command in (shown, compared, suggested):
        command.add_argument("--format", choices=("text", "json"), default="text", help="form of the output")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. Returns 0, or 2 for any error."""
    args = build_parser().parse_args(argv)
    from loom.report.documents import ReportError
    from loom.report.views import as_text

    try:
        views = _views(args)
        if args.format == "json":
            text = "".join(json.dumps(view, sort_keys=True, separators=(",", ":")) + "\n" for view in views)
        else:
            text = "\n".join(map(as_text, views))
    except ReportError as error:
        sys.stderr.write(f"loom-compile-report: error: {error}\n")
        return EXIT_ERROR
    except OSError as error:
        sys.stderr.write(f"loom-compile-report: error: {error.filename}: {error.strerror}\n")
        return EXIT_ERROR
    except RecursionError:
        sys.stderr.write("loom-compile-report: error: a report is nested too deeply\n")
        return EXIT_ERROR
    sys.stdout.write(text)
    return EXIT_OK


def _views(args: argparse.Namespace) -> list[dict[str, object]]:
    from loom.report.documents import ReportError, read_documents
    from loom.report.views import diff, show, suggest

    documents = [read_documents(path) for path in args.reports]
    if args.command == "diff":
        for path, found in zip(args.reports, documents, strict=True):
            if len(found) != 1:
                raise ReportError(f"{path}: {len(found)} reports, but one is compared")
        return [diff(documents[0][0], documents[1][0], args.comparison, force=args.force)]
    make = show if args.command == "show" else suggest
    return [make(document) for found in documents for document in found]
