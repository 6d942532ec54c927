"""``loom-compile``: produce artifacts."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loom.tools.common import (
    EXIT_OK,
    VERIFY_MACHINE_HELP,
    add_config_options,
    bind_config,
    make_parser,
    read_input,
    run_tool,
    write_files,
    write_output,
)

if TYPE_CHECKING:
    from loom.api import Compilation
    from loom.passes.requests import Request

EXAMPLES = """\
  loom-compile closed.loom --root=@kernel --target=amdgpu:gfx1100 --output=kernel.hsaco
  loom-compile closed.loom --root=@program --format=loom-command --output=commands.json \\
      --emit-command-artifacts=commands/
  loom-compile kernel.loom --target=spirv:vulkan1.3+bda --output=kernel.spv
  loom-compile kernel.loom --target=amdgpu:gfx1100 --dump-ir-after=source-to-low --output=kernel.hsaco
"""

STAGES = ("specialize", "source-to-low")
STREAMS = ("stderr", "stdout", "-")


def build_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = make_parser("loom-compile", "Compile a linked Loom module to target artifacts.", EXAMPLES)
    parser.add_argument("input", metavar="FILE", help="linked module; '-' reads standard input")
    parser.add_argument(
        "--root", action="append", default=[], metavar="@SYMBOL", help="what to compile (repeatable; default: all)"
    )
    parser.add_argument(
        "--library", action="append", default=[], metavar="PATH", help="link against this library first (repeatable)"
    )
    parser.add_argument("--target", metavar="FAMILY:SELECTOR", help="target profile; see loom-plugins")
    parser.add_argument(
        "--pipeline",
        default="default",
        metavar="NAME",
        help="what runs on the source: default (specialization), none, '@symbol' for a pass.pipeline of the module, "
        "or a list of passes; see loom-opt --list-passes",
    )
    add_config_options(parser)
    parser.add_argument(
        "--sanitizer",
        default="none",
        metavar="CHECKS",
        help="insert checks into the code: access, value, operation, joined by '|', or all; a false one ends the run",
    )
    parser.add_argument(
        "--sanitizer-reporting", choices=("default", "trap"), default="default", help="how a false check is reported"
    )
    parser.add_argument("--format", metavar="NAME", help="artifact format (default: the target's)")
    parser.add_argument("--output", "-o", default="-", metavar="PATH", help="primary artifact (default: -)")
    parser.add_argument(
        "--emit-command-artifacts", metavar="DIR", help="directory for the .loomcmd files of loom-command"
    )
    parser.add_argument(
        "--dump-ir-after",
        action="append",
        default=[],
        choices=STAGES,
        metavar="STAGE",
        help=f"print the program after a stage: {', '.join(STAGES)} (repeatable)",
    )
    parser.add_argument("--dump-ir-after-all", action="store_true", help="print the program after every stage")
    parser.add_argument("--dump-ir-format", choices=("text", "jsonl"), default="text", help="form of dumps")
    parser.add_argument(
        "--dump-ir-output", default="stderr", metavar="WHERE", help="stderr, stdout, '-' or a file (default: stderr)"
    )
    parser.add_argument(
        "-g",
        "--debug-info",
        action="store_true",
        help="say in the artifact which source line each instruction comes from; the code stays the same",
    )
    parser.add_argument("--verify-machine", action="store_true", help=VERIFY_MACHINE_HELP)
    parser.add_argument(
        "--compile-report",
        choices=("none", "summary", "details"),
        default="none",
        help="write a JSON compile report; details has a row for every decision about a loop",
    )
    parser.add_argument(
        "--compile-report-output", default="stderr", metavar="WHERE", help="stderr, '-' or a file (default: stderr)"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if not args.target and not args.format:
        parser.error("give --target, or a --format that needs none")
    if args.format == "loom-command" and not args.emit_command_artifacts:
        parser.error("--format=loom-command needs --emit-command-artifacts=DIR")
    try:
        checks = _read_checks(args.sanitizer)
    except ValueError as error:
        parser.error(f"argument --sanitizer: {error}")
    try:
        pipeline = _read_pipeline(args.pipeline)
    except ValueError as error:
        parser.error(f"argument --pipeline: {error}")
    return run_tool("loom-compile", lambda: _run(args, checks, pipeline))


def _read_checks(words: str) -> frozenset[str]:
    """The checks to insert. Raises ``ValueError`` for an unknown word."""
    if words == "none":
        return frozenset()
    from loom.check.errors import CheckError
    from loom.check.sanitizer import ASSERTIONS, read_checks

    try:
        return read_checks(words, ASSERTIONS)
    except CheckError as error:
        raise ValueError(error) from None


def _read_pipeline(text: str) -> list[Request] | None:
    """What to run instead of specialization, or nothing. Raises ``ValueError`` for what is no pass or pipeline."""
    if text == "default":
        return None
    if text == "none":
        return []
    from loom.passes.requests import read_requests

    return read_requests(text)


def _run(args: argparse.Namespace, checks: frozenset[str], pipeline: list[Request] | None) -> int:
    from loom import api
    from loom.ir.diagnostics import fail
    from loom.low.proof import verifying
    from loom.report.compile_report import compile_report

    module = api.load_bytes(*read_input(args.input))
    if args.library:
        libraries = [api.load_bytes(*read_input(path)) for path in args.library]
        from loom.config_values import read_config

        config = read_config(args.config, args.config_file)
        module = api.link([module], libraries, args.root, args.target, config=config)
    bind_config(args, module)
    if checks:
        from loom.check.sanitizer import instrument

        instrument(module, checks)
        api.verify(module)
    stages = list(STAGES) if args.dump_ir_after_all else args.dump_ir_after
    with verifying(args.verify_machine):
        options = {"format": args.format, "debug_info": args.debug_info}
        compilation = api.compile(module, args.root, args.target, args.format, options, pipeline)
    texts = [(args.dump_ir_output, _dump_text(_dumps(compilation, stages), args.dump_ir_format))]
    if args.compile_report != "none":
        report = compile_report(compilation, args.compile_report, args.format)
        texts.append((args.compile_report_output, json.dumps(report, indent=2) + "\n"))
    result = compilation.result
    if result.extras and not args.emit_command_artifacts:
        raise fail(
            "TARGET/036",
            "this format makes several files; name a directory with --emit-command-artifacts",
            None,
            emitter="driver",
        )
    directory = Path(args.emit_command_artifacts) if result.extras else None
    files = [(directory / a.name, a.data) for a in result.extras] if directory is not None else []
    files += [(Path(where), text.encode()) for where, text in texts if text and where not in STREAMS]
    if args.output != "-":
        files.append((Path(args.output), result.primary.data))
    write_files(files, directory)
    for where, text in texts:
        if where in STREAMS:
            (sys.stderr if where == "stderr" else sys.stdout).write(text)
    if args.output == "-":
        write_output("-", result.primary.data)
    return EXIT_OK


def _dumps(compilation: Compilation, stages: Sequence[str]) -> list[tuple[str, str]]:
    from loom import api

    found = []
    for stage in STAGES:
        if stage not in stages:
            continue
        if stage == "specialize":
            found.append((stage, api.print(compilation.module)))
        else:
            text = compilation.result.low_text
            if text is None:
                lowered = api.lower(compilation)
                text = api.print(lowered) if lowered is not None else None
            if text is not None:
                found.append((stage, text))
    return found


def _dump_text(dumps: Sequence[tuple[str, str]], form: str) -> str:
    if form == "jsonl":
        return "".join(json.dumps({"stage": stage, "ir": ir}) + "\n" for stage, ir in dumps)
    if len(dumps) == 1:
        return dumps[0][1]
    return "\n".join(f"// ---- after {stage}\n\n{ir}" for stage, ir in dumps)
