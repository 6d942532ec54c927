"""Random kernels whose work-items exchange values through workgroup storage between barriers.

Each round stores into the slot that a permutation gives each work-item, waits, reads the slot that another
permutation gives, and waits again: every slot has one writer, and no reader before the barrier.
"""

from __future__ import annotations

from typing import Final

from .random_kernels import STORED, Writer

LANES: Final = 64

HEAD: Final = """\
kernel.def export("k") @k(%n: index) {
  %one = index.constant 1 : index
  %lanes = index.constant 64 : index
  %less = index.constant 63 : index
  %rounding = index.add %n, %less : index
  %groups = index.div %rounding, %lanes : index
  kernel.launch.config workgroups(%groups, %one, %one) workgroup_size(%lanes, %one, %one) : index
} launch(%count: index, %u_i32: i32, %u_i64: i64, %u_f32: f32, %u_f64: f64, %in_i32: buffer, %in_f32: buffer, %out_i32: buffer, %out_i64: buffer, %out_f32: buffer, %out_f64: buffer) {
  %origin = index.constant 0 : offset
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c63 = index.constant 63 : index
  %group = kernel.workgroup.id<x> : index
  %lane = kernel.workitem.id<x> : index
  %width = kernel.workgroup.size<x> : index
  %linear = index.madd %group, %width, %lane : index
  %last = index.sub %count, %c1 : index
  %at = index.min %linear, %last : index
  %active = index.cmp ult, %linear, %count : index
"""


class TileWriter(Writer):
    """Writes one kernel with workgroup tiles of every stored type."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, ("i1", "i32", "i64", "f32", "f64"), statements=14)
        self.depth = 1
        self.tiles: dict[str, str] = {}

    def kernel(self) -> str:
        """The text of the module."""
        for t in ("i32", "f32"):
            self._emit(f"%v_{t} = buffer.view %in_{t}[%origin] : buffer -> view<[%count]x{t}>")
            self._emit(f"%x_{t} = view.load %v_{t}[%at] : view<[%count]x{t}> -> {t}")
            self.values[t].append(f"%x_{t}")
        for t in STORED:
            self.values[t].insert(0, f"%u_{t}")
        for t in ("i32", "i64", "f32", "f64"):
            size = LANES * (8 if t.endswith("64") else 4)
            self._emit(f"%bytes_{t} = index.constant {size} : offset")
            self._emit(f"%room_{t} = buffer.alloca<workgroup> align(16) %bytes_{t} : buffer")
            self._emit(f"%tile_{t} = buffer.view %room_{t}[%origin] : buffer -> view<{LANES}x{t}>")
        for _ in range(self.random.randrange(2, 5)):
            self._rounds()
            for _ in range(self.random.randrange(1, 6)):
                self._statement()
        self._emit("scf.if %active {")
        self.depth += 1
        for t in ("i32", "i64", "f32", "f64"):
            value = self._value(t)
            self._emit(f"%o_{t} = buffer.view %out_{t}[%origin] : buffer -> view<[%count]x{t}>")
            self._emit(f"view.store {value}, %o_{t}[%linear] : {t}, view<[%count]x{t}>")
        self.depth -= 1
        self._emit("}")
        return HEAD + "\n".join(self.lines) + "\n  kernel.return\n}\n"

    def _rounds(self) -> None:
        """One exchange, or a uniform loop of exchanges that carries the value."""
        r = self.random
        type_ = r.choice(("i32", "i64", "f32", "f64"))
        value = self._value(type_)
        if r.random() < 0.5:
            self.values[type_].append(self._exchange(type_, value))
            return
        trips = self._fresh()
        self._emit(f"{trips} = index.constant {r.randrange(4)} : index")
        result, carried = self._fresh(), self._fresh()
        saved = {t: list(v) for t, v in self.values.items()}
        self._emit(
            f"{result} = scf.for {self._fresh()} = [%c0 to {trips} step %c1]({carried} = {value} : {type_}) -> ({type_}) {{"
        )
        self.depth += 1
        got = self._exchange(type_, carried)
        self.values[type_].append(got)
        for _ in range(r.randrange(3)):
            self._statement()
        self._emit(f"scf.yield {self._value(type_)} : {type_}")
        self.depth -= 1
        self._emit("}")
        self.values = saved
        self.values[type_].append(result)

    def _exchange(self, type_: str, value: str) -> str:
        barrier = "kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)"
        target, source = self._slot(), self._slot()
        self._emit(f"view.store {value}, %tile_{type_}[{target}] : {type_}, view<{LANES}x{type_}>")
        self._emit(barrier)
        loaded = self._fresh()
        self._emit(f"{loaded} = view.load %tile_{type_}[{source}] : view<{LANES}x{type_}> -> {type_}")
        self._emit(barrier)
        return loaded

    def _slot(self) -> str:
        """A permutation of the lanes: an odd multiple plus a shift, or an exclusive or."""
        r = self.random
        names = [self._fresh() for _ in range(4)]
        if r.random() < 0.3:
            self._emit(f"{names[0]} = index.constant {r.randrange(LANES)} : index")
            self._emit(f"{names[1]} = index.xori %lane, {names[0]} : index")
            return names[1]
        self._emit(f"{names[0]} = index.constant {r.randrange(1, LANES, 2)} : index")
        self._emit(f"{names[1]} = index.constant {r.randrange(LANES)} : index")
        self._emit(f"{names[2]} = index.madd %lane, {names[0]}, {names[1]} : index")
        self._emit(f"{names[3]} = index.andi {names[2]}, %c63 : index")
        return names[3]


def random_tile_kernel(seed: int) -> str:
    """The text of a module with one kernel ``@k`` over ``n >= 1`` elements."""
    return TileWriter(seed).kernel()
