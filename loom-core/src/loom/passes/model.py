"""What a pass is: its key, where it runs, its options, and what it reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from loom.ir.diagnostics import Diagnostic, Location, LoomError, did_you_mean

if TYPE_CHECKING:
    from loom.facts.version import Version
    from loom.ir.core import Module, Op
    from loom.plugins.records import TargetProfile

FUNCTIONS: Final = ("func.def", "kernel.def", "pipeline.def", "template.def")
"""The function-like symbols that function passes run on."""
LOW_FUNCTIONS: Final = ("low.func.def", "low.kernel.def")
"""Those that passes on target Low run on."""


@attrs.frozen
class Context:
    """What a pass may know besides the module: the target, if there is one, and the roots of a product, if chosen."""

    target: TargetProfile | None = None
    roots: tuple[str, ...] = ()
    versions: dict[Op, Version] = attrs.field(factory=dict, eq=False, repr=False)
    """The functions that passes have asked facts of, as long as they are what they were."""

    @property
    def facts(self) -> Mapping[str, object]:
        """The normalized facts of the target."""
        return self.target.facts if self.target is not None else {}

    def version(self, function: Op) -> Version:
        """A function with its facts, which passes share until one says that it changed."""
        found = self.versions.get(function)
        if found is None:
            from loom.facts.version import Version

            found = self.versions[function] = Version(function, self.facts)
        return found

    def changed(self, anchor: Op | Module) -> None:
        """Forget what is known of a function that changed, or of all when the module did: functions call others."""
        from loom.ir.core import Module

        if isinstance(anchor, Module):
            self.versions.clear()
        else:
            self.versions.pop(anchor, None)


class Detail(Protocol):
    """A decision of a pass, as reports show it."""

    def row(self) -> Mapping[str, object]:
        """The row of a report; its ``category`` says what kind of decision it is."""
        ...


@attrs.frozen
class Outcome:
    """What one run of a pass tells: single decisions, and counters."""

    details: Sequence[Detail] = ()
    statistics: Mapping[str, int] = attrs.field(factory=dict)
    changed: bool = True
    """Whether the pass may have changed something; what others know stays when it did not."""


@attrs.frozen
class Option:
    """An option of a pass: an integer with a least value, one of some words, or a list of them (``several``)."""

    name: str
    minimum: int | None = None
    words: tuple[str, ...] = ()
    several: bool = False
    meaning: str = ""

    @property
    def kind(self) -> str:
        """``enum``, ``enum_list`` or ``int``."""
        if self.several:
            return "enum_list"
        return "enum" if self.words else "int"

    def fault(self, value: object) -> str | None:
        """What is wrong with a value, if something is."""
        if self.several:
            given = value if isinstance(value, tuple) else (value,)
            return None if set(given) <= set(self.words) else f"a list of: {', '.join(self.words)}"
        if self.words:
            return None if value in self.words else f"one of: {', '.join(self.words)}"
        if not isinstance(value, int) or isinstance(value, bool):
            return "an integer"
        if self.minimum is not None and value < self.minimum:
            return f"at least {self.minimum}"
        return None

    def row(self) -> dict[str, object]:
        """The option in the list of passes."""
        row: dict[str, object] = {"name": self.name, "kind": self.kind, "required": False}
        if self.minimum is not None:
            row["minimum"] = self.minimum
        if self.words:
            row["values"] = list(self.words)
        return row


Options = Mapping[str, Any]


@attrs.frozen
class PassInfo:
    """A pass: its key, what it runs on, and what it does to a module.

    A ``function`` pass runs on one function with a body at a time, a ``module`` pass on the whole module. Passes that
    need exact values leave templates alone (``templates`` is false): only their instantiations have them. Passes on
    target Low (``low``) run on Low functions and no others.
    """

    key: str
    kind: str
    description: str
    run: Callable[[Any, Module, Context, Options], Outcome | None]
    options: tuple[Option, ...] = ()
    statistics: tuple[str, ...] = ()
    templates: bool = True
    needs_target: bool = False
    low: bool = False

    def check_options(self, given: Mapping[str, object], location: Location) -> dict[str, object]:
        """The options by their declared names, in which ``-`` and ``_`` are the same.

        Raises ``LoomError`` for an unknown option or a value that it does not take.
        """
        known = {option.name.replace("-", "_"): option for option in self.options}
        found: dict[str, object] = {}
        for name, value in given.items():
            option = known.get(name.replace("-", "_"))
            if option is None:
                names = [o.name for o in self.options]
                raise _bad(
                    "STRUCTURE/027",
                    f"the pass '{self.key}' has no option '{name}'",
                    location,
                    name,
                    value,
                    f"one of: {', '.join(names)}" if names else "no options",
                    did_you_mean(name, names),
                )
            fault = option.fault(value)
            if fault is not None:
                text = f"the option '{option.name}' of '{self.key}' is {value}, but must be {fault}"
                raise _bad("STRUCTURE/014", text, location, option.name, value, fault, None)
            found[option.name] = value
        return found

    def describe(self, context: Context) -> dict[str, object]:
        """The pass in the list of passes (language reference, part 3, section 8.3)."""
        row: dict[str, object] = {"key": self.key, "kind": self.kind, "description": self.description}
        row["available"] = not self.needs_target or context.target is not None
        if not row["available"]:
            row["unavailable_reason"] = "needs a target: give --target"
        row["options"] = [option.row() for option in self.options]
        row["statistics"] = list(self.statistics)
        row["requirements"] = [{"capability": "target", "name": "any"}] if self.needs_target else []
        return row


def _bad(
    code: str, message: str, location: Location, name: str, value: object, expected: str, hint: str | None
) -> LoomError:
    params = {"attr_name": name, "actual_value": str(value), "expected_constraint": expected}
    return LoomError([Diagnostic(code, message, location, params, hint=hint, emitter="pass-manager")])


def anchors(info: PassInfo, module: Module) -> list[Any]:
    """What a pass runs on: the module, or its functions with bodies."""
    return [module] if info.kind == "module" else [op for op in functions(module) if takes(info, op)]


def functions(module: Module) -> list[Op]:
    """The function-like symbols of a module, those of target Low among them, in order."""
    return [op for op in module.body if op.name in FUNCTIONS or op.name in LOW_FUNCTIONS]


def takes(info: PassInfo, function: Op) -> bool:
    """Whether a function pass has something to do in a function."""
    if info.low or function.name in LOW_FUNCTIONS:
        return info.low and function.name in LOW_FUNCTIONS
    return info.templates or function.name != "template.def"
