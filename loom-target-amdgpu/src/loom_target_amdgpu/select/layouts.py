"""Strides of views whose layout is not dense."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loom.ir.core import Op, Value
from loom.ir.types import ShapedType
from loom.text.directives import index_entries

if TYPE_CHECKING:
    from loom_target_amdgpu.select.selector import Selector


def layout_strides(s: Selector, op: Op, type_: ShapedType) -> list[int | Value]:
    """Element strides: from a static attribute, or from the op that made the layout.

    Raises:
        LoomError: a layout that is not strided.
    """
    encoding: Any = type_.encoding
    family = getattr(encoding, "family", None)
    if family == "encoding.layout.strided":
        strides = encoding.param("strides")
        if strides is not None:
            return [int(stride) for stride in strides]
    maker = getattr(encoding, "defining_op", None)
    if maker is not None and maker.name == "encoding.layout.strided":
        found: list[int | Value] = []
        for entry in index_entries(maker.strides, maker.static_strides):
            exact = s.facts.exact(entry) if isinstance(entry, Value) else entry
            found.append(entry if exact is None else exact)
        return found
    raise s.unsupported(op, f"a view of type {type_} has a layout that is not supported on {s.processor.name}")
