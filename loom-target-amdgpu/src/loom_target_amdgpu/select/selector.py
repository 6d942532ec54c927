"""Selection of one kernel: live-ins, arguments, and the walk over its operations."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from loom.dialects.low import ops as low
from loom.facts.analysis import FunctionFacts
from loom.facts.integers import UNKNOWN, IntegerFacts
from loom.ir.attributes import Dictionary, SymbolRef
from loom.ir.core import Block, Op, Region, Value
from loom.ir.diagnostics import LoomError, fail
from loom.ir.records import evolve
from loom.ir.types import ADDRESSES, I1, RegType, ScalarType, ShapedType
from loom.low.machine import MemoryAccess
from loom.low.unused import drop_unused
from loom_target_amdgpu import abi
from loom_target_amdgpu.descriptors.lazy_set import TableSet
from loom_target_amdgpu.profiles import Processor
from loom_target_amdgpu.select.arith import Arith
from loom_target_amdgpu.select.emit import Emit
from loom_target_amdgpu.select.linear import Computed, Coordinate, Decomposer, Leaf, Product
from loom_target_amdgpu.select.positions import only_positions
from loom_target_amdgpu.select.values import (
    S1,
    S2,
    V1,
    Condition,
    Linear,
    Mask,
    Number,
    Root,
    ScalarTest,
    Selected,
    Vector,
    View,
    Word,
    constant,
    is_scalar,
)

Rule = Callable[["Selector", Op], None]
UNSIGNED32: Final = (0, (1 << 32) - 1)
SIGNED32: Final = (-(1 << 31), (1 << 31) - 1)
# Source dialect -> modules with its rules, those of common operations first.
_MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "scalar": (
        "scalar",
        "scalar_float",
        "conversions",
        "math_functions",
        "hyperbolic",
        "trigonometry",
        "error_function",
        "powers",
    ),
    "index": ("index",),
    "scf": ("control", "loops"),
    "encoding": ("layouts",),
    "buffer": ("memory", "kernel", "transfers"),
    "view": ("memory", "atomics"),
    "kernel": ("memory", "kernel", "collectives", "workgroup", "transfers"),
    "target": ("kernel",),
    "low": ("invoke",),
    "vector": (
        "vector_lanes",
        "vector_memory",
        "vector_reduce",
        "vector_bits",
        "vector_enabled",
        "encoded",
        "encode",
        "fragments",
        "matrix",
    ),
}
_AXES: Final = "xyz"


class RuleTable:
    """Selection rules by op name. A module with rules is imported when an operation may be in it."""

    def __init__(self) -> None:
        self._rules: dict[str, Rule] = {}
        self._waiting = {dialect: list(modules) for dialect, modules in _MODULES.items()}

    def get(self, name: str) -> Rule | None:
        """The rule of an operation, or ``None`` if there is none."""
        found = self._rules.get(name)
        if found is not None:
            return found
        waiting = self._waiting.get(name.partition(".")[0], [])
        while found is None and waiting:
            self._load(waiting.pop(0))
            found = self._rules.get(name)
        return found

    def _load(self, module: str) -> None:
        self._rules.update(importlib.import_module(f"loom_target_amdgpu.select.{module}").RULES)

    def names(self) -> frozenset[str]:
        """All operations with a rule."""
        for waiting in self._waiting.values():
            while waiting:
                self._load(waiting.pop(0))
        return frozenset(self._rules)


RULES: Final = RuleTable()


def _by_name(region: Region) -> dict[str, list[Op]]:
    """The operations of a region by name, in order."""
    found: dict[str, list[Op]] = {}
    for outer in region.ops():
        for op in outer.walk():
            found.setdefault(op.name, []).append(op)
    return found


class Selector:
    """Selects one kernel into the entry region of a Low kernel."""

    def __init__(
        self,
        kernel: Op,
        processor: Processor,
        target_facts: Mapping[str, object],
        descriptor_set: TableSet,
        region: Region,
        symbols: Mapping[str, Op],
    ) -> None:
        self.kernel = kernel
        self.processor = processor
        self.generation = processor.require_generation()
        self.wave = processor.wave
        self.facts = FunctionFacts(kernel, target_facts)
        self.emit = Emit(descriptor_set, region, self.generation.constant_bus)
        self.arith = Arith(self.emit)
        self.linear = Decomposer(self)
        self.symbols = symbols
        self.found = _by_name(kernel.regions[-1])
        """the operations of the body by name"""
        self.positions = only_positions(self.found, self.facts)
        """results that have no registers: accesses alone read them, as positions"""
        self.descriptor_set = descriptor_set
        self.layout = abi.layout_of(kernel.regions[-1].entry.args, kernel.loc)
        self.quiet: set[Value] = set()
        """f32 registers that are known to hold no signalling NaN, for another reason than where they are computed"""
        self.written: set[str] = set()
        self.disjoint: set[str] = set()
        self.divergent = 0
        self.guarded = True
        """whether a branch leads around code that no lane executes"""
        self.storage = {"workgroup": 0, "private": 0}
        self.mnemonics: dict[tuple[str, str], str] = {}
        """of global accesses by kind and suffix, as far as they were asked for"""
        self._values: dict[Value, Selected] = {}
        self._leaves: dict[tuple[Word, ...], Computed] = {}
        self._computed: dict[Computed, tuple[Number, IntegerFacts]] = {}
        self._coordinates: dict[Coordinate, IntegerFacts] = {}
        self._live_ins: dict[str, Value] = {}
        self._rules = RULES
        self._static_size = self.facts.static_workgroup_size

    # -- the whole kernel ----------------------------------------------------------------------------------------

    def run(self) -> None:
        """Select the kernel.

        Raises:
            LoomError: an operation or type that the target does not support.
        """
        from loom_target_amdgpu.select.memory import collect_writes

        body = self.kernel.regions[-1]
        self.written = collect_writes(self.kernel, self.found)
        self._entry()
        if len(body.blocks) > 1:
            from loom_target_amdgpu.select.blocks import select_cfg

            select_cfg(self, body)
        else:
            self.block(body.entry)

    def block(self, block: Block) -> Op | None:
        """Select the operations of a block; returns its terminator, which the caller handles (a return is done)."""
        builder = self.emit.builder
        for op in block:
            builder.loc = op.loc
            if "terminator" in op.spec.traits:
                if "return" in op.spec.traits:
                    self.emit.builder.ret()
                return op
            self.op(op)
        return None

    def op(self, op: Op) -> None:
        """Select one operation."""
        rule = self._rules.get(op.name)
        if rule is None:
            raise self.unsupported(op, f"'{op.name}' is not supported on {self.processor.name}")
        rule(self, op)

    def unsupported(self, op: Op, message: str, **params: Any) -> LoomError:
        """The diagnostic for something the target does not do."""
        return fail(
            "TARGET/001",
            message,
            op.loc,
            emitter="source-to-low",
            op_name=op.name,
            target_name=self.processor.name,
            **params,
        )

    # -- entry ---------------------------------------------------------------------------------------------------

    def _entry(self) -> None:
        """Live-ins, then the arguments that are used."""
        self.emit.at(self.kernel.loc)
        names = self._coordinate_names()
        needs_packet = self._needs_dispatch_packet()
        if needs_packet:
            self._live(abi.DISPATCH, S2, "dispatch")
        arguments = [a for a in self.kernel.regions[-1].entry.args if a.is_used or a.dependents]
        if arguments:
            self._live(abi.KERNARG, S2, "kernarg")
        for axis in _AXES:
            if f"workgroup.{axis}" in names:
                self._live(abi.WORKGROUP_ID + axis, S1, names[f"workgroup.{axis}"])
        used = [axis for axis in _AXES if f"workitem.{axis}" in names]
        if used == ["x"]:
            self._live(abi.WORKITEM_ID + "x", V1, names["workitem.x"])
        elif used:
            self._live("amdgpu.workitem_id.packed." + ("xyz" if "z" in used else "xy"), V1, "workitem")
        if self.descriptor_set.key.startswith("amdgpu.cdna"):
            self._live(abi.M0, RegType("amdgpu.m0"), "m0")
        for number, symbol in enumerate(self._constant_data()):
            immediates = Dictionary(symbol=SymbolRef(symbol))
            op = self.emit.builder.add(low.LiveIn([], [f"{abi.DATA}{number}", immediates], [S2]))
            op.results[0].name = symbol
            self._live_ins[abi.DATA + symbol] = self.emit.define(op.results[0])
        self._load_arguments(arguments)

    def _constant_data(self) -> list[str]:
        """The constant data that the kernel reads."""
        names = dict.fromkeys(str(load.attribute("symbol")) for load in self.found.get("global.load", ()))
        return [name for name in names if getattr(self.symbols.get(name), "name", "") == "global.rodata.def"]

    def _live(self, key: str, type_: RegType, name: str | None) -> None:
        self._live_ins[key] = self.emit.define(self.emit.builder.live_in(key, type_, name))

    def _coordinate_names(self) -> dict[str, str | None]:
        """Coordinates the kernel reads -> a name for the register."""
        from loom_target_amdgpu.select.kernel import COORDINATES_OF

        names: dict[str, str | None] = {}
        for name, kinds in COORDINATES_OF.items():
            for op in self.found.get(name, ()):
                for kind in kinds:
                    if kind in ("workgroup", "workitem"):
                        own = op.result.name if name == f"kernel.{kind}.id" else None
                        key = f"{kind}.{op.attribute('axis')}"
                        names[key] = names.get(key) or own
                    else:
                        for axis in self._flat_axes():
                            names.setdefault(f"workitem.{axis}", None)
        return names

    def _flat_axes(self) -> list[str]:
        """Axes along which a workgroup can be larger than one."""
        sizes = self._static_size
        return [axis for axis, size in zip(_AXES, sizes, strict=True) if size != 1] or ["x"]

    def _needs_dispatch_packet(self) -> bool:
        from loom_target_amdgpu.select.kernel import PACKET_OPS

        dynamic = None in self._static_size
        return any(name in self.found and (dynamic or wanted == "always") for name, wanted in PACKET_OPS.items())

    def live_in(self, key: str) -> Value:
        """A live-in that the entry has declared."""
        return self._live_ins[key]

    def _load_arguments(self, arguments: list[Value]) -> None:
        """Read the arguments that are used, as many as possible with one load."""
        used = set(arguments)
        kernel_args = self.kernel.regions[-1].entry.args
        left = [p for p in self.layout.parameters if kernel_args[p.index] in used]
        for start, size in abi.argument_loads(left, self.layout.size):
            access = MemoryAccess("kernarg", None, start, start + size, invariant=True)
            units = size // 4
            mnemonic = f"s_load_dword{'' if units == 1 else f'x{units}'}_offset_only"
            inside = [p for p in left if p.offset + p.size <= start + size]
            name = kernel_args[inside[0].index].name if inside[0].size == size else None
            loaded = self.emit.packet(mnemonic, self.live_in(abi.KERNARG), offset=start, access=access, name=name)[0]
            for parameter in inside:
                register = self.emit.slice(loaded, (parameter.offset - start) // 4, parameter.size // 4)
                self._set_argument(kernel_args[parameter.index], parameter, register)
            left = left[len(inside) :]

    def _set_argument(self, argument: Value, parameter: abi.Parameter, register: Value) -> None:
        type_ = argument.type
        if parameter.is_buffer:
            # Only what views demand is promised of the alignment.
            root = Root("global", register, 0, f"arg{parameter.index}", alignment=1)
            self._values[argument] = View(root, Linear(0), type_) if isinstance(type_, ShapedType) else root
            return
        assert isinstance(type_, ScalarType)
        if type_ is I1:
            bit = self.arith.binary("and", register, 1)
            self._values[argument] = ScalarTest("s_cmp_lg_i32", bit, 0)
            return
        words = self.emit.words(register)
        self._values[argument] = self.address(argument, words) if type_ in ADDRESSES else Number(words)

    # -- values --------------------------------------------------------------------------------------------------

    def set(self, value: Value, selected: Selected) -> None:
        """Remember what a source value became.

        A view that flows to a value is addressed as that value's type says: the extents and the layout it names are
        those of this iteration or join, not those of where the view comes from.
        """
        if isinstance(selected, View) and selected.type is not value.type and isinstance(value.type, ShapedType):
            selected = evolve(selected, type=value.type)
        self._values[value] = selected

    def get(self, value: Value) -> Selected:
        """What a source value became."""
        return self._values[value]

    def number(self, value: Value) -> Number:
        """A value that is a number; conditions become 0 or 1."""
        found = self._values[value]
        if isinstance(found, Number):
            return found
        if isinstance(found, bool | ScalarTest | Mask):
            return Number((self.condition_word(found),))
        raise AssertionError(f"{value} is no number")

    def condition(self, value: Value) -> Condition:
        """A value of type i1."""
        found = self._values[value]
        assert isinstance(found, bool | ScalarTest | Mask), value
        return found

    def condition_word(self, condition: Condition) -> Word:
        """A condition as 0 or 1."""
        if isinstance(condition, bool):
            return int(condition)
        if isinstance(condition, ScalarTest):
            return self.emit.op("s_cselect_b32_inline", self.arith.test(condition), true_value=1, false_value=0)
        return self.emit.op("v_cndmask_b32", 0, 1, condition.value)

    def uniform_word(self, word: Word, value: Value) -> Word:
        """The word in a scalar register if the value is the same in all lanes."""
        if is_scalar(word) or not self.facts.is_uniform(value):
            return word
        assert isinstance(word, Value)
        return self.emit.to_scalar(word)

    # -- addresses -----------------------------------------------------------------------------------------------

    def shape_of(self, facts: IntegerFacts) -> tuple[int, bool]:
        """Words that hold an address with these facts, and whether one word is sign-extended."""
        if facts.within(*UNSIGNED32):
            return 1, False
        if facts.within(*SIGNED32):
            return 1, True
        return 2, True

    def address(self, value: Value, words: tuple[Word, ...], signed: bool = False) -> Number:
        """An ``index`` or ``offset`` in as few words as its facts need."""
        count, sign = self.shape_of(self.facts.integer(value))
        if count < len(words):
            return Number(words[:count], sign)
        if count > len(words):
            return Number(self.extend(Number(words, signed)), True)
        return Number(words, sign)

    def extend(self, number: Number) -> tuple[Word, Word]:
        """An address as a pair of words."""
        if len(number.words) == 2:
            return number.words[0], number.words[1]
        return number.lo, self.arith.sign(number.lo) if number.signed else 0

    def exact(self, value: Value) -> Number | None:
        """A constant address, when facts settle it."""
        facts = self.facts.integer(value)
        exact = facts.exact
        if exact is None:
            return None
        count, signed = self.shape_of(facts)
        return constant(exact, count, signed)

    def static_size(self, axis: str) -> int | None:
        """Workgroup extent along an axis, if the launch configuration fixes it."""
        return self._static_size[_AXES.index(axis)]

    def coordinate_facts(self, leaf: Coordinate) -> IntegerFacts:
        """Facts of a launch coordinate."""
        found = self._coordinates.get(leaf)
        if found is None:
            limit: object = self.static_size(leaf.axis) or self.generation.max_workgroup
            if leaf.kind == "workgroup":
                limit = self.facts.target_facts.get(f"max_workgroup_count_{leaf.axis}")
            found = self._coordinates[leaf] = IntegerFacts(0, (limit if isinstance(limit, int) else 1 << 31) - 1)
        return found

    def coordinate(self, leaf: Coordinate) -> Word:
        """The register of a launch coordinate."""
        if leaf.kind == "workgroup":
            return self.live_in(abi.WORKGROUP_ID + leaf.axis)
        plain = self._live_ins.get(abi.WORKITEM_ID + "x")
        if plain is not None:
            return plain if leaf.axis == "x" else 0
        if self.static_size(leaf.axis) == 1:
            return 0
        packed = next(v for k, v in self._live_ins.items() if k in abi.PACKED)
        if leaf.axis == "x":
            return self.emit.op("v_and_b32", packed, 0x3FF)
        offset = 10 * _AXES.index(leaf.axis)
        if leaf.axis == "z":
            return self.emit.op("v_lshrrev_b32", offset, packed)
        return self.emit.op("v_bfe_u32_offset_width_inline", packed, offset=offset, width=10)

    def leaf_number(self, leaf: Leaf) -> Number:
        """The selected value of a leaf of a linear form."""
        if isinstance(leaf, Value):
            return self.number(leaf)
        if isinstance(leaf, Coordinate):
            return Number((self.coordinate(leaf),))
        if isinstance(leaf, Product):
            return self._product(leaf)
        return self._computed[leaf][0]

    def _product(self, leaf: Product) -> Number:
        left, right = self.number(leaf.left), self.number(leaf.right)
        facts = self.linear.leaf_facts(leaf, None)
        count, signed = self.shape_of(facts)
        if count == 1:
            narrow = all(self.facts.integer(v).within(0, (1 << 24) - 1) for v in (leaf.left, leaf.right))
            return Number((self.arith.multiply(left.lo, right.lo, narrow),), signed)
        return Number(self.arith.mul64(self.extend(left), self.extend(right)), True)

    def product_of(self, values: list[Value]) -> Linear:
        """The product of several values, as one leaf."""
        first = self.number(values[0])
        words = self.extend(first)
        for value in values[1:]:
            words = self.arith.mul64(words, self.extend(self.number(value)))
        return self.computed(Number(words, True))

    def computed(self, number: Number, facts: IntegerFacts = UNKNOWN) -> Linear:
        """A number as a leaf of its own."""
        exact = number.constant if len(number.words) == 1 or not number.scalar else None
        if exact is not None:
            return Linear(exact)
        leaf = self._leaves.get(number.words)
        if leaf is None:
            leaf = self._leaves[number.words] = Computed(number.words)
        self._computed[leaf] = number, facts
        return Linear(0, ((leaf, 1),))

    def computed_facts(self, leaf: Computed) -> IntegerFacts:
        """What is known of a leaf that selection computed."""
        return self._computed[leaf][1]

    def alias_root(self, root: Root) -> str | None:
        """Identity of a root for the scheduler; None while it may be the same memory as another."""
        return root.key if root.key in self.disjoint else None

    def m0_operand(self, mnemonic: str) -> list[Value]:
        """The M0 operand that some generations spell out."""
        if not self.descriptor_set.key.startswith("amdgpu.cdna"):
            return []
        declared = self.descriptor_set.by_mnemonic[mnemonic].operands
        return [self.live_in(abi.M0)] if any(o.name == "m0" for o in declared) else []

    # -- finishing -----------------------------------------------------------------------------------------------

    def eliminate_dead_code(self, blocks: Iterable[Block]) -> None:
        """Erase pure operations and loads whose results nobody uses, last ones first."""
        for op in drop_unused(blocks, self.descriptor_set, loads=True):
            self.emit.memory.pop(op, None)


__all__ = ["RULES", "Rule", "RuleTable", "Selector", "Vector"]
