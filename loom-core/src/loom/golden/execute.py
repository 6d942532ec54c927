"""Running what a ``RUN`` directive asks for (language reference, part 3, section 9.2)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

from loom.golden.model import Case, GoldenError

if TYPE_CHECKING:
    from loom.config_values import ConfigValue
    from loom.ir.core import Module
    from loom.plugins.records import TargetProfile


@frozen
class Setting:
    """Where a case runs: the folder that paths start from, a target for cases that name none, configuration values."""

    folder: Path
    target: str | None = None
    config: Mapping[str, ConfigValue] = field(factory=dict)


@frozen
class Run:
    """One case on its way through a mode."""

    case: Case
    setting: Setting
    name: str

    @property
    def line(self) -> int:
        """The line that asked for this run."""
        return self.case.run_directive.line if self.case.run_directive is not None else self.case.line

    def module(self, *, verified: bool) -> Module:
        """The module of the case's input, with bound configuration keys. Raises `LoomError` for bad input."""
        from loom import api
        from loom.specialize.configuration import bind_values

        if self.case.input_format == "bytecode":
            module = api.load_bytes(self._bytes(), self.name)
        else:
            module = api.parse(self._text(), self.name)
            if verified:
                api.verify(module)
        # Values are for all files of a run: each program takes those that it has keys for.
        bind_values(module, self.setting.config)
        return module

    def target(self) -> TargetProfile | None:
        """The target of the case. Raises `LoomError` when it is not installed."""
        from loom.plugins.manager import find_target

        name = self.case.run.option("target") or self.setting.target
        return find_target(name) if name is not None else None

    def text(self, module: Module) -> str:
        """A module as the case wants to see it: with the locations of its operations or without."""
        from loom.text.printer import print_module

        return print_module(module, locations=self.case.run.with_locations)

    def _text(self) -> str:
        # Locations that are shown count the lines of the file.
        return "\n" * (self.case.first_line - 1) * self.case.run.with_locations + self.case.input

    def _bytes(self) -> bytes:
        digits = "".join(line.partition("//")[0] for line in self.case.input.splitlines())
        try:
            return bytes.fromhex(digits)
        except ValueError as error:
            raise GoldenError(f"the input is not hexadecimal: {error}", self.case.first_line) from None


def execute(case: Case, setting: Setting, name: str) -> str | None:
    """What a case makes, ``None`` in a mode that only diagnoses.

    Raises `LoomError` for what the case is diagnosed with, and `GoldenError` when it cannot be run as written.
    """
    if case.run.with_locations and case.run.mode not in _PRINTED:
        modes = ", ".join(sorted(_PRINTED))
        raise GoldenError(f"with-locations is for modes that print a program: {modes}", case.line)
    return _MODES[case.run.mode](Run(case, setting, name))


def _roundtrip(run: Run) -> str:
    from loom import api

    first = run.text(run.module(verified=False))
    second = run.text(api.parse(first, "printed text"))
    if second != first:
        raise GoldenError("printing is no fixed point: the printed text prints differently", run.line)
    return first


def _verify(run: Run) -> None:
    run.module(verified=True)


def _pass(run: Run) -> str:
    module = run.module(verified=True)
    _run_passes(run, module, measure=False)
    return run.text(module)


def _pass_report(run: Run) -> str:
    rows = _run_passes(run, run.module(verified=True), measure=True)
    for row in rows:
        # Times are different in each run.
        row["duration_ns"] = 0
    return json.dumps({"invocations": rows}, indent=2)


def _run_passes(run: Run, module: Module, *, measure: bool) -> list[dict[str, object]]:
    from loom.passes.model import Context
    from loom.passes.requests import read_requests
    from loom.passes.run import Runner

    try:
        requests = read_requests(run.case.run.argument)
    except ValueError as error:
        raise GoldenError(str(error), run.line) from None
    runner = Runner(module, Context(run.target()), measure=measure)
    runner.run(requests)
    return [invocation.row() for invocation in runner.invocations]


def _format(run: Run) -> str:
    from loom import api

    form = run.case.run.argument
    module = run.module(verified=True)
    if form == "bytecode":
        return run.text(api.load_bytes(api.to_bytecode(module), run.name))
    if form == "text":
        return run.text(api.load_bytes(run.text(module).encode(), run.name))
    raise GoldenError(f"there is no format '{form}'; known are bytecode, text", run.line)


def _emit(run: Run) -> str:
    from loom.golden.emit import emit

    return emit(run)


def _compile_report(run: Run) -> str:
    from loom.golden.emit import compile_report

    return compile_report(run)


_MODES: Final[Mapping[str, Callable[[Run], str | None]]] = {
    "roundtrip": _roundtrip,
    "verify": _verify,
    "pass": _pass,
    "pass-report": _pass_report,
    "format": _format,
    "emit": _emit,
    "compile-report": _compile_report,
}

_PRINTED: Final = frozenset({"roundtrip", "pass", "format"})

CANONICAL_INPUT: Final = frozenset({"roundtrip", "format"})
"""Modes whose input is what they expect when a case has no expected section."""


def is_met(requirement: str) -> bool:
    """Whether something that a case requires is installed: a target, a family of targets, a format or a device."""
    from loom.plugins.manager import load_plugins

    found = load_plugins()
    families = {profile.family for profile in found.targets.values()}
    return requirement in families or any(
        requirement in registry for registry in (found.targets, found.emitters, found.devices)
    )
