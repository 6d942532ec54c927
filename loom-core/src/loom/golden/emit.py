"""Products that ``emit`` and ``compile-report`` print.

Core knows those that need no target of its own. Every registered artifact format is a product too, if it is text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from loom.golden.model import GoldenError
from loom.ir.diagnostics import did_you_mean

if TYPE_CHECKING:
    from loom.golden.execute import Run
    from loom.ir.core import Module
    from loom.link.linker import LinkResult


def emit(run: Run) -> str:
    """The text of the product that a case names. Raises `GoldenError` for an unknown one."""
    name, *rest = run.case.run.argument.split()
    if rest:
        raise GoldenError(f"'{name}' takes options such as entry=@symbol, but '{rest[0]}' is given", run.line)
    made = _PRODUCTS.get(name)
    return made(run) if made is not None else _artifact(run, name)


def compile_report(run: Run) -> str:
    """The compile report of the case's input."""
    from loom import api
    from loom.report.compile_report import compile_report as report_of

    compilation = api.compile(run.module(verified=True), _entries(run), run.target())
    return json.dumps(report_of(compilation, "summary"), indent=2)


def _entries(run: Run) -> tuple[str, ...]:
    entry = run.case.run.option("entry")
    return (entry,) if entry is not None else run.case.run.every("root")


def _specialized(run: Run) -> str:
    """The program after configuration, target binding, templates and loop policies."""
    from loom import api

    return api.print(api.specialize(run.module(verified=True), run.target(), _entries(run)).module)


def _source_low(run: Run) -> str:
    """The target Low of the selected roots."""
    from loom import api

    wanted = run.case.run.option("output") or "module"
    if wanted not in ("module", "low", "none"):
        raise GoldenError(f"source-low has output=module, low or none, not {wanted}", run.line)
    lowered = api.lower(api.compile(run.module(verified=True), _entries(run), run.target()))
    if lowered is None:
        raise GoldenError("the format of this target has no Low form", run.line)
    if wanted == "low":
        for op in list(lowered.body):
            if not op.name.startswith("low."):
                op.erase()
    return api.print(lowered) if wanted != "none" else ""


def _linked(run: Run) -> str:
    """The module that the input and its libraries make."""
    from loom import api

    return api.print(_link(run).module)


def _link_plan(run: Run) -> str:
    """Why each symbol of the linked module is there."""
    return "\n".join(str(entry) for entry in _link(run).plan)


def _link(run: Run) -> LinkResult:
    from loom.link.linker import LinkOptions, link

    form = run.case.run
    roots = tuple(root.removeprefix("@") for root in form.every("root"))
    options = LinkOptions(roots=roots, target=run.target(), keep_tests=not roots)
    return link([run.module(verified=True)], [_library(run, path) for path in form.every("library")], options)


def _library(run: Run, path: str) -> Module:
    from loom import api

    try:
        return api.load(run.setting.folder / path, display_name=path)
    except OSError as error:
        raise GoldenError(f"the library {path}: {error.strerror or error}", run.line) from None


def _artifact(run: Run, name: str) -> str:
    from loom import api
    from loom.plugins.manager import load_plugins

    known = load_plugins().emitters
    if name not in known:
        hint = did_you_mean(name, [*_PRODUCTS, *known]) or f"known are {', '.join([*_PRODUCTS, *known])}"
        raise GoldenError(f"there is no product '{name}'; {hint}", run.line)
    made = api.compile(run.module(verified=True), _entries(run), run.target(), name, {"format": name})
    try:
        return made.result.primary.data.decode()
    except UnicodeDecodeError:
        raise GoldenError(f"the product '{name}' is no text", run.line) from None


_PRODUCTS: Final[Mapping[str, Callable[[Run], str]]] = {
    "source-low": _source_low,
    "specialized": _specialized,
    "linked": _linked,
    "link-plan": _link_plan,
}
