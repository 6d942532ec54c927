"""Name -> operation class. Dialects load on first use; target packages add dialects through their plugin."""

from __future__ import annotations

import importlib
import importlib.util
import keyword
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from loom.ir.core import Op

_OPS: Final[dict[str, type[Op]]] = {}
_LOADED: Final[set[str]] = set()
_EXTERNAL: Final[dict[str, str]] = {}

CORE_DIALECTS: Final = (
    "aie2p",
    "buffer",
    "cfg",
    "channel",
    "check",
    "command",
    "config",
    "encoding",
    "func",
    "global",
    "group",
    "index",
    "kernel",
    "low",
    "metadata",
    "pass",
    "pipeline",
    "pool",
    "sanitizer",
    "scalar",
    "scf",
    "target",
    "template",
    "vector",
    "view",
    "vm",
    "wasm",
)


def register(cls: type[Op]) -> None:
    """Add an operation. Raises ``ValueError`` when another class owns the name."""
    name = cls.name
    owner = _OPS.get(name)
    if owner is not None and (owner.__module__, owner.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(f"operation '{name}' is declared by both {owner.__module__} and {cls.__module__}")
    _OPS[name] = cls


def register_dialect_module(dialect: str, module: str) -> None:
    """Tell which Python module declares the ops of a dialect outside core. Raises ``ValueError`` on a clash."""
    if dialect in CORE_DIALECTS or _EXTERNAL.get(dialect, module) != module:
        raise ValueError(f"dialect '{dialect}' is declared twice")
    _EXTERNAL[dialect] = module


def core_package(dialect: str) -> str:
    """The Python package of one of core's dialects; a name that Python reserves has an underscore behind it."""
    return f"loom.dialects.{dialect}{'_' if keyword.iskeyword(dialect) else ''}"


def load_dialect(dialect: str) -> None:
    """Import the declarations of a dialect if there is one."""
    if dialect in _LOADED:
        return
    if dialect in CORE_DIALECTS:
        importlib.import_module(f"{core_package(dialect)}.ops")
    else:
        from loom.plugins.manager import load_plugins

        load_plugins()
        module = _EXTERNAL.get(dialect)
        if module is not None:
            importlib.import_module(module)
    _LOADED.add(dialect)


def lookup(name: str) -> type[Op] | None:
    """The class of an op name, or ``None`` if nothing declares it."""
    found = _OPS.get(name)
    if found is None:
        load_dialect(name.partition(".")[0])
        found = _OPS.get(name)
    return found


def all_ops() -> dict[str, type[Op]]:
    """Every op of core's dialects and of the installed plugins, by name."""
    from loom.plugins.manager import load_plugins

    load_plugins()
    for dialect in (*CORE_DIALECTS, *_EXTERNAL):
        load_dialect(dialect)
    return dict(sorted(_OPS.items()))


def dialect_names() -> list[str]:
    """Names of core's dialects and of those of the installed plugins."""
    from loom.plugins.manager import load_plugins

    load_plugins()
    return [*CORE_DIALECTS, *_EXTERNAL]


def known_names() -> list[str]:
    """Names of the ops loaded so far, for suggestions."""
    return list(_OPS)
