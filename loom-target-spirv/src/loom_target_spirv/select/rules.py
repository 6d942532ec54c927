"""The two shapes of a selection rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from loom.ir.core import Block, Op
from loom_target_spirv.select.context import Context

Rule: TypeAlias = Callable[[Context, Op], None]
"""Write the instructions of an operation and bind its results."""

RegionRule: TypeAlias = Callable[[Context, Op], Iterator[Block]]
"""The same for an operation with regions: yields a block to have its operations written at that point.

Rules yield instead of recursing, so that nesting is not limited by Python's stack.
"""
