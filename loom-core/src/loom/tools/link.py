"""``loom-link``: link modules by roots over explicit libraries."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from loom.tools.common import (
    EXIT_OK,
    add_config_options,
    add_form_options,
    bind_config,
    make_parser,
    read_module_input,
    run_tool,
    write_module_output,
    write_output,
)

if TYPE_CHECKING:
    from loom.ir.core import Module
    from loom.link.linker import LinkResult
    from loom.link.member import Linkable, Member, Role

EXAMPLES = """\
  loom-link model.loom --library=kernel.loom --library=motif.loom --root=@program \\
      --target=amdgpu:gfx11-generic --output=closed.loom
  loom-link root.loom --library=layer.loom --allow-unresolved --output=partial.loombc
  loom-link partial.loombc --library=kernel.loom --root=@program --config=net.depth=4
  loom-link a.loom b.loom --mode=merge
  loom-link layers/a.loom layers/b.loom --mode=archive --output=layers.loombc
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
        "--mode",
        choices=("auto", "merge", "link", "archive"),
        default="auto",
        help="link by roots, merge the inputs whole into one module, or put them into one bytecode file as they are "
        "(default: link if there is a root, library or target, else merge)",
    )
    parser.add_argument("--output", "-o", default="-", metavar="PATH", help="destination (default: -)")
    add_form_options(parser)
    roots = parser.add_argument_group("what is kept")
    roots.add_argument(
        "--root", action="append", default=[], metavar="@SYMBOL", help="symbol to keep and export (repeatable)"
    )
    roots.add_argument(
        "--include-input-exports",
        "--include-exported-roots",
        action="store_true",
        help="exports of the inputs are roots too",
    )
    roots.add_argument("--include-input-tests", action="store_true", help="keep check records of the inputs")
    roots.add_argument("--strip-check", action="store_true", help="drop check records")
    roots.add_argument("--allow-unresolved", action="store_true", help="keep open declarations for a later link")
    libraries = parser.add_argument_group("where definitions come from (repeatable)")
    for flag, meaning in (
        ("--library", "module that may satisfy declarations"),
        ("--root-library", "library whose exports are all roots"),
        ("--transitive-library", "module that may satisfy declarations of libraries only"),
    ):
        libraries.add_argument(flag, action="append", default=[], metavar="PATH", help=meaning)
    libraries.add_argument(
        "--strict-deps", action="store_true", help="every library must satisfy something that an input declares"
    )
    libraries.add_argument("--dependency-report", metavar="PATH", help="write what was taken from which library (JSON)")
    libraries.add_argument("--dependency-component", metavar="NAME", help="name of what is linked, for that report")
    parser.add_argument(
        "--target",
        "--target-profile",
        metavar="FAMILY:SELECTOR",
        help="publish target facts, so that providers are chosen now",
    )
    add_config_options(parser, schema=True)
    inspect = parser.add_mutually_exclusive_group()
    inspect.add_argument(
        "--print-plan", action="store_true", help="print why each symbol is live instead of the module"
    )
    inspect.add_argument(
        "--list-symbols", action="store_true", help="print the symbols of the modules instead of linking"
    )
    parser.add_argument("--json", action="store_true", help="print plans and lists as JSON")
    parser.add_argument("--verify", choices=("true", "false"), default="true", help="check the result (default: true)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.mode in ("merge", "archive") and _selects(args):
        parser.error(f"--mode={args.mode} takes no roots, libraries or target")
    if args.mode == "archive" and (args.target_format == "text" or args.config or args.config_file):
        parser.error("--mode=archive writes bytecode, and keeps its modules as they are")
    if args.dependency_component is not None and args.dependency_report is None:
        parser.error("--dependency-component names the component of a --dependency-report")
    return run_tool("loom-link", lambda: _run(args))


def _selects(args: argparse.Namespace) -> bool:
    """Whether an option asks for a link by roots."""
    libraries = (*args.library, *args.root_library, *args.transitive_library)
    return bool(args.root or libraries or args.include_input_exports or args.target)


def _run(args: argparse.Namespace) -> int:
    from loom import api

    def opened(paths: Iterable[str]) -> list[Linkable]:
        read = [api.open_modules(*read_module_input(path, args.source_format)) for path in paths]
        return [module for modules in read for module in modules]

    modules = {
        "inputs": opened(args.inputs),
        "libraries": opened(args.library),
        "root_libraries": opened(args.root_library),
        "transitive_libraries": opened(args.transitive_library),
    }
    if args.list_symbols:
        _print_symbols(modules, args)
        return EXIT_OK
    if args.mode == "archive":
        write_output(args.output, _archive(modules["inputs"], args))
        return EXIT_OK
    result = _link(modules, args)
    module = result.module
    if args.strip_check:
        _strip_checks(module)
    if args.verify == "true":
        api.verify(module)
    if args.dependency_report is not None:
        write_output(args.dependency_report, _json(_dependency_report(result, modules, args)))
    if bind_config(args, module):
        return EXIT_OK
    if args.print_plan:
        _print_plan(result, args)
        return EXIT_OK
    write_module_output(args.output, module, args.target_format)
    return EXIT_OK


def _archive(modules: Sequence[Linkable], args: argparse.Namespace) -> bytes:
    from loom import api
    from loom.link.member import Member, Role

    whole = [Member(module, Role.INPUT).module().clone() for module in modules]
    for module in whole:
        if args.strip_check:
            _strip_checks(module)
        if args.verify == "true":
            api.verify(module)
    return api.to_archive(whole)


def _link(modules: dict[str, list[Linkable]], args: argparse.Namespace) -> LinkResult:
    from loom.config_values import read_config
    from loom.link.linker import LinkOptions, link
    from loom.plugins.manager import find_target

    merge = args.mode == "merge" or (args.mode == "auto" and not _selects(args))
    rooted = args.root or args.include_input_exports or args.root_library
    options = LinkOptions(
        roots=tuple(root.removeprefix("@") for root in args.root),
        target=find_target(args.target) if args.target else None,
        allow_unresolved=args.allow_unresolved,
        keep_tests=(merge or args.include_input_tests or not rooted) and not args.strip_check,
        merge=merge,
        input_exports=args.include_input_exports,
        config={} if args.print_config_schema else read_config(args.config, args.config_file),
        require_config=args.require_resolved_config,
        strict_deps=args.strict_deps,
    )
    return link(
        modules["inputs"],
        modules["libraries"],
        options,
        root_libraries=modules["root_libraries"],
        transitive_libraries=modules["transitive_libraries"],
    )


def _strip_checks(module: Module) -> None:
    for op in list(module.body):
        if "check" in op.spec.traits:
            op.erase()


def _json(data: Any) -> bytes:
    return (json.dumps(data, indent=2) + "\n").encode()


def _print_plan(result: LinkResult, args: argparse.Namespace) -> None:
    if args.json:
        keys = ("symbol", "reason", "role", "identity", "wanted_by")
        rows = [{key: getattr(entry, key) for key in keys} for entry in result.plan]
        write_output(args.output, _json({"plan": rows}))
    else:
        write_output(args.output, "".join(f"{entry}\n" for entry in result.plan).encode())


def _dependency_report(
    result: LinkResult, modules: dict[str, list[Linkable]], args: argparse.Namespace
) -> dict[str, Any]:
    """What the inputs and libraries took from each library."""
    rows = []
    for member in _members(modules):
        if member.is_library:
            taken = [d for d in result.dependencies if d.library == member.name]
            symbols = [{"symbol": d.symbol, "kind": d.kind, "user": d.user} for d in taken]
            rows.append({"library": member.name, "role": member.role.value, "used": bool(taken), "symbols": symbols})
    rows.sort(key=lambda row: str(row["library"]))
    return {"component": args.dependency_component, "dependencies": rows}


def _members(modules: dict[str, list[Linkable]]) -> list[Member]:
    from loom.link.member import Member, Role

    roles: dict[str, Role] = {
        "inputs": Role.INPUT,
        "libraries": Role.LIBRARY,
        "root_libraries": Role.ROOT_LIBRARY,
        "transitive_libraries": Role.TRANSITIVE,
    }
    return [Member(module, role) for key, role in roles.items() for module in modules[key]]


def _print_symbols(modules: dict[str, list[Linkable]], args: argparse.Namespace) -> None:
    rows = [
        {
            "symbol": name,
            "kind": member.op_name(ordinal),
            "exported": member.is_exported(ordinal),
            "module": member.name,
            "role": member.role.value,
        }
        for member in _members(modules)
        for name, ordinal in member.symbols().items()
    ]
    if args.json:
        write_output(args.output, _json({"symbols": rows}))
    else:
        lines = [f"@{r['symbol']}: {r['kind']}{' exported' if r['exported'] else ''} ({r['module']})\n" for r in rows]
        write_output(args.output, "".join(lines).encode())
