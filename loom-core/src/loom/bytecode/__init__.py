"""The binary module form, ``.loombc`` (language reference, part 3, section 13).

A file holds the same program as its text: printing what was read back gives the canonical text of what was
written. An index of the symbols comes before the bodies, which are decoded one by one and only when asked for.

:func:`write_module` and :func:`read_module` convert whole modules; :class:`BytecodeFile` opens a file by its index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loom.bytecode.reader import BytecodeFile as BytecodeFile
    from loom.bytecode.reader import SymbolEntry as SymbolEntry
    from loom.bytecode.reader import read_module as read_module
    from loom.bytecode.writer import write_module as write_module

__all__ = ["BytecodeFile", "SymbolEntry", "read_module", "write_module"]


def __getattr__(name: str) -> Any:
    """Load the reader or the writer on first use, so that reading does not pay for writing."""
    if name == "write_module":
        from loom.bytecode import writer

        return writer.write_module
    if name in __all__:
        from loom.bytecode import reader

        return getattr(reader, name)
    raise AttributeError(name)
