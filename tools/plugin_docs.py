"""docs/plugins.md, written from the hook specifications and the records that hooks return.

    python tools/plugin_docs.py            write docs/plugins.md
    python tools/plugin_docs.py --check    fail when it is not current
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PLUGINS: Final = ROOT / "loom-core" / "src" / "loom" / "plugins"
REPORT: Final = ROOT / "docs" / "plugins.md"

HEADER: Final = """\
# Plugins

Written by `tools/plugin_docs.py` from `loom.plugins.hookspecs` and `loom.plugins.records`; do not edit.

Everything that Loom can be extended by is a hook of [pluggy](https://pluggy.readthedocs.io). The packages of this
repository use the same hooks as anybody else; [examples/target-plugin](../examples/target-plugin/README.md) is a
complete target outside of it. `loom-plugins` lists what is installed and what each plugin registers.

A name that two plugins register, a plugin that raises while it loads, and a plugin for another API version are errors
that name the plugin.

"""


def render() -> str:
    """The text of docs/plugins.md."""
    hooks = ast.parse((PLUGINS / "hookspecs.py").read_text())
    records = ast.parse((PLUGINS / "records.py").read_text())
    parts = [HEADER, "## A plugin\n\n", prose(ast.get_docstring(hooks) or ""), "\n## Hooks\n"]
    for function in functions(hooks):
        parts.append(f"\n### `{function.name}`\n\n")
        parts.append(f"Returns `{annotation(function)}`.\n\n" + prose(ast.get_docstring(function) or ""))
    parts.append("\n## What hooks return\n")
    for record in classes(records):
        parts.append(f"\n### `{record.name}`\n\n" + prose(ast.get_docstring(record) or ""))
        rows = list(members(record))
        if rows:
            parts.append("\n```python\n" + "\n".join(rows) + "\n```\n")
    return "".join(parts)


def functions(tree: ast.Module) -> list[ast.FunctionDef]:
    """The hook specifications, in order."""
    return [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("loom_")]


def classes(tree: ast.Module) -> list[ast.ClassDef]:
    """The records, in order."""
    return [node for node in tree.body if isinstance(node, ast.ClassDef)]


def annotation(function: ast.FunctionDef) -> str:
    """What a hook returns."""
    assert function.returns is not None
    return ast.unparse(function.returns)


def members(record: ast.ClassDef) -> Iterator[str]:
    """Fields with their types and defaults, and the signatures of methods."""
    for node in record.body:
        if isinstance(node, ast.AnnAssign):
            yield ast.unparse(node)
        elif isinstance(node, ast.FunctionDef):
            returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
            prefix = "@property\n" if any(ast.unparse(d) == "property" for d in node.decorator_list) else ""
            yield f"{prefix}def {node.name}({ast.unparse(node.args)}){returns}: ..."


def prose(docstring: str) -> str:
    """A docstring as Markdown: literals and roles become code, an indented block behind ``::`` a code block."""
    text = re.sub(r":\w+:`~?([^`]*)`", r"`\1`", docstring).replace("``", "`")
    found, _, block = text.partition("::\n\n")
    if not block:
        return text.rstrip() + "\n"
    return f"{found.rstrip()}:\n\n```python\n{textwrap.dedent(block).rstrip()}\n```\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description="Write docs/plugins.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the page is not current")
    text = render()
    if not parser.parse_args(argv).check:
        REPORT.write_text(text)
        return 0
    if REPORT.exists() and REPORT.read_text() == text:
        return 0
    print(f"{REPORT.relative_to(ROOT)} is not current: run python tools/plugin_docs.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
