"""``loom-opt``: run named passes on a module and look at the program in between."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loom.tools.common import (
    EXIT_OK,
    add_config_options,
    add_form_options,
    bind_config,
    make_parser,
    read_module_input,
    run_tool,
    write_files,
    write_module_output,
)

if TYPE_CHECKING:
    from loom.ir.core import Module
    from loom.passes.model import PassInfo
    from loom.passes.requests import Request
    from loom.passes.run import Invocation

EXAMPLES = """\
  loom-opt rows.loom --pipeline=default --target=amdgpu:gfx1151
  loom-opt rows.loom --pass='canonicalize{max-iterations=4}' --pass=pipeline-scf-for --dump-ir-after=pipeline-scf-for
  loom-opt rows.loom --pipeline=@tidy --pass-report=json --output=out.loom
  loom-opt rows.loom --pipeline=@tidy --pass-reproducer=failure.loom
  loom-opt --list-passes
"""


def build_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = make_parser("loom-opt", "Run passes on a Loom module, in the order given, and print the result.", EXAMPLES)
    parser.add_argument(
        "input", nargs="?", default="-", metavar="FILE", help="module; '-' or none reads standard input"
    )
    parser.add_argument("--output", "-o", default="-", metavar="PATH", help="destination (default: -)")
    add_form_options(parser)
    parser.add_argument(
        "--pipeline",
        default=[],
        metavar="NAME",
        type=_requests,
        help="what to run first: default, source-low, prepared-low, '@symbol' for a pass.pipeline of the module, "
        "or a list of passes",
    )
    parser.add_argument(
        "--pass",
        dest="passes",
        action="extend",
        default=[],
        metavar="NAME{OPT=VAL,...}",
        type=_requests,
        help="append a pass (repeatable)",
    )
    parser.add_argument("--target", metavar="FAMILY:SELECTOR", help="target whose facts the passes may use")
    add_config_options(parser, schema=True)
    parser.add_argument(
        "--verify", choices=("true", "false"), default="true", help="check the module before and after each pass"
    )
    parser.add_argument("--list-passes", action="store_true", help="print the passes as JSON and stop")
    parser.add_argument("--pass-help", type=_pass_key, metavar="NAME", help="describe one pass and stop")
    parser.add_argument(
        "--pass-report",
        choices=("json", "text", "none", ""),
        default="none",
        help="what each pass did and how long it took, on standard error",
    )
    parser.add_argument(
        "--pass-reproducer",
        metavar="PATH",
        help="when a pass fails, write a module that makes it fail again, and the command to run it",
    )
    parser.add_argument(
        "--diagnostic-format", choices=("text", "json"), default="text", help="form of diagnostics (default: text)"
    )
    dump = parser.add_argument_group("looking in between")
    for when in ("before", "after"):
        dump.add_argument(
            f"--dump-ir-{when}",
            action="append",
            default=[],
            metavar="NAME",
            type=_dump_key,
            help=f"print the module {when} a pass, a named pipeline or '@pipeline' (repeatable)",
        )
        dump.add_argument(f"--dump-ir-{when}-all", action="store_true", help=f"print the module {when} every pass")
    dump.add_argument("--dump-ir-format", choices=("text", "jsonl"), default="text", help="form of what is printed")
    dump.add_argument(
        "--dump-ir-output",
        default="stderr",
        metavar="PATH",
        help="stderr, stdout, a file, or a directory (with a trailing '/') for a file each (default: stderr)",
    )
    return parser


def _requests(text: str) -> list[Request]:
    """The entries of an option. Raises ``ArgumentTypeError``."""
    from loom.passes.requests import read_requests

    try:
        return read_requests(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _pass_key(text: str) -> str:
    from loom.passes.catalogue import PASSES

    if text in PASSES:
        return text
    from loom.ir.diagnostics import did_you_mean

    close = did_you_mean(text, PASSES)
    hint = f"; {close}" if close else "; see --list-passes"
    raise argparse.ArgumentTypeError(f"no pass is named {text!r}{hint}")


def _dump_key(text: str) -> str:
    from loom.passes.catalogue import PIPELINES

    return text if text.startswith("@") or text in PIPELINES else _pass_key(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. Returns 0, or 1 for bad input or a pass that fails."""
    args = build_parser().parse_args(argv)
    return run_tool("loom-opt", lambda: _run(args), args.diagnostic_format)


