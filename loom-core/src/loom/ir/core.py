"""The in-memory program: values, operations, blocks, regions and modules.

Operations of a block form a doubly linked list, so inserting and erasing cost the same anywhere. Every value
knows its users; a type that names a value counts as a use of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from loom.ir.attributes import Encoding, ResultSpec
from loom.ir.diagnostics import Location
from loom.ir.recursion import deep_recursion
from loom.ir.types import Type

if TYPE_CHECKING:
    from typing import Self

    from loom.spec.model import OpSpec


class Value:
    """An SSA value: a result of an operation or an argument of a block.

    ``uses`` maps each user to the number of its operand slots that hold the value, in order of first use.
    ``dependents`` holds the values whose type names this one; it is ``None`` until there is such a value.
    """

    __slots__ = ("dependents", "index", "name", "owner", "type", "uses")

    type: Type
    owner: Op | Block
    index: int
    name: str | None
    uses: dict[Op, int]
    dependents: dict[Value, None] | None

    def __init__(self, type_: Type, owner: Op | Block, index: int, name: str | None = None) -> None:
        self.type = type_
        self.owner = owner
        self.index = index
        self.name = name
        self.uses = {}
        self.dependents = None
        if not type_.text:
            self._note_dependence(type_)

    def _note_dependence(self, type_: Type) -> None:
        for named in type_.values():
            if named.dependents is None:
                named.dependents = {}
            named.dependents[self] = None

    def set_type(self, type_: Type) -> None:
        """Replace the type, keeping the record of the values that types name."""
        if not self.type.text:
            for named in self.type.values():
                if named.dependents is not None:
                    named.dependents.pop(self, None)
        self.type = type_
        if not type_.text:
            self._note_dependence(type_)

    @property
    def defining_op(self) -> Op | None:
        """The operation whose result this is, or ``None`` for a block argument."""
        return self.owner if isinstance(self.owner, Op) else None

    def is_inside(self, op: Op) -> bool:
        """Whether the value is made in a region of an operation, arguments of blocks included."""
        if isinstance(self.owner, Op):
            return self.owner.is_inside(op)
        region = self.owner.parent
        parent = region.parent if region is not None else None
        return parent is not None and (parent is op or parent.is_inside(op))

    @property
    def is_used(self) -> bool:
        """Whether an operand or the type of another value mentions the value."""
        return bool(self.uses) or bool(self.dependents)

    def replace_all_uses(self, new: Value) -> None:
        """Make every operand and every type that mentions this value mention ``new`` instead."""
        if new is self:
            return
        for user, count in self.uses.items():
            operands = user.operands
            for i, operand in enumerate(operands):
                if operand is self:
                    operands[i] = new
            new.uses[user] = new.uses.get(user, 0) + count
        self.uses = {}
        if self.dependents:
            mapping = {self: new}
            for dependent in list(self.dependents):
                dependent.set_type(dependent.type.substitute(mapping))
            self.dependents = None

    def __repr__(self) -> str:
        return f"%{self.name or '?'} : {self.type!r}"


class Op:
    """An operation. Subclasses are made by :mod:`loom.spec` and add named accessors, never state.

    ``operands`` holds all operand groups in declaration order; ``segments`` gives their lengths when an
    operand group is optional or variadic. ``attributes`` parallels ``spec.attributes``; ``None`` means absent.
    """

    __slots__ = (
        "attributes",
        "blank_before",
        "comments",
        "loc",
        "next",
        "operands",
        "parent",
        "prev",
        "regions",
        "results",
        "segments",
        "successors",
    )

    spec: ClassVar[OpSpec]
    name: ClassVar[str]

    operands: list[Value]
    results: list[Value]
    attributes: list[object]
    regions: list[Region]
    successors: list[Block]
    segments: tuple[int, ...] | None
    parent: Block | None
    prev: Op | None
    next: Op | None
    loc: Location
    comments: tuple[str, ...]
    blank_before: bool

    def __init__(
        self,
        operands: list[Value],
        attributes: list[object],
        result_types: Sequence[Type] = (),
        regions: list[Region] | None = None,
        successors: list[Block] | None = None,
        segments: tuple[int, ...] | None = None,
        loc: Location = None,
    ) -> None:
        self.operands = operands
        for operand in operands:
            uses = operand.uses
            uses[self] = uses.get(self, 0) + 1
        self.attributes = attributes
        if len(result_types) == 1:
            self.results = [Value(result_types[0], self, 0)]
        else:
            self.results = [Value(t, self, i) for i, t in enumerate(result_types)]
        if regions:
            self.regions = regions
            for region in regions:
                region.parent = self
        else:
            self.regions = []
        self.successors = successors or []
        self.segments = segments
        self.parent = self.prev = self.next = None
        self.loc = loc
        self.comments = ()
        self.blank_before = False

    @classmethod
    def build(
        cls,
        *,
        result_types: Sequence[Type] | None = None,
        regions: Sequence[Region] = (),
        successors: Sequence[Block] = (),
        loc: Location = None,
        **fields: object,
    ) -> Self:
        """Create an operation from named operands and attributes.

        Operand groups take a value, a sequence of values or ``None``. Result types may be left out when the
        declaration derives them. Raises ``TypeError`` for an unknown or missing field.
        """
        from loom.spec.build import build_op

        return build_op(cls, result_types, regions, successors, loc, fields)

    # -- operands ------------------------------------------------------------------------------------------

    def group(self, index: int) -> list[Value]:
        """The operands of the group at ``index`` in the declaration."""
        if self.segments is None:
            return self.operands[index : index + 1]
        start = sum(self.segments[:index])
        return self.operands[start : start + self.segments[index]]

    def set_operand(self, index: int, value: Value) -> None:
        """Replace one operand."""
        _drop_use(self.operands[index], self)
        self.operands[index] = value
        value.uses[self] = value.uses.get(self, 0) + 1

    def set_operands(self, operands: list[Value], segments: tuple[int, ...] | None) -> None:
        """Replace all operands and the lengths of their groups."""
        for old in self.operands:
            _drop_use(old, self)
        self.operands = operands
        self.segments = segments
        for new in operands:
            new.uses[self] = new.uses.get(self, 0) + 1

    def set_group(self, index: int, values: Sequence[Value]) -> None:
        """Replace the operands of one group."""
        segments = list(self.segments) if self.segments is not None else [1] * len(self.spec.operands)
        start = sum(segments[:index])
        operands = self.operands[:start] + list(values) + self.operands[start + segments[index] :]
        segments[index] = len(values)
        self.set_operands(operands, tuple(segments) if self.spec.segmented else None)

    def attribute(self, name: str) -> object:
        """The attribute called ``name``; ``None`` when absent. Raises ``KeyError`` if it is not declared."""
        return self.attributes[self.spec.attribute_index[name]]

    def set_attribute(self, name: str, value: object) -> None:
        """Set the attribute called ``name``."""
        self.attributes[self.spec.attribute_index[name]] = value

    # -- structure -----------------------------------------------------------------------------------------

    @property
    def result(self) -> Value:
        """The only result."""
        (result,) = self.results
        return result

    @property
    def parent_op(self) -> Op | None:
        """The operation whose region contains this one."""
        return self.parent.parent.parent if self.parent is not None and self.parent.parent is not None else None

    def ancestors(self) -> Iterator[Op]:
        """Yield the enclosing operations, innermost first."""
        op = self.parent_op
        while op is not None:
            yield op
            op = op.parent_op

    def is_inside(self, other: Op) -> bool:
        """Whether the operation stands in a region of another one, at any depth."""
        return any(outer is other for outer in self.ancestors())

    def walk(self) -> Iterator[Op]:
        """Yield this operation and every nested one, in order. Nested operations may be erased meanwhile."""
        yield self
        if not self.regions:
            return
        # Depth-first without recursion (nesting may be thousands deep): one frame per open block.
        frames = [block.first for region in reversed(self.regions) for block in reversed(region.blocks)]
        while frames:
            current = frames.pop()
            while current is not None:
                following = current.next
                yield current
                if current.regions:
                    frames.append(following)
                    frames.extend([b.first for region in reversed(current.regions) for b in reversed(region.blocks)])
                    break
                current = following

    def has_trait(self, trait: str) -> bool:
        """Whether the declaration carries the trait."""
        return trait in self.spec.traits

    def erase(self) -> None:
        """Remove the operation. Its results must be unused."""
        self.detach()
        self.drop_references()

    def drop_references(self) -> None:
        """Forget all operands, here and in nested regions, before the operation is thrown away."""
        for op in list(self.walk()):
            for operand in op.operands:
                _drop_use(operand, op)
            op.operands = []
            for result in op.results:
                if not result.type.text:
                    result.set_type(_DROPPED)
            for region in op.regions:
                for block in region.blocks:
                    for arg in block.args:
                        if not arg.type.text:
                            arg.set_type(_DROPPED)

    def detach(self) -> None:
        """Take the operation out of its block, keeping its operands."""
        block = self.parent
        if block is None:
            return
        if self.prev is not None:
            self.prev.next = self.next
        else:
            block.first = self.next
        if self.next is not None:
            self.next.prev = self.prev
        else:
            block.last = self.prev
        self.parent = None
        self.prev = None
        self.next = None

    def insert_before(self, anchor: Op) -> None:
        """Put the detached operation in front of ``anchor``."""
        block = anchor.parent
        assert block is not None
        assert self.parent is None
        self.parent = block
        self.next = anchor
        self.prev = anchor.prev
        if anchor.prev is not None:
            anchor.prev.next = self
        else:
            block.first = self
        anchor.prev = self

    def replace_with(self, values: Sequence[Value]) -> None:
        """Replace all results by ``values`` and erase the operation."""
        for result, value in zip(self.results, values, strict=True):
            if value.name is None and result.name is not None and isinstance(value.owner, Op):
                value.name = result.name
            result.replace_all_uses(value)
        self.erase()

    def clone(self, mapping: MutableMapping[Value, Value], blocks: MutableMapping[Block, Block] | None = None) -> Op:
        """Copy the operation with nested regions; operands and types go through ``mapping``, which is extended."""
        return _clone(self, mapping, blocks if blocks is not None else {})

    def __repr__(self) -> str:
        return f"<{self.name}>"


def _drop_use(value: Value, user: Op) -> None:
    count = value.uses[user] - 1
    if count:
        value.uses[user] = count
    else:
        del value.uses[user]


class _Dropped(Type):
    __slots__ = ()

    def __init__(self) -> None:
        self.text = "<dropped>"


_DROPPED = _Dropped()


class Block:
    """A sequence of operations with arguments."""

    __slots__ = ("args", "blank_before", "comments", "first", "label", "last", "loc", "parent")

    def __init__(self, arg_types: Iterable[Type] = (), label: str | None = None) -> None:
        self.args: list[Value] = []
        self.label = label
        self.first: Op | None = None
        self.last: Op | None = None
        self.parent: Region | None = None
        self.comments: tuple[str, ...] = ()
        self.blank_before = False
        self.loc: Location = None
        for type_ in arg_types:
            self.add_argument(type_)

    def add_argument(self, type_: Type, name: str | None = None) -> Value:
        """Append an argument."""
        value = Value(type_, self, len(self.args), name)
        self.args.append(value)
        return value

    def append(self, op: Op) -> None:
        """Append a detached operation."""
        op.parent = self
        last = self.last
        op.prev = last
        op.next = None
        if last is not None:
            last.next = op
        else:
            self.first = op
        self.last = op

    def __iter__(self) -> Iterator[Op]:
        op = self.first
        while op is not None:
            following = op.next
            yield op
            op = following

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def terminator(self) -> Op | None:
        """The last operation if it is a terminator."""
        return self.last if self.last is not None and "terminator" in self.last.spec.traits else None


class Region:
    """An ordered list of blocks; the first is the entry."""

    __slots__ = ("blocks", "parent")

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self.blocks: list[Block] = []
        self.parent: Op | None = None
        for block in blocks:
            self.append(block)

    def append(self, block: Block) -> None:
        """Append a block."""
        block.parent = self
        self.blocks.append(block)

    @property
    def entry(self) -> Block:
        """The first block."""
        return self.blocks[0]

    def ops(self) -> Iterator[Op]:
        """Yield the operations of all blocks, not those of nested regions."""
        for block in self.blocks:
            yield from block


class Module:
    """A file's worth of symbols and records.

    ``header`` is the file header comment, ``aliases`` maps file aliases to encodings in source order.
    """

    __slots__ = ("__weakref__", "aliases", "body", "header", "name")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.body = Block()
        self.header: tuple[str, ...] = ()
        self.aliases: dict[str, Encoding] = {}

    @property
    def ops(self) -> Iterator[Op]:
        """The module-level operations in source order."""
        return iter(self.body)

    def symbols(self) -> dict[str, Op]:
        """Symbol name -> defining operation (the first one when a name is defined twice)."""
        table: dict[str, Op] = {}
        for op in self.body:
            name = symbol_name(op)
            if name is not None:
                table.setdefault(name, op)
        return table

    def walk(self) -> Iterator[Op]:
        """Yield every operation of the module in order."""
        for op in self.body:
            yield from op.walk()

    def clone(self, instead: Mapping[Op, Op] | None = None) -> Module:
        """A deep copy that shares no mutable state with the original.

        Operations of the module that are keys of ``instead`` are not copied: what is there for them takes their place.
        """
        copy = Module(self.name)
        copy.header = self.header
        copy.aliases = dict(self.aliases)
        with deep_recursion():
            for op in self.body:
                other = instead.get(op) if instead else None
                copy.body.append(op.clone({}) if other is None else other)
        return copy


def symbol_name(op: Op) -> str | None:
    """The symbol that an operation defines, without the sigil, or ``None``."""
    index = op.spec.symbol_attribute
    if index is None:
        return None
    name = op.attributes[index]
    return name if isinstance(name, str) else None


def _clone(op: Op, mapping: MutableMapping[Value, Value], blocks: MutableMapping[Block, Block]) -> Op:
    cls = type(op)
    get = mapping.get
    copy = cls(
        [get(v, v) for v in op.operands],
        op.attributes[:],
        (),
        None,
        [blocks.get(b, b) for b in op.successors] if op.successors else None,
        op.segments,
        op.loc,
    )
    copy.comments = op.comments
    copy.blank_before = op.blank_before
    results = []
    dynamic = False
    for i, old in enumerate(op.results):
        new = Value(old.type, copy, i, old.name)
        dynamic |= not old.type.text
        mapping[old] = new
        results.append(new)
    copy.results = results
    if dynamic:
        # Results of one list may name each other in any order.
        substitute_types(results, mapping)
    for region in op.regions:
        copy_region = clone_region(region, mapping, blocks)
        copy_region.parent = copy
        copy.regions.append(copy_region)
    if op.regions:
        # A declared type may name arguments of the declaration's region.
        for i, value in enumerate(op.attributes):
            if isinstance(value, Type) and not value.text:
                copy.attributes[i] = value.substitute(mapping)
    for i in op.spec.result_spec_attributes:
        specs = op.attributes[i]
        if specs:
            copy.attributes[i] = _clone_result_specs(specs, copy, mapping)  # type: ignore[arg-type]
    return copy


def clone_region(
    region: Region, mapping: MutableMapping[Value, Value], blocks: MutableMapping[Block, Block] | None = None
) -> Region:
    """Copy a region; values and blocks defined inside are added to the mappings."""
    blocks = blocks if blocks is not None else {}
    copy = Region()
    for block in region.blocks:
        new = Block(label=block.label)
        new.comments = block.comments
        new.blank_before = block.blank_before
        new.loc = block.loc
        blocks[block] = new
        copy.append(new)
        for arg in block.args:
            mapping[arg] = new.add_argument(arg.type, arg.name)
        for arg in new.args:
            # Arguments of one list may name each other in any order.
            if not arg.type.text:
                arg.set_type(arg.type.substitute(mapping))
    for block in region.blocks:
        new = blocks[block]
        for op in block:
            new.append(_clone(op, mapping, blocks))
    return copy


def _clone_result_specs(
    specs: Sequence[ResultSpec], owner: Op, mapping: MutableMapping[Value, Value]
) -> tuple[ResultSpec, ...]:
    for i, spec in enumerate(specs):
        if spec.value is not None:
            mapping[spec.value] = Value(spec.value.type, owner, i, spec.value.name)
    copies = []
    for spec in specs:
        value = mapping[spec.value] if spec.value is not None else None
        if value is not None and not value.type.text:
            value.set_type(value.type.substitute(mapping))
        copies.append(ResultSpec(spec.type.substitute(mapping), value, spec.tied))
    return tuple(copies)


def substitute_types(values: Iterable[Value], mapping: Mapping[Value, Value]) -> None:
    """Rewrite the types of ``values`` through ``mapping``."""
    for value in values:
        if not value.type.text:
            value.set_type(value.type.substitute(mapping))
