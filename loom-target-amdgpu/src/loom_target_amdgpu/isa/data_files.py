"""Access to the data files of this package, by line."""

from __future__ import annotations

import os
from functools import cache

FAMILIES = ("gfx942", "gfx11", "gfx12")

_DATA = os.path.join(os.path.dirname(__file__), "data")


def read_lines(name: str) -> list[str]:
    """Lines of a data file without its header line."""
    # Decoded at once: reading as text looks at every line end twice.
    with open(os.path.join(_DATA, name), "rb") as file:
        return file.read().decode("ascii").splitlines()[1:]


@cache
def family_records(name: str, family: str) -> tuple[tuple[str, ...], ...]:
    """Records of a data file whose first column is ``family``, without that column.

    Only for files without quoted fields.

    Raises:
        KeyError: the family has no tables.
    """
    if family not in FAMILIES:
        raise KeyError(f"no instruction tables for family '{family}'; known: {', '.join(FAMILIES)}")
    return tuple(tuple(line.split(",")[1:]) for line in read_lines(name) if line.startswith(family + ","))
