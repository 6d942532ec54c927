"""Building toy programs: a small builder, and random structured programs from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from low_toy_set import I32, SHIFT, TOY, VEC, Units

from loom.low.machine import Block, Edge, Function, Instruction, Kind, ScheduleMode, VReg


class Builder:
    """Appends instructions to the current block of a function."""

    def __init__(self, mode: ScheduleMode = ScheduleMode.FREE) -> None:
        self.function = Function("toy", TOY, schedule_mode=mode)
        self.block = self.function.add_block("entry")
        self.lock = 0

    def value(self, reg_class: str = I32, units: int = 1, name: str = "", fixed: int | None = None) -> VReg:
        return self.function.new_value(reg_class, units, name or None, fixed)

    def live_in(self, fixed: int, units: int = 1, reg_class: str = I32, name: str = "") -> VReg:
        value = self.value(reg_class, units, name, fixed)
        self.function.blocks[0].params.append(value)
        return value

    def add(self, inst: Instruction) -> Instruction:
        inst.lock = self.lock
        self.block.instructions.append(inst)
        return inst

    def op(self, mnemonic: str, *operands: VReg, name: str = "", imm: int | None = None) -> VReg:
        """A packet with one result."""
        descriptor = TOY.by_mnemonic[mnemonic]
        shape = descriptor.results[0]
        result = self.value(shape.classes[0], shape.units, name)
        immediates: dict[str, object] = {} if imm is None else {"i32_value": imm}
        self.add(Instruction(Kind.PACKET, descriptor, [result], operands, immediates))
        return result

    def do(self, mnemonic: str, *operands: VReg) -> Instruction:
        """A packet without results."""
        return self.add(Instruction(Kind.PACKET, TOY.by_mnemonic[mnemonic], [], operands))

    def const(self, number: int, name: str = "") -> VReg:
        return self.op("const", imm=number, name=name)

    def copy(self, value: VReg, reg_class: str = "", fixed: int | None = None) -> VReg:
        result = self.value(reg_class or value.reg_class, value.units, fixed=fixed)
        self.add(Instruction(Kind.COPY, None, [result], [value]))
        return result

    def slice(self, value: VReg, offset: int, units: int = 1) -> VReg:
        result = self.value(value.reg_class, units)
        self.add(Instruction(Kind.SLICE, None, [result], [value], {"offset": offset}))
        return result

    def concat(self, *parts: VReg) -> VReg:
        result = self.value(parts[0].reg_class, sum(part.units for part in parts))
        self.add(Instruction(Kind.CONCAT, None, [result], parts))
        return result

    def mark(self, kind: Kind) -> Instruction:
        return self.add(Instruction(kind))

    def branch(self, target: Block, *args: VReg) -> None:
        self.add(Instruction(Kind.BRANCH, successors=[Edge(target, args)]))

    def cond(self, condition: VReg, yes: Block, no: Block) -> None:
        self.add(Instruction(Kind.COND_BRANCH, None, [], [condition], successors=[Edge(yes), Edge(no)]))

    def ret(self, *values: VReg) -> None:
        self.add(Instruction(Kind.RETURN, None, [], values))

    def start(self, label: str, params: Sequence[VReg] = ()) -> Block:
        """Append a block and continue there."""
        self.block = self.function.add_block(label, params)
        return self.block


def inputs_for(function: Function) -> dict[VReg, Units]:
    """Arbitrary but fixed values for the live-ins."""
    return {
        value: tuple(1000 + 17 * value.id + unit for unit in range(value.units)) for value in function.blocks[0].params
    }


def random_program(seed: int, size: int = 40, depth: int = 2) -> Function:
    """A terminating program with diamonds, counted loops, swaps, tuples, ties and fixed values."""
    return _Random(seed).program(size, depth)


def add_ordering(function: Function, seed: int) -> None:
    """Put fences, locked sequences and nested phased scopes at random places of every block."""
    rng = random.Random(seed)
    for number, block in enumerate(function.blocks):
        code: list[Instruction] = []
        depth = lock = 0
        for index, inst in enumerate(block.instructions[:-1]):
            roll = rng.random()
            if roll < 0.05:
                code.append(Instruction(Kind.FENCE))
            elif roll < 0.15:
                code.append(Instruction(Kind.SCOPE_BEGIN))
                depth += 1
            elif roll < 0.3 and depth:
                code.append(Instruction(Kind.SCOPE_PHASE))
            elif roll < 0.4 and depth:
                code.append(Instruction(Kind.SCOPE_END))
                depth -= 1
            if rng.random() < 0.15:
                lock = 0 if lock else 1000 * number + index + 1
            inst.lock = lock
            code.append(inst)
        code += [Instruction(Kind.SCOPE_END) for _ in range(depth)]
        block.instructions[:-1] = code


Pool = dict[tuple[str, int], list[VReg]]


class _Random:
    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._build = Builder()
        self._labels = 0

    def program(self, size: int, depth: int) -> Function:
        build, rng = self._build, self._rng
        pool: Pool = {}
        for fixed in (0, 1, 2):
            self._put(pool, build.live_in(fixed))
        self._put(pool, build.live_in(4, 2))
        self._put(pool, build.live_in(0, reg_class=VEC))
        self._put(pool, build.live_in(3, reg_class=VEC))
        self._put(pool, build.const(rng.randrange(100)))
        self._sequence(pool, size, depth)
        singles = pool[I32, 1]
        build.ret(*rng.sample(singles, min(len(singles), rng.randint(1, 5))), self._pick(pool, I32, 2))
        return build.function

    def _label(self) -> str:
        self._labels += 1
        return f"b{self._labels}"

    @staticmethod
    def _put(pool: Pool, value: VReg) -> VReg:
        pool.setdefault((value.reg_class, value.units), []).append(value)
        return value

    def _pick(self, pool: Pool, reg_class: str, units: int = 1) -> VReg:
        known = pool.get((reg_class, units))
        if known:
            recent = known[-6:] if self._rng.random() < 0.6 else known
            return self._rng.choice(recent)
        if units > 1:
            parts = [self._pick(pool, reg_class, 1) for _ in range(units)]
            return self._put(pool, self._build.concat(*parts))
        raise AssertionError(f"no {reg_class} yet")

    def _sequence(self, pool: Pool, size: int, depth: int) -> None:
        remaining = size
        while remaining > 0:
            roll = self._rng.random()
            if depth and roll < 0.06:
                self._diamond(pool, size // 3, depth - 1)
                remaining -= size // 3
            elif depth and roll < 0.12:
                self._loop(pool, size // 3, depth - 1)
                remaining -= size // 3
            else:
                self._step(pool)
                remaining -= 1

    def _step(self, pool: Pool) -> None:
        build, rng = self._build, self._rng
        one = I32, 1
        kind = rng.choice(_STEPS)
        a, b = self._pick(pool, *one), self._pick(pool, *one)
        if kind in ("mul", "add", "subt", "xort", "made", "less", "mulw"):
            self._put(pool, build.op(kind, a, b))
        elif kind == "const":
            self._put(pool, build.const(rng.randrange(1000)))
        elif kind == "madet":
            self._put(pool, build.op("madet", self._pick(pool, *one), a, b))
        elif kind == "shl":
            self._put(pool, build.op("shl", a, build.copy(b, SHIFT)))
        elif kind in ("addw", "addv4"):
            units = 2 if kind == "addw" else 4
            self._put(pool, build.op(kind, self._pick(pool, I32, units), self._pick(pool, I32, units)))
        elif kind == "select":
            flag = build.op("cmplt", a, b)
            if rng.random() < 0.5:
                self._put(pool, build.op("mul", b, a))
            self._put(pool, build.op("select", flag, a, b))
        elif kind == "addc":
            build.op("add", a, b)
            self._put(pool, build.op("addc", b, a))
        elif kind in ("load", "loadv4", "ldsload", "flatload"):
            self._put(pool, build.op(kind, a))
        elif kind in ("store", "ldsstore"):
            build.do(kind, a, b)
        elif kind == "emit":
            build.do("emit", a)
        elif kind == "setmask":
            build.do("setmask", a)
        elif kind == "vadd":
            self._put(pool, build.op("vadd", self._pick(pool, VEC), self._pick(pool, VEC)))
        elif kind == "vread":
            self._put(pool, build.op("vread", self._pick(pool, VEC)))
        elif kind == "slice":
            units = rng.choice((2, 4))
            self._put(pool, build.slice(self._pick(pool, I32, units), rng.randrange(units)))
        elif kind == "concat":
            units = rng.choice((2, 4))
            self._put(pool, build.concat(*(self._pick(pool, *one) for _ in range(units))))
        elif kind == "fixed":
            self._put(pool, build.op("mul", build.copy(a, fixed=rng.choice((2, 3, 9))), b))
        elif kind == "copy":
            self._put(pool, build.copy(self._pick(pool, I32, rng.choice((1, 2)))))

    def _carried(self, pool: Pool, count: int) -> list[VReg]:
        shapes = [(I32, 1)] * 5 + [(I32, 2), (VEC, 1), (I32, 4)]
        return [self._pick(pool, *self._rng.choice(shapes)) for _ in range(count)]

    def _diamond(self, pool: Pool, size: int, depth: int) -> None:
        build = self._build
        merged = self._rng.randint(0, 4)
        shapes = [(value.reg_class, value.units) for value in self._carried(pool, merged)]
        a, b = self._pick(pool, I32), self._pick(pool, I32)
        condition = build.op(self._rng.choice(("less", "cmplt")), a, b)
        yes, no = Block(self._label()), Block(self._label())
        join = Block(self._label(), [build.value(*shape) for shape in shapes])
        build.cond(condition, yes, no)
        for side in (yes, no):
            build.function.blocks.append(side)
            build.block = side
            local = {shape: list(values) for shape, values in pool.items()}
            if side is yes or self._rng.random() < 0.6:
                self._sequence(local, size // 2, depth)
            build.branch(join, *(self._pick(local, *shape) for shape in shapes))
        build.function.blocks.append(join)
        build.block = join
        for param in join.params:
            self._put(pool, param)

    def _loop(self, pool: Pool, size: int, depth: int) -> None:
        build, rng = self._build, self._rng
        initial = self._carried(pool, rng.randint(0, 4))
        shapes = [(value.reg_class, value.units) for value in initial]
        counter, limit, one = build.const(0), build.const(rng.randint(0, 3)), build.const(1)
        header = Block(self._label(), [build.value(), *(build.value(*shape) for shape in shapes)])
        body, after = Block(self._label()), Block(self._label())
        build.branch(header, counter, *initial)
        build.function.blocks.append(header)
        build.block = header
        build.cond(build.op("less", header.params[0], limit), body, after)
        build.function.blocks.append(body)
        build.block = body
        local = {shape: list(values) for shape, values in pool.items()}
        for param in header.params[1:]:
            self._put(local, param)
        self._sequence(local, size, depth)
        onward = [self._onward(local, header.params[1:], shape) for shape in shapes]
        build.branch(header, build.op("mul", header.params[0], one), *onward)
        build.function.blocks.append(after)
        build.block = after
        for param in header.params[1:]:
            self._put(pool, param)

    def _onward(self, pool: Pool, params: list[VReg], shape: tuple[str, int]) -> VReg:
        """Often one of the parameters themselves, so that back edges permute them."""
        same = [param for param in params if (param.reg_class, param.units) == shape]
        if same and self._rng.random() < 0.5:
            return self._rng.choice(same)
        return self._pick(pool, *shape)


_STEPS = [
    "mul",
    "add",
    "subt",
    "subt",
    "xort",
    "xort",
    "made",
    "madet",
    "less",
    "mulw",
    "const",
    "const",
    "shl",
    "addw",
    "addv4",
    "select",
    "addc",
    "load",
    "loadv4",
    "ldsload",
    "flatload",
    "store",
    "ldsstore",
    "emit",
    "setmask",
    "vadd",
    "vadd",
    "vread",
    "slice",
    "slice",
    "concat",
    "concat",
    "fixed",
    "copy",
]
