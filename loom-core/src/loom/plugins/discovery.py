"""Finding installed plugins: entry points of the group ``loom`` in what packages say about themselves.

:mod:`importlib.metadata` finds the same, but loads the parsers of mail messages and archives for it, which takes a
command longer than reading its program. Folders on the path are therefore read here, as the specification of entry
points (Python Packaging User Guide, "Entry points specification") describes them; only a path with archives is left
to the library.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from loom.ir.records import record

ENTRY_POINT_GROUP: Final = "loom"

_SUFFIXES: Final = (".dist-info", ".egg-info")
# The file with name and version of a package, by the suffix of its folder.
_HEADS: Final = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}


class Distribution(Protocol):
    """The installed package of a plugin."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...


class EntryPoint(Protocol):
    """What :class:`importlib.metadata.EntryPoint` has, too."""

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def dist(self) -> Distribution | None: ...
    def load(self) -> Any: ...


@record
class InstalledPackage:
    """Name and version of a package as its metadata has them."""

    name: str
    version: str


@record
class PluginEntry:
    """An entry point ``name = module[:attribute]`` and the folder of metadata that it comes from."""

    name: str
    value: str
    folder: str

    @property
    def dist(self) -> InstalledPackage:
        """The package that has the entry point."""
        suffix = os.path.splitext(self.folder)[1]
        found = {"Name": "?", "Version": "?"}
        with open(os.path.join(self.folder, _HEADS[suffix]), encoding="utf-8") as file:
            for line in file:
                key, colon, value = line.partition(":")
                if not colon:
                    # The headers end where the description begins.
                    break
                found.setdefault(key, "")
                if key in ("Name", "Version"):
                    found[key] = value.strip()
        return InstalledPackage(found["Name"], found["Version"])

    def load(self) -> Any:
        """Import what the entry point names."""
        module, _, attributes = self.value.partition(":")
        found: Any = importlib.import_module(module.strip())
        for attribute in filter(None, attributes.strip().split(".")):
            found = getattr(found, attribute)
        return found


def entry_points(path: Sequence[str] | None = None) -> list[EntryPoint]:
    """The entry points of the group on a path (``sys.path``), by name. The first folder of a package counts."""
    folders = [folder or os.curdir for folder in (sys.path if path is None else path)]
    if any(os.path.isfile(folder) for folder in folders):
        import importlib.metadata

        packages = {d.metadata["Name"]: d for d in reversed(list(importlib.metadata.distributions(path=folders)))}
        found = [e for package in packages.values() for e in package.entry_points.select(group=ENTRY_POINT_GROUP)]
        return sorted(found, key=lambda entry: entry.name)
    entries: list[EntryPoint] = [entry for folder in _packages(folders) for entry in _entries(folder)]
    return sorted(entries, key=lambda entry: entry.name)


def _packages(folders: Sequence[str]) -> Iterator[str]:
    """The folders of metadata, one for each package."""
    seen: set[str] = set()
    for folder in dict.fromkeys(folders):
        try:
            names = os.listdir(folder)
        except OSError:
            # The path may name folders that are not there.
            continue
        for name in sorted(names):
            if name.endswith(_SUFFIXES):
                package = os.path.splitext(name)[0].partition("-")[0].lower().replace(".", "_")
                if package not in seen:
                    seen.add(package)
                    yield os.path.join(folder, name)


def _entries(folder: str) -> Iterator[PluginEntry]:
    try:
        with open(os.path.join(folder, "entry_points.txt"), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        # Most packages have no entry points, and old ones are a single file.
        return
    group = None
    for line in map(str.strip, lines):
        if line.startswith("["):
            group = line.strip("[] ")
        elif group == ENTRY_POINT_GROUP and line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            # Extras that an entry point asks for stand in brackets and have no meaning any more.
            yield PluginEntry(name.strip(), value.partition("[")[0].strip(), folder)
