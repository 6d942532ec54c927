"""The binary module form, ``.loombc`` (language reference, part 3, section 13).

A file holds the same program as its text: printing what was read back gives the canonical text of what was
written. An index of the symbols comes before the bodies, which are decoded one by one and only when asked for.

:func:`write_module` and :func:`read_module` convert whole modules; :class:`BytecodeFile` opens a file by its index.
A file may also hold several modules: :func:`write_modules` and :func:`open_modules`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loom.bytecode.reader import BytecodeFile as BytecodeFile
    from loom.bytecode.reader import SymbolEntry as SymbolEntry
    from loom.bytecode.reader import open_modules as open_modules
    from loom.bytecode.reader import read_module as read_module
    from loom.bytecode.writer import write_module as write_module
    from loom.bytecode.writer import write_modules as write_modules

__all__ = ["BytecodeFile", "SymbolEntry", "open_modules", "read_module", "write_module", "write_modules"]

_WRITING = ("write_module", "write_modules")


def __getattr__(name: str) -> Any:
    """Load the reader or the writer on first use, so that reading does not pay for writing."""
    if name in _WRITING:
        from loom.bytecode import writer

        return getattr(writer, name)
    if name in __all__:
        from loom.bytecode import reader

        return getattr(reader, name)
    raise AttributeError(name)
