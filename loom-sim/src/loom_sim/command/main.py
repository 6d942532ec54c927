"""``loom-sim``: the arguments of its subcommands, and what becomes of errors."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from loom.tools.common import EXIT_FAILURE, make_parser, run_tool
from loom_sim.amdgpu.limits import DEFAULT_MAX_STEPS, DEFAULT_TRACE_LIMIT
from loom_sim.command import arguments

PROG = "loom-sim"

EXAMPLES = """\
  loom-sim kernels k.hsaco                         the kernels and their arguments
  loom-sim disasm k.hsaco --kernel=saxpy           the code of one kernel
  loom-sim run k.hsaco --kernel=saxpy --workgroups=16 --workgroup-size=64 \\
      --arg=i64:1000 --arg=f32:2.0 --arg=x.npy --arg=y.npy --arg=zeros:f32:1000 --save-arg=4=z.npy
"""

RUN_EXAMPLES = (
    """\
  loom-sim run k.hsaco --kernel=scale --workgroups=8 --workgroup-size=256 \\
      --arg=x.npy --arg=f32:0.5 --arg=u32:2000 --save-arg=0=scaled.npy
  loom-sim run k.hsaco --kernel=tiles --workgroups=4,4 --workgroup-size=16,16 --arg=a.npy --arg=zeros:f32:64x64 \\
      --save-arg=1=b.npy --trace=tiles.json        open tiles.json at ui.perfetto.dev
  loom-sim run k.hsaco --workgroups=1 --arg=zeros:u32:64 --counts      how often each instruction was executed
  loom-sim run k.hsaco --workgroups=1 --arg=zeros:u32:64 --json        the report for programs

arguments, one --arg per argument of the kernel, in order:
"""
    + arguments.ARGUMENT_HELP
)


def build_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = make_parser(PROG, "Run AMD GPU code objects, whoever compiled them, without a GPU.", EXAMPLES)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_kernels(commands)
    _add_disasm(commands)
    _add_run(commands)
    return parser


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, description: str, examples: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=description[0].lower() + description[1:].removesuffix("."),
        description=description,
        epilog="examples:\n" + examples,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("input", metavar="FILE", help="linked code object (.hsaco, .co); '-' reads standard input")
    return parser


def _add_kernels(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "kernels", "List the kernels of a code object.", "  loom-sim kernels k.hsaco\n")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_disasm(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    examples = "  loom-sim disasm k.hsaco\n  loom-sim disasm k.hsaco --kernel=saxpy\n"
    parser = _add(commands, "disasm", "Disassemble a code object.", examples)
    parser.add_argument("--kernel", metavar="NAME", help="only this kernel (default: all code)")
    parser.add_argument(
        "-l", "--line-numbers", action="store_true", help="show where instructions come from (compiled with -g)"
    )


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "run", "Run a kernel.", RUN_EXAMPLES)
    parser.set_defaults(usage_error=parser.error)
    parser.add_argument("--kernel", metavar="NAME", help="the kernel (default: the only one)")
    parser.add_argument(
        "--workgroups",
        type=arguments.sizes,
        default=(1, 1, 1),
        metavar="X[,Y[,Z]]",
        help="number of workgroups (default: 1)",
    )
    parser.add_argument(
        "--workgroup-size",
        type=arguments.sizes,
        metavar="X[,Y[,Z]]",
        help="work-items of a workgroup (default: what the kernel requires)",
    )
    parser.add_argument(
        "--arg",
        type=arguments.argument,
        action="append",
        default=[],
        metavar="VALUE",
        help="the next argument: a .npy file, TYPE:NUMBER, zeros:TYPE:SHAPE or null",
    )
    parser.add_argument(
        "--save-arg",
        type=arguments.save,
        action="append",
        default=[],
        metavar="N=FILE.npy",
        help="write argument N (from 0) after the run (repeatable)",
    )
    parser.add_argument("--processor", metavar="NAME", help="processor to be (default: the code object's)")
    parser.add_argument(
        "--dynamic-lds", type=arguments.natural, default=0, metavar="N", help="bytes of dynamic LDS (default: 0)"
    )
    parser.add_argument(
        "--max-steps",
        type=arguments.positive,
        default=DEFAULT_MAX_STEPS,
        metavar="N",
        help=f"stop after issuing this many instructions (default: {DEFAULT_MAX_STEPS})",
    )
    parser.add_argument(
        "--no-strict", action="store_true", help="do not check waits, reads of undefined registers, and barriers"
    )
    parser.add_argument("--counts", action="store_true", help="also show the code with execution counts")
    parser.add_argument(
        "--processes",
        type=arguments.processes,
        default=None,
        metavar="N",
        help="with --no-strict: run independent workgroups in up to N processes (default: auto, which is as many as "
        "there are idle processors if the launch is large)",
    )
    parser.add_argument("--bank-conflicts", action="store_true", help="also count conflicts of LDS banks (an estimate)")
    parser.add_argument("--trace", metavar="FILE", help="write a timeline of the waves (Trace Event JSON)")
    parser.add_argument("--trace-instructions", action="store_true", help="with --trace: a slice per instruction too")
    parser.add_argument(
        "--trace-limit",
        type=arguments.positive,
        metavar="N",
        help=f"with --trace: keep at most this many slices (default: {DEFAULT_TRACE_LIMIT})",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. Returns 0, 1 for a fault or bad input; bad usage exits with 2."""
    args = build_parser().parse_args(argv)
    if args.command == "run":
        problem = arguments.check_run(args)
        if problem is not None:
            args.usage_error(problem)
    return run_tool(PROG, lambda: _guarded(args))


def _guarded(args: argparse.Namespace) -> int:
    from loom_sim.amdgpu.errors import SimulationError
    from loom_sim.command.errors import CommandError

    try:
        return _command(args.command)(args)
    except (CommandError, SimulationError) as error:
        sys.stderr.write(f"{PROG}: error: {error}\n")
    except MemoryError:
        sys.stderr.write(f"{PROG}: error: out of memory\n")
    return EXIT_FAILURE


def _command(name: str) -> Callable[[argparse.Namespace], int]:
    # Imported one at a time: listing and disassembling need no NumPy and start faster without it.
    if name == "run":
        from loom_sim.command.run import run

        return run
    from loom_sim.command import listing

    return {"kernels": listing.kernels, "disasm": listing.disasm}[name]
