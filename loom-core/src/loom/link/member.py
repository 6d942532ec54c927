"""Modules as the linker sees them: a symbol table first, operations when something reaches them.

An opened bytecode file has the table in its index, so bodies of an archive that a link does not reach are never
decoded.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from loom.bytecode.index import CHECK, DECLARATION, EXPORTED, ROOT, family_of, flags_of, names_digest
from loom.ir.attributes import Encoding
from loom.ir.core import Module, Op, symbol_name

if TYPE_CHECKING:
    # Only for types: a link of text modules does not load the reader.
    from loom.bytecode import BytecodeFile

    Linkable = Module | BytecodeFile

# Kinds of operations whose trait says declaration, but which are all the definition there is.
_OWN_DEFINITION = ("template.decl", "template.ukernel")
PIPELINE: Final = "pass.pipeline"


class Role(enum.Enum):
    """As what a module takes part."""

    INPUT = "input"
    LIBRARY = "library"
    ROOT_LIBRARY = "root library"
    TRANSITIVE = "transitive library"


# Attributes of declarations that something outside the language satisfies.
_IMPORTS = ("import_module", "import_kind")


def is_imported(op: Op) -> bool:
    """Whether the runtime or another object supplies what an op declares."""
    index = op.spec.attribute_index
    return any(name in index and op.attribute(name) is not None for name in _IMPORTS)


def is_declaration(op: Op) -> bool:
    """Whether an op only declares its symbol. A template family is its own definition."""
    return "declaration" in op.spec.traits and op.name not in _OWN_DEFINITION


class Member:
    """One module of a link; its operations are numbered by position."""

    def __init__(self, source: Linkable, role: Role) -> None:
        self.role = role
        self.name = source.name
        self.header: tuple[str, ...] = source.header
        self.aliases: Mapping[str, Encoding] = source.aliases
        self._ops: dict[int, Op] = {}
        self._table: _ModuleTable | BytecodeFile
        if isinstance(source, Module):
            self._table = _ModuleTable(source)
            self._ops = dict(enumerate(self._table.ops))
        else:
            self._table = source

    @property
    def is_library(self) -> bool:
        """Whether the module only offers what others want."""
        return self.role is not Role.INPUT

    def __len__(self) -> int:
        return len(self._table.entries)

    def op(self, ordinal: int) -> Op:
        """The operation at a position; the same object every time."""
        found = self._ops.get(ordinal)
        if found is None:
            assert not isinstance(self._table, _ModuleTable)
            found = self._ops[ordinal] = self._table.materialize(self._table.entries[ordinal])
        return found

    def find(self, name: str) -> int | None:
        """The position of the operation that defines or declares a name, the first one when there are several."""
        return self._table.entries.find(name)

    def symbol(self, name: str) -> Op | None:
        """The operation that defines a name, or ``None``."""
        ordinal = self.find(name)
        return self.op(ordinal) if ordinal is not None else None

    def symbols(self) -> dict[str, int]:
        """The positions of all names."""
        found: dict[str, int] = {}
        for ordinal, name in enumerate(self._table.entries.names):
            if name is not None:
                found.setdefault(name, ordinal)
        return found

    def op_name(self, ordinal: int) -> str:
        """What kind of operation is at a position."""
        return self._table.entries.op_name(ordinal)

    def providers(self, family: str) -> Sequence[int]:
        """The positions of a template family's providers."""
        return self._table.entries.providers(family)

    def ops(self) -> list[Op]:
        """The operations read so far, in the order of the module."""
        return [self._ops[ordinal] for ordinal in sorted(self._ops)]

    def start(self, *, merge: bool, tests: bool, exports: bool, roots: bool) -> list[int]:
        """The positions where reachability starts: everything (``merge``), or what the options select.

        ``tests`` are check records, ``exports`` what is part of the interface, ``roots`` what else a module keeps.
        Operations without a symbol always take part, and so do the pass pipelines of an input: nothing in the module
        refers to them, but whoever works on the result may ask for one by its name.
        """
        found = []
        for ordinal, flags in enumerate(self._table.entries.flags):
            if flags & CHECK:
                wanted = merge or tests
            else:
                wanted = merge or bool((roots and flags & ROOT) or (exports and flags & EXPORTED))
            nameless = flags & ROOT and not flags & EXPORTED and self._table.entries.name(ordinal) is None
            if wanted or nameless or (self.role is Role.INPUT and self.op_name(ordinal) == PIPELINE):
                found.append(ordinal)
        return found

    def is_exported(self, ordinal: int) -> bool:
        """Whether a definition is part of the module's interface."""
        return bool(self._table.entries.flags_at(ordinal) & EXPORTED)

    def declares(self, ordinal: int) -> bool:
        """:func:`is_declaration` of the operation at a position."""
        declared = bool(self._table.entries.flags_at(ordinal) & DECLARATION)
        return declared and self.op_name(ordinal) not in _OWN_DEFINITION

    def order(self) -> tuple[str, bytes]:
        """A key that does not depend on file names or on the form of the module: its first name and a digest."""
        return self._table.entries.order

    def text(self) -> str:
        """The canonical text of the module, for telling apart modules with equal names in them."""
        from loom.text.printer import print_module

        return print_module(self.module())

    def module(self) -> Module:
        """All of the module."""
        return self._table.module()


class _ModuleTable:
    """The symbol table of a module in memory, as :class:`~loom.bytecode.index.Index` has it of a file."""

    def __init__(self, source: Module) -> None:
        self._module = source
        self.ops = list(source.body)
        self.entries = self
        self.names = [symbol_name(op) for op in self.ops]
        self.flags = [flags_of(op) for op in self.ops]
        self._ordinals: dict[str, int] = {}
        self._providers: dict[str, list[int]] = {}
        for ordinal, (op, name) in enumerate(zip(self.ops, self.names, strict=True)):
            if name is not None:
                self._ordinals.setdefault(name, ordinal)
            family = family_of(op)
            if family is not None:
                self._providers.setdefault(family, []).append(ordinal)

    def __len__(self) -> int:
        return len(self.ops)

    def name(self, ordinal: int) -> str | None:
        """The symbol of an operation."""
        return self.names[ordinal]

    def op_name(self, ordinal: int) -> str:
        """The kind of an operation."""
        return self.ops[ordinal].name

    def flags_at(self, ordinal: int) -> int:
        """The flags of an operation."""
        return self.flags[ordinal]

    def find(self, name: str) -> int | None:
        """The position of a name."""
        return self._ordinals.get(name)

    def providers(self, family: str) -> Sequence[int]:
        """The positions of a family's providers."""
        return self._providers.get(family, ())

    @property
    def order(self) -> tuple[str, bytes]:
        """The first name in alphabetical order and :func:`~loom.bytecode.index.names_digest`."""
        return min(self._ordinals, default=""), names_digest(self.names)

    def module(self) -> Module:
        """The module itself."""
        return self._module


def in_order(members: Iterable[Member]) -> list[Member]:
    """Members in an order that only their contents decide."""
    ordered = sorted(members, key=Member.order)
    found: list[Member] = []
    for _, group in itertools.groupby(ordered, key=Member.order):
        same = list(group)
        if len(same) > 1:
            same.sort(key=lambda member: (member.text(), member.name))
        found += same
    return found
