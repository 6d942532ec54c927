"""Declarations of the ``vector`` dialect (language reference, part 2, sections 6 to 10), one file per family."""

from __future__ import annotations

from loom.dialects.vector import combine, construct, lanewise, matrix, memory
from loom.dialects.vector.combine import Reduce
from loom.dialects.vector.memory import Load, Store

__all__ = ["Load", "Reduce", "Store", "combine", "construct", "lanewise", "matrix", "memory"]