def _run(args: argparse.Namespace) -> int:
    from loom.passes.catalogue import PASSES
    from loom.passes.model import Context
    from loom.plugins.manager import find_target

    context = Context(find_target(args.target) if args.target else None)
    if args.list_passes:
        rows = [info.describe(context) for info in PASSES.values()]
        sys.stdout.write(json.dumps({"passes": rows}, indent=2) + "\n")
        return EXIT_OK
    if args.pass_help is not None:
        sys.stdout.write(_help_text(PASSES[args.pass_help]))
        return EXIT_OK
    from loom import api
    from loom.ir.diagnostics import LoomError
    from loom.passes.run import Runner

    data, name = read_module_input(args.input, args.source_format)
    module = api.load_bytes(data, name)
    if bind_config(args, module):
        return EXIT_OK
    dumps = Dumps(args)
    runner = Runner(
        module,
        context,
        verify=args.verify == "true",
        measure=args.pass_report in ("json", "text"),
        keep_failure=args.pass_reproducer is not None,
        observe=dumps.add,
    )
    try:
        stopped = runner.run([*args.pipeline, *args.passes])
    except LoomError as error:
        if runner.failure is not None:
            from loom.passes.reproducer import reproducer_text

            text = reproducer_text(runner.failure, error.diagnostics, args.target)
            write_files([(Path(args.pass_reproducer), text.encode())])
        raise
    finally:
        # What was seen on the way is most useful when a pass fails.
        dumps.write()
        _write_report(args.pass_report, runner.invocations)
    for message in dumps.missing():
        sys.stderr.write(f"loom-opt: {message}\n")
    if stopped is not None:
        sys.stderr.write(f"loom-opt: stopped: {stopped}\n")
    write_module_output(args.output, module, args.target_format)
    return EXIT_OK


def _help_text(info: PassInfo) -> str:
    lines = [f"{info.key} ({info.kind}): {info.description}"]
    for option in info.options:
        values = " | ".join(option.words) if option.words else f"integer, at least {option.minimum}"
        lines.append(f"  {option.name}: {values}" + (f"; {option.meaning}" if option.meaning else ""))
    if info.statistics:
        lines.append(f"  counts: {', '.join(info.statistics)}")
    if info.needs_target:
        lines.append("  needs a target")
    return "\n".join(lines) + "\n"


class Dumps:
    """Texts of the module that were asked for, until they are written."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.wanted = {"before": set(args.dump_ir_before), "after": set(args.dump_ir_after)}
        self.every = {"before": args.dump_ir_before_all, "after": args.dump_ir_after_all}
        self.format: str = args.dump_ir_format
        self.output: str = args.dump_ir_output
        self.items: list[tuple[str, str, str]] = []
        self._seen: set[tuple[str, str]] = set()

    def missing(self) -> list[str]:
        """What was asked for by name and did not come, as messages."""
        return [
            f"there is nothing to print {when} '{key}', which did not run"
            for when, keys in self.wanted.items()
            for key in sorted(keys)
            if (when, key) not in self._seen
        ]

    def add(self, when: str, key: str, module: Module) -> None:
        """Keep the module's text if somebody wants it."""
        self._seen.add((when, key))
        if self.every[when] or key in self.wanted[when]:
            from loom import api

            self.items.append((when, key, api.print(module)))

    def write(self) -> None:
        """Write everything kept."""
        if not self.items:
            return
        if self.output.endswith("/"):
            directory = Path(self.output)
            suffix = "loom" if self.format == "text" else "jsonl"
            files = [
                (directory / f"{number:04}-{when}-{key.removeprefix('@')}.{suffix}", self._item(when, key, ir).encode())
                for number, (when, key, ir) in enumerate(self.items)
            ]
            write_files(files, directory)
            return
        text = "".join(self._item(*item) for item in self.items)
        if self.output == "stderr":
            sys.stderr.write(text)
        elif self.output in ("stdout", "-"):
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            write_files([(Path(self.output), text.encode())])

    def _item(self, when: str, key: str, ir: str) -> str:
        if self.format == "jsonl":
            return json.dumps({"stage": when, "pass": key, "ir": ir}) + "\n"
        return f"// {when} {key}\n{ir}"


def _write_report(form: str, invocations: Sequence[Invocation]) -> None:
    if form == "json":
        sys.stderr.write(json.dumps({"invocations": [item.row() for item in invocations]}, indent=2) + "\n")
    elif form == "text":
        for item in invocations:
            what = f"@{item.symbol}" if item.symbol else item.anchor
            note = item.status if item.status != "ok" else "changed" if item.changed else "unchanged"
            sys.stderr.write(f"{item.duration_ns / 1e6:10.3f} ms  {item.key:<20} {what:<24} {note}\n")
