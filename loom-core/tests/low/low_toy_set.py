"""A synthetic machine with every constraint the allocator knows, and what its instructions mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loom.low.descriptors import (
    Descriptor,
    DescriptorSet,
    Effects,
    ImmediateDescriptor,
    OperandDescriptor,
    RegisterClass,
)

I32, VEC, FLAG, SHIFT = "test.i32", "test.vec", "test.flag", "test.shift"
MASK64 = (1 << 64) - 1

REGISTERS = {
    I32: RegisterClass(I32, 32, 24, {2: 2, 4: 4}, bank="test.gpr", reserved=frozenset({23})),
    SHIFT: RegisterClass(SHIFT, 32, 24, bank="test.gpr", reserved=frozenset(range(24)) - {1}),
    VEC: RegisterClass(VEC, 32, 32, {2: 2}, mask="mask"),
    FLAG: RegisterClass(FLAG, 1, 1, spillable=False),
}

Units = tuple[int, ...]


def _operand(name: str, reg_class: str = I32, units: int = 1) -> OperandDescriptor:
    return OperandDescriptor(name, (reg_class,), units)


def _result(reg_class: str = I32, units: int = 1, tied: str | None = None, early: bool = False) -> OperandDescriptor:
    return OperandDescriptor("dst", (reg_class,), units, tied=tied, early_clobber=early)


_PAIR = (_operand("lhs"), _operand("rhs"))
_MASKED = ("mask",)

DESCRIPTORS = [
    Descriptor(
        "test.const.i32",
        "const",
        [_result()],
        [],
        [ImmediateDescriptor("i32_value", positional=True)],
        schedule_class="alu",
        rematerializable=True,
    ),
    Descriptor("test.mul.i32", "mul", [_result()], _PAIR, schedule_class="mul"),
    Descriptor(
        "test.add.i32",
        "add",
        [_result()],
        _PAIR,
        effects=Effects(implicit_writes=("flag",)),
        schedule_class="alu",
    ),
    Descriptor(
        "test.addc.i32",
        "addc",
        [_result()],
        _PAIR,
        effects=Effects(implicit_reads=("flag",), implicit_writes=("flag",)),
        schedule_class="alu",
    ),
    Descriptor(
        "test.sub.tied",
        "subt",
        [_result(tied="lhs")],
        _PAIR,
        effects=Effects(implicit_writes=("flag",)),
        schedule_class="alu",
    ),
    Descriptor(
        "test.xor.tied",
        "xort",
        [_result(tied="lhs")],
        _PAIR,
        commutative=("lhs", "rhs"),
        schedule_class="alu",
    ),
    Descriptor("test.mad.early", "made", [_result(early=True)], _PAIR, schedule_class="mul"),
    Descriptor(
        "test.mad.early.tied",
        "madet",
        [_result(tied="acc", early=True)],
        [_operand("acc"), *_PAIR],
        schedule_class="mul",
    ),
    Descriptor("test.shl.i32", "shl", [_result()], [_operand("lhs"), _operand("by", SHIFT)], schedule_class="alu"),
    Descriptor("test.mul.wide", "mulw", [_result(units=2)], _PAIR, schedule_class="mul"),
    Descriptor(
        "test.add.wide",
        "addw",
        [_result(units=2, tied="lhs")],
        [_operand("lhs", units=2), _operand("rhs", units=2)],
        schedule_class="alu",
    ),
    Descriptor(
        "test.add.v4i32",
        "addv4",
        [_result(units=4)],
        [_operand("lhs", units=4), _operand("rhs", units=4)],
        schedule_class="alu",
    ),
    Descriptor(
        "test.cmp.lt",
        "cmplt",
        [_result(FLAG)],
        _PAIR,
        effects=Effects(implicit_writes=("flag",)),
        schedule_class="alu",
    ),
    Descriptor("test.select.flag", "select", [_result()], [_operand("flag", FLAG), *_PAIR], schedule_class="alu"),
    Descriptor("test.less.i32", "less", [_result()], _PAIR, schedule_class="alu"),
    Descriptor(
        "test.load.i32",
        "load",
        [_result()],
        [_operand("at")],
        effects=Effects(reads={"global"}),
        schedule_class="load",
    ),
    Descriptor(
        "test.load.v4i32",
        "loadv4",
        [_result(units=4)],
        [_operand("at")],
        effects=Effects(reads={"global"}),
        schedule_class="load",
    ),
    Descriptor("test.store.i32", "store", [], [_operand("at"), _operand("value")], effects=Effects(writes={"global"})),
    Descriptor(
        "test.lds.load",
        "ldsload",
        [_result()],
        [_operand("at")],
        effects=Effects(reads={"workgroup"}),
        schedule_class="load",
    ),
    Descriptor(
        "test.lds.store",
        "ldsstore",
        [],
        [_operand("at"), _operand("value")],
        effects=Effects(writes={"workgroup"}),
    ),
    Descriptor("test.flat.load", "flatload", [_result()], [_operand("at")], effects=Effects(reads={"generic"})),
    Descriptor("test.barrier", "barrier", effects=Effects(side_effects=True, barrier=True)),
    Descriptor("test.emit", "emit", [], [_operand("value")], effects=Effects(side_effects=True)),
    Descriptor("test.setmask", "setmask", [], [_operand("value")], effects=Effects(implicit_writes=_MASKED)),
    Descriptor(
        "test.vadd",
        "vadd",
        [_result(VEC)],
        [_operand("lhs", VEC), _operand("rhs", VEC)],
        effects=Effects(implicit_reads=_MASKED),
        schedule_class="alu",
    ),
    Descriptor("test.vread", "vread", [_result()], [_operand("src", VEC)], schedule_class="alu"),
]

TOY = DescriptorSet("test.low.toy", REGISTERS, DESCRIPTORS)


class Memory:
    """What instructions can see besides their operands: memory, implicit registers, an output log."""

    def __init__(self) -> None:
        self.cells: dict[tuple[str, int], int] = {}
        self.log: list[object] = []
        self.implicit: dict[str, int] = {"flag": 0, "mask": 1}

    def load(self, space: str, at: int) -> int:
        return self.cells.get((space, at), (at * 2654435761 + 12345) & MASK64)


def _mix(*parts: int) -> int:
    value = 0x9E3779B97F4A7C15
    for part in parts:
        value = ((value ^ part) * 0x100000001B3 + 0x7F4A7C15) & MASK64
    return value


Meaning = Callable[[Memory, Sequence[Units], dict[str, object]], tuple[Units, ...]]


def _arith(key: str) -> Meaning:
    salt = sum(map(ord, key))
    units = TOY.by_key[key].results[0].units

    def run(memory: Memory, operands: Sequence[Units], immediates: dict[str, object]) -> tuple[Units, ...]:
        flat = [unit for operand in operands for unit in operand]
        return (tuple(_mix(salt, number, *flat) for number in range(units)),)

    return run


def _flagged(key: str) -> Meaning:
    plain = _arith(key)
    reads = "flag" in TOY.by_key[key].effects.implicit_reads

    def run(memory: Memory, operands: Sequence[Units], immediates: dict[str, object]) -> tuple[Units, ...]:
        extra = ((memory.implicit["flag"],),) if reads else ()
        result = plain(memory, [*operands, *extra], immediates)
        memory.implicit["flag"] = result[0][0] & 1
        return result

    return run


def _symmetric(memory: Memory, operands: Sequence[Units], immediates: dict[str, object]) -> tuple[Units, ...]:
    return ((operands[0][0] ^ operands[1][0],),)


def _const(memory: Memory, operands: Sequence[Units], immediates: dict[str, object]) -> tuple[Units, ...]:
    value = immediates["i32_value"]
    assert isinstance(value, int)
    return ((value,),)


def _less(memory: Memory, operands: Sequence[Units], immediates: dict[str, object]) -> tuple[Units, ...]:
    return ((int(operands[0][0] < operands[1][0]),),)


def _increment(memory: Memory, operands: Sequence[Units], immediates: dict[str, object]) -> tuple[Units, ...]:
    return (((operands[0][0] + operands[1][0]) & MASK64,),)


def _select(memory: Memory, operands: Sequence[Units], immediates: dict[str, object]) -> tuple[Units, ...]:
    return (operands[1] if operands[0][0] else operands[2],)


def _loader(space: str, units: int) -> Meaning:
    def run(memory: Memory, operands: Sequence[Units], immediates: dict[str, object]) -> tuple[Units, ...]:
        at = operands[0][0] % 8
        return (tuple(memory.load(space, at + unit) for unit in range(units)),)

    return run


def _storer(space: str) -> Meaning:
    def run(memory: Memory, operands: Sequence[Units], immediates: dict[str, object]) -> tuple[Units, ...]:
        memory.cells[space, operands[0][0] % 8] = operands[1][0]
        return ()

    return run


def _log(memory: Memory, operands: Sequence[Units], immediates: dict[str, object]) -> tuple[Units, ...]:
    memory.log.append(tuple(operands))
    return ()


def _set_mask(memory: Memory, operands: Sequence[Units], immediates: dict[str, object]) -> tuple[Units, ...]:
    memory.implicit["mask"] = operands[0][0]
    return ()


def _masked(memory: Memory, operands: Sequence[Units], immediates: dict[str, object]) -> tuple[Units, ...]:
    return ((_mix(memory.implicit["mask"], operands[0][0], operands[1][0]),),)


MEANINGS: dict[str, Meaning] = {
    descriptor.key: _arith(descriptor.key) for descriptor in DESCRIPTORS if descriptor.results
} | {
    "test.const.i32": _const,
    "test.mul.i32": _increment,
    "test.add.i32": _flagged("test.add.i32"),
    "test.addc.i32": _flagged("test.addc.i32"),
    "test.sub.tied": _flagged("test.sub.tied"),
    "test.xor.tied": _symmetric,
    "test.cmp.lt": _less,
    "test.less.i32": _less,
    "test.select.flag": _select,
    "test.load.i32": _loader("global", 1),
    "test.load.v4i32": _loader("global", 4),
    "test.lds.load": _loader("workgroup", 1),
    "test.flat.load": _loader("global", 1),
    "test.store.i32": _storer("global"),
    "test.lds.store": _storer("workgroup"),
    "test.barrier": _log,
    "test.emit": _log,
    "test.setmask": _set_mask,
    "test.vadd": _masked,
}
