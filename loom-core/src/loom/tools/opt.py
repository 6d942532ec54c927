"""``loom-opt``: run named passes on a module and look at the program in between."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from loom.tools.common import (
    EXIT_OK,
    add_form_options,
    make_parser,
    read_module_input,
    run_tool,
    write_files,
    write_module_output,
)
from loom.tools.opt_passes import PASSES, PIPELINES, Context, Details, PassInfo, targets_of

if TYPE_CHECKING:
    from loom.ir.core import Module

EXAMPLES = """\
  loom-opt rows.loom --pipeline=default --target=amdgpu:gfx1151
  loom-opt rows.loom --pass=canonicalize --pass=pipeline-scf-for --dump-ir-after=pipeline-scf-for
  loom-opt rows.loom --pass=canonicalize --pass-report=json --output=out.loom
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
    parser.add_argument("--pipeline", choices=("", *PIPELINES), default="", help="passes to run first")
    parser.add_argument(
        "--pass",
        dest="passes",
        action="append",
        default=[],
        metavar="NAME",
        type=_pass_key,
        help="append a pass (repeatable)",
    )
    parser.add_argument("--target", metavar="FAMILY:SELECTOR", help="target whose facts the passes may use")
    parser.add_argument(
        "--verify", choices=("true", "false"), default="true", help="check the module before and after each pass"
    )
    parser.add_argument("--list-passes", action="store_true", help="print the passes as JSON and stop")
    parser.add_argument("--pass-help", type=_pass_key, metavar="NAME", help="describe one pass and stop")
    parser.add_argument(
        "--pass-report",
        choices=("json", "text", "none"),
        default="none",
        help="what each pass did and how long it took, on standard error",
    )
    dump = parser.add_argument_group("looking in between")
    for when in ("before", "after"):
        dump.add_argument(
            f"--dump-ir-{when}",
            action="append",
            default=[],
            metavar="NAME",
            type=_pass_key,
            help=f"print the module {when} a pass",
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


def _pass_key(text: str) -> str:
    if text in PASSES:
        return text
    from loom.ir.diagnostics import did_you_mean

    close = did_you_mean(text, PASSES)
    hint = f"; {close}" if close else "; see --list-passes"
    raise argparse.ArgumentTypeError(f"no pass is named {text!r}{hint}")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. Returns 0, or 1 for bad input or a pass that fails."""
    args = build_parser().parse_args(argv)
    return run_tool("loom-opt", lambda: _run(args))


def _run(args: argparse.Namespace) -> int:
    if args.list_passes:
        sys.stdout.write(json.dumps({"passes": [_describe(info) for info in PASSES.values()]}, indent=2) + "\n")
        return EXIT_OK
    if args.pass_help is not None:
        info = PASSES[args.pass_help]
        sys.stdout.write(f"{info.key} ({info.kind}): {info.description}\n")
        return EXIT_OK
    from loom import api
    from loom.ir.recursion import deep_recursion
    from loom.plugins.manager import find_target

    context = Context(find_target(args.target) if args.target else None)
    data, name = read_module_input(args.input, args.source_format)
    module = api.load_bytes(data, name)
    dumps = Dumps(args)
    invocations: list[Invocation] = []
    try:
        with deep_recursion():
            for key in (*PIPELINES.get(args.pipeline, ()), *args.passes):
                dumps.add("before", key, module)
                _run_pass(PASSES[key], module, context, args, invocations)
                dumps.add("after", key, module)
    finally:
        # What was seen on the way is most useful when a pass fails.
        dumps.write()
        _write_report(args.pass_report, invocations)
    write_module_output(args.output, module, args.target_format)
    return EXIT_OK


def _describe(info: PassInfo) -> dict[str, object]:
    return {
        "key": info.key,
        "kind": info.kind,
        "description": info.description,
        "available": True,
        "options": [],
        "statistics": [],
        "requirements": [],
    }


@attrs.define
class Invocation:
    """One run of a pass on one function or on the module."""

    key: str
    kind: str
    anchor: str
    symbol: str | None
    pipeline: str
    index: int
    duration_ns: int = 0
    changed: bool = False
    status: str = "failed"
    details: Details = attrs.field(factory=list)

    def row(self) -> dict[str, object]:
        """The row of the pass report."""
        return {
            "pass": self.key,
            "kind": self.kind,
            "anchor": self.anchor,
            "pipeline": self.pipeline,
            "symbol": self.symbol,
            "instruction_index": self.index,
            "duration_ns": self.duration_ns,
            "changed": self.changed,
            "status": self.status,
            "statistics": {},
            "details": self.details,
        }


def _run_pass(
    info: PassInfo, module: Module, context: Context, args: argparse.Namespace, invocations: list[Invocation]
) -> None:
    from loom import api
    from loom.ir.core import Module, symbol_name
    from loom.verify.verifier import require_valid

    reporting = args.pass_report != "none"
    pipeline = args.pipeline if len(invocations) < len(PIPELINES.get(args.pipeline, ())) else ""
    for anchor in targets_of(info, module):
        whole = isinstance(anchor, Module)
        symbol = None if whole else symbol_name(anchor)
        record = Invocation(info.key, info.kind, "module" if whole else anchor.name, symbol, pipeline, len(invocations))
        invocations.append(record)
        before = api.print(module) if reporting else ""
        start = time.perf_counter_ns()
        try:
            record.details = info.run(anchor, module, context) or []
        finally:
            record.duration_ns = time.perf_counter_ns() - start
        record.changed = reporting and api.print(module) != before
        record.status = "ok"
    if args.verify == "true":
        require_valid(module)


class Dumps:
    """Texts of the module that were asked for, until they are written."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.wanted = {"before": set(args.dump_ir_before), "after": set(args.dump_ir_after)}
        self.every = {"before": args.dump_ir_before_all, "after": args.dump_ir_after_all}
        self.format: str = args.dump_ir_format
        self.output: str = args.dump_ir_output
        self.items: list[tuple[str, str, str]] = []

    def add(self, when: str, key: str, module: Module) -> None:
        """Keep the module's text if somebody wants it."""
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
                (directory / f"{number:04}-{when}-{key}.{suffix}", self._item(when, key, ir).encode())
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
