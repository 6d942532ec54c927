"""``loom-plugins``: what is installed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from loom.tools.common import EXIT_OK, make_parser, run_tool

EXAMPLES = """\
  loom-plugins           plugins with what they register
  loom-plugins --json    the same for machines
"""

TITLES = {
    "targets": "targets", "emitters": "formats", "devices": "devices", "descriptor_sets": "descriptor sets",
    "schedulers": "schedulers", "requirement_providers": "requirement providers", "oracles": "oracles",
    "validators": "validators", "encodings": "encodings", "dialects": "dialects",
}  # fmt: skip


def build_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = make_parser("loom-plugins", "List installed Loom plugins and what they register.", EXAMPLES)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point."""
    args = build_parser().parse_args(argv)
    return run_tool("loom-plugins", lambda: _run(args.json))


def _run(as_json: bool) -> int:
    from loom.plugins.manager import load_plugins

    plugins = load_plugins().plugins
    if as_json:
        rows = [
            {
                "name": p.name,
                "distribution": p.package.name,
                "version": p.package.version,
                "module": p.module,
                "registered": {TITLES[k]: list(v) for k, v in p.registered.items()},
            }
            for p in plugins
        ]
        sys.stdout.write(json.dumps({"plugins": rows}, indent=2) + "\n")
        return EXIT_OK
    for plugin in plugins:
        sys.stdout.write(f"{plugin.name} ({plugin.package.name} {plugin.package.version})\n")
        for attribute, names in plugin.registered.items():
            sys.stdout.write(f"  {TITLES[attribute]}: {', '.join(names)}\n")
    return EXIT_OK
