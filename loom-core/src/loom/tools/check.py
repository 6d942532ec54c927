"""``loom-check``: run the check cases of a module."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loom.tools.common import (
    EXIT_FAILURE,
    EXIT_OK,
    VERIFY_MACHINE_HELP,
    add_config_options,
    make_parser,
    read_input,
    run_tool,
    wants_colour,
)
from loom.tools.common import report as report_diagnostics

if TYPE_CHECKING:
    from loom.link.member import Linkable

PROG = "loom-check"
EXAMPLES = """\
  loom-check saxpy.loom                            on the simulator, as amdgpu:gfx1100
  loom-check saxpy.loom --device=reference         by evaluating the source program
  loom-check checks.loom --library=kernel.loom --device=sim --target=amdgpu:gfx1200
  loom-check saxpy.loom --case=@tails --sample=3   one sample of one case
  loom-check saxpy.loom --json > report.json       the report for programs
  loom-check saxpy.loom --xfail=@tails=EVALUATE/002
                                                   a case that is expected to fail with this diagnostic
  loom-format old.loom | loom-check - --device=reference
"""


def build_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = make_parser(PROG, "Run the check cases of a Loom module on a device.", EXAMPLES)
    parser.add_argument("input", metavar="FILE", help="module with check cases; '-' reads standard input")
    parser.add_argument(
        "--library", action="append", default=[], metavar="PATH", help="link against this library (repeatable)"
    )
    parser.add_argument(
        "--device", default="sim", metavar="NAME", help="device to run on; see loom-plugins (default: sim)"
    )
    parser.add_argument("--target", metavar="FAMILY:SELECTOR", help="target to compile for (default: the device's own)")
    parser.add_argument(
        "--case", action="append", default=[], metavar="@NAME", help="run this case (repeatable; default: all)"
    )
    parser.add_argument(
        "--sample",
        type=_sample,
        default=None,
        metavar="N",
        help="run only the sample with this ordinal of each case (default: -1, all)",
    )
    parser.add_argument(
        "--max-samples-per-case",
        type=_cap,
        default=None,
        metavar="N",
        help="run at most this many samples of a case (default: 4096)",
    )
    parser.add_argument(
        "--xfail",
        action="append",
        default=[],
        metavar="@NAME=CODE[,...]",
        help="this case or scenario must fail, with no other diagnostics than these (repeatable): codes such as "
        "EVALUATE/002, kinds of device faults, or 'expectation'",
    )
    parser.add_argument(
        "--allow-failure",
        action="append",
        default=[],
        metavar="@NAME=CODE[,...]",
        help="like --xfail, but it may also pass (repeatable)",
    )
    parser.add_argument(
        "--file-output-dir", metavar="DIR", help="where the files go that cases write; without it none are written"
    )
    add_config_options(parser)
    parser.add_argument(
        "--sanitizer",
        default="none",
        metavar="CHECKS",
        help="insert checks into what runs: access, value, operation, race, joined by '|', or asan, ubsan, tsan, all",
    )
    parser.add_argument("--verify-machine", action="store_true", help=VERIFY_MACHINE_HELP)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--json", action="store_true", help="print the loom.test.v0 report on standard output")
    mode.add_argument("--list", action="store_true", help="list the cases with their samples, run nothing")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--quiet", "-q", action="store_true", help="show only what did not pass, and the totals")
    amount.add_argument("--verbose", "-v", action="store_true", help="show every sample and every failure")
    parser.add_argument("--no-color", action="store_true", help="plain text on terminals too (as NO_COLOR does)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. Returns 0 when all ran cases passed, 1 for a failure or bad input."""
    args = build_parser().parse_args(argv)
    return run_tool(PROG, lambda: _run(args))


def _sample(text: str) -> int | None:
    ordinal = _integer(text)
    if ordinal < -1:
        raise argparse.ArgumentTypeError(f"{ordinal} is not a sample ordinal")
    return None if ordinal == -1 else ordinal


def _cap(text: str) -> int:
    cap = _integer(text)
    if cap < 1:
        raise argparse.ArgumentTypeError(f"{cap} is not a number of samples above 0")
    return cap


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None


def _run(args: argparse.Namespace) -> int:
    from loom.check.errors import CheckError

    try:
        return _run_checks(args)
    except CheckError as error:
        sys.stderr.write(f"{PROG}: error: {error}\n")
        return EXIT_FAILURE


def _run_checks(args: argparse.Namespace) -> int:
    from loom import api
    from loom.check.console import Console, Verbosity, listing
    from loom.check.expected import read_expected
    from loom.check.options import DEFAULT_SAMPLE_CAP, CheckOptions
    from loom.check.plan import plan_checks
    from loom.check.report import to_json
    from loom.check.report_text import write_lines
    from loom.check.runner import run_plan
    from loom.check.sanitizer import instrument, read_checks
    from loom.check.session import opened, select_device
    from loom.config_values import read_config
    from loom.ir.diagnostics import LoomError
    from loom.low.proof import verifying
    from loom.plugins.manager import load_plugins
    from loom.specialize.configuration import unknown_keys

    device, target = select_device(args.device, args.target)
    expected = [read_expected(text, required=True) for text in args.xfail]
    expected += [read_expected(text, required=False) for text in args.allow_failure]
    inputs = [api.open_bytes(*read_input(args.input))]
    libraries = [api.open_bytes(*read_input(path)) for path in args.library]
    config = read_config(args.config, args.config_file)
    sanitizer = read_checks(args.sanitizer)
    module = api.prepare_checks(inputs, libraries, target, config)
    if instrument(module, sanitizer):
        api.verify(module)
    if warnings := unknown_keys(config, _config_keys([*inputs, *libraries])):
        report_diagnostics(LoomError(warnings))
    options = CheckOptions(
        cases=tuple(name.removeprefix("@") for name in args.case),
        sample=args.sample,
        max_samples_per_case=args.max_samples_per_case or DEFAULT_SAMPLE_CAP,
        output_directory=Path(args.file_output_dir) if args.file_output_dir is not None else None,
        device_name=device.name,
        target=target,
        expected=tuple(expected),
    )
    registries = load_plugins()
    plan = plan_checks(module, options, registries)
    if not plan.cases and not plan.scenarios:
        sys.stderr.write(f"{PROG}: note: {args.input} has no check cases\n")
    colour = wants_colour(sys.stdout) and not args.no_color
    if args.list:
        write_lines(listing(plan), sys.stdout, colour=colour)
        return EXIT_FAILURE if plan.issues else EXIT_OK
    verbosity = (
        Verbosity.SILENT
        if args.json
        else Verbosity.QUIET
        if args.quiet
        else Verbosity.VERBOSE
        if args.verbose
        else Verbosity.NORMAL
    )
    console = Console(sys.stdout, sys.stderr, verbosity, colour=colour)
    try:
        with verifying(args.verify_machine), opened(device, target) as handle:
            report = run_plan(plan, handle, options, registries, console)
    finally:
        console.clear()
    if args.json:
        sys.stdout.write(to_json(report))
    else:
        console.finish(plan, report)
    return EXIT_FAILURE if report.failed else EXIT_OK


def _config_keys(modules: Sequence[Linkable]) -> set[str]:
    """The configuration keys of modules, which are not decoded for this."""
    from loom.link.member import Member, Role
    from loom.specialize.configuration import KEYS

    members = [Member(module, Role.INPUT) for module in modules]
    return {name for member in members for name, at in member.symbols().items() if member.op_name(at) in KEYS}
