"""Writing canonical text (language reference, part 1, section 3)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from loom.ir.attribute_text import value_text
from loom.ir.core import Block, Module, Op, Region, Value, symbol_name
from loom.ir.diagnostics import SourceLocation
from loom.ir.recursion import deep_recursion
from loom.ir.types import Type
from loom.text.names import Naming

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from loom.ir.attributes import Encoding

    Writer = Callable[["Printer", Op], str]

# Characters from which on a region's text is deferred, and what surrounds its number meanwhile: a lone
# surrogate, which no text read from a file contains.
DEFER_AT: Final = 4096
MARK: Final = "\ud800"

_WRITERS: Final[dict[str, Writer]] = {}


class Printer:
    """State of printing one module-level operation. ``pad`` is the indentation of the current operation."""

    __slots__ = ("deferred", "labels", "names", "pad", "writer")

    def __init__(self) -> None:
        self.names: dict[Value, str] = {}
        self.labels: dict[Block, str] = {}
        self.pad = ""
        # Texts of large regions, put in at the end: an outer region would copy them once per level of nesting.
        self.deferred: list[str] = []
        # Replaces the canonical form of statements inside an assembly body.
        self.writer: Callable[[Op], str] | None = None

    def type_text(self, type_: Type) -> str:
        """Canonical spelling of a type."""
        return type_.text or type_.spell(self._value_name)

    def _value_name(self, value: Value) -> str:
        return self.names.get(value) or f"%{value.name or '?'}"

    def label(self, block: Block) -> str:
        """``^label`` of a block; unlabelled blocks are numbered by position."""
        found = self.labels.get(block)
        if found is None:
            region = block.parent
            assert region is not None
            taken = {b.label for b in region.blocks if b.label is not None}
            for index, other in enumerate(region.blocks):
                name = other.label
                if name is None:
                    name = f"_bb{index}"
                    k = 0
                    while name in taken:
                        name = f"_bb{index}_{k}"
                        k += 1
                self.labels[other] = "^" + name
            found = self.labels[block]
        return found

    def statement(self, op: Op) -> str:
        """The text of one operation behind the indentation."""
        if self.writer is not None:
            return self.writer(op)
        writer = _WRITERS.get(op.name) or _writer_of(op)
        results = op.results
        if not results:
            return writer(self, op)
        names = self.names
        if len(results) == 1:
            return f"{names[results[0]]} = {writer(self, op)}"
        return f"{', '.join([names[r] for r in results])} = {writer(self, op)}"

    def body_text(self, op: Op) -> str:
        """The canonical text of an operation without its results."""
        return (_WRITERS.get(op.name) or _writer_of(op))(self, op)

    def region(self, region: Region, implicit: bool) -> str:
        """``{ ... }``; an empty terminator at the end is left out when ``implicit``."""
        outer = self.pad
        self.pad = outer + "  "
        lines: list[str] = ["{"]
        try:
            for index, block in enumerate(region.blocks):
                if index or self._prints_label(block):
                    self._label_line(block, outer, lines)
                self._statements(block.first, None, implicit, lines)
        finally:
            self.pad = outer
        lines.append(outer + "}")
        return self._deferred("\n".join(lines))

    def braces(self, first: Op | None, end: Op | None) -> str:
        """``{ ... }`` around the operations of a block from ``first`` up to and without ``end``."""
        outer = self.pad
        self.pad = outer + "  "
        lines = ["{"]
        try:
            self._statements(first, end, False, lines)
        finally:
            self.pad = outer
        lines.append(outer + "}")
        return self._deferred("\n".join(lines))

    def _statements(self, op: Op | None, end: Op | None, implicit: bool, lines: list[str]) -> None:
        add = lines.append
        pad = self.pad
        while op is not end:
            assert op is not None
            if op.blank_before:
                add("")
            for comment in op.comments:
                add(f"{pad}// {comment}" if comment else f"{pad}//")
            if not (implicit and op.next is None and _is_empty_terminator(op)):
                add(pad + self.statement(op))
            op = op.next

    def _deferred(self, text: str) -> str:
        if len(text) < DEFER_AT:
            return text
        self.deferred.append(text)
        return f"{MARK}{len(self.deferred) - 1}{MARK}"

    def complete(self, text: str) -> str:
        """Put the deferred texts in their places."""
        if not self.deferred:
            return text
        parts: list[str] = []
        stack = [(text, False)]
        while stack:
            piece, is_reference = stack.pop()
            if is_reference:
                piece = self.deferred[int(piece)]
            elif MARK not in piece:
                parts.append(piece)
                continue
            pieces = piece.split(MARK)
            stack.extend((pieces[k], k % 2 == 1) for k in reversed(range(len(pieces))))
        return "".join(parts)

    def _prints_label(self, block: Block) -> bool:
        return block.label is not None

    def _label_line(self, block: Block, pad: str, lines: list[str]) -> None:
        if block.blank_before:
            lines.append("")
        lines.extend(f"{pad}// {c}" if c else f"{pad}//" for c in block.comments)
        text = self.label(block)
        if block.args and block.parent is not None and block is not block.parent.blocks[0]:
            text += "(" + ", ".join(f"{self.names[a]}: {self.type_text(a.type)}" for a in block.args) + ")"
        lines.append(f"{pad}{text}:")


def _writer_of(op: Op) -> Writer:
    from loom.text.codegen import make_printer

    writer = _WRITERS[op.name] = make_printer(type(op))
    return writer


def _is_empty_terminator(op: Op) -> bool:
    return not op.operands and not op.comments and "terminator" in op.spec.traits


class LocatedPrinter(Printer):
    """Prints behind every operation where it came from, if that is known; assembly bodies have no place for it."""

    __slots__ = ()

    def statement(self, op: Op) -> str:
        text = super().statement(op)
        place = SourceLocation.of(op.loc) if self.writer is None else None
        if place is None:
            return text
        start, end = f"{place.start_line}:{place.start_column}", f"{place.end_line}:{place.end_column}"
        return f"{text} loc({value_text(place.filename)}:{start} to {end})"


def print_op(op: Op, printer_class: type[Printer] = Printer) -> str:
    """The text of one module-level operation, comments included."""
    printer = printer_class()
    naming = Naming(printer.names)
    naming.signature(op)
    naming.op(op)
    lines = [f"// {c}" if c else "//" for c in op.comments]
    lines.append(printer.complete(printer.statement(op)))
    return "\n".join(lines)


def print_module(module: Module, *, locations: bool = False) -> str:
    """Canonical text of a module, with ``locations`` followed by where each operation came from.

    An empty module is an empty text.
    """
    with deep_recursion():
        return _module_text(module, LocatedPrinter if locations else Printer)


def _with_aliases(text: str, aliases: Mapping[str, Encoding]) -> str:
    """The text of a module's operations with each encoding that has an alias replaced by that.

    Types are shared between modules and the encodings in them are spelled out, so this is the one place to do it.
    """
    names: dict[str, str] = {}
    for name, encoding in aliases.items():
        names.setdefault(str(encoding), f"#{name}")
    # Longer ones first: an encoding may be a parameter of another.
    spelled = "|".join(re.escape(full) for full in sorted(names, key=len, reverse=True))
    token = re.compile(rf'"(?:[^"\\\n]|\\.)*"|//[^\n]*|({spelled})(?![\w.$<-])')
    return token.sub(lambda match: names[match[1]] if match[1] is not None else match[0], text)


def _module_text(module: Module, printer_class: type[Printer]) -> str:
    parts: list[str] = []
    if module.header:
        parts.extend(f"// {line}" if line else "//" for line in module.header)
        parts.append("")
    for name, encoding in module.aliases.items():
        parts.append(f"#{name} = {encoding}")
    start = len(parts)
    records = [op for op in module.body if "keyed_record" in op.spec.traits]
    others = [op for op in module.body if "keyed_record" not in op.spec.traits]
    records.sort(key=lambda op: (op.name, str(op.attributes[0])))
    first = True
    for op in [*records, *others]:
        if not first and (symbol_name(op) is not None or op.blank_before):
            parts.append("")
        parts.append(print_op(op, printer_class))
        first = False
    if not parts:
        return ""
    if module.aliases:
        parts[start:] = [_with_aliases("\n".join(parts[start:]), module.aliases)]
    while parts and parts[-1] == "":
        parts.pop()
    return "\n".join(parts) + "\n"
