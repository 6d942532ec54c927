"""docs/dialects and the coverage tables of docs, written from the op declarations and what implements them.

    python tools/write_dialect_pages.py            write the pages
    python tools/write_dialect_pages.py --check    fail when one is not current

Pages of target packages and the coverage tables need those packages installed; what is not installed is left as it is.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import attrs

from loom.editor.pages import by_dialect, dialect_page, index_page
from loom.ir.core import Op
from loom.spec.model import OpSpec
from loom.spec.registry import all_ops

ROOT: Final = Path(__file__).resolve().parents[1]
GENERATOR: Final = "tools/write_dialect_pages.py"
DOCS: Final = ROOT / "docs"

# The packages of this repository that declare ops: import package -> distribution.
PACKAGES: Final[Mapping[str, str]] = {
    "loom": "loom-core",
    "loom_target_amdgpu": "loom-target-amdgpu",
    "loom_target_spirv": "loom-target-spirv",
    "loom_target_x86": "loom-target-x86",
}
TARGETS: Final = {"amdgpu": "loom_target_amdgpu", "x86": "loom_target_x86", "spirv": "loom_target_spirv"}

YES: Final = "✓"
"""Implemented."""
NOT_MEANT: Final = "-"
"""Nothing to implement here."""
MISSING: Final = ""
"""Not implemented."""

COVERAGE_HEAD: Final = f"""\
# Coverage of the operations

Written by `{GENERATOR}`; do not edit. {YES} is there, {NOT_MEANT} is not meant to be, and an empty cell is missing.
What the targets select stands in [target-coverage.md](target-coverage.md).

| column | {YES} means | {NOT_MEANT} means |
|---|---|---|
| parsed | a reader and a printer are made from the declaration | |
| verified | checks are made from the declaration; {YES}+ adds rules of the operation's own | |
| evaluated | the reference evaluator or the check runner has a rule | it ends a block, defines, declares, records or \
hints, is a command, or is target Low |
| documented | the declaration has a summary | |
| tested | its name occurs in a test or an example, whole or put together from its dialect and the rest | |

A rule may still refuse some types or attribute values, with a diagnostic.

"""

TARGETS_HEAD: Final = f"""\
# What the targets select

Written by `{GENERATOR}`; do not edit. {YES}: instruction selection of the target has a rule, which may still refuse
some types or attribute values. {NOT_MEANT}: the operation ends a block, defines, declares, records or hints, is a
command, is target Low, runs in a check, or is resolved before selection. An empty cell: a program that uses the
operation gets a diagnostic at its place.

