"""Building Low bodies during instruction selection."""

from __future__ import annotations

from collections.abc import Sequence

from loom.dialects.low import ops as low
from loom.ir.attributes import Dictionary
from loom.ir.core import Block, Op, Region, Value
from loom.ir.diagnostics import Location, fail
from loom.ir.types import RegType
from loom.low.assembly import inferred_result_type, make_packet
from loom.low.descriptors import Descriptor, DescriptorSet
from loom.spec.registry import lookup


class LowBuilder:
    """Appends Low operations to the current block of a function under construction.

    Packets are named by mnemonic. ``loc`` is the source location that new operations get, ``name`` hints follow
    from the caller.
    """

    __slots__ = ("block", "descriptor_set", "loc", "region")

    def __init__(self, descriptor_set: DescriptorSet, region: Region) -> None:
        self.descriptor_set = descriptor_set
        self.region = region
        self.block = region.entry
        self.loc: Location = None

    def descriptor(self, mnemonic: str) -> Descriptor:
        """The descriptor of a mnemonic. Raises a located diagnostic when the contract lacks it."""
        found = self.descriptor_set.by_mnemonic.get(mnemonic)
        if found is None:
            raise fail(
                "TARGET/045",
                f"'{mnemonic}' is not part of {self.descriptor_set.key}",
                self.loc,
                emitter="source-to-low",
                opcode=mnemonic,
                descriptor_set_key=self.descriptor_set.key,
            )
        return found

    def has(self, mnemonic: str) -> bool:
        """Whether the contract offers the instruction."""
        return mnemonic in self.descriptor_set.by_mnemonic

    def packet(
        self,
        mnemonic: str,
        *operands: Value,
        name: str | None = None,
        result_types: Sequence[RegType] | None = None,
        **immediates: object,
    ) -> list[Value]:
        """Append an instruction and return its results. Immediates equal to their default are dropped."""
        descriptor = self.descriptor(mnemonic)
        given = {
            i.name: immediates[i.name]
            for i in descriptor.immediates
            if i.name in immediates and immediates[i.name] != i.default
        }
        unknown = set(immediates) - {i.name for i in descriptor.immediates}
        assert not unknown, f"{mnemonic} has no immediate {unknown}"
        types = list(result_types) if result_types is not None else []
        for index in range(len(types), len(descriptor.results)):
            type_ = inferred_result_type(descriptor, index, list(operands))
            assert type_ is not None, f"{mnemonic}: the class of result {index} must be given"
            types.append(type_)  # type: ignore[arg-type]  # inferred types of results are register types
        op = make_packet(descriptor, list(operands), given, list(types), self.loc)
        self.add(op)
        if name is not None and op.results:
            op.results[0].name = name
        return op.results

    def emit(self, mnemonic: str, *operands: Value, name: str | None = None, **immediates: object) -> Value:
        """Append an instruction with at least one result and return the first."""
        return self.packet(mnemonic, *operands, name=name, result_types=None, **immediates)[0]

    def add(self, op: Op) -> Op:
        """Append an operation to the current block."""
        op.loc = self.loc
        self.block.append(op)
        return op

    def live_in(self, key: str, type_: RegType, name: str | None = None) -> Value:
        """A value that is there at entry. All of them must be made before anything else."""
        op = self.add(low.LiveIn([], [key, None], [type_]))
        op.results[0].name = name
        return op.results[0]

    def resource(self, kind: str, facts: dict[str, object], type_: RegType, name: str | None = None) -> Value:
        """A binding of the program's interface."""
        op = self.add(low.Resource([], [kind, Dictionary(facts)], [type_], segments=(0,)))
        op.results[0].name = name
        return op.results[0]

    def slice(self, value: Value, offset: int, count: int = 1, name: str | None = None) -> Value:
        """Consecutive units of a tuple; the whole tuple is the value itself."""
        type_ = reg_type(value)
        if offset == 0 and count == type_.count:
            return value
        op = self.add(low.Slice([value], [offset], [RegType(type_.reg_class, count)]))
        op.results[0].name = name
        return op.results[0]

    def concat(self, *parts: Value, name: str | None = None) -> Value:
        """A tuple made of smaller ones; a single part is itself."""
        if len(parts) == 1:
            return parts[0]
        types = [reg_type(p) for p in parts]
        total = RegType(types[0].reg_class, sum(t.count for t in types))
        op = self.add(low.Concat(list(parts), [], [total], segments=(len(parts),)))
        op.results[0].name = name
        return op.results[0]

    def copy(self, value: Value, reg_class: str | None = None, name: str | None = None) -> Value:
        """A fresh copy, in another class if given."""
        type_ = reg_type(value)
        op = self.add(low.Copy([value], [None], [RegType(reg_class or type_.reg_class, type_.count)]))
        op.results[0].name = name
        return op.results[0]

    def new_block(self, argument_types: Sequence[RegType] = ()) -> Block:
        """A detached block; :meth:`enter` puts it into the region."""
        return Block(argument_types)

    def enter(self, block: Block) -> Block:
        """Put a block at the end of the region and make it current."""
        self.region.append(block)
        self.block = block
        return block

    def branch(self, target: Block, args: Sequence[Value] = ()) -> None:
        """Jump."""
        self.add(low.Br(list(args), [], successors=[target], segments=(len(args),)))

    def cond_branch(self, condition: Value, if_true: Block, if_false: Block) -> None:
        """Jump to one of two blocks without arguments."""
        self.add(low.CondBr([condition], [], successors=[if_true, if_false]))

    def fence(self) -> None:
        """A boundary that no instruction crosses."""
        cls = lookup("low.schedule.fence")
        assert cls is not None
        self.add(cls([], []))

    def ret(self, values: Sequence[Value] = ()) -> None:
        """Return."""
        self.add(low.Return(list(values), [], segments=(len(values),)))


def reg_type(value: Value) -> RegType:
    """The register type of a Low value."""
    assert isinstance(value.type, RegType), value.type
    return value.type
