"""``loom-link``: link modules by roots over explicit libraries."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from loom.tools.common import (
    EXIT_OK,
    add_form_options,
    make_parser,
    read_module_input,
    run_tool,
    write_module_output,
    write_output,
)

if TYPE_CHECKING:
    from loom.link.member import Linkable

EXAMPLES = """\
  loom-link model.loom --library=kernel.loom --library=motif.loom --root=@program \\
      --target=amdgpu:gfx11-generic --output=closed.loom
  loom-link root.loom --library=layer.loom --allow-unresolved --output=partial.loombc
  loom-link partial.loombc --library=kernel.loom --root=@program
  loom-link a.loom b.loom --mode=merge
  loom-link model.loom --library=kernel.loom --root=@program --print-plan
"""


def build_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = make_parser(
        "loom-link",
        "Link Loom modules. Only the given files take part; what no root reaches is left out, and the order of "
        "inputs and libraries never matters.",
        EXAMPLES,
    )
    parser.add_argument("inputs", nargs="+", metavar="FILE", help="direct inputs; '-' reads standard input")
    parser.add_argument(
        "--library",
        action="append",
        default=[],
        metavar="PATH",
        help="module that may satisfy declarations (repeatable)",
    )
    parser.add_argument(
        "--root", action="append", default=[], metavar="@SYMBOL", help="symbol to keep and export (repeatable)"
    )
    parser.add_argument(
        "--mode",
        choices=("auto", "merge", "link"),
        default="auto",
        help="link by roots, or merge the inputs whole (default: link if there is a root or library)",
    )
    parser.add_argument(
        "--target", metavar="FAMILY:SELECTOR", help="publish target facts, so that providers are chosen now"
    )
    parser.add_argument("--output", "-o", default="-", metavar="PATH", help="destination (default: -)")
    add_form_options(parser)
    parser.add_argument("--allow-unresolved", action="store_true", help="keep open declarations for a later link")
    parser.add_argument("--include-input-exports", action="store_true", help="exports of the inputs are roots too")
    parser.add_argument("--include-input-tests", action="store_true", help="keep check records of the inputs")
    parser.add_argument("--strip-check", action="store_true", help="drop check records")
    inspect = parser.add_mutually_exclusive_group()
    inspect.add_argument(
        "--print-plan", action="store_true", help="print why each symbol is live instead of the module"
    )
    inspect.add_argument(
        "--list-symbols", action="store_true", help="print the symbols of the inputs instead of linking"
    )
    parser.add_argument("--json", action="store_true", help="print plans and lists as JSON")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.mode == "merge" and (args.root or args.library or args.include_input_exports or args.target):
        parser.error("--mode=merge takes no roots, libraries or target")
    return run_tool("loom-link", lambda: _run(args))


def _run(args: argparse.Namespace) -> int:
    from loom import api
    from loom.link.linker import LinkOptions, link
    from loom.link.member import Member
    from loom.plugins.manager import find_target

    inputs = [api.open_bytes(*read_module_input(path, args.source_format)) for path in args.inputs]
    if args.list_symbols:
        _print_symbols(inputs, args.json)
        return EXIT_OK
    libraries = [api.open_bytes(*read_module_input(path, args.source_format)) for path in args.library]
    roots = [r.removeprefix("@") for r in args.root]
    merge = args.mode == "merge" or (
        args.mode == "auto" and not (roots or libraries or args.include_input_exports or args.target)
    )
    if args.include_input_exports:
        roots += [name for member in [Member(m, False) for m in inputs] for name in member.exported_symbols()]
    keep_tests = (merge or args.include_input_tests or not roots) and not args.strip_check
    options = LinkOptions(
        tuple(dict.fromkeys(roots)),
        find_target(args.target) if args.target else None,
        args.allow_unresolved,
        keep_tests,
        merge,
    )
    result = link(inputs, libraries, options)
    if args.strip_check:
        for op in list(result.module.body):
            if "check" in op.spec.traits:
                op.erase()
    api.verify(result.module)
    if args.print_plan:
        rows = [
            {"symbol": e.symbol, "reason": e.reason, "role": e.role, "identity": e.identity, "wanted_by": e.wanted_by}
            for e in result.plan
        ]
        if args.json:
            write_output(args.output, (json.dumps({"plan": rows}, indent=2) + "\n").encode())
        else:
            lines = [str(entry) for entry in result.plan]
            write_output(args.output, ("\n".join(lines) + "\n").encode())
        return EXIT_OK
    write_module_output(args.output, result.module, args.target_format)
    return EXIT_OK


def _print_symbols(modules: Sequence[Linkable], as_json: bool) -> None:
    from loom.bytecode.index import EXPORTED
    from loom.link.member import Member

    rows = []
    for module in modules:
        member = Member(module, False)
        for name, ordinal in member.symbols.items():
            exported = bool(member.flags[ordinal] & EXPORTED)
            rows.append({"symbol": name, "kind": member.op_names[ordinal], "exported": exported, "module": module.name})
    if as_json:
        write_output("-", (json.dumps({"symbols": rows}, indent=2) + "\n").encode())
    else:
        lines = [f"@{r['symbol']}: {r['kind']}{' exported' if r['exported'] else ''} ({r['module']})" for r in rows]
        write_output("-", ("\n".join(lines) + "\n" if lines else "").encode())