"""

# An op with one of these traits is no step of a computation: what holds or reaches it gives it its meaning.
_NO_STEP: Final = frozenset({"symbol", "module_record", "terminator", "hint", "low", "command"})
_NO_STEP_DIALECTS: Final = frozenset({"low", "command", "pass"})
# Specialization answers or expands these before any target sees them.
_RESOLVED: Final = frozenset({"config.get", "target.subgroup.size", "template.apply", "template.call"})
_BRANCHES: Final = ("cfg.br", "cfg.cond_br")
# The runner of scenarios runs these itself.
_PARTS_OF_SCENARIOS: Final = frozenset({"check.trial"})


@attrs.frozen
class Column:
    """A column of the table: its title and the cell of an op."""

    title: str
    cell: Callable[[type[Op]], str]


def columns() -> list[Column]:
    """The columns about the language, in order."""
    return [
        Column("parsed", _parsed),
        Column("verified", _verified),
        Column("evaluated", _evaluated),
        Column("documented", lambda cls: YES if cls.spec.summary else MISSING),
        Column("tested", lambda cls: YES if cls.name in _tested_names() else MISSING),
    ]


def coverage_page() -> str:
    """The text of docs/coverage.md."""
    return COVERAGE_HEAD + _table(columns(), _repository_ops())


def target_columns() -> list[Column]:
    """A column for each target."""
    return [Column(title, _selection(title)) for title in TARGETS]


def targets_page() -> str:
    """The text of docs/target-coverage.md, without the ops that no target is meant to select."""
    titles = target_columns()
    ops = [cls for cls in _repository_ops() if any(column.cell(cls) != NOT_MEANT for column in titles)]
    return TARGETS_HEAD + _table(titles, ops)


def _table(titles: Sequence[Column], ops: Sequence[type[Op]]) -> str:
    rows = [(cls.name, [column.cell(cls) for column in titles]) for cls in ops]
    totals = []
    for index, column in enumerate(titles):
        cells = [row[index] for _, row in rows]
        meant = [cell for cell in cells if cell != NOT_MEANT]
        empty = meant.count(MISSING)
        totals.append(f"| {column.title} | {len(meant) - empty} of {len(meant)} | {empty} |")
    lines = [f"| | of {len(ops)} operations | empty |", "|---|---|---|", *totals]
    for dialect, specs in by_dialect(cls.spec for cls in ops).items():
        names = {spec.name for spec in specs}
        lines += [
            "",
            f"## [`{dialect}`](dialects/{dialect}.md)",
            "",
            f"| operation | {' | '.join(column.title for column in titles)} |",
            "|---" * (len(titles) + 1) + "|",
            *(f"| `{name}` | {' | '.join(cells)} |" for name, cells in rows if name in names),
        ]
    return "\n".join(lines) + "\n"


def _parsed(cls: type[Op]) -> str:
    from loom.text.codegen import make_printer, make_reader

    try:
        make_reader(cls)
        make_printer(cls)
    except (KeyError, ValueError):  # a directive that nothing reads, or a format that is not well formed
        return MISSING
    return YES


def _verified(cls: type[Op]) -> str:
    from loom.verify.compiled import check_of

    try:
        check_of(cls)
    except (KeyError, ValueError):  # a rule about a field that is not declared
        return MISSING
    return YES if cls.spec.verify is None else f"{YES}+"


def _is_no_step(cls: type[Op]) -> bool:
    return bool(cls.spec.traits & _NO_STEP) or cls.spec.dialect in _NO_STEP_DIALECTS


def _evaluated(cls: type[Op]) -> str:
    from loom.check.plan_rules import RULES
    from loom.evaluate.rules import find_rule

    # Rules are found by the op's class; an op without content serves for that.
    if cls.name in RULES or cls.name in _PARTS_OF_SCENARIOS or find_rule(cls.__new__(cls)) is not None:
        return YES
    return NOT_MEANT if _is_no_step(cls) else MISSING


def _selection(title: str) -> Callable[[type[Op]], str]:
    def cell(cls: type[Op]) -> str:
        if cls.name in _selected(title):
            return YES
        # Branches between blocks end them, but a target does or does not take such graphs.
        if cls.name in _BRANCHES:
            return MISSING
        elsewhere = _is_no_step(cls) or cls.name in _RESOLVED or cls.spec.dialect == "check"
        return NOT_MEANT if elsewhere else MISSING

    return cell


@cache
def _selected(title: str) -> frozenset[str]:
    """The ops that a target's instruction selection has rules for."""
    return _SELECTED[title]() | {name for name in _BRANCHES if _selection_names(title, name)}


def _selection_names(title: str, name: str) -> bool:
    """Whether the selection code of a target compares with an op's name; terminators have no entry in its table."""
    spec = importlib.util.find_spec(TARGETS[title])
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "select"
    return any(f'"{name}"' in path.read_text() for path in sorted(folder.glob("*.py")))


def _amdgpu() -> frozenset[str]:
    from loom_target_amdgpu.select.selector import RULES

    return RULES.names()


def _x86() -> frozenset[str]:
    from loom_target_x86.select.rules import load_rules

    return frozenset(load_rules())


def _spirv() -> frozenset[str]:
    from loom_target_spirv.select.control import REGION_RULES
    from loom_target_spirv.select.kernel import KERNEL_REGION_RULES
    from loom_target_spirv.select.lowering import rules
    from loom_target_spirv.select.scalar import has_lane_rule

    lanewise = {
        name for name in all_ops() if name.startswith(("scalar.", "vector.")) and has_lane_rule(name.partition(".")[2])
    }
    return frozenset(rules()) | frozenset(REGION_RULES) | frozenset(KERNEL_REGION_RULES) | lanewise


