"""Modules as the linker sees them: columns of a symbol table first, operations when something reaches them.

An opened bytecode file has the columns in its index, so bodies of an archive that a link does not reach are never
decoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from loom.bytecode.index import CHECK, DECLARATION, EXPORTED, family_of, flags_of
from loom.ir.attributes import Encoding
from loom.ir.core import Module, Op, symbol_name

if TYPE_CHECKING:
    # Only for types: a link of text modules does not load the reader.
    from loom.bytecode import BytecodeFile

    Linkable = Module | BytecodeFile

# Kinds of operations whose trait says declaration, but which are all the definition there is.
_OWN_DEFINITION = ("template.decl", "template.ukernel")


def is_declaration(op: Op) -> bool:
    """Whether an op only declares its symbol. A template family is its own definition."""
    return "declaration" in op.spec.traits and op.name not in _OWN_DEFINITION


class Member:
    """One module of a link.

    ``names``, ``op_names``, ``families`` and ``flags`` describe its operations by position, as the index of a
    bytecode file does; ``symbols`` gives the position of a name (the first one when a name is defined twice).
    """

    def __init__(self, source: Linkable, is_library: bool) -> None:
        self.is_library = is_library
        self.header: tuple[str, ...] = source.header
        self.aliases: Mapping[str, Encoding] = source.aliases
        self.names: Sequence[str | None]
        self.op_names: Sequence[str]
        self.families: Sequence[str | None]
        self.flags: Sequence[int]
        self._file: BytecodeFile | None = None
        self._ops: dict[int, Op] = {}
        if isinstance(source, Module):
            ops = list(source.body)
            self._ops = dict(enumerate(ops))
            self.names = [symbol_name(op) for op in ops]
            self.op_names = [op.name for op in ops]
            self.families = [family_of(op) for op in ops]
            self.flags = [flags_of(op) for op in ops]
        else:
            entries = source.entries
            self._file = source
            self.names, self.op_names = entries.names, entries.op_names
            self.families, self.flags = entries.families, entries.flags
        self.symbols: dict[str, int] = {}
        for ordinal, name in enumerate(self.names):
            if name is not None:
                self.symbols.setdefault(name, ordinal)

    def op(self, ordinal: int) -> Op:
        """The operation at a position; the same object every time."""
        found = self._ops.get(ordinal)
        if found is None:
            assert self._file is not None
            found = self._ops[ordinal] = self._file.materialize(self._file.entries[ordinal])
        return found

    def symbol(self, name: str) -> Op | None:
        """The operation that defines a name, or ``None``."""
        ordinal = self.symbols.get(name)
        return self.op(ordinal) if ordinal is not None else None

    def ops(self) -> list[Op]:
        """The operations read so far, in the order of the module."""
        return [self._ops[ordinal] for ordinal in sorted(self._ops)]

    def exported_symbols(self) -> list[str]:
        """Names that are part of the interface, without those of check records."""
        return [name for name, k in self.symbols.items() if self.flags[k] & EXPORTED and not self.flags[k] & CHECK]

    def declares(self, ordinal: int) -> bool:
        """:func:`is_declaration` of the operation at a position."""
        return bool(self.flags[ordinal] & DECLARATION) and self.op_names[ordinal] not in _OWN_DEFINITION

    def order(self) -> tuple[str, ...]:
        """A key that does not depend on file names or on the order in which modules were given."""
        return tuple(sorted(name for name in self.names if name is not None))
