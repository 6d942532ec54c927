"""Reading ``RUN`` directives (language reference, part 3, section 9.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from loom.golden.model import GoldenError, RunForm
from loom.ir.diagnostics import did_you_mean

DEFAULT_RUN: Final = RunForm("roundtrip", "")

# Mode -> what its argument is, empty for a mode without one.
MODES: Final[Mapping[str, str]] = {
    "roundtrip": "",
    "verify": "",
    "pass": "passes such as canonicalize,cse",
    "pass-report": "passes such as canonicalize,cse",
    "format": "'bytecode' or 'text'",
    "emit": "a product such as source-low",
    "compile-report": "",
}
# Option -> the modes that take it, and whether it may be given several times.
OPTIONS: Final[Mapping[str, tuple[frozenset[str], bool]]] = {
    "target": (frozenset({"pass", "pass-report", "emit", "compile-report"}), False),
    "entry": (frozenset({"emit", "compile-report"}), False),
    "output": (frozenset({"emit"}), False),
    "root": (frozenset({"emit"}), True),
    "library": (frozenset({"emit"}), True),
}
_MODIFIERS: Final = ("with-locations", "with-checks")
_WORD: Final = re.compile(r"(?:[^\s{]|\{[^}]*\})+")
_OPTION: Final = re.compile(r"([a-z][a-z-]*)=(.*)\Z", re.DOTALL)


def read_run(text: str, line: int) -> RunForm:
    """What a directive asks for. Raises `GoldenError` for anything but a known mode with its argument and options."""
    words = _WORD.findall(text)
    modifiers = []
    while words and words[0] in _MODIFIERS:
        modifiers.append(words.pop(0))
    if not words:
        raise GoldenError(f"RUN needs a mode: {', '.join(MODES)}", line)
    mode = words.pop(0)
    if mode not in MODES:
        hint = did_you_mean(mode, MODES) or f"known are {', '.join(MODES)}"
        raise GoldenError(f"there is no mode '{mode}'; {hint}", line)
    options: list[tuple[str, str]] = []
    while words and (option := _OPTION.match(words[-1])) is not None:
        options.insert(0, _checked(mode, option.group(1), option.group(2), line))
        words.pop()
    for name, _ in options:
        if not OPTIONS[name][1] and [key for key, _ in options].count(name) > 1:
            raise GoldenError(f"the option '{name}' is given twice", line)
    argument = " ".join(words)
    if MODES[mode] and not argument:
        raise GoldenError(f"'{mode}' needs {MODES[mode]}", line)
    if not MODES[mode] and argument:
        raise GoldenError(f"'{mode}' takes no argument, but '{argument}' is given", line)
    return RunForm(mode, argument, tuple(options), "with-locations" in modifiers, "with-checks" in modifiers)


def _checked(mode: str, name: str, value: str, line: int) -> tuple[str, str]:
    if name not in OPTIONS:
        hint = did_you_mean(name, OPTIONS) or f"known are {', '.join(OPTIONS)}"
        raise GoldenError(f"there is no option '{name}'; {hint}", line)
    if mode not in OPTIONS[name][0]:
        raise GoldenError(f"'{mode}' takes no option '{name}'", line)
    if not value:
        raise GoldenError(f"the option '{name}' needs a value", line)
    return name, value