_SELECTED: Final[Mapping[str, Callable[[], frozenset[str]]]] = {"amdgpu": _amdgpu, "x86": _x86, "spirv": _spirv}

_DOTTED: Final = re.compile(r"(?<![\w.@%#^-])[a-z]\w*(?:\.\w+)+(?![\w.]*\w)")
# In Python: the start of a name that is completed from a table, and the strings that may hold the rest.
_PREFIX: Final = re.compile(r"(?<![\w.@%#^-])([a-z]\w*(?:\.\w+)*)\.\{")
_WORDS: Final = re.compile(r'"([a-z][\w.]*(?: [a-z][\w.]*)*)"')


@cache
def _tested_names() -> frozenset[str]:
    """Every dotted word of tests and examples, also those that a test composes, and every op of their programs."""
    found: set[str] = set()
    for path in _test_files():
        text = path.read_text()
        if path.suffix == ".loom":
            found.update(_ops_of(text))
        found.update(_DOTTED.findall(text))
        prefixes = set(_PREFIX.findall(text))
        words = {word for group in _WORDS.findall(text) for word in group.split()} if prefixes else set()
        found.update(f"{prefix}.{word}" for prefix in prefixes for word in words)
    return frozenset(found)


def _ops_of(text: str) -> set[str]:
    """The ops of a program; Low and pipelines of passes have spellings without the full name."""
    from loom.ir.diagnostics import LoomError
    from loom.text.parser import parse_module

    try:
        return {op.name for op in parse_module(text).walk()}
    except LoomError:  # a program that shows an error
        return set()


def _test_files() -> Iterator[Path]:
    roots = [ROOT / "tests", ROOT / "examples", *sorted(ROOT.glob("loom-*/tests"))]
    for root in roots:
        for path in sorted(root.rglob("*")):
            if path.suffix in (".py", ".loom", ".loom-test") and "src" not in path.relative_to(ROOT).parts:
                yield path


def _repository_ops() -> list[type[Op]]:
    """The ops of this repository's packages; others may be installed beside them."""
    return [cls for cls in all_ops().values() if cls.__module__.partition(".")[0] in PACKAGES]


def pages() -> dict[str, str]:
    """Every page that can be written with what is installed, by its path in the documentation."""
    found: dict[str, str] = {}
    missing = _missing()
    index: dict[str, tuple[str, list[OpSpec]]] = {}
    classes = {cls.name: cls for cls in _repository_ops()}
    for dialect, specs in by_dialect(cls.spec for cls in classes.values()).items():
        origin = PACKAGES[classes[specs[0].name].__module__.partition(".")[0]]
        index[dialect] = (origin, specs)
        found[f"dialects/{dialect}.md"] = dialect_page(dialect, specs, origin, GENERATOR)
    if not missing:
        found["dialects/README.md"] = index_page(index, GENERATOR)
        found["coverage.md"] = coverage_page()
        found["target-coverage.md"] = targets_page()
    return found


def _missing() -> list[str]:
    return [name for module, name in PACKAGES.items() if importlib.util.find_spec(module) is None]


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(description="Write docs/dialects, docs/coverage.md and docs/target-coverage.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page is not current")
    check = parser.parse_args(argv).check
    missing = _missing()
    if missing:
        print(f"note: without {', '.join(missing)} neither their pages nor the coverage tables", file=sys.stderr)
    wanted = pages()
    present = {f"dialects/{path.name}" for path in (DOCS / "dialects").glob("*.md")}
    # A page whose dialect is gone misleads; with packages missing one cannot tell.
    superfluous = sorted(present - set(wanted)) if not missing else []
    stale = [name for name, text in wanted.items() if not _is_current(DOCS / name, text)]
    if check:
        for name in (*stale, *superfluous):
            print(f"docs/{name} is not current: run python {GENERATOR}", file=sys.stderr)
        return 1 if stale or superfluous else 0
    for name in stale:
        path = DOCS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[name])
    for name in superfluous:
        (DOCS / name).unlink()
    return 0


def _is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
