"""An interpreter of Abacus assembly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

STEP_LIMIT: Final = 1_000_000


class MachineFault(Exception):
    """The program did something the machine has no meaning for."""


def wrap(value: int) -> int:
    """A 32-bit two's complement reading of any integer."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


_MEANINGS: Final[Mapping[str, Callable[..., int]]] = MappingProxyType(
    {
        "add": lambda a, b: wrap(a + b),
        "sub": lambda a, b: wrap(a - b),
        "mul": lambda a, b: wrap(a * b),
        "min": min,
        "max": max,
        "eq": lambda a, b: int(a == b),
        "ne": lambda a, b: int(a != b),
        "lt": lambda a, b: int(a < b),
        "le": lambda a, b: int(a <= b),
        "sel": lambda condition, a, b: a if condition else b,
        "mov": lambda a: a,
    }
)


def functions(text: str) -> dict[str, list[list[str]]]:
    """The statements of each function, a label being a statement of one word that ends in a colon."""
    found: dict[str, list[list[str]]] = {}
    current: list[list[str]] = []
    for line in text.splitlines():
        words = line.replace(",", " ").split()
        if not words or words[0] == ".machine":
            continue
        if words[0] == ".function":
            current = found[words[1]] = []
        else:
            current.append(words)
    return found


def call(statements: Sequence[list[str]], arguments: Sequence[int]) -> list[int]:
    """Run a function from its first statement and return what it returns. Raises :class:`MachineFault`."""
    labels = {words[0][:-1]: number for number, words in enumerate(statements) if words[0].endswith(":")}
    registers = {f"a{number}": wrap(value) for number, value in enumerate(arguments)}
    memory: dict[str, int] = {}
    at = 0
    for _ in range(STEP_LIMIT):
        mnemonic, *words = statements[at]
        at += 1
        if mnemonic.endswith(":"):
            continue
        try:
            if mnemonic == "ret":
                return [registers[word] for word in words]
            if mnemonic == "jump":
                at = labels[words[0]]
            elif mnemonic == "branch":
                at = labels[words[1 if registers[words[0]] else 2]]
            elif mnemonic == "put":
                memory[words[1]] = registers[words[0]]
            elif mnemonic == "get":
                registers[words[0]] = memory[words[1]]
            elif mnemonic == "li":
                registers[words[0]] = wrap(int(words[1]))
            else:
                registers[words[0]] = _MEANINGS[mnemonic](*(registers[word] for word in words[1:]))
        except KeyError as error:
            raise MachineFault(f"'{' '.join([mnemonic, *words])}': nothing is known of {error}") from None
    raise MachineFault(f"the program did not end within {STEP_LIMIT} steps")
