"""``buffer.copy``, ``buffer.fill`` and ``buffer.compare`` as loops over bytes, for targets that have no form of them.

The loops are written in the language and inlined where the operation stood.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from loom.ir.core import Module, Op
from loom.transforms.inline import inline_call

_COPY: Final = """
func.def @copy(%source: buffer, %from: offset, %target: buffer, %to: offset, %length: offset) {
  %zero = index.constant 0 : offset
  %one = index.constant 1 : offset
  scf.for %i = [%zero to %length step %one] {
    %read_at = index.add %from, %i : offset
    %write_at = index.add %to, %i : offset
    %byte = buffer.load.i8.u %source[%read_at]
    buffer.store.i8 %byte, %target[%write_at]
  }
  func.return
}
"""
_COMPARE: Final = """
func.def @compare(%a: buffer, %a_from: offset, %b: buffer, %b_from: offset, %length: offset) -> (i32) {
  %zero = index.constant 0 : offset
  %one = index.constant 1 : offset
  %equal = scalar.constant 0 : i32
  %less = scalar.constant -1 : i32
  %greater = scalar.constant 1 : i32
  %order = scf.for %i = [%zero to %length step %one](%known = %equal : i32) -> (i32) {
    %a_at = index.add %a_from, %i : offset
    %b_at = index.add %b_from, %i : offset
    %x = buffer.load.i8.u %a[%a_at]
    %y = buffer.load.i8.u %b[%b_at]
    %below = scalar.cmpi ult, %x, %y : i32
    %above = scalar.cmpi ugt, %x, %y : i32
    %not_below = scf.select %above, %greater, %equal : i32
    %here = scf.select %below, %less, %not_below : i32
    %open = scalar.cmpi eq, %known, %equal : i32
    %next = scf.select %open, %here, %known : i32
    scf.yield %next : i32
  }
  func.return %order : i32
}
"""
# The pattern's bytes come from a word of 64 bits, shifted by the place in the pattern.
_FILL: Final = """
func.def @fill(%pattern: {type}, %target: buffer, %to: offset, %length: offset) {{
  %zero = index.constant 0 : offset
  %one = index.constant 1 : offset
{word}
  %size = scalar.constant {mask} : i64
  %eight = scalar.constant 8 : i64
  scf.for %i = [%zero to %length step %one] {{
    %write_at = index.add %to, %i : offset
    %number = index.cast %i : offset to i64
    %place = scalar.andi %number, %size : i64
    %distance = scalar.muli %place, %eight : i64
    %moved = scalar.shrui %word, %distance : i64
    %byte = scalar.trunci %moved : i64 to i32
    buffer.store.i8 %byte, %target[%write_at]
  }}
  func.return
}}
"""


def _word_of(type_: str, width: int) -> str:
    """Lines that make an i64 ``%word`` of ``%pattern``."""
    bits = "%pattern"
    lines = []
    if not type_.startswith("i"):
        bits = "%word" if width == 64 else "%bits"
        lines.append(f"  {bits} = scalar.bitcast %pattern : {type_} to i{width}")
    if width < 64:
        lines.append(f"  %word = scalar.extui {bits} : i{width} to i64")
    elif type_ == "i64":
        lines += ["  %none = scalar.constant 0 : i64", "  %word = scalar.ori %pattern, %none : i64"]
    return "\n".join(lines)


@cache
def _function(name: str, type_: str, width: int) -> Op:
    """The loop of an operation. Modules are kept alive by their operations."""
    from loom.text.parser import parse_module

    if name == "buffer.fill":
        text = _FILL.format(type=type_, mask=width // 8 - 1, word=_word_of(type_, width))
    else:
        text = _COPY if name == "buffer.copy" else _COMPARE
    module: Module = parse_module(text, "<raw bytes>")
    return next(iter(module.ops))


RAW_BYTES: Final = frozenset({"buffer.copy", "buffer.fill", "buffer.compare"})
"""Names of the operations on ranges of bytes."""


def expand_raw_bytes(function: Op) -> None:
    """Replace the operations on ranges of bytes below a function or kernel."""
    for op in list(function.walk()):
        if op.name not in RAW_BYTES:
            continue
        pattern: Any = op.operands[0].type if op.name == "buffer.fill" else None
        type_, width = (pattern.text, pattern.width) if pattern is not None else ("", 0)
        loc = op.loc
        for copied in inline_call(op, _function(op.name, type_, width)):
            for inner in copied.walk():
                inner.loc = loc
